//! The command line: every subcommand with its help, and nothing else.

mod dev;
mod fabric;
mod fabric_sim;
mod fault;
mod mpi;
mod placing;
mod putget;
mod qp;
mod repro;
mod sdp;
mod tune;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use dev::*;
pub use fabric::*;
pub use fabric_sim::*;
pub use fault::*;
pub use mpi::*;
pub use placing::*;
pub use putget::*;
pub use qp::*;
pub use repro::*;
pub use sdp::*;
pub use tune::*;

/// InfiniBand in software: run unmodified RDMA programs with no adapter, no kernel module, no root.
#[derive(Parser)]
#[command(
    name = "ferriband",
    version,
    arg_required_else_help = true,
    subcommand_required = true
)]
#[command(
    after_help = "First steps:\n  ferriband run -- ibv_devinfo\n  ferriband doctor\n  ferriband perf\n\n\
    Exit status: 0 done, 1 failed, 2 wrong usage; run ends with the program's own status, \
    or 126 when it cannot be executed and 127 when there is no such program."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program on the software adapter
    ///
    /// Puts Ferriband's libibverbs before the system's (LD_LIBRARY_PATH) and executes PROGRAM in place of this
    /// process: pid, signals and exit status are the program's own. Children inherit the setting, so scripts and
    /// python work as well.
    #[command(
        after_help = "Examples:\n  ferriband run -- ibv_devinfo -v\n  ferriband run -- ib_write_bw & ferriband run -- \
        ib_write_bw localhost\n\nThe libraries are found in FERRIBAND_LIB_DIR, else in ../lib/ferriband beside this \
        program, else in the build's target/ferriband/lib."
    )]
    Run {
        /// Which device, and which wire.
        #[command(flatten)]
        adapter: AdapterArgs,
        /// Let the program's packets fail: a rule as of `fault add`, such as "drop probability=0.01". May be repeated.
        #[arg(long, value_name = "RULE")]
        fault: Vec<String>,
        /// The program and its arguments.
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "PROGRAM"
        )]
        command: Vec<OsString>,
    },
    /// Run an MPI program as several ranks on this machine
    ///
    /// Starts N processes of PROGRAM that can send messages to each other, passes on what they
    /// write, and ends with the first status of a rank that is not zero (128 and the signal for a
    /// rank that was killed). When a rank aborts, is killed or ends without MPI_Finalize, the
    /// others are ended, too. Programs that find one another by PMI-1 (MPICH's, OpenSHMEM's) are
    /// served: PMI_FD, PMI_RANK and PMI_SIZE are set. The command is called mpirun and mpiexec as
    /// well, where those names lead to this program.
    #[command(
        version = concat!(env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI)"),
        after_help = "Examples:\n  mpicc hello.c -o hello && ferriband mpirun -n 4 ./hello\n  ferriband mpirun -n 2 --tag-output ./a.out\n  \
        ferriband mpirun -n 1 ./server : -n 3 ./client\n\n\
        What users of other launchers write is understood, with one dash or two: -np, -x NAME=VALUE, -genv NAME VALUE, -bind-to, -map-by, -ppn, -wd,\n\
        --oversubscribe, --mca and more; hosts and files of hosts are, where all of them are this machine.\n\
        The libraries are found as `run` finds them."
    )]
    Mpirun(Box<MpirunArgs>),
    /// Show which MPI this is, what is set and by whom, and which functions it offers
    ///
    /// Settings come from the command line of mpirun (--set), from the environment (FERRIBAND_MPI_NAME), from the settings file
    /// (~/.config/ferriband/mpi.conf, XDG_CONFIG_HOME; FERRIBAND_MPI_SETTINGS names another), and by default, in this order.
    MpiInfo(MpiInfoArgs),
    /// Measure which algorithm of each collective is the fastest on this machine, and write the table that MPI programs choose by
    ///
    /// Each operation is measured with each of its algorithms, for several numbers of ranks and lengths, in interleaved rounds. The built-in table was made
    /// so on the development machine (2 cores). What was not measured here stays as it is built in. It takes some minutes, and a quiet machine.
    #[command(
        after_help = "Examples:\n  ferriband mpi-tune\n  ferriband mpi-tune --write coll.tsv && ferriband mpirun --set coll_table=coll.tsv -n 4 ./a.out\n  \
        ferriband mpi-tune --only allreduce --ranks 4 --rounds 5 --json"
    )]
    MpiTune(MpiTuneArgs),
    /// Measure which way is the fastest on this machine, and keep it for programs
    Tune {
        /// What is measured.
        #[command(subcommand)]
        command: TuneCommand,
    },
    /// A process of `tune sdp`; its standard input is a socket.
    #[command(hide = true)]
    TunePeer,
    /// A process of `tune putget` and `repro 002`; its standard input is a socket.
    #[command(hide = true)]
    PutgetPeer,
    /// Run a job of MPI, Portals, OpenSHMEM or put/get and write its timeline: calls, messages,
    /// RDMA, and how long they took
    ///
    /// Each process writes its calls and messages to a file of bounded length, which is mapped, so
    /// that one that is killed leaves what it wrote. When
    /// the job has ended they become one timeline: Chrome's and Perfetto's JSON with an arrow for each message, and on request an HTML page. Printed are
    /// quantiles of the calls' durations. Any launcher will do whose ranks run on Ferriband's MPI,
    /// and any program that uses libferriband_putget or libportals: of these the operations, the
    /// messages by their kinds (requests, replies, acks, FIN) and each RDMA READ and WRITE are
    /// drawn. A connection of MPI that failed and was made anew is a bar of four parts. The exit
    /// status is the job's.
    #[command(
        after_help = "Examples:\n  ferriband trace -- mpirun -n 4 ./a.out\n  ferriband trace --html a.html -- mpiexec.hydra -n 4 ./a.out\n  \
        ferriband trace --html a.html -- mpirun -n 2 ./portals-program\n  \
        FERRIBAND_MPI_TRACE=/shared/dir srun --mpi=pmi2 -n 64 ./a.out; ferriband trace --merge /shared/dir"
    )]
    Trace(TraceArgs),
    /// Print the settings of `run` for a shell: eval "$(ferriband env)"
    Env {
        /// As of `run`.
        #[command(flatten)]
        adapter: AdapterArgs,
        /// Output format.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// List adapters with port state, addresses and limits
    Devices {
        /// Ask the system's own libibverbs instead of Ferriband's.
        #[arg(long)]
        system: bool,
        /// Output format.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Say what this machine allows, and what each missing thing costs
    ///
    /// Exit status: 0 everything is there, 1 it works but something costs speed, 2 it cannot work.
    Doctor(JsonFlag),
    /// Name and configure a device, for all programs that start from now on
    ///
    /// Every usable interface is a device, ferri_INTERFACE, by itself; this is for other names, for interfaces that are not
    /// usable by themselves (lo), and for limits. Settings are kept in ~/.config/ferriband/devices.toml (XDG_CONFIG_HOME); what is
    /// not named here stays as it is there.
    #[command(
        after_help = "Examples:\n  ferriband up storage --interface eth1 --mtu 1024 --dscp 26 --rate 10Gbit\n  ferriband up ferri_lo\n  ferriband down ferri_eth0"
    )]
    Up(UpArgs),
    /// Take a device from the list, for all programs that start from now on
    Down(DownArgs),
    /// Show devices, the programs that use them, what went through, and processes that put and get
    /// (Portals, OpenSHMEM)
    ///
    /// Programs are those of this user in this network namespace. Packets and troubles are the sums of all of them since
    /// the first one of those that now run began, those that ended meanwhile included.
    Status(StatusArgs),
    /// Show the counters of devices whose queue pairs take packets
    ///
    /// Ethernet devices, and ferri0 once queue pairs of it have taken packets (ferriband dump, ferriband fault).
    /// The first are those of the IBA (port_xmit_data in 4-byte words), the others those of RoCE adapters and of the Linux
    /// kernel's Soft-RoCE. They are sums over all programs of this user in this network namespace.
    Counters(CountersArgs),
    /// Say why requests ended with status 12 or 13, why connections were refused, and which
    /// connections of MPI failed and were made anew
    ///
    /// A work request that ends with status 12 (retries exceeded) or 13 (receiver not ready), and a connection of
    /// rdma_cm that ends REJECTED or UNREACHABLE, is written down by the process that it happens to, in
    /// ~/.local/state/ferriband/incidents (XDG_STATE_HOME): 64 KiB, twice. This shows the newest: which queue pair, which
    /// peer, which path, what was acknowledged last, what was sent again and when, what the network said of it, and what
    /// the cause may be, the likeliest first.
    ///
    /// A rank of MPI writes down each connection that failed and was made anew (heals, beside
    /// incidents): its cause, its path, how long each part of it took. --live tells of those that
    /// are under way for more than a second.
    #[command(
        after_help = "Exit status: 0 something was shown, 1 failed, 2 wrong usage, 3 there is nothing to show."
    )]
    Why(WhyArgs),
    /// Run TCP programs over SDP: connections between two such programs go by shared memory, all
    /// others by TCP as before
    #[command(
        after_help = "Examples:\n  ferriband sdp run -- redis-server & ferriband sdp run -- redis-benchmark -t get\n  \
        eval \"$(ferriband sdp env)\"; ./server & ./client"
    )]
    Sdp {
        /// What to do.
        #[command(subcommand)]
        command: SdpCommand,
    },
    /// Look at processes that put and get, and so at those of Portals and OpenSHMEM: interfaces,
    /// leases, which ways operations went, settings
    #[command(
        after_help = "Examples:\n  ferriband mpirun -n 2 ./portals-program & ferriband putget status\n  ferriband putget counters\n  ferriband putget settings"
    )]
    Putget {
        /// What to do.
        #[command(subcommand)]
        command: PutgetCommand,
    },
    /// Measure latency, bandwidth and message rate of every operation between two processes
    Perf(PerfArgs),
    /// The second process of `perf`; its standard input is a socket.
    #[command(hide = true)]
    PerfPeer {
        /// The adapter.
        adapter: String,
        /// As of `perf`.
        #[arg(long)]
        system: bool,
    },
    /// Two processes that send to one another by a socket; `bench --sdp` runs it.
    #[command(hide = true)]
    SocketPair(SocketPairArgs),
    /// Run the experiment behind a figure of a paper on this machine, and judge the paper's claims
    /// by what comes out
    ///
    /// Prints a plot, the data as CSV, and a verdict on each claim, computed from these data.
    /// Without PAPER it lists what there is, without FIGURE it runs all of the paper's. Papers/002
    /// (Schutt, prototype InfiniBand hardware): the two drivers on one host by ferri0, and between
    /// two network namespaces by RoCEv2; with one core a host and with two; the paper's figures
    /// beside ours. Papers/003 (Koop et al., resilient message passing): jobs of MPI between two
    /// network namespaces, whose acknowledgements are switched within each run, and whose queue
    /// pairs, links and adapters fail. Papers/004 (Balaji et al., flow control for the Sockets
    /// Direct Protocol): processes of this host are connected by RC queue pairs of ferri0, and each
    /// run measures the three flow controls one after the other. Of the runs the highest and the
    /// lowest are dropped; figures are means of the rest.
    #[command(
        after_help = "Examples:\n  ferriband repro\n  ferriband repro 002\n  ferriband repro 002 table4\n  ferriband repro 003 recovery\n  ferriband repro 004 6b\n  ferriband repro 004 9 --csv figure9.csv && ferriband repro 004 9 --from figure9.csv\n  \
        ferriband repro 004 6b --without-coalescing\n\n\
        Exit status: 0 each claim holds, or is known not to hold in software, or is one of the paper's cards alone (the reason is printed), 1 a claim does not hold, or it failed, 2 wrong usage, 77 there can be no two network namespaces."
    )]
    Repro(ReproArgs),
    /// A process of an experiment of `repro`; its standard input is a socket.
    #[command(hide = true)]
    ReproPeer,
    /// Run Debian's own RDMA programs, each as a server and a client, and show what they prove; or
    /// show how a connection of MPI heals (demo heal)
    Demo(DemoArgs),
    /// Capture the packets that this host's adapters send and receive
    ///
    /// Listens in on all adapters of this user in this network namespace: programs that run and programs that start
    /// later. Prints a line for each packet, or writes a file for Wireshark (-w), which shows what became of a packet
    /// (dropped by a fault, no such queue pair) as its comment. A capture never slows an adapter down: what we are too
    /// slow for is lost, and counted.
    ///
    /// Queue pairs of one host use no packets (the direct wire). While a capture runs, those that are created
    /// take packets, so that they are seen; --leave-direct leaves them alone. Packets of Ethernet devices are RoCEv2, those
    /// of ferri0 InfiniBand packets (LID, GRH, ICRC and VCRC), which a file holds as ERF records.
    #[command(
        after_help = "Examples:\n  ferriband dump -c 20\n  ferriband dump -w trace.pcapng & ferriband run -- ibv_rc_pingpong -g 1 HOST\n  \
        ferriband dump -w - | wireshark -k -i -\n  ferriband dump --opcode ack,rc-send --peer 192.0.2.2 --json\n  \
        ferriband dump -w trace.pcapng -- ib_write_bw HOST"
    )]
    Dump(DumpArgs),
    /// Make packets fail: drop, duplicate, delay, reorder, corrupt; take links down; fail devices
    /// and queue pairs
    ///
    /// For the adapters of this user in this network namespace, while they run: what the programs make of it is what they
    /// would make of a bad cable. Rules last until they are cleared or the last program ends.
    #[command(
        after_help = "Examples:\n  ferriband fault add drop --probability 0.01\n  ferriband fault add corrupt --opcode rc-send --count 3\n  \
        ferriband fault list\n  ferriband fault clear all\n  ferriband fault link down ferri_eth0\n  \
        ferriband fault link flap ferri_eth0 --down 1ms --up 1s --times 10\n  \
        ferriband fault qp-error --device ferri_eth0\n  ferriband fault fatal --for 2s ferri_eth0\n  \
        ferriband fault plan storm.plan\n  \
        ferriband run --fault 'delay probability=0.1 delay-us=500' -- ib_send_bw HOST"
    )]
    Fault {
        /// What to do.
        #[command(subcommand)]
        command: FaultCommand,
    },
    /// Queue pairs of running programs: have connections migrate to their alternate paths
    Qp {
        /// What to do.
        #[command(subcommand)]
        command: QpCommand,
    },
    /// Fabrics of switches and hosts: make them, bring them up with the subnet manager, judge their routes
    #[command(
        after_help = "Examples:\n  ferriband fabric route torus:4x4:2 --engine lash\n  ferriband fabric route ibnetdiscover.out --engine updn --json\n  \
        ferriband fabric make fat-tree:18x18x18 -o tree.net"
    )]
    Fabric {
        /// What to do.
        #[command(subcommand)]
        command: FabricCommand,
    },
    /// Run the transport in the deterministic simulator, with faults, over many seeds; or a whole fabric in virtual time (sim fabric)
    Sim(SimArgs),
    /// Print a shell completion script
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// The directory to write them to; it is created.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Output as JSON.
#[derive(Args, Clone, Copy)]
pub struct JsonFlag {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `up` sets.
#[derive(Args, Clone)]
pub struct UpArgs {
    /// The device.
    pub name: String,
    /// Its interface [default: eth0 for ferri_eth0].
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Its GIDs: only these addresses of the interface, in this order.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub gid: Vec<std::net::IpAddr>,
    /// Largest path MTU.
    #[arg(long, value_name = "BYTES", value_parser = parse_mtu)]
    pub mtu: Option<u32>,
    /// DSCP of packets whose program names no traffic class.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=63))]
    pub dscp: Option<u8>,
    /// What all packets of a process may take: 10Gbit, 500Mbit.
    #[arg(long, value_parser = parse_rate)]
    pub rate: Option<String>,
    /// Whether small packets of connections may go past the kernel's IP layer, where that is allowed (CAP_NET_RAW) [default: true].
    #[arg(long, value_name = "BOOL")]
    pub frames: Option<bool>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What `down` takes away.
#[derive(Args, Clone)]
pub struct DownArgs {
    /// The device.
    pub name: String,
    /// Forget its settings, too: its interface is a device by itself again, if it is usable.
    #[arg(long)]
    pub forget: bool,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

fn parse_mtu(text: &str) -> Result<u32, String> {
    let bytes = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    ferriband_admin::config::check_mtu(bytes)
}

fn parse_rate(text: &str) -> Result<String, String> {
    ferriband_admin::config::parse_rate(text).map(|_| text.to_owned())
}

/// Seconds between two looks.
fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("'{text}' is no interval: 0.1 to 3600 seconds")),
    }
}

