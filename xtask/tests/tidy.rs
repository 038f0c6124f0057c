//! What the house rules ask of the tree itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All files that Git would keep.
fn files() -> Vec<PathBuf> {
    let out = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    String::from_utf8(out.stdout)
        .unwrap()
        .split('\0')
        .filter(|it| !it.is_empty())
        .map(|it| root().join(it))
        .filter(|it| it.exists())
        .collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    let rust = files().into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs"));
    rust.map(|it| (it.clone(), fs::read_to_string(it).unwrap())).collect()
}

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--no-deps"])
        .current_dir(root())
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

/// What each crate of ours uses of the others, tests aside.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let short = |it: &Value| it.as_str().unwrap().trim_start_matches("sid-").replace("sid", "cli");
    let ours = |it: &Value| it["path"].is_string();
    let uses = |it: &Value| {
        it["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| ours(it) && it["kind"].is_null())
            .map(|it| short(&it["name"]))
            .collect()
    };
    metadata()["packages"].as_array().unwrap().iter().map(|it| (short(&it["name"]), uses(it))).collect()
}

#[test]
fn the_table_of_the_architecture_is_the_dependency_graph() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let section = text.split("## Crates").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|it| it.starts_with("| `")).map(|it| it.split('|').map(str::trim).collect::<Vec<_>>());
    let table: BTreeMap<String, BTreeSet<String>> = rows.map(|it| (it[1].trim_matches('`').to_owned(), words(it[3]))).collect();
    assert_eq!(table, graph());
}

#[test]
fn files_are_split_by_meaning() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 800, "{} has {lines} lines", path.display());
    }
}

#[test]
fn nothing_is_left_over() {
    let marks = [
        ["to", "do!("].concat(),
        ["db", "g!("].concat(),
        ["unimplem", "ented!("].concat(),
        ["#[ign", "ore"].concat(),
        ["FIX", "ME"].concat(),
    ];
    for (path, text) in sources() {
        for mark in &marks {
            assert!(!text.contains(mark), "{}: {mark}", path.display());
        }
    }
}

#[test]
fn the_lock_file_stays_small() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= 400, "{packages} packages");
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let reasons = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let names = table.lines().filter_map(|it| it.split_once(" = ")).map(|(name, _)| name).filter(|it| !it.starts_with("sid-"));
    for name in names {
        assert!(reasons.contains(&format!("`{name}`")), "{name} is not in docs/dependencies.md");
    }
}

#[test]
fn every_crate_takes_the_lints_and_says_what_it_is() {
    for (path, text) in sources() {
        let top = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        assert!(!top || text.starts_with("//!"), "{} does not say what it is", path.display());
    }
    for it in metadata()["packages"].as_array().unwrap() {
        let manifest = fs::read_to_string(it["manifest_path"].as_str().unwrap()).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true") || manifest.contains("[lints.rust]"), "{}", it["name"]);
        assert_eq!(it["license"], "Apache-2.0", "{}", it["name"]);
    }
}

#[test]
fn formatting_and_lints_hold() {
    let run = |args: &[&str]| {
        Command::new(env!("CARGO"))
            .args(args)
            .current_dir(root())
            .env("CARGO_TARGET_DIR", root().join("target/lint"))
            .output()
            .unwrap()
    };
    let format = run(&["fmt", "--all", "--check"]);
    assert!(format.status.success(), "run `cargo fmt`: {}", String::from_utf8_lossy(&format.stdout));
    let lint = run(&["clippy", "--offline", "-q", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stderr));
}

/// `file::test` of docs/permissions.md: a test function of that name in a file of that name.
#[test]
fn every_claim_of_the_documents_names_a_test_that_is_there() {
    let sources = sources();
    for page in ["docs/permissions.md", "docs/promises.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let named: BTreeSet<&str> =
            text.split('`').skip(1).step_by(2).filter(|it| it.contains("::") && *it != "file::test").collect();
        assert!(named.len() >= 25, "{}", named.len());
        for it in named {
            let (file, test) = it.rsplit_once("::").unwrap();
            let file = file.trim_end_matches("::tests");
            // Tests in a module of that name are found by it alone.
            let fits = |path: &Path| file == "tests" || path.ends_with(format!("{file}.rs"));
            let there = sources.iter().any(|(path, text)| fits(path) && text.contains(&format!("fn {test}(")));
            assert!(there, "{page} names {it}, which is not there");
        }
        // A claim without a test is none.
        for claim in text.split("\n- ").skip(1) {
            let claim = claim.split("\n\n").next().unwrap();
            assert!(page != "docs/promises.md" || claim.contains("::"), "{page}: no test holds: {claim}");
        }
    }
}

#[test]
fn the_table_of_the_security_document_is_current() {
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let scripts = files().into_iter().filter(|it| it.starts_with(root().join("tests/escapes")));
    let mut count = 0;
    for path in scripts {
        let script = fs::read_to_string(&path).unwrap();
        let field = |name: &str| script.lines().find_map(|it| it.strip_prefix(name)).unwrap().to_owned();
        let name = path.file_stem().unwrap().to_string_lossy();
        let row = format!("| `{name}` | {} | {} |", field("# tries: "), field("# stopped: "));
        assert!(text.contains(&row), "run `cargo xtask docs`: {name} is not in docs/security.md");
        count += 1;
    }
    assert_eq!(text.lines().filter(|it| it.starts_with("| `")).count(), count, "run `cargo xtask docs`");
}

#[test]
fn documents_point_at_what_exists() {
    for path in files().into_iter().filter(|it| it.extension().is_some_and(|it| it == "md")) {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|it| it.split(')').next()) {
            let file = link.split('#').next().unwrap();
            let elsewhere = file.is_empty() || file.contains("://");
            assert!(elsewhere || path.parent().unwrap().join(file).exists(), "{}: {link}", path.display());
        }
    }
}
