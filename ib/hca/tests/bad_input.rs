//! What a program can ask wrongly, and the exact answer on both sides: statuses, errnos, events, flushes.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::memory::Kind;
use common::party::*;
use common::process;
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

const QP_REQ_ERR: u64 = AsyncKind::QpReqErr as u64;
const QP_ACCESS_ERR: u64 = AsyncKind::QpAccessErr as u64;
const COMM_EST: u64 = AsyncKind::CommEst as u64;

/// The next event but the one that says that a first message came.
fn next_event(party: &mut Party, end: &Info, limit_ms: u64) -> Option<u64> {
    match party.event(end, limit_ms) {
        Some(COMM_EST) => party.event(end, limit_ms),
        event => event,
    }
}

/// Posts `ask` and three more behind it; the first ends with `status`, the others flush in order, and what is posted
/// later flushes too.
#[track_caller]
fn ends_with(pair: &mut Pair, ask: Ask, status: WcStatus) {
    let Pair { a, b: _, ai, bi } = pair;
    a.post(ai, &ask.id(1));
    for wr_id in 2..5 {
        // unsignaled ones too: an error completes in any case
        let flags = if wr_id == 3 {
            0
        } else {
            SendFlags::SIGNALED.bits()
        };
        a.post(
            ai,
            &Ask {
                flags,
                ..Ask::new(SendOpcode::RdmaWrite, 8, bi).id(wr_id)
            },
        );
    }
    a.expect(ai, 1, status);
    for wr_id in 2..5 {
        a.expect(ai, wr_id, WcStatus::WrFlushErr);
    }
    assert_eq!(a.state(ai), QpState::Err);
    a.recv(ai, 70, 0, 8);
    a.post(ai, &Ask::new(SendOpcode::Send, 8, bi).id(5));
    let mut flushed = [a.wait(ai), a.wait(ai)];
    flushed.sort_by_key(|got| got.wr_id);
    assert_eq!(
        flushed.map(|got| (got.wr_id, got.status)),
        [(5, 5), (70, 5)]
    );
    a.expect_quiet(ai, 5);
}

/// As `ends_with`, by a fault that the target finds: it goes to the error state, flushes, and hears of it.
#[track_caller]
fn refused(pair: &mut Pair, ask: Ask, status: WcStatus, event: u64) {
    for wr_id in 50..53 {
        pair.b.recv(&pair.bi, wr_id, 0, 64);
    }
    ends_with(pair, ask, status);
    for wr_id in 50..53 {
        pair.b.expect(&pair.bi, wr_id, WcStatus::WrFlushErr);
    }
    assert_eq!(pair.b.state(&pair.bi), QpState::Err);
    assert_eq!(next_event(&mut pair.b, &pair.bi, 5000), Some(event));
}

/// As `ends_with`, by a fault on this side alone: the peer notices nothing.
#[track_caller]
fn refused_here(pair: &mut Pair, ask: Ask, status: WcStatus) {
    pair.b.recv(&pair.bi, 50, 0, 64);
    ends_with(pair, ask, status);
    pair.b.expect_quiet(&pair.bi, 10);
    assert_eq!(pair.b.state(&pair.bi), QpState::Rts);
    assert_eq!(next_event(&mut pair.b, &pair.bi, 0), None);
}

const ONE_SIDED: [SendOpcode; 4] = [
    SendOpcode::RdmaWrite,
    SendOpcode::RdmaRead,
    SendOpcode::FetchAdd,
    SendOpcode::CmpSwap,
];

/// Each case with a fresh pair of queue pairs of the same two parties.
fn cases(test: impl Fn(&mut Pair, SendOpcode)) {
    everywhere(|mut a, mut b| {
        for memory in [Kind::Private, Kind::Shared] {
            for op in ONE_SIDED {
                let setup = Setup {
                    memory,
                    ..Setup::default()
                };
                let mut pair = Pair::alike(a, b, setup);
                test(&mut pair, op);
                pair.a.destroy(&pair.ai);
                pair.b.destroy(&pair.bi);
                (a, b) = (pair.a, pair.b);
            }
        }
    });
}

