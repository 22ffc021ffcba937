//! The RDMA fast path with verbs: records that the sender WRITEs into a block of the receiver's memory, which the receiver polls.
//!
//! A sender asks for a block after so many messages (OPEN); the receiver makes one if its queue pair vouches for the order of what comes in and the cap is
//! not reached (OPENED). Credit comes back by a WRITE to a word of the sender's, and in every envelope. What finds no credit goes by SEND, and one
//! sequence of numbers spans both: a record whose turn has not come stays in the block; a SEND whose turn has not come finds the records before it
//! in the block, because both took the same queue pair.

use super::link::What;
use super::memory::Buffers;
use super::{INLINE, Id, Net, RECEIVE};
use crate::errors::{MpiError, Outcome};
use crate::host::Source;
use crate::runtime::{Place, Runtime};
use ferriband_ibv::{Access, Element, RKey, SendFlags, SendWr, WrOpcode};
use ferriband_mpi_proto::envelope::{Channel, ENVELOPE, Envelope, Kind};
use ferriband_mpi_proto::fast::{
    Block, Broken, Busy, Carrier, Push, Receiver, Record, Sender, Shape, Write,
};
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;
/// After a refusal, so many messages pass before the next question, then twice as many.
const AGAIN: u32 = 1000;
/// The fill that OPEN names: variable bottom-fill.
const VELOBLOCK: u32 = 4;

/// The way of records to a peer.
#[derive(Debug, Default)]
pub struct Outbound {
    state: State,
    /// Messages since the last question.
    messages: u32,
    refusals: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    Opening,
    Open {
        machine: Sender,
        block: Place,
    },
}

/// A block of this process that a peer writes to.
pub struct PostInlet {
    /// Rank of that peer.
    pub from: u32,
    machine: Receiver,
    memory: Memory,
    /// The word of the sender's that takes credit.
    returns: Place,
    /// Credit is to be returned, and there was no room for the request.
    owes: bool,
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

    fn peek(&mut self) -> Result<Option<Record>, Broken> {
        self.machine.peek(&self.memory)
    }
}

/// Writes records by requests on the queue pair to a peer.
struct Post<'a> {
    net: &'a mut Net,
    peer: u32,
    block: Place,
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
}

impl Carrier for Post<'_> {
    type Payload = Source;

    fn write(&mut self, write: &Write<'_>, payload: Source) -> Result<(), Busy> {
        let head = 8 + write.pad as usize;
        let body = head + write.head.len();
        let trailer = body + write.length as usize;
        let length = trailer + 8;
        let posted = if length <= INLINE {
            let mut bytes = [0_u8; INLINE];
            bytes[head..body].copy_from_slice(write.head);
            payload.copy_into(&mut bytes[body..trailer]);
            bytes[trailer..length].copy_from_slice(&write.trailer.to_le_bytes());
            let elements = [Element::inline(&bytes[..length])];
            self.submit(write.at, &elements, SendFlags::INLINE, What::Room)
        } else {
            let Some(buffer) = self.net.free.pop() else {
                return Err(Busy);
            };
            let stages = &self.net.stages;
            stages.write(buffer, 0, &[0; 8]);
            stages.write(buffer, head as u32, write.head);
            stages.fill(buffer, body as u32, payload);
            stages.write(buffer, trailer as u32, &write.trailer.to_le_bytes());
            let elements = [stages.element(buffer, length as u32)];
            let what = What::Buffer(buffer);
            let posted = self.submit(write.at, &elements, SendFlags::empty(), what);
            if !posted {
                self.net.free.push(buffer);
            }
            posted
        };
        posted.then_some(()).ok_or(Busy)
    }

    fn mark(&mut self, at: u32, word: u64) -> Result<(), Busy> {
        let bytes = word.to_le_bytes();
        let elements = [Element::inline(&bytes)];
        self.submit(at, &elements, SendFlags::INLINE, What::Room)
            .then_some(())
            .ok_or(Busy)
    }
}

