//! The shared RoCE port between real processes: who joins, leaves, is killed or stopped, and where packets go then.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use common::eventually;
use common::process::{self, Channel, Child};
use ferriband_hca::roce::join::{Probe, SharedPort, successor};
use ferriband_memory::host::*;
use ferriband_memory::net::*;
use ferriband_wire::Qpn;

#[test]
fn child_entry() {
    process::run_role(&[
        ("sharer", sharer_role),
        ("stranger", stranger_role),
        ("dark", dark_role),
        ("narrow", narrow_role),
    ]);
}

const WAIT: Duration = Duration::from_secs(10);
const BUFFER: usize = 1 << 20;
/// Packets that everybody gets in one exchange, by each family.
const EACH: u64 = 25;

// What the test asks of a sharer.
const REPORT: u64 = 0;
const REPAIR: u64 = 1;
const LEAVE: u64 = 2;
const BREAK: u64 = 3;
const GROW: u64 = 4;
const WATCHED: u64 = 5;

/// A process on the port.
struct Sharer {
    host: Host,
    port: SharedPort,
    hand: HandOver,
    /// By IPv4, by IPv6, handed over to us, handed on by us, for nobody.
    counts: [AtomicU64; 5],
    moved: AtomicBool,
    done: AtomicBool,
}

impl Sharer {
    fn round(&self, ring: &mut RxRing, bytes: &mut [u8]) {
        for v6 in [false, true] {
            self.port
                .rx(v6)
                .unwrap()
                .receive(ring, RX_MESSAGES)
                .unwrap();
            for (meta, message) in ring.messages() {
                for packet in message.chunks(usize::from(meta.segment)) {
                    self.packet(v6, meta, packet, bytes);
                }
            }
        }
        self.take_handed(bytes);
    }

    fn take_handed(&self, bytes: &mut [u8]) {
        while let Some(got) = self.hand.receive(bytes).unwrap() {
            let qpn = qpn_of(&bytes[HAND_OVER_HEAD..got.length]);
            assert_eq!(self.host.owner_of_qpn(qpn), Some(self.host.me()));
            self.counts[2].fetch_add(1, Relaxed);
        }
    }

    /// Until something comes, or for a moment.
    fn sleep(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        let [v4, v6] = [false, true].map(|v6| self.port.rx(v6).unwrap());
        let mut sources = [
            PollFd::new(v4, PollFlags::IN),
            PollFd::new(v6, PollFlags::IN),
            PollFd::new(&self.hand, PollFlags::IN),
        ];
        poll(&mut sources, Some(&moment)).unwrap();
    }

    fn packet(&self, v6: bool, meta: &RxMeta, packet: &[u8], bytes: &mut [u8]) {
        let qpn = qpn_of(packet);
        let which = match self.host.owner_of_qpn(qpn) {
            _ if qpn.0 == 0 => {
                if self.port.take_probe(&self.host, v6, meta.source, packet) == Probe::Moved {
                    self.moved.store(true, Relaxed);
                }
                return;
            }
            Some(owner) if owner == self.host.me() => usize::from(v6),
            Some(owner) => {
                // Counted first: when the owner has counted it, all is counted.
                self.counts[3].fetch_add(1, Relaxed);
                let head = [0; HAND_OVER_HEAD];
                while let Err(HostError::Busy { .. }) = self.hand.send(owner, &head, packet) {
                    // It may wait for us to do this.
                    self.take_handed(bytes);
                    std::thread::yield_now();
                }
                return;
            }
            None => 4,
        };
        self.counts[which].fetch_add(1, Relaxed);
    }

