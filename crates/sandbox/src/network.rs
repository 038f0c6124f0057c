//! The doors of the managed network: sockets that listen inside a command's own network namespace and are served outside it.
//! Nothing but that command can reach them, and it has no other way out. Each connection is served by the mark that the kernel
//! gave its namespace, so that a door in a wrong place is a door to nowhere.
use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
};

use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketFlags, SocketType, bind, listen, recvmsg, sendmsg, socket_with, socketpair, sockopt,
    },
    pipe::{PipeFlags, pipe_with},
    process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid},
};
use sid_policy::{HTTP_DOOR, Network, SOCKS_DOOR};
use sid_proxy::{Contacts, Doors, Service, Serving, Token};

/// Loopback ports a command may have.
pub const MOST_PORTS: usize = 62;
const FDS: usize = MOST_PORTS + 2;

/// A command's network, from the moment its doors are open.
#[derive(Debug, Default)]
pub(crate) struct Bridge {
    state: OnceLock<Result<Serving, String>>,
}

impl Bridge {
    /// One whose doors are open already.
    pub(crate) fn ready(serving: Serving) -> Arc<Self> {
        let it = Self::default();
        let _only_here = it.state.set(Ok(serving));
        Arc::new(it)
    }

    /// What was reached and refused since the last time.
    pub(crate) fn take(&self) -> Contacts {
        self.state.get().and_then(|it| it.as_ref().ok()).map(Serving::take).unwrap_or_default()
    }

    /// Closes the doors and every connection; what was reached is still known.
    pub(crate) fn close(&self) {
        if let Some(Ok(it)) = self.state.get() {
            it.close();
        }
    }

    /// Why there is no network, though there should be one.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.state.get().and_then(|it| it.as_ref().err()).map(String::as_str)
    }
}

/// Holds a sandbox back until its doors are open.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Where Bubblewrap names its child.
    named: OwnedFd,
    /// A byte here lets it go on.
    go: OwnedFd,
    /// The child's ends, until it has them.
    pub(crate) info: OwnedFd,
    pub(crate) block: OwnedFd,
}

impl Gate {
    pub(crate) fn new() -> io::Result<Self> {
        let (named, info) = pipe_with(PipeFlags::CLOEXEC)?;
        let (block, go) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { named, go, info, block })
    }

    /// Opens the doors on a thread of its own as soon as there is a namespace, then lets the command begin. If they can't be
    /// opened the command runs without a network.
    pub(crate) fn open(self, service: Arc<Service>, network: Arc<Network>) -> Arc<Bridge> {
        let bridge = Arc::new(Bridge::default());
        let Self { named, go, info, block } = self;
        drop((info, block));
        let to = Arc::clone(&bridge);
        let work = move || {
            let serving = named_child(named)
                .and_then(|child| doors(&child, &network))
                .map(|doors| service.serve(network, doors))
                .map_err(|err| format!("the network of this command could not be set up: {err}"));
            let _only_here = to.state.set(serving);
            let _gone = File::from(go).write_all(b"g");
        };
        if std::thread::Builder::new().name("doors".into()).spawn(work).is_err() {
            let _only_here = bridge.state.set(Err("the network of this command could not be set up: no thread".to_owned()));
        }
        bridge
    }
}

/// What Bubblewrap says of the process that it made. By the time it is looked for, its number can be another process's.
#[derive(Clone, Copy, Debug)]
struct Child {
    pid: Pid,
    /// The number of its network namespace's file.
    namespace: u64,
}

/// What Bubblewrap writes as JSON. A sandbox that fails closes the pipe.
fn named_child(pipe: OwnedFd) -> io::Result<Child> {
    let mut text = String::new();
    let mut lines = BufReader::new(File::from(pipe));
    while lines.read_line(&mut text)? > 0 && !text.contains('}') {}
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let pid = json["child-pid"].as_i64().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
    let namespace = json["net-namespace"].as_u64();
    let child = pid.zip(namespace).map(|(pid, namespace)| Child { pid, namespace });
    child.ok_or_else(|| io::Error::other("Bubblewrap does not say which network it made (0.4 or newer is needed)"))
}

fn doors(child: &Child, network: &Network) -> io::Result<Doors> {
    let mut ports = vec![HTTP_DOOR, SOCKS_DOOR];
    ports.extend(network.loopback.iter().take(MOST_PORTS));
    let mut all = listening(child, &ports)?.into_iter().map(TcpListener::from);
    let mut next = || all.next().ok_or_else(|| io::Error::other("a socket is missing"));
    let (http, socks) = (next()?, next()?);
    let loopback = network.loopback.iter().copied().zip(all).collect();
    let token = Token::Mark { mark: connection_mark(http.as_fd())?, of: connection_mark };
    Ok(Doors { http, socks, loopback, token })
}

