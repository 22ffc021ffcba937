//! Shared memory as x86 shows it: words, two rings, and a first-in first-out store buffer for each
//! fiber.
//!
//! A fiber sees its own buffered stores; others see a store when it leaves the buffer. Must not
//! know who runs when: the scheduler drains. A byte is a [`Tag`], so each is told from every other.

use std::collections::VecDeque;

use ferriband_sdp_local::{Own, Shared, Way, Word};

/// A byte of a stream: which fiber sent it, and as its how-manieth.
pub(crate) type Tag = u32;

/// Stores that a buffer holds before the oldest must leave.
const BUFFER: usize = 24;

const SHARED: [Shared; 13] = [
    Shared::Phase,
    Shared::Head,
    Shared::Base,
    Shared::Offset,
    Shared::End,
    Shared::CopyFrom,
    Shared::WantRoom,
    Shared::Tail,
    Shared::WantBytes,
    Shared::Recall,
    Shared::EndedByProgram,
    Shared::Filled,
    Shared::Given,
];
const OWN: [Own; 16] = [
    Own::SendLock,
    Own::ReceiveLock,
    Own::Sends,
    Own::SendGate,
    Own::Receives,
    Own::ReceiveGate,
    Own::Head,
    Own::Base,
    Own::FromTcp,
    Own::FromSdp,
    Own::Ended,
    Own::FullTail,
    Own::FullSince,
    Own::InVain,
    Own::Refrains,
    Own::Error,
];

/// A word's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At(usize);

/// A word of direction `direction`, which is the number of the side that writes it.
pub(crate) fn shared(direction: usize, word: Shared) -> At {
    At(direction * SHARED.len() + word as usize)
}

/// A word of a side's record.
pub(crate) fn own(side: usize, word: Own) -> At {
    At(2 * SHARED.len() + side * OWN.len() + word as usize)
}

/// The direction that a side calls `way`.
pub(crate) fn direction(side: usize, way: Way) -> usize {
    match way {
        Way::Out => side,
        Way::In => 1 - side,
    }
}

/// A word as a side names it.
pub(crate) fn place(side: usize, word: Word) -> At {
    match word {
        Word::Shared(way, word) => shared(direction(side, way), word),
        Word::Own(word) => own(side, word),
    }
}

pub(crate) enum Store {
    Word(At, u64),
    Bytes {
        direction: usize,
        at: usize,
        /// Where the first of them stands in what the ring has carried.
        position: u64,
        tags: Vec<Tag>,
    },
}

pub(crate) struct Ring {
    pub tags: Vec<Tag>,
    /// Which byte of what the ring has carried lies in each cell.
    positions: Vec<Option<u64>>,
}

pub(crate) struct Memory {
    words: Vec<u64>,
    pub rings: [Ring; 2],
    buffers: Vec<VecDeque<Store>>,
}

impl Memory {
    pub fn new(rings: [u64; 2], fibers: usize) -> Self {
        Memory {
            words: vec![0; 2 * (SHARED.len() + OWN.len())],
            rings: rings.map(|size| Ring {
                tags: vec![Tag::MAX; size as usize],
                positions: vec![None; size as usize],
            }),
            buffers: (0..fibers).map(|_| VecDeque::new()).collect(),
        }
    }

    /// What memory holds, whatever is on its way.
    pub fn word(&self, at: At) -> u64 {
        self.words[at.0]
    }

    pub fn set_word(&mut self, at: At, value: u64) {
        self.words[at.0] = value;
    }

    /// What a fiber sees.
    pub fn view(&self, fiber: usize, at: At) -> u64 {
        let own = self.buffers[fiber].iter().rev().find_map(|store| {
            if let Store::Word(other, value) = store {
                (*other == at).then_some(*value)
            } else {
                None
            }
        });
        own.unwrap_or(self.words[at.0])
    }

    pub fn buffer(&mut self, fiber: usize, store: Store) {
        self.buffers[fiber].push_back(store);
    }

    pub fn is_full(&self, fiber: usize) -> bool {
        self.buffers[fiber].len() > BUFFER
    }

    pub fn buffered(&self, fiber: usize) -> usize {
        self.buffers[fiber].len()
    }

    /// The oldest store leaves a buffer. Gives the word that it writes, if it does.
    ///
    /// # Errors
    /// It overwrites a byte that nobody has read.
    pub fn drain_one(&mut self, fiber: usize) -> Result<Option<(At, u64)>, String> {
        match self.buffers[fiber].pop_front() {
            None => Ok(None),
            Some(Store::Word(at, value)) => {
                self.words[at.0] = value;
                Ok(Some((at, value)))
            }
            Some(Store::Bytes {
                direction,
                at,
                position,
                tags,
            }) => {
                let head = self.word(own(direction, Own::Head));
                let read = self.word(own(1 - direction, Own::FromSdp));
                let base = self.word(own(direction, Own::Base));
                let ring = &mut self.rings[direction];
                let size = ring.tags.len() as u64;
                for (cell, tag) in (at..).zip(tags) {
                    let new = position + (cell - at) as u64;
                    if let Some(old) = ring.positions[cell]
                        && (read..head).contains(&old)
                        // else it was never published: who had put it has died
                        && old.wrapping_sub(base) % size == cell as u64
                    {
                        return Err(format!(
                            "byte {old} of ring {direction} is overwritten by byte {new}, and \
                             {read} are read of {head}"
                        ));
                    }
                    ring.positions[cell] = Some(new);
                    ring.tags[cell] = tag;
                }
                Ok(None)
            }
        }
    }

    pub fn forget(&mut self, fiber: usize) {
        self.buffers[fiber].clear();
    }
}

/// A word's name, for the trace.
pub(crate) fn name(at: At) -> String {
    let shared = 2 * SHARED.len();
    match at.0.checked_sub(shared) {
        None => format!("{:?}{}", SHARED[at.0 % SHARED.len()], at.0 / SHARED.len()),
        Some(at) => format!("own{}.{:?}", at / OWN.len(), OWN[at % OWN.len()]),
    }
}