/// What `status` shows.
#[derive(Args, Clone)]
pub struct StatusArgs {
    /// Each queue pair, too.
    #[arg(long)]
    pub qps: bool,
    /// Look again and again, every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    pub interval: Option<f64>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What `counters` shows.
#[derive(Args, Clone)]
pub struct CountersArgs {
    /// Only this device's.
    pub device: Option<String>,
    /// Also those that are 0.
    #[arg(long)]
    pub all: bool,
    /// Look again and again, every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    pub interval: Option<f64>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What `why` shows.
#[derive(Args, Clone)]
pub struct WhyArgs {
    /// How many incidents, and how many heals, counted from the newest.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "live")]
    pub last: usize,
    /// Only those of this process.
    #[arg(long, conflicts_with = "live")]
    pub pid: Option<u32>,
    /// Ask running programs instead: which of their queue pairs wait for an answer that had to be
    /// asked for again, and which connections of MPI are being made anew?
    #[arg(long)]
    pub live: bool,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What queue pairs of one host reach one another by.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// Shared memory where both sides are on one host, packets else.
    Direct,
    /// Packets always: RoCEv2 over UDP.
    Roce,
}

/// What a program's queue pairs reach those of the same host by.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostWire {
    /// Shared memory.
    Direct,
    /// RoCEv2 packets on Ethernet devices; shared memory on ferri0.
    Roce,
    /// Packets on all devices, InfiniBand packets on ferri0.
    Packets,
}

impl From<Wire> for HostWire {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Direct => HostWire::Direct,
            Wire::Roce => HostWire::Roce,
        }
    }
}

