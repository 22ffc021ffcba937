//! What a rank knows of the others, and where it is in its program.

use super::wire::{Completion, Message};
use ferriband_heal::kept::Kept;
use ferriband_heal::{Epoch, Ns, Number, Path, PathId, Paths, Session};
use std::collections::{BTreeMap, VecDeque};

/// The connection to one peer.
pub struct Link {
    pub session: Session,
    pub paths: Paths,
    pub queue_pair: Option<usize>,
    pub log: Kept,
    /// Bundles that the log holds, by their buffer.
    pub staged: BTreeMap<u32, Message>,
    pub next_buffer: u32,
    /// The last number given.
    pub sent: Number,
    /// Messages of the program that have no number yet, and how many there were in all.
    pub queued: VecDeque<u64>,
    pub given: u64,
    /// The last number taken, and messages delivered.
    pub received: Number,
    pub delivered: u64,
    /// Messages taken and not acknowledged.
    pub unanswered: u32,
    /// A bundle of which a part is taken.
    pub in_hand: Option<Message>,
    /// The next number to be sent again, what the peer wants, and bytes that went.
    pub replay: Option<Number>,
    pub wanted: Number,
    pub replayed: u64,
    /// A fence is done at this time.
    pub fence: Option<Ns>,
    /// What a planted fault reads too early.
    pub early: Number,
    /// The question that went last.
    pub asked: Epoch,
    /// When lives began since the last message.
    pub begun: VecDeque<Ns>,
    pub is_lost: bool,
}

impl Link {
    pub fn new(session: Session, sent: Number, received: Number, paths: u8) -> Self {
        let mut table = Paths::default();
        let path = |dlid| Path {
            dlid,
            ..Path::default()
        };
        table.renew(&(1..=u16::from(paths)).map(path).collect::<Vec<_>>());
        Self {
            session,
            paths: table,
            queue_pair: None,
            log: Kept::behind(sent),
            staged: BTreeMap::new(),
            next_buffer: 0,
            sent,
            queued: VecDeque::new(),
            given: 0,
            received,
            delivered: 0,
            unanswered: 0,
            in_hand: None,
            replay: None,
            wanted: received,
            replayed: 0,
            fence: None,
            early: received,
            asked: Epoch::NONE,
            begun: VecDeque::new(),
            is_lost: false,
        }
    }

    /// The peer has taken all up to this number.
    pub fn acknowledge(&mut self, number: Number) {
        if self.log.acknowledge(number.0, self.sent.0) {
            self.begun.clear();
        }
        while let Some(buffer) = self.log.released() {
            self.staged.remove(&buffer);
        }
    }
}

/// A step of a program.
#[derive(Clone, Debug)]
pub enum Task {
    /// Sends a message to this rank.
    Send(usize),
    /// Computes for so long.
    Compute(u64),
    /// Waits until so many have come in all from each rank.
    Await(Vec<u64>),
}

pub struct Rank {
    pub links: Vec<Link>,
    /// Datagrams that have come, with their path.
    pub inbox: VecDeque<(PathId, Vec<u8>)>,
    pub completions: VecDeque<(usize, Completion)>,
    pub program: VecDeque<Task>,
    /// It computes or is stopped.
    pub away_until: Ns,
    pub is_dead: bool,
    /// Until then its adapter cannot be used.
    pub adapter_at: Ns,
    /// When it goes on.
    pub turn_at: Option<Ns>,
}
