//! SOCKS5 (RFC 1928), CONNECT only, without a password: the connection itself has shown whose it is.
use std::net::{Ipv4Addr, Ipv6Addr};

use sid_policy::{Blocked, Host};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{Command, dial::Failed, pump};

/// How long a client may take to say what it wants.
const GREETING: std::time::Duration = std::time::Duration::from_secs(10);

/// The method of those who need no password.
const NO_PASSWORD: u8 = 0;

/// Replies of RFC 1928 §6.
#[derive(Clone, Copy)]
enum Reply {
    Done = 0,
    Failed = 1,
    NotAllowed = 2,
    Unreachable = 4,
    UnknownCommand = 7,
    UnknownAddress = 8,
}

pub(crate) async fn serve(mut stream: TcpStream, command: Command) {
    let Ok(Some((host, port))) = timeout(GREETING, wanted(&mut stream)).await else { return };
    match command.dial(&host, port).await {
        Ok(far) => {
            if say(&mut stream, Reply::Done).await.is_some() {
                pump::both(stream, far, &[]).await;
            }
        }
        Err(Failed::Blocked(Blocked::NoAnswer)) => drop(say(&mut stream, Reply::Unreachable).await),
        Err(Failed::Blocked(_)) => drop(say(&mut stream, Reply::NotAllowed).await),
        Err(Failed::NoHost | Failed::Io(_)) => drop(say(&mut stream, Reply::Failed).await),
    }
}

/// The destination. `None`: the client was told no, or makes no sense.
async fn wanted(stream: &mut TcpStream) -> Option<(String, u16)> {
    let [version, methods] = read(stream).await?;
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered).await.ok()?;
    if version != 5 || !offered.contains(&NO_PASSWORD) {
        stream.write_all(&[5, 0xff]).await.ok()?;
        return None;
    }
    stream.write_all(&[5, NO_PASSWORD]).await.ok()?;
    let [_, what, _, kind] = read(stream).await?;
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(stream).await?).to_string(),
        4 => Host::Address(Ipv6Addr::from(read::<16>(stream).await?).into()).to_string(),
        3 => {
            let [length] = read(stream).await?;
            String::from_utf8(bytes(stream, length.into()).await?).ok()?
        }
        _ => {
            say(stream, Reply::UnknownAddress).await?;
            return None;
        }
    };
    let port = u16::from_be_bytes(read(stream).await?);
    if what != 1 {
        say(stream, Reply::UnknownCommand).await?;
        return None;
    }
    Some((host, port))
}

async fn say(stream: &mut TcpStream, reply: Reply) -> Option<()> {
    stream.write_all(&[5, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await.ok()
}

async fn read<const N: usize>(stream: &mut TcpStream) -> Option<[u8; N]> {
    let mut out = [0; N];
    stream.read_exact(&mut out).await.ok()?;
    Some(out)
}

async fn bytes(stream: &mut TcpStream, n: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; n];
    stream.read_exact(&mut out).await.ok()?;
    Some(out)
}
