//! The managed network. Public addresses are needed to see what it lets through, so these tests run again inside a network
//! namespace of their own, where a public address is that of a server of the test, and no packet leaves.
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    process::Command,
    thread,
};

use serde_json::json;
use sid_testkit::{Ran, Test};

use crate::{Script as _, free, sid};

/// The address that is public, and ours in the namespace only.
const PUBLIC: &str = "203.0.114.1";
const NAMES: &str = "127.0.0.1 localhost\n203.0.114.1 good.test bad.test sub.pkg.test pkg.test denied.pkg.test\n127.0.0.1 private.test\n203.0.114.1 mixed.test\n\
10.9.9.9 mixed.test\n";
const SETUP: &str = "ip link set lo up && ip addr add 203.0.114.1/32 dev lo && mount --bind \"$SID_TEST_NAMES\" /etc/hosts && \
mount --bind \"$SID_TEST_RESOLVER\" /etc/resolv.conf && exec \"$0\" \"$1\" --exact --nocapture";

/// Whether this is the run inside the namespace; outside, it makes one and runs the same test there.
fn in_a_network_of_its_own(test: &str) -> bool {
    if std::env::var_os("SID_TEST_NAMES").is_some() {
        return true;
    }
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (names, resolver) = (dir.path().join("hosts"), dir.path().join("resolv.conf"));
    fs::write(&names, NAMES).unwrap();
    fs::write(&resolver, "nameserver 127.0.0.1\noptions attempts:1\n").unwrap();
    let mut it = Command::new("unshare");
    if !rustix_is_root() {
        it.arg("--map-root-user");
    }
    let out = it
        .args(["--net", "--mount", "sh", "-c", SETUP])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("network::{test}"))
        .env("SID_TEST_NAMES", names)
        .env("SID_TEST_RESOLVER", resolver)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
    false
}