    fn obey(&self, channel: &Channel) {
        loop {
            let answer = match channel.recv()[0] {
                REPORT => {
                    let mut words: Vec<u64> = self.counts.iter().map(|c| c.load(Relaxed)).collect();
                    let misplaced = self.moved.load(Relaxed) && self.port.is_misplaced(&self.host);
                    words.push(misplaced.into());
                    words
                }
                REPAIR => vec![
                    self.port
                        .repair(&self.host, WAIT, std::thread::yield_now)
                        .map_or_else(|e| e.errno() as u64, |()| 0),
                ],
                GROW => {
                    let block = self.host.claim_qpn_block(BlockKind::Packets).unwrap();
                    self.port.attach(&self.host, WAIT).unwrap();
                    vec![u64::from(block * QPN_BLOCK)]
                }
                BREAK => {
                    // Everything to the first socket.
                    let all = [FilterStep {
                        code: 0x06,
                        jt: 0,
                        jf: 0,
                        k: 0,
                    }];
                    (0..2).for_each(|v6| self.port.rx(v6 == 1).unwrap().attach(&all).unwrap());
                    vec![]
                }
                WATCHED => vec![successor(&self.host, self.host.me()).map_or(0, |p| p.to_word())],
                LEAVE => return,
                other => panic!("no command {other}"),
            };
            channel.send(&answer);
        }
    }
}

fn sharer_role(channel: Channel) {
    let told = channel.recv();
    let host = Host::join(options(told[1])).unwrap();
    let port = match SharedPort::join(&host, told[0] as u16, BUFFER, WAIT) {
        Ok(port) => port,
        Err(error) => return channel.send(&[error.errno() as u64]),
    };
    let kind = [BlockKind::Auto, BlockKind::Packets][told[2] as usize % 2];
    let block = host.claim_qpn_block(kind).unwrap();
    let sharer = Sharer {
        hand: host.hand_over().unwrap(),
        host,
        port,
        counts: Default::default(),
        moved: false.into(),
        done: false.into(),
    };
    sharer.port.attach(&sharer.host, WAIT).unwrap();
    channel.send(&[0, u64::from(block * QPN_BLOCK), sharer.host.me().to_word()]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ring = RxRing::new();
            let mut bytes = vec![0; HAND_OVER_HEAD + HAND_OVER_BODY];
            while !sharer.done.load(Relaxed) {
                sharer.round(&mut ring, &mut bytes);
                sharer.sleep();
            }
        });
        sharer.obey(&channel);
        sharer.done.store(true, Relaxed);
    });
    sharer.port.leave(&sharer.host, WAIT).unwrap();
    channel.send(&[0]);
    channel.recv();
}

/// Another user, who wants the port as well.
fn stranger_role(channel: Channel) {
    let told = channel.recv();
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::setuid(65534) }, 0);
    let refused = RxSocket::bind(false, told[0] as u16, BUFFER).map_err(|e| e.errno());
    channel.send(&[refused.err().unwrap_or(0) as u64]);
}

/// Moves this thread to a network namespace of its own, whose loopback interface is down.
fn enter_namespace() {
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
}

fn joined(members: usize, port: u16) -> Vec<(Host, SharedPort)> {
    (0..members)
        .map(|_| {
            let host = Host::join(options(0)).unwrap();
            let port = SharedPort::join(&host, port, BUFFER, WAIT).unwrap();
            (host, port)
        })
        .collect()
}

/// Where no probe can go, what should have become of the array has to do.
fn dark_role(channel: Channel) {
    enter_namespace();
    let mut members = joined(4, ROCE_PORT);
    let places = |members: &[(Host, SharedPort)]| -> Vec<u64> {
        let entries = members
            .iter()
            .map(|(host, _)| host.steering_of(host.me()).unwrap());
        entries
            .map(|e| u64::from(e.index[0].unwrap()) * 10 + u64::from(e.index[1].unwrap()))
            .collect()
    };
    let mut said = places(&members);
    let (host, port) = members.remove(1);
    port.leave(&host, WAIT).unwrap();
    said.extend(places(&members));
    members[0].1.repair(&members[0].0, WAIT, || ()).unwrap();
    said.extend(places(&members));
    channel.send(&said);
}

