//! `tests/escapes/`: one script a mechanism. Each exits 0 if it got out. In the sandbox none may; without it those with a
//! control must, or they would prove nothing.
use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    path::PathBuf,
};

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::sid;

struct Escape {
    name: String,
    script: String,
    controlled: bool,
}

fn escapes() -> Vec<Escape> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/escapes"));
    let mut out: Vec<Escape> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .map(|path| {
            let script = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let head: Vec<&str> = script.lines().take(3).collect();
            assert!(head[0].starts_with("# tries: ") && head[1].starts_with("# stopped: "), "{name} does not say what it is");
            let controlled = head[2] == "# control: yes";
            assert!(controlled || head[2] == "# control: no", "{name}");
            Escape { name, script, controlled }
        })
        .collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

/// A world with things outside, and what must be as it was afterwards.
struct World {
    it: Test,
    mark: String,
    _listeners: (TcpListener, UnixListener, UnixListener),
}

impl World {
    fn new(mode: &str) -> Self {
        let it = sid()
            .file("f", "mine")
            .file("sid.toml", "")
            .file(".sid/x", "")
            .file(".sidignore", "hidden.txt\n")
            .file("hidden.txt", "hidden-words");
        let it = it
            .file("../outside/f", "before")
            .file("../home/.bashrc", "")
            .file("../home/.config/sid/providers.toml", "[[provider]]\nname = 'x'\nbase_url = 'http://x'\napi_key = 'k'\n");
        let it = it.git();
        fs::create_dir_all(it.path(".git/hooks")).unwrap();
        let mark =
            format!("sid-escape-{}", it.beside("").file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned()));
        let (tcp, socket) = (TcpListener::bind("127.0.0.1:0").unwrap(), it.beside("state/service.sock"));
        let abstract_name = SocketAddr::from_abstract_name(&mark).unwrap();
        let listeners = (UnixListener::bind(&socket).unwrap(), UnixListener::bind_addr(&abstract_name).unwrap());
        fs::write(PathBuf::from("/dev/shm").join(&mark), "mark").unwrap();
        let variables = [
            ("OUTSIDE", it.beside("outside").display().to_string()),
            ("HOST_PID", std::process::id().to_string()),
            ("HOST_PORT", tcp.local_addr().unwrap().port().to_string()),
            ("SOCKET", socket.display().to_string()),
            ("ABSTRACT", mark.clone()),
            ("SESSIONS", it.beside("state/sessions").display().to_string()),
            ("MARK", mark.clone()),
        ];
        let it = variables.iter().fold(it, |it, (name, value)| it.env(name, value));
        let it = it.args(["go", "--output", "jsonl", "--max-tool-rounds", "500", "--mode", mode]);
        Self { it, mark, _listeners: (tcp, listeners.0, listeners.1) }
    }

    /// Runs the scripts one after another in one session; whether each got out, and what it printed.
    fn run(&self, scripts: &[&Escape]) -> BTreeMap<String, (bool, String)> {
        let calls = scripts.iter().map(|it| Reply::call("run_command", &json!({"command": it.script, "timeout_seconds": 20})));
        let known = json!({"command": "printf '%s|' \"$OUTSIDE\" \"$HOST_PID\" \"$HOST_PORT\" \"$SOCKET\" \"$ABSTRACT\" \"$SESSIONS\" \"$MARK\""});
        self.it.fake().reply(calls.chain([Reply::call("run_command", &known), Reply::text("done")]));
        let ran = self.it.run().status(0);
        assert!(
            !ran.result(scripts.len()).contains("||"),
            "a script that knows no target proves nothing: {}",
            ran.result(scripts.len())
        );
        let out = scripts.iter().enumerate().map(|(n, it)| {
            let said = ran.result(n);
            (it.name.clone(), (!said.contains("Command failed (exit code"), said))
        });
        out.collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _gone = fs::remove_file(PathBuf::from("/dev/shm").join(&self.mark));
    }
}

#[test]
fn nothing_gets_out_of_the_sandbox() {
    let all = escapes();
    assert!(all.len() > 70, "{}", all.len());
    for mode in ["workspace_write", "read_only"] {
        let world = World::new(mode);
        let state = |it: &Test| {
            let of = |path: PathBuf| fs::read(path).ok();
            let paths = [
                "outside/f",
                "outside/new",
                "outside/d",
                "home/.bashrc",
                "work/.git/config",
                "work/sid.toml",
                "work/.sidignore",
                "work/hidden.txt",
            ];
            let seen: Vec<_> = paths.into_iter().map(|path| (path, of(it.beside(path)))).collect();
            (seen, fs::read_dir(it.beside("outside")).unwrap().count(), fs::read_dir(it.path(".git/hooks")).unwrap().count())
        };
        let before = state(&world.it);
        let results = world.run(&all.iter().collect::<Vec<_>>());
        let out: Vec<_> = results.iter().filter(|(_, (got_out, _))| *got_out).collect();
        assert!(out.is_empty(), "{mode}: {out:#?}");
        assert_eq!(state(&world.it), before, "{mode}");
        assert!(!PathBuf::from("/tmp").join(&world.mark).exists());
    }
}

#[test]
fn without_the_sandbox_the_same_scripts_get_out() {
    let all = escapes();
    let controlled: Vec<&Escape> = all.iter().filter(|it| it.controlled).collect();
    assert!(controlled.len() > 45, "{}", controlled.len());
    // Each in a world of its own: most leave it changed.
    let mut idle = BTreeMap::new();
    for it in controlled {
        let results = World::new("full_access").run(&[it]);
        idle.extend(results.into_iter().filter(|(_, (got_out, _))| !got_out));
    }
    assert!(idle.is_empty(), "these prove nothing: {idle:#?}");
}
