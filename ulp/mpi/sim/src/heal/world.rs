//! The world: what happens next, what the adapters and the wire do, and what is so at the end.

use super::device::{Device, Flight, Happening, Ruin};
use super::laws::Laws;
use super::letter::Letters;
use super::plan::{Blow, FOR_GOOD, Plan};
use super::rank::{Link, Rank};
use super::wire::{Outcome, QueuePair, QueuePairState, SECRET};
use super::{Fault, Options, Report};
use crate::{Failure, Rng};
use ferriband_heal::card::Card;
use ferriband_heal::{
    AdapterChange, AdapterId, Adapters, Datagram, Epoch, Limits, Ns, Number, PeerNews, Session,
    State, Taken,
};
use std::collections::{BTreeMap, VecDeque};

/// No run has more events: three ranks that ask for an hour after one that computes have a
/// million.
const EVENTS: u64 = 3_000_000;
const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// So long after quiet all is at rest.
const REST_NS: u64 = 40 * SECOND;
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
    /// A datagram comes.
    Arrive(Flight),
    /// An adapter of this opening tells its rank.
    Tell(usize, usize, u32, Happening),
    /// A port of an adapter is ACTIVE again.
    PortBack(usize, usize, u8),
    /// A rank's card is written.
    Publish(usize),
    /// A question of a rank comes for the card of another one.
    Ask(usize, usize),
    /// A card that a rank has asked for comes: whose it is, and what it says.
    Card(usize, usize, Card),
    /// LAST_WQE of a queue pair comes.
    Flush(usize),
    Blow(Blow),
    /// A queue pair goes to error.
    Fail(usize),
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
    /// What carries nothing, and until when; and when something last came to that.
    pub ruins: Vec<(Ruin, Ns)>,
    pub ruined_at: Option<Ns>,
    /// The cards of all ranks, and what they were at first.
    pub board: Vec<Card>,
    pub first_board: Vec<Card>,
    /// What the process of each rank answers who asks it for its card.
    pub told: Vec<Card>,
    storms: BTreeMap<(usize, usize), Ns>,
    /// All datagrams that went.
    pub history: Vec<Flight>,
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
            Link::new(session, sent, received)
        };
        let mut programs = plan.programs.clone();
        let is_odd = is_near;
        let ranks = (0..count).map(|me| Rank {
            links: (0..count).map(|peer| link(me, peer)).collect(),
            inbox: Default::default(),
            devices: plan.adapters[me]
                .iter()
                .map(|ports| Device::new(*ports))
                .collect(),
            adapters: Adapters::new(&plan.adapters[me]),
            events: VecDeque::new(),
            closing: vec![false; plan.adapters[me].len()],
            serial: if is_odd { u32::MAX - 5 } else { 0 },
            is_changed: false,
            steps: VecDeque::new(),
            stopped_until: Ns(0),
            is_closing: false,
            is_quiet: false,
            is_over: false,
            completions: Default::default(),
            program: std::mem::take(&mut programs[me]),
            away_until: Ns(0),
            is_dead: false,
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
            ruins: Vec::new(),
            ruined_at: None,
            board: Vec::new(),
            first_board: Vec::new(),
            told: Vec::new(),
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
        if !one.is_dead && !one.is_over && one.turn_at.is_none_or(|other| at < other) {
            one.turn_at = Some(at);
            self.at(at, Event::Turn(rank));
        }
    }

    pub fn wake_soon(&mut self, rank: usize) {
        let pause = 1 + self.rng.below(10 * MICROSECOND);
        self.wake(rank, self.now.after(pause));
    }

    /// Cards are exchanged, and all adapters may be used.
    fn exchange(&mut self) {
        let count = self.ranks.len();
        self.board = (0..count).map(|me| self.card(me)).collect();
        self.first_board = self.board.clone();
        self.told = self.board.clone();
        for (me, peer) in (0..count * count).map(|pair| (pair / count, pair % count)) {
            let card = self.board[peer];
            for id in 0..self.ranks[me].devices.len() {
                let back = AdapterChange::Back(AdapterId(id as u8));
                let session = &mut self.link(me, peer).session;
                session.handle_adapters(back, Ns(0));
            }
            self.link(me, peer).reach.handle_card(&card);
            self.renew(me, peer);
        }
    }

    fn set_out(&mut self) {
        self.exchange();
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
                Event::Arrive(flight) => self.arrive(flight),
                Event::Tell(rank, adapter, opening, what) => {
                    self.ranks[rank].events.push_back((adapter, opening, what));
                    self.wake_soon(rank);
                }
                Event::PortBack(rank, adapter, port) => {
                    self.tell(rank, adapter, Happening::Port(port));
                }
                Event::Publish(rank) => self.board[rank] = self.card(rank),
                Event::Ask(me, peer) => self.answer_card(me, peer),
                Event::Card(me, peer, card) => {
                    self.card_read(me, peer, &card);
                    self.wake_soon(me);
                }
                Event::Flush(at) => self.flush(at)?,
                Event::Blow(blow) => self.strike(blow)?,
                Event::Fail(at) => self.fail(at)?,
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
            if self.ranks[me].is_over || self.ranks[peer].is_over {
                continue;
            }
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
            Blow::Path(ruin, for_ns) => {
                self.ruins.push((ruin, now.after(for_ns)));
                self.ruined_at = Some(now);
                for at in 0..self.queue_pairs.len() {
                    let one = &self.queue_pairs[at];
                    if (one.owner, one.peer) == (ruin.from, ruin.to) && !self.reaches(at) {
                        self.laws.spoil(&self.queue_pairs[at]);
                    }
                }
            }
            Blow::Storm(one, other, until) => {
                self.storms.insert((one.min(other), one.max(other)), until);
                self.strike(Blow::QueuePair(one, other))?;
            }
            Blow::Away(rank, for_ns, is_stopped) => {
                let one = &mut self.ranks[rank];
                one.away_until = now.after(for_ns);
                one.stopped_until = if is_stopped { one.away_until } else { now };
                one.turn_at = None;
                self.wake(rank, now);
            }
            Blow::Adapter(rank, adapter, for_ns, is_hard) => {
                self.adapter_fails(rank, adapter, for_ns, is_hard)?;
            }
            Blow::Both(one, other, for_ns) => {
                for rank in [one, other] {
                    for adapter in 0..self.ranks[rank].devices.len() {
                        self.adapter_fails(rank, adapter, for_ns, false)?;
                    }
                }
            }
            Blow::Port(rank, adapter, port, [down, shaky]) => {
                let until = now.after(down);
                let one = &mut self.device_mut(rank, adapter).ports[usize::from(port) - 1];
                one.down_until = one.down_until.max(until);
                one.carries_at = one.carries_at.max(one.down_until.after(shaky));
                let carries_at = one.carries_at;
                if carries_at.0 < FOR_GOOD {
                    self.plan.quiet_at = self.plan.quiet_at.max(carries_at);
                    self.rest_at = self.rest_at.max(carries_at.after(REST_NS));
                }
                self.ruin_port(rank, adapter, Some(port));
                self.tell(rank, adapter, Happening::Port(port));
                if down < FOR_GOOD {
                    self.at(until, Event::PortBack(rank, adapter, port));
                }
            }
            Blow::Address(rank, adapter, port) => {
                self.ruin_port(rank, adapter, Some(port));
                self.device_mut(rank, adapter).ports[usize::from(port) - 1].address += 1;
                self.tell(rank, adapter, Happening::Address(port));
            }
            Blow::Kill(rank) => self.kill(rank),
        }
        Ok(())
    }

    /// An adapter is in error. Perhaps what nobody has polled is lost with it.
    fn adapter_fails(
        &mut self,
        rank: usize,
        adapter: usize,
        for_ns: u64,
        is_hard: bool,
    ) -> Outcome {
        let until = self.now.after(for_ns);
        let shaky = [0, 2 * MILLISECOND, SECOND][self.rng.below(3) as usize];
        let shaky = self.rng.below(shaky + 1);
        let device = self.device_mut(rank, adapter);
        device.absent_until = device.absent_until.max(until);
        let carries_at = device.absent_until.after(shaky);
        for port in &mut device.ports {
            port.carries_at = port.carries_at.max(carries_at);
        }
        if carries_at.0 < FOR_GOOD {
            self.plan.quiet_at = self.plan.quiet_at.max(carries_at);
            self.rest_at = self.rest_at.max(carries_at.after(REST_NS));
        }
        let device = self.device_mut(rank, adapter);
        if !device.is_open || device.is_fatal {
            return Ok(());
        }
        for at in self.ruin_port(rank, adapter, None) {
            self.blame_memory(at)?;
            self.fail(at)?;
            if is_hard {
                self.queue_pairs[at].limbo.clear();
                self.ranks[rank].completions.retain(|(of, _)| *of != at);
            }
        }
        self.device_mut(rank, adapter).is_fatal = true;
        self.tell(rank, adapter, Happening::Fatal);
        self.wake_soon(rank);
        Ok(())
    }

    /// A process is no more: its adapters are closed.
    pub fn end_process(&mut self, rank: usize) {
        for at in 0..self.queue_pairs.len() {
            if self.queue_pairs[at].owner == rank {
                self.laws.spoil(&self.queue_pairs[at]);
                self.queue_pairs[at].state = QueuePairState::Destroyed;
                self.queue_pairs[at].limbo.clear();
            }
        }
        for device in &mut self.ranks[rank].devices {
            device.is_open = false;
        }
    }

    fn kill(&mut self, rank: usize) {
        if self.ranks[rank].is_over {
            return;
        }
        self.ranks[rank].is_dead = true;
        self.end_process(rank);
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

    /// What a planted fault makes of a datagram that has come; none: it is thrown away.
    pub fn tampered(&mut self, me: usize, mut datagram: Datagram) -> Option<Datagram> {
        use ferriband_heal::Kind;
        let fault = self.fault;
        let link = self.link(me, datagram.from as usize);
        let is_asking = link.session.state() == State::Asking;
        let has_life = matches!(link.session.state(), State::Up | State::Replaying);
        let is_old = datagram.epoch == link.session.epoch();
        let is_over = is_old && matches!(link.session.state(), State::Fenced | State::Asking);
        let is_asked = is_asking && datagram.epoch == link.asked;
        let is_known = is_asked || has_life && datagram.epoch == link.session.epoch();
        match (fault, datagram.kind) {
            (Some(Fault::StrayAnswer), Kind::Rep) if !is_known => return None,
            (Some(Fault::StrayAnswer), Kind::Req) if is_over => return None,
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
