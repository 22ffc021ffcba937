//! Messages of nobody's good will: any bytes, any order, any number. No panic, and nothing grows beyond its bound.

mod common;

use common::{Host, LISTENER, SERVICE, Seeded, deliver, events, listen, rep, req, sidr, transmits};
use ferriband_cm::{CmError, CmEvent, CmLimits, Discard, Enhanced, ListenParams, Machine, UserId};
use ferriband_transport::types::{Instant, QpState};
use ferriband_wire::cm::{
    CmMad, Info, Message, PrivateData, Rej, RejOf, RejectReason, Req, SidrReq, SidrStatus,
};
use ferriband_wire::{
    CommId, EmitError, Gid, Mtu, PKey, QKey, Qpn, ServiceId, TimeCode, TransactionId,
};
use proptest::prelude::*;

const HERE: Host = Host { number: 1 };
const THERE: Host = Host { number: 2 };
const NOW: Instant = Instant(0);

fn machine(limits: CmLimits) -> Machine {
    let mut machine = Machine::new(1, limits, [1, 2]);
    machine.listen(&listen(0)).expect("free");
    machine
}

/// A REQ of a peer, as its machine would send it.
fn a_req(user: u64) -> (TransactionId, Req) {
    let mut other = Machine::new(2, CmLimits::default(), [user, 9]);
    other
        .connect(NOW, &req(THERE, HERE, user, 0x22, b"ask"))
        .expect("room");
    let (_, mad, _) = transmits(&mut other).remove(0);
    let Message::Req(req) = mad.message else {
        panic!("a REQ")
    };
    (mad.transaction_id, req)
}

fn bytes(transaction: TransactionId, message: impl Into<Message>) -> [u8; 256] {
    let mut bytes = [0; 256];
    CmMad::new(transaction, message)
        .emit(&mut bytes)
        .expect("fits");
    bytes
}

fn give(
    machine: &mut Machine,
    transaction: u64,
    message: impl Into<Message>,
) -> Result<(), Discard> {
    deliver(
        machine,
        NOW,
        HERE,
        THERE,
        &bytes(TransactionId(transaction), message),
    )
}

#[test]
fn a_flood_of_requests_stops_at_the_backlog() {
    let mut machine = machine(CmLimits {
        backlog: 100,
        ..CmLimits::default()
    });
    let (_, base) = a_req(1);
    let mut full = 0;
    for count in 0..5_000 {
        let flood = Req {
            local_comm_id: CommId(count),
            local_qpn: Qpn(count),
            ..base
        };
        full += usize::from(give(&mut machine, count.into(), flood) == Err(Discard::Full));
    }
    assert_eq!((machine.len(), full), (100, 4_900));
    let told = events(&mut machine);
    assert_eq!(told.len(), 100);
    // Dropped without an answer: an honest one comes again.
    assert!(transmits(&mut machine).is_empty());
    // One is taken: there is room for one.
    machine.taken(told[0].comm);
    let next = |count| Req {
        local_comm_id: CommId(count),
        local_qpn: Qpn(count),
        ..base
    };
    assert_eq!(give(&mut machine, 6_000, next(6_000)), Ok(()));
    assert_eq!(give(&mut machine, 6_001, next(6_001)), Err(Discard::Full));
}

/// Asking and withdrawing, again and again, leaves no trail of events.
#[test]
fn withdrawn_requests_fill_no_queue() {
    let limits = CmLimits {
        remembered: 50,
        ..CmLimits::default()
    };
    let mut machine = machine(limits);
    let (_, base) = a_req(1);
    for count in 1..5_000 {
        let asked = Req {
            local_comm_id: CommId(count),
            local_qpn: Qpn(count),
            ..base
        };
        assert_eq!(give(&mut machine, count.into(), asked), Ok(()));
        let withdrawn = Rej {
            local_comm_id: CommId(count),
            remote_comm_id: CommId(0),
            rejected: RejOf::Req,
            reason: RejectReason::Timeout,
            ari: Info::new(&base.local_ca_guid.0.to_be_bytes()).expect("fits"),
            private_data: PrivateData::default(),
        };
        assert_eq!(give(&mut machine, count.into(), withdrawn), Ok(()));
        assert!(machine.len() <= 51, "{}", machine.len());
    }
    assert!(events(&mut machine).is_empty());
    while let Some(at) = machine.poll_timeout() {
        machine.handle_timeout(at);
    }
    assert!(machine.is_empty());
}

