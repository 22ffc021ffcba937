//! The tables of `status` and `counters`.

use super::{DeviceStatus, MemberStatus, Status};
use crate::failure::Failure;
use crate::heals::Heal;
use crate::text::{Table, print_line, utc};
use ferriband_admin::{Counter, QpReport};
use ferriband_mpi_proto::heals::words;
use std::collections::BTreeMap;

/// Queue pairs of one service, wire and state.
type Group<'a> = (&'a str, &'a str, &'a str);

fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// Devices, then processes, and each of their queue pairs if wanted.
pub fn status(status: &Status, qps: bool) -> Result<(), Failure> {
    let mut table = Table::new([
        "device",
        "state",
        "link layer",
        "interface",
        "MTU",
        "GID",
        "packets out",
        "in",
        "trouble",
    ])
    .right_align(&[4, 6, 7]);
    for device in &status.devices {
        device_rows(&mut table, device);
    }
    table.print()?;
    print_line("")?;
    if status.members.is_empty() {
        return print_line("No program of yours has the adapter open.");
    }
    let mut table = Table::new(["pid", "program", "queue pairs"]).right_align(&[0]);
    for member in &status.members {
        member_rows(&mut table, member);
    }
    table.print()?;
    if !status.heals.is_empty() {
        print_line("")?;
        heal_table(&status.heals).print()?;
    }
    if qps {
        print_line("")?;
        qp_table(&status.members).print()?;
    }
    Ok(())
}

fn count(counters: &BTreeMap<&'static str, u64>, counter: Counter) -> u64 {
    counters.get(counter.name()).copied().unwrap_or(0)
}

fn device_rows(table: &mut Table, status: &DeviceStatus) {
    let port = status.device.ports.first();
    let text = |of: Option<String>| of.unwrap_or_default();
    let figure = |counter| {
        status
            .counters
            .as_ref()
            .map(|counters| count(counters, counter).to_string())
    };
    let trouble = status.counters.as_ref().map(|counters| {
        let named: Vec<String> = Counter::ALL
            .into_iter()
            .filter(|counter| counter.is_trouble() && count(counters, *counter) > 0)
            .map(|counter| format!("{} {}", counter.name(), count(counters, counter)))
            .collect();
        match named.len() {
            0 => "none".to_owned(),
            1 | 2 => named.join(", "),
            more => format!("{} and {} more: ferriband counters", named[0], more - 1),
        }
    });
    let gids = port.map_or(&[][..], |port| &port.gids);
    table.row([
        status.device.name.clone(),
        text(port.map(|port| port.state.to_owned())),
        text(port.map(|port| port.link_layer.to_owned())),
        text(status.interface.clone()),
        text(port.map(|port| port.active_mtu.to_string())),
        text(gids.first().cloned()),
        text(figure(Counter::XmitPackets)),
        text(figure(Counter::RcvPackets)),
        text(trouble),
    ]);
    for gid in gids.iter().skip(1) {
        let mut row: [String; 9] = Default::default();
        row[5].clone_from(gid);
        table.row(row);
    }
}

/// A process: its queue pairs by service, wire and state, with their number.
fn member_rows(table: &mut Table, status: &MemberStatus) {
    let Some(member) = &status.member else {
        let silent = "does not answer: stopped, or of another version".to_owned();
        return table.row([status.pid.to_string(), String::new(), silent]);
    };
    let mut groups: BTreeMap<Group<'_>, usize> = BTreeMap::new();
    for qp in &member.qps {
        *groups
            .entry((&qp.service, &qp.wire, &qp.state))
            .or_default() += 1;
    }
    let mut named: Vec<String> = groups
        .into_iter()
        .map(|((service, wire, state), number)| {
            let parts = [service, wire, state].map(clean);
            let parts: Vec<&str> = parts
                .iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            format!("{number} {}", parts.join(" "))
        })
        .collect();
    if member.more_qps > 0 {
        named.push(format!("{} more", member.more_qps));
    }
    if named.is_empty() {
        named.push("none".to_owned());
    }
    table.row([
        status.pid.to_string(),
        clean(&member.program),
        named.join(", "),
    ]);
}

