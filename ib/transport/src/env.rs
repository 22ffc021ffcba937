//! What a packet queue pair asks of its surroundings: memory, shared receive queues, the P_Key table.
//!
//! Owns only the contract. The implementor is a view for one queue pair: it knows the protection domain and the
//! number of the queue pair (a type 2 window is usable on its own queue pair only), the machine knows neither whose
//! memory it moves nor how. All calls are synchronous: an R_Key check happens inside the responder, before the PSN
//! advances (invariant I7).

use crate::types::{Access, Sge};
use ferriband_wire::{LKey, PKey, RKey};

/// Why an access to memory was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MemoryError {
    /// No such key, a key of another protection domain, or a revoked one.
    #[error("no such key in this protection domain")]
    Key,
    /// Outside the region or window, or the end wraps around.
    #[error("out of the region's range")]
    Range,
    /// The region does not grant this right.
    #[error("access right not granted")]
    Access,
    /// The bytes could not be moved although the key allows it.
    #[error("the copy failed")]
    Fault,
}

/// An atomic operation on 8 bytes, in host order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Stores `swap` if the word equals `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Adds, wrapping.
    FetchAdd {
        /// Addend.
        add: u64,
    },
}

impl AtomicOp {
    /// The word after the operation on `old`.
    pub const fn apply(self, old: u64) -> u64 {
        match self {
            AtomicOp::CompareSwap { compare, swap } if old == compare => swap,
            AtomicOp::CompareSwap { .. } => old,
            AtomicOp::FetchAdd { add } => old.wrapping_add(add),
        }
    }
}

/// A bind of a type 2 memory window by a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindWindow {
    /// The window's present key.
    pub window: RKey,
    /// Key after the bind: same index, new low byte.
    pub new_key: RKey,
    /// Region that the window opens.
    pub region: LKey,
    /// First byte.
    pub addr: u64,
    /// Bytes; 0 invalidates.
    pub length: u64,
    /// Rights of the window.
    pub access: Access,
}

/// Whose protection domain a scatter/gather list belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SgeOwner {
    /// The queue pair's.
    #[default]
    QueuePair,
    /// That of the shared receive queue of this number (XRC: the one named in the packet).
    Srq(u32),
}

/// Answer of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedReceive {
    /// A receive was taken; `sges[..num_sge]` were filled in.
    Taken {
        /// The work request's identifier.
        wr_id: u64,
        /// Elements written.
        num_sge: usize,
    },
    /// Nothing is posted.
    Empty,
    /// There is no such queue (or not in this XRC domain).
    NoSuchQueue,
}

/// The surroundings of one queue pair.
pub trait Environment {
    /// Copies `out.len()` bytes that begin `offset` bytes into the list. Every key, right and range of the bytes
    /// touched is checked first; nothing is copied on an error.
    ///
    /// # Errors
    /// A local protection error.
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError>;

    /// As [`Self::gather`], of bytes that were sent before. The program may have unmapped them since: it can know that they have arrived
    /// before their acknowledgement comes.
    ///
    /// # Errors
    /// A local protection error; `Fault` if the memory is not there any more.
    fn gather_again(
        &mut self,
        sges: &[Sge],
        offset: u32,
        out: &mut [u8],
    ) -> Result<(), MemoryError> {
        self.gather(sges, offset, out)
    }

    /// Copies what begins `offset` bytes into the list, in pieces of `piece` bytes, to places that are `stride` apart: one for each
    /// `stride` bytes of `out`, and for what is left of it if that is a whole piece. The same as so many calls of [`Self::gather`],
    /// with less to look up.
    ///
    /// # Errors
    /// A local protection error: some pieces may have been copied.
    fn gather_apart(
        &mut self,
        sges: &[Sge],
        offset: u32,
        out: &mut [u8],
        stride: usize,
        piece: usize,
    ) -> Result<(), MemoryError> {
        let mut at = offset;
        for place in out.chunks_mut(stride).filter(|place| place.len() >= piece) {
            self.gather(sges, at, &mut place[..piece])?;
            at += piece as u32;
        }
        Ok(())
    }

