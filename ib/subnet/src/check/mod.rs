//! The judge of routing: looks at forwarding tables and SL2VL tables alone, as the switches are programmed, whoever made them.
//!
//! [`reach`] follows each LID from each switch; [`balance`] counts how many routes each link carries; [`deadlock`] looks for a circle of
//! links each of which waits for the next (papers/000 section II-E: no circle in the graph of channels is necessary and sufficient).

mod change;
mod loops;
mod multicast;

use crate::graph::{Graph, Owner, Peer};
use crate::routing::{NO_PORT, Routing, Tables};
use ferriband_wire::Guid;
use std::fmt;

pub use change::{Before, Change, change};
pub use loops::{Channel, Loop, Scope, deadlock, deadlock_with_groups};
pub use multicast::{Group, MulticastFault, MulticastWrong, multicast};

/// Most faults that a report names; the rest is counted.
const NAMED_FAULTS: usize = 16;

/// What is wrong with a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The table says to drop it.
    Dropped,
    /// The table names a port in which there is no link, or that is not there.
    Unplugged(u8),
    /// It comes to a port that has not this LID.
    Misdelivered(u8),
    /// It goes round for ever.
    Round,
}

/// A route that does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// From the hosts of this switch and the switch itself, ...
    pub from: Guid,
    /// ... packets to this LID ...
    pub lid: u32,
    /// ... get lost at this switch.
    pub at: Guid,
    /// How.
    pub wrong: Wrong,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, lid, at, .. } = self;
        write!(f, "packets from switch {from} to LID {lid} ")?;
        match self.wrong {
            Wrong::Dropped => write!(
                f,
                "are dropped at switch {at}: its table has no port for it"
            ),
            Wrong::Unplugged(port) => {
                write!(f, "leave switch {at} by port {port}, which has no link")
            }
            Wrong::Misdelivered(port) => write!(
                f,
                "leave switch {at} by port {port} and come to a port with another LID"
            ),
            Wrong::Round => write!(f, "come to switch {at} again and again"),
        }
    }
}

/// What [`reach`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// Routes followed: from each switch to each LID.
    pub routes: u64,
    /// Of these, routes from a switch with hosts to an end port.
    pub host_routes: u64,
    /// Host routes that do not arrive.
    pub host_faults: u64,
    /// Other routes that do not arrive: from or to switches.
    pub switch_faults: u64,
    /// The first few of them, those of hosts first.
    pub faults: Vec<Fault>,
    /// Host routes by links passed, that to the host included: `[1]` is of hosts at one switch.
    pub by_hops: Vec<u64>,
}

/// What [`balance`] found: how many routes between end ports a link between switches carries, each direction by itself.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Balance {
    /// Directions of links between switches.
    pub links: usize,
    /// Of these, those that carry none.
    pub idle: usize,
    /// Least.
    pub least: u64,
    /// Most.
    pub most: u64,
    /// On average.
    pub mean: f64,
}

/// Where each switch sends packets to a LID.
struct Steps {
    /// For each switch, the next one; or one of the marks below.
    next: Vec<u32>,
}

/// Arrives here.
const HOME: u32 = u32::MAX;
/// Gets lost here.
const LOST: u32 = u32::MAX - 1;

impl Steps {
    fn of(graph: &Graph, tables: &Tables, lid: u32, next: Vec<u32>) -> Self {
        let mut steps = Self { next };
        let owner = graph.owner(lid);
        steps.next.clear();
        let switches = 0..graph.switches().len() as u32;
        steps.next.extend(switches.map(|switch| {
            match step(graph, tables.port(switch, lid), switch, owner) {
                Ok(Some(next)) => next,
                Ok(None) => HOME,
                Err(_) => LOST,
            }
        }));
        steps
    }
}

