//! From which length on zero copy is the faster way, for each adapter and flow control.
//!
//! Owns: the table, and the file in which a user keeps what was measured. Must not know: how it was
//! measured, which is `ferriband tune sdp`'s.
//!
//! A table is text: one row on a line, three fields between tabs, `#` begins a comment.
//!
//! | field | |
//! |---|---|
//! | adapter | vendor and part, `0x02fe77:17986`: the same on each host and for each of its wires |
//! | flow control | its name |
//! | bytes | the least length, or `never` |

use crate::hello::FlowKind;
use ferriband_ibv::AdapterKind;
use ferriband_settings::user_file;
use std::path::PathBuf;
use std::{env, fmt, fs};

/// What is known where nobody has measured.
const SHIPPED: &str = include_str!("../zero_copy.tsv");
/// Where a user's own measurements are, in the directory of settings.
const FILE: &str = "ferriband/sdp-zero-copy.tsv";

/// A line that means nothing, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "line {0}: {1:?}: an adapter (vendor:part) and a length or never are needed, with a tab between"
)]
pub struct WrongLine(pub usize, pub String);

/// A table. Of an adapter or a flow control that it does not name nothing is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Lengths {
    rows: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    adapter: AdapterKind,
    flow: FlowKind,
    /// None: never.
    least: Option<u64>,
}

impl Row {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('\t');
        let adapter = AdapterKind::parse(fields.next()?)?;
        let named = fields.next()?;
        let flow = FlowKind::ALL
            .into_iter()
            .find(|flow| flow.name() == named)?;
        let least = match fields.next()? {
            "never" => None,
            number => Some(number.parse().ok().filter(|least| *least > 0)?),
        };
        fields.next().is_none().then_some(Row {
            adapter,
            flow,
            least,
        })
    }
}

impl Lengths {
    /// What is shipped.
    pub fn shipped() -> Self {
        Lengths::parse(SHIPPED).unwrap_or_default()
    }

    /// The user's file, as settings files are found: in XDG_CONFIG_HOME, or `~/.config`.
    pub fn path(config_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        user_file(FILE, config_home, home)
    }

    /// What this user has measured. Nothing, if there is no such file or it means nothing: the
    /// values that are shipped serve then.
    pub fn measured() -> Self {
        let text = |name: &str| env::var_os(name).and_then(|value| value.into_string().ok());
        let path = Lengths::path(text("XDG_CONFIG_HOME").as_deref(), text("HOME").as_deref());
        let read = path.and_then(|path| fs::read_to_string(path).ok());
        read.and_then(|text| Lengths::parse(&text).ok())
            .unwrap_or_default()
    }

    /// # Errors
    /// The first line that means nothing.
    pub fn parse(text: &str) -> Result<Self, WrongLine> {
        let mut lengths = Lengths::default();
        for (line, row) in (1..).zip(text.lines()) {
            let row = row.split('#').next().unwrap_or_default().trim_end();
            if row.is_empty() {
                continue;
            }
            let parsed = Row::parse(row).ok_or_else(|| WrongLine(line, row.to_owned()))?;
            lengths.set(parsed.adapter, parsed.flow, parsed.least);
        }
        Ok(lengths)
    }

    /// From which length on zero copy is faster, `Some(None)` if it is at none; None: nothing is
    /// known.
    pub fn of(&self, adapter: AdapterKind, flow: FlowKind) -> Option<Option<u64>> {
        let is = |row: &&Row| row.adapter == adapter && row.flow == flow;
        self.rows.iter().find(is).map(|row| row.least)
    }

    /// Writes a row anew.
    pub fn set(&mut self, adapter: AdapterKind, flow: FlowKind, least: Option<u64>) {
        let other = |row: &Row| row.adapter != adapter || row.flow != flow;
        self.rows.retain(other);
        self.rows.push(Row {
            adapter,
            flow,
            least,
        });
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let least = row.least.map(|least| least.to_string());
            let least = least.as_deref().unwrap_or("never");
            writeln!(f, "{}\t{}\t{least}", row.adapter, row.flow.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: AdapterKind = AdapterKind {
        vendor: 0x02_fe_77,
        part: 0x4642,
    };

    #[test]
    fn a_table_is_read_as_it_is_written_and_the_last_row_counts() {
        let text = "# two\n0x02fe77:17986\tcredit\t65536 # ours\n0x0002c9:4099\tring\tnever\n";
        let mut lengths = Lengths::parse(text).expect("a table");
        let other = AdapterKind {
            vendor: 0x2c9,
            part: 4099,
        };
        assert_eq!(lengths.of(OURS, FlowKind::Credit), Some(Some(65_536)));
        assert_eq!(lengths.of(OURS, FlowKind::Ring), None);
        assert_eq!(lengths.of(other, FlowKind::Ring), Some(None));
        assert_eq!(Lengths::parse(&lengths.to_string()), Ok(lengths.clone()));
        lengths.set(OURS, FlowKind::Credit, None);
        assert_eq!(lengths.of(OURS, FlowKind::Credit), Some(None));
    }

    #[test]
    fn what_is_shipped_names_our_own_adapter_with_each_flow_control() {
        let shipped = Lengths::parse(SHIPPED).expect("a table");
        for flow in FlowKind::ALL {
            assert!(shipped.of(OURS, flow).is_some(), "{flow:?}");
        }
    }

    #[test]
    fn a_line_that_means_nothing_is_named() {
        for line in [
            "x\tring\t1",
            "0x1:2\tring",
            "0x1:2\trong\t3",
            "0x1:2\tring\t0",
            "0x1:2\tring\tsome",
            "0x1:2\tring\t1\t2",
        ] {
            let wrong = Lengths::parse(&format!("\n{line}")).expect_err(line);
            assert_eq!(wrong, WrongLine(2, line.to_owned()));
        }
    }

    #[test]
    fn the_file_lies_beside_the_settings() {
        let at = |config, home| Lengths::path(config, home).map(|path| path.display().to_string());
        let file = |directory: &str| Some(format!("{directory}/{FILE}"));
        assert_eq!(at(Some("/c"), Some("/h")), file("/c"));
        assert_eq!(at(Some("c"), Some("/h")), file("/h/.config"));
        assert_eq!(at(None, None), None);
    }
}
