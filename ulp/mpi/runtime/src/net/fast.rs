//! The RDMA fast path with verbs: records that the sender WRITEs into a block of the receiver's memory, which the receiver polls.
//!
//! Credit comes back by a WRITE to a word of the sender's, and in every envelope. What finds no credit goes by SEND, and one sequence of numbers spans both: a
//! record whose turn has not come stays in the block; a SEND whose turn has not come finds the records before it in the block, because both took the same queue
//! pair. How channels come and go is in [`super::channel`].

use super::channel::{Open, State};
use super::link::What;
use super::memory::Buffers;
use super::stats::Why;
use super::{INLINE, Id, Net, RECEIVE};
use crate::constants::MPI_ERR_INTERN;
use crate::errors::{MpiError, Outcome};
use crate::host::Source;
use crate::runtime::{Place, Runtime};
use ferriband_ibv::{Element, RKey, SendFlags, SendWr};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope};
use ferriband_mpi_proto::fast::{
    AnyReceiver, Block, Broken, Busy, Plan, Push, Put, Record, Writer,
};
use std::sync::atomic::Ordering;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;

/// Envelope and payload of a record where our own adapter makes packets: a WRITE's first packet is longer than the others, so it goes by itself, and a WRITE of three
/// costs the system two calls where a SEND costs one.
const LONGEST_BY_PACKETS: usize = 1024;

/// A block of this process that a peer writes to.
pub struct PostInlet {
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
}

impl PostInlet {
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

/// Writes records by requests on the queue pair to a peer.
struct Post<'a> {
    net: &'a mut Net,
    peer: u32,
    block: Place,
    /// A copy of the block, for the designs that need one: records are written from it.
    mirror: Option<&'a Buffers>,
    failure: Option<MpiError>,
}

impl Post<'_> {
    fn submit(&mut self, at: u32, elements: &[Element<'_>], flags: SendFlags, what: What) -> bool {
        let remote = self.block.address + u64::from(at);
        let id = Id::Peer(self.peer).code();
        let request = SendWr::write(id, remote, RKey(self.block.rkey), elements);
        match self.net.submit(self.peer, request, flags, what) {
            Ok(posted) => posted,
            Err(error) => {
                self.failure = Some(error);
                false
            }
        }
    }

    fn put_inline(&mut self, put: &Put<'_>, payload: Option<Source>) -> bool {
        let mut bytes = [0_u8; INLINE];
        put.lay(&mut bytes, |to| {
            if let Some(payload) = payload {
                payload.copy_into(to);
            }
        });
        let elements = [Element::inline(&bytes[..put.whole() as usize])];
        self.submit(put.at, &elements, SendFlags::INLINE, What::Room)
    }

    fn put_staged(&mut self, put: &Put<'_>, payload: Option<Source>) -> bool {
        let Some(buffer) = self.net.stage_for_record() else {
            return false;
        };
        self.net.stats.staged |= 1 << (buffer % 64);
        fill(&self.net.stages, buffer, 0, put, payload);
        let elements = [self.net.stages.element(buffer, put.whole())];
        let what = What::Buffer(buffer);
        let posted = self.submit(put.at, &elements, SendFlags::empty(), what);
        if !posted {
            self.net.give_stage(buffer);
        }
        posted
    }

    fn put_mirrored(&mut self, mirror: &Buffers, put: &Put<'_>, payload: Option<Source>) -> bool {
        // Once the mirror has changed, the block must.
        if self.net.room(self.peer) == 0 {
            return false;
        }
        fill(mirror, 0, put.at, put, payload);
        let whole = put.whole();
        let posted = if whole as usize <= INLINE {
            let mut bytes = [0_u8; INLINE];
            mirror.read(0, put.at, &mut bytes[..whole as usize]);
            let elements = [Element::inline(&bytes[..whole as usize])];
            self.submit(put.at, &elements, SendFlags::INLINE, What::Room)
        } else {
            let elements = [mirror.element_at(put.at, whole)];
            self.submit(put.at, &elements, SendFlags::empty(), What::Room)
        };
        if !posted && self.failure.is_none() {
            let text = "a queue that has room takes no request";
            self.failure = Some(MpiError::with(MPI_ERR_INTERN, text));
        }
        posted
    }
}

