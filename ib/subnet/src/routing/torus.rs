//! Torus-2QoS: one dimension after the other, the shorter way round each ring. Packets that pass a ring's dateline (between its last switch and its first) say so
//! in a bit of their service level, one for each dimension, and take another lane in that ring; so a torus of up to three dimensions needs two lanes
//! (OpenSM's doc/current-routing.txt).
//!
//! Tables, service levels and SL2VL tables are OpenSM's. How the torus is found differs: OpenSM is told its size and the first few switches, here it is read off the
//! cabling: on all switches the ports of one number must lead the same way.
//!
//! A ring with a broken link is gone round the other way. A switch that is missing is gone round by a turn out of order, whose next hop has lanes of
//! its own: that is safe for one missing switch, and for several next to each other in the last dimension.

use super::{LaneTable, Lanes, NO_PORT, Options, RouteError, Routing, ServiceLevels, Tables};
use crate::graph::{Graph, Peer};
use std::collections::BTreeMap;

/// Most dimensions: the service level has three bits for datelines; its fourth is the user's, for two levels of service.
const MOST: usize = 3;

/// Where a switch is, in units of switches.
type Place = [i32; MOST];

pub(super) fn route(graph: &Graph, options: &Options) -> Result<Routing, RouteError> {
    let torus = Torus::new(graph)?;
    let needed = if torus.dimensions.iter().any(|dimension| dimension.wraps) {
        2
    } else {
        1
    };
    if options.lanes < needed {
        return Err(RouteError::Lanes {
            engine: "torus-2qos",
            needed: needed.into(),
            lanes: options.lanes,
        });
    }
    let (tables, turns) = torus.tables()?;
    if turns && options.lanes < 4 {
        return Err(RouteError::Lanes {
            engine: "torus-2qos",
            needed: 4,
            lanes: options.lanes,
        });
    }
    Ok(Routing {
        tables,
        levels: ServiceLevels::BySwitches(torus.levels()),
        lanes: Lanes::Table(torus.lanes(options.lanes)),
        lanes_needed: if turns { 4 } else { needed },
        groups: 0,
    })
}

fn wrong(why: String) -> RouteError {
    RouteError::WrongShape {
        engine: "torus-2qos",
        wants: "tori and meshes of up to three dimensions",
        why,
    }
}

struct Dimension {
    size: i32,
    /// It is a ring, not a line.
    wraps: bool,
    /// Ports that lead forwards, and backwards.
    ports: [Vec<u8>; 2],
}

struct Torus<'a> {
    graph: &'a Graph,
    dimensions: Vec<Dimension>,
    /// Of each switch.
    places: Vec<Place>,
    /// Who is there.
    at: BTreeMap<Place, u32>,
}

impl<'a> Torus<'a> {
    fn new(graph: &'a Graph) -> Result<Self, RouteError> {
        let mut dimensions = dimensions(graph)?;
        let mut ways = [None; 256];
        for (dimension, about) in dimensions.iter().enumerate() {
            for (ports, step) in about.ports.iter().zip([1, -1]) {
                for &port in ports {
                    ways[usize::from(port)].get_or_insert((dimension, step));
                }
            }
        }
        let mut places: Vec<Option<Place>> = vec![None; graph.switches().len()];
        let mut queue = Vec::new();
        if let Some(first) = places.first_mut() {
            *first = Some([0; MOST]);
            queue.push(0);
        }
        // the first time round, switches get places as if rings were lines; where a ring closes, two places differ by its size
        let mut sizes = [0_i32; MOST];
        let mut next = 0;
        while let Some(&here) = queue.get(next) {
            next += 1;
            let Some(place) = places[here as usize] else {
                continue;
            };
            for (port, there, _) in graph.links(here) {
                let Some((dimension, step)) = ways[usize::from(port)] else {
                    continue;
                };
                let mut ahead = place;
                ahead[dimension] += step;
                match places[there as usize] {
                    None => {
                        places[there as usize] = Some(ahead);
                        queue.push(there);
                    }
                    Some(known) => {
                        for (size, (a, b)) in sizes.iter_mut().zip(ahead.iter().zip(known)) {
                            *size = greatest_divisor(*size, (a - b).abs());
                        }
                    }
                }
            }
        }
        let places: Option<Vec<Place>> = places.into_iter().collect();
        let mut places = places.ok_or_else(|| wrong("not all switches hang together".into()))?;
        for (dimension, about) in dimensions.iter_mut().enumerate() {
            about.wraps = sizes[dimension] > 1;
            let along = || places.iter().map(|place| place[dimension]);
            let least = along().min().unwrap_or(0);
            let span = along().max().unwrap_or(0) - least + 1;
            about.size = if about.wraps { sizes[dimension] } else { span };
            if sizes[dimension] == 1 {
                return Err(wrong(
                    "ports of one number do not lead the same way on all switches".into(),
                ));
            }
            for place in &mut places {
                let at = &mut place[dimension];
                *at = if about.wraps {
                    at.rem_euclid(about.size)
                } else {
                    *at - least
                };
            }
        }
        let mut at = BTreeMap::new();
        for (switch, &place) in (0_u32..).zip(&places) {
            if let Some(other) = at.insert(place, switch) {
                let guid = |switch: u32| graph.switches()[switch as usize].guid;
                let why = format!(
                    "switches {} and {} are in one place",
                    guid(other),
                    guid(switch)
                );
                return Err(wrong(why));
            }
        }
        Ok(Self {
            graph,
            dimensions,
            places,
            at,
        })
    }

