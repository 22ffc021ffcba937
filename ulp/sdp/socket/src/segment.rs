//! What lies where in the segment that a pair of processes shares.
//!
//! 64 connections: their words first, then their rings, each with pages of its own. Pages that no
//! connection has used cost nothing.

use ferriband_sdp_local::Shared;

/// Connections of a segment.
pub const SLOTS: u64 = 64;
/// Bytes of a ring.
pub const RING_BYTES: u64 = 64 << 10;
/// Bytes of a segment.
pub const LENGTH: u64 = RINGS + SLOTS * 2 * RING_BYTES;

const DIRECTION_BYTES: u64 = 256;
const SLOT_BYTES: u64 = 2 * DIRECTION_BYTES;
const RINGS: u64 = SLOTS * SLOT_BYTES;

/// Which side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has called connect(2).
    Connected,
    /// It has called accept(2).
    Accepted,
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
    };
    slot * SLOT_BYTES + direction * DIRECTION_BYTES + at
}

/// Offset of a ring.
pub(crate) fn ring(slot: u64, direction: u64) -> u64 {
    RINGS + (slot * 2 + direction) * RING_BYTES
}
