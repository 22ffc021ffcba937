//! What a connection means for its queue pair where it is not a plain RC one: UC, XRC, alternate paths, migration; and
//! devices that go away.

mod common;

use common::{Host, deliver, events, listen, rep, req, transmits};
use ferriband_cm::table::State;
use ferriband_cm::{AprParams, CmError, CmEvent, CmLimits, Input, LapParams, Machine, Route};
use ferriband_transport::qp_state::check_transition;
use ferriband_transport::types::{Instant, MigState, QpAttrMask as Mask, QpState, QpType};
use ferriband_wire::cm::{ApStatus, Failover, Info, Message};
use ferriband_wire::{CommId, Qpn, TimeCode};

const HERE: Host = Host { number: 1 };
const THERE: Host = Host { number: 2 };
const NOW: Instant = Instant(0);

/// Two connected sides.
struct Pair {
    here: Machine,
    there: Machine,
    comm: CommId,
    remote: CommId,
}

impl Pair {
    /// `alternate`: whether the REQ offers a second path, and what becomes of it.
    fn connect(qp_type: QpType, alternate: Option<Failover>) -> Pair {
        let mut here = Machine::new(1, CmLimits::default(), [1, 1]);
        let mut there = Machine::new(2, CmLimits::default(), [2, 2]);
        there.listen(&listen(0)).expect("free");
        let mut params = req(HERE, THERE, 7, 0x11, b"ask");
        params.qp_type = qp_type;
        params.alternate = alternate.map(|_| (HERE.local_end(2), HERE.path_to(THERE, 2)));
        let comm = here.connect(NOW, &params).expect("room");
        let mut pair = Pair {
            here,
            there,
            comm,
            remote: CommId(0),
        };
        pair.run();
        let CmEvent::Request(request) = events(&mut pair.there)
            .pop()
            .map(|event| {
                pair.remote = event.comm;
                event.kind
            })
            .expect("asked")
        else {
            panic!("a request")
        };
        assert_eq!(request.alternate.is_some(), alternate.is_some());
        let expected = match qp_type {
            QpType::XrcSend => QpType::XrcRecv,
            other => other,
        };
        assert_eq!(request.qp_type, expected);
        let mut params = rep(0x22, b"yes");
        params.failover = alternate.unwrap_or(Failover::Accepted);
        pair.there.accept(NOW, pair.remote, &params).expect("asked");
        pair.run();
        pair.here.ready(pair.comm, &[]).expect("accepted");
        pair.run();
        events(&mut pair.here);
        events(&mut pair.there);
        pair
    }

    fn run(&mut self) {
        loop {
            let (out, back) = (transmits(&mut self.here), transmits(&mut self.there));
            if out.is_empty() && back.is_empty() {
                return;
            }
            for (_, _, mad) in out {
                deliver(&mut self.there, NOW, THERE, HERE, &mad).expect("taken");
            }
            for (_, _, mad) in back {
                deliver(&mut self.here, NOW, HERE, THERE, &mad).expect("taken");
            }
        }
    }
}

/// The queue pair's own table accepts each transition with exactly this mask.
fn transitions(machine: &Machine, comm: CommId, qp_type: QpType) -> [Mask; 3] {
    let steps = [
        (QpState::Reset, QpState::Init),
        (QpState::Init, QpState::Rtr),
        (QpState::Rtr, QpState::Rts),
    ];
    steps.map(|(from, to)| {
        let (attr, mask) = machine.qp_attr(comm, to).expect("known");
        assert_eq!(attr.state, to);
        assert_eq!(
            check_transition(qp_type, from, to, mask),
            Ok(()),
            "{qp_type:?}"
        );
        mask
    })
}

#[test]
fn every_service_gets_the_attributes_that_its_transitions_take() {
    for (asking, accepting) in [
        (QpType::Rc, QpType::Rc),
        (QpType::Uc, QpType::Uc),
        (QpType::XrcSend, QpType::XrcRecv),
    ] {
        for alternate in [None, Some(Failover::Accepted), Some(Failover::Rejected)] {
            let pair = Pair::connect(asking, alternate);
            let loaded = alternate == Some(Failover::Accepted);
            let ours = transitions(&pair.here, pair.comm, asking);
            let theirs = transitions(&pair.there, pair.remote, accepting);
            for [_, rtr, rts] in [ours, theirs] {
                assert_eq!(rtr.contains(Mask::ALT_PATH), loaded);
                assert_eq!(rts.contains(Mask::PATH_MIG_STATE), loaded);
            }
            let (rtr, _) = pair.here.qp_attr(pair.comm, QpState::Rtr).expect("known");
            let (back, _) = pair
                .there
                .qp_attr(pair.remote, QpState::Rtr)
                .expect("known");
            // The target of an extended connection says its number elsewhere in the REP.
            assert_eq!((rtr.dest_qpn, back.dest_qpn), (Qpn(0x22), Qpn(0x11)));
            if loaded {
                assert_eq!((rtr.alt_port_num, rtr.alt_av.dgid), (2, THERE.gid(2)));
                assert_eq!((back.alt_port_num, back.alt_av.dgid), (2, HERE.gid(2)));
                // A delay of 15 and a life of 14 (the path's) make 16; from the message's 16 come 15, and so 17.
                assert_eq!((rtr.alt_timeout, back.alt_timeout), (17, 17));
            }
        }
    }
}

