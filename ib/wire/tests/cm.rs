//! The communication manager's messages: laws, the place of every field, and the messages of real peers.

#[macro_use]
mod common;

use common::*;
use ferriband_wire::cm::*;
use ferriband_wire::mad::*;
use ferriband_wire::pcap::PcapReader;
use ferriband_wire::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn private_data<const N: usize>() -> impl Strategy<Value = PrivateData<N>> {
    proptest::collection::vec(any::<u8>(), 0..=N)
        .prop_map(|bytes| PrivateData::new(&bytes).expect("fits"))
}

fn info() -> impl Strategy<Value = Info> {
    proptest::collection::vec(any::<u8>(), 0..=INFO_LEN)
        .prop_map(|bytes| Info::new(&bytes).expect("fits"))
}

fn path() -> impl Strategy<Value = CmPath> {
    (
        any::<(u16, u16, [u8; 16], [u8; 16])>(),
        (0_u32..1 << 20, 0_u8..64, any::<(u8, u8)>()),
        (0_u8..16, any::<bool>(), 0_u8..32),
    )
        .prop_map(
            |(
                (local_lid, remote_lid, local_gid, remote_gid),
                (flow_label, packet_rate, (traffic_class, hop_limit)),
                (sl, subnet_local, timeout),
            )| CmPath {
                local_lid: Lid(local_lid),
                remote_lid: Lid(remote_lid),
                local_gid: Gid(local_gid),
                remote_gid: Gid(remote_gid),
                flow_label,
                packet_rate,
                traffic_class,
                hop_limit,
                sl: Sl(sl),
                subnet_local,
                local_ack_timeout: TimeCode(timeout),
            },
        )
}

fn req() -> impl Strategy<Value = Req> {
    let transport = proptest::sample::select(vec![
        TransportType::Rc,
        TransportType::Uc,
        TransportType::Rd,
        TransportType::Extended,
    ]);
    (
        (
            any::<(u32, u64, u64, u32, u8, u8, u16)>(),
            [u24(), u24(), u24(), u24(), u24()],
        ),
        (
            transport,
            [0_u8..32, 0..32, 0..8, 0..8, 0..16, 0..8, 0..16],
            any::<[bool; 4]>(),
        ),
        (path(), path(), private_data()),
    )
        .prop_map(
            |(
                (plain, wide),
                (transport_type, small, flags),
                (primary, alternate, private_data),
            )| {
                let (comm, service, guid, qkey, responder_resources, initiator_depth, pkey) = plain;
                let [vendor_id, qpn, local_eecn, remote_eecn, psn] = wide;
                let [
                    remote,
                    local,
                    retry_count,
                    rnr_retry_count,
                    max_cm_retries,
                    extended,
                    mtu,
                ] = small;
                let [end_to_end_flow_control, rdc_exists, srq, sap_supported] = flags;
                Req {
                    local_comm_id: CommId(comm),
                    vendor_id,
                    service_id: ServiceId(service),
                    local_ca_guid: Guid(guid),
                    local_qkey: QKey(qkey),
                    local_qpn: Qpn(qpn),
                    responder_resources,
                    local_eecn,
                    initiator_depth,
                    remote_eecn,
                    remote_response_timeout: TimeCode(remote),
                    transport_type,
                    extended_transport_type: extended,
                    end_to_end_flow_control,
                    starting_psn: Psn::new(psn),
                    local_response_timeout: TimeCode(local),
                    retry_count,
                    pkey: PKey(pkey),
                    path_mtu_code: mtu,
                    rdc_exists,
                    rnr_retry_count,
                    max_cm_retries,
                    srq,
                    primary,
                    alternate,
                    sap_supported,
                    private_data,
                }
            },
        )
}

fn comm_ids() -> impl Strategy<Value = (CommId, CommId)> {
    any::<(u32, u32)>().prop_map(|(local, remote)| (CommId(local), CommId(remote)))
}

