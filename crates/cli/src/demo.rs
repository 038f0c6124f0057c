//! `sid demo`: a recorded model, everything else real.
use std::{fs, path::Path, process::ExitCode};

use sid_core::{Record, Status};
use sid_engine::Limits;
use sid_journal::Store;
use sid_policy::Mode;

use crate::{
    args::DemoArgs,
    print::Style,
    run::{Job, execute},
    say,
};

const RECORDING: &str = include_str!("demo/recording.jsonl");
/// The scratch workspace: a small script with a fault, and its test.
const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("demo/workspace/README.md")),
    ("longest.sh", include_str!("demo/workspace/longest.sh")),
    ("test.sh", include_str!("demo/workspace/test.sh")),
];
const PROMPT: &str = "The test of this little project fails. Find out why, mend it, and show that it passes.";

pub(crate) fn demo(args: &DemoArgs) -> ExitCode {
    let dir = std::env::temp_dir().join(format!("sid-demo-{}", std::process::id()));
    let code = match prepare(&dir) {
        Ok(()) => play(&dir),
        Err(err) => {
            say(&format!("sid: the demo's workspace can't be made at {}: {err}", dir.display()));
            ExitCode::FAILURE
        }
    };
    if args.keep {
        say(&format!("The workspace is kept: {}", dir.join("workspace").display()));
    } else if let Err(err) = fs::remove_dir_all(&dir) {
        say(&format!("sid: {} could not be removed: {err}", dir.display()));
    }
    code
}

fn prepare(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir.join("workspace"))?;
    fs::write(dir.join("recording.jsonl"), RECORDING)?;
    FILES.iter().try_for_each(|(name, text)| fs::write(dir.join("workspace").join(name), text))
}

fn play(dir: &Path) -> ExitCode {
    say(
        "This is a real session of sid in a scratch workspace. Only the model's words are recorded: the files are read and edited,",
    );
    say("and the tests run in the sandbox, here and now.\n");
    say(&format!("> {PROMPT}\n"));
    let sessions = dir.join("sessions");
    let code = execute(Job {
        params: crate::run::Params::default(),
        adjusted: Vec::new(),
        recording: None,
        parent: None,
        prompt: PROMPT.to_owned(),
        cwd: dir.join("workspace"),
        roots: Vec::new(),
        resume: None,
        model: Some(format!("replay:{}", dir.join("recording.jsonl").display())),
        mode: Some(Mode::WorkspaceWrite),
        allow: ["edit_file", "run_command"].map(str::to_owned).into(),
        deny: std::collections::BTreeSet::new(),
        trust: false,
        agent: None,
        person: None,
        limits: Limits { rounds: 24, tokens: None, time: None },
        style: Style::Tour,
        sessions: Some(sessions.clone()),
    });
    if code != ExitCode::SUCCESS {
        return code;
    }
    match last_status(&Store::new(sessions)) {
        Some(Status::Ok) => {
            say("\nThe test failed before the edit and passes after it; both ran in the sandbox. Now with a model of yours:");
            say("  export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server)");
            say("  sid run \"Explain this repository\"");
            ExitCode::SUCCESS
        }
        _ => {
            say("\nsid: the demo's test does not pass here. `sid doctor` says what is missing.");
            ExitCode::FAILURE
        }
    }
}

/// How the demo's last call ended.
fn last_status(store: &Store) -> Option<Status> {
    let id = store.list().ok()?.first()?.meta.id.clone();
    let records = store.read(&id).ok()?.records;
    records.iter().rev().find_map(|it| if let Record::Finished(it) = it { Some(it.outcome.status) } else { None })
}
