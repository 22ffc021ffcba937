//! The process of a live fabric: one thread that waits for those who are attached, and for time.
//!
//! Owns the connections and who is behind each. What packets do is the fabric's business.

use super::deputy;
use super::joins::Joins;
use super::keys;
use super::manager::Own;
use super::tell;
use crate::args::{FabricUpArgs, ManagerChoice};
use crate::failure::Failure;
use ferriband_attach::ask::{
    self, Adapter, AdapterPort, Answer, Ask, Attached, HostLine, Registration, Status,
};
use ferriband_attach::{AttachError, Link, Listener, Piece, address, mad, packet, pieces, tap};
use ferriband_fabric::Time;
use ferriband_fabric::interface::{AgentId, Delivery, Far, Refused, Wanted};
use ferriband_fabric::live::{Fabric, state_name};
use ferriband_fabric::manage::Place;
use ferriband_subnet::manager::Config;
use ferriband_subnet::routing::{Engine, Options};
use ferriband_topology::{NodeId, NodeKind, PortId, Speed, Topology, Width};
use ferriband_wire::attributes::PortState;
use ferriband_wire::mad::ManagementClass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Those who may be attached.
const MOST_CLIENTS: usize = 4096;
/// Bytes that may wait for somebody who does not take them: what comes then is lost to him, as on a link.
const MOST_WAITING: usize = 64 << 20;
/// How long the end waits for those who have not taken what is for them.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Agents of a connection, as many as libibumad has room for.
const MOST_AGENTS: usize = 32;
/// Pieces of messages that are taken from a connection before the next one's turn comes.
const TURN: usize = 64;
/// Bytes of room that is kept for the next message of a connection.
const MOST_KEPT: usize = 128 << 10;
/// Pieces that go to a connection by one call.
const BATCH: usize = 64;

/// What somebody does by his connection.
#[derive(Debug)]
enum Role {
    /// Asks.
    Asks,
    /// Sends and gets management packets at a place; by his numbers, the agents.
    Mads(Place, Vec<Option<AgentId>>),
    /// Sends and gets data packets at a place.
    Packets(Place),
    /// Is in a multicast group.
    InGroup,
    /// Looks at the cable of a port; so many packets were lost to him since the last that he got.
    Looks(PortId, usize, u32),
}

/// Somebody who is attached.
#[derive(Debug)]
struct Client {
    link: Link,
    pid: u32,
    role: Role,
    /// A message whose end has not come.
    coming: Vec<u8>,
    going: VecDeque<Vec<u8>>,
    going_bytes: usize,
    /// Data packets that go together.
    packets: Vec<u8>,
    /// He gets what waits, and that is the end.
    last: bool,
    gone: bool,
}

impl Client {
    fn send(&mut self, message: &[u8]) {
        self.send_later(message);
        self.flush();
    }

    /// The same with the next ones, by [`Self::flush`].
    fn send_later(&mut self, message: &[u8]) {
        for piece in pieces(message) {
            self.going_bytes += piece.len();
            self.going.push_back(piece);
        }
    }

