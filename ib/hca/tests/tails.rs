//! The end of a long message may wait for the next one, and goes by itself if none comes.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Mutex;
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
/// As many in a row as make another expected, and less than a window.
const BURST: u64 = 3;
/// Where the last message comes to lie.
const LAST_AT: usize = 1 << 20;

/// The end of the last message.
const END: u64 = 2;
/// Each test sees so many ends that waited, of at most so many streams.
const SEEN: u32 = 3;
const STREAMS: u32 = 100;

/// One of these tests at a time: each needs both cores, for a sender that is never late.
fn alone(name: &str, body: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    common::namespace::run_on_packets(name, &[], body);
}

/// Posts one message after the other, as far as `room` lets it, and looks for completions between them, as a program does that streams.
/// Then it waits for all of them, or looks no more.
fn stream(end: &Endpoint, to: &Info, messages: u64, room: u64, waits: bool) {
    let (mut done, mut posted) = (0, 0);
    while posted < messages || waits && done < messages {
        if posted < messages && posted - done < room {
            end.post(&Ask::new(SendOpcode::Send, LEN, to).id(posted))
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

/// Packets sent, each counted once.
fn sent(end: &Endpoint) -> u64 {
    let counters = end.qp.packet_counters().unwrap();
    counters.requests_sent - counters.requests_repeated
}

/// The packets of so many messages.
fn packets(messages: u64) -> u64 {
    messages * u64::from(LEN >> 10)
}

/// Streams whose last message's end waits for another: then `act` does something with the pair, and it arrives.
#[track_caller]
fn with_ends_that_wait(mut act: impl FnMut(&mut Pair)) {
    let mut seen = 0;
    for round in 1..=STREAMS {
        let mut pair = Pair::alike(Party::here(), Party::there(), PATIENT);
        pair.a.fill(&pair.ai, 0, LEN as usize, round as u8);
        for id in 1..=MESSAGES + BURST {
            let at = if id == MESSAGES + BURST { LAST_AT } else { 0 };
            pair.b.recv(&pair.bi, id, at, LEN);
        }
        let end = pair.a.agent().end(pair.ai.at);
        // the window grows
        stream(end, &pair.bi, MESSAGES, 32, true);
        stream(end, &pair.bi, BURST, BURST, false);
        let waits = packets(MESSAGES + BURST) - sent(end) == END;
        if !waits {
            continue;
        }
        act(&mut pair);
        let begin = Instant::now();
        while pair
            .b
            .extremes(&pair.bi, LAST_AT + LEN as usize - 2048, 2048)
            != (round as u8, round as u8)
        {
            assert!(begin.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(1));
        }
        pair.b
            .expect_bytes(&pair.bi, LAST_AT, LEN as usize, round as u8);
        seen += 1;
        if seen == SEEN {
            return;
        }
    }
    panic!("of {STREAMS} streams the last message of {seen} waited for another");
}

#[test]
fn what_waits_for_the_next_message_goes_when_none_comes() {
    let name = "what_waits_for_the_next_message_goes_when_none_comes";
    alone(name, || with_ends_that_wait(|_| ()));
}

#[test]
fn what_waits_goes_before_its_queue_pair_ends_or_fails() {
    let name = "what_waits_goes_before_its_queue_pair_ends_or_fails";
    alone(name, || {
        with_ends_that_wait(|pair| pair.a.destroy(&pair.ai));
        for state in [QpState::Reset, QpState::Err] {
            with_ends_that_wait(|pair| assert_eq!(pair.a.set_state(&pair.ai, state), 0));
        }
    });
}
