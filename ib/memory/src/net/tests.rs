//! Datagrams over the loopback interface of a network namespace of the test's own.

use super::netlink::push_attribute;
use super::*;
use crate::host::tests::{Child, Line};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const BUFFER: usize = 4 << 20;

/// Runs a test in a child with user and network namespaces of its own and the loopback interface up; where the system forbids
/// that, says so and runs it in the namespace that there is. The child tells whether it has its own.
fn in_namespace(body: impl FnOnce(&mut Line, bool)) {
    let child = Child::spawn(|line| {
        let alone = enter_namespace();
        if !alone {
            let text = "no namespace of its own for this test: it runs in the one that there is\n";
            // SAFETY: text is ours.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }
        body(line, alone);
    });
    child.finish();
}

fn enter_namespace() -> bool {
    // SAFETY: no precondition; the child of fork has one thread.
    let left = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) == 0 };
    left && set_link("lo", |request| {
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::SIOCSIFFLAGS
    })
}

fn set_link(name: &str, fill: impl FnOnce(&mut libc::ifreq) -> libc::Ioctl) -> bool {
    let fd = udp_socket(false).unwrap();
    // SAFETY: all-zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    let call = fill(&mut request);
    // SAFETY: request is what the call reads.
    unsafe { libc::ioctl(fd.as_raw_fd(), call, &raw const request) == 0 }
}

fn tx(source: IpAddr) -> TxPort {
    TxPort::bind(&options_of(source)).unwrap()
}

fn options_of(source: IpAddr) -> TxOptions {
    TxOptions {
        source,
        ifindex: 0,
        port: 0,
        tos: 0,
        hop_limit: 0,
        frames: true,
    }
}

/// Receives until `wanted` messages came, for at most five seconds.
fn receive(socket: &RxSocket, wanted: usize) -> Vec<(RxMeta, Vec<u8>)> {
    let start = std::time::Instant::now();
    let (mut ring, mut out) = (RxRing::new(), Vec::new());
    while out.len() < wanted && start.elapsed().as_secs() < 5 {
        socket.receive(&mut ring, RX_MESSAGES).unwrap();
        out.extend(ring.messages().map(|(meta, bytes)| (*meta, bytes.to_vec())));
    }
    assert_eq!(out.len(), wanted);
    out
}

fn ifindex_of_lo() -> u32 {
    netdevs()
        .unwrap()
        .iter()
        .find(|d| d.loopback)
        .unwrap()
        .ifindex
}

#[test]
fn a_datagram_brings_who_sent_it_and_how() {
    in_namespace(|_, _| {
        for local in [V4, V6] {
            let socket = RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap();
            let port = socket.port().unwrap();
            let how = TxOptions {
                tos: 0x6a,
                hop_limit: 17,
                ..options_of(local)
            };
            let from = TxPort::bind(&how).unwrap();
            from.send(&SocketAddr::new(local, port), b"one packet", 0)
                .unwrap();
            let expected = RxMeta {
                source: local,
                source_port: from.port(),
                destination: local,
                ifindex: ifindex_of_lo(),
                tos: 0x6a,
                hop_limit: 17,
                segment: 10,
            };
            assert_eq!(receive(&socket, 1), [(expected, b"one packet".to_vec())]);
            assert_eq!(socket.receive(&mut RxRing::new(), 1).unwrap(), 0);
            assert!(socket.buffer_bytes() >= 65_536 && socket.drops() == 0);
        }
    });
}