/// Puts what is written to `at` in a buffer; what has no meaning stays what it is.
fn fill(buffers: &Buffers, index: u32, at: u32, put: &Put<'_>, payload: Option<Source>) {
    buffers.write(index, at, put.front);
    buffers.write(index, at + put.head_at(), put.head);
    if let Some(payload) = payload {
        buffers.fill(index, at + put.payload_at(), payload);
    }
    buffers.write(index, at + put.back_at(), put.back);
}

impl Writer for Post<'_> {
    type Payload = Source;

    fn put(&mut self, put: &Put<'_>, payload: Option<Source>) -> Result<(), Busy> {
        let posted = match self.mirror {
            Some(mirror) => self.put_mirrored(mirror, put, payload),
            None if put.whole() as usize <= INLINE => self.put_inline(put, payload),
            None => self.put_staged(put, payload),
        };
        posted.then_some(()).ok_or(Busy)
    }

    fn old(&self, at: u32) -> u8 {
        let mut byte = [0];
        if let Some(mirror) = self.mirror {
            mirror.read(0, at, &mut byte);
        }
        byte[0]
    }
}

impl Net {
    /// Puts a numbered message into the peer's block; or says why not.
    pub(super) fn store(
        &mut self,
        peer: u32,
        head: &[u8],
        seq: u32,
        source: Source,
    ) -> Outcome<Option<Why>> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(Some(Why::NoChannel));
        };
        if link.bundle != 0 && head.len() + source.len() > LONGEST_BY_PACKETS {
            return Ok(Some(Why::TooLong));
        }
        let State::Open(open) = &mut link.out.state else {
            return Ok(Some(Why::NoChannel));
        };
        if !link.gate.is_open() {
            return Ok(Some(Why::Paused));
        }
        // Taken out, because who posts the request looks at the connection.
        let Some(mut open) = open.take() else {
            return Ok(Some(Why::NoChannel));
        };
        let returned = self.returns.word(peer * 8).load(Ordering::Acquire);
        open.machine.credit(returned as u32);
        link.log
            .acknowledge((returned >> 32) as u32, seq.wrapping_sub(1));
        let Open {
            machine,
            block,
            mirror,
        } = &mut *open;
        let mut post = Post {
            net: self,
            peer,
            block: *block,
            mirror: mirror.as_ref(),
            failure: None,
        };
        let push = machine.push(head, seq, source.len() as u32, source, &mut post);
        let failure = post.failure;
        let out = &mut self.link(peer).out;
        out.state = State::Open(Some(open));
        if let Some(failure) = failure {
            return Err(failure);
        }
        let why = match push {
            Push::Stored => {
                self.stats.stored += 1;
                None
            }
            Push::NoCredit => Some(Why::NoCredit),
            Push::TooLong => Some(Why::TooLong),
            Push::Busy => Some(Why::Busy),
        };
        self.link(peer).out.judge(why);
        Ok(why)
    }

    /// Credit has come in an envelope of `peer`.
    #[inline]
    pub(super) fn credit(&mut self, peer: u32, consumed: u32) {
        if let Some(link) = self.links[peer as usize].as_deref_mut()
            && let State::Open(Some(open)) = &mut link.out.state
        {
            open.machine.credit(consumed);
        }
    }

    /// The block that `peer` writes to.
    #[inline]
    pub(super) fn inlet_of(&mut self, peer: u32) -> Option<&mut PostInlet> {
        let index = self.links[peer as usize].as_deref()?.inlet?;
        self.inlet(index)
    }

    #[inline]
    pub(super) fn inlet(&mut self, index: u32) -> Option<&mut PostInlet> {
        self.inlets.get_mut(index as usize)?.as_mut()
    }

    #[inline]
    fn is_ready(&self, index: u32) -> bool {
        self.inlets
            .get(index as usize)
            .and_then(Option::as_ref)
            .is_some_and(PostInlet::is_ready)
    }

    /// Whether a message has come by a block that nobody has looked at.
    pub fn has_records(&self) -> bool {
        self.inlets.iter().flatten().any(PostInlet::is_ready)
    }

    /// Tells the sender of channel `index` what has been consumed, by a WRITE.
    pub(super) fn return_credit(&mut self, index: u32, ack: u32) -> Outcome {
        let Some(inlet) = self.inlet(index) else {
            return Ok(());
        };
        let (peer, to) = (inlet.from, inlet.returns);
        let word = u64::from(ack) << 32 | u64::from(inlet.machine.report());
        let bytes = word.to_le_bytes();
        let elements = [Element::inline(&bytes)];
        let request = SendWr::write(Id::Peer(peer).code(), to.address, RKey(to.rkey), &elements);
        let posted = self.submit(peer, request, SendFlags::INLINE, What::Room)?;
        if !posted {
            self.owe(peer);
        }
        Ok(())
    }
}

