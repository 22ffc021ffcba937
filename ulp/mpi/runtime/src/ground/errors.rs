//! Error classes and their sentences: one table. A code is a class until classes are added by the program.

use crate::constants::*;
use std::borrow::Cow;

/// An error of a call. It is one word, and no word is left for it where there is none: what a call returns inside the runtime stays in registers, which is
/// a tenth of a short message's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiError(Box<Detail>);

/// An error's class, and what happened if the class does not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The standard's class, 1 to 62.
    pub class: i32,
    /// What happened, to what.
    pub text: Cow<'static, str>,
}

impl MpiError {
    /// An error that its class says all about.
    #[cold]
    pub fn new(class: i32) -> Self {
        Self::with(class, Cow::Borrowed(""))
    }

    /// An error with a sentence.
    #[cold]
    pub fn with(class: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Detail {
            class,
            text: text.into(),
        }))
    }
}

impl std::ops::Deref for MpiError {
    type Target = Detail;
    fn deref(&self) -> &Detail {
        &self.0
    }
}

impl std::ops::DerefMut for MpiError {
    fn deref_mut(&mut self) -> &mut Detail {
        &mut self.0
    }
}

impl From<ferriband_mpi_data::Error> for MpiError {
    #[cold]
    fn from(error: ferriband_mpi_data::Error) -> Self {
        Self::with(error.class().code(), error.to_string())
    }
}

impl From<ferriband_mpi_data::NotDefined> for MpiError {
    #[cold]
    fn from(error: ferriband_mpi_data::NotDefined) -> Self {
        Self::with(MPI_ERR_OP, error.to_string())
    }
}

/// What a call returns inside the runtime.
pub type Outcome<T = ()> = Result<T, MpiError>;

