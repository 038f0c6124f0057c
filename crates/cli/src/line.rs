//! `sid` line by line: a prompt, the turn, questions in between. Works on any terminal, and with `--plain` on pipes.
use std::{
    io::{BufRead as _, IsTerminal as _, Write as _},
    process::ExitCode,
};

use sid_core::one_line;
use sid_engine::{Asked, Engine, Failed, Interrupt};
use sid_policy::{Answer, Mode};
use tokio::sync::{mpsc, oneshot};

use crate::{
    NOT_PARSED,
    args::{Output, RunArgs},
    print::{Printer, Style},
    run::{Job, open},
    say,
    signals::Stopper,
};

/// What a line that begins with a slash can be, and what it does.
const COMMANDS: &[(&str, &str)] = &[
    ("/help", "this list"),
    ("/mode [NAME]", "show or change the mode"),
    ("/stats", "what the session took so far"),
    ("/quit", "leave (also /exit, /q, Ctrl-D)"),
];

/// What children get to end when the program ends.
const GRACE: std::time::Duration = std::time::Duration::from_millis(500);

/// Talks until the person leaves.
pub(crate) fn line(args: &RunArgs) -> ExitCode {
    let job = match Job::without_prompt(args) {
        Ok(_) if args.output == Output::Jsonl => Err("--output jsonl is for `sid run`".to_owned()),
        it => it,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|err| err.to_string());
    match job.and_then(|job| Ok((job, runtime?))) {
        Ok((job, runtime)) => {
            let code = runtime.block_on(talk(job));
            // The thread that reads may still wait for a line.
            runtime.shutdown_background();
            code
        }
        Err(why) => {
            say(&format!("sid: {why}"));
            ExitCode::from(NOT_PARSED)
        }
    }
}

async fn talk(mut job: Job) -> ExitCode {
    let (stopper, asked) = match Stopper::listen() {
        Ok(it) => it,
        Err(err) => {
            say(&format!("sid: signals can't be heard: {err}"));
            return ExitCode::FAILURE;
        }
    };
    let reader = Reader::start(stopper.clone());
    trusted(&reader, &job).await;
    if let Some(it) = crate::run::manual_agent(&job) {
        if !reader.agrees(&format!("The agent '{it}' is MANUAL. Start it? [y]es, [n]o: ")).await {
            say("Not started.");
            return ExitCode::SUCCESS;
        }
        job.agent = Some(it);
    }
    let (person, mut questions) = mpsc::unbounded_channel();
    job.person = Some(person);
    let mut printer = Printer::new(Style::Text);
    let mut engine = match open(job, &mut printer).await {
        Ok(it) => it,
        Err(why) => {
            say(&format!("sid: {why}"));
            return ExitCode::FAILURE;
        }
    };
    say(&format!("Mode: {}. /help lists what you can do here besides talking.", engine.permissions().mode()));
    let interrupt = Interrupt::new(asked);
    let mut code = ExitCode::SUCCESS;
    loop {
        let text = tokio::select! {
            text = reader.message() => match text {
                Some(it) => it,
                None => break,
            },
            signal = stopper.leaving() => {
                code = ended_by(signal);
                break;
            }
        };
        if text.starts_with('/') {
            if !command(&mut engine, &text) {
                break;
            }
            continue;
        }
        let mut printer = Printer::new(Style::Text);
        printer.stops(stopper.clone());
        let done = {
            let mut tell = |event| printer.event(event);
            let turn = engine.turn(text, &interrupt, &mut tell);
            tokio::pin!(turn);
            // The turn goes on being looked after: it can be stopped at a question.
            let mut question = None;
            loop {
                tokio::select! {
                    done = &mut turn => break done,
                    Some(asked) = questions.recv(), if question.is_none() => question = Some(Box::pin(answer(&reader, asked))),
                    () = async { match &mut question { Some(it) => it.await, None => std::future::pending().await } } => question = None,
                }
            }
        };
        match done {
            Ok(end) => {
                printer.end(&end, std::time::Duration::ZERO);
                if end.reason == "interrupted" {
                    say("Interrupted.");
                }
            }
            Err(failed @ (Failed::Model(_) | Failed::Journal(_))) => say(&format!("sid: {failed}")),
        }
        if let Some(signal) = stopper.ends() {
            code = ended_by(signal);
            break;
        }
        stopper.again();
    }
    engine.close(GRACE).await;
    code
}

fn ended_by(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}

/// Asks once whether what the workspace wants counts, as its file is now.
async fn trusted(reader: &Reader, job: &Job) {
    if job.trust {
        return;
    }
    let Some((words, yes)) = crate::trust::question(&job.cwd) else { return };
    say(&words);
    if reader.agrees("Trust this file until it changes? [y]es, [n]o: ").await
        && let Err(why) = yes()
    {
        say(&format!("sid: {why}"));
    }
}

