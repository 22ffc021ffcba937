//! `ferriband putget`: processes that put and get, what they have and have done, and what is set.
//!
//! Owns: putting together what each process says. It is asked as those of SDP are: a thread of the
//! library in it answers, no thread of the program is woken, and no connection changes.

use super::show;
use crate::args::{PutgetCommand, PutgetStatusArgs};
use crate::failure::Failure;
use crate::settings::{self, Setting};
use crate::status::repeat;
use crate::text::{print_json, print_line};
use ferriband_portals_process::{PortalsReport, settings::SETTINGS as PORTALS};
use ferriband_putget_verbs::report::{PROTOCOL, Report};
use ferriband_putget_verbs::settings::SETTINGS as PUTGET;
use ferriband_tell::{Answer, Told, ask};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// How long all answers together may take.
const PATIENCE: Duration = Duration::from_millis(1500);

/// All processes.
#[derive(Serialize)]
pub struct Status {
    pub processes: Vec<ProcessStatus>,
    /// Processes of other users, which only they and root may ask.
    pub of_other_users: usize,
}

/// A process that listens; a program may be several.
#[derive(Serialize)]
pub struct ProcessStatus {
    /// 0: it has no number here.
    pub pid: u32,
    /// It said what it has; one that is stopped does not.
    pub answers: bool,
    /// What it said.
    #[serde(flatten)]
    pub report: Option<Report>,
    /// Who its peers are, as far as they are processes of this host that have answered.
    pub peers: BTreeMap<SocketAddr, Program>,
}

/// A program that runs.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Program {
    pub pid: u32,
    pub program: String,
}

impl ProcessStatus {
    /// Its interfaces, if it has Portals.
    pub fn portals(&self) -> Option<PortalsReport> {
        let portals = &self.report.as_ref()?.portals;
        serde_json::from_value(portals.clone()).ok()
    }
}

/// Does what the subcommand says.
pub fn command(command: &PutgetCommand) -> Result<ExitCode, Failure> {
    match command {
        PutgetCommand::Status(args) => status(args),
        PutgetCommand::Counters(args) => repeat(args.interval, args.json.json, || {
            let status = look()?;
            match args.json.json {
                true => print_json(&show::counters_by_process(&status)),
                false => show::counters(&status, args.all),
            }
        }),
        PutgetCommand::Settings(flag) => print_settings(flag.json),
    }
}

fn status(args: &PutgetStatusArgs) -> Result<ExitCode, Failure> {
    repeat(args.interval, args.json.json, || {
        let status = look()?;
        match args.json.json {
            true => print_json(&status),
            false => show::status(&status, args.connections),
        }
    })
}

/// The tables.
pub fn show(status: &Status) -> Result<(), Failure> {
    show::status(status, false)
}

/// Asks all of them.
pub fn look() -> Result<Status, Failure> {
    let told =
        ask(PROTOCOL, PATIENCE).map_err(|error| Failure::io("read", "/proc/net/unix", &error))?;
    Ok(of(told))
}

fn of(told: Vec<Told>) -> Status {
    let is_of_other = |told: &&Told| told.answer == Answer::OfAnotherUser;
    let of_other_users = told.iter().filter(is_of_other).count();
    let told = told.iter().filter(|told| !is_of_other(told));
    let mut processes: Vec<ProcessStatus> = told.map(process).collect();
    let known: BTreeMap<SocketAddr, Program> = processes
        .iter()
        .filter_map(|one| {
            let report = one.report.as_ref()?;
            let (pid, program) = (one.pid, report.program.clone());
            Some((report.address, Program { pid, program }))
        })
        .collect();
    for process in &mut processes {
        let connections = process.report.iter().flat_map(|report| &report.connections);
        let peers = connections.filter_map(|connection| {
            let program = known.get(&connection.peer)?;
            Some((connection.peer, program.clone()))
        });
        process.peers = peers.collect();
    }
    let address = |process: &ProcessStatus| process.report.as_ref().map(|report| report.address);
    processes.sort_by_key(|process| (process.pid, address(process)));
    Status {
        processes,
        of_other_users,
    }
}

fn process(told: &Told) -> ProcessStatus {
    let report: Option<Report> = match &told.answer {
        Answer::Text(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    ProcessStatus {
        pid: told.pid,
        answers: report.is_some(),
        report,
        peers: BTreeMap::new(),
    }
}

/// A table of settings as JSON.
#[derive(Serialize)]
struct Shown {
    settings_file: Option<String>,
    settings: Vec<Setting>,
    unknown: Vec<String>,
}

fn print_settings(json: bool) -> Result<ExitCode, Failure> {
    let mut all = BTreeMap::new();
    for (name, table) in [("putget", &PUTGET), ("portals", &PORTALS)] {
        let (values, settings_file) = settings::values(table, &[])?;
        let shown = Shown {
            settings_file,
            settings: Setting::all(table, &values),
            unknown: values.strangers,
        };
        if json {
            all.insert(name, shown);
            continue;
        }
        let file = shown.settings_file.as_deref().unwrap_or("none");
        print_line(&format!("{name}, settings file: {file}"))?;
        for line in settings::lines(&shown.settings) {
            print_line(&line)?;
        }
        print_line(&format!(
            "Set one by {}NAME=VALUE, or by a line `name = value` in the settings file (~/.config/{}).",
            table.prefix, table.file
        ))?;
        for stranger in &shown.unknown {
            print_line(&format!("warning: {stranger}"))?;
        }
    }
    if json {
        print_json(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pid: u32, text: &str) -> Told {
        Told {
            pid,
            uid: 0,
            answer: Answer::Text(text.to_owned()),
        }
    }

    #[test]
    fn peers_are_named_by_the_processes_that_listen_there() {
        let connection = r#"{"peer":"10.0.0.1:2","uid":null,"stands":true,"device":"ferri0",
            "leases_given":{"count":1,"bytes":8},"leases_held":{"count":0,"bytes":0},"counters":{}}"#;
        let text = |address: &str, connections: &str| {
            format!(
                r#"{{"program":"p{address}","address":"{address}","uid":0,"traced":false,
                "connections":[{connections}],"counters":{{}},"portals":null}}"#
            )
        };
        let mut silent = told(9, "");
        silent.answer = Answer::OfAnotherUser;
        let all = vec![
            told(8, &text("10.0.0.1:2", "")),
            told(7, &text("10.0.0.1:1", connection)),
            silent,
            told(6, "no JSON"),
        ];
        let status = of(all);
        let pids: Vec<u32> = status.processes.iter().map(|one| one.pid).collect();
        assert_eq!((pids, status.of_other_users), (vec![6, 7, 8], 1));
        assert!(!status.processes[0].answers && status.processes[1].answers);
        let peers: Vec<_> = status.processes[1].peers.values().collect();
        let expected = Program {
            pid: 8,
            program: "p10.0.0.1:2".to_owned(),
        };
        assert_eq!(peers, [&expected]);
        assert_eq!(status.processes[1].portals(), None);
    }
}
