//! The process of a live fabric: one thread that waits for those who are attached, and for time.
//!
//! Owns the connections and who is behind each. What packets do is the fabric's business.

mod client;
mod packets;
mod path;
mod status;

use super::joins::Joins;
use super::keys::Keys;
use super::manager::{INSTEAD, Own};
use super::tell;
use crate::args::{FabricUpArgs, ManagerChoice};
use crate::failure::Failure;
use crate::stop::Stop;
use client::{Client, Role};
use ferriband_attach::ask::{self, Answer, Ask, Registration};
use ferriband_attach::{AttachError, Listener, MOST_HOSTS, Piece, Range, mad, tap};
use ferriband_fabric::Time;
use ferriband_fabric::interface::{AgentId, Delivery, Far, Refused, Wanted};
use ferriband_fabric::live::Fabric;
use ferriband_fabric::manage::Place;
use ferriband_subnet::manager::Config;
use ferriband_subnet::routing::{Engine, Options};
use ferriband_topology::{NodeId, NodeKind, PortId, Topology};
use ferriband_wire::mad::ManagementClass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
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
    /// When adapters were told of partition keys last, by [`Fabric::partitions_told`]; None: they are to be told.
    partitions_seen: Option<u64>,
    /// The hosts' addresses are this fabric's as long as it lives.
    _range: Range,
    /// Hosts in the order of the description: the number that makes their address.
    numbers: BTreeMap<NodeId, u32>,
    joins: Joins,
    pace: String,
    paced: bool,
    keys: Keys,
    /// Those for whom something waits that was not tried to be sent.
    touched: Vec<u64>,
    /// Those who have more packets waiting than their adapter keeps.
    behind: BTreeSet<u64>,
    /// Packets that came to a host and were let go of there: nobody took them.
    untaken: u64,
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
        let hosts = || topology.ids_of(NodeKind::Ca);
        if hosts().count() > MOST_HOSTS as usize {
            return Err(Failure::new(format!(
                "a live fabric has {MOST_HOSTS} hosts at the most"
            )));
        }
        let range = Range::claim().map_err(super::failed)?;
        let numbers = hosts()
            .zip((0..).map(|place| range.number(place)))
            .collect();
        let mut fabric = Fabric::new(topology);
        fabric.set_rate_scale(args.rate_scale);
        let pace = args
            .rate_scale
            .map_or("unpaced".to_owned(), |scale| scale.to_string());
        let usual = Config::new(at.port, *engine);
        let keys = match args.manager {
            // whoever manages chooses his own
            ManagerChoice::None => Keys::none(),
            ManagerChoice::Ours => {
                let lease_s = usual.mkey_lease_s;
                Keys::new(args.keys.as_deref(), &args.named.name, lease_s)?
            }
        };
        let own = match args.manager {
            ManagerChoice::None => None,
            ManagerChoice::Ours => {
                let config = Config {
                    lmc: args.lmc,
                    options: Options::default(),
                    mkey: keys.mkey,
                    instead: Engine::find(INSTEAD).into_iter().copied().collect(),
                    ..usual
                };
                let mut own = Own::new(&mut fabric, at, config, args.priority, keys.sm_key);
                if args.congestion_control {
                    own = own.map(|own| own.with_congestion_control(&mut fabric));
                }
                own
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
            partitions_seen: None,
            _range: range,
            numbers,
            joins: Joins::default(),
            pace,
            paced: args.rate_scale.is_some(),
            keys,
            touched: Vec::new(),
            behind: BTreeSet::new(),
            untaken: 0,
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
        let (mut said, mut warned) = (String::new(), Vec::new());
        let stop = Stop::install();
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
            if let Some(own) = &self.own
                && let Some(warnings) = own.warnings.as_ref().filter(|own| **own != warned)
            {
                for warning in warnings {
                    tell(&format!("warning: {warning}"));
                }
                warned.clone_from(warnings);
            }
            self.wait()?;
            if stop.asked() && self.down.is_none() {
                self.down = Some(Instant::now());
            }
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
        self.tell_partitions();
        self.tell_links();
        self.carry_packets();
        self.look_after_those_behind();
        self.send_packets();
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
                let waiting = client.waiting();
                let Role::Looks(port, cable, lost) = &mut client.role else {
                    continue;
                };
                if *cable != tapped.cable {
                    continue;
                }
                if waiting > MOST_WAITING {
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
        let due = due.into_iter().chain(own).chain(self.behind_due()).min();
        let due = match self.fabric.has_deliveries() {
            true => Some(0),
            false => due,
        };
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
            let mut wanted = match self.may_send(&client.role) {
                true => PollFlags::IN,
                false => PollFlags::empty(),
            };
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
                let is_gone = ready.intersects(PollFlags::HUP | PollFlags::ERR);
                self.listen(number, is_gone);
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
            self.clients.insert(self.next_client, Client::new(link));
            self.next_client += 1;
        }
    }

    /// Takes what somebody has sent. Of one who is gone everything: he is waited for no longer.
    fn listen(&mut self, number: u64, is_gone: bool) {
        for _ in 0..TURN {
            let room = self.clients.get(&number);
            if !is_gone && room.is_some_and(|client| !self.may_send(&client.role)) {
                break;
            }
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

    fn forget(&mut self, number: u64) {
        let Some(client) = self.clients.remove(&number) else {
            return;
        };
        for room in client.rooms {
            self.fabric.taken(room);
        }
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
                Ok(node) => Answer::Adapter(self.adapter(node)),
                Err(refused) => refused,
            },
            Ask::Path { from, to } => Answer::Path(path::between(self.fabric.plane(), from, to)),
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
                    self.partitions_seen = None;
                    self.open(number, Role::Packets(at))
                }
                Err(refused) => refused,
            },
            Ask::Register { token, agent } => self.register(token, &agent),
            Ask::Unregister { token, agent } => self.unregister(token, agent),
            Ask::Tap { node, port } => match self.cable(&node, port) {
                Ok((at, cable)) => {
                    let role = Role::Looks(at, cable, 0);
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
                Ok((_, cable)) => {
                    let now = Time::from_ns(self.now_ns());
                    self.fabric.set_spoils(now, cable, of_a_million);
                    Answer::Done
                }
                Err(refused) => refused,
            },
            Ask::Power { node, on } => match self.find_node(&node) {
                Ok(id) => {
                    let now = self.now_ns();
                    self.fabric.set_power(Time::from_ns(now), id, on);
                    // no trap reaches a manager whose own node was off
                    if let Some(own) = self.own.as_mut().filter(|own| own.is_at(id)) {
                        own.sweep_soon(now);
                    }
                    Answer::Done
                }
                Err(refused) => refused,
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

    /// The node that somebody means.
    fn find_node(&self, words: &str) -> Result<NodeId, Answer> {
        let topology = self.fabric.plane().topology();
        topology.meant(words).map_err(|found| {
            let names = found.iter().take(4).map(|id| &topology.node(*id).name);
            let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
            let more = if found.len() > names.len() {
                ", ..."
            } else {
                ""
            };
            let what = match names[..] {
                [] => format!("there is no \"{words}\" in fabric \"{}\"", self.name),
                _ => format!("\"{words}\" could be {}{more}", names.join(" or ")),
            };
            refuse(what, libc::ENODEV)
        })
    }

    fn place(&self, host: &str, port: u8) -> Result<Place, Answer> {
        let node = self.find_node(host)?;
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

    fn cable(&self, name: &str, port: u8) -> Result<(PortId, usize), Answer> {
        let node = self.find_node(name)?;
        let at = PortId { node, port };
        let cable = self.fabric.plane().topology().cable_at(at);
        let cable = cable.ok_or_else(|| {
            let what = format!("no cable is in port {port} of \"{name}\"");
            refuse(what, libc::ENODEV)
        })?;
        Ok((at, cable))
    }

    fn set_link(&mut self, name: &str, port: u8, up: bool) -> Answer {
        let cable = match self.cable(name, port) {
            Ok((_, cable)) => cable,
            Err(refused) => return refused,
        };
        let now = Time::from_ns(self.now_ns());
        self.fabric.set_cable(now, cable, up);
        Answer::Done
    }
}
