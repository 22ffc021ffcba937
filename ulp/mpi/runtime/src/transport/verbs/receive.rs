//! Completions: what has come, and what has gone. A connection that failed is [`super::life`]'s.

use super::errors::failed;
use super::memory::Buffers;
use super::queue::What;
use super::{Id, Net};
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_NO_MEM};
use crate::errors::{MpiError, Outcome, broken};
use crate::host::Source;
use crate::runtime::Runtime;
use crate::trace;
use crate::transport::contract::{Deliver, body_of, write_down};
use ferriband_ibv::{Srq, Wc};
use ferriband_mpi_proto::brief::Pattern;
use ferriband_mpi_proto::connect::Step;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind};
use std::collections::VecDeque;
use std::sync::Arc;

/// A receive buffer with what has come into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    from: u32,
    index: u32,
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
}

/// Completions that are taken at once.
pub(super) const BATCH: usize = 16;

impl Runtime {
    /// Looks at the device. True if something happened.
    pub fn poll_net(&mut self) -> Outcome<bool> {
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        if net.life.is_dead {
            return Ok(false);
        }
        net.look_anew();
        if !net.receives.parked.is_empty() {
            self.take_parked()?;
        }
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        let count = net
            .device
            .cq
            .poll(&mut *net.receives.batch)
            .map_err(|error| failed(&net.device.name, error))?;
        let is_busy = !net.connect.setting_up.is_empty();
        let has_lost = !net.life.gone.is_empty();
        let has_blocks = !net.blocks.inlets.is_empty();
        net.coalesce.is_taking = count > 1 && net.device.makes_packets;
        let owes = !net.blocks.owing.is_empty();
        let mut outcome = Ok(());
        if count != 0 {
            // What they cause may look at the device.
            let batch = *net.receives.batch;
            for wc in &batch[..count] {
                // One that fails does not lose the others.
                outcome = outcome.and(self.completed(wc));
            }
        }
        if let Some(net) = &mut self.net {
            let takes = std::mem::take(&mut net.coalesce.is_taking);
            // One completion may be a bundle, whose answers are more than go at once: the next look
            // may be long, while packets stream in.
            if takes || count != 0 && !net.coalesce.bursts.is_empty() {
                outcome = outcome.and(self.unstall().map(drop));
            }
        }
        if count != 0
            && let Some(net) = &mut self.net
        {
            outcome = outcome.and(net.give_back());
        }
        if has_lost {
            self.bury_lost();
        }
        outcome?;
        if self
            .net
            .as_ref()
            .is_some_and(|net| !net.moves.movers.is_empty())
        {
            self.move_all()?;
        }
        if owes {
            // Those of the last round: what the program has sent since may have told them.
            self.pay()?;
        }
        let mut did = is_busy && self.set_up()?;
        if has_blocks {
            did |= self.poll_blocks()?;
        }
        Ok(count != 0 || did)
    }

    fn completed(&mut self, wc: &Wc) -> Outcome {
        match Id::of(wc.id()) {
            Some(Id::Receive(index)) => self.arrived(index, wc),
            Some(Id::Datagram(index)) if wc.is_ok() => self.take_datagram(index, wc.byte_len()),
            Some(Id::Datagram(index)) => match &self.net {
                Some(net) => net.listen(index),
                None => Ok(()),
            },
            Some(Id::Sent) => {
                if let Some(net) = &mut self.net {
                    net.connect.under_way = net.connect.under_way.saturating_sub(1);
                }
                Ok(())
            }
            Some(Id::Peer(peer)) => self.gone(peer, wc),
            Some(Id::Laned(peer)) => self.gone_by_lane(peer, wc),
            Some(Id::Landed(peer)) => self.landed(peer, wc),
            None => Err(MpiError::with(
                MPI_ERR_INTERN,
                "a completion of nothing that was asked for",
            )),
        }
    }

