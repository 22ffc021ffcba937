//! Copies in memory, between cores that share lines.
//!
//! Owns: which instructions copy a range of a length. Must not know: what the bytes mean, and who
//! else has the memory.
//!
//! The C library's copy is made for memory that a core has to itself. Between cores the number of
//! lines that are under way at once decides. Stores become visible in their order, and each waits
//! until its line has been taken from the other core, so the store to a line should take one or two
//! places in the store buffer: short copies use few stores. Copies of 1 KiB and more use the string
//! instruction (`rep movsb`), which need not fetch the lines that it overwrites: where a line takes
//! 250 ns from core to core it is two to four times as fast as registers, and where it takes 60 ns
//! no slower over all. What lies between uses the widest registers.
//!
//! *Place.* On Zen 3 the string instruction has a seventh of its speed or less where bytes get 1 to
//! 31 bytes farther in their page of 4 KiB than they were, as they often do that are copied from a
//! page's beginning to a large buffer of the C library's. There such copies use registers.

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_loadu_si512,
    _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_storeu_si512, _rdtsc,
};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes of the shortest copy by the string instruction.
const LEAST: usize = 1 << 10;

/// Copies `length` bytes. The ranges do not overlap, or are the same.
///
/// # Safety
/// `from` may be read and `to` be written so far. Nobody has a reference to what is written.
#[inline(always)]
pub unsafe fn bytes(from: *const u8, to: *mut u8, length: usize) {
    match length {
        0 => (),
        8 => {
            // SAFETY: the caller's promise; no alignment is needed.
            unsafe {
                to.cast::<u64>()
                    .write_unaligned(from.cast::<u64>().read_unaligned())
            };
        }
        1..=3 => {
            // SAFETY: the caller's promise; bytes, of which some may be the same one.
            unsafe {
                let at = [0, length / 2, length - 1];
                let bytes = at.map(|at| from.add(at).read());
                for (at, byte) in at.into_iter().zip(bytes) {
                    to.add(at).write(byte);
                }
            }
        }
        // SAFETY: the caller's promise.
        4..=7 => unsafe { ends::<u32>(from, to, length) },
        // SAFETY: the caller's promise.
        9..=16 => unsafe { ends::<u64>(from, to, length) },
        // SAFETY: the caller's promise.
        17..=32 => unsafe { ends::<[u8; 16]>(from, to, length) },
        // SAFETY: the caller's promise.
        33..=64 => unsafe { line(from, to, length) },
        // SAFETY: the caller's promise.
        _ => unsafe { long(from, to, length) },
    }
}

/// Copies `length` bytes by two accesses of the size of `T`, which may overlap.
///
/// # Safety
/// As for [`bytes`]; `length` is the size of `T` to twice as much.
#[inline(always)]
unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: within both ranges; no alignment is needed.
    unsafe {
        let last = length - size_of::<T>();
        let (low, high) = (
            from.cast::<T>().read_unaligned(),
            from.add(last).cast::<T>().read_unaligned(),
        );
        to.cast::<T>().write_unaligned(low);
        to.add(last).cast::<T>().write_unaligned(high);
    }
}

/// Copies `length` bytes, more than 64. The ranges do not overlap, or are the same.
///
/// One function for all callers: it is too much code for each of them.
///
/// # Safety
/// As for [`bytes`].
#[inline(never)]
pub unsafe fn long(from: *const u8, to: *mut u8, length: usize) {
    debug_assert!(length > 64);
    // SAFETY: the caller's promise.
    unsafe {
        if length >= LEAST && !is_slow(from.addr(), to.addr()) {
            by_string(from, to, length);
        } else {
            by_registers(from, to, length);
        }
    }
}

/// Whether the string instruction, and so the kernel's copies, are slow between these addresses.
/// Nothing is slow before [`know_processor`] was called.
#[inline(always)]
pub(crate) fn is_slow(from: usize, to: usize) -> bool {
    is_ahead(from, to) && SLOW_AHEAD.load(Ordering::Relaxed) == Known::Slow as u8
}

/// Whether bytes get 1 to 31 bytes farther in their page than they were in theirs.
#[inline(always)]
fn is_ahead(from: usize, to: usize) -> bool {
    let ahead = to.wrapping_sub(from) % 4096;
    (1..32).contains(&ahead)
}

/// What is known of the string instruction where bytes get a little farther in their page.
enum Known {
    Nothing = 0,
    Fast = 1,
    Slow = 2,
}

static SLOW_AHEAD: AtomicU8 = AtomicU8::new(Known::Nothing as u8);

/// Measures, once in a process, whether the string instruction is slow on this processor where
/// bytes get a little farther in their page. Whoever maps shared memory calls this: a copy may be
/// made where nothing may be allocated, as in a signal handler.
#[cold]
pub fn know_processor() {
    if SLOW_AHEAD.load(Ordering::Relaxed) == Known::Nothing as u8 {
        let found = if is_slow_ahead() {
            Known::Slow
        } else {
            Known::Fast
        };
        SLOW_AHEAD.store(found as u8, Ordering::Relaxed);
    }
}

/// Copies `length` bytes by the string instruction. What is stored after it is seen after all that
/// it stores (Intel SDM volume 3, 10.2.4).
///
/// # Safety
/// As for [`bytes`].
#[inline]
unsafe fn by_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; the direction flag is clear as the ABI demands.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        )
    }
}

/// Copies `length` bytes by registers, whatever their length.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn plain(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match length {
            0..=64 => std::ptr::copy(from, to, length),
            _ => by_registers(from, to, length),
        }
    }
}

