//! The subnet manager as a machine: management packets in, management packets out.
//!
//! A sweep goes through stages, each of which waits for the answers of the one before: discovery by directed routes ([`discovery`]), addresses and
//! routes (no packets), what every port and switch is told ([`program`], links Armed among it), and links Active. A light sweep ([`Manager::look`]) asks only the switches whether a
//! port of theirs has changed. Owns what is outstanding and when it is
//! asked again. Must not know a clock or a socket: time comes in, packets go out by [`Manager::poll_transmit`].
//!
//! Answers are believed only if they were asked for; a node that does not answer is left out, and the event at the sweep's end says so.

mod discovery;
mod groups;
mod program;
mod read;
mod telling;
mod told;

use crate::check::{Before, Change};
use crate::graph::{Graph, GraphError, give_lids};
use crate::routing::{Engine, Options, RouteError, Routing, Tables};
use discovery::{Discovery, Finding};
use ferriband_wire::attributes::{NodeDescription, NodeInfo, PortInfo, SwitchInfo};
use ferriband_wire::mad::{MadStatus, Method};
use ferriband_wire::smp::{Route, SMP_DATA_LEN, Smp, attribute};
use ferriband_wire::{Guid, MKey, TransactionId};
pub use read::{Block, Reading, Table, TableRead};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use telling::Telling;
pub use telling::{Routed, Work};
use told::Told;

/// A point in time, in nanoseconds since whenever the caller likes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Instant(pub u64);

/// How a manager works.
#[derive(Clone)]
pub struct Config {
    /// The port that it is at: a channel adapter's, or 0 of a switch.
    pub port: u8,
    /// Computes the routes.
    pub engine: Engine,
    /// What the engine is told.
    pub options: Options,
    /// LIDs of an end port: 2^lmc.
    pub lmc: u8,
    /// The highest LID that may be given; [`crate::graph::TOP_LID`] in a real subnet.
    pub top_lid: u32,
    /// Management key that it gives to ports, with protection if it is not 0.
    pub mkey: MKey,
    /// Seconds after which that protection lapses when the manager is gone; 0: never.
    pub mkey_lease_s: u16,
    /// Requests that may be outstanding.
    pub window: u32,
    /// How long an answer is waited for, in nanoseconds, and how often a request is sent again.
    pub timeout_ns: u64,
    /// See `timeout_ns`.
    pub retries: u8,
    /// How long packets under way are waited for when some were stopped for a change of routes (`check::change`), in nanoseconds. Those that still wait for a full buffer then are
    /// seconds behind in a subnet that is jammed: switches drop them by their age.
    pub drain_ns: u64,
    /// Routes are computed by who drives the manager ([`Manager::poll_work`]) while ports are told their addresses: if there are none, ports have addresses and are Armed by then. If
    /// not, the manager computes them itself before it tells anybody anything.
    pub aside: bool,
    /// Engines that are asked in turn if that one refuses a subnet that has been up before: it has lost cables or switches, and goes on with what is left. None: such a sweep fails, and
    /// tables stay as they are.
    pub instead: Vec<Engine>,
}

impl Config {
    /// At this port, with this engine; the rest as usual.
    pub fn new(port: u8, engine: Engine) -> Self {
        Config {
            port,
            engine,
            options: Options::default(),
            lmc: 0,
            top_lid: crate::graph::TOP_LID,
            mkey: MKey(0),
            mkey_lease_s: 60,
            window: 64,
            timeout_ns: 200_000_000,
            retries: 3,
            drain_ns: 20_000_000,
            aside: false,
            instead: Vec::new(),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Config");
        out.field("port", &self.port)
            .field("engine", &self.engine.name);
        // keys are not for logs
        out.field("lmc", &self.lmc).field("window", &self.window);
        out.finish_non_exhaustive()
    }
}

/// What a sweep came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The subnet is up: what is there, and how it is routed.
    Up(Box<Subnet>),
    /// A light sweep found every switch as it was.
    Same,
    /// It could not be brought up.
    Failed(SweepError),
    /// A table was read ([`Manager::read`]).
    Read(Box<TableRead>),
}

