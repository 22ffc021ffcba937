//! What sockets by SDP need of this machine: whose a peer's socket is, bytes that the kernel
//! counts, address space, a file system that keeps a segment, and programs that go past the C
//! library.

use super::{Finding, State};
use crate::launch;
use crate::sdp::LIBRARY;
use ferriband_sdp_socket::arena::{Arena, RECORDS};
use ferriband_sdp_socket::meet::message::Reason;
use ferriband_sdp_socket::meet::place::Place;
use ferriband_sdp_socket::own;
use ferriband_sdp_socket::segment::LENGTH;
use ferriband_sdp_socket::{diag, tcp};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

/// What a process that holds an io_uring has among its descriptors.
const RING: &str = "anon_inode:[io_uring]";
/// The uid that stands for all who have no number in a user namespace.
const OVERFLOW: &str = "/proc/sys/kernel/overflowuid";

/// All findings about sockets.
pub(super) fn findings() -> [Finding; 7] {
    [
        preload(),
        owners(),
        segments(),
        records(),
        user(),
        rings(),
        containers(),
    ]
}

fn preload() -> Finding {
    const NAME: &str = "sockets: library";
    let found = launch::preload_settings(LIBRARY);
    match found {
        Ok(_) => Finding::fine(NAME, format!("{LIBRARY} can be preloaded")),
        Err(failure) => {
            let what = failure.to_string().replace('\n', ";");
            Finding::new(NAME, State::Degraded, what)
                .cost("ferriband sdp run does not work")
                .remedy("cargo xtask libs, or make install")
        }
    }
}

/// Two ends of one connection.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    Ok((here, listener.accept()?.0))
}

/// Whether the kernel tells whose socket the other end is, and how many bytes it was given.
fn owners() -> Finding {
    const NAME: &str = "sockets: peers";
    let try_it = || -> io::Result<bool> {
        let (here, there) = pair()?;
        let asked = diag::Diag::open()?;
        let found = asked.holder(here.peer_addr()?, here.local_addr()?)?;
        let cookie = diag::cookie(there.as_fd())?;
        tcp::info(here.as_fd())?;
        // SAFETY: a plain system call.
        let own = unsafe { libc::geteuid() };
        Ok(found.is_some_and(|found| found.cookie == cookie && found.uid == own))
    };
    let all_tcp = "no connection goes by SDP: all stay TCP";
    match try_it() {
        Ok(true) => Finding::fine(
            NAME,
            "the kernel tells whose socket the other end is (sock_diag), and counts its bytes",
        ),
        Ok(false) => Finding::new(NAME, State::Degraded, "sock_diag tells of another socket")
            .cost(all_tcp)
            .remedy("this kernel or emulator does not tell the truth: nothing can be done"),
        Err(error) => Finding::new(NAME, State::Degraded, format!("not told: {error}"))
            .cost(all_tcp)
            .remedy(
                "needs Linux 4.19 with INET_DIAG, and a seccomp filter that allows netlink sockets",
            ),
    }
}

/// Whether programs in different network namespaces can meet, as `run --meet` lets them.
fn containers() -> Finding {
    const NAME: &str = "sockets: containers";
    let believed = Place::new().ok().map(|place| place.is_believed());
    let all_tcp = "connections between containers stay TCP, whatever --meet says";
    let state = State::Note;
    match believed {
        Some(Ok(())) => Finding::fine(
            NAME,
            "network namespaces of this user namespace can meet (run --meet)",
        ),
        Some(Err(reason)) => Finding::new(NAME, state, reason.sentence())
            .cost(all_tcp)
            .remedy(match reason {
                Reason::NoNamespaces => "needs Linux 6.18",
                _ => "start the container without a user namespace that its network is not of",
            }),
        None => Finding::new(NAME, state, "there is no /proc")
            .cost(all_tcp)
            .remedy("mount /proc"),
    }
}

