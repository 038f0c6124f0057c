//! An HTTP/1.1 proxy: tunnels by CONNECT, and plain `http:` requests by their absolute address (RFC 9110 §9.3.6, RFC 9112
//! §3.2.2).
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{
        CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING,
        UPGRADE,
    },
    service::service_fn,
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{Command, dial::Failed, pump};

type Body = BoxBody<Bytes, hyper::Error>;

pub(crate) async fn serve(stream: TcpStream, command: Command) {
    let answer = service_fn(move |request| {
        let command = command.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(request, &command).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .preserve_header_case(true)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    // A client that goes away in the middle is its own business.
    let _ended = served.await;
}

async fn answer(request: Request<Incoming>, command: &Command) -> Response<Body> {
    if request.method() == Method::CONNECT { tunnel(request, command).await } else { plain(request, command).await }
}

async fn tunnel(mut request: Request<Incoming>, command: &Command) -> Response<Body> {
    let Some((host, port)) = destination(request.uri(), 443) else { return malformed() };
    let far = match command.dial(&host, port).await {
        Ok(it) => it,
        Err(why) => return refusal(&host, port, &why),
    };
    let upgraded = hyper::upgrade::on(&mut request);
    command.spawn(async move {
        let Some(parts) = upgraded.await.ok().and_then(|it: Upgraded| it.downcast::<TokioIo<TcpStream>>().ok()) else { return };
        pump::both(parts.io.into_inner(), far, &parts.read_buf).await;
    });
    Response::new(empty())
}

async fn plain(mut request: Request<Incoming>, command: &Command) -> Response<Body> {
    if request.uri().scheme_str() != Some("http") {
        return malformed();
    }
    let Some((host, port)) = destination(request.uri(), 80) else { return malformed() };
    let far = match command.dial(&host, port).await {
        Ok(it) => it,
        Err(why) => return refusal(&host, port, &why),
    };
    let Some(authority) = request.uri().authority().and_then(|it| HeaderValue::from_str(it.as_str()).ok()) else {
        return malformed();
    };
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let Ok(origin) = path.parse::<Uri>() else { return malformed() };
    *request.uri_mut() = origin;
    hop_by_hop(request.headers_mut());
    // Whatever the client says: the host that was judged is the host that is asked.
    request.headers_mut().insert(HOST, authority);
    let sent = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(far)).await?;
        command.spawn(async move { drop(connection.await) });
        sender.send_request(request).await
    };
    match sent.await {
        Ok(mut response) => {
            hop_by_hop(response.headers_mut());
            response.map(|it| it.boxed())
        }
        Err(err) => said(StatusCode::BAD_GATEWAY, &format!("{host}:{port} gave no answer: {err}")),
    }
}

/// Host and port of an authority that is nothing else.
fn destination(uri: &Uri, default: u16) -> Option<(String, u16)> {
    let authority = uri.authority()?;
    if authority.as_str().contains('@') {
        return None;
    }
    let port = match authority.port() {
        Some(it) => it.as_str().parse().ok().filter(|it| *it > 0)?,
        None => default,
    };
    Some((authority.host().to_owned(), port))
}

/// Removes what concerns one connection only (RFC 9110 §7.6.1).
fn hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|it| it.trim().parse().ok())
        .collect();
    let fixed = [CONNECTION, TE, UPGRADE, PROXY_AUTHORIZATION, PROXY_AUTHENTICATE];
    let more = ["keep-alive", "proxy-connection", "trailer"].map(HeaderName::from_static);
    for name in named.into_iter().chain(fixed).chain(more).filter(|it| *it != TRANSFER_ENCODING) {
        headers.remove(name);
    }
}

fn malformed() -> Response<Body> {
    said(StatusCode::BAD_REQUEST, "Only CONNECT HOST:PORT and absolute http: addresses are served.")
}

fn refusal(host: &str, port: u16, why: &Failed) -> Response<Body> {
    match why {
        Failed::NoHost => said(StatusCode::BAD_REQUEST, &format!("{host} is no host.")),
        Failed::Io(err) => said(StatusCode::BAD_GATEWAY, &format!("{host}:{port} can't be reached: {err}")),
        Failed::Blocked(why) => {
            let mut it = said(StatusCode::FORBIDDEN, &format!("{host}:{port} {}.", why.why()));
            it.headers_mut().insert("x-proxy-error", HeaderValue::from_static(why.name()));
            it
        }
    }
}

fn said(status: StatusCode, text: &str) -> Response<Body> {
    let mut it = Response::new(Full::new(Bytes::from(format!("{text}\n"))).map_err(|never| match never {}).boxed());
    *it.status_mut() = status;
    it.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    it
}

fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        for (text, want) in [
            ("good.test:443", Some(("good.test", 443))),
            ("good.test", Some(("good.test", 7))),
            ("http://a.test/x?y", Some(("a.test", 7))),
            ("http://a.test:81/x", Some(("a.test", 81))),
            ("http://u:p@a.test/", None),
            ("u@a.test:443", None),
            ("a.test:0", None),
            ("[::1]:443", Some(("[::1]", 443))),
            ("/x", None),
        ] {
            let it = text.parse::<Uri>().ok().and_then(|it| destination(&it, 7));
            assert_eq!(it.as_ref().map(|(host, port)| (host.as_str(), *port)), want, "{text}");
        }
    }
}
