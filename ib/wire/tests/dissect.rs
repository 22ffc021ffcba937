//! Wireshark's view of what we write: a pcapng file with packets of every kind of MAD, in Ethernet frames and natively,
//! is given to `tshark`, whose dissectors are somebody else's reading of the IBA. Where there is no `tshark` the test
//! says so and passes: the other tests stand without it.

mod common;

use common::native_frame;
use ferriband_wire::attributes::*;
use ferriband_wire::cm::*;
use ferriband_wire::mad::*;
use ferriband_wire::pcap::LinkType;
use ferriband_wire::pcapng::{Direction, PcapngWriter, Remark};
use ferriband_wire::sa::SaMad;
use ferriband_wire::smp::{DirectedRoute, Route, Smp};
use ferriband_wire::*;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

/// What tshark must show of a packet: field and value.
type Shown = Vec<(&'static str, String)>;

/// A MAD, and what must be seen of it.
struct Case {
    mad: [u8; MAD_LEN],
    shown: Shown,
}

fn case(mad: [u8; MAD_LEN], shown: &[(&'static str, &str)]) -> Case {
    let shown = shown
        .iter()
        .map(|(field, value)| (*field, value.to_string()));
    Case {
        mad,
        shown: shown.collect(),
    }
}

fn cm(message: impl Into<Message>) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    CmMad::new(TransactionId(0x1122_3344_5566_7788), message)
        .emit(&mut mad)
        .expect("fits");
    mad
}

fn whole<H: Header>(value: &H) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    value.emit(&mut mad).expect("fits");
    mad
}

fn path(local: u16, remote: u16) -> CmPath {
    CmPath {
        local_lid: Lid(local),
        remote_lid: Lid(remote),
        local_gid: Gid::from_prefix_guid(0xfe80 << 48, Guid(local.into())),
        remote_gid: Gid::from_prefix_guid(0xfe80 << 48, Guid(remote.into())),
        flow_label: 0x1_2345,
        packet_rate: 3,
        traffic_class: 0x28,
        hop_limit: 64,
        sl: Sl(5),
        subnet_local: true,
        local_ack_timeout: TimeCode(19),
    }
}

fn connection() -> Vec<Case> {
    let addresses = IpPair::V4 {
        source: Ipv4Addr::new(10, 1, 2, 3),
        destination: Ipv4Addr::new(10, 1, 2, 4),
    };
    let req = Req {
        local_comm_id: CommId(0x0102_0304),
        service_id: ServiceId::from_port(PortSpace::Tcp, 7174),
        local_ca_guid: Guid(0x0011_2233_4455_6677),
        local_qkey: QKey(0x1111_1111),
        local_qpn: Qpn(0x12_3456),
        responder_resources: 7,
        initiator_depth: 9,
        remote_response_timeout: TimeCode(20),
        end_to_end_flow_control: true,
        starting_psn: Psn::new(0x65_4321),
        local_response_timeout: TimeCode(18),
        retry_count: 6,
        pkey: PKey(0x8001),
        path_mtu_code: Mtu::M4096 as u8,
        rnr_retry_count: 5,
        max_cm_retries: 15,
        srq: true,
        primary: path(3, 4),
        alternate: path(5, 6),
        private_data: IpCmHeader {
            source_port: 4242,
            addresses,
        }
        .before(b"hello")
        .expect("fits"),
        ..Req::default()
    };
    let rep = Rep {
        local_comm_id: CommId(0x0506_0708),
        remote_comm_id: CommId(0x0102_0304),
        local_qkey: QKey(0x2222_2222),
        local_qpn: Qpn(0x00_00ab),
        vendor_id: 0,
        local_eecn: 0,
        starting_psn: Psn::new(0x00_1000),
        responder_resources: 4,
        initiator_depth: 3,
        target_ack_delay: TimeCode(15),
        failover: Failover::NotSupported,
        end_to_end_flow_control: false,
        rnr_retry_count: 7,
        srq: true,
        local_ca_guid: Guid(0x8899_aabb_ccdd_eeff),
        private_data: PrivateData::default(),
    };
    let rej = Rej {
        local_comm_id: CommId(0),
        remote_comm_id: CommId(0x0102_0304),
        rejected: RejOf::Rep,
        reason: RejectReason::InvalidServiceId,
        ari: Info::new(&[1, 2, 3]).expect("fits"),
        private_data: PrivateData::default(),
    };
    let dreq = Dreq {
        local_comm_id: CommId(1),
        remote_comm_id: CommId(2),
        remote_qpn: Qpn(0x12_3456),
        ..Dreq::default()
    };
    vec![
        case(
            cm(req),
            &[
                ("infiniband.mad.transactionid", "0x1122334455667788"),
                ("infiniband.cm.req", "0x01020304"),
                ("infiniband.cm.req.serviceid.protocol", "0x06"),
                ("infiniband.cm.req.serviceid.dport", "0x1c06"),
                ("infiniband.cm.req.localqpn", "0x123456"),
                ("infiniband.cm.req.localqkey", "0x11111111"),
                ("infiniband.cm.req.responderres", "0x07"),
                ("infiniband.cm.req.initdepth", "0x09"),
                ("infiniband.cm.req.remoteresptout", "0x14"),
                ("infiniband.cm.req.transpsvctype", "0x00"),
                ("infiniband.cm.req.e2eflowctrl", "0x01"),
                ("infiniband.cm.req.startpsn", "0x654321"),
                ("infiniband.cm.req.localresptout", "0x12"),
                ("infiniband.cm.req.retrcount", "0x06"),
                ("infiniband.cm.req.pkey", "0x8001"),
                ("infiniband.cm.req.pppmtu", "0x05"),
                ("infiniband.cm.req.rnrretrcount", "0x05"),
                ("infiniband.cm.req.maxcmretr", "0x0f"),
                ("infiniband.cm.req.srq", "0x01"),
                ("infiniband.cm.req.prim_locallid", "3"),
                ("infiniband.cm.req.prim_remotelid", "4"),
                // Flow label and packet rate are left out: Wireshark 4.0 looks for them elsewhere than the kernel.
                ("infiniband.cm.req.prim_tfcclass", "0x28"),
                ("infiniband.cm.req.prim_hoplim", "0x40"),
                ("infiniband.cm.req.prim_sl", "0x05"),
                ("infiniband.cm.req.prim_subnetlocal", "0x01"),
                ("infiniband.cm.req.prim_localacktout", "0x13"),
                ("infiniband.cm.req.alt_remotelid", "6"),
                ("infiniband.cm.req.ip_cm.sport", "0x1092"),
                ("infiniband.cm.req.ip_cm.sip4", "10.1.2.3"),
                ("infiniband.cm.req.ip_cm.dip4", "10.1.2.4"),
            ],
        ),
        case(
            cm(rep),
            &[
                ("infiniband.cm.rep", "0x05060708"),
                ("infiniband.cm.rep.remotecommid", "0x01020304"),
                ("infiniband.cm.rep.localqpn", "0x0000ab"),
                ("infiniband.cm.rep.startpsn", "0x001000"),
                ("infiniband.cm.rep.respres", "0x04"),
                ("infiniband.cm.rep.initdepth", "0x03"),
                ("infiniband.cm.rep.tgtackdelay", "0x0f"),
                ("infiniband.cm.rep.failoveracc", "0x01"),
                ("infiniband.cm.rep.rnrretrcount", "0x07"),
                ("infiniband.cm.rep.srq", "0x01"),
            ],
        ),
        case(
            cm(Rtu {
                local_comm_id: CommId(1),
                remote_comm_id: CommId(2),
                ..Rtu::default()
            }),
            &[
                ("infiniband.cm.rtu.localcommid", "0x00000001"),
                ("infiniband.cm.rtu.remotecommid", "0x00000002"),
            ],
        ),
        case(
            cm(rej),
            &[
                ("infiniband.cm.rej.remotecommid", "0x01020304"),
                ("infiniband.cm.rej.msgrej", "0x01"),
                ("infiniband.cm.rej.rejinfolen", "0x03"),
                ("infiniband.cm.rej.reason", "0x0008"),
            ],
        ),
        case(
            cm(dreq),
            &[
                ("infiniband.cm.dreq.localcommid", "0x00000001"),
                ("infiniband.cm.req.remoteqpneecn", "0x123456"),
            ],
        ),
        case(
            cm(Drep {
                local_comm_id: CommId(2),
                remote_comm_id: CommId(1),
                ..Drep::default()
            }),
            &[
                ("infiniband.cm.drsp.localcommid", "0x00000002"),
                ("infiniband.cm.drsp.remotecommid", "0x00000001"),
            ],
        ),
    ]
}

fn administration() -> Vec<Case> {
    let gid = |guid| Gid::from_prefix_guid(0xfe80 << 48, Guid(guid));
    let sa = |attribute, record: &dyn Fn(&mut SaMad)| {
        let mut mad = SaMad::new(Method::GET_RESP, attribute);
        mad.sm_key = SmKey(7);
        mad.component_mask = 0x340c;
        record(&mut mad);
        whole(&mad)
    };
    let path = PathRecord {
        dgid: gid(1),
        sgid: gid(2),
        dlid: Lid(3),
        slid: Lid(4),
        flow_label: 0x1_2345,
        hop_limit: 6,
        traffic_class: 7,
        reversible: true,
        paths_wanted: 1,
        pkey: PKey(0x8001),
        sl: Sl(9),
        mtu: Selected::exactly(Mtu::M2048 as u8),
        rate: Selected::exactly(3),
        packet_lifetime: Selected::exactly(18),
        ..PathRecord::default()
    };
    let member = McMemberRecord {
        mgid: Gid([0xff; 16]),
        port_gid: gid(2),
        qkey: QKey(0x0b1b),
        mlid: Lid(0xc003),
        mtu: Selected::exactly(4),
        traffic_class: 8,
        pkey: PKey(0xffff),
        rate: Selected::exactly(3),
        packet_lifetime: Selected::exactly(18),
        sl: Sl(3),
        flow_label: 0x4_5678,
        hop_limit: 1,
        scope: 2,
        join_state: JoinState::FULL_MEMBER,
        proxy_join: true,
    };
    vec![
        case(
            sa(sa::attribute::PATH, &|mad| {
                mad.set_data(&path).expect("fits")
            }),
            &[
                ("infiniband.sa.smkey", "0x0000000000000007"),
                ("infiniband.sa.attributeoffset", "0x0008"),
                ("infiniband.sa.componentmask", "0x000000000000340c"),
                ("infiniband.pathrecord.dgid", "fe80::1"),
                ("infiniband.pathrecord.dlid", "0x0003"),
                ("infiniband.pathrecord.slid", "0x0004"),
                ("infiniband.pathrecord.flowlabel", "0x012345"),
                ("infiniband.pathrecord.hoplimit", "0x06"),
                ("infiniband.pathrecord.tclass", "0x07"),
                ("infiniband.pathrecord.reversible", "0x01"),
                ("infiniband.pathrecord.p_key", "0x8001"),
                ("infiniband.pathrecord.sl", "0x0009"),
                ("infiniband.pathrecord.mtuselector", "0x02"),
                ("infiniband.pathrecord.mtu", "0x04"),
                ("infiniband.pathrecord.rate", "0x03"),
                ("infiniband.pathrecord.packetlifetime", "0x12"),
            ],
        ),
        case(
            sa(sa::attribute::MC_MEMBER, &|mad| {
                mad.set_data(&member).expect("fits")
            }),
            &[
                ("infiniband.mcmemberrecord.q_key", "0x00000b1b"),
                ("infiniband.mcmemberrecord.mlid", "0xc003"),
                ("infiniband.mcmemberrecord.mtu", "0x04"),
                ("infiniband.mcmemberrecord.p_key", "0xffff"),
                ("infiniband.mcmemberrecord.sl", "0x03"),
                ("infiniband.mcmemberrecord.flowlabel", "0x045678"),
                ("infiniband.mcmemberrecord.hoplimit", "0x01"),
                ("infiniband.mcmemberrecord.scope", "0x02"),
                ("infiniband.mcmemberrecord.joinstate", "0x01"),
                ("infiniband.mcmemberrecord.proxyjoin", "0x01"),
            ],
        ),
    ]
}

fn subnet() -> Vec<Case> {
    let smp = |attribute, record: &dyn Fn(&mut Smp), route| {
        let mut smp = Smp::new(Method::GET_RESP, attribute, 1);
        smp.mkey = MKey(0xabcd);
        smp.route = route;
        record(&mut smp);
        whole(&smp)
    };
    let node = NodeInfo {
        base_version: 1,
        class_version: 1,
        node_type: NodeType::SWITCH,
        num_ports: 36,
        system_image_guid: Guid(1),
        node_guid: Guid(2),
        port_guid: Guid(3),
        partition_cap: 32,
        device_id: 0xc738,
        revision: 0xa1,
        local_port: 7,
        vendor_id: 0x02_c903,
    };
    let port = PortInfo {
        mkey: MKey(5),
        gid_prefix: 0xfe80 << 48,
        lid: Lid(9),
        master_sm_lid: Lid(1),
        capabilities: PortCapabilities::IS_SM | PortCapabilities::COMMUNICATION_MANAGEMENT,
        local_port: 1,
        link_width_enabled: 3,
        link_width_supported: 2,
        link_width_active: 1,
        link_speed_supported: 7,
        state: PortState::ACTIVE,
        phys_state: PhysState::LINK_UP,
        link_down_default_state: PhysState::POLLING,
        lmc: 2,
        link_speed_active: 4,
        link_speed_enabled: 7,
        neighbor_mtu: 5,
        master_sm_sl: Sl(6),
        vl_cap: 4,
        operational_vls: 3,
        mtu_cap: 5,
        vl_stall_count: 7,
        hoq_life: 18,
        guid_cap: 8,
        client_reregister: true,
        subnet_timeout: TimeCode(18),
        response_time: TimeCode(16),
        link_round_trip_latency: 0x12_3456,
        ..PortInfo::default()
    };
    let mut route = DirectedRoute::new(&[1, 2, 3]).expect("short");
    route.hop_pointer = 2;
    route.direction = smp::Direction::Returning;
    vec![
        case(
            smp(
                smp::attribute::NODE_INFO,
                &|smp| smp.set_data(&node).expect("fits"),
                Route::Directed(route),
            ),
            &[
                ("infiniband.mad.status", "0x8000"),
                ("infiniband.smpdirected.hoppointer", "0x02"),
                ("infiniband.smpdirected.hopcount", "0x03"),
                ("infiniband.smpdirected.drslid", "0xffff"),
                ("infiniband.nodeinfo.nodetype", "0x02"),
                ("infiniband.nodeinfo.numports", "0x24"),
                ("infiniband.nodeinfo.nodeguid", "0x0000000000000002"),
                ("infiniband.nodeinfo.deviceid", "0xc738"),
                ("infiniband.nodeinfo.localportnum", "0x07"),
                ("infiniband.nodeinfo.vendorid", "0x02c903"),
            ],
        ),
        case(
            smp(
                smp::attribute::PORT_INFO,
                &|smp| smp.set_data(&port).expect("fits"),
                Route::Lid,
            ),
            &[
                ("infiniband.smplid.mkey", "0x000000000000abcd"),
                ("infiniband.portinfo.lid", "0x0009"),
                ("infiniband.portinfo.capabilitymask.issm", "0x00000001"),
                ("infiniband.portinfo.linkspeedsupported", "0x07"),
                ("infiniband.portinfo.portstate", "0x04"),
                ("infiniband.portinfo.portphysicalstate", "0x05"),
                ("infiniband.portinfo.linkdowndefaultstate", "0x02"),
                ("infiniband.portinfo.lmc", "0x02"),
                ("infiniband.portinfo.linkspeedactive", "0x04"),
                ("infiniband.portinfo.neighbormtu", "0x05"),
                ("infiniband.portinfo.mastersmsl", "0x06"),
                ("infiniband.portinfo.vlcap", "0x04"),
                ("infiniband.portinfo.mtucap", "0x05"),
                ("infiniband.portinfo.vlstallcount", "0x07"),
                ("infiniband.portinfo.hoqlife", "0x12"),
                ("infiniband.portinfo.operationalvls", "0x03"),
                ("infiniband.portinfo.guidcap", "0x08"),
                ("infiniband.portinfo.clientreregister", "0x01"),
                ("infiniband.portinfo.subnettimeout", "0x12"),
                ("infiniband.portinfo.resptimevalue", "0x10"),
                ("infiniband.portinfo.linkroundtriplatency", "0x123456"),
            ],
        ),
    ]
}

/// A packet that carries `mad`.
fn packet(mad: &[u8; MAD_LEN]) -> Packet<'_> {
    let (header, _) = MadHeader::parse_mad(mad).expect("a MAD");
    let qpn = header.class.queue_pair();
    let qkey = if qpn == GSI_QPN { GSI_QKEY } else { QKey(0) };
    Packet {
        headers: Headers::new(
            Bth::new(Opcode::UdSendOnly, qpn, Psn::new(1)),
            Ext {
                deth: Some(Deth { qkey, src_qpn: qpn }),
                ..Ext::default()
            },
        ),
        payload: mad,
    }
}

