//! The connection to one peer over its lives: what happens to it, what its owner has to do, and
//! what the two sides tell each other. The table of transitions is section 3 of
//! docs/design/heal.md.
//!
//! Owns: the state, the numbers of lives, the word of this side and the questions of the peer. Must
//! not know: queue pairs, what a message is, which adapters there are.
//!
//! The owner takes steps by [`Session::poll_step`] and answers [`Step::Fence`], [`Step::Make`] and
//! [`Step::Connect`] when they are done; meanwhile no other step is told, and whatever else happens
//! is remembered. Datagrams go out by [`Session::poll_transmit`].

mod answer;
mod ask;
mod contract;
mod ground;
mod report;
mod timers;
mod transmit;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod table_tests;

use crate::cause::{Cause, Reason};
use crate::datagram::{Datagram, Endpoint, Kind};
use crate::number::{AdapterId, Epoch, Ns, Number, PathId, Word};
pub use contract::{AdapterChange, Limits, PeerNews, State, Step, Taken, Transmit};
use ground::Ground;
pub use report::Report;
use timers::Clock;
use transmit::Outbox;

#[derive(Clone, Copy, Debug)]
struct Who {
    me: u32,
    peer: u32,
    secret: u64,
}

/// The numbers of lives.
#[derive(Clone, Copy, Debug, Default)]
struct Lives {
    /// The last life that was connected or answered here.
    epoch: Epoch,
    /// Whether REPLAYING was reached in it.
    is_open: bool,
    /// Whether it came of a question of this side.
    is_own: bool,
    /// The question of this side that is under way, if the state is ASKING.
    asked: Epoch,
    /// The highest that this side ever asked.
    most: Epoch,
    /// The highest that it ever asked or heard of. It never goes back.
    top: Epoch,
}

impl Lives {
    fn see(&mut self, epoch: Epoch) {
        if epoch.is_after(self.top) {
            self.top = epoch;
        }
    }
}

/// How far the owner is with the queue pair of the next life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// There is one of an open life, or nothing was ever done.
    Live,
    /// The fence is to be told.
    Fence,
    /// It is told.
    Fencing,
    /// It is done, and there is no queue pair.
    Clear,
    /// A queue pair is to be made.
    Make,
    /// That is told.
    Making,
    /// There is one in INIT.
    Ready,
    /// It is to be connected in this life.
    Connect(Epoch),
    /// That is told.
    Connecting(Epoch),
}

/// A question of the peer that may still be answered, or an answer of its; with the path by which
/// it came.
#[derive(Clone, Copy, Debug)]
struct Heard {
    epoch: Epoch,
    end: Endpoint,
    word: Word,
    /// The asker's path.
    path: PathId,
    /// The own one.
    by: PathId,
    /// The peer's adapter.
    adapter: AdapterId,
    /// The asker's last life when it asked.
    after: Epoch,
}

impl Heard {
    fn of(datagram: &Datagram, by: PathId) -> Self {
        Self {
            epoch: datagram.epoch,
            end: datagram.end,
            word: datagram.word,
            path: datagram.path,
            by,
            adapter: datagram.origin.adapter,
            after: datagram.after,
        }
    }
}

/// What the owner is told once.
#[derive(Clone, Copy, Debug, Default)]
struct Notices {
    replay: bool,
    up: bool,
    lost: bool,
}

/// The connection to one peer.
#[derive(Clone, Debug)]
pub struct Session {
    state: State,
    stage: Stage,
    who: Who,
    limits: Limits,
    lives: Lives,
    /// What was taken at the last fence, and the word made of it.
    taken: Taken,
    word: Word,
    own: Endpoint,
    /// The end that this side connects to or is connected to.
    remote: Heard,
    /// The newest question of the peer that waits for an answer.
    question: Option<Heard>,
    /// The life that is being connected is over already.
    is_spoiled: bool,
    /// Questions of this life that came by another path than the answered one.
    strangers: u8,
    ground: Ground,
    cause: Cause,
    reason: Option<Reason>,
    /// A path by which nothing could be done.
    failed_path: Option<PathId>,
    /// The path by which the peer was last heard.
    heard_by: Option<PathId>,
    outbox: Outbox,
    notices: Notices,
    clock: Clock,
    report: report::Record,
}

