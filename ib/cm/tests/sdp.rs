//! Requests of the Sockets Direct Protocol, as bytes on both sides: the service ID of a port, the
//! Hello that private data are, the listener that it is for; and what Wireshark reads in them.

mod common;

use common::{Host, deliver, events, listen, rep, req, transmits};
use ferriband_cm::{CmEvent, CmLimits, ListenParams, Machine, Request, UserId};
use ferriband_transport::types::Instant;
use ferriband_wire::cm::{IpCmHeader, IpPair, Message, PortSpace, RejectReason};
use ferriband_wire::mad::{GSI_QKEY, GSI_QPN};
use ferriband_wire::pcap::{LinkType, PcapWriter};
use ferriband_wire::{
    Bth, Deth, Ethernet, Ext, Header, Headers, Opcode, Packet, Psn, RoceHeaders, RoceIp,
    RocePacket, ServiceId,
};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

const CLIENT: Host = Host { number: 1 };
const SERVER: Host = Host { number: 2 };
const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7174;

/// Where a MAD has the service ID and the private data of a REQ, and the private data of a REP (IBA
/// 12.6.5, 12.6.8).
const REQ_SERVICE: std::ops::Range<usize> = 32..40;
const REQ_PRIVATE: std::ops::Range<usize> = 164..256;
const REP_PRIVATE: std::ops::Range<usize> = 60..256;