/// The next switch; None if it arrives.
fn step(graph: &Graph, port: u8, switch: u32, owner: Owner) -> Result<Option<u32>, Wrong> {
    match (port, graph.peer(switch, port)) {
        (NO_PORT, _) => Err(Wrong::Dropped),
        (0, _) if owner == Owner::Switch(switch) => Ok(None),
        (0, _) => Err(Wrong::Misdelivered(0)),
        (port, Peer::Nothing) => Err(Wrong::Unplugged(port)),
        (_, Peer::Switch { switch, .. }) => Ok(Some(switch)),
        (_, Peer::End(end)) if owner == Owner::End(end) => Ok(None),
        (port, Peer::End(_)) => Err(Wrong::Misdelivered(port)),
    }
}

/// Not looked at yet, ...
const UNKNOWN: u32 = u32::MAX;
/// ... on the way that is being followed, ...
const OPEN: u32 = u32::MAX - 1;
/// ... or known not to arrive.
const NEVER: u32 = u32::MAX - 2;

/// Follows the steps from all switches: links passed from each until it arrives, or [`NEVER`]; and the switches in an order in which each comes after its next.
fn follow(steps: &Steps, hops: &mut Vec<u32>, order: &mut Vec<u32>) {
    hops.clear();
    hops.resize(steps.next.len(), UNKNOWN);
    order.clear();
    let mut way = Vec::new();
    for start in 0..steps.next.len() as u32 {
        let mut here = start;
        let mut after = loop {
            match (hops[here as usize], steps.next[here as usize]) {
                (UNKNOWN, HOME) => {
                    way.push(here);
                    break 0;
                }
                (UNKNOWN, LOST) => {
                    way.push(here);
                    break NEVER;
                }
                (UNKNOWN, next) => {
                    way.push(here);
                    hops[here as usize] = OPEN;
                    here = next;
                }
                (OPEN, _) => break NEVER,
                (known, _) => break known,
            }
        };
        while let Some(here) = way.pop() {
            after = if after == NEVER { NEVER } else { after + 1 };
            hops[here as usize] = after;
            order.push(here);
        }
    }
}

/// Follows each LID from each switch.
pub fn reach(graph: &Graph, tables: &Tables) -> Reach {
    let hosts = graph.hosts();
    let mut found = Reach::default();
    let (mut next, mut hops, mut order) = (Vec::new(), Vec::new(), Vec::new());
    let mut switch_faults = Vec::new();
    for lid in 1..=graph.top() {
        let owner = graph.owner(lid);
        if owner == Owner::Nobody || graph.switch_of(lid).is_none() {
            continue;
        }
        let steps = Steps::of(graph, tables, lid, next);
        follow(&steps, &mut hops, &mut order);
        let to_end = matches!(owner, Owner::End(_));
        for (from, &hops) in (0..).zip(&hops) {
            let of_host = to_end && hosts[from as usize] > 0;
            found.routes += 1;
            found.host_routes += u64::from(of_host);
            if hops != NEVER {
                if of_host {
                    let hops = hops as usize;
                    found.by_hops.resize(found.by_hops.len().max(hops + 1), 0);
                    found.by_hops[hops] += 1;
                }
                continue;
            }
            let (count, named) = if of_host {
                (&mut found.host_faults, &mut found.faults)
            } else {
                (&mut found.switch_faults, &mut switch_faults)
            };
            *count += 1;
            if named.len() < NAMED_FAULTS {
                named.push(fault(graph, tables, from, lid));
            }
        }
        next = steps.next;
    }
    found.faults.extend(switch_faults);
    found.faults.truncate(NAMED_FAULTS);
    found
}

/// Where a route that does not arrive gets lost.
fn fault(graph: &Graph, tables: &Tables, from: u32, lid: u32) -> Fault {
    let mut here = from;
    let mut wrong = Wrong::Round;
    for _ in 0..=graph.switches().len() {
        match step(graph, tables.port(here, lid), here, graph.owner(lid)) {
            Ok(Some(next)) => here = next,
            Ok(None) => break,
            Err(found) => {
                wrong = found;
                break;
            }
        }
    }
    let guid = |switch: u32| graph.switches()[switch as usize].guid;
    Fault {
        from: guid(from),
        lid,
        at: guid(here),
        wrong,
    }
}

