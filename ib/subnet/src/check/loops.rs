//! Which channel (a direction of a link, and a lane of it) waits for which, and whether some wait in a circle.

use super::multicast::Group;
use crate::graph::{Graph, Owner, Peer};
use crate::routing::{Lanes, NO_PORT, Routing, multicast};
use ferriband_wire::Guid;
use std::fmt;

/// Whose packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// From hosts to hosts.
    Hosts,
    /// From any switch or host to any LID.
    All,
}

/// A lane of a link, out of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// The switch.
    pub switch: Guid,
    /// Its port.
    pub port: u8,
    /// The lane.
    pub lane: u8,
}

/// Channels each of which can wait for the next, and the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop(pub Vec<Channel>);

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Channel { switch, port, lane }) in self.0.iter().enumerate() {
            let joint = if index > 0 { " waits for " } else { "" };
            write!(f, "{joint}{switch} port {port} lane {lane}")?;
        }
        f.write_str(" waits for the first")
    }
}

/// How many channels the shortest loop is searched from, at most.
const STARTS: usize = 512;

/// The channels of a graph, numbered.
struct Channels<'a> {
    graph: &'a Graph,
    lanes: usize,
    /// For each switch, where its ports begin in `links`.
    begin: Vec<usize>,
    /// For each port of each switch, its link's number; [`NO_LINK`].
    links: Vec<u32>,
    /// For each link, from where and to where: switch and port.
    ends: Vec<[(u32, u8); 2]>,
}

const NO_LINK: u32 = u32::MAX;

impl<'a> Channels<'a> {
    fn new(graph: &'a Graph, lanes: usize) -> Self {
        let (mut begin, mut links, mut ends) = (vec![0], Vec::new(), Vec::new());
        for (here, switch) in (0_u32..).zip(graph.switches()) {
            for (port, peer) in (0_u8..=254).zip(&switch.ports) {
                // a cable from a switch to itself is a link too: a table may send something along it
                let &Peer::Switch {
                    switch: there,
                    port: back,
                } = peer
                else {
                    links.push(NO_LINK);
                    continue;
                };
                links.push(ends.len() as u32);
                ends.push([(here, port), (there, back)]);
            }
            begin.push(links.len());
        }
        Self {
            graph,
            lanes,
            begin,
            links,
            ends,
        }
    }

    fn link(&self, switch: u32, port: u8) -> Option<u32> {
        let ports = &self.links[self.begin[switch as usize]..self.begin[switch as usize + 1]];
        let link = ports.get(usize::from(port)).copied();
        link.filter(|link| *link != NO_LINK)
    }

    fn count(&self) -> usize {
        self.ends.len() * self.lanes
    }

    fn named(&self, channel: u32) -> Channel {
        let (switch, port) = self.ends[channel as usize / self.lanes][0];
        Channel {
            switch: self.graph.switches()[switch as usize].guid,
            port,
            lane: (channel as usize % self.lanes) as u8,
        }
    }
}

/// Who waits for whom: for each channel, a bit for each output and lane of the switch that it leads to.
struct Waits<'a> {
    channels: Channels<'a>,
    begin: Vec<usize>,
    bits: Vec<u64>,
}

impl<'a> Waits<'a> {
    fn new(channels: Channels<'a>) -> Self {
        let mut begin = vec![0];
        for [_, (to, _)] in &channels.ends {
            let ports = channels.graph.switches()[*to as usize].ports.len();
            let words = (ports * channels.lanes).div_ceil(64);
            for _ in 0..channels.lanes {
                begin.push(begin[begin.len() - 1] + words);
            }
        }
        let bits = vec![0; begin[begin.len() - 1]];
        Self {
            channels,
            begin,
            bits,
        }
    }

    fn set(&mut self, channel: usize, port: u8, lane: usize) {
        let bit = usize::from(port) * self.channels.lanes + lane;
        self.bits[self.begin[channel] + bit / 64] |= 1 << (bit % 64);
    }

