//! Packets of real peers (see golden/README.md): each parses, its CRCs verify, it re-emits byte for byte, and the
//! packets are the ones that the traffic must have had.

use ferriband_wire::pcap::{LinkType, PcapReader};
use ferriband_wire::*;

macro_rules! capture {
    ($name:literal) => {
        include_bytes!(concat!("golden/rxe/", $name, ".pcap"))
    };
}

/// Every packet of a capture, parsed (which verifies checksums and ICRC) and re-emitted to the same bytes.
fn packets(capture: &[u8]) -> Vec<RocePacket<'_>> {
    let reader = PcapReader::new(capture).expect("a capture");
    assert_eq!(reader.link_type(), LinkType::Ethernet as u32);
    reader
        .map(|record| {
            let frame = record.expect("whole").bytes;
            let (ethernet, packet) =
                RocePacket::parse_ethernet(frame).expect("parses and verifies");
            let mut out = vec![0xa5; frame.len()];
            let rest = ethernet.emit(&mut out).expect("fits");
            assert_eq!(packet.emit(rest), Ok(packet.wire_len()));
            assert_eq!(out, frame, "{packet}");
            packet
        })
        .collect()
}

fn opcodes(packets: &[RocePacket]) -> Vec<Opcode> {
    packets
        .iter()
        .map(|packet| packet.packet.opcode())
        .collect()
}

use Opcode::{
    RcAcknowledge as ACK, RcAtomicAcknowledge as ATOMIC_ACK, RcCompareSwap as CAS,
    RcFetchAdd as ADD, RcReadRequest as READ, RcReadResponseFirst as READ_FIRST,
    RcReadResponseLast as READ_LAST, RcReadResponseMiddle as READ_MIDDLE,
    RcReadResponseOnly as READ_ONLY, RcSendFirst as SEND_FIRST, RcSendLast as SEND_LAST,
    RcSendLastImm as SEND_LAST_IMM, RcSendMiddle as SEND_MIDDLE, RcSendOnly as SEND_ONLY,
    RcSendOnlyImm as SEND_ONLY_IMM, RcWriteFirst as WRITE_FIRST, RcWriteLast as WRITE_LAST,
    RcWriteLastImm as WRITE_LAST_IMM, RcWriteMiddle as WRITE_MIDDLE, RcWriteOnly as WRITE_ONLY,
    RcWriteOnlyImm as WRITE_ONLY_IMM,
};

/// Path MTU of the captures.
const MTU: usize = 1024;

#[test]
fn sends_of_every_length() {
    let capture = packets(capture!("send"));
    let mut expected = Vec::new();
    // 0, 1, 2, 3, 4, 100, 1023, 1024 bytes: one packet each.
    for _ in 0..8 {
        expected.extend([SEND_ONLY, ACK]);
    }
    expected.extend([SEND_FIRST, SEND_LAST, ACK]); // 1025
    expected.extend([SEND_FIRST, SEND_LAST, ACK]); // 2048
    expected.extend([
        SEND_FIRST,
        SEND_MIDDLE,
        SEND_MIDDLE,
        SEND_MIDDLE,
        SEND_LAST,
        ACK,
    ]); // 5000
    expected.extend([SEND_ONLY_IMM, ACK]); // 8
    expected.extend([SEND_FIRST, SEND_MIDDLE, SEND_LAST_IMM, ACK]); // 3001
    assert_eq!(opcodes(&capture), expected);

    let requests: Vec<&Packet> = capture
        .iter()
        .map(|p| &p.packet)
        .filter(|p| p.opcode().kind() == Kind::Request)
        .collect();
    let mut lengths = Vec::new();
    for request in &requests {
        let info = request.headers.info();
        assert!(info.payload.allows(request.payload.len(), MTU), "{request}");
        if info.takes_receive() {
            lengths.push(0);
        }
        *lengths.last_mut().expect("starts with a first packet") += request.payload.len();
    }
    assert_eq!(
        lengths,
        [0, 1, 2, 3, 4, 100, 1023, 1024, 1025, 2048, 5000, 8, 3001]
    );
    // I5: the numbers wrap at 2^24 within the capture.
    for pair in requests.windows(2) {
        assert_eq!(pair[1].bth().psn, pair[0].bth().psn.next());
    }
    assert_eq!(requests[0].bth().psn, Psn::new(0xff_fffc));
    let immediates: Vec<u32> = requests
        .iter()
        .filter_map(|p| p.ext().imm)
        .map(|imm| u32::from_be_bytes(imm.bytes))
        .collect();
    assert_eq!(immediates, [0xabcd_000b, 0xabcd_000c]);
}

