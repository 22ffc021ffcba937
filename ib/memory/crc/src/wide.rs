//! Four lanes of 128 bits at a time: a register of 512 bits is multiplied by x to the power of the distance to the next bytes, modulo the polynomial, and these are added (V. Gopal et al., Fast CRC
//! Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009, with bits reflected). Four such registers, so that no multiplication waits for the one before.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m512i, _mm_and_si128, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_extract_epi32,
    _mm_loadu_si128, _mm_set_epi32, _mm_set_epi64x, _mm_shuffle_epi8, _mm_srli_si128,
    _mm_xor_si128, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_xor_si256,
    _mm512_castsi512_si256, _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64,
    _mm512_loadu_si512, _mm512_mask_blend_epi64, _mm512_set_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

use super::Known;

/// Bytes from which on this pays: four registers.
pub(super) const LEAST: usize = 256;

/// The polynomial with x^31 in bit 0.
const POLYNOMIAL: u32 = 0x04c1_1db7_u32.reverse_bits();

/// x to the power of `power` modulo the polynomial, in 33 bits, reflected.
const fn power(power: u32) -> i64 {
    let (mut value, mut left) = (1_u32 << 31, power);
    while left > 0 {
        value = value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
        left -= 1;
    }
    (value as i64) << 1
}

/// What both halves of a lane are multiplied by to go `bits` further: the lower one first.
pub(super) const fn distance(bits: u32) -> (i64, i64) {
    (power(bits + 32), power(bits - 32))
}

/// x^64 divided by the polynomial, and the polynomial with its highest bit, reflected in 33 bits (Barrett).
const QUOTIENT: i64 = 0x1_f701_1641;
const WHOLE: i64 = 0x1_db71_0641;

/// Bytes of a register whose first ones shall move to its end, or whose last ones to its beginning: indices from 16 on take none.
static MOVES: [u8; 48] = {
    let mut moves = [0x80; 48];
    let mut at = 0;
    while at < 16 {
        moves[16 + at] = at as u8;
        at += 1;
    }
    moves
};

/// A register's last bytes, if it is loaded from as many on.
static LAST: [u8; 32] = {
    let mut last = [0; 32];
    let mut at = 16;
    while at < 32 {
        last[at] = 0xff;
        at += 1;
    }
    last
};

static HAS: Known = Known::new();

#[inline]
fn has() -> bool {
    HAS.get(|| {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
    })
}

/// The CRC after more bytes; none if they are too few, or the processor cannot.
#[inline]
pub(super) fn update(crc: u32, bytes: &[u8]) -> Option<u32> {
    if bytes.len() < LEAST || !has() {
        return None;
    }
    // SAFETY: the processor has these instructions.
    Some(unsafe { fold(crc, bytes) })
}

/// A factor for each lane's two halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn factors((low, high): (i64, i64)) -> __m512i {
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

/// All lanes, further by the distance of the factors, and what lies there added.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn further(lanes: __m512i, factors: __m512i, next: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(lanes, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(lanes, factors);
    _mm512_ternarylogic_epi64::<0x96>(low, high, next)
}

/// The same with one lane, by 128 bits.
#[inline]
#[target_feature(enable = "sse2,pclmulqdq")]
fn further_one(lane: __m128i, next: __m128i) -> __m128i {
    let (low, high) = const { distance(128) };
    let factors = _mm_set_epi64x(high, low);
    let low = _mm_clmulepi64_si128::<0x00>(lane, factors);
    let high = _mm_clmulepi64_si128::<0x11>(lane, factors);
    _mm_xor_si128(_mm_xor_si128(low, high), next)
}

/// 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8], at: usize) -> __m512i {
    let part: &[u8; 64] = bytes[at..at + 64].try_into().expect("64 bytes");
    // SAFETY: 64 bytes, at any place.
    unsafe { _mm512_loadu_si512(part.as_ptr().cast()) }
}

/// 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "sse2")]
fn load_one(bytes: &[u8], at: usize) -> __m128i {
    let part: &[u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
    // SAFETY: 16 bytes, at any place.
    unsafe { _mm_loadu_si128(part.as_ptr().cast()) }
}

/// The CRC after [`LEAST`] bytes and more.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
fn fold(crc: u32, bytes: &[u8]) -> u32 {
    let first = _mm512_zextsi128_si512(_mm_cvtsi32_si128((!crc).cast_signed()));
    let mut lanes = [
        _mm512_xor_si512(load(bytes, 0), first),
        load(bytes, 64),
        load(bytes, 128),
        load(bytes, 192),
    ];
    let mut at = LEAST;
    let factor = factors(const { distance(2048) });
    while bytes.len() - at >= LEAST {
        for (place, lanes) in lanes.iter_mut().enumerate() {
            *lanes = further(*lanes, factor, load(bytes, at + 64 * place));
        }
        at += LEAST;
    }
    let mut one = to_one(lanes);
    let factor = factors(const { distance(512) });
    while bytes.len() - at >= 64 {
        one = further(one, factor, load(bytes, at));
        at += 64;
    }
    let mut lane = to_lane(one);
    while bytes.len() - at >= 16 {
        lane = further_one(lane, load_one(bytes, at));
        at += 16;
    }
    let left = bytes.len() - at;
    if left != 0 {
        // As many bytes of the lane go further as are left; the others make room for these.
        let goes = _mm_shuffle_epi8(lane, load_one(&MOVES, left));
        let stays = _mm_shuffle_epi8(lane, load_one(&MOVES, 16 + left));
        let last = load_one(bytes, bytes.len() - 16);
        let next = _mm_xor_si128(stays, _mm_and_si128(last, load_one(&LAST, left)));
        lane = further_one(goes, next);
    }
    rest(lane)
}

/// The four registers to one, each by its own distance.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn to_one(lanes: [__m512i; 4]) -> __m512i {
    let zero = _mm512_setzero_si512();
    _mm512_ternarylogic_epi64::<0x96>(
        further(lanes[0], factors(const { distance(1536) }), zero),
        further(lanes[1], factors(const { distance(1024) }), zero),
        further(lanes[2], factors(const { distance(512) }), lanes[3]),
    )
}

