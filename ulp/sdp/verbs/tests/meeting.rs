//! Two sides meet by the connection manager of Ferriband's own library: in one process, in two on
//! shared memory and in packets, which Wireshark reads.

mod common;

use common::{PATIENCE, both_ways, library, until, verbs};
use ferriband_ibv::{Access, Mr, Qp, QpInit, QpType, Region, RejectReason};
use ferriband_ibv::{Cm, CmChannel, CmError, CmEventKind, CmId, ConnectParams, Cq, Pd, PortSpace};
use ferriband_sdp_proto::connection::Config;
use ferriband_sdp_verbs::{Event, Failed, FlowKind, Key, Manager, Received, Stream};
use ferriband_sdp_wire::{Hello, HelloAck, Mid, Refusal};
use ferriband_testkit::{ferriband, place, port_is_to_be_had};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const FLOWS: [FlowKind; 3] = [FlowKind::Credit, FlowKind::Ring, FlowKind::Nic];

fn cm() -> &'static Cm {
    static CM: OnceLock<&Cm> = OnceLock::new();
    CM.get_or_init(|| Cm::load(verbs()).expect("the connection manager beside it"))
}

fn manager() -> Manager {
    Manager::new(cm()).expect("a manager")
}

/// Beside a library that has no port space of SDP's.
fn short() -> Manager {
    Manager::without_sdp(cm()).expect("a manager")
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn next(manager: &mut Manager) -> Event {
    until(|| manager.next_event().expect("a channel"))
}

/// A stream between two managers, by the flow control that the first asks for.
fn meet(here: &mut Manager, there: &mut Manager, flow: FlowKind) -> [(Key, Stream); 2] {
    meet_with(here, there, [flow.config(8, 4096); 2])
}

fn meet_with(
    here: &mut Manager,
    there: &mut Manager,
    [asks, accepts]: [Config; 2],
) -> [(Key, Stream); 2] {
    let listener = there.listen(anywhere(), 4).expect("it listens");
    let to = listener.address().expect("it is bound");
    let asked = here.ask(None, to, asks).expect("asked");
    // both have steps to take
    let request = until(|| {
        assert!(here.next_event().expect("a channel").is_none());
        there.next_event().expect("a channel")
    });
    let Event::Asked(request) = request else {
        panic!("no request")
    };
    assert_eq!((request.listener, request.to), (listener.key(), to));
    assert_eq!(request.flow().config(8, 4096).receives(), asks.receives());
    let (accepted, server) = there.accept(request, accepts).expect("accepted");
    let Event::Stands(key, client) = next(here) else {
        panic!("no connection")
    };
    assert_eq!(key, asked);
    let Event::Established(key) = next(there) else {
        panic!("not established")
    };
    assert_eq!(key, accepted);
    [(asked, *client), (accepted, server)]
}

#[test]
fn each_flow_control_is_asked_for_in_both_forms() {
    for make in [manager, short] {
        for flow in FLOWS {
            let (mut here, mut there) = (make(), make());
            let [(_, mut one), (key, mut other)] = meet(&mut here, &mut there, flow);
            std::thread::scope(|scope| {
                scope.spawn(|| both_ways(&mut one, 0, 200_000, 5000));
                scope.spawn(|| both_ways(&mut other, 1, 200_000, 5000));
            });
            // both streams have ended: the connection goes with the first side that leaves
            one.leave();
            let Event::Ended(ended) = next(&mut there) else {
                panic!("no end")
            };
            assert_eq!(ended, key);
            other.end().expect("it is told");
            let end = other.receive(&mut [0; 10]).expect("all was read");
            assert_eq!(end, Received::End);
        }
    }
}

#[test]
fn who_aborts_and_who_is_gone_is_heard_of_with_what_came_before() {
    for flow in FLOWS {
        for aborts in [true, false] {
            let (mut here, mut there) = (manager(), manager());
            let [(_, mut one), (key, mut other)] = meet(&mut here, &mut there, flow);
            assert_eq!(one.send(b"before", false).expect("it is open"), 6);
            let mut buffer = [0; 10];
            let mut receive = |other: &mut Stream| match other.receive(&mut buffer) {
                Ok(Received::Nothing) => None,
                other => Some(other),
            };
            let first = until(|| {
                one.progress().expect("it is open");
                receive(&mut other)
            });
            assert_eq!(first.expect("it is open"), Received::Bytes(6));
            if aborts {
                one.abort().expect("it is open");
                let told = until(|| {
                    let _ = one.progress();
                    receive(&mut other)
                });
                let told = told.expect_err("an end").to_string();
                assert_eq!(told, "the peer has aborted the connection");
                continue;
            }
            // as when its process dies: nobody says DisConn
            drop(one);
            let Event::Ended(ended) = next(&mut there) else {
                panic!("no end")
            };
            assert_eq!(ended, key);
            other.end().expect("it is told");
            let told = other
                .receive(&mut [0; 10])
                .expect_err("no end of the stream");
            assert_eq!(told.to_string(), "the transport has failed");
        }
    }
}

/// Zero copy in *nic* goes by a second queue pair, which the manager knows nothing of. A side whose
/// peer has none offers nothing.
#[test]
fn a_second_queue_pair_is_met_if_both_sides_have_one() {
    let nic = FlowKind::Nic;
    let (with, without) = (nic.config_with_offers(8, 4096), nic.config(8, 4096));
    for make in [manager, short] {
        for configs in [[with, with], [with, without], [without, with]] {
            let (mut here, mut there) = (make(), make());
            let [(_, one), (_, other)] = meet_with(&mut here, &mut there, configs);
            let mut sides = [one, other];
            assert_eq!(
                sides.each_ref().map(|side| side.machine().may_offer()),
                [configs == [with, with]; 2]
            );
            if configs != [with, with] {
                continue;
            }
            for from in [0, 1] {
                offer_and_fetch(&mut sides, from);
            }
        }
    }
}

/// One side offers, the other fetches all of it.
fn offer_and_fetch(sides: &mut [Stream; 2], from: usize) {
    const LENGTH: u32 = 100_000;
    let memory = |stream: &Stream| {
        let region = Region::create(c"test", LENGTH as usize).expect("memory");
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        Mr::register(stream.pd(), &region, access).expect("registered")
    };
    let (source, sink) = (memory(&sides[from]), memory(&sides[1 - from]));
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at / 7) as u8).collect();
    let region = source.region().expect("our own");
    region.write(0, &bytes).expect("inside");
    sides[from].offer(&source, 0, LENGTH).expect("an offer");
    let to = &mut sides[1 - from];
    until(|| {
        to.progress().expect("it is open");
        to.fetchable()
    });
    to.fetch(&sink, 0, LENGTH).expect("fetchable");
    let fetched = until(|| to.take_fetched().expect("it is open"));
    assert_eq!(fetched, LENGTH);
    let read = until(|| {
        sides[1 - from].progress().expect("it is open");
        sides[from].take_offer().expect("it is open")
    });
    assert_eq!(read, LENGTH);
    let mut copy = vec![0; LENGTH as usize];
    let region = sink.region().expect("our own");
    region.read(0, &mut copy).expect("inside");
    assert!(copy == bytes);
    let counted = sides[1 - from].machine().stats().bytes_fetched;
    assert_eq!(counted, u64::from(LENGTH));
}