#[test]
fn reads_of_every_length() {
    let capture = packets(capture!("read"));
    let three = [READ_FIRST, READ_MIDDLE, READ_LAST];
    let mut expected = Vec::new();
    for _ in 0..4 {
        expected.extend([READ, READ_ONLY]); // 0, 1, 8, 1024
    }
    expected.extend([READ, READ_FIRST, READ_LAST]); // 1025
    expected.extend([READ, READ_FIRST, READ_LAST]); // 2048
    expected.extend([
        READ,
        READ_FIRST,
        READ_MIDDLE,
        READ_MIDDLE,
        READ_MIDDLE,
        READ_LAST,
    ]); // 5000
    // Four of 3000 bytes, the last two requested back to back.
    for _ in 0..2 {
        expected.push(READ);
        expected.extend(three);
    }
    expected.extend([READ, READ]);
    expected.extend(three);
    expected.extend(three);
    assert_eq!(opcodes(&capture), expected);

    let lengths: Vec<u32> = capture
        .iter()
        .filter_map(|p| p.packet.ext().reth)
        .map(|reth| reth.dma_length)
        .collect();
    assert_eq!(
        lengths,
        [0, 1, 8, 1024, 1025, 2048, 5000, 3000, 3000, 3000, 3000]
    );
    let returned: usize = capture.iter().map(|p| p.packet.payload.len()).sum();
    assert_eq!(returned, 1 + 8 + 1024 + 1025 + 2048 + 5000 + 4 * 3000);
}

#[test]
fn writes_of_every_length() {
    let capture = packets(capture!("write"));
    let mut expected = Vec::new();
    for _ in 0..4 {
        expected.extend([WRITE_ONLY, ACK]); // 0, 1, 7, 1024
    }
    expected.extend([WRITE_FIRST, WRITE_LAST, ACK]); // 1025
    expected.extend([WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, ACK]); // 2049
    expected.extend([
        WRITE_FIRST,
        WRITE_MIDDLE,
        WRITE_MIDDLE,
        WRITE_MIDDLE,
        WRITE_LAST,
        ACK,
    ]); // 5000
    expected.extend([WRITE_ONLY_IMM, ACK]); // 5
    expected.extend([WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM, ACK]); // 2500
    assert_eq!(opcodes(&capture), expected);
    let lengths: Vec<u32> = capture
        .iter()
        .filter_map(|p| p.packet.ext().reth)
        .map(|reth| reth.dma_length)
        .collect();
    assert_eq!(lengths, [0, 1, 7, 1024, 1025, 2049, 5000, 5, 2500]);
}

#[test]
fn atomics_return_what_was_there() {
    let capture = packets(capture!("atomic"));
    assert_eq!(
        opcodes(&capture),
        [ADD, ATOMIC_ACK, CAS, ATOMIC_ACK, CAS, ATOMIC_ACK]
    );
    let asked: Vec<(u64, u64)> = capture
        .iter()
        .filter_map(|p| p.packet.ext().atomic)
        .map(|a| (a.swap_add, a.compare))
        .collect();
    // 42 + 5 = 47; 47 is replaced by 99; 1 is not there, so 99 stays.
    assert_eq!(asked, [(5, 0), (99, 47), (7, 1)]);
    let originals: Vec<u64> = capture
        .iter()
        .filter_map(|p| p.packet.ext().atomic_ack)
        .map(|ack| ack.original)
        .collect();
    assert_eq!(originals, [42, 47, 99]);
    let msns: Vec<u32> = capture
        .iter()
        .filter_map(|p| p.packet.ext().aeth)
        .map(|aeth| aeth.msn.0)
        .collect();
    assert_eq!(msns, [1, 2, 3]);
}

