//! Which channel (a direction of a link, and a lane of it) waits for which, and whether some wait in a circle.

use super::multicast::Group;
use crate::graph::{Graph, Owner, Peer};
use crate::routing::{Lanes, NO_PORT, Routing, Tables, multicast};
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
pub(super) struct Channels<'a> {
    graph: &'a Graph,
    pub lanes: usize,
    /// For each switch, where its ports begin in `links`.
    begin: Vec<usize>,
    /// For each port of each switch, its link's number; [`NO_LINK`].
    links: Vec<u32>,
    /// For each link, from where and to where: switch and port.
    ends: Vec<[(u32, u8); 2]>,
}

const NO_LINK: u32 = u32::MAX;

impl<'a> Channels<'a> {
    pub fn new(graph: &'a Graph, lanes: usize) -> Self {
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

    pub fn count(&self) -> usize {
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
#[derive(Clone)]
pub(super) struct Waits<'c> {
    channels: &'c Channels<'c>,
    begin: Vec<usize>,
    bits: Vec<u64>,
}

impl<'c> Waits<'c> {
    pub fn new(channels: &'c Channels<'c>) -> Self {
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

    fn place(&self, wait: Wait) -> (usize, u64) {
        let bit = usize::from(wait.port) * self.channels.lanes + wait.lane;
        (self.begin[wait.by as usize] + bit / 64, 1 << (bit % 64))
    }

    pub fn set(&mut self, wait: Wait) {
        let (word, bit) = self.place(wait);
        self.bits[word] |= bit;
    }

    pub fn has(&self, wait: Wait) -> bool {
        let (word, bit) = self.place(wait);
        self.bits[word] & bit != 0
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

    /// For each channel, how many wait for it that wait themselves, and so on without end; None: nobody waits in a circle.
    fn waited_for(&self) -> Option<Vec<u32>> {
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
        (left > 0).then_some(waiting)
    }

    /// The channels of all circles, and of ways from one to another; None if there are none.
    pub fn circles(&self) -> Option<Vec<bool>> {
        let waiting = self.waited_for()?;
        let mut within: Vec<bool> = waiting.iter().map(|&count| count > 0).collect();
        // nor is in a circle who waits for nobody in one
        let mut behind = vec![Vec::new(); within.len()];
        let mut ahead = vec![0_u32; within.len()];
        for channel in (0..within.len() as u32).filter(|&channel| within[channel as usize]) {
            for next in self.of(channel) {
                behind[next as usize].push(channel);
                ahead[channel as usize] += 1;
            }
        }
        let mut free: Vec<u32> = (0..within.len() as u32).collect();
        free.retain(|&channel| within[channel as usize] && ahead[channel as usize] == 0);
        while let Some(channel) = free.pop() {
            within[channel as usize] = false;
            for &before in &behind[channel as usize] {
                ahead[before as usize] -= 1;
                if ahead[before as usize] == 0 {
                    free.push(before);
                }
            }
        }
        Some(within)
    }

    /// A loop, if there is one: the shortest of those through the first few channels that are in any.
    fn shortest_loop(&self) -> Option<Loop> {
        let waiting = self.waited_for()?;
        let count = waiting.len();
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
    let views: Vec<View<'_>> = routings
        .iter()
        .map(|routing| View::of(graph, routing))
        .collect();
    let channels = Channels::new(graph, lanes(&views));
    let mut waits = Waits::new(&channels);
    let mut flood = Flood::new(&channels, &views, scope);
    for lid in (1..=graph.top()).filter(|lid| graph.owner(*lid) != Owner::Nobody) {
        flood.lid(lid, &views, &mut |wait| waits.set(wait));
    }
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
                waits.set(Wait {
                    by,
                    port: out,
                    lane,
                });
            }
            let next = link * waits.channels.lanes as u32 + lane as u32;
            if !std::mem::replace(&mut seen[next as usize], true) {
                let [_, at] = waits.channels.ends[link as usize];
                way.push((at, Some(next)));
            }
        }
    }
}

/// What a graph's switches may be programmed with: a routing, or tables that are of another time.
pub(super) struct View<'r> {
    /// By the graph's switches.
    pub tables: &'r Tables,
    /// Of these the levels and lanes.
    pub routing: &'r Routing,
    /// The graph that the routing is of.
    pub graph: &'r Graph,
    /// For each switch of the graph that is looked at, its place in that one; None: they are the same.
    pub places: Option<&'r [Option<u32>]>,
}

impl<'r> View<'r> {
    pub fn of(graph: &'r Graph, routing: &'r Routing) -> Self {
        View {
            tables: &routing.tables,
            routing,
            graph,
            places: None,
        }
    }

    fn place(&self, switch: u32) -> Option<u32> {
        match self.places {
            None => Some(switch),
            Some(places) => places[switch as usize],
        }
    }

    fn level(&self, from: u32, lid: u32) -> Option<u8> {
        Some(self.routing.level(self.graph, self.place(from)?, lid) & 15)
    }

