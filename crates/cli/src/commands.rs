//! What a line that begins with a slash does: one table for every front end where a person types.
use std::path::Path;

use sid_core::{Parent, one_line};
use sid_engine::{Engine, Interrupt};
use sid_policy::Mode;
use sid_provider::Sampling;
use sid_sandbox::SHELL_STATE;

use crate::{
    paths::{places, var},
    print::{Printer, Style},
    run::{Job, model_named, open, setup},
    say,
};

/// The commands, as the person types them, and what they do.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("/help", "this list (also /?)"),
    ("/mode [NAME]", "show or change the mode"),
    ("/model [NAME]", "show or change the model"),
    ("/agent [list | switch NAME]", "show, list or change the agent"),
    ("/compact", "go on in a new session with a summary of this one"),
    ("/clear", "go on in a new, empty session"),
    ("/edit", "write the next message in $VISUAL or $EDITOR"),
    ("/system [TEXT]", "set or clear what the model is told before everything"),
    ("/max_tokens N", "the most tokens of an answer (or: clear)"),
    ("/temperature N", "sampling, 0 to 1 (or: clear)"),
    ("/top_p N", "sampling, 0 to 1 (or: clear)"),
    ("/top_k N", "sampling (or: clear)"),
    ("/stop add TEXT", "a text that ends an answer (or: clear, list)"),
    ("/thinking on|off|N", "thinking, and its tokens"),
    ("/cache on|off", "whether the provider caches the prompt"),
    ("/budget N", "tokens that the session may take in all (or: clear)"),
    ("/stats", "what the session took so far (also /status)"),
    ("/config", "what is in force here"),
    ("/save FILE", "write the conversation: .json a transcript, .jsonl records, else Markdown"),
    ("/load FILE", "go on in a new session with the conversation of a transcript"),
    ("/transcript", "where the conversation is kept"),
    ("/quit", "leave (also /exit, /q, Ctrl-D)"),
];

/// What follows a command.
pub(crate) enum After {
    /// The prompt.
    Prompt,
    /// These words go to the model.
    Send(String),
    /// The end.
    Leave,
}

/// What children get to end when a session is left for another.
const GRACE: std::time::Duration = std::time::Duration::from_millis(500);
/// Tokens of thinking when it is only switched on.
const THINKING: u32 = 1024;

/// Does what a command says. The engine comes back, or another one in its place; none: it could not be opened again.
pub(crate) async fn command(mut engine: Engine, job: &mut Job, text: &str, stop: &Interrupt) -> (Option<Engine>, After) {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let said = match (name.to_ascii_lowercase().as_str(), rest) {
        ("/quit" | "/exit" | "/q", _) => return (Some(engine), After::Leave),
        ("/help" | "/?", _) => {
            let width = COMMANDS.iter().map(|it| it.0.len()).max().unwrap_or(0);
            let list: Vec<String> = COMMANDS.iter().map(|(name, what)| format!("{name:<width$}  {what}")).collect();
            Ok(format!("{}\nA line that ends in \\ goes on in the next. Ctrl-C stops a turn.", list.join("\n")))
        }
        ("/mode", "") => Ok(format!("Mode: {}", engine.permissions().mode())),
        ("/mode", name) => name.parse::<Mode>().map_err(|err| err.to_string()).map(|mode| {
            engine.permissions().set_mode(mode);
            format!("Mode: {mode}")
        }),
        ("/model", "") => Ok(format!("Model: {}", engine.model_id())),
        ("/model", name) => match model_named(name).await {
            Ok((model, wire, id)) => {
                job.model = Some(name.to_owned());
                engine.use_model(model, wire, id.clone()).map(|()| format!("Model: {id}"))
            }
            Err(why) => Err(why),
        },
        ("/agents", _) | ("/agent", "list") => agents(job),
        ("/agent", "" | "show" | "current") => current(job),
        ("/agent", rest) => match rest.strip_prefix("switch").map(str::trim) {
            Some(name) if !name.is_empty() => return switch(engine, job, name).await,
            _ => Err("/agent takes nothing, list, or switch and a name".to_owned()),
        },
        ("/compact", _) => return compact(engine, job, stop).await,
        ("/clear", _) => return clear(engine, job).await,
        ("/edit", _) => match edit(engine.dir()) {
            Ok(Some(text)) => return (Some(engine), After::Send(text)),
            Ok(None) => Ok("The editor gave nothing back; nothing was sent.".to_owned()),
            Err(why) => Err(why),
        },
        ("/stats" | "/status", _) => {
            let it = engine.session().usage();
            Ok(format!("{} tokens in, {} from the cache, {} out", it.input, it.cache_read, it.output))
        }
        ("/config", _) => Ok(config(&engine)),
        ("/save", "") => Err("/save needs a file".to_owned()),
        ("/save", file) => save(&engine, &job.cwd.join(file)),
        ("/load", "") => Err("/load needs a file".to_owned()),
        ("/load", file) => match transcript_of(&job.cwd.join(file)) {
            Ok(text) => return load(engine, job, &text).await,
            Err(why) => Err(why),
        },
        ("/transcript", _) => Ok(format!(
            "The session keeps it: events.jsonl as it goes, transcript.json when it is left, both in {}. /save writes it elsewhere.",
            engine.dir().display()
        )),
        (name, rest) => match adjust(&mut engine, name, rest) {
            Some(done) => done.inspect(|_| job.adjusted.push((name.to_owned(), rest.to_owned()))),
            None => Err(format!("There is no command {}; /help lists them.", one_line(name, 40))),
        },
    };
    say(&said.unwrap_or_else(|why| why));
    (Some(engine), After::Prompt)
}

