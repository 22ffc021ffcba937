//! Packets of `ferri0` between the processes of a host: what is theirs alone. (What they have in common with RoCEv2 is in `roce.rs`.)
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::memory::Kind;
use common::namespace::NATIVE;
use common::party::*;
use common::process;
use ferriband_admin::Counter;
use ferriband_hca::*;
use ferriband_memory::host::{HAND_OVER_HEAD, HandOver, Host, ProcessRef, Tool};
use ferriband_transport::types::*;
use ferriband_wire::{
    Bth, Deth, Ext, Gid, Grh, Headers, Lid, Lrh, NativeHeaders, Opcode, Packet, Psn, QKey, Qpn, Sl,
    Vl,
};

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

/// A test whose body runs in a process that has `ferri0` alone, in a network of its own; `wire` is its policy.
fn on_native(name: &str, wire: &str, body: impl FnOnce()) {
    let also = [NATIVE[0], ("FERRIBAND_WIRE", wire)];
    common::namespace::run_on_packets(name, &also, body);
}

const SETUP: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 64 << 10,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 64,
    cqe: 256,
    timeout: 17,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

/// While it lives, somebody wants to see packets.
fn wanting_packets() -> Host {
    let host = Host::join(Default::default()).unwrap();
    host.become_tool(&Tool {
        captures: false,
        wants_packets: true,
        ring_bytes: 1 << 16,
        snap_bytes: 0,
    })
    .unwrap();
    host
}

/// A datagram of 8 bytes, and its completion.
fn send(from: &Endpoint, ah: &Arc<Ah>, qpn: u32) {
    let sges = [Sge {
        addr: from.base(),
        length: 8,
        lkey: from.mr.key(),
    }];
    from.qp
        .post_send(&SendRequest {
            wr_id: 1,
            opcode: SendOpcode::SendImm,
            flags: SendFlags::SIGNALED,
            sges: &sges,
            imm_or_key: 77,
            remote_addr: 0,
            rkey: 0,
            compare_add: 0,
            swap: 0,
            ah: Some(ah),
            remote_qpn: qpn,
            remote_qkey: 0x11,
            srqn: 0,
            bind: None,
        })
        .unwrap();
    let done = from.wait();
    assert_eq!((done.wr_id, done.status), (1, 0));
}

#[test]
fn datagrams_pass_between_queue_pairs_of_both_wires() {
    let name = "datagrams_pass_between_queue_pairs_of_both_wires";
    on_native(name, "direct", || {
        let setup = Setup {
            service: QpType::Ud,
            ..SETUP
        };
        let ctx = Context::open(0).unwrap();
        let old = Endpoint::new(&ctx, setup).unwrap();
        let tool = wanting_packets();
        let new = Endpoint::new(&ctx, setup).unwrap();
        drop(tool);
        join(&old, &new);
        assert!(old.qp.packet_counters().is_none());
        assert!(new.qp.packet_counters().is_some());
        let lid = ctx.query_port(1).unwrap().lid;
        let gid = ctx.query_gid(1, 0).unwrap().gid;
        let by_gid = AddressVector {
            dlid: lid,
            dgid: gid,
            is_global: true,
            hop_limit: 3,
            flow_label: 0x54321,
            port_num: 1,
            ..AddressVector::default()
        };
        for (from, to) in [(&old, &new), (&new, &old), (&new, &new), (&old, &new)] {
            for av in [from.path(lid.0), by_gid] {
                let ah = from.pd.create_ah(av).unwrap();
                from.memory.fill(0, 8, 0x3c);
                to.memory.fill(1024, 256, 0);
                to.recv(9, 1024, 256, None).unwrap();
                send(from, &ah, to.qp.qpn);
                let got = to.wait();
                assert_eq!((got.wr_id, got.status, got.len, got.imm), (9, 0, 48, 77));
                assert_eq!(to.memory.extremes(1024 + 40, 8), (0x3c, 0x3c));
                if av.is_global {
                    let header: Vec<u8> = (0..40).map(|at| to.memory.byte(1024 + at)).collect();
                    assert_eq!(header[..4], [0x60, 5, 0x43, 0x21]);
                    assert_eq!((&header[8..24], &header[24..]), (&gid.0[..], &gid.0[..]));
                }
                ah.destroy().unwrap();
            }
        }
        // attributes change, and with them what receives by the other wire
        let lid_path = new.pd.create_ah(new.path(lid.0)).unwrap();
        old.set_state(QpState::Reset).unwrap();
        old.connect(0, lid.0).unwrap();
        old.recv(5, 1024, 256, None).unwrap();
        send(&new, &lid_path, old.qp.qpn);
        assert_eq!(old.wait().wr_id, 5);
        lid_path.destroy().unwrap();
        old.close();
        new.close();
    });
}