    /// The next switch from a place along a dimension, if there is one with a link to it.
    fn neighbour(&self, place: Place, dimension: usize, forwards: bool) -> Option<u32> {
        let here = *self.at.get(&place)?;
        let about = &self.dimensions[dimension];
        let mut ports = about.ports[usize::from(!forwards)].iter();
        ports.find_map(|&port| match self.graph.peer(here, port) {
            Peer::Switch { switch, .. } if switch != here => Some(switch),
            _ => None,
        })
    }

    /// Whether the way to a coordinate goes forwards, and whether it passes the dateline.
    fn shorter(&self, dimension: usize, from: i32, to: i32) -> (bool, bool) {
        let about = &self.dimensions[dimension];
        let straight = (from - to).abs();
        let passes = about.wraps && about.size - straight < straight;
        ((to > from) != passes, passes)
    }

    /// Whether links lead from a place to another along a dimension.
    fn leads(&self, from: Place, to: Place, dimension: usize, forwards: bool) -> bool {
        let mut here = from;
        for _ in 0..self.dimensions[dimension].size {
            match self.neighbour(here, dimension, forwards) {
                Some(next) => here = self.places[next as usize],
                None => return false,
            }
            if here == to {
                return true;
            }
        }
        false
    }

    /// Which way a packet goes on: dimension, and forwards or not. `turned` is set if dimensions come out of order.
    fn step(&self, from: u32, to: u32, turned: &mut bool) -> Option<(usize, bool)> {
        let (here, there) = (self.places[from as usize], self.places[to as usize]);
        for dimension in 0..self.dimensions.len() {
            if here[dimension] == there[dimension] {
                continue;
            }
            let (forwards, _) = self.shorter(dimension, here[dimension], there[dimension]);
            let mut corner = here;
            corner[dimension] = there[dimension];
            if self.at.contains_key(&corner) {
                let ways = [forwards, !forwards].into_iter();
                let mut ways = ways.filter(|&way| self.leads(here, corner, dimension, way));
                match ways.next() {
                    Some(way) => return Some((dimension, way)),
                    // it may be cut off in its ring: the next dimension leads round
                    None => *turned = true,
                }
                continue;
            }
            // nobody is at the corner: as near to it as possible, then on in the next dimension
            *turned = true;
            if self.neighbour(here, dimension, forwards).is_some() {
                return Some((dimension, forwards));
            }
        }
        None
    }

    fn tables(&self) -> Result<(Tables, bool), RouteError> {
        let graph = self.graph;
        let switches = graph.switches().len() as u32;
        let mut tables = Tables::new(graph);
        let mut turns = false;
        // parallel links take turns, for hosts and switches apart
        let mut turn: BTreeMap<(u32, usize, bool, bool), usize> = BTreeMap::new();
        for to in 0..switches {
            let switch = &graph.switches()[to as usize];
            let own = [(0, switch.lid, switch.lmc, false)].into_iter();
            let ends = (0_u8..=254)
                .zip(&switch.ports)
                .filter_map(|(port, peer)| match *peer {
                    Peer::End(end) => {
                        let end = &graph.ends()[end as usize];
                        Some((port, end.lid, end.lmc, true))
                    }
                    _ => None,
                });
            let targets: Vec<(u8, u32, u8, bool)> = own.chain(ends).collect();
            for from in 0..switches {
                let way = if from == to {
                    None
                } else {
                    self.step(from, to, &mut turns)
                };
                for &(port, lid, lmc, is_end) in &targets {
                    let port = match way {
                        None if from == to => port,
                        None => NO_PORT,
                        Some((dimension, forwards)) => {
                            let ports = &self.dimensions[dimension].ports[usize::from(!forwards)];
                            let plugged = |port: &&u8| {
                                matches!(graph.peer(from, **port), Peer::Switch { .. })
                            };
                            let count = ports.iter().filter(plugged).count();
                            let turn = turn.entry((from, dimension, forwards, is_end)).or_default();
                            *turn += 1;
                            let mut ports = ports.iter().filter(plugged);
                            ports
                                .nth((*turn - 1) % count.max(1))
                                .copied()
                                .unwrap_or(NO_PORT)
                        }
                    };
                    if port == NO_PORT && is_end {
                        return Err(RouteError::NoRoute {
                            engine: "torus-2qos",
                            from: graph.switches()[from as usize].guid,
                            to: switch.guid,
                        });
                    }
                    for lid in lid..lid + (1 << lmc) {
                        tables.set(from, lid, port);
                    }
                }
            }
        }
        Ok((tables, turns))
    }

