//! Every cell of the table on a live machine: it is brought to the state by real messages, then gets the message as its
//! peer would send it.

mod common;

use common::{Host, LISTENER, PKEY, SERVICE, deliver, events, listen, rep, req, sidr, transmits};
use ferriband_cm::table::{Kind, Reaction, State, reaction};
use ferriband_cm::{AprParams, CmEvent, CmLimits, LapParams, Machine, SidrReplyParams};
use ferriband_transport::types::Instant;
use ferriband_wire::cm::{
    ApStatus, Apr, CmMad, Drep, Dreq, Failover, Info, Lap, Message, Mra, MraOf, PrivateData, Rej,
    RejOf, RejectReason, Rep, Rtu, SidrRep, SidrReq, SidrStatus,
};
use ferriband_wire::{CommId, Psn, QKey, Qpn, TimeCode, TransactionId};
use std::collections::BTreeSet;

const HERE: Host = Host { number: 1 };
const THERE: Host = Host { number: 2 };
const NOW: Instant = Instant(1_000);

/// A machine in some state, and all that its peer knows.
struct Case {
    machine: Machine,
    comm: CommId,
    /// The peer's identifier, and the transaction of the connection and of the latest exchange.
    remote: CommId,
    transaction: TransactionId,
    later: TransactionId,
    /// The REQ or SIDR_REQ that the peer sent, if it asked.
    asked: Option<CmMad>,
    /// The LAP that the peer sent.
    offered: Option<CmMad>,
    role: &'static str,
}

/// Two machines that exchange everything at once.
struct Pair {
    here: Machine,
    there: Machine,
    /// What `there` has sent.
    from_there: Vec<CmMad>,
    from_here: Vec<CmMad>,
    told_here: Vec<(CommId, CmEvent)>,
    told_there: Vec<(CommId, CmEvent)>,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Pair {
            here: Machine::new(1, CmLimits::default(), [1, 1]),
            there: Machine::new(2, CmLimits::default(), [2, 2]),
            from_there: Vec::new(),
            from_here: Vec::new(),
            told_here: Vec::new(),
            told_there: Vec::new(),
        };
        pair.here.listen(&listen(0)).expect("free");
        pair.there.listen(&listen(0)).expect("free");
        pair
    }

    fn run(&mut self) {
        loop {
            let out = transmits(&mut self.here);
            let back = transmits(&mut self.there);
            if out.is_empty() && back.is_empty() {
                break;
            }
            for (_, mad, bytes) in out {
                self.from_here.push(mad);
                let _ = deliver(&mut self.there, NOW, THERE, HERE, &bytes);
            }
            for (_, mad, bytes) in back {
                self.from_there.push(mad);
                let _ = deliver(&mut self.here, NOW, HERE, THERE, &bytes);
            }
        }
        let told = |machine: &mut Machine| -> Vec<_> {
            let told = events(machine).into_iter();
            told.map(|event| (event.comm, event.kind)).collect()
        };
        self.told_here.extend(told(&mut self.here));
        self.told_there.extend(told(&mut self.there));
    }

    /// Here asks; up to where the peer has the REQ.
    fn ask(&mut self) -> (CommId, CommId) {
        let params = req(HERE, THERE, 7, 0x11, b"ask");
        let comm = self.here.connect(NOW, &params).expect("room");
        self.run();
        (comm, self.told_there.last().expect("a request").0)
    }

    /// There asks; up to where this side has the REQ.
    fn asked(&mut self) -> (CommId, CommId) {
        let params = req(THERE, HERE, 7, 0x22, b"ask");
        let remote = self.there.connect(NOW, &params).expect("room");
        self.run();
        (self.told_here.last().expect("a request").0, remote)
    }

    fn connect(&mut self, active: bool) -> (CommId, CommId) {
        let (comm, remote) = if active { self.ask() } else { self.asked() };
        let (asking, accepting) = match active {
            true => (&mut self.here, &mut self.there),
            false => (&mut self.there, &mut self.here),
        };
        let (asker, accepter) = if active {
            (comm, remote)
        } else {
            (remote, comm)
        };
        accepting
            .accept(NOW, accepter, &rep(0x22, b"yes"))
            .expect("asked");
        let _ = asking;
        self.run();
        let asking = if active {
            &mut self.here
        } else {
            &mut self.there
        };
        asking.ready(asker, b"go").expect("accepted");
        self.run();
        (comm, remote)
    }

    fn case(self, comm: CommId, remote: CommId, role: &'static str) -> Case {
        let all = || self.from_here.iter().chain(&self.from_there);
        let first = all().next().expect("a message").transaction_id;
        let later = all()
            .rfind(|mad| matches!(Kind::of(&mad.message), Kind::Lap | Kind::Dreq))
            .map_or(first, |mad| mad.transaction_id);
        let last_of = |kind| {
            let mut sent = self.from_there.iter();
            sent.rfind(|mad| Kind::of(&mad.message) == kind).copied()
        };
        Case {
            comm,
            remote,
            transaction: first,
            later,
            asked: last_of(Kind::Req).or(last_of(Kind::SidrReq)),
            offered: last_of(Kind::Lap),
            machine: self.here,
            role,
        }
    }
}

