//! What is said to `ferriband sdp`.

use super::{JsonFlag, parse_interval};
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// The subcommands of `sdp`.
#[derive(Subcommand)]
pub enum SdpCommand {
    /// Run a TCP program whose connections go by SDP where the peer takes part
    ///
    /// Preloads libferriband_sdp.so before what LD_PRELOAD names already and executes PROGRAM in
    /// place of this process: pid, signals and exit status are the program's own. Children inherit
    /// the setting. A connection to a program that does not take part is plain TCP, and so are all
    /// connections of static programs and of those that gain privilege when executed.
    #[command(
        after_help = "Examples:\n  ferriband sdp run -- redis-server\n  FERRIBAND_SDP_AFTER_EXCHANGES=0 ferriband sdp run -- nginx\n  ferriband sdp run --meet /run/meet -- redis-server    (in two containers that share /run/meet)\n  ferriband sdp run --same-host verbs --flow credit -- redis-server    (and the client likewise)\n\n\
        Exit status: the program's own, 126 when it cannot be executed, 127 when there is no such program, 2 for a setting that means nothing.\n\
        Settings are listed by `ferriband sdp env`. The library is found as `ferriband run` finds its own."
    )]
    Run {
        /// Also between network namespaces (containers) of this host: programs find each other by
        /// this directory, which all of them have to see and may write to (setting meet).
        #[arg(long, value_name = "DIR")]
        meet: Option<PathBuf>,
        /// Connections within this network namespace: by rings in shared memory (local), or by
        /// queue pairs of an adapter (verbs), if both programs say so; slower than TCP, for
        /// measuring SDP itself (setting same_host).
        #[arg(long, value_name = "TRANSPORT", value_parser = ["local", "verbs"])]
        same_host: Option<String>,
        /// The flow control that connections by queue pairs ask for (setting flow).
        #[arg(long, value_name = "CONTROL", value_parser = ["credit", "ring", "nic"])]
        flow: Option<String>,
        /// The program and its arguments.
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "PROGRAM"
        )]
        command: Vec<OsString>,
    },
    /// Print the environment of `run` for a shell, and the settings: eval "$(ferriband sdp env)"
    ///
    /// Settings come from the environment (FERRIBAND_SDP_NAME), from the settings file
    /// (~/.config/ferriband/sdp.conf, XDG_CONFIG_HOME; FERRIBAND_SDP_SETTINGS names another), and
    /// by default, in this order.
    Env(JsonFlag),
    /// Show the connections of programs that take part, and why one of them is TCP
    ///
    /// Programs are those of this network namespace that `ferriband sdp run` has started, of this
    /// user, or of all users for root. A thread of the library answers: the program's own threads
    /// are not disturbed. A direction is sdp, tcp, or went back (it was SDP before).
    #[command(
        after_help = "Exit status: 0 something or nothing was shown, 1 failed, 2 wrong usage."
    )]
    Status(SdpStatusArgs),
}

/// What `sdp status` shows.
#[derive(Args, Clone)]
pub struct SdpStatusArgs {
    /// Each connection, instead of those that are alike together.
    #[arg(long)]
    pub connections: bool,
    /// Look again and again, every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    pub interval: Option<f64>,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// What two processes do for `bench --sdp`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketTraffic {
    /// A message goes there and comes back; both sides sleep in their receives.
    Sleeping,
    /// A message goes there and comes back; both sides ask again and again, without sleeping.
    Polled,
    /// Messages in one direction.
    Stream,
    /// A connection is made, a message goes there and comes back, and it is closed; then the next.
    Connections,
    /// Many connections are made and kept, with some exchanges on each.
    Many,
    /// Many connections are made and kept, and what they cost while nothing moves is measured.
    Idle,
    /// One process asks a server of lines, and sleeps until the answer has come.
    Requests,
}

/// How two processes of `bench --sdp` send to one another.
#[derive(Args, Clone)]
pub struct SocketPairArgs {
    /// What they do.
    #[arg(value_enum)]
    pub traffic: SocketTraffic,
    /// Bytes of a message.
    #[arg(long)]
    pub bytes: usize,
    /// By a Unix socket instead of TCP.
    #[arg(long)]
    pub unix: bool,
    /// Which congestion control TCP uses [default: the system's].
    #[arg(long)]
    pub congestion: Option<String>,
    /// This is the second process; where the first one, or the server, listens.
    #[arg(long)]
    pub peer: Option<String>,
    /// Exchanges on each of many connections, at first.
    #[arg(long, default_value_t = 4)]
    pub exchanges: usize,
    /// What a request is.
    #[arg(long, default_value = "")]
    pub line: String,
    /// The last line of an answer.
    #[arg(long, default_value = "")]
    pub answer: String,
}