fn rep() -> impl Strategy<Value = Rep> {
    let failover = proptest::sample::select(Failover::ALL);
    (
        comm_ids(),
        (any::<(u32, u8, u8, u64)>(), [u24(), u24(), u24(), u24()]),
        (0_u8..32, failover, 0_u8..8, any::<(bool, bool)>()),
        private_data(),
    )
        .prop_map(
            |(ids, (plain, wide), (delay, failover, rnr_retry_count, flags), private_data)| {
                let (qkey, responder_resources, initiator_depth, guid) = plain;
                let [qpn, vendor_id, local_eecn, psn] = wide;
                Rep {
                    local_comm_id: ids.0,
                    remote_comm_id: ids.1,
                    local_qkey: QKey(qkey),
                    local_qpn: Qpn(qpn),
                    vendor_id,
                    local_eecn,
                    starting_psn: Psn::new(psn),
                    responder_resources,
                    initiator_depth,
                    target_ack_delay: TimeCode(delay),
                    failover,
                    end_to_end_flow_control: flags.0,
                    rnr_retry_count,
                    srq: flags.1,
                    local_ca_guid: Guid(guid),
                    private_data,
                }
            },
        )
}

fn rtu() -> impl Strategy<Value = Rtu> {
    (comm_ids(), private_data()).prop_map(|((local_comm_id, remote_comm_id), private_data)| Rtu {
        local_comm_id,
        remote_comm_id,
        private_data,
    })
}

fn drep() -> impl Strategy<Value = Drep> {
    rtu().prop_map(|rtu| Drep {
        local_comm_id: rtu.local_comm_id,
        remote_comm_id: rtu.remote_comm_id,
        private_data: rtu.private_data,
    })
}

fn dreq() -> impl Strategy<Value = Dreq> {
    (comm_ids(), u24(), private_data()).prop_map(|(ids, qpn, private_data)| Dreq {
        local_comm_id: ids.0,
        remote_comm_id: ids.1,
        remote_qpn: Qpn(qpn),
        private_data,
    })
}

fn mra() -> impl Strategy<Value = Mra> {
    let acknowledged = proptest::sample::select(MraOf::ALL);
    (comm_ids(), acknowledged, 0_u8..32, private_data()).prop_map(
        |(ids, acknowledged, timeout, private_data)| Mra {
            local_comm_id: ids.0,
            remote_comm_id: ids.1,
            acknowledged,
            service_timeout: TimeCode(timeout),
            private_data,
        },
    )
}

fn rej() -> impl Strategy<Value = Rej> {
    let rejected = proptest::sample::select(RejOf::ALL);
    let reason = proptest::sample::select(RejectReason::ALL);
    (comm_ids(), rejected, reason, info(), private_data()).prop_map(
        |(ids, rejected, reason, ari, private_data)| Rej {
            local_comm_id: ids.0,
            remote_comm_id: ids.1,
            rejected,
            reason,
            ari,
            private_data,
        },
    )
}

fn lap() -> impl Strategy<Value = Lap> {
    (comm_ids(), u24(), 0_u8..32, path(), private_data()).prop_map(
        |(ids, qpn, timeout, alternate, private_data)| Lap {
            local_comm_id: ids.0,
            remote_comm_id: ids.1,
            remote_qpn: Qpn(qpn),
            remote_response_timeout: TimeCode(timeout),
            alternate,
            private_data,
        },
    )
}

fn apr() -> impl Strategy<Value = Apr> {
    let status = proptest::sample::select(ApStatus::ALL);
    (comm_ids(), status, info(), private_data()).prop_map(|(ids, status, info, private_data)| Apr {
        local_comm_id: ids.0,
        remote_comm_id: ids.1,
        status,
        info,
        private_data,
    })
}

fn sidr_req() -> impl Strategy<Value = SidrReq> {
    (any::<(u32, u16, u64)>(), private_data()).prop_map(|((id, pkey, service), private_data)| {
        SidrReq {
            request_id: CommId(id),
            pkey: PKey(pkey),
            service_id: ServiceId(service),
            private_data,
        }
    })
}

