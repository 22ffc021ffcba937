//! Why bytes are not a message, and why a value cannot become bytes. Owns the two error enums of
//! this crate and nothing else.

use crate::mid::Mid;

/// Why bytes were refused. Whether the receiver answers with AbortConn or rejects the connection is
/// the protocol machine's business; here every variant says what was expected and what was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the header does.
    #[error("{what} needs {needed} bytes, {got} are left")]
    Truncated {
        /// Header that was being read.
        what: &'static str,
        /// Bytes it takes.
        needed: usize,
        /// Bytes that were there.
        got: usize,
    },
    /// No message has this identifier. A receiver answers with AbortConn.
    #[error("message identifier {0:#04x} is unknown")]
    UnknownMid(u8),
    /// The BSDH's length field and the bytes disagree.
    #[error("the length of {mid} says {expected} bytes, {got} are there")]
    Length {
        /// The message.
        mid: Mid,
        /// Bytes that the field announces, headers included.
        expected: u32,
        /// Bytes that were there.
        got: usize,
    },
    /// Bytes follow a message that carries no data.
    #[error("{mid} ends after {expected} bytes, {got} are there")]
    Surplus {
        /// The message.
        mid: Mid,
        /// Bytes that the message has, headers included.
        expected: usize,
        /// Bytes that were there.
        got: usize,
    },
    /// A field has a value that would make the rest meaningless.
    #[error("{field} = {value:#x} is not allowed")]
    Field {
        /// The field.
        field: &'static str,
        /// As received.
        value: u32,
    },
    /// The private data do not begin with the magic of a short Hello or HelloAck: the peer is not a
    /// Ferriband socket.
    #[error("{what} begins with {got:#010x}, expected {expected:#010x}")]
    Magic {
        /// The form that was being read.
        what: &'static str,
        /// Its magic.
        expected: u32,
        /// As received.
        got: u32,
    },
}

/// Why a value cannot be written: misuse by this side, never by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The buffer is too short; nothing was written.
    #[error("{needed} bytes needed, the buffer has {got}")]
    BufferTooSmall {
        /// Bytes that the message takes.
        needed: usize,
        /// Bytes that were offered.
        got: usize,
    },
    /// The message is longer than its length field can say.
    #[error("{got} bytes of data, at most {max} fit")]
    TooLong {
        /// Bytes of data that fit.
        max: usize,
        /// Bytes of data that were offered.
        got: usize,
    },
    /// A field of the flow control has a value that no receiver takes.
    #[error("{field} = {value:#x} is not allowed")]
    Field {
        /// The field.
        field: &'static str,
        /// The value offered.
        value: u64,
    },
    /// Only Hello and HelloAck have a short form.
    #[error("{0} has no short form")]
    NoShortForm(Mid),
}
