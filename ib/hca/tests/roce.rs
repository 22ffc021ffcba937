//! The RoCEv2 wire with real queue pairs and real packets: device `ferri_lo`, in a network of its own where the system allows one,
//! both sides in one process and in two. What goes over it must end as it does on the direct wire.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::memory::Kind;
use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey), ("pong", pong_role), ("accept", accept_role)]);
}

/// Timers that no load of the machine sets off.
const PATIENT: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: (2 << 20) + 4096,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 512,
    cqe: 256,
    timeout: 14,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

on_all_packets!(
    every_operation_of_every_length_brings_its_bytes_and_no_others,
    {
        let lens = [
            0u32,
            1,
            7,
            8,
            1023,
            1024,
            1025,
            2048,
            4096,
            5000,
            65_536,
            100_000,
            2 << 20,
        ];
        everywhere(|a, b| {
            let mut pair = Pair::alike(a, b, PATIENT);
            for (round, len) in lens.into_iter().enumerate() {
                one_of_each(&mut pair, len, round as u8 + 1);
            }
            atomics(&mut pair);
        });
    }
);

fn one_of_each(Pair { a, b, ai, bi }: &mut Pair, len: u32, fill: u8) {
    use SendOpcode::*;
    let size = len as usize;
    for op in [Send, SendImm, RdmaWrite, RdmaWriteImm] {
        a.fill(ai, 0, size, fill);
        b.fill(bi, 0, size + 1, 0x77);
        b.recv(bi, 11, 0, PATIENT.len as u32);
        let imm = 0x1234_5678;
        a.post(
            ai,
            &Ask {
                imm,
                ..Ask::new(op, len, bi).id(1)
            },
        );
        a.expect(ai, 1, WcStatus::Success);
        if op == RdmaWrite {
            b.expect_quiet(bi, 0);
            // uses the receive up
            a.post(ai, &Ask::new(Send, 0, bi).id(2));
            a.expect(ai, 2, WcStatus::Success);
            b.expect(bi, 11, WcStatus::Success);
        } else {
            let got = b.wait(bi);
            assert_eq!((got.wr_id, got.status, got.len), (11, 0, len), "{op:?}");
            if op != Send {
                assert_eq!(got.imm, imm, "{op:?}");
            }
        }
        if size > 0 {
            b.expect_bytes(bi, 0, size, fill);
        }
        b.expect_bytes(bi, size, 1, 0x77);
    }
    b.fill(bi, 0, size, fill | 0x80);
    a.fill(ai, 0, size + 1, 0x55);
    a.post(ai, &Ask::new(RdmaRead, len, bi).id(3));
    a.expect(ai, 3, WcStatus::Success);
    if size > 0 {
        a.expect_bytes(ai, 0, size, fill | 0x80);
    }
    a.expect_bytes(ai, size, 1, 0x55);
}

fn atomics(Pair { a, b, ai, bi }: &mut Pair) {
    b.fill(bi, 0, 16, 0);
    for wr_id in 0..20u64 {
        a.post(
            ai,
            &Ask {
                add: 2,
                ..Ask::new(SendOpcode::FetchAdd, 8, bi).id(wr_id)
            },
        );
        a.expect(ai, wr_id, WcStatus::Success);
        a.expect_bytes(ai, 0, 1, 2 * wr_id as u8);
    }
    for (compare, swap, left) in [(39, 1, 40), (40, 7, 7)] {
        let ask = Ask {
            add: compare,
            swap,
            ..Ask::new(SendOpcode::CmpSwap, 8, bi).id(30)
        };
        a.post(ai, &ask);
        a.expect(ai, 30, WcStatus::Success);
        a.expect_bytes(ai, 0, 1, 40);
        b.expect_bytes(bi, 0, 1, left);
    }
    b.expect_bytes(bi, 8, 8, 0);
}

