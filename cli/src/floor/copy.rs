//! The floor of memory itself: one process copying between two hot buffers.

use super::pair::Mapping;
use crate::failure::Failure;
use std::hint::black_box;
use std::ptr;
use std::time::Instant;

/// Nanoseconds of one copy of `length_bytes` between two private buffers, repeated.
pub fn memcpy_ns(length_bytes: usize, copies: u64) -> Result<Option<f64>, Failure> {
    let source = Mapping::private(length_bytes)?;
    let target = Mapping::private(length_bytes)?;
    source.touch(1);
    target.touch(2);
    let mut start = Instant::now();
    let warm_up = copies / 10;
    for round in 0..copies + warm_up {
        if round == warm_up {
            start = Instant::now();
        }
        // SAFETY: two distinct mappings of length_bytes each.
        unsafe {
            ptr::copy_nonoverlapping(
                black_box(source.base()),
                black_box(target.base()),
                length_bytes,
            )
        };
    }
    Ok(Some(start.elapsed().as_nanos() as f64 / copies as f64))
}