/// Whether a program finds the files that the kernel would have for our devices.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sysfs {
    /// By a library that is preloaded.
    #[default]
    Preload,
    /// Not at all: nothing is preloaded.
    None,
}

/// What a program shall see of the adapter.
#[derive(Args, Clone, Default)]
pub struct AdapterArgs {
    /// The devices that the program finds, in this order: ferri0, ferri_INTERFACE [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub device: Vec<String>,
    /// How peers of the same host are reached [default: direct].
    #[arg(long, value_enum)]
    pub wire: Option<HostWire>,
    /// How /sys/class/infiniband and /dev/infiniband are shown.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub sysfs: Sysfs,
    /// The program brings a libibverbs of its own under another name, as Python wheels do: ours is preloaded before it.
    #[arg(long)]
    pub bundled: bool,
    /// Run on a host of a live fabric, HOST or FABRIC/HOST; see `fabric up`.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

/// Transport services of a queue pair.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// Operations that `perf` measures.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Operation {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CmpSwap,
    /// Fetch and add.
    FetchAdd,
}

/// What `perf` measures, and how.
#[derive(Args, Clone)]
pub struct PerfArgs {
    /// Message sizes: a list (8,64,4K) or a range of powers of two (2..8M).
    #[arg(long, default_value = "2..8M", value_parser = parse_sizes)]
    pub sizes: Sizes,
    /// Operations, comma-separated [default: all].
    #[arg(long, value_delimiter = ',', value_enum, value_name = "OP")]
    pub ops: Vec<Operation>,
    /// Services, comma-separated [default: all].
    #[arg(long, value_delimiter = ',', value_enum, value_name = "SERVICE")]
    pub services: Vec<Service>,
    /// Operations per measurement [default: by size, so that each takes a fraction of a second].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub iters: Option<u32>,
    /// Send messages up to this size inline.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub inline: u32,
    /// Sleep for completions (completion channel) instead of polling.
    #[arg(long)]
    pub event: bool,
    /// Take the target's memory from ibv_alloc_dm (device memory).
    #[arg(long)]
    pub dm: bool,
    /// Measure the system's own libibverbs instead of Ferriband's.
    #[arg(long)]
    pub system: bool,
    /// The adapter [default: the first].
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Leave this machine's floors out of JSON and plot.
    #[arg(long)]
    pub no_floors: bool,
    /// Draw latency and bandwidth over message size to FILE.svg or FILE.png.
    #[arg(long, value_name = "FILE", value_parser = parse_plot)]
    pub plot: Option<PathBuf>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// A list of message sizes.
pub type Sizes = std::sync::Arc<[usize]>;

fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let size = crate::text::parse_size;
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (size(low)?.max(1), size(high.trim_start_matches('='))?);
        if low > high {
            return Err(format!("'{text}' is an empty range"));
        }
        return Ok(
            std::iter::successors(Some(low), |&bytes| bytes.checked_mul(2))
                .take_while(|&bytes| bytes <= high)
                .collect(),
        );
    }
    text.split(',')
        .map(|part| size(part).map(|bytes| bytes.max(1)))
        .collect()
}

