//! Completions: what has come, what has gone, and what becomes of a connection that failed.

use super::link::{Link, What};
use super::{Id, Net, failed};
use crate::constants::{
    MPI_ERR_BUFFER, MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED,
    MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_THREAD_MULTIPLE,
};
use crate::errors::{MpiError, Outcome};
use crate::host::Source;
use crate::objects::comms::WORLD;
use crate::runtime::Runtime;
use crate::wireup;
use ferriband_ibv::{EventKind, Wc, WcStatus};
use ferriband_mpi_proto::brief::{Pattern, fills_packets};
use ferriband_mpi_proto::connect::Step;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind, PADDED};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

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

/// Completions that are taken at once.
pub(super) const BATCH: usize = 16;

impl Runtime {
    /// Looks at the device. True if something happened.
    pub fn poll_net(&mut self) -> Outcome<bool> {
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        if net.is_dead {
            return Ok(false);
        }
        net.look_anew();
        if !net.parked.is_empty() {
            self.take_parked()?;
        }
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        let count = net
            .cq
            .poll(&mut *net.batch)
            .map_err(|error| failed(&net.name, error))?;
        let is_busy = !net.setting_up.is_empty();
        let has_lost = !net.gone.is_empty();
        let has_blocks = !net.inlets.is_empty();
        net.is_taking = count > 1 && net.makes_packets;
        let owes = !net.owing.is_empty();
        let mut outcome = Ok(());
        if count != 0 {
            // What they cause may look at the device.
            let batch = *net.batch;
            for wc in &batch[..count] {
                // One that fails does not lose the others.
                outcome = outcome.and(self.completed(wc));
            }
        }
        if let Some(net) = &mut self.net {
            let takes = std::mem::take(&mut net.is_taking);
            // One completion may be a bundle, whose answers are more than go at once: the next look may be long, while packets stream in.
            if takes || count != 0 && !net.bursts.is_empty() {
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
        if self.net.as_ref().is_some_and(|net| !net.movers.is_empty()) {
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
                    net.datagrams_under_way = net.datagrams_under_way.saturating_sub(1);
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
        let from = net.rank_of(wc.qp_number().0);
        let Some(from) = from.filter(|_| wc.is_ok() && length <= net.card.receive) else {
            net.spent.push(index);
            return match from {
                Some(from) if wc.is_ok() => Err(self.broken(from)),
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
        if !net.parked.is_empty() {
            // Those before it come first.
            net.parked.push_back(buffer);
            return Ok(());
        }
        self.take_buffer(buffer, false)
    }

    /// Takes what lies in a receive buffer. Without memory for it, it stays where it is, and is looked at again in the next round.
    fn take_buffer(&mut self, buffer: Arrived, again: bool) -> Outcome {
        let outcome = self.take_message(buffer, again);
        if let Some(net) = &mut self.net {
            match &outcome {
                Err(error) if error.class == MPI_ERR_NO_MEM => net.parked.push_front(buffer),
                _ => net.spent.push(buffer.index),
            }
        }
        outcome
    }

    /// Those for which there was no memory, in the order in which they came.
    #[cold]
    fn take_parked(&mut self) -> Outcome {
        while let Some(buffer) = self.net.as_mut().and_then(|net| net.parked.pop_front()) {
            self.take_buffer(buffer, true)?;
        }
        Ok(())
    }

    /// A message has come into a receive buffer; `again` if a part of it may have been taken already.
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
        let received = self.peers[from as usize].received;
        let machine = &mut net.link(from).machine;
        if !machine.is_connected() && machine.handle_message() == Step::None {
            return Ok(());
        }
        let Some((envelope, body)) = net.read_message(from, (index, length), numbers, received)
        else {
            return Err(self.broken(from));
        };
        net.credit(from, envelope.credit);
        net.acknowledge(from, envelope.ack, self.peers[from as usize].sent);
        if envelope.kind == Kind::Bundle {
            return self.take_bundle(from, body, again);
        }
        self.take_in_turn(from, &envelope, body)
    }

    /// A message has come by SEND, alone or in a bundle.
    pub(super) fn take_in_turn(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        if envelope.kind.is_numbered() {
            if envelope.seq != self.peers[from as usize].received.wrapping_add(1) {
                self.drain_before(from)?;
            }
            let peer = &mut self.peers[from as usize];
            if envelope.seq != peer.received.wrapping_add(1) {
                return Err(self.broken(from));
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
        if envelope.kind.is_numbered() {
            if outcome.is_err() {
                // Without memory it is met again when there is some.
                self.peers[from as usize].received = envelope.seq.wrapping_sub(1);
            } else if let Some(net) = &mut self.net {
                net.link(from).heard_last = envelope.seq;
            }
        }
        outcome
    }

    /// A request to `peer` has completed.
    fn gone(&mut self, peer: u32, wc: &Wc) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.link(peer).lost.is_some() {
            return Ok(());
        }
        let what = net.link(peer).queue.completed();
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
            What::Moved {
                transfer,
                bytes,
                buffer,
            } => {
                if let Some(buffer) = buffer {
                    net.stages.give(buffer);
                }
                self.moved(peer, transfer, bytes)
            }
        }
    }

    /// The connection to `peer` has failed; the first completion says how, the others that follow it are flushed. `at_fault`: the request that it is about, if its adapter says that of
    /// memory.
    #[cold]
    pub(super) fn lost(&mut self, peer: u32, wc: &Wc, at_fault: Option<u32>) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.link(peer).lost.is_some() {
            return Ok(());
        }
        if net.closing && self.is_over(peer) {
            // It has what it needs, and has gone.
            if let Some(net) = &mut self.net {
                net.lose(peer, "it has ended", MPI_ERR_PROC_ABORTED);
            }
            self.bury_lost();
            return Ok(());
        }
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let status = wc.status();
        let why = match status {
            WcStatus::RetryExceeded => "it does not answer any more (transport retry count exceeded, status 12)".to_owned(),
            WcStatus::RnrRetryExceeded => "it takes no message any more (receiver not ready, status 13)".to_owned(),
            WcStatus::RemoteAccess => "it does not let its memory be read or written so (remote access error, status 10)".to_owned(),
            WcStatus::LocalProtection => "the program's buffer is no memory that can be read or written (local protection error, status 4)".to_owned(),
            status => format!("{status:?} (status {}, vendor's code {:#x})", status.to_c(), wc.vendor_error()),
        };
        let class = match status {
            // the last where a peer that copies from this process cannot
            WcStatus::RemoteAccess
            | WcStatus::LocalProtection
            | WcStatus::RemoteOperation
            | WcStatus::RemoteInvalidRequest => MPI_ERR_BUFFER,
            _ => MPI_ERR_PROC_ABORTED,
        };
        // The queue pairs at both ends have failed: the message at fault ends with that class, and the peer learns of it now, not when nobody has answered for long.
        let at_fault = at_fault.filter(|_| class == MPI_ERR_BUFFER);
        let told = net.tell_end(peer);
        if let Some(request) = at_fault {
            self.requests[request].status.error = class;
            self.withdraw(request);
            self.finish(request);
        }
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let error = net.lose(peer, &why, class);
        self.after_loss(error).and(told)
    }

    /// Breaks the connection to `peer`: nothing that it sends reaches memory of this rank any more.
    #[cold]
    pub fn cut_off(&mut self, peer: u32, why: &str) {
        if let Some(net) = &mut self.net {
            let _ = net.tell_end(peer);
            net.lose(peer, why, MPI_ERR_PROC_ABORTED);
        }
        self.bury_lost();
    }

    /// The same, because the peer has broken its rules.
    #[cold]
    pub(super) fn broken_off(&mut self, peer: u32) -> MpiError {
        self.cut_off(peer, "it sent what no rank sends");
        self.broken(peer)
    }

    /// Ends what concerns ranks that were lost, and the call if the program wants that.
    #[cold]
    pub(super) fn after_loss(&mut self, error: MpiError) -> Outcome {
        self.bury_lost();
        if self.is_loss_fatal() {
            return Err(error);
        }
        // Those who have to do with that rank learn of it by their requests; the others go on.
        complain!("ferriband MPI: rank {}: {}", self.rank, error.text);
        Ok(())
    }

    /// Whether the program wants to end when another rank cannot be reached: it has not asked for errors to be returned.
    fn is_loss_fatal(&self) -> bool {
        matches!(
            self.objects.comms[WORLD].errhandler,
            MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT
        )
    }

    /// Ends what concerns ranks that were lost.
    #[cold]
    fn bury_lost(&mut self) {
        while let Some(peer) = self.net.as_mut().and_then(|net| net.gone.pop()) {
            if !self.peers[peer as usize].lost {
                self.lose(peer);
            }
        }
    }

    /// The device has failed, and with it all connections.
    #[cold]
    fn device_failed(&mut self, why: &str) -> Outcome {
        let fatal = self.is_loss_fatal();
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        net.is_dead = true;
        let text = format!("{} has failed: {why}", net.name);
        for peer in 0..self.peers.len() as u32 {
            if self.peers[peer as usize].by_verbs
                && let Some(net) = &mut self.net
            {
                net.lose(peer, why, MPI_ERR_PROC_ABORTED);
            }
        }
        self.bury_lost();
        if fatal {
            return Err(MpiError::with(MPI_ERR_OTHER, text));
        }
        complain!("ferriband MPI: rank {}: {text}", self.rank);
        Ok(())
    }

    /// Whether `peer` has said that it needs nothing more.
    pub(super) fn is_over(&self, peer: u32) -> bool {
        self.host.as_ref().is_some_and(|host| host.is_over(peer))
    }

    /// The end begins: from here on each request has a completion, so that it can be waited for.
    pub fn close_net(&mut self) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        net.closing = true;
        for peer in 0..self.peers.len() as u32 {
            let is_silent = self.net.as_ref().is_some_and(|net| {
                net.links[peer as usize]
                    .as_ref()
                    .is_some_and(|link| link.queue.has_silent() && link.lost.is_none())
            });
            if is_silent {
                self.queue_note(peer)?;
            }
        }
        Ok(())
    }

    /// Whether all that was sent by verbs has come.
    pub fn is_drained(&self) -> bool {
        self.net.as_ref().is_none_or(|net| {
            (0..).zip(&net.links).all(|(peer, link)| {
                link.as_deref()
                    .is_none_or(|link| link.is_quiet() || link.lost.is_some())
                    || self.has_left(peer)
            })
        })
    }

    /// Whether `peer` needs nothing more, and its process has ended: between two sessions it needs nothing more either, but answers.
    #[cold]
    fn has_left(&self, peer: u32) -> bool {
        let host = self.host.as_ref();
        self.peers[peer as usize].lost
            || host.is_some_and(|host| host.is_over(peer) && host.has_ended(peer))
    }

    /// Answers peers that wait for acknowledgements of their last messages, until all are content. The device
    /// stays: a session may begin, and the others know this rank by it.
    pub fn linger(&mut self) {
        let begun = Instant::now();
        // What ranks say in another segment is not seen here; their engine says it.
        let has_far = self.host.as_ref().is_some_and(wireup::has_far_ranks);
        if has_far {
            wireup::begin_last_fence();
        }
        let mut is_passed = !has_far;
        while self.net.is_some() && begun.elapsed() < LINGER {
            is_passed = is_passed || wireup::is_last_fence_over();
            let is_seen =
                |peer| !has_far || self.host.as_ref().is_some_and(|host| host.is_near(peer));
            let waits = (0..self.peers.len() as u32).any(|peer| {
                let entry = &self.peers[peer as usize];
                // The dead want nothing.
                entry.by_verbs && !entry.lost && is_seen(peer) && !self.is_over(peer)
            });
            if is_passed && !waits {
                break;
            }
            // What fails now fails for somebody who has gone.
            let _ = self.poll_net();
            let _ = self.unstall();
            std::thread::sleep(Duration::from_micros(200));
        }
        self.reopen_net();
    }

    /// It was not the end: messages go as they did before.
    pub fn reopen_net(&mut self) {
        if let Some(net) = &mut self.net {
            net.closing = false;
        }
    }

    /// Who only waits has nothing under way that would tell him that a peer's host is gone: now and then an empty message has.
    fn keep_alive(&mut self) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.alive.elapsed() < ALIVE || net.is_dead {
            return Ok(());
        }
        net.alive = Instant::now();
        let is_silent = |link: &Link| {
            link.machine.is_connected() && link.lost.is_none() && !link.queue.awaits_completion()
        };
        let peers: Vec<u32> = (0..)
            .zip(&net.links)
            .filter(|(_, link)| link.as_deref().is_some_and(is_silent))
            .map(|(peer, _)| peer)
            .collect();
        let closing = std::mem::replace(&mut net.closing, true);
        let mut outcome = Ok(());
        for peer in peers {
            outcome = outcome.and(self.queue_note(peer));
        }
        if let Some(net) = &mut self.net {
            net.closing = closing;
        }
        outcome
    }

    fn queue_note(&mut self, peer: u32) -> Outcome {
        self.answer(peer, Kind::Note, &[])
    }

    /// Before this process sleeps: the device shall say when something comes. The descriptors to wait on, and for how long at most, in milliseconds.
    /// A round must follow before the sleep.
    pub fn arm_net(&mut self) -> Outcome<(Vec<RawFd>, i32)> {
        // Among threads nobody sleeps for long.
        let is_shared = self.settings.job.threads == MPI_THREAD_MULTIPLE;
        let are_quiet = !is_shared && self.quieten()?;
        let Some(net) = &mut self.net else {
            return Ok((Vec::new(), -1));
        };
        let failure = if net.is_dead { None } else { net.hear()? };
        if let Some(why) = failure {
            self.device_failed(&why)?;
        }
        self.keep_alive()?;
        let Some(net) = self.net.as_mut().filter(|net| !net.is_dead) else {
            return Ok((Vec::new(), -1));
        };
        net.cq
            .arm(false)
            .map_err(|error| failed(&net.name, error))?;
        let fds = vec![
            net.channel.fd().as_raw_fd(),
            net.context.async_fd().as_raw_fd(),
        ];
        let waits_for_acks = net.waits_for_acks();
        let waits_for_card = self.stalled.iter().any(|peer| {
            net.links[*peer as usize]
                .as_ref()
                .is_none_or(|link| link.machine.is_idle())
        });
        let timeout = match net.due_ns() {
            _ if waits_for_card => CARD_MS,
            Some(ns) => i32::try_from(ns / 1_000_000 + 1).unwrap_or(i32::MAX),
            None => -1,
        };
        // A WRITE wakes nobody, so who may be written to must look.
        let most = if !are_quiet || waits_for_acks {
            BLOCKS_MS
        } else if net.closing {
            ENDED_MS
        } else {
            ALIVE.as_millis() as i32
        };
        let timeout = if timeout < 0 { most } else { timeout.min(most) };
        Ok((fds, timeout))
    }
}

/// How often a rank that waits for its last messages to come looks whether a peer has ended.
const ENDED_MS: i32 = 20;
/// How often a rank that sleeps makes sure that its peers' adapters are there.
const ALIVE: Duration = Duration::from_secs(2);
/// How often a rank that sleeps looks at blocks that peers may write to.
const BLOCKS_MS: i32 = 1;
/// Nobody waits longer for others that have still to leave.
const LINGER: Duration = Duration::from_secs(5);
/// How often a rank that sleeps looks whether a peer has come to MPI_Init.
const CARD_MS: i32 = 2;

impl Net {
    /// The request of this rank whose bytes were to be moved by what has completed, and is over.
    #[cold]
    pub(super) fn request_of(&mut self, what: What) -> Option<u32> {
        let (moved, buffer) = match what {
            What::Room => (None, None),
            What::Buffer(buffer) => (None, Some(buffer)),
            What::Moved {
                transfer, buffer, ..
            } => (Some(transfer), buffer),
        };
        if let Some(buffer) = buffer {
            self.stages.give(buffer);
        }
        let transfer = self.transfers[moved? as usize].as_ref()?;
        transfer.request()
    }

