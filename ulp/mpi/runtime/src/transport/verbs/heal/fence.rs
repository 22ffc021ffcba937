//! The fence between two lives: behind it no queue pair of the old life is left, and all that it
//! delivered is taken or thrown away. Only then the other end is told what was taken (law H1).
//!
//! A fence goes on in each look at the device, so that other peers go on meanwhile. What it throws
//! away lies in the log of the other end. Section 5.3 of docs/design/heal.md.

use super::super::Net;
use super::super::acks::fresh_return_word;
use super::super::queue::{Queue, What};
use super::refused::Needed;
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::Outcome;
use ferriband_heal::{Cause, Ns, Number, State, Taken};
use ferriband_ibv::{ErrorKind, NotClosed, QpState, VerbsError};
use std::sync::atomic::Ordering;

/// Adapters say so soon that a queue pair takes no receive any more, or never.
const LAST_RECEIVE_NS: u64 = 10_000_000;
/// A queue pair that cannot be destroyed, since a peer is in the middle of an access, is tried
/// again after so long.
const BUSY_NS: u64 = 1_000_000;

/// A fence under way.
pub struct Fence {
    began: Ns,
    stage: Stage,
    /// Its queue pairs are in error, as the device has said.
    has_stopped: bool,
    /// Completions that may still be there, at most.
    left: u32,
    /// The last number that was taken, as the last look at the block found it.
    received: Option<u32>,
    /// Nothing is tried before.
    not_before: Ns,
    /// The peer is lost: there is no life behind it.
    is_last: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Completions are taken until a look finds none.
    Emptying,
    /// Records are taken whose turn has come.
    Draining,
    /// The queue pair is destroyed.
    Closing,
}

/// What is left of a queue pair that a device did not destroy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    /// Nothing: there is no such queue pair, or its adapter does nothing any more.
    Nothing,
    /// It is in use, or something is short: it is destroyed later.
    Busy,
    /// It can be destroyed with its adapter alone.
    WithAdapter,
}

impl Left {
    /// The meaning of each errno. A device that knows no such queue pair is believed if the queue
    /// pair was in error before.
    fn of(errno: i32, has_failed: bool, has_stopped: bool) -> Self {
        match errno {
            libc::EBUSY => Self::Busy,
            _ if has_failed => Self::Nothing,
            libc::EAGAIN | libc::EINTR | libc::ENOMEM => Self::Busy,
            libc::EINVAL | libc::ENOENT | libc::EBADF if has_stopped => Self::Nothing,
            _ => Self::WithAdapter,
        }
    }
}

impl Net {
    /// Whether a failed connection to `peer` is made anew: that is set, and what is on its way is
    /// kept.
    pub(in super::super) fn heals(&mut self, peer: u32) -> bool {
        if !self.limits.heal.is_on {
            return false;
        }
        let link = self.link(peer);
        let (has_carried, is_gone) = (link.has_carried(), link.is_gone());
        !is_gone && (self.limits.acks || !has_carried)
    }

    /// The life of the connection to `peer` is over, for this cause.
    #[cold]
    pub(in super::super) fn end_life(&mut self, peer: u32, cause: Cause) {
        let now = self.connect.now();
        let session = &mut self.link(peer).wire.session;
        let life = session.epoch();
        session.handle_failure(life, cause, now);
        self.heed(peer);
    }

    /// The device says that the queue pair to `peer` takes no receive any more. If no fence has
    /// stopped it, it has failed; who only receives hears of that by nothing else.
    #[cold]
    pub(in super::super) fn has_stopped(&mut self, peer: u32) {
        self.link(peer).wire.takes_none = true;
        self.has_failed(peer, Cause::QpError);
    }

    /// The device says that something of the connection to `peer` has failed.
    #[cold]
    pub(in super::super) fn has_failed(&mut self, peer: u32, cause: Cause) {
        if self.link(peer).wire.has_life() && self.heals(peer) {
            self.end_life(peer, cause);
        }
    }

