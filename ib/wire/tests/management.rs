//! Subnet management and administration: laws, the place of every field, and MADs of real nodes and managers.

#[macro_use]
mod common;

use common::*;
use ferriband_wire::attributes::*;
use ferriband_wire::mad::*;
use ferriband_wire::sa::*;
use ferriband_wire::smp::*;
use ferriband_wire::*;
use proptest::prelude::*;

/// Any bytes are a value of `H`; emitted it differs from them in reserved bits only, which emitting clears, and is the
/// same value again.
fn any_bytes_are<H: Header + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let (value, _) = H::parse(bytes).expect("any bytes will do");
    header_round_trip(value);
    let mut canonical = vec![0; H::LEN];
    value.emit(&mut canonical).expect("fits");
    let dropped = canonical
        .iter()
        .zip(bytes)
        .all(|(canonical, raw)| canonical & !raw == 0);
    assert!(dropped, "emitting sets bits that were not there");
    for cut in [0, H::LEN - 1] {
        assert!(matches!(
            H::parse(&bytes[..cut]),
            Err(ParseError::Truncated { .. })
        ));
    }
}

fn mad_bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), MAD_LEN)
}

proptest! {
    #[test]
    fn any_bytes_are_attributes(bytes in mad_bytes()) {
        any_bytes_are::<PathRecord>(&bytes);
        any_bytes_are::<McMemberRecord>(&bytes);
        any_bytes_are::<ServiceRecord>(&bytes);
        any_bytes_are::<Notice>(&bytes);
        any_bytes_are::<InformInfo>(&bytes);
        any_bytes_are::<ClassPortInfo>(&bytes);
        any_bytes_are::<NodeInfo>(&bytes);
        any_bytes_are::<NodeDescription>(&bytes);
        any_bytes_are::<NodeRecord>(&bytes);
        any_bytes_are::<PortInfo>(&bytes);
        any_bytes_are::<MlnxExtendedPortInfo>(&bytes);
        any_bytes_are::<PKeyTable>(&bytes);
        any_bytes_are::<SwitchInfo>(&bytes);
        any_bytes_are::<SmInfo>(&bytes);
        any_bytes_are::<GuidInfo>(&bytes);
        any_bytes_are::<SlToVlTable>(&bytes);
        any_bytes_are::<VlArbitrationBlock>(&bytes);
        any_bytes_are::<LinearForwardingBlock>(&bytes);
        any_bytes_are::<MulticastForwardingBlock>(&bytes);
        any_bytes_are::<Rmpp>(&bytes);
    }

    #[test]
    fn any_mad_is_an_smp_or_an_sa_mad_or_refused(mut bytes in mad_bytes(), class in 0_usize..4) {
        let classes = [None, Some([1, 0x01, 1]), Some([1, 0x81, 1]), Some([1, 0x03, 2])];
        if let Some(start) = classes[class] {
            bytes[..3].copy_from_slice(&start);
        }
        match Smp::parse_mad(&bytes) {
            Ok(smp) => {
                header_round_trip(smp);
                let _ = (smp.to_string(), smp.data_as::<NodeDescription>().map(|text| text.as_str().len()));
                prop_assert_eq!(smp.class().0, bytes[1]);
                if let Route::Directed(route) = smp.route {
                    prop_assert_eq!(route.ports().len(), usize::from(bytes[7]));
                }
            }
            Err(ParseError::Field { field: "HopCount", .. }) => prop_assert!(class == 2 && bytes[7] > 63),
            Err(error) => prop_assert!(class == 0 || class == 3, "{}", error),
        }
        match SaMad::parse_mad(&bytes) {
            Ok(mad) => {
                header_round_trip(mad);
                let _ = (mad.to_string(), mad.data_as::<PathRecord>());
                prop_assert!(mad.rmpp.data_len(SA_CLASS_HEADER_LEN).is_none_or(|len| len <= SA_DATA_LEN));
            }
            Err(error) => prop_assert!(class != 3, "{}", error),
        }
        let _ = MadHeader::parse_mad(&bytes).map(|(header, _)| header.to_string());
        for wrong in [&bytes[1..], &[&bytes[..], &[0]].concat()] {
            prop_assert!(Smp::parse_mad(wrong).is_err() && SaMad::parse_mad(wrong).is_err());
        }
    }
}

