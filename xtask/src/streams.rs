//! Recorded provider streams under awkward transports, from a folder with `replay.py`: the same turn must come out of every
//! transport, and a clear error of a broken one.
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{Done, sid};

/// Recordings tried at once; most of the time is spent in waits between tries.
const AT_ONCE: usize = 4;

pub(crate) fn streams(folder: &Path) -> Done {
    let program = sid()?;
    let fail = |err: std::io::Error| err.to_string();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(fail)?.port();
    let mut server =
        Command::new("python3").arg(folder.join("replay.py")).arg(port.to_string()).stdout(Stdio::piped()).spawn().map_err(fail)?;
    let mut ready = String::new();
    if let Some(pipe) = &mut server.stdout {
        BufReader::new(pipe).read_line(&mut ready).map_err(fail)?;
    }
    // It says so a moment before it listens.
    let begun = std::time::Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() && begun.elapsed().as_secs() < 10 {
        std::thread::yield_now();
    }
    let done = all(&program, port);
    server.kill().and_then(|()| server.wait()).map_err(fail)?;
    let (passed, failed) = done?;
    println!("{passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err("some recordings do not decode as they should".to_owned()) }
}

fn all(program: &Path, port: u16) -> Result<(usize, usize), String> {
    let list: Value = serde_json::from_str(&get(port, "/list")?).map_err(|err| err.to_string())?;
    let recordings = list["recordings"].as_object().ok_or("no recordings")?;
    let transports: Vec<&str> = list["transports"].as_array().ok_or("no transports")?.iter().filter_map(Value::as_str).collect();
    // The wire of `openai` recordings is not spoken yet.
    let known: Vec<(&str, &str)> =
        recordings.iter().filter_map(|(name, wire)| Some((name.as_str(), wire.as_str()?))).filter(|it| it.1 != "openai").collect();
    let (mut passed, mut failed) = (0, 0);
    for some in known.chunks(AT_ONCE) {
        let done: Vec<_> = std::thread::scope(|scope| {
            let transports = &transports;
            let running: Vec<_> =
                some.iter().map(|(name, wire)| scope.spawn(move || recording(program, port, name, wire, transports))).collect();
            running.into_iter().map(|it| it.join().unwrap_or_else(|_| Err("a try panicked".to_owned()))).collect()
        });
        for it in done {
            let wrong = it?;
            wrong.iter().for_each(|it| println!("{it}"));
            failed += wrong.len();
            passed += transports.len() - wrong.len();
        }
    }
    Ok((passed, failed))
}

/// One recording under all transports at once; what is wrong.
fn recording(program: &Path, port: u16, name: &str, wire: &str, transports: &[&str]) -> Result<Vec<String>, String> {
    let turns: Vec<Result<Turn, String>> = std::thread::scope(|scope| {
        let running: Vec<_> = transports.iter().map(|it| scope.spawn(move || turn(program, port, name, wire, it))).collect();
        running.into_iter().map(|it| it.join().unwrap_or_else(|_| Err("a try panicked".to_owned()))).collect()
    });
    let turns = turns.into_iter().collect::<Result<Vec<_>, _>>()?;
    let plain = turns[0].said.clone();
    let wrong = transports.iter().zip(turns).filter_map(|(transport, got)| {
        let broken = matches!(*transport, "cut" | "error" | "html");
        let good = if broken { got.code == 1 && got.errors == 1 } else { got.code == 0 && got.said == plain };
        (!good).then(|| format!("{name} {transport}: exit {}, {} errors, {:?}", got.code, got.errors, got.said))
    });
    Ok(wrong.collect())
}

struct Turn {
    code: i32,
    /// The words and calls of the first answer.
    said: (String, Vec<Value>),
    errors: usize,
}

fn turn(program: &Path, port: u16, name: &str, wire: &str, transport: &str) -> Result<Turn, String> {
    let dir = tempfile::tempdir().map_err(|err| err.to_string())?;
    let base = format!("http://127.0.0.1:{port}/r/{name}/{transport}");
    let prefix = if wire == "anthropic" { "ANTHROPIC" } else { "OPENAI" };
    let mut command = Command::new(program);
    command.args(["run", "go", "--output", "jsonl", "--model", "m", "--max-tool-rounds", "1"]).current_dir(dir.path()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", dir.path());
    command.env(format!("{prefix}_BASE_URL"), base).env(format!("{prefix}_API_KEY"), "k");
    let out = command.output().map_err(|err| err.to_string())?;
    let events: Vec<Value> = String::from_utf8_lossy(&out.stdout).lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    let first = events.iter().take_while(|it| !matches!(it["type"].as_str(), Some("tool_result" | "result")));
    let (mut words, mut calls) = (String::new(), Vec::new());
    for event in first {
        match event["type"].as_str() {
            Some("assistant_delta") => words.push_str(event["text"].as_str().unwrap_or_default()),
            Some("tool_call") => calls.push(serde_json::json!([event["name"], event["arguments"]])),
            _ => {}
        }
    }
    let errors = events.iter().filter(|it| it["type"] == "error").count();
    Ok(Turn { code: out.status.code().unwrap_or(-1), said: (words.trim().to_owned(), calls), errors })
}

fn get(port: u16, path: &str) -> Result<String, String> {
    let fail = |err: std::io::Error| err.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(fail)?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: x\r\n\r\n").map_err(fail)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(fail)?;
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).ok_or_else(|| "no answer".to_owned())
}