fn failed(here: &mut Manager, there: Option<&mut Manager>, why: Option<Refusal>) -> Failed {
    let mut there = there;
    let failed = until(|| {
        if let Some(there) = &mut there
            && let Some(Event::Asked(request)) = there.next_event().expect("a channel")
        {
            request.refuse(why.expect("it is to be refused"));
        }
        here.next_event().expect("a channel")
    });
    let Event::Failed(_, failed) = failed else {
        panic!("it has not failed")
    };
    failed
}

#[test]
fn a_refusal_says_why() {
    for make in [manager, short] {
        let (mut here, mut there) = (make(), make());
        let listener = there.listen(anywhere(), 4).expect("it listens");
        let to = listener.address().expect("it is bound");
        let config = FlowKind::Nic.config(8, 4096);
        for why in Refusal::ALL {
            here.ask(None, to, config).expect("asked");
            let failed = failed(&mut here, Some(&mut there), Some(*why));
            assert!(matches!(failed, Failed::Refused(told) if told == *why));
        }
        drop(listener);
        here.ask(None, to, config).expect("asked");
        let failed = failed(&mut here, None, None);
        let nobody = CmError::Rejected(RejectReason::NobodyListens);
        assert!(matches!(failed, Failed::Manager(told) if told == nobody));
    }
}