/// Changes what is in force until it is changed again, also with another agent or in the session that goes on from this one.
fn adjust(engine: &mut Engine, name: &str, rest: &str) -> Option<Result<String, String>> {
    Some(match name {
        "/system" => {
            let text = Some(rest.to_owned()).filter(|it| !it.is_empty());
            let said = if text.is_some() { "The model is told that." } else { "The model is told nothing more before everything." };
            engine.instruct(text).map(|()| said.to_owned())
        }
        "/budget" => number(rest, "/budget").map(|it| {
            engine.set_budget(it);
            it.map_or("No budget.".to_owned(), |it| format!("Budget: {it} tokens"))
        }),
        _ => match tuned(engine.sampling().clone(), name, rest)? {
            Ok((sampling, said)) => engine.retune(sampling).map(|()| said),
            Err(why) => Err(why),
        },
    })
}

/// Another way to ask the model, if that is what the command is about.
fn tuned(mut it: Sampling, name: &str, rest: &str) -> Option<Result<(Sampling, String), String>> {
    let unit = |text: &str, name: &str| -> Result<Option<f64>, String> {
        if text == "clear" {
            return Ok(None);
        }
        let found = text.parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it));
        found.map(Some).ok_or_else(|| format!("{name} takes a number from 0 to 1, or clear"))
    };
    let shown = |value: Option<String>| value.unwrap_or_else(|| "as the provider has it".to_owned());
    let whole = |text: &str| -> Result<Option<u32>, String> {
        let it = number(text, name)?;
        it.map(|it| u32::try_from(it).map_err(|_| format!("{name}: {it} is too large"))).transpose()
    };
    let done = match name {
        "/max_tokens" => whole(rest).map(|n| {
            it.max_tokens = n;
            shown(n.map(|it| it.to_string()))
        }),
        "/temperature" => unit(rest, name).map(|n| {
            it.temperature = n;
            shown(n.map(|it| it.to_string()))
        }),
        "/top_p" => unit(rest, name).map(|n| {
            it.top_p = n;
            shown(n.map(|it| it.to_string()))
        }),
        "/top_k" => whole(rest).map(|n| {
            it.top_k = n;
            shown(n.map(|it| it.to_string()))
        }),
        "/thinking" => match rest {
            "on" => Ok(Some(THINKING)),
            "off" => Ok(None),
            n => n.parse().map(Some).map_err(|_| "/thinking takes on, off, or a number of tokens".to_owned()),
        }
        .map(|n| {
            it.thinking = n;
            n.map_or("off".to_owned(), |it| format!("{it} tokens"))
        }),
        "/cache" => match rest {
            "on" | "off" => {
                it.caching = rest == "on";
                Ok(rest.to_owned())
            }
            _ => Err("/cache takes on or off".to_owned()),
        },
        "/stop" => match rest.split_once(' ').unwrap_or((rest, "")) {
            ("clear", "") => {
                it.stop.clear();
                Ok("none".to_owned())
            }
            ("list", "") => Ok(it.stop.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(" ")),
            ("add", text) if !text.trim().is_empty() => {
                let text = text.trim().to_owned();
                if !it.stop.contains(&text) {
                    it.stop.push(text);
                }
                Ok(it.stop.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(" "))
            }
            _ => Err("/stop takes add and a text, clear, or list".to_owned()),
        },
        _ => return None,
    };
    Some(done.map(|said| (it, format!("{}: {said}", &name[1..]))))
}

