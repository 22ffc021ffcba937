//! Completions: what has come, and what has gone. A connection that failed is [`super::life`]'s.

use super::errors::failed;
use super::memory::Buffers;
use super::queue::What;
use super::{Id, Lent, Net};
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_NO_MEM};
use crate::errors::{MpiError, Outcome, broken};
use crate::ground::memory::Source;
use crate::trace;
use crate::transport::contract::{Deliver, Roster, Verdict, body_of, write_down};
use ferriband_ibv::{Srq, VerbsError, Wc};
use ferriband_mpi_proto::brief::Pattern;
use ferriband_mpi_proto::envelope::{ACKNOW, ENVELOPE, Envelope, Fin, Kind};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A receive buffer with what has come into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) from: u32,
    pub(super) index: u32,
    /// Bytes, no more than a buffer has.
    length: u32,
    /// What came instead of an envelope.
    numbers: Option<u32>,
}

/// Receives, which all peers share, and the completions that are looked at.
pub struct Receives {
    pub(super) srq: Arc<Srq>,
    pub(super) buffers: Buffers,
    /// How many of them are in use.
    pub(super) used: u32,
    /// Those to be posted again.
    pub(super) spent: Vec<u32>,
    /// Those with messages for which there was no memory, in the order in which they came. While
    /// there are some, no other message is taken, and peers find no receive after a while.
    pub(super) parked: VecDeque<Arrived>,
    /// Room for completions: most looks find none, and room that is made anew each time costs as
    /// much as the look.
    pub(super) batch: Box<[Wc; BATCH]>,
    /// Those of them that are still to be taken.
    pub(super) looked: Range<usize>,
}

/// Completions that are taken at once.
pub(super) const BATCH: usize = 16;

/// What a round has to do, as its beginning finds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Completions that there are.
    pub count: usize,
    /// Peers wait to be told what has been taken.
    owes: bool,
}

impl Round {
    /// Another device was looked at, too.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.owes |= other.owes;
    }
}

impl Net {
    /// Whether messages wait for which there was no memory.
    #[inline]
    pub fn has_parked(&self) -> bool {
        !self.rail.receives.parked.is_empty()
    }

