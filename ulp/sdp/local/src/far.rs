//! A side whose peer is on another host: what its service thread does to the slot in the peer's
//! place.
//!
//! The slot is this side's alone. Its program reads and writes it as any other; the thread is W of
//! what the program receives, and R of what it sends, and hears from its like at the other end what
//! the real W and R have done. Must not know: how the two threads speak.
//!
//! Where W has gone back is told by TCP itself, in bytes that stand before the copy
//! ([`Kernel::send_preface`]). So R's thread decides under R's lock: no call of the program takes
//! these bytes for the stream's.

use crate::error;
use crate::memory::{CONNECTION_OVER, Errno, Kernel, Own, Shared, Way, Word};
use crate::reader::Reader;
use crate::writer::Writer;
use ferriband_sdp_proto::change::Phase;

/// An offset that is not known so far: R goes on by TCP, and looks at both.
pub const UNKNOWN: u64 = u64::MAX;

/// What becomes of W's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// The program takes no byte of TCP beyond.
    Held,
    /// An end was told already: TCP carries what is left, and W is to go back.
    Late,
    /// The program has taken more, or has made no offer: the peer is wrong.
    Wrong,
}

/// A side, as the thread sees it that stands for its peer.
pub struct Far<'a, K: Kernel>(pub &'a K);

impl<K: Kernel> Far<'_, K> {
    /// Takes the program's offer to look at both, which it cannot take back from then on. True if
    /// there was one.
    pub fn take_offer(&self) -> bool {
        self.0.store(received(Shared::Offset), UNKNOWN);
        self.change(Way::In, Phase::Ready, Phase::Sdp)
    }

    /// W has changed over behind `offset` bytes of TCP: the program takes none beyond.
    pub fn hold(&self, offset: u64) -> Hold {
        let reader = Reader(self.0);
        let Some(_held) = reader.lock() else {
            return Hold::Wrong;
        };
        // a program that was told of TCP's end finds nothing else behind it
        if self.own(Own::Ended) != 0 {
            return Hold::Late;
        }
        let is_possible = self.is_by(Way::In, Phase::Sdp)
            && self.load(Shared::Offset) == UNKNOWN
            && self.own(Own::FromTcp) <= offset;
        if !is_possible {
            return Hold::Wrong;
        }
        self.0.store(received(Shared::Offset), offset);
        Hold::Held
    }

    /// W has gone back, and `preface` bytes that say so come next in TCP: they are taken. The copy
    /// behind them begins at position `copy_from`. False while the program has not read TCP up to
    /// there; None if that cannot be.
    pub fn gone_back(&self, preface: u64, copy_from: u64) -> Option<bool> {
        let reader = Reader(self.0);
        let held = reader.lock()?;
        let offset = self.load(Shared::Offset);
        if self.own(Own::FromTcp) != offset {
            return Some(false);
        }
        if copy_from > self.own(Own::FromSdp) || self.0.pass_over(preface) != Ok(preface) {
            return None;
        }
        let head = self.load(Shared::Head);
        self.end(offset + preface, head, copy_from);
        drop(held);
        Reader(self.0).heard(0);
        Some(true)
    }

    /// TCP carries the direction as if it had never changed: nothing came by the tunnel.
    pub fn never_mind(&self) {
        let reader = Reader(self.0);
        let Some(held) = reader.lock() else {
            return;
        };
        if self.is_by(Way::In, Phase::Sdp) {
            self.end(self.own(Own::FromTcp), 0, 0);
        }
        drop(held);
        Reader(self.0).heard(0);
    }

    /// The stream breaks off behind what the ring holds: the program is told this error there.
    pub fn fail(&self, error: Errno) {
        error::keep(self.0, error);
        Reader(self.0).heard(CONNECTION_OVER);
    }

    /// The peer's program looks at both: this side's next send may change over.
    pub fn may_change(&self) {
        self.change(Way::Out, Phase::Tcp, Phase::Ready);
    }

    /// The peer takes no byte of TCP beyond the offset. `put` writes down what tells it where the
    /// copy begins. False if this side has gone back already, without that.
    pub fn is_held(&self, put: impl FnOnce()) -> bool {
        let writer = Writer(self.0);
        let Some(_held) = writer.lock() else {
            return false;
        };
        let is_by_tunnel = self.is_by(Way::Out, Phase::Sdp);
        if is_by_tunnel {
            put();
        }
        is_by_tunnel
    }

    /// The peer's program has read up to `position`. False if that cannot be.
    pub fn freed(&self, position: u64) -> bool {
        let tail = Word::Shared(Way::Out, Shared::Tail);
        let is_possible = (self.0.load(tail)..=self.own(Own::Head)).contains(&position);
        if is_possible {
            self.0.store(tail, position);
            self.0.fence();
        }
        is_possible
    }

    /// `head` bytes lie in the ring of what this side receives.
    pub fn arrived(&self, head: u64) {
        self.0.store(received(Shared::Head), head);
        self.0.fence();
    }

    fn end(&self, offset: u64, end: u64, copy_from: u64) {
        let taken = Word::Own(Own::FromTcp);
        self.0.store(taken, offset);
        self.0.store(received(Shared::Offset), offset);
        self.0.store(received(Shared::End), end);
        self.0.store(received(Shared::CopyFrom), copy_from);
        self.0.store(received(Shared::Phase), Phase::Done as u64);
        self.0.fence();
    }

    fn change(&self, way: Way, from: Phase, to: Phase) -> bool {
        let phase = Word::Shared(way, Shared::Phase);
        self.0.exchange(phase, from as u64, to as u64).is_ok()
    }

    fn is_by(&self, way: Way, phase: Phase) -> bool {
        self.0.load(Word::Shared(way, Shared::Phase)) == phase as u64
    }

    fn load(&self, word: Shared) -> u64 {
        self.0.load(received(word))
    }

    fn own(&self, word: Own) -> u64 {
        self.0.load(Word::Own(word))
    }
}

fn received(word: Shared) -> Word {
    Word::Shared(Way::In, word)
}