on_all_packets!(inline_data_and_scattered_elements_arrive_as_one_message, {
    everywhere(|a, b| {
        let Pair {
            mut a,
            mut b,
            ai,
            bi,
        } = Pair::alike(a, b, PATIENT);
        for len in [0u32, 1, 63, 64, 65, 512] {
            b.fill(&bi, 0, 600, 0x77);
            b.recv(&bi, 1, 0, 600);
            a.fill(&ai, 0, 600, 0x21);
            let flags = (SendFlags::SIGNALED | SendFlags::INLINE).bits();
            a.post(
                &ai,
                &Ask {
                    flags,
                    lkey: Some(0),
                    ..Ask::new(SendOpcode::Send, len, &bi)
                },
            );
            // the bytes were taken when the request was posted
            a.fill(&ai, 0, 600, 0x99);
            a.expect(&ai, 1, WcStatus::Success);
            let got = b.wait(&bi);
            assert_eq!((got.status, got.len), (0, len));
            if len > 0 {
                b.expect_bytes(&bi, 0, len as usize, 0x21);
            }
            b.expect_bytes(&bi, len as usize, 1, 0x77);
        }
        a.fill(&ai, 0, 5000, 0x42);
        b.fill(&bi, 0, 20_001, 0);
        a.post(
            &ai,
            &Ask {
                elements: 4,
                ..Ask::new(SendOpcode::RdmaWrite, 5000, &bi).id(2)
            },
        );
        a.expect(&ai, 2, WcStatus::Success);
        b.expect_bytes(&bi, 0, 20_000, 0x42);
        b.expect_bytes(&bi, 20_000, 1, 0);
    });
});

on_all_packets!(an_unreliable_connection_brings_messages_whole, {
    let setup = Setup {
        service: QpType::Uc,
        ..PATIENT
    };
    everywhere(|a, b| {
        let Pair {
            mut a,
            mut b,
            ai,
            bi,
        } = Pair::alike(a, b, setup);
        for (round, len) in [0u32, 1, 1024, 1025, 4096, 60_000].into_iter().enumerate() {
            for op in [SendOpcode::Send, SendOpcode::RdmaWriteImm] {
                let fill = round as u8 + 1;
                a.fill(&ai, 0, len as usize, fill);
                b.fill(&bi, 0, len as usize + 1, 0x77);
                b.recv(&bi, 5, 0, 1 << 20);
                a.post(&ai, &Ask::new(op, len, &bi));
                a.expect(&ai, 1, WcStatus::Success);
                let got = b.wait(&bi);
                assert_eq!((got.wr_id, got.status, got.len), (5, 0, len), "{op:?}");
                if len > 0 {
                    b.expect_bytes(&bi, 0, len as usize, fill);
                }
                b.expect_bytes(&bi, len as usize, 1, 0x77);
            }
        }
    });
});

