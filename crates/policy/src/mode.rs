use std::{fmt, str::FromStr};

/// A boundary and an approver (DESIGN §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Read only; the model is asked to present a plan.
    Plan,
    /// Read only.
    ReadOnly,
    /// The workspace; a person approves each mutation and each crossing.
    Manual,
    /// The workspace; crossings are refused.
    WorkspaceWrite,
    /// The workspace; crossings are reviewed.
    Auto,
    /// No boundary.
    FullAccess,
}

impl Mode {
    /// All modes, narrowest first.
    pub const ALL: [Self; 6] = [Self::Plan, Self::ReadOnly, Self::Manual, Self::WorkspaceWrite, Self::Auto, Self::FullAccess];

    /// The name used on command lines, in settings and in journals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::ReadOnly => "read_only",
            Self::Manual => "manual",
            Self::WorkspaceWrite => "workspace_write",
            Self::Auto => "auto",
            Self::FullAccess => "full_access",
        }
    }

    /// Whether this mode gives less than `other`: a smaller boundary, or the same without a reviewer.
    #[must_use]
    pub fn is_narrower_than(self, other: Self) -> bool {
        let rank = |it: Self| match it {
            Self::Plan | Self::ReadOnly => 0,
            Self::Manual | Self::WorkspaceWrite => 1,
            Self::Auto => 2,
            Self::FullAccess => 3,
        };
        rank(self) < rank(other)
    }

    /// Whether nothing in the workspace may change.
    #[must_use]
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Plan | Self::ReadOnly)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mode that does not exist; says which do.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownMode(pub String);

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Mode::ALL.map(Mode::name).join(", ");
        write!(f, "there is no mode '{}'; the modes are {names}", self.0.escape_debug())
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;
    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let wanted = text.trim().replace('-', "_");
        Self::ALL.into_iter().find(|it| it.name() == wanted).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}
