//! A naive interpreter of type maps: every element by itself, from nothing but the constructors' arguments.

#![allow(dead_code)] // each test uses its part

use ferriband_mpi_data::{Combiner, Datatype, Distribution, Form, Kind, Named, Order};
use proptest::prelude::*;

/// The type map of one element, with the bounds as MPI defines them.
#[derive(Debug, Clone, Default)]
pub struct Naive {
    /// Kind and displacement of each basic element.
    pub elements: Vec<(Kind, i64)>,
    pub bounds: Option<(i64, i64)>,
    pub marked: bool,
    pub align: i64,
}

impl Naive {
    pub fn size(&self) -> i64 {
        self.elements.iter().map(|(kind, _)| kind.size()).sum()
    }

    pub fn lb(&self) -> i64 {
        self.bounds.map_or(0, |(lower, _)| lower)
    }

    pub fn extent(&self) -> i64 {
        self.bounds.map_or(0, |(lower, upper)| upper - lower)
    }

    pub fn true_bounds(&self) -> (i64, i64) {
        let first = self.elements.iter().map(|&(_, at)| at).min();
        let end = self
            .elements
            .iter()
            .map(|&(kind, at)| at + kind.size())
            .max();
        (first.unwrap_or(0), end.unwrap_or(0))
    }

    /// One element of another type at a place.
    fn place(&mut self, other: &Self, at: i64) {
        let shifted = other
            .elements
            .iter()
            .map(|&(kind, place)| (kind, place + at));
        self.elements.extend(shifted);
        self.align = self.align.max(other.align);
        let Some((lower, upper)) = other.bounds else {
            return;
        };
        let (lower, upper) = (lower + at, upper + at);
        if self.marked && !other.marked {
            return;
        }
        if other.marked && !self.marked {
            self.bounds = None;
            self.marked = true;
        }
        self.bounds = Some(match self.bounds {
            None => (lower, upper),
            Some((old_lower, old_upper)) => (old_lower.min(lower), old_upper.max(upper)),
        });
    }

    /// Byte offsets of the packed stream of `count` elements.
    pub fn bytes(&self, count: i64) -> Vec<i64> {
        let mut bytes = Vec::new();
        for index in 0..count {
            for &(kind, at) in &self.elements {
                bytes.extend((0..kind.size()).map(|byte| index * self.extent() + at + byte));
            }
        }
        bytes
    }

