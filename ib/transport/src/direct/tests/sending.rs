//! What the sender does on its own: executors, posting order, fences, SQD, failures.

use super::*;
use crate::direct::layout::QpEntry;
use crate::direct::sender::INLINE_THRESHOLD;

#[test]
fn a_write_is_done_without_the_target() {
    let mut pair = Pair::new(QpType::Rc);
    let bytes = pair.a.fill(100, 5000, 1);
    pair.a.post(SendRequest {
        remote_addr: 900,
        ..request(1, SendOpcode::RdmaWrite, sge(100, 5000))
    });
    pair.a.advance(0);
    assert_eq!(pair.b.bytes(900, 5000), bytes);
    assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)]);
}

#[test]
fn inline_data_is_written_and_sent_as_it_was_when_posted() {
    let mut pair = Pair::new(QpType::Rc);
    let flags = SendFlags::SIGNALED | SendFlags::INLINE;
    let write = request(1, SendOpcode::RdmaWrite, &[]);
    pair.a.post(SendRequest {
        flags,
        inline: b"now",
        remote_addr: 64,
        ..write
    });
    pair.b.recv(7, 128, 64);
    pair.a.post(SendRequest {
        flags,
        inline: &[9; 40],
        ..request(2, SendOpcode::Send, &[])
    });
    pair.settle(10);
    assert_eq!(pair.b.bytes(64, 3), b"now");
    assert_eq!(pair.b.bytes(128, 40), [9; 40]);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
}

#[test]
fn a_send_of_any_length_arrives_whole_and_takes_one_receive() {
    for reachable in [true, false] {
        let mut pair = Pair::new(QpType::Rc);
        pair.a.link.0.reachable.set(reachable);
        pair.b.chunk = 3_000;
        for (i, len) in [0, 1, 8, 9, 8191, 8192, 8193, 100_000]
            .into_iter()
            .enumerate()
        {
            let bytes = pair.a.fill(0, len, i as u8);
            pair.b.recv(i as u64, 1 << 20, 200_000);
            pair.a
                .post(request(i as u64, SendOpcode::Send, sge(0, len as u32)));
            pair.settle(50);
            assert_eq!(pair.b.bytes(1 << 20, len), bytes, "{len}");
            let last = pair.b.seen.received.last().unwrap();
            assert_eq!((last.wr_id, last.byte_len as usize), (i as u64, len));
        }
        assert_eq!(pair.b.seen.received.len(), 8);
        assert_eq!(pair.a.sent.len(), 8);
    }
}

#[test]
fn a_long_write_with_immediate_is_placed_from_here_and_completes_a_receive_with_its_length() {
    let mut pair = Pair::new(QpType::Rc);
    let bytes = pair.a.fill(0, 20_000, 3);
    pair.b.recv(1, 0, 0);
    let write = request(1, SendOpcode::RdmaWriteImm, sge(0, 20_000));
    pair.a.post(SendRequest {
        remote_addr: 5_000,
        imm: 77,
        ..write
    });
    pair.settle(10);
    let got = pair.b.seen.received[0];
    assert_eq!(
        (got.byte_len, got.imm_or_rkey, got.status),
        (20_000, 77, WcStatus::Success)
    );
    assert_eq!(pair.b.bytes(5_000, 20_000), bytes);
    assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)]);
}

#[test]
fn without_reach_the_target_executes_everything_in_pieces() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.link.0.reachable.set(false);
    let bytes = pair.a.fill(0, 30_000, 4);
    let theirs = pair.b.fill(200_000, 30_000, 5);
    pair.a.post(SendRequest {
        remote_addr: 50_000,
        ..request(1, SendOpcode::RdmaWrite, sge(0, 30_000))
    });
    let read = request(2, SendOpcode::RdmaRead, sge(100_000, 30_000));
    pair.a.post(SendRequest {
        remote_addr: 200_000,
        ..read
    });
    pair.settle(20);
    assert_eq!(pair.b.bytes(50_000, 30_000), bytes);
    assert_eq!(pair.a.bytes(100_000, 30_000), theirs);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
}

