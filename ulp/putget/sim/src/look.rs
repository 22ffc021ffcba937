//! Who is woken, who looks at what has come, and who sleeps.
//!
//! Owns: a process's thread, as the design has it: it looks until there is nothing, arms its
//! queues, looks once more, and sleeps until a solicited message, any message where all are armed,
//! RDMA of its own, or a failure. Must not know: what messages mean.

use crate::edge::Edge;
use crate::link::{Late, Packet, is_answered, parse};
use crate::process::{CELL, Hold};
use crate::program::Wait;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_putget_proto::{Connection, Flags, HEADER_BYTES, Kind, Violation};

/// What a thread finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// A message by this side of a connection.
    Message(usize),
    /// RDMA of this side that is over.
    Rdma(usize),
    /// An operation by a lease of this side's that is over.
    Direct(usize),
    /// This side's connection is lost, and all that completed before was handed over.
    Loss(usize),
}

impl World {
    /// A process's thread is to look.
    pub(crate) fn wake(&mut self, process: usize) {
        let process = &mut self.processes[process];
        if !process.awake && !process.dead {
            process.awake = true;
            self.stats.woken += 1;
        }
    }

    /// Whether the next message of a side can land.
    pub(crate) fn may_land(&self, link_index: usize) -> bool {
        let link = &self.links[link_index];
        !link.failed && !link.flying.is_empty() && !self.is_fenced(link_index)
    }

    /// It takes a receive of the peer's. Law 10.
    pub(crate) fn take_receive(&mut self, at: usize) {
        let link = &mut self.links[at];
        let (from, to) = (link.from, link.to);
        if link.receives == 0 {
            self.fail(
                Law::Bound,
                format!("p{from}'s message finds no receive of p{to}"),
            );
            return;
        }
        link.receives -= 1;
    }

    /// It lands: it takes a receive, and tells of itself.
    pub(crate) fn land(&mut self, at: usize) {
        let link = &mut self.links[at];
        let (from, to) = (link.from, link.to);
        if link
            .flying
            .front()
            .is_some_and(|packet| packet.direct.is_some())
        {
            self.land_direct(at);
            return;
        }
        let Some(mut packet) = link.flying.pop_front() else {
            return;
        };
        self.take_receive(at);
        if let Some(late) = packet.late.take() {
            self.take_late(&mut packet, late);
        }
        let solicited = packet.solicited;
        self.note(|_| format!("p{from}'s message lands at p{to}, solicited: {solicited}"));
        self.links[at].arrived.push_back(packet);
        let back = self.back(at);
        if solicited || self.links[back].armed_for_all {
            self.wake(to);
        } else if !self.processes[to].awake {
            self.stats.unheard += 1;
        }
    }

