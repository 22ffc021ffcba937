//! What a request is when it arrives, and what a transport hears of it and says about it.
//!
//! Owns: the values between machine and transport. Must not know: bytes on a wire, objects. Data
//! comes from the initiator's header and from matching.

use crate::handles::Key;
use crate::{AtomicOp, Datatype, NiFail, Pieces};

/// Which of the four interfaces of a process: the bits travel with every request (Portals 4.3,
/// PtlNIInit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NiKind {
    /// Requests are matched by match bits and initiator.
    pub matching: bool,
    /// Processes are named by rank, not by nid and pid.
    pub logical: bool,
}

impl NiKind {
    /// A number from 0 to 3, used in handles and messages.
    pub const fn index(self) -> u8 {
        self.matching as u8 | (self.logical as u8) << 1
    }

    /// The interface with this number; higher bits do not count.
    pub const fn from_index(index: u8) -> NiKind {
        NiKind {
            matching: index & 1 != 0,
            logical: index & 2 != 0,
        }
    }
}

/// A process by its node and process identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// The node identifier.
    pub nid: u32,
    /// The process identifier.
    pub pid: u32,
}

/// A process as an interface names it (ptl_process_t is a union of the two). In criteria each part
/// may be a wild card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// On a logical interface.
    Rank(u32),
    /// On a physical interface.
    Physical(Process),
}

impl Peer {
    /// PTL_RANK_ANY.
    pub const RANK_ANY: u32 = 0xffff_ffff;
    /// PTL_NID_ANY: 16 bits, so the node identifier 0xffff cannot be asked for alone.
    pub const NID_ANY: u32 = 0xffff;
    /// PTL_PID_ANY.
    pub const PID_ANY: u32 = 0xffff;

    pub(crate) fn is_wild(&self) -> bool {
        match self {
            Peer::Rank(rank) => *rank == Peer::RANK_ANY,
            Peer::Physical(process) => process.nid == Peer::NID_ANY || process.pid == Peer::PID_ANY,
        }
    }

    /// Whether these criteria admit `who`.
    pub(crate) fn admits(&self, who: &Peer) -> bool {
        match (self, who) {
            (Peer::Rank(wanted), Peer::Rank(rank)) => *wanted == Peer::RANK_ANY || wanted == rank,
            (Peer::Physical(wanted), Peer::Physical(process)) => {
                (wanted.nid == Peer::NID_ANY || wanted.nid == process.nid)
                    && (wanted.pid == Peer::PID_ANY || wanted.pid == process.pid)
            }
            _ => false,
        }
    }

    pub(crate) fn is_logical(&self) -> bool {
        matches!(self, Peer::Rank(_))
    }
}

/// A list of a table entry (ptl_list_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum List {
    /// Searched first.
    #[default]
    Priority = 0,
    /// Searched when the priority list has no match; leaves an unexpected header.
    Overflow = 1,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ArrivalOp {
    /// Writes.
    Put = 0,
    /// Reads.
    Get = 1,
    /// Computes with what is there, returns nothing.
    Atomic = 2,
    /// Computes with what is there, returns the value before.
    FetchAtomic = 3,
    /// Exchanges, perhaps under a condition or a mask, returns the value before.
    Swap = 4,
}

impl ArrivalOp {
    pub(crate) fn writes(self) -> bool {
        self != ArrivalOp::Get
    }

    pub(crate) fn reads(self) -> bool {
        matches!(
            self,
            ArrivalOp::Get | ArrivalOp::FetchAtomic | ArrivalOp::Swap
        )
    }
}

/// A request as it arrives at its target. The data stays with the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The interface that it is for.
    pub ni: NiKind,
    /// Who asks.
    pub initiator: Process,
    /// Who asks, on a logical interface.
    pub rank: u32,
    /// The initiator's user.
    pub uid: u32,
    /// What it does.
    pub op: ArrivalOp,
    /// The atomic operation and the type of its values.
    pub atomic: Option<(AtomicOp, Datatype)>,
    /// The index of the portal table.
    pub pt_index: u32,
    /// For matching.
    pub match_bits: u64,
    /// Where in the entry's memory, unless the entry manages the offset itself.
    pub remote_offset: u64,
    /// Bytes that are asked for (rlength).
    pub length: u64,
    /// 64 bits for the target's event.
    pub hdr_data: u64,
}

/// The name of a request that was let in, until its data is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(pub(crate) Key);

