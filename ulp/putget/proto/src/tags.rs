//! Memory that is found by tags, with one-shot notifications: the paper's.
//!
//! Owns: which tag is which buffer, what is under way on it, and which notification the next
//! operation fires (papers/002, "Revised Test Driver"). Must not know: the bytes, connections.
//!
//! A notification is bound to a buffer for incoming or for outgoing operations, never for both. The
//! next operation of that direction that ends on the buffer, begun by either side, fires and
//! unbinds it. Incoming are a peer's put and an own get; outgoing are a peer's get and an own put.

use crate::message::Kind;
use crate::status::Status;
use std::collections::{BTreeMap, VecDeque};

/// Most buffers of a process.
pub const MOST_BUFFERS: usize = 1 << 16;

/// Which operations a notification is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// New data have arrived in the buffer, to be used.
    Incoming,
    /// Data have left the buffer, which may be used for others.
    Outgoing,
}

impl Direction {
    /// Of a request of this side's, on its own buffer.
    pub const fn of_own(kind: Kind) -> Direction {
        match kind {
            Kind::Put => Direction::Outgoing,
            _ => Direction::Incoming,
        }
    }

    /// Of a request of the peer's.
    pub const fn of_peer(kind: Kind) -> Direction {
        match kind {
            Kind::Put => Direction::Incoming,
            _ => Direction::Outgoing,
        }
    }
}

/// A notification or an acknowledgement, by the number that its user gave it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Note(pub u64);

/// A notification or an acknowledgement has fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Which.
    pub note: Note,
    /// What became of the operation.
    pub status: Status,
    /// Bytes that it moved.
    pub length: u64,
}

/// Where a buffer lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Why something cannot be done with a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TagError {
    /// No buffer has it.
    #[error("no buffer has tag {0}")]
    Unknown(u32),
    /// A buffer has it already.
    #[error("tag {0} belongs to another buffer")]
    Taken(u32),
    /// There are [`MOST_BUFFERS`].
    #[error("{MOST_BUFFERS} buffers are registered, which is the most")]
    Full,
    /// An operation is under way on the buffer.
    #[error("an operation is under way on the buffer with tag {0}")]
    Busy(u32),
    /// A notification is bound to it.
    #[error("a notification is bound to the buffer with tag {0}")]
    Bound(u32),
    /// More bytes than the buffer has.
    #[error("{asked} bytes of a buffer of {length}")]
    TooLong {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of the buffer.
        length: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    range: Range,
    bound: Option<(Direction, Note)>,
    /// Operations that are under way on it.
    held: u32,
}

/// The buffers of a process.
#[derive(Debug, Default)]
pub struct Tags {
    buffers: BTreeMap<u32, Buffer>,
    next: u32,
    told: VecDeque<Told>,
}

impl Tags {
    /// Gives a buffer a tag: the one that is wished for, or one that no buffer has.
    ///
    /// # Errors
    /// [`TagError::Taken`], [`TagError::Full`].
    pub fn register(&mut self, range: Range, wish: Option<u32>) -> Result<u32, TagError> {
        if self.buffers.len() >= MOST_BUFFERS {
            return Err(TagError::Full);
        }
        let tag = match wish {
            Some(tag) if self.buffers.contains_key(&tag) => return Err(TagError::Taken(tag)),
            Some(tag) => tag,
            None => {
                // there is a free one: fewer are taken than there are
                while self.buffers.contains_key(&self.next) {
                    self.next = self.next.wrapping_add(1);
                }
                let tag = self.next;
                self.next = tag.wrapping_add(1);
                tag
            }
        };
        let (bound, held) = (None, 0);
        self.buffers.insert(tag, Buffer { range, bound, held });
        Ok(tag)
    }

    /// Takes a buffer's tag away. A notification that is bound to it never fires.
    ///
    /// # Errors
    /// [`TagError::Unknown`], [`TagError::Busy`].
    pub fn unregister(&mut self, tag: u32) -> Result<Range, TagError> {
        let buffer = self.buffer(tag)?;
        if buffer.held > 0 {
            return Err(TagError::Busy(tag));
        }
        let range = buffer.range;
        self.buffers.remove(&tag);
        Ok(range)
    }

    /// Binds a notification to a buffer.
    ///
    /// # Errors
    /// [`TagError::Unknown`]; [`TagError::Bound`] if one is bound, for either direction.
    pub fn bind(&mut self, tag: u32, direction: Direction, note: Note) -> Result<(), TagError> {
        let buffer = self.buffer_mut(tag)?;
        if buffer.bound.is_some() {
            return Err(TagError::Bound(tag));
        }
        buffer.bound = Some((direction, note));
        Ok(())
    }

    /// Unbinds a notification that has not fired; which it was.
    ///
    /// # Errors
    /// [`TagError::Unknown`].
    pub fn unbind(&mut self, tag: u32) -> Result<Option<(Direction, Note)>, TagError> {
        Ok(self.buffer_mut(tag)?.bound.take())
    }

