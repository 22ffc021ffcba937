//! Fat tree: destinations at a leaf go down by different middle and root switches in turn, so that shift patterns never meet (E. Zahavi, D-Mod-K routing
//! providing non-blocking traffic for shift permutations on real life fat trees, 2010).
//!
//! The tables are OpenSM's, who routes a tree that lacks some hosts, but no switches nor links, unless its roots are named. Each LID of a port with an
//! LMC is a destination of its own here; OpenSM leaves out all but the first. Links between switches of one rank are refused.

use super::hops::ranks;
use super::updn::given_roots;
use super::{NO_PORT, Options, RouteError, Routing, Tables};
use crate::graph::{Graph, Peer};
use std::collections::BTreeSet;

/// Most ranks of a tree (so many numbers has a place).
const MOST_RANKS: usize = 8;

/// Where a switch stands: its rank, then one number for each rank below the roots. Unplaced: all ones.
type Place = [u8; MOST_RANKS];
const NOWHERE: Place = [u8::MAX; MOST_RANKS];

pub(super) fn route(graph: &Graph, options: &Options) -> Result<Routing, RouteError> {
    let mut tree = Tree::new(graph, &given_roots(graph, options)?)?;
    let leaves = tree.index()?;
    if options.roots.is_empty() {
        tree.is_regular()?;
    }
    let mut tables = ByLid::new(graph);
    let hosts = |leaf: u32| {
        let peers = graph.switches()[leaf as usize].ports.iter();
        (0_u8..=254)
            .zip(peers)
            .filter_map(|(port, peer)| match *peer {
                Peer::End(end) => Some((port, &graph.ends()[end as usize])),
                _ => None,
            })
    };
    let most = leaves
        .iter()
        .map(|&leaf| hosts(leaf).count())
        .max()
        .unwrap_or(0);
    for &leaf in &leaves {
        for (port, end) in hosts(leaf) {
            for lid in end.lid..end.lid + (1 << end.lmc) {
                tree.to(leaf, port, 1, true);
                tables.set(lid, &tree.ports);
            }
        }
        // a host that is missing takes its turn too: shifts stay in step
        for _ in hosts(leaf).count()..most {
            tree.to(leaf, NO_PORT, 1, true);
        }
    }
    for (index, switch) in (0..).zip(graph.switches()) {
        for lid in switch.lid..switch.lid + (1 << switch.lmc) {
            tree.to(index, 0, 0, false);
            tables.set(lid, &tree.ports);
        }
    }
    Ok(Routing::plain(tables.tables(graph)))
}

fn wrong(why: String) -> RouteError {
    RouteError::WrongShape {
        engine: "ftree",
        wants: "fat trees",
        why,
    }
}

/// All links from a switch to another. Small: a large tree has tens of thousands, and each destination changes most of them.
struct Group {
    remote: u32,
    /// Where the remote switch stands among all places.
    place: u32,
    /// Routes that lead up through it, kept at the upper end, and that lead down, kept at the lower.
    load: u32,
    /// Several links: where they are in [`Tree::cables`].
    cables: u32,
    /// One link: the port at its remote end, by which packets go to where this end leads.
    there: u8,
    /// Who is below the remote switch.
    below: Below,
}

/// One link.
const ALONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq)]
enum Below {
    Switches,
    Hosts,
    Nobody,
}

struct Cable {
    there: u8,
    load: u32,
}

struct Node {
    rank: u32,
    place: Place,
    has_hosts: bool,
    up: Vec<Group>,
    down: Vec<Group>,
    /// A load of `down` has changed since it was sorted.
    stale: bool,
}

struct Tree<'a> {
    graph: &'a Graph,
    nodes: Vec<Node>,
    cables: Vec<Vec<Cable>>,
    leaf_rank: u32,
    /// Of the destination that is being routed: for each switch its output, and how far it is.
    ports: Vec<u8>,
    hops: Vec<u8>,
}

/// Not routed yet.
const UNSEEN: u8 = u8::MAX;

