//! Two parties and a network that loses, doubles, delays and reorders messages, in virtual time, out of a seed.

mod common;

use common::{Host, LISTENER, SECOND, Seeded, events, listen, rep, req, sidr, transmits};
use ferriband_cm::table::{Kind, State};
use ferriband_cm::{
    AprParams, CmEvent, CmLimits, Enhanced, Input, LapParams, Machine, Route, SidrReplyParams,
    UserId,
};
use ferriband_transport::types::{Instant, QpState};
use ferriband_wire::cm::{ApStatus, CmMad, Info, Message, RejectReason, SidrStatus};
use ferriband_wire::{CommId, QKey, Qpn, TimeCode};
use std::collections::BTreeMap;

/// How bad the network is.
#[derive(Clone, Copy)]
struct Weather {
    loss: u64,
    double: u64,
    delay_ns: u64,
}

const FAIR: Weather = Weather {
    loss: 0,
    double: 0,
    delay_ns: 1_000_000,
};

/// What a consumer does later.
#[derive(Clone, Copy, Debug)]
enum Act {
    Accept,
    Reject,
    Delay,
    Ready,
    Disconnect,
    Destroy,
    Offer,
    AnswerOffer,
    AnswerQuestion,
    /// Ask for a connection, or for a queue pair; not about an identifier.
    Ask,
    Question,
}

/// What a consumer knows of an identifier.
#[derive(Debug, Default)]
struct App {
    tag: u64,
    active: bool,
    log: Vec<CmEvent>,
    established: bool,
    ended: bool,
}

struct Party {
    host: Host,
    machine: Machine,
    apps: BTreeMap<u32, App>,
    /// Of identifiers that are in use again: twenty random bits come twice once in a while.
    former: Vec<App>,
    qpn: u32,
    life: u64,
}

impl Party {
    fn all(&self) -> impl Iterator<Item = &App> {
        self.apps.values().chain(&self.former)
    }
}

struct World {
    rng: Seeded,
    now: Instant,
    weather: Weather,
    parties: [Party; 2],
    network: BTreeMap<(Instant, u64), (usize, usize, [u8; 256])>,
    alarms: BTreeMap<(Instant, u64), (usize, u64, CommId, Act)>,
    sequence: u64,
    /// Messages sent and delivered, by side, kind and transaction.
    sent: BTreeMap<(usize, Kind, u64), u32>,
    delivered: BTreeMap<(usize, Kind, u64), u32>,
    /// Attributes of the side that asked, by tag.
    attributes: BTreeMap<u64, [u32; 4]>,
    /// Tags of connections that the asking side has seen established, and the asked one.
    established: [Vec<u64>; 2],
    in_host: bool,
    tags: u64,
    seed: u64,
}

fn bytes_of(tag: u64, step: u64) -> [u8; 8] {
    (tag ^ step << 56).to_le_bytes()
}

impl World {
    fn new(seed: u64, weather: Weather, in_host: bool) -> Self {
        let party = |number: u8| {
            let mut machine = Machine::new(
                u32::from(number),
                CmLimits::default(),
                [seed, u64::from(number)],
            );
            machine.listen(&listen(64)).expect("free");
            Party {
                host: Host { number },
                machine,
                apps: BTreeMap::new(),
                former: Vec::new(),
                qpn: u32::from(number) << 16,
                life: 0,
            }
        };
        World {
            rng: Seeded(seed),
            now: Instant(0),
            weather,
            parties: [party(1), party(2)],
            network: BTreeMap::new(),
            alarms: BTreeMap::new(),
            sequence: 0,
            sent: BTreeMap::new(),
            delivered: BTreeMap::new(),
            attributes: BTreeMap::new(),
            established: [Vec::new(), Vec::new()],
            in_host,
            tags: 0,
            seed,
        }
    }

    fn route(&self, from: usize, to: usize) -> Route {
        let (here, there) = (self.parties[from].host, self.parties[to].host);
        if self.in_host {
            Route::Host {
                slot: u32::from(there.number),
            }
        } else {
            here.route_to(there, 1)
        }
    }