/// What either side takes and has outstanding is bounded by what it said itself.
#[test]
fn reads_and_atomics_are_those_of_both_sides() {
    let pair = Pair::connect(QpType::Rc, None);
    let rd_atomic = |machine: &Machine, comm| {
        let (rtr, _) = machine.qp_attr(comm, QpState::Rtr).expect("known");
        let (rts, _) = machine.qp_attr(comm, QpState::Rts).expect("known");
        (rtr.max_dest_rd_atomic, rts.max_rd_atomic, rts.rnr_retry)
    };
    // Asked: takes 4, has 5 outstanding, the other's RNR retries 6. Accepted: takes 3, has 2, the other's 5.
    assert_eq!(rd_atomic(&pair.here, pair.comm), (2, 3, 5));
    assert_eq!(rd_atomic(&pair.there, pair.remote), (3, 2, 6));
}

#[test]
fn an_alternate_path_is_offered_loaded_and_used() {
    let mut pair = Pair::connect(QpType::Rc, None);
    let params = LapParams {
        alternate: (HERE.local_end(2), HERE.path_to(THERE, 2)),
        remote_response_timeout: TimeCode(14),
        private_data: b"lap",
    };
    assert_eq!(
        pair.here.migrated(pair.comm),
        Err(CmError::State(State::Established))
    );
    pair.here
        .load_alternate(NOW, pair.comm, &params)
        .expect("connected");
    pair.run();
    let told = events(&mut pair.there).remove(0).kind;
    let CmEvent::AlternateRequest(request) = told else {
        panic!("{told:?}")
    };
    assert_eq!(request.alternate.1.remote_gid, HERE.gid(2));
    let answer = AprParams {
        status: ApStatus::Loaded,
        info: Info::NONE,
        private_data: b"apr",
    };
    pair.there
        .answer_alternate(pair.remote, &answer)
        .expect("offered");
    pair.run();
    assert!(matches!(
        events(&mut pair.here).remove(0).kind,
        CmEvent::AlternateAnswer {
            status: ApStatus::Loaded,
            ..
        }
    ));
    for (machine, comm, peer) in [
        (&mut pair.here, pair.comm, THERE),
        (&mut pair.there, pair.remote, HERE),
    ] {
        // RTS to RTS: nothing but the new path.
        let (attr, mask) = machine.qp_attr(comm, QpState::Rts).expect("known");
        assert_eq!(mask, Mask::ALT_PATH | Mask::PATH_MIG_STATE);
        assert_eq!(
            check_transition(QpType::Rc, QpState::Rts, QpState::Rts, mask),
            Ok(())
        );
        assert_eq!(attr.alt_av.dgid, peer.gid(2));
        assert_eq!(attr.path_mig_state, MigState::Rearm);
    }
    // Both have migrated: messages go the other way now, and are still taken.
    pair.here.migrated(pair.comm).expect("loaded");
    pair.there.migrated(pair.remote).expect("loaded");
    pair.here
        .disconnect(NOW, pair.comm, &[])
        .expect("connected");
    let (route, mad, bytes) = transmits(&mut pair.here).remove(0);
    assert!(matches!(mad.message, Message::Dreq(_)));
    assert!(matches!(route, Route::Gsi { av, .. } if av.dgid == THERE.gid(2)));
    let input = Input::Mad {
        from: THERE.route_to(HERE, 2),
        to: Some(THERE.gid(2)),
        mad: &bytes,
    };
    pair.there.handle(NOW, input, &THERE).expect("taken");
    assert_eq!(pair.there.state(pair.remote), State::DreqRcvd);
}

/// A path that is in use already, a port that is not there, another queue pair: refused without asking anybody.
#[test]
fn offers_that_make_no_sense_are_refused() {
    let nowhere = Host { number: 77 };
    let offers = [
        (HERE.path_to(THERE, 1), ApStatus::DuplicateOfPrimary),
        (HERE.path_to(nowhere, 2), ApStatus::InvalidGid),
    ];
    for (path, expected) in offers {
        let mut pair = Pair::connect(QpType::Rc, None);
        let params = LapParams {
            alternate: (HERE.local_end(2), path),
            remote_response_timeout: TimeCode(14),
            private_data: &[],
        };
        pair.here
            .load_alternate(NOW, pair.comm, &params)
            .expect("connected");
        let (_, _, mad) = transmits(&mut pair.here).remove(0);
        assert!(deliver(&mut pair.there, NOW, THERE, HERE, &mad).is_err());
        assert!(events(&mut pair.there).is_empty());
        let (_, _, mad) = transmits(&mut pair.there).remove(0);
        deliver(&mut pair.here, NOW, HERE, THERE, &mad).expect("taken");
        let told = events(&mut pair.here).remove(0).kind;
        assert!(
            matches!(&told, CmEvent::AlternateAnswer { status, .. } if *status == expected),
            "{told:?}"
        );
        assert_eq!(pair.here.state(pair.comm), State::Established);
        // Nothing was loaded.
        let (_, mask) = pair.here.qp_attr(pair.comm, QpState::Rts).expect("known");
        assert!(mask.contains(Mask::STATE));
    }
}

#[test]
fn a_device_that_goes_away_takes_its_identifiers_along() {
    let mut pair = Pair::connect(QpType::Rc, None);
    pair.here
        .handle(NOW, Input::DeviceGone(1), &HERE)
        .expect("taken");
    assert_eq!(pair.here.state(pair.comm), State::Established);
    pair.here
        .handle(NOW, Input::DeviceGone(0), &HERE)
        .expect("taken");
    assert_eq!(events(&mut pair.here).remove(0).kind, CmEvent::DeviceGone);
    assert!(pair.here.is_empty());
    assert!(transmits(&mut pair.here).is_empty());
}
