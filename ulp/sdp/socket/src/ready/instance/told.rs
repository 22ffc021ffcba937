//! What peers and the kernel have told of an instance's registrations.
//!
//! Owns: which told bits are taken away. Must not know: what is so of a connection.

use super::{BELL, Group, Inside, NONE, tag_base};
use crate::arena::Taken;
use crate::ready::Ready;
use crate::ready::kernel::Event;
use std::sync::atomic::Ordering;

impl Inside {
    /// The bell was heard, or a thread looks whether it was meant: all that were told are listed.
    /// What is not to be taken by [`Ready::takes`] stays told. Gives those of which others
    /// may wait, too, who are to be told as well: this was the only bit.
    pub fn heard(&mut self, ready: &Ready, shared: &mut Vec<Taken>) {
        for group in 0..self.groups.len() {
            let Group { told, mask, .. } = &self.groups[group];
            let seen = told.word().load(Ordering::SeqCst) & mask;
            if seen == 0 {
                continue;
            }
            let own = self.own_bits(ready, group, seen);
            let had = self.groups[group]
                .told
                .word()
                .fetch_and(!own, Ordering::SeqCst);
            let mut bits = seen & (had | !own);
            while bits != 0 {
                let slot = bits.trailing_zeros();
                bits &= bits - 1;
                let mut one = self.groups[group].first[slot as usize];
                let taken = self.places.get(one as usize).map(|place| place.taken);
                let is_shared = |taken: &Taken| ready.count(taken.index).load(Ordering::SeqCst) > 1;
                if own >> slot & 1 != 0 {
                    shared.extend(taken.filter(is_shared));
                }
                while one != NONE {
                    self.news(one, false);
                    let linked = self.places[one as usize].linked.as_ref();
                    one = linked.map_or(NONE, |linked| linked.next);
                }
            }
        }
    }

    /// Those of a group's bits that this process takes away.
    fn own_bits(&self, ready: &Ready, group: usize, bits: u64) -> u64 {
        let slots = (0..64_u32).filter(|slot| bits >> slot & 1 != 0);
        let own = slots.filter(|slot| {
            let first = self.groups[group].first[*slot as usize];
            let place = self.places.get(first as usize);
            place.is_none_or(|place| ready.takes(place.taken))
        });
        own.fold(0, |own, slot| own | 1 << slot)
    }

    /// Takes this library's own out of what the kernel has told: what is left is the program's.
    /// Gives how many that are, and whether the bell was among the others.
    pub fn translate(&mut self, events: &mut [Event]) -> (usize, bool) {
        let (mut kept, mut rang) = (0, false);
        let base = tag_base();
        for at in 0..events.len() {
            let event = events[at];
            let data = event.data;
            if data >> 32 != base >> 32 {
                events[kept] = event;
                kept += 1;
                continue;
            }
            let tag = data as u32;
            if tag == BELL {
                rang = true;
            } else if let Some(found) = self.of_tag(tag) {
                self.hint(found);
            }
        }
        (kept, rang)
    }

    fn hint(&mut self, at: u32) {
        let linked = self.places[at as usize].linked.as_mut();
        if let Some(linked) = linked {
            linked.seen.stale = true;
            self.list(at);
        }
    }
}
