//! A queue that is mostly short: its first entries lie where it lies itself, so that a look at them costs no other line of memory.

use std::collections::VecDeque;

/// Entries in order, the first `N` of them in place.
#[derive(Clone, Debug)]
pub(super) struct Short<T, const N: usize> {
    first: [T; N],
    /// How many there are, in place or not.
    count: u32,
    /// Once there were more than `N`.
    behind: Option<Box<Behind<T>>>,
}

#[derive(Clone, Debug)]
struct Behind<T>(VecDeque<T>);

impl<T: Copy + Default, const N: usize> Default for Short<T, N> {
    fn default() -> Self {
        Short {
            first: [T::default(); N],
            count: 0,
            behind: None,
        }
    }
}

impl<T: Copy, const N: usize> Short<T, N> {
    /// The first.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        match self.count {
            0 => None,
            _ => self.first.first(),
        }
    }

    /// Those that lie in place: valid as far as there are so many.
    #[inline]
    pub const fn in_place(&self) -> &[T; N] {
        &self.first
    }

    /// The next lies elsewhere.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count as usize >= N
    }

    /// Takes the first away.
    #[inline]
    pub fn pop_front(&mut self) {
        for place in 1..N {
            self.first[place - 1] = self.first[place];
        }
        if self.count as usize > N {
            self.draw_up();
        }
        self.count = self.count.saturating_sub(1);
    }

    #[cold]
    fn draw_up(&mut self) {
        if let Some(next) = self.behind().pop_front() {
            self.first[N - 1] = next;
        }
    }

    fn behind(&mut self) -> &mut VecDeque<T> {
        let behind = self
            .behind
            .get_or_insert_with(|| Box::new(Behind(VecDeque::new())));
        &mut behind.0
    }

    /// Adds one at the end.
    #[inline]
    pub fn push_back(&mut self, entry: T) {
        match self.first.get_mut(self.count as usize) {
            Some(place) => *place = entry,
            None => self.behind().push_back(entry),
        }
        self.count += 1;
    }

    /// Adds one in order: behind all whose key is not greater.
    #[inline]
    pub fn insert_by<K: Ord>(&mut self, entry: T, key: impl Fn(&T) -> K) {
        let last = (self.count as usize).checked_sub(1);
        let in_order = match last {
            None => true,
            Some(last) => self
                .first
                .get(last)
                .is_some_and(|last| key(last) <= key(&entry)),
        };
        match in_order {
            true => self.push_back(entry),
            false => self.insert_far(entry, key),
        }
    }

    #[cold]
    fn insert_far<K: Ord>(&mut self, mut entry: T, key: impl Fn(&T) -> K) {
        let wanted = key(&entry);
        let near = (self.count as usize).min(N);
        let place = self.first[..near].partition_point(|other| key(other) <= wanted);
        self.count += 1;
        if place < near {
            // those from here on move up, and the last of a full row goes to the head of what is behind
            for other in &mut self.first[place..near] {
                std::mem::swap(other, &mut entry);
            }
            match self.first.get_mut(near) {
                Some(free) => *free = entry,
                None => self.behind().push_front(entry),
            }
            return;
        }
        let behind = self.behind();
        let place = behind.partition_point(|other| key(other) <= wanted);
        behind.insert(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn it_is_a_queue_however_long_it_gets() {
        let mut random = Random::new(3, 0);
        let mut short = Short::<(u32, u32), 3>::default();
        let mut plain = VecDeque::new();
        let mut longest = 0;
        for step in 0..100_000u32 {
            // towards long ones for a while, then towards short ones
            let grows = random.below(10) < if step / 500 % 2 == 0 { 6 } else { 4 };
            if !grows {
                short.pop_front();
                plain.pop_front();
            } else if random.below(2) == 0 {
                let last = plain.back().map_or(0, |&(key, _)| key);
                short.push_back((last, step));
                plain.push_back((last, step));
            } else {
                let key = random.below(20);
                let place = plain.partition_point(|&(other, _)| other <= key);
                plain.insert(place, (key, step));
                short.insert_by((key, step), |entry| entry.0);
            }
            assert_eq!(short.front(), plain.front());
            longest = longest.max(plain.len());
        }
        assert!(longest > 20, "{longest}");
        while plain.pop_front().is_some() {
            short.pop_front();
            assert_eq!(short.front(), plain.front());
        }
    }
}
