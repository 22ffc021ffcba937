//! Keeping the kernel's way to one destination, and with it the IPv4 identifications of what is sent.
//!
//! Owns: when a sending socket is connected, and the number that its next datagram will carry. A connected socket saves the kernel looking
//! for the way with each datagram (a tenth of a small packet's time), but numbers its datagrams from a number that it tells nobody, and the
//! ICRC of RoCEv2 covers it. So the number is learnt: the kernel hands back a copy of a datagram, headers and all, to whoever asks for its
//! time of sending (SO_TIMESTAMPING), and from there on the numbers are counted. Two empty datagrams are spent on it, which every
//! receiver of RoCEv2 drops. Must not know: what a number does to a packet.
//!
//! *Doubt.* After any failure to send, and whenever a peer seems not to understand ([`Numbering::doubt`]), the socket is disconnected, so that
//! its datagrams carry 0 again, and it takes ever longer until the next attempt: a kernel that counts otherwise costs a few packets. That kernel is found out by the
//! first of them; who does not understand after a thousand waits for a processor, and then the next attempt comes as soon as the first.

use super::options;
use super::trouble::{Entry, next_entry};
use crate::Error;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Datagrams of connections that a socket sends before it is worth to keep the way.
const WORTH: u32 = 256;
/// How many more it takes after each attempt, and after one that ended in doubt.
const AGAIN: u32 = 2;
const DOUBTED: u32 = 16;
/// After so many datagrams the numbers were right.
const PROVEN: u32 = 1024;
/// The most that it takes.
const RARELY: u32 = 1 << 24;
/// IPv4 header without options, and UDP header.
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const ETHERNET_BYTES: usize = 14;
/// linux/net_tstamp.h: with its time a datagram's interface is told.
const SOF_TIMESTAMPING_OPT_CMSG: libc::c_uint = 1 << 10;
/// Room for those and any header of a link before them.
const COPY_BYTES: usize = 256;

/// What became of an empty datagram on its way out: the frame, and where it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Its headers: Ethernet, IPv4, UDP.
    pub head: [u8; ETHERNET_BYTES + IP_BYTES + UDP_BYTES],
    /// The interface.
    pub ifindex: u32,
}

/// The numbers of one socket's datagrams.
#[derive(Debug)]
pub(super) struct Numbering {
    state: RwLock<State>,
    /// The way was kept when it was last looked: who sends next has the lock alone from the beginning.
    counts: AtomicBool,
    /// Datagrams of connections since the last attempt, and how many it takes.
    sent: AtomicU32,
    worth: AtomicU32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Where the socket is connected to, and the number of the next datagram, wherever it goes; without, each carries 0.
    kept: Option<(SocketAddrV4, u16)>,
    /// A batch has been sent since, and took one number of the count as it should.
    batches: bool,
    /// Datagrams and batches that were sent since.
    sent: u32,
}

impl Default for Numbering {
    fn default() -> Self {
        Numbering {
            state: RwLock::default(),
            counts: AtomicBool::new(false),
            sent: AtomicU32::new(0),
            worth: AtomicU32::new(WORTH),
        }
    }
}

impl State {
    /// Each datagram carries 0.
    pub fn is_plain(&self) -> bool {
        self.kept.is_none()
    }

    /// The number of the next datagram, if it is not 0, and whether it goes where the socket is connected to.
    pub fn next(&self, to: &SocketAddr) -> Option<(u16, bool)> {
        let (kept, next) = self.kept?;
        Some((next, *to == SocketAddr::V4(kept)))
    }

    /// One was sent, or a batch.
    pub fn sent(&mut self, fd: BorrowedFd<'_>, batch: bool) {
        let Some((to, next)) = &mut self.kept else {
            return;
        };
        *next = next.wrapping_add(1);
        self.sent = self.sent.saturating_add(1);
        if batch && !self.batches {
            let (to, expected) = (*to, *next);
            self.batches = true;
            match ask(fd, to, 1) {
                Some(number) if number == expected => {
                    self.kept = Some((to, number.wrapping_add(1)));
                }
                _ => self.give_up(fd),
            }
        }
    }

