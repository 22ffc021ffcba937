//! Listener and control connections between the processes of a domain.
//!
//! Owns: nonblocking messages of up to 4 KiB with up to four descriptors, and who the peer is. One connection is three
//! things at once: the channel on which two processes shake hands, a doorbell that wakes the peer's epoll, and the notice
//! of the peer's death, as end of file. Must not know: what the messages say.
//!
//! The side that accepts sends a welcome with the registry's descriptor at once, so a joiner need only connect; the side that
//! connects sends a hello that says which member it is. [`Control::recv`] handles both and shows neither.

use super::HostError;
use super::fork_fd::ForkFd;
use super::identity::HostKey;
use super::names::{self, Dialled};
use super::registry::{ProcessRef, Registry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Longest message in bytes.
pub const MESSAGE_BYTES: usize = 4096;
/// Most descriptors in one message.
pub const MESSAGE_FDS: usize = 4;

/// Connections of others that one call drops before it returns to the caller's loop.
const REFUSALS: usize = 64;
const WELCOME: u64 = u64::from_le_bytes(*b"ferriwel");
const HELLO: u64 = u64::from_le_bytes(*b"ferrihel");
const GREETING_BYTES: usize = 24;

/// Accepts control connections; its descriptor belongs into an epoll, level triggered, for reading.
#[derive(Debug)]
pub struct Listener {
    fd: ForkFd,
    key: HostKey,
    registry: Arc<Registry>,
    me: ProcessRef,
    nonce: u64,
}

impl Listener {
    pub(super) fn new(
        fd: ForkFd,
        key: HostKey,
        registry: Arc<Registry>,
        me: ProcessRef,
        nonce: u64,
    ) -> Listener {
        Listener {
            fd,
            key,
            registry,
            me,
            nonce,
        }
    }

    /// Takes the next connection; None if nobody waits. Its peer is known once [`Control::recv`] has seen the hello. Many
    /// connections end without one: joiners that only wanted the registry.
    ///
    /// # Errors
    /// `System` (EMFILE and the like: the connection waits on), `Full`, `Forked`.
    pub fn accept(&self) -> Result<Option<Control>, HostError> {
        self.accept_with(false)
    }

    /// As [`Listener::accept`], for a tool, which wants to hear what a process said that has ended since.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_last_words(&self) -> Result<Option<Control>, HostError> {
        self.accept_with(true)
    }

    fn accept_with(&self, last_words: bool) -> Result<Option<Control>, HostError> {
        for _ in 0..REFUSALS {
            let listener = self.fd.get()?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let mut gave_up = false;
            let fd = ForkFd::make(|| match rustix::net::accept_with(listener, flags) {
                Ok(fd) => Ok(Some(fd)),
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::CONNABORTED | Errno::INTR) => {
                    gave_up = true;
                    Ok(None)
                }
                Err(e) => Err(HostError::system("accept4", e)),
            })?;
            let Some(fd) = fd else {
                if gave_up {
                    continue;
                }
                return Ok(None);
            };
            if names::credentials(fd.get()?)?.uid != self.key.uid {
                continue;
            }
            // whoever speaks at once is a member and needs no welcome; one that has ended since would lose its words by it: the kernel
            // empties a queue when it finds that there is nobody to send to
            let welcomed = last_words && has_message(fd.get()?)
                || send_message(
                    fd.get()?,
                    &greeting(WELCOME, self.me, self.nonce),
                    &[self.registry.fd()],
                )? == Sent::Done;
            if welcomed {
                let end = Greeting::AwaitHello(Arc::clone(&self.registry), last_words);
                return Ok(Some(Control {
                    fd,
                    peer: OnceLock::new(),
                    greeting: Mutex::new(end),
                }));
            }
        }
        Ok(None)
    }
}

/// What the first message must be.
#[derive(Debug)]
enum Greeting {
    /// As the side that accepted; from members that have left, too.
    AwaitHello(Arc<Registry>, bool),
    /// As the side that connected.
    AwaitWelcome,
    Done,
    /// The peer broke the rules.
    Broken,
}

