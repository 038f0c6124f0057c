//! Both directions of a connection. Small amounts go through a buffer that all connections share; once a direction has moved
//! much, the kernel moves the rest (`splice`), and idle connections hold no memory for data.
use std::{cell::RefCell, io, os::fd::OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
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

thread_local! {
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
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

async fn spliced(from: ReadHalf<'_>, mut to: WriteHalf<'_>, read: OwnedFd, write: OwnedFd) -> io::Result<()> {
    let _smaller = rustix::pipe::fcntl_setpipe_size(&write, PIPE);
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        let source: &TcpStream = from.as_ref();
        let mut held = source.async_io(Interest::READABLE, || Ok(splice(source, None, &write, None, PIPE, flags)?)).await?;
        if held == 0 {
            return to.shutdown().await;
        }
        while held > 0 {
            let target: &TcpStream = to.as_ref();
            held -= target.async_io(Interest::WRITABLE, || Ok(splice(&read, None, target, None, held, flags)?)).await?;
        }
    }
}
