use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use sid_policy::{Access, Bounds, Exec, Mode, Network, Rules, Verdict};
use sid_project::Places;
use sid_sandbox::{Confined, Environment, Host, Reads, Seatbelt, resolve};

/// A command and what it may write.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// Folders.
    pub writable: Vec<PathBuf>,
    /// The program and its arguments; at least one, unless a policy is asked for.
    pub words: Vec<OsString>,
    /// Print the policy that macOS would be given, and run nothing.
    pub print: Print,
}

/// Whether a policy is printed instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// It is.
    Policy,
    /// It isn't.
    Nothing,
}

const USAGE: &str =
    "usage: sid-seatbelt [--writable-roots DIR[:DIR...]] -- COMMAND [ARG...], or with --print-macos-policy and no command";

/// Reads the arguments. The long option may have one dash or two.
///
/// # Errors
/// What is wrong, with the usage.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let mut writable = Vec::new();
    let mut print = Print::Nothing;
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy().into_owned();
        if text == "--" {
            let words: Vec<OsString> = args.collect();
            return if words.is_empty() { Err(format!("no command; {USAGE}")) } else { Ok(Command { writable, words, print }) };
        }
        let option = text.trim_start_matches('-');
        if option == "print-macos-policy" && text.starts_with('-') {
            print = Print::Policy;
            continue;
        }
        let value = match option.strip_prefix("writable-roots").filter(|_| text.starts_with('-')) {
            Some("") => args.next().ok_or_else(|| format!("{text} needs folders; {USAGE}"))?,
            Some(rest) if rest.starts_with('=') => OsString::from(&rest[1..]),
            _ => return Err(format!("'{}' is not understood; {USAGE}", text.escape_debug())),
        };
        writable.extend(std::env::split_paths(&value).filter(|it| !it.as_os_str().is_empty()));
    }
    if print == Print::Policy { Ok(Command { writable, words: Vec::new(), print }) } else { Err(format!("no command; {USAGE}")) }
}

/// The policy that macOS's `sandbox-exec` would be given for these folders, with its parameters as comments before it.
///
/// # Errors
/// A folder can't be one of a workspace.
pub fn macos_policy(writable: &[PathBuf]) -> Result<String, String> {
    let here = std::env::current_dir().map_err(|err| format!("the current directory can't be used: {err}"))?;
    let home = std::env::home_dir();
    let (first, more) = writable.split_first().map_or((here, &[][..]), |(first, more)| (first.clone(), more));
    let fence = sid_project::fence(&first, more, Vec::new())?;
    let below = ["src", ".cargo", ".rustup", ".config/git", ".gitconfig", ".gitignore", ".gitignore_global", ".gitmessage"];
    let reads = home.iter().flat_map(|home| below.iter().map(|it| home.join(it))).collect();
    let protected = fence.roots.iter().flat_map(|root| fence.protected.iter().map(move |it| root.join(it))).collect();
    let it = Seatbelt {
        bounds: if writable.is_empty() { Bounds::ReadOnly } else { Bounds::Workspace },
        roots: fence.roots,
        git: Vec::new(),
        temp: vec![std::env::temp_dir(), "/private/tmp".into()],
        caches: Vec::new(),
        protected,
        masked: Vec::new(),
        home,
        network: Network { local_binding: true, ..Network::default() },
        proxy: Vec::new(),
        reads: Reads::Only(reads),
    };
    let it = it.policy();
    let parameters: String = it.parameters.iter().map(|(name, path)| format!("; -D{name}={}\n", path.display())).collect();
    Ok(parameters + &it.text)
}

/// Becomes the command, in the sandbox. Returns only if that can't be, with the reason.
#[must_use]
pub fn run(command: Command) -> String {
    match prepare(command) {
        Ok(never) => never,
        Err(why) => why,
    }
}

fn prepare(command: Command) -> Result<String, String> {
    let cwd = std::env::current_dir().map_err(|err| format!("the current directory can't be used: {err}"))?;
    let mode = if command.writable.is_empty() { Mode::ReadOnly } else { Mode::WorkspaceWrite };
    let (first, more) = match command.writable.split_first() {
        Some((first, more)) => (first.clone(), more.to_vec()),
        None => (cwd.clone(), Vec::new()),
    };
    let places = Places::of(&|name| std::env::var_os(name), std::env::home_dir().as_deref());
    let fence = sid_project::fence(&first, &more, places.secret())?;
    let here = std::fs::canonicalize(&cwd).unwrap_or(cwd);
    if here.starts_with("/tmp") && !fence.roots.iter().any(|it| here.starts_with(it) || it == Path::new("/tmp")) {
        return Err("the current directory is below /tmp, which is private in the sandbox; name it in --writable-roots".to_owned());
    }
    let (tools, allow, deny) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let rules = Rules { mode, fence: Arc::new(fence), allow, deny, default: None, tools };
    let shown: Vec<_> = command.words.iter().map(|it| it.to_string_lossy()).collect();
    let exec = Exec { command: shown.join(" "), cwd: here, escalate: None, shell: None };
    let permit = match rules.judge(resolve(Access::none("sid-seatbelt", "shell").runs(exec))) {
        Verdict::Allow(permit) => permit,
        // Neither mode asks or reviews, and no rule denies.
        _ => return Err("the command is not allowed".to_owned()),
    };
    let host = Host::new(Environment::new(std::env::vars_os(), &[], &[]), std::env::temp_dir());
    Ok(Confined::enter(&host, permit).become_command(&command.words))
}