    /// Begins the fence that the session of `peer` asks for.
    pub(super) fn begin_fence(&mut self, peer: u32) -> Outcome {
        let now = self.connect.now();
        let link = self.link(peer);
        link.wire.replay = None;
        if link.wire.session.state() == State::Lost {
            // Whoever is lost keeps no queue pair.
            link.wire.session.fenced(Taken::default(), now);
            return Ok(());
        }
        if !self.heals(peer) {
            let told = self.tell_end(peer);
            let why = match self.limits.heal.is_on {
                true => "it has failed, and messages were not kept",
                false => "the other end says that it has failed",
            };
            self.lose_aloud(peer, why, MPI_ERR_PROC_ABORTED);
            let session = &mut self.link(peer).wire.session;
            session.fenced(Taken::default(), now);
            return told;
        }
        self.stop_all(peer, false);
        Ok(())
    }

    /// `peer` is lost: its queue pairs fail at once, and go behind the completions that they have
    /// left, for these name receive buffers.
    #[cold]
    pub(in super::super) fn begin_burial(&mut self, peer: u32) {
        self.stop_all(peer, true);
        self.heed(peer);
    }

    fn stop_all(&mut self, peer: u32, is_last: bool) {
        let now = self.connect.now();
        let left = self.rail_of(peer).device.entries;
        let link = self.link(peer);
        let mut has_stopped = true;
        for queue in [&link.wire.queue, &link.long.lane.queue] {
            // One that cannot be stopped is destroyed all the same.
            let stopped = queue.qp.as_ref().map(|qp| qp.stop(QpState::Error));
            has_stopped &= stopped.is_none_or(|stopped| stopped.is_ok());
        }
        link.wire.fence = Some(Fence {
            began: now,
            stage: Stage::Emptying,
            has_stopped,
            left,
            received: None,
            not_before: now,
            is_last,
        });
    }

    /// Goes on with the fence to `peer`, if there is one: a look at the device has found `count`
    /// completions, and they have been taken.
    pub(super) fn carry_fence(&mut self, peer: u32, count: u32) -> Outcome {
        let now = self.connect.now();
        // Without heals no adapter is closed: what is left goes with the process.
        let has_failed = self.has_failed_adapter(peer) || !self.limits.heal.is_on;
        let link = self.link(peer);
        let (received, wire) = (link.received, &mut link.wire);
        let takes_none = wire.takes_none || wire.queue.qp.is_none();
        let Some(fence) = wire.fence.as_mut().filter(|fence| now >= fence.not_before) else {
            return Ok(());
        };
        match fence.stage {
            Stage::Emptying => {
                fence.left = fence.left.saturating_sub(count);
                let is_late = now.since(fence.began) >= LAST_RECEIVE_NS;
                if (count == 0 || fence.left == 0) && (takes_none || is_late) {
                    fence.stage = match fence.is_last {
                        true => Stage::Closing,
                        false => Stage::Draining,
                    };
                }
                Ok(())
            }
            Stage::Draining => {
                // Whose turn has come is taken by the look at the blocks, unless there is no
                // memory for it: then the other end's log has it.
                let moves = fence.received.replace(received) != Some(received);
                if !(moves && self.has_record_in_turn(peer)) {
                    self.set_stage(peer, Stage::Closing);
                }
                Ok(())
            }
            Stage::Closing => {
                let is_last = fence.is_last;
                let mut left = None;
                for queue in [&mut wire.queue, &mut link.long.lane.queue] {
                    let closed = queue.qp.take().map(ferriband_ibv::Qp::close);
                    let Some(Err(NotClosed { qp, error })) = closed else {
                        continue;
                    };
                    let what = Left::of(error.errno(), has_failed, fence.has_stopped);
                    if what != Left::Nothing {
                        queue.qp = Some(qp);
                        left = Some((what, error));
                        break;
                    }
                }
                if let Some((left, error)) = left {
                    fence.not_before = now.after(BUSY_NS);
                    self.is_not_destroyed(peer, &error, left);
                    return Ok(());
                }
                if is_last {
                    self.rail_of(peer).numbers.forget_all_of(peer);
                    self.link(peer).wire.fence = None;
                } else {
                    self.end_fence(peer);
                }
                Ok(())
            }
        }
    }

    /// The queue pair to `peer` is still there.
    #[cold]
    fn is_not_destroyed(&mut self, peer: u32, error: &VerbsError, left: Left) {
        let needed = match error.kind() {
            ErrorKind::Busy => Needed::EndOfAccess,
            _ => Needed::QueuePair,
        };
        self.is_refused(peer, needed, error);
        if left == Left::WithAdapter {
            let id = self.rail_of(peer).id;
            self.adapter_failed(id);
        }
    }