/// What a node has said of itself, in the last answer about each thing.
#[derive(Clone, PartialEq, Debug)]
pub struct Known {
    /// What it is.
    pub info: NodeInfo,
    /// What it is called.
    pub description: Option<NodeDescription>,
    /// Of a switch.
    pub switch: Option<SwitchInfo>,
    /// Its ports by number: of others than switches those that were met.
    pub ports: BTreeMap<u8, PortInfo>,
    /// GUIDs of the ports of others than switches.
    pub guids: BTreeMap<u8, Guid>,
    /// The ports to leave by on the way to it, from the manager on.
    pub path: Vec<u8>,
}

/// A subnet that is up.
#[derive(Clone, PartialEq, Debug)]
pub struct Subnet {
    /// What its nodes say.
    pub nodes: Vec<Known>,
    /// What is there.
    pub graph: Graph,
    /// How it is routed.
    pub routing: Routing,
    /// Why the engine that was asked for did not route it, but one of [`Config::instead`].
    pub refused: Option<RouteError>,
    /// LIDs whose packets were dropped for [`Config::drain_ns`] and a little, because they could have closed a circle while tables changed.
    pub stopped: usize,
    /// Requests that were sent, those sent again included.
    pub requests: u64,
    /// Nodes that stopped answering, or refused what they were told: GUID, or None for one that never said who it is, and what was refused.
    pub trouble: Vec<(Option<Guid>, MadStatus)>,
}

/// Why a sweep failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SweepError {
    /// The manager's own node does not answer.
    #[error("the node that the manager is at does not answer")]
    Alone,
    /// What was found is no subnet, or has no room for all.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The engine found no routes.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// What a request is for, when its answer comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Find(Finding),
    /// Tells a node something.
    Tell(Guid),
    /// Asks a switch whether a port of its has changed.
    Look,
    /// Asks for a block of a table.
    Read(read::Place),
}

/// A request that waits for its answer.
#[derive(Clone, Debug)]
struct Asked {
    smp: Smp,
    purpose: Purpose,
    due: Instant,
    retries: u8,
}

#[derive(Debug)]
enum Stage {
    /// Nothing is going on.
    Idle,
    Discovery(Box<Discovery>),
    /// Ports and switches are told what they are to be.
    Telling(Box<Telling>),
    /// Switches are asked whether anything is other; true once one has said so, or says nothing.
    Looking(bool),
    /// A table is read: what has come of it.
    Reading(Reading, BTreeMap<read::Place, [u8; SMP_DATA_LEN]>),
}

/// The manager.
#[derive(Debug)]
pub struct Manager {
    config: Config,
    stage: Stage,
    /// Not sent yet.
    queue: VecDeque<(Smp, Purpose)>,
    /// By transaction.
    asked: BTreeMap<u64, Asked>,
    /// When each was sent and is due, oldest first; those that were answered are among them until they come to the front.
    dues: VecDeque<(Instant, u64)>,
    /// To be sent again.
    again: VecDeque<u64>,
    next_transaction: u64,
    requests: u64,
    trouble: Vec<(Option<Guid>, MadStatus)>,
    /// LIDs that ports have had, from this manager or another, by GUID: they keep them.
    lids: BTreeMap<u64, u32>,
    events: VecDeque<Event>,
    /// Of the nodes that are told something, the place in [`Subnet::nodes`].
    by_guid: BTreeMap<u64, usize>,
    /// What switches were told of groups since the last sweep.
    group_blocks: groups::Blocks,
    /// A sweep has begun since they were told.
    groups_anew: bool,
    told: Told,
    /// What was told last of levels and lanes; None: nothing is known.
    before: Option<Arc<Before>>,
    /// Of the switches of the last sweep, the ports to leave by.
    switches: Vec<Vec<u8>>,
    /// Since it began, or began again, no sweep has come to its end.
    anew: bool,
    /// The subnet has been up, by this manager or another: what its engine refuses now is a failure of cables and switches, and others of [`Config::instead`] are asked.
    is_managed: bool,
    /// Sweeps that were begun.
    sweeps: u64,
    /// Routes that nobody computes yet.
    work: Option<Work>,
}