#[test]
fn a_long_read_that_becomes_forbidden_half_way_is_done_by_the_target_from_its_beginning() {
    let mut pair = Pair::new(QpType::Rc);
    let len = 600 << 10;
    let theirs = pair.b.fill(1 << 20, len, 6);
    let read = request(1, SendOpcode::RdmaRead, sge(0, len as u32));
    pair.a.post(SendRequest {
        remote_addr: 1 << 20,
        ..read
    });
    assert_eq!(pair.a.advance(0), Advance::Again);
    assert_eq!(pair.a.bytes(0, 1000), theirs[..1000]);
    pair.a.link.0.fault.set(Some(Fault::Forbidden));
    pair.a.advance(0);
    // the ring was too small for all of it; what the system allows again does not matter now
    pair.a.link.0.fault.set(None);
    pair.settle(100);
    assert_eq!(pair.a.bytes(0, len), theirs);
    assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)]);
}

/// I1: whoever executes, effects follow posting order.
#[test]
fn a_write_waits_for_the_atomic_before_it() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.host.app.store(64, 40);
    pair.a.fill(0, 8, 0);
    let add = request(1, SendOpcode::FetchAdd, sge(8, 8));
    pair.a.post(SendRequest {
        remote_addr: 64,
        compare_add: 2,
        ..add
    });
    pair.a.post(SendRequest {
        remote_addr: 64,
        ..request(2, SendOpcode::RdmaWrite, sge(0, 8))
    });
    pair.a.advance(0);
    assert_eq!(pair.b.host.app.load(64), 40, "nothing happened yet");
    pair.settle(10);
    assert_eq!(pair.a.host.app.load(8), 40);
    assert_eq!(pair.b.bytes(64, 8), pair.a.bytes(0, 8));
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
}

#[test]
fn a_fenced_send_carries_what_the_read_before_it_brought() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.link.0.reachable.set(false);
    let theirs = pair.b.fill(500, 100, 9);
    pair.b.recv(1, 3_000, 200);
    pair.a.post(SendRequest {
        remote_addr: 500,
        ..request(1, SendOpcode::RdmaRead, sge(0, 100))
    });
    let flags = SendFlags::SIGNALED | SendFlags::FENCE;
    pair.a.post(SendRequest {
        flags,
        ..request(2, SendOpcode::Send, sge(0, 100))
    });
    pair.settle(10);
    assert_eq!(pair.b.bytes(3_000, 100), theirs);
}

