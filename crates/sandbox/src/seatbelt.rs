//! The policy that macOS's `/usr/bin/sandbox-exec` is given, as text: a pure function of the same facts that Bubblewrap's arguments
//! come from. In its language the last rule that matches decides.
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use sid_policy::{Bounds, Kind, Network};

/// What may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// Everything that is not masked: sessions.
    All,
    /// The writable roots outside the home, and these: `sid-seatbelt`.
    Only(Vec<PathBuf>),
}

/// Everything a policy depends on. Paths are canonical unless they say otherwise.
#[derive(Debug, Clone)]
pub struct Seatbelt {
    /// How far it reaches.
    pub bounds: Bounds,
    /// Folders of the workspace.
    pub roots: Vec<PathBuf>,
    /// Git's metadata outside them, writable.
    pub git: Vec<PathBuf>,
    /// Temporary folders and build caches, writable in every mode and in `workspace` bounds respectively.
    pub temp: Vec<PathBuf>,
    /// See [`Self::temp`].
    pub caches: Vec<PathBuf>,
    /// What stays read-only, in both spellings where they differ.
    pub protected: Vec<PathBuf>,
    /// What can't be read either.
    pub masked: Vec<(PathBuf, Kind)>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// What may be reached.
    pub network: Network,
    /// Ports of sid's own proxy on this machine, while it serves this command.
    pub proxy: Vec<u16>,
    /// What may be read.
    pub reads: Reads,
}

/// A policy and the paths it names: `-p POLICY -DNAME=PATH…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The text.
    pub text: String,
    /// Names in the text and the paths they stand for, so that no path is ever part of the text.
    pub parameters: Vec<(String, PathBuf)>,
}

/// What every policy begins with: nothing, then what any program needs.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow file-write-data (require-all (path "/dev/null") (vnode-type CHARACTER-DEVICE)))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.proc.all")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl (regex #"^/dev/ttys[0-9]+$"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.cfprefsd.daemon")
  (global-name "com.apple.cfprefsd.agent")
  (local-name "com.apple.cfprefsd.agent")
  (global-name "com.apple.PowerManagement.control"))
(allow ipc-posix-sem)
(allow user-preference-read)
"#;

/// What a policy that lists its reads still has to let programs read.
const SYSTEM: &[&str] = &[
    "/Applications",
    "/Library/Developer/CommandLineTools",
    "/System",
    "/bin",
    "/dev",
    "/etc",
    "/opt/homebrew",
    "/private/etc",
    "/private/var/db",
    "/sbin",
    "/usr",
];

impl Seatbelt {
    /// Writes the policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let mut it = Writer { text: BASE.to_owned(), parameters: Vec::new() };
        self.reads(&mut it);
        self.network(&mut it);
        self.sockets(&mut it);
        let mut writable: Vec<&PathBuf> = self.temp.iter().collect();
        if self.bounds == Bounds::Workspace {
            writable.extend(self.roots.iter().chain(&self.git).chain(&self.caches));
        }
        it.rule("allow", "file-write*", "WRITABLE", &writable);
        let protected: Vec<&PathBuf> = self.protected.iter().collect();
        it.rule("deny", "file-write* network-bind network-outbound", "PROTECTED", &protected);
        let masked: Vec<&PathBuf> = self.masked.iter().map(|it| &it.0).collect();
        it.rule("deny", "file-read* file-write*", "MASKED", &masked);
        Policy { text: it.text, parameters: it.parameters }
    }

    fn reads(&self, it: &mut Writer) {
        let Reads::Only(listed) = &self.reads else {
            it.text.push_str("(allow file-read*)\n");
            return;
        };
        let system: Vec<String> = SYSTEM.iter().map(|it| format!("(subpath \"{it}\")")).collect();
        let _infallible = writeln!(it.text, "(allow file-read* (literal \"/\") {})", system.join(" "));
        let outside = |root: &&PathBuf| self.home.as_ref().is_none_or(|home| !root.starts_with(home));
        let all: Vec<&PathBuf> = listed.iter().chain(self.roots.iter().filter(outside)).chain(&self.temp).collect();
        it.rule("allow", "file-read*", "READABLE", &all);
        let above: Vec<PathBuf> = all.iter().flat_map(|it| it.ancestors().skip(1)).map(Path::to_path_buf).collect();
        let mut above: Vec<PathBuf> = above.into_iter().filter(|it| it != Path::new("/")).collect();
        above.sort();
        above.dedup();
        let names: Vec<String> = above.iter().map(|path| format!("(literal (param \"{}\"))", it.name("ABOVE", path))).collect();
        if !names.is_empty() {
            let _infallible = writeln!(it.text, "(allow file-read-metadata {})", names.join(" "));
        }
    }

    fn network(&self, it: &mut Writer) {
        if self.bounds == Bounds::ReadOnly {
            return;
        }
        if self.network.local_binding {
            it.text.push_str("(allow network-bind (local ip \"*:*\"))\n(allow network-inbound (local ip \"localhost:*\"))\n");
            it.text.push_str("(allow network-outbound (remote ip \"localhost:*\"))\n");
        }
        for port in self.network.loopback.iter().chain(&self.proxy) {
            let _infallible = writeln!(it.text, "(allow network-outbound (remote ip \"localhost:{port}\"))");
        }
    }

    /// Socket files below the workspace; never where the home is below it, for that is where agents listen.
    fn sockets(&self, it: &mut Writer) {
        if self.bounds != Bounds::Workspace {
            return;
        }
        let holds_home = |root: &Path| self.home.as_ref().is_some_and(|home| home.starts_with(root));
        let places: Vec<&PathBuf> = self.roots.iter().chain(&self.git).filter(|it| !holds_home(it)).collect();
        if places.is_empty() {
            return;
        }
        it.text.push_str("(allow system-socket (socket-domain AF_UNIX))\n");
        it.rule("allow", "network-bind network-outbound", "SOCKETS", &places);
    }
}

