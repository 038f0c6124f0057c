use std::path::PathBuf;

/// How a path is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Its content or its listing is read.
    Read,
    /// It is created or changed.
    Write,
    /// It is removed; a link at its end is removed itself, not what it points to.
    Remove,
}

impl Touch {
    /// Whether something is different afterwards.
    #[must_use]
    pub fn changes(self) -> bool {
        self != Self::Read
    }
}

/// A path that a call would touch, as the model spelled it, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// Absolute, not normalised.
    pub path: PathBuf,
    /// How.
    pub touch: Touch,
}

/// A command line that a call would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// For `sh -c`.
    pub command: String,
    /// Where it runs; absolute.
    pub cwd: PathBuf,
    /// The model asks to leave the sandbox, and why.
    pub escalate: Option<String>,
    /// A shell other than `/bin/sh`; without a sandbox only.
    pub shell: Option<PathBuf>,
}

/// When `auto` has a call reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reviewed {
    /// When it crosses a boundary.
    AtBoundary,
    /// Every time: it acts where no boundary of sid's holds, or on something that runs already.
    Always,
}

/// What an allowed review gives a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifted {
    /// This one execution runs without the boundary.
    Boundary,
    /// It runs where it would have run.
    Nothing,
}

/// Where a call acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// Behind sid's own boundary.
    Inside,
    /// Where sid can't hold it, so that only a reviewer, a person or `full_access` can let it.
    Elsewhere,
}

/// What a call would touch, as its tool declares before anything happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The tool's name on the model's surface.
    pub tool: String,
    /// The operation behind it, the same for every surface (`shell`, `read`, `edit`, …).
    pub operation: &'static str,
    /// Whether it changes anything outside sid itself.
    pub mutates: bool,
    /// Files and folders.
    pub paths: Vec<PathUse>,
    /// A command.
    pub exec: Option<Exec>,
    /// The command only looks: nothing is writable for it but temporary folders, in every mode with a boundary.
    pub looks: bool,
    /// A command that only looks, run before the other one: what a program answers before it works.
    pub before: Option<String>,
    /// Its paths may not leave the roots, in any mode; the user's skills may be read.
    pub stays: bool,
    /// Input for a command that runs already, behind its own boundary.
    pub input: bool,
    /// When `auto` has it reviewed.
    pub reviewed: Reviewed,
    /// What an allowed review lifts.
    pub lifted: Lifted,
    /// Where it acts.
    pub acts: Acts,
    /// Exactly what a reviewer is asked about, in words. Without them there can be no review, so the call is an error.
    pub action: Option<String>,
}

impl Access {
    /// An access that touches nothing.
    #[must_use]
    pub fn none(tool: &str, operation: &'static str) -> Self {
        Self {
            tool: tool.to_owned(),
            operation,
            mutates: false,
            paths: Vec::new(),
            exec: None,
            looks: false,
            before: None,
            stays: false,
            input: false,
            reviewed: Reviewed::AtBoundary,
            lifted: Lifted::Boundary,
            acts: Acts::Inside,
            action: None,
        }
    }

    /// Its paths may not leave the roots, wherever links lead.
    #[must_use]
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Says what a reviewer is asked about.
    #[must_use]
    pub fn described(mut self, action: String) -> Self {
        self.action = Some(action);
        self
    }

    /// Text for a command that runs: reviewed when there is any, and never a reason to lift anything.
    #[must_use]
    pub fn feeds(mut self, text: &str, job: u32) -> Self {
        self.lifted = Lifted::Nothing;
        if !text.is_empty() {
            (self.input, self.mutates, self.reviewed) = (true, true, Reviewed::Always);
            self = self.described(format!("writing {} to the input of running command {job}", quoted(text)));
        }
        self
    }

    /// Adds a path that is read.
    #[must_use]
    pub fn reads(mut self, path: PathBuf) -> Self {
        self.action.get_or_insert_with(|| format!("reading {}", quoted(&path.to_string_lossy())));
        self.paths.push(PathUse { path, touch: Touch::Read });
        self
    }

    /// Adds a path that is written.
    #[must_use]
    pub fn writes(mut self, path: PathBuf) -> Self {
        self.action.get_or_insert_with(|| format!("writing {}", quoted(&path.to_string_lossy())));
        self.paths.push(PathUse { path, touch: Touch::Write });
        self.mutates = true;
        self
    }

    /// Adds a path that is removed.
    #[must_use]
    pub fn removes(mut self, path: PathBuf) -> Self {
        self.action.get_or_insert_with(|| format!("removing {}", quoted(&path.to_string_lossy())));
        self.paths.push(PathUse { path, touch: Touch::Remove });
        self.mutates = true;
        self
    }

    /// Adds a command that only looks, to be run before the other.
    #[must_use]
    pub fn asks(mut self, command: String) -> Self {
        self.before = Some(command);
        self
    }

    /// Adds a command that only looks.
    #[must_use]
    pub fn looks(mut self, exec: Exec) -> Self {
        (self.exec, self.looks) = (Some(exec), true);
        self
    }

    /// Adds a command.
    #[must_use]
    pub fn runs(mut self, exec: Exec) -> Self {
        let place = quoted(&exec.cwd.to_string_lossy());
        self = self.described(format!("running {} in {place} without the sandbox", quoted(&exec.command)));
        self.exec = Some(exec);
        self.mutates = true;
        self
    }
}

/// `text` in quotes, with nothing left out, and nothing in it that could look like something else: controls, line ends and
/// characters that change the direction of writing are spelled out.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for it in text.chars() {
        match it {
            '"' | '\\' => out.extend(['\\', it]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => out.extend(it.escape_unicode()),
            it if it.is_control() => out.extend(it.escape_unicode()),
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Missing,
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A FIFO, socket or device.
    Special,
}

/// A path after the one look at the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// Absolute, `.` and `..` removed by spelling alone.
    pub lexical: PathBuf,
    /// Absolute, all links followed; what is missing is appended as spelled. `None`: it can't be resolved (a loop, no permission).
    pub canonical: Option<PathBuf>,
    /// How it is touched.
    pub touch: Touch,
    /// What is there.
    pub kind: Kind,
}

/// An access with its paths resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// What the tool declared.
    pub access: Access,
    /// Its paths, in the same order.
    pub paths: Vec<ResolvedPath>,
}