    /// Datagrams carry 0 again.
    pub fn give_up(&mut self, fd: BorrowedFd<'_>) {
        if self.kept.take().is_some() {
            *self = State::default();
            disconnect(fd);
        }
    }
}

impl Numbering {
    /// Many may send at once as long as all numbers are 0.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers are probably counted; the state alone says so for certain.
    #[inline]
    pub fn probably_counts(&self) -> bool {
        self.counts.load(Relaxed)
    }

    /// The state was seen to be so.
    #[inline]
    pub fn note(&self, counts: bool) {
        if self.counts.load(Relaxed) != counts {
            self.counts.store(counts, Relaxed);
        }
    }

    /// One at a time sends what is counted.
    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A datagram of a connection was sent. True if it is time to keep the way.
    pub fn is_worth(&self) -> bool {
        // a count that two threads lose between them is no matter
        let sent = self.sent.load(Relaxed) + 1;
        self.sent.store(sent, Relaxed);
        sent >= self.worth.load(Relaxed)
    }

    /// Tries to keep the way to `to` from now on. If it cannot be, all is as before. `clear` empties the queue of errors, by which copies come.
    #[cold]
    pub fn begin(&self, fd: BorrowedFd<'_>, to: SocketAddrV4, clear: impl Fn()) {
        let mut state = self.write();
        clear();
        self.put_off(AGAIN);
        if state.kept.is_some() {
            return;
        }
        *state = State::default();
        if rustix::net::connect(fd, &to).is_err() {
            disconnect(fd);
            return;
        }
        match ask(fd, to, 2) {
            Some(number) => state.kept = Some((to, number.wrapping_add(1))),
            None => disconnect(fd),
        }
        clear();
    }

    /// Something speaks for it that a peer does not understand: perhaps its numbers are wrong.
    #[cold]
    pub fn doubt(&self, fd: BorrowedFd<'_>) {
        let mut state = self.write();
        if state.kept.is_some() {
            let proven = state.sent >= PROVEN;
            state.give_up(fd);
            self.after_doubt(proven);
        }
    }

    /// Sends an empty datagram to `to` and gives what the kernel handed to the interface for it, behind routes, firewalls and all. None if it did not go at
    /// once, or as anything but one plain Ethernet frame. `clear` empties the queue of errors, by which the copy comes.
    #[cold]
    pub fn seen_to(&self, fd: BorrowedFd<'_>, to: SocketAddrV4, clear: impl Fn()) -> Option<Sent> {
        let mut state = self.write();
        clear();
        let wanted = libc::SOF_TIMESTAMPING_TX_SCHED
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | SOF_TIMESTAMPING_OPT_CMSG;
        options::set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO").ok()?;
        stamp(fd, wanted).ok()?;
        let sent = rustix::net::sendto(fd, &[], rustix::net::SendFlags::DONTWAIT, &to);
        let mut bytes = [0; COPY_BYTES];
        let again = matches!(sent, Err(rustix::io::Errno::AGAIN));
        let entry = sent.ok().and_then(|_| next_entry(fd, &mut bytes).ok());
        let entry = entry.filter(Entry::is_copy);
        let copy = entry.as_ref().map(|entry| &bytes[..entry.bytes]);
        let number = copy.and_then(|copy| number_of(copy, to));
        match (&mut state.kept, number) {
            (Some((_, next)), Some(number)) if number == *next => *next = number.wrapping_add(1),
            (Some(_), _) if !again => state.give_up(fd),
            _ => {}
        }
        clear();
        stamp(fd, 0).ok()?;
        Some(Sent {
            head: copy?.try_into().ok().filter(|_| number.is_some())?,
            ifindex: entry?.interface()?,
        })
    }

    fn after_doubt(&self, proven: bool) {
        if proven {
            self.worth.store(WORTH, Relaxed);
        }
        self.put_off(if proven { 1 } else { DOUBTED });
    }

    fn put_off(&self, times: u32) {
        self.sent.store(0, Relaxed);
        let worth = self.worth.load(Relaxed).saturating_mul(times).min(RARELY);
        self.worth.store(worth, Relaxed);
    }
}

