//! The names of a host domain in the abstract namespace of unix sockets: presence, listener, lock.
//!
//! Owns: binding, probing and connecting names, and checking the credentials of who answers. Such a name lives in
//! the network namespace and vanishes with the last descriptor of its socket, however the process ends; it needs
//! no file. The kernel drops a dying process's memory before its descriptors, so when a name is gone, nothing of
//! its process writes to shared memory any more; an exec drops memory and names in the same order.
//!
//! Must not know: the registry's tables.
//!
//! Every member of slot s holds two sockets. `PREFIX/pS`, a datagram socket shut for reading, only proves presence: to
//! connect a datagram socket to it is one exact look-up in the kernel's table that the member never notices.
//! (/proc/net/unix would need no second socket, but it is read in pieces between which the kernel drops its lock: while
//! other sockets come and go an entry can be skipped (1 of 9,226 scans missed a living listener in a test on Linux 6.18), and a
//! skipped entry would be a living process declared dead.)
//! `PREFIX/sS` listens. One that takes part in packets has a third, `PREFIX/hS`, where others hand things over to it; one whose
//! InfiniBand port takes packets a fourth, `PREFIX/qS`, for those.

use super::HostError;
use super::fork_fd::ForkFd;
use super::identity::HostKey;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Connections that may wait for a listener (the kernel takes the smaller of this and net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// Credentials of the process at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Its process; 0 if that is not visible in our pid namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// What an attempt to connect found.
#[derive(Debug)]
pub(super) enum Dialled {
    /// A listener of our uid.
    Member(OwnedFd, Credentials),
    /// Somebody else listens there.
    Foreign,
    /// Nobody listens.
    Nobody,
    /// The listener's backlog is full: its process is stopped or very late.
    Full,
}

fn address(key: &HostKey, tail: &str) -> Result<SocketAddrUnix, HostError> {
    let name = key.name_prefix() + "/" + tail;
    SocketAddrUnix::new_abstract_name(name.as_bytes())
        .map_err(|e| HostError::system("socket name", e))
}

/// True if somebody holds a name of datagrams.
pub(super) fn is_held(at: &SocketAddrUnix) -> Result<bool, HostError> {
    let fd = socket(SocketType::DGRAM)?;
    match rustix::net::connect(&fd, at) {
        Ok(()) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::PERM) => Ok(false),
        Err(e) => Err(HostError::system("connect", e)),
    }
}

fn socket(kind: SocketType) -> Result<OwnedFd, HostError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
        .map_err(|e| HostError::system("socket", e))
}

/// Binds a name; None if somebody holds it.
fn bind(kind: SocketType, at: &SocketAddrUnix) -> Result<Option<OwnedFd>, HostError> {
    let fd = socket(kind)?;
    match rustix::net::bind(&fd, at) {
        Ok(()) => Ok(Some(fd)),
        Err(Errno::ADDRINUSE) => Ok(None),
        Err(e) => Err(HostError::system("bind", e)),
    }
}

/// Binds a name to a descriptor that children do not keep; None if somebody holds it.
fn bind_guarded(
    kind: SocketType,
    at: &SocketAddrUnix,
    finish: impl FnOnce(&OwnedFd) -> Result<(), HostError>,
) -> Result<Option<ForkFd>, HostError> {
    ForkFd::make(|| {
        let bound = bind(kind, at)?;
        bound.as_ref().map_or(Ok(()), finish)?;
        Ok(bound)
    })
}

/// Binds the presence name of `slot`; None if it is taken.
pub(super) fn bind_presence(key: &HostKey, slot: u32) -> Result<Option<ForkFd>, HostError> {
    bind_guarded(
        SocketType::DGRAM,
        &address(key, &format!("p{slot}"))?,
        |fd| {
            // Nobody can fill the queue of a socket that is shut for reading.
            rustix::net::shutdown(fd, rustix::net::Shutdown::Read)
                .map_err(|e| HostError::system("shutdown", e))
        },
    )
}

/// Binds the listener of `slot` and listens; None if the name is taken.
pub(super) fn bind_listener(key: &HostKey, slot: u32) -> Result<Option<ForkFd>, HostError> {
    bind_guarded(
        SocketType::SEQPACKET,
        &address(key, &format!("s{slot}"))?,
        listen,
    )
}

