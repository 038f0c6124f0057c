//! The command line, as close to what was typed as possible.
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

/// A coding agent for people who like small, inspectable tools.
#[derive(Debug, Parser)]
#[command(name = "sid", version, about, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "`sid run --help` tells about headless runs; `sid demo` shows one without any key.")]
pub(crate) struct Cli {
    /// A prompt to run headless; the same as `sid run PROMPT`
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", allow_hyphen_values = true, action = ArgAction::Append)]
    pub(crate) prompt: Vec<String>,
    /// Talk line by line, also where standard input is no terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Run a command in the agent's shell, and leave: a check of the configuration, without a model
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) bash_debug: Option<String>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    // The last: what follows its heading would be below it.
    #[command(flatten)]
    pub(crate) params: ParamArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// How the model is asked to answer, for line mode; an agent's own fields count more.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ParamArgs {
    /// The model; the same as --model
    #[arg(long, value_name = "MODEL", conflicts_with = "model")]
    pub(crate) param_model: Option<String>,
    /// What the model is told before everything
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    pub(crate) param_system: Option<String>,
    /// The most tokens of an answer
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) param_max_tokens: Option<u32>,
    /// Sampling temperature, 0 to 1
    #[arg(long, value_name = "TEMP", value_parser = unit, allow_hyphen_values = true)]
    pub(crate) param_temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1
    #[arg(long, value_name = "TOP_P", value_parser = unit, allow_hyphen_values = true)]
    pub(crate) param_top_p: Option<f64>,
    /// How many tokens are considered
    #[arg(long, value_name = "TOP_K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) param_top_k: Option<u32>,
    /// Tokens of thinking
    #[arg(long, value_name = "TOKENS")]
    pub(crate) param_thinking: Option<u32>,
    /// No colours; what sid starts is told by NO_COLOR
    #[arg(long)]
    pub(crate) param_no_color: bool,
}

fn unit(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it));
    found.ok_or_else(|| "it must be a number from 0 to 1".to_owned())
}

/// Long options that may be spelled with one dash, as sid's manual does.
const ONE_DASH: &[&str] = &["param-", "resume", "bash-debug", "help"];

