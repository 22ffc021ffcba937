//! Lives of connections: what their sessions ask for is done, and what they say goes out.
//!
//! Owns: the steps of sessions ([`ferriband_heal::Session`]) and which of them need attention, the
//! fence between two lives ([`fence`]), what is sent again behind it ([`replay`]), the adapters
//! ([`rails`]), the second paths of connections ([`migrate`]), which keys peers know ([`renew`]),
//! messages that are given up ([`withdraw`]), and
//! the datagrams of sessions ([`say`]).
//! Steps are taken where no completion is in hand, so that none belongs to a later life than the
//! one that it is looked at in. Must not know: what a message says. The design is
//! docs/design/heal.md.

mod asking;
mod echo;
mod events;
mod fence;
mod looks;
mod mail;
mod migrate;
mod probing;
mod rails;
mod refusals;
mod refused;
mod renew;
mod replay;
mod report;
mod say;
mod second;
mod teller;
mod thread;
mod withdraw;

use super::Net;
use super::link::{Link, Wire};
use super::rail::has_failed;
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::Outcome;
use crate::transport::contract::Roster;
use ferriband_heal::{Cause, Ns, PeerNews, Reason, State, Step};
use ferriband_ibv::{ErrorKind, VerbsError};

pub use fence::Fence;
pub use looks::{Looks, Watched};
pub use mail::{call_attention, heed_attention, wants_attention};
pub use rails::Rails;
pub use refused::{Needed, Refused};
pub use renew::KeysTold;
pub use replay::Replay;
pub use say::Way;
pub use second::Second;
pub use thread::Watch;
pub use withdraw::GivenUp;

impl Net {
    /// Looks after the connection to `peer` from here on.
    pub(super) fn heed(&mut self, peer: u32) {
        let link = self.link(peer);
        if !link.wire.is_setting_up {
            link.wire.is_setting_up = true;
            self.connect.setting_up.push(peer);
        }
    }