/// A sealed segment for a pair of processes.
fn segments() -> Finding {
    const NAME: &str = "sockets: memory";
    match own::memory(LENGTH) {
        Ok(_) => Finding::fine(
            NAME,
            format!(
                "{} MiB for 64 connections of two processes, used page by page",
                LENGTH >> 20
            ),
        ),
        Err(error) => Finding::new(NAME, State::Degraded, format!("no segment: {error}"))
            .cost("no connection goes by SDP: all stay TCP")
            .remedy(
                "shared memory is a file to the kernel: raise the limit on their size (ulimit -f)",
            ),
    }
}

/// Address space for the records of all connections, of which pages are used as they come.
fn records() -> Finding {
    const NAME: &str = "sockets: address space";
    let overcommit = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let mode = format!("vm.overcommit_memory {}", overcommit.trim());
    let remedy = "raise the limit on address space (ulimit -v), or set vm.overcommit_memory to 0";
    match Arena::create() {
        Ok(arena) if arena.records() == RECORDS => {
            Finding::fine(NAME, format!("{RECORDS} sockets of a program ({mode})"))
        }
        Ok(arena) => {
            let records = arena.records();
            Finding::new(
                NAME,
                State::Note,
                format!("little: {records} sockets ({mode})"),
            )
            .cost("sockets of a program beyond these are plain TCP")
            .remedy(remedy)
        }
        Err(error) => Finding::new(
            NAME,
            State::Degraded,
            format!("too little: {error} ({mode})"),
        )
        .cost("all sockets are plain TCP")
        .remedy(remedy),
    }
}

fn user() -> Finding {
    const NAME: &str = "sockets: user";
    let overflow = fs::read_to_string(OVERFLOW).ok();
    let overflow = overflow.and_then(|text| text.trim().parse().ok());
    // SAFETY: a plain system call.
    let own: u32 = unsafe { libc::geteuid() };
    let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    match overflow.unwrap_or(65534) {
        overflow if overflow == own => Finding::new(NAME, State::Degraded, format!("uid {own}"))
            .cost("this number stands for all users who have none here: connections of it stay TCP")
            .remedy("run programs as a user of their own (nginx: user NAME;)"),
        _ if has_all_users(&maps) => {
            Finding::fine(NAME, format!("uid {own}; peers of all users are known"))
        }
        overflow => Finding::new(NAME, State::Note, format!("uid {own}, in a user namespace"))
            .cost(format!(
                "users without a number here are all uid {overflow}: connections to them stay TCP"
            )),
    }
}

/// Whether each user has a number in this user namespace.
fn has_all_users(maps: &str) -> bool {
    let lengths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    lengths.sum::<u64>() >= u64::from(u32::MAX)
}

/// Programs that reach their sockets by an io_uring.
fn rings() -> Finding {
    const NAME: &str = "sockets: io_uring";
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    if disabled.is_ok_and(|text| text.trim() == "2") {
        return Finding::fine(NAME, "switched off (kernel.io_uring_disabled 2)");
    }
    let mut programs: BTreeMap<String, usize> = BTreeMap::new();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.map(|entry| entry.path()) {
        let all = fs::read_dir(pid.join("fd")).into_iter().flatten().flatten();
        let has_ring = |entry: fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == RING)
        };
        if all.into_iter().any(has_ring) {
            let name = fs::read_to_string(pid.join("comm")).unwrap_or_default();
            *programs.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
    let mut names: Vec<_> = programs.into_keys().collect();
    names.truncate(8);
    match names.is_empty() {
        true => Finding::fine(NAME, "no program of yours that runs has one"),
        false => Finding::new(NAME, State::Note, format!("used by {}", names.join(", ")))
            .cost("such a program reaches its sockets unseen: its connections stay TCP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_few_users_is_told_from_one_with_all() {
        assert!(has_all_users("         0          0 4294967295\n"));
        assert!(!has_all_users("         0       1000          1\n"));
        assert!(!has_all_users("0 100000 65536\n65536 1000 1\n"));
        assert!(!has_all_users(""));
    }

    #[test]
    fn a_machine_that_carries_sockets_is_found_fine() {
        for finding in [owners(), segments(), records()] {
            assert_eq!(
                finding.state,
                State::Fine,
                "{}: {}",
                finding.name,
                finding.found
            );
        }
    }
}