fn lap_params() -> LapParams<'static> {
    LapParams {
        alternate: (HERE.local_end(2), HERE.path_to(THERE, 2)),
        remote_response_timeout: TimeCode(14),
        private_data: b"lap",
    }
}

fn lap_from_there() -> LapParams<'static> {
    LapParams {
        alternate: (THERE.local_end(2), THERE.path_to(HERE, 2)),
        ..lap_params()
    }
}

/// Machines in a state, one for each role in which there is that state.
fn cases(state: State) -> Vec<Case> {
    let mut pair = Pair::new();
    let long = TimeCode(24);
    let both = |make: &dyn Fn(&mut Pair, CommId, CommId)| -> Vec<Case> {
        [true, false]
            .into_iter()
            .map(|active| {
                let mut pair = Pair::new();
                let (comm, remote) = pair.connect(active);
                make(&mut pair, comm, remote);
                pair.case(comm, remote, if active { "active" } else { "passive" })
            })
            .collect()
    };
    match state {
        State::Idle | State::Listen => vec![],
        State::ReqSent => {
            let (comm, remote) = pair.ask();
            vec![pair.case(comm, remote, "active")]
        }
        State::MraReqRcvd => {
            let (comm, remote) = pair.ask();
            pair.there.delay(remote, long, &[]).expect("asked");
            pair.run();
            vec![pair.case(comm, remote, "active")]
        }
        State::ReqRcvd => {
            let (comm, remote) = pair.asked();
            vec![pair.case(comm, remote, "passive")]
        }
        State::MraReqSent => {
            let (comm, remote) = pair.asked();
            pair.here.delay(comm, long, &[]).expect("asked");
            pair.run();
            vec![pair.case(comm, remote, "passive")]
        }
        State::RepSent => {
            let (comm, remote) = pair.asked();
            pair.here.accept(NOW, comm, &rep(0x11, &[])).expect("asked");
            pair.run();
            vec![pair.case(comm, remote, "passive")]
        }
        State::MraRepRcvd => {
            let (comm, remote) = pair.asked();
            pair.here.accept(NOW, comm, &rep(0x11, &[])).expect("asked");
            pair.run();
            pair.there.delay(remote, long, &[]).expect("accepted");
            pair.run();
            vec![pair.case(comm, remote, "passive")]
        }
        State::RepRcvd | State::MraRepSent => {
            let (comm, remote) = pair.ask();
            pair.there
                .accept(NOW, remote, &rep(0x22, &[]))
                .expect("asked");
            pair.run();
            if state == State::MraRepSent {
                pair.here.delay(comm, long, &[]).expect("accepted");
                pair.run();
            }
            vec![pair.case(comm, remote, "active")]
        }
        State::Established => both(&|_, _, _| {}),
        State::LapSent => both(&|pair, comm, _| {
            let params = lap_params();
            pair.here
                .load_alternate(NOW, comm, &params)
                .expect("connected");
            pair.run();
        }),
        State::MraLapRcvd => both(&|pair, comm, remote| {
            let params = lap_params();
            pair.here
                .load_alternate(NOW, comm, &params)
                .expect("connected");
            pair.run();
            pair.there.delay(remote, long, &[]).expect("offered");
            pair.run();
        }),
        State::LapRcvd => both(&|pair, _, remote| {
            let params = lap_from_there();
            pair.there
                .load_alternate(NOW, remote, &params)
                .expect("connected");
            pair.run();
        }),
        State::MraLapSent => both(&|pair, comm, remote| {
            let params = lap_from_there();
            pair.there
                .load_alternate(NOW, remote, &params)
                .expect("connected");
            pair.run();
            pair.here.delay(comm, long, &[]).expect("offered");
            pair.run();
        }),
        State::DreqSent => both(&|pair, comm, _| {
            pair.here.disconnect(NOW, comm, &[]).expect("connected");
            pair.run();
        }),
        State::DreqRcvd => both(&|pair, _, remote| {
            pair.there.disconnect(NOW, remote, &[]).expect("connected");
            pair.run();
        }),
        State::TimeWait => {
            let mut ended = both(&|pair, comm, remote| {
                pair.there.disconnect(NOW, remote, &[]).expect("connected");
                pair.run();
                pair.here.disconnect(NOW, comm, b"bye").expect("asked");
                pair.run();
            });
            // What is remembered of a refusal and of an answered question.
            let (comm, remote) = pair.asked();
            pair.here
                .reject(NOW, comm, RejectReason::Consumer, &[], b"no")
                .expect("asked");
            pair.run();
            ended.push(pair.case(comm, remote, "refused"));
            let mut pair = Pair::new();
            let remote = pair
                .there
                .sidr_request(NOW, &sidr(THERE, HERE, 7, &[]))
                .expect("room");
            pair.run();
            let comm = pair.told_here.last().expect("a question").0;
            pair.here.sidr_reply(NOW, comm, &sidr_yes()).expect("asked");
            pair.run();
            ended.push(pair.case(comm, remote, "sidr"));
            ended
        }
        State::SidrReqSent => {
            let comm = pair
                .here
                .sidr_request(NOW, &sidr(HERE, THERE, 7, &[]))
                .expect("room");
            pair.run();
            let remote = pair.told_there.last().expect("a question").0;
            vec![pair.case(comm, remote, "sidr")]
        }
        State::SidrReqRcvd => {
            let remote = pair
                .there
                .sidr_request(NOW, &sidr(THERE, HERE, 7, &[]))
                .expect("room");
            pair.run();
            let comm = pair.told_here.last().expect("a question").0;
            vec![pair.case(comm, remote, "sidr")]
        }
    }
}