    /// The time at which a connection that is looked after needs attention, in nanoseconds from
    /// now.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let now = self.connect.now();
        let peers = self.connect.setting_up.iter();
        let peers = peers.filter_map(|peer| {
            let link = self.links[*peer as usize].as_deref()?;
            let now_due = link.wire.is_at_work().then_some(now);
            let wire = &link.wire;
            let refused = wire.refused.as_ref().map(Refused::due);
            now_due.or_else(|| {
                let reading = wire.reading.poll_timeout();
                let all = [wire.session.poll_timeout(), reading, refused];
                all.into_iter().flatten().min()
            })
        });
        let is_attended = !self.connect.setting_up.is_empty();
        let adapters = self.adapters_due().filter(|_| is_attended);
        let due = peers.chain(adapters).min();
        due.map(|at| at.since(now))
    }

    /// Looks after connections that are not up, where no completion is in hand; the last look has
    /// found `count`. True if something happened.
    #[cold]
    pub(super) fn attend<R: Roster>(&mut self, roster: &R, count: usize) -> Outcome<bool> {
        let mut did = false;
        self.tend_adapters(roster)?;
        let waits = self.adapters_due().is_some();
        let crowd = self.connect.setting_up.len();
        for at in (0..crowd).rev() {
            let Some(peer) = self.connect.setting_up.get(at).copied() else {
                continue;
            };
            let now = self.connect.now();
            let is_over = self.life.closing && roster.is_over(peer);
            self.vouch(roster, peer);
            let session = &mut self.link(peer).wire.session;
            session.handle_crowd(crowd as u32);
            if session.poll_timeout().is_some_and(|at| now >= at) {
                session.handle_timeout(now);
            }
            if is_over {
                session.handle_peer(PeerNews::Over, now);
            }
            self.read_card(roster, peer, now)?;
            self.judge_refusal(peer)?;
            self.carry_fence(peer, count as u32)?;
            self.drive(roster, peer)?;
            if self.link(peer).wire.replay.is_some() {
                self.carry_replay(peer)?;
                self.drive(roster, peer)?;
            }
            if self.link(peer).long.lane.waits() {
                self.tend_lane(peer)?;
            }
            let is_last = self.connect.setting_up.len() == 1;
            let link = self.link(peer);
            let stays = link.needs_attention() || waits && is_last;
            if !stays {
                // It must not come back by itself: a rank that always has something to do never
                // gives its core away.
                link.wire.is_setting_up = false;
                self.connect.setting_up.swap_remove(at);
                did = true;
            }
        }
        if count == 0 {
            // No answer lies unread.
            self.look_for_silence(roster)?;
        }
        Ok(did)
    }

    /// A peer answers when its program next calls MPI, which may be in an hour. So silence counts
    /// only where nobody here sees the peer's process, and either its echo answers meanwhile or the
    /// connection has carried a message; that one has died the launcher says.
    fn vouch<R: Roster>(&mut self, roster: &R, peer: u32) {
        let now = self.connect.now();
        let link = self.link(peer);
        let has_echo = link.wire.reach.addresses().any(|(_, one)| one.echo != 0);
        let counts = has_echo || link.has_carried();
        let session = &mut link.wire.session;
        let is_time = session.poll_timeout().is_some_and(|at| now >= at);
        if is_time && (!counts || roster.is_there(peer)) {
            session.handle_peer(PeerNews::Alive, now);
        }
    }

    /// Does what the session of `peer` asks for, and sends what it has to say.
    pub(super) fn drive<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome {
        let mut outcome = Ok(());
        while outcome.is_ok()
            && let Some(step) = self.link(peer).wire.session.poll_step()
        {
            outcome = self.step(roster, peer, step);
        }
        while let Some(report) = self.link(peer).wire.session.poll_report() {
            self.tell_report(peer, &report);
        }
        outcome.and(self.transmit(peer))
    }

    fn step<R: Roster>(&mut self, roster: &R, peer: u32, step: Step) -> Outcome {
        let (now, heals) = (self.connect.now(), self.limits.heal.is_on);
        match step {
            Step::Fence { .. } => return self.begin_fence(peer),
            Step::Make { adapter, port } => {
                let own = self.make(peer, adapter, port);
                let session = &mut self.link(peer).wire.session;
                if let Err(errno) = own
                    && (session.epoch().is_none() || !is_passing(errno))
                    && !(heals && is_of_device(errno))
                {
                    session.refuse(errno, now);
                }
                session.made(own, now);
            }
            Step::Connect { epoch, end, by } => {
                let done = self.connect(peer, epoch, &end, by);
                let wire = &mut self.link(peer).wire;
                let passes = done.is_err_and(|errno| is_of_device(errno) || wire.has_failed());
                let session = &mut wire.session;
                if let Err(errno) = done
                    && session.epoch().is_none()
                    && !(heals && passes)
                {
                    session.refuse(errno, now);
                }
                session.connected(done, now);
            }
            Step::Replay { own, peer: word } => return self.begin_replay(peer, own, word),
            Step::Up => return self.tend_lane(peer),
            Step::Lost(reason) => return self.handle_loss(roster, peer, reason),
        }
        Ok(())
    }

    /// The session of `peer` is over.
    fn handle_loss<R: Roster>(&mut self, roster: &R, peer: u32, reason: Reason) -> Outcome {
        if self.link(peer).wire.lost.is_some() {
            return Ok(());
        }
        let error = |errno: u32| std::io::Error::from_raw_os_error(errno.cast_signed());
        let why = match reason {
            Reason::Dead | Reason::Over => {
                self.lose(peer, "it has ended", MPI_ERR_PROC_ABORTED);
                return Ok(());
            }
            // Where the peer has heard that this rank has finalised, it makes nothing anew.
            Reason::Ended(_)
                if self.life.closing
                    && (roster.is_over(peer) || roster.is_over(self.connect.me)) =>
            {
                self.lose(peer, "it has ended", MPI_ERR_PROC_ABORTED);
                return Ok(());
            }
            Reason::Ended(errno) => {
                let why = format!("the other end is no more: {}", error(errno));
                self.lose_aloud(peer, &why, MPI_ERR_PROC_ABORTED);
                return Ok(());
            }
            Reason::Silent { for_ns } => {
                format!("it has not answered for {} s", for_ns / 1_000_000_000)
            }
            Reason::NoAdapter { for_ns } => {
                let seconds = for_ns / 1_000_000_000;
                let why = self.why_not_opened().map(|why| format!(": {why}"));
                let why = why.unwrap_or_default();
                format!("no adapter can be used for {seconds} s{why}")
            }
            Reason::Refused(errno) => format!("it refuses a connection: {}", error(errno)),
            Reason::Own(errno) => {
                let refused = self.link(peer).wire.refused.map(|one| one.error());
                let refused = refused.filter(|one| one.errno() == errno.cast_signed());
                let error = refused.map_or_else(|| error(errno).to_string(), |one| one.to_string());
                format!("no queue pair can be connected to it: {error}")
            }
        };
        Err(self.lose(peer, &why, MPI_ERR_PROC_ABORTED))
    }

    /// A message has come from `from`, whose connection is not up. Whether it is of a life. What
    /// the last life has left is judged before it is taken: what it begins is none of that.
    #[cold]
    pub(super) fn admits(&mut self, from: u32) -> Outcome<bool> {
        let now = self.connect.now();
        let session = &mut self.link(from).wire.session;
        match session.state() {
            State::Lost => return Ok(false),
            State::Answering => session.handle_message(now),
            State::Replaying => (),
            _ => return Ok(true),
        }
        if let Some(Step::Replay { own, peer }) = session.poll_step() {
            self.begin_replay(from, own, peer)?;
        }
        self.heed(from);
        Ok(true)
    }

    /// Tells `peer` that this end of the connection is no more.
    #[cold]
    pub(super) fn tell_end(&mut self, peer: u32) -> Outcome {
        let now = self.connect.now();
        let session = &mut self.link(peer).wire.session;
        session.refuse(libc::EFAULT.unsigned_abs(), now);
        self.heed(peer);
        self.transmit(peer)
    }

    /// Whether nothing is under way to or from `peer`.
    pub(super) fn is_idle(&self, peer: u32) -> bool {
        let link = self.links[peer as usize].as_deref();
        let moves = self.moves.transfers.iter().flatten();
        let mut moves = moves.filter(|one| one.peer == peer);
        let mut offers = self.moves.offers.values();
        link.is_none_or(|link| link.acks.log.is_empty() && link.is_quiet())
            && moves.next().is_none()
            && !offers.any(|offer| offer.peer == peer)
    }

    /// Reads the card of `peer`, where that may help: from memory that both see, and by asking its
    /// process, if that is on another host.
    fn read_card<R: Roster>(&mut self, roster: &R, peer: u32, now: Ns) -> Outcome {
        let wire = &mut self.link(peer).wire;
        let state = wire.session.state();
        if !wire.reading.is_due(state, &wire.reach, now) {
            return Ok(());
        }
        if let Some(place) = roster.card_port(peer) {
            self.ask_for_card(peer, place);
            return Ok(());
        }
        match roster.card(peer) {
            Some(card) => self.handle_card(peer, &card),
            None => Ok(()),
        }
    }
}

