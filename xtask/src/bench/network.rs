//! The managed network beside a direct connection, in a network namespace where a public address is our own.
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use sid_policy::{Network, Pattern};
use sid_proxy::{Doors, Service, Token};
use sid_sandbox::connection_mark;

use super::{Row, median, mib};
use crate::Done;

const ADDRESS: (&str, u16) = ("203.0.114.1", 443);
/// Bytes of one transfer.
const BYTES: u64 = 1 << 30;
/// Pairs of transfers: one takes a quarter of a second, in which this machine may be busy with others.
const RUNS: usize = 41;
const AT_ONCE: usize = 1000;

/// Measures in a namespace of its own, and makes rows of what that prints.
pub(super) fn network(_: &std::path::Path) -> Result<Vec<Row>, String> {
    let setup = "ip link set lo up && ip addr add 203.0.114.1/32 dev lo && exec \"$0\" network-bench";
    let this = std::env::current_exe().map_err(|err| err.to_string())?;
    let out = Command::new("unshare").args(["--net", "sh", "-c", setup]).arg(this).stderr(Stdio::inherit()).output();
    let out = out.map_err(|err| err.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let all: Vec<f64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    let [direct, proxied, memory] = all[..] else { return Err(format!("the network bench failed: {text}")) };
    Ok(vec![
        Row {
            what: "managed network: one CONNECT tunnel (floor: a direct connection)",
            budget: "≥ 0.8× direct loopback",
            ours: format!("{proxied:.1} GB/s"),
            floor: format!("{direct:.1} GB/s"),
            ratio: format!("{:.2}×", proxied / direct),
        },
        Row::alone("managed network: 1,000 tunnels at once (PSS of the proxy's process)", "≤ 64 MiB", format!("{memory:.1} MiB")),
    ])
}

/// Inside the namespace.
pub(crate) fn inside() -> Done {
    let io = |err: std::io::Error| err.to_string();
    let listener = TcpListener::bind(ADDRESS).map_err(io)?;
    thread::spawn(move || listener.incoming().flatten().for_each(|it| drop(thread::spawn(move || serve(it)))));
    let mut proxy = Command::new(std::env::current_exe().map_err(io)?)
        .arg("network-proxy")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(io)?;
    let mut line = String::new();
    BufReader::new(proxy.stdout.take().ok_or("no output")?).read_line(&mut line).map_err(io)?;
    let port: u16 = line.trim().parse().map_err(|_| "no port".to_owned())?;
    let (mut direct, mut proxied) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        direct.push(transfer(TcpStream::connect(ADDRESS).map_err(io)?).map_err(io)?);
        proxied.push(transfer(tunnel(port).map_err(io)?).map_err(io)?);
    }
    let mut held = Vec::new();
    for _ in 0..AT_ONCE {
        let mut it = tunnel(port).map_err(io)?;
        it.write_all(&64_000_u64.to_le_bytes()).map_err(io)?;
        held.push(it);
    }
    for it in &mut held {
        let mut buffer = vec![0; 64_000];
        it.read_exact(&mut buffer).map_err(io)?;
    }
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", proxy.id())).map_err(io)?;
    let pss = rollup.lines().find_map(|it| it.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    println!("{} {} {}", median(direct), median(proxied), mib(pss));
    proxy.kill().and_then(|()| proxy.wait()).map_err(io)?;
    Ok(())
}

/// Serves the proxy until its input ends.
pub(crate) fn proxy() -> Done {
    let io = |err: std::io::Error| err.to_string();
    let listener = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io);
    let (http, socks) = (listener()?, listener()?);
    let port = http.local_addr().map_err(io)?.port();
    let network = Network { allow: vec![Pattern::parse(ADDRESS.0)?], ports: vec![ADDRESS.1], ..Network::default() };
    let service = Service::start().map_err(io)?;
    let token = Token::Mark { mark: connection_mark(http.as_fd()).map_err(io)?, of: connection_mark };
    let _serving = service.serve(Arc::new(network), Doors { http, socks, loopback: Vec::new(), token });
    println!("{port}");
    std::io::stdin().read_to_end(&mut Vec::new()).map_err(io)?;
    Ok(())
}

/// Sends as many bytes as it is asked for.
fn serve(mut stream: TcpStream) -> Option<()> {
    let mut wanted = [0; 8];
    stream.read_exact(&mut wanted).ok()?;
    let chunk = vec![b'x'; 256 << 10];
    let mut left = u64::from_le_bytes(wanted);
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        stream.write_all(&chunk[..n]).ok()?;
        left -= n as u64;
    }
    thread::sleep(Duration::from_secs(60));
    Some(())
}

fn tunnel(port: u16) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let host = format!("{}:{}", ADDRESS.0, ADDRESS.1);
    write!(stream, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if head.starts_with(b"HTTP/1.1 200") {
        Ok(stream)
    } else {
        Err(std::io::Error::other(String::from_utf8_lossy(&head).into_owned()))
    }
}

/// Gigabytes a second.
#[expect(clippy::cast_precision_loss, reason = "a figure of a report")]
fn transfer(mut stream: TcpStream) -> std::io::Result<f64> {
    let begun = Instant::now();
    stream.write_all(&BYTES.to_le_bytes())?;
    let mut buffer = vec![0; 1 << 20];
    let mut got = 0;
    while got < BYTES {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        got += n as u64;
    }
    Ok(BYTES as f64 / begun.elapsed().as_secs_f64() / 1e9)
}
