//! What happens by time alone: repeats, the back-off of law 8, and the end of patience of law 6.

use super::{Limits, Session, Stage, State};
use crate::cause::Reason;
use crate::number::Ns;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
/// Pauses before a question or an answer is repeated.
const FIRST_NS: u64 = 4 * MILLISECOND;
const LONGEST_NS: u64 = 25 * MILLISECOND;
/// After so long the pause is longer.
const LATE_NS: u64 = 60 * SECOND;
const LATE_PAUSE_NS: u64 = 250 * MILLISECOND;
/// After so long it is longer still.
const VERY_LATE_NS: u64 = 600 * SECOND;
const VERY_LATE_PAUSE_NS: u64 = SECOND;
/// A process sends no more datagrams than one for each connection that is not up in so long.
const EACH_NS: u64 = MILLISECOND;
/// Heals without a message between them that do not back off.
const FREE: u32 = 3;
/// A life that lasts for so long is no part of a storm, whether or not it has carried a message.
const CALM_NS: u64 = 100 * MILLISECOND;
/// A question stays with the paths of one port for so long before it goes by those of another one;
/// doubled, because a peer that looks seldom must have the time to answer one of them.
const STAY_NS: u64 = 50 * MILLISECOND;
const LONGEST_STAY_NS: u64 = 2 * SECOND;
/// Somebody who waits looks so often;
const LOOK_NS: u64 = SECOND;
/// and who does not look for so long has not listened: that is no silence of the peer.
const AWAY_NS: u64 = 3 * SECOND;

/// The times of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// When the heal under way began.
    began: Option<Ns>,
    /// When the question or the answer is repeated, and the pause that follows.
    again: Option<Ns>,
    pause_ns: u64,
    tries: u16,
    /// Connections of the process that are not up.
    crowd: u32,
    /// Heals without a message between them.
    fruitless: u32,
    /// Since when there is a life.
    opened: Option<Ns>,
    /// This side does not ask before.
    not_before: Ns,
    /// No queue pair is made before, and the pause that follows the next one that cannot be made.
    make_at: Ns,
    make_pause_ns: u64,
    /// The question goes by the paths of another port from here on, and how long it stays there.
    move_at: Ns,
    stay_ns: u64,
    /// When something of the peer was last heard.
    heard: Ns,
    /// Since when there is no adapter.
    none_since: Option<Ns>,
    /// When the owner last looked.
    looked: Ns,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            began: None,
            again: None,
            pause_ns: FIRST_NS,
            tries: 0,
            crowd: 0,
            fruitless: 0,
            opened: None,
            not_before: Ns(0),
            make_at: Ns(0),
            make_pause_ns: 0,
            move_at: Ns(0),
            stay_ns: STAY_NS,
            heard: Ns(0),
            none_since: None,
            looked: Ns(0),
        }
    }
}

impl Clock {
    /// A life begins.
    pub(super) fn open(&mut self, now: Ns) {
        self.opened = Some(now);
    }

    /// A heal begins, unless one is under way: patience counts from its beginning.
    pub(super) fn begin(&mut self, now: Ns) {
        let opened = self.opened.take();
        if opened.is_some_and(|at| now.since(at) >= CALM_NS) {
            self.fruitless = 0;
        }
        if self.began.is_none() {
            self.began = Some(now);
            (self.heard, self.looked) = (now, now);
        }
        self.again = None;
    }

    /// Nothing is repeated.
    pub(super) fn rest(&mut self) {
        (self.began, self.again) = (None, None);
    }

    /// Something was said, and is repeated from now on.
    pub(super) fn repeat_from(&mut self, now: Ns) {
        (self.pause_ns, self.tries) = (FIRST_NS, 0);
        self.again = Some(now.after(self.pause(now)));
    }

    fn pause(&self, now: Ns) -> u64 {
        let lasts = self.began.map_or(0, |began| now.since(began));
        let pause = match lasts {
            VERY_LATE_NS.. => VERY_LATE_PAUSE_NS,
            LATE_NS.. => LATE_PAUSE_NS,
            _ => self.pause_ns,
        };
        pause.max(EACH_NS * u64::from(self.crowd))
    }

    /// True if it is time to repeat.
    fn repeats(&mut self, now: Ns) -> bool {
        if self.again.is_none_or(|at| now < at) {
            return false;
        }
        self.tries = self.tries.saturating_add(1);
        self.pause_ns = (self.pause_ns * 2).min(LONGEST_NS);
        self.again = Some(now.after(self.pause(now)));
        true
    }

