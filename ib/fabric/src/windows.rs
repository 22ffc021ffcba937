//! Events by window and place: a window is no longer than news takes from one group of nodes to another, so what happens in one group within it depends on nothing that happens
//! in another within it (conservative synchronisation; Chandy and Misra, 1979, here to keep a cache and not a cluster busy), and each group's events may come all together: its
//! memory is at hand then, where in the order of time each event is about another corner of a large fabric.
//!
//! Where the groups have two colours, no link between any two of one colour, windows are twice as wide and stand in turns, like bricks: while a group of one colour works off its own, those of
//! the other stand in the middle of it, and have told all that may come before its end. Each group's memory is looked at half as often then.
//!
//! Within a group events come in the order of time, equal times in the order of [`crate::queue::tie`]. Must not know what events mean, but for their port, which tells the group.

use crate::queue::is_before;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// No group: there are not so many.
const NOBODY: u16 = u16::MAX;
/// Windows that events are filed by; what lies beyond waits in a heap.
const NEAR: usize = 128;
/// How far ahead events are filed: one less, for a run that ends in the middle of windows of two colours goes on with the earlier of them.
const REACH: u64 = NEAR as u64 - 1;
/// log2 of the ports that always belong to one group.
pub(crate) const ROOM_BITS: u32 = 4;
/// Parts of a window that its events are sorted into at first.
const PARTS: usize = 512;
/// Events of a chunk: with what is behind them, 4 KiB.
const EACH: usize = 255;

/// Time and what happens.
type Event = (u64, u64);

/// Events of a window, as they came.
#[derive(Clone, Debug)]
struct Chunk {
    events: [Event; EACH],
    /// An older one of the same window, which is full; or a free one.
    next: u32,
}

/// Events by window, group and time.
#[derive(Debug)]
pub(crate) struct Windows {
    width: Time,
    /// 2^64 by the width of a window, rounded up: a window is never wider.
    by_width: u64,
    /// By port, [`ROOM_BITS`] less: its group. The lowest bit is its colour, if they have two.
    group_of: Box<[u16]>,
    /// 1 if groups have two colours, else 0.
    colours: u64,
    /// The window at hand, counted from the beginning of time; of two colours, the even ones are those of colour 0.
    day: u64,
    /// What is before this and of the group at hand comes yet; 0 while no window is open.
    end: u64,
    group: u16,
    /// By window: its newest chunk, and how many events that has.
    heads: Box<[(u32, u32)]>,
    /// How many events each has.
    counts: Box<[u32]>,
    chunks: Vec<Chunk>,
    free: u32,
    far: BinaryHeap<Reverse<(u64, u64, u64)>>,
    order: u64,
    /// The window's events by group; those of the group at hand, which end at `stop`, in order, those before `next` have come.
    today: Vec<Event>,
    next: usize,
    stop: usize,
    /// The `next` that somebody has looked ahead from; [`usize::MAX`] in a window that nobody has looked at.
    looked: usize,
    /// What was put into the window since it was opened, in order; those before `own_next` have come.
    own: Vec<Event>,
    own_next: usize,
    /// Events by their part of the window, while it is opened.
    parts: Vec<Event>,
    part_counts: Box<[u32]>,
    group_counts: Box<[u32]>,
    len: usize,
}

impl Windows {
    /// Windows of the time that news takes from one group to another at the least, over groups by port ([`ROOM_BITS`] less); twice as wide if the lowest bit of a group's number is its colour,
    /// and news goes from colour to colour alone.
    pub fn new(width: Time, group_of: Vec<u16>, coloured: bool) -> Windows {
        let groups = group_of
            .iter()
            .max()
            .map_or(1, |most| usize::from(*most) + 1);
        Windows {
            width,
            by_width: u64::MAX / width.0.max(2) + 1,
            group_of: group_of.into(),
            colours: coloured.into(),
            day: 0,
            end: 0,
            group: 0,
            heads: vec![(NONE, 0); NEAR].into(),
            counts: vec![0; NEAR].into(),
            chunks: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            order: 0,
            today: Vec::new(),
            next: 0,
            stop: 0,
            looked: usize::MAX,
            own: Vec::new(),
            own_next: 0,
            parts: Vec::new(),
            part_counts: vec![0; PARTS].into(),
            group_counts: vec![0; groups].into(),
            len: 0,
        }
    }

