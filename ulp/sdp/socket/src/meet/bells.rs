//! By what a peer's process is told, and tells this one.
//!
//! Owns: what tells which box. Must not know: who waits there.
//!
//! A box of a waiter is told by a Unix socket: the kernel wakes a socket's waiter where the waker
//! runs, as one that is about to sleep, and an eventfd's on any core that idles, whose awakening
//! costs more than the message. A service thread is told by an eventfd.
//!
//! Whoever has an eventfd can make another's write to it block. So a process of another user is
//! told by a Unix socket, to which each write says that it is not to block, and has one box, its
//! service thread's.

use super::channel::Channel;
use super::message::{Message, Packet};
use super::pair::Broken;
use crate::own::{Event, Own, Turn};
use crate::ready::boxes;
use crate::tcp;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// Boxes of a process, its service thread's included.
pub const MOST_BOXES: usize = 256;

/// What tells a waiter, or a service thread.
#[derive(Debug)]
pub enum Ringer {
    /// An eventfd.
    Event(Event),
    /// A Unix socket.
    Socket(Own),
}

/// SO_DOMAIN.
const DOMAIN: i32 = 39;

impl Ringer {
    /// What has come from a peer, of the same user or of another.
    ///
    /// # Errors
    /// It is of another kind.
    pub fn take_over(fd: OwnedFd, is_own_user: bool) -> Result<Self, Broken> {
        match is_own_user {
            true => Ok(Self::Event(Event::from_fd(fd).map_err(|_| Broken)?)),
            false => Self::socket(fd),
        }
    }

    /// A Unix socket that has come from a peer.
    ///
    /// # Errors
    /// It is of another kind.
    pub fn socket(fd: OwnedFd) -> Result<Self, Broken> {
        let mut domain = [0; 4];
        let got = tcp::get_option(fd.as_fd(), libc::SOL_SOCKET, DOMAIN, &mut domain);
        if got != Ok(4) || i32::from_ne_bytes(domain) != libc::AF_UNIX {
            return Err(Broken);
        }
        Ok(Self::Socket(Own::hide(fd).map_err(|_| Broken)?))
    }

    /// Tells.
    pub fn signal(&self) {
        match self {
            Self::Event(event) => event.signal(),
            Self::Socket(socket) => {
                // one that is full tells already
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = rustix::net::send(socket, b"!", flags);
            }
        }
    }
}

/// Where this process hears of a peer of another user.
#[derive(Debug)]
pub struct Receiver(Own);

impl Receiver {
    /// One, and what the peer is given.
    ///
    /// # Errors
    /// As socketpair(2).
    pub fn new() -> Result<(Self, Own), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let _turn = Turn::begin();
        let (receiver, sender) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(Own::hide(receiver)?), Own::hide(sender)?))
    }

    /// Whether the peer has told since.
    pub fn hear(&self) -> bool {
        let mut heard = false;
        // no more than a queue holds, whatever the peer does meanwhile
        for _ in 0..MOST_HEARD {
            match rustix::net::recv(&self.0, &mut [0; 16], RecvFlags::DONTWAIT) {
                Ok(_) => heard = true,
                Err(_) => break,
            }
        }
        heard
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Tellings that are taken in one call.
const MOST_HEARD: usize = 64;

/// What tells the boxes of a peer's process, by the number of the box. Box 0 is its service thread's, which
/// looks after all that have no box of their own.
#[derive(Debug)]
pub struct Bells {
    first: Ringer,
    others: Box<[OnceLock<Ringer>]>,
}

impl Bells {
    /// `first` is box 0's.
    pub fn new(first: Event) -> Self {
        Self::by(Ringer::Event(first))
    }

    /// `first` is box 0's.
    pub fn by(first: Ringer) -> Self {
        let others = std::iter::repeat_with(OnceLock::new);
        let others = others.take(MOST_BOXES - 1).collect();
        Self { first, others }
    }

    /// The peer has a box more.
    ///
    /// # Errors
    /// There is no such box, or it is known already.
    pub fn add(&self, number: u32, ringer: Ringer) -> Result<(), Broken> {
        let at = (number as usize).checked_sub(1).ok_or(Broken)?;
        let place = self.others.get(at).ok_or(Broken)?;
        place.set(ringer).map_err(|_| Broken)
    }

    /// The peer has told of a box more, whose socket has to come alone.
    ///
    /// # Errors
    /// As [`Bells::add`]; what has come is no Unix socket.
    pub fn told(&self, number: u32, fds: Vec<OwnedFd>) -> Result<(), Broken> {
        if matches!(self.first, Ringer::Socket(_)) {
            return Err(Broken);
        }
        let [fd] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| Broken)?;
        self.add(number, Ringer::socket(fd)?)
    }

    /// Tells who waits at a box; the service thread, if no such box is known.
    pub fn ring(&self, number: u64) {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let other = self.others.get(at.wrapping_sub(1));
        match other.and_then(OnceLock::get) {
            Some(other) => other.signal(),
            None => self.first.signal(),
        }
    }
}

/// Tells a peer of the boxes that it does not know, of which `told` is the number. Whoever reads so
/// little that it gets no descriptor is told later; its service thread is told meanwhile.
pub fn tell(channel: &mut Channel, told: &mut u32) {
    while *told < boxes::count() {
        let number = *told + 1;
        let Some(bell) = boxes::get(number) else {
            return;
        };
        let packet = Packet {
            number: 0,
            message: Message::Bell { number },
        };
        if channel.send(&packet, &[bell.sender()]).is_err() {
            return;
        }
        *told = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_is_told_by_a_socket_alone() {
        let (receiver, sender) = Receiver::new().expect("descriptors");
        let copy = |of: &dyn AsFd| rustix::io::fcntl_dupfd_cloexec(of.as_fd(), 0).expect("one");
        let event = Event::new().expect("an eventfd");
        assert!(Ringer::take_over(copy(&event), false).is_err());
        assert!(Ringer::take_over(copy(&sender), true).is_err());
        let ringer = Ringer::take_over(copy(&sender), false).expect("a socket");
        let bells = Bells::by(ringer);
        assert!(!receiver.hear());
        // many more than a queue holds
        for number in 0..1000 {
            bells.ring(number);
        }
        let heard = (0..1000).take_while(|_| receiver.hear()).count();
        assert!((1..1000).contains(&heard), "{heard}");
        assert_eq!(bells.told(1, vec![copy(&event)]), Err(Broken));
    }

    #[test]
    fn who_has_no_box_of_its_own_is_told_by_the_service_thread() {
        let event = || Event::new().expect("an eventfd");
        let twin = |event: &Event| {
            let copy = rustix::io::fcntl_dupfd_cloexec(event, 0).expect("a descriptor");
            Event::from_fd(copy).expect("an eventfd")
        };
        let (first, third) = (event(), event());
        let bells = Bells::new(twin(&first));
        bells.add(3, Ringer::Event(twin(&third))).expect("free");
        for (number, told) in [(0, 1), (1, 1), (3, 0), (u64::MAX, 1), (256, 1), (255, 1)] {
            bells.ring(number);
            assert_eq!([first.take(), third.take()], [told, 1 - told], "{number}");
        }
        for number in [0, 3, 256, u32::MAX] {
            let other = Ringer::Event(event());
            assert_eq!(bells.add(number, other), Err(Broken), "{number}");
        }
    }
}
