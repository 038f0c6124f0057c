//! From a destination as it was asked for to a connection, or to the reason why there is none.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use sid_policy::{Blocked, Host, is_public};
use tokio::{net::TcpStream, time::timeout};

use crate::Command;

/// Why there is no connection.
pub(crate) enum Failed {
    /// The request names no host.
    NoHost,
    /// The rules.
    Blocked(Blocked),
    /// The far end.
    Io(io::Error),
}

/// How long a name may take.
const RESOLVING: Duration = Duration::from_secs(2);
/// How long one address may take to answer.
const CONNECTING: Duration = Duration::from_secs(20);

impl Command {
    /// Judges a destination, resolves it once, and connects to an address that was vetted.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, Failed> {
        let host = Host::parse(host).ok_or(Failed::NoHost)?;
        let addresses = match self.vetted(&host, port).await {
            Ok(it) => it,
            Err(why) => {
                self.log.refused(host.to_string(), port, why);
                return Err(Failed::Blocked(why));
            }
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in addresses {
            match timeout(CONNECTING, TcpStream::connect(SocketAddr::new(address, port))).await {
                Ok(Ok(stream)) => {
                    self.log.reached(host.to_string(), port);
                    let _small_writes_wait = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(err)) => last = err,
                Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
            }
        }
        Err(Failed::Io(last))
    }

    /// One address that is not public spoils all of a name's: an attacker's name server could give both.
    async fn vetted(&self, host: &Host, port: u16) -> Result<Vec<IpAddr>, Blocked> {
        self.network.judge(host, port)?;
        let name = match host {
            Host::Address(it) => return Ok(vec![*it]),
            Host::Name(it) => it,
        };
        let found = timeout(RESOLVING, tokio::net::lookup_host((name.as_str(), port))).await;
        let found: Vec<IpAddr> = match found {
            Ok(Ok(all)) => all.map(|it| it.ip()).collect(),
            Ok(Err(_)) | Err(_) => return Err(Blocked::NoAnswer),
        };
        if found.is_empty() {
            return Err(Blocked::NoAnswer);
        }
        if found.iter().all(|it| is_public(*it)) { Ok(found) } else { Err(Blocked::NotPublic) }
    }
}
