//! LASH: shortest paths, each pair of switches in the first lane in which its two paths close no circle with those that are there (papers/000 section
//! II-E).
//!
//! Tables and the number of lanes are OpenSM's. Which pair is in which lane is not: OpenSM levels the lanes by moving pairs that it draws by lot, here they
//! are moved in their order.

use super::layers::{Channels, Layer, Wait};
use super::{Lanes, NO_PORT, Options, RouteError, Routing, ServiceLevels, Tables, updn};
use crate::graph::{Graph, Owner};

/// Lanes are level enough when the fullest has so many pairs more than the emptiest.
const LEVEL: u32 = 10;

pub(super) fn route(graph: &Graph, options: &Options) -> Result<Routing, RouteError> {
    let paths = Paths::new(graph);
    let levels = lanes(graph, &paths, options)?;
    let needed = levels.iter().max().map_or(1, |lane| lane + 1);
    let switches = graph.switches().len() as u32;
    let mut tables = Tables::new(graph);
    for switch in 0..switches {
        let row = tables.row_mut(switch);
        for lid in 1..=graph.top() {
            let Some(to) = graph.switch_of(lid) else {
                continue;
            };
            row[lid as usize] = match graph.owner(lid) {
                _ if to != switch => paths.port(switch, to),
                Owner::End(end) => graph.ends()[end as usize]
                    .attached
                    .map_or(NO_PORT, |at| at.1),
                _ => 0,
            };
        }
    }
    Ok(Routing {
        tables,
        levels: ServiceLevels::BySwitches(levels.into()),
        lanes: Lanes::Modulo(needed),
        lanes_needed: needed,
    })
}

/// For each switch and destination, the output.
struct Paths {
    switches: usize,
    ports: Vec<u8>,
    next: Vec<u32>,
}

impl Paths {
    /// From each switch in turn, breadth first: whoever lies on the way to another learns it, if it had not learnt one from an earlier switch.
    fn new(graph: &Graph) -> Self {
        let switches = graph.switches().len();
        let links: Vec<Vec<(u8, u32, u8)>> = (0..switches as u32)
            .map(|switch| graph.links(switch).collect())
            .collect();
        let mut ports = vec![NO_PORT; switches * switches];
        let mut next = vec![u32::MAX; switches * switches];
        let mut from = vec![u32::MAX; switches];
        let mut queue: Vec<u32> = Vec::with_capacity(switches);
        for root in 0..switches as u32 {
            from.fill(u32::MAX);
            queue.clear();
            queue.push(root);
            from[root as usize] = root;
            let mut at = 0;
            while let Some(&here) = queue.get(at) {
                at += 1;
                for &(_, there, _) in &links[here as usize] {
                    if from[there as usize] == u32::MAX {
                        from[there as usize] = here;
                        queue.push(there);
                    }
                }
            }
            for &to in &queue {
                let mut below = to;
                while below != root {
                    let here = from[below as usize];
                    let known = &mut next[here as usize * switches + to as usize];
                    if *known == u32::MAX {
                        *known = below;
                    }
                    below = here;
                }
            }
        }
        for (pair, &next) in next.iter().enumerate() {
            let mut links = links[pair / switches].iter();
            if let Some(link) = links.find(|link| link.1 == next) {
                ports[pair] = link.0;
            }
        }
        Self {
            switches,
            ports,
            next,
        }
    }

    fn port(&self, from: u32, to: u32) -> u8 {
        self.ports[from as usize * self.switches + to as usize]
    }

    /// Appends what waits for what on a path.
    fn waits(&self, channels: &Channels, from: u32, to: u32, waits: &mut Vec<Wait>) {
        let mut here = from;
        let mut last = None;
        while here != to {
            let port = self.port(here, to);
            if port == NO_PORT {
                return;
            }
            let channel = channels.of(here, port);
            waits.extend(last.map(|last| (last, channel, port)));
            last = Some(channel);
            here = self.next[here as usize * self.switches + to as usize];
        }
    }
}

/// The lane of each pair of switches.
fn lanes(graph: &Graph, paths: &Paths, options: &Options) -> Result<Vec<u8>, RouteError> {
    let switches = paths.switches as u32;
    let channels = Channels::new(graph);
    let empty = Layer::new(channels.order(graph, &updn::tree_heights(graph)));
    let mut layers: Vec<Layer> = Vec::new();
    let mut levels = vec![0_u8; paths.switches * paths.switches];
    let mut counts: Vec<u32> = Vec::new();
    let mut waits = Vec::new();
    let pairs = move || (0..switches).flat_map(move |a| (a + 1..switches).map(move |b| (a, b)));
    for (a, b) in pairs() {
        waits.clear();
        paths.waits(&channels, a, b, &mut waits);
        paths.waits(&channels, b, a, &mut waits);
        let mut lane = 0;
        loop {
            if lane == layers.len() {
                if lane == usize::from(options.lanes) {
                    return Err(RouteError::Lanes {
                        engine: "lash",
                        needed: lane as u32 + 1,
                        lanes: options.lanes,
                    });
                }
                layers.push(empty.clone());
                counts.push(0);
            }
            if layers[lane].admit(waits.iter().copied()) {
                break;
            }
            lane += 1;
        }
        counts[lane] += 1;
        for (a, b) in [(a, b), (b, a)] {
            levels[a as usize * paths.switches + b as usize] = lane as u8;
        }
    }
    // what a pair that moves away leaves behind in its old lane does no harm: that lane stays without a circle
    for (a, b) in pairs() {
        let (most, least) = (fullest(&counts), emptiest(&counts));
        let level = levels[a as usize * paths.switches + b as usize];
        if usize::from(level) != most || counts[most] - counts[least] < LEVEL {
            continue;
        }
        waits.clear();
        paths.waits(&channels, a, b, &mut waits);
        paths.waits(&channels, b, a, &mut waits);
        if layers[least].admit(waits.iter().copied()) {
            counts[most] -= 1;
            counts[least] += 1;
            for (a, b) in [(a, b), (b, a)] {
                levels[a as usize * paths.switches + b as usize] = least as u8;
            }
        }
    }
    Ok(levels)
}

fn fullest(counts: &[u32]) -> usize {
    (0..counts.len())
        .max_by_key(|&lane| counts[lane])
        .unwrap_or(0)
}

fn emptiest(counts: &[u32]) -> usize {
    (0..counts.len())
        .min_by_key(|&lane| counts[lane])
        .unwrap_or(0)
}
