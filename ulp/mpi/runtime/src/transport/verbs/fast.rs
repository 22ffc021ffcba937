//! The RDMA fast path with verbs: records that the sender WRITEs into a block of the receiver's memory, which the receiver polls.
//!
//! Credit comes back by a WRITE to a word of the sender's, and in every envelope. What finds no credit goes by SEND, and one sequence of numbers spans both: a
//! record whose turn has not come stays in the block; a SEND whose turn has not come finds the records before it in the block, because both took the same queue
//! pair. How channels come and go is in [`super::channel`].

use super::acks::{Keep, acknowledged, copy_staged};
use super::channel::State;
use super::link::{Queue, What};
use super::memory::Buffers;
use super::stages::{STAGES, Stages};
use super::stats::Why;
use super::{INLINE, Id, Net, RECEIVE};
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED};
use crate::errors::{MpiError, Outcome};
use crate::host::Source;
use crate::runtime::Runtime;
use crate::transport::contract::Place;
use crate::transport::polling::Polling;
use ferriband_ibv::{Element, RKey, SendFlags, SendWr, VerbsError};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope};
use ferriband_mpi_proto::fast::{
    AnyReceiver, Block, Broken, Busy, Plan, Push, Put, Record, Writer,
};
use ferriband_mpi_proto::replay::{Held, Replay};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes of a line of the cache.
const LINE: u32 = 64;

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

/// The blocks of this process, and what senders are told of them.
pub struct Blocks {
    /// Blocks that peers write records to.
    pub(super) inlets: Vec<Option<PostInlet>>,
    pub(super) polling: Polling,
    /// A word for each rank, to which it returns credit.
    pub(super) returns: Buffers,
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