#[test]
fn a_wrong_remote_key_is_a_remote_access_error() {
    cases(|pair, op| {
        let ask = Ask {
            key: pair.bi.key ^ 1,
            ..Ask::new(op, 8, &pair.bi)
        };
        refused(pair, ask, WcStatus::RemAccessErr, QP_ACCESS_ERR);
    });
}

#[test]
fn a_key_that_never_was_is_a_remote_access_error() {
    for key in [0, 0xff, u32::MAX] {
        everywhere(|a, b| {
            let mut pair = Pair::alike(a, b, Setup::default());
            let ask = Ask {
                key,
                ..Ask::new(SendOpcode::RdmaRead, 8, &pair.bi)
            };
            refused(&mut pair, ask, WcStatus::RemAccessErr, QP_ACCESS_ERR);
        });
    }
}

#[test]
fn a_range_that_leaves_the_region_is_a_remote_access_error() {
    let len = Setup::default().len as u64;
    for offset in [len - 4, len, u64::MAX - 7, 0u64.wrapping_sub(8)] {
        everywhere(|a, b| {
            let mut pair = Pair::alike(a, b, Setup::default());
            let op = if offset.is_multiple_of(8) {
                SendOpcode::FetchAdd
            } else {
                SendOpcode::RdmaWrite
            };
            let addr = pair.bi.addr.wrapping_add(offset);
            let ask = Ask {
                addr,
                ..Ask::new(op, 8, &pair.bi)
            };
            refused(&mut pair, ask, WcStatus::RemAccessErr, QP_ACCESS_ERR);
            pair.b.expect_bytes(&pair.bi, 0, len as usize, 0);
        });
    }
}

#[test]
fn an_address_whose_end_wraps_around_is_a_remote_access_error() {
    // CVE-2016-8636: the region ends at the last byte of the address space, the request beyond it
    everywhere(|a, b| {
        let mut pair = Pair::alike(a, b, Setup::default());
        let len = Setup::default().len as u64;
        let iova = 0u64.wrapping_sub(len);
        let key = pair.b.other_key(&pair.bi, ALL, iova, false);
        // inside: up to the very last byte
        let inside = Ask {
            addr: u64::MAX - 7,
            key,
            ..Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi)
        };
        pair.a.fill(&pair.ai, 0, 16, 7);
        pair.a.post(&pair.ai, &inside);
        pair.a.expect(&pair.ai, 1, WcStatus::Success);
        pair.b.expect_bytes(&pair.bi, len as usize - 8, 8, 7);
        let across = Ask { len: 16, ..inside };
        refused(&mut pair, across, WcStatus::RemAccessErr, QP_ACCESS_ERR);
        pair.b.expect_bytes(&pair.bi, 0, len as usize - 8, 0);
    });
}

#[test]
fn a_region_without_the_right_is_a_remote_access_error() {
    cases(|pair, op| {
        let lacking = match op {
            SendOpcode::RdmaWrite => Access::REMOTE_WRITE,
            SendOpcode::RdmaRead => Access::REMOTE_READ,
            _ => Access::REMOTE_ATOMIC,
        };
        let key = pair
            .b
            .other_key(&pair.bi, ALL & !lacking.bits(), pair.bi.addr, false);
        let ask = Ask {
            key,
            ..Ask::new(op, 8, &pair.bi)
        };
        refused(pair, ask, WcStatus::RemAccessErr, QP_ACCESS_ERR);
    });
}

#[test]
fn a_queue_pair_without_the_right_is_a_remote_invalid_request() {
    // the operation is not enabled on the queue pair: no matter of keys (rxe check_op_valid; responder of the packet wires)
    everywhere(|mut a, mut b| {
        for op in ONE_SIDED {
            let lacking = match op {
                SendOpcode::RdmaWrite => Access::REMOTE_WRITE,
                SendOpcode::RdmaRead => Access::REMOTE_READ,
                _ => Access::REMOTE_ATOMIC,
            };
            let target = Setup {
                qp_access: ALL & !lacking.bits(),
                ..Setup::default()
            };
            let mut pair = Pair::new(a, b, Setup::default(), target);
            let ask = Ask::new(op, 8, &pair.bi);
            refused(&mut pair, ask, WcStatus::RemInvReqErr, QP_REQ_ERR);
            (a, b) = (pair.a, pair.b);
        }
    });
}

