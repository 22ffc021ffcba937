//! A queue that is mostly short: its first entries lie where it lies itself, so that a look at them costs no other line of memory.

use std::collections::VecDeque;

/// What a queue may have as entries.
pub(super) trait Entry: Copy + Default {
    /// Where those lie for which there is no room in place, with those of other queues of the same owner.
    type Behind: Default;
    /// Those of this queue.
    fn behind(all: &mut Self::Behind) -> &mut VecDeque<Self>;
}

/// What lies behind the queues of one owner, among all owners': told with each call that may need it.
pub(super) struct Rest<'a, B> {
    /// Its place; [`NOWHERE`] as long as there was never anything.
    pub place: &'a mut u32,
    pub all: &'a mut Vec<B>,
}

/// There was never anything.
pub(super) const NOWHERE: u32 = u32::MAX;

impl<B: Default> Rest<'_, B> {
    #[cold]
    fn of<T: Entry<Behind = B>>(&mut self) -> &mut VecDeque<T> {
        if *self.place == NOWHERE {
            *self.place = self.all.len() as u32;
            self.all.push(B::default());
        }
        T::behind(&mut self.all[*self.place as usize])
    }
}

/// Entries in order, the first `N` of them in place; `N` is less than 255.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<T, const N: usize> {
    first: [T; N],
    /// How many there are; if more than `N`, one more than that.
    count: u8,
}

impl<T: Entry, const N: usize> Default for Short<T, N> {
    fn default() -> Self {
        Short {
            first: [T::default(); N],
            count: 0,
        }
    }
}

impl<T: Entry, const N: usize> Short<T, N> {
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
    pub const fn is_full(&self) -> bool {
        self.count as usize >= N
    }

    /// Takes the first away.
    #[inline]
    pub fn pop_front(&mut self, rest: Rest<'_, T::Behind>) {
        for place in 1..N {
            self.first[place - 1] = self.first[place];
        }
        if usize::from(self.count) > N {
            self.draw_up(rest);
        } else {
            self.count = self.count.saturating_sub(1);
        }
    }

    #[cold]
    fn draw_up(&mut self, mut rest: Rest<'_, T::Behind>) {
        let behind = rest.of::<T>();
        match behind.pop_front() {
            Some(next) => {
                self.first[N - 1] = next;
                self.count = (N + usize::from(!behind.is_empty())) as u8;
            }
            None => self.count = N as u8 - 1,
        }
    }

    /// Adds one at the end.
    #[inline]
    pub fn push_back(&mut self, entry: T, mut rest: Rest<'_, T::Behind>) {
        match self.first.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = entry;
                self.count += 1;
            }
            None => {
                rest.of::<T>().push_back(entry);
                self.count = N as u8 + 1;
            }
        }
    }

    /// Adds one in order: behind all whose key is not greater.
    #[inline]
    pub fn insert_by<K: Ord>(
        &mut self,
        entry: T,
        key: impl Fn(&T) -> K,
        rest: Rest<'_, T::Behind>,
    ) {
        let in_order = match self.count {
            0 => true,
            count if usize::from(count) > N => false,
            count => key(&self.first[usize::from(count) - 1]) <= key(&entry),
        };
        match in_order {
            true => self.push_back(entry, rest),
            false => self.insert_far(entry, key, rest),
        }
    }

    #[cold]
    fn insert_far<K: Ord>(
        &mut self,
        mut entry: T,
        key: impl Fn(&T) -> K,
        mut rest: Rest<'_, T::Behind>,
    ) {
        let wanted = key(&entry);
        // those that come later move up, and the last of a full row goes to the head of what is behind
        let mut moved = false;
        for other in &mut self.first[..N.min(self.count.into())] {
            if moved || key(other) > wanted {
                moved = true;
                std::mem::swap(other, &mut entry);
            }
        }
        if !self.is_full() {
            self.push_back(entry, rest);
        } else if moved {
            rest.of::<T>().push_front(entry);
            self.count = N as u8 + 1;
        } else {
            let behind = rest.of::<T>();
            let place = behind.partition_point(|other| key(other) <= wanted);
            behind.insert(place, entry);
            self.count = N as u8 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    impl Entry for (u32, u32) {
        type Behind = VecDeque<Self>;

        fn behind(all: &mut Self::Behind) -> &mut VecDeque<Self> {
            all
        }
    }

    #[test]
    fn it_is_a_queue_however_long_it_gets() {
        let mut random = Random::new(3, 0);
        let mut short = Short::<(u32, u32), 3>::default();
        let (mut plain, mut behind) = (VecDeque::new(), Vec::new());
        let mut place = NOWHERE;
        macro_rules! rest {
            () => {
                Rest {
                    place: &mut place,
                    all: &mut behind,
                }
            };
        }
        let mut longest = 0;
        for step in 0..100_000u32 {
            // towards long ones for a while, then towards short ones
            let grows = random.below(10) < if step / 500 % 2 == 0 { 6 } else { 4 };
            if !grows {
                short.pop_front(rest!());
                plain.pop_front();
            } else if random.below(2) == 0 {
                let last = plain.back().map_or(0, |&(key, _)| key);
                short.push_back((last, step), rest!());
                plain.push_back((last, step));
            } else {
                let key = random.below(20);
                let at = plain.partition_point(|&(other, _)| other <= key);
                plain.insert(at, (key, step));
                short.insert_by((key, step), |entry| entry.0, rest!());
            }
            assert_eq!(short.front(), plain.front());
            longest = longest.max(plain.len());
        }
        assert!(longest > 20, "{longest}");
        while plain.pop_front().is_some() {
            short.pop_front(rest!());
            assert_eq!(short.front(), plain.front());
        }
    }
}
