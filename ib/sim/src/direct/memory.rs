//! Shared memory as x86 shows it: segments of bytes, and one first-in first-out store buffer for each process.
//!
//! A process sees its own buffered stores; others see a store when it leaves the buffer. What leaves a buffer is shown to
//! the watchers, who know which stores are allowed. Must not know who runs when: the scheduler drains.

use std::collections::VecDeque;

const PAGE: usize = 4096;
/// Stores that a buffer holds before the oldest must leave.
const BUFFER: usize = 24;

/// Names a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(super) struct SegId(pub u16);

#[derive(Default)]
struct Segment {
    pages: Vec<Option<Box<[u8; PAGE]>>>,
    len: usize,
}

/// One store on its way.
pub(super) struct Store {
    pub seg: SegId,
    pub off: usize,
    small: [u8; 8],
    large: Vec<u8>,
    len: usize,
}

impl Store {
    fn new(seg: SegId, off: usize, bytes: &[u8]) -> Self {
        let mut store = Store {
            seg,
            off,
            small: [0; 8],
            large: Vec::new(),
            len: bytes.len(),
        };
        match store.small.get_mut(..bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => store.large = bytes.to_vec(),
        }
        store
    }

    pub fn bytes(&self) -> &[u8] {
        if self.large.is_empty() {
            &self.small[..self.len]
        } else {
            &self.large
        }
    }

    /// The word that it stores, if it stores one.
    pub fn word(&self) -> Option<u64> {
        (self.len == 8).then(|| u64::from_le_bytes(self.small))
    }
}

/// All segments, and what is still on its way to them.
#[derive(Default)]
pub(super) struct Memory {
    segments: Vec<Segment>,
    buffers: Vec<VecDeque<Store>>,
}

impl Memory {
    pub fn new(processes: usize) -> Self {
        Memory {
            segments: Vec::new(),
            buffers: (0..processes).map(|_| VecDeque::new()).collect(),
        }
    }

    /// A fresh segment of zeros.
    pub fn segment(&mut self, len: usize) -> SegId {
        let mut pages = Vec::new();
        pages.resize_with(len.div_ceil(PAGE), || None);
        self.segments.push(Segment { pages, len });
        SegId((self.segments.len() - 1) as u16)
    }

    /// What memory holds, whatever is on its way.
    pub fn read(&self, seg: SegId, off: usize, into: &mut [u8]) {
        let segment = &self.segments[seg.0 as usize];
        assert!(
            off + into.len() <= segment.len,
            "a load of {} at {off} leaves segment {seg:?}",
            into.len()
        );
        let mut done = 0;
        while done < into.len() {
            let (page, at) = ((off + done) / PAGE, (off + done) % PAGE);
            let count = (PAGE - at).min(into.len() - done);
            match &segment.pages[page] {
                Some(bytes) => into[done..done + count].copy_from_slice(&bytes[at..at + count]),
                None => into[done..done + count].fill(0),
            }
            done += count;
        }
    }

    /// Changes memory at once.
    pub fn write(&mut self, seg: SegId, off: usize, bytes: &[u8]) {
        let segment = &mut self.segments[seg.0 as usize];
        assert!(
            off + bytes.len() <= segment.len,
            "a store of {} at {off} leaves segment {seg:?}",
            bytes.len()
        );
        let mut done = 0;
        while done < bytes.len() {
            let (page, at) = ((off + done) / PAGE, (off + done) % PAGE);
            let count = (PAGE - at).min(bytes.len() - done);
            let room = segment.pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
            room[at..at + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    /// What process `by` sees: memory under its own buffered stores.
    pub fn view(&self, by: usize, seg: SegId, off: usize, into: &mut [u8]) {
        self.read(seg, off, into);
        for store in &self.buffers[by] {
            if store.seg != seg {
                continue;
            }
            let (start, end) = (
                store.off.max(off),
                (store.off + store.len).min(off + into.len()),
            );
            if start < end {
                into[start - off..end - off]
                    .copy_from_slice(&store.bytes()[start - store.off..end - store.off]);
            }
        }
    }

    /// Buffers a store.
    pub fn store(&mut self, by: usize, seg: SegId, off: usize, bytes: &[u8]) {
        self.buffers[by].push_back(Store::new(seg, off, bytes));
    }

    /// True when the oldest store has to leave.
    pub fn is_full(&self, by: usize) -> bool {
        self.buffers[by].len() > BUFFER
    }

    /// Takes the oldest store out of a buffer; the caller shows it to the watchers and writes it.
    pub fn oldest(&mut self, by: usize) -> Option<Store> {
        self.buffers[by].pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_its_own_buffered_store_and_others_do_not() {
        let mut memory = Memory::new(2);
        let seg = memory.segment(2 * PAGE);
        memory.store(0, seg, PAGE - 4, &[1, 2, 3, 4, 5, 6, 7, 8]);
        memory.store(0, seg, PAGE, &[9]);
        let mut seen = [0; 8];
        memory.view(0, seg, PAGE - 4, &mut seen);
        assert_eq!(seen, [1, 2, 3, 4, 9, 6, 7, 8]);
        memory.view(1, seg, PAGE - 4, &mut seen);
        assert_eq!(seen, [0; 8]);
        let oldest = memory.oldest(0).expect("two stores wait");
        memory.write(oldest.seg, oldest.off, oldest.bytes());
        memory.view(1, seg, PAGE - 4, &mut seen);
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
        memory.view(0, seg, PAGE - 4, &mut seen);
        assert_eq!(seen, [1, 2, 3, 4, 9, 6, 7, 8]);
    }
}
