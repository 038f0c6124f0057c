//! `sid` line by line: a prompt, the turn, questions in between. Works on any terminal, and with `--plain` on pipes.
use std::{
    io::{BufRead as _, IsTerminal as _, Write as _},
    process::ExitCode,
};

use rustyline::{DefaultEditor, EditMode};
use serde_json::json;
use sid_core::{Assistant, Call, CallId, End, Event, Part, Record, one_line};
use sid_engine::{Asked, Engine, Failed, Interrupt};
use sid_policy::Answer;
use sid_provider::Replay;
use tokio::sync::{mpsc, oneshot};

use crate::{
    NOT_PARSED,
    args::{Output, ParamArgs, RunArgs},
    changes::Watched,
    commands::{After, command},
    paint::{Tone, say_as},
    paths::places,
    print::{Printer, Style},
    run::{Job, Params, open, printed},
    say,
    settings::Settings,
    signals::Stopper,
};

/// What children get to end when the program ends.
const GRACE: std::time::Duration = std::time::Duration::from_millis(500);

/// Talks until the person leaves.
pub(crate) fn line(args: &RunArgs, params: &ParamArgs) -> ExitCode {
    driven(args, params, talk)
}

/// Runs one command in the agent's shell and says what it said. It goes the way of a model's call, without a model.
pub(crate) fn bash_debug(args: &RunArgs, params: &ParamArgs, command: &str) -> ExitCode {
    let call =
        |id: &str| Call { id: CallId(id.to_owned()), tool: "bash".to_owned(), args: json!({ "command": command }).to_string() };
    let answers = [vec![Part::Call(call("call_debug"))], vec![Part::Text("done".to_owned())]];
    let lines = answers.map(|parts| serde_json::to_string(&Record::Assistant(Assistant { parts, ..Assistant::default() })));
    let text: String = lines.into_iter().filter_map(Result::ok).map(|it| it + "\n").collect();
    driven(args, params, |mut job| async move {
        job.recording = Replay::parse("--bash-debug", &text).ok();
        debugged(job).await
    })
}