fn number(text: &str, name: &str) -> Result<Option<u64>, String> {
    if text == "clear" {
        return Ok(None);
    }
    let found = text.parse().ok().filter(|it| *it > 0);
    found.map(Some).ok_or_else(|| format!("{name} takes a whole number above 0, or clear"))
}

fn agents(job: &Job) -> Result<String, String> {
    let Some(found) = setup(job, &places())? else { return Ok("There is no agents.conf; the built-in agent runs.".to_owned()) };
    let now = found.agent(job.agent.as_deref()).map(|it| it.id.clone()).unwrap_or_default();
    let row = |it: &sid_project::setup::Agent| {
        let mark = if it.id == now { "*" } else { " " };
        let name = it.name.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        let about = it.description.as_ref().map(|it| format!(" - {it}")).unwrap_or_default();
        format!("{mark} {}{name} [{}]{about}", it.id, format!("{:?}", it.switch).to_uppercase())
    };
    Ok(found.agents.iter().map(row).collect::<Vec<_>>().join("\n"))
}

fn current(job: &Job) -> Result<String, String> {
    let found = setup(job, &places())?;
    let it = found.as_ref().and_then(|it| it.agent(job.agent.as_deref()).ok()).map(|it| it.id.clone());
    Ok(format!("Agent: {}", it.unwrap_or_else(|| "sid".to_owned())))
}

/// The same session with another agent. If that can't be, the one before goes on.
async fn switch(engine: Engine, job: &mut Job, name: &str) -> (Option<Engine>, After) {
    let known = match setup(job, &places()) {
        Ok(Some(it)) => it.agent(Some(name)).map(|it| it.id.clone()),
        Ok(None) => Err("there is no agents.conf in the configuration".to_owned()),
        Err(why) => Err(why),
    };
    let name = match known {
        Ok(it) => it,
        Err(why) => {
            say(&why);
            return (Some(engine), After::Prompt);
        }
    };
    let before = job.agent.replace(name.clone());
    let resumed = Job { mode: Some(engine.permissions().mode()), ..again(&engine, job) };
    engine.close(GRACE).await;
    match reopened(resumed.clone()).await {
        Ok(it) => {
            say(&format!("Agent: {name}"));
            (Some(it), After::Prompt)
        }
        Err(why) => {
            say(&why);
            job.agent = before;
            let back = reopened(Job { agent: job.agent.clone(), ..resumed }).await;
            (back.map_err(|why| say(&why)).ok(), After::Prompt)
        }
    }
}

/// The job that opens the engine's session again.
fn again(engine: &Engine, job: &Job) -> Job {
    Job { resume: Some(engine.dir().to_string_lossy().into_owned()), parent: None, ..job.clone() }
}

/// Opens a session with what was adjusted so far.
async fn reopened(job: Job) -> Result<Engine, String> {
    let adjusted = job.adjusted.clone();
    let mut engine = open(job, &mut Printer::new(Style::Text)).await?;
    for (name, rest) in adjusted {
        adjust(&mut engine, &name, &rest).transpose()?;
    }
    Ok(engine)
}

