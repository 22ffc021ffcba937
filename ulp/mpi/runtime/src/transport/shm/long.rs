//! Long messages between ranks of a host, whose memory both sides can reach: who copies which part.
//!
//! The receiver reads. From `both_copy` bytes on it lets the sender write chunks from the end on,
//! which happens in the sender's rounds of progress; a sender that does something else is not
//! waited for. From there on, while the sender waits in MPI, the message may come in pieces through
//! the block instead ([`super::ways`]).
//!
//! Owns: from which lengths on. Must not know: which messages there are.

/// Bytes of the pieces in which messages go through blocks that are large enough for many of them.
pub const LARGE_PIECE: usize = 32 << 10;

/// Whether both sides may copy a message of `length` bytes, where the shortest such has `least`.
pub fn is_joint(least: Option<u64>, length: usize) -> bool {
    least.is_some_and(|least| length as u64 >= least)
}