fn sidr_rep() -> impl Strategy<Value = SidrRep> {
    let status = proptest::sample::select(SidrStatus::ALL);
    (
        any::<(u32, u64, u32)>(),
        status,
        info(),
        (u24(), u24()),
        private_data(),
    )
        .prop_map(
            |((id, service, qkey), status, info, (vendor_id, qpn), private_data)| SidrRep {
                request_id: CommId(id),
                status,
                info,
                vendor_id,
                qpn: Qpn(qpn),
                service_id: ServiceId(service),
                qkey: QKey(qkey),
                private_data,
            },
        )
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        req().prop_map(Message::from),
        mra().prop_map(Message::from),
        rej().prop_map(Message::from),
        rep().prop_map(Message::from),
        rtu().prop_map(Message::from),
        dreq().prop_map(Message::from),
        drep().prop_map(Message::from),
        sidr_req().prop_map(Message::from),
        sidr_rep().prop_map(Message::from),
        lap().prop_map(Message::from),
        apr().prop_map(Message::from),
    ]
}

fn ip_cm_header() -> impl Strategy<Value = IpCmHeader> {
    let pair = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(source, destination)| IpPair::V4 {
            source: source.into(),
            destination: destination.into()
        }),
        any::<([u8; 16], [u8; 16])>().prop_map(|(source, destination)| IpPair::V6 {
            source: source.into(),
            destination: destination.into()
        }),
    ];
    (any::<u16>(), pair).prop_map(|(source_port, addresses)| IpCmHeader {
        source_port,
        addresses,
    })
}

fn bytes_of(mad: &CmMad) -> Vec<u8> {
    let mut out = vec![0xa5; MAD_LEN + 1];
    assert_eq!(mad.emit(&mut out).expect("fits"), [0xa5]);
    out.pop();
    out
}

proptest! {
    #[test]
    fn req_round_trips(message in req()) { header_round_trip(message) }
    #[test]
    fn rep_round_trips(message in rep()) { header_round_trip(message) }
    #[test]
    fn rej_round_trips(message in rej()) { header_round_trip(message) }
    #[test]
    fn lap_round_trips(message in lap()) { header_round_trip(message) }
    #[test]
    fn sidr_rep_round_trips(message in sidr_rep()) { header_round_trip(message) }
    #[test]
    fn ip_addressing_round_trips(header in ip_cm_header()) { header_round_trip(header) }

    #[test]
    fn mads_round_trip(tid: u64, attribute_modifier: u32, message in message()) {
        let mad = CmMad { transaction_id: TransactionId(tid), attribute_modifier, message };
        let bytes = bytes_of(&mad);
        prop_assert_eq!(CmMad::parse(&bytes), Ok(mad));
        // One line, named after the message.
        let line = mad.to_string();
        let start = format!("CM {} ", message.name());
        prop_assert!(line.starts_with(&start) && !line.contains('\n'), "one line that says what it is");
        let (header, _) = MadHeader::parse_mad(&bytes).expect("a MAD");
        prop_assert_eq!(header.attribute, message.attribute());
        for cut in [0, 1, 23, 24, 255] {
            let mut short = vec![0; cut];
            let refused = EmitError::BufferTooSmall { needed: MAD_LEN, got: cut };
            prop_assert_eq!(mad.emit(&mut short), Err(refused));
            let refused = ParseError::Length { field: "MAD", expected: MAD_LEN, got: cut };
            prop_assert_eq!(CmMad::parse(&bytes[..cut]), Err(refused));
        }
    }

    /// Any MAD: no panic; what parses is canonical once emitting has cleared its reserved bits.
    #[test]
    fn any_mad_parses_or_fails(bytes: [u8; 32], rest in proptest::collection::vec(any::<u8>(), MAD_LEN - 32), right: bool, attribute in 0x0f_u8..0x1c) {
        let mut mad = [&bytes[..], &rest].concat();
        if right {
            // Past the header, so that the messages see noise too.
            mad[..4].copy_from_slice(&[1, 7, 2, 3]);
            mad[16..18].copy_from_slice(&[0, attribute]);
        }
        match CmMad::parse(&mad) {
            Ok(parsed) => {
                let _ = parsed.to_string();
                let mut out = [0; MAD_LEN];
                match parsed.emit(&mut out) {
                    Ok(_) => prop_assert_eq!(CmMad::parse(&out), Ok(parsed)),
                    Err(error) => prop_assert!(matches!(error, EmitError::Reserved { .. }), "{}", error),
                }
            }
            Err(ParseError::MadAttribute { attribute, .. }) if right => {
                prop_assert!(!(0x10..=0x1a).contains(&attribute.0));
            }
            // A length that its field cannot have.
            Err(ParseError::Field { value, .. }) => prop_assert!(value > INFO_LEN as u32),
            Err(error) => prop_assert!(!right, "{}", error),
        }
        let _ = IpCmHeader::parse(&mad);
        let _ = IpCmHeader::from_hello(&mad);
    }

    /// Addresses in a Hello come back; the rest of it is the consumer's.
    #[test]
    fn addresses_in_a_hello_come_back(header in ip_cm_header(), mut hello in proptest::collection::vec(any::<u8>(), 64..=92)) {
        hello[0] = 0;
        let data = header.in_hello(&hello).expect("a Hello");
        prop_assert_eq!(IpCmHeader::from_hello(data.as_bytes()), Ok(header));
        prop_assert_eq!(&data.as_bytes()[..17], &hello[..17]);
        prop_assert_eq!(&data.as_bytes()[64..hello.len()], &hello[64..]);
    }
}

