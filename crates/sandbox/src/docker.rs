//! A container as the place of a session's commands. Docker is the outer isolation; inside it restricted commands run behind the
//! same wall of Bubblewrap, and the managed network comes in through sockets in the workspace.
mod files;
mod network;

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use serde_json::Value;
use sid_policy::{Bounds, Fence, Kind};

pub(crate) use files::{Change, Wall};
pub(crate) use network::{FOLDER as SOCKETS, Sockets};

use crate::{
    bwrap::hidden,
    environment::{Environment, QUIET},
    find_program,
    frames::unguessable,
    git::Git,
    process::Io,
};

/// What the user's settings say of the container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DockerSettings {
    /// A container that exists and runs.
    pub container: Option<String>,
    /// Or an image, which a container of sid's own is made from.
    pub image: Option<String>,
    /// Where the workspace is inside.
    pub workdir: PathBuf,
    /// The name of the container that is made; one with a name is kept.
    pub name: Option<String>,
    /// Variables of the container that is made.
    pub env: Vec<(String, String)>,
    /// More folders of the host: source, target, and whether it is read-only.
    pub mounts: Vec<(PathBuf, PathBuf, bool)>,
    /// Docker's socket, if it is not where it usually is.
    pub socket: Option<PathBuf>,
}

/// A container that is ready.
#[derive(Debug)]
pub(crate) struct Docker {
    program: PathBuf,
    environment: Environment,
    socket: Option<PathBuf>,
    id: String,
    /// Made for this session alone, so it goes with it.
    ours: bool,
    /// Folders of the host and where they are inside; roots are in one of them.
    maps: Vec<(PathBuf, PathBuf)>,
    bwrap: String,
    count: AtomicU32,
}

const ANSWER: Duration = Duration::from_secs(60);
const LABEL: &str = "dev.sid.managed=true";

/// Bubblewrap dies with its parent, which must not be Docker's own starter: that ends at once. So a shell stays.
///
/// Kills the group of the command when sid, which holds the other end of standard input, is gone or gives it up.
const WATCH: &str = "exec 3<&0; { cat <&3; kill -KILL -$$; } >/dev/null 2>&1 & exec 3<&-; \"$@\" </dev/null; exit $?";
/// The same, with what comes in handed on.
const WATCH_AND_FEED: &str = "f=/tmp/.sid-$$; mkfifo -m 600 $f || exit 125; exec 3<&0; { exec 4>$f; rm -f $f; cat <&3 >&4; exec 4>&-; sleep 0.1; \
     kill -KILL -$$; } >/dev/null 2>&1 & exec 3<&-; \"$@\" <$f; exit $?";
/// A terminal of 80 columns and 24 rows for `$1`, whose processes bear the token `$2`. `socat` ends without a word on how its
/// command ended, so that is told on a descriptor of its own. The command comes in by a variable: `socat` has a language too.
const TERMINAL: &str = r#"export SID_COMMAND="$1" SID_TOKEN="$2" SID_BOOT='
stty rows 24 cols 80 -opost
SID_EXEC=$SID_TOKEN; c=$SID_COMMAND; unset SID_COMMAND SID_TOKEN SID_BOOT; export SID_EXEC
/bin/sh -c "$c" 9>&-; printf %s $? >&9'
exec 8>&1
code=$(socat -t 0.05 - 'SYSTEM:eval \"$SID_BOOT\",pty,setsid,ctty,stderr' 9>&1 >&8 8>&- 2>/dev/null)
exit "${code:-129}""#;
/// Signals every process of a command, which all bear its token in their environment.
const SIGNAL: &str = "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -qx \"SID_EXEC=$1\" && kill -\"$2\" \"${p#/proc/}\"; done; true";

