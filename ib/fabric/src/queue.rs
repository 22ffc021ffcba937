//! The queue of events: a calendar (Brown, 1988) of buckets that one entry each falls into on average, and a heap for what lies beyond its year. Events of one time come out in the order they went in.

use crate::ring::Ring;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// Buckets of the calendar.
const DAYS: usize = 1 << 14;
/// Buckets are looked at after so many events, and made narrower or wider.
const LOOK_EVERY: u32 = 1 << 14;
/// log2 of the widest bucket: a second.
const MOST_WIDTH: u32 = 40;
/// A bucket of more is sorted as a whole.
const MOST_INSERTED: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    time: u64,
    what: u64,
    next: u32,
}

/// Events by time.
#[derive(Debug)]
pub(crate) struct Queue {
    /// A bucket is 2^width picoseconds wide.
    width: u32,
    /// The bucket that is being emptied, counted from the beginning of time.
    day: u64,
    heads: Box<[u32]>,
    /// Bit for each bucket that has something.
    busy: Box<[u64]>,
    entries: Ring<Entry>,
    /// The bucket at hand, latest first.
    today: Vec<(u64, u64)>,
    /// Beyond the calendar: time, order, event.
    far: BinaryHeap<Reverse<(u64, u64, u64)>>,
    order: u64,
    len: usize,
    opened: u32,
    popped: u32,
    /// Events that lay beyond the calendar since its width was looked at.
    beyond: u32,
    /// No narrower: too much lay beyond then.
    least: u32,
    /// [`Self::look_ahead`] has told of the buckets up to this one.
    told: u64,
    /// Events of a bucket of late, times 16.
    each: u32,
}

impl Queue {
    /// An empty queue whose buckets are about so many picoseconds wide; it finds the right width by itself.
    pub fn new(width_ps: u64) -> Queue {
        Queue {
            width: width_ps.max(1).ilog2(),
            day: 0,
            heads: vec![NONE; DAYS].into(),
            busy: vec![0; DAYS / 64].into(),
            entries: Ring::new(),
            today: Vec::new(),
            far: BinaryHeap::new(),
            order: 0,
            len: 0,
            opened: 0,
            popped: 0,
            beyond: 0,
            least: 0,
            told: 0,
            each: 16,
        }
    }

    /// An event more. One of the past comes at once.
    #[inline]
    pub fn push(&mut self, time: Time, what: u64) {
        self.len += 1;
        let day = time.0 >> self.width;
        if day <= self.day {
            // Before those of the same time, which are popped from the end.
            let mut at = self.today.len();
            while at > 0 && self.today[at - 1].0 <= time.0 {
                at -= 1;
            }
            self.today.insert(at, (time.0, what));
        } else if day - self.day < DAYS as u64 {
            self.file(day, time.0, what);
        } else {
            self.order += 1;
            self.beyond += 1;
            self.far.push(Reverse((time.0, self.order, what)));
        }
    }

    #[inline]
    fn file(&mut self, day: u64, time: u64, what: u64) {
        let bucket = day as usize % DAYS;
        let entry = Entry {
            time,
            what,
            next: self.heads[bucket],
        };
        self.heads[bucket] = self.entries.put(entry);
        self.busy[bucket / 64] |= 1 << (bucket % 64);
    }