/// Binds the name of `slot` under which things are handed over, datagrams with the sender's credentials; None if it is taken. `letter`
/// says which things, `finish` has the socket before it has its name.
pub(super) fn bind_hand_over(
    key: &HostKey,
    letter: char,
    slot: u32,
    finish: impl FnOnce(&OwnedFd) -> Result<(), HostError>,
) -> Result<Option<ForkFd>, HostError> {
    let at = address(key, &format!("{letter}{slot}"))?;
    ForkFd::make(|| {
        let fd = socket(SocketType::DGRAM)?;
        finish(&fd)?;
        // Before the name, so that no message comes without them.
        rustix::net::sockopt::set_socket_passcred(&fd, true)
            .map_err(|e| HostError::system("SO_PASSCRED", e))?;
        match rustix::net::bind(&fd, &at) {
            Ok(()) => Ok(Some(fd)),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(e) => Err(HostError::system("bind", e)),
        }
    })
}

/// Binds the domain's lock name; None if it is taken. It listens, so that who waits can ask who holds it.
pub(super) fn bind_lock(key: &HostKey) -> Result<Option<ForkFd>, HostError> {
    bind_guarded(SocketType::SEQPACKET, &address(key, "lock")?, listen)
}

fn listen(fd: &OwnedFd) -> Result<(), HostError> {
    rustix::net::listen(fd, BACKLOG).map_err(|e| HostError::system("listen", e))
}

/// Connects to the listener of `slot` without waiting.
pub(super) fn dial(key: &HostKey, slot: u32) -> Result<Dialled, HostError> {
    dial_name(key, &format!("s{slot}"))
}

/// Connects to the holder of the domain's lock.
pub(super) fn dial_lock(key: &HostKey) -> Result<Dialled, HostError> {
    dial_name(key, "lock")
}

fn dial_name(key: &HostKey, tail: &str) -> Result<Dialled, HostError> {
    let fd = socket(SocketType::SEQPACKET)?;
    match rustix::net::connect(&fd, &address(key, tail)?) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED) => return Ok(Dialled::Nobody),
        Err(Errno::AGAIN) => return Ok(Dialled::Full),
        Err(e) => return Err(HostError::system("connect", e)),
    }
    let who = credentials(fd.as_fd())?;
    Ok(if who.uid == key.uid {
        Dialled::Member(fd, who)
    } else {
        Dialled::Foreign
    })
}

/// Who is at the other end of a connection: for the connecting side, who called listen.
///
/// # Errors
/// `System`.
pub fn credentials(fd: BorrowedFd<'_>) -> Result<Credentials, HostError> {
    // rustix has a pid that is never 0 here, but across pid namespaces the kernel says 0.
    let mut raw = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: raw and len are ours and of the sizes that SO_PEERCRED writes.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut raw).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(HostError::io(
            "getsockopt(SO_PEERCRED)",
            &std::io::Error::last_os_error(),
        ));
    }
    Ok(Credentials {
        pid: u32::try_from(raw.pid).unwrap_or(0),
        uid: raw.uid,
    })
}

/// Asks for presence, many times with one socket and one name that changes at its end: thousands of questions make up most of what a
/// domain's first joiner does.
#[derive(Debug)]
pub(super) struct Prober {
    prefix: String,
    fd: OwnedFd,
}

impl Prober {
    pub(super) fn new(key: &HostKey) -> Result<Prober, HostError> {
        Ok(Prober {
            prefix: key.name_prefix() + "/p",
            fd: socket(SocketType::DGRAM)?,
        })
    }

    /// False only if nobody holds the presence name of `slot` in the network namespace of this prober; anything that
    /// the kernel answers but "refused" counts as presence.
    pub(super) fn is_present(&self, slot: u32) -> Result<bool, HostError> {
        let mut name = [0; 108];
        let mut rest = &mut name[..];
        write!(rest, "{}{slot}", self.prefix).map_err(|e| HostError::io("socket name", &e))?;
        let unused = rest.len();
        let at = SocketAddrUnix::new_abstract_name(&name[..name.len() - unused])
            .map_err(|e| HostError::system("socket name", e))?;
        Ok(rustix::net::connect(&self.fd, &at) != Err(Errno::CONNREFUSED))
    }
}