fn parse_plot(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "png") => Ok(path),
        _ => Err(format!("'{text}' must end in .svg or .png")),
    }
}

/// Communication libraries whose programs `demo` runs besides.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// UCX: package ucx-utils.
    Ucx,
    /// libfabric: package libfabric-bin.
    Libfabric,
    /// TCP programs over rdma-core's librspreload.so: packages iperf3 and librdmacm1.
    Tcp,
    /// redis and nginx by SDP, beside TCP: packages redis-tools, nginx and wrk.
    Sdp,
}

/// How `demo` runs.
#[derive(Args, Clone)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    /// Something else than the programs.
    #[command(subcommand)]
    pub what: Option<DemoCommand>,
    /// Fewer iterations: what `make test` runs.
    #[arg(long)]
    pub quick: bool,
    /// direct: two processes of this host. packets: the same by InfiniBand packets of ferri0. roce: two hosts, made of network
    /// namespaces joined by a veth pair.
    #[arg(long, value_enum, default_value = "direct")]
    pub wire: HostWire,
    /// Both programs on one host of their own, with an Ethernet device: by packets with --wire roce, else by shared memory.
    #[arg(long)]
    pub one_host: bool,
    /// Runs of each pair of programs; with more than one they are counted instead of measured.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// Programs of these libraries, too; each is a package of its own.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STACK")]
    pub with: Vec<Stack>,
    /// Only programs whose name or arguments contain this.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Seconds that a pair of programs may take.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// The subcommands of `fault`.