/// The file, and what is to be seen of each of its packets.
fn capture() -> (Vec<u8>, Vec<Shown>) {
    let mut writer = PcapngWriter::new(Vec::new(), "ferriband").expect("a Vec takes it");
    let ethernet = writer
        .interface("ferri_eth0", "RoCEv2", LinkType::Ethernet)
        .expect("a Vec takes it");
    let native = writer
        .interface("ferri0", "", LinkType::Erf)
        .expect("a Vec takes it");
    let mut shown = Vec::new();
    let mut buffer = [0; 512];
    let mut time_ns = 1_700_000_000_123_456_789;
    let mut cases = connection();
    let over_ethernet = cases.len();
    cases.extend(administration());
    cases.extend(subnet());
    for (
        number,
        Case {
            mad,
            shown: mut fields,
        },
    ) in cases.into_iter().enumerate()
    {
        let direction = if number % 2 == 0 {
            Direction::Inbound
        } else {
            Direction::Outbound
        };
        let comment = format!("packet {number}");
        let remark = Remark {
            direction: Some(direction),
            comment: &comment,
            original_len: None,
        };
        let seconds = format!("1700000000.{:09}", time_ns % 1_000_000_000);
        fields.extend([
            ("frame.comment", comment.clone()),
            (
                "frame.packet_flags_direction",
                format!("0x0000000{}", direction as u32),
            ),
            ("frame.time_epoch", seconds),
        ]);
        if number < over_ethernet {
            let v4 = RoceIp::v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 7);
            let v6 = RoceIp::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
            let (ip, udp_checksum) = if number % 2 == 0 {
                (v4, false)
            } else {
                (v6, true)
            };
            let frame = Ethernet {
                destination: [2; 6],
                source: [4; 6],
                ether_type: ip.ether_type(),
            };
            let rest = frame.emit(&mut buffer).expect("fits");
            let headers = RoceHeaders {
                ip,
                source_port: 0xc000,
            };
            let len = RocePacket {
                headers,
                udp_checksum,
                packet: packet(&mad),
            }
            .emit(rest)
            .expect("fits");
            writer
                .write(ethernet, time_ns, &buffer[..Ethernet::LEN + len], remark)
                .expect("a Vec takes it");
            fields.push(("frame.interface_name", "ferri_eth0".into()));
        } else {
            let lrh = Lrh {
                vl: Vl(0),
                sl: Sl(0),
                dlid: Lid(1),
                slid: Lid(2),
            };
            let len = NativePacket {
                lrh,
                grh: None,
                packet: packet(&mad),
            }
            .emit(&mut buffer)
            .expect("fits");
            writer
                .write(native, time_ns, &buffer[..len], remark)
                .expect("a Vec takes it");
            fields.push(("frame.interface_name", "ferri0".into()));
        }
        shown.push(fields);
        time_ns += 1_000_001;
    }
    // Last a packet that is not ours, to see that the reader reads.
    writer
        .write(native, time_ns, &native_frame(33), Remark::default())
        .expect("a Vec takes it");
    shown.push(vec![
        ("infiniband.pathrecord.dlid", "0x0002".into()),
        ("frame.comment", String::new()),
    ]);
    (writer.finish().expect("a Vec takes it"), shown)
}