const ALL_GID: Gid = Gid([0xff; 16]);
const MAX24: u32 = 0xff_ffff;
const ALL6: Selected = Selected {
    selector: Selector::Best,
    value: 63,
};

#[test]
fn every_field_of_a_path_record_is_in_its_place() {
    let covered = layout!(PathRecord::default(),
        service_id = ServiceId(!0) => (0, 0, 64);
        dgid = ALL_GID => (8, 0, 128);
        sgid = ALL_GID => (24, 0, 128);
        dlid = Lid(!0) => (40, 0, 16);
        slid = Lid(!0) => (42, 0, 16);
        raw_traffic = true => (44, 0, 1);
        flow_label = 0xf_ffff => (44, 4, 20);
        hop_limit = !0 => (47, 0, 8);
        traffic_class = !0 => (48, 0, 8);
        reversible = true => (49, 0, 1);
        paths_wanted = 127 => (49, 1, 7);
        pkey = PKey(!0) => (50, 0, 16);
        qos_class = 0xfff => (52, 0, 12);
        sl = Sl(15) => (53, 4, 4);
        mtu = ALL6 => (54, 0, 8);
        rate = ALL6 => (55, 0, 8);
        packet_lifetime = ALL6 => (56, 0, 8);
        preference = !0 => (57, 0, 8);
    );
    // Three bits after the raw bit, six bytes at the end.
    assert_eq!(
        (PathRecord::LEN, PathRecord::LEN * 8 - covered),
        (64, 3 + 6 * 8)
    );
    layout!(PathRecord::default(), mtu.selector = Selector::Best => (54, 0, 2););
    assert_eq!(attribute_offset::<PathRecord>(), 8);
}

#[test]
fn every_field_of_the_other_records_is_in_its_place() {
    let covered = layout!(McMemberRecord::default(),
        mgid = ALL_GID => (0, 0, 128);
        port_gid = ALL_GID => (16, 0, 128);
        qkey = QKey(!0) => (32, 0, 32);
        mlid = Lid(!0) => (36, 0, 16);
        mtu = ALL6 => (38, 0, 8);
        traffic_class = !0 => (39, 0, 8);
        pkey = PKey(!0) => (40, 0, 16);
        rate = ALL6 => (42, 0, 8);
        packet_lifetime = ALL6 => (43, 0, 8);
        sl = Sl(15) => (44, 0, 4);
        flow_label = 0xf_ffff => (44, 4, 20);
        hop_limit = !0 => (47, 0, 8);
        scope = 15 => (48, 0, 4);
        join_state = JoinState::all() => (48, 4, 4);
        proxy_join = true => (49, 0, 1);
    );
    assert_eq!((McMemberRecord::LEN, covered), (52, 52 * 8 - 7 - 16));
    // A table's records begin at multiples of eight bytes.
    assert_eq!(attribute_offset::<McMemberRecord>(), 7);

    let service = ServiceRecord {
        service_id: ServiceId(0),
        gid: Gid::default(),
        pkey: PKey(0),
        lease_s: 0,
        key: [0; 16],
        name: [0; 64],
        data: [0; 64],
    };
    let covered = layout!(service,
        service_id = ServiceId(!0) => (0, 0, 64);
        gid = ALL_GID => (8, 0, 128);
        pkey = PKey(!0) => (24, 0, 16);
        lease_s = !0 => (28, 0, 32);
        key = [0xff; 16] => (32, 0, 128);
        name = [0xff; 64] => (48, 0, 512);
        data = [0xff; 64] => (112, 0, 512);
    );
    assert_eq!((ServiceRecord::LEN, covered), (176, 174 * 8));

    let notice = Notice {
        generic: false,
        ..Notice::new(NoticeType(0), 0, 0, Lid(0))
    };
    let covered = layout!(notice,
        generic = true => (0, 0, 1);
        kind = NoticeType(0x7f) => (0, 1, 7);
        producer = 0xff_ffff => (1, 0, 24);
        trap = !0 => (4, 0, 16);
        issuer_lid = Lid(!0) => (6, 0, 16);
        toggle = true => (8, 0, 1);
        count = 0x7fff => (8, 1, 15);
        details = [0xff; 54] => (10, 0, 432);
        issuer_gid = ALL_GID => (64, 0, 128);
    );
    assert_eq!((Notice::LEN, covered), (80, 80 * 8));

    let inform = InformInfo {
        gid: Gid::default(),
        lid_begin: Lid(0),
        lid_end: Lid(0),
        generic: 0,
        subscribe: 0,
        kind: 0,
        trap: 0,
        qpn: Qpn(0),
        response_time: TimeCode(0),
        producer: 0,
    };
    let covered = layout!(inform,
        gid = ALL_GID => (0, 0, 128);
        lid_begin = Lid(!0) => (16, 0, 16);
        lid_end = Lid(!0) => (18, 0, 16);
        generic = !0 => (22, 0, 8);
        subscribe = !0 => (23, 0, 8);
        kind = !0 => (24, 0, 16);
        trap = !0 => (26, 0, 16);
        qpn = Qpn(0xff_ffff) => (28, 0, 24);
        response_time = TimeCode(31) => (31, 3, 5);
        producer = 0xff_ffff => (33, 0, 24);
    );
    assert_eq!((InformInfo::LEN, covered), (36, 36 * 8 - 16 - 3 - 8));
    assert_eq!(NodeRecord::LEN, 108);
}

