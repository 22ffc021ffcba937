//! A program's operations: what it begins, what it has triggered, and when its memory is its own
//! again.
//!
//! Owns: the calls, and what becomes of an operation at its initiator. Must not know: lists.

use crate::edge::{Edge, info_of};
use crate::lists::{Expected, fail_of};
use crate::memory::cut;
use crate::process::{
    COUNTERS, Due, Effect, Fate, Name, Op, Own, SCRIBBLE, SELF_PT, SLOT_BYTES, SLOTS, byte_of,
    id_of,
};
use crate::program::{ATOMIC_BYTES, Program};
use crate::touch::ATOMICS;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_process::begin;
use ferriband_portals_proto::{
    AckInfo, AckRequest, ArrivalOp, AtomicOp, CtEvent, DATATYPES, Datatype, Handle, Local, MdInit,
    MdOptions, NiFail, Operation, Peer, Piece, PtlError, Region,
};
use ferriband_putget_proto::{Answer, Start, Started, Status};

impl World {
    /// The program begins an operation.
    pub(crate) fn post(&mut self, me: usize, ni: usize) {
        let to_itself = self.rng.chance(6);
        if to_itself {
            return self.post_to_itself(me, ni);
        }
        let Some(op) = self.prepare_op(me, ni, false) else {
            return;
        };
        self.begin(op);
    }

    /// One of the other processes.
    fn some_peer(&mut self, me: usize) -> usize {
        let count = self.processes.len();
        (me + 1 + self.rng.index(count - 1)) % count
    }

    /// A slot that serves no operation.
    fn free_slots(&self, me: usize) -> Vec<usize> {
        let mine = self.ops.iter().filter(|op| op.me == me);
        let owns = mine.flat_map(|op| [op.put, op.get]).flatten();
        let used: Vec<usize> = owns.filter(|own| own.bound).map(|own| own.slot).collect();
        (0..SLOTS).filter(|slot| !used.contains(slot)).collect()
    }

    /// An operation with its descriptors, or nothing if there is no memory for it.
    fn prepare_op(&mut self, me: usize, ni: usize, to_itself: bool) -> Option<usize> {
        let free = self.free_slots(me);
        if free.len() < 2 {
            return None;
        }
        let target = if to_itself { me } else { self.some_peer(me) };
        let (kind, atomic, length) = self.some_kind(me);
        let number = self.ops.len();
        let (writes, reads) = (
            kind != ArrivalOp::Get,
            !matches!(kind, ArrivalOp::Put | ArrivalOp::Atomic),
        );
        let put = writes.then(|| self.bind(me, ni, free[0], length, to_itself));
        let get = reads.then(|| self.bind(me, ni, free[1], length, to_itself));
        if let Some(put) = put {
            let pieces = cut(&self.processes[me].slots[put.slot], 0, length);
            let data: Vec<u8> = (0..length).map(|at| byte_of(number, at)).collect();
            self.processes[me].portals.memory.write(&pieces, &data);
        }
        let ack = match put {
            Some(put) if !reads => self.some_ack(&put),
            _ => AckRequest::None,
        };
        let plain = self.rng.chance(self.processes[me].program.plain);
        let offset = match plain {
            true => self.rng.pick(&[0, 0, 8, 16]),
            false => self.rng.pick(&[0, 0, 1, 8, 30, 100]),
        };
        let operand = match plain {
            true => self.present_word(target, ni, offset),
            false => self.some_operand(),
        };
        let op = Op {
            me,
            target,
            ni,
            pt: if to_itself {
                SELF_PT
            } else {
                self.rng.index(if plain { 1 } else { SELF_PT })
            },
            kind,
            atomic,
            operand,
            bits: self.rng.below(4),
            offset,
            length,
            ack,
            put,
            get,
            trigger: None,
            begun: false,
            dispatched: false,
            place: 0,
            seq: None,
            started: false,
            direct: false,
            sent: !writes,
            over: false,
            fate: Fate::default(),
            brought: Vec::new(),
            send: Due::default(),
            answer: Due::default(),
            completion: Due::default(),
            overflow: Due::default(),
        };
        self.ops.push(op);
        Some(number)
    }