    /// The lane at an output; None: what it was is not known, or packets are dropped there.
    pub fn lane(&self, switch: u32, input: u8, output: u8, level: u8) -> Option<usize> {
        let lane = self
            .routing
            .lanes
            .at(self.place(switch)?, input, output, level);
        // lane 15 in an SL2VL table means: drop
        Some(usize::from(lane)).filter(|lane| *lane < 15)
    }
}

/// Lanes that must be told apart.
pub(super) fn lanes(views: &[View<'_>]) -> usize {
    let lanes = views.iter().map(|view| match view.routing.lanes {
        Lanes::Modulo(lanes) => usize::from(lanes),
        Lanes::Table(_) => 15,
    });
    lanes.max().unwrap_or(1).max(1)
}

/// A channel that waits for another: the one out of a port of the switch that it leads to, on a lane.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub by: u32,
    pub port: u8,
    pub lane: usize,
}

impl Wait {
    /// Whom it waits for.
    pub fn channel(self, channels: &Channels<'_>) -> Option<u32> {
        let [_, (switch, _)] = channels.ends[self.by as usize / channels.lanes];
        let link = channels.link(switch, self.port)?;
        Some(link * channels.lanes as u32 + self.lane as u32)
    }
}

/// Packets of one LID and service level, going wherever a mixture of routings can send them.
pub(super) struct Flood<'c> {
    channels: &'c Channels<'c>,
    scope: Scope,
    /// Switches that packets come from.
    sources: Vec<u32>,
    /// For each switch, the ports by which they come. Where lanes depend on the input, each port with a host is looked at; else one.
    inputs: Vec<Vec<u8>>,
    /// For each service level, where packets to the LID come from.
    starts: Vec<Vec<u32>>,
    /// For each view, the output of each switch for the LID.
    outs: Vec<Vec<u8>>,
    /// For each channel, in which round they came to it.
    seen: Vec<u64>,
    round: u64,
    /// Channels that they came to and have not left yet.
    way: Vec<u32>,
}

impl<'c> Flood<'c> {
    pub fn new(channels: &'c Channels<'c>, views: &[View<'_>], scope: Scope) -> Self {
        let graph = channels.graph;
        let plain = views
            .iter()
            .all(|view| matches!(view.routing.lanes, Lanes::Modulo(_)));
        let inputs = graph.switches().iter().map(|switch| {
            let ports = (0_u8..=254).zip(&switch.ports);
            let ports = ports.filter(|(port, peer)| match scope {
                Scope::Hosts => matches!(peer, Peer::End(_)),
                Scope::All => *port == 0 || matches!(peer, Peer::End(_)),
            });
            let ports = ports.map(|(port, _)| port);
            ports.take(if plain { 1 } else { 256 }).collect()
        });
        let hosts = (0_u32..).zip(graph.hosts());
        let sources = hosts.filter(|(_, hosts)| scope == Scope::All || *hosts > 0);
        Flood {
            scope,
            sources: sources.map(|(switch, _)| switch).collect(),
            inputs: inputs.collect(),
            starts: vec![Vec::new(); 16],
            outs: Vec::new(),
            seen: vec![0; channels.count()],
            round: 0,
            way: Vec::new(),
            channels,
        }
    }

    /// Says which channels can wait for which for the sake of packets to a LID, while switches are programmed by any of these views.
    pub fn lid(&mut self, lid: u32, views: &[View<'_>], note: &mut impl FnMut(Wait)) {
        let graph = self.channels.graph;
        if self.scope == Scope::Hosts && matches!(graph.owner(lid), Owner::Switch(_)) {
            return;
        }
        self.outs.resize_with(views.len(), Vec::new);
        let mut leads = false;
        for (outs, view) in self.outs.iter_mut().zip(views) {
            outs.clear();
            let switches = 0..graph.switches().len() as u32;
            outs.extend(switches.map(|switch| view.tables.port(switch, lid)));
            leads |= outs.iter().any(|out| *out != NO_PORT);
        }
        if !leads {
            return;
        }
        for &from in &self.sources {
            for level in views.iter().filter_map(|view| view.level(from, lid)) {
                let starts = &mut self.starts[usize::from(level)];
                if starts.last() != Some(&from) {
                    starts.push(from);
                }
            }
        }
        for level in 0..16_u8 {
            self.round += 1;
            let mut starts = std::mem::take(&mut self.starts[usize::from(level)]);
            for from in starts.drain(..) {
                let inputs = std::mem::take(&mut self.inputs[from as usize]);
                for &input in &inputs {
                    self.forward(views, (from, input), level, None, note);
                }
                self.inputs[from as usize] = inputs;
            }
            self.starts[usize::from(level)] = starts;
            while let Some(channel) = self.way.pop() {
                let [_, at] = self.channels.ends[channel as usize / self.channels.lanes];
                self.forward(views, at, level, Some(channel), note);
            }
        }
    }

    /// They are at an input of a switch, having come by a channel: that one waits for those which they may leave by.
    fn forward(
        &mut self,
        views: &[View<'_>],
        (switch, input): (u32, u8),
        level: u8,
        by: Option<u32>,
        note: &mut impl FnMut(Wait),
    ) {
        let lanes = self.channels.lanes;
        for outs in &self.outs {
            let port = outs[switch as usize];
            if port == NO_PORT {
                continue;
            }
            let Some(link) = self.channels.link(switch, port) else {
                continue;
            };
            let ways = views
                .iter()
                .filter_map(|view| view.lane(switch, input, port, level));
            for lane in ways.filter(|lane| *lane < lanes) {
                if let Some(by) = by {
                    note(Wait { by, port, lane });
                }
                let next = link * lanes as u32 + lane as u32;
                let seen = &mut self.seen[next as usize];
                if std::mem::replace(seen, self.round) != self.round {
                    self.way.push(next);
                }
            }
        }
    }
}
