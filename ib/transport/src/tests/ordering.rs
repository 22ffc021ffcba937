//! Once, in order, and not before it is done: I1 to I6, I8.

use super::*;
use ferriband_wire::{NakCode, Syndrome};

fn is_ack(packet: &Packet<'_>) -> bool {
    packet.opcode() == Opcode::RcAcknowledge
}

#[test]
fn i1_a_duplicate_write_is_acknowledged_again_and_not_executed_again() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 600);
    let mut acks = 0;
    pair.settle(&mut |from, packet| {
        acks += usize::from(from == 1 && is_ack(packet));
        if from == 0 { 2 } else { 1 }
    });
    assert_eq!(
        pair.ends[1].memory.writes,
        [(0x1000, 256), (0x1100, 256), (0x1200, 88)]
    );
    assert!(acks >= 2, "the duplicates were acknowledged too");
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn i1_a_duplicate_send_consumes_no_second_receive() {
    let mut pair = Pair::new(RC);
    pair.ends[1].post_recv(7, 64);
    pair.ends[1].post_recv(8, 64);
    pair.ends[0].post(1, SendOpcode::Send, 9);
    pair.settle(&mut |_, _| 2);
    assert_eq!(pair.ends[1].statuses(), [(7, OK)]);
}

#[test]
fn i2_an_atomic_whose_answer_was_lost_executes_once() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post_with(1, SendOpcode::FetchAdd, 8, |wr| wr.compare_add = 5);
    let mut lost = 2;
    pair.settle(&mut |from, _| {
        if from == 1 && lost > 0 {
            lost -= 1;
            return 0;
        }
        1
    });
    assert_eq!(pair.ends[1].memory.atomics, 1);
    assert_eq!(pair.ends[1].memory.bytes[0x1000], 5);
    assert_eq!(pair.ends[0].memory.bytes[..8], [0; 8], "the value before");
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn i2_an_unknown_duplicate_atomic_is_dropped() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.max_dest_rd_atomic = 1,
        ..RC
    });
    let mut first = Vec::new();
    for id in 0..2 {
        pair.ends[0].post_with(id, SendOpcode::FetchAdd, 8, |wr| wr.compare_add = 1);
        pair.settle(&mut |from, packet| {
            if from == 0 && first.is_empty() {
                first = keep(packet);
            }
            1
        });
    }
    let now = pair.now;
    pair.ends[1].receive(now, &Packet::parse(&first).unwrap());
    let mut answers = 0;
    pair.exchange(&mut |_, _| {
        answers += 1;
        1
    });
    assert_eq!((answers, pair.ends[1].memory.atomics), (0, 2));
}

