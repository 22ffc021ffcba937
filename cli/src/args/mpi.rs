//! The words of `ferriband mpirun`, `mpi-info` and `trace`.

use super::JsonFlag;
use super::placing::{Binding, Mapping};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// What holds for one of a job's programs.
#[derive(Args, Clone)]
pub struct AppArgs {
    /// Number of ranks of the program; without it, as many as --ppn, --map-by ppr:N:UNIT or the hosts say, else 1.
    #[arg(short = 'n', long = "np", value_name = "N")]
    pub ranks: Option<u32>,
    /// Set a variable of the ranks' environment. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub env: Vec<String>,
    /// Directory that the ranks begin in.
    #[arg(long, value_name = "DIR")]
    pub wdir: Option<PathBuf>,
    /// Hosts as users of other launchers write them, `NAME[:RANKS],...`: each must be this machine. May be repeated.
    #[arg(long, value_name = "HOST,...")]
    pub host: Vec<String>,
    /// A file of such hosts, as of MPICH (NAME:RANKS) or Open MPI (NAME slots=RANKS). May be repeated.
    #[arg(long, value_name = "FILE")]
    pub hostfile: Vec<String>,
    /// Which variables ranks inherit: all, none, only:NAME,.. or except:NAME,..
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = inherited)]
    pub inherit: Inherited,
    /// The program and its arguments. After a word of a colon alone another program of the same job may follow, with -n, --env and --wdir of its own.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub command: Vec<OsString>,
}

/// A program that follows a colon.
#[derive(Parser)]
#[command(name = "mpirun", no_binary_name = true, disable_help_flag = true)]
pub struct NextApp {
    /// It.
    #[command(flatten)]
    pub app: AppArgs,
}

/// Arguments of `mpirun`.
#[derive(Args)]
pub struct MpirunArgs {
    /// The first program.
    #[command(flatten)]
    pub app: AppArgs,
    /// Put the rank before each line that it writes.
    #[arg(short = 'l', long, alias = "prepend-rank")]
    pub tag_output: bool,
    /// Who gets the standard input: none, all, or a rank.
    #[arg(long, value_name = "WHO", default_value = "0", value_parser = stdin_to)]
    pub stdin: StdinTo,
    /// Where ranks may run: core (each on a CPU of its own, if there are enough; core:N on N), l1cache to l3cache, numa, socket, or none. Also --bind-to.
    #[arg(long, value_name = "WHERE", default_value = "none", value_parser = super::placing::binding)]
    pub bind: Binding,
    /// How ranks are dealt to the machine: slot, core, numa, socket and so on in turn, or ppr:N:UNIT, with modifiers as Open MPI's (PE=N, NOOVERSUBSCRIBE).
    #[arg(long, value_name = "UNIT", value_parser = super::placing::mapping)]
    pub map_by: Vec<Mapping>,
    /// Ranks on each machine, of which there is one: so many are started if nothing else says how many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ppn: Option<u32>,
    /// Ranks on each machine, as with --ppn; a job of more ranks is refused.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub npernode: Option<u32>,
    /// Refuse more ranks than the hosts have slots, or the machine CPUs.
    #[arg(long)]
    pub no_oversubscribe: bool,
    /// Say on standard error which cores each rank may use.
    #[arg(long)]
    pub report_bindings: bool,
    /// Set one of the library's settings, see `ferriband mpi-info`. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<String>,
    /// The error handler that MPI_COMM_WORLD and MPI_COMM_SELF begin with: mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return.
    #[arg(long, value_name = "HANDLER")]
    pub initial_errhandler: Option<String>,
    /// Let the other ranks go on when one dies, whatever their error handlers: programs that use
    /// the ULFM extension (mpi-ext.h). Also --enable-recovery, and -disable-auto-cleanup.
    #[arg(long, value_name = "KIND", value_parser = fault_tolerance)]
    pub with_ft: Option<bool>,
    /// Options of another launcher that have no effect here.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub ineffective: Vec<String>,
    /// Why an option of another launcher cannot be taken.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub refused: Option<String>,
    /// Write what became of each rank, what it moved and the heals of its connections to this file,
    /// as JSON; `-`: as a table on standard error.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// How ranks of this machine reach one another.
    #[arg(long, value_enum, value_name = "WAY")]
    pub same_host: Option<SameHost>,
    /// Network namespaces, which ranks are dealt to in turn, as cards are: each is a host of its own, and hosts reach one another by RoCE (root alone may
    /// do that).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub netns: Vec<String>,
    /// Hosts of a live fabric (see `ferriband fabric up`), which ranks are dealt to in turn, as cards are; they reach one another through its switches.
    /// A host without FABRIC/ is of the same fabric as the one before it, the first of the one called "fabric". Each rank has its host's name, address and
    /// files, as `ferriband run --host` gives them.
    #[arg(
        long,
        value_name = "[FABRIC/]HOST,...",
        value_delimiter = ',',
        conflicts_with = "netns"
    )]
    pub fabric_hosts: Vec<String>,
    /// Start programs that are linked to another MPI than MPICH, each of whose processes is a job
    /// of its own here.
    #[arg(long)]
    pub allow_foreign: bool,
    /// End the job after this time, in seconds, with status 124.
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub timeout: Option<f64>,
}

