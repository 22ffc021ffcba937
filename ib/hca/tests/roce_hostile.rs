//! Packets of somebody who means harm, thrown at queue pairs while they work: nothing changes, each packet is counted under its reason,
//! and traffic goes on. Everything has a right ICRC unless its wrongness is the point: an ICRC keeps nobody out.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use common::endpoint::{FAMILY, over_ipv6, own_gid};
use common::eventually;
use common::memory::Kind;
use common::namespace::{loopback_address, run_on_packets};
use common::party::*;
use common::process;
use ferriband_admin::Counter;
use ferriband_hca::*;
use ferriband_transport::Drop;
use ferriband_transport::types::*;
use ferriband_wire::{
    AtomicEth, Bth, Deth, Ext, GapReport, Headers, Hole, Kind as OpcodeKind, Opcode, PKey, Packet,
    Psn, QKey, Qpn, RKey, ROCE_PORT, Reth, RoceHeaders, RoceIp, Service,
};

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

const SETUP: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 256 << 10,
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
/// Where the connections of these tests begin ([`Endpoint::to_rtr`]).
const FIRST_PSN: u32 = 0xff_fff0;
/// Long ago, however far a connection has come.
const PAST_PSN: u32 = FIRST_PSN - (1 << 21);
/// Bytes that the traffic touches at the start of each region; the rest keeps this value.
const TRAFFIC: u32 = 48 << 10;
const UNTOUCHED: u8 = 0x5a;
/// Datagrams under way at a time: a socket must hold them beside the traffic.
const VOLLEY: usize = 24;

/// A socket that looks like an adapter's.
struct Attacker {
    socket: UdpSocket,
    headers: RoceHeaders,
}

/// Runs a body twice, each time in a process of its own: over IPv4, and over IPv6 where the system has it.
macro_rules! on_both_families {
    ($name:ident, $body:block) => {
        mod $name {
            use super::*;

            fn body() $body

            #[test]
            fn over_ipv4() {
                run_on_packets(concat!(stringify!($name), "::over_ipv4"), &[], body);
            }

            #[test]
            fn over_ipv6() {
                let name = concat!(stringify!($name), "::over_ipv6");
                run_on_packets(name, &[(FAMILY, "6")], || {
                    match own_gid(&Context::open(0).unwrap()) {
                        Some(_) => body(),
                        None => eprintln!("SKIPPED {name}: there is no IPv6 here"),
                    }
                });
            }
        }
    };
}

/// The address that everything of a test has.
fn home() -> IpAddr {
    match over_ipv6() {
        true => Ipv6Addr::LOCALHOST.into(),
        false => Ipv4Addr::LOCALHOST.into(),
    }
}

impl Attacker {
    fn at(source: IpAddr) -> Self {
        let socket = UdpSocket::bind((source, 0)).unwrap();
        let source_port = socket.local_addr().unwrap().port();
        let ip = match (source, home()) {
            (IpAddr::V4(source), IpAddr::V4(home)) => {
                unfragmented(&socket);
                RoceIp::v4(source, home, 0)
            }
            (IpAddr::V6(source), IpAddr::V6(home)) => RoceIp::v6(source, home),
            families => panic!("one family: {families:?}"),
        };
        let headers = RoceHeaders { ip, source_port };
        Attacker { socket, headers }
    }

    /// The peer's address: everything of this test has it.
    fn peer() -> Self {
        Self::at(home())
    }

    /// Another address of this host. Over IPv6 it has to be made, which takes a network of our own.
    fn elsewhere() -> Option<Self> {
        if !over_ipv6() {
            return Some(Self::at(Ipv4Addr::new(127, 0, 0, 2).into()));
        }
        let other = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
        match loopback_address(other) {
            Ok(()) => {
                // the kernel looks a moment for another owner
                eventually("the address", || UdpSocket::bind((other, 0)).is_ok());
                Some(Self::at(other.into()))
            }
            Err(error) => {
                eprintln!("SKIPPED another source: no second address: {error}");
                None
            }
        }
    }

    /// BTH to pad, with a right ICRC behind it.
    fn send(&self, transport: &[u8]) {
        let icrc = self.headers.icrc(transport.len()).unwrap();
        let mut datagram = transport.to_vec();
        datagram.extend(icrc.finish_with(transport).to_le_bytes());
        self.send_as_it_is(&datagram);
    }

