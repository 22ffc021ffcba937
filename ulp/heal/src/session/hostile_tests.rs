//! Two sessions over a wire that loses, doubles and reorders: after quiet they are up in one life,
//! and no number ever names two connections. So also where each has two adapters, of which some
//! fail, and one pair carries alone.

use super::*;
use crate::paths::{Path, Paths};
use proptest::prelude::*;
use std::collections::HashMap;

struct Side {
    session: Session,
    paths: Paths,
    /// The queue pair that there is, and the one that it is connected to.
    queue_pair: Option<u32>,
    remote: Option<u32>,
    /// The adapter that it was made on.
    made_on: AdapterId,
    /// The path of its life.
    by: PathId,
}

struct World {
    now: Ns,
    sides: [Side; 2],
    /// To whom, by which path, what.
    wire: Vec<(usize, PathId, Datagram)>,
    next_qpn: u32,
    /// There are two adapters at each side; and the paths of the first that carry at rest.
    is_wide: bool,
    carries: [bool; 4],
    /// The two ends of each life, as the first side that connected has them.
    ends: HashMap<Epoch, [u32; 2]>,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Want(usize),
    /// Deliver the nth datagram; and keep it to be delivered again.
    Deliver(usize, bool),
    Lose(usize),
    Step(usize, bool),
    Fail(usize),
    Wait(u64),
    /// An adapter of a side fails, or is back.
    Adapter(usize, u8, bool),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => (0..2_usize).prop_map(Action::Want),
        8 => (0..64_usize, prop::bool::weighted(0.2)).prop_map(|(at, keep)| Action::Deliver(at, keep)),
        2 => (0..64_usize).prop_map(Action::Lose),
        12 => (0..2_usize, prop::bool::weighted(0.95)).prop_map(|(side, is_good)| Action::Step(side, is_good)),
        1 => (0..2_usize).prop_map(Action::Fail),
        3 => (0..30_000_000_u64).prop_map(Action::Wait),
        1 => (0..2_usize, 0..2_u8, any::<bool>())
            .prop_map(|(side, id, is_back)| Action::Adapter(side, id, is_back)),
    ]
}

impl World {
    fn new(tops: [u32; 2]) -> Self {
        let side = |at: usize| {
            let mut paths = Paths::default();
            paths.renew(&[1, 2, 3].map(|dlid| Path {
                dlid,
                ..Path::default()
            }));
            let (me, peer) = (at as u32, 1 - at as u32);
            let session = Session::new(me, peer, 1, Limits::default());
            Side {
                session: session.behind(Epoch(tops[at]), Taken::default()),
                paths,
                queue_pair: None,
                remote: None,
                made_on: AdapterId(0),
                by: PathId(0),
            }
        };
        Self {
            now: Ns(0),
            sides: [side(0), side(1)],
            wire: Vec::new(),
            next_qpn: 1,
            is_wide: false,
            carries: [true; 4],
            ends: HashMap::new(),
        }
    }

    /// Two adapters at each side: path 0 to 3 leads from adapter 0, 0, 1, 1 to 0, 1, 0, 1.
    fn wide(tops: [u32; 2], carries: [bool; 4]) -> Self {
        let mut world = Self::new(tops);
        (world.is_wide, world.carries) = (true, carries);
        for side in &mut world.sides {
            side.paths = Paths::default();
            side.paths.renew(&[0, 1, 2, 3].map(|id| Path {
                adapter: AdapterId(id / 2),
                port: 1,
                peer: AdapterId(id % 2),
                ..Path::default()
            }));
            side.session.handle_paths(&side.paths);
            let back = AdapterChange::Back(AdapterId(1));
            side.session.handle_adapters(back, Ns(0));
        }
        world
    }

    /// The receiver's number of a path.
    fn by(&self, by: PathId) -> PathId {
        let turned = (by.0 & 1) << 1 | by.0 >> 1;
        PathId(if self.is_wide { turned } else { by.0 })
    }

