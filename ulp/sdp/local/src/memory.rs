//! What the machines touch: words, bytes of rings, the kernel.

/// A direction, seen from one side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// This side writes.
    Out,
    /// This side reads.
    In,
}

/// A word of a direction in the slot. The writing side W writes its own, R the others, and both the
/// phase, by compare and exchange. Whoever wakes takes a want away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shared {
    /// The [`ferriband_sdp_proto::change::Phase`].
    Phase,
    /// W: bytes written to the ring.
    Head,
    /// W: which of them lies at the ring's beginning.
    Base,
    /// W: [`ferriband_sdp_proto::change::Marks::offset`].
    Offset,
    /// W: [`ferriband_sdp_proto::change::Marks::end`].
    End,
    /// W: [`ferriband_sdp_proto::change::Marks::copy_from`].
    CopyFrom,
    /// W: who waits for room, [`crate::FUTEX`] and [`crate::BOX`]. A futex.
    WantRoom,
    /// R: bytes taken from the ring.
    Tail,
    /// R: who waits for bytes. A futex.
    WantBytes,
    /// R: not 0 if W is to go back to TCP.
    Recall,
    /// W: not 0 once its program has ended the stream (shutdown(2), the last close). An end that
    /// the kernel tells without this is that of W's processes.
    EndedByProgram,
    /// W: when it last wrote to the ring while that was empty ([`Kernel::time`]).
    Filled,
    /// W: when it had last given the kernel something by then ([`Kernel::given`]).
    Given,
}

/// A word of a side's record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Own {
    /// Whose call is writing. A futex.
    SendLock,
    /// Whose call is reading. A futex.
    ReceiveLock,
    /// Calls inside the kernel that send.
    Sends,
    /// Not 0: no call may send by the kernel alone.
    SendGate,
    /// Calls inside the kernel that receive, or wait for it.
    Receives,
    /// Not 0: no call may receive by the kernel alone. A second bit says that others receive from
    /// the kernel, whom this side does not see ([`crate::Reader::hand_on`]).
    ReceiveGate,
    /// What [`Shared::Head`] is to be.
    Head,
    /// What [`Shared::Base`] is.
    Base,
    /// [`ferriband_sdp_proto::change::Place::from_tcp`].
    FromTcp,
    /// [`ferriband_sdp_proto::change::Place::from_sdp`], what [`Shared::Tail`] is to be.
    FromSdp,
    /// What the kernel has told: [`PEER_ENDED`], [`CONNECTION_OVER`]; and that this
    /// side's program has ended what it receives.
    Ended,
    /// [`Shared::Tail`] when the ring was found full, and 1 more; 0 before.
    FullTail,
    /// When that was first seen.
    FullSince,
    /// Receives that found nothing since the direction was offered, while TCP carried it.
    InVain,
    /// Offers that are still left out.
    Refrains,
    /// An error of the kernel's, by its number, that no call of the program's has had, or
    /// [`TOLD`].
    Error,
}

/// The peer's kernel has ended its stream (POLLRDHUP).
pub const PEER_ENDED: u64 = 1;
/// Nothing can be sent any more (POLLHUP, POLLERR).
pub const CONNECTION_OVER: u64 = 2;
/// This side's program has ended what it receives (SHUT_RD): an end that the kernel tells may be
/// its own.
pub(crate) const SHUT: u64 = 4;

/// The program has had the connection's error.
pub(crate) const TOLD: u64 = 1 << 32;

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Of the slot.
    Shared(Way, Shared),
    /// Of this side's record.
    Own(Own),
}

/// Words and rings. Loads acquire and stores release; what swaps, exchanges, adds or sets is
/// sequentially consistent, and fences as well.
pub trait Memory {
    /// Where bytes of the program come from.
    type Source: ?Sized;
    /// Where bytes for the program go.
    type Sink: ?Sized;

