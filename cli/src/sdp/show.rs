//! The tables of `ferriband sdp status`.

use super::status::{Connection, ProcessStatus, Program, Status};
use crate::failure::Failure;
use crate::text::{Table, counted, plural, print_line};
use ferriband_sdp_socket::meet::report::Side;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What connections that stand in one row have in common.
type Group<'a> = (bool, SocketAddr, String, [&'static str; 2], &'a str);

/// The sums of a row.
#[derive(Default)]
struct Sums {
    connections: usize,
    ring: u64,
    tcp: u64,
    wakeups: u64,
}

fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// A program as it is shown.
fn program(of: &Program) -> String {
    format!("{} ({})", clean(&of.program), of.pid)
}

fn pid(process: &ProcessStatus) -> String {
    match process.pid {
        0 => "?".to_owned(),
        pid => pid.to_string(),
    }
}

/// Processes and their connections; each connection if wanted, else those that are alike together.
pub(super) fn status(status: &Status, each: bool) -> Result<(), Failure> {
    let mut blocks = Vec::new();
    let is_used = |process: &&ProcessStatus| !process.connections.is_empty();
    if status.processes.iter().any(|process| is_used(&process)) {
        blocks.push(match each {
            true => all(&status.processes).render(),
            false => alike(&status.processes).render(),
        });
    } else {
        blocks.push("No program of yours that takes part has a connection.".to_owned());
    }
    let notes = notes(status);
    if !notes.is_empty() {
        blocks.push(notes.join("\n"));
    }
    print_line(&blocks.join("\n\n"))
}

fn carried(one: &Connection) -> [&'static str; 2] {
    [&one.out, &one.into].map(|way| match (way.carried_by, one.flow_control) {
        ("sdp", Some("credit")) => "sdp (credit)",
        ("sdp", Some("ring")) => "sdp (ring)",
        ("sdp", Some("nic")) => "sdp (nic)",
        (by, _) => by,
    })
}

/// Connections that are alike in a row.
fn alike(processes: &[ProcessStatus]) -> Table {
    let mut table = Table::new([
        "pid",
        "program",
        "connections",
        "with",
        "out",
        "in",
        "ring bytes",
        "TCP bytes",
        "wake-ups",
        "why TCP",
    ])
    .right_align(&[0, 2, 6, 7, 8]);
    for process in processes {
        let mut groups: BTreeMap<Group<'_>, Sums> = BTreeMap::new();
        for one in &process.connections {
            let sums = groups.entry(group(one)).or_default();
            sums.connections += 1;
            sums.ring += one.out.ring_bytes + one.into.ring_bytes;
            sums.tcp += one.out.tcp_bytes + one.into.tcp_bytes;
            sums.wakeups += one.wakeups;
        }
        for ((accepted, address, peer, [out, into], why), sums) in groups {
            let service = match accepted {
                true => format!("at {address}"),
                false => format!("to {address}"),
            };
            let with = match peer.as_str() {
                "" => service,
                peer => format!("{service}, {peer}"),
            };
            table.row([
                pid(process),
                clean(&process.program),
                sums.connections.to_string(),
                with,
                out.to_owned(),
                into.to_owned(),
                sums.ring.to_string(),
                sums.tcp.to_string(),
                sums.wakeups.to_string(),
                clean(why),
            ]);
        }
    }
    table
}

fn group(one: &Connection) -> Group<'_> {
    let accepted = one.side == Side::Accepted;
    (
        accepted,
        match accepted {
            true => one.address,
            false => one.peer_address,
        },
        one.peer.as_ref().map(program).unwrap_or_default(),
        carried(one),
        one.explanation.as_deref().unwrap_or_default(),
    )
}

fn all(processes: &[ProcessStatus]) -> Table {
    let mut table = Table::new([
        "pid",
        "program",
        "fd",
        "address",
        "peer",
        "peer's program",
        "out",
        "in",
        "ring out",
        "ring in",
        "TCP out",
        "TCP in",
        "wake-ups",
        "why TCP",
    ])
    .right_align(&[0, 2, 8, 9, 10, 11, 12]);
    for process in processes {
        for one in &process.connections {
            let [out, into] = carried(one);
            table.row([
                pid(process),
                clean(&process.program),
                one.descriptor.to_string(),
                one.address.to_string(),
                one.peer_address.to_string(),
                one.peer.as_ref().map(program).unwrap_or_default(),
                out.to_owned(),
                into.to_owned(),
                one.out.ring_bytes.to_string(),
                one.into.ring_bytes.to_string(),
                one.out.tcp_bytes.to_string(),
                one.into.tcp_bytes.to_string(),
                one.wakeups.to_string(),
                clean(one.explanation.as_deref().unwrap_or_default()),
            ]);
        }
    }
    table
}

