//! Messages from ranks of this host: takes what lies in their channels, and in places of the pairs.
//!
//! Owns: the order of a channel's records, and what is told of them to their sender. Must not know:
//! what a message that is more than the program's bytes says.

use crate::constants::{MPI_ERR_TRUNCATE, MPI_SUCCESS};
use crate::errors::{Outcome, broken};
use crate::ground::status::status;
use crate::handle::NOBODY;
use crate::host::Source;
use crate::p2p::point::Peer;
use crate::runtime::{Inbound, Runtime};
use crate::trace;
use crate::transport::contract::Deliver;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind, PLACED, PLACED_BYTES, Placed};
use ferriband_mpi_proto::fast::Broken;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;

impl Runtime {
    /// A channel that is not looked at in each round.
    pub(crate) fn look(&mut self, inlet: u32) -> Outcome<bool> {
        let inbound = &mut self.inlets[inlet as usize];
        if inbound.inlet.is_ready() {
            self.polling.warm(inlet);
            self.drain(inlet)?;
            return Ok(true);
        }
        let from = inbound.from;
        if inbound
            .inlet
            .relieve(self.point.peers[from as usize].received)
            && let Some(host) = &self.host
        {
            host.ring(from);
        }
        Ok(false)
    }

    #[cold]
    pub(crate) fn accept(&mut self, rank: u32) -> Outcome {
        let Some(inlet) = self.host.as_ref().and_then(|host| host.accept(rank)) else {
            return Err(broken(rank));
        };
        let index = self.inlets.len() as u32;
        self.point.peers[rank as usize].inlet = Some(index);
        self.inlets.push(Inbound { from: rank, inlet });
        self.polling.warm(index);
        Ok(())
    }

    /// Takes what lies in a channel, in order; no more once what the caller waits for is over: to
    /// look for the next record is to fetch a line that
    /// the sender has just written, which the caller need not wait for.
    #[inline]
    pub(crate) fn drain(&mut self, inlet: u32) -> Outcome {
        self.point.requests.satisfied = false;
        let mut left = BATCH;
        while self.hand_over(inlet, &mut left) && left != 0 {
            left -= 1;
            if !self.take_next(inlet)? || self.point.requests.satisfied {
                break;
            }
        }
        Ok(())
    }

    /// Takes the next record, whatever it is. False if there is none.
    #[inline(never)]
    fn take_next(&mut self, inlet: u32) -> Outcome<bool> {
        let inbound = &mut self.inlets[inlet as usize];
        let from = inbound.from;
        let Ok(next) = inbound.inlet.peek() else {
            return Err(broken(from));
        };
        let Some(record) = next else {
            return Ok(false);
        };
        let body = inbound.inlet.payload(&record);
        self.take_record(from, record.envelope, body)?;
        let ack = self.point.peers[from as usize].received;
        if self.inlets[inlet as usize].inlet.consume(&record, ack)
            && let Some(host) = &self.host
        {
            host.ring(from);
        }
        self.settle_due()?;
        Ok(true)
    }

