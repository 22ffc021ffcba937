//! Senders that have a socket of their own: most of what comes to a polling program often comes
//! from one or two.
//!
//! Owns: which sender is worth one, when each socket is looked at, and when a sender is given back
//! to the socket of all. Must not know: what packets mean, nor how a socket takes a sender
//! ([`RxSocket::bind_flow`]).
//!
//! A sender is an address and a source port, and a peer's process may send to several processes of
//! this host from one port. Then packets of others come here, which are handed over as any that
//! reach the wrong process; the sender is given back at once, and it takes ever longer until the
//! next has a socket.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use ferriband_memory::net::{RxMeta, RxSocket};
use ferriband_transport::types::Instant;

use super::alone::{Tell, Way};
use super::rx::Pace;

/// Senders with a socket of their own, at most: each is one more that a polling program looks at.
pub(crate) const MOST_FLOWS: usize = 2;
/// Messages of one sender that make it worth a socket; each of another counts for so many fewer.
pub(in crate::wire) const WORTH: u32 = 256;
const OTHERS: u32 = 3;
/// How many times as many it takes after each attempt, and after one that took what was for other
/// processes.
pub(in crate::wire) const AGAIN: u32 = 2;
pub(in crate::wire) const FOREIGN: u32 = 16;
/// The most that it takes.
const RARELY: u32 = 1 << 24;
/// A socket that was looked at so often in vain is looked at every so many rounds.
pub(in crate::wire) const QUIET: u32 = 1024;
pub(in crate::wire) const QUIET_EVERY: u32 = 16;
/// A sender that was silent for so long is given back; looked for every so many rounds.
pub(in crate::wire) const SILENT: Duration = Duration::from_secs(1);
pub(in crate::wire) const LOOK_EVERY: u32 = 4096;

/// A sender's socket.
#[derive(Debug)]
pub(in crate::wire) struct Flow {
    pub(in crate::wire) socket: Arc<RxSocket>,
    pub(in crate::wire) like: RxMeta,
    pub(in crate::wire) pace: Pace,
    pub(in crate::wire) way: Way,
    /// The traffic class that the last datagram had of which the kernel said it.
    pub(in crate::wire) tos: u8,
    /// Something came since it was last looked whether it is silent.
    pub(in crate::wire) active: bool,
}

impl Flow {
    pub(in crate::wire) fn tell(&mut self, what: Tell) {
        if let Tell::Gather(runs) = what
            && self.socket.gather(runs).is_err()
        {
            // a child that has no sockets
            self.way = Way::default();
        }
    }

    /// Before all that lies in the socket is received, runs or not.
    pub(in crate::wire) fn before_drain(&mut self) {
        let what = self.way.before_drain();
        self.tell(what);
    }
}

/// The senders with sockets of their own, the one at hand first, and the one that may have the
/// next.
#[derive(Debug)]
pub(in crate::wire) struct Flows {
    pub(in crate::wire) open: ArrayVec<Flow, MOST_FLOWS>,
    pub(in crate::wire) likely: Option<RxMeta>,
    seen: u32,
    pub(in crate::wire) worth: u32,
    pub(in crate::wire) looked_at: Instant,
}

impl Default for Flows {
    fn default() -> Self {
        Flows {
            open: ArrayVec::new(),
            likely: None,
            seen: 0,
            worth: WORTH,
            looked_at: Instant(0),
        }
    }
}

impl Flows {
    /// A message came to the socket of all. True if its sender is worth a socket now.
    #[inline]
    pub(in crate::wire) fn note(&mut self, meta: &RxMeta) -> bool {
        match &mut self.likely {
            Some(likely) if is_sender(likely, meta) => self.seen += 1,
            likely => {
                self.seen = self.seen.saturating_sub(OTHERS);
                if self.seen == 0 {
                    *likely = Some(*meta);
                }
            }
        }
        self.seen >= self.worth
    }

    pub(in crate::wire) fn put_off(&mut self, times: u32) {
        self.seen = 0;
        self.likely = None;
        self.worth = self.worth.saturating_mul(times).min(RARELY);
    }
}

fn is_sender(one: &RxMeta, other: &RxMeta) -> bool {
    (one.source_port, one.source) == (other.source_port, other.source)
        && (one.destination, one.ifindex) == (other.destination, other.ifindex)
}

/// What comes to a group comes to all, and who has no address or port cannot be told from others.
pub(in crate::wire) fn may_have_socket(like: &RxMeta) -> bool {
    let plain = |address: std::net::IpAddr| !address.is_multicast() && !address.is_unspecified();
    plain(like.source) && plain(like.destination) && like.source_port != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn sender(host: u8, port: u16) -> RxMeta {
        RxMeta {
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
            source_port: port,
            destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            ifindex: 2,
            tos: 2,
            hop_limit: 64,
            segment: 80,
        }
    }

    #[test]
    fn a_sender_is_worth_a_socket_if_most_comes_from_it() {
        let mut flows = Flows::default();
        let until = |flows: &mut Flows, mut from: Box<dyn FnMut(u32) -> RxMeta>| {
            (1..10_000).find(|&turn| flows.note(&from(turn)))
        };
        // 1 + 255 more
        let one = until(&mut flows, Box::new(|_| sender(2, 50_000)));
        assert_eq!(one, Some(WORTH + 1));
        // each attempt takes longer to come
        flows.put_off(AGAIN);
        let one = until(&mut flows, Box::new(|_| sender(2, 50_000)));
        assert_eq!(one, Some(WORTH * AGAIN + 1));
        // nine of ten are enough, and it is they who have it
        let mut flows = Flows::default();
        let most = |turn: u32| sender(if turn.is_multiple_of(10) { 3 } else { 2 }, 50_000);
        let nine = until(&mut flows, Box::new(most)).unwrap();
        assert!((WORTH..3 * WORTH).contains(&nine), "{nine}");
        assert_eq!(flows.likely.unwrap().source, sender(2, 1).source);
        // two in turns have none, nor have two ports of one host
        for pair in [[sender(2, 1), sender(3, 1)], [sender(2, 1), sender(2, 2)]] {
            let mut flows = Flows::default();
            let turns = move |turn: u32| pair[turn as usize % 2];
            assert_eq!(until(&mut flows, Box::new(turns)), None);
        }
        // and it never takes more than can be counted
        for _ in 0..20 {
            flows.put_off(FOREIGN);
        }
        assert_eq!(flows.worth, RARELY);
    }

    #[test]
    fn what_goes_to_groups_has_none() {
        assert!(may_have_socket(&sender(2, 50_000)));
        let group = RxMeta {
            destination: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 9)),
            ..sender(2, 50_000)
        };
        let nobody = RxMeta {
            source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            ..sender(2, 50_000)
        };
        for other in [group, nobody, sender(2, 0)] {
            assert!(!may_have_socket(&other));
        }
    }
}
