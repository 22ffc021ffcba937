//! Where each field stands. The offsets here are those of the protocol's documents and of the
//! implementations that exist, written down apart from the structs of this crate.

use ferriband_sdp_wire::*;

const HEADER: MessageHeader = MessageHeader {
    flags: Flags::OOB_PRES.union(Flags::REQ_PIPE),
    bufs: 0x1122,
    mseq: MessageSeq(0x3344_5566),
    mseq_ack: MessageSeq(0x7788_99aa),
};

/// A message of `len` bytes: zeros, then what stands at each offset.
fn bytes(mid: u8, len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &[mid, 0b101, 0x11, 0x22]);
    put(4, &(len as u32).to_be_bytes());
    put(8, &[0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa]);
    for (at, field) in fields {
        put(*at, field);
    }
    bytes
}

#[track_caller]
fn stands(body: Body<'_>, expected: &[u8]) {
    let message = Message {
        header: HEADER,
        body,
    };
    let mut out = [0xff; 256];
    let len = message.emit(&mut out).expect("fits");
    assert_eq!(&out[..len], expected, "{}", body.mid());
    assert_eq!(Message::parse(expected), Ok(message));
}

const ADVERT: Advert = Advert {
    length_bytes: 0x0102_0304,
    rkey: RKey(0x0506_0708),
    virtual_address: 0x090a_0b0c_0d0e_0f10,
};
const ADVERT_BYTES: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

#[test]
fn messages_without_extended_header() {
    stands(Body::DisConn, &bytes(0x02, 16, &[]));
    stands(Body::AbortConn, &bytes(0x03, 16, &[]));
    stands(Body::SendSm, &bytes(0x04, 16, &[]));
    stands(Body::SrcAvailCancel, &bytes(0x08, 16, &[]));
    stands(Body::SinkAvailCancel, &bytes(0x09, 16, &[]));
    stands(Body::SinkCancelAck, &bytes(0x0a, 16, &[]));
    stands(Body::SuspCommAck, &bytes(0x0e, 16, &[]));
    stands(Body::Data(&[]), &bytes(0xff, 16, &[]));
    stands(Body::Data(b"stream"), &bytes(0xff, 22, &[(16, b"stream")]));
}

#[test]
fn messages_with_an_extended_header() {
    let size = 0x0102_0304;
    let sized: &[(usize, &[u8])] = &[(16, &[1, 2, 3, 4])];
    stands(
        Body::RdmaWrCompl { length_bytes: size },
        &bytes(0x05, 20, sized),
    );
    stands(
        Body::RdmaRdCompl { length_bytes: size },
        &bytes(0x06, 20, sized),
    );
    stands(
        Body::ModeChange(ModeChange {
            half: ConnectionHalf::Send,
            mode: TransferMode::Combined,
        }),
        &bytes(0x07, 20, &[(16, &[0x90])]),
    );
    stands(Body::ChRcvBuf { size_bytes: size }, &bytes(0x0b, 20, sized));
    stands(
        Body::ChRcvBufAck { size_bytes: size },
        &bytes(0x0c, 20, sized),
    );
    stands(
        Body::SuspComm {
            service_id: ServiceId::from_port(7174),
        },
        &bytes(0x0d, 24, &[(16, &[0, 0, 0, 0, 0, 1, 0x1c, 0x06])]),
    );
    stands(
        Body::SinkAvail {
            advert: ADVERT,
            non_discards: 0x1112_1314,
            data: b"x",
        },
        &bytes(
            0xfd,
            37,
            &[
                (16, &ADVERT_BYTES),
                (32, &[0x11, 0x12, 0x13, 0x14]),
                (36, b"x"),
            ],
        ),
    );
    stands(
        Body::SrcAvail {
            advert: ADVERT,
            data: b"first bytes",
        },
        &bytes(0xfe, 43, &[(16, &ADVERT_BYTES), (32, b"first bytes")]),
    );
}