/// One connection to another process of the domain. Sending is for any thread; receiving for one at a time (others wait).
#[derive(Debug)]
pub struct Control {
    fd: ForkFd,
    peer: OnceLock<ProcessRef>,
    greeting: Mutex<Greeting>,
}

impl Control {
    /// Connects to `peer` and introduces ourselves. Never waits.
    pub(super) fn connect(
        key: &HostKey,
        registry: &Registry,
        me: (ProcessRef, u64),
        peer: ProcessRef,
    ) -> Result<Control, HostError> {
        let gone = HostError::Gone { peer: Some(peer) };
        let member = registry.member(peer).ok_or(gone.clone())?;
        let fd = ForkFd::make(|| match names::dial(key, peer.slot)? {
            Dialled::Member(fd, _) => Ok(Some(fd)),
            Dialled::Full => Err(HostError::Busy { peer: Some(peer) }),
            Dialled::Nobody | Dialled::Foreign => Ok(None),
        })?
        .ok_or(gone.clone())?;
        // The slot had this owner before and after, so it was the one that listened.
        if registry
            .member(peer)
            .is_none_or(|m| m.nonce != member.nonce)
        {
            return Err(gone);
        }
        let control = Control {
            fd,
            peer: OnceLock::from(peer),
            greeting: Mutex::new(Greeting::AwaitWelcome),
        };
        control.send(&greeting(HELLO, me.0, me.1), &[])?;
        Ok(control)
    }

    /// The peer: known from the start on the side that connected, after its hello on the side that accepted.
    pub fn peer(&self) -> Option<ProcessRef> {
        self.peer.get().copied()
    }

    /// Sends `bytes` (1 to [`MESSAGE_BYTES`]) and up to [`MESSAGE_FDS`] descriptors, whole or not at all. Never waits.
    ///
    /// # Errors
    /// `Busy` while the peer's queue is full: a doorbell need not be repeated then, the peer will wake to what is there.
    /// `Gone` if the peer has closed; `Message` for a size out of range; `System` (ETOOMANYREFS, ENOMEM); `Forked`.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), HostError> {
        if bytes.is_empty() || bytes.len() > MESSAGE_BYTES || fds.len() > MESSAGE_FDS {
            return Err(HostError::Message {
                bytes: bytes.len(),
                fds: fds.len(),
            });
        }
        match send_message(self.fd.get()?, bytes, fds)? {
            Sent::Done => Ok(()),
            Sent::Full => Err(HostError::Busy { peer: self.peer() }),
            Sent::Closed => Err(self.gone()),
        }
    }

    /// Takes the next message into `bytes`: its length and its descriptors, which are close-on-exec. None if there is none at
    /// present: call until then.
    ///
    /// # Errors
    /// `Gone` when the peer has closed or its process has ended ([`super::Host::reap_process`] tells which), and for good once it
    /// has broken the rules: no greeting, a message longer than `bytes`, too many descriptors, or more than this process may
    /// open. `Forked`; `System` for errors that are not the peer's.
    pub fn recv(&self, bytes: &mut [u8]) -> Result<Option<(usize, Vec<OwnedFd>)>, HostError> {
        let mut greeting = self.greeting.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*greeting, Greeting::AwaitHello(..) | Greeting::AwaitWelcome) {
            let mut first = [0; GREETING_BYTES];
            *greeting = match receive_message(self.fd.get()?, &mut first)? {
                Taken::Message(length, _) => self.check_greeting(&greeting, &first[..length]),
                Taken::Empty => return Ok(None),
                Taken::Closed => return Err(self.gone()),
                Taken::Broken => Greeting::Broken,
            };
        }
        if matches!(*greeting, Greeting::Broken) {
            return Err(self.gone());
        }
        match receive_message(self.fd.get()?, bytes)? {
            Taken::Message(length, fds) => Ok(Some((length, fds))),
            Taken::Empty => Ok(None),
            Taken::Closed => Err(self.gone()),
            Taken::Broken => {
                *greeting = Greeting::Broken;
                Err(self.gone())
            }
        }
    }

    #[cold]
    fn gone(&self) -> HostError {
        HostError::Gone { peer: self.peer() }
    }

    fn check_greeting(&self, awaited: &Greeting, message: &[u8]) -> Greeting {
        let good = match awaited {
            Greeting::AwaitWelcome => parse_greeting(WELCOME, message)
                .is_some_and(|(process, _)| Some(process) == self.peer()),
            Greeting::AwaitHello(registry, last_words) => parse_greeting(HELLO, message)
                .is_some_and(|(process, nonce)| {
                    registry
                        .member(process)
                        .map_or(*last_words, |m| m.nonce == nonce)
                        && self.peer.set(process).is_ok()
                }),
            Greeting::Done | Greeting::Broken => false,
        };
        if good {
            Greeting::Done
        } else {
            Greeting::Broken
        }
    }
}