    /// All queue pairs to peers fail, as they do where the device says so, and that of datagrams:
    /// for tests.
    pub fn break_connections(&self) {
        for port in self.all_rails().flat_map(|rail| &rail.ports) {
            let _ = port.ud.stop(QpState::Error);
        }
        for link in self.links.iter().flatten() {
            for queue in [&link.wire.queue, &link.long.lane.queue] {
                // One that cannot fail so has failed.
                let _ = queue.qp.as_ref().map(|qp| qp.stop(QpState::Error));
            }
        }
    }

    /// Whether the adapter of the connection to `peer` is in error, and is closed soon.
    fn has_failed_adapter(&mut self, peer: u32) -> bool {
        let rail = self.rail_of(peer);
        rail.is_closing || !rail.is_open
    }

    fn set_stage(&mut self, peer: u32, stage: Stage) {
        if let Some(fence) = &mut self.link(peer).wire.fence {
            fence.stage = stage;
        }
    }

    /// The queue pair is destroyed: what is left of the life is thrown away, and the session hears
    /// what was taken.
    fn end_fence(&mut self, peer: u32) {
        let rail = self.rail_of(peer);
        rail.numbers.forget_all_of(peer);
        let receives = &mut rail.receives;
        let (spent, parked) = (&mut receives.spent, &mut receives.parked);
        parked.retain(|arrived| {
            let stays = arrived.from != peer;
            if !stays {
                spent.push(arrived.index);
            }
            stays
        });
        while let Some(what) = self.link(peer).wire.queue.completed() {
            if let What::Buffer(buffer) = what {
                self.stages.give(buffer);
            }
        }
        self.moves.movers.retain(|mover| *mover != peer);
        self.close_channels(peer);
        let now = self.connect.now();
        let link = self.link(peer);
        (link.wire.fence, link.wire.takes_none) = (None, false);
        link.wire.id = 0;
        (link.wire.queue, link.wire.made_by) = (Queue::default(), None);
        link.words.clear();
        link.heads = Default::default();
        link.long.reads = 0;
        link.long.moving.clear();
        link.long.lane.fence();
        self.end_given_up(peer);
        let link = self.link(peer);
        (link.acks.is_log_full, link.acks.pending) = Default::default();
        link.acks.asked = None;
        let acknowledged = link.acks.log.acknowledged();
        let taken = Taken {
            received: Number(link.received),
            sent: Number(link.long.told.before),
            acknowledged: Number(acknowledged),
            landed: link.long.lane.landed(),
            keys: link.long.told.generation,
        };
        link.wire.session.fenced(taken, now);
    }

    /// Both channels are closed: blocks and mirrors go with the records in them. A new one is asked
    /// for as after the first message.
    fn close_channels(&mut self, peer: u32) {
        let link = self.link(peer);
        let acknowledged = link.acks.log.acknowledged();
        link.fast.out.fence();
        (link.fast.gate, link.fast.lull) = Default::default();
        if let Some(index) = link.fast.inbound.take() {
            self.blocks.inbounds[index as usize] = None;
        }
        self.blocks
            .returns
            .word(peer * 8)
            .store(fresh_return_word(acknowledged), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_errno_of_a_destruction_has_its_meaning() {
        for (errno, left) in [
            (libc::EBUSY, Left::Busy),
            (libc::ENOMEM, Left::Busy),
            (libc::EAGAIN, Left::Busy),
            (libc::EINVAL, Left::Nothing),
            (libc::ENOENT, Left::Nothing),
            (libc::EIO, Left::WithAdapter),
            (libc::EPERM, Left::WithAdapter),
        ] {
            assert_eq!(Left::of(errno, false, true), left, "{errno}");
        }
        // One that could not be brought into error may still be there.
        assert_eq!(Left::of(libc::EINVAL, false, false), Left::WithAdapter);
        // An adapter that has failed does nothing more; a peer's access has to end all the same.
        assert_eq!(Left::of(libc::EIO, true, false), Left::Nothing);
        assert_eq!(Left::of(libc::EBUSY, true, true), Left::Busy);
    }
}
