//! What is said to `ferriband putget`.

use super::{JsonFlag, parse_interval};
use clap::{Args, Subcommand};

/// The subcommands of `putget`.
#[derive(Subcommand)]
pub enum PutgetCommand {
    /// Show processes that put and get, their connections and leases; of Portals the interfaces,
    /// their table entries and which of these are disabled
    ///
    /// Processes are those of this network namespace that use libferriband_putget (its second
    /// driver) or libportals, and so OpenSHMEM's; of this user, or of all users for root. A thread
    /// of the library answers: the program's own threads are not disturbed. `ferriband status`
    /// shows the same below the devices.
    #[command(
        after_help = "Examples:\n  ferriband putget status\n  ferriband putget status --connections\n  ferriband putget status --json --interval 1\n\n\
        Exit status: 0 something or nothing was shown, 1 failed, 2 wrong usage."
    )]
    Status(PutgetStatusArgs),
    /// Show which ways operations went: short, long, direct, refused, waited for room; of Portals
    /// what was matched, dropped and triggered
    ///
    /// begun_ are requests of a process, served_ those of its peers. Short ones went in messages,
    /// long ones by RDMA of the target, direct ones by RDMA of the initiator, who holds a lease.
    /// Sums over all connections, those that are over among them.
    #[command(
        after_help = "Exit status: 0 something or nothing was shown, 1 failed, 2 wrong usage."
    )]
    Counters(PutgetCountersArgs),
    /// Print the settings of put and get and of Portals, with their values and where these come
    /// from
    ///
    /// Settings come from the environment (FERRIBAND_PUTGET_NAME, PTL_NAME), from the settings
    /// files (~/.config/ferriband/putget.conf and portals.conf, XDG_CONFIG_HOME;
    /// FERRIBAND_PUTGET_SETTINGS and FERRIBAND_PORTALS_SETTINGS name others), and by default, in
    /// this order.
    Settings(JsonFlag),
}

/// What `putget status` shows.
#[derive(Args, Clone)]
pub struct PutgetStatusArgs {
    /// Each connection, too, with its peer.
    #[arg(long)]
    pub connections: bool,
    /// Look again and again, every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    pub interval: Option<f64>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What `putget counters` shows.
#[derive(Args, Clone)]
pub struct PutgetCountersArgs {
    /// Those that are 0, too.
    #[arg(long)]
    pub all: bool,
    /// Look again and again, every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    pub interval: Option<f64>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}
