//! The copy that makes its last byte visible last.
//!
//! Owns: how bytes move between memory that this process can address. Must not know: whose memory it is.
//!
//! A receiver may poll the last byte of an RDMA WRITE and then use the rest (every RDMA fast path does;
//! invariant I4). glibc's memcpy stores the tail before the middle, `rep movsb` has no order at all, and
//! the compiler may turn any plain loop into either of them. Therefore the moves here are inline assembly,
//! in the order written: the body ascends in unaligned vectors, and the largest naturally aligned piece
//! (8, 4, 2 or 1 bytes) that ends the buffer is stored by one instruction after everything else. A naturally
//! aligned store is single-copy atomic, so a poller never sees the last byte without its neighbours.

use std::sync::atomic::{Ordering, fence};

/// From this many bytes on, 32-byte vectors pay for the detection and the alignment of the destination.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE_MIN_BYTES: usize = 192;

/// Copies `len` bytes from `src` to `dst` in ascending order; the last byte becomes visible after all the
/// others. Any alignment. Each source byte may be read more than once; if the source changes meanwhile, or
/// overlaps the destination, the bytes copied are unspecified, as on an adapter.
///
/// # Safety
/// `src` must be readable and `dst` writable for `len` bytes. Neither may be covered by a live `&mut`, and
/// `dst` by no `&`, other than one the caller derived the pointer from.
#[inline]
pub unsafe fn copy_ascending(dst: *mut u8, src: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    let tail = tail_bytes(dst.addr().wrapping_add(len), len);
    let body = len - tail;
    // SAFETY: body < len, so both ranges lie within the caller's.
    unsafe { copy_body(dst, src, body) };
    // x86 keeps stores in order and this costs nothing there; aarch64 needs the barrier.
    fence(Ordering::Release);
    // SAFETY: body + tail == len; the destination is aligned to `tail` because `end` is.
    unsafe { raw::step(dst.add(body), src.add(body), tail) };
}

/// The size of the piece to store last, of `len >= 1` bytes that end before address `end`: the largest of 1, 2, 4, 8
/// that is naturally aligned and fits.
#[inline(always)]
pub(crate) fn tail_bytes(end: usize, len: usize) -> usize {
    1 << end.trailing_zeros().min(len.ilog2()).min(3)
}

/// Copies `n` bytes, ascending, without a promise about the last.
#[inline]
unsafe fn copy_body(dst: *mut u8, src: *const u8, n: usize) {
    // A piece that does not fill its vector is moved with an overlapping one that ends at `n`.
    match n {
        0 => {}
        // SAFETY: within [0, n), as the width is at most n.
        1 => unsafe { raw::step(dst, src, 1) },
        // SAFETY: within [0, n), as the width is at most n.
        2..=3 => unsafe { pair(dst, src, n, 2) },
        // SAFETY: within [0, n), as the width is at most n.
        4..=7 => unsafe { pair(dst, src, n, 4) },
        // SAFETY: within [0, n), as the width is at most n.
        8..=15 => unsafe { pair(dst, src, n, 8) },
        // SAFETY: n >= 16, what the bulk copy needs.
        _ => unsafe { copy_bulk(dst, src, n) },
    }
}

/// Two moves of `width` bytes: the first and the last of `n`; `width <= n <= 2 * width`.
#[inline(always)]
unsafe fn pair(dst: *mut u8, src: *const u8, n: usize, width: usize) {
    // SAFETY: width <= n.
    unsafe { raw::step(dst, src, width) };
    // SAFETY: n - width + width == n.
    unsafe { raw::step(dst.add(n - width), src.add(n - width), width) };
}

