//! Wireshark's view of what is written here: a capture with a connection's set-up and every message
//! is given to `tshark`, whose dissector is somebody else's reading of the protocol. Where there is
//! no `tshark` the test says so and passes: the other tests stand without it.

use ferriband_sdp_wire::*;
use ferriband_wire::cm::{CmMad, CmPath, Failover, Rep, Req};
use ferriband_wire::mad::{GSI_QKEY, GSI_QPN, MAD_LEN};
use ferriband_wire::pcap::{LinkType, PcapWriter};
use ferriband_wire::{
    Bth, CommId, Deth, Ethernet, Ext, Gid, Guid, Header, Headers, Mtu, Opcode, PKey, Packet, Psn,
    QKey, Qpn, RoceHeaders, RoceIp, RocePacket, TimeCode, TransactionId,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT_QPN: Qpn = Qpn(0x11);
const SERVER_QPN: Qpn = Qpn(0x22);
const PORT: u16 = 7174;

/// A message as it goes over the wire.
struct Sent {
    mid: Mid,
    frame: Vec<u8>,
}

fn ring(virtual_address: u64) -> Ring {
    Ring {
        virtual_address,
        rkey: RKey(0x1234_5678),
        size_bytes: 1 << 20,
    }
}

fn hello() -> Hello {
    Hello {
        version: Version::OFED,
        capabilities: Capabilities::INVALIDATE,
        max_adverts: 3,
        ext_max_adverts: 0x0405,
        desired_remote_receive_bytes: 32_784,
        local_receive_bytes: 16_400,
        port: 40_001,
        addresses: Addresses::V4 {
            source: CLIENT,
            destination: SERVER,
        },
        flow_control: Some(FlowControl::Nic {
            ring: ring(0x7f00_0000_1000),
            window_bytes: 8192,
            second_qp: 0x12_3456,
        }),
    }
}

fn bodies(data: &[u8]) -> Vec<Body<'_>> {
    let advert = Advert {
        length_bytes: 1 << 16,
        rkey: RKey(0x0102_0304),
        virtual_address: 0x7f00_0000_2000,
    };
    vec![
        Body::Data(data),
        Body::SrcAvail { advert, data },
        Body::SrcAvail { advert, data: &[] },
        Body::RdmaRdCompl {
            length_bytes: 1 << 16,
        },
        Body::SendSm,
        Body::SrcAvailCancel,
        Body::ModeChange(ModeChange {
            half: ConnectionHalf::Send,
            mode: TransferMode::Pipelined,
        }),
        Body::SinkAvail {
            advert,
            non_discards: 7,
            data,
        },
        Body::RdmaWrCompl {
            length_bytes: 1 << 16,
        },
        Body::SinkAvailCancel,
        Body::SinkCancelAck,
        Body::ChRcvBuf { size_bytes: 65_552 },
        Body::ChRcvBufAck { size_bytes: 65_552 },
        Body::SuspComm {
            service_id: ServiceId::from_port(9),
        },
        Body::SuspCommAck,
        Body::DisConn,
        Body::AbortConn,
    ]
}

fn ethernet(from_client: bool, packet: Packet<'_>) -> Vec<u8> {
    let (source, destination) = if from_client {
        (CLIENT, SERVER)
    } else {
        (SERVER, CLIENT)
    };
    let ip = RoceIp::v4(source, destination, 7);
    let mut buffer = vec![0; 1024];
    let rest = Ethernet {
        destination: [2; 6],
        source: [4; 6],
        ether_type: ip.ether_type(),
    }
    .emit(&mut buffer)
    .expect("fits");
    let len = RocePacket {
        headers: RoceHeaders {
            ip,
            source_port: 0xc000,
        },
        udp_checksum: false,
        packet,
    }
    .emit(rest)
    .expect("fits");
    buffer.truncate(Ethernet::LEN + len);
    buffer
}

/// A message of the communication manager.
fn managed(from_client: bool, message: impl Into<ferriband_wire::cm::Message>) -> Vec<u8> {
    let mut mad = [0; MAD_LEN];
    CmMad::new(TransactionId(0x1122_3344), message)
        .emit(&mut mad)
        .expect("fits");
    let ext = Ext {
        deth: Some(Deth {
            qkey: GSI_QKEY,
            src_qpn: GSI_QPN,
        }),
        ..Ext::default()
    };
    let bth = Bth::new(Opcode::UdSendOnly, GSI_QPN, Psn::new(1));
    let packet = Packet {
        headers: Headers::new(bth, ext),
        payload: &mad,
    };
    ethernet(from_client, packet)
}