#[derive(Subcommand, Clone)]
pub enum FaultCommand {
    /// Add a rule: the first that is about a packet and hits it decides
    Add(Box<FaultArgs>),
    /// List the rules, with how often each was hit, and the links that are down
    List(JsonFlag),
    /// Clear rules, and bring devices back that have failed
    Clear {
        /// Numbers of rules and names of devices, as `list` shows them, or `all`.
        #[arg(required = true, value_name = "ID|DEVICE|all")]
        what: Vec<String>,
    },
    /// Take a device's link down, or bring it up again: its packets are lost, programs get PORT_ERR and PORT_ACTIVE
    #[command(subcommand)]
    Link(LinkCommand),
    /// Let a device's port fail and recover at once: programs get PORT_ERR, then PORT_ACTIVE
    PortError {
        /// The device.
        device: String,
    },
    /// Let a device fail in every program that has it open: DEVICE_FATAL, and all its queue pairs
    /// are flushed
    ///
    /// What was open stays failed; the device can be opened anew, at once or after a time.
    Fatal {
        /// The device.
        device: String,
        /// Until then it cannot be opened (EIO): a time such as 500ms, 2s or 1m.
        #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
        lasts: Option<Duration>,
        /// It is not there any more, neither to be listed nor to be opened (ENODEV), until `clear`
        #[arg(long, conflicts_with = "lasts")]
        gone: bool,
        /// Completions that programs have not taken yet are gone: they do not know what had arrived
        #[arg(long)]
        hard: bool,
    },
    /// Let queue pairs fail by themselves: QP_FATAL, and what they have to do is flushed; their
    /// peers find out when they hear nothing
    QpError(QpErrorArgs),
    /// Carry out a file of faults, each at its time
    #[command(long_about = PLAN_WORDS)]
    Plan(PlanArgs),
}

