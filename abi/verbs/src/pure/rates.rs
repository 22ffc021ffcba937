//! Static rates: the code of the IBA's path records (`ibv_rate`), the multiple of 2.5 Gb/s, and Mb/s on the wire.

use ferriband_verbs_sys as sys;

/// (code, multiple of 2.5 Gb/s or None where the ABI gives none, Mb/s). From 14 Gb/s on the signalling rates are FDR's
/// and later ones, 64b/66b-coded, so Mb/s is not the rounded name.
const RATES: [(sys::ibv_rate, Option<i32>, i32); 23] = [
    (sys::IBV_RATE_2_5_GBPS, Some(1), 2_500),
    (sys::IBV_RATE_5_GBPS, Some(2), 5_000),
    (sys::IBV_RATE_10_GBPS, Some(4), 10_000),
    (sys::IBV_RATE_20_GBPS, Some(8), 20_000),
    (sys::IBV_RATE_30_GBPS, Some(12), 30_000),
    (sys::IBV_RATE_40_GBPS, Some(16), 40_000),
    (sys::IBV_RATE_60_GBPS, Some(24), 60_000),
    (sys::IBV_RATE_80_GBPS, Some(32), 80_000),
    (sys::IBV_RATE_120_GBPS, Some(48), 120_000),
    (sys::IBV_RATE_14_GBPS, None, 14_062),
    (sys::IBV_RATE_56_GBPS, None, 56_250),
    (sys::IBV_RATE_112_GBPS, None, 112_500),
    (sys::IBV_RATE_168_GBPS, None, 168_750),
    (sys::IBV_RATE_25_GBPS, None, 25_781),
    (sys::IBV_RATE_100_GBPS, None, 103_125),
    (sys::IBV_RATE_200_GBPS, None, 206_250),
    (sys::IBV_RATE_300_GBPS, None, 309_375),
    (sys::IBV_RATE_28_GBPS, Some(11), 28_125),
    (sys::IBV_RATE_50_GBPS, Some(20), 53_125),
    (sys::IBV_RATE_400_GBPS, Some(160), 425_000),
    (sys::IBV_RATE_600_GBPS, Some(240), 637_500),
    (sys::IBV_RATE_800_GBPS, Some(320), 850_000),
    (sys::IBV_RATE_1200_GBPS, Some(480), 1_275_000),
];

/// `ibv_rate_to_mult`: the multiple of 2.5 Gb/s, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: sys::ibv_rate) -> i32 {
    RATES
        .iter()
        .find(|entry| entry.0 == rate)
        .and_then(|entry| entry.1)
        .unwrap_or(-1)
}

/// `mult_to_ibv_rate`: the code of a multiple of 2.5 Gb/s, or `IBV_RATE_MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(mult: i32) -> sys::ibv_rate {
    RATES
        .iter()
        .find(|entry| entry.1 == Some(mult))
        .map_or(sys::IBV_RATE_MAX, |entry| entry.0)
}

/// `ibv_rate_to_mbps`: Mb/s of a code, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: sys::ibv_rate) -> i32 {
    RATES
        .iter()
        .find(|entry| entry.0 == rate)
        .map_or(-1, |entry| entry.2)
}

/// `mbps_to_ibv_rate`: the code of a rate in Mb/s, or `IBV_RATE_MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: i32) -> sys::ibv_rate {
    RATES
        .iter()
        .find(|entry| entry.2 == mbps)
        .map_or(sys::IBV_RATE_MAX, |entry| entry.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_invert_each_other() {
        for (rate, mult, mbps) in RATES {
            assert_eq!(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
            assert_eq!(ibv_rate_to_mbps(rate), mbps);
            match mult {
                Some(mult) => assert_eq!(
                    (ibv_rate_to_mult(rate), mult_to_ibv_rate(mult)),
                    (mult, rate)
                ),
                None => assert_eq!(ibv_rate_to_mult(rate), -1),
            }
        }
    }

    #[test]
    fn what_has_no_code_is_the_ports_own_rate() {
        assert_eq!(mult_to_ibv_rate(3), sys::IBV_RATE_MAX);
        assert_eq!(mbps_to_ibv_rate(-1), sys::IBV_RATE_MAX);
        assert_eq!(ibv_rate_to_mbps(sys::IBV_RATE_MAX), -1);
        assert_eq!(ibv_rate_to_mult(99), -1);
    }
}