    /// A bit for each dimension in which the way passes the dateline.
    fn levels(&self) -> Box<[u8]> {
        let mut levels = Vec::new();
        for from in &self.places {
            levels.extend(self.places.iter().map(|to| {
                let bits = (0..self.dimensions.len()).map(|dimension| {
                    let (_, passes) = self.shorter(dimension, from[dimension], to[dimension]);
                    u8::from(passes) << dimension
                });
                bits.sum::<u8>()
            }));
        }
        levels.into()
    }

    /// Lane bit 0: the dateline of the output's dimension; 1: a turn out of order; 2: the level of service. To hosts, the level of service alone.
    fn lanes(&self, lanes: u8) -> LaneTable {
        let service = |level: u8| level >> 3 & 1;
        let of_levels = |lane: &dyn Fn(u8) -> u8| std::array::from_fn(|level| lane(level as u8));
        let host = of_levels(&|level| if lanes >= 2 { service(level) } else { 0 });
        let mut table = LaneTable::new(self.graph, host);
        let mut ways = [None; 256];
        for (dimension, about) in self.dimensions.iter().enumerate() {
            for port in about.ports.iter().flatten() {
                ways[usize::from(*port)] = Some(dimension);
            }
        }
        for (index, switch) in (0_u32..).zip(self.graph.switches()) {
            let links: Vec<u8> = self.graph.links(index).map(|(port, ..)| port).collect();
            let way = |port: u8| {
                links
                    .contains(&port)
                    .then(|| ways[usize::from(port)])
                    .flatten()
            };
            for output in 0..switch.ports.len() as u8 {
                let Some(out) = way(output) else { continue };
                for input in 0..switch.ports.len() as u8 {
                    let turns = way(input).is_some_and(|dimension| dimension > out);
                    *table.entry_mut(index, input, output) = of_levels(&|level| {
                        let bits = [
                            (2, level >> out & 1),
                            (4, u8::from(turns) << 1),
                            (8, service(level) << 2),
                        ];
                        let bits = bits.iter().filter(|(needs, _)| lanes >= *needs);
                        bits.map(|(_, bit)| bit).sum()
                    });
                }
            }
        }
        table
    }
}

fn greatest_divisor(a: i32, b: i32) -> i32 {
    if b == 0 {
        a
    } else {
        greatest_divisor(b, a % b)
    }
}

/// Which ports lead along which dimension, read off which port faces which.
fn dimensions(graph: &Graph) -> Result<Vec<Dimension>, RouteError> {
    let mut facing = [None; 256];
    for switch in 0..graph.switches().len() as u32 {
        for (port, _, there) in graph.links(switch) {
            for (port, there) in [(port, there), (there, port)] {
                if *facing[usize::from(port)].get_or_insert(there) != there {
                    let guid = graph.switches()[switch as usize].guid;
                    return Err(wrong(format!(
                        "port {port} of switch {guid} faces port {there}, elsewhere it faces another"
                    )));
                }
            }
        }
    }
    let mut dimensions: Vec<Dimension> = Vec::new();
    for (port, there) in (0_u8..=255).zip(facing) {
        let Some(there) = there.filter(|there| *there >= port) else {
            continue;
        };
        let known = dimensions.iter_mut().find_map(|known| {
            let [forwards, backwards] = [0, 1].map(|way| known.ports[way][0]);
            let along = |other: u8| parallel(graph, forwards, backwards, other);
            if along(port) {
                Some((known, [port, there]))
            } else if along(there) {
                Some((known, [there, port]))
            } else {
                None
            }
        });
        match known {
            Some((known, ports)) => {
                for (known, port) in known.ports.iter_mut().zip(ports) {
                    known.push(port);
                }
            }
            None => dimensions.push(Dimension {
                size: 0,
                wraps: false,
                ports: [vec![port], vec![there]],
            }),
        }
    }
    if dimensions.len() > MOST {
        return Err(wrong(format!("it has {} dimensions", dimensions.len())));
    }
    Ok(dimensions)
}

/// Whether two ports lead to the same switch wherever both are plugged, and that is not the switch which the first one's opposite leads to.
fn parallel(graph: &Graph, forwards: u8, backwards: u8, other: u8) -> bool {
    let to = |switch: u32, port: u8| match graph.peer(switch, port) {
        Peer::Switch { switch, .. } => Some(switch),
        _ => None,
    };
    let mut both = (0..graph.switches().len() as u32)
        .filter_map(|switch| {
            Some((
                to(switch, forwards)?,
                to(switch, other)?,
                to(switch, backwards),
            ))
        })
        .peekable();
    both.peek().is_some() && both.all(|(a, b, back)| a == b && back != Some(b))
}