/// The mark of the network namespace that a socket is of. No two namespaces ever have the same.
///
/// # Errors
/// The kernel has none: it is older than Linux 5.14.
pub fn connection_mark(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut mark = 0_u64;
    let mut size: libc::socklen_t = 8;
    let (to, level, name) = ((&raw mut mark).cast(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
    // SAFETY: the descriptor lives, and the kernel writes eight bytes at most to a place for eight.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut size) } {
        0 => Ok(mark),
        _ => Err(io::Error::other(format!("connections have no mark (Linux 5.14 is needed): {}", io::Error::last_os_error()))),
    }
}

/// Sockets that listen on these ports of 127.0.0.1 in the network namespace of a child. A process of our own enters the
/// namespace, opens them there, and hands them back.
fn listening(child: &Child, ports: &[u16]) -> io::Result<Vec<OwnedFd>> {
    let target = pidfd_open(child.pid, PidfdFlags::empty())?;
    let namespace = child.namespace;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the child only makes system calls, without allocating, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = hand_over(target.as_raw_fd(), namespace, &theirs, ports).err().map_or(0, Errno::raw_os_error);
        // SAFETY: ends this process at once, without running anything of the parent's.
        unsafe { libc::_exit(code) }
    }
    let child = Pid::from_raw(child).filter(|it| it.as_raw_nonzero().get() > 0).ok_or_else(io::Error::last_os_error)?;
    drop(theirs);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(&ours, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let mut out = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            out.extend(fds);
        }
    }
    let ended = waitpid(Some(child), WaitOptions::empty())?.and_then(|(_, it)| it.exit_status());
    received?;
    match ended {
        Some(0) if out.len() == ports.len() => Ok(out),
        Some(code) if code != 0 => Err(io::Error::from_raw_os_error(code)),
        _ => Err(io::Error::other("the sockets were not handed over")),
    }
}

/// Runs in the forked child: no allocation, no locks.
fn hand_over(target: libc::c_int, namespace: u64, to: &OwnedFd, ports: &[u16]) -> Result<(), Errno> {
    // SAFETY: a plain system call on a descriptor that lives.
    if unsafe { libc::setns(target, libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::PERM));
    }
    // A number of a process that ended may be another's by now.
    if rustix::fs::stat(c"/proc/self/ns/net")?.st_ino != namespace {
        return Err(Errno::SRCH);
    }
    let mut fds: [Option<OwnedFd>; FDS] = [const { None }; FDS];
    for (slot, port) in fds.iter_mut().zip(ports) {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The loopback device may not be up yet.
        sockopt::set_ip_freebind(&socket, true)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port))?;
        listen(&socket, 4096)?;
        *slot = Some(socket);
    }
    let mut borrowed = [to.as_fd(); FDS];
    let mut count = 0;
    for (slot, fd) in borrowed.iter_mut().zip(fds.iter().flatten()) {
        *slot = fd.as_fd();
        count += 1;
    }
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&borrowed[..count])) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(to, &[IoSlice::new(b"d")], &mut control, SendFlags::empty()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    use super::*;

    /// What a command gets from its HTTP door when the connections that are served are those of this mark.
    fn served(mark: impl FnOnce(u64) -> u64) -> String {
        let inside = r"read -r _; exec 4<>/dev/tcp/127.0.0.1/3128; printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&4; cat <&4";
        let bwrap = "exec bwrap --info-fd 3 --dev-bind / / --unshare-user --unshare-net -- bash -c \"$0\" 3>&1";
        let mut command = Command::new("sh");
        let mut it = command.args(["-c", bwrap, inside]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = it.stdout.take().map(OwnedFd::from).unwrap();
        let child = named_child(out.try_clone().unwrap()).unwrap();
        let elsewhere = Child { namespace: child.namespace + 1, ..child };
        assert_eq!(listening(&elsewhere, &[HTTP_DOOR]).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        let mut doors = doors(&child, &Network::default()).unwrap();
        let Token::Mark { mark: right, of } = doors.token else { panic!("no mark") };
        doors.token = Token::Mark { mark: mark(right), of };
        let service = Service::start().unwrap();
        let _serving = service.serve(Arc::new(Network::default()), doors);
        it.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut said = String::new();
        File::from(out).read_to_string(&mut said).unwrap();
        it.wait().unwrap();
        said
    }

    #[test]
    fn a_door_serves_connections_of_its_own_namespace_and_opens_in_no_other() {
        let mut theirs = 0;
        let said = served(|right| {
            theirs = right;
            right
        });
        assert!(said.starts_with("HTTP/1.1 400"), "{said}");
        let ours = connection_mark(TcpListener::bind("127.0.0.1:0").unwrap().as_fd()).unwrap();
        assert_ne!(theirs, ours);
        assert_eq!(served(|_| ours), "");
    }
}
