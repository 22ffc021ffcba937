//! RDMA, piece by piece, and the memory of initiators that it touches.
//!
//! Owns: which cell moves where. Must not know: when.

use crate::link::Rdma;
use crate::process::CELL;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_putget_proto::Segment;

/// The key of the registration of an own buffer.
pub(crate) const fn key_of(process: usize, buffer: usize) -> u32 {
    0x4b00 + process as u32 * 0x100 + buffer as u32
}

/// Where in pieces a cell lies: its address and key.
fn locate(remote: &[Segment], cell: usize) -> Option<(u64, u32)> {
    let mut before = (cell * CELL) as u64;
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
        goes && link.jobs.iter().any(|job| job.moved < job.cells)
    }

    /// Some cells of one operation of a side are moved.
    pub(crate) fn move_piece(&mut self, at: usize) {
        let moving = |job: &Rdma| job.moved < job.cells;
        let link = &self.links[at];
        let count = link.jobs.iter().filter(|job| moving(job)).count();
        let chosen = self.rng.index(count);
        let link = &self.links[at];
        let found = link.jobs.iter().enumerate().filter(|job| moving(job.1));
        let Some(index) = found.map(|(index, _)| index).nth(chosen) else {
            return;
        };
        let most = self.rng.pick(&[1, 1, 3, 16]);
        let (from, to) = (self.links[at].from, self.links[at].to);
        self.note(|world| {
            let job = &world.links[at].jobs[index];
            let (moved, cells, hold) = (job.moved, job.cells, job.hold);
            format!("p{from} RDMA with p{to}: {moved} of {cells}, {most} more, {hold:?}")
        });
        for _ in 0..most {
            let job = &self.links[at].jobs[index];
            if !moving(job) {
                break;
            }
            self.move_cell(at, index);
            self.links[at].jobs[index].moved += 1;
        }
    }

    fn move_cell(&mut self, at: usize, index: usize) {
        let link = &self.links[at];
        let (from, to) = (link.from, link.to);
        let Rdma {
            writes,
            hold,
            moved,
            ref remote,
            ..
        } = link.jobs[index];
        let Some((address, key)) = locate(remote, moved) else {
            self.fail(Law::Range, format!("RDMA beyond the pieces of {hold:?}"));
            return;
        };
        let Some(cell) = self.own_memory(to, hold.request, moved) else {
            return;
        };
        let buffer = self.processes[to].requests[hold.request].buffer;
        if address as usize != cell * CELL || key != key_of(to, buffer) {
            let what = format!("RDMA at {address:#x}, key {key:#x}, of {hold:?}");
            self.fail(Law::Local, what);
            return;
        }
        if writes {
            self.processes[to].cells[cell] = self.read_held(from, &hold, moved);
        } else {
            let value = self.processes[to].cells[cell];
            self.write_held(from, &hold, moved, value);
        }
    }

    /// Whether the next operation of a side can complete.
    pub(crate) fn may_complete(&self, link: usize) -> bool {
        let link = &self.links[link];
        let is_over = |job: &Rdma| job.moved == job.cells;
        !link.failed && link.jobs.first().is_some_and(is_over)
    }

    /// It does.
    pub(crate) fn complete(&mut self, at: usize) {
        let link = &mut self.links[at];
        let (from, job) = (link.from, link.jobs.remove(0));
        if !job.told {
            link.completions.push_back(job.job);
            self.note(|_| format!("p{from} RDMA is over: {:?}", job.hold));
            self.wake(from);
        }
    }
}
