//! A fabric divided into parts that run on a thread each. Groups of nodes are dealt out whole, in the order of their places, so many of each colour to each part that all have about as
//! much to do in every window.

use super::letters::{Door, Mail};
use super::part::Part;
use super::port::Received;
use super::{FlowCount, Machine, NONE, Net, ahead};
use crate::agenda::Agenda;
use crate::latency::Latencies;
use crate::ring::Ring;
use crate::time::Time;
use crate::windows::{ROOM_BITS, Windows};
use std::collections::HashMap;

/// Parts at most: each has what it needs of the whole fabric.
const MOST: usize = 256;
/// Ports of a room.
const ROOM: usize = 1 << ROOM_BITS;

/// Where each room goes: its part, and its number there.
struct Deal {
    rooms: Vec<(u16, u32)>,
    /// By part: its rooms.
    parts: Vec<Vec<u32>>,
}

impl Deal {
    /// Deals groups out, by room; None if there is not enough for two.
    fn new(groups: &[u16], coloured: bool, ports: &[super::Port], wanted: usize) -> Option<Deal> {
        let colour_of = |group: usize| group & usize::from(coloured);
        // by group, what there is to do
        let mut weights = vec![0u64; usize::from(*groups.iter().max()?) + 1];
        for (at, port) in ports.iter().enumerate() {
            if port.peer != NONE {
                weights[usize::from(groups[at >> ROOM_BITS])] += 1;
            }
        }
        let (mut totals, mut counts) = ([0; 2], [0; 2]);
        for (group, weight) in weights.iter().enumerate() {
            totals[colour_of(group)] += weight;
            counts[colour_of(group)] += usize::from(*weight > 0);
        }
        let fewest = counts[..=usize::from(coloured)].iter().min()?;
        let count = wanted.min(*fewest).min(MOST);
        if count < 2 {
            return None;
        }
        let mut before = [0; 2];
        let mut part_of = Vec::with_capacity(weights.len());
        for (group, weight) in weights.iter().enumerate() {
            let colour = colour_of(group);
            // where its middle lies
            let middle = 2 * before[colour] + weight;
            before[colour] += weight;
            let part = middle * count as u64 / (2 * totals[colour]).max(1);
            part_of.push(part.min(count as u64 - 1) as u16);
        }
        let mut deal = Deal {
            rooms: Vec::with_capacity(groups.len()),
            parts: vec![Vec::new(); count],
        };
        for (room, group) in (0u32..).zip(groups) {
            let part = part_of[usize::from(*group)];
            let own = &mut deal.parts[usize::from(part)];
            deal.rooms.push((part, own.len() as u32));
            own.push(room);
        }
        Some(deal)
    }

    /// A part's place in the whole fabric.
    fn whole(&self, part: usize, place: u32) -> u32 {
        (self.parts[part][place as usize >> ROOM_BITS] << ROOM_BITS) + place % ROOM as u32
    }

    /// A place's part, and what it is there.
    fn home(&self, place: u32) -> (usize, u32) {
        let (part, room) = self.rooms[place as usize >> ROOM_BITS];
        (part.into(), (room << ROOM_BITS) + place % ROOM as u32)
    }
}

impl Net {
    /// Divides the fabric into as many parts as it may have threads, if it runs by windows. Only before it has run.
    pub(super) fn divide(&mut self) {
        let whole = &self.parts[0];
        let Agenda::Windows(windows) = &whole.queue else {
            return;
        };
        let (groups, coloured) = windows.groups();
        let Some(deal) = Deal::new(groups, coloured, &whole.ports, self.settings.threads) else {
            return;
        };
        if let Some(whole) = self.parts.pop() {
            self.deal_out(whole, deal);
        }
    }

    fn deal_out(&mut self, mut whole: Part, deal: Deal) {
        let idle = Agenda::Windows(Windows::new(Time::ZERO, Vec::new(), false));
        let Agenda::Windows(mut windows) = std::mem::replace(&mut whole.queue, idle) else {
            return;
        };
        let events = windows.drain(|flight| whole.flights.put(flight));
        let count = deal.parts.len();
        let parts = deal.parts.iter();
        let mut parts: Vec<Part> = parts
            .map(|rooms| empty(&whole, windows_of(&windows, rooms), count))
            .collect();
        self.deal_machines(&mut whole, &deal, &mut parts);
        let others = whole.data_vls - 1;
        for (place, port) in (0u32..).zip(std::mem::take(&mut whole.ports)) {
            let part = &mut parts[deal.home(place).0];
            part.ports.push(port);
            part.received.push(Received::default());
            part.rates.push(whole.rates[place as usize]);
            let lanes = &whole.more_lanes[place as usize * others..][..others];
            part.more_lanes.extend_from_slice(lanes);
        }
        let owners = self.owners.pop().unwrap_or_default();
        self.owners = vec![Vec::new(); count];
        for (place, owner) in (0u32..).zip(&owners) {
            self.owners[deal.home(place).0].push(*owner);
        }
        for (part, stand_ins) in join_parts(&deal, &mut parts).into_iter().enumerate() {
            let owners = stand_ins.iter().map(|far| owners[*far as usize]);
            self.owners[part].extend(owners);
        }
        for (time, what) in events {
            let (part, port) = deal.home(what as u32);
            let what = what >> 32 << 32 | u64::from(port);
            parts[part].queue.push(time, what);
        }
        self.parts = parts;
    }