on_packets!(
    datagrams_bring_the_network_header_and_a_wrong_qkey_brings_nothing,
    {
        let ctx = Context::open(0).unwrap();
        let setup = Setup {
            service: QpType::Ud,
            len: 16 << 10,
            ..PATIENT
        };
        let (a, b) = (
            Endpoint::new(&ctx, setup).unwrap(),
            Endpoint::new(&ctx, setup).unwrap(),
        );
        join(&a, &b);
        let ah = a.pd.create_ah(a.path(0)).unwrap();
        let send = |len: u32, qkey: u32| {
            let sges = [Sge {
                addr: a.base(),
                length: len,
                lkey: a.mr.key(),
            }];
            a.qp.post_send(&SendRequest {
                wr_id: 1,
                opcode: SendOpcode::SendImm,
                flags: SendFlags::SIGNALED,
                sges: &sges,
                imm_or_key: 77,
                remote_addr: 0,
                rkey: 0,
                compare_add: 0,
                swap: 0,
                ah: Some(&ah),
                remote_qpn: b.qp.qpn,
                remote_qkey: qkey,
                srqn: 0,
                bind: None,
            })
            .unwrap();
            assert_eq!(a.wait().status, 0);
        };
        let most = ctx.query_port(1).unwrap().mtu.bytes();
        for len in [0, 1, 100, most] {
            a.memory.fill(0, len as usize, 0x3c);
            b.memory.fill(0, b.memory.len(), 0x77);
            b.recv(9, 0, 40 + most, None).unwrap();
            // nobody hears of it, and the receive stays
            send(len, 0x12);
            send(len, 0x11);
            let got = b.wait();
            assert_eq!(
                (got.wr_id, got.status, got.len, got.imm),
                (9, 0, 40 + len, 77)
            );
            let header: Vec<u8> = (20..40).map(|at| b.memory.byte(at)).collect();
            assert_eq!(header[0], 0x45, "an IPv4 header in the last twenty bytes");
            assert_eq!(
                (&header[12..16], &header[16..]),
                (&[127, 0, 0, 1][..], &[127, 0, 0, 1][..])
            );
            if len > 0 {
                assert_eq!(b.memory.extremes(40, len as usize), (0x3c, 0x3c));
            }
            assert_eq!(b.memory.byte(40 + len as usize), 0x77);
            assert_eq!(b.poll(), None);
        }
    }
);

on_packets!(
    who_is_attached_to_an_ip_group_gets_what_is_sent_there_but_the_sender,
    {
        let ctx = Context::open(0).unwrap();
        let setup = Setup {
            service: QpType::Ud,
            len: 4 << 10,
            ..PATIENT
        };
        let ends: Vec<Endpoint> = (0..3)
            .map(|_| Endpoint::new(&ctx, setup).unwrap())
            .collect();
        let [a, b, c] = &ends[..] else { unreachable!() };
        join(a, b);
        c.connect(a.qp.qpn, 0).unwrap();
        let lid = ferriband_wire::Lid(0);
        // IPv4 alone: the kernel has no route to IPv6 groups on the loopback interface (between two hosts: `ferriband demo`)
        let group: std::net::IpAddr = "239.7.8.9".parse().unwrap();
        let mgid = ferriband_wire::Gid::from(group);
        let of_v4 = |index: &u32| {
            let entry = ctx.query_gid(1, *index);
            entry.is_ok_and(|entry| entry.gid.ip().is_ipv4())
        };
        let sgid_index = (0..64).find(of_v4).unwrap();
        {
            let other = ferriband_wire::Gid::from("192.0.2.1".parse::<std::net::IpAddr>().unwrap());
            assert!(a.qp.attach_mcast(other, lid).is_err(), "no group");
            a.qp.attach_mcast(mgid, lid).unwrap();
            b.qp.attach_mcast(mgid, lid).unwrap();
            // once more changes nothing
            b.qp.attach_mcast(mgid, lid).unwrap();
            let ah =
                a.pd.create_ah(AddressVector {
                    dgid: mgid,
                    sgid_index: sgid_index as u8,
                    hop_limit: 4,
                    is_global: true,
                    port_num: 1,
                    ..AddressVector::default()
                })
                .unwrap();
            let send = || {
                a.memory.fill(0, 8, 0x6d);
                let sges = [Sge {
                    addr: a.base(),
                    length: 8,
                    lkey: a.mr.key(),
                }];
                a.qp.post_send(&SendRequest {
                    wr_id: 1,
                    opcode: SendOpcode::Send,
                    flags: SendFlags::SIGNALED,
                    sges: &sges,
                    imm_or_key: 0,
                    remote_addr: 0,
                    rkey: 0,
                    compare_add: 0,
                    swap: 0,
                    ah: Some(&ah),
                    remote_qpn: 0xff_ffff,
                    remote_qkey: 0x11,
                    srqn: 0,
                    bind: None,
                })
                .unwrap();
                assert_eq!(a.wait().status, 0);
            };
            for end in &ends {
                end.recv(9, 1024, 256, None).unwrap();
            }
            b.memory.fill(1024, 256, 0);
            send();
            let got = b.wait();
            assert_eq!((got.status, got.len), (0, 48), "{group}");
            assert_eq!(b.memory.extremes(1024 + 40, 8), (0x6d, 0x6d));
            // neither the sender nor who is not attached
            assert_eq!((a.poll(), c.poll()), (None, None));
            b.qp.detach_mcast(mgid, lid).unwrap();
            assert!(b.qp.detach_mcast(mgid, lid).is_err());
            c.qp.attach_mcast(mgid, lid).unwrap();
            b.recv(8, 1024, 256, None).unwrap();
            send();
            assert_eq!(c.wait().len, 48);
            assert_eq!(b.poll(), None);
            a.qp.detach_mcast(mgid, lid).unwrap();
            c.qp.detach_mcast(mgid, lid).unwrap();
        }
    }
);