/// What a fault does.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum FaultAction {
    Drop,
    Duplicate,
    Delay,
    Reorder,
    Corrupt,
}

/// A fault rule: all that is said has to hold for a packet.
#[derive(Args, Clone)]
pub struct FaultArgs {
    /// What happens to the packet.
    #[arg(value_enum)]
    pub action: FaultAction,
    /// Only these opcodes: codes (0x04) or beginnings of the words of their names (rc-send-only, ack), separated by commas.
    #[arg(long)]
    pub opcode: Option<String>,
    /// Only packets from or to this queue pair.
    #[arg(long)]
    pub qpn: Option<String>,
    /// Only these sequence numbers: one, or first-last.
    #[arg(long)]
    pub psn: Option<String>,
    /// Only what goes, or only what comes [default: both].
    #[arg(long, value_enum)]
    pub direction: Option<Way>,
    /// Only this device.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Which path.
    #[command(flatten)]
    pub path: FaultPath,
    /// How likely each packet is hit, from 0 to 1 [default: 1].
    #[arg(short, long)]
    pub probability: Option<String>,
    /// Hit so many packets and no more.
    #[arg(short, long)]
    pub count: Option<String>,
    /// How long a delay lasts; how long a reordered packet waits for another to overtake it [default: 1000].
    #[arg(long, value_name = "MICROSECONDS")]
    pub delay_us: Option<String>,
}

