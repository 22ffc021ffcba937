//! Subarrays and distributed arrays (MPI 5.1.4, 5.1.5).

use crate::datatype::Datatype;
use crate::envelope::{Combiner, Contents, Form};
use crate::error::Error;
use crate::map::{Concatenation, Map};

/// Which dimension of an array lies close together, by its value in the standard ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Order {
    /// MPI_ORDER_C: the last.
    C = 0xC,
    /// MPI_ORDER_FORTRAN: the first.
    Fortran = 0xF,
}

impl Order {
    /// From an argument `order`; [`Error::Constant`] if it is neither.
    pub fn from_value(value: i32) -> Result<Self, Error> {
        match value {
            0xC => Ok(Self::C),
            0xF => Ok(Self::Fortran),
            _ => Err(Error::Constant {
                what: "order",
                value: value.into(),
            }),
        }
    }

    /// Dimensions from the one that lies close together outwards.
    fn inside_out(self, dimensions: usize) -> Box<dyn Iterator<Item = usize>> {
        match self {
            Self::C => Box::new((0..dimensions).rev()),
            Self::Fortran => Box::new(0..dimensions),
        }
    }
}

/// How a dimension is dealt out to processes, by its value in the standard ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Distribution {
    /// MPI_DISTRIBUTE_NONE: not at all.
    None = 16,
    /// MPI_DISTRIBUTE_BLOCK: one block for each process.
    Block = 17,
    /// MPI_DISTRIBUTE_CYCLIC: blocks in turn.
    Cyclic = 18,
}

impl Distribution {
    /// MPI_DISTRIBUTE_DFLT_DARG: the usual argument of a distribution.
    pub const DEFAULT_ARGUMENT: i64 = 19;

    /// From an element of `array_of_distribs`; [`Error::Constant`] if it is unknown.
    pub fn from_value(value: i32) -> Result<Self, Error> {
        match value {
            16 => Ok(Self::None),
            17 => Ok(Self::Block),
            18 => Ok(Self::Cyclic),
            _ => Err(Error::Constant {
                what: "distribution",
                value: value.into(),
            }),
        }
    }
}

impl Datatype {
    /// MPI_Type_create_subarray: the elements `starts .. starts + subsizes` of an array of `sizes` elements; the extent is the
    /// whole array's. [`Error::Dimensions`] without any, [`Error::Dimension`] for a size under 1 or a part that sticks out.
    pub fn subarray(
        form: Form,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Self,
    ) -> Result<Self, Error> {
        let dimensions = dimensions(sizes, &[subsizes, starts])?;
        for dimension in 0..dimensions {
            let wrong = |what, value| {
                Err(Error::Dimension {
                    dimension,
                    what,
                    value,
                })
            };
            let [size, subsize, start] = [sizes, subsizes, starts].map(|array| array[dimension]);
            if size < 1 {
                return wrong("size", size);
            }
            if subsize < 1 || subsize > size {
                return wrong("subsize", subsize);
            }
            if start < 0 || start > size - subsize {
                return wrong("start", start);
            }
        }
        let mut map = old.map().clone();
        let (mut extent, mut first) = (old.extent(), 0_i64);
        for dimension in order.inside_out(dimensions) {
            map = map.repeat(subsizes[dimension], extent)?;
            let skipped = starts[dimension].checked_mul(extent);
            first = skipped
                .and_then(|skipped| first.checked_add(skipped))
                .ok_or(Error::Overflow)?;
            extent = extent
                .checked_mul(sizes[dimension])
                .ok_or(Error::Overflow)?;
        }
        let map = placed(&map, first, extent)?;
        let lists = [sizes, subsizes, starts].into_iter().flatten().copied();
        let mut contents = match form {
            Form::Int => {
                let counts = [dimensions as i64].into_iter().chain(lists);
                Contents::of_counts(Combiner::Subarray, form, counts, vec![old.clone()])
            }
            Form::Count => {
                let mut contents =
                    Contents::of_counts(Combiner::Subarray, form, lists, vec![old.clone()]);
                contents.integers.push(dimensions as i32);
                contents
            }
        };
        contents.integers.push(order as i32);
        Self::derived(map, contents)
    }

    /// MPI_Type_create_darray: what process `rank` of `size` has of an array of `gsizes` elements that is dealt out to a grid of
    /// `psizes` processes (in C's order) as `distribs` with the arguments `dargs` say; the extent is the whole array's.
    ///
    /// [`Error::Grid`] if the grid does not have `size` processes or `rank` is not one of them, [`Error::Dimension`] for a size or an
    /// argument that does not fit.
    #[allow(clippy::too_many_arguments)] // the standard's list
    pub fn darray(
        form: Form,
        size: i32,
        rank: i32,
        gsizes: &[i64],
        distribs: &[Distribution],
        dargs: &[i32],
        psizes: &[i32],
        order: Order,
        old: &Self,
    ) -> Result<Self, Error> {
        let lists = [distribs.len(), dargs.len(), psizes.len()];
        let dimensions = dimensions_of(gsizes.len(), &lists)?;
        let places = places(size, rank, psizes)?;
        let mut map = old.map().clone();
        let (mut extent, mut first) = (old.extent(), 0_i64);
        for dimension in order.inside_out(dimensions) {
            let share = Share {
                elements: gsizes[dimension],
                processes: psizes[dimension].into(),
                place: places[dimension],
                block: block(
                    dimension,
                    gsizes[dimension],
                    distribs[dimension],
                    dargs[dimension].into(),
                    psizes[dimension].into(),
                )?,
            };
            let start;
            (map, start) = share.of(&map, extent)?;
            first = first.checked_add(start).ok_or(Error::Overflow)?;
            extent = extent
                .checked_mul(gsizes[dimension])
                .ok_or(Error::Overflow)?;
        }
        let map = placed(&map, first, extent)?;
        let distribs = distribs.iter().map(|&distribution| distribution as i64);
        let rest = distribs
            .chain(dargs.iter().map(|&argument| argument.into()))
            .chain(psizes.iter().map(|&processes| processes.into()))
            .chain([order as i64]);
        let head = [size.into(), rank.into(), dimensions as i64];
        let integers: Vec<i64> = match form {
            Form::Int => head
                .into_iter()
                .chain(gsizes.iter().copied())
                .chain(rest)
                .collect(),
            Form::Count => head.into_iter().chain(rest).collect(),
        };
        let mut contents =
            Contents::of_counts(Combiner::Darray, Form::Int, integers, vec![old.clone()]);
        if form == Form::Count {
            contents.counts = gsizes.to_vec();
        }
        Self::derived(map, contents)
    }
}