    fn later(&mut self, party: usize, comm: CommId, within_ns: u64, act: Act) {
        self.sequence += 1;
        let at = self.now.plus_ns(self.rng.below(within_ns.max(1)));
        let life = self.parties[party].life;
        self.alarms
            .insert((at, self.sequence), (party, life, comm, act));
    }

    /// Everything that a machine has to say: messages to the network, events to its consumers.
    fn drain(&mut self, side: usize) {
        for (_, mad, bytes) in transmits(&mut self.parties[side].machine) {
            let key = (side, Kind::of(&mad.message), mad.transaction_id.0);
            *self.sent.entry(key).or_default() += 1;
            let copies = if self.rng.chance(self.weather.loss) {
                0
            } else {
                1 + u64::from(self.rng.chance(self.weather.double))
            };
            for _ in 0..copies {
                self.sequence += 1;
                let at = self.now.plus_ns(self.rng.below(self.weather.delay_ns));
                self.network
                    .insert((at, self.sequence), (side, 1 - side, bytes));
            }
        }
        for event in events(&mut self.parties[side].machine) {
            self.hear(side, event.user, event.comm, event.kind);
        }
    }

    /// The next thing that happens anywhere; false if nothing will.
    fn step(&mut self) -> bool {
        let timeouts = [0, 1].map(|side| self.parties[side].machine.poll_timeout());
        let next = [
            self.network.keys().next().map(|key| key.0),
            self.alarms.keys().next().map(|key| key.0),
            timeouts[0],
            timeouts[1],
        ];
        let Some(at) = next.into_iter().flatten().min() else {
            return false;
        };
        assert!(at >= self.now, "time goes forward, seed {}", self.seed);
        self.now = at;
        if next[0] == Some(at) {
            let (_, (from, to, mad)) = self.network.pop_first().expect("seen");
            let parsed = CmMad::parse(&mad).expect("a message");
            let key = (to, Kind::of(&parsed.message), parsed.transaction_id.0);
            *self.delivered.entry(key).or_default() += 1;
            let input = Input::Mad {
                from: self.route(to, from),
                to: Some(self.parties[to].host.gid(1)),
                mad: &mad,
            };
            let host = self.parties[to].host;
            let _ = self.parties[to].machine.handle(at, input, &host);
            self.drain(to);
        } else if next[1] == Some(at) {
            let (_, (party, life, comm, act)) = self.alarms.pop_first().expect("seen");
            if life == self.parties[party].life {
                self.act(party, comm, act);
            }
            self.drain(party);
        } else {
            let side = usize::from(timeouts[0] != Some(at));
            self.parties[side].machine.handle_timeout(at);
            self.drain(side);
        }
        true
    }