/// I7: key, rights, range and domain of every access; no sum wraps (CVE-2016-8636); nothing is touched.
#[test]
fn an_access_outside_the_key_touches_nothing_and_ends_both_queue_pairs() {
    let cases = [
        (KEY ^ 1, 0, 8),
        (KEY, APP as u64 - 4, 8),
        (KEY, u64::MAX - 3, 8),
        (0, 0, 8),
        (u32::MAX, 0, 8),
    ];
    for (rkey, remote_addr, length) in cases {
        let mut pair = Pair::new(QpType::Rc);
        pair.a.fill(0, 8, 1);
        pair.a.post(SendRequest {
            rkey,
            remote_addr,
            ..request(1, SendOpcode::RdmaWrite, sge(0, length))
        });
        pair.a.post(request(2, SendOpcode::Send, sge(0, 8)));
        pair.settle(10);
        assert_eq!(
            pair.a.statuses(),
            [(1, WcStatus::RemAccessErr), (2, WcStatus::WrFlushErr)]
        );
        assert_eq!(pair.b.seen.events, [TargetEvent::AccessError]);
        assert!(pair.b.bytes(0, APP).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    for mapped in [true, false] {
        let mut pair = Pair::new(QpType::Rc);
        pair.a.link.0.mapped.set(mapped);
        pair.a.post(SendRequest {
            remote_addr: 4,
            ..request(1, SendOpcode::FetchAdd, sge(0, 8))
        });
        pair.settle(5);
        assert_eq!(pair.a.statuses(), [(1, WcStatus::RemInvReqErr)]);
    }
}

#[test]
fn a_message_of_no_bytes_needs_no_key() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.post(SendRequest {
        rkey: 0,
        ..request(1, SendOpcode::RdmaWrite, &[])
    });
    pair.a.post(SendRequest {
        rkey: 0,
        ..request(2, SendOpcode::RdmaRead, &[])
    });
    pair.settle(5);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
}

#[test]
fn a_revoked_queue_pair_is_not_written_through() {
    for fails in [false, true] {
        let mut pair = Pair::new(QpType::Rc);
        let seg = &pair.b.host.own;
        let number = QpEntry::read(seg, 3).expect("it is valid").qpn;
        match fails {
            true => QpEntry::fail(seg, 3, number),
            false => QpEntry::revoke(seg, 3),
        }
        assert_eq!(QpEntry::has_failed(seg, 3, number), fails);
        assert!(QpEntry::read(seg, 3).is_none() && !QpEntry::has_failed(seg, 3, number + 1));
        pair.a.fill(0, 8, 1);
        pair.a.post(request(1, SendOpcode::RdmaWrite, sge(0, 8)));
        assert!(matches!(pair.a.advance(0), Advance::Until(_)));
        assert_eq!(pair.b.bytes(0, 8), [0; 8]);
    }
}

/// I11: a failure takes its turn, nothing behind it happens, all of it completes once and in order.
#[test]
fn a_local_failure_waits_for_what_was_posted_before_it_and_stops_what_comes_after() {
    let mut pair = Pair::new(QpType::Rc);
    for wr_id in 0..3 {
        pair.b.recv(wr_id, 0, 100);
    }
    let bad = [Sge {
        addr: 0,
        length: 50,
        lkey: KEY ^ 1,
    }];
    let silent = SendFlags::empty();
    pair.a.post(request(1, SendOpcode::Send, sge(0, 50)));
    pair.a.post(SendRequest {
        flags: silent,
        ..request(2, SendOpcode::Send, &bad)
    });
    pair.a.post(SendRequest {
        flags: silent,
        ..request(3, SendOpcode::Send, sge(0, 50))
    });
    pair.settle(10);
    let expected = [
        (1, WcStatus::Success),
        (2, WcStatus::LocProtErr),
        (3, WcStatus::WrFlushErr),
    ];
    assert_eq!(pair.a.statuses(), expected);
    assert_eq!(pair.b.seen.received.len(), 1);
    assert_eq!(pair.a.sender.state(), SendState::Flushing);
    pair.a.post(request(4, SendOpcode::Send, &[]));
    assert_eq!(pair.a.statuses().last(), Some(&(4, WcStatus::WrFlushErr)));
}

#[test]
fn unsignaled_requests_complete_silently() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.recv(1, 0, 100);
    let flags = SendFlags::empty();
    pair.a.post(SendRequest {
        flags,
        ..request(1, SendOpcode::Send, sge(0, 8))
    });
    pair.a.post(SendRequest {
        flags,
        ..request(2, SendOpcode::RdmaWrite, sge(0, 8))
    });
    pair.settle(5);
    assert!(pair.a.sent.is_empty());
    assert!(!pair.a.sender.has_work());
}

#[test]
fn a_full_queue_says_so_and_takes_more_after_a_completion() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.link.0.ready.set(false);
    for wr_id in 0..16 {
        pair.a
            .post(request(wr_id, SendOpcode::RdmaWrite, sge(0, 8)));
    }
    let refused = pair
        .a
        .sender
        .post(&request(16, SendOpcode::RdmaWrite, sge(0, 8)), &mut |_| {});
    assert_eq!(refused, Err(PostError::Full));
    assert_eq!(pair.a.advance(0), Advance::Blocked);
    pair.a.link.0.ready.set(true);
    pair.settle(5);
    assert_eq!(pair.a.sent.len(), 16);
    pair.a.post(request(16, SendOpcode::RdmaWrite, sge(0, 8)));
}

