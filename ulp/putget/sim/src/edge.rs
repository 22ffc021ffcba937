//! What a machine asks of its process and of its queue pairs.
//!
//! Owns: [`Memory`] by tags and [`Wire`], as a driver would carry them out, with the faults that
//! are planted there. Must not know: what must hold; `oracle` is told of everything.

use crate::link::{Late, Packet, Rdma, is_answered, parse};
use crate::process::{CELL, EMPTY, Hold, Temper};
use crate::world::World;
use crate::{Law, Plant};
use ferriband_putget_proto::tags::Direction;
use ferriband_putget_proto::{Answer, Asked, DirectJob, Granted, HEADER_BYTES, Job, Kind, Memory};
use ferriband_putget_proto::{NotBegun, Posting, Segment, Status, Wire};

/// The surroundings of a machine while it is at work.
pub(crate) struct Edge<'a> {
    pub world: &'a mut World,
    /// The machine's side.
    pub link: usize,
    /// What a planted fault takes later.
    late: Option<Late>,
    unplaced: Option<(Hold, Vec<u8>)>,
}

impl<'a> Edge<'a> {
    pub const fn new(world: &'a mut World, link: usize) -> Edge<'a> {
        Edge {
            world,
            link,
            late: None,
            unplaced: None,
        }
    }

    fn me(&self) -> usize {
        self.world.links[self.link].from
    }

    fn peer(&self) -> usize {
        self.world.links[self.link].to
    }

    /// What the tags and the buffers' tempers say of a request: the hold, or why there is none.
    fn grant(&mut self, asked: &Asked<'_>, request: usize, offset: usize) -> Result<Hold, Status> {
        let (me, initiator) = (self.me(), self.peer());
        let process = &mut self.world.processes[me];
        let range = process.tags.range(asked.tag)?;
        let first = range.address as usize / CELL;
        let buffer = process.buffer_at(first).ok_or(Status::NoMemory)?;
        let (temper, generation) = {
            let buffer = &process.buffers[buffer];
            (buffer.temper, buffer.generation)
        };
        if temper == Temper::Refuses && self.world.rng.chance(20) {
            return Err(self.world.rng.pick(&[Status::NotAllowed, Status::Disabled]));
        }
        let room = (range.length as usize / CELL).saturating_sub(offset);
        let mut cells = asked.length as usize / CELL;
        if temper == Temper::Cuts && cells > room {
            cells = room;
            self.world.stats.cut += 1;
        }
        let end = (offset.min(range.length as usize / CELL + 1) + cells) * CELL;
        let process = &mut self.world.processes[me];
        process.tags.hold(asked.tag, end as u64)?;
        process.buffers[buffer].held += 1;
        Ok(Hold {
            initiator,
            request,
            buffer,
            generation,
            first: first + offset,
            cells,
        })
    }

    fn post(&mut self, job: Job, writes: bool, hold: Hold, to: &[Segment]) -> Result<(), NotBegun> {
        let total: u64 = to.iter().map(|segment| segment.length).sum();
        if total != (hold.cells * CELL) as u64 {
            let what = format!("RDMA of {total} bytes, {} cells were granted", hold.cells);
            self.world.fail(Law::Range, what);
        }
        let me = self.me();
        let link = &self.world.links[self.link];
        let under_way = link.jobs.len() + link.completions.len();
        let forgotten = under_way == 0 && self.world.strikes(Plant::JobForgotten, 20);
        let link = &self.world.links[self.link];
        if under_way >= link.job_room || forgotten {
            self.world.stats.jobs_waited += 1;
            return Err(NotBegun::Full);
        }
        let temper = self.world.processes[me].buffers[hold.buffer].temper;
        if temper == Temper::Faults && self.world.rng.chance(30) {
            self.world.stats.faults += 1;
            return Err(NotBegun::Fault);
        }
        let told = self.world.plant == Some(Plant::CompletedEarly);
        let cells = hold.cells + usize::from(!writes && self.world.strikes(Plant::BeyondGrant, 4));
        if self.world.plant == Some(Plant::ReleasedEarly) {
            self.release(&hold, None);
        }
        let link = &mut self.world.links[self.link];
        link.jobs.push(Rdma {
            job,
            writes,
            hold,
            remote: to.to_vec(),
            moved: 0,
            cells,
            told,
        });
        if told {
            link.completions.push_back(job);
            self.world.wake(me);
        }
        Ok(())
    }

    fn release(&mut self, hold: &Hold, end: Option<(Status, u64)>) {
        let (me, initiator) = (self.me(), self.peer());
        let kind = self.world.processes[initiator].requests[hold.request].kind;
        let direction = Direction::of_peer(kind);
        self.world.release(me, hold.buffer, direction, end);
    }

    /// The bytes that a planted fault takes only when the message leaves.
    fn take_late(&mut self, process: usize, first: usize, bytes: usize) {
        let cells = bytes / CELL;
        self.late = Some(Late {
            process,
            first,
            cells,
        });
    }
}

impl Memory for Edge<'_> {
    type Hold = Hold;