    fn send_as_it_is(&self, datagram: &[u8]) {
        let to = SocketAddr::from((home(), ROCE_PORT));
        self.socket.send_to(datagram, to).unwrap();
    }
}

/// The kernel numbers no datagrams of this socket: their identification is 0.
fn unfragmented(socket: &UdpSocket) {
    let probe = libc::IP_PMTUDISC_PROBE;
    // SAFETY: an option that is an int, ours.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const probe).cast(),
            size_of_val(&probe) as _,
        )
    };
    assert_eq!(set, 0);
}

/// A seeded generator: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn emitted(headers: Headers, payload: &[u8]) -> Vec<u8> {
    let packet = Packet { headers, payload };
    let mut bytes = vec![0; packet.wire_len()];
    packet.emit(&mut bytes).unwrap();
    bytes
}

/// A WRITE of a whole packet into the part of a region that nothing else touches, as its peer might send it.
fn write(to: &Info, psn: u32) -> (Headers, Vec<u8>) {
    let payload = vec![0xee; 64];
    let reth = Reth {
        virtual_address: to.addr + u64::from(TRAFFIC),
        rkey: RKey(to.key),
        dma_length: 64,
    };
    let bth = Bth::new(Opcode::RcWriteOnly, Qpn(to.qpn), Psn::new(psn));
    let ext = Ext {
        reth: Some(reth),
        ..Ext::default()
    };
    (Headers::new(bth, ext), payload)
}

/// Sends volleys and waits until each packet was counted.
#[track_caller]
fn throw(what: &str, packets: &[Vec<u8>], send: impl Fn(&[u8]), counted: impl Fn() -> u64) {
    assert!(!packets.is_empty());
    for volley in packets.chunks(VOLLEY) {
        let before = counted();
        volley.iter().for_each(|packet| send(packet));
        let want = before + volley.len() as u64;
        eventually(what, || counted() >= want);
        assert_eq!(counted(), want, "{what}");
    }
}

fn port(counter: Counter) -> impl Fn() -> u64 {
    let ctx = Context::open(0).unwrap();
    move || ctx.port_counters()[counter as usize]
}

/// What a queue pair has dropped for a reason.
fn refused(qp: &Arc<Qp>, reason: Drop) -> impl Fn() -> u64 {
    move || qp.packet_counters().unwrap().drops[reason as usize]
}

/// Another process writes to this one and reads from it all the time.
struct Traffic {
    writes: Pair,
    reads: Pair,
}

impl Traffic {
    fn begin(limit: Duration) -> Self {
        let new = || {
            let mut pair = Pair::alike(Party::here(), Party::there(), SETUP);
            pair.a.fill(&pair.ai, 0, SETUP.len, UNTOUCHED);
            pair.b.fill(&pair.bi, 0, SETUP.len, 0x21);
            pair
        };
        let mut traffic = Traffic {
            writes: new(),
            reads: new(),
        };
        for (pair, op) in [
            (&mut traffic.writes, SendOpcode::RdmaWrite),
            (&mut traffic.reads, SendOpcode::RdmaRead),
        ] {
            let ask = Ask::new(op, TRAFFIC, &pair.ai);
            pair.b.start_stream(&pair.bi, &ask, 4, limit);
        }
        traffic
    }

    /// The queue pairs of this process.
    fn targets(&self) -> [(Info, Arc<Qp>); 2] {
        [&self.writes, &self.reads].map(|pair| (pair.ai, pair.a.agent().end(pair.ai.at).qp.clone()))
    }

    /// Nothing happened to it.
    fn end(mut self) {
        for pair in [&mut self.writes, &mut self.reads] {
            let flow = pair.b.end_stream();
            assert_eq!(flow.status, None, "{flow:?}");
            assert!(flow.done > 0);
            assert_eq!(pair.a.state(&pair.ai), QpState::Rts);
            let rest = SETUP.len - TRAFFIC as usize;
            pair.a
                .expect_bytes(&pair.ai, TRAFFIC as usize, rest, UNTOUCHED);
        }
        let (writes, reads) = (&mut self.writes, &mut self.reads);
        writes.a.expect_bytes(&writes.ai, 0, TRAFFIC as usize, 0x21);
        reads
            .b
            .expect_bytes(&reads.bi, 0, TRAFFIC as usize, UNTOUCHED);
    }
}

