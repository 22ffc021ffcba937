//! Messages of any length between two processes of one user: SOCK_SEQPACKET sockets under abstract names, which vanish with their process.
//!
//! A message travels in pieces of at most [`PIECE_BYTES`]; each begins with a byte that says whether more follow.

use ferriband_memory::host::credentials;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, recv, sendmmsg, sendmsg, socket_with, sockopt,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest piece of a message, its first byte included.
pub const PIECE_BYTES: usize = 32 << 10;
/// Longest message.
pub const MOST_BYTES: usize = 64 << 20;
/// Connections that may wait to be taken.
const BACKLOG: i32 = 128;
/// Pieces that [`Link::send_pieces`] gives to the kernel at once.
const AT_ONCE: usize = 32;
/// First byte of a piece: the last one, or not.
const LAST: u8 = 0;
const MORE: u8 = 1;

/// What went wrong between two processes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// No fabric of that name is up.
    #[error("no fabric \"{0}\" is up")]
    NoFabric(String),
    /// There is one already.
    #[error("a fabric \"{0}\" is up already")]
    NameTaken(String),
    /// Other fabrics have all addresses that there are for hosts.
    #[error("other fabrics of this machine have all addresses: there is no room for one more")]
    NoRange,
    /// Another user holds the name.
    #[error("the name of the fabric \"{0}\" is held by another user")]
    Stranger(String),
    /// The other end is gone.
    #[error("the fabric's process is gone")]
    Gone,
    /// Nothing came in time.
    #[error("the fabric's process does not answer")]
    Late,
    /// There is no room just now.
    #[error("there is no room for the message")]
    Full,
    /// Something came that is no message.
    #[error("a message makes no sense: {0}")]
    Malformed(&'static str),
    /// The fabric refuses.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// Why.
        errno: Errno,
    },
}

impl AttachError {
    fn system(call: &'static str) -> impl Fn(Errno) -> AttachError {
        move |errno| match errno {
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => AttachError::Gone,
            errno => AttachError::System { call, errno },
        }
    }
}

/// What the names of this user's fabrics begin with.
fn prefix() -> String {
    format!(
        "ferriband/fabric-1/{}/",
        rustix::process::geteuid().as_raw()
    )
}

/// The names of this user's fabrics that are up in this network namespace, sorted; none where /proc does not say.
pub fn running() -> Vec<String> {
    let (sockets, prefix) = (std::fs::read("/proc/net/unix"), format!("@{}", prefix()));
    let sockets = String::from_utf8_lossy(sockets.as_deref().unwrap_or_default());
    let names = sockets.lines().filter_map(|line| {
        let name = line.split_whitespace().nth(7)?.strip_prefix(&prefix)?;
        crate::is_fabric_name(name).then(|| name.to_owned())
    });
    names
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn address(fabric: &str) -> Result<SocketAddrUnix, AttachError> {
    let name = format!("{}{fabric}", prefix());
    SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(AttachError::system("socket name"))
}

fn socket() -> Result<OwnedFd, AttachError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(AttachError::system("socket"))
}

/// True if the process at the other end is of our user.
fn is_ours(fd: BorrowedFd<'_>) -> bool {
    credentials(fd).is_ok_and(|who| who.uid == rustix::process::geteuid().as_raw())
}

/// Waits until a descriptor is ready; false if it was not in time.
fn wait(fd: BorrowedFd<'_>, what: PollFlags, until: Option<Instant>) -> Result<bool, AttachError> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::from_borrowed_fd(fd, what)], left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(AttachError::System {
                    call: "poll",
                    errno,
                });
            }
        }
    }
}

