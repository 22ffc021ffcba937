//! Handles: a kind, a generation and an index in one positive number, so that a stale or foreign handle is an error and not a crash.

/// What a handle names. Predefined objects have the standard's values, below all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A communicator.
    Comm = 1,
    /// A request.
    Request = 2,
    /// A message that waits for its receive.
    Message = 3,
    /// A derived datatype.
    Datatype = 4,
    /// An operation of the program.
    Operation = 12,
    /// A group.
    Group = 5,
    /// An info object.
    Info = 6,
    /// An error handler.
    Errhandler = 7,
    /// A session.
    Session = 8,
    /// The key of attributes.
    Keyval = 9,
}

const KIND_SHIFT: u32 = 26;
const GENERATION_SHIFT: u32 = 22;
const GENERATIONS: u32 = 16;
const INDEX: u32 = (1 << GENERATION_SHIFT) - 1;

/// No object has this index.
pub const NOBODY: u32 = u32::MAX;

/// What names an object to who has to do with it for a while: its index, and a generation that does
/// not come again, so that what comes late finds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// Names nothing.
    pub const NONE: Self = Self(u64::MAX);
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Slab<T> {
    kind: Kind,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// No more objects of a kind can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<T> Slab<T> {
    /// Without objects.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Keeps an object; its index.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> Result<u32, Full> {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].value = Some(value);
            return Ok(index);
        }
        let index = self.slots.len() as u32;
        if index > INDEX {
            return Err(Full);
        }
        self.slots.push(Slot {
            generation: 0,
            value: Some(value),
        });
        Ok(index)
    }

    /// Takes an object out; its handle is stale from now on.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    /// The same for who does not need the object: it ends where it lies, because to move a large one costs more than all else.
    #[inline]
    pub fn discard(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.value.is_some()
        {
            slot.value = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    /// Makes the handle of the object at `index` stale; the object stays for who knows its index.
    pub fn retire(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.generation = slot.generation.wrapping_add(1);
        }
    }

    /// The handle of the object at `index`.
    #[inline]
    pub fn handle(&self, index: u32) -> i32 {
        let generation = self.slots[index as usize].generation % GENERATIONS;
        ((self.kind as u32) << KIND_SHIFT | generation << GENERATION_SHIFT | index).cast_signed()
    }

    /// What names the object at `index` from here on until it is retired or goes.
    #[inline]
    pub fn token(&self, index: u32) -> Token {
        let generation = self.slots[index as usize].generation;
        Token(u64::from(generation) << 32 | u64::from(index))
    }

    /// The index of the object that `token` names, if that is still there.
    #[inline]
    pub fn at(&self, token: Token) -> Option<u32> {
        let index = token.0 as u32;
        let slot = self.slots.get(index as usize)?;
        let is_it = slot.value.is_some() && u64::from(slot.generation) == token.0 >> 32;
        is_it.then_some(index)
    }

    /// The index of the object that `handle` names.
    #[inline]
    pub fn index_of(&self, handle: i32) -> Option<u32> {
        let bits = handle.cast_unsigned();
        let index = bits & INDEX;
        let slot = self.slots.get(index as usize)?;
        let is_it = slot.value.is_some() && self.handle(index) == handle;
        is_it.then_some(index)
    }

    /// The object that `handle` names, and its index.
    #[inline(always)]
    pub fn named(&self, handle: i32) -> Option<(u32, &T)> {
        let bits = handle.cast_unsigned();
        let index = bits & INDEX;
        let slot = self.slots.get(index as usize)?;
        let generation = slot.generation % GENERATIONS;
        let own = (self.kind as u32) << KIND_SHIFT | generation << GENERATION_SHIFT | index;
        slot.value
            .as_ref()
            .filter(|_| own == bits)
            .map(|value| (index, value))
    }

    /// The object at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    /// The same, to change.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// All indexes are below this.
    pub fn places(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The first object that is looked for: its index.
    pub fn find(&self, mut is_it: impl FnMut(&T) -> bool) -> Option<u32> {
        let at = self
            .slots
            .iter()
            .position(|slot| slot.value.as_ref().is_some_and(&mut is_it))?;
        Some(at as u32)
    }

    /// All objects, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// All of them, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(index, slot)| Some((index, slot.value.as_ref()?)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The object at an index that the caller knows to be there.
impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        self.get(index)
            .expect("an index that the runtime itself keeps")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.get_mut(index)
            .expect("an index that the runtime itself keeps")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_or_foreign_handle_is_none() {
        let mut slab = Slab::new(Kind::Request);
        let first = slab.insert("a").expect("room");
        let handle = slab.handle(first);
        assert!(handle > 0x400, "above the predefined ones");
        assert_eq!(slab.index_of(handle), Some(first));
        slab.remove(first);
        assert_eq!(slab.index_of(handle), None);
        let again = slab.insert("b").expect("room");
        assert_eq!(again, first, "the place is used again");
        assert_eq!(slab.index_of(handle), None, "under another handle");
        let other: Slab<&str> = Slab::new(Kind::Comm);
        assert_eq!(other.index_of(slab.handle(again)), None);
        assert_eq!(slab.index_of(0), None);
        assert_eq!(slab.index_of(-1), None);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_token_names_one_object_for_ever() {
        let mut slab = Slab::new(Kind::Request);
        assert_eq!(slab.at(Token::NONE), None);
        let index = slab.insert("a").expect("room");
        let (handle, token) = (slab.handle(index), slab.token(index));
        assert_eq!(slab.at(token), Some(index));
        for _ in 0..GENERATIONS {
            slab.retire(index);
            assert_eq!(slab.at(token), None);
        }
        assert_eq!(slab.index_of(handle), Some(index), "a handle comes again");
        let token = slab.token(index);
        slab.remove(index);
        assert_eq!(slab.at(token), None);
    }
}
