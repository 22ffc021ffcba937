//! Processes that share the port of RoCEv2 and have different devices, or other wires between them:
//! whoever asks the connection manager of this host is answered, whichever of them gets the
//! question, and however they come and go.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::PATIENCE;
use common::process::{self, Channel, Child};
use ferriband_hca::Engine;
use ferriband_hca::cm::{CmChannel, ConnWish, News, NewsKind};
use ferriband_memory::host::Host;
use ferriband_transport::types::QpType;
use ferriband_wire::fault::{Action, OpcodeSet, Rule};

const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;
/// The reason of a REJ, and the status of a SIDR_REP, where nobody listens.
const NO_SERVICE: i32 = 8;
const NO_DATAGRAM_SERVICE: i32 = 1;

#[test]
fn child_entry() {
    process::run_role(&[
        ("listen", listen_role),
        ("accept", accept_role),
        ("exit", exit_role),
        ("close", close_role),
    ]);
}

fn wish(qp_num: u32) -> ConnWish<'static> {
    ConnWish {
        qp_num,
        qkey: 0,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: false,
        enhanced: Default::default(),
        private_data: &[],
    }
}

fn qp_type(space: u16) -> QpType {
    match space {
        UDP => QpType::Ud,
        _ => QpType::Rc,
    }
}

/// Listens at an address of this host; gives the identifier and its port.
fn listening(engine: &Engine, events: &Arc<CmChannel>, at: &str, space: u16) -> (u32, u16) {
    let cm = engine.cm();
    let at: SocketAddr = at.parse().unwrap();
    let id = cm.create_id(events, 1, space, qp_type(space)).unwrap();
    cm.bind(engine, id, at).unwrap();
    cm.listen(engine, id, 8).unwrap();
    let port = cm.query(engine, id).unwrap().src.unwrap().port();
    (id, port)
}

/// Listens for connections and datagrams, at localhost and at every address, says on which ports,
/// and does nothing until it is told to end; then says whether anybody asked.
fn listen_role(channel: Channel) {
    let engine = Engine::get().unwrap();
    let events = CmChannel::open().unwrap();
    let ports: Vec<u64> = ["127.0.0.1:0", "0.0.0.0:0"]
        .into_iter()
        .flat_map(|at| [TCP, UDP].map(|space| listening(&engine, &events, at, space).1.into()))
        .collect();
    channel.send(&ports);
    channel.recv();
    channel.send(&[u64::from(has_event(&events, Duration::ZERO))]);
}

/// Listens, accepts one connection, ends it when its peer does, and waits for its own end.
fn accept_role(channel: Channel) {
    let engine = Engine::get().unwrap();
    let (cm, events) = (engine.cm(), CmChannel::open().unwrap());
    let (_, port) = listening(&engine, &events, "127.0.0.1:0", TCP);
    channel.send(&[port.into()]);
    let request = next(&events, NewsKind::ConnectRequest);
    cm.accept(&engine, request.id, 1, &wish(0x5001)).unwrap();
    next(&events, NewsKind::Established);
    channel.send(&[1]);
    next(&events, NewsKind::Disconnected);
    cm.disconnect(&engine, request.id).unwrap();
    channel.send(&[2]);
    channel.recv();
}

/// Connects to the port that it is told, and ends the connection when it is told to, and itself at
/// once, with its devices open.
fn exit_role(channel: Channel) {
    std::mem::forget(end_connection(&channel));
    std::process::exit(0);
}

/// Likewise, but closes its devices first.
fn close_role(channel: Channel) {
    end_connection(&channel);
}

fn end_connection(channel: &Channel) -> Client {
    let mut client = Client::new();
    let id = client.ask(TCP, channel.recv()[0] as u16);
    next(&client.events, NewsKind::ConnectResponse);
    client.engine.cm().ready(&client.engine, id).unwrap();
    channel.send(&[1]);
    channel.recv();
    client.engine.cm().disconnect(&client.engine, id).unwrap();
    client
}