#[test]
fn a_region_of_another_domain_is_a_remote_access_error() {
    cases(|pair, op| {
        let key = pair.b.other_key(&pair.bi, ALL, pair.bi.addr, true);
        let ask = Ask {
            key,
            ..Ask::new(op, 8, &pair.bi)
        };
        refused(pair, ask, WcStatus::RemAccessErr, QP_ACCESS_ERR);
    });
}

#[test]
fn a_wrong_local_key_is_a_local_protection_error_and_the_peer_hears_nothing() {
    cases(|pair, op| {
        let ask = Ask {
            lkey: Some(pair.ai.key ^ 1),
            ..Ask::new(op, 8, &pair.bi)
        };
        refused_here(pair, ask, WcStatus::LocProtErr);
    });
}

#[test]
fn local_memory_of_another_domain_or_out_of_range_is_a_local_protection_error() {
    everywhere(|mut a, mut b| {
        for (op, len) in [
            (SendOpcode::Send, 8),
            (SendOpcode::Send, 100_000),
            (SendOpcode::RdmaWrite, 100_000),
        ] {
            let mut pair = Pair::alike(a, b, Setup::default());
            let ask = if len == 8 {
                let key = pair.a.other_key(&pair.ai, ALL, pair.ai.addr, true);
                Ask {
                    lkey: Some(key),
                    ..Ask::new(op, len, &pair.bi)
                }
            } else {
                // longer than the region
                Ask::new(op, len, &pair.bi)
            };
            refused_here(&mut pair, ask, WcStatus::LocProtErr);
            (a, b) = (pair.a, pair.b);
        }
    });
}

#[test]
fn a_read_or_an_atomic_into_memory_that_is_not_writable_is_a_local_protection_error() {
    everywhere(|mut a, mut b| {
        for op in [
            SendOpcode::RdmaRead,
            SendOpcode::FetchAdd,
            SendOpcode::CmpSwap,
        ] {
            let mut pair = Pair::alike(a, b, Setup::default());
            let key = pair.a.other_key(&pair.ai, 0, pair.ai.addr, false);
            let ask = Ask {
                lkey: Some(key),
                ..Ask::new(op, 8, &pair.bi)
            };
            refused_here(&mut pair, ask, WcStatus::LocProtErr);
            pair.b.expect_bytes(&pair.bi, 0, 8, 0);
            (a, b) = (pair.a, pair.b);
        }
    });
}

#[test]
fn nothing_to_write_or_read_needs_no_key() {
    everywhere(|a, b| {
        let mut pair = Pair::alike(a, b, Setup::default());
        let Pair { a, b, ai, bi } = &mut pair;
        for (wr_id, op) in [
            (1, SendOpcode::RdmaWrite),
            (2, SendOpcode::RdmaRead),
            (3, SendOpcode::RdmaWriteImm),
        ] {
            b.recv(bi, 10 + wr_id, 0, 0);
            a.post(
                ai,
                &Ask {
                    key: 0xdead_beef,
                    addr: 3,
                    ..Ask::new(op, 0, bi).id(wr_id)
                },
            );
            a.expect(ai, wr_id, WcStatus::Success);
        }
        let got = b.wait(bi);
        assert_eq!(
            (got.wr_id, got.status, got.len, got.opcode),
            (11, 0, 0, WcOpcode::RecvRdmaWithImm as u32)
        );
        // a SEND of nothing, into a receive of nothing, with no element at all
        a.post(
            ai,
            &Ask {
                elements: 0,
                ..Ask::new(SendOpcode::Send, 0, bi).id(4)
            },
        );
        a.expect(ai, 4, WcStatus::Success);
        let got = b.wait(bi);
        assert_eq!((got.wr_id, got.status, got.len), (12, 0, 0));
    });
}

#[test]
fn an_unaligned_atomic_is_a_remote_invalid_request() {
    everywhere(|mut a, mut b| {
        for memory in [Kind::Private, Kind::Shared] {
            for op in [SendOpcode::FetchAdd, SendOpcode::CmpSwap] {
                let mut pair = Pair::alike(
                    a,
                    b,
                    Setup {
                        memory,
                        ..Setup::default()
                    },
                );
                let ask = Ask {
                    addr: pair.bi.addr + 4,
                    ..Ask::new(op, 8, &pair.bi)
                };
                refused(&mut pair, ask, WcStatus::RemInvReqErr, QP_REQ_ERR);
                pair.b.expect_bytes(&pair.bi, 0, 64, 0);
                (a, b) = (pair.a, pair.b);
            }
        }
    });
}

