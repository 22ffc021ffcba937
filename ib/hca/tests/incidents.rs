//! What is written down when requests fail for want of an answer: in a home of the test's own, which every process here is given.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;
use std::time::Duration;

use common::memory::Kind;
use common::party::*;
use common::process;
use ferriband_admin::{Event, Incident, PeerState, RequestFailure, incident};
use ferriband_hca::devices;
use ferriband_testkit::Scratch;
use ferriband_transport::types::*;

const INSIDE: &str = "FERRIBAND_INCIDENTS_TEST";
const HOME: &str = "XDG_STATE_HOME";

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

/// Runs the body of the test `name` in a process of its own with `home` for its state, on the direct wire.
fn run_direct(name: &str, home: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env(HOME, home)
        .env("FERRIBAND_DEVICES", "ferri0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What this process has written, which is one request that failed.
fn the_only_one() -> (Incident, RequestFailure) {
    let (incidents, broken) = incident::read(&incident::directory().unwrap()).unwrap();
    assert_eq!((incidents.len(), broken), (1, 0), "{incidents:#?}");
    let Event::RequestFailed(failure) = incidents[0].event.clone() else {
        panic!("{incidents:#?}");
    };
    assert_eq!(incidents[0].pid, std::process::id());
    assert!(incidents[0].program.starts_with("incidents"));
    (incidents[0].clone(), *failure)
}

/// Timers that no load of the machine sets off, and that do not take too long: 0.54 s, four times.
const TIMED: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 64 << 10,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 64,
    cqe: 256,
    timeout: 17,
    retry: 3,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

/// A request to a peer that was killed.
fn peer_is_killed() -> RequestFailure {
    let mut pair = Pair::alike(Party::here(), Party::there(), TIMED);
    pair.exchange();
    let Party::There(victim) = &mut pair.b else {
        unreachable!()
    };
    victim.kill();
    let ask = Ask::new(SendOpcode::Send, 8, &pair.bi).id(4711);
    pair.a.post(&pair.ai, &ask);
    let got = pair.a.wait(&pair.ai);
    assert_eq!(
        (got.wr_id, got.status),
        (4711, WcStatus::RetryExcErr as u32)
    );
    let (_, failure) = the_only_one();
    assert_eq!((failure.status, failure.wr_id), (12, 4711));
    assert_eq!(failure.operation, "SEND");
    assert_eq!(failure.qp.qpn, pair.ai.qpn);
    assert_eq!(failure.qp.peer_qpn, pair.bi.qpn);
    assert_eq!(
        (
            failure.qp.timeout,
            failure.qp.retry_cnt,
            failure.qp.rnr_retry
        ),
        (TIMED.timeout, TIMED.retry, TIMED.rnr_retry)
    );
    let peer = failure.qp.peer_process.clone().unwrap();
    assert_eq!(peer.state, PeerState::Gone);
    failure
}

#[test]
fn a_peer_that_died_is_named_on_the_direct_wire() {
    let home = Scratch::directory("dead-direct");
    run_direct(
        "a_peer_that_died_is_named_on_the_direct_wire",
        home.text(),
        || {
            let failure = peer_is_killed();
            assert_eq!(failure.qp.wire, "direct");
            assert!(failure.qp.peer_process.unwrap().pid > 0);
        },
    );
}

#[test]
fn a_peer_that_died_is_explained_on_packets() {
    let home = Scratch::directory("dead-packets");
    common::namespace::run_on_packets(
        "a_peer_that_died_is_explained_on_packets",
        &[(HOME, home.text())],
        || {
            let failure = peer_is_killed();
            assert_eq!(failure.qp.wire, "roce");
            assert_eq!(failure.qp.device, devices()[0].name);
            let path = failure.qp.path.unwrap();
            assert_eq!(
                (path.source.as_str(), path.destination.as_str()),
                ("127.0.0.1", "127.0.0.1")
            );
            assert!(path.up && path.has_source && path.source_port >= 0xc000);
            let progress = failure.qp.progress.unwrap();
            assert!(
                progress.acknowledged.is_some(),
                "the exchange was acknowledged"
            );
            assert_eq!(progress.outstanding(), 1);
            assert!(progress.heard_ago_ms.is_some());
            // three retries, and the time-out that found none left
            let last = &progress.tries[progress.tries.len() - 4..];
            for one in last {
                assert_eq!((one.cause.as_str(), one.psn), ("timeout", progress.una));
            }
            let count = |name: &str| failure.qp.counters.get(name).copied().unwrap_or(0);
            assert!(count("rcvd_pkts") > 0 && count("sent_requests") > count("sent_again"));
            assert!(count("sent_again") > 0);
        },
    );
}

#[test]
fn a_peer_without_receives_is_written_down_with_status_13() {
    let home = Scratch::directory("not-ready");
    common::namespace::run_on_packets(
        "a_peer_without_receives_is_written_down_with_status_13",
        &[(HOME, home.text())],
        || {
            let setup = Setup {
                rnr_retry: 1,
                ..TIMED
            };
            let mut pair = Pair::alike(Party::here(), Party::there(), setup);
            let ask = Ask::new(SendOpcode::Send, 8, &pair.bi);
            pair.a.post(&pair.ai, &ask);
            assert_eq!(
                pair.a.wait(&pair.ai).status,
                WcStatus::RnrRetryExcErr as u32
            );
            let (_, failure) = the_only_one();
            assert_eq!((failure.status, failure.qp.rnr_retry), (13, 1));
            let tries = failure.qp.progress.unwrap().tries;
            let refusals = tries.iter().filter(|one| one.cause == "receiver_not_ready");
            assert_eq!(refusals.count(), 2);
        },
    );
}

#[test]
fn a_home_that_cannot_be_written_hurts_nobody() {
    // a file where the directory should be
    let home = Scratch::directory("no-home");
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    run_direct(
        "a_home_that_cannot_be_written_hurts_nobody",
        file.to_str().unwrap(),
        || {
            let mut pair = Pair::alike(Party::here(), Party::there(), Setup::default());
            let Party::There(victim) = &mut pair.b else {
                unreachable!()
            };
            victim.kill();
            let ask = Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi);
            pair.a.post(&pair.ai, &ask);
            let got = pair.a.wait_for(&pair.ai, Duration::from_secs(20)).unwrap();
            assert_eq!(got.status, WcStatus::RetryExcErr as u32);
        },
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"");
}
