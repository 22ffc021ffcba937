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
    /// The registry's services when all of it was looked at last.
    epoch: u64,
}

/// Those at the front whose time is over: they came in order.
fn over<T>(waiting: &mut Waiting<T>, now: u64) -> Waiting<T> {
    let count = waiting.iter().take_while(|(until, _)| *until <= now);
    let count = count.count();
    waiting.drain(..count).collect()
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

    /// Takes out what is to be looked at: everything if services have come or gone since the last time, else those whose time is over.
    /// What may go on waiting comes back by [`Unheard::ask_on`] and [`Unheard::wait_on`].
    pub fn take(&mut self, now: u64, epoch: u64) -> (Waiting<u32>, Waiting<Packet>) {
        self.look_at = None;
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            return (
                std::mem::take(&mut self.asked),
                std::mem::take(&mut self.packets),
            );
        }
        let taken = (over(&mut self.asked, now), over(&mut self.packets, now));
        if !self.asked.is_empty() || !self.packets.is_empty() {
            self.look_soon(now);
        }
        taken
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

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(byte: u8) -> Packet {
        Packet {
            head: [byte; HAND_OVER_HEAD],
            datagram: Vec::new(),
        }
    }

    #[test]
    fn few_wait_and_are_looked_at_when_services_change_or_their_time_is_over() {
        let mut unheard = Unheard::default();
        assert_eq!(unheard.due(), u64::MAX);
        for count in 0..MOST {
            assert!(unheard.keep(count as u64, packet(1)).is_ok());
        }
        assert!(unheard.keep(0, packet(2)).is_err(), "a flood is refused");
        assert_eq!(unheard.due(), LOOK_NS);
        // the first look is at everything
        let (asked, packets) = unheard.take(LOOK_NS, 7);
        assert_eq!((asked.len(), packets.len()), (0, MOST));
        for (until, packet) in packets {
            assert_eq!(Unheard::time(until, LOOK_NS), Time::Left);
            unheard.wait_on(until, packet, LOOK_NS);
        }
        // nothing has changed: nothing is looked at but what has waited long enough
        assert_eq!(unheard.take(2 * LOOK_NS, 7).1.len(), 0);
        assert_eq!(unheard.due(), 3 * LOOK_NS);
        assert_eq!(unheard.take(PATIENCE_NS + 9, 7).1.len(), 10);
        assert_eq!(unheard.take(PATIENCE_NS + 9, 8).1.len(), MOST - 10);
        assert_eq!(unheard.due(), u64::MAX);
    }
}
