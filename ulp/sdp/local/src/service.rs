//! What a side's service thread does for a connection.
//!
//! Must not know: how it hears of what it is told.

use crate::memory::Kernel;
use crate::reader::Reader;
use crate::writer::Writer;
use ferriband_sdp_proto::change::Phase;

/// What becomes of the last close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Not yet: again after the next news, or when this side's waiters for bytes are told.
    Wait,
    /// The kernel closes the socket.
    Close,
    /// The kernel is to reset the connection, as TCP does if something is unread: SO_LINGER with no
    /// time is set, then the kernel closes the socket.
    Reset,
}

/// A side of a connection, as its service thread sees it.
pub struct Service<'a, K: Kernel>(pub &'a K);

impl<K: Kernel> Service<'_, K> {
    /// The kernel has news: of `ended` ([`crate::PEER_ENDED`], [`crate::CONNECTION_OVER`]), of
    /// bytes or of room. This side's waiters look again.
    ///
    /// Once the peer has ended its stream, what this side sends goes by TCP: the kernel tells of
    /// the peer's death only who sends by it.
    pub fn look(&self, ended: u64) {
        Reader(self.0).heard(ended);
        self.back(ended != 0);
    }

    /// The peer has rung, or this side itself ([`Kernel::ring`], [`Kernel::ring_own`]). Whoever has
    /// rung has taken the waiters' wants away: the caller tells those whom no bell has told. Wants
    /// of meanwhile stay, or a waiter and this would wake each other without end.
    pub fn rung(&self) {
        self.back(false);
    }

    fn back(&self, ended: bool) {
        let writer = Writer(self.0);
        let phase = writer.phase();
        let back = ended || writer.is_recalled() || phase == Phase::Back;
        if back && phase != Phase::Done {
            writer.go_back();
        }
    }

    /// Before the last close of the socket. When the kernel has closed it, the peer finds what it
    /// has not read, and is reset if this side has left something unread, as by TCP.
    ///
    /// A peer that has not begun to go back is neither asked to nor waited for. One that has may
    /// have copied what was read here: that is passed over, or the kernel would take it for unread.
    pub fn may_close(&self) -> Closing {
        let reader = Reader(self.0);
        if !reader.is_past_copy() {
            return Closing::Wait;
        }
        // what is still to be copied by a peer that goes back, the kernel will not have read
        let resets = reader.leaves_unread();
        match Writer(self.0).end() {
            false => Closing::Wait,
            true if resets => Closing::Reset,
            true => Closing::Close,
        }
    }
}
