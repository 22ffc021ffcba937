//! The other ranks by verbs: a device, and to each peer that is spoken to a reliable connection, made when there is first need of it.
//!
//! Owns: the device and what is made of it, the shared receive queue and its buffers, the connections and how they come about ([`setup`]), which
//! request a completion is about ([`arrive`]), and long messages ([`long`]). Must not know: what a message says beyond its envelope. Memory that
//! a device or a peer writes, and the program's memory in requests, are touched in [`memory`] alone.

mod acks;
mod arrive;
mod bundle;
mod channel;
mod device;
mod fast;
mod lane;
pub mod limits;
pub mod link;
mod long;
pub mod memory;
mod setup;
mod stages;
pub mod stats;

pub use device::Wanted;

use crate::constants::{
    MPI_ERR_BUFFER, MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED,
    MPI_ERR_UNSUPPORTED_OPERATION,
};
use crate::errors::{MpiError, Outcome};
use crate::host::Source;
use crate::runtime::Runtime;
use crate::trace;
use crate::transport::polling::Polling;
use acks::Keep;
use arrive::Arrived;
use fast::PostInlet;
use ferriband_ibv::{
    CompChannel, Context, Cq, DeviceLimits, Element, Mtu, Pd, Qp, SendFlags, SendWr, Srq,
    VerbsError, Wc,
};
use ferriband_mpi_proto::brief::{Pattern, fills_a_packet, fills_packets};
use ferriband_mpi_proto::connect::Card;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind, PADDED};
use ferriband_mpi_proto::replay::Held;
use ferriband_mpi_proto::settings::LONGEST_BY_PACKETS;
use link::{Link, What};
use long::Transfer;
use memory::{Buffers, Reach, Reachable};
use stages::Stages;
use stats::{Stats, Why};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a receive buffer: the longest message that comes eagerly, and its envelope.
const RECEIVE: u32 = 8192;
/// The same where our own adapter makes packets: longer messages come eagerly there, and short ones together.
const LONG_RECEIVE: u32 = LONGEST_BY_PACKETS as u32 + 64;
/// Bytes of messages that go together, so that they cost one run of packets: 56 of 1,024 bytes are what the kernel takes at once.
const BUNDLE: u32 = 56 << 10;
/// Receives that are posted at first.
const RECEIVES: u32 = 64;
/// The most that are posted, once they have run short.
const MOST_RECEIVES: u32 = 1024;
/// Bytes of a staging buffer: a record of the longest message, wherever in its line it begins.
const STAGE: u32 = 8512;
/// Bytes of a message with its envelope that go into the request itself.
const INLINE: usize = 256;

/// The device and what is connected by it.
pub struct Net {
    context: Arc<Context>,
    name: String,
    limits: DeviceLimits,
    /// What this rank leaves for the others.
    pub card: Card,
    gid_index: u8,
    /// This device is ours, on Ethernet: what goes to other hosts it cuts into packets itself.
    makes_packets: bool,
    /// There may be lanes: completions of theirs have room.
    has_lanes: bool,
    /// Completions are being looked at: what they cause to be sent waits until all have been, and goes together.
    is_taking: bool,
    /// What waits goes now all the same.
    presses: bool,
    /// Room for completions: most looks find none, and room that is made anew each time costs as much as the look.
    batch: Box<[Wc; arrive::BATCH]>,
    mtu: Mtu,
    /// How long a request waits for an answer before it is repeated, as verbs code it.
    timeout: u8,
    pd: Arc<Pd>,
    channel: Arc<CompChannel>,
    cq: Arc<Cq>,
    srq: Arc<Srq>,
    receives: Buffers,
    /// How many of them are in use.
    received: u32,
    /// Those to be posted again.
    spent: Vec<u32>,
    /// Those with messages for which there was no memory, in the order in which they came. While there are some, no other message is taken, and peers find no
    /// receive after a while.
    parked: VecDeque<Arrived>,
    stages: Stages,
    ud: Arc<Qp>,
    datagrams: Buffers,
    datagrams_under_way: u32,
    secret: u64,
    me: u32,
    links: Vec<Option<Box<Link>>>,
    by_number: HashMap<u32, u32>,
    last: (u32, u32),
    /// Ranks whose connection is being set up.
    setting_up: Vec<u32>,
    /// Ranks that messages have gone to since the last look at the device, where messages go together.
    bursts: Vec<u32>,
    /// Ranks that were lost: what concerns them has still to end.
    gone: Vec<u32>,
    /// The device has failed: nothing of it is asked any more.
    is_dead: bool,
    /// Blocks that peers write records to.
    inlets: Vec<Option<PostInlet>>,
    /// Peers who are to be told what has been taken from them, once there is room.
    owing: Vec<u32>,
    /// When their senders were last judged.
    judged: Instant,
    polling: Polling,
    /// A word for each rank, to which it returns credit.
    returns: Buffers,
    reach: Reach,
    /// Messages that peers may read: by the index of their request.
    offers: HashMap<u32, Reachable>,
    transfers: Vec<Option<Transfer>>,
    /// Ranks with long messages that are not posted whole.
    movers: Vec<u32>,
    started: Instant,
    /// When this rank last made sure that its peers are there.
    alive: Instant,
    /// The end has begun: each request has a completion.
    closing: bool,
    /// What has been counted.
    pub stats: Stats,
}

