//! What happens at a time, in a word: its kind above, the place of the packet that it is about, and the port below.

use crate::frame::Frame;
use crate::time::Time;

/// Kinds of events: above a packet's place (28 bits) and a port (32 bits).
pub(crate) const KIND_SHIFT: u32 = 60;
pub(crate) const ARRIVE: u64 = 0;
pub(crate) const WAKE: u64 = 1;
#[cfg(test)]
pub(crate) const FREE: u64 = 2;
#[cfg(test)]
pub(crate) const TELL: u64 = 3;
#[cfg(test)]
pub(crate) const HEAR: u64 = 4;
#[cfg(test)]
pub(crate) const REFRESH: u64 = 5;
pub(crate) const SETTLE: u64 = 6;
pub(crate) const SLOW_LANE: u64 = 7;
/// A packet that came is looked at once more.
pub(crate) const LATER: u64 = 8;

const PLACE_SHIFT: u32 = 32;
const PLACES: u64 = (1 << 28) - 1;

/// A packet on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    pub frame: Frame,
    /// When the decision about it is due.
    pub header_at: Time,
}

/// An event of a kind at a port.
#[inline]
pub(crate) const fn event(kind: u64, port: usize) -> u64 {
    kind << KIND_SHIFT | port as u64
}

/// The port of an event.
#[inline]
pub(crate) const fn port_of(what: u64) -> usize {
    what as u32 as usize
}

/// The place of the packet that an event is about; none if it is about no packet.
#[inline]
pub(crate) const fn place_of(what: u64) -> Option<u32> {
    match what >> KIND_SHIFT {
        ARRIVE | LATER => Some((what >> PLACE_SHIFT & PLACES) as u32),
        _ => None,
    }
}

/// The same event, its packet being at a place.
#[inline]
pub(crate) const fn at_place(what: u64, place: u32) -> u64 {
    what & !(PLACES << PLACE_SHIFT) | (place as u64 & PLACES) << PLACE_SHIFT
}
