//! What a side receives: from the kernel alone, from both, and from the ring.

use crate::lock::Held;
use crate::memory::{Errno, Kernel, Own, Shared, Way, Word};
use crate::wake::{self, told};
use ferriband_sdp_proto::change::{Broken, Marks, Next, Phase, Place};

const IN: Way = Way::In;

/// What became of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// So many bytes. 0: the stream's end.
    Bytes(u64),
    /// The kernel receives, as if nobody else did; [`Reader::leave_kernel`] follows.
    ByKernel,
    /// There is nothing.
    Nothing,
    /// The kernel's answer.
    Refused(Errno),
    /// The peer has broken the rules.
    Broken(Broken),
}

/// The receiving half of a side of a connection.
pub struct Reader<'a, K: Kernel>(pub &'a K);

impl<K: Kernel> Reader<'_, K> {
    /// Receives up to `bytes`, to `to` of `sink`. Never waits, but for another call of this side
    /// that does not either.
    pub fn receive(&self, sink: &mut K::Sink, to: u64, bytes: u64) -> Received {
        if self.own(Own::ReceiveGate) == 0 {
            self.0.add(Word::Own(Own::Receives), 1);
            if self.own(Own::ReceiveGate) == 0 {
                return Received::ByKernel;
            }
            self.leave_kernel();
        }
        let held = self.lock();
        let (received, room) = self.receive_locked(sink, to, bytes);
        drop(held);
        if room {
            told(self.0, IN, false);
        }
        received
    }

    /// After the kernel has received for [`Received::ByKernel`], or has refused. Whoever waits in
    /// the kernel for this connection's bytes, in poll(2) say, enters and leaves in the same way.
    pub fn leave_kernel(&self) {
        self.0.add(Word::Own(Own::Receives), u64::MAX);
    }

    /// Tells W that it may change over: from then on every call of this side looks at both. False
    /// while a call waits in the kernel.
    pub fn offer(&self) -> bool {
        let _held = self.lock();
        if self.phase() != Phase::Tcp {
            return true;
        }
        let gate = Word::Own(Own::ReceiveGate);
        self.0.store(gate, 1);
        self.0.fence();
        if self.own(Own::Receives) != 0 {
            self.0.store(gate, 0);
            return false;
        }
        self.0.store(Word::Own(Own::FromTcp), self.0.taken());
        let (tcp, ready) = (Phase::Tcp as u64, Phase::Ready as u64);
        self.0.exchange(shared(Shared::Phase), tcp, ready).is_ok()
    }

    /// Takes the offer back, or asks W to go back to TCP. True once the direction is TCP's, and the
    /// next byte is in the kernel: nothing of this library is needed any more to read on. False
    /// while W has to act; it wakes this side's sleepers when it has.
    ///
    /// # Errors
    /// What W has written cannot be, or the kernel's.
    pub fn give_up(&self) -> Result<bool, Received> {
        let _held = self.lock();
        let (tcp, ready) = (Phase::Tcp as u64, Phase::Ready as u64);
        if self.0.exchange(shared(Shared::Phase), ready, tcp).is_ok() {
            self.open_gate();
            return Ok(true);
        }
        match self.phase() {
            Phase::Tcp => return Ok(true),
            Phase::Done => {}
            _ => {
                self.0.store(shared(Shared::Recall), 1);
                self.0.fence();
                return Ok(false);
            }
        }
        let (marks, size) = (self.marks(), self.0.ring_bytes(IN));
        while let Some(bytes) = self
            .place()
            .pass_over_now(&marks, size)
            .map_err(Received::Broken)?
        {
            if bytes == 0 {
                self.open_gate();
                return Ok(true);
            }
            let passed = self.0.pass_over(bytes).map_err(Received::Refused)?;
            if passed == 0 {
                break;
            }
            self.count(Own::FromTcp, passed);
        }
        Ok(false)
    }

    /// Says that a thread sleeps until there is something ([`crate::FUTEX`]), or that waiters are to
    /// be told ([`crate::BOX`]). The caller receives once more before it sleeps: what comes from then
    /// on wakes.
    pub fn want_bytes(&self, how: u64) {
        self.0.set(wake::want(IN, true), how);
        self.0.fence();
    }

    /// Sleeps until there is something, after [`Reader::want_bytes`].
    pub fn sleep(&self) {
        self.0.sleep(wake::want(IN, true), wake::FUTEX, false);
    }

    /// Whether a receive would find something beside what the kernel's socket has: bytes, the
    /// stream's end, or what is wrong.
    pub fn has_bytes(&self) -> bool {
        let head = self.0.load(shared(Shared::Head));
        let phase = self.phase();
        match self
            .place()
            .next(phase, &self.marks(), head, self.0.ring_bytes(IN))
        {
            Ok(Next::Empty) => self.own(Own::Ended) != 0,
            Ok(Next::Tcp { .. }) => phase < Phase::Sdp && self.own(Own::Ended) != 0,
            Ok(Next::Sdp { .. } | Next::PassOver { .. }) | Err(_) => true,
        }
    }

    /// The service thread's: the kernel has told of `ended` ([`crate::PEER_ENDED`],
    /// [`crate::CONNECTION_OVER`]), or of bytes of a direction that is not SDP's yet. Sleepers look
    /// again.
    pub fn heard(&self, ended: u64) {
        self.0.set(Word::Own(Own::Ended), ended);
        wake::rouse(self.0);
    }

    /// What the direction goes by.
    pub fn phase(&self) -> Phase {
        let word = self.0.load(shared(Shared::Phase));
        let phase = u32::try_from(word).ok().and_then(Phase::from_word);
        phase.unwrap_or(Phase::Done)
    }

    fn own(&self, word: Own) -> u64 {
        self.0.load(Word::Own(word))
    }

    /// Counts on what was taken.
    fn count(&self, word: Own, bytes: u64) {
        let word = Word::Own(word);
        self.0.store(word, self.0.load(word) + bytes);
    }

    /// From now on calls receive by the kernel alone; those that sleep, too.
    fn open_gate(&self) {
        self.0.store(Word::Own(Own::ReceiveGate), 0);
        wake::rouse(self.0);
    }

    fn place(&self) -> Place {
        Place {
            from_tcp: self.own(Own::FromTcp),
            from_sdp: self.own(Own::FromSdp),
        }
    }

    fn marks(&self) -> Marks {
        Marks {
            offset: self.0.load(shared(Shared::Offset)),
            end: self.0.load(shared(Shared::End)),
            copy_from: self.0.load(shared(Shared::CopyFrom)),
        }
    }

    /// The lock of what this side receives. What a call had taken that died with it is W's again.
    fn lock(&self) -> Held<'_, K> {
        let held = Held::take(self.0, Own::ReceiveLock);
        if held.inherited {
            self.0.store(shared(Shared::Tail), self.own(Own::FromSdp));
        }
        held
    }

    /// Gives what was received, and whether the ring has more room.
    fn receive_locked(&self, sink: &mut K::Sink, to: u64, bytes: u64) -> (Received, bool) {
        loop {
            // the phase first: what it says of the marks and the head was written before it
            let phase = self.phase();
            let head = self.0.load(shared(Shared::Head));
            let size = self.0.ring_bytes(IN);
            let next = match self.place().next(phase, &self.marks(), head, size) {
                Ok(next) => next,
                Err(broken) => return (Received::Broken(broken), false),
            };
            match next {
                Next::Tcp { most } => {
                    if phase == Phase::Done && most.is_none() {
                        self.open_gate();
                    }
                    return (
                        self.by_tcp(sink, to, bytes.min(most.unwrap_or(bytes)), phase),
                        false,
                    );
                }
                Next::Sdp { bytes: there } => {
                    let bytes = bytes.min(there);
                    self.read(sink, to, bytes);
                    return (Received::Bytes(bytes), true);
                }
                Next::Empty if self.own(Own::Ended) == 0 => return (Received::Nothing, false),
                Next::Empty if self.phase() != phase => {}
                // W has died in the middle of SDP: the kernel knows what is to be told
                Next::Empty => match self.0.receive(sink, to, bytes) {
                    Ok(0) => return (Received::Bytes(0), false),
                    Ok(_) => {
                        let offset = self.marks().offset;
                        let taken = self.own(Own::FromTcp).saturating_add(1);
                        return (Received::Broken(Broken::Offset { offset, taken }), false);
                    }
                    Err(error) => return (refused(error), false),
                },
                Next::PassOver { bytes } => match self.0.pass_over(bytes) {
                    Ok(0) => return (Received::Bytes(0), false),
                    Ok(passed) => self.count(Own::FromTcp, passed),
                    Err(error) => return (refused(error), false),
                },
            }
        }
    }

    fn by_tcp(&self, sink: &mut K::Sink, to: u64, most: u64, phase: Phase) -> Received {
        match self.0.receive(sink, to, most) {
            Ok(0) if phase == Phase::Ready && self.phase() > phase => Received::Nothing,
            Ok(bytes) => {
                self.count(Own::FromTcp, bytes);
                Received::Bytes(bytes)
            }
            Err(error) => refused(error),
        }
    }

    /// Copies out of the ring, and gives the room back.
    fn read(&self, sink: &mut K::Sink, to: u64, bytes: u64) {
        let size = self.0.ring_bytes(IN);
        let tail = self.own(Own::FromSdp);
        // written before the head that was seen
        let base = self.0.load(shared(Shared::Base));
        let at = tail.wrapping_sub(base) % size;
        let first = bytes.min(size - at);
        self.0.take(at, sink, to, first);
        if bytes > first {
            self.0.take(0, sink, to + first, bytes - first);
        }
        self.0.store(Word::Own(Own::FromSdp), tail + bytes);
        self.0.store(shared(Shared::Tail), tail + bytes);
    }
}

const EAGAIN: i32 = 11;

fn refused(error: Errno) -> Received {
    match error {
        Errno(EAGAIN) => Received::Nothing,
        error => Received::Refused(error),
    }
}

fn shared(word: Shared) -> Word {
    Word::Shared(IN, word)
}
