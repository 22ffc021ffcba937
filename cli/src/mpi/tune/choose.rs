//! From figures to a table: the fastest algorithm for each number of ranks and bytes that were measured, and bounds between them.

use ferriband_mpi_coll::tuning::{Row, Table};
use ferriband_mpi_coll::{Algorithm, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// Medians of one operation, of so many ranks and bytes.
#[derive(Clone, Debug)]
pub struct Figure {
    pub kind: Kind,
    pub ranks: u32,
    /// As the table counts them.
    pub bytes: u64,
    /// Seconds.
    pub medians: BTreeMap<Algorithm, f64>,
}

/// All of them, in order of operation, ranks and bytes.
pub type Figures = Vec<Figure>;

/// An algorithm that is better by less than this does not take over from that of the next shorter length.
const MARGIN: f64 = 0.05;

impl Figure {
    /// The fastest.
    pub fn fastest(&self) -> Option<(Algorithm, f64)> {
        self.least(|_| true)
    }

    fn least(&self, may: impl Fn(Algorithm) -> bool) -> Option<(Algorithm, f64)> {
        self.medians
            .iter()
            .filter(|(algorithm, _)| may(**algorithm))
            .map(|(algorithm, seconds)| (*algorithm, *seconds))
            .min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The fastest of some; the one of before if it is as good as level.
    fn chosen(
        &self,
        before: Option<Algorithm>,
        may: impl Fn(Algorithm) -> bool,
    ) -> Option<Algorithm> {
        let (fastest, seconds) = self.least(&may)?;
        let level = before.filter(|before| {
            may(*before)
                && self
                    .medians
                    .get(before)
                    .is_some_and(|its| *its <= seconds * (1.0 + MARGIN))
        });
        Some(level.unwrap_or(fastest))
    }
}

/// The table: for operations and numbers of ranks that were measured what was the fastest, before the rows of `base`.
pub fn table(base: &Table, figures: &[Figure], cores: u32) -> Table {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        for oversubscribed in [false, true] {
            let of =
                |figure: &&Figure| figure.kind == kind && (figure.ranks > cores) == oversubscribed;
            let all: Vec<&Figure> = figures.iter().filter(of).collect();
            let ranks: BTreeSet<u32> = all.iter().map(|figure| figure.ranks).collect();
            for &of_ranks in &ranks {
                let mut own: Vec<&Figure> = all
                    .iter()
                    .filter(|figure| figure.ranks == of_ranks)
                    .copied()
                    .collect();
                own.sort_by_key(|figure| figure.bytes);
                // More ranks than were measured are like the most that were, where cores are short; where they are not, nothing is known of them.
                let is_last = oversubscribed && ranks.last() == Some(&of_ranks);
                let ranks = (!is_last).then_some(of_ranks);
                rows.extend(bounded(&own).into_iter().map(|(bytes, algorithm)| Row {
                    kind,
                    ranks,
                    bytes,
                    oversubscribed,
                    algorithm,
                }));
            }
            let rest = base
                .rows()
                .iter()
                .filter(|row| row.kind == kind && row.oversubscribed == oversubscribed);
            rows.extend(rest.copied());
        }
    }
    Table::of(rows)
}

/// Algorithms with the most bytes that each is for. Where shared memory is the fastest the best of messages follows, for what cannot share.
fn bounded(own: &[&Figure]) -> Vec<(Option<u64>, Algorithm)> {
    let mut list: Vec<(Option<u64>, Algorithm)> = Vec::new();
    let mut before: [Option<Algorithm>; 2] = [None, None];
    let mut group: Vec<(Option<u64>, [Option<Algorithm>; 2])> = Vec::new();
    for (at, figure) in own.iter().enumerate() {
        let any = figure.chosen(before[0], |_| true);
        let other = figure.chosen(before[1], |algorithm| algorithm != Algorithm::Shared);
        before = [any, other];
        // Half way, as lengths are counted, to the next one that was measured.
        let next = own.get(at + 1).map(|next| next.bytes);
        // Twice the longest; what is longer is left to the rows of before. A barrier has no bytes.
        let next = next.unwrap_or(figure.bytes * 4);
        let bound =
            (figure.bytes > 0).then(|| ((figure.bytes as f64) * (next as f64)).sqrt() as u64);
        match group.last_mut() {
            Some((last, same)) if *same == before => *last = bound,
            _ => group.push((bound, before)),
        }
    }
    for (bound, [any, other]) in group {
        list.extend(any.map(|any| (bound, any)));
        if any == Some(Algorithm::Shared) {
            list.extend(other.map(|other| (bound, other)));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_mpi_coll::{Collective, Place};

    fn figure(ranks: u32, bytes: u64, medians: &[(Algorithm, f64)]) -> Figure {
        Figure {
            kind: Kind::Bcast,
            ranks,
            bytes,
            medians: medians.iter().copied().collect(),
        }
    }

    fn chosen(table: &Table, ranks: u32, bytes: u64, over: bool, shared: u64) -> Algorithm {
        let me = Place {
            shared_units: shared,
            ..Place::new(0, ranks)
        };
        let what = Collective::Bcast {
            count: bytes,
            root: 0,
        };
        table.choose(&what, me, bytes, over)
    }

    #[test]
    fn the_fastest_is_chosen_where_it_was_measured_and_the_built_in_table_elsewhere() {
        use Algorithm::{Binomial, Chain, Linear, Shared};
        let figures = [
            figure(2, 8, &[(Binomial, 2.0), (Shared, 1.0), (Linear, 1.5)]),
            figure(2, 128, &[(Binomial, 2.0), (Shared, 3.0), (Linear, 1.98)]),
            figure(8, 8, &[(Binomial, 2.0), (Shared, 1.0)]),
            figure(8, 128, &[(Binomial, 2.0), (Chain, 1.0)]),
        ];
        let base = Table::default();
        let made = table(&base, &figures, 2);
        assert_eq!(Table::parse(&made.to_string()), Ok(made.clone()));
        assert_eq!(chosen(&made, 2, 8, false, 4096), Shared);
        assert_eq!(chosen(&made, 2, 8, false, 0), Linear, "nothing is shared");
        assert_eq!(chosen(&made, 2, 33, false, 4096), Linear, "nearer to 128");
        assert_eq!(chosen(&made, 8, 8, true, 4096), Shared);
        assert_eq!(chosen(&made, 16, 200, true, 4096), Chain, "more ranks");
        let long = chosen(&base, 8, 1 << 18, true, 4096);
        assert_eq!(chosen(&made, 8, 1 << 18, true, 4096), long, "longer");
        // Eight ranks on eight cores were not measured.
        for bytes in [8, 1 << 20] {
            let known = chosen(&base, 8, bytes, false, 4096);
            assert_eq!(chosen(&made, 8, bytes, false, 4096), known);
        }
    }

    #[test]
    fn what_is_level_does_not_take_over() {
        use Algorithm::{Binomial, Linear};
        let figures = [
            figure(2, 8, &[(Binomial, 1.0), (Linear, 1.2)]),
            figure(2, 128, &[(Binomial, 1.04), (Linear, 1.0)]),
            figure(2, 2048, &[(Binomial, 1.2), (Linear, 1.0)]),
        ];
        let made = table(&Table::default(), &figures, 2);
        let of = |bytes| chosen(&made, 2, bytes, false, 0);
        assert_eq!((of(8), of(128), of(2048)), (Binomial, Binomial, Linear));
    }
}