impl Manager {
    /// One that has seen nothing. `seed` makes its transactions differ from those of others.
    pub fn new(config: Config, seed: u32) -> Self {
        Manager {
            config,
            stage: Stage::Idle,
            queue: VecDeque::new(),
            asked: BTreeMap::new(),
            dues: VecDeque::new(),
            again: VecDeque::new(),
            next_transaction: u64::from(seed) << 32 | 1,
            requests: 0,
            trouble: Vec::new(),
            lids: BTreeMap::new(),
            events: VecDeque::new(),
            by_guid: BTreeMap::new(),
            group_blocks: groups::Blocks::new(),
            groups_anew: false,
            is_managed: false,
            told: Told::default(),
            before: None,
            switches: Vec::new(),
            anew: true,
            sweeps: 0,
            work: None,
        }
    }

    /// Begins to look at everything anew, and to tell what is not as it should be. What was going on is given up.
    pub fn sweep(&mut self) {
        self.drop_all();
        self.trouble.clear();
        self.requests = 0;
        self.sweeps += 1;
        self.groups_anew = true;
        let mut discovery = Discovery::new(self.config.port);
        self.queue.extend(discovery.begin().map(find));
        self.stage = Stage::Discovery(Box::new(discovery));
    }

    /// The same, and everything is told, whatever it was told before.
    pub fn sweep_all(&mut self) {
        self.told.forget_all();
        self.anew = true;
        self.sweep();
    }

    /// A light sweep: the switches of the last sweep are asked whether a port of theirs has changed. If so, or if one does not answer, a sweep follows; else the event
    /// is [`Event::Same`]. Does nothing while a sweep goes on, or before one has come to its end.
    pub fn look(&mut self) {
        if self.is_sweeping() || self.anew {
            return;
        }
        let asked = self.switches.iter().filter_map(|path| {
            let smp = discovery::request(path, Method::GET, attribute::SWITCH_INFO, 0)?;
            Some((smp, Purpose::Look))
        });
        self.queue.extend(asked);
        self.stage = Stage::Looking(false);
        self.go_on();
    }

    fn drop_all(&mut self) {
        self.queue.clear();
        for asked in std::mem::take(&mut self.asked).into_values() {
            if let Purpose::Tell(guid) = asked.purpose {
                self.told.uncertain(guid, &asked.smp);
            }
        }
        self.dues.clear();
        self.again.clear();
        self.work = None;
    }

    /// Another manages the subnet: what was going on is given up, and nothing is known of what nodes were told.
    pub fn give_up(&mut self) {
        self.drop_all();
        self.events.clear();
        self.told.forget_all();
        self.before = None;
        // that one may give others
        self.lids.clear();
        (self.anew, self.is_managed) = (true, true);
        self.stage = Stage::Idle;
    }

    /// True from [`Self::sweep`], [`Self::look`] or [`Self::read`] until its event.
    pub fn is_sweeping(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    /// The next packet to send, from the manager's port; None: nothing now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Smp> {
        let due = Instant(now.0.saturating_add(self.config.timeout_ns));
        while let Some(transaction) = self.again.pop_front() {
            // it may have been answered meanwhile
            if let Some(asked) = self.asked.get_mut(&transaction) {
                asked.due = due;
                self.dues.push_back((due, transaction));
                self.requests += 1;
                return Some(asked.smp);
            }
        }
        if self.asked.len() >= self.config.window as usize {
            return None;
        }
        self.drain(now);
        let (mut smp, purpose) = self.queue.pop_front()?;
        self.refill();
        smp.transaction_id = TransactionId(self.next_transaction);
        smp.mkey = self.config.mkey;
        let asked = Asked {
            smp,
            purpose,
            due,
            retries: self.config.retries,
        };
        self.asked.insert(self.next_transaction, asked);
        self.dues.push_back((due, self.next_transaction));
        self.next_transaction += 1;
        self.requests += 1;
        Some(smp)
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // all wait equally long, so the first that was sent is the first that is due
        let asked = self.dues.front().map(|(due, _)| *due);
        match &self.stage {
            Stage::Telling(telling) => asked.or(telling.drained()),
            _ => asked,
        }
    }