on_all_packets!(queue_pairs_that_share_receives_take_them_in_order, {
    let ctx = Context::open(0).unwrap();
    let target = Endpoint::new(&ctx, PATIENT).unwrap();
    let init = SrqInit {
        max_wr: 64,
        max_sge: 1,
        limit: 0,
        xrc: None,
    };
    let srq = target.pd.create_srq(init).unwrap();
    let sharing = |srq: &Arc<Srq>| {
        let cap = QpCap {
            max_send_wr: 8,
            max_recv_wr: 0,
            max_send_sge: 1,
            max_recv_sge: 0,
            max_inline_data: 0,
        };
        let init = QpInit {
            qp_type: QpType::Rc,
            send_cq: Some(target.cq.clone()),
            recv_cq: Some(target.cq.clone()),
            srq: Some(srq.clone()),
            xrcd: None,
            cap,
            signal_all: false,
        };
        target.pd.create_qp(init).unwrap()
    };
    let mut targets = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..4 {
        // an endpoint whose queue pair is exchanged for one that shares
        let mut end = Endpoint::new(&ctx, PATIENT).unwrap();
        let own = std::mem::replace(&mut end.qp, sharing(&srq));
        own.destroy().unwrap();
        let sender = Endpoint::new(&ctx, PATIENT).unwrap();
        join(&sender, &end);
        targets.push(end);
        senders.push(sender);
    }
    let info = target.info(0);
    for (wr_id, _) in (0..40u64).zip(0..) {
        let sge = Sge {
            addr: target.base() + 64 * wr_id,
            length: 64,
            lkey: target.mr.key(),
        };
        srq.post_recv(wr_id, &[sge]).unwrap();
    }
    for wr_id in 0..40u64 {
        let sender = &senders[wr_id as usize % senders.len()];
        sender.memory.fill(0, 64, wr_id as u8 + 1);
        sender
            .post(&Ask::new(SendOpcode::Send, 64, &info).id(wr_id))
            .unwrap();
        assert_eq!(sender.wait().status, 0);
        let got = target.wait();
        assert_eq!((got.wr_id, got.status, got.len), (wr_id, 0, 64));
        assert_eq!(target.memory.byte(64 * wr_id as usize), wr_id as u8 + 1);
    }
    // nothing is left: the next waits for a receive, and gets it
    senders[0]
        .post(&Ask::new(SendOpcode::Send, 8, &info).id(99))
        .unwrap();
    assert_eq!(senders[0].wait_for(Duration::from_millis(30)), None);
    srq.post_recv(
        50,
        &[Sge {
            addr: target.base(),
            length: 64,
            lkey: target.mr.key(),
        }],
    )
    .unwrap();
    assert_eq!((senders[0].wait().wr_id, target.wait().wr_id), (99, 50));
});

