//! Where a run's packets are gathered: in a buffer of this thread's, or, where runs are long and their way is known, in memory that the kernel sends from without
//! copying it.
//!
//! Owns: which place may be written to again. A place that was lent holds the packets of one reliable connection; it is free when the peer has acknowledged the last of
//! them. If all places are under way, a run goes by copy. Must not know: how a run is sent.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use ferriband_memory::Room;
use ferriband_memory::net::{Lent, LentBytes};
use ferriband_wire::{Bth, Opcode, Psn};

/// Places of a thread (8 MiB, four large pages): eight times what one connection may have under way, so that most of a place's lines have left the receiver's caches when they are written
/// again. Where a line takes 250 ns from core to core, with 32 of them lending gains nothing in every other run.
const PLACES: usize = 120;
/// Places that are looked at for a free one.
const LOOKED_AT: usize = 32;
/// Runs that are shorter are copied as fast.
const LEAST_BYTES: usize = 32 << 10;
/// Runs that could have been lent before memory is taken for it.
const WORTH: u32 = 16;

/// How far a connection's peer has acknowledged what was sent to it.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(AtomicU32);

impl Acknowledged {
    /// `oldest` is the first packet that is not.
    #[inline]
    pub fn set(&self, oldest: Psn) {
        self.0.store(oldest.get(), Relaxed);
    }

    fn has(&self, psn: Psn) -> bool {
        Psn::new(self.0.load(Relaxed)).after(psn)
    }
}

/// What is under way in a place: up to which packet, of which connection.
#[derive(Debug)]
struct Held {
    until: Psn,
    by: Weak<Acknowledged>,
}

impl Held {
    /// The peer has it, or the connection is no more.
    fn is_over(&self) -> bool {
        self.by.upgrade().is_none_or(|by| by.has(self.until))
    }
}

/// The memory of runs.
#[derive(Debug)]
pub(super) struct Store {
    own: Room,
    lent: Option<Places>,
    /// Runs that would have been lent.
    wanted: u32,
}

#[derive(Debug)]
struct Places {
    memory: Lent,
    held: Vec<Option<Held>>,
    /// The place that was lent last, or the one that is written to.
    at: usize,
    /// Whether it is written to.
    is_used: bool,
}

impl Store {
    pub fn new(bytes: usize) -> Self {
        Store {
            own: Room::new(bytes),
            lent: None,
            wanted: 0,
        }
    }

    /// Before anything is written: a child of a fork has none of what was lent.
    #[inline]
    pub fn check(&mut self) {
        if self
            .lent
            .as_ref()
            .is_some_and(|places| !places.memory.is_ours())
        {
            self.lent = None;
        }
    }

    /// The buffer of the run at hand.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        match &mut self.lent {
            Some(places) if places.is_used => places.memory.place(places.at),
            _ => &mut self.own,
        }
    }

    /// The same, and if a run of `length` bytes there can be lent, whose last packet has `last` of them: where it lies for the kernel, and up to which packet it goes.
    #[inline]
    pub fn sending(
        &mut self,
        length: usize,
        last: usize,
    ) -> (&mut [u8], Option<(LentBytes<'_>, Psn)>) {
        let places = match &mut self.lent {
            Some(places) if places.is_used => places,
            _ => return (&mut self.own, None),
        };
        let (bytes, lent) = places.memory.sending(places.at);
        let until = match length >= LEAST_BYTES {
            true => request_of(&bytes[length - last..length]),
            false => None,
        };
        (bytes, until.map(|until| (lent, until)))
    }

    /// Whether it is to be said if a run of `length` bytes that was copied could have been lent.
    #[inline]
    pub fn asks(&self, length: usize) -> bool {
        self.lent.is_none() && length >= LEAST_BYTES
    }

    /// A run of `length` bytes has gone; `lent` up to that packet of that connection, or copied. The next may lie elsewhere, and so does what lies behind this one
    /// already: `behind` bytes.
    pub fn go_on(&mut self, length: usize, behind: usize, lent: Option<(Psn, &Arc<Acknowledged>)>) {
        let Some(places) = &mut self.lent else {
            self.own.copy_within(length..length + behind, 0);
            return;
        };
        let before = places.used();
        if let Some((until, by)) = lent {
            places.held[places.at] = Some(Held {
                until,
                by: Arc::downgrade(by),
            });
            places.is_used = false;
        }
        if !places.is_used {
            places.advance();
        }
        if behind == 0 {
            return;
        }
        let from = length..length + behind;
        match (before, places.used()) {
            (None, None) => self.own.copy_within(from, 0),
            (None, Some(to)) => {
                places.memory.place(to)[..behind].copy_from_slice(&self.own[from]);
            }
            (Some(at), None) => {
                self.own[..behind].copy_from_slice(&places.memory.place(at)[from]);
            }
            (Some(at), Some(to)) => places.memory.copy((at, from), to),
        }
    }

    /// A run could have been lent if there were places; once there were some such runs, there are.
    #[cold]
    pub fn want(&mut self) {
        self.wanted += 1;
        if self.wanted < WORTH {
            return;
        }
        self.wanted = 0;
        // without it all is as before
        self.lent = Lent::new(PLACES, self.own.len()).ok().map(|memory| Places {
            held: (0..memory.places()).map(|_| None).collect(),
            memory,
            at: PLACES - 1,
            is_used: false,
        });
    }
}

