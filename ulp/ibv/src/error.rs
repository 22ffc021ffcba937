//! What can go wrong in a verb: the call that failed and its errno, with one table from errno to a kind.

use std::fmt;

/// A verb that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerbsError {
    call: &'static str,
    errno: i32,
}

/// What an errno of a verb means to a caller who must decide something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// ENOMEM: no memory, or a queue is full.
    NoMemory,
    /// EINVAL, ERANGE, EFAULT, EMSGSIZE: an argument is wrong, or beyond a limit of the device.
    Invalid,
    /// EBUSY: something else still uses the object.
    Busy,
    /// EOPNOTSUPP, ENOSYS, EPROTONOSUPPORT: the device or its library does not offer it.
    NotSupported,
    /// ENODEV, ENXIO, EIO: the device is gone or has failed.
    DeviceGone,
    /// EPERM, EACCES: not allowed.
    NotAllowed,
    /// EAGAIN, EINTR: nothing there yet; ask again.
    Again,
    /// ETIMEDOUT, EHOSTUNREACH, ENETUNREACH: the other side does not answer.
    Unreachable,
    /// EADDRINUSE: somebody else has the address or the port.
    AddressInUse,
    /// EADDRNOTAVAIL: the address is none of this host's.
    NoSuchAddress,
    /// ECONNREFUSED: the other side does not want to.
    Refused,
    /// Another errno.
    Other,
}

impl VerbsError {
    pub(crate) const fn new(call: &'static str, errno: i32) -> Self {
        VerbsError { call, errno }
    }

    /// What the last call of this thread left in `errno`; a call that failed without one is EIO.
    #[cold]
    pub(crate) fn last(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        VerbsError::new(call, if errno == 0 { libc::EIO } else { errno })
    }

    /// The verdict on a verb that returns 0 or an errno; old providers return -1 and set `errno`.
    #[inline]
    pub(crate) fn check(call: &'static str, returned: i32) -> Result<(), VerbsError> {
        match returned {
            0 => Ok(()),
            errno if errno > 0 => Err(VerbsError::new(call, errno)),
            _ => Err(VerbsError::last(call)),
        }
    }

    /// The function of the C API that failed, such as `ibv_create_qp`.
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// Its errno.
    pub const fn errno(&self) -> i32 {
        self.errno
    }

    /// What that means: the one table of errno values.
    pub const fn kind(&self) -> ErrorKind {
        match self.errno {
            libc::ENOMEM => ErrorKind::NoMemory,
            libc::EINVAL | libc::ERANGE | libc::EFAULT | libc::EMSGSIZE => ErrorKind::Invalid,
            libc::EBUSY => ErrorKind::Busy,
            libc::EOPNOTSUPP | libc::ENOSYS | libc::EPROTONOSUPPORT => ErrorKind::NotSupported,
            libc::ENODEV | libc::ENXIO | libc::EIO => ErrorKind::DeviceGone,
            libc::EPERM | libc::EACCES => ErrorKind::NotAllowed,
            libc::EAGAIN | libc::EINTR => ErrorKind::Again,
            libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH => ErrorKind::Unreachable,
            libc::EADDRINUSE => ErrorKind::AddressInUse,
            libc::EADDRNOTAVAIL => ErrorKind::NoSuchAddress,
            libc::ECONNREFUSED => ErrorKind::Refused,
            _ => ErrorKind::Other,
        }
    }
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {text}", self.call)
    }
}

impl fmt::Debug for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for VerbsError {}

/// A chain of work requests of which not all were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostError {
    /// How many requests at the front of the chain were posted and will complete.
    pub posted: usize,
    /// Why the next one was refused.
    pub error: VerbsError,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (after {} requests)", self.error, self.posted)
    }
}

impl std::error::Error for PostError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_errno_is_kept_and_named() {
        let error = VerbsError::check("ibv_modify_qp", libc::EBUSY).expect_err("it failed");
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert_eq!(error.errno(), libc::EBUSY);
        assert!(error.to_string().starts_with("ibv_modify_qp: "));
        assert!(VerbsError::check("ibv_modify_qp", 0).is_ok());
    }

    #[test]
    fn minus_one_means_the_threads_errno() {
        // SAFETY: the location of this thread's errno.
        unsafe { *libc::__errno_location() = libc::EACCES };
        let error = VerbsError::check("ibv_query_gid", -1).expect_err("it failed");
        assert_eq!(error.kind(), ErrorKind::NotAllowed);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = 0 };
        let error = VerbsError::check("ibv_query_gid", -1).expect_err("it failed");
        assert_eq!(error.kind(), ErrorKind::DeviceGone);
    }
}
