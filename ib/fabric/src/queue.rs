//! The queue of events: a calendar (Brown, 1988) of buckets that one entry each falls into on average, and a heap for what lies beyond its year. Events of one time come out in the order of [`tie`].

use crate::time::Time;
use ferriband_prefetch::element;
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
/// Events that have come are thrown away so many at a time.
const THROWN: usize = 256;
/// Buckets, full or empty, that may be opened before their time.
const MOST_EARLY: u64 = 256;

/// The order of events of one time: by port, then by kind; beyond that, as they went in. So it does not matter who put them in first, and nodes may be looked at in any order that
/// news between them leaves (see [`crate::windows`]).
#[inline]
pub(crate) const fn tie(what: u64) -> u64 {
    what << 32 | what >> 60
}

/// Events of a bucket: one line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Leaf {
    events: [(u64, u64); EACH],
    /// Older ones of the same bucket, all of them full; or free ones.
    next: u32,
}

/// Events of a leaf, and what a bucket's head needs to count them.
const EACH: usize = 3;
const COUNT_BITS: u32 = 2;
const _: () = assert!(size_of::<Leaf>() == 64);

/// The newest leaf of a bucket, and how many events it has.
#[inline]
const fn leaf_and_count(head: u32) -> (u32, usize) {
    (
        head >> COUNT_BITS,
        (head & ((1 << COUNT_BITS) - 1)) as usize,
    )
}

/// Events by time.
#[derive(Debug)]
pub(crate) struct Queue {
    /// A bucket is 2^width picoseconds wide.
    width: u32,
    /// The last bucket that was opened, counted from the beginning of time.
    day: u64,
    /// Each bucket's newest leaf, and how many events are in it, so that one more needs nothing that is not at hand; 0 where there are none.
    heads: Box<[u32]>,
    /// Bit for each bucket that has something.
    busy: Box<[u64]>,
    /// The buckets' events, and what is free of them: taken up last, so that it is at hand.
    leaves: Vec<Leaf>,
    free: u32,
    /// Where memory of the buckets that are opened next was asked for.
    walk: u32,
    /// What has been opened, in order; those before `next` have come.
    today: Vec<(u64, u64)>,
    next: usize,
    /// Buckets are opened early, so that about so many events lie in order behind the next.
    early: usize,
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
}

impl Queue {
    /// An empty queue whose buckets are about so many picoseconds wide (it finds the right width by itself), and which is asked for about so many of the [`Self::coming`] events.
    pub fn new(width_ps: u64, early: usize) -> Queue {
        Queue {
            width: width_ps.max(1).ilog2(),
            day: 0,
            heads: vec![0; DAYS].into(),
            busy: vec![0; DAYS / 64].into(),
            leaves: Vec::new(),
            free: NONE,
            walk: NONE,
            today: Vec::new(),
            next: 0,
            early,
            far: BinaryHeap::new(),
            order: 0,
            len: 0,
            opened: 0,
            popped: 0,
            beyond: 0,
            least: 0,
        }
    }

    /// An event more. One of the past comes at once.
    #[inline]
    pub fn push(&mut self, time: Time, what: u64) {
        self.len += 1;
        let day = time.0 >> self.width;
        if day <= self.day {
            self.insert(time.0, what);
        } else if day - self.day < DAYS as u64 {
            self.file(day, time.0, what);
        } else {
            self.order += 1;
            self.beyond += 1;
            self.far.push(Reverse((time.0, self.order, what)));
        }
    }

    /// Puts an event among those that lie in order.
    #[inline]
    fn insert(&mut self, time: u64, what: u64) {
        let mut at = self.today.len();
        self.today.push((time, what));
        while at > self.next && is_before((time, what), self.today[at - 1]) {
            self.today[at] = self.today[at - 1];
            at -= 1;
        }
        self.today[at] = (time, what);
    }

    #[inline]
    fn file(&mut self, day: u64, time: u64, what: u64) {
        let bucket = day as usize % DAYS;
        let (head, count) = leaf_and_count(self.heads[bucket]);
        if count > 0
            && let Some(leaf) = self.leaves.get_mut(head as usize)
            && let Some(place) = leaf.events.get_mut(count)
        {
            *place = (time, what);
            self.heads[bucket] += 1;
            return;
        }
        let mut events = [(0, 0); EACH];
        events[0] = (time, what);
        let next = if count > 0 { head } else { NONE };
        self.heads[bucket] = self.put(Leaf { events, next }) << COUNT_BITS | 1;
        self.busy[bucket / 64] |= 1 << (bucket % 64);
    }

    #[inline]
    fn put(&mut self, leaf: Leaf) -> u32 {
        let place = self.free;
        if let Some(slot) = self.leaves.get_mut(place as usize) {
            self.free = slot.next;
            *slot = leaf;
            return place;
        }
        self.leaves.push(leaf);
        self.leaves.len() as u32 - 1
    }

