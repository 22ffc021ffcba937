//! What goes wrong ends as the specification says: I7, I9, I10, I11, and bad packets.

use super::*;
use crate::types::{ack_timeout_ns, rnr_timer_ns};
use ferriband_wire::{Aeth, Bth, Ext, Headers, Msn, NakCode, Reth, Syndrome};
use proptest::prelude::*;

/// One bad request behind a good one: how it ends on both sides.
fn refused(change: impl FnOnce(&mut SendWr<'_>), opcode: SendOpcode, len: u32) -> (WcStatus, Pair) {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 4);
    pair.ends[0].post_with(2, opcode, len, change);
    pair.ends[0].post(3, SendOpcode::RdmaWrite, 4);
    pair.run();
    let statuses = pair.ends[0].statuses();
    assert_eq!(
        (statuses[0], statuses[2]),
        ((1, OK), (3, FLUSH)),
        "{statuses:?}"
    );
    assert_eq!(pair.ends[0].qp.state(), QpState::Err);
    assert_eq!(pair.ends[1].qp.state(), QpState::Err);
    assert_eq!(
        pair.ends[1].memory.writes.len(),
        1,
        "only the good one was executed"
    );
    (statuses[1].1, pair)
}

#[test]
fn i7_keys_rights_and_ranges_are_checked_without_overflow() {
    use SendOpcode::{CmpSwap, FetchAdd, RdmaRead, RdmaWrite};
    let access = WcStatus::RemAccessErr;
    for opcode in [RdmaWrite, RdmaRead] {
        for (key, addr) in [
            (9, 0x1000),
            (LOCAL_KEY, 0x1000),
            (KEY, MEMORY_BYTES as u64 - 999),
            // CVE-2016-8636: address and length together wrap around.
            (KEY, u64::MAX - 3),
            (KEY, u64::MAX),
        ] {
            let change = |wr: &mut SendWr<'_>| (wr.rkey, wr.remote_addr) = (RKey(key), addr);
            let (status, pair) = refused(change, opcode, 1000);
            assert_eq!(status, access, "{opcode:?} {key} {addr:#x}");
            assert_eq!(pair.ends[1].events, [QpEvent::QpAccessErr]);
        }
    }
    for opcode in [CmpSwap, FetchAdd] {
        let (status, _) = refused(|wr| wr.remote_addr = u64::MAX - 7, opcode, 8);
        assert_eq!(status, access);
        let (status, pair) = refused(|wr| wr.remote_addr = 0x1004, opcode, 8);
        assert_eq!(status, WcStatus::RemInvReqErr, "not aligned");
        assert_eq!(pair.ends[1].events, [QpEvent::QpReqErr]);
        assert_eq!(pair.ends[1].memory.atomics, 0);
    }
}

#[test]
fn i7_a_key_revoked_midway_stops_the_next_packet() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 600);
    let now = pair.now;
    let mut buf = [0; MAX_PACKET_BYTES];
    for i in 0..2 {
        let [a, b] = &mut pair.ends;
        let sent = a.qp.poll_transmit(now, &mut a.memory, &mut buf).unwrap();
        b.memory.revoked = i == 1;
        b.receive(now, &Packet::parse(&buf[..sent.len]).unwrap());
    }
    pair.run();
    assert_eq!(pair.ends[1].memory.writes.len(), 1);
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RemAccessErr)]);
}

#[test]
fn a_read_or_write_of_nothing_names_no_memory() {
    for opcode in [SendOpcode::RdmaRead, SendOpcode::RdmaWrite] {
        let mut pair = Pair::new(RC);
        pair.ends[0].post_with(1, opcode, 0, |wr| wr.rkey = RKey(99));
        pair.run();
        assert_eq!(pair.ends[0].statuses(), [(1, OK)], "{opcode:?}");
    }
}