/// Readable for messages, doorbells and the peer's death. In a fork's child it is a number that is never open: EBADF.
impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_or_closed()
    }
}

/// Readable when connections wait. In a fork's child it is a number that is never open: EBADF.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_or_closed()
    }
}

/// Takes a listener's welcome off a fresh connection: who it says it is, and the registry's descriptor.
pub(super) fn receive_welcome(fd: &OwnedFd) -> Option<(ProcessRef, OwnedFd)> {
    let mut bytes = [0; GREETING_BYTES];
    let Ok(Taken::Message(length, mut fds)) = receive_message(fd.as_fd(), &mut bytes) else {
        return None;
    };
    let (process, _) = parse_greeting(WELCOME, &bytes[..length])?;
    Some((process, fds.pop()?))
}

pub(super) fn greeting(magic: u64, me: ProcessRef, nonce: u64) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    for (part, word) in bytes.chunks_exact_mut(8).zip([magic, me.to_word(), nonce]) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

pub(super) fn parse_greeting(magic: u64, message: &[u8]) -> Option<(ProcessRef, u64)> {
    let raw: &[u8; GREETING_BYTES] = message.try_into().ok()?;
    let word = |i: usize| {
        let mut part = [0; 8];
        part.copy_from_slice(&raw[i * 8..i * 8 + 8]);
        u64::from_le_bytes(part)
    };
    if word(0) != magic {
        return None;
    }
    Some((ProcessRef::from_word(word(1))?, word(2)))
}

fn send_message(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<Sent, HostError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(HostError::Message {
            bytes: bytes.len(),
            fds: fds.len(),
        });
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, flags) {
        Ok(_) => Ok(Sent::Done),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Sent::Full),
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Ok(Sent::Closed),
        Err(e) => Err(HostError::system("sendmsg", e)),
    }
}

fn has_message(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[derive(PartialEq, Eq)]
enum Sent {
    Done,
    Full,
    Closed,
}

enum Taken {
    Message(usize, Vec<OwnedFd>),
    Empty,
    Closed,
    Broken,
}

fn receive_message(from: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<Taken, HostError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut take =
        || rustix::net::recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags);
    // A peer that ended with something of ours unread leaves a reset that the kernel reports once, before the messages that the
    // peer sent: those are still to come, and the end of file after them.
    let message = match take() {
        Err(Errno::CONNRESET) => take(),
        taken => taken,
    };
    let message = match message {
        Ok(message) => message,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Taken::Empty),
        Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => return Ok(Taken::Closed),
        Err(e) => return Err(HostError::system("recvmsg", e)),
    };
    let mut fds = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(got) = part {
            fds.extend(got);
        }
    }
    if message.bytes == 0 {
        return Ok(Taken::Closed);
    }
    if message
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Ok(Taken::Broken);
    }
    Ok(Taken::Message(message.bytes, fds))
}