#[test]
fn i3_a_lost_read_response_is_asked_for_from_there_on() {
    let mut pair = Pair::new(RC);
    for (i, byte) in pair.ends[1].memory.bytes[0x1000..0x1400]
        .iter_mut()
        .enumerate()
    {
        *byte = (i / 3) as u8;
    }
    pair.ends[0].post(1, SendOpcode::RdmaRead, 1000);
    let (mut requests, mut seen) = (Vec::new(), 0);
    pair.settle(&mut |from, packet| {
        if let (0, Some(reth)) = (from, packet.ext().reth) {
            requests.push((
                packet.bth().psn.get(),
                reth.virtual_address,
                reth.dma_length,
            ));
            return 1;
        }
        seen += 1;
        usize::from(seen != 2)
    });
    assert_eq!(
        requests,
        [(0xff_fffe, 0x1000, 1000), (0xff_ffff, 0x1100, 744)]
    );
    let (got, want) = (&pair.ends[0].memory.bytes, &pair.ends[1].memory.bytes);
    assert_eq!(got[..1000], want[0x1000..0x1000 + 1000]);
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn i4_a_send_completes_after_its_acknowledgement_and_a_write_is_placed_in_ascending_order() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 700);
    pair.exchange(&mut |from, _| usize::from(from == 0));
    assert!(
        pair.ends[0].done.is_empty(),
        "no acknowledgement has arrived"
    );
    let addrs: Vec<u64> = pair.ends[1]
        .memory
        .writes
        .iter()
        .map(|&(addr, _)| addr)
        .collect();
    assert_eq!(
        addrs,
        [0x1000, 0x1100, 0x1200],
        "the last byte is the last one written"
    );
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn i5_a_long_message_crosses_the_end_of_the_psn_space() {
    let mut pair = Pair::new(RC);
    pair.ends[0].memory.bytes[..2560].fill(9);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 2560);
    let mut psns = Vec::new();
    pair.settle(&mut |from, packet| {
        if from == 0 {
            psns.push(packet.bth().psn.get());
        }
        1
    });
    assert_eq!(psns, [0xff_fffe, 0xff_ffff, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(
        pair.ends[1].memory.bytes[0x1000..0x1a00]
            .iter()
            .all(|&b| b == 9)
    );
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

#[test]
fn a_long_read_is_asked_for_in_pieces_as_many_as_the_window_and_the_peer_take() {
    let mut pair = Pair::new(RC);
    let sges = [Sge {
        addr: 0,
        length: 1 << 31,
        lkey: LOCAL_KEY,
    }];
    let mut read = SendWr::new(1, SendOpcode::RdmaRead, Payload::Gather(&sges));
    read.rkey = RKey(KEY);
    let end = &mut pair.ends[0];
    end.qp.set_window(WindowLimit {
        responses_bytes: 12 * 256,
        ..WindowLimit::default()
    });
    end.qp.post_send(&read).unwrap();
    let mut buf = [0; MAX_PACKET_BYTES];
    let mut asked = Vec::new();
    while let Some(sent) = end.qp.poll_transmit(pair.now, &mut end.memory, &mut buf) {
        let packet = Packet::parse(&buf[..sent.len]).unwrap();
        let reth = packet.ext().reth.unwrap();
        asked.push((
            packet.bth().psn.get(),
            reth.virtual_address,
            reth.dma_length,
        ));
    }
    // Four at once are allowed, so each asks for a quarter of twelve packets.
    let piece = 3 * 256;
    assert_eq!(
        asked,
        [
            (0xff_fffe, 0, 768),
            (1, piece, 768),
            (4, 2 * piece, 768),
            (7, 3 * piece, 768)
        ]
    );
}

#[test]
fn a_read_in_pieces_arrives_whole_whatever_is_lost_and_later_messages_are_counted_right() {
    for lost in 0..24 {
        let mut pair = Pair::new(RC);
        for (i, byte) in pair.ends[1].memory.bytes[0x1000..0x2000]
            .iter_mut()
            .enumerate()
        {
            *byte = (i % 251) as u8;
        }
        pair.ends[0].qp.set_window(WindowLimit {
            responses_bytes: 8 * 256,
            ..WindowLimit::default()
        });
        pair.ends[0].post(1, SendOpcode::RdmaRead, 4000);
        for id in 2..5 {
            pair.ends[1].post_recv(id, 64);
            pair.ends[0].post(id, SendOpcode::Send, 8);
        }
        let mut travelled = 0;
        pair.settle(&mut |_, _| {
            travelled += 1;
            usize::from(travelled != lost)
        });
        assert_eq!(
            pair.ends[0].statuses(),
            [(1, OK), (2, OK), (3, OK), (4, OK)],
            "packet {lost} lost"
        );
        let expected: Vec<u8> = (0..4000).map(|i| (i % 251) as u8).collect();
        assert_eq!(
            pair.ends[0].memory.bytes[..4000],
            expected,
            "packet {lost} lost"
        );
    }
}

#[test]
fn i6_one_nak_per_gap_and_it_acknowledges_what_came_before() {
    let mut pair = Pair::new(RC);
    for id in 0..4 {
        pair.ends[0].post(id, SendOpcode::RdmaWrite, 10);
    }
    let (mut sent, mut naks) = (0, Vec::new());
    let mut at_first_nak = usize::MAX;
    // The second of four is lost once, and no plain acknowledgement arrives.
    pair.settle(&mut |from, packet| {
        if from == 0 {
            sent += 1;
            return usize::from(sent != 2);
        }
        if let Some(Syndrome::Nak(NakCode::PsnSequenceError)) =
            packet.ext().aeth.map(|aeth| aeth.syndrome)
        {
            naks.push(packet.bth().psn.get());
            at_first_nak = at_first_nak.min(sent);
            return 1;
        }
        usize::from(sent > 4)
    });
    assert_eq!(naks, [0xff_ffff]);
    assert!(
        at_first_nak <= 4,
        "the gap was told at once, not after a time-out"
    );
    assert_eq!(pair.ends[1].memory.writes.len(), 4);
    assert_eq!(
        pair.ends[0].statuses(),
        [(0, OK), (1, OK), (2, OK), (3, OK)]
    );
}

#[test]
fn i6_a_second_gap_gets_its_own_nak() {
    let mut pair = Pair::new(RC);
    for id in 0..6 {
        pair.ends[0].post(id, SendOpcode::RdmaWrite, 10);
    }
    let (mut lost, mut naks) = (Vec::new(), 0);
    let start = pair.now;
    pair.settle(&mut |from, packet| {
        let psn = packet.bth().psn.get();
        let gap = from == 0 && [0xff_ffff, 1].contains(&psn) && !lost.contains(&psn);
        if gap {
            lost.push(psn);
        }
        let nak = packet
            .ext()
            .aeth
            .is_some_and(|aeth| matches!(aeth.syndrome, Syndrome::Nak(_)));
        naks += usize::from(from == 1 && nak);
        usize::from(!gap)
    });
    assert_eq!(naks, 2);
    assert_eq!(pair.now, start, "no timer was needed");
    assert_eq!(pair.ends[0].done.len(), 6);
}

#[test]
fn i6_a_coalesced_acknowledgement_completes_all_before_it() {
    let mut pair = Pair::new(RC);
    for id in 0..5 {
        pair.ends[0].post(id, SendOpcode::RdmaWrite, 10);
    }
    let mut buf = [0; MAX_PACKET_BYTES];
    let now = pair.now;
    for _ in 0..5 {
        let [a, b] = &mut pair.ends;
        let sent = a.qp.poll_transmit(now, &mut a.memory, &mut buf).unwrap();
        b.receive(now, &Packet::parse(&buf[..sent.len]).unwrap());
    }
    let mut log_of = Vec::new();
    pair.exchange(&mut log(&mut log_of));
    assert_eq!(log_of, [(1, Opcode::RcAcknowledge)], "one for all");
    assert_eq!(pair.ends[0].done.len(), 5);
}

#[test]
fn i8_reads_beyond_max_rd_atomic_wait() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.max_rd_atomic = 2,
        ..RC
    });
    for id in 0..5 {
        pair.ends[0].post(id, SendOpcode::RdmaRead, 300);
    }
    let mut requests = 0;
    pair.exchange(&mut |from, _| {
        requests += usize::from(from == 0);
        usize::from(from == 0)
    });
    assert_eq!(requests, 2);
    pair.run();
    assert_eq!(pair.ends[0].done.len(), 5);
}

