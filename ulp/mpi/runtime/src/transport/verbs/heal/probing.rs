//! When probes go to peers, and what becomes of what they show: a path that is silent while another
//! one carries ends the life by it, one that is better and carries again is returned to
//! (docs/design/heal.md, 2.4). Silence alone ends nothing.
//!
//! Owns: since when a peer has let something wait, as far as looks have shown, and when the next look
//! is due. Must not know: when a probe is lost ([`ferriband_heal::Probes`]), how one goes.
//!
//! Messages are not stamped, for that would cost each of them instructions. A look compares what has
//! been done with what the look before had found: what has not moved since waits since then, which is
//! at most [`LOOK_NS`] too little. A rank that waits looks before it sleeps, one that asks in vain
//! when it gives its core away.

use super::super::Net;
use super::super::link::Link;
use super::mail::call_attention;
use crate::errors::Outcome;
use crate::transport::contract::Roster;
use ferriband_heal::{
    AdapterNews, Cause, Ns, Path, PathId, ProbeNews, Probes, Seen, State, Verdict,
};

/// A look follows the one before after so long.
const LOOK_NS: u64 = 50_000_000;

/// What looks at a connection have found.
#[derive(Default)]
pub struct Watched {
    /// Its probes.
    pub(in super::super) probes: Probes,
    /// What had been done when it was last looked at.
    done: Done,
    /// Since when no more has been done.
    since: Ns,
    /// The state of its session then, and since when it is in it.
    state: Option<(State, Ns)>,
    /// When the peer was first asked for the life that there is not yet.
    asked: Option<Ns>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Done {
    completed: (u32, u32),
    acknowledged: u32,
    landed: u32,
    moving: u32,
}

/// When connections are looked at.
#[derive(Default)]
pub struct Looks {
    /// No look before.
    not_before: Ns,
    /// When the last one has found the next to be due; none: nothing waited.
    due: Option<Ns>,
    /// Nothing was posted since, as far as is known.
    is_fresh: bool,
}

impl Looks {
    /// A look at `now` has found the next to be due then, if anything waits.
    fn of(now: Ns, due: Option<Ns>) -> Self {
        Self {
            not_before: now.after(LOOK_NS),
            due,
            is_fresh: true,
        }
    }

    /// Before a sleep: nanoseconds until the next look, if one is needed.
    pub(in super::super) fn due_ns(&mut self, now: Ns) -> Option<u64> {
        // What was posted since the last look is seen by the next.
        let more = (!std::mem::take(&mut self.is_fresh)).then_some(self.not_before);
        let next = more.into_iter().chain(self.due).min();
        next.map(|at| at.since(now))
    }

    /// Whether a look is due.
    fn is_due(&self, now: Ns) -> bool {
        now >= self.not_before || self.due.is_some_and(|at| now >= at)
    }
}

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
    fn see(&mut self, may_return: bool, now: Ns) -> Seen {
        let state = self.wire.session.state();
        let (done, waits) = (self.done(), self.awaits_answer());
        let is_quiet = self.is_quiet() && !waits;
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
            is_idle: is_quiet,
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
        let may_return = self.connect.me < peer;
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(None);
        };
        let state = link.wire.session.state();
        if link.is_gone() || matches!(state, State::Idle | State::Lost) || roster.is_over(peer) {
            return Ok(None);
        }
        let seen = link.see(may_return, now);
        let wire = &mut link.wire;
        wire.watched.probes.look(&seen, &mut wire.paths, now);
        while let Some(probe) = self.link(peer).wire.watched.probes.poll() {
            self.probe(peer, probe.by, probe.counter)?;
        }
        match self.link(peer).wire.watched.probes.poll_news() {
            Some(ProbeNews::Silent(by, verdict)) => self.judge_silence(peer, by, verdict),
            Some(ProbeNews::Return(by)) => {
                self.link(peer).wire.session.handle_return(by, now);
                self.heed(peer);
            }
            None => (),
        }
        Ok(self.link(peer).wire.watched.probes.poll_timeout())
    }

    /// Nothing comes by the path of the life.
    fn judge_silence(&mut self, peer: u32, by: PathId, verdict: Verdict) {
        if !matches!(verdict, Verdict::Path | Verdict::Here) || !self.heals(peer) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_apart_and_none_is_due_where_nothing_waits() {
        let mut looks = Looks::default();
        assert!(looks.is_due(Ns(0)));
        let ms = |ms: u64| Ns(ms * 1_000_000);
        looks = Looks::of(ms(1000), None);
        assert_eq!(looks.due_ns(ms(1001)), None, "nothing waits");
        assert!(!looks.is_due(ms(1049)) && looks.is_due(ms(1050)));
        let soon = looks.due_ns(ms(1020));
        assert_eq!(soon, Some(30_000_000), "something may have been posted");
        looks = Looks::of(ms(2000), Some(ms(2020)));
        assert_eq!(looks.due_ns(ms(2010)), Some(10_000_000));
        assert!(looks.is_due(ms(2020)), "a round of probes is faster");
        looks = Looks::of(ms(3000), Some(ms(11_000)));
        assert_eq!(looks.due_ns(ms(3000)), Some(8_000_000_000));
        assert!(looks.is_due(ms(3050)), "others may wait meanwhile");
    }
}