    fn send(&mut self) {
        let is_wide = self.is_wide;
        for at in 0..2 {
            let side = &mut self.sides[at];
            while let Some(sent) = side.session.poll_transmit(&mut side.paths, self.now) {
                side.session.transmitted();
                let mut sent = sent;
                sent.datagram.origin.adapter = AdapterId(if is_wide { sent.by.0 / 2 } else { 0 });
                let datagram = Datagram::parse(&sent.datagram.emit()).expect("a datagram");
                if datagram.kind.has_word() {
                    assert_eq!(
                        side.queue_pair,
                        Some(datagram.end.qpn),
                        "H1: of which life?"
                    );
                    assert!(datagram.kind == Kind::Rep || side.remote.is_none(), "H1");
                    assert_eq!(side.made_on, datagram.origin.adapter, "of another adapter");
                }
                self.wire.push((1 - at, sent.by, datagram));
            }
        }
    }

    fn step(&mut self, at: usize, is_good: bool) -> bool {
        let now = self.now;
        let side = &mut self.sides[at];
        let Some(step) = side.session.poll_step() else {
            return false;
        };
        match step {
            Step::Fence { .. } => {
                (side.queue_pair, side.remote) = (None, None);
                side.session.fenced(Taken::default(), now);
            }
            Step::Make { .. } if !is_good => side.session.made(Err(12), now),
            Step::Make { adapter, .. } => {
                side.made_on = adapter;
                assert_eq!(side.queue_pair, None, "one is not fenced");
                let qpn = self.next_qpn;
                self.next_qpn += 1;
                side.queue_pair = Some(qpn);
                let end = Endpoint {
                    qpn,
                    mtu: 3,
                    ..Endpoint::default()
                };
                side.session.made(Ok(end), now);
            }
            Step::Connect { epoch, end, by } => {
                let leaves = side.paths.get(by).map(|path| path.adapter);
                assert_eq!(leaves, Some(side.made_on), "by another adapter");
                let own = side.queue_pair.expect("one was made");
                (side.remote, side.by) = (Some(end.qpn), by);
                let ends = if at == 0 {
                    [own, end.qpn]
                } else {
                    [end.qpn, own]
                };
                let known = *self.ends.entry(epoch).or_insert(ends);
                assert_eq!(known, ends, "{epoch:?} names two connections");
                let outcome = if is_good { Ok(()) } else { Err(22) };
                side.session.connected(outcome, now);
            }
            Step::Replay { .. } => side.session.replayed(0, now),
            Step::Up => (),
            Step::Lost(reason) => panic!("lost: {reason:?}"),
        }
        true
    }

