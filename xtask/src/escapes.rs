//! The table of `docs/security.md`, from the scripts of `tests/escapes/`.
use std::fs;

use crate::{Done, root};

const BEGIN: &str = "<!-- made by cargo xtask docs from tests/escapes -->";

/// Writes the table anew, below what is written by hand.
pub(crate) fn table() -> Done {
    let path = root().join("docs/security.md");
    let text = fs::read_to_string(&path).map_err(|err| err.to_string())?;
    let head = text.split(BEGIN).next().unwrap_or_default();
    fs::write(path, format!("{head}{BEGIN}\n\n{}", rows()?)).map_err(|err| err.to_string())
}

/// One row a script.
pub(crate) fn rows() -> Result<String, String> {
    let folder = fs::read_dir(root().join("tests/escapes")).map_err(|err| err.to_string())?;
    let mut rows: Vec<String> = folder
        .filter_map(Result::ok)
        .filter_map(|it| {
            let text = fs::read_to_string(it.path()).ok()?;
            let field = |name: &str| text.lines().find_map(|it| it.strip_prefix(name)).unwrap_or_default().to_owned();
            let name = it.path().file_stem()?.to_string_lossy().into_owned();
            let control = if field("# control: ") == "yes" { "gets out" } else { "not tried" };
            let layer = if field("# bare bwrap stops it: ") == "yes" { "`bwrap`" } else { "sid" };
            Some(format!("| `{name}` | {} | {} | {layer} | {control} |\n", field("# tries: "), field("# stopped: ")))
        })
        .collect();
    rows.sort_unstable();
    let ours = rows.iter().filter(|it| it.contains("| sid |")).count();
    let sum =
        format!("{} scripts; {} are stopped by bare `bwrap`, {ours} by what sid adds to it.\n\n", rows.len(), rows.len() - ours);
    let head = "| script | tries to | stopped because | by | without the sandbox |\n| --- | --- | --- | --- | --- |\n";
    Ok(format!("{sum}{head}{}", rows.concat()))
}