#[test]
fn every_field_of_the_nodes_attributes_is_in_its_place() {
    let node = NodeInfo {
        base_version: 0,
        class_version: 0,
        node_type: NodeType(0),
        num_ports: 0,
        system_image_guid: Guid(0),
        node_guid: Guid(0),
        port_guid: Guid(0),
        partition_cap: 0,
        device_id: 0,
        revision: 0,
        local_port: 0,
        vendor_id: 0,
    };
    let covered = layout!(node,
        base_version = !0 => (0, 0, 8);
        class_version = !0 => (1, 0, 8);
        node_type = NodeType(!0) => (2, 0, 8);
        num_ports = !0 => (3, 0, 8);
        system_image_guid = Guid(!0) => (4, 0, 64);
        node_guid = Guid(!0) => (12, 0, 64);
        port_guid = Guid(!0) => (20, 0, 64);
        partition_cap = !0 => (28, 0, 16);
        device_id = !0 => (30, 0, 16);
        revision = !0 => (32, 0, 32);
        local_port = !0 => (36, 0, 8);
        vendor_id = MAX24 => (37, 0, 24);
    );
    assert_eq!((NodeInfo::LEN, covered), (40, 40 * 8));
    let record = NodeRecord {
        lid: Lid(0),
        info: node,
        description: NodeDescription([0; 64]),
    };
    layout!(record,
        lid = Lid(!0) => (0, 0, 16);
        info.vendor_id = MAX24 => (41, 0, 24);
        description = NodeDescription([0xff; 64]) => (44, 0, 512);
    );

    let covered = layout!(SwitchInfo::default(),
        linear_fdb_cap = !0 => (0, 0, 16);
        random_fdb_cap = !0 => (2, 0, 16);
        multicast_fdb_cap = !0 => (4, 0, 16);
        linear_fdb_top = Lid(!0) => (6, 0, 16);
        default_port = !0 => (8, 0, 8);
        default_multicast_primary_port = !0 => (9, 0, 8);
        default_multicast_not_primary_port = !0 => (10, 0, 8);
        lifetime = TimeCode(31) => (11, 0, 5);
        port_state_change = true => (11, 5, 1);
        optimized_sl_to_vl = 3 => (11, 6, 2);
        lids_per_port = !0 => (12, 0, 16);
        partition_enforcement_cap = !0 => (14, 0, 16);
        inbound_enforcement_cap = true => (16, 0, 1);
        outbound_enforcement_cap = true => (16, 1, 1);
        filter_raw_inbound_cap = true => (16, 2, 1);
        filter_raw_outbound_cap = true => (16, 3, 1);
        enhanced_port0 = true => (16, 4, 1);
        multicast_fdb_top = Lid(!0) => (18, 0, 16);
    );
    assert_eq!((SwitchInfo::LEN, covered), (20, 20 * 8 - 3 - 8));

    layout!(SmInfo::default(),
        guid = Guid(!0) => (0, 0, 64);
        sm_key = SmKey(!0) => (8, 0, 64);
        activity = !0 => (16, 0, 32);
        priority = 15 => (20, 0, 4);
        state = SmState(15) => (20, 4, 4);
    );

    let covered = layout!(ClassPortInfo::default(),
        base_version = !0 => (0, 0, 8);
        class_version = !0 => (1, 0, 8);
        capability_mask = !0 => (2, 0, 16);
        capability_mask2 = (1 << 27) - 1 => (4, 0, 27);
        response_time = TimeCode(31) => (7, 3, 5);
        redirect.gid = ALL_GID => (8, 0, 128);
        redirect.traffic_class = !0 => (24, 0, 8);
        redirect.sl = Sl(15) => (25, 0, 4);
        redirect.flow_label = 0xf_ffff => (25, 4, 20);
        redirect.lid = Lid(!0) => (28, 0, 16);
        redirect.pkey = PKey(!0) => (30, 0, 16);
        redirect.qpn = Qpn(MAX24) => (33, 0, 24);
        redirect.qkey = QKey(!0) => (36, 0, 32);
        trap.gid = ALL_GID => (40, 0, 128);
        trap.traffic_class = !0 => (56, 0, 8);
        trap.sl = Sl(15) => (57, 0, 4);
        trap.flow_label = 0xf_ffff => (57, 4, 20);
        trap.lid = Lid(!0) => (60, 0, 16);
        trap.pkey = PKey(!0) => (62, 0, 16);
        trap.hop_limit = !0 => (64, 0, 8);
        trap.qpn = Qpn(MAX24) => (65, 0, 24);
        trap.qkey = QKey(!0) => (68, 0, 32);
    );
    assert_eq!((ClassPortInfo::LEN, covered), (72, 72 * 8 - 8));
}

