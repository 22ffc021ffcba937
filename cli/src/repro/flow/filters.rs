//! What the filters of the paper's two applications compute on a unit of work (papers/004, section
//! 6.3), as small programs of the same kinds: bytes of an image, bytes of a volume.
//!
//! Owns: the arithmetic. Must not know: connections.

/// Computes on a unit in place. `sum` is the filter's own, from one unit to the next.
pub type Filter = fn(unit: &mut [u8], sum: &mut u64);

/// Virtual microscope: read data, decompress, clip, zoom, view.
pub const MICROSCOPE: [Filter; 5] = [read, decompress, clip, zoom, view];
/// Isosurface rendering: read dataset, extract, shade and rasterize, merge and view.
pub const ISOSURFACE: [Filter; 4] = [read, extract, shade, view];

/// What the last of these filters has seen after so many units, computed without connections.
pub fn seen(filters: &[Filter], unit_bytes: usize, units: usize, passes: u32) -> u64 {
    let mut sums = vec![0; filters.len()];
    let mut unit = vec![0; unit_bytes];
    for _ in 0..units {
        for (filter, sum) in filters.iter().zip(&mut sums) {
            (0..passes).for_each(|_| filter(&mut unit, sum));
        }
    }
    sums.pop().unwrap_or(0)
}

/// The next unit of the data set: a slope with noise, from a generator.
fn read(unit: &mut [u8], sum: &mut u64) {
    for bytes in unit.chunks_mut(8) {
        *sum = sum
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let noise = (*sum >> 33).to_le_bytes();
        bytes.copy_from_slice(&noise[..bytes.len()]);
    }
}

/// Each byte is the difference to the one before.
fn decompress(unit: &mut [u8], sum: &mut u64) {
    let mut last = *sum as u8;
    for byte in unit {
        last = last.wrapping_add(*byte);
        *byte = last;
    }
    *sum = last.into();
}

/// What lies outside of the window becomes its border.
fn clip(unit: &mut [u8], sum: &mut u64) {
    for byte in unit {
        *sum += u64::from(!(16..=240).contains(byte));
        *byte = (*byte).clamp(16, 240);
    }
}

/// Each byte becomes the mean of its neighbourhood.
fn zoom(unit: &mut [u8], sum: &mut u64) {
    let mut around = *sum;
    for byte in unit {
        around = (3 * around + u64::from(*byte)) / 4;
        *byte = around as u8;
    }
    *sum = around;
}

/// Where the surface runs between a byte and the next: the byte is how far from it.
fn extract(unit: &mut [u8], sum: &mut u64) {
    let mut last = *sum as u8;
    for byte in unit {
        let is_crossed = (last < 128) != (*byte < 128);
        last = *byte;
        *byte = if is_crossed { byte.abs_diff(128) } else { 0 };
    }
    *sum = last.into();
}

/// Light by the distance, and a depth.
fn shade(unit: &mut [u8], sum: &mut u64) {
    for byte in unit {
        *sum = (*sum + u64::from(*byte)) % 251;
        *byte = (u16::from(*byte) * 3 / 4 + 17) as u8 ^ *sum as u8;
    }
}

/// What the viewer has seen: a hash over all units.
fn view(unit: &mut [u8], sum: &mut u64) {
    for byte in unit {
        *sum = (*sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(filters: &[Filter], units: usize) -> u64 {
        seen(filters, 1024, units, 2)
    }

    #[test]
    fn what_the_viewer_sees_depends_on_every_unit_and_every_filter() {
        for filters in [&MICROSCOPE[..], &ISOSURFACE[..]] {
            let whole = chain(filters, 3);
            assert_eq!(whole, chain(filters, 3));
            assert_ne!(whole, chain(filters, 4));
            for left_out in 0..filters.len() - 1 {
                let mut others = filters.to_vec();
                others.remove(left_out);
                assert_ne!(whole, chain(&others, 3), "{left_out}");
            }
        }
    }
}
