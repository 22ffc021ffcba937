//! Questions to the kernel by rtnetlink: messages and attributes.
//!
//! Owns: the socket, the listing of all objects of a kind, the question for one of them, and the reading of what comes, which may be
//! damaged. Must not know: what the objects are.

use super::{guarded, system};
use crate::Error;
use crate::host::ForkFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Reads that one call makes at most, whatever a busy system sends.
pub(super) const READS: usize = 4096;
/// How long the kernel may take; it answers within the call that asks.
const PATIENCE: Duration = Duration::from_secs(2);
/// Room for the answer about one object.
const ANSWER_BYTES: usize = 8192;

// linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_DUMP_INTERRUPTED: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;

pub(super) fn socket(flags: SocketFlags) -> Result<OwnedFd, Error> {
    rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        flags,
        None, // protocol 0 is NETLINK_ROUTE
    )
    .map_err(|e| system("socket of rtnetlink", e.raw_os_error()))
}

/// Asks for all objects of a kind and gives each message's type and body. EINTR if the listing was disturbed.
pub(super) fn dump(request: u16, mut each: impl FnMut(u16, &[u8])) -> Result<(), Error> {
    let fd = socket(SocketFlags::CLOEXEC)?;
    rustix::net::sockopt::set_socket_timeout(
        &fd,
        rustix::net::sockopt::Timeout::Recv,
        Some(PATIENCE),
    )
    .map_err(|e| system("SO_RCVTIMEO", e.raw_os_error()))?;
    // struct nlmsghdr: length, type, flags, sequence number, port; then a body of zeros: any family, any interface.
    let mut question = [0u8; 32];
    question[..4].copy_from_slice(&32u32.to_ne_bytes());
    question[4..6].copy_from_slice(&request.to_ne_bytes());
    question[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    rustix::net::send(&fd, &question, SendFlags::empty())
        .map_err(|e| system("question to rtnetlink", e.raw_os_error()))?;
    let mut bytes = vec![0u8; 1 << 16];
    let mut disturbed = false;
    for _ in 0..READS {
        let length = match rustix::net::recv(&fd, &mut bytes[..], RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(Errno::INTR) => continue,
            Err(e) => return Err(system("answer of rtnetlink", e.raw_os_error())),
        };
        for message in Messages(&bytes[..length]) {
            disturbed |= message.flags & NLM_F_DUMP_INTERRUPTED != 0;
            match message.kind {
                NLMSG_DONE if disturbed => return Err(system("rtnetlink", libc::EINTR)),
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let errno =
                        word(message.body, 0).map_or(libc::EPROTO, |e| (e as i32).wrapping_neg());
                    return Err(system("rtnetlink", errno));
                }
                kind => each(kind, message.body),
            }
        }
    }
    Err(system("answer of rtnetlink", libc::EPROTO))
}

/// Questions about single objects.
pub(super) struct Questions(ForkFd);

impl Questions {
    /// A socket for them, in the calling thread's network namespace.
    pub fn open() -> Result<Questions, Error> {
        guarded(|| socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)).map(Questions)
    }

    /// Asks for the object that `body` describes and gives what `read` makes of the answer of type `answer`. None if the kernel knows none.
    pub fn ask<T>(
        &self,
        (request, answer): (u16, u16),
        body: &[u8],
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let length = 16 + body.len();
        let mut question = vec![0u8; length];
        question[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        question[4..6].copy_from_slice(&request.to_ne_bytes());
        question[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
        question[16..].copy_from_slice(body);
        rustix::net::send(self.as_fd(), &question, SendFlags::DONTWAIT).ok()?;
        let mut bytes = [0u8; ANSWER_BYTES];
        // the answer is there when the question has been taken
        let (length, _) =
            rustix::net::recv(self.as_fd(), &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        let message = Messages(bytes.get(..length)?).next()?;
        (message.kind == answer).then(|| read(message.body))?
    }
}

impl AsFd for Questions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_or_closed()
    }
}

/// Puts an attribute behind a question's fixed part.
pub(super) fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

pub(super) struct Message<'a> {
    pub kind: u16,
    flags: u16,
    pub body: &'a [u8],
}

/// The messages of a datagram from the kernel.
pub(super) struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = word(self.0, 0)? as usize;
        let (kind, flags) = (half(self.0, 4)?, half(self.0, 6)?);
        let body = self.0.get(16..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message { kind, flags, body })
    }
}

/// The attributes behind a message's fixed part: type and value.
pub(super) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = usize::from(half(self.0, 0)?);
        // The two upper bits are flags.
        let kind = half(self.0, 2)? & 0x3fff;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