#[test]
fn every_field_of_a_port_info_is_in_its_place() {
    let covered = layout!(PortInfo::default(),
        mkey = MKey(!0) => (0, 0, 64);
        gid_prefix = !0 => (8, 0, 64);
        lid = Lid(!0) => (16, 0, 16);
        master_sm_lid = Lid(!0) => (18, 0, 16);
        capabilities = PortCapabilities::all() => (20, 0, 32);
        diag_code = !0 => (24, 0, 16);
        mkey_lease_period_s = !0 => (26, 0, 16);
        local_port = !0 => (28, 0, 8);
        link_width_enabled = !0 => (29, 0, 8);
        link_width_supported = !0 => (30, 0, 8);
        link_width_active = !0 => (31, 0, 8);
        link_speed_supported = 15 => (32, 0, 4);
        state = PortState(15) => (32, 4, 4);
        phys_state = PhysState(15) => (33, 0, 4);
        link_down_default_state = PhysState(15) => (33, 4, 4);
        mkey_protect = 3 => (34, 0, 2);
        lmc = 7 => (34, 5, 3);
        link_speed_active = 15 => (35, 0, 4);
        link_speed_enabled = 15 => (35, 4, 4);
        neighbor_mtu = 15 => (36, 0, 4);
        master_sm_sl = Sl(15) => (36, 4, 4);
        vl_cap = 15 => (37, 0, 4);
        init_type = 15 => (37, 4, 4);
        vl_high_limit = !0 => (38, 0, 8);
        vl_arbitration_high_cap = !0 => (39, 0, 8);
        vl_arbitration_low_cap = !0 => (40, 0, 8);
        init_type_reply = 15 => (41, 0, 4);
        mtu_cap = 15 => (41, 4, 4);
        vl_stall_count = 7 => (42, 0, 3);
        hoq_life = 31 => (42, 3, 5);
        operational_vls = 15 => (43, 0, 4);
        partition_enforcement_inbound = true => (43, 4, 1);
        partition_enforcement_outbound = true => (43, 5, 1);
        filter_raw_inbound = true => (43, 6, 1);
        filter_raw_outbound = true => (43, 7, 1);
        mkey_violations = !0 => (44, 0, 16);
        pkey_violations = !0 => (46, 0, 16);
        qkey_violations = !0 => (48, 0, 16);
        guid_cap = !0 => (50, 0, 8);
        client_reregister = true => (51, 0, 1);
        multicast_pkey_trap_suppression = 3 => (51, 1, 2);
        subnet_timeout = TimeCode(31) => (51, 3, 5);
        response_time = TimeCode(31) => (52, 3, 5);
        local_phy_errors = 15 => (53, 0, 4);
        overrun_errors = 15 => (53, 4, 4);
        max_credit_hint = !0 => (54, 0, 16);
        link_round_trip_latency = MAX24 => (57, 0, 24);
        capabilities2 = !0 => (60, 0, 16);
        link_speed_ext_active = 15 => (62, 0, 4);
        link_speed_ext_supported = 15 => (62, 4, 4);
        link_speed_ext_enabled = 31 => (63, 3, 5);
    );
    assert_eq!((PortInfo::LEN, covered), (64, 64 * 8 - 3 - 3 - 8 - 3));
    let covered = layout!(MlnxExtendedPortInfo::default(),
        state_change_enable = !0 => (3, 0, 8);
        link_speed_supported = !0 => (7, 0, 8);
        link_speed_enabled = !0 => (11, 0, 8);
        link_speed_active = !0 => (15, 0, 8);
    );
    assert_eq!((MlnxExtendedPortInfo::LEN, covered), (64, 32));
    let mut table = PKeyTable::default();
    table.0[31] = PKey(!0);
    assert_eq!(
        bits_set(&PKeyTable::default(), &table),
        (496..512).collect::<Vec<_>>()
    );
}

