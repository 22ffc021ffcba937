//! The frames in a switch, in their queues: circles of cells, so that a queue is one number, and a switch of many ports has room for one of each input and output.

use crate::frame::Frame;
use ferriband_prefetch::{Stretch, element};

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
    tails: Tails,
    /// Each with the next of its circle, or of those that are free.
    cells: Vec<(Cell, u32)>,
    free: u32,
}

impl Queues {
    /// All empty.
    pub fn new() -> Queues {
        Queues {
            tails: Tails::new(),
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
        let tail = self.tails.replace(queue as u32, index);
        let first = match self.cells.get_mut(tail as usize) {
            Some(last) => std::mem::replace(&mut last.1, index),
            None => index,
        };
        self.cells[index as usize].1 = first;
        tail == NONE
    }

    /// All of it.
    pub fn stretches(&self) -> [Stretch; 2] {
        [Stretch::of(&self.cells), Stretch::of(&self.tails.places)]
    }

    /// Soon a queue is looked at.
    #[inline]
    pub fn expect(&self, queue: usize) {
        self.tails.expect(queue as u32);
    }

    /// Soon a frame is appended to one.
    #[inline]
    pub fn expect_append(&self) {
        element(&self.cells, self.free as usize);
    }

    /// Soon its first is taken.
    #[inline]
    pub fn expect_head(&self, queue: usize) {
        element(&self.cells, self.tails.get(queue as u32) as usize);
    }

    /// The first of a queue.
    #[inline]
    pub fn head(&self, queue: usize) -> Option<&Cell> {
        let tail = self.tails.get(queue as u32);
        let (_, first) = self.cells.get(tail as usize)?;
        self.cells.get(*first as usize).map(|(cell, _)| cell)
    }

    /// Takes the first of a queue away. True if there are more.
    #[inline]
    pub fn remove(&mut self, queue: usize) -> bool {
        let tail = self.tails.get(queue as u32);
        let first = self.cells[tail as usize].1;
        let next = std::mem::replace(&mut self.cells[first as usize].1, self.free);
        self.free = first;
        if first == tail {
            self.tails.remove(queue as u32);
            return false;
        }
        self.cells[tail as usize].1 = next;
        true
    }
}

/// The last cell of each queue that has one, which knows the first. A switch of 254 ports has 64,516 virtual output queues a lane, and few of them have frames: a table of those that have (open
/// addresses, each entry as near behind its own place as there was room, none left behind that others hid) lies in a few lines of memory where one of all would take 64 pages.
#[derive(Clone, Debug)]
struct Tails {
    /// Queue and cell, [`NONE`] where there is no queue; at most half of them are taken.
    places: Vec<(u32, u32)>,
    taken: usize,
    /// What is left of a hash.
    shift: u32,
}

impl Tails {
    const FEWEST: usize = 16;

    fn new() -> Tails {
        Tails {
            places: vec![(NONE, NONE); Self::FEWEST],
            taken: 0,
            shift: u32::BITS - Self::FEWEST.ilog2(),
        }
    }

    /// Where a queue had best be.
    #[inline]
    fn own(&self, queue: u32) -> usize {
        // by the golden ratio (Knuth, The Art of Computer Programming 6.4)
        (queue.wrapping_mul(0x9e37_79b9) >> self.shift) as usize
    }

    /// The place of a queue, or the free one where it would be.
    #[inline]
    fn find(&self, queue: u32) -> usize {
        let last = self.places.len() - 1;
        let mut at = self.own(queue);
        // half of them are free, so this ends
        while self.places[at].0 != queue && self.places[at].0 != NONE {
            at = (at + 1) & last;
        }
        at
    }

    #[inline]
    fn get(&self, queue: u32) -> u32 {
        self.places[self.find(queue)].1
    }

    /// Sets a queue's; what it was.
    #[inline]
    fn replace(&mut self, queue: u32, tail: u32) -> u32 {
        let at = self.find(queue);
        let before = std::mem::replace(&mut self.places[at], (queue, tail));
        if before.0 == NONE {
            self.taken += 1;
            if self.taken * 2 > self.places.len() {
                self.grow();
            }
        }
        before.1
    }

    #[cold]
    fn grow(&mut self) {
        let more = vec![(NONE, NONE); self.places.len() * 2];
        let before = std::mem::replace(&mut self.places, more);
        self.shift -= 1;
        for entry in before.into_iter().filter(|entry| entry.0 != NONE) {
            let at = self.find(entry.0);
            self.places[at] = entry;
        }
    }

    /// Takes a queue away that is there; those behind it move up as far as they may.
    #[inline]
    fn remove(&mut self, queue: u32) {
        let last = self.places.len() - 1;
        let mut hole = self.find(queue);
        let mut at = hole;
        loop {
            at = (at + 1) & last;
            let entry = self.places[at];
            if entry.0 == NONE {
                break;
            }
            // it may not stand before its own place
            let far = at.wrapping_sub(self.own(entry.0)) & last;
            if far >= at.wrapping_sub(hole) & last {
                self.places[hole] = entry;
                hole = at;
            }
        }
        self.places[hole] = (NONE, NONE);
        self.taken -= 1;
    }

    #[inline]
    fn expect(&self, queue: u32) {
        element(&self.places, self.own(queue));
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
        let (mut random, mut queues) = (Random::new(2, 2), Queues::new());
        let mut plain = vec![VecDeque::new(); 700];
        for handle in 0..50_000 {
            // a few for a while, then many, of numbers that are far from each other
            let few = handle / 5_000 % 2 == 0;
            let queue = random.below(if few { 5 } else { 700 }) as usize;
            let number = queue * 92 + queue % 3;
            if random.below(20) < if few { 9 } else { 11 } {
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
                assert_eq!(queues.append(number, cell), plain[queue].is_empty());
                plain[queue].push_back(handle);
            } else if plain[queue].pop_front().is_some() {
                assert_eq!(queues.remove(number), !plain[queue].is_empty());
            }
            let head = queues.head(number).map(|cell| cell.frame.handle);
            assert_eq!(head, plain[queue].front().copied());
        }
        let live: usize = plain.iter().map(VecDeque::len).sum();
        assert!(
            queues.cells.len() < 50_000 / 4,
            "cells are used again: {live}"
        );
    }
}
