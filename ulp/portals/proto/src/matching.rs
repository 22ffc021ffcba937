//! Which entry of a list takes a request: the first that matches.
//!
//! Owns: match criteria and the order of a list. Where nothing in the criteria is wild, entries are
//! found by a hash; the others are walked in order, up to the place of the one that the hash found.
//! Must not know: what an entry is beyond its criteria. Data comes from appended entries and
//! arriving requests.

use crate::Peer;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// What a match list entry asks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Criteria {
    pub peer: Peer,
    pub bits: u64,
    pub ignore: u64,
}

impl Criteria {
    /// The criteria of every list entry of an interface without matching. They admit
    /// [`Identity::UNMATCHED`], which all requests have there.
    pub const UNMATCHED: Criteria = Criteria {
        peer: Peer::Rank(0),
        bits: 0,
        ignore: 0,
    };

    pub fn admits(&self, id: &Identity) -> bool {
        (self.bits ^ id.bits) & !self.ignore == 0 && self.peer.admits(&id.peer)
    }

    /// The one identity that it admits, if it is only one.
    fn exact(&self) -> Option<Identity> {
        (self.ignore == 0 && !self.peer.is_wild()).then_some(Identity {
            peer: self.peer,
            bits: self.bits,
        })
    }
}

/// What a request shows to the lists: who it is from and its match bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub peer: Peer,
    pub bits: u64,
}

impl Identity {
    /// What every request shows on an interface without matching.
    pub const UNMATCHED: Identity = Identity {
        peer: Peer::Rank(0),
        bits: 0,
    };
}

/// Multiplies and rotates; the same in every run. A program that makes keys collide slows its own
/// lists down.
#[derive(Default)]
pub(crate) struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

type Index<V> = HashMap<Identity, Bucket<V>, BuildHasherDefault<FixedHasher>>;

/// Places with one identity, in order. A single one needs no memory of its own.
#[derive(Debug)]
struct Bucket<V> {
    first: (u64, V),
    rest: VecDeque<(u64, V)>,
}

impl<V: Copy> Bucket<V> {
    fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// Those at `from` or after it.
    fn iter_from(&self, from: u64) -> impl Iterator<Item = (u64, V)> {
        let later = self.rest.partition_point(|&(place, _)| place < from);
        Some(self.first)
            .filter(|&(place, _)| place >= from)
            .into_iter()
            .chain(self.rest.range(later..).copied())
    }
}

fn index_push<V>(index: &mut Index<V>, id: Identity, place: u64, value: V) {
    match index.entry(id) {
        Entry::Occupied(bucket) => bucket.into_mut().rest.push_back((place, value)),
        Entry::Vacant(vacant) => drop(vacant.insert(Bucket {
            first: (place, value),
            rest: VecDeque::new(),
        })),
    }
}

/// Whether the place was there.
fn index_remove<V>(index: &mut Index<V>, id: Identity, place: u64) -> bool {
    let Entry::Occupied(mut occupied) = index.entry(id) else {
        return false;
    };
    let bucket = occupied.get_mut();
    if bucket.first.0 != place {
        let at = bucket
            .rest
            .binary_search_by_key(&place, |&(place, _)| place);
        return at.is_ok_and(|at| bucket.rest.remove(at).is_some());
    }
    match bucket.rest.pop_front() {
        Some(second) => bucket.first = second,
        None => drop(occupied.remove()),
    }
    true
}

/// A list in order, `V` a name of an entry.
#[derive(Debug)]
pub(crate) struct MatchList<V> {
    next: u64,
    len: usize,
    exact: Index<V>,
    wild: BTreeMap<u64, (Criteria, V)>,
}

impl<V> Default for MatchList<V> {
    fn default() -> Self {
        MatchList {
            next: 0,
            len: 0,
            exact: Index::default(),
            wild: BTreeMap::new(),
        }
    }
}