on_both_families!(
    packets_that_are_none_or_not_for_a_connection_change_nothing_and_are_counted,
    {
        let traffic = Traffic::begin(Duration::from_secs(4));
        let (mut dice, attacker) = (Dice(1), Attacker::peer());
        let elsewhere = Attacker::elsewhere();
        let send = |packet: &[u8]| attacker.send(packet);
        let ours = traffic.targets().map(|(live, _)| live.qpn);
        for (live, qp) in traffic.targets() {
            let (headers, payload) = write(&live, PAST_PSN);
            let whole = emitted(headers, &payload);
            let with_bth = |change: &dyn Fn(&mut Bth)| {
                let mut headers = headers;
                change(&mut headers.bth);
                emitted(headers, &payload)
            };

            // cut at every length that makes it none
            let cut: Vec<_> = (8..whole.len())
                .map(|len| whole[..len].to_vec())
                .filter(|bytes| Packet::parse(bytes).is_err())
                .collect();
            assert!(cut.len() > 60);
            throw("cut", &cut, send, port(Counter::RcvErrors));
            let runts: Vec<_> = (1..8).map(|len| whole[..len].to_vec()).collect();
            throw(
                "runts",
                &runts,
                |bytes| attacker.send_as_it_is(bytes),
                port(Counter::RcvErrors),
            );

            // opcodes and versions that do not exist, pads that are not there
            let mut none = Vec::new();
            for code in 0..=255u8 {
                if Opcode::from_code(code).is_none() {
                    let mut bytes = whole.clone();
                    bytes[0] = code;
                    none.push(bytes);
                }
            }
            for version in 1..16 {
                let mut bytes = whole.clone();
                bytes[1] |= version;
                none.push(bytes);
            }
            for pad in 1..4u8 {
                let mut bytes = whole[..whole.len() - payload.len()].to_vec();
                bytes[1] |= pad << 4;
                none.push(bytes);
            }
            throw("no packets", &none, send, port(Counter::RcvErrors));

            // every opcode of another service
            let others: Vec<_> = Opcode::ALL
                .iter()
                .filter(|opcode| {
                    opcode.service() != Service::Rc && opcode.kind() != OpcodeKind::Notification
                })
                .map(|opcode| {
                    let mut bytes = vec![0; opcode.info().header_len];
                    let bth = Bth::new(*opcode, Qpn(live.qpn), Psn::new(PAST_PSN));
                    bth.emit(0, &mut bytes).unwrap();
                    bytes
                })
                .filter(|bytes| Packet::parse(bytes).is_ok())
                .collect();
            assert!(others.len() > 20);
            throw("other services", &others, send, refused(&qp, Drop::Service));

            // lists of gaps: no such list, and one to a queue pair whose peer keeps nothing
            let list = |bytes: &[u8]| {
                let mut packet = vec![0; Bth::LEN];
                let bth = Bth::new(Opcode::GapReport, Qpn(live.qpn), Psn::new(PAST_PSN));
                bth.emit(0, &mut packet).unwrap();
                packet.extend_from_slice(bytes);
                packet
            };
            let lies = [&[0xff; 16][..], b"FBG1", &[0; 136]].map(list);
            throw("no lists", &lies, send, refused(&qp, Drop::Length));
            let mut true_form = [0; GapReport::len_of(1)];
            let hole = Hole {
                ahead: 1,
                count: u16::MAX - 1,
            };
            GapReport::write(u16::MAX, [hole].into_iter(), &mut true_form);
            throw(
                "lists",
                &[list(&true_form)],
                send,
                refused(&qp, Drop::NotExpected),
            );

            // the partition is another
            let pkeys: Vec<_> = [0u16, 1, 0x7ffe, 0x8000, 0xfffe]
                .map(|pkey| with_bth(&|bth| bth.pkey = PKey(pkey)))
                .to_vec();
            throw("partitions", &pkeys, send, refused(&qp, Drop::PKey));

            // nobody's queue pair, in this process's block (its own begin at a random number); what is nobody's at all comes to anybody
            let block = live.qpn & !0xff;
            let strangers: Vec<_> = (block + 100..block + 124)
                .filter(|qpn| ours.iter().all(|own| own != qpn))
                .map(|qpn| with_bth(&|bth| bth.dest_qpn = Qpn(qpn)))
                .collect();
            throw("strangers", &strangers, send, port(Counter::UnknownQp));

            // everything right, but from elsewhere
            let at_once: Vec<_> = (0..50)
                .map(|n| with_bth(&|bth| bth.psn = Psn::new(n)))
                .collect();
            if let Some(elsewhere) = &elsewhere {
                throw(
                    "another source",
                    &at_once,
                    |bytes| elsewhere.send(bytes),
                    port(Counter::WrongSource),
                );
            }

            // an ICRC that is wrong in any byte: of IPv4 one pattern in 65,536 passes for another identification, none of these
            let mut sealed = whole.clone();
            sealed.extend(
                attacker
                    .headers
                    .icrc(whole.len())
                    .unwrap()
                    .finish_with(&whole)
                    .to_le_bytes(),
            );
            let broken: Vec<_> = (12..sealed.len())
                .map(|at| {
                    let mut bytes = sealed.clone();
                    bytes[at] ^= 0x40;
                    bytes
                })
                .collect();
            throw(
                "wrong ICRCs",
                &broken,
                |bytes| attacker.send_as_it_is(bytes),
                port(Counter::IcrcErrors),
            );

            // noise
            let noise: Vec<_> = (0..300)
                .map(|_| {
                    let len = dice.next() as usize % 1500;
                    let mut bytes = dice.bytes(len.max(16));
                    bytes[5..8].copy_from_slice(&live.qpn.to_be_bytes()[1..]);
                    bytes
                })
                .collect();
            throw(
                "noise",
                &noise,
                |bytes| attacker.send_as_it_is(bytes),
                port(Counter::RcvErrors),
            );
        }
        traffic.end();
    }
);