impl Docker {
    /// Finds or makes the container, and tries in it what commands will need.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub(crate) async fn open(
        it: &DockerSettings,
        roots: &[PathBuf],
        environment: &Environment,
        session: &str,
    ) -> Result<Self, String> {
        let path = environment.get("PATH").map_or("".as_ref(), |it| it.as_os_str());
        let program = find_program("docker", path).ok_or(
            "No command can run: the settings ask for a Docker container, and the program `docker` is not installed (Debian: package \
             `docker.io`).",
        )?;
        let mut docker = Self {
            program,
            environment: environment.clone(),
            socket: it.socket.clone(),
            id: String::new(),
            ours: false,
            maps: Vec::new(),
            bwrap: String::new(),
            count: AtomicU32::new(0),
        };
        let found = docker.find(it, roots, session).await;
        let ready = if found.is_ok() { docker.probe(it).await } else { found };
        if let Err(why) = ready {
            docker.close().await;
            return Err(why);
        }
        Ok(docker)
    }

    async fn find(&mut self, it: &DockerSettings, roots: &[PathBuf], session: &str) -> Result<(), String> {
        match (&it.container, &it.image) {
            (Some(name), None) => self.id = name.clone(),
            (None, Some(image)) => {
                self.id = it.name.clone().unwrap_or_else(|| format!("sid-{session}"));
                self.ours = it.name.is_none();
                self.make(it, image, roots).await?;
            }
            _ => return Err("`docker.container` or `docker.image` must be set, and not both".to_owned()),
        }
        let found = self.inspect().await.map_err(|why| format!("the Docker container {} can't be used: {why}", self.id))?;
        if found["State"]["Running"] != true {
            return Err(format!("the Docker container {} does not run; start it with `docker start {}`", self.id, self.id));
        }
        let binds = found["Mounts"].as_array().into_iter().flatten().filter(|it| it["Type"] == "bind");
        self.maps = binds
            .filter_map(|it| {
                let source = std::fs::canonicalize(it["Source"].as_str()?).ok()?;
                Some((source, PathBuf::from(it["Destination"].as_str()?)))
            })
            .collect();
        // The most specific mount is the one that counts.
        self.maps.sort_by_key(|it| std::cmp::Reverse(it.0.components().count()));
        match roots.iter().find(|it| self.inside(it).is_none()) {
            Some(root) => Err(format!(
                "the Docker container {} has no bind mount of {}; start it with `-v {}:{}`",
                self.id,
                root.display(),
                root.display(),
                it.workdir.display()
            )),
            None => Ok(()),
        }
    }

    /// Makes the container, or takes up one of ours of that name.
    async fn make(&self, it: &DockerSettings, image: &str, roots: &[PathBuf]) -> Result<(), String> {
        if let Ok(found) = self.inspect().await {
            if found["Config"]["Labels"]["dev.sid.managed"] != "true" {
                return Err(format!("there is a Docker container {} already, and it is not one of sid's", self.id));
            }
            return self.docker(&["start", &self.id]).await.map(drop);
        }
        let mut args: Vec<OsString> = [
            "run",
            "-d",
            "--pull",
            "never",
            "--init",
            "--security-opt",
            "seccomp=unconfined",
            "--label",
            LABEL,
            "--name",
            &self.id,
        ]
        .map(OsString::from)
        .to_vec();
        let uid = rustix::process::geteuid();
        if !uid.is_root() {
            args.extend(["--user".into(), format!("{}:{}", uid.as_raw(), rustix::process::getegid().as_raw()).into()]);
        }
        for (n, root) in roots.iter().enumerate() {
            let to = if n == 0 { it.workdir.clone() } else { root.clone() };
            args.extend(["-v".into(), volume(root, &to, "")]);
        }
        for (from, to, read_only) in &it.mounts {
            let from = std::fs::canonicalize(roots.first().map_or_else(|| from.clone(), |root| root.join(from)))
                .map_err(|err| format!("`docker.mounts`: {}: {err}", from.display()))?;
            args.extend(["-v".into(), volume(&from, to, if *read_only { ":ro" } else { "" })]);
        }
        for (name, value) in &it.env {
            args.extend(["-e".into(), format!("{name}={value}").into()]);
        }
        args.extend(["-w".into(), it.workdir.clone().into(), image.into(), "sleep".into(), "infinity".into()]);
        let args: Vec<&std::ffi::OsStr> = args.iter().map(OsString::as_os_str).collect();
        self.docker(&args).await.map(drop).map_err(|why| format!("no Docker container can be made from the image {image}: {why}"))
    }

    async fn inspect(&self) -> Result<Value, String> {
        let text = self.docker(&["inspect", "--type", "container", &self.id]).await?;
        let all: Value = serde_json::from_str(&text).map_err(|err| err.to_string())?;
        all.get(0).cloned().ok_or_else(|| "it is not there".to_owned())
    }

    /// What restricted commands need: both programs, and namespaces within the container's.
    async fn probe(&mut self, it: &DockerSettings) -> Result<(), String> {
        let hint = |said: String| {
            let restart =
                if it.container.is_some() { ", and start the container with `--security-opt seccomp=unconfined`" } else { "" };
            format!(
                "the Docker container {} can't hold sandboxed commands: install the packages `bubblewrap` and `socat` in it{restart} ({})",
                self.id,
                said.trim().replace('\n', "; ")
            )
        };
        let look = "command -v socat >/dev/null || { echo 'socat is missing' >&2; exit 1; }; b=$(command -v bwrap) || { echo 'bwrap is missing' >&2; exit 1; }; readlink -f \"$b\"";
        let found = self.docker(&["exec", &self.id, "/bin/sh", "-c", look]).await.map_err(&hint)?;
        let bwrap = found.trim().to_owned();
        let shape =
            [&["exec", &self.id, "/bin/sh", "-c", "\"$@\"; exit $?", "sid", &bwrap][..], BASE, REST, &["--", "/bin/sh", "-c", ":"]]
                .concat();
        self.docker(&shape).await.map_err(&hint)?;
        self.bwrap = bwrap;
        Ok(())
    }

    /// Runs the client to its end.
    async fn docker(&self, args: &[impl AsRef<std::ffi::OsStr>]) -> Result<String, String> {
        let mut it = tokio::process::Command::from(self.client());
        it.args(args).stdin(Stdio::null()).kill_on_drop(true);
        let out = tokio::time::timeout(ANSWER, it.output()).await;
        let out = out.map_err(|_| "`docker` does not answer".to_owned())?.map_err(|err| format!("docker: {err}"))?;
        if out.status.success() {
            return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&out.stderr).trim().trim_start_matches("Error response from daemon: ").to_owned();
        Err(if said.is_empty() { format!("`docker {}`: {}", args[0].as_ref().display(), out.status) } else { said })
    }

    fn client(&self) -> std::process::Command {
        let mut it = std::process::Command::new(&self.program);
        it.env_clear().envs(self.environment.vars());
        if let Some(socket) = &self.socket {
            it.arg("-H").arg(format!("unix://{}", socket.display()));
        }
        it
    }

    /// Where a path of the host is inside.
    pub(crate) fn inside(&self, path: &Path) -> Option<PathBuf> {
        self.maps.iter().find_map(|(host, inside)| Some(clean(&inside.join(path.strip_prefix(host).ok()?))))
    }

    /// Where the roots are inside: pairs of that and of where they are here.
    pub(crate) fn places(&self, roots: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
        roots.iter().filter_map(|root| Some((self.inside(root)?, root.clone()))).collect()
    }

    /// A name for one execution that nobody can guess.
    pub(crate) fn token(&self) -> String {
        format!("{}{:032x}", unguessable(), self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// The client that runs `script` inside.
    pub(crate) fn command(&self, what: &Execution<'_>) -> Result<std::process::Command, String> {
        let cwd = self.inside(what.cwd).ok_or_else(|| format!("{} is not in the container.", what.cwd.display()))?;
        let mut it = self.client();
        it.args(["exec", "-i"]).arg(&self.id).args([
            "/bin/sh",
            "-c",
            if what.io == Io::NoInput { WATCH } else { WATCH_AND_FEED },
            "sid",
        ]);
        if what.bounds == Bounds::Unbounded {
            let go = "cd \"$1\" && shift && exec \"$@\"";
            it.args(["/bin/sh", "-c", go, "sid"]).arg(cwd);
        } else {
            it.arg(&self.bwrap).args(self.walls(what.fence, what.bounds)).arg("--chdir").arg(cwd).arg("--");
        }
        if let Some(before) = what.sockets.and_then(|it| self.inside(it.folder()).map(|dir| it.script(&dir))) {
            it.args(["/bin/sh", "-c", &format!("{before}\nexec \"$@\""), "sid"]);
        }
        if what.io == Io::Terminal {
            let quiet = QUIET.iter().map(|(name, value)| format!("{name}={value}"));
            it.arg("env").args(quiet).args(["/bin/sh", "-c", TERMINAL, "sid", what.script, what.token]);
        } else {
            it.arg("env").arg(format!("SID_EXEC={}", what.token)).args(["/bin/sh", "-c", what.script]);
        }
        it.process_group(0);
        Ok(it)
    }

    /// Bubblewrap's arguments inside the container.
    fn walls(&self, fence: &Fence, bounds: Bounds) -> Vec<OsString> {
        let mut out: Vec<OsString> = BASE.iter().map(OsString::from).collect();
        let mut bind = |flag: &str, path: &Path| {
            if let Some(path) = self.inside(path) {
                out.extend([flag.into(), path.clone().into(), path.into()]);
            }
        };
        let flag = if bounds == Bounds::Workspace { "--bind" } else { "--ro-bind" };
        for root in &fence.roots {
            bind(flag, root);
            if bounds == Bounds::Workspace {
                let git = Git::of(root, None);
                git.read_only.iter().filter(|it| it.exists()).for_each(|it| bind("--ro-bind", it));
            }
            fence.protected.iter().map(|it| root.join(it)).filter(|it| it.exists()).for_each(|it| bind("--ro-bind", &it));
        }
        for (path, kind) in hidden(fence) {
            let Some(path) = self.inside(&path) else { continue };
            if kind == Kind::Folder {
                out.extend(["--tmpfs".into(), path.clone().into(), "--remount-ro".into(), path.into()]);
            } else {
                out.extend(["--ro-bind".into(), "/dev/null".into(), path.into()]);
            }
        }
        out.extend(REST.iter().map(OsString::from));
        out
    }

    /// Signals a command inside, without waiting for it.
    pub(crate) fn signal(&self, token: &str, name: &str) {
        let mut it = tokio::process::Command::from(self.client());
        it.args(["exec", &self.id, "/bin/sh", "-c", SIGNAL, "sid", token, name]);
        it.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = it.spawn() {
            tokio::spawn(async move { child.wait().await });
        }
    }

    /// Removes a container that was made for this session alone.
    pub(crate) async fn close(&self) {
        if self.ours {
            let _gone = self.docker(&["rm", "-f", &self.id]).await;
        }
    }
}

/// One execution in the container.
pub(crate) struct Execution<'a> {
    pub(crate) fence: &'a Fence,
    pub(crate) bounds: Bounds,
    pub(crate) cwd: &'a Path,
    pub(crate) script: &'a str,
    pub(crate) token: &'a str,
    pub(crate) io: Io,
    pub(crate) sockets: Option<&'a Sockets>,
}

/// The wall around every restricted command of a container, before and after what the workspace adds.
const BASE: &[&str] =
    &["--new-session", "--die-with-parent", "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"];
const REST: &[&str] = &["--unshare-pid", "--unshare-user", "--unshare-ipc", "--tmpfs", "/proc", "--cap-drop", "ALL"];

fn volume(from: &Path, to: &Path, suffix: &str) -> OsString {
    let mut it = from.as_os_str().to_owned();
    it.push(":");
    it.push(to);
    it.push(suffix);
    it
}

fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}
