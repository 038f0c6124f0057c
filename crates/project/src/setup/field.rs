//! The fields of services, as the reference and `sid config` tell of them.

/// A field that sid reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name, which follows the service's prefix.
    pub name: &'static str,
    /// What it can be.
    pub value: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

const fn field(name: &'static str, value: &'static str, default: &'static str, doc: &'static str) -> Field {
    Field { name, value, default, doc }
}

/// Fields of every service.
pub const SERVICE_FIELDS: &[Field] = &[
    field("ENABLED", "YES, MANUAL, NO", "NO", "whether it may start or be used; MANUAL asks a person each time"),
    field("ALIASES", "a service", "-", "it is another name of that service"),
    field("INHERIT", "YES, NO", "NO", "with an alias: fields that it has not are that service's"),
];

/// Fields of an agent.
pub const AGENT_FIELDS: &[Field] = &[
    field("NAME", "text", "-", "a name for people"),
    field("DESC", "text", "-", "what it is for"),
    field("TOOLS", "names", "none", "services of tools.conf, and whole surfaces: @sigit, @claude, @codex, @grok"),
    field("SKILLS", "names, or *", "none", "skills it is shown as /skills/NAME/SKILL.md"),
    field("MODEL", "a model", "as without an agent", "its model; --model counts more"),
    field("SYSTEM", "text", "agents/NAME.md", "what the model is told before everything"),
    field("MAX_TOKENS", "a number above 0", "the provider's", "the most tokens of one answer"),
    field("TEMPERATURE", "0 to 1", "the provider's", "sampling"),
    field("TOP_P", "0 to 1", "the provider's", "sampling"),
    field("TOP_K", "a number", "the provider's", "sampling; not on Chat Completions, which is said"),
    field("STOP_SEQUENCES", "texts", "none", "texts that end an answer; quotes within the value keep blanks together"),
    field("THINKING", "on, off, a number", "off", "tokens of thinking, 1024 for on; not on Chat Completions, which is said"),
    field(
        "USE_COLOR",
        "YES, NO",
        "-",
        "whether lines on a terminal have colours; if absent, unless NO_COLOR is set or TERM is dumb",
    ),
    field("NO_COLOR", "YES, NO", "-", "the opposite, and counts more; what sid starts is told by the variable NO_COLOR"),
    field("SESSION_BUDGET", "a number", "none", "tokens of a whole session; a turn does not begin once they are used up"),
    field("CACHING_ENABLED", "YES, NO", "YES", "whether the provider may cache the prompt"),
    field("USER_INSTRUCTIONS", "YES, NO", "YES", "whether the hook runs"),
    field("AGENTS_MD", "YES, NO", "YES", "whether files for agents are read"),
    field("AGENTS_MD_PATH", "paths joined by :", "$AGENTS_MD_PATH, else as docs/manual.md says", "which files for agents are read"),
    field(
        "USER_INSTRUCTIONS_HOOK",
        "a name",
        "none",
        "agents/NAME, run for each message of the user, for 20 s or what NAME_TIMEOUT says",
    ),
];

/// Fields of a tool that sid reads; others are the tool's own.
pub const TOOL_FIELDS: &[Field] = &[
    field("CONFIRM", "YES, NO", "NO", "a MANUAL tool's program is asked for a preview (`confirm`) before the person is asked"),
    field("TIMEOUT", "seconds", "270", "how long a call may run; 0: as long as it likes"),
];

/// The names of fields.
pub(crate) fn names(fields: &[Field]) -> Vec<&'static str> {
    fields.iter().map(|it| it.name).collect()
}
