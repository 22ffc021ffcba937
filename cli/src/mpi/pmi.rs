//! PMI-1 for the ranks: programs that are no MPI programs of ours find one another by `mpirun`.
//!
//! Owns: a socket for each rank, and what has not been written to it. What is answered is
//! `ferriband-launch`'s; what becomes of the job is decided in `mod.rs`. No rank can make `mpirun`
//! wait: its sockets do not block, and a rank that takes no answers is not read from.

use super::apps::Apps;
use crate::failure::Failure;
use ferriband_launch::inherit;
use ferriband_launch::server::{Event, Job, Server, Stage};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that wait for a rank before nothing more is read from it.
const MOST_WAITING: usize = 1 << 16;
/// Reads that empty a socket which nobody writes to any more.
const MOST_READS: u32 = 256;

/// The server and its sockets.
pub struct Pmi {
    server: Server,
    /// For each rank the socket, until its other end is closed.
    sockets: Vec<Option<Socket>>,
}

struct Socket {
    stream: UnixStream,
    waiting: Vec<u8>,
}

impl Pmi {
    /// For a job whose ranks are dealt to `hosts` hosts in turn, on a machine with `cores` cores.
    pub fn new(apps: &Apps, hosts: usize, cores: usize) -> Self {
        let ranks = apps.ranks();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let server = Server::new(Job {
            name: format!("ferriband_{}_{now}", std::process::id()),
            programs: (0..ranks).map(|rank| apps.of_rank(rank).0).collect(),
            universe: ranks.max(u32::try_from(cores).unwrap_or(u32::MAX)),
            hosts: u32::try_from(hosts).unwrap_or(u32::MAX),
        });
        Self {
            server,
            sockets: (0..ranks).map(|_| None).collect(),
        }
    }

    /// Makes the socket of a rank. The end that is returned is the rank's: only its process may
    /// inherit it, and this process closes it once that has been started.
    pub fn connect(&mut self, rank: u32) -> Result<UnixStream, Failure> {
        let pair = UnixStream::pair().and_then(|(ours, theirs)| {
            ours.set_nonblocking(true)?;
            Ok((ours, theirs))
        });
        let (stream, theirs) = pair.map_err(|error| Failure::io("make", "a socket", &error))?;
        let waiting = Vec::new();
        self.sockets[rank as usize] = Some(Socket { stream, waiting });
        Ok(theirs)
    }

    /// What to wait for.
    pub fn poll(&self, list: &mut Vec<libc::pollfd>) {
        for socket in self.sockets.iter().flatten() {
            let mut events = 0;
            if socket.waiting.len() < MOST_WAITING {
                events |= libc::POLLIN;
            }
            if !socket.waiting.is_empty() {
                events |= libc::POLLOUT;
            }
            list.push(libc::pollfd {
                fd: socket.stream.as_raw_fd(),
                events,
                revents: 0,
            });
        }
    }

    /// Serves the ranks that have said something. `list` is what [`Pmi::poll`] has added, after the
    /// wait. Returns the ranks whose other end is closed now.
    pub fn relay(&mut self, list: &[libc::pollfd]) -> Vec<u32> {
        let open = (0..).zip(&self.sockets);
        let open = open.filter_map(|(rank, socket)| socket.is_some().then_some(rank));
        let ready: Vec<u32> = open
            .zip(list)
            .filter_map(|(rank, entry)| (entry.revents != 0).then_some(rank))
            .collect();
        let mut closed = ready;
        closed.retain(|rank| {
            self.serve(*rank);
            self.is_closed(*rank)
        });
        closed
    }

    /// Takes what a rank has said before it ended.
    pub fn drain(&mut self, rank: u32) {
        for _ in 0..MOST_READS {
            if !self.serve(rank) {
                break;
            }
        }
    }

    /// Whether no process has the rank's end of its socket.
    pub fn is_closed(&self, rank: u32) -> bool {
        self.sockets[rank as usize].is_none()
    }

    /// How far a rank has come.
    pub fn stage(&self, rank: u32) -> Stage {
        self.server.stage(rank)
    }

    /// What the job has to do.
    pub fn next_event(&mut self) -> Option<Event> {
        self.server.poll_event()
    }

    /// Reads once from a rank's socket, and answers. Whether anything has come.
    fn serve(&mut self, rank: u32) -> bool {
        self.write(rank);
        let Some(socket) = &mut self.sockets[rank as usize] else {
            return false;
        };
        if socket.waiting.len() >= MOST_WAITING {
            return false;
        }
        let mut bytes = [0; 4096];
        let is_open = match socket.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.server.handle_bytes(rank, &bytes[..count]).is_ok()
                    || {
                        complain!(
                            "ferriband mpirun: rank {rank} writes to its PMI_FD what is no PMI; it is not served any more"
                        );
                        false
                    }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => error.kind() == ErrorKind::Interrupted,
        };
        if !is_open {
            self.sockets[rank as usize] = None;
            self.server.handle_end(rank);
        }
        while let Some((whom, answer)) = self.server.poll_transmit() {
            if let Some(socket) = &mut self.sockets[whom as usize] {
                socket.waiting.extend_from_slice(&answer);
                self.write(whom);
            }
        }
        is_open
    }

    fn write(&mut self, rank: u32) {
        let Some(socket) = &mut self.sockets[rank as usize] else {
            return;
        };
        while !socket.waiting.is_empty() {
            match socket.stream.write(&socket.waiting) {
                Ok(count) => drop(socket.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The other end is closed, which the next read says.
                Err(_) => socket.waiting.clear(),
            }
        }
    }
}

/// Words for [`ferriband_mpi_proto::segment::PMI`]: which descriptor and which socket it is.
pub fn words(end: &UnixStream) -> String {
    let fd = end.as_raw_fd();
    format!("{fd} {}", inherit::name_of(fd).unwrap_or_default())
}

/// Keeps the ranks from inheriting the socket of the rank that has started this `mpirun`, if one
/// has.
pub fn keep_own() {
    let Ok(text) = std::env::var(ferriband_launch::client::FD) else {
        return;
    };
    if let Some(fd) = text
        .parse()
        .ok()
        .filter(|fd| inherit::is_file(*fd, "socket:"))
    {
        inherit::close_on_exec(fd);
    }
}
