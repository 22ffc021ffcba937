//! The Unix sockets that carry the messages. Owns: their names, one channel's sending and
//! receiving, descriptors that come with a message. Must not know: what a message asks for.

use super::directory;
use super::message::{MOST_BYTES, Name, Packet};
use crate::own::{self, Own, Turn};
use crate::tcp;
use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors that come with one message at most.
const MOST_FDS: usize = 2;
/// Messages that wait until the peer reads, at most.
const MOST_UNSENT: usize = 4096;
/// Connections that wait until they are accepted.
pub(super) const BACKLOG: i32 = 128;
/// `struct ucred`: pid, uid, gid.
const UCRED_BYTES: usize = 12;

/// The address of a process's own socket.
pub fn own_address(name: Name) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(directory::process_name(name).as_bytes())
}

/// The address of a family of a port.
pub fn family_address(port: u16, place: u8) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(directory::family_name(port, place).as_bytes())
}

/// A socket that listens at an address.
///
/// # Errors
/// As socket(2), bind(2), listen(2): EADDRINUSE if somebody has the name.
pub fn listen(address: &SocketAddrUnix) -> Result<Own, Errno> {
    let socket = socket()?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The next channel that waits at a listening socket.
///
/// # Errors
/// As accept(2): EAGAIN if none waits.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Channel, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let accept = || retry_on_intr(|| rustix::net::accept_with(listener, flags));
    Ok(Channel::over(Own::make(accept)?))
}

/// A socket that is not connected.
pub(super) fn socket() -> Result<Own, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Own::make(|| rustix::net::socket_with(family, kind, flags, None))
}

/// What has come.
#[derive(Debug)]
pub enum Received {
    /// A message and its descriptors.
    Packet(Packet, Vec<OwnedFd>),
    /// Nothing so far.
    Nothing,
    /// Something that is no message.
    Malformed,
    /// The peer has closed it.
    Ended,
}

/// One connection, at either of its ends.
#[derive(Debug)]
pub struct Channel {
    socket: Own,
    unsent: VecDeque<Vec<u8>>,
}

impl Channel {
    fn over(socket: Own) -> Self {
        let unsent = VecDeque::new();
        Self { socket, unsent }
    }

    /// Connects to whoever listens at an address.
    ///
    /// # Errors
    /// As connect(2): ECONNREFUSED if nobody does, EAGAIN if too many wait there.
    pub fn connect(address: &SocketAddrUnix) -> Result<Self, Errno> {
        let socket = socket()?;
        rustix::net::connect(&socket, address)?;
        Ok(Self::over(socket))
    }