    /// Copies `data` to `offset` bytes into the list, in ascending order; LOCAL_WRITE is required. Nothing is
    /// written on an error.
    ///
    /// # Errors
    /// A local protection error.
    fn scatter(
        &mut self,
        owner: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError>;

    /// Checks that a peer may access `length` bytes from `addr` with `access`; `addr + length` must not wrap.
    ///
    /// # Errors
    /// A remote access error.
    fn check_remote(
        &mut self,
        key: RKey,
        addr: u64,
        length: u32,
        access: Access,
    ) -> Result<(), MemoryError>;

    /// Checks and writes, in ascending order: the last byte becomes visible last (I4).
    ///
    /// # Errors
    /// A remote access error, or `Fault`.
    fn remote_write(&mut self, key: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError>;

    /// Checks and reads.
    ///
    /// # Errors
    /// A remote access error, or `Fault`.
    fn remote_read(&mut self, key: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError>;

    /// As [`Self::remote_read`], of bytes that were sent before: see [`Self::gather_again`].
    ///
    /// # Errors
    /// A remote access error, or `Fault`.
    fn remote_read_again(
        &mut self,
        key: RKey,
        addr: u64,
        out: &mut [u8],
    ) -> Result<(), MemoryError> {
        self.remote_read(key, addr, out)
    }

    /// Checks and executes; returns the word before. `addr` is a multiple of 8: the responder has checked that.
    ///
    /// # Errors
    /// A remote access error, or `Fault`.
    fn remote_atomic(&mut self, key: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError>;

    /// Revokes a key of this side because the peer's SEND with invalidate says so.
    ///
    /// # Errors
    /// The key cannot be invalidated through this queue pair.
    fn invalidate_remote(&mut self, key: RKey) -> Result<(), MemoryError>;

    /// Revokes a key of this side by a local work request.
    ///
    /// # Errors
    /// The key cannot be invalidated through this queue pair.
    fn invalidate_local(&mut self, key: RKey) -> Result<(), MemoryError>;

    /// Binds a type 2 window.
    ///
    /// # Errors
    /// The window, the region or the rights do not fit.
    fn bind_window(&mut self, bind: &BindWindow) -> Result<(), MemoryError>;

    /// Takes a receive from the queue pair's shared queue, or for XRC from the queue numbered `xrc_srq`; writes its
    /// elements to the start of `sges`.
    fn take_shared_receive(&mut self, xrc_srq: Option<u32>, sges: &mut [Sge]) -> SharedReceive;

    /// True if packets may name the XRC shared receive queue `number`: it is there, and of the target's domain.
    fn has_xrc_srq(&mut self, _number: u32) -> bool {
        true
    }

    /// The P_Key at an index of the port's table.
    fn pkey(&self, _index: u16) -> PKey {
        PKey(0xffff)
    }
}

/// Whether two partition keys may talk: same base, and at least one full member (IBA 10.9.3).
pub const fn pkeys_match(a: PKey, b: PKey) -> bool {
    const FULL: u16 = 0x8000;
    const BASE: u16 = 0x7fff;
    a.0 & BASE == b.0 & BASE && a.0 & BASE != 0 && (a.0 | b.0) & FULL != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_members_do_not_match_each_other() {
        assert!(pkeys_match(PKey(0xffff), PKey(0x7fff)));
        assert!(pkeys_match(PKey(0x8001), PKey(0x8001)));
        assert!(!pkeys_match(PKey(0x0001), PKey(0x0001)));
        assert!(!pkeys_match(PKey(0x8001), PKey(0x8002)));
        assert!(
            !pkeys_match(PKey(0x8000), PKey(0x8000)),
            "base 0 is the invalid key"
        );
    }
}