/// A kernel that grants programs little memory gets a short one.
fn narrow_role(channel: Channel) {
    enter_namespace();
    if std::fs::write("/proc/sys/net/core/optmem_max", "4096").is_err() {
        return channel.send(&[0, 0]);
    }
    let members = joined(2, ROCE_PORT);
    for id in 0..600 {
        let service = Service {
            id,
            gid: ferriband_wire::Gid([0; 16]),
            flags: SERVICE_LISTENS,
            word: 0,
        };
        members[id as usize % 2].0.service_claim(&service).unwrap();
    }
    let (host, port) = &members[0];
    let steps = |count| {
        vec![
            FilterStep {
                code: 0x06,
                jt: 0,
                jf: 0,
                k: 0
            };
            count
        ]
    };
    let refused = port
        .rx(false)
        .unwrap()
        .attach(&steps(1000))
        .map_err(|e| e.errno());
    let attached = port.attach(host, WAIT).is_ok();
    channel.send(&[refused.err().unwrap_or(0) as u64, attached.into()]);
}

fn is_root() -> bool {
    // SAFETY: no precondition.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("not root: this test is skipped");
    }
    root
}

fn options(label: u64) -> JoinOptions {
    JoinOptions {
        label: format!("p{label}"),
        ..JoinOptions::default()
    }
}

fn qpn_of(packet: &[u8]) -> Qpn {
    Qpn(u32::from_be_bytes([0, packet[5], packet[6], packet[7]]))
}

/// A port of its own for a test, and those who share it.
struct Crowd {
    port: u16,
    label: u64,
    members: Vec<Member>,
    /// Of each family, so many that the kernel's hash does not send all of them to one socket.
    from: Vec<[TxPort; 2]>,
}

struct Member {
    child: Child,
    qpn: u32,
    process: ProcessRef,
    /// What it said last.
    seen: [u64; 6],
}

impl Member {
    fn ask(&self, command: u64) -> Vec<u64> {
        self.child.channel.send(&[command]);
        self.child.channel.recv()
    }

    fn report(&self) -> [u64; 6] {
        self.ask(REPORT).try_into().unwrap()
    }
}

impl Crowd {
    fn new(members: usize) -> Crowd {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = u64::from(std::process::id()) << 8 | u64::from(NEXT.fetch_add(1, Relaxed));
        let from = || {
            [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].map(|source| {
                TxPort::bind(&TxOptions {
                    source,
                    ifindex: 0,
                    port: 0,
                    tos: 0,
                    hop_limit: 0,
                    frames: false,
                })
                .unwrap()
            })
        };
        let mut crowd = Crowd {
            port: free_port(tag),
            label: tag,
            members: Vec::new(),
            from: (0..EACH).map(|_| from()).collect(),
        };
        (0..members).for_each(|_| crowd.join());
        crowd
    }

    fn join(&mut self) {
        let child = Child::spawn("sharer");
        child
            .channel
            .send(&[self.port.into(), self.label, self.members.len() as u64]);
        let said = child.channel.recv();
        assert_eq!(said[0], 0, "errno");
        self.members.push(Member {
            child,
            qpn: said[1] as u32,
            process: ProcessRef::from_word(said[2]).unwrap(),
            seen: [0; 6],
        });
    }

    /// Sends to everybody of `to` by both families, and gives what each got since last time: directly by each family, handed
    /// over to it, handed on by it, lost, and whether it finds itself misplaced.
    fn exchange(&mut self, to: &[usize]) -> Vec<[u64; 6]> {
        for from in &self.from {
            for &member in to {
                send_to(from, self.port, self.members[member].qpn + 7);
            }
        }
        to.iter()
            .map(|&member| {
                let member = &mut self.members[member];
                let before = member.seen;
                eventually("all packets arrive", || {
                    member.seen = member.report();
                    let got: u64 = (0..3).map(|i| member.seen[i] - before[i]).sum();
                    assert!(got <= 2 * EACH, "{before:?} {:?}", member.seen);
                    got == 2 * EACH
                });
                let mut since = member.seen;
                (0..5).for_each(|i| since[i] -= before[i]);
                since
            })
            .collect()
    }

