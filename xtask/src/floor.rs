//! The least a program can do for the same scripted work: send, read, run, send. No agent.
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use crate::Done;

/// `floor PORT BYTES WRAPPER…`: talks to a scripted model and runs its commands behind the wrapper, sending a body of at least
/// BYTES each time.
pub(crate) fn floor(args: &[&str]) -> Done {
    let [port, bytes, wrapper @ ..] = args else { return Err("floor PORT BYTES WRAPPER…".to_owned()) };
    let bytes: usize = bytes.parse().map_err(|_| "BYTES")?;
    let fail = |err: std::io::Error| err.to_string();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).map_err(fail)?;
    stream.set_nodelay(true).map_err(fail)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(fail)?);
    let mut out = std::io::stdout().lock();
    loop {
        let body = format!("{{\"model\":\"m\",\"stream\":true,\"pad\":\"{}\"}}", "x".repeat(bytes));
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(fail)?;
        let command = answer(&mut reader, &mut out).map_err(fail)?;
        let Some(command) = command else { return Ok(()) };
        if let Some(path) = command.strip_prefix("read ") {
            let _text = std::fs::read_to_string(path).map_err(fail)?;
            continue;
        }
        let (program, rest) = wrapper.split_first().unwrap_or((&"/bin/sh", &[]));
        let done = if wrapper.is_empty() {
            Command::new("/bin/sh").args(["-c", &command]).output()
        } else {
            Command::new(program).args(rest).args(["/bin/sh", "-c", &command]).output()
        };
        done.map_err(fail)?;
    }
}

/// Reads one streamed answer; the command it asks for, if any.
fn answer(reader: &mut BufReader<TcpStream>, out: &mut impl std::io::Write) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut args = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let n = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; n + 2];
        reader.read_exact(&mut chunk)?;
        if n == 0 {
            break;
        }
        for event in chunk[..n].split(|it| *it == b'\n').filter_map(|it| it.strip_prefix(b"data: {")) {
            let json: serde_json::Value = serde_json::from_slice(&[b"{", event].concat()).unwrap_or_default();
            let delta = &json["choices"][0]["delta"];
            out.write_all(delta["content"].as_str().unwrap_or_default().as_bytes())?;
            args += delta["tool_calls"][0]["function"]["arguments"].as_str().unwrap_or_default();
        }
    }
    let json: serde_json::Value = serde_json::from_str(&args).unwrap_or_default();
    let path = json["path"].as_str().map(|it| format!("read {it}"));
    Ok(json["command"].as_str().map(str::to_owned).or(path))
}
