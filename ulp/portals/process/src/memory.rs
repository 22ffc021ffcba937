//! The memory of the program: what is asked of whoever can reach it.
//!
//! Owns: the trait. Must not know: which object a piece belongs to.

use crate::connections::Peer;
use ferriband_portals_proto::Piece;
use ferriband_putget_proto::Status;

/// Whose requests a registration is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// This process's.
    Own,
    /// A peer's, in one operation.
    Peer(Peer),
    /// Those of all who are lent an entry, for as long as it is lent.
    Lent,
}

/// A program's memory.
///
/// Its methods are called with pieces of memory descriptors that operations under way use, and with
/// pieces that an interface has granted and not yet been told to be delivered; no others.
pub trait Memory {
    /// Keeps memory reachable by RDMA for as long as it lives.
    type Registration;
    /// Memory in one piece that takes the place of memory in many.
    type Staged;

    /// Copies the bytes of pieces out until `to` is full.
    fn gather(&self, pieces: &[Piece], to: &mut [u8]);

    /// Copies bytes into pieces, which have at least as many.
    fn scatter(&mut self, data: &[u8], pieces: &[Piece]);

    /// Lets RDMA read a piece, or also write it; the key that peers need for it.
    ///
    /// # Errors
    /// It cannot be reached, or is not there.
    fn register(
        &mut self,
        piece: &Piece,
        writes: bool,
        by: By,
    ) -> Result<(Self::Registration, u32), Status>;

    /// As [`Memory::register`] for requests of this process, of a piece that may fault: not all of
    /// it need be there, and an adapter that finds a hole ends the connection. A memory without
    /// holes has no use for it.
    ///
    /// # Errors
    /// It cannot be reached, or is not there.
    fn register_if_there(
        &mut self,
        piece: &Piece,
        writes: bool,
    ) -> Result<(Self::Registration, u32), Status> {
        self.register(piece, writes, By::Own)
    }

    /// Whether all bytes of pieces can be read, or also written. Asked of what may fault, before it
    /// is copied. A memory without holes has them all.
    fn is_there(&self, _pieces: &[Piece], _writes: bool) -> bool {
        true
    }

    /// Whether a program could have memory there at all. Asked of all pieces before they are used,
    /// so it costs next to nothing.
    fn may_be_there(&self, _pieces: &[Piece]) -> bool {
        true
    }

    /// Memory as long as these pieces together, and where it lies. With `filled`, it has their
    /// bytes.
    fn stage(&mut self, pieces: &[Piece], filled: bool) -> (Self::Staged, Piece);

    /// Copies the first bytes of staged memory into the pieces that it stands for.
    fn unstage(&mut self, staged: &Self::Staged, length_bytes: u64, pieces: &[Piece]);

    /// Writes `after` to an aligned 64-bit value if it is `before`, in one step that nobody comes
    /// between, peers' adapters neither. Whether it was. Values are in the host's order.
    fn replace(&mut self, address: u64, before: u64, after: u64) -> bool;

    /// Whether atomic operations of adapters and [`Memory::replace`] do not come between each
    /// other.
    fn has_atomics(&self) -> bool {
        false
    }
}
