//! Whether this process is the rank that its environment speaks of. Environment and descriptors are inherited by whatever a rank starts, and only one process can be the rank.
//!
//! The rule: a process that is a copy of a living ancestor (a fork without an exec) is not the rank, because the ancestor may become it. Of all others the first
//! that initializes MPI is the rank, so a rank may be started by a script or a debugger. Whoever comes later is a job of its own.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};

/// Ancestors that are looked at.
const MOST_ANCESTORS: u32 = 64;

/// Why a process is not the rank of its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// A copy of an ancestor.
    Fork,
    /// Another process, this one if it is known, was the rank before.
    Later(Option<u32>),
    /// The rank's descriptors were closed on the way.
    Closed,
}

impl Kin {
    /// What is said on standard error about this process, which is related to `rank`.
    pub fn words(self, rank: &str) -> String {
        let me = std::process::id();
        let own = "it is a job of its own, and MPI_COMM_WORLD has this process alone";
        match self {
            Self::Fork => format!("process {me} is a fork of {rank}: {own}"),
            Self::Later(Some(pid)) => {
                format!("process {me} was started by {rank}, which is process {pid}: {own}")
            }
            Self::Later(None) => format!("process {me} was started by {rank}: {own}"),
            Self::Closed => format!(
                "process {me} was started by {rank}, whose descriptors it does not have: {own}. A program that is to start the rank keeps them open (Python: close_fds=False)"
            ),
        }
    }
}

/// Whether this process is a copy of an ancestor that lives, as far as to the process `last`: only an exec gives a process another auxiliary vector, which has
/// addresses in it that the kernel chooses at random.
pub fn is_fork(last: Option<u32>) -> bool {
    let vector = |pid: &str| fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
    let own = vector("self");
    if own.is_empty() {
        return false;
    }
    let mut pid = std::os::unix::process::parent_id();
    for _ in 0..MOST_ANCESTORS {
        if pid <= 1 {
            return false;
        }
        let pid_text = pid.to_string();
        if vector(&pid_text) == own {
            return true;
        }
        if last == Some(pid) {
            return false;
        }
        pid = parent_of(&pid_text).unwrap_or(0);
    }
    false
}

fn parent_of(pid: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have anything in it.
    let rest = stat.rsplit_once(')')?.1;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// What this process has claimed: the name goes with it.
static CLAIM: Mutex<Option<(String, UnixListener)>> = Mutex::new(None);

/// Claims the place that `what` names, among the processes of this user, for as long as this process lives. False if another process has claimed it.
pub fn claim(what: &str) -> bool {
    let mut held = CLAIM.lock().unwrap_or_else(PoisonError::into_inner);
    if held.as_ref().is_some_and(|(name, _)| name == what) {
        return true;
    }
    let Ok(name) = SocketAddr::from_abstract_name(name(what)) else {
        return true;
    };
    match UnixListener::bind_addr(&name) {
        Ok(listener) => {
            *held = Some((what.to_owned(), listener));
            true
        }
        // A stranger who sits on the name is no relative.
        Err(error) if error.kind() == ErrorKind::AddrInUse => !UnixStream::connect_addr(&name)
            .is_ok_and(|stream| {
                crate::transport::host::meet::peer_uid(&stream)
                    .is_ok_and(|uid| uid == crate::transport::host::meet::own_uid())
            }),
        Err(_) => true,
    }
}

fn name(what: &str) -> String {
    let pids = fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino());
    // One algorithm with one key for all processes of a library.
    let mut hasher = DefaultHasher::new();
    (what, crate::transport::host::meet::own_uid(), pids).hash(&mut hasher);
    format!("ferriband-mpi-rank-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_claimed_once_and_stays_this_process_s_own() {
        let place = format!("test {}", std::process::id());
        let name = SocketAddr::from_abstract_name(name(&place)).expect("a name");
        let other = UnixListener::bind_addr(&name).expect("nobody has it");
        assert!(!claim(&place), "another process of this user has it");
        drop(other);
        // a child that another test has forked meanwhile holds it, too, until it ends
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !claim(&place) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(claim(&place));
        assert!(UnixListener::bind_addr(&name).is_err(), "it is held");
    }

    #[test]
    fn a_process_that_was_executed_is_no_fork_and_a_copy_of_a_living_one_is() {
        assert!(!is_fork(None));
        // SAFETY: the child reads files and ends; it takes no lock that another thread of the parent may hold but the allocator's, which fork keeps whole.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let code = i32::from(!is_fork(None));
            // SAFETY: ends a forked child without running the parent's destructors.
            unsafe { libc::_exit(code) };
        }
        let mut status = 1;
        // SAFETY: our own child, and a local word.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0, "the child knows that it is one");
        assert_eq!(parent_of("self"), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn what_is_said_names_the_process_and_what_it_is() {
        let words = Kin::Later(Some(7)).words("rank 3");
        let me = std::process::id();
        assert!(words.starts_with(&format!(
            "process {me} was started by rank 3, which is process 7"
        )));
        for kin in [Kin::Fork, Kin::Later(None), Kin::Closed] {
            assert!(kin.words("rank 3").contains("it is a job of its own"));
        }
    }
}