on_both_families!(
    packets_outside_the_window_change_nothing_and_answers_to_nothing_are_counted,
    {
        let traffic = Traffic::begin(Duration::from_secs(4));
        let (mut dice, attacker) = (Dice(2), Attacker::peer());
        for (live, qp) in traffic.targets() {
            // answers of every kind to what was never asked: this side asks for nothing
            let answers: Vec<_> = (0..200u32)
                .map(|n| {
                    let opcode = [
                        Opcode::RcAcknowledge,
                        Opcode::RcReadResponseOnly,
                        Opcode::RcReadResponseMiddle,
                        Opcode::RcAtomicAcknowledge,
                    ][n as usize % 4];
                    let mut bytes = vec![0; opcode.info().header_len];
                    let psn = Psn::new(dice.next() as u32 & 0xff_ffff);
                    Bth::new(opcode, Qpn(live.qpn), psn)
                        .emit(0, &mut bytes)
                        .unwrap();
                    if let Some(syndrome) = bytes.get_mut(12) {
                        // an acknowledgement, an RNR NAK, NAKs
                        *syndrome = [0x1f, 0x22, 0x60, 0x61, 0x62, 0x63, 0x64][n as usize % 7];
                    }
                    bytes
                })
                .filter(|bytes| Packet::parse(bytes).is_ok())
                .collect();
            assert!(answers.len() > 100);
            // what follows a gap that was reported is counted there, too
            let dropped = refused(&qp, Drop::Psn);
            for volley in answers.chunks(VOLLEY) {
                let before = dropped();
                volley.iter().for_each(|packet| attacker.send(packet));
                let want = before + volley.len() as u64;
                eventually("answers", || dropped() >= want);
            }
            // requests of the past are at most acknowledged once more, requests of the future reported as a gap; none is executed
            let received = || qp.packet_counters().unwrap().packets_received;
            let before = received();
            for round in 0..40u32 {
                for psn in [
                    PAST_PSN + round,
                    FIRST_PSN.wrapping_add(1 << 22) & 0xff_ffff,
                ] {
                    let (headers, payload) = write(&live, psn);
                    attacker.send(&emitted(headers, &payload));
                }
                let read = Bth::new(Opcode::RcReadRequest, Qpn(live.qpn), Psn::new(PAST_PSN));
                let reth = Reth {
                    virtual_address: live.addr,
                    rkey: RKey(live.key),
                    dma_length: u32::MAX,
                };
                let ext = Ext {
                    reth: Some(reth),
                    ..Ext::default()
                };
                attacker.send(&emitted(Headers::new(read, ext), &[]));
            }
            eventually("all of them", || received() >= before + 120);
            // any bytes behind a right beginning
            for _ in 0..300 {
                let len = dice.next() as usize % 200 * 4;
                let mut bytes = vec![0; 12];
                let bth = Bth::new(Opcode::RcWriteOnly, Qpn(live.qpn), Psn::new(PAST_PSN));
                bth.emit(0, &mut bytes).unwrap();
                bytes[0] = dice.next() as u8 & 0x1f;
                bytes[1] = dice.next() as u8 & 0xf0;
                bytes.extend(dice.bytes(len));
                attacker.send(&bytes);
            }
        }
        traffic.end();
    }
);

