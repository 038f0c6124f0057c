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
    process::{Command, Stdio},
    sync::Mutex,
};

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::sid;

struct Escape {
    name: String,
    script: String,
    controlled: bool,
    /// Whether bare Bubblewrap stops it: `yes`, `no`, or `not tried`.
    bare: String,
}

fn escapes() -> Vec<Escape> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/escapes"));
    let mut out: Vec<Escape> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .map(|path| {
            let script = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let head: Vec<&str> = script.lines().take(4).collect();
            assert!(head[0].starts_with("# tries: ") && head[1].starts_with("# stopped: "), "{name} does not say what it is");
            let controlled = head[2] == "# control: yes";
            assert!(controlled || head[2] == "# control: no", "{name}");
            let bare = head[3].strip_prefix("# bare bwrap stops it: ").unwrap_or_else(|| panic!("{name}")).to_owned();
            Escape { name, script, controlled, bare }
        })
        .collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

/// Becomes its arguments, with a key in a session keyring of its own.
const KEYRING: &str = "import ctypes, os, sys; call = ctypes.CDLL(None).syscall; call(250, 1, None); \
call(248, b'user', sys.argv[1].encode(), b'words', 5, -3); os.execvp(sys.argv[2], sys.argv[2:])";

/// A world with things outside, and what must be as it was afterwards.
struct World {
    it: Test,
    mark: String,
    tmp: PathBuf,
    variables: Vec<(String, String)>,
    _listeners: (TcpListener, Vec<UnixListener>),
}

impl World {
    fn new(mode: &str) -> Self {
        let it = sid()
            .file("f", "mine")
            .file("sid.toml", "[permissions]\nprotected_paths = ['conf/deploy.toml']\n")
            .file("conf/deploy.toml", "")
            .file("vault/key", "hidden-words")
            .file(".sid/x", "")
            .file(".sidignore", "hidden.txt\n/vault/key\n")
            .file("hidden.txt", "hidden-words");
        let it = it
            .file("../outside/f", "before")
            .file("../home/.bashrc", "")
            .file("../home/.gitconfig", "")
            .file("../home/.cargo/config.toml", "")
            .file("../home/.config/sid/settings.toml", "")
            .file("../home/.config/sid/providers.toml", "[[provider]]\nname = 'x'\nbase_url = 'http://x'\napi_key = 'k'\n");
        let it = it.git();
        fs::create_dir_all(it.path(".git/hooks")).unwrap();
        let mark =
            format!("sid-escape-{}", it.beside("").file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned()));
        let (tcp, socket) = (TcpListener::bind("127.0.0.1:0").unwrap(), it.beside("state/service.sock"));
        let abstract_name = SocketAddr::from_abstract_name(&mark).unwrap();
        let tmp = PathBuf::from("/tmp").join(format!("{mark}.sock"));
        let named = ["agent.sock", "docker.sock", "bus.sock"].map(|name| it.beside(&format!("state/{name}")));
        let mut listeners: Vec<UnixListener> =
            named.iter().chain([&socket, &tmp]).map(|it| UnixListener::bind(it).unwrap()).collect();
        listeners.push(UnixListener::bind_addr(&abstract_name).unwrap());
        fs::write(PathBuf::from("/dev/shm").join(&mark), "mark").unwrap();
        let variables = [
            ("OUTSIDE", it.beside("outside").display().to_string()),
            ("HOST_PID", std::process::id().to_string()),
            ("HOST_PORT", tcp.local_addr().unwrap().port().to_string()),
            ("SOCKET", socket.display().to_string()),
            ("ABSTRACT", mark.clone()),
            ("SESSIONS", it.beside("state/sessions").display().to_string()),
            ("MARK", mark.clone()),
            ("SSH_AUTH_SOCK", named[0].display().to_string()),
            ("DOCKER_HOST", format!("unix://{}", named[1].display())),
            ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", named[2].display())),
            ("PATH", format!("{}:{}", it.path("bin").display(), std::env::var("PATH").unwrap())),
        ];
        let it = variables.iter().fold(it, |it, (name, value)| it.env(name, value));
        let it = it.args(["go", "--output", "jsonl", "--max-tool-rounds", "500", "--mode", mode]);
        let it = it.through(["python3", "-c", KEYRING, &mark]);
        let mut variables: Vec<(String, String)> = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        variables.push(("HOME".into(), it.beside("home").display().to_string()));
        Self { it, mark, tmp, variables, _listeners: (tcp, listeners) }
    }

    /// Runs sid through another program.
    fn through(mut self, prefix: [&str; 9]) -> Self {
        let it = std::mem::replace(&mut self.it, sid());
        self.it = it.through(prefix);
        self
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
        let _gone = fs::remove_file(&self.tmp);
    }
}

