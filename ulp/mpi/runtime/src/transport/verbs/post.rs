//! Records of the fast path that go to a peer: how one is written into its block by requests, from
//! registers, from a staging buffer or from the sender's copy of the block.

use super::acks::{Keep, acknowledged};
use super::channel::State;
use super::heal::Needed;
use super::memory::{Area, Buffers};
use super::queue::{Queue, What};
use super::stages::{STAGES, Stages};
use super::stats::Why;
use super::{INLINE, Net, RECEIVE};
use crate::errors::Outcome;
use crate::ground::memory::Source;
use crate::transport::contract::Place;
use ferriband_ibv::{Element, RKey, SendFlags, SendWr, VerbsError};
use ferriband_mpi_proto::fast::{Busy, Push, Put, Writer};
use ferriband_mpi_proto::replay::{Held, Replay};
use std::sync::atomic::Ordering;

/// Bytes of a line of the cache.
const LINE: u32 = 64;
/// Envelope and payload of a record where our own adapter makes packets: a WRITE's first packet is
/// longer than the others, so it goes by itself, and a WRITE of three
/// costs the system two calls where a SEND costs one.
const LONGEST_BY_PACKETS: usize = 1024;

/// Writes a record by requests on the queue pair to a peer.
struct Post<'a> {
    /// Identifier of requests.
    id: u64,
    /// Number of the message.
    seq: u32,
    queue: &'a mut Queue,
    stages: &'a mut Stages,
    /// What the message is kept in, if it is.
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

/// Why a record was not posted.
struct Failure {
    error: VerbsError,
    /// The copy of the block has the record, and the block has not.
    is_torn: bool,
}

impl Post<'_> {
    fn submit(&mut self, at: u32, elements: &[Element<'_>], flags: SendFlags, what: What) -> bool {
        let request = write(self.id, self.block, at, elements);
        let posted = self.queue.submit(request, flags, what, self.closing);
        self.outcome(posted)
    }

    fn outcome(&mut self, posted: Result<bool, VerbsError>) -> bool {
        posted.unwrap_or_else(|error| {
            let is_torn = self.mirror.is_some();
            self.failure = Some(Failure { error, is_torn });
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
        let request = write(self.id, self.block, put.at, &elements);
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
        // As in the block, so that who copies it from line to line has both at the same place of
        // theirs.
        let shift = put.at % LINE;
        fill(&self.stages.memory, buffer, shift, put, payload);
        let key = self.queue.stage;
        let elements = [(self.stages.memory).element_by(key, buffer, shift, put.whole())];
        let request = write(self.id, self.block, put.at, &elements);
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
            keep.keep(log, self.stages, place);
        }
        posted
    }

    fn put_mirrored(&mut self, mirror: &Buffers, put: &Put<'_>, payload: Option<Source>) -> bool {
        let length = put.head.len() + put.length as usize;
        // A mirror is a picture of a block that is gone once the connection has failed.
        let log = self.log.as_deref().filter(|_| payload.is_some());
        let can_keep = log.is_none_or(|log| log.has_room(length));
        // Once the mirror has changed, the block must.
        if self.queue.room() == 0 || !can_keep {
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
        if posted && let Some((log, payload)) = self.log.as_deref_mut().zip(payload) {
            let head: [&[u8]; 2] = [put.head, &[]];
            log.keep(self.seq, head, put.length as usize, |rest| {
                payload.copy_into(rest);
            });
        }
        posted
    }
}

/// A request `id` that writes to `at` in the peer's block.
#[inline]
fn write<'a>(id: u64, block: Place, at: u32, elements: &'a [Element<'a>]) -> SendWr<'a> {
    let remote = block.address + u64::from(at);
    SendWr::write(id, remote, RKey(block.rkey), elements)
}

/// Puts what is written to `at` in a buffer; what has no meaning stays what it is.
fn fill(buffers: &Area, index: u32, at: u32, put: &Put<'_>, payload: Option<Source>) {
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
    /// Credit has come in an envelope of `peer`.
    #[inline]
    pub(super) fn credit(&mut self, peer: u32, consumed: u32) {
        if let Some(link) = self.links[peer as usize].as_deref_mut()
            && let State::Open(open) = &mut link.fast.out.state
        {
            open.machine.credit(consumed);
        }
    }

    /// Puts a numbered message into the peer's block, and keeps it if `acks` says so; or says why
    /// not.
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
                (&mut self.stages, &mut self.life.news),
                ack,
                seq.wrapping_sub(1),
            );
        }
        let mut post = Post {
            id: link.wire.id,
            seq,
            queue: &mut link.wire.queue,
            stages: &mut self.stages,
            log: acks.then_some(&mut link.acks.log),
            block: open.block,
            mirror: open.mirror.as_ref(),
            closing: self.life.closing,
            staged: &mut self.stats.staged,
            failure: None,
        };
        let length = source.len() as u32;
        let push = open.machine.push(head, seq, length, source, &mut post);
        let failure = post.failure;
        if let Some(Failure { error, is_torn }) = failure {
            match is_torn {
                true => self.verb_failed(peer, Needed::Request, &error)?,
                false => self.unposted(peer, &error)?,
            };
            return Ok(Some(Why::Busy));
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
}

const _: () = assert!(RECEIVE as usize > INLINE);
