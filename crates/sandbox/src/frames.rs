//! What a shell that stays prints of sid's own between the output of commands: how one ended, and that its state is written.
use tokio::sync::watch;

/// Begins and ends a mark; no terminal shows it, and hardly a program prints it.
const EDGE: u8 = 0x1e;
/// No mark is longer.
const LONGEST: usize = 96;

/// How far the shell has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last command that ended, and its code.
    pub(crate) ended: Option<(u64, i32)>,
    /// The last command after which the state was written.
    pub(crate) saved: u64,
}

/// Takes marks out of a stream, wherever its pieces are cut.
#[derive(Debug)]
pub(crate) struct Frames {
    name: String,
    held: Vec<u8>,
    progress: watch::Sender<Progress>,
}

impl Frames {
    /// Takes out marks that begin with `name`.
    pub(crate) fn new(name: &str) -> (Self, watch::Receiver<Progress>) {
        let (progress, seen) = watch::channel(Progress::default());
        (Self { name: name.to_owned(), held: Vec::new(), progress }, seen)
    }

    /// The bytes without marks. The beginning of one is kept back.
    pub(crate) fn strip(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.held.is_empty() && !bytes.contains(&EDGE) {
            return bytes.to_vec();
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(all.len());
        let mut rest = &all[..];
        while let Some(at) = rest.iter().position(|it| *it == EDGE) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let end = rest[1..].iter().position(|it| *it == EDGE).map(|it| it + 1);
            match end {
                Some(end) if self.mark(&rest[1..end]) => rest = &rest[end + 1..],
                None if rest.len() < LONGEST && self.may_be_mark(&rest[1..]) => {
                    self.held = rest.to_vec();
                    return out;
                }
                _ => {
                    out.push(EDGE);
                    rest = &rest[1..];
                }
            }
        }
        out.extend_from_slice(rest);
        out
    }

    fn may_be_mark(&self, begun: &[u8]) -> bool {
        let name = self.name.as_bytes();
        let both = begun.len().min(name.len());
        begun[..both] == name[..both]
    }

    /// Reads one; `false`: it is none.
    fn mark(&self, text: &[u8]) -> bool {
        let Some((number, what)) = std::str::from_utf8(text).ok().and_then(|it| it.strip_prefix(&self.name)?.split_once(' '))
        else {
            return false;
        };
        let Ok(number) = number.trim_start_matches('.').parse() else { return false };
        self.progress.send_modify(|it| match what.parse() {
            Ok(code) => it.ended = Some((number, code)),
            Err(_) => it.saved = number,
        });
        true
    }
}

/// A name that nobody can guess. Without randomness it is only not the same everywhere.
pub(crate) fn unguessable() -> String {
    let mut bytes = u128::from(std::process::id()).to_le_bytes();
    let _weaker = std::fs::File::open("/dev/urandom").and_then(|mut it| std::io::Read::read_exact(&mut it, &mut bytes));
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_out_wherever_the_pieces_are_cut() {
        let text = b"one\x1eab.1 0\x1etwo\x1e\x1eother\x1eab.1 saved\x1ethree \x1eab.x\x1e\n";
        for cut in 0..text.len() {
            let (mut it, seen) = Frames::new("ab");
            let mut out = it.strip(&text[..cut]);
            out.extend(it.strip(&text[cut..]));
            assert_eq!(out, b"onetwo\x1e\x1eotherthree \x1eab.x\x1e\n", "cut at {cut}");
            assert_eq!(*seen.borrow(), Progress { ended: Some((1, 0)), saved: 1 });
        }
    }

    #[test]
    fn what_only_begins_like_a_mark_is_given_out_in_time() {
        let (mut it, _seen) = Frames::new("ab");
        assert_eq!(it.strip(b"x\x1eac"), b"x\x1eac");
        assert_eq!(it.strip(b"x\x1eab"), b"x");
        assert_eq!(it.strip(&[b'y'; 200]), [b"\x1eab".as_slice(), &[b'y'; 200]].concat());
    }
}