    /// Whether a notification of that direction is bound.
    pub fn is_bound(&self, tag: u32, direction: Direction) -> bool {
        let bound = self.buffers.get(&tag).and_then(|buffer| buffer.bound);
        bound.is_some_and(|(of, _)| of == direction)
    }

    /// Where a buffer lies.
    ///
    /// # Errors
    /// [`TagError::Unknown`].
    pub fn range(&self, tag: u32) -> Result<Range, TagError> {
        Ok(self.buffer(tag)?.range)
    }

    /// An operation begins on a buffer, which may not go away until it has ended.
    ///
    /// # Errors
    /// [`TagError::Unknown`], [`TagError::TooLong`].
    pub fn hold(&mut self, tag: u32, asked: u64) -> Result<Range, TagError> {
        let buffer = self.buffer_mut(tag)?;
        let Range { address, length } = buffer.range;
        if asked > length {
            return Err(TagError::TooLong { asked, length });
        }
        buffer.held += 1;
        let length = asked;
        Ok(Range { address, length })
    }

    /// The operation has ended. `end` is what became of it and how many bytes it moved; None where
    /// nobody may hear of it.
    pub fn release(&mut self, tag: u32, direction: Direction, end: Option<(Status, u64)>) {
        let Some(buffer) = self.buffers.get_mut(&tag) else {
            return;
        };
        buffer.held -= 1;
        if let Some((status, length)) = end
            && let Some((of, note)) = buffer.bound
            && of == direction
        {
            buffer.bound = None;
            self.tell(note, status, length);
        }
    }

    /// An acknowledgement has come.
    pub fn tell(&mut self, note: Note, status: Status, length: u64) {
        self.told.push_back(Told {
            note,
            status,
            length,
        });
    }

    /// The next notification or acknowledgement that has fired, in their order.
    pub fn next_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    fn buffer(&self, tag: u32) -> Result<&Buffer, TagError> {
        self.buffers.get(&tag).ok_or(TagError::Unknown(tag))
    }

    fn buffer_mut(&mut self, tag: u32) -> Result<&mut Buffer, TagError> {
        self.buffers.get_mut(&tag).ok_or(TagError::Unknown(tag))
    }
}

impl From<TagError> for Status {
    fn from(why: TagError) -> Status {
        match why {
            TagError::TooLong { .. } => Status::TooLong,
            TagError::Full => Status::NoRoom,
            TagError::Unknown(_) | TagError::Taken(_) | TagError::Busy(_) | TagError::Bound(_) => {
                Status::NoMemory
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range {
        address: 0x1000,
        length: 64,
    };

    #[test]
    fn a_notification_fires_once_and_for_its_direction_only() {
        let mut tags = Tags::default();
        let tag = tags.register(RANGE, None).unwrap();
        tags.bind(tag, Direction::Incoming, Note(7)).unwrap();
        assert_eq!(
            tags.bind(tag, Direction::Outgoing, Note(8)),
            Err(TagError::Bound(tag))
        );
        // an own put leaves it alone: it fires at the peer's
        tags.hold(tag, 64).unwrap();
        tags.release(tag, Direction::of_own(Kind::Put), Some((Status::Ok, 64)));
        assert_eq!(tags.next_told(), None);
        tags.hold(tag, 4).unwrap();
        tags.release(tag, Direction::of_peer(Kind::Put), Some((Status::Ok, 4)));
        let told = Told {
            note: Note(7),
            status: Status::Ok,
            length: 4,
        };
        assert_eq!(tags.next_told(), Some(told));
        tags.hold(tag, 4).unwrap();
        tags.release(tag, Direction::Incoming, Some((Status::Ok, 4)));
        assert_eq!(tags.next_told(), None);
        tags.bind(tag, Direction::Outgoing, Note(8)).unwrap();
        assert_eq!(tags.unbind(tag), Ok(Some((Direction::Outgoing, Note(8)))));
    }

    #[test]
    fn a_buffer_stays_while_it_is_held() {
        let mut tags = Tags::default();
        assert_eq!(tags.register(RANGE, Some(3)), Ok(3));
        assert_eq!(tags.register(RANGE, Some(3)), Err(TagError::Taken(3)));
        let too_long = TagError::TooLong {
            asked: 65,
            length: 64,
        };
        assert_eq!(tags.hold(3, 65), Err(too_long));
        tags.hold(3, 64).unwrap();
        assert_eq!(tags.unregister(3), Err(TagError::Busy(3)));
        tags.release(3, Direction::Incoming, None);
        assert_eq!(tags.unregister(3), Ok(RANGE));
        assert_eq!(tags.hold(3, 1), Err(TagError::Unknown(3)));
        assert_eq!(Status::from(TagError::Unknown(3)), Status::NoMemory);
    }

    #[test]
    fn tags_that_nobody_wished_for_differ() {
        let mut tags = Tags::default();
        tags.register(RANGE, Some(1)).unwrap();
        let two = [tags.register(RANGE, None), tags.register(RANGE, None)];
        assert_eq!(two, [Ok(0), Ok(2)]);
    }
}
