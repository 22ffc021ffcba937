//! `ferriband qp`: what is done to queue pairs of running programs, other than to let them fail.
//!
//! Owns: the command. Queue pairs are shown by `ferriband status --qps`; the adapters do what is
//! asked.

use crate::args::{QpCommand, QpMigrateArgs};
use crate::domain::{self, Devices};
use crate::failure::Failure;
use crate::members;
use crate::text::{print_json, print_line};
use serde::Serialize;
use std::process::ExitCode;

/// `ferriband qp`.
pub fn command(command: &QpCommand) -> Result<ExitCode, Failure> {
    match command {
        QpCommand::Migrate(args) => migrate(args),
    }
}

/// What became of it.
#[derive(Serialize)]
struct Migrated {
    /// Connections that use their alternate paths.
    migrated: u64,
    /// Connections that were meant, and whose path is not armed.
    not_armed: u64,
    /// Processes that have answered.
    processes: usize,
    /// Processes that have not.
    silent: usize,
}

fn migrate(args: &QpMigrateArgs) -> Result<ExitCode, Failure> {
    let host = members::join()?;
    let interface = |name: &str| {
        Devices::now().interface(name).ok_or_else(|| {
            Failure::new(format!("there is no device {name}"))
                .remedy("ferriband devices lists them")
        })
    };
    let ifindex = args.which.device.as_deref().map(interface).transpose()?;
    // those that died unnoticed are not asked
    let _ = host.reap();
    let ([migrated, not_armed], answers) = domain::ask_to_migrate(&host, args.which.qpn, ifindex);
    let done = Migrated {
        migrated,
        not_armed,
        processes: answers.processes,
        silent: answers.silent,
    };
    if args.json.json {
        print_json(&done)?;
    } else if migrated > 0 {
        print_line(&said(&done))?;
    }
    if migrated > 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(why_none(&done))
}

fn said(done: &Migrated) -> String {
    let mut line = format!(
        "{} connections go by their alternate paths, in {} processes",
        done.migrated, done.processes
    );
    if done.not_armed > 0 {
        line += &format!("; {} more are not armed", done.not_armed);
    }
    if done.silent > 0 {
        line += &format!(
            "; {} processes do not answer and will hear of it when they go on",
            done.silent
        );
    }
    line
}

/// Nothing has migrated.
fn why_none(done: &Migrated) -> Failure {
    let failure = match (done.not_armed, done.silent) {
        (0, 0) => Failure::new("there is no such connection"),
        (0, silent) => Failure::new(format!("{silent} processes do not answer")),
        (unarmed, _) => Failure::new(format!("{unarmed} connections are meant, none is armed")),
    };
    failure.remedy(
        "ferriband status --qps shows the paths; a program loads an alternate one (IBV_QP_ALT_PATH), \
         and both sides rearm (IBV_MIG_REARM)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_migrate_is_counted() {
        let done = Migrated {
            migrated: 2,
            not_armed: 1,
            processes: 3,
            silent: 1,
        };
        assert_eq!(
            said(&done),
            "2 connections go by their alternate paths, in 3 processes; 1 more are not armed; \
             1 processes do not answer and will hear of it when they go on"
        );
    }
}
