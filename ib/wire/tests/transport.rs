//! Laws of the transport headers and of whole transport packets.

mod common;

use common::*;
use ferriband_wire::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn reth_round_trips(header in reth()) { header_round_trip(header) }
    #[test]
    fn atomic_eth_round_trips(header in atomic_eth()) { header_round_trip(header) }
    #[test]
    fn atomic_ack_eth_round_trips(original: u64) { header_round_trip(AtomicAckEth { original }) }
    #[test]
    fn aeth_round_trips(header in aeth()) { header_round_trip(header) }
    #[test]
    fn deth_round_trips(header in deth()) { header_round_trip(header) }
    #[test]
    fn rdeth_round_trips(ee_context in u24()) { header_round_trip(Rdeth { ee_context }) }
    #[test]
    fn xrceth_round_trips(xrc_srq in u24()) { header_round_trip(XrcEth { xrc_srq }) }
    #[test]
    fn immdt_round_trips(bytes: [u8; 4]) { header_round_trip(ImmDt { bytes }) }
    #[test]
    fn ieth_round_trips(rkey: u32) { header_round_trip(Ieth { rkey: RKey(rkey) }) }

    #[test]
    fn bth_round_trips(bth in opcode().prop_flat_map(bth), pad in 0_u8..4) {
        let mut out = [0xa5; Bth::LEN + 1];
        prop_assert_eq!(bth.emit(pad, &mut out).expect("fits").len(), 1);
        let (parsed, parsed_pad, rest) = Bth::parse(&out).expect("parses");
        prop_assert_eq!((parsed, parsed_pad, rest), (bth, pad, &[0xa5][..]));
        let peeked = Bth::peek(&out).expect("long enough");
        prop_assert_eq!(
            (peeked.opcode_code(), peeked.dest_qpn(), peeked.psn(), peeked.pad_count()),
            (bth.opcode.code(), bth.dest_qpn, bth.psn, pad)
        );
    }

    /// Bits that the IBA reserves are zero when sent and change nothing when received.
    #[test]
    fn bth_reserved_bits(bth in opcode().prop_flat_map(bth), noise: [u8; 2]) {
        let mut out = [0; Bth::LEN];
        bth.emit(0, &mut out).expect("fits");
        prop_assert_eq!((out[4] & 0x3f, out[8] & 0x7f, out[1] & 0x0f), (0, 0, 0));
        out[4] |= noise[0] & 0x3f;
        out[8] |= noise[1] & 0x7f;
        prop_assert_eq!(Bth::parse(&out).expect("parses").0, bth);
    }

    #[test]
    fn packets_round_trip((headers, payload) in packet()) {
        let packet = Packet { headers, payload: &payload };
        let len = packet.wire_len();
        prop_assert_eq!(len % 4, 0);
        let mut out = vec![0xa5; len + 1];
        prop_assert_eq!(packet.emit(&mut out), Ok(len));
        prop_assert_eq!(out[len], 0xa5);
        prop_assert!(out[len - packet.pad_len()..len].iter().all(|byte| *byte == 0));
        prop_assert_eq!(Packet::parse(&out[..len]), Ok(packet));
        prop_assert_eq!(
            packet.emit(&mut out[..len - 1]),
            Err(EmitError::BufferTooSmall { needed: len, got: len - 1 })
        );
        // What a sender that gathers its own payload writes is the same.
        let mut gathered = vec![0; len];
        let at = headers.emit(payload.len(), &mut gathered).expect("fits");
        gathered[at..at + payload.len()].copy_from_slice(&payload);
        prop_assert_eq!(&gathered, &out[..len]);
    }

    /// A packet cut anywhere is refused or, where the cut only shortens the payload, still a valid packet.
    #[test]
    fn cut_packets_are_refused_or_shorter((headers, payload) in packet(), cut in any::<proptest::sample::Index>()) {
        let packet = Packet { headers, payload: &payload };
        let mut out = vec![0; packet.wire_len()];
        packet.emit(&mut out).expect("fits");
        let cut = cut.index(out.len());
        match Packet::parse(&out[..cut]) {
            Ok(short) => {
                prop_assert_eq!(short.headers, headers);
                prop_assert!(short.payload.len() < payload.len());
            }
            Err(ParseError::Truncated { needed, got, .. }) => prop_assert!(got < needed && cut < headers.wire_len()),
            Err(ParseError::Misaligned { len }) => prop_assert!(len % 4 != 0),
            Err(ParseError::Pad { pad, len }) => prop_assert!(len < pad.into()),
            Err(ParseError::Payload { .. }) => prop_assert_eq!(headers.bth.opcode.kind(), Kind::Notification),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// Any bytes: no panic, and what parses is canonical once its reserved bits and pad are cleared by emitting.
    #[test]
    fn any_bytes_parse_or_fail(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), code in opcode()) {
        let _ = Packet::parse(&bytes);
        // Past the first two checks, so that the deeper ones see noise too.
        if bytes.len() > 1 {
            bytes[0] = code.code();
            bytes[1] &= 0xf0;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut out = vec![0; bytes.len()];
            match packet.emit(&mut out) {
                Ok(len) => {
                    prop_assert_eq!(len, bytes.len());
                    prop_assert_eq!(Packet::parse(&out), Ok(packet));
                }
                Err(error) => prop_assert!(matches!(error, EmitError::ReservedSyndrome(_)), "{}", error),
            }
        }
    }
}

