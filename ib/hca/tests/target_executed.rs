//! Where the system forbids processes to reach each other's memory, the target executes everything: slower, and the
//! same in every other respect.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::memory::Kind;
use common::party::*;
use common::process::{self, Channel, Child};
use common::rounds;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("plain", plain_role), ("closed", closed_role)]);
}

/// A process that reaches others as far as the system lets an ordinary user.
fn plain_role(channel: Channel) {
    obey(channel);
}

/// The same, and others of that kind cannot reach its memory.
fn closed_role(channel: Channel) {
    close_memory();
    obey(channel);
}

fn close_memory() {
    // SAFETY: a flag of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
}

fn party(role: &str) -> Party {
    Party::There(Child::spawn_ordinary(role))
}

/// Two processes that cannot reach each other's memory.
fn closed_pair(setup: Setup) -> Pair {
    Pair::alike(party("closed"), party("closed"), setup)
}

#[test]
fn every_operation_of_every_length_has_the_same_result() {
    let lens = [
        0u32,
        1,
        7,
        8,
        9,
        64,
        1000,
        4096,
        8192,
        8193,
        100_000,
        600_000,
        3 << 20,
    ];
    for memory in [Kind::Private, Kind::Shared] {
        let len = 4 << 20;
        let mut pair = closed_pair(Setup {
            memory,
            len,
            timeout: 14,
            retry: 7,
            ..Setup::default()
        });
        let Pair { a, b, ai, bi } = &mut pair;
        for (round, n) in lens.into_iter().enumerate() {
            let (fill, size) = (round as u8 + 1, n as usize);
            let next = (len - 1).min(size);
            for op in [
                SendOpcode::RdmaWrite,
                SendOpcode::RdmaWriteImm,
                SendOpcode::Send,
            ] {
                a.fill(ai, 0, size, fill);
                b.fill(bi, 0, size + 1, 0x77);
                b.recv(bi, 11, 0, len as u32);
                a.post(
                    ai,
                    &Ask {
                        imm: 0x1234,
                        ..Ask::new(op, n, bi).id(1)
                    },
                );
                a.expect(ai, 1, WcStatus::Success);
                if op == SendOpcode::RdmaWrite {
                    b.expect_bytes(bi, next, 1, 0x77);
                    b.expect_quiet(bi, 0);
                    // uses the receive up
                    a.post(ai, &Ask::new(SendOpcode::Send, 0, bi).id(2));
                    a.expect(ai, 2, WcStatus::Success);
                    b.expect(bi, 11, WcStatus::Success);
                } else {
                    let got = b.wait(bi);
                    assert_eq!((got.wr_id, got.status, got.len), (11, 0, n), "{op:?}");
                }
                if n > 0 {
                    b.expect_bytes(bi, 0, size, fill);
                }
                b.expect_bytes(bi, next, 1, 0x77);
            }
            b.fill(bi, 0, size, fill | 0x80);
            a.fill(ai, 0, size + 1, 0x55);
            a.post(ai, &Ask::new(SendOpcode::RdmaRead, n, bi).id(3));
            a.expect(ai, 3, WcStatus::Success);
            if n > 0 {
                a.expect_bytes(ai, 0, size, fill | 0x80);
            }
            a.expect_bytes(ai, next, 1, 0x55);
        }
        b.fill(bi, 0, 8, 0);
        for wr_id in 0..5u64 {
            a.post(
                ai,
                &Ask {
                    add: 1,
                    ..Ask::new(SendOpcode::FetchAdd, 8, bi).id(wr_id)
                },
            );
            a.expect(ai, wr_id, WcStatus::Success);
            a.expect_bytes(ai, 0, 1, wr_id as u8);
        }
        a.post(
            ai,
            &Ask {
                add: 5,
                swap: 9,
                ..Ask::new(SendOpcode::CmpSwap, 8, bi).id(6)
            },
        );
        a.expect(ai, 6, WcStatus::Success);
        b.expect_bytes(bi, 0, 1, 9);
    }
}

#[test]
fn the_order_of_requests_is_kept() {
    let mut pair = closed_pair(Setup {
        len: 1 << 20,
        ..Setup::default()
    });
    let Pair { a, b, ai, bi } = &mut pair;
    for round in 0..20u8 {
        // a long write, a short one over its beginning, a read of both, an atomic, a message
        a.fill(ai, 0, 500_000, round);
        a.fill(ai, 600_000, 8, round | 0x80);
        b.recv(bi, 50, 700_000, 64);
        let asks = [
            Ask::new(SendOpcode::RdmaWrite, 500_000, bi).id(1),
            Ask {
                from: 600_000,
                ..Ask::new(SendOpcode::RdmaWrite, 8, bi).id(2)
            },
            Ask {
                from: 700_000,
                ..Ask::new(SendOpcode::RdmaRead, 100_000, bi).id(3)
            },
            Ask {
                from: 900_000,
                add: 0,
                ..Ask::new(SendOpcode::FetchAdd, 8, bi).id(4)
            },
            Ask::new(SendOpcode::Send, 8, bi).id(5),
        ];
        asks.iter().for_each(|ask| a.post(ai, ask));
        (1..6).for_each(|wr_id| a.expect(ai, wr_id, WcStatus::Success));
        b.expect(bi, 50, WcStatus::Success);
        a.expect_bytes(ai, 700_000, 8, round | 0x80);
        a.expect_bytes(ai, 700_008, 99_992, round);
        a.expect_bytes(ai, 900_000, 8, round | 0x80);
    }
}

