//! Memory of the program, as the wires touch it.
//!
//! Owns nothing; says by whose leave an address is touched. Must not know keys or queue pairs.

use ferriband_memory::AppMemory;

/// A step of a long transfer: long enough that its system call (0.5 us) costs a hundredth of the
/// copy (55 us, hot), short enough that taking memory back, which waits for the step, stays below a
/// millisecond when the copy is cold.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// The machine hands in ranges that it checked against the key table, or that a program passed with
/// the call.
pub(crate) fn app() -> AppMemory {
    // SAFETY: every address comes out of `Host::local` (a registered region, checked for domain,
    // bounds and rights), out of a key entry checked the same way, or is inline data that the
    // program handed in with its call.
    unsafe { AppMemory::assume_registered() }
}