#[test]
fn rights_that_the_queue_pair_does_not_grant_are_an_invalid_request() {
    use SendOpcode::{FetchAdd, RdmaRead, RdmaWrite};
    for opcode in [RdmaWrite, RdmaRead, FetchAdd] {
        let mut pair = Pair::new(Setup {
            attr: |attr| attr.access = Access::empty(),
            ..RC
        });
        pair.ends[0].post(1, opcode, 8);
        pair.run();
        assert_eq!(
            pair.ends[0].statuses(),
            [(1, WcStatus::RemInvReqErr)],
            "{opcode:?}"
        );
    }
}

#[test]
fn i9_rnr_waits_as_long_as_the_peer_says_and_gives_up_after_its_retries() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::Send, 9);
    let (start, mut attempts) = (pair.now, 0);
    pair.settle(&mut |from, _| {
        attempts += usize::from(from == 0);
        1
    });
    assert_eq!(attempts, 3, "the first, and rnr_retry 2");
    assert_eq!(pair.now.0 - start.0, 2 * rnr_timer_ns(12));
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RnrRetryExcErr)]);
}

#[test]
fn i9_rnr_retry_seven_is_infinite_and_progress_restores_the_count() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.rnr_retry = 7,
        ..RC
    });
    pair.ends[0].post(1, SendOpcode::Send, 9);
    for _ in 0..40 {
        pair.exchange(&mut |_, _| 1);
        pair.now = pair.ends[0].qp.poll_timeout().unwrap();
        let now = pair.now;
        pair.ends[0].qp.handle_timeout(now);
    }
    pair.ends[1].post_recv(7, 9);
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
    // Twice two refusals, with progress between: more in all than rnr_retry allows in a row.
    let mut pair = Pair::new(RC);
    for id in 0..2 {
        pair.ends[0].post(id, SendOpcode::Send, 9);
        for _ in 0..2 {
            pair.exchange(&mut |_, _| 1);
            pair.now = pair.ends[0].qp.poll_timeout().unwrap();
            let now = pair.now;
            pair.ends[0].qp.handle_timeout(now);
        }
        pair.ends[1].post_recv(7, 9);
        pair.run();
    }
    assert_eq!(pair.ends[0].statuses(), [(0, OK), (1, OK)]);
}

#[test]
fn i10_the_ack_timer_runs_retry_cnt_times_and_then_the_request_fails() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    pair.ends[0].post(2, SendOpcode::RdmaWrite, 9);
    let (start, mut attempts) = (pair.now, 0);
    pair.settle(&mut |_, packet| {
        attempts += usize::from(packet.bth().psn.get() == 0xff_fffe);
        0
    });
    assert_eq!(attempts, 4, "the first, and retry_cnt 3");
    assert_eq!(pair.now.0 - start.0, 4 * ack_timeout_ns(14).unwrap());
    assert_eq!(ack_timeout_ns(14), Some(4096 << 14));
    assert_eq!(
        pair.ends[0].statuses(),
        [(1, WcStatus::RetryExcErr), (2, FLUSH)]
    );
}

/// A peer that never answers: how long each try of a request lasts, in milliseconds, where none is
/// shorter than 8 ms, each may be twice as long as the one before up to 100 ms, and `least` ms are
/// wanted of all.
fn tries_of(attr: fn(&mut QpAttr), least: u64) -> Vec<u64> {
    const MS: u64 = 1_000_000;
    let mut setup = Setup { attr, ..RC };
    (setup.tuning.timeout_floor_ns, setup.tuning.silence_ns) = (8 * MS, 200_000);
    let mut pair = Pair::new(setup);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    let (mut tries, mut begun) = (Vec::new(), pair.now);
    pair.exchange(&mut |_, _| 0);
    while pair.ends[0].statuses().is_empty() {
        pair.now = pair.ends[0].qp.poll_timeout().unwrap();
        let now = pair.now;
        let qp = &mut pair.ends[0].qp;
        if qp.handle_timeout(now) && !qp.end_try(now, least * MS, 100 * MS) {
            tries.push((now.0 - begun.0) / MS);
            begun = now;
        }
        pair.exchange(&mut |_, _| 0);
    }
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RetryExcErr)]);
    tries
}

