//! Output of unbounded length in bounded memory.

use crate::frames::Frames;

/// Keeps the first and the last half of what it is given, and how much fell out between.
#[derive(Debug)]
pub struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    omitted: u64,
    frames: Option<Frames>,
}

/// What was captured, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// The words, with a line in the middle if something was left out.
    pub text: String,
    /// Bytes left out.
    pub omitted: u64,
}

impl Capture {
    /// Room for `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self { half: cap / 2, head: Vec::new(), tail: std::collections::VecDeque::new(), omitted: 0, frames: None }
    }

    /// The same for output with marks in it.
    pub(crate) fn framed(cap: usize, frames: Frames) -> Self {
        Self { frames: Some(frames), ..Self::new(cap) }
    }

    /// Takes more output.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self.frames.as_mut().map(|it| it.strip(bytes)) {
            Some(stripped) => self.fill(&stripped),
            None => self.fill(bytes),
        }
    }

    fn fill(&mut self, mut bytes: &[u8]) {
        if self.tail.is_empty() && self.omitted == 0 {
            let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
        }
        if bytes.len() > self.half {
            self.omitted += (self.tail.len() + bytes.len() - self.half) as u64;
            self.tail.clear();
            bytes = &bytes[bytes.len() - self.half..];
        }
        self.tail.extend(bytes);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    /// Gives out what was captured and begins anew. While more may come, a character cut at the end is kept back.
    pub fn take(&mut self, more: More) -> Taken {
        let mut head = std::mem::take(&mut self.head);
        let mut tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        let omitted = std::mem::take(&mut self.omitted);
        let last = if tail.is_empty() { &mut head } else { &mut tail };
        if more == More::MayCome {
            let cut = last.len() - unfinished(last);
            self.head = last.split_off(cut);
        }
        if omitted == 0 {
            head.append(&mut tail);
            return Taken { text: String::from_utf8_lossy(&head).into_owned(), omitted };
        }
        head.truncate(head.len() - unfinished(&head));
        let start = tail.iter().take(3).take_while(|it| **it & 0xC0 == 0x80).count();
        let (head, tail) = (String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail[start..]));
        let gap = if head.ends_with('\n') || head.is_empty() { "" } else { "\n" };
        Taken { text: format!("{head}{gap}[… {omitted} bytes left out …]\n{tail}"), omitted }
    }

    /// Whether nothing is waiting to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.omitted == 0
    }
}

/// Whether the writer still lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// It does.
    MayCome,
    /// It is gone.
    Never,
}

/// Bytes at the end that begin a UTF-8 character and lack its rest.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let need = match byte {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if need > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_output_is_whole() {
        let mut it = Capture::new(100);
        it.feed("naïve ".as_bytes());
        it.feed("日本\n".as_bytes());
        assert_eq!(it.take(More::Never), Taken { text: "naïve 日本\n".into(), omitted: 0 });
        assert!(it.is_empty());
    }

    #[test]
    fn sh_07_a_flood_keeps_head_and_tail() {
        let mut it = Capture::new(20);
        for n in 0..100_000 {
            it.feed(format!("{n}\n").as_bytes());
        }
        let taken = it.take(More::Never);
        assert!(taken.text.starts_with("0\n1\n2\n3\n4\n[… ") && taken.text.ends_with("…]\n998\n99999\n"), "{}", taken.text);
        assert_eq!(taken.omitted, 588_890 - 20);
        it.feed(&[b'x'; 1000]);
        assert_eq!(it.take(More::Never).omitted, 980);
    }

    #[test]
    fn st_01_characters_cut_anywhere_survive() {
        let text = "naïve 日本 🙂 end";
        for cut in 0..text.len() {
            let mut it = Capture::new(1000);
            it.feed(&text.as_bytes()[..cut]);
            let first = it.take(More::MayCome).text;
            it.feed(&text.as_bytes()[cut..]);
            assert_eq!(first + &it.take(More::Never).text, text, "{cut}");
        }
        let mut it = Capture::new(9);
        it.feed("日本日本日本".as_bytes());
        assert!(!it.take(More::Never).text.contains('\u{fffd}'));
    }
}