#[test]
fn an_atomic_result_needs_eight_bytes() {
    everywhere(|a, b| {
        let mut pair = Pair::alike(a, b, Setup::default());
        let ask = Ask::new(SendOpcode::FetchAdd, 4, &pair.bi);
        refused_here(&mut pair, ask, WcStatus::LocLenErr);
    });
}

#[test]
fn a_receive_that_is_too_short_fails_on_both_sides() {
    for (len, room) in [(9, 8), (5000, 100), (60_000, 100)] {
        everywhere(|a, b| {
            let mut pair = Pair::alike(a, b, Setup::default());
            pair.b.recv(&pair.bi, 49, 0, room);
            pair.b.recv(&pair.bi, 50, 0, 64);
            let ask = Ask::new(SendOpcode::Send, len, &pair.bi);
            ends_with(&mut pair, ask, WcStatus::RemInvReqErr);
            pair.b.expect(&pair.bi, 49, WcStatus::LocLenErr);
            pair.b.expect(&pair.bi, 50, WcStatus::WrFlushErr);
            assert_eq!(pair.b.state(&pair.bi), QpState::Err);
        });
    }
}

#[test]
fn a_receive_into_memory_that_is_not_the_domains_fails_on_both_sides() {
    for (rights, other_pd) in [(0, false), (ALL, true)] {
        everywhere(|a, b| {
            let mut pair = Pair::alike(a, b, Setup::default());
            let key = pair.b.other_key(&pair.bi, rights, pair.bi.addr, other_pd);
            assert_eq!(pair.b.try_recv(&pair.bi, 49, 0, 64, Some(key)), 0);
            pair.b.recv(&pair.bi, 50, 0, 64);
            let ask = Ask::new(SendOpcode::Send, 8, &pair.bi);
            ends_with(&mut pair, ask, WcStatus::RemOpErr);
            pair.b.expect(&pair.bi, 49, WcStatus::LocProtErr);
            pair.b.expect(&pair.bi, 50, WcStatus::WrFlushErr);
        });
    }
}

#[test]
fn a_receive_that_goes_on_beyond_its_region_takes_messages_that_do_not() {
    let region = Setup::default().len;
    for long in [65, 5000] {
        everywhere(|a, b| {
            let mut pair = Pair::alike(a, b, Setup::default());
            pair.b.recv(&pair.bi, 49, region - 64, 8192);
            pair.b.recv(&pair.bi, 50, region - 64, 8192);
            let ask = Ask::new(SendOpcode::Send, 64, &pair.bi);
            pair.a.post(&pair.ai, &ask.id(7));
            pair.a.expect(&pair.ai, 7, WcStatus::Success);
            let got = pair.b.wait(&pair.bi);
            assert_eq!((got.wr_id, got.status, got.len), (49, 0, 64));
            // one that does
            let ask = Ask::new(SendOpcode::Send, long, &pair.bi);
            ends_with(&mut pair, ask, WcStatus::RemOpErr);
            pair.b.expect(&pair.bi, 50, WcStatus::LocProtErr);
        });
    }
}

#[test]
fn without_a_receive_the_sender_gives_up_after_its_rnr_retries() {
    // timer code 20 is 10.24 ms
    for (retries, at_least_ms) in [(0, 0), (1, 10), (3, 30)] {
        everywhere(|a, b| {
            let sender = Setup {
                rnr_retry: retries,
                ..Setup::default()
            };
            let target = Setup {
                min_rnr: 20,
                ..Setup::default()
            };
            let mut pair = Pair::new(a, b, sender, target);
            let begin = Instant::now();
            let ask = Ask::new(SendOpcode::Send, 8, &pair.bi);
            ends_with(&mut pair, ask, WcStatus::RnrRetryExcErr);
            let took = begin.elapsed();
            assert!(took >= Duration::from_millis(at_least_ms), "{took:?}");
            assert!(took < Duration::from_millis(at_least_ms + 1500), "{took:?}");
            // not the target's fault: it stays
            assert_eq!(pair.b.state(&pair.bi), QpState::Rts);
        });
    }
}