#[test]
fn tries_last_longer_for_a_peer_that_may_have_to_wait_for_a_processor() {
    let brief = |attr: &mut QpAttr| (attr.timeout, attr.retry_cnt) = (1, 6);
    assert_eq!(tries_of(brief, 0), [8, 16, 32, 64, 100, 100, 100]);
    assert_eq!(tries_of(brief, 100), [100; 7]);
    let longer = |attr: &mut QpAttr| (attr.timeout, attr.retry_cnt) = (14, 6);
    assert_eq!(tries_of(longer, 0), [67, 67, 67, 67, 100, 100, 100]);
    let long = |attr: &mut QpAttr| (attr.timeout, attr.retry_cnt) = (18, 1);
    assert_eq!(tries_of(long, 100), [1073; 2]);
}

#[test]
fn a_try_that_goes_on_is_used_up_by_no_answer_alone() {
    const MS: u64 = 1_000_000;
    let mut setup = Setup {
        attr: |attr| (attr.timeout, attr.retry_cnt) = (1, 1),
        ..RC
    };
    setup.tuning.timeout_floor_ns = 8 * MS;
    let mut pair = Pair::new(setup);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    pair.exchange(&mut |_, _| 0);
    pair.now = pair.ends[0].qp.poll_timeout().unwrap();
    let now = pair.now;
    let qp = &mut pair.ends[0].qp;
    assert!(!qp.handle_timeout(Instant(now.0 - 1)), "not over yet");
    assert!(qp.handle_timeout(now));
    assert!(qp.end_try(now, 100 * MS, 100 * MS));
    assert!(!qp.handle_timeout(now), "it goes on");
    // it asks at once, and the peer answers: no try was used up
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
    assert_eq!(pair.ends[0].qp.counters().timeouts, 0);
    assert_eq!(pair.now, now);
}

#[test]
fn i10_a_refusal_for_want_of_a_receive_restores_the_retries() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.rnr_retry = 7,
        ..RC
    });
    pair.ends[0].post(1, SendOpcode::Send, 9);
    // three tries are lost, the last is refused: more losses in all than retry_cnt, but never in a row
    for _ in 0..4 {
        for try_ in 0..4 {
            pair.exchange(&mut |from, _| usize::from(from == 1 || try_ == 3));
            pair.now = pair.ends[0].qp.poll_timeout().unwrap();
            let now = pair.now;
            pair.ends[0].qp.handle_timeout(now);
        }
    }
    assert_eq!(pair.ends[0].statuses(), []);
    pair.ends[1].post_recv(7, 9);
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn an_atomic_without_room_for_its_answer_fails_before_anything_is_sent() {
    for (opcode, len) in [
        (SendOpcode::FetchAdd, 0),
        (SendOpcode::FetchAdd, 7),
        (SendOpcode::CmpSwap, 4),
        (SendOpcode::CmpSwap, 9),
    ] {
        let mut pair = Pair::new(RC);
        pair.ends[0].post(1, SendOpcode::RdmaWrite, 4);
        pair.ends[0].post(2, opcode, len);
        pair.ends[0].post(3, SendOpcode::RdmaWrite, 4);
        pair.run();
        assert_eq!(
            pair.ends[0].statuses(),
            [(1, OK), (2, WcStatus::LocLenErr), (3, FLUSH)],
            "{opcode:?} {len}"
        );
        assert_eq!(pair.ends[1].memory.atomics, 0);
        assert_eq!(pair.ends[1].qp.state(), QpState::Rts, "it heard nothing");
    }
}

#[test]
fn i10_timeout_zero_never_runs_out() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.timeout = 0,
        ..RC
    });
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    pair.exchange(&mut |_, _| 0);
    assert_eq!(pair.ends[0].qp.poll_timeout(), None);
}