/// What is no connection.
fn notes(status: &Status) -> Vec<String> {
    let mut notes = Vec::new();
    let who = |process: &ProcessStatus| format!("{} ({})", clean(&process.program), pid(process));
    for process in &status.processes {
        let who = who(process);
        if !process.answers {
            notes.push(format!(
                "{who} does not answer: stopped, or of another version"
            ));
        } else if process.connections.is_empty() && process.listeners.is_empty() {
            notes.push(format!("{who} has no connection"));
        }
        for listener in &process.listeners {
            let address = listener.address;
            notes.push(match &listener.explanation {
                Some(why) => format!("{who} listens at {address}: {}", clean(why)),
                None => format!("{who} listens at {address}"),
            });
        }
        for stranger in &process.strangers {
            let times = counted(u64::from(stranger.times), "time", "times");
            let (uid, why) = (stranger.uid, stranger.explanation);
            notes.push(format!("{who} met uid {uid}, {times}: {why}"));
        }
        for (uid, count) in in_the_way(process) {
            let connections = counted(count, "connection", "connections");
            notes.push(format!(
                "{who}: uid {uid} stood in the way of {connections}"
            ));
        }
    }
    for idle in &status.idle {
        let who = program(idle);
        notes.push(format!(
            "{who} takes part; no connection of it was worth it so far"
        ));
    }
    if status.of_other_users > 0 {
        let count = status.of_other_users;
        let processes = plural(count, "process", "processes");
        notes.push(format!(
            "{count} {processes} of other users, whom root can ask"
        ));
    }
    notes
}

/// Users who stood in the way of connections, with their number.
fn in_the_way(process: &ProcessStatus) -> BTreeMap<u32, u64> {
    let mut users = BTreeMap::new();
    for uid in process.connections.iter().filter_map(|one| one.by_uid) {
        *users.entry(uid).or_default() += 1;
    }
    users
}

#[cfg(test)]
mod tests {
    use super::super::status::{Direction, StrangerStatus};
    use super::*;

    fn connection(port: u16, why: Option<&str>) -> Connection {
        let direction = |carried_by| Direction {
            carried_by,
            ring_bytes: 100,
            tcp_bytes: 10,
        };
        let carried_by = if why.is_some() { "tcp" } else { "sdp" };
        Connection {
            descriptor: i32::from(port),
            side: Side::Accepted,
            address: "127.0.0.1:80".parse().expect("an address"),
            peer_address: SocketAddr::from(([127, 0, 0, 1], port)),
            peer: Some(Program {
                pid: 9,
                program: "client\u{7}".into(),
            }),
            transport: "local",
            flow_control: None,
            out: direction(carried_by),
            into: direction("tcp"),
            wakeups: 3,
            reason: None,
            explanation: why.map(str::to_owned),
            by_uid: None,
        }
    }

    fn process(connections: Vec<Connection>) -> ProcessStatus {
        ProcessStatus {
            pid: 7,
            uid: 0,
            answers: true,
            program: "server".into(),
            eligible: 0,
            upgraded: 0,
            connections,
            listeners: Vec::new(),
            strangers: Vec::new(),
        }
    }

    #[test]
    fn connections_that_are_alike_stand_in_one_row() {
        let rows = [
            connection(1, None),
            connection(2, None),
            connection(3, Some("so it is")),
        ];
        let shown = alike(&[process(rows.into())]).render();
        let rows: Vec<_> = shown.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{shown}");
        let row = "2  at 127.0.0.1:80, client (9)  sdp  tcp         400         40         6";
        assert!(rows[0].contains(row), "{shown}");
        assert!(rows[1].ends_with("so it is"), "{shown}");
        let each = all(&[process(vec![connection(5, None)])]).render();
        assert!(each.contains("127.0.0.1:5"), "{each}");
    }

    #[test]
    fn whoever_has_no_connection_is_named_apart() {
        let mut silent = process(Vec::new());
        silent.answers = false;
        let mut met = process(Vec::new());
        met.strangers.push(StrangerStatus {
            uid: 1000,
            times: 2,
            reason: String::new(),
            explanation: "he is wrong",
        });
        let status = Status {
            processes: vec![silent, met],
            idle: Vec::new(),
            of_other_users: 1,
        };
        let notes = notes(&status);
        assert!(notes[0].contains("does not answer"), "{notes:?}");
        let stranger = "server (7) met uid 1000, 2 times: he is wrong";
        assert!(notes.contains(&stranger.to_owned()), "{notes:?}");
        assert!(notes[notes.len() - 1].starts_with("1 process of other users"));
    }
}
