//! What `ferriband-dev` measures.

use super::{JsonFlag, Wire};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Measurements of Ferriband for those who work on it.
#[derive(Parser)]
#[command(
    name = "ferriband-dev",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Exit status: 0 done and every demand met, 1 failed or a demand is missed, 2 wrong usage."
)]
pub struct DevCli {
    /// What to do.
    #[command(subcommand)]
    pub command: DevCommand,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum DevCommand {
    /// Compare the adapter with this machine's floors, as ratios with targets
    Bench(BenchArgs),
    /// Measure this machine's physical floors: what any software adapter could reach at best
    Floor {
        /// Rounds of which each figure is the median.
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
        rounds: u16,
        /// Output format.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Measure the memory of many idle queue pairs; `bench` runs it.
    #[command(hide = true)]
    QpMemory {
        /// How many.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
        count: u32,
        /// As of `perf`.
        #[arg(long)]
        system: bool,
        /// Output format.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// How `bench` runs.
#[derive(Args, Clone)]
pub struct BenchArgs {
    /// Rounds of which each figure is the median [default: 5, between two hosts 9].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: Option<u16>,
    /// direct: two processes of this host. roce: two hosts, made of network namespaces joined by a
    /// veth pair.
    #[arg(long, value_enum, default_value = "direct")]
    pub wire: Wire,
    /// Compare Ferriband's MPI with other MPIs instead: Open MPI, MPICH and Intel MPI, as far as
    /// they are there. With --wire roce one rank on each of the
    /// two hosts, and the others' TCP.
    #[arg(long)]
    pub mpi: bool,
    /// With --mpi: what of Ferriband's own costs how much instead: acknowledgements, idle channels,
    /// the designs of the RDMA fast path.
    #[arg(long, requires = "mpi", conflicts_with_all = ["wire", "peer", "fetch"])]
    pub fastpath: bool,
    /// Compare sockets by SDP with TCP instead, on this host: two programs that send, and redis,
    /// nginx (with wrk), memcached, iperf3 and node where they are there.
    #[arg(long, conflicts_with_all = ["wire", "mpi"])]
    pub sdp: bool,
    /// With --sdp: two threads compute on each core meanwhile, and no row may be below 0.95 times
    /// TCP.
    #[arg(long, requires = "sdp")]
    pub busy: bool,
    /// Measure put and get instead: Portals 4 and the drivers of papers/002, beside the verbs that
    /// they are made of and beside Ferriband's MPI.
    #[arg(long, conflicts_with_all = ["mpi", "sdp"])]
    pub putget: bool,
    /// With --putget, on one host: a build of sandialabs/portals4 by verbs, to be compared with.
    #[arg(long, requires = "putget", value_name = "DIR")]
    pub reference: Option<PathBuf>,
    /// Measure what connections of MPI that heal cost, and how long a heal takes, between two hosts
    /// made of network namespaces: each row beside its floor in the same run [default: 3 rounds].
    #[arg(long, conflicts_with_all = ["wire", "mpi", "sdp", "putget"])]
    pub heal: bool,
    /// With --heal: short runs, which show that it works: their figures mean little.
    #[arg(long, requires = "heal")]
    pub quick: bool,
    /// This process is in namespaces of its own, made for the comparison between two hosts.
    #[arg(long, requires = "mpi", hide = true)]
    pub inside: bool,
    /// With --mpi: fetch the wheels of other MPIs from PyPI that are not there yet (into
    /// $XDG_CACHE_HOME/ferriband, or ~/.cache/ferriband).
    #[arg(long, requires = "mpi")]
    pub fetch: bool,
    /// With --mpi: only peers whose name contains this; may be repeated.
    #[arg(long, requires = "mpi", value_name = "TEXT")]
    pub peer: Vec<String>,
    /// Only targets whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl BenchArgs {
    /// Rounds of which each figure is the median: more where what two namespaces reach depends most
    /// on where the host puts our cores.
    pub fn rounds(&self) -> usize {
        let default = match self.wire {
            Wire::Roce if !self.mpi => 9,
            _ if self.heal => 3,
            _ => 5,
        };
        self.rounds.map_or(default, usize::from)
    }
}