fn has_event(channel: &Arc<CmChannel>, patience: Duration) -> bool {
    let mut ready = libc::pollfd {
        fd: channel.events.fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which is ours.
    unsafe { libc::poll(&mut ready, 1, patience.as_millis() as i32) == 1 }
}

#[track_caller]
fn next(channel: &Arc<CmChannel>, kind: NewsKind) -> News {
    let begin = Instant::now();
    assert!(has_event(channel, PATIENCE), "waited in vain for {kind:?}");
    let news = channel.next_event().unwrap();
    assert_eq!(news.kind, kind, "{news:?} after {:?}", begin.elapsed());
    news
}

/// One that asks: this process, which has the loopback interface's device alone and sends packets
/// to everybody.
struct Client {
    engine: Arc<Engine>,
    events: Arc<CmChannel>,
    last_qpn: u32,
}

impl Client {
    fn new() -> Self {
        Client {
            engine: Engine::get().unwrap(),
            events: CmChannel::open().unwrap(),
            last_qpn: 0x6000,
        }
    }

    fn ask(&mut self, space: u16, port: u16) -> u32 {
        let (engine, cm) = (&self.engine, self.engine.cm());
        let id = cm
            .create_id(&self.events, 2, space, qp_type(space))
            .unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        cm.resolve_addr(engine, id, None, to).unwrap();
        next(&self.events, NewsKind::AddrResolved);
        cm.resolve_route(engine, id, PATIENCE).unwrap();
        next(&self.events, NewsKind::RouteResolved);
        self.last_qpn += 1;
        cm.connect(engine, id, &wish(self.last_qpn)).unwrap();
        id
    }

    /// Whoever asks at this port is told that nobody listens.
    #[track_caller]
    fn refused(&mut self, space: u16, port: u16) {
        let id = self.ask(space, port);
        let (kind, status) = match space {
            UDP => (NewsKind::Unreachable, NO_DATAGRAM_SERVICE),
            _ => (NewsKind::Rejected, NO_SERVICE),
        };
        assert_eq!(next(&self.events, kind).status, status);
        self.engine.cm().destroy_id(&self.engine, id).unwrap();
    }

    /// A port on which nobody listens, at once after somebody did.
    fn free_port(&self, space: u16) -> u16 {
        let (id, port) = listening(&self.engine, &self.events, "127.0.0.1:0", space);
        self.engine.cm().destroy_id(&self.engine, id).unwrap();
        port
    }

    #[track_caller]
    fn refused_where_nobody_listens(&mut self) {
        for space in [TCP, UDP] {
            let port = self.free_port(space);
            self.refused(space, port);
        }
    }

    /// A connection to a process like this one begins and ends.
    #[track_caller]
    fn connects(&mut self) {
        let server = Child::spawn("accept");
        let id = self.ask(TCP, server.channel.recv()[0] as u16);
        let cm = self.engine.cm();
        next(&self.events, NewsKind::ConnectResponse);
        cm.ready(&self.engine, id).unwrap();
        assert_eq!(server.channel.recv(), [1]);
        cm.disconnect(&self.engine, id).unwrap();
        next(&self.events, NewsKind::Disconnected);
        cm.destroy_id(&self.engine, id).unwrap();
        server.channel.send(&[0]);
    }
}

/// Adds an interface that is not the loopback's, with a link and an address. False, said aloud,
/// where that cannot be.
fn other_interface(name: &str) -> bool {
    let made = Command::new("sh")
        .args([
            "-c",
            "ip link add ferrib0 type veth peer name ferrib1 && ip addr add 10.77.0.1/24 dev ferrib0 && \
             ip link set ferrib0 up && ip link set ferrib1 up",
        ])
        .output()
        .unwrap();
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        eprintln!("SKIPPED {name}: no second interface: {why}");
    }
    made.status.success()
}

/// What the processes beside the one that asks have: the wire that nobody chose, and no device of
/// the loopback interface. The second is not on the port at all.
const OTHERS: [Option<&str>; 3] = [None, Some("ferri0"), Some("ferri_ferrib0")];

fn listener(devices: Option<&str>) -> (Child, Vec<u64>) {
    let settings = [("FERRIBAND_DEVICES", devices), ("FERRIBAND_WIRE", None)];
    let child = Child::spawn_with("listen", &settings);
    let ports = child.channel.recv();
    (child, ports)
}

on_packets!(who_has_other_devices_answers_for_the_host, {
    if !other_interface("who_has_other_devices_answers_for_the_host") {
        return;
    }
    for devices in OTHERS {
        eprintln!("beside a process that has {devices:?}");
        // it comes first, and the one that asks after it; the next ones come later
        let (child, ports) = listener(devices);
        let mut client = Client::new();
        client.refused_where_nobody_listens();
        // the services of a process are there on its own devices
        for (port, space) in ports.iter().zip([TCP, UDP, TCP, UDP]) {
            client.refused(space, *port as u16);
        }
        client.connects();
        child.channel.send(&[0]);
        assert_eq!(child.channel.recv(), [0], "nobody asked it");
    }
});

on_packets!(those_with_other_devices_come_and_go_in_any_order, {
    if !other_interface("those_with_other_devices_come_and_go_in_any_order") {
        return;
    }
    let mut client = Client::new();
    client.refused_where_nobody_listens();
    let mut first: Vec<Child> = OTHERS.map(|devices| listener(devices).0).into();
    client.refused_where_nobody_listens();
    // one of the middle dies, and one comes into its place
    first.remove(2).kill();
    client.refused_where_nobody_listens();
    let (last, _) = listener(OTHERS[2]);
    client.connects();
    first.remove(0).channel.send(&[0]);
    client.refused_where_nobody_listens();
    last.channel.send(&[0]);
    client.refused_where_nobody_listens();
    client.connects();
});

on_packets!(the_end_of_a_connection_with_the_dead_is_answered, {
    let mut client = Client::new();
    let mut server = Child::spawn("accept");
    let id = client.ask(TCP, server.channel.recv()[0] as u16);
    let cm = client.engine.cm();
    next(&client.events, NewsKind::ConnectResponse);
    cm.ready(&client.engine, id).unwrap();
    assert_eq!(server.channel.recv(), [1]);
    server.kill();
    // whoever is on the port says for the dead that the connection is none any more
    cm.disconnect(&client.engine, id).unwrap();
    next(&client.events, NewsKind::Disconnected);
});

on_packets!(
    an_end_whose_packets_are_lost_is_heard_after_its_authors_end,
    {
        let host = Host::join(Default::default()).unwrap();
        for role in ["exit", "close"] {
            let (server, client) = (Child::spawn("accept"), Child::spawn(role));
            client.channel.send(&server.channel.recv());
            assert_eq!(server.channel.recv(), [1]);
            client.channel.recv();
            let mut rule = Rule::new(Action::Drop);
            rule.opcodes = OpcodeSet::parse("ud-send-only").unwrap();
            rule.count = 3;
            let rule = host.fault_add_own(&rule.to_words()).unwrap();
            client.channel.send(&[0]);
            assert_eq!(server.channel.recv(), [2], "{role}");
            assert_eq!(host.fault_hits(rule), 3);
            assert!(host.fault_remove(rule));
            server.channel.send(&[0]);
        }
    }
);
