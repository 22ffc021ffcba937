//! How sends begin.
//!
//! Owns: which way a message goes that is sent at once, waits, or is told of, and messages of a
//! process to itself. Must not know: how a channel stores it.

use crate::constants::MPI_ERR_INTERN;
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::host::{Source, Stored};
use crate::loss::dead;
use crate::p2p::point::Point;
use crate::p2p::unexpected::{Content, Held};
use crate::request::{Request, Work};
use crate::runtime::Runtime;
use crate::trace;
use crate::transport::contract::{Body, Head, Message, Offered, Place};
use ferriband_mpi_proto::envelope::{self, Kind, SYNC};
use zerocopy::IntoBytes;

/// Whom a message goes to, and under what name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Index of the communicator.
    pub comm: u32,
    /// Its context, with bit 0 for collectives.
    pub context: u64,
    /// Rank in the world.
    pub peer: u32,
    /// Tag.
    pub tag: i32,
}

/// What a send has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The buffer is the program's again.
    Done,
    /// A request knows.
    Pending(u32),
}

impl Point {
    /// Where a message to `rank` of the communicator at `comm` goes.
    #[inline(always)]
    pub fn target(&self, comm: u32, collective: bool, rank: u32, tag: i32) -> Option<Target> {
        let entry = &self.objects.comms[comm];
        let context = entry.context | if collective { COLLECTIVE } else { 0 };
        Some(Target {
            comm,
            context,
            peer: entry.world_of(context, rank)?,
            tag,
        })
    }
}

impl Runtime {
    /// Stores a short message of an untraced process to a rank of this host, where that takes
    /// nothing but the stores. False if it takes more: then nothing has happened.
    #[inline(always)]
    pub fn try_send(&mut self, to: &Target, source: &Source) -> bool {
        let Some(link) = self.shm.links.get_mut(to.peer as usize) else {
            return false;
        };
        let stored = if source.len() < link.exchange.0 {
            link.try_send(to.tag, to.context, source)
        } else {
            link.try_send_large(self.host.as_ref(), to.tag, to.context, *source)
        };
        if stored == Stored::Asleep
            && let Some(host) = &self.host
        {
            host.ring(to.peer);
        }
        stored != Stored::Not
    }

    /// Begins a send. A synchronous one is over when its receive has met it.
    #[inline(always)]
    pub fn start_send(
        &mut self,
        to: Target,
        source: Source,
        synchronous: bool,
    ) -> Outcome<Started> {
        if to.peer == self.point.rank {
            return self.send_to_self(to, source, synchronous);
        }
        let is_eager = source.len() <= self.settings.sizes.eager;
        let is_short = is_eager || self.shm.links[to.peer as usize].has_place(source.len());
        if is_short && !synchronous && !trace::is_on() && self.try_send(&to, &source) {
            return Ok(Started::Done);
        }
        self.start_further(to, source, synchronous, is_eager)
    }

    /// As [`Self::start_send`], where it takes more than to store one record.
    #[inline(never)]
    fn start_further(
        &mut self,
        to: Target,
        source: Source,
        synchronous: bool,
        is_eager: bool,
    ) -> Outcome<Started> {
        if is_eager && !synchronous && self.point.peers[to.peer as usize].fifo.is_empty() {
            let sent = self.send(to.peer, &Head::program(to.tag, to.context), &[], source)?;
            if sent.is_some() {
                return Ok(Started::Done);
            }
        }
        self.start_slow(to, source, synchronous, is_eager)
    }

    #[cold]
    fn start_slow(
        &mut self,
        to: Target,
        source: Source,
        synchronous: bool,
        is_eager: bool,
    ) -> Outcome<Started> {
        if self.point.peers[to.peer as usize].lost {
            return Err(dead(to.peer));
        }
        let is_eager =
            is_eager || self.goes_near(to.peer, source.len()) || self.goes_far(to.peer, &source);
        let work = match (is_eager, synchronous) {
            (true, false) => Work::Eager,
            (true, true) => Work::Synchronous,
            (false, _) => Work::Rendezvous,
        };
        let request = self
            .point
            .requests
            .add(Request::send(work, to.comm, to.context, to.peer, source))?;
        let mut message = Message {
            head: Head {
                flags: if work == Work::Synchronous { SYNC } else { 0 },
                ..Head::program(to.tag, to.context)
            },
            body: Body::EMPTY,
            source,
            token: self.point.requests.slab.token(request),
        };
        if work == Work::Rendezvous {
            // Elements with gaps are not to be read: the receiver asks for them.
            let net = self.net.as_mut().filter(|net| net.reaches(to.peer));
            let offered = if let Some(net) = net {
                net.offer(to.peer, message.token, source)
            } else if let Some(address) = source.address() {
                self.pages.note(Some(address), source.len());
                self.offer_nearby(request);
                Offered::Readable(Place { address, rkey: 0 })
            } else {
                Offered::Parts
            };
            let mode = match offered {
                Offered::Readable(_) => envelope::GET,
                Offered::Whole => envelope::WHOLE,
                Offered::Parts => envelope::PUT,
            };
            let Place { address, rkey } = offered.place().unwrap_or_default();
            let rts = envelope::Rts {
                send_request: self.point.requests.token(request).into(),
                length: (source.len() as u64).into(),
                address: address.into(),
                rkey: rkey.into(),
                mode: mode.into(),
            };
            message.head.kind = Kind::Rts;
            message.body = Body::new(rts.as_bytes());
            message.source = Source::EMPTY;
        }
        self.queue(to.peer, message)?;
        Ok(Started::Pending(request))
    }

    /// Whether a message of `length` bytes to `peer`, longer than what is sent eagerly everywhere,
    /// goes eagerly by memory that both share: where blocks are large enough.
    fn goes_near(&self, peer: u32, length: usize) -> bool {
        self.reached[peer as usize].is_by_memory() && length <= self.settings.sizes.eager_near
    }

    /// Whether a message to `peer`, longer than what is sent eagerly everywhere, goes eagerly by
    /// verbs.
    fn goes_far(&self, peer: u32, source: &Source) -> bool {
        let net = self.net.as_ref();
        net.is_some_and(|net| net.goes_eager(peer, source))
    }

    #[cold]
    fn send_to_self(&mut self, to: Target, source: Source, synchronous: bool) -> Outcome<Started> {
        let Some(rank) = self.point.objects.comms[to.comm].rank_of(to.context, to.peer) else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        if let Some(receive) = self.point.objects.comms[to.comm]
            .matching(to.context)
            .arrive(rank, to.tag)
        {
            let entry = &mut self.point.requests[receive];
            source.copy_to(&entry.sink);
            entry.peer = to.peer;
            self.received(receive, rank, to.tag, source.len() as u64);
            return Ok(Started::Done);
        }
        let keeps_copy = !synchronous && source.len() <= OWN_COPY;
        let (content, started) = if keeps_copy {
            (
                Content::Bytes(source.to_bytes().ok_or_else(super::deliver::no_memory)?),
                Started::Done,
            )
        } else {
            let request = self.point.requests.add(Request::send(
                Work::Own,
                to.comm,
                to.context,
                to.peer,
                source,
            ))?;
            (Content::Own { request }, Started::Pending(request))
        };
        self.point.hold(
            to.comm,
            to.context,
            Held {
                from: to.peer,
                tag: to.tag,
                content,
                seq: 0,
                synchronous: None,
            },
        )?;
        Ok(started)
    }
}

/// Messages of a process to itself up to this length, in bytes, are copied and need no receive to
/// be over.
const OWN_COPY: usize = 1 << 16;
