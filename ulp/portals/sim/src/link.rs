//! One side of a connection: its machine, and what it has under way to its peer.
//!
//! Owns: the state of two crossed queue pairs. Must not know: when something moves.

use crate::direct::Direct;
use ferriband_portals_process::Hold;
use ferriband_portals_proto::Piece;
use ferriband_putget_proto::{Config, Connection, DirectJob, Job, Segment};
use std::collections::VecDeque;
use std::rc::Weak;

/// How far a side is with its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Nobody,
    Asking,
    Joined,
}

/// A message under way, or an operation by a lease.
#[derive(Debug)]
pub(crate) struct Packet {
    pub bytes: Vec<u8>,
    pub solicited: bool,
    /// The last bytes are taken again from these pieces when it leaves; only where a fault is
    /// planted.
    pub late: Option<Vec<Piece>>,
    /// It leaves when all READs and atomic operations before it have ended.
    pub fence: bool,
    /// An operation by a lease, in place of a message.
    pub direct: Option<Box<Direct>>,
    /// The peer has put bytes by a lease that counts, in place of a message: the immediate data,
    /// how many, and the operation.
    pub immediate: Option<(u32, u64, usize)>,
}

impl Packet {
    pub const fn message(bytes: Vec<u8>, solicited: bool) -> Packet {
        Packet {
            bytes,
            solicited,
            late: None,
            fence: false,
            direct: None,
            immediate: None,
        }
    }
}

/// An RDMA operation under way.
#[derive(Debug)]
pub(crate) struct Rdma {
    pub job: Job,
    pub writes: bool,
    /// The operation that it is for.
    pub op: usize,
    pub local: Vec<Piece>,
    /// The registrations of these pieces.
    pub registered: Vec<Weak<Piece>>,
    pub remote: Vec<Segment>,
    /// Bytes that were moved, and all.
    pub moved: u64,
    pub length: u64,
    /// Its completion was told before its end; only where a fault is planted.
    pub told: bool,
}

/// A side of a connection: of process `from`, towards process `to`.
#[derive(Debug)]
pub(crate) struct Link {
    pub from: usize,
    pub to: usize,
    pub standing: Standing,
    /// None without a connection, and while it is at work.
    pub machine: Option<Connection<Hold>>,
    pub config: Config,
    /// Messages of this side on the wire.
    pub flying: VecDeque<Packet>,
    /// Messages of this side that have landed at the peer.
    pub arrived: VecDeque<Packet>,
    /// Receives of the peer's for this side's messages.
    pub receives: u16,
    pub jobs: Vec<Rdma>,
    pub job_room: usize,
    /// RDMA of this side that is over and was not looked at.
    pub completions: VecDeque<Job>,
    /// Leases that this side has given and that are not over: their tokens, and the memory.
    pub lent: Vec<(u64, Segment)>,
    /// Bytes up to which operations by leases go through buffers of the adapter.
    pub buffer_bytes: u64,
    /// Operations by leases that were carried out, and whose ends were not told.
    pub answering: VecDeque<Direct>,
    /// Ends that were told and not looked at, with what was brought.
    pub direct_over: VecDeque<(DirectJob, Vec<u8>)>,
    /// Whether such an end wakes this side up.
    pub armed_for_direct: bool,
    /// Credits that a planted fault has given back before their time.
    pub forged: u16,
    /// Whether an unsolicited message of the peer's wakes this side up.
    pub armed_for_all: bool,
    /// Own requests that are not answered.
    pub asked: u64,
    /// The connection is lost, and this side has not heard of it.
    pub failed: bool,
    /// When it may hear of it at the earliest.
    pub heard_from: u64,
}

impl Link {
    pub const fn new(
        (from, to): (usize, usize),
        config: Config,
        job_room: usize,
        buffer_bytes: u64,
    ) -> Link {
        Link {
            from,
            to,
            standing: Standing::Nobody,
            machine: None,
            config,
            flying: VecDeque::new(),
            arrived: VecDeque::new(),
            receives: 0,
            jobs: Vec::new(),
            job_room,
            completions: VecDeque::new(),
            lent: Vec::new(),
            buffer_bytes,
            answering: VecDeque::new(),
            direct_over: VecDeque::new(),
            armed_for_direct: false,
            forged: 0,
            armed_for_all: false,
            asked: 0,
            failed: false,
            heard_from: 0,
        }
    }

    /// A connection comes to be.
    pub fn join(&mut self, machine: Connection<Hold>, peer: Config) {
        self.standing = Standing::Joined;
        self.machine = Some(machine);
        self.receives = peer.receives;
        self.armed_for_all = false;
        self.armed_for_direct = false;
        self.forged = 0;
        self.asked = 0;
        self.failed = false;
    }

    /// The connection is over for this side.
    pub fn part(&mut self) {
        self.standing = Standing::Nobody;
        self.flying.clear();
        self.jobs.clear();
        self.completions.clear();
        self.answering.clear();
        self.direct_over.clear();
        self.failed = false;
    }

    /// Operations by leases of this side that are under way.
    pub fn directs(&self) -> usize {
        let is_direct = |packet: &&Packet| packet.direct.is_some();
        let flying = self.flying.iter().filter(is_direct).count();
        flying + self.answering.len() + self.direct_over.len()
    }
}