/// Whether a peer can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Yes,
    /// Its connection is being made.
    NotYet,
}

/// What a request's identifier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    /// Receive buffer.
    Receive(u32),
    /// Buffer of a datagram.
    Datagram(u32),
    /// A datagram of this process.
    Sent,
    /// A request to this rank.
    Peer(u32),
    /// A SEND to this rank by the lane.
    Laned(u32),
    /// What comes from this rank by the lane.
    Landed(u32),
}

impl Id {
    #[inline]
    fn code(self) -> u64 {
        match self {
            Self::Receive(index) => 1 << 32 | u64::from(index),
            Self::Datagram(index) => 2 << 32 | u64::from(index),
            Self::Sent => 3 << 32,
            Self::Peer(rank) => 4 << 32 | u64::from(rank),
            Self::Laned(rank) => 5 << 32 | u64::from(rank),
            Self::Landed(rank) => 6 << 32 | u64::from(rank),
        }
    }

    #[inline]
    fn of(code: u64) -> Option<Self> {
        let index = code as u32;
        Some(match code >> 32 {
            1 => Self::Receive(index),
            2 => Self::Datagram(index),
            3 => Self::Sent,
            4 => Self::Peer(index),
            5 => Self::Laned(index),
            6 => Self::Landed(index),
            _ => return None,
        })
    }
}

impl Runtime {
    /// Sends a message to a peer that is reached by verbs. False: not now.
    #[allow(clippy::too_many_arguments)] // an envelope's fields and what follows it
    pub fn post(
        &mut self,
        peer: u32,
        kind: Kind,
        flags: u8,
        tag: i32,
        context: u64,
        body: &[u8],
        source: Source,
    ) -> Outcome<bool> {
        if self.ready(peer)? == Ready::NotYet {
            return Ok(false);
        }
        if kind.is_numbered() && self.waits_for_others(peer) {
            return Ok(false);
        }
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        let acks = self.settings.verbs.acks && kind.is_numbered();
        let entry = &mut self.peers[peer as usize];
        let length = ENVELOPE + body.len() + source.len();
        let seq = entry.sent.wrapping_add(1);
        let envelope = Envelope {
            kind,
            flags,
            seq: if kind.is_numbered() { seq } else { 0 },
            ack: entry.received,
            credit: net.report(peer),
            tag,
            context,
        };
        let head = envelope.emit();
        if !kind.is_numbered() {
            return net.send(peer, &envelope, body, source, None);
        }
        let keep = acks.then_some(seq);
        let why = net.store_with(peer, &head, seq, body, source, acks)?;
        if why.is_some() && !net.send(peer, &envelope, body, source, keep)? {
            if acks {
                // Perhaps for want of room to keep it, which comes without a completion.
                net.has_log_room(peer, length, entry.sent);
            }
            return Ok(false);
        }
        entry.sent = seq;
        if why.is_none() {
            net.told(peer);
        }
        net.count_burst(peer);
        if trace::is_on() {
            trace::sent(peer, kind, seq, tag, context, body, source.len());
        }
        if let Some(why) = why {
            net.stats.count(why);
            self.count_send(peer)?;
        }
        Ok(true)
    }
}

impl Net {
    /// Credit to tell `peer` of.
    #[inline]
    fn report(&mut self, peer: u32) -> u32 {
        self.inlet_of(peer).map_or(0, PostInlet::report)
    }