/// Where those who attach arrive.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Takes the name of a fabric, for this user and network namespace.
    ///
    /// # Errors
    /// `NameTaken`; `System`.
    pub fn bind(fabric: &str) -> Result<Listener, AttachError> {
        let fd = socket()?;
        match bind(&fd, &address(fabric)?) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Err(AttachError::NameTaken(fabric.to_owned())),
            Err(errno) => {
                return Err(AttachError::System {
                    call: "bind",
                    errno,
                });
            }
        }
        listen(&fd, BACKLOG).map_err(AttachError::system("listen"))?;
        Ok(Listener { fd })
    }

    /// The next who has come; those of other users are turned away. None: nobody now.
    ///
    /// # Errors
    /// `System`, for lack of descriptors as well.
    pub fn accept(&self) -> Result<Option<Link>, AttachError> {
        loop {
            match accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) if is_ours(fd.as_fd()) => return Ok(Some(Link { fd })),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    return Err(AttachError::System {
                        call: "accept",
                        errno,
                    });
                }
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Link {
    fn from(fd: OwnedFd) -> Link {
        Link { fd }
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> OwnedFd {
        link.fd
    }
}

impl Link {
    /// Connects to the process of a fabric.
    ///
    /// # Errors
    /// `NoFabric`, `Stranger`, `Late` if it takes nobody, `System`.
    pub fn dial(fabric: &str) -> Result<Link, AttachError> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let fd = socket()?;
            match connect(&fd, &address(fabric)?) {
                Ok(()) if is_ours(fd.as_fd()) => return Ok(Link { fd }),
                Ok(()) => return Err(AttachError::Stranger(fabric.to_owned())),
                Err(Errno::CONNREFUSED) => return Err(AttachError::NoFabric(fabric.to_owned())),
                // its backlog is full: it is busy
                Err(Errno::AGAIN) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(Errno::AGAIN) => return Err(AttachError::Late),
                Err(errno) => {
                    return Err(AttachError::System {
                        call: "connect",
                        errno,
                    });
                }
            }
        }
    }

    /// The process at the other end; 0 if it cannot be seen from here.
    pub fn peer(&self) -> u32 {
        credentials(self.fd.as_fd()).map_or(0, |who| who.pid)
    }

    /// So many bytes may wait for the other end to take them, about: a message goes when there is room at all.
    ///
    /// # Errors
    /// `System`.
    pub fn keep_short(&self, bytes: usize) -> Result<(), AttachError> {
        // the kernel doubles it, for what it keeps beside the bytes
        sockopt::set_socket_send_buffer_size(&self.fd, bytes / 2)
            .map_err(AttachError::system("setsockopt"))
    }

    /// Sends a message, waiting for room as long as `patience`.
    ///
    /// # Errors
    /// `Gone`, `Late`, `Malformed` for one that is too long, `System`.
    pub fn send(&self, message: &[u8], patience: Duration) -> Result<(), AttachError> {
        send_on(self.fd.as_fd(), message, Some(Instant::now() + patience))
    }

    /// Sends as many pieces as there is room for now, without waiting: how many went.
    ///
    /// # Errors
    /// `Gone`, `System`.
    pub fn send_pieces<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, AttachError> {
        let parts: Vec<_> = pieces.map(|piece| [IoSlice::new(piece)]).collect();
        let mut went = 0;
        while went < parts.len() {
            let mut controls: [_; AT_ONCE] =
                std::array::from_fn(|_| SendAncillaryBuffer::default());
            let heads = parts[went..].iter().zip(&mut controls);
            let mut heads: Vec<_> = heads
                .map(|(part, control)| MMsgHdr::new(part, control))
                .collect();
            match sendmmsg(&self.fd, &mut heads, WITHOUT_WAITING) {
                Ok(some) => went += some,
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(AttachError::system("sendmmsg")(errno)),
            }
        }
        Ok(went)
    }

    /// Takes a message; None if none came in time (a patience of None waits for ever).
    ///
    /// # Errors
    /// `Gone`, `Malformed` for one that is too long, `System`.
    pub fn receive(&self, patience: Option<Duration>) -> Result<Option<Vec<u8>>, AttachError> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut message = Vec::new();
        loop {
            match self.receive_piece(&mut message)? {
                Piece::Last => return Ok(Some(message)),
                Piece::More => {}
                Piece::Nothing if message.is_empty() => {
                    if !wait(self.fd.as_fd(), PollFlags::IN, until)? {
                        return Ok(None);
                    }
                }
                // the rest of what has begun is on its way
                Piece::Nothing => {
                    wait(self.fd.as_fd(), PollFlags::IN, None)?;
                }
            }
        }
    }

    /// Appends the next piece of a message, if one is there.
    ///
    /// # Errors
    /// `Gone`, `Malformed`, `System`.
    pub fn receive_piece(&self, message: &mut Vec<u8>) -> Result<Piece, AttachError> {
        receive_piece_on(self.fd.as_fd(), message)
    }
}

/// What [`Link::receive_piece`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// The message is whole.
    Last,
    /// More follow.
    More,
    /// Nothing is there.
    Nothing,
}

/// The pieces that a message travels in.
pub fn pieces(message: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let most = PIECE_BYTES - 1;
    let count = message.len().div_ceil(most).max(1);
    (0..count).map(move |number| {
        let flag = if number + 1 == count { LAST } else { MORE };
        let end = message.len().min((number + 1) * most);
        let mut piece = vec![flag];
        piece.extend_from_slice(&message[number * most..end]);
        piece
    })
}

/// The one piece of a message that is no longer than [`PIECE_BYTES`] less one; it lies where the message did.
pub fn whole_piece(mut message: Vec<u8>) -> Vec<u8> {
    debug_assert!(message.len() < PIECE_BYTES);
    message.insert(0, LAST);
    message
}

/// A closed connection is an error, not a signal; and nobody is waited for.
const WITHOUT_WAITING: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

