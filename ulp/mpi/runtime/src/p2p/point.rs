//! Sends and receives: how they begin, and what becomes of a message that has met its receive.

use crate::comm::COLLECTIVE;
use crate::constants::{
    MPI_ERR_BUFFER, MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED,
    MPI_ERR_TRUNCATE, MPI_SUCCESS,
};
use crate::errors::{MpiError, Outcome};
use crate::ground::status::Status;
use crate::host::{Pair, Sink, Source};
use crate::loss::dead;
use crate::nearby::{LARGE_PIECE, Way};
use crate::request::{EMPTY, Request, Work, status};
use crate::runtime::{Body, Content, Held, NOBODY, Offered, Place, Queued, Runtime};
use crate::trace;
use ferriband_mpi_proto::envelope::{self, ENVELOPE, Envelope, Kind, SYNC};
use ferriband_mpi_proto::fast::{Push, Shape};
use ferriband_mpi_proto::matching;
use ferriband_mpi_proto::segment::PLACE;
use std::time::Instant;
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

impl Runtime {
    /// Where a message to `rank` of the communicator at `comm` goes.
    #[inline(always)]
    pub fn target(&self, comm: u32, collective: bool, rank: u32, tag: i32) -> Option<Target> {
        let entry = &self.comms[comm];
        let context = entry.context | if collective { COLLECTIVE } else { 0 };
        Some(Target {
            comm,
            context,
            peer: entry.world_of(context, rank)?,
            tag,
        })
    }

    /// Begins a send. A synchronous one is over when its receive has met it.
    #[inline(always)]
    pub fn start_send(
        &mut self,
        to: Target,
        source: Source,
        synchronous: bool,
    ) -> Outcome<Started> {
        if to.peer == self.rank {
            return self.send_to_self(to, source, synchronous);
        }
        let is_eager = source.len() <= self.settings.eager;
        let is_short = is_eager || self.fits_place(to.peer, source.len());
        if is_short && !synchronous && !trace::is_on() && self.store(&to, source) {
            return Ok(Started::Done);
        }
        self.start_further(to, source, synchronous, is_eager)
    }

    /// Stores a short message of an untraced process to a rank of this host, where that takes nothing but the stores. False if it takes more: then nothing has happened.
    #[inline(always)]
    pub fn store(&mut self, to: &Target, source: Source) -> bool {
        let Some(entry) = self.peers.get_mut(to.peer as usize) else {
            return false;
        };
        let Some(outlet) = &mut entry.outlet else {
            return false;
        };
        if !entry.fifo.is_empty() {
            return false;
        }
        if source.len() >= self.settings.swap
            && entry.places.as_ref().is_some_and(Pair::is_open)
            && source.len() <= PLACE as usize
        {
            return self.store_placed(to, source);
        }
        let Some(place) = outlet.place(&source) else {
            return false;
        };
        let seq = entry.sent.wrapping_add(1);
        entry.sent = seq;
        let credit = match entry.inlet {
            Some(inlet) => self.inlets[inlet as usize].inlet.report(),
            None => 0,
        };
        let envelope = Envelope {
            kind: Kind::Eager,
            flags: 0,
            seq,
            ack: entry.received,
            credit,
            tag: to.tag,
            context: to.context,
        };
        if outlet.lay(&place, &envelope, &source)
            && let Some(host) = &self.host
        {
            host.ring(to.peer);
        }
        true
    }

