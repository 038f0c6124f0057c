//! From an rc configuration to what a run is made of: an agent's tools, its prompt, and what a person is asked about.
use std::collections::BTreeMap;

use sid_config::rc::Switch;
use sid_policy::Default as Stance;
use sid_project::setup::{Agent, Setup, ToolService};
use sid_tools::{Bash, External, Keep, Tool};

use crate::paths::var;

/// What the built-in names of rc files stand for: operations of the surface.
const BUILT_IN: &[(&str, &[&str])] =
    &[("edit", &["edit", "create"]), ("read", &["read", "list"]), ("search", &["search"]), ("glob", &["glob"])];

/// An agent's part of a run.
pub(crate) struct Part {
    pub(crate) tools: Vec<Box<dyn Tool>>,
    /// Tools that a person is asked about.
    pub(crate) asked: BTreeMap<String, Stance>,
    pub(crate) notices: Vec<String>,
}

/// The tools of an agent, out of the surface's and the configuration's own.
pub(crate) fn part(setup: &Setup, agent: &Agent, surface: Vec<Box<dyn Tool>>) -> Result<Part, String> {
    let mut it = Part { tools: Vec::new(), asked: BTreeMap::new(), notices: Vec::new() };
    let view = sid_tools::View { cwd: "/".into(), places: Vec::new() };
    let mut surface: Vec<(Option<&'static str>, Box<dyn Tool>)> =
        surface.into_iter().map(|tool| (crate::reference::operation(tool.as_ref(), &view), tool)).collect();
    for used in &agent.tools {
        let Some(service) = setup.tool(&used.service) else { continue };
        let asked = service.switch == Switch::Manual;
        if let (Some(program), Some(manifest)) = (&service.program, &service.manifest) {
            let outer = |name: &str| std::env::var(name).ok();
            let variables = setup.variables(&service.id, &outer).map_err(|it| it.to_string())?;
            if asked {
                it.asked.insert(used.exposed.clone(), Stance::Ask);
            }
            it.tools.push(Box::new(External {
                name: used.exposed.clone(),
                service: service.id.clone(),
                canonical: service.canonical.clone(),
                description: manifest.description.clone(),
                schema: serde_json::Value::Object(manifest.input_schema.clone()).to_string(),
                program: program.clone(),
                timeout: service.timeout,
                variables,
                services: setup.tools.iter().map(|it| it.id.clone()).collect(),
                root: setup.root.clone(),
                agent: agent.id.clone(),
                keep: keep(),
            }));
            continue;
        }
        if let Some(tool) = own(service) {
            if asked {
                it.asked.insert(tool.name().to_owned(), Stance::Ask);
            }
            it.tools.push(tool);
            continue;
        }
        let Some((_, operations)) = BUILT_IN.iter().find(|it| it.0 == service.canonical) else {
            it.notices.push(format!("the agent `{}` lists `{}`, which this build has not", agent.id, used.exposed));
            continue;
        };
        let (wanted, rest): (Vec<_>, Vec<_>) =
            surface.into_iter().partition(|(operation, _)| operation.is_some_and(|it| operations.contains(&it)));
        surface = rest;
        for (operation, tool) in wanted {
            if asked && matches!(operation, Some("shell" | "edit" | "create" | "input")) {
                it.asked.insert(tool.name().to_owned(), Stance::Ask);
            }
            it.tools.push(tool);
        }
    }
    Ok(it)
}

/// The built-in tools that are there for rc configurations alone.
fn own(service: &ToolService) -> Option<Box<dyn Tool>> {
    if service.canonical == "bash" {
        return Some(Box::new(Bash { timeout: service.timeout }));
    }
    sid_tools::git().into_iter().find(|it| it.name() == service.canonical)
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

/// The agent's hook, unless it is switched off.
pub(crate) fn hook(setup: &Setup, agent: &Agent) -> Option<sid_tools::Hook> {
    let program = agent.hook.clone().filter(|_| agent.user_instructions)?;
    let name = program.file_name()?.to_string_lossy().into_owned();
    Some(sid_tools::Hook { name, program, root: setup.root.clone(), agent: agent.id.clone(), timeout: HOOK })
}
