//! Incidents: what is written down when a request fails for want of an answer, or a connection is refused.
//!
//! Owns: when one is written. Everything here is off the data path, and whatever cannot be written
//! is not: a program never suffers from it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ferriband_admin::incident::{self, Event, Incident, RequestFailure};
use ferriband_admin::{ConnectionFailure, PathLost, QpReport};
use ferriband_fork::{PerProcess, Settled};
use ferriband_notes::Budget;
pub(crate) use ferriband_notes::{is_own_user, program_of};
use ferriband_transport::types::{Completion, WcOpcode, WcStatus};

use crate::lock;

/// True for what the user of RDMA asks about: retries were used up.
#[inline]
pub(crate) fn explains(status: WcStatus) -> bool {
    matches!(status, WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr)
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
    static BUDGET: PerProcess<Mutex<Budget>> = PerProcess::new(|| Mutex::new(Budget::new()));
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

/// What the fabric says of a path that did not carry.
#[cold]
pub(crate) fn path_lost(lost: PathLost) {
    write(Event::PathLost(lost));
}

/// A connection was refused, or nobody answered.
#[cold]
pub(crate) fn connection_failed(failure: ConnectionFailure) {
    write(Event::ConnectionFailed(failure));
}