#[test]
fn receiver_not_ready_then_recovered_then_given_up() {
    let capture = packets(capture!("rnr"));
    assert_eq!(opcodes(&capture), [SEND_ONLY, ACK].repeat(7));
    let syndromes: Vec<Syndrome> = capture
        .iter()
        .filter_map(|p| p.packet.ext().aeth)
        .map(|aeth| aeth.syndrome)
        .collect();
    // Timer 20 is 10.24 ms, 14 is 1.28 ms. The second queue pair has rnr_retry 2: three attempts.
    let mut expected = vec![Syndrome::RnrNak(20); 3];
    expected.push(Syndrome::Ack(CreditCode::NONE));
    expected.extend([Syndrome::RnrNak(14); 3]);
    assert_eq!(syndromes, expected);
    // Each attempt repeats the PSN.
    let psns: Vec<Psn> = capture.iter().map(|p| p.packet.bth().psn).collect();
    assert!(
        psns[..8].iter().all(|psn| *psn == psns[0]) && psns[8..].iter().all(|psn| *psn == psns[8])
    );
}

#[test]
fn unreliable_services() {
    use Opcode::*;
    let uc = packets(capture!("uc"));
    let expected = [
        UcSendOnly,
        UcSendFirst,
        UcSendMiddle,
        UcSendLast,
        UcWriteFirst,
        UcWriteMiddle,
        UcWriteLast,
        UcWriteOnlyImm,
        UcSendFirst,
        UcSendLastImm,
    ];
    assert_eq!(opcodes(&uc), expected);
    let ud = packets(capture!("ud"));
    assert_eq!(
        opcodes(&ud),
        [UdSendOnly, UdSendOnly, UdSendOnlyImm, UdSendOnly]
    );
    assert_eq!(
        ud.iter()
            .map(|p| p.packet.payload.len())
            .collect::<Vec<_>>(),
        [1, 1024, 33, 0]
    );
    assert!(ud.iter().all(|p| {
        p.packet
            .ext()
            .deth
            .is_some_and(|deth| deth.qkey == QKey(0x1111_1111))
    }));
}

#[test]
fn a_connection_from_request_to_disconnect() {
    let capture = packets(capture!("cm"));
    // ConnectRequest, ConnectReply, ReadyToUse and what ends it are 256-byte MADs to queue pair 1.
    let mads: Vec<&RocePacket> = capture
        .iter()
        .filter(|p| p.packet.bth().dest_qpn == Qpn(1))
        .collect();
    assert!(mads.len() >= 5);
    for mad in &mads {
        assert_eq!(
            (mad.packet.opcode(), mad.packet.payload.len()),
            (Opcode::UdSendOnly, 256)
        );
        assert_eq!(
            mad.packet.ext().deth,
            Some(Deth {
                qkey: QKey(0x8001_0000),
                src_qpn: Qpn(1)
            })
        );
    }
    // rping: the server reads the client's buffer, then writes it back, four times.
    let count = |opcode| {
        capture
            .iter()
            .filter(|p| p.packet.opcode() == opcode)
            .count()
    };
    assert_eq!(
        (count(READ), count(READ_ONLY), count(WRITE_ONLY)),
        (4, 4, 4)
    );
}

/// The identification is not shown by a UDP socket; the ICRC gives it away.
#[test]
fn the_identification_is_recovered_from_every_datagram() {
    let mut seen = 0;
    for capture in [
        &capture!("read")[..],
        capture!("send"),
        capture!("cm"),
        capture!("ud"),
    ] {
        for record in PcapReader::new(capture).expect("a capture") {
            let frame = record.expect("whole").bytes;
            let (_, packet) = RocePacket::parse_ethernet(frame).expect("parses");
            let RoceIp::V4(ip) = packet.headers.ip else {
                panic!("captured over IPv4")
            };
            let shown = RoceHeaders {
                ip: RoceIp::v4(ip.source, ip.destination, 0),
                ..packet.headers
            };
            let datagram = &frame[Ethernet::LEN + shown.wire_len()..];
            let transport = &datagram[..datagram.len() - ICRC_LEN];
            assert_eq!(
                check_datagram(&shown, datagram),
                Ok((transport, ip.identification))
            );
            seen += usize::from(ip.identification != 0);
        }
    }
    assert!(seen > 100, "the captures have identifications");
}