#[test]
fn groups_have_members_of_both_wires() {
    on_native("groups_have_members_of_both_wires", "direct", || {
        let setup = Setup {
            service: QpType::Ud,
            ..SETUP
        };
        let ctx = Context::open(0).unwrap();
        let old = Endpoint::new(&ctx, setup).unwrap();
        let tool = wanting_packets();
        let new = Endpoint::new(&ctx, setup).unwrap();
        drop(tool);
        join(&old, &new);
        let mut mgid = Gid([0; 16]);
        (mgid.0[0], mgid.0[1], mgid.0[15]) = (0xff, 0x12, 7);
        let mlid = Lid(0xC005);
        for end in [&old, &new] {
            end.qp.attach_mcast(mgid, mlid).unwrap();
        }
        for (from, to) in [(&old, &new), (&new, &old)] {
            let ah = from
                .pd
                .create_ah(AddressVector {
                    dlid: mlid,
                    dgid: mgid,
                    is_global: true,
                    hop_limit: 1,
                    port_num: 1,
                    ..AddressVector::default()
                })
                .unwrap();
            for end in [from, to] {
                end.recv(9, 1024, 256, None).unwrap();
            }
            from.memory.fill(0, 8, 0x6d);
            send(from, &ah, 0xff_ffff);
            let got = to.wait();
            assert_eq!((got.status, got.len), (0, 48));
            assert_eq!(to.memory.extremes(1024 + 40, 8), (0x6d, 0x6d));
            // the sender gets none of its own
            assert_eq!(from.poll(), None);
            ah.destroy().unwrap();
        }
        for end in [old, new] {
            end.qp.detach_mcast(mgid, mlid).unwrap();
            end.close();
        }
    });
}

/// Connections begin there ([`Endpoint::to_rtr`]).
const FIRST_PSN: u32 = 0xff_fff0;

/// Somebody of our user who writes into the processes' sockets what he likes.
struct Attacker {
    host: Host,
    end: HandOver,
    headers: NativeHeaders,
    random: u64,
}

impl Attacker {
    fn new() -> Self {
        let host = Host::join(Default::default()).unwrap();
        let end = host.packets_over().unwrap();
        let lid = host.lid();
        let headers = NativeHeaders {
            lrh: Lrh {
                vl: Vl(0),
                sl: Sl(0),
                dlid: lid,
                slid: lid,
            },
            grh: None,
        };
        Attacker {
            host,
            end,
            headers,
            random: 7,
        }
    }

    fn random(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// A head as `wire/native/meta.rs` writes it.
    fn head(&self, headers: &NativeHeaders, segment: usize) -> [u8; HAND_OVER_HEAD] {
        let mut head = [0; HAND_OVER_HEAD];
        head[0] = b'I';
        head[4..6].copy_from_slice(&(segment as u16).to_be_bytes());
        head[6..8].copy_from_slice(&headers.lrh.slid.0.to_be_bytes());
        head[8..10].copy_from_slice(&headers.lrh.dlid.0.to_be_bytes());
        if let Some(grh) = headers.grh {
            head[1] = 1;
            head[3] = grh.hop_limit;
            head[16..32].copy_from_slice(&grh.sgid.0);
            head[32..48].copy_from_slice(&grh.dgid.0);
        }
        head
    }

    /// A packet with a right ICRC.
    fn packet(&self, headers: &NativeHeaders, packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        let len = packet.emit(&mut bytes).unwrap();
        let icrc = headers.icrc(len).unwrap().finish_with(&bytes[..len]);
        bytes.truncate(len);
        bytes.extend(icrc.to_le_bytes());
        bytes
    }

    fn throw(&self, to: ProcessRef, headers: &NativeHeaders, bytes: &[u8], segment: usize) {
        // one that finds no room does no harm either
        let _ = self
            .end
            .send_in_time(to, &self.head(headers, segment), bytes);
    }

    fn count(&self, counter: Counter) -> u64 {
        let counts = self.host.port_counts();
        let of_native = counts.iter().filter(|count| count.ifindex == 0);
        of_native
            .map(|count| count.counters[counter as usize])
            .sum()
    }
}

fn send_only(qpn: u32, psn: u32) -> Packet<'static> {
    Packet {
        headers: Headers::new(
            Bth::new(Opcode::RcSendOnly, Qpn(qpn), Psn::new(psn & 0xff_ffff)),
            Ext::default(),
        ),
        payload: b"not what was sent",
    }
}

