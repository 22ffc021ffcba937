//! When probes go to peers, and what becomes of what they show: a path that is silent while another
//! one carries ends the life by it, one that is better and carries again is returned to
//! (docs/design/heal.md, 2.4). Silence alone ends nothing.
//!
//! Owns: what a look sees of a connection, and what becomes of what probes show; what looks before
//! have found is in [`super::looks`]. Must not know: when a probe is lost
//! ([`ferriband_heal::Probes`]), how one goes.
//!
//! Messages are not stamped, for that would cost each of them instructions. A look compares what
//! has been done with what the look before had found: what has not moved since waits since then,
//! which is at most 50 ms too little. A rank that waits looks before it sleeps, one that only tests
//! when it yields the processor; where there is a better path to return to, the thread calls.

use super::super::Net;
use super::super::link::Link;
use super::looks::{Done, Looks};
use super::mail::call_attention;
use crate::errors::Outcome;
use crate::transport::contract::Roster;
use ferriband_heal::{AdapterNews, Cause, Ns, Path, PathId, ProbeNews, Seen, State, Verdict};

impl Link {
    fn done(&self) -> Done {
        let lane = &self.long.lane;
        Done {
            completed: (self.wire.queue.has_done(), lane.queue.has_done()),
            acknowledged: self.acks.log.acknowledged(),
            landed: lane.landed(),
            moving: self.long.moving.len() as u32,
        }
    }

    /// Whether something of it has no answer: a request, a message in the log, one that waits for a
    /// key or for the lane.
    fn awaits_answer(&self) -> bool {
        self.wire.queue.awaits_completion()
            || self.long.lane.queue.awaits_completion()
            || !self.acks.log.is_empty()
            || !self.long.moving.is_empty()
    }

    /// What there is to see of it.
    fn see(&mut self, (is_idle, may_return): (bool, bool), now: Ns) -> Seen {
        let state = self.wire.session.state();
        let (done, waits) = (self.done(), self.awaits_answer());
        let wire = &self.wire;
        // Its number may have become another path's.
        let ends = |path: &Path| (path.adapter, path.port, path.peer);
        let is_it = |by: &PathId| wire.paths.known(*by).map(ends) == Some(ends(&wire.path));
        let by = wire.by.filter(is_it);
        let watched = &mut self.wire.watched;
        if watched.state.is_none_or(|(before, _)| before != state) {
            watched.state = Some((state, now));
            watched.since = now;
        }
        if watched.done != done || !waits {
            (watched.done, watched.since) = (done, now);
        }
        let is_asked = matches!(state, State::Fenced | State::Asking);
        watched.asked = match is_asked {
            true => watched.asked.or(Some(now)),
            false => None,
        };
        let has_life = matches!(state, State::Up | State::Replaying | State::Answering);
        Seen {
            current: by.filter(|_| has_life),
            oldest: match state {
                State::Up | State::Replaying => waits.then_some(watched.since),
                State::Answering => watched.state.map(|(_, since)| since),
                _ => watched.asked,
            },
            is_idle,
            may_return: may_return && state == State::Up,
        }
    }
}

impl Net {
    /// Looks at all connections, if that is due; no datagram lies unread.
    #[cold]
    pub fn look_for_silence<R: Roster>(&mut self, roster: &R) -> Outcome {
        let now = self.connect.now();
        if !self.limits.heal.is_on || self.life.is_dead || !self.life.looks.is_due(now) {
            return Ok(());
        }
        let mut next: Option<Ns> = None;
        for peer in 0..self.links.len() as u32 {
            let due = self.look_at_paths(roster, peer)?;
            next = next.into_iter().chain(due).min();
        }
        self.life.looks = Looks::of(now, next);
        Ok(())
    }

    /// The next round looks at all connections, if that is due.
    pub fn ask_about(&self) {
        if self.limits.heal.is_on && self.life.looks.is_due(self.connect.now()) {
            call_attention();
        }
    }

    /// Looks at the connection to `peer`: when the next look is due, if anything waits.
    fn look_at_paths<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome<Option<Ns>> {
        let now = self.connect.now();
        // The lower rank's: where each had its own best path, each would undo the other's return.
        let may_return = self.connect.me < peer;
        let is_idle = self.is_idle(peer);
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(None);
        };
        let state = link.wire.session.state();
        if link.is_gone() || matches!(state, State::Idle | State::Lost) || roster.is_over(peer) {
            return Ok(None);
        }
        let seen = link.see((is_idle, may_return), now);
        let wire = &mut link.wire;
        wire.watched.probes.look(&seen, &mut wire.paths, now);
        while let Some(probe) = self.link(peer).wire.watched.probes.poll() {
            self.probe(peer, probe.by, probe.counter)?;
        }
        match self.link(peer).wire.watched.probes.poll_news() {
            Some(ProbeNews::Silent(by, verdict)) => self.judge_silence(peer, by, verdict),
            Some(ProbeNews::Return(by)) => {
                let is_second = self.is_second(peer, by);
                if !is_second || !self.go_over(peer, Cause::Return) {
                    self.link(peer).wire.session.handle_return(by, now);
                    self.heed(peer);
                }
            }
            None => (),
        }
        let wire = &self.link(peer).wire;
        let due = wire.watched.probes.poll_timeout();
        if let Some(due) = due
            && let Some(current) = seen.current.filter(|_| seen.may_return)
            && wire.paths.better(current).is_some()
        {
            // Whoever is busy with messages does not come to a sleep before which it looks.
            self.call_at(due.since(now));
        }
        Ok(due)
    }

    /// Nothing comes by the path of the life.
    fn judge_silence(&mut self, peer: u32, by: PathId, verdict: Verdict) {
        if !matches!(verdict, Verdict::Path | Verdict::Here) || !self.heals(peer) {
            return;
        }
        if self.is_second_proven(peer) && self.go_over(peer, Cause::Silence) {
            return;
        }
        let now = self.connect.now();
        let wire = &mut self.link(peer).wire;
        let adapter = wire.paths.known(by).map(|path| path.adapter);
        if let Some(id) = adapter.filter(|_| verdict == Verdict::Here) {
            let news = AdapterNews::Unanswered(peer);
            self.rails.adapters.handle(id, news, now);
            self.rails.is_changed = true;
        }
        let wire = &mut self.link(peer).wire;
        // Before the failure, so that what is said of it goes by another path.
        wire.paths.failed(by, now);
        let life = wire.session.epoch();
        wire.session.handle_failure(life, Cause::Silence, now);
        self.heed(peer);
    }
}