fn sidr_yes() -> SidrReplyParams<'static> {
    SidrReplyParams {
        status: SidrStatus::Valid,
        qpn: Qpn(0x33),
        qkey: QKey(5),
        info: Info::NONE,
        enhanced: ferriband_cm::Enhanced::default(),
        private_data: b"here",
    }
}

/// The message as the peer of this case sends it. `local` is the identifier here as the message names it.
fn message(case: &Case, kind: Kind, state: State) -> CmMad {
    let (local_comm_id, remote_comm_id) = (case.remote, case.comm);
    let private_data = PrivateData::default();
    let local_qpn = Qpn(0x11);
    let (message, later): (Message, bool) = match kind {
        Kind::Req => {
            // A duplicate; or, if the peer never asked, a REQ with the identifier that it has here.
            if let Some(asked) = case.asked
                && matches!(asked.message, Message::Req(_))
            {
                return asked;
            }
            let mut other = Machine::new(2, CmLimits::default(), [9, 9]);
            other
                .connect(NOW, &req(THERE, HERE, 7, 0x22, b"ask"))
                .expect("room");
            let Message::Req(mut req) = transmits(&mut other)[0].1.message else {
                panic!("a REQ")
            };
            req.local_comm_id = case.remote;
            return CmMad::new(case.transaction, req);
        }
        Kind::Mra => {
            let acknowledged = match state {
                State::RepSent | State::MraRepRcvd => MraOf::Rep,
                state if state.is_established() => MraOf::Lap,
                _ => MraOf::Req,
            };
            let mra = Mra {
                local_comm_id,
                remote_comm_id,
                acknowledged,
                service_timeout: TimeCode(20),
                private_data,
            };
            (mra.into(), acknowledged == MraOf::Lap)
        }
        Kind::Rej => {
            let rej = Rej {
                local_comm_id,
                remote_comm_id,
                rejected: RejOf::Other,
                reason: RejectReason::Consumer,
                ari: Info::NONE,
                private_data: PrivateData::default(),
            };
            (rej.into(), false)
        }
        Kind::Rep => {
            let rep = Rep {
                local_comm_id,
                remote_comm_id,
                local_qkey: QKey(0),
                local_qpn: Qpn(0x22),
                vendor_id: 0,
                local_eecn: 0,
                starting_psn: Psn::new(9),
                responder_resources: 1,
                initiator_depth: 1,
                target_ack_delay: TimeCode(15),
                failover: Failover::Accepted,
                end_to_end_flow_control: false,
                rnr_retry_count: 7,
                srq: false,
                local_ca_guid: THERE.guid(),
                private_data: PrivateData::default(),
            };
            (rep.into(), false)
        }
        Kind::Rtu => (
            Rtu {
                local_comm_id,
                remote_comm_id,
                private_data: PrivateData::default(),
            }
            .into(),
            false,
        ),
        Kind::Dreq => {
            let dreq = Dreq {
                local_comm_id,
                remote_comm_id,
                remote_qpn: local_qpn_of(case).unwrap_or(local_qpn),
                private_data: PrivateData::default(),
            };
            (dreq.into(), true)
        }
        Kind::Drep => (
            Drep {
                local_comm_id,
                remote_comm_id,
                private_data: PrivateData::default(),
            }
            .into(),
            true,
        ),
        Kind::SidrReq => {
            if let Some(asked) = case.asked
                && matches!(asked.message, Message::SidrReq(_))
            {
                return asked;
            }
            // A new question would be answered; one with a transaction of its own is none of this identifier's.
            let request = SidrReq {
                request_id: case.remote,
                pkey: PKEY,
                service_id: ferriband_wire::ServiceId(SERVICE.0 + 1),
                private_data: PrivateData::default(),
            };
            (request.into(), false)
        }
        Kind::SidrRep => {
            let rep = SidrRep {
                request_id: case.comm,
                status: SidrStatus::Valid,
                info: Info::NONE,
                vendor_id: 0,
                qpn: Qpn(0x33),
                service_id: SERVICE,
                qkey: QKey(5),
                private_data: PrivateData::default(),
            };
            (rep.into(), false)
        }
        Kind::Lap => {
            if let Some(offered) = case.offered {
                return offered;
            }
            let mut lap = Lap {
                local_comm_id,
                remote_comm_id,
                remote_qpn: local_qpn_of(case).unwrap_or(local_qpn),
                remote_response_timeout: TimeCode(14),
                ..Lap::default()
            };
            lap.alternate.local_lid = THERE.lid(2);
            lap.alternate.remote_lid = HERE.lid(2);
            lap.alternate.local_gid = THERE.gid(2);
            lap.alternate.remote_gid = HERE.gid(2);
            return CmMad::new(TransactionId(77), lap);
        }
        Kind::Apr => {
            let apr = Apr {
                local_comm_id,
                remote_comm_id,
                status: ApStatus::Loaded,
                info: Info::NONE,
                private_data: PrivateData::default(),
            };
            (apr.into(), true)
        }
    };
    CmMad {
        attribute_modifier: 0,
        transaction_id: if later { case.later } else { case.transaction },
        message,
    }
}

