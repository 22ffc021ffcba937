//! The receive queue: a bounded ring, allocated once, fed by post_recv or from a shared receive queue.
//!
//! Owns receives from posting (or from being taken off the shared queue) until their completion was polled.
//! Receives of one queue pair are used one after the other, so completions are read off the slots like those of the
//! send queue, and a full ring of unpolled completions refuses the next message instead of losing one (I13).

use crate::env::{Environment, SgeOwner, SharedReceive};
use crate::send_queue::PostError;
use crate::types::{Completion, QpCap, Sge, WcStatus};
use ferriband_wire::Qpn;

/// Slots of a queue pair that draws from a shared receive queue: bounds completions that were not polled.
const SHARED_SLOTS: u32 = 16;
/// Elements of a receive from a shared queue, at the most.
const SHARED_SGES: u32 = 32;

/// Where the completion of a receive goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletionTarget {
    /// The send completion queue.
    Send,
    /// The receive completion queue.
    Recv,
    /// The completion queue of this XRC shared receive queue.
    XrcSrq(u32),
}

#[derive(Clone, Copy, Debug)]
struct RecvWqe {
    num_sge: u16,
    owner: SgeOwner,
    /// Bytes that fit.
    capacity: u64,
    completion: Completion,
}

/// What a message finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acquire {
    /// A receive is in use now.
    Ready,
    /// None is posted.
    Empty,
    /// The named shared queue does not exist.
    NoSuchQueue,
    /// Completions must be polled first.
    Unpolled,
}

#[derive(Debug)]
pub(crate) struct RecvQueue {
    slots: Box<[RecvWqe]>,
    sges: Box<[Sge]>,
    scratch: Box<[Sge]>,
    max_wr: u32,
    max_sge: usize,
    shared: bool,
    head: u64,
    done: u64,
    tail: u64,
    /// The receive at `done` is in use by a message.
    active: bool,
}

impl RecvQueue {
    /// `shared`: receives come from a shared queue.
    pub fn new(cap: QpCap, shared: bool) -> Self {
        let (max_wr, max_sge) = if shared {
            (SHARED_SLOTS, SHARED_SGES as usize)
        } else {
            (cap.max_recv_wr, cap.max_recv_sge as usize)
        };
        let slots = if max_wr == 0 {
            0
        } else {
            max_wr.next_power_of_two() as usize
        };
        // Only the receive in use needs its elements when they come from a shared queue.
        let lists = if shared { 1 } else { slots };
        let empty = RecvWqe {
            num_sge: 0,
            owner: SgeOwner::QueuePair,
            capacity: 0,
            completion: Completion::default(),
        };
        RecvQueue {
            slots: vec![empty; slots].into(),
            sges: vec![Sge::default(); lists * max_sge].into(),
            scratch: vec![Sge::default(); if shared { max_sge } else { 0 }].into(),
            max_wr,
            max_sge,
            shared,
            head: 0,
            done: 0,
            tail: 0,
            active: false,
        }
    }

    fn slot(&self, index: u64) -> usize {
        index as usize & (self.slots.len() - 1)
    }

    fn list_start(&self, index: u64) -> usize {
        if self.shared {
            0
        } else {
            self.slot(index) * self.max_sge
        }
    }

    /// Receives posted and not in use: the credits of an acknowledgement. None: not counted.
    pub fn credits(&self) -> Option<u32> {
        let posted = self.tail - self.done - u64::from(self.active);
        (!self.shared).then_some(posted as u32)
    }

    pub fn post(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        if self.shared {
            return Err(PostError::NoReceiveQueue);
        }
        if sges.len() > self.max_sge {
            return Err(PostError::TooManySges {
                got: sges.len(),
                max: self.max_sge as u32,
            });
        }
        if self.tail - self.head >= u64::from(self.max_wr) {
            return Err(PostError::Full {
                capacity: self.max_wr,
            });
        }
        self.push(wr_id, sges, SgeOwner::QueuePair);
        Ok(())
    }

    fn push(&mut self, wr_id: u64, sges: &[Sge], owner: SgeOwner) {
        let start = self.list_start(self.tail);
        self.sges[start..start + sges.len()].copy_from_slice(sges);
        let slot = self.slot(self.tail);
        self.slots[slot] = RecvWqe {
            num_sge: sges.len() as u16,
            owner,
            capacity: sges.iter().map(|sge| u64::from(sge.length)).sum(),
            completion: Completion {
                wr_id,
                ..Completion::default()
            },
        };
        self.tail += 1;
    }

    /// Puts the next receive into use for a message. One already in use stays (a message that began anew).
    pub fn acquire(&mut self, env: &mut dyn Environment, xrc_srq: Option<u32>) -> Acquire {
        if self.active {
            return Acquire::Ready;
        }
        if self.shared {
            if self.tail - self.head >= u64::from(self.max_wr) {
                return Acquire::Unpolled;
            }
            match env.take_shared_receive(xrc_srq, &mut self.scratch) {
                SharedReceive::Taken { wr_id, num_sge } => {
                    let owner = SgeOwner::Srq(xrc_srq.unwrap_or(0));
                    let scratch = std::mem::take(&mut self.scratch);
                    self.push(wr_id, &scratch[..num_sge.min(self.max_sge)], owner);
                    self.scratch = scratch;
                }
                SharedReceive::Empty => return Acquire::Empty,
                SharedReceive::NoSuchQueue => return Acquire::NoSuchQueue,
            }
        } else if self.done == self.tail {
            return Acquire::Empty;
        }
        self.active = true;
        Acquire::Ready
    }

    /// Bytes that the receive in use holds.
    pub fn capacity(&self) -> u64 {
        debug_assert!(self.active);
        self.slots[self.slot(self.done)].capacity
    }

    /// Places bytes into the receive in use.
    pub fn scatter(
        &self,
        env: &mut dyn Environment,
        offset: u32,
        data: &[u8],
    ) -> Result<(), crate::env::MemoryError> {
        debug_assert!(self.active);
        let wqe = &self.slots[self.slot(self.done)];
        let start = self.list_start(self.done);
        env.scatter(
            wqe.owner,
            &self.sges[start..start + wqe.num_sge as usize],
            offset,
            data,
        )
    }

    /// Completes the receive in use. The caller fills in all but the identifier.
    pub fn complete(&mut self, completion: Completion) {
        debug_assert!(self.active);
        let slot = self.slot(self.done);
        let wr_id = self.slots[slot].completion.wr_id;
        self.slots[slot].completion = Completion {
            wr_id,
            ..completion
        };
        self.active = false;
        self.done += 1;
    }

    /// Completes everything with a flush error, the receive in use first (I11).
    #[cold]
    pub fn flush(&mut self, qpn: Qpn) {
        while self.done < self.tail {
            self.active = true;
            self.complete(Completion {
                status: WcStatus::WrFlushErr,
                opcode: crate::types::WcOpcode::Recv,
                qp_num: qpn.0,
                ..Completion::default()
            });
        }
    }

    /// Forgets everything (state Reset).
    pub fn clear(&mut self) {
        self.done = self.tail;
        self.head = self.tail;
        self.active = false;
    }

    pub fn poll(&mut self, xrc: bool) -> Option<(CompletionTarget, Completion)> {
        if self.head == self.done {
            return None;
        }
        let wqe = &self.slots[self.slot(self.head)];
        self.head += 1;
        let target = match wqe.owner {
            SgeOwner::Srq(number) if xrc => CompletionTarget::XrcSrq(number),
            _ => CompletionTarget::Recv,
        };
        Some((target, wqe.completion))
    }
}