#[test]
fn every_entry_of_the_tables_is_in_its_place() {
    let at = |byte: usize, bit: usize, width: usize| {
        (byte * 8 + bit..byte * 8 + bit + width).collect::<Vec<_>>()
    };
    for entry in 0..32 {
        let mut arbitration = VlArbitrationBlock::default();
        arbitration.0[entry].vl = Vl(15);
        assert_eq!(
            bits_set(&VlArbitrationBlock::default(), &arbitration),
            at(entry * 2, 4, 4)
        );
        arbitration.0[entry] = VlWeight {
            vl: Vl(0),
            weight: !0,
        };
        assert_eq!(
            bits_set(&VlArbitrationBlock::default(), &arbitration),
            at(entry * 2 + 1, 0, 8)
        );
        let mut multicast = MulticastForwardingBlock::default();
        // The lowest port of a block is the lowest bit.
        multicast.0[entry] = 1;
        assert_eq!(
            bits_set(&MulticastForwardingBlock::default(), &multicast),
            at(entry * 2 + 1, 7, 1)
        );
    }
    for sl in 0..16 {
        let mut lanes = SlToVlTable::default();
        lanes.0[sl] = Vl(15);
        assert_eq!(
            bits_set(&SlToVlTable::default(), &lanes),
            at(sl / 2, sl % 2 * 4, 4)
        );
        lanes.0[sl] = Vl(16);
        assert!(lanes.to_wire().is_err());
    }
    let mut guids = GuidInfo::default();
    guids.0[7] = Guid(!0);
    assert_eq!(bits_set(&GuidInfo::default(), &guids), at(56, 0, 64));
    let sizes = [
        GuidInfo::LEN,
        VlArbitrationBlock::LEN,
        LinearForwardingBlock::LEN,
        MulticastForwardingBlock::LEN,
    ];
    assert_eq!((sizes, SlToVlTable::LEN), ([SMP_DATA_LEN; 4], 8));
    assert_eq!(MulticastForwardingBlock::modifier(15, 511), 0xf000_01ff);
}