    /// The same where it takes more.
    #[inline(never)]
    fn start_further(
        &mut self,
        to: Target,
        source: Source,
        synchronous: bool,
        is_eager: bool,
    ) -> Outcome<Started> {
        if is_eager && !synchronous && self.peers[to.peer as usize].fifo.is_empty() {
            let stored = self.push(to.peer, Kind::Eager, 0, to.tag, to.context, &[], source)?;
            if stored {
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
        if self.peers[to.peer as usize].lost {
            return Err(dead(to.peer));
        }
        let is_near = !is_eager && self.goes_near(to.peer, source.len());
        let is_eager = is_eager || is_near || self.goes_unasked(to.peer, &source);
        let work = match (is_eager, synchronous) {
            (true, false) => Work::Eager,
            (true, true) => Work::Synchronous,
            (false, _) => Work::Rendezvous,
        };
        let request =
            self.add_request(Request::send(work, to.comm, to.context, to.peer, source))?;
        let mut message = Queued {
            kind: Kind::Eager,
            flags: if work == Work::Synchronous { SYNC } else { 0 },
            tag: to.tag,
            context: to.context,
            body: Body::EMPTY,
            source,
            request: Some(request),
        };
        if work == Work::Rendezvous {
            // Elements with gaps are not to be read: the receiver asks for them.
            let offered = if self.peers[to.peer as usize].by_verbs {
                self.offer(to.peer, request, source)
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
                send_request: self.token(request).into(),
                length: (source.len() as u64).into(),
                address: address.into(),
                rkey: rkey.into(),
                mode: mode.into(),
            };
            message.kind = Kind::Rts;
            message.body = Body::new(rts.as_bytes());
            message.source = Source::EMPTY;
        }
        let began = (is_near && self.peers[to.peer as usize].fifo.is_empty()).then(Instant::now);
        self.queue(to.peer, message)?;
        if let Some(began) = began
            && self.requests[request].done
        {
            let took_ns = began.elapsed().as_nanos();
            self.peers[to.peer as usize]
                .pace
                .note(source.len(), took_ns);
        }
        Ok(Started::Pending(request))
    }

    /// Whether a message of `length` bytes to `peer`, longer than what is sent unasked everywhere, goes unasked by memory that both share: where blocks are large
    /// enough, and copies fast.
    fn goes_near(&mut self, peer: u32, length: usize) -> bool {
        let entry = &mut self.peers[peer as usize];
        let longest = match &self.host {
            Some(host) if !entry.by_verbs => host.longest().min(self.settings.eager_near),
            _ => 0,
        };
        length <= longest && entry.pace.goes()
    }

    /// What names a request to a peer.
    pub fn token(&self, request: u32) -> u64 {
        u64::from(self.requests.handle(request).cast_unsigned())
    }

    /// The request that a peer names, if it is one that it may name.
    pub fn named(&self, token: u64, peer: u32) -> Option<u32> {
        let handle = i32::try_from(token).ok()?;
        let index = self.requests.index_of(handle)?;
        (self.requests[index].peer == peer && !self.requests[index].done).then_some(index)
    }

    /// Begins a receive; its request.
    #[inline(always)]
    pub fn start_receive(
        &mut self,
        comm: u32,
        context: u64,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let request = match self.take_spare(sink) {
            Some(request) => {
                self.renew(request, comm, context, source, sink);
                // What MPI_Cancel leaves as it is.
                self.requests[request].status = EMPTY;
                request
            }
            None => self.add_request(Request::receive(comm, context, source, sink))?,
        };
        self.post_receive(request, comm, context, source, tag)
    }

    /// A receive that is over and that nobody knows any more, for one into `sink`. To make a request anew costs as much as the rest of a call.
    #[inline(always)]
    fn take_spare(&mut self, sink: Sink) -> Option<u32> {
        if sink.has_gaps() {
            return None;
        }
        self.spares.pop()
    }

    /// Makes a spare one a receive again.
    #[inline(always)]
    fn renew(
        &mut self,
        request: u32,
        comm: u32,
        context: u64,
        source: matching::Source,
        sink: Sink,
    ) {
        let entry = &mut self.requests[request];
        entry.done = false;
        entry.freed = false;
        entry.work = Work::Receive;
        entry.comm = comm;
        entry.context = context;
        entry.peer = NOBODY;
        entry.asks = source;
        entry.sink = sink;
    }

    /// A receive is over, and its status is known: it is kept for another one, or goes.
    #[inline(always)]
    pub fn put_back(&mut self, request: u32) {
        let entry = &mut self.requests[request];
        if self.spares.len() == SPARES || entry.work != Work::Receive || entry.has_more() {
            self.requests.discard(request);
            return;
        }
        // Nothing is concerned by it any more, no late answer may name it, and no handle of the program.
        entry.comm = NOBODY;
        entry.freed = true;
        self.requests.retire(request);
        self.spares.push(request);
    }

    /// Begins a receive that the call waits for. Its request is made in place of the last one's: to move one in and out costs as much as the rest
    /// of the call.
    #[inline(always)]
    pub fn start_waited(
        &mut self,
        comm: u32,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let context = self.comms[comm].context;
        let Some(request) = self.take_spare(sink) else {
            return self.start_slowly(comm, source, tag, sink);
        };
        self.renew(request, comm, context, source, sink);
        self.post_receive(request, comm, context, source, tag)
    }

    #[cold]
    fn start_slowly(
        &mut self,
        comm: u32,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let context = self.comms[comm].context;
        self.start_receive(comm, context, source, tag, sink)
    }

    /// What has become of such a receive, which is over.
    #[inline(always)]
    pub fn take_waited(&mut self, request: u32) -> Status {
        let status = self.requests[request].status;
        self.put_back(request);
        status
    }

    /// Begins a receive from one rank into one run of bytes, where that takes no more than to put it behind those that wait: its request. None if it takes more: then
    /// nothing has happened.
    #[inline(always)]
    pub fn post_at_once(
        &mut self,
        comm: u32,
        source: u32,
        tag: matching::Tag,
        sink: Sink,
    ) -> Option<u32> {
        let request = *self.spares.last()?;
        let spare = self.requests.get_mut(request)?;
        let entry = self.comms.get_mut(comm)?;
        let context = entry.context;
        let world = entry.world_of(context, source)?;
        if self.losses != 0 || self.peers.get(world as usize)?.lost {
            return None;
        }
        if !entry.point.post_next(source, tag, request) {
            return None;
        }
        self.spares.pop();
        spare.done = false;
        spare.freed = false;
        spare.work = Work::Receive;
        spare.comm = comm;
        spare.context = context;
        spare.peer = world;
        spare.asks = matching::Source::Rank(source);
        spare.sink = sink;
        spare.status = EMPTY;
        Some(request)
    }

    /// Hands a receive to those who wait, or gives it the message that has waited for it.
    #[inline(always)]
    fn post_receive(
        &mut self,
        request: u32,
        comm: u32,
        context: u64,
        source: matching::Source,
        tag: matching::Tag,
    ) -> Outcome<u32> {
        let mut is_lost = false;
        if let Some(held) = self.comms[comm]
            .matching(context)
            .post(source, tag, request)
        {
            self.deliver_held(held, request)
                .inspect_err(|_| self.abandon(request))?;
        } else if let matching::Source::Rank(rank) = source
            && let Some(world) = self.comms[comm].world_of(context, rank)
        {
            // The answer to "who is that" for those who look at a peer that has died.
            self.requests[request].peer = world;
            is_lost = self.peers[world as usize].lost;
        }
        if self.losses != 0 || is_lost {
            self.check_hope(request)?;
        }
        Ok(request)
    }

    /// Puts a message behind those that wait for `peer`, and sends what can be sent.
    pub fn queue(&mut self, peer: u32, message: Queued) -> Outcome {
        let entry = &mut self.peers[peer as usize];
        if entry.lost {
            // An answer to somebody who has gone.
            if let Some(request) = message.request {
                self.fail(request);
            }
            return Ok(());
        }
        entry.fifo.push_back(message);
        if entry.fifo.len() == 1 {
            self.stalled.push(peer);
            self.pump(peer)?;
        }
        Ok(())
    }

    /// A message without a request of its own: an answer.
    pub fn answer(&mut self, peer: u32, kind: Kind, body: &[u8]) -> Outcome {
        self.queue(
            peer,
            Queued {
                kind,
                flags: 0,
                tag: 0,
                context: 0,
                body: Body::new(body),
                source: Source::EMPTY,
                request: None,
            },
        )
    }

    /// Sends what waits for `peer` as far as there is room. True if nothing waits any more.
    pub fn pump(&mut self, peer: u32) -> Outcome<bool> {
        while self.push_bundle(peer)? {}
        while let Some(front) = self.peers[peer as usize].fifo.front() {
            let Queued {
                kind,
                flags,
                tag,
                context,
                body,
                source,
                request,
            } = *front;
            if kind == Kind::Piece {
                if !self.pump_pieces(peer)? {
                    return self.starve(peer);
                }
                continue;
            }
            if !self.push(peer, kind, flags, tag, context, body.as_slice(), source)? {
                return self.starve(peer);
            }
            let seq = self.peers[peer as usize].sent;
            self.peers[peer as usize].fifo.pop_front();
            self.has_gone(peer, request, seq);
        }
        self.stalled.retain(|stalled| *stalled != peer);
        if let Some(outlet) = &mut self.peers[peer as usize].outlet {
            outlet.starve(false);
        }
        Ok(true)
    }

    /// The message of `request` has gone to `peer` as number `seq`.
    pub fn has_gone(&mut self, peer: u32, request: Option<u32>, seq: u32) {
        let Some(request) = request else {
            return;
        };
        match self.requests[request].work {
            Work::Eager => self.finish(request),
            Work::Synchronous => {
                self.requests[request].seq = seq;
                self.peers[peer as usize].synchronous.push((seq, request));
            }
            Work::Rendezvous => self.requests[request].seq = seq,
            _ => (),
        }
    }

    /// Says that messages wait for credit of `peer`; unless that has just come.
    fn starve(&mut self, peer: u32) -> Outcome<bool> {
        let entry = &mut self.peers[peer as usize];
        if let Some(outlet) = &mut entry.outlet
            && outlet.starve(true)
            && let Some(host) = &self.host
        {
            host.ring(peer);
        }
        Ok(false)
    }

    /// The next pieces of the message at the head of the FIFO. True if all of it has gone.
    fn pump_pieces(&mut self, peer: u32) -> Outcome<bool> {
        loop {
            let Some(front) = self.peers[peer as usize].fifo.front() else {
                return Ok(true);
            };
            let (source, body, request) = (front.source, front.body, front.request);
            let is_large = !self.peers[peer as usize].by_verbs
                && self
                    .host
                    .as_ref()
                    .is_some_and(|host| host.longest() >= LARGE_PIECE);
            let room = if is_large {
                LARGE_PIECE
            } else {
                Shape::DEFAULT.longest() as usize
            };
            let length = source.len().min(room - size_of::<envelope::Piece>());
            if !self.push(
                peer,
                Kind::Piece,
                0,
                0,
                0,
                body.as_slice(),
                source.part(0, length),
            )? {
                return Ok(false);
            }
            let left = source.part(length, source.len() - length);
            if left.is_empty() {
                self.peers[peer as usize].fifo.pop_front();
                if let Some(request) = request {
                    self.finish(request);
                }
                return Ok(true);
            }
            if let Some(front) = self.peers[peer as usize].fifo.front_mut()
                && let Ok(mut piece) =
                    <envelope::Piece as zerocopy::FromBytes>::read_from_bytes(body.as_slice())
            {
                piece.offset = (piece.offset.get() + length as u64).into();
                front.body = Body::new(piece.as_bytes());
                front.source = left;
            }
        }
    }

    /// Stores a message in the channel to `peer`, if there is room.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // an envelope's fields and what follows it
    fn push(
        &mut self,
        peer: u32,
        kind: Kind,
        flags: u8,
        tag: i32,
        context: u64,
        body: &[u8],
        source: Source,
    ) -> Outcome<bool> {
        if self.peers[peer as usize].outlet.is_none() {
            if self.peers[peer as usize].lost {
                return match kind {
                    Kind::Eager | Kind::Rts => Err(dead(peer)),
                    // Answers that nobody waits for.
                    _ => Ok(true),
                };
            }
            if self.peers[peer as usize].by_verbs {
                return self.post(peer, kind, flags, tag, context, body, source);
            }
            self.open(peer)?;
        }
        let entry = &mut self.peers[peer as usize];
        let Some(outlet) = &mut entry.outlet else {
            return Ok(false);
        };
        let seq = entry.sent.wrapping_add(1);
        let credit = match entry.inlet {
            Some(inlet) => self.inlets[inlet as usize].inlet.report(),
            None => 0,
        };
        let head = Envelope {
            kind,
            flags,
            seq,
            ack: entry.received,
            credit,
            tag,
            context,
        }
        .emit();
        let length = source.len() as u32;
        let push = if body.is_empty() {
            outlet.push(&head, seq, length, source)
        } else {
            let mut whole = [0; ENVELOPE + 48];
            whole[..ENVELOPE].copy_from_slice(&head);
            whole[ENVELOPE..ENVELOPE + body.len()].copy_from_slice(body);
            outlet.push(&whole[..ENVELOPE + body.len()], seq, length, source)
        };
        match push {
            Push::Stored => {
                entry.sent = seq;
                if trace::is_on() {
                    trace::sent(peer, kind, seq, tag, context, body, source.len());
                }
                if let Some(host) = &self.host {
                    host.ring(peer);
                }
                Ok(true)
            }
            Push::NoCredit => Ok(false),
            Push::Busy => self.push_further(peer, kind, flags, tag, context, body, source),
            Push::TooLong => Err(MpiError::with(
                MPI_ERR_INTERN,
                "a message is longer than a channel takes",
            )),
        }
    }

    /// The same where the block has no memory yet.
    #[cold]
    #[allow(clippy::too_many_arguments)] // as above
    fn push_further(
        &mut self,
        peer: u32,
        kind: Kind,
        flags: u8,
        tag: i32,
        context: u64,
        body: &[u8],
        source: Source,
    ) -> Outcome<bool> {
        if let (Some(host), Some(outlet)) = (&self.host, &mut self.peers[peer as usize].outlet) {
            host.extend(peer, outlet).map_err(|error| {
                MpiError::with(
                    MPI_ERR_NO_MEM,
                    format!("no memory for the channel to rank {peer}: {error}"),
                )
            })?;
        }
        self.push(peer, kind, flags, tag, context, body, source)
    }

    #[cold]
    fn open(&mut self, peer: u32) -> Outcome {
        let Some(host) = &self.host else {
            return Err(MpiError::with(
                MPI_ERR_OTHER,
                format!("rank {peer} cannot be reached"),
            ));
        };
        let outlet = host.open(peer).map_err(|error| {
            MpiError::with(
                MPI_ERR_NO_MEM,
                format!("no memory for a channel to rank {peer}: {error}"),
            )
        })?;
        let places = self.peers[peer as usize]
            .places
            .take()
            .or_else(|| host.pair(peer));
        let entry = &mut self.peers[peer as usize];
        entry.outlet = Some(outlet);
        entry.places = places;
        Ok(())
    }

    #[cold]
    fn send_to_self(&mut self, to: Target, source: Source, synchronous: bool) -> Outcome<Started> {
        let Some(rank) = self.comms[to.comm].rank_of(to.context, to.peer) else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        if let Some(receive) = self.comms[to.comm]
            .matching(to.context)
            .arrive(rank, to.tag)
        {
            let entry = &mut self.requests[receive];
            source.copy_to(&entry.sink);
            entry.peer = to.peer;
            self.received(receive, rank, to.tag, source.len() as u64);
            return Ok(Started::Done);
        }
        let keeps_copy = !synchronous && source.len() <= OWN_COPY;
        let (content, started) = if keeps_copy {
            (
                Content::Bytes(source.to_bytes().ok_or_else(crate::progress::no_memory)?),
                Started::Done,
            )
        } else {
            let request = self.add_request(Request::send(
                Work::Own,
                to.comm,
                to.context,
                to.peer,
                source,
            ))?;
            (Content::Own { request }, Started::Pending(request))
        };
        self.hold(
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

    /// A message that has waited meets its receive.
    pub fn deliver_held(&mut self, held: u32, receive: u32) -> Outcome {
        let Some(Held {
            from,
            tag,
            content,
            synchronous,
            ..
        }) = self.held.remove(held)
        else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        let Request { comm, context, .. } = self.requests[receive];
        let Some(rank) = self.comms[comm].rank_of(context, from) else {
            return Err(self.broken(from));
        };
        self.requests[receive].peer = from;
        match content {
            Content::Bytes(bytes) => {
                self.requests[receive].sink.fill(&bytes);
                self.received(receive, rank, tag, bytes.len() as u64);
            }
            Content::Own { request } => {
                let source = self.requests[request].source;
                source.copy_to(&self.requests[receive].sink);
                self.received(receive, rank, tag, source.len() as u64);
                self.finish(request);
            }
            Content::Remote {
                request,
                length,
                offered,
            } => {
                self.fetch(receive, rank, tag, request, length, offered)?;
            }
        }
        if let Some(seq) = synchronous {
            self.tell_matched(from, seq)?;
        }
        Ok(())
    }

    /// A receive has all of its message, which has `length` bytes.
    #[inline]
    pub fn received(&mut self, receive: u32, rank: u32, tag: i32, length: u64) {
        let entry = &mut self.requests[receive];
        let room = entry.sink.len() as u64;
        let (error, bytes) = if length > room {
            (MPI_ERR_TRUNCATE, room)
        } else {
            (MPI_SUCCESS, length)
        };
        entry.status = status(rank, tag, error, bytes);
        self.finish(receive);
    }

    /// Tells the sender of a synchronous message that it has met its receive.
    pub fn tell_matched(&mut self, peer: u32, seq: u32) -> Outcome {
        let body = envelope::Matched {
            seq: u64::from(seq).into(),
        };
        self.answer(peer, Kind::Matched, body.as_bytes())
    }

    /// A long message has met its receive: reads it if it has an address and may be read, or asks for it in pieces.
    pub fn fetch(
        &mut self,
        receive: u32,
        rank: u32,
        tag: i32,
        request: u64,
        length: u64,
        offered: Offered,
    ) -> Outcome {
        let peer = self.requests[receive].peer;
        let sink = self.requests[receive].sink;
        let wanted = length.min(sink.len() as u64);
        if self.peers[peer as usize].lost {
            return self.never_comes(receive, (rank, tag));
        }
        let mut is_here = wanted == 0;
        let mut timed = false;
        if self.peers[peer as usize].by_verbs {
            let lengths = (length, wanted);
            if !is_here && self.fetch_by_verbs(receive, (rank, tag), request, lengths, offered)? {
                return Ok(());
            }
        } else if let Some(Place { address, .. }) = offered
            .place()
            .filter(|_| self.settings.reads_peers && !is_here)
        {
            let sink = sink.part(0, wanted as usize);
            self.pages.note(sink.address(), sink.len());
            let way = self.pick_way(peer, &sink);
            timed = way.is_some();
            let read = match way {
                Some(Way::Pieces) => None,
                _ => Some(self.read_nearby((peer, request, address), &sink, timed)),
            };
            match read {
                None => (),
                Some(Ok(())) => is_here = true,
                Some(Err(error)) => match error.raw_os_error() {
                    Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => {
                        self.settings.reads_peers = false
                    }
                    Some(libc::ESRCH) => {
                        return self.fetch_failed(receive, peer, request, MPI_ERR_PROC_ABORTED);
                    }
                    _ => return self.fetch_failed(receive, peer, request, MPI_ERR_BUFFER),
                },
            }
        }
        if is_here {
            self.received(receive, rank, tag, length);
            return self.fin(peer, request, length, MPI_SUCCESS);
        }
        let entry = &mut self.requests[receive];
        entry.work = Work::Pieces {
            expected: wanted,
            received: 0,
        };
        let error = if length > wanted {
            MPI_ERR_TRUNCATE
        } else {
            MPI_SUCCESS
        };
        entry.status = status(rank, tag, error, wanted);
        let token = self.token(receive);
        if timed {
            self.ways.asked();
        }
        let cts = envelope::Cts {
            send_request: request.into(),
            receive_request: token.into(),
            offset: 0.into(),
            length: wanted.into(),
            address: 0.into(),
            rkey: 0.into(),
            lane: 0.into(),
        };
        self.answer(peer, Kind::Cts, cts.as_bytes())
    }

    /// A message cannot be received where it is to go: both sides are told.
    pub fn fetch_failed(&mut self, receive: u32, peer: u32, request: u64, class: i32) -> Outcome {
        self.requests[receive].status.error = class;
        self.finish(receive);
        self.fin(peer, request, 0, class)
    }

    /// Tells a peer that its request has been read, or is written.
    pub fn fin(&mut self, peer: u32, request: u64, length: u64, class: i32) -> Outcome {
        let fin = envelope::Fin {
            request: request.into(),
            offset: 0.into(),
            length: length.into(),
            status: class.cast_unsigned().into(),
            zero: 0.into(),
        };
        self.answer(peer, Kind::Fin, fin.as_bytes())
    }

    /// The receiver asks for a message: in pieces, or to be written to its memory.
    pub fn asked_for(&mut self, peer: u32, cts: &envelope::Cts) -> Outcome {
        let Some(request) = self.named(cts.send_request.get(), peer) else {
            return self.asked_too_late(peer, cts);
        };
        let entry = &self.requests[request];
        let length = cts.length.get();
        let fits = entry.work == Work::Rendezvous
            && cts.offset.get() == 0
            && (1..=entry.source.len() as u64).contains(&length);
        if !fits {
            return Err(self.broken(peer));
        }
        let place = Place {
            address: cts.address.get(),
            rkey: cts.rkey.get(),
        };
        if cts.lane.get() != 0 {
            return self.send_asked_by_lane(peer, request, cts.lane.get(), length);
        }
        if place.address != 0 {
            self.requests[request].work = Work::Moving { expected: length };
            return self.write_by_verbs(peer, request, cts.receive_request.get(), length, place);
        }
        self.withdraw(request);
        let entry = &self.requests[request];
        let piece = envelope::Piece {
            receive_request: cts.receive_request,
            offset: 0.into(),
        };
        let message = Queued {
            kind: Kind::Piece,
            flags: 0,
            tag: 0,
            context: 0,
            body: Body::new(piece.as_bytes()),
            source: entry.source.part(0, length as usize),
            request: Some(request),
        };
        // Not asked for twice.
        self.requests[request].work = Work::Eager;
        self.queue(peer, message)
    }

    /// A message has been read by its receiver, or will never be; or its sender has written it.
    pub fn fetched(&mut self, peer: u32, fin: &envelope::Fin) -> Outcome {
        let Some(request) = self.named(fin.request.get(), peer) else {
            // Over already: a collective of whose ranks one has died.
            return Ok(());
        };
        let entry = &mut self.requests[request];
        let is_receive = entry.source.is_empty();
        match entry.work {
            Work::Rendezvous => (),
            Work::Moving { expected } if is_receive && fin.length.get() == expected => (),
            Work::Pieces { .. } if fin.status.get() != 0 => (),
            _ => return Err(self.broken(peer)),
        }
        // Its sender cannot write it, or it cannot be read.
        if fin.status.get() != 0 {
            entry.status.error = fin.status.get().cast_signed();
        }
        self.withdraw(request);
        self.finish(request);
        Ok(())
    }

    /// A synchronous message has met its receive.
    pub fn matched(&mut self, peer: u32, seq: u64) -> Outcome {
        let waiting = &mut self.peers[peer as usize].synchronous;
        let Some(at) = waiting.iter().position(|(sent, _)| u64::from(*sent) == seq) else {
            return Err(self.broken(peer));
        };
        let (_, request) = waiting.swap_remove(at);
        self.finish(request);
        Ok(())
    }

    /// Where the piece that a peer sends goes: request and place, if it fits.
    pub fn place_of_piece(&self, peer: u32, piece: &envelope::Piece, length: u64) -> Option<u32> {
        let request = self.named(piece.receive_request.get(), peer)?;
        let Work::Pieces { expected, .. } = self.requests[request].work else {
            return None;
        };
        let end = piece.offset.get().checked_add(length)?;
        (end <= expected && length != 0).then_some(request)
    }

    /// A piece has been placed.
    pub fn piece_placed(&mut self, request: u32, length: u64) {
        if let Work::Pieces { expected, received } = &mut self.requests[request].work {
            *received += length;
            if received >= expected {
                self.ways.came(*expected);
                self.finish(request);
            }
        }
    }

    /// A peer has broken the rules of the connection.
    #[cold]
    pub fn broken(&self, peer: u32) -> MpiError {
        MpiError::with(
            MPI_ERR_INTERN,
            format!("rank {peer} sent what no rank sends: the connection is over"),
        )
    }
}

/// Receives that are kept for the next ones.
const SPARES: usize = 128;

/// Messages of a process to itself up to this length, in bytes, are copied and need no receive to be over.
const OWN_COPY: usize = 1 << 16;