#[test]
fn i8_a_responder_refuses_more_reads_than_it_agreed_to() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.max_dest_rd_atomic = 1,
        ..RC
    });
    let now = pair.now;
    let mut buf = [0; MAX_PACKET_BYTES];
    for id in 0..2 {
        let [a, b] = &mut pair.ends;
        a.post(id, SendOpcode::RdmaRead, 10);
        let sent = a.qp.poll_transmit(now, &mut a.memory, &mut buf).unwrap();
        b.receive(now, &Packet::parse(&buf[..sent.len]).unwrap());
    }
    pair.run();
    assert_eq!(
        pair.ends[0].statuses(),
        [(0, OK), (1, WcStatus::RemInvReqErr)]
    );
    assert_eq!(pair.ends[1].events, [QpEvent::QpReqErr]);
}

#[test]
fn a_fence_waits_for_reads_and_nothing_else_does() {
    for (flags, order) in [
        (
            SendFlags::SIGNALED | SendFlags::FENCE,
            [Opcode::RcReadRequest, Opcode::RcReadResponseOnly],
        ),
        (
            SendFlags::SIGNALED,
            [Opcode::RcReadRequest, Opcode::RcWriteOnly],
        ),
    ] {
        let mut pair = Pair::new(RC);
        pair.ends[0].post(1, SendOpcode::RdmaRead, 10);
        pair.ends[0].post_with(2, SendOpcode::RdmaWrite, 10, |wr| wr.flags = flags);
        let end = &mut pair.ends[0];
        let mut buf = [0; MAX_PACKET_BYTES];
        let mut log_of = Vec::new();
        while let Some(sent) = end.qp.poll_transmit(pair.now, &mut end.memory, &mut buf) {
            log_of.push(Packet::parse(&buf[..sent.len]).unwrap().opcode());
        }
        let expected = if flags.contains(SendFlags::FENCE) {
            &order[..1]
        } else {
            &order[..]
        };
        assert_eq!(log_of, expected);
    }
}