    /// Puts a message into the peer's block, if that can take it; else why not.
    #[inline]
    fn store_with(
        &mut self,
        peer: u32,
        head: &[u8; ENVELOPE],
        seq: u32,
        body: &[u8],
        source: Source,
        acks: bool,
    ) -> Outcome<Option<Why>> {
        if body.is_empty() {
            return self.store(peer, head, seq, source, acks);
        }
        let mut whole = [0; ENVELOPE + 48];
        let length = ENVELOPE + body.len();
        whole[..ENVELOPE].copy_from_slice(head);
        whole[ENVELOPE..length].copy_from_slice(body);
        self.store(peer, &whole[..length], seq, source, acks)
    }

    /// Posts a SEND of envelope, body and payload, and keeps it under the number `keep`. False if there is no room.
    fn send(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        body: &[u8],
        source: Source,
        keep: Option<u32>,
    ) -> Outcome<bool> {
        let length = ENVELOPE + body.len() + source.len();
        if length > self.longest_send(peer) {
            return Err(MpiError::with(
                MPI_ERR_INTERN,
                "a message is longer than a receive buffer",
            ));
        }
        let sent = if length <= INLINE {
            self.send_inline(peer, envelope, body, source, keep)?
        } else {
            self.send_staged(peer, envelope, body, source, keep)?
        };
        self.stats.sends += u64::from(sent);
        Ok(sent)
    }

    #[inline]
    fn send_inline(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        body: &[u8],
        source: Source,
        keep: Option<u32>,
    ) -> Outcome<bool> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        let at = ENVELOPE + body.len();
        let length = at + source.len();
        let mut loose;
        let bytes = match keep {
            Some(_) => match link.log.room(length) {
                Some(room) => room,
                None => return Ok(false),
            },
            None => {
                loose = [0_u8; INLINE];
                &mut loose[..length]
            }
        };
        bytes[..ENVELOPE].copy_from_slice(&envelope.emit());
        bytes[ENVELOPE..at].copy_from_slice(body);
        source.copy_into(&mut bytes[at..]);
        let elements = [Element::inline(bytes)];
        let request = SendWr::send(Id::Peer(peer).code(), &elements);
        let flags = SendFlags::INLINE;
        match link.queue.submit(request, flags, What::Room, self.closing) {
            Ok(true) => {
                if let Some(seq) = keep {
                    link.log.commit(seq, 0..length);
                }
                link.has_said(envelope);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED)),
        }
    }

    /// A message that fills packets goes without its envelope, where the peer knows what that says; it is kept with it.
    fn send_staged(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        body: &[u8],
        source: Source,
        keep: Option<u32>,
    ) -> Outcome<bool> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        let Some(buffer) = self.stages.take() else {
            return Ok(false);
        };
        let at = ENVELOPE + body.len();
        let length = (at + source.len()) as u32;
        let log = keep.map(|_| &link.log);
        let Some(how) = Keep::choose(log, &self.stages, buffer, length as usize) else {
            self.stages.give(buffer);
            return Ok(false);
        };
        let mtu = link.mtu as usize;
        let is_known = Pattern::of(envelope).is_some_and(|one| Some(one) == link.said);
        let is_brief = is_known && fills_a_packet(source.len(), ENVELOPE, mtu);
        let is_bare = is_known && fills_packets(source.len(), mtu) && link.needs_no_word(envelope);
        let pad = u32::from(!is_bare && fills_packets(length as usize, mtu));
        let envelope = Envelope {
            flags: envelope.flags | if pad == 0 { 0 } else { PADDED },
            ..*envelope
        };
        let memory = &self.stages.memory;
        memory.write(buffer, 0, &envelope.emit());
        memory.write(buffer, ENVELOPE as u32, body);
        memory.fill(buffer, at as u32, source);
        let left_out = if is_brief || is_bare {
            ENVELOPE as u32
        } else {
            0
        };
        let elements = [memory.element_at(buffer, left_out, length + pad - left_out)];
        let mut request = SendWr::send(Id::Peer(peer).code(), &elements);
        if is_brief {
            request = request.immediate(Pattern::numbers(&envelope));
        }
        let (flags, what) = (SendFlags::empty(), how.completion(buffer));
        let sent = match link.queue.submit(request, flags, what, self.closing) {
            Ok(sent) => sent,
            Err(error) => {
                self.stages.give(buffer);
                return Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED));
            }
        };
        if is_bare && sent {
            link.said_last.0 = envelope.seq;
        } else if sent {
            link.has_said(&envelope);
        }
        if !sent {
            self.stages.give(buffer);
        } else if let Some(seq) = keep {
            let place = Held {
                seq,
                buffer,
                at: 0,
                length,
            };
            match how {
                Keep::No => (),
                Keep::Held => link.log.hold(place),
                Keep::Copied => acks::copy_staged(&mut link.log, &self.stages, place),
            }
        }
        Ok(sent)
    }

    /// Bytes of the longest SEND to `peer`: what its receive buffers and our staging buffers hold.
    #[inline]
    fn longest_send(&self, peer: u32) -> usize {
        match self.links[peer as usize].as_deref() {
            Some(link) if link.bundle != 0 => link.bundle.min(self.card.receive) as usize,
            _ => RECEIVE as usize,
        }
    }

    /// Requests to `peer` for which there is room.
    fn room(&self, peer: u32) -> u32 {
        let link = self.links[peer as usize].as_deref();
        link.map_or(0, |link| link.queue.room())
    }

    /// Posts a request to a connected peer. False if its queue is full.
    fn submit(
        &mut self,
        peer: u32,
        request: SendWr<'_>,
        flags: SendFlags,
        what: What,
    ) -> Outcome<bool> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        match link.queue.submit(request, flags, what, self.closing) {
            Ok(posted) => Ok(posted),
            Err(error) => Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED)),
        }
    }

    /// The connection to `peer` is gone: nothing of it reads or writes memory any more, and what it held of others' is free.
    #[cold]
    fn lose(&mut self, peer: u32, why: &str, class: i32) -> MpiError {
        let text = format!(
            "the connection to rank {peer} by {} is lost: {why}",
            self.name
        );
        let link = self.link(peer);
        if link.lost.is_none() {
            link.lost = Some(text.clone());
            self.gone.push(peer);
        }
        let link = self.link(peer);
        link.lane.lose();
        link.moving.clear();
        (link.out, link.gate, link.lull) = Default::default();
        (link.is_log_full, link.owed) = Default::default();
        let number = link.queue.qp.take().map(|qp| qp.number().0);
        let held: Vec<u32> = link.log.abandon().collect();
        for buffer in held {
            self.stages.give(buffer);
        }
        while let Some(what) = self.link(peer).queue.completed() {
            match what {
                What::Room => (),
                What::Buffer(buffer)
                | What::Moved {
                    buffer: Some(buffer),
                    ..
                } => self.stages.give(buffer),
                What::Moved { buffer: None, .. } => (),
            }
        }
        if let Some(number) = number {
            self.by_number.remove(&number);
            self.last = (u32::MAX, 0);
        }
        self.movers.retain(|mover| *mover != peer);
        for transfer in &mut self.transfers {
            if transfer.as_ref().is_some_and(|one| one.peer() == peer) {
                *transfer = None;
            }
        }
        MpiError::with(class, text)
    }

    /// The rank behind one of our queue pairs.
    #[inline]
    fn rank_of(&mut self, number: u32) -> Option<u32> {
        if self.last.0 == number {
            return Some(self.last.1);
        }
        let rank = *self.by_number.get(&number)?;
        self.last = (number, rank);
        Some(rank)
    }

    /// Nanoseconds since the device was opened.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An error of the device, in words.
