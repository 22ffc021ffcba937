//! Copies and their CRC by registers of 256 bits, where there are none of 512 (Zen 3): as in `wide.rs`, by eight registers of two lanes. The CRC alone is crc32fast's, which has such registers, too.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_set_epi64x, _mm_xor_si128,
    _mm256_castsi256_si128, _mm256_clmulepi64_epi128, _mm256_extracti128_si256, _mm256_set_epi64x,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm256_zextsi128_si256,
};

use super::Known;
use super::wide::{LEAST, distance, rest};

static HAS: Known = Known::new();

fn has() -> bool {
    HAS.get(|| {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("sse4.1")
    })
}

/// As `wide::copy`.
///
/// # Safety
/// As there.
#[inline]
pub(super) unsafe fn copy(dst: &mut [u8], src: *const u8) -> Option<u32> {
    if dst.is_empty() || !dst.len().is_multiple_of(LEAST) || !has() {
        return None;
    }
    // SAFETY: the processor has these instructions; the rest as the caller promises.
    Some(unsafe { copy_and_fold(dst, src) })
}

/// Both lanes, further by the distance, and what lies there added.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
fn further(lanes: __m256i, (low, high): (i64, i64), next: __m256i) -> __m256i {
    let factors = _mm256_set_epi64x(high, low, high, low);
    let low = _mm256_clmulepi64_epi128::<0x00>(lanes, factors);
    let high = _mm256_clmulepi64_epi128::<0x11>(lanes, factors);
    _mm256_xor_si256(_mm256_xor_si256(low, high), next)
}

/// The next 32 bytes of memory that may change meanwhile, each read once, copied.
///
/// # Safety
/// 32 bytes can be read at `src`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn step(dst: &mut [u8; 32], src: *const u8) -> __m256i {
    let bytes: __m256i;
    // SAFETY: as the caller promises.
    unsafe {
        asm!("vmovdqu {bytes}, [{src}]", src = in(reg) src, bytes = out(ymm_reg) bytes,
             options(nostack, readonly, preserves_flags));
        _mm256_storeu_si256(dst.as_mut_ptr().cast(), bytes);
    }
    bytes
}

/// Copies to `dst`, whose length is a multiple of [`LEAST`] and not 0, and gives the CRC of what was copied.
///
/// # Safety
/// As many bytes can be read at `src`.
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
unsafe fn copy_and_fold(dst: &mut [u8], src: *const u8) -> u32 {
    let zero = _mm256_setzero_si256();
    // Before the first bytes there are none, but for the inverted beginning, which is added to them.
    let (mut lanes, mut begun) = ([zero; 8], _mm256_zextsi128_si256(_mm_cvtsi32_si128(-1)));
    let blocks = dst.as_chunks_mut::<32>().0;
    for (index, eight) in blocks.chunks_exact_mut(8).enumerate() {
        for (place, (block, lanes)) in eight.iter_mut().zip(&mut lanes).enumerate() {
            // SAFETY: within the bytes that can be read.
            let bytes = unsafe { step(block, src.add(index * LEAST + 32 * place)) };
            *lanes = further(*lanes, const { distance(2048) }, bytes);
        }
        lanes[0] = _mm256_xor_si256(lanes[0], begun);
        begun = zero;
    }
    rest(to_lane(lanes))
}

/// The eight registers to one, each by its own distance, and its two lanes to one.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq")]
fn to_lane(lanes: [__m256i; 8]) -> __m128i {
    let mut one = lanes[7];
    one = further(lanes[0], const { distance(7 * 256) }, one);
    one = further(lanes[1], const { distance(6 * 256) }, one);
    one = further(lanes[2], const { distance(5 * 256) }, one);
    one = further(lanes[3], const { distance(4 * 256) }, one);
    one = further(lanes[4], const { distance(3 * 256) }, one);
    one = further(lanes[5], const { distance(2 * 256) }, one);
    one = further(lanes[6], const { distance(256) }, one);
    let (low, high) = const { distance(128) };
    let (first, factors) = (_mm256_castsi256_si128(one), _mm_set_epi64x(high, low));
    let moved = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(first, factors),
        _mm_clmulepi64_si128::<0x11>(first, factors),
    );
    _mm_xor_si128(moved, _mm256_extracti128_si256::<1>(one))
}
