//! From an rc configuration to what a run is made of: an agent's tools, its prompt, and what a person is asked about.
use std::{collections::BTreeMap, path::PathBuf};

use sid_config::rc::Switch;
use sid_policy::Default as Stance;
use sid_project::setup::{Agent, SKILL, Setup, ToolService};
use sid_tools::{Asked, Bash, External, Keep, Shells, Tool};

use crate::paths::var;

/// An agent's part of a run.
pub(crate) struct Part {
    pub(crate) tools: Vec<Box<dyn Tool>>,
    /// Tools that a person is asked about.
    pub(crate) asked: BTreeMap<String, Stance>,
    pub(crate) notices: Vec<String>,
}

/// The tools of an agent: services of the configuration, and whole surfaces by `@` and their name.
pub(crate) fn part(setup: &Setup, agent: &Agent) -> Result<Part, String> {
    let mut it = Part { tools: Vec::new(), asked: BTreeMap::new(), notices: Vec::new() };
    for used in &agent.tools {
        if let Some(surface) = used.exposed.strip_prefix('@') {
            let shells = Shells::ALL.iter().find(|it| it.0 == surface).map(|it| it.1);
            let more = sid_tools::with_shells(shells.ok_or_else(|| format!("there is no surface `@{surface}`"))?);
            it.tools
                .extend(more.into_iter().filter(|more| !it.tools.iter().any(|it| it.name() == more.name())).collect::<Vec<_>>());
            continue;
        }
        let Some(service) = setup.tool(&used.service) else { continue };
        let tool = match &service.program {
            Some(program) => Box::new(external(setup, agent, service, program.clone(), &used.exposed)?),
            None => own(service).ok_or_else(|| format!("`{}` is no tool of this build", used.exposed))?,
        };
        if it.tools.iter().any(|it| it.name() == tool.name()) {
            continue;
        }
        if service.switch == Switch::Manual {
            it.asked.insert(tool.name().to_owned(), Stance::Ask);
        }
        it.tools.push(tool);
    }
    Ok(it)
}

/// A program of the configuration's as a tool; one that takes the place of the editor is called as that is.
fn external(setup: &Setup, agent: &Agent, service: &ToolService, program: PathBuf, exposed: &str) -> Result<External, String> {
    let outer = |name: &str| std::env::var(name).ok();
    let (name, description, schema) = match &service.manifest {
        Some(it) if service.canonical != "edit" => {
            (exposed.to_owned(), it.description.clone(), serde_json::Value::Object(it.input_schema.clone()).to_string())
        }
        _ => {
            let it = sid_tools::TextEditor;
            (it.name().to_owned(), it.description().to_owned(), it.schema().to_owned())
        }
    };
    Ok(External {
        name,
        service: service.id.clone(),
        canonical: service.canonical.clone(),
        description,
        schema,
        program,
        timeout: service.timeout,
        confirm: service.confirm && service.switch == Switch::Manual,
        variables: setup.variables(&service.id, &outer).map_err(|it| it.to_string())?,
        asked: Asked::default(),
        services: setup.tools.iter().map(|it| it.id.clone()).collect(),
        manual: setup.tools.iter().filter(|it| it.switch == Switch::Manual).map(|it| it.id.clone()).collect(),
        root: setup.root.clone(),
        agent: agent.id.clone(),
        keep: keep(),
    })
}

/// The built-in tools that are there for rc configurations alone.
fn own(service: &ToolService) -> Option<Box<dyn Tool>> {
    if service.canonical == "bash" {
        return Some(Box::new(Bash { timeout: service.timeout }));
    }
    sid_tools::built_in(&service.canonical)
}

/// When the folders of calls stay, by the variables of the manual.
fn keep() -> Keep {
    let on =
        |name: &str| var(name).is_some_and(|it| matches!(it.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"));
    match (on("SID_KEEP_TOOL_SCRATCH"), on("SID_KEEP_FAILED_TOOL_SCRATCH")) {
        (true, _) => Keep::Always,
        (false, true) => Keep::Failed,
        (false, false) => Keep::Never,
    }
}

/// How long a hook may take.
const HOOK: std::time::Duration = std::time::Duration::from_secs(20);

/// The skills of an agent as tools see them.
pub(crate) fn skills(setup: &Setup, agent: &Agent) -> Vec<(String, PathBuf)> {
    setup.skills_of(agent).into_iter().map(|it| (it.id, it.dir)).collect()
}

/// What the model is told of skills.
pub(crate) fn index(skills: &[(String, PathBuf)]) -> Option<String> {
    let lines: String = skills.iter().map(|it| format!("- /skills/{}/{SKILL}\n", it.0)).collect();
    let head = "# Skills\n\nProcedures for some kinds of work. Before such work read the file with `read` or the editor, and do as it says.\n\n";
    (!skills.is_empty()).then(|| format!("{head}{lines}"))
}

/// The agent's hook, unless it is switched off.
pub(crate) fn hook(setup: &Setup, agent: &Agent, agents_md: &[PathBuf]) -> Result<Option<sid_tools::Hook>, String> {
    let Some(program) = agent.hook.clone().filter(|_| agent.user_instructions) else { return Ok(None) };
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let agents_md = agents_md.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(":");
    let outer = |name: &str| std::env::var(name).ok();
    Ok(Some(sid_tools::Hook {
        variables: setup.hook_variables(&name, &outer).map_err(|it| it.to_string())?,
        asked: Asked::default(),
        name,
        program,
        root: setup.root.clone(),
        agent: agent.id.clone(),
        timeout: agent.hook_timeout.unwrap_or(HOOK),
        skills: skills(setup, agent),
        agents_md,
    }))
}
