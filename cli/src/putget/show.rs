//! The tables of `ferriband putget`.

use super::status::{ProcessStatus, Program, Status};
use crate::failure::Failure;
use crate::text::{Table, plural, print_line};
use ferriband_portals_process::{InterfaceReport, PortalsReport};
use ferriband_putget_verbs::report::{ConnectionReport, LeaseReport, Report};
use serde::Serialize;
use std::collections::BTreeMap;

fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn pid(process: &ProcessStatus) -> String {
    match process.pid {
        0 => "?".to_owned(),
        pid => pid.to_string(),
    }
}

fn leases(all: impl Iterator<Item = LeaseReport>) -> String {
    let (count, bytes) = all.fold((0, 0_u64), |(count, bytes), one| {
        (count + one.count, bytes.saturating_add(one.bytes))
    });
    match count {
        0 => "-".to_owned(),
        _ => format!("{count}, {bytes} bytes"),
    }
}

/// Processes and, of Portals, interfaces; each connection if wanted.
pub fn status(status: &Status, connections: bool) -> Result<(), Failure> {
    let mut blocks = Vec::new();
    if status.processes.is_empty() {
        blocks.push("No program of yours puts and gets.".to_owned());
    } else {
        blocks.push(processes(status).render());
    }
    if status.processes.iter().any(|one| one.portals().is_some()) {
        blocks.push(interfaces(status).render());
    }
    if connections {
        blocks.push(all_connections(status).render());
    }
    if status.of_other_users > 0 {
        let count = status.of_other_users;
        let processes = plural(count, "process", "processes");
        blocks.push(format!(
            "{count} {processes} of other users, whom root can ask"
        ));
    }
    print_line(&blocks.join("\n\n"))
}

/// All that answer, and those that do not.
fn processes(status: &Status) -> Table {
    let mut table = Table::new([
        "pid",
        "program",
        "address",
        "uid",
        "connections",
        "leases given",
        "leases held",
        "waiting",
    ])
    .right_align(&[0, 3, 4, 7]);
    for process in &status.processes {
        let Some(report) = &process.report else {
            let mut row: [String; 8] = Default::default();
            row[0] = pid(process);
            row[2] = "does not answer: stopped, or of another version".to_owned();
            table.row(row);
            continue;
        };
        let connections = report.connections.iter();
        let waiting = process.portals().map(|portals| portals.waiting.to_string());
        table.row([
            pid(process),
            clean(&report.program),
            report.address.to_string(),
            report.uid.to_string(),
            report.connections.len().to_string(),
            leases(connections.clone().map(|one| one.leases_given)),
            leases(connections.map(|one| one.leases_held)),
            waiting.unwrap_or_default(),
        ]);
    }
    table
}

/// Interfaces of Portals.
fn interfaces(status: &Status) -> Table {
    let mut table = Table::new([
        "pid",
        "address",
        "interface",
        "rank",
        "table entries",
        "disabled",
        "priority",
        "overflow",
        "unexpected",
    ])
    .right_align(&[0, 4, 6, 7, 8]);
    for process in &status.processes {
        let (Some(report), Some(portals)) = (&process.report, process.portals()) else {
            continue;
        };
        for one in &portals.interfaces {
            let disabled: Vec<String> = one.disabled.iter().map(u32::to_string).collect();
            let disabled = match disabled.is_empty() {
                true => "none".to_owned(),
                false => disabled.join(", "),
            };
            table.row([
                pid(process),
                report.address.to_string(),
                kind(one),
                rank(one),
                one.table.len().to_string(),
                disabled,
                one.priority_entries.to_string(),
                one.overflow_entries.to_string(),
                one.unexpected_headers.to_string(),
            ]);
        }
    }
    table
}

fn kind(one: &InterfaceReport) -> String {
    let matching = if one.matching {
        "matching"
    } else {
        "no matching"
    };
    let logical = if one.logical { "logical" } else { "physical" };
    format!("{matching}, {logical}")
}

fn rank(one: &InterfaceReport) -> String {
    match one.rank {
        Some(rank) => format!("{rank} of {}", one.ranks),
        None => String::new(),
    }
}

fn all_connections(status: &Status) -> Table {
    let mut table = Table::new([
        "pid",
        "address",
        "peer",
        "peer's program",
        "device",
        "state",
        "short",
        "long",
        "direct",
        "refused",
        "waited",
        "leases given",
        "leases held",
    ])
    .right_align(&[0, 6, 7, 8, 9, 10]);
    for process in &status.processes {
        let Some(report) = &process.report else {
            continue;
        };
        for one in &report.connections {
            table.row(connection(process, report, one));
        }
    }
    table
}