/// A request with bytes of a stranger's, and what became of it.
struct Stranger {
    channel: Arc<CmChannel>,
}

impl Stranger {
    fn new() -> Stranger {
        let channel = CmChannel::create(cm()).expect("a channel");
        Stranger { channel }
    }

    fn expect(&self, kind: CmEventKind) -> ferriband_ibv::CmEvent {
        let event = self.channel.wait_event(PATIENCE).expect("a channel");
        let event = event.expect("an event");
        assert_eq!(event.kind(), kind, "{:?}", event.result());
        event
    }

    /// Asks; what the other side answers is an event of the channel.
    fn ask(&self, space: PortSpace, to: SocketAddr, bytes: &[u8]) -> (Arc<CmId>, Arc<Qp>) {
        let id = CmId::create(&self.channel, space, 1).expect("an identifier");
        let second = Duration::from_secs(1);
        id.resolve_address(None, to, second).expect("asked");
        self.expect(CmEventKind::AddrResolved);
        id.resolve_route(second).expect("asked");
        self.expect(CmEventKind::RouteResolved);
        let context = id.context().expect("no failure").expect("a device");
        let pd = Pd::alloc(&context).expect("a domain");
        let cq = Cq::create(&context, 4, None, 0).expect("a queue");
        let init = QpInit::new(QpType::Rc, &cq, &cq);
        let qp = id.create_qp(&pd, &init).expect("a queue pair");
        let asked = ConnectParams {
            private_data: bytes,
            ..ConnectParams::default()
        };
        id.connect(&asked).expect("asked");
        (id, qp)
    }
}

/// A Hello, and the value of one byte that makes the other side refuse it for this reason.
const HOSTILE: [(usize, u8, Refusal); 5] = [
    (16, 0x33, Refusal::Version),
    (19, 0, Refusal::Numbers),  // MaxAdverts
    (3, 2, Refusal::Numbers),   // two receives, which are reserved
    (11, 1, Refusal::Numbers),  // not the first message
    (27, 16, Refusal::Numbers), // receives of 16 bytes
];

/// Of credits: 8 receives of 256 + 16 bytes.
fn good_hello() -> [u8; Hello::LEN] {
    let mut hello = [0; Hello::LEN];
    hello[3] = 8;
    hello[7] = Hello::LEN as u8;
    (hello[16], hello[17], hello[19]) = (0x22, 0x40, 1);
    hello[22..24].copy_from_slice(&[1, 16]);
    hello[26..28].copy_from_slice(&[1, 16]);
    hello
}

#[test]
fn bytes_that_are_no_hello_or_cannot_be_are_refused() {
    let mut there = manager();
    let listener = there.listen(anywhere(), 4).expect("it listens");
    let to = listener.address().expect("it is bound");
    let mut refused = |space, bytes: &[u8], why| {
        let stranger = Stranger::new();
        let asked = stranger.ask(space, to, bytes);
        let told = until(|| {
            let event = there.next_event().expect("a channel");
            assert!(event.is_none(), "nobody is told of it");
            stranger.channel.next_event().expect("a channel")
        });
        assert_eq!(told.kind(), CmEventKind::Rejected);
        assert_eq!(Refusal::parse(told.private_data()), Some(why));
        drop(asked);
    };
    for (at, value, why) in HOSTILE {
        let mut hello = good_hello();
        // the low byte of the receive size alone is changed there
        if at == 27 {
            hello[26] = 0;
        }
        hello[at] = value;
        refused(PortSpace::Sdp, &hello, why);
    }
    // the other form, none at all, another message, bytes without a meaning
    let short = PortSpace::Tcp.connect_room();
    refused(PortSpace::Tcp, &good_hello()[..short], Refusal::NoHello);
    refused(PortSpace::Tcp, &[], Refusal::NoHello);
    let mut state = common::Bytes(11);
    for _ in 0..100 {
        let bytes: Vec<u8> = (0..short).map(|_| state.next()).collect();
        refused(PortSpace::Tcp, &bytes, Refusal::NoHello);
    }
    let mut after = manager();
    drop(listener);
    // who was refused a hundred times over has left nothing behind
    meet(&mut after, &mut there, FlowKind::Nic);
}

