//! What is said to `ferriband repro`.

use super::JsonFlag;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What stands for the paper's network.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReproWire {
    /// InfiniBand packets: the adapters acknowledge, and hold back what has no receive. Of 003:
    /// RoCE packets between two network namespaces.
    #[default]
    Packets,
    /// Shared memory: a round trip takes a fraction of any network's.
    Direct,
}

impl ReproWire {
    /// As FERRIBAND_WIRE has it.
    pub fn name(self) -> &'static str {
        match self {
            ReproWire::Packets => "packets",
            ReproWire::Direct => "direct",
        }
    }
}

/// What `repro` runs.
#[derive(Args, Clone)]
pub struct ReproArgs {
    /// The paper: 002, 003, 004 [default: list all].
    pub paper: Option<String>,
    /// The figure or table of the paper [default: all of them].
    pub figure: Option<String>,
    /// Runs of each experiment [default: 10, as the paper; 3 with --quick].
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub runs: Option<u32>,
    /// Short runs over fewer places, which show that it works: their figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// Switch off what the paper explains its results by: bytes that wait are not joined. The
    /// claims that rest on it should turn.
    #[arg(long)]
    pub without_coalescing: bool,
    /// What processes of one host reach each other by.
    #[arg(long, value_enum, default_value_t)]
    pub wire: ReproWire,
    /// Write the data to this file, too.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Measure nothing: judge the claims by the data in this file, which --csv wrote.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["csv", "quick", "runs"])]
    pub from: Option<PathBuf>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}