    fn some_operand(&mut self) -> [u8; 32] {
        let first = self.rng.below(4) as u8;
        std::array::from_fn(|at| if at == 0 { first } else { 0 })
    }

    /// The operand by which a conditional swap of a value that lies there swaps, unless the value
    /// changes meanwhile.
    fn present_word(&self, target: usize, ni: usize, offset: u64) -> [u8; 32] {
        let process = &self.processes[target];
        let first = process.nis[ni].as_ref().and_then(|ni| {
            let first = ni.tables[0].priority.first();
            first.map(|entry| &ni.entries[*entry])
        });
        let found = first.map(|entry| process.portals.memory.read(&cut(&entry.pieces, offset, 8)));
        let found = found.unwrap_or_default();
        std::array::from_fn(|at| found.get(at).copied().unwrap_or_default())
    }

    /// What an operation does, and on how many bytes.
    fn some_kind(&mut self, me: usize) -> (ArrivalOp, Option<(AtomicOp, Datatype)>, u64) {
        let Program {
            least,
            longest,
            plain,
            ..
        } = self.processes[me].program;
        let rng = &mut self.rng;
        let kind = rng.pick(&[
            ArrivalOp::Put,
            ArrivalOp::Put,
            ArrivalOp::Put,
            ArrivalOp::Get,
            ArrivalOp::Get,
            ArrivalOp::Atomic,
            ArrivalOp::FetchAtomic,
            ArrivalOp::Swap,
        ]);
        match kind {
            ArrivalOp::Put | ArrivalOp::Get => {
                let most = rng.pick(&[8, 64, longest, longest]);
                (kind, None, rng.range(least.min(most), most))
            }
            _ => {
                let (atomic, length) = match rng.chance(plain) {
                    true => plain_atomic(kind),
                    false => some_atomic(rng, kind),
                };
                (kind, Some(atomic), length)
            }
        }
    }

    /// An acknowledgement that a descriptor can tell.
    fn some_ack(&mut self, put: &Own) -> AckRequest {
        let (mut full, mut counting) = (AckRequest::Full, AckRequest::Counting);
        if put.eq.is_none() {
            full = AckRequest::None;
        }
        if put.ct.is_none() {
            counting = AckRequest::None;
        }
        let complete = AckRequest::OperationComplete;
        self.rng
            .pick(&[AckRequest::None, full, full, counting, complete])
    }

    /// Binds a descriptor over a slot.
    fn bind(&mut self, me: usize, ni: usize, slot: usize, length: u64, to_itself: bool) -> Own {
        let rng = &mut self.rng;
        let mut options = MdOptions::empty();
        let some = [
            (MdOptions::EVENT_CT_SEND, 40),
            (MdOptions::EVENT_CT_REPLY, 50),
            (MdOptions::EVENT_CT_ACK, 60),
            (MdOptions::EVENT_SUCCESS_DISABLE, 12),
            (MdOptions::EVENT_SEND_DISABLE, 12),
            (MdOptions::EVENT_CT_BYTES, 20),
            (MdOptions::VOLATILE, 30),
            (MdOptions::UNORDERED, 3),
        ];
        for (option, per_cent) in some {
            options.set(option, rng.chance(per_cent));
        }
        if length > ATOMIC_BYTES {
            options.remove(MdOptions::VOLATILE);
        }
        let eq = if to_itself {
            Some(2)
        } else {
            rng.chance(80).then(|| rng.index(2))
        };
        let ct = match to_itself {
            true => Some(COUNTERS - 1),
            false => rng.chance(80).then(|| rng.index(COUNTERS - 1)),
        };
        let state = self.processes[me].ni(ni);
        let pieces = self.processes[me].slots[slot].clone();
        let init = MdInit {
            region: match pieces.as_slice() {
                [one] => Region::Flat(*one),
                _ => Region::Iovec(pieces),
            },
            options,
            eq: eq.map_or(Handle::EQ_NONE, |eq| state.queues[eq].handle),
            ct: ct.map_or(Handle::CT_NONE, |ct| state.counters[ct].handle),
        };
        let md = self.interface(me, ni).md_bind(&init);
        Own {
            slot,
            md: md.expect("few descriptors are bound"),
            options,
            eq,
            ct,
            bound: true,
        }
    }

