//! `ferriband sdp status`: the streams of processes that take part, and why one of them is TCP.
//!
//! Owns: putting together what each process says with what the kernel knows of the peers. Asks the
//! library's own thread in each process: no thread of the program is woken, and no connection
//! changes.

use super::peers::Peers;
use super::show;
use crate::args::SdpStatusArgs;
use crate::failure::Failure;
use crate::status::repeat;
use crate::text::print_json;
use ferriband_sdp_proto::change::Phase;
use ferriband_sdp_socket::meet::report::{NOWHERE, Row, Side, Why};
use ferriband_sdp_socket::meet::status::{self, Answer, Report, Told};
use ferriband_sdp_verbs::FlowKind;
use serde::{Serialize, Serializer};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The whole.
#[derive(Serialize)]
pub(super) struct Status {
    pub processes: Vec<ProcessStatus>,
    /// Processes that have the library, and no stream that was worth a question so far.
    pub idle: Vec<Program>,
    /// Processes of other users, which only they and root may ask.
    pub of_other_users: usize,
}

/// A program that runs.
#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Program {
    pub pid: u32,
    pub program: String,
}

/// A process that takes part.
#[derive(Serialize)]
pub(super) struct ProcessStatus {
    /// 0: it has no number here.
    pub pid: u32,
    pub uid: u32,
    /// It said what it has; one that is stopped does not.
    pub answers: bool,
    pub program: String,
    pub eligible: u64,
    pub upgraded: u64,
    pub connections: Vec<Connection>,
    pub listeners: Vec<Listener>,
    pub strangers: Vec<StrangerStatus>,
}

/// A TCP connection.
#[derive(Serialize)]
pub(super) struct Connection {
    pub descriptor: i32,
    #[serde(serialize_with = "side")]
    pub side: Side,
    pub address: SocketAddr,
    pub peer_address: SocketAddr,
    /// Who holds the peer's end, as far as that can be seen.
    pub peer: Option<Program>,
    /// Rings in memory of both programs ("local"), queue pairs ("verbs"), or "tcp".
    pub transport: &'static str,
    /// Of queue pairs.
    pub flow_control: Option<&'static str>,
    pub out: Direction,
    #[serde(rename = "in")]
    pub into: Direction,
    pub wakeups: u64,
    /// Why it is TCP, or a direction is.
    pub reason: Option<String>,
    pub explanation: Option<String>,
    /// The user who stood in the way.
    pub by_uid: Option<u32>,
}

