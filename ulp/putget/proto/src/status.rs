//! What becomes of a request, and its code in a message.

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Status {
    /// The bytes are where they belong.
    Ok,
    /// No memory of the target answers to this tag.
    NoMemory,
    /// There is such memory; it takes no such request.
    NotAllowed,
    /// The memory belongs to somebody else.
    NotPermitted,
    /// The request does not fit into the memory.
    TooLong,
    /// The target takes no requests for now.
    Disabled,
    /// The target has no room to take note of the request.
    NoRoom,
    /// Memory of the target, or of the initiator, cannot be reached.
    Fault,
    /// The connection was lost: nobody knows whether the bytes have arrived.
    Undeliverable,
}

impl Status {
    const ALL: [Status; 9] = [
        Status::Ok,
        Status::NoMemory,
        Status::NotAllowed,
        Status::NotPermitted,
        Status::TooLong,
        Status::Disabled,
        Status::NoRoom,
        Status::Fault,
        Status::Undeliverable,
    ];

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// The status of a message. That a request is undeliverable is no peer's word.
    pub(crate) fn from_code(code: u8) -> Option<Status> {
        let mut told = Status::ALL.into_iter();
        told.find(|status| status.code() == code && *status != Status::Undeliverable)
    }
}