    fn operation(&self, number: usize) -> Operation {
        let op = &self.ops[number];
        let logical = self.processes[op.me].ni(op.ni).kind.logical;
        Operation {
            op: op.kind,
            put: op.put.map(|own| Local {
                md: own.md,
                offset: 0,
            }),
            get: op.get.map(|own| Local {
                md: own.md,
                offset: 0,
            }),
            length: op.length,
            ack: op.ack,
            target: match logical {
                true => Peer::Rank(op.target as u32),
                false => Peer::Physical(id_of(op.target)),
            },
            pt_index: op.pt as u32,
            match_bits: op.bits,
            remote_offset: op.offset,
            user_ptr: Name::Op(number).user_ptr(),
            hdr_data: number as u64,
            atomic: op.atomic,
            operand: op.operand,
        }
    }

    /// An operation begins, by a call or because its threshold was reached.
    pub(crate) fn take_place(&mut self, op: usize) {
        self.begun += 1;
        let place = self.begun;
        let known = &mut self.ops[op];
        (known.begun, known.place) = (true, place);
        let (me, target, ni) = (known.me, known.target, known.ni);
        if me != target {
            self.processes[me]
                .order
                .entry((target, ni))
                .or_default()
                .push_back(op);
        }
    }

    /// Begins an operation by a call.
    fn begin(&mut self, op: usize) {
        self.take_place(op);
        let known = &mut self.ops[op];
        known.seq = Some(known.place);
        known.dispatched = true;
        let (me, ni, put) = (known.me, known.ni, known.put);
        self.stats.atomics += u64::from(known.atomic.is_some());
        self.note(|world| {
            let known = &world.ops[op];
            let Op { kind, atomic, bits, offset, length, ack, target, pt, .. } = known;
            format!("p{me} begins {op} towards p{target} {ni}/{pt}: {kind:?} {atomic:?} {length} at {offset}, {bits}, {ack:?}, {put:?}")
        });
        let operation = self.operation(op);
        let result = begin(&mut Edge { world: self, me }, ni as u8, operation);
        drop(self.processes[me].portals.memory.touched());
        if result.is_err() {
            self.fail(Law::Breach, format!("p{me}: {op} is refused: {result:?}"));
            return;
        }
        if let Some(put) = put.filter(|put| put.options.contains(MdOptions::VOLATILE)) {
            self.stats.volatile += 1;
            self.scribble(me, put.slot);
        }
    }

    /// The program writes into memory that is its own again.
    pub(crate) fn scribble(&mut self, me: usize, slot: usize) {
        let pieces = self.processes[me].slots[slot].clone();
        let data = vec![SCRIBBLE; SLOT_BYTES as usize];
        self.processes[me].portals.memory.write(&pieces, &data);
    }

