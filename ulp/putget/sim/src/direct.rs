//! Leases and operations by them, cell by cell, by the messages' queue pair.
//!
//! Owns: which buffer is lent to whom, and what of an operation touches memory when: a WRITE in its
//! order among messages, before software looks at those in front of it; a READ, too, which may be
//! tried again as long as its end was not told, and then brings what is there by then. Must not
//! know: who may begin one; the machines do.

use crate::edge::Edge;
use crate::link::Packet;
use crate::process::{CELL, Hold, SHARED, Temper};
use crate::program::Wait;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_putget_proto::{DirectJob, Lease, Posting, Rights, Segment, Status};

/// What is beside the tag in leases.
pub(crate) const BESIDE: [u8; 4] = *b"cell";

/// An operation by a lease that has left its machine.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    pub job: DirectJob,
    pub posting: Posting,
    /// The initiator's request.
    pub request: usize,
    /// The bytes of a put, unless they are taken from memory.
    pub copied: Option<Vec<u32>>,
    /// Cells that were moved.
    pub moved: usize,
    /// What a get has found.
    pub found: Vec<u32>,
}

/// The key of a buffer that is lent, in its present generation.
const fn lease_key(buffer: usize, generation: u32) -> u32 {
    0x10_0000 | (buffer as u32) << 8 | generation & 0xff
}

/// The token of a lease: which buffer, in which generation.
const fn token_of(buffer: usize, generation: u32) -> u64 {
    (buffer as u64) << 32 | generation as u64
}

const fn buffer_of(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, token as u32)
}

impl World {
    /// A request for a buffer was let in: its peer may be lent it.
    pub(crate) fn lend(&mut self, at: usize) {
        let (me, peer) = (self.links[at].from, self.links[at].to);
        let Some(buffer) = self.links[at].wished.take() else {
            return;
        };
        let known = &mut self.processes[me].buffers[buffer];
        if !known.registered || known.closing || known.lent.contains(&peer) {
            return;
        }
        let mut rights = Rights::PUT | Rights::GET;
        rights.set(Rights::COUNTS, known.counts);
        if known.counts && self.plant == Some(Plant::GetUncounted) {
            rights.remove(Rights::COUNTS);
        }
        let memory = Segment {
            address: (known.first * CELL) as u64,
            length: (known.cells * CELL) as u64,
            key: lease_key(buffer, known.generation),
        };
        let lease = Lease {
            token: token_of(buffer, known.generation),
            tag: known.tag,
            address: &BESIDE,
            rights,
            memory,
        };
        let Some(mut machine) = self.links[at].machine.take() else {
            return;
        };
        let given = machine.lease(&lease, &mut Edge::new(self, at));
        self.links[at].machine = Some(machine);
        self.note(|_| format!("p{me} lends buffer {buffer} to p{peer}: {given}"));
        if given {
            self.processes[me].buffers[buffer].lent.push(peer);
            self.stats.leases += 1;
        }
    }

    /// A buffer that is to go is called back. Whether it is not lent any more.
    pub(crate) fn call_back(&mut self, me: usize, buffer: usize) -> bool {
        if self.plant == Some(Plant::LeaseKept) {
            return true;
        }
        let known = &mut self.processes[me].buffers[buffer];
        known.closing = true;
        let token = token_of(buffer, known.generation);
        for peer in known.lent.clone() {
            let at = self.link(me, peer);
            if let Some(mut machine) = self.links[at].machine.take() {
                machine.revoke(token, &mut Edge::new(self, at));
                self.links[at].machine = Some(machine);
            }
        }
        self.processes[me].buffers[buffer].lent.is_empty()
            || self.plant == Some(Plant::LeaseUnawaited)
    }

    /// A lease is over.
    pub(crate) fn returned(&mut self, at: usize, token: u64) {
        let (me, peer) = (self.links[at].from, self.links[at].to);
        let (buffer, generation) = buffer_of(token);
        let loose = matches!(self.plant, Some(Plant::LeaseKept | Plant::LeaseUnawaited));
        let known = &mut self.processes[me].buffers[buffer];
        let held = known.lent.iter().position(|holder| *holder == peer);
        match held {
            Some(at) if known.generation == generation => drop(known.lent.swap_remove(at)),
            _ if loose => {}
            _ => self.fail(Law::Range, format!("p{me}: {token:#x} comes back twice")),
        }
        self.note(|_| format!("p{peer} returns buffer {buffer} to p{me}"));
        if self.processes[me].program.wait == Wait::Returned(buffer) {
            self.wake(me);
        }
    }

