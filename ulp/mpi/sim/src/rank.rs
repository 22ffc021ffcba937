//! What a rank knows of the others, and where it is in its program.

use crate::wire::{Body, Memory, Message};
use ferriband_mpi_proto::fast::{AnyReceiver, AnySender, Gate, Lull, Plan};
use std::collections::VecDeque;

/// A block that a peer writes to.
pub struct Inbound {
    pub receiver: AnyReceiver,
    pub memory: Memory,
    pub life: u32,
    pub is_closing: bool,
    /// Credit found no room in the queue.
    pub owes: bool,
}

/// The way from a peer.
#[derive(Default)]
pub struct From {
    pub inbound: Option<Inbound>,
    pub lull: Lull,
    /// Number of the last message that was taken.
    pub received: u32,
    /// Number of the last message that the program has got.
    pub delivered: u32,
}

/// Whether a peer's block may be written to.
#[derive(Default)]
pub enum Channel {
    #[default]
    Closed,
    Opening(Plan),
    Open(AnySender),
}

/// The way to a peer.
#[derive(Default)]
pub struct To {
    pub channel: Channel,
    pub life: u32,
    pub gate: Gate,
    pub mirror: Vec<u8>,
    /// The word that the peer returns credit to.
    pub returned: u64,
    pub sent: u32,
    /// What nothing can take now.
    pub waiting: VecDeque<Body>,
}

/// A step of a program.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Sends a message to this rank.
    Send(usize),
    /// Waits until so many messages have come in all.
    Await(u64),
}

/// How far a rank is on its way to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Awake,
    /// It computes, and does so until nothing else happens any more.
    Away,
    /// It has asked its senders to stop; whether all had.
    Asked(bool),
    /// The device will say when something comes.
    Armed(bool),
    /// Asleep, without bound or for a while.
    Asleep(bool),
}

pub struct Rank {
    pub from: Vec<From>,
    pub to: Vec<To>,
    /// Messages that have come by SEND.
    pub queue: VecDeque<(usize, Message)>,
    pub is_armed: bool,
    /// The device has said that something came.
    pub has_event: bool,
    pub phase: Phase,
    pub program: VecDeque<Task>,
    /// Messages that its program has got.
    pub got: u64,
}

impl Rank {
    pub fn new(ranks: usize) -> Self {
        Self {
            from: (0..ranks).map(|_| From::default()).collect(),
            to: (0..ranks).map(|_| To::default()).collect(),
            queue: VecDeque::new(),
            is_armed: false,
            has_event: false,
            phase: Phase::Awake,
            program: VecDeque::new(),
            got: 0,
        }
    }

    /// Takes the steps of the program that are over.
    pub fn advance(&mut self) {
        while let Some(Task::Await(count)) = self.program.front() {
            if self.got < *count {
                return;
            }
            self.program.pop_front();
        }
    }

    /// Something has come, or room has.
    pub fn hear(&mut self) {
        if self.is_armed {
            self.is_armed = false;
            self.has_event = true;
        }
    }
}
