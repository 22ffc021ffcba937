//! What becomes of a connection that failed, of a device that did, and how the end of a session
//! comes about; what is armed before this process sleeps.

use super::errors::failed;
use super::faults::{AtFault, is_of_memory};
use super::heal::{Looks, Watch, call_attention};
use super::link::Link;
use super::news::News;
use super::queue::What;
use super::{Lent, Net};
use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_PROC_ABORTED};
use crate::errors::{MpiError, Outcome, broken};
use crate::transport::contract::{Deliver, Lost, Roster};
use ferriband_heal::{Cause, PeerNews, State};
use ferriband_ibv::{Wc, WcStatus};
use ferriband_mpi_proto::envelope::Kind;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Who is gone, and whether the end has begun.
pub struct Life {
    /// What is still to be told: of connections that were lost, for what concerns those peers has
    /// to end, and of messages that are over.
    pub(super) news: Vec<News>,
    /// The device has failed: nothing of it is asked any more.
    pub(super) is_dead: bool,
    /// When this rank last made sure that its peers are there.
    pub(super) alive: Instant,
    /// The end has begun: each request has a completion.
    pub(super) closing: bool,
    /// There are adapters beside the one in hand, or that one is closed.
    pub(super) has_rails: bool,
    /// The errno of memory that a device did not take, as it was said last.
    pub(super) said_of_memory: Option<i32>,
    /// Why the device has failed, if it has said so and nobody has asked since.
    pub(super) failure: Option<String>,
    /// The thread that hears what devices say by themselves; none: the rank does, before it sleeps.
    pub(super) watch: Option<Watch>,
    /// When connections are looked at for silence.
    pub(super) looks: Looks,
}

impl Life {
    /// All are there.
    pub(super) fn new(has_rails: bool) -> Self {
        Self {
            news: Vec::new(),
            is_dead: false,
            alive: Instant::now(),
            closing: false,
            has_rails,
            said_of_memory: None,
            failure: None,
            watch: None,
            looks: Looks::default(),
        }
    }
}

/// How often a rank that waits for its last messages to come looks whether a peer has ended.
const ENDED_MS: i32 = 20;
/// How often a rank that sleeps makes sure that its peers' adapters are there.
const ALIVE: Duration = Duration::from_secs(2);
/// How often a rank that sleeps looks at blocks that peers may write to.
const BLOCKS_MS: i32 = 1;
/// How often a rank that sleeps looks whether a peer has come to MPI_Init.
const CARD_MS: i32 = 2;