fn ones<const N: usize>() -> PrivateData<N> {
    [0xff; N].into()
}

const ALL_GID: Gid = Gid([0xff; 16]);
const MAX24: u32 = 0xff_ffff;
const IDS: (CommId, CommId) = (CommId(0), CommId(0));

#[test]
fn every_field_of_a_req_is_in_its_place() {
    let covered = layout!(Req::default(),
        local_comm_id = CommId(!0) => (0, 0, 32);
        vendor_id = MAX24 => (5, 0, 24);
        service_id = ServiceId(!0) => (8, 0, 64);
        local_ca_guid = Guid(!0) => (16, 0, 64);
        local_qkey = QKey(!0) => (28, 0, 32);
        local_qpn = Qpn(MAX24) => (32, 0, 24);
        responder_resources = !0 => (35, 0, 8);
        local_eecn = MAX24 => (36, 0, 24);
        initiator_depth = !0 => (39, 0, 8);
        remote_eecn = MAX24 => (40, 0, 24);
        remote_response_timeout = TimeCode(31) => (43, 0, 5);
        transport_type = TransportType::Extended => (43, 5, 2);
        end_to_end_flow_control = true => (43, 7, 1);
        starting_psn = Psn::new(MAX24) => (44, 0, 24);
        local_response_timeout = TimeCode(31) => (47, 0, 5);
        retry_count = 7 => (47, 5, 3);
        pkey = PKey(!0) => (48, 0, 16);
        path_mtu_code = 15 => (50, 0, 4);
        rdc_exists = true => (50, 4, 1);
        rnr_retry_count = 7 => (50, 5, 3);
        max_cm_retries = 15 => (51, 0, 4);
        srq = true => (51, 4, 1);
        extended_transport_type = 7 => (51, 5, 3);
        primary.local_lid = Lid(!0) => (52, 0, 16);
        primary.remote_lid = Lid(!0) => (54, 0, 16);
        primary.local_gid = ALL_GID => (56, 0, 128);
        primary.remote_gid = ALL_GID => (72, 0, 128);
        primary.flow_label = 0xf_ffff => (88, 0, 20);
        primary.packet_rate = 63 => (91, 2, 6);
        primary.traffic_class = !0 => (92, 0, 8);
        primary.hop_limit = !0 => (93, 0, 8);
        primary.sl = Sl(15) => (94, 0, 4);
        primary.subnet_local = true => (94, 4, 1);
        primary.local_ack_timeout = TimeCode(31) => (95, 0, 5);
        alternate.local_lid = Lid(!0) => (96, 0, 16);
        alternate.remote_lid = Lid(!0) => (98, 0, 16);
        alternate.local_gid = ALL_GID => (100, 0, 128);
        alternate.remote_gid = ALL_GID => (116, 0, 128);
        alternate.flow_label = 0xf_ffff => (132, 0, 20);
        alternate.packet_rate = 63 => (135, 2, 6);
        alternate.traffic_class = !0 => (136, 0, 8);
        alternate.hop_limit = !0 => (137, 0, 8);
        alternate.sl = Sl(15) => (138, 0, 4);
        alternate.subnet_local = true => (138, 4, 1);
        alternate.local_ack_timeout = TimeCode(31) => (139, 0, 5);
        sap_supported = true => (139, 5, 1);
        private_data = ones() => (140, 0, 736);
    );
    // What no field covers is reserved: bytes 4 and 24 to 27, and per path 6 bits of the rate's word, 3 of the SL's byte
    // and 3 or 2 of the last.
    assert_eq!(Req::LEN * 8 - covered, 8 + 32 + (6 + 3 + 3) + (6 + 3 + 2));
}