    fn admit(&mut self, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        let word = |at: usize| {
            let bytes = asked.address.get(at..at + 4).unwrap_or(&[0; 4]);
            u32::from_be_bytes(bytes.try_into().expect("four bytes")) as usize
        };
        let (request, offset) = (word(0), word(4));
        if !self.world.check_turn(self.link, request, asked) {
            return Err(Status::NoMemory);
        }
        let granted = self.grant(asked, request, offset);
        self.world.admitted(self.link, request, granted);
        let (hold, tag) = (granted?, self.world.rng.below(1000) as u32);
        self.world.wish_lease(self.link, hold.buffer);
        let initiator = self.peer();
        let fate = &mut self.world.processes[initiator].requests[request].fate;
        fate.offset = (offset * CELL) as u64;
        fate.tag = tag;
        Ok(Granted {
            hold,
            length: (hold.cells * CELL) as u64,
            offset: fate.offset,
            tag,
        })
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        if self.world.plant == Some(Plant::PlacedLate) {
            self.unplaced = Some((hold, data.to_vec()));
            return;
        }
        self.world.check_length(&hold, data.len());
        let me = self.me();
        for (at, value) in values(data).enumerate() {
            self.world.write_held(me, &hold, at, value);
        }
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        self.world.check_length(&hold, to.len());
        let me = self.me();
        for (at, room) in to.chunks_exact_mut(CELL).enumerate() {
            let value = self.world.read_held(me, &hold, at);
            room.copy_from_slice(&value.to_be_bytes());
        }
        if self.world.plant == Some(Plant::FetchedLate) {
            self.take_late(me, hold.first, to.len());
        }
    }

    fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        self.fetch(hold, to);
        self.late = None;
        let data = data.get(..to.len()).unwrap_or(data);
        self.place(hold, data);
    }

    fn ended(&mut self, hold: Hold, status: Status) {
        self.world.ended(self.link, &hold, status);
        let length = (hold.cells * CELL) as u64;
        let end = (status == Status::Ok).then_some((status, length));
        let initiator = self.peer();
        let long = self.world.processes[initiator].requests[hold.request].long;
        let me = self.me();
        self.world.processes[me].buffers[hold.buffer].held -= 1;
        if self.world.plant == Some(Plant::ReleasedEarly) && long && status != Status::Fault {
            return;
        }
        self.release(&hold, end);
        if let Some((hold, data)) = self.unplaced.take() {
            for (at, value) in values(&data).enumerate() {
                self.world.write_held(me, &hold, at, value);
            }
        }
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        let me = self.me();
        let process = &self.world.processes[me];
        let buffer = process.requests[token as usize].buffer;
        let first = process.buffers[buffer].first;
        let cells = process.cells[first..].iter();
        for (room, value) in to.chunks_exact_mut(CELL).zip(cells) {
            room.copy_from_slice(&value.to_be_bytes());
        }
        if self.world.plant == Some(Plant::GatheredLate) {
            self.take_late(me, first, to.len());
        }
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        let me = self.me();
        for (at, value) in values(data).enumerate() {
            if let Some(cell) = self.world.own_memory(me, token as usize, at) {
                self.world.processes[me].cells[cell] = value;
            }
        }
    }

    fn done(&mut self, token: u64, answer: Answer) {
        let undeliverable = answer.status == Status::Undeliverable;
        if undeliverable && self.world.strikes(Plant::LossForgotten, 3) {
            return;
        }
        self.world.done(self.link, token as usize, answer);
    }

    fn counted(&mut self, token: u64, _: u64) {
        self.world.counted(self.link, token);
    }

    fn returned(&mut self, token: u64) {
        self.world.returned(self.link, token);
    }
}

impl Wire for Edge<'_> {
    fn direct(&mut self, job: DirectJob, posting: &Posting) -> Result<bool, NotBegun> {
        Ok(self.world.post_direct(self.link, job, posting))
    }

    fn send(&mut self, message: &[u8], solicited: bool, fence: bool) {
        let header = parse(message).header;
        self.world.check_sent(self.link, &header);
        if header.kind == Kind::Revoke && self.world.strikes(Plant::RevokeLost, 3) {
            return;
        }
        let mut bytes = message.to_vec();
        let mut solicited = solicited;
        let late = self.late.take();
        if header.kind == Kind::Response {
            let link = &mut self.world.links[self.link];
            let asked = link.solicits[header.request as usize];
            if self.world.strikes(Plant::ResponseLost, 10) {
                return;
            }
            if !asked && self.world.plant == Some(Plant::PressUnsolicited) {
                solicited = false;
            }
            if asked && self.world.strikes(Plant::SolicitLost, 5) {
                solicited = false;
            }
            if message.len() == HEADER_BYTES && self.world.strikes(Plant::StatusChanged, 10) {
                bytes[2] = if bytes[2] == 0 { 1 } else { 0 };
            }
        }
        if header.returned > 0 && self.world.strikes(Plant::CreditLost, 10) {
            bytes[8..10].copy_from_slice(&(header.returned - 1).to_be_bytes());
        }
        if self.world.plant == Some(Plant::CreditsEarly) {
            let returned = self.world.forge_credits(self.link, header.returned);
            bytes[8..10].copy_from_slice(&returned.to_be_bytes());
        }
        let swaps = self.world.strikes(Plant::MessagesSwapped, 10);
        let link = &mut self.world.links[self.link];
        let packet = Packet {
            late,
            fence,
            ..Packet::message(bytes, solicited)
        };
        if link.failed {
            return;
        }
        let last = link.flying.back();
        let last = last.filter(|last| last.direct.is_none());
        let between = last.is_some_and(|last| is_answered(&parse(&last.bytes).header)) && swaps;
        let at = link.flying.len() - usize::from(between);
        link.flying.insert(at, packet);
    }

    fn read(&mut self, job: Job, to: Hold, from: &[Segment]) -> Result<(), NotBegun> {
        self.post(job, false, to, from)
    }

    fn write(&mut self, job: Job, from: Hold, to: &[Segment]) -> Result<(), NotBegun> {
        self.post(job, true, from, to)
    }
}

/// The cells of a payload.
fn values(data: &[u8]) -> impl Iterator<Item = u32> {
    data.chunks(CELL)
        .map(|cell| cell.try_into().map_or(EMPTY, u32::from_be_bytes))
}
