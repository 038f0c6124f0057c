//! The proxy by itself: its token, its closing, and what goes through it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sid_policy::{Blocked, Network, Pattern};
use sid_proxy::{Doors, Service, Serving, Token};

struct World {
    _service: Service,
    serving: Serving,
    http: u16,
    socks: u16,
}

/// A token that every connection shows.
fn any() -> Token {
    Token::Mark { mark: 1, of: |_| Ok(1) }
}

fn world(token: Token) -> World {
    let listener = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (http, socks) = (listener(), listener());
    let ports = [&http, &socks].map(|it| it.local_addr().unwrap().port());
    let network = Network { allow: vec![Pattern::parse("good.test").unwrap()], ports: vec![443], ..Network::default() };
    let service = Service::start().unwrap();
    let doors = Doors { http, socks, loopback: Vec::new(), token };
    let serving = service.serve(Arc::new(network), doors);
    World { _service: service, serving, http: ports[0], socks: ports[1] }
}

fn talk(port: u16, bytes: &[u8], want: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut out = vec![0; want];
    let mut len = 0;
    while len < want {
        match stream.read(&mut out[len..]) {
            Ok(n @ 1..) => len += n,
            Err(err) if err.kind() != std::io::ErrorKind::ConnectionReset => panic!("{err}"),
            _ => break,
        }
    }
    out.truncate(len);
    out
}

#[test]
fn without_the_token_nothing_is_served() {
    let http = b"CONNECT bad.test:443 HTTP/1.1\r\nHost: bad.test\r\n\r\n";
    let socks = [&[5, 1, 0, 5, 1, 0, 3, 8][..], b"bad.test", &443_u16.to_be_bytes()].concat();
    let both = |it: &World, first: &str| {
        let talk = |port, then: &[u8]| talk(port, &[first.as_bytes(), then].concat(), 12);
        (talk(it.http, http), talk(it.socks, &socks))
    };
    let refused = (b"HTTP/1.1 403".to_vec(), vec![5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
    let nothing = (Vec::new(), Vec::new());
    let secret = world(Token::Secret("open sesame".into()));
    assert_eq!(both(&secret, "open sesame"), refused);
    for wrong in ["open Sesame", "", "open", &"x".repeat(99)] {
        assert_eq!(both(&secret, wrong), nothing, "{wrong}");
    }
    assert!(talk(secret.http, b"open", 1).is_empty(), "one that says no more is let go");
    let marked = |of| world(Token::Mark { mark: 7, of });
    assert_eq!(both(&marked(|_| Ok(7)), ""), refused);
    assert_eq!(both(&marked(|_| Ok(8)), ""), nothing);
    assert_eq!(both(&marked(|_| Err(std::io::Error::other("none"))), ""), nothing);
    let contacts = secret.serving.take().all;
    assert_eq!((contacts.len(), contacts[0].times, contacts[0].blocked), (1, 2, Some(Blocked::NotAllowed)));
}

#[test]
fn what_is_closed_serves_nobody() {
    let it = world(any());
    assert_eq!(&talk(it.http, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 12), b"HTTP/1.1 400");
    it.serving.close();
    in_time(|| TcpStream::connect((Ipv4Addr::LOCALHOST, it.http)).is_err());
}

fn in_time(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "in time");
        std::thread::yield_now();
    }
}

/// The thread of the proxy, or one that it started to look names up.
fn thread(name: &str) -> Option<PathBuf> {
    let mut threads = std::fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().path());
    threads.find(|it| std::fs::read_to_string(it.join("comm")).is_ok_and(|it| it.starts_with(name)))
}

/// The processors that a thread may run on.
fn processors(thread: &Path) -> String {
    let status = std::fs::read_to_string(thread.join("status")).unwrap();
    status.lines().find_map(|it| it.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

#[test]
fn much_arrives_whole_on_one_processor_that_is_let_go_afterwards() {
    const BYTES: usize = 64 << 20;
    let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, door) = (far.local_addr().unwrap().port(), listener.local_addr().unwrap());
    let nobody = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let service = Service::start().unwrap();
    let http = nobody();
    let names = http.local_addr().unwrap().port();
    let doors = Doors { http, socks: nobody(), loopback: vec![(port, listener)], token: any() };
    let network = Network { allow: vec![Pattern::parse("good.test").unwrap()], ports: vec![443], ..Network::default() };
    let _serving = service.serve(Arc::new(network), doors);
    let echo = std::thread::spawn(move || {
        let (mut from, _) = far.accept().unwrap();
        let mut to = from.try_clone().unwrap();
        std::io::copy(&mut from, &mut to).unwrap()
    });
    let free = processors(Path::new("/proc/thread-self"));
    let near = TcpStream::connect(door).unwrap();
    // Lengths and bytes that repeat with no page or buffer.
    let bytes = move |at: usize| u8::try_from(at * 7 % 251).unwrap();
    let mut to = near.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let all: Vec<u8> = (0..BYTES).map(bytes).collect();
        for chunk in all.chunks(99_991) {
            to.write_all(chunk).unwrap();
        }
    });
    let (mut from, mut got, mut held) = (near, 0, false);
    let mut buffer = vec![0; 1 << 20];
    while got < BYTES {
        let n = from.read(&mut buffer).unwrap();
        assert!(n > 0, "the end at {got}");
        assert!(buffer[..n].iter().zip(got..).all(|(it, at)| *it == bytes(at)), "other bytes at {got}");
        got += n;
        if !held && processors(&thread("network").unwrap()).parse::<usize>().is_ok() {
            held = true;
            talk(names, b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", 12);
            assert_eq!(processors(&thread("tokio").unwrap()), free, "threads that look names up run where they like");
        }
    }
    assert!(held, "on one processor while it moves much");
    sender.join().unwrap();
    from.shutdown(Shutdown::Both).unwrap();
    assert_eq!(echo.join().unwrap(), BYTES as u64);
    in_time(|| processors(&thread("network").unwrap()) == free);
}

#[test]
fn a_busy_tunnel_is_served_beside_whoever_reads_it() {
    let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, door) = (far.local_addr().unwrap().port(), listener.local_addr().unwrap());
    let nobody = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let service = Service::start().unwrap();
    let doors = Doors { http: nobody(), socks: nobody(), loopback: vec![(port, listener)], token: any() };
    let _serving = service.serve(Arc::new(Network::default()), doors);
    std::thread::spawn(move || {
        let (mut to, _) = far.accept().unwrap();
        while to.write_all(&[b'x'; 1 << 16]).is_ok() {}
    });
    let mut near = TcpStream::connect(door).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let allowed = sched_getaffinity(None).unwrap();
    for processor in (0..CpuSet::MAX_CPU).filter(|it| allowed.is_set(*it)).take(2) {
        let mut here = CpuSet::new();
        here.set(processor);
        sched_setaffinity(None, &here).unwrap();
        in_time(|| {
            near.read_exact(&mut buffer).unwrap();
            processors(&thread("network").unwrap()) == processor.to_string()
        });
    }
}