/// Hello and HelloAck in the REQ and REP that carry them.
fn handshake() -> Vec<Sent> {
    let header = MessageHeader {
        bufs: 64,
        ..MessageHeader::default()
    };
    let mut private = [0; Hello::LEN];
    let body = Body::Hello(hello());
    let message = Message { header, body };
    message.emit(&mut private).expect("fits");
    let gid = |address: Ipv4Addr| Gid::from(std::net::IpAddr::V4(address));
    let req = managed(
        true,
        Req {
            local_comm_id: CommId(1),
            service_id: ferriband_wire::ServiceId(ServiceId::from_port(PORT).0),
            local_qpn: CLIENT_QPN,
            starting_psn: Psn::new(0x100),
            pkey: PKey(0xffff),
            path_mtu_code: Mtu::M1024 as u8,
            primary: CmPath {
                local_gid: gid(CLIENT),
                remote_gid: gid(SERVER),
                ..CmPath::default()
            },
            private_data: private.into(),
            ..Req::default()
        },
    );
    let mut private = [0; HelloAck::LEN];
    let body = Body::HelloAck(HelloAck {
        version: Version::OFED,
        max_adverts: 2,
        actual_receive_bytes: 32_784,
        flow_control: Some(FlowControl::Ring(ring(0x7f00_0000_3000))),
    });
    let message = Message { header, body };
    message.emit(&mut private).expect("fits");
    let rep = managed(
        false,
        Rep {
            local_comm_id: CommId(2),
            remote_comm_id: CommId(1),
            local_qkey: QKey(0),
            local_qpn: SERVER_QPN,
            vendor_id: 0,
            local_eecn: 0,
            starting_psn: Psn::new(0x200),
            responder_resources: 4,
            initiator_depth: 4,
            target_ack_delay: TimeCode(15),
            failover: Failover::NotSupported,
            end_to_end_flow_control: true,
            rnr_retry_count: 7,
            srq: false,
            local_ca_guid: Guid(2),
            private_data: private.into(),
        },
    );
    vec![
        Sent {
            mid: Mid::Hello,
            frame: req,
        },
        Sent {
            mid: Mid::HelloAck,
            frame: rep,
        },
    ]
}

/// Each body in a packet of its own, once from either side.
fn conversation(bodies: &[Body<'_>]) -> Vec<Sent> {
    let mut sent = Vec::new();
    for from_client in [true, false] {
        let (qpn, psn) = if from_client {
            (SERVER_QPN, 0x100)
        } else {
            (CLIENT_QPN, 0x200)
        };
        for (number, body) in (1..).zip(bodies) {
            let message = Message {
                header: MessageHeader {
                    flags: Flags::OOB_PEND,
                    bufs: 62,
                    mseq: MessageSeq(number),
                    mseq_ack: MessageSeq(0xfeed),
                },
                body: *body,
            };
            let mut out = [0; 512];
            let len = message.emit(&mut out).expect("fits");
            let bth = Bth::new(Opcode::RcSendOnly, qpn, Psn::new(psn + number));
            let packet = Packet {
                headers: Headers::new(bth, Ext::default()),
                payload: &out[..len],
            };
            sent.push(Sent {
                mid: body.mid(),
                frame: ethernet(from_client, packet),
            });
        }
    }
    sent
}

fn capture(sent: &[Sent]) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), LinkType::Ethernet).expect("a Vec takes it");
    for (number, sent) in (0..).zip(sent) {
        writer
            .write(1_700_000_000_000_000_000 + number * 1000, &sent.frame)
            .expect("a Vec takes it");
    }
    writer.finish().expect("a Vec takes it")
}

