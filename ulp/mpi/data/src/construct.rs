//! The constructors of MPI 5.1.2 and 5.1.3, and 5.1.7 (resized), 5.1.10 (dup). Arrays have theirs in [`array`](crate::array).
//!
//! Arguments are those of the MPI functions; counts and blocklengths are elements, `stride` and displacements elements of the old
//! type or (in the constructors with an *h*, in struct and in resized) bytes. `form` says whose arguments they were.
//! Each returns [`Error::Count`] for a negative count, [`Error::Blocklength`] for a negative blocklength, [`Error::Overflow`] if
//! size, bounds or a place would not fit 64 bits, [`Error::TooDeep`] after more than 4,096 levels.

use crate::datatype::Datatype;
use crate::envelope::{Combiner, Contents, Form};
use crate::error::Error;
use crate::map::{Concatenation, Map};

impl Datatype {
    /// MPI_Type_contiguous: `count` elements, one after the other.
    pub fn contiguous_of(form: Form, count: i64, old: &Self) -> Result<Self, Error> {
        let count = natural(count)?;
        let map = old.map().repeat(count, old.extent())?;
        let contents = Contents::of_counts(Combiner::Contiguous, form, [count], vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_vector: `count` blocks of `blocklength` elements, their beginnings `stride` elements apart.
    pub fn vector(
        form: Form,
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Self,
    ) -> Result<Self, Error> {
        let map = blocks(count, blocklength, old, || {
            stride.checked_mul(old.extent()).ok_or(Error::Overflow)
        })?;
        let counts = [count, blocklength, stride];
        let contents = Contents::of_counts(Combiner::Vector, form, counts, vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_create_hvector: as [`vector`](Self::vector), with `stride` in bytes.
    pub fn hvector(
        form: Form,
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Self,
    ) -> Result<Self, Error> {
        let map = blocks(count, blocklength, old, || Ok(stride))?;
        let counts = [count, blocklength];
        let contents = Contents::of(Combiner::Hvector, form, counts, [stride], vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_indexed: blocks of `blocklengths` elements at `displacements` in elements.
    pub fn indexed(
        form: Form,
        blocklengths: &[i64],
        displacements: &[i64],
        old: &Self,
    ) -> Result<Self, Error> {
        let count = same_length(blocklengths, displacements)?;
        let map = scattered(
            blocklengths.iter().copied(),
            displacements,
            old.extent(),
            old,
        )?;
        let counts = [count].into_iter().chain(both(blocklengths, displacements));
        let contents = Contents::of_counts(Combiner::Indexed, form, counts, vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_create_hindexed: as [`indexed`](Self::indexed), with `displacements` in bytes.
    pub fn hindexed(
        form: Form,
        blocklengths: &[i64],
        displacements: &[i64],
        old: &Self,
    ) -> Result<Self, Error> {
        let count = same_length(blocklengths, displacements)?;
        let map = scattered(blocklengths.iter().copied(), displacements, 1, old)?;
        let counts = [count].into_iter().chain(blocklengths.iter().copied());
        let bytes = displacements.iter().copied();
        let contents = Contents::of(Combiner::Hindexed, form, counts, bytes, vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_create_indexed_block: blocks of `blocklength` elements at `displacements` in elements.
    pub fn indexed_block(
        form: Form,
        blocklength: i64,
        displacements: &[i64],
        old: &Self,
    ) -> Result<Self, Error> {
        let lengths = std::iter::repeat_n(blocklength, displacements.len());
        let map = scattered(lengths, displacements, old.extent(), old)?;
        let counts = [displacements.len() as i64, blocklength];
        let counts = counts.into_iter().chain(displacements.iter().copied());
        let contents = Contents::of_counts(Combiner::IndexedBlock, form, counts, vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_create_hindexed_block: as [`indexed_block`](Self::indexed_block), with `displacements` in bytes.
    pub fn hindexed_block(
        form: Form,
        blocklength: i64,
        displacements: &[i64],
        old: &Self,
    ) -> Result<Self, Error> {
        let lengths = std::iter::repeat_n(blocklength, displacements.len());
        let map = scattered(lengths, displacements, 1, old)?;
        let counts = [displacements.len() as i64, blocklength];
        let bytes = displacements.iter().copied();
        let contents = Contents::of(
            Combiner::HindexedBlock,
            form,
            counts,
            bytes,
            vec![old.clone()],
        );
        Self::derived(map, contents)
    }

    /// MPI_Type_create_struct: blocks of `blocklengths` elements of `types`, at `displacements` in bytes. Without marks by
    /// [`resized`](Self::resized) inside, the extent is padded as C pads a structure.
    pub fn structure(
        form: Form,
        blocklengths: &[i64],
        displacements: &[i64],
        types: &[Self],
    ) -> Result<Self, Error> {
        let count = same_length(blocklengths, displacements)?;
        if types.len() != blocklengths.len() {
            return Err(Error::Lengths {
                expected: blocklengths.len(),
                got: types.len(),
            });
        }
        let members = || blocklengths.iter().zip(displacements).zip(types);
        let with_data = members().filter(|((length, _), old)| **length > 0 && old.size() > 0);
        let mut all = Concatenation::of(with_data.map(|(_, old)| old.map()));
        for (index, ((&length, &at), old)) in members().enumerate() {
            if length < 0 {
                return Err(Error::Blocklength {
                    index,
                    value: length,
                });
            }
            all.push(&old.map().repeat(length, old.extent())?, at)?;
        }
        let counts = [count].into_iter().chain(blocklengths.iter().copied());
        let bytes = displacements.iter().copied();
        let contents = Contents::of(Combiner::Struct, form, counts, bytes, types.to_vec());
        Self::derived(all.finish().padded()?, contents)
    }

    /// MPI_Type_create_resized: other bounds, `lb` and `extent` bytes; those that were set before are forgotten.
    pub fn resized(form: Form, lb: i64, extent: i64, old: &Self) -> Result<Self, Error> {
        let map = old.map().resized(lb, extent)?;
        let contents = Contents::of(Combiner::Resized, form, [], [lb, extent], vec![old.clone()]);
        Self::derived(map, contents)
    }

    /// MPI_Type_dup: a type of its own with the same map. What a handle has besides (the committed mark, attributes) is copied
    /// by its owner.
    pub fn dup(old: &Self) -> Result<Self, Error> {
        let contents = Contents::of_counts(Combiner::Dup, Form::Int, [], vec![old.clone()]);
        Self::with_basic(old.map().clone(), contents, old.basic())
    }
}

fn natural(count: i64) -> Result<i64, Error> {
    if count < 0 {
        return Err(Error::Count(count));
    }
    Ok(count)
}

fn same_length(a: &[i64], b: &[i64]) -> Result<i64, Error> {
    if a.len() != b.len() {
        return Err(Error::Lengths {
            expected: a.len(),
            got: b.len(),
        });
    }
    Ok(a.len() as i64)
}

fn both<'a>(a: &'a [i64], b: &'a [i64]) -> impl Iterator<Item = i64> + use<'a> {
    a.iter().chain(b).copied()
}

/// `count` blocks at a distance that is asked for only if it matters: with one block, or empty ones, any stride is fine.
fn blocks(
    count: i64,
    blocklength: i64,
    old: &Datatype,
    stride: impl FnOnce() -> Result<i64, Error>,
) -> Result<Map, Error> {
    natural(count)?;
    if blocklength < 0 {
        return Err(Error::Blocklength {
            index: 0,
            value: blocklength,
        });
    }
    let block = old.map().repeat(blocklength, old.extent())?;
    match count {
        0 | 1 => block.repeat(count, 0),
        _ if block.bounds.is_none() => Ok(block),
        _ => block.repeat(count, stride()?),
    }
}

/// Blocks at displacements in units of `unit` bytes.
fn scattered(
    blocklengths: impl Iterator<Item = i64>,
    displacements: &[i64],
    unit: i64,
    old: &Datatype,
) -> Result<Map, Error> {
    let mut all = Concatenation::of([old.map()]);
    // Blocks of one length share one map.
    let mut block = Map::empty();
    let mut length_of_block = 0;
    for (index, (length, &at)) in blocklengths.zip(displacements).enumerate() {
        if length < 0 {
            return Err(Error::Blocklength {
                index,
                value: length,
            });
        }
        if length == 0 {
            continue;
        }
        if length != length_of_block {
            block = old.map().repeat(length, old.extent())?;
            length_of_block = length;
        }
        all.push(&block, at.checked_mul(unit).ok_or(Error::Overflow)?)?;
    }
    Ok(all.finish())
}
