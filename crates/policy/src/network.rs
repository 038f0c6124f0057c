//! Which destinations a sandboxed command may reach, as data: who asks, and what is answered, is the proxy's business.
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A destination's host, in one spelling whatever it was written as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name: ASCII, lower case, no dot at its end.
    Name(String),
    /// An address. IPv4 inside IPv6 is IPv4.
    Address(IpAddr),
}

impl Host {
    /// Reads a host as clients spell it: names, IPv4 in every form that `inet_aton` takes, IPv6 with or without brackets.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bare = text.strip_prefix('[').map_or(Some(text), |it| it.strip_suffix(']'))?;
        if let Ok(it) = bare.parse::<Ipv6Addr>() {
            return Some(Self::Address(IpAddr::V6(it).to_canonical()));
        }
        let bare = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Some(it) = odd_v4(&bare) {
            return Some(Self::Address(it.into()));
        }
        let label = |it: &str| {
            !it.is_empty() && it.len() <= 63 && it.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
        };
        (bare.len() <= 253 && bare.split('.').all(label)).then_some(Self::Name(bare))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(it) => f.write_str(it),
            Self::Address(IpAddr::V4(it)) => it.fmt(f),
            Self::Address(IpAddr::V6(it)) => write!(f, "[{it}]"),
        }
    }
}

/// IPv4 as `inet_aton` reads it: one to four numbers, each decimal, octal (`0…`) or hexadecimal (`0x…`); the last one fills
/// what is left.
fn odd_v4(text: &str) -> Option<Ipv4Addr> {
    let number = |it: &str| match it.strip_prefix("0x") {
        Some("") => Some(0),
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if it.len() > 1 && it.starts_with('0') => u32::from_str_radix(it, 8).ok(),
        None => it.parse().ok().filter(|_| it.bytes().all(|it| it.is_ascii_digit())),
    };
    let parts: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|it| *it > 255) || u64::from(*last) >= 1 << (8 * (4 - first.len())) {
        return None;
    }
    let head = first.iter().enumerate().fold(0, |sum, (n, it)| sum | it << (24 - 8 * n));
    Some(Ipv4Addr::from(head | last))
}

/// A line of a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// This host.
    Is(Host),
    /// Any name below this one, and not itself.
    Below(String),
}

impl Pattern {
    /// Reads `name`, an address, or `*.name`.
    ///
    /// # Errors
    /// What is wrong with it, as the rest of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("is empty; write a host, like `example.com` or `*.example.com`".to_owned());
        }
        if text.contains('/') {
            return Err("is no host: leave out the scheme and the path".to_owned());
        }
        if !text.is_ascii() {
            return Err("has letters that host names have in their `xn--` spelling only; write that".to_owned());
        }
        let (star, name) = text.strip_prefix("*.").map_or((false, text), |it| (true, it));
        if name.contains('*') {
            return Err("may hold `*` only as the whole first part: `*.example.com`".to_owned());
        }
        match (star, Host::parse(name)) {
            (false, Some(host)) => Ok(Self::Is(host)),
            (true, Some(Host::Name(name))) => Ok(Self::Below(name)),
            (true, Some(Host::Address(_))) => Err("is an address, which has nothing below it".to_owned()),
            (_, None) if name.contains(':') => Err("is no host: ports are listed in `allowed_ports`".to_owned()),
            (_, None) => Err("is no host name".to_owned()),
        }
    }

    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Is(it), _) => it == host,
            (Self::Below(parent), Host::Name(name)) => name.strip_suffix(parent.as_str()).is_some_and(|it| it.ends_with('.')),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

/// Why a destination is not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blocked {
    /// Nothing allows it.
    NotAllowed,
    /// Something denies it.
    Denied,
    /// Its name could not be resolved in time.
    NoAnswer,
    /// Its name, or it itself, is an address of this machine or of a private network.
    NotPublic,
}

impl Blocked {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NotAllowed, Self::Denied, Self::NoAnswer, Self::NotPublic];

    /// The word in the `X-Proxy-Error` header and in journals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "blocked-by-allowlist",
            Self::Denied => "blocked-by-denylist",
            Self::NoAnswer => "blocked-dns-resolution",
            Self::NotPublic => "blocked-private-address",
        }
    }

    /// The rest of a sentence that begins with the destination.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::NotAllowed => "is not among the allowed domains and ports",
            Self::Denied => "is among the denied domains",
            Self::NoAnswer => "could not be resolved safely within two seconds",
            Self::NotPublic => "is, or resolves to, a local or private address",
        }
    }
}

/// What a sandboxed command may reach. Empty: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Hosts that may be reached, on [`Self::ports`].
    pub allow: Vec<Pattern>,
    /// Hosts that may not, on any port; they win.
    pub deny: Vec<Pattern>,
    /// Ports of allowed hosts.
    pub ports: Vec<u16>,
    /// Ports of this machine's 127.0.0.1 that are there inside too.
    pub loopback: Vec<u16>,
    /// macOS: whether a command may listen on local ports. On Linux it always may, in a network of its own.
    pub local_binding: bool,
}