    /// Envelope and body of the message in a receive buffer of that index and length. None if a peer's word makes no sense.
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
                .heard?
                .whole(numbers, received, link.log.acknowledged());
            return Some((envelope, self.receives.source(index, 0, length)));
        }
        let link = self.links[from as usize].as_deref()?;
        if fills_packets(length as usize, link.mtu as usize) {
            let seq = link.heard_last.wrapping_add(1);
            let envelope = link.heard?.next(seq, link.log.acknowledged());
            return Some((envelope, self.receives.source(index, 0, length)));
        }
        let mut body = length.checked_sub(ENVELOPE as u32)?;
        let mut head = [0; ENVELOPE];
        self.receives.read(index, 0, &mut head);
        let mut envelope = Envelope::parse(head)?;
        let link = self.link(from);
        link.heard = Pattern::of(&envelope).or(link.heard);
        if envelope.flags & PADDED != 0 {
            envelope.flags &= !PADDED;
            body = body.checked_sub(1)?;
        }
        let body = self.receives.source(index, ENVELOPE as u32, body);
        Some((envelope, body))
    }

    /// Takes what the device has to say that is no completion. Why it has failed, if it has.
    fn hear(&mut self) -> Outcome<Option<String>> {
        while self
            .channel
            .next_event()
            .map_err(|error| failed(&self.name, error))?
            .is_some()
        {}
        while let Some(event) = self
            .context
            .next_async_event()
            .map_err(|error| failed(&self.name, error))?
        {
            match event.kind {
                EventKind::SrqLimitReached => self.double_receives()?,
                EventKind::DeviceFatal | EventKind::CqError | EventKind::SrqError => {
                    return Ok(Some(format!("{:?}", event.kind)));
                }
                // A queue pair that fails says so by its completions.
                _ => (),
            }
        }
        Ok(None)
    }
}