    /// Groups by port, [`ROOM_BITS`] less, and whether they have two colours.
    pub fn groups(&self) -> (&[u16], bool) {
        (&self.group_of, self.colours == 1)
    }

    /// What it was made with.
    pub const fn width(&self) -> Time {
        self.width
    }

    /// How often news may have gone from group to group before a time.
    #[inline]
    fn step_of(&self, time: u64) -> u64 {
        ((u128::from(time) * u128::from(self.by_width)) >> 64) as u64
    }

    /// The first time of a step.
    fn begin_of(&self, step: u64) -> u64 {
        let by_width = u128::from(self.by_width);
        (u128::from(step) << 64).div_ceil(by_width) as u64
    }

    /// The window of an event: of two colours it begins with the step before its own number, and ends with its own.
    #[inline]
    fn day_of(&self, time: u64, group: u16) -> u64 {
        let step = self.step_of(time);
        step + ((step ^ u64::from(group)) & self.colours)
    }

    #[inline]
    fn group_at(&self, what: u64) -> u16 {
        self.group_of[what as u32 as usize >> ROOM_BITS]
    }

    /// An event more.
    #[inline]
    pub fn push(&mut self, time: Time, what: u64) {
        self.len += 1;
        let group = self.group_at(what);
        if time.0 < self.end && group == self.group {
            self.insert(time.0, what);
            return;
        }
        let day = self.day_of(time.0, group);
        assert!(
            time.0 >= self.end || day > self.day,
            "news came to another group within a window"
        );
        let day = day.max(self.day);
        if day - self.day < REACH {
            self.file(day, (time.0, what));
        } else {
            self.order += 1;
            self.far.push(Reverse((time.0, self.order, what)));
        }
    }

    /// Puts an event into the window at hand.
    #[inline]
    fn insert(&mut self, time: u64, what: u64) {
        let mut at = self.own.len();
        self.own.push((time, what));
        while at > self.own_next && is_before((time, what), self.own[at - 1]) {
            self.own[at] = self.own[at - 1];
            at -= 1;
        }
        self.own[at] = (time, what);
    }

    #[inline]
    fn file(&mut self, day: u64, event: Event) {
        let slot = day as usize % NEAR;
        self.counts[slot] += 1;
        let (head, count) = self.heads[slot];
        if let Some(chunk) = self.chunks.get_mut(head as usize)
            && let Some(place) = chunk.events.get_mut(count as usize)
        {
            *place = event;
            self.heads[slot].1 += 1;
            return;
        }
        self.begin_chunk(slot, event);
    }

    fn begin_chunk(&mut self, slot: usize, event: Event) {
        let next = self.heads[slot].0;
        let place = self.free;
        let place = match self.chunks.get_mut(place as usize) {
            Some(chunk) => {
                self.free = chunk.next;
                chunk.events[0] = event;
                chunk.next = next;
                place
            }
            None => {
                let mut events = [(0, 0); EACH];
                events[0] = event;
                self.chunks.push(Chunk { events, next });
                self.chunks.len() as u32 - 1
            }
        };
        self.heads[slot] = (place, 1);
    }

    /// Nothing is to come.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All that is to come, in no order.
    pub fn drain(&mut self) -> Vec<(Time, u64)> {
        let mut all = Vec::with_capacity(self.len);
        for slot in 0..NEAR {
            self.take(slot, &mut all);
        }
        while let Some(Reverse((time, _, what))) = self.far.pop() {
            all.push((time, what));
        }
        self.len = 0;
        all.into_iter()
            .map(|(time, what)| (Time(time), what))
            .collect()
    }

    /// Takes the events of a window, in the order they came.
    fn take(&mut self, slot: usize, to: &mut Vec<Event>) {
        let (mut at, mut count) = std::mem::replace(&mut self.heads[slot], (NONE, 0));
        let begin = to.len();
        let total = std::mem::take(&mut self.counts[slot]) as usize;
        to.resize(begin + total, (0, 0));
        let mut left = to.len();
        while let Some(chunk) = self.chunks.get_mut(at as usize) {
            let first = left - count as usize;
            to[first..left].copy_from_slice(&chunk.events[..count as usize]);
            (left, count) = (first, EACH as u32);
            let next = std::mem::replace(&mut chunk.next, self.free);
            self.free = at;
            at = next;
        }
    }

