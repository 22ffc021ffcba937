//! What is said next, by which path, and the datagram that says it.

use super::{Session, State, Transmit};
use crate::cause::Reason;
use crate::datagram::{Datagram, Kind, Origin};
use crate::number::{Epoch, Ns, PathId};
use crate::paths::Paths;

/// What is to be sent besides what the state says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outbox {
    /// REQ or REP, as the state has it; no path is chosen yet, or this one is.
    pub(super) own: bool,
    pub(super) own_by: Option<PathId>,
    pub(super) rtu: bool,
    pub(super) down: Option<(Epoch, Option<PathId>)>,
    pub(super) rej: Option<(Epoch, Option<PathId>)>,
    pub(super) probed: Option<(Epoch, PathId)>,
    /// A life by this path has ended.
    pub(super) begins: Option<PathId>,
    /// What [`Session::poll_transmit`] told last.
    told: Option<Kind>,
}

impl Session {
    /// The next datagram to send. Until [`Session::transmitted`] it is told again. Where the
    /// question goes on by another own port, there is a step behind it.
    pub fn poll_transmit(&mut self, paths: &mut Paths, now: Ns) -> Option<Transmit> {
        if let Some(path) = self.failed_path.take() {
            paths.failed(path, now);
        }
        if let Some(before) = self.outbox.begins.take() {
            paths.begin(before);
        }
        let (kind, epoch, by) = self.choose(paths, now)?;
        self.outbox.told = Some(kind);
        let datagram = self.datagram(kind, epoch, by, now);
        Some(Transmit { datagram, by })
    }

    fn choose(&mut self, paths: &mut Paths, now: Ns) -> Option<(Kind, Epoch, PathId)> {
        let life = self.lives.epoch;
        let others = [(Kind::Rej, self.outbox.rej), (Kind::Down, self.outbox.down)];
        for (kind, other) in others {
            let by = other.and_then(|(epoch, by)| Some((epoch, self.any_path(by, paths, now)?)));
            if let Some((epoch, by)) = by {
                return Some((kind, epoch, by));
            }
        }
        if self.outbox.own && self.state == State::Asking {
            if let Some(by) = self.question_path(paths, now) {
                self.outbox.own_by = Some(by);
                return Some((Kind::Req, self.lives.asked, by));
            }
        } else if self.outbox.own && self.state == State::Answering {
            if let Some(by) = self.answer_path(paths, now) {
                return Some((Kind::Rep, life, by));
            }
        } else if self.outbox.rtu
            && let Some(by) = self.any_path(Some(self.remote.by), paths, now)
        {
            return Some((Kind::Rtu, life, by));
        }
        let (counter, by) = self.outbox.probed?;
        Some((Kind::Probed, counter, by))
    }

    /// This path, or the one by which the peer was heard, or any.
    fn any_path(&self, by: Option<PathId>, paths: &Paths, now: Ns) -> Option<PathId> {
        let may_go = |by: &PathId| paths.get(*by).is_some() && self.ground.may_go(*by);
        let heard = self.heard_by.filter(|by| !paths.is_avoided(*by, now));
        by.filter(may_go)
            .or(heard.filter(may_go))
            .or_else(|| paths.peek(now, |by| self.ground.may_go(by)))
            .or_else(|| paths.peek(now, |_| true))
    }

    /// The path of the next question. None if there is none by this port: then the queue pair is
    /// made elsewhere.
    fn question_path(&mut self, paths: &mut Paths, now: Ns) -> Option<PathId> {
        let ground = &self.ground;
        let known = self.outbox.own_by.filter(|by| {
            let is_good = !paths.is_avoided(*by, now) || paths.ids().count() == 1;
            paths.get(*by).is_some() && is_good && ground.is_here(*by)
        });
        if known.is_some() {
            return known;
        }
        let is_other = |by: PathId| !ground.is_here(by) && ground.may_go(by);
        let is_proven = |by: PathId| paths.is_proven(by, now);
        let has_proof = paths.ids().any(|by| ground.is_here(by) && is_proven(by));
        let proven = paths.peek(now, |by| is_other(by) && is_proven(by));
        let other = paths.peek(now, is_other);
        let to = match (proven, other) {
            _ if has_proof => None,
            (Some(proven), _) => Some(proven),
            (None, other) => other.filter(|_| self.clock.may_move(now)),
        };
        let here = to
            .is_none()
            .then(|| paths.next_of(now, |by| ground.is_here(by)))
            .flatten();
        if here.is_none()
            && let Some(to) = to.or(other)
        {
            self.clock.moved();
            self.move_on(to, now);
        }
        here
    }

    /// The path of the answer: the one by which the question came, or another one between the two
    /// queue pairs.
    fn answer_path(&self, paths: &mut Paths, now: Ns) -> Option<PathId> {
        let ground = &self.ground;
        let asked = Some(self.remote.by).filter(|by| paths.get(*by).is_some());
        let is_between = |by: PathId| ground.is_here(by) && ground.peer(by) == self.remote.adapter;
        asked.or_else(|| paths.next_of(now, is_between))
    }

    /// What [`Session::poll_transmit`] told last has gone.
    pub fn transmitted(&mut self) {
        let outbox = &mut self.outbox;
        match outbox.told.take() {
            Some(Kind::Req | Kind::Rep) => (outbox.own, outbox.own_by) = (false, None),
            Some(Kind::Rtu) => outbox.rtu = false,
            Some(Kind::Rej) => outbox.rej = None,
            Some(Kind::Down) => outbox.down = None,
            Some(Kind::Probe | Kind::Probed) => outbox.probed = None,
            None => (),
        }
    }

    fn datagram(&self, kind: Kind, epoch: Epoch, by: PathId, now: Ns) -> Datagram {
        let path = if kind == Kind::Req {
            by
        } else {
            self.remote.path
        };
        let errno = self.reason.map_or(0, Reason::errno);
        Datagram {
            kind,
            cause: self.cause,
            secret: self.who.secret,
            from: self.who.me,
            to: self.who.peer,
            epoch,
            word: self.word,
            errno,
            end: self.own,
            path,
            origin: Origin::default(),
            since_us: self.report.since_us(now),
            tries: self.clock.tries(),
            after: self.lives.epoch,
        }
        .bare()
    }
}