/// What a peer itself may send at its place in the sequence, and must not: the connection ends, and nothing else happens.
fn crimes(to: &Info) -> Vec<(&'static str, Headers, Vec<u8>)> {
    let bth = |opcode| Bth::new(opcode, Qpn(to.qpn), Psn::new(FIRST_PSN));
    let reth = |addr: u64, key: u32, dma_length: u32| Ext {
        reth: Some(Reth {
            virtual_address: addr,
            rkey: RKey(key),
            dma_length,
        }),
        ..Ext::default()
    };
    let atomic = |addr: u64, key: u32| Ext {
        atomic: Some(AtomicEth {
            virtual_address: addr,
            rkey: RKey(key),
            swap_add: 1,
            compare: 0,
        }),
        ..Ext::default()
    };
    let (addr, key, end) = (to.addr, to.key, to.addr + SETUP.len as u64);
    let whole = vec![0xee; 1024];
    let few = vec![0xee; 8];
    let case = |name, opcode, ext, payload: &[u8]| {
        (name, Headers::new(bth(opcode), ext), payload.to_vec())
    };
    let first = Opcode::RcWriteFirst;
    let only = Opcode::RcWriteOnly;
    let read = Opcode::RcReadRequest;
    vec![
        case("2^31 + 1", first, reth(addr, key, (1 << 31) + 1), &whole),
        case("2^32 - 1", first, reth(addr, key, u32::MAX), &whole),
        case(
            "READ of 2^31 + 1",
            read,
            reth(addr, key, (1 << 31) + 1),
            &[],
        ),
        case("READ of 2^32 - 1", read, reth(addr, key, u32::MAX), &[]),
        case("shorter than it says", only, reth(addr, key, 10), &few),
        case("longer than it says", only, reth(addr, key, 7), &few),
        case("a first that is all", first, reth(addr, key, 1024), &whole),
        case("a first that is short", first, reth(addr, key, 2048), &few),
        case("behind the end", only, reth(end - 4, key, 8), &few),
        case("before the start", only, reth(addr - 4, key, 8), &few),
        case("around the world", only, reth(u64::MAX - 3, key, 8), &few),
        case("another key", only, reth(addr, key ^ 0x100, 8), &few),
        case("an old key", only, reth(addr, key ^ 1, 8), &few),
        case("READ by another key", read, reth(addr, key ^ 0x100, 8), &[]),
        case("READ behind the end", read, reth(end - 4, key, 8), &[]),
        case("unaligned", Opcode::RcFetchAdd, atomic(addr + 4, key), &[]),
        case(
            "unaligned swap",
            Opcode::RcCompareSwap,
            atomic(addr + 1, key),
            &[],
        ),
        case(
            "atomic at the end",
            Opcode::RcFetchAdd,
            atomic(end, key),
            &[],
        ),
        case(
            "atomic by another key",
            Opcode::RcFetchAdd,
            atomic(addr, key ^ 0x100),
            &[],
        ),
        case(
            "no message yet",
            Opcode::RcSendMiddle,
            Ext::default(),
            &whole,
        ),
        case("no WRITE yet", Opcode::RcWriteLast, Ext::default(), &few),
        case(
            "longer than the MTU",
            Opcode::RcSendOnly,
            Ext::default(),
            &[0xee; 4096],
        ),
    ]
}