/// Name and sentence of each class.
const CLASSES: [(i32, &str, &str); 63] = [
    (MPI_SUCCESS, "MPI_SUCCESS", "no error"),
    (MPI_ERR_BUFFER, "MPI_ERR_BUFFER", "invalid buffer pointer"),
    (MPI_ERR_COUNT, "MPI_ERR_COUNT", "invalid count"),
    (MPI_ERR_TYPE, "MPI_ERR_TYPE", "invalid datatype"),
    (MPI_ERR_TAG, "MPI_ERR_TAG", "invalid tag"),
    (MPI_ERR_COMM, "MPI_ERR_COMM", "invalid communicator"),
    (MPI_ERR_RANK, "MPI_ERR_RANK", "invalid rank"),
    (MPI_ERR_REQUEST, "MPI_ERR_REQUEST", "invalid request"),
    (MPI_ERR_ROOT, "MPI_ERR_ROOT", "invalid root"),
    (MPI_ERR_GROUP, "MPI_ERR_GROUP", "invalid group"),
    (MPI_ERR_OP, "MPI_ERR_OP", "invalid reduce operation"),
    (
        MPI_ERR_TOPOLOGY,
        "MPI_ERR_TOPOLOGY",
        "invalid communicator topology",
    ),
    (MPI_ERR_DIMS, "MPI_ERR_DIMS", "invalid dimension argument"),
    (MPI_ERR_ARG, "MPI_ERR_ARG", "invalid argument"),
    (MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN", "unknown error"),
    (MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE", "message truncated"),
    (
        MPI_ERR_OTHER,
        "MPI_ERR_OTHER",
        "known error not in this list",
    ),
    (MPI_ERR_INTERN, "MPI_ERR_INTERN", "internal error"),
    (MPI_ERR_PENDING, "MPI_ERR_PENDING", "pending request"),
    (
        MPI_ERR_IN_STATUS,
        "MPI_ERR_IN_STATUS",
        "look in the statuses for the error",
    ),
    (MPI_ERR_ACCESS, "MPI_ERR_ACCESS", "permission denied"),
    (MPI_ERR_AMODE, "MPI_ERR_AMODE", "invalid access mode"),
    (MPI_ERR_ASSERT, "MPI_ERR_ASSERT", "invalid assertion"),
    (MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE", "invalid file name"),
    (MPI_ERR_BASE, "MPI_ERR_BASE", "invalid base"),
    (
        MPI_ERR_CONVERSION,
        "MPI_ERR_CONVERSION",
        "error in data conversion",
    ),
    (MPI_ERR_DISP, "MPI_ERR_DISP", "invalid displacement"),
    (
        MPI_ERR_DUP_DATAREP,
        "MPI_ERR_DUP_DATAREP",
        "data representation already defined",
    ),
    (MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS", "file exists"),
    (MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE", "file in use"),
    (MPI_ERR_FILE, "MPI_ERR_FILE", "invalid file"),
    (
        MPI_ERR_INFO_KEY,
        "MPI_ERR_INFO_KEY",
        "info key too long or empty",
    ),
    (
        MPI_ERR_INFO_NOKEY,
        "MPI_ERR_INFO_NOKEY",
        "info key not defined",
    ),
    (
        MPI_ERR_INFO_VALUE,
        "MPI_ERR_INFO_VALUE",
        "info value too long or empty",
    ),
    (MPI_ERR_INFO, "MPI_ERR_INFO", "invalid info"),
    (MPI_ERR_IO, "MPI_ERR_IO", "input or output error"),
    (MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL", "invalid keyval"),
    (MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE", "invalid lock type"),
    (MPI_ERR_NAME, "MPI_ERR_NAME", "invalid service name"),
    (MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM", "memory exhausted"),
    (
        MPI_ERR_NOT_SAME,
        "MPI_ERR_NOT_SAME",
        "collective arguments differ among the ranks",
    ),
    (
        MPI_ERR_NO_SPACE,
        "MPI_ERR_NO_SPACE",
        "no space on the device",
    ),
    (MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE", "no such file"),
    (MPI_ERR_PORT, "MPI_ERR_PORT", "invalid port name"),
    (MPI_ERR_QUOTA, "MPI_ERR_QUOTA", "quota exceeded"),
    (
        MPI_ERR_READ_ONLY,
        "MPI_ERR_READ_ONLY",
        "read-only file or file system",
    ),
    (
        MPI_ERR_RMA_ATTACH,
        "MPI_ERR_RMA_ATTACH",
        "memory cannot be attached",
    ),
    (
        MPI_ERR_RMA_CONFLICT,
        "MPI_ERR_RMA_CONFLICT",
        "conflicting accesses to a window",
    ),
    (
        MPI_ERR_RMA_RANGE,
        "MPI_ERR_RMA_RANGE",
        "target memory is not part of the window",
    ),
    (
        MPI_ERR_RMA_SHARED,
        "MPI_ERR_RMA_SHARED",
        "memory cannot be shared",
    ),
    (
        MPI_ERR_RMA_SYNC,
        "MPI_ERR_RMA_SYNC",
        "wrong synchronization of window calls",
    ),
    (
        MPI_ERR_SERVICE,
        "MPI_ERR_SERVICE",
        "invalid service name to unpublish",
    ),
    (MPI_ERR_SIZE, "MPI_ERR_SIZE", "invalid size"),
    (
        MPI_ERR_SPAWN,
        "MPI_ERR_SPAWN",
        "processes cannot be spawned",
    ),
    (
        MPI_ERR_UNSUPPORTED_DATAREP,
        "MPI_ERR_UNSUPPORTED_DATAREP",
        "unsupported data representation",
    ),
    (
        MPI_ERR_UNSUPPORTED_OPERATION,
        "MPI_ERR_UNSUPPORTED_OPERATION",
        "unsupported operation",
    ),
    (MPI_ERR_WIN, "MPI_ERR_WIN", "invalid window"),
    (
        MPI_ERR_RMA_FLAVOR,
        "MPI_ERR_RMA_FLAVOR",
        "wrong flavor of window",
    ),
    (
        MPI_ERR_PROC_ABORTED,
        "MPI_ERR_PROC_ABORTED",
        "a peer process has aborted",
    ),
    (
        MPI_ERR_VALUE_TOO_LARGE,
        "MPI_ERR_VALUE_TOO_LARGE",
        "value is too large to store",
    ),
    (MPI_ERR_SESSION, "MPI_ERR_SESSION", "invalid session"),
    (
        MPI_ERR_ERRHANDLER,
        "MPI_ERR_ERRHANDLER",
        "invalid error handler",
    ),
    (MPI_ERR_ABI, "MPI_ERR_ABI", "operation of the ABI failed"),
];

/// Classes of extensions, which have numbers behind those of the standard.
const EXTENSIONS: &[(i32, &str, &str)] = &[
    (
        MPIX_ERR_PROC_FAILED_PENDING,
        "MPIX_ERR_PROC_FAILED_PENDING",
        "a process that could be the sender has failed",
    ),
    (
        MPIX_ERR_REVOKED,
        "MPIX_ERR_REVOKED",
        "the communicator is revoked",
    ),
];

/// The class's name and sentence, if there is such a class.
pub fn describe(class: i32) -> Option<(&'static str, &'static str)> {
    let at = usize::try_from(class).ok()?;
    let extension = || EXTENSIONS.iter().find(|row| row.0 == class);
    let row = CLASSES.get(at).or_else(extension)?;
    Some((row.1, row.2))
}

/// A peer has broken the rules of the connection.
#[cold]
pub fn broken(peer: u32) -> MpiError {
    MpiError::with(
        MPI_ERR_INTERN,
        format!("rank {peer} sent what no rank sends: the connection is over"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_whole() {
        for (index, (class, name, text)) in CLASSES.iter().enumerate() {
            assert_eq!(*class as usize, index, "{name}");
            assert!(name.starts_with("MPI_") && !text.is_empty());
        }
        assert!(describe(63).is_none() && describe(-1).is_none());
        assert!(
            EXTENSIONS
                .iter()
                .all(|row| describe(row.0).is_some_and(|one| one.0 == row.1))
        );
    }
}