/// The frames of native.hex, by their number in the original capture.
fn native_frames() -> Vec<(u32, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut number = 0;
    for line in include_str!("golden/native.hex").lines().skip(1) {
        match line.strip_prefix("# ") {
            Some(title) => {
                number = title
                    .split(':')
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("a frame number");
            }
            None => frames.push((number, unhex(line))),
        }
    }
    frames
}

fn unhex(line: &str) -> Vec<u8> {
    line.as_bytes()
        .chunks(2)
        .map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .map(|byte| byte.expect("hexadecimal"))
        .collect()
}

#[test]
fn native_packets_of_real_adapters() {
    let frames = native_frames();
    assert_eq!(
        frames.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        [1, 2, 5, 7, 8, 9, 10, 11, 26, 30, 31, 32, 33]
    );
    for (number, bytes) in &frames {
        let packet =
            NativePacket::parse(bytes).unwrap_or_else(|error| panic!("frame {number}: {error}"));
        assert_eq!(packet.grh.is_some(), [5, 26].contains(number));
        let mut out = vec![0xa5; bytes.len()];
        assert_eq!(packet.emit(&mut out), Ok(bytes.len()));
        assert_eq!(out, *bytes, "frame {number}: {packet}");
    }
    let parsed = |wanted: u32| {
        let (_, bytes) = frames
            .iter()
            .find(|(number, _)| *number == wanted)
            .expect("there");
        NativePacket::parse(bytes).expect("parses").to_string()
    };
    assert_eq!(
        parsed(1),
        "lid 0xffff > 0xffff sl=0 vl=15 UD SEND Only psn=0x0001e9 qpn=0x000000 src=0x000000 \
         qkey=0x00000000 payload=256"
    );
    assert_eq!(
        parsed(11),
        "lid 0x0001 > 0x0004 sl=0 vl=0 RC Acknowledge psn=0xd40a55 qpn=0x870408 ACK credits=none msn=0x000001"
    );
}

#[test]
fn a_congestion_notification_of_a_real_adapter() {
    let line = include_str!("golden/cnp.hex").lines().nth(1);
    let frame = unhex(line.expect("the frame"));
    let (ethernet, packet) = RocePacket::parse_ethernet(&frame).expect("parses and verifies");
    assert_eq!(packet.packet, Packet::cnp(Qpn(0x118), PKey(0xffff)));
    // DSCP 48, and itself ECN-capable.
    assert_eq!(packet.headers.ip.traffic_class(), 48 << 2 | Ecn::Ect0 as u8);
    let mut out = vec![0xa5; frame.len()];
    let rest = ethernet.emit(&mut out).expect("fits");
    assert_eq!(packet.emit(rest), Ok(packet.wire_len()));
    assert_eq!(out, frame);
}

/// The worked example of the IBA's section on CRCs (table 29): an RDMA WRITE Only of 14 bytes, ICRC 96 25 b7 5a.
#[test]
fn the_example_of_the_iba() {
    let bytes = unhex(
        "7012375c000e17d20a20248700 87b1b3000dec2a01710a1c015d400238f27a050000000e\
         bb884d85fd5cfba4728bc0690ed40000"
            .replace(' ', "")
            .as_str(),
    );
    let (icrc, transport) = Icrc::native(&bytes).expect("a local packet");
    assert_eq!(
        icrc.finish_with(transport).to_le_bytes(),
        [0x96, 0x25, 0xb7, 0x5a]
    );
    let packet = Packet::parse(transport).expect("parses");
    assert_eq!(
        packet.to_string(),
        "RC RDMA WRITE Only psn=0x0dec2a qpn=0x87b1b3 va=0x01710a1c015d4002 rkey=0x38f27a05 len=14 payload=14"
    );
}