fn directed(route: DirectedRoute) -> Smp {
    let mut smp = Smp::new(Method(0), AttributeId(0), 0);
    smp.route = Route::Directed(route);
    smp
}

#[test]
fn every_field_of_the_mads_is_in_its_place() {
    let smp = Smp::new(Method(0), AttributeId(0), 0);
    layout!(smp,
        method = Method(!0) => (3, 0, 8);
        status = MadStatus(!0) => (4, 0, 16);
        transaction_id = TransactionId(!0) => (8, 0, 64);
        attribute = AttributeId(!0) => (16, 0, 16);
        attribute_modifier = !0 => (20, 0, 32);
        mkey = MKey(!0) => (24, 0, 64);
        data = [0xff; 64] => (64, 0, 512);
    );
    let none = DirectedRoute {
        dr_slid: Lid(0),
        dr_dlid: Lid(0),
        ..DirectedRoute::new(&[]).expect("short")
    };
    let set = |route: DirectedRoute| bits_set(&directed(none), &directed(route));
    let at = |byte: usize, bit: usize, width: usize| {
        (byte * 8 + bit..byte * 8 + bit + width).collect::<Vec<_>>()
    };
    assert_eq!(
        set(DirectedRoute {
            direction: Direction::Returning,
            ..none
        }),
        at(4, 0, 1)
    );
    assert_eq!(
        set(DirectedRoute {
            hop_pointer: !0,
            ..none
        }),
        at(6, 0, 8)
    );
    assert_eq!(
        set(DirectedRoute {
            hop_count: 63,
            ..none
        }),
        at(7, 2, 6)
    );
    assert_eq!(
        set(DirectedRoute {
            dr_slid: Lid(!0),
            ..none
        }),
        at(32, 0, 16)
    );
    assert_eq!(
        set(DirectedRoute {
            dr_dlid: Lid(!0),
            ..none
        }),
        at(34, 0, 16)
    );
    assert_eq!(
        set(DirectedRoute {
            initial_path: [0xff; 64],
            ..none
        }),
        at(128, 0, 512)
    );
    assert_eq!(
        set(DirectedRoute {
            return_path: [0xff; 64],
            ..none
        }),
        at(192, 0, 512)
    );
    assert!(
        Smp {
            status: MadStatus(1 << 15),
            ..directed(none)
        }
        .to_wire()
        .is_err()
    );

    layout!(SaMad::new(Method(0), AttributeId(0)),
        method = Method(!0) => (3, 0, 8);
        status = MadStatus(!0) => (4, 0, 16);
        transaction_id = TransactionId(!0) => (8, 0, 64);
        attribute = AttributeId(!0) => (16, 0, 16);
        attribute_modifier = !0 => (20, 0, 32);
        rmpp.version = !0 => (24, 0, 8);
        rmpp.rmpp_type = RmppType(!0) => (25, 0, 8);
        rmpp.response_time = 31 => (26, 0, 5);
        rmpp.flags = RmppFlags::LAST => (26, 5, 1);
        rmpp.flags = RmppFlags::FIRST => (26, 6, 1);
        rmpp.flags = RmppFlags::ACTIVE => (26, 7, 1);
        rmpp.status = RmppStatus(!0) => (27, 0, 8);
        rmpp.segment = !0 => (28, 0, 32);
        rmpp.length_or_window = !0 => (32, 0, 32);
        sm_key = SmKey(!0) => (36, 0, 64);
        attribute_offset = !0 => (44, 0, 16);
        component_mask = !0 => (48, 0, 64);
        data = [0xff; 200] => (56, 0, 1600);
    );
    assert_eq!((SA_CLASS_HEADER_LEN, RMPP_DATA_LEN), (20, 220));
}

/// The MAD of a frame of native.hex, and the emitted bytes of what it was parsed as.
fn emits_its_own_bytes<H: Header>(
    number: u32,
    parse: impl Fn(&[u8]) -> Result<H, ParseError>,
) -> H {
    let frame = native_frame(number);
    let native = NativePacket::parse(&frame).expect("parses and verifies");
    let value = parse(native.packet.payload).expect("a MAD");
    let mut out = [0xa5; MAD_LEN];
    value.emit(&mut out).expect("fits");
    assert_eq!(out, native.packet.payload, "frame {number}");
    value
}

