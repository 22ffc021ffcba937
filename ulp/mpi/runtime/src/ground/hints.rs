//! What the processor is told of lines that will be read or written.
//!
//! Owns: hints, which change no memory. Must not know: whose lines they are.

/// Asks for the line at `address` to be written soon, so that the store does not wait for it.
#[inline]
pub(crate) fn will_write(address: *const u8) {
    // SAFETY: a hint, which changes no memory and faults at no address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags))
    };
}

/// Whether [`demote`] does anything: bit 25 of ECX of CPUID's leaf 7 (Intel SDM, CLDEMOTE).
pub(crate) fn demotes() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx >> 25 & 1 == 1
}

/// Lets the line at `address`, which this core has just written, go to the cache that all cores
/// share. Processors that do not know the hint pass it over.
#[inline]
pub(crate) fn demote(address: *const u8) {
    // SAFETY: a hint, which changes no memory and faults at no address.
    unsafe {
        std::arch::asm!("cldemote [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

/// Asks for the line at `address`, which will be read soon.
#[inline]
pub fn will_read(address: *const u8) {
    // SAFETY: a hint, which changes no memory and faults at no address.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

/// Asks for the line at `address`, which will be read later: into the core's second cache.
#[inline]
pub(crate) fn will_read_far(address: *const u8) {
    // SAFETY: a hint, which changes no memory and faults at no address.
    unsafe {
        std::arch::asm!("prefetcht1 [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}
