//! A message: the header that all have, and what it says. Owns which message has which extended
//! header and which may carry data.

use crate::bsdh::{Bsdh, MessageHeader};
use crate::bsdh::{exactly, nothing};
use crate::control::{Advert, AdvertWire, ModeChange, ModeChangeWire};
use crate::control::{SinkAvailWire, SizeWire, SuspCommWire};
use crate::error::{EmitError, ParseError};
use crate::flow::FlowControl;
use crate::header::{prefix, put, put_bytes};
use crate::hello::{Hello, HelloAck};
use crate::mid::Mid;
use crate::types::ServiceId;
use zerocopy::byteorder::big_endian::U32;

/// A message, with its data in the bytes that it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Message<'a> {
    /// What the BSDH says beside which message this is and how long.
    pub header: MessageHeader,
    /// Which message, and what it says.
    pub body: Body<'a>,
}

/// What a message says. Data is bytes of the stream; with `Flags::OOB_PRES` the last one is urgent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Body<'a> {
    /// Asks for a connection.
    Hello(Hello),
    /// Accepts a connection.
    HelloAck(HelloAck),
    /// The sender sends no more data.
    DisConn,
    /// The connection ends at once.
    AbortConn,
    /// The sink asks that the data of a SrcAvail be sent by messages.
    SendSm,
    /// The source has written into the buffer of the oldest SinkAvail.
    RdmaWrCompl {
        /// Bytes written.
        length_bytes: u32,
    },
    /// The sink has read from the buffer of a SrcAvail.
    RdmaRdCompl {
        /// Bytes read.
        length_bytes: u32,
    },
    /// A half of the connection changes its mode.
    ModeChange(ModeChange),
    /// The source takes back its SrcAvail.
    SrcAvailCancel,
    /// The sink takes back its SinkAvail messages.
    SinkAvailCancel,
    /// Answers SinkAvailCancel.
    SinkCancelAck,
    /// Asks the peer for receive buffers of another size.
    ChRcvBuf {
        /// Bytes that each buffer should have.
        size_bytes: u32,
    },
    /// Answers ChRcvBuf.
    ChRcvBufAck {
        /// Bytes that each buffer has.
        size_bytes: u32,
    },
    /// Asks the peer to pause: the connection moves.
    SuspComm {
        /// Where it moves to.
        service_id: ServiceId,
    },
    /// Answers SuspComm.
    SuspCommAck,
    /// The sink offers a buffer that the source may write into.
    SinkAvail {
        /// The buffer.
        advert: Advert,
        /// Messages with data that the sender had received and not discarded: tells the source
        /// whether data were under way that make the offer stale.
        non_discards: u32,
        /// Data of the other direction.
        data: &'a [u8],
    },
    /// The source offers a buffer that the sink may read from.
    SrcAvail {
        /// The buffer.
        advert: Advert,
        /// Its first bytes.
        data: &'a [u8],
    },
    /// Bytes of the stream; none in a message that only gives credits.
    Data(&'a [u8]),
}

impl<'a> Body<'a> {
    /// Which message.
    pub const fn mid(&self) -> Mid {
        match self {
            Body::Hello(_) => Mid::Hello,
            Body::HelloAck(_) => Mid::HelloAck,
            Body::DisConn => Mid::DisConn,
            Body::AbortConn => Mid::AbortConn,
            Body::SendSm => Mid::SendSm,
            Body::RdmaWrCompl { .. } => Mid::RdmaWrCompl,
            Body::RdmaRdCompl { .. } => Mid::RdmaRdCompl,
            Body::ModeChange(_) => Mid::ModeChange,
            Body::SrcAvailCancel => Mid::SrcAvailCancel,
            Body::SinkAvailCancel => Mid::SinkAvailCancel,
            Body::SinkCancelAck => Mid::SinkCancelAck,
            Body::ChRcvBuf { .. } => Mid::ChRcvBuf,
            Body::ChRcvBufAck { .. } => Mid::ChRcvBufAck,
            Body::SuspComm { .. } => Mid::SuspComm,
            Body::SuspCommAck => Mid::SuspCommAck,
            Body::SinkAvail { .. } => Mid::SinkAvail,
            Body::SrcAvail { .. } => Mid::SrcAvail,
            Body::Data(_) => Mid::Data,
        }
    }