    pub(super) fn tries(&self) -> u16 {
        self.tries
    }

    /// A fence is done; whether a message was taken since the one before.
    pub(super) fn back_off(&mut self, is_fruitful: bool, limits: &Limits, now: Ns) {
        self.fruitless = if is_fruitful {
            0
        } else {
            self.fruitless.saturating_add(1)
        };
        if let Some(over) = self.fruitless.checked_sub(FREE + 1) {
            let pause = limits.first_ns.saturating_mul(1 << over.min(32));
            self.not_before = now.after(pause.min(limits.longest_ns));
        }
    }

    pub(super) fn may_ask(&self, now: Ns) -> bool {
        now >= self.not_before
    }

    pub(super) fn may_make(&self, now: Ns) -> bool {
        now >= self.make_at
    }

    pub(super) fn made(&mut self) {
        self.make_pause_ns = 0;
    }

    pub(super) fn not_made(&mut self, limits: &Limits, now: Ns) {
        let doubled = (self.make_pause_ns * 2).max(limits.first_ns);
        self.make_pause_ns = doubled.min(limits.longest_ns);
        self.make_at = now.after(self.make_pause_ns);
    }

    /// A question is asked by the paths of a port.
    pub(super) fn stay(&mut self, now: Ns) {
        self.move_at = now.after(self.stay_ns);
    }

    /// Whether those of another port may be asked in their place.
    pub(super) fn may_move(&self, now: Ns) -> bool {
        now >= self.move_at
    }

    pub(super) fn moved(&mut self) {
        self.stay_ns = (self.stay_ns * 2).min(LONGEST_STAY_NS);
    }

    /// A life is open.
    pub(super) fn settle(&mut self) {
        self.stay_ns = STAY_NS;
    }

    pub(super) fn heard(&mut self, now: Ns) {
        self.heard = now;
    }

    /// The owner looks. What passed while it did not counts as no silence.
    fn look(&mut self, now: Ns) {
        let away = now.since(self.looked);
        if away > AWAY_NS {
            self.heard = self.heard.after(away).min(now);
            self.none_since = self.none_since.map(|since| since.after(away).min(now));
        }
        self.looked = now;
    }

    pub(super) fn has_adapter(&mut self) {
        self.none_since = None;
    }

    pub(super) fn has_none(&mut self, now: Ns) {
        self.none_since = self.none_since.or(Some(now));
    }
}

impl Session {
    /// How many connections of the process are not up: their datagrams share its time.
    pub fn handle_crowd(&mut self, not_up: u32) {
        self.clock.crowd = not_up;
    }

    /// When [`Session::handle_timeout`] is to be called; at once where there is a step.
    pub fn poll_timeout(&self) -> Option<Ns> {
        let waits = self.state == State::Fenced && self.stage == Stage::Clear;
        let is_ready = self.state == State::Fenced && self.stage == Stage::Ready;
        let has_step = matches!(self.stage, Stage::Fence | Stage::Make | Stage::Connect(_));
        let step = has_step.then_some(Ns(0));
        let begins = (waits && self.ground.has_any())
            .then_some(self.clock.make_at)
            .map(|at| {
                if self.question.is_some() {
                    at
                } else {
                    at.max(self.clock.not_before)
                }
            });
        let asks = is_ready.then_some(self.clock.not_before);
        let looks = self.clock.looked.after(LOOK_NS);
        let ends = self.deadline().map(|(at, _)| at.min(looks));
        let reports = self.report.poll_timeout();
        [step, self.clock.again, begins, asks, ends, reports]
            .into_iter()
            .flatten()
            .min()
    }

    /// The time has come, or has not.
    pub fn handle_timeout(&mut self, now: Ns) {
        self.clock.look(now);
        if let Some((at, reason)) = self.deadline()
            && now >= at
        {
            self.reject();
            self.lose(reason, now);
            return;
        }
        if self.clock.repeats(now) && (self.stage == Stage::Ready || self.stage == Stage::Live) {
            self.outbox.own = true;
        }
        self.report.handle_timeout(now);
        self.proceed(now);
    }

    /// When the peer is lost, and why. While an answer is being connected it is heard.
    fn deadline(&self) -> Option<(Ns, Reason)> {
        if !matches!(self.state, State::Fenced | State::Asking | State::Answering) {
            return None;
        }
        let for_ns = self.limits.heal_for?.0;
        Some(match self.clock.none_since {
            Some(since) => (since.after(for_ns), Reason::NoAdapter { for_ns }),
            None => (self.clock.heard.after(for_ns), Reason::Silent { for_ns }),
        })
    }
}