/// Answered questions are remembered, but not without bound.
#[test]
fn answered_questions_are_forgotten_in_time() {
    let limits = CmLimits {
        remembered: 50,
        ..CmLimits::default()
    };
    let mut machine = machine(limits);
    let no = ferriband_cm::SidrReplyParams {
        status: SidrStatus::Rejected,
        qpn: Qpn(0),
        qkey: QKey(0),
        info: Info::NONE,
        enhanced: Enhanced::default(),
        private_data: &[],
    };
    for count in 0..2_000 {
        let question = SidrReq {
            request_id: CommId(count),
            pkey: PKey(0xffff),
            service_id: SERVICE,
            private_data: PrivateData::default(),
        };
        assert_eq!(give(&mut machine, count.into(), question), Ok(()));
        let comm = events(&mut machine).remove(0).comm;
        machine.sidr_reply(NOW, comm, &no).expect("asked");
        // The newest is remembered: its duplicate is answered, and asks nobody.
        transmits(&mut machine);
        assert!(give(&mut machine, count.into(), question).is_err());
        assert_eq!(transmits(&mut machine).len(), 1);
        assert!(events(&mut machine).is_empty());
        assert!(machine.len() <= 51);
    }
}

/// What a peer asks for in time has bounds: its REP interval, its MRA, its path.
#[test]
fn a_peer_cannot_ask_for_hours() {
    let limits = CmLimits::default();
    let mut machine = machine(limits);
    let (_, mut base) = a_req(1);
    base.local_response_timeout = TimeCode(31);
    base.primary.local_ack_timeout = TimeCode(31);
    give(&mut machine, 1, base).expect("taken");
    let comm = events(&mut machine).remove(0).comm;
    machine.accept(NOW, comm, &rep(0x11, &[])).expect("asked");
    assert_eq!(
        machine.poll_timeout(),
        Some(Instant(limits.max_response_timeout.ns() / 16))
    );
    machine.established_hint(comm).expect("accepted");
    assert_eq!(machine.established_hint(comm), Err(CmError::Connected));
    machine.disconnect(NOW, comm, &[]).expect("connected");
    let mut last = NOW;
    while let Some(at) = machine.poll_timeout() {
        machine.handle_timeout(at);
        last = at;
    }
    let most = 16 * limits.max_response_timeout.ns() + limits.max_time_wait.ns();
    assert!(last <= Instant(most), "{last:?}");
    assert!(machine.is_empty());
    // And not for nothing: a REP every 4 us.
    base.local_response_timeout = TimeCode(0);
    give(&mut machine, 1, base).expect("taken");
    let comm = events(&mut machine)
        .into_iter()
        .find(|event| matches!(event.kind, CmEvent::Request(_)))
        .expect("asked")
        .comm;
    machine.accept(NOW, comm, &rep(0x11, &[])).expect("asked");
    assert_eq!(
        machine.poll_timeout(),
        Some(Instant(limits.min_response_timeout.ns()))
    );
}

/// Every refusal that the machine makes by itself, with its reason.
#[test]
fn refusals_say_why() {
    let mut machine = machine(CmLimits::default());
    let (_, base) = a_req(1);
    let mut reason = |req: Req| -> (RejectReason, Vec<u8>) {
        assert!(give(&mut machine, 5, req).is_err());
        assert!(events(&mut machine).is_empty());
        match transmits(&mut machine)[..] {
            [(_, mad, _)] => match mad.message {
                Message::Rej(rej) => {
                    assert_eq!((rej.rejected, rej.local_comm_id), (RejOf::Req, CommId(0)));
                    assert_eq!(rej.remote_comm_id, req.local_comm_id);
                    (rej.reason, rej.ari.as_bytes().to_vec())
                }
                other => panic!("{other:?}"),
            },
            ref other => panic!("{other:?}"),
        }
    };
    let nobody = Req {
        service_id: ServiceId(5),
        ..base
    };
    assert_eq!(reason(nobody), (RejectReason::InvalidServiceId, vec![]));
    let datagram = Req {
        transport_type: ferriband_wire::cm::TransportType::Rd,
        ..base
    };
    assert_eq!(
        reason(datagram),
        (RejectReason::InvalidTransportType, vec![])
    );
    let mtu = Req {
        path_mtu_code: 6,
        ..base
    };
    let largest = vec![Mtu::M4096 as u8];
    assert_eq!(reason(mtu), (RejectReason::InvalidPathMtu, largest));
    let mut elsewhere = base;
    elsewhere.primary.remote_gid = Gid([7; 16]);
    assert_eq!(reason(elsewhere), (RejectReason::PrimaryRemoteGid, vec![]));
}