fn local_qpn_of(case: &Case) -> Option<Qpn> {
    case.machine
        .summaries()
        .find(|summary| summary.comm == case.comm)
        .map(|summary| summary.local_qpn)
}

/// What a cell must do: the state after it, what is sent, and how many events there are.
fn expected(case: &Case, state: State, kind: Kind) -> (State, Vec<Kind>, usize) {
    let quiet = |sent: Vec<Kind>| (state, sent, 0);
    let active = case.role == "active";
    match reaction(state, kind) {
        Reaction::Ignore => quiet(vec![]),
        Reaction::Resend => quiet(match (state, kind, case.role) {
            (State::MraReqSent, Kind::Req, _) => vec![Kind::Mra],
            (State::RepSent, Kind::Req, _) => vec![Kind::Rep],
            (State::MraRepSent, Kind::Rep, _) => vec![Kind::Mra],
            (State::MraLapSent, Kind::Lap, _) => vec![Kind::Mra],
            (State::TimeWait, Kind::SidrReq, "sidr") => vec![Kind::SidrRep],
            // Whoever asked has sent the RTU; whoever was asked has nothing to say to a REP.
            (_, Kind::Rep, "active") => vec![Kind::Rtu],
            (_, Kind::Rep, _) | (State::TimeWait, Kind::SidrReq, _) => vec![],
            other => panic!("not a duplicate: {other:?}"),
        }),
        Reaction::Delay => match kind {
            Kind::Req => (State::MraReqSent, vec![Kind::Mra], 0),
            Kind::Rep => (State::MraRepSent, vec![Kind::Mra], 0),
            _ => (State::MraLapSent, vec![Kind::Mra], 0),
        },
        Reaction::TakeMra => match state {
            State::ReqSent => (State::MraReqRcvd, vec![], 0),
            State::RepSent => (State::MraRepRcvd, vec![], 0),
            _ => (State::MraLapRcvd, vec![], 0),
        },
        Reaction::TakeRej => match state {
            State::ReqSent | State::MraReqRcvd => (State::Idle, vec![], 1),
            _ => (State::TimeWait, vec![], 1),
        },
        Reaction::TakeRep => (State::RepRcvd, vec![], 1),
        Reaction::TakeRtu => (State::Established, vec![], 1),
        Reaction::TakeDreq => (State::DreqRcvd, vec![], 1),
        Reaction::CrossDreq => (State::TimeWait, vec![Kind::Drep], 1),
        Reaction::TakeDrep => (State::TimeWait, vec![], 1),
        Reaction::AnswerDrep => quiet(vec![Kind::Drep]),
        Reaction::RefuseStale if active || case.role == "sidr" => {
            panic!("a REQ of a peer that was asked: {}", case.role)
        }
        Reaction::RefuseStale => quiet(vec![Kind::Rej]),
        Reaction::TakeLap => (State::LapRcvd, vec![], 1),
        Reaction::TakeApr => (State::Established, vec![], 1),
        Reaction::TakeSidrRep => (State::Idle, vec![], 1),
        other => panic!("{other:?} is for identifiers that nobody has"),
    }
}