    fn flush(&mut self) {
        while !self.going.is_empty() {
            let pieces = self.going.iter().take(BATCH).map(Vec::as_slice);
            match self.link.send_pieces(pieces) {
                Ok(went) => {
                    for piece in self.going.drain(..went) {
                        self.going_bytes -= piece.len();
                    }
                    if went == 0 {
                        return;
                    }
                }
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }
}

/// The process.
pub struct Server {
    name: String,
    source: String,
    begun: Instant,
    listener: Listener,
    fabric: Fabric,
    own: Option<Own>,
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    /// Who gets what comes for an agent, and his number for it.
    agents: BTreeMap<(Place, AgentId), (u64, u32)>,
    /// Who gets the packets of a place.
    takers: BTreeMap<Place, Vec<u64>>,
    /// Hosts in the order of the description: their number.
    numbers: BTreeMap<NodeId, u32>,
    joins: Joins,
    /// Those for whom something waits that was not tried to be sent.
    touched: Vec<u64>,
    /// Since somebody said that it is enough.
    down: Option<Instant>,
}

/// Why a wish is not granted.
fn refuse(why: impl Into<String>, errno: i32) -> Answer {
    Answer::Refused {
        why: why.into(),
        errno,
    }
}

impl Server {
    /// Takes the fabric's name, and puts its manager in its place.
    pub fn new(
        args: &FabricUpArgs,
        topology: Topology,
        engine: &Engine,
    ) -> Result<Server, Failure> {
        let listener = Listener::bind(&args.named.name).map_err(super::failed)?;
        let at = super::super::bring_up::manager_at(&topology, args.at.as_deref())?;
        let hosts = topology.ids_of(NodeKind::Ca);
        let numbers = hosts.zip(0..).collect();
        let mut fabric = Fabric::new(topology);
        let own = match args.manager {
            ManagerChoice::None => None,
            ManagerChoice::Ours => {
                let usual = Config::new(at.port, *engine);
                let mkey = match &args.keys {
                    Some(path) => keys::shared(path, usual.mkey_lease_s)?,
                    None => usual.mkey,
                };
                let config = Config {
                    lmc: args.lmc,
                    options: Options::default(),
                    mkey,
                    ..usual
                };
                Own::new(&mut fabric, at, config, args.priority)
            }
        };
        Ok(Server {
            name: args.named.name.clone(),
            source: args.fabric.clone(),
            begun: Instant::now(),
            listener,
            fabric,
            own,
            clients: BTreeMap::new(),
            next_client: 1,
            agents: BTreeMap::new(),
            takers: BTreeMap::new(),
            numbers,
            joins: Joins::default(),
            touched: Vec::new(),
            down: None,
        })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Until somebody says that it is enough.
    pub fn run(&mut self) -> Result<ExitCode, Failure> {
        tell(&format!(
            "fabric \"{}\" is there; end it with: ferriband fabric down --name {}",
            self.name, self.name
        ));
        let mut said = String::new();
        // those who do not take what waits for them are not waited for
        while self.down.is_none_or(|down| {
            down.elapsed() < LAST_WORDS
                && self.clients.values().any(|client| !client.going.is_empty())
        }) {
            self.settle();
            if let Some(own) = self.own.as_ref().filter(|own| own.says != said) {
                said.clone_from(&own.says);
                tell(&said);
            }
            self.wait()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Until nothing is left to do but wait.
    fn settle(&mut self) {
        loop {
            let now = self.now_ns();
            let due = self.fabric.poll_timeout();
            if due.is_some_and(|due| due <= Time::from_ns(now)) {
                self.fabric.handle_timeout(Time::from_ns(now));
            }
            if let Some(own) = &mut self.own {
                own.go_on(&mut self.fabric, now);
            }
            self.fabric.tell_capabilities(Time::from_ns(now));
            self.joins.look_after(&mut self.fabric, Time::from_ns(now));
            let mut any = false;
            while let Some((at, delivery)) = self.fabric.poll_deliver() {
                any = true;
                self.hand_over(now, at, &delivery);
            }
            if !any {
                break;
            }
        }
        self.show_links();
        // what came of one turn goes together
        for number in std::mem::take(&mut self.touched) {
            if let Some(client) = self.clients.get_mut(&number) {
                client.flush();
            }
        }
    }

    /// Gives what has passed links to those who look at them.
    fn show_links(&mut self) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time_ns = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let mut any = false;
        while let Some(tapped) = self.fabric.poll_tapped() {
            any = true;
            for client in self.clients.values_mut() {
                let Role::Looks(port, cable, lost) = &mut client.role else {
                    continue;
                };
                if *cable != tapped.cable {
                    continue;
                }
                if client.going_bytes + client.packets.len() > MOST_WAITING {
                    *lost += 1;
                    continue;
                }
                let shown = tap::Tapped {
                    time_ns,
                    lost: std::mem::take(lost),
                    out: *port == tapped.from,
                    bytes: &tapped.bytes,
                };
                tap::push(&mut client.packets, &shown);
            }
        }
        if any {
            self.send_packets();
        }
    }

    /// Cables that somebody looks at.
    fn renew_taps(&mut self) {
        let looks = self
            .clients
            .values()
            .filter_map(|client| match client.role {
                Role::Looks(_, cable, _) => Some(cable),
                _ => None,
            });
        let cables = looks.collect();
        self.fabric.set_taps(cables);
    }

    /// Gives a management packet to whom it is for.
    fn hand_over(&mut self, now: u64, at: Place, delivery: &Delivery) {
        if let Some(own) = &mut self.own
            && own.is_for(at, delivery.agent)
        {
            own.take(&mut self.fabric, now, delivery);
            return;
        }
        if self.joins.is_for(at, delivery.agent) {
            let now = Time::from_ns(now);
            if let Some((client, answer)) = self.joins.take(&mut self.fabric, now, delivery)
                && let Some(client) = self.clients.get_mut(&client)
            {
                client.send(&ask::emit(&answer));
            }
            return;
        }
        let Some((to, number)) = self.agents.get(&(at, delivery.agent)).copied() else {
            return;
        };
        let Some(client) = self.clients.get_mut(&to) else {
            return;
        };
        if client.going_bytes > MOST_WAITING {
            return;
        }
        let head = mad::MadHead {
            agent: number,
            status: if delivery.timed_out {
                libc::ETIMEDOUT as u32
            } else {
                0
            },
            length: (mad::HEAD_BYTES + delivery.bytes.len()) as u32,
            qpn: delivery.far.qpn,
            qkey: delivery.far.qkey,
            lid: delivery.far.lid,
            sl: delivery.far.sl,
            pkey_index: delivery.far.pkey_index,
            ..mad::MadHead::default()
        };
        client.send_later(&head.message(&delivery.bytes));
        self.touched.push(to);
    }

    /// Waits for somebody, or for time, and does what is asked.
    fn wait(&mut self) -> Result<(), Failure> {
        let due = self.fabric.poll_timeout().map(|due| due.0 / 1000);
        let own = self.own.as_ref().and_then(Own::due);
        let due = due.into_iter().chain(own).min();
        let left = due.map(|due| due.saturating_sub(self.now_ns()).saturating_add(1000));
        let left = match self.down {
            Some(_) => Some(left.unwrap_or(u64::MAX).min(10_000_000)),
            None => left,
        };
        let left = left.map(|left| Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        });
        let mut order = Vec::with_capacity(self.clients.len());
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for (number, client) in &self.clients {
            let mut wanted = PollFlags::IN;
            if !client.going.is_empty() {
                wanted |= PollFlags::OUT;
            }
            order.push(*number);
            fds.push(PollFd::from_borrowed_fd(client.link.as_fd(), wanted));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                return Err(Failure::io(
                    "wait for",
                    "those who are attached",
                    &errno.into(),
                ));
            }
        }
        let ready: Vec<PollFlags> = fds.iter().map(|fd| fd.revents()).collect();
        drop(fds);
        if !ready[0].is_empty() {
            self.accept();
        }
        for (number, ready) in order.into_iter().zip(&ready[1..]) {
            if ready.contains(PollFlags::OUT)
                && let Some(client) = self.clients.get_mut(&number)
            {
                client.flush();
            }
            if !(*ready - PollFlags::OUT).is_empty() {
                self.listen(number);
            }
            let over = self
                .clients
                .get(&number)
                .is_some_and(|client| client.gone || client.last && client.going.is_empty());
            if over {
                self.forget(number);
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        // for lack of descriptors the rest waits until somebody has gone
        while self.clients.len() < MOST_CLIENTS
            && let Ok(Some(link)) = self.listener.accept()
        {
            let client = Client {
                pid: link.peer(),
                link,
                role: Role::Asks,
                coming: Vec::new(),
                going: VecDeque::new(),
                going_bytes: 0,
                packets: Vec::new(),
                last: false,
                gone: false,
            };
            self.clients.insert(self.next_client, client);
            self.next_client += 1;
        }
    }

    /// Takes what somebody has sent.
    fn listen(&mut self, number: u64) {
        for _ in 0..TURN {
            let Some(client) = self.clients.get_mut(&number) else {
                return;
            };
            match client.link.receive_piece(&mut client.coming) {
                Ok(Piece::More) => {}
                Ok(Piece::Nothing) => break,
                Ok(Piece::Last) => {
                    let mut message = std::mem::take(&mut client.coming);
                    let taken = self.take(number, &message);
                    if let Some(client) = self.clients.get_mut(&number) {
                        if let Err(error) = taken {
                            client.send(&ask::emit(&refuse(error.to_string(), libc::EINVAL)));
                            client.gone = true;
                        }
                        if message.capacity() <= MOST_KEPT {
                            // its room serves the next one
                            message.clear();
                            client.coming = message;
                        }
                    }
                }
                Err(_) => client.gone = true,
            }
            if self.clients.get(&number).is_none_or(|client| client.gone) {
                break;
            }
        }
        self.send_packets();
    }

    fn take(&mut self, number: u64, message: &[u8]) -> Result<(), AttachError> {
        let Some(client) = self.clients.get(&number) else {
            return Ok(());
        };
        match &client.role {
            Role::Asks => {
                let ask: Ask = ask::parse(message)?;
                let Some(answer) = self.answer(number, ask) else {
                    return Ok(());
                };
                if let Some(client) = self.clients.get_mut(&number) {
                    client.send(&ask::emit(&answer));
                }
                Ok(())
            }
            Role::Mads(at, agents) => {
                let (head, bytes) = mad::parse(message)?;
                let agent = agents.get(head.agent as usize).copied().flatten();
                let (at, agent) = (*at, agent);
                self.send_mad(at, agent, &head, bytes);
                Ok(())
            }
            Role::Packets(at) => {
                let at = *at;
                self.take_packets(at, message)
            }
            Role::InGroup | Role::Looks(..) => {
                Err(AttachError::Malformed("nothing more is asked here"))
            }
        }
    }

    fn send_mad(&mut self, at: Place, agent: Option<AgentId>, head: &mad::MadHead, bytes: &[u8]) {
        let Some(agent) = agent else { return };
        let to = Far {
            lid: head.lid,
            qpn: head.qpn,
            qkey: head.qkey,
            sl: head.sl,
            pkey_index: head.pkey_index,
        };
        let now = Time::from_ns(self.now_ns());
        let timeout = Time::from_ns(u64::from(head.timeout_ms).saturating_mul(1_000_000));
        // a packet that is none is lost, as it would be on a link
        let _ = self
            .fabric
            .send(now, at, agent, to, bytes, timeout, head.retries.min(1000));
    }

    /// Carries the packets of an adapter.
    fn take_packets(&mut self, at: Place, message: &[u8]) -> Result<(), AttachError> {
        let mut ends = Vec::new();
        for bytes in packet::packets(message)? {
            let mut bytes = bytes.to_vec();
            ends.clear();
            self.fabric.send_packet(at, &mut bytes, &mut ends, |_| {});
            for end in &ends {
                if !self.give_packet(*end, &bytes)
                    && let Some(mut answer) = deputy::answer(&bytes)
                {
                    let mut back = Vec::new();
                    self.fabric
                        .send_packet(*end, &mut answer, &mut back, |_| {});
                    for end in back {
                        self.give_packet(end, &answer);
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts a packet with what goes to those who take packets at a place. False if there are none.
    fn give_packet(&mut self, at: Place, bytes: &[u8]) -> bool {
        let takers = self.takers.get(&at).map_or(&[][..], Vec::as_slice);
        for taker in takers {
            if let Some(client) = self.clients.get_mut(taker)
                && client.going_bytes <= MOST_WAITING
            {
                packet::push(&mut client.packets, bytes);
            }
        }
        !takers.is_empty()
    }

    /// Sends on what was put together.
    fn send_packets(&mut self) {
        for client in self.clients.values_mut() {
            if !client.packets.is_empty() {
                let message = std::mem::take(&mut client.packets);
                client.send(&message);
            }
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(client) = self.clients.remove(&number) else {
            return;
        };
        match client.role {
            Role::Asks => {}
            Role::Looks(..) => self.renew_taps(),
            Role::Mads(at, agents) => {
                for agent in agents.into_iter().flatten() {
                    self.agents.remove(&(at, agent));
                    self.fabric.unregister(at, agent);
                }
            }
            Role::Packets(at) => {
                if let Some(takers) = self.takers.get_mut(&at) {
                    takers.retain(|taker| *taker != number);
                }
            }
            Role::InGroup => {
                let now = Time::from_ns(self.now_ns());
                self.joins.leave(&mut self.fabric, now, number);
            }
        }
    }

    /// None: it comes later.
    fn answer(&mut self, number: u64, ask: Ask) -> Option<Answer> {
        Some(match ask {
            Ask::JoinGroup {
                host,
                port,
                mgid,
                qkey,
            } => match self.place(&host, port) {
                Ok(at) => {
                    self.open(number, Role::InGroup);
                    let now = Time::from_ns(self.now_ns());
                    return self
                        .joins
                        .join(&mut self.fabric, now, number, (at, mgid), qkey);
                }
                Err(refused) => refused,
            },
            Ask::Adapter { host } => match self.find_node(&host) {
                Some(node) => Answer::Adapter(self.adapter(node)),
                None => self.no_node(&host),
            },
            Ask::HostAt { address } => {
                let number = ferriband_attach::number_at(address);
                let known = self.numbers.iter().find(|(_, own)| Some(**own) == number);
                match known {
                    Some((node, _)) => Answer::Adapter(self.adapter(*node)),
                    None => refuse(
                        format!(
                            "no host of fabric \"{}\" has the address {address}",
                            self.name
                        ),
                        libc::EHOSTUNREACH,
                    ),
                }
            }
            Ask::OpenMads { host, port } => match self.place(&host, port) {
                Ok(at) => self.open(number, Role::Mads(at, Vec::new())),
                Err(refused) => refused,
            },
            Ask::OpenPackets { host, port } => match self.place(&host, port) {
                Ok(at) => {
                    self.takers.entry(at).or_default().push(number);
                    self.open(number, Role::Packets(at))
                }
                Err(refused) => refused,
            },
            Ask::Register { token, agent } => self.register(token, &agent),
            Ask::Unregister { token, agent } => self.unregister(token, agent),
            Ask::Tap { node, port } => match self.cable(&node, port) {
                Ok(cable) => {
                    let node = self.find_node(&node).unwrap_or(NodeId(0));
                    let role = Role::Looks(PortId { node, port }, cable, 0);
                    let opened = self.open(number, role);
                    self.renew_taps();
                    opened
                }
                Err(refused) => refused,
            },
            Ask::Status => Answer::Status(Box::new(self.status())),
            Ask::Down => {
                self.down = Some(Instant::now());
                Answer::Done
            }
            Ask::Link { node, port, up } => self.set_link(&node, port, up),
            Ask::Spoil {
                node,
                port,
                of_a_million,
            } => match self.cable(&node, port) {
                Ok(cable) => {
                    self.fabric.set_spoils(cable, of_a_million);
                    Answer::Done
                }
                Err(refused) => refused,
            },
            Ask::Power { node, on } => match self.find_node(&node) {
                Some(id) => {
                    let now = Time::from_ns(self.now_ns());
                    self.fabric.set_power(now, id, on);
                    Answer::Done
                }
                None => self.no_node(&node),
            },
            Ask::Sweep => {
                let now = self.now_ns();
                match &mut self.own {
                    Some(own) => {
                        own.sweep_all_soon(now);
                        Answer::Done
                    }
                    None => refuse("another manages this fabric", libc::EOPNOTSUPP),
                }
            }
        })
    }

    fn open(&mut self, number: u64, role: Role) -> Answer {
        if let Some(client) = self.clients.get_mut(&number) {
            client.role = role;
        }
        Answer::Opened { token: number }
    }

    fn find_node(&self, name: &str) -> Option<NodeId> {
        self.fabric.plane().topology().find(name)
    }

    fn no_node(&self, name: &str) -> Answer {
        refuse(
            format!("there is no \"{name}\" in fabric \"{}\"", self.name),
            libc::ENODEV,
        )
    }

    fn place(&self, host: &str, port: u8) -> Result<Place, Answer> {
        let node = self.find_node(host).ok_or_else(|| self.no_node(host))?;
        let topology = self.fabric.plane().topology();
        let there = match topology.node(node).kind {
            NodeKind::Switch => port == 0,
            _ => (1..=topology.node(node).ports).contains(&port),
        };
        if !there {
            let what = format!("\"{host}\" has no port {port}");
            return Err(refuse(what, libc::ENODEV));
        }
        Ok(Place { node, port })
    }

    fn adapter(&self, node: NodeId) -> Adapter {
        let plane = self.fabric.plane();
        let own = plane.node(node);
        let (node_type, ports) = match own.kind {
            NodeKind::Ca => (1, 1..=own.port_count()),
            NodeKind::Switch => (2, 0..=0),
            NodeKind::Router => (3, 1..=own.port_count()),
        };
        Adapter {
            host: plane.topology().node(node).name.clone(),
            node_type,
            node_guid: own.guid.0,
            port_count: own.port_count(),
            number: self.numbers.get(&node).copied().unwrap_or(0),
            ports: ports.map(|port| self.adapter_port(node, port)).collect(),
        }
    }

    fn adapter_port(&self, node: NodeId, port: u8) -> AdapterPort {
        let own = self.fabric.plane().node(node);
        let state = &own.ports[usize::from(port)];
        let info = &state.info;
        AdapterPort {
            port,
            guid: own.guid_of_port(port).0,
            prefix: info.gid_prefix,
            lid: info.lid.0,
            lmc: info.lmc,
            sm_lid: info.master_sm_lid.0,
            sm_sl: info.master_sm_sl.0,
            state: info.state.0,
            phys_state: info.phys_state.0,
            rate_mbps: rate_mbps(
                info.link_width_active,
                info.link_speed_active,
                info.link_speed_ext_active,
            ),
            width: info.link_width_active,
            speed: info.link_speed_active,
            speed_ext: info.link_speed_ext_active,
            mtu: info.neighbor_mtu,
            capabilities: info.capabilities.bits(),
            pkeys: state.pkeys.iter().map(|key| key.0).collect(),
        }
    }

    fn register(&mut self, token: u64, wanted: &Registration) -> Answer {
        let Some(Client {
            role: Role::Mads(at, agents),
            ..
        }) = self.clients.get_mut(&token)
        else {
            return refuse("there is no such port", libc::EBADF);
        };
        let free = agents.iter().position(Option::is_none);
        let number = free.unwrap_or(agents.len());
        if number >= MOST_AGENTS {
            return refuse("there is no room for more agents", libc::ENOMEM);
        }
        let wanted = Wanted {
            class: ManagementClass(wanted.class),
            version: wanted.version,
            oui: wanted.oui,
            methods: u128::from(wanted.methods[0]) | u128::from(wanted.methods[1]) << 64,
            rmpp: wanted.rmpp,
            plain: false,
        };
        match self.fabric.register(*at, wanted) {
            Ok(agent) => {
                if free.is_none() {
                    agents.push(None);
                }
                agents[number] = Some(agent);
                self.agents.insert((*at, agent), (token, number as u32));
                Answer::Registered {
                    agent: number as u32,
                }
            }
            Err(error) => {
                let errno = match error {
                    Refused::Taken => libc::EBUSY,
                    _ => libc::ENOMEM,
                };
                refuse(error.to_string(), errno)
            }
        }
    }

    fn unregister(&mut self, token: u64, number: u32) -> Answer {
        let Some(Client {
            role: Role::Mads(at, agents),
            ..
        }) = self.clients.get_mut(&token)
        else {
            return refuse("there is no such port", libc::EBADF);
        };
        let agent = agents.get_mut(number as usize).and_then(Option::take);
        let Some(agent) = agent else {
            return refuse("there is no such agent", libc::EINVAL);
        };
        self.agents.remove(&(*at, agent));
        self.fabric.unregister(*at, agent);
        Answer::Done
    }

    fn cable(&self, name: &str, port: u8) -> Result<usize, Answer> {
        let node = self.find_node(name).ok_or_else(|| self.no_node(name))?;
        let topology = self.fabric.plane().topology();
        topology.cable_at(PortId { node, port }).ok_or_else(|| {
            let what = format!("no cable is in port {port} of \"{name}\"");
            refuse(what, libc::ENODEV)
        })
    }

    fn set_link(&mut self, name: &str, port: u8, up: bool) -> Answer {
        let cable = match self.cable(name, port) {
            Ok(cable) => cable,
            Err(refused) => return refused,
        };
        let now = Time::from_ns(self.now_ns());
        self.fabric.set_cable(now, cable, up);
        Answer::Done
    }

    fn status(&self) -> Status {
        let plane = self.fabric.plane();
        let topology = plane.topology();
        let count = |kind| {
            let all = topology.ids_of(kind);
            let (on, off): (Vec<_>, Vec<_>) = all.partition(|id| !plane.is_off(*id));
            [(on.len() + off.len()) as u32, on.len() as u32]
        };
        let state = |end: &PortId| {
            let node = plane.node(end.node);
            node.ports[usize::from(end.port)].info.state
        };
        let cables = topology.cables().iter();
        let both = |wanted: fn(PortState) -> bool| {
            let cables = cables.clone();
            let up = cables.filter(|cable| cable.ends.iter().all(|end| wanted(state(end))));
            up.count() as u32
        };
        let name_of = |end: &PortId| format!("{} port {}", topology.node(end.node).name, end.port);
        let cut = topology.cables().iter().enumerate();
        let cut = cut.filter(|(cable, _)| plane.is_cut(*cable));
        let cut = cut.map(|(_, cable)| {
            let [a, b] = &cable.ends;
            format!("cut: {} to {}", name_of(a), name_of(b))
        });
        let spoils = plane.spoils().map(|(cable, share)| {
            let [a, b] = &topology.cables()[cable].ends;
            let share = f64::from(share) / 1e4;
            format!(
                "spoils {share} % of packets: {} to {}",
                name_of(a),
                name_of(b)
            )
        });
        let off = topology.ids().filter(|id| plane.is_off(*id));
        let off = off.map(|id| format!("switched off: {}", topology.node(id).name));
        let attached = self.clients.values().filter_map(|client| {
            let (at, how) = match &client.role {
                Role::Asks | Role::InGroup | Role::Looks(..) => return None,
                Role::Mads(at, _) => (at, "mads"),
                Role::Packets(at) => (at, "packets"),
            };
            Some(Attached {
                host: topology.node(at.node).name.clone(),
                how: how.to_owned(),
                pid: client.pid,
            })
        });
        let hosts = topology.ids_of(NodeKind::Ca).map(|id| {
            let port = &plane.node(id).ports[1];
            HostLine {
                name: topology.node(id).name.clone(),
                lid: port.info.lid.0,
                state: state_name(port).to_owned(),
                address: address(self.numbers.get(&id).copied().unwrap_or(0)).to_string(),
            }
        });
        Status {
            name: self.name.clone(),
            source: self.source.clone(),
            pid: std::process::id(),
            up_s: self.begun.elapsed().as_secs(),
            switches: count(NodeKind::Switch),
            hosts: count(NodeKind::Ca),
            links: [
                topology.cables().len() as u32,
                both(|state| state != PortState::DOWN),
                both(|state| state == PortState::ACTIVE),
            ],
            manager: if self.own.is_some() { "ours" } else { "none" }.to_owned(),
            manager_says: match &self.own {
                Some(own) => own.says.clone(),
                None => "it has no manager of its own".to_owned(),
            },
            sweeps: self.own.as_ref().map_or(0, |own| own.sweeps),
            mads: [self.fabric.mads, self.fabric.unwanted()],
            packets: self.fabric.packets,
            attached: attached.collect(),
            broken: cut.chain(spoils).chain(off).collect(),
            host_list: hosts.collect(),
        }
    }
}

/// What a link carries, from the codes of PortInfo.
fn rate_mbps(width: u8, speed: u8, extended: u8) -> u32 {
    let width = Width::ALL.into_iter().find(|own| own.bit() == width);
    let speed = match (speed, extended) {
        (_, 8) => Speed::Ndr,
        (_, 4) => Speed::Hdr,
        (_, 2) => Speed::Edr,
        (_, 1) => Speed::Fdr,
        (4, _) => Speed::Qdr,
        (2, _) => Speed::Ddr,
        _ => Speed::Sdr,
    };
    let lanes = width.map_or(1, |width| match width {
        Width::X1 => 1,
        Width::X2 => 2,
        Width::X4 => 4,
        Width::X8 => 8,
        Width::X12 => 12,
    });
    let each = match speed {
        Speed::Sdr => 2_500,
        Speed::Ddr => 5_000,
        Speed::Qdr | Speed::Fdr10 => 10_000,
        Speed::Fdr => 14_000,
        Speed::Edr => 25_000,
        Speed::Hdr => 50_000,
        Speed::Ndr => 100_000,
    };
    lanes * each
}
