//! A day's work in `auto`: commits, builds, installs and a local server, in every layout of a repository, without a question.
use std::{
    collections::HashMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
};

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::sid;

/// Registries of npm, PyPI and Cargo with one package each, on a port of this machine.
fn registries() -> u16 {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut files: HashMap<String, Vec<u8>> = HashMap::new();
    // npm: a tarball.
    let package = dir.path().join("package");
    fs::create_dir(&package).unwrap();
    fs::write(package.join("package.json"), "{\"name\":\"dep\",\"version\":\"1.0.0\",\"main\":\"i.js\"}").unwrap();
    fs::write(package.join("i.js"), "module.exports = 'from npm'\n").unwrap();
    run(dir.path(), "tar", &["czf", "dep.tgz", "package"]);
    files.insert("/dep/-/dep-1.0.0.tgz".into(), fs::read(dir.path().join("dep.tgz")).unwrap());
    // PyPI: a wheel.
    let wheel = "import zipfile; z = zipfile.ZipFile('dep-1.0-py3-none-any.whl', 'w'); z.writestr('dep.py', 'WORD = \"from pip\"\\n'); \
                 z.writestr('dep-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: dep\\nVersion: 1.0\\n'); \
                 z.writestr('dep-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); \
                 z.writestr('dep-1.0.dist-info/RECORD', ''); z.close()";
    run(dir.path(), "python3", &["-c", wheel]);
    let name = "dep-1.0-py3-none-any.whl";
    files.insert("/simple/dep/".into(), format!("<a href=\"/{name}\">{name}</a>").into_bytes());
    files.insert(format!("/{name}"), fs::read(dir.path().join(name)).unwrap());
    // Cargo: a crate and its index.
    let source = dir.path().join("dep-1.0.0");
    fs::create_dir_all(source.join("src")).unwrap();
    fs::write(source.join("Cargo.toml"), "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n").unwrap();
    fs::write(source.join("src/lib.rs"), "pub const WORD: &str = \"from cargo\";\n").unwrap();
    run(dir.path(), "tar", &["czf", "dep.crate", "dep-1.0.0"]);
    let sum = Command::new("sha256sum").arg(dir.path().join("dep.crate")).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap().split(' ').next().unwrap().to_owned();
    let line = json!({"name": "dep", "vers": "1.0.0", "deps": [], "cksum": sum, "features": {}, "yanked": false});
    files.insert("/index/config.json".into(), json!({"dl": format!("http://127.0.0.1:{port}/crates")}).to_string().into_bytes());
    files.insert("/index/3/d/dep".into(), format!("{line}\n").into_bytes());
    files.insert("/crates/dep/1.0.0/download".into(), fs::read(dir.path().join("dep.crate")).unwrap());
    let files = Arc::new(files);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let files = Arc::clone(&files);
            thread::spawn(move || {
                let mut text = Vec::new();
                let mut byte = [0];
                while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    text.push(byte[0]);
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                let (status, body) = files.get(path).map_or(("404 Not Found", &b""[..]), |it| ("200 OK", it));
                let kind = if path.ends_with('/') { "text/html" } else { "application/octet-stream" };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            });
        }
    });
    port
}

fn run(dir: &Path, program: &str, args: &[&str]) {
    let out = Command::new(program).args(args).current_dir(dir).env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn commit(dir: &Path) {
    run(dir, "git", &["add", "-A"]);
    run(dir, "git", &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]);
}

