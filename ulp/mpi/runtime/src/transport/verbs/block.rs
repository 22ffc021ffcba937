//! The blocks of this process, which peers WRITE records to and which are polled.
//!
//! Credit comes back by a WRITE to a word of the sender's, and in every envelope. What finds no
//! credit goes by SEND, and one sequence of numbers spans both: a record whose turn has not come
//! stays in the block; a SEND whose turn has not come finds the records before it in the block,
//! because both took the same queue pair. How channels come and go is in [`super::channel`], how a
//! record is written in [`super::post`].

use super::memory::{Area, Buffers};
use super::queue::What;
use super::receive::is_met_again;
use super::{Lent, Net};
use crate::errors::{Outcome, broken};
use crate::transport::contract::{Deliver, Place, Roster};
use crate::transport::polling::Polling;
use ferriband_ibv::{Element, RKey, SendFlags, SendWr};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope};
use ferriband_mpi_proto::fast::{AnyReceiver, Block, Broken, Plan, Record};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;

/// A block of this process that a peer writes to.
pub struct PostInbound {
    /// Rank of that peer.
    pub from: u32,
    /// Which life of the channel this is.
    pub life: u32,
    /// The peer has been asked to write no more.
    pub is_closing: bool,
    /// Records since they were last judged by their number.
    pub records: u64,
    machine: AnyReceiver,
    memory: Memory,
    /// The word of the sender's that takes credit.
    returns: Place,
}

/// The blocks of this process, and what senders are told of them.
pub struct Blocks {
    /// Blocks that peers write records to.
    pub(super) inbounds: Vec<Option<PostInbound>>,
    pub(super) polling: Polling,
    /// Those in use that were looked at before the round stopped.
    pub(super) place: usize,
    /// A word for each rank, to which it returns credit.
    pub(super) returns: Area,
    /// Peers who are to be told what has been taken from them, once there is room.
    pub(super) owing: Vec<u32>,
    /// When their senders were last judged.
    pub(super) judged: Instant,
}

struct Memory(Buffers);

impl Block for Memory {
    #[inline]
    fn word(&self, at: u32) -> u64 {
        self.0.word(at).load(Ordering::Acquire)
    }

    #[inline]
    fn envelope(&self, at: u32) -> [u8; ENVELOPE] {
        let mut bytes = [0; ENVELOPE];
        self.0.read(0, at, &mut bytes);
        bytes
    }

    fn clear(&mut self, at: u32) {
        self.0.word(at).store(0, Ordering::Relaxed);
    }

    /// Where the adapter wrote by another core, all lines of a record are asked for at once: else
    /// the envelope's would be waited for before those of the body.
    #[inline]
    fn expect(&self, at: u32, length: u32) {
        self.0.expect(at, length);
    }
}

impl PostInbound {
    /// For the block `memory`, all zero, that `from` writes to; it takes credit at `returns`.
    pub fn new(from: u32, life: u32, plan: Plan, memory: Buffers, returns: Place) -> Self {
        Self {
            from,
            life,
            is_closing: false,
            records: 0,
            machine: AnyReceiver::new(plan),
            memory: Memory(memory),
            returns,
        }
    }

    /// Whether there is something to look at.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.machine.is_ready(&self.memory)
    }

    /// Credit for an envelope that goes to the sender.
    #[inline]
    pub fn report(&mut self) -> u32 {
        self.machine.report()
    }

    /// Whether the sender should be told what has been consumed.
    pub fn is_due(&self) -> bool {
        self.unreported() >= self.size() / 4
    }

    /// Bytes consumed that the sender has not been told of.
    fn unreported(&self) -> u64 {
        u64::from(self.machine.unreported()) * u64::from(self.machine.plan().granule())
    }

    /// Bytes of the block.
    pub fn size(&self) -> u64 {
        u64::from(self.machine.plan().size())
    }

    fn peek(&mut self) -> Result<Option<Record>, Broken> {
        self.machine.peek(&self.memory)
    }
}

impl Net {
    /// Credit to tell `peer` of.
    #[inline]
    pub(super) fn report(&mut self, peer: u32) -> u32 {
        self.inbound_of(peer).map_or(0, PostInbound::report)
    }

    /// The block that `peer` writes to.
    #[inline]
    pub(super) fn inbound_of(&mut self, peer: u32) -> Option<&mut PostInbound> {
        let index = self.links[peer as usize].as_deref()?.fast.inbound?;
        self.inbound(index)
    }

    #[inline]
    pub(super) fn inbound(&mut self, index: u32) -> Option<&mut PostInbound> {
        self.blocks.inbounds.get_mut(index as usize)?.as_mut()
    }

    /// Whether a record of `peer` lies in its block whose turn has come; then the next look takes
    /// it.
    #[cold]
    pub(super) fn has_record_in_turn(&mut self, peer: u32) -> bool {
        let link = self.link(peer);
        let (next, inbound) = (link.received.wrapping_add(1), link.fast.inbound);
        let Some(index) = inbound else {
            return false;
        };
        let record = self.inbound(index).and_then(|inbound| inbound.peek().ok()?);
        let envelope = record.and_then(|record| Envelope::parse(record.envelope));
        let is_next = envelope.is_some_and(|envelope| envelope.seq == next);
        if is_next {
            self.blocks.polling.warm(index);
        }
        is_next
    }

