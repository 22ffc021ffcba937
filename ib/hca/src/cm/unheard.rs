//! Requests for a service on which nobody listens: they wait a moment before they are refused.
//!
//! Programs agree by one connection on another and bind its listener while the request for it is on its way (perftest does). A kernel's
//! connection manager, which takes longer for each step, hides that; here a request waits until somebody listens, for
//! [`PATIENCE_NS`] at the most, and few of them at a time. Owns the waiting requests. Must not know what is in them.

use std::collections::VecDeque;

use ferriband_memory::host::HAND_OVER_HEAD;

/// How long a request waits: a program that was about to listen has had the processor by then.
const PATIENCE_NS: u64 = 20_000_000;
/// How often it is looked whether somebody listens.
const LOOK_NS: u64 = 500_000;
/// Requests of this process, and packets, that wait at the most; others are refused at once.
const MOST: usize = 64;

/// A packet that waits, as the kernel gave it to the wire.
#[derive(Debug)]
pub(super) struct Packet {
    pub head: [u8; HAND_OVER_HEAD],
    pub datagram: Vec<u8>,
}

/// What waits, each with the end of its patience.
pub(super) type Waiting<T> = VecDeque<(u64, T)>;

/// The requests.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// This process's own, by identifier.
    asked: Waiting<u32>,
    /// From the network.
    packets: Waiting<Packet>,
    look_at: Option<u64>,
}

/// What became of the time of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Time {
    /// It may wait on.
    Left,
    /// It is over.
    Over,
}

impl Unheard {
    /// An identifier of this process asks.
    pub fn ask(&mut self, now: ferriband_transport::types::Instant, id: u32) {
        // beyond the bound the first look finds the time over
        let until = if self.asked.len() < MOST {
            now.0 + PATIENCE_NS
        } else {
            now.0
        };
        self.asked.push_back((until, id));
        self.look_soon(now.0);
    }

    /// A packet asks; it is given back if there is no room.
    pub fn keep(&mut self, now: u64, packet: Packet) -> Result<(), Packet> {
        if self.packets.len() >= MOST {
            return Err(packet);
        }
        self.packets.push_back((now + PATIENCE_NS, packet));
        self.look_soon(now);
        Ok(())
    }

    fn look_soon(&mut self, now: u64) {
        self.look_at.get_or_insert(now + LOOK_NS);
    }

    /// Takes everything out, to be looked at; what may go on waiting comes back by [`Unheard::wait_on`].
    pub fn take(&mut self) -> (Waiting<u32>, Waiting<Packet>) {
        self.look_at = None;
        (
            std::mem::take(&mut self.asked),
            std::mem::take(&mut self.packets),
        )
    }

    /// Whether a request whose time ends at `until` may wait on.
    pub fn time(until: u64, now: u64) -> Time {
        if until > now { Time::Left } else { Time::Over }
    }

    /// An identifier's request that nobody listens to yet.
    pub fn ask_on(&mut self, until: u64, id: u32, now: u64) {
        self.asked.push_back((until, id));
        self.look_soon(now);
    }

    /// A packet that nobody listens to yet.
    pub fn wait_on(&mut self, until: u64, packet: Packet, now: u64) {
        self.packets.push_back((until, packet));
        self.look_soon(now);
    }

    /// When it is to be looked again; never if nothing waits.
    pub fn due(&self) -> u64 {
        self.look_at.unwrap_or(u64::MAX)
    }
}
