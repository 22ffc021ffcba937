//! Quantities of the InfiniBand Architecture as newtypes, so that a queue pair number cannot be
//! passed where a packet sequence number is expected.
//!
//! Source: IBA volume 1, chapters 4 (addressing), 7 and 9 (link and transport).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($inner:ty), $fmt:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(", $fmt, ")"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $fmt, self.0)
            }
        }
    };
}

newtype!(
    /// Queue pair number, 24 bits.
    Qpn(u32), "{:#08x}");
newtype!(
    /// Message sequence number, 24 bits, counted by the responder.
    Msn(u32), "{:#08x}");
newtype!(
    /// Local identifier of a port in its subnet; 0 is invalid, 0xC000.. is multicast.
    Lid(u16), "{:#06x}");
newtype!(
    /// Partition key; the top bit marks full membership.
    PKey(u16), "{:#06x}");
newtype!(
    /// Queue key of datagram service.
    QKey(u32), "{:#010x}");
newtype!(
    /// Local key of a memory region.
    LKey(u32), "{:#010x}");
newtype!(
    /// Remote key of a memory region or window.
    RKey(u32), "{:#010x}");
newtype!(
    /// Service level, 4 bits.
    Sl(u8), "{}");
newtype!(
    /// Virtual lane, 4 bits.
    Vl(u8), "{}");
newtype!(
    /// Globally unique identifier (EUI-64) in host order.
    Guid(u64), "{:#018x}");
newtype!(
    /// Service identifier: what a listener of the communication manager listens on (IBA annex A3).
    ServiceId(u64), "{:#018x}");
newtype!(
    /// Communication identifier: one side's number for a connection in the making (IBA 12.6).
    CommId(u32), "{:#010x}");
newtype!(
    /// Transaction identifier: what ties a management datagram's answer to its request (IBA 13.4).
    TransactionId(u64), "{:#018x}");
newtype!(
    /// Management key of a port (IBA 14.2).
    MKey(u64), "{:#018x}");
newtype!(
    /// Subnet manager key (IBA chapter 14).
    SmKey(u64), "{:#018x}");
newtype!(
    /// A span of time as the five-bit code of the management datagrams: 4.096 us * 2^code. Acknowledgement time-outs
    /// take code 0 for "never".
    TimeCode(u8), "{}");

impl TimeCode {
    /// Largest code.
    pub const MAX: TimeCode = TimeCode(31);

    /// The span in nanoseconds; codes beyond five bits count as the largest.
    pub const fn ns(self) -> u64 {
        let code = if self.0 < Self::MAX.0 {
            self.0
        } else {
            Self::MAX.0
        };
        4096 << code
    }

    /// The smallest code that is no shorter than `ns` nanoseconds, at most 31 (2.4 hours).
    pub const fn at_least_ns(ns: u64) -> Self {
        let mut code = 0;
        while code < Self::MAX.0 && TimeCode(code).ns() < ns {
            code += 1;
        }
        TimeCode(code)
    }
}

impl Lid {
    /// The permissive LID: accepted by any port, for subnet management before there are LIDs.
    pub const PERMISSIVE: Lid = Lid(0xffff);
}

/// Global identifier: an IPv6-shaped 128-bit address in wire order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The default GID of a port: a 64-bit subnet prefix followed by the port GUID (IBA 4.1.1).
    #[inline]
    pub fn from_prefix_guid(prefix: u64, guid: Guid) -> Self {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&prefix.to_be_bytes());
        raw[8..].copy_from_slice(&guid.0.to_be_bytes());
        Gid(raw)
    }

    /// The address that a RoCE GID is: an IPv4 address if it is a mapped one (::ffff:a.b.c.d), else IPv6.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }

    /// True for ff00::/8, the multicast range.
    pub fn is_multicast(&self) -> bool {
        self.0[0] == 0xff
    }
}

/// The RoCE GID of an address (IBA annex A17); IPv4 addresses are mapped.
impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        Gid(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({})", Ipv6Addr::from(self.0))
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self.0))
    }
}