    fn act(&mut self, side: usize, comm: CommId, act: Act) {
        let now = self.now;
        let to = self.parties[1 - side].host;
        let here = self.parties[side].host;
        let route = self.route(side, 1 - side);
        match act {
            Act::Ask | Act::Question => {
                self.tags += 1;
                let (tag, party) = (self.tags, &mut self.parties[side]);
                party.qpn += 1;
                let data = bytes_of(tag, 1);
                let comm = if let Act::Ask = act {
                    let mut params = req(here, to, tag, party.qpn, &data);
                    params.route = route;
                    party.machine.connect(now, &params).expect("room")
                } else {
                    let mut params = sidr(here, to, tag, &data);
                    params.route = route;
                    party.machine.sidr_request(now, &params).expect("room")
                };
                let app = App {
                    tag,
                    active: true,
                    ..App::default()
                };
                if let Some(old) = party.apps.insert(comm.0, app) {
                    assert!(old.ended, "an identifier in use, seed {}", self.seed);
                    party.former.push(old);
                }
                return;
            }
            _ => {}
        }
        let party = &mut self.parties[side];
        let Some(app) = party.apps.get_mut(&comm.0) else {
            return;
        };
        let tag = app.tag;
        let machine = &mut party.machine;
        // A call may come too late; then it is refused, and the events have said why.
        match act {
            Act::Accept => {
                party.qpn += 1;
                let _ = machine.accept(now, comm, &rep(party.qpn, &bytes_of(tag, 2)));
            }
            Act::Reject => {
                let reason = RejectReason::Consumer;
                if machine
                    .reject(now, comm, reason, b"ari", &bytes_of(tag, 3))
                    .is_ok()
                {
                    app.ended = true;
                }
            }
            Act::Delay => {
                let _ = machine.delay(comm, TimeCode(18), &[]);
            }
            Act::Ready => {
                if machine.ready(comm, &bytes_of(tag, 4)).is_ok() {
                    app.established = true;
                    let attributes = attributes(machine, comm);
                    self.attributes.insert(tag, attributes);
                    self.established[0].push(tag);
                }
            }
            Act::Disconnect => {
                let _ = machine.disconnect(now, comm, &bytes_of(tag, 5));
            }
            Act::Destroy => {
                machine.destroy(now, comm);
                app.ended = true;
            }
            Act::Offer => {
                let params = LapParams {
                    alternate: (here.local_end(2), here.path_to(to, 2)),
                    remote_response_timeout: TimeCode(14),
                    private_data: &bytes_of(tag, 6),
                };
                let _ = machine.load_alternate(now, comm, &params);
            }
            Act::AnswerOffer => {
                let params = AprParams {
                    status: ApStatus::Loaded,
                    info: Info::NONE,
                    private_data: &bytes_of(tag, 7),
                };
                let _ = machine.answer_alternate(comm, &params);
            }
            Act::AnswerQuestion => {
                let params = SidrReplyParams {
                    status: SidrStatus::Valid,
                    qpn: Qpn(tag as u32 & 0xff_ffff),
                    qkey: QKey(7),
                    info: Info::NONE,
                    enhanced: Enhanced::default(),
                    private_data: &bytes_of(tag, 8),
                };
                if machine.sidr_reply(now, comm, &params).is_ok() {
                    app.ended = true;
                }
            }
            Act::Ask | Act::Question => {}
        }
    }

    /// An event: checked against what the identifier has seen, and answered, sooner or later or never.
    fn hear(&mut self, side: usize, user: UserId, comm: CommId, kind: CmEvent) {
        let seed = self.seed;
        let first = |data: &[u8]| u64::from_le_bytes(*data.first_chunk().expect("long enough"));
        let tag_of = |data: &[u8]| first(data) ^ 1 << 56;
        match &kind {
            CmEvent::Request(request) => {
                assert_eq!(user, LISTENER);
                let tag = tag_of(request.private_data.as_bytes());
                let again = self.parties[side]
                    .all()
                    .find(|app| app.tag == tag && !app.active);
                assert!(
                    again.is_none(),
                    "a request came twice, seed {seed}: {again:?} at {:?}",
                    self.now
                );
                let machine = &mut self.parties[side].machine;
                machine.adopt(comm, UserId(tag)).expect("asked");
            }
            CmEvent::SidrRequest(request) => {
                let tag = tag_of(request.private_data.as_bytes());
                let again = self.parties[side]
                    .apps
                    .values()
                    .any(|app| app.tag == tag && !app.active);
                assert!(!again, "a question came twice, seed {seed}");
                let machine = &mut self.parties[side].machine;
                machine.adopt(comm, UserId(tag)).expect("asked");
            }
            _ => {}
        }
        let tag = match &kind {
            CmEvent::Request(request) => tag_of(request.private_data.as_bytes()),
            CmEvent::SidrRequest(request) => tag_of(request.private_data.as_bytes()),
            _ => user.0,
        };
        let party = &mut self.parties[side];
        if matches!(kind, CmEvent::Request(_) | CmEvent::SidrRequest(_))
            && let Some(old) = party.apps.remove(&comm.0)
        {
            assert!(old.ended, "an identifier in use, seed {seed}");
            party.former.push(old);
        }
        let app = party.apps.entry(comm.0).or_insert(App {
            tag,
            ..App::default()
        });
        assert_eq!(app.tag, tag, "an event of another identifier, seed {seed}");
        check_log(app, &kind, seed);
        let expect = |data: &[u8], step: u64| {
            assert_eq!(data[..8], bytes_of(tag, step), "seed {seed}");
            assert!(data[8..].iter().all(|byte| *byte == 0));
        };
        match &kind {
            CmEvent::Reply(reply) => expect(reply.private_data.as_bytes(), 2),
            CmEvent::Established(data) => expect(data.as_bytes(), 4),
            CmEvent::Rejected {
                reason: RejectReason::Consumer,
                private_data,
                ari,
                ..
            } if !ari.as_bytes().is_empty() => {
                expect(private_data.as_bytes(), 3);
                assert_eq!(ari.as_bytes(), b"ari");
            }
            CmEvent::SidrReply(answer) if answer.status == SidrStatus::Valid => {
                expect(answer.private_data.as_bytes(), 8);
                assert_eq!(answer.qpn, Qpn(tag as u32 & 0xff_ffff));
            }
            CmEvent::AlternateRequest(request) => expect(request.private_data.as_bytes(), 6),
            _ => {}
        }
        app.log.push(kind.clone());
        self.answer(side, comm, &kind);
    }

