//! The program of a user that adds instructions to what they say: an rc service of `agents/`, run once a turn, read-only.
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Kept, Limits, Scratch};

use crate::{
    Plan, View,
    rcvar::{Asked, ENVIRONMENT, Value, command, common, ended, environment, prefix, question},
    shells::{GRACE, OUTPUT, tail},
};

/// A hook.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its name, which its variables begin with.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
    /// Fields of the hook in `agents.conf` that are its own.
    pub variables: Vec<(String, String)>,
    /// Which variables it wants.
    pub asked: Asked,
    /// The configuration's folder.
    pub root: PathBuf,
    /// The agent whose turn it is.
    pub agent: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Skills of the agent: names and folders.
    pub skills: Vec<(String, PathBuf)>,
    /// The files for agents that are read, joined by `:`.
    pub agents_md: String,
}

impl Hook {
    /// Runs it for a message. What it prints is the outcome's text; a failure says why.
    #[must_use]
    pub fn plan(&self, message: &str, view: &View) -> Plan {
        let exec = Exec { command: command(&self.program, "run"), cwd: view.cwd.clone(), escalate: None, shell: None };
        let (it, message, workspace) = (self.clone(), message.to_owned(), view.cwd.clone());
        Plan {
            label: format!("hook {}", self.name),
            access: Access::none(&self.name, "hook").looks(exec).asks(question(&self.program, &prefix(&self.name))),
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    let name = it.name.clone();
                    it.run(place, &message, &workspace)
                        .await
                        .unwrap_or_else(|why| Outcome::failed(format!("the hook '{name}' {why}")))
                })
            }),
        }
    }

    /// Asks the program what it wants to be told, and writes that where its command looks.
    async fn prepare(&self, place: &Confined<'_>, scratch: &Scratch, workspace: &Path) -> Result<(), String> {
        let prefix = prefix(&self.name);
        let names = self.asked.names(place, &self.program, &prefix).await?;
        let text = |it: &str| Value::Text(it.to_owned());
        let path = |it: &Path| Value::Text(it.to_string_lossy().into_owned());
        let (dir, agents) = (scratch.dir(), self.root.join("agents"));
        let conf = self.root.join("agents.conf");
        let known = [
            ("WORKSPACE_ROOT", path(workspace)),
            ("CONFIG_ROOT", path(&self.root)),
            ("AGENT_ID", text(&self.agent)),
            ("HOOK_NAME", text(&self.name)),
            ("AGENTS_MD_PATH", text(&self.agents_md)),
            ("USER_MESSAGE_FILE", path(&dir.join("user-message.txt"))),
            ("SKILLS_MANIFEST_FILE", path(&dir.join("skills.tsv"))),
            ("SKILLS_DIR", path(&dir.join("skills"))),
            ("SCRATCH_DIR", path(dir)),
            ("TEMP_DIR", path(&dir.join("tmp"))),
            ("TMPDIR", path(&dir.join("tmp"))),
            ("RC_CONF_PATH", path(&conf)),
            ("RC_D_PATH", path(&agents)),
        ];
        let custom = self.variables.iter().map(|(name, value)| (name.as_str(), text(value)));
        let own = custom.chain(known).map(|(name, value)| (format!("{prefix}{name}"), value)).filter(|it| names.contains(&it.0));
        let common = common(&prefix, dir, workspace, conf.to_string_lossy().into_owned(), agents);
        let file = environment(own.chain(common));
        scratch.write(ENVIRONMENT, file.as_bytes()).map_err(|err| format!("could not be asked: {err}"))
    }

    /// Copies the skills that a message can name by `$`, and says where they are.
    fn manifest(&self, scratch: &Scratch) -> std::io::Result<String> {
        let part = |it: char| it.is_ascii_alphanumeric() || "_:-".contains(it);
        let mut out = String::new();
        scratch.folder("skills")?;
        for (n, (id, dir)) in self.skills.iter().filter(|it| it.0.chars().all(part)).enumerate() {
            let Ok(text) = std::fs::read(dir.join("SKILL.md")) else { continue };
            let file = format!("skills/{n}.md");
            scratch.write(&file, &text)?;
            out.push_str(&format!("{id}\t/skills/{id}/SKILL.md\t{}\n", scratch.dir().join(file).display()));
        }
        Ok(out)
    }

    async fn run(&self, place: &Confined<'_>, message: &str, workspace: &Path) -> Result<Outcome, String> {
        let scratch = place.scratch()?;
        self.prepare(place, &scratch, workspace).await?;
        let put = |name: &str, text: &str| scratch.write(name, text.as_bytes());
        let manifest = self.manifest(&scratch);
        put("user-message.txt", message)
            .and_then(|()| put("skills.tsv", &manifest?))
            .map_err(|err| format!("could not be asked: {err}"))?;
        let limits = Limits { time: self.timeout, grace: GRACE, output: OUTPUT };
        let ran = place.run_in(&scratch, Kept::Nowhere, limits).await.map_err(|why| format!("could not be started: {why}"))?;
        let complaint = tail(ran.errors.text.trim(), 10, 500);
        let complaint = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
        ended(&ran, self.timeout).map_or_else(|| Ok(Outcome::ok(ran.output.text)), |why| Err(why + &complaint))
    }
}
