//! Attributes: what a program keeps at communicators, datatypes and windows, under keys that it makes.
//!
//! The program's functions are numbers here; `abi/attribute.rs` calls them, with the runtime's lock
//! given up.

use crate::constants::{MPI_ERR_KEYVAL, MPI_ERR_OTHER};
use crate::errors::{MpiError, Outcome};
use crate::handle::Slab;

/// What an attribute is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A communicator.
    Comm,
    /// A datatype.
    Datatype,
    /// A window.
    Window,
}

/// A function of the program, and the face's function that calls it: their addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callback {
    /// The program's.
    pub function: usize,
    /// The face's.
    pub thunk: usize,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Keyval {
    /// What it is for.
    pub owner: Owner,
    /// Called when the object is duplicated: 0 copies nothing, 1 the value.
    pub copy: Callback,
    /// Called when an attribute goes; 0 for nothing.
    pub delete: Callback,
    /// What both are told.
    pub extra: usize,
    /// Attributes that bear the key.
    uses: u32,
    /// The program has freed it: it goes with its last attribute.
    freed: bool,
}

/// The attributes of one object, in the order of their setting.
#[derive(Debug, Default)]
pub struct Attributes(Vec<Attribute>);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Handle of its key.
    pub keyval: i32,
    /// The program's value.
    pub value: usize,
}

impl Attributes {
    /// The value of a key.
    pub fn get(&self, keyval: i32) -> Option<usize> {
        let found = self.0.iter().find(|one| one.keyval == keyval)?;
        Some(found.value)
    }

    /// All of them, in the order of their setting.
    pub fn list(&self) -> &[Attribute] {
        &self.0
    }

    /// The one that goes next when the object goes: they go in reverse.
    pub fn last(&self) -> Option<Attribute> {
        self.0.last().copied()
    }
}

/// The keys of a process.
#[derive(Debug)]
pub struct Keyvals(Slab<Keyval>);

impl Default for Keyvals {
    fn default() -> Self {
        Self(Slab::new(crate::handle::Kind::Keyval))
    }
}

impl Keyvals {
    /// Makes a key; its handle.
    pub fn create(
        &mut self,
        owner: Owner,
        copy: Callback,
        delete: Callback,
        extra: usize,
    ) -> Outcome<i32> {
        let index = self
            .0
            .insert(Keyval {
                owner,
                copy,
                delete,
                extra,
                uses: 0,
                freed: false,
            })
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many keyvals"))?;
        Ok(self.0.handle(index))
    }

    /// The key that a handle names, if it is one for such objects.
    pub fn find(&self, owner: Owner, handle: i32) -> Outcome<Keyval> {
        self.0
            .index_of(handle)
            .map(|index| self.0[index])
            .filter(|keyval| keyval.owner == owner)
            .ok_or_else(|| MpiError::new(MPI_ERR_KEYVAL))
    }

    /// The program needs the key no more.
    pub fn free(&mut self, owner: Owner, handle: i32) -> Outcome {
        self.find(owner, handle)?;
        let index = self.0.index_of(handle).expect("just found");
        self.0[index].freed = true;
        self.sweep(index);
        Ok(())
    }

    fn sweep(&mut self, index: u32) {
        if self.0[index].freed && self.0[index].uses == 0 {
            self.0.remove(index);
        }
    }

    /// Sets an attribute, whether it is there or not.
    pub fn put(&mut self, attributes: &mut Attributes, handle: i32, value: usize) {
        if let Some(old) = attributes.0.iter_mut().find(|one| one.keyval == handle) {
            old.value = value;
            return;
        }
        if let Some(index) = self.0.index_of(handle) {
            self.0[index].uses += 1;
            attributes.0.push(Attribute {
                keyval: handle,
                value,
            });
        }
    }

    /// Takes an attribute out.
    pub fn take(&mut self, attributes: &mut Attributes, handle: i32) {
        let Some(at) = attributes.0.iter().position(|one| one.keyval == handle) else {
            return;
        };
        attributes.0.remove(at);
        if let Some(index) = self.0.index_of(handle) {
            self.0[index].uses -= 1;
            self.sweep(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: &mut Keyvals) -> i32 {
        let none = Callback::default();
        keys.create(Owner::Comm, none, none, 7).expect("room")
    }

    #[test]
    fn a_freed_key_lives_as_long_as_an_attribute_bears_it() {
        let (mut keys, mut attributes) = (Keyvals::default(), Attributes::default());
        let handle = key(&mut keys);
        assert!(keys.find(Owner::Datatype, handle).is_err());
        keys.put(&mut attributes, handle, 1);
        keys.put(&mut attributes, handle, 2);
        keys.free(Owner::Comm, handle).expect("there");
        assert_eq!(keys.find(Owner::Comm, handle).expect("used").extra, 7);
        assert_eq!(attributes.get(handle), Some(2));
        keys.take(&mut attributes, handle);
        assert!(keys.find(Owner::Comm, handle).is_err());
        assert_eq!(attributes.get(handle), None);
    }

    #[test]
    fn attributes_keep_their_order() {
        let (mut keys, mut attributes) = (Keyvals::default(), Attributes::default());
        let handles: Vec<i32> = (0..3).map(|_| key(&mut keys)).collect();
        for handle in &handles {
            keys.put(&mut attributes, *handle, 0);
        }
        keys.put(&mut attributes, handles[0], 5);
        assert_eq!(attributes.last().expect("three").keyval, handles[2]);
        keys.take(&mut attributes, handles[1]);
        let left: Vec<i32> = attributes.list().iter().map(|one| one.keyval).collect();
        assert_eq!(left, [handles[0], handles[2]]);
    }
}
