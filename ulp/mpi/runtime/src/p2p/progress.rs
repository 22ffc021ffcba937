//! Progress: looks at the channels, hands what has come to its receive, sends what had to wait.

use crate::comm::COLLECTIVE;
use crate::constants::{MPI_ERR_NO_MEM, MPI_ERR_TRUNCATE, MPI_SUCCESS};
use crate::errors::{MpiError, Outcome};
use crate::host::{Awaited, Source};
use crate::request::status;
use crate::runtime::{Content, Held, Inbound, NOBODY, Offered, Place, Runtime};
use crate::trace;
use ferriband_mpi_proto::envelope::{
    Cts, ENVELOPE, Envelope, Fin, GET, Kind, Matched, PLACED, PUT, Phase, Piece, Recall, Rts, SYNC,
    WHOLE,
};
use ferriband_mpi_proto::fast::Broken;
use zerocopy::FromBytes;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;

impl Runtime {
    /// One round. True if something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let mut did = false;
        let mut place = 0;
        while let Some(inlet) = self.polling.hot(place) {
            if self.inlets[inlet as usize].inlet.poll() {
                self.polling.hit(place);
                self.drain(inlet)?;
                did = true;
            }
            place += 1;
        }
        if let Some(inlet) = self.polling.next(self.inlets.len()) {
            did |= self.look(inlet)?;
        }
        if let Some(host) = &mut self.host
            && let Some(rank) = host.newcomers()
        {
            self.accept(rank)?;
            did = true;
        }
        if self.net.is_some() {
            did |= self.poll_net()?;
        }
        if !self.stalled.is_empty() {
            did |= self.unstall()?;
        }
        if !self.offered.is_empty() {
            did |= self.copy_nearby();
        }
        if !self.executions.is_empty() {
            did |= self.advance()?;
        }
        if !self.flags.is_empty() && self.flags.iter().any(Awaited::is_reached) {
            // Another thread may wait for it.
            self.crew.note();
        }
        Ok(did)
    }

    /// The same, but with a look at every channel: before the core is given away.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let mut did = self.progress()? | self.look_for_losses();
        for inlet in 0..self.inlets.len() as u32 {
            did |= self.look(inlet)?;
        }
        Ok(did)
    }

    /// Whether a round would do something: the last look before falling asleep.
    pub fn has_work(&self) -> bool {
        self.inlets
            .iter()
            .any(|inbound| inbound.inlet.is_ready() || inbound.inlet.owes_relief())
            || self
                .host
                .as_ref()
                .is_some_and(crate::host::Host::has_newcomer)
            || self.net.as_ref().is_some_and(|net| net.has_records())
            || self.has_errand()
            || self
                .flags
                .iter()
                .any(|flag| flag.is_reached() || !flag.is_announced())
            || self.stalled.iter().any(|peer| {
                self.peers[*peer as usize]
                    .outlet
                    .as_ref()
                    .is_some_and(crate::host::Outlet::has_news)
            })
    }

    /// A channel that is not looked at in each round.
    fn look(&mut self, inlet: u32) -> Outcome<bool> {
        let inbound = &mut self.inlets[inlet as usize];
        if inbound.inlet.is_ready() {
            self.polling.warm(inlet);
            self.drain(inlet)?;
            return Ok(true);
        }
        let from = inbound.from;
        if inbound.inlet.relieve(self.peers[from as usize].received)
            && let Some(host) = &self.host
        {
            host.ring(from);
        }
        Ok(false)
    }

    #[cold]
    fn accept(&mut self, rank: u32) -> Outcome {
        let Some(inlet) = self.host.as_ref().and_then(|host| host.accept(rank)) else {
            return Err(self.broken(rank));
        };
        let index = self.inlets.len() as u32;
        self.peers[rank as usize].inlet = Some(index);
        self.inlets.push(Inbound { from: rank, inlet });
        self.polling.warm(index);
        Ok(())
    }

    /// Sends what waits for room, as far as there is any. True if something has gone.
    #[cold]
    pub fn unstall(&mut self) -> Outcome<bool> {
        let mut did = false;
        for index in (0..self.stalled.len()).rev() {
            let Some(peer) = self.stalled.get(index).copied() else {
                continue;
            };
            let waiting = self.peers[peer as usize].fifo.len();
            did |= self.pump(peer)? || self.peers[peer as usize].fifo.len() != waiting;
        }
        Ok(did)
    }

    /// Takes what lies in a channel, in order; no more once what the caller waits for is over: to look for the next record is to fetch a line that
    /// the sender has just written, which the caller need not wait for.
    #[inline]
    fn drain(&mut self, inlet: u32) -> Outcome {
        self.satisfied = false;
        let mut left = BATCH;
        while self.hand_over(inlet, &mut left) && left != 0 {
            left -= 1;
            if !self.take_next(inlet)? || self.satisfied {
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
            return Err(self.broken(from));
        };
        let Some(record) = next else {
            return Ok(false);
        };
        let body = inbound.inlet.payload(&record);
        self.take_record(from, record.envelope, body)?;
        let ack = self.peers[from as usize].received;
        if self.inlets[inlet as usize].inlet.consume(&record, ack)
            && let Some(host) = &self.host
        {
            host.ring(from);
        }
        Ok(true)
    }

    /// Gives messages of the program whose turn it is to the receives that wait for them, `left` at most, as long as there is nothing to say about them, like most. What
    /// [`Runtime::take_record`] would do with each, in as few steps as can be. True if it ends before one about which there may be, or for which no receive waits: with
    /// that nothing has happened.
    #[inline(always)]
    fn hand_over(&mut self, inlet: u32, left: &mut u32) -> bool {
        if trace::is_on() {
            return true;
        }
        let (Some(inbound), Some(mut entry)) = (
            self.inlets.get_mut(inlet as usize),
            self.comms.get_mut(self.last.1),
        ) else {
            return true;
        };
        let (from, inlet) = (inbound.from, &mut inbound.inlet);
        let Some(peer) = self.peers.get_mut(from as usize) else {
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
                let pair = context & !COLLECTIVE;
                if pair != self.last.0 {
                    let Some(found) = self.contexts.get(&pair) else {
                        break true;
                    };
                    self.last = (pair, *found);
                }
                let Some(named) = self.comms.get_mut(self.last.1) else {
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
            let request = &mut self.requests[receive];
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
            self.crew.over(receive);
            request.done = true;
            self.ended = self.ended.wrapping_add(1);
            request.ended = self.ended;
            self.satisfied |= receive == self.awaited;
            if is_starved || self.satisfied {
                break !self.satisfied;
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
            return !self.satisfied;
        }
        has_more
    }

    /// What has come by a record, whatever it is. Records are the only path between the ranks of a host, so nothing can have overtaken this one.
    fn take_record(&mut self, from: u32, words: [u64; 3], record: Source) -> Outcome {
        let Some(mut envelope) = Envelope::from_words(words) else {
            return Err(self.broken(from));
        };
        let (mut body, mut placed) = (record, None);
        if envelope.flags & PLACED != 0 {
            let Some((message, place)) = self.placed(from, &record) else {
                return Err(self.broken(from));
            };
            envelope.flags &= !PLACED;
            (body, placed) = (message, Some(place));
        }
        let peer = &mut self.peers[from as usize];
        let before = peer.received;
        if envelope.kind == Kind::Eager || envelope.kind.is_numbered() {
            if envelope.seq != before.wrapping_add(1) {
                return Err(self.broken(from));
            }
            peer.received = envelope.seq;
        }
        if let Some(outlet) = &mut peer.outlet {
            outlet.credit(envelope.credit);
        }
        let outcome = self.take(from, &envelope, body);
        if outcome.is_err() {
            // The record stays: without memory it is met again when there is some.
            self.peers[from as usize].received = before;
        } else if let Some(placed) = placed {
            self.peers[from as usize].has_taken(placed);
        }
        outcome
    }

    /// A message whose turn it is has come from `from`, by whatever path. Its body may be read until this returns.
    #[inline]
    pub fn take(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        if trace::is_on() {
            write_down(from, envelope, body);
        }
        match envelope.kind {
            Kind::Eager => self.take_eager(from, envelope, body),
            _ => self.take_other(from, envelope, body),
        }
    }

    #[inline]
    fn take_eager(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        let is_synchronous = envelope.flags & SYNC != 0;
        if let Some(comm) = self.comm_of(envelope.context) {
            let entry = &mut self.comms[comm];
            let Some(rank) = entry.rank_of(envelope.context, from) else {
                return Err(self.broken(from));
            };
            if let Some(receive) = entry.matching(envelope.context).arrive(rank, envelope.tag) {
                let request = &mut self.requests[receive];
                body.copy_to(&request.sink);
                request.peer = from;
                self.received(receive, rank, envelope.tag, body.len() as u64);
                if is_synchronous {
                    self.tell_matched(from, envelope.seq)?;
                }
                return Ok(());
            }
        }
        let held = Held {
            from,
            tag: envelope.tag,
            content: Content::Bytes(body.to_bytes().ok_or_else(no_memory)?),
            seq: envelope.seq,
            synchronous: is_synchronous.then_some(envelope.seq),
        };
        self.unexpected(envelope.context, held)
    }

    /// A message that no receive has asked for.
    fn unexpected(&mut self, context: u64, held: Held) -> Outcome {
        match self.comm_of(context) {
            Some(comm) => self.hold(comm, context, held),
            None => {
                self.orphans.push_back((context, held));
                Ok(())
            }
        }
    }

    #[cold]
    fn take_other(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        if self.peers[from as usize].lost && envelope.kind != Kind::Rts {
            // What it is about has ended with that rank.
            return Ok(());
        }
        match envelope.kind {
            Kind::Rts => {
                let rts: Rts = self.body_of(from, body)?;
                self.take_rts(from, envelope, &rts)
            }
            Kind::Cts => {
                let cts: Cts = self.body_of(from, body)?;
                self.asked_for(from, &cts)
            }
            Kind::Fin => {
                let fin: Fin = self.body_of(from, body)?;
                self.fetched(from, &fin)
            }
            Kind::Matched => {
                let matched: Matched = self.body_of(from, body)?;
                self.matched(from, matched.seq.get())
            }
            Kind::Piece => self.take_piece(from, body),
            Kind::Lane => {
                let end = self.body_of(from, body)?;
                self.take_lane(from, &end)
            }
            Kind::Note => Ok(()),
            Kind::Cancel => {
                let recall: Recall = self.body_of(from, body)?;
                self.asked_to_forget(from, recall.seq.get())
            }
            Kind::Cancelled => {
                let recall: Recall = self.body_of(from, body)?;
                self.recalled(from, &recall)
            }
            Kind::Eager | Kind::Bundle => Err(self.broken(from)),
            Kind::Open => {
                let open = self.body_of(from, body)?;
                self.take_open(from, &open)
            }
            Kind::Opened => {
                let opened = self.body_of(from, body)?;
                self.take_opened(from, &opened)
            }
            Kind::Pause | Kind::Paused | Kind::Resume | Kind::Close | Kind::Closed => {
                let phase: Phase = self.body_of(from, body)?;
                match envelope.kind {
                    Kind::Pause => self.take_pause(from, &phase),
                    Kind::Paused => self.take_paused(from, &phase),
                    Kind::Resume => self.take_resume(from, &phase),
                    Kind::Close => self.take_close(from, &phase),
                    _ => self.take_closed(from, &phase),
                }
            }
        }
    }

    fn take_rts(&mut self, from: u32, envelope: &Envelope, rts: &Rts) -> Outcome {
        let (request, length) = (rts.send_request.get(), rts.length.get());
        let offered = match rts.mode.get() {
            GET => Offered::Readable(Place {
                address: rts.address.get(),
                rkey: rts.rkey.get(),
            }),
            PUT => Offered::Parts,
            WHOLE => Offered::Whole,
            _ => return Err(self.broken(from)),
        };
        if let Some(comm) = self.comm_of(envelope.context) {
            let entry = &mut self.comms[comm];
            let Some(rank) = entry.rank_of(envelope.context, from) else {
                return Err(self.broken(from));
            };
            if let Some(receive) = entry.matching(envelope.context).arrive(rank, envelope.tag) {
                self.requests[receive].peer = from;
                return self.fetch(receive, rank, envelope.tag, request, length, offered);
            }
        }
        let held = Held {
            from,
            tag: envelope.tag,
            content: Content::Remote {
                request,
                length,
                offered,
            },
            seq: envelope.seq,
            synchronous: None,
        };
        self.unexpected(envelope.context, held)
    }

    fn take_piece(&mut self, from: u32, body: Source) -> Outcome {
        let piece: Piece = self.body_of(from, body)?;
        let own = size_of::<Piece>();
        let bytes = body.part(own, body.len() - own);
        let Some(request) = self.place_of_piece(from, &piece, bytes.len() as u64) else {
            return Err(self.broken(from));
        };
        let at = piece.offset.get() as usize;
        bytes.copy_to(&self.requests[request].sink.part(at, bytes.len()));
        self.piece_placed(request, bytes.len() as u64);
        Ok(())
    }

    /// The beginning of a body as a structure; a body that is too short breaks the rules.
    fn body_of<T: FromBytes>(&self, from: u32, body: Source) -> Outcome<T> {
        const LONGEST: usize = 48;
        let size = size_of::<T>();
        if body.len() < size {
            return Err(self.broken(from));
        }
        let mut bytes = [0; LONGEST];
        body.part(0, size).copy_into(&mut bytes[..size]);
        T::read_from_bytes(&bytes[..size]).map_err(|_| self.broken(from))
    }
}

/// A message has come to a traced rank.
#[cold]
fn write_down(from: u32, envelope: &Envelope, body: Source) {
    let mut head = [0; 16];
    let length = head.len().min(body.len());
    body.part(0, length).copy_into(&mut head[..length]);
    let (kind, seq, tag) = (envelope.kind, envelope.seq, envelope.tag);
    let context = envelope.context;
    trace::came(from, kind, seq, tag, context, &head[..length], body.len());
}

/// There is no memory for a message that no receive has asked for.
#[cold]
pub fn no_memory() -> MpiError {
    MpiError::with(
        MPI_ERR_NO_MEM,
        "for a message that no receive has asked for",
    )
}

const _: () = assert!(ENVELOPE == 28);
