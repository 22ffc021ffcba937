//! An incident in the words of RDMA.
//!
//! Owns: the text. What came from a file or another process is cleaned of control characters.

use super::causes::{Cause, Certainty, patience_ns};
use crate::text::{duration, utc};
use ferriband_admin::{
    ConnectionFailure, Event, Incident, PathLost, Progress, QpReport, RequestFailure, Trouble,
};

/// Width of the left column.
const LABEL: usize = 12;

fn line(label: &str, text: impl AsRef<str>) -> String {
    format!("  {label:<LABEL$}{}", text.as_ref())
}

fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// All lines about an incident.
pub fn incident(incident: &Incident, causes: &[Cause]) -> Vec<String> {
    let head = format!(
        "{}  {} (pid {})",
        utc(incident.at_ms),
        clean(&incident.program),
        incident.pid
    );
    let mut lines = match &incident.event {
        Event::RequestFailed(failure) => request(&head, failure),
        Event::ConnectionFailed(failure) => connection(&head, failure),
        Event::PathLost(lost) => path(&head, lost),
    };
    if incident.left_out > 0 {
        let more = format!(
            "{} more of this process were not written down",
            incident.left_out
        );
        lines.push(line("and", more));
    }
    add_causes(&mut lines, causes);
    lines
}

/// All lines about a queue pair that waits now.
pub fn retrying(program: &str, pid: u32, qp: &QpReport, causes: &[Cause]) -> Vec<String> {
    let mut lines = vec![format!(
        "now  {} (pid {pid}): queue pair {:#08x} sends again and waits",
        clean(program),
        qp.qpn
    )];
    add_qp(&mut lines, qp);
    add_causes(&mut lines, causes);
    lines
}

fn request(head: &str, failure: &RequestFailure) -> Vec<String> {
    let (name, meaning) = match failure.status {
        13 => ("RNR_RETRY_EXC_ERR", "the peer had no receive"),
        _ => ("RETRY_EXC_ERR", "the peer did not answer"),
    };
    let mut lines = vec![format!(
        "{head}: {} ended with status {}, {name}: {meaning}",
        clean(&failure.operation),
        failure.status
    )];
    add_qp(&mut lines, &failure.qp);
    lines.push(line("request", format!("wr_id {}", failure.wr_id)));
    lines
}

fn path(head: &str, lost: &PathLost) -> Vec<String> {
    let mut lines = vec![format!(
        "{head}: packets of queue pair {:#08x} of {} were not answered",
        lost.qpn,
        clean(&lost.device)
    )];
    let path = format!("port {}: LID {} -> LID {}", lost.port, lost.from, lost.to);
    lines.push(line("path", path));
    lines.push(line("cables", clean(&lost.links.join("; "))));
    lines
}

fn add_qp(lines: &mut Vec<String>, qp: &QpReport) {
    let wire = match qp.wire.as_str() {
        "roce" => "RoCEv2 packets",
        "packets" => "InfiniBand packets on this host",
        _ => "direct: shared memory on this host",
    };
    lines.push(line(
        "queue pair",
        format!(
            "{:#08x} ({}, {}) of {}; {wire}",
            qp.qpn,
            clean(&qp.service),
            clean(&qp.state),
            clean(&qp.device)
        ),
    ));
    let mut peer = format!("queue pair {:#08x} at {}", qp.peer_qpn, clean(&qp.peer));
    if let Some(process) = &qp.peer_process {
        if process.pid != 0 {
            peer += &format!(", pid {}", process.pid);
        }
        if !process.program.is_empty() {
            peer += &format!(" ({})", clean(&process.program));
        }
    }
    lines.push(line("peer", peer));
    if let Some(path) = qp.path.as_ref().filter(|path| path.interface.is_empty()) {
        lines.push(line(
            "path",
            format!(
                "{} -> {}; path MTU {}",
                clean(&path.source),
                clean(&path.destination),
                qp.path_mtu
            ),
        ));
    } else if let Some(path) = &qp.path {
        lines.push(line(
            "path",
            format!(
                "{}: {} port {} -> {} port 4791 (UDP); path MTU {}, interface's {}",
                clean(&path.interface),
                clean(&path.source),
                path.source_port,
                clean(&path.destination),
                qp.path_mtu,
                path.interface_mtu
            ),
        ));
    }
    let patience = match patience_ns(qp) {
        None => "timeout 0: waits for ever".to_owned(),
        Some(all) => format!(
            "timeout {} ({}), retry_cnt {}: {} in all; rnr_retry {}",
            qp.timeout,
            duration(all as f64 / (f64::from(qp.retry_cnt) + 1.0)),
            qp.retry_cnt,
            duration(all as f64),
            if qp.rnr_retry == 7 {
                "7 (for ever)".to_owned()
            } else {
                qp.rnr_retry.to_string()
            }
        ),
    };
    lines.push(line("patience", patience));
    if let Some(progress) = &qp.progress {
        add_progress(lines, progress);
    }
    if !qp.counters.is_empty() {
        let count = |name: &str| qp.counters.get(name).copied().unwrap_or(0);
        lines.push(line(
            "packets",
            format!(
                "{} out ({} of them again), {} in",
                count("sent_requests") + count("sent_answers"),
                count("sent_again"),
                count("rcvd_pkts")
            ),
        ));
        let others: Vec<String> = qp
            .counters
            .iter()
            .filter(|(name, _)| {
                !matches!(
                    name.as_str(),
                    "sent_requests" | "sent_answers" | "sent_again" | "rcvd_pkts"
                )
            })
            .map(|(name, count)| format!("{} {count}", clean(name)))
            .collect();
        if !others.is_empty() {
            lines.push(line("counters", others.join(", ")));
        }
    }
    for trouble in qp.path.iter().flat_map(|path| &path.troubles) {
        lines.push(line("heard", said(trouble)));
    }
}