#[test]
fn every_field_of_the_messages_after_a_req_is_in_its_place() {
    let rep = Rep {
        local_comm_id: IDS.0,
        remote_comm_id: IDS.1,
        local_qkey: QKey(0),
        local_qpn: Qpn(0),
        vendor_id: 0,
        local_eecn: 0,
        starting_psn: Psn::new(0),
        responder_resources: 0,
        initiator_depth: 0,
        target_ack_delay: TimeCode(0),
        failover: Failover::Accepted,
        end_to_end_flow_control: false,
        rnr_retry_count: 0,
        srq: false,
        local_ca_guid: Guid(0),
        private_data: PrivateData::default(),
    };
    layout!(rep,
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        local_qkey = QKey(!0) => (8, 0, 32);
        local_qpn = Qpn(MAX24) => (12, 0, 24);
        vendor_id = 0xff_0000 => (15, 0, 8);
        local_eecn = MAX24 => (16, 0, 24);
        vendor_id = 0x00_ff00 => (19, 0, 8);
        starting_psn = Psn::new(MAX24) => (20, 0, 24);
        vendor_id = 0x00_00ff => (23, 0, 8);
        responder_resources = !0 => (24, 0, 8);
        initiator_depth = !0 => (25, 0, 8);
        target_ack_delay = TimeCode(31) => (26, 0, 5);
        failover = Failover::Rejected => (26, 5, 1);
        failover = Failover::NotSupported => (26, 6, 1);
        end_to_end_flow_control = true => (26, 7, 1);
        rnr_retry_count = 7 => (27, 0, 3);
        srq = true => (27, 3, 1);
        local_ca_guid = Guid(!0) => (28, 0, 64);
        private_data = ones() => (36, 0, 196 * 8);
    );
    layout!(Rtu::default(),
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        private_data = ones() => (8, 0, 224 * 8);
    );
    layout!(Drep::default(),
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        private_data = ones() => (8, 0, 224 * 8);
    );
    layout!(Dreq::default(),
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        remote_qpn = Qpn(MAX24) => (8, 0, 24);
        private_data = ones() => (12, 0, 220 * 8);
    );
    let mra = Mra {
        local_comm_id: IDS.0,
        remote_comm_id: IDS.1,
        acknowledged: MraOf::Req,
        service_timeout: TimeCode(0),
        private_data: PrivateData::default(),
    };
    layout!(mra,
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        acknowledged = MraOf::Lap => (8, 0, 1);
        acknowledged = MraOf::Rep => (8, 1, 1);
        service_timeout = TimeCode(31) => (9, 0, 5);
        private_data = ones() => (10, 0, 222 * 8);
    );
    // A reason with all its bits set is reserved: 32 and 31 cover the low six, the other ten are never sent.
    let rej = Rej {
        local_comm_id: IDS.0,
        remote_comm_id: IDS.1,
        rejected: RejOf::Req,
        reason: RejectReason::InvalidPrimaryFlowLabel,
        ari: Info::new(&[0; 72]).expect("fits"),
        private_data: PrivateData::default(),
    };
    layout!(rej,
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        rejected = RejOf::Other => (8, 0, 1);
        rejected = RejOf::Rep => (8, 1, 1);
        // Lengths of 72 and 64 differ in the bit that stands for 8.
        ari = Info::new(&[0; 64]).expect("fits") => (9, 3, 1);
        reason = RejectReason::UnsupportedClassVersion => (11, 2, 6);
        private_data = ones() => (84, 0, 148 * 8);
    );
    layout!(rej, ari = Info::new(&[0xff; 72]).expect("fits") => (12, 0, 72 * 8););
}