impl<V: Copy> MatchList<V> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends; the number is the entry's place, by which it is removed.
    pub fn push(&mut self, criteria: Criteria, value: V) -> u64 {
        let place = self.next;
        self.next += 1;
        self.len += 1;
        match criteria.exact() {
            Some(id) => index_push(&mut self.exact, id, place, value),
            None => drop(self.wild.insert(place, (criteria, value))),
        }
        place
    }

    /// Removes what was appended with these criteria at this place.
    pub fn remove(&mut self, criteria: &Criteria, place: u64) {
        let removed = match criteria.exact() {
            Some(id) => index_remove(&mut self.exact, id, place),
            None => self.wild.remove(&place).is_some(),
        };
        assert!(removed, "an entry is removed from the list that it is in");
        self.len -= 1;
    }

    /// The first entry that admits `id` and passes `fits`.
    pub fn find(&self, id: &Identity, fits: impl Fn(V) -> bool) -> Option<V> {
        let exact = self
            .exact
            .get(id)
            .and_then(|bucket| bucket.iter().find(|&(_, value)| fits(value)));
        let before = exact.map_or(u64::MAX, |(place, _)| place);
        let wild = self.wild.range(..before).map(|(_, found)| found);
        let earlier = wild
            .copied()
            .find(|(criteria, value)| criteria.admits(id) && fits(*value));
        earlier
            .map(|(_, value)| value)
            .or(exact.map(|(_, value)| value))
    }
}

/// A list of things with identities, searched by criteria: the mirror image of [`MatchList`].
#[derive(Debug)]
pub(crate) struct IdentityList<V> {
    next: u64,
    all: BTreeMap<u64, (Identity, V)>,
    index: Index<()>,
}

impl<V> Default for IdentityList<V> {
    fn default() -> Self {
        IdentityList {
            next: 0,
            all: BTreeMap::new(),
            index: Index::default(),
        }
    }
}

impl<V> IdentityList<V> {
    /// Appends; the number is its place.
    pub fn push(&mut self, id: Identity, value: V) -> u64 {
        let place = self.next;
        self.next += 1;
        self.all.insert(place, (id, value));
        index_push(&mut self.index, id, place, ());
        place
    }

    pub fn get_mut(&mut self, place: u64) -> Option<&mut V> {
        self.all.get_mut(&place).map(|(_, value)| value)
    }

    pub fn get(&self, place: u64) -> Option<&V> {
        self.all.get(&place).map(|(_, value)| value)
    }

    pub fn remove(&mut self, place: u64) -> Option<V> {
        let (id, value) = self.all.remove(&place)?;
        index_remove(&mut self.index, id, place);
        Some(value)
    }

    /// The place of the first at `from` or after that `criteria` admits and that passes `fits`.
    pub fn find(&self, criteria: &Criteria, from: u64, fits: impl Fn(&V) -> bool) -> Option<u64> {
        match criteria.exact() {
            Some(id) => {
                let passes =
                    |place: &u64| self.all.get(place).is_some_and(|(_, value)| fits(value));
                self.index
                    .get(&id)?
                    .iter_from(from)
                    .map(|(place, ())| place)
                    .find(passes)
            }
            None => {
                let mut later = self.all.range(from..);
                later
                    .find(|(_, (id, value))| criteria.admits(id) && fits(value))
                    .map(|(&place, _)| place)
            }
        }
    }