    /// What the consumer does about an event.
    fn answer(&mut self, side: usize, comm: CommId, kind: &CmEvent) {
        let die = self.rng.below(100);
        let soon = SECOND / 10;
        match kind {
            CmEvent::Request(_) => match die {
                0..60 => self.later(side, comm, soon, Act::Accept),
                60..75 => {
                    self.later(side, comm, soon, Act::Delay);
                    self.later(side, comm, 5 * SECOND, Act::Accept);
                }
                75..90 => self.later(side, comm, 2 * SECOND, Act::Reject),
                // The other side is told to wait by its own duplicates.
                90..97 => self.later(side, comm, 20 * SECOND, Act::Accept),
                _ => self.later(side, comm, 9 * SECOND, Act::Destroy),
            },
            CmEvent::Reply(_) => match die {
                0..75 => self.later(side, comm, soon, Act::Ready),
                75..85 => {
                    self.later(side, comm, soon, Act::Delay);
                    self.later(side, comm, 5 * SECOND, Act::Ready);
                }
                85..95 => self.later(side, comm, soon, Act::Reject),
                _ => self.later(side, comm, soon, Act::Destroy),
            },
            CmEvent::Established(_) => {
                self.passive_established(side, comm);
                if die < 60 {
                    self.later(side, comm, 3 * SECOND, Act::Disconnect);
                }
                if die.is_multiple_of(3) {
                    self.later(side, comm, SECOND, Act::Offer);
                }
            }
            CmEvent::DisconnectRequest(_) => {
                let act = if die < 80 {
                    Act::Disconnect
                } else {
                    Act::Destroy
                };
                self.later(side, comm, 2 * SECOND, act);
            }
            CmEvent::AlternateRequest(_) => self.later(side, comm, soon, Act::AnswerOffer),
            CmEvent::SidrRequest(_) => self.later(side, comm, SECOND / 5, Act::AnswerQuestion),
            _ => {}
        }
        // The side that asked may end it too, often at the same time.
        if matches!(kind, CmEvent::Reply(_)) && die.is_multiple_of(2) {
            self.later(side, comm, 4 * SECOND, Act::Disconnect);
        }
    }

    /// Both queue pairs fit each other.
    fn passive_established(&mut self, side: usize, comm: CommId) {
        let party = &mut self.parties[side];
        let tag = party.apps[&comm.0].tag;
        if let Some(app) = party.apps.get_mut(&comm.0) {
            app.established = true;
        }
        let [qpn, remote, rq_psn, sq_psn] = self.attributes[&tag];
        assert_eq!(
            attributes(&party.machine, comm),
            [remote, qpn, sq_psn, rq_psn],
            "seed {}",
            self.seed
        );
        self.established[1].push(tag);
    }