#[cold]
fn refused(what: &str, name: &str, error: &std::io::Error) -> MpiError {
    let class = class_of(error.raw_os_error().unwrap_or(0));
    MpiError::with(class, format!("{name}: cannot {what}: {error}"))
}

/// A verb that failed.
#[cold]
fn failed(name: &str, error: VerbsError) -> MpiError {
    MpiError::with(class_of(error.errno()), format!("{name}: {error}"))
}

/// The class of what a device or the kernel does not do: the one table of them.
#[cold]
fn class_of(errno: i32) -> i32 {
    match errno {
        libc::ENOMEM | libc::EAGAIN | libc::ENOBUFS => MPI_ERR_NO_MEM,
        libc::EFAULT => MPI_ERR_BUFFER,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::EPROTONOSUPPORT => MPI_ERR_UNSUPPORTED_OPERATION,
        libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH => MPI_ERR_PROC_ABORTED,
        _ => MPI_ERR_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_known_has_its_class() {
        for (errno, class) in [
            (libc::ENOMEM, MPI_ERR_NO_MEM),
            (libc::EAGAIN, MPI_ERR_NO_MEM),
            (libc::EFAULT, MPI_ERR_BUFFER),
            (libc::EOPNOTSUPP, MPI_ERR_UNSUPPORTED_OPERATION),
            (libc::EHOSTUNREACH, MPI_ERR_PROC_ABORTED),
            (libc::EIO, MPI_ERR_OTHER),
        ] {
            let error = std::io::Error::from_raw_os_error(errno);
            assert_eq!(refused("try", "ferri0", &error).class, class, "{error}");
        }
    }
}
