//! What must hold whenever memory is touched.
//!
//! Owns: the laws 3, 4 and 5, and law 1 as far as it is about bytes. Must not know: the machines.

use crate::Law;
use crate::memory::{Touch, cut};
use crate::process::{Entry, Own, SCRIBBLE, Stage, byte_of};
use crate::world::World;
use ferriband_portals_process::ORDERED_BYTES;
use ferriband_portals_proto::{ArrivalOp, AtomicOp, Datatype, Piece};

/// What a request does to memory that it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Does {
    Place,
    Fetch,
    Exchange,
}

/// Where in the memory that was granted a touch may begin: at its beginning, or, as atomic
/// operations change 64-bit values one by one, at one of them.
fn value_at(granted: &[Piece], touch: &Touch) -> u64 {
    let ([granted], [value]) = (granted, &touch.pieces[..]) else {
        return 0;
    };
    let at = value.address.saturating_sub(granted.address);
    match value.length == 8 && at.is_multiple_of(8) {
        true => at,
        false => 0,
    }
}

impl World {
    /// Law 4: the memory that a request was granted may be touched. It is where it lies.
    fn granted(&mut self, op: usize) -> Option<Vec<Piece>> {
        let known = &self.ops[op];
        let (me, initiator) = (known.target, known.me);
        let Some(Ok(grant)) = known.fate.admitted else {
            self.fail(
                Law::Range,
                format!("p{me}: memory is touched for {op} of p{initiator}, which was not let in"),
            );
            return None;
        };
        let entry = &self.processes[me].ni(known.ni).entries[grant.entry];
        let is_there = matches!(entry.stage, Stage::Linked | Stage::Leaving);
        if known.fate.ended.is_some() || !is_there || self.processes[me].dead {
            let what = format!(
                "p{me}: memory is touched for {op} of p{initiator}, {:?}, entry {} {:?}",
                known.fate, grant.entry, entry.stage
            );
            self.fail(Law::Range, what);
            return None;
        }
        Some(cut(&entry.pieces, grant.offset, grant.length))
    }

    /// The join has touched memory of the target for a request. Laws 3 and 4.
    pub(crate) fn touch_target(&mut self, op: usize, touches: Vec<Touch>) {
        for touch in touches {
            let Some(granted) = self.granted(op) else {
                return;
            };
            let bytes = touch.pieces.iter().map(|piece| piece.length).sum();
            let due = cut(&granted, value_at(&granted, &touch), bytes);
            if due != touch.pieces {
                let law = match self.lies_elsewhere(op, &touch) {
                    true => Law::Order,
                    false => Law::Range,
                };
                let what = format!("{touch:?} for {op}, which was granted {granted:?}");
                self.fail(law, what);
                return;
            }
            for piece in &touch.pieces {
                for address in piece.address..piece.address + piece.length {
                    self.keep_order(op, address, touch.writes);
                }
            }
        }
    }

    /// Whether what was touched is memory of another entry than the first that matches.
    fn lies_elsewhere(&self, op: usize, touch: &Touch) -> bool {
        let known = &self.ops[op];
        let entries = &self.processes[known.target].ni(known.ni).entries;
        let Some((first, Ok(grant))) = touch.pieces.first().zip(known.fate.admitted) else {
            return false;
        };
        let has = |entry: &Entry| {
            let mut pieces = entry.pieces.iter();
            pieces
                .any(|piece| (piece.address..piece.address + piece.length).contains(&first.address))
        };
        !has(&entries[grant.entry]) && entries.iter().any(has)
    }

    /// RDMA has touched a byte of the target's memory.
    pub(crate) fn touch_byte(&mut self, me: usize, op: usize, address: u64, writes: bool, at: u64) {
        let Some(granted) = self.granted(op) else {
            return;
        };
        let due = cut(&granted, at, 1).first().map(|piece| piece.address);
        if due != Some(address) {
            let what = format!(
                "p{me}: byte {at} of {op} at {address:#x}, writes: {writes}, due is {due:x?}"
            );
            self.fail(Law::Range, what);
        }
    }

    /// Law 3: of two short operations of one initiator by calls, the earlier one comes first to a
    /// byte, unless both read.
    pub(crate) fn keep_order(&mut self, op: usize, address: u64, writes: bool) {
        let known = &self.ops[op];
        let (me, initiator) = (known.target, known.me);
        let Some(seq) = known.seq.filter(|_| known.length <= ORDERED_BYTES) else {
            return;
        };
        let last = self.processes[me]
            .touched
            .entry((address, initiator))
            .or_default();
        let (read, written) = *last;
        let late = if writes {
            seq < read.max(written)
        } else {
            seq < written
        };
        match writes {
            true => last.1 = written.max(seq),
            false => last.0 = read.max(seq),
        }
        if late {
            let what = format!(
                "p{me}: {op} of p{initiator}, {seq}, is late at {address:#x}, writes: {writes}, read {read}, written {written}"
            );
            self.fail(Law::Address, what);
        }
    }