#[test]
fn every_field_of_the_other_messages_is_in_its_place() {
    layout!(Lap::default(),
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        remote_qpn = Qpn(MAX24) => (12, 0, 24);
        remote_response_timeout = TimeCode(31) => (15, 0, 5);
        alternate.local_lid = Lid(!0) => (20, 0, 16);
        alternate.remote_lid = Lid(!0) => (22, 0, 16);
        alternate.local_gid = ALL_GID => (24, 0, 128);
        alternate.remote_gid = ALL_GID => (40, 0, 128);
        alternate.flow_label = 0xf_ffff => (56, 0, 20);
        alternate.traffic_class = !0 => (59, 0, 8);
        alternate.hop_limit = !0 => (60, 0, 8);
        alternate.packet_rate = 63 => (61, 2, 6);
        alternate.sl = Sl(15) => (62, 0, 4);
        alternate.subnet_local = true => (62, 4, 1);
        alternate.local_ack_timeout = TimeCode(31) => (63, 0, 5);
        private_data = ones() => (64, 0, 168 * 8);
    );
    let apr = Apr {
        local_comm_id: IDS.0,
        remote_comm_id: IDS.1,
        status: ApStatus::Loaded,
        info: Info::new(&[0; 72]).expect("fits"),
        private_data: PrivateData::default(),
    };
    layout!(apr,
        local_comm_id = CommId(!0) => (0, 0, 32);
        remote_comm_id = CommId(!0) => (4, 0, 32);
        info = Info::new(&[0; 64]).expect("fits") => (8, 4, 1);
        status = ApStatus::InvalidGid => (9, 4, 1);
    );
    layout!(apr,
        status = ApStatus::InvalidLid => (9, 5, 3);
        info = Info::new(&[0xff; 72]).expect("fits") => (12, 0, 72 * 8);
        private_data = ones() => (84, 0, 148 * 8);
    );
    layout!(SidrReq::default(),
        request_id = CommId(!0) => (0, 0, 32);
        pkey = PKey(!0) => (4, 0, 16);
        service_id = ServiceId(!0) => (8, 0, 64);
        private_data = ones() => (16, 0, 216 * 8);
    );
    let sidr_rep = SidrRep {
        request_id: CommId(0),
        status: SidrStatus::Valid,
        info: Info::new(&[0; 72]).expect("fits"),
        vendor_id: 0,
        qpn: Qpn(0),
        service_id: ServiceId(0),
        qkey: QKey(0),
        private_data: PrivateData::default(),
    };
    layout!(sidr_rep,
        request_id = CommId(!0) => (0, 0, 32);
        status = SidrStatus::NoQp => (4, 6, 2);
        info = Info::new(&[0; 64]).expect("fits") => (5, 4, 1);
        vendor_id = 0xff_ff00 => (6, 0, 16);
        qpn = Qpn(MAX24) => (8, 0, 24);
        vendor_id = 0x00_00ff => (11, 0, 8);
        service_id = ServiceId(!0) => (12, 0, 64);
        qkey = QKey(!0) => (20, 0, 32);
        private_data = ones() => (96, 0, 136 * 8);
    );
    layout!(sidr_rep, info = Info::new(&[0xff; 72]).expect("fits") => (24, 0, 72 * 8););
}

