//! The program of a user that adds instructions to what they say: an rc service of `agents/`, run once a turn, read-only.
use std::{path::PathBuf, time::Duration};

use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Exit, Limits, Scratch, quoted};

use crate::{
    Plan, View,
    external::{Shown, prefix},
    shells::{GRACE, OUTPUT},
};

/// A hook.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its name, which its variables begin with.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
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
        let exec = Exec { command: self.script(view), cwd: view.cwd.clone(), escalate: None, shell: None };
        let (it, message) = (self.clone(), message.to_owned());
        Plan {
            label: format!("hook {}", self.name),
            access: Access::none(&self.name, "hook").looks(exec),
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    let name = it.name.clone();
                    it.run(place, &message).await.unwrap_or_else(|why| Outcome::failed(format!("the hook '{name}' {why}")))
                })
            }),
        }
    }

    fn script(&self, view: &View) -> String {
        let start = prefix(&self.name);
        let text = |it: &std::path::Path| Shown::Text(it.to_string_lossy().into_owned());
        let conf = self.root.join("agents.conf");
        let own = [
            ("WORKSPACE_ROOT", text(&view.cwd)),
            ("CONFIG_ROOT", text(&self.root)),
            ("AGENT_ID", Shown::Text(self.agent.clone())),
            ("HOOK_NAME", Shown::Text(self.name.clone())),
            ("AGENTS_MD_PATH", Shown::Text(self.agents_md.clone())),
            ("USER_MESSAGE_FILE", Shown::Scratch("/user-message.txt")),
            ("SKILLS_MANIFEST_FILE", Shown::Scratch("/skills.tsv")),
            ("SKILLS_DIR", Shown::Scratch("/skills")),
            ("SCRATCH_DIR", Shown::Scratch("")),
            ("TEMP_DIR", Shown::Scratch("/tmp")),
            ("TMPDIR", Shown::Scratch("/tmp")),
            ("RC_CONF_PATH", text(&conf)),
            ("RC_D_PATH", text(&self.root.join("agents"))),
        ];
        let own = own.into_iter().map(|(name, value)| (format!("{start}{name}"), value));
        let more = [
            ("RCVAR_ARGV0", Shown::Text(start.trim_end_matches('_').to_owned())),
            ("RC_CONF_PATH", text(&conf)),
            ("RC_D_PATH", text(&self.root.join("agents"))),
            ("TMPDIR", Shown::Scratch("/tmp")),
            ("PAGER", Shown::Text("cat".to_owned())),
            ("SID_WORKSPACE_ROOT", text(&view.cwd)),
        ];
        let all = own.chain(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let lines: String = all.map(|(name, value)| format!("export {name}={}\n", value.for_shell())).collect();
        format!(
            "S=${}\n{lines}unset S\nexec {} run 2>\"${}/stderr\"",
            sid_sandbox::SCRATCH,
            quoted(&self.program.to_string_lossy()),
            sid_sandbox::SCRATCH
        )
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

    async fn run(&self, place: &Confined<'_>, message: &str) -> Result<Outcome, String> {
        let scratch = place.scratch()?;
        let put = |name: &str, text: &str| scratch.write(name, text.as_bytes());
        let manifest = self.manifest(&scratch);
        put("user-message.txt", message)
            .and_then(|()| put("skills.tsv", &manifest?))
            .map_err(|err| format!("could not be asked: {err}"))?;
        let limits = Limits { time: self.timeout, grace: GRACE, output: OUTPUT };
        let ran = place.run_in(&scratch, limits).await.map_err(|why| format!("could not be started: {why}"))?;
        if ran.timed_out {
            return Err(format!("took longer than {} s and was stopped", self.timeout.as_secs()));
        }
        let said = scratch.read("stderr", OUTPUT as u64).unwrap_or_default();
        let said = crate::shells::tail(String::from_utf8_lossy(&said).trim(), 10, 500);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        match ran.exit {
            Exit::Code(0) => Ok(Outcome::ok(ran.output.text)),
            Exit::Code(code) => Err(format!("exited with status {code}{said}")),
            Exit::Signal(signal) => Err(format!("was ended by signal {signal}{said}")),
            Exit::NoSandbox => Err(format!("could not be started: the sandbox could not be set up{said}")),
        }
    }
}