/// The same arguments with two dashes.
pub(crate) fn spelled(given: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let mut over = false;
    let twice = |it: std::ffi::OsString| {
        over |= it == "--";
        let short = it.to_str().and_then(|it| it.strip_prefix('-')).filter(|it| !over && !it.starts_with('-'));
        match short {
            Some(name)
                if ONE_DASH
                    .iter()
                    .any(|it| if it.ends_with('-') { name.starts_with(it) } else { name.split('=').next() == Some(it) }) =>
            {
                format!("--{name}").into()
            }
            _ => it,
        }
    };
    given.into_iter().map(twice).collect()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a prompt without a person: for scripts, CI and other agents
    #[command(after_help = RUN_HELP)]
    Run(Box<RunCommand>),
    /// Watch a recorded session run for real, without a key and without a network
    Demo(DemoArgs),
    /// Check what sid needs: sandbox, model, configuration, terminal
    Doctor,
    /// List, show, export and delete saved sessions
    Sessions(SessionsArgs),
    /// See what commands reached through the managed network
    Network {
        #[command(subcommand)]
        command: NetworkCommand,
    },
    /// List, give and take back trust in what workspaces ask for
    Trust {
        #[command(subcommand)]
        command: Option<TrustCommand>,
    },
    /// Make a configuration to begin with: agents, tools, a hook; files that are there stay as they are
    Init {
        /// The folder; else the configuration root
        dir: Option<PathBuf>,
    },
    /// Print what is in force and where it comes from; with KEY what that does; with `check` everything that is wrong (exit code 1)
    Config {
        /// A key of settings.toml, a field of an agent or a tool with or without its prefix, or `check`
        key: Option<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print docs/reference.md, or docs/rc.md
    #[command(hide = true)]
    Reference {
        /// `rc` for the latter
        page: Option<String>,
    },
    /// Write man pages to a folder
    Man {
        /// The folder; made if missing
        dir: PathBuf,
    },
}

const RUN_HELP: &str = "\
Exit codes: 0 the turn completed, also when a tool was denied or a limit ended it; 1 the model, the session or the journal \
failed; 2 wrong arguments or directories; 130 or 143 interrupted by a signal.

Environment: ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL, XAI_API_KEY, SID_MODEL, SIGIT_MODEL, \
SID_MAX_TOOL_ROUNDS, SIGIT_MAX_TOOL_ROUNDS, SIGIT_PERMISSIONS, SID_HOME, SIGIT_CONFIG_DIR, SID_SESSIONS.";

#[derive(Debug, Args)]
pub(crate) struct RunCommand {
    /// What to do; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) positional: Option<String>,
    /// What to do, for a prompt that begins with a dash
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", allow_hyphen_values = true, action = ArgAction::Append)]
    pub(crate) prompt: Vec<String>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Work in this directory
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) cwd: Option<PathBuf>,
    /// A further directory to work in (repeatable)
    #[arg(long = "add-dir", value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Continue a saved session: its id, a unique prefix of it, or its folder
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) resume: Option<String>,
    /// The model: a name its endpoint knows, PROFILE/NAME, anthropic/…, openai/…, xai/…, or replay:FILE
    #[arg(long, value_name = "MODEL", allow_hyphen_values = true)]
    pub(crate) model: Option<String>,
    /// The agent of agents.conf [default: DEFAULT_AGENT, else the first that may start]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) agent: Option<String>,
    /// What may be touched: plan, read_only, manual, workspace_write, auto or full_access [default: manual]
    #[arg(long, value_name = "MODE", allow_hyphen_values = true)]
    pub(crate) mode: Option<String>,
    /// Let this tool run without asking (repeatable)
    #[arg(long = "allow-tool", value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) allow_tool: Vec<String>,
    /// Never run this tool; wins over everything (repeatable)
    #[arg(long = "deny-tool", value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) deny_tool: Vec<String>,
    /// Trust for this run what the workspace asks for: network access, agents and tools of its own
    #[arg(long)]
    pub(crate) trust: bool,
    /// Rounds of tool calls, 1 to 500 [default: 24]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) max_tool_rounds: Option<String>,
    /// End the turn once its answers took this many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens_total: Option<u64>,
    /// End the turn after this many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_seconds: Option<u64>,
    /// How to print: the answer as text, or one JSON event a line
    #[arg(long, value_name = "FORMAT", default_value = "text", overrides_with = "output")]
    pub(crate) output: Output,
    /// Print only the final answer (text output only)
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Jsonl,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NetworkCommand {
    /// List destinations that were reached and refused
    Log {
        /// A session's id, a unique prefix, or its folder; else all sessions of this directory
        id: Option<String>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List the files of workspaces that are trusted
    List,
    /// Trust what a workspace asks for, until its file changes
    Add {
        /// The workspace [default: this directory]
        dir: Option<PathBuf>,
    },
    /// Trust nothing of a workspace any more
    Revoke {
        /// The workspace [default: this directory]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the scratch workspace and say where it is
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, latest first
    List {
        /// Only those of this directory
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show a session: its messages, calls and outcomes
    Show {
        /// Its id, a unique prefix, or its folder
        id: String,
    },
    /// Search the words of all sessions
    Search {
        /// The words, as they are; letter case does not count
        text: String,
    },
    /// Print a session in another form
    Export {
        /// Its id, a unique prefix, or its folder
        id: String,
        /// The form
        #[arg(long = "as", value_name = "FORM", default_value = "markdown")]
        form: Form,
    },
    /// Delete a session
    Delete {
        /// Its id, a unique prefix, or its folder
        id: String,
    },
    /// Delete sessions that nobody touched for a while
    Prune {
        /// Older than this many days
        #[arg(long, value_name = "DAYS")]
        older_than: u64,
        /// Only say what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Markdown,
    /// All records, as they are
    Json,
    /// For `--model replay:FILE`
    Replay,
}