/// What does not fit is refused before anything happens.
#[test]
fn private_data_have_limits() {
    let mut machine = machine(CmLimits::default());
    let long = [1; 225];
    let too_long = |max, got| {
        Err(CmError::Value(EmitError::TooLong {
            field: "PrivateData",
            max,
            got,
        }))
    };
    let asked = machine.connect(NOW, &req(HERE, THERE, 7, 1, &long[..93]));
    assert_eq!(asked.map(|_| ()), too_long(92, 93));
    let asked = machine.sidr_request(NOW, &sidr(HERE, THERE, 7, &long[..217]));
    assert_eq!(asked.map(|_| ()), too_long(216, 217));
    assert!(machine.is_empty());

    let (transaction, base) = a_req(1);
    give(&mut machine, transaction.0, base).expect("taken");
    let comm = events(&mut machine).remove(0).comm;
    assert_eq!(
        machine.accept(NOW, comm, &rep(1, &long[..197])),
        too_long(196, 197)
    );
    let consumer = RejectReason::Consumer;
    let refused = machine.reject(NOW, comm, consumer, &[], &long[..149]);
    assert_eq!(refused, too_long(148, 149));
    let delayed = machine.delay(comm, TimeCode(20), &long[..223]);
    assert_eq!(delayed, too_long(222, 223));
    assert!(matches!(
        machine.delay(comm, TimeCode(32), &[]),
        Err(CmError::Value(EmitError::OutOfRange { .. }))
    ));
    machine
        .accept(NOW, comm, &rep(1, &long[..196]))
        .expect("fits");
    machine.established_hint(comm).expect("accepted");
    assert_eq!(
        machine.disconnect(NOW, comm, &long[..221]),
        too_long(220, 221)
    );
    assert_eq!(
        machine.qp_attr(comm, QpState::Err),
        None,
        "not a transition of a connection"
    );
    assert_eq!(machine.adopt(CommId(1), UserId(2)), Err(CmError::NoSuchId));
}

#[test]
fn listeners_do_not_overlap() {
    let mut machine = machine(CmLimits::default());
    let with = |user, service_id, mask, gid| ListenParams {
        user: UserId(user),
        service_id: ServiceId(service_id),
        mask,
        gid,
        ..listen(0)
    };
    let range = with(2, SERVICE.0, !0xff, None);
    assert_eq!(machine.listen(&range), Err(CmError::InUse));
    let apart = with(2, SERVICE.0 + 0x100, !0xff, None);
    assert_eq!(machine.listen(&apart), Ok(()));
    let inside = with(3, ((SERVICE.0 + 0x1ab) & !0xff) | 0x05, !0, None);
    assert_eq!(machine.listen(&inside), Err(CmError::InUse));
    // The same service for one GID only; that one is preferred.
    let closer = with(4, SERVICE.0, !0, Some(HERE.gid(1)));
    assert_eq!(machine.listen(&closer), Ok(()));
    assert_eq!(machine.listen(&closer), Err(CmError::InUse));
    let (transaction, base) = a_req(1);
    give(&mut machine, transaction.0, base).expect("taken");
    let event = events(&mut machine).remove(0);
    assert_eq!(event.user, UserId(4));
    // Gone with the listener, and refused.
    machine.unlisten(NOW, UserId(4)).expect("listening");
    let out = transmits(&mut machine);
    assert!(matches!(out[0].1.message, Message::Rej(rej) if rej.reason == RejectReason::Consumer));
    assert_eq!(
        machine.unlisten(NOW, UserId(4)),
        Err(CmError::NoSuchId),
        "{LISTENER:?} is another"
    );
}