on_both_families!(
    what_a_peer_must_not_send_ends_its_connection_and_touches_nothing,
    {
        let traffic = Traffic::begin(Duration::from_secs(4));
        let attacker = Attacker::peer();
        let (mut a, mut b) = (Party::here(), Party::there());
        for at in 0.. {
            let mut pair = Pair::alike(a, b, SETUP);
            pair.a.fill(&pair.ai, 0, SETUP.len, UNTOUCHED);
            let Some((name, headers, payload)) = crimes(&pair.ai).into_iter().nth(at) else {
                break;
            };
            attacker.send(&emitted(headers, &payload));
            let (mine, party) = (pair.ai, &mut pair.a);
            eventually(name, || party.state(&mine) == QpState::Err);
            pair.a.expect_bytes(&mine, 0, SETUP.len, UNTOUCHED);
            // nobody else's: the other side had asked for nothing
            assert_eq!(pair.b.state(&pair.bi), QpState::Rts, "{name}");
            (a, b) = (pair.a, pair.b);
        }
        traffic.end();
    }
);

on_both_families!(
    unreliable_queue_pairs_drop_what_does_not_fit_and_count_it,
    {
        let ctx = Context::open(0).unwrap();
        let traffic = Traffic::begin(Duration::from_secs(2));
        let attacker = Attacker::peer();
        let send = |packet: &[u8]| attacker.send(packet);
        let service = |service| Setup { service, ..SETUP };
        // datagrams: nobody is connected, so a key is what keeps strangers out
        let end = Endpoint::new(&ctx, service(QpType::Ud)).unwrap();
        end.connect(0, 0).unwrap();
        end.memory.fill(0, SETUP.len, UNTOUCHED);
        let datagram = |qkey: u32, len: usize| {
            let bth = Bth::new(Opcode::UdSendOnly, Qpn(end.qp.qpn), Psn::new(7));
            let ext = Ext {
                deth: Some(Deth {
                    qkey: QKey(qkey),
                    src_qpn: Qpn(9),
                }),
                ..Ext::default()
            };
            emitted(Headers::new(bth, ext), &vec![0xee; len])
        };
        let wrong: Vec<_> = [0, 0x10, 0x12, 0x8000_0011, u32::MAX]
            .map(|qkey| datagram(qkey, 8))
            .to_vec();
        throw("queue keys", &wrong, send, refused(&end.qp, Drop::QKey));
        let unposted = vec![datagram(0x11, 8); 5];
        throw(
            "no receive",
            &unposted,
            send,
            refused(&end.qp, Drop::NoReceive),
        );
        end.recv(1, 0, 44, None).unwrap();
        let long = vec![
            datagram(0x11, 5),
            datagram(0x11, 4096),
            datagram(0x11, 8192),
        ];
        throw("too long", &long, send, refused(&end.qp, Drop::Length));
        assert_eq!(end.memory.extremes(0, SETUP.len), (UNTOUCHED, UNTOUCHED));
        // what fits the receive that they left comes in
        attacker.send(&datagram(0x11, 4));
        let got = end.wait();
        assert_eq!((got.wr_id, got.status, got.len), (1, 0, 44));
        // an unreliable connection: parts of no message, and messages without a receive
        let mut pair = Pair::alike(Party::here(), Party::there(), service(QpType::Uc));
        let qp = pair.a.agent().end(pair.ai.at).qp.clone();
        let uc = |opcode, len: usize| {
            let bth = Bth::new(opcode, Qpn(pair.ai.qpn), Psn::new(FIRST_PSN));
            emitted(Headers::new(bth, Ext::default()), &vec![0xee; len])
        };
        let parts = [uc(Opcode::UcSendMiddle, 1024), uc(Opcode::UcSendLast, 8)];
        throw("parts", &parts, send, refused(&qp, Drop::NotExpected));
        let unfit = [uc(Opcode::UcSendFirst, 8), uc(Opcode::UcSendOnly, 1028)];
        throw("unfit", &unfit, send, refused(&qp, Drop::Length));
        let unposted = [uc(Opcode::UcSendOnly, 8), uc(Opcode::UcSendFirst, 1024)];
        throw("no receive", &unposted, send, refused(&qp, Drop::NoReceive));
        assert_eq!(pair.a.state(&pair.ai), QpState::Rts);
        traffic.end();
    }
);