    /// Reads a word.
    fn load(&self, word: Word) -> u64;
    /// Writes a word.
    fn store(&self, word: Word, value: u64);
    /// Writes a word and gives what it was.
    fn swap(&self, word: Word, value: u64) -> u64;
    /// Writes `to` if the word is `from`; else gives what it is.
    ///
    /// # Errors
    /// The word's value.
    fn exchange(&self, word: Word, from: u64, to: u64) -> Result<(), u64>;
    /// Adds, modulo 2^64, and gives what the word was.
    fn add(&self, word: Word, by: u64) -> u64;
    /// Sets bits, and gives what the word was.
    fn set(&self, word: Word, bits: u64) -> u64;
    /// No load behind it is made before a store ahead of it is seen by all.
    fn fence(&self);
    /// Bytes that a ring holds, a power of two.
    fn ring_bytes(&self, way: Way) -> u64;
    /// Copies into the ring of what this side sends, from byte `at` of it; does not pass its end.
    fn put(&self, at: u64, source: &Self::Source, from: u64, bytes: u64);
    /// Copies out of the ring of what this side receives; does not pass its end.
    fn take(&self, at: u64, sink: &mut Self::Sink, to: u64, bytes: u64);
}

/// An error of the kernel's, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// The kernel's TCP socket of the connection, and sleeping and waking. No call of these waits, but
/// [`Kernel::sleep`].
pub trait Kernel: Memory {
    /// Bytes that the kernel was given to send since the connection was made.
    fn sent(&self) -> u64;
    /// Bytes that were taken from the kernel since then, exactly, whatever comes meanwhile.
    fn taken(&self) -> u64;
    /// Bytes sent that the peer's kernel has not acknowledged, and what the socket holds at most.
    fn send_queue(&self) -> (u64, u64);
    /// Sends what lies in the ring of what this side sends, from byte `at` of it, and on at its
    /// beginning if it passes its end: one call of the kernel, since only the first is sure to fit.
    ///
    /// # Errors
    /// As send(2).
    fn send_from_ring(&self, at: u64, bytes: u64) -> Result<u64, Errno>;
    /// Receives at most so many bytes. 0 at the stream's end.
    ///
    /// # Errors
    /// As recv(2).
    fn receive(&self, sink: &mut Self::Sink, to: u64, most: u64) -> Result<u64, Errno>;
    /// As [`Kernel::receive`], and the bytes stay.
    ///
    /// # Errors
    /// As recv(2).
    fn peek(&self, sink: &mut Self::Sink, to: u64, most: u64) -> Result<u64, Errno>;
    /// Takes and drops at most so many bytes. 0 at the stream's end.
    ///
    /// # Errors
    /// As recv(2).
    fn pass_over(&self, most: u64) -> Result<u64, Errno>;
    /// Sends what is to stand in TCP before a copy that begins at position `from` of SDP's part, of
    /// which `sent` bytes were sent before; gives its length once all of it is. Only a connection
    /// between hosts has such bytes.
    ///
    /// # Errors
    /// As send(2).
    fn send_preface(&self, from: u64, sent: u64) -> Result<u64, Errno> {
        let _ = (from, sent);
        Ok(0)
    }
    /// The time, by a clock that all processes of a host read alike.
    fn time(&self) -> u64;
    /// When this side's process last gave the kernel something of any of its streams; 0: never.
    fn given(&self) -> u64;
    /// Takes the error that the kernel's socket has, as SO_ERROR does.
    fn take_error(&self) -> Option<Errno>;
    /// This side has offered to look at both. Only where the peer cannot see it, it is told.
    fn offered(&self) {}
    /// A number for the calling thread, not 0, below 2^31 in its lower half, that no other thread
    /// of this side has.
    fn me(&self) -> u64;
    /// Whether that thread's process lives.
    fn lives(&self, thread: u64) -> bool;
    /// Sleeps while the word's lower half is `value`'s. False if that lasted for some milliseconds
    /// and `bounded` is set.
    fn sleep(&self, word: Word, value: u64, bounded: bool) -> bool;
    /// Wakes who sleeps on the word.
    fn wake(&self, word: Word);
    /// Tells the peer's waiters of this connection (its epoll instances, its service thread) that
    /// there are bytes or room.
    fn ring(&self, way: Way);
    /// Tells the peer's service thread, whoever waits there, that this side wants a direction back
    /// in TCP: a program that computes looks at nothing.
    fn recall(&self);
    /// Tells this side's own waiters of this connection (its epoll instances) to look again; by its
    /// service thread, which hears of it as of a peer's ring.
    fn ring_own(&self);
}
