//! Plain tables, figures with units, and JSON on standard output.
//!
//! A closed pipe (`ferriband devices | head`) is not an error: printing then ends the program
//! quietly with the status that a SIGPIPE would have given.

use crate::failure::Failure;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// The word for one, or for several.
pub const fn plural(count: usize, one: &'static str, several: &'static str) -> &'static str {
    match count {
        1 => one,
        _ => several,
    }
}

/// `1 switch`, `2 switches`.
pub fn counted<N>(count: N, one: &'static str, several: &'static str) -> String
where
    N: std::fmt::Display + PartialEq + From<u8>,
{
    let word = if count == N::from(1) { one } else { several };
    format!("{count} {word}")
}

/// A time of day in UTC, from milliseconds since 1970 (the civil calendar by Howard Hinnant's
/// counting of days).
pub fn utc(at_ms: u64) -> String {
    let seconds = at_ms / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // days since 0000-03-01, in eras of 400 years
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03} UTC",
        at_ms % 1000
    )
}

/// Columns of text, each as wide as its widest cell.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// An empty table with these column titles.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Table {
            header: header.map(str::to_owned).to_vec(),
            rows: Vec::new(),
            right: Vec::new(),
        }
    }

    /// Aligns these columns to the right: figures.
    pub fn right_align(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(
            N,
            self.header.len(),
            "a row has as many cells as the table has columns"
        );
        self.rows.push(cells.to_vec());
    }

    /// The lines, without a newline at the end of the last.
    pub fn render(&self) -> String {
        let all = || std::iter::once(&self.header).chain(&self.rows);
        let width = |column: usize| {
            all()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let gap = " ".repeat(widths[column] - cell.chars().count());
                if self.right.contains(&column) {
                    gap + cell
                } else {
                    format!("{cell}{gap}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let rule = widths
            .iter()
            .map(|&width| "-".repeat(width))
            .collect::<Vec<_>>()
            .join("  ");
        let mut lines = vec![line(&self.header), rule];
        lines.extend(self.rows.iter().map(line));
        lines.join("\n")
    }

    /// Prints the table to standard output.
    pub fn print(&self) -> Result<(), Failure> {
        print_line(&self.render())
    }
}

/// Writes a line to standard error. Where that takes nothing, a file that is as long as it may be
/// (`ulimit -f`) or a pipe that nobody reads, what was to be said is lost, and the work goes on.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// [`complain`], with the words of `format!`.
macro_rules! complain {
    ($($words:tt)*) => { $crate::text::complain(format_args!($($words)*)) };
}

/// Prints one line, or ends the program quietly when nobody reads it.
pub fn print_line(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            std::process::exit(128 + libc::SIGPIPE)
        }
        Err(error) => Err(Failure::io("write to", "standard output", &error)),
    }
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot turn the result into JSON: {error}")))?;
    print_line(&text)
}

/// A duration in the unit that suits it.
pub fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e5 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

/// A bandwidth in units of 10^6 or 10^9 bytes per second.
pub fn bandwidth(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate < 1e6 => format!("{:.1} KB/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.1} MB/s", rate / 1e6),
        rate => format!("{:.2} GB/s", rate / 1e9),
    }
}

/// A size as people type it: 2, 64K, 8M.
pub fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// The inverse of [`size`]: a number with an optional K, M or G (powers of 1024).
pub fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.trim_end_matches(['B', 'b', 'i']).char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let count: usize = digits.parse().map_err(|_| {
        format!("'{text}' is not a size: write a number with an optional K, M or G")
    })?;
    count
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes <= 1 << 31)
        .ok_or_else(|| format!("'{text}' is more than a message can hold (2G)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00.000 UTC");
        assert_eq!(utc(1_795_271_999_007), "2026-11-21 14:39:59.007 UTC");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["name", "n"]).right_align(&[1]);
        table.row(["a".into(), "100".into()]);
        table.row(["longer".into(), "5".into()]);
        assert_eq!(
            table.render(),
            "name      n\n------  ---\na       100\nlonger    5"
        );
    }

    #[test]
    fn sizes_read_back_as_written() {
        for bytes in [
            0,
            1,
            2,
            1023,
            1024,
            65536,
            1 << 20,
            3 << 20,
            8 << 20,
            1 << 31,
        ] {
            assert_eq!(parse_size(&size(bytes)), Ok(bytes));
        }
        assert_eq!(parse_size("64KiB"), Ok(65536));
        assert!(parse_size("4G").is_err());
        assert!(parse_size("K").is_err());
        assert!(parse_size("12x").is_err());
    }

    #[test]
    fn figures_keep_three_digits_or_so() {
        assert_eq!(duration(130.4), "130 ns");
        assert_eq!(duration(1_534.0), "1.53 us");
        assert_eq!(bandwidth(12_345_678_901.0), "12.35 GB/s");
    }
}