impl Session {
    /// The connection of rank `me` to rank `peer`, another one.
    pub fn new(me: u32, peer: u32, secret: u64, limits: Limits) -> Self {
        let nobody = Heard {
            epoch: Epoch::NONE,
            end: Endpoint::default(),
            word: Word::default(),
            path: PathId(0),
            by: PathId(0),
            adapter: AdapterId(0),
            after: Epoch::NONE,
        };
        Self {
            state: State::Idle,
            stage: Stage::Live,
            who: Who { me, peer, secret },
            limits,
            lives: Lives::default(),
            taken: Taken::default(),
            word: Word::default(),
            own: Endpoint::default(),
            remote: nobody,
            question: None,
            is_spoiled: false,
            strangers: 0,
            ground: Ground::default(),
            cause: Cause::First,
            reason: None,
            failed_path: None,
            heard_by: None,
            outbox: Outbox::default(),
            notices: Notices::default(),
            clock: Clock::default(),
            report: report::Record::default(),
        }
    }

    /// Lives and messages go on behind these numbers: for tests of what happens near 2^32.
    #[must_use]
    pub fn behind(mut self, top: Epoch, taken: Taken) -> Self {
        (self.lives.top, self.taken) = (top, taken);
        self
    }

    /// Forgets which numbers this side has asked. No owner calls it: a simulator does, to show that
    /// a connection needs them.
    #[doc(hidden)]
    pub fn forget_asked(&mut self) {
        self.lives.most = Epoch::NONE;
    }

    /// Whether messages may be sent.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// The last life that was connected or answered here.
    pub fn epoch(&self) -> Epoch {
        self.lives.epoch
    }

    /// Why the peer is lost.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// A message wants to go: the first one asks for a connection.
    pub fn want(&mut self, now: Ns) {
        if self.state == State::Idle {
            self.begin(now);
            self.proceed(now);
        }
    }

    /// A datagram has come for this rank and job, from the peer, by this path.
    pub fn handle_datagram(&mut self, datagram: &Datagram, by: PathId, now: Ns) {
        debug_assert!(datagram.from == self.who.peer && datagram.to == self.who.me);
        self.heard_by = Some(by);
        self.clock.heard(now);
        let epoch = datagram.epoch;
        if self.state == State::Lost {
            if !matches!(datagram.kind, Kind::Rej | Kind::Probe | Kind::Probed) {
                self.outbox.rej = Some((epoch, Some(by)));
            }
        } else {
            match datagram.kind {
                Kind::Req => self.handle_question(datagram, by, now),
                Kind::Rep => self.handle_answer(datagram, by, now),
                Kind::Rtu if self.state == State::Answering && epoch == self.lives.epoch => {
                    self.open(now);
                }
                Kind::Rtu | Kind::Probe => (),
                Kind::Rej => self.handle_refusal(datagram, now),
                Kind::Down => self.handle_down(datagram, now),
                Kind::Probed => self.ask_by(by, now),
            }
        }
        if datagram.kind == Kind::Probe {
            self.outbox.probed = Some((epoch, by));
        }
    }

    /// The first message of a life has come by the queue pair: what an RTU says.
    #[inline]
    pub fn handle_message(&mut self, now: Ns) {
        if self.state == State::Answering {
            self.open(now);
        }
    }

    /// The life `of` has failed: a completion, an event of its queue pair, a verb.
    pub fn handle_failure(&mut self, of: Epoch, cause: Cause, now: Ns) {
        if matches!(self.stage, Stage::Connect(life) | Stage::Connecting(life) if life == of) {
            self.spoil(cause);
        } else if self.has_life() && of == self.lives.epoch {
            self.outbox.down = Some((of, None));
            self.fence(cause, now);
        }
    }

    /// The fence that [`Step::Fence`] asked for is done; this is what it has found. From here on
    /// there is a word.
    pub fn fenced(&mut self, taken: Taken, now: Ns) {
        debug_assert_eq!(self.stage, Stage::Fencing);
        let last = std::mem::replace(&mut self.taken, taken);
        self.stage = Stage::Clear;
        self.is_spoiled = false;
        self.ground.made_on = None;
        let is_move = std::mem::take(&mut self.ground.is_move);
        self.report.fenced(now, is_move);
        if self.state == State::Lost {
            self.notices.lost = true;
            return;
        }
        let is_fruitful =
            taken.received != last.received || taken.acknowledged != last.acknowledged;
        if !is_move {
            self.clock.back_off(is_fruitful, &self.limits, now);
        }
        self.tell();
        self.proceed(now);
    }

