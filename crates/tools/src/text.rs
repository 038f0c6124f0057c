//! Text files of any encoding, without losing a byte.
use encoding_rs::{Encoding as Legacy, UTF_16BE, UTF_16LE, WINDOWS_1252};
use unicode_normalization::UnicodeNormalization as _;

/// How the characters of a file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    Legacy(&'static Legacy),
}

/// A file's characters, and how to store them again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    encoding: Encoding,
    mark: bool,
}

/// A file that can't be taken for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binary;

impl Text {
    /// Finds the encoding; the result stores back to the very same bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Binary> {
        let it = Self::guess(bytes).ok_or(Binary)?;
        match it.encode(&it.text) {
            Ok(again) if again == bytes => Ok(it),
            _ => Err(Binary),
        }
    }

    fn guess(bytes: &[u8]) -> Option<Self> {
        let marks: [(&[u8], Encoding); 3] =
            [(b"\xEF\xBB\xBF", Encoding::Utf8), (b"\xFF\xFE", Encoding::Utf16Le), (b"\xFE\xFF", Encoding::Utf16Be)];
        for (mark, encoding) in marks {
            if let Some(rest) = bytes.strip_prefix(mark) {
                return Some(Self { text: decode(encoding, rest)?, encoding, mark: true });
            }
        }
        if let Ok(text) = std::str::from_utf8(bytes)
            && !looks_wide(bytes)
        {
            return Some(Self { text: text.to_owned(), encoding: Encoding::Utf8, mark: false });
        }
        if bytes.contains(&0) {
            let nul = |odd: usize| bytes.iter().skip(odd).step_by(2).filter(|it| **it == 0).count();
            let encoding = if nul(1) >= nul(0) { Encoding::Utf16Le } else { Encoding::Utf16Be };
            let wide = looks_wide(bytes).then(|| decode(encoding, bytes)).flatten()?;
            return Some(Self { text: wide, encoding, mark: false });
        }
        let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
        detector.feed(bytes, true);
        let guessed = detector.guess(None, chardetng::Utf8Detection::Deny);
        [guessed, WINDOWS_1252].into_iter().find_map(|it| {
            let text = it.decode_without_bom_handling_and_without_replacement(bytes)?.into_owned();
            let (again, _, lossy) = it.encode(&text);
            (!lossy && again == bytes).then_some(Self { text, encoding: Encoding::Legacy(it), mark: false })
        })
    }

    /// Stores `text` in this file's encoding.
    ///
    /// # Errors
    /// The first character that the encoding lacks.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        let mut out = Vec::with_capacity(text.len() + 3);
        match self.encoding {
            Encoding::Utf8 => {
                out.extend_from_slice(if self.mark { b"\xEF\xBB\xBF" } else { b"" });
                out.extend_from_slice(text.as_bytes());
            }
            Encoding::Utf16Le => {
                out.extend_from_slice(if self.mark { b"\xFF\xFE" } else { b"" });
                out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
            }
            Encoding::Utf16Be => {
                out.extend_from_slice(if self.mark { b"\xFE\xFF" } else { b"" });
                out.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
            }
            Encoding::Legacy(legacy) => {
                let (bytes, _, lossy) = legacy.encode(text);
                if lossy {
                    let lost = text.chars().find(|it| legacy.encode(&it.to_string()).2);
                    return Err(lost.unwrap_or('\u{fffd}'));
                }
                out.extend_from_slice(&bytes);
            }
        }
        Ok(out)
    }

    /// The encoding's name, if it is worth a word.
    pub(crate) fn unusual(&self) -> Option<&'static str> {
        match self.encoding {
            Encoding::Utf8 => None,
            Encoding::Utf16Le => Some("UTF-16LE"),
            Encoding::Utf16Be => Some("UTF-16BE"),
            Encoding::Legacy(it) => Some(it.name()),
        }
    }
}

fn decode(encoding: Encoding, bytes: &[u8]) -> Option<String> {
    let text = match encoding {
        Encoding::Utf8 => return String::from_utf8(bytes.to_vec()).ok(),
        Encoding::Utf16Le => UTF_16LE.decode_without_bom_handling_and_without_replacement(bytes)?,
        Encoding::Utf16Be => UTF_16BE.decode_without_bom_handling_and_without_replacement(bytes)?,
        Encoding::Legacy(it) => it.decode_without_bom_handling_and_without_replacement(bytes)?,
    };
    Some(text.into_owned())
}