#[test]
fn nothing_gets_out_of_the_sandbox() {
    let all = escapes();
    assert!(all.len() > 120, "{}", all.len());
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

/// What Bubblewrap does with the flags that everybody gives it, and nothing of sid's. An ordinary user runs it: some scripts would
/// harm the machine as root, whom bare Bubblewrap leaves its capabilities.
impl World {
    fn gets_out_of_bare_bubblewrap(&self, script: &str) -> bool {
        let work = self.it.path("").display().to_string();
        let open = Command::new("chmod").args(["-R", "a+rwX"]).arg(self.it.beside("")).status().unwrap();
        assert!(open.success());
        let mut it = Command::new("timeout");
        it.args(["20", "python3", "-c", KEYRING, &self.mark]);
        if rustix::process::geteuid().is_root() {
            it.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        }
        it.args([
            "bwrap",
            "--new-session",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
        ]);
        it.args([
            "--bind",
            &work,
            &work,
            "--unshare-user",
            "--unshare-pid",
            "--unshare-net",
            "--chdir",
            &work,
            "--",
            "sh",
            "-c",
            script,
        ]);
        let out = it.env_clear().envs(self.variables.iter().cloned()).stdin(Stdio::null()).output().unwrap();
        out.status.success()
    }
}

#[test]
fn bare_bubblewrap_stops_what_the_table_says_and_no_more() {
    let all = escapes();
    let todo = Mutex::new(all.iter());
    let wrong = Mutex::new(Vec::new());
    let update = std::env::var_os("UPDATE_DATA").is_some();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(it) = todo.lock().unwrap().next() else { break };
                    let stops = if World::new("auto").gets_out_of_bare_bubblewrap(&it.script) { "no" } else { "yes" };
                    if update {
                        let path = format!("{}/../../tests/escapes/{}.sh", env!("CARGO_MANIFEST_DIR"), it.name);
                        let said = format!("# bare bwrap stops it: {}", it.bare);
                        fs::write(path, it.script.replacen(&said, &format!("# bare bwrap stops it: {stops}"), 1)).unwrap();
                    } else if it.bare != stops {
                        wrong.lock().unwrap().push(format!("{}: {stops}", it.name));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "UPDATE_DATA=1 writes what was seen: {wrong:#?}");
    let left = all.iter().filter(|it| it.bare == "no").count();
    assert!(left > 20, "sid's own walls are there for something: {left}");
}

#[test]
fn as_root_bare_bubblewrap_is_no_wall() {
    if !rustix::process::geteuid().is_root() {
        return; // An ordinary user has nothing that could be left to the command.
    }
    let world = World::new("auto");
    let work = world.it.path("").display().to_string();
    let mut it = Command::new("bwrap");
    it.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", &work, &work, "--unshare-user", "--unshare-pid"]);
    let script = "mount -o remount,bind,rw / && echo x > \"$OUTSIDE/f\"";
    let out = it.args(["--", "sh", "-c", script]).envs(world.variables.iter().cloned()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs::read(world.it.beside("outside/f")).unwrap(), b"x\n");
}

#[test]
fn nothing_gets_out_for_an_ordinary_user_either() {
    if !rustix::process::geteuid().is_root() {
        return; // Then the other test is that of an ordinary user.
    }
    let all = escapes();
    let world = World::new("workspace_write");
    let program = world.it.beside("sid");
    fs::copy(env!("CARGO_BIN_EXE_sid"), &program).unwrap();
    let open = Command::new("chown").args(["-R", "65534:65534"]).arg(world.it.beside("")).status().unwrap();
    assert!(open.success());
    let mark = world.mark.clone();
    let world =
        world.through(["python3", "-c", KEYRING, &mark, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    let results = world.run(&all.iter().collect::<Vec<_>>());
    let out: Vec<_> = results.iter().filter(|(_, (got_out, _))| *got_out).collect();
    assert!(out.is_empty(), "{out:#?}");
}
