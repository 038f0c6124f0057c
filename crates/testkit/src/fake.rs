use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::{Reply, Wire, check};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its wire.
    pub wire: Wire,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// When it had arrived.
    pub at: Instant,
}

impl Request {
    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("checked before")
    }
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    requests: Vec<Request>,
    wrong: Vec<String>,
    bytes: Vec<usize>,
    lean: bool,
}

/// A model provider on loopback that speaks both wires and is as strict as a real one. Dropping it checks that it never had
/// to refuse a request.
pub struct Fake {
    port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Fake {
    /// Starts one that gives these answers in order, then `500`.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(State { replies: replies.into_iter().collect(), ..State::default() })
    }

    /// One for measurements: it neither checks nor keeps what it is sent, only when and how much.
    #[must_use]
    pub fn lean(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(State { replies: replies.into_iter().collect(), lean: true, ..State::default() })
    }

    fn start(state: State) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { port, state }
    }

    /// Its address, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Model requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.state.0.lock().expect("lock").requests.clone()
    }

    /// The sizes of all bodies so far.
    #[must_use]
    pub fn bytes(&self) -> Vec<usize> {
        self.state.0.lock().expect("lock").bytes.clone()
    }

    /// Waits until `n` requests have come.
    pub fn wait_for(&self, n: usize) {
        let (lock, told) = &*self.state;
        let state = lock.lock().expect("lock");
        let enough = told.wait_timeout_while(state, Duration::from_secs(30), |it| it.requests.len() < n).expect("lock");
        assert!(!enough.1.timed_out(), "only {} of {n} requests came", enough.0.requests.len());
    }

    /// Gives more answers.
    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state.0.lock().expect("lock").replies.extend(replies);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if !thread::panicking() {
            let wrong = std::mem::take(&mut self.state.0.lock().expect("lock").wrong);
            assert!(wrong.is_empty(), "a real endpoint would have refused: {wrong:#?}");
        }
    }
}

fn serve(stream: &TcpStream, state: &(Mutex<State>, Condvar)) {
    let _unset = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Ok(Some((path, headers, body))) = read_request(&mut reader) {
        let wire = match path.as_str() {
            it if it.ends_with("/chat/completions") => Wire::Chat,
            it if it.ends_with("/messages") => Wire::Messages,
            it if it.ends_with("/models") => {
                let _gone = whole(stream, 200, &[], "application/json", r#"{"data":[{"id":"fake-model"}]}"#);
                continue;
            }
            _ => {
                let _gone = whole(stream, 404, &[], "application/json", r#"{"error":{"message":"no such path"}}"#);
                continue;
            }
        };
        let at = Instant::now();
        let lean = state.0.lock().expect("lock").lean;
        let wrong = if lean { None } else { check(wire, &headers, &body) };
        let (n, reply) = {
            let mut it = state.0.lock().expect("lock");
            it.bytes.push(body.len());
            let body = if lean { String::new() } else { String::from_utf8_lossy(&body).into_owned() };
            it.requests.push(Request { wire, headers, body, at });
            it.wrong.extend(wrong.clone());
            let n = it.requests.len();
            (n, it.replies.pop_front())
        };
        state.1.notify_all();
        let done = match (wrong, reply) {
            (Some(why), _) => whole(stream, 400, &[], "application/json", &format!(r#"{{"error":{{"message":{why:?}}}}}"#)),
            (None, None) => whole(stream, 500, &[], "application/json", r#"{"error":{"message":"the script is over"}}"#),
            (None, Some(reply)) => answer(stream, &reply, wire, n),
        };
        if !matches!(done, Ok(true)) {
            let _gone = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

type Parsed = (String, Vec<(String, String)>, Vec<u8>);

fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Parsed>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, it)| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((path, headers, body)))
}

/// Sends an answer; `true` when the connection can be used again.
fn answer(stream: &TcpStream, reply: &Reply, wire: Wire, n: usize) -> io::Result<bool> {
    match reply {
        Reply::Text(_) | Reply::Calls(..) | Reply::Stops(..) => streamed(stream, &reply.frames(wire, n), End::Whole),
        Reply::Raw(pieces) => streamed(stream, pieces, End::Whole),
        Reply::Cut(pieces) => streamed(stream, pieces, End::Broken),
        Reply::Status(code, headers, body) => {
            let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
            whole(stream, *code, headers, kind, body)
        }
        Reply::Whole(kind, body) => whole(stream, 200, &[], kind, body),
        Reply::Silence(time) => {
            thread::sleep(*time);
            Ok(false)
        }
        Reply::Late(time, inner) => {
            thread::sleep(*time);
            answer(stream, inner, wire, n)
        }
    }
}

#[derive(PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

fn streamed(mut stream: &TcpStream, pieces: &[Vec<u8>], end: End) -> io::Result<bool> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    for batch in pieces.chunks(64) {
        let mut out = Vec::new();
        for piece in batch.iter().filter(|it| !it.is_empty()) {
            out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            out.extend_from_slice(piece);
            out.extend_from_slice(b"\r\n");
        }
        stream.write_all(&out)?;
    }
    if end == End::Broken {
        return Ok(false);
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(true)
}

fn whole(mut stream: &TcpStream, code: u16, headers: &[(&str, String)], kind: &str, body: &str) -> io::Result<bool> {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {code} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Ok(true)
}