#[test]
fn every_cell_does_what_it_says() {
    let mut cells = BTreeSet::new();
    for state in State::ALL {
        for kind in Kind::ALL {
            for mut case in cases(state) {
                assert_eq!(case.machine.state(case.comm), state, "{}", case.role);
                let asked_here = case.role == "active" || case.role == "sidr";
                if kind == Kind::Req && asked_here && state != State::SidrReqRcvd {
                    // A REQ finds a connection by the peer's identifier; without one it is a new request, as below.
                    let known = !matches!(state, State::ReqSent | State::MraReqRcvd);
                    if case.role == "sidr" || !known || state == State::TimeWait {
                        continue;
                    }
                }
                if kind == Kind::Req && case.role == "sidr"
                    || kind == Kind::SidrReq && case.role != "sidr"
                    || kind == Kind::SidrReq && state == State::SidrReqSent
                {
                    continue;
                }
                let mad = message(&case, kind, state);
                let (after, sent, told) = expected(&case, state, kind);
                let mut bytes = [0; 256];
                mad.emit(&mut bytes).expect("fits");
                let result = deliver(&mut case.machine, NOW, HERE, THERE, &bytes);
                let what = format!("{state:?} {kind:?} {}", case.role);
                let out = transmits(&mut case.machine);
                let kinds: Vec<Kind> = out
                    .iter()
                    .map(|(_, mad, _)| Kind::of(&mad.message))
                    .collect();
                assert_eq!(case.machine.state(case.comm), after, "{what}: {result:?}");
                assert_eq!(kinds, sent, "{what}");
                assert_eq!(events(&mut case.machine).len(), told, "{what}");
                let takes = reaction(state, kind);
                let acted = !matches!(
                    takes,
                    Reaction::Ignore
                        | Reaction::Resend
                        | Reaction::Delay
                        | Reaction::AnswerDrep
                        | Reaction::RefuseStale
                );
                assert_eq!(result.is_ok(), acted, "{what}: {result:?}");
                cells.insert((state, kind));
            }
        }
    }
    // All pairs of the eighteen states of identifiers and the eleven messages, but for a REQ or SIDR_REQ that finds no
    // identifier of its kind: that is a new one.
    let new = |state: State, kind: Kind| match kind {
        Kind::Req => matches!(
            state,
            State::ReqSent | State::MraReqRcvd | State::SidrReqSent | State::SidrReqRcvd
        ),
        Kind::SidrReq => !matches!(state, State::TimeWait | State::SidrReqRcvd),
        _ => false,
    };
    let expected: BTreeSet<(State, Kind)> = State::ALL[2..]
        .iter()
        .flat_map(|state| Kind::ALL.map(|kind| (*state, kind)))
        .filter(|(state, kind)| !new(*state, *kind))
        .collect();
    assert_eq!(cells, expected);
}