impl Net {
    /// A request to `peer` could not be posted: it waits for room, or as [`Net::verb_failed`].
    #[cold]
    pub(super) fn unposted(&mut self, peer: u32, error: &VerbsError) -> Outcome<bool> {
        if error.kind() == ErrorKind::NoMemory {
            // As the device sees it, the queue is full.
            self.is_refused(peer, Needed::Request, error);
            return Ok(false);
        }
        self.verb_failed(peer, Needed::Request, error)
    }

    /// A verb has failed that the connection to `peer` needs: the life is over, and what was to go
    /// waits; or the peer is lost.
    #[cold]
    pub(super) fn verb_failed(
        &mut self,
        peer: u32,
        needed: Needed,
        error: &VerbsError,
    ) -> Outcome<bool> {
        if !self.link(peer).wire.has_life() {
            return Ok(false);
        }
        if self.heals(peer) {
            self.is_refused(peer, needed, error);
            self.end_life(peer, Cause::Verb);
            return Ok(false);
        }
        Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED))
    }
}

impl Link {
    /// Whether its session has something to do by itself, or to say.
    fn needs_attention(&self) -> bool {
        let wire = &self.wire;
        let waits = wire.waits_to_say || self.long.lane.waits() || wire.refused.is_some();
        let is_timed = [wire.session.poll_timeout(), wire.reading.poll_timeout()];
        is_timed.iter().any(Option::is_some) || waits || wire.is_at_work()
    }
}

impl Wire {
    /// Whether there is a life that can fail.
    pub(super) fn has_life(&self) -> bool {
        let state = self.session.state();
        matches!(state, State::Up | State::Replaying | State::Answering)
    }

    #[cold]
    fn has_failed(&self) -> bool {
        self.queue.qp.as_ref().is_some_and(|qp| has_failed(qp))
    }

    /// Whether each look at the device carries something on.
    fn is_at_work(&self) -> bool {
        self.fence.is_some() || self.replay.is_some()
    }
}

/// Whether what has failed so may be possible soon.
fn is_passing(errno: u32) -> bool {
    matches!(errno.cast_signed(), libc::ENOMEM | libc::EAGAIN)
}

/// Whether an adapter has failed, or a path is no more: another one may be there.
fn is_of_device(errno: u32) -> bool {
    matches!(errno.cast_signed(), libc::EIO | libc::ENODEV | libc::ESTALE)
}