impl Net {
    /// Puts a numbered message into the peer's block, if there is one and room in it.
    pub(super) fn store(
        &mut self,
        peer: u32,
        head: &[u8],
        seq: u32,
        source: Source,
    ) -> Outcome<bool> {
        let returned = self.returns.word(peer * 8).load(Ordering::Acquire) as u32;
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        let State::Open { machine, block } = &mut link.out.state else {
            return Ok(false);
        };
        machine.credit(returned);
        let (mut machine, block) = (machine.clone(), *block);
        let mut post = Post {
            net: self,
            peer,
            block,
            failure: None,
        };
        let push = machine.push(head, seq, source.len() as u32, source, &mut post);
        if let Some(failure) = post.failure {
            return Err(failure);
        }
        // A record may have found no room after a mark that did.
        if let State::Open { machine: kept, .. } = &mut self.link(peer).out.state {
            *kept = machine;
        }
        match push {
            Push::Stored => self.stats.stored += 1,
            Push::NoCredit => self.stats.no_credit += 1,
            Push::TooLong => self.stats.too_long += 1,
            Push::Busy => self.stats.busy += 1,
        }
        Ok(push == Push::Stored)
    }

    /// Credit has come in an envelope of `peer`.
    #[inline]
    pub(super) fn credit(&mut self, peer: u32, consumed: u32) {
        if let Some(link) = self.links[peer as usize].as_deref_mut()
            && let State::Open { machine, .. } = &mut link.out.state
        {
            machine.credit(consumed);
        }
    }

    /// Whether a message has come by a block that nobody has looked at.
    pub fn has_records(&self) -> bool {
        self.inlets.iter().any(PostInlet::is_ready)
    }

    /// Tells the sender of channel `index` what has been consumed, by a WRITE.
    fn return_credit(&mut self, index: u32, ack: u32) -> Outcome {
        let Some(inlet) = self.inlets.get_mut(index as usize) else {
            return Ok(());
        };
        let (peer, to) = (inlet.from, inlet.returns);
        let word = u64::from(ack) << 32 | u64::from(inlet.machine.report());
        let bytes = word.to_le_bytes();
        let elements = [Element::inline(&bytes)];
        let request = SendWr::write(Id::Peer(peer).code(), to.address, RKey(to.rkey), &elements);
        let posted = self.submit(peer, request, SendFlags::INLINE, What::Room)?;
        self.inlets[index as usize].owes = !posted;
        Ok(())
    }

    /// Makes a block for `peer`, if it may have one.
    fn grant(&mut self, peer: u32, asked: &Channel, most: u32) -> Option<Channel> {
        let shape = Shape::new(asked.size.get(), asked.granule.get())?;
        let is_new = self.inlets.iter().all(|inlet| inlet.from != peer);
        if asked.design.get() != VELOBLOCK || !is_new || self.inlets.len() >= most as usize {
            return None;
        }
        // Who receives asks: the answer is about what comes in to its queue pair.
        let order = self.link(peer).qp.as_ref()?.in_order(WrOpcode::RdmaWrite);
        if !order.last_byte_last {
            return None;
        }
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let name = c"ferriband-mpi-block";
        let memory = Buffers::new(&self.pd, name, 1, shape.size(), access).ok()?;
        let granted = Channel {
            design: asked.design,
            size: asked.size,
            granule: asked.granule,
            rkey: memory.rkey().into(),
            address: memory.address().into(),
            epoch: asked.epoch,
            granted: 1.into(),
        };
        self.stats.blocks += u64::from(shape.size());
        self.inlets.push(PostInlet {
            from: peer,
            machine: Receiver::new(shape),
            memory: Memory(memory),
            returns: Place {
                address: asked.address.get(),
                rkey: asked.rkey.get(),
            },
            owes: false,
        });
        Some(granted)
    }
}

