//! Each kind of evidence leads to its cause, and a sure one comes first.

use super::*;
use ferriband_admin::{PathReport, PeerReport, Progress};

fn on_packets() -> QpReport {
    QpReport {
        wire: "roce".into(),
        peer_qpn: 0x102,
        timeout: 14,
        retry_cnt: 7,
        path_mtu: 1024,
        path: Some(PathReport {
            interface: "eth0".into(),
            source: "10.0.0.1".into(),
            destination: "10.0.0.2".into(),
            source_port: 49_153,
            up: true,
            carrier: true,
            has_source: true,
            interface_mtu: 1500,
            ..PathReport::default()
        }),
        progress: Some(Progress {
            heard_ago_ms: Some(5000),
            ..Progress::default()
        }),
        ..QpReport::default()
    }
}

fn path(qp: &mut QpReport) -> &mut PathReport {
    qp.path.as_mut().expect("it was made with one")
}

#[track_caller]
fn first(qp: &QpReport, certainty: Certainty, says: &str) {
    let causes = of_silence(qp);
    assert_eq!(causes[0].certainty, certainty, "{causes:#?}");
    assert!(causes[0].what.contains(says), "{causes:#?}");
    assert!(causes.iter().all(|cause| !cause.remedy.is_empty()));
}

#[test]
fn a_peer_of_this_host_is_looked_at() {
    for (state, stopped, says) in [
        (PeerState::Gone, false, "has ended"),
        (PeerState::NoQueuePair, false, "has no queue pair"),
        (PeerState::NotReceiving, false, "error state"),
        (PeerState::Receiving, true, "is stopped"),
    ] {
        let qp = QpReport {
            wire: "direct".into(),
            peer_process: Some(PeerReport {
                pid: 7,
                program: "server".into(),
                state,
                stopped,
            }),
            ..QpReport::default()
        };
        first(&qp, Certain, says);
    }
}

#[test]
fn a_peer_that_disconnected_did_that_and_nothing_else() {
    for state in [
        PeerState::Unknown,
        PeerState::NoQueuePair,
        PeerState::NotReceiving,
    ] {
        let mut qp = on_packets();
        qp.peer_disconnected = true;
        qp.peer_process = Some(PeerReport {
            pid: 7,
            state,
            ..PeerReport::default()
        });
        first(&qp, Certain, "has disconnected");
        // nothing ever came from there: it is no riddle either
        qp.progress = Some(Progress::default());
        let causes = of_silence(&qp);
        assert_eq!(causes.len(), 1, "{causes:#?}");
    }
    // a process that died: both are said
    let mut qp = on_packets();
    qp.peer_disconnected = true;
    qp.peer_process = Some(PeerReport {
        state: PeerState::Gone,
        ..PeerReport::default()
    });
    assert!(
        of_silence(&qp)
            .iter()
            .any(|cause| cause.what.contains("has ended"))
    );
}

#[test]
fn the_interface_is_looked_at() {
    let mut qp = on_packets();
    path(&mut qp).stopped = true;
    first(&qp, Certain, "is down by a fault");
    let mut qp = on_packets();
    path(&mut qp).fault_rules = 2;
    first(&qp, Likely, "by rules that were asked for");
    let mut qp = on_packets();
    path(&mut qp).up = false;
    first(&qp, Certain, "switched off");
    let mut qp = on_packets();
    path(&mut qp).carrier = false;
    first(&qp, Certain, "no carrier");
    let mut qp = on_packets();
    path(&mut qp).has_source = false;
    first(&qp, Certain, "was taken from");
    let mut qp = on_packets();
    path(&mut qp).interface_mtu = 0;
    first(&qp, Certain, "is gone");
    let mut qp = on_packets();
    qp.path_mtu = 2048;
    first(&qp, Certain, "do not fit");
}