/// Copies `n >= 16` bytes by vectors.
#[inline]
unsafe fn copy_bulk(dst: *mut u8, src: *const u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if n >= WIDE_MIN_BYTES && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2 and n >= 32.
        unsafe { raw::copy_wide(dst, src, n) };
        return;
    }
    let mut at = 0;
    while n - at >= 64 {
        // SAFETY: at + 64 <= n.
        unsafe { raw::move64(dst.add(at), src.add(at)) };
        at += 64;
    }
    while n - at >= 16 {
        // SAFETY: at + 16 <= n.
        unsafe { raw::move16(dst.add(at), src.add(at)) };
        at += 16;
    }
    if at < n {
        // SAFETY: n >= 16.
        unsafe { raw::move16(dst.add(n - 16), src.add(n - 16)) };
    }
}

/// The moves themselves, for x86_64: SSE2 as the baseline, AVX2 when detected.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod raw {
    use std::arch::asm;

    /// Moves `width` bytes, one of 1, 2, 4, 8, with one load and one store.
    #[inline(always)]
    pub unsafe fn step(dst: *mut u8, src: *const u8, width: usize) {
        match width {
            // SAFETY: the caller's ranges hold `width` bytes.
            8 => unsafe {
                asm!("mov {t}, [{s}]", "mov [{d}], {t}", t = out(reg) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
            // SAFETY: the caller's ranges hold `width` bytes.
            4 => unsafe {
                asm!("mov {t:e}, [{s}]", "mov [{d}], {t:e}", t = out(reg) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
            // SAFETY: the caller's ranges hold `width` bytes.
            2 => unsafe {
                asm!("movzx {t:e}, word ptr [{s}]", "mov [{d}], {t:x}", t = out(reg) _, s = in(reg) src,
                     d = in(reg) dst, options(nostack, preserves_flags))
            },
            // SAFETY: the caller's ranges hold `width` bytes.
            _ => unsafe {
                asm!("mov {t}, [{s}]", "mov [{d}], {t}", t = out(reg_byte) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
        }
    }

    /// Moves 16 bytes.
    #[inline(always)]
    pub unsafe fn move16(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's ranges hold 16 bytes.
        unsafe {
            asm!("movdqu {t}, [{s}]", "movdqu [{d}], {t}", t = out(xmm_reg) _, s = in(reg) src, d = in(reg) dst,
                 options(nostack, preserves_flags))
        }
    }

    /// Moves 64 bytes.
    #[inline(always)]
    pub unsafe fn move64(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's ranges hold 64 bytes.
        unsafe {
            asm!(
                "movdqu {a}, [{s}]", "movdqu {b}, [{s} + 16]", "movdqu {c}, [{s} + 32]", "movdqu {e}, [{s} + 48]",
                "movdqu [{d}], {a}", "movdqu [{d} + 16], {b}", "movdqu [{d} + 32], {c}", "movdqu [{d} + 48], {e}",
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, e = out(xmm_reg) _,
                s = in(reg) src, d = in(reg) dst, options(nostack, preserves_flags))
        }
    }

    /// Copies `n >= 32` bytes by 32-byte vectors, the destination aligned after the first.
    #[target_feature(enable = "avx2")]
    pub unsafe fn copy_wide(dst: *mut u8, src: *const u8, n: usize) {
        // SAFETY: n >= 32.
        unsafe { move32(dst, src) };
        let mut at = 32 - (dst.addr() & 31);
        while n - at >= 128 {
            // SAFETY: at + 128 <= n.
            unsafe { move128(dst.add(at), src.add(at)) };
            at += 128;
        }
        while n - at >= 32 {
            // SAFETY: at + 32 <= n.
            unsafe { move32(dst.add(at), src.add(at)) };
            at += 32;
        }
        if at < n {
            // SAFETY: n >= 32.
            unsafe { move32(dst.add(n - 32), src.add(n - 32)) };
        }
        // SAFETY: clears the upper halves, which nobody uses here; SSE code after us would stall otherwise.
        unsafe {
            asm!("vzeroupper", out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                      out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                      out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                      out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                      options(nostack, nomem, preserves_flags))
        };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn move32(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's ranges hold 32 bytes.
        unsafe {
            asm!("vmovdqu {t}, [{s}]", "vmovdqu [{d}], {t}", t = out(ymm_reg) _, s = in(reg) src, d = in(reg) dst,
                 options(nostack, preserves_flags))
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn move128(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's ranges hold 128 bytes.
        unsafe {
            asm!(
                "vmovdqu {a}, [{s}]", "vmovdqu {b}, [{s} + 32]", "vmovdqu {c}, [{s} + 64]", "vmovdqu {e}, [{s} + 96]",
                "vmovdqu [{d}], {a}", "vmovdqu [{d} + 32], {b}", "vmovdqu [{d} + 64], {c}", "vmovdqu [{d} + 96], {e}",
                a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _, e = out(ymm_reg) _,
                s = in(reg) src, d = in(reg) dst, options(nostack, preserves_flags))
        }
    }
}

/// The moves themselves, for aarch64.
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod raw {
    use std::arch::asm;

    /// Moves `width` bytes, one of 1, 2, 4, 8, with one load and one store.
    #[inline(always)]
    pub unsafe fn step(dst: *mut u8, src: *const u8, width: usize) {
        match width {
            // SAFETY: the caller's ranges hold `width` bytes.
            8 => unsafe {
                asm!("ldr {t:x}, [{s}]", "str {t:x}, [{d}]", t = out(reg) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
            // SAFETY: the caller's ranges hold `width` bytes.
            4 => unsafe {
                asm!("ldr {t:w}, [{s}]", "str {t:w}, [{d}]", t = out(reg) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
            // SAFETY: the caller's ranges hold `width` bytes.
            2 => unsafe {
                asm!("ldrh {t:w}, [{s}]", "strh {t:w}, [{d}]", t = out(reg) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
            // SAFETY: the caller's ranges hold `width` bytes.
            _ => unsafe {
                asm!("ldrb {t:w}, [{s}]", "strb {t:w}, [{d}]", t = out(reg) _, s = in(reg) src, d = in(reg) dst,
                     options(nostack, preserves_flags))
            },
        }
    }

    /// Moves 16 bytes.
    #[inline(always)]
    pub unsafe fn move16(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's ranges hold 16 bytes.
        unsafe {
            asm!("ldr {t:q}, [{s}]", "str {t:q}, [{d}]", t = out(vreg) _, s = in(reg) src, d = in(reg) dst,
                 options(nostack, preserves_flags))
        }
    }

    /// Moves 64 bytes.
    #[inline(always)]
    pub unsafe fn move64(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's ranges hold 64 bytes.
        unsafe {
            asm!("ldp {a:q}, {b:q}, [{s}]", "ldp {c:q}, {e:q}, [{s}, #32]",
                 "stp {a:q}, {b:q}, [{d}]", "stp {c:q}, {e:q}, [{d}, #32]",
                 a = out(vreg) _, b = out(vreg) _, c = out(vreg) _, e = out(vreg) _,
                 s = in(reg) src, d = in(reg) dst, options(nostack, preserves_flags))
        }
    }
}

/// The moves in Rust, for Miri and processors without a version of their own.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod raw {
    /// Moves `width` bytes, one of 1, 2, 4, 8.
    #[inline(always)]
    pub unsafe fn step(dst: *mut u8, src: *const u8, width: usize) {
        if width == 8 && dst.addr().is_multiple_of(8) {
            // SAFETY: the caller's range holds 8 bytes.
            let word = unsafe { src.cast::<u64>().read_unaligned() };
            // SAFETY: aligned, and the caller's range holds 8 bytes.
            unsafe { dst.cast::<u64>().write_volatile(word) };
            return;
        }
        for at in 0..width {
            // SAFETY: at < width.
            let byte = unsafe { src.add(at).read_volatile() };
            // SAFETY: at < width.
            unsafe { dst.add(at).write_volatile(byte) };
        }
    }

    /// Moves 16 bytes.
    #[inline(always)]
    pub unsafe fn move16(dst: *mut u8, src: *const u8) {
        for at in [0, 8] {
            // SAFETY: the caller's ranges hold 16 bytes.
            unsafe { step(dst.add(at), src.add(at), 8) };
        }
    }

    /// Moves 64 bytes.
    #[inline(always)]
    pub unsafe fn move64(dst: *mut u8, src: *const u8) {
        for at in [0, 16, 32, 48] {
            // SAFETY: the caller's ranges hold 64 bytes.
            unsafe { move16(dst.add(at), src.add(at)) };
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::test_order::{Sender, run_receiver};
    use crate::test_process::{Child, rounds};
    use crate::{Access, Segment};

    #[test]
    fn every_length_and_alignment_copies_exactly_its_bytes() {
        let source: Vec<u8> = (0..1200u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let lengths = (0..300).chain([511, 512, 513, 639, 640, 641, 1000, 1024]);
        for len in lengths {
            for (dst_off, src_off) in [
                (0, 0),
                (1, 0),
                (0, 1),
                (3, 6),
                (7, 7),
                (8, 5),
                (31, 2),
                (17, 33),
            ] {
                let mut got = vec![0xAAu8; 1200];
                // SAFETY: len + offsets stay below 1200 in both buffers.
                unsafe {
                    copy_ascending(
                        got.as_mut_ptr().add(dst_off),
                        source.as_ptr().add(src_off),
                        len,
                    )
                };
                assert_eq!(
                    got[dst_off..dst_off + len],
                    source[src_off..src_off + len],
                    "{len} {dst_off}"
                );
                let around = got[..dst_off].iter().chain(&got[dst_off + len..]);
                assert!(
                    around.into_iter().all(|&b| b == 0xAA),
                    "{len} bytes at {dst_off} wrote outside"
                );
            }
        }
    }

    #[test]
    fn tail_is_the_largest_aligned_piece_that_fits() {
        let cases = [
            (16, 100, 8),
            (16, 7, 4),
            (12, 9, 4),
            (14, 9, 2),
            (15, 9, 1),
            (16, 3, 2),
            (16, 1, 1),
        ];
        for (end, len, want) in cases {
            assert_eq!(tail_bytes(end, len), want, "{len} bytes before {end}");
        }
    }

    /// What the children of these tests do; see [`crate::test_process`].
    pub(crate) fn child(segment: Segment) {
        run_receiver(&segment, segment.base_addr() as usize + 4096);
    }

    fn send(segment: &Segment, count: u64) -> u64 {
        let mut sender = Sender::new(segment, count);
        while let Some((off, len, bytes)) = sender.next() {
            segment.copy_in(4096 + off, &bytes[..len]);
        }
        sender.finish()
    }

    #[test]
    fn last_byte_is_visible_last_to_another_thread() {
        let segment = Segment::create("copy-order", 1 << 20).unwrap();
        let fd = segment.fd().unwrap().try_clone_to_owned().unwrap();
        std::thread::scope(|s| {
            s.spawn(move || {
                let peer = Segment::from_fd(fd, 1 << 20, Access::ReadWrite).unwrap();
                run_receiver(&peer, peer.base_addr() as usize + 4096);
            });
            assert_eq!(send(&segment, rounds(1_000_000)), 0, "torn buffers");
        });
    }

    #[test]
    fn last_byte_is_visible_last_to_another_process() {
        let segment = Segment::create("copy-order", 1 << 20).unwrap();
        let _child = Child::spawn("copy-receiver", &segment);
        assert_eq!(send(&segment, rounds(1_000_000)), 0, "torn buffers");
    }

    #[test]
    fn the_order_test_detects_a_copy_that_stores_its_tail_first() {
        let segment = Segment::create("copy-order", 1 << 20).unwrap();
        let _child = Child::spawn("copy-receiver", &segment);
        let mut sender = Sender::new(&segment, 20_000);
        while let Some((off, len, bytes)) = sender.next() {
            segment.copy_in(4096 + off + len - 1, &bytes[..1]);
            // On a busy machine the receiver may not be running just now: let it, sometimes.
            if len == 1000 {
                std::thread::yield_now();
            }
            segment.copy_in(4096 + off, &bytes[..len]);
        }
        assert!(
            sender.finish() > 0,
            "no torn buffer seen: the test would not find one"
        );
    }
}
