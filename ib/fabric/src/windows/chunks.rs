//! Events of groups in windows, as they came, and the packets that some are about: in chunks that are used again as soon as a group's events have come, so that memory is written where it was
//! read last, and what is read together lies together.

use crate::event::{Flight, at_place, place_of};
use ferriband_prefetch::Stretch;

pub(super) const NONE: u32 = u32::MAX;
/// Events of a chunk.
const EACH: usize = 64;
/// A packet's place is among the chunks.
const CHUNKED: u32 = 1 << 27;

/// Time and what happens.
pub(super) type Event = (u64, u64);

/// The place of a packet is in a chunk; else it is its owner's.
#[inline]
pub(crate) const fn is_chunked(place: u32) -> bool {
    place & CHUNKED != 0
}

/// What one group has in one window: the newest chunk, and how many events there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pile {
    newest: u32,
    count: u32,
}

impl Pile {
    /// Nothing.
    pub const EMPTY: Pile = Pile {
        newest: NONE,
        count: 0,
    };

    /// Events.
    #[inline]
    pub const fn len(self) -> u32 {
        self.count
    }
}

/// All chunks.
#[derive(Debug)]
pub(super) struct Chunks {
    events: Vec<[Event; EACH]>,
    /// Of those events that are about one.
    flights: Vec<[Flight; EACH]>,
    /// By chunk: an older one of the same pile, which is full; or a free one.
    nexts: Vec<u32>,
    free: u32,
}

impl Chunks {
    /// None yet.
    pub const fn new() -> Chunks {
        Chunks {
            events: Vec::new(),
            flights: Vec::new(),
            nexts: Vec::new(),
            free: NONE,
        }
    }

    /// Puts an event on a pile.
    #[inline]
    pub fn add(&mut self, pile: &mut Pile, event: Event) {
        let (chunk, own) = self.room(pile);
        self.events[chunk][own] = event;
    }

    /// Puts an event on a pile, and the packet that it is about, whose place it is given.
    #[inline]
    pub fn add_flight(&mut self, pile: &mut Pile, (time, what): Event, flight: &Flight) {
        let (chunk, own) = self.room(pile);
        let place = CHUNKED | (chunk * EACH + own) as u32;
        self.events[chunk][own] = (time, at_place(what, place));
        self.flights[chunk][own] = *flight;
    }

    /// The chunk of a pile's next event, and its place there.
    #[inline]
    fn room(&mut self, pile: &mut Pile) -> (usize, usize) {
        let own = pile.count as usize % EACH;
        if own == 0 {
            self.begin(pile);
        }
        pile.count += 1;
        (pile.newest as usize, own)
    }

    fn begin(&mut self, pile: &mut Pile) {
        let older = std::mem::replace(&mut pile.newest, self.free);
        match self.nexts.get_mut(self.free as usize) {
            Some(next) => self.free = std::mem::replace(next, older),
            None => {
                pile.newest = self.nexts.len() as u32;
                self.nexts.push(older);
                self.events.push([(0, 0); EACH]);
                self.flights.push([Flight::default(); EACH]);
            }
        }
    }

    /// A pile's chunks, the newest first, and how many events each has.
    #[inline]
    fn chunks(&self, pile: Pile) -> impl Iterator<Item = (usize, usize)> {
        let (mut at, mut left) = (pile.newest, pile.count as usize);
        std::iter::from_fn(move || {
            // the newest is the only one that is not full
            let own = left.checked_sub(1)? % EACH + 1;
            let chunk = at as usize;
            (at, left) = (self.nexts[chunk], left - own);
            Some((chunk, own))
        })
    }

    /// A pile's events, in no order.
    #[inline]
    pub fn events(&self, pile: Pile) -> impl Iterator<Item = &[Event]> {
        self.chunks(pile)
            .map(|(chunk, own)| &self.events[chunk][..own])
    }

    /// A pile's events will be read soon: its newest chunk, at least.
    #[inline]
    pub fn expect(&self, pile: Pile) {
        if let Some((chunk, own)) = self.chunks(pile).next() {
            let mut stretch = Stretch::of(&self.events[chunk][..own]);
            stretch.ask(EACH);
        }
    }

    /// Where packets of a pile's events lie.
    pub fn flights(&self, pile: Pile) -> impl Iterator<Item = &[Flight]> {
        self.chunks(pile)
            .map(|(chunk, own)| &self.flights[chunk][..own])
    }

    /// A packet at a place that is in a chunk.
    #[inline]
    pub fn flight(&self, place: u32) -> Option<&Flight> {
        let place = (place & !CHUNKED) as usize;
        self.flights.get(place / EACH)?.get(place % EACH)
    }

    /// The packet that an event is about, if it is in a chunk.
    pub fn flight_of(&self, what: u64) -> Option<&Flight> {
        self.flight(place_of(what).filter(|place| is_chunked(*place))?)
    }

    /// What a pile has is not needed any more.
    pub fn give_back(&mut self, pile: Pile) {
        let mut at = pile.newest;
        for _ in 0..(pile.count as usize).div_ceil(EACH) {
            let older = std::mem::replace(&mut self.nexts[at as usize], self.free);
            self.free = at;
            at = older;
        }
    }
}
