//! Between which addresses connections go by queue pairs. Owns: the text form of address ranges.

use std::net::IpAddr;

/// With whom connections go by queue pairs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Peers {
    /// Hosts.
    pub ranges: Ranges,
    /// Programs of this host, in this network namespace.
    pub same_host: bool,
}

impl Peers {
    /// Whether there are none.
    pub fn is_nobody(&self) -> bool {
        self.ranges.is_empty() && !self.same_host
    }

    /// Whether a connection between these addresses goes by queue pairs.
    pub fn include(&self, own: IpAddr, peer: IpAddr) -> bool {
        self.ranges.contain(peer) || self.are_here(own, peer)
    }

    /// Whether it does because it stays on this host. Both its ends see that by their addresses
    /// alone, and alike: an address has one host, and 127.0.0.0/8 and ::1 lead to one's own.
    pub fn are_here(&self, own: IpAddr, peer: IpAddr) -> bool {
        let [own, peer] = [own, peer].map(|address| address.to_canonical());
        self.same_host && (own == peer || own.is_loopback() && peer.is_loopback())
    }
}

/// A list of ranges.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ranges(Vec<Range>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    address: IpAddr,
    bits: u32,
}

impl Ranges {
    /// Reads addresses and ranges (`192.0.2.0/24`), with commas or spaces between them. None if one
    /// of them is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let words = text.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        words.map(Range::parse).collect::<Option<_>>().map(Ranges)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address lies in one of them. An IPv4 address that a socket of IPv6 has is IPv4.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(address))
    }
}

impl Range {
    fn parse(word: &str) -> Option<Self> {
        let (address, bits) = match word.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (word, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Range { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let (own, other, length) = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u128::from(own.to_bits()), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        (own ^ other).checked_shr(length - self.bits).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_on_one_host_are_known_by_their_addresses() {
        let ranges = || Ranges::parse("192.0.2.0/24").expect("a range");
        let same_host = true;
        let here = Peers {
            ranges: Ranges::default(),
            same_host,
        };
        let both = Peers {
            ranges: ranges(),
            same_host,
        };
        let there = Peers {
            ranges: ranges(),
            same_host: false,
        };
        let address = |text: &str| text.parse().expect("an address");
        for (own, peer, is_here, is_listed) in [
            ("127.0.0.1", "127.0.0.1", true, false),
            ("127.0.0.1", "127.9.9.9", true, false),
            ("::ffff:127.0.0.1", "127.0.0.1", true, false),
            ("::1", "::1", true, false),
            ("192.0.2.1", "192.0.2.1", true, true),
            ("192.0.2.1", "192.0.2.2", false, true),
            ("198.51.100.1", "198.51.100.1", true, false),
            ("198.51.100.1", "198.51.100.2", false, false),
            ("127.0.0.1", "198.51.100.2", false, false),
        ] {
            let (own, peer) = (address(own), address(peer));
            assert_eq!(here.are_here(own, peer), is_here, "{own} {peer}");
            assert_eq!(here.include(own, peer), is_here, "{own} {peer}");
            assert!(!there.are_here(own, peer), "{own} {peer}");
            assert_eq!(there.include(own, peer), is_listed, "{own} {peer}");
            let either = is_here || is_listed;
            assert_eq!(both.include(own, peer), either, "{own} {peer}");
        }
        assert!(Peers::default().is_nobody());
        assert!(![here, there].iter().any(Peers::is_nobody));
    }

    #[test]
    fn addresses_lie_in_ranges() {
        let ranges = Ranges::parse("192.0.2.0/24, 10.1.2.3 2001:db8::/32").expect("ranges");
        let inside = |text: &str| ranges.contain(text.parse().expect("an address"));
        for address in [
            "192.0.2.255",
            "10.1.2.3",
            "2001:db8:7::1",
            "::ffff:192.0.2.1",
        ] {
            assert!(inside(address), "{address}");
        }
        for address in ["192.0.3.0", "10.1.2.4", "2001:db9::1", "::1", "127.0.0.1"] {
            assert!(!inside(address), "{address}");
        }
        let all = Ranges::parse("0.0.0.0/0").expect("a range");
        assert!(all.contain("8.8.8.8".parse().expect("an address")));
        assert!(!all.contain("::1".parse().expect("an address")));
        assert!(Ranges::parse("").expect("none").is_empty());
        for wrong in ["host", "192.0.2.0/33", "192.0.2.0/x", "::/129"] {
            assert_eq!(Ranges::parse(wrong), None, "{wrong}");
        }
    }
}
