//! Incidents: why requests and connections failed, kept in a file, because the process is usually gone when somebody asks.
//!
//! Owns: the file `ferriband/incidents` in $XDG_STATE_HOME (else ~/.local/state), one line of JSON for each incident; what is older than
//! [`FILE_BYTES`] moves to `incidents.old`, once. Where it cannot be written nothing happens. Must not know: who failed, and why.

use crate::report::{QpReport, is_default};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that the file may reach; there are at most two of them.
pub const FILE_BYTES: u64 = 64 << 10;
/// Longest line.
const LINE_BYTES: usize = 8 << 10;
/// Attempts to get hold of the file while others move it away.
const ATTEMPTS: usize = 8;
/// open(2)'s flags: not by a symbolic link, and a pipe that somebody put there does not stop us.
const O_NOFOLLOW: i32 = 0o400000;
const O_NONBLOCK: i32 = 0o4000;

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
    crate::directory("XDG_STATE_HOME", ".local/state")
}

/// Appends an incident to the file in a directory, which is made if need be.
///
/// # Errors
/// What the system says: the directory cannot be made or written, somebody else has it. Nothing is half written.
pub fn append(directory: &Path, incident: &Incident) -> io::Result<()> {
    let mut line = serde_json::to_vec(incident)?;
    line.push(b'\n');
    if line.len() > LINE_BYTES {
        return Err(io::Error::other("the incident is too long for the file"));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let path = directory.join("incidents");
    for _ in 0..ATTEMPTS {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(&path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("the file of incidents is not a file"));
        }
        // Whoever holds it may be stopped: without the lock a line is still whole, only the moving away is left to others.
        let locked = file.try_lock().is_ok();
        if locked && found.len() > 0 && found.len() + line.len() as u64 > FILE_BYTES {
            // it may have been moved away before it was locked
            if std::fs::metadata(&path).is_ok_and(|now| now.ino() == found.ino()) {
                std::fs::rename(&path, directory.join("incidents.old"))?;
            }
            continue;
        }
        if !locked && found.len() > 2 * FILE_BYTES {
            return Err(io::Error::other(
                "the file of incidents is full, and locked",
            ));
        }
        return file.write_all(&line);
    }
    Err(io::Error::other(
        "the file of incidents changes all the time",
    ))
}

/// What is kept, oldest first, and how many lines could not be read. Nothing if there is no such file.
///
/// # Errors
/// A file is there and cannot be read.
pub fn read(directory: &Path) -> io::Result<(Vec<Incident>, usize)> {
    let (mut incidents, mut broken) = (Vec::new(), 0);
    for name in ["incidents.old", "incidents"] {
        let file = match File::open(directory.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(4 * FILE_BYTES).read_to_end(&mut text)?;
        for line in text.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(incident) => incidents.push(incident),
                Err(_) if line.is_empty() => {}
                Err(_) => broken += 1,
            }
        }
    }
    Ok((incidents, broken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("ferriband-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

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
    fn incidents_are_read_as_they_were_written_by_their_owner_alone() {
        let scratch = Scratch::new("incidents");
        let directory = scratch.0.join("state/ferriband");
        let mut refused = incident(2);
        refused.event = Event::ConnectionFailed(ConnectionFailure {
            outcome: "rejected".into(),
            reason: 8,
            ..ConnectionFailure::default()
        });
        append(&directory, &incident(1)).unwrap();
        append(&directory, &refused).unwrap();
        assert_eq!(read(&directory).unwrap(), (vec![incident(1), refused], 0));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join("incidents")), 0o600);
    }

    #[test]
    fn the_newest_are_kept_within_two_files_of_bounded_size() {
        let directory = Scratch::new("rotated");
        let count = 4 * FILE_BYTES / serde_json::to_vec(&incident(1000)).unwrap().len() as u64;
        for number in 0..count {
            append(&directory.0, &incident(number)).unwrap();
        }
        let (kept, broken) = read(&directory.0).unwrap();
        assert_eq!(broken, 0);
        assert!(
            kept.windows(2)
                .all(|pair| pair[0].at_ms + 1 == pair[1].at_ms)
        );
        assert_eq!(kept.last().unwrap().at_ms, count - 1);
        for name in ["incidents", "incidents.old"] {
            assert!(std::fs::metadata(directory.0.join(name)).unwrap().len() <= FILE_BYTES);
        }
    }

    #[test]
    fn lines_that_are_no_incidents_are_passed_over() {
        let directory = Scratch::new("broken");
        std::fs::write(directory.0.join("incidents"), "{}\nnonsense\n\n").unwrap();
        append(&directory.0, &incident(3)).unwrap();
        assert_eq!(read(&directory.0).unwrap(), (vec![incident(3)], 2));
    }

    #[test]
    fn a_link_or_a_pipe_in_the_place_of_the_file_is_refused() {
        let directory = Scratch::new("link");
        let elsewhere = directory.0.join("elsewhere");
        std::fs::write(&elsewhere, "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.0.join("incidents")).unwrap();
        append(&directory.0, &incident(1)).unwrap_err();
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"");
        append(Path::new("/proc/self/nowhere"), &incident(1)).unwrap_err();
    }
}
