//! The doors of the managed network: sockets that listen inside a command's own network namespace and are served outside it.
//! Nothing but that command can reach them, and it has no other way out.
use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
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
use sid_proxy::{Contacts, Doors, Service, Serving};

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
                .and_then(|pid| doors(pid, &network))
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

/// The pid that Bubblewrap writes as JSON. A sandbox that fails closes the pipe.
fn named_child(pipe: OwnedFd) -> io::Result<u32> {
    let mut text = String::new();
    let mut lines = BufReader::new(File::from(pipe));
    while lines.read_line(&mut text)? > 0 && !text.contains('}') {}
    let json: serde_json::Value = serde_json::from_str(&text)?;
    json["child-pid"].as_u64().and_then(|it| u32::try_from(it).ok()).ok_or_else(|| io::Error::other("no child is named"))
}

fn doors(pid: u32, network: &Network) -> io::Result<Doors> {
    let mut ports = vec![HTTP_DOOR, SOCKS_DOOR];
    ports.extend(network.loopback.iter().take(MOST_PORTS));
    let mut all = listening(pid, &ports)?.into_iter().map(TcpListener::from);
    let mut next = || all.next().ok_or_else(|| io::Error::other("a socket is missing"));
    let (http, socks) = (next()?, next()?);
    let loopback = network.loopback.iter().copied().zip(all).collect();
    Ok(Doors { http, socks, loopback, token: None })
}

/// Sockets that listen on these ports of 127.0.0.1 in the network namespace of `pid`. A process of our own enters the
/// namespace, opens them there, and hands them back.
fn listening(pid: u32, ports: &[u16]) -> io::Result<Vec<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let target = pidfd_open(pid, PidfdFlags::empty())?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the child only makes system calls, without allocating, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = hand_over(target.as_raw_fd(), &theirs, ports).err().map_or(0, Errno::raw_os_error);
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
fn hand_over(target: libc::c_int, to: &OwnedFd, ports: &[u16]) -> Result<(), Errno> {
    // SAFETY: a plain system call on a descriptor that lives.
    if unsafe { libc::setns(target, libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::PERM));
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