    /// Switches and adapters, in the order of their places, and where each node is now.
    fn deal_machines(&mut self, whole: &mut Part, deal: &Deal, parts: &mut [Part]) {
        let homes: Vec<(usize, u32)> = (self.bases.iter())
            // the place of port 0 may be another's
            .map(|base| deal.home(base + 1))
            .collect();
        let mut of_switch = vec![0; whole.switches.len()];
        let mut of_adapter = vec![0; whole.adapters.len()];
        for (machine, (part, _)) in self.machines.iter().zip(&homes) {
            match machine {
                Machine::Switch(index) => of_switch[*index as usize] = *part,
                Machine::Adapter(index) => of_adapter[*index as usize] = *part,
            }
        }
        let mut switches = Vec::with_capacity(whole.switches.len());
        for (switch, part) in whole.switches.drain(..).zip(of_switch) {
            switches.push(parts[part].switches.len() as u32);
            parts[part].switches.push(switch);
        }
        let mut adapters = Vec::with_capacity(whole.adapters.len());
        for (adapter, part) in whole.adapters.drain(..).zip(of_adapter) {
            adapters.push(parts[part].adapters.len() as u32);
            parts[part].adapters.push(adapter);
        }
        for (node, (part, port)) in homes.into_iter().enumerate() {
            self.homes[node] = part as u16;
            self.bases[node] = port - 1;
            self.machines[node] = match self.machines[node] {
                Machine::Switch(index) => Machine::Switch(switches[index as usize]),
                Machine::Adapter(index) => Machine::Adapter(adapters[index as usize]),
            };
        }
        for port in &mut whole.ports {
            port.set_machine(match port.machine() {
                Machine::Switch(index) => Machine::Switch(switches[index as usize]),
                Machine::Adapter(index) => Machine::Adapter(adapters[index as usize]),
            });
        }
    }
}

/// Ports know each other by their places in their part, and get stand-ins where they are in two. By part: what its stand-ins stand for, by the place in the whole fabric.
fn join_parts(deal: &Deal, parts: &mut [Part]) -> Vec<Vec<u32>> {
    // by part: its ports whose links leave it, and the other ends in the whole fabric
    let mut leaving: Vec<(Vec<u32>, Vec<u32>)> = vec![Default::default(); parts.len()];
    // by the port that looks at it, in the whole fabric
    let mut stand_ins = HashMap::new();
    for (index, part) in parts.iter_mut().enumerate() {
        part.border = part.ports.len() as u32;
        let (own, far) = &mut leaving[index];
        for (at, port) in (0u32..).zip(&mut part.ports) {
            if port.peer == NONE {
                continue;
            }
            let (home, peer) = deal.home(port.peer);
            if home == index {
                port.peer = peer;
                continue;
            }
            stand_ins.insert(deal.whole(index, at), part.border + own.len() as u32);
            own.push(at);
            far.push(port.peer);
        }
    }
    for (index, (own, far)) in leaving.iter().enumerate() {
        for (&at, &far) in own.iter().zip(far) {
            let (home, port) = deal.home(far);
            let there = &parts[home];
            let others = there.data_vls - 1;
            let lanes = there.more_lanes[port as usize * others..][..others].to_vec();
            let (mut stand_in, rate) = (
                there.ports[port as usize].clone(),
                there.rates[port as usize],
            );
            stand_in.peer = at;
            let part = &mut parts[index];
            part.ports[at as usize].peer = part.ports.len() as u32;
            part.ports.push(stand_in);
            part.more_lanes.extend(lanes);
            part.rates.push(rate);
            part.mail.doors.push(Door {
                part: home as u16,
                port,
                stand_in: stand_ins[&far],
            });
        }
    }
    leaving.into_iter().map(|(_, far)| far).collect()
}

/// The windows of a part's rooms. Groups keep their colours, and have numbers without gaps.
fn windows_of(windows: &Windows, rooms: &[u32]) -> Windows {
    let (groups, coloured) = windows.groups();
    let mut last = None;
    let mut number = 0u16;
    let rooms = rooms.iter().map(|room| {
        let group = groups[*room as usize];
        if last.replace(group).is_some_and(|last| last != group) {
            number += 1;
        }
        match coloured {
            true => number << 1 | group & 1,
            false => number,
        }
    });
    Windows::new(windows.width(), rooms.collect(), coloured)
}

/// A part without ports and machines.
fn empty(whole: &Part, windows: Windows, count: usize) -> Part {
    let flows = |flows: &Vec<FlowCount>| vec![FlowCount::default(); flows.len()];
    Part {
        settings: whole.settings,
        data_vls: whole.data_vls,
        now: whole.now,
        queue: Agenda::Windows(windows),
        known: whole.known,
        switches: Vec::new(),
        adapters: Vec::new(),
        ports: Vec::new(),
        received: Vec::new(),
        rests: Vec::new(),
        kinds: whole.kinds.clone(),
        #[cfg(test)]
        due: Vec::new(),
        rates: Vec::new(),
        more_lanes: Vec::new(),
        flights: Ring::new(),
        errors: Vec::new(),
        random: whole.random.clone(),
        strict: whole.strict,
        ahead: whole.ahead,
        end: whole.end,
        by_lid: whole.by_lid.clone(),
        delivered: vec![FlowCount::default(); whole.delivered.len()],
        delivered_more: whole.delivered_more.iter().map(flows).collect(),
        latencies: Latencies::default(),
        messages: Latencies::default(),
        several: whole.several,
        hops: 0,
        events: 0,
        lost: 0,
        left_over: Vec::new(),
        others: [None; ahead::KEPT],
        hosts: [NONE; ahead::KEPT],
        look: 0,
        sweep: super::sweep::Sweep::default(),
        arrived: Vec::new(),
        looks_ahead: ahead::events(whole.ports.len() / count) > 0,
        looks: None,
        border: 0,
        mail: Mail {
            doors: Vec::new(),
            written: vec![Vec::new(); count],
        },
    }
}