/// The newest heal of each rank that runs, and those that are under way.
fn heal_table(heals: &[Heal]) -> Table {
    let mut table = Table::new([
        "pid",
        "MPI rank",
        "heals",
        "the newest",
        "to rank",
        "took ms",
        "why",
    ])
    .right_align(&[0, 1, 2, 4, 5]);
    for heal in heals {
        let note = &heal.note;
        let when = match heal.is_under_way() {
            true => "under way".to_owned(),
            false => utc(note.at_ms),
        };
        table.row([
            note.whose.pid.to_string(),
            note.whose.rank.to_string(),
            note.count.to_string(),
            when,
            note.whose.peer.to_string(),
            format!("{:.3}", heal.whole_ms()),
            words(note.cause).to_owned(),
        ]);
    }
    table
}

fn qp_table(members: &[MemberStatus]) -> Table {
    let mut table = Table::new([
        "pid", "QPN", "service", "state", "wire", "device", "peer QPN", "peer", "path", "out",
        "again", "in",
    ])
    .right_align(&[0, 9, 10, 11]);
    for status in members {
        for qp in status.member.iter().flat_map(|member| &member.qps) {
            table.row(qp_row(status.pid, qp));
        }
    }
    table
}

fn qp_row(pid: u32, qp: &QpReport) -> [String; 12] {
    let count = |name: &str| qp.counters.get(name).copied().unwrap_or(0);
    let figure = |value: u64| match qp.wire.as_str() {
        "roce" | "packets" => value.to_string(),
        _ => String::new(),
    };
    let peer_qpn = match qp.peer_qpn {
        0 => String::new(),
        number => format!("{number:#08x}"),
    };
    [
        pid.to_string(),
        format!("{:#08x}", qp.qpn),
        clean(&qp.service),
        clean(&qp.state),
        clean(&qp.wire),
        clean(&qp.device),
        peer_qpn,
        clean(&qp.peer),
        path(qp),
        figure(count("sent_requests") + count("sent_answers")),
        figure(count("sent_again")),
        figure(count("rcvd_pkts")),
    ]
}

/// The path's state, and where the alternate one leads, if there is one.
fn path(qp: &QpReport) -> String {
    match qp.alternate.is_empty() {
        true => String::new(),
        false => format!("{}, else {}", clean(&qp.path_state), clean(&qp.alternate)),
    }
}

/// All counters of devices: those that count what goes and comes, and those that are not 0.
pub fn counters(devices: &[DeviceStatus], all: bool) -> Result<(), Failure> {
    let mut table = Table::new(["device", "counter", "value", "counts"]).right_align(&[2]);
    for device in devices {
        let Some(counters) = &device.counters else {
            continue;
        };
        for counter in Counter::ALL {
            let value = count(counters, counter);
            if all || value > 0 || !counter.is_trouble() {
                table.row([
                    device.device.name.clone(),
                    counter.name().to_owned(),
                    value.to_string(),
                    counter.about().to_owned(),
                ]);
            }
        }
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_admin::Member;

    #[test]
    fn a_process_is_summed_up_by_service_wire_and_state() {
        let qp = |service: &str, wire: &str, state: &str| QpReport {
            service: service.into(),
            wire: wire.into(),
            state: state.into(),
            ..QpReport::default()
        };
        let mut table = Table::new(["pid", "program", "queue pairs"]);
        member_rows(
            &mut table,
            &MemberStatus {
                pid: 7,
                answers: true,
                member: Some(Member {
                    pid: 7,
                    program: "server\u{7}".into(),
                    qps: vec![
                        qp("RC", "roce", "RTS"),
                        qp("UD", "", "INIT"),
                        qp("RC", "roce", "RTS"),
                    ],
                    more_qps: 2,
                }),
            },
        );
        let shown = table.render();
        assert!(
            shown.ends_with("7    server   2 RC roce RTS, 1 UD INIT, 2 more"),
            "{shown}"
        );
    }
}