    /// Opens the next window that has anything up to a time, and only that much of it. What comes before the time that it gives has come at all other groups. None if nothing is left until then.
    pub fn open(&mut self, until: Time) -> Option<Time> {
        debug_assert!(self.next == self.today.len() && self.own.is_empty());
        self.end = 0;
        let last = self.step_of(until.0);
        let mut found = None;
        self.today.clear();
        // where nothing is filed, but not beyond the time: windows would be filed from there on, and looked for from the run's end on
        if self.far.len() == self.len
            && let Some(&Reverse((time, ..))) = self.far.peek()
            && time <= until.0
        {
            self.day = self.day.max(self.step_of(time));
        }
        self.draw_near();
        for day in self.day..(self.day + NEAR as u64).min(last + self.colours + 1) {
            if self.fill(day, until) {
                found = Some(Time(self.begin_of(day)));
                break;
            }
        }
        if found.is_none() {
            self.day = self.day.min(last);
        }
        (self.next, self.stop, self.looked) = (0, 0, usize::MAX);
        found
    }

    /// Files what has been far.
    fn draw_near(&mut self) {
        while let Some(&Reverse((time, _, what))) = self.far.peek()
            && let day = self.day_of(time, self.group_at(what))
            && day - self.day < REACH
        {
            self.far.pop();
            self.file(day, (time, what));
        }
    }

    /// Takes what there is of a window up to a time, and opens it if that is anything.
    fn fill(&mut self, day: u64, until: Time) -> bool {
        if self.counts[day as usize % NEAR] == 0 {
            return false;
        }
        let mut all = std::mem::take(&mut self.today);
        let begin = self.begin_of(day.saturating_sub(self.colours));
        let end = self.begin_of(day + 1);
        let cut = until.0.saturating_add(1).min(end);
        self.take(day as usize % NEAR, &mut all);
        if cut < end {
            for event in all.extract_if(.., |event| event.0 >= cut) {
                self.file(day, event);
            }
        }
        let any = !all.is_empty();
        if any {
            (self.day, self.end) = (day, cut);
            self.sort(begin, end - begin, &mut all);
        }
        self.today = all;
        any
    }

    /// The window at hand, or the earliest that anything may be put into.
    pub const fn day(&self) -> u64 {
        self.day
    }

    /// The next window, from one on that is not before [`Self::day`], that has anything, as far as is known; [`u64::MAX`] if none has.
    pub fn next_filled(&self, from: u64) -> u64 {
        let mut near = from..self.day + NEAR as u64;
        let filed = near.find(|day| self.counts[*day as usize % NEAR] > 0);
        let far = self.far.peek();
        let far = far.map(|&Reverse((time, _, what))| self.day_of(time, self.group_at(what)));
        filed.unwrap_or(u64::MAX).min(far.unwrap_or(u64::MAX))
    }

    /// The last window that has anything up to a time.
    pub fn last_day(&self, until: Time) -> u64 {
        self.step_of(until.0) + self.colours
    }

    /// Opens a window that others open as well, whether it has anything here or not, up to a time that is not before it. All before it have come. Gives what [`Self::open`] does.
    pub fn open_at(&mut self, day: u64, until: Time) -> Time {
        debug_assert!(self.next == self.today.len() && self.own.is_empty());
        debug_assert!(day >= self.day && day <= self.last_day(until));
        self.day = day;
        self.draw_near();
        self.today.clear();
        (self.next, self.stop, self.looked) = (0, 0, usize::MAX);
        self.fill(day, until);
        self.end = until.0.saturating_add(1).min(self.begin_of(day + 1));
        Time(self.begin_of(day))
    }

    /// All of the window has come: what is put in from now on is for later ones.
    pub fn close(&mut self) {
        debug_assert!(self.next == self.today.len() && self.own.is_empty());
        self.group = NOBODY;
    }