    /// What [`Step::Make`] has made: its end, or an errno.
    pub fn made(&mut self, own: Result<Endpoint, u32>, now: Ns) {
        debug_assert_eq!(self.stage, Stage::Making);
        match own {
            Ok(own) => {
                self.own = own;
                self.clock.made();
                let may_use = self
                    .ground
                    .made_on
                    .is_none_or(|seat| self.ground.may_use(seat));
                self.ground.is_move = !may_use;
                self.stage = if may_use { Stage::Ready } else { Stage::Fence };
            }
            Err(_) => {
                self.clock.not_made(&self.limits, now);
                self.ground.not_made();
                self.stage = Stage::Clear;
            }
        }
        if self.state != State::Lost {
            self.proceed(now);
        } else if self.stage == Stage::Clear {
            self.notices.lost = true;
        } else {
            self.stage = Stage::Fence;
        }
    }

    /// What came of [`Step::Connect`]; an errno if it could not be done.
    pub fn connected(&mut self, outcome: Result<(), u32>, now: Ns) {
        let Stage::Connecting(epoch) = self.stage else {
            debug_assert!(false, "nothing is being connected");
            return;
        };
        self.stage = Stage::Live;
        match self.state {
            State::Asking => self.asked_connected(epoch, outcome, now),
            State::Fenced => self.answered_connected(epoch, outcome, now),
            // What was connected meanwhile is destroyed as well.
            _ => self.stage = Stage::Fence,
        }
    }

    /// All that the peer had not taken is sent again: so many bytes.
    pub fn replayed(&mut self, bytes: u64, now: Ns) {
        if self.state == State::Replaying {
            self.state = State::Up;
            self.notices = Notices {
                up: true,
                ..Notices::default()
            };
            self.clock.rest();
            self.report.up(self.remote.by, self.lives.epoch, bytes, now);
        }
    }

    /// Own keys are others from here on, and the last number that was given is `sent`. A word that
    /// is not told yet says so, too: an adapter may be opened anew behind a fence.
    pub fn handle_keys(&mut self, keys: u16, sent: Number) {
        (self.taken.keys, self.taken.sent) = (keys, sent);
        let has_none = matches!(self.stage, Stage::Clear | Stage::Make | Stage::Making);
        if self.state == State::Fenced && has_none {
            self.tell();
        }
    }

    /// The launcher, or the peer's echo, says something of the peer.
    pub fn handle_peer(&mut self, news: PeerNews, now: Ns) {
        match (news, self.state) {
            (_, State::Lost) | (PeerNews::Over, State::Up | State::Idle) => (),
            (PeerNews::Dead, _) => self.lose(Reason::Dead, now),
            (PeerNews::Over, _) => self.lose(Reason::Over, now),
            (PeerNews::Alive, _) => self.clock.heard(now),
        }
    }

    /// This side ends it for good, with this errno.
    pub fn refuse(&mut self, errno: u32, now: Ns) {
        if self.state != State::Lost {
            self.reject();
            self.lose(Reason::Own(errno), now);
        }
    }

    /// The next thing to do.
    pub fn poll_step(&mut self) -> Option<Step> {
        match self.stage {
            Stage::Fence => {
                self.stage = Stage::Fencing;
                Some(Step::Fence {
                    of: self.lives.epoch,
                    cause: self.cause,
                })
            }
            Stage::Make => {
                self.stage = Stage::Making;
                let seat = self.choose_seat();
                Some(Step::Make {
                    adapter: seat.adapter,
                    port: seat.port,
                })
            }
            Stage::Connect(epoch) => {
                self.stage = Stage::Connecting(epoch);
                let Heard { end, by, .. } = self.remote;
                Some(Step::Connect { epoch, end, by })
            }
            Stage::Fencing | Stage::Making | Stage::Connecting(_) => None,
            Stage::Live | Stage::Clear | Stage::Ready => self.notice(),
        }
    }

