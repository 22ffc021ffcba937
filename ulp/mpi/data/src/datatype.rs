//! A datatype: an immutable object that its users share.

use crate::envelope::{Combiner, Contents};
use crate::error::Error;
use crate::map::{Map, Uniform};
use crate::named::Named;
use crate::signature::Signature;
use crate::view::Span;
use ferriband_arithmetic::Kind;
use std::sync::{Arc, OnceLock};

/// Types may be nested so deep; dropping one visits its ancestors one inside the other.
pub(crate) const MAX_DEPTH: u32 = 4096;

/// A predefined or derived datatype. Cloning it is a reference more; the last one frees it.
///
/// All lengths are bytes. Whether a type is committed is a mark of its handle: there is nothing left to do here when
/// MPI_Type_commit is called, the program is made with the type.
#[derive(Clone)]
pub struct Datatype(Arc<Inner>);

struct Inner {
    map: Map,
    contents: Contents,
    named: Option<Named>,
    /// The kind that reductions see: predefined types, those of MPI_Type_create_f90_x, and duplicates of either.
    basic: Option<Named>,
    depth: u32,
}

impl std::fmt::Debug for Datatype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.named {
            Some(named) => f.write_str(named.name()),
            None => f
                .debug_struct("Datatype")
                .field("combiner", &self.0.contents.combiner)
                .field("size", &self.size())
                .field("lb", &self.lb())
                .field("extent", &self.extent())
                .finish_non_exhaustive(),
        }
    }
}

impl Datatype {
    /// A predefined type.
    pub fn named(named: Named) -> Self {
        static TABLE: OnceLock<Vec<Datatype>> = OnceLock::new();
        let table = TABLE.get_or_init(|| {
            let make = |&named: &Named| {
                Self(Arc::new(Inner {
                    map: Map::named(named),
                    contents: Contents {
                        combiner: Combiner::Named,
                        integers: Vec::new(),
                        addresses: Vec::new(),
                        counts: Vec::new(),
                        types: Vec::new(),
                    },
                    named: Some(named),
                    basic: Some(named),
                    depth: 0,
                }))
            };
            Named::ALL.iter().map(make).collect()
        });
        let index = Named::ALL
            .binary_search(&named)
            .expect("ALL has every predefined type, in order");
        table[index].clone()
    }

    /// A type with this map, made as `contents` say.
    pub(crate) fn derived(map: Map, contents: Contents) -> Result<Self, Error> {
        Self::with_basic(map, contents, None)
    }

    pub(crate) fn with_basic(
        map: Map,
        contents: Contents,
        basic: Option<Named>,
    ) -> Result<Self, Error> {
        let depth = contents.types.iter().map(|old| old.0.depth).max();
        let depth = depth.map_or(0, |depth| depth + 1);
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep(MAX_DEPTH));
        }
        Ok(Self(Arc::new(Inner {
            map,
            contents,
            named: None,
            basic,
            depth,
        })))
    }

    pub(crate) fn map(&self) -> &Map {
        &self.0.map
    }

    /// Bytes of data in one element (MPI_Type_size).
    pub fn size(&self) -> i64 {
        self.0.map.size
    }

    /// Lower bound (MPI_Type_get_extent).
    pub fn lb(&self) -> i64 {
        self.0.map.lower()
    }

    /// Upper bound: `lb + extent`.
    pub fn ub(&self) -> i64 {
        self.0.map.lower() + self.0.map.extent()
    }

    /// Bytes from one element to the next (MPI_Type_get_extent).
    pub fn extent(&self) -> i64 {
        self.0.map.extent()
    }

    /// Place of the first byte of data (MPI_Type_get_true_extent); 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.0.map.extent_of_data.map_or(0, |data| data.lower)
    }

    /// Bytes from the first byte of data to the end of the last (MPI_Type_get_true_extent).
    pub fn true_extent(&self) -> i64 {
        let data = self.0.map.extent_of_data;
        data.map_or(0, |data| data.upper - data.lower)
    }

    /// Basic elements in one element; a value with its index counts as two.
    pub fn elements(&self) -> i64 {
        self.0.map.elements
    }

    /// Contiguous runs in one element: 1 if it can be moved as it lies; saturating.
    pub fn runs(&self) -> i64 {
        self.0.map.program.runs
    }

    /// The one range that `count` elements fill without gaps and in order, if they do; `offset` is relative to the buffer's
    /// address. `None` as well if the range does not fit 64 bits.
    pub fn contiguous(&self, count: i64) -> Option<Span> {
        let map = &self.0.map;
        if map.program.runs != 1 {
            return (map.size == 0 || count == 0).then_some(Span { offset: 0, len: 0 });
        }
        if count != 1 && map.extent() != map.size {
            return (count == 0).then_some(Span { offset: 0, len: 0 });
        }
        let len = map.size.checked_mul(count)?;
        let offset = self.true_lb();
        offset.checked_add(len)?;
        Some(Span { offset, len })
    }

    /// The predefined type that this is, if it is one. Types of MPI_Type_create_f90_x have no name of their own.
    pub fn as_named(&self) -> Option<Named> {
        self.0.named
    }

    /// True for what programs may not free: predefined types and those of MPI_Type_create_f90_x (5.1.9, 19.1.9).
    pub fn is_predefined(&self) -> bool {
        matches!(
            self.0.contents.combiner,
            Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer
        )
    }

    /// The predefined type that predefined operations see: this one, or the one that MPI_Type_create_f90_x chose, or the one
    /// that this is a duplicate of.
    pub fn basic(&self) -> Option<Named> {
        self.0.basic
    }

    /// The kind of all its elements, if they are of one; `None` for a mixture or without elements. Pairs are mixtures.
    pub fn kind(&self) -> Option<Kind> {
        match self.0.map.uniform {
            Uniform::One(kind) => Some(kind),
            Uniform::Empty | Uniform::Mixed => None,
        }
    }

    /// The signature of one element, to compare what two processes pass.
    pub fn signature(&self) -> Signature {
        self.0.map.signature
    }

    /// How it was made (MPI_Type_get_envelope, MPI_Type_get_contents).
    pub fn contents(&self) -> &Contents {
        &self.0.contents
    }

    /// True if both are the same object, not merely equal.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