on_all_packets!(
    a_peer_that_is_killed_ends_requests_with_status_12_after_their_retries,
    {
        let timed = Setup {
            timeout: 12,
            retry: 3,
            ..PATIENT
        };
        for (op, len) in [
            (SendOpcode::RdmaWrite, 100_000),
            (SendOpcode::RdmaRead, 100_000),
            (SendOpcode::Send, 8),
        ] {
            let mut pair = Pair::alike(Party::here(), Party::there(), timed);
            let mut other = Pair::alike(Party::here(), Party::there(), PATIENT);
            for wr_id in 0..64 {
                pair.b.recv(&pair.bi, wr_id, 0, 64);
            }
            let (Party::Here(agent), Party::There(victim)) = (&pair.a, &pair.b) else {
                unreachable!()
            };
            let begin = Instant::now();
            let mut shot = None;
            let ask = Ask::new(op, len, &pair.bi);
            let flow = stream(agent.end(pair.ai.at), &ask, 8, common::PATIENCE, || {
                if shot.is_none() && begin.elapsed() > Duration::from_millis(10) {
                    shot = Some(Instant::now());
                    victim.shoot();
                }
            });
            let after = shot.unwrap().elapsed();
            assert_eq!(
                flow.status,
                Some(WcStatus::RetryExcErr as u32),
                "{op:?} {flow:?}"
            );
            assert_eq!(flow.flushed, 7, "{op:?} {flow:?}");
            // the first and three repetitions; the clock does not tell, as a victim may have stood still before it was shot
            let counters = agent.end(pair.ai.at).qp.packet_counters().unwrap();
            assert!(counters.timeouts >= 4, "{op:?}: too early: {counters:?}");
            assert!(
                after < Duration::from_secs(10),
                "{op:?}: too late: {after:?}"
            );
            assert_eq!(pair.a.state(&pair.ai), QpState::Err);
            other.exchange();
        }
    }
);

on_all_packets!(
    memory_that_goes_before_it_is_sent_again_fails_the_request_and_not_the_program,
    {
        // the first repetition comes after half a second, the last after four
        let timed = Setup {
            timeout: 17,
            ..PATIENT
        };
        let mut pair = Pair::alike(Party::here(), Party::there(), timed);
        pair.exchange();
        let Party::There(victim) = &mut pair.b else {
            unreachable!()
        };
        victim.kill();
        let ask = Ask::new(SendOpcode::RdmaWrite, 3000, &pair.bi);
        pair.a.post(&pair.ai, &ask.clone());
        pair.a.post(&pair.ai, &ask.id(2));
        let memory = &pair.a.agent().end(pair.ai.at).memory;
        let at = std::ptr::with_exposed_provenance_mut(memory.addr() as usize);
        // SAFETY: the test's own mapping, which nobody looks at any more.
        let gone = unsafe { libc::mprotect(at, memory.len(), libc::PROT_NONE) };
        assert_eq!(gone, 0);
        pair.a.expect(&pair.ai, 1, WcStatus::LocProtErr);
        pair.a.expect(&pair.ai, 2, WcStatus::WrFlushErr);
        assert_eq!(pair.a.state(&pair.ai), QpState::Err);
    }
);

on_all_packets!(
    a_receive_that_goes_on_beyond_its_region_takes_messages_that_do_not,
    {
        everywhere(|mut a, mut b| {
            for long in [65, 5000] {
                let mut pair = Pair::alike(a, b, PATIENT);
                pair.b.recv(&pair.bi, 49, PATIENT.len - 64, 8192);
                pair.b.recv(&pair.bi, 50, PATIENT.len - 64, 8192);
                pair.a
                    .post(&pair.ai, &Ask::new(SendOpcode::Send, 64, &pair.bi).id(1));
                pair.a.expect(&pair.ai, 1, WcStatus::Success);
                let got = pair.b.wait(&pair.bi);
                assert_eq!((got.wr_id, got.status, got.len), (49, 0, 64));
                // one that does
                pair.a
                    .post(&pair.ai, &Ask::new(SendOpcode::Send, long, &pair.bi).id(2));
                pair.a.expect(&pair.ai, 2, WcStatus::RemOpErr);
                pair.b.expect(&pair.bi, 50, WcStatus::LocProtErr);
                (a, b) = (pair.a, pair.b);
            }
        });
    }
);

