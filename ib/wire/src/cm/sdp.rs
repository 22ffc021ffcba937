//! Addresses in a request of the Sockets Direct Protocol (IBA annex A4): its private data are the
//! consumer's Hello, in which the connection manager fills in who asks and whom, as rdma_cm in
//! Linux did. There is no header in front.
//!
//! Owns those fields alone: IP version 17, upper half; port 28; addresses 32 and 48. Must not know
//! what else Hello says.

use super::ip::{IpCmHeader, IpPair, v4_address, v4_field};
use super::private_data::PrivateData;
use crate::error::ParseError;
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Hello, as far as every implementation sends it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SdpHelloWire {
    /// Which message it is.
    message: u8,
    header_rest: [u8; 15],
    version: u8,
    /// IPVersion:4 Capabilities:4.
    ip_version: u8,
    sizes: [u8; 10],
    source_port: U16,
    reserved: [u8; 2],
    source: [u8; 16],
    destination: [u8; 16],
}

/// The message identifier of Hello.
const HELLO: u8 = 0;
const IP_VERSION_SHIFT: u32 = 4;
const CAPABILITIES: u8 = 0xf;

/// Bytes of private data in a REQ.
const REQ_PRIVATE_DATA: usize = 92;

impl IpCmHeader {
    /// Bytes at the start of a Hello without which it has no addresses.
    pub const IN_HELLO: usize = size_of::<SdpHelloWire>();

    /// Who asks and whom, from the Hello that a request's private data are.
    ///
    /// # Errors
    /// What is too short, another message, or of an IP version that there is not.
    pub fn from_hello(private_data: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) =
            SdpHelloWire::ref_from_prefix(private_data).map_err(|_| ParseError::Truncated {
                what: "Hello of SDP",
                needed: Self::IN_HELLO,
                got: private_data.len(),
            })?;
        if wire.message != HELLO {
            return Err(ParseError::Field {
                field: "message of SDP",
                value: wire.message.into(),
            });
        }
        let addresses = match wire.ip_version >> IP_VERSION_SHIFT {
            4 => IpPair::V4 {
                source: v4_address(wire.source),
                destination: v4_address(wire.destination),
            },
            6 => IpPair::V6 {
                source: wire.source.into(),
                destination: wire.destination.into(),
            },
            got => return Err(ParseError::IpVersion { expected: 4, got }),
        };
        Ok(IpCmHeader {
            source_port: wire.source_port.get(),
            addresses,
        })
    }

    /// The private data of a REQ: the consumer's Hello with the addresses filled in. None for more
    /// bytes than there is room for, fewer than [`IpCmHeader::IN_HELLO`], or another message.
    pub fn in_hello(&self, consumer: &[u8]) -> Option<PrivateData<REQ_PRIVATE_DATA>> {
        let mut data = *PrivateData::new(consumer).ok()?.as_bytes();
        let (wire, _) = SdpHelloWire::mut_from_prefix(&mut data).ok()?;
        if consumer.len() < Self::IN_HELLO || wire.message != HELLO {
            return None;
        }
        let (ip_version, source, destination) = match self.addresses {
            IpPair::V4 {
                source,
                destination,
            } => (4, v4_field(source), v4_field(destination)),
            IpPair::V6 {
                source,
                destination,
            } => (6, source.octets(), destination.octets()),
        };
        wire.ip_version = ip_version << IP_VERSION_SHIFT | wire.ip_version & CAPABILITIES;
        wire.source_port = U16::new(self.source_port);
        (wire.source, wire.destination) = (source, destination);
        Some(data.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn header() -> IpCmHeader {
        IpCmHeader {
            source_port: 0x1234,
            addresses: IpPair::V4 {
                source: Ipv4Addr::new(10, 0, 0, 1),
                destination: Ipv4Addr::new(10, 0, 0, 2),
            },
        }
    }

    #[test]
    fn only_the_fields_of_the_manager_are_written() {
        let mut hello = [0x77; 92];
        hello[0] = 0;
        let data = header().in_hello(&hello).expect("fits");
        let data = data.as_bytes();
        assert_eq!(data[17], 0x47, "capabilities stay");
        assert_eq!(data[28..30], [0x12, 0x34]);
        assert_eq!(
            data[32..48],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]
        );
        assert_eq!(data[60..64], [10, 0, 0, 2]);
        let own = |at: &usize| !matches!(at, 17 | 28..30 | 32..64);
        assert!((0..92).filter(own).all(|at| data[at] == hello[at]));
        assert_eq!(IpCmHeader::from_hello(data), Ok(header()));
    }

    #[test]
    fn what_is_no_hello_is_refused() {
        assert_eq!(IpCmHeader::IN_HELLO, 64);
        let header = header();
        assert!(header.in_hello(&[0; 63]).is_none());
        assert!(header.in_hello(&[0; 93]).is_none());
        assert!(header.in_hello(&[1; 92]).is_none());
        let data = header.in_hello(&[0; 64]).expect("the shortest");
        let mut bytes = *data.as_bytes();
        assert!(IpCmHeader::from_hello(&bytes[..63]).is_err());
        bytes[17] = 0x50;
        assert!(matches!(
            IpCmHeader::from_hello(&bytes),
            Err(ParseError::IpVersion { got: 5, .. })
        ));
        (bytes[0], bytes[17]) = (0xff, 0x40);
        assert!(IpCmHeader::from_hello(&bytes).is_err());
    }
}