#[test]
fn i11_going_to_error_flushes_both_queues_in_order_and_stops_the_timers() {
    let mut pair = Pair::new(RC);
    for id in 0..3 {
        pair.ends[0].post_with(id, SendOpcode::RdmaWrite, 9, |wr| {
            wr.flags = SendFlags::empty()
        });
        pair.ends[0].post_recv(10 + id, 9);
    }
    pair.exchange(&mut |_, _| 0);
    pair.ends[0].to(QpState::Err);
    let ids: Vec<u64> = pair.ends[0].done.iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, [0, 1, 2, 10, 11, 12]);
    assert!(pair.ends[0].done.iter().all(|c| c.status == FLUSH));
    assert_eq!(pair.ends[0].qp.poll_timeout(), None, "CVE-2026-45910");
    pair.ends[0].post(3, SendOpcode::Send, 9);
    pair.ends[0].post_recv(13, 9);
    let last: Vec<_> = pair.ends[0].statuses().split_off(6);
    assert_eq!(last, [(3, FLUSH), (13, FLUSH)]);
}

#[test]
fn i11_a_local_failure_waits_for_those_before_it() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    let sges = [Sge {
        addr: 0,
        length: 9,
        lkey: 77,
    }];
    let mut bad = SendWr::new(2, SendOpcode::RdmaWrite, Payload::Gather(&sges));
    bad.rkey = RKey(KEY);
    pair.ends[0].qp.post_send(&bad).unwrap();
    pair.exchange(&mut |from, _| usize::from(from == 0));
    assert!(pair.ends[0].done.is_empty());
    pair.run();
    assert_eq!(
        pair.ends[0].statuses(),
        [(1, OK), (2, WcStatus::LocProtErr)]
    );
}

#[test]
fn a_short_receive_is_a_length_error_there_and_an_invalid_request_here() {
    let mut pair = Pair::new(RC);
    pair.ends[1].post_recv(7, 300);
    pair.ends[1].post_recv(8, 300);
    pair.ends[0].post(1, SendOpcode::Send, 301);
    pair.run();
    assert_eq!(
        pair.ends[1].statuses(),
        [(7, WcStatus::LocLenErr), (8, FLUSH)]
    );
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RemInvReqErr)]);
}

#[test]
fn a_receive_with_a_bad_key_is_an_operational_error_at_the_sender() {
    let mut pair = Pair::new(RC);
    let sge = Sge {
        addr: 0,
        length: 64,
        lkey: 77,
    };
    pair.ends[1].qp.post_recv(7, &[sge]).unwrap();
    pair.ends[0].post(1, SendOpcode::Send, 9);
    pair.run();
    assert_eq!(pair.ends[1].statuses(), [(7, WcStatus::LocProtErr)]);
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RemOpErr)]);
}

/// A request packet as a hostile peer might make it, for the second end.
fn forge(end: &mut End, now: Instant, opcode: Opcode, psn: u32, ext: Ext, payload: &[u8]) {
    let headers = Headers::new(Bth::new(opcode, Qpn(11), Psn::new(psn)), ext);
    end.receive(now, &Packet { headers, payload });
}

#[test]
fn packets_out_of_their_messages_order_are_invalid_requests() {
    let reth = |dma_length| {
        let virtual_address = 0x1000;
        Ext {
            reth: Some(Reth {
                virtual_address,
                rkey: RKey(KEY),
                dma_length,
            }),
            ..Ext::default()
        }
    };
    let cases: [(Opcode, Ext, usize); 7] = [
        (Opcode::RcSendMiddle, Ext::default(), 256),
        (Opcode::RcWriteLast, Ext::default(), 9),
        // Lengths that the headers contradict.
        (Opcode::RcWriteOnly, reth(10), 9),
        (Opcode::RcWriteOnly, reth(8), 9),
        (Opcode::RcWriteFirst, reth(256), 256),
        (Opcode::RcWriteFirst, reth(600), 255),
        (Opcode::RcReadRequest, reth((1 << 31) + 1), 0),
    ];
    for (opcode, ext, len) in cases {
        let mut pair = Pair::new(RC);
        let now = pair.now;
        forge(
            &mut pair.ends[1],
            now,
            opcode,
            0xff_fffe,
            ext,
            &[0; 256][..len],
        );
        assert_eq!(pair.ends[1].qp.state(), QpState::Err, "{opcode} {len}");
        assert!(pair.ends[1].memory.writes.is_empty());
        let mut syndrome = None;
        pair.exchange(&mut |from, packet| {
            if from == 1 {
                syndrome = packet.ext().aeth.map(|aeth| aeth.syndrome);
            }
            0
        });
        assert_eq!(
            syndrome,
            Some(Syndrome::Nak(NakCode::InvalidRequest)),
            "{opcode} {len}"
        );
    }
}