on_all_packets!(
    a_wrong_key_is_refused_by_the_responder_and_both_sides_fail,
    {
        everywhere(|mut a, mut b| {
            for op in [
                SendOpcode::RdmaWrite,
                SendOpcode::RdmaRead,
                SendOpcode::FetchAdd,
            ] {
                let mut pair = Pair::alike(a, b, PATIENT);
                pair.a.fill(&pair.ai, 0, 8, 0xff);
                let wrong = Ask {
                    key: pair.bi.key ^ 1,
                    ..Ask::new(op, 8, &pair.bi)
                };
                pair.a.post(&pair.ai, &wrong);
                pair.a
                    .post(&pair.ai, &Ask::new(SendOpcode::Send, 8, &pair.bi).id(2));
                pair.a.expect(&pair.ai, 1, WcStatus::RemAccessErr);
                pair.a.expect(&pair.ai, 2, WcStatus::WrFlushErr);
                assert_eq!(pair.a.state(&pair.ai), QpState::Err);
                assert_eq!(pair.b.state(&pair.bi), QpState::Err);
                pair.b.expect_bytes(&pair.bi, 0, 8, 0);
                (a, b) = (pair.a, pair.b);
            }
        });
    }
);

on_all_packets!(
    nothing_is_written_after_deregistration_or_destruction_returns,
    {
        let setup = Setup {
            timeout: 10,
            retry: 1,
            ..PATIENT
        };
        for how in ["deregister", "reset", "destroy"] {
            let mut pair = Pair::alike(Party::here(), Party::there(), setup);
            pair.b.fill(&pair.bi, 0, setup.len, 0xff);
            let ask = Ask::new(SendOpcode::RdmaWrite, 1 << 20, &pair.ai);
            pair.b
                .start_stream(&pair.bi, &ask, 8, Duration::from_secs(10));
            let end = pair.a.agent().end(pair.ai.at);
            common::eventually("the first write", || end.memory.byte((1 << 20) - 1) == 0xff);
            let expected = match how {
                "deregister" => {
                    end.mr.deregister().unwrap();
                    WcStatus::RemAccessErr
                }
                "reset" => {
                    end.set_state(QpState::Reset).unwrap();
                    WcStatus::RetryExcErr
                }
                _ => {
                    end.qp.destroy().unwrap();
                    WcStatus::RetryExcErr
                }
            };
            end.memory.fill(0, end.memory.len(), 0);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(20) {
                assert_eq!(end.memory.extremes(0, end.memory.len()), (0, 0), "{how}");
            }
            let flow = pair.b.end_stream();
            assert_eq!(flow.status, Some(expected as u32), "{how} {flow:?}");
        }
    }
);

on_all_packets!(who_sleeps_for_events_is_woken_by_packets, {
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(
        &ctx,
        Setup {
            events: true,
            ..PATIENT
        },
    )
    .unwrap();
    let child = Child::spawn("pong");
    let peer = meet(&end, &child.channel, 500);
    let channel = end.channel.as_ref().unwrap();
    end.recv(0, 0, 64, None).unwrap();
    for round in 0..500u64 {
        end.post(&Ask::new(SendOpcode::Send, 8, &peer).id(1 << 32 | round))
            .unwrap();
        // the send's completion and the answer
        for _ in 0..2 {
            let got = loop {
                end.cq.req_notify(false).unwrap();
                if let Some(got) = end.poll() {
                    break got;
                }
                assert!(
                    readable(channel.events.fd()),
                    "a wake-up was lost in round {round}"
                );
                channel.next_event().unwrap();
            };
            assert_eq!(got.status, 0, "{got:?}");
            if got.wr_id >> 32 == 0 {
                end.recv(round + 1, 0, 64, None).unwrap();
            }
        }
    }
});

