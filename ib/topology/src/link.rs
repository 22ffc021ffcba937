//! How good a cable is: lanes, rate, length, errors.

use std::fmt;
use std::str::FromStr;

/// Lanes of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Width {
    /// One.
    X1,
    /// Two.
    X2,
    /// Four: the usual.
    #[default]
    X4,
    /// Eight.
    X8,
    /// Twelve.
    X12,
}

/// Signalling of a lane (IBA volume 2; papers/000 Table II and its successors).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Speed {
    /// 2.5 Gb/s, 8b/10b.
    #[default]
    Sdr,
    /// 5 Gb/s, 8b/10b.
    Ddr,
    /// 10 Gb/s, 8b/10b.
    Qdr,
    /// 10.3125 Gb/s, 64b/66b: a vendor's.
    Fdr10,
    /// 14.0625 Gb/s, 64b/66b.
    Fdr,
    /// 25.78125 Gb/s, 64b/66b.
    Edr,
    /// 53.125 Gb/s, PAM4: 50 Gb/s of data.
    Hdr,
    /// 106.25 Gb/s, PAM4: 100 Gb/s of data.
    Ndr,
}

/// A value with a name that is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{got}\" is no {what}; there are {known}")]
pub struct UnknownName {
    /// What was to be named.
    pub what: &'static str,
    /// What was said.
    pub got: String,
    /// What could have been said.
    pub known: &'static str,
}

impl Width {
    /// All, ascending.
    pub const ALL: [Width; 5] = [Width::X1, Width::X2, Width::X4, Width::X8, Width::X12];

    /// Lanes.
    pub const fn lanes(self) -> u64 {
        match self {
            Width::X1 => 1,
            Width::X2 => 2,
            Width::X4 => 4,
            Width::X8 => 8,
            Width::X12 => 12,
        }
    }

    /// The bit of LinkWidthActive (IBA 14.2.5.6).
    pub const fn bit(self) -> u8 {
        match self {
            Width::X1 => 1,
            Width::X4 => 2,
            Width::X8 => 4,
            Width::X12 => 8,
            Width::X2 => 16,
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.lanes())
    }
}

impl FromStr for Width {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Width::ALL.into_iter().find(|w| w.to_string() == text);
        found.ok_or_else(|| UnknownName {
            what: "width",
            got: text.to_owned(),
            known: "1x, 2x, 4x, 8x and 12x",
        })
    }
}

impl Speed {
    /// All, ascending.
    pub const ALL: [Speed; 8] = [
        Speed::Sdr,
        Speed::Ddr,
        Speed::Qdr,
        Speed::Fdr10,
        Speed::Fdr,
        Speed::Edr,
        Speed::Hdr,
        Speed::Ndr,
    ];

    /// Data of a lane in kbit (1,000 bit) per second, the line code taken off.
    pub const fn lane_kbps(self) -> u64 {
        match self {
            Speed::Sdr => 2_000_000,
            Speed::Ddr => 4_000_000,
            Speed::Qdr => 8_000_000,
            Speed::Fdr10 => 10_000_000,
            // 14.0625 * 64 / 66
            Speed::Fdr => 13_636_363,
            Speed::Edr => 25_000_000,
            Speed::Hdr => 50_000_000,
            Speed::Ndr => 100_000_000,
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Speed::Sdr => "SDR",
            Speed::Ddr => "DDR",
            Speed::Qdr => "QDR",
            Speed::Fdr10 => "FDR10",
            Speed::Fdr => "FDR",
            Speed::Edr => "EDR",
            Speed::Hdr => "HDR",
            Speed::Ndr => "NDR",
        })
    }
}

impl FromStr for Speed {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let same = |speed: &Speed| speed.to_string().eq_ignore_ascii_case(text);
        let found = Speed::ALL.into_iter().find(same);
        found.ok_or_else(|| UnknownName {
            what: "speed",
            got: text.to_owned(),
            known: "SDR, DDR, QDR, FDR10, FDR, EDR, HDR and NDR (not XDR: PortInfo as this knows it has no place for 200 Gb/s a lane)",
        })
    }
}

/// How good a cable is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Lanes.
    pub width: Width,
    /// Signalling of each.
    pub speed: Speed,
    /// From end to end: 5 ns a metre, and what the ends add.
    pub latency_ns: u32,
    /// Share of bits that arrive wrong, 0 .. 1. The IBA asks for no more than 1e-12.
    pub bit_error_rate: f64,
}

impl Default for Link {
    /// 4x SDR, ten metres, without errors: what a netlist means that says nothing.
    fn default() -> Self {
        Link {
            width: Width::X4,
            speed: Speed::Sdr,
            latency_ns: 50,
            bit_error_rate: 0.0,
        }
    }
}

impl Link {
    /// Data rate in kbit (1,000 bit) per second.
    pub const fn kbps(&self) -> u64 {
        self.width.lanes() * self.speed.lane_kbps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_table() {
        let gbps = |width, speed| {
            let link = Link {
                width,
                speed,
                ..Link::default()
            };
            link.kbps() as f64 / 1e6
        };
        assert_eq!(gbps(Width::X4, Speed::Sdr), 8.0);
        assert_eq!(gbps(Width::X4, Speed::Edr), 100.0);
        assert_eq!(gbps(Width::X12, Speed::Ndr), 1200.0);
        assert!((gbps(Width::X1, Speed::Fdr) - 13.64).abs() < 0.01);
    }

    #[test]
    fn names_come_back() {
        for width in Width::ALL {
            assert_eq!(width.to_string().parse(), Ok(width));
        }
        for speed in Speed::ALL {
            assert_eq!(speed.to_string().to_lowercase().parse(), Ok(speed));
        }
        assert!("3x".parse::<Width>().is_err());
        let error = "XDR"
            .parse::<Speed>()
            .expect_err("no place for it")
            .to_string();
        assert!(error.starts_with("\"XDR\" is no speed") && error.contains("not XDR"));
    }
}
