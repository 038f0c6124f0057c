//! Differences between texts: as a unified diff, and that diff made readable (`sidiff`).
use similar::{ChangeTag, TextDiff};

/// Lines around a change.
const CONTEXT: usize = 3;

/// A unified diff; empty if nothing differs.
#[must_use]
pub fn unified(name: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().context_radius(CONTEXT).header(&format!("a/{name}"), &format!("b/{name}")).to_string()
}

/// How a diff is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns; longer lines are folded. 0: as they are.
    pub width: usize,
    /// Colours and bold face.
    pub color: Color,
}

/// Whether escape sequences are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// They are.
    On,
    /// They are not: words that changed stand between `[-` and `-]`, `{+` and `+}`.
    Off,
}

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const BOLD: &str = "\u{1b}[1m";
const STRONG: &str = "\u{1b}[7m";
const WEAK: &str = "\u{1b}[27m";
const PLAIN: &str = "\u{1b}[0m";

/// A unified diff with line numbers, and the words that changed within lines marked.
#[must_use]
pub fn render(text: &str, look: Look) -> String {
    let mut it = Renderer { look, out: String::new(), old: 0, new: 0, removed: Vec::new(), added: Vec::new() };
    text.lines().for_each(|line| it.line(line));
    it.flush();
    it.out
}

struct Renderer {
    look: Look,
    out: String,
    old: usize,
    new: usize,
    removed: Vec<String>,
    added: Vec<String>,
}

impl Renderer {
    fn line(&mut self, line: &str) {
        let inside = self.old > 0 || self.new > 0;
        if let Some(removed) = line.strip_prefix('-').filter(|_| inside && !line.starts_with("--- ")) {
            if !self.added.is_empty() {
                self.flush();
            }
            return self.removed.push(removed.to_owned());
        }
        if let Some(added) = line.strip_prefix('+').filter(|_| inside && !line.starts_with("+++ ")) {
            return self.added.push(added.to_owned());
        }
        self.flush();
        if let Some((old, new)) = hunk(line) {
            (self.old, self.new) = (old, new);
            self.heading(line);
        } else if let Some(same) = line.strip_prefix(' ').filter(|_| inside) {
            let (old, new) = (self.old.to_string(), self.new.to_string());
            self.row(&old, &new, ' ', "", same);
            self.old += 1;
            self.new += 1;
        } else if line.starts_with('\\') {
            self.out.push_str(&format!("            {line}\n"));
        } else {
            (self.old, self.new) = (0, 0);
            self.heading(line);
        }
    }

    fn heading(&mut self, line: &str) {
        match self.look.color {
            Color::On => self.out.push_str(&format!("{BOLD}{line}{PLAIN}\n")),
            Color::Off => self.out.push_str(&format!("{line}\n")),
        }
    }

    /// Puts out a block of changes: lines that answer each other show what changed in them.
    fn flush(&mut self) {
        let (removed, added) = (std::mem::take(&mut self.removed), std::mem::take(&mut self.added));
        let pairs = if removed.len() == added.len() { removed.len() } else { 0 };
        let words: Vec<(String, String)> = (0..pairs).map(|n| self.words(&removed[n], &added[n])).collect();
        for (n, line) in removed.iter().enumerate() {
            let shown = words.get(n).map_or(line, |it| &it.0).clone();
            let number = self.old.to_string();
            self.row(&number, "", '-', RED, &shown);
            self.old += 1;
        }
        for (n, line) in added.iter().enumerate() {
            let shown = words.get(n).map_or(line, |it| &it.1).clone();
            let number = self.new.to_string();
            self.row("", &number, '+', GREEN, &shown);
            self.new += 1;
        }
    }

