//! The table that chooses an algorithm.
//!
//! A table is text: one row on a line, five fields between tabs, `#` begins a comment.
//!
//! | field | |
//! |---|---|
//! | kind | name of a [`Kind`] |
//! | ranks | the row is for so many ranks at most; `*` for any number |
//! | bytes | and for so many bytes at most: of the vector, of what one rank contributes, of what goes to one rank; `*` for any number |
//! | oversubscribed | 1 if the ranks of this host are more than its cores, else 0 |
//! | algorithm | name of an [`Algorithm`] |
//!
//! The first row that fits and whose algorithm can do it in this shape decides, so narrow rows stand first. A table is total: the last
//! row of each kind, for both answers to *oversubscribed*, is for any number of ranks and bytes.

use crate::{Algorithm, Collective, Kind, Place, applicable};
use std::fmt;

/// The table that is used unless another is given. `ferriband mpi-tune --write` writes it anew from measurements.
const DEFAULT: &str = include_str!("../tuning/default.tsv");

/// A table of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Row>,
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The operation.
    pub kind: Kind,
    /// For so many ranks at most; `None` for any number.
    pub ranks: Option<u32>,
    /// For so many bytes at most; `None` for any number.
    pub bytes: Option<u64>,
    /// For more ranks on a host than cores.
    pub oversubscribed: bool,
    /// What is used.
    pub algorithm: Algorithm,
}

/// What is wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableError {
    /// This line (from 1) has not the five fields, or one of them means nothing: which, and what it says.
    Line(usize, &'static str, String),
    /// There is no last row for any number of ranks and bytes.
    NotTotal(Kind, bool),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Line(line, field, text) => write!(f, "line {line}: {field}: {text:?}"),
            TableError::NotTotal(kind, oversubscribed) => write!(
                f,
                "no row {0}\t*\t*\t{1}: a table says for each operation what to do with any number of ranks and bytes",
                kind.name(),
                u8::from(*oversubscribed)
            ),
        }
    }
}

impl std::error::Error for TableError {}

impl Default for Table {
    fn default() -> Table {
        Table::parse(DEFAULT).expect("the checked-in table is tested")
    }
}

impl Table {
    /// Reads a table.
    pub fn parse(text: &str) -> Result<Table, TableError> {
        let mut rows = Vec::new();
        for (line, row) in (1..).zip(text.lines()) {
            let row = row.split('#').next().unwrap_or("").trim_end();
            if !row.is_empty() {
                let wrong = |(field, text): (_, &str)| TableError::Line(line, field, text.into());
                rows.push(parse_row(row).map_err(wrong)?);
            }
        }
        let total = |kind: Kind, over: bool| {
            rows.iter().any(|row: &Row| {
                (row.kind, row.ranks, row.bytes, row.oversubscribed) == (kind, None, None, over)
            })
        };
        for kind in Kind::ALL {
            for oversubscribed in [false, true] {
                if !total(kind, oversubscribed) {
                    return Err(TableError::NotTotal(kind, oversubscribed));
                }
            }
        }
        Ok(Table { rows })
    }

    /// Puts an algorithm before all rows of its kind: it is used wherever it can be.
    pub fn prefer(&mut self, kind: Kind, algorithm: Algorithm) {
        for oversubscribed in [false, true] {
            let row = Row {
                kind,
                ranks: None,
                bytes: None,
                oversubscribed,
                algorithm,
            };
            self.rows.insert(0, row);
        }
    }

    /// A table of these rows; they must be total, as [`Table::parse`] demands.
    pub fn of(rows: Vec<Row>) -> Table {
        Table { rows }
    }

    /// Its rows, in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What to use. All ranks of a group must ask with the same `bytes` and `oversubscribed` to come to the same answer.
    pub fn choose(
        &self,
        collective: &Collective<'_>,
        me: Place,
        bytes: u64,
        oversubscribed: bool,
    ) -> Algorithm {
        let kind = collective.kind();
        let fits = |row: &&Row| {
            row.kind == kind
                && row.oversubscribed == oversubscribed
                && row.ranks.is_none_or(|ranks| me.size <= ranks)
                && row.bytes.is_none_or(|most| bytes <= most)
                && applicable(collective, row.algorithm, me)
        };
        // The first algorithm of a kind can do every shape.
        self.rows
            .iter()
            .find(fits)
            .map_or(kind.algorithms()[0], |row| row.algorithm)
    }
}

/// A row, or the field that is wrong and its text.
fn parse_row(text: &str) -> Result<Row, (&'static str, &str)> {
    let fields: Vec<&str> = text.split('\t').collect();
    let [kind, ranks, bytes, oversubscribed, algorithm] = fields[..] else {
        return Err(("five fields between tabs are needed", text));
    };
    let kind = Kind::from_name(kind).ok_or(("no such operation", kind))?;
    let row = Row {
        kind,
        ranks: bound(ranks).ok_or(("ranks must be a number or *", ranks))?,
        bytes: bound(bytes).ok_or(("bytes must be a number or *", bytes))?,
        oversubscribed: match oversubscribed {
            "0" => false,
            "1" => true,
            other => return Err(("oversubscribed must be 0 or 1", other)),
        },
        algorithm: Algorithm::from_name(algorithm)
            .filter(|algorithm| kind.algorithms().contains(algorithm))
            .ok_or(("no algorithm of this operation", algorithm))?,
    };
    Ok(row)
}

