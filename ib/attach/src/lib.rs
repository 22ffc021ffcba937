//! What the process of a live fabric and those who attach to it say to each other, and the sockets that carry it.
//!
//! Owns the name of a fabric's socket, the check that both ends are of one user, messages of any length over SOCK_SEQPACKET ([`Link`]), and what the messages
//! mean ([`ask`] for questions, [`mad`] for management packets). Must not know what a fabric does with them. What comes from a socket is a stranger's: lengths are
//! bounded, and what cannot be read is an error.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ask;
mod link;
pub mod mad;
pub mod packet;
mod range;
pub mod tap;

pub use link::{
    AttachError, Link, Listener, MOST_BYTES, PIECE_BYTES, Piece, pieces, receive_piece_on, running,
    send_on, wait_on, whole_piece,
};

pub use range::Range;

/// Names the host of a fabric that a program runs on: `FABRIC/HOST`. Set by `ferriband run --host`.
pub const HOST_VARIABLE: &str = "FERRIBAND_HOST";
/// The fabric that is meant where none is named.
pub const DEFAULT_FABRIC: &str = "fabric";
/// The device of a virtual host.
pub const DEVICE: &str = "ferri0";
/// Names the IP address of that host, for the library that shows programs their host.
pub const ADDRESS_VARIABLE: &str = "FERRIBAND_ADDRESS";
/// The addresses of hosts: 127.64.0.1 and on.
const FIRST_ADDRESS: u32 = 0x7f40_0001;

/// Hosts that a fabric may have: each fabric of a network namespace has addresses of its own, 127.64.0.0/16, 127.65.0.0/16 and so on.
pub const MOST_HOSTS: u32 = 0xffff;
/// Bits of a host's number that say its place in its fabric; the rest is the fabric's [`Range`].
const PLACE_BITS: u32 = 16;

/// The IP address of a host by its number.
pub fn address(number: u32) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::from(FIRST_ADDRESS.saturating_add(number & 0x3f_ffff))
}

/// The number of the host that has an address, if it is one of a host of a fabric, there or not.
pub fn number_at(address: std::net::Ipv4Addr) -> Option<u32> {
    let number = u32::from(address).checked_sub(FIRST_ADDRESS)?;
    (number < 0x3f_ffff).then_some(number)
}

/// Longest name of a fabric.
pub const NAME_BYTES: usize = 32;

/// A virtual host, as [`HOST_VARIABLE`] says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName {
    /// The fabric.
    pub fabric: String,
    /// The host: the name of its node.
    pub host: String,
}

impl HostName {
    /// From `FABRIC/HOST`; None if it is not that.
    pub fn parse(text: &str) -> Option<HostName> {
        let (fabric, host) = text.split_once('/')?;
        (is_fabric_name(fabric) && !host.is_empty() && host.len() <= 64).then(|| HostName {
            fabric: fabric.to_owned(),
            host: host.to_owned(),
        })
    }

    /// What the environment says.
    pub fn of_environment() -> Option<HostName> {
        HostName::parse(&std::env::var(HOST_VARIABLE).ok()?)
    }

    /// The label of the registry of the processes that it has.
    pub fn registry_label(&self) -> String {
        // FNV-1a: other hosts get other labels, but for one in 2^64 pairs
        let hash = self
            .to_string()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        format!("fabric-{hash:016x}")
    }
}

impl std::fmt::Display for HostName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.fabric, self.host)
    }
}

/// True for what a fabric may be called: letters, digits, '-', '_' and '.'.
pub fn is_fabric_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= NAME_BYTES && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_host() {
        for number in [0, 1, 255, 256, 0x3f_fffe] {
            assert_eq!(number_at(address(number)), Some(number));
        }
        for other in [
            [127, 0, 0, 1],
            [127, 64, 0, 0],
            [127, 128, 0, 0],
            [10, 0, 0, 1],
        ] {
            assert_eq!(number_at(other.into()), None, "{other:?}");
        }
    }

    #[test]
    fn a_host_is_named_with_its_fabric() {
        let host = HostName::parse("fabric/H-1").unwrap();
        assert_eq!(
            (host.fabric.as_str(), host.host.as_str()),
            ("fabric", "H-1")
        );
        assert_eq!(HostName::parse(&host.to_string()), Some(host));
        for bad in ["", "fabric", "/n1", "a b/n1", "fabric/", "x\0/n"] {
            assert_eq!(HostName::parse(bad), None, "{bad}");
        }
    }
}
