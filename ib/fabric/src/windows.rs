//! Events by window and place: a window is no longer than news takes from one group of nodes to another, so what happens in one group within it depends on nothing that happens
//! in another within it (conservative synchronisation; Chandy and Misra, 1979, here to keep a cache and not a cluster busy), and each group's events may come all together: its
//! memory is at hand then, where in the order of time each event is about another corner of a large fabric.
//!
//! Where the groups have two colours, no link between any two of one colour, windows are twice as wide and stand in turns, like bricks: while a group of one colour works off its own, those of
//! the other stand in the middle of it, and have told all that may come before its end. Each group's memory is looked at half as often then.
//!
//! Within a group events come in the order of time, equal times in the order of [`crate::queue::tie`]. Must not know what events mean, but for their port, which tells the group.

mod chunks;

use crate::event::{Flight, at_place};
use crate::queue::is_before;
use crate::time::Time;
pub(crate) use chunks::is_chunked;
use chunks::{Chunks, Event, Pile};
use ferriband_prefetch::Stretch;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// No group: there are not so many.
const NOBODY: u16 = u16::MAX;
/// Windows that events are filed by; what lies beyond waits in a heap.
const NEAR: usize = 128;
/// How far ahead events are filed: one less, for a run that ends in the middle of windows of two colours goes on with the earlier of them.
const REACH: u64 = NEAR as u64 - 1;
/// Windows whose events are filed by group at once; those of later ones are when theirs is opened, for there are more groups in more windows than a processor knows pages.
const SOON: u64 = 5;
/// Places for such windows: some more, for the same reason.
const SOON_PLACES: usize = 8;
/// log2 of the ports that always belong to one group.
pub(crate) const ROOM_BITS: u32 = 4;
/// Parts of a window that a group's events are sorted into at first: about as many as there are events, and no more than this.
const MOST_PARTS: usize = 4096;
/// A group of no more events is sorted as it is.
const FEW: usize = 12;
/// Events beyond the group at hand that are known, if there are so many.
const EARLY: usize = 32;

/// Events by window, group and time.
#[derive(Debug)]
pub(crate) struct Windows {
    width: Time,
    /// 2^64 by the width of a window, rounded up: a window is never wider.
    by_width: u64,
    /// By port, [`ROOM_BITS`] less: its group. The lowest bit is its colour, if they have two.
    group_of: Arc<[u16]>,
    /// One more than the largest group's number.
    groups: usize,
    /// 1 if groups have two colours, else 0.
    colours: u64,
    /// The window at hand, counted from the beginning of time; of two colours, the even ones are those of colour 0.
    day: u64,
    /// It begins here, what is before `end` and of the group at hand comes yet, and what was planned from there on waits for another run; `end` is 0 while no window is open.
    begin: u64,
    end: u64,
    group: u16,
    /// By window and group, of those that come soon: what there is.
    piles: Box<[Pile]>,
    /// By window: what else there is.
    later: Box<[Pile]>,
    /// How many events each window has.
    counts: Box<[u32]>,
    chunks: Chunks,
    far: BinaryHeap<Reverse<(u64, u64, u64)>>,
    order: u64,
    /// The first group of the window that nobody has looked at.
    untaken: usize,
    /// Events by group, each group's in order. Those before `next` have come, those before `stop` are of the group at hand; behind it other groups', which end at `stops`.
    today: Vec<Event>,
    next: usize,
    stop: usize,
    stops: VecDeque<(usize, Pile)>,
    /// Where the packets of the group at hand lie.
    pile: Pile,
    /// Events of the window when it was opened.
    planned: usize,
    /// Groups that were begun.
    begun: u64,
    /// The `next` that somebody has looked ahead from; [`usize::MAX`] in a window that nobody has looked at.
    looked: usize,
    /// What was put into the window since it was opened, in order; those before `own_next` have come.
    own: Vec<Event>,
    own_next: usize,
    /// A group's events as they came, and by their part of the window, while it is taken.
    taken: Vec<Event>,
    parts: Vec<u32>,
    len: usize,
}

