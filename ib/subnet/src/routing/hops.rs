//! How far each switch is from each, and which of its ports lead there: along shortest paths, or along paths that go up first and down then.

use crate::graph::{Graph, Peer};

/// No path.
const NONE: u8 = u8::MAX;
/// Set in a distance of [`Hops::directed`]: from here the path goes down only.
const DOWN: u8 = 0x80;

/// Switches next to each switch, each of them once.
pub(super) struct Neighbours {
    begin: Vec<u32>,
    switches: Vec<u32>,
}

impl Neighbours {
    pub(super) fn new(graph: &Graph) -> Self {
        let (mut begin, mut switches) = (vec![0], Vec::new());
        for switch in 0..graph.switches().len() as u32 {
            let first = switches.len();
            switches.extend(graph.links(switch).map(|(_, there, _)| there));
            switches[first..].sort_unstable();
            let mut kept = first;
            for at in first..switches.len() {
                if at == first || switches[at] != switches[kept - 1] {
                    switches[kept] = switches[at];
                    kept += 1;
                }
            }
            switches.truncate(kept);
            begin.push(kept as u32);
        }
        Self { begin, switches }
    }

    pub(super) fn of(&self, switch: u32) -> &[u32] {
        let at = switch as usize;
        &self.switches[self.begin[at] as usize..self.begin[at + 1] as usize]
    }
}

/// Distances, and by them the ports that may be taken.
pub(super) struct Hops {
    switches: usize,
    /// By destination, then switch.
    costs: Vec<u8>,
    /// Where only some directions are allowed: for each switch, how high it stands; higher is up. All differ.
    heights: Option<Vec<u32>>,
}

impl Hops {
    /// Shortest paths.
    pub(super) fn shortest(graph: &Graph) -> Self {
        let switches = graph.switches().len();
        let neighbours = Neighbours::new(graph);
        let mut costs = vec![NONE; switches * switches];
        let mut queue = Vec::with_capacity(switches);
        for (to, costs) in costs.chunks_exact_mut(switches.max(1)).enumerate() {
            queue.clear();
            queue.push(to as u32);
            costs[to] = 0;
            let mut next = 0;
            while let Some(&here) = queue.get(next) {
                next += 1;
                let cost = costs[here as usize] + 1;
                if cost == NONE {
                    break;
                }
                for &there in neighbours.of(here) {
                    if costs[there as usize] == NONE {
                        costs[there as usize] = cost;
                        queue.push(there);
                    }
                }
            }
        }
        Self {
            switches,
            costs,
            heights: None,
        }
    }

    /// Shortest of the paths that go up first and then down, in a way that forwarding by destination keeps: a switch that goes up to a
    /// destination lies on nobody's way down to it. `heights`: no two alike.
    ///
    /// From each destination outwards, by distance: who is one hop above a switch that goes down may go down as well; who is below one may go up to
    /// it, however it goes on. Of two equally short ways, down.
    pub(super) fn directed(graph: &Graph, heights: Vec<u32>) -> Self {
        let switches = graph.switches().len();
        let neighbours = Neighbours::new(graph);
        let mut costs = vec![NONE; switches * switches];
        let (mut level, mut next) = (Vec::new(), Vec::new());
        for (to, costs) in costs.chunks_exact_mut(switches.max(1)).enumerate() {
            costs[to] = DOWN;
            level.clear();
            level.push(to as u32);
            for cost in 1..DOWN - 1 {
                for &here in &level {
                    let down = costs[here as usize] & DOWN != 0;
                    for &there in neighbours.of(here) {
                        let above = heights[there as usize] > heights[here as usize];
                        let known = &mut costs[there as usize];
                        if *known == NONE && (down || !above) {
                            next.push(there);
                            *known = cost | if above { DOWN } else { 0 };
                        } else if *known == cost && above && down {
                            *known |= DOWN;
                        }
                    }
                }
                std::mem::swap(&mut level, &mut next);
                next.clear();
                if level.is_empty() {
                    break;
                }
            }
        }
        Self {
            switches,
            costs,
            heights: Some(heights),
        }
    }

    /// Hops from a switch to another, if there is a path.
    pub(super) fn between(&self, from: u32, to: u32) -> Option<u8> {
        let cost = self.costs[to as usize * self.switches + from as usize];
        let down = self.heights.as_ref().map_or(0, |_| DOWN);
        (cost != NONE).then_some(cost & !down)
    }

    /// Appends the ports of a switch, ascending, that lead to another along a path.
    pub(super) fn ports(&self, peers: &[Peer], from: u32, to: u32, found: &mut Vec<u8>) {
        let costs = &self.costs[to as usize * self.switches..][..self.switches];
        let cost = costs[from as usize];
        if cost == NONE || from == to {
            return;
        }
        let Some(heights) = &self.heights else {
            let links = (0_u8..=254).zip(peers);
            found.extend(links.filter_map(|(port, peer)| match peer {
                Peer::Switch { switch, .. } if costs[*switch as usize] == cost - 1 => Some(port),
                _ => None,
            }));
            return;
        };
        let goes_down = cost & DOWN != 0;
        for (port, peer) in (0_u8..=254).zip(peers) {
            let &Peer::Switch { switch, .. } = peer else {
                continue;
            };
            let there = costs[switch as usize];
            let above = heights[switch as usize] > heights[from as usize];
            let fits = if goes_down {
                !above && there == cost - 1
            } else {
                above && there != NONE && (there & !DOWN) == cost - 1
            };
            if fits && switch != from {
                found.push(port);
            }
        }
    }
}

/// How far each switch is from the nearest of some; None: none of them is reached.
pub(super) fn ranks(graph: &Graph, from: &[u32]) -> Vec<Option<u32>> {
    let neighbours = Neighbours::new(graph);
    let mut ranks = vec![None; graph.switches().len()];
    let mut queue = from.to_vec();
    for &root in from {
        ranks[root as usize] = Some(0);
    }
    let mut next = 0;
    while let Some(&here) = queue.get(next) {
        next += 1;
        let rank = ranks[here as usize].map(|rank| rank + 1);
        for &there in neighbours.of(here) {
            if ranks[there as usize].is_none() {
                ranks[there as usize] = rank;
                queue.push(there);
            }
        }
    }
    ranks
}
