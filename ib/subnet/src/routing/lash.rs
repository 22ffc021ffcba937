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
        groups: 0,
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

/// How much may be searched for pairs of which one has no hosts, and to make lanes level, in channels that are looked at: some seconds.
const PATIENCE: u64 = 400_000_000;

/// The lane of each pair of switches.
///
/// In the order of the pairs it takes the lanes that OpenSM takes, but long in large trees, where ways between switches without hosts go down and up again. So, unless that is done soon, pairs with hosts
/// come first; between other switches only a manager's own packets go. The better of the two counts.
fn lanes(graph: &Graph, paths: &Paths, options: &Options) -> Result<Vec<u8>, RouteError> {
    let hosts = graph.hosts();
    let empty = Layer::new(Channels::new(graph).order(graph, &updn::tree_heights(graph)));
    let making = || Making {
        empty: &empty,
        paths,
        channels: Channels::new(graph),
        layers: Vec::new(),
        counts: Vec::new(),
        levels: vec![0_u8; paths.switches * paths.switches],
        waits: Vec::new(),
        most: usize::from(options.lanes),
    };
    let everybody = hosts.iter().all(|hosts| *hosts > 0);
    let patience = if everybody { u64::MAX } else { PATIENCE / 4 };
    let in_order = making().in_order(patience);
    let made = match in_order {
        Some(made) if everybody || made.layers.len() < 2 => Some(made),
        Some(made) => {
            let other = making().hosts_first(&hosts);
            Some(
                other
                    .filter(|other| other.layers.len() < made.layers.len())
                    .unwrap_or(made),
            )
        }
        None if everybody => None,
        None => making().hosts_first(&hosts),
    };
    let made = made.ok_or(RouteError::Lanes {
        engine: "lash",
        needed: u32::from(options.lanes) + 1,
        lanes: options.lanes,
    })?;
    Ok(made.levelled())
}

/// Lanes that are being filled.
struct Making<'a> {
    paths: &'a Paths,
    channels: Channels,
    empty: &'a Layer,
    layers: Vec<Layer>,
    counts: Vec<u32>,
    levels: Vec<u8>,
    waits: Vec<Wait>,
    most: usize,
}

impl Making<'_> {
    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let switches = self.paths.switches as u32;
        (0..switches).flat_map(move |a| (a + 1..switches).map(move |b| (a, b)))
    }

    /// One pair after the other; None if there are too few lanes, or too little patience.
    fn in_order(mut self, patience: u64) -> Option<Self> {
        for (a, b) in self.pairs() {
            if !self.place(a, b) || self.work() > patience {
                return None;
            }
        }
        Some(self)
    }

    /// Pairs with hosts, which must find a lane; then those that agree with the order of a lane; then the rest, as long as there is patience. Who is left then stays in the first lane, as with DFSSSP.
    fn hosts_first(mut self, hosts: &[u32]) -> Option<Self> {
        let served = |a: u32, b: u32| hosts[a as usize] > 0 && hosts[b as usize] > 0;
        for (a, b) in self.pairs().filter(|(a, b)| served(*a, *b)) {
            if !self.place(a, b) {
                return None;
            }
        }
        let mut rest = Vec::new();
        for (a, b) in self.pairs().filter(|(a, b)| !served(*a, *b)) {
            if !self.agree(a, b) {
                rest.push((a, b));
            }
        }
        let before = self.work();
        for (a, b) in rest {
            if self.work() - before > PATIENCE || !self.place(a, b) {
                self.settle(a, b, 0);
            }
        }
        Some(self)
    }

    /// What a pair that moves away leaves behind in its old lane does no harm: that lane stays without a circle.
    fn levelled(mut self) -> Vec<u8> {
        let before = self.work();
        for (a, b) in self.pairs() {
            if self.counts.len() < 2 || self.work() - before > PATIENCE {
                break;
            }
            self.level(a, b);
        }
        self.levels
    }

    /// What the two ways between a pair wait for.
    fn follow(&mut self, a: u32, b: u32) {
        self.waits.clear();
        self.paths.waits(&self.channels, a, b, &mut self.waits);
        self.paths.waits(&self.channels, b, a, &mut self.waits);
    }

    fn work(&self) -> u64 {
        self.layers.iter().map(Layer::work).sum()
    }

    fn settle(&mut self, a: u32, b: u32, lane: usize) {
        if let Some(count) = self.counts.get_mut(lane) {
            *count += 1;
        }
        for (a, b) in [(a, b), (b, a)] {
            self.levels[a as usize * self.paths.switches + b as usize] = lane as u8;
        }
    }

    /// Puts a pair into the first lane that takes it, or a new one; false if there is none.
    fn place(&mut self, a: u32, b: u32) -> bool {
        self.follow(a, b);
        let waits = self.waits.iter().copied();
        let mut fits = self
            .layers
            .iter_mut()
            .position(|layer| layer.admit(waits.clone()));
        if fits.is_none() && self.layers.len() < self.most {
            let mut layer = self.empty.clone();
            if layer.admit(waits) {
                self.layers.push(layer);
                self.counts.push(0);
                fits = Some(self.layers.len() - 1);
            }
        }
        fits.inspect(|lane| self.settle(a, b, *lane)).is_some()
    }

    /// Puts a pair into a lane with whose order it agrees; false if there is none.
    fn agree(&mut self, a: u32, b: u32) -> bool {
        self.follow(a, b);
        let waits = &self.waits;
        let mut fits = self.layers.iter().position(|layer| layer.agrees(waits));
        if self.layers.is_empty() && self.empty.agrees(waits) {
            self.layers.push(self.empty.clone());
            self.counts.push(0);
            fits = Some(0);
        }
        let Some(lane) = fits else { return false };
        self.layers[lane].admit(self.waits.iter().copied());
        self.settle(a, b, lane);
        true
    }

    /// Moves a pair from the fullest lane to the emptiest, if that takes it.
    fn level(&mut self, a: u32, b: u32) {
        let (most, least) = (fullest(&self.counts), emptiest(&self.counts));
        let level = self.levels[a as usize * self.paths.switches + b as usize];
        if usize::from(level) != most || self.counts[most] - self.counts[least] < LEVEL {
            return;
        }
        self.follow(a, b);
        if self.layers[least].admit(self.waits.iter().copied()) {
            self.counts[most] -= 1;
            self.settle(a, b, least);
        }
    }
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
