//! The side that is asked: which questions it answers, and what it is told of lives that are over.

use super::{Heard, Session, Stage, State};
use crate::cause::Cause;
use crate::datagram::Datagram;
use crate::number::{Epoch, Ns, PathId};

/// So many questions by another path than the answered one say that answers do not arrive.
const STRANGERS: u8 = 3;

impl Session {
    /// REQ.
    pub(super) fn handle_question(&mut self, datagram: &Datagram, by: PathId, now: Ns) {
        let epoch = datagram.epoch;
        self.lives.see(epoch);
        if epoch == self.lives.epoch {
            self.handle_question_again(datagram, by, now);
            return;
        }
        if !self.may_answer(datagram) {
            return;
        }
        match self.state {
            State::Idle => {
                self.question = Some(Heard::of(datagram, by));
                self.begin(now);
                self.report.noticed_there(datagram.since_us);
            }
            State::Up | State::Replaying | State::Answering => {
                self.question = Some(Heard::of(datagram, by));
                self.fence(Cause::Peer, now);
                self.report.noticed_there(datagram.since_us);
            }
            State::Fenced => self.question = Some(Heard::of(datagram, by)),
            State::Asking if self.stage != Stage::Ready => {
                // The answer to the own question is being connected: this one is of later.
                self.question = Some(Heard::of(datagram, by));
            }
            State::Asking if self.who.peer < self.who.me => {
                // Both have asked: the lower rank's question stands.
                self.question = Some(Heard::of(datagram, by));
                self.state = State::Fenced;
                (self.outbox.own, self.outbox.own_by) = (false, None);
            }
            // The peer has done with the own question: it has answered it, and failed.
            State::Asking => self.ask_again(now),
            State::Lost => (),
        }
        self.proceed(now);
    }

    /// Whether a question is newer than all that this side has to do with.
    fn may_answer(&self, datagram: &Datagram) -> bool {
        let lives = &self.lives;
        let epoch = datagram.epoch;
        // Asked before the life that is open here, in which its sender was: a datagram of old.
        let is_old = lives.is_open && lives.epoch.is_after(datagram.after);
        // One number, one connection: the peer may have answered what was asked here.
        let is_own = self.who.me < self.who.peer && !epoch.is_after(lives.most);
        let known = self.question.as_ref().map(|question| question.epoch);
        let connecting = match self.stage {
            Stage::Connect(life) | Stage::Connecting(life) => Some(life),
            _ => None,
        };
        let is_newest = [known, connecting]
            .into_iter()
            .flatten()
            .all(|life| epoch.is_after(life));
        epoch.is_after(lives.epoch) && !is_old && !is_own && is_newest
    }

    /// A question whose number is that of the last life.
    fn handle_question_again(&mut self, datagram: &Datagram, by: PathId, now: Ns) {
        let epoch = datagram.epoch;
        match self.state {
            State::Answering if datagram.end == self.remote.end => {
                // Those before the answer was repeated were sent before it can have come.
                if by != self.remote.by && self.clock.tries() > 0 {
                    self.strangers += 1;
                }
                if self.strangers < STRANGERS {
                    self.outbox.own = true;
                    return;
                }
                self.failed_path = Some(self.remote.by);
                self.outbox.down = Some((epoch, Some(by)));
                self.fence(Cause::Silence, now);
                self.outbox.own_by = Some(by);
            }
            State::Fenced | State::Asking => self.outbox.down = Some((epoch, Some(by))),
            _ => (),
        }
    }

    /// DOWN.
    pub(super) fn handle_down(&mut self, datagram: &Datagram, now: Ns) {
        let epoch = datagram.epoch;
        self.lives.see(epoch);
        let last = self.lives.epoch;
        if epoch != last && !epoch.is_after(last) {
            return;
        }
        let is_over = |life: Epoch| life == epoch || epoch.is_after(life);
        // The sender was in this life, so it has done with what it asked before.
        if self
            .question
            .is_some_and(|question| is_over(question.epoch))
        {
            self.question = None;
        }
        if let Stage::Connect(life) | Stage::Connecting(life) = self.stage {
            if is_over(life) {
                self.spoil(Cause::Peer);
            }
        } else if self.has_life() {
            self.fence(Cause::Peer, now);
            self.report.noticed_there(datagram.since_us);
        } else if self.state == State::Asking && epoch != last && is_over(self.lives.asked) {
            self.ask_again(now);
        }
    }

    /// The queue pair of an answer is connected, or is not.
    pub(super) fn answered_connected(&mut self, epoch: Epoch, outcome: Result<(), u32>, now: Ns) {
        self.lives.epoch = epoch;
        (self.lives.is_own, self.lives.is_open) = (false, false);
        if outcome.is_err() {
            self.failed_path = Some(self.remote.by);
            self.outbox.down = Some((epoch, None));
            self.fence(Cause::Verb, now);
            return;
        }
        if self.is_spoiled || self.question.is_some() {
            let cause = if self.is_spoiled {
                self.cause
            } else {
                Cause::Peer
            };
            self.fence(cause, now);
            return;
        }
        self.state = State::Answering;
        self.outbox.own = true;
        self.report.answered(now);
        self.clock.repeat_from(now);
    }
}