/// Counts how many routes between end ports each link between switches carries.
pub fn balance(graph: &Graph, tables: &Tables) -> Balance {
    let hosts = graph.hosts();
    let mut begin = vec![0];
    for switch in graph.switches() {
        begin.push(begin[begin.len() - 1] + switch.ports.len());
    }
    let mut loads = vec![0_u64; begin[begin.len() - 1]];
    let (mut next, mut hops, mut order) = (Vec::new(), Vec::new(), Vec::new());
    for lid in 1..=graph.top() {
        let (Owner::End(_), Some(home)) = (graph.owner(lid), graph.switch_of(lid)) else {
            continue;
        };
        let steps = Steps::of(graph, tables, lid, next);
        follow(&steps, &mut hops, &mut order);
        let mut flows: Vec<u64> = hosts.iter().map(|&hosts| hosts.into()).collect();
        // a port sends itself nothing
        flows[home as usize] -= 1;
        for &here in order.iter().rev() {
            let (flow, next) = (flows[here as usize], steps.next[here as usize]);
            if hops[here as usize] == NEVER || next == HOME {
                continue;
            }
            flows[next as usize] += flow;
            loads[begin[here as usize] + usize::from(tables.port(here, lid))] += flow;
        }
        next = steps.next;
    }
    let mut found = Balance {
        least: u64::MAX,
        ..Balance::default()
    };
    let mut sum = 0;
    for switch in 0..graph.switches().len() as u32 {
        for (port, ..) in graph.links(switch) {
            let load = loads[begin[switch as usize] + usize::from(port)];
            found.links += 1;
            found.idle += usize::from(load == 0);
            found.least = found.least.min(load);
            found.most = found.most.max(load);
            sum += load;
        }
    }
    if found.links == 0 {
        return Balance::default();
    }
    found.mean = sum as f64 / found.links as f64;
    found
}

/// All that can be said of a routing.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Who reaches whom.
    pub reach: Reach,
    /// How evenly.
    pub balance: Balance,
    /// A circle of waiting links that packets between hosts can make.
    pub hosts: Option<Loop>,
    /// One that packets from or to switches' port 0 can make besides.
    pub all: Option<Loop>,
}

impl Report {
    /// Hosts reach each other without a deadlock.
    pub fn is_good(&self) -> bool {
        self.reach.host_faults == 0 && self.hosts.is_none()
    }
}

