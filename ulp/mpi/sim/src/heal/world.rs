//! The world: what happens next, what the adapters and the wire do, and what is so at the end.

use super::laws::Laws;
use super::letter::Letters;
use super::plan::{Blow, Plan};
use super::rank::{Link, RECEIVES as SHARED, Rank};
use super::wire::{Dead, Outcome, QueuePair, QueuePairState, SECRET};
use super::{Fault, Options, Report};
use crate::{Failure, Rng};
use ferriband_heal::{
    AdapterChange, AdapterId, Datagram, Epoch, Limits, Ns, Number, PathId, PeerNews, Session,
    Taken, Transmit,
};
use std::collections::BTreeMap;

/// No run has more events.
const EVENTS: u64 = 1_000_000;
/// Receives for datagrams: what comes while none is left is lost.
const RECEIVES: usize = 64;
const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// So long after quiet all is at rest.
const REST_NS: u64 = 20 * SECOND;
/// And stays so: it is watched for so long.
const WATCHED_NS: u64 = 100 * SECOND;
const HEAL_FOR: Ns = Ns(300 * SECOND);

/// What happens at a time.
pub enum Event {
    /// A rank goes on.
    Turn(usize),
    /// Something arrives by a queue pair, or does not.
    Move(usize),
    /// Something that has arrived is placed.
    Place(usize),
    /// A datagram comes to a rank.
    Arrive(usize, PathId, Vec<u8>),
    Blow(Blow),
    /// A queue pair goes to error.
    Fail(usize),
    /// A rank's adapter may be back.
    Back(usize),
    /// The launcher looks who lives.
    Look,
    /// Datagrams of old come again.
    Old,
}

pub struct World {
    seed: u64,
    events_done: u64,
    pub now: Ns,
    pub rng: Rng,
    pub fault: Option<Fault>,
    pub plan: Plan,
    pub ranks: Vec<Rank>,
    pub queue_pairs: Vec<QueuePair>,
    pub laws: Laws,
    pub letters: Letters,
    pub report: Report,
    events: BTreeMap<(Ns, u64), Event>,
    next_event: u64,
    pub dead_paths: Dead,
    storms: BTreeMap<(usize, usize), Ns>,
    /// All datagrams that went.
    history: Vec<(usize, PathId, Vec<u8>)>,
    /// When all must be at rest.
    rest_at: Ns,
}

