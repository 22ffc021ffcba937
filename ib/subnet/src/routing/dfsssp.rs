//! DFSSSP: shortest paths by Dijkstra from each destination, over links that weigh the more the more paths use them already; then each path goes into
//! the first lane in which it closes no circle (J. Domke, T. Hoefler, W. Nagel, Deadlock-free oblivious routing for arbitrary topologies, 2011).
//!
//! The tables are OpenSM's, for which equally long ways must be met in the order of its heap. The lanes are not: OpenSM puts all paths into one lane
//! and moves some out of each circle that it finds; to fill lanes one after the other needs as many or fewer.

use super::layers::{Channels, Layer, Wait};
use super::{Lanes, NO_PORT, Options, RouteError, Routing, ServiceLevels, Tables, updn};
use crate::graph::{Graph, Owner, Peer};
use std::cmp::Reverse;

pub(super) fn route(graph: &Graph, options: &Options) -> Result<Routing, RouteError> {
    let tables = tables(graph);
    let (levels, needed) = lanes(graph, &tables, options)?;
    Ok(Routing {
        tables,
        levels: ServiceLevels::ByLid(levels.into()),
        lanes: Lanes::Modulo(needed),
        lanes_needed: needed,
        groups: 0,
    })
}

/// A direction of a link between switches, as a search from a destination meets it: against the packets.
struct Link {
    from: u32,
    to: u32,
    /// The port at `to`: packets leave by it.
    port: u8,
    weight: u64,
}

const NO_LINK: u32 = u32::MAX;
const FAR: u64 = u64::MAX;

fn tables(graph: &Graph) -> Tables {
    let switches = graph.switches().len() as u32;
    let lids = |lmc: u8| 1_u64 << lmc;
    // end ports and port 0, by LIDs
    let mut ends: Vec<u64> = graph
        .switches()
        .iter()
        .map(|switch| lids(switch.lmc))
        .collect();
    for end in graph.ends() {
        if let Some((switch, _)) = end.attached {
            ends[switch as usize] += lids(end.lmc);
        }
    }
    let all: u64 = ends.iter().sum();
    let (mut links, mut begin) = (Vec::new(), vec![0_usize]);
    for from in 0..switches {
        links.extend(graph.links(from).map(|(_, to, port)| Link {
            from,
            to,
            port,
            // so heavy that no sum of loads makes a detour worth while
            weight: all * all,
        }));
        begin.push(links.len());
    }
    let mut order: Vec<u32> = (0..switches).collect();
    order.sort_by_key(|&switch| Reverse(ends[switch as usize]));
    let mut tables = Tables::new(graph);
    let mut search = Search::new(switches);
    for &home in &order {
        for peer in &graph.switches()[home as usize].ports {
            let Peer::End(end) = *peer else { continue };
            let end = &graph.ends()[end as usize];
            let port = end.attached.map_or(NO_PORT, |at| at.1);
            for lid in end.lid..end.lid + (1 << end.lmc) {
                search.run(&links, &begin, home, true);
                search.fill(&mut tables, &mut links, &ends, lid);
                tables.set(home, lid, port);
            }
        }
    }
    for &home in &order {
        let switch = &graph.switches()[home as usize];
        for lid in switch.lid..switch.lid + (1 << switch.lmc) {
            search.run(&links, &begin, home, false);
            search.fill(&mut tables, &mut links, &ends, lid);
            tables.set(home, lid, 0);
        }
    }
    tables
}

/// Dijkstra from one destination to all switches.
struct Search {
    switches: u32,
    distance: Vec<u64>,
    used: Vec<u32>,
    done: Vec<bool>,
    heap: Heap,
}

impl Search {
    fn new(switches: u32) -> Self {
        let count = switches as usize + 1;
        Self {
            switches,
            distance: vec![FAR; count],
            used: vec![NO_LINK; count],
            done: vec![false; count],
            heap: Heap {
                entries: Vec::with_capacity(count),
                places: vec![0; count],
            },
        }
    }

    /// From an end port at a switch (it is the last vertex then), or from the switch itself.
    fn run(&mut self, links: &[Link], begin: &[usize], home: u32, from_end: bool) {
        let count = self.switches + u32::from(from_end);
        self.distance.fill(FAR);
        self.used.fill(NO_LINK);
        self.done.fill(false);
        self.heap.entries.clear();
        for vertex in 0..count {
            self.heap.push(FAR, vertex);
        }
        let source = if from_end { self.switches } else { home };
        self.distance[source as usize] = 0;
        self.heap.lower(source, 0);
        while let Some((distance, here)) = self.heap.pop() {
            self.done[here as usize] = true;
            if distance == FAR {
                continue;
            }
            if here == self.switches {
                self.distance[home as usize] = 1;
                self.heap.lower(home, 1);
                continue;
            }
            let span = begin[here as usize]..begin[here as usize + 1];
            for (index, link) in span.clone().zip(&links[span]) {
                let far = distance + link.weight;
                if !self.done[link.to as usize] && far < self.distance[link.to as usize] {
                    self.distance[link.to as usize] = far;
                    self.used[link.to as usize] = index as u32;
                    self.heap.lower(link.to, far);
                }
            }
        }
    }

