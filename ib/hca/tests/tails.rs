//! The end of a long message may wait for the next one, and goes by itself if none comes.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::party::*;
use common::process;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

/// A run of 62 packets of 1 KiB, and two packets more.
const LEN: u32 = 64 << 10;
const MESSAGES: u64 = 48;
/// Less than a window.
const BURST: u64 = 8;
/// Where the last message comes to lie.
const LAST_AT: usize = 1 << 20;

/// Posts one message after the other, as far as `room` lets it, and looks for completions between them, as a program does that streams.
/// Then it waits for all of them, or looks no more.
fn stream(pair: &Pair, messages: u64, room: u64, waits: bool) {
    let end = pair.a.agent().end(pair.ai.at);
    let (mut done, mut posted) = (0, 0);
    while posted < messages || waits && done < messages {
        if posted < messages && posted - done < room {
            end.post(&Ask::new(SendOpcode::Send, LEN, &pair.bi).id(posted))
                .unwrap();
            posted += 1;
        }
        if (waits || posted < messages)
            && let Some(got) = end.poll()
        {
            assert_eq!((got.wr_id, got.status), (done, 0));
            done += 1;
        }
    }
}

#[test]
fn what_waits_for_the_next_message_goes_when_none_comes() {
    let name = "what_waits_for_the_next_message_goes_when_none_comes";
    common::namespace::run_on_packets(name, &[], || {
        let mut waited = 0;
        for round in 1..=100 {
            let mut pair = Pair::alike(Party::here(), Party::there(), PATIENT);
            pair.a.fill(&pair.ai, 0, LEN as usize, round);
            for id in 1..=MESSAGES + BURST {
                let at = if id == MESSAGES + BURST { LAST_AT } else { 0 };
                pair.b.recv(&pair.bi, id, at, LEN);
            }
            // the window grows
            stream(&pair, MESSAGES, 32, true);
            stream(&pair, BURST, BURST, false);
            let sent = || {
                let end = pair.a.agent().end(pair.ai.at);
                end.qp.packet_counters().unwrap().requests_sent
            };
            let (packets, begin) = ((MESSAGES + BURST) * u64::from(LEN >> 10), Instant::now());
            waited += u32::from(sent() < packets);
            while sent() < packets {
                assert!(begin.elapsed() < Duration::from_secs(5), "{}", sent());
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            pair.b.expect_bytes(&pair.bi, LAST_AT, LEN as usize, round);
            if waited == 3 {
                return;
            }
        }
        panic!("of 100 streams the last message of {waited} waited for another");
    });
}
