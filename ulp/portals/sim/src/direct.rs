//! Leases and operations by them: initiators reach a target's memory byte by byte, by the messages'
//! queue pair.
//!
//! Owns: what of an operation touches memory when, and that the target's interface allows it at
//! that very time: a WRITE in its order among messages, before software looks at those in front of
//! it; a READ, too, which may be tried again as long as its end was not told, and then brings what
//! is there by then. Must not know: who is lent what; the join decides, the machines tell it.

use crate::link::Packet;
use crate::lists::Expected;
use crate::memory::Bytes;
use crate::process::{Grant, Stage};
use crate::rdma::locate;
use crate::touch::Does;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_proto::{EntryOptions, NiFail, Piece};
use ferriband_putget_proto::{DIRECT, DirectJob, DirectOp, Posting};
use std::rc::{Rc, Weak};

/// Bytes of an atomic operation.
const WORD: usize = 8;

/// An operation by a lease that has left its machine.
#[derive(Debug)]
pub(crate) struct Direct {
    pub job: DirectJob,
    pub posting: Posting,
    pub op: usize,
    /// Bytes that are moved.
    pub length: u64,
    /// The bytes of a put that were copied when it was posted.
    pub copied: Option<Vec<u8>>,
    /// Memory of the initiator that its adapter reaches, and its registrations.
    pub own: Vec<Piece>,
    pub registered: Vec<Weak<Piece>>,
    /// What the target's lists grant, from the first byte on.
    pub grant: Option<Grant>,
    /// Bytes that were moved so far.
    pub moved: u64,
    /// What a get or an atomic operation has found.
    pub found: Vec<u8>,
    /// Its end was told when it was posted; only where a fault is planted.
    pub told: bool,
}

impl World {
    /// An operation by a lease is posted behind all messages. Law 10.
    pub(crate) fn post_direct(&mut self, at: usize, mut packet: Packet) {
        let Some(direct) = packet.direct.as_deref_mut() else {
            return;
        };
        let (op, job) = (direct.op, direct.job);
        if self.plant == Some(Plant::DirectEarly) && !direct.posting.op.reads() {
            direct.told = true;
            self.tell_direct(at, job, Vec::new());
        }
        let link = &mut self.links[at];
        if link.failed {
            return;
        }
        link.flying.push_back(packet);
        let from = link.from;
        let under_way = link.directs();
        if under_way > DIRECT {
            let what = format!("{op} is one of {under_way} by leases of p{from}");
            self.fail(Law::Bound, what);
        }
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
        let most = self.rng.pick(&[1, 7, 64, 400]);
        let Some(mut packet) = self.links[at].flying.pop_front() else {
            return;
        };
        let Some(mut direct) = packet.direct.take() else {
            return;
        };
        if let Some(pieces) = packet.late.take() {
            let from = self.links[at].from;
            direct.copied = Some(self.processes[from].portals.memory.read(&pieces));
        }
        if direct.grant.is_none() {
            direct.grant = self.let_in_directly(at, &direct);
        }
        match direct.posting.op {
            DirectOp::Put | DirectOp::Get => {
                let until = direct.length.min(direct.moved + most);
                for byte in direct.moved..until {
                    if self.violation.is_none() {
                        self.move_directly(at, &mut direct, byte);
                    }
                }
                direct.moved = until;
            }
            DirectOp::Add(_) | DirectOp::Swap { .. } => self.change_directly(at, &mut direct),
        }
        if self.violation.is_some() {
            return;
        }
        if direct.moved == direct.length {
            return self.arrive_directly(at, *direct);
        }
        packet.direct = Some(direct);
        self.links[at].flying.push_front(packet);
    }

    /// Laws 2, 4 and 8: the target's interface would let an operation in as it is.
    fn let_in_directly(&mut self, at: usize, direct: &Direct) -> Option<Grant> {
        let (initiator, me) = (self.links[at].from, self.links[at].to);
        let op = direct.op;
        if !self.take_turn(me, initiator, op) {
            return None;
        }
        let due = self.expect_direct(op);
        self.note(|_| format!("p{initiator}'s {op} reaches p{me} by a lease, due {due:?}"));
        match due {
            Expected::Granted(grant) if grant.length == direct.posting.remote.length => Some(grant),
            due => {
                let law = match due {
                    Expected::Refused(NiFail::PtDisabled) => Law::Disabled,
                    _ => Law::Range,
                };
                let what = format!("p{me}: {op} of p{initiator} goes by a lease, due is {due:?}");
                self.fail(law, what);
                None
            }
        }
    }

