//! A rate limit holds packets back, and nothing else changes.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Instant;

use common::party::*;
use common::process;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

const LEN: u32 = 1 << 20;

#[test]
fn a_limited_queue_pair_takes_its_time_and_the_bytes_arrive() {
    let name = "a_limited_queue_pair_takes_its_time_and_the_bytes_arrive";
    common::namespace::run_on_packets(name, &[], || {
        let mut pair = Pair::alike(Party::here(), Party::there(), PATIENT);
        let Party::Here(agent) = &pair.a else {
            unreachable!()
        };
        // 5 MB/s: 1 MiB takes 0.21 s, headers not counted
        let qp = agent.end(pair.ai.at).qp.clone();
        qp.limit_rate(40_000).unwrap();
        assert_eq!(qp.query().rate_limit, 40_000);
        let mut transfer = |byte: u8| {
            let id = u64::from(byte);
            let begin = Instant::now();
            pair.a.fill(&pair.ai, 0, LEN as usize, byte);
            let ask = Ask::new(SendOpcode::RdmaWrite, LEN, &pair.bi).id(id);
            pair.a.post(&pair.ai, &ask);
            pair.a.expect(&pair.ai, id, WcStatus::Success);
            pair.b.expect_bytes(&pair.bi, 0, LEN as usize, byte);
            begin.elapsed().as_secs_f64()
        };
        let took = transfer(2);
        assert!(took > 0.2, "{took} s");
        qp.limit_rate(0).unwrap();
        transfer(3);
    });
}

#[test]
fn where_no_packets_go_no_rate_is_limited() {
    let pair = Pair::alike(Party::here(), Party::here(), PATIENT);
    let end = pair.a.agent().end(pair.ai.at);
    assert_eq!(
        end.qp.limit_rate(1000).unwrap_err().errno(),
        libc::EOPNOTSUPP
    );
}