#[test]
fn seven_rnr_retries_wait_for_ever() {
    everywhere(|a, b| {
        let target = Setup {
            min_rnr: 10,
            ..Setup::default()
        };
        let mut pair = Pair::new(a, b, Setup::default(), target);
        for wr_id in 1..4 {
            pair.a
                .post(&pair.ai, &Ask::new(SendOpcode::Send, 8, &pair.bi).id(wr_id));
        }
        pair.a.expect_quiet(&pair.ai, 100);
        for wr_id in 11..14 {
            pair.b.recv(&pair.bi, wr_id, 0, 64);
        }
        for wr_id in 1..4 {
            pair.a.expect(&pair.ai, wr_id, WcStatus::Success);
            pair.b.expect(&pair.bi, wr_id + 10, WcStatus::Success);
        }
    });
}

#[test]
fn full_queues_refuse_with_enomem_and_lose_nothing() {
    everywhere(|a, b| {
        let setup = Setup {
            send_wr: 4,
            recv_wr: 4,
            min_rnr: 1,
            ..Setup::default()
        };
        let mut pair = Pair::alike(a, b, setup);
        for wr_id in 0..4 {
            pair.a
                .post(&pair.ai, &Ask::new(SendOpcode::Send, 8, &pair.bi).id(wr_id));
        }
        let more = Ask::new(SendOpcode::Send, 8, &pair.bi).id(4);
        assert_eq!(pair.a.try_post(&pair.ai, &more), libc::ENOMEM);
        for wr_id in 10..14 {
            pair.a.recv(&pair.ai, wr_id, 0, 64);
        }
        assert_eq!(pair.a.try_recv(&pair.ai, 14, 0, 64, None), libc::ENOMEM);
        for wr_id in 10..14 {
            pair.b.recv(&pair.bi, wr_id, 0, 64);
        }
        for wr_id in 0..4 {
            pair.a.expect(&pair.ai, wr_id, WcStatus::Success);
            pair.b.expect(&pair.bi, wr_id + 10, WcStatus::Success);
        }
        pair.a.expect_quiet(&pair.ai, 2);
        pair.b.recv(&pair.bi, 15, 0, 64);
        pair.a.post(&pair.ai, &more);
        pair.a.expect(&pair.ai, 4, WcStatus::Success);
    });
}

#[test]
fn a_request_beyond_the_queues_limits_is_refused_with_einval() {
    everywhere(|a, b| {
        let mut pair = Pair::alike(a, b, Setup::default());
        let write = Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi);
        assert_eq!(
            pair.a.try_post(
                &pair.ai,
                &Ask {
                    elements: 5,
                    ..write
                }
            ),
            libc::EINVAL
        );
        let inline = Ask {
            flags: SendFlags::INLINE.bits(),
            len: 65,
            ..write
        };
        assert_eq!(pair.a.try_post(&pair.ai, &inline), libc::EINVAL);
        let inline_twice = Ask {
            len: 33,
            elements: 2,
            ..inline
        };
        assert_eq!(pair.a.try_post(&pair.ai, &inline_twice), libc::EINVAL);
        // 4 elements of 1 GiB: beyond 2^31 bytes
        assert_eq!(
            pair.a.try_post(
                &pair.ai,
                &Ask {
                    elements: 4,
                    len: 1 << 30,
                    ..write
                }
            ),
            libc::EINVAL
        );
        // nothing of it was queued
        pair.a.expect_quiet(&pair.ai, 2);
        pair.exchange();
    });
}

