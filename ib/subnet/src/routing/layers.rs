//! Lanes without loops: which channels of a lane wait for which, kept in an order in which each comes before those that it waits for.
//!
//! A path is let into a lane only if its waiting closes no circle. The order is repaired where a new pair contradicts it (D. Pearce and P. Kelly, A dynamic
//! topological sort algorithm for directed acyclic graphs, 2007), which is cheap while most pairs agree with it: the first order is that of
//! paths that go up and then down.

use crate::graph::Graph;

/// The channels of a graph: outputs of switches, numbered.
pub(super) struct Channels {
    begin: Vec<u32>,
}

impl Channels {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut begin = vec![0];
        for switch in graph.switches() {
            begin.push(begin[begin.len() - 1] + switch.ports.len() as u32);
        }
        Self { begin }
    }

    pub(super) fn of(&self, switch: u32, port: u8) -> u32 {
        self.begin[switch as usize] + u32::from(port)
    }

    fn count(&self) -> usize {
        self.begin[self.begin.len() - 1] as usize
    }

    /// Each channel's place in an order: those that go up, the lowest first, before those that go down, the highest first.
    pub(super) fn order(&self, graph: &Graph, heights: &[u32]) -> Vec<u32> {
        let mut keys = vec![(2_u8, 0_u32); self.count()];
        for from in 0..graph.switches().len() as u32 {
            let height = heights[from as usize];
            for (port, to, _) in graph.links(from) {
                let up = heights[to as usize] > height;
                keys[self.of(from, port) as usize] = if up {
                    (0, height)
                } else {
                    (1, u32::MAX - height)
                };
            }
        }
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by_key(|&channel| keys[channel as usize]);
        let mut places = vec![0; keys.len()];
        for (place, &channel) in (0..).zip(&order) {
            places[channel as usize] = place;
        }
        places
    }
}

/// One channel of a path and the next, with the port of the latter.
pub(super) type Wait = (u32, u32, u8);

fn has(bits: &[[u64; 4]], &(from, _, port): &Wait) -> bool {
    bits[from as usize][usize::from(port / 64)] >> (port % 64) & 1 != 0
}

/// A lane.
#[derive(Clone)]
pub(super) struct Layer {
    places: Vec<u32>,
    /// For each channel, whether it waits for the output with each number of the switch that it leads to.
    known: Vec<[u64; 4]>,
    /// In the same way, what closes a circle with those that are let in already: it will do so for ever, since nobody is put out again.
    refused: Vec<[u64; 4]>,
    next: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    seen: Vec<u32>,
    round: u32,
    added: Vec<Wait>,
    work: u64,
}

impl Layer {
    /// An empty one, with an order to begin with.
    pub(super) fn new(places: Vec<u32>) -> Self {
        let count = places.len();
        Self {
            places,
            known: vec![[0; 4]; count],
            refused: vec![[0; 4]; count],
            next: vec![Vec::new(); count],
            before: vec![Vec::new(); count],
            seen: vec![0; count],
            round: 0,
            added: Vec::new(),
            work: 0,
        }
    }

    fn knows(&self, wait: &Wait) -> bool {
        has(&self.known, wait)
    }

    /// Channels that searches for circles have looked at so far: what admitting costs.
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    /// All of them are let in without a search: the order has each before what it waits for.
    pub(super) fn agrees(&self, waits: &[Wait]) -> bool {
        let places = &self.places;
        let agrees = |wait: &Wait| places[wait.0 as usize] < places[wait.1 as usize];
        waits.iter().all(agrees)
    }

    /// Lets all of them in, or none if they would close a circle.
    pub(super) fn admit(&mut self, waits: impl Iterator<Item = Wait> + Clone) -> bool {
        if waits.clone().any(|wait| has(&self.refused, &wait)) {
            return false;
        }
        let mut added = std::mem::take(&mut self.added);
        added.clear();
        let mut wrong = None;
        for wait in waits {
            if self.knows(&wait) {
                continue;
            }
            if !self.insert(&wait) {
                wrong = Some(wait);
                break;
            }
            added.push(wait);
        }
        if wrong.is_some() {
            // each is the last of its lists once those that came after it are gone; the order holds without them too
            for (from, to, port) in added.drain(..).rev() {
                self.next[from as usize].pop();
                self.before[to as usize].pop();
                self.known[from as usize][usize::from(port / 64)] &= !(1 << (port % 64));
            }
        }
        self.added = added;
        if let Some(wait) = wrong {
            // the circle may have been closed by others of the path
            let (from, to, port) = wait;
            if from == to
                || self.places[from as usize] > self.places[to as usize] && !self.reorder(from, to)
            {
                self.refused[from as usize][usize::from(port / 64)] |= 1 << (port % 64);
            }
        }
        wrong.is_none()
    }

    fn insert(&mut self, &(from, to, port): &Wait) -> bool {
        if from == to {
            return false;
        }
        if self.places[from as usize] > self.places[to as usize] && !self.reorder(from, to) {
            return false;
        }
        self.next[from as usize].push(to);
        self.before[to as usize].push(from);
        self.known[from as usize][usize::from(port / 64)] |= 1 << (port % 64);
        true
    }

    /// Changes the order so that `from` comes before `to`; false if `to` waits for `from` already: a circle.
    fn reorder(&mut self, from: u32, to: u32) -> bool {
        let (low, high) = (self.places[to as usize], self.places[from as usize]);
        self.round += 1;
        let mut after = vec![to];
        self.seen[to as usize] = self.round;
        let mut at = 0;
        while let Some(&here) = after.get(at) {
            at += 1;
            self.work += 1 + self.next[here as usize].len() as u64;
            for &there in &self.next[here as usize] {
                if there == from {
                    return false;
                }
                if self.places[there as usize] < high && self.seen[there as usize] != self.round {
                    self.seen[there as usize] = self.round;
                    after.push(there);
                }
            }
        }
        let mut earlier = vec![from];
        self.seen[from as usize] = self.round;
        at = 0;
        while let Some(&here) = earlier.get(at) {
            at += 1;
            self.work += 1 + self.before[here as usize].len() as u64;
            for &there in &self.before[here as usize] {
                if self.places[there as usize] > low && self.seen[there as usize] != self.round {
                    self.seen[there as usize] = self.round;
                    earlier.push(there);
                }
            }
        }
        earlier.sort_unstable_by_key(|&channel| self.places[channel as usize]);
        after.sort_unstable_by_key(|&channel| self.places[channel as usize]);
        earlier.extend(after);
        let mut places: Vec<u32> = earlier
            .iter()
            .map(|&channel| self.places[channel as usize])
            .collect();
        places.sort_unstable();
        for (channel, place) in earlier.into_iter().zip(places) {
            self.places[channel as usize] = place;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_kept_out_and_leaves_no_trace() {
        let mut layer = Layer::new((0..6).rev().collect());
        // all lead to outputs with their own numbers
        let wait = |from: u32, to: u32| (from, to, to as u8);
        assert!(layer.admit([wait(0, 1), wait(1, 2)].into_iter()));
        assert!(layer.admit([wait(3, 0)].into_iter()));
        assert!(!layer.admit([wait(4, 5), wait(2, 3)].into_iter()));
        assert!(
            layer.admit([wait(5, 4)].into_iter()),
            "4 does not wait for 5"
        );
        assert!(!layer.admit([wait(4, 4)].into_iter()));
        assert!(!layer.admit([wait(2, 0)].into_iter()));
        assert!(layer.admit([wait(2, 5), wait(0, 1), wait(3, 5)].into_iter()));
        assert!(!layer.admit([wait(4, 3)].into_iter()));
    }
}