    /// An operation on the process itself, which is over when the call has returned.
    fn post_to_itself(&mut self, me: usize, ni: usize) {
        let Some(op) = self.prepare_op(me, ni, true) else {
            return;
        };
        let due = self.expect(op);
        let Expected::Granted(grant) = due else {
            return self.fail(
                Law::Breach,
                format!("p{me}: an entry for itself takes nothing: {due:?}"),
            );
        };
        let entry = &self.processes[me].ni(ni).entries[grant.entry];
        let pieces = cut(&entry.pieces, grant.offset, grant.length);
        let before = self.processes[me].portals.memory.read(&pieces);
        self.begin(op);
        self.advance(me);
        if self.violation.is_some() || self.plant == Some(Plant::RoomUnnoticed) {
            return;
        }
        drop(self.processes[me].portals.memory.touched());
        self.stats.own += 1;
        self.ops[op].fate.admitted = Some(Ok(grant));
        self.let_in(op, grant);
        self.sent(op);
        let after = self.processes[me].portals.memory.read(&pieces);
        let does = match self.ops[op].kind {
            ArrivalOp::Get => crate::touch::Does::Fetch,
            _ => crate::touch::Does::Exchange,
        };
        if self.ops[op].put.is_some() {
            let data: Vec<u8> = (0..self.ops[op].length).map(|at| byte_of(op, at)).collect();
            let data = &data[..grant.length as usize];
            self.check_done(op, does, data, &before, &after);
        }
        let known = &mut self.ops[op];
        known.fate.moved = grant.length;
        if known.get.is_some() {
            known.brought = before;
        }
        self.ended(op, Status::Ok);
        self.check_brought(op, grant.length);
        let info = AckInfo {
            fail: NiFail::Ok,
            length: grant.length,
            offset: grant.offset,
            list: grant.list,
        };
        self.answered(op, info);
    }

    /// Law 1: what a get has brought is what was there.
    fn check_brought(&mut self, op: usize, length: u64) {
        let known = &self.ops[op];
        let Some(get) = known.get else {
            return;
        };
        let pieces = cut(&self.processes[known.me].slots[get.slot], 0, length);
        let bytes = self.processes[known.me].portals.memory.read(&pieces);
        if bytes != known.brought {
            let what = format!("{op} brings {bytes:x?}, {:x?} were there", known.brought);
            self.fail(Law::Fate, what);
        }
    }

    /// Two operations wait for thresholds one behind the other, or an increment does. Law 7.
    pub(crate) fn trigger(&mut self, me: usize, ni: usize) {
        let ct = self.rng.index(COUNTERS - 1);
        let counter = self.processes[me].ni(ni).counters[ct];
        let sum = counter.success + counter.failure;
        let threshold = sum + self.rng.below(5);
        if self.rng.chance(25) {
            return self.trigger_inc(me, ni, ct, threshold);
        }
        let swapped = self.plant == Some(Plant::ThresholdsSwapped);
        for step in 0..2 {
            let Some(op) = self.prepare_op(me, ni, false) else {
                return;
            };
            let due = threshold + step;
            self.ops[op].trigger = Some((ct, due));
            let handle = self.processes[me].ni(ni).counters[ct].handle;
            let is = if swapped { threshold + 1 - step } else { due };
            let times = 1 + usize::from(self.strikes(Plant::TriggeredTwice, 2));
            for _ in 0..times {
                let operation = self.operation(op);
                let done = self.interface(me, ni).triggered(operation, handle, is);
                if done.is_err() {
                    self.fail(Law::Breach, format!("p{me}: triggering {op} says {done:?}"));
                }
            }
            self.note(|_| format!("p{me}: {op} waits for {due} of counter {ct} of {ni}"));
            self.wait_for(me, ni, (ct, due), Effect::Start(op));
        }
    }

    fn trigger_inc(&mut self, me: usize, ni: usize, ct: usize, threshold: u64) {
        let other = self.rng.index(COUNTERS - 1);
        let success = self.rng.range(1, 3);
        let counters = &self.processes[me].ni(ni).counters;
        let (inc, handle) = (counters[other].handle, counters[ct].handle);
        let by = CtEvent {
            success,
            failure: 0,
        };
        let done = self
            .interface(me, ni)
            .triggered_ct_inc(inc, by, handle, threshold);
        if done.is_err() {
            self.fail(
                Law::Breach,
                format!("p{me}: triggering an increment says {done:?}"),
            );
        }
        self.note(|_| {
            format!("p{me}: {success} for counter {other} waits for {threshold} of {ct} of {ni}")
        });
        self.wait_for(me, ni, (ct, threshold), Effect::Inc(other, success));
    }

    fn wait_for(&mut self, me: usize, ni: usize, (ct, threshold): (usize, u64), effect: Effect) {
        let state = self.processes[me].ni_mut(ni);
        state.issued += 1;
        state.waiting.push((ct, threshold, state.issued, effect));
        self.bump(me, ni, ct, (0, 0));
        self.carry_out(me, ni);
    }