#[test]
fn a_stranger_that_speaks_the_standard_alone_gets_credits() {
    let mut there = manager();
    let listener = there.listen(anywhere(), 4).expect("it listens");
    let to = listener.address().expect("it is bound");
    let stranger = Stranger::new();
    let _asked = stranger.ask(PortSpace::Sdp, to, &good_hello());
    let Event::Asked(request) = next(&mut there) else {
        panic!("no request")
    };
    assert_eq!(request.flow(), FlowKind::Credit);
    let config = FlowKind::Credit.config(8, 4096);
    let (_, _stream) = there.accept(request, config).expect("accepted");
    let told = stranger.expect(CmEventKind::Established);
    let ack = told.private_data();
    assert_eq!((ack[0], ack[16], ack[19]), (Mid::HelloAck.code(), 0x22, 1));
    assert!(ack[24..].iter().all(|byte| *byte == 0), "nothing private");
}

#[test]
fn an_acceptance_that_is_no_hello_ack_is_not_taken() {
    let channel = CmChannel::create(cm()).expect("a channel");
    let listener = CmId::create(&channel, PortSpace::Sdp, 1).expect("an identifier");
    listener.bind(anywhere()).expect("bound");
    listener.listen(4).expect("it listens");
    let to = listener.local_address().expect("it is bound");
    // HelloAck of credits, where nic was asked for; and no HelloAck
    let mut credits = [0; HelloAck::LEN];
    (credits[0], credits[3], credits[7]) = (1, 8, HelloAck::LEN as u8);
    (credits[16], credits[19], credits[22]) = (0x22, 1, 1);
    let mut zero = credits;
    zero[19] = 0;
    for answer in [&[][..], &[0xff; 196], &good_hello(), &zero, &credits] {
        let mut here = manager();
        here.ask(None, to, FlowKind::Nic.config(8, 4096))
            .expect("asked");
        let request = until(|| {
            assert!(here.next_event().expect("a channel").is_none());
            let event = channel.next_event().expect("a channel")?;
            (event.kind() == CmEventKind::ConnectRequest).then_some(event)
        });
        let mut request = request;
        let id = request.take_request().expect("a request");
        let context = id.context().expect("no failure").expect("a device");
        let pd = Pd::alloc(&context).expect("a domain");
        let cq = Cq::create(&context, 4, None, 0).expect("a queue");
        let init = QpInit::new(QpType::Rc, &cq, &cq);
        let _qp = id.create_qp(&pd, &init).expect("a queue pair");
        let granted = ConnectParams {
            private_data: answer,
            ..ConnectParams::default()
        };
        id.accept(&granted).expect("accepted");
        let Event::Failed(_, why) = next(&mut here) else {
            panic!("taken: {answer:?}")
        };
        let here = matches!(why, Failed::Acknowledged(_) | Failed::Here(_));
        assert!(here, "{why}");
    }
}

/// The child of the tests below: accepts a connection of each flow control, one after another.
#[test]
fn child_of_the_test_of_two_processes() {
    if std::env::var_os("SDP_TEST_CHILD").is_none() {
        return;
    }
    let mut there = manager();
    let listener = there.listen(anywhere(), 4).expect("it listens");
    println!("port {}", listener.address().expect("bound").port());
    for _ in FLOWS {
        let Event::Asked(request) = next(&mut there) else {
            panic!("no request")
        };
        let config = request.flow().config(8, 4096);
        let (_, mut stream) = there.accept(request, config).expect("accepted");
        both_ways(&mut stream, 1, 100_000, 3000);
        while !matches!(next(&mut there), Event::Ended(_)) {}
    }
}