    /// The user whom the kernel saw at the other end when it connected, or began to listen.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn uid(&self) -> Result<u32, Errno> {
        self.credential(1)
    }

    /// The process that did so. 0: it has no number here.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn pid(&self) -> Result<u32, Errno> {
        self.credential(0)
    }

    fn credential(&self, at: usize) -> Result<u32, Errno> {
        let mut credentials = [0; UCRED_BYTES];
        let option = libc::SO_PEERCRED;
        // not by rustix, to which a process of another PID namespace, whose number is 0, is none
        let got = tcp::get_option(self.as_fd(), libc::SOL_SOCKET, option, &mut credentials)?;
        let number = credentials[..got].get(at * 4..at * 4 + 4);
        let number = number.ok_or(Errno::PROTO)?;
        Ok(u32::from_ne_bytes(number.try_into().expect("four bytes")))
    }

    /// Whether messages wait until the peer reads.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends a message; one without descriptors may wait for [`Channel::flush`].
    ///
    /// # Errors
    /// As sendmsg(2): EAGAIN if the peer does not read, and the message has descriptors or too many
    /// wait.
    pub fn send(&mut self, packet: &Packet, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let bytes = packet.emit();
        self.flush()?;
        let sent = match self.unsent.is_empty() {
            true => self.send_now(&bytes, fds),
            false => Err(Errno::AGAIN),
        };
        match sent {
            Err(Errno::AGAIN) if fds.is_empty() && self.unsent.len() < MOST_UNSENT => {
                self.unsent.push_back(bytes);
                Ok(())
            }
            sent => sent,
        }
    }

    /// Sends what waits, as far as the peer reads.
    ///
    /// # Errors
    /// As sendmsg(2), but for EAGAIN.
    pub fn flush(&mut self) -> Result<(), Errno> {
        while let Some(bytes) = self.unsent.front() {
            match self.send_now(bytes, &[]) {
                Ok(()) => self.unsent.pop_front(),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    fn send_now(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::MSGSIZE);
        }
        let parts = [IoSlice::new(bytes)];
        retry_on_intr(|| rustix::net::sendmsg(&self.socket, &parts, &mut ancillary, flags))?;
        Ok(())
    }

    /// The next message.
    pub fn receive(&self) -> Received {
        // most of the time there is none
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if rustix::net::recv(&self.socket, &mut [0; 1], peek) == Err(Errno::AGAIN) {
            return Received::Nothing;
        }
        let _turn = Turn::begin();
        let mut bytes = [0; MOST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut take = || {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            retry_on_intr(|| rustix::net::recvmsg(&self.socket, &mut parts, &mut ancillary, flags))
        };
        // a peer that ended with bytes of ours unread leaves an error before what it has sent
        let taken = match take() {
            Err(Errno::CONNRESET) => take(),
            taken => taken,
        };
        let message = match taken {
            Ok(message) => message,
            Err(Errno::AGAIN) => return Received::Nothing,
            Err(_) => return Received::Ended,
        };
        let mut fds = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(got) = part {
                // one that finds no room is missing, which the message's reader finds out
                fds.extend(got.filter_map(|fd| own::raise(fd).ok()));
            }
        }
        if message.bytes == 0 {
            return Received::Ended;
        }
        let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        let read = &bytes[..message.bytes.min(MOST_BYTES)];
        match Packet::parse(read) {
            Ok(packet) if !message.flags.intersects(cut) => Received::Packet(packet, fds),
            _ => Received::Malformed,
        }
    }

    /// What it is polled for.
    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        let events = match self.unsent.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        (self.as_fd(), events)
    }

    /// Two ends of one.
    #[cfg(test)]
    pub fn pair() -> (Self, Self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let (here, there) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)
            .expect("two descriptors");
        let [here, there] = [here, there].map(|end| Self::over(Own::hide(end).expect("room")));
        (here, there)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;

    fn packet(number: u32) -> Packet {
        Packet {
            number,
            message: Message::Later,
        }
    }

    #[test]
    fn messages_wait_for_a_peer_that_does_not_read() {
        let (mut here, there) = Channel::pair();
        for number in 0..2000 {
            here.send(&packet(number), &[]).expect("sent or kept");
        }
        assert!(!here.unsent.is_empty());
        assert!(here.interest().1.contains(PollFlags::OUT));
        let with = here.send(&packet(0), &[there.as_fd()]);
        assert_eq!(with, Err(Errno::AGAIN), "descriptors are not kept");
        for number in 0..2000 {
            here.flush().expect("the peer lives");
            let Received::Packet(got, fds) = there.receive() else {
                panic!("message {number}");
            };
            assert_eq!((got, fds.len()), (packet(number), 0));
        }
        assert!(matches!(there.receive(), Received::Nothing));
        assert!(!here.interest().1.contains(PollFlags::OUT));
        drop(here);
        assert!(matches!(there.receive(), Received::Ended));
    }

    #[test]
    fn no_more_wait_than_the_limit_says() {
        let (mut here, _there) = Channel::pair();
        let sent = (0..100_000).find(|number| here.send(&packet(*number), &[]).is_err());
        assert!(sent.is_some_and(|sent| sent as usize >= MOST_UNSENT));
        assert_eq!(here.unsent.len(), MOST_UNSENT);
    }

    #[test]
    fn too_many_descriptors_and_bytes_are_no_message() {
        let (here, there) = Channel::pair();
        let fd = here.as_fd();
        let flags = SendFlags::DONTWAIT;
        let send = |bytes: &[u8], fds: &[BorrowedFd<'_>]| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
            let sent = rustix::net::sendmsg(&here, &[IoSlice::new(bytes)], &mut ancillary, flags);
            sent.expect("room");
        };
        send(&packet(1).emit(), &[fd; 7]);
        assert!(matches!(there.receive(), Received::Malformed));
        let mut long = packet(2).emit();
        long.resize(MOST_BYTES + 1, 0);
        send(&long, &[fd]);
        assert!(matches!(there.receive(), Received::Malformed));
        send(&packet(3).emit(), &[fd, fd]);
        let Received::Packet(_, fds) = there.receive() else {
            panic!("two are taken");
        };
        assert_eq!(fds.len(), 2);
    }

    #[test]
    fn the_user_at_the_other_end_is_told() {
        let address = own_address(Name(*b"channel test uid")).expect("a name");
        let listener = listen(&address).expect("a free name");
        assert_eq!(listen(&address).err(), Some(Errno::ADDRINUSE));
        let here = Channel::connect(&address).expect("connected");
        let there = accept(listener.as_fd()).expect("accepted");
        let own = Ok(rustix::process::geteuid().as_raw());
        assert_eq!((here.uid(), there.uid()), (own, own));
        let own = Ok(std::process::id());
        assert_eq!((here.pid(), there.pid()), (own, own));
        assert_eq!(accept(listener.as_fd()).err(), Some(Errno::AGAIN));
        drop(listener);
        assert_eq!(Channel::connect(&address).err(), Some(Errno::CONNREFUSED));
    }
}
