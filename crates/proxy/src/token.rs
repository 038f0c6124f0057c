//! Who may come in at a command's doors.
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::Duration,
};

use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};

/// What tells the connections of one command from all others.
#[derive(Clone, Debug)]
pub enum Token {
    /// A mark that the kernel puts on every connection and no process can choose: that of the network namespace which it is of.
    /// For doors inside a command's own namespace; clients do nothing for it.
    Mark {
        /// The command's.
        mark: u64,
        /// Reads that of a connection.
        of: fn(BorrowedFd<'_>) -> io::Result<u64>,
    },
    /// These bytes come first, within a second, and are taken off. For doors that others could find.
    Secret(String),
}

/// How long a connection may take to show a secret.
const IN_TIME: Duration = Duration::from_secs(1);

impl Token {
    /// Whether this connection shows it.
    pub(crate) async fn shown_by(&self, stream: &mut TcpStream) -> bool {
        match self {
            Self::Mark { mark, of } => of(stream.as_fd()).is_ok_and(|it| it == *mark),
            Self::Secret(secret) => {
                let mut shown = vec![0; secret.len()];
                let read = timeout(IN_TIME, stream.read_exact(&mut shown)).await;
                matches!(read, Ok(Ok(_))) && same(&shown, secret.as_bytes())
            }
        }
    }
}

/// Compares in the same time wherever the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