    pub fn of(datatype: &Datatype) -> Self {
        let contents = datatype.contents();
        // Both forms have the counts first and the displacements behind them.
        let mut arguments: Vec<i64> = contents.integers.iter().map(|&int| int.into()).collect();
        arguments.extend(&contents.counts);
        arguments.extend(&contents.addresses);
        let olds: Vec<Self> = contents.types.iter().map(Self::of).collect();
        let mut made = Self {
            align: 1,
            ..Self::default()
        };
        let head = |index: usize| arguments.get(index).copied().unwrap_or(0);
        match contents.combiner {
            Combiner::Named => {
                made = Self::named(datatype.as_named().expect("a named type has a name"));
            }
            Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
                made = Self::named(datatype.basic().expect("a type of Fortran is basic"));
            }
            Combiner::Dup => made = olds[0].clone(),
            Combiner::Contiguous => made.blocks(&olds[0], [(head(0), 0)]),
            Combiner::Vector | Combiner::Hvector => {
                let unit = match contents.combiner {
                    Combiner::Vector => olds[0].extent(),
                    _ => 1,
                };
                let blocks = (0..head(0)).map(|index| (head(1), index * head(2) * unit));
                made.blocks(&olds[0], blocks.collect::<Vec<_>>());
            }
            Combiner::Indexed | Combiner::Hindexed => {
                let unit = match contents.combiner {
                    Combiner::Indexed => olds[0].extent(),
                    _ => 1,
                };
                let count = head(0) as usize;
                for index in 0..count {
                    let at = head(1 + count + index) * unit;
                    made.blocks(&olds[0], [(head(1 + index), at)]);
                }
            }
            Combiner::IndexedBlock | Combiner::HindexedBlock => {
                let unit = match contents.combiner {
                    Combiner::IndexedBlock => olds[0].extent(),
                    _ => 1,
                };
                for index in 0..head(0) as usize {
                    made.blocks(&olds[0], [(head(1), head(2 + index) * unit)]);
                }
            }
            Combiner::Struct => {
                let count = head(0) as usize;
                for (index, old) in olds.iter().enumerate() {
                    made.blocks(old, [(head(1 + index), head(1 + count + index))]);
                }
                if let (false, Some((lower, upper))) = (made.marked, made.bounds) {
                    let rest = (upper - lower).rem_euclid(made.align);
                    let pad = if rest == 0 { 0 } else { made.align - rest };
                    made.bounds = Some((lower, upper + pad));
                }
            }
            Combiner::Resized => {
                made = olds[0].clone();
                made.bounds = Some((head(0), head(0) + head(1)));
                made.marked = true;
            }
            Combiner::Subarray => made.subarray(&olds[0], contents.counts.is_empty(), &arguments),
            Combiner::Darray => made.darray(&olds[0], contents.counts.is_empty(), &arguments),
            Combiner::ValueIndex => unreachable!("no type is made so"),
        }
        made
    }

    fn named(named: Named) -> Self {
        let kind = named.kind();
        let elements = match kind.parts() {
            Some(parts) => parts.to_vec(),
            None => vec![(kind, 0)],
        };
        Self {
            elements,
            bounds: Some((0, kind.extent())),
            marked: false,
            align: kind.align(),
        }
    }

    fn blocks(&mut self, old: &Self, blocks: impl IntoIterator<Item = (i64, i64)>) {
        for (length, at) in blocks {
            for index in 0..length {
                self.place(old, at + index * old.extent());
            }
        }
    }

    /// Every index of the whole array in the order of memory, kept if it is ours.
    fn array(&mut self, old: &Self, sizes: &[i64], order: i64, ours: impl Fn(&[i64]) -> bool) {
        let total: i64 = sizes.iter().product();
        let inside_out: Vec<usize> = match order {
            0xC => (0..sizes.len()).rev().collect(),
            _ => (0..sizes.len()).collect(),
        };
        for linear in 0..total {
            let mut index = vec![0; sizes.len()];
            let mut left = linear;
            for &dimension in &inside_out {
                index[dimension] = left % sizes[dimension];
                left /= sizes[dimension];
            }
            if ours(&index) {
                self.place(old, linear * old.extent());
            }
        }
        self.bounds = Some((0, total * old.extent()));
        self.marked = true;
    }

    fn subarray(&mut self, old: &Self, small: bool, arguments: &[i64]) {
        let n = arguments[0] as usize;
        let (order, lists) = match small {
            true => (arguments[1 + 3 * n], &arguments[1..]),
            false => (arguments[1], &arguments[2..]),
        };
        let (subsizes, starts) = (&lists[n..2 * n], &lists[2 * n..3 * n]);
        self.array(old, &lists[..n], order, |index| {
            (0..n).all(|d| (starts[d]..starts[d] + subsizes[d]).contains(&index[d]))
        });
    }

    fn darray(&mut self, old: &Self, small: bool, arguments: &[i64]) {
        let [_, mut rank, n] = arguments[..3] else {
            unreachable!("size, rank and dimensions come first")
        };
        let n = n as usize;
        let (sizes, rest) = match small {
            true => (&arguments[3..3 + n], &arguments[3 + n..]),
            false => (&arguments[4 + 3 * n..], &arguments[3..]),
        };
        let (distribs, dargs, psizes) = (&rest[..n], &rest[n..2 * n], &rest[2 * n..3 * n]);
        let mut coordinates = vec![0; n];
        for d in (0..n).rev() {
            coordinates[d] = rank % psizes[d];
            rank /= psizes[d];
        }
        self.array(old, sizes, rest[3 * n], |index| {
            (0..n).all(|d| {
                let block = match (distribs[d], dargs[d]) {
                    (16, _) => sizes[d],
                    (17, 19) => (sizes[d] + psizes[d] - 1) / psizes[d],
                    (18, 19) => 1,
                    (_, argument) => argument,
                };
                index[d] / block % psizes[d] == coordinates[d]
            })
        });
    }
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Int), Just(Form::Count)]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::C), Just(Order::Fortran)]
}

pub fn named() -> impl Strategy<Value = Datatype> {
    prop::sample::select(Named::ALL).prop_map(Datatype::named)
}

