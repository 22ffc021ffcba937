//! Why something about the host domain failed, and the errno of each.

use super::{LABEL_BYTES, MESSAGE_BYTES, MESSAGE_FDS, ProcessRef};

/// Why something about the host domain failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A system call failed.
    #[error("{call} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The call, or what it was about.
        call: &'static str,
        /// Its errno.
        errno: i32,
    },
    /// /proc does not hold what Linux puts there.
    #[error("{what}; is /proc mounted?")]
    Proc {
        /// What is missing.
        what: &'static str,
    },
    /// A domain's label has a bad character or is too long.
    #[error("a domain's label has at most {LABEL_BYTES} characters out of a-z, 0-9 and '-'")]
    Label,
    /// The lock directory is not one that we may trust.
    #[error("{path} {why}; remove it, or have its owner remove it")]
    NotOurs {
        /// Its path.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Somebody held the lock for too long.
    #[error("waited {waited_ms} ms for {} to finish joining; is it stopped?", holder_text(*holder))]
    LockTimeout {
        /// How long we waited.
        waited_ms: u64,
        /// Who holds it, if the kernel tells.
        holder: Option<u32>,
    },
    /// Another user holds the lock's name, and there is no directory to lock.
    #[error(
        "another user holds the name of the join lock, and no directory could be made to lock instead"
    )]
    NameTaken,
    /// There are members, but none could hand over the registry.
    #[error(
        "process {pid} is a member of this host's registry and does not answer; is it stopped?"
    )]
    NoAnswer {
        /// Its process number, 0 if not known.
        pid: u32,
    },
    /// What was handed over is no registry of this domain.
    #[error("the registry that a member handed over is not usable: {what}")]
    BadRegistry {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A table has no free entry.
    #[error("no room for more than {limit} {table} on one host")]
    Full {
        /// Which.
        table: &'static str,
        /// Its size.
        limit: usize,
    },
    /// The object was made before a fork, and this is the child.
    #[error("this process is a fork's child and cannot use what its parent opened")]
    Forked,
    /// Other members found our name gone and declared us dead.
    #[error("this process is not a member any more: something closed its sockets")]
    Expelled,
    /// The calling thread is in another network namespace than the domain.
    #[error("this thread has left the network namespace of its host domain")]
    OtherNamespace,
    /// The peer is gone: it closed, it broke the rules, or it is no member any more.
    #[error("{} is gone", peer_text(*peer))]
    Gone {
        /// Who, if it said so.
        peer: Option<ProcessRef>,
    },
    /// The peer's backlog or queue is full: try again later.
    #[error("{} does not take more at present", peer_text(*peer))]
    Busy {
        /// Who, if it said so.
        peer: Option<ProcessRef>,
    },
    /// A message is empty or too long, or has too many descriptors.
    #[error(
        "a message has 1 to {MESSAGE_BYTES} bytes and up to {MESSAGE_FDS} descriptors, got {bytes} and {fds}"
    )]
    Message {
        /// Its length.
        bytes: usize,
        /// Its descriptors.
        fds: usize,
    },
    /// An XRC domain that must exist does not.
    #[error("the XRC domain does not exist")]
    NoDomain,
    /// An XRC domain that must not exist does.
    #[error("the XRC domain exists")]
    DomainExists,
    /// Somebody has the service ID, or the port, at an overlapping address.
    #[error("the service is taken by {}", peer_text(Some(*owner)))]
    ServiceTaken {
        /// Who has it.
        owner: ProcessRef,
        /// One of the two is for every address: Linux tells this by another errno.
        wildcard: bool,
    },
    /// The segment could not be made or mapped.
    #[error(transparent)]
    Memory(#[from] crate::Error),
}

impl HostError {
    #[cold]
    pub(super) fn io(call: &'static str, e: &std::io::Error) -> HostError {
        HostError::System {
            call,
            errno: e.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    #[cold]
    pub(super) fn system(call: &'static str, e: rustix::io::Errno) -> HostError {
        HostError::System {
            call,
            errno: e.raw_os_error(),
        }
    }

    /// The errno that the C faces report.
    pub fn errno(&self) -> i32 {
        match self {
            HostError::System { errno, .. } => *errno,
            HostError::Proc { .. } => libc::ENOSYS,
            HostError::Label | HostError::Message { .. } => libc::EINVAL,
            HostError::NotOurs { .. } | HostError::NameTaken => libc::EACCES,
            HostError::LockTimeout { .. } | HostError::NoAnswer { .. } => libc::ETIMEDOUT,
            HostError::BadRegistry { .. } => libc::EPROTO,
            HostError::Full { .. } => libc::ENOMEM,
            HostError::Forked | HostError::Expelled | HostError::OtherNamespace => libc::EIO,
            HostError::Gone { .. } => libc::ECONNREFUSED,
            HostError::Busy { .. } => libc::EAGAIN,
            HostError::NoDomain => libc::ENOENT,
            HostError::DomainExists => libc::EEXIST,
            HostError::ServiceTaken { wildcard: true, .. } => libc::EADDRNOTAVAIL,
            HostError::ServiceTaken { .. } => libc::EADDRINUSE,
            HostError::Memory(e) => e.errno(),
        }
    }
}

fn peer_text(peer: Option<ProcessRef>) -> String {
    peer.map_or_else(
        || "the peer".to_owned(),
        |p| {
            format!(
                "the process in slot {} (generation {})",
                p.slot, p.generation
            )
        },
    )
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}