    /// The process at `side` is killed and starts anew, with the same queue pair numbers.
    fn restart(&mut self, side: usize) {
        let party = &mut self.parties[side];
        party.life += 1;
        let number = u64::from(party.host.number) | party.life << 8;
        party.machine = Machine::new(
            u32::from(party.host.number),
            CmLimits::default(),
            [self.seed, number],
        );
        party.machine.listen(&listen(64)).expect("free");
        party.apps.clear();
        party.former.clear();
        party.qpn = u32::from(party.host.number) << 16;
    }

    /// The network heals, everything is ended, and the machines must come to rest with nothing left.
    fn finish(&mut self) {
        self.weather = FAIR;
        let end = self.now.plus_ns(400 * SECOND);
        let settle = self.now.plus_ns(60 * SECOND);
        let mut ended = false;
        loop {
            if !ended && self.now >= settle {
                ended = true;
                for side in 0..2 {
                    let open: Vec<u32> = self.parties[side]
                        .apps
                        .iter()
                        .filter(|(_, app)| !app.ended)
                        .map(|(comm, _)| *comm)
                        .collect();
                    for comm in open {
                        let established = self.parties[side]
                            .machine
                            .state(CommId(comm))
                            .is_established();
                        let act = if established {
                            Act::Disconnect
                        } else {
                            Act::Destroy
                        };
                        self.act(side, CommId(comm), act);
                        self.drain(side);
                    }
                }
            }
            if !self.step() {
                if ended {
                    break;
                }
                self.now = settle;
            }
            assert!(self.now < end, "no rest, seed {}", self.seed);
        }
        for party in &self.parties {
            assert!(
                party.machine.is_empty(),
                "left over, seed {}: {:?}",
                self.seed,
                party.machine.summaries().collect::<Vec<_>>()
            );
            for (comm, app) in &party.apps {
                assert!(app.ended, "no end, seed {}: {comm:#x} {app:?}", self.seed);
            }
        }
        self.check_counts();
    }

    /// Nothing is sent more often than its retries and the duplicates that came allow.
    fn check_counts(&self) {
        let came = |side, kind, transaction| {
            self.delivered
                .get(&(side, kind, transaction))
                .copied()
                .unwrap_or(0)
        };
        for ((side, kind, transaction), count) in &self.sent {
            let (side, transaction) = (*side, *transaction);
            let most = match kind {
                Kind::Req | Kind::Dreq | Kind::Lap | Kind::SidrReq => 16,
                Kind::Rep => 16 + came(side, Kind::Req, transaction),
                Kind::Rtu => came(side, Kind::Rep, transaction),
                Kind::Drep => came(side, Kind::Dreq, transaction),
                Kind::SidrRep => came(side, Kind::SidrReq, transaction),
                Kind::Apr => came(side, Kind::Lap, transaction),
                // One by the consumer, and one for each duplicate of any message; a REJ also out of silence.
                Kind::Mra | Kind::Rej => {
                    2 + came(side, Kind::Req, transaction)
                        + came(side, Kind::Rep, transaction)
                        + came(side, Kind::Lap, transaction)
                }
            };
            assert!(
                *count <= most,
                "{kind:?} sent {count} times, at most {most}, seed {}",
                self.seed
            );
        }
    }
}

fn attributes(machine: &Machine, comm: CommId) -> [u32; 4] {
    let (rtr, _) = machine.qp_attr(comm, QpState::Rtr).expect("both known");
    let (rts, _) = machine.qp_attr(comm, QpState::Rts).expect("both known");
    let local = machine
        .summaries()
        .find(|summary| summary.comm == comm)
        .expect("there");
    [
        local.local_qpn.0,
        rtr.dest_qpn.0,
        rtr.rq_psn.get(),
        rts.sq_psn.get(),
    ]
}

