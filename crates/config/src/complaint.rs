use std::{fmt, path::PathBuf};

/// What is wrong in a configuration file, where, and what may have been meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong.
    pub text: String,
    /// What may have been meant.
    pub hint: Option<String>,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.text)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// The nearest of `names` to `wrong`, if one is near.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = names.map(|it| (strsim::damerau_levenshtein(wrong, it), it)).min()?;
    (distance <= 1 + wrong.len() / 4).then_some(name)
}