    /// A put by a lease is counted. Law 7.
    pub(crate) fn counted(&mut self, at: usize, token: u64) {
        let me = self.links[at].from;
        let (buffer, generation) = buffer_of(token);
        if self.strikes(Plant::CountLost, 4) {
            return;
        }
        let known = &mut self.processes[me].buffers[buffer];
        if known.generation != generation {
            self.fail(Law::Counter, format!("p{me}: {token:#x} counts"));
            return;
        }
        known.count += 1;
        self.stats.counted += 1;
    }

    /// Whether a fence keeps a packet of a side's.
    pub(crate) fn is_fenced(&self, at: usize) -> bool {
        let link = &self.links[at];
        let fenced = link.flying.front().is_some_and(|packet| packet.fence);
        let reads = |direct: &Direct| direct.posting.op.reads();
        fenced && self.plant != Some(Plant::Unfenced) && link.answering.iter().any(reads)
    }

    /// The operation at the head of a side's queue goes on at the target.
    pub(crate) fn land_direct(&mut self, at: usize) {
        let most = self.rng.pick(&[1, 4, 16]);
        for _ in 0..most {
            let front = self.links[at].flying.front();
            let Some(direct) = front.and_then(|packet| packet.direct.as_deref()) else {
                return;
            };
            if direct.moved < direct.posting.remote.length as usize / CELL {
                self.move_direct(at);
            } else {
                self.arrive_direct(at);
                return;
            }
        }
    }

    /// Where a cell of an operation lies. Law 4.
    fn reach(&mut self, at: usize, direct: &Direct, cell: usize) -> Option<(Hold, usize)> {
        let (initiator, me) = (self.links[at].from, self.links[at].to);
        let remote = &direct.posting.remote;
        let first = remote.address as usize / CELL;
        let process = &self.processes[me];
        let there = process.buffer_at(first + cell).filter(|at| *at < SHARED);
        let hold = there.map(|buffer| Hold {
            initiator,
            request: direct.request,
            buffer,
            generation: process.buffers[buffer].generation,
            first,
            cells: remote.length as usize / CELL,
        });
        let valid = hold.filter(|hold| {
            let buffer = &process.buffers[hold.buffer];
            buffer.registered && lease_key(hold.buffer, hold.generation) == remote.key
        });
        if valid.is_none() {
            let what = format!("p{me}: {remote:x?}, cell {cell} is reached: {hold:?}");
            self.fail(Law::Range, what);
        }
        valid.map(|hold| (hold, first + cell))
    }

