//! What the join and a machine ask of their process and of its queue pairs.
//!
//! Owns: [`Connections`] and [`Wire`] as a driver would carry them out, with the faults that are
//! planted there. Must not know: what must hold; `lists`, `counts` and `touch` are told of
//! everything.

use crate::direct::Direct;
use crate::link::{Packet, Rdma, Standing};
use crate::lists::fail_of;
use crate::memory::{Bytes, cut};
use crate::process::{Own, Process, process_of};
use crate::touch::Does;
use crate::world::{Late, World};
use crate::{Law, Plant};
use ferriband_portals_process::{Connections, Hold, Peer, Process as Portals};
use ferriband_portals_proto::{AckInfo, List, MdOptions, Piece, Process as Id};
use ferriband_putget_proto::{
    Answer, Asked, Direct as Wished, DirectJob, DirectOp, Granted, HEADER_BYTES, Job, Kind, Lease,
    Memory, Message, NotBegun, NotDirect, NotStarted, Posting, Segment, Start, Started, Status,
    Wire,
};
use std::rc::Rc;

/// The connections of a process.
pub(crate) struct Edge<'a> {
    pub world: &'a mut World,
    pub me: usize,
}

/// The surroundings of a machine while it is at work.
pub(crate) struct Port<'a> {
    pub world: &'a mut World,
    /// The machine's side.
    pub link: usize,
    /// The operation whose short put the next message is; only where a fault is planted.
    gathered: Option<usize>,
}

/// The operation that a request is: its header data are the last word of the address.
pub(crate) fn op_of(address: &[u8]) -> usize {
    let word = address.last_chunk().copied();
    u64::from_be_bytes(word.expect("an address of Portals")) as usize
}

/// What an answer says.
pub(crate) fn info_of(answer: &Answer) -> AckInfo {
    AckInfo {
        fail: fail_of(answer.status),
        length: answer.length,
        offset: answer.offset,
        list: if answer.tag == 1 {
            List::Overflow
        } else {
            List::Priority
        },
    }
}

impl Connections for Edge<'_> {
    type Memory = Bytes;

    fn process(&mut self) -> &mut Portals<Bytes> {
        &mut self.world.processes[self.me].portals
    }

    fn peer(&mut self, id: Id) -> Peer {
        Peer(process_of(id) as u32)
    }

    fn is_joined(&self, peer: Peer) -> bool {
        let link = &self.world.links[self.world.link(self.me, peer.0 as usize)];
        link.standing == Standing::Joined
    }

    fn join(&mut self, peer: Peer) -> bool {
        let at = self.world.link(self.me, peer.0 as usize);
        let link = &mut self.world.links[at];
        if link.standing == Standing::Nobody {
            link.standing = Standing::Asking;
        }
        true
    }

    fn rooms(&self, peer: Peer, address_bytes: usize) -> Option<(u64, u64)> {
        let link = &self.world.links[self.world.link(self.me, peer.0 as usize)];
        let machine = link.machine.as_ref()?;
        Some((machine.put_room(address_bytes), machine.get_room()))
    }

    fn start(&mut self, peer: Peer, start: &Start<'_>) -> Result<Started, NotStarted> {
        let (me, to) = (self.me, peer.0 as usize);
        let at = self.world.link(me, to);
        let op = op_of(start.address);
        if !self.world.may_start(me, to, op) {
            return Err(NotStarted::Lost);
        }
        let Some(mut machine) = self.world.links[at].machine.take() else {
            return Err(NotStarted::Lost);
        };
        let memory = &self.world.processes[me].portals.memory;
        drop(memory.touched());
        self.world.processes[me].tokens.insert(start.token, op);
        let started = machine.start(start, &mut Port::new(self.world, at));
        self.world.links[at].machine = Some(machine);
        self.world.note(|_| {
            format!(
                "p{me} starts {op} towards p{to}, long: {}: {started:?}",
                start.long.is_some()
            )
        });
        match started {
            Ok(started) => self.world.started(op, start, started),
            Err(NotStarted::Full) => {
                self.world.stats.full += 1;
                self.world.processes[me].tokens.remove(&start.token);
            }
            Err(why) => self
                .world
                .fail(Law::Breach, format!("p{me}: {op} is not started: {why}")),
        }
        started
    }

    fn has_leases(&self, peer: Peer) -> bool {
        let link = &self.world.links[self.world.link(self.me, peer.0 as usize)];
        let machine = link.machine.as_ref();
        machine.is_some_and(|machine| machine.has_leases())
    }

    fn direct(&mut self, peer: Peer, wished: &Wished<'_>) -> Result<Started, NotDirect> {
        let (me, to) = (self.me, peer.0 as usize);
        let at = self.world.link(me, to);
        let operation = self.process().operation(wished.token);
        let op = operation.expect("the join has entered it").hdr_data as usize;
        if !self.world.may_start(me, to, op) {
            return Err(NotDirect::Lost);
        }
        let Some(mut machine) = self.world.links[at].machine.take() else {
            return Err(NotDirect::Lost);
        };
        // what was volatile was copied, an atomic operation's value taken
        drop(self.world.processes[me].portals.memory.touched());
        self.world.processes[me].tokens.insert(wished.token, op);
        let started = machine.direct(wished, &mut Port::new(self.world, at));
        self.world.links[at].machine = Some(machine);
        self.world
            .note(|_| format!("p{me} tries {op} by a lease of p{to}: {started:?}"));
        match started {
            Ok(started) => self.world.started_directly(op, started),
            Err(why) => {
                self.world.stats.not_direct += 1;
                self.world.stats.full += u64::from(why == NotDirect::Full);
                self.world.processes[me].tokens.remove(&wished.token);
            }
        }
        started
    }

    fn lease(&mut self, peer: Peer, lease: &Lease<'_>) -> bool {
        let (me, to) = (self.me, peer.0 as usize);
        let at = self.world.link(me, to);
        let Some(mut machine) = self.world.links[at].machine.take() else {
            return false;
        };
        let given = machine.lease(lease, &mut Port::new(self.world, at));
        let link = &mut self.world.links[at];
        link.machine = Some(machine);
        if given {
            link.lent.push((lease.token, lease.memory));
            self.world.stats.lent += 1;
        }
        self.world
            .note(|_| format!("p{me} lends {lease:?} to p{to}: {given}"));
        given
    }

    fn revoke(&mut self, peer: Peer, token: u64) {
        let at = self.world.link(self.me, peer.0 as usize);
        if self.world.plant == Some(Plant::LeaseKept) {
            return;
        }
        if let Some(mut machine) = self.world.links[at].machine.take() {
            machine.revoke(token, &mut Port::new(self.world, at));
            self.world.links[at].machine = Some(machine);
        }
    }
}