/// The name of an operation of this process that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub(crate) Key);

impl OpId {
    /// 64 bits that a transport may send with a request and get back with its answer.
    pub const fn to_bits(self) -> u64 {
        (self.0.generation as u64) << 32 | self.0.index as u64
    }

    /// The name in these bits. Bits that name nothing are harmless: calls with them do nothing.
    pub const fn from_bits(bits: u64) -> OpId {
        OpId(Key {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        })
    }
}

/// Whether a request is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is, and [`crate::Interface::delivered`] must be called for it.
    Granted(Grant),
    /// It is not. The answer, if one is asked for, has this failure.
    Refused(NiFail),
}

/// What a request that was let in may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its name.
    pub hold: HoldId,
    /// Bytes to move (mlength), at most those asked for.
    pub length: u64,
    /// The offset in the entry's memory at which they begin.
    pub offset: u64,
    /// The list in which it matched.
    pub list: List,
    /// Where they lie, in order.
    pub pieces: Pieces,
    /// Not all of them need be memory: the interface offers PTL_TARGET_BIND_INACCESSIBLE, and the
    /// entry does not say that it is accessible.
    pub may_fault: bool,
}

impl Grant {
    /// The answer to the initiator, once the data is delivered with this outcome.
    pub fn answer(&self, outcome: Delivery) -> AckInfo {
        AckInfo {
            fail: outcome.fail(),
            length: self.length,
            offset: self.offset,
            list: self.list,
        }
    }
}

/// What became of the data of a request that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is placed, read or computed: the memory is not touched any more.
    Done,
    /// It failed, and the memory is not touched any more. [`NiFail::Ok`] counts as
    /// [`Delivery::Done`].
    Failed(NiFail),
}

impl Delivery {
    pub(crate) fn fail(self) -> NiFail {
        match self {
            Delivery::Done => NiFail::Ok,
            Delivery::Failed(fail) => fail,
        }
    }
}

/// What an initiator hears in an acknowledgement or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckInfo {
    /// What became of it.
    pub fail: NiFail,
    /// Bytes that were moved (mlength).
    pub length: u64,
    /// The offset that the target used.
    pub offset: u64,
    /// The list in which it matched.
    pub list: List,
}

impl AckInfo {
    /// The answer to a request that was not let in.
    pub fn refused(fail: NiFail) -> AckInfo {
        AckInfo {
            fail,
            length: 0,
            offset: 0,
            list: List::Priority,
        }
    }
}

/// Whether `operation` on `datatype` over `length` bytes may travel as `op`. Atomics need an
/// operation, PUT and GET have none.
///
/// The length is a whole number of values, at most one for operations with an operand (Portals 4.3,
/// PtlSwap). Lengths of an interface's limits are checked apart.
pub fn is_legal(op: ArrivalOp, atomic: Option<(AtomicOp, Datatype)>, length: u64) -> bool {
    let Some((operation, datatype)) = atomic else {
        return matches!(op, ArrivalOp::Put | ArrivalOp::Get);
    };
    let carried = match op {
        ArrivalOp::Put | ArrivalOp::Get => return false,
        ArrivalOp::Atomic | ArrivalOp::FetchAtomic => !operation.is_swap(),
        ArrivalOp::Swap => operation.is_swap(),
    };
    let size = datatype.size_bytes();
    carried
        && operation.takes(datatype)
        && length.is_multiple_of(size)
        && (!operation.has_operand() || length <= size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_travels_by_its_own_call_and_in_whole_values() {
        use ArrivalOp::*;
        let sum = Some((AtomicOp::Sum, Datatype::Int32));
        assert!(is_legal(Atomic, sum, 8) && is_legal(FetchAtomic, sum, 0));
        assert!(
            !is_legal(Swap, sum, 4)
                && !is_legal(Put, sum, 4)
                && !is_legal(Atomic, sum, 6)
                && !is_legal(Atomic, None, 4)
        );
        let cswap = Some((AtomicOp::Cswap, Datatype::DoubleComplex));
        assert!(
            is_legal(Swap, cswap, 16)
                && !is_legal(Swap, cswap, 32)
                && !is_legal(FetchAtomic, cswap, 16)
        );
        assert!(is_legal(Swap, Some((AtomicOp::Swap, Datatype::Int8)), 100));
        assert!(!is_legal(
            Swap,
            Some((AtomicOp::Mswap, Datatype::Double)),
            8
        ));
    }
}
