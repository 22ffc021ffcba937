//! The side that asks: its question, what comes back, and what makes the question void.

use super::{Heard, Session, Stage, State};
use crate::cause::{Cause, Reason};
use crate::datagram::Datagram;
use crate::number::{Epoch, Ns, PathId};

impl Session {
    /// A new question, above all that was ever asked; also in place of the one under way. The queue
    /// pair in INIT stays: it has received nothing.
    pub(super) fn ask(&mut self, now: Ns) {
        let asked = self.lives.top.next();
        self.lives.top = asked;
        (self.lives.asked, self.lives.most) = (asked, asked);
        self.state = State::Asking;
        self.stage = Stage::Ready;
        self.outbox.own = true;
        self.clock.repeat_from(now);
        self.clock.stay(now);
    }

    /// The peer has done with the question under way: it answered it, and failed. That was a life
    /// without a message, so the next question may have to wait (law 8).
    pub(super) fn ask_again(&mut self, now: Ns) {
        self.state = State::Fenced;
        (self.outbox.own, self.outbox.own_by) = (false, None);
        self.clock.back_off(false, &self.limits, now);
        self.clock.begin(now);
        self.proceed(now);
    }

    /// The question goes by this path, by which the peer was heard; if it leaves from another port,
    /// once those of this one have been asked.
    pub(super) fn ask_by(&mut self, by: PathId, now: Ns) {
        match self.state {
            State::Asking => {
                self.outbox.own = true;
                if self.ground.is_here(by) {
                    self.outbox.own_by = Some(by);
                }
            }
            State::Fenced if self.ground.may_go(by) => {
                self.outbox.own_by = Some(by);
                self.ground.wanted = Some(self.ground.seat(by));
                self.proceed(now);
            }
            _ => (),
        }
    }

    /// REP.
    pub(super) fn handle_answer(&mut self, datagram: &Datagram, by: PathId, now: Ns) {
        let epoch = datagram.epoch;
        let is_connecting = self.is_connecting(epoch);
        match self.state {
            // It would connect what it did not come to: it is repeated.
            State::Asking if epoch == self.lives.asked && !self.ground.is_here(by) => (),
            State::Asking if epoch == self.lives.asked && !is_connecting => {
                self.remote = Heard::of(datagram, by);
                self.stage = Stage::Connect(epoch);
                self.report.answered(now);
            }
            State::Asking if is_connecting => (),
            State::Up | State::Replaying if epoch == self.lives.epoch => {
                self.outbox.rtu |= self.lives.is_own;
            }
            State::Idle | State::Lost => (),
            // Its sender waits for nobody.
            _ => self.outbox.down = Some((epoch, Some(by))),
        }
    }

    /// Whether this life is being connected.
    pub(super) fn is_connecting(&self, epoch: Epoch) -> bool {
        matches!(self.stage, Stage::Connect(life) | Stage::Connecting(life) if life == epoch)
    }

    /// The queue pair of the own question is connected, or is not.
    pub(super) fn asked_connected(&mut self, epoch: Epoch, outcome: Result<(), u32>, now: Ns) {
        self.lives.epoch = epoch;
        (self.lives.is_own, self.lives.is_open) = (true, false);
        if outcome.is_err() {
            self.failed_path = Some(self.remote.by);
            self.outbox.down = Some((epoch, None));
            self.fence(Cause::Verb, now);
            return;
        }
        self.open(now);
        // One that the peer gave up to answer the own question comes late.
        self.question
            .take_if(|question| epoch.is_after(question.after));
        if self.is_spoiled || self.question.is_some() {
            let cause = if self.is_spoiled {
                self.cause
            } else {
                Cause::Peer
            };
            self.outbox.down = Some((epoch, None));
            self.fence(cause, now);
        } else {
            self.outbox.rtu = true;
        }
    }

    /// REJ.
    pub(super) fn handle_refusal(&mut self, datagram: &Datagram, now: Ns) {
        let epoch = datagram.epoch;
        let is_asked = self.state == State::Asking && epoch == self.lives.asked;
        let is_life = epoch == self.lives.epoch && !epoch.is_none();
        match self.state {
            State::Idle | State::Lost => (),
            State::Asking | State::Answering if is_asked || is_life => {
                self.lose(Reason::Refused(datagram.errno), now);
            }
            _ if is_life => self.lose(Reason::Ended(datagram.errno), now),
            _ => (),
        }
    }
}