    /// Goes on if packets under way were waited for and are gone.
    fn drain(&mut self, now: Instant) {
        if let Stage::Telling(telling) = &mut self.stage
            && telling.drain(now, self.config.drain_ns)
        {
            self.go_on();
        }
    }

    /// Lets go of what was answered, or is to be sent again.
    fn tidy_dues(&mut self) {
        while let Some((due, transaction)) = self.dues.front() {
            let asked = self.asked.get(transaction);
            if asked.is_some_and(|asked| asked.due == *due) {
                return;
            }
            self.dues.pop_front();
        }
    }

    /// Requests that nobody answered in time go again, or are given up.
    pub fn handle_timeout(&mut self, now: Instant) {
        let late = self.asked.iter().filter(|(_, asked)| asked.due <= now);
        let late: Vec<u64> = late.map(|(transaction, _)| *transaction).collect();
        for transaction in late {
            let Some(asked) = self.asked.get_mut(&transaction) else {
                continue;
            };
            if asked.retries > 0 {
                asked.retries -= 1;
                asked.due = Instant(u64::MAX);
                self.again.push_back(transaction);
                continue;
            }
            let given_up = self.asked.remove(&transaction);
            if let Some(asked) = given_up {
                self.unanswered(asked.purpose);
            }
        }
        self.tidy_dues();
        self.drain(now);
        self.go_on();
    }

    /// A packet came to the manager's port. False if it is no answer to anything that was asked.
    pub fn handle_smp(&mut self, smp: &Smp) -> bool {
        let answers = |asked: &Asked| {
            asked.smp.attribute == smp.attribute
                && asked.smp.attribute_modifier == smp.attribute_modifier
                && same_way(&asked.smp.route, &smp.route)
        };
        let transaction = smp.transaction_id.0;
        let known = self.asked.get(&transaction).is_some_and(answers);
        if smp.method != Method::GET_RESP || !known {
            return false;
        }
        let Some(asked) = self.asked.remove(&transaction) else {
            return false;
        };
        self.tidy_dues();
        match (asked.purpose, &mut self.stage) {
            (Purpose::Find(finding), Stage::Discovery(discovery)) => {
                if smp.status == MadStatus::OK {
                    let more = discovery.answered(finding, smp);
                    self.queue.extend(more.into_iter().map(find));
                } else {
                    self.trouble.push((discovery.guid_of(finding), smp.status));
                }
            }
            (Purpose::Tell(guid), _) if smp.status != MadStatus::OK => {
                self.told.forget(guid);
                self.trouble.push((Some(guid), smp.status));
            }
            (Purpose::Tell(guid), Stage::Telling(telling)) => {
                self.told.answered(guid, &asked.smp, smp);
                // what is there now
                if let Some(node) = self.by_guid.get(&guid.0) {
                    note(&mut telling.nodes[*node], smp);
                }
            }
            (Purpose::Look, Stage::Looking(other)) => {
                let info = smp.data_as::<SwitchInfo>();
                *other |=
                    smp.status != MadStatus::OK || info.is_ok_and(|info| info.port_state_change);
            }
            (Purpose::Read(place), Stage::Reading(_, blocks)) if smp.status == MadStatus::OK => {
                blocks.insert(place, smp.data);
            }
            _ => {}
        }
        self.go_on();
        true
    }