/// A new session with a summary of this one, which stays as it is.
async fn compact(mut engine: Engine, job: &mut Job, stop: &Interrupt) -> (Option<Engine>, After) {
    let summary = match stop.or(engine.summarize()).await {
        Ok(Ok(it)) => it,
        Ok(Err(why)) => {
            say(&format!("{why}. The session is as it was."));
            return (Some(engine), After::Prompt);
        }
        Err(_) => {
            say("Interrupted. The session is as it was.");
            return (Some(engine), After::Prompt);
        }
    };
    let dir = engine.dir().to_owned();
    let id = dir.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let parent = Parent { session_id: id, session_dir: dir.to_string_lossy().into_owned() };
    let (mode, from) = (Some(engine.permissions().mode()), Some((parent, summary)));
    let next = Job { mode, resume: None, parent: from, ..job.clone() };
    match reopened(next).await {
        Ok(it) => {
            engine.close(GRACE).await;
            // The shell of the new session begins where the old one's was.
            let _none = std::fs::copy(dir.join(SHELL_STATE), it.dir().join(SHELL_STATE));
            job.resume = None;
            (Some(it), After::Prompt)
        }
        Err(why) => {
            say(&why);
            (Some(engine), After::Prompt)
        }
    }
}

async fn clear(engine: Engine, job: &mut Job) -> (Option<Engine>, After) {
    let next = anew(&engine, job).await;
    replaced(engine, job, next).await
}

/// A new session with a conversation from elsewhere.
async fn load(engine: Engine, job: &mut Job, text: &str) -> (Option<Engine>, After) {
    let next = match anew(&engine, job).await {
        Ok(mut it) => it.load(text).map(|()| it),
        Err(why) => Err(why),
    };
    replaced(engine, job, next).await
}

/// A new session in the same world.
async fn anew(engine: &Engine, job: &Job) -> Result<Engine, String> {
    reopened(Job { mode: Some(engine.permissions().mode()), resume: None, parent: None, ..job.clone() }).await
}

/// Leaves a session for the next, if there is one.
async fn replaced(engine: Engine, job: &mut Job, next: Result<Engine, String>) -> (Option<Engine>, After) {
    match next {
        Ok(it) => {
            engine.close(GRACE).await;
            job.resume = None;
            (Some(it), After::Prompt)
        }
        Err(why) => {
            say(&why);
            (Some(engine), After::Prompt)
        }
    }
}

/// A file with a transcript that can be loaded.
fn transcript_of(file: &Path) -> Result<String, String> {
    let told = |why: String| format!("{}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|err| told(err.to_string()))?;
    sid_engine::check_transcript(&text).map_err(told)?;
    Ok(text)
}

/// A message written in an editor. `None`: it is empty.
fn edit(dir: &Path) -> Result<Option<String>, String> {
    let program = var("VISUAL").or_else(|| var("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let file = dir.join("message.txt");
    let failed = |err: std::io::Error| format!("{}: {err}", file.display());
    std::fs::File::create(&file).map_err(failed)?;
    let status =
        sid_sandbox::edit_by_user(&program, &file).map_err(|err| format!("the editor `{program}` can't be started: {err}"))?;
    let text = std::fs::read_to_string(&file).map_err(failed)?;
    let _left = std::fs::remove_file(&file);
    if !status.success() {
        return Err(format!("the editor `{program}` ended with {status}; nothing was sent"));
    }
    Ok(Some(text.trim().to_owned()).filter(|it| !it.is_empty()))
}

fn config(engine: &Engine) -> String {
    let it = engine.sampling();
    let or = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
    format!(
        "model: {}\nmode: {}\nmax_tokens: {}\ntemperature: {}\ntop_p: {}\ntop_k: {}\nstop: {:?}\nthinking: {}\ncache: {}\nsession: {}",
        engine.model_id(),
        engine.permissions().mode(),
        or(it.max_tokens.map(|it| it.to_string())),
        or(it.temperature.map(|it| it.to_string())),
        or(it.top_p.map(|it| it.to_string())),
        or(it.top_k.map(|it| it.to_string())),
        it.stop,
        or(it.thinking.map(|it| it.to_string())),
        if it.caching { "on" } else { "off" },
        engine.dir().display()
    )
}

fn save(engine: &Engine, file: &Path) -> Result<String, String> {
    let text = match file.extension().and_then(|it| it.to_str()) {
        Some("json") => format!("{:#}\n", engine.transcript()?),
        Some("jsonl") => crate::export::json(&engine.records()?),
        _ => crate::export::markdown(&engine.records()?),
    };
    std::fs::write(file, text).map_err(|err| format!("{}: {err}", file.display()))?;
    Ok(format!("Saved to {}", file.display()))
}
