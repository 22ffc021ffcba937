//! Copies of more than a line, by the widest registers that the processor has or by the instruction for strings, whichever is the faster one ([`super::choice`]).
//!
//! The C library's copy is made for memory that is this core's own. Between cores what counts is how many lines are under way at once: stores become visible in their order, and each
//! waits until its line has been taken from the other core; so a line should take one or two of the places in which stores wait.

use super::choice::{self, Choice, Way};
use std::arch::asm;
use std::arch::x86_64::{
    __m256i, __m512i, _mm_mfence, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_loadu_si512,
    _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_storeu_si512, _rdtsc,
};

/// Copies `length` bytes, more than 64. The ranges do not overlap, or are the same.
///
/// # Safety
/// `from` may be read and `to` be written so far.
#[inline]
pub(super) unsafe fn long(from: *const u8, to: *mut u8, length: usize) {
    debug_assert!(length > 64);
    let choice = if length >= choice::LEAST {
        choice::of(from.addr(), to.addr(), length)
    } else {
        None
    };
    let way = choice.map_or(Some(Way::Registers), Choice::next);
    // SAFETY: the caller's promise.
    unsafe {
        match (way, choice) {
            (Some(Way::String), _) => by_string(from, to, length),
            (None, Some(choice)) => timed(choice, from, to, length),
            _ => by_registers(from, to, length),
        }
    }
}

/// As [`long`], to see how long it takes.
///
/// # Safety
/// As for [`long`].
#[cold]
unsafe fn timed(choice: &Choice, from: *const u8, to: *mut u8, length: usize) {
    // A copy is over when its last line has been taken from the other core, not when it waits for that.
    // SAFETY: each x86-64 has these.
    let now = || unsafe {
        _mm_mfence();
        _rdtsc()
    };
    let way = choice.trial();
    let begun = now();
    // SAFETY: the caller's promise.
    unsafe {
        match way {
            Way::Registers => by_registers(from, to, length),
            Way::String => by_string(from, to, length),
        }
    }
    choice.note(way, length, now().wrapping_sub(begun));
}

/// As [`long`], by one instruction. What is stored after it is seen after all that it stores (Intel SDM volume 3, 10.2.4).
///
/// # Safety
/// As for [`long`].
unsafe fn by_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; the direction flag is clear as the ABI demands.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags))
    }
}

/// As [`long`], of any length, and by registers.
///
/// # Safety
/// As for [`long`].
pub(super) unsafe fn plain(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match length {
            0..=64 => std::ptr::copy(from, to, length),
            _ => by_registers(from, to, length),
        }
    }
}

/// Whether the string instruction is slow on this processor where [`choice::is_ahead`]. Takes ten microseconds if it is.
pub(super) fn is_slow_ahead() -> bool {
    const BYTES: usize = 2048;
    let mut room = vec![0; BYTES + 4096 + BYTES];
    let (from, to) = room.split_at_mut(BYTES);
    let ahead = to.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) % 4096;
    let mut time = |wanted: usize| {
        let to = &mut to[wanted.wrapping_sub(ahead) % 4096..][..BYTES];
        let once = |_| {
            // SAFETY: each x86-64 has a clock; both ranges are `BYTES` long.
            unsafe {
                let begun = _rdtsc();
                by_string(from.as_ptr(), to.as_mut_ptr(), BYTES);
                _rdtsc().wrapping_sub(begun)
            }
        };
        (0..8).map(once).min().unwrap_or(0)
    };
    let straight = time(64);
    time(16) > 4 * straight
}

/// As [`long`], by the widest registers.
///
/// # Safety
/// As for [`long`].
#[inline]
unsafe fn by_registers(from: *const u8, to: *mut u8, length: usize) {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor can, and the caller's promise.
        unsafe { by_lines(from, to, length) }
    } else if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: as above.
        unsafe { by_halves(from, to, length) }
    } else {
        // SAFETY: the caller's promise. `copy` and not its strict sister: the ranges may be the same.
        unsafe { std::ptr::copy(from, to, length) }
    }
}

macro_rules! copies {
    ($name:ident, $feature:literal, $register:ty, $load:ident, $store:ident) => {
        /// As [`long`], by registers of one kind.
        ///
        /// # Safety
        /// As for [`long`], on a processor that has them.
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, to: *mut u8, length: usize) {
            const WIDTH: usize = size_of::<$register>();
            // SAFETY: within both ranges, of which each is longer than one register; these need no alignment.
            unsafe {
                let last = $load(from.add(length - WIDTH).cast());
                let first = $load(from.cast());
                $store(to.cast(), first);
                // From here on stores are aligned, so that none takes two lines.
                let mut at = WIDTH - (to.addr() & (WIDTH - 1));
                while at + 4 * WIDTH <= length {
                    let registers =
                        [0, 1, 2, 3].map(|place| $load(from.add(at + place * WIDTH).cast()));
                    for (place, register) in registers.into_iter().enumerate() {
                        $store(to.add(at + place * WIDTH).cast(), register);
                    }
                    at += 4 * WIDTH;
                }
                while at + WIDTH <= length {
                    $store(to.add(at).cast(), $load(from.add(at).cast()));
                    at += WIDTH;
                }
                $store(to.add(length - WIDTH).cast(), last);
            }
        }
    };
}