#[test]
fn a_senders_socket_takes_what_it_sends_and_gives_it_back_without_a_loss() {
    in_namespace(|_, _| {
        for local in [V4, V6] {
            let all = RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap();
            let port = all.port().unwrap();
            let to = SocketAddr::new(local, port);
            let how = TxOptions {
                tos: 0x6a,
                hop_limit: 17,
                ..options_of(local)
            };
            let (from, other) = (TxPort::bind(&how).unwrap(), tx(local));
            from.send(&to, b"to all", 0).unwrap();
            let (like, _) = receive(&all, 1)[0];
            // bound and not connected yet, it gets anybody's, and tells whose it was
            let early = RxSocket::bind_to(&to, BUFFER).unwrap();
            other.send(&to, b"a stranger's", 0).unwrap();
            let (stranger, bytes) = &receive(&early, 1)[0];
            assert_eq!(
                (stranger.source_port, &bytes[..]),
                (other.port(), &b"a stranger's"[..])
            );
            assert_eq!(stranger.destination, local);
            drop(early);

            let mut own = RxSocket::bind_flow(&like, port, BUFFER).unwrap();
            for settled in [false, true] {
                if settled {
                    own.settle(&like).unwrap();
                }
                from.send(&to, b"own", 0).unwrap();
                from.send(&to, &[7; 100], 40).unwrap();
                other.send(&to, b"other", 0).unwrap();
                let got = receive(&own, 2);
                let expected = |segment| RxMeta { segment, ..like };
                assert_eq!(got[0], (expected(3), b"own".to_vec()), "settled: {settled}");
                assert_eq!(got[1], (expected(40), vec![7; 100]));
                let got = receive(&all, 1);
                assert_eq!(
                    (got[0].0.source_port, &got[0].1[..]),
                    (other.port(), &b"other"[..])
                );
                assert_eq!(own.receive(&mut RxRing::new(), 1).unwrap(), 0);
            }
            // what it sends otherwise is told: marks of congestion change the traffic class
            let marked = TxOptions {
                port: from.port(),
                tos: 0x6b,
                ..how
            };
            drop(from);
            let from = TxPort::bind(&marked).unwrap();
            from.send(&to, b"marked", 0).unwrap();
            assert_eq!(receive(&own, 1)[0].0.tos, 0x6b);

            // one by one: the kernel cuts runs apart, and tells nothing but bytes
            own.gather(false).unwrap();
            assert!(own.is_empty());
            from.send(&to, &[7; 100], 40).unwrap();
            from.send(&to, b"told", 0).unwrap();
            assert!(!own.is_empty());
            let mut ring = RxRing::new();
            for length in [40, 40, 20] {
                assert!(own.receive_plain(&mut ring, 0x12).unwrap());
                let (meta, bytes) = ring.message(0).unwrap();
                assert_eq!(bytes, vec![7; length]);
                let (segment, tos) = (length as u16, 0x12);
                let expected = RxMeta {
                    segment,
                    tos,
                    ..like
                };
                assert_eq!(*meta, expected);
                assert!(ring.message(1).is_none());
            }
            assert_eq!(receive(&own, 1)[0].0.tos, 0x6b);
            assert!(own.is_empty() && !own.receive_plain(&mut ring, 0).unwrap());
            assert!(ring.message(0).is_none());
            own.gather(true).unwrap();
            from.send(&to, &[7; 100], 40).unwrap();
            assert_eq!(receive(&own, 1)[0].0.segment, 40);

            from.send(&to, b"before", 0).unwrap();
            own.turn_away(&like).unwrap();
            from.send(&to, b"after", 0).unwrap();
            assert_eq!(receive(&own, 1)[0].1, b"before");
            assert_eq!(receive(&all, 1)[0].1, b"after");
            assert_eq!(own.receive(&mut RxRing::new(), 1).unwrap(), 0);
        }
    });
}

#[test]
fn a_socket_for_one_destination_sends_there_and_elsewhere_and_without_a_way_to_it() {
    in_namespace(|_, alone| {
        for local in [V4, V6] {
            let sockets = [(); 2].map(|()| RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap());
            let places = sockets
                .each_ref()
                .map(|socket| SocketAddr::new(local, socket.port().unwrap()));
            let from = TxPort::bind_for(&options_of(local), &places[0]).unwrap();
            for (socket, place) in sockets.iter().zip(&places) {
                from.send(place, b"single", 0).unwrap();
                from.send(place, &[7; 100], 40).unwrap();
                let got = receive(socket, 2);
                assert_eq!((got[0].1.as_slice(), got[0].0.segment), (&b"single"[..], 6));
                assert_eq!((got[1].1.as_slice(), got[1].0.segment), (&[7; 100][..], 40));
                assert!(got.iter().all(|(meta, _)| meta.source_port == from.port()));
            }
            // whatever became of its destination, the other gets its own
            let [gone, stays] = sockets;
            drop(gone);
            for _ in 0..3 {
                let _ = from.send(&places[0], b"to nobody", 0);
                from.send(&places[1], b"still", 0).unwrap();
                assert_eq!(receive(&stays, 1)[0].1, b"still");
            }
            if alone {
                let far = if local.is_ipv6() {
                    "[2001:db8::1]:9"
                } else {
                    "192.0.2.1:9"
                };
                let far = far.parse().unwrap();
                let from = TxPort::bind_for(&options_of(local), &far).unwrap();
                assert!(matches!(
                    from.send(&far, b"x", 0),
                    Err(SendError::Unreachable(_))
                ));
                from.send(&places[1], b"still", 0).unwrap();
                assert_eq!(receive(&stays, 1)[0].1, b"still");
            }
        }
    });
}

