//! What a side receives: from the kernel alone, from both, and from the ring.

use crate::error::{self, EAGAIN};
use crate::lock::Held;
use crate::memory::{CONNECTION_OVER, Errno, Kernel, Own, SHUT, Shared, Way, Word};
use crate::wake;
use crate::writer::Writer;
use ferriband_sdp_proto::change::{Broken, Marks, Next, Phase, Place};

pub(crate) const IN: Way = Way::In;

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

/// When a ring was filled that was empty, as its writer says ([`Kernel::time`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// When that was.
    pub time: u64,
    /// When the writer's process had last given the kernel something before; 0: never.
    pub given: u64,
}

/// What a receive would find, as of one moment. Another thread's receive may be in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finds {
    /// What the kernel's socket has, if it has anything.
    ByKernel,
    /// Bytes, the stream's end, or what is wrong.
    Something,
    /// Nothing, whatever the kernel's socket has.
    Nothing,
    /// The kernel's socket has, or will have, a copy of what was read. A receive passes over it and
    /// finds what follows.
    Copy,
}

/// The receiving half of a side of a connection.
pub struct Reader<'a, K: Kernel>(pub &'a K);

impl<K: Kernel> Reader<'_, K> {
    /// Receives up to `bytes`, to `to` of `sink`. Never waits, but for another call of this side
    /// that does not either. A signal handler that has interrupted a receive of its own thread is
    /// refused with EAGAIN.
    pub fn receive(&self, sink: &mut K::Sink, to: u64, bytes: u64) -> Received {
        loop {
            if self.own(Own::ReceiveGate) == 0 {
                self.0.add(Word::Own(Own::Receives), 1);
                if self.own(Own::ReceiveGate) == 0 {
                    if !error::is_kept(self.0) {
                        return Received::ByKernel;
                    }
                    let received = match self.0.receive(sink, to, bytes) {
                        Ok(0) => self.end(false),
                        Ok(bytes) => Received::Bytes(bytes),
                        Err(error) => self.refused(error),
                    };
                    self.leave_kernel();
                    return received;
                }
                self.leave_kernel();
            }
            let Some(held) = self.lock() else {
                return BUSY;
            };
            // another call may have left SDP: what its ring holds is the kernel's then
            if self.own(Own::ReceiveGate) != 0 {
                let received = self.receive_locked(sink, to, bytes);
                drop(held);
                // also if there was nothing: who has read it may have died before it said so
                self.tell_room();
                return received;
            }
        }
    }

    /// As [`Reader::receive`], and the bytes stay. None once W goes back to TCP: what it leaves in
    /// the ring comes by TCP as well, so the caller gives the ring up ([`Reader::give_up`]).
    pub fn peek(&self, sink: &mut K::Sink, bytes: u64) -> Option<Received> {
        loop {
            if self.own(Own::ReceiveGate) == 0 {
                self.0.add(Word::Own(Own::Receives), 1);
                if self.own(Own::ReceiveGate) == 0 {
                    return Some(Received::ByKernel);
                }
                self.leave_kernel();
            }
            let Some(_held) = self.lock() else {
                return Some(BUSY);
            };
            if self.own(Own::ReceiveGate) != 0 {
                return self.peek_locked(sink, bytes);
            }
        }
    }

    /// The kernel receives, as after [`Received::ByKernel`], which a caller knows otherwise.
    pub fn enter_kernel(&self) {
        self.0.add(Word::Own(Own::Receives), 1);
    }

    fn peek_locked(&self, sink: &mut K::Sink, bytes: u64) -> Option<Received> {
        let mut is_over = false;
        loop {
            let phase = self.phase();
            if phase > Phase::Sdp || self.is_handed_on() && self.own(Own::Ended) == 0 {
                return None;
            }
            if self.is_handed_on()
                && let Some(received) = self.rejoin(self.0.peek(sink, 0, bytes))
            {
                return Some(received);
            }
            let head = self.0.load(shared(Shared::Head));
            let size = self.0.ring_bytes(IN);
            let by_tcp = match self.next(phase) {
                Err(broken) => return Some(Received::Broken(broken)),
                Ok(Next::Tcp { most }) => {
                    let bytes = bytes.min(most.unwrap_or(bytes));
                    match self.0.peek(sink, 0, bytes) {
                        // W has changed over before it ended
                        Ok(0) if phase < Phase::Sdp && self.phase() != phase => continue,
                        Ok(0) => return Some(self.end(false)),
                        Ok(peeked) if most != Some(peeked) => {
                            return Some(Received::Bytes(peeked));
                        }
                        Ok(peeked) => peeked,
                        Err(error) => return Some(self.refused(error)),
                    }
                }
                Ok(Next::Sdp { .. }) => 0,
                Ok(Next::PassOver { .. }) => return None,
                Ok(Next::Empty) if self.own(Own::Ended) == 0 => return Some(Received::Nothing),
                Ok(Next::Empty) if !is_over => {
                    is_over = true;
                    continue;
                }
                Ok(Next::Empty) => {
                    return Some(match self.0.peek(sink, 0, bytes) {
                        Ok(0) => self.end(self.has_left_unread()),
                        Ok(_) => self.beyond_offset(),
                        Err(error) => self.refused(error),
                    });
                }
            };
            // what TCP has of the rest, then the ring
            let there = head.wrapping_sub(self.own(Own::FromSdp)).min(size);
            let from_ring = there.min(bytes - by_tcp);
            self.copy(sink, by_tcp, from_ring);
            return Some(Received::Bytes(by_tcp + from_ring));
        }
    }

    /// After the kernel has received for [`Received::ByKernel`], or has refused. Whoever waits in
    /// the kernel for this connection's bytes, in poll(2) say, enters and leaves in the same way.
    pub fn leave_kernel(&self) {
        self.0.add(Word::Own(Own::Receives), u64::MAX);
    }

    /// Tells W that it may change over: from then on every call of this side looks at both. If W
    /// has let many receives go by, the offer was withdrawn, and some calls of this do nothing.
    /// False while a call waits in the kernel, or if this thread is in the middle of a receive.
    pub fn offer(&self) -> bool {
        let Some(_held) = self.lock() else {
            return false;
        };
        if self.phase() != Phase::Tcp {
            return true;
        }
        let refrains = self.own(Own::Refrains);
        if refrains > 0 {
            self.0.store(Word::Own(Own::Refrains), refrains - 1);
            return false;
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
        let offered = self.0.exchange(shared(Shared::Phase), tcp, ready).is_ok();
        match offered {
            true => self.0.offered(),
            false => self.0.store(gate, 0),
        }
        offered
    }

    /// Whether bytes of a living peer, of which the ring carried the last, are unread, here or in
    /// the copy of them that TCP has or will have.
    pub fn leaves_unread(&self) -> bool {
        match self.phase() {
            Phase::Tcp | Phase::Ready => false,
            Phase::Sdp => self.0.load(shared(Shared::Head)) != self.own(Own::FromSdp),
            Phase::Back => self.0.load(shared(Shared::End)) != self.own(Own::FromSdp),
            Phase::Done => {
                let marks = self.marks();
                let copied = marks.end.saturating_sub(marks.copy_from);
                copied > 0 && self.0.taken() < marks.offset.saturating_add(copied)
            }
        }
    }

    /// After the kernel has received nothing where it had been asked alone: the error that the
    /// program is to be told in the place of the stream's end.
    #[cold]
    pub fn error_at_end(&self) -> Option<Errno> {
        match self.end(false) {
            Received::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Passes over what the kernel's socket has of the copy of what was read, if that comes next.
    /// What the kernel says is wrong is kept for the program.
    pub fn pass_over_copy(&self) {
        let Some(_held) = self.lock() else {
            return;
        };
        loop {
            let Ok(Next::PassOver { bytes }) = self.next(self.phase()) else {
                return;
            };
            match self.0.pass_over(bytes) {
                Ok(0) | Err(Errno(EAGAIN)) => return,
                Ok(passed) => self.count(Own::FromTcp, passed),
                Err(error) => return error::keep(self.0, error),
            }
        }
    }

    /// Says that a thread sleeps until there is something ([`crate::FUTEX`]), or that waiters are
    /// to be told ([`crate::BOX`]), and gives what [`Reader::sleep`] is to be given. The caller
    /// receives once more before it sleeps: what comes from then on wakes.
    pub fn want_bytes(&self, how: u64) -> u64 {
        self.0.set(wake::want(IN, true), how) | how
    }

    /// Sleeps until there is something, after [`Reader::want_bytes`].
    pub fn sleep(&self, wants: u64) {
        self.0.sleep(wake::want(IN, true), wants, false);
    }

    /// Whether a receive would find something beside what the kernel's socket has: bytes, the
    /// stream's end, or what is wrong.
    pub fn has_bytes(&self) -> bool {
        if self.own(Own::ReceiveGate) == 0 {
            return false;
        }
        let phase = self.phase();
        match self.next(phase) {
            Ok(Next::Empty) => self.own(Own::Ended) != 0,
            Ok(Next::Tcp { .. }) => phase < Phase::Sdp && self.own(Own::Ended) != 0,
            Ok(Next::Sdp { .. } | Next::PassOver { .. }) | Err(_) => true,
        }
    }

    /// Bytes that a receive would find, if the kernel's socket has so many.
    pub fn unread(&self, kernel: u64) -> u64 {
        if self.own(Own::ReceiveGate) == 0 {
            return kernel;
        }
        let phase = self.phase();
        let head = self.0.load(shared(Shared::Head));
        let size = self.0.ring_bytes(IN);
        if phase == Phase::Done {
            // the kernel has all of it, and before it what was read of the copy
            let read = self.place().pass_over_now(&self.marks(), size).unwrap_or(0);
            return kernel.saturating_sub(read);
        }
        match self.next(phase) {
            Ok(Next::Tcp { most: Some(most) }) if kernel >= most => {
                let ring = head.wrapping_sub(self.own(Own::FromSdp));
                most + ring.min(size)
            }
            Ok(Next::Tcp { .. }) => kernel,
            Ok(Next::Sdp { bytes }) => bytes,
            Ok(Next::PassOver { bytes }) => kernel.saturating_sub(bytes),
            Ok(Next::Empty) | Err(_) => 0,
        }
    }

    /// Bytes of the ring that a receive would have, if the next byte comes from there: of those that
    /// are there so far.
    #[inline]
    pub fn in_ring(&self) -> Option<u64> {
        if self.own(Own::ReceiveGate) == 0 {
            return None;
        }
        match self.next(self.phase()) {
            Ok(Next::Sdp { bytes }) => Some(bytes),
            Ok(Next::Empty) => Some(0),
            _ => None,
        }
    }

    /// Of the ring that carries the direction. None: TCP does.
    #[inline]
    pub fn filled(&self) -> Option<Filled> {
        let load = |word| self.0.load(shared(word));
        let is_carried = self.phase() == Phase::Sdp;
        is_carried.then(|| Filled {
            time: load(Shared::Filled),
            given: load(Shared::Given),
        })
    }

    /// What a receive would find. After [`Reader::want_bytes`] and [`Finds::Nothing`], what comes
    /// is told.
    pub fn finds(&self) -> Finds {
        if self.own(Own::ReceiveGate) == 0 {
            return Finds::ByKernel;
        }
        // a receive of another thread may count between two loads: then what was seen cannot be
        for _ in 0..4 {
            match self.next(self.phase()) {
                Ok(Next::Tcp { .. }) => return Finds::ByKernel,
                Ok(Next::Sdp { .. }) => return Finds::Something,
                Ok(Next::PassOver { .. }) => return Finds::Copy,
                Ok(Next::Empty) if self.own(Own::Ended) == 0 => return Finds::Nothing,
                Ok(Next::Empty) => return Finds::Something,
                Err(_) => {}
            }
        }
        Finds::Something
    }

    /// Whether the kernel alone receives, for good.
    pub fn is_left(&self) -> bool {
        self.own(Own::ReceiveGate) == 0 && self.phase() == Phase::Done
    }

    /// The service thread's: the kernel has told of `ended` ([`crate::PEER_ENDED`],
    /// [`crate::CONNECTION_OVER`]), or of bytes of a direction that is not SDP's yet. Sleepers look
    /// again.
    pub fn heard(&self, ended: u64) {
        self.0.set(Word::Own(Own::Ended), ended);
        wake::wake_own(self.0);
    }

    /// Before the program ends what it receives, by shutdown(2). The kernel tells of that as of the
    /// peer's end, and the peer has not died.
    pub fn shut(&self) {
        // where an end has been told of, it was the peer's
        let _ = self.0.exchange(Word::Own(Own::Ended), 0, SHUT);
    }

    /// What the direction goes by.
    #[inline]
    pub fn phase(&self) -> Phase {
        let word = self.0.load(shared(Shared::Phase));
        let phase = u32::try_from(word).ok().and_then(Phase::from_word);
        phase.unwrap_or(Phase::Done)
    }

    pub(crate) fn own(&self, word: Own) -> u64 {
        self.0.load(Word::Own(word))
    }

    /// Counts on what was taken.
    pub(crate) fn count(&self, word: Own, bytes: u64) {
        let word = Word::Own(word);
        self.0.store(word, self.0.load(word) + bytes);
    }

    /// From now on calls receive by the kernel alone; those that sleep, too.
    fn open_gate(&self) {
        self.0.store(Word::Own(Own::ReceiveGate), 0);
        wake::wake_own(self.0);
    }

    /// As [`Reader::open_gate`], for one that is in the kernel until it leaves.
    pub(crate) fn enter_for_good(&self) {
        self.0.add(Word::Own(Own::Receives), 1);
        self.open_gate();
    }

    /// After the lock's release, or a fence: wakes who waits for room, if there is enough.
    fn tell_room(&self) {
        wake::told_room(self.0, || {
            let head = self.0.load(shared(Shared::Head));
            head.wrapping_sub(self.own(Own::FromSdp))
        });
    }

    pub(crate) fn place(&self) -> Place {
        let from_tcp = match self.is_handed_on() {
            true => self.0.taken(),
            false => self.own(Own::FromTcp),
        };
        Place {
            from_tcp,
            from_sdp: self.own(Own::FromSdp),
        }
    }

    /// Where the next byte comes from, in this phase: what it says of the marks and the head was
    /// written before it. The place first, so that it is not beyond the head.
    #[inline]
    fn next(&self, phase: Phase) -> Result<Next, Broken> {
        let (place, size) = (self.place(), self.0.ring_bytes(IN));
        if self.is_handed_on() {
            return place.next_beside(phase, &self.marks(), size);
        }
        let head = self.0.load(shared(Shared::Head));
        place.next(phase, &self.marks(), head, size)
    }

    pub(crate) fn marks(&self) -> Marks {
        Marks {
            offset: self.0.load(shared(Shared::Offset)),
            end: self.0.load(shared(Shared::End)),
            copy_from: self.0.load(shared(Shared::CopyFrom)),
        }
    }

    /// The lock of what this side receives; None if this thread has it. What a call had taken from
    /// the ring that died with it is W's again, if it has not said so; what it had taken from the
    /// kernel is gone with it.
    pub(crate) fn lock(&self) -> Option<Held<'_, K>> {
        let held = Held::take(self.0, Own::ReceiveLock)?;
        if held.inherited {
            self.0.store(Word::Own(Own::FromTcp), self.0.taken());
            self.count_copy();
            self.0.store(shared(Shared::Tail), self.own(Own::FromSdp));
            self.0.fence();
            self.tell_room();
        }
        Some(held)
    }

    fn receive_locked(&self, sink: &mut K::Sink, to: u64, bytes: u64) -> Received {
        let mut is_over = false;
        loop {
            let phase = self.phase();
            let next = match self.next(phase) {
                Ok(next) => next,
                Err(broken) => return Received::Broken(broken),
            };
            let done = match next {
                Next::Tcp { most } => {
                    if phase == Phase::Done && most.is_none() {
                        self.open_gate();
                    }
                    self.by_tcp(sink, to, bytes.min(most.unwrap_or(bytes)), phase)
                }
                Next::Sdp { bytes: there } => {
                    let bytes = bytes.min(there);
                    self.read(sink, to, bytes);
                    Some(Received::Bytes(bytes))
                }
                Next::Empty if self.own(Own::Ended) == 0 => Some(Received::Nothing),
                Next::Empty if self.is_handed_on() => self.by_dead_beside(sink, to, bytes, phase),
                Next::Empty if is_over => self.by_dead(sink, to, bytes, phase),
                // what W has written before it died is seen by now: look once more
                Next::Empty => {
                    is_over = true;
                    None
                }
                Next::PassOver { bytes } => self.pass_over(bytes, false),
            };
            if let Some(received) = done {
                if phase == Phase::Ready && received == Received::Nothing {
                    self.withdraw();
                }
                return received;
            }
        }
    }

    /// Nothing has come by TCP, and W has not changed over: if that was so many times, W cannot, or
    /// sends too little. A thread that sleeps in the kernel for the next byte is woken without the
    /// service thread.
    fn withdraw(&self) {
        let in_vain = self.own(Own::InVain) + 1;
        let (tcp, ready) = (Phase::Tcp as u64, Phase::Ready as u64);
        if in_vain < MOST_IN_VAIN {
            return self.0.store(Word::Own(Own::InVain), in_vain);
        }
        self.0.store(Word::Own(Own::InVain), 0);
        if self.0.exchange(shared(Shared::Phase), ready, tcp).is_ok() {
            self.0.store(Word::Own(Own::Refrains), REFRAINS);
            self.open_gate();
        }
    }

    /// From the kernel. None: look again.
    fn by_tcp(&self, sink: &mut K::Sink, to: u64, most: u64, phase: Phase) -> Option<Received> {
        match self.0.receive(sink, to, most) {
            // not the stream's end: W has changed over before it ended
            Ok(0) if phase < Phase::Sdp && self.phase() >= Phase::Sdp => None,
            // others have taken what came before SDP
            Ok(0) if self.has_been_taken(phase) => None,
            Ok(0) => Some(self.end(false)),
            Ok(bytes) => {
                self.count(Own::FromTcp, bytes);
                if phase < Phase::Sdp {
                    self.count_copy();
                }
                Some(Received::Bytes(bytes))
            }
            Err(error) => Some(self.refused(error)),
        }
    }

    /// W has died in the middle of SDP, or of the copy, and the ring is read: the kernel knows what
    /// is to be told. None: look again.
    #[cold]
    fn by_dead(&self, sink: &mut K::Sink, to: u64, bytes: u64, phase: Phase) -> Option<Received> {
        if phase == Phase::Back {
            return self.pass_over(self.0.ring_bytes(IN), self.has_left_unread());
        }
        match self.0.receive(sink, to, bytes) {
            Ok(0) => Some(self.end(self.has_left_unread())),
            Ok(_) => Some(self.beyond_offset()),
            Err(error) => Some(self.refused(error)),
        }
    }

    /// What the peer has left in the ring is all that comes. Where this side has ended what it
    /// receives, the kernel tells of that end, and the peer goes on.
    pub(crate) fn is_peer_gone(&self) -> bool {
        let ended = self.own(Own::Ended);
        ended & CONNECTION_OVER != 0 || ended != 0 && ended & SHUT == 0
    }

    /// TCP has bytes behind those that it carried before SDP.
    #[cold]
    fn beyond_offset(&self) -> Received {
        let offset = self.marks().offset;
        let taken = self.own(Own::FromTcp).saturating_add(1);
        Received::Broken(Broken::Offset { offset, taken })
    }

    /// A peer that has died has left bytes unread in the ring that it read, whoever goes on by TCP
    /// since. Of a copy that has come to the peer's kernel, that kernel tells: who reads it without
    /// this library says nothing here.
    fn has_left_unread(&self) -> bool {
        let tail = Word::Shared(Way::Out, Shared::Tail);
        let is_unread =
            self.own(Own::Ended) & SHUT == 0 && self.own(Own::Head) != self.0.load(tail);
        is_unread && !Writer(self.0).has_copy_arrived()
    }

    /// As [`Reader::has_left_unread`], of a peer of which the kernel has told an end: it may have
    /// ended its stream itself, and goes on reading, or others have its socket. Where this side has
    /// not gone back yet, nothing else tells of it.
    fn has_died_unread(&self) -> bool {
        self.0.load(shared(Shared::EndedByProgram)) == 0
            && !Writer(self.0).is_recalled()
            && self.has_left_unread()
    }

    /// The kernel has no more: the stream's end, or an error that the program has not had. A copy
    /// of this side's that has taken the error from the kernel keeps it before it leaves the lock.
    #[cold]
    fn end(&self, left_unread: bool) -> Received {
        drop(Writer(self.0).lock());
        match error::at_end(self.0, left_unread || self.has_died_unread()) {
            Some(error) => Received::Refused(error),
            None => Received::Bytes(0),
        }
    }

    pub(crate) fn refused(&self, error: Errno) -> Received {
        if error == Errno(EAGAIN) {
            return Received::Nothing;
        }
        error::told(self.0);
        Received::Refused(error)
    }

    /// Passes over some of the copy. None: look again.
    pub(crate) fn pass_over(&self, bytes: u64, left_unread: bool) -> Option<Received> {
        match self.0.pass_over(bytes) {
            Ok(0) => Some(self.end(left_unread)),
            Ok(passed) => {
                self.count(Own::FromTcp, passed);
                None
            }
            Err(error) => Some(self.refused(error)),
        }
    }

    /// Copies out of the ring, and gives the room back.
    fn read(&self, sink: &mut K::Sink, to: u64, bytes: u64) {
        self.copy(sink, to, bytes);
        let tail = self.own(Own::FromSdp);
        self.0.store(Word::Own(Own::FromSdp), tail + bytes);
        self.0.store(shared(Shared::Tail), tail + bytes);
    }

    /// Copies out of the ring.
    fn copy(&self, sink: &mut K::Sink, to: u64, bytes: u64) {
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
    }
}

/// Receives that find nothing after which an offer is withdrawn: a blocking one looks twice.
const MOST_IN_VAIN: u64 = 16;
/// Calls of [`Reader::offer`] that do nothing then.
const REFRAINS: u64 = 256;

/// What a signal handler gets that has interrupted a receive of its own thread.
pub(crate) const BUSY: Received = Received::Refused(Errno(EAGAIN));

pub(crate) fn shared(word: Shared) -> Word {
    Word::Shared(IN, word)
}
