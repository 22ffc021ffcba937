//! The words of `ferriband fabric`.

use super::{DumpFormat, JsonFlag};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What `fabric` does.
#[derive(Subcommand)]
pub enum FabricCommand {
    /// Write the netlist of a fabric, as ibsim reads it, or (to a file whose name ends in .toml) all that is known of it
    Make(MakeArgs),
    /// Bring a fabric up with the subnet manager, and judge the routes: who reaches whom, how evenly, whether packets can block each other
    ///
    /// The manager and the fabric's agents talk in subnet management packets, over wires without delay; what is judged are the tables that were programmed.
    #[command(
        after_help = "Exit status: 0 hosts reach each other without a deadlock, 1 they do not, some are not joined, or the subnet does not come up, 2 wrong usage."
    )]
    Route(RouteArgs),
    /// List the routing engines
    Engines(JsonFlag),
    /// Bring a fabric to life: its switches and hosts live in this process, and programs run on the hosts
    ///
    /// The process stays until `fabric down` or a signal ends it. Programs run on a host with `ferriband run --host HOST -- PROGRAM`, and find its adapter ferri0.
    #[command(
        after_help = "Examples:\n  ferriband fabric up torus:4x4:2 --background\n  ferriband run --host H0_0_0 -- ibnetdiscover\n  ferriband fabric down\n\n\
        Another manager instead of our own: ferriband fabric up torus:4x4:2 --manager none --background; ferriband run --host H0_0_0 -- opensm\n\n\
        A routing by which packets can wait for each other in a circle, and hosts that are not joined, are warned of.\n\n\
        Exit status: 0 it has ended in good order, or with --background it is up; 1 it could not be, or its manager found no routes (it stays), 2 wrong usage."
    )]
    Up(FabricUpArgs),
    /// End a fabric's process; programs on its hosts lose their links
    Down(NamedArgs),
    /// Say what a fabric is: its hosts with their LIDs and addresses, what is cut or switched off, who is attached
    Status {
        /// Which fabric.
        #[command(flatten)]
        named: NamedArgs,
        /// Output format.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Cut a cable, or join it again
    #[command(after_help = "Example:\n  ferriband fabric link T0_0 3 down")]
    Link(LinkArgs),
    /// Let a cable spoil a share of the packets that pass it, or none
    ///
    /// The port at the other end counts a symbol error and a receive error for each and drops it, those of management too.
    #[command(
        after_help = "Example:\n  ferriband fabric errors T0_0 3 0.01    # each hundredth packet; 0 ends it"
    )]
    Errors(ErrorsArgs),
    /// Show what passes a link, both ways, management too: as lines or as a capture file
    #[command(
        after_help = "Examples:\n  ferriband fabric dump T0_0 3\n  ferriband fabric dump H0_0_0 1 -w link.pcapng    # for Wireshark or tshark"
    )]
    Dump(FabricDumpArgs),
    /// Switch a node off, or on again
    #[command(after_help = "Example:\n  ferriband fabric power T0_1 off")]
    Power(PowerArgs),
    /// Let the fabric's own manager look at everything anew
    Sweep(NamedArgs),
    /// Say what becomes of packets from one LID to another: the cables that they take, and where
    /// they end
    ///
    /// By the tables that switches have now, whoever manages them; nothing is sent. A connection
    /// that failed had its packets on such a way, and one in each direction: ask for both.
    #[command(
        after_help = "Examples:\n  ferriband fabric why 4 9\n  ferriband fabric why 4 9 --json | jq .end\n\n\
        Exit status: 0 packets arrive, 1 they do not, 2 wrong usage."
    )]
    Why(FabricWhyArgs),
    /// Bring a subnet up once from an adapter's port, by libibumad: of a live fabric's host, of this machine, or of ibsim
    #[command(
        after_help = "Example:\n  ferriband fabric up torus:4x4:2 --manager none --background\n  ferriband run --host H0_0_0 -- ferriband fabric manage\n\n\
        Exit status: 0 the subnet is up, 1 it is not, 2 wrong usage."
    )]
    Manage(ManageArgs),
}

/// What `fabric dump` shows.
#[derive(Args, Clone)]
pub struct FabricDumpArgs {
    /// The node at one end of the cable.
    pub node: String,
    /// Its port; what leaves by it is shown as sent.
    #[arg(value_parser = clap::value_parser!(u8).range(1..=254))]
    pub port: u8,
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
    #[arg(long, value_name = "SECONDS", value_parser = super::parse_seconds)]
    pub duration: Option<std::time::Duration>,
    /// The fabric.
    #[command(flatten)]
    pub named: NamedArgs,
}

/// What `fabric manage` manages.
#[derive(Args, Clone)]
pub struct ManageArgs {
    /// The adapter [default: the first one].
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Its port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=254))]
    pub port: u8,
    /// Talk to a running ibsim by its own sockets, which is faster than by its library: IBSIM_SOCKNAME names it (default sim), SIM_HOST the host.
    #[arg(long, conflicts_with_all = ["device", "port"])]
    pub ibsim: bool,
    /// The routing engine; `fabric engines` lists them.
    #[arg(long, default_value = "minhop")]
    pub engine: String,
    /// LIDs of a host's port: 2 to the power of this.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
    /// Requests that may be outstanding: 16, or with `--ibsim` 64, unless it is said.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub window: Option<u32>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What `fabric make` writes.