    /// The data that the message carries.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            Body::Data(data) | Body::SrcAvail { data, .. } | Body::SinkAvail { data, .. } => data,
            _ => &[],
        }
    }

    /// Bytes of the headers, BSDH included.
    pub const fn headers_len(&self) -> usize {
        let extended = match self {
            Body::Hello(_) => return Hello::LEN,
            Body::HelloAck(_) => return HelloAck::LEN,
            Body::RdmaWrCompl { .. }
            | Body::RdmaRdCompl { .. }
            | Body::ChRcvBuf { .. }
            | Body::ChRcvBufAck { .. } => size_of::<SizeWire>(),
            Body::ModeChange(_) => size_of::<ModeChangeWire>(),
            Body::SuspComm { .. } => size_of::<SuspCommWire>(),
            Body::SinkAvail { .. } => size_of::<SinkAvailWire>(),
            Body::SrcAvail { .. } => size_of::<AdvertWire>(),
            Body::DisConn
            | Body::AbortConn
            | Body::SendSm
            | Body::SrcAvailCancel
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::SuspCommAck
            | Body::Data(_) => 0,
        };
        Bsdh::LEN + extended
    }

    /// Reads what follows the BSDH of a message.
    fn parse(mid: Mid, rest: &'a [u8]) -> Result<Self, ParseError> {
        let size = || exactly::<SizeWire>(rest, mid).map(SizeWire::size_bytes);
        let bare = |body| nothing(rest, mid, 0).map(|()| body);
        match mid {
            Mid::Hello => Hello::from_bytes(rest).map(Body::Hello),
            Mid::HelloAck => HelloAck::from_bytes(rest).map(Body::HelloAck),
            Mid::DisConn => bare(Body::DisConn),
            Mid::AbortConn => bare(Body::AbortConn),
            Mid::SendSm => bare(Body::SendSm),
            Mid::RdmaWrCompl => size().map(|length_bytes| Body::RdmaWrCompl { length_bytes }),
            Mid::RdmaRdCompl => size().map(|length_bytes| Body::RdmaRdCompl { length_bytes }),
            Mid::ModeChange => {
                ModeChange::from_wire(exactly::<ModeChangeWire>(rest, mid)?).map(Body::ModeChange)
            }
            Mid::SrcAvailCancel => bare(Body::SrcAvailCancel),
            Mid::SinkAvailCancel => bare(Body::SinkAvailCancel),
            Mid::SinkCancelAck => bare(Body::SinkCancelAck),
            Mid::ChRcvBuf => size().map(|size_bytes| Body::ChRcvBuf { size_bytes }),
            Mid::ChRcvBufAck => size().map(|size_bytes| Body::ChRcvBufAck { size_bytes }),
            Mid::SuspComm => {
                let service_id = exactly::<SuspCommWire>(rest, mid)?.service_id();
                Ok(Body::SuspComm { service_id })
            }
            Mid::SuspCommAck => bare(Body::SuspCommAck),
            Mid::SinkAvail => {
                let (wire, data) = prefix::<SinkAvailWire>(rest, mid.name())?;
                Ok(Body::SinkAvail {
                    advert: Advert::from_wire(&wire.advert),
                    non_discards: wire.non_discards.get(),
                    data,
                })
            }
            Mid::SrcAvail => {
                let (wire, data) = prefix::<AdvertWire>(rest, mid.name())?;
                let advert = Advert::from_wire(wire);
                Ok(Body::SrcAvail { advert, data })
            }
            Mid::Data => Ok(Body::Data(rest)),
        }
    }

    /// Writes the extended header; returns what follows.
    fn emit<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8], EmitError> {
        match self {
            Body::Hello(hello) => hello.emit(out),
            Body::HelloAck(ack) => ack.emit(out),
            Body::RdmaWrCompl { length_bytes } | Body::RdmaRdCompl { length_bytes } => {
                put(&SizeWire::new(*length_bytes), out)
            }
            Body::ChRcvBuf { size_bytes } | Body::ChRcvBufAck { size_bytes } => {
                put(&SizeWire::new(*size_bytes), out)
            }
            Body::ModeChange(change) => put(&change.to_wire(), out),
            Body::SuspComm { service_id } => put(&SuspCommWire::new(*service_id), out),
            Body::SinkAvail {
                advert,
                non_discards,
                ..
            } => {
                let wire = SinkAvailWire {
                    advert: advert.to_wire(),
                    non_discards: U32::new(*non_discards),
                };
                put(&wire, out)
            }
            Body::SrcAvail { advert, .. } => put(&advert.to_wire(), out),
            Body::DisConn
            | Body::AbortConn
            | Body::SendSm
            | Body::SrcAvailCancel
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::SuspCommAck
            | Body::Data(_) => Ok(out),
        }
    }

    /// The negotiation that the message carries.
    pub(crate) const fn flow_control(&self) -> Option<&FlowControl> {
        match self {
            Body::Hello(hello) => hello.flow_control.as_ref(),
            Body::HelloAck(ack) => ack.flow_control.as_ref(),
            _ => None,
        }
    }
}

