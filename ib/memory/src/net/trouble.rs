//! What the network and the kernel said of datagrams that were sent: ICMP messages, and refusals of the kernel's own.
//!
//! Owns: the reading of a socket's error queue (IP_RECVERR) and the few newest findings. A message may be forged by anybody who can
//! guess a port: nothing but explanations depends on it.

use super::{last_errno, rx::read_name};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Findings that are kept.
const KEPT: usize = 16;
/// Messages that one look takes from a queue: what comes faster is left for the next look.
const READS: usize = 64;
/// Words of 8 bytes for the control messages of one entry: header, error, an address; and before them those of a time of sending.
const CONTROL_WORDS: usize = 32;

// linux/errqueue.h
const ORIGIN_LOCAL: u8 = 1;
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
const ORIGIN_TIMESTAMPING: u8 = 4;
const SCM_TSTAMP_SCHED: u32 = 1;

/// What was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TroubleKind {
    /// An ICMP message: type and code (RFC 792).
    Icmp(u8, u8),
    /// An ICMPv6 message: type and code (RFC 4443).
    Icmp6(u8, u8),
    /// The kernel of this host refused to send: an errno.
    Local(i32),
}

/// Something that was said, once or more often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Where the datagram was to go.
    pub destination: IpAddr,
    /// What was said.
    pub kind: TroubleKind,
    /// Who said so: the other host, or a router on the way; None if this host's kernel did.
    pub from: Option<IpAddr>,
    /// The longest IP packet that would have passed, where that was the matter; else 0.
    pub mtu: u32,
    /// How often.
    pub count: u64,
    /// When last.
    pub at: Instant,
}

/// The newest findings of a socket.
#[derive(Debug, Default)]
pub(super) struct Troubles(Mutex<Vec<Trouble>>);

impl Troubles {
    /// Takes what waits in the error queue of `fd`.
    #[cold]
    pub(super) fn hear(&self, fd: BorrowedFd<'_>) -> bool {
        let mut any = false;
        for _ in 0..READS {
            match read_error(fd) {
                Some(Some(trouble)) => self.note(trouble),
                Some(None) => {}
                None => break,
            }
            any = true;
        }
        any
    }

    /// A call to send to `to` failed.
    #[cold]
    pub(super) fn failed(&self, fd: BorrowedFd<'_>, to: &SocketAddr, errno: i32) {
        // what came by ICMP is in the queue, with its own destination
        if !self.hear(fd) && errno != libc::EINTR {
            self.note(Trouble {
                destination: to.ip(),
                kind: TroubleKind::Local(errno),
                from: None,
                mtu: 0,
                count: 1,
                at: Instant::now(),
            });
        }
    }

    fn note(&self, new: Trouble) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = |old: &Trouble| {
            (old.destination, old.kind, old.from) == (new.destination, new.kind, new.from)
        };
        let count = match kept.iter().position(alike) {
            Some(place) => kept.remove(place).count,
            None => 0,
        };
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Trouble {
            count: count + 1,
            ..new
        });
    }

    /// All of them, the newest last.
    pub(super) fn all(&self) -> Vec<Trouble> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// An entry of a socket's error queue.
pub(super) struct Entry {
    /// Bytes of what it is about that were put into the caller's room.
    pub bytes: usize,
    name: libc::sockaddr_storage,
    control: [u64; CONTROL_WORDS],
    /// Words of it that the kernel wrote.
    used: usize,
}

impl Entry {
    /// It is the copy of a datagram that was sent, and no message of the network, which may hold anything.
    pub fn is_copy(&self) -> bool {
        let mut copy = false;
        each_message(&self.control[..self.used], |kind, data| {
            if kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                && let [first, second, ..] = data
            {
                let [.., origin, _, _, _] = first.to_ne_bytes();
                copy = origin == ORIGIN_TIMESTAMPING && *second as u32 == SCM_TSTAMP_SCHED;
            }
            copy
        });
        copy
    }

    /// The interface that IP_PKTINFO names.
    pub fn interface(&self) -> Option<u32> {
        let info = (libc::IPPROTO_IP, libc::IP_PKTINFO);
        let mut found = None;
        each_message(&self.control[..self.used], |kind, data| {
            if kind == info {
                // struct in_pktinfo begins with it
                found = data.first().map(|word| *word as u32);
            }
            found.is_some()
        });
        found.filter(|index| *index != 0)
    }
}

/// Gives level, name and data of each control message to `each`, until that says that it is enough.
fn each_message(control: &[u64], mut each: impl FnMut((i32, i32), &[u64]) -> bool) {
    let mut rest = control;
    // struct cmsghdr: length of all (8 bytes), level, type (4 each), then the data; the next one begins at a multiple of 8.
    while let [size, kind, data @ ..] = rest {
        let Ok(words) = usize::try_from(*size).map(|size| size.div_ceil(8)) else {
            return;
        };
        if *size < 16 || words > rest.len() {
            return;
        }
        if each(
            (*kind as u32 as i32, (*kind >> 32) as i32),
            &data[..words - 2],
        ) {
            return;
        }
        rest = &rest[words..];
    }
}

