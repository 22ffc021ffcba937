//! Which receive takes which message, within one context.
//!
//! Owns: the receives that wait, in a list for each source and one for any source, and the messages that nobody has asked for yet, each in the list of
//! its source and in the list of all. Knows of both only what must match, and a number that means something to the caller. The order is the
//! standard's: messages of one source in the order of sending, receives in the order of posting.

const NONE: u32 = u32::MAX;

/// The source of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Rank in the communicator.
    Rank(u32),
    /// MPI_ANY_SOURCE.
    Any,
}

/// The tag of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// This one.
    Is(i32),
    /// MPI_ANY_TAG.
    Any,
}

impl Tag {
    /// Whether a receive of this tag takes a message of that one.
    #[inline]
    pub fn takes(self, tag: i32) -> bool {
        match self {
            Self::Is(wanted) => wanted == tag,
            Self::Any => true,
        }
    }
}

/// Receives and messages of one context.
#[derive(Debug, Default)]
pub struct Matching {
    posted: Arena<Posted>,
    waiting: Arena<Message>,
    /// For each source that was named or heard: its lists.
    sources: Vec<Lists>,
    any: List,
    arrivals: List,
    /// Number of the next receive.
    next: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lists {
    posted: List,
    waiting: List,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    tag: Tag,
    id: u32,
    number: u64,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    source: u32,
    tag: i32,
    id: u32,
    of_source: Links,
    of_all: Links,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    next: u32,
}

#[derive(Debug)]
struct Arena<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Arena<T> {
    #[inline]
    fn put(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    #[inline]
    fn at(&self, at: u32) -> &T {
        &self.entries[at as usize]
    }

    #[inline]
    fn at_mut(&mut self, at: u32) -> &mut T {
        &mut self.entries[at as usize]
    }
}

impl Matching {
    /// A receive is posted: takes the oldest message that it matches, whose number is returned; else it waits under its own number `id`.
    #[inline]
    pub fn post(&mut self, source: Source, tag: Tag, id: u32) -> Option<u32> {
        if self.arrivals.head != NONE
            && let Some(found) = self.take(source, tag)
        {
            return Some(found);
        }
        let number = self.next;
        self.next += 1;
        let at = self.posted.put(Posted {
            tag,
            id,
            number,
            next: NONE,
        });
        let list = match source {
            Source::Any => &mut self.any,
            Source::Rank(rank) => {
                reach(&mut self.sources, rank);
                &mut self.sources[rank as usize].posted
            }
        };
        if list.tail == NONE {
            list.head = at;
        } else {
            self.posted.entries[list.tail as usize].next = at;
        }
        list.tail = at;
        None
    }

    /// The same of a receive from `source`, where no message waits and its source has been named before: false if that is not so, and then nothing has happened.
    #[inline(always)]
    pub fn post_next(&mut self, source: u32, tag: Tag, id: u32) -> bool {
        let Some(lists) = self.sources.get_mut(source as usize) else {
            return false;
        };
        let Some(at) = self.posted.free.last().copied() else {
            return false;
        };
        if self.arrivals.head != NONE {
            return false;
        }
        let Some(entry) = self.posted.entries.get_mut(at as usize) else {
            return false;
        };
        *entry = Posted {
            tag,
            id,
            number: self.next,
            next: NONE,
        };
        self.posted.free.pop();
        self.next += 1;
        let list = &mut lists.posted;
        match self.posted.entries.get_mut(list.tail as usize) {
            Some(last) if list.tail != NONE => last.next = at,
            _ => list.head = at,
        }
        list.tail = at;
        true
    }

    /// Whether no message waits, nor a receive that could take one from `source`, which has been named or heard before.
    #[inline(always)]
    pub fn is_still(&self, source: u32) -> bool {
        let lists = self.sources.get(source as usize);
        self.arrivals.head == NONE
            && self.any.head == NONE
            && lists.is_some_and(|lists| lists.posted.head == NONE)
    }

    /// A message arrives: the receive that takes it, which waits no longer.
    #[inline]
    pub fn arrive(&mut self, source: u32, tag: i32) -> Option<u32> {
        // Most messages are for the first receive that names their source.
        if self.any.head == NONE {
            let list = &mut self.sources.get_mut(source as usize)?.posted;
            let head = list.head;
            if head == NONE {
                return None;
            }
            let Posted {
                tag: wanted,
                id,
                next,
                ..
            } = *self.posted.at(head);
            if wanted.takes(tag) {
                list.head = next;
                if next == NONE {
                    list.tail = NONE;
                }
                self.posted.free.push(head);
                return Some(id);
            }
        }
        self.arrive_further(source, tag)
    }