on_all_packets!(
    a_last_message_is_acknowledged_before_its_receiver_is_destroyed,
    {
        // acknowledgements wait for replies once these have come at once; the last has no reply
        for _ in 0..10 {
            let ctx = Context::open(0).unwrap();
            let end = Endpoint::new(&ctx, PATIENT).unwrap();
            let child = Child::spawn("pong");
            let peer = meet(&end, &child.channel, 50);
            for round in 0..51u64 {
                end.recv(round, 0, 64, None).unwrap();
                end.post(&Ask::new(SendOpcode::Send, 8, &peer).id(1 << 32 | round))
                    .unwrap();
                let completions = if round < 50 { 2 } else { 1 };
                for _ in 0..completions {
                    let got = end.wait();
                    assert_eq!(got.status, 0, "{got:?} in round {round}");
                }
            }
        }
    }
);

/// Connects an endpoint of this process with one of a process in the role "pong", which answers so many messages.
fn meet(end: &Endpoint, channel: &Channel, count: u64) -> Info {
    channel.send(&[u64::from(end.qp.qpn), count]);
    let qpn = channel.recv()[0] as u32;
    end.connect(qpn, end.info(0).lid).unwrap();
    channel.send(&[]);
    Info {
        qpn,
        ..Info::default()
    }
}

/// Answers messages, takes one more and ends at once, as programs do.
fn pong_role(channel: Channel) {
    let words = channel.recv();
    let end = Endpoint::new(&Context::open(0).unwrap(), PATIENT).unwrap();
    end.connect(words[0] as u32, end.info(0).lid).unwrap();
    end.recv(0, 0, 64, None).unwrap();
    channel.send(&[u64::from(end.qp.qpn)]);
    channel.recv();
    let peer = Info::default();
    let mut answered = 0;
    loop {
        // what a process that was killed with its test leaves behind waits in vain
        let Some(got) = end.wait_for(common::PATIENCE) else {
            return;
        };
        assert_eq!(got.status, 0);
        if got.wr_id >> 32 == 1 {
            continue;
        }
        if answered == words[1] {
            // and of the process: nobody is left to say anything later
            return end.qp.destroy().unwrap();
        }
        answered += 1;
        end.recv(answered, 0, 64, None).unwrap();
        end.post(&Ask::new(SendOpcode::Send, 8, &peer).id(1 << 32 | answered))
            .unwrap();
    }
}

fn readable(fd: i32) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, ours.
    unsafe { libc::poll(&mut poll, 1, common::PATIENCE.as_millis() as i32) == 1 }
}

/// Port space of TCP.
/// How long a path may be looked for.
const PATH_PATIENCE: Duration = Duration::from_secs(2);
const TCP: u16 = 0x0106;

fn wish(qp_num: u32) -> cm::ConnWish<'static> {
    cm::ConnWish {
        qp_num,
        qkey: 0,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: false,
        enhanced: Default::default(),
        private_data: &[],
    }
}

/// The next event, which must be of this kind.
#[track_caller]
fn told(channel: &Arc<cm::CmChannel>, kind: cm::NewsKind) -> cm::News {
    let news = channel.next_event().unwrap();
    assert_eq!(news.kind, kind, "{news:?}");
    news
}

