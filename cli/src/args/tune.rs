//! What is said to `ferriband tune`.

use super::{JsonFlag, ReproWire};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The subcommands of `tune`.
#[derive(Subcommand)]
pub enum TuneCommand {
    /// Measure from which length on a blocking write by SDP is faster without copies
    ///
    /// Two processes send messages by queue pairs of ferri0, with each flow control, by copies and
    /// by zero copy (SrcAvail, RDMA READ) in turn; the program's memory is registered for each
    /// message. For each flow control the shortest length is found at which zero copy is 5 %
    /// faster, if it is as much slower at no longer one. It is kept for the adapter, for the
    /// setting zero_copy = auto. The machine should be as busy as it will be: where processes wait
    /// for cores zero copy takes much longer.
    #[command(
        after_help = "Examples:\n  ferriband tune sdp\n  ferriband tune sdp --wire packets --rounds 9\n  ferriband tune sdp --write - --json\n\n\
        Exit status: 0 measured, 1 failed, 2 wrong usage."
    )]
    Sdp(TuneSdpArgs),
}

/// Arguments of `tune sdp`.
#[derive(Args, Clone)]
pub struct TuneSdpArgs {
    /// Rounds of which each figure is the median.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Shortest message, in bytes; each next one is twice as long.
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..=1 << 26))]
    pub shortest: u32,
    /// Longest message, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u32).range(64..=1 << 26))]
    pub longest: u32,
    /// What the processes reach each other by [default: as set].
    #[arg(long, value_enum)]
    pub wire: Option<ReproWire>,
    /// File for the result; - writes none [default: ~/.config/ferriband/sdp-zero-copy.tsv].
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print all figures and the result as JSON.
    #[command(flatten)]
    pub json: JsonFlag,
}