    /// Takes a bucket's events out, and puts them behind others, oldest first.
    #[inline]
    fn empty(&mut self, bucket: usize, to: &mut Vec<(u64, u64)>) {
        let begin = to.len();
        let head = std::mem::take(&mut self.heads[bucket]);
        self.busy[bucket / 64] &= !(1 << (bucket % 64));
        if head == 0 {
            return;
        }
        let (mut at, mut count) = leaf_and_count(head);
        while let Some(leaf) = self.leaves.get_mut(at as usize) {
            to.extend(leaf.events[..count].iter().rev());
            count = EACH;
            let next = std::mem::replace(&mut leaf.next, self.free);
            self.free = at;
            at = next;
        }
        to[begin..].reverse();
    }

    /// Nothing is to come.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        if self.next + self.early >= self.today.len() {
            self.open();
        }
        self.today.get(self.next).map(|&(time, _)| Time(time))
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u64)> {
        self.next_time()?;
        let &(time, what) = self.today.get(self.next)?;
        self.next += 1;
        self.len -= 1;
        self.popped += 1;
        if let Some(leaf) = self.leaves.get(self.walk as usize) {
            self.walk = leaf.next;
            element(&self.leaves, leaf.next as usize);
        }
        Some((Time(time), what))
    }

    /// The event that comes after so many others, if none is put before it: known as far as buckets have been opened, and as long as there are enough of them.
    #[inline]
    pub fn coming(&self, after: usize) -> Option<u64> {
        self.today.get(self.next + after).map(|&(_, what)| what)
    }

    /// Opens the next bucket, if there is one; the next ones too, if they are near.
    fn open(&mut self) {
        if self.popped >= LOOK_EVERY {
            self.fit();
        }
        if self.next == self.today.len() {
            self.today.clear();
            self.next = 0;
        } else if self.next >= THROWN {
            self.today.drain(..self.next);
            self.next = 0;
        }
        while self.today.len() == self.next && self.len > 0 {
            self.next_day();
        }
        let most = match self.today.get(self.next) {
            Some(&(time, _)) if self.early > 0 => (time >> self.width) + MOST_EARLY,
            _ => return,
        };
        while self.next + self.early >= self.today.len() {
            match self.next_busy(self.day) {
                Some(near) if near <= most => self.next_day(),
                _ => return,
            }
        }
        if let Some(near) = self.next_busy(self.day) {
            self.walk = leaf_and_count(self.heads[near as usize % DAYS]).0;
            element(&self.leaves, self.walk as usize);
        }
    }

    fn next_day(&mut self) {
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
        self.opened += 1;
        // Behind all that lies there; of one time in the order they came.
        let mut today = std::mem::take(&mut self.today);
        let begin = today.len();
        self.empty(bucket, &mut today);
        self.today = today;
        let bucket = &mut self.today[begin..];
        if bucket.len() > MOST_INSERTED {
            bucket.sort_by_key(|event| (event.0, tie(event.1)));
            return;
        }
        for last in 1..bucket.len() {
            let mut place = last;
            while place > 0 && is_before(bucket[place], bucket[place - 1]) {
                bucket.swap(place - 1, place);
                place -= 1;
            }
        }
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
        all.extend(self.today.drain(self.next..));
        self.today.clear();
        self.next = 0;
        let mut day = self.day;
        while let Some(next) = {
            self.day = day;
            self.next_busy(day)
        } {
            let bucket = next as usize % DAYS;
            self.empty(bucket, &mut all);
            day = next;
        }
        while let Some(Reverse((time, _, what))) = self.far.pop() {
            all.push((time, what));
        }
        // Stable: those of a bucket and of one time stay in order, and the heap's were younger only if they are later.
        all.sort_by_key(|event| event.0);
        self.width = width;
        self.day = all.first().map_or(0, |event| event.0 >> width).max(1) - 1;
        self.len = 0;
        for (time, what) in all {
            self.push(Time(time), what);
        }
    }
}

#[inline]
pub(crate) const fn is_before(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 < other.0 || one.0 == other.0 && tie(one.1) < tie(other.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn events_come_in_order_of_time_and_of_their_coming() {
        for (width, early) in [(1, 0), (64, 20), (1 << 20, 0), (1 << 20, 20)] {
            let mut queue = Queue::new(width, early);
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
    fn what_is_to_come_is_known_some_events_before() {
        const AHEAD: usize = 20;
        let mut queue = Queue::new(64, AHEAD);
        let mut random = Random::new(11, 0);
        let mut known = std::collections::VecDeque::new();
        let (mut number, mut unknown, mut other) = (0u64, 0u64, 0u64);
        let mut push = |queue: &mut Queue, now: u64| {
            let span = 4_000_000 + u64::from(random.below(4_000_000));
            queue.push(Time(now + span), number);
            number += 1;
        };
        for _ in 0..20_000 {
            push(&mut queue, 0);
        }
        for came in 0..400_000 {
            let (time, what) = queue.pop().unwrap();
            if came >= AHEAD {
                match known.pop_front() {
                    Some(Some(told)) => other += u64::from(told != what),
                    _ => unknown += 1,
                }
            }
            // after those that come before it: the one that is popped so many later
            known.push_back(queue.coming(AHEAD - 1));
            push(&mut queue, time.0);
        }
        assert!(unknown < 4_000, "{unknown} were not known of");
        // nothing is put before what comes so soon
        assert_eq!(other, 0);
    }
}