/// The ICRC covers the identification, so whoever makes it has to know it.
#[test]
fn datagrams_of_ipv4_have_the_identification_0_whomever_the_socket_is_for() {
    in_namespace(|_, alone| {
        // SAFETY: a new descriptor, or an error; who is alone in a namespace of his own may have it.
        let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP) };
        if !alone || raw < 0 {
            return;
        }
        let socket = RxSocket::bind(false, 0, BUFFER).unwrap();
        let to = SocketAddr::new(V4, socket.port().unwrap());
        let how = options_of(V4);
        for from in [TxPort::bind(&how), TxPort::bind_for(&how, &to)] {
            for _ in 0..3 {
                from.as_ref().unwrap().send(&to, b"a packet", 0).unwrap();
                let mut header = [0xff_u8; 64];
                // SAFETY: a local array of the length that is said.
                let got = unsafe { libc::recv(raw, header.as_mut_ptr().cast(), 64, 0) };
                assert_eq!((got, &header[4..6]), (20 + 8 + 8, &[0, 0][..]));
            }
        }
        // SAFETY: ours, and not used after.
        unsafe { libc::close(raw) };
    });
}

/// Once a flow is long the socket's datagrams are numbered by the kernel, and what `renumber` is told is what they carry.
#[test]
fn a_lasting_flow_knows_the_identifications_of_its_datagrams() {
    in_namespace(|_, alone| {
        // SAFETY: a new descriptor, or an error; who is alone in a namespace of his own may have it.
        let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP) };
        if !alone || raw < 0 {
            return;
        }
        let sockets = [(); 2].map(|()| RxSocket::bind(false, 0, BUFFER).unwrap());
        let [to, other] = sockets
            .each_ref()
            .map(|socket| SocketAddr::new(V4, socket.port().unwrap()));
        let from = TxPort::bind(&options_of(V4)).unwrap();
        // the next datagram's identification, and its bytes; empty ones are nobody's
        let on_wire = || loop {
            let mut bytes = [0_u8; 2048];
            // SAFETY: a local array of the length that is said.
            let got = unsafe { libc::recv(raw, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            let got = usize::try_from(got).expect("a datagram");
            if got > 28 {
                return (
                    u16::from_be_bytes([bytes[4], bytes[5]]),
                    bytes[28..got].to_vec(),
                );
            }
        };
        // what it is told it writes into the datagram, and undoes the second time
        let send = |to: &SocketAddr, lasting: bool| {
            let mut bytes = [7, 0, 0];
            let sent = from.send_flow(to, &mut bytes, 3, lasting, |number, bytes| {
                let [high, low] = number.to_be_bytes();
                bytes[1] ^= high;
                bytes[2] ^= low;
            });
            (sent, bytes)
        };
        let number = |to: &SocketAddr, lasting: bool| {
            send(to, lasting).0.unwrap();
            let (number, bytes) = on_wire();
            let [high, low] = number.to_be_bytes();
            assert_eq!(bytes, [7, high, low]);
            number
        };
        // an unreliable flow never is worth it
        assert!((0..600).all(|_| number(&to, false) == 0));
        assert!((0..256).all(|_| number(&to, true) == 0));
        let first = number(&to, true);
        // one in 65,536 first numbers is 0 by chance: the second is not
        let second = number(&other, false);
        assert_eq!(second, first.wrapping_add(1), "wherever it goes");
        assert!(second != 0 || first != 0);
        for step in 2..70_000_u32 {
            let wanted = first.wrapping_add(step as u16);
            assert_eq!(number(&to, step % 2 == 0), wanted);
        }
        // a batch takes one number of the count, whatever its datagrams carry
        for _ in 0..3 {
            let before = number(&to, true);
            let mut told = Vec::new();
            let mut batch = [1_u8; 100];
            from.send_flow(&to, &mut batch, 40, true, |number, _| told.push(number))
                .unwrap();
            // whoever looks on sees it whole here, or its parts in order
            let (carried, mut bytes) = on_wire();
            while bytes.len() < 100 {
                bytes.extend(on_wire().1);
            }
            assert_eq!((told.as_slice(), bytes.len()), (&[carried][..], 100));
            // an empty datagram may have been spent on making sure
            let steps = carried.wrapping_sub(before);
            assert_eq!(steps, 1);
            let steps = number(&to, true).wrapping_sub(carried);
            assert!((1..=2).contains(&steps), "{steps} numbers for one batch");
        }
        // in doubt all is as it was: who was understood for long is tried again soon, else it takes longer
        from.doubt(&to);
        assert!((0..256).all(|_| number(&to, true) == 0));
        assert_ne!((number(&to, true), number(&to, true)), (0, 0));
        from.doubt(&to);
        assert!((0..8192).all(|_| number(&to, true) == 0));
        assert_ne!((number(&to, true), number(&to, true)), (0, 0));
        // what fails gets its bytes back and ends it: nothing can be sent to port 0
        let (failed, bytes) = send(&SocketAddr::new(V4, 0), true);
        assert!(failed.is_err());
        assert_eq!(bytes, [7, 0, 0]);
        assert_eq!((number(&to, true), number(&other, true)), (0, 0));
        // as does whoever sends without a number
        let [again, _] = [(); 2].map(|()| (0..1 << 20).find(|_| number(&to, true) != 0));
        assert!(again.is_some());
        from.send(&to, b"as it is", 0).unwrap();
        assert_eq!(on_wire(), (0, b"as it is".to_vec()));
        assert_eq!(number(&to, true), 0);
        // SAFETY: ours, and not used after.
        unsafe { libc::close(raw) };
    });
}

