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
}

impl Access {
    /// An access that touches nothing.
    #[must_use]
    pub fn none(tool: &str, operation: &'static str) -> Self {
        Self { tool: tool.to_owned(), operation, mutates: false, paths: Vec::new(), exec: None }
    }

    /// Adds a path that is read.
    #[must_use]
    pub fn reads(mut self, path: PathBuf) -> Self {
        self.paths.push(PathUse { path, touch: Touch::Read });
        self
    }

    /// Adds a path that is written.
    #[must_use]
    pub fn writes(mut self, path: PathBuf) -> Self {
        self.paths.push(PathUse { path, touch: Touch::Write });
        self.mutates = true;
        self
    }

    /// Adds a path that is removed.
    #[must_use]
    pub fn removes(mut self, path: PathBuf) -> Self {
        self.paths.push(PathUse { path, touch: Touch::Remove });
        self.mutates = true;
        self
    }

    /// Adds a command.
    #[must_use]
    pub fn runs(mut self, exec: Exec) -> Self {
        self.exec = Some(exec);
        self.mutates = true;
        self
    }
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
