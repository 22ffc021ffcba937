//! What messages say of their communicator.
//!
//! Owns: the bit of a context that tells collectives' messages. Must not know: which context is
//! whose.

/// Bit of a context that collective messages have.
pub const COLLECTIVE: u64 = 1;
