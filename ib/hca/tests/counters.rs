//! Counters of a port: sums over the processes of the host, what strangers send, and what a process leaves that ends.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::UdpSocket;

use common::party::*;
use common::{eventually, process};
use ferriband_admin::Counter;
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

/// Runs the body of a test in a network of its own; elsewhere other programs' packets would be counted, so it says so and does nothing.
fn alone(name: &str, body: impl FnOnce()) {
    const OUTSIDE: &str = "FERRIBAND_COUNTERS_TEST_OUTSIDE";
    let here = std::fs::read_link("/proc/self/ns/net").unwrap();
    common::namespace::run_on_packets(name, &[(OUTSIDE, here.to_str().unwrap())], || {
        if std::env::var_os(OUTSIDE).is_some_and(|outside| outside == here.as_os_str()) {
            eprintln!("SKIPPED {name}: no network namespace of its own");
            return;
        }
        body();
    });
}

const PORT: (&str, u16) = ("127.0.0.1", 4791);

#[test]
fn what_goes_and_comes_is_counted_for_the_whole_host() {
    let name = "what_goes_and_comes_is_counted_for_the_whole_host";
    alone(name, || {
        let ctx = Context::open(0).unwrap();
        let setup = Setup {
            timeout: 18,
            retry: 3,
            ..Setup::default()
        };
        let mut pair = Pair::alike(Party::here(), Party::there(), setup);
        let count = |counter: Counter| ctx.port_counters()[counter as usize];
        assert_eq!(count(Counter::XmitPackets), 0);
        pair.exchange();
        pair.b.recv(&pair.bi, 1, 0, 4096);
        let ask = Ask::new(SendOpcode::Send, 4096, &pair.bi).id(2);
        pair.a.post(&pair.ai, &ask);
        pair.a.expect(&pair.ai, 2, WcStatus::Success);
        pair.b.expect(&pair.bi, 1, WcStatus::Success);
        // two messages and their acknowledgements: on one host what is sent is received, by the one or the other
        eventually("all that was sent to be received", || {
            let sent = count(Counter::XmitPackets);
            sent >= 4 && sent == count(Counter::RcvPackets)
        });
        assert_eq!(count(Counter::XmitData), count(Counter::RcvData));
        assert!(count(Counter::XmitData) > 4096 / 4);
        assert_eq!(count(Counter::RcvErrors), 0);

        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let packet_for = |qpn: u32| {
            // an RC SEND Only with nothing in it, and no ICRC worth the name
            let [_, a, b, c] = qpn.to_be_bytes();
            [4, 0, 0xff, 0xff, 0, a, b, c, 0, 0, 0, 0, 1, 2, 3, 4]
        };
        stranger.send_to(&[1, 2, 3], PORT).unwrap();
        eventually("the runt", || count(Counter::RcvErrors) == 1);
        stranger.send_to(&packet_for(pair.ai.qpn), PORT).unwrap();
        eventually("the wrong ICRC", || count(Counter::IcrcErrors) == 1);
        assert_eq!(count(Counter::RcvErrors), 2);
        stranger.send_to(&packet_for(0xab_cdef), PORT).unwrap();
        eventually("the unknown queue pair", || count(Counter::UnknownQp) == 1);
        assert_eq!(count(Counter::WrongSource), 0);

        // what a process has counted stays when it is killed
        let before = ctx.port_counters();
        let Party::There(child) = &mut pair.b else {
            unreachable!()
        };
        child.kill();
        let after = ctx.port_counters();
        for counter in Counter::ALL {
            assert!(
                after[counter as usize] >= before[counter as usize],
                "{counter:?}"
            );
        }
    });
}

#[test]
fn refusals_are_counted_where_they_are_given_and_where_they_are_heard() {
    let name = "refusals_are_counted_where_they_are_given_and_where_they_are_heard";
    alone(name, || {
        let ctx = Context::open(0).unwrap();
        let setup = Setup {
            timeout: 18,
            rnr_retry: 1,
            ..Setup::default()
        };
        let mut pair = Pair::alike(Party::here(), Party::here(), setup);
        let ask = Ask::new(SendOpcode::Send, 8, &pair.bi);
        pair.a.post(&pair.ai, &ask);
        pair.a.expect(&pair.ai, ask.wr_id, WcStatus::RnrRetryExcErr);
        let counted = ctx.port_counters();
        let count = |counter: Counter| counted[counter as usize];
        assert_eq!(count(Counter::RnrRetryExceeded), 1);
        assert!(count(Counter::SendRnrErr) >= 2 && count(Counter::RcvdRnrErr) >= 2);
        assert!(count(Counter::Resent) >= 1);
    });
}
