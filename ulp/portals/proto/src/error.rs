//! What a call returns and what became of an operation: the numbers of the C ABI.
//!
//! Owns: the two closed sets. Must not know: who asks. Data comes from the Portals 4.3 header,
//! "Return Values" and "Network Interfaces".

/// A return value of the C ABI other than PTL_OK (Portals 4.3, ptl_retvals).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(i32)]
pub enum PtlError {
    /// An argument is invalid: a stale handle, a range outside its object, an unknown option.
    #[error("PTL_ARG_INVALID")]
    ArgInvalid = 1,
    /// No counter reached its test before the timeout.
    #[error("PTL_CT_NONE_REACHED")]
    CtNoneReached = 2,
    /// An event is returned, and at least one before it was overwritten.
    #[error("PTL_EQ_DROPPED")]
    EqDropped = 3,
    /// No event is there.
    #[error("PTL_EQ_EMPTY")]
    EqEmpty = 4,
    /// An error that has no number of its own.
    #[error("PTL_FAIL")]
    Fail = 5,
    /// The logical map was not set.
    #[error("PTL_IGNORED")]
    Ignored = 6,
    /// Operations of the object are under way.
    #[error("PTL_IN_USE")]
    InUse = 7,
    /// The list would become too long.
    #[error("PTL_LIST_TOO_LONG")]
    ListTooLong = 8,
    /// PtlInit has not succeeded yet.
    #[error("PTL_NO_INIT")]
    NoInit = 9,
    /// A limit of the interface is reached.
    #[error("PTL_NO_SPACE")]
    NoSpace = 10,
    /// The process identifier is taken.
    #[error("PTL_PID_IN_USE")]
    PidInUse = 11,
    /// No portal table entry is free.
    #[error("PTL_PT_FULL")]
    PtFull = 12,
    /// Flow control needs an event queue.
    #[error("PTL_PT_EQ_NEEDED")]
    PtEqNeeded = 13,
    /// The portal table entry is in use.
    #[error("PTL_PT_IN_USE")]
    PtInUse = 14,
    /// A wait was ended by PtlAbort.
    #[error("PTL_ABORTED")]
    Aborted = 15,
}

impl PtlError {
    /// The number in the C ABI.
    pub const fn code(self) -> i32 {
        self as i32
    }
}

/// What became of an operation (ptl_ni_fail_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum NiFail {
    /// It succeeded.
    #[default]
    Ok = 0,
    /// The message could not be delivered: the network or the peer failed.
    Undeliverable = 1,
    /// The target dropped the message.
    Dropped = 2,
    /// The portal table entry is disabled, or has just run out of a resource.
    PtDisabled = 3,
    /// The user identifier may not use the list entry.
    PermViolation = 4,
    /// The list entry does not answer to such an operation.
    OpViolation = 5,
    /// A search found nothing.
    NoMatch = 6,
    /// Memory was not accessible.
    Segv = 7,
}

impl NiFail {
    /// The number in the C ABI and in messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The value of a number, or nothing if no value has it.
    pub const fn from_code(code: u8) -> Option<NiFail> {
        Some(match code {
            0 => NiFail::Ok,
            1 => NiFail::Undeliverable,
            2 => NiFail::Dropped,
            3 => NiFail::PtDisabled,
            4 => NiFail::PermViolation,
            5 => NiFail::OpViolation,
            6 => NiFail::NoMatch,
            7 => NiFail::Segv,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_codes_are_read_as_they_are_written() {
        for code in 0..8 {
            assert_eq!(NiFail::from_code(code).map(NiFail::code), Some(code));
        }
        assert_eq!(NiFail::from_code(8), None);
    }

    #[test]
    fn return_values_have_the_numbers_of_the_4_3_header() {
        // 4.3 took PTL_INTERRUPTED away, so PTL_LIST_TOO_LONG is 8 and PTL_PT_IN_USE is 14.
        let some = [
            PtlError::InUse,
            PtlError::ListTooLong,
            PtlError::NoSpace,
            PtlError::PtInUse,
            PtlError::Aborted,
        ];
        assert_eq!(some.map(PtlError::code), [7, 8, 10, 14, 15]);
    }
}