    fn take_late(&self, packet: &mut Packet, late: Late) {
        let bytes = late.cells * CELL;
        let Some(at) = packet.bytes.len().checked_sub(bytes) else {
            return;
        };
        if at < HEADER_BYTES {
            return;
        }
        let cells = &self.processes[late.process].cells[late.first..late.first + late.cells];
        for (room, value) in packet.bytes[at..].chunks_exact_mut(CELL).zip(cells) {
            room.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// What a process's thread would find.
    fn finds(&self, process: usize) -> impl Iterator<Item = Found> + '_ {
        self.sides_of(process).flat_map(move |at| {
            let link = &self.links[at];
            let arrived = !self.links[self.back(at)].arrived.is_empty();
            let completed = !link.completions.is_empty();
            let heard = link.failed && !link.told_lost && link.heard_from <= self.now;
            let over = !link.direct_over.is_empty();
            let rest = !arrived && !completed && !over;
            let found = [
                (!link.told_lost && arrived, Found::Message(at)),
                (!link.told_lost && completed, Found::Rdma(at)),
                (!link.told_lost && over, Found::Direct(at)),
                (heard && rest, Found::Loss(at)),
            ];
            found
                .into_iter()
                .filter_map(|(is, found)| is.then_some(found))
        })
    }

    /// Whether a process's thread has something to look at.
    pub(crate) fn may_look(&self, process: usize) -> bool {
        self.processes[process].awake && self.finds(process).next().is_some()
    }

    /// It looks at one thing.
    pub(crate) fn look(&mut self, process: usize) {
        let count = self.finds(process).count();
        let chosen = self.rng.index(count);
        let Some(found) = self.finds(process).nth(chosen) else {
            return;
        };
        match found {
            Found::Message(at) => self.take_message(at),
            Found::Rdma(at) => self.take_rdma(at),
            Found::Direct(at) => self.take_direct(at),
            Found::Loss(at) => self.hear_of_loss(at),
        }
    }

    fn take_message(&mut self, at: usize) {
        let back = self.back(at);
        let late = self.plant == Some(Plant::ReceiveLate);
        let link = &mut self.links[back];
        let Some(packet) = link.arrived.pop_front() else {
            return;
        };
        if late {
            link.receives_late += 1;
        } else {
            // the receive is posted again before the message is carried out
            link.receives += 1;
        }
        if self.links[at].jobs.iter().any(|job| job.moved > 0) {
            self.stats.between_pieces += 1;
        }
        self.links[at].tally.taken += 1;
        if let Some((immediate, length)) = packet.immediate {
            self.run_machine(at, |machine, edge| {
                machine.handle_immediate(immediate, length, edge)
            });
            return;
        }
        let header = parse(&packet.bytes).header;
        let tally = &mut self.links[at].tally;
        tally.returned_in += u64::from(header.returned);
        tally.unanswered += u64::from(is_answered(&header));
        if header.kind == Kind::Response {
            tally.asked = tally.asked.saturating_sub(1);
        } else if is_answered(&header) {
            let solicits = header.flags.contains(Flags::SOLICIT);
            self.links[at].solicits[header.request as usize] = solicits;
        }
        let link = &self.links[at];
        if link.tally.unanswered > u64::from(link.config.requests) {
            let what = format!("p{} has to answer {:?}", link.from, link.tally);
            self.fail(Law::Bound, what);
        }
        let is_response = header.kind == Kind::Response;
        let twice = is_response && self.strikes(Plant::ResponseDoubled, 10);
        let bytes = &packet.bytes;
        for _ in 0..=usize::from(twice) {
            self.run_machine(at, |machine, edge| machine.handle_message(bytes, edge));
        }
        self.lend(at);
    }

    fn take_direct(&mut self, at: usize) {
        let Some((job, found)) = self.links[at].direct_over.pop_front() else {
            return;
        };
        let data: Vec<u8> = found.iter().flat_map(|cell| cell.to_be_bytes()).collect();
        self.run_machine(at, |machine, edge| machine.handle_direct(job, &data, edge));
    }

    fn take_rdma(&mut self, at: usize) {
        if let Some(job) = self.links[at].completions.pop_front() {
            self.run_machine(at, |machine, edge| machine.handle_rdma(job, edge));
        }
    }

    fn hear_of_loss(&mut self, at: usize) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        self.note(|_| format!("p{from} hears that its connection to p{to} is lost"));
        self.links[at].told_lost = true;
        if self.plant != Some(Plant::LossEarly) {
            self.links[at].jobs.clear();
            self.links[at].answering.clear();
        }
        self.run_machine(at, |machine, edge| {
            machine.handle_lost(edge);
            Ok(())
        });
    }

    /// Law 13: a machine is given something, and finds no breach in it.
    fn run_machine(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut Connection<Hold>, &mut Edge<'_>) -> Result<(), Violation>,
    ) {
        let Some(mut machine) = self.links[at].machine.take() else {
            return;
        };
        let result = work(&mut machine, &mut Edge::new(self, at));
        self.links[at].machine = Some(machine);
        if let Err(why) = result {
            let (from, to) = (self.links[at].from, self.links[at].to);
            self.fail(Law::Breach, format!("p{from} of p{to}: {why}"));
        }
    }

    /// Whether a process's thread can go to sleep.
    pub(crate) fn may_sleep(&self, process: usize) -> bool {
        let unlooked = self.plant == Some(Plant::SleptUnlooked);
        self.processes[process].awake && (unlooked || self.finds(process).next().is_none())
    }

    /// It arms its queues, and sleeps.
    pub(crate) fn sleep(&mut self, process: usize) {
        let wait = self.processes[process].program.wait;
        self.note(|_| format!("p{process} sleeps, its program waits for {wait:?}"));
        self.processes[process].awake = false;
        let waits = !matches!(wait, Wait::Nothing);
        for to in (0..self.processes.len()).filter(|to| *to != process) {
            let (at, back) = (self.link(process, to), self.link(to, process));
            let link = &mut self.links[back];
            link.receives += std::mem::take(&mut link.receives_late);
            let machine = self.links[at].machine();
            let all = machine.waits_for_all() || waits && machine.has_unsolicited();
            let all = all && self.plant != Some(Plant::ArmedForSolicited);
            self.links[at].armed_for_all = all;
            let direct = self.links[at].machine().waits_for_direct();
            self.links[at].armed_for_direct = direct && self.plant != Some(Plant::DirectUnarmed);
        }
    }
}
