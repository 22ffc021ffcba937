//! A reliable connection, modelled as slow and as eager as verbs allow.
//!
//! Owns: works of one direction between post and completion, the receives of its receiving side,
//! and that side's memory. Bytes are positions in the stream, so each byte in memory says which one
//! it is. An RDMA WRITE lands packet by packet, also behind a work that waits for a receive: more
//! eager than adapters are. Must not know: what messages say.

use ferriband_sdp_proto::connection::{Piece, WorkId};
use ferriband_sdp_wire::Advert;
use std::collections::VecDeque;

/// A byte of the stream: its position and 1. 0 is none.
pub(super) type Tag = u64;

/// A posted work.
pub(super) struct Posted {
    pub id: WorkId,
    pub what: What,
    /// Bytes of a WRITE that have landed.
    pub landed: u32,
}

pub(super) enum What {
    Send {
        head: Vec<u8>,
        data: Option<Piece>,
    },
    Write {
        from: Piece,
        to: u32,
        immediate: u32,
    },
    Read {
        from: Advert,
    },
}

impl What {
    pub fn bytes(&self) -> u32 {
        match self {
            What::Send { data, .. } => data.map_or(0, |piece| piece.bytes),
            What::Write { from, .. } => from.bytes,
            What::Read { from } => from.length_bytes,
        }
    }

    pub fn takes_receive(&self) -> bool {
        !matches!(self, What::Read { .. })
    }
}

/// The completion of a receive.
pub(super) enum Arrival {
    Message { head: Vec<u8>, length_bytes: u32 },
    Write { bytes: u32, immediate: u32 },
}

/// One direction.
#[derive(Default)]
pub(super) struct Wire {
    /// Posted and not executed.
    pub works: VecDeque<Posted>,
    /// Of the receiving side.
    pub receives: VecDeque<u16>,
    pub arrivals: VecDeque<Arrival>,
    /// Of the sending side.
    pub completions: VecDeque<WorkId>,
    /// Bytes of the stream whose receive was taken.
    pub executed: u64,
}

/// Receive buffers or a ring: which byte is where, unread.
pub(super) struct ReceiveMemory {
    tags: Vec<Tag>,
}

impl ReceiveMemory {
    pub fn new(bytes: u32) -> Self {
        ReceiveMemory {
            tags: vec![0; bytes as usize],
        }
    }

    /// Bytes land at `at`.
    pub fn land(&mut self, at: u32, tags: &[Tag]) -> Result<(), String> {
        let end = at as usize + tags.len();
        let Some(place) = self.tags.get_mut(at as usize..end) else {
            return Err(format!("bytes land at {at}, behind the buffer's end"));
        };
        for (old, new) in place.iter_mut().zip(tags) {
            if *old != 0 {
                let (old, new) = (*old - 1, new.wrapping_sub(1));
                return Err(format!("byte {new} lands on byte {old}, which is unread"));
            }
            *old = *new;
        }
        Ok(())
    }

    /// Bytes are read, and their place is free.
    pub fn read(&mut self, piece: Piece) -> Vec<Tag> {
        let range = piece.at as usize..(piece.at + piece.bytes) as usize;
        let tags = self.tags[range.clone()].to_vec();
        self.tags[range].fill(0);
        tags
    }
}

impl Wire {
    /// Packets of the first WRITE that has not wholly landed: where, how many bytes from where in
    /// the send buffer.
    pub fn next_packet(&mut self, most: u32) -> Option<(u32, Piece)> {
        for posted in &mut self.works {
            let What::Write { from, to, .. } = &posted.what else {
                continue;
            };
            let left = from.bytes - posted.landed;
            if left > 0 {
                let bytes = left.min(most);
                let (at, to) = (from.at + posted.landed, to + posted.landed);
                posted.landed += bytes;
                return Some((to, Piece { at, bytes }));
            }
        }
        None
    }

    pub fn has_packet(&self) -> bool {
        let waits = |posted: &Posted| match &posted.what {
            What::Write { from, .. } => posted.landed < from.bytes,
            What::Send { .. } | What::Read { .. } => false,
        };
        self.works.iter().any(waits)
    }

    /// Whether the first work has done all but take its receive.
    pub fn is_ready(&self) -> bool {
        self.works.front().is_some_and(|first| match &first.what {
            What::Write { from, .. } => first.landed == from.bytes,
            What::Send { .. } | What::Read { .. } => true,
        })
    }

    /// Whether the first work waits for a receive.
    pub fn is_held(&self) -> bool {
        let takes = |first: &Posted| first.what.takes_receive();
        self.receives.is_empty() && self.works.front().is_some_and(takes)
    }

    /// Works that will take a receive.
    pub fn taking(&self) -> usize {
        let takes = |work: &&Posted| work.what.takes_receive();
        self.works.iter().filter(takes).count()
    }

    /// The transport fails: what has not completed does not.
    pub fn lose(&mut self) {
        self.works.clear();
        self.receives.clear();
    }
}
