//! Incidents: why requests and connections failed, kept in a file, because the process is usually gone when somebody asks.
//!
//! Owns: the file `ferriband/incidents` in $XDG_STATE_HOME (else ~/.local/state), one line of JSON for each incident; what is older than
//! [`FILE_BYTES`] moves to `incidents.old`, once. Where it cannot be written nothing happens. Must not know: who failed, and why.

use crate::report::{QpReport, is_default};
use ferriband_notes as notes;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

pub use notes::FILE_BYTES;

/// The file's name.
const FILE: &str = "incidents";

/// Something failed that users of RDMA ask about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// When: milliseconds since 1970.
    pub at_ms: u64,
    /// The process.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Incidents of this process since its last one that were not written, because they were too many.
    #[serde(default, skip_serializing_if = "is_default")]
    pub left_out: u64,
    /// What failed.
    #[serde(flatten)]
    pub event: Event,
}

/// What failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A work request ended with status 12 or 13.
    RequestFailed(Box<RequestFailure>),
    /// A connection was refused, or nobody answered.
    ConnectionFailed(ConnectionFailure),
    /// A connection's packets got no answer on a live fabric, whose process knows why.
    PathLost(PathLost),
}

/// What a live fabric says of a path by which a connection got no answer: its requests ended with
/// status 12, its program gave it up, or it went over to another path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathLost {
    /// The device,
    pub device: String,
    /// its port,
    pub port: u8,
    /// and the queue pair.
    pub qpn: u32,
    /// The fabric.
    pub fabric: String,
    /// LID of the port.
    pub from: u16,
    /// LID that packets were for.
    pub to: u16,
    /// What became of them, as a sentence.
    pub says: String,
    /// The cables that they took, by both ends, until there.
    #[serde(skip_serializing_if = "is_default")]
    pub links: Vec<String>,
}

/// A work request ended with status 12 (RETRY_EXC) or 13 (RNR_RETRY_EXC).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestFailure {
    /// Its status.
    pub status: u32,
    /// The identifier that the program gave it.
    pub wr_id: u64,
    /// What it was to do: `SEND`, `RDMA_WRITE`, `RDMA_READ`, `CMP_SWAP`, `FETCH_ADD`.
    pub operation: String,
    /// Its queue pair.
    pub qp: QpReport,
}

/// A connection of the connection manager ended REJECTED or UNREACHABLE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionFailure {
    /// `rejected` or `unreachable`.
    pub outcome: String,
    /// This side asked; else it was asked.
    pub active: bool,
    /// A datagram service was asked for (SIDR), not a connection.
    #[serde(skip_serializing_if = "is_default")]
    pub datagram: bool,
    /// The local device; empty if none was found.
    pub device: String,
    /// Its interface; empty for the InfiniBand device.
    #[serde(skip_serializing_if = "is_default")]
    pub interface: String,
    /// This side's address and port.
    #[serde(skip_serializing_if = "is_default")]
    pub source: String,
    /// The other side's.
    #[serde(skip_serializing_if = "is_default")]
    pub destination: String,
    /// Reason of a rejection (IBA 12.6.7.2), or status of a service's answer.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: u16,
    /// In words.
    #[serde(skip_serializing_if = "is_default")]
    pub reason_text: String,
    /// Unreachable: which message nobody answered: `REQ`, `REP`, `SIDR_REQ`.
    #[serde(skip_serializing_if = "is_default")]
    pub unanswered: String,
    /// The interface is switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

/// The directory of incidents; None if the environment names no home.
pub fn directory() -> Option<PathBuf> {
    notes::state_directory()
}

/// Appends an incident to the file in a directory, which is made if need be.
///
/// # Errors
/// What the system says: the directory cannot be made or written, somebody else has it. Nothing is half written.
pub fn append(directory: &Path, incident: &Incident) -> io::Result<()> {
    notes::append(directory, FILE, &serde_json::to_vec(incident)?)
}

/// What is kept, oldest first, and how many lines could not be read. Nothing if there is no such file.
///
/// # Errors
/// A file is there and cannot be read.
pub fn read(directory: &Path) -> io::Result<(Vec<Incident>, usize)> {
    let (mut incidents, mut broken) = (Vec::new(), 0);
    for line in notes::read(directory, FILE)? {
        match serde_json::from_slice(&line) {
            Ok(incident) => incidents.push(incident),
            Err(_) => broken += 1,
        }
    }
    Ok((incidents, broken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_testkit::Scratch;

    fn incident(number: u64) -> Incident {
        Incident {
            at_ms: number,
            pid: 17,
            program: "ib_send_lat".into(),
            left_out: 0,
            event: Event::RequestFailed(Box::new(RequestFailure {
                status: 12,
                wr_id: number,
                ..RequestFailure::default()
            })),
        }
    }

    #[test]
    fn incidents_are_read_as_they_were_written() {
        let scratch = Scratch::directory("incidents");
        let directory = scratch.path().join("state/ferriband");
        let mut refused = incident(2);
        refused.event = Event::ConnectionFailed(ConnectionFailure {
            outcome: "rejected".into(),
            reason: 8,
            ..ConnectionFailure::default()
        });
        append(&directory, &incident(1)).unwrap();
        append(&directory, &refused).unwrap();
        assert_eq!(read(&directory).unwrap(), (vec![incident(1), refused], 0));
    }

    #[test]
    fn lines_that_are_no_incidents_are_passed_over() {
        let directory = Scratch::directory("broken");
        std::fs::write(directory.path().join("incidents"), "{}\nnonsense\n\n").unwrap();
        append(directory.path(), &incident(3)).unwrap();
        assert_eq!(read(directory.path()).unwrap(), (vec![incident(3)], 2));
    }
}
