//! Requests that came before their turn: kept behind a gap until it is filled, so that a loss costs one packet again and
//! not everything that was sent after it.
//!
//! The wire stays that of IBA 9.7: the responder executes in PSN order, reports a gap once with a NAK, and acknowledges
//! what it has executed. It only need not hear again what it has heard. (Further gaps are told, to those who listen, by a packet of our own: `gaps`.) Owns marks of what has found its place already, and copies of other packets, bounded in number for each
//! queue pair and in bytes for all together: a stranger who guesses a queue pair must not fill this side's memory.

use ferriband_wire::{Headers, Packet, Psn};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Packets that one queue pair keeps beyond its gap, at the most.
const MOST: u32 = 1024;
/// Places that an idle queue pair may keep for the next gap.
const SPARE: usize = 512;
/// What a kept packet takes beside its payload.
const OVERHEAD: usize = size_of::<HeldPacket>() + 32;

/// Bytes that all queue pairs which share it may keep behind gaps.
#[derive(Debug)]
pub struct HoldBudget {
    left: AtomicUsize,
}

impl HoldBudget {
    /// Of so many bytes.
    pub const fn new(bytes: usize) -> Self {
        HoldBudget {
            left: AtomicUsize::new(bytes),
        }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Two are equal if they are the same.
impl PartialEq for HoldBudget {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for HoldBudget {}

/// A packet out of its turn.
#[derive(Debug)]
pub(super) struct HeldPacket {
    headers: Headers,
    payload: Box<[u8]>,
}

impl HeldPacket {
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            headers: self.headers,
            payload: &self.payload,
        }
    }

    fn bytes(&self) -> usize {
        self.payload.len() + OVERHEAD
    }
}

/// What is known of a PSN beyond the gap.
#[derive(Debug)]
pub(super) enum Early {
    /// Its bytes are where they belong; `ack_req` as it came.
    Placed {
        /// It asked for an acknowledgement.
        ack_req: bool,
    },
    /// It waits to be executed.
    Kept(Box<HeldPacket>),
}

/// The packets behind a gap.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// By distance from the expected PSN, which is the first's. Empty, unless a packet is kept.
    slots: VecDeque<Option<Early>>,
    count: u32,
    budget: Option<&'static HoldBudget>,
}

impl Held {
    /// None: nothing is kept.
    pub fn new(budget: Option<&'static HoldBudget>) -> Self {
        Held {
            slots: VecDeque::new(),
            count: 0,
            budget,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// PSNs from the expected one to the farthest that was kept; 0 if none is.
    pub fn reach(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Whether there is room for a packet `ahead` PSNs beyond the expected one, and it is not there already.
    pub fn wants(&self, ahead: u32) -> bool {
        self.budget.is_some()
            && ahead < MOST
            && !self.slots.get(ahead as usize).is_some_and(Option::is_some)
    }

    /// Keeps a packet that it wants. False if the budget is spent.
    pub fn keep(&mut self, ahead: u32, packet: &Packet<'_>) -> bool {
        let bytes = packet.payload.len() + OVERHEAD;
        if !self.budget.is_some_and(|budget| budget.take(bytes)) {
            return false;
        }
        let kept = HeldPacket {
            headers: packet.headers,
            payload: packet.payload.into(),
        };
        self.put(ahead, Early::Kept(Box::new(kept)));
        true
    }

    /// Marks a packet that it wants as placed.
    pub fn placed(&mut self, ahead: u32, ack_req: bool) {
        self.put(ahead, Early::Placed { ack_req });
    }

    fn put(&mut self, ahead: u32, early: Early) {
        let index = ahead as usize;
        self.count += 1;
        match self.slots.get_mut(index) {
            Some(slot) => *slot = Some(early),
            None => {
                if index > self.slots.len() {
                    self.slots.resize_with(index, || None);
                }
                self.slots.push_back(Some(early));
            }
        }
    }

    /// The packet of the expected PSN has arrived.
    pub fn is_ready(&self) -> bool {
        self.count > 0 && self.slots.front().is_some_and(Option::is_some)
    }

    /// How many from the expected one on are placed, in a row, and whether one of them asked for an acknowledgement.
    pub fn placed_run(&self) -> (u32, bool) {
        let mut run = (0, false);
        for early in &self.slots {
            let Some(Early::Placed { ack_req }) = early else {
                break;
            };
            run = (run.0 + 1, run.1 | ack_req);
        }
        run
    }

    /// Takes it. A packet stays counted until [`Self::let_go`].
    pub fn take(&mut self) -> Option<Early> {
        let taken = self.slots.front_mut()?.take();
        self.count -= u32::from(taken.is_some());
        taken
    }

    /// Puts back what [`Self::take`] gave: it could not be executed yet.
    pub fn put_back(&mut self, packet: Box<HeldPacket>) {
        if let Some(front) = self.slots.front_mut() {
            *front = Some(Early::Kept(packet));
            self.count += 1;
        }
    }

    /// A taken packet was executed or refused.
    pub fn let_go(&mut self, packet: &HeldPacket) {
        if let Some(budget) = self.budget {
            budget.give_back(packet.bytes());
        }
    }

    /// The expected PSN has moved on by so many.
    pub fn advance(&mut self, psns: u32) {
        if self.slots.is_empty() {
            return;
        }
        let gone = self.slots.len().min(psns as usize);
        for early in self.slots.drain(..gone).flatten() {
            self.count -= 1;
            if let (Early::Kept(packet), Some(budget)) = (early, self.budget) {
                budget.give_back(packet.bytes());
            }
        }
        if self.count == 0 {
            self.slots.clear();
            if self.slots.capacity() > SPARE {
                self.slots = VecDeque::new();
            }
        }
    }

    /// Nothing is kept any more.
    pub fn clear(&mut self) {
        self.advance(Psn::MODULUS);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}
