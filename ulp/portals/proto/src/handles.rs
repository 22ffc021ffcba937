//! Handles of the C ABI, and the pools of objects that they name.
//!
//! Owns: the encoding and the rule by which slots are used again. Must not know: what an object is.
//! Data comes from the calls that make and free objects.

use std::collections::VecDeque;

/// The kinds of objects that a handle names. The numbers make PTL_EQ_NONE and PTL_CT_NONE handles
/// of their kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HandleKind {
    /// A network interface.
    Ni = 0,
    /// An event queue.
    Eq = 1,
    /// A counting event.
    Ct = 2,
    /// A memory descriptor.
    Md = 3,
    /// A list entry of an interface without matching.
    Le = 4,
    /// A match list entry.
    Me = 5,
}

/// A handle of the C ABI, 32 bits: kind (3), interface (2), generation of the slot (11), slot (16).
///
/// A handle whose object was freed does not name the slot's next object: its generation differs,
/// until a slot has been used 2,048 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(u32);

/// How many generations a handle can tell apart.
pub(crate) const HANDLE_GENERATIONS: u32 = 1 << 11;
/// The most objects of a kind that an interface may have: slot 0xffff is that of the constants for
/// "none".
pub(crate) const MOST_OBJECTS: usize = 0xffff;

impl Handle {
    /// No event queue.
    pub const EQ_NONE: Handle = Handle(0x3fff_ffff);
    /// No counting event.
    pub const CT_NONE: Handle = Handle(0x5fff_ffff);
    /// No object at all.
    pub const INVALID: Handle = Handle(0xffff_ffff);

    /// The handle of an interface, 0 to 3 (see [`crate::NiKind::index`]).
    pub const fn of_interface(index: u8) -> Handle {
        Handle(((index & 3) as u32) << 27)
    }

    /// The handle with these bits, as a program passes it.
    pub const fn from_bits(bits: u32) -> Handle {
        Handle(bits)
    }

    /// The bits of the handle, as a program gets them.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// What it names, or nothing if no object can have it. The constants for "none" name nothing.
    pub const fn kind(self) -> Option<HandleKind> {
        let kind = match self.0 >> 29 {
            0 => HandleKind::Ni,
            1 => HandleKind::Eq,
            2 => HandleKind::Ct,
            3 => HandleKind::Md,
            4 => HandleKind::Le,
            5 => HandleKind::Me,
            _ => return None,
        };
        if self.0 & 0xffff == 0xffff {
            None
        } else {
            Some(kind)
        }
    }

    /// The interface whose object it is, 0 to 3.
    pub const fn interface(self) -> u8 {
        (self.0 >> 27 & 3) as u8
    }

    pub(crate) fn new(kind: HandleKind, interface: u8, key: Key) -> Handle {
        debug_assert!(key.index < 0xffff && key.generation < HANDLE_GENERATIONS);
        Handle(
            (kind as u32) << 29 | u32::from(interface & 3) << 27 | key.generation << 16 | key.index,
        )
    }

    /// The place in the pool of `kind` of interface `interface`, if it can be one.
    pub(crate) fn key(self, kind: HandleKind, interface: u8) -> Option<Key> {
        (self.kind() == Some(kind) && self.interface() == interface).then_some(Key {
            index: self.0 & 0xffff,
            generation: self.0 >> 16 & (HANDLE_GENERATIONS - 1),
        })
    }
}

/// A place in a pool, with the generation of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub index: u32,
    pub generation: u32,
}

/// A free slot waits until this many others are free, too, if the pool's bound leaves room: a stale
/// handle is recognized for longer.
const FREE_BEFORE_REUSE: usize = 64;

/// A pool of at most `bound` objects. Slots are used again in the order in which they became free.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    bound: usize,
    generations: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Pool<T> {
    /// `generations` is how many generations a name of an object can tell apart.
    pub fn new(bound: usize, generations: u32) -> Pool<T> {
        Pool {
            slots: Vec::new(),
            free: VecDeque::new(),
            bound,
            generations,
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= self.bound
    }

    /// Puts an object in; nothing if the pool is full.
    pub fn insert(&mut self, value: T) -> Option<Key> {
        if self.is_full() {
            return None;
        }
        let fresh = self.slots.len() < self.bound && self.free.len() < FREE_BEFORE_REUSE;
        let index = match if fresh { None } else { self.free.pop_front() } {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    value: None,
                });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Some(Key {
            index,
            generation: slot.generation,
        })
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation {
            slot.value.as_ref()
        } else {
            None
        }
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation {
            slot.value.as_mut()
        } else {
            None
        }
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) % self.generations;
        self.free.push_back(key.index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_for_none_are_of_their_kind_and_name_nothing() {
        assert_eq!(Handle::EQ_NONE.0 >> 29, HandleKind::Eq as u32);
        assert_eq!(Handle::CT_NONE.0 >> 29, HandleKind::Ct as u32);
        for none in [Handle::EQ_NONE, Handle::CT_NONE, Handle::INVALID] {
            assert_eq!(none.kind(), None);
        }
    }

    #[test]
    fn a_handle_is_read_as_it_was_made() {
        let key = Key {
            index: 0xfffe,
            generation: 2047,
        };
        let handle = Handle::new(HandleKind::Me, 3, key);
        assert_eq!(handle.kind(), Some(HandleKind::Me));
        assert_eq!(handle.interface(), 3);
        assert_eq!(handle.key(HandleKind::Me, 3), Some(key));
        assert_eq!(handle.key(HandleKind::Le, 3), None);
        assert_eq!(handle.key(HandleKind::Me, 2), None);
    }

    #[test]
    fn a_freed_key_names_nothing_even_when_its_slot_is_used_again() {
        let mut pool = Pool::new(1, HANDLE_GENERATIONS);
        let old = pool.insert(1).expect("the pool is empty");
        assert_eq!(pool.insert(2), None);
        assert_eq!(pool.remove(old), Some(1));
        let new = pool.insert(3).expect("the slot is free");
        assert_eq!(new.index, old.index);
        assert_eq!((pool.get(old), pool.get(new)), (None, Some(&3)));
        assert_eq!(pool.remove(old), None);
    }
}
