//! Graphs of steps, and what builds them.
//!
//! A builder is told steps in the order in which one rank could do them one after the other. What each reads and writes settles what
//! must wait for what: a step depends on every earlier one that wrote what it touches, or touched what it writes. Everything else may
//! happen at once.

use std::collections::BTreeMap;
use std::ops::Range;

/// A buffer, symbolically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// What the program passed as send buffer.
    Send,
    /// What the program passed as receive buffer (the one buffer of a broadcast).
    Recv,
    /// Memory of [`Schedule::temp_units`], made for this execution.
    Temp,
}

/// Units of a block of a buffer. Program buffers of operations with blocks have one block for each rank, others block 0; where
/// block boundaries lie, and which datatype each has, the executor knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece {
    /// The buffer.
    pub slot: Slot,
    /// The block.
    pub block: u32,
    /// First unit in the block.
    pub at: u64,
    /// Units.
    pub count: u64,
}

impl Piece {
    /// The first `count` units of a block.
    pub const fn of(slot: Slot, block: u32, count: u64) -> Piece {
        Piece {
            slot,
            block,
            at: 0,
            count,
        }
    }

    /// A part of this piece.
    pub fn part(self, range: Range<u64>) -> Piece {
        debug_assert!(range.start <= range.end && range.end <= self.count);
        Piece {
            at: self.at + range.start,
            count: range.end - range.start,
            ..self
        }
    }
}

/// Which group a peer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Ours.
    Own,
    /// The other one of an inter-communicator.
    Other,
}

/// The other end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Its group.
    pub group: Group,
    /// Its rank there. May be our own rank in neighbourhoods only.
    pub rank: u32,
}

impl Peer {
    /// A rank of our group.
    pub const fn own(rank: u32) -> Peer {
        Peer {
            group: Group::Own,
            rank,
        }
    }

    /// A rank of the other group.
    pub const fn other(rank: u32) -> Peer {
        Peer {
            group: Group::Other,
            rank,
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends the pieces, one after the other, as one message. None at all is a message without data.
    Send {
        /// To whom.
        peer: Peer,
        /// Which of [`Schedule::pieces`].
        pieces: Range<u32>,
    },
    /// Receives one message into the pieces, one after the other.
    Recv {
        /// From whom.
        peer: Peer,
        /// Which of [`Schedule::pieces`].
        pieces: Range<u32>,
    },
    /// `into[i] = from[i]`.
    Copy {
        /// What.
        from: Piece,
        /// Where to; as long.
        into: Piece,
    },
    /// `into[i] = from[i] op into[i]`: `from` is the left operand, as in MPI's user functions.
    Reduce {
        /// Left operand.
        from: Piece,
        /// Right operand and result.
        into: Piece,
    },
}

/// A step and its place in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What to do.
    pub step: Step,
    /// How many steps must be complete first. They have lower numbers.
    pub predecessors: u32,
    /// A send (receive) may be started only when this earlier one to (from) the same peer has been *started*: messages between two
    /// ranks match in order.
    pub posted_after: Option<u32>,
    successors: Range<u32>,
}

/// A rank's part of a collective operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    nodes: Vec<Node>,
    pieces: Vec<Piece>,
    successors: Vec<u32>,
    temp_units: u64,
}

impl Schedule {
    /// Its steps. Doing them in this order, each started when the one before it is, is always allowed.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The pieces of a message.
    pub fn pieces(&self, range: &Range<u32>) -> &[Piece] {
        &self.pieces[range.start as usize..range.end as usize]
    }

    /// The steps that wait for this one.
    pub fn successors(&self, node: &Node) -> &[u32] {
        &self.successors[node.successors.start as usize..node.successors.end as usize]
    }

    /// Units of temporary memory.
    pub fn temp_units(&self) -> u64 {
        self.temp_units
    }
}

/// An earlier use of a range.
struct Access {
    node: u32,
    range: Range<u64>,
    writes: bool,
}

/// A node that is not linked yet.
struct Draft {
    step: Step,
    after: Vec<u32>,
    posted_after: Option<u32>,
}