struct Writer {
    text: String,
    parameters: Vec<(String, PathBuf)>,
}

impl Writer {
    fn name(&mut self, kind: &str, path: &Path) -> String {
        let count = self.parameters.iter().filter(|it| it.0.rsplit_once('_').is_some_and(|it| it.0 == kind)).count();
        let name = format!("{kind}_{count}");
        self.parameters.push((name.clone(), path.to_owned()));
        name
    }

    /// A rule for paths and what is below them.
    fn rule(&mut self, verb: &str, operations: &str, kind: &str, paths: &[&PathBuf]) {
        for path in paths {
            let name = self.name(kind, path);
            let _infallible =
                writeln!(self.text, "({verb} {operations} (literal (param \"{name}\")) (subpath (param \"{name}\")))");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(bounds: Bounds) -> Seatbelt {
        Seatbelt {
            bounds,
            roots: vec!["/Users/u/src/w".into()],
            git: vec!["/Users/u/src/main/.git".into()],
            temp: vec!["/private/tmp".into(), "/private/var/folders/x/T".into()],
            caches: vec!["/Users/u/.cache/sid/w/build".into()],
            protected: vec!["/Users/u/src/w/.sid".into(), "/Users/u/src/w/.git/hooks".into()],
            masked: vec![("/Users/u/src/w/secret.txt".into(), Kind::File)],
            home: Some("/Users/u".into()),
            network: Network::default(),
            proxy: Vec::new(),
            reads: Reads::All,
        }
    }

    /// Every case has a file `tests/data/seatbelt/NAME.sb`; `UPDATE_DATA=1` writes them.
    #[expect(clippy::disallowed_methods, reason = "a switch of the test")]
    #[test]
    fn golden() {
        let open = Network { loopback: vec![9001], local_binding: true, ..Network::default() };
        let dotfiles = ["src", ".cargo", ".rustup", ".config/git", ".gitconfig"].map(|it| Path::new("/Users/u").join(it)).to_vec();
        let cases = [
            ("read_only", base(Bounds::ReadOnly)),
            ("read_only_ignores_the_network", Seatbelt { network: open.clone(), proxy: vec![51000], ..base(Bounds::ReadOnly) }),
            ("workspace", base(Bounds::Workspace)),
            ("workspace_with_proxy", Seatbelt { proxy: vec![51000, 51001], ..base(Bounds::Workspace) }),
            ("workspace_with_local_binding_and_ports", Seatbelt { network: open, ..base(Bounds::Workspace) }),
            ("workspace_is_the_home", Seatbelt { roots: vec!["/Users/u".into()], git: Vec::new(), ..base(Bounds::Workspace) }),
            ("helper_with_listed_reads", Seatbelt { reads: Reads::Only(dotfiles), masked: Vec::new(), ..base(Bounds::Workspace) }),
        ];
        for (name, case) in cases {
            let policy = case.policy();
            let parameters: Vec<String> =
                policy.parameters.iter().map(|(name, path)| format!("; -D{name}={}", path.display())).collect();
            let text = format!("{}\n{}", parameters.join("\n"), policy.text);
            let file = format!("{}/tests/data/seatbelt/{name}.sb", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("UPDATE_DATA").is_some() {
                std::fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
                std::fs::write(&file, &text).unwrap();
            }
            assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{name}");
        }
    }

    #[test]
    fn what_must_hold_in_every_policy() {
        for bounds in [Bounds::ReadOnly, Bounds::Workspace] {
            let it = base(bounds).policy();
            assert!(
                it.text.starts_with("(version 1)\n(deny default)\n") && !it.text.contains("/Users/"),
                "no path is part of the text"
            );
            let (denied, allowed) = (it.text.rfind("(deny file-write*"), it.text.rfind("(allow file-write* "));
            assert!(denied > allowed, "what is protected is said last");
            assert!(!it.text.contains("com.apple.securityd") && !it.text.contains("SecurityServer"), "no keychain");
            let writable =
                |path: &str| it.parameters.iter().any(|(name, at)| name.starts_with("WRITABLE") && at == Path::new(path));
            assert_eq!(writable("/Users/u/src/w"), bounds == Bounds::Workspace);
            assert!(writable("/private/tmp"));
            assert!(!it.text.contains("network-outbound (remote"), "no network unless it is asked for");
        }
    }
}