#[test]
fn what_icmp_says_is_kept_and_costs_no_datagram() {
    in_namespace(|_, _| {
        for local in [V4, V6] {
            let socket = RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap();
            let there = SocketAddr::new(local, socket.port().unwrap());
            let nobody = {
                let gone = RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap();
                SocketAddr::new(local, gone.port().unwrap())
            };
            let from = tx(local);
            assert_eq!(from.troubles(), []);
            // the answer on the loopback interface is there when the call returns, and the next call would hear of it
            from.send(&nobody, b"to nobody", 0).unwrap();
            from.send(&there, b"to somebody", 0).unwrap();
            assert_eq!(receive(&socket, 1)[0].1, b"to somebody");
            from.send(&nobody, b"to nobody", 0).unwrap();
            let troubles = from.troubles();
            let kind = if local.is_ipv4() {
                TroubleKind::Icmp(3, 3)
            } else {
                TroubleKind::Icmp6(1, 4)
            };
            assert_eq!(troubles.len(), 1, "{troubles:?}");
            let one = troubles[0];
            assert_eq!(
                (one.destination, one.kind, one.from),
                (local, kind, Some(local))
            );
            assert!((1..=2).contains(&one.count), "the kernel sends few of them");
        }
    });
}

#[test]
fn a_batch_goes_and_comes_in_one_piece_with_the_size_of_its_parts() {
    in_namespace(|_, _| {
        for local in [V4, V6] {
            let socket = RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap();
            let to = SocketAddr::new(local, socket.port().unwrap());
            let from = tx(local);
            let bytes: Vec<u8> = (0..61 * 1044 + 20).map(|i| (i / 1044) as u8).collect();
            from.send(&to, &bytes, 1044).unwrap();
            let got = receive(&socket, 1);
            assert_eq!((got[0].0.segment, got[0].1.len()), (1044, bytes.len()));
            assert_eq!(got[0].1, bytes);
            assert_eq!(got[0].1.chunks(1044).count(), 62);
            // As long as one part: no batch.
            from.send(&to, &bytes[..1044], 1044).unwrap();
            assert_eq!(receive(&socket, 1)[0].0.segment, 1044);
            // More than the ring has room for waits its turn, in order.
            for i in 0..20u8 {
                from.send(&to, &[i; 30], 0).unwrap();
            }
            let got = receive(&socket, 20);
            assert!(
                got.iter()
                    .enumerate()
                    .all(|(i, (_, bytes))| bytes == &[i as u8; 30])
            );
        }
    });
}

/// Batches of a long flow, over IPv6 and IPv4; between them datagrams that are longer than their parts.
#[test]
fn batches_of_a_long_flow_arrive_in_parts_and_other_datagrams_stay_whole() {
    const PART: usize = 1040;
    const PARTS: usize = 62;
    in_namespace(|_, alone| {
        if !alone {
            return;
        }
        for v6 in [false, true] {
            let source = if v6 { V6 } else { V4 };
            let socket = RxSocket::bind(v6, 0, BUFFER).unwrap();
            let to = SocketAddr::new(source, socket.port().unwrap());
            let from = TxPort::bind_for(&options_of(source), &to).unwrap();
            let mut numbered = 0;
            let mut flow = |bytes: &mut [u8], segment: usize| {
                from.send_flow(&to, bytes, segment as u16, true, |_, _| numbered += 1)
                    .unwrap()
            };
            // empty ones are asked for their numbers, and nobody's
            let next = || loop {
                let mut ring = RxRing::new();
                let start = std::time::Instant::now();
                while socket.receive(&mut ring, 1).unwrap() == 0 {
                    assert!(start.elapsed().as_secs() < 5);
                }
                if let Some((meta, bytes)) = ring.messages().find(|(_, bytes)| !bytes.is_empty()) {
                    return (usize::from(meta.segment), bytes.to_vec());
                }
            };
            for _ in 0..300 {
                flow(&mut [1; 8], PART);
                next();
            }
            for round in 0..5_u8 {
                let mut batch = vec![0; PART * PARTS];
                for (part, bytes) in batch.chunks_exact_mut(PART).enumerate() {
                    bytes.fill(round ^ part as u8);
                }
                assert_eq!(flow(&mut batch, PART), Gone::Copied);
                assert_eq!(next(), (PART, batch));
                for length in [PART, PART + 16, 2 * PART] {
                    let mut long = vec![round; length];
                    flow(&mut long, length);
                    assert_eq!(next(), (length, long));
                }
            }
            assert!(v6 || numbered > 0);
        }
    });
}

