//! The `[network]` table, the same in a workspace and in the user's settings.
use sid_config::{Complaint, Key, Kind, Layer, Value};
use sid_policy::{HTTP_DOOR, HTTPS, Network, Pattern, SOCKS_DOOR};

/// Its keys. Each may also be spelled in camel case.
pub const NETWORK: &[Key] = &[
    Key {
        path: "network.allowed_domains",
        kind: Kind::Texts,
        doc: "hosts that commands may reach: `name`, `*.name` for those below, an address",
    },
    Key { path: "network.denied_domains", kind: Kind::Texts, doc: "hosts that they may not, on any port; wins" },
    Key { path: "network.allowed_ports", kind: Kind::Numbers, doc: "ports of allowed hosts; [443] if absent" },
    Key {
        path: "network.allowed_loopback_ports",
        kind: Kind::Numbers,
        doc: "ports of 127.0.0.1 that are the same inside the sandbox",
    },
    Key {
        path: "network.allow_local_binding",
        kind: Kind::Switch,
        doc: "macOS: let commands listen on local ports (on Linux they always may)",
    },
    Key { path: "network.allowedDomains", kind: Kind::Texts, doc: "the same as `allowed_domains`" },
    Key { path: "network.deniedDomains", kind: Kind::Texts, doc: "the same as `denied_domains`" },
    Key { path: "network.allowedPorts", kind: Kind::Numbers, doc: "the same as `allowed_ports`" },
    Key { path: "network.allowedLoopbackPorts", kind: Kind::Numbers, doc: "the same as `allowed_loopback_ports`" },
    Key { path: "network.allowLocalBinding", kind: Kind::Switch, doc: "the same as `allow_local_binding`" },
];

/// How many loopback ports there can be.
const MOST_PORTS: usize = 62;

/// What the table says; `None`: there is none.
///
/// # Errors
/// Every pattern and port that is none, with its place.
pub fn network(layer: &Layer) -> Result<Option<Network>, Vec<Complaint>> {
    let mut reader = Reader { layer, wrong: Vec::new() };
    let it = Network {
        allow: reader.patterns(["network.allowed_domains", "network.allowedDomains"]),
        deny: reader.patterns(["network.denied_domains", "network.deniedDomains"]),
        ports: reader.ports(["network.allowed_ports", "network.allowedPorts"]).unwrap_or_else(|| vec![HTTPS]),
        loopback: reader.loopback(["network.allowed_loopback_ports", "network.allowedLoopbackPorts"]),
        local_binding: ["network.allow_local_binding", "network.allowLocalBinding"]
            .iter()
            .any(|it| layer.get(it) == Some(&Value::Switch(true))),
    };
    if !reader.wrong.is_empty() {
        return Err(reader.wrong);
    }
    Ok(NETWORK.iter().any(|key| layer.get(key.path).is_some()).then_some(it))
}

struct Reader<'a> {
    layer: &'a Layer,
    wrong: Vec<Complaint>,
}

impl Reader<'_> {
    fn patterns(&mut self, keys: [&str; 2]) -> Vec<Pattern> {
        let mut out = Vec::new();
        for key in keys {
            for (n, text) in self.layer.texts(key).iter().enumerate() {
                match Pattern::parse(text) {
                    Ok(it) => out.push(it),
                    Err(why) => {
                        self.wrong.push(self.layer.complaint(key, n, format!("`{key}`: \"{}\" {why}", text.escape_debug())))
                    }
                }
            }
        }
        out
    }

    fn ports(&mut self, keys: [&str; 2]) -> Option<Vec<u16>> {
        let key = keys.into_iter().find(|it| self.layer.get(it).is_some())?;
        let mut out = Vec::new();
        for (n, number) in self.layer.numbers(key).iter().enumerate() {
            match u16::try_from(*number).ok().filter(|it| *it > 0) {
                Some(it) => out.push(it),
                None => {
                    self.wrong.push(self.layer.complaint(key, n, format!("`{key}`: {number} is no port; ports are 1 to 65535")))
                }
            }
        }
        Some(out)
    }

    fn loopback(&mut self, keys: [&str; 2]) -> Vec<u16> {
        let out = self.ports(keys).unwrap_or_default();
        let key = keys.into_iter().find(|it| self.layer.get(it).is_some()).unwrap_or(keys[0]);
        for (n, port) in out.iter().enumerate().filter(|(_, it)| [HTTP_DOOR, SOCKS_DOOR].contains(it)) {
            self.wrong.push(self.layer.complaint(key, n, format!("`{key}`: {port} is where sid's own proxy is in a sandbox")));
        }
        if out.len() > MOST_PORTS {
            self.wrong.push(self.layer.complaint(key, MOST_PORTS, format!("`{key}`: more than {MOST_PORTS} ports")));
        }
        out
    }
}