    #[inline]
    fn is_ready(&self, index: u32) -> bool {
        self.blocks
            .inbounds
            .get(index as usize)
            .and_then(Option::as_ref)
            .is_some_and(PostInbound::is_ready)
    }

    /// Whether a message has come by a block that nobody has looked at.
    pub fn has_records(&self) -> bool {
        self.blocks
            .inbounds
            .iter()
            .flatten()
            .any(PostInbound::is_ready)
    }

    /// Tells the sender of channel `index` what has been consumed, by a WRITE.
    pub(super) fn return_credit(&mut self, index: u32, ack: u32) -> Outcome {
        let Some(inbound) = self.inbound(index) else {
            return Ok(());
        };
        let (peer, to) = (inbound.from, inbound.returns);
        let word = u64::from(ack) << 32 | u64::from(inbound.machine.report());
        let bytes = word.to_le_bytes();
        let elements = [Element::inline(&bytes)];
        let id = self.link(peer).wire.id;
        let request = SendWr::write(id, to.address, RKey(to.rkey), &elements);
        let posted = self.submit(peer, request, SendFlags::INLINE, What::Room)?;
        if !posted {
            self.owe(peer);
        }
        Ok(())
    }
}

impl Net {
    /// Whether peers may write records to blocks of this process.
    #[inline]
    pub fn has_blocks(&self) -> bool {
        !self.blocks.inbounds.is_empty()
    }

    /// Looks at the blocks, from where the round stopped: those in use, and one of the others in
    /// turn. What came of it.
    pub fn poll_blocks<R: Roster, D: Deliver>(
        &mut self,
        roster: &R,
        to: &mut D,
    ) -> Outcome<Polled> {
        let mut lent = Lent::new(roster, to);
        let mut did = false;
        while let Some(index) = self.blocks.polling.hot(self.blocks.place) {
            let place = self.blocks.place;
            self.blocks.place += 1;
            if self.is_ready(index) {
                self.blocks.polling.hit(place);
                let drained = self.drain_block(index, &mut lent);
                did |= drained.inspect_err(|_| self.blocks.place = 0)?;
                if lent.is_stopped {
                    return Ok(Polled { did, stopped: true });
                }
            }
        }
        self.blocks.place = 0;
        if let Some(index) = self.blocks.polling.next(self.blocks.inbounds.len())
            && self.is_ready(index)
        {
            self.blocks.polling.warm(index);
            did |= self.drain_block(index, &mut lent)?;
        }
        Ok(Polled {
            did,
            stopped: false,
        })
    }

    /// Something of `peer` has come by SEND that was sent after its records: these lie in its
    /// block.
    #[cold]
    pub(super) fn drain_before<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let index = self.links[peer as usize]
            .as_deref()
            .and_then(|link| link.fast.inbound);
        if let Some(index) = index {
            while self.drain_block(index, lent)? {}
        }
        Ok(())
    }

    /// Takes what lies in block `index`, as far as its turn has come. True if something did.
    fn drain_block<R: Roster, D: Deliver>(
        &mut self,
        index: u32,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome<bool> {
        let mut did = false;
        for _ in 0..BATCH {
            let Some(inbound) = self.inbound(index) else {
                break;
            };
            let from = inbound.from;
            let Ok(next) = inbound.peek() else {
                return Err(broken(from));
            };
            let Some(record) = next else {
                break;
            };
            let body = inbound.memory.0.source(0, record.at, record.length);
            let Some(envelope) = Envelope::parse(record.envelope) else {
                return Err(broken(from));
            };
            if !envelope.kind.is_numbered() {
                return Err(broken(from));
            }
            if !self.is_next(from, envelope.seq) {
                // Its turn comes when the SEND before it has been looked at.
                break;
            }
            self.credit(from, envelope.credit);
            self.acknowledge(from, envelope.ack);
            let outcome = self.take_next(from, &envelope, body, lent);
            if is_met_again(&outcome) {
                // The record stays.
                return outcome.map(|()| did);
            }
            let owes_ack = self.owes(from, record.length);
            did = true;
            let Some(inbound) = self.inbound(index) else {
                break;
            };
            inbound.records += 1;
            let memory = &mut inbound.memory;
            let is_due = inbound.machine.consume(&record, memory);
            if is_due || owes_ack {
                self.tell_consumed(index, envelope.seq, lent.roster)?;
            }
            outcome?;
        }
        Ok(did)
    }

    /// Tells the sender of block `index` what has been consumed, now or with the next message to
    /// it.
    fn tell_consumed<R: Roster>(&mut self, index: u32, ack: u32, roster: &R) -> Outcome {
        let Some(inbound) = self.inbound(index) else {
            return Ok(());
        };
        // What the program answers tells it, too; if half of the block waits for that, it waits
        // no longer.
        let (from, is_urgent) = (inbound.from, inbound.unreported() >= inbound.size() / 2);
        if roster.is_over(from) {
            // Who has left needs to know nothing.
            return Ok(());
        }
        if is_urgent {
            self.link(from).acks.pending.told_silently();
            self.return_credit(index, ack)
        } else {
            self.owe(from);
            Ok(())
        }
    }
}

/// What came of a look at the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Something has come.
    pub did: bool,
    /// Whoever is told has something to do before the rest is looked at.
    pub stopped: bool,
}