/// Judges a routing.
pub fn check(graph: &Graph, routing: &Routing) -> Report {
    let hosts = deadlock(graph, &[routing], Scope::Hosts);
    let all = match &hosts {
        Some(found) => Some(found.clone()),
        None => deadlock(graph, &[routing], Scope::All),
    };
    Report {
        reach: reach(graph, &routing.tables),
        balance: balance(graph, &routing.tables),
        hosts,
        all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Engine, Lanes, Options, ServiceLevels};
    use ferriband_topology::generate::generate;

    fn routed(engine: &str, shape: &str) -> (Graph, Routing) {
        let graph = Graph::from_topology(&generate(shape).unwrap(), 0).unwrap();
        let routing = (Engine::find(engine).unwrap().route)(&graph, &Options::default()).unwrap();
        (graph, routing)
    }

    /// LID of the first end port at a switch, and the port it is in.
    fn host_at(graph: &Graph, switch: u32) -> (u32, u8) {
        let mut ends = graph.ends().iter();
        let end = ends.find(|end| end.attached.is_some_and(|at| at.0 == switch));
        let end = end.unwrap();
        (end.lid, end.attached.unwrap().1)
    }

    #[test]
    fn good_tables_are_found_good() {
        let (graph, routing) = routed("minhop", "fat-tree:4x4x4");
        let found = check(&graph, &routing);
        assert!(found.is_good() && found.all.is_none());
        assert_eq!(found.reach.host_routes, 4 * 16);
        assert_eq!(found.reach.by_hops, [0, 16, 0, 48]);
        assert_eq!((found.balance.links, found.balance.idle), (32, 0));
        // each leaf has 12 foreign destinations on 4 ports, for 4 hosts
        assert_eq!((found.balance.least, found.balance.most), (12, 12));
    }

    #[test]
    fn planted_faults_are_found_and_named() {
        let (graph, good) = routed("minhop", "fat-tree:4x4x4");
        let (lid, port) = host_at(&graph, 0);
        let reach_with = |switch, port| {
            let mut tables = good.tables.clone();
            tables.set(switch, lid, port);
            reach(&graph, &tables)
        };
        let leaf = graph.switches()[0].guid;
        for (planted, wrong) in [
            (NO_PORT, Wrong::Dropped),
            (36, Wrong::Unplugged(36)),
            (0, Wrong::Misdelivered(0)),
            (port % 4 + 1, Wrong::Misdelivered(port % 4 + 1)),
        ] {
            let found = reach_with(0, planted);
            assert_eq!((found.host_faults, found.switch_faults), (4, 4));
            assert!(
                found
                    .faults
                    .iter()
                    .all(|fault| fault.at == leaf && fault.wrong == wrong)
            );
            assert!(found.faults[0].to_string().contains(&leaf.to_string()));
        }
        // up again where it should go down
        let found = reach_with(0, 5);
        assert!(found.host_faults > 1 && found.faults[0].wrong == Wrong::Round);
        // at another leaf, its own hosts alone are cut off
        let found = reach_with(1, NO_PORT);
        assert_eq!((found.host_faults, found.switch_faults), (1, 0));
    }

    #[test]
    fn a_second_lane_for_those_who_cross_a_line_breaks_a_ring() {
        let (graph, mut routing) = routed("minhop", "ring:5:1");
        let found = deadlock(&graph, &[&routing], Scope::Hosts).unwrap();
        assert_eq!(found.0.len(), 5);
        // those whose way goes over the link between the last switch and the first
        let n = graph.switches().len() as u32;
        let levels = (0..n * n).map(|pair| {
            let (from, to) = (pair / n, pair % n);
            u8::from(from.abs_diff(to) >= 3)
        });
        routing.levels = ServiceLevels::BySwitches(levels.collect());
        routing.lanes = Lanes::Modulo(2);
        assert_eq!(deadlock(&graph, &[&routing], Scope::All), None);
    }

    #[test]
    fn two_good_routings_may_deadlock_during_the_change() {
        let (graph, one) = routed("updn", "ring:5:1");
        let roots = vec![graph.switches()[2].guid];
        let options = Options {
            roots,
            ..Options::default()
        };
        let other = (Engine::find("updn").unwrap().route)(&graph, &options).unwrap();
        for routing in [&one, &other] {
            assert_eq!(deadlock(&graph, &[routing], Scope::All), None);
        }
        assert!(deadlock(&graph, &[&one, &other], Scope::All).is_some());
        assert_eq!(deadlock(&graph, &[&one, &one], Scope::All), None);
        // unless some of the packets are stopped for it, and not all
        let before = |routing: &Routing| Before {
            graph: graph.clone(),
            routing: routing.clone(),
        };
        let changes = change(&graph, &before(&one), &one.tables, &other);
        let hosts = graph.ends().len();
        assert!(!changes.lanes && (1..hosts).contains(&changes.stopped.len()));
        let same = change(&graph, &before(&one), &one.tables, &one);
        assert_eq!(same, Change::default());
        // a routing that has circles of its own is not made better by stopping anybody
        let (_, minhop) = routed("minhop", "ring:5:1");
        let worse = change(&graph, &before(&one), &one.tables, &minhop);
        assert_eq!(worse, Change::default());
    }
}
