//! Where the next queue pair is made: on which adapter, by which port.
//!
//! A life works by one own port; so the question for it goes by the paths of that port, and by
//! those of another one only as another question, with another queue pair.

use super::{AdapterChange, Session, Stage, State};
use crate::cause::Cause;
use crate::number::{AdapterId, Epoch, Ns, PathId};
use crate::paths::{MOST, Paths};

/// An own port. Until [`Session::handle_paths`] says otherwise all paths leave from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) adapter: AdapterId,
    pub(super) port: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Route {
    seat: Seat,
    peer: AdapterId,
}

/// The own ports, and which is used.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// Adapters that may be used, a bit for each.
    usable: u8,
    /// From where each path leaves and whither, by its number.
    routes: Vec<Route>,
    /// Those in the table, the best first.
    order: Vec<PathId>,
    /// The port of the queue pair that there is, or is being made.
    pub(super) made_on: Option<Seat>,
    /// The port that the next one is wanted on.
    pub(super) wanted: Option<Seat>,
    /// The queue pair that is fenced was never connected.
    pub(super) is_move: bool,
}

impl Default for Ground {
    fn default() -> Self {
        Self {
            usable: 1,
            routes: Vec::new(),
            order: Vec::new(),
            made_on: None,
            wanted: None,
            is_move: false,
        }
    }
}

impl Ground {
    fn route(&self, id: PathId) -> Route {
        let route = self.routes.get(usize::from(id.0)).copied();
        route.unwrap_or_default()
    }

    /// The port from which a path leaves.
    pub(super) fn seat(&self, id: PathId) -> Seat {
        self.route(id).seat
    }

    /// The peer's adapter to which it leads.
    pub(super) fn peer(&self, id: PathId) -> AdapterId {
        self.route(id).peer
    }

    pub(super) fn has_any(&self) -> bool {
        self.usable != 0
    }

    pub(super) fn may_use(&self, seat: Seat) -> bool {
        self.usable & 1 << (seat.adapter.0 & 7) != 0
    }

    /// Whether a path leaves from a port of an adapter that may be used.
    pub(super) fn may_go(&self, id: PathId) -> bool {
        self.may_use(self.seat(id))
    }

    /// Whether the queue pair that there is works by the port of this path.
    pub(super) fn is_here(&self, id: PathId) -> bool {
        self.made_on.is_none_or(|seat| seat == self.seat(id))
    }

    /// Where the next queue pair is made: where a question came, where it is wanted, where the last
    /// life was, where the best path leaves.
    fn choose(&self, question: Option<PathId>, before: Option<PathId>) -> Option<Seat> {
        let is_there = |seat: &Seat| {
            self.order.is_empty() || self.order.iter().any(|id| self.seat(*id) == *seat)
        };
        let asked = question.map(|by| self.seat(by));
        let before = before.map(|by| self.seat(by)).filter(is_there);
        let best = self.order.iter().map(|id| self.seat(*id));
        let any = (0..8).map(|id| Seat {
            adapter: AdapterId(id),
            port: 0,
        });
        let wanted = self.wanted.filter(is_there);
        let first = [asked, wanted, before].into_iter().flatten();
        let mut all = first.chain(best).chain(any);
        all.find(|seat| self.may_use(*seat))
    }

    /// No queue pair could be made there: the next one is wanted on another adapter, if there is
    /// one.
    pub(super) fn not_made(&mut self) {
        let failed = self.made_on.take().unwrap_or_default().adapter;
        let mut others = self.order.iter().map(|id| self.seat(*id));
        self.wanted = others.find(|seat| seat.adapter != failed && self.may_use(*seat));
    }
}

impl Session {
    /// The paths of the peer were read anew: from where they leave. An owner with one adapter of
    /// one port need not say so.
    pub fn handle_paths(&mut self, paths: &Paths) {
        let all = (0..MOST as u8).map(PathId);
        let route = |id: PathId| {
            let path = paths.known(id).copied().unwrap_or_default();
            let (adapter, port) = (path.adapter, path.port);
            Route {
                seat: Seat { adapter, port },
                peer: path.peer,
            }
        };
        self.ground.routes = all.map(route).collect();
        self.ground.order = paths.best(None, MOST);
    }

