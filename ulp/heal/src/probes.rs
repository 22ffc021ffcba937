//! Probes to one peer: which tell a path that is silent from a peer that is, and when a better path
//! carries again.
//!
//! Owns: when PROBEs go, and what their answers say: of detection (docs/design/heal.md, 2.4: 100
//! ms, or what the owner says, after the oldest request without an answer three by each path, 20 ms
//! apart) and of Return (every 100 ms by a better path, three answers in a row). Must not know:
//! clocks, datagrams, sessions.
//!
//! The owner calls [`Probes::look`] when nothing that has come lies unread: an answer that was not
//! read yet is no silence.

use crate::number::{Ns, PathId};
use crate::paths::{PROBES, Path, Paths, Verdict};
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

const MILLISECOND: u64 = 1_000_000;
/// So long a request may be without an answer, unless the owner says otherwise.
const SILENCE_NS: u64 = 100 * MILLISECOND;
/// Probes by a path are so far apart; the verdict comes so long behind the last.
const APART_NS: u64 = 20 * MILLISECOND;
/// Pauses between two rounds, doubled.
const FIRST_PAUSE_NS: u64 = 100 * MILLISECOND;
const LONGEST_PAUSE_NS: u64 = 8000 * MILLISECOND;
/// Paths of a round at most.
const MOST_PATHS: usize = 8;
/// A better path is asked so often, and must answer so often in a row.
const RETURN_NS: u64 = 100 * MILLISECOND;
const ROW: u8 = 3;
/// What was answered so long ago says nothing.
const FRESH_NS: u64 = 1000 * MILLISECOND;
/// A connection that is at work is left alone for so long before it returns.
const BUSY_NS: u64 = 1000 * MILLISECOND;
/// Pauses between two returns, doubled: one that does not hold must not become a storm.
const FIRST_RETURN_NS: u64 = 1000 * MILLISECOND;
const LONGEST_RETURN_NS: u64 = 64_000 * MILLISECOND;
/// One that has held for so long has the first pause again behind it.
const HELD_NS: u64 = 10_000 * MILLISECOND;

/// A counter: of Return; the path; the round and the number in it, or which one.
const OF_RETURN: u32 = 1 << 30;
const PATH_AT: u32 = 24;
const PATHS: u32 = 31;
const ROUNDS: u32 = (1 << PATH_AT) - 1;

/// What the owner sees of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The path of the life; none: there is no life, and the peer is being asked for one.
    pub current: Option<PathId>,
    /// When the oldest request went that has no answer: of the queue pair, of the log, a READ that
    /// waits for a key, a landing; without a life, when the peer was first asked. None: nothing
    /// waits.
    pub oldest: Option<Ns>,
    /// Nothing is under way: the log is empty, and no message moves.
    pub is_idle: bool,
    /// This side may return to a better path: the lower rank of the two. Both would undo each
    /// other's.
    pub may_return: bool,
}

/// A PROBE to send to the peer's echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// By this path.
    pub by: PathId,
    /// [`crate::Datagram::epoch`] of it.
    pub counter: u32,
}

/// What the probes have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeNews {
    /// Nothing comes by the path of the life. [`Verdict::Path`] and [`Verdict::Here`] end it, with
    /// [`crate::Cause::Silence`]; the others say that there is nothing to do.
    Silent(PathId, Verdict),
    /// A better path carries: [`crate::Session::handle_return`].
    Return(PathId),
}

#[derive(Clone, Copy, Debug)]
struct Round {
    /// When the next probes go, or the verdict comes.
    at: Ns,
    sent: u8,
}

/// Probes of one connection.
#[derive(Clone, Debug)]
pub struct Probes {
    /// So long a request may be without an answer.
    silence_ns: u64,
    out: VecDeque<Probe>,
    news: Option<ProbeNews>,
    /// Which round of detection it is.
    rounds: u32,
    round: Option<Round>,
    /// The next round does not begin before, and the pause behind that.
    not_before: Ns,
    pause_ns: u64,
    oldest: Option<Ns>,
    back: Back,
}

/// The way back to a better path.
#[derive(Clone, Copy, Debug)]
struct Back {
    /// The path with its number: that may become another one's.
    to: Option<(PathId, Path)>,
    at: Ns,
    counter: u32,
    sent: Ns,
    is_answered: bool,
    row: u8,
    /// Since when it is known to carry.
    proven: Option<Ns>,
    not_before: Ns,
    pause_ns: u64,
    last: Option<Ns>,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            silence_ns: SILENCE_NS,
            out: VecDeque::new(),
            news: None,
            rounds: 0,
            round: None,
            not_before: Ns(0),
            pause_ns: FIRST_PAUSE_NS,
            oldest: None,
            back: Back {
                to: None,
                at: Ns(0),
                counter: 0,
                sent: Ns(0),
                is_answered: false,
                row: 0,
                proven: None,
                not_before: Ns(0),
                pause_ns: FIRST_RETURN_NS,
                last: None,
            },
        }
    }
}

impl Probes {
    /// Probes go where a request is without an answer for so long.
    pub fn after(silence: Ns) -> Self {
        Self {
            silence_ns: silence.0,
            ..Self::default()
        }
    }

