//! The services and the states around them: UC, UD, XRC, shared receives, SQD, events.

use super::*;
use crate::send_queue::{Datagram, PostError};
use crate::types::{WcFlags, WcOpcode};
use ferriband_wire::Service;

fn datagram(pair: &mut Pair, wr_id: u64, len: u32, qkey: u32) {
    let to = Datagram {
        qpn: Qpn(11),
        qkey: QKey(qkey),
        ..Datagram::default()
    };
    pair.ends[0].post_with(wr_id, SendOpcode::SendImm, len, |wr| {
        wr.datagram = Some(to);
        wr.imm_or_key = 0xabcd;
    });
}

const UD: Setup = Setup {
    types: [QpType::Ud; 2],
    ..RC
};
const UC: Setup = Setup {
    types: [QpType::Uc; 2],
    ..RC
};
const XRC: Setup = Setup {
    types: [QpType::XrcSend, QpType::XrcRecv],
    ..RC
};

#[test]
fn a_datagram_arrives_behind_forty_bytes_with_its_sender_named() {
    let mut pair = Pair::new(UD);
    pair.ends[0].memory.bytes[..9].fill(4);
    pair.ends[1].post_recv(7, 49);
    datagram(&mut pair, 1, 9, 5);
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
    let c = pair.ends[1].done[0];
    assert_eq!(
        (c.byte_len, c.src_qp, c.slid, c.imm_or_rkey),
        (49, 10, 1, 0xabcd)
    );
    assert_eq!(c.flags, WcFlags::WITH_IMM, "no route header was there");
    assert_eq!(pair.ends[1].memory.bytes[0x8028..0x8031], [4; 9]);
}

#[test]
fn a_route_header_is_kept_and_flagged() {
    let mut pair = Pair::new(UD);
    pair.ends[1].post_recv(7, 64);
    datagram(&mut pair, 1, 9, 5);
    let mut bytes = Vec::new();
    pair.settle(&mut |_, packet| {
        bytes = keep(packet);
        0
    });
    let meta = PacketMeta {
        grh: Some(&[6; 40]),
        ..PacketMeta::default()
    };
    let now = pair.now;
    pair.ends[1].receive_by(now, &meta, &Packet::parse(&bytes).unwrap());
    assert!(pair.ends[1].done[0].flags.contains(WcFlags::GRH));
    assert_eq!(pair.ends[1].memory.bytes[0x8000..0x8028], [6; 40]);
}

#[test]
fn datagrams_with_a_wrong_qkey_or_too_long_for_the_receive_are_dropped() {
    let mut pair = Pair::new(UD);
    pair.ends[1].post_recv(7, 50);
    datagram(&mut pair, 1, 9, 6);
    datagram(&mut pair, 2, 11, 5);
    // The top bit asks for the queue pair's own Q_Key.
    datagram(&mut pair, 3, 10, 1 << 31);
    pair.run();
    assert_eq!(pair.ends[0].done.len(), 3);
    assert_eq!(pair.ends[1].statuses(), [(7, OK)]);
    assert_eq!(pair.ends[1].done[0].byte_len, 50);
}

#[test]
fn a_failed_datagram_stops_the_send_queue_alone_and_rts_revives_it() {
    let mut pair = Pair::new(UD);
    datagram(&mut pair, 1, 1025, 5);
    datagram(&mut pair, 2, 9, 5);
    pair.run();
    assert_eq!(
        pair.ends[0].statuses(),
        [(1, WcStatus::LocLenErr), (2, FLUSH)]
    );
    assert_eq!(pair.ends[0].qp.state(), QpState::Sqe);
    pair.ends[0].to(QpState::Rts);
    pair.ends[1].post_recv(7, 64);
    datagram(&mut pair, 3, 9, 5);
    pair.run();
    assert_eq!(pair.ends[1].statuses(), [(7, OK)]);
}