impl<'a> Message<'a> {
    /// Reads a message: all of a receive buffer's bytes, or all private data of a REQ or REP.
    ///
    /// The length field must be the number of bytes. Hello and HelloAck may end before the private
    /// data do, for these are filled up; what lies behind their end is ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (bsdh, rest) = Bsdh::parse(bytes)?;
        let differs = ParseError::Length {
            mid: bsdh.mid,
            expected: bsdh.length_bytes,
            got: bytes.len(),
        };
        // A length that is less than the header's own is no length.
        let announced = usize::try_from(bsdh.length_bytes)
            .ok()
            .and_then(|len| len.checked_sub(Bsdh::LEN))
            .ok_or(differs)?;
        let filled_up = matches!(bsdh.mid, Mid::Hello | Mid::HelloAck);
        let rest = match rest.get(..announced) {
            Some(message) if filled_up || message.len() == rest.len() => message,
            _ => return Err(differs),
        };
        Ok(Message {
            header: bsdh.message_header(),
            body: Body::parse(bsdh.mid, rest)?,
        })
    }

    /// Reads a message of an established connection whose data may lie elsewhere: `prefix` is the
    /// message's start, its headers at least, and `length_bytes` is how long the message is.
    /// Returns the message with that part of its data which is in `prefix`, and how much data it
    /// has in all.
    pub fn parse_prefix(prefix: &'a [u8], length_bytes: u32) -> Result<(Self, u32), ParseError> {
        let (bsdh, rest) = Bsdh::parse(prefix)?;
        let body = Body::parse(bsdh.mid, rest)?;
        let headers = body.headers_len();
        let differs = ParseError::Length {
            mid: bsdh.mid,
            expected: bsdh.length_bytes,
            got: length_bytes as usize,
        };
        let data = u32::try_from(headers)
            .ok()
            .and_then(|headers| length_bytes.checked_sub(headers))
            .filter(|data| *data as usize >= body.data().len())
            .filter(|_| bsdh.length_bytes == length_bytes)
            .ok_or(differs)?;
        let header = bsdh.message_header();
        Ok((Message { header, body }, data))
    }

    /// Bytes of the message.
    pub const fn len_bytes(&self) -> usize {
        self.body.headers_len() + self.body.data().len()
    }

    /// Writes the message at the start of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        self.check()?;
        let headers = self.body.headers_len();
        let data = self.body.data();
        let (needed, length_bytes) = headers
            .checked_add(data.len())
            .and_then(|len| Some((len, u32::try_from(len).ok()?)))
            .ok_or(EmitError::TooLong {
                max: u32::MAX as usize - headers,
                got: data.len(),
            })?;
        if out.len() < needed {
            return Err(EmitError::BufferTooSmall {
                needed,
                got: out.len(),
            });
        }
        let bsdh = Bsdh {
            mid: self.body.mid(),
            flags: self.header.flags,
            bufs: self.header.bufs,
            length_bytes,
            mseq: self.header.mseq,
            mseq_ack: self.header.mseq_ack,
        };
        let out = self.body.emit(bsdh.emit(out)?)?;
        put_bytes(data, out)?;
        Ok(needed)
    }

    /// Refuses what no receiver takes.
    pub(crate) fn check(&self) -> Result<(), EmitError> {
        match self.body.flow_control().and_then(FlowControl::refused) {
            None => Ok(()),
            Some((field, value)) => Err(EmitError::Field { field, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::MessageSeq;

    #[test]
    fn a_prefix_holds_the_headers_and_says_how_much_data_there_is() {
        let header = MessageHeader {
            bufs: 3,
            mseq: MessageSeq(9),
            ..MessageHeader::default()
        };
        let message = |body| Message { header, body };
        let mut bytes = [0; 64];
        let len = message(Body::Data(b"abcdefgh"))
            .emit(&mut bytes)
            .expect("it fits");
        let read = Message::parse_prefix(&bytes[..20], len as u32);
        assert_eq!(read, Ok((message(Body::Data(b"abcd")), 8)));
        // the whole, less than the headers, and lengths that differ from the field
        let read = Message::parse_prefix(&bytes[..len], len as u32);
        assert_eq!(read, Ok((message(Body::Data(b"abcdefgh")), 8)));
        assert!(Message::parse_prefix(&bytes[..15], len as u32).is_err());
        assert!(Message::parse_prefix(&bytes[..20], len as u32 - 1).is_err());
        assert!(Message::parse_prefix(&bytes[..len + 1], len as u32).is_err());
        let len = message(Body::DisConn).emit(&mut bytes).expect("it fits");
        let read = Message::parse_prefix(&bytes[..len], len as u32);
        assert_eq!(read, Ok((message(Body::DisConn), 0)));
        assert!(Message::parse_prefix(&bytes[..len + 1], len as u32).is_err());
    }
}