    /// Takes all, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = V> {
        self.index.clear();
        std::mem::take(&mut self.all)
            .into_values()
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(Criteria),
        Remove(usize),
        /// With an entry that does not fit although it matches, as one with PTL_ME_NO_TRUNCATE may.
        Find(Identity, Option<usize>),
    }

    fn peer(wild: bool) -> BoxedStrategy<Peer> {
        let nid = |any: u32| prop_oneof![4 => 1u32..3, 1 => Just(any)];
        let (nids, pids, ranks) = if wild {
            (
                nid(Peer::NID_ANY).boxed(),
                nid(Peer::PID_ANY).boxed(),
                nid(Peer::RANK_ANY).boxed(),
            )
        } else {
            ((1u32..3).boxed(), (1u32..3).boxed(), (1u32..3).boxed())
        };
        prop_oneof![
            (nids, pids).prop_map(|(nid, pid)| Peer::Physical(Process { nid, pid })),
            ranks.prop_map(Peer::Rank)
        ]
        .boxed()
    }

    fn criteria() -> impl Strategy<Value = Criteria> {
        let ignore = prop_oneof![4 => Just(0u64), 1 => Just(1), 1 => Just(u64::MAX)];
        (peer(true), 0u64..4, ignore).prop_map(|(peer, bits, ignore)| Criteria {
            peer,
            bits,
            ignore,
        })
    }

    fn identity() -> impl Strategy<Value = Identity> {
        (peer(false), 0u64..4).prop_map(|(peer, bits)| Identity { peer, bits })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => criteria().prop_map(Step::Push),
            2 => any::<usize>().prop_map(Step::Remove),
            4 => (identity(), proptest::option::of(any::<usize>())).prop_map(|(id, unfit)| Step::Find(id, unfit)),
        ]
    }

    /// The whole of matching as the specification says it, without a hash.
    fn plainly_admits(criteria: &Criteria, id: &Identity) -> bool {
        let who = match (criteria.peer, id.peer) {
            (Peer::Rank(want), Peer::Rank(rank)) => want == Peer::RANK_ANY || want == rank,
            (Peer::Physical(want), Peer::Physical(process)) => {
                (want.nid == Peer::NID_ANY || want.nid == process.nid)
                    && (want.pid == Peer::PID_ANY || want.pid == process.pid)
            }
            _ => false,
        };
        who && (id.bits | criteria.ignore) == (criteria.bits | criteria.ignore)
    }

    proptest! {
        /// Law 2, in order: a list with a hash finds what a walk from its head finds.
        #[test]
        fn hashed_lists_find_what_a_walk_finds(steps in proptest::collection::vec(step(), 1..120)) {
            let mut list = MatchList::default();
            let mut plain: Vec<(u64, Criteria, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(criteria) => plain.push((list.push(criteria, number), criteria, number)),
                    Step::Remove(which) if !plain.is_empty() => {
                        let (place, criteria, _) = plain.remove(which % plain.len());
                        list.remove(&criteria, place);
                    }
                    Step::Remove(_) => {}
                    Step::Find(id, unfit) => {
                        let unfit = unfit.filter(|_| !plain.is_empty()).map(|which| plain[which % plain.len()].2);
                        let fits = |value: usize| Some(value) != unfit;
                        let walk = plain.iter().find(|(_, criteria, value)| plainly_admits(criteria, &id) && fits(*value));
                        prop_assert_eq!(list.find(&id, fits), walk.map(|&(_, _, value)| value));
                    }
                }
                prop_assert_eq!(list.len(), plain.len());
            }
        }

        /// Searching unexpected headers by a hash finds what a walk finds.
        #[test]
        fn hashed_headers_are_found_as_by_a_walk(
            ids in proptest::collection::vec((identity(), any::<bool>()), 1..40),
            wanted in proptest::collection::vec((criteria(), 0u64..40), 1..20),
        ) {
            let mut list = IdentityList::default();
            let mut plain: Vec<(u64, Identity)> = Vec::new();
            for (id, removed) in ids {
                let place = list.push(id, ());
                if removed {
                    list.remove(place);
                } else {
                    plain.push((place, id));
                }
            }
            for (criteria, from) in wanted {
                let walk = plain.iter().find(|(place, id)| *place >= from && plainly_admits(&criteria, id));
                prop_assert_eq!(list.find(&criteria, from, |()| true), walk.map(|&(place, _)| place));
            }
            prop_assert_eq!(list.drain().count(), plain.len());
        }
    }
}