/// Copies 33 to 64 bytes: by one register where the processor has such. Into a line that another core looks at, one store takes it from there once.
///
/// # Safety
/// As for [`long`].
#[inline(always)]
pub(super) unsafe fn line(from: *const u8, to: *mut u8, length: usize) {
    debug_assert!((33..=64).contains(&length));
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor can, and the caller's promise.
        unsafe { masked(from, to, length) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { by_pieces(from, to, length) }
    }
}

/// As [`line()`], by four pieces of 16 bytes, which overlap.
///
/// # Safety
/// As for [`long`]; 32 to 64 bytes.
unsafe fn by_pieces(from: *const u8, to: *mut u8, length: usize) {
    let at = [0, 16, length - 32, length - 16];
    // SAFETY: within both ranges; any alignment will do.
    unsafe {
        let pieces = at.map(|at| from.add(at).cast::<[u8; 16]>().read_unaligned());
        for (at, piece) in at.into_iter().zip(pieces) {
            to.add(at).cast::<[u8; 16]>().write_unaligned(piece);
        }
    }
}

/// As [`line()`].
///
/// # Safety
/// As for [`long`], on a processor that has such registers; 1 to 64 bytes.
#[target_feature(enable = "avx512bw")]
unsafe fn masked(from: *const u8, to: *mut u8, length: usize) {
    let mask = u64::MAX >> (64 - length);
    // SAFETY: only bytes of the mask are read and written, which lie in the ranges.
    unsafe { _mm512_mask_storeu_epi8(to.cast(), mask, _mm512_maskz_loadu_epi8(mask, from.cast())) }
}

copies!(
    by_lines,
    "avx512f",
    __m512i,
    _mm512_loadu_si512,
    _mm512_storeu_si512
);
copies!(
    by_halves,
    "avx",
    __m256i,
    _mm256_loadu_si256,
    _mm256_storeu_si256
);

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    #[test]
    fn every_kind_of_register_copies_all_bytes_and_no_other() {
        let kinds: [(bool, Copy); 4] = [
            (true, long),
            (true, by_string),
            (std::arch::is_x86_feature_detected!("avx"), by_halves),
            (std::arch::is_x86_feature_detected!("avx512f"), by_lines),
        ];
        let from: Vec<u8> = (0..1500_u32).map(|byte| (byte * 7) as u8).collect();
        for (_, copy) in kinds.into_iter().filter(|(has, _)| *has) {
            for length in (65..700).chain([1024, 1400]) {
                for (skip, place) in [(0, 0), (1, 0), (0, 3), (33, 60), (40, 56)] {
                    let mut to = vec![0xaa_u8; 1500];
                    // SAFETY: local buffers that are longer.
                    unsafe { copy(from.as_ptr().add(skip), to.as_mut_ptr().add(place), length) };
                    assert_eq!(to[place..place + length], from[skip..skip + length]);
                    assert!(to[..place].iter().all(|byte| *byte == 0xaa));
                    assert!(to[place + length..].iter().all(|byte| *byte == 0xaa));
                }
            }
        }
    }

    #[test]
    fn what_is_no_longer_than_a_line_too() {
        let kinds: [(bool, Copy); 3] = [
            (true, line),
            (true, by_pieces),
            (std::arch::is_x86_feature_detected!("avx512bw"), masked),
        ];
        let from: Vec<u8> = (1..=128).collect();
        for (_, copy) in kinds.into_iter().filter(|(has, _)| *has) {
            for length in 33..=64 {
                for (skip, place) in [(0, 0), (1, 0), (0, 3), (33, 60)] {
                    let mut to = vec![0xaa_u8; 200];
                    // SAFETY: local buffers that are longer.
                    unsafe { copy(from.as_ptr().add(skip), to.as_mut_ptr().add(place), length) };
                    assert_eq!(to[place..place + length], from[skip..skip + length]);
                    assert!(to[..place].iter().all(|byte| *byte == 0xaa));
                    assert!(to[place + length..].iter().all(|byte| *byte == 0xaa));
                }
            }
        }
    }

    #[test]
    fn a_range_may_be_copied_to_itself() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        let at = bytes.as_mut_ptr();
        // SAFETY: a local buffer.
        unsafe { long(at, at, 256) };
        assert!(bytes.iter().zip(0..=255).all(|(one, other)| *one == other));
    }
}