/// One direction.
#[derive(Serialize)]
pub(super) struct Direction {
    pub carried_by: &'static str,
    pub ring_bytes: u64,
    pub tcp_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct Listener {
    pub descriptor: i32,
    pub address: SocketAddr,
    pub reason: Option<String>,
    pub explanation: Option<String>,
}

/// Somebody who has spoken for what is not his.
#[derive(Serialize)]
pub(super) struct StrangerStatus {
    pub uid: u32,
    pub times: u32,
    pub reason: String,
    pub explanation: &'static str,
}

/// `ferriband sdp status`.
pub fn command(args: &SdpStatusArgs) -> Result<ExitCode, Failure> {
    repeat(args.interval, args.json.json, || {
        let status = look()?;
        match args.json.json {
            true => print_json(&status),
            false => show::status(&status, args.connections),
        }
    })
}

fn look() -> Result<Status, Failure> {
    let path = "/proc/net/unix";
    // other programs' names may be any bytes
    let list = std::fs::read(path).map_err(|error| Failure::io("read", path, &error))?;
    let told = status::ask(&status::names(&String::from_utf8_lossy(&list)), PATIENCE);
    let of_other = |told: &&Told| matches!(told.answer, Answer::OfAnotherUser);
    let of_other_users = told.iter().filter(of_other).count();
    let mut peers = Peers::new(&told);
    let mut processes: Vec<_> = told
        .iter()
        .filter(|told| !of_other(told))
        .map(|told| process(told, &mut peers))
        .collect();
    processes.sort_by_key(|process| process.pid);
    Ok(Status {
        idle: peers.idle(),
        processes,
        of_other_users,
    })
}

fn process(told: &Told, peers: &mut Peers) -> ProcessStatus {
    let mut status = ProcessStatus {
        pid: told.pid,
        uid: told.uid,
        answers: false,
        program: Peers::program(told.pid),
        eligible: 0,
        upgraded: 0,
        connections: Vec::new(),
        listeners: Vec::new(),
        strangers: Vec::new(),
    };
    let Answer::Report(report) = &told.answer else {
        return status;
    };
    let Report {
        about,
        strangers,
        rows,
    } = report;
    status.answers = true;
    status.program = about.program();
    (status.eligible, status.upgraded) = (about.eligible, about.upgraded);
    for row in rows {
        match row.side {
            Side::Listener => status.listeners.push(Listener {
                descriptor: row.number,
                address: row.own,
                reason: row.why.map(name),
                explanation: row.why.map(|why| why.sentence().to_owned()),
            }),
            // a socket that is not connected is nobody's business
            _ if row.peer == NOWHERE => {}
            _ => status.connections.push(connection(row, peers)),
        }
    }
    status.strangers = strangers
        .iter()
        .map(|stranger| StrangerStatus {
            uid: stranger.uid,
            times: stranger.times,
            reason: name(Why::Reason(stranger.reason)),
            explanation: stranger.reason.sentence(),
        })
        .collect();
    status
}

fn connection(row: &Row, peers: &mut Peers) -> Connection {
    let peer = peers.of(row);
    let direction = |at: usize, ring_bytes, tcp_bytes| Direction {
        carried_by: carried_by(row.phases.map(|both| both[at])),
        ring_bytes,
        tcp_bytes,
    };
    let traffic = &row.traffic;
    let out = direction(0, traffic.ring_out, traffic.tcp_out);
    let into = direction(1, traffic.ring_in, traffic.tcp_in);
    let explanation = row.why.map(|why| match peers.without(why, peer.as_ref()) {
        Some(better) => better,
        None => why.sentence().to_owned(),
    });
    Connection {
        descriptor: row.number,
        side: row.side,
        address: row.own,
        peer_address: row.peer,
        transport: match (row.phases, row.flow) {
            (_, Some(_)) => "verbs",
            (Some(_), None) => "local",
            (None, None) => "tcp",
        },
        flow_control: row.flow.map(flow_control),
        out,
        into,
        wakeups: traffic.wakes,
        reason: row.why.map(name),
        explanation,
        by_uid: row.by,
        peer,
    }
}

/// A flow control, as the setting `flow` names it.
fn flow_control(flow: FlowKind) -> &'static str {
    match flow {
        FlowKind::Credit => "credit",
        FlowKind::Ring => "ring",
        FlowKind::Nic => "nic",
    }
}

/// The word for what carries a direction.
fn carried_by(phase: Option<Phase>) -> &'static str {
    match phase {
        None | Some(Phase::Tcp | Phase::Ready) => "tcp",
        Some(Phase::Sdp) => "sdp",
        Some(Phase::Back | Phase::Done) => "went back",
    }
}

/// A reason's name, as other programs read it: `not_held`.
fn name(why: Why) -> String {
    let camel = match why {
        Why::Reason(reason) => format!("{reason:?}"),
        Why::Cause(cause) => format!("{cause:?}"),
    };
    let mut name = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

fn side<S: Serializer>(side: &Side, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match side {
        Side::Unconnected => "unconnected",
        Side::Connected => "connected",
        Side::Accepted => "accepted",
        Side::Listener => "listener",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_sdp_socket::meet::message::Reason;
    use ferriband_sdp_socket::meet::report::Cause;

    #[test]
    fn reasons_have_names_for_programs() {
        assert_eq!(name(Why::Reason(Reason::NotHeld)), "not_held");
        assert_eq!(name(Why::Cause(Cause::TooShort)), "too_short");
        assert_eq!(name(Why::Reason(Reason::Nobody)), "nobody");
    }

    #[test]
    fn a_direction_is_sdp_only_while_the_ring_carries_it() {
        assert_eq!(carried_by(None), "tcp");
        assert_eq!(carried_by(Some(Phase::Ready)), "tcp");
        assert_eq!(carried_by(Some(Phase::Sdp)), "sdp");
        assert_eq!(carried_by(Some(Phase::Done)), "went back");
    }
}
