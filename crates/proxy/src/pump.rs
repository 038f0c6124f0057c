//! Both directions of a connection. Small amounts go through a buffer that all connections share; once a direction has moved
//! much, the kernel moves the rest (`splice`), and idle connections hold no memory for data.
use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::OwnedFd,
    sync::OnceLock,
};

use rustix::{
    net::{
        AddressFamily, SocketFlags, SocketType, socket_with,
        sockopt::{
            set_socket_recv_buffer_size, set_socket_send_buffer_size, set_tcp_congestion, socket_incoming_cpu,
            socket_recv_buffer_size,
        },
    },
    pipe::{PipeFlags, SpliceFlags, pipe_with, splice},
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};
use tokio::{
    io::{AsyncWriteExt as _, Interest},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

const BUFFER: usize = 64 << 10;
/// From here on a direction is worth a pipe.
const MUCH: u64 = 256 << 10;
/// What a pipe is asked to hold.
const PIPE: usize = 1 << 20;
/// What is on its way to an end on this machine: more would leave the processor's cache before it is read.
const QUEUE: usize = 256 << 10;
/// What may wait from an end on this machine: less would hold its writer up, more would leave the cache, too.
const AHEAD: usize = 1 << 20;
/// What goes by until it is judged where the reader is.
const STRETCH: usize = 2 << 20;

thread_local! {
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
    static STEADY: Cell<usize> = const { Cell::new(0) };
    /// Bytes of all directions together.
    static MOVED: Cell<usize> = const { Cell::new(0) };
    static ALLOWED: Cell<CpuSet> = Cell::new(CpuSet::new());
}

/// Moves bytes until both ends are done. `first` has been read from `near` already.
pub(crate) async fn both(mut near: TcpStream, mut far: TcpStream, first: &[u8]) {
    if !first.is_empty() && far.write_all(first).await.is_err() {
        return;
    }
    let (near_in, near_out) = near.split();
    let (far_in, far_out) = far.split();
    // An error on one side ends both: half a tunnel is of no use.
    let _ended = tokio::try_join!(one(near_in, far_out), one(far_in, near_out));
}

async fn one(from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
    let mut moved = 0;
    loop {
        from.readable().await?;
        let taken = SHARED.with_borrow_mut(|buffer| {
            let n = from.try_read(buffer)?;
            // Most of it fits into the socket at once; only what does not is kept apart.
            let sent = if n == 0 { 0 } else { to.try_write(&buffer[..n]).or_else(none_yet)? };
            Ok::<_, io::Error>((n, buffer[sent..n].to_vec()))
        });
        match taken {
            Ok((0, _)) => return to.shutdown().await,
            Ok((n, rest)) => {
                to.write_all(&rest).await?;
                moved += n as u64;
            }
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Err(err) => return Err(err),
        }
        if moved > MUCH {
            // Without a pipe (the system counts them) the buffer does it.
            match pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) {
                Ok((read, write)) => return spliced(from, to, read, write).await,
                Err(_) => moved = 0,
            }
        }
    }
}

fn none_yet(err: io::Error) -> io::Result<usize> {
    if err.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(err) }
}

/// Keeps this thread on the processor where it is, as long as one of these lives. A thread that sends much over the loopback
/// device and changes processors makes its packets overtake each other, and the kernel then sends them twice and slows down.
/// No timer ends it in a pause: one would have to be set again for every wait, which costs more than it helps.
struct Steady;

impl Steady {
    fn begin() -> Self {
        if STEADY.get() == 0
            && let Ok(allowed) = sched_getaffinity(None)
        {
            let mut here = CpuSet::new();
            here.set(sched_getcpu());
            ALLOWED.set(allowed);
            let _only_slower = sched_setaffinity(None, &here);
        }
        STEADY.set(STEADY.get() + 1);
        Self
    }

    /// Stays there from now on, if this thread may.
    fn go(&self, processor: usize) {
        let mut there = CpuSet::new();
        there.set(processor);
        if ALLOWED.get().is_set(processor) {
            let _only_slower = sched_setaffinity(None, &there);
        }
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        STEADY.set(STEADY.get() - 1);
        let allowed = ALLOWED.get();
        if STEADY.get() == 0 && allowed.count() > 0 {
            let _only_slower = sched_setaffinity(None, &allowed);
        }
    }
}

/// Keeps a busy direction on the processor of whoever reads it on this machine. Beside the one who writes, who has the most to do,
/// the two would hold each other up while the reader waits. Of several busy ones none is followed.
struct Beside {
    steady: Steady,
    bytes: usize,
    /// What all had moved when this stretch began.
    before: usize,
    looks: usize,
    elsewhere: usize,
}