/// Collects steps.
#[derive(Default)]
pub struct Builder {
    drafts: Vec<Draft>,
    pieces: Vec<Piece>,
    temp_units: u64,
    seen: BTreeMap<(Slot, u32), Vec<Access>>,
    last_send: BTreeMap<Peer, u32>,
    last_recv: BTreeMap<Peer, u32>,
}

impl Builder {
    /// Reserves temporary memory.
    pub fn temp(&mut self, count: u64) -> Piece {
        let at = self.temp_units;
        self.temp_units = at.saturating_add(count);
        Piece {
            slot: Slot::Temp,
            block: 0,
            at,
            count,
        }
    }

    /// Sends pieces to a rank of our group; a message without units is left out at both ends.
    pub fn send(&mut self, to: u32, pieces: &[Piece]) {
        self.send_to(Peer::own(to), pieces);
    }

    /// Receives pieces from a rank of our group.
    pub fn recv(&mut self, from: u32, pieces: &[Piece]) {
        self.recv_from(Peer::own(from), pieces);
    }

    /// As [`Builder::send`], to either group.
    pub fn send_to(&mut self, peer: Peer, pieces: &[Piece]) -> Option<u32> {
        let range = self.keep(pieces)?;
        let node = self.add(Step::Send {
            peer,
            pieces: range,
        });
        self.post(node, peer, true);
        for piece in pieces {
            self.touch(node, *piece, false);
        }
        Some(node)
    }

    /// As [`Builder::recv`], from either group.
    pub fn recv_from(&mut self, peer: Peer, pieces: &[Piece]) -> Option<u32> {
        let range = self.keep(pieces)?;
        let node = self.add(Step::Recv {
            peer,
            pieces: range,
        });
        self.post(node, peer, false);
        for piece in pieces {
            self.touch(node, *piece, true);
        }
        Some(node)
    }

    /// Sends a message without data, once `after` is complete.
    pub fn notify(&mut self, peer: Peer, after: &[u32]) -> u32 {
        let node = self.add(Step::Send { peer, pieces: 0..0 });
        self.post(node, peer, true);
        self.after(node, after);
        node
    }

    /// Receives one.
    pub fn await_notice(&mut self, peer: Peer, after: &[u32]) -> u32 {
        let node = self.add(Step::Recv { peer, pieces: 0..0 });
        self.post(node, peer, false);
        self.after(node, after);
        node
    }

    /// Copies, unless it is nothing or the same place.
    pub fn copy(&mut self, from: Piece, into: Piece) {
        debug_assert_eq!(from.count, into.count);
        if from.count == 0 || from == into {
            return;
        }
        let node = self.add(Step::Copy { from, into });
        self.touch(node, from, false);
        self.touch(node, into, true);
    }

    /// Combines; the result is in `into`.
    pub fn reduce(&mut self, from: Piece, into: Piece) {
        debug_assert_eq!(from.count, into.count);
        if from.count == 0 {
            return;
        }
        let node = self.add(Step::Reduce { from, into });
        self.touch(node, from, false);
        self.touch(node, into, true);
    }

    /// Lets a step wait for others, whatever they touch.
    pub fn after(&mut self, node: u32, others: &[u32]) {
        self.drafts[node as usize]
            .after
            .extend(others.iter().filter(|other| **other < node));
    }

    /// Links the graph.
    pub fn finish(self) -> Schedule {
        let mut counts = vec![0u32; self.drafts.len() + 1];
        let drafts: Vec<Draft> = self
            .drafts
            .into_iter()
            .map(|mut draft| {
                draft.after.sort_unstable();
                draft.after.dedup();
                draft
            })
            .collect();
        for before in drafts.iter().flat_map(|draft| &draft.after) {
            counts[*before as usize + 1] += 1;
        }
        for at in 1..counts.len() {
            counts[at] += counts[at - 1];
        }
        let mut next = counts.clone();
        let mut successors = vec![0; counts[drafts.len()] as usize];
        for (number, draft) in (0..).zip(&drafts) {
            for before in &draft.after {
                let place = &mut next[*before as usize];
                successors[*place as usize] = number;
                *place += 1;
            }
        }
        let nodes: Vec<Node> = drafts
            .into_iter()
            .enumerate()
            .map(|(at, draft)| Node {
                step: draft.step,
                predecessors: draft.after.len() as u32,
                posted_after: draft.posted_after,
                successors: counts[at]..counts[at + 1],
            })
            .collect();
        Schedule {
            nodes,
            pieces: self.pieces,
            successors,
            temp_units: self.temp_units,
        }
    }