/// Whether every other byte is mostly zero, as Latin text in UTF-16 is.
fn looks_wide(bytes: &[u8]) -> bool {
    let zeros = |odd: usize| bytes.iter().skip(odd).step_by(2).filter(|it| **it == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    bytes.len() >= 4
        && bytes.len().is_multiple_of(2)
        && even.max(odd) * 10 >= bytes.len() * 3
        && even.min(odd) * 10 <= even.max(odd)
}

/// Why a replacement can't be made, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It isn't there; perhaps a hint where it nearly is.
    NotFound(Option<String>),
    /// It is there that often.
    Ambiguous(usize),
}

/// Replaces `old` by `new` in `text`, once or everywhere. Line ends in `old` and `new` mean the file's own; everything
/// outside the places found stays byte for byte.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: All) -> Result<(String, usize), Miss> {
    let mut found: Vec<(usize, usize)> = text.match_indices(old).map(|(at, it)| (at, at + it.len())).collect();
    if found.is_empty() && (text.contains('\r') || old.contains('\r')) {
        found = matches_modulo_line_ends(text, old);
    }
    if found.is_empty() {
        return Err(Miss::NotFound(hint(text, old)));
    }
    if found.len() > 1 && all == All::OnlyOne {
        return Err(Miss::Ambiguous(found.len()));
    }
    let mut out = String::with_capacity(text.len() + new.len());
    let mut from = 0;
    for (start, end) in &found {
        out.push_str(&text[from..*start]);
        out.push_str(&with_line_ends(new, line_end_at(text, *start)));
        from = *end;
    }
    out.push_str(&text[from..]);
    Ok((out, found.len()))
}

/// Whether a replacement is made everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum All {
    Every,
    OnlyOne,
}

/// Matches with CRLF, CR and LF taken for the same, as spans of `text`.
fn matches_modulo_line_ends(text: &str, old: &str) -> Vec<(usize, usize)> {
    let (flat, places) = flatten(text);
    let (old, _) = flatten(old);
    flat.match_indices(&old).map(|(at, it)| (places[at], places[at + it.len()])).collect()
}

/// `text` with LF only, and for each byte (and the end) its place in `text`.
fn flatten(text: &str) -> (String, Vec<usize>) {
    let (mut flat, mut places) = (String::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
    let mut chars = text.char_indices().peekable();
    while let Some((at, it)) = chars.next() {
        if it == '\r' {
            chars.next_if(|(_, next)| *next == '\n');
            flat.push('\n');
            places.push(at);
        } else {
            flat.push(it);
            places.extend(at..at + it.len_utf8());
        }
    }
    places.push(text.len());
    (flat, places)
}

/// How the line at `at` ends; the last line ends as the one before it.
pub(crate) fn line_end_at(text: &str, at: usize) -> &'static str {
    let end = |part: &str| -> Option<&'static str> {
        let it = part.find(['\n', '\r'])?;
        Some(if part[it..].starts_with("\r\n") {
            "\r\n"
        } else if part[it..].starts_with('\r') {
            "\r"
        } else {
            "\n"
        })
    };
    let old_mac = |it: &&'static str| *it != "\r" || !text.contains('\n');
    if let Some(it) = end(&text[at..]).filter(old_mac) {
        return it;
    }
    let before = text[..at].rfind('\n');
    match before {
        Some(it) if text[..it].ends_with('\r') => "\r\n",
        None if text.contains('\r') && !text.contains('\n') => "\r",
        _ => "\n",
    }
}

pub(crate) fn with_line_ends(new: &str, end: &str) -> String {
    if end == "\n" {
        return new.to_owned();
    }
    flatten(new).0.replace('\n', end)
}

/// Where `old` nearly is.
fn hint(text: &str, old: &str) -> Option<String> {
    let first = old.lines().map(str::trim).find(|it| !it.is_empty())?;
    if let Some(n) = text.lines().position(|it| it.trim() == first) {
        return Some(format!("Line {} is the same apart from white space; compare it character by character.", n + 1));
    }
    let folded = fold(first);
    let n = text.lines().position(|it| fold(it.trim()).contains(&folded))?;
    Some(format!(
        "Line {} has the same words in other Unicode characters (composed or decomposed accents, typographic quotes or dashes); \
         copy it exactly as it was read.",
        n + 1
    ))
}