impl Places {
    fn used(&self) -> Option<usize> {
        self.is_used.then_some(self.at)
    }

    /// The next place that is free is written to: a connection whose peer is dead holds no more than what it may have under way.
    fn advance(&mut self) {
        let free = (1..=LOOKED_AT)
            .map(|step| (self.at + step) % PLACES)
            .find(|place| self.held[*place].as_ref().is_none_or(Held::is_over));
        if let Some(place) = free.filter(|place| self.memory.is_there(*place)) {
            self.held[place] = None;
            (self.at, self.is_used) = (place, true);
        }
    }
}

/// The number of a packet, if it is a request of a reliable connection that its peer acknowledges: SEND and RDMA WRITE in all their forms (IBA 9.2, table 38).
fn request_of(packet: &[u8]) -> Option<Psn> {
    const LAST: u8 = Opcode::RcWriteOnlyImm as u8;
    let bth = Bth::peek(packet).ok()?;
    (bth.opcode_code() <= LAST).then(|| bth.psn())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 70_000;
    const RUN: usize = 40_000;

    /// A store with places, in the last packet of whose run stands `psn`.
    fn with_packet(store: &mut Store, psn: u32) {
        let packet = &mut store.bytes()[RUN - 1040..RUN];
        packet.fill(0);
        packet[0] = Opcode::RcWriteMiddle as u8;
        packet[8..12].copy_from_slice(&psn.to_be_bytes());
    }

    /// Sends a run; the place that it lay in, if it was lent.
    fn send(store: &mut Store, psn: u32, by: &Arc<Acknowledged>) -> Option<usize> {
        with_packet(store, psn);
        let used = store.lent.as_ref().and_then(Places::used);
        let until = store.sending(RUN, 1040).1.map(|(_, until)| until);
        assert_eq!(until.is_some(), used.is_some());
        store.go_on(RUN, 0, until.map(|until| (until, by)));
        used
    }

    fn store() -> Store {
        let mut store = Store::new(BYTES);
        for _ in 0..WORTH {
            assert!(store.lent.is_none() && store.asks(RUN));
            store.want();
        }
        assert!(!store.asks(RUN));
        store
    }

    #[test]
    fn a_place_is_written_to_again_when_the_peer_has_what_was_in_it() {
        let (mut store, by) = (store(), Arc::<Acknowledged>::default());
        by.set(Psn::new(0));
        // the first run still lies in the thread's own buffer
        assert_eq!(send(&mut store, 0, &by), None);
        let places: Vec<_> = (0..PLACES as u32)
            .map(|n| send(&mut store, n, &by).unwrap())
            .collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), PLACES, "each place once");
        assert_eq!(send(&mut store, 100, &by), None, "all are under way");
        by.set(Psn::new(1));
        send(&mut store, 101, &by);
        assert_eq!(
            send(&mut store, 102, &by),
            Some(places[0]),
            "packet 0 was in it"
        );
        assert_eq!(
            send(&mut store, 103, &by),
            None,
            "the next is not acknowledged"
        );
        // a connection that is no more has nothing under way that anybody waits for
        drop(by);
        let other = Arc::<Acknowledged>::default();
        send(&mut store, 0, &other);
        assert_eq!(send(&mut store, 0, &other), Some(places[1]));
    }

    #[test]
    fn a_connection_that_stands_still_does_not_keep_others_from_lending() {
        let (mut store, dead) = (store(), Arc::<Acknowledged>::default());
        store.go_on(RUN, 0, None);
        for n in 0..20 {
            assert!(send(&mut store, n, &dead).is_some());
        }
        let other = Arc::<Acknowledged>::default();
        for n in 0..3 * PLACES as u32 {
            assert!(send(&mut store, n, &other).is_some(), "run {n}");
            other.set(Psn::new(n + 1));
        }
    }

    #[test]
    fn a_packet_behind_a_run_begins_the_next_wherever_that_lies() {
        let (mut store, by) = (store(), Arc::<Acknowledged>::default());
        by.set(Psn::new(0));
        let behind = 1056;
        for round in 0..PLACES as u32 + 10 {
            with_packet(&mut store, round);
            store.bytes()[RUN..RUN + behind].fill(round as u8 + 1);
            let until = store.sending(RUN, 1040).1.map(|(_, until)| until);
            if round == PLACES as u32 + 5 {
                by.set(Psn::new(2));
            }
            store.go_on(RUN, behind, until.map(|until| (until, &by)));
            assert!(
                store.bytes()[..behind]
                    .iter()
                    .all(|byte| *byte == round as u8 + 1),
                "round {round}"
            );
        }
    }

    #[test]
    fn what_nobody_acknowledges_is_not_lent() {
        let mut store = store();
        store.go_on(RUN, 0, None);
        with_packet(&mut store, 7);
        assert!(store.sending(RUN, 1040).1.is_some());
        for opcode in [
            Opcode::RcReadResponseMiddle,
            Opcode::RcAcknowledge,
            Opcode::UcSendMiddle,
            Opcode::UdSendOnly,
        ] {
            store.bytes()[RUN - 1040] = opcode as u8;
            assert!(store.sending(RUN, 1040).1.is_none(), "{opcode:?}");
        }
        with_packet(&mut store, 7);
        assert!(
            store.sending(LEAST_BYTES - 1, 1040).1.is_none(),
            "a short run"
        );
    }
}
