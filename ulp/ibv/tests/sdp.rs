//! The port space of the Sockets Direct Protocol by Ferriband's own library: Hello and HelloAck set
//! a connection between two processes up, and a message crosses it.

#[path = "common/connection.rs"]
mod connection;

use connection::{PATIENCE, RESOLVE, Side, channel, expect, listen, manager, resolved};
use ferriband_ibv::{
    ACCEPT_ROOM, CmError, CmEventKind, CmId, ConnectParams, ErrorKind, PortSpace, RejectReason,
};
use ferriband_sdp_wire::{
    Addresses, Body, Capabilities, Flags, FlowControl, Hello, HelloAck, Message, MessageHeader,
    MessageSeq, RKey, Ring, Version,
};
use ferriband_testkit::port_is_to_be_had;
use std::io::{BufRead, BufReader};
use std::net::{Ipv6Addr, SocketAddr};
use std::process::{Command, Stdio};

/// A Hello of a socket that leaves port and addresses to the connection manager.
fn hello() -> Hello {
    Hello {
        version: Version::OFED,
        capabilities: Capabilities::INVALIDATE,
        max_adverts: 3,
        ext_max_adverts: 0,
        desired_remote_receive_bytes: 32_784,
        local_receive_bytes: 16_400,
        port: 0,
        addresses: Addresses::V6 {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
        },
        flow_control: Some(FlowControl::Ring(Ring {
            virtual_address: 0x7f00_0000_1000,
            rkey: RKey(0x1234_5678),
            size_bytes: 1 << 20,
        })),
    }
}

fn hello_ack() -> HelloAck {
    HelloAck {
        version: Version::OFED,
        max_adverts: 2,
        actual_receive_bytes: 16_400,
        flow_control: Some(FlowControl::Credit),
    }
}

fn header(mseq: u32) -> MessageHeader {
    MessageHeader {
        flags: Flags::empty(),
        bufs: 8,
        mseq: MessageSeq(mseq),
        mseq_ack: MessageSeq(0),
    }
}

/// A message as bytes.
fn bytes(mseq: u32, body: Body<'_>) -> Vec<u8> {
    let mut out = vec![0; 256];
    let header = header(mseq);
    let length = Message { header, body }.emit(&mut out).expect("fits");
    out.truncate(length);
    out
}

/// What a Hello looks like to the listener: with the addresses of who asked.
fn told(from: SocketAddr, to: SocketAddr) -> Hello {
    Hello {
        port: from.port(),
        addresses: Addresses::new(from.ip(), to.ip()).expect("one family"),
        ..hello()
    }
}

/// The child of the test below: accepts one connection, and sends back what it has received.
#[test]
fn child_of_the_test_of_two_processes() {
    if std::env::var_os("IBV_TEST_CHILD").is_none() {
        return;
    }
    let there = channel();
    let (_listener, at) = listen(&there, PortSpace::Sdp, 1);
    println!("port {}", at.port());
    let mut event = expect(&there, CmEventKind::ConnectRequest);
    let passive = event.take_request().expect("a request");
    let from = passive.peer_address().expect("an address");
    let asked = Message::parse(event.private_data()).expect("a message");
    assert_eq!(asked.body, Body::Hello(told(from, at)));
    drop(event);
    let side = Side::managed(&passive);
    side.receive();
    let answer = bytes(0, Body::HelloAck(hello_ack()));
    let granted = ConnectParams {
        private_data: &answer,
        ..ConnectParams::default()
    };
    passive.accept(&granted).expect("accepted");
    let text = side.text();
    let came = Message::parse(&text).expect("a message");
    assert_eq!((came.header, came.body), (header(1), Body::Data(b"hello")));
    side.send(&bytes(1, Body::Data(b"hello yourself")));
    assert!(side.wait().is_ok());
    loop {
        let event = there.wait_event(PATIENCE).expect("a channel");
        if event.expect("the end").kind() == CmEventKind::Disconnected {
            break;
        }
    }
    passive.disconnect().expect("answered");
}

/// Runs the two processes, of which this is one.
fn two_processes_speak(device: &str, wire: &str) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "child_of_the_test_of_two_processes",
            "--nocapture",
        ])
        .env("IBV_TEST_CHILD", "1")
        .env("IBV_TEST_LIBRARY", manager().verbs().path())
        .env("FERRIBAND_DEVICES", device)
        .env("FERRIBAND_WIRE", wire)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let port = lines.find_map(|line| {
        // The test harness writes on lines of its own, and before ours.
        let line = line.expect("a line");
        let (_, port) = line.split_once("port ")?;
        port.trim().parse::<u16>().ok()
    });
    let at = SocketAddr::from(([127, 0, 0, 1], port.expect("the child says its port")));
    let here = channel();
    let active = resolved(&here, PortSpace::Sdp, 2, at);
    let side = Side::managed(&active);
    side.receive();
    let question = bytes(0, Body::Hello(hello()));
    let asked = ConnectParams {
        private_data: &question,
        ..ConnectParams::default()
    };
    active.connect(&asked).expect("asked");
    let event = expect(&here, CmEventKind::Established);
    assert_eq!(event.private_data().len(), ACCEPT_ROOM);
    let answer = Message::parse(event.private_data()).expect("a message");
    assert_eq!(answer.body, Body::HelloAck(hello_ack()));
    side.send(&bytes(1, Body::Data(b"hello")));
    assert!(side.wait().is_ok());
    let text = side.text();
    let came = Message::parse(&text).expect("a message");
    assert_eq!(came.body, Body::Data(b"hello yourself"));
    active.disconnect().expect("asked");
    expect(&here, CmEventKind::Disconnected);
    let status = child.wait().expect("our child");
    assert!(status.success(), "{status}");
}