    /// Takes those for which there was no memory, in the order in which they came. True if whoever
    /// is told has something to do before the rest is taken.
    #[cold]
    pub fn take_parked<R: Roster, D: Deliver>(&mut self, roster: &R, to: &mut D) -> Outcome<bool> {
        let mut lent = Lent::new(roster, to);
        while let Some(buffer) = self.rail.receives.parked.pop_front() {
            self.take_buffer(buffer, true, &mut lent)?;
            if lent.is_stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks at the device for completions, which [`Net::take`] takes. None of a device that has
    /// failed.
    #[inline]
    pub fn look(&mut self) -> Outcome<Round> {
        let receives = &mut self.rail.receives;
        if receives.looked.is_empty() {
            let polled = self.rail.device.cq.poll(&mut *receives.batch);
            receives.looked = 0..match polled {
                Ok(count) => count,
                Err(error) => return self.cannot_look(error),
            };
        }
        let count = receives.looked.len();
        self.coalesce.is_taking = count > 1 && self.rail.device.makes_packets;
        Ok(Round {
            count,
            owes: !self.blocks.owing.is_empty(),
        })
    }

    /// The queue of completions of the adapter in hand cannot be looked at.
    #[cold]
    fn cannot_look(&mut self, error: VerbsError) -> Outcome<Round> {
        if !self.limits.heal.is_on {
            return Err(failed(&self.rail.device.name, error));
        }
        // What it had found may be lost, so nothing that it finds later has its turn: it is not
        // looked at any more. The logs of the others have what was not taken.
        (self.rail.is_open, self.life.has_rails) = (false, true);
        self.adapter_failed(self.rail.id);
        Ok(Round {
            count: 0,
            owes: false,
        })
    }

    /// Takes completions until whoever is told has something to do first. After an error the others
    /// are still to be taken.
    pub fn take<R: Roster, D: Deliver>(&mut self, roster: &R, to: &mut D) -> Outcome {
        let mut lent = Lent::new(roster, to);
        while let Some(at) = self.rail.receives.looked.next() {
            let wc = self.rail.receives.batch[at];
            self.completed(&wc, &mut lent)?;
            if lent.is_stopped {
                break;
            }
        }
        Ok(())
    }

    /// Whether completions are still to be taken.
    #[inline]
    pub fn has_more(&self) -> bool {
        !self.rail.receives.looked.is_empty()
    }

    /// All completions have been taken. Whether what they caused to be sent, and waits to go
    /// together, goes now.
    pub fn has_taken(&mut self) -> bool {
        let takes = std::mem::take(&mut self.coalesce.is_taking);
        // One completion may be a bundle, whose answers are more than go at once: the next look
        // may be long, while packets stream in.
        takes || !self.coalesce.bursts.is_empty()
    }

    /// What a round has to do beside completions and blocks. True if something happened.
    #[inline]
    pub fn look_after<R: Roster>(&mut self, round: Round, roster: &R) -> Outcome<bool> {
        if !self.connect.unsent_words.is_empty() {
            self.speak_again()?;
        }
        if round.owes {
            // Those of the last round: what the program has sent since may have told them.
            self.pay(roster)?;
        }
        Ok(!self.connect.setting_up.is_empty()
            && !self.has_more()
            && self.attend(roster, round.count)?)
    }

    fn completed<R: Roster, D: Deliver>(&mut self, wc: &Wc, lent: &mut Lent<'_, R, D>) -> Outcome {
        match Id::of(wc.id()) {
            Some(Id::Receive(index)) => self.arrived(index, wc, lent),
            Some(Id::Datagram(port, index)) if wc.is_ok() => {
                self.take_datagram((port, index), wc.byte_len(), lent.roster)
            }
            Some(Id::Datagram(port, _)) => self.datagram_done(port, (1, 0)),
            Some(Id::Sent(port)) => self.datagram_done(port, (0, 1)),
            Some(Id::Peer(peer)) => self.gone(peer, wc, lent),
            Some(Id::Laned(peer)) => self.gone_by_lane(peer, wc, lent),
            Some(Id::Landed(peer)) => self.landed(peer, wc, lent),
            None => Err(MpiError::with(
                MPI_ERR_INTERN,
                "a completion of nothing that was asked for",
            )),
        }
    }

    /// At a port of the adapter in hand so many receives of datagrams were given back, and so many
    /// datagrams have gone.
    #[cold]
    fn datagram_done(&mut self, port: u8, (flushed, gone): (u32, u32)) -> Outcome {
        let key = self.rails.common.key;
        if let Some(place) = self.rail.port_mut(port) {
            place.flushed += flushed;
            place.under_way = place.under_way.saturating_sub(gone);
        }
        match self.rail.listen_anew(port, key) {
            // The adapter says by itself that it has failed.
            Err(_) if self.limits.heal.is_on => Ok(()),
            begun => begun,
        }
    }

    /// Something has come into receive buffer `index`.
    fn arrived<R: Roster, D: Deliver>(
        &mut self,
        index: u32,
        wc: &Wc,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let length = wc.byte_len();
        let from = self.rail.numbers.rank_of(wc.qp_number().0);
        let Some(from) = from.filter(|_| wc.is_ok() && length <= self.rail.device.receive) else {
            self.rail.receives.spent.push(index);
            return match from {
                Some(from) if wc.is_ok() => Err(broken(from)),
                Some(from) => self.lost(from, wc, None, lent),
                None => Ok(()),
            };
        };
        let buffer = Arrived {
            from,
            index,
            length,
            numbers: wc.immediate(),
        };
        if !self.rail.receives.parked.is_empty() {
            // Those before it come first.
            self.rail.receives.parked.push_back(buffer);
            return Ok(());
        }
        self.take_buffer(buffer, false, lent)
    }

    /// Takes what lies in a receive buffer. Without memory for it, it stays where it is, and is
    /// looked at again in the next round.
    fn take_buffer<R: Roster, D: Deliver>(
        &mut self,
        buffer: Arrived,
        again: bool,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let outcome = self.take_message(buffer, again, lent);
        if is_met_again(&outcome) {
            self.rail.receives.parked.push_front(buffer);
        } else {
            self.rail.receives.spent.push(buffer.index);
        }
        outcome
    }

    /// A message has come into a receive buffer; `again` if a part of it may have been taken
    /// already.
    fn take_message<R: Roster, D: Deliver>(
        &mut self,
        buffer: Arrived,
        again: bool,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let Arrived {
            from,
            index,
            length,
            numbers,
        } = buffer;
        if !self.link(from).is_ready() && !self.admits(from)? {
            return Ok(());
        }
        let Some((envelope, body)) = self.read_message(from, (index, length), numbers) else {
            return Err(broken(from));
        };
        self.credit(from, envelope.credit);
        self.acknowledge(from, envelope.ack);
        if envelope.kind == Kind::Bundle {
            return self.take_bundle(from, body, again, lent);
        }
        self.take_in_turn(from, &envelope, body, lent)
    }

    /// A message has come by SEND, alone or in a bundle.
    pub(super) fn take_in_turn<R: Roster, D: Deliver>(
        &mut self,
        from: u32,
        envelope: &Envelope,
        body: Source,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        if !envelope.kind.is_numbered() {
            return self.tell(from, envelope, body, lent);
        }
        if !self.is_next(from, envelope.seq) {
            self.drain_before(from, lent)?;
        }
        if !self.is_next(from, envelope.seq) {
            // What was taken in a former life came again.
            let received = self.link(from).received;
            let is_taken = received.wrapping_sub(envelope.seq) < 1 << 31;
            return if is_taken { Ok(()) } else { Err(broken(from)) };
        }
        let outcome = self.take_next(from, envelope, body, lent);
        if !is_met_again(&outcome) {
            self.count_arrival(from)?;
            let length = (ENVELOPE + body.len()) as u32;
            if self.owes(from, length) {
                self.owe(from);
            }
        }
        outcome
    }

    /// Whether the message of that number is the next one of `from`.
    #[inline]
    pub(super) fn is_next(&mut self, from: u32, seq: u32) -> bool {
        seq == self.link(from).received.wrapping_add(1)
    }

    /// The next message of `from` has come, by whatever path. Where there is no memory for it, it
    /// is not taken, and met again.
    #[inline]
    pub(super) fn take_next<R: Roster, D: Deliver>(
        &mut self,
        from: u32,
        envelope: &Envelope,
        body: Source,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let outcome = self.tell(from, envelope, body, lent);
        if !is_met_again(&outcome) {
            self.link(from).received = envelope.seq;
        }
        outcome
    }

    /// A message whose turn it is has come from `from`, by whatever path. Its body may be read
    /// until this returns.
    #[inline]
    fn tell<R: Roster, D: Deliver>(
        &mut self,
        from: u32,
        envelope: &Envelope,
        body: Source,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        if trace::is_on() {
            write_down(from, envelope, body);
        }
        match envelope.kind {
            Kind::Lane
            | Kind::Open
            | Kind::Opened
            | Kind::Pause
            | Kind::Paused
            | Kind::Resume
            | Kind::Close
            | Kind::Closed
            | Kind::Cts
            | Kind::Fin
            | Kind::Renew
            | Kind::Note => self.take_word(from, envelope, body, lent),
            _ => {
                let verdict = lent.to.eager(from, envelope, body)?;
                lent.is_stopped |= verdict == Verdict::Stop;
                Ok(())
            }
        }
    }

    /// What ranks that are reached by verbs say to each other about that, or what says to the
    /// transport more than to whom it is for.
    #[cold]
    fn take_word<R: Roster, D: Deliver>(
        &mut self,
        from: u32,
        envelope: &Envelope,
        body: Source,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        if self.link(from).is_gone() {
            // What it is about has ended with that rank.
            return Ok(());
        }
        if envelope.flags & ACKNOW != 0 {
            self.is_asked(from);
        }
        if matches!(envelope.kind, Kind::Cts | Kind::Note) {
            self.take_landed(from, envelope.context as u32);
        }
        match envelope.kind {
            Kind::Cts | Kind::Fin => {
                if envelope.kind == Kind::Fin && self.link(from).long.given_up.is_any() {
                    let fin: Fin = body_of(from, body)?;
                    self.has_heard_end(from, fin.request.get());
                }
                let verdict = lent.to.eager(from, envelope, body)?;
                lent.is_stopped |= verdict == Verdict::Stop;
                Ok(())
            }
            Kind::Lane => self.take_lane(from, &body_of(from, body)?),
            Kind::Open => self.take_open(from, &body_of(from, body)?),
            Kind::Opened => self.take_opened(from, &body_of(from, body)?, lent),
            Kind::Pause => self.take_pause(from, &body_of(from, body)?, lent),
            Kind::Paused => self.take_paused(from, &body_of(from, body)?, lent),
            Kind::Resume => {
                self.take_resume(from, &body_of(from, body)?);
                Ok(())
            }
            Kind::Close => self.take_close(from, &body_of(from, body)?),
            Kind::Renew => self.take_renew(from, &body_of(from, body)?),
            Kind::Closed => self.take_closed(from, &body_of(from, body)?, lent),
            // A note says nothing else but that its sender is there.
            _ => Ok(()),
        }
    }

    /// A request to `peer` has completed.
    fn gone<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        wc: &Wc,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let link = self.link(peer);
        if wc.id() != link.wire.id {
            // It is of an old life.
            return Ok(());
        }
        let what = link.wire.queue.completed();
        if !wc.is_ok() {
            let at_fault = self.at_fault(what);
            return self.lost(peer, wc, at_fault, lent);
        }
        let Some(what) = what else {
            return Err(MpiError::with(
                MPI_ERR_INTERN,
                "a completion of nothing that was asked for",
            ));
        };
        match what {
            What::Room => (),
            What::Buffer(buffer) => self.stages.give(buffer),
            What::Moved { transfer, bytes } => self.moved(peer, transfer, bytes, lent),
        }
        Ok(())
    }

    /// Envelope and body of the message in a receive buffer of that index and length. None if a
    /// peer's word makes no sense.
    #[inline]
    fn read_message(
        &mut self,
        from: u32,
        (index, length): (u32, u32),
        numbers: Option<u32>,
    ) -> Option<(Envelope, Source)> {
        if let Some(numbers) = numbers {
            let link = self.links[from as usize].as_deref()?;
            let envelope =
                link.heads
                    .heard?
                    .whole(numbers, link.received, link.acks.log.acknowledged());
            return Some((
                envelope,
                self.rail.receives.buffers.source(index, 0, length),
            ));
        }
        let body = length.checked_sub(ENVELOPE as u32)?;
        let mut head = [0; ENVELOPE];
        self.rail.receives.buffers.read(index, 0, &mut head);
        let envelope = Envelope::parse(head)?;
        let link = self.link(from);
        link.heads.heard = Pattern::of(&envelope).or(link.heads.heard);
        let body = self
            .rail
            .receives
            .buffers
            .source(index, ENVELOPE as u32, body);
        Some((envelope, body))
    }
}

/// Whether a message was not taken, for want of memory, and is met again when there is some. An
/// error of any other class may have come behind its delivery: its number is taken, so that it is
/// never delivered twice.
#[inline]
pub(super) fn is_met_again(outcome: &Outcome) -> bool {
    matches!(outcome, Err(error) if error.class == MPI_ERR_NO_MEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED};

    #[test]
    fn only_a_message_without_memory_is_met_again() {
        assert!(!is_met_again(&Ok(())));
        for (class, again) in [
            (MPI_ERR_NO_MEM, true),
            (MPI_ERR_INTERN, false),
            (MPI_ERR_OTHER, false),
            (MPI_ERR_PROC_ABORTED, false),
        ] {
            assert_eq!(is_met_again(&Err(MpiError::new(class))), again, "{class}");
        }
    }
}
