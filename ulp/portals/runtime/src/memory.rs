//! The program's memory: copies between it and messages, and what RDMA needs to reach it.
//!
//! Owns: the copies and the registrations. Must not know: which object a piece belongs to.
//!
//! The program has promised, by binding a descriptor or appending an entry, that the memory stays
//! and that this library may read it, and write it where the object says so.

use crate::presence;
use ferriband_ibv::{Access, DeviceLimits, Pd};
use ferriband_portals_process::{By, Memory, Peer};
use ferriband_portals_proto::Piece;
use ferriband_putget_proto::Status;
use ferriband_registration::{Purpose, Reach, Reachable, Refusal, Use, Way};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A descriptor of so many bytes, and more, is over all memory: more than any machine has.
const ALL_MEMORY: u64 = 1 << 46;

/// The memory of this process's program.
#[derive(Default)]
pub(crate) struct Program {
    reach: Option<Reach>,
    /// Peers of the same address and, by their own word, user, who may have keys of all memory.
    neighbors: BTreeSet<Peer>,
    /// Atomic operations of the adapter are atomic with those of the processor.
    atomics: bool,
}

impl Program {
    /// Lets memory be reached by RDMA.
    ///
    /// # Errors
    /// What the kernel answers where a way is wanted that needs memory to be watched.
    pub fn reach_by(&mut self, pd: &Arc<Pd>, limits: &DeviceLimits, way: Way) -> io::Result<()> {
        self.atomics = limits.atomic_with_processor;
        self.reach = Some(Reach::new(pd, limits, way)?);
        Ok(())
    }

    /// Says whether a peer is of this host and user.
    pub fn identified(&mut self, peer: Peer, is_neighbor: bool) {
        match is_neighbor {
            true => self.neighbors.insert(peer),
            false => self.neighbors.remove(&peer),
        };
    }

    /// Whether all of a descriptor's memory is there, to be read and written. One that is over all
    /// memory is taken as if it were.
    pub fn holds(&mut self, pieces: &[Piece]) -> bool {
        let Some(reach) = &mut self.reach else {
            return true;
        };
        pieces.iter().all(|piece| {
            let Piece { address, length } = *piece;
            length >= ALL_MEMORY || reach.allows(address, length, Use::Write)
        })
    }
}

/// A registration of a piece, and its key.
fn registered(found: Result<Reachable, Refusal>) -> Result<(Reachable, u32), Status> {
    let reachable = found.map_err(|_| Status::Fault)?;
    let key = reachable.rkey();
    Ok((reachable, key))
}

impl Memory for Program {
    type Registration = Reachable;
    type Staged = Vec<u8>;

    fn gather(&self, pieces: &[Piece], to: &mut [u8]) {
        // SAFETY: pieces of an operation under way, or granted, as the trait says.
        unsafe { gather(pieces, to) };
    }

    fn scatter(&mut self, data: &[u8], pieces: &[Piece]) {
        // SAFETY: pieces of an operation under way, or granted, as the trait says.
        unsafe { scatter(data, pieces) };
    }

    fn register(
        &mut self,
        piece: &Piece,
        writes: bool,
        by: By,
    ) -> Result<(Reachable, u32), Status> {
        let reach = self.reach.as_mut().ok_or(Status::Fault)?;
        let length = usize::try_from(piece.length).map_err(|_| Status::Fault)?;
        let access = match writes {
            true => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            false => Access::REMOTE_READ,
        };
        let purpose = match by {
            By::Own => Purpose::Own,
            By::Peer(peer) if self.neighbors.contains(&peer) => Purpose::Neighbor,
            By::Peer(_) => Purpose::Stranger,
            By::Lent => {
                let mut access = access | Access::REMOTE_READ;
                access.set(Access::REMOTE_ATOMIC, writes);
                return registered(reach.lasting(piece.address, length, access));
            }
        };
        registered(reach.range(piece.address, length, access, purpose))
    }

    fn register_if_there(
        &mut self,
        piece: &Piece,
        writes: bool,
    ) -> Result<(Reachable, u32), Status> {
        let reach = self.reach.as_ref().ok_or(Status::Fault)?;
        let length = usize::try_from(piece.length).map_err(|_| Status::Fault)?;
        let access = match writes {
            true => Access::LOCAL_WRITE,
            false => Access::empty(),
        };
        registered(reach.pinned(piece.address, length, access))
    }

    fn is_there(&self, pieces: &[Piece], writes: bool) -> bool {
        presence::is_there(pieces, writes)
    }

    fn may_be_there(&self, pieces: &[Piece]) -> bool {
        presence::may_be_there(pieces)
    }

    fn stage(&mut self, pieces: &[Piece], filled: bool) -> (Vec<u8>, Piece) {
        let length: u64 = pieces.iter().map(|piece| piece.length).sum();
        let mut staged = vec![0; length as usize];
        if filled {
            // SAFETY: pieces of an operation under way, or granted, as the trait says.
            unsafe { gather(pieces, &mut staged) };
        }
        let address = staged.as_mut_ptr().expose_provenance() as u64;
        (staged, Piece { address, length })
    }

    fn unstage(&mut self, staged: &Vec<u8>, length_bytes: u64, pieces: &[Piece]) {
        let first = &staged[..staged.len().min(length_bytes as usize)];
        // SAFETY: pieces of an operation under way, or granted, as the trait says.
        unsafe { scatter(first, pieces) };
    }

    fn replace(&mut self, address: u64, before: u64, after: u64) -> bool {
        let at: *mut u64 = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: an aligned value of a piece that was granted, as the trait says; all that others
        // do to it meanwhile are accesses of their own to the whole value.
        let word = unsafe { AtomicU64::from_ptr(at) };
        word.compare_exchange(before, after, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    fn has_atomics(&self) -> bool {
        self.atomics
    }
}

/// Copies the bytes of pieces out until `to` is full.
///
/// # Safety
/// The pieces are memory of the program's that an operation under way may read.
unsafe fn gather(pieces: &[Piece], to: &mut [u8]) {
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
unsafe fn scatter(data: &[u8], pieces: &[Piece]) {
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