/// A consumer's Hello, which knows no addresses, in the order of its fields.
#[rustfmt::skip]
const HELLO: [u8; 92] = [
    0x00, 0x00, 0, 64, 0, 0, 0, 92, 0, 0, 0, 0, 0, 0, 0, 0, // BSDH: Hello, 64 buffers, 92 bytes
    0x22, 0x01, 0, 3, 0, 0, 0x80, 0x10, 0, 0, 0x40, 0x10, 0, 0, 0, 0, // version, capability, adverts, sizes, port
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // source
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // destination
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// HelloAck: 64 buffers of 16,400 bytes.
#[rustfmt::skip]
const HELLO_ACK: [u8; 24] = [
    0x01, 0x00, 0, 64, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0,
    0x22, 0, 0, 3, 0, 0, 0x40, 0x10,
];

/// What the manager fills into it for these two addresses.
fn filled() -> [u8; 92] {
    let mut hello = HELLO;
    hello[17] = 0x41;
    hello[28..30].copy_from_slice(&[0x9c, 0x41]);
    hello[44..48].copy_from_slice(&[10, 0, 0, 1]);
    hello[60..64].copy_from_slice(&[10, 0, 0, 2]);
    hello
}

fn machine(slot: u32) -> Machine {
    Machine::new(slot, CmLimits::default(), [1, 2])
}

/// A listener of SDP's at an address, or at all.
fn listener(user: u64, space: PortSpace, ip: Option<Ipv4Addr>) -> ListenParams {
    ListenParams {
        user: UserId(user),
        service_id: ServiceId::from_port(space, PORT),
        ip: ip.map(IpAddr::from),
        ..listen(3)
    }
}

/// The only message that a machine has to send, as bytes.
fn sent(machine: &mut Machine) -> [u8; 256] {
    let mut sent = transmits(machine);
    assert_eq!(sent.len(), 1);
    sent.remove(0).2
}

/// A client that has asked, and its REQ.
fn asked() -> (Machine, [u8; 256]) {
    let mut client = machine(1);
    let header = IpCmHeader {
        source_port: 40_001,
        addresses: IpPair::V4 {
            source: CLIENT_IP,
            destination: SERVER_IP,
        },
    };
    let data = header.in_hello(&HELLO).expect("a Hello");
    let params = ferriband_cm::ReqParams {
        service_id: ServiceId::from_port(PortSpace::Sdp, PORT),
        ..req(CLIENT, SERVER, 7, 0x11, data.as_bytes())
    };
    client.connect(Instant(0), &params).expect("asked");
    let mad = sent(&mut client);
    (client, mad)
}

fn told_request(server: &mut Machine) -> (ferriband_wire::CommId, Request) {
    let mut told = events(server);
    assert_eq!(told.len(), 1, "{told:?}");
    let event = told.remove(0);
    let CmEvent::Request(request) = event.kind else {
        panic!("{event:?}")
    };
    (event.comm, *request)
}

#[test]
fn a_request_is_the_hello_to_the_service_of_the_port() {
    let (mut client, mad) = asked();
    assert_eq!(mad[REQ_SERVICE], [0, 0, 0, 0, 0, 1, 0x1c, 0x06]);
    assert_eq!(mad[REQ_PRIVATE], filled(), "no header in front");

    let mut server = machine(2);
    server
        .listen(&listener(5, PortSpace::Sdp, None))
        .expect("free");
    deliver(&mut server, Instant(0), SERVER, CLIENT, &mad).expect("taken");
    let (comm, request) = told_request(&mut server);
    assert_eq!(request.private_data.as_bytes(), &filled());
    let (header, rest) =
        ferriband_cm::ip_request(request.service_id, request.private_data.as_bytes())
            .expect("addresses");
    assert_eq!(header.source_port, 40_001);
    assert_eq!(header.addresses.destination(), IpAddr::from(SERVER_IP));
    assert_eq!(rest, filled(), "the consumer gets all of it");

    server
        .accept(Instant(0), comm, &rep(0x22, &HELLO_ACK))
        .expect("asked for");
    let answer = sent(&mut server);
    assert_eq!(answer[REP_PRIVATE][..24], HELLO_ACK);
    assert!(answer[REP_PRIVATE][24..].iter().all(|byte| *byte == 0));
    deliver(&mut client, Instant(0), CLIENT, SERVER, &answer).expect("taken");
    let told = events(&mut client);
    let [reply] = &told[..] else {
        panic!("{told:?}")
    };
    let CmEvent::Reply(reply) = &reply.kind else {
        panic!("{reply:?}")
    };
    assert_eq!(reply.private_data.as_bytes()[..24], HELLO_ACK);
}

/// Whose request bytes of a stranger's are.
fn listener_of(mad: &[u8; 256], listeners: &[ListenParams]) -> Result<u64, RejectReason> {
    let mut server = machine(2);
    for listener in listeners {
        server.listen(listener).expect("free");
    }
    match deliver(&mut server, Instant(0), SERVER, CLIENT, mad) {
        Ok(()) => Ok(told_request(&mut server).1.listener.0),
        Err(_) => {
            let refused = transmits(&mut server).remove(0).1;
            let Message::Rej(rej) = refused.message else {
                panic!("{refused:?}")
            };
            Err(rej.reason)
        }
    }
}

#[test]
fn the_hello_says_which_listener_is_meant() {
    let (_, mad) = asked();
    let (here, elsewhere) = (
        listener(1, PortSpace::Sdp, Some(SERVER_IP)),
        listener(2, PortSpace::Sdp, Some(Ipv4Addr::new(10, 0, 0, 3))),
    );
    let all = listener(3, PortSpace::Sdp, None);
    let of_tcp = listener(4, PortSpace::Tcp, None);
    let nobody = Err(RejectReason::InvalidServiceId);
    assert_eq!(listener_of(&mad, &[here, elsewhere, all, of_tcp]), Ok(1));
    assert_eq!(listener_of(&mad, &[elsewhere, all]), Ok(3));
    assert_eq!(listener_of(&mad, &[elsewhere]), nobody);
    assert_eq!(listener_of(&mad, &[of_tcp]), nobody, "ports of its own");

    // Bytes of strangers: another address, another family, another message, a service with bits
    // above.
    let mut other = mad;
    other[REQ_PRIVATE][63] = 3;
    assert_eq!(listener_of(&other, &[here, elsewhere]), Ok(2));
    let mut six = mad;
    six[REQ_PRIVATE][17] = 0x61;
    assert_eq!(listener_of(&six, &[here]), nobody);
    let mut data = mad;
    data[REQ_PRIVATE][0] = 0xff;
    assert_eq!(listener_of(&data, &[here]), nobody);
    let mut above = mad;
    above[REQ_SERVICE][0] = 2;
    assert_eq!(listener_of(&above, &[here, all]), nobody);
}

/// A datagram of a connection manager, over Ethernet.
fn frame(from_client: bool, mad: &[u8; 256]) -> Vec<u8> {
    let (source, destination) = if from_client {
        (CLIENT_IP, SERVER_IP)
    } else {
        (SERVER_IP, CLIENT_IP)
    };
    let ip = RoceIp::v4(source, destination, 7);
    let ext = Ext {
        deth: Some(Deth {
            qkey: GSI_QKEY,
            src_qpn: GSI_QPN,
        }),
        ..Ext::default()
    };
    let bth = Bth::new(Opcode::UdSendOnly, GSI_QPN, Psn::new(1));
    let mut buffer = vec![0; 1024];
    let ethernet = Ethernet {
        destination: [2; 6],
        source: [4; 6],
        ether_type: ip.ether_type(),
    };
    let rest = ethernet.emit(&mut buffer).expect("fits");
    let packet = RocePacket {
        headers: RoceHeaders {
            ip,
            source_port: 0xc000,
        },
        udp_checksum: false,
        packet: Packet {
            headers: Headers::new(bth, ext),
            payload: mad,
        },
    };
    let length = packet.emit(rest).expect("fits");
    buffer.truncate(Ethernet::LEN + length);
    buffer
}

/// REQ and REP that the machines send, as frames in a capture.
fn capture() -> Vec<u8> {
    let (mut client, question) = asked();
    let mut server = machine(2);
    server
        .listen(&listener(5, PortSpace::Sdp, None))
        .expect("free");
    deliver(&mut server, Instant(0), SERVER, CLIENT, &question).expect("taken");
    let (comm, _) = told_request(&mut server);
    server
        .accept(Instant(0), comm, &rep(0x22, &HELLO_ACK))
        .expect("asked for");
    let answer = sent(&mut server);
    deliver(&mut client, Instant(0), CLIENT, SERVER, &answer).expect("taken");
    let mut writer = PcapWriter::new(Vec::new(), LinkType::Ethernet).expect("a Vec takes it");
    for (number, (from_client, mad)) in (0..).zip([(true, question), (false, answer)]) {
        let at = 1_700_000_000_000_000_000 + number * 1000;
        writer
            .write(at, &frame(from_client, &mad))
            .expect("a Vec takes it");
    }
    writer.finish().expect("a Vec takes it")
}

#[test]
fn wireshark_reads_the_addresses_that_the_manager_wrote() {
    let has_tshark = Command::new("tshark")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_tshark {
        eprintln!("SKIP: there is no tshark");
        return;
    }
    let name = format!("ferriband-cm-sdp-{}.pcap", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, capture()).expect("a temporary file");
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-2", "-V"])
        .output();
    let _ = std::fs::remove_file(&path);
    let output = output.expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("Malformed"), "{text}");
    // Versions of tshark write addresses in one form or the other.
    let shown = [
        ["MID: Hello (0x00)"; 2],
        ["MID: HelloAck (0x01)"; 2],
        ["Local Port: 40001"; 2],
        ["Source IP: ::10.0.0.1", "Source IP: ::a00:1"],
        ["Destination IP: ::10.0.0.2", "Destination IP: ::a00:2"],
    ];
    for either in shown {
        let found = either.iter().any(|shown| text.contains(shown));
        assert!(found, "{either:?} in {text}");
    }
}