/// The other half of the tests below, in a process that has the device alone.
#[test]
fn parent_of_the_test_of_two_processes() {
    if let Ok(wires) = std::env::var("IBV_TEST_WIRES") {
        let (device, wire) = wires.split_once(' ').expect("two words");
        two_processes_speak(device, wire);
    }
}

fn run_over(device: &str, wire: &str) {
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "parent_of_the_test_of_two_processes"])
        .env("IBV_TEST_WIRES", format!("{device} {wire}"))
        .env("IBV_TEST_LIBRARY", manager().verbs().path())
        .env("FERRIBAND_DEVICES", device)
        .env("FERRIBAND_WIRE", wire)
        .status()
        .expect("this program");
    assert!(status.success(), "{device}, {wire}: {status}");
}

#[test]
fn two_processes_speak_sdp_on_shared_memory() {
    run_over("ferri0", "direct");
}

#[test]
fn two_processes_speak_sdp_in_packets() {
    if port_is_to_be_had() {
        run_over("ferri_lo", "roce");
    }
}

#[test]
fn ports_of_sdp_are_its_own() {
    let (here, there) = (channel(), channel());
    let (listener, at) = listen(&there, PortSpace::Sdp, 1);
    let other = CmId::create(&there, PortSpace::Tcp, 2).expect("an identifier");
    other.bind(at).expect("nobody's in that space");
    let third = CmId::create(&there, PortSpace::Sdp, 3).expect("an identifier");
    assert!(third.bind(at).is_err(), "taken");
    // Nobody listens in the other space.
    let active = resolved(&here, PortSpace::Tcp, 4, at);
    let _side = Side::managed(&active);
    active.connect(&ConnectParams::default()).expect("asked");
    let refused = expect(&here, CmEventKind::Rejected);
    let nobody = Err(CmError::Rejected(RejectReason::NobodyListens));
    assert_eq!(refused.result(), nobody);
    drop(listener);
    third.bind(at).expect("free");
}

#[test]
fn nothing_but_a_hello_is_asked_with() {
    let (here, there) = (channel(), channel());
    let (_listener, at) = listen(&there, PortSpace::Sdp, 1);
    let active = resolved(&here, PortSpace::Sdp, 2, at);
    let _side = Side::managed(&active);
    let question = bytes(0, Body::Hello(hello()));
    let ask = |private_data| {
        active.connect(&ConnectParams {
            private_data,
            ..ConnectParams::default()
        })
    };
    let answer = bytes(0, Body::HelloAck(hello_ack()));
    for no_hello in [&[][..], &question[..63], &answer[..64]] {
        let error = ask(no_hello).expect_err("no Hello");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{no_hello:?}");
    }
    // 64 bytes are what every implementation sends.
    ask(&question[..64]).expect("asked");
    let event = expect(&there, CmEventKind::ConnectRequest);
    assert_eq!(event.private_data().len(), PortSpace::Sdp.connect_room());
    assert!(event.private_data()[64..].iter().all(|byte| *byte == 0));
}

#[test]
fn ipv6_addresses_stand_in_the_hello() {
    let (here, there) = (channel(), channel());
    let listener = CmId::create(&there, PortSpace::Sdp, 1).expect("an identifier");
    let loopback = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    listener.bind(loopback).expect("bound");
    listener.listen(1).expect("it listens");
    let at = listener.local_address().expect("bound");
    let active = CmId::create(&here, PortSpace::Sdp, 2).expect("an identifier");
    active.resolve_address(None, at, RESOLVE).expect("asked");
    let found = here.wait_event(PATIENCE).expect("a channel");
    if found.expect("an answer").kind() == CmEventKind::AddrError {
        eprintln!("SKIP: this host has no IPv6");
        return;
    }
    active.resolve_route(RESOLVE).expect("asked");
    expect(&here, CmEventKind::RouteResolved);
    let _side = Side::managed(&active);
    let question = bytes(0, Body::Hello(hello()));
    let asked = ConnectParams {
        private_data: &question,
        ..ConnectParams::default()
    };
    active.connect(&asked).expect("asked");
    let event = expect(&there, CmEventKind::ConnectRequest);
    let came = Message::parse(event.private_data()).expect("a message");
    let from = active.local_address().expect("an address");
    assert_eq!(came.body, Body::Hello(told(from, at)));
}