/// The path that a fault rule is about.
#[derive(Args, Clone)]
pub struct FaultPath {
    /// Only packets to (tx) or from (rx) this address or GID.
    #[arg(long, value_name = "ADDRESS")]
    pub peer: Option<String>,
    /// Only packets of InfiniBand from this LID.
    #[arg(long, value_name = "LID")]
    pub slid: Option<String>,
    /// Only packets of InfiniBand to this LID.
    #[arg(long, value_name = "LID")]
    pub dlid: Option<String>,
    /// Only packets of RoCEv2 with this UDP source port.
    #[arg(long, value_name = "PORT")]
    pub udp_port: Option<String>,
}

/// Whether packets come or go.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// What this host's adapters send.
    Tx,
    /// What they receive.
    Rx,
}

impl Way {
    /// As captures say it.
    pub fn direction(self) -> ferriband_wire::pcapng::Direction {
        match self {
            Way::Tx => ferriband_wire::pcapng::Direction::Outbound,
            Way::Rx => ferriband_wire::pcapng::Direction::Inbound,
        }
    }
}

/// Capture files.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpFormat {
    /// With devices, directions and comments.
    Pcapng,
    /// The classic format: packets alone.
    Pcap,
}

/// What `dump` captures, and how it shows it.
#[derive(Args, Clone)]
pub struct DumpArgs {
    /// Write a capture file instead of lines; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Format of the file [default: pcapng, or pcap for a FILE.pcap].
    #[arg(long, value_enum)]
    pub format: Option<DumpFormat>,
    /// End after so many packets.
    #[arg(short, long)]
    pub count: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// Only packets from or to these queue pairs.
    #[arg(long, value_delimiter = ',', value_parser = parse_qpn)]
    pub qpn: Vec<u32>,
    /// Only these opcodes: codes (0x04) or beginnings of the words of their names (rc-send-only, ack), separated by commas.
    #[arg(long)]
    pub opcode: Option<String>,
    /// Only packets from or to these addresses.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS")]
    pub peer: Vec<IpAddr>,
    /// Only what goes, or only what comes.
    #[arg(long, value_enum)]
    pub direction: Option<Way>,
    /// Only these devices.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub device: Vec<String>,
    /// Take at most so many bytes of each packet, from its BTH on [default: all].
    #[arg(
        short,
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "BYTES"
    )]
    pub snap: u16,
    /// MiB of memory in which each process keeps packets until we have taken them.
    #[arg(long, default_value_t = 4, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub buffer: u16,
    /// Leave queue pairs of one host on the direct wire, where there are no packets to see.
    #[arg(long)]
    pub leave_direct: bool,
    /// Print one JSON object for each packet.
    #[arg(long, conflicts_with_all = ["write", "format"])]
    pub json: bool,
    /// Start this program as `ferriband run` does, and end with it, and with its status.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// A number of 24 bits, decimal or 0x hexadecimal.