    /// Descriptors of operations are released, if they are free. Law 5.
    pub(crate) fn tidy(&mut self, me: usize) {
        for op in 0..self.ops.len() {
            let known = &self.ops[op];
            if known.me != me || !known.begun {
                continue;
            }
            let (ni, over) = (known.ni, known.over);
            for gets in [false, true] {
                let own = if gets {
                    self.ops[op].get
                } else {
                    self.ops[op].put
                };
                let Some(own) = own.filter(|own| own.bound) else {
                    continue;
                };
                let done = self.interface(me, ni).md_release(own.md);
                let due = if over { Ok(()) } else { Err(PtlError::InUse) };
                if done != due {
                    let what =
                        format!("p{me}: releasing memory of {op} says {done:?}, due is {due:?}");
                    self.fail(Law::Local, what);
                    return;
                }
                let lied = self.plant == Some(Plant::ReleasedWhileUsed);
                if !over && !lied {
                    self.stats.busy += 1;
                    continue;
                }
                self.stats.released += 1;
                let known = &mut self.ops[op];
                let bound = if gets { &mut known.get } else { &mut known.put };
                if let Some(bound) = bound {
                    bound.bound = false;
                }
                self.scribble(me, own.slot);
            }
        }
    }

    /// Law 7: an operation may be started: it was begun, and was not started before.
    pub(crate) fn may_start(&mut self, me: usize, to: usize, op: usize) -> bool {
        let known = &self.ops[op];
        if known.begun && !known.started && !known.over {
            return true;
        }
        let (begun, started) = (known.begun, known.started);
        let law = if known.trigger.is_some() {
            Law::Count
        } else {
            Law::Fate
        };
        let what = format!("p{me} starts {op} towards p{to}, begun: {begun}, started: {started}");
        self.fail(law, what);
        false
    }

    /// A connection's machine has an operation. Law 10.
    pub(crate) fn started(&mut self, op: usize, start: &Start<'_>, started: Started) {
        let long = start.long.is_some();
        let known = &mut self.ops[op];
        known.started = true;
        let (me, target) = (known.me, known.target);
        let answered = known.get.is_some() || known.ack != AckRequest::None || long;
        if (started == Started::Answered) != answered {
            self.fail(Law::Fate, format!("{op} is started: {started:?}"));
            return;
        }
        let at = self.link(me, target);
        let most = self.links[self.back(at)].config.requests;
        self.stats.short += u64::from(!long);
        self.stats.long += u64::from(long);
        if answered {
            self.links[at].asked += 1;
        }
        if self.links[at].asked > u64::from(most) {
            let what = format!(
                "{op} is one of {} that wait for an answer, {most} may",
                self.links[at].asked
            );
            self.fail(Law::Bound, what);
        }
        if !long {
            self.sent(op);
        }
    }

    /// A connection's machine has an operation by a lease. Its end is told where somebody hears of
    /// it, and where its bytes are not copied.
    pub(crate) fn started_directly(&mut self, op: usize, started: Started) {
        let known = &mut self.ops[op];
        (known.started, known.direct) = (true, true);
        let (me, target, length) = (known.me, known.target, known.length);
        let answered = known.get.is_some() || known.ack != AckRequest::None;
        let copied = length <= self.links[self.link(me, target)].buffer_bytes;
        let lied = self.plant == Some(Plant::DirectUncopied);
        let stats = &mut self.stats;
        stats.direct_long += u64::from(!copied);
        *match self.ops[op].kind {
            ArrivalOp::Put => &mut stats.direct_puts,
            ArrivalOp::Get => &mut stats.direct_gets,
            _ => &mut stats.direct_atomics,
        } += 1;
        match started {
            Started::Over if answered || !copied && !lied => {
                self.fail(
                    Law::Fate,
                    format!("nothing will be heard of {op} by a lease"),
                );
            }
            Started::Over => self.sent(op),
            Started::Answered => {}
        }
    }

