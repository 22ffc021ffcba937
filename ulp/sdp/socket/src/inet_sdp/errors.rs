//! The errno of what the connection manager and the verbs say.
//!
//! Owns: the one table of it. Must not know: which call is told.

use ferriband_ibv::{CmError, ErrorKind};
use ferriband_sdp_verbs::{Error, Failed};
use rustix::io::Errno;

/// As TCP's calls tell it.
pub(super) fn errno_of(error: &Error) -> Errno {
    match error {
        Error::Verbs(error) => errno_of_manager(error.kind()),
        Error::Memory(_) => Errno::NOMEM,
        Error::NoAdapter | Error::NoRoute => Errno::NETUNREACH,
        _ => Errno::NOBUFS,
    }
}

fn errno_of_manager(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NoMemory => Errno::NOMEM,
        ErrorKind::AddressInUse => Errno::ADDRINUSE,
        ErrorKind::NoSuchAddress => Errno::ADDRNOTAVAIL,
        ErrorKind::Refused => Errno::CONNREFUSED,
        ErrorKind::NotAllowed => Errno::ACCESS,
        ErrorKind::Unreachable | ErrorKind::DeviceGone => Errno::NETUNREACH,
        _ => Errno::INVAL,
    }
}

/// Why the program's socket gets no connection.
pub(super) fn why_not(why: &Failed) -> Errno {
    match why {
        Failed::Refused(_) | Failed::Manager(CmError::Rejected(_)) => Errno::CONNREFUSED,
        Failed::Manager(CmError::Failed(error)) => match Errno::from_raw_os_error(error.errno()) {
            Errno::TIMEDOUT => Errno::TIMEDOUT,
            // no route, or no such address
            _ => errno_of_unreached(error.kind()),
        },
        Failed::Here(error) => errno_of(error),
        // the peer speaks another protocol
        _ => Errno::PROTO,
    }
}

fn errno_of_unreached(kind: ErrorKind) -> Errno {
    match errno_of_manager(kind) {
        Errno::INVAL | Errno::ADDRNOTAVAIL => Errno::NETUNREACH,
        errno => errno,
    }
}