    fn arrive_further(&mut self, source: u32, tag: i32) -> Option<u32> {
        let named = self
            .sources
            .get(source as usize)
            .and_then(|lists| self.find(lists.posted, tag));
        let any = if self.any.head == NONE {
            None
        } else {
            self.find(self.any, tag)
        };
        let (list, found) = match (named, any) {
            (Some(one), Some(other))
                if self.posted.at(other.0).number < self.posted.at(one.0).number =>
            {
                (&mut self.any, other)
            }
            (Some(one), _) => (&mut self.sources[source as usize].posted, one),
            (None, Some(other)) => (&mut self.any, other),
            (None, None) => return None,
        };
        Some(unlink(&mut self.posted, list, found))
    }

    /// A message that no receive takes waits under the number `id`.
    pub fn hold(&mut self, source: u32, tag: i32, id: u32) {
        reach(&mut self.sources, source);
        let before = self.sources[source as usize].waiting.tail;
        let before_all = self.arrivals.tail;
        let at = self.waiting.put(Message {
            source,
            tag,
            id,
            of_source: Links { before, next: NONE },
            of_all: Links {
                before: before_all,
                next: NONE,
            },
        });
        match before {
            NONE => self.sources[source as usize].waiting.head = at,
            _ => self.waiting.at_mut(before).of_source.next = at,
        }
        self.sources[source as usize].waiting.tail = at;
        match before_all {
            NONE => self.arrivals.head = at,
            _ => self.waiting.at_mut(before_all).of_all.next = at,
        }
        self.arrivals.tail = at;
    }

    /// The oldest waiting message that would match, which stays.
    pub fn probe(&self, source: Source, tag: Tag) -> Option<u32> {
        self.search(source, tag).map(|at| self.waiting.at(at).id)
    }

    /// The oldest waiting message that matches, which is taken out.
    pub fn take(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let at = self.search(source, tag)?;
        Some(self.remove(at))
    }

    /// Takes the waiting message `id` from `source` back. False if it does not wait: it has met its receive.
    pub fn withdraw(&mut self, source: u32, id: u32) -> bool {
        let Some(lists) = self.sources.get(source as usize) else {
            return false;
        };
        let mut at = lists.waiting.head;
        while at != NONE {
            let message = self.waiting.at(at);
            if message.id == id {
                self.remove(at);
                return true;
            }
            at = message.of_source.next;
        }
        false
    }

    /// Takes the waiting message at `at` out of both of its lists; its number.
    fn remove(&mut self, at: u32) -> u32 {
        let message = *self.waiting.at(at);
        let Links { before, next } = message.of_source;
        let lists = &mut self.sources[message.source as usize];
        match before {
            NONE => lists.waiting.head = next,
            _ => self.waiting.entries[before as usize].of_source.next = next,
        }
        match next {
            NONE => lists.waiting.tail = before,
            _ => self.waiting.entries[next as usize].of_source.before = before,
        }
        let Links { before, next } = message.of_all;
        match before {
            NONE => self.arrivals.head = next,
            _ => self.waiting.entries[before as usize].of_all.next = next,
        }
        match next {
            NONE => self.arrivals.tail = before,
            _ => self.waiting.entries[next as usize].of_all.before = before,
        }
        self.waiting.free.push(at);
        message.id
    }

    /// Takes a waiting receive back. False if it does not wait: it has met its message.
    pub fn cancel(&mut self, source: Source, id: u32) -> bool {
        let list = match source {
            Source::Any => &mut self.any,
            Source::Rank(rank) => match self.sources.get_mut(rank as usize) {
                Some(lists) => &mut lists.posted,
                None => return false,
            },
        };
        let (mut at, mut before) = (list.head, NONE);
        while at != NONE {
            let posted = *self.posted.at(at);
            if posted.id == id {
                unlink(&mut self.posted, list, (at, before));
                return true;
            }
            before = at;
            at = posted.next;
        }
        false
    }

    /// Every waiting message's number, oldest first: for the end of the context.
    pub fn drain(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.take(Source::Any, Tag::Any)).collect()
    }

    /// Whether neither a receive nor a message waits.
    pub fn is_idle(&self) -> bool {
        self.posted.free.len() == self.posted.entries.len() && self.arrivals.head == NONE
    }

    /// First posted receive of `list` that takes `tag`, and the one before it.
    #[inline]
    fn find(&self, list: List, tag: i32) -> Option<(u32, u32)> {
        let (mut at, mut before) = (list.head, NONE);
        while at != NONE {
            let posted = self.posted.at(at);
            if posted.tag.takes(tag) {
                return Some((at, before));
            }
            before = at;
            at = posted.next;
        }
        None
    }

