//! Why a life ended, and why a peer is lost.

/// Why a life ended. The numbers are those of the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Cause {
    /// There was none before.
    #[default]
    First = 0,
    /// The adapter has repeated a request in vain.
    RetryExceeded = 1,
    /// The peer had no receive for too long.
    RnrExceeded = 2,
    /// The queue pair is in error.
    QpError = 3,
    /// The adapter is in error.
    DeviceFatal = 4,
    /// The port is down.
    PortDown = 5,
    /// The port has another address.
    AddressChanged = 6,
    /// The partition keys are others.
    PkeyChanged = 7,
    /// The completion queue is in error.
    CqError = 8,
    /// The shared receive queue is in error.
    SrqError = 9,
    /// Nothing comes by a path, and something does by another.
    Silence = 10,
    /// The peer says so.
    Peer = 11,
    /// A message that could not be carried.
    Message = 12,
    /// A verb failed.
    Verb = 13,
    /// A request was withdrawn while its message moved.
    Withdrawn = 14,
    /// A better path is back.
    Return = 15,
    /// The launcher says so.
    Launcher = 16,
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::First,
        Self::RetryExceeded,
        Self::RnrExceeded,
        Self::QpError,
        Self::DeviceFatal,
        Self::PortDown,
        Self::AddressChanged,
        Self::PkeyChanged,
        Self::CqError,
        Self::SrqError,
        Self::Silence,
        Self::Peer,
        Self::Message,
        Self::Verb,
        Self::Withdrawn,
        Self::Return,
        Self::Launcher,
    ];

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Why a peer is lost (law H6: for no other reason).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Its launcher says that it is dead.
    Dead,
    /// It has finalised.
    Over,
    /// Nothing of it was heard on any path for so long.
    Silent {
        /// How long.
        for_ns: u64,
    },
    /// This side has had no adapter for so long.
    NoAdapter {
        /// How long.
        for_ns: u64,
    },
    /// It has refused, with this errno.
    Refused(u32),
    /// It has ended what was connected, with this errno.
    Ended(u32),
    /// This side has ended it, with this errno.
    Own(u32),
}

impl Reason {
    /// The errno that a peer is told.
    pub fn errno(self) -> u32 {
        const ECONNRESET: u32 = 104;
        const ETIMEDOUT: u32 = 110;
        match self {
            Self::Dead | Self::Over => ECONNRESET,
            Self::Silent { .. } | Self::NoAdapter { .. } => ETIMEDOUT,
            Self::Refused(errno) | Self::Ended(errno) | Self::Own(errno) => errno,
        }
    }
}