const RING: Ring = Ring {
    virtual_address: 0x2122_2324_2526_2728,
    rkey: RKey(0x3132_3334),
    size_bytes: 0x0010_0000,
};
const NIC: FlowControl = FlowControl::Nic {
    ring: RING,
    window_bytes: 0x2000,
    second_qp: 0xab_cdef,
};
/// Magic, version 1 and NIC, window, size, key, address.
const NIC_BYTES: [u8; 24] = [
    0x46, 0x53, 0x64, 0x12, 0, 0, 0x20, 0, 0, 0x10, 0, 0, 0x31, 0x32, 0x33, 0x34, 0x21, 0x22, 0x23,
    0x24, 0x25, 0x26, 0x27, 0x28,
];

fn v4_hello(flow_control: Option<FlowControl>) -> Hello {
    Hello {
        version: Version::OFED,
        capabilities: Capabilities::INVALIDATE | Capabilities::EXT_MAX_ADVERTS,
        max_adverts: 7,
        ext_max_adverts: 0x0809,
        desired_remote_receive_bytes: 0x4142_4344,
        local_receive_bytes: 0x5152_5354,
        port: 0x6162,
        addresses: Addresses::V4 {
            source: [10, 1, 2, 3].into(),
            destination: [10, 1, 2, 4].into(),
        },
        flow_control,
    }
}

const V4_FIELDS: [(usize, &[u8]); 8] = [
    (16, &[0x22, 0x43, 0, 7]),
    (20, &[0x41, 0x42, 0x43, 0x44]),
    (24, &[0x51, 0x52, 0x53, 0x54]),
    (28, &[0x61, 0x62]),
    (44, &[10, 1, 2, 3]),
    (60, &[10, 1, 2, 4]),
    (66, &[8, 9]),
    (68, &[]),
];

#[test]
fn hello_fills_the_private_data_of_a_req() {
    stands(Body::Hello(v4_hello(None)), &bytes(0x00, 92, &V4_FIELDS));
    let mut fields = V4_FIELDS;
    fields[0] = (16, &[0x22, 0x43, 0xab, 7]);
    fields[3] = (28, &[0x61, 0x62, 0xcd, 0xef]);
    fields[7] = (68, &NIC_BYTES);
    stands(Body::Hello(v4_hello(Some(NIC))), &bytes(0x00, 92, &fields));
    let (source, destination) = ([0x71; 16], [0x72; 16]);
    let v6 = Hello {
        version: Version::TOPSPIN,
        addresses: Addresses::V6 {
            source: source.into(),
            destination: destination.into(),
        },
        ..v4_hello(None)
    };
    let mut fields = V4_FIELDS;
    fields[0] = (16, &[0x11, 0x63, 0, 7]);
    fields[4] = (32, &source);
    fields[5] = (48, &destination);
    stands(Body::Hello(v6), &bytes(0x00, 92, &fields));
}

#[test]
fn hello_ack_fills_the_private_data_of_a_rep() {
    let ack = HelloAck {
        version: Version::OFED,
        max_adverts: 7,
        actual_receive_bytes: 0x4142_4344,
        flow_control: None,
    };
    let fields: [(usize, &[u8]); 4] = [
        (16, &[0x22, 0, 0, 7]),
        (20, &[0x41, 0x42, 0x43, 0x44]),
        (24, &NIC_BYTES),
        (48, &[0, 0xab, 0xcd, 0xef]),
    ];
    stands(Body::HelloAck(ack), &bytes(0x01, 196, &fields[..2]));
    let ack = HelloAck {
        flow_control: Some(NIC),
        ..ack
    };
    stands(Body::HelloAck(ack), &bytes(0x01, 196, &fields));
}

