//! `sid-skill-inject`: a hook that adds the skills which a message names by `$` (sid's manual, SKILLS).
use std::{ffi::OsString, fs, path::PathBuf};

/// Names that are variables of every shell.
const VARIABLES: &[&str] = &["PATH", "HOME", "USER", "SHELL", "PWD", "TMPDIR", "TEMP", "TMP", "LANG", "TERM", "XDG_CONFIG_HOME"];

/// Does the subcommand. What it returns is for standard output; `None`: it is not understood.
///
/// # Errors
/// A file or a variable is not as it must be.
pub fn inject(subcommand: Option<&str>, var: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<String>, String> {
    let needed = |name: &str| var(name).ok_or_else(|| format!("the variable {name} is not set"));
    let prefix = needed("RCVAR_ARGV0")?.to_string_lossy().into_owned();
    let names = [format!("{prefix}_USER_MESSAGE_FILE"), format!("{prefix}_SKILLS_MANIFEST_FILE")];
    match subcommand {
        Some("rcvar") => return Ok(Some(names.map(|it| it + "\n").concat())),
        Some("run") => {}
        _ => return Ok(None),
    }
    let read = |name: &str| {
        let path = PathBuf::from(needed(name)?);
        fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))
    };
    let (message, manifest) = (read(&names[0])?, read(&names[1])?);
    let mut blocks = Vec::new();
    for (n, row) in manifest.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
        let fields: Vec<&str> = row.split('\t').collect();
        let [id, path, file] = fields[..] else {
            return Err(format!("line {} of the manifest has {} fields; it must have 3", n + 1, fields.len()));
        };
        if mentions(&message, id) {
            let text = fs::read_to_string(file).map_err(|err| format!("{file}: {err}"))?;
            let end = if text.ends_with('\n') { "" } else { "\n" };
            blocks.push(format!("<skill>\n<name>{id}</name>\n<path>{path}</path>\n{text}{end}</skill>\n"));
        }
    }
    Ok(Some(blocks.join("\n")))
}

/// Whether `$id` is in the text, and not only as the beginning of a longer name.
fn mentions(text: &str, id: &str) -> bool {
    let part = |it: char| it.is_ascii_alphanumeric() || "_:-".contains(it);
    let may = !id.is_empty() && id.chars().all(part) && !VARIABLES.iter().any(|it| it.eq_ignore_ascii_case(id));
    let mark = format!("${id}");
    may && text.match_indices(&mark).any(|(at, it)| !text[at + it.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_mentioned_by_its_whole_name() {
        for (text, yes) in [
            ("use $rust here", true),
            ("$rust", true),
            ("a$rust, please", true),
            ("$rust-extra", false),
            ("$rusty", false),
            ("rust", false),
            ("$rust-extra and $rust.", true),
        ] {
            assert_eq!(mentions(text, "rust"), yes, "{text}");
        }
        assert!(!mentions("$PATH", "PATH") && !mentions("$path", "path"));
    }
}