    /// Where a byte of an operation lies at the target. Laws 4 and 8.
    fn reach(&mut self, at: usize, direct: &Direct, byte: u64) -> Option<u64> {
        let grant = direct.grant?;
        let (initiator, me) = (self.links[at].from, self.links[at].to);
        let (op, remote) = (direct.op, &direct.posting.remote);
        let address = remote.address + byte;
        let known = &self.ops[op];
        let ni = self.processes[me].ni(known.ni);
        let (entry, table) = (&ni.entries[grant.entry], &ni.tables[known.pt]);
        let due = match entry.pieces[..] {
            [piece] if byte < grant.length => Some(piece.address + grant.offset + byte),
            _ => None,
        };
        let lent = self.links[self.back(at)].lent.iter().any(|(_, memory)| {
            let range = memory.address..memory.address + memory.length;
            memory.key == remote.key && range.contains(&address)
        });
        let memory = &self.processes[me].portals.memory;
        let opens = lent && memory.opens(remote.key, address);
        let stays = entry.stage == Stage::Linked && !self.processes[me].dead;
        if due == Some(address) && opens && stays && table.lets_in() {
            return Some(address);
        }
        let law = match table.lets_in() {
            true => Law::Range,
            false => Law::Disabled,
        };
        let what = format!(
            "p{me}: byte {byte} of {op} of p{initiator} at {address:#x}, due is {due:x?}, lent: {lent}, key: {opens}, entry {} {:?}",
            grant.entry, entry.stage
        );
        self.fail(law, what);
        None
    }

    /// Law 5: where a byte of an operation lies in the initiator's memory.
    fn reach_own(&mut self, at: usize, direct: &Direct, byte: u64) -> Option<u64> {
        let me = self.links[at].from;
        let known = &self.ops[direct.op];
        let own = if direct.posting.op.reads() {
            known.get
        } else {
            known.put
        };
        let found = locate(&direct.own, byte);
        let lives = found.is_some_and(|(piece, _)| direct.registered[piece].strong_count() > 0);
        if !lives || known.over || !own.is_some_and(|own| own.bound) {
            let what = format!("p{me}: byte {byte} of {} is reached: {known:?}", direct.op);
            self.fail(Law::Local, what);
            return None;
        }
        found.map(|(_, address)| address)
    }