    /// Gives messages of the program whose turn it is to the receives that wait for them, `left` at
    /// most, as long as there is nothing to say about them, like most. What
    /// [`Runtime::take_record`] would do with each, in as few steps as can be. True if it ends
    /// before one about which there may be, or for which no receive waits: with
    /// that nothing has happened.
    #[inline(always)]
    fn hand_over(&mut self, inlet: u32, left: &mut u32) -> bool {
        if trace::is_on() {
            return true;
        }
        let (Some(inbound), Some(mut entry)) = (
            self.inlets.get_mut(inlet as usize),
            self.point.objects.comms.latest(),
        ) else {
            return true;
        };
        let (from, inlet) = (inbound.from, &mut inbound.inlet);
        let Some(peer) = self.point.peers.get_mut(from as usize) else {
            return true;
        };
        // The context that messages are of, and their sender's rank in it.
        let (mut of, mut rank) = (u64::MAX, 0);
        let (mut is_starved, mut is_part, mut credited) = (false, None, None);
        let has_more = loop {
            if *left == 0 {
                break false;
            }
            let record = match inlet.peek() {
                Ok(Some(record)) => record,
                Ok(None) => break false,
                Err(Broken) => break true,
            };
            let [first, second, context] = record.envelope;
            let number = peer.received.wrapping_add(1);
            let is_placed = first == Envelope::placed(number);
            if first != Envelope::plain(number) && !is_placed {
                break true;
            }
            if context != of {
                let comms = &mut self.point.objects.comms;
                let Some(named) = comms.of_context(context).and_then(|at| comms.get_mut(at)) else {
                    break true;
                };
                entry = named;
                let Some(sender) = entry.rank_of(context, from) else {
                    break true;
                };
                (of, rank) = (context, sender);
            }
            let (tag, credit) = Envelope::tag_and_credit(second);
            let (mut body, mut placed) = (inlet.payload(&record), None);
            if is_placed {
                let Some((message, place)) = peer.placed(&body) else {
                    break true;
                };
                (body, placed) = (message, Some(place));
            }
            let Some(receive) = entry.matching(context).arrive(rank, tag) else {
                break true;
            };
            let request = &mut self.point.requests.slab[receive];
            let room = request.sink.len();
            let (error, length) = if body.len() > room {
                (MPI_ERR_TRUNCATE, room)
            } else {
                (MPI_SUCCESS, body.len())
            };
            body.copy_to(&request.sink);
            request.peer = from;
            request.status = status(rank, tag, error, length as u64);
            peer.received = number;
            if let Some(placed) = placed {
                peer.has_taken(placed);
            }
            credited = Some(credit);
            *left -= 1;
            is_starved = inlet.consume(&record, number);
            if request.freed || request.parent != NOBODY {
                is_part = Some(receive);
                break true;
            }
            self.point.requests.sleepers.over(receive);
            request.done = true;
            self.point.requests.ended = self.point.requests.ended.wrapping_add(1);
            request.ended = self.point.requests.ended;
            self.point.requests.satisfied |= receive == self.point.requests.awaited;
            if is_starved || self.point.requests.satisfied {
                break !self.point.requests.satisfied;
            }
        };
        if let (Some(credit), Some(outlet)) = (credited, &mut peer.outlet) {
            // Each counts from the beginning, so the last one says all.
            outlet.credit(credit);
        }
        if is_starved && let Some(host) = &self.host {
            host.ring(from);
        }
        if let Some(receive) = is_part {
            self.finish(receive);
            return !self.point.requests.satisfied;
        }
        has_more
    }

    /// What has come by a record, whatever it is. Records are the only path between the ranks of a
    /// host, so nothing can have overtaken this one.
    fn take_record(&mut self, from: u32, words: [u64; 3], record: Source) -> Outcome {
        let Some(mut envelope) = Envelope::from_words(words) else {
            return Err(broken(from));
        };
        let (mut body, mut placed) = (record, None);
        if envelope.flags & PLACED != 0 {
            let Some((message, place)) = self.placed(from, &record) else {
                return Err(broken(from));
            };
            envelope.flags &= !PLACED;
            (body, placed) = (message, Some(place));
        }
        let peer = &mut self.point.peers[from as usize];
        let before = peer.received;
        if envelope.kind == Kind::Eager || envelope.kind.is_numbered() {
            if envelope.seq != before.wrapping_add(1) {
                return Err(broken(from));
            }
            peer.received = envelope.seq;
        }
        if let Some(outlet) = &mut peer.outlet {
            outlet.credit(envelope.credit);
        }
        let outcome = self.point.eager(from, &envelope, body).map(drop);
        if outcome.is_err() {
            // The record stays: without memory it is met again when there is some.
            self.point.peers[from as usize].received = before;
        } else if let Some(placed) = placed {
            self.point.peers[from as usize].has_taken(placed);
        }
        outcome
    }

    /// Where a message lies of which a record says that it lies in a place; none if that cannot be.
    #[cold]
    pub fn placed(&mut self, from: u32, record: &Source) -> Option<(Source, Placed)> {
        let host = self.host.as_ref()?;
        let peer = self.point.peers.get_mut(from as usize)?;
        if peer.places.is_none() {
            peer.places = host.pair(from);
        }
        peer.placed(record)
    }
}

impl Peer {
    /// The same, where the pair's places are known.
    #[inline(always)]
    pub fn placed(&self, record: &Source) -> Option<(Source, Placed)> {
        if record.len() != PLACED_BYTES {
            return None;
        }
        let mut word = [0; PLACED_BYTES];
        record.copy_into(&mut word);
        let placed = Placed::parse(word);
        Some((self.places.as_ref()?.read(placed)?, placed))
    }

    /// Such a message has been taken.
    #[inline]
    pub fn has_taken(&mut self, placed: Placed) {
        if let Some(places) = &mut self.places {
            places.taken(placed);
        }
    }
}

const _: () = assert!(ENVELOPE == 28);