    /// All packets reach their owners without a detour.
    #[track_caller]
    fn all_direct(&mut self, to: &[usize]) {
        for got in self.exchange(to) {
            assert_eq!(got, [EACH, EACH, 0, 0, 0, 0]);
        }
    }
}

/// A port that nobody has, by either family. Not one of those that the kernel hands out: a sender that gets it with an address would
/// take what is meant for all addresses.
fn free_port(tag: u64) -> u16 {
    let free = |port: u16| {
        let bind = |address: IpAddr| std::net::UdpSocket::bind((address, port)).is_ok();
        bind(Ipv4Addr::UNSPECIFIED.into()) && bind(Ipv6Addr::UNSPECIFIED.into())
    };
    let from = 20_000 + (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 10_000;
    (from..)
        .map(|port| port as u16)
        .find(|&port| free(port))
        .unwrap()
}

/// A packet by each family.
fn send_to(from: &[TxPort; 2], port: u16, qpn: u32) {
    let mut packet = [0x64; 28];
    packet[5..8].copy_from_slice(&qpn.to_be_bytes()[1..]);
    let to: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for (tx, to) in from.iter().zip(to) {
        tx.send(&SocketAddr::new(to, port), &packet, 0).unwrap();
    }
}

#[test]
fn packets_reach_their_owner_whoever_joins_or_leaves() {
    let mut crowd = Crowd::new(3);
    crowd.all_direct(&[0, 1, 2]);
    // Whom the kernel moves, and whom not.
    for leaver in [0, 2] {
        crowd.members[leaver].child.channel.send(&[LEAVE]);
        assert_eq!(crowd.members[leaver].child.channel.recv(), [0]);
        let rest: Vec<usize> = (0..crowd.members.len())
            .filter(|&m| m != leaver && !(leaver == 2 && m == 0))
            .collect();
        crowd.all_direct(&rest);
        crowd.join();
        let joined = crowd.members.len() - 1;
        crowd.all_direct(&[1, joined]);
    }
    // Numbers claimed later are steered, too.
    let qpn = crowd.members[4].ask(GROW)[0] as u32;
    crowd.members[4].qpn = qpn;
    crowd.all_direct(&[1, 3, 4]);
}

#[test]
fn packets_find_their_owner_over_a_wrong_place_and_a_repair_makes_it_right() {
    let mut crowd = Crowd::new(4);
    // Two at once: the order in which the kernel closed the holes is nobody's knowledge.
    crowd.members[0].child.shoot();
    crowd.members[2].child.kill();
    crowd.members[0].child.kill();
    let rest = [1, 3];
    let got = crowd.exchange(&rest);
    // The last socket has taken the place of a dead one, and where it was there is none: the kernel sends its packets to anybody.
    assert!(got.iter().any(|g| g[2] > 0), "{got:?}");
    assert_eq!(got.iter().map(|g| g[4]).sum::<u64>(), 0);
    assert_eq!(crowd.members[1].ask(REPAIR), [0]);
    crowd.exchange(&rest);
    crowd.all_direct(&rest);
    // A joiner after a death that nobody has repaired yet finds the dead (they may be reaped
    // already, when it comes to the port) and puts everything right.
    crowd.members[1].child.kill();
    crowd.join();
    crowd.all_direct(&[3, 4]);
    crowd.join();
    crowd.all_direct(&[3, 4, 5]);
}

#[test]
fn a_stopped_process_gets_what_is_left_and_speaks_up_if_that_was_wrong() {
    let mut crowd = Crowd::new(4);
    crowd.members[3].child.stop();
    // The stopped one's socket moves from 3 to the place of the dead.
    crowd.members[1].child.kill();
    assert_eq!(crowd.members[0].ask(REPAIR), [0]);
    crowd.all_direct(&[0, 2]);
    crowd.members[3].child.resume();
    crowd.all_direct(&[0, 2, 3]);

    // Two stopped, and two dead: a guess.
    crowd.join();
    crowd.join();
    for stopped in [3, 5] {
        crowd.members[stopped].child.stop();
    }
    for dead in [0, 2] {
        crowd.members[dead].child.kill();
    }
    assert_eq!(crowd.members[4].ask(REPAIR), [0]);
    crowd.all_direct(&[4]);
    for stopped in [3, 5] {
        crowd.members[stopped].child.resume();
    }
    let last = crowd.exchange(&[3, 4, 5]);
    if let Some(asks) = [3, 4, 5]
        .into_iter()
        .zip(last)
        .find_map(|(member, got)| (got[5] != 0).then_some(member))
    {
        assert_eq!(crowd.members[asks].ask(REPAIR), [0]);
        crowd.exchange(&[3, 4, 5]);
    }
    crowd.all_direct(&[3, 4, 5]);
}

/// Whatever happens in whatever order: after a repair everybody is reached directly.
#[test]
fn any_order_of_joins_leaves_and_deaths_can_be_repaired() {
    let mut crowd = Crowd::new(3);
    let mut alive = vec![0, 1, 2];
    let mut dice = 0x5eed_u64;
    let mut roll = |below: usize| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % below
    };
    for _ in 0..24 {
        let mut unrepaired = false;
        // One to three events, and then a look.
        for _ in 0..=roll(3) {
            match roll(3) {
                0 if alive.len() > 1 => {
                    let leaver = alive.remove(roll(alive.len()));
                    crowd.members[leaver].child.channel.send(&[LEAVE]);
                    assert_eq!(crowd.members[leaver].child.channel.recv(), [0]);
                }
                1 if alive.len() > 1 => {
                    let dead = alive.remove(roll(alive.len()));
                    crowd.members[dead].child.kill();
                    unrepaired = true;
                }
                _ if alive.len() < 6 => {
                    crowd.join();
                    alive.push(crowd.members.len() - 1);
                }
                _ => {}
            }
        }
        if unrepaired {
            // What goes astray meanwhile is handed over, and counted below.
            crowd.exchange(&alive);
            assert_eq!(crowd.members[alive[roll(alive.len())]].ask(REPAIR), [0]);
            crowd.exchange(&alive);
        }
        crowd.all_direct(&alive);
    }
}