#[test]
fn answers_to_what_was_never_sent_are_dropped() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    pair.exchange(&mut |_, _| 0);
    let now = pair.now;
    for psn in [0xff_ffff, 5, 0x7f_ffff, 0xff_0000] {
        for syndrome in [
            Syndrome::Nak(NakCode::RemoteAccessError),
            Syndrome::RnrNak(1),
        ] {
            let ext = Ext {
                aeth: Some(Aeth {
                    syndrome,
                    msn: Msn(9),
                }),
                ..Ext::default()
            };
            let headers =
                Headers::new(Bth::new(Opcode::RcAcknowledge, Qpn(10), Psn::new(psn)), ext);
            pair.ends[0].receive(
                now,
                &Packet {
                    headers,
                    payload: &[],
                },
            );
        }
    }
    assert!(pair.ends[0].done.is_empty());
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn a_response_of_another_kind_is_a_bad_response() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaRead, 300);
    pair.exchange(&mut |_, _| 0);
    let aeth = Some(Aeth {
        syndrome: Syndrome::Ack(ferriband_wire::CreditCode::NONE),
        msn: Msn(1),
    });
    let ext = Ext {
        aeth,
        ..Ext::default()
    };
    let bth = Bth::new(Opcode::RcReadResponseOnly, Qpn(10), Psn::new(0xff_fffe));
    let now = pair.now;
    let headers = Headers::new(bth, ext);
    pair.ends[0].receive(
        now,
        &Packet {
            headers,
            payload: &[0; 44],
        },
    );
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::BadRespErr)]);
}

proptest! {
    /// Whatever bytes make a packet, no machine panics, and every request still completes exactly once.
    #[test]
    fn any_packets_leave_every_request_completing_once(
        packets in proptest::collection::vec(
            (any::<bool>(), 0u8..=255, 0u32..12, proptest::collection::vec(any::<u8>(), 0..300)), 0..40),
    ) {
        for types in [[QpType::Rc; 2], [QpType::Uc; 2], [QpType::Ud; 2], [QpType::XrcSend, QpType::XrcRecv]] {
            let mut pair = Pair::new(Setup { types, ..RC });
            let mut posted = 0;
            for (to, code, psn, body) in &packets {
                let side = usize::from(*to);
                if types[0] == QpType::Rc && posted < 8 {
                    pair.ends[0].post(posted, SendOpcode::RdmaRead, 300);
                    posted += 1;
                    pair.exchange(&mut |_, _| 0);
                }
                let mut bytes = vec![0; 12];
                bytes[0] = *code;
                bytes[2..4].copy_from_slice(&[0xff, 0xff]);
                bytes[9..12].copy_from_slice(&0xff_fffeu32.wrapping_add(*psn).to_be_bytes()[1..]);
                bytes.extend_from_slice(&body[..body.len() & !3]);
                if let Ok(packet) = Packet::parse(&bytes) {
                    let now = pair.now;
                    pair.ends[side].receive(now, &packet);
                }
            }
            for end in &mut pair.ends {
                end.to(QpState::Err);
            }
            let ids: Vec<u64> = pair.ends[0].done.iter().map(|c| c.wr_id).collect();
            prop_assert_eq!(ids, (0..posted).collect::<Vec<_>>());
        }
    }
}
