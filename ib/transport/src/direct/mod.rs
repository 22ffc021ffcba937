//! The direct wire: queue pairs of processes on one host, joined without packets (DESIGN section 2).
//!
//! Owns the layout of shared segments, the single-producer rings between an ordered pair of processes,
//! the in-flight marks, and the two halves of a queue pair on this wire: [`Sender`] and [`Receiver`]. It must
//! not know whose memory a segment is, how a peer is woken, or what time it is: all of that comes in through
//! [`Words`], [`Link`] and [`Host`]. Each call of [`Words`] is one step, so the simulator can interleave, stop and kill
//! between any two accesses to shared memory while it runs the very code that the adapter runs.
//!
//! A message's life: the sender executes WRITE, READ and (on mapped memory) atomics itself; everything else is a
//! record in the ring to the target's process. The target answers in place: the record's response word, then the
//! ring's head. The head is therefore a cumulative acknowledgement that costs no message of its own, and a
//! target can always answer, however full its own ring to the initiator is.

pub mod layout;
pub mod mark;
pub mod receiver;
pub mod ring;
pub mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{Handled, Receiver, RecvPostError, RecvQueue, RecvWqe, TargetEvent, TargetSink};
pub use ring::{
    Answered, Completer, Consumer, Kind, Producer, Record, RecordFlags, Response, TxShared,
    head_position,
};
pub use sender::{Advance, PostError, SendAttr, SendRequest, SendState, Sender};

use crate::types::{Access, Completion, Sge};

/// Words of one shared segment, by byte offset. Loads acquire, stores release. Each call is one step.
pub trait Words {
    /// Loads the word at byte offset `off` (multiple of 8).
    fn load(&self, off: usize) -> u64;
    /// Stores the word at byte offset `off`.
    fn store(&self, off: usize, value: u64);
    /// Swaps the word, sequentially consistent.
    fn swap(&self, off: usize, value: u64) -> u64;
    /// Sets bits, sequentially consistent; returns the previous word.
    fn fetch_or(&self, off: usize, bits: u64) -> u64;
    /// Keeps only `bits`, sequentially consistent; returns the previous word.
    fn fetch_and(&self, off: usize, bits: u64) -> u64;
    /// Compare and exchange, sequentially consistent. Ok holds the previous word.
    fn compare_exchange(&self, off: usize, old: u64, new: u64) -> Result<u64, u64>;
    /// Copies bytes in.
    fn copy_in(&self, off: usize, bytes: &[u8]);
    /// Copies bytes out.
    fn copy_out(&self, off: usize, bytes: &mut [u8]);
    /// Full fence: orders an earlier store before a later load.
    fn fence(&self);
}

/// Where remote bytes lie: as the peer's virtual address, and as a place in a file that this process may have mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteSpan {
    /// Virtual address in the peer.
    pub addr: u64,
    /// Mapping identifier of the peer's table, 0 for none.
    pub map_id: u32,
    /// Offset of `addr` in that mapping's file.
    pub map_offset: u64,
}

impl RemoteSpan {
    /// The span `by` bytes further on.
    pub fn advanced(self, by: u64) -> Self {
        RemoteSpan {
            addr: self.addr.wrapping_add(by),
            map_id: self.map_id,
            map_offset: self.map_offset.wrapping_add(by),
        }
    }
}

/// Why an access to a peer's memory failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer is gone (killed, exited, exec'ed).
    Gone,
    /// The peer's range is not mapped there (any more).
    RemoteUnmapped,
    /// Our own range is not mapped (any more).
    LocalUnmapped,
    /// The system forbids it: the target has to execute the access.
    Forbidden,
}

/// An atomic operation on 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Compare with the first, store the second if equal.
    CompareSwap(u64, u64),
    /// Add.
    FetchAdd(u64),
}

/// The channel to one peer process.
pub trait Link: Clone {
    /// Shared segments.
    type Seg: Words;
    /// Guard of the ring's producer.
    type Tx<'a>: core::ops::DerefMut<Target = Producer>
    where
        Self: 'a;
    /// The channel is established: tables and ring may be used.
    fn ready(&self) -> bool;
    /// The peer process is gone.
    fn dead(&self) -> bool;
    /// The peer's process slot.
    fn slot(&self) -> u32;
    /// The peer's process segment (tables).
    fn table(&self) -> &Self::Seg;
    /// The segment that holds both rings.
    fn pair(&self) -> &Self::Seg;
    /// Exclusive use of the ring towards the peer.
    fn tx(&self) -> Self::Tx<'_>;
    /// Rings the peer's doorbell: a record was published (the implementation checks whether anybody sleeps).
    fn ring_doorbell(&self);
    /// Whether remote memory may be reached without the peer's help, in general.
    fn reachable(&self) -> bool;
}

