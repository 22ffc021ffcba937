//! What two sides tell each other when they connect: private data of REQ and REP.
//!
//! Owns: their bytes. Must not know: what follows from them.

use ferriband_ibv::Qpn;
use ferriband_putget_proto::Config;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Of this protocol; others are refused.
const VERSION: u8 = 1;
/// Marks private data as this protocol's.
const MARK: [u8; 3] = *b"FPG";

/// What a side tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    /// What it receives.
    pub config: Config,
    /// Its queue pair that the connection manager does not tell of.
    pub other: Qpn,
    /// The PSN that this one begins with.
    pub psn: u32,
    /// Where its process listens.
    pub listens: SocketAddr,
    /// The user that its process belongs to, by its own word.
    pub uid: u32,
    /// Which process listens there: another number after it was started anew.
    pub instance: u32,
    /// How often this process has asked the other so far, this request included.
    pub asked: u32,
}

impl Hello {
    /// Bytes of it: fewer than a REQ of the TCP port space has room for.
    pub const BYTES: usize = 4 + 8 + 8 + ADDRESS + 12;

    pub fn emit(&self) -> [u8; Hello::BYTES] {
        let parts: [&[u8]; 11] = [
            &MARK,
            &[VERSION],
            &self.config.message_bytes.to_be_bytes(),
            &self.config.receives.to_be_bytes(),
            &self.config.requests.to_be_bytes(),
            &self.other.0.to_be_bytes(),
            &self.psn.to_be_bytes(),
            &emit_address(self.listens),
            &self.uid.to_be_bytes(),
            &self.instance.to_be_bytes(),
            &self.asked.to_be_bytes(),
        ];
        let mut bytes = [0; Hello::BYTES];
        let mut at = 0;
        for part in parts {
            bytes[at..][..part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }

    /// None if these are no such bytes.
    pub fn parse(bytes: &[u8]) -> Option<Hello> {
        let mut rest = bytes;
        if take::<3>(&mut rest)? != MARK || take::<1>(&mut rest)? != [VERSION] {
            return None;
        }
        let config = Config {
            message_bytes: u32::from_be_bytes(take(&mut rest)?),
            receives: u16::from_be_bytes(take(&mut rest)?),
            requests: u16::from_be_bytes(take(&mut rest)?),
        };
        let other = Qpn(u32::from_be_bytes(take(&mut rest)?));
        let psn = u32::from_be_bytes(take(&mut rest)?);
        let listens = take_address(&mut rest)?;
        let uid = u32::from_be_bytes(take(&mut rest)?);
        let instance = u32::from_be_bytes(take(&mut rest)?);
        let asked = u32::from_be_bytes(take(&mut rest)?);
        let fits = config.check().is_ok() && config.receives <= MOST && config.requests <= MOST;
        let known = config.message_bytes <= MOST_BYTES && other.0 < 1 << 24 && psn < 1 << 24;
        (fits && known).then_some(Hello {
            config,
            other,
            psn,
            listens,
            uid,
            instance,
            asked,
        })
    }
}

/// Bytes of an address.
pub(crate) const ADDRESS: usize = 1 + 16 + 2;

/// Where a process listens: family, address, port.
pub(crate) fn emit_address(listens: SocketAddr) -> [u8; ADDRESS] {
    let (family, address) = match listens.ip() {
        IpAddr::V4(v4) => (4, v4.to_ipv6_mapped().octets()),
        IpAddr::V6(v6) => (6, v6.octets()),
    };
    let mut bytes = [family; ADDRESS];
    bytes[1..17].copy_from_slice(&address);
    bytes[17..].copy_from_slice(&listens.port().to_be_bytes());
    bytes
}

/// Takes such an address; None if there is none.
pub(crate) fn take_address(from: &mut &[u8]) -> Option<SocketAddr> {
    let [family] = take(from)?;
    let address = Ipv6Addr::from(take::<16>(from)?);
    let ip = match family {
        4 => IpAddr::V4(address.to_ipv4_mapped()?),
        6 => IpAddr::V6(address),
        _ => return None,
    };
    let port = u16::from_be_bytes(take(from)?);
    (port != 0).then_some(SocketAddr::new(ip, port))
}

/// Most receives, and most requests under way, that a peer is believed to have.
const MOST: u16 = 4096;
/// The longest message that a peer is believed to take.
const MOST_BYTES: u32 = 1 << 20;

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*first)
}

/// Whether an address of an IPv4 or an IPv6 family may be a process's: never an unspecified one.
pub(crate) fn is_somewhere(address: SocketAddr) -> bool {
    !address.ip().is_unspecified() && address.ip() != IpAddr::V4(Ipv4Addr::BROADCAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_comes_back_and_fits_a_request() {
        for listens in ["10.1.2.3:7000", "[fd00::1]:9"] {
            let hello = Hello {
                config: Config {
                    message_bytes: 2048,
                    receives: 16,
                    requests: 64,
                },
                other: Qpn(0x12_3456),
                psn: 0xab_cdef,
                listens: listens.parse().unwrap(),
                uid: 1000,
                instance: 77,
                asked: 3,
            };
            let bytes = hello.emit();
            assert!(bytes.len() <= ferriband_ibv::PortSpace::Tcp.connect_room());
            let mut padded = bytes.to_vec();
            padded.resize(56, 0);
            assert_eq!(Hello::parse(&padded), Some(hello));
            for length in 0..bytes.len() {
                assert_eq!(Hello::parse(&bytes[..length]), None);
            }
        }
        assert_eq!(Hello::parse(&[0; 56]), None);
    }
}