fn fold(text: &str) -> String {
    text.nfc()
        .map(|it| match it {
            '\u{2018}'..='\u{201b}' => '\'',
            '\u{201c}'..='\u{201f}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' => ' ',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
        let it = Text::decode(bytes).unwrap();
        let (text, _) = replace(&it.text, old, new, All::OnlyOne).unwrap();
        it.encode(&text).unwrap()
    }

    #[test]
    fn ed_01_a_crlf_file_keeps_its_line_ends() {
        let got = edited(b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "one\nTWO\nnew");
        assert_eq!(got, b"one\r\nTWO\r\nnew\r\nthree\r\n");
        assert_eq!(edited(b"a\r\nb", "b", "b\nc"), b"a\r\nb\r\nc");
        assert_eq!(edited(b"a\nb\n", "a\r\nb", "a\r\nc"), b"a\r\nc\n");
        assert_eq!(edited(b"a\rb\rc", "a\nb", "x\ny"), b"x\ry\rc");
    }

    #[test]
    fn ed_02_lines_not_asked_for_stay() {
        let log = b"a\r\nb\nprog 1%\rprog 2%\nend\n";
        assert_eq!(edited(log, "end", "END"), b"a\r\nb\nprog 1%\rprog 2%\nEND\n");
        assert_eq!(edited(log, "prog 1%", "x\ny"), b"a\r\nb\nx\ny\rprog 2%\nend\n");
    }

    #[test]
    fn ed_04_marks_and_encodings_stay() {
        assert_eq!(edited(b"\xEF\xBB\xBFint x;\r\nint y;\r\n", "int x;", "int z;"), b"\xEF\xBB\xBFint z;\r\nint y;\r\n");
        let wide: Vec<u8> = [0xFF, 0xFE].into_iter().chain("héllo\r\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        let want: Vec<u8> = [0xFF, 0xFE].into_iter().chain("hallo 🙂\r\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(edited(&wide, "héllo", "hallo 🙂"), want);
        let bare: Vec<u8> = "plain text\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let want: Vec<u8> = "plain words\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(edited(&bare, "text", "words"), want);
        assert_eq!(edited(b"caf\xE9 au lait\n", "lait", "th\u{e9}"), b"caf\xE9 au th\xE9\n");
    }

    #[test]
    fn a_character_the_encoding_lacks_is_named() {
        let it = Text::decode(b"caf\xE9 au lait, tr\xE8s bon\n").unwrap();
        assert_eq!(it.encode("日本"), Err('日'));
    }

    #[test]
    fn what_would_not_round_trip_is_binary() {
        for bytes in
            [&b"\x00\x01\x02\x03\xff\xfe"[..], b"\xFF\xFE\x00\xD8", b"\xFF\xFEa", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff"]
        {
            assert_eq!(Text::decode(bytes), Err(Binary), "{bytes:?}");
        }
    }

    #[test]
    fn ed_07_the_final_newline_stays_as_it_is() {
        assert_eq!(edited(b"a\nb", "a", "A"), b"A\nb");
        assert_eq!(edited(b"a\nb\n", "b", "B"), b"a\nB\n");
    }

    #[test]
    fn ed_13_look_alikes_are_never_normalised() {
        let file = "say “hi” — it’s\nname = e\u{301}te\u{301}\n";
        assert_eq!(edited(file.as_bytes(), "say ", "tell "), file.replace("say ", "tell ").as_bytes());
        let Err(Miss::NotFound(Some(hint))) = replace(file, "\u{e9}t\u{e9}", "hiver", All::OnlyOne) else { panic!() };
        assert!(hint.contains("Line 2") && hint.contains("Unicode"), "{hint}");
    }

    #[test]
    fn misses_say_why() {
        assert_eq!(replace("a a", "a", "b", All::OnlyOne), Err(Miss::Ambiguous(2)));
        assert_eq!(replace("a a", "a", "b", All::Every), Ok(("b b".into(), 2)));
        let Err(Miss::NotFound(Some(hint))) = replace("  fn x() {\n", "fn x() {\n  y", "", All::OnlyOne) else { panic!() };
        assert!(hint.contains("Line 1"), "{hint}");
    }
}
