//! What lies where in the segment that a pair of processes shares.
//!
//! 64 connections: their words first, then a page with a word for each side, in which a bit for
//! each connection says whose waiters the peer has told, then the rings, each with pages of its
//! own. Pages that no connection has used cost nothing.

use ferriband_sdp_local::Shared;

/// Connections of a segment.
pub const SLOTS: u64 = 64;
/// Bytes of a ring.
pub const RING_BYTES: u64 = 64 << 10;
/// Bytes that a ring to another host or network namespace holds: what an empty TCP socket takes in
/// any case, for such a connection's buffer grows only while TCP carries it.
pub const NARROW_BYTES: u64 = 32 << 10;
/// Bytes of a segment.
pub const LENGTH: u64 = RINGS + SLOTS * 2 * RING_BYTES;

const DIRECTION_BYTES: u64 = 256;
const SLOT_BYTES: u64 = 2 * DIRECTION_BYTES;
const TOLD: u64 = SLOTS * SLOT_BYTES;
const RINGS: u64 = TOLD + 4096;

/// Which side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has called connect(2).
    Connected,
    /// It has called accept(2).
    Accepted,
}

impl Role {
    /// The peer's.
    #[inline]
    pub fn other(self) -> Self {
        match self {
            Role::Connected => Role::Accepted,
            Role::Accepted => Role::Connected,
        }
    }
}

/// A direction: 0 is that of which the connected side is the writer.
pub(crate) fn direction(role: Role, out: bool) -> u64 {
    u64::from((role == Role::Connected) != out)
}

/// Offset of a word. Words of the two sides have lines of their own, the phase a third.
#[inline]
pub(crate) fn word(slot: u64, direction: u64, word: Shared) -> u64 {
    let at = match word {
        Shared::Head => 0,
        Shared::Base => 8,
        Shared::Offset => 16,
        Shared::End => 24,
        Shared::CopyFrom => 32,
        Shared::WantRoom => 40,
        Shared::Tail => 64,
        Shared::Recall => 72,
        Shared::WantBytes => 80,
        Shared::Phase => 128,
        Shared::EndedByProgram => 136,
        Shared::Filled => 56,
        Shared::Given => 152,
    };
    slot * SLOT_BYTES + direction * DIRECTION_BYTES + at
}

/// Offset of the word in which a side says which of its process's boxes its waiters are in: those
/// that wait for bytes of a direction, if it `reads`, or for room.
#[inline]
pub(crate) fn box_word(slot: u64, direction: u64, reads: bool) -> u64 {
    let at = if reads { 88 } else { 48 };
    slot * SLOT_BYTES + direction * DIRECTION_BYTES + at
}

/// Offset of the word with the number that stands in TCP before a copy of this direction; 0: none.
/// Only a slot that no other process maps has it.
#[inline]
pub(crate) fn preface(slot: u64, direction: u64) -> u64 {
    slot * SLOT_BYTES + direction * DIRECTION_BYTES + 144
}

/// Offset of the word in which the peer of a side says for which slots it has told that side's
/// waiters.
#[inline]
pub(crate) fn told(side: Role) -> u64 {
    TOLD + 128 * u64::from(side == Role::Accepted)
}

/// Offset of a ring.
pub(crate) fn ring(slot: u64, direction: u64) -> u64 {
    RINGS + (slot * 2 + direction) * RING_BYTES
}
