//! Single messages lost, crossed or late: each costs one repetition, and nobody's connection.

mod common;

use common::{Host, deliver, events, listen, rep, req, sidr, transmits};
use ferriband_cm::table::{Kind, State};
use ferriband_cm::{CmEvent, CmLimits, Enhanced, Input, Machine, Route, SidrReplyParams};
use ferriband_transport::types::{Instant, QpState};
use ferriband_wire::cm::{CmMad, Info, Message, RejectReason, SidrStatus};
use ferriband_wire::{CommId, QKey, Qpn, TransactionId};

const HERE: Host = Host { number: 1 };
const THERE: Host = Host { number: 2 };

/// Two sides whose consumers answer at once, and a network that loses the first message of one kind.
struct Pair {
    machines: [Machine; 2],
    now: Instant,
    lose: Option<Kind>,
    sent: Vec<Kind>,
    told: Vec<(usize, CommId, CmEvent)>,
    answer: bool,
}

impl Pair {
    fn new(lose: Option<Kind>) -> Self {
        Pair::with(&CmLimits::default(), lose)
    }

    fn with(limits: &CmLimits, lose: Option<Kind>) -> Self {
        let machine = |slot: u32| {
            let mut machine = Machine::new(slot, *limits, [slot.into(), 5]);
            machine.listen(&listen(0)).expect("free");
            machine
        };
        Pair {
            machines: [machine(1), machine(2)],
            now: Instant(0),
            lose,
            sent: Vec::new(),
            told: Vec::new(),
            answer: true,
        }
    }

