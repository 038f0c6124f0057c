//! Skills: folders with a `SKILL.md`, which agents are shown as `/skills/ID/SKILL.md` (sid's manual, SKILLS).
use std::path::{Path, PathBuf};

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name: that of its folder.
    pub id: String,
    /// Its folder, as it really is.
    pub dir: PathBuf,
}

/// The file that makes a folder a skill.
pub const SKILL: &str = "SKILL.md";

/// The skills of `SID_SKILLS_PATH`, else of the configuration's own folder, by name; of two with one name the earlier folder's.
pub(super) fn skills(root: &Path, path: Option<&str>) -> Vec<Skill> {
    let list = path.filter(|it| !it.trim().is_empty());
    let dirs = match list {
        Some(list) => list.split(':').filter(|it| !it.is_empty()).map(PathBuf::from).collect(),
        None => vec![root.join("skills")],
    };
    let mut out: Vec<Skill> = Vec::new();
    for entry in dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().filter_map(Result::ok) {
        let id = entry.file_name().to_string_lossy().into_owned();
        let Ok(dir) = std::fs::canonicalize(entry.path()) else { continue };
        if dir.join(SKILL).is_file() && !out.iter().any(|it| it.id == id) {
            out.push(Skill { id, dir });
        }
    }
    out.sort_by(|a, b| a.id.cmp(&b.id));
    out
}