    /// Law 2: it is this request's turn. False if not.
    pub(crate) fn take_turn(&mut self, me: usize, initiator: usize, op: usize) -> bool {
        let ni = self.ops.get(op).map_or(0, |op| op.ni);
        let order = self.processes[initiator].order.get_mut(&(me, ni));
        let due = order.and_then(|order| order.pop_front());
        if due != Some(op) {
            let what = format!("p{me} lets {op} of p{initiator} in, due is {due:?}");
            self.fail(Law::Order, what);
            return false;
        }
        true
    }

    /// The memory that a request was granted.
    pub(crate) fn pieces_of(&self, op: usize) -> Vec<Piece> {
        let known = &self.ops[op];
        let Some(Ok(grant)) = known.fate.admitted else {
            return Vec::new();
        };
        let entry = &self.processes[known.target].ni(known.ni).entries[grant.entry];
        cut(&entry.pieces, grant.offset, grant.length)
    }

    /// An operation has ended at its initiator. Laws 1 and 11.
    pub(crate) fn done(&mut self, op: usize, answer: &Answer) {
        let me = self.ops[op].me;
        self.note(|_| format!("p{me} is told of {op}: {answer:?}"));
        let known = &self.ops[op];
        if known.over {
            return self.fail(Law::Fate, format!("p{me}: {op} ends twice"));
        }
        if answer.status == Status::Undeliverable {
            return self.undeliverable(op);
        }
        let due = match (&known.fate.admitted, known.fate.ended) {
            (Some(Err(why)), None) => Some(AckInfo::refused(fail_of(*why))),
            (Some(Ok(grant)), Some(NiFail::Ok)) => Some(AckInfo {
                fail: NiFail::Ok,
                length: grant.length,
                offset: grant.offset,
                list: grant.list,
            }),
            (Some(Ok(grant)), Some(fail)) => Some(AckInfo {
                list: grant.list,
                ..AckInfo::refused(fail)
            }),
            _ => None,
        };
        let is = info_of(answer);
        if due != Some(is) {
            let what = format!("p{me}, {op}: {is:?}, due is {due:?}");
            return self.fail(Law::Fate, what);
        }
        if is.fail == NiFail::Ok {
            self.check_brought(op, is.length);
        }
        self.answered(op, is);
    }
}

/// The atomic operation of a kind that may go by a lease, and its bytes.
const fn plain_atomic(kind: ArrivalOp) -> ((AtomicOp, Datatype), u64) {
    let atomic = match kind {
        ArrivalOp::Swap => AtomicOp::Cswap,
        _ => AtomicOp::Sum,
    };
    ((atomic, Datatype::Uint64), Datatype::Uint64.size_bytes())
}

/// An atomic operation of a kind, and bytes that it may have.
fn some_atomic(rng: &mut ferriband_seed::Rng, kind: ArrivalOp) -> ((AtomicOp, Datatype), u64) {
    let swaps = kind == ArrivalOp::Swap;
    let of_kind = |(travels, _): &&(ArrivalOp, AtomicOp)| (*travels == ArrivalOp::Swap) == swaps;
    let known: Vec<AtomicOp> = ATOMICS
        .iter()
        .filter(of_kind)
        .map(|(_, atomic)| *atomic)
        .collect();
    let atomic = rng.pick(&known);
    // unsigned ones, whose order is that of their bytes
    let types = [
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
    ];
    let datatype = if rng.chance(90) {
        rng.pick(&types)
    } else {
        rng.pick(&DATATYPES)
    };
    let datatype = if atomic.takes(datatype) {
        datatype
    } else {
        Datatype::Uint64
    };
    let size = datatype.size_bytes();
    let most = if atomic.has_operand() {
        1
    } else {
        ATOMIC_BYTES / size
    };
    let least = u64::from(!rng.chance(4));
    let most = if rng.chance(40) { 1 } else { most };
    ((atomic, datatype), size * rng.range(least, most))
}