#[test]
fn handshakes_that_announce_only_what_they_know_are_read() {
    // As some versions of OFED's stack send them: 64 of 92 bytes, 24 of 196. What stands behind
    // the end is not the message's.
    let mut asks = bytes(0x00, 92, &V4_FIELDS);
    asks[68..].copy_from_slice(&NIC_BYTES);
    asks[7] = 64;
    let expected = Hello {
        ext_max_adverts: 0,
        ..v4_hello(None)
    };
    let parsed = Message::parse(&asks).expect("a Hello");
    assert_eq!(parsed.body, Body::Hello(expected));
    asks[7] = 63;
    let truncated = ParseError::Truncated {
        what: "Hello",
        needed: 48,
        got: 47,
    };
    assert_eq!(Message::parse(&asks), Err(truncated));

    let fields: [(usize, &[u8]); 2] = [(16, &[0x22, 0, 0, 1, 0, 0, 0x80, 0x10]), (24, &NIC_BYTES)];
    let mut accepts = bytes(0x01, 196, &fields);
    accepts[7] = 24;
    let expected = HelloAck {
        version: Version::OFED,
        max_adverts: 1,
        actual_receive_bytes: 0x8010,
        flow_control: None,
    };
    let parsed = Message::parse(&accepts).expect("a HelloAck");
    assert_eq!(parsed.body, Body::HelloAck(expected));
}

#[test]
fn reserved_bits_are_ignored() {
    let mut asks = bytes(0x00, 92, &V4_FIELDS);
    asks[1] |= 0xf8;
    asks[17] |= 0x0c;
    for reserved in [18, 30, 31, 32, 43, 48, 64, 65, 70, 91] {
        asks[reserved] = 0xee;
    }
    let expected = Message {
        header: HEADER,
        body: Body::Hello(v4_hello(None)),
    };
    assert_eq!(Message::parse(&asks), Ok(expected));

    let mut change = bytes(0x07, 20, &[(16, &[0x2f, 1, 2, 3])]);
    change[1] |= 0xf8;
    let expected = Message {
        header: HEADER,
        body: Body::ModeChange(ModeChange {
            half: ConnectionHalf::Receive,
            mode: TransferMode::Pipelined,
        }),
    };
    assert_eq!(Message::parse(&change), Ok(expected));
}

#[test]
fn an_ip_version_that_does_not_exist_is_refused() {
    let mut asks = bytes(0x00, 92, &V4_FIELDS);
    for version in (0..16).filter(|version| ![4, 6].contains(version)) {
        asks[17] = version << 4;
        let refused = ParseError::Field {
            field: "IP version of Hello",
            value: version.into(),
        };
        assert_eq!(Message::parse(&asks), Err(refused));
    }
}

#[test]
fn short_forms_fit_into_the_private_data_of_the_tcp_port_space() {
    assert_eq!(SHORT_HELLO_LEN, 56);
    const { assert!(SHORT_HELLO_ACK_LEN <= 196) };
    let mut out = [0xff; 56];
    let asks = Message {
        header: HEADER,
        body: Body::Hello(v4_hello(Some(NIC))),
    };
    asks.emit_short(&mut out).expect("fits");
    let head = [
        0x46, 0x53, 0x64, 0x48, 0x22, 3, 7, 0b101, 8, 9, 0x11, 0x22, 0x61, 0x62, 0, 0, 0x41, 0x42,
        0x43, 0x44, 0x51, 0x52, 0x53, 0x54, 0x33, 0x44, 0x55, 0x66, 0, 0xab, 0xcd, 0xef,
    ];
    assert_eq!(out[..32], head);
    assert_eq!(out[32..], NIC_BYTES);

    let accepts = Message {
        header: HEADER,
        body: Body::HelloAck(HelloAck {
            version: Version::OFED,
            max_adverts: 7,
            actual_receive_bytes: 0x4142_4344,
            flow_control: Some(NIC),
        }),
    };
    assert_eq!(accepts.emit_short(&mut out), Ok(48));
    let head = [
        0x46, 0x53, 0x64, 0x41, 0x22, 7, 0b101, 0, 0x11, 0x22, 0, 0, 0x41, 0x42, 0x43, 0x44, 0x33,
        0x44, 0x55, 0x66, 0, 0xab, 0xcd, 0xef,
    ];
    assert_eq!(out[..24], head);
    assert_eq!(out[24..48], NIC_BYTES);
}