#[test]
fn services_refuse_operations_that_they_do_not_have() {
    let sges = [Sge::default()];
    let payload = Payload::Gather(&sges);
    let read = SendWr::new(1, SendOpcode::RdmaRead, payload);
    let send = SendWr::new(1, SendOpcode::Send, payload);
    assert!(matches!(
        Pair::new(UC).ends[0].qp.post_send(&read),
        Err(PostError::Opcode(_))
    ));
    assert!(matches!(
        Pair::new(UD).ends[0].qp.post_send(&send),
        Err(PostError::Opcode(_))
    ));
    assert!(matches!(
        Pair::new(XRC).ends[1].qp.post_send(&send),
        Err(PostError::Opcode(_))
    ));
    assert!(Pair::new(XRC).ends[0].qp.post_recv(1, &sges).is_err());
}

#[test]
fn uc_drops_a_message_with_a_gap_and_uses_its_receive_for_the_next() {
    let mut pair = Pair::new(UC);
    pair.ends[1].post_recv(7, 600);
    pair.ends[0].post(1, SendOpcode::Send, 600);
    pair.ends[0].post(2, SendOpcode::Send, 500);
    let mut sent = 0;
    pair.settle(&mut |_, _| {
        sent += 1;
        usize::from(sent != 2)
    });
    assert_eq!(pair.ends[0].statuses(), [(1, OK), (2, OK)]);
    assert_eq!(pair.ends[1].statuses(), [(7, OK)]);
    assert_eq!(pair.ends[1].done[0].byte_len, 500);
}

#[test]
fn an_xrc_target_draws_from_the_queue_that_the_packet_names() {
    let mut pair = Pair::new(XRC);
    let sge = Sge {
        addr: 0x8000,
        length: 600,
        lkey: LOCAL_KEY,
    };
    pair.ends[1].memory.shared.push_back((7, sge));
    pair.ends[0].post(1, SendOpcode::Send, 600);
    let mut service = None;
    pair.settle(&mut |_, packet| {
        service = Some(packet.opcode().service());
        1
    });
    assert_eq!(service, Some(Service::Xrc));
    assert_eq!(pair.ends[1].statuses(), [(7, OK)]);
    assert_eq!(pair.ends[1].targets, [CompletionTarget::XrcSrq(3)]);
    pair.ends[0].post_with(2, SendOpcode::Send, 9, |wr| wr.xrc_srq = 4);
    pair.run();
    assert_eq!(
        pair.ends[0].statuses(),
        [(1, OK), (2, WcStatus::RemInvReqErr)]
    );
}

#[test]
fn a_shared_receive_queue_gives_no_credits_and_says_when_it_is_left() {
    let mut pair = Pair::new(Setup { shared: true, ..RC });
    let sge = Sge {
        addr: 0x8000,
        length: 64,
        lkey: LOCAL_KEY,
    };
    pair.ends[1].memory.shared.push_back((7, sge));
    pair.ends[0].post(1, SendOpcode::Send, 9);
    pair.run();
    assert_eq!(pair.ends[1].statuses(), [(7, OK)]);
    assert_eq!(pair.ends[1].targets, [CompletionTarget::Recv]);
    pair.ends[1].to(QpState::Err);
    assert_eq!(pair.ends[1].events, [QpEvent::LastWqeReached]);
}

#[test]
fn completions_that_nobody_polls_hold_up_a_shared_queue_instead_of_being_lost() {
    let mut pair = Pair::new(Setup {
        shared: true,
        attr: |attr| attr.timeout = 8,
        ..RC
    });
    let sge = Sge {
        addr: 0x8000,
        length: 64,
        lkey: LOCAL_KEY,
    };
    for id in 0..20 {
        pair.ends[1].memory.shared.push_back((id, sge));
    }
    for id in 0..20 {
        pair.ends[0].post(id, SendOpcode::Send, 1);
    }
    // The receiver's driver polls nothing at first.
    let now = pair.now;
    let mut buf = [0; MAX_PACKET_BYTES];
    let mut unpolled = 0;
    let [a, b] = &mut pair.ends;
    for _ in 0..60 {
        if let Some(sent) = a.qp.poll_transmit(now, &mut a.memory, &mut buf) {
            let packet = Packet::parse(&buf[..sent.len]).unwrap();
            let taken =
                b.qp.handle_packet(now, &mut b.memory, &PacketMeta::default(), &packet);
            unpolled += u32::from(taken == Err(Drop::Unpolled));
        }
        if let Some(sent) = b.qp.poll_transmit(now, &mut b.memory, &mut buf) {
            a.receive(now, &Packet::parse(&buf[..sent.len]).unwrap());
        }
    }
    assert!(b.memory.shared.len() >= 4, "receives are left untouched");
    assert!(unpolled > 0, "and the driver is told why");
    pair.run();
    let ids: Vec<u64> = pair.ends[1].done.iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
}