fn put(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Result<bool, AttachError> {
    loop {
        let mut none = SendAncillaryBuffer::default();
        match sendmsg(fd, parts, &mut none, WITHOUT_WAITING) {
            Ok(_) => return Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(AttachError::system("send")(errno)),
        }
    }
}

/// Sends a message by a descriptor that is somebody's.
///
/// # Errors
/// As [`Link::send`].
pub fn send_on(
    fd: BorrowedFd<'_>,
    message: &[u8],
    until: Option<Instant>,
) -> Result<(), AttachError> {
    if message.len() > MOST_BYTES {
        return Err(AttachError::Malformed("a message is too long"));
    }
    let send = |parts: &[IoSlice<'_>]| {
        while !put(fd, parts)? {
            if !wait(fd, PollFlags::OUT, until)? {
                return Err(AttachError::Late);
            }
        }
        Ok(())
    };
    if message.len() < PIECE_BYTES {
        return send(&[IoSlice::new(&[LAST]), IoSlice::new(message)]);
    }
    pieces(message).try_for_each(|piece| send(&[IoSlice::new(&piece)]))
}

/// As [`Link::receive_piece`], by a descriptor that is somebody's.
///
/// # Errors
/// As there.
pub fn receive_piece_on(fd: BorrowedFd<'_>, message: &mut Vec<u8>) -> Result<Piece, AttachError> {
    let at = message.len();
    message.reserve(PIECE_BYTES);
    let mut reset = false;
    loop {
        match recv(fd, spare_capacity(message), RecvFlags::DONTWAIT) {
            Ok(_) => break,
            Err(Errno::AGAIN) => return Ok(Piece::Nothing),
            Err(Errno::INTR) => {}
            // the other end closed and had not taken everything: that is told once, and before what it had said itself
            Err(Errno::CONNRESET) if !reset => reset = true,
            Err(errno) => return Err(AttachError::system("recv")(errno)),
        }
    }
    let flag = *message.get(at).ok_or(AttachError::Gone)?;
    message.remove(at);
    let came = message.len() - at;
    if message.len() > MOST_BYTES || came >= PIECE_BYTES {
        return Err(AttachError::Malformed("a message is too long"));
    }
    match flag {
        LAST => Ok(Piece::Last),
        MORE if came > 0 => Ok(Piece::More),
        _ => Err(AttachError::Malformed("a piece of a message")),
    }
}

/// Waits for a message at a descriptor that is somebody's: false if none came in time.
///
/// # Errors
/// `System`, for a descriptor that is none as well.
pub fn wait_on(fd: BorrowedFd<'_>, patience: Option<Duration>) -> Result<bool, AttachError> {
    wait(
        fd,
        PollFlags::IN,
        patience.map(|patience| Instant::now() + patience),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(what: &str) -> String {
        format!("t-{what}-{}", std::process::id())
    }

    #[test]
    fn messages_of_any_length_come_whole_and_in_order() {
        let name = name("long");
        let listener = Listener::bind(&name).unwrap();
        assert!(running().contains(&name));
        assert!(matches!(
            Listener::bind(&name),
            Err(AttachError::NameTaken(_))
        ));
        let here = Link::dial(&name).unwrap();
        let there = listener.accept().unwrap().unwrap();
        let lengths = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES, 1 << 20];
        let sender = std::thread::spawn(move || {
            for length in lengths {
                let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
                here.send(&message, Duration::from_secs(60)).unwrap();
            }
        });
        for length in lengths {
            let came = there
                .receive(Some(Duration::from_secs(60)))
                .unwrap()
                .unwrap();
            assert_eq!(came.len(), length);
            assert!(came.iter().enumerate().all(|(at, byte)| *byte == at as u8));
        }
        sender.join().unwrap();
        assert_eq!(
            there.receive(Some(Duration::from_secs(60))),
            Err(AttachError::Gone)
        );
    }

    #[test]
    fn the_last_words_of_one_who_has_left_letters_unread_are_heard() {
        let name = name("last");
        let listener = Listener::bind(&name).unwrap();
        let here = Link::dial(&name).unwrap();
        let there = listener.accept().unwrap().unwrap();
        there.send(b"never read", Duration::ZERO).unwrap();
        here.send(b"one", Duration::ZERO).unwrap();
        here.send(b"two", Duration::ZERO).unwrap();
        drop(here);
        let next = || there.receive(Some(Duration::ZERO));
        assert_eq!(next(), Ok(Some(b"one".to_vec())));
        assert_eq!(next(), Ok(Some(b"two".to_vec())));
        assert_eq!(next(), Err(AttachError::Gone));
    }

    #[test]
    fn who_is_not_there_is_named() {
        let name = name("nobody");
        assert_eq!(
            Link::dial(&name).map(|_| ()),
            Err(AttachError::NoFabric(name))
        );
    }
}