/// Rows Idle and Listen: messages that find no identifier.
#[test]
fn messages_for_nobody() {
    for (listening, row) in [(false, State::Idle), (true, State::Listen)] {
        for kind in Kind::ALL {
            let source = cases(State::RepSent).remove(0);
            let mad = match kind {
                Kind::SidrReq => CmMad::new(
                    TransactionId(5),
                    SidrReq {
                        request_id: CommId(8),
                        pkey: PKEY,
                        service_id: SERVICE,
                        private_data: PrivateData::default(),
                    },
                ),
                kind => message(&source, kind, State::RepSent),
            };
            let mut machine = Machine::new(3, CmLimits::default(), [3, 3]);
            if listening {
                machine.listen(&listen(0)).expect("free");
            }
            let mut bytes = [0; 256];
            mad.emit(&mut bytes).expect("fits");
            let _ = deliver(&mut machine, NOW, HERE, THERE, &bytes);
            let out = transmits(&mut machine);
            let sent: Vec<Kind> = out
                .iter()
                .map(|(_, mad, _)| Kind::of(&mad.message))
                .collect();
            let told = events(&mut machine);
            // A message that begins nothing is nobody's whoever listens.
            let begins = matches!(kind, Kind::Req | Kind::SidrReq);
            let cell = reaction(if begins { row } else { State::Idle }, kind);
            let expected = match cell {
                Reaction::RefuseService | Reaction::RefuseId => vec![Kind::Rej],
                Reaction::AnswerDrep => vec![Kind::Drep],
                Reaction::RefuseSidr => vec![Kind::SidrRep],
                Reaction::RefuseLap => vec![Kind::Apr],
                _ => vec![],
            };
            assert_eq!(sent, expected, "{row:?} {kind:?}");
            let asks = matches!(cell, Reaction::Request | Reaction::SidrRequest);
            assert_eq!(told.len(), usize::from(asks), "{row:?} {kind:?}");
            assert!(told.iter().all(|event| event.user == LISTENER));
            match out.first().map(|(_, mad, _)| mad.message) {
                Some(Message::Rej(rej)) if kind == Kind::Req => {
                    assert_eq!(rej.reason, RejectReason::InvalidServiceId);
                }
                Some(Message::Rej(rej)) => assert_eq!(rej.reason, RejectReason::InvalidCommId),
                Some(Message::SidrRep(rep)) => assert_eq!(rep.status, SidrStatus::NotSupported),
                Some(Message::Apr(apr)) => assert_eq!(apr.status, ApStatus::InvalidCommId),
                _ => {}
            }
        }
    }
}

/// Whoever is not the peer of a connection does nothing to it: another address, another transaction, another queue pair.
#[test]
fn strangers_change_nothing() {
    let stranger = Host { number: 9 };
    for state in State::ALL {
        for kind in Kind::ALL {
            if matches!(kind, Kind::Req | Kind::SidrReq) {
                continue;
            }
            for mut case in cases(state) {
                let mad = message(&case, kind, state);
                let mut bytes = [0; 256];
                mad.emit(&mut bytes).expect("fits");
                let refused = deliver(&mut case.machine, NOW, HERE, stranger, &bytes).is_err();
                assert!(refused, "{state:?} {kind:?} from elsewhere");
                let mut guess = mad;
                match &mut guess.message {
                    // These begin an exchange of their own: what must fit is the queue pair.
                    Message::Dreq(dreq) => dreq.remote_qpn = Qpn(0x777),
                    Message::Lap(_) => continue,
                    _ => guess.transaction_id = TransactionId(mad.transaction_id.0 ^ 1 << 40),
                }
                guess.emit(&mut bytes).expect("fits");
                let refused = deliver(&mut case.machine, NOW, HERE, THERE, &bytes).is_err();
                assert!(refused, "{state:?} {kind:?} guessed");
                assert_eq!(case.machine.state(case.comm), state, "{state:?} {kind:?}");
                assert!(transmits(&mut case.machine).is_empty());
                assert!(events(&mut case.machine).is_empty());
            }
        }
    }
}

/// An answered offer is answered again, and only a new one asks the consumer.
#[test]
fn a_late_duplicate_of_an_offer_gets_its_answer() {
    let mut case = cases(State::LapRcvd).remove(0);
    let answer = AprParams {
        status: ApStatus::Loaded,
        info: Info::NONE,
        private_data: &[],
    };
    case.machine
        .answer_alternate(case.comm, &answer)
        .expect("offered");
    let first = transmits(&mut case.machine);
    let mut bytes = [0; 256];
    case.offered.expect("a LAP").emit(&mut bytes).expect("fits");
    let _ = deliver(&mut case.machine, NOW, HERE, THERE, &bytes);
    let again = transmits(&mut case.machine);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1, first[0].1);
    assert!(events(&mut case.machine).is_empty());
}
