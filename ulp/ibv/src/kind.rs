//! Kinds of adapters: what is measured of one holds for the others.
//!
//! Owns: their numbers and text. Must not know: what was measured.

use crate::DeviceLimits;
use std::fmt;

/// A kind of adapter: the same on each host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdapterKind {
    /// Vendor's identifier.
    pub vendor: u32,
    /// Vendor's number of the part.
    pub part: u32,
}

impl From<&DeviceLimits> for AdapterKind {
    fn from(limits: &DeviceLimits) -> Self {
        AdapterKind {
            vendor: limits.vendor_id,
            part: limits.vendor_part_id,
        }
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}:{}", self.vendor, self.part)
    }
}

impl AdapterKind {
    /// The inverse of its text; None if that is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (vendor, part) = text.split_once(':')?;
        let vendor = u32::from_str_radix(vendor.strip_prefix("0x")?, 16).ok()?;
        let part = part.parse().ok()?;
        Some(AdapterKind { vendor, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_comes_back_from_its_text() {
        let ours = AdapterKind {
            vendor: 0x02_fe_77,
            part: 0x4642,
        };
        assert_eq!(ours.to_string(), "0x02fe77:17986");
        assert_eq!(AdapterKind::parse("0x02fe77:17986"), Some(ours));
        for wrong in ["", "02fe77:1", "0x1", "0x1:", "0x1:x", "0xg:1"] {
            assert_eq!(AdapterKind::parse(wrong), None);
        }
    }
}