#[test]
fn what_is_too_long_and_what_leads_nowhere_are_told_apart() {
    in_namespace(|_, alone| {
        if !alone {
            return;
        }
        assert!(set_link("lo", |request| {
            request.ifr_ifru.ifru_mtu = 1500;
            libc::SIOCSIFMTU
        }));
        for (local, headers, far) in [(V4, 28, "192.0.2.1:4791"), (V6, 48, "[2001:db8::1]:4791")] {
            let socket = RxSocket::bind(local.is_ipv6(), 0, BUFFER).unwrap();
            let to = SocketAddr::new(local, socket.port().unwrap());
            let from = tx(local);
            let bytes = [7; 4000];
            from.send(&to, &bytes[..1500 - headers], 0).unwrap();
            assert_eq!(
                from.send(&to, &bytes[..1501 - headers], 0),
                Err(SendError::TooBig)
            );
            let long = from.send(&to, &bytes, 1501 - headers as u16);
            assert!(
                matches!(long, Err(SendError::TooBig | SendError::NoBatch)),
                "{long:?}"
            );
            from.send(&to, &bytes, 1500 - headers as u16).unwrap();
            let got = receive(&socket, 2);
            assert_eq!((got[0].1.len(), got[1].1.len()), (1500 - headers, 4000));
            let lost = from.send(&far.parse().unwrap(), &bytes[..100], 0);
            assert!(matches!(lost, Err(SendError::Unreachable(_))), "{lost:?}");
        }
        assert!(TxPort::bind(&options_of("192.0.2.7".parse().unwrap())).is_err());
    });
}

#[test]
fn sockets_of_one_port_are_chosen_by_the_program_and_keep_their_order() {
    in_namespace(|_, _| {
        for local in [V4, V6] {
            let v6 = local.is_ipv6();
            let first = RxSocket::bind(v6, 0, BUFFER).unwrap();
            let port = first.port().unwrap();
            let mut group = vec![first];
            group.extend((1..4).map(|_| RxSocket::bind(v6, port, BUFFER).unwrap()));
            let to = SocketAddr::new(local, port);
            let from = tx(local);
            // The first byte is the index.
            let step = |code, k| FilterStep {
                code,
                jt: 0,
                jf: 0,
                k,
            };
            group[0].attach(&[step(0x30, 0), step(0x16, 0)]).unwrap();
            let arrives = |group: &[RxSocket]| -> Vec<u8> {
                (0..group.len() as u8).for_each(|i| from.send(&to, &[i; 28], 0).unwrap());
                group
                    .iter()
                    .map(|socket| receive(socket, 1)[0].1[0])
                    .collect()
            };
            assert_eq!(arrives(&group), [0, 1, 2, 3]);
            // The last one takes the place of one that closes; a new one comes last.
            drop(group.remove(1));
            assert_eq!(arrives(&group), [0, 2, 1]);
            group.push(RxSocket::bind(v6, port, BUFFER).unwrap());
            assert_eq!(arrives(&group), [0, 2, 1, 3]);
            // An index that nobody has loses nothing.
            from.send(&to, &[200; 28], 0).unwrap();
            let mut ring = RxRing::new();
            let reached =
                |ring: &mut RxRing| group.iter().any(|s| s.receive(ring, 1).unwrap() == 1);
            crate::host::tests::eventually("it arrives", || reached(&mut ring));
            // A jump out of the program is refused.
            let bad = group[0].attach(&[step(0x05, 5), step(0x16, 0)]);
            assert_eq!(bad.unwrap_err().errno(), libc::EINVAL);
        }
    });
}

