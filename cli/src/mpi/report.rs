//! What became of a job and its ranks: for programs, and as a table.

use super::Job;
use super::ranks::End;
use crate::failure::Failure;
use crate::text::Table;
use ferriband_heal::Cause;
use ferriband_mpi_proto::heals::{self, RankReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

#[derive(Serialize)]
struct Report<'a> {
    status: u8,
    cause: Option<&'a str>,
    seconds: f64,
    ranks: Vec<OfRank>,
}

#[derive(Serialize)]
struct OfRank {
    rank: u32,
    pid: i32,
    program: u32,
    command: Vec<String>,
    cores: Vec<usize>,
    seconds: Option<f64>,
    exit_status: Option<i32>,
    signal: Option<i32>,
    mpi: &'static str,
    /// What it moved, as it said at its end; one that was killed says nothing.
    moved: Option<Moved>,
}

#[derive(Serialize)]
struct Moved {
    /// Records to ranks of its host, by memory that they share.
    host_records: u64,
    /// Messages by verbs,
    verbs_messages: u64,
    /// of these by the fast path.
    fast_messages: u64,
    /// Long messages by verbs.
    long_messages: u64,
    heals: Heals,
}

#[derive(Serialize)]
struct Heals {
    number: u64,
    longest_ms: f64,
    total_ms: f64,
    bytes_sent_again: u64,
    /// How many by each cause.
    causes: BTreeMap<&'static str, u32>,
}

impl Moved {
    fn of(report: &RankReport) -> Self {
        let named = Cause::ALL.into_iter().map(heals::name);
        let causes = named.zip(report.causes).filter(|(_, count)| *count > 0);
        Self {
            host_records: report.host_records,
            verbs_messages: report.messages,
            fast_messages: report.fast,
            long_messages: report.long,
            heals: Heals {
                number: report.heals,
                longest_ms: report.longest_ns as f64 / 1e6,
                total_ms: report.total_ns as f64 / 1e6,
                bytes_sent_again: report.bytes,
                causes: causes.collect(),
            },
        }
    }
}

impl Job<'_> {
    /// Writes it to `path`, as JSON; to standard error as a table, if that is `-`.
    pub fn report(&self, path: &Path, took: Duration) -> Result<(), Failure> {
        let report = self.of_all(took);
        if path.as_os_str() == "-" {
            complain!("{}", report.table().render());
            return Ok(());
        }
        File::create(path)
            .and_then(|file| Ok(serde_json::to_writer_pretty(file, &report)?))
            .map_err(|error| Failure::io("write", &path.display().to_string(), &error))
    }

    fn of_all(&self, took: Duration) -> Report<'_> {
        use ferriband_mpi_proto::segment::Life;
        let ranks = (0..).zip(&self.ranks).map(|(number, rank)| {
            let (program, app) = self.apps.of_rank(number);
            let (exit_status, signal) = match rank.end {
                Some(End::Status(status)) => (Some(status), None),
                Some(End::Signal(signal)) => (None, Some(signal)),
                None => (None, None),
            };
            OfRank {
                rank: number,
                pid: rank.pid,
                program,
                command: app
                    .command
                    .iter()
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect(),
                cores: rank.cores.clone(),
                seconds: rank
                    .ended
                    .map(|ended| ended.duration_since(rank.started).as_secs_f64()),
                exit_status,
                signal,
                mpi: match self.share.life(number) {
                    Life::Unborn => "not initialized",
                    Life::Alive => "not finalized",
                    Life::Finalized => "finalized",
                    Life::Aborted => "aborted",
                    Life::Dead => "dead",
                },
                moved: self.share.report(number).as_ref().map(Moved::of),
            }
        });
        Report {
            status: self.status,
            cause: self.cause.as_deref(),
            seconds: took.as_secs_f64(),
            ranks: ranks.collect(),
        }
    }
}

impl Report<'_> {
    /// A row for each rank.
    fn table(&self) -> Table {
        let mut table = Table::new([
            "rank",
            "ended",
            "on this host",
            "by verbs",
            "fast",
            "long",
            "heals",
            "longest ms",
            "total ms",
            "sent again",
            "causes",
        ])
        .right_align(&[0, 2, 3, 4, 5, 6, 7, 8, 9]);
        for rank in &self.ranks {
            let ended = match (rank.exit_status, rank.signal) {
                (Some(status), _) => format!("status {status}, {}", rank.mpi),
                (None, Some(signal)) => format!("signal {signal}, {}", rank.mpi),
                (None, None) => rank.mpi.to_owned(),
            };
            let said = |figure: &dyn Fn(&Moved) -> String| {
                rank.moved.as_ref().map_or_else(|| "-".to_owned(), figure)
            };
            let causes = |moved: &Moved| {
                let each = moved.heals.causes.iter();
                let words: Vec<String> = each
                    .map(|(name, count)| format!("{name} {count}"))
                    .collect();
                words.join(", ")
            };
            table.row([
                rank.rank.to_string(),
                ended,
                said(&|moved| moved.host_records.to_string()),
                said(&|moved| moved.verbs_messages.to_string()),
                said(&|moved| moved.fast_messages.to_string()),
                said(&|moved| moved.long_messages.to_string()),
                said(&|moved| moved.heals.number.to_string()),
                said(&|moved| format!("{:.3}", moved.heals.longest_ms)),
                said(&|moved| format!("{:.3}", moved.heals.total_ms)),
                said(&|moved| moved.heals.bytes_sent_again.to_string()),
                said(&causes),
            ]);
        }
        table
    }
}