/// The project, with a repository of its own, at `work`.
fn project(port: u16) -> Test {
    let lock = json!({"name": "p", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
        "": {"name": "p", "version": "1.0.0", "dependencies": {"dep": "1.0.0"}},
        "node_modules/dep": {"version": "1.0.0", "resolved": format!("http://localhost:{port}/dep/-/dep-1.0.0.tgz")}}});
    let source = format!(
        "[source.crates-io]\nreplace-with = \"ours\"\n[source.ours]\nregistry = \"sparse+http://127.0.0.1:{port}/index/\"\n"
    );
    let it = sid()
        .file("sid.toml", format!("[network]\nallowed_loopback_ports = [{port}]\n"))
        .file(".gitignore", "target/\nnode_modules/\n")
        .file("package.json", json!({"name": "p", "version": "1.0.0", "dependencies": {"dep": "1.0.0"}}).to_string())
        .file("package-lock.json", lock.to_string())
        .file("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ndep = \"1\"\n")
        .file(".cargo/config.toml", source)
        .file("src/main.rs", "fn main() { println!(\"{}\", dep::WORD) }\n")
        .file("go.mod", "module p\n\ngo 1.19\n")
        .file("main.go", "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"from go\") }\n");
    it.git()
}

/// Each layout's folder to work in, made beside or from the project.
fn layout(it: &Test, name: &str) -> PathBuf {
    let (work, other) = (it.path(""), it.beside(name));
    match name {
        "clone" => run(&it.beside(""), "git", &["clone", "-q", "work", "clone"]),
        "worktree" => run(&work, "git", &["worktree", "add", "-q", &other.display().to_string()]),
        "submodule" => {
            let top = it.beside("top");
            fs::create_dir(&top).unwrap();
            run(&top, "git", &["init", "-q"]);
            run(&top, "git", &["-c", "protocol.file.allow=always", "submodule", "add", "-q", &work.display().to_string(), "sub"]);
            commit(&top);
            return top.join("sub");
        }
        _ => std::os::unix::fs::symlink("work", &other).unwrap(),
    }
    other
}

const COMMITS: &str = "echo more >> notes && git add -A && git -c user.name=t -c user.email=t@t commit -qm more && git status --porcelain && echo from git";
const SERVES: &str = "python3 -m http.server -b 127.0.0.1 8999 >/dev/null 2>&1 & for n in $(seq 200); do curl -s -o /dev/null localhost:8999 && break; \
sleep 0.05; done; curl -s localhost:8999/notes";

fn works_in(name: &str) {
    let port = registries();
    let it = project(port);
    let place = layout(&it, name);
    let home = std::env::home_dir().unwrap();
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| home.join(".rustup").display().to_string());
    let place = place.display().to_string();
    let it = it
        .env("RUSTUP_HOME", &rustup)
        .command(["run", "build it", "--output", "jsonl", "--mode", "auto", "--trust", "--cwd", &place]);
    let pip = format!(
        "python3 -m pip install -q --disable-pip-version-check --index-url http://127.0.0.1:{port}/simple dep && python3 -c 'import dep; print(dep.WORD)'"
    );
    let work = [
        (COMMITS, "from git"),
        ("npm ci --silent --no-audit --no-fund && node -p \"require('dep')\"", "from npm"),
        (&pip, "from pip"),
        ("cargo run -q", "from cargo"),
        ("go build -o prog . && ./prog && rm prog", "from go"),
        (SERVES, "more"),
        (COMMITS, "from git"),
    ];
    let calls = work.iter().map(|(line, _)| Reply::call("run_command", &json!({"command": line, "timeout_seconds": 300})));
    it.fake().reply(calls.chain([Reply::text("done")]));
    let ran = it.run().status(0);
    for (n, (line, want)) in work.iter().enumerate() {
        let said = ran.result(n);
        assert!(said.starts_with("Exit code 0:") && said.contains(want), "{name}: {line}\n{said}");
    }
    assert_eq!(it.fake().requests().len(), work.len() + 1, "nothing was asked and nothing reviewed");
    assert!(!ran.stderr.contains("review"), "{}", ran.stderr);
}

#[test]
fn sb_09_everything_works_in_a_plain_clone() {
    works_in("clone");
}

#[test]
fn sb_09_everything_works_in_a_linked_worktree() {
    works_in("worktree");
}

#[test]
fn sb_09_everything_works_in_a_submodule() {
    works_in("submodule");
}

#[test]
fn sb_09_everything_works_in_a_symlinked_workspace() {
    works_in("alias");
}