/// Types of up to four levels.
pub fn datatype() -> impl Strategy<Value = Datatype> {
    named().prop_recursive(3, 24, 3, |old| {
        prop_oneof![
            2 => (form(), 0..5_i64, old.clone())
                .prop_map(|(form, count, old)| Datatype::contiguous_of(form, count, &old)),
            3 => (form(), 0..6_i64, 0..4_i64, -6..12_i64, old.clone())
                .prop_map(|(form, count, length, stride, old)| {
                    Datatype::vector(form, count, length, stride, &old)
                }),
            2 => (form(), 0..6_i64, 0..4_i64, -60..90_i64, old.clone())
                .prop_map(|(form, count, length, stride, old)| {
                    Datatype::hvector(form, count, length, stride, &old)
                }),
            3 => (form(), any::<bool>(), prop::collection::vec((0..4_i64, -20..40_i64), 0..9), old.clone())
                .prop_map(|(form, bytes, blocks, old)| {
                    let (lengths, places): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
                    match bytes {
                        true => Datatype::hindexed(form, &lengths, &places, &old),
                        false => Datatype::indexed(form, &lengths, &places, &old),
                    }
                }),
            2 => (form(), any::<bool>(), 0..4_i64, prop::collection::vec(-20..40_i64, 0..9), old.clone())
                .prop_map(|(form, bytes, length, places, old)| match bytes {
                    true => Datatype::hindexed_block(form, length, &places, &old),
                    false => Datatype::indexed_block(form, length, &places, &old),
                }),
            3 => (form(), prop::collection::vec((0..3_i64, -40..80_i64, old.clone()), 0..5))
                .prop_map(|(form, members)| {
                    let lengths: Vec<_> = members.iter().map(|member| member.0).collect();
                    let places: Vec<_> = members.iter().map(|member| member.1).collect();
                    let types: Vec<_> = members.into_iter().map(|member| member.2).collect();
                    Datatype::structure(form, &lengths, &places, &types)
                }),
            2 => (form(), -30..30_i64, -20..60_i64, old.clone())
                .prop_map(|(form, lb, extent, old)| Datatype::resized(form, lb, extent, &old)),
            1 => old.clone().prop_map(|old| Datatype::dup(&old)),
            2 => subarray(old.clone()),
            2 => darray(old),
        ]
        .prop_map(|made| made.expect("arguments are in range"))
    })
}

pub fn subarray(
    old: impl Strategy<Value = Datatype>,
) -> impl Strategy<Value = Result<Datatype, ferriband_mpi_data::Error>> {
    let dimension = (1..5_i64).prop_flat_map(|size| {
        (1..=size).prop_flat_map(move |part| (Just(size), Just(part), 0..=size - part))
    });
    (form(), order(), prop::collection::vec(dimension, 1..4), old).prop_map(
        |(form, order, dimensions, old)| {
            let list = |pick: fn(&(i64, i64, i64)) -> i64| -> Vec<i64> {
                dimensions.iter().map(pick).collect()
            };
            let (sizes, parts) = (list(|d| d.0), list(|d| d.1));
            Datatype::subarray(form, &sizes, &parts, &list(|d| d.2), order, &old)
        },
    )
}

pub fn darray(
    old: impl Strategy<Value = Datatype>,
) -> impl Strategy<Value = Result<Datatype, ferriband_mpi_data::Error>> {
    // global size, processes, distribution, argument
    let dimension = (1..9_i64, 1..4_i32).prop_flat_map(|(size, processes)| {
        let smallest = (size as i32 + processes - 1) / processes;
        prop_oneof![
            Just((size, 1, Distribution::None, 19)),
            Just((size, processes, Distribution::Block, 19)),
            (smallest..smallest + 3).prop_map(move |argument| (
                size,
                processes,
                Distribution::Block,
                argument
            )),
            Just((size, processes, Distribution::Cyclic, 19)),
            (1..5_i32).prop_map(move |argument| (size, processes, Distribution::Cyclic, argument)),
        ]
    });
    let dimensions = prop::collection::vec(dimension, 1..4);
    (form(), order(), dimensions, any::<u16>(), old).prop_map(
        |(form, order, dimensions, rank, old)| {
            let sizes: Vec<i64> = dimensions.iter().map(|d| d.0).collect();
            let psizes: Vec<i32> = dimensions.iter().map(|d| d.1).collect();
            let distribs: Vec<Distribution> = dimensions.iter().map(|d| d.2).collect();
            let dargs: Vec<i32> = dimensions.iter().map(|d| d.3).collect();
            let size: i32 = psizes.iter().product();
            let rank = i32::from(rank) % size;
            Datatype::darray(
                form, size, rank, &sizes, &distribs, &dargs, &psizes, order, &old,
            )
        },
    )
}