fn parse_qpn(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .filter(|&qpn| qpn < 1 << 24)
        .ok_or_else(|| format!("'{text}' is no queue pair number"))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// The simulator's worlds.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// Adapters over an impaired packet wire.
    Packet,
    /// Adapters over the direct wire's shared memory, interleaved, stopped and killed.
    Direct,
    /// MPI's fast path: ranks that write to one another's blocks, and sleep.
    Mpi,
    /// Connections that heal: ranks that send short and long messages by every path while queue
    /// pairs, paths and adapters fail, datagrams are lost, doubled, late and old, and ranks
    /// compute, stop and die; nothing is lost or delivered twice.
    Heal,
    /// SDP: between two sides of a host its rings and its changes from and to TCP, interleaved,
    /// stopped and killed; and its three flow controls by queue pairs, slow wherever they may be.
    Sdp,
    /// Put and get: processes that compute, stop and die, over crossed queue pairs that are slow
    /// wherever they may be.
    Putget,
    /// Portals 4 over put and get: lists, events, counters, triggers and flow control between
    /// processes that compute, stop and die.
    Portals,
}

/// What `sim` runs.
#[derive(Args, Clone)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    /// What else can be simulated.
    #[command(subcommand)]
    pub command: Option<SimCommand>,
    /// How many seeds.
    #[arg(long, default_value_t = 1000, conflicts_with = "seed")]
    pub seeds: u64,
    /// The first seed of `--seeds`.
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    pub first: u64,
    /// Run only this seed: replays a failure.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Only one of the worlds.
    #[arg(long, value_enum)]
    pub only: Option<World>,
    /// Threads [default: one per processor].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn size_ranges_double() {
        assert_eq!(&*parse_sizes("2..16").expect("a range"), &[2, 4, 8, 16]);
        assert_eq!(&*parse_sizes("8,64,4K").expect("a list"), &[8, 64, 4096]);
        assert!(parse_sizes("8..2").is_err());
    }

    #[test]
    fn run_takes_options_of_the_program_with_and_without_dashes() {
        for line in [
            &["ferriband", "run", "prog", "-v", "--help"][..],
            &["ferriband", "run", "--", "prog", "-v", "--help"],
        ] {
            let Command::Run { command, .. } = Cli::try_parse_from(line).expect("parses").command
            else {
                panic!("not run")
            };
            assert_eq!(command, ["prog", "-v", "--help"]);
        }
    }
}
