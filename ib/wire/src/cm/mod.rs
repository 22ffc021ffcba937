//! Communication management MADs, class ComMgt (IBA 12.6): the eleven messages by which two sides connect, part, load
//! an alternate path, and ask for the queue pair behind a service. Every message is a value with all its fields;
//! `CmMad` is one in its MAD. Knows no state: which message may follow which is the connection manager's business.

mod codes;
mod connect;
mod ip;
mod path;
mod private_data;
mod req;
mod sdp;
mod sidr;

pub use codes::*;
pub use connect::*;
pub use ip::*;
pub use path::*;
pub use private_data::*;
pub use req::*;
pub use sdp::*;
pub use sidr::*;

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::mad::{AttributeId, MAD_LEN, MadHeader, ManagementClass, Method};
use crate::types::TransactionId;
use std::fmt;

macro_rules! messages {
    ($($variant:ident = $attribute:literal, $name:literal;)*) => {
        /// A communication management message.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Message {
            $(#[doc = concat!($name, ".")] $variant($variant),)*
        }

        impl Message {
            /// The attribute that names the message in its MAD.
            pub const fn attribute(&self) -> AttributeId {
                match self {
                    $(Message::$variant(_) => AttributeId($attribute),)*
                }
            }

            /// The message's short name, as "REQ".
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Message::$variant(_) => <$variant as Header>::NAME,)*
                }
            }

            /// Reads what follows the MAD header; None if no message has this attribute.
            fn parse(attribute: AttributeId, body: &[u8]) -> Option<Result<Self, ParseError>> {
                Some(match attribute.0 {
                    $($attribute => <$variant>::parse(body).map(|(message, _)| Message::$variant(message)),)*
                    _ => return None,
                })
            }

            fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
                match self {
                    $(Message::$variant(message) => message.emit(out),)*
                }
            }
        }

        $(impl From<$variant> for Message {
            fn from(message: $variant) -> Self {
                Message::$variant(message)
            }
        }

        // Header and message fill a MAD exactly.
        const _: () = assert!(MadHeader::LEN + <$variant as Header>::LEN == MAD_LEN);)*
    };
}

messages! {
    Req = 0x0010, "ConnectRequest";
    Mra = 0x0011, "MsgRcptAck: the answer will take longer than the time-out";
    Rej = 0x0012, "ConnectReject";
    Rep = 0x0013, "ConnectReply";
    Rtu = 0x0014, "ReadyToUse";
    Dreq = 0x0015, "DisconnectRequest";
    Drep = 0x0016, "DisconnectReply";
    SidrReq = 0x0017, "ServiceIDResReq: which queue pair serves this service";
    SidrRep = 0x0018, "ServiceIDResReqResp";
    Lap = 0x0019, "LoadAlternatePath";
    Apr = 0x001a, "AlternatePathResponse";
}

/// A message in its MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmMad {
    /// Chosen by the side that begins an exchange and kept in all its messages.
    pub transaction_id: TransactionId,
    /// Zero, or in REQ, REP and SIDR_REP what the vendor of `vendor_id` wants said about enhanced connections.
    pub attribute_modifier: u32,
    /// The message.
    pub message: Message,
}

impl CmMad {
    /// A message without a vendor's modifier.
    pub fn new(transaction_id: TransactionId, message: impl Into<Message>) -> Self {
        CmMad {
            transaction_id,
            attribute_modifier: 0,
            message: message.into(),
        }
    }

    /// Reads a whole MAD of 256 bytes.
    pub fn parse(mad: &[u8]) -> Result<Self, ParseError> {
        let (header, body) = MadHeader::parse_mad(mad)?;
        header.check_class(ManagementClass::COM_MGT)?;
        let unknown = ParseError::MadAttribute {
            class: header.class,
            method: header.method,
            attribute: header.attribute,
        };
        // Every message is a Send, the answers too (IBA 12.6).
        if header.method != Method::SEND {
            return Err(unknown);
        }
        Ok(CmMad {
            transaction_id: header.transaction_id,
            attribute_modifier: header.attribute_modifier,
            message: Message::parse(header.attribute, body).ok_or(unknown)??,
        })
    }

    /// Writes the MAD to the start of `out`; returns what follows.
    pub fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        let (needed, got) = (MAD_LEN, out.len());
        if got < needed {
            return Err(EmitError::BufferTooSmall { needed, got });
        }
        let header = MadHeader {
            attribute_modifier: self.attribute_modifier,
            ..MadHeader::new(
                ManagementClass::COM_MGT,
                Method::SEND,
                self.message.attribute(),
                self.transaction_id,
            )
        };
        let body = header.emit(out)?;
        self.message.emit(body)
    }
}

/// One line, as `ferriband dump` prints it.
impl fmt::Display for CmMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CM {} ", self.message.name())?;
        match &self.message {
            Message::Req(m) => write!(
                f,
                "comm={} service={} qpn={} psn={} mtu={} retry={} rnr={}",
                m.local_comm_id,
                m.service_id,
                m.local_qpn,
                m.starting_psn,
                m.path_mtu().map_or(0, crate::Mtu::bytes),
                m.retry_count,
                m.rnr_retry_count
            ),
            Message::Rep(m) => write!(
                f,
                "comm={} remote={} qpn={} psn={} rnr={}",
                m.local_comm_id, m.remote_comm_id, m.local_qpn, m.starting_psn, m.rnr_retry_count
            ),
            Message::Rej(m) => write!(
                f,
                "comm={} remote={} rejected={} reason={}",
                m.local_comm_id, m.remote_comm_id, m.rejected, m.reason
            ),
            Message::Mra(m) => write!(
                f,
                "comm={} remote={} acknowledged={} timeout={}",
                m.local_comm_id, m.remote_comm_id, m.acknowledged, m.service_timeout
            ),
            Message::Rtu(m) => write!(f, "comm={} remote={}", m.local_comm_id, m.remote_comm_id),
            Message::Dreq(m) => write!(
                f,
                "comm={} remote={} qpn={}",
                m.local_comm_id, m.remote_comm_id, m.remote_qpn
            ),
            Message::Drep(m) => write!(f, "comm={} remote={}", m.local_comm_id, m.remote_comm_id),
            Message::Lap(m) => write!(
                f,
                "comm={} remote={} qpn={} path={}",
                m.local_comm_id, m.remote_comm_id, m.remote_qpn, m.alternate
            ),
            Message::Apr(m) => write!(
                f,
                "comm={} remote={} status={}",
                m.local_comm_id, m.remote_comm_id, m.status
            ),
            Message::SidrReq(m) => write!(
                f,
                "request={} service={} pkey={}",
                m.request_id, m.service_id, m.pkey
            ),
            Message::SidrRep(m) => write!(
                f,
                "request={} service={} status={} qpn={} qkey={}",
                m.request_id, m.service_id, m.status, m.qpn, m.qkey
            ),
        }
    }
}
