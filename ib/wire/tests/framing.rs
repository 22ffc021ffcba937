//! Laws of packets with everything around them: native with LRH, GRH and both CRCs; RoCEv2 with IP, UDP and ICRC.

mod common;

use common::*;
use ferriband_wire::*;
use proptest::prelude::*;
use proptest::sample::Index;

fn native<'a>(lrh: Lrh, grh: Option<Grh>, headers: Headers, payload: &'a [u8]) -> NativePacket<'a> {
    NativePacket {
        lrh,
        grh,
        packet: Packet { headers, payload },
    }
}

fn native_bytes(packet: &NativePacket) -> Vec<u8> {
    let mut out = vec![0xa5; packet.wire_len() + 1];
    assert_eq!(packet.emit(&mut out), Ok(packet.wire_len()));
    assert_eq!(out.pop(), Some(0xa5));
    out
}

fn roce_bytes(packet: &RocePacket) -> Vec<u8> {
    let mut out = vec![0xa5; packet.wire_len() + 1];
    assert_eq!(packet.emit(&mut out), Ok(packet.wire_len()));
    assert_eq!(out.pop(), Some(0xa5));
    out
}

proptest! {
    #[test]
    fn lrh_round_trips(lrh in lrh(), global: bool, words in 0_usize..1 << 11) {
        let next = if global { LinkNext::Global } else { LinkNext::Transport };
        let mut out = [0xa5; Lrh::LEN + 1];
        prop_assert_eq!(lrh.emit(next, words * 4, &mut out).expect("fits").len(), 1);
        prop_assert_eq!(Lrh::parse(&out), Ok((lrh, next, words * 4, &[0xa5][..])));
        // Reserved bits change nothing.
        out[1] |= 0x0c;
        out[4] |= 0xf8;
        prop_assert_eq!(Lrh::parse(&out).expect("parses").0, lrh);
    }

    #[test]
    fn grh_round_trips(grh in grh(), len in 0_usize..1 << 16) {
        let mut out = [0xa5; Grh::LEN + 1];
        for (next, other) in [(NextHeader::Transport, NextHeader::Udp), (NextHeader::Udp, NextHeader::Transport)] {
            prop_assert_eq!(grh.emit(next, len, &mut out).expect("fits").len(), 1);
            prop_assert_eq!(Grh::parse(&out, next), Ok((grh, len, &[0xa5][..])));
            let refused = ParseError::NextHeader { expected: other as u8, got: next as u8 };
            prop_assert_eq!(Grh::parse(&out, other), Err(refused));
        }
    }

    #[test]
    fn ipv4_round_trips(ip in ipv4(), len in 0_usize..(1 << 16) - Ipv4::LEN) {
        let mut out = [0xa5; Ipv4::LEN + 1];
        prop_assert_eq!(ip.emit(len, &mut out).expect("fits").len(), 1);
        prop_assert_eq!(Ipv4::parse(&out), Ok((ip, len, &[0xa5][..])));
    }

    #[test]
    fn udp_round_trips(source_port: u16, checksum: u16, len in 0_usize..(1 << 16) - Udp::LEN) {
        let udp = Udp { source_port, checksum };
        let mut out = [0xa5; Udp::LEN + 1];
        prop_assert_eq!(udp.emit(len, &mut out).expect("fits").len(), 1);
        prop_assert_eq!(Udp::parse(&out), Ok((udp, len, &[0xa5][..])));
    }

    #[test]
    fn native_packets_round_trip(
        lrh in lrh(), grh in proptest::option::of(grh()), (headers, payload) in packet(),
    ) {
        let packet = native(lrh, grh, headers, &payload);
        let bytes = native_bytes(&packet);
        prop_assert_eq!(NativePacket::parse(&bytes), Ok(packet));
        prop_assert!(packet.emit(&mut vec![0; bytes.len() - 1]).is_err());
        for cut in 0..bytes.len() {
            prop_assert!(NativePacket::parse_unchecked(&bytes[..cut]).is_err());
        }
    }

    /// A bit flipped anywhere is caught: by the VCRC always; by the ICRC unless it is in a variant field, in the
    /// LRH of a global packet, or in the VCRC itself.
    #[test]
    fn native_crcs_catch_any_bit(
        lrh in lrh(), grh in proptest::option::of(grh()), (headers, payload) in packet(), at in any::<Index>(), bit in 0_u8..8,
    ) {
        let mut bytes = native_bytes(&native(lrh, grh, headers, &payload));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let refused = matches!(NativePacket::parse(&bytes), Err(ParseError::Vcrc { .. }));
        prop_assert!(refused, "byte {}", at);
        let bth = Lrh::LEN + if grh.is_some() { Grh::LEN } else { 0 };
        let variant = match grh {
            None => at == 0 && bit >= 4,
            // LRH; IPVer's neighbour TClass and FlowLabel; HopLmt.
            Some(_) => at < 8 || at == 8 && bit < 4 || (9..12).contains(&at) || at == 15,
        } || at == bth + 4 || at >= bytes.len() - VCRC_LEN;
        // LNH says whether there is a GRH: flipping it makes another packet of the same bytes.
        if at != 1 || bit > 1 {
            prop_assert_eq!(NativePacket::check_icrc(&bytes).is_ok(), variant, "byte {} bit {}", at, bit);
        }
    }

    #[test]
    fn roce_packets_round_trip(headers in roce_headers(), udp_checksum: bool, (inner, payload) in packet()) {
        let packet = RocePacket { headers, udp_checksum, packet: Packet { headers: inner, payload: &payload } };
        let bytes = roce_bytes(&packet);
        prop_assert_eq!(RocePacket::parse(&bytes), Ok(packet));
        prop_assert!(packet.emit(&mut vec![0; bytes.len() - 1]).is_err());
        for cut in 0..bytes.len() {
            prop_assert!(RocePacket::parse(&bytes[..cut]).is_err());
        }
        let mut frame = vec![0; Ethernet::LEN];
        let ethernet = Ethernet { destination: [2; 6], source: [4; 6], ether_type: headers.ip.ether_type() };
        ethernet.emit(&mut frame).expect("fits");
        frame.extend(&bytes);
        frame.extend([0; 7]); // what a switch may add to a short frame
        prop_assert_eq!(RocePacket::parse_ethernet(&frame), Ok((ethernet, packet)));
    }

    /// What a UDP socket shows is enough to check the ICRC, and gives the IPv4 identification back.
    #[test]
    fn datagrams_are_checked_without_the_identification(
        headers in roce_headers(), (inner, payload) in packet(), at in any::<Index>(), bit in 0_u8..8,
    ) {
        let packet = RocePacket { headers, udp_checksum: false, packet: Packet { headers: inner, payload: &payload } };
        let bytes = roce_bytes(&packet);
        let mut datagram = bytes[headers.wire_len()..].to_vec();
        let (mut shown, mut identification) = (headers, 0);
        if let RoceIp::V4(ip) = &mut shown.ip {
            identification = std::mem::take(&mut ip.identification);
        }
        let transport = datagram[..datagram.len() - ICRC_LEN].to_vec();
        prop_assert_eq!(check_datagram(&shown, &datagram), Ok((&transport[..], identification)));
        // A flipped bit (but in resv8a) is caught: no identification explains it, for one bit is no codeword.
        let at = at.index(datagram.len());
        if at != 4 {
            datagram[at] ^= 1 << bit;
            let refused = matches!(check_datagram(&shown, &datagram), Err(ParseError::Icrc { .. }));
            prop_assert!(refused, "byte {}", at);
        }
    }

    /// What is remembered of other datagrams changes no ICRC: the same answers as without, for packets of few lengths from few senders.
    #[test]
    fn a_run_has_the_icrcs_of_its_packets(
        senders in proptest::collection::vec(roce_headers(), 1..4),
        packets in proptest::collection::vec((packet(), any::<Index>(), any::<u16>(), any::<u8>()), 1..12),
        repeats in 1..3_usize,
    ) {
        let (mut sending, mut receiving) = (RunIcrc::new(), RunIcrc::new());
        for ((inner, payload), sender, identification, resv8a) in packets.iter().cycle().take(packets.len() * repeats) {
            let mut headers = *sender.get(&senders);
            if let RoceIp::V4(ip) = &mut headers.ip {
                ip.identification = *identification;
            }
            let packet = RocePacket { headers, udp_checksum: false, packet: Packet { headers: *inner, payload } };
            let bytes = roce_bytes(&packet);
            let mut datagram = bytes[headers.wire_len()..].to_vec();
            datagram[4] = *resv8a; // what switches may write
            let (transport, icrc) = datagram.split_at(datagram.len() - ICRC_LEN);
            let mut shown = headers;
            let mut id = 0;
            if let RoceIp::V4(ip) = &mut shown.ip {
                id = std::mem::take(&mut ip.identification);
            }
            let sealed = sending.icrc(&shown, id, transport).map(u32::to_le_bytes);
            prop_assert_eq!(sealed.as_ref().map(<[u8; 4]>::as_slice), Some(icrc));
            for likely in [id, identification % 70, !identification] {
                prop_assert_eq!(receiving.check(&shown, likely, &datagram), Ok((transport, id)));
            }
            let mut broken = datagram.clone();
            let at = sender.index(broken.len());
            broken[at] ^= 0x10;
            prop_assert_eq!(receiving.check(&shown, id, &broken), check_datagram(&shown, &broken));
        }
        let alike = sending.alike(&senders[0], 64).expect("a length that packets have");
        prop_assert_eq!(alike.icrc(0, &[0; 60]), None);
        prop_assert!(alike.check(0, &[0; 64]).is_err());
        for len in 0..16 {
            prop_assert!(receiving.check(&senders[0], 0, &[0; 16][..len]).is_err());
        }
    }

    /// A sealed run gets other identifications without being read again, and its own back.
    #[test]
    fn a_run_is_numbered_anew(
        sender in roce_headers(), (inner, payload) in packet(), count in 1..64_u16, last in any::<Index>(), first in any::<u16>(),
    ) {
        let whole = Packet { headers: inner, payload: &payload };
        let mut transport = vec![0; 5000];
        let len = whole.emit(&mut transport).expect("room");
        transport.truncate(len);
        let counts = matches!(sender.ip, RoceIp::V4(_));
        let run = |first: u16| {
            let mut run = Vec::new();
            for place in 0..count {
                // the last of a run may be shorter
                let len = if place + 1 == count { 12 + last.index((len - 12) / 4 + 1) * 4 } else { len };
                let mut shown = sender;
                if let RoceIp::V4(ip) = &mut shown.ip {
                    ip.identification = first.wrapping_add(place);
                }
                let icrc = shown.icrc(len).expect("fits").finish_with(&transport[..len]);
                run.extend_from_slice(&transport[..len]);
                run.extend_from_slice(&icrc.to_le_bytes());
            }
            run
        };
        let (plain, wanted) = (run(0), run(first));
        let mut run = plain.clone();
        let mut icrc = RunIcrc::new();
        if counts {
            icrc.renumber(first, len + ICRC_LEN, &mut run);
            prop_assert_eq!(&run, &wanted);
            icrc.renumber(first, len + ICRC_LEN, &mut run);
        }
        prop_assert_eq!(&run, &plain);
        icrc.renumber(first, 0, &mut [0; 3]);
    }

    /// What a congested switch writes on the way spoils nothing but the IPv4 checksum, which it renews.
    #[test]
    fn marking_leaves_the_icrc_right(headers in roce_headers(), (inner, payload) in packet()) {
        let packet = RocePacket { headers, udp_checksum: false, packet: Packet { headers: inner, payload: &payload } };
        let bytes = roce_bytes(&packet);
        let marked = RocePacket { headers: RoceHeaders { ip: headers.ip.with_ecn(Ecn::Ce), ..headers }, ..packet };
        let marked_bytes = roce_bytes(&marked);
        let icrc = bytes.len() - ICRC_LEN;
        prop_assert_eq!(&marked_bytes[icrc..], &bytes[icrc..]);
        let parsed = RocePacket::parse(&marked_bytes).expect("still right");
        prop_assert_eq!(parsed.headers.ip.ecn(), Ecn::Ce);
        prop_assert_eq!(parsed.headers.ip.traffic_class() >> 2, headers.ip.traffic_class() >> 2);
        prop_assert_eq!(parsed.packet, packet.packet);
    }

    #[test]
    fn a_flipped_bit_spoils_the_udp_checksum(
        headers in roce_headers(), (inner, payload) in packet(), at in any::<Index>(), bit in 0_u8..8,
    ) {
        let packet = RocePacket { headers, udp_checksum: true, packet: Packet { headers: inner, payload: &payload } };
        let mut bytes = roce_bytes(&packet);
        let datagram = headers.wire_len();
        let at = datagram + at.index(bytes.len() - datagram);
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(RocePacket::parse(&bytes), Err(ParseError::Checksum("UDP")));
    }

    #[test]
    fn any_bytes_parse_or_fail(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..4) {
        let _ = (NativePacket::parse(&bytes), NativePacket::parse_unchecked(&bytes));
        let _ = (RocePacket::parse(&bytes), RocePacket::parse_ethernet(&bytes));
        // Past the first checks: a link header with a right length, an IPv6 or UDP-in-IPv6 start.
        if bytes.len() >= 60 && kind < 3 {
            let len = bytes.len();
            let words = ((len - VCRC_LEN) / 4) as u16;
            match kind {
                0 => (bytes[0], bytes[1]) = (0, 2),
                1 => {
                    (bytes[0], bytes[1], bytes[8], bytes[14]) = (0, 3, 0x60, 0x1b);
                    bytes[12..14].copy_from_slice(&((len - 50) as u16).to_be_bytes());
                }
                _ => {
                    (bytes[0], bytes[6]) = (0x60, 17);
                    bytes[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
                    bytes[42..44].copy_from_slice(&4791_u16.to_be_bytes());
                    bytes[44..48].copy_from_slice(&[0, (len - 40) as u8, 0, 0]);
                }
            }
            if kind < 2 {
                bytes[4..6].copy_from_slice(&words.to_be_bytes());
            }
            let _ = (NativePacket::parse_unchecked(&bytes), NativePacket::check_icrc(&bytes));
            let _ = RocePacket::parse(&bytes);
        }
    }
}

#[test]
fn a_congestion_notification_is_a_bth_and_sixteen_zeros() {
    let cnp = Packet::cnp(Qpn(0x12_3456), PKey(0xffff));
    let mut out = [0xa5; 29];
    assert_eq!(cnp.emit(&mut out), Ok(28));
    assert_eq!(
        out[..12],
        [
            0x81, 0x00, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56, 0x00, 0x00, 0x00, 0x00
        ]
    );
    assert_eq!(out[12..], [&[0; 16][..], &[0xa5]].concat());
    assert_eq!(Packet::parse(&out[..28]), Ok(cnp));
    assert_eq!(
        Packet::parse(&out[..24]),
        Err(ParseError::Payload {
            opcode: Opcode::Cnp,
            len: 12
        })
    );
    assert_eq!(
        cnp.to_string(),
        "CNP psn=0x000000 qpn=0x123456 becn payload=16"
    );
}

#[test]
fn a_global_packet_too_short_for_its_grh_is_refused() {
    let lrh = Lrh {
        vl: Vl(0),
        sl: Sl(0),
        dlid: Lid(1),
        slid: Lid(2),
    };
    let grh = Grh {
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 1,
        sgid: Gid([1; 16]),
        dgid: Gid([2; 16]),
    };
    // LRH, GRH and as little as fits: the trailers overlap the GRH or leave no BTH.
    for len in 48..66 {
        let mut bytes = vec![0; len];
        lrh.emit(LinkNext::Global, (len - VCRC_LEN) / 4 * 4, &mut bytes)
            .expect("fits");
        grh.emit(
            NextHeader::Transport,
            len.saturating_sub(50),
            &mut bytes[8..],
        )
        .expect("fits");
        assert!(NativePacket::parse_unchecked(&bytes).is_err(), "{len}");
    }
}

#[test]
fn raw_packets_are_named() {
    let mut bytes = [0; 40];
    let lrh = Lrh {
        vl: Vl(0),
        sl: Sl(0),
        dlid: Lid(1),
        slid: Lid(2),
    };
    lrh.emit(LinkNext::RawIpv6, 36, &mut bytes).expect("fits");
    bytes[38..].copy_from_slice(&[0; 2]);
    assert_eq!(
        NativePacket::parse_unchecked(&bytes),
        Err(ParseError::Length {
            field: "PktLen",
            expected: 36,
            got: 38
        })
    );
    assert_eq!(
        NativePacket::parse_unchecked(&bytes[..38]),
        Err(ParseError::RawPacket(1))
    );
}