#[derive(Args, Clone)]
pub struct MakeArgs {
    /// A file (.toml, netlist of ibsim, output of ibnetdiscover) or a shape, such as torus:4x4:2.
    pub fabric: String,
    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What `fabric route` judges.
#[derive(Args, Clone)]
pub struct RouteArgs {
    /// A file (.toml, netlist of ibsim, output of ibnetdiscover) or a shape, such as torus:4x4:2.
    pub fabric: String,
    /// The routing engine; `fabric engines` lists them.
    #[arg(long, default_value = "minhop")]
    pub engine: String,
    /// A switch at the top, by name or GUID, for updn, dnup and ftree. May be repeated; they are found if none is named.
    #[arg(long, value_name = "SWITCH")]
    pub root: Vec<String>,
    /// LIDs of a host's port: 2 to the power of this.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
    /// Data lanes that all ports have.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub lanes: u8,
    /// The node that the manager is at [default: the first channel adapter with a cable].
    #[arg(long, value_name = "NODE")]
    pub manager: Option<String>,
    /// Write the forwarding tables to this file, in the words of OpenSM.
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Which fabric.
#[derive(Args, Clone)]
pub struct NamedArgs {
    /// The fabric's name.
    #[arg(long, value_name = "NAME", default_value = ferriband_attach::DEFAULT_FABRIC)]
    pub name: String,
}

/// Who manages a live fabric.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManagerChoice {
    /// Ferriband's own subnet manager, within the fabric's process.
    Ours,
    /// Nobody, until a program such as opensm does from one of the hosts.
    None,
}

/// What `fabric up` makes.
#[derive(Args, Clone)]
pub struct FabricUpArgs {
    /// A file (.toml, netlist of ibsim, output of ibnetdiscover) or a shape, such as torus:4x4:2.
    pub fabric: String,
    /// Which fabric.
    #[command(flatten)]
    pub named: NamedArgs,
    /// Who manages it.
    #[arg(long, value_enum, default_value = "ours")]
    pub manager: ManagerChoice,
    /// The node that the manager is at [default: the first channel adapter with a cable].
    #[arg(long, value_name = "NODE")]
    pub at: Option<String>,
    /// The manager's routing engine; `fabric engines` lists them.
    #[arg(long, default_value = "minhop")]
    pub engine: String,
    /// The manager's priority among managers: it hands over to one of a higher priority, and takes over when that is gone.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=15))]
    pub priority: u8,
    /// Keep the keys by which ports are protected and managers know each other in this file, for the fabric's other managers (opensm -F FILE); a file that is there already is used; "none":
    /// ports are not protected [default: random keys in a file that `fabric status` names, and that goes with the fabric].
    #[arg(long, value_name = "FILE|none")]
    pub keys: Option<PathBuf>,
    /// How fast data passes links: their own rates times this number, such as 0.01 for 100 MB/s where a link has 10 GB/s [default: a packet takes no time].
    #[arg(long, value_name = "SCALE", value_parser = scale)]
    pub rate_scale: Option<f64>,
    /// The manager has switches mark packets that meet congestion, and adapters slow down what they send that way (where links are paced: others are never congested for long). A manager of
    /// another make does as it is configured, such as opensm with congestion_control TRUE.
    #[arg(long)]
    pub congestion_control: bool,
    /// LIDs of a host's port: 2 to the power of this.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: u8,
    /// Return when the fabric is up; its process goes on.
    #[arg(long)]
    pub background: bool,
}

/// What a link, or a node, is to be.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// Joined again.
    Up,
    /// Cut.
    Down,
}

impl LinkState {
    /// True for the better one.
    pub fn is_on(self) -> bool {
        self == LinkState::Up
    }
}

/// Whose packets `fabric why` is about.
#[derive(Args, Clone)]
pub struct FabricWhyArgs {
    /// The LID that they come from.
    #[arg(value_parser = clap::value_parser!(u16).range(1..=0xbfff))]
    pub from: u16,
    /// The LID that they are for.
    #[arg(value_parser = clap::value_parser!(u16).range(1..=0xbfff))]
    pub to: u16,
    /// Which fabric.
    #[command(flatten)]
    pub named: NamedArgs,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What `fabric link` changes.
#[derive(Args, Clone)]
pub struct LinkArgs {
    /// The node at one end of the cable.
    pub node: String,
    /// Its port.
    #[arg(value_parser = clap::value_parser!(u8).range(1..=254))]
    pub port: u8,
    /// What the cable is to be.
    #[arg(value_enum)]
    pub state: LinkState,
    /// Which fabric.
    #[command(flatten)]
    pub named: NamedArgs,
}

/// What rates are multiplied by: a number above 0, and not so small that a packet takes hours.
fn scale(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    match (1e-6..=1e6).contains(&number) {
        true => Ok(number),
        false => Err("a scale is a number of 0.000001 to 1000000".to_owned()),
    }
}

/// A share: a number of 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    match number {
        // it is counted in millionths: less would be none
        0.0 | 1e-6..=1.0 => Ok(number),
        _ => Err("a share is 0, or a number of 0.000001 to 1".to_owned()),
    }
}

/// What `fabric errors` changes.
#[derive(Args, Clone)]
pub struct ErrorsArgs {
    /// The node at one end of the cable.
    pub node: String,
    /// Its port.
    #[arg(value_parser = clap::value_parser!(u8).range(1..=254))]
    pub port: u8,
    /// The share of packets: 0, or 0.000001 to 1 in millionths.
    #[arg(value_parser = share)]
    pub share: f64,
    /// Which fabric.
    #[command(flatten)]
    pub named: NamedArgs,
}

/// What a node is to be.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerState {
    /// Switched on.
    On,
    /// Switched off.
    Off,
}

impl PowerState {
    /// True for switched on.
    pub fn is_on(self) -> bool {
        self == PowerState::On
    }
}

/// What `fabric power` changes.
#[derive(Args, Clone)]
pub struct PowerArgs {
    /// The node.
    pub node: String,
    /// What it is to be.
    #[arg(value_enum)]
    pub state: PowerState,
    /// Which fabric.
    #[command(flatten)]
    pub named: NamedArgs,
}
