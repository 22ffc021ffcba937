//! Requests of this side that will be answered.
//!
//! Owns: their table, and their numbers on the wire. Must not know: what they ask.

use crate::message::Kind;

/// A request that waits for its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    /// Whose it is.
    pub token: u64,
    pub kind: Kind,
    pub long: bool,
    /// Bytes asked for.
    pub length: u64,
    /// Its response comes solicited.
    pub solicited: bool,
}

/// The table. Its rooms are used in turn, so that a number comes again as late as it can.
#[derive(Debug)]
pub(crate) struct Requests {
    rooms: Vec<Option<Pending>>,
    free: std::collections::VecDeque<u16>,
    unsolicited: usize,
}

impl Requests {
    pub fn new(most: u16) -> Requests {
        Requests {
            rooms: vec![None; most.into()],
            free: (0..most).collect(),
            unsolicited: 0,
        }
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes a request up, unless the table is full; its number.
    pub fn add(&mut self, pending: Pending) -> Option<u32> {
        let room = self.free.pop_front()?;
        self.unsolicited += usize::from(!pending.solicited);
        self.rooms[usize::from(room)] = Some(pending);
        Some(room.into())
    }

    pub fn get(&self, number: u32) -> Option<&Pending> {
        self.rooms.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Its response has come.
    pub fn remove(&mut self, number: u32) -> Option<Pending> {
        let pending = self.rooms.get_mut(usize::try_from(number).ok()?)?.take()?;
        self.unsolicited -= usize::from(!pending.solicited);
        self.free.push_back(number as u16);
        Some(pending)
    }

    /// The next one, when none will be answered.
    pub fn pop(&mut self) -> Option<Pending> {
        let number = self.rooms.iter().position(Option::is_some)?;
        self.remove(number as u32)
    }

    /// Whether responses may come that nobody is told of.
    pub fn has_unsolicited(&self) -> bool {
        self.unsolicited > 0
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == self.rooms.len()
    }
}
