//! Completions: what has come, what has gone, and what becomes of a connection that failed.

use super::link::What;
use super::{Id, Net, failed};
use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED, MPI_THREAD_MULTIPLE};
use crate::errors::{MpiError, Outcome};
use crate::runtime::Runtime;
use crate::wireup;
use ferriband_ibv::{EventKind, Wc, WcStatus};
use ferriband_mpi_proto::connect::Step;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Completions that are taken at once.
const BATCH: usize = 16;

impl Runtime {
    /// Looks at the device. True if something happened.
    pub fn poll_net(&mut self) -> Outcome<bool> {
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        let mut batch = [Wc::default(); BATCH];
        let count = net
            .cq
            .poll(&mut batch)
            .map_err(|error| failed(&net.name, error))?;
        let is_busy = !net.setting_up.is_empty();
        let has_blocks = !net.inlets.is_empty();
        let mut outcome = Ok(());
        for wc in &batch[..count] {
            // One that fails does not lose the others.
            outcome = outcome.and(self.completed(wc));
        }
        if count != 0
            && let Some(net) = &mut self.net
        {
            outcome = outcome.and(net.give_back());
        }
        outcome?;
        if self.net.as_ref().is_some_and(|net| !net.movers.is_empty()) {
            self.move_all()?;
        }
        if self.net.as_ref().is_some_and(|net| !net.owing.is_empty()) {
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
            Some(Id::Receive(index)) => {
                let outcome = self.arrived(index, wc);
                if let Some(net) = &mut self.net {
                    net.spent.push(index);
                }
                outcome
            }
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
            None => Err(MpiError::with(
                MPI_ERR_INTERN,
                "a completion of nothing that was asked for",
            )),
        }
    }

    /// A message has come into receive buffer `index`.
    fn arrived(&mut self, index: u32, wc: &Wc) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let Some(from) = net.rank_of(wc.qp_number().0) else {
            return Ok(());
        };
        if !wc.is_ok() {
            return self.lost(from, wc);
        }
        let length = wc.byte_len();
        let Some(body) = length.checked_sub(ENVELOPE as u32) else {
            return Err(self.broken(from));
        };
        let mut head = [0; ENVELOPE];
        net.receives.read(index, 0, &mut head);
        let body = net.receives.source(index, ENVELOPE as u32, body);
        let machine = &mut net.link(from).machine;
        if !machine.is_connected() && machine.handle_message() == Step::None {
            return Ok(());
        }
        let Some(envelope) = Envelope::parse(head) else {
            return Err(self.broken(from));
        };
        net.credit(from, envelope.credit);
        net.acknowledge(from, envelope.ack, self.peers[from as usize].sent);
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
            if self.owes(from, length) {
                self.tell_taken(from)?;
            }
        }
        self.take(from, &envelope, body)
    }

    /// A request to `peer` has completed.
    fn gone(&mut self, peer: u32, wc: &Wc) -> Outcome {
        if !wc.is_ok() {
            return self.lost(peer, wc);
        }
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let Some(what) = net.link(peer).completed() else {
            return Err(MpiError::with(
                MPI_ERR_INTERN,
                "a completion of nothing that was asked for",
            ));
        };
        match what {
            What::Room => Ok(()),
            What::Buffer(buffer) => {
                net.give_stage(buffer);
                Ok(())
            }
            What::Moved {
                transfer,
                bytes,
                buffer,
            } => {
                net.free.extend(buffer);
                self.moved(peer, transfer, bytes)
            }
        }
    }

    /// The connection to `peer` has failed; the first completion says how, the others that follow it are flushed.
    #[cold]
    fn lost(&mut self, peer: u32, wc: &Wc) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.link(peer).lost.is_some() || (net.closing && self.is_over(peer)) {
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
        let mut error = net.lose(peer, &why);
        error.class = match status {
            WcStatus::RemoteAccess | WcStatus::LocalProtection => MPI_ERR_BUFFER,
            _ => MPI_ERR_PROC_ABORTED,
        };
        self.abandon(peer, error.class);
        Err(error)
    }

    /// Ends what concerns a peer that cannot be reached any more.
    #[cold]
    fn abandon(&mut self, peer: u32, class: i32) {
        self.peers[peer as usize].fifo.clear();
        self.stalled.retain(|stalled| *stalled != peer);
        let concerned: Vec<u32> = (0..self.requests.places())
            .filter(|index| self.requests.get(*index).is_some())
            .filter(|index| {
                let request = &self.requests[*index];
                !request.done && request.peer == peer
            })
            .collect();
        for request in concerned {
            self.requests[request].status.error = class;
            self.finish(request);
        }
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
                    .is_some_and(|link| link.has_silent() && link.lost.is_none())
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
            net.links
                .iter()
                .flatten()
                .all(|link| link.is_quiet() || link.lost.is_some())
        })
    }

    /// Answers peers that wait for acknowledgements of their last messages, until all are content; then lets the device go.
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
                self.peers[peer as usize].by_verbs && is_seen(peer) && !self.is_over(peer)
            });
            if is_passed && !waits {
                break;
            }
            // What fails now fails for somebody who has gone.
            let _ = self.poll_net();
            std::thread::sleep(Duration::from_micros(200));
        }
        self.net = None;
    }

    fn queue_note(&mut self, peer: u32) -> Outcome {
        self.answer(peer, Kind::Note, &[])
    }

    /// Before this process sleeps: the device shall say when something comes. The descriptors to wait on, and for how long at most, in milliseconds.
    /// A round must follow before the sleep.
    pub fn arm_net(&mut self) -> Outcome<(Vec<RawFd>, i32)> {
        // Among threads nobody sleeps for long.
        let is_shared = self.settings.threads == MPI_THREAD_MULTIPLE;
        let are_quiet = !is_shared && self.quieten()?;
        let Some(net) = &mut self.net else {
            return Ok((Vec::new(), -1));
        };
        net.hear()?;
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
        let timeout = if are_quiet && !waits_for_acks {
            timeout
        } else {
            BLOCKS_MS
        };
        Ok((fds, timeout))
    }
}

/// How often a rank that sleeps looks at blocks that peers may write to.
const BLOCKS_MS: i32 = 1;
/// Nobody waits longer for others that have still to leave.
const LINGER: Duration = Duration::from_secs(5);
/// How often a rank that sleeps looks whether a peer has come to MPI_Init.
const CARD_MS: i32 = 2;

impl Net {
    /// Takes what the device has to say that is no completion.
    fn hear(&mut self) -> Outcome {
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
                    return Err(MpiError::with(
                        MPI_ERR_INTERN,
                        format!("{} has failed: {:?}", self.name, event.kind),
                    ));
                }
                // A queue pair that fails says so by its completions.
                _ => (),
            }
        }
        Ok(())
    }
}