/// Does what a command says. `false`: the person leaves.
fn command(engine: &mut Engine, text: &str) -> bool {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match (name.to_ascii_lowercase().as_str(), rest.trim()) {
        ("/quit" | "/exit" | "/q", _) => return false,
        ("/help" | "/?", _) => {
            let list: Vec<String> = COMMANDS.iter().map(|(name, what)| format!("{name:<14} {what}")).collect();
            say(&list.join("\n"));
            say("A line that ends in \\ goes on in the next. Ctrl-C stops a turn.");
        }
        ("/mode", "") => say(&format!("Mode: {}", engine.permissions().mode())),
        ("/mode", name) => match name.parse::<Mode>() {
            Ok(mode) => {
                engine.permissions().set_mode(mode);
                say(&format!("Mode: {mode}"));
            }
            Err(err) => say(&err.to_string()),
        },
        ("/stats", _) => {
            let it = engine.session().usage();
            say(&format!("{} tokens in, {} from the cache, {} out", it.input, it.cache_read, it.output));
        }
        (name, _) => say(&format!("There is no command {}; /help lists them.", one_line(name, 40))),
    }
    true
}

/// Asks the person. Whatever is no answer is asked again; the end of input is a no.
async fn answer(reader: &Reader, asked: Asked) {
    say(&format!("{}\n  {}", one_line(&asked.why, 200), one_line(&asked.label, 1000)));
    for line in asked.preview.iter().flat_map(|it| it.lines()) {
        say(&one_line(line, 1000));
    }
    let answer = loop {
        let Some(line) = reader.answer("Allow? [y]es, [a]lways in this session, [n]o, ne[v]er in this session: ").await else {
            break Answer::Deny;
        };
        match line.as_str() {
            "y" | "yes" => break Answer::Once,
            "a" | "always" => break Answer::Always,
            "n" | "no" => break Answer::Deny,
            "v" | "never" => break Answer::Never,
            _ => say("Please answer y, a, n or v."),
        }
    };
    asked.answer(answer);
}

/// The thread that reads lines: with editing and history on a terminal, as they come elsewhere.
struct Reader {
    wanted: std::sync::mpsc::Sender<Wanted>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Message,
    /// What was typed before the prompt does not count: it can't be the answer to a question nobody had read.
    Answer,
}

struct Wanted {
    prompt: String,
    what: What,
    reply: oneshot::Sender<Option<String>>,
}

impl Reader {
    fn start(stopper: Stopper) -> Self {
        let (wanted, requests) = std::sync::mpsc::channel::<Wanted>();
        std::thread::spawn(move || {
            let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
            let mut editor = if terminal { rustyline::DefaultEditor::new().ok() } else { None };
            // A line that came when its question was no longer there.
            let mut late = None;
            while let Ok(Wanted { prompt, what, reply }) = requests.recv() {
                if let Some(line) = late.take().filter(|_| what == What::Message) {
                    late = reply.send(Some(line)).err().flatten();
                    continue;
                }
                if what == What::Answer && std::io::stdin().is_terminal() {
                    let _or_not = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
                }
                let line = match &mut editor {
                    Some(it) => edited(it, &prompt, || {
                        // A question can't be taken back; the turn that asks can.
                        if what == What::Answer {
                            stopper.stop();
                        }
                        what == What::Answer
                    }),
                    None => plain(&prompt),
                };
                late = reply.send(line).err().flatten();
            }
        });
        Self { wanted }
    }

    /// One line. `None`: there are no more.
    async fn line(&self, prompt: &str, what: What) -> Option<String> {
        let (reply, line) = oneshot::channel();
        self.wanted.send(Wanted { prompt: prompt.to_owned(), what, reply }).ok()?;
        line.await.ok().flatten()
    }

    /// The answer to a question. `None`: there won't be one.
    async fn answer(&self, prompt: &str) -> Option<String> {
        Some(self.line(prompt, What::Answer).await?.trim().to_ascii_lowercase())
    }

    /// A yes or no; the end of input is a no.
    async fn agrees(&self, prompt: &str) -> bool {
        loop {
            let Some(line) = self.answer(prompt).await else { return false };
            match line.as_str() {
                "y" | "yes" => return true,
                "n" | "no" => return false,
                _ => say("Please answer yes or no."),
            }
        }
    }

    /// What the person says, over as many lines as they like; blank lines say nothing.
    async fn message(&self) -> Option<String> {
        let mut out = String::new();
        loop {
            let line = self.line(if out.is_empty() { "> " } else { "… " }, What::Message).await?;
            match line.strip_suffix('\\') {
                Some(more) => out.push_str(&format!("{more}\n")),
                None => out.push_str(&line),
            }
            if !line.ends_with('\\') {
                let text = out.trim().to_owned();
                if !text.is_empty() {
                    return Some(text);
                }
                out.clear();
            }
        }
    }
}

/// `ends` tells whether Ctrl-C ends the line; else it takes back what was typed.
fn edited(editor: &mut rustyline::DefaultEditor, prompt: &str, ends: impl Fn() -> bool) -> Option<String> {
    loop {
        match editor.readline(prompt) {
            Ok(line) => {
                let _full = editor.add_history_entry(&line);
                return Some(line);
            }
            Err(rustyline::error::ReadlineError::Interrupted) if !ends() => {}
            Err(_) => return None,
        }
    }
}

fn plain(prompt: &str) -> Option<String> {
    if std::io::stdin().is_terminal() {
        let mut err = std::io::stderr();
        let _closed = write!(err, "{prompt}").and_then(|()| err.flush());
    }
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(n @ 1..) if n > 0 => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
        _ => None,
    }
}