/// Whether the string instruction is slow on this processor where bytes get a little farther in
/// their page. The measurement takes ten microseconds where it is.
fn is_slow_ahead() -> bool {
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

/// Copies `length` bytes, more than 64, by the widest registers.
///
/// # Safety
/// As for [`bytes`].
#[inline(always)]
unsafe fn by_registers(from: *const u8, to: *mut u8, length: usize) {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor can, and the caller's promise.
        unsafe { by_512_bits(from, to, length) }
    } else if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor can, and the caller's promise.
        unsafe { by_256_bits(from, to, length) }
    } else {
        // SAFETY: the caller's promise. The ranges may be the same.
        unsafe { std::ptr::copy(from, to, length) }
    }
}

macro_rules! copies {
    ($name:ident, $feature:literal, $register:ty, $load:ident, $store:ident) => {
        /// Copies `length` bytes, more than 64, by registers of one kind.
        ///
        /// # Safety
        /// As for [`bytes`], on a processor that has them.
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, to: *mut u8, length: usize) {
            const WIDTH: usize = size_of::<$register>();
            // SAFETY: within both ranges, of which each is longer than one register; no alignment
            // is needed.
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

copies!(
    by_512_bits,
    "avx512f",
    __m512i,
    _mm512_loadu_si512,
    _mm512_storeu_si512
);
copies!(
    by_256_bits,
    "avx",
    __m256i,
    _mm256_loadu_si256,
    _mm256_storeu_si256
);

/// Copies 33 to 64 bytes, by one store where the processor has such registers: it takes the line
/// once from a core that looks at it.
///
/// # Safety
/// As for [`bytes`].
#[inline(always)]
unsafe fn line(from: *const u8, to: *mut u8, length: usize) {
    debug_assert!((33..=64).contains(&length));
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor can, and the caller's promise.
        unsafe { masked(from, to, length) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { by_pieces(from, to, length) }
    }
}

/// Copies 32 to 64 bytes by four pieces of 16 bytes, which overlap.
///
/// # Safety
/// As for [`bytes`].
unsafe fn by_pieces(from: *const u8, to: *mut u8, length: usize) {
    let at = [0, 16, length - 32, length - 16];
    // SAFETY: within both ranges; no alignment is needed.
    unsafe {
        let pieces = at.map(|at| from.add(at).cast::<[u8; 16]>().read_unaligned());
        for (at, piece) in at.into_iter().zip(pieces) {
            to.add(at).cast::<[u8; 16]>().write_unaligned(piece);
        }
    }
}

/// Copies 1 to 64 bytes by one masked store.
///
/// # Safety
/// As for [`bytes`], on a processor that has such registers.
#[target_feature(enable = "avx512bw")]
unsafe fn masked(from: *const u8, to: *mut u8, length: usize) {
    let mask = u64::MAX >> (64 - length);
    // SAFETY: only bytes of the mask are read and written, which lie in the ranges.
    unsafe { _mm512_mask_storeu_epi8(to.cast(), mask, _mm512_maskz_loadu_epi8(mask, from.cast())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    #[test]
    fn every_kind_of_register_copies_all_bytes_and_no_other() {
        let kinds: [(bool, Copy); 4] = [
            (true, long),
            (true, by_string),
            (std::arch::is_x86_feature_detected!("avx"), by_256_bits),
            (std::arch::is_x86_feature_detected!("avx512f"), by_512_bits),
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
    fn every_kind_of_store_copies_what_fits_into_a_line() {
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
    fn copies_of_every_length_are_whole() {
        let from: Vec<u8> = (0..9000_u32).map(|byte| (byte * 7) as u8).collect();
        for length in (0..200).chain([1023, 1024, 4096, 8191]) {
            let mut to = vec![0xaa_u8; 9000];
            // SAFETY: local buffers that are longer.
            unsafe { bytes(from.as_ptr(), to.as_mut_ptr(), length) };
            assert!(to[..length] == from[..length], "{length}");
            assert!(to[length..].iter().all(|byte| *byte == 0xaa));
        }
    }

    #[test]
    fn a_copy_is_ahead_by_less_than_32_bytes_within_pages() {
        let page = 7 << 12;
        let ahead = [0, 1, 16, 31, 32, 4080, 4095].map(|by| is_ahead(page, (9 << 12) + by));
        assert_eq!(ahead, [false, true, true, true, false, false, false]);
        // a page's end, and the next one's beginning
        assert!(is_ahead(page + 4090, page + 8192 + 10));
        assert!(!is_ahead(page + 16, page));
    }

    #[test]
    fn slow_copies_are_whole_too() {
        SLOW_AHEAD.store(Known::Slow as u8, Ordering::Relaxed);
        let from: Vec<u8> = (0..9000_u32).map(|byte| (byte * 7) as u8).collect();
        for by in [0, 1, 16, 31, 32] {
            let mut to = vec![0; 4096 + 9000];
            let place = from
                .as_ptr()
                .addr()
                .wrapping_sub(to.as_ptr().addr())
                .wrapping_add(by)
                % 4096;
            assert_eq!(
                is_slow(from.as_ptr().addr(), to.as_ptr().addr() + place),
                (1..32).contains(&by)
            );
            // SAFETY: local buffers that are longer.
            unsafe { bytes(from.as_ptr(), to.as_mut_ptr().add(place), 8000) };
            assert!(to[place..place + 8000] == from[..8000], "{by}");
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