/// Messages out of a machine, bent: any field of any message, in any order, with time going on.
fn bend(seed: u64, steps: u64) {
    let mut rng = Seeded(seed);
    let limits = CmLimits {
        ids: 40,
        all_ids: 60,
        remembered: 10,
        backlog: 10,
        transmits: 100,
        events: 100,
        ..CmLimits::default()
    };
    let mut here = machine(limits);
    let mut there = Machine::new(2, limits, [seed, 1]);
    there.listen(&listen(0)).expect("free");
    let mut now = NOW;
    let mut pool: Vec<[u8; 256]> = Vec::new();
    let mut known: Vec<CommId> = Vec::new();
    for step in 0..steps {
        now = now.plus_ns(rng.below(200_000_000));
        match rng.below(8) {
            0 => drop(there.connect(now, &req(THERE, HERE, step, step as u32 & 7, b"x"))),
            1 => drop(here.connect(now, &req(HERE, THERE, step, step as u32 & 7, b"x"))),
            2 => drop(there.sidr_request(now, &sidr(THERE, HERE, step, b"x"))),
            _ => {}
        }
        for machine in [&mut here, &mut there] {
            machine.handle_timeout(now);
            known.extend(events(machine).iter().map(|event| event.comm));
            for comm in &known {
                match rng.below(40) {
                    0 => drop(machine.accept(now, *comm, &rep(3, b"y"))),
                    1 => drop(machine.ready(*comm, b"z")),
                    2 => drop(machine.disconnect(now, *comm, b"z")),
                    3 => machine.destroy(now, *comm),
                    4 => drop(machine.delay(*comm, TimeCode(17), &[])),
                    _ => {}
                }
            }
            pool.extend(transmits(machine).iter().map(|(_, _, bytes)| bytes));
        }
        known.truncate(64);
        if pool.is_empty() {
            continue;
        }
        let chosen = rng.below(pool.len() as u64) as usize;
        let mut mad = pool[chosen];
        if pool.len() > 64 {
            pool.swap_remove(chosen);
        }
        for _ in 0..rng.below(4) {
            // Past the class and method, so that it stays a message.
            let at = 16 + rng.below(240) as usize;
            mad[at] = rng.next() as u8;
        }
        let _ = deliver(&mut here, now, HERE, THERE, &mad);
        let _ = deliver(&mut there, now, THERE, HERE, &mad);
        for machine in [&here, &there] {
            assert!(machine.len() <= limits.all_ids, "seed {seed}");
        }
    }
    for (machine, host) in [(&mut here, HERE), (&mut there, THERE)] {
        let all: Vec<CommId> = machine.summaries().map(|summary| summary.comm).collect();
        for comm in all {
            machine.destroy(now, comm);
        }
        for _ in 0..100_000 {
            let Some(at) = machine.poll_timeout() else {
                break;
            };
            machine.handle_timeout(at);
        }
        events(machine);
        assert!(machine.is_empty(), "{host:?} seed {seed}");
    }
}

#[test]
fn bent_messages_harm_nobody() {
    for seed in 0..400 {
        bend(seed, 400);
    }
}

proptest! {
    /// Any bytes at all.
    #[test]
    fn any_bytes_are_taken(raw in proptest::collection::vec(any::<u8>(), 256), attribute in 0x0fu8..0x1d) {
        let mut machine = machine(CmLimits::default());
        let mut mad = [0; 256];
        mad.copy_from_slice(&raw);
        let _ = deliver(&mut machine, NOW, HERE, THERE, &mad);
        // As a message of the class.
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        (mad[16], mad[17]) = (0, attribute);
        let _ = deliver(&mut machine, NOW, HERE, THERE, &mad);
        prop_assert!(machine.len() <= 1);
        prop_assert!(transmits(&mut machine).len() <= 1);
    }
}
