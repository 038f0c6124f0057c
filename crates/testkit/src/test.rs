use std::{
    ffi::OsString,
    fs,
    io::{Read as _, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Fake, Reply, Wire};

/// Builds a world for the real program: a HOME, a workspace, a scripted model; then runs it.
///
/// What is not set is empty: the environment holds only PATH, HOME and what is given.
pub struct Test {
    program: PathBuf,
    dir: TempDir,
    fake: Fake,
    wire: Wire,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    stdin: Option<Vec<u8>>,
    prefix: Vec<OsString>,
}

/// What the program left.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code, or 128 + its signal.
    pub status: i32,
    /// What it printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
}

impl Ran {
    /// The JSON lines of stdout.
    ///
    /// # Panics
    /// A line is no JSON.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|it| serde_json::from_str(it).unwrap_or_else(|_| panic!("no JSON: {it}"))).collect()
    }

    /// The events of one type.
    #[must_use]
    pub fn of_type(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|it| it["type"] == kind).collect()
    }

    /// The content of the n-th tool result.
    #[must_use]
    pub fn result(&self, n: usize) -> String {
        let all = self.of_type("tool_result");
        all.get(n)
            .and_then(|it| it["content"].as_str())
            .unwrap_or_else(|| panic!("no result {n}: {}{}", self.stdout, self.stderr))
            .to_owned()
    }

    /// Checks the exit code.
    #[track_caller]
    pub fn status(self, want: i32) -> Self {
        assert_eq!(self.status, want, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

impl Test {
    /// A world for `program` where the model speaks Chat Completions.
    #[must_use]
    pub fn new(program: &str) -> Self {
        // Not below /tmp: the sandbox has a private one, and what is outside must be seen to be protected.
        let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        for name in ["home", "work", "state"] {
            fs::create_dir(dir.path().join(name)).expect("made");
        }
        Self {
            program: program.into(),
            dir,
            fake: Fake::new([]),
            wire: Wire::Chat,
            args: vec!["run".into()],
            env: Vec::new(),
            stdin: None,
            prefix: Vec::new(),
        }
    }

    /// The model speaks this wire.
    #[must_use]
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Adds an answer of the model.
    #[must_use]
    pub fn reply(self, reply: Reply) -> Self {
        self.fake.reply([reply]);
        self
    }

    /// Adds arguments after `run`.
    #[must_use]
    pub fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(OsString::from));
        self
    }

    /// Replaces all arguments, `run` included.
    #[must_use]
    pub fn command<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(it, _)| it != name);
        self.env.push((name.into(), value.into()));
        self
    }

    /// Gives standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs the program through another, which gets it as its last arguments.
    #[must_use]
    pub fn through<T: Into<OsString>>(mut self, prefix: impl IntoIterator<Item = T>) -> Self {
        self.prefix = prefix.into_iter().map(Into::into).collect();
        self
    }

    /// Writes a file of the workspace.
    #[must_use]
    pub fn file(self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, bytes).expect("written");
        self
    }

    /// Makes the workspace a Git repository with everything committed.
    #[must_use]
    pub fn git(self) -> Self {
        for args in [
            &["init", "-q"][..],
            &["add", "-A"],
            &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x", "--allow-empty"],
        ] {
            assert!(self.shell_in_work("git", args).status.success());
        }
        self
    }

    /// Runs a program in the workspace, outside any sandbox.
    ///
    /// # Panics
    /// It can't be started.
    pub fn shell_in_work(&self, program: &str, args: &[&str]) -> std::process::Output {
        let home = self.dir.path().join("home");
        Command::new(program)
            .args(args)
            .current_dir(self.path("."))
            .env("HOME", home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("started")
    }

    /// A path of the workspace.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("there").join("work").join(path)
    }

    /// A path beside the workspace: `home`, `state`, or anything else.
    #[must_use]
    pub fn beside(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("there").join(path)
    }

    /// The bytes of a file of the workspace.
    ///
    /// # Panics
    /// It isn't there.
    #[must_use]
    pub fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
    }

    /// The scripted model.
    #[must_use]
    pub fn fake(&self) -> &Fake {
        &self.fake
    }

    /// Starts the program without waiting for it.
    ///
    /// # Panics
    /// It can't be started.
    #[must_use]
    pub fn start(&self) -> Child {
        let whole: Vec<OsString> =
            self.prefix.iter().cloned().chain([self.program.clone().into()]).chain(self.args.iter().cloned()).collect();
        let mut command = Command::new(&whole[0]);
        command.args(&whole[1..]).current_dir(self.path(".")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.dir.path().join("home"));
        command.env("SID_SESSIONS", self.dir.path().join("state/sessions"));
        match self.wire {
            Wire::Chat => {
                command.env("OPENAI_BASE_URL", format!("{}/v1", self.fake.url())).env("OPENAI_API_KEY", "sk-test-key-1234")
            }
            Wire::Messages => command.env("ANTHROPIC_BASE_URL", self.fake.url()).env("ANTHROPIC_API_KEY", "sk-test-key-1234"),
        };
        for (name, value) in &self.env {
            if value == "\0unset" {
                command.env_remove(name);
            } else {
                command.env(name, value);
            }
        }
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().expect("started")
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    /// It can't be started, or prints what is not UTF-8.
    #[must_use]
    pub fn run(&self) -> Ran {
        self.finish(self.start())
    }

    /// Waits for a program that was started.
    ///
    /// # Panics
    /// It prints what is not UTF-8.
    #[must_use]
    pub fn finish(&self, mut child: Child) -> Ran {
        let feeder =
            child.stdin.take().zip(self.stdin.clone()).map(|(mut pipe, bytes)| thread::spawn(move || pipe.write_all(&bytes)));
        let stderr = child.stderr.take().map(|mut pipe| {
            thread::spawn(move || {
                let mut text = String::new();
                pipe.read_to_string(&mut text).map(|_| text)
            })
        });
        let mut stdout = String::new();
        if let Some(mut pipe) = child.stdout.take() {
            pipe.read_to_string(&mut stdout).expect("UTF-8");
        }
        let status = child.wait().expect("waited");
        if let Some(it) = feeder {
            let _closed_early = it.join().expect("fed");
        }
        let stderr = stderr.map_or_else(String::new, |it| it.join().expect("read").expect("UTF-8"));
        Ran { status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)), stdout, stderr }
    }

    /// The ids of all saved sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("state/sessions")).into_iter().flatten().flatten();
        let mut out: Vec<String> = entries.filter_map(|it| it.file_name().into_string().ok()).collect();
        out.sort();
        out
    }

    /// The journal of the only session, line by line.
    ///
    /// # Panics
    /// There is not exactly one.
    #[must_use]
    pub fn journal(&self) -> Vec<Value> {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        let text = fs::read_to_string(self.journal_path(&sessions[0])).expect("read");
        text.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect()
    }

    /// Where a session's journal is.
    #[must_use]
    pub fn journal_path(&self, id: &str) -> PathBuf {
        Path::new(self.dir.path()).join("state/sessions").join(id).join("events.jsonl")
    }
}