/// No event twice, none after the end, none out of order.
fn check_log(app: &mut App, kind: &CmEvent, seed: u64) {
    let told = format!("seed {seed}: {kind:?} after {:?}", app.log);
    assert!(!app.ended, "after the end, {told}");
    let same = |other: &CmEvent| std::mem::discriminant(other) == std::mem::discriminant(kind);
    let repeatable = matches!(
        kind,
        CmEvent::AlternateRequest(_)
            | CmEvent::AlternateAnswer { .. }
            | CmEvent::Unreachable(Kind::Lap)
    );
    assert!(repeatable || !app.log.iter().any(same), "twice, {told}");
    match kind {
        CmEvent::Established(_) => assert!(!app.active, "{told}"),
        CmEvent::Reply(_) => assert!(app.active && app.log.is_empty(), "{told}"),
        CmEvent::DisconnectRequest(_) => assert!(app.established || !app.active, "{told}"),
        CmEvent::Rejected { .. } => app.ended = !app.established,
        CmEvent::Unreachable(Kind::Lap) => assert!(app.established, "{told}"),
        CmEvent::Unreachable(_) => app.ended = true,
        CmEvent::TimewaitExit | CmEvent::SidrReply(_) => app.ended = true,
        _ => {}
    }
}

fn run(seed: u64, weather: Weather, in_host: bool, crashes: bool) -> World {
    let mut world = World::new(seed, weather, in_host);
    for _ in 0..12 {
        let side = usize::from(world.rng.chance(50));
        let act = if world.rng.chance(75) {
            Act::Ask
        } else {
            Act::Question
        };
        world.later(side, CommId(0), 10 * SECOND, act);
    }
    let crash = if crashes {
        let at = world.rng.below(12 * SECOND);
        // The new process asks again.
        let side = usize::from(world.rng.chance(50));
        Some((Instant(at), side))
    } else {
        None
    };
    let mut crash = crash;
    let until = Instant(15 * SECOND);
    while world.now < until && world.step() {
        if let Some((at, side)) = crash
            && world.now >= at
        {
            crash = None;
            world.restart(side);
            for _ in 0..4 {
                world.later(side, CommId(0), 10 * SECOND, Act::Ask);
            }
        }
    }
    world.finish();
    world
}

#[test]
fn on_a_fair_network_both_sides_agree() {
    let mut connections = 0;
    for seed in 0..400 {
        let world = run(seed, FAIR, seed % 4 == 0, false);
        let [mut asking, mut asked] = world.established;
        asking.sort();
        asked.sort();
        // The passive side may have ended what it accepted before the RTU came; nothing else parts them.
        assert!(asked.iter().all(|tag| asking.contains(tag)), "seed {seed}");
        assert!(
            asking.len() - asked.len() <= 1,
            "seed {seed}: {asking:?} {asked:?}"
        );
        connections += asked.len();
    }
    assert!(connections > 1_500, "{connections}");
}

#[test]
fn on_a_bad_network_everything_has_one_end() {
    let mut connections = 0;
    for seed in 0..2_000 {
        let weather = Weather {
            loss: seed % 7 * 9,
            double: seed % 5 * 10,
            delay_ns: [1_000_000, 50_000_000, 400_000_000][seed as usize % 3],
        };
        let world = run(1_000 + seed, weather, seed % 4 == 0, false);
        connections += world.established[1].len();
    }
    // Most of the connections come about in spite of all.
    assert!(connections > 5_000, "{connections}");
}

#[test]
fn a_process_that_starts_anew_leaves_nothing_behind() {
    let mut stale = 0;
    for seed in 0..1_000 {
        let weather = Weather {
            loss: seed % 4 * 10,
            double: seed % 3 * 10,
            delay_ns: 20_000_000,
        };
        let world = run(50_000 + seed, weather, false, true);
        for party in &world.parties {
            stale += party
                .apps
                .values()
                .flat_map(|app| &app.log)
                .filter(|event| {
                    matches!(
                        event,
                        CmEvent::Rejected {
                            reason: RejectReason::StaleConnection,
                            ..
                        }
                    )
                })
                .count();
        }
    }
    assert!(stale > 200, "{stale}");
}