fn rustix_is_root() -> bool {
    String::from_utf8_lossy(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0"
}

/// A server that answers every request with the `Host` it was asked for.
fn serve(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
}

fn answer(mut stream: TcpStream) {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        text.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let first = text.lines().next().unwrap_or_default();
    let host = text.lines().find_map(|it| it.to_ascii_lowercase().strip_prefix("host:").map(|it| it.trim().to_owned()));
    let proxied = if text.to_ascii_lowercase().contains("proxy-") { " with proxy headers" } else { "" };
    let body = format!("<{first} for {}{proxied}>", host.unwrap_or_default());
    let _gone = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
}

const POLICY: &str = "[network]\nallowed_domains = ['good.test', '*.pkg.test', 'private.test', 'mixed.test', 'slow.test', '203.0.114.1', \
'localhost', '127.0.0.1', '169.254.169.254']\ndenied_domains = ['denied.pkg.test']\nallowed_ports = [443, 8080]\n";

/// One command a word of the result: the body it got, or `-`.
fn tried(lines: &[&str]) -> String {
    let quiet = |it: &&str| format!("printf '%s\\n' \"$({it} || echo -)\"");
    lines.iter().map(quiet).collect::<Vec<_>>().join("\n")
}

fn run(it: Test, lines: &[&str]) -> Ran {
    let call = json!({"command": tried(lines), "timeout_seconds": 100});
    it.args(["--trust"]).rounds([("run_command", call)]).run().status(0)
}

#[test]
fn sb_12_only_what_is_allowed_is_reached_and_each_refusal_explains_itself() {
    if !in_a_network_of_its_own("sb_12_only_what_is_allowed_is_reached_and_each_refusal_explains_itself") {
        return;
    }
    serve("203.0.114.1:443");
    serve("203.0.114.1:8080");
    serve("203.0.114.1:80");
    serve("127.0.0.1:443");
    let curl = "curl -sS -m 5 --fail";
    let lines = [
        format!("{curl} -p http://good.test:443/tunnel"),
        format!("{curl} http://good.test:8080/plain"),
        format!("{curl} -H 'Host: bad.test' http://good.test:8080/fronted"),
        format!("{curl} -p http://sub.pkg.test:443/wild"),
        format!("{curl} --socks5-hostname 127.0.0.1:1080 http://good.test:443/socks"),
        format!("{curl} -p http://{PUBLIC}:443/address"),
        // From here on nothing may be reached.
        format!("{curl} -p http://bad.test:443/"),
        format!("{curl} http://good.test/port-80"),
        format!("{curl} -p http://pkg.test:443/"),
        format!("{curl} -p http://denied.pkg.test:443/"),
        format!(
            "env -u HTTP_PROXY -u http_proxy -u ALL_PROXY -u all_proxy -u https_proxy -u HTTPS_PROXY {curl} http://good.test:443/"
        ),
        format!("{curl} --noproxy '*' http://{PUBLIC}:443/"),
        format!("{curl} -p --connect-to good.test:443:bad.test:443 http://good.test:443/"),
        format!("{curl} --socks5-hostname 127.0.0.1:1080 http://bad.test:443/"),
        format!("{curl} -p http://private.test:443/"),
        format!("{curl} -p http://mixed.test:443/"),
        format!("{curl} --noproxy '' -p http://localhost:443/"),
        format!("{curl} --noproxy '' -p http://127.0.0.1:443/"),
        format!("{curl} --noproxy '' -p http://0x7f.1:443/"),
        format!("{curl} --noproxy '' -p http://2130706433:443/"),
        format!("{curl} --noproxy '' -p 'http://[::ffff:127.0.0.1]:443/'"),
        format!("{curl} -p http://169.254.169.254:443/"),
        format!("{curl} ftp://good.test:8080/"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let it = free().file("sid.toml", POLICY);
    let ran = run(it, &lines);
    let said = ran.result(0);
    let bodies: Vec<&str> = said.lines().filter(|it| it.starts_with('<') || *it == "-").collect();
    let reached = [
        "<GET /tunnel HTTP/1.1 for good.test:443>",
        "<GET /plain HTTP/1.1 for good.test:8080>",
        "<GET /fronted HTTP/1.1 for good.test:8080>",
        "<GET /wild HTTP/1.1 for sub.pkg.test:443>",
        "<GET /socks HTTP/1.1 for good.test:443>",
        "<GET /address HTTP/1.1 for 203.0.114.1:443>",
    ];
    assert_eq!(bodies[..6], reached, "{said}");
    assert_eq!(bodies[6..], vec!["-"; lines.len() - 6], "{said}");
    for want in [
        "[network: bad.test:443 was not reached (3 times): it is not among the allowed domains and ports]",
        "[network: good.test:80 was not reached: it is not among the allowed domains and ports]",
        "[network: pkg.test:443 was not reached: it is not among",
        "[network: denied.pkg.test:443 was not reached: it is among the denied domains]",
        "[network: private.test:443 was not reached: it is, or resolves to, a local or private address]",
        "[network: mixed.test:443 was not reached: it is, or resolves to,",
        "[network: localhost:443 was not reached: it is, or resolves to,",
        "[network: 127.0.0.1:443 was not reached (4 times): it is, or resolves to,",
        "[network: 169.254.169.254:443 was not reached: it is, or resolves to,",
        "there is no other way out. Only the user can change what is allowed",
    ] {
        assert!(said.contains(want), "{want}\n{said}");
    }
}

#[test]
fn a_name_that_is_not_resolved_in_two_seconds_is_refused() {
    if !in_a_network_of_its_own("a_name_that_is_not_resolved_in_two_seconds_is_refused") {
        return;
    }
    let _mute = UdpSocket::bind("127.0.0.1:53").unwrap();
    let lines = ["curl -sS -m 20 -o /dev/null -w '%{http_connect} %{time_total}' -p http://slow.test:443/"];
    let said = run(free().file("sid.toml", POLICY), &lines).result(0);
    assert!(said.contains("403 2.") || said.contains("403 3."), "{said}");
    assert!(said.contains("slow.test:443 was not reached: it could not be resolved safely within two seconds"), "{said}");
}

#[test]
fn sb_11_a_loopback_port_of_the_host_is_reached_only_if_it_is_allowed() {
    if !in_a_network_of_its_own("sb_11_a_loopback_port_of_the_host_is_reached_only_if_it_is_allowed") {
        return;
    }
    serve("127.0.0.1:9001");
    serve("127.0.0.1:9003");
    let lines = [
        "curl -sS -m 5 http://localhost:9001/allowed",
        "curl -sS -m 5 http://127.0.0.1:9003/",
        "python3 -m http.server -b 127.0.0.1 9002 >/dev/null 2>&1 & for n in $(seq 100); do curl -s -m 5 -o /dev/null localhost:9002 && break; sleep 0.05; done; curl -sS -m 5 -o /dev/null -w '<own server %{http_code}>' localhost:9002",
    ];
    let said = run(free().file("sid.toml", "[network]\nallowed_loopback_ports = [9001]\n"), &lines).result(0);
    let bodies: Vec<&str> = said.lines().filter(|it| it.starts_with('<') || *it == "-").collect();
    assert_eq!(bodies, ["<GET /allowed HTTP/1.1 for localhost:9001>", "-", "<own server 200>"], "{said}");
}

#[test]
fn malformed_requests_get_an_answer_and_the_doors_close_with_the_command() {
    if !in_a_network_of_its_own("malformed_requests_get_an_answer_and_the_doors_close_with_the_command") {
        return;
    }
    serve("203.0.114.1:443");
    let talk = |port: u16, bytes: &str| {
        format!(
            "python3 -c \"import socket; s=socket.create_connection(('127.0.0.1',{port})); s.settimeout(5); s.sendall({bytes}); print(repr(s.recv(100)[:60]))\""
        )
    };
    let lines = [
        talk(3128, "b'GET /x HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n'"),
        talk(3128, "b'CONNECT u:p@good.test:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'"),
        talk(3128, "b'CONNECT good.test:0 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'"),
        talk(3128, "b'\\x16\\x03\\x01garbage\\r\\n\\r\\n'"),
        talk(1080, "b'\\x04\\x01'"),
        talk(1080, "b'\\x05\\x01\\x02'"),
        // SOCKS: a bind request, then IPv6 loopback, an address kind that is none.
        talk(1080, "b'\\x05\\x01\\x00\\x05\\x02\\x00\\x01\\x01\\x01\\x01\\x01\\x00\\x50'"),
        talk(1080, "b'\\x05\\x01\\x00\\x05\\x01\\x00\\x04' + b'\\0'*15 + b'\\x01\\x01\\xbb'"),
        talk(1080, "b'\\x05\\x01\\x00\\x05\\x01\\x00\\x09\\x01\\x01\\x01\\x01\\x00\\x50'"),
        "curl -sS -m 5 -p http://good.test:443/still".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let said = run(free().file("sid.toml", POLICY), &lines).result(0);
    assert!(said.matches("400 Bad Request").count() >= 3, "{said}");
    for want in ["b'\\x05\\xff'", "b'\\x05\\x00", "<GET /still HTTP/1.1 for good.test:443>", "[network: [::1]:443 was not reached"]
    {
        assert!(said.contains(want), "{want}: {said}");
    }
}

#[test]
fn the_doors_of_a_command_are_its_own() {
    if !in_a_network_of_its_own("the_doors_of_a_command_are_its_own") {
        return;
    }
    let ask = |host: &str, before: &str| {
        let cmd = format!("{before}curl -sS -m 5 -p http://{host}:443/; echo over");
        ("exec_command", json!({"cmd": cmd, "yield_time_ms": 20_000}))
    };
    let until = |file: &str| format!("while ! test -e {file}; do sleep 0.02; done; ");
    let it =
        free().file("sid.toml", POLICY).file("../home/.config/sid/settings.toml", "[tools]\nshells = 'codex'\n").args(["--trust"]);
    let mut first = ask("bad.test", &format!("touch ready; {}", until("go")));
    first.1["yield_time_ms"] = json!(250);
    let it = it.rounds([
        first,
        ask("denied.pkg.test", &until("looked")),
        ask("denied.pkg.test", "touch go; "),
        ("write_stdin", json!({"session_id": 1, "yield_time_ms": 20_000})),
    ]);
    let child = it.start();
    until_there(&it, "ready");
    // Two commands have doors now; nobody else sees any.
    for port in [3128, 1080] {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port}");
    }
    fs::write(it.path("looked"), "").unwrap();
    let ran = it.finish(child).status(0);
    for (n, own, other) in [(1, "denied.pkg.test", "bad.test"), (2, "denied.pkg.test", "bad.test"), (3, "bad.test", "denied")] {
        let said = ran.result(n);
        assert!(said.contains(&format!("[network: {own}:443 was not reached")) && !said.contains(other), "{n}: {said}");
    }
}

fn until_there(it: &Test, file: &str) {
    let begun = std::time::Instant::now();
    while !it.path(file).exists() {
        assert!(begun.elapsed().as_secs() < 20, "{file} never came");
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn what_was_reached_and_refused_is_logged_by_session() {
    if !in_a_network_of_its_own("what_was_reached_and_refused_is_logged_by_session") {
        return;
    }
    serve("203.0.114.1:443");
    let lines = [
        "curl -sS -m 5 -p http://good.test:443/",
        "curl -sS -m 5 -p http://good.test:443/",
        "curl -sS -m 5 -p http://bad.test:443/",
    ];
    let it = free().file("sid.toml", POLICY);
    let call = json!({"command": tried(&lines)});
    let it = it.args(["--trust"]).rounds([("run_command", call)]);
    let _ran = it.run().status(0);
    let it = it.command(["network", "log"]);
    let said = it.run().status(0).stdout;
    let rows: Vec<Vec<&str>> = said.lines().map(|it| it.split_whitespace().skip(1).collect()).collect();
    assert_eq!(rows[0][..3], ["bad.test:443", "1x", "refused:"], "{said}");
    assert_eq!(rows[1], ["good.test:443", "2x", "reached"], "{said}");
    let id = it.sessions()[0].clone();
    let it = it.command(["network", "log", &id, "--json"]);
    assert!(it.run().status(0).stdout.contains("\"refused\":\"blocked-by-allowlist\""));
    let it = it.command(["network", "log", "none-such"]);
    assert!(it.run().status(1).stderr.contains("none-such"));
}

#[test]
fn without_a_policy_there_is_no_network_and_no_proxy_variable() {
    let it = free().env("HTTPS_PROXY", "http://127.0.0.1:9").env("npm_config_proxy", "http://127.0.0.1:9");
    let said = it.rounds([("run_command", json!({"command": "env | grep -i proxy; echo over"}))]).run().status(0).result(0);
    assert_eq!(said, "Exit code 0:\nover\n[cwd .]");
}

#[test]
fn sid_owns_the_proxy_variables() {
    let it = free().file("sid.toml", POLICY).env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "*").args(["--trust"]);
    let said = it.rounds([("run_command", json!({"command": "env | grep -i proxy | sort"}))]).run().status(0).result(0);
    for want in ["HTTPS_PROXY=http://127.0.0.1:3128", "all_proxy=socks5h://127.0.0.1:1080", "NO_PROXY=localhost,127.0.0.1,::1"] {
        assert!(said.contains(want), "{said}");
    }
    assert!(!said.contains(":9\n"), "{said}");
}

#[test]
fn bad_rules_refuse_the_start_with_file_and_line() {
    let it = free().file("sid.toml", "[network]\nallowed_domains = [\n'good.test',\n'https://bad',\n]\n");
    let ran = it.run().status(1);
    assert!(ran.stdout.contains("sid.toml:4: ") && ran.stdout.contains("leave out the scheme"), "{}", ran.stdout);
    let it = sid().args(["go"]).file("../home/.config/sid/settings.toml", "[network]\nallowed_ports = [0]\n");
    let ran = it.run().status(1);
    assert!(ran.stderr.contains("settings.toml:2: ") && ran.stderr.contains("0 is no port"), "{}", ran.stderr);
}

#[test]
fn read_only_commands_have_no_network_whatever_is_allowed() {
    let it = sid().args(["go", "--output", "jsonl", "--mode", "read_only", "--trust"]).file("sid.toml", POLICY);
    let line = "env | grep -ci proxy; curl -sS -m 2 --proxy http://127.0.0.1:3128 http://good.test:8080/";
    let said = it.rounds([("run_command", json!({"command": line}))]).run().status(0).result(0);
    assert!(said.contains("0\n") && said.contains("Failed to connect"), "{said}");
}
