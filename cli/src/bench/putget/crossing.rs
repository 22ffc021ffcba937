//! Whether puts and gets go the better of both ways: by messages up to the crossover, by RDMA
//! above.
//!
//! Owns: what is told of the figures of `tune putget`. Where the device's crossover comes from is
//! `ferriband_putget_verbs`'s: measured and kept for others, shipped for ours, or set.

use crate::failure::Failure;
use crate::netns::TwoHosts;
use crate::putget::{Place, device_at};
use crate::tune::putget::{Figure, Operation, lengths, measure};
use ferriband_putget_proto::HEADER_BYTES;
use ferriband_putget_verbs::crossover::{Crossover, Crossovers, LONGEST_MESSAGE};
use ferriband_putget_verbs::settings::{self, SETTINGS};
use std::net::{IpAddr, Ipv4Addr};

/// Rounds of which a time is the median.
const ROUNDS: u16 = 7;

/// Up to how many bytes go in messages, as programs have it.
fn in_use(hosts: Option<&TwoHosts>, operation: Operation) -> Result<u32, Failure> {
    let address = hosts.map_or(Ipv4Addr::LOCALHOST, |hosts| hosts.first.address);
    let values = settings::values(&SETTINGS).map_err(|wrong| Failure::new(wrong.to_string()))?;
    let kind = device_at(IpAddr::V4(address))?;
    let crossover = Crossover::known(&Crossovers::measured(), kind).set(&values);
    let bytes = match operation {
        Operation::Put => crossover.put,
        Operation::Get => crossover.get,
    };
    Ok(bytes.min(u64::from(LONGEST_MESSAGE) - HEADER_BYTES as u64) as u32)
}

fn place(hosts: Option<&TwoHosts>) -> Place<'_> {
    hosts.map_or(Place::OneHost(None), Place::TwoHosts)
}

/// How much longer the worst length takes by the way that it goes than by the other: the number
/// that times are divided by, 1 at least. Above the longest message there is one way.
pub fn worst(hosts: Option<&TwoHosts>, operation: Operation) -> Result<f64, Failure> {
    let crossover = in_use(hosts, operation)?;
    let longest = LONGEST_MESSAGE - HEADER_BYTES as u32;
    let lengths = lengths(1, longest).into_iter();
    let places = lengths.map(|bytes| (operation, bytes)).collect();
    let figures = measure(place(hosts), places, ROUNDS, |_| ())?;
    Ok(worst_of(&figures, crossover))
}

fn worst_of(figures: &[Figure], crossover: u32) -> f64 {
    let ratios = figures
        .iter()
        .map(|figure| match figure.bytes <= crossover {
            true => figure.short_ns / figure.long_ns,
            false => figure.long_ns / figure.short_ns,
        });
    ratios.fold(1.0, f64::max)
}

/// How far apart both ways are at the crossover: the longer time through the shorter one.
pub fn step(hosts: Option<&TwoHosts>, operation: Operation) -> Result<f64, Failure> {
    let crossover = in_use(hosts, operation)?.max(1);
    let figures = measure(
        place(hosts),
        vec![(operation, crossover)],
        3 * ROUNDS,
        |_| (),
    )?;
    let figure = figures.first().ok_or_else(|| Failure::new("no figure"))?;
    let ratio = figure.short_ns / figure.long_ns;
    Ok(ratio.max(ratio.recip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::putget::figure;

    #[test]
    fn the_worst_length_is_one_that_goes_the_worse_way() {
        let figures = [
            figure(8, 10.0, 20.0),
            figure(512, 15.0, 21.0),
            figure(4096, 44.0, 22.0),
        ];
        assert_eq!(worst_of(&figures, 512), 1.0);
        assert_eq!(worst_of(&figures, 4096), 2.0);
        assert_eq!(worst_of(&figures, 0), 2.0);
    }
}
