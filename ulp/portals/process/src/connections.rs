//! The connections of a process: what is asked of whoever makes them.
//!
//! Owns: the trait. Must not know: requests.

use crate::memory::Memory;
use crate::process::Process;
use ferriband_portals_proto::Process as Id;
use ferriband_putget_proto::{Direct, Lease, NotDirect, NotStarted, Start, Started};

/// A process that this one speaks to, by a number that its connections give it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

/// The connections of a process, beside the process.
pub trait Connections {
    /// The program's memory.
    type Memory: Memory;

    /// The process.
    fn process(&mut self) -> &mut Process<Self::Memory>;

    /// The number of a process. No connection is made.
    fn peer(&mut self, id: Id) -> Peer;

    /// Whether requests to a peer may be begun.
    fn is_joined(&self, peer: Peer) -> bool;

    /// Asks for a connection, unless there is one or one is under way. False if none can be asked
    /// for.
    fn join(&mut self, peer: Peer) -> bool;

    /// Bytes that go short to this peer in a put whose address has so many bytes, and bytes that
    /// come short in a get; None without a connection.
    fn rooms(&self, peer: Peer, address_bytes: usize) -> Option<(u64, u64)>;

    /// Begins a request.
    ///
    /// # Errors
    /// [`NotStarted::Full`] where there is no room or no connection yet, [`NotStarted::Lost`] where
    /// there is none.
    fn start(&mut self, peer: Peer, start: &Start<'_>) -> Result<Started, NotStarted>;

    /// Whether a peer has given leases.
    fn has_leases(&self, _peer: Peer) -> bool {
        false
    }

    /// Begins an operation by a lease.
    ///
    /// # Errors
    /// It was not begun.
    fn direct(&mut self, _peer: Peer, _direct: &Direct<'_>) -> Result<Started, NotDirect> {
        Err(NotDirect::ByMessage)
    }

    /// Gives a peer a lease; [`Process::counted`] and [`Process::returned`] follow. False if it was
    /// not given.
    fn lease(&mut self, _peer: Peer, _lease: &Lease<'_>) -> bool {
        false
    }

    /// Takes the lease of this token back from a peer, if it was not taken back before.
    fn revoke(&mut self, _peer: Peer, _token: u64) {}
}
