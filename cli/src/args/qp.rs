//! The command line of `ferriband qp`.

use super::{JsonFlag, QpErrorArgs};
use clap::{Args, Subcommand};

/// What is done to queue pairs.
#[derive(Subcommand, Clone)]
pub enum QpCommand {
    /// Have connections go on by their alternate paths (IBA 17.2.8, automatic path migration)
    ///
    /// A connection can go over to the path that its program has loaded (IBV_QP_ALT_PATH) once both
    /// sides are armed; ferriband status --qps shows it. Nothing that is under way is lost or comes
    /// twice, and the peer follows with the next packet. Programs hear of it by
    /// IBV_EVENT_PATH_MIG. The path that was left is the alternate one then; a program that rearms
    /// may go back to it. Connections by the direct wire have one path, and are never armed.
    #[command(
        after_help = "Examples:\n  ferriband qp migrate --qpn 0x1a2b03\n  ferriband qp migrate --all --json\n\n\
        Exit status: 0 something has migrated, 1 nothing has, 2 wrong usage."
    )]
    Migrate(QpMigrateArgs),
}

/// Which connections migrate.
#[derive(Args, Clone)]
pub struct QpMigrateArgs {
    /// Those that are meant.
    #[command(flatten)]
    pub which: QpErrorArgs,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}