impl<'a> Port<'a> {
    pub const fn new(world: &'a mut World, link: usize) -> Port<'a> {
        Port {
            world,
            link,
            gathered: None,
        }
    }

    fn me(&self) -> usize {
        self.world.links[self.link].from
    }

    fn process(&mut self) -> &mut Process {
        let me = self.me();
        &mut self.world.processes[me]
    }

    fn op_of_hold(&mut self, hold: Hold) -> usize {
        let held = self.process().held.iter().find(|held| held.0 == hold);
        held.map(|held| held.1).expect("it was let in")
    }

    fn op_of_token(&mut self, token: u64) -> usize {
        *self.process().tokens.get(&token).expect("it was started")
    }

    /// Lets the join touch what a request was granted.
    fn touch(
        &mut self,
        hold: Hold,
        does: Does,
        data: &[u8],
        work: impl FnOnce(&mut Portals<Bytes>),
    ) {
        let op = self.op_of_hold(hold);
        let pieces = self.world.pieces_of(op);
        let before = self.process().portals.memory.read(&pieces);
        work(&mut self.process().portals);
        let memory = &self.process().portals.memory;
        let (after, touches) = (memory.read(&pieces), memory.touched());
        self.world.touch_target(op, touches);
        self.world.check_done(op, does, data, &before, &after);
        let known = &mut self.world.ops[op];
        known.fate.moved = before.len() as u64;
        if does != Does::Place {
            known.brought = before;
        }
    }

    /// The memory of a short put from which a planted fault takes the bytes late.
    fn taken_late(&self, op: usize) -> Option<Vec<Piece>> {
        let known = &self.world.ops[op];
        let volatile = |put: &Own| put.options.contains(MdOptions::VOLATILE);
        let put = known.put.filter(|put| !volatile(put))?;
        let slots = &self.world.processes[known.me].slots;
        let planted = self.world.plant == Some(Plant::GatheredLate);
        planted.then(|| cut(&slots[put.slot], 0, known.length))
    }

    /// What a planted fault says of receives in place of `returned`: those of messages that were
    /// sent and not looked at, too, as if they had been carried out.
    fn forge_credits(&mut self, returned: u16) -> u16 {
        let there = &self.world.links[self.world.back(self.link)];
        let takes = |packet: &&Packet| packet.direct.is_none();
        let flying = there.flying.iter().filter(takes).count();
        let early = (there.arrived.len() + flying) as u16;
        let link = &mut self.world.links[self.link];
        // what was given back too early is not given back again
        let says = (returned + early).saturating_sub(link.forged);
        link.forged = link.forged + says - returned;
        says
    }

    fn post(
        &mut self,
        job: Job,
        writes: bool,
        hold: Hold,
        remote: &[Segment],
    ) -> Result<(), NotBegun> {
        let op = self.op_of_hold(hold);
        let link = &self.world.links[self.link];
        if link.jobs.len() + link.completions.len() >= link.job_room {
            self.world.stats.jobs_waited += 1;
            return Err(NotBegun::Full);
        }
        let (mut local, mut registered) = (Vec::new(), Vec::new());
        let reached = self.process().portals.reach(hold, |piece, registration| {
            local.push(*piece);
            registered.push(Rc::downgrade(registration));
        });
        let touches = self.process().portals.memory.touched();
        self.world.touch_target(op, touches);
        if reached.is_err() {
            self.world.stats.faults += 1;
            return Err(NotBegun::Fault);
        }
        let granted: u64 = local.iter().map(|piece| piece.length).sum();
        let asked: u64 = remote.iter().map(|segment| segment.length).sum();
        if granted != asked {
            self.world.fail(
                Law::Range,
                format!("RDMA of {asked} bytes for {op}, {granted} were granted"),
            );
        }
        let beyond = u64::from(!writes && self.world.strikes(Plant::BeyondGrant, 3));
        let told = self.world.plant == Some(Plant::CompletedEarly);
        self.world.stats.staged += local
            .iter()
            .filter(|piece| Bytes::is_staged(piece.address))
            .count() as u64;
        let link = &mut self.world.links[self.link];
        let from = link.from;
        link.jobs.push(Rdma {
            job,
            writes,
            op,
            local,
            registered,
            remote: remote.to_vec(),
            moved: 0,
            length: granted + beyond,
            told,
        });
        if told {
            link.completions.push_back(job);
            self.world.wake(from);
        }
        Ok(())
    }
}

impl Memory for Port<'_> {
    type Hold = Hold;