/// Reads the arguments and runs what is made of them.
fn driven<F: Future<Output = ExitCode>>(args: &RunArgs, params: &ParamArgs, what: impl FnOnce(Job) -> F) -> ExitCode {
    let job = match Job::without_prompt(args) {
        Ok(_) if args.output == Output::Jsonl => Err("--output jsonl is for `sid run`".to_owned()),
        Ok(job) => Ok(Job {
            model: params.param_model.clone().or(job.model),
            params: Params {
                system: params.param_system.clone(),
                max_tokens: params.param_max_tokens,
                temperature: params.param_temperature,
                top_p: params.param_top_p,
                top_k: params.param_top_k,
                thinking: params.param_thinking,
                no_color: params.param_no_color,
            },
            ..job
        }),
        it => it,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|err| err.to_string());
    match job.and_then(|job| Ok((job, runtime?))) {
        Ok((job, runtime)) => {
            let code = runtime.block_on(what(job));
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

/// A person before a session.
struct Seat {
    stopper: Stopper,
    interrupt: Interrupt,
    reader: Reader,
    questions: mpsc::UnboundedReceiver<Asked>,
    engine: Engine,
}

impl Seat {
    /// Asks what has to be asked before anything starts, and opens the session. Else the exit code.
    async fn take(job: &mut Job) -> Result<Self, ExitCode> {
        let (stopper, asked) = Stopper::listen().map_err(|err| {
            say(&format!("sid: signals can't be heard: {err}"));
            ExitCode::FAILURE
        })?;
        // What is wrong with the settings is said when the session is opened.
        let editing = Settings::load(places().config.as_deref()).ok().and_then(|it| it.editing).unwrap_or(EditMode::Emacs);
        let reader = Reader::start(stopper.clone(), editing);
        trusted(&reader, job).await;
        if let Some(it) = crate::run::manual_agent(job) {
            if !reader.agrees(&format!("The agent '{it}' is MANUAL. Start it? [y]es, [n]o: ")).await {
                say("Not started.");
                return Err(ExitCode::SUCCESS);
            }
            job.agent = Some(it);
        }
        let (person, questions) = mpsc::unbounded_channel();
        job.person = Some(person);
        let engine = open(job.clone(), &mut Printer::new(Style::Text)).await.map_err(|why| {
            say(&format!("sid: {why}"));
            ExitCode::FAILURE
        })?;
        Ok(Self { stopper, interrupt: Interrupt::new(asked), reader, questions, engine })
    }

    /// One turn. It goes on being looked after: it can be stopped at a question.
    async fn turn(&mut self, text: String, tell: &mut dyn FnMut(Event)) -> Result<End, Failed> {
        let turn = self.engine.turn(text, &self.interrupt, tell);
        tokio::pin!(turn);
        let mut question = None;
        loop {
            tokio::select! {
                done = &mut turn => return done,
                Some(asked) = self.questions.recv(), if question.is_none() => question = Some(Box::pin(answer(&self.reader, &self.stopper, asked))),
                () = async { match &mut question { Some(it) => it.await, None => std::future::pending().await } } => question = None,
            }
        }
    }
}

/// What the agent's shell says to one command.
async fn debugged(mut job: Job) -> ExitCode {
    let mut seat = match Seat::take(&mut job).await {
        Ok(it) => it,
        Err(code) => return code,
    };
    if !seat.engine.has_tool("bash") {
        say("sid: the agent has no `bash`; name it in its `_TOOLS`, and switch it on in tools.conf");
        return ExitCode::FAILURE;
    }
    let mut said = None;
    let done = seat
        .turn("--bash-debug".to_owned(), &mut |event| {
            if let Event::Result { content, error, .. } = event {
                said = Some((content, error));
            }
        })
        .await;
    seat.engine.close(GRACE).await;
    match (done, said) {
        (Ok(_), Some((text, error))) => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            let _closed = write!(std::io::stdout(), "{text}{end}");
            if error { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        (Ok(_), None) => seat.stopper.signal().map_or(ExitCode::FAILURE, ended_by),
        (Err(why), _) => {
            say(&format!("sid: {why}"));
            ExitCode::FAILURE
        }
    }
}

async fn talk(mut job: Job) -> ExitCode {
    let mut seat = match Seat::take(&mut job).await {
        Ok(it) => it,
        Err(code) => return code,
    };
    let (stopper, mut watched) = (seat.stopper.clone(), Watched::new(&job));
    say_as(Tone::Quiet, &format!("Mode: {}. /help lists what you can do here besides talking.", seat.engine.permissions().mode()));
    let mut code = ExitCode::SUCCESS;
    loop {
        let text = tokio::select! {
            text = seat.reader.message() => match text {
                Some(it) => it,
                None => break,
            },
            signal = stopper.leaving() => {
                code = ended_by(signal);
                break;
            }
        };
        let text = if text.starts_with('/') {
            let (left, after) = command(seat.engine, &mut job, &text, &seat.interrupt).await;
            let Some(engine) = left else { return ExitCode::FAILURE };
            seat.engine = engine;
            stopper.again();
            match after {
                After::Prompt => continue,
                After::Send(text) => text,
                After::Leave => break,
            }
        } else {
            text
        };
        let mut printer = Printer::new(Style::Text);
        printer.stops(stopper.clone());
        watched.told().into_iter().for_each(|it| printer.event(Event::Notice(it)));
        match seat.turn(text, &mut |event| printed(&mut printer, &mut watched, event)).await {
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
    seat.engine.close(GRACE).await;
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
    for (words, wish) in crate::trust::questions(&job.cwd) {
        say(&words);
        if reader.agrees("Trust this file until it changes? [y]es, [n]o: ").await
            && let Err(why) = crate::trust::keep(wish)
        {
            say(&format!("sid: {why}"));
        }
    }
}

/// Asks the person. Whatever is no answer is asked again; the end of input is a no, and ends the turn: nobody is there any more.
async fn answer(reader: &Reader, stopper: &Stopper, asked: Asked) {
    say_as(Tone::Asked, &format!("{}\n  {}", one_line(&asked.why, 200), one_line(&asked.label, 1000)));
    for line in asked.preview.iter().flat_map(|it| it.lines()) {
        let line = one_line(line, 1000);
        match line.chars().next() {
            Some('+') => say_as(Tone::Good, &line),
            Some('-') => say_as(Tone::Bad, &line),
            _ => say(&line),
        }
    }
    let answer = loop {
        let Some(line) = reader.answer("Allow? [y]es, [a]lways in this session, [n]o, ne[v]er in this session: ").await else {
            stopper.stop();
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
    fn start(stopper: Stopper, editing: EditMode) -> Self {
        let (wanted, requests) = std::sync::mpsc::channel::<Wanted>();
        std::thread::spawn(move || {
            let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
            let config = rustyline::Config::builder().edit_mode(editing).build();
            let fresh = || if terminal { DefaultEditor::with_config(config.clone()).ok() } else { None };
            let mut editor = fresh();
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
                // The editor of messages may hold lines that were typed ahead; they are no answers.
                let mut asking = if what == What::Answer { fresh() } else { None };
                let line = match (asking.as_mut(), &mut editor) {
                    (Some(it), _) => edited(it, &prompt, || {
                        // A question can't be taken back; the turn that asks can.
                        stopper.stop();
                        true
                    }),
                    (None, Some(it)) => edited(it, &prompt, || false),
                    (None, None) => plain(&prompt),
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
fn edited(editor: &mut DefaultEditor, prompt: &str, ends: impl Fn() -> bool) -> Option<String> {
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
