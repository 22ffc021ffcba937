//! Incidents: what is written down when a request fails for want of an answer, or a connection is refused.
//!
//! Owns: how many a process may write, and where. Everything here is off the data path, and whatever cannot be written is not: a
//! program never suffers from it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ferriband_admin::incident::{self, Event, Incident, RequestFailure};
use ferriband_admin::{ConnectionFailure, QpReport};
use ferriband_fork::{PerProcess, Settled};
use ferriband_transport::types::{Completion, WcOpcode, WcStatus};

use crate::lock;

/// Incidents that a process writes within [`WINDOW_S`]: a thousand queue pairs that lose their peer make a thousand of the same.
const MOST: u32 = 16;
const WINDOW_S: u64 = 10;
/// Longest name of a program.
const NAME_CHARS: usize = 64;

/// True for what the user of RDMA asks about: retries were used up.
#[inline]
pub(crate) fn explains(status: WcStatus) -> bool {
    matches!(status, WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr)
}

/// How much this process has written lately.
#[derive(Debug)]
struct Budget {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Budget {
    /// How many were left out before this one; None if it is left out, too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self
            .since
            .is_none_or(|since| now.duration_since(since).as_secs() >= WINDOW_S)
        {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= MOST {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The program runs with its user's rights and no others, so its environment is its user's.
pub(crate) fn is_own_user() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() == geteuid() && getgid() == getegid()
}

/// Where to; None in a program that runs with other rights than its user's, whose environment is not to be trusted.
fn directory() -> Option<&'static PathBuf> {
    static DIRECTORY: Settled<Option<PathBuf>> = Settled::new();
    DIRECTORY
        .get_or_init(|| incident::directory().filter(|_| is_own_user()))
        .as_ref()
}

#[cold]
fn write(event: Event) {
    static BUDGET: PerProcess<Mutex<Budget>> = PerProcess::new(|| {
        Mutex::new(Budget {
            since: None,
            written: 0,
            left_out: 0,
        })
    });
    let Some(left_out) = lock(BUDGET.get()).take(Instant::now()) else {
        return;
    };
    let Some(directory) = directory() else { return };
    let pid = std::process::id();
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let incident = Incident {
        at_ms: since_1970.as_millis() as u64,
        pid,
        program: program_of(pid).unwrap_or_default(),
        left_out,
        event,
    };
    // a home that is full, missing, read-only or beyond the limit on files loses the explanation,
    // no more
    let _ = ferriband_limit::without_signals(|| incident::append(directory, &incident));
}

/// A request of a queue pair ended with status 12 or 13.
#[cold]
pub(crate) fn request_failed(completion: &Completion, qp: QpReport) {
    let operation = match completion.opcode {
        WcOpcode::Send => "SEND",
        WcOpcode::RdmaWrite => "RDMA_WRITE",
        WcOpcode::RdmaRead => "RDMA_READ",
        WcOpcode::CompSwap => "CMP_SWAP",
        WcOpcode::FetchAdd => "FETCH_ADD",
        WcOpcode::BindMw => "BIND_MW",
        WcOpcode::LocalInv => "LOCAL_INV",
        WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => "RECV",
    };
    write(Event::RequestFailed(Box::new(RequestFailure {
        status: completion.status as u32,
        wr_id: completion.wr_id,
        operation: operation.into(),
        qp,
    })));
}

/// A connection was refused, or nobody answered.
#[cold]
pub(crate) fn connection_failed(failure: ConnectionFailure) {
    write(Event::ConnectionFailed(failure));
}

/// Name of a process's program: what it was called by, without directories.
pub(crate) fn program_of(pid: u32) -> Option<String> {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = arguments.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(first.rsplit(|byte| *byte == b'/').next()?).into_owned();
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(NAME_CHARS)
        .collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_process_writes_few_incidents_at_a_time_and_says_how_many_it_left_out() {
        let mut budget = Budget {
            since: None,
            written: 0,
            left_out: 0,
        };
        let begin = Instant::now();
        let taken = (0..MOST + 5).filter_map(|_| budget.take(begin)).count();
        assert_eq!(taken, MOST as usize);
        let later = begin + Duration::from_secs(WINDOW_S);
        assert_eq!(budget.take(later), Some(5));
        assert_eq!(budget.take(later), Some(0));
    }

    #[test]
    fn a_program_has_the_name_that_it_was_called_by() {
        let own = program_of(std::process::id()).unwrap();
        assert!(own.starts_with("ferriband_hca") && !own.contains('/'));
    }
}