    fn admit(&mut self, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        let (me, initiator) = (self.me(), self.world.links[self.link].to);
        let op = op_of(asked.address);
        if !self.world.take_turn(me, initiator, op) {
            return Err(Status::NoMemory);
        }
        let due = self.world.expect(op);
        let admitted = self.process().portals.admit(Peer(initiator as u32), asked);
        self.world.admitted(op, due, &admitted);
        if let Ok(granted) = &admitted {
            self.process().held.push((granted.hold, op));
        }
        admitted
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        let op = self.op_of_hold(hold);
        let late = self.world.plant == Some(Plant::EventBeforeData);
        if late || self.world.strikes(Plant::PlacedAgain, 2) {
            let pieces = self.world.pieces_of(op);
            let data = data.to_vec();
            self.world.late.push(Late { op, pieces, data });
        }
        if !late {
            self.touch(hold, Does::Place, data, |portals| portals.place(hold, data));
        }
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        self.touch(hold, Does::Fetch, &[], |portals| portals.fetch(hold, to));
    }

    fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        let op = self.op_of_hold(hold);
        let atomic = self.world.ops[op].atomic;
        let operand = atomic.is_some_and(|(atomic, _)| atomic.has_operand());
        let values = if operand {
            data.get(32..).unwrap_or(&[])
        } else {
            data
        };
        self.touch(hold, Does::Exchange, values, |portals| {
            portals.exchange(hold, data, to)
        });
    }

    fn ended(&mut self, hold: Hold, status: Status) {
        let op = self.op_of_hold(hold);
        self.process().held.retain(|held| held.0 != hold);
        self.process().portals.ended(hold, status);
        let touches = self.process().portals.memory.touched();
        // what was staged comes to where it belongs
        let unstaged = touches.iter().any(|touch| touch.writes);
        self.world.touch_target(op, touches);
        if unstaged {
            let pieces = self.world.pieces_of(op);
            let bytes = self.process().portals.memory.read(&pieces);
            self.world.check_bytes(op, &bytes, 0);
        }
        self.world.ended(op, status);
        self.world.miscount();
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        let op = self.op_of_token(token);
        self.process().portals.gather(token, to);
        let touches = self.process().portals.memory.touched();
        self.world.touch_own(op, touches);
        let (known, me) = (&self.world.ops[op], self.me());
        let Some(put) = known.put else {
            return;
        };
        let pieces = cut(&self.world.processes[me].slots[put.slot], 0, known.length);
        let volatile = put.options.contains(MdOptions::VOLATILE);
        if volatile && self.world.plant == Some(Plant::VolatileUncopied) {
            let bytes = self.world.processes[me].portals.memory.read(&pieces);
            let at = to.len() - bytes.len();
            to[at..].copy_from_slice(&bytes);
        }
        self.gathered = Some(op);
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        let op = self.op_of_token(token);
        self.process().portals.scatter(token, data);
        let touches = self.process().portals.memory.touched();
        self.world.touch_own(op, touches);
    }

    fn done(&mut self, token: u64, answer: Answer) {
        let op = self.op_of_token(token);
        if answer.status == Status::Undeliverable && self.world.strikes(Plant::LossForgotten, 2) {
            return;
        }
        self.process().tokens.remove(&token);
        self.process().portals.done(token, answer);
        let touches = self.process().portals.memory.touched();
        self.world.touch_own(op, touches);
        let link = &mut self.world.links[self.link];
        let asked = u64::from(!self.world.ops[op].direct);
        link.asked = link.asked.saturating_sub(asked);
        self.world.done(op, &answer);
        self.world.miscount();
    }

    fn counted(&mut self, token: u64, length: u64) {
        if !self.world.strikes(Plant::CountDropped, 2) {
            self.process().portals.counted(token, length);
        }
    }

    fn returned(&mut self, token: u64) {
        let link = &mut self.world.links[self.link];
        let (me, peer) = (link.from, link.to);
        let lent = link.lent.iter().position(|lent| lent.0 == token);
        match lent {
            Some(at) => drop(link.lent.swap_remove(at)),
            None => {
                let what = format!("p{me}: lease {token} of p{peer} is over, and is none");
                self.world.fail(Law::Range, what);
            }
        }
        self.world.stats.returned += 1;
        self.world
            .note(|_| format!("p{peer} has no lease {token} of p{me} any more"));
        self.process().portals.returned(Peer(peer as u32), token);
    }
}