#[test]
fn hand_over_carries_everything_under_a_wrong_program() {
    let mut crowd = Crowd::new(3);
    crowd.all_direct(&[0, 1, 2]);
    crowd.members[2].ask(BREAK);
    let got = crowd.exchange(&[0, 1, 2]);
    let first = crowd.members[0].report();
    assert_eq!(first[3], 100, "handed on by the first: {first:?}");
    assert_eq!([got[1][2], got[2][2]], [50, 50]);
    assert_eq!(crowd.members[1].ask(REPAIR), [0]);
    crowd.exchange(&[0, 1, 2]);
    crowd.all_direct(&[0, 1, 2]);
}

#[test]
fn everybody_watches_somebody() {
    let crowd = Crowd::new(3);
    let watched = |member: usize| crowd.members[member].ask(WATCHED)[0];
    let all = |member: usize| crowd.members[member].process.to_word();
    assert_eq!(
        [watched(0), watched(1), watched(2)],
        [all(1), all(2), all(0)]
    );
    let alone = Crowd::new(1);
    assert_eq!(alone.members[0].ask(WATCHED), [0]);
}

#[test]
fn another_users_port_is_refused() {
    if !is_root() {
        return;
    }
    let crowd = Crowd::new(1);
    let stranger = Child::spawn("stranger");
    stranger.channel.send(&[crowd.port.into()]);
    assert_eq!(stranger.channel.recv(), [libc::EADDRINUSE as u64]);
}