    fn add(&mut self, step: Step) -> u32 {
        let number =
            u32::try_from(self.drafts.len()).expect("schedules have fewer than 2^32 steps");
        self.drafts.push(Draft {
            step,
            after: Vec::new(),
            posted_after: None,
        });
        number
    }

    /// Keeps the pieces of a message; `None` if it has no units.
    fn keep(&mut self, pieces: &[Piece]) -> Option<Range<u32>> {
        let start = self.pieces.len();
        self.pieces
            .extend(pieces.iter().filter(|piece| piece.count > 0));
        let place = |at: usize| u32::try_from(at).expect("schedules have fewer than 2^32 pieces");
        let range = place(start)..place(self.pieces.len());
        (!range.is_empty()).then_some(range)
    }

    fn post(&mut self, node: u32, peer: Peer, sends: bool) {
        let last = if sends {
            &mut self.last_send
        } else {
            &mut self.last_recv
        };
        self.drafts[node as usize].posted_after = last.insert(peer, node);
    }

    /// Notes what a step uses, and what it therefore waits for.
    fn touch(&mut self, node: u32, piece: Piece, writes: bool) {
        if piece.count == 0 {
            return;
        }
        let range = piece.at..piece.at.saturating_add(piece.count);
        let seen = self.seen.entry((piece.slot, piece.block)).or_default();
        let after = &mut self.drafts[node as usize].after;
        for access in seen.iter().filter(|access| access.node != node) {
            let overlaps = access.range.start < range.end && range.start < access.range.end;
            if overlaps && (writes || access.writes) {
                after.push(access.node);
            }
        }
        if writes {
            // Whoever waits for this step waits for what lies under it, too.
            seen.retain(|access| {
                access.node == node
                    || access.range.start < range.start
                    || range.end < access.range.end
            });
        }
        seen.push(Access {
            node,
            range,
            writes,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn successors_of(schedule: &Schedule, at: usize) -> Vec<u32> {
        schedule.successors(&schedule.nodes()[at]).to_vec()
    }

    #[test]
    fn hazards_become_edges_and_nothing_else_does() {
        let mut b = Builder::default();
        let recv = Piece::of(Slot::Recv, 0, 10);
        b.recv(1, &[recv.part(0..5)]); // 0
        b.recv(1, &[recv.part(5..10)]); // 1: order of posting, not of completion
        b.send(2, &[recv.part(0..5)]); // 2: after 0
        b.send(3, &[recv]); // 3: after 0 and 1
        b.copy(Piece::of(Slot::Send, 0, 1), recv.part(4..5)); // 4: after 0, 2, 3
        let schedule = b.finish();
        assert_eq!(successors_of(&schedule, 0), [2, 3, 4]);
        assert_eq!(successors_of(&schedule, 1), [3]);
        assert_eq!(successors_of(&schedule, 2), [4]);
        assert_eq!(successors_of(&schedule, 3), [4]);
        let counts: Vec<u32> = schedule
            .nodes()
            .iter()
            .map(|node| node.predecessors)
            .collect();
        assert_eq!(counts, [0, 0, 1, 2, 3]);
        assert_eq!(schedule.nodes()[1].posted_after, Some(0));
        assert_eq!(schedule.nodes()[3].posted_after, None);
    }

    #[test]
    fn messages_without_units_are_left_out_but_notices_are_not() {
        let mut b = Builder::default();
        b.send(1, &[Piece::of(Slot::Send, 0, 0)]);
        b.send(1, &[]);
        b.notify(Peer::own(1), &[]);
        assert_eq!(b.finish().nodes().len(), 1);
    }
}