/// Where numbers begin: near 2^32 in a third of the runs.
fn base(rng: &mut Rng, is_near: bool) -> u32 {
    if is_near {
        u32::MAX - rng.below(12) as u32
    } else {
        0
    }
}

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng(seed);
        let plan = Plan::new(&mut rng);
        let is_near = rng.chance(333);
        let mut limits = Limits {
            heal_for: Some(HEAL_FOR),
            ..Limits::default()
        };
        if options.fault == Some(Fault::LostForSilence) {
            limits.heal_for = Some(Ns(200 * MILLISECOND));
        }
        if options.fault == Some(Fault::NoBackOff) {
            (limits.first_ns, limits.longest_ns) = (0, 0);
        }
        let count = plan.ranks;
        let bases: Vec<Vec<u32>> = (0..count)
            .map(|_| (0..count).map(|_| base(&mut rng, is_near)).collect())
            .collect();
        let tops: Vec<Vec<u32>> = (0..count)
            .map(|_| (0..count).map(|_| base(&mut rng, is_near)).collect())
            .collect();
        let link = |me: usize, peer: usize| {
            let (sent, received) = (Number(bases[me][peer]), Number(bases[peer][me]));
            let taken = Taken {
                received,
                sent,
                acknowledged: sent,
                ..Taken::default()
            };
            let session = Session::new(me as u32, peer as u32, SECRET, limits)
                .behind(Epoch(tops[me][peer]), taken);
            Link::new(session, sent, received, plan.paths)
        };
        let mut programs = plan.programs.clone();
        let ranks = (0..count).map(|me| Rank {
            links: (0..count).map(|peer| link(me, peer)).collect(),
            inbox: Default::default(),
            completions: Default::default(),
            program: std::mem::take(&mut programs[me]),
            away_until: Ns(0),
            is_dead: false,
            adapter_at: Ns(0),
            receives: SHARED,
            turn_at: None,
            nap_ns: 0,
        });
        let ranks = ranks.collect();
        Self {
            seed,
            events_done: 0,
            now: Ns(0),
            rng,
            fault: options.fault,
            ranks,
            queue_pairs: Vec::new(),
            laws: Laws::new(count),
            letters: Letters::default(),
            report: Report::default(),
            events: BTreeMap::new(),
            next_event: 0,
            dead_paths: Dead::default(),
            storms: BTreeMap::new(),
            history: Vec::new(),
            rest_at: plan.quiet_at.after(REST_NS),
            plan,
        }
    }

    pub fn run(mut self) -> Result<Report, Failure> {
        match self.go() {
            Ok(()) => Ok(self.report),
            Err(what) => Err(Failure {
                seed: self.seed,
                step: self.events_done,
                what: format!("{what} (world heal, {} ns)", self.now.0),
            }),
        }
    }

    pub fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub fn is_quiet(&self) -> bool {
        self.now >= self.plan.quiet_at
    }

    pub fn link(&mut self, me: usize, peer: usize) -> &mut Link {
        &mut self.ranks[me].links[peer]
    }

    pub fn at(&mut self, at: Ns, event: Event) {
        self.events.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    /// The rank goes on at this time, if it does not do so earlier.
    pub fn wake(&mut self, rank: usize, at: Ns) {
        let one = &mut self.ranks[rank];
        let at = at.max(one.away_until).max(self.now);
        if !one.is_dead && one.turn_at.is_none_or(|other| at < other) {
            one.turn_at = Some(at);
            self.at(at, Event::Turn(rank));
        }
    }

    pub fn wake_soon(&mut self, rank: usize) {
        let pause = 1 + self.rng.below(10 * MICROSECOND);
        self.wake(rank, self.now.after(pause));
    }

    fn set_out(&mut self) {
        for rank in 0..self.ranks.len() {
            self.wake_soon(rank);
        }
        for (at, blow) in self.plan.blows.clone() {
            self.at(at, Event::Blow(blow));
        }
        let mut at = Ns(0);
        while self.plan.has_launcher && at < self.plan.quiet_at {
            at = at.after(100 * SECOND);
            self.at(at, Event::Look);
        }
        for _ in 0..self.rng.below(60) {
            let span = self.plan.quiet_at.0 + 60 * SECOND;
            let at = Ns(self.rng.below(span));
            self.at(at, Event::Old);
        }
    }

    fn go(&mut self) -> Outcome {
        self.set_out();
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > self.rest_at && self.now <= self.rest_at {
                self.at_rest()?;
            }
            if at > self.rest_at.after(WATCHED_NS) {
                // Who has asked somebody to stop who is dead since looks for ever, now and then.
                break;
            }
            self.now = at;
            self.events_done += 1;
            if self.events_done > EVENTS {
                let left = self.at_rest().err().unwrap_or_default();
                return Err(format!("H9: it comes to no end: {left}"));
            }
            match event {
                Event::Turn(rank) => {
                    if self.ranks[rank].turn_at == Some(at) && !self.ranks[rank].is_dead {
                        self.ranks[rank].turn_at = None;
                        self.turn(rank)?;
                    }
                }
                Event::Move(at) => self.carry(at)?,
                Event::Place(at) => self.place_next(at)?,
                Event::Arrive(to, ..) if !self.has_adapter(to) => (),
                Event::Arrive(to, ..) if self.ranks[to].inbox.len() >= RECEIVES => (),
                Event::Arrive(to, by, bytes) => {
                    self.ranks[to].inbox.push_back((by, bytes));
                    self.wake_soon(to);
                }
                Event::Blow(blow) => self.strike(blow)?,
                Event::Fail(at) => self.fail(at)?,
                Event::Back(rank) => self.adapter_is_back(rank),
                Event::Look => self.launcher_looks(),
                Event::Old => self.repeat_old(),
            }
        }
        self.at_rest()
    }

    /// The launcher says of each rank what it knows.
    fn launcher_looks(&mut self) {
        let count = self.ranks.len();
        for (me, peer) in (0..count * count).map(|pair| (pair / count, pair % count)) {
            let news = if self.ranks[peer].is_dead {
                PeerNews::Dead
            } else {
                PeerNews::Alive
            };
            let now = self.now;
            if me != peer && !self.ranks[me].is_dead {
                self.laws.contact(me, peer, now);
                self.link(me, peer).session.handle_peer(news, now);
                self.wake_soon(me);
            }
        }
    }

    fn strike(&mut self, blow: Blow) -> Outcome {
        let now = self.now;
        match blow {
            Blow::QueuePair(one, other) => {
                let link = &self.ranks[one].links[other];
                let lane = link.lane.queue_pair.filter(|_| self.rng.chance(300));
                if let Some(at) = lane.or(link.queue_pair) {
                    self.fail(at)?;
                }
            }
            Blow::Path(one, other, path, for_ns) => {
                self.dead_paths.until(one, other, path, now.after(for_ns));
            }
            Blow::Storm(one, other, until) => {
                self.storms.insert((one.min(other), one.max(other)), until);
                self.strike(Blow::QueuePair(one, other))?;
            }
            Blow::Away(rank, for_ns) => {
                self.ranks[rank].away_until = now.after(for_ns);
                self.ranks[rank].turn_at = None;
                self.wake(rank, now);
            }
            Blow::Adapter(rank, for_ns) => self.adapter_fails(rank, now.after(for_ns))?,
            Blow::Kill(rank) => self.kill(rank),
        }
        Ok(())
    }

    pub fn has_adapter(&self, rank: usize) -> bool {
        self.now >= self.ranks[rank].adapter_at
    }

    /// A rank's port goes down, or its adapter is closed and opened anew: then no key of before is
    /// one any more.
    fn adapter_fails(&mut self, rank: usize, until: Ns) -> Outcome {
        let now = self.now;
        self.ranks[rank].adapter_at = until;
        let mine = |one: &QueuePair| one.owner == rank && one.state == QueuePairState::Connected;
        for at in 0..self.queue_pairs.len() {
            if mine(&self.queue_pairs[at]) {
                self.fail(at)?;
            }
        }
        let is_closed = self.rng.chance(600);
        if is_closed {
            self.close_adapter(rank);
        }
        for peer in (0..self.ranks.len()).filter(|peer| *peer != rank) {
            if is_closed {
                self.rekey(rank, peer);
                if self.rng.chance(300) {
                    // It is not yet one that carries when it says that it is back.
                    let shaky = until.after(self.rng.below(2 * MILLISECOND));
                    let pair = (rank.min(peer), rank.max(peer));
                    self.storms.insert(pair, shaky);
                }
            }
            self.link(rank, peer)
                .session
                .handle_adapters(AdapterChange::NoneLeft, now);
        }
        self.wake_soon(rank);
        self.at(until, Event::Back(rank));
        Ok(())
    }

    /// Nothing of an adapter is left: completions that nobody has taken, receives, keys.
    fn close_adapter(&mut self, rank: usize) {
        for one in self.queue_pairs.iter_mut().filter(|one| one.owner == rank) {
            one.limbo.clear();
        }
        let one = &mut self.ranks[rank];
        one.completions.clear();
        let in_hand = one.links.iter().filter(|link| link.in_hand.is_some());
        one.receives = SHARED - in_hand.count() as u32;
        for link in &mut one.links {
            link.stale.clear();
        }
    }

    fn adapter_is_back(&mut self, rank: usize) {
        let (now, change) = (self.now, AdapterChange::Back(AdapterId(0)));
        if self.has_adapter(rank) {
            for peer in (0..self.ranks.len()).filter(|peer| *peer != rank) {
                self.link(rank, peer).session.handle_adapters(change, now);
            }
            self.wake_soon(rank);
        }
    }

    fn kill(&mut self, rank: usize) {
        self.ranks[rank].is_dead = true;
        for at in 0..self.queue_pairs.len() {
            if self.queue_pairs[at].owner == rank {
                self.laws.spoil(&self.queue_pairs[at]);
                self.queue_pairs[at].state = QueuePairState::Destroyed;
                self.queue_pairs[at].limbo.clear();
            }
        }
        if self.plan.has_launcher {
            let at = self.now.after(self.rng.below(3 * SECOND));
            self.at(at, Event::Look);
            // Who is away hears it later.
            let last = self.plan.quiet_at.max(at);
            self.at(last.after(MILLISECOND), Event::Look);
        } else {
            // Datagrams of the dead come for a minute, and as old ones for one more.
            self.rest_at = self.rest_at.after(HEAL_FOR.0 + 150 * SECOND);
        }
        for other in 0..self.ranks.len() {
            self.wake_soon(other);
        }
    }

    /// Somebody finds that the connection to `peer` has failed. Whoever has no launcher to tell him
    /// that a rank is dead asks it for so long from here on.
    pub fn notices(&mut self, peer: usize) {
        if self.ranks[peer].is_dead && !self.plan.has_launcher {
            let last = self.now.after(HEAL_FOR.0 + 150 * SECOND);
            self.rest_at = self.rest_at.max(last);
        }
    }

    /// A queue pair was connected: where there is a storm, it does not last.
    pub fn was_connected(&mut self, at: usize) {
        let one = &self.queue_pairs[at];
        let pair = (one.owner.min(one.peer), one.owner.max(one.peer));
        if self
            .storms
            .get(&pair)
            .is_some_and(|until| self.now < *until)
        {
            let when = self.now.after(self.rng.below(300 * MICROSECOND));
            self.at(when, Event::Fail(at));
        }
    }

    /// A datagram leaves.
    pub fn transmit(&mut self, from: usize, to: usize, sent: &Transmit) {
        let bytes = sent.datagram.emit().to_vec();
        let is_quiet = self.is_quiet();
        self.history.push((to, sent.by, bytes.clone()));
        if self.dead_paths.is_dead(from, to, sent.by, self.now) || !self.has_adapter(from) {
            return;
        }
        let copies = match () {
            () if is_quiet => 1,
            () if self.rng.chance(self.plan.loss) => 0,
            () if self.rng.chance(self.plan.double) => 2,
            () => 1,
        };
        for _ in 0..copies {
            let late = if is_quiet || !self.rng.chance(self.plan.late) {
                50 * MICROSECOND
            } else {
                [5 * MILLISECOND, SECOND, 60 * SECOND][self.rng.below(3) as usize]
            };
            let at = self.now.after(1 + self.rng.below(late));
            self.at(at, Event::Arrive(to, sent.by, bytes.clone()));
        }
    }

    fn repeat_old(&mut self) {
        if !self.history.is_empty() {
            let at = self.rng.below(self.history.len() as u64) as usize;
            let (to, by, bytes) = self.history[at].clone();
            self.at(self.now, Event::Arrive(to, by, bytes));
        }
    }

    /// What a planted fault makes of a datagram that has come; none: it is thrown away.
    pub fn tampered(&mut self, me: usize, mut datagram: Datagram) -> Option<Datagram> {
        use ferriband_heal::{Kind, State};
        let fault = self.fault;
        let link = self.link(me, datagram.from as usize);
        let is_asking = link.session.state() == State::Asking;
        match (fault, datagram.kind) {
            (Some(Fault::BothStand), Kind::Req) if is_asking && datagram.from < datagram.to => {
                return None;
            }
            (Some(Fault::OlderAnswer), Kind::Rep) if is_asking => datagram.epoch = link.asked,
            (Some(Fault::AnswersOwnNumber), Kind::Req) if !is_asking => link.session.forget_asked(),
            (Some(Fault::LateQuestion), Kind::Req) => datagram.after = link.session.epoch(),
            _ => (),
        }
        Some(datagram)
    }
}