/// Arguments of `mpi-info`.
#[derive(Args)]
pub struct MpiInfoArgs {
    /// Show what a setting would do, as `mpirun --set` sets it. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<String>,
    /// Name the functions that are not offered.
    #[arg(long)]
    pub functions: bool,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Arguments of `mpi-tune`.
#[derive(Args)]
pub struct MpiTuneArgs {
    /// Numbers of ranks that are measured.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,4,8,16", value_parser = clap::value_parser!(u32).range(2..=64))]
    pub ranks: Vec<u32>,
    /// Longest block or vector, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 131_072, value_parser = clap::value_parser!(u64).range(8..=1 << 22))]
    pub longest: u64,
    /// Rounds of which each figure is the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Only these operations (barrier, bcast, reduce, allreduce, gather, scatter, allgather, alltoall, reduce_scatter, scan); the others keep their built-in rows.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// File for the table.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print all figures and the table as JSON.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Arguments of `trace`.
#[derive(Args)]
pub struct TraceArgs {
    /// File for the timeline, in the form that Perfetto and Chrome read.
    #[arg(short, long, value_name = "FILE", default_value = "trace.json")]
    pub output: PathBuf,
    /// Write a picture as well: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Events that there is room for in each process's trace, of 32 bytes; later ones are written
    /// over the oldest. A call is two events, a message one at each end.
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u64).range(16..=1 << 26))]
    pub events: u64,
    /// Keep what the processes write, in this directory.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Run nothing: read what processes have written to this directory (FERRIBAND_MPI_TRACE,
    /// FERRIBAND_PUTGET_TRACE), for example on several hosts.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "command"])]
    pub merge: Option<PathBuf>,
    /// Print the durations as JSON.
    #[command(flatten)]
    pub json: JsonFlag,
    /// mpirun and its arguments, another launcher and its, or a program.
    #[arg(
        required_unless_present = "merge",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// What `demo` shows beside programs.
#[derive(Subcommand, Clone)]
pub enum DemoCommand {
    /// A job of MPI whose queue pairs are broken while it runs, and how its connection is made anew
    ///
    /// Compiles a program of two ranks that exchange messages, runs it by verbs, lets the queue
    /// pairs of one rank fail as `ferriband fault qp-error` does, and shows what `ferriband trace`
    /// and `ferriband why` tell of it.
    Heal(DemoHealArgs),
}

/// Arguments of `demo heal`.
#[derive(Args, Clone)]
pub struct DemoHealArgs {
    /// File for the picture: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE", default_value = "heal.html")]
    pub html: PathBuf,
    /// File for the timeline, in the form that Perfetto and Chrome read.
    #[arg(short, long, value_name = "FILE", default_value = "heal.json")]
    pub output: PathBuf,
}

/// How ranks of one machine reach one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SameHost {
    /// By memory that they share (the default).
    Mapped,
    /// By the device, as ranks of other hosts are reached.
    Verbs,
}

impl SameHost {
    /// As the ranks read it.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Verbs => "verbs",
        }
    }
}

/// Who gets the standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinTo {
    /// Nobody.
    None,
    /// Each rank.
    All,
    /// This one.
    Rank(u32),
}

/// Which variables of the environment ranks inherit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// All.
    All,
    /// These alone.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

fn inherited(text: &str) -> Result<Inherited, String> {
    let list = |names: &str| names.split(',').map(str::to_owned).collect();
    match text.split_once(':').unwrap_or((text, "")) {
        ("all", "") => Ok(Inherited::All),
        ("none", "") => Ok(Inherited::Only(Vec::new())),
        ("only", names) => Ok(Inherited::Only(list(names))),
        ("except", names) => Ok(Inherited::Except(list(names))),
        _ => Err("all, none, only:NAME,.. or except:NAME,..".to_owned()),
    }
}

fn stdin_to(text: &str) -> Result<StdinTo, String> {
    match text {
        "none" => Ok(StdinTo::None),
        "all" => Ok(StdinTo::All),
        rank => rank
            .parse()
            .map(StdinTo::Rank)
            .map_err(|_| "none, all, or the number of a rank".to_owned()),
    }
}

/// What is tolerated: the failure of ranks, or nothing.
fn fault_tolerance(text: &str) -> Result<bool, String> {
    match text {
        "ulfm" | "mpi" => Ok(true),
        "none" | "no" => Ok(false),
        other => Err(format!("{other} is none of ulfm, mpi and no")),
    }
}

fn assignment(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("NAME=VALUE".to_owned()),
    }
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(seconds),
        _ => Err("a positive number of seconds".to_owned()),
    }
}
