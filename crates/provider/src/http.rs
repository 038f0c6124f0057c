//! The only place that talks to a provider: one request, its retries, and readable errors.
use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _};
use reqwest::{Client, Response, StatusCode, header};
use sid_core::Assistant;

use crate::{
    Conversation, Decoder, Endpoint, Failure, Progress, Wire,
    body::Tools,
    chat::{self, Asks},
    failure::words_of,
    messages,
};

/// How long all tries of one answer may take together, and the longest wait a provider can ask for (DESIGN §8).
const PATIENCE: Duration = Duration::from_secs(40);
const LONGEST_WAIT: u64 = 60;
const TRIES: u32 = 5;
const CONNECT_TRIES: u32 = 3;
/// A stream may be silent for as long as a slow model thinks.
const SILENCE: Duration = Duration::from_secs(300);
/// No answer is larger, and of an error no more is read.
const LARGEST: usize = 64 << 20;
const LARGEST_ERROR: usize = 1 << 20;

/// An endpoint and the connection to it.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    endpoint: Endpoint,
    asks: Asks,
    pause: Duration,
}

/// Whether a failure was met before anything of the answer was shown.
struct Broken {
    failure: Failure,
    shown: bool,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self { failure, shown: false }
    }
}

impl Http {
    /// Prepares to talk to `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// The system's certificates or proxy settings can't be used.
    pub fn new(endpoint: Endpoint) -> Result<Self, Failure> {
        let _already_installed = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("sid/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .tcp_nodelay(true);
        if endpoint.base_url.starts_with("http://") {
            // No certificate is needed, and reading the system's takes longer than all else of a start.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|err| Failure::fatal(format!("can't set up connections: {}", chain(&err))))?;
        Ok(Self { client, endpoint, asks: Asks::Usage, pause: Duration::from_millis(500) })
    }

    /// Shorter waits between tries, for tests.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The model's name; where none was given, the first that the endpoint lists.
    ///
    /// # Errors
    /// None was given and none is listed.
    pub async fn model(&mut self) -> Result<String, Failure> {
        if self.endpoint.model.is_empty() {
            let url = format!("{}/models", self.endpoint.base_url);
            let mut request = self.client.get(&url);
            if let Some(key) = &self.endpoint.key {
                request = request.bearer_auth(key);
            }
            let unlisted = |why: String| {
                Failure::fatal(format!("no model is named, and {url} lists none ({why}); name one with --model or SID_MODEL"))
            };
            let response = request.send().await.map_err(|err| self.unreachable(&err))?;
            let status = response.status();
            let body = text_of(response, LARGEST_ERROR).await;
            let json: serde_json::Value = serde_json::from_str(&body).map_err(|_| unlisted(format!("it answered {status}")))?;
            let first = json.pointer("/data/0/id").and_then(serde_json::Value::as_str);
            self.endpoint.model = first.ok_or_else(|| unlisted(format!("it answered {status}")))?.to_owned();
        }
        Ok(self.endpoint.model.clone())
    }

    /// Asks for the next answer, trying again while nothing of it was shown.
    pub(crate) async fn infer(
        &mut self,
        so_far: &Conversation,
        tools: Tools,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Assistant, Failure> {
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let broken = match self.once(so_far, tools, tell).await {
                Ok(answer) => return Ok(answer),
                Err(it) => it,
            };
            let mut failure = broken.failure;
            let wait = failure.after.map_or(self.pause * 2_u32.pow(tries - 1), Duration::from_secs);
            let hopeless = !failure.transient || broken.shown || tries >= failure.tries;
            if hopeless || failure.after.is_some_and(|it| it > LONGEST_WAIT) || begun.elapsed() + wait > PATIENCE {
                if tries > 1 {
                    failure.message = format!("{} Gave up after {tries} tries.", failure.message);
                } else if let Some(after) = failure.after.filter(|_| failure.transient) {
                    failure.message = format!("{} It asks to wait {after} s, which is too long to sit through.", failure.message);
                }
                return Err(failure);
            }
            tell(Progress::Notice(format!("{} Trying again in {:.1} s.", failure.message, wait.as_secs_f32())));
            tokio::time::sleep(wait).await;
        }
    }

    async fn once(&mut self, so_far: &Conversation, tools: Tools, tell: &mut dyn FnMut(Progress)) -> Result<Assistant, Broken> {
        let mut response = self.send(so_far.body(tools, self.asks)).await?;
        if self.asks == Asks::Usage && matches!(response.status(), StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) {
            let (status, body) = (response.status(), text_of(response, LARGEST_ERROR).await);
            if self.endpoint.wire != Wire::Chat || !body.contains("stream_options") {
                return Err(self.refused(status, None, &body).into());
            }
            self.asks = Asks::Plain;
            response = self.send(so_far.body(tools, self.asks)).await?;
        }
        if !response.status().is_success() {
            let (status, after) = (response.status(), retry_after(&response));
            let body = text_of(response, LARGEST_ERROR).await;
            return Err(self.refused(status, after, &body).into());
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or("").to_owned();
        if kind.starts_with("text/html") {
            return Err(Failure::fatal(format!(
                "{} answered with a web page instead of a model's answer; check the base URL ({}).",
                self.endpoint.host(),
                self.endpoint.base_url
            ))
            .into());
        }
        if kind.starts_with("application/json") {
            return self.whole(response, tell).await;
        }
        self.stream(response, tell).await
    }

    async fn send(&self, body: Vec<u8>) -> Result<Response, Failure> {
        let endpoint = &self.endpoint;
        let mut request = self.client.post(endpoint.url()).header(header::CONTENT_TYPE, "application/json").body(body);
        if let Some(key) = &endpoint.key {
            request = match endpoint.wire {
                Wire::Chat => request.bearer_auth(key),
                Wire::Messages => request.header("x-api-key", key),
            };
        }
        if endpoint.wire == Wire::Messages {
            request = request.header("anthropic-version", "2023-06-01");
        }
        let sent = tokio::time::timeout(SILENCE, request.send()).await.map_err(|_| self.silent())?;
        sent.map_err(|err| self.unreachable(&err))
    }

    fn unreachable(&self, err: &reqwest::Error) -> Failure {
        let (host, url) = (self.endpoint.host(), &self.endpoint.base_url);
        if err.is_builder() {
            return Failure::fatal(format!("'{url}' can't be requested: {}", chain(err)));
        }
        let why = chain(err);
        if why.contains("certificate") {
            return Failure::fatal(format!(
                "{host} can't be trusted: {why}. Check the base URL ({url}) and the system's certificates."
            ));
        }
        // A wrong address does not become right by waiting long.
        let tries = if err.is_connect() { CONNECT_TRIES } else { TRIES };
        Failure {
            tries,
            ..Failure::transient(format!("request to {host} failed: {why}. Check the network and the base URL ({url})."))
        }
    }

    fn silent(&self) -> Failure {
        Failure::fatal(format!("{} was silent for {} s.", self.endpoint.host(), SILENCE.as_secs()))
    }

    /// The failure of a status that is no success: who said it, what they said, what to do.
    fn refused(&self, status: StatusCode, after: Option<u64>, body: &str) -> Failure {
        let endpoint = &self.endpoint;
        let said = words_of(body).map(|it| format!(": {}", it.replace(endpoint.key.as_deref().unwrap_or("\0"), "[key]")));
        let quota = body.contains("insufficient_quota") || body.contains("billing");
        let (advice, transient) = match status.as_u16() {
            401 | 403 => (format!(" Check {}.", endpoint.key_source), false),
            404 | 405 => (format!(" Check the model name ('{}') and the base URL ({}).", endpoint.model, endpoint.base_url), false),
            413 => (" The conversation is too long for it.".to_owned(), false),
            429 if quota => (" The account's quota is used up.".to_owned(), false),
            300..=399 => (
                format!(" It redirects elsewhere, and keys are sent only to the host that was configured ({}).", endpoint.base_url),
                false,
            ),
            408 | 409 | 425 | 429 | 500..=599 => (String::new(), true),
            _ => (String::new(), false),
        };
        let words = said.unwrap_or_default();
        let end = if words.ends_with(['.', '!', '?']) { "" } else { "." };
        let message = format!("{} answered {status}{words}{end}{advice}", endpoint.host());
        let too_long = status == 413 || (status.is_client_error() && says_too_long(body));
        Failure { transient: transient && !too_long, after, too_long, ..Failure::fatal(message) }
    }

    async fn whole(&self, response: Response, tell: &mut dyn FnMut(Progress)) -> Result<Assistant, Broken> {
        let host = self.endpoint.host();
        let body = text_of(response, LARGEST).await;
        if body.contains("\"error\"") && !body.contains("\"choices\"") && !body.contains("\"content\"") {
            let said = words_of(&body).unwrap_or_default();
            return Err(Failure::transient(format!("{host} reported an error: {said}.")).into());
        }
        let decoded = match self.endpoint.wire {
            Wire::Chat => chat::whole(&body),
            Wire::Messages => messages::whole(&body),
        };
        let (answer, deltas) = decoded.map_err(|it| Failure { message: format!("{host}: {}", it.message), ..it })?;
        for delta in deltas {
            tell(Progress::Delta(delta));
        }
        tell(Progress::Pause);
        Ok(answer)
    }

    async fn stream(&self, response: Response, tell: &mut dyn FnMut(Progress)) -> Result<Assistant, Broken> {
        let host = self.endpoint.host();
        let (mut decoder, mut deltas, mut shown, mut bytes) = (Decoder::new(self.endpoint.wire), Vec::new(), false, 0_usize);
        let mut chunks = response.bytes_stream();
        loop {
            // What has arrived already is decoded before anybody is told to look.
            let next = match chunks.next().now_or_never() {
                Some(it) => it,
                None => {
                    tell(Progress::Pause);
                    let next = tokio::time::timeout(SILENCE, chunks.next()).await;
                    next.map_err(|_| self.silent())?
                }
            };
            let fed = match next {
                Some(Ok(_)) if bytes > LARGEST => Err(Failure::fatal(format!("the answer is larger than {} MiB", LARGEST >> 20))),
                Some(Ok(chunk)) => {
                    bytes += chunk.len();
                    decoder.feed(&chunk, &mut deltas).map(|()| None)
                }
                Some(Err(err)) => Err(Failure::transient(format!("the stream broke off: {}", chain(&err)))),
                None if bytes == 0 => Err(Failure::transient("the answer is empty")),
                None => decoder.finish(&mut deltas).map(Some),
            };
            shown |= !deltas.is_empty();
            deltas.drain(..).for_each(|it| tell(Progress::Delta(it)));
            match fed {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(answer),
                Err(it) => {
                    let end = if it.message.ends_with('.') { "" } else { "." };
                    let message = format!("{host}: {}{end}", it.message);
                    let partial = decoder.partial().map(Box::new);
                    return Err(Broken { failure: Failure { message, partial, ..it }, shown });
                }
            }
        }
    }
}

/// Whether a refusal is about the length of the request, in the words of the endpoints in use.
fn says_too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    let all = [
        "prompt is too long",
        "context_length_exceeded",
        "maximum context length",
        "context length",
        "context window",
        "context size",
        "input is too long",
        "too many tokens",
        "request_too_large",
        "exceeds the available context",
        "reduce the length",
    ];
    all.iter().any(|it| body.contains(it))
}

/// The body, up to a size; what breaks off is as it was.
async fn text_of(response: Response, most: usize) -> String {
    let (mut body, mut chunks) = (Vec::new(), response.bytes_stream());
    while let Ok(Some(Ok(chunk))) = tokio::time::timeout(SILENCE, chunks.next()).await {
        body.extend_from_slice(&chunk[..chunk.len().min(most - body.len())]);
        if body.len() == most {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn retry_after(response: &Response) -> Option<u64> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    if let Ok(seconds) = text.trim().parse::<f64>() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        return Some(seconds.clamp(0.0, 1e9).ceil() as u64);
    }
    let at = httpdate::parse_http_date(text).ok()?;
    #[expect(clippy::disallowed_methods, reason = "the header is a date")]
    let now = std::time::SystemTime::now();
    Some(at.duration_since(now).map_or(0, |it| it.as_secs() + 1))
}

/// An error and its causes, without the URL (it may hold a key).
fn chain(err: &reqwest::Error) -> String {
    let mut said = Vec::new();
    let mut cause = err.source();
    while let Some(it) = cause {
        said.push(it.to_string());
        cause = it.source();
    }
    said.dedup();
    let last = said.pop().unwrap_or_else(|| if err.is_timeout() { "timed out".to_owned() } else { "no answer".to_owned() });
    last.trim_end_matches('.').to_owned()
}