/// The map moved to `first` bytes, with bounds 0 and `extent`.
fn placed(map: &Map, first: i64, extent: i64) -> Result<Map, Error> {
    let mut moved = Concatenation::of([map]);
    moved.push(map, first)?;
    moved.finish().resized(0, extent)
}

fn dimensions(first: &[i64], others: &[&[i64]]) -> Result<usize, Error> {
    let others: Vec<usize> = others.iter().map(|list| list.len()).collect();
    dimensions_of(first.len(), &others)
}

fn dimensions_of(expected: usize, others: &[usize]) -> Result<usize, Error> {
    if expected == 0 {
        return Err(Error::Dimensions(0));
    }
    match others.iter().find(|&&got| got != expected) {
        Some(&got) => Err(Error::Lengths { expected, got }),
        None => Ok(expected),
    }
}

/// The process's place in each dimension of the grid, which is ordered as C orders arrays whatever the array's order is.
fn places(size: i32, rank: i32, psizes: &[i32]) -> Result<Vec<i64>, Error> {
    let mut processes = 1_i64;
    for (dimension, &part) in psizes.iter().enumerate() {
        if part < 1 {
            return Err(Error::Dimension {
                dimension,
                what: "number of processes",
                value: part.into(),
            });
        }
        processes = processes.saturating_mul(part.into());
    }
    if processes != i64::from(size) {
        return Err(Error::Grid {
            what: "size",
            value: size.into(),
            expected: processes,
        });
    }
    if rank < 0 || rank >= size {
        return Err(Error::Grid {
            what: "rank",
            value: rank.into(),
            expected: processes,
        });
    }
    let mut left = i64::from(rank);
    let mut inner = processes;
    Ok(psizes
        .iter()
        .map(|&part| {
            inner /= i64::from(part);
            let place = left / inner;
            left %= inner;
            place
        })
        .collect())
}

/// Elements in one block of a dimension: every distribution is a cyclic one with some block.
fn block(
    dimension: usize,
    elements: i64,
    distribution: Distribution,
    argument: i64,
    processes: i64,
) -> Result<i64, Error> {
    let wrong = |what, value| {
        Err(Error::Dimension {
            dimension,
            what,
            value,
        })
    };
    if elements < 1 {
        return wrong("global size", elements);
    }
    let default = argument == Distribution::DEFAULT_ARGUMENT;
    match distribution {
        Distribution::None if processes != 1 => wrong("number of processes", processes),
        Distribution::None => Ok(elements),
        Distribution::Block if default => Ok((elements - 1) / processes + 1),
        Distribution::Cyclic if default => Ok(1),
        _ if argument < 1 => wrong("distribution argument", argument),
        // A block for each process must hold the whole dimension.
        Distribution::Block if argument.saturating_mul(processes) < elements => {
            wrong("distribution argument", argument)
        }
        Distribution::Block | Distribution::Cyclic => Ok(argument),
    }
}

/// One process's share of one dimension.
struct Share {
    elements: i64,
    processes: i64,
    place: i64,
    block: i64,
}

impl Share {
    /// The share's map relative to its first byte, which lies at the second result.
    fn of(&self, old: &Map, extent: i64) -> Result<(Map, i64), Error> {
        let blocks = (self.elements - 1) / self.block + 1;
        if self.place >= blocks {
            return Ok((Map::empty(), 0));
        }
        // Blocks place, place + processes, ..: the array's last one may be short.
        let mine = (blocks - 1 - self.place) / self.processes + 1;
        let has_last = (blocks - 1 - self.place) % self.processes == 0;
        let short = self.elements - (blocks - 1) * self.block;
        let bytes = |elements: i64| elements.checked_mul(extent).ok_or(Error::Overflow);
        let first = bytes(self.place * self.block)?;
        let whole = if has_last { mine - 1 } else { mine };
        let full = old.repeat(self.block, extent)?;
        let tail = old.repeat(short, extent)?;
        if whole == 0 {
            return Ok((tail, first));
        }
        let step = match self.block.checked_mul(self.processes) {
            Some(step) => bytes(step),
            None => Err(Error::Overflow),
        };
        let mut all = Concatenation::of([old]);
        match whole {
            1 => all.push(&full, 0)?,
            _ => all.push(&full.repeat(whole, step?)?, 0)?,
        }
        if has_last {
            let at = whole.checked_mul(step?).ok_or(Error::Overflow)?;
            all.push(&tail, at)?;
        }
        Ok((all.finish(), first))
    }
}