/// A seed replays a run: the same messages at the same times.
#[test]
fn a_seed_replays_a_run() {
    let weather = Weather {
        loss: 20,
        double: 20,
        delay_ns: 100_000_000,
    };
    let (one, two) = (run(7, weather, false, true), run(7, weather, false, true));
    assert_eq!(one.sent, two.sent);
    assert_eq!(one.delivered, two.delivered);
    assert_eq!(one.now, two.now);
}

/// Silence: each message is sent a few times within its first interval and then its number of times at its interval, and then there is an end, to the
/// nanosecond.
#[test]
fn a_dead_peer_is_given_up_in_the_computed_time() {
    let (here, there) = (Host { number: 1 }, Host { number: 2 });
    // As rdma_cm asks over RoCE: twice a packet's life of 18 and an answer time of 20, sixteen times.
    let mut params = req(here, there, 7, 0x11, &[]);
    params.primary.1.packet_life = TimeCode(18);
    params.remote_response_timeout = TimeCode(20);
    let interval = 2 * TimeCode(18).ns() + TimeCode(20).ns();
    assert_eq!(interval, 6_442_450_944);
    let mut machine = Machine::new(1, CmLimits::default(), [1, 2]);
    let comm = machine.connect(Instant(0), &params).expect("room");
    let mut sent = Vec::new();
    let mut now = Instant(0);
    let end = loop {
        let out = transmits(&mut machine);
        sent.extend(out.iter().map(|(_, mad, _)| (now, Kind::of(&mad.message))));
        if let Some(event) = events(&mut machine).pop() {
            break event;
        }
        now = machine.poll_timeout().expect("waiting");
        machine.handle_timeout(now);
    };
    assert_eq!(
        (end.comm, end.kind),
        (comm, CmEvent::Unreachable(Kind::Req))
    );
    assert_eq!(now, Instant(16 * interval));
    // Long for people: a sixteenth, an eighth, a quarter and half of it are tried before.
    let early = [4, 3, 2, 1].map(|shift| interval >> shift);
    let times = [0].into_iter().chain(early);
    let mut expected: Vec<_> = times
        .chain((1..16).map(|count| count * interval))
        .map(|at| (Instant(at), Kind::Req))
        .collect();
    // The last word, should the other side hear but not be heard.
    expected.push((now, Kind::Rej));
    assert_eq!(sent, expected);
    assert!(machine.is_empty());

    // A question: its own interval.
    let asked = machine
        .sidr_request(now, &sidr(here, there, 8, &[]))
        .expect("room");
    let start = now;
    while machine.state(asked) == State::SidrReqSent {
        now = machine.poll_timeout().expect("waiting");
        machine.handle_timeout(now);
    }
    assert_eq!(now, start.plus_ns(16 * TimeCode(14).ns()));
    assert_eq!(
        events(&mut machine).pop().map(|event| event.kind),
        Some(CmEvent::Unreachable(Kind::SidrReq))
    );
    assert_eq!(transmits(&mut machine).len(), 16);
}