#[test]
fn values_wider_than_their_field_are_refused() {
    let wide = 1 << 24;
    let too_wide: [(Req, &str); 10] = [
        (
            Req {
                vendor_id: wide,
                ..Req::default()
            },
            "VendorID",
        ),
        (
            Req {
                local_qpn: Qpn(wide),
                ..Req::default()
            },
            "LocalQPN",
        ),
        (
            Req {
                local_eecn: wide,
                ..Req::default()
            },
            "LocalEECN",
        ),
        (
            Req {
                remote_response_timeout: TimeCode(32),
                ..Req::default()
            },
            "RemoteCMResponseTimeout",
        ),
        (
            Req {
                local_response_timeout: TimeCode(32),
                ..Req::default()
            },
            "LocalCMResponseTimeout",
        ),
        (
            Req {
                retry_count: 8,
                ..Req::default()
            },
            "RetryCount",
        ),
        (
            Req {
                path_mtu_code: 16,
                ..Req::default()
            },
            "PathPacketPayloadMTU",
        ),
        (
            Req {
                rnr_retry_count: 8,
                ..Req::default()
            },
            "RNRRetryCount",
        ),
        (
            Req {
                max_cm_retries: 16,
                ..Req::default()
            },
            "MaxCMRetries",
        ),
        (
            Req {
                primary: CmPath {
                    flow_label: 1 << 20,
                    ..CmPath::default()
                },
                ..Req::default()
            },
            "FlowLabel",
        ),
    ];
    for (req, name) in too_wide {
        match req.to_wire().err() {
            Some(EmitError::OutOfRange { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// The MADs of a capture of rping between two kernels, client 10.77.0.2, server 10.77.0.3.
fn captured_mads() -> Vec<(Ipv4Addr, CmMad)> {
    let capture = PcapReader::new(include_bytes!("golden/rxe/cm.pcap")).expect("a capture");
    capture
        .filter_map(|record| {
            let frame = record.expect("whole").bytes;
            let (_, roce) = RocePacket::parse_ethernet(frame).expect("parses");
            if roce.packet.bth().dest_qpn != GSI_QPN {
                return None;
            }
            assert_eq!(roce.packet.ext().deth.map(|deth| deth.qkey), Some(GSI_QKEY));
            assert_eq!(roce.packet.bth().pkey, DEFAULT_PKEY);
            let RoceIp::V4(ip) = roce.headers.ip else {
                panic!("captured over IPv4")
            };
            let mad = CmMad::parse(roce.packet.payload).expect("a message");
            // Nothing of a real message is lost.
            assert_eq!(bytes_of(&mad), roce.packet.payload, "{mad}");
            Some((ip.source, mad))
        })
        .collect()
}

#[test]
fn a_connection_of_two_kernels() {
    let (client, server) = (Ipv4Addr::new(10, 77, 0, 2), Ipv4Addr::new(10, 77, 0, 3));
    let mads = captured_mads();
    let from: Vec<Ipv4Addr> = mads.iter().map(|(from, _)| *from).collect();
    assert_eq!(from, [client, server, client, client, server]);
    // One exchange, one transaction.
    let transaction = TransactionId(0x0000_0004_61d9_f696);
    assert!(
        mads.iter()
            .all(|(_, mad)| mad.transaction_id == transaction && mad.attribute_modifier == 0)
    );
    let messages: Vec<Message> = mads.iter().map(|(_, mad)| mad.message).collect();
    let [
        Message::Req(req),
        Message::Rep(rep),
        Message::Rtu(rtu),
        Message::Dreq(dreq),
        Message::Drep(drep),
    ] = messages[..]
    else {
        panic!("not REQ, REP, RTU, DREQ, DREP: {messages:?}")
    };
    let (clients, servers) = (CommId(0x96f6_d961), CommId(0x6a1a_b8ad));
    let gid = |ip: Ipv4Addr| Gid(ip.to_ipv6_mapped().octets());

    let header = IpCmHeader {
        source_port: 0x84a4,
        addresses: IpPair::V4 {
            source: client,
            destination: server,
        },
    };
    let expected = Req {
        local_comm_id: clients,
        // rping's port.
        service_id: ServiceId::from_port(PortSpace::Tcp, 7174),
        local_ca_guid: Guid(0x5054_00ff_fe77_0002),
        local_qpn: Qpn(0x22),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: TimeCode(20),
        starting_psn: Psn::new(0x7e_e427),
        local_response_timeout: TimeCode(20),
        retry_count: 7,
        pkey: DEFAULT_PKEY,
        path_mtu_code: Mtu::M1024 as u8,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        primary: CmPath {
            local_lid: Lid(0xffff),
            remote_lid: Lid(0xffff),
            local_gid: gid(client),
            remote_gid: gid(server),
            flow_label: 0x02be2,
            hop_limit: 64,
            local_ack_timeout: TimeCode(19),
            ..CmPath::default()
        },
        private_data: header.before(&[]).expect("fits"),
        ..Req::default()
    };
    assert_eq!(req, expected);
    assert_eq!(req.service(), Some(Service::Rc));
    assert_eq!(req.alternate_path(), None);
    assert_eq!(
        IpCmHeader::parse(req.private_data.as_bytes()).map(|(header, _)| header),
        Ok(header)
    );

    let expected = Rep {
        local_comm_id: servers,
        remote_comm_id: clients,
        local_qkey: QKey(0),
        local_qpn: Qpn(0x22),
        vendor_id: 0,
        local_eecn: 0,
        starting_psn: Psn::new(0x96_7cf4),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: TimeCode(15),
        failover: Failover::Accepted,
        end_to_end_flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        local_ca_guid: Guid(0x5054_00ff_fe77_0003),
        private_data: PrivateData::default(),
    };
    assert_eq!(rep, expected);
    assert_eq!(
        rtu,
        Rtu {
            local_comm_id: clients,
            remote_comm_id: servers,
            ..Rtu::default()
        }
    );
    let expected = Dreq {
        local_comm_id: clients,
        remote_comm_id: servers,
        remote_qpn: rep.local_qpn,
        ..Dreq::default()
    };
    assert_eq!(dreq, expected);
    assert_eq!(
        drep,
        Drep {
            local_comm_id: servers,
            remote_comm_id: clients,
            ..Drep::default()
        }
    );
    assert_eq!(
        mads[0].1.to_string(),
        "CM REQ comm=0x96f6d961 service=0x0000000001061c06 qpn=0x000022 psn=0x7ee427 mtu=1024 retry=7 rnr=7"
    );
}

/// Frame 7 of native.hex: IPoIB's connected mode between two adapters of 2008.
#[test]
fn a_request_of_a_real_adapter() {
    let bytes = native_frame(7);
    let native = NativePacket::parse(&bytes).expect("parses and verifies");
    let mad = CmMad::parse(native.packet.payload).expect("a message");
    assert_eq!(bytes_of(&mad), native.packet.payload);
    let Message::Req(req) = mad.message else {
        panic!("{mad}")
    };
    assert_eq!((native.lrh.slid, native.lrh.dlid), (Lid(4), Lid(1)));
    assert_eq!(
        (req.primary.local_lid, req.primary.remote_lid),
        (Lid(4), Lid(1))
    );
    let prefix = 0xfe80 << 48;
    assert_eq!(
        req.primary.local_gid,
        Gid::from_prefix_guid(prefix, Guid(0x0002_c902_0024_f636))
    );
    assert_eq!(
        req.primary.remote_gid,
        Gid::from_prefix_guid(prefix, Guid(0x0002_c902_0020_b4dd))
    );
    assert_eq!(req.local_ca_guid, Guid(0x0002_c902_0024_f634));
    // The data packets of the capture (frame 10 on) go from this queue pair, with PSNs from 0.
    assert_eq!(
        (req.local_qpn, req.starting_psn),
        (Qpn(0x87_0408), Psn::new(0))
    );
    assert_eq!(req.path_mtu(), Some(Mtu::M2048));
    assert!(req.primary.subnet_local && req.srq);
    assert_eq!(req.service_id.port(), None);
}