impl<'a> Tree<'a> {
    fn new(graph: &'a Graph, roots: &[u32]) -> Result<Self, RouteError> {
        let hosts = graph.hosts();
        let leaves: Vec<u32> = (0..)
            .zip(&hosts)
            .filter(|(_, hosts)| **hosts > 0)
            .map(|(leaf, _)| leaf)
            .collect();
        let found = || {
            let from_leaves = ranks(graph, &leaves);
            let highest = from_leaves.iter().flatten().max().copied();
            let switches = (0..).zip(from_leaves);
            switches
                .filter(|(_, rank)| *rank == highest)
                .map(|(root, _)| root)
                .collect()
        };
        let roots: Vec<u32> = if roots.is_empty() {
            found()
        } else {
            roots.to_vec()
        };
        let ranks = ranks(graph, &roots);
        let leaf_rank = leaves
            .iter()
            .filter_map(|&leaf| ranks[leaf as usize])
            .next()
            .unwrap_or(0);
        if leaf_rank == 0 && graph.switches().len() > 1 {
            return Err(wrong("switches with hosts are no lower than others".into()));
        }
        if leaf_rank as usize >= MOST_RANKS || leaf_rank == 0 {
            return Err(wrong(format!("it has {} ranks, not 2 to 8", leaf_rank + 1)));
        }
        let (mut nodes, mut cables): (Vec<Node>, Vec<Vec<Cable>>) = Default::default();
        for (index, switch) in (0_u32..).zip(graph.switches()) {
            let rank = ranks[index as usize].unwrap_or(u32::MAX);
            let has_hosts = hosts[index as usize] > 0;
            if has_hosts && rank != leaf_rank {
                return Err(wrong(format!(
                    "switch {} has hosts at rank {rank}, others at {leaf_rank}",
                    switch.guid
                )));
            }
            let (mut up, mut down): (Vec<Group>, Vec<Group>) = Default::default();
            for (_, remote, there) in graph.links(index) {
                let other = ranks[remote as usize].unwrap_or(u32::MAX);
                let groups = match other.cmp(&rank) {
                    std::cmp::Ordering::Less => &mut up,
                    std::cmp::Ordering::Greater => &mut down,
                    std::cmp::Ordering::Equal => {
                        let other = graph.switches()[remote as usize].guid;
                        return Err(wrong(format!(
                            "switches {} and {other} of rank {rank} are joined",
                            switch.guid
                        )));
                    }
                };
                let cable = |there| Cable { there, load: 0 };
                match groups.iter_mut().find(|group| group.remote == remote) {
                    Some(group) if group.cables == ALONE => {
                        group.cables = cables.len() as u32;
                        cables.push(vec![cable(group.there), cable(there)]);
                    }
                    Some(group) => cables[group.cables as usize].push(cable(there)),
                    None => groups.push(Group {
                        remote,
                        place: 0,
                        load: 0,
                        cables: ALONE,
                        there,
                        below: Below::Switches,
                    }),
                }
            }
            nodes.push(Node {
                rank,
                place: NOWHERE,
                has_hosts,
                up,
                down,
                stale: false,
            });
        }
        Ok(Self {
            graph,
            leaf_rank,
            ports: vec![NO_PORT; nodes.len()],
            hops: vec![UNSEEN; nodes.len()],
            nodes,
            cables,
        })
    }