/// Forty members, all of them in this process.
struct Many {
    port: u16,
    members: Vec<(Host, SharedPort, u32)>,
    from: [TxPort; 2],
}

impl Many {
    /// Receives at every member: gives who got which packets, by QPN, and answers probes.
    fn pump(members: &[(Host, SharedPort, u32)], mut got: impl FnMut(usize, Qpn)) {
        let mut ring = RxRing::new();
        for (at, (host, port, _)) in members.iter().enumerate() {
            for v6 in [false, true] {
                while port
                    .rx(v6)
                    .unwrap()
                    .receive(&mut ring, RX_MESSAGES)
                    .unwrap()
                    != 0
                {
                    for (meta, packet) in ring.messages() {
                        if port.take_probe(host, v6, meta.source, packet) == Probe::No {
                            got(at, qpn_of(packet));
                        }
                    }
                }
            }
        }
    }

    #[track_caller]
    fn all_direct(&self) {
        for (_, _, qpn) in &self.members {
            send_to(&self.from, self.port, *qpn);
        }
        let mut right = 0;
        eventually("all packets arrive", || {
            Self::pump(&self.members, |at, qpn| {
                assert_eq!(qpn, Qpn(self.members[at].2), "at {at}");
                right += 1;
            });
            right == 2 * self.members.len()
        });
    }
}

#[test]
fn many_members_find_their_places_by_a_few_probes() {
    const MEMBERS: usize = 40;
    let crowd = Crowd::new(0);
    let mut many = Many {
        port: crowd.port,
        members: Vec::new(),
        from: crowd.from.into_iter().next().unwrap(),
    };
    let label = options(crowd.label);
    for _ in 0..MEMBERS {
        let host = Host::join(label.clone()).unwrap();
        let port = SharedPort::join(&host, many.port, BUFFER, WAIT).unwrap();
        let qpn = host.claim_qpn_block(BlockKind::Auto).unwrap() * QPN_BLOCK;
        many.members.push((host, port, qpn));
    }
    // The last one steers for all.
    let (host, port, _) = many.members.last().unwrap();
    port.attach(host, WAIT).unwrap();
    many.all_direct();

    // A socket that is no member's takes a place, and six members go without a word.
    let stranger = [false, true].map(|v6| RxSocket::bind(v6, many.port, BUFFER).unwrap());
    for at in [3, 17, 17, 30, 0, 9] {
        let (host, port, _) = many.members.remove(at);
        drop(port);
        drop(host);
    }
    let (host, port, _) = &many.members[5];
    let repaired = port.repair(host, WAIT, || Many::pump(&many.members, |_, _| {}));
    repaired.unwrap();
    many.all_direct();
    // A joiner counts the members, of which the stranger is none: it finds out that it is one further.
    let host = Host::join(label).unwrap();
    let port = SharedPort::join(&host, many.port, BUFFER, WAIT).unwrap();
    let qpn = host.claim_qpn_block(BlockKind::Auto).unwrap() * QPN_BLOCK;
    port.attach(&host, WAIT).unwrap();
    many.members.push((host, port, qpn));
    many.all_direct();
    drop(stranger);
}

#[test]
fn without_a_loopback_interface_the_order_is_predicted() {
    if !is_root() {
        return;
    }
    let child = Child::spawn("dark");
    let places = child.channel.recv();
    // Both families' places: four join, the last takes the place of the second, and nobody moves in the repair.
    assert_eq!(places, [0, 11, 22, 33, 0, 22, 11, 0, 22, 11]);
}

#[test]
fn a_program_becomes_as_short_as_the_kernel_wants_it() {
    if !is_root() {
        return;
    }
    match Child::spawn("narrow").channel.recv()[..] {
        [0, 0] => eprintln!("the limit of this kernel is everybody's: this test is skipped"),
        [refused, attached] => assert_eq!((refused, attached), (libc::ENOMEM as u64, 1)),
        _ => panic!("two words"),
    }
}