#[test]
fn whatever_another_process_writes_changes_nothing_and_is_counted() {
    let name = "whatever_another_process_writes_changes_nothing_and_is_counted";
    on_native(name, "packets", || {
        let mut pair = Pair::alike(Party::here(), Party::there(), SETUP);
        pair.exchange();
        let mut attacker = Attacker::new();
        let processes: Vec<_> = attacker
            .host
            .members()
            .iter()
            .map(|member| member.process)
            .filter(|process| *process != attacker.host.me())
            .collect();
        assert_eq!(processes.len(), 2);
        let (a, b) = (pair.ai.qpn, pair.bi.qpn);
        pair.b.fill(&pair.bi, 0, SETUP.len, 0x77);
        pair.b.recv(&pair.bi, 21, 0, 4096);
        let right = attacker.headers;
        for to in processes {
            for round in 0..400u32 {
                // any bytes, long and short, under a right head and under any
                let len = attacker.random() as usize % 3000;
                let bytes: Vec<u8> = (0..len).map(|_| attacker.random() as u8).collect();
                let segment = attacker.random() as usize % 300 + 16;
                attacker.throw(to, &right, &bytes, segment);
                let mut head = [0; HAND_OVER_HEAD];
                head.fill_with(|| attacker.random() as u8);
                let _ = attacker.end.send_in_time(to, &head, &bytes);
                for qpn in [a, b] {
                    // far outside of the window, with a right ICRC
                    let far = send_only(qpn, FIRST_PSN + (1 << 22) + round);
                    let bytes = attacker.packet(&right, &far);
                    attacker.throw(to, &right, &bytes, bytes.len());
                    // what is expected, with a wrong ICRC
                    let mut wrong = attacker.packet(&right, &send_only(qpn, FIRST_PSN + 1));
                    let last = wrong.len() - 1;
                    wrong[last] ^= 1;
                    attacker.throw(to, &right, &wrong, wrong.len());
                    // from another port
                    let mut other = right;
                    other.lrh.slid = Lid(right.lrh.slid.0 + 1);
                    let bytes = attacker.packet(&other, &send_only(qpn, FIRST_PSN + 1));
                    attacker.throw(to, &other, &bytes, bytes.len());
                    // by another GID
                    other = right;
                    other.grh = Some(Grh {
                        traffic_class: 0,
                        flow_label: 0,
                        hop_limit: 9,
                        sgid: Gid([9; 16]),
                        dgid: Gid([9; 16]),
                    });
                    let bytes = attacker.packet(&other, &send_only(qpn, FIRST_PSN + 1));
                    attacker.throw(to, &other, &bytes, bytes.len());
                    // of another service
                    let datagram = Packet {
                        headers: Headers::new(
                            Bth::new(Opcode::UdSendOnly, Qpn(qpn), Psn::new(0)),
                            Ext {
                                deth: Some(Deth {
                                    qkey: QKey(0x11),
                                    src_qpn: Qpn(a),
                                }),
                                ..Ext::default()
                            },
                        ),
                        payload: &[1; 8],
                    };
                    let bytes = attacker.packet(&right, &datagram);
                    attacker.throw(to, &right, &bytes, bytes.len());
                }
                // for nobody
                let bytes = attacker.packet(&right, &send_only(0x00_0fff, FIRST_PSN));
                attacker.throw(to, &right, &bytes, bytes.len());
            }
        }
        for counter in [
            Counter::RcvErrors,
            Counter::IcrcErrors,
            Counter::WrongSource,
            Counter::UnknownQp,
        ] {
            common::eventually(counter.name(), || attacker.count(counter) > 100);
        }
        pair.b.expect_quiet(&pair.bi, 0);
        pair.b.expect_bytes(&pair.bi, 0, SETUP.len, 0x77);
        pair.a.fill(&pair.ai, 0, 64, 0x42);
        let ask = Ask::new(SendOpcode::Send, 64, &pair.bi).id(3);
        pair.a.post(&pair.ai, &ask);
        pair.a.expect(&pair.ai, 3, WcStatus::Success);
        let got = pair.b.wait(&pair.bi);
        assert_eq!((got.wr_id, got.status, got.len), (21, 0, 64));
        pair.b.expect_bytes(&pair.bi, 0, 64, 0x42);
    });
}

#[test]
fn more_than_a_socket_holds_waits_for_room() {
    on_native("more_than_a_socket_holds_waits_for_room", "packets", || {
        // each side floods the other with far more messages than a socket takes, and only then looks at what came
        let mut pair = Pair::alike(Party::here(), Party::there(), SETUP);
        for _ in 0..4 {
            for wr_id in 0..60 {
                pair.a.recv(&pair.ai, wr_id, 0, 64);
                pair.b.recv(&pair.bi, wr_id, 0, 64);
            }
            for wr_id in 0..60 {
                let ask = Ask::new(SendOpcode::Send, 64, &pair.bi).id(100 + wr_id);
                pair.a.post(&pair.ai, &ask);
                let ask = Ask::new(SendOpcode::Send, 64, &pair.ai).id(100 + wr_id);
                pair.b.post(&pair.bi, &ask);
            }
            for (party, end) in [(&mut pair.a, pair.ai), (&mut pair.b, pair.bi)] {
                let (mut sent, mut came) = (0, 0);
                while (sent, came) != (60, 60) {
                    let got = party.wait(&end);
                    assert_eq!(got.status, 0);
                    match got.wr_id {
                        100.. => sent += 1,
                        id => {
                            assert_eq!(id, came);
                            came += 1;
                        }
                    }
                }
            }
        }
    });
}