    /// The channels that one can wait for.
    fn of(&self, channel: u32) -> impl Iterator<Item = u32> + '_ {
        let lanes = self.channels.lanes;
        let [_, (to, _)] = self.channels.ends[channel as usize / lanes];
        let words = &self.bits[self.begin[channel as usize]..self.begin[channel as usize + 1]];
        let bits = words.iter().enumerate().flat_map(|(word, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(word * 64 + bit)
            })
        });
        bits.filter_map(move |bit| {
            let link = self.channels.link(to, (bit / lanes) as u8)?;
            Some(link * lanes as u32 + (bit % lanes) as u32)
        })
    }

    /// A loop, if there is one: the shortest of those through the first few channels that are in any.
    fn shortest_loop(&self) -> Option<Loop> {
        let count = self.channels.count();
        let mut waiting = vec![0_u32; count];
        for channel in 0..count as u32 {
            self.of(channel)
                .for_each(|next| waiting[next as usize] += 1);
        }
        // who is waited for by nobody is in no loop; nor is then who only they waited for
        let mut free: Vec<u32> = (0..count as u32).collect();
        free.retain(|&channel| waiting[channel as usize] == 0);
        let mut left = count - free.len();
        while let Some(channel) = free.pop() {
            for next in self.of(channel) {
                waiting[next as usize] -= 1;
                if waiting[next as usize] == 0 {
                    left -= 1;
                    free.push(next);
                }
            }
        }
        if left == 0 {
            return None;
        }
        let mut best: Option<Vec<u32>> = None;
        let starts = (0..count as u32).filter(|&channel| waiting[channel as usize] > 0);
        let mut from = vec![u32::MAX; count];
        for start in starts.take(STARTS.max(1)) {
            let limit = best.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(found) = self.loop_through(start, &waiting, &mut from)
                && found.len() < limit
            {
                best = Some(found);
            }
        }
        // those that were looked at first may only hang on a loop: follow what waits for them back into it
        let best = best.or_else(|| self.any_loop(&waiting, &mut from))?;
        let named = best.iter().map(|&channel| self.channels.named(channel));
        Some(Loop(named.collect()))
    }

    /// The shortest loop through a channel.
    fn loop_through(&self, start: u32, waiting: &[u32], from: &mut [u32]) -> Option<Vec<u32>> {
        from.fill(u32::MAX);
        let mut queue = vec![start];
        let mut next = 0;
        while let Some(&here) = queue.get(next) {
            next += 1;
            for there in self.of(here) {
                if there == start {
                    let mut way = vec![here];
                    while way[way.len() - 1] != start {
                        way.push(from[way[way.len() - 1] as usize]);
                    }
                    way.reverse();
                    return Some(way);
                }
                if from[there as usize] == u32::MAX && waiting[there as usize] > 0 {
                    from[there as usize] = here;
                    queue.push(there);
                }
            }
        }
        None
    }

    /// Some loop: what is left when nobody is free, followed back, comes round.
    fn any_loop(&self, waiting: &[u32], from: &mut [u32]) -> Option<Vec<u32>> {
        from.fill(u32::MAX);
        let count = self.channels.count() as u32;
        let left = |channel: &u32| waiting[*channel as usize] > 0;
        for channel in (0..count).filter(left) {
            for next in self.of(channel) {
                from[next as usize] = channel;
            }
        }
        let mut here = (0..count).find(left)?;
        let mut seen = vec![false; waiting.len()];
        while !std::mem::replace(&mut seen[here as usize], true) {
            here = from[here as usize];
        }
        self.loop_through(here, waiting, from)
    }
}

/// Whether packets can wait for each other in a circle while switches are programmed by one of several routings each, in any mixture: by one
/// alone, or by the old one here and the new one there during a change. Gives the shortest circle it found.
pub fn deadlock(graph: &Graph, routings: &[&Routing], scope: Scope) -> Option<Loop> {
    deadlock_with_groups(graph, routings, scope, &[])
}

