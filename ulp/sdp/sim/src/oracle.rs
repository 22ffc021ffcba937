//! What was sent and received, byte by byte, and the laws of the two streams.
//!
//! Owns: the fate of each byte. Must not know: which way a byte went.

use crate::memory::Tag;

/// A send call has given it out of its hands.
const ACCEPTED: u8 = 1;
/// It was copied to the ring or to the kernel.
const SENT: u8 = 2;
/// A receive call that has not returned has copied it.
const HELD: u8 = 4;
/// A receive call has returned it.
const RECEIVED: u8 = 8;
/// A receive call that was killed had copied it: it may be gone.
const DOUBTFUL: u8 = 16;

const SERIAL_BITS: u32 = 24;

/// The tag of the `serial`-th byte that a fiber sends.
pub(crate) fn tag(fiber: usize, serial: u64) -> Tag {
    ((fiber as u32) << SERIAL_BITS) | serial as u32
}

fn of(tag: Tag) -> (usize, usize) {
    (
        (tag >> SERIAL_BITS) as usize,
        (tag & ((1 << SERIAL_BITS) - 1)) as usize,
    )
}

/// What calls that had returned by some time had received: of each sender, so many bytes at least.
pub(crate) type Seen = Vec<usize>;

pub(crate) struct Oracle {
    /// Of each fiber, its bytes.
    bytes: Vec<Vec<u8>>,
    seen: Seen,
    /// Of each fiber, what its present call has copied.
    held: Vec<Vec<Tag>>,
}

impl Oracle {
    pub fn new(fibers: usize) -> Self {
        Oracle {
            bytes: vec![Vec::new(); fibers],
            seen: vec![0; fibers],
            held: vec![Vec::new(); fibers],
        }
    }

    fn mark(&mut self, tag: Tag, mark: u8) -> &mut u8 {
        let (fiber, serial) = of(tag);
        let bytes = &mut self.bytes[fiber];
        if bytes.len() <= serial {
            bytes.resize(serial + 1, 0);
        }
        bytes[serial] |= mark;
        &mut bytes[serial]
    }

    /// These were copied to the ring or to the kernel.
    pub fn sent(&mut self, tags: &[Tag]) -> Result<(), String> {
        for tag in tags {
            if *tag == Tag::MAX {
                return Err("a byte of the ring is sent that nobody has written".into());
            }
            self.mark(*tag, SENT);
        }
        Ok(())
    }

    pub fn accepted(&mut self, tags: &[Tag]) {
        for tag in tags {
            self.mark(*tag, ACCEPTED);
        }
    }

    /// A call of `fiber` has copied these.
    pub fn held(&mut self, fiber: usize, tags: &[Tag]) -> Result<(), String> {
        for tag in tags {
            let (from, serial) = of(*tag);
            let known = self.bytes.get(from).and_then(|bytes| bytes.get(serial));
            let Some(known) = known.copied().filter(|known| known & SENT != 0) else {
                return Err(format!("received {tag:#x}, which nobody has sent"));
            };
            if known & (RECEIVED | HELD) != 0 {
                return Err(format!("byte {serial} of fiber {from} comes twice"));
            }
            self.mark(*tag, HELD);
        }
        self.held[fiber].extend(tags);
        Ok(())
    }

    /// For a receive call that begins: what is to come after.
    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// A receive call has returned `tags`; `before` was seen when it began.
    pub fn received(&mut self, fiber: usize, tags: &[Tag], mut before: Seen) -> Result<(), String> {
        let held = std::mem::take(&mut self.held[fiber]);
        if held != tags {
            return Err(format!(
                "a call returned {} bytes, and had copied {}",
                tags.len(),
                held.len()
            ));
        }
        for tag in tags {
            let (from, serial) = of(*tag);
            if serial < before[from] {
                let next = before[from];
                return Err(format!(
                    "byte {serial} of fiber {from} comes where {next} or later is due"
                ));
            }
            before[from] = serial + 1;
            self.seen[from] = self.seen[from].max(serial + 1);
            let mark = self.mark(*tag, RECEIVED);
            *mark &= !HELD;
        }
        Ok(())
    }

    /// A fiber is killed: what its call had copied may be gone, or not.
    pub fn killed(&mut self, fiber: usize) {
        for tag in std::mem::take(&mut self.held[fiber]) {
            let mark = self.mark(tag, DOUBTFUL);
            *mark &= !HELD;
        }
    }

    /// Whether bytes of these fibers were accepted and are at nobody's.
    pub fn missing(&self, fibers: impl Iterator<Item = usize>) -> Option<String> {
        for fiber in fibers {
            for (serial, mark) in self.bytes[fiber].iter().enumerate() {
                if mark & ACCEPTED != 0 && mark & (RECEIVED | HELD | DOUBTFUL) == 0 {
                    let sent = self.bytes[fiber].len();
                    return Some(format!(
                        "byte {serial} of {sent} of fiber {fiber} is missing"
                    ));
                }
            }
        }
        None
    }

    /// Whether what these fibers have sent was not all received.
    pub fn has_unread(&self, mut fibers: impl Iterator<Item = usize>) -> bool {
        fibers.any(|fiber| {
            let unread = |mark: &u8| mark & (SENT | ACCEPTED) != 0 && mark & RECEIVED == 0;
            self.bytes[fiber].iter().any(unread)
        })
    }

    /// What was received of each fiber is a prefix of what it has sent.
    pub fn gap(&self) -> Option<String> {
        for (fiber, bytes) in self.bytes.iter().enumerate() {
            let has = |mark: &u8| mark & (RECEIVED | DOUBTFUL) != 0;
            let first = bytes.iter().position(|mark| !has(mark));
            let last = bytes.iter().rposition(|mark| mark & RECEIVED != 0);
            if let (Some(first), Some(last)) = (first, last)
                && first < last
            {
                return Some(format!(
                    "of fiber {fiber} byte {last} was received, and byte {first} was not"
                ));
            }
        }
        None
    }
}