fn has_tshark() -> bool {
    Command::new("tshark")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What `tshark` says about the capture, with `arguments`.
fn tshark(file: &[u8], name: &str, arguments: &[&str]) -> String {
    let name = format!("ferriband-sdp-{name}-{}.pcap", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, file).expect("a temporary file");
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(arguments)
        .output();
    let _ = std::fs::remove_file(&path);
    let output = output.expect("tshark runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Hello's fields as Wireshark must show them.
const HELLO_SHOWN: [(&str, &str); 12] = [
    ("bsdh.len", "92"),
    ("bsdh.bufs", "64"),
    ("hh.majv", "2"),
    ("hh.ipv", "4"),
    ("hh.cap", "1"),
    ("hh.maxadverts", "3"),
    ("hh.desremrcvsz", "32784"),
    ("hh.localrcvsz", "16400"),
    ("hh.localport", "40001"),
    ("hh.src_ip", "::a00:1"),
    ("hh.dst_ip", "::a00:2"),
    ("hh.extmaxadverts", "1029"),
];

/// Equal as text or, for versions of tshark differ in how they show numbers and addresses, as
/// either of these.
fn same(seen: &str, meant: &str) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let address = |text: &str| text.parse::<Ipv6Addr>().ok();
    let numbers = number(seen).is_some_and(|seen| Some(seen) == number(meant));
    let addresses = address(seen).is_some_and(|seen| Some(seen) == address(meant));
    seen == meant || numbers || addresses
}

/// The values of `fields` of SDP, a line for each packet. The second pass knows from the start that
/// the connection is SDP's, and so shows Hello.
fn shown(sent: &[Sent], name: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut arguments = vec!["-2", "-T", "fields", "-E", "separator=|"];
    let fields: Vec<String> = fields
        .iter()
        .map(|field| format!("infiniband_sdp.{field}"))
        .collect();
    arguments.extend(fields.iter().flat_map(|field| ["-e", field.as_str()]));
    let text = tshark(&capture(sent), name, &arguments);
    text.lines()
        .map(|line| line.split('|').map(str::to_owned).collect())
        .collect()
}

#[test]
fn wireshark_names_every_message_and_calls_none_malformed() {
    if !has_tshark() {
        eprintln!("SKIP: there is no tshark");
        return;
    }
    let data = [0x5a; 64];
    let mut sent = handshake();
    sent.extend(conversation(&bodies(&data)));
    let mut missing: Vec<&Mid> = Mid::ALL.iter().collect();
    missing.retain(|mid| !sent.iter().any(|sent| sent.mid == **mid));
    assert!(missing.is_empty(), "{missing:?}");

    let text = tshark(&capture(&sent), "names", &["-2", "-V"]);
    assert!(!text.contains("Malformed"), "{text}");
    for mid in Mid::ALL {
        let name = format!("MID: {mid} ({:#04x})", mid.code());
        let meant = sent.iter().filter(|sent| sent.mid == *mid).count();
        assert_eq!(text.matches(&name).count(), meant, "{name} in {text}");
    }

    let mids = shown(&sent, "mids", &["bsdh.mid"]);
    assert_eq!(mids.len(), sent.len());
    for (sent, shown) in sent.iter().zip(&mids) {
        let meant = sent.mid.code().to_string();
        assert!(same(&shown[0], &meant), "{}: {shown:?}", sent.mid);
    }
}

#[test]
fn wireshark_reads_hello_as_it_was_meant() {
    if !has_tshark() {
        eprintln!("SKIP: there is no tshark");
        return;
    }
    let shown = shown(&handshake(), "hello", &HELLO_SHOWN.map(|(field, _)| field));
    for (seen, (field, meant)) in shown[0].iter().zip(HELLO_SHOWN) {
        assert!(same(seen, meant), "{field} is {seen:?}, meant {meant:?}");
    }
    // HelloAck has no field that Wireshark takes apart.
    assert_eq!(shown[1][..2], ["196", "64"]);
}

#[test]
fn a_message_that_only_gives_credits_is_recognised() {
    if !has_tshark() {
        eprintln!("SKIP: there is no tshark");
        return;
    }
    // Wireshark 4.0 calls it malformed, for it looks for data where there are none. It names it.
    let mut sent = handshake();
    sent.extend(conversation(&[Body::Data(&[])]));
    let shown = shown(&sent, "credits", &["bsdh.mid", "bsdh.len", "bsdh.bufs"]);
    for seen in &shown[2..] {
        assert!(same(&seen[0], "255"), "{seen:?}");
        assert_eq!(seen[1..], ["16", "62"]);
    }
    assert_eq!(shown.len(), 4);
}
