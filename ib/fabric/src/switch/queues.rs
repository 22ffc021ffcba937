//! The frames in a switch, in their queues: circles of cells, so that a queue is one number, and a switch of many ports has room for one of each input and output.

use crate::frame::Frame;
use ferriband_prefetch::element;

const NONE: u32 = u32::MAX;

/// A frame in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub frame: Frame,
    /// Copies in [`super::Switch::copies`], or [`super::NONE`] for a frame that goes to one port.
    pub copies: u32,
    pub out: u8,
    /// The VL behind the output.
    pub out_lane: u8,
}

/// Queues by number, and the cells that they are made of.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Each one's last cell, which knows the first; those beyond the end are empty.
    tails: Vec<u32>,
    /// Each with the next of its circle, or of those that are free.
    cells: Vec<(Cell, u32)>,
    free: u32,
}

impl Queues {
    /// So many queues to begin with; others come with their first frame.
    pub fn new(queues: usize) -> Queues {
        Queues {
            tails: vec![NONE; queues],
            cells: Vec::new(),
            free: NONE,
        }
    }

    /// True if the frame came to an empty queue.
    #[inline]
    pub fn append(&mut self, queue: usize, cell: Cell) -> bool {
        let index = match self.cells.get_mut(self.free as usize) {
            Some(slot) => {
                let index = std::mem::replace(&mut self.free, slot.1);
                slot.0 = cell;
                index
            }
            None => {
                self.cells.push((cell, NONE));
                self.cells.len() as u32 - 1
            }
        };
        if queue >= self.tails.len() {
            self.tails.resize(queue + 1, NONE);
        }
        let tail = std::mem::replace(&mut self.tails[queue], index);
        let first = match self.cells.get_mut(tail as usize) {
            Some(last) => std::mem::replace(&mut last.1, index),
            None => index,
        };
        self.cells[index as usize].1 = first;
        tail == NONE
    }

    /// Soon a queue is looked at.
    #[inline]
    pub fn expect(&self, queue: usize) {
        element(&self.tails, queue);
    }

    /// Soon a frame is appended to one.
    #[inline]
    pub fn expect_append(&self) {
        element(&self.cells, self.free as usize);
    }

    /// Soon its first is taken.
    #[inline]
    pub fn expect_head(&self, queue: usize) {
        let tail = self.tails.get(queue).copied();
        element(&self.cells, tail.unwrap_or(NONE) as usize);
    }

    /// The first of a queue.
    #[inline]
    pub fn head(&self, queue: usize) -> Option<&Cell> {
        let tail = *self.tails.get(queue)?;
        let (_, first) = self.cells.get(tail as usize)?;
        self.cells.get(*first as usize).map(|(cell, _)| cell)
    }

    /// Takes the first of a queue away. True if there are more.
    #[inline]
    pub fn remove(&mut self, queue: usize) -> bool {
        let tail = self.tails[queue];
        let first = self.cells[tail as usize].1;
        let next = std::mem::replace(&mut self.cells[first as usize].1, self.free);
        self.free = first;
        if first == tail {
            self.tails[queue] = NONE;
            return false;
        }
        self.cells[tail as usize].1 = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameKind;
    use crate::random::Random;
    use std::collections::VecDeque;

    #[test]
    fn frames_leave_a_queue_in_the_order_they_came() {
        let (mut random, mut queues) = (Random::new(2, 2), Queues::new(3));
        let mut plain = vec![VecDeque::new(); 5];
        for handle in 0..50_000 {
            let queue = random.below(5) as usize;
            if random.below(2) == 0 {
                let frame = Frame {
                    handle,
                    dlid: 1,
                    slid: 1,
                    length_bytes: 64,
                    sl: 0,
                    vl: 0,
                    kind: FrameKind::Data,
                    fecn: false,
                    becn: false,
                };
                let cell = Cell {
                    frame,
                    copies: NONE,
                    out: 1,
                    out_lane: 0,
                };
                assert_eq!(queues.append(queue, cell), plain[queue].is_empty());
                plain[queue].push_back(handle);
            } else if plain[queue].pop_front().is_some() {
                assert_eq!(queues.remove(queue), !plain[queue].is_empty());
            }
            let head = queues.head(queue).map(|cell| cell.frame.handle);
            assert_eq!(head, plain[queue].front().copied());
        }
        let live: usize = plain.iter().map(VecDeque::len).sum();
        assert!(
            queues.cells.len() < 50_000 / 4,
            "cells are used again: {live}"
        );
    }
}