    /// Something has come into receive buffer `index`.
    fn arrived(&mut self, index: u32, wc: &Wc) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let length = wc.byte_len();
        let from = net.numbers.rank_of(wc.qp_number().0);
        let Some(from) = from.filter(|_| wc.is_ok() && length <= net.device.card.receive) else {
            net.receives.spent.push(index);
            return match from {
                Some(from) if wc.is_ok() => Err(broken(from)),
                Some(from) => self.lost(from, wc, None),
                None => Ok(()),
            };
        };
        let buffer = Arrived {
            from,
            index,
            length,
            numbers: wc.immediate(),
        };
        if !net.receives.parked.is_empty() {
            // Those before it come first.
            net.receives.parked.push_back(buffer);
            return Ok(());
        }
        self.take_buffer(buffer, false)
    }

    /// Takes what lies in a receive buffer. Without memory for it, it stays where it is, and is
    /// looked at again in the next round.
    fn take_buffer(&mut self, buffer: Arrived, again: bool) -> Outcome {
        let outcome = self.take_message(buffer, again);
        let settled = self.settle_due();
        if let Some(net) = &mut self.net {
            match &outcome {
                Err(error) if error.class == MPI_ERR_NO_MEM => {
                    net.receives.parked.push_front(buffer)
                }
                _ => net.receives.spent.push(buffer.index),
            }
        }
        outcome.and(settled)
    }

    /// Those for which there was no memory, in the order in which they came.
    #[cold]
    fn take_parked(&mut self) -> Outcome {
        while let Some(buffer) = self
            .net
            .as_mut()
            .and_then(|net| net.receives.parked.pop_front())
        {
            self.take_buffer(buffer, true)?;
        }
        Ok(())
    }

    /// A message has come into a receive buffer; `again` if a part of it may have been taken
    /// already.
    fn take_message(&mut self, buffer: Arrived, again: bool) -> Outcome {
        let Arrived {
            from,
            index,
            length,
            numbers,
        } = buffer;
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let received = self.point.peers[from as usize].received;
        let machine = &mut net.link(from).wire.machine;
        if !machine.is_connected() && machine.handle_message() == Step::None {
            return Ok(());
        }
        let Some((envelope, body)) = net.read_message(from, (index, length), numbers, received)
        else {
            return Err(broken(from));
        };
        net.credit(from, envelope.credit);
        net.acknowledge(from, envelope.ack, self.point.peers[from as usize].sent);
        if envelope.kind == Kind::Bundle {
            return self.take_bundle(from, body, again);
        }
        self.take_in_turn(from, &envelope, body)
    }

    /// A message has come by SEND, alone or in a bundle.
    pub(super) fn take_in_turn(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        if envelope.kind.is_numbered() {
            if envelope.seq != self.point.peers[from as usize].received.wrapping_add(1) {
                self.drain_before(from)?;
            }
            let peer = &mut self.point.peers[from as usize];
            if envelope.seq != peer.received.wrapping_add(1) {
                return Err(broken(from));
            }
            peer.received = envelope.seq;
            self.count_arrival(from)?;
            let length = (ENVELOPE + body.len()) as u32;
            if self.owes(from, length)
                && let Some(net) = &mut self.net
            {
                net.owe(from);
            }
        }
        let outcome = self.take(from, envelope, body);
        if envelope.kind.is_numbered() && outcome.is_err() {
            // Without memory it is met again when there is some.
            self.point.peers[from as usize].received = envelope.seq.wrapping_sub(1);
        }
        outcome
    }

    /// A message whose turn it is has come from `from`, by whatever path. Its body may be read
    /// until this returns.
    #[inline]
    pub(super) fn take(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
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
            | Kind::Closed => self.take_control(from, envelope.kind, body),
            _ => self.point.eager(from, envelope, body).map(drop),
        }
    }

    /// What ranks that are reached by verbs say to each other about that.
    #[cold]
    fn take_control(&mut self, from: u32, kind: Kind, body: Source) -> Outcome {
        if self.point.peers[from as usize].lost {
            // What it is about has ended with that rank.
            return Ok(());
        }
        match kind {
            Kind::Lane => self.take_lane(from, &body_of(from, body)?),
            Kind::Open => self.take_open(from, &body_of(from, body)?),
            Kind::Opened => self.take_opened(from, &body_of(from, body)?),
            Kind::Pause => self.take_pause(from, &body_of(from, body)?),
            Kind::Paused => self.take_paused(from, &body_of(from, body)?),
            Kind::Resume => self.take_resume(from, &body_of(from, body)?),
            Kind::Close => self.take_close(from, &body_of(from, body)?),
            _ => self.take_closed(from, &body_of(from, body)?),
        }
    }

    /// A request to `peer` has completed.
    fn gone(&mut self, peer: u32, wc: &Wc) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.link(peer).wire.lost.is_some() {
            return Ok(());
        }
        let what = net.link(peer).wire.queue.completed();
        if !wc.is_ok() {
            let at_fault = what.and_then(|what| net.request_of(what));
            return self.lost(peer, wc, at_fault);
        }
        let Some(what) = what else {
            return Err(MpiError::with(
                MPI_ERR_INTERN,
                "a completion of nothing that was asked for",
            ));
        };
        match what {
            What::Room => Ok(()),
            What::Buffer(buffer) => {
                net.stages.give(buffer);
                Ok(())
            }
            What::Moved { transfer, bytes } => self.moved(peer, transfer, bytes),
        }
    }
}

impl Net {
    /// Envelope and body of the message in a receive buffer of that index and length. None if a
    /// peer's word makes no sense.
    #[inline]
    fn read_message(
        &mut self,
        from: u32,
        (index, length): (u32, u32),
        numbers: Option<u32>,
        received: u32,
    ) -> Option<(Envelope, Source)> {
        if let Some(numbers) = numbers {
            let link = self.links[from as usize].as_deref()?;
            let envelope = link
                .heads
                .heard?
                .whole(numbers, received, link.acks.log.acknowledged());
            return Some((envelope, self.receives.buffers.source(index, 0, length)));
        }
        let body = length.checked_sub(ENVELOPE as u32)?;
        let mut head = [0; ENVELOPE];
        self.receives.buffers.read(index, 0, &mut head);
        let envelope = Envelope::parse(head)?;
        let link = self.link(from);
        link.heads.heard = Pattern::of(&envelope).or(link.heads.heard);
        let body = self.receives.buffers.source(index, ENVELOPE as u32, body);
        Some((envelope, body))
    }
}
