//! Places for what lives for about as long as all the others: taken one after the other, around, past those that are still in use. So what was put down in turn lies side by
//! side, and when it is taken up in about the same turn, memory is read in order, which the processor fetches ahead by itself. (A list of the places that were freed last would
//! be warm when written, and scattered when read.)

/// Values by place.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Vec<T>,
    /// A bit for each slot that is in use; there are 64 slots to a word.
    used: Vec<u64>,
    live: usize,
    /// Where the next free place is looked for.
    word: usize,
}

impl<T: Copy + Default> Ring<T> {
    /// None yet.
    pub const fn new() -> Ring<T> {
        Ring {
            slots: Vec::new(),
            used: Vec::new(),
            live: 0,
            word: 0,
        }
    }

    /// Puts a value down; its place. There may be 2^32 of them, less one.
    #[inline]
    pub fn put(&mut self, what: T) -> u32 {
        if self.live * 2 >= self.slots.len() {
            self.grow();
        }
        self.live += 1;
        loop {
            // half of them are free, so this ends
            let used = self.used[self.word];
            let bit = used.trailing_ones();
            if bit < 64 {
                self.used[self.word] = used | 1 << bit;
                let place = self.word * 64 + bit as usize;
                self.slots[place] = what;
                return place as u32;
            }
            self.word += 1;
            if self.word == self.used.len() {
                self.word = 0;
            }
        }
    }

    /// Half as many places more, and the next ones are there.
    #[cold]
    fn grow(&mut self) {
        self.word = self.used.len();
        let words = self.word + self.word / 2 + 1;
        self.used.resize(words, 0);
        self.slots.resize(words * 64, T::default());
    }

    /// Gives a place back; what was there stays to be read until it is put to use again.
    #[inline]
    pub fn free(&mut self, place: u32) {
        let (word, bit) = (place as usize / 64, place % 64);
        debug_assert!(self.used[word] >> bit & 1 == 1, "a place is freed once");
        self.used[word] &= !(1 << bit);
        self.live -= 1;
    }

    /// All places, those that are free too.
    #[inline]
    pub fn slots(&self) -> &[T] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn each_value_has_a_place_of_its_own_and_there_are_few_of_them() {
        let (mut ring, mut plain) = (Ring::new(), BTreeMap::new());
        let (mut random, mut most) = (Random::new(1, 9), 0);
        for value in 0..200_000u64 {
            // more and fewer, in waves
            let grows = random.below(10) < if value / 10_000 % 2 == 0 { 6 } else { 4 };
            if grows {
                assert_eq!(plain.insert(ring.put(value), value), None);
                most = most.max(plain.len());
            } else {
                let some = random.below(ring.slots().len() as u32 + 1);
                let next = plain.range(some..).next().map(|(place, _)| *place);
                if let Some(place) = next {
                    assert_eq!(plain.remove(&place), Some(ring.slots()[place as usize]));
                    ring.free(place);
                }
            }
        }
        for (place, value) in &plain {
            assert_eq!(ring.slots()[*place as usize], *value);
        }
        assert!(most > 500 && ring.slots().len() <= 4 * most + 64, "{most}");
    }

    #[test]
    fn what_is_taken_up_in_turn_was_put_down_in_turn() {
        let mut ring = Ring::new();
        let mut under_way = std::collections::VecDeque::new();
        let (mut steps, mut backwards, mut last) = (0, 0, 0u32);
        for value in 0..20_000u64 {
            under_way.push_back(ring.put(value));
            if under_way.len() > 300
                && let Some(place) = under_way.pop_front()
            {
                steps += 1;
                backwards += u32::from(place != last + 1);
                last = place;
                ring.free(place);
            }
        }
        assert!(backwards * 100 < steps, "{backwards} jumps in {steps}");
    }
}
