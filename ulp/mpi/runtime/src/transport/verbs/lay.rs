//! How a message lies that goes by SEND, wherever it is laid out: envelope, body, payload.
//!
//! Owns: that order. Must not know: what the memory is for.

use super::memory::Area;
use crate::ground::memory::Source;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope};

/// Where a message is laid out.
pub(super) trait Room {
    /// Copies `bytes` to `at`.
    fn write(&mut self, at: usize, bytes: &[u8]);
    /// Copies all of `source` to `at`.
    fn fill(&mut self, at: usize, source: Source);
}

/// A request's own bytes, or the log's: as many as the message has.
impl Room for [u8] {
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn fill(&mut self, at: usize, source: Source) {
        source.copy_into(&mut self[at..]);
    }
}

/// A buffer of several, from a place on.
pub(super) struct Staged<'a> {
    /// All of them.
    pub memory: &'a Area,
    /// Which one.
    pub index: u32,
    /// From where on.
    pub at: u32,
}

impl Room for Staged<'_> {
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.memory.write(self.index, self.at + at as u32, bytes);
    }

    #[inline]
    fn fill(&mut self, at: usize, source: Source) {
        self.memory.fill(self.index, self.at + at as u32, source);
    }
}

/// Lays a message out.
#[inline(always)]
pub(super) fn lay<R: Room + ?Sized>(
    room: &mut R,
    envelope: &Envelope,
    body: &[u8],
    source: Source,
) {
    room.write(0, &envelope.emit());
    room.write(ENVELOPE, body);
    room.fill(ENVELOPE + body.len(), source);
}