fn add_progress(lines: &mut Vec<String>, progress: &Progress) {
    let acknowledged = match progress.acknowledged {
        Some(psn) => format!("acknowledged up to PSN {psn:#08x}"),
        None => "nothing was ever acknowledged".to_owned(),
    };
    let waiting = match progress.outstanding() {
        0 => String::new(),
        1 => format!("; {:#08x} was not", progress.una),
        count => format!(
            "; {:#08x} to {:#08x} ({count} packets) were not",
            progress.una,
            progress.next.wrapping_sub(1) & 0xff_ffff
        ),
    };
    lines.push(line("progress", acknowledged + &waiting));
    let heard = match progress.heard_ago_ms {
        None => "no packet of the peer ever came".to_owned(),
        Some(ms) => format!(
            "the peer's last packet came {} before",
            duration(ms as f64 * 1e6)
        ),
    };
    let trip = match progress.round_trip_ns {
        0 => String::new(),
        ns => format!("; a round trip took {}", duration(ns as f64)),
    };
    lines.push(line("", heard + &trip));
    for (place, one) in progress.tries.iter().enumerate() {
        let cause = match one.cause.as_str() {
            "timeout" => "no acknowledgement in time".to_owned(),
            "silence" => "silence, and then an answer that showed a loss".to_owned(),
            "gap" => "NAK: the peer missed packets (PSN sequence error)".to_owned(),
            "response_lost" => "a response of a READ or atomic was lost".to_owned(),
            "receiver_not_ready" => format!("RNR NAK: no receive (timer code {})", one.code),
            other => format!("{} (code {})", clean(other), one.code),
        };
        let label = if place == 0 { "retries" } else { "" };
        let ago = duration(one.ago_ms * 1e6);
        lines.push(line(
            label,
            format!("{ago:>9} before, from PSN {:#08x}: {cause}", one.psn),
        ));
    }
}

fn said(trouble: &Trouble) -> String {
    let from = match trouble.from.as_str() {
        "" => "this host's kernel".to_owned(),
        from => clean(from),
    };
    let what = match trouble.kind.as_str() {
        "no_room" | "no_route" | "prohibited" | "too_big" if trouble.from.is_empty() => {
            std::io::Error::from_raw_os_error(trouble.code[0]).to_string()
        }
        kind => format!(
            "ICMP {} (type {}, code {})",
            clean(kind).replace('_', " "),
            trouble.code[0],
            trouble.code[1]
        ),
    };
    let limit = match trouble.mtu {
        0 => String::new(),
        mtu => format!(", {mtu} bytes at most"),
    };
    format!(
        "{what}{limit} from {from}, {} times, last {} before",
        trouble.count,
        duration(trouble.ago_ms as f64 * 1e6)
    )
}

fn connection(head: &str, failure: &ConnectionFailure) -> Vec<String> {
    let wanted = if failure.datagram {
        "service"
    } else {
        "connection"
    };
    let outcome = match failure.outcome.as_str() {
        "rejected" => format!(
            "was rejected: {} (reason {})",
            clean(&failure.reason_text),
            failure.reason
        ),
        _ => format!(
            "is unreachable: nobody answered the {}",
            clean(&failure.unanswered)
        ),
    };
    let role = if failure.active {
        "asked for"
    } else {
        "offered"
    };
    let mut lines = vec![format!("{head}: a {wanted} that it {role} {outcome}")];
    let end = |address: &str| match address {
        "" => "?".to_owned(),
        address => clean(address),
    };
    lines.push(line(
        "from, to",
        format!("{} -> {}", end(&failure.source), end(&failure.destination)),
    ));
    let device = match (failure.device.as_str(), failure.interface.as_str()) {
        ("", _) => "none".to_owned(),
        (device, "") => clean(device),
        (device, interface) => format!("{} on {}", clean(device), clean(interface)),
    };
    lines.push(line("device", device));
    lines
}

fn add_causes(lines: &mut Vec<String>, causes: &[Cause]) {
    if causes.is_empty() {
        return;
    }
    lines.push(line("why", ""));
    for (place, cause) in causes.iter().enumerate() {
        let certainty = match cause.certainty {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::Possible => "possible",
        };
        lines.push(format!(
            "  {:>3}. {certainty:<9}{}",
            place + 1,
            clean(&cause.what)
        ));
        lines.push(format!("{:16}do: {}", "", clean(&cause.remedy)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_tells_its_figures_and_nothing_that_moves_the_cursor() {
        let shown = incident(
            &Incident {
                at_ms: 0,
                pid: 7,
                program: "bad\u{1b}[2Jname".into(),
                left_out: 3,
                event: Event::RequestFailed(Box::new(RequestFailure {
                    status: 12,
                    wr_id: 99,
                    operation: "SEND".into(),
                    qp: QpReport {
                        qpn: 0x101,
                        peer_qpn: 0x202,
                        wire: "roce".into(),
                        timeout: 14,
                        retry_cnt: 7,
                        progress: Some(Progress {
                            acknowledged: Some(0x10),
                            una: 0x11,
                            next: 0x14,
                            ..Progress::default()
                        }),
                        ..QpReport::default()
                    },
                })),
            },
            &[],
        )
        .join("\n");
        for part in [
            "status 12, RETRY_EXC_ERR",
            "0x000101",
            "queue pair 0x000202",
            "timeout 14 (67.1 ms), retry_cnt 7: 536.9 ms in all",
            "up to PSN 0x000010; 0x000011 to 0x000013 (3 packets) were not",
            "wr_id 99",
            "3 more",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\u{1b}'));
    }
}
