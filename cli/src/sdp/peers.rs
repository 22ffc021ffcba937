//! Who holds the other end of a connection, and whether it has the library.
//!
//! Owns: what /proc tells of processes, read at most once for a look. A process of another user
//! cannot be seen into: then its end has no name.

use super::LIBRARY;
use super::status::Program;
use ferriband_sdp_socket::diag::Diag;
use ferriband_sdp_socket::meet::message::Reason;
use ferriband_sdp_socket::meet::report::{Row, Why};
use ferriband_sdp_socket::meet::status::{Answer, Told};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::SocketAddr;

/// Names of files mapped by a process that was linked dynamically.
const LOADER: &str = "/ld-";

/// TCP_LISTEN.
const LISTENING: u8 = 10;

/// What is known of processes.
pub(super) struct Peers {
    /// Connections by their own address and their peer's.
    told: HashMap<(SocketAddr, SocketAddr), Program>,
    diag: Option<Diag>,
    /// Which process has the socket of an inode.
    inodes: Option<HashMap<u32, u32>>,
    /// Those that have answered, or could have.
    asked: BTreeSet<u32>,
}

impl Peers {
    pub fn new(all: &[Told]) -> Self {
        let mut told = HashMap::new();
        for process in all {
            let Answer::Report(report) = &process.answer else {
                continue;
            };
            for row in &report.rows {
                let program = Program {
                    pid: process.pid,
                    program: report.about.program(),
                };
                told.insert((row.own, row.peer), program);
            }
        }
        Self {
            told,
            diag: Diag::open().ok(),
            inodes: None,
            asked: all.iter().map(|process| process.pid).collect(),
        }
    }

    /// The name of a program. Empty: it cannot be seen.
    pub fn program(pid: u32) -> String {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let name = exe.and_then(|exe| Some(exe.file_name()?.to_string_lossy().into_owned()));
        let comm = || fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let name = name.or_else(|| Some(comm()?.trim().to_owned()));
        name.unwrap_or_default()
    }

    /// Who holds the peer's end of a connection.
    pub fn of(&mut self, row: &Row) -> Option<Program> {
        if let Some(program) = self.told.get(&(row.peer, row.own)) {
            return Some(program.clone());
        }
        let holder = self.diag.as_ref()?.holder(row.peer, row.own).ok()??;
        // of a connection that has ended the kernel shows the listener
        if holder.state == LISTENING {
            return None;
        }
        let inodes = self.inodes.get_or_insert_with(sockets);
        let pid = *inodes.get(&holder.inode)?;
        let program = Self::program(pid);
        Some(Program { pid, program })
    }

    /// More than the process itself knows of why its peer does not take part.
    pub fn without(&self, why: Why, peer: Option<&Program>) -> Option<String> {
        let Why::Reason(Reason::Nobody | Reason::NotHeld) = why else {
            return None;
        };
        let Program { pid, program } = peer?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let who = format!("{program} (pid {pid})");
        if maps.contains(LIBRARY) {
            return None;
        }
        Some(match maps.contains(LOADER) {
            true => format!("{who} was not started by ferriband sdp run"),
            false => format!("{who} is a static program, which loads no library"),
        })
    }

    /// Processes that have the library and were not asked, because nothing in them answers so far.
    pub fn idle(&self) -> Vec<Program> {
        let pids = pids().filter(|pid| !self.asked.contains(pid));
        let has_library = |pid: &u32| {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
            maps.is_ok_and(|maps| maps.contains(LIBRARY))
        };
        let mut idle: Vec<_> = pids
            .filter(has_library)
            .map(|pid| Program {
                pid,
                program: Self::program(pid),
            })
            .collect();
        idle.sort();
        idle
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The sockets of all processes that can be seen into, by their inodes.
fn sockets() -> HashMap<u32, u32> {
    let mut sockets = HashMap::new();
    for pid in pids() {
        let all = fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in all.into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            if let Some(inode) = inode(&target.to_string_lossy()) {
                sockets.entry(inode).or_insert(pid);
            }
        }
    }
    sockets
}

/// The inode in `socket:[4711]`.
fn inode(target: &str) -> Option<u32> {
    let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_process_of_a_socket_is_found_by_its_inode() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let here = TcpStream::connect(address).expect("connected");
        let _there = listener.accept().expect("accepted");
        let target = fs::read_link(format!("/proc/self/fd/{}", here.as_raw_fd()));
        let target = target.expect("it is open").to_string_lossy().into_owned();
        let inode = inode(&target).expect("a socket");
        assert_eq!(sockets().get(&inode), Some(&std::process::id()));
        assert_eq!(super::inode("pipe:[4711]"), None);
        assert_eq!(super::inode("socket:[x]"), None);
    }

    #[test]
    fn a_peer_that_is_not_there_has_no_better_reason() {
        let peers = Peers::new(&[]);
        let own = Program {
            pid: std::process::id(),
            program: "test".into(),
        };
        let nobody = Why::Reason(Reason::Nobody);
        let said = peers.without(nobody, Some(&own)).expect("a reason");
        assert!(said.contains("was not started"), "{said}");
        assert_eq!(peers.without(nobody, None), None);
        let other = Why::Reason(Reason::NoMemory);
        assert_eq!(peers.without(other, Some(&own)), None);
    }
}