/// A number, or `None` for `*`.
fn bound<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "*" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = |bound: Option<u64>| bound.map_or("*".into(), |number| number.to_string());
        for row in &self.rows {
            let (ranks, bytes) = (star(row.ranks.map(u64::from)), star(row.bytes));
            let over = u8::from(row.oversubscribed);
            writeln!(
                f,
                "{}\t{ranks}\t{bytes}\t{over}\t{}",
                row.kind.name(),
                row.algorithm.name()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, build};

    #[test]
    fn the_default_table_is_total_and_written_as_it_is_read() {
        let table = Table::default();
        assert_eq!(Table::parse(&table.to_string()), Ok(table));
    }

    #[test]
    fn whatever_is_chosen_can_be_built() {
        let table = Table::default();
        for size in [1, 2, 3, 7, 8, 16, 17, 100] {
            let counts: Vec<u64> = (0..u64::from(size)).collect();
            let each = Blocks::Each(&counts);
            for bytes in [0, 8, 4096, 1 << 20] {
                for over in [false, true] {
                    let me = Place::new(size - 1, size);
                    for collective in [
                        Collective::Barrier,
                        Collective::Bcast {
                            count: bytes,
                            root: 0,
                        },
                        Collective::Reduce {
                            count: bytes,
                            root: 0,
                            commutative: false,
                            in_place: false,
                        },
                        Collective::Allreduce {
                            count: bytes,
                            commutative: true,
                            in_place: true,
                        },
                        Collective::Gather {
                            blocks: each,
                            root: 0,
                            in_place: false,
                        },
                        Collective::Scatter {
                            blocks: Blocks::Equal(bytes),
                            root: 0,
                            in_place: false,
                        },
                        Collective::Allgather {
                            blocks: each,
                            in_place: false,
                        },
                        Collective::Alltoall {
                            send: each,
                            recv: each,
                            in_place: false,
                        },
                        Collective::ReduceScatter {
                            blocks: each,
                            commutative: false,
                            in_place: false,
                        },
                        Collective::Scan {
                            count: bytes,
                            exclusive: false,
                            commutative: true,
                            in_place: false,
                        },
                    ] {
                        let algorithm = table.choose(&collective, me, bytes, over);
                        assert_ne!(algorithm, Algorithm::Shared, "{collective:?}");
                        assert!(
                            build(&collective, algorithm, me).is_ok(),
                            "{collective:?} {algorithm:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_tried_in_order_and_skipped_where_they_do_not_apply() {
        let mut text =
            String::from("barrier\t8\t*\t0\tpairwise # powers of two\nbcast\t*\t100\t0\tchain\n");
        for kind in Kind::ALL {
            for over in [0, 1] {
                text += &format!(
                    "{}\t*\t*\t{over}\t{}\n",
                    kind.name(),
                    kind.algorithms()[0].name()
                );
            }
        }
        let table = Table::parse(&text).expect("a table");
        let barrier = |size, over| table.choose(&Collective::Barrier, Place::new(0, size), 0, over);
        assert_eq!(barrier(8, false), Algorithm::Pairwise);
        assert_eq!(barrier(6, false), Algorithm::Dissemination);
        assert_eq!(barrier(16, false), Algorithm::Dissemination);
        assert_eq!(barrier(8, true), Algorithm::Dissemination);
        let bcast = Collective::Bcast { count: 1, root: 0 };
        let of = |bytes| table.choose(&bcast, Place::new(0, 4), bytes, false);
        assert_eq!((of(100), of(101)), (Algorithm::Chain, Algorithm::Binomial));
    }

    #[test]
    fn what_is_preferred_is_used_where_it_can_be() {
        let mut table = Table::default();
        table.prefer(Kind::Barrier, Algorithm::Pairwise);
        for over in [false, true] {
            let of = |size| table.choose(&Collective::Barrier, Place::new(0, size), 0, over);
            assert_eq!(of(4), Algorithm::Pairwise);
            // no power of two: as without a preference
            let plain = Table::default();
            let place = Place::new(0, 6);
            let without = plain.choose(&Collective::Barrier, place, 0, over);
            assert_ne!(of(6), Algorithm::Pairwise);
            assert_eq!(of(6), without);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = |text: &str| Table::parse(text).expect_err("wrong").to_string();
        assert_eq!(
            error("# nothing\nbarier\t*\t*\t0\tlinear"),
            "line 2: no such operation: \"barier\""
        );
        assert!(error("barrier\t*\t*\t0\tring").contains("no algorithm of this operation"));
        assert!(error("barrier\tx\t*\t0\tlinear").contains("ranks"));
        assert!(error("barrier\t*\t-1\t0\tlinear").contains("bytes"));
        assert!(error("barrier\t*\t*\t2\tlinear").contains("0 or 1"));
        assert!(error("barrier * * 0 linear").contains("five fields"));
        assert!(error("barrier\t*\t*\t0\tlinear").contains("no row barrier\t*\t*\t1"));
    }
}
