//! The address ranges between whose hosts connections go by queue pairs. Owns: their text form.

use std::net::IpAddr;

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