    /// Both lines with what changed marked; as they are if little is the same.
    fn words(&self, old: &str, new: &str) -> (String, String) {
        let diff = TextDiff::from_unicode_words(old, new);
        if diff.ratio() < 0.4 {
            return (old.to_owned(), new.to_owned());
        }
        let (mut before, mut after) = (String::new(), String::new());
        let marks = match self.look.color {
            Color::On => [(STRONG, WEAK), (STRONG, WEAK)],
            Color::Off => [("[-", "-]"), ("{+", "+}")],
        };
        let mut open: [bool; 2] = [false; 2];
        for change in diff.iter_all_changes() {
            let (changed, sides): ([bool; 2], [bool; 2]) = match change.tag() {
                ChangeTag::Equal => ([false; 2], [true; 2]),
                ChangeTag::Delete => ([true, false], [true, false]),
                ChangeTag::Insert => ([false, true], [false, true]),
            };
            for (n, side) in [&mut before, &mut after].into_iter().enumerate().filter(|(n, _)| sides[*n]) {
                if open[n] != changed[n] {
                    side.push_str(if changed[n] { marks[n].0 } else { marks[n].1 });
                    open[n] = changed[n];
                }
                side.push_str(change.value());
            }
        }
        for (n, side) in [&mut before, &mut after].into_iter().enumerate() {
            if open[n] {
                side.push_str(marks[n].1);
            }
        }
        (before, after)
    }

    fn row(&mut self, old: &str, new: &str, sign: char, color: &str, text: &str) {
        let head = format!("{old:>4} {new:>4} {sign} ");
        let room = if self.look.width == 0 { usize::MAX } else { self.look.width.saturating_sub(head.len()).max(20) };
        for (n, piece) in folded(text, room).into_iter().enumerate() {
            let head = if n == 0 { head.clone() } else { format!("{:>9} {sign} ", "") };
            match self.look.color {
                Color::On if !color.is_empty() => self.out.push_str(&format!("{head}{color}{piece}{PLAIN}\n")),
                _ => self.out.push_str(&format!("{head}{piece}\n")),
            }
        }
    }
}

/// Pieces of at most `room` columns; escape sequences take none.
fn folded(text: &str, room: usize) -> Vec<String> {
    let (mut out, mut piece, mut used) = (Vec::new(), String::new(), 0);
    let mut chars = text.chars();
    while let Some(it) = chars.next() {
        if it == '\u{1b}' {
            piece.push(it);
            for more in chars.by_ref() {
                piece.push(more);
                if more.is_ascii_alphabetic() {
                    break;
                }
            }
            continue;
        }
        let columns = unicode_width::UnicodeWidthChar::width(it).unwrap_or(0);
        if used + columns > room {
            out.push(std::mem::take(&mut piece));
            used = 0;
        }
        piece.push(it);
        used += columns;
    }
    out.push(piece);
    out
}

/// Where the hunk begins, in both files.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let mut words = line.strip_prefix("@@ -")?.split(' ');
    let first = |it: &str| it.split(',').next()?.parse().ok();
    let old = first(words.next()?)?;
    Some((old, first(words.next()?.strip_prefix('+')?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_lines_by_number_and_the_words_that_changed() {
        let before = "one\ntwo words here\nthree\n";
        let diff = unified("a.txt", before, "one\ntwo other here\nthree\nfour\n");
        assert!(diff.starts_with("--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n"), "{diff}");
        let plain = render(&diff, Look { width: 0, color: Color::Off });
        assert!(plain.contains("   2      - two [-words-] here\n        2 + two {+other+} here\n"), "{plain}");
        assert!(plain.contains("   3    3   three\n        4 + four\n"), "{plain}");
        let colored = render(&diff, Look { width: 0, color: Color::On });
        assert!(colored.contains("two \u{1b}[7mother\u{1b}[27m here"), "{colored:?}");
        assert_eq!(unified("a", before, before), "");
    }

    #[test]
    fn long_lines_are_folded_to_the_terminal() {
        let diff = unified("a", "", &format!("{}日本\n", "x".repeat(40)));
        let shown = render(&diff, Look { width: 40, color: Color::Off });
        assert!(shown.lines().all(|it| unicode_width::UnicodeWidthStr::width(it) <= 40), "{shown}");
        assert_eq!(shown.lines().count(), 5, "{shown}");
    }

    #[test]
    fn lines_that_look_like_headings_are_lines() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- removed\n+++ added\n context\n";
        let shown = render(diff, Look { width: 0, color: Color::Off });
        assert!(shown.contains("context"), "{shown}");
    }
}
