//! Errors of devices and of the kernel, as MPI has them: the one table of their classes.

use crate::constants::{
    MPI_ERR_BUFFER, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED,
    MPI_ERR_UNSUPPORTED_OPERATION,
};
use crate::errors::MpiError;
use ferriband_ibv::{ErrorKind, VerbsError};
use std::io;

/// An error of the device, in words.
#[cold]
pub(super) fn refused(what: &str, name: &str, error: &io::Error) -> MpiError {
    let class = class_of(error.raw_os_error().unwrap_or(0));
    MpiError::with(class, format!("{name}: cannot {what}: {error}"))
}

/// A verb that failed.
#[cold]
pub(super) fn failed(name: &str, error: VerbsError) -> MpiError {
    MpiError::with(class_of(error.errno()), format!("{name}: {error}"))
}

/// Memory of the runtime's own that there cannot be, or that a device does not take.
#[derive(Debug)]
pub enum NoBuffers {
    /// The kernel gives none.
    None(io::Error),
    /// So many bytes are not registered.
    Unregistered(u64, VerbsError),
}

impl NoBuffers {
    /// What a device of that name needs them for is not possible.
    #[cold]
    pub(super) fn of(&self, name: &str) -> MpiError {
        match self {
            Self::None(error) => refused("get memory for messages", name, error),
            Self::Unregistered(bytes, error) => {
                MpiError::with(class_of(error.errno()), unregistered(name, *bytes, error))
            }
        }
    }

    /// The errno.
    pub(super) fn errno(&self) -> i32 {
        match self {
            Self::None(error) => error.raw_os_error().unwrap_or(libc::ENOMEM),
            Self::Unregistered(_, error) => error.errno(),
        }
    }
}

/// That a device does not take so many bytes of memory, in words, and what to do.
#[cold]
pub(super) fn unregistered(name: &str, bytes: u64, error: &VerbsError) -> String {
    let hint = match error.kind() {
        ErrorKind::NoMemory => "; raise the limit of locked memory (ulimit -l)",
        _ => "",
    };
    format!("{name} does not take {bytes} bytes of memory: {error}{hint}")
}

/// The class of what a device or the kernel does not do: the one table of them.
#[cold]
pub(super) fn class_of(errno: i32) -> i32 {
    match errno {
        libc::ENOMEM | libc::EAGAIN | libc::ENOBUFS => MPI_ERR_NO_MEM,
        libc::EFAULT => MPI_ERR_BUFFER,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::EPROTONOSUPPORT => MPI_ERR_UNSUPPORTED_OPERATION,
        libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH => MPI_ERR_PROC_ABORTED,
        _ => MPI_ERR_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_known_has_its_class() {
        for (errno, class) in [
            (libc::ENOMEM, MPI_ERR_NO_MEM),
            (libc::EAGAIN, MPI_ERR_NO_MEM),
            (libc::EFAULT, MPI_ERR_BUFFER),
            (libc::EOPNOTSUPP, MPI_ERR_UNSUPPORTED_OPERATION),
            (libc::EHOSTUNREACH, MPI_ERR_PROC_ABORTED),
            (libc::EIO, MPI_ERR_OTHER),
        ] {
            let error = std::io::Error::from_raw_os_error(errno);
            assert_eq!(refused("try", "ferri0", &error).class, class, "{error}");
        }
    }
}