    /// Something happened to an adapter of this side. At first adapter 0 alone may be used.
    pub fn handle_adapters(&mut self, change: AdapterChange, now: Ns) {
        match change {
            AdapterChange::Failed(id) => {
                self.ground.usable &= !(1 << (id.0 & 7));
                if self.ground.made_on.is_some_and(|seat| seat.adapter == id) {
                    self.leave(Cause::PortDown, now);
                }
                self.proceed(now);
            }
            AdapterChange::Back(id) => {
                self.ground.usable |= 1 << (id.0 & 7);
                self.clock.has_adapter();
                self.proceed(now);
            }
            AdapterChange::NoneLeft => {
                self.ground.usable = 0;
                self.clock.has_none(now);
                self.leave(Cause::DeviceFatal, now);
            }
        }
    }

    /// The own port of the life is down, or its address is another: what lives on it is over. Says
    /// nothing of what works by another port.
    pub fn handle_port(&mut self, adapter: AdapterId, port: u8, cause: Cause, now: Ns) {
        if self.ground.made_on == Some(Seat { adapter, port }) {
            self.leave(cause, now);
            self.proceed(now);
        }
    }

    /// The life goes on by another path, of the same two adapters: they have gone over to it by
    /// themselves, and nothing is to be sent again.
    pub fn handle_migration(&mut self, of: Epoch, by: PathId) {
        if self.has_life() && of == self.lives.epoch {
            self.remote.by = by;
            self.ground.made_on = Some(self.ground.seat(by));
        }
    }

    /// A better path carries: the life ends, and the next one is asked for by that path.
    pub fn handle_return(&mut self, by: PathId, now: Ns) {
        if self.state != State::Up || !self.ground.may_go(by) {
            return;
        }
        self.outbox.down = Some((self.lives.epoch, None));
        self.fence(Cause::Return, now);
        self.outbox.begins = Some(by);
        self.ground.wanted = Some(self.ground.seat(by));
    }

    /// What lives on the port is over.
    fn leave(&mut self, cause: Cause, now: Ns) {
        match self.stage {
            Stage::Connect(_) | Stage::Connecting(_) => self.spoil(cause),
            _ if self.has_life() => {
                self.outbox.down = Some((self.lives.epoch, None));
                self.fence(cause, now);
            }
            Stage::Ready => {
                self.fence(cause, now);
                self.ground.is_move = true;
            }
            Stage::Make => self.stage = Stage::Clear,
            _ => (),
        }
    }

    /// The queue pair in INIT is of no use: the next one is made elsewhere.
    pub(super) fn move_on(&mut self, to: PathId, now: Ns) {
        self.state = State::Fenced;
        self.stage = Stage::Fence;
        self.ground.is_move = true;
        self.ground.wanted = Some(self.ground.seat(to));
        (self.outbox.own, self.outbox.own_by) = (false, Some(to));
        self.clock.begin(now);
    }

    /// Where the queue pair is made that [`super::Step::Make`] asks for.
    pub(super) fn choose_seat(&mut self) -> Seat {
        let question = self.question.map(|question| question.by);
        let before = (!self.lives.epoch.is_none()).then_some(self.remote.by);
        let seat = self.ground.choose(question, before).unwrap_or_default();
        self.ground.made_on = Some(seat);
        self.ground.wanted = None;
        seat
    }

    /// Whether a question that waits can be answered where it came. One that cannot is dropped,
    /// where there is another adapter: its asker tries that.
    pub(super) fn judge_question(&mut self) {
        let ground = &self.ground;
        let has_other = ground.has_any();
        self.question
            .take_if(|question| has_other && !ground.may_go(question.by));
    }
}