#[test]
fn every_opcode_refuses_missing_and_surplus_headers() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = |opcode| {
        ext(opcode)
            .new_tree(&mut runner)
            .expect("a value")
            .current()
    };
    let mut out = [0; 128];
    for &opcode in Opcode::ALL {
        for &other in Opcode::ALL {
            let headers = Headers::new(Bth::new(opcode, Qpn(2), Psn::new(3)), sample(other));
            let len = match opcode.kind() {
                Kind::Notification => 16,
                _ => 0,
            };
            let (have, want) = (other.info().headers, opcode.info().headers);
            match headers.emit(len, &mut out) {
                Ok(written) => assert_eq!((written, have), (headers.wire_len(), want)),
                Err(EmitError::MissingHeader { header, .. }) => {
                    assert!(want.contains(&header) && !have.contains(&header));
                }
                Err(EmitError::UnexpectedHeader { header, .. }) => {
                    assert!(!want.contains(&header) && have.contains(&header));
                }
                Err(error) => panic!("{opcode}: {error}"),
            }
        }
    }
}

#[test]
fn values_wider_than_their_field_are_refused() {
    let mut out = [0; 64];
    let wide = 1 << 24;
    let error = |field| {
        Err(EmitError::OutOfRange {
            field,
            value: wide,
            bits: 24,
        })
    };
    let bth = Bth::new(Opcode::RcSendOnly, Qpn(wide), Psn::new(0));
    assert_eq!(
        Headers::new(bth, Ext::default()).emit(0, &mut out),
        error("DestQP")
    );
    assert_eq!(
        Deth {
            qkey: QKey(0),
            src_qpn: Qpn(wide)
        }
        .emit(&mut out)
        .map(|_| 0),
        error("SrcQP")
    );
    assert_eq!(
        XrcEth { xrc_srq: wide }.emit(&mut out).map(|_| 0),
        error("XRCSRQ")
    );
    let aeth = Aeth {
        syndrome: Syndrome::RnrNak(0),
        msn: Msn(wide),
    };
    assert_eq!(aeth.emit(&mut out).map(|_| 0), error("MSN"));
}

#[test]
fn payload_where_none_may_be_is_refused_both_ways() {
    let aeth = Aeth {
        syndrome: Syndrome::Ack(CreditCode::NONE),
        msn: Msn(1),
    };
    let headers = Headers::new(
        Bth::new(Opcode::RcAcknowledge, Qpn(2), Psn::new(3)),
        Ext {
            aeth: Some(aeth),
            ..Ext::default()
        },
    );
    let mut out = [0; 20];
    let refused = EmitError::Payload {
        opcode: Opcode::RcAcknowledge,
        len: 4,
    };
    assert_eq!(
        Packet {
            headers,
            payload: &[0; 4]
        }
        .emit(&mut out),
        Err(refused)
    );
    headers.emit(0, &mut out).expect("fits");
    let refused = ParseError::Payload {
        opcode: Opcode::RcAcknowledge,
        len: 4,
    };
    assert_eq!(Packet::parse(&out), Err(refused));
}

#[test]
fn unknown_opcodes_and_versions_are_named() {
    let mut bytes = [0; 12];
    bytes[0] = 0x15;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::UnknownOpcode(0x15)));
    bytes[1] = 0x01;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::TransportVersion(1)));
    assert!(matches!(
        Packet::parse(&bytes[..11]),
        Err(ParseError::Truncated {
            what: "BTH",
            needed: 12,
            got: 11
        })
    ));
}