/// A register's four lanes to one likewise; the last stays where it is.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn to_lane(one: __m512i) -> __m128i {
    let (far, middle, near) = const { (distance(384), distance(256), distance(128)) };
    let factor = _mm512_set_epi64(0, 0, near.1, near.0, middle.1, middle.0, far.1, far.0);
    let zero = _mm512_setzero_si512();
    let moved = _mm512_mask_blend_epi64(0b1100_0000, further(one, factor, zero), one);
    let halves = _mm256_xor_si256(
        _mm512_castsi512_si256(moved),
        _mm512_extracti64x4_epi64::<1>(moved),
    );
    _mm_xor_si128(
        _mm256_castsi256_si128(halves),
        _mm256_extracti128_si256::<1>(halves),
    )
}

/// The next 64 bytes of memory that may change meanwhile, each read once, copied.
///
/// # Safety
/// 64 bytes can be read at `src`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn step(dst: &mut [u8; 64], src: *const u8) -> __m512i {
    let bytes: __m512i;
    // SAFETY: as the caller promises.
    unsafe {
        asm!("vmovdqu64 {bytes}, [{src}]", src = in(reg) src, bytes = out(zmm_reg) bytes,
             options(nostack, readonly, preserves_flags));
        _mm512_storeu_si512(dst.as_mut_ptr().cast(), bytes);
    }
    bytes
}

/// Copies to `dst`, whose length is a multiple of [`LEAST`] and not 0, and gives the CRC of what was copied.
///
/// # Safety
/// As many bytes can be read at `src`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
unsafe fn copy_and_fold(dst: &mut [u8], src: *const u8) -> u32 {
    let zero = _mm512_setzero_si512();
    // Before the first bytes there are none, but for the inverted beginning, which is added to them.
    let (mut lanes, mut begun) = ([zero; 4], _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
    let factor = factors(const { distance(2048) });
    let blocks = dst.as_chunks_mut::<64>().0;
    for (index, four) in blocks.chunks_exact_mut(4).enumerate() {
        for (place, (block, lanes)) in four.iter_mut().zip(&mut lanes).enumerate() {
            // SAFETY: within the bytes that can be read.
            let bytes = unsafe { step(block, src.add(index * LEAST + 64 * place)) };
            *lanes = further(*lanes, factor, bytes);
        }
        lanes[0] = _mm512_xor_si512(lanes[0], begun);
        begun = zero;
    }
    rest(to_lane(to_one(lanes)))
}

/// Copies, and gives the CRC of what was copied; none if the processor cannot, or `dst` is no multiple of [`LEAST`] long, and then nothing was.
///
/// # Safety
/// As many bytes can be read at `src`.
#[inline]
pub(super) unsafe fn copy(dst: &mut [u8], src: *const u8) -> Option<u32> {
    if dst.is_empty() || !dst.len().is_multiple_of(LEAST) || !has() {
        return None;
    }
    // SAFETY: the processor has these instructions; the rest as the caller promises.
    Some(unsafe { copy_and_fold(dst, src) })
}

/// 128 bits modulo the polynomial: to 96, to 64, to 32 (Barrett).
#[inline]
#[target_feature(enable = "sse4.1,pclmulqdq")]
pub(super) fn rest(lane: __m128i) -> u32 {
    let low = _mm_set_epi32(0, 0, 0, -1);
    let by_96 = _mm_set_epi64x(const { distance(128).1 }, 0);
    let by_64 = _mm_set_epi64x(0, const { power(64) });
    let lane = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x10>(lane, by_96),
        _mm_srli_si128::<8>(lane),
    );
    let lane = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(_mm_and_si128(lane, low), by_64),
        _mm_srli_si128::<4>(lane),
    );
    let barrett = _mm_set_epi64x(QUOTIENT, WHOLE);
    let times = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(lane, low), barrett);
    let times = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(times, low), barrett);
    !_mm_extract_epi32::<1>(_mm_xor_si128(times, lane)).cast_unsigned()
}