/// Packet sequence number: 24 bits, arithmetic modulo 2^24. It has no `Ord`: of two numbers one is
/// `after` the other only within half the circle (IBA 9.7.1; invariant I5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Psn(u32);

impl Psn {
    /// The number of distinct sequence numbers.
    pub const MODULUS: u32 = 1 << 24;
    const MASK: u32 = Self::MODULUS - 1;

    /// Takes the low 24 bits.
    pub const fn new(value: u32) -> Self {
        Psn(value & Self::MASK)
    }

    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The successor, modulo 2^24.
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// This number moved forward by `count`, modulo 2^24.
    #[allow(clippy::should_implement_trait)]
    pub const fn add(self, count: u32) -> Self {
        Psn(self.0.wrapping_add(count) & Self::MASK)
    }

    /// This number moved back by `count`, modulo 2^24.
    #[allow(clippy::should_implement_trait)]
    pub const fn sub(self, count: u32) -> Self {
        Psn(self.0.wrapping_sub(count) & Self::MASK)
    }

    /// Signed distance from `from` to `self`, in -2^23 .. 2^23.
    pub const fn distance(self, from: Psn) -> i32 {
        (self.0.wrapping_sub(from.0) << 8) as i32 >> 8
    }

    /// True when `self` lies in the half circle after `other`.
    pub const fn after(self, other: Psn) -> bool {
        self.distance(other) > 0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// Path MTU: the five payload sizes of the IBA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1024 bytes.
    M1024 = 3,
    /// 2048 bytes.
    M2048 = 4,
    /// 4096 bytes.
    M4096 = 5,
}

impl Mtu {
    /// Payload bytes of a full packet.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// From the IBA's encoding 1..=5.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Mtu::M256,
            2 => Mtu::M512,
            3 => Mtu::M1024,
            4 => Mtu::M2048,
            5 => Mtu::M4096,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psn_wraps_at_24_bits() {
        assert_eq!(Psn::new(0xff_ffff).next(), Psn::new(0));
        assert!(Psn::new(2).after(Psn::new(0xff_fffe)));
        assert_eq!(Psn::new(2).distance(Psn::new(0xff_fffe)), 4);
        assert_eq!(Psn::new(0xff_fffe).distance(Psn::new(2)), -4);
        assert_eq!(Psn::new(0).sub(1).get(), 0xff_ffff);
    }

    #[test]
    fn time_codes_round_up() {
        assert_eq!(TimeCode(0).ns(), 4_096);
        assert_eq!(TimeCode(20).ns(), 4_294_967_296);
        assert_eq!(TimeCode(200).ns(), TimeCode::MAX.ns());
        assert_eq!(TimeCode::at_least_ns(0), TimeCode(0));
        for code in 0..=31 {
            assert_eq!(TimeCode::at_least_ns(TimeCode(code).ns()), TimeCode(code));
            let next = TimeCode((code + 1).min(31));
            assert_eq!(TimeCode::at_least_ns(TimeCode(code).ns() + 1), next);
        }
        assert_eq!(TimeCode::at_least_ns(u64::MAX), TimeCode::MAX);
    }

    #[test]
    fn addresses_are_gids() {
        let four = IpAddr::from([10, 77, 0, 2]);
        assert_eq!(Gid::from(four).to_string(), "::ffff:10.77.0.2");
        let link_local = IpAddr::from([0xfe80, 0, 0, 0, 1, 2, 3, 4]);
        for address in [four, link_local, IpAddr::from([0_u16; 8])] {
            assert_eq!(Gid::from(address).ip(), address);
        }
    }

    #[test]
    fn mtu_codes_give_bytes() {
        let bytes: Vec<u32> = (1..=5).filter_map(Mtu::from_code).map(Mtu::bytes).collect();
        assert_eq!(bytes, [256, 512, 1024, 2048, 4096]);
        assert_eq!(Mtu::from_code(6), None);
    }
}