#[test]
fn send_with_invalidate_revokes_the_key_before_the_receive_completes() {
    let mut pair = Pair::new(RC);
    pair.ends[1].post_recv(7, 64);
    pair.ends[0].post_with(1, SendOpcode::SendInv, 9, |wr| wr.imm_or_key = KEY);
    pair.run();
    let c = pair.ends[1].done[0];
    assert_eq!((c.flags, c.imm_or_rkey), (WcFlags::WITH_INV, KEY));
    assert!(pair.ends[1].memory.revoked);
}

#[test]
fn local_operations_wait_for_those_before_them() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    pair.ends[0].post_with(2, SendOpcode::LocalInv, 0, |wr| wr.imm_or_key = 5);
    pair.exchange(&mut |from, _| usize::from(from == 0));
    assert!(
        !pair.ends[0].memory.revoked,
        "a retransmission may still need it"
    );
    pair.run();
    assert!(pair.ends[0].memory.revoked);
    let opcodes: Vec<_> = pair.ends[0].done.iter().map(|c| c.opcode).collect();
    assert_eq!(opcodes, [WcOpcode::RdmaWrite, WcOpcode::LocalInv]);
}

#[test]
fn inline_bytes_are_those_of_the_time_of_posting() {
    let mut pair = Pair::new(RC);
    let mut bytes = *b"then";
    let mut wr = SendWr::new(1, SendOpcode::RdmaWrite, Payload::Inline(&bytes));
    (wr.remote_addr, wr.rkey) = (0x1000, RKey(KEY));
    pair.ends[0].qp.post_send(&wr).unwrap();
    bytes.fill(0);
    pair.run();
    assert_eq!(&pair.ends[1].memory.bytes[0x1000..0x1004], b"then");
    assert!(pair.ends[0].done.is_empty(), "it was not signaled");
}

#[test]
fn sqd_finishes_what_has_begun_tells_when_drained_and_goes_on_in_rts() {
    let tuning = Tuning {
        max_inflight_packets: 1,
        ..RC.tuning
    };
    let mut pair = Pair::new(Setup { tuning, ..RC });
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 600);
    pair.ends[0].post(2, SendOpcode::RdmaWrite, 9);
    let end = &mut pair.ends[0];
    let mut buf = [0; MAX_PACKET_BYTES];
    // One packet of the first request has left, and is lost.
    assert!(
        end.qp
            .poll_transmit(pair.now, &mut end.memory, &mut buf)
            .is_some()
    );
    end.attr.state = QpState::Sqd;
    end.attr.en_sqd_async_notify = true;
    let mask = QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY;
    end.qp.modify(&end.attr, mask).unwrap();
    end.collect();
    assert!(end.qp.query().sq_draining && end.events.is_empty());
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
    assert_eq!(pair.ends[0].events, [QpEvent::SqDrained]);
    assert!(!pair.ends[0].qp.query().sq_draining);
    pair.ends[0].to(QpState::Rts);
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK), (2, OK)]);
}

#[test]
fn the_first_packet_in_rtr_establishes_the_connection() {
    let mut pair = Pair::new(RC);
    for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
        pair.ends[1].to(state);
    }
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 600);
    pair.run();
    assert_eq!(pair.ends[1].events, [QpEvent::CommEst], "once");
    assert_eq!(pair.ends[0].statuses(), [(1, OK)], "RTR answers");
}
