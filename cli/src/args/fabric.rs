//! The words of `ferriband fabric`.

use super::JsonFlag;
use clap::{Args, Subcommand};
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
        after_help = "Exit status: 0 hosts reach each other without a deadlock, 1 they do not or the subnet does not come up, 2 wrong usage."
    )]
    Route(RouteArgs),
    /// List the routing engines
    Engines(JsonFlag),
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