#[test]
fn what_the_network_said_counts_for_more_than_silence() {
    for (kind, from, says) in [
        ("port_unreachable", "10.0.0.2", "has ended"),
        ("host_unreachable", "10.0.0.1", "ARP"),
        ("net_unreachable", "10.0.0.254", "10.0.0.254 says"),
        ("prohibited", "", "EPERM"),
        ("prohibited", "10.0.0.2", "forbidden"),
        ("too_big", "10.0.0.254", "up to 1400"),
        ("no_route", "", "had no way"),
    ] {
        let mut qp = on_packets();
        path(&mut qp).troubles = vec![Trouble {
            kind: kind.into(),
            from: from.into(),
            mtu: 1400,
            code: [libc::ENETUNREACH, 0],
            count: 1,
            ago_ms: 3,
        }];
        first(&qp, Likely, says);
    }
}

#[test]
fn silence_tells_whether_there_ever_was_an_answer() {
    let mut qp = on_packets();
    first(&qp, Likely, "answered until 5.0 s ago");
    qp.progress = Some(Progress {
        heard_ago_ms: Some(3),
        ..Progress::default()
    });
    first(&qp, Likely, "get lost");
    qp.progress = Some(Progress::default());
    first(&qp, Likely, "no packet ever came");
    path(&mut qp).troubles = vec![Trouble {
        kind: "port_unreachable".into(),
        from: "10.0.0.2".into(),
        ..Trouble::default()
    }];
    first(&qp, Likely, "no program with a RoCE adapter runs");
}

#[test]
fn short_patience_is_mentioned_and_long_is_not() {
    let mentions = |qp: &QpReport| of_silence(qp).iter().any(|c| c.what.contains("patience"));
    let mut qp = on_packets();
    assert_eq!(patience_ns(&qp), Some(8 * (4096 << 14)));
    assert!(!mentions(&qp));
    (qp.timeout, qp.retry_cnt) = (10, 1);
    assert!(mentions(&qp));
    qp.timeout = 0;
    assert_eq!(patience_ns(&qp), None);
    assert!(!mentions(&qp));
}

#[test]
fn a_peer_without_receives_is_told_apart() {
    let failure = RequestFailure {
        status: 13,
        qp: QpReport {
            rnr_retry: 2,
            ..on_packets()
        },
        ..RequestFailure::default()
    };
    let causes = of(&Event::RequestFailed(Box::new(failure)));
    assert!(causes[0].what.contains("no receive posted, 3 times"));
    assert!(causes[1].what.contains("rnr_retry 2"));
}

#[test]
fn reasons_of_refusal_are_told_apart() {
    for (outcome, datagram, active, reason, says) in [
        ("rejected", false, true, 8, "no program of it listens"),
        ("rejected", true, true, 1, "no program of it listens"),
        ("rejected", false, true, 28, "rdma_reject"),
        ("rejected", false, true, 12, "does not know the address"),
        ("rejected", false, true, 3, "reason 3"),
        ("unreachable", false, true, 0, "nobody answered"),
        (
            "unreachable",
            false,
            false,
            0,
            "did not answer what this side replied",
        ),
    ] {
        let causes = of(&Event::ConnectionFailed(ConnectionFailure {
            outcome: outcome.into(),
            datagram,
            active,
            reason,
            destination: "10.0.0.2:7471".into(),
            ..ConnectionFailure::default()
        }));
        assert!(causes[0].what.contains(says), "{causes:#?}");
    }
}

#[test]
fn what_the_fabric_says_of_a_path_is_certain() {
    let causes = of(&Event::PathLost(PathLost {
        fabric: "lab".into(),
        from: 3,
        to: 4,
        says: "S1 is switched off".into(),
        ..PathLost::default()
    }));
    let [cause] = &causes[..] else {
        panic!("{causes:#?}");
    };
    assert_eq!(cause.certainty, Certain);
    assert!(cause.what.ends_with("LID 3 to LID 4: S1 is switched off"));
    assert!(cause.remedy.contains("fabric why 3 4 --name lab"));
}