    fn notice(&mut self) -> Option<Step> {
        let notices = &mut self.notices;
        if std::mem::take(&mut notices.replay) {
            Some(Step::Replay {
                own: self.word,
                peer: self.remote.word,
            })
        } else if std::mem::take(&mut notices.up) {
            Some(Step::Up)
        } else if std::mem::take(&mut notices.lost) {
            self.reason.map(Step::Lost)
        } else {
            None
        }
    }

    /// What a heal was like, once it is over, and what it is like at 1, 10 and 60 s.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.report.poll()
    }

    /// Whether there is a life that can fail.
    fn has_life(&self) -> bool {
        matches!(self.state, State::Up | State::Replaying | State::Answering)
    }

    /// What was found at the fence becomes the word: the only place that makes one.
    fn tell(&mut self) {
        self.word = Word {
            expected: self.taken.received.next(),
            sent: self.taken.sent,
            landed: self.taken.landed,
            keys: self.taken.keys,
        };
    }

    /// IDLE is left: there is nothing to fence.
    fn begin(&mut self, now: Ns) {
        self.state = State::Fenced;
        self.stage = Stage::Clear;
        self.clock.begin(now);
        self.report.begin(Cause::First, PathId(0), now);
        self.tell();
    }

    /// The life is open at the other end.
    fn open(&mut self, now: Ns) {
        self.state = State::Replaying;
        self.lives.is_open = true;
        self.notices = Notices {
            replay: true,
            ..Notices::default()
        };
        self.outbox.own = false;
        self.clock.rest();
        self.clock.settle();
        self.clock.open(now);
        self.report.connected(now);
    }

    /// The life that is being connected is over already.
    fn spoil(&mut self, cause: Cause) {
        self.is_spoiled = true;
        self.cause = cause;
    }

    /// To FENCED; then whatever waits: a question is answered, or else this side asks.
    fn fence(&mut self, cause: Cause, now: Ns) {
        self.report.begin(cause, self.remote.by, now);
        self.state = State::Fenced;
        self.stage = Stage::Fence;
        self.cause = cause;
        self.strangers = 0;
        self.notices = Notices::default();
        // The path of before is the first that is tried (the paper's Figure 3).
        self.outbox.begins = (!self.lives.epoch.is_none()).then_some(self.remote.by);
        (self.outbox.own, self.outbox.own_by, self.outbox.rtu) = (false, None, false);
        self.ground.wanted = None;
        self.clock.begin(now);
    }

    /// In FENCED: does what comes next, if it can be done.
    fn proceed(&mut self, now: Ns) {
        if self.state != State::Fenced {
            return;
        }
        self.judge_question();
        match self.stage {
            Stage::Clear => {
                let is_wanted = self.question.is_some() || self.clock.may_ask(now);
                if is_wanted && self.ground.has_any() && self.clock.may_make(now) {
                    self.stage = Stage::Make;
                }
            }
            Stage::Ready => match self.question {
                Some(question) if self.ground.is_here(question.by) => {
                    self.question = None;
                    self.remote = question;
                    self.stage = Stage::Connect(question.epoch);
                }
                Some(question) => self.move_on(question.by, now),
                None if self.clock.may_ask(now) => self.ask(now),
                None => (),
            },
            _ => (),
        }
    }

    /// To LOST: behind a fence, if there may be a queue pair.
    fn lose(&mut self, reason: Reason, now: Ns) {
        self.reason = Some(reason);
        let had = self.has_life();
        self.state = State::Lost;
        self.question = None;
        self.notices = Notices::default();
        (self.outbox.own, self.outbox.rtu, self.outbox.down) = (false, false, None);
        self.clock.rest();
        self.report.begin(self.cause, self.remote.by, now);
        self.report.abandon(now);
        match self.stage {
            Stage::Live if had => self.stage = Stage::Fence,
            Stage::Ready | Stage::Connect(_) => self.stage = Stage::Fence,
            Stage::Make => self.stage = Stage::Clear,
            _ => (),
        }
        self.notices.lost = matches!(self.stage, Stage::Live | Stage::Clear);
    }

    /// The peer is told that there will be nothing more.
    fn reject(&mut self) {
        let life = match self.state {
            State::Asking => self.lives.asked,
            _ => self.lives.epoch,
        };
        if !life.is_none() {
            self.outbox.rej = Some((life, None));
        }
    }
}
