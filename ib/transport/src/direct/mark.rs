//! In-flight marks: how a process says that it is touching a peer's memory, so that the peer can take memory
//! back safely (DESIGN section 2: revoke first, then wait for the marks).
//!
//! The initiator stores the mark, fences, then reads the key's entry. The owner stores the revocation, fences, then reads
//! the marks. One of the two sees the other (store-buffering with fences), so either the initiator finds the
//! key gone or the owner finds the mark and waits.

use super::Words;
use super::layout::{MARK_BYTES, MARKS, PROC_MARKS};

const ACTIVE: u64 = 1 << 63;

fn at(mark: usize) -> usize {
    PROC_MARKS + (mark % MARKS) * MARK_BYTES
}

/// Announces an access to the memory behind `key` of the process in `slot`, addressed to its queue pair `qpn`.
#[inline]
pub fn publish<W: Words>(own: &W, mark: usize, slot: u32, key: u32, qpn: u32) {
    own.store(at(mark) + 8, u64::from(qpn));
    own.store(
        at(mark),
        ACTIVE | u64::from(slot & 0x7fff_ffff) << 32 | u64::from(key),
    );
    own.fence();
}

/// Ends the access.
#[inline]
pub fn clear<W: Words>(own: &W, mark: usize) {
    own.store(at(mark), 0);
}

/// What an owner waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revoked {
    /// A key.
    Key(u32),
    /// A queue pair.
    Qp(u32),
    /// All that the owner has.
    Everything,
}

/// True while the process whose segment is `peer` has an access in flight to what was revoked in `slot`.
pub fn in_flight<W: Words>(peer: &W, slot: u32, what: Revoked) -> bool {
    (0..MARKS).any(|mark| {
        let word = peer.load(at(mark));
        if word & ACTIVE == 0 || (word >> 32) as u32 & 0x7fff_ffff != slot & 0x7fff_ffff {
            return false;
        }
        match what {
            Revoked::Everything => true,
            Revoked::Key(key) => word as u32 == key,
            // the queue pair word may already belong to a later access: that one saw the revocation or waits too
            Revoked::Qp(qpn) => peer.load(at(mark) + 8) as u32 == qpn,
        }
    })
}