    /// Where the adapter wrote by another core, all lines of a record are asked for at once: else the envelope's would be waited for before those of the body.
    #[inline]
    fn expect(&self, at: u32, length: u32) {
        self.0.expect(at, length);
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

/// Writes a record by requests on the queue pair to a peer.
struct Post<'a> {
    peer: u32,
    /// Number of the message.
    seq: u32,
    queue: &'a mut Queue,
    stages: &'a mut Stages,
    /// What the message is kept in, if it is, and no mirror keeps it.
    log: Option<&'a mut Replay>,
    block: Place,
    /// A copy of the block, for the designs that need one: records are written from it.
    mirror: Option<&'a Buffers>,
    /// The end has begun.
    closing: bool,
    /// Staging buffers that a record has lain in.
    staged: &'a mut u128,
    failure: Option<Failure>,
}

/// Why a record could not be posted for good.
enum Failure {
    Verbs(VerbsError),
    /// The queue takes no request although it has room.
    Full,
}

impl Post<'_> {
    fn submit(&mut self, at: u32, elements: &[Element<'_>], flags: SendFlags, what: What) -> bool {
        let request = write(self.peer, self.block, at, elements);
        let posted = self.queue.submit(request, flags, what, self.closing);
        self.outcome(posted)
    }

    fn outcome(&mut self, posted: Result<bool, VerbsError>) -> bool {
        posted.unwrap_or_else(|error| {
            self.failure = Some(Failure::Verbs(error));
            false
        })
    }

    fn put_inline(&mut self, put: &Put<'_>, payload: Option<Source>) -> bool {
        let length = put.whole() as usize;
        let mut loose;
        // Who keeps the message lays it out where it is kept.
        let mut log = self.log.as_deref_mut().filter(|_| payload.is_some());
        let bytes = match &mut log {
            Some(log) => match log.room(length) {
                Some(room) => room,
                None => return false,
            },
            None => {
                loose = [0_u8; INLINE];
                &mut loose[..length]
            }
        };
        put.lay(bytes, |to| {
            if let Some(payload) = payload {
                payload.copy_into(to);
            }
        });
        let elements = [Element::inline(bytes)];
        let request = write(self.peer, self.block, put.at, &elements);
        let posted = self
            .queue
            .submit(request, SendFlags::INLINE, What::Room, self.closing);
        if let (Ok(true), Some(log)) = (&posted, log) {
            let end = put.payload_at() + put.length;
            log.commit(self.seq, put.head_at() as usize..end as usize);
        }
        self.outcome(posted)
    }

    fn put_staged(&mut self, put: &Put<'_>, payload: Option<Source>) -> bool {
        let Some(buffer) = self.stages.take_for_record() else {
            return false;
        };
        let length = put.head.len() as u32 + put.length;
        let log = self.log.as_deref().filter(|_| payload.is_some());
        let Some(keep) = Keep::choose(log, self.stages, buffer, length as usize) else {
            self.stages.give(buffer);
            return false;
        };
        *self.staged |= 1 << (buffer % STAGES);
        // As in the block, so that who copies it from line to line has both at the same place of theirs.
        let shift = put.at % LINE;
        fill(&self.stages.memory, buffer, shift, put, payload);
        let elements = [self.stages.memory.element_at(buffer, shift, put.whole())];
        let request = write(self.peer, self.block, put.at, &elements);
        let what = keep.completion(buffer);
        let posted = self
            .queue
            .submit(request, SendFlags::empty(), what, self.closing);
        let posted = self.outcome(posted);
        if !posted {
            self.stages.give(buffer);
        } else if let Some(log) = self.log.as_deref_mut() {
            let place = Held {
                seq: self.seq,
                buffer,
                at: shift + put.head_at(),
                length,
            };
            match keep {
                Keep::No => (),
                Keep::Held => log.hold(place),
                Keep::Copied => copy_staged(log, self.stages, place),
            }
        }
        posted
    }

    fn put_mirrored(&mut self, mirror: &Buffers, put: &Put<'_>, payload: Option<Source>) -> bool {
        // Once the mirror has changed, the block must.
        if self.queue.room() == 0 {
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
            let elements = [mirror.element_at(0, put.at, whole)];
            self.submit(put.at, &elements, SendFlags::empty(), What::Room)
        };
        if !posted && self.failure.is_none() {
            self.failure = Some(Failure::Full);
        }
        posted
    }
}

/// A request that writes to `at` in the block of `peer`.
#[inline]
fn write<'a>(peer: u32, block: Place, at: u32, elements: &'a [Element<'a>]) -> SendWr<'a> {
    let remote = block.address + u64::from(at);
    SendWr::write(Id::Peer(peer).code(), remote, RKey(block.rkey), elements)
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
    /// Puts a numbered message into the peer's block, and keeps it if `acks` says so; or says why not.
    pub(super) fn store(
        &mut self,
        peer: u32,
        head: &[u8],
        seq: u32,
        source: Source,
        acks: bool,
    ) -> Outcome<Option<Why>> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(Some(Why::NoChannel));
        };
        if link.together.bundle != 0 && head.len() + source.len() > LONGEST_BY_PACKETS {
            return Ok(Some(Why::TooLong));
        }
        let State::Open(open) = &mut link.fast.out.state else {
            return Ok(Some(Why::NoChannel));
        };
        if !link.fast.gate.is_open() {
            return Ok(Some(Why::Paused));
        }
        let returned = self.blocks.returns.word(peer * 8).load(Ordering::Acquire);
        open.machine.credit(returned as u32);
        let ack = (returned >> 32) as u32;
        if ack != link.acks.log.acknowledged() {
            acknowledged(
                &mut link.acks.log,
                &mut self.stages,
                ack,
                seq.wrapping_sub(1),
            );
        }
        let mut post = Post {
            peer,
            seq,
            queue: &mut link.wire.queue,
            stages: &mut self.stages,
            // Where the sender has a mirror of the block, that is the log.
            log: (acks && open.mirror.is_none()).then_some(&mut link.acks.log),
            block: open.block,
            mirror: open.mirror.as_ref(),
            closing: self.life.closing,
            staged: &mut self.stats.staged,
            failure: None,
        };
        let length = source.len() as u32;
        let push = open.machine.push(head, seq, length, source, &mut post);
        let failure = post.failure;
        match failure {
            None => (),
            Some(Failure::Verbs(error)) => {
                return Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED));
            }
            Some(Failure::Full) => {
                let text = "a queue that has room takes no request";
                return Err(MpiError::with(MPI_ERR_INTERN, text));
            }
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
        link.fast.out.judge(why);
        Ok(why)
    }

    /// Credit has come in an envelope of `peer`.
    #[inline]
    pub(super) fn credit(&mut self, peer: u32, consumed: u32) {
        if let Some(link) = self.links[peer as usize].as_deref_mut()
            && let State::Open(open) = &mut link.fast.out.state
        {
            open.machine.credit(consumed);
        }
    }

    /// The block that `peer` writes to.
    #[inline]
    pub(super) fn inlet_of(&mut self, peer: u32) -> Option<&mut PostInlet> {
        let index = self.links[peer as usize].as_deref()?.fast.inlet?;
        self.inlet(index)
    }

    #[inline]
    pub(super) fn inlet(&mut self, index: u32) -> Option<&mut PostInlet> {
        self.blocks.inlets.get_mut(index as usize)?.as_mut()
    }

    #[inline]
    fn is_ready(&self, index: u32) -> bool {
        self.blocks
            .inlets
            .get(index as usize)
            .and_then(Option::as_ref)
            .is_some_and(PostInlet::is_ready)
    }

    /// Whether a message has come by a block that nobody has looked at.
    pub fn has_records(&self) -> bool {
        self.blocks.inlets.iter().flatten().any(PostInlet::is_ready)
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
            let Some(index) = net.blocks.polling.hot(place) else {
                break;
            };
            if net.is_ready(index) {
                net.blocks.polling.hit(place);
                did |= self.drain_block(index)?;
            }
            place += 1;
        }
        let Some(net) = &mut self.net else {
            return Ok(did);
        };
        if let Some(index) = net.blocks.polling.next(net.blocks.inlets.len())
            && net.is_ready(index)
        {
            net.blocks.polling.warm(index);
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
            .and_then(|net| net.links[peer as usize].as_deref()?.fast.inlet);
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
                    net.link(from).acks.owed.told();
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