    /// What has happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn unanswered(&mut self, purpose: Purpose) {
        let guid = match (purpose, &mut self.stage) {
            (Purpose::Find(finding), Stage::Discovery(discovery)) => discovery.guid_of(finding),
            (Purpose::Tell(guid), _) => {
                self.told.forget(guid);
                Some(guid)
            }
            (Purpose::Look, Stage::Looking(other)) => {
                *other = true;
                return;
            }
            (Purpose::Read(_), _) => return,
            _ => None,
        };
        self.trouble.push((guid, MadStatus::BUSY));
    }

    /// Makes the next packets of what is to be told, if there are none: a node's, so that nobody waits for those of all.
    fn refill(&mut self) {
        while self.queue.is_empty()
            && let Stage::Telling(telling) = &mut self.stage
            && let Some(next) = telling.next(&self.config, &self.told, self.anew)
        {
            let told = next.into_iter();
            self.queue
                .extend(told.map(|(guid, smp)| (smp, Purpose::Tell(guid))));
        }
    }

    /// Goes to the next stage, if nothing of this one is left.
    fn go_on(&mut self) {
        self.refill();
        while self.asked.is_empty() && self.queue.is_empty() {
            match std::mem::replace(&mut self.stage, Stage::Idle) {
                Stage::Idle => return,
                Stage::Looking(false) => self.events.push_back(Event::Same),
                Stage::Looking(true) => self.sweep(),
                Stage::Reading(what, blocks) => {
                    let tables = Box::new(read::tables(what, blocks));
                    self.events.push_back(Event::Read(tables));
                }
                Stage::Discovery(discovery) => match self.plan(discovery) {
                    Ok(telling) => self.stage = Stage::Telling(telling),
                    Err(error) => self.events.push_back(Event::Failed(error)),
                },
                Stage::Telling(mut telling) => match telling.go_on() {
                    telling::Next::Wait => {
                        self.stage = Stage::Telling(telling);
                        return;
                    }
                    telling::Next::More => self.stage = Stage::Telling(telling),
                    telling::Next::Up(mut subnet) => {
                        subnet.requests = self.requests;
                        subnet.trouble = std::mem::take(&mut self.trouble);
                        (self.anew, self.is_managed) = (false, true);
                        self.before = Some(Arc::new(Before {
                            graph: subnet.graph.clone(),
                            routing: subnet.routing.clone(),
                        }));
                        self.events.push_back(Event::Up(subnet));
                    }
                },
            }
            self.refill();
        }
    }

    /// Routes to compute, if [`Config::aside`] says that the caller does it: `Work::run`, on whatever thread, and then [`Self::handle_routes`].
    pub fn poll_work(&mut self) -> Option<Work> {
        self.work.take()
    }

    /// The routes that were to be computed. Those of a sweep that was given up are forgotten.
    pub fn handle_routes(&mut self, routed: Routed) {
        let Stage::Telling(telling) = &mut self.stage else {
            return;
        };
        if routed.sweep != self.sweeps {
            return;
        }
        match routed.routing {
            Ok(routing) => telling.take((routing, routed.refused, routed.change)),
            Err(error) => {
                self.drop_all();
                self.stage = Stage::Idle;
                self.events.push_back(Event::Failed(error.into()));
            }
        }
        self.go_on();
    }

    /// Gives the routes and what is to be told, once discovery is over.
    fn plan(&mut self, discovery: Box<Discovery>) -> Result<Box<Telling>, SweepError> {
        let mut found = discovery.found();
        let own = found.first().ok_or(SweepError::Alone)?;
        let own_port = match own.switch {
            Some(_) => 0,
            None => self.config.port,
        };
        let lids = &self.lids;
        self.told
            .keep(&discovery, |guid| lids.get(&guid.0).copied());
        self.adopt(&discovery, &found);
        self.address(&mut found, own_port)?;
        let graph = Graph::new(&found)?;
        let work = |manager: &Self| {
            let before = manager.before.clone();
            let now = before.map(|before| (before, manager.told.tables(&graph)));
            Work::new(
                manager.sweeps,
                &graph,
                &manager.config,
                manager.is_managed,
                now,
            )
        };
        let routed = match graph.switches() {
            // two hosts and a cable, or one alone: nothing to route
            [] => Some((Routing::plain(Tables::new(&graph)), None, Change::default())),
            _ if self.config.aside => {
                self.work = Some(work(self));
                None
            }
            _ => {
                let routed = work(self).run();
                Some((routed.routing?, routed.refused, routed.change))
            }
        };
        let nodes = discovery.known();
        let switches = nodes.iter().filter(|node| node.switch.is_some());
        self.switches = switches.map(|node| node.path.clone()).collect();
        let guids = nodes.iter().map(|node| node.info.node_guid.0);
        self.by_guid = guids.zip(0..).collect();
        Ok(Box::new(Telling::new(
            discovery, found, own_port, nodes, graph, routed,
        )))
    }

    /// Ports that this manager has given no LID, and that have one, keep it if it is theirs alone: another manager has given it, and connections go by it.
    fn adopt(&mut self, discovery: &Discovery, found: &[crate::graph::Found]) {
        let lmc_of = |node: &crate::graph::Found| match node.switch {
            Some(false) => 0,
            _ => self.config.lmc,
        };
        let ports = discovery.nodes.iter().zip(found).flat_map(|(seen, node)| {
            let ports = node.ports.iter();
            let ports = ports.filter(|port| node.switch.is_none() || port.number == 0);
            ports.filter_map(move |port| {
                let lid = u32::from(seen.ports.get(&port.number)?.lid.0);
                Some((port.guid.0, lid, 1_u32 << lmc_of(node)))
            })
        });
        // of whom a LID has been given to, which may be away
        let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
        for lid in self.lids.values() {
            taken.insert(*lid, lid + (1 << self.config.lmc));
        }
        let new: Vec<(u64, u32, u32)> = ports
            .filter(|(guid, lid, count)| {
                let fits = lid.is_multiple_of(*count) && lid + count - 1 <= self.config.top_lid;
                *lid > 0 && fits && !self.lids.contains_key(guid)
            })
            .collect();
        for (guid, lid, count) in new {
            let before = taken.range(..lid + count).next_back();
            if before.is_none_or(|(_, end)| *end <= lid) {
                taken.insert(lid, lid + count);
                self.lids.insert(guid, lid);
            }
        }
    }

    /// Ports keep the LIDs that they have had; new ones get what is free.
    fn address(
        &mut self,
        found: &mut [crate::graph::Found],
        own_port: u8,
    ) -> Result<(), GraphError> {
        if self.lids.is_empty() {
            give_lids(found, (0, own_port), self.config.lmc, self.config.top_lid)?;
        } else {
            let all = found.iter_mut().flat_map(|node| {
                let is_switch = node.switch.is_some();
                let plain = node.switch == Some(false);
                let ports = node.ports.iter_mut();
                let ports = ports.filter(move |port| !is_switch || port.number == 0);
                ports.map(move |port| (plain, port))
            });
            let mut new = Vec::new();
            for (plain, port) in all {
                port.lmc = if plain { 0 } else { self.config.lmc };
                match self.lids.get(&port.guid.0) {
                    Some(lid) => port.lid = *lid,
                    None => new.push(port),
                }
            }
            // beyond all that were ever given: a port that comes back finds its own
            let top = self.lids.values().max().copied().unwrap_or(0);
            let mut next = top + (1 << self.config.lmc);
            let mut without = 0;
            for port in new {
                let lid = next.next_multiple_of(1 << port.lmc);
                next = lid + (1 << port.lmc);
                if next - 1 > self.config.top_lid {
                    without += 1;
                    continue;
                }
                port.lid = lid;
            }
            if without > 0 {
                return Err(GraphError::OutOfLids {
                    top: self.config.top_lid,
                    without,
                });
            }
        }
        for port in found.iter().flat_map(|node| &node.ports) {
            if port.lid != 0 {
                self.lids.insert(port.guid.0, port.lid);
            }
        }
        Ok(())
    }
}

/// What an answer to a Set says.
fn note(node: &mut Known, smp: &Smp) {
    if smp.attribute == attribute::PORT_INFO
        && let (Ok(info), Ok(number)) = (
            smp.data_as::<PortInfo>(),
            u8::try_from(smp.attribute_modifier),
        )
        && let Some(port) = node.ports.get_mut(&number)
    {
        *port = info;
    } else if smp.attribute == attribute::SWITCH_INFO
        && let Ok(info) = smp.data_as()
    {
        node.switch = Some(info);
    }
}

fn find((smp, finding): (Smp, Finding)) -> (Smp, Purpose) {
    (smp, Purpose::Find(finding))
}

/// An answer comes back along the list of ports that its request carried.
fn same_way(asked: &Route, answer: &Route) -> bool {
    match (asked, answer) {
        (Route::Directed(asked), Route::Directed(answer)) => asked.ports() == answer.ports(),
        (Route::Lid, Route::Lid) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