impl Wire for Port<'_> {
    fn direct(&mut self, job: DirectJob, posting: &Posting) -> Result<bool, NotBegun> {
        let op = self.op_of_token(posting.token);
        let length = posting.remote.length;
        let link = &self.world.links[self.link];
        let buffered = length <= link.buffer_bytes;
        if link.directs() > 0 && self.world.rng.chance(4) {
            return Err(NotBegun::Full);
        }
        let (mut own, mut registered, mut copied) = (Vec::new(), Vec::new(), None);
        if !buffered {
            let me = self.me();
            let found = self.world.own_of(me, posting.token);
            (own, registered) = found.ok_or(NotBegun::Fault)?;
        } else if posting.op == DirectOp::Put {
            let mut data = vec![0; length as usize];
            self.gather(posting.token, &mut data);
            copied = Some(data);
        }
        let late = self.gathered.take().and_then(|op| self.taken_late(op));
        let reads = posting.op.reads();
        let beyond = u64::from(reads && self.world.strikes(Plant::ReadBeyond, 3));
        let direct = Direct {
            job,
            posting: *posting,
            op,
            length: length + beyond,
            copied,
            own,
            registered,
            grant: None,
            moved: 0,
            found: Vec::new(),
            told: false,
        };
        let packet = Packet {
            late,
            fence: posting.fence,
            direct: Some(Box::new(direct)),
            ..Packet::message(Vec::new(), false)
        };
        self.world.post_direct(self.link, packet);
        Ok(buffered || self.world.plant == Some(Plant::DirectUncopied))
    }

    fn send(&mut self, message: &[u8], solicited: bool, fence: bool) {
        let header = Message::parse(message)
            .expect("a machine's own message")
            .header;
        let mut bytes = message.to_vec();
        let late = self.gathered.take().and_then(|op| self.taken_late(op));
        if header.kind == Kind::Revoke && self.world.strikes(Plant::RevokeLost, 2) {
            return;
        }
        if self.world.plant == Some(Plant::CreditsEarly) {
            let returned = self.forge_credits(header.returned);
            bytes[8..10].copy_from_slice(&returned.to_be_bytes());
        }
        if header.kind == Kind::Response
            && message.len() == HEADER_BYTES
            && self.world.strikes(Plant::AnswerChanged, 5)
        {
            // the status
            bytes[2] = if bytes[2] == 0 { 2 } else { 0 };
        }
        let swaps = self.world.strikes(Plant::MessagesSwapped, 5);
        let link = &mut self.world.links[self.link];
        if link.failed {
            return;
        }
        let is_request = |bytes: &[u8]| {
            let kind = Message::parse(bytes).map(|message| message.header.kind);
            kind.is_ok_and(|kind| matches!(kind, Kind::Put | Kind::Get | Kind::Exchange))
        };
        let between = swaps
            && link
                .flying
                .back()
                .is_some_and(|last| is_request(&last.bytes) && is_request(&bytes));
        let at = link.flying.len() - usize::from(between);
        let packet = Packet {
            late,
            fence,
            ..Packet::message(bytes, solicited)
        };
        link.flying.insert(at, packet);
    }

    fn read(&mut self, job: Job, to: Hold, from: &[Segment]) -> Result<(), NotBegun> {
        self.post(job, false, to, from)
    }

    fn write(&mut self, job: Job, from: Hold, to: &[Segment]) -> Result<(), NotBegun> {
        self.post(job, true, from, to)
    }
}