#[test]
fn who_joined_a_group_hears_it_and_who_did_not_does_not() {
    in_namespace(|_, alone| {
        if !alone {
            return;
        }
        let (lo, veth) = (ifindex_of_lo(), make_veth());
        // Carrier and address take the kernel's own threads a moment.
        let ready = || {
            let all = netdevs().unwrap();
            let device = all.into_iter().find(|d| d.ifindex == veth).unwrap();
            (device.carrier && device.addresses.iter().any(|a| a.usable)).then_some(device)
        };
        crate::host::tests::eventually("the interface is ready", || ready().is_some());
        let of_veth = ready().unwrap();
        assert!(of_veth.up && of_veth.mac.is_some() && !of_veth.loopback);
        let link_local = of_veth.addresses.iter().find(|a| a.ip.is_ipv6()).unwrap();
        assert_eq!((link_local.scope, link_local.usable), (253, true));
        for (local, group, on) in [
            (V4, "224.0.0.200", lo),
            (link_local.ip, "ff02::4:1234", veth),
        ] {
            let group: IpAddr = group.parse().unwrap();
            let (a, b) = pair(local.is_ipv6());
            let port = a.port().unwrap();
            let to = match group {
                IpAddr::V4(_) => SocketAddr::new(group, port),
                IpAddr::V6(g) => std::net::SocketAddrV6::new(g, port, 0, on).into(),
            };
            let from = TxPort::bind(&TxOptions {
                ifindex: on,
                hop_limit: 1,
                ..options_of(local)
            })
            .unwrap();
            a.join_group(group, on).unwrap();
            assert_eq!(
                a.join_group(group, on).unwrap_err().errno(),
                libc::EADDRINUSE
            );
            from.send(&to, b"for the group", 0).unwrap();
            let got = receive(&a, 1);
            assert_eq!((got[0].0.destination, got[0].0.ifindex), (group, on));
            b.join_group(group, on).unwrap();
            from.send(&to, b"for both", 0).unwrap();
            assert_eq!(receive(&a, 1)[0].1, b"for both");
            assert_eq!(receive(&b, 1)[0].1, b"for both");
            a.leave_group(group, on).unwrap();
            from.send(&to, b"for b", 0).unwrap();
            assert_eq!(receive(&b, 1)[0].1, b"for b");
            assert_eq!(a.receive(&mut RxRing::new(), 8).unwrap(), 0);
        }
    });
}

/// Makes a pair of interfaces whose ends face each other, switches them on and gives the number of one.
fn make_veth() -> u32 {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
    // RTM_NEWLINK with REQUEST, ACK, CREATE and EXCL; ifinfomsg of zeros; IFLA_IFNAME "fb0"; IFLA_LINKINFO { kind "veth" }.
    let mut message = vec![0u8; 32];
    let mut attribute = |kind: u16, value: &[u8]| {
        message.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(value);
        message.resize(message.len().next_multiple_of(4), 0);
    };
    attribute(3, b"fb0\0");
    attribute(18, b"\x08\0\x01\0veth");
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&16u16.to_ne_bytes());
    message[6..8].copy_from_slice(&0x605u16.to_ne_bytes());
    let fd = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    rustix::net::send(&fd, &message, SendFlags::empty()).unwrap();
    let mut answer = [0; 4096];
    rustix::net::recv(&fd, &mut answer, RecvFlags::empty()).unwrap();
    assert_eq!(answer[16..20], [0; 4], "the kernel makes an interface");
    for name in ["fb0", "veth0"] {
        assert!(set_link(name, |request| {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
            libc::SIOCSIFFLAGS
        }));
    }
    netdevs()
        .unwrap()
        .iter()
        .find(|d| d.name == "fb0")
        .unwrap()
        .ifindex
}

/// Gives an interface of a namespace an IPv4 address with a prefix of 24 bits, and a neighbour's Ethernet address that stays.
fn settle_there(ifindex: u32, own: [u8; 4], neighbour: ([u8; 4], [u8; 6])) {
    const RTM_NEWADDR: u16 = 20;
    const RTM_NEWNEIGH: u16 = 28;
    // CREATE and REPLACE, with REQUEST and ACK
    let flags = 0x505u16.to_ne_bytes();
    let mut address = vec![libc::AF_INET as u8, 24, 0, 0];
    address.extend(ifindex.to_ne_bytes());
    push_attribute(&mut address, 2, &own);
    push_attribute(&mut address, 1, &own);
    let mut next = vec![libc::AF_INET as u8, 0, 0, 0];
    next.extend(ifindex.to_ne_bytes());
    // NUD_PERMANENT
    next.extend([0x80, 0, 0, 0]);
    push_attribute(&mut next, 1, &neighbour.0);
    push_attribute(&mut next, 2, &neighbour.1);
    for (kind, body) in [(RTM_NEWADDR, address), (RTM_NEWNEIGH, next)] {
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags);
        message.extend([0; 8]);
        message.extend(body);
        let fd = super::netlink::socket(rustix::net::SocketFlags::CLOEXEC).unwrap();
        rustix::net::send(&fd, &message, rustix::net::SendFlags::empty()).unwrap();
        let mut answer = [0u8; 4096];
        let (length, _) =
            rustix::net::recv(&fd, &mut answer[..], rustix::net::RecvFlags::empty()).unwrap();
        assert!(
            length >= 20 && answer[16..20] == [0; 4],
            "{kind}: {answer:?}"
        );
    }
}

