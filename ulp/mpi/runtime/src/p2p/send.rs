//! How sends begin.
//!
//! Owns: which way a message goes that is sent at once, waits, or is told of, and messages of a
//! process to itself. Must not know: how a channel stores it.

use crate::constants::MPI_ERR_INTERN;
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::ground::memory::Source;
use crate::p2p::loss::dead;
use crate::p2p::point::Point;
use crate::p2p::request::{Request, Work};
use crate::p2p::runtime::Runtime;
use crate::p2p::unexpected::{Content, Held};
use crate::trace;
use crate::transport::contract::{Body, Head, LongSend, Message};
use ferriband_mpi_proto::envelope::{Kind, SYNC};
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
        self.transports
            .try_send(to.peer, to.tag, to.context, source)
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
        let is_eager = source.len() <= self.transports.eager();
        let is_short = is_eager || self.transports.stores(to.peer, source.len());
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
        let peer = &self.point.peers[to.peer as usize];
        if peer.lost {
            return Err(dead(to.peer));
        }
        if is_eager && !synchronous && peer.fifo.is_empty() {
            let head = Head::program(to.tag, to.context);
            if self.transports.post(to.peer, &head, &[], source)?.is_some() {
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
        let is_eager = is_eager || self.transports.goes_eager(to.peer, &source);
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
            let what = LongSend {
                token: message.token,
                name: self.point.requests.token(request),
                source,
            };
            let offered = self.transports.offer(to.peer, &what);
            let rts = offered.rts(what.name, source.len() as u64);
            message.head.kind = Kind::Rts;
            message.body = Body::new(rts.as_bytes());
            message.source = Source::EMPTY;
        }
        self.queue(to.peer, message)?;
        Ok(Started::Pending(request))
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
