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
    /// What [`Session::poll_transmit`] told last.
    told: Option<Kind>,
}

impl Session {
    /// The next datagram to send. Until [`Session::transmitted`] it is told again.
    pub fn poll_transmit(&mut self, paths: &mut Paths, now: Ns) -> Option<Transmit> {
        if let Some(path) = self.failed_path.take() {
            paths.failed(path, now);
        }
        let or_any = |by: Option<PathId>, paths: &mut Paths| {
            by.or(self.heard_by)
                .filter(|by| paths.get(*by).is_some())
                .or_else(|| paths.next(now))
        };
        let (kind, epoch, by) = if let Some((epoch, by)) = self.outbox.rej {
            (Kind::Rej, epoch, or_any(by, paths)?)
        } else if let Some((epoch, by)) = self.outbox.down {
            (Kind::Down, epoch, or_any(by, paths)?)
        } else if self.outbox.own && self.state == State::Asking {
            let by = match self.outbox.own_by {
                Some(by) if paths.get(by).is_some() => by,
                _ => paths.next(now)?,
            };
            self.outbox.own_by = Some(by);
            (Kind::Req, self.lives.asked, by)
        } else if self.outbox.own && self.state == State::Answering {
            (
                Kind::Rep,
                self.lives.epoch,
                or_any(Some(self.remote.by), paths)?,
            )
        } else if self.outbox.rtu {
            (
                Kind::Rtu,
                self.lives.epoch,
                or_any(Some(self.remote.by), paths)?,
            )
        } else {
            let (counter, by) = self.outbox.probed?;
            (Kind::Probed, counter, by)
        };
        self.outbox.told = Some(kind);
        let datagram = self.datagram(kind, epoch, by, now);
        Some(Transmit { datagram, by })
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