/// Takes the destination away; source address and port stay, as they were bound.
fn disconnect(fd: BorrowedFd<'_>) {
    // fails for a closed descriptor only, by which nothing can be sent either
    let _ = rustix::net::connect_unspec(fd);
}

/// Sends empty datagrams to where `fd` is connected to and gives the last one's number. None unless each was one more than the one before.
fn ask(fd: BorrowedFd<'_>, to: SocketAddrV4, times: u32) -> Option<u16> {
    let wanted = libc::SOF_TIMESTAMPING_TX_SCHED | libc::SOF_TIMESTAMPING_SOFTWARE;
    stamp(fd, wanted).ok()?;
    let mut last: Option<u16> = None;
    let answer = (0..times).all(|_| {
        let sent = rustix::net::send(fd, &[], rustix::net::SendFlags::DONTWAIT);
        let number = sent.ok().and_then(|_| copy_of_sent(fd, to));
        let follows = last.is_none_or(|last| number == Some(last.wrapping_add(1)));
        last = number;
        number.is_some() && follows
    });
    let quiet = stamp(fd, 0).is_ok();
    last.filter(|_| answer && quiet)
}

fn stamp(fd: BorrowedFd<'_>, what: libc::c_uint) -> Result<(), Error> {
    options::set(
        fd,
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        what as i32,
        "SO_TIMESTAMPING",
    )
}

/// The number in the copy of an empty datagram for `to`, if the next entry of the error queue is one.
fn copy_of_sent(fd: BorrowedFd<'_>, to: SocketAddrV4) -> Option<u16> {
    let mut bytes = [0; COPY_BYTES];
    let entry = next_entry(fd, &mut bytes).ok().filter(Entry::is_copy)?;
    number_of(&bytes[..entry.bytes], to)
}

/// The identification of an empty UDP datagram for `to` that ends with these bytes; what the link has before it may be of any length.
fn number_of(bytes: &[u8], to: SocketAddrV4) -> Option<u16> {
    let start = bytes.len().checked_sub(IP_BYTES + UDP_BYTES)?;
    let (ip, udp) = bytes[start..].split_at(IP_BYTES);
    let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let destination = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
    let right = ip[0] == 0x45
        && usize::from(word(ip, 2)) == IP_BYTES + UDP_BYTES
        && i32::from(ip[9]) == libc::IPPROTO_UDP
        && destination == *to.ip()
        && word(udp, 2) == to.port()
        && usize::from(word(udp, 4)) == UDP_BYTES;
    right.then(|| word(ip, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_copy_of_what_was_sent_tells_a_number() {
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4791);
        let mut copy = vec![0xee; 14];
        copy.extend([
            0x45, 0, 0, 28, 0xbe, 0xef, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        copy.extend([0xc0, 0, 0x12, 0xb7, 0, 8, 0, 0]);
        assert_eq!(number_of(&copy, to), Some(0xbeef));
        assert_eq!(number_of(&copy[14..], to), Some(0xbeef));
        assert_eq!(number_of(&copy[15..], to), None);
        assert_eq!(number_of(&copy, SocketAddrV4::new(*to.ip(), 4792)), None);
        for (at, byte) in [(14, 0x46), (17, 29), (23, 6), (33, 3), (39, 9)] {
            let mut other = copy.clone();
            other[at] = byte;
            assert_eq!(number_of(&other, to), None, "byte {at}");
        }
    }

    #[test]
    fn each_attempt_takes_longer_to_come() {
        let numbering = Numbering::default();
        let until_worth = || (1..).find(|_| numbering.is_worth()).unwrap();
        assert_eq!(until_worth(), WORTH);
        numbering.put_off(AGAIN);
        assert_eq!(until_worth(), WORTH * AGAIN);
        for _ in 0..10 {
            numbering.put_off(DOUBTED);
        }
        assert_eq!(numbering.worth.load(Relaxed), RARELY);
        // a peer that was understood for long only waits for a processor
        numbering.after_doubt(true);
        assert_eq!(until_worth(), WORTH);
        numbering.after_doubt(false);
        assert_eq!(until_worth(), WORTH * DOUBTED);
    }
}