#[test]
fn what_the_queue_cannot_take_is_refused_with_its_reason() {
    let mut pair = Pair::new(QpType::Uc);
    let mut post = |request: SendRequest<'_, TestLink>| pair.a.sender.post(&request, &mut |_| {});
    let many = [Sge::default(); 5];
    assert_eq!(
        post(request(1, SendOpcode::Send, &many)),
        Err(PostError::TooManySges)
    );
    let flags = SendFlags::INLINE;
    let long = SendRequest {
        flags,
        inline: &[0; 257],
        ..request(1, SendOpcode::Send, &[])
    };
    assert_eq!(post(long), Err(PostError::InlineTooLong));
    assert_eq!(
        post(request(1, SendOpcode::RdmaRead, &[])),
        Err(PostError::Opcode)
    );
    let huge = [sge(0, 1 << 31)[0], sge(0, 1)[0]];
    assert_eq!(
        post(request(1, SendOpcode::Send, &huge)),
        Err(PostError::TooLong)
    );
}

#[test]
fn sqd_ends_what_was_begun_and_begins_nothing() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    pair.a.advance(0);
    pair.b.drain();
    pair.a.collect(0);
    // the target was not ready: the request is back in the queue, but it has begun
    pair.a.sender.set_state(SendState::Draining, &mut |_| {});
    pair.a.post(request(2, SendOpcode::RdmaWrite, sge(0, 8)));
    assert!(!pair.a.sender.drained());
    pair.b.recv(5, 0, 8);
    pair.settle(10);
    assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)]);
    assert!(pair.a.sender.drained());
    assert!(pair.a.sender.has_work());
    pair.a.sender.set_state(SendState::Running, &mut |_| {});
    pair.settle(10);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
}

#[test]
fn windows_are_bound_and_invalidated_in_posting_order() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.recv(1, 0, 8);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    let bind = Some(BindRequest {
        rkey: 0x900,
        ..BindRequest::default()
    });
    pair.a.post(SendRequest {
        bind,
        ..request(2, SendOpcode::BindMw, &[])
    });
    pair.a.advance(0);
    assert_eq!(
        pair.a.host.bound.get(),
        0,
        "the SEND before it has no answer yet"
    );
    pair.settle(5);
    assert_eq!(pair.a.host.bound.get(), 0x900);
    pair.a.post(SendRequest {
        imm: 0x900,
        ..request(3, SendOpcode::LocalInv, &[])
    });
    pair.a.post(SendRequest {
        imm: 0x900,
        ..request(4, SendOpcode::LocalInv, &[])
    });
    pair.settle(5);
    let last: Vec<_> = pair.a.statuses()[2..].to_vec();
    assert_eq!(last, [(3, WcStatus::Success), (4, WcStatus::LocQpOpErr)]);
}

#[test]
fn a_long_transfer_is_left_to_whoever_may_take_its_time() {
    let mut pair = Pair::new(QpType::Rc);
    let len = 1 << 20;
    let bytes = pair.a.fill(0, len, 2);
    pair.a.post(SendRequest {
        remote_addr: 2 << 20,
        ..request(1, SendOpcode::RdmaWrite, sge(0, len as u32))
    });
    let sent = &mut pair.a.sent;
    let advance = pair
        .a
        .sender
        .advance(&pair.a.host, || Instant(0), false, &mut |c| sent.push(c));
    assert_eq!(advance, Advance::Again);
    assert_eq!(pair.b.bytes(2 << 20, 8), [0; 8]);
    pair.settle(20);
    assert_eq!(pair.b.bytes(2 << 20, len), bytes);
    assert!(len as u64 > INLINE_THRESHOLD);
}
