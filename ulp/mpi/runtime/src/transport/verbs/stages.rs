//! Staging buffers: what is longer than a request itself may carry goes through one. It is free
//! again when the request has completed; or, where it stands in the log of what is not
//! acknowledged, when the peer's runtime has taken what lies in it. That says more than a
//! completion, so none is asked for: should the adapter repeat such a request because its own
//! acknowledgement was lost, the peer's adapter knows it by its number and executes nothing (IBA
//! C9-105).

use super::memory::Area;

/// Staging buffers, for all peers together.
pub const STAGES: u32 = 128;
/// Of these, the ones that records go through alone; they take others where those for SENDs are
/// more than half.
const RECORD_STAGES: u32 = 8;
/// Buffers that messages may be kept in at most.
const MOST_HELD: u32 = STAGES / 2 - RECORD_STAGES - 1;

/// The buffers, and who uses them.
pub struct Stages {
    /// Their memory.
    pub memory: Area,
    /// Those that nothing is in.
    free: Vec<u32>,
    /// Those for records that nothing is in.
    free_for_records: Vec<u32>,
    /// Of those for SENDs, as many are never kept.
    not_held: usize,
}

impl Stages {
    /// How many messages may be kept in buffers, where there is memory for `wanted` ones.
    pub fn most_held(wanted: u64) -> u32 {
        u32::try_from(wanted).map_or(MOST_HELD, |wanted| wanted.min(MOST_HELD))
    }

    /// [`STAGES`] buffers, all free; messages are kept in at most `held` of them.
    pub fn new(memory: Area, held: u32) -> Self {
        Self {
            memory,
            free: (RECORD_STAGES..STAGES).rev().collect(),
            free_for_records: (0..RECORD_STAGES).rev().collect(),
            not_held: (STAGES - RECORD_STAGES - held) as usize,
        }
    }

    /// One for a SEND or a part of a long message.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// One for a record: one that SENDs do not need, or else one of its own.
    #[inline]
    pub fn take_for_record(&mut self) -> Option<u32> {
        if self.has_many() {
            return self.take();
        }
        self.free_for_records.pop()
    }

    /// Whether a buffer that is in use may stay so until its message is acknowledged, which may be
    /// long after it has been sent. Not where buffers run short: others are to be sent to, too.
    #[inline]
    pub fn may_hold(&self, buffer: u32) -> bool {
        buffer >= RECORD_STAGES && self.free.len() >= self.not_held
    }

    /// Nobody wants a buffer any more.
    #[inline]
    pub fn give(&mut self, buffer: u32) {
        if buffer < RECORD_STAGES {
            self.free_for_records.push(buffer);
        } else {
            self.free.push(buffer);
        }
    }

    /// Whether more than half of all are free for SENDs.
    #[inline]
    fn has_many(&self) -> bool {
        self.free.len() > STAGES as usize / 2
    }
}
