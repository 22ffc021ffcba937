//! Handing things over to the process that they are for: one message at a time, without a connection.
//!
//! Owns: a datagram socket under an abstract name for each process, and the check that a sender is of our user. Must not know:
//! what is handed over. It is meant for what came to the wrong process of a shared port, and for messages of the communication
//! manager that need not leave the host: things that may be lost, because who waits for them asks again. So a queue that is full
//! refuses, and nobody ever waits.
//!
//! The kernel takes few messages per socket (net.unix.max_dgram_qlen, 10 on many systems), but long ones: what came together
//! goes together. Packets of the InfiniBand port have a socket of their own, and there a sender may wait for room, a moment long: a
//! link does not lose what comes faster than it is taken.

use super::fork_fd::ForkFd;
use super::identity::HostKey;
use super::names;
use super::registry::{PROCESS_LIMIT, ProcessRef, Registry};
use super::{Host, HostError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{SendAncillaryBuffer, SendFlags, SocketAddrUnix};
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that each message begins with: the sender's description of what follows.
pub const HAND_OVER_HEAD: usize = 64;
/// Longest body.
pub const HAND_OVER_BODY: usize = 65_536;

/// The sockets' letters: for what goes astray and the connection manager's messages, and for packets of the InfiniBand port.
const POST: char = 'h';
const PACKETS: char = 'q';
/// How long a sender of packets waits for room: the kernel's clock may make it several milliseconds.
const PACKET_WAIT: Duration = Duration::from_millis(2);
/// Bytes of packets under way from one process, if the system allows so many.
const PACKET_BYTES: usize = 4 << 20;

/// Messages of strangers that one call drops before it returns to the caller's loop.
const REFUSALS: usize = 64;
/// Room for the sender's credentials and nothing else: descriptors, which nobody has to send here, find no place, and a message that
/// brings some is refused as cut off.
const CONTROL_WORDS: usize = 4;

/// What came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOver {
    /// Slot of who sent it; None if it does not say.
    pub from: Option<u32>,
    /// Bytes, of which the first [`HAND_OVER_HEAD`] are the head.
    pub length: usize,
}

/// Our end.
#[derive(Debug)]
pub struct HandOver {
    fd: ForkFd,
    key: HostKey,
    registry: Arc<Registry>,
    prefix: String,
}

impl Host {
    /// Opens the socket on which others hand things over to us. One per process.
    ///
    /// # Errors
    /// `System` with EADDRINUSE if there is one, or if somebody squats on its name; `Forked`, `Expelled`, `Full`.
    pub fn hand_over(&self) -> Result<HandOver, HostError> {
        self.open_hand_over(POST, |_| Ok(()))
    }

    /// Opens the socket for packets of the InfiniBand port, whose senders may wait for room. One per process.
    ///
    /// # Errors
    /// As [`Host::hand_over`].
    pub fn packets_over(&self) -> Result<HandOver, HostError> {
        self.open_hand_over(PACKETS, |fd| {
            // as much as it grants
            let _ = sockopt::set_socket_send_buffer_size(fd, PACKET_BYTES);
            sockopt::set_socket_timeout(fd, Timeout::Send, Some(PACKET_WAIT))
                .map_err(|e| HostError::system("SO_SNDTIMEO", e))?;
            // each call says whether it waits
            rustix::fs::fcntl_setfl(fd, OFlags::empty()).map_err(|e| HostError::system("fcntl", e))
        })
    }

    fn open_hand_over(
        &self,
        letter: char,
        finish: impl FnOnce(&OwnedFd) -> Result<(), HostError>,
    ) -> Result<HandOver, HostError> {
        self.check_member()?;
        let bound = names::bind_hand_over(&self.key, letter, self.me.slot, finish)?;
        let fd = bound.ok_or(HostError::System {
            call: "bind of the hand-over socket",
            errno: libc::EADDRINUSE,
        })?;
        Ok(HandOver {
            fd,
            key: self.key.clone(),
            registry: Arc::clone(&self.registry),
            prefix: format!("{}/{letter}", self.key.name_prefix()),
        })
    }
}

impl HandOver {
    /// Hands `head` and `body` (at most [`HAND_OVER_BODY`] bytes) to a process, whole or not at all. Never waits.
    ///
    /// # Errors
    /// `Busy` if its queue, or ours, is full; `Gone` if it is no member or has no such socket; `Message` for a longer body;
    /// `Forked`; `System`.
    pub fn send(
        &self,
        to: ProcessRef,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
    ) -> Result<(), HostError> {
        self.put(to, head, body, SendFlags::DONTWAIT)
    }

    /// As [`HandOver::send`], but with packets it waits for room, some milliseconds at the most.
    ///
    /// # Errors
    /// As [`HandOver::send`].
    pub fn send_in_time(
        &self,
        to: ProcessRef,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
    ) -> Result<(), HostError> {
        self.put(to, head, body, SendFlags::empty())
    }