    /// Writes what was found, and puts the paths' weight on the links.
    fn fill(&self, tables: &mut Tables, links: &mut [Link], ends: &[u64], lid: u32) {
        for switch in 0..self.switches {
            let mut link = self.used[switch as usize];
            if link == NO_LINK {
                continue;
            }
            tables.set(switch, lid, links[link as usize].port);
            while link != NO_LINK {
                let about = &mut links[link as usize];
                about.weight += ends[switch as usize];
                link = self.used[about.from as usize];
            }
        }
    }
}

/// A heap with four children to a node. Which of equal keys comes out first decides which of equally long ways is taken.
struct Heap {
    entries: Vec<(u64, u32)>,
    places: Vec<u32>,
}

impl Heap {
    fn push(&mut self, key: u64, vertex: u32) {
        self.places[vertex as usize] = self.entries.len() as u32;
        self.entries.push((key, vertex));
        self.rise(self.entries.len() - 1);
    }

    /// Gives a vertex a smaller key.
    fn lower(&mut self, vertex: u32, key: u64) {
        let at = self.places[vertex as usize] as usize;
        self.entries[at].0 = key;
        self.rise(at);
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let above = (at - 1) / 4;
            if self.entries[above].0 <= entry.0 {
                break;
            }
            self.put(at, self.entries[above]);
            at = above;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (u64, u32)) {
        self.entries[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        let last = self.entries.pop()?;
        let Some(&first) = self.entries.first() else {
            return Some(last);
        };
        let mut at = 0;
        loop {
            let below = 4 * at + 1;
            let children = self.entries.iter().enumerate().skip(below).take(4);
            // the last of the smallest
            let least = children.min_by_key(|(place, entry)| (entry.0, Reverse(*place)));
            let Some((place, &entry)) = least else { break };
            if last.0 <= entry.0 {
                break;
            }
            self.put(at, entry);
            at = place;
        }
        self.put(at, last);
        Some(first)
    }
}

/// The lane of each path, by its first switch and its LID; and how many there are.
fn lanes(graph: &Graph, tables: &Tables, options: &Options) -> Result<(Vec<u8>, u8), RouteError> {
    let hosts = graph.hosts();
    let channels = Channels::new(graph);
    let empty = Layer::new(channels.order(graph, &updn::tree_heights(graph)));
    let mut layers = vec![empty.clone()];
    let mut levels = vec![0_u8; graph.switches().len() * tables.width()];
    let mut waits: Vec<Wait> = Vec::new();
    // packets from and to port 0 of switches stay in the first lane, as with OpenSM: they are not worth lanes, nor the time to find out
    let ends = (1..=graph.top()).filter(|lid| matches!(graph.owner(*lid), Owner::End(_)));
    for lid in ends {
        for from in 0..graph.switches().len() as u32 {
            if hosts[from as usize] == 0 {
                continue;
            }
            waits.clear();
            follow(graph, tables, &channels, from, lid, &mut waits);
            let fits = layers
                .iter_mut()
                .position(|layer| layer.admit(waits.iter().copied()));
            let lane = match fits {
                Some(lane) => lane,
                None if layers.len() == usize::from(options.lanes) => {
                    return Err(RouteError::Lanes {
                        engine: "dfsssp",
                        needed: layers.len() as u32 + 1,
                        lanes: options.lanes,
                    });
                }
                None => {
                    let mut layer = empty.clone();
                    layer.admit(waits.iter().copied());
                    layers.push(layer);
                    layers.len() - 1
                }
            };
            levels[from as usize * tables.width() + lid as usize] = lane as u8;
        }
    }
    Ok((levels, layers.len() as u8))
}

/// What waits for what on a path.
fn follow(
    graph: &Graph,
    tables: &Tables,
    channels: &Channels,
    from: u32,
    lid: u32,
    waits: &mut Vec<Wait>,
) {
    let (mut here, mut last) = (from, None);
    for _ in 0..graph.switches().len() {
        let port = tables.port(here, lid);
        let Peer::Switch { switch, .. } = graph.peer(here, port) else {
            return;
        };
        let channel = channels.of(here, port);
        waits.extend(last.map(|last| (last, channel, port)));
        last = Some(channel);
        here = switch;
    }
}