/// Takes the next entry of the error queue, with as much of what it is about as `room` takes.
///
/// # Errors
/// An errno: EAGAIN if there is none.
pub(super) fn next_entry(fd: BorrowedFd<'_>, room: &mut [u8]) -> Result<Entry, i32> {
    let mut entry = Entry {
        bytes: 0,
        // SAFETY: all-zero is a value: the family AF_UNSPEC.
        name: unsafe { std::mem::zeroed() },
        control: [0; CONTROL_WORDS],
        used: 0,
    };
    let mut part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: all-zero is a value: null pointers and lengths of 0.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = (&raw mut entry.name).cast();
    head.msg_namelen = size_of_val(&entry.name) as libc::socklen_t;
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut entry.control).cast();
    head.msg_controllen = size_of_val(&entry.control) as _;
    // SAFETY: head points to a name, one part and control space of the lengths it says, which outlive the call.
    let got = unsafe {
        libc::recvmsg(
            fd.as_raw_fd(),
            &raw mut head,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    entry.bytes = usize::try_from(got)
        .map_err(|_| last_errno())?
        .min(room.len());
    entry.used = (head.msg_controllen as usize).min(size_of_val(&entry.control)) / 8;
    Ok(entry)
}

/// What the next entry says: None if there is none, Some(None) for one that says nothing of use.
fn read_error(fd: BorrowedFd<'_>) -> Option<Option<Trouble>> {
    match next_entry(fd, &mut []) {
        Ok(entry) => Some(
            read_name(&entry.name)
                .and_then(|(destination, _)| understand(destination, &entry.control[..entry.used])),
        ),
        Err(errno) => (errno == libc::EINTR).then_some(None),
    }
}

/// The first error in the control messages.
fn understand(destination: IpAddr, control: &[u64]) -> Option<Trouble> {
    let errors = [
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    ];
    let mut found = None;
    each_message(control, |kind, data| {
        let is_error = errors.contains(&kind) && data.len() >= 2;
        if is_error {
            found = read_extended(destination, data);
        }
        is_error
    });
    found
}

/// struct sock_extended_err: errno, origin, type, code, a byte of nothing, info, data; then the offender's address.
fn read_extended(destination: IpAddr, data: &[u64]) -> Option<Trouble> {
    let [first, second, offender @ ..] = data else {
        return None;
    };
    let [.., origin, kind, code, _] = first.to_ne_bytes();
    let errno = *first as u32 as i32;
    let kind = match origin {
        ORIGIN_ICMP => TroubleKind::Icmp(kind, code),
        ORIGIN_ICMP6 => TroubleKind::Icmp6(kind, code),
        ORIGIN_LOCAL => TroubleKind::Local(errno),
        _ => return None,
    };
    let foreign = origin != ORIGIN_LOCAL;
    Some(Trouble {
        destination,
        kind,
        from: offender_of(offender).filter(|_| foreign),
        mtu: if errno == libc::EMSGSIZE {
            *second as u32
        } else {
            0
        },
        count: 1,
        at: Instant::now(),
    })
}

/// The address in a struct sockaddr.
fn offender_of(words: &[u64]) -> Option<IpAddr> {
    // SAFETY: all-zero is a value: the family AF_UNSPEC.
    let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let bytes = size_of_val(words).min(size_of_val(&name));
    // SAFETY: both are at least that long and do not overlap.
    unsafe {
        words
            .as_ptr()
            .cast::<u8>()
            .copy_to_nonoverlapping((&raw mut name).cast(), bytes);
    }
    read_name(&name).map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn trouble(host: u8, code: u8) -> Trouble {
        Trouble {
            destination: Ipv4Addr::new(192, 0, 2, host).into(),
            kind: TroubleKind::Icmp(3, code),
            from: None,
            mtu: 0,
            count: 1,
            at: Instant::now(),
        }
    }

    #[test]
    fn what_is_said_again_is_counted_and_the_oldest_go() {
        let troubles = Troubles::default();
        for _ in 0..3 {
            troubles.note(trouble(1, 3));
        }
        troubles.note(trouble(1, 1));
        let counts: Vec<u64> = troubles.all().iter().map(|one| one.count).collect();
        assert_eq!(counts, [3, 1]);
        for host in 0..KEPT as u8 {
            troubles.note(trouble(host + 100, 3));
        }
        let all = troubles.all();
        assert_eq!(all.len(), KEPT);
        assert_eq!(all[0].destination, trouble(100, 3).destination);
    }

    #[test]
    fn broken_control_messages_say_nothing() {
        let to = Ipv4Addr::LOCALHOST.into();
        let kind = libc::IPPROTO_IP as u64 | (libc::IP_RECVERR as u64) << 32;
        for control in [
            &[][..],
            &[16],
            &[0, kind, 0, 0],
            &[1000, kind, 0, 0],
            &[16, kind],
            &[24, kind, u64::MAX],
            &[u64::MAX, kind, 0, 0],
        ] {
            assert_eq!(understand(to, control), None);
        }
        // port unreachable, from nobody
        let first = u64::from_ne_bytes([111, 0, 0, 0, ORIGIN_ICMP, 3, 3, 0]);
        let found = understand(to, &[32, kind, first, 0]).unwrap();
        assert_eq!((found.kind, found.from), (TroubleKind::Icmp(3, 3), None));
    }
}
