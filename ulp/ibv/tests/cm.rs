//! The connection manager of Ferriband's own library: connections within this process and with
//! another, on the addresses of this host.

#[path = "common/connection.rs"]
mod connection;

use connection::{PATIENCE, RESOLVE, Side, channel, expect, listen, manager, resolved};
use ferriband_ibv::{
    ACCEPT_ROOM, Choice, Cm, CmChannel, CmError, CmEventKind, CmId, CmOption, ConnectParams,
    ErrorKind, EventKind, Gid, PortSpace, QpState, RejectReason, Verbs, WcStatus, leaked,
};
use ferriband_testkit::library_dir;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A message each way.
fn talk(a: &Side, b: &Side) {
    a.receive();
    b.receive();
    a.send(b"there");
    assert_eq!(b.text(), b"there");
    assert!(a.wait().is_ok());
    b.send(b"and back");
    assert_eq!(a.text(), b"and back");
    assert!(b.wait().is_ok());
}

/// The other side's bytes, and nothing but zeros behind them.
fn assert_padded(seen: &[u8], sent: &[u8], room: usize) {
    assert_eq!((&seen[..sent.len()], seen.len()), (sent, room));
    assert!(seen[sent.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_connection_is_asked_for_accepted_and_ended() {
    let (here, there) = (channel(), channel());
    let (listener, at) = listen(&there, PortSpace::Tcp, 5);
    assert!(here.next_event().expect("a channel").is_none());
    let active = resolved(&here, PortSpace::Tcp, 6, at);
    let client = Side::managed(&active);
    let asked = ConnectParams {
        private_data: b"who I am",
        initiator_depth: 3,
        responder_resources: 2,
        ..ConnectParams::default()
    };
    active.connect(&asked).expect("asked");

    let mut event = expect(&there, CmEventKind::ConnectRequest);
    assert!(Arc::ptr_eq(event.id(), &listener));
    assert_padded(
        event.private_data(),
        b"who I am",
        PortSpace::Tcp.connect_room(),
    );
    let peer = event.peer().expect("a request's");
    assert_eq!((peer.responder_resources, peer.initiator_depth), (3, 2));
    assert_eq!((peer.srq, peer.qp_number), (false, client.qp.number()));
    let passive = event.take_request().expect("a request");
    assert!(event.take_request().is_none());
    drop(event);
    assert_eq!(passive.tag(), 5, "the listener's, at first");
    passive.set_tag(9);
    assert_eq!(passive.local_address(), Some(at));
    assert_eq!(passive.peer_address(), active.local_address());
    let (mine, other) = (passive.gids(), active.gids());
    assert_eq!((mine.0, mine.1), (other.1, other.0));
    assert_ne!(mine.0, Gid::default());
    assert_eq!(passive.port_number(), 1);
    let server = Side::managed(&passive);
    let answer = [0x5a; ACCEPT_ROOM];
    let granted = ConnectParams {
        private_data: &answer,
        ..ConnectParams::default()
    };
    passive.accept(&granted).expect("accepted");

    let event = expect(&here, CmEventKind::Established);
    assert_eq!(event.private_data(), answer);
    assert_eq!(
        event.peer().expect("the answer's").qp_number,
        server.qp.number()
    );
    drop(event);
    let event = expect(&there, CmEventKind::Established);
    assert_eq!((event.id().tag(), event.private_data()), (9, &[][..]));
    drop(event);
    assert_eq!(client.qp.state(), Ok(QpState::Rts));
    talk(&client, &server);

    server.receive();
    active.disconnect().expect("asked");
    assert_eq!(expect(&there, CmEventKind::Disconnected).id().tag(), 9);
    // Only the answer tells the side that asked.
    assert!(!is_readable(&here));
    passive.disconnect().expect("answered");
    assert!(expect(&here, CmEventKind::Disconnected).peer().is_none());
    assert_eq!(server.wait().status(), WcStatus::Flushed);
}

#[test]
fn a_program_brings_its_own_queue_pairs_up() {
    let (here, there) = (channel(), channel());
    let (_listener, at) = listen(&there, PortSpace::Tcp, 1);
    let active = resolved(&here, PortSpace::Tcp, 2, at);
    let error = active.connect(&ConnectParams::default());
    assert_eq!(
        error.expect_err("nothing names a queue pair").kind(),
        ErrorKind::Invalid
    );
    let client = Side::by_hand(&active);
    let asked = ConnectParams {
        qp: Some(&client.qp),
        ..ConnectParams::default()
    };
    active.connect(&asked).expect("asked");
    let mut event = expect(&there, CmEventKind::ConnectRequest);
    let passive = event.take_request().expect("a request");
    drop(event);
    let server = Side::by_hand(&passive);
    server.receive();
    passive.ready_qp(&server.qp).expect("RTS");
    let granted = ConnectParams {
        qp: Some(&server.qp),
        private_data: b"yes",
        ..ConnectParams::default()
    };
    passive.accept(&granted).expect("accepted");

    let event = expect(&here, CmEventKind::ConnectResponse);
    assert_padded(event.private_data(), b"yes", ACCEPT_ROOM);
    drop(event);
    assert_eq!(client.qp.state(), Ok(QpState::Init));
    active.ready_qp(&client.qp).expect("RTS");
    active.establish().expect("said");
    expect(&there, CmEventKind::Established);
    client.send(b"first");
    assert_eq!(server.text(), b"first");
    assert!(client.wait().is_ok());
    talk(&client, &server);
    // Data may come before the other side's last message; the connection stands here already.
    let _ = passive.notify(EventKind::CommunicationEstablished);
}

#[test]
fn a_refusal_has_a_reason_and_bytes() {
    let (here, there) = (channel(), channel());
    let (listener, at) = listen(&there, PortSpace::Tcp, 1);
    let ask = |tag| {
        let active = resolved(&here, PortSpace::Tcp, tag, at);
        let side = Side::managed(&active);
        active.connect(&ConnectParams::default()).expect("asked");
        (active, side)
    };
    let refused = |reason| {
        let event = expect(&here, CmEventKind::Rejected);
        assert_eq!(event.result(), Err(CmError::Rejected(reason)));
        event
    };

    let (_active, side) = ask(2);
    let mut event = expect(&there, CmEventKind::ConnectRequest);
    let passive = event.take_request().expect("a request");
    let too_long = passive.reject(&[0; 149]).expect_err("no room");
    assert_eq!(too_long.errno(), libc::EMSGSIZE);
    passive.reject(b"not you").expect("refused");
    assert_padded(
        refused(RejectReason::Consumer).private_data(),
        b"not you",
        148,
    );
    assert_eq!(side.qp.state(), Ok(QpState::Error));

    // A request that nobody takes out of its event is refused with it.
    let _asked = ask(3);
    drop(expect(&there, CmEventKind::ConnectRequest));
    refused(RejectReason::Consumer);

    // A request that waits when its listener goes.
    let _asked = ask(4);
    let waits = Instant::now() + PATIENCE;
    while !is_readable(&there) {
        assert!(Instant::now() < waits);
    }
    drop((listener, event, passive));
    assert!(expect(&here, CmEventKind::Rejected).result().is_err());

    let _asked = ask(5);
    refused(RejectReason::NobodyListens);
}

fn is_readable(channel: &CmChannel) -> bool {
    use std::os::fd::AsRawFd;
    let mut waited = libc::pollfd {
        fd: channel.fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor's structure, which lives during the call.
    unsafe { libc::poll(&raw mut waited, 1, 10) == 1 }
}

#[test]
fn a_listener_takes_three_connections() {
    let (here, there) = (channel(), channel());
    let (_listener, at) = listen(&there, PortSpace::Tcp, 1);
    let ids: Vec<_> = (10..13)
        .map(|tag| resolved(&here, PortSpace::Tcp, tag, at))
        .collect();
    let clients: Vec<_> = ids.iter().map(Side::managed).collect();
    for id in &ids {
        let data = [id.tag() as u8];
        let asked = ConnectParams {
            private_data: &data,
            ..ConnectParams::default()
        };
        id.connect(&asked).expect("asked");
    }
    let mut servers = Vec::new();
    for _ in 0..3 {
        let mut event = expect(&there, CmEventKind::ConnectRequest);
        let tag = u64::from(event.private_data()[0]);
        let passive = event.take_request().expect("a request");
        drop(event);
        passive.set_tag(tag);
        let side = Side::managed(&passive);
        passive.accept(&ConnectParams::default()).expect("accepted");
        servers.push((passive, side));
    }
    let mut seen: Vec<u64> = (0..3)
        .flat_map(|_| {
            [&here, &there].map(|channel| expect(channel, CmEventKind::Established).id().tag())
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [10, 10, 11, 11, 12, 12]);
    // One device: one object for all.
    let context = ids[0].context().expect("no failure").expect("a device");
    for id in ids.iter().chain(servers.iter().map(|(id, _)| id)) {
        let other = id.context().expect("no failure").expect("a device");
        assert!(Arc::ptr_eq(&context, &other));
    }
    for (passive, side) in &servers {
        talk(&clients[(passive.tag() - 10) as usize], side);
    }
}

#[test]
fn what_is_dropped_in_any_order_goes_in_the_right_one() {
    let (here, there) = (channel(), channel());
    let (listener, at) = listen(&there, PortSpace::Tcp, 1);
    let active = resolved(&here, PortSpace::Tcp, 2, at);
    let client = Side::managed(&active);
    active.connect(&ConnectParams::default()).expect("asked");
    let mut event = expect(&there, CmEventKind::ConnectRequest);
    let passive = event.take_request().expect("a request");
    let server = Side::managed(&passive);
    passive.accept(&ConnectParams::default()).expect("accepted");
    let established = expect(&here, CmEventKind::Established);
    // Identifiers first, channels, then queue pairs, events last: an event that is held holds what
    // it names.
    drop((listener, active, passive));
    drop((here, there));
    drop(server);
    drop(client);
    assert!(established.id().context().expect("no failure").is_some());
    drop((event, established));
    assert_eq!(leaked(), 0);
}

#[test]
fn what_cannot_be_resolved_is_told_or_refused() {
    let here = channel();
    let taken = CmId::create(&here, PortSpace::Tcp, 1).expect("an identifier");
    let elsewhere = "203.0.113.9:1".parse().expect("an address");
    let error = taken.bind(elsewhere).expect_err("none of this host's");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::NoSuchAddress | ErrorKind::DeviceGone
        ),
        "{error}"
    );
    taken
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("bound");
    let at = taken.local_address().expect("bound");
    let other = CmId::create(&here, PortSpace::Tcp, 2).expect("an identifier");
    let error = other.bind(at).expect_err("taken");
    // The second where the address means every one, as localhost does without a device of its own;
    // so it is in Linux.
    assert!(
        matches!(
            error.kind(),
            ErrorKind::AddressInUse | ErrorKind::NoSuchAddress
        ),
        "{error}"
    );
    let error = other.resolve_route(RESOLVE).expect_err("no address yet");
    assert_eq!(
        (error.call(), error.kind()),
        ("rdma_resolve_route", ErrorKind::Invalid)
    );
    other
        .set_option(CmOption::ReuseAddress(true))
        .expect("early enough");
    other
        .set_option(CmOption::TrafficClass(4))
        .expect("at any time");
    other
        .set_option(CmOption::AckTimeout(14))
        .expect("at any time");
    other
        .set_option(CmOption::OneFamily(true))
        .expect("early enough");
    let six = "[2001:db8::9]:5".parse().expect("an address");
    let own = Some("127.0.0.1:0".parse().expect("an address"));
    let mixed = other.resolve_address(own, six, RESOLVE);
    assert_eq!(mixed.expect_err("two families").kind(), ErrorKind::Invalid);
    let nothing = here.wait_event(Duration::from_millis(20));
    assert!(nothing.expect("a channel").is_none());
}

/// The child of the tests below: a server that accepts, says so, and waits to be killed.
#[test]
fn child_of_the_tests_of_two_processes() {
    if std::env::var_os("IBV_TEST_CHILD").is_none() {
        return;
    }
    let there = channel();
    let (_listener, at) = listen(&there, PortSpace::Tcp, 1);
    println!("port {}", at.port());
    let mut kept = Vec::new();
    loop {
        let Some(mut event) = there.wait_event(PATIENCE).expect("a channel") else {
            return;
        };
        if let Some(passive) = event.take_request() {
            let side = Side::managed(&passive);
            side.receive();
            passive.accept(&ConnectParams::default()).expect("accepted");
            kept.push((passive, side));
        }
    }
}

/// Another process that listens, and its port. It is killed when dropped.
struct Server(Child, u16);

impl Server {
    fn start() -> Server {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "child_of_the_tests_of_two_processes",
                "--nocapture",
            ])
            .env("IBV_TEST_CHILD", "1")
            .env("IBV_TEST_LIBRARY", manager().verbs().path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let port = lines.find_map(|line| {
            // The test harness writes on lines of its own, and before ours.
            let line = line.expect("a line");
            let (_, port) = line.split_once("port ")?;
            port.trim().parse().ok()
        });
        Server(child, port.expect("the child says its port"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("our child");
        self.0.wait().expect("our child");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_other_sides_death_is_told() {
    let mut server = Server::start();
    let here = channel();
    let at = SocketAddr::from(([127, 0, 0, 1], server.1));
    let active = resolved(&here, PortSpace::Tcp, 2, at);
    let client = Side::managed(&active);
    active.connect(&ConnectParams::default()).expect("asked");
    expect(&here, CmEventKind::Established);
    client.send(b"still there");
    assert!(client.wait().is_ok());
    server.kill();
    expect(&here, CmEventKind::Disconnected);
    active.disconnect().expect("ended on this side, too");
    assert_eq!(client.qp.state(), Ok(QpState::Error));
}

/// Runs a test of this file in a process of its own, and gives its output.
fn in_a_child(test: &str, environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env("IBV_TEST_CHILD", "1")
        .env("IBV_TEST_LIBRARY", manager().verbs().path())
        .envs(environment.iter().copied())
        .output()
        .expect("the child starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// The child of the test below.
#[test]
fn child_of_the_test_of_far_addresses() {
    if std::env::var_os("IBV_TEST_CHILD").is_none() {
        return;
    }
    let there = channel();
    let (_listener, at) = listen(&there, PortSpace::Tcp, 1);
    let here = channel();
    let id = CmId::create(&here, PortSpace::Tcp, 1).expect("an identifier");
    let far = "203.0.113.9:5".parse().expect("an address");
    id.resolve_address(None, far, RESOLVE).expect("asked");
    match expect(&here, CmEventKind::AddrError).result() {
        Err(CmError::Failed(error)) => assert_eq!(
            (error.call(), error.kind()),
            ("rdma_resolve_addr", ErrorKind::Unreachable)
        ),
        other => panic!("{other:?}"),
    }
    assert!(id.resolve_route(RESOLVE).is_err());
    // Another address may be tried.
    id.resolve_address(None, at, RESOLVE).expect("asked");
    expect(&here, CmEventKind::AddrResolved);
}

/// The adapter of one host reaches no other one.
#[test]
fn an_address_that_is_not_reached_is_told_in_an_event() {
    let environment = [("FERRIBAND_DEVICES", "ferri0")];
    in_a_child("child_of_the_test_of_far_addresses", &environment);
}

/// The child of the test below.
#[test]
fn child_of_the_test_of_the_systems_manager() {
    if std::env::var_os("IBV_TEST_CHILD").is_none() {
        return;
    }
    let choice = Choice::from_env().expect("a good value");
    let loaded = Verbs::load(&choice).and_then(Cm::load);
    let cm = match loaded {
        Ok(cm) => cm,
        Err(error) => return println!("manager: none {error}"),
    };
    println!("manager: {}", cm.path().display());
    match CmChannel::create(cm) {
        Ok(channel) => {
            // The kernel's connection manager offers TCP, and no SDP.
            CmId::create(&channel, PortSpace::Tcp, 1).expect("an identifier");
            let sdp = CmId::create(&channel, PortSpace::Sdp, 1).expect_err("not offered");
            assert_eq!(sdp.kind(), ErrorKind::Invalid);
        }
        // Without its device.
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::DeviceGone | ErrorKind::NotAllowed),
            "{error}"
        ),
    }
}

#[test]
fn the_systems_manager_goes_with_the_systems_verbs() {
    let ours = library_dir().to_str().expect("text");
    let said = in_a_child(
        "child_of_the_test_of_the_systems_manager",
        &[("FERRIBAND_VERBS", "system"), ("LD_LIBRARY_PATH", ours)],
    );
    let (_, manager) = said.split_once("manager: ").expect("the child's answer");
    // Without the system's packages there is none, and that is said.
    assert!(!manager.starts_with(ours), "{manager}");
}