impl Beside {
    fn begin() -> Self {
        Self { steady: Steady::begin(), bytes: 0, before: MOVED.get(), looks: 0, elsewhere: 0 }
    }

    /// So many bytes went to `reader`, whose acknowledgements tell where it is: mostly, so one alone says nothing.
    fn passed(&mut self, bytes: usize, reader: &TcpStream) {
        let Some(there) = socket_incoming_cpu(reader).ok().and_then(|it| usize::try_from(it).ok()) else { return };
        self.bytes += bytes;
        MOVED.set(MOVED.get().wrapping_add(bytes));
        self.looks += 1;
        self.elsewhere += usize::from(there != sched_getcpu());
        if self.bytes >= STRETCH {
            let all = MOVED.get().wrapping_sub(self.before);
            if self.elsewhere * 2 > self.looks && self.bytes * 2 > all {
                self.steady.go(there);
            }
            (self.bytes, self.before, self.looks, self.elsewhere) = (0, MOVED.get(), 0, 0);
        }
    }
}

/// Whether the other end is on this machine.
fn is_here(stream: &TcpStream) -> bool {
    let (Ok(there), Ok(here)) = (stream.peer_addr(), stream.local_addr()) else { return false };
    there.ip().is_loopback() || there.ip() == here.ip()
}

/// Whether a socket can be given [`AHEAD`]. Many systems allow less to be asked for than the kernel gives by itself, and what was
/// asked for once can't be left to the kernel again: so another socket tries.
fn has_room_ahead() -> bool {
    static ROOM: OnceLock<bool> = OnceLock::new();
    *ROOM.get_or_init(|| {
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .and_then(|it| set_socket_recv_buffer_size(&it, AHEAD).and_then(|()| socket_recv_buffer_size(&it)))
            .is_ok_and(|room| room >= AHEAD)
    })
}

/// Keeps what is on its way short where nothing is lost and nothing takes time: it stays in the processor's cache then.
fn shorten(from: &TcpStream, to: &TcpStream) {
    if is_here(to) {
        let _only_slower = set_socket_send_buffer_size(to, QUEUE);
        // Some systems send at a pace by default (BBR), which takes a timer for every packet. This one is always there.
        let _only_slower = set_tcp_congestion(to, "reno");
    }
    if is_here(from) && has_room_ahead() {
        let _only_slower = set_socket_recv_buffer_size(from, AHEAD);
    }
}

async fn spliced(from: ReadHalf<'_>, mut to: WriteHalf<'_>, read: OwnedFd, write: OwnedFd) -> io::Result<()> {
    let _smaller = rustix::pipe::fcntl_setpipe_size(&write, PIPE);
    shorten(from.as_ref(), to.as_ref());
    let to_here = is_here(to.as_ref());
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    let mut beside = Beside::begin();
    loop {
        let source: &TcpStream = from.as_ref();
        let mut held = source.async_io(Interest::READABLE, || Ok(splice(source, None, &write, None, PIPE, flags)?)).await?;
        if held == 0 {
            return to.shutdown().await;
        }
        if to_here {
            beside.passed(held, to.as_ref());
        }
        while held > 0 {
            let target: &TcpStream = to.as_ref();
            held -= target.async_io(Interest::WRITABLE, || Ok(splice(&read, None, target, None, held, flags)?)).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{Ipv4Addr, TcpListener, TcpStream as Plain},
        thread,
    };

    use rustix::net::sockopt::{socket_send_buffer_size, tcp_congestion};

    use super::*;

    fn pair() -> (Plain, Plain) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (Plain::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0)
    }

    #[test]
    fn what_is_on_its_way_within_the_machine_is_kept_short() {
        let ((mut client, near), (mut server, far)) = (pair(), pair());
        let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let before = socket_recv_buffer_size(&near_too).unwrap();
        let bytes = usize::try_from(MUCH).unwrap() * 8;
        let writer = thread::spawn(move || server.write_all(&vec![b'x'; bytes]).unwrap());
        let reader = thread::spawn(move || client.read_to_end(&mut Vec::new()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ours = |it: Plain| it.set_nonblocking(true).and_then(|()| TcpStream::from_std(it)).unwrap();
            both(ours(near), ours(far), b"").await;
        });
        writer.join().unwrap();
        assert_eq!(tcp_congestion(&near_too).unwrap(), "reno");
        // The kernel doubles what it is asked for.
        assert_eq!(socket_send_buffer_size(&near_too).unwrap(), 2 * QUEUE);
        assert_eq!(socket_recv_buffer_size(&near_too).unwrap(), before, "the way back moved nothing");
        if has_room_ahead() {
            assert_eq!(socket_recv_buffer_size(&far_too).unwrap(), 2 * AHEAD);
        }
        drop((near_too, far_too));
        assert_eq!(reader.join().unwrap(), bytes);
    }
}
