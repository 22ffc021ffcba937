//! A reference executor: all ranks of one or two groups in one memory, under the hardest rules that MPI allows.
//!
//! A send is complete only when its receive has been posted (no buffering at all); steps that may start are started in an order that a
//! seed picks; messages between two ranks match in the order in which they were posted. A schedule that can deadlock, that needs an
//! order which it does not ask for, or that mixes up two messages, is caught here.
//!
//! A unit is a list of what was combined to make it, so combining is appending: associative, not commutative.

#![allow(dead_code)] // each test file uses its own part

use ferriband_mpi_coll::{Group, Peer, Piece, Schedule, Slot, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What was combined, in order. Nothing yet is empty.
pub type Unit = Vec<(u32, u64)>;

/// The buffers of a rank: blocks of units.
#[derive(Clone, Default)]
pub struct Buffers {
    pub send: Vec<Vec<Unit>>,
    pub recv: Vec<Vec<Unit>>,
}

/// Rank, and which group it is in.
type Id = (usize, u32);

struct Rank {
    schedule: Schedule,
    buffers: Buffers,
    temp: Vec<Unit>,
    waiting: Vec<u32>,
    started: BTreeSet<u32>,
    done: usize,
}

/// All ranks. One group, or two that talk with each other.
pub struct Machine {
    ranks: BTreeMap<Id, Rank>,
    /// Posted sends and receives, by (from, to).
    sends: BTreeMap<(Id, Id), VecDeque<u32>>,
    recvs: BTreeMap<(Id, Id), VecDeque<u32>>,
    /// Steps whose predecessors are complete.
    ready: Vec<(Id, u32)>,
    seed: u64,
    /// Messages so far, with their lengths: (from, to, units).
    pub messages: Vec<(u32, u32, usize)>,
}

impl Machine {
    pub fn new(groups: Vec<Vec<(Schedule, Buffers)>>, seed: u64) -> Machine {
        let (mut ranks, mut ready) = (BTreeMap::new(), Vec::new());
        for (group, members) in groups.into_iter().enumerate() {
            for (number, (schedule, buffers)) in (0..).zip(members) {
                let waiting: Vec<u32> = schedule
                    .nodes()
                    .iter()
                    .map(|node| node.predecessors)
                    .collect();
                let free = (0..).zip(&waiting).filter(|(_, count)| **count == 0);
                ready.extend(free.map(|(at, _)| ((group, number), at)));
                let temp =
                    vec![Unit::new(); usize::try_from(schedule.temp_units()).expect("small")];
                let rank = Rank {
                    schedule,
                    buffers,
                    temp,
                    waiting,
                    started: BTreeSet::new(),
                    done: 0,
                };
                ranks.insert((group, number), rank);
            }
        }
        Machine {
            ranks,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            ready,
            seed: seed.wrapping_mul(2).wrapping_add(1),
            messages: Vec::new(),
        }
    }

    /// Runs to the end and returns the buffers of each group; panics with who waits for whom if nothing goes on any more.
    pub fn run(&mut self) -> Vec<Vec<Buffers>> {
        while let Some(at) = self.next() {
            let (id, node) = self.ready.swap_remove(at);
            self.start(id, node);
        }
        for (id, rank) in &self.ranks {
            let total = rank.schedule.nodes().len();
            let stuck = &rank.started;
            assert_eq!(
                rank.done, total,
                "rank {id:?} does not end; begun and not complete: {stuck:?} of {:#?}",
                rank.schedule
            );
        }
        let mut groups: Vec<Vec<Buffers>> = Vec::new();
        for ((group, _), rank) in &self.ranks {
            if groups.len() == *group {
                groups.push(Vec::new());
            }
            groups[*group].push(rank.buffers.clone());
        }
        let unmatched = self
            .sends
            .values()
            .chain(self.recvs.values())
            .map(VecDeque::len)
            .sum::<usize>();
        assert_eq!(unmatched, 0, "a message has no other end");
        groups
    }

    /// Any of the ready steps that may start now.
    fn next(&mut self) -> Option<usize> {
        let count = self.ready.len();
        let first = self.random(count.max(1));
        (0..count).map(|at| (first + at) % count).find(|at| {
            let (id, node) = self.ready[*at];
            self.may_start(id, node)
        })
    }

    fn random(&mut self, below: usize) -> usize {
        // SplitMix64
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn may_start(&self, id: Id, node: u32) -> bool {
        let rank = &self.ranks[&id];
        let step = &rank.schedule.nodes()[node as usize];
        step.posted_after.is_none_or(|before| {
            before < node && (rank.started.contains(&before) || rank.is_done(before))
        })
    }

    fn start(&mut self, id: Id, node: u32) {
        let rank = self.ranks.get_mut(&id).expect("a rank");
        let step = rank.schedule.nodes()[node as usize].step.clone();
        match step {
            Step::Send { peer, .. } => {
                rank.started.insert(node);
                let to = other_end(id, peer);
                assert!(self.ranks.contains_key(&to), "rank {id:?} sends to {to:?}");
                self.sends.entry((id, to)).or_default().push_back(node);
                self.meet(id, to);
            }
            Step::Recv { peer, .. } => {
                rank.started.insert(node);
                let from = other_end(id, peer);
                assert!(
                    self.ranks.contains_key(&from),
                    "rank {id:?} receives from {from:?}"
                );
                self.recvs.entry((from, id)).or_default().push_back(node);
                self.meet(from, id);
            }
            Step::Copy { from, into } => {
                let units = self.read(id, from);
                self.write(id, into, units);
                self.complete(id, node);
            }
            Step::Reduce { from, into } => {
                let (left, right) = (self.read(id, from), self.read(id, into));
                let combined = left.into_iter().zip(right).map(|(l, r)| {
                    assert!(
                        !l.is_empty() && !r.is_empty(),
                        "rank {id:?} combines what is not there: {from:?} {into:?}"
                    );
                    [l, r].concat()
                });
                let combined = combined.collect();
                self.write(id, into, combined);
                self.complete(id, node);
            }
        }
    }

    /// Moves a message if both ends are posted.
    fn meet(&mut self, from: Id, to: Id) {
        let (Some(sends), Some(recvs)) = (
            self.sends.get_mut(&(from, to)),
            self.recvs.get_mut(&(from, to)),
        ) else {
            return;
        };
        if sends.is_empty() || recvs.is_empty() {
            return;
        }
        let send = sends.pop_front().expect("not empty");
        let recv = recvs.pop_front().expect("not empty");
        let pieces = |machine: &Machine, id: Id, node: u32| {
            let schedule = &machine.ranks[&id].schedule;
            match &schedule.nodes()[node as usize].step {
                Step::Send { pieces, .. } | Step::Recv { pieces, .. } => {
                    schedule.pieces(pieces).to_vec()
                }
                other => panic!("{other:?} is no message"),
            }
        };
        let (out, into) = (pieces(self, from, send), pieces(self, to, recv));
        let mut units: VecDeque<Unit> = out
            .iter()
            .flat_map(|piece| self.read(from, *piece))
            .collect();
        let room: u64 = into.iter().map(|piece| piece.count).sum();
        assert_eq!(
            room,
            units.len() as u64,
            "a message of rank {from:?} to rank {to:?} has another length than its receive"
        );
        self.messages.push((from.1, to.1, units.len()));
        for piece in into {
            let part = units.drain(..piece.count as usize).collect();
            self.write(to, piece, part);
        }
        self.complete(from, send);
        self.complete(to, recv);
    }

    fn complete(&mut self, id: Id, node: u32) {
        let rank = self.ranks.get_mut(&id).expect("a rank");
        rank.started.remove(&node);
        rank.done += 1;
        // A mark for `is_done`.
        rank.waiting[node as usize] = u32::MAX;
        let successors = rank
            .schedule
            .successors(&rank.schedule.nodes()[node as usize])
            .to_vec();
        for next in successors {
            assert!(next > node, "numbers are an order");
            rank.waiting[next as usize] -= 1;
            if rank.waiting[next as usize] == 0 {
                self.ready.push((id, next));
            }
        }
    }

    fn read(&self, id: Id, piece: Piece) -> Vec<Unit> {
        let (at, count) = (piece.at as usize, piece.count as usize);
        let from = self.ranks[&id].block(piece);
        let units = from
            .get(at..at + count)
            .unwrap_or_else(|| panic!("rank {id:?}: {piece:?} of {}", from.len()));
        units.to_vec()
    }

    fn write(&mut self, id: Id, piece: Piece, units: Vec<Unit>) {
        assert_ne!(piece.slot, Slot::Send, "send buffers are not written");
        let into = self.ranks.get_mut(&id).expect("a rank").block_mut(piece);
        let room = into.len();
        let (at, count) = (piece.at as usize, piece.count as usize);
        let place = into
            .get_mut(at..at + count)
            .unwrap_or_else(|| panic!("rank {id:?}: {piece:?} of {room}"));
        place.clone_from_slice(&units);
    }
}

impl Rank {
    fn is_done(&self, node: u32) -> bool {
        self.waiting[node as usize] == u32::MAX
    }

    fn block(&self, piece: Piece) -> &Vec<Unit> {
        let missing = || panic!("{piece:?} is not there");
        match piece.slot {
            Slot::Send => self
                .buffers
                .send
                .get(piece.block as usize)
                .unwrap_or_else(missing),
            Slot::Recv => self
                .buffers
                .recv
                .get(piece.block as usize)
                .unwrap_or_else(missing),
            Slot::Temp => &self.temp,
        }
    }

    fn block_mut(&mut self, piece: Piece) -> &mut Vec<Unit> {
        match piece.slot {
            Slot::Send => panic!("send buffers are not written"),
            Slot::Recv => self
                .buffers
                .recv
                .get_mut(piece.block as usize)
                .unwrap_or_else(|| panic!("{piece:?} is not there")),
            Slot::Temp => &mut self.temp,
        }
    }
}

fn other_end(id: Id, peer: Peer) -> Id {
    match peer.group {
        Group::Own => (id.0, peer.rank),
        Group::Other => (1 - id.0, peer.rank),
    }
}

/// A vector of a rank: unit `i` is its own.
pub fn vector(rank: u32, count: u64) -> Vec<Unit> {
    (0..count).map(|i| vec![(rank, i)]).collect()
}

/// Room for units.
pub fn room(count: u64) -> Vec<Unit> {
    vec![Unit::new(); count as usize]
}

/// The combination of some ranks' vectors, in order.
pub fn combined(ranks: impl Iterator<Item = u32> + Clone, count: u64) -> Vec<Unit> {
    (0..count)
        .map(|i| ranks.clone().map(|rank| (rank, i)).collect())
        .collect()
}

/// The same without looking at the order, for commutative operations.
pub fn sorted(mut units: Vec<Unit>) -> Vec<Unit> {
    for unit in &mut units {
        unit.sort_unstable();
    }
    units
}