    /// No window is open, and time stands still at the end of a run.
    pub fn rest(&mut self, until: Time) {
        self.today.clear();
        (self.next, self.stop, self.looked) = (0, 0, usize::MAX);
        self.day = self.day.min(self.step_of(until.0));
        self.end = 0;
    }

    /// By group, and almost by time.
    fn sort(&mut self, begin: u64, width: u64, all: &mut Vec<Event>) {
        let shift = (width / PARTS as u64 + 1).next_power_of_two().ilog2();
        let part = |event: &Event| (event.0.saturating_sub(begin) >> shift) as usize % PARTS;
        self.part_counts.fill(0);
        self.group_counts.fill(0);
        for event in &*all {
            self.part_counts[part(event)] += 1;
            let group = self.group_of[event.1 as u32 as usize >> ROOM_BITS];
            self.group_counts[usize::from(group)] += 1;
        }
        for counts in [&mut self.part_counts, &mut self.group_counts] {
            let mut sum = 0;
            for count in counts.iter_mut() {
                sum += std::mem::replace(count, sum);
            }
        }
        self.parts.resize(all.len(), (0, 0));
        for event in &*all {
            let place = &mut self.part_counts[part(event)];
            self.parts[*place as usize] = *event;
            *place += 1;
        }
        for event in &self.parts {
            let group = self.group_of[event.1 as u32 as usize >> ROOM_BITS];
            let place = &mut self.group_counts[usize::from(group)];
            all[*place as usize] = *event;
            *place += 1;
        }
    }

    /// Takes the next event of the window at hand.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u64)> {
        if self.next == self.stop && self.own.is_empty() {
            self.begin_group()?;
        }
        self.len -= 1;
        let planned = match self.next < self.stop {
            true => self.today.get(self.next).copied(),
            false => None,
        };
        let (time, what) = match (planned, self.own.get(self.own_next).copied()) {
            (Some(event), Some(own)) if is_before(own, event) => self.pop_own(own),
            (Some(event), _) => {
                self.next += 1;
                event
            }
            (None, own) => self.pop_own(own?),
        };
        Some((Time(time), what))
    }

    #[inline]
    fn pop_own(&mut self, own: Event) -> Event {
        self.own_next += 1;
        if self.own_next == self.own.len() {
            self.own.clear();
            self.own_next = 0;
        }
        own
    }

    /// The next group that has anything in the window.
    #[inline]
    fn begin_group(&mut self) -> Option<()> {
        let first = self.today.get(self.next)?;
        self.group = self.group_of[first.1 as u32 as usize >> ROOM_BITS];
        // where the group's last was put
        self.stop = self.group_counts[usize::from(self.group)] as usize;
        let events = &mut self.today[self.next..self.stop];
        for last in 1..events.len() {
            let mut place = last;
            while place > 0 && is_before(events[place], events[place - 1]) {
                events.swap(place - 1, place);
                place -= 1;
            }
        }
        Some(())
    }

    /// Whether [`Self::coming`] tells of other events than when this was asked last.
    #[inline]
    pub fn moved(&mut self) -> bool {
        std::mem::replace(&mut self.looked, self.next) != self.next
    }

    /// The event that comes after so many others of the window, but for what is put into it.
    #[inline]
    pub fn coming(&self, after: usize) -> Option<u64> {
        self.today.get(self.next + after).map(|&(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_beyond_the_end_of_a_run_waits_for_its_time() {
        const NS: u64 = 1_000;
        for coloured in [false, true] {
            let mut windows = Windows::new(Time(100 * NS), vec![0, 1], coloured);
            // 300 windows away, when there is nothing else
            windows.push(Time(30_000 * NS), 0);
            assert_eq!(windows.open(Time(1_000 * NS)), None);
            // more, on the way there
            windows.push(Time(20_000 * NS), 16);
            windows.push(Time(1_100 * NS), 16);
            let mut came = Vec::new();
            for until in [1_050, 2_000, 19_000, 25_000, 40_000] {
                while windows.open(Time(until * NS)).is_some() {
                    while let Some((time, what)) = windows.pop() {
                        assert!(time.0 <= until * NS, "{time:?} until {until} ns");
                        came.push((time.0 / NS, what));
                    }
                }
            }
            assert_eq!(came, [(1_100, 16), (20_000, 16), (30_000, 0)]);
        }
    }
}