impl Runtime {
    /// A message goes by SEND: asks for a block once there have been enough.
    pub(super) fn count_send(&mut self, peer: u32) -> Outcome {
        let fast = self.settings.fast;
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if fast.channels == 0 {
            return Ok(());
        }
        let at = Place {
            address: net.returns.address() + u64::from(peer) * 8,
            rkey: net.returns.rkey(),
        };
        let closing = net.closing;
        let out = &mut net.link(peer).out;
        out.messages = out.messages.saturating_add(1);
        let enough = match out.refusals {
            0 => fast.open_after,
            times => AGAIN << (times - 1).min(20),
        };
        if !matches!(out.state, State::Closed) || out.messages < enough || closing {
            return Ok(());
        }
        out.state = State::Opening;
        out.messages = 0;
        let open = Channel {
            design: VELOBLOCK.into(),
            size: fast.shape.size().into(),
            granule: fast.shape.granule().into(),
            rkey: at.rkey.into(),
            address: at.address.into(),
            epoch: 0.into(),
            granted: 0.into(),
        };
        self.answer(peer, Kind::Open, open.as_bytes())
    }

    /// `peer` asks for a block of this process.
    pub fn take_open(&mut self, peer: u32, open: &Channel) -> Outcome {
        let most = self.settings.fast.channels;
        let Some(net) = &mut self.net else {
            return Err(self.broken(peer));
        };
        let no = Channel {
            granted: 0.into(),
            ..*open
        };
        let answer = net.grant(peer, open, most).unwrap_or(no);
        self.answer(peer, Kind::Opened, answer.as_bytes())
    }

    /// `peer` answers.
    pub fn take_opened(&mut self, peer: u32, opened: &Channel) -> Outcome {
        let shape = Shape::new(opened.size.get(), opened.granule.get());
        let is_asked = shape == Some(self.settings.fast.shape);
        let is_opening = self
            .net
            .as_mut()
            .is_some_and(|net| matches!(net.link(peer).out.state, State::Opening));
        let (Some(net), Some(shape), true, true) = (&mut self.net, shape, is_asked, is_opening)
        else {
            return Err(self.broken(peer));
        };
        let out = &mut net.link(peer).out;
        if opened.granted.get() == 0 {
            out.state = State::Closed;
            out.refusals = out.refusals.saturating_add(1);
        } else {
            let block = Place {
                address: opened.address.get(),
                rkey: opened.rkey.get(),
            };
            out.state = State::Open {
                machine: Sender::new(shape),
                block,
            };
            net.stats.open += 1;
        }
        Ok(())
    }

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
            if net.inlets[index as usize].is_ready() {
                net.polling.hit(place);
                did |= self.drain_block(index)?;
            }
            place += 1;
        }
        let Some(net) = &mut self.net else {
            return Ok(did);
        };
        if let Some(index) = net.polling.next(net.inlets.len()) {
            if net.inlets[index as usize].is_ready() {
                net.polling.warm(index);
                did |= self.drain_block(index)?;
            } else if net.inlets[index as usize].owes {
                let ack = self.peers[net.inlets[index as usize].from as usize].received;
                net.return_credit(index, ack)?;
            }
        }
        Ok(did)
    }

    /// A SEND of `peer` has come before its turn: the records before it lie in its block.
    #[cold]
    pub(super) fn drain_before(&mut self, peer: u32) -> Outcome {
        let index = self
            .net
            .as_ref()
            .and_then(|net| net.inlets.iter().position(|inlet| inlet.from == peer));
        if let Some(index) = index {
            while self.drain_block(index as u32)? {}
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
            let inlet = &mut net.inlets[index as usize];
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
            let ack = envelope.seq;
            net.credit(from, envelope.credit);
            self.take(from, &envelope, body)?;
            did = true;
            let Some(net) = &mut self.net else {
                break;
            };
            let inlet = &mut net.inlets[index as usize];
            let is_due = inlet.machine.consume(&record, &mut inlet.memory);
            if is_due || inlet.owes {
                net.return_credit(index, ack)?;
            }
        }
        Ok(did)
    }
}

const _: () = assert!(RECEIVE as usize > INLINE);
