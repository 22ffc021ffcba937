//! What a side sends: by the kernel alone, by the ring, and the changes between them.

use crate::error::{self, EAGAIN, ECONNRESET, EINTR, EPIPE};
use crate::lock::{Held, is_mine};
use crate::memory::{CONNECTION_OVER, Errno, Kernel, Own, PEER_ENDED, SHUT, Shared, Way, Word};
use crate::wake::{self, told};
use ferriband_sdp_proto::change::{Phase, can_change, may_change};

const OUT: Way = Way::Out;

/// What became of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// So many bytes are in the ring.
    Bytes(u64),
    /// The kernel sends, as if nobody else did; [`Writer::leave_kernel`] follows.
    ByKernel,
    /// The ring is full.
    NoRoom,
    /// The direction goes back to TCP, whose socket is full: nothing more can be sent before the
    /// kernel has room.
    KernelFull,
    /// The caller is a signal handler that has interrupted a send of its own thread, which is in
    /// the middle of a copy or a change.
    Busy,
    /// The connection is over, as the kernel knows, or the peer has broken the rules.
    /// [`Writer::take_error`] has what this side was told, else the kernel has it.
    Ended,
}

/// The sending half of a side of a connection.
pub struct Writer<'a, K: Kernel>(pub &'a K);

impl<K: Kernel> Writer<'_, K> {
    /// Sends up to `bytes` of the program's, from `from` of `source` on. Never waits, but for
    /// another call of this side that does not either.
    #[inline]
    pub fn send(&self, source: &K::Source, from: u64, bytes: u64) -> Sent {
        loop {
            let phase = self.phase();
            if phase != Phase::Sdp && error::is_kept(self.0) {
                return Sent::Ended;
            }
            match phase {
                Phase::Ready if self.change_over() => {}
                Phase::Tcp | Phase::Ready => match self.enter_kernel() {
                    Some(true) => return Sent::ByKernel,
                    Some(false) => {}
                    None => return Sent::Busy,
                },
                Phase::Sdp => {
                    if let Some(sent) = self.write(source, from, bytes) {
                        return sent;
                    }
                }
                Phase::Back => match self.try_back() {
                    Some(true) => {}
                    Some(false) => return Sent::KernelFull,
                    None => return Sent::Busy,
                },
                Phase::Done => {
                    self.0.add(Word::Own(Own::Sends), 1);
                    return Sent::ByKernel;
                }
            }
        }
    }

    /// After the kernel has sent for [`Sent::ByKernel`], or has refused.
    pub fn leave_kernel(&self) {
        self.0.add(Word::Own(Own::Sends), u64::MAX);
    }

    /// The connection's error, which the program has not had: for the call that finds that it has
    /// ended, and for SO_ERROR before the kernel's. It is told once.
    pub fn take_error(&self) -> Option<Errno> {
        error::take(self.0)
    }

    /// As [`Writer::take_error`], once no copy is between the kernel's answer and what it keeps.
    pub fn take_error_of_copy(&self) -> Option<Errno> {
        drop(self.lock());
        error::take(self.0)
    }

    /// The program was not told of this error of the kernel's after all: its next call is.
    pub fn put_error_back(&self, error: Errno) {
        error::put_back(self.0, error);
    }

    /// The kernel has told a call of the program's that the connection was reset: nothing else
    /// tells it again.
    pub fn has_told_reset(&self) {
        error::told(self.0);
    }

    /// Whether there is such an error: poll(2) tells of it.
    pub fn has_error(&self) -> bool {
        error::is_kept(self.0)
    }

    /// Goes back to TCP for good, or stays there. What the ring holds is sent by the kernel, and R
    /// finds what it has not read. True once that is so; false if the kernel does not take all:
    /// call it again when it does, unless [`Writer::is_interrupted`].
    pub fn go_back(&self) -> bool {
        self.try_back().unwrap_or(false)
    }

    /// As [`Writer::go_back`], before the program ends the stream, by shutdown(2) or with the
    /// socket's last number: R does not take that for the death of this side.
    pub fn end(&self) -> bool {
        self.0.store(shared(Shared::EndedByProgram), 1);
        self.go_back()
    }

    /// The caller is a signal handler that has interrupted a send of its own thread: what it asks
    /// for cannot be before it returns.
    pub fn is_interrupted(&self) -> bool {
        is_mine(self.0, Own::SendLock)
    }

    /// As [`Writer::go_back`]; None if [`Writer::is_interrupted`].
    fn try_back(&self) -> Option<bool> {
        let held = self.lock()?;
        let done = self.go_back_locked();
        drop(held);
        told(self.0, OUT, true);
        // who waits for room in the ring is to send by the kernel
        wake::wake_own(self.0);
        Some(done)
    }

    /// R wants the direction back in TCP.
    pub fn is_recalled(&self) -> bool {
        self.0.load(shared(Shared::Recall)) != 0
    }

    /// Says that a thread sleeps until there is room ([`crate::FUTEX`]), or that waiters are to be
    /// told ([`crate::BOX`]), and gives what [`Writer::sleep`] is to be given. The caller sends
    /// once more before it sleeps, or looks at [`Writer::has_room`]: once there is so much, it is
    /// woken.
    pub fn want_room(&self, how: u64) -> u64 {
        self.0.set(wake::want(OUT, false), how) | how
    }

    /// Sleeps until there is room, after [`Writer::want_room`], or until [`Writer::tire`] is to be
    /// asked.
    pub fn sleep(&self, wants: u64) {
        self.0.sleep(wake::want(OUT, false), wants, true);
    }

    /// The ring has no room, or too little to wake for, as of time `now`, which all processes of
    /// this side count alike. If R has taken nothing out of it for `patience`, the direction goes
    /// back: TCP holds more than a ring, and programs that send before they read count on that.
    /// Gives how much longer R is given, after which the caller asks again, whether it sleeps or
    /// not. None: there is room, or the direction has changed; the caller sends again.
    #[cold]
    pub fn tire(&self, now: u64, patience: u64) -> Option<u64> {
        let Some(held) = self.lock() else {
            return Some(patience);
        };
        if self.phase() != Phase::Sdp || self.has_room() {
            return None;
        }
        let tail = self.0.load(shared(Shared::Tail)).wrapping_add(1);
        if self.own(Own::FullTail) != tail {
            self.0.store(Word::Own(Own::FullSince), now);
            self.0.store(Word::Own(Own::FullTail), tail);
            return Some(patience);
        }
        let passed = now.saturating_sub(self.own(Own::FullSince));
        if passed < patience {
            return Some(patience - passed);
        }
        drop(held);
        self.go_back();
        None
    }

    /// Whether the ring has so much room that who waits for it is woken, a third; also if the
    /// peer's tail cannot be, which a send tells.
    pub fn has_room(&self) -> bool {
        let held = self
            .own(Own::Head)
            .wrapping_sub(self.0.load(shared(Shared::Tail)));
        wake::is_roomy(held, self.0.ring_bytes(OUT))
    }

    /// Bytes that the ring takes; None if the peer's tail cannot be.
    pub fn room(&self) -> Option<u64> {
        let (head, size) = (self.own(Own::Head), self.0.ring_bytes(OUT));
        let held = head.checked_sub(self.0.load(shared(Shared::Tail)))?;
        size.checked_sub(held)
    }

    /// What the direction goes by. A word that no side writes counts as done: the kernel has it.
    #[inline]
    pub fn phase(&self) -> Phase {
        let word = self.0.load(shared(Shared::Phase));
        let phase = u32::try_from(word).ok().and_then(Phase::from_word);
        phase.unwrap_or(Phase::Done)
    }

    fn own(&self, word: Own) -> u64 {
        self.0.load(Word::Own(word))
    }

    fn set_phase(&self, phase: Phase) {
        self.0.store(shared(Shared::Phase), phase as u64);
    }

    /// The lock of what this side sends; None if this thread has it. A call that died with it may
    /// have filled the ring, and not have said so.
    pub(crate) fn lock(&self) -> Option<Held<'_, K>> {
        let held = Held::take(self.0, Own::SendLock)?;
        if held.inherited {
            self.0.store(Word::Own(Own::SendGate), 0);
            self.0.store(shared(Shared::Base), self.own(Own::Base));
            self.0.store(shared(Shared::Head), self.own(Own::Head));
            if self.phase() == Phase::Back {
                self.copy();
            }
            self.0.fence();
            told(self.0, OUT, true);
        }
        Some(held)
    }

    /// Enters the kernel. False if the direction was about to change: it has been waited for. None
    /// if this thread is about to change it.
    fn enter_kernel(&self) -> Option<bool> {
        self.0.add(Word::Own(Own::Sends), 1);
        if self.own(Own::SendGate) == 0 && self.phase() < Phase::Sdp {
            return Some(true);
        }
        self.leave_kernel();
        self.lock().map(|_| false)
    }

    /// Changes over to SDP, if nobody is sending and TCP has little left to do.
    fn change_over(&self) -> bool {
        let Some(_held) = self.lock() else {
            return false;
        };
        if self.phase() != Phase::Ready {
            return self.phase() > Phase::Ready;
        }
        let gate = Word::Own(Own::SendGate);
        self.0.store(gate, 1);
        self.0.fence();
        // who is inside the kernel may fill its queue yet
        let changed = self.own(Own::Sends) == 0 && {
            let (unacknowledged, most) = self.0.send_queue();
            let ring = self.0.ring_bytes(OUT);
            // R may have withdrawn meanwhile
            let to = |phase: Phase| {
                let (ready, phase) = (Phase::Ready as u64, phase as u64);
                self.0.exchange(shared(Shared::Phase), ready, phase).is_ok()
            };
            if !can_change(most, ring) {
                // R need not look at both
                to(Phase::Done)
            } else if may_change(unacknowledged, most, ring) {
                self.0.store(shared(Shared::Offset), self.0.sent());
                to(Phase::Sdp)
            } else {
                false
            }
        };
        self.0.store(gate, 0);
        changed
    }

    /// Writes to the ring. None if the direction has changed.
    fn write(&self, source: &K::Source, from: u64, bytes: u64) -> Option<Sent> {
        let Some(held) = self.lock() else {
            return Some(Sent::Busy);
        };
        if self.phase() != Phase::Sdp {
            return None;
        }
        let sent = self.write_locked(source, from, bytes);
        drop(held);
        // also if the ring is full: who has filled it may have died before it said so
        told(self.0, OUT, true);
        Some(sent)
    }

    fn write_locked(&self, source: &K::Source, from: u64, bytes: u64) -> Sent {
        if self.own(Own::Ended) & CONNECTION_OVER != 0 {
            return Sent::Ended;
        }
        let size = self.0.ring_bytes(OUT);
        let Some(room) = self.room() else {
            return Sent::Ended;
        };
        if room == 0 {
            return Sent::NoRoom;
        }
        let head = self.own(Own::Head);
        let mut base = self.own(Own::Base);
        if room == size {
            self.say_when();
            if base != head {
                // an empty ring starts over: what is short stays within a page
                base = head;
                self.0.store(Word::Own(Own::Base), base);
                self.0.store(shared(Shared::Base), base);
            }
        }
        let bytes = bytes.min(room);
        let at = (head - base) % size;
        let first = bytes.min(size - at);
        self.0.put(at, source, from, first);
        if bytes > first {
            self.0.put(0, source, from + first, bytes - first);
        }
        self.0.store(Word::Own(Own::Head), head + bytes);
        self.0.store(shared(Shared::Head), head + bytes);
        Sent::Bytes(bytes)
    }

    /// The ring is filled: R tells of several connections in the order in which it was given them.
    #[inline]
    fn say_when(&self) {
        self.0.store(shared(Shared::Filled), self.0.time());
        let given = self.0.given();
        // most of the time the kernel was given nothing since
        if self.0.load(shared(Shared::Given)) != given {
            self.0.store(shared(Shared::Given), given);
        }
    }

    fn go_back_locked(&self) -> bool {
        loop {
            match self.phase() {
                before @ (Phase::Tcp | Phase::Ready) => {
                    let (before, done) = (before as u64, Phase::Done as u64);
                    let phase = shared(Shared::Phase);
                    if self.0.exchange(phase, before, done).is_ok() {
                        return true;
                    }
                }
                Phase::Sdp => {
                    self.0.store(shared(Shared::End), self.own(Own::Head));
                    self.set_phase(Phase::Back);
                }
                Phase::Back => return self.copy(),
                Phase::Done => return true,
            }
        }
    }

    /// Sends by the kernel what is left of the copy; under the lock, in [`Phase::Back`]. True once
    /// nothing is.
    fn copy(&self) -> bool {
        let load = |word| self.0.load(shared(word));
        // of these only this side writes, but the peer could
        let (end, base, size) = (
            self.own(Own::Head),
            self.own(Own::Base),
            self.0.ring_bytes(OUT),
        );
        let least = end.saturating_sub(size);
        let before = self.0.sent().saturating_sub(load(Shared::Offset));
        // what cannot arrive is not sent: the kernel would tell its error here
        let is_over = self.own(Own::Ended) & CONNECTION_OVER != 0;
        let is_unread = before == 0 && self.mark_copy(least, end) && !is_over;
        if is_unread && self.own(Own::Ended) & PEER_ENDED != 0 {
            error::keep(self.0, Errno(ECONNRESET));
        }
        let from = load(Shared::CopyFrom).clamp(least, end);
        let preface = match is_over {
            true => Ok(0),
            false => self.0.send_preface(from, before),
        };
        let preface = match preface {
            Err(Errno(EAGAIN | EINTR)) => return false,
            answer => answer,
        };
        let Ok(preface) = preface.map_err(|error| error::keep(self.0, error)) else {
            self.set_phase(Phase::Done);
            return true;
        };
        let mut sent = before.saturating_sub(preface);
        while !is_over && from + sent < end {
            let at = (from + sent).wrapping_sub(base) % size;
            match self.0.send_from_ring(at, end - from - sent) {
                Ok(bytes) => sent += bytes,
                Err(Errno(EAGAIN | EINTR)) => return false,
                // nobody reads any more
                Err(Errno(EPIPE)) if is_unread => {
                    error::keep(self.0, Errno(ECONNRESET));
                    break;
                }
                Err(error) => {
                    error::keep(self.0, error);
                    break;
                }
            }
        }
        if is_unread {
            self.keep_error_of_copy();
        }
        self.set_phase(Phase::Done);
        true
    }

    /// Says from where on the ring is copied. Gives whether that would tell of a death of the
    /// peer's: it has left bytes unread, and no program has ended the stream. Whoever has asked for
    /// the direction in TCP may have given the socket to others, who say nothing of that.
    fn mark_copy(&self, least: u64, end: u64) -> bool {
        // whoever finds another phase than Back has said what it had read: nothing that is read
        // by then is sent again, and its close leaves nothing behind
        self.0.fence();
        let tail = self.0.load(shared(Shared::Tail));
        // a tail that cannot be costs the peer, not us: the copy is the whole ring then
        let possible = (least..=end).contains(&tail);
        let from = if possible { tail } else { least };
        self.0.store(shared(Shared::CopyFrom), from);
        let by_program = self.0.load(Word::Shared(Way::In, Shared::EndedByProgram));
        let is_ended = by_program != 0 || self.own(Own::Ended) & SHUT != 0;
        from != end && !is_ended && !self.is_recalled()
    }

    /// All of the copy has come to the kernel of a peer that had not died by then: a closed socket
    /// acknowledges nothing.
    #[cold]
    pub(crate) fn has_copy_arrived(&self) -> bool {
        if self.phase() != Phase::Done {
            return false;
        }
        let from = self.0.load(shared(Shared::CopyFrom));
        let copied = self.own(Own::Head).saturating_sub(from);
        let arrived = self.0.sent().saturating_sub(self.0.send_queue().0);
        arrived.saturating_sub(self.0.load(shared(Shared::Offset))) >= copied
    }

    /// A peer that has died gets no copy. The kernel, which has told an end, says that nobody reads
    /// any more: TCP would have told a reset, once.
    #[cold]
    fn keep_error_of_copy(&self) {
        match self.0.take_error() {
            Some(Errno(EPIPE)) => error::keep(self.0, Errno(ECONNRESET)),
            Some(error) => error::keep(self.0, error),
            None => {}
        }
    }
}

fn shared(word: Shared) -> Word {
    Word::Shared(OUT, word)
}
