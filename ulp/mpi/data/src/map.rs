//! The type map of a datatype, abstracted: sizes, bounds (MPI 5.1.6 to 5.1.8), the programs, the signature; and the three ways in which
//! maps are made of others: repeat, shift and concatenate. Every constructor is made of these.

use crate::error::Error;
use crate::external::size_of;
use crate::named::Named;
use crate::program::{Builder, Item, Seq, repeat};
use crate::signature::Signature;
use ferriband_arithmetic::Kind;
use std::sync::Arc;

/// What the elements of a map have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uniform {
    /// There are none.
    Empty,
    /// All are of this kind.
    One(Kind),
    /// They differ.
    Mixed,
}

impl Uniform {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, any) | (any, Self::Empty) => any,
            (Self::One(a), Self::One(b)) if a == b => self,
            _ => Self::Mixed,
        }
    }
}

/// A range of places, its end not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    pub lower: i64,
    pub upper: i64,
}

impl Bounds {
    /// Both ranges and what lies between.
    fn and(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.max(other.upper),
        }
    }

    fn shifted(self, by: i64) -> Result<Self, Error> {
        Ok(Self {
            lower: self.lower.checked_add(by).ok_or(Error::Overflow)?,
            upper: self.upper.checked_add(by).ok_or(Error::Overflow)?,
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Map {
    /// Bytes of data.
    pub size: i64,
    /// Bytes of data in external32: never more than `size`.
    pub external: i64,
    /// Lower and upper bound; nothing if no element and no mark gives one.
    pub bounds: Option<Bounds>,
    /// True if the bounds were set by MPI_Type_create_resized somewhere inside: then only such marks count.
    pub marked: bool,
    /// First and last byte of data; nothing without data.
    pub extent_of_data: Option<Bounds>,
    /// The largest alignment of an element.
    pub align: i64,
    /// Basic elements (a pair has two).
    pub elements: i64,
    pub uniform: Uniform,
    /// Elements of all kinds joined, for copying.
    pub program: Arc<Seq>,
    /// Elements of different kinds apart; nothing if `program` is that already.
    pub exact: Option<Arc<Seq>>,
    pub signature: Signature,
}

impl Map {
    pub(crate) fn empty() -> Self {
        Self {
            size: 0,
            external: 0,
            bounds: None,
            marked: false,
            extent_of_data: None,
            align: 1,
            elements: 0,
            uniform: Uniform::Empty,
            program: Arc::default(),
            exact: None,
            signature: Signature::EMPTY,
        }
    }

    pub(crate) fn named(named: Named) -> Self {
        let kind = named.kind();
        let bounds = Bounds {
            lower: 0,
            upper: kind.extent(),
        };
        let parts = match kind.parts() {
            Some(parts) => parts.to_vec(),
            None => vec![(kind, 0)],
        };
        let sequence = |exact| {
            let mut builder = Builder::new(exact);
            for &(kind, at) in &parts {
                builder.push(&Item::block(at, kind.size(), kind), 0);
            }
            builder.finish()
        };
        let uniform = parts.iter().fold(Uniform::Empty, |all, &(kind, _)| {
            all.and(Uniform::One(kind))
        });
        let end = parts.iter().map(|&(kind, at)| at + kind.size()).max();
        Self {
            size: kind.size(),
            external: parts.iter().map(|&(kind, _)| size_of(kind)).sum(),
            bounds: Some(bounds),
            marked: false,
            extent_of_data: Some(Bounds {
                lower: 0,
                upper: end.unwrap_or(0),
            }),
            align: kind.align(),
            elements: parts.len() as i64,
            uniform,
            program: sequence(false),
            exact: (uniform == Uniform::Mixed).then(|| sequence(true)),
            signature: Signature::of(kind),
        }
    }

    pub(crate) fn lower(&self) -> i64 {
        self.bounds.map_or(0, |bounds| bounds.lower)
    }

    /// Upper bound minus lower bound. Fits by construction.
    pub(crate) fn extent(&self) -> i64 {
        self.bounds.map_or(0, |bounds| bounds.upper - bounds.lower)
    }

    /// The program that keeps kinds apart.
    pub(crate) fn exact(&self) -> &Arc<Seq> {
        self.exact.as_ref().unwrap_or(&self.program)
    }

    /// This map `count` times, `stride` bytes apart.
    pub(crate) fn repeat(&self, count: i64, stride: i64) -> Result<Self, Error> {
        match count {
            0 => return Ok(Self::empty()),
            1 => return Ok(self.clone()),
            _ => {}
        }
        let last = (count - 1).checked_mul(stride);
        let spread = |bounds: Option<Bounds>| match bounds {
            None => Ok(None),
            Some(bounds) => {
                let all = bounds.and(bounds.shifted(last.ok_or(Error::Overflow)?)?);
                checked(all).map(Some)
            }
        };
        let sequence = |seq: &Arc<Seq>, exact| match repeat(seq, count, stride) {
            None => Arc::default(),
            Some(item) => {
                let mut builder = Builder::new(exact);
                builder.push(&item, 0);
                builder.finish()
            }
        };
        let size = self.size.checked_mul(count).ok_or(Error::Overflow)?;
        Ok(Self {
            size,
            external: self.external * count,
            bounds: spread(self.bounds)?,
            marked: self.marked,
            extent_of_data: spread(self.extent_of_data)?,
            align: self.align,
            elements: self.elements * count,
            uniform: self.uniform,
            program: sequence(&self.program, false),
            exact: self.exact.as_ref().map(|seq| sequence(seq, true)),
            signature: self.signature.repeat(count),
        })
    }

    /// With other bounds, which are marks from now on.
    pub(crate) fn resized(&self, lower: i64, extent: i64) -> Result<Self, Error> {
        let upper = lower.checked_add(extent).ok_or(Error::Overflow)?;
        Ok(Self {
            bounds: Some(Bounds { lower, upper }),
            marked: true,
            ..self.clone()
        })
    }

    /// With an upper bound such that an array of this type keeps its elements aligned, as a C structure has (MPI 5.1.6).
    pub(crate) fn padded(mut self) -> Result<Self, Error> {
        if !self.marked
            && let Some(bounds) = &mut self.bounds
        {
            let extent = bounds.upper - bounds.lower;
            let pad = extent.rem_euclid(self.align);
            if pad != 0 {
                let upper = bounds.upper.checked_add(self.align - pad);
                bounds.upper = upper.ok_or(Error::Overflow)?;
                checked(*bounds)?;
            }
        }
        Ok(self)
    }
}

/// The bounds, if their difference fits.
fn checked(bounds: Bounds) -> Result<Bounds, Error> {
    match bounds.upper.checked_sub(bounds.lower) {
        Some(_) => Ok(bounds),
        None => Err(Error::Overflow),
    }
}

/// Concatenates maps at places of their own.
pub(crate) struct Concatenation {
    map: Map,
    program: Builder,
    exact: Option<Builder>,
}

impl Concatenation {
    /// Of maps that together have elements of these kinds: `uniform` decides whether kinds must be kept apart.
    pub(crate) fn of<'a>(maps: impl IntoIterator<Item = &'a Map>) -> Self {
        let uniform = maps
            .into_iter()
            .fold(Uniform::Empty, |all, map| all.and(map.uniform));
        let mut map = Map::empty();
        map.uniform = uniform;
        Self {
            map,
            program: Builder::new(false),
            exact: (uniform == Uniform::Mixed).then(|| Builder::new(true)),
        }
    }

    /// Appends a map whose origin lies at `shift`.
    pub(crate) fn push(&mut self, map: &Map, shift: i64) -> Result<(), Error> {
        let all = &mut self.map;
        all.size = all.size.checked_add(map.size).ok_or(Error::Overflow)?;
        all.external += map.external;
        all.elements += map.elements;
        all.align = all.align.max(map.align);
        all.signature = all.signature.then(map.signature);
        if let Some(bounds) = map.bounds {
            let bounds = bounds.shifted(shift)?;
            // A mark drives out what is not marked; among marks, and among elements, the outermost count.
            match (all.bounds, all.marked, map.marked) {
                (_, true, false) => {}
                (Some(old), true, true) | (Some(old), false, false) => {
                    all.bounds = Some(checked(old.and(bounds))?);
                }
                (_, false, true) | (None, _, _) => all.bounds = Some(bounds),
            }
            all.marked |= map.marked;
        }
        if let Some(data) = map.extent_of_data {
            let data = data.shifted(shift)?;
            all.extent_of_data = Some(match all.extent_of_data {
                Some(old) => checked(old.and(data))?,
                None => data,
            });
        }
        self.program.push_seq(&map.program, shift);
        if let Some(exact) = &mut self.exact {
            exact.push_seq(map.exact(), shift);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Map {
        Map {
            program: self.program.finish(),
            exact: self.exact.map(Builder::finish),
            ..self.map
        }
    }
}