    fn move_directly(&mut self, at: usize, direct: &mut Direct, byte: u64) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        let Some(address) = self.reach(at, direct, byte) else {
            return;
        };
        if direct.posting.op.reads() {
            direct.found.push(0);
            self.read_directly(at, direct, byte, address);
            return;
        }
        let value = match &direct.copied {
            Some(copied) => copied.get(byte as usize).copied(),
            None => self.reach_own(at, direct, byte).and_then(|own| {
                let memory = &self.processes[from].portals.memory;
                memory.rdma_read(own)
            }),
        };
        let Some(value) = value else {
            return;
        };
        self.check_bytes(direct.op, &[value], byte);
        self.keep_order(direct.op, address, true);
        self.processes[to].portals.memory.rdma_write(address, value);
    }

    /// A byte comes to the initiator.
    fn read_directly(&mut self, at: usize, direct: &mut Direct, byte: u64, address: u64) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        let value = self.processes[to].portals.memory.rdma_read(address);
        let value = value.unwrap_or_default();
        direct.found[byte as usize] = value;
        self.keep_order(direct.op, address, false);
        if direct.own.is_empty() {
            return;
        }
        if let Some(own) = self.reach_own(at, direct, byte) {
            self.processes[from].portals.memory.rdma_write(own, value);
        }
    }

    /// An atomic operation changes its value in one step. Law 1.
    fn change_directly(&mut self, at: usize, direct: &mut Direct) {
        let (op, to) = (direct.op, self.links[at].to);
        for byte in 0..direct.length {
            let Some(address) = self.reach(at, direct, byte) else {
                return;
            };
            self.keep_order(op, address, true);
        }
        let value = [Piece {
            address: direct.posting.remote.address,
            length: WORD as u64,
        }];
        let memory = &mut self.processes[to].portals.memory;
        let before = memory.read(&value);
        let found = u64::from_ne_bytes(std::array::from_fn(|at| before[at]));
        let (data, after) = match direct.posting.op {
            DirectOp::Add(add) => (add, found.wrapping_add(add)),
            DirectOp::Swap { compare, swap } if found == compare => {
                self.stats.direct_swaps += 1;
                (swap, swap)
            }
            DirectOp::Swap { swap, .. } => (swap, found),
            DirectOp::Put | DirectOp::Get => return,
        };
        memory.write(&value, &after.to_ne_bytes());
        let (data, after) = (data.to_ne_bytes(), after.to_ne_bytes());
        self.check_done(op, Does::Exchange, &data, &before, &after);
        direct.found = before;
        direct.moved = direct.length;
    }

    /// All of an operation is done at the target.
    fn arrive_directly(&mut self, at: usize, direct: Direct) {
        let (op, to) = (direct.op, self.links[at].to);
        let fate = &mut self.ops[op].fate;
        let again = std::mem::replace(&mut fate.admitted, direct.grant.map(Ok));
        fate.ended = Some(NiFail::Ok);
        fate.moved = direct.length;
        if again.is_some() {
            self.fail(Law::Fate, format!("p{to}: {op} is carried out twice"));
            return;
        }
        self.note(|_| format!("{op} is done at p{to} by a lease"));
        if let Some(immediate) = direct.posting.immediate {
            self.take_receive(at);
            self.links[at].arrived.push_back(Packet {
                immediate: Some((immediate, direct.posting.remote.length, op)),
                ..Packet::message(Vec::new(), true)
            });
            self.wake(to);
        }
        if !direct.told {
            self.links[at].answering.push_back(direct);
        }
    }

    /// A put that counts has been told at its target. Law 7.
    pub(crate) fn count_direct(&mut self, op: usize) {
        let known = &self.ops[op];
        let (me, number, length) = (known.target, known.ni, known.length);
        let Some(Ok(grant)) = known.fate.admitted else {
            return;
        };
        let entry = &self.processes[me].ni(number).entries[grant.entry];
        let (ct, options) = (entry.ct, entry.options);
        if options.contains(EntryOptions::EVENT_CT_COMM) {
            let bytes = options.contains(EntryOptions::EVENT_CT_BYTES);
            self.stats.counted_direct += 1;
            self.count(me, number, ct, NiFail::Ok, bytes.then_some(length));
        }
        self.carry_out(me, number);
    }

    /// Whether the end of a side's next operation can be told.
    pub(crate) fn may_answer(&self, at: usize) -> bool {
        let link = &self.links[at];
        !link.failed && !link.answering.is_empty()
    }

    /// It is, perhaps after a READ was tried again.
    pub(crate) fn answer(&mut self, at: usize) {
        let from = self.links[at].from;
        let Some(mut direct) = self.links[at].answering.pop_front() else {
            return;
        };
        if direct.posting.op == DirectOp::Get && self.rng.chance(50) {
            self.stats.read_again += 1;
            for byte in 0..direct.length {
                if let Some(address) = self.reach(at, &direct, byte) {
                    self.read_directly(at, &mut direct, byte, address);
                }
            }
        }
        let op = direct.op;
        self.note(|_| format!("p{from}: {op} by a lease completes"));
        self.ops[op].brought.clone_from(&direct.found);
        let brings = match direct.own.is_empty() {
            true => direct.found,
            false => Vec::new(),
        };
        self.tell_direct(at, direct.job, brings);
    }

    fn tell_direct(&mut self, at: usize, job: DirectJob, brings: Vec<u8>) {
        let link = &mut self.links[at];
        link.direct_over.push_back((job, brings));
        let (from, armed) = (link.from, link.armed_for_direct);
        if armed {
            self.wake(from);
        }
    }

    /// Memory of an operation that is reached by the adapter.
    pub(crate) fn own_of(
        &mut self,
        me: usize,
        token: u64,
    ) -> Option<(Vec<Piece>, Vec<Weak<Piece>>)> {
        let (mut own, mut registered) = (Vec::new(), Vec::new());
        let portals = &mut self.processes[me].portals;
        let reached = portals.reach_own(token, |piece, registration| {
            own.push(*piece);
            registered.push(Rc::downgrade(registration));
        });
        let staged = own.iter().any(|piece| Bytes::is_staged(piece.address));
        (reached.is_ok() && !staged).then_some((own, registered))
    }
}