/// Binds an identifier to a port of this host's choice; gives both.
fn bound(engine: &Engine, channel: &Arc<cm::CmChannel>) -> (u32, u16) {
    let (cm, any) = (engine.cm(), std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let id = cm.create_id(channel, 1, TCP, QpType::Rc).unwrap();
    cm.bind(engine, id, any).unwrap();
    let port = cm.query(engine, id).unwrap().src.unwrap().port();
    (id, port)
}

/// An identifier with a path to a port of this host.
fn on_the_way(engine: &Arc<Engine>, channel: &Arc<cm::CmChannel>, port: u16) -> u32 {
    let cm = engine.cm();
    let id = cm.create_id(channel, 1, TCP, QpType::Rc).unwrap();
    let to = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    cm.resolve_addr(engine, id, None, to).unwrap();
    told(channel, cm::NewsKind::AddrResolved);
    cm.resolve_route(engine, id, PATH_PATIENCE).unwrap();
    told(channel, cm::NewsKind::RouteResolved);
    id
}

/// Accepts one connection, says so, and goes on until it is killed.
fn accept_role(channel: Channel) {
    let engine = Engine::get().unwrap();
    let events = cm::CmChannel::open().unwrap();
    let (listener, port) = bound(&engine, &events);
    engine.cm().listen(&engine, listener, 1).unwrap();
    channel.send(&[port.into()]);
    let request = told(&events, cm::NewsKind::ConnectRequest);
    engine
        .cm()
        .accept(&engine, request.id, 2, &wish(0x700_001))
        .unwrap();
    told(&events, cm::NewsKind::Established);
    channel.send(&[1]);
    channel.wait_forever();
    channel.recv();
}

on_packets!(
    a_request_of_the_network_waits_for_its_listener_and_is_refused_without_one,
    {
        const TRIES: u32 = 100;
        let engine = Engine::get().unwrap();
        let cm = engine.cm();
        let (here, there) = (
            cm::CmChannel::open().unwrap(),
            cm::CmChannel::open().unwrap(),
        );
        let (_, nobodys) = bound(&engine, &there);
        let asks = on_the_way(&engine, &here, nobodys);
        cm.connect(&engine, asks, &wish(0x700_100)).unwrap();
        assert_eq!(told(&here, cm::NewsKind::Rejected).status, 8);
        let readable = |channel: &Arc<cm::CmChannel>| {
            let mut ready = libc::pollfd {
                fd: channel.events.fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one structure, which is ours.
            unsafe { libc::poll(&mut ready, 1, 0) == 1 }
        };
        // a thread that is not scheduled for the time of waiting is too late: that happens, but not always
        let accepted = (0..TRIES).any(|count| {
            let (listener, port) = bound(&engine, &there);
            let asks = on_the_way(&engine, &here, port);
            cm.connect(&engine, asks, &wish(0x700_200 + count)).unwrap();
            cm.listen(&engine, listener, 1).unwrap();
            while !readable(&there) && !readable(&here) {
                std::thread::yield_now();
            }
            let found = readable(&there);
            if found {
                let request = told(&there, cm::NewsKind::ConnectRequest);
                cm.destroy_id(&engine, request.id).unwrap();
            }
            cm.destroy_id(&engine, asks).unwrap();
            cm.destroy_id(&engine, listener).unwrap();
            found
        });
        assert!(accepted);
    }
);

/// Packets that left this host's devices.
fn packets_sent() -> u64 {
    let host = ferriband_memory::host::Host::join(Default::default()).unwrap();
    let sent = ferriband_admin::Counter::XmitPackets as usize;
    host.port_counts()
        .iter()
        .map(|count| count.counters[sent])
        .sum()
}

on_all_packets!(another_process_takes_leave_for_one_that_was_killed, {
    let engine = Engine::get().unwrap();
    let here = cm::CmChannel::open().unwrap();
    let mut server = Child::spawn("accept");
    let port = server.channel.recv()[0] as u16;
    let asks = on_the_way(&engine, &here, port);
    engine
        .cm()
        .connect(&engine, asks, &wish(0x700_300))
        .unwrap();
    told(&here, cm::NewsKind::ConnectResponse);
    engine.cm().ready(&engine, asks).unwrap();
    assert_eq!(server.channel.recv(), [1]);
    // request, reply and ready to use
    assert!(packets_sent() >= 3, "{}", packets_sent());
    server.kill();
    told(&here, cm::NewsKind::Disconnected);
    engine.cm().destroy_id(&engine, asks).unwrap();
});