    /// True if a process has such a socket, too.
    ///
    /// # Errors
    /// `System`.
    pub fn is_open_at(&self, process: ProcessRef) -> Result<bool, HostError> {
        names::is_held(&self.address(process.slot)?)
    }

    /// The registry of the processes that things are handed to.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    fn put(
        &self,
        to: ProcessRef,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
        how: SendFlags,
    ) -> Result<(), HostError> {
        if body.len() > HAND_OVER_BODY {
            return Err(HostError::Message {
                bytes: body.len(),
                fds: 0,
            });
        }
        let fd = self.fd.get()?;
        let gone = HostError::Gone { peer: Some(to) };
        if !self.registry.is_live(to) {
            return Err(gone);
        }
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let mut none = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | how;
        match rustix::net::sendmsg_addr(fd, &self.address(to.slot)?, &parts, &mut none, flags) {
            Ok(_) => Ok(()),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                Err(HostError::Busy { peer: Some(to) })
            }
            Err(Errno::CONNREFUSED | Errno::PERM) => Err(gone),
            Err(e) => Err(HostError::system("hand-over", e)),
        }
    }

    /// Takes the next message into `bytes`, which has room for [`HAND_OVER_HEAD`] + [`HAND_OVER_BODY`]. None if there is none.
    ///
    /// # Errors
    /// `Forked`; `System`.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<Option<HandedOver>, HostError> {
        for _ in 0..REFUSALS {
            let Some(taken) = take(self.fd.get()?, bytes)? else {
                return Ok(None);
            };
            if taken.uid == Some(self.key.uid) && !taken.cut && taken.length >= HAND_OVER_HEAD {
                return Ok(Some(HandedOver {
                    from: self.slot_of(&taken.name),
                    length: taken.length,
                }));
            }
        }
        Ok(None)
    }

    fn address(&self, slot: u32) -> Result<SocketAddrUnix, HostError> {
        let mut name = [0; 108];
        let mut rest = &mut name[..];
        write!(rest, "{}{slot}", self.prefix).map_err(|e| HostError::io("socket name", &e))?;
        let unused = rest.len();
        SocketAddrUnix::new_abstract_name(&name[..name.len() - unused])
            .map_err(|e| HostError::system("socket name", e))
    }

    /// The slot that a sender's name says.
    fn slot_of(&self, name: &[u8]) -> Option<u32> {
        let tail = name.strip_prefix(self.prefix.as_bytes())?;
        let slot: u32 = std::str::from_utf8(tail).ok()?.parse().ok()?;
        ((slot as usize) < PROCESS_LIMIT).then_some(slot)
    }
}

/// Readable when messages wait. In a fork's child it is a number that is never open: EBADF.
impl AsFd for HandOver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_or_closed()
    }
}

struct Taken {
    length: usize,
    /// Sender's user; None if the kernel did not say.
    uid: Option<u32>,
    /// It was longer than the room for it.
    cut: bool,
    /// Sender's abstract name, without the byte of 0 before it.
    name: Vec<u8>,
}

/// recvmsg with the sender's name and credentials. By hand, because a sender in another pid namespace has process number 0, which
/// rustix's type cannot hold.
fn take(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<Option<Taken>, HostError> {
    // SAFETY: all-zero is a value of each.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    head.msg_name = (&raw mut name).cast();
    head.msg_namelen = size_of_val(&name) as _;
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut control).cast();
    head.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: head points to a name, one part and control space of the lengths it says; all are ours and outlive the call.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut head, flags) };
    if got < 0 {
        return match std::io::Error::last_os_error() {
            e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(None),
            e => Err(HostError::io("recvmsg of a hand-over", &e)),
        };
    }
    let used = (head.msg_controllen as usize).min(size_of_val(&control)) / 8;
    let after_family = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    let name_bytes = (head.msg_namelen as usize)
        .saturating_sub(after_family)
        .min(name.sun_path.len());
    let path = name.sun_path[..name_bytes].iter().skip(1);
    Ok(Some(Taken {
        length: got as usize,
        uid: sender_uid(&control[..used]),
        cut: head.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        name: path.map(|&c| c as u8).collect(),
    }))
}

/// The user in a control message of type SCM_CREDENTIALS.
fn sender_uid(control: &[u64]) -> Option<u32> {
    let mut rest = control;
    // struct cmsghdr: length of all (8 bytes), level, type (4 each), then struct ucred: pid, uid, gid.
    while let [size, kind, data @ ..] = rest {
        let words = usize::try_from(*size).ok()?.div_ceil(8);
        if *size < 16 || words > rest.len() {
            return None;
        }
        let (level, name) = (*kind as u32 as i32, (*kind >> 32) as i32);
        if level == libc::SOL_SOCKET && name == libc::SCM_CREDENTIALS {
            return data.first().map(|word| (word >> 32) as u32);
        }
        rest = &rest[words..];
    }
    None
}
