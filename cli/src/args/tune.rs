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
    /// Measure up to how many bytes puts and gets are faster in protocol messages than by RDMA
    ///
    /// Two processes put (a round trip of papers/002, Fig. 6) and get, each length in messages and
    /// by RDMA in turn, as the paper found its crossover from the shortest and the longest protocol
    /// message. Up to the crossover, where both take equally long, libferriband_putget copies bytes
    /// into messages. It is kept for the kind of device (adapter and link), one for puts and one
    /// for gets; the variables FERRIBAND_PUTGET_PUT_CROSSOVER and FERRIBAND_PUTGET_GET_CROSSOVER
    /// (auto, or bytes) override it.
    #[command(
        after_help = "Examples:\n  ferriband tune putget\n  ferriband tune putget --hosts --rounds 9\n  ferriband tune putget --write - --json\n\n\
        Exit status: 0 measured, 1 failed, 2 wrong usage, 77 there can be no two network namespaces (--hosts)."
    )]
    Putget(TunePutgetArgs),
}

/// Arguments of `tune putget`.
#[derive(Args, Clone)]
pub struct TunePutgetArgs {
    /// Rounds of which each figure is the median.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Shortest put or get, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=65_500))]
    pub shortest: u32,
    /// Longest, in bytes: as much as fits into the longest protocol message.
    #[arg(long, value_name = "BYTES", default_value_t = 16_348, value_parser = clap::value_parser!(u32).range(1..=65_500))]
    pub longest: u32,
    /// Between two network namespaces, by RoCEv2, instead of on this host by ferri0.
    #[arg(long, conflicts_with = "wire")]
    pub hosts: bool,
    /// What the processes reach each other by [default: as set].
    #[arg(long, value_enum)]
    pub wire: Option<ReproWire>,
    /// File for the result; - writes none [default: ~/.config/ferriband/putget-crossover.tsv].
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print all figures and the result as JSON.
    #[command(flatten)]
    pub json: JsonFlag,
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