/// The same, with packets of multicast groups on the links as well, from each member to all others.
pub fn deadlock_with_groups(
    graph: &Graph,
    routings: &[&Routing],
    scope: Scope,
    groups: &[Group<'_>],
) -> Option<Loop> {
    let mut waits = waits(graph, routings, scope);
    for group in groups {
        for routing in routings {
            spread(&mut waits, routing, group);
        }
    }
    waits.shortest_loop()
}

/// A group's packets from all its members: at each switch what came by a link waits for all others of its row.
fn spread(waits: &mut Waits<'_>, routing: &Routing, group: &Group<'_>) {
    let mut seen = vec![false; waits.channels.count()];
    let mut way: Vec<((u32, u8), Option<u32>)> =
        group.members.iter().map(|member| (*member, None)).collect();
    while let Some(((switch, input), by)) = way.pop() {
        let row = group.rows.get(switch as usize).copied().unwrap_or_default();
        for out in multicast::ports(&row).filter(|out| *out != input) {
            let Some(link) = waits.channels.link(switch, out) else {
                continue;
            };
            let lane = usize::from(routing.lanes.at(switch, input, out, group.level));
            if lane >= waits.channels.lanes.min(15) {
                continue;
            }
            if let Some(by) = by {
                waits.set(by as usize, out, lane);
            }
            let next = link * waits.channels.lanes as u32 + lane as u32;
            if !std::mem::replace(&mut seen[next as usize], true) {
                let [_, at] = waits.channels.ends[link as usize];
                way.push((at, Some(next)));
            }
        }
    }
}

fn waits<'a>(graph: &'a Graph, routings: &[&Routing], scope: Scope) -> Waits<'a> {
    let lanes = routings.iter().map(|routing| match routing.lanes {
        Lanes::Modulo(lanes) => usize::from(lanes),
        Lanes::Table(_) => 16,
    });
    let mut waits = Waits::new(Channels::new(graph, lanes.max().unwrap_or(1).max(1)));
    let hosts = graph.hosts();
    let plain = routings
        .iter()
        .all(|routing| matches!(routing.lanes, Lanes::Modulo(_)));
    // where lanes depend on the input, packets from each port with a host are looked at; else those from one
    let inputs: Vec<Vec<u8>> = (0..)
        .zip(graph.switches())
        .map(|(_, switch): (u32, _)| {
            let ports = (0_u8..=254).zip(&switch.ports);
            let ports = ports.filter(|(port, peer)| match scope {
                Scope::Hosts => matches!(peer, Peer::End(_)),
                Scope::All => *port == 0 || matches!(peer, Peer::End(_)),
            });
            ports
                .map(|(port, _)| port)
                .take(if plain { 1 } else { 256 })
                .collect()
        })
        .collect();
    let mut starts: Vec<Vec<u32>> = vec![Vec::new(); 16];
    let mut flood = Flood {
        seen: vec![0; waits.channels.count()],
        round: 0,
        way: Vec::new(),
        outs: vec![Vec::new(); routings.len()],
        routings,
    };
    for lid in 1..=graph.top() {
        match graph.owner(lid) {
            Owner::Nobody => continue,
            Owner::Switch(_) if scope == Scope::Hosts => continue,
            _ => {}
        }
        flood.aim(graph, lid);
        for (from, hosts) in (0_u32..).zip(&hosts) {
            if scope == Scope::Hosts && *hosts == 0 {
                continue;
            }
            for routing in routings {
                let starts = &mut starts[usize::from(routing.level(graph, from, lid) & 15)];
                if starts.last() != Some(&from) {
                    starts.push(from);
                }
            }
        }
        for (level, starts) in (0_u8..=254).zip(&mut starts) {
            flood.round += 1;
            for from in starts.drain(..) {
                for &input in &inputs[from as usize] {
                    flood.forward(&mut waits, (from, input), level, None);
                }
            }
            while let Some(channel) = flood.way.pop() {
                let [_, at] = waits.channels.ends[channel as usize / waits.channels.lanes];
                flood.forward(&mut waits, at, level, Some(channel));
            }
        }
    }
    waits
}

/// Packets of one LID and service level, going wherever a mixture of routings can send them.
struct Flood<'r> {
    routings: &'r [&'r Routing],
    /// For each routing, the output of each switch for the LID.
    outs: Vec<Vec<u8>>,
    /// For each channel, in which round they came to it.
    seen: Vec<u64>,
    round: u64,
    /// Channels that they came to and have not left yet.
    way: Vec<u32>,
}

impl Flood<'_> {
    fn aim(&mut self, graph: &Graph, lid: u32) {
        for (outs, routing) in self.outs.iter_mut().zip(self.routings) {
            outs.clear();
            let switches = 0..graph.switches().len() as u32;
            outs.extend(switches.map(|switch| routing.tables.port(switch, lid)));
        }
    }

    /// They are at an input of a switch, having come by a channel: that one waits for those which they may leave by.
    fn forward(&mut self, waits: &mut Waits<'_>, at: (u32, u8), level: u8, by: Option<u32>) {
        let (switch, input) = at;
        for outs in &self.outs {
            let out = outs[switch as usize];
            if out == NO_PORT {
                continue;
            }
            let Some(link) = waits.channels.link(switch, out) else {
                continue;
            };
            for routing in self.routings {
                let lane = usize::from(routing.lanes.at(switch, input, out, level));
                if lane >= waits.channels.lanes.min(15) {
                    // lane 15 in an SL2VL table means: drop
                    continue;
                }
                if let Some(by) = by {
                    waits.set(by as usize, out, lane);
                }
                let next = link * waits.channels.lanes as u32 + lane as u32;
                let seen = &mut self.seen[next as usize];
                if std::mem::replace(seen, self.round) != self.round {
                    self.way.push(next);
                }
            }
        }
    }
}