/// Where an event goes.
enum Where {
    /// Into the window at hand.
    Here,
    /// Into another one, on a group's pile.
    Near(usize, usize),
    /// Into another one.
    Later(usize),
    Far,
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
            groups,
            colours: coloured.into(),
            day: 0,
            begin: 0,
            end: 0,
            group: 0,
            piles: vec![Pile::EMPTY; SOON_PLACES * groups].into(),
            later: vec![Pile::EMPTY; NEAR].into(),
            counts: vec![0; NEAR].into(),
            chunks: Chunks::new(),
            far: BinaryHeap::new(),
            order: 0,
            untaken: groups,
            today: Vec::new(),
            next: 0,
            stop: 0,
            stops: VecDeque::new(),
            pile: Pile::EMPTY,
            planned: 0,
            begun: 0,
            looked: usize::MAX,
            own: Vec::new(),
            own_next: 0,
            taken: Vec::new(),
            parts: Vec::new(),
            len: 0,
        }
    }

    /// Groups by port, [`ROOM_BITS`] less, and whether they have two colours.
    pub const fn groups(&self) -> (&Arc<[u16]>, bool) {
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
        match self.where_to(time, what) {
            Where::Here => self.insert(time.0, what),
            Where::Near(window, place) => {
                self.counts[window] += 1;
                self.chunks.add(&mut self.piles[place], (time.0, what));
            }
            Where::Later(window) => {
                self.counts[window] += 1;
                self.chunks.add(&mut self.later[window], (time.0, what));
            }
            Where::Far => {
                self.order += 1;
                self.far.push(Reverse((time.0, self.order, what)));
            }
        }
        self.len += 1;
    }

    /// An event more, about a packet, which is kept until then. False if it is too soon or too late to keep it here.
    #[inline]
    pub fn push_flight(&mut self, time: Time, what: u64, flight: &Flight) -> bool {
        let Where::Near(window, place) = self.where_to(time, what) else {
            return false;
        };
        self.counts[window] += 1;
        self.chunks
            .add_flight(&mut self.piles[place], (time.0, what), flight);
        self.len += 1;
        true
    }

    /// A packet at a place that [`is_chunked`], until its group's events have come.
    #[inline]
    pub fn flight(&self, place: u32) -> Option<&Flight> {
        self.chunks.flight(place)
    }

    #[inline]
    fn where_to(&self, time: Time, what: u64) -> Where {
        let group = self.group_at(what);
        if time.0 < self.end && group == self.group {
            return Where::Here;
        }
        let day = self.day_of(time.0, group);
        assert!(
            time.0 >= self.end || day > self.day,
            "news came to another group within a window"
        );
        let day = day.max(self.day);
        let window = day as usize % NEAR;
        match day - self.day {
            0..SOON => Where::Near(window, self.place_of(day, group.into())),
            SOON..REACH => Where::Later(window),
            _ => Where::Far,
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

    /// The place of a window's group among [`Self::piles`].
    #[inline]
    const fn place_of(&self, day: u64, group: usize) -> usize {
        day as usize % SOON_PLACES * self.groups + group
    }

    /// Nothing is to come.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All that is to come, in no order; packets that were kept here are given away, and their events learn their new places.
    pub fn drain(&mut self, mut keep: impl FnMut(Flight) -> u32) -> Vec<(Time, u64)> {
        let mut all = Vec::with_capacity(self.len);
        for pile in self.piles.iter_mut().chain(&mut self.later) {
            let pile = std::mem::replace(pile, Pile::EMPTY);
            for &(time, what) in self.chunks.events(pile).flatten() {
                let what = match self.chunks.flight_of(what) {
                    Some(flight) => at_place(what, keep(*flight)),
                    None => what,
                };
                all.push((Time(time), what));
            }
            self.chunks.give_back(pile);
        }
        self.counts.fill(0);
        while let Some(Reverse((time, _, what))) = self.far.pop() {
            all.push((Time(time), what));
        }
        self.len = 0;
        all
    }

    /// Opens the next window that has anything up to a time, and only that much of it. What comes before the time that it gives has come at all other groups. None if nothing is left until then.
    pub fn open(&mut self, until: Time) -> Option<Time> {
        self.put_away();
        self.end = 0;
        let last = self.step_of(until.0);
        let mut found = None;
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
        found
    }

    /// Files what has been far.
    fn draw_near(&mut self) {
        while let Some(&Reverse((time, _, what))) = self.far.peek()
            && let day = self.day_of(time, self.group_at(what))
            && day - self.day < REACH
        {
            self.far.pop();
            let window = day as usize % NEAR;
            self.counts[window] += 1;
            self.chunks.add(&mut self.later[window], (time, what));
        }
    }

    /// Opens a window if it has anything up to a time.
    fn fill(&mut self, day: u64, until: Time) -> bool {
        if self.counts[day as usize % NEAR] == 0 {
            return false;
        }
        let end = self.begin_of(day + 1);
        let cut = until.0.saturating_add(1).min(end);
        if cut < end && !self.has_before(day, cut) {
            return false;
        }
        (self.day, self.begin, self.end) =
            (day, self.begin_of(day.saturating_sub(self.colours)), cut);
        self.untaken = (day & self.colours) as usize;
        self.planned = self.counts[day as usize % NEAR] as usize;
        self.sort_later();
        // so that the first group is known
        self.take_group();
        true
    }

    /// Files by group what came to the window at hand long before it.
    fn sort_later(&mut self) {
        let pile = std::mem::replace(&mut self.later[self.day as usize % NEAR], Pile::EMPTY);
        let mut events = std::mem::take(&mut self.taken);
        events.clear();
        for some in self.chunks.events(pile) {
            events.extend_from_slice(some);
        }
        self.chunks.give_back(pile);
        for &event in &events {
            let place = self.place_of(self.day, self.group_at(event.1).into());
            self.chunks.add(&mut self.piles[place], event);
        }
        self.taken = events;
    }

    /// A window has an event before a time.
    #[cold]
    fn has_before(&self, day: u64, time: u64) -> bool {
        let own = self.place_of(day, 0);
        let piles = self.piles[own..own + self.groups].iter();
        piles
            .chain([&self.later[day as usize % NEAR]])
            .flat_map(|pile| self.chunks.events(*pile).flatten())
            .any(|event| event.0 < time)
    }

    /// What was taken has all come.
    fn put_away(&mut self) {
        debug_assert!(self.next == self.today.len() && self.own.is_empty());
        self.today.clear();
        (self.next, self.stop, self.looked) = (0, 0, usize::MAX);
        self.untaken = self.groups;
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
        debug_assert!(day >= self.day && day <= self.last_day(until));
        self.put_away();
        self.day = day;
        self.draw_near();
        self.planned = 0;
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
        self.put_away();
        self.day = self.day.min(self.step_of(until.0));
        self.end = 0;
    }

    /// Takes the next group of the window that has anything before its end; false if there is none.
    fn take_group(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.taken);
        let begin = self.today.len();
        while self.untaken < self.groups && self.today.len() == begin {
            let place = self.place_of(self.day, self.untaken);
            self.untaken += 1 + self.colours as usize;
            let pile = std::mem::replace(&mut self.piles[place], Pile::EMPTY);
            if pile.len() == 0 {
                continue;
            }
            self.counts[self.day as usize % NEAR] -= pile.len();
            events.clear();
            for some in self.chunks.events(pile) {
                events.extend_from_slice(some);
            }
            if self.end < self.begin_of(self.day + 1) {
                self.put_off(place, &mut events);
            }
            self.sort(&events);
            match self.today.len() > begin {
                true => self.stops.push_back((self.today.len(), pile)),
                false => self.chunks.give_back(pile),
            }
        }
        self.taken = events;
        let colours = 1 + self.colours as usize;
        let next = (self.untaken..self.groups).step_by(colours);
        let mut piles = next.map(|group| self.piles[self.place_of(self.day, group)]);
        if let Some(pile) = piles.find(|pile| pile.len() > 0) {
            self.chunks.expect(pile);
        }
        self.today.len() > begin
    }

    /// What comes after the run's end is for another run.
    #[cold]
    fn put_off(&mut self, place: usize, events: &mut Vec<Event>) {
        let end = self.end;
        for event in events.extract_if(.., |event| event.0 >= end) {
            self.counts[self.day as usize % NEAR] += 1;
            let pile = &mut self.piles[place];
            match self.chunks.flight_of(event.1).copied() {
                Some(flight) => self.chunks.add_flight(pile, event, &flight),
                None => self.chunks.add(pile, event),
            }
        }
    }

    /// Puts a group's events behind others, in order.
    fn sort(&mut self, events: &[Event]) {
        let first = self.today.len();
        if events.len() <= FEW {
            self.today.extend_from_slice(events);
        } else {
            let parts = events.len().next_power_of_two().min(MOST_PARTS);
            let width = self.begin_of(self.day + 1) - self.begin;
            let shift = (width / parts as u64 + 1).next_power_of_two().ilog2();
            let part =
                |event: &Event| (event.0.saturating_sub(self.begin) >> shift) as usize % parts;
            self.parts.clear();
            self.parts.resize(parts, first as u32);
            for event in events {
                self.parts[part(event)] += 1;
            }
            let mut sum = first as u32;
            for count in &mut self.parts {
                sum += std::mem::replace(count, sum) - first as u32;
            }
            self.today.resize(first + events.len(), (0, 0));
            for event in events {
                let place = &mut self.parts[part(event)];
                self.today[*place as usize] = *event;
                *place += 1;
            }
        }
        let events = &mut self.today[first..];
        for last in 1..events.len() {
            let event = events[last];
            let mut place = last;
            while place > 0 && is_before(event, events[place - 1]) {
                events[place] = events[place - 1];
                place -= 1;
            }
            events[place] = event;
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
    fn begin_group(&mut self) -> Option<()> {
        let done = std::mem::replace(&mut self.pile, Pile::EMPTY);
        self.chunks.give_back(done);
        self.today.drain(..self.next);
        for (stop, _) in &mut self.stops {
            *stop -= self.next;
        }
        self.next = 0;
        if self.stops.is_empty() && !self.take_group() {
            (self.stop, self.looked) = (0, usize::MAX);
            return None;
        }
        (self.stop, self.pile) = self.stops.pop_front()?;
        self.group = self.group_at(self.today[0].1);
        self.begun += 1;
        while self.today.len() < self.stop + EARLY && self.take_group() {}
        Some(())
    }

    /// How many events the window at hand had when it was opened, and the colour of its groups.
    pub const fn planned(&self) -> (usize, usize) {
        (self.planned, (self.day & self.colours) as usize)
    }

    /// How many groups were begun, ever.
    #[inline]
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Planned events of the group at hand that have not come.
    pub const fn left_of_group(&self) -> usize {
        self.stop - self.next
    }

    /// The group after the one at hand.
    pub fn next_group(&self) -> Option<usize> {
        let first = self.today.get(self.stop)?;
        Some(self.group_at(first.1).into())
    }

    /// Where packets to the next group lie.
    pub fn stretches_of_next(&self) -> impl Iterator<Item = Stretch> {
        let pile = self.stops.front().map_or(Pile::EMPTY, |(_, pile)| *pile);
        self.chunks.flights(pile).map(Stretch::of)
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
