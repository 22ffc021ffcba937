//! A second judge of tables, which shares nothing with `check` but its subject: it walks every route by itself, one at a time.
//!
//! Of packets between hosts it says who does not arrive, how many links each route passes, how many routes each link carries, and which lane of a link waits for which.

use ferriband_subnet::check::{Channel, Loop};
use ferriband_subnet::graph::{Graph, Peer};
use ferriband_subnet::routing::{NO_PORT, Routing};

/// What it found.
#[derive(Debug)]
pub struct Verdict {
    /// Routes from a switch with hosts to a host's LID that do not arrive.
    pub lost: u64,
    /// The others by links passed, that to the host included.
    pub by_hops: Vec<u64>,
    /// Of each direction of a link between switches, the pairs of hosts whose packets pass it.
    pub loads: Vec<u64>,
    numbers: Numbers,
    /// For each channel those that its packets can wait for.
    waits: Vec<Vec<u32>>,
}

/// Lanes that a port can have.
const LANES: u32 = 16;

/// Channels (switch, port, lane) as numbers.
#[derive(Debug)]
struct Numbers(Vec<u32>);

impl Numbers {
    fn of(graph: &Graph) -> Self {
        let mut begin = vec![0];
        for switch in graph.switches() {
            begin.push(begin[begin.len() - 1] + switch.ports.len() as u32);
        }
        Self(begin)
    }

    fn channel(&self, switch: u32, port: u8, lane: u8) -> u32 {
        (self.0[switch as usize] + u32::from(port)) * LANES + u32::from(lane)
    }

    fn all(&self) -> usize {
        (self.0[self.0.len() - 1] * LANES) as usize
    }
}

/// Judges a routing.
pub fn judge(graph: &Graph, routing: &Routing) -> Verdict {
    let numbers = Numbers::of(graph);
    let mut plugs = vec![Vec::new(); graph.switches().len()];
    for (switch, port) in graph.ends().iter().filter_map(|end| end.attached) {
        plugs[switch as usize].push(port);
    }
    let mut found = Verdict {
        lost: 0,
        by_hops: Vec::new(),
        loads: Vec::new(),
        waits: vec![Vec::new(); numbers.all()],
        numbers,
    };
    let mut loads = vec![0; found.waits.len() / LANES as usize];
    let mut way = Vec::new();
    for end in graph.ends() {
        let Some(home) = end.attached else { continue };
        for lid in end.lid..end.lid + (1 << end.lmc) {
            for (from, inputs) in (0..).zip(&plugs).filter(|(_, inputs)| !inputs.is_empty()) {
                if !walk(graph, routing, from, lid, home, &mut way) {
                    found.lost += 1;
                    continue;
                }
                let hops = way.len() + 1;
                found.by_hops.resize(found.by_hops.len().max(hops + 1), 0);
                found.by_hops[hops] += 1;
                // nobody sends to itself
                let pairs = inputs.len() as u64 - u64::from(from == home.0);
                for &(switch, port, _) in &way {
                    loads[(found.numbers.channel(switch, port, 0) / LANES) as usize] += pairs;
                }
                found.held(graph, routing, lid, inputs, &way);
            }
        }
    }
    let links = (0..graph.switches().len() as u32).flat_map(|switch| {
        let ports = graph.links(switch);
        ports.map(move |(port, ..)| (switch, port))
    });
    found.loads = links
        .map(|(switch, port)| loads[(found.numbers.channel(switch, port, 0) / LANES) as usize])
        .collect();
    found
}

/// The route from the hosts of a switch to the port `home`: each switch on the way, the port by which it is left, and that by which the next one is entered. False if it does not arrive.
fn walk(
    graph: &Graph,
    routing: &Routing,
    from: u32,
    lid: u32,
    home: (u32, u8),
    way: &mut Vec<(u32, u8, u8)>,
) -> bool {
    way.clear();
    let mut here = from;
    while way.len() <= graph.switches().len() {
        let port = routing.tables.port(here, lid);
        if (here, port) == home {
            return true;
        }
        match graph.peer(here, port) {
            Peer::Switch { switch, port: back } if port != NO_PORT => {
                way.push((here, port, back));
                here = switch;
            }
            _ => return false,
        }
    }
    false
}

