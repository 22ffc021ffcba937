//! How this side comes to receive by the kernel alone, and what it reads where others receive from
//! the kernel whom it does not see.
//!
//! Owns: which calls of this side read the ring then. Must not know: who the others are.
//!
//! A program without this library that has the socket reads what W copies as soon as W has gone
//! back. So before it may, this side reads nothing more of the ring: W copies from exactly there,
//! and the kernel's socket has the rest of the stream in order, whoever reads it. Only if W has
//! died without a copy, or in the middle of it, the ring has what the kernel has not.

use crate::error::{self, EAGAIN};
use crate::memory::{Errno, Kernel, Own, Shared, Word};
use crate::reader::{BUSY, IN, Reader, Received, shared};
use ferriband_sdp_proto::change::Phase;

/// In [`Own::ReceiveGate`]: others receive from the kernel.
const HANDED_ON: u64 = 2;

impl<K: Kernel> Reader<'_, K> {
    /// Takes the offer back, or asks W to go back to TCP. True once the direction is TCP's, and the
    /// next byte is in the kernel: nothing of this library is needed any more to read on. The
    /// caller counts then as after [`Received::ByKernel`], and nothing is offered before it leaves,
    /// which one without this library never does. False while W has to act, or its copy to come:
    /// the caller tries again when this side's waiters for bytes are woken.
    ///
    /// If W has died, true as well: what the ring holds is lost to one without this library.
    ///
    /// # Errors
    /// What W has written cannot be, or the kernel's; EAGAIN as of [`Reader::receive`].
    pub fn give_up(&self) -> Result<bool, Received> {
        let Some(_held) = self.lock() else {
            return Err(BUSY);
        };
        let (tcp, ready) = (Phase::Tcp as u64, Phase::Ready as u64);
        let withdrawn = self.0.exchange(shared(Shared::Phase), ready, tcp).is_ok();
        let is_over = self.is_peer_gone();
        let phase = if withdrawn { Phase::Tcp } else { self.phase() };
        match phase {
            Phase::Tcp => {
                self.enter_for_good();
                return Ok(true);
            }
            Phase::Ready => return Ok(false),
            Phase::Sdp if is_over => return Ok(true),
            Phase::Sdp | Phase::Back if !is_over => {
                self.0.store(shared(Shared::Recall), 1);
                self.0.recall();
                return Ok(false);
            }
            Phase::Sdp | Phase::Back | Phase::Done => {}
        }
        let (marks, size) = (self.marks(), self.0.ring_bytes(IN));
        loop {
            let bytes = match self.place().pass_over_now(&marks, size) {
                Ok(bytes) => bytes,
                // W has died before it said what it would copy
                Err(_) if phase == Phase::Back => 0,
                Err(broken) => return Err(Received::Broken(broken)),
            };
            let passed = match bytes {
                0 => 0,
                bytes => match self.0.pass_over(bytes) {
                    Ok(passed) => passed,
                    Err(Errno(EAGAIN)) => return Ok(false),
                    Err(error) => {
                        error::keep(self.0, error);
                        return Err(Received::Refused(error));
                    }
                },
            };
            if passed == 0 {
                // this side's other threads find in the ring what the dead have left there
                if phase == Phase::Done {
                    // nothing is left unread in the ring, if this side dies
                    self.0.store(shared(Shared::Tail), marks.end);
                    self.enter_for_good();
                }
                return Ok(true);
            }
            self.count(Own::FromTcp, passed);
        }
    }

    /// After [`Reader::give_up`]: others receive from the kernel, also if W has not gone back. If
    /// the phase is [`Phase::Sdp`] afterwards, W will copy for them all that this side has not
    /// read. In [`Phase::Back`] it may copy some that was read as well, until give_up is true.
    pub fn hand_on(&self) {
        let _held = self.lock();
        // the kernel's alone already, if it is open
        if self.own(Own::ReceiveGate) != 0 {
            self.0.set(Word::Own(Own::ReceiveGate), HANDED_ON);
        }
    }

    /// Whether nothing that was read here comes by TCP from here on: a peer that goes back sees
    /// what was read, or its copy of that was passed over. False while W is in the middle of it, or
    /// its copy is to come: as [`Reader::give_up`], which a peer that has not begun is not asked
    /// to.
    pub fn is_past_copy(&self) -> bool {
        let is_sdp = || self.phase() == Phase::Sdp;
        // the lock's release fences: a peer that goes back from here on sees what was read
        let stays = is_sdp() && self.lock().map(drop).is_some() && is_sdp();
        stays || self.give_up() != Ok(false) || is_sdp()
    }

    /// Whether others receive from the kernel, and this side reads no ring of a living peer.
    #[inline]
    pub(crate) fn is_handed_on(&self) -> bool {
        self.own(Own::ReceiveGate) & HANDED_ON != 0
    }

    /// Others have taken what TCP carried before SDP, and W has not gone back.
    pub(crate) fn has_been_taken(&self, phase: Phase) -> bool {
        let is_carried = matches!(phase, Phase::Sdp | Phase::Back);
        is_carried && self.place().from_tcp >= self.marks().offset
    }

    /// Bytes were taken from the kernel: if W had changed over and gone back before, these were the
    /// copy's as well.
    pub(crate) fn count_copy(&self) {
        if self.phase() < Phase::Back {
            return;
        }
        let place = self.place();
        let counted = place.with_copy_taken(&self.marks());
        if counted != place {
            self.0.store(Word::Own(Own::FromSdp), counted.from_sdp);
            self.0.store(shared(Shared::Tail), counted.from_sdp);
        }
    }

    /// W has died in the middle of SDP, or of the copy, and others receive from the kernel as well:
    /// what is there is the stream's, and the rest is in the ring. None: look again.
    #[cold]
    pub(crate) fn by_dead_beside(
        &self,
        sink: &mut K::Sink,
        to: u64,
        bytes: u64,
        phase: Phase,
    ) -> Option<Received> {
        if self.phase() != phase {
            return None;
        }
        let copied = match phase {
            Phase::Back => self
                .place()
                .pass_over_now(&self.marks(), self.0.ring_bytes(IN)),
            _ => Ok(0),
        };
        match copied {
            Ok(copied @ 1..) => match self.0.pass_over(copied) {
                // W has died before it copied any
                Ok(0) => self.rejoin(Ok(0)),
                Ok(_) => None,
                Err(error) => self.rejoin(Err(error)),
            },
            _ => self.rejoin(self.0.receive(sink, to, bytes)),
        }
    }

    /// W has died, others receive from the kernel as well, and it has answered this. None: it has
    /// nothing more for anybody, and this side reads what the ring has.
    pub(crate) fn rejoin(&self, received: Result<u64, Errno>) -> Option<Received> {
        match received {
            Ok(0) => {}
            Ok(bytes) => return Some(Received::Bytes(bytes)),
            Err(Errno(EAGAIN)) => return Some(Received::Nothing),
            Err(error) => error::keep(self.0, error),
        }
        self.0.store(Word::Own(Own::FromTcp), self.0.taken());
        self.count_copy();
        self.0.store(Word::Own(Own::ReceiveGate), 1);
        None
    }
}
