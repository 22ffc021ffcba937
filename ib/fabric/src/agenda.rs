//! What is to happen: in the order of time, or window by window.

use crate::queue::Queue;
use crate::time::Time;
use crate::windows::Windows;

/// Either order of events. What comes out of a run is the same.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a part has one, and looks at it with each event"
)]
pub(crate) enum Agenda {
    /// By time.
    Calendar(Queue),
    /// By window, group of nodes and time.
    Windows(Windows),
}

impl Agenda {
    /// An event more.
    #[inline]
    pub fn push(&mut self, time: Time, what: u64) {
        match self {
            Agenda::Calendar(queue) => queue.push(time, what),
            Agenda::Windows(windows) => windows.push(time, what),
        }
    }

    /// Nothing is to come.
    pub const fn is_empty(&self) -> bool {
        match self {
            Agenda::Calendar(queue) => queue.is_empty(),
            Agenda::Windows(windows) => windows.is_empty(),
        }
    }

    /// The event that comes after so many others, as far as is known.
    #[inline]
    pub fn coming(&self, after: usize) -> Option<u64> {
        match self {
            Agenda::Calendar(queue) => queue.coming(after),
            Agenda::Windows(windows) => windows.coming(after),
        }
    }
}