/// The other half, in a process that has the device alone.
#[test]
fn parent_of_the_test_of_two_processes() {
    if std::env::var_os("SDP_TEST_PARENT").is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_of_the_test_of_two_processes"])
        .args(["--nocapture"])
        .env("SDP_TEST_CHILD", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let port = lines.find_map(|line| {
        let line = line.expect("a line");
        let (_, port) = line.split_once("port ")?;
        port.trim().parse::<u16>().ok()
    });
    let to = SocketAddr::from(([127, 0, 0, 1], port.expect("the child says its port")));
    let mut here = manager();
    for flow in FLOWS {
        here.ask(None, to, flow.config(8, 4096)).expect("asked");
        let mut stream = match next(&mut here) {
            Event::Stands(_, stream) => stream,
            Event::Failed(_, why) => panic!("{flow:?}: {why}"),
            _ => panic!("{flow:?}: no connection"),
        };
        both_ways(&mut stream, 0, 100_000, 3000);
        stream.leave();
    }
    let status = child.wait().expect("our child");
    assert!(status.success(), "{status}");
}

/// Runs the two processes, with another program before the first.
fn run_over(device: &str, wire: &str, before: &[&str]) {
    let own = std::env::current_exe().expect("this program");
    let own = own.to_str().expect("a path in UTF-8");
    let line = [
        before,
        &[own, "--exact", "parent_of_the_test_of_two_processes"],
    ]
    .concat();
    let output = Command::new(line[0])
        .args(&line[1..])
        .env("SDP_TEST_PARENT", "1")
        .env("SDP_TEST_LIBRARY", library())
        .env("FERRIBAND_DEVICES", device)
        .env("FERRIBAND_WIRE", wire)
        .output()
        .expect("this program");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let done = output.status.success() && said.contains("1 passed");
    assert!(done, "{device}, {wire}: {}: {said}{errors}", output.status);
}

#[test]
fn two_processes_meet_on_shared_memory() {
    run_over("ferri0", "direct", &[]);
}

#[test]
fn two_processes_meet_in_packets() {
    if port_is_to_be_had() {
        run_over("ferri_lo", "roce", &[]);
    }
}

fn tshark(file: &Path, arguments: &[&str]) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(arguments)
        .output()
        .expect("tshark runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn wireshark_reads_hello_and_hello_ack_of_a_capture() {
    let has_tshark = Command::new("tshark").arg("--version").output().is_ok();
    if !has_tshark {
        eprintln!("SKIP: tshark is not installed (apt-get install tshark)");
        return;
    }
    if !port_is_to_be_had() {
        return;
    }
    let name = format!("meeting-{}.pcapng", std::process::id());
    let file = place!().out(&name);
    let ferriband = ferriband();
    let path = file.to_str().expect("a path in UTF-8");
    run_over(
        "ferri_lo",
        "roce",
        &[&ferriband, "dump", "-w", path, "--buffer", "32", "--"],
    );
    // The second pass knows from the start that the connection is SDP's. Messages are SENDs; what
    // else it takes for messages are bytes of the stream.
    let messages = "infiniband.bth.opcode == 0x04 || infiniband.bth.opcode == 0x64";
    let text = tshark(&file, &["-2", "-V", "-Y", messages]);
    let fields = |filter: &str, names: &[&str]| {
        let names: Vec<String> = names
            .iter()
            .map(|name| format!("infiniband_sdp.{name}"))
            .collect();
        let mut arguments = vec!["-2", "-T", "fields", "-E", "separator=|", "-Y", filter];
        arguments.extend(names.iter().flat_map(|name| ["-e", name.as_str()]));
        tshark(&file, &arguments)
    };
    let shown = ["bsdh.mid", "hh.maxadverts", "hh.localrcvsz", "hh.src_ip"];
    let requests = "infiniband.mad.mgmtclass == 0x07 && infiniband.mad.attributeid == 0x0010";
    let hellos = fields(requests, &shown);
    let bad = format!("({messages}) && (_ws.malformed || _ws.expert.severity == \"Error\")");
    let complaints = fields(&bad, &["bsdh.mid", "bsdh.len"]);
    let _ = std::fs::remove_file(&file);
    // this Wireshark looks for data in a message that only gives credits, and finds none
    for line in complaints.lines() {
        let credits = ["255|16", "0xff|16"].contains(&line);
        assert!(credits, "malformed: {line} in {complaints}");
    }
    for mid in [Mid::Hello, Mid::HelloAck, Mid::DisConn] {
        let name = format!("MID: {mid} ({:#04x})", mid.code());
        let times = text.matches(&name).count();
        assert!(times >= FLOWS.len(), "{name}: {times}");
    }
    assert!(hellos.lines().count() >= FLOWS.len(), "{hellos}");
    for hello in hellos.lines() {
        let fields: Vec<&str> = hello.split('|').collect();
        assert!(["1", "0x01"].contains(&fields[1]), "{hello}");
        assert!(["64", "4112"].contains(&fields[2]), "{hello}");
        assert!(
            fields[3].ends_with("7f00:1") || fields[3].ends_with("127.0.0.1"),
            "{hello}"
        );
    }
}