/// Equal as text or, for versions of tshark differ in how they show numbers, as numbers.
fn same(seen: &str, meant: &str) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    seen == meant || number(seen).is_some_and(|seen| Some(seen) == number(meant))
}

fn has_tshark() -> bool {
    Command::new("tshark")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn wireshark_sees_what_was_meant() {
    if !has_tshark() {
        eprintln!("skipped: there is no tshark");
        return;
    }
    let (file, shown) = capture();
    let path =
        std::env::temp_dir().join(format!("ferriband-dissect-{}.pcapng", std::process::id()));
    std::fs::write(&path, file).expect("a temporary file");
    let names: BTreeSet<&str> = shown.iter().flatten().map(|(field, _)| *field).collect();
    let names: Vec<&str> = ["_ws.malformed", "frame.number"]
        .into_iter()
        .chain(names)
        .collect();
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=|"])
        .args(names.iter().flat_map(|name| ["-e", name]))
        .output();
    let _ = std::fs::remove_file(&path);
    let output = output.expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(lines.len(), shown.len(), "{text}");
    let mut wrong = Vec::new();
    for (number, (line, fields)) in lines.iter().zip(&shown).enumerate() {
        let seen = |name: &str| {
            names
                .iter()
                .position(|n| *n == name)
                .map_or("", |at| line[at])
        };
        for (field, value) in fields {
            if !same(seen(field), value) {
                wrong.push(format!(
                    "packet {}: {field} is {:?}, meant {value:?}",
                    number + 1,
                    seen(field)
                ));
            }
        }
        if !seen("_ws.malformed").is_empty() {
            wrong.push(format!("packet {}: malformed", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