/// The port an allowed host is reached on if nothing else is said.
pub const HTTPS: u16 = 443;
/// Where the HTTP proxy is inside a sandbox.
pub const HTTP_DOOR: u16 = 3128;
/// Where the SOCKS5 proxy is inside a sandbox.
pub const SOCKS_DOOR: u16 = 1080;

impl Network {
    /// Whether there is anything to reach at all.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.allow.is_empty() && self.loopback.is_empty()
    }

    /// Judges a destination before its name is looked up.
    ///
    /// # Errors
    /// Why it is not reached.
    pub fn judge(&self, host: &Host, port: u16) -> Result<(), Blocked> {
        if self.deny.iter().any(|it| it.covers(host)) {
            return Err(Blocked::Denied);
        }
        let allowed = self.ports.contains(&port) && self.allow.iter().any(|it| it.covers(host));
        if !allowed {
            return Err(Blocked::NotAllowed);
        }
        match host {
            Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => Err(Blocked::NotPublic),
            Host::Address(it) if !is_public(*it) => Err(Blocked::NotPublic),
            _ => Ok(()),
        }
    }
}

/// Whether an address is one of the public Internet (IANA special-purpose registries, 2026).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

fn is_public_v4(it: Ipv4Addr) -> bool {
    let [a, b, c, _] = it.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !special
}

fn is_public_v6(it: Ipv6Addr) -> bool {
    let seg = it.segments();
    let embedded = || is_public_v4(Ipv4Addr::from((u32::from(seg[6]) << 16) | u32::from(seg[7])));
    match seg {
        // Compatible and mapped forms, and NAT64: the IPv4 address inside is what is reached.
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => embedded(),
        // Local NAT64, discard, IETF protocols with Teredo and ORCHID, documentation, 6to4.
        [0x64, 0xff9b, ..] | [0x100, 0, ..] | [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002 | 0x3fff | 0x5f00, ..] => false,
        // Only 2000::/3 is global unicast; unique local, link-local, site-local and multicast are not.
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, want) in [
            ("Example.COM.", Some("example.com")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("0x7f.1", Some("127.0.0.1")),
            ("2130706433", Some("127.0.0.1")),
            ("0177.0.0.01", Some("127.0.0.1")),
            ("127.1", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("[fe80::1", None),
            ("fe80::1%eth0", None),
            ("a..b", None),
            ("a b", None),
            ("user@host", None),
            ("", None),
            ("1.2.3.4.5", Some("1.2.3.4.5")),
            ("256.1.1.1", Some("256.1.1.1")),
            ("bücher.example", None),
        ] {
            assert_eq!(Host::parse(text).map(|it| it.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn rules_of_domains_and_ports() {
        let list = |it: &[&str]| it.iter().map(|it| Pattern::parse(it).unwrap()).collect::<Vec<_>>();
        let it = Network {
            allow: list(&["good.test", "*.pkg.test", "93.184.216.34", "[2606:4700::1]", "127.0.0.1", "localhost"]),
            deny: list(&["bad.pkg.test", "*.evil.pkg.test"]),
            ports: vec![443, 8443],
            ..Network::default()
        };
        let judge = |host: &str, port| it.judge(&Host::parse(host).unwrap(), port).err().map(Blocked::name);
        for (host, port, want) in [
            ("good.test", 443, None),
            ("GOOD.test.", 8443, None),
            ("good.test", 80, Some("blocked-by-allowlist")),
            ("sub.good.test", 443, Some("blocked-by-allowlist")),
            ("notgood.test", 443, Some("blocked-by-allowlist")),
            ("a.pkg.test", 443, None),
            ("a.b.pkg.test", 443, None),
            ("pkg.test", 443, Some("blocked-by-allowlist")),
            ("bad.pkg.test", 443, Some("blocked-by-denylist")),
            ("bad.pkg.test", 22, Some("blocked-by-denylist")),
            ("x.evil.pkg.test", 443, Some("blocked-by-denylist")),
            ("evil.pkg.test", 443, None),
            ("93.184.216.34", 443, None),
            ("0x5db8d822", 443, None),
            ("2606:4700::1", 443, None),
            ("127.1", 443, Some("blocked-private-address")),
            ("localhost", 443, Some("blocked-private-address")),
        ] {
            assert_eq!(judge(host, port), want, "{host}:{port}");
        }
    }

    #[test]
    fn patterns_that_are_none_say_why() {
        for (text, want) in [
            ("", "empty"),
            ("https://a.test", "scheme"),
            ("a.test/x", "scheme"),
            ("a.test:443", "allowed_ports"),
            ("*", "whole first part"),
            ("a.*.test", "whole first part"),
            ("*.*.test", "whole first part"),
            ("*.127.0.0.1", "nothing below"),
            ("bücher.test", "xn--"),
            ("a..test", "no host name"),
        ] {
            let why = Pattern::parse(text).unwrap_err();
            assert!(why.contains(want), "{text}: {why}");
        }
    }

    #[test]
    fn addresses_that_are_not_public() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808", "::ffff:8.8.8.8"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