    /// This is what the connection is like; what is due by time is done.
    pub fn look(&mut self, seen: &Seen, paths: &mut Paths, now: Ns) {
        self.oldest = seen.oldest;
        self.detect(seen, paths, now);
        self.go_back(seen, paths, now);
    }

    /// The next probe to send.
    pub fn poll(&mut self) -> Option<Probe> {
        self.out.pop_front()
    }

    /// What has been found out.
    pub fn poll_news(&mut self) -> Option<ProbeNews> {
        self.news.take()
    }

    /// When [`Probes::look`] is to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Ns> {
        let begins = self
            .oldest
            .map(|oldest| oldest.after(self.silence_ns).max(self.not_before));
        let detects = self.round.map(|round| round.at).or(begins);
        let back = &self.back;
        let returns = back.to.map(|_| back.at);
        detects.into_iter().chain(returns).min()
    }

    /// A PROBED with this counter has come. True if it answers one of these probes.
    pub fn handle_probed(&mut self, counter: u32, paths: &mut Paths, now: Ns) -> bool {
        let by = PathId((counter >> PATH_AT & PATHS) as u8);
        let is_of_return = counter & OF_RETURN != 0;
        if is_of_return {
            let back = &mut self.back;
            if back.to.map(|(to, _)| to) != Some(by)
                || counter & ROUNDS != back.counter & ROUNDS
                || back.is_answered
            {
                return false;
            }
            if now.since(back.sent) >= FRESH_NS {
                // Who has not looked for so long knows nothing of today.
                return false;
            }
            (back.is_answered, back.row) = (true, back.row.saturating_add(1));
            if back.row >= ROW && back.proven.is_none() {
                back.proven = Some(now);
                back.at = now;
            }
        } else {
            let nth = (counter & 3) as u8;
            let is_round = counter >> 2 & (ROUNDS >> 2) == self.rounds & (ROUNDS >> 2);
            if !is_round || self.rounds == 0 || nth >= PROBES {
                return false;
            }
            paths.probe_answered(by, nth);
        }
        paths.answered(by, now);
        true
    }

    fn detect(&mut self, seen: &Seen, paths: &mut Paths, now: Ns) {
        let is_silent = seen
            .oldest
            .is_some_and(|oldest| now.since(oldest) >= self.silence_ns);
        if !is_silent {
            if self.round.take().is_some() || seen.oldest.is_none() {
                (self.pause_ns, self.not_before) = (FIRST_PAUSE_NS, Ns(0));
            }
            return;
        }
        if self.round.is_none() && now >= self.not_before {
            self.rounds = self.rounds.wrapping_add(1).max(1);
            paths.begin_round();
            self.round = Some(Round { at: now, sent: 0 });
        }
        let Some(round) = &mut self.round else {
            return;
        };
        if now < round.at {
            return;
        }
        if round.sent < PROBES {
            let nth = u32::from(round.sent);
            (round.sent, round.at) = (round.sent + 1, now.after(APART_NS));
            for by in paths.best(seen.current, MOST_PATHS) {
                let round = self.rounds << 2 & ROUNDS;
                let counter = u32::from(by.0) << PATH_AT | round | nth;
                paths.probe_sent(by, now);
                self.out.push_back(Probe { by, counter });
            }
            return;
        }
        self.round = None;
        self.not_before = now.after(self.pause_ns);
        self.pause_ns = (self.pause_ns * 2).min(LONGEST_PAUSE_NS);
        if let Some(current) = seen.current {
            self.news = Some(ProbeNews::Silent(current, paths.verdict(current, now)));
        }
    }

    fn go_back(&mut self, seen: &Seen, paths: &Paths, now: Ns) {
        let current = seen.current.filter(|_| seen.may_return);
        let better = current.and_then(|current| paths.better(current));
        let better = better.and_then(|better| Some((better, *paths.get(better)?)));
        let back = &mut self.back;
        if better != back.to {
            (back.to, back.at, back.row, back.proven) = (better, now.after(RETURN_NS), 0, None);
            back.is_answered = true;
        }
        let Some((to, _)) = better else {
            let has_held = back.last.is_none_or(|last| now.since(last) >= HELD_NS);
            if seen.current.is_some() && has_held {
                back.pause_ns = FIRST_RETURN_NS;
            }
            return;
        };
        if now < back.at {
            return;
        }
        if !back.is_answered || now.since(back.sent) >= FRESH_NS {
            (back.row, back.proven) = (0, None);
        }
        let may = |since: Ns| seen.is_idle || now.since(since) >= BUSY_NS;
        if now >= back.not_before && back.proven.is_some_and(may) {
            self.news = Some(ProbeNews::Return(to));
            back.not_before = now.after(back.pause_ns);
            back.pause_ns = (back.pause_ns * 2).min(LONGEST_RETURN_NS);
            (back.to, back.row, back.proven, back.last) = (None, 0, None, Some(now));
            return;
        }
        back.counter = back.counter.wrapping_add(1);
        (back.is_answered, back.sent, back.at) = (false, now, now.after(RETURN_NS));
        let counter = OF_RETURN | u32::from(to.0) << PATH_AT | back.counter & ROUNDS;
        self.out.push_back(Probe { by: to, counter });
    }
}
