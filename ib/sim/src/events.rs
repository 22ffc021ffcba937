//! The event queue: virtual time, and a fixed order among events of one instant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time; those of one instant in the order in which they were pushed.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: u64,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event at `at` nanoseconds.
    pub fn push(&mut self, at: u64, event: E) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry {
            at,
            sequence: self.sequence,
            event,
        }));
    }

    /// Takes the next event and its time.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_then_order_of_pushing() {
        let mut queue = EventQueue::default();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.push(at, event);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect();
        assert_eq!(order, "abcd");
    }
}
