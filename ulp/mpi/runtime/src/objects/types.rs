//! Datatypes that the program made, by their handles, and what it has said of predefined ones.
//!
//! Owns: both. Must not know: which call or collective still uses one.

use crate::constants::{MPI_DATATYPE_NULL, MPI_ERR_OTHER, MPI_ERR_TYPE};
use crate::errors::{MpiError, Outcome};
use crate::handle::{Kind, Slab};
use crate::objects::attr::Attributes;
use crate::objects::datatype::named;
use ferriband_mpi_data::{Datatype, F90, Named};
use std::collections::HashMap;

/// A derived datatype.
#[derive(Debug)]
pub struct Type {
    /// What it is.
    pub datatype: Datatype,
    /// Whether it may be used in communication.
    pub committed: bool,
    /// What MPI_Type_set_name set.
    pub name: String,
    /// MPI_Type_free was called, but functions of the program are still given the handle.
    pub freed: bool,
    /// What the program keeps here.
    pub attributes: Attributes,
}

/// The datatypes of a process.
#[derive(Debug)]
pub struct Types {
    /// Derived datatypes.
    slab: Slab<Type>,
    /// Names that the program gave to predefined ones.
    renamed: HashMap<Named, String>,
    /// Handles of the datatypes of Fortran's kinds.
    f90: HashMap<F90, i32>,
    /// Attributes that the program has set on predefined datatypes.
    named_attributes: HashMap<i32, Attributes>,
}

impl Default for Types {
    fn default() -> Self {
        Self {
            slab: Slab::new(Kind::Datatype),
            renamed: HashMap::new(),
            f90: HashMap::new(),
            named_attributes: HashMap::new(),
        }
    }
}

impl Types {
    /// The datatype that a handle names.
    pub fn datatype(&self, handle: i32) -> Outcome<Datatype> {
        if let Some(named) = named(handle) {
            return Ok(Datatype::named(named));
        }
        Ok(self.derived(handle)?.1.datatype.clone())
    }

    /// The same, if it is committed: for what moves data.
    pub fn committed(&self, handle: i32) -> Outcome<Datatype> {
        if named(handle).is_none() && !self.derived(handle)?.1.committed {
            return Err(MpiError::with(MPI_ERR_TYPE, "it is not committed"));
        }
        self.datatype(handle)
    }

    /// The entry of a derived datatype, and its index.
    pub fn derived(&self, handle: i32) -> Outcome<(u32, &Type)> {
        let index = self.slab.index_of(handle);
        index
            .and_then(|index| Some((index, self.slab.get(index)?)))
            .ok_or_else(|| MpiError::new(MPI_ERR_TYPE))
    }

    /// The attributes of a datatype.
    pub fn attributes(&mut self, handle: i32) -> Option<&mut Attributes> {
        if named(handle).is_some() {
            return Some(self.named_attributes.entry(handle).or_default());
        }
        let index = self.slab.index_of(handle)?;
        Some(&mut self.slab[index].attributes)
    }

    /// Keeps a datatype; its handle.
    pub fn add(&mut self, datatype: Datatype, committed: bool) -> Outcome<i32> {
        let entry = Type {
            datatype,
            committed,
            name: String::new(),
            freed: false,
            attributes: Attributes::default(),
        };
        let index = self
            .slab
            .insert(entry)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many datatypes"))?;
        Ok(self.slab.handle(index))
    }

    /// The datatype at `index` may be used in communication.
    pub fn commit(&mut self, index: u32) {
        self.slab[index].committed = true;
    }

    /// The handle of the datatype of one of Fortran's kinds, made when it is first asked for.
    pub fn f90(&mut self, wanted: F90) -> Outcome<i32> {
        if let Some(handle) = self.f90.get(&wanted) {
            return Ok(*handle);
        }
        let handle = self.add(Datatype::f90(wanted)?, true)?;
        self.f90.insert(wanted, handle);
        Ok(handle)
    }

    /// A handle for a datatype that another one was made of: MPI's own has one, the program's gets a new one.
    pub fn handle_for(&mut self, datatype: &Datatype) -> Outcome<i32> {
        if let Some(named) = datatype.as_named() {
            return Ok(named.value().cast_signed());
        }
        let mut own = self.f90.values().copied();
        let is_it = |handle: &i32| {
            let index = self.slab.index_of(*handle);
            index.is_some_and(|index| self.slab[index].datatype.is(datatype))
        };
        match own.find(is_it) {
            Some(handle) => Ok(handle),
            None => self.add(datatype.clone(), false),
        }
    }

    /// Whether the program may free a datatype: it has made it.
    pub fn may_drop(&self, handle: i32) -> Outcome {
        if self.derived(handle)?.1.datatype.is_predefined() {
            return Err(MpiError::with(MPI_ERR_TYPE, "it is not the program's"));
        }
        Ok(())
    }

    /// Lets a derived datatype go; where `is_handed_out` it stays until [`Types::drop_freed`], for
    /// functions of the program are still given its handle. Messages keep what they need
    /// themselves.
    pub fn drop(&mut self, handle: i32, is_handed_out: bool) -> Outcome {
        self.may_drop(handle)?;
        let (index, _) = self.derived(handle)?;
        if is_handed_out {
            self.slab[index].freed = true;
        } else {
            self.slab.remove(index);
        }
        Ok(())
    }

    /// No function of the program is given a datatype's handle any more: it goes if it was freed.
    pub fn drop_freed(&mut self, handle: i32) {
        if let Some(index) = self.slab.index_of(handle)
            && self.slab[index].freed
        {
            self.slab.remove(index);
        }
    }

    /// The name of a datatype: MPI's own until the program sets another; nothing for a derived one. The null handle has one, too (MPI 4.1, 7.8).
    pub fn name(&self, handle: i32) -> Outcome<&str> {
        if handle == MPI_DATATYPE_NULL {
            return Ok("MPI_DATATYPE_NULL");
        }
        match named(handle) {
            Some(named) => Ok(self
                .renamed
                .get(&named)
                .map_or(named.name(), String::as_str)),
            None => Ok(&self.derived(handle)?.1.name),
        }
    }

    /// Sets the name.
    pub fn set_name(&mut self, handle: i32, name: String) -> Outcome {
        match named(handle) {
            Some(named) => {
                self.renamed.insert(named, name);
            }
            None => {
                let index = self.derived(handle)?.0;
                self.slab[index].name = name;
            }
        }
        Ok(())
    }
}
