//! One side of a connection: its machine, what it has under way to its peer, and what an observer
//! of the wire knows of its credits.
//!
//! Owns: the state of two crossed queue pairs. Must not know: when something moves.

use crate::direct::Direct;
use crate::process::Hold;
use ferriband_putget_proto::{
    Config, Connection, DirectJob, Flags, Header, Job, Kind, Message, Segment,
};
use std::collections::VecDeque;

/// A message under way.
#[derive(Debug)]
pub(crate) struct Packet {
    pub bytes: Vec<u8>,
    pub solicited: bool,
    /// Its payload is taken again from these cells when it leaves; only where a fault is planted.
    pub late: Option<Late>,
    /// READs by leases before it have to have ended.
    pub fence: bool,
    /// It is no message but an operation by a lease.
    pub direct: Option<Box<Direct>>,
    /// The operation's end was told before it; only where a fault is planted.
    pub told: bool,
    /// It is what a put by a lease leaves at its target: immediate data, and the length.
    pub immediate: Option<(u32, u64)>,
}

impl Packet {
    pub const fn message(bytes: Vec<u8>, solicited: bool) -> Packet {
        Packet {
            bytes,
            solicited,
            late: None,
            fence: false,
            direct: None,
            told: false,
            immediate: None,
        }
    }
}

/// Cells whose values a planted fault takes too late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// The process whose they are.
    pub process: usize,
    pub first: usize,
    pub cells: usize,
}

/// An RDMA operation under way.
#[derive(Debug)]
pub(crate) struct Rdma {
    pub job: Job,
    pub writes: bool,
    pub hold: Hold,
    pub remote: Vec<Segment>,
    /// Cells that were moved, and all.
    pub moved: usize,
    pub cells: usize,
    /// Its completion was told before its end; only where a fault is planted.
    pub told: bool,
}

/// What a side's messages say, as an observer of the wire counts it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    /// Messages that this side has sent.
    pub sent: u64,
    /// Messages of the peer's that it has taken.
    pub taken: u64,
    /// Credits that it was given back.
    pub returned_in: u64,
    /// Credits that it has given back.
    pub returned_out: u64,
    /// Own requests that wait for a response.
    pub asked: u64,
    /// The peer's requests that it has taken and not yet answered.
    pub unanswered: u64,
}

/// A side of a connection: of process `from`, towards process `to`.
#[derive(Debug)]
pub(crate) struct Link {
    pub from: usize,
    pub to: usize,
    /// None while it is at work.
    pub machine: Option<Connection<Hold>>,
    pub config: Config,
    pub tally: Tally,
    /// Messages of this side on the wire.
    pub flying: VecDeque<Packet>,
    /// Messages of this side that have landed at the peer.
    pub arrived: VecDeque<Packet>,
    /// Receives of the peer's for this side's messages.
    pub receives: u16,
    /// Receives of the peer's that a planted fault posts late.
    pub receives_late: u16,
    /// RDMA of this side.
    pub jobs: Vec<Rdma>,
    pub job_room: usize,
    /// RDMA of this side that is over and was not looked at.
    pub completions: VecDeque<Job>,
    /// Operations by leases that were carried out, and whose ends were not told.
    pub answering: VecDeque<Direct>,
    /// Ends that were told and not looked at, with what was brought.
    pub direct_over: VecDeque<(DirectJob, Vec<u32>)>,
    /// Whether such an end wakes this side up.
    pub armed_for_direct: bool,
    /// The buffer that the peer has asked for and may be lent.
    pub wished: Option<usize>,
    /// Credits that a planted fault has given back before their time.
    pub forged: u16,
    /// Whether an unsolicited message of the peer's wakes this side up.
    pub armed_for_all: bool,
    /// Requests of this side in the order in which they were begun, that were not admitted.
    pub begun: VecDeque<usize>,
    /// Of the peer's requests, by number: whether their answer is solicited.
    pub solicits: Vec<bool>,
    pub failed: bool,
    /// When this side may hear of it at the earliest.
    pub heard_from: u64,
    pub told_lost: bool,
}

impl Link {
    pub fn new(from: usize, to: usize, config: Config, peer: Config, job_room: usize) -> Link {
        Link {
            from,
            to,
            machine: None,
            config,
            tally: Tally::default(),
            flying: VecDeque::new(),
            arrived: VecDeque::new(),
            receives: peer.receives,
            receives_late: 0,
            jobs: Vec::new(),
            job_room,
            completions: VecDeque::new(),
            answering: VecDeque::new(),
            direct_over: VecDeque::new(),
            armed_for_direct: false,
            wished: None,
            forged: 0,
            armed_for_all: false,
            begun: VecDeque::new(),
            solicits: vec![false; config.requests.into()],
            failed: false,
            heard_from: 0,
            told_lost: false,
        }
    }

    /// Its machine, between two steps.
    pub const fn machine(&self) -> &Connection<Hold> {
        self.machine.as_ref().expect("between two steps")
    }
}

/// Whether a request will be answered.
pub(crate) fn is_answered(header: &Header) -> bool {
    let asks = Flags::LONG | Flags::ACK;
    match header.kind {
        Kind::Put => header.flags.intersects(asks),
        Kind::Get | Kind::Exchange => true,
        _ => false,
    }
}

/// A message of a machine's, taken apart.
pub(crate) fn parse(bytes: &[u8]) -> Message<'_> {
    Message::parse(bytes).expect("a machine's own message")
}