#[test]
fn beyond_the_credits_one_packet_asks() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::Send, 600);
    pair.ends[0].post(2, SendOpcode::Send, 600);
    let end = &mut pair.ends[0];
    let mut buf = [0; MAX_PACKET_BYTES];
    let sent = end
        .qp
        .poll_transmit(pair.now, &mut end.memory, &mut buf)
        .unwrap();
    let packet = Packet::parse(&buf[..sent.len]).unwrap();
    assert_eq!(packet.opcode(), Opcode::RcSendFirst);
    assert!(packet.bth().ack_req);
    let first = keep(&packet);
    assert!(
        end.qp
            .poll_transmit(pair.now, &mut end.memory, &mut buf)
            .is_none()
    );
    // Two receives are there: their count comes back with the answer and opens the way.
    pair.ends[1].post_recv(7, 600);
    pair.ends[1].post_recv(8, 600);
    let now = pair.now;
    pair.ends[1].receive(now, &Packet::parse(&first).unwrap());
    let start = pair.now;
    pair.run();
    assert_eq!(pair.now, start, "no timer was needed");
    assert_eq!(pair.ends[0].statuses(), [(1, OK), (2, OK)]);
    assert_eq!(pair.ends[1].statuses(), [(7, OK), (8, OK)]);
}

#[test]
fn a_late_read_response_saves_asking_for_its_part_again() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaRead, 600);
    let mut responses = Vec::new();
    pair.exchange(&mut |from, packet| {
        if from == 1 {
            responses.push(keep(packet));
        }
        usize::from(from == 0)
    });
    pair.now = pair.ends[0].qp.poll_timeout().unwrap();
    let now = pair.now;
    let end = &mut pair.ends[0];
    end.qp.handle_timeout(now);
    end.receive(now, &Packet::parse(&responses[0]).unwrap());
    let mut again = Vec::new();
    pair.settle(&mut |from, packet| {
        if from == 0 {
            again.push((
                packet.bth().psn.get(),
                packet.ext().reth.map(|r| r.dma_length),
            ));
        }
        1
    });
    assert_eq!(again, [(0xff_ffff, Some(344))]);
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
}

proptest::proptest! {
    /// I1, I4, I5: whatever the length, the MTU and the packets lost, the bytes arrive once, in ascending order, and
    /// the completion comes when they are there.
    #[test]
    fn any_message_arrives_whole_whatever_is_lost(
        code in 1u8..=5, len in 0u32..6000, kind in 0usize..3, losses in proptest::prelude::any::<u64>(),
    ) {
        let opcode = [SendOpcode::RdmaWrite, SendOpcode::RdmaRead, SendOpcode::Send][kind];
        let mtu = Mtu::from_code(code).unwrap();
        let mut pair = Pair::new(Setup { mtu, attr: |attr| attr.retry_cnt = 7, ..RC });
        for (i, byte) in pair.ends[0].memory.bytes[..6000].iter_mut().enumerate() {
            *byte = (i % 251) as u8;
        }
        for (i, byte) in pair.ends[1].memory.bytes[0x1000..0x1000 + 6000].iter_mut().enumerate() {
            *byte = (i % 241) as u8;
        }
        let source = pair.ends[0].memory.bytes[..len as usize].to_vec();
        let remote = pair.ends[1].memory.bytes[0x1000..0x1000 + len as usize].to_vec();
        pair.ends[1].post_recv(7, len);
        pair.ends[0].post(1, opcode, len);
        // At most six losses in a row: less than the retries allow.
        let mut packet = 0;
        let mut in_a_row = 0;
        pair.settle(&mut |_, _| {
            packet = (packet + 1) % 64;
            let lost = losses >> packet & 1 == 1 && in_a_row < 6;
            in_a_row = if lost { in_a_row + 1 } else { 0 };
            usize::from(!lost)
        });
        let status = pair.ends[0].statuses();
        // Losses that fall on every answer may still use up the retries; then nothing is claimed.
        if status == [(1, OK)] {
            let (near, far) = (&pair.ends[0].memory.bytes, &pair.ends[1].memory.bytes);
            match opcode {
                SendOpcode::RdmaRead => proptest::prop_assert_eq!(&near[..len as usize], &remote[..]),
                SendOpcode::Send => {
                    proptest::prop_assert_eq!(&far[0x8000..0x8000 + len as usize], &source[..]);
                    proptest::prop_assert_eq!(pair.ends[1].done[0].byte_len, len);
                }
                _ => {
                    proptest::prop_assert_eq!(&far[0x1000..0x1000 + len as usize], &source[..]);
                    let mut at = 0x1000;
                    for &(addr, bytes) in &pair.ends[1].memory.writes {
                        proptest::prop_assert_eq!(addr, at);
                        at += bytes as u64;
                    }
                    proptest::prop_assert_eq!(at, 0x1000 + u64::from(len));
                }
            }
        } else {
            proptest::prop_assert_eq!(status, [(1, WcStatus::RetryExcErr)]);
        }
    }
}