    /// The join has done what a short request asks for: bytes before and after, and what the
    /// initiator has sent. Law 1.
    pub(crate) fn check_done(
        &mut self,
        op: usize,
        does: Does,
        data: &[u8],
        before: &[u8],
        after: &[u8],
    ) {
        self.check_bytes(op, data, 0);
        if does == Does::Fetch {
            return;
        }
        let known = &self.ops[op];
        let due = match known.atomic {
            None => Some(data[..after.len().min(data.len())].to_vec()),
            Some(atomic) => compute(atomic, &known.operand, data, before),
        };
        if let Some(due) = due.filter(|due| due != after) {
            let what = format!(
                "{op}, {:?} on {before:x?} with {data:x?}: {after:x?}, due is {due:x?}",
                known.atomic
            );
            self.fail(Law::Fate, what);
        }
    }

    /// Law 5: bytes of an operation, from `first` on, are those of the initiator's memory when it
    /// was begun.
    pub(crate) fn check_bytes(&mut self, op: usize, data: &[u8], first: u64) {
        let wrong = (first..)
            .zip(data)
            .find(|(at, byte)| byte_of(op, *at) != **byte);
        let Some((at, byte)) = wrong else {
            return;
        };
        let scribbled = data.iter().filter(|byte| **byte == SCRIBBLE).count();
        let law = if scribbled * 2 >= data.len() {
            Law::Local
        } else {
            Law::Fate
        };
        self.fail(law, format!("byte {at} of {op} is {byte:#x} in {data:x?}"));
    }

    /// RDMA has moved bytes of an operation. Laws 1 and 5.
    pub(crate) fn touch_rdma(&mut self, at: usize, index: usize, from: u64, until: u64) {
        if self.violation.is_some() {
            return;
        }
        let job = &self.links[at].jobs[index];
        let (me, op, writes) = (self.links[at].from, job.op, job.writes);
        let addresses = job
            .local
            .iter()
            .flat_map(|piece| piece.address..piece.address + piece.length);
        let addresses = addresses.skip(from as usize).take((until - from) as usize);
        let memory = &self.processes[me].portals.memory;
        let bytes: Vec<u8> = addresses
            .filter_map(|address| memory.rdma_read(address))
            .collect();
        self.ops[op].fate.moved += until - from;
        match writes {
            true => self.ops[op].brought.extend_from_slice(&bytes),
            false => self.check_bytes(op, &bytes, from),
        }
    }

    /// Law 5: memory of the initiator has been touched for an operation.
    pub(crate) fn touch_own(&mut self, op: usize, touches: Vec<Touch>) {
        let known = &self.ops[op];
        let me = known.me;
        for touch in touches.into_iter().filter(|touch| !touch.pieces.is_empty()) {
            let own = if touch.writes { known.get } else { known.put };
            let lies = |own: &Own| {
                let bytes = touch.pieces.iter().map(|piece| piece.length).sum();
                cut(&self.processes[me].slots[own.slot], 0, bytes) == touch.pieces
            };
            if known.over || !own.is_some_and(|own| own.bound && lies(&own)) {
                let what = format!("p{me}: {touch:?} for {op}, {own:?}, over: {}", known.over);
                self.fail(Law::Local, what);
                return;
            }
        }
    }
}

/// What an atomic operation makes of the bytes before, where it is done once more here.
fn compute(
    (atomic, datatype): (AtomicOp, Datatype),
    operand: &[u8; 32],
    data: &[u8],
    before: &[u8],
) -> Option<Vec<u8>> {
    let size = datatype.size_bytes() as usize;
    let number = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let unsigned = [
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
    ];
    if !unsigned.contains(&datatype) || !cfg!(target_endian = "little") {
        return None;
    }
    let each = |combine: fn(u64, u64, u64) -> u64| {
        let values = before.chunks_exact(size).zip(data.chunks_exact(size));
        let after = values.flat_map(|(before, data)| {
            let value = combine(number(before), number(data), number(&operand[..size]));
            value.to_le_bytes().into_iter().take(size)
        });
        Some(after.collect())
    };
    match atomic {
        AtomicOp::Sum => each(|before, data, _| before.wrapping_add(data)),
        AtomicOp::Bxor => each(|before, data, _| before ^ data),
        AtomicOp::Min => each(|before, data, _| before.min(data)),
        AtomicOp::Swap => each(|_, data, _| data),
        AtomicOp::Mswap => each(|before, data, mask| (data & mask) | (before & !mask)),
        AtomicOp::Cswap => {
            each(|before, data, wanted| if before == wanted { data } else { before })
        }
        _ => None,
    }
}

/// The atomic operations that `compute` knows, and their types.
pub(crate) const ATOMICS: [(ArrivalOp, AtomicOp); 6] = [
    (ArrivalOp::Atomic, AtomicOp::Sum),
    (ArrivalOp::Atomic, AtomicOp::Bxor),
    (ArrivalOp::Atomic, AtomicOp::Min),
    (ArrivalOp::Swap, AtomicOp::Swap),
    (ArrivalOp::Swap, AtomicOp::Mswap),
    (ArrivalOp::Swap, AtomicOp::Cswap),
];