    /// Until nothing is said any more; time stands still.
    fn run(&mut self) {
        loop {
            let mut quiet = true;
            for side in 0..2 {
                let (here, there) = if side == 0 {
                    (HERE, THERE)
                } else {
                    (THERE, HERE)
                };
                for (_, mad, bytes) in transmits(&mut self.machines[side]) {
                    quiet = false;
                    let kind = Kind::of(&mad.message);
                    self.sent.push(kind);
                    if self.lose == Some(kind) {
                        self.lose = None;
                        continue;
                    }
                    let other = &mut self.machines[1 - side];
                    let _ = deliver(other, self.now, there, here, &bytes);
                }
                for event in events(&mut self.machines[side]) {
                    quiet = false;
                    if self.answer {
                        answer(&mut self.machines[side], self.now, event.comm, &event.kind);
                    }
                    self.told.push((side, event.comm, event.kind));
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// To the next thing that happens by itself.
    fn pass_time(&mut self) {
        let next = self.machines.iter().filter_map(Machine::poll_timeout).min();
        self.now = next.expect("somebody waits");
        for machine in &mut self.machines {
            machine.handle_timeout(self.now);
        }
        self.run();
    }

    fn ask(&mut self) -> CommId {
        let comm = self.machines[0]
            .connect(self.now, &req(HERE, THERE, 7, 0x11, b"ask"))
            .expect("room");
        self.run();
        comm
    }

    fn peer(&self) -> CommId {
        let asked = self.told.iter().find(|(side, ..)| *side == 1);
        asked.expect("asked").1
    }

    fn states(&self, comm: CommId) -> [State; 2] {
        [
            self.machines[0].state(comm),
            self.machines[1].state(self.peer()),
        ]
    }

    fn count(&self, kind: Kind) -> usize {
        self.sent.iter().filter(|sent| **sent == kind).count()
    }
}

fn answer(machine: &mut Machine, now: Instant, comm: CommId, kind: &CmEvent) {
    match kind {
        CmEvent::Request(_) => machine
            .accept(now, comm, &rep(0x22, b"yes"))
            .expect("asked"),
        CmEvent::Reply(_) => machine.ready(comm, b"go").expect("accepted"),
        CmEvent::DisconnectRequest(_) => machine.disconnect(now, comm, b"bye").expect("asked"),
        CmEvent::SidrRequest(_) => {
            let yes = SidrReplyParams {
                status: SidrStatus::Valid,
                qpn: Qpn(0x33),
                qkey: QKey(5),
                info: Info::NONE,
                enhanced: Enhanced::default(),
                private_data: &[],
            };
            machine.sidr_reply(now, comm, &yes).expect("asked");
        }
        _ => {}
    }
}

/// Who leaves does not wait for the time to say again that a connection has ended.
#[test]
fn an_end_is_said_again_before_its_time() {
    for lost in [Kind::Dreq, Kind::Drep] {
        let mut pair = Pair::new(Some(lost));
        let comm = pair.ask();
        let ends = |machine: &mut Machine| machine.destroy(Instant(0), comm);
        assert!(!pair.machines[0].is_ending(|_| true));
        ends(&mut pair.machines[0]);
        pair.run();
        assert!(pair.machines[0].is_ending(|_| true));
        assert!(!pair.machines[0].is_ending(|_| false));
        pair.machines[0].end_again(|_| false);
        pair.run();
        assert_eq!(pair.count(Kind::Dreq), 1);
        pair.machines[0].end_again(|_| true);
        pair.run();
        assert_eq!(pair.states(comm), DONE, "{lost:?}");
        assert!(!pair.machines[0].is_ending(|_| true));
        assert_eq!(pair.count(Kind::Dreq), 2);
    }
}

const DONE: [State; 2] = [State::TimeWait, State::TimeWait];

#[test]
fn a_request_that_comes_before_its_listener_is_asked_again() {
    let limits = CmLimits {
        listener_patience_ns: 20_000_000,
        ..CmLimits::default()
    };
    // Somebody listens a moment later: nobody hears of the refusals.
    let mut pair = Pair::with(&limits, None);
    let listener = listen(0);
    pair.machines[1]
        .unlisten(Instant(0), listener.user)
        .expect("it listens");
    let comm = pair.ask();
    for _ in 0..3 {
        pair.pass_time();
    }
    assert_eq!(pair.told, []);
    pair.machines[1].listen(&listener).expect("free");
    pair.pass_time();
    assert_eq!(pair.states(comm), [State::Established; 2]);
    assert_eq!((pair.count(Kind::Req), pair.count(Kind::Rej)), (5, 4));

    // Nobody does: the consumer hears it within the patience, in spite of many repetitions.
    let mut pair = Pair::with(&limits, None);
    pair.machines[1]
        .unlisten(Instant(0), listener.user)
        .expect("it listens");
    let comm = pair.ask();
    while pair.told.is_empty() {
        pair.pass_time();
    }
    assert!(matches!(
        &pair.told[..],
        [(0, told, CmEvent::Rejected { reason: RejectReason::InvalidServiceId, .. })] if *told == comm
    ));
    assert!(pair.now <= Instant(20_000_000), "{:?}", pair.now);
    assert!(pair.count(Kind::Req) > 5);
    assert!(pair.machines[0].poll_timeout().is_none());
}

#[test]
fn a_lost_message_costs_one_repetition() {
    // The message that is lost, and what is said twice because of it.
    let cases = [
        (None, &[][..]),
        (Some(Kind::Req), &[Kind::Req]),
        // Either side's repetition may come first; the REQ's answer time here is the longer.
        (Some(Kind::Rep), &[Kind::Rep]),
        (Some(Kind::Rtu), &[Kind::Rep, Kind::Rtu]),
        (Some(Kind::Dreq), &[Kind::Dreq]),
        (Some(Kind::Drep), &[Kind::Dreq, Kind::Drep]),
    ];
    for (lost, twice) in cases {
        let mut pair = Pair::new(lost);
        let comm = pair.ask();
        if matches!(lost, Some(Kind::Req | Kind::Rep | Kind::Rtu)) {
            pair.pass_time();
        }
        assert_eq!(pair.states(comm), [State::Established; 2], "{lost:?}");
        pair.machines[0]
            .disconnect(pair.now, comm, b"end")
            .expect("connected");
        pair.run();
        if matches!(lost, Some(Kind::Dreq | Kind::Drep)) {
            pair.pass_time();
        }
        assert_eq!(pair.states(comm), DONE, "{lost:?}");
        for kind in [Kind::Req, Kind::Rep, Kind::Rtu, Kind::Dreq, Kind::Drep] {
            let expected = 1 + usize::from(twice.contains(&kind));
            assert_eq!(pair.count(kind), expected, "{lost:?} {kind:?}");
        }
        // The DREP's private data are the same however often it was sent.
        let ended = pair.told.iter().find_map(|(_, _, kind)| match kind {
            CmEvent::Disconnected(data) => Some(data.as_bytes()[..3].to_vec()),
            _ => None,
        });
        assert_eq!(ended.as_deref(), Some(&b"bye"[..]), "{lost:?}");
    }
}

#[test]
fn a_lost_question_or_answer_costs_one_repetition() {
    for lost in [Kind::SidrReq, Kind::SidrRep] {
        let mut pair = Pair::new(Some(lost));
        let comm = pair.machines[0]
            .sidr_request(pair.now, &sidr(HERE, THERE, 7, &[]))
            .expect("room");
        pair.run();
        pair.pass_time();
        assert_eq!(pair.machines[0].state(comm), State::Idle);
        let asked = pair
            .told
            .iter()
            .filter(|(_, _, kind)| matches!(kind, CmEvent::SidrRequest(_)));
        assert_eq!(asked.count(), 1, "{lost:?}");
        assert_eq!(pair.count(Kind::SidrReq), 2);
    }
}

/// Both sides end the connection at once: neither waits for the other's consumer, nor for a repetition.
#[test]
fn crossing_ends_meet() {
    let mut pair = Pair::new(None);
    let comm = pair.ask();
    let peer = pair.peer();
    pair.answer = false;
    pair.machines[0]
        .disconnect(pair.now, comm, &[])
        .expect("connected");
    pair.machines[1]
        .disconnect(pair.now, peer, &[])
        .expect("connected");
    pair.run();
    assert_eq!(pair.states(comm), DONE);
    let ends = pair
        .told
        .iter()
        .filter(|(_, _, kind)| matches!(kind, CmEvent::Disconnected(_)));
    assert_eq!(ends.count(), 2);
    assert_eq!(pair.count(Kind::Dreq), 2);
}

/// The RTU is lost and the side that asked ends at once: the other hears of the end instead.
#[test]
fn an_end_before_the_rtu_is_heard() {
    let mut pair = Pair::new(Some(Kind::Rtu));
    let comm = pair.ask();
    assert_eq!(pair.states(comm), [State::Established, State::RepSent]);
    pair.machines[0]
        .disconnect(pair.now, comm, &[])
        .expect("connected");
    pair.run();
    assert_eq!(pair.states(comm), DONE);
    assert_eq!(pair.count(Kind::Dreq), 1);
}

/// A DREQ in time-wait gets a DREP of its own transaction; so does one for an identifier that is forgotten.
#[test]
fn late_ends_are_answered_in_their_own_transaction() {
    let mut pair = Pair::new(None);
    let comm = pair.ask();
    pair.machines[0]
        .disconnect(pair.now, comm, &[])
        .expect("connected");
    let (_, mut dreq, _) = transmits(&mut pair.machines[0]).remove(0);
    dreq.transaction_id = TransactionId(99);
    let send = |pair: &mut Pair, mad: &CmMad| {
        let mut bytes = [0; 256];
        mad.emit(&mut bytes).expect("fits");
        let _ = deliver(&mut pair.machines[1], pair.now, THERE, HERE, &bytes);
        for event in events(&mut pair.machines[1]) {
            answer(&mut pair.machines[1], pair.now, event.comm, &event.kind);
        }
        let (_, mad, _) = transmits(&mut pair.machines[1]).remove(0);
        assert_eq!(Kind::of(&mad.message), Kind::Drep);
        mad.transaction_id
    };
    assert_eq!(send(&mut pair, &dreq), TransactionId(99));
    dreq.transaction_id = TransactionId(100);
    assert_eq!(send(&mut pair, &dreq), TransactionId(100));
    let Message::Dreq(unknown) = &mut dreq.message else {
        panic!("a DREQ")
    };
    unknown.remote_comm_id = CommId(12345);
    assert_eq!(send(&mut pair, &dreq), TransactionId(100));
}

/// In time-wait the other side's queue pair is free: a new request with it is no stale connection.
#[test]
fn a_queue_pair_may_ask_again_after_the_end() {
    let mut pair = Pair::new(None);
    let comm = pair.ask();
    pair.machines[0]
        .disconnect(pair.now, comm, &[])
        .expect("connected");
    pair.run();
    assert_eq!(pair.states(comm), DONE);
    let again = pair.ask();
    assert_eq!(pair.machines[0].state(again), State::Established);
    assert_eq!(pair.count(Kind::Rej), 0);
}

/// A REP that claims more than was offered or asked for gets what was.
#[test]
fn a_reply_cannot_ask_for_more_than_was_offered() {
    let mut pair = Pair::new(None);
    pair.answer = false;
    let comm = pair.ask();
    let mut greedy = rep(0x22, &[]);
    (greedy.responder_resources, greedy.initiator_depth) = (200, 200);
    let peer = pair.peer();
    pair.machines[1]
        .accept(pair.now, peer, &greedy)
        .expect("asked");
    pair.run();
    let (rtr, _) = pair.machines[0].qp_attr(comm, QpState::Rtr).expect("known");
    let (rts, _) = pair.machines[0].qp_attr(comm, QpState::Rts).expect("known");
    assert_eq!((rtr.max_dest_rd_atomic, rts.max_rd_atomic), (4, 5));
}

/// Nothing is told of an identifier that nobody holds any more, not even what had happened before.
#[test]
fn a_destroyed_identifier_is_silent() {
    let mut pair = Pair::new(None);
    pair.answer = false;
    let comm = pair.ask();
    let peer = pair.peer();
    pair.machines[1]
        .accept(pair.now, peer, &rep(0x22, &[]))
        .expect("asked");
    let (_, _, bytes) = transmits(&mut pair.machines[1]).remove(0);
    deliver(&mut pair.machines[0], pair.now, HERE, THERE, &bytes).expect("taken");
    pair.machines[0].destroy(pair.now, comm);
    assert!(events(&mut pair.machines[0]).is_empty());
    let (_, mad, _) = transmits(&mut pair.machines[0]).remove(0);
    assert!(matches!(mad.message, Message::Rej(rej) if rej.reason == RejectReason::Consumer));
    // A duplicate of the REP hears the same.
    let _ = deliver(&mut pair.machines[0], pair.now, HERE, THERE, &bytes);
    assert_eq!(transmits(&mut pair.machines[0]).remove(0).1, mad);
    while let Some(at) = pair.machines[0].poll_timeout() {
        pair.machines[0].handle_timeout(at);
    }
    assert!(events(&mut pair.machines[0]).is_empty());
    assert!(pair.machines[0].is_empty());
}

/// One process, both sides: messages that a machine sends to itself.
#[test]
fn a_process_may_connect_to_itself() {
    let own = Route::Host { slot: 1 };
    let mut machine = Machine::new(1, CmLimits::default(), [1, 5]);
    machine.listen(&listen(0)).expect("free");
    let now = Instant(0);
    let mut told = Vec::new();
    let mut run = |machine: &mut Machine| {
        loop {
            let out = transmits(machine);
            let heard = events(machine);
            if out.is_empty() && heard.is_empty() {
                return told.clone();
            }
            for (route, _, mad) in out {
                assert_eq!(route, own);
                let input = Input::Mad {
                    from: own,
                    to: None,
                    mad: &mad,
                };
                machine.handle(now, input, &HERE).expect("taken");
            }
            for event in heard {
                answer(machine, now, event.comm, &event.kind);
                told.push(event.comm);
            }
        }
    };
    let mut params = req(HERE, HERE, 7, 0x11, b"ask");
    params.route = own;
    let asking = machine.connect(now, &params).expect("room");
    let asked = run(&mut machine)[0];
    assert_ne!(asking, asked);
    for comm in [asking, asked] {
        assert_eq!(machine.state(comm), State::Established);
    }
    let (rtr, _) = machine.qp_attr(asking, QpState::Rtr).expect("known");
    assert_eq!(rtr.dest_qpn, Qpn(0x22));
    machine.disconnect(now, asked, &[]).expect("connected");
    run(&mut machine);
    for comm in [asking, asked] {
        assert_eq!(machine.state(comm), State::TimeWait);
    }
    while let Some(at) = machine.poll_timeout() {
        machine.handle_timeout(at);
    }
    assert!(machine.is_empty());
}