    fn deliver(&mut self, at: usize, keep: bool) {
        if self.wire.is_empty() {
            return;
        }
        let at = at % self.wire.len();
        let (to, by, datagram) = if keep {
            self.wire[at]
        } else {
            self.wire.remove(at)
        };
        let by = self.by(by);
        self.sides[to]
            .session
            .handle_datagram(&datagram, by, self.now);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Want(at) => self.sides[at].session.want(self.now),
            Action::Deliver(at, keep) => self.deliver(at, keep),
            Action::Lose(at) if !self.wire.is_empty() => {
                self.wire.swap_remove(at % self.wire.len());
            }
            Action::Lose(_) => (),
            Action::Step(at, is_good) => {
                self.step(at, is_good);
            }
            Action::Fail(at) => {
                let session = &mut self.sides[at].session;
                session.handle_failure(session.epoch(), Cause::QpError, self.now);
            }
            Action::Adapter(at, id, is_back) => self.adapter_changes(at, AdapterId(id), is_back),
            Action::Wait(ns) => {
                self.now = self.now.after(ns);
                for side in &mut self.sides {
                    side.session.handle_timeout(self.now);
                }
            }
        }
        self.send();
    }

    fn adapter_changes(&mut self, at: usize, id: AdapterId, is_back: bool) {
        let session = &mut self.sides[at].session;
        if is_back && (self.is_wide || id.0 == 0) {
            session.handle_adapters(AdapterChange::Back(id), self.now);
        } else if !is_back {
            session.handle_adapters(AdapterChange::Failed(id), self.now);
        }
    }

    /// What probes find out in time: that a life's path carries nothing.
    fn detect(&mut self) {
        for at in 0..2 {
            let by = self.sides[at].by;
            let path = if at == 0 { by } else { self.by(by) };
            let session = &mut self.sides[at].session;
            let has_life = session.has_life();
            if self.is_wide && has_life && !self.carries[usize::from(path.0)] {
                self.sides[at].paths.failed(by, self.now);
                session.handle_failure(session.epoch(), Cause::Silence, self.now);
            }
        }
    }

    /// No fault any more: all arrives, in the order of its sending, but by paths that carry
    /// nothing.
    fn rest(&mut self) {
        for (at, id) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            self.adapter_changes(at, AdapterId(id), true);
        }
        for side in &mut self.sides {
            side.session.want(self.now);
        }
        for _ in 0..20_000 {
            self.send();
            while !self.wire.is_empty() {
                let (to, by, _) = self.wire[0];
                let path = if to == 1 { by } else { self.by(by) };
                if !self.is_wide || self.carries[usize::from(path.0)] {
                    self.deliver(0, false);
                } else {
                    self.wire.remove(0);
                }
                self.send();
            }
            while self.step(0, true) || self.step(1, true) {
                self.send();
            }
            let next = self
                .sides
                .iter()
                .filter_map(|side| side.session.poll_timeout())
                .min();
            let is_up = self.sides.iter().all(|side| side.session.is_up());
            match next {
                _ if is_up && self.wire.is_empty() => return,
                Some(at) if self.wire.is_empty() => self.now = self.now.max(at),
                _ => (),
            }
            for side in &mut self.sides {
                side.session.handle_timeout(self.now);
            }
            self.detect();
        }
        let states = self
            .sides
            .each_ref()
            .map(|side| (side.session.state(), side.session.lives));
        panic!("they come to no end: {states:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn two_sessions_always_come_to_one_life(
        tops in prop_oneof![Just([0, 0]), Just([u32::MAX - 2; 2]), Just([7, 3])],
        actions in prop::collection::vec(action(), 0..300),
    ) {
        let mut world = World::new(tops);
        for action in actions {
            world.act(action);
        }
        world.rest();
        let [left, right] = &world.sides;
        prop_assert_eq!(left.session.epoch(), right.session.epoch());
        prop_assert_eq!(left.queue_pair, right.remote);
        prop_assert_eq!(right.queue_pair, left.remote);
    }

    #[test]
    fn two_sessions_with_two_adapters_each_find_the_pair_that_carries(
        tops in prop_oneof![Just([0, 0]), Just([u32::MAX - 2; 2]), Just([7, 3])],
        actions in prop::collection::vec(action(), 0..300),
        (carries, one) in (any::<[bool; 4]>(), 0_usize..4),
    ) {
        let mut carries = carries;
        carries[one] = true;
        let mut world = World::wide(tops, carries);
        for action in actions {
            world.act(action);
        }
        world.rest();
        let [left, right] = &world.sides;
        prop_assert_eq!(left.session.epoch(), right.session.epoch());
        prop_assert_eq!(left.queue_pair, right.remote);
        prop_assert_eq!(right.queue_pair, left.remote);
    }

    #[test]
    fn hostile_datagrams_break_no_assertion(
        actions in prop::collection::vec(action(), 0..60),
        hits in prop::collection::vec((0..64_usize, 24..102_usize, any::<u8>()), 0..60),
    ) {
        let mut world = World::new([0, 0]);
        let mut hits = hits.into_iter();
        for action in actions {
            if let (Some((at, byte, value)), false) = (hits.next(), world.wire.is_empty()) {
                let at = at % world.wire.len();
                let mut bytes = world.wire[at].2.emit();
                bytes[byte] = value;
                if let Some(datagram) = Datagram::parse(&bytes) {
                    let (to, by, _) = world.wire[at];
                    world.sides[to].session.handle_datagram(&datagram, by, world.now);
                }
            }
            // What the two believe of one another is not asserted: only that nothing panics.
            world.ends.clear();
            for at in 0..2 {
                if world.sides[at].session.state() == State::Lost {
                    return Ok(());
                }
            }
            world.act(action);
        }
    }
}