impl Net {
    /// The connection to `peer` has failed; the first completion says how, the others that follow
    /// it are flushed. `at_fault`: the message that it is about.
    #[cold]
    pub(super) fn lost<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        wc: &Wc,
        at_fault: Option<AtFault>,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let status = wc.status();
        let is_of_memory = is_of_memory(status);
        if let Some(at_fault) = at_fault
            && is_of_memory
            && self.heals(peer)
        {
            // Whatever noticed first that the life is over: once it is proven, the message has no
            // part in the next.
            if self.is_proven(peer, Some(at_fault)) {
                self.end_at_fault(peer, at_fault, lent);
            }
            self.end_life(peer, Cause::Message);
            return Ok(());
        }
        let wire = &self.link(peer).wire;
        if wire.lost.is_some() || !wire.has_life() {
            return Ok(());
        }
        lent.is_stopped = true;
        if self.life.closing && lent.roster.is_over(peer) {
            // It has what it needs, and has gone.
            self.lose(peer, "it has ended", MPI_ERR_PROC_ABORTED);
            return Ok(());
        }
        let why = match status {
            WcStatus::RetryExceeded => "it does not answer any more (transport retry count exceeded, status 12)".to_owned(),
            WcStatus::RnrRetryExceeded => "it takes no message any more (receiver not ready, status 13)".to_owned(),
            WcStatus::RemoteAccess => "it does not let its memory be read or written so (remote access error, status 10)".to_owned(),
            WcStatus::LocalProtection => "the program's buffer is no memory that can be read or written (local protection error, status 4)".to_owned(),
            status => format!("{status:?} (status {}, vendor's code {:#x})", status.to_c(), wc.vendor_error()),
        };
        let class = if is_of_memory {
            MPI_ERR_BUFFER
        } else {
            MPI_ERR_PROC_ABORTED
        };
        if status == WcStatus::RetryExceeded {
            self.is_unanswered(peer);
        }
        // Memory of the runtimes' own is good, as far as they know.
        if self.heals(peer) && !(is_of_memory && self.is_proven(peer, None)) {
            self.end_life(peer, cause_of(status));
            return Ok(());
        }
        // The queue pairs at both ends have failed: the message at fault ends with that class, and
        // the peer learns of it now, not when nobody has answered for long.
        let told = self.tell_end(peer);
        if let Some(at_fault) = at_fault.filter(|_| is_of_memory) {
            self.end_at_fault(peer, at_fault, lent);
        }
        self.lose_aloud(peer, &why, class);
        told
    }

    /// Breaks the connection to `peer`: nothing that it sends reaches memory of this rank any more.
    #[cold]
    pub fn cut_off(&mut self, peer: u32, why: &str) {
        let _ = self.tell_end(peer);
        self.lose(peer, why, MPI_ERR_PROC_ABORTED);
    }

    /// Breaks the connection to a peer that has broken the rules; the error to raise.
    #[cold]
    pub(super) fn broken_off(&mut self, peer: u32) -> MpiError {
        self.cut_off(peer, "it sent what no rank sends");
        broken(peer)
    }

    /// The device has failed, and with it all connections: in words.
    #[cold]
    pub fn fail(&mut self, why: &str) -> String {
        self.life.is_dead = true;
        // Each look finds so that there is nothing to look at.
        call_attention();
        for peer in 0..self.links.len() as u32 {
            if self.reaches(peer) {
                self.lose(peer, why, MPI_ERR_PROC_ABORTED);
            }
        }
        format!("{} has failed: {why}", self.rail.device.name)
    }

    /// Whether the device has failed: then nothing of it is asked any more.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.life.is_dead
    }

    /// The end begins: from here on each request has a completion, so that it can be waited for.
    pub fn close(&mut self) -> Outcome {
        self.life.closing = true;
        self.note_to(|link| link.wire.queue.has_silent() && link.wire.lost.is_none())
    }

    /// It was not the end: messages go as they did before.
    pub fn go_on(&mut self) {
        self.life.closing = false;
    }

    /// Whether all that was sent has come to the runtimes of those who need it, who are asked to
    /// say so: behind the end nothing is sent again.
    pub fn is_drained<R: Roster>(&mut self, roster: &R) -> bool {
        let mut is_all = true;
        for peer in 0..self.links.len() as u32 {
            let Some(link) = self.links[peer as usize].as_deref() else {
                continue;
            };
            if link.is_gone() || has_left(roster, peer) {
                continue;
            }
            // Who is over has what it needs.
            let has_rest = !link.acks.log.is_empty() && !roster.is_over(peer);
            is_all &= link.is_quiet() && !has_rest;
            if has_rest {
                self.ask_for_acknowledgement(peer);
            }
        }
        is_all
    }

    /// Who only waits has nothing under way that would tell him that a peer's host is gone: now and
    /// then an empty message has.
    pub fn keep_alive(&mut self) -> Outcome {
        if self.life.alive.elapsed() < ALIVE || self.life.is_dead {
            return Ok(());
        }
        self.ask_whether_alive()
    }

    /// Sends an empty message to each peer to which none is under way: a queue pair that has failed
    /// gives it back.
    pub(super) fn ask_whether_alive(&mut self) -> Outcome {
        self.life.alive = Instant::now();
        let closing = std::mem::replace(&mut self.life.closing, true);
        let told = self.note_to(|link| link.is_ready() && !link.wire.queue.awaits_completion());
        self.life.closing = closing;
        told
    }

    /// Sends an empty message to each peer that is `such`.
    fn note_to(&mut self, such: impl Fn(&Link) -> bool) -> Outcome {
        let mut outcome = Ok(());
        for peer in 0..self.links.len() {
            if self.links[peer].as_deref().is_some_and(&such) {
                outcome = outcome.and(self.say(peer as u32, Kind::Note, &[]));
            }
        }
        outcome
    }

    /// Before this process sleeps: the device shall say when something comes. The descriptors to
    /// wait on, and for how long at most, in milliseconds. Messages wait for the peers `stalled`;
    /// `are_quiet`: no sender writes to a block.
    /// A round must follow before the sleep.
    pub fn arm(&mut self, are_quiet: bool, stalled: &[u32]) -> Outcome<(Vec<RawFd>, i32)> {
        let mut fds = Vec::new();
        self.look_at_all_next();
        for rail in self.all_rails().filter(|rail| rail.is_open) {
            let device = &rail.device;
            match device.cq.arm(false) {
                Ok(()) => fds.push(device.channel.fd().as_raw_fd()),
                // It says by itself that it has failed.
                Err(_) if self.limits.heal.is_on => (),
                Err(error) => return Err(failed(&device.name, error)),
            }
            if self.life.watch.is_none() {
                fds.push(device.context.async_fd().as_raw_fd());
            }
        }
        fds.extend(self.life.watch.as_ref().map(Watch::fd));
        let waits_for_acks = self.waits_for_acks();
        let waits_for_card = stalled.iter().any(|peer| {
            self.links[*peer as usize]
                .as_ref()
                .is_none_or(|link| link.wire.session.state() == State::Idle)
        });
        let timeout = match self.due_ns() {
            _ if waits_for_card => CARD_MS,
            Some(ns) => ms(ns),
            None => -1,
        };
        let now = self.connect.now();
        let looks = self.life.looks.due_ns(now).map_or(i32::MAX, ms);
        // A WRITE wakes nobody, so who may be written to must look.
        let most = if !are_quiet || waits_for_acks {
            BLOCKS_MS
        } else if self.life.closing {
            ENDED_MS
        } else {
            ALIVE.as_millis() as i32
        };
        let most = most.min(looks);
        let timeout = if timeout < 0 { most } else { timeout.min(most) };
        Ok((fds, timeout))
    }

    /// Takes what the device has to say that is no completion. Why it has failed, if it has.
    pub fn hear(&mut self) -> Outcome<Option<String>> {
        for rail in self.all_rails().filter(|rail| rail.is_open) {
            loop {
                match rail.device.channel.next_event() {
                    Ok(Some(_)) => (),
                    Ok(None) => break,
                    Err(_) if self.limits.heal.is_on => break,
                    Err(error) => return Err(failed(&rail.device.name, error)),
                }
            }
        }
        self.take_events()?;
        Ok(self.life.failure.take())
    }

    /// The connection to `peer` is gone: nothing of it reads or writes memory any more, and what it
    /// held of others' is free. Its queue pair is in error, and is destroyed where no completion is
    /// in hand.
    #[cold]
    pub(super) fn lose(&mut self, peer: u32, why: &str, class: i32) -> MpiError {
        let text = format!(
            "the connection to rank {peer} by {} is lost: {why}",
            self.name_to(peer)
        );
        let link = self.link(peer);
        let is_news = link.wire.lost.is_none();
        if is_news {
            link.wire.lost = Some(text.clone());
            self.life.news.push(News::Lost(Lost {
                peer: Some(peer),
                error: None,
            }));
        }
        let now = self.connect.now();
        let link = self.link(peer);
        link.wire.session.handle_peer(PeerNews::Dead, now);
        link.wire.replay = None;
        link.long.lane.lose();
        self.forget_given_up(peer);
        let link = self.link(peer);
        link.long.moving.clear();
        link.words.clear();
        (link.fast.out, link.fast.gate, link.fast.lull) = Default::default();
        (link.acks.is_log_full, link.acks.pending) = Default::default();
        link.wire.id = 0;
        let held: Vec<u32> = link.acks.log.abandon().collect();
        for buffer in held {
            self.stages.give(buffer);
        }
        while let Some(what) = self.link(peer).wire.queue.completed() {
            if let What::Buffer(buffer) = what {
                self.stages.give(buffer);
            }
        }
        if self.life.is_dead || self.link(peer).wire.queue.qp.is_none() {
            let wire = &mut self.link(peer).wire;
            (wire.fence, wire.queue.qp) = (None, None);
            self.rail_of(peer).numbers.forget_all_of(peer);
        } else if is_news {
            self.begin_burial(peer);
        }
        self.moves.movers.retain(|mover| *mover != peer);
        for transfer in &mut self.moves.transfers {
            if transfer.as_ref().is_some_and(|one| one.peer == peer) {
                *transfer = None;
            }
        }
        MpiError::with(class, text)
    }

    /// As [`Net::lose`], where nobody is there to raise the error to.
    #[cold]
    pub(super) fn lose_aloud(&mut self, peer: u32, why: &str, class: i32) {
        let error = Some(self.lose(peer, why, class));
        let mut untold = self.life.news.iter_mut().filter_map(|news| match news {
            News::Lost(lost) if lost.peer == Some(peer) => Some(lost),
            _ => None,
        });
        match untold.next() {
            Some(lost) => lost.error = error,
            None => self.life.news.push(News::Lost(Lost {
                peer: Some(peer),
                error,
            })),
        }
    }
}

/// In milliseconds, as a timeout.
fn ms(ns: u64) -> i32 {
    i32::try_from(ns / 1_000_000 + 1).unwrap_or(i32::MAX)
}

/// Whether `peer` needs nothing more, and its process has ended: between two sessions it needs
/// nothing more either, but answers.
#[cold]
fn has_left<R: Roster>(roster: &R, peer: u32) -> bool {
    roster.is_over(peer) && roster.has_ended(peer)
}

fn cause_of(status: WcStatus) -> Cause {
    match status {
        WcStatus::RetryExceeded => Cause::RetryExceeded,
        WcStatus::RnrRetryExceeded => Cause::RnrExceeded,
        _ => Cause::QpError,
    }
}