#[test]
fn faults_have_the_same_statuses() {
    let cases = [
        (SendOpcode::RdmaWrite, 8u32, WcStatus::RemAccessErr),
        (SendOpcode::RdmaWrite, 100_000, WcStatus::RemAccessErr),
        (SendOpcode::RdmaRead, 8, WcStatus::RemAccessErr),
        (SendOpcode::RdmaRead, 100_000, WcStatus::RemAccessErr),
        (SendOpcode::FetchAdd, 8, WcStatus::RemAccessErr),
        (SendOpcode::RdmaWriteImm, 100_000, WcStatus::RemAccessErr),
    ];
    for (op, len, status) in cases {
        let mut pair = closed_pair(Setup {
            len: 1 << 20,
            ..Setup::default()
        });
        let Pair { a, b, ai, bi } = &mut pair;
        b.recv(bi, 50, 0, 64);
        a.post(
            ai,
            &Ask {
                key: bi.key ^ 1,
                ..Ask::new(op, len, bi).id(1)
            },
        );
        a.post(ai, &Ask::new(SendOpcode::Send, 8, bi).id(2));
        a.expect(ai, 1, status);
        a.expect(ai, 2, WcStatus::WrFlushErr);
        b.expect(bi, 50, WcStatus::WrFlushErr);
        assert_eq!(b.state(bi), QpState::Err);
        b.expect_bytes(bi, 0, len as usize, 0);
    }
}

#[test]
fn the_last_byte_is_visible_last() {
    // this process watches its own memory; the peer writes, and has to ask for each write to be executed here
    let setup = Setup {
        len: 64 << 10,
        ..Setup::default()
    };
    close_memory();
    let mut pair = Pair::alike(party("plain"), Party::here(), setup);
    for len in [9usize, 100, 4096, 20_000] {
        let stop = AtomicBool::new(false);
        let Party::Here(agent) = &pair.b else {
            unreachable!()
        };
        let memory = &agent.end(pair.bi.at).memory;
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let (mut seen, mut torn) = (0u64, 0u64);
                while !stop.load(Ordering::Relaxed) {
                    if memory.byte(len - 1) == 0xff {
                        torn += u64::from(memory.extremes(0, len).0 != 0xff);
                        seen += 1;
                        memory.fill(0, len, 0);
                        // the next write may begin
                        memory.set(setup.len - 1, 1);
                    }
                }
                (seen, torn)
            });
            pair.a.fill(&pair.ai, 0, len, 0xff);
            let end = Instant::now() + Duration::from_millis(300 * rounds(1));
            while Instant::now() < end {
                memory.set(setup.len - 1, 0);
                pair.a.post(
                    &pair.ai,
                    &Ask::new(SendOpcode::RdmaWrite, len as u32, &pair.bi),
                );
                pair.a.expect(&pair.ai, 1, WcStatus::Success);
                common::eventually("the watcher", || memory.byte(setup.len - 1) == 1);
            }
            stop.store(true, Ordering::Relaxed);
            let (seen, torn) = watcher.join().unwrap();
            assert!(seen > 0, "no write was seen");
            assert_eq!(torn, 0, "of {seen} writes of {len} bytes");
        });
    }
}

#[test]
fn a_side_that_may_and_a_side_that_may_not_work_together() {
    for (a, b) in [("closed", "plain"), ("plain", "closed")] {
        let mut pair = Pair::alike(
            party(a),
            party(b),
            Setup {
                len: 1 << 20,
                ..Setup::default()
            },
        );
        pair.exchange();
        let Pair { a, b, ai, bi } = &mut pair;
        for (op, n) in [
            (SendOpcode::Send, 1 << 20),
            (SendOpcode::RdmaWrite, 1 << 20),
            (SendOpcode::RdmaRead, 1 << 20),
        ] {
            a.fill(ai, 0, 1 << 20, op as u8 + 1);
            b.fill(bi, 0, 1 << 20, op as u8 + 1);
            b.recv(bi, 5, 0, 1 << 20);
            a.post(ai, &Ask::new(op, n, bi).id(1));
            a.expect(ai, 1, WcStatus::Success);
            a.expect_bytes(ai, 0, 1 << 20, op as u8 + 1);
            b.expect_bytes(bi, 0, 1 << 20, op as u8 + 1);
            if op != SendOpcode::Send {
                a.post(ai, &Ask::new(SendOpcode::Send, 8, bi).id(2));
                a.expect(ai, 2, WcStatus::Success);
            }
            b.expect(bi, 5, WcStatus::Success);
        }
    }
}

#[test]
fn it_is_the_target_that_executes_and_a_stopped_one_is_waited_for() {
    // the proof that the tests above test what they say: an open peer is written to while it is stopped, a closed one not
    for (role, executed) in [("plain", true), ("closed", false)] {
        let setup = Setup {
            timeout: 8,
            retry: 0,
            ..Setup::default()
        };
        let mut pair = Pair::alike(party("plain"), party(role), setup);
        pair.exchange();
        pair.b.child().stop();
        pair.a.post(
            &pair.ai,
            &Ask::new(SendOpcode::RdmaWrite, 100, &pair.bi).id(4),
        );
        let got = pair.a.wait_for(&pair.ai, Duration::from_millis(100));
        assert_eq!(got.is_some(), executed, "{role}");
        pair.b.child().resume();
        if !executed {
            pair.a.expect(&pair.ai, 4, WcStatus::Success);
        }
    }
}