impl Verdict {
    /// Notes which channels a packet that is on its way holds while it wants the next.
    fn held(
        &mut self,
        graph: &Graph,
        routing: &Routing,
        lid: u32,
        inputs: &[u8],
        way: &[(u32, u8, u8)],
    ) {
        let Some(&(from, ..)) = way.first() else {
            return;
        };
        let level = routing.level(graph, from, lid);
        // by which ports packets can have come, and what they hold
        let mut inputs = inputs.to_vec();
        let mut held: Vec<u32> = Vec::new();
        for &(switch, port, back) in way {
            let mut wanted = Vec::new();
            for input in inputs {
                let lane = routing.lanes.at(switch, input, port, level);
                wanted.push(self.numbers.channel(switch, port, lane));
            }
            wanted.sort_unstable();
            wanted.dedup();
            for channel in held {
                let waits = &mut self.waits[channel as usize];
                for &next in &wanted {
                    if !waits.contains(&next) {
                        waits.push(next);
                    }
                }
            }
            held = wanted;
            inputs = vec![back];
        }
    }

    /// Whether some channels wait for each other in a circle: whether any is left when those that wait for none are taken away again and again.
    pub fn may_block(&self) -> bool {
        let mut asked = vec![0_u32; self.waits.len()];
        for &next in self.waits.iter().flatten() {
            asked[next as usize] += 1;
        }
        let mut free: Vec<u32> = (0..).take(self.waits.len()).collect();
        free.retain(|channel| asked[*channel as usize] == 0);
        let mut gone = 0;
        while let Some(channel) = free.pop() {
            gone += 1;
            for &next in &self.waits[channel as usize] {
                asked[next as usize] -= 1;
                if asked[next as usize] == 0 {
                    free.push(next);
                }
            }
        }
        gone < self.waits.len()
    }

    /// Whether a circle that the other judge names is one here, too.
    pub fn knows(&self, graph: &Graph, circle: &Loop) -> bool {
        let number = |channel: &Channel| {
            let mut switches = graph.switches().iter();
            let switch = switches.position(|switch| switch.guid == channel.switch);
            let switch = switch.expect("a switch of this subnet") as u32;
            self.numbers.channel(switch, channel.port, channel.lane)
        };
        let circle: Vec<u32> = circle.0.iter().map(number).collect();
        let after = circle.iter().cycle().skip(1);
        let mut pairs = circle.iter().zip(after);
        !circle.is_empty() && pairs.all(|(one, next)| self.waits[*one as usize].contains(next))
    }
}

/// Routes between hosts by links passed, if all are the shortest that there are: what breadth first says of the cables alone.
pub fn shortest(graph: &Graph) -> Vec<u64> {
    let hosts = graph.hosts();
    let mut by_hops = Vec::new();
    for from in (0..graph.switches().len() as u32).filter(|switch| hosts[*switch as usize] > 0) {
        let mut links = vec![usize::MAX; hosts.len()];
        links[from as usize] = 0;
        let mut order = vec![from];
        let mut next = 0;
        while let Some(&here) = order.get(next) {
            next += 1;
            for (_, there, _) in graph.links(here) {
                if links[there as usize] == usize::MAX {
                    links[there as usize] = links[here as usize] + 1;
                    order.push(there);
                }
            }
        }
        for (links, &hosts) in links.iter().zip(&hosts) {
            if *links < usize::MAX && hosts > 0 {
                by_hops.resize(by_hops.len().max(links + 2), 0);
                by_hops[links + 1] += u64::from(hosts);
            }
        }
    }
    by_hops
}