#[test]
fn an_overrun_completion_queue_says_so_and_keeps_what_it_had() {
    everywhere(|a, b| {
        let small = Setup {
            cqe: 4,
            ..Setup::default()
        };
        let mut pair = Pair::new(a, b, small, Setup::default());
        for wr_id in 0..6 {
            pair.a.post(
                &pair.ai,
                &Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(wr_id),
            );
        }
        assert_eq!(
            next_event(&mut pair.a, &pair.ai, 5000),
            Some(AsyncKind::CqErr as u64)
        );
        for wr_id in 0..4 {
            pair.a.expect(&pair.ai, wr_id, WcStatus::Success);
            // there is room again, but a completion is missing: no other may be taken for it
            let later = Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi);
            pair.a.post(&pair.ai, &later.id(7));
        }
        pair.a.expect_quiet(&pair.ai, 20);
        if let Party::Here(agent) = &pair.a {
            let end = agent.end(pair.ai.at);
            assert_eq!(end.cq.poll(1, |_| ()).unwrap_err().errno(), libc::EIO);
        }
        assert_eq!(next_event(&mut pair.a, &pair.ai, 0), None, "said once");
    });
}

#[test]
fn illegal_transitions_are_refused_and_change_nothing() {
    let agent = Agent::new();
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(&ctx, Setup::default()).unwrap();
    let lid = ctx.query_port(1).unwrap().lid.0;
    let einval = |result: Result<(), Error>| result.unwrap_err().errno() == libc::EINVAL;
    let before = end.qp.query();
    for state in [QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe] {
        assert!(einval(end.set_state(state)), "reset to {state:?}");
    }
    assert!(einval(end.to_rts()));
    assert_eq!(end.qp.query(), before);
    assert_eq!(
        end.recv(1, 0, 8, None).unwrap_err().errno(),
        libc::EINVAL,
        "no receive before INIT"
    );
    end.to_init().unwrap();
    let write = Ask::new(SendOpcode::RdmaWrite, 8, &end.info(0));
    assert_eq!(
        end.post(&write).unwrap_err().errno(),
        libc::EINVAL,
        "no send before RTS"
    );
    end.recv(1, 0, 8, None).unwrap();
    assert!(einval(end.to_rts()), "INIT to RTS");
    assert!(
        einval(end.set_state(QpState::Rtr)),
        "attributes that RTR needs are missing"
    );
    assert_eq!(end.qp.state(), QpState::Init);
    end.to_rtr(end.qp.qpn, lid).unwrap();
    assert_eq!(
        end.post(&write).unwrap_err().errno(),
        libc::EINVAL,
        "no send in RTR"
    );
    assert!(einval(end.to_init()), "RTR to INIT");
    end.to_rts().unwrap();
    assert!(einval(end.to_rtr(end.qp.qpn, lid)), "RTS to RTR");
    assert_eq!(end.qp.state(), QpState::Rts);
    end.set_state(QpState::Err).unwrap();
    let got = end.wait();
    assert_eq!((got.wr_id, got.status), (1, WcStatus::WrFlushErr as u32));
    assert!(einval(end.to_rts()), "ERR to RTS");
    end.set_state(QpState::Reset).unwrap();
    end.connect(end.qp.qpn, lid).unwrap();
    end.post(&write).unwrap();
    assert_eq!(end.wait().status, 0, "a queue pair works again after RESET");
    end.close();
    drop(agent);
}

#[test]
fn objects_in_use_are_busy_and_registrations_are_checked() {
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(
        &ctx,
        Setup {
            events: true,
            ..Setup::default()
        },
    )
    .unwrap();
    let busy = |result: Result<(), Error>| result.unwrap_err().errno() == libc::EBUSY;
    assert!(
        busy(end.cq.destroy())
            && busy(end.pd.dealloc())
            && busy(end.channel.as_ref().unwrap().destroy())
    );
    let reg = |addr: u64, length: u64, access: Access| {
        end.pd
            .reg_mr(MrInit {
                addr,
                length,
                iova: addr,
                access,
            })
            .map(|_| ())
            .unwrap_err()
            .errno()
    };
    let addr = end.memory.addr();
    assert_eq!(
        reg(addr, 64, Access::REMOTE_WRITE),
        libc::EINVAL,
        "remote write needs local write"
    );
    assert_eq!(reg(addr, 64, Access::REMOTE_ATOMIC), libc::EINVAL);
    assert_eq!(
        reg(u64::MAX - 10, 64, Access::LOCAL_WRITE),
        libc::EINVAL,
        "CVE-2014-8159: the sum wraps"
    );
    assert_eq!(reg(addr, u64::MAX, Access::LOCAL_WRITE), libc::EINVAL);
    end.close();
}
