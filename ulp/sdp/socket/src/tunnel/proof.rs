//! Whether the process at the other end of a queue pair holds the other end of a TCP connection.
//!
//! Owns: what of the secret is said, and when. The secret is the timestamp in the SYN of the
//! connection, which the kernel counts from a random number: the connecting process reads it as it
//! connects (TCP_TIMESTAMP), the accepting one from the SYN that the kernel has kept
//! (TCP_SAVED_SYN). The accepting side says its upper half first. Only if that is right, the
//! connecting side says the lower. So who guesses gives himself away with one half, and a
//! connection is tried once.

use super::{Lost, Pipe};
use crate::tcp;
use ferriband_sdp_wire::Frame;
use std::os::fd::BorrowedFd;

/// TCP_TIMESTAMP, TCP_SAVE_SYN, TCP_SAVED_SYN.
const TIMESTAMP: libc::c_int = 24;
const SAVE_SYN: libc::c_int = 27;
const SAVED_SYN: libc::c_int = 28;

/// How much later than the SYN's the timestamp may be that connect(2) is followed by. A unit is a
/// millisecond, or a microsecond where the route is set so: then it is not found.
const LATER: u32 = 64;
/// How much earlier: the kernel's two clocks are read at different places.
const EARLIER: u32 = 1;

/// The timestamp of a socket that has just begun to connect. None without timestamps.
pub fn stamp(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut value = [0; 4];
    let got = tcp::get_option(socket, libc::IPPROTO_TCP, TIMESTAMP, &mut value);
    (got == Ok(4)).then(|| u32::from_ne_bytes(value))
}

/// A listener's connections keep their SYN from now on.
pub fn save_syns(listener: BorrowedFd<'_>) {
    let on = 1_i32.to_ne_bytes();
    // without it nobody proves anything, and connections stay TCP
    let _ = tcp::set_option(listener, libc::IPPROTO_TCP, SAVE_SYN, &on);
}

/// The timestamp of the SYN of an accepted connection, which the kernel gives once.
pub fn saved_stamp(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut headers = [0; 256];
    let length = tcp::get_option(socket, libc::IPPROTO_TCP, SAVED_SYN, &mut headers).ok()?;
    timestamp_of(headers.get(..length)?)
}

/// The timestamp in the headers of IP and TCP.
fn timestamp_of(headers: &[u8]) -> Option<u32> {
    let first = *headers.first()?;
    let ip = match first >> 4 {
        4 => usize::from(first & 15) * 4,
        6 => 40,
        _ => return None,
    };
    let tcp = headers.get(ip..)?;
    let length = usize::from(tcp.get(12)? >> 4) * 4;
    let mut options = tcp.get(20..length)?;
    loop {
        match options {
            [] | [0, ..] => return None,
            [1, rest @ ..] => options = rest,
            [8, 10, a, b, c, d, ..] => return Some(u32::from_be_bytes([*a, *b, *c, *d])),
            [_, length, ..] if *length >= 2 => options = options.get(usize::from(*length)..)?,
            _ => return None,
        }
    }
}

/// A proof that is going on.
pub struct Proof {
    side: Side,
    said: bool,
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Connected { stamp: u32 },
    Accepted { syn: u32 },
}

impl Proof {
    /// Of the side that has connected, and has read this timestamp then.
    pub fn connected(stamp: u32) -> Self {
        Proof::new(Side::Connected { stamp })
    }

    /// Of the side that has accepted a connection whose SYN had this timestamp.
    pub fn accepted(syn: u32) -> Self {
        Proof::new(Side::Accepted { syn })
    }

    fn new(side: Side) -> Self {
        Proof {
            side,
            said: false,
            head: Vec::new(),
        }
    }

    /// Goes on. True once both have proven.
    ///
    /// # Errors
    /// The peer does not know the secret, or the pipe carries no more.
    pub fn pump(&mut self, pipe: &mut impl Pipe) -> Result<bool, Lost> {
        if let (Side::Accepted { syn }, false) = (self.side, self.said) {
            self.say(pipe, (syn >> 16) as u16)?;
        }
        let mut part = [0; Frame::LEN];
        let missing = Frame::LEN - self.head.len();
        let came = pipe.receive(&mut part[..missing])?;
        self.head.extend_from_slice(&part[..came]);
        let Ok(head) = <&[u8; Frame::LEN]>::try_from(&self.head[..]) else {
            return Ok(false);
        };
        let Ok(Frame::Proof(half)) = Frame::parse(head) else {
            return Err(Lost);
        };
        match self.side {
            Side::Connected { stamp } if is_upper(stamp, half) => {
                self.say(pipe, stamp as u16)?;
                Ok(true)
            }
            Side::Accepted { syn } if is_lower(syn, half) => Ok(true),
            _ => Err(Lost),
        }
    }

    /// A stream that has just begun takes a frame.
    fn say(&mut self, pipe: &mut impl Pipe, half: u16) -> Result<(), Lost> {
        self.said = true;
        match pipe.send(&Frame::Proof(half).bytes())? {
            Frame::LEN => Ok(()),
            _ => Err(Lost),
        }
    }
}

fn is_upper(stamp: u32, half: u16) -> bool {
    let latest = stamp.wrapping_add(EARLIER);
    (0..=EARLIER + LATER).any(|later| (latest.wrapping_sub(later) >> 16) as u16 == half)
}

fn is_lower(syn: u32, half: u16) -> bool {
    let later = half.wrapping_sub((syn as u16).wrapping_sub(EARLIER as u16));
    u32::from(later) <= EARLIER + LATER
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn both_ends_know_the_timestamp_of_the_syn() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        save_syns(listener.as_fd());
        let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let Some(stamp) = stamp(here.as_fd()) else {
            eprintln!("SKIP: this host has no timestamps");
            return;
        };
        let (there, _) = listener.accept().expect("accepted");
        let syn = saved_stamp(there.as_fd()).expect("the kernel has kept it");
        // a busy machine may be late, which is for the proof to refuse
        let later = stamp.wrapping_sub(syn).wrapping_add(EARLIER);
        assert!(later < 60_000, "{stamp} {syn}");
        assert_eq!(saved_stamp(there.as_fd()), None, "once");
    }

    #[test]
    fn each_half_is_compared_over_its_borders() {
        for syn in [0_u32, 0xffff, 0x1_0000, 0xffff_ffff, 0x1234_fff8] {
            for later in [0, 1, 1 + LATER] {
                let stamp = syn.wrapping_sub(EARLIER).wrapping_add(later);
                assert!(is_upper(stamp, (syn >> 16) as u16), "{syn:#x} {later}");
                assert!(is_lower(syn, stamp as u16), "{syn:#x} {later}");
            }
            assert!(!is_lower(syn, syn.wrapping_add(LATER + 1) as u16));
            assert!(!is_lower(syn, syn.wrapping_sub(EARLIER + 1) as u16));
            assert!(!is_upper(syn, (syn >> 16).wrapping_add(2) as u16));
            assert!(!is_upper(syn, (syn >> 16).wrapping_sub(2) as u16));
        }
    }

    #[test]
    fn headers_without_a_timestamp_have_none() {
        assert_eq!(timestamp_of(&[]), None);
        for first in 0..=255 {
            for length in 0..80 {
                let mut headers = vec![2; length];
                if let Some(at) = headers.first_mut() {
                    *at = first;
                }
                assert_eq!(timestamp_of(&headers), None);
            }
        }
    }
}