/// What the machine needs of the process that it runs in.
pub trait Host {
    /// Shared segments.
    type Seg: Words;
    /// Channels to peers.
    type Link: Link<Seg = Self::Seg>;

    /// This process's slot.
    fn slot(&self) -> u32;
    /// Bytes that one step of a long transfer moves at most.
    fn chunk_bytes(&self) -> u64;
    /// This process's own segment (tables and marks).
    fn own(&self) -> &Self::Seg;
    /// A mark of ours that no other thread uses until `release_mark`.
    fn claim_mark(&self) -> usize;
    /// Gives the mark back.
    fn release_mark(&self, mark: usize);
    /// Checks a local element against the key table; the process address of its first byte.
    fn local(&self, pd: u32, sge: &Sge, need: Access) -> Option<u64>;
    /// Application memory (process addresses) into a segment.
    fn gather(&self, seg: &Self::Seg, off: usize, from: &[Sge], skip: u64, len: u64);
    /// A segment into application memory, ascending, last byte last.
    fn scatter(&self, seg: &Self::Seg, off: usize, to: &[Sge], skip: u64, len: u64);
    /// Bytes into application memory, ascending, last byte last.
    fn put(&self, bytes: &[u8], to: &[Sge], skip: u64);
    /// Application memory into bytes.
    fn fetch(&self, from: &[Sge], skip: u64, bytes: &mut [u8]);
    /// Writes to a peer's memory, ascending, last byte last.
    fn remote_write(
        &self,
        link: &Self::Link,
        to: RemoteSpan,
        from: &[Sge],
        skip: u64,
        len: u64,
    ) -> Result<(), Fault>;
    /// Writes bytes of this process that are no registered memory (inline data) to a peer's memory, ascending, last byte
    /// last.
    #[inline]
    fn remote_put(&self, link: &Self::Link, to: RemoteSpan, bytes: &[u8]) -> Result<(), Fault> {
        let from = Sge {
            addr: bytes.as_ptr() as u64,
            length: bytes.len() as u32,
            lkey: 0,
        };
        self.remote_write(link, to, &[from], 0, bytes.len() as u64)
    }
    /// Reads from a peer's memory.
    fn remote_read(
        &self,
        link: &Self::Link,
        from: RemoteSpan,
        to: &[Sge],
        skip: u64,
        len: u64,
    ) -> Result<(), Fault>;
    /// An atomic on memory that we share with the peer; None where it is not mapped here.
    fn remote_atomic(&self, link: &Self::Link, at: RemoteSpan, op: AtomicOp) -> Option<u64>;
    /// An atomic on our own memory.
    fn local_atomic(&self, addr: u64, op: AtomicOp) -> u64;
    /// The entry of an XRC target queue pair, whose state belongs to no process; the protection domain in it is meaningless.
    fn extended_target(&self, qpn: u32) -> Option<layout::QpEntry> {
        let _ = qpn;
        None
    }
    /// Invalidates a remote key of ours on behalf of a peer's SEND with invalidate, or a local request
    /// (waits for marks). False if it is not a valid key of this protection domain that may be invalidated.
    fn invalidate(&self, pd: u32, qpn: u32, rkey: u32) -> bool;
    /// Binds a type 2 window on behalf of a send queue; false refuses it.
    fn bind(&self, pd: u32, qpn: u32, bind: &BindRequest) -> bool;
}

/// Where completions of a machine go.
pub trait Sink {
    /// A completion of the send queue.
    fn sent(&mut self, completion: Completion);
    /// The place that the last completion has in its queue, counted from the queue's beginning; [`TAKEN_AT_ONCE`] if the program
    /// has it already.
    fn place(&self) -> u64 {
        0
    }
    /// Completions that the program has taken: those of lower places.
    fn taken(&self) -> u64 {
        u64::MAX
    }
}

/// The place of a completion that the program took without its being queued.
pub const TAKEN_AT_ONCE: u64 = u64::MAX - 1;

impl<F: FnMut(Completion)> Sink for F {
    fn sent(&mut self, completion: Completion) {
        self(completion)
    }
}

/// A request to bind a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BindRequest {
    /// The window's slot in the key table.
    pub window: u32,
    /// The new remote key.
    pub rkey: u32,
    /// Local key of the region.
    pub lkey: u32,
    /// First byte, in the region's address space.
    pub addr: u64,
    /// Length in bytes; 0 unbinds.
    pub length: u64,
    /// Rights granted.
    pub access: Access,
}