    /// Nothing is to come.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        while self.today.is_empty() {
            if self.len == 0 {
                return None;
            }
            self.next_day();
        }
        self.today.last().map(|&(time, _)| Time(time))
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u64)> {
        self.next_time()?;
        let (time, what) = self.today.pop()?;
        self.len -= 1;
        self.popped += 1;
        Some((Time(time), what))
    }

    fn next_day(&mut self) {
        if self.popped >= LOOK_EVERY {
            self.fit();
        }
        self.day = match (self.next_busy(self.day), self.far.peek()) {
            (Some(near), Some(Reverse(far))) => near.min(far.0 >> self.width),
            (Some(near), None) => near,
            (None, Some(Reverse(far))) => far.0 >> self.width,
            (None, None) => return,
        };
        // What the calendar has come to reach is filed; the heap gives it in order, so equal times stay in order.
        let end = self.day + DAYS as u64;
        while let Some(&Reverse((time, _, what))) = self.far.peek()
            && time >> self.width < end
        {
            self.far.pop();
            self.file(time >> self.width, time, what);
        }
        let bucket = self.day as usize % DAYS;
        let mut at = std::mem::replace(&mut self.heads[bucket], NONE);
        self.busy[bucket / 64] &= !(1 << (bucket % 64));
        self.opened += 1;
        // Latest first; the list has the newest first, and those of one time stay so: the oldest is popped first. There are two or three.
        while at != NONE {
            let slot = self.entries.slots()[at as usize];
            let event = (slot.time, slot.what);
            self.entries.free(at);
            at = slot.next;
            let mut place = self.today.len();
            if place > MOST_INSERTED {
                self.today.push(event);
                continue;
            }
            self.today.push(event);
            while place > 0 && self.today[place - 1].0 < event.0 {
                self.today.swap(place, place - 1);
                place -= 1;
            }
        }
        if self.today.len() > MOST_INSERTED {
            self.today.sort_by_key(|event| Reverse(event.0));
        }
    }

    /// A number that changes whenever the next bucket is opened: then there may be something to tell of ahead.
    #[inline]
    pub fn opened(&self) -> u64 {
        self.day
    }

    /// Tells of what will come once about so many events have come before it, so that somebody may prepare for it. Of most events, once, and about in order.
    #[inline]
    pub fn look_ahead(&mut self, events: u32, mut tell: impl FnMut(u64)) {
        /// Buckets at a time: so a pause is made up for.
        const STEP: u32 = 3;
        self.told = self.told.max(self.day);
        let buckets = 1 + events * 16 / self.each.max(16);
        let ahead = self.busy_between(self.day, self.told);
        for _ in 0..buckets.saturating_sub(ahead).min(STEP) {
            let Some(next) = self.next_busy(self.told) else {
                return;
            };
            if next >= self.day + DAYS as u64 {
                return;
            }
            self.told = next;
            let mut at = self.heads[next as usize % DAYS];
            while let Some(entry) = self.entries.slots().get(at as usize) {
                tell(entry.what);
                at = entry.next;
            }
        }
        // what the next looks begin with: the second of the next bucket, and the first of the one after that
        if let Some(next) = self.next_busy(self.told) {
            let entries = self.entries.slots();
            let first = entries.get(self.heads[next as usize % DAYS] as usize);
            if let Some(first) = first {
                ferriband_prefetch::element(entries, first.next as usize);
            }
            if let Some(next) = self.next_busy(next) {
                let at = self.heads[next as usize % DAYS];
                ferriband_prefetch::element(entries, at as usize);
            }
        }
    }

    /// Buckets that have something, of those after a day up to another.
    #[inline]
    fn busy_between(&self, after: u64, last: u64) -> u32 {
        let (mut day, mut count) = (after + 1, 0);
        while day <= last {
            let bit = day as usize % 64;
            let word = self.busy[day as usize % DAYS / 64] >> bit;
            let left = (last - day + 1).min(64 - bit as u64);
            let of_them = if left == 64 { !0 } else { (1u64 << left) - 1 };
            count += (word & of_them).count_ones();
            day += left;
        }
        count
    }

    /// The next bucket after a day that has something.
    #[inline]
    fn next_busy(&self, after: u64) -> Option<u64> {
        let first = (after + 1) as usize % DAYS;
        let words = DAYS / 64;
        let mut mask = !0u64 << (first % 64);
        for step in 0..=words {
            let word = (first / 64 + step) % words;
            let found = self.busy[word] & mask;
            if found != 0 {
                let bucket = word * 64 + found.trailing_zeros() as usize;
                let ahead = (bucket + DAYS - first) % DAYS;
                return Some(after + 1 + ahead as u64);
            }
            mask = !0;
        }
        None
    }

    /// How wide buckets had better be, by the events and buckets since this was asked last. Most events are to find room in the calendar, for the heap of what lies beyond costs more than a
    /// bucket of a few; then one or two in a bucket are best.
    fn best_width(&mut self) -> u32 {
        const MOST_OF_A_BUCKET: u32 = 32;
        let (popped, opened, beyond) = (self.popped, self.opened.max(1), self.beyond);
        (self.popped, self.opened, self.beyond) = (0, 0, 0);
        self.each = popped * 16 / opened;
        let width = if beyond > popped / 16 && popped < MOST_OF_A_BUCKET * opened {
            self.least = self.width + 1;
            self.least
        } else if popped > 4 * opened && self.width > self.least {
            self.width - 1
        } else if popped < opened + opened / 4 && !self.far.is_empty() {
            self.width + 1
        } else {
            self.width
        };
        width.min(MOST_WIDTH)
    }

    /// Buckets as wide as they had better be.
    fn fit(&mut self) {
        let width = self.best_width();
        if width == self.width {
            return;
        }
        // Everything out, bucket by bucket in order, and in again.
        let mut all = Vec::with_capacity(self.len);
        let mut day = self.day;
        while let Some(next) = {
            self.day = day;
            self.next_busy(day)
        } {
            let bucket = next as usize % DAYS;
            let begin = all.len();
            let mut at = std::mem::replace(&mut self.heads[bucket], NONE);
            self.busy[bucket / 64] &= !(1 << (bucket % 64));
            while at != NONE {
                let entry = self.entries.slots()[at as usize];
                all.push((entry.time, entry.what));
                at = entry.next;
            }
            all[begin..].reverse();
            day = next;
        }
        while let Some(Reverse((time, _, what))) = self.far.pop() {
            all.push((time, what));
        }
        self.entries.clear();
        // Stable: those of a bucket and of one time stay in order, and the heap's were younger only if they are later.
        all.sort_by_key(|event| event.0);
        self.width = width;
        self.told = 0;
        self.day = all.first().map_or(0, |event| event.0 >> width).max(1) - 1;
        self.len = 0;
        for (time, what) in all {
            self.push(Time(time), what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn events_come_in_order_of_time_and_of_their_coming() {
        for width in [1, 64, 1 << 20] {
            let mut queue = Queue::new(width);
            let mut slow = BTreeMap::new();
            let mut random = Random::new(7, width);
            let mut now = 0;
            for what in 0..200_000u64 {
                let span = match random.below(20) {
                    0 => 1 << 34,
                    1..=4 => 1 << 8,
                    _ => 1 << 20,
                };
                // Coarse times, so that many are equal.
                let time = now + u64::from(random.below(u32::MAX)) % span / 128 * 128;
                queue.push(Time(time), what);
                slow.insert((time, what), ());
                if what > 2_000 || random.below(3) == 0 {
                    let ((time, what), ()) = slow.pop_first().unwrap();
                    assert_eq!(queue.pop(), Some((Time(time), what)));
                    now = time;
                }
            }
            while let Some(((time, what), ())) = slow.pop_first() {
                assert_eq!(queue.pop(), Some((Time(time), what)));
            }
            assert_eq!(queue.pop(), None);
            assert!(queue.next_time().is_none());
        }
    }

    #[test]
    fn events_are_told_of_once_before_they_come_and_not_long_before() {
        let mut queue = Queue::new(64);
        let mut random = Random::new(11, 0);
        let (mut told, mut came) = (BTreeMap::new(), 0u64);
        let (mut number, mut opened) = (0u64, u64::MAX);
        let (mut early, mut unknown, mut leads) = (0u64, 0u64, 0u64);
        let push = |queue: &mut Queue, now: u64, number: &mut u64, random: &mut Random| {
            let span = 4_000_000 + u64::from(random.below(4_000_000));
            queue.push(Time(now + span), *number);
            *number += 1;
        };
        for _ in 0..20_000 {
            push(&mut queue, 0, &mut number, &mut random);
        }
        while came < 400_000 {
            let _ = queue.next_time();
            if queue.opened() != opened {
                opened = queue.opened();
                queue.look_ahead(24, |what| {
                    // once more if the calendar was made anew
                    told.insert(what, came);
                });
            }
            let (time, what) = queue.pop().unwrap();
            match told.remove(&what) {
                Some(when) => {
                    leads += came - when;
                    early = early.max(came - when);
                }
                None => unknown += 1,
            }
            came += 1;
            push(&mut queue, time.0, &mut number, &mut random);
        }
        assert!(unknown < came / 50, "{unknown} were never told of");
        let lead = leads / (came - unknown);
        assert!((12..100).contains(&lead), "{lead} events ahead");
        assert!(early < 2_000, "{early} events ahead");
    }
}