/// All that comes to an interface, from Ethernet on.
struct Wiretap(std::os::fd::OwnedFd);

impl Wiretap {
    fn open(ifindex: u32) -> Wiretap {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        let fd = rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        // SAFETY: all-zero is a value.
        let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        at.sll_ifindex = ifindex as i32;
        let length = size_of_val(&at) as libc::socklen_t;
        // SAFETY: the address is ours and as long as `length` says.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), length) };
        assert_eq!(bound, 0);
        Wiretap(fd)
    }

    /// The next frame with more than headers, which a socket's questions are, within seconds.
    fn wait(&self) -> Vec<u8> {
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            match self.next() {
                Some(frame) if frame.len() > 42 => return frame,
                _ => assert!(
                    std::time::Instant::now() < patience,
                    "nothing comes to the other end"
                ),
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 1 << 16];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        let (length, _) = rustix::net::recv(&self.0, &mut bytes[..], flags).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }
}

#[test]
fn what_is_small_goes_as_frames_that_look_like_datagrams_and_follows_what_the_kernel_knows() {
    in_namespace(|_, alone| {
        if !alone {
            return;
        }
        let near = make_veth();
        let far = netdevs().unwrap().into_iter().find(|d| d.name == "veth0");
        let far = far.unwrap();
        let (own, there) = ([10, 77, 0, 1], [10, 77, 0, 2]);
        settle_there(near, own, (there, far.mac.unwrap()));
        let tap = Wiretap::open(far.ifindex);
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
        // what comes before an interface has its queueing discipline is lost
        let kernel = super::netlink::Questions::open().unwrap();
        let ready = |ifindex| super::netdev::mtu_if_direct(&kernel, ifindex) == Some(1500);
        while !ready(near) || !ready(far.ifindex) {
            assert!(std::time::Instant::now() < patience, "no carrier");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let to = SocketAddr::new(IpAddr::from(there), 4791);
        let how = TxOptions {
            tos: 0x6a,
            hop_limit: 33,
            ..options_of(own.into())
        };
        let (from, without) = (
            TxPort::bind(&how).unwrap(),
            TxPort::bind(&TxOptions {
                frames: false,
                ..how
            })
            .unwrap(),
        );
        let send = |from: &TxPort, bytes: &[u8], segment| {
            let mut bytes = bytes.to_vec();
            from.send_flow(&to, &mut bytes, segment, true, |_, _| {})
        };
        // the same by UDP and as a frame, but for the port, and with it the sum
        let seen = || tap.wait();
        let alike = |mut frame: Vec<u8>| {
            frame[34..36].fill(0);
            frame[40..42].fill(0);
            frame
        };
        for (bytes, segment) in [(vec![7; 60], 0), (vec![8; 1400], 0), (vec![9; 2500], 1000)] {
            assert_eq!(send(&without, &bytes, segment), Ok(Gone::Copied));
            let by_udp = seen();
            assert_eq!(by_udp.len(), 42 + bytes.len());
            let mut looks = 0;
            let as_frame = loop {
                let gone = send(&from, &bytes, segment).unwrap();
                let frame = seen();
                if gone == Gone::Framed {
                    break frame;
                }
                if segment != 0 && !from.frames.cuts() {
                    return;
                }
                looks += 1;
                assert!(looks < 1000, "no way was found");
                std::thread::sleep(std::time::Duration::from_micros(100));
            };
            // numbers that are counted apart, the sum over which is another
            let plain = |frame: Vec<u8>| {
                let mut frame = alike(frame);
                frame[18..20].fill(0);
                frame[24..26].fill(0);
                frame
            };
            assert_eq!(as_frame[18..20], [0, 0]);
            assert_eq!(plain(by_udp), plain(as_frame));
        }
        // what is too long for the interface is told as ever
        assert_eq!(send(&from, &[1; 3000], 0), Err(SendError::TooBig));
        // a neighbour that has moved, and the silence of one, are followed
        let moved = [2, 0, 0, 0, 0, 9];
        settle_there(near, own, (there, moved));
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while seen_to(&tap, || send(&from, &[3; 100], 0).unwrap()) != (Gone::Framed, moved) {
            assert!(std::time::Instant::now() < patience, "it is not followed");
        }
        from.doubt(&to);
        assert_eq!(send(&from, &[4; 100], 0), Ok(Gone::Copied));
    });
}

/// How something went, and to whose Ethernet address.
fn seen_to(tap: &Wiretap, send: impl FnOnce() -> Gone) -> (Gone, [u8; 6]) {
    while tap.next().is_some() {}
    let gone = send();
    let frame = tap.wait();
    (gone, frame[..6].try_into().unwrap())
}

fn pair(v6: bool) -> (RxSocket, RxSocket) {
    let a = RxSocket::bind(v6, 0, BUFFER).unwrap();
    let b = RxSocket::bind(v6, a.port().unwrap(), BUFFER).unwrap();
    (a, b)
}

#[test]
fn a_full_buffer_drops_and_counts() {
    in_namespace(|_, _| {
        let socket = RxSocket::bind(false, 0, 4096).unwrap();
        let to = SocketAddr::new(V4, socket.port().unwrap());
        let from = tx(V4);
        (0..200).for_each(|_| from.send(&to, &[0; 1000], 0).unwrap());
        let mut ring = RxRing::new();
        let mut got = 0;
        while socket.receive(&mut ring, RX_MESSAGES).unwrap() != 0 {
            got += ring.messages().count();
        }
        assert!(got > 0 && socket.drops() > 0);
        assert_eq!(got + socket.drops() as usize, 200);
        // Nothing that comes in to a sending socket takes memory or wakes anybody.
        tx(V4)
            .send(&SocketAddr::new(V4, from.port()), b"nobody reads", 0)
            .unwrap();
        let mut poll = [rustix::event::PollFd::new(
            &from,
            rustix::event::PollFlags::IN,
        )];
        let none = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        assert_eq!(rustix::event::poll(&mut poll, Some(&none)).unwrap(), 0);
        // An empty datagram is passed over.
        from.send(&to, &[], 0).unwrap();
        assert_eq!(socket.receive(&mut ring, 8).unwrap(), 1);
        assert_eq!((ring.messages().count(), ring.refused()), (0, 1));
    });
}

#[test]
fn a_forked_child_closes_the_sockets_and_the_port_stays_the_parents() {
    in_namespace(|_, _| {
        let socket = RxSocket::bind(false, 0, BUFFER).unwrap();
        let to = SocketAddr::new(V4, socket.port().unwrap());
        let from = tx(V4);
        // SAFETY: the child has one thread, and ends by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let refused = socket.receive(&mut RxRing::new(), 1).is_err()
                && socket.port().is_err()
                && socket.attach(&[]).is_err()
                && from.send(&to, b"no", 0) == Err(SendError::Other(libc::EBADF));
            // SAFETY: no precondition.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: our own child, and a status of ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
        from.send(&to, b"ours", 0).unwrap();
        assert_eq!(receive(&socket, 1)[0].1, b"ours");
    });
}

#[test]
fn interfaces_are_listed_with_their_addresses_and_changes_are_told() {
    in_namespace(|_, alone| {
        let watch = NetWatch::open().unwrap();
        assert!(!watch.changes().any() || !alone);
        let all = netdevs().unwrap();
        let lo = all.iter().find(|d| d.loopback).unwrap();
        assert_eq!(
            (lo.name.as_str(), lo.up, lo.carrier, lo.mac),
            ("lo", true, true, None)
        );
        let address = lo.addresses.iter().find(|a| a.ip == V4).unwrap();
        assert_eq!(
            (address.prefix, address.scope, address.usable),
            (8, 254, true)
        );
        if !alone {
            return;
        }
        assert!(lo.addresses.iter().any(|a| a.ip == V6 && a.usable));
        assert!(set_link("lo", |request| {
            request.ifr_ifru.ifru_mtu = 9000;
            libc::SIOCSIFMTU
        }));
        let readable = rustix::event::PollFd::new(&watch, rustix::event::PollFlags::IN);
        assert_eq!(
            rustix::event::poll(&mut [readable.clone()], None).unwrap(),
            1
        );
        let changes = watch.changes();
        assert!(changes.has(lo.ifindex) && !changes.has(lo.ifindex + 1));
        assert!(!watch.changes().any());
        let ip = |words: &str| {
            let mut ip = std::process::Command::new("ip");
            let status = ip.args(words.split_whitespace()).status();
            status.is_ok_and(|status| status.success())
        };
        // a route belongs to no interface
        if ip("route add blackhole 10.78.0.0/16") {
            assert_eq!(
                rustix::event::poll(&mut [readable.clone()], None).unwrap(),
                1
            );
            let changes = watch.changes();
            assert!(changes.has_routes() && !changes.has(lo.ifindex));
        }
        assert_eq!(
            netdevs().unwrap().iter().find(|d| d.loopback).unwrap().mtu,
            9000
        );
        assert!(watch.as_fd().as_raw_fd() > 0);
    });
}