    fn move_direct(&mut self, at: usize) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        let Some(mut packet) = self.links[at].flying.pop_front() else {
            return;
        };
        let Some(mut direct) = packet.direct.take() else {
            return;
        };
        let cell = direct.moved;
        direct.moved += 1;
        if let Some((hold, there)) = self.reach(at, &direct, cell) {
            if direct.posting.op.reads() {
                direct.found.push(self.processes[to].cells[there]);
            } else {
                let value = match &direct.copied {
                    Some(copied) => Some(copied[cell]),
                    None => self
                        .own_memory(from, direct.request, cell)
                        .map(|own| self.processes[from].cells[own]),
                };
                if let Some(value) = value {
                    self.put_cell(to, &hold, cell, value);
                }
            }
        }
        packet.direct = Some(direct);
        self.links[at].flying.push_front(packet);
    }

    /// All of an operation is done at the target.
    fn arrive_direct(&mut self, at: usize) {
        let to = self.links[at].to;
        let Some(packet) = self.links[at].flying.pop_front() else {
            return;
        };
        let Some(direct) = packet.direct else {
            return;
        };
        let request = direct.request;
        self.note(|_| format!("an operation of request {request} is done at p{to}"));
        let hold = self.reach_all(at, &direct);
        if let Some(hold) = hold {
            let initiator = self.links[at].from;
            let fate = &mut self.processes[initiator].requests[request].fate;
            fate.admitted = Some(Ok(hold));
            fate.ended = Some(Status::Ok);
        }
        if let Some(immediate) = direct.posting.immediate {
            self.take_receive(at);
            let length = direct.posting.remote.length;
            self.links[at].arrived.push_back(Packet {
                immediate: Some((immediate, length)),
                ..Packet::message(Vec::new(), true)
            });
            self.wake(to);
        }
        if !packet.told {
            self.links[at].answering.push_back(*direct);
        }
    }

    /// The memory of an operation, whose first cell is there if it has cells.
    fn reach_all(&mut self, at: usize, direct: &Direct) -> Option<Hold> {
        if direct.posting.remote.length > 0 {
            return self.reach(at, direct, 0).map(|(hold, _)| hold);
        }
        let (initiator, me) = (self.links[at].from, self.links[at].to);
        let key = direct.posting.remote.key;
        let process = &self.processes[me];
        let keyed = |buffer: &usize| lease_key(*buffer, process.buffers[*buffer].generation) == key;
        let buffer = (0..SHARED).find(keyed)?;
        Some(Hold {
            initiator,
            request: direct.request,
            buffer,
            generation: process.buffers[buffer].generation,
            first: direct.posting.remote.address as usize / CELL,
            cells: 0,
        })
    }

    /// Whether the end of a side's next operation can be told.
    pub(crate) fn may_answer(&self, at: usize) -> bool {
        let link = &self.links[at];
        !link.failed && !link.answering.is_empty()
    }

    /// It is, perhaps after a READ was tried again.
    pub(crate) fn answer(&mut self, at: usize) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        let Some(mut direct) = self.links[at].answering.pop_front() else {
            return;
        };
        if direct.posting.op.reads() && self.rng.chance(50) {
            for cell in 0..direct.found.len() {
                if let Some((_, there)) = self.reach(at, &direct, cell) {
                    direct.found[cell] = self.processes[to].cells[there];
                }
            }
        }
        self.tell_direct(at, direct.job, direct.found);
        self.note(|_| format!("p{from}: request {} has its end", direct.request));
    }

    pub(crate) fn tell_direct(&mut self, at: usize, job: DirectJob, found: Vec<u32>) {
        let link = &mut self.links[at];
        link.direct_over.push_back((job, found));
        let (from, armed) = (link.from, link.armed_for_direct);
        if armed {
            self.wake(from);
        }
    }

    /// An operation was posted.
    pub(crate) fn post_direct(&mut self, at: usize, job: DirectJob, posting: &Posting) -> bool {
        let me = self.links[at].from;
        let request = posting.token as usize;
        let cells = posting.remote.length as usize / CELL;
        let buffer = self.processes[me].requests[request].buffer;
        let first = self.processes[me].buffers[buffer].first;
        let copied = posting.op.reads() || cells <= 16;
        let bytes = (copied && !posting.op.reads())
            .then(|| self.processes[me].cells[first..first + cells].to_vec());
        if posting.immediate.is_some() {
            self.check_immediate(at);
        }
        let early = self.plant == Some(Plant::DirectEarly) && !posting.op.reads();
        if early {
            self.tell_direct(at, job, Vec::new());
        }
        let link = &mut self.links[at];
        if !link.failed {
            link.flying.push_back(Packet {
                fence: posting.fence,
                direct: Some(Box::new(Direct {
                    job,
                    posting: *posting,
                    request,
                    copied: bytes,
                    moved: 0,
                    found: Vec::new(),
                })),
                told: early,
                ..Packet::message(Vec::new(), false)
            });
        }
        copied
    }

    /// What may be lent when a request for it was let in.
    pub(crate) fn wish_lease(&mut self, at: usize, buffer: usize) {
        let me = self.links[at].from;
        let known = &self.processes[me].buffers[buffer];
        let plain = known.temper == Temper::Plain && buffer < SHARED;
        if plain && self.processes[me].lends && self.rng.chance(50) {
            self.links[at].wished = Some(buffer);
        }
    }
}