/// An MRA holds the next repetition back for its service time and the path's; after that the REQ is sent again, and the
/// number of repetitions is the same in all.
#[test]
fn an_mra_holds_repetitions_back() {
    let (here, there) = (Host { number: 1 }, Host { number: 2 });
    let mut asking = Machine::new(1, CmLimits::default(), [1, 2]);
    let mut asked = Machine::new(2, CmLimits::default(), [3, 4]);
    asked.listen(&listen(0)).expect("free");
    let params = req(here, there, 7, 0x11, &[]);
    let comm = asking.connect(Instant(0), &params).expect("room");
    let (_, _, mad) = transmits(&mut asking).remove(0);
    common::deliver(&mut asked, Instant(0), there, here, &mad).expect("taken");
    let request = events(&mut asked).remove(0).comm;
    asked.delay(request, TimeCode(20), b"wait").expect("asked");
    let (_, _, mra) = transmits(&mut asked).remove(0);
    let at = Instant(1_000);
    common::deliver(&mut asking, at, here, there, &mra).expect("taken");
    assert_eq!(asking.state(comm), State::MraReqRcvd);
    // The path's time-out: a delay of 15 and a life of 14 make 16.
    let held = at.plus_ns(TimeCode(20).ns() + TimeCode(16).ns());
    assert_eq!(asking.poll_timeout(), Some(held));
    let mut requests = 1;
    while let Some(now) = asking.poll_timeout() {
        asking.handle_timeout(now);
        requests += transmits(&mut asking)
            .iter()
            .filter(|(_, mad, _)| matches!(mad.message, Message::Req(_)))
            .count();
    }
    assert_eq!(requests, 16);
    assert!(asking.is_empty());
}

/// The other side has forgotten a connection and asks with the same queue pair: it is refused, the old connection ends, and
/// then it is heard.
#[test]
fn a_queue_pair_of_a_forgotten_connection_is_stale() {
    let mut world = World::new(3, FAIR, false);
    world.act(0, CommId(0), Act::Ask);
    world.drain(0);
    let connected = |world: &World| !world.established[1].is_empty();
    for _ in 0..10_000 {
        if connected(&world) || !world.step() {
            break;
        }
    }
    if !connected(&world) {
        // This seed's consumer said no; the test needs one that accepts.
        panic!("choose another seed");
    }
    let old = *world.parties[1].apps.keys().next().expect("asked");
    world.restart(0);
    world.alarms.clear();
    world.act(0, CommId(0), Act::Ask);
    world.drain(0);
    let log = |world: &World, side: usize, comm: u32| -> Vec<CmEvent> {
        world.parties[side].apps[&comm].log.clone()
    };
    let new = *world.parties[0].apps.keys().next().expect("asking");
    while log(&world, 0, new).is_empty() && world.step() {}
    assert!(matches!(
        log(&world, 0, new)[0],
        CmEvent::Rejected {
            reason: RejectReason::StaleConnection,
            ..
        }
    ));
    while !matches!(log(&world, 1, old).last(), Some(CmEvent::TimewaitExit)) && world.step() {}
    let ends: Vec<CmEvent> = log(&world, 1, old).split_off(1);
    assert!(
        matches!(
            &ends[..],
            [.., CmEvent::Disconnected(_), CmEvent::TimewaitExit]
        ),
        "{ends:?}"
    );
    world.restart(0);
    world.act(0, CommId(0), Act::Ask);
    world.drain(0);
    let third = *world.parties[0].apps.keys().next().expect("asking");
    while log(&world, 0, third).is_empty() && world.step() {}
    assert!(!matches!(
        log(&world, 0, third)[0],
        CmEvent::Rejected {
            reason: RejectReason::StaleConnection,
            ..
        }
    ));
}

/// A process of this host dies: its peers hear it at once.
#[test]
fn a_dead_process_ends_its_connections() {
    let mut world = World::new(3, FAIR, true);
    world.act(0, CommId(0), Act::Ask);
    world.drain(0);
    while world.established[1].is_empty() {
        assert!(world.step(), "choose another seed");
    }
    let comm = *world.parties[1].apps.keys().next().expect("asked");
    let (now, host) = (world.now, world.parties[1].host);
    let machine = &mut world.parties[1].machine;
    machine
        .handle(now, Input::ProcessGone(1), &host)
        .expect("taken");
    machine.handle_timeout(now);
    let told: Vec<CmEvent> = events(machine)
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert!(matches!(
        told[..],
        [CmEvent::Disconnected(_), CmEvent::TimewaitExit]
    ));
    assert_eq!(machine.state(CommId(comm)), State::Idle);
    assert!(machine.is_empty());
}
