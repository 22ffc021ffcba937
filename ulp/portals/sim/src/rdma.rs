//! RDMA in pieces: bytes move one after another, between any two steps of anybody.
//!
//! Owns: which byte of which process is moved. Must not know: whether it may be; `touch` is asked.

use crate::link::Rdma;
use crate::memory::Bytes;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_proto::Piece;
use ferriband_putget_proto::Segment;

/// Where in pieces a byte lies.
pub(crate) fn locate(local: &[Piece], at: u64) -> Option<(usize, u64)> {
    let mut before = at;
    for (index, piece) in local.iter().enumerate() {
        if before < piece.length {
            return Some((index, piece.address + before));
        }
        before -= piece.length;
    }
    None
}

/// Where in the peer's pieces a byte lies: its address and key.
fn locate_remote(remote: &[Segment], at: u64) -> Option<(u64, u32)> {
    let mut before = at;
    for segment in remote {
        if before < segment.length {
            return Some((segment.address + before, segment.key));
        }
        before -= segment.length;
    }
    None
}

impl World {
    /// Whether RDMA of a side can go on.
    pub(crate) fn may_move(&self, link: usize) -> bool {
        let link = &self.links[link];
        let goes = !link.failed || self.plant == Some(Plant::LossEarly);
        goes && link.jobs.iter().any(|job| job.moved < job.length)
    }

    /// Some bytes of one operation of a side are moved.
    pub(crate) fn move_piece(&mut self, at: usize) {
        let moving = |job: &Rdma| job.moved < job.length;
        let count = self.links[at].jobs.iter().filter(|job| moving(job)).count();
        let chosen = self.rng.index(count);
        let found = self.links[at].jobs.iter().enumerate();
        let mut found = found.filter(|job| moving(job.1)).map(|(index, _)| index);
        let Some(index) = found.nth(chosen) else {
            return;
        };
        let most = self.rng.pick(&[1, 7, 64, 400]);
        let job = &self.links[at].jobs[index];
        let (op, moved) = (job.op, job.moved);
        let until = job.length.min(moved + most);
        let (from, to) = (self.links[at].from, self.links[at].to);
        self.note(|_| format!("p{from} RDMA with p{to} for {op}: bytes {moved} to {until}"));
        for byte in moved..until {
            if self.violation.is_none() {
                self.move_byte(at, index, byte);
            }
        }
        self.links[at].jobs[index].moved = until;
        self.touch_rdma(at, index, moved, until);
    }

    fn move_byte(&mut self, at: usize, index: usize, byte: u64) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        let job = &self.links[at].jobs[index];
        let (op, writes) = (job.op, job.writes);
        let local = locate(&job.local, byte);
        let lives = local.is_some_and(|(piece, _)| job.registered[piece].strong_count() > 0);
        let remote = locate_remote(&job.remote, byte);
        let Some((local, (address, key))) = local.map(|local| local.1).zip(remote) else {
            self.fail(
                Law::Range,
                format!("p{from}: RDMA of byte {byte} of {op}, which has fewer"),
            );
            return;
        };
        if !lives {
            self.fail(
                Law::Range,
                format!("p{from}: RDMA for {op} on memory that is not registered"),
            );
            return;
        }
        if !self.processes[to].portals.memory.opens(key, address) {
            self.fail(
                Law::Local,
                format!("p{from}: RDMA for {op} at {address:#x}, {key} is no key"),
            );
            return;
        }
        let done = if writes {
            let value = self.processes[from].portals.memory.rdma_read(local);
            let memory = &mut self.processes[to].portals.memory;
            value.is_some_and(|value| memory.rdma_write(address, value))
        } else {
            let value = self.processes[to].portals.memory.rdma_read(address);
            let memory = &mut self.processes[from].portals.memory;
            value.is_some_and(|value| memory.rdma_write(local, value))
        };
        if !done {
            self.fail(
                Law::Range,
                format!("p{from}: RDMA for {op} on memory that is gone"),
            );
        }
        if done && !Bytes::is_staged(local) {
            self.touch_byte(from, op, local, !writes, byte);
        }
    }

    /// Whether the next operation of a side can complete.
    pub(crate) fn may_complete(&self, link: usize) -> bool {
        let link = &self.links[link];
        let is_over = |job: &Rdma| job.moved == job.length;
        !link.failed && link.jobs.first().is_some_and(is_over)
    }

    /// It does.
    pub(crate) fn complete(&mut self, at: usize) {
        let link = &mut self.links[at];
        let (from, job) = (link.from, link.jobs.remove(0));
        if !job.told {
            link.completions.push_back(job.job);
            self.note(|_| format!("p{from} RDMA for {} is over", job.op));
            self.wake(from);
        }
    }
}
