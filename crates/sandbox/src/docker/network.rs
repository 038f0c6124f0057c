//! The managed network in a container: sockets in the workspace that `socat` inside connects to. Each connection begins with the
//! command's token, which goes all the way to the proxy: neither these sockets nor its ports serve anybody else.
use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{DirBuilderExt as _, PermissionsExt as _},
            net::UnixListener as StdListener,
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use sid_policy::{HTTP_DOOR, Network, SOCKS_DOOR};
use sid_proxy::{Doors, Service, Serving, Token};
use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener, UnixStream},
    task::JoinHandle,
};

/// Below the primary root; commands see it read-only.
pub(crate) const FOLDER: &str = ".sid-network";
/// What inside hands a connection on: it shows the token first, which is nowhere but in its own environment.
const RELAY: &str = "relay";

/// The sockets of one command. Dropping it closes and removes them.
#[derive(Debug)]
pub(crate) struct Sockets {
    folder: PathBuf,
    token: String,
    /// A port inside, and the socket it leads to.
    ports: Vec<(u16, String)>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sockets {
    /// Makes them.
    ///
    /// # Errors
    /// They can't be made.
    pub(crate) fn open(root: &Path, token: &str, service: &Service, network: &Arc<Network>) -> io::Result<(Self, Serving)> {
        let top = root.join(FOLDER);
        match fs::DirBuilder::new().mode(0o733).create(&top) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ if !fs::symlink_metadata(&top)?.is_dir() => return Err(io::Error::other(format!("{} is no folder", top.display()))),
            _ => fs::set_permissions(&top, fs::Permissions::from_mode(0o733))?,
        }
        let folder = top.join(format!("command-{}", &token[..16]));
        fs::DirBuilder::new().mode(0o711).create(&folder)?;
        fs::write(folder.join(RELAY), "(printf %s \"$SID_TOKEN\"; exec cat) | socat -t 3600 - UNIX-CONNECT:\"$1\"\n")?;
        let local = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (http, socks) = (local()?, local()?);
        let loopback: Vec<_> = network.loopback.iter().map(|port| Ok((*port, local()?))).collect::<io::Result<_>>()?;
        let mut it = Self { folder, token: token.to_owned(), ports: Vec::new(), tasks: Vec::new() };
        it.door(HTTP_DOOR, "http", http.local_addr()?)?;
        it.door(SOCKS_DOOR, "socks", socks.local_addr()?)?;
        for (port, listener) in &loopback {
            it.door(*port, &format!("loopback-{port}"), listener.local_addr()?)?;
        }
        let token = Token::Secret(token.to_owned());
        Ok((it, service.serve(Arc::clone(network), Doors { http, socks, loopback, token })))
    }

    fn door(&mut self, port: u16, name: &str, to: SocketAddr) -> io::Result<()> {
        let name = format!("{name}.sock");
        // A socket's path may have 107 bytes, a workspace's any number.
        let dir = fs::File::open(&self.folder)?;
        let listener = StdListener::bind(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
        fs::set_permissions(self.folder.join(&name), fs::Permissions::from_mode(0o666))?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        self.tasks.push(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(stream, to));
            }
        }));
        self.ports.push((port, name));
        Ok(())
    }

    /// Where they are on this side.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What has to run inside before the command: a listener a port, each waited for.
    pub(crate) fn script(&self, folder: &Path) -> String {
        let mut out =
            String::from("command -v socat >/dev/null || { echo 'sid: socat is missing in the container' >&2; exit 127; }\n");
        let folder = folder.to_string_lossy().replace('\'', "'\\''");
        for (port, name) in &self.ports {
            // In the folder itself, so that no path has to be spelled in socat's own language.
            out.push_str(&format!(
                "(cd '{folder}' && SID_TOKEN={} exec socat TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork EXEC:'/bin/sh {RELAY} {name}') \
                 </dev/null >/dev/null 2>&1 &\n",
                self.token
            ));
        }
        for (port, _) in &self.ports {
            out.push_str(&format!(
                "n=0; while [ $n -lt 100 ] && ! socat -u OPEN:/dev/null TCP:127.0.0.1:{port} 2>/dev/null; do n=$((n+1)); sleep 0.01; done\n"
            ));
        }
        let http = format!("http://127.0.0.1:{HTTP_DOOR}");
        let socks = format!("socks5h://127.0.0.1:{SOCKS_DOOR}");
        let local = "localhost,127.0.0.1,::1";
        for (name, value) in [("http_proxy", &*http), ("https_proxy", &http), ("all_proxy", &socks), ("no_proxy", local)] {
            out.push_str(&format!("export {name}={value} {}={value}\n", name.to_ascii_uppercase()));
        }
        out + "export NODE_USE_ENV_PROXY=1\n"
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let _gone = fs::remove_dir_all(&self.folder);
        // The last one closes the door.
        if let Some(top) = self.folder.parent() {
            let _used = fs::remove_dir(top);
        }
    }
}

/// Hands a connection on to the proxy, which asks for the token.
async fn relay(mut stream: UnixStream, to: SocketAddr) {
    if let Ok(mut far) = TcpStream::connect(to).await {
        let _ended = copy_bidirectional(&mut stream, &mut far).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read as _, Write as _},
        time::Duration,
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn only_the_token_opens_a_door_and_all_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let token = "0123456789abcdef".repeat(4);
        let service = Service::start().unwrap();
        let network = Arc::new(Network::default());
        let (sockets, _serving) = Sockets::open(dir.path(), &token, &service, &network).unwrap();
        assert_eq!(fs::metadata(dir.path().join(FOLDER)).unwrap().permissions().mode() & 0o777, 0o733);
        let socket = sockets.folder().join("http.sock");
        let talk = move |first: String| {
            let mut it = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            it.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let _closed = it.write_all(first.as_bytes());
            let _closed = it.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let mut said = String::new();
            let _reset = it.read_to_string(&mut said);
            said
        };
        let (right, wrong) = (token.clone(), "f".repeat(64));
        let (good, bad, silent) =
            tokio::task::spawn_blocking(move || (talk(right), talk(wrong), talk(String::new()))).await.unwrap();
        assert!(good.starts_with("HTTP/1.1 400"), "{good}");
        assert!(bad.is_empty() && silent.is_empty(), "{bad}{silent}");
        drop(sockets);
        assert!(!dir.path().join(FOLDER).exists());
    }
}
