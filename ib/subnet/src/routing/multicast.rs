//! Multicast trees: which ports of each switch a group's packets leave by.
//!
//! All groups share one tree of switches, that of UpDown from the middle, so packets of groups go up and then down, and close no circle with those of updn on the same lane. A group's tree is what of it
//! its members need. Beside other engines' packets they may, and get a level and lane of their own then.

use super::updn;
use super::{Lanes, Routing};
use crate::check::{Group, Loop, Scope, deadlock_with_groups};
use crate::graph::Graph;

/// A set of ports, 0 (the switch itself) included: a row of a multicast forwarding table.
pub type Ports = [u64; 4];

/// The ports of a set, ascending.
pub fn ports(set: &Ports) -> impl Iterator<Item = u8> + '_ {
    (0..=254_u8).filter(|port| set[usize::from(*port / 64)] >> (port % 64) & 1 == 1)
}

/// A port more.
pub fn add(set: &mut Ports, port: u8) {
    set[usize::from(port / 64)] |= 1 << (port % 64);
}

/// The level that groups have where SL2VL tables go by inputs and outputs: the first of torus-2QoS's second quality of service.
const SECOND_QUALITY: u8 = 8;

/// A circle in which packets of hosts to hosts and of hosts to a group of all of them, on the level that the routing gives to groups, can wait for each other.
pub fn circle(graph: &Graph, routing: &Routing) -> Option<Loop> {
    let ends = graph.ends().iter();
    let members: Vec<(u32, u8)> = ends.filter_map(|end| end.attached).collect();
    let all = Group {
        rows: &Tree::new(graph).rows(&members),
        members: &members,
        level: routing.groups,
    };
    deadlock_with_groups(graph, &[routing], Scope::Hosts, &[all])
}

/// Gives packets of groups a service level on which they close no [`circle`]: 0, if it is one; else one with a lane of its own, if `lanes` (those that all ports have) are more than
/// pairs need. If there is none they stay on level 0, and so they do beside an engine that may deadlock without them.
pub fn give_level(graph: &Graph, routing: &mut Routing, lanes: u8) {
    if circle(graph, routing).is_none() {
        return;
    }
    let mut apart = routing.clone();
    match apart.lanes {
        Lanes::Modulo(pairs) if pairs < lanes => {
            apart.lanes = Lanes::Modulo(pairs + 1);
            (apart.lanes_needed, apart.groups) = (pairs + 1, pairs);
        }
        Lanes::Modulo(_) => return,
        Lanes::Table(_) => apart.groups = SECOND_QUALITY,
    }
    if circle(graph, &apart).is_none() {
        *routing = apart;
    }
}

/// The tree of switches that all groups share.
#[derive(Clone, Debug)]
pub struct Tree {
    /// For each switch the one above, with the ports at both ends; None: it is a root.
    above: Vec<Option<(u32, u8, u8)>>,
    /// The switches, each after the one above.
    order: Vec<u32>,
}

impl Tree {
    /// The tree of a subnet; where it hangs not together, several.
    pub fn new(graph: &Graph) -> Tree {
        let heights = updn::tree_heights(graph);
        let mut tops: Vec<u32> = (0..graph.switches().len() as u32).collect();
        tops.sort_by_key(|switch| std::cmp::Reverse(heights[*switch as usize]));
        let mut above = vec![None; tops.len()];
        let (mut seen, mut order) = (vec![false; tops.len()], Vec::new());
        for top in tops {
            if seen[top as usize] {
                continue;
            }
            seen[top as usize] = true;
            let first = order.len();
            order.push(top);
            // downwards only, so that what goes up and down the tree does so by heights, too; then what is left (other spines, and what hangs on them alone), where only packets from and to itself pass
            for downwards in [true, false] {
                let mut next = first;
                while let Some(&here) = order.get(next) {
                    next += 1;
                    for (port, there, back) in graph.links(here) {
                        let below = heights[there as usize] < heights[here as usize];
                        if (below || !downwards) && !seen[there as usize] {
                            seen[there as usize] = true;
                            above[there as usize] = Some((here, back, port));
                            order.push(there);
                        }
                    }
                }
            }
        }
        Tree { above, order }
    }

    /// The rows of a group for each switch. Members are switches' ports: those of hosts, or 0. Empty rows for all if two members are not joined.
    pub fn rows(&self, members: &[(u32, u8)]) -> Vec<Ports> {
        let mut rows = vec![[0; 4]; self.above.len()];
        // members at a switch and below it
        let mut below = vec![0_u32; self.above.len()];
        for &(switch, port) in members {
            if let Some(row) = rows.get_mut(switch as usize) {
                let before = *row;
                add(row, port);
                below[switch as usize] += u32::from(before != *row);
            }
        }
        let all: u32 = below.iter().sum();
        for &switch in self.order.iter().rev() {
            let count = below[switch as usize];
            match self.above[switch as usize] {
                // a link of the tree that has members on both its sides is the group's
                Some((above, port, back)) if count > 0 => {
                    below[above as usize] += count;
                    if count < all {
                        add(&mut rows[switch as usize], port);
                        add(&mut rows[above as usize], back);
                    }
                }
                None if count > 0 && count < all => return vec![[0; 4]; self.above.len()],
                _ => {}
            }
        }
        rows
    }
}
