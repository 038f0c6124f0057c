//! The managed network: HTTP (CONNECT and plain) and SOCKS5 for sandboxed commands, behind the rules of [`sid_policy::Network`].
//!
//! It runs on one thread of its own. Every connection shows the token of the command that its door is for, or is closed unread.
mod dial;
mod http;
mod log;
mod pump;
mod socks;
mod token;

use std::{io, net::TcpListener as StdListener, sync::Arc, thread};

use rustix::thread::{sched_getaffinity, sched_setaffinity};
use sid_policy::Network;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
};

pub use log::{Contact, Contacts};
pub use token::Token;

use crate::log::Log;

/// Where a command's connections come in.
#[derive(Debug)]
pub struct Doors {
    /// The HTTP proxy.
    pub http: StdListener,
    /// The SOCKS5 proxy.
    pub socks: StdListener,
    /// Ports that lead to the same port of this machine's 127.0.0.1.
    pub loopback: Vec<(u16, StdListener)>,
    /// What each connection has to show.
    pub token: Token,
}

/// The thread that serves all commands of a process. It ends when this is dropped.
#[derive(Debug)]
pub struct Service {
    jobs: mpsc::UnboundedSender<Job>,
}

/// One command's network. Dropping it closes its doors and every connection.
#[derive(Debug)]
pub struct Serving {
    log: Arc<Log>,
    alive: watch::Sender<()>,
}

impl Serving {
    /// Closes the doors and every connection.
    pub fn close(&self) {
        self.alive.send_replace(());
    }

    /// What was reached and refused since the last time.
    #[must_use]
    pub fn take(&self) -> Contacts {
        self.log.take()
    }
}

struct Job {
    doors: Vec<(Door, StdListener)>,
    command: Command,
}

/// What every connection of one command shares.
#[derive(Clone)]
struct Command {
    network: Arc<Network>,
    log: Arc<Log>,
    token: Arc<Token>,
    room: Arc<Semaphore>,
    alive: watch::Receiver<()>,
    /// The place of this connection, as long as anything of it lives.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

/// Connections that one command may have at once; more wait for their turn.
const AT_ONCE: usize = 4096;

/// Open files that many connections need.
const FILES: u64 = 65_536;

impl Service {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread or no event queue left.
    pub fn start() -> io::Result<Self> {
        // Threads that look names up are no part of a busy tunnel, which keeps this one where it is.
        let allowed = sched_getaffinity(None);
        let free = move || {
            let _only_slower = allowed.and_then(|it| sched_setaffinity(None, &it));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().on_thread_start(free).build()?;
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        raise_file_limit();
        let work = async move {
            while let Some(job) = queue.recv().await {
                tokio::spawn(job.run());
            }
        };
        thread::Builder::new().name("network".into()).spawn(move || runtime.block_on(work))?;
        Ok(Self { jobs })
    }

    /// Serves a command through its doors.
    #[must_use]
    pub fn serve(&self, network: Arc<Network>, doors: Doors) -> Serving {
        let log = Arc::new(Log::default());
        let (keep, alive) = watch::channel(());
        let Doors { http, socks, loopback, token } = doors;
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let command = Command { network, log: Arc::clone(&log), token: Arc::new(token), room, alive, place: None };
        let mut doors = vec![(Door::Http, http), (Door::Socks, socks)];
        doors.extend(loopback.into_iter().map(|(port, it)| (Door::Loopback(port), it)));
        // A thread that is gone leaves the doors closed, which is what the command then finds.
        let _closed = self.jobs.send(Job { doors, command });
        Serving { log, alive: keep }
    }
}

/// Two descriptors a connection exceed what shells usually hand down.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(FILES, |it| it.min(FILES));
    if now.current.is_some_and(|it| it < wanted) {
        let _kept = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..now });
    }
}

/// What a door leads to.
#[derive(Clone, Copy)]
enum Door {
    Http,
    Socks,
    Loopback(u16),
}

impl Job {
    async fn run(self) {
        let Self { doors, command } = self;
        for (door, listener) in doors {
            let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
            if let Ok(listener) = listener {
                command.spawn(accept(door, listener, command.clone()));
            }
        }
    }
}

impl Command {
    /// Runs `work` on its own, until it is done or the command is over.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (mut alive, place) = (self.alive.clone(), self.place.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = alive.changed() => {}
                () = work => {}
            }
            drop(place);
        });
    }
}

async fn accept(door: Door, listener: TcpListener, command: Command) {
    while let Ok(place) = Arc::clone(&command.room).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let command = Command { place: Some(Arc::new(place)), ..command.clone() };
                command.spawn(connection(door, stream, command.clone()));
            }
            // Out of descriptors, as a rule: some connection has to end first.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn connection(door: Door, mut stream: TcpStream, command: Command) {
    if !command.token.shown_by(&mut stream).await {
        return;
    }
    let _small_writes_wait = stream.set_nodelay(true);
    match door {
        Door::Http => http::serve(stream, command).await,
        Door::Socks => socks::serve(stream, command).await,
        Door::Loopback(port) => {
            if let Ok(far) = TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).await {
                command.log.reached("127.0.0.1".to_owned(), port);
                pump::both(stream, far, &[]).await;
            }
        }
    }
}