fn connection(process: &ProcessStatus, report: &Report, one: &ConnectionReport) -> [String; 13] {
    let sum = |names: &[&str]| {
        let counts = names.iter().map(|name| one.counters.get(*name));
        let sum: u64 = counts.map(|count| count.copied().unwrap_or(0)).sum();
        sum.to_string()
    };
    let program = |Program { pid, program }: &Program| format!("{} ({pid})", clean(program));
    let short = ["begun_short_puts", "begun_short_gets", "begun_exchanges"];
    [
        pid(process),
        report.address.to_string(),
        one.peer.to_string(),
        process
            .peers
            .get(&one.peer)
            .map(program)
            .unwrap_or_default(),
        one.device.as_deref().map(clean).unwrap_or_default(),
        if one.stands { "stands" } else { "being made" }.to_owned(),
        sum(&short),
        sum(&["begun_long_puts", "begun_long_gets"]),
        sum(&["direct_puts", "direct_gets", "direct_atomics"]),
        sum(&["refusals"]),
        sum(&["waited"]),
        leases([one.leases_given].into_iter()),
        leases([one.leases_held].into_iter()),
    ]
}

/// The counters of a process.
#[derive(Serialize)]
pub struct Counters<'a> {
    pid: u32,
    program: &'a str,
    address: String,
    connections: &'a BTreeMap<String, u64>,
    portals: Option<PortalsReport>,
}

/// Of each process that has answered.
pub fn counters_by_process(status: &Status) -> Vec<Counters<'_>> {
    let all = status.processes.iter();
    all.filter_map(|process| {
        let report = process.report.as_ref()?;
        Some(Counters {
            pid: process.pid,
            program: &report.program,
            address: report.address.to_string(),
            connections: &report.counters,
            portals: process.portals(),
        })
    })
    .collect()
}

/// A row for each counter.
pub fn counters(status: &Status, all: bool) -> Result<(), Failure> {
    let processes = counters_by_process(status);
    if processes.is_empty() {
        return print_line("No program of yours puts and gets.");
    }
    let mut table =
        Table::new(["pid", "program", "address", "of", "counter", "value"]).right_align(&[0, 5]);
    for process in processes {
        let mut row = |of: &str, counter: &str, value: u64| {
            if all || value > 0 {
                table.row([
                    process.pid.to_string(),
                    clean(process.program),
                    process.address.clone(),
                    of.to_owned(),
                    clean(counter),
                    value.to_string(),
                ]);
            }
        };
        for (name, value) in process.connections {
            row("connections", name, *value);
        }
        let Some(portals) = &process.portals else {
            continue;
        };
        for one in &portals.operations {
            let name = format!("{}_{}", one.path, one.operation);
            row("Portals", &name, one.count);
            row("Portals", &format!("{name}_bytes"), one.bytes);
        }
        for one in &portals.interfaces {
            for (name, value) in &one.counters {
                row(&kind(one), name, *value);
            }
        }
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disabled_table_entries_and_leases_are_named() {
        let text = r#"{"program":"a\u0007b","address":"10.0.0.1:1","uid":5,"traced":false,
            "connections":[{"peer":"10.0.0.1:2","uid":5,"stands":true,"device":"ferri0",
            "leases_given":{"count":2,"bytes":4096},"leases_held":{"count":0,"bytes":0},
            "counters":{"begun_short_puts":3,"begun_exchanges":1,"waited":7}}],"counters":{},
            "portals":{"interfaces":[{"matching":true,"logical":true,"rank":1,"ranks":2,
            "table":[0,3,5],"disabled":[3,5],"priority_entries":4,"overflow_entries":0,
            "unexpected_headers":6,"counters":{"pt_disabled":2}}],"operations":[],"waiting":0,
            "lent_entries":1}}"#;
        let peer = Program {
            pid: 9,
            program: "c".to_owned(),
        };
        let address = "10.0.0.1:2".parse().expect("an address");
        let status = Status {
            processes: vec![ProcessStatus {
                pid: 7,
                answers: true,
                report: serde_json::from_str(text).expect("a report"),
                peers: [(address, peer)].into(),
            }],
            of_other_users: 0,
        };
        let shown = processes(&status).render();
        assert!(
            shown.contains("ab") && shown.contains("2, 4096 bytes"),
            "{shown}"
        );
        let shown = interfaces(&status).render();
        assert!(shown.contains("matching, logical  1 of 2"), "{shown}");
        assert!(shown.contains("3, 5"), "{shown}");
        let shown = all_connections(&status).render();
        assert!(shown.contains("10.0.0.1:2  c (9)"), "{shown}");
        let row = shown.lines().last().expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[6..12], ["stands", "4", "0", "0", "0", "7"]);
    }
}
