//! What became of a job and its ranks, for programs.

use super::Job;
use super::ranks::End;
use crate::failure::Failure;
use serde::Serialize;
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
}

impl Job<'_> {
    /// Writes it to `path`.
    pub fn report(&self, path: &Path, took: Duration) -> Result<(), Failure> {
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
            }
        });
        let report = Report {
            status: self.status,
            cause: self.cause.as_deref(),
            seconds: took.as_secs_f64(),
            ranks: ranks.collect(),
        };
        File::create(path)
            .and_then(|file| Ok(serde_json::to_writer_pretty(file, &report)?))
            .map_err(|error| Failure::io("write", &path.display().to_string(), &error))
    }
}
