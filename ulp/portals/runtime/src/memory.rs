//! The program's memory: copies between it and messages.
//!
//! Owns: the copies. Must not know: which object a piece belongs to.
//!
//! The program has promised, by binding a descriptor or appending an entry, that the memory stays
//! and that this library may read it, and write it where the object says so.

use ferriband_portals_proto::Piece;

/// Copies the bytes of pieces out until `to` is full.
///
/// # Safety
/// The pieces are memory of the program's that an operation under way may read.
pub(crate) unsafe fn gather(pieces: &[Piece], to: &mut [u8]) {
    let mut rest = to;
    for piece in pieces {
        let count = rest.len().min(piece.length as usize);
        let (here, after) = rest.split_at_mut(count);
        let from: *const u8 = std::ptr::with_exposed_provenance(piece.address as usize);
        if count == 8 && piece.address.is_multiple_of(8) {
            // one access: another process's atomic operation must not be seen half done
            // SAFETY: the caller's promise; the address is aligned.
            let word = unsafe { from.cast::<u64>().read_volatile() };
            here.copy_from_slice(&word.to_ne_bytes());
        } else {
            // SAFETY: the caller's promise; the bytes are not these.
            unsafe { std::ptr::copy(from, here.as_mut_ptr(), count) };
        }
        rest = after;
    }
}

/// Copies bytes into pieces, which have at least as many.
///
/// # Safety
/// The pieces are memory of the program's that an operation under way may write.
pub(crate) unsafe fn scatter(data: &[u8], pieces: &[Piece]) {
    let mut rest = data;
    for piece in pieces {
        let count = rest.len().min(piece.length as usize);
        let (here, after) = rest.split_at(count);
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(piece.address as usize);
        if count == 8 && piece.address.is_multiple_of(8) {
            let word = u64::from_ne_bytes(std::array::from_fn(|at| here[at]));
            // SAFETY: the caller's promise; the address is aligned.
            unsafe { to.cast::<u64>().write_volatile(word) };
        } else {
            // SAFETY: the caller's promise; the bytes are not these.
            unsafe { std::ptr::copy(here.as_ptr(), to, count) };
        }
        rest = after;
    }
}