#[test]
fn a_real_manager_says_that_it_is_master() {
    let get = emits_its_own_bytes(1, Smp::parse_mad);
    let resp = emits_its_own_bytes(2, Smp::parse_mad);
    assert_eq!((get.method, resp.method), (Method::GET, Method::GET_RESP));
    assert_eq!(
        (get.attribute, resp.attribute),
        (smp::attribute::SM_INFO, smp::attribute::SM_INFO)
    );
    assert_eq!(get.transaction_id, resp.transaction_id);
    assert_eq!(resp.status, MadStatus::OK);
    let (Route::Directed(there), Route::Directed(back)) = (get.route, resp.route) else {
        panic!("both by directed route")
    };
    assert_eq!(
        (there.direction, back.direction),
        (Direction::Outbound, Direction::Returning)
    );
    // Two hops, caught on the first link both times: by ports 2 and 3 there, and back from the ports by which it came.
    assert_eq!(
        (there.hop_pointer, there.hop_count, there.ports()),
        (1, 2, &[2, 3][..])
    );
    assert_eq!((back.hop_pointer, back.ports()), (1, &[2, 3][..]));
    assert_eq!(there.return_path, [0; 64]);
    assert_eq!(back.return_path[..4], [0, 6, 1, 0]);
    assert_eq!(
        (there.dr_slid, there.dr_dlid),
        (Lid::PERMISSIVE, Lid::PERMISSIVE)
    );
    let info: SmInfo = resp.data_as().expect("an SMInfo");
    let expected = SmInfo {
        guid: Guid(0x0002_c902_0020_b4dd),
        sm_key: SmKey(0),
        activity: 0x923a,
        priority: 0,
        state: SmState::MASTER,
    };
    assert_eq!(info, expected);
    let mut again = get;
    again.set_data(&info).expect("fits");
    assert_eq!(again.data, resp.data);
}

#[test]
fn a_real_administrator_finds_a_path() {
    let get = emits_its_own_bytes(32, SaMad::parse_mad);
    let resp = emits_its_own_bytes(33, SaMad::parse_mad);
    assert_eq!((get.method, resp.method), (Method::GET, Method::GET_RESP));
    assert_eq!(get.attribute, sa::attribute::PATH);
    let mask = PathRecordMask::from_bits(get.component_mask).expect("known components");
    let asked = PathRecordMask::DGID
        | PathRecordMask::SGID
        | PathRecordMask::TRAFFIC_CLASS
        | PathRecordMask::PATHS_WANTED
        | PathRecordMask::PKEY;
    assert_eq!(mask, asked);
    let prefix = 0xfe80 << 48;
    let question = PathRecord {
        dgid: Gid::from_prefix_guid(prefix, Guid(0x0002_c903_0000_1895)),
        sgid: Gid::from_prefix_guid(prefix, Guid(0x0002_c902_0024_f636)),
        paths_wanted: 1,
        pkey: DEFAULT_PKEY,
        ..PathRecord::default()
    };
    assert_eq!(get.data_as(), Ok(question));
    let answer = PathRecord {
        dlid: Lid(2),
        slid: Lid(4),
        reversible: true,
        paths_wanted: 0,
        mtu: Selected::exactly(Mtu::M2048 as u8),
        // 10 Gbit/s.
        rate: Selected::exactly(3),
        packet_lifetime: Selected::exactly(18),
        ..question
    };
    assert_eq!(resp.data_as(), Ok(answer));
    assert_eq!(
        (resp.status, resp.rmpp, resp.attribute_offset),
        (MadStatus::OK, Rmpp::default(), 8)
    );
    let mut again = SaMad::new(Method::GET_RESP, sa::attribute::PATH);
    again.set_data(&answer).expect("fits");
    assert_eq!((again.data, again.attribute_offset), (resp.data, 8));
}