    /// Gives each switch a place, breadth first from the first with hosts, and sorts links by the places that they lead to. Gives the leaves in order of
    /// their places, from the first with hosts to the last.
    fn index(&mut self) -> Result<Vec<u32>, RouteError> {
        let mut leaves: Vec<u32> = (0..self.nodes.len() as u32).collect();
        leaves.retain(|&leaf| self.nodes[leaf as usize].rank == self.leaf_rank);
        let has_hosts = |leaf: &&u32| self.nodes[**leaf as usize].has_hosts;
        let first = *leaves
            .iter()
            .find(has_hosts)
            .ok_or_else(|| wrong("it has no hosts".into()))?;
        let mut place = [0; MOST_RANKS];
        place[0] = self.leaf_rank as u8;
        place[self.leaf_rank as usize + 1..].fill(u8::MAX);
        self.nodes[first as usize].place = place;
        let mut taken = BTreeSet::from([place]);
        let mut queue = vec![first];
        let mut next = 0;
        while let Some(&here) = queue.get(next) {
            next += 1;
            let Node { rank, place, .. } = self.nodes[here as usize];
            for down in [true, false] {
                if (down && rank >= self.leaf_rank) || (!down && rank == 0) {
                    continue;
                }
                let groups = |node: &mut Node| {
                    std::mem::take(if down { &mut node.down } else { &mut node.up })
                };
                let mut groups = groups(&mut self.nodes[here as usize]);
                for group in &groups {
                    let there = &mut self.nodes[group.remote as usize].place;
                    if *there != NOWHERE {
                        continue;
                    }
                    let mut new = place;
                    let varies = usize::from(if down { place[0] + 1 } else { place[0] });
                    new[0] = if down { place[0] + 1 } else { place[0] - 1 };
                    let free = (0..u8::MAX).find(|&number| {
                        new[varies] = number;
                        !taken.contains(&new)
                    });
                    free.ok_or_else(|| {
                        wrong("more than 255 switches are next to each other".into())
                    })?;
                    *there = new;
                    taken.insert(new);
                    queue.push(group.remote);
                }
                groups.sort_by_key(|group| self.nodes[group.remote as usize].place);
                let node = &mut self.nodes[here as usize];
                *(if down { &mut node.down } else { &mut node.up }) = groups;
            }
        }
        self.settle();
        leaves.sort_by_key(|&leaf| self.nodes[leaf as usize].place);
        let with_hosts = |leaf: &u32| self.nodes[*leaf as usize].has_hosts;
        let first = leaves.iter().position(with_hosts).unwrap_or(0);
        let last = leaves.iter().rposition(with_hosts).unwrap_or(0);
        if first == last {
            return Err(wrong("one switch alone has hosts".into()));
        }
        Ok(leaves[first..=last].to_vec())
    }

    /// Notes at each group of links what routing needs to know of the switch that they lead to.
    fn settle(&mut self) {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        order.sort_by_key(|&switch| self.nodes[switch as usize].place);
        let mut remote = vec![(0, Below::Switches); order.len()];
        for (place, &switch) in (0_u32..).zip(&order) {
            let node = &self.nodes[switch as usize];
            let below = match (node.down.is_empty(), node.has_hosts) {
                (false, _) => Below::Switches,
                (true, true) => Below::Hosts,
                (true, false) => Below::Nobody,
            };
            remote[switch as usize] = (place, below);
        }
        for node in &mut self.nodes {
            for group in node.up.iter_mut().chain(&mut node.down) {
                (group.place, group.below) = remote[group.remote as usize];
            }
        }
    }

    /// The remote port of a group's least loaded link, and that link if it is one of several.
    fn least(&mut self, group: &Group) -> (u8, Option<&mut Cable>) {
        let cables = self.cables.get_mut(group.cables as usize);
        let least = cables.and_then(|cables| cables.iter_mut().min_by_key(|cable| cable.load));
        match least {
            Some(cable) => (cable.there, Some(cable)),
            None => (group.there, None),
        }
    }

    /// All switches of a rank have as many neighbours and links to each.
    fn is_regular(&self) -> Result<(), RouteError> {
        let mut first: [Option<u32>; MOST_RANKS] = [None; MOST_RANKS];
        for (index, node) in (0_u32..).zip(&self.nodes) {
            let guid = |index: u32| self.graph.switches()[index as usize].guid;
            let Some(first) = first.get_mut(node.rank as usize) else {
                return Err(wrong(format!(
                    "switch {} lies below the leaves",
                    guid(index)
                )));
            };
            let other = *first.get_or_insert(index);
            let example = &self.nodes[other as usize];
            let differ = |what: &str| {
                wrong(format!(
                    "switches {} and {} of rank {} differ in {what}",
                    guid(other),
                    guid(index),
                    node.rank
                ))
            };
            if node.up.len() != example.up.len() {
                return Err(differ("how many switches are above them"));
            }
            if node.rank != self.leaf_rank && node.down.len() != example.down.len() {
                return Err(differ("how many switches are below them"));
            }
            let links = |group: &Group| self.cables.get(group.cables as usize).map_or(1, Vec::len);
            let width = |groups: &[Group]| groups.first().map_or(0, links);
            let odd = |groups: &[Group], like| groups.iter().any(|group| links(group) != like);
            if odd(&node.up, width(&example.up)) || odd(&node.down, width(&example.down)) {
                return Err(differ("their links to each neighbour"));
            }
        }
        Ok(())
    }