impl Runtime {
    /// Looks at the blocks: those in use, and one of the others in turn. True if something came.
    pub(super) fn poll_blocks(&mut self) -> Outcome<bool> {
        let mut did = false;
        let mut place = 0;
        loop {
            let Some(net) = &mut self.net else {
                return Ok(did);
            };
            let Some(index) = net.polling.hot(place) else {
                break;
            };
            if net.is_ready(index) {
                net.polling.hit(place);
                did |= self.drain_block(index)?;
            }
            place += 1;
        }
        let Some(net) = &mut self.net else {
            return Ok(did);
        };
        if let Some(index) = net.polling.next(net.inlets.len())
            && net.is_ready(index)
        {
            net.polling.warm(index);
            did |= self.drain_block(index)?;
        }
        Ok(did)
    }

    /// Something of `peer` has come by SEND that was sent after its records: these lie in its block.
    #[cold]
    pub(super) fn drain_before(&mut self, peer: u32) -> Outcome {
        let index = self
            .net
            .as_ref()
            .and_then(|net| net.links[peer as usize].as_deref()?.inlet);
        if let Some(index) = index {
            while self.drain_block(index)? {}
        }
        Ok(())
    }

    /// Takes what lies in block `index`, as far as its turn has come. True if something did.
    fn drain_block(&mut self, index: u32) -> Outcome<bool> {
        let mut did = false;
        for _ in 0..BATCH {
            let Some(net) = &mut self.net else {
                break;
            };
            let Some(inlet) = net.inlet(index) else {
                break;
            };
            let from = inlet.from;
            let Ok(next) = inlet.peek() else {
                return Err(self.broken(from));
            };
            let Some(record) = next else {
                break;
            };
            let body = inlet.memory.0.source(0, record.at, record.length);
            let Some(envelope) = Envelope::parse(record.envelope) else {
                return Err(self.broken(from));
            };
            let peer = &mut self.peers[from as usize];
            if !envelope.kind.is_numbered() {
                return Err(self.broken(from));
            }
            if envelope.seq != peer.received.wrapping_add(1) {
                // Its turn comes when the SEND before it has been looked at.
                break;
            }
            peer.received = envelope.seq;
            let (ack, sent) = (envelope.seq, peer.sent);
            net.credit(from, envelope.credit);
            net.acknowledge(from, envelope.ack, sent);
            let owes_ack = self.owes(from, record.length);
            if let Err(error) = self.take(from, &envelope, body) {
                // The record stays: without memory it is met again when there is some.
                self.peers[from as usize].received = envelope.seq.wrapping_sub(1);
                return Err(error);
            }
            did = true;
            let Some(inlet) = self.net.as_mut().and_then(|net| net.inlet(index)) else {
                break;
            };
            inlet.records += 1;
            let is_due = inlet.machine.consume(&record, &mut inlet.memory);
            if !is_due && !owes_ack {
                continue;
            }
            // What the program answers tells it, too; if half of the block waits for that, it waits no longer.
            let is_urgent = inlet.unreported() >= inlet.size() / 2;
            // Who has left needs to know nothing.
            let is_over = self.is_over(from);
            if let Some(net) = self.net.as_mut().filter(|_| !is_over) {
                if is_urgent {
                    net.link(from).owed.told();
                    net.return_credit(index, ack)?;
                } else {
                    net.owe(from);
                }
            }
        }
        Ok(did)
    }
}

const _: () = assert!(RECEIVE as usize > INLINE);
