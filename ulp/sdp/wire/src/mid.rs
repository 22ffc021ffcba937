//! Message identifiers: the closed set of messages (IBA annex A4). Owns codes and names.

use std::fmt;

macro_rules! mids {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Which message this is: the first byte of its BSDH.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Mid {
            $($(#[$doc])* $name = $code,)*
        }

        impl Mid {
            /// All messages, by code.
            pub const ALL: &'static [Mid] = &[$(Mid::$name),*];

            /// From the code; None for codes that no message has.
            pub const fn from_code(code: u8) -> Option<Self> {
                Some(match code {
                    $($code => Mid::$name,)*
                    _ => return None,
                })
            }

            /// The name in the protocol's documents.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Mid::$name => stringify!($name),)*
                }
            }
        }
    };
}

mids! {
    /// Asks for a connection; stands in the private data of the CM's REQ.
    Hello = 0x00,
    /// Accepts a connection; stands in the private data of the CM's REP.
    HelloAck = 0x01,
    /// The sender sends no more data.
    DisConn = 0x02,
    /// The connection ends at once.
    AbortConn = 0x03,
    /// The sink asks that the data of a SrcAvail be sent by messages.
    SendSm = 0x04,
    /// The source has written into the buffer of a SinkAvail.
    RdmaWrCompl = 0x05,
    /// The sink has read from the buffer of a SrcAvail.
    RdmaRdCompl = 0x06,
    /// One half of the connection changes its mode of data transfer.
    ModeChange = 0x07,
    /// The source takes back its SrcAvail.
    SrcAvailCancel = 0x08,
    /// The sink takes back its SinkAvail messages.
    SinkAvailCancel = 0x09,
    /// Answers SinkAvailCancel.
    SinkCancelAck = 0x0a,
    /// Asks the peer for receive buffers of another size.
    ChRcvBuf = 0x0b,
    /// Answers ChRcvBuf with the size that the buffers have.
    ChRcvBufAck = 0x0c,
    /// Asks the peer to pause: the connection moves to another service ID.
    SuspComm = 0x0d,
    /// Answers SuspComm.
    SuspCommAck = 0x0e,
    /// The sink offers a buffer that the source may write into.
    SinkAvail = 0xfd,
    /// The source offers a buffer that the sink may read from.
    SrcAvail = 0xfe,
    /// Bytes of the stream; none in a message that only gives credits.
    Data = 0xff,
}

impl Mid {
    /// The code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Mid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        let known: Vec<Mid> = (0..=u8::MAX).filter_map(Mid::from_code).collect();
        assert_eq!(known, Mid::ALL);
        assert_eq!(known.len(), 18);
        for mid in known {
            assert_eq!(Mid::from_code(mid.code()), Some(mid));
        }
        assert_eq!(Mid::from_code(0x0f), None);
        assert_eq!(Mid::from_code(0xfc), None);
        assert_eq!(Mid::SinkCancelAck.to_string(), "SinkCancelAck");
    }
}