    /// Routes a destination that is so many hops from a switch, behind a port of it. `counts`: it is a host, whose routes are to be spread.
    fn to(&mut self, home: u32, port: u8, hops: u8, counts: bool) {
        self.ports.fill(NO_PORT);
        self.hops.fill(UNSEEN);
        self.ports[home as usize] = port;
        self.hops[home as usize] = hops;
        self.ascend(home, u32::MAX, hops, counts);
    }

    /// From a switch that reaches the destination: those below it reach it through it, those above it too, each of them by the least loaded link; and so on from there.
    fn ascend(&mut self, here: u32, from: u32, hops: u8, counts: bool) {
        self.descend(here, from, hops);
        let node = &mut self.nodes[here as usize];
        if node.rank == 0 {
            return;
        }
        // the order of the other groups decides who is reached through whom
        let mut up = std::mem::take(&mut node.up);
        sort(&mut up);
        for (index, group) in up.iter_mut().enumerate() {
            let main = counts && index == 0;
            let known = self.hops[group.remote as usize];
            let better = known == UNSEEN || hops + 1 < known;
            if !main && !better {
                continue;
            }
            let (there, cable) = self.least(group);
            if main {
                group.load += 1;
                if let Some(cable) = cable {
                    cable.load += 1;
                }
            }
            if better {
                self.ports[group.remote as usize] = there;
                self.hops[group.remote as usize] = hops + 1;
            }
            let remote = group.remote;
            self.ascend(remote, here, hops + 1, main);
        }
        self.nodes[here as usize].up = up;
    }

    /// Those below a switch reach the destination through it, but for the one that it came up from. True if a host is among them, or below.
    fn descend(&mut self, here: u32, from: u32, hops: u8) -> bool {
        let node = &mut self.nodes[here as usize];
        let mut reached = node.has_hosts;
        if node.down.is_empty() {
            return reached;
        }
        let mut down = std::mem::take(&mut node.down);
        if std::mem::take(&mut node.stale) {
            sort(&mut down);
        }
        let mut stale = false;
        for group in &mut down {
            let known = self.hops[group.remote as usize];
            if group.remote == from || (known != UNSEEN && hops + 1 >= known) {
                continue;
            }
            let (there, _) = self.least(group);
            self.ports[group.remote as usize] = there;
            self.hops[group.remote as usize] = hops + 1;
            let goes_on = match group.below {
                Below::Hosts => true,
                Below::Nobody => false,
                Below::Switches => self.descend(group.remote, u32::MAX, hops + 1),
            };
            if goes_on {
                if let (_, Some(cable)) = self.least(group) {
                    cable.load += 1;
                }
                group.load += 1;
                reached = true;
                stale = true;
            }
        }
        let node = &mut self.nodes[here as usize];
        node.down = down;
        node.stale |= stale;
        reached
    }
}

/// The least loaded first, of equal ones those that lead to the first place. They are nearly sorted already.
fn sort(groups: &mut [Group]) {
    for at in 1..groups.len() {
        let mut at = at;
        let key = |group: &Group| (group.load, group.place);
        while at > 0 && key(&groups[at]) < key(&groups[at - 1]) {
            groups.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Tables by LID first: a destination's outputs lie side by side. Turned round at the end, in squares that fit the cache.
struct ByLid {
    switches: usize,
    ports: Vec<u8>,
}

impl ByLid {
    fn new(graph: &Graph) -> Self {
        let switches = graph.switches().len();
        let ports = vec![NO_PORT; switches * (graph.top() as usize + 1)];
        Self { switches, ports }
    }

    fn set(&mut self, lid: u32, ports: &[u8]) {
        self.ports[lid as usize * self.switches..][..self.switches].copy_from_slice(ports);
    }

    fn tables(&self, graph: &Graph) -> Tables {
        const SQUARE: usize = 64;
        let mut tables = Tables::new(graph);
        let lids = tables.width();
        for first in (0..lids).step_by(SQUARE) {
            for switch in 0..self.switches {
                let row = tables.row_mut(switch as u32);
                for (lid, port) in row.iter_mut().enumerate().skip(first).take(SQUARE) {
                    *port = self.ports[lid * self.switches + switch];
                }
            }
        }
        tables
    }
}
