//! What papers/002 prints.
//!
//! Owns: its figures. The paper's misprint (5.4 for 10.8 MB/s at 256 B, Table 4) is corrected.

use crate::repro::registry::Printed;

const fn at(series: &'static str, x: u64, value: f64) -> Printed {
    let value = Some(value);
    Printed { series, x, value }
}

const fn error(series: &'static str, x: u64) -> Printed {
    let value = None;
    Printed { series, x, value }
}

/// Table 2.
pub const TABLE_2: &[Printed] = &[
    at("us loop-back UP", 4, 58.0),
    at("us loop-back SMP", 4, 58.0),
    at("us hosts UP", 4, 44.0),
    at("us hosts SMP", 4, 49.0),
    at("wake-up us loop-back UP", 4, 7.7),
    at("wake-up us hosts UP", 4, 4.1),
    at("MB/s loop-back UP", 4096, 62.0),
    at("MB/s loop-back SMP", 4096, 59.0),
    at("MB/s hosts UP", 4096, 67.0),
    at("MB/s hosts SMP", 4096, 64.0),
    at("MB/s loop-back UP", 8192, 83.0),
    at("MB/s loop-back SMP", 8192, 81.0),
    at("MB/s hosts UP", 8192, 88.0),
    at("MB/s hosts SMP", 8192, 86.0),
    at("MB/s loop-back UP", 65_536, 121.0),
    at("MB/s loop-back SMP", 65_536, 120.0),
    error("MB/s hosts UP", 65_536),
    error("MB/s hosts SMP", 65_536),
    at("MB/s loop-back UP", 131_072, 112.0),
    at("MB/s loop-back SMP", 131_072, 112.0),
    at("MB/s hosts UP", 131_072, 120.0),
    at("MB/s hosts SMP", 131_072, 119.0),
    at("MB/s loop-back UP", 262_144, 113.0),
    at("MB/s loop-back SMP", 262_144, 113.0),
    at("MB/s hosts UP", 262_144, 121.0),
    at("MB/s hosts SMP", 262_144, 121.0),
];

/// Table 3; of a range its middle.
pub const TABLE_3: &[Printed] = &[
    at("UP", 4, 51.0),
    at("SMP", 4, 49.0),
    at("UP", 32, 52.0),
    at("SMP", 32, 49.0),
    at("UP", 256, 61.0),
    at("SMP", 256, 58.0),
    at("UP", 2048, 107.0),
    at("SMP", 2048, 111.0),
    at("UP", 4060, 156.0),
    at("SMP", 4060, 164.0),
    error("UP", 4096),
    error("SMP", 4096),
    at("first driver UP", 4, 44.0),
    at("first driver SMP", 4, 49.0),
];

/// Figure 7, by the figures of Table 4.
pub const FIGURE_7: &[Printed] = &[
    at("us 64", 4, 35.0),
    at("us 2048", 4, 36.0),
    at("us 4096", 4, 36.5),
    at("us 64", 28, 35.9),
    at("us 64", 32, 67.0),
    at("us 2048", 32, 37.7),
    at("us 4096", 32, 38.2),
    at("us 64", 256, 76.0),
    at("us 2048", 256, 47.3),
    at("us 4096", 256, 47.8),
    at("us 2048", 2012, 94.0),
    at("us 64", 2048, 97.0),
    at("us 2048", 2048, 98.0),
    at("us 4096", 2048, 98.0),
    at("us 4096", 4060, 151.0),
    at("us 64", 4096, 123.0),
    at("us 2048", 4096, 122.0),
    at("us 4096", 4096, 122.0),
    at("us 64", 8192, 173.0),
    at("us 2048", 8192, 173.0),
    at("us 4096", 8192, 173.0),
    at("us 64", 16_384, 272.0),
    at("us 2048", 16_384, 272.0),
    at("us 4096", 16_384, 272.0),
    at("us 64", 32_768, 473.0),
    at("us 2048", 32_768, 474.0),
    at("us 4096", 32_768, 474.0),
    at("us 64", 1_048_576, 15_900.0),
    at("us 2048", 1_048_576, 15_900.0),
    at("us 4096", 1_048_576, 15_900.0),
];

/// Table 4: round trips and throughput.
pub const TABLE_4: &[Printed] = &{
    const THROUGHPUT: [Printed; 30] = [
        at("MB/s 64", 4, 0.23),
        at("MB/s 2048", 4, 0.22),
        at("MB/s 4096", 4, 0.22),
        at("MB/s 64", 28, 1.6),
        at("MB/s 64", 32, 0.96),
        at("MB/s 2048", 32, 1.7),
        at("MB/s 4096", 32, 1.7),
        at("MB/s 64", 256, 6.7),
        at("MB/s 2048", 256, 10.8),
        at("MB/s 4096", 256, 11.0),
        at("MB/s 2048", 2012, 43.0),
        at("MB/s 64", 2048, 42.0),
        at("MB/s 2048", 2048, 42.0),
        at("MB/s 4096", 2048, 42.0),
        at("MB/s 4096", 4060, 54.0),
        at("MB/s 64", 4096, 67.0),
        at("MB/s 2048", 4096, 67.0),
        at("MB/s 4096", 4096, 67.0),
        at("MB/s 64", 8192, 95.0),
        at("MB/s 2048", 8192, 95.0),
        at("MB/s 4096", 8192, 95.0),
        at("MB/s 64", 16_384, 120.0),
        at("MB/s 2048", 16_384, 120.0),
        at("MB/s 4096", 16_384, 120.0),
        at("MB/s 64", 32_768, 139.0),
        at("MB/s 2048", 32_768, 138.0),
        at("MB/s 4096", 32_768, 138.0),
        at("MB/s 64", 1_048_576, 132.0),
        at("MB/s 2048", 1_048_576, 132.0),
        at("MB/s 4096", 1_048_576, 132.0),
    ];
    let mut both = [THROUGHPUT[0]; 60];
    let mut index = 0;
    while index < 30 {
        both[index] = FIGURE_7[index];
        both[30 + index] = THROUGHPUT[index];
        index += 1;
    }
    both
};

/// The accounting of the first driver on 733 MHz hosts ("Second-Generation Prototype Cards").
pub const LATENCY: &[Printed] = &[
    at("us blocking UP", 4, 75.0),
    at("us blocking SMP", 4, 70.0),
    at("wake-up us UP", 4, 11.5),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_length_over_half_a_round_trip() {
        for (us, throughput) in TABLE_4[..30].iter().zip(&TABLE_4[30..]) {
            assert_eq!(us.x, throughput.x);
            let (us, printed) = (us.value.expect("printed"), throughput.value);
            let computed = throughput.x as f64 / (us / 2.0);
            let printed = printed.expect("printed");
            assert!((computed / printed - 1.0).abs() < 0.05, "{throughput:?}");
        }
    }
}