    fn search(&self, source: Source, tag: Tag) -> Option<u32> {
        let mut at = match source {
            Source::Any => self.arrivals.head,
            Source::Rank(rank) => self.sources.get(rank as usize)?.waiting.head,
        };
        while at != NONE {
            let message = self.waiting.at(at);
            if tag.takes(message.tag) {
                return Some(at);
            }
            at = match source {
                Source::Any => message.of_all.next,
                Source::Rank(_) => message.of_source.next,
            };
        }
        None
    }
}

#[inline]
fn reach(sources: &mut Vec<Lists>, rank: u32) {
    if sources.len() <= rank as usize {
        sources.resize(rank as usize + 1, Lists::default());
    }
}

#[inline]
fn unlink(posted: &mut Arena<Posted>, list: &mut List, (at, before): (u32, u32)) -> u32 {
    let Posted { id, next, .. } = *posted.at(at);
    match before {
        NONE => list.head = next,
        _ => posted.at_mut(before).next = next,
    }
    if next == NONE {
        list.tail = before;
    }
    posted.free.push(at);
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by plain lists.
    #[derive(Default)]
    struct Model {
        posted: Vec<(Source, Tag, u32)>,
        waiting: Vec<(u32, i32, u32)>,
    }

    fn fits(source: Source, tag: Tag, from: u32, with: i32) -> bool {
        (source == Source::Any || source == Source::Rank(from)) && tag.takes(with)
    }

    impl Model {
        fn take(&mut self, source: Source, tag: Tag) -> Option<u32> {
            let at = self
                .waiting
                .iter()
                .position(|(from, with, _)| fits(source, tag, *from, *with))?;
            Some(self.waiting.remove(at).2)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Post(Source, Tag),
        Arrive(u32, i32),
        Probe(Source, Tag),
        Take(Source, Tag),
        Cancel(usize),
        Withdraw(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let source = || {
            prop_oneof![
                3 => (0_u32..4).prop_map(Source::Rank),
                1 => Just(Source::Any)
            ]
        };
        let tag = || prop_oneof![3 => (0_i32..3).prop_map(Tag::Is), 1 => Just(Tag::Any)];
        prop_oneof![
            4 => (source(), tag()).prop_map(|(s, t)| Step::Post(s, t)),
            5 => (0_u32..4, 0_i32..3).prop_map(|(s, t)| Step::Arrive(s, t)),
            1 => (source(), tag()).prop_map(|(s, t)| Step::Probe(s, t)),
            1 => (source(), tag()).prop_map(|(s, t)| Step::Take(s, t)),
            1 => (0_usize..8).prop_map(Step::Cancel),
            1 => (0_usize..8).prop_map(Step::Withdraw),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_plain_lists_do(steps in prop::collection::vec(step(), 1..300)) {
            let (mut real, mut model) = (Matching::default(), Model::default());
            for (id, step) in (0_u32..).zip(steps) {
                match step {
                    Step::Post(source, tag) => {
                        let expected = model.take(source, tag);
                        if expected.is_none() {
                            model.posted.push((source, tag, id));
                        }
                        // Either way to post it is right wherever it says that it has been posted.
                        let is_next = id % 2 == 0
                            && matches!(source, Source::Rank(rank) if real.post_next(rank, tag, id));
                        let found = if is_next { None } else { real.post(source, tag, id) };
                        prop_assert_eq!(found, expected);
                    }
                    Step::Arrive(from, with) => {
                        let at = model.posted.iter().position(|(s, t, _)| fits(*s, *t, from, with));
                        let expected = at.map(|at| model.posted.remove(at).2);
                        prop_assert_eq!(real.arrive(from, with), expected);
                        if expected.is_none() {
                            model.waiting.push((from, with, id));
                            real.hold(from, with, id);
                        }
                    }
                    Step::Probe(source, tag) => {
                        let expected = model.waiting.iter().find(|(f, w, _)| fits(source, tag, *f, *w));
                        prop_assert_eq!(real.probe(source, tag), expected.map(|message| message.2));
                    }
                    Step::Take(source, tag) => prop_assert_eq!(real.take(source, tag), model.take(source, tag)),
                    Step::Cancel(at) => if at < model.posted.len() {
                        let (source, _, id) = model.posted.remove(at);
                        prop_assert!(real.cancel(source, id));
                        prop_assert!(!real.cancel(source, id));
                    },
                    Step::Withdraw(at) => if at < model.waiting.len() {
                        let (source, _, id) = model.waiting.remove(at);
                        prop_assert!(real.withdraw(source, id));
                        prop_assert!(!real.withdraw(source, id));
                    }
                }
                prop_assert_eq!(real.is_idle(), model.posted.is_empty() && model.waiting.is_empty());
            }
            let left: Vec<u32> = model.waiting.iter().map(|message| message.2).collect();
            prop_assert_eq!(real.drain(), left);
        }
    }
}
