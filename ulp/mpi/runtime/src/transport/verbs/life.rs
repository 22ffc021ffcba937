//! What becomes of a connection that failed, of a device that did, and how the end of a session
//! comes about; what is armed before this process sleeps.

use super::Net;
use super::errors::failed;
use super::link::Link;
use super::queue::What;
use crate::constants::{
    MPI_ERR_BUFFER, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
    MPI_THREAD_MULTIPLE,
};
use crate::errors::{MpiError, Outcome, broken};
use crate::objects::comms::WORLD;
use crate::runtime::Runtime;
use crate::wireup;
use ferriband_ibv::{EventKind, Wc, WcStatus};
use ferriband_mpi_proto::envelope::Kind;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Who is gone, and whether the end has begun.
pub struct Life {
    /// Ranks that were lost: what concerns them has still to end.
    pub(super) gone: Vec<u32>,
    /// The device has failed: nothing of it is asked any more.
    pub(super) is_dead: bool,
    /// When this rank last made sure that its peers are there.
    pub(super) alive: Instant,
    /// The end has begun: each request has a completion.
    pub(super) closing: bool,
}

impl Life {
    /// All are there.
    pub(super) fn new() -> Self {
        Self {
            gone: Vec::new(),
            is_dead: false,
            alive: Instant::now(),
            closing: false,
        }
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

impl Runtime {
    /// The connection to `peer` has failed; the first completion says how, the others that follow
    /// it are flushed. `at_fault`: the request that it is about, if its adapter says that of
    /// memory.
    #[cold]
    pub(super) fn lost(&mut self, peer: u32, wc: &Wc, at_fault: Option<u32>) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.link(peer).wire.lost.is_some() {
            return Ok(());
        }
        if net.life.closing && self.is_over(peer) {
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
        // The queue pairs at both ends have failed: the message at fault ends with that class, and
        // the peer learns of it now, not when nobody has answered for long.
        let at_fault = at_fault.filter(|_| class == MPI_ERR_BUFFER);
        let told = net.tell_end(peer);
        if let Some(request) = at_fault {
            self.point.requests[request].status.error = class;
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

    /// Breaks the connection to a peer that has broken the rules; the error to raise.
    #[cold]
    pub(super) fn broken_off(&mut self, peer: u32) -> MpiError {
        self.cut_off(peer, "it sent what no rank sends");
        broken(peer)
    }

    /// Ends what concerns ranks that were lost, and the call if the program wants that.
    #[cold]
    pub(super) fn after_loss(&mut self, error: MpiError) -> Outcome {
        self.bury_lost();
        if self.is_loss_fatal() {
            return Err(error);
        }
        // Those who have to do with that rank learn of it by their requests; the others go on.
        complain!("ferriband MPI: rank {}: {}", self.point.rank, error.text);
        Ok(())
    }

    /// Whether the program wants to end when another rank cannot be reached: it has not asked for
    /// errors to be returned.
    fn is_loss_fatal(&self) -> bool {
        matches!(
            self.point.objects.comms[WORLD].errhandler,
            MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT
        )
    }

    /// Ends what concerns ranks that were lost.
    #[cold]
    pub(super) fn bury_lost(&mut self) {
        while let Some(peer) = self.net.as_mut().and_then(|net| net.life.gone.pop()) {
            if !self.point.peers[peer as usize].lost {
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
        net.life.is_dead = true;
        let text = format!("{} has failed: {why}", net.device.name);
        for peer in 0..self.point.peers.len() as u32 {
            if self.point.peers[peer as usize].by_verbs
                && let Some(net) = &mut self.net
            {
                net.lose(peer, why, MPI_ERR_PROC_ABORTED);
            }
        }
        self.bury_lost();
        if fatal {
            return Err(MpiError::with(MPI_ERR_OTHER, text));
        }
        complain!("ferriband MPI: rank {}: {text}", self.point.rank);
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
        net.life.closing = true;
        for peer in 0..self.point.peers.len() as u32 {
            let is_silent = self.net.as_ref().is_some_and(|net| {
                net.links[peer as usize]
                    .as_ref()
                    .is_some_and(|link| link.wire.queue.has_silent() && link.wire.lost.is_none())
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
                    .is_none_or(|link| link.is_quiet() || link.wire.lost.is_some())
                    || self.has_left(peer)
            })
        })
    }

    /// Whether `peer` needs nothing more, and its process has ended: between two sessions it needs
    /// nothing more either, but answers.
    #[cold]
    fn has_left(&self, peer: u32) -> bool {
        let host = self.host.as_ref();
        self.point.peers[peer as usize].lost
            || host.is_some_and(|host| host.is_over(peer) && host.has_ended(peer))
    }

    /// Answers peers that wait for acknowledgements of their last messages, until all are content.
    /// The device stays: a session may begin, and the others know this rank by it.
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
            let waits = (0..self.point.peers.len() as u32).any(|peer| {
                let entry = &self.point.peers[peer as usize];
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
            net.life.closing = false;
        }
    }

    /// Who only waits has nothing under way that would tell him that a peer's host is gone: now and
    /// then an empty message has.
    fn keep_alive(&mut self) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.life.alive.elapsed() < ALIVE || net.life.is_dead {
            return Ok(());
        }
        net.life.alive = Instant::now();
        let is_silent = |link: &Link| {
            link.wire.machine.is_connected()
                && link.wire.lost.is_none()
                && !link.wire.queue.awaits_completion()
        };
        let peers: Vec<u32> = (0..)
            .zip(&net.links)
            .filter(|(_, link)| link.as_deref().is_some_and(is_silent))
            .map(|(peer, _)| peer)
            .collect();
        let closing = std::mem::replace(&mut net.life.closing, true);
        let mut outcome = Ok(());
        for peer in peers {
            outcome = outcome.and(self.queue_note(peer));
        }
        if let Some(net) = &mut self.net {
            net.life.closing = closing;
        }
        outcome
    }

    fn queue_note(&mut self, peer: u32) -> Outcome {
        self.answer(peer, Kind::Note, &[])
    }

    /// Before this process sleeps: the device shall say when something comes. The descriptors to
    /// wait on, and for how long at most, in milliseconds.
    /// A round must follow before the sleep.
    pub fn arm_net(&mut self) -> Outcome<(Vec<RawFd>, i32)> {
        // Among threads nobody sleeps for long.
        let is_shared = self.settings.job.threads == MPI_THREAD_MULTIPLE;
        let are_quiet = !is_shared && self.quieten()?;
        let Some(net) = &mut self.net else {
            return Ok((Vec::new(), -1));
        };
        let failure = if net.life.is_dead { None } else { net.hear()? };
        if let Some(why) = failure {
            self.device_failed(&why)?;
        }
        self.keep_alive()?;
        let Some(net) = self.net.as_mut().filter(|net| !net.life.is_dead) else {
            return Ok((Vec::new(), -1));
        };
        net.device
            .cq
            .arm(false)
            .map_err(|error| failed(&net.device.name, error))?;
        let fds = vec![
            net.device.channel.fd().as_raw_fd(),
            net.device.context.async_fd().as_raw_fd(),
        ];
        let waits_for_acks = net.waits_for_acks();
        let waits_for_card = self.point.stalled.iter().any(|peer| {
            net.links[*peer as usize]
                .as_ref()
                .is_none_or(|link| link.wire.machine.is_idle())
        });
        let timeout = match net.due_ns() {
            _ if waits_for_card => CARD_MS,
            Some(ns) => i32::try_from(ns / 1_000_000 + 1).unwrap_or(i32::MAX),
            None => -1,
        };
        // A WRITE wakes nobody, so who may be written to must look.
        let most = if !are_quiet || waits_for_acks {
            BLOCKS_MS
        } else if net.life.closing {
            ENDED_MS
        } else {
            ALIVE.as_millis() as i32
        };
        let timeout = if timeout < 0 { most } else { timeout.min(most) };
        Ok((fds, timeout))
    }
}

impl Net {
    /// The request of this rank whose bytes were to be moved by what has completed, and is over.
    #[cold]
    pub(super) fn request_of(&mut self, what: What) -> Option<u32> {
        let moved = match what {
            What::Room => None,
            What::Buffer(buffer) => {
                self.stages.give(buffer);
                None
            }
            What::Moved { transfer, .. } => Some(transfer),
        };
        let transfer = self.moves.transfers[moved? as usize].as_ref()?;
        transfer.request()
    }

    /// Takes what the device has to say that is no completion. Why it has failed, if it has.
    fn hear(&mut self) -> Outcome<Option<String>> {
        while self
            .device
            .channel
            .next_event()
            .map_err(|error| failed(&self.device.name, error))?
            .is_some()
        {}
        while let Some(event) = self
            .device
            .context
            .next_async_event()
            .map_err(|error| failed(&self.device.name, error))?
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

    /// The connection to `peer` is gone: nothing of it reads or writes memory any more, and what it
    /// held of others' is free.
    #[cold]
    pub(super) fn lose(&mut self, peer: u32, why: &str, class: i32) -> MpiError {
        let text = format!(
            "the connection to rank {peer} by {} is lost: {why}",
            self.device.name
        );
        let link = self.link(peer);
        if link.wire.lost.is_none() {
            link.wire.lost = Some(text.clone());
            self.life.gone.push(peer);
        }
        let link = self.link(peer);
        link.long.lane.lose();
        link.long.moving.clear();
        (link.fast.out, link.fast.gate, link.fast.lull) = Default::default();
        (link.acks.is_log_full, link.acks.owed) = Default::default();
        let number = link.wire.queue.qp.take().map(|qp| qp.number().0);
        let held: Vec<u32> = link.acks.log.abandon().collect();
        for buffer in held {
            self.stages.give(buffer);
        }
        while let Some(what) = self.link(peer).wire.queue.completed() {
            if let What::Buffer(buffer) = what {
                self.stages.give(buffer);
            }
        }
        if let Some(number) = number {
            self.numbers.forget(number);
        }
        self.moves.movers.retain(|mover| *mover != peer);
        for transfer in &mut self.moves.transfers {
            if transfer.as_ref().is_some_and(|one| one.peer() == peer) {
                *transfer = None;
            }
        }
        MpiError::with(class, text)
    }
}
