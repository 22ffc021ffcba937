//! What a rank knows of the others, and where it is in its program.

use super::device::{Device, Flight, Happening};
use super::roads::{Inbound, Lane, Outbound};
use super::wire::{Body, Completion, Message};
use ferriband_heal::kept::Kept;
use ferriband_heal::{
    AdapterStep, Adapters, Epoch, Log, Ns, Number, Paths, Probes, Reach, Reading, Session, State,
};
use ferriband_mpi_proto::brief::Pattern;
use ferriband_mpi_proto::fast::Lull;
use ferriband_mpi_proto::resume::{Doubt, Keys, Moving, Resume, Under};
use std::collections::{BTreeMap, VecDeque};

/// A copy in the log: its number, what it says, and the credit that its envelope told.
pub type Copied = (u32, Body, u32);

/// A long message under way.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub letter: usize,
    pub kind: Moving,
    pub length: u32,
    pub next: u32,
    pub done: u32,
    pub fin: Option<Number>,
    pub lane: u32,
    pub told: Number,
    /// The message in whose memory the peer's key lies.
    pub memory: usize,
    /// Generation of that key; none: it is void.
    pub key: Option<u16>,
    /// And of the own one.
    pub keys: u16,
    /// The program's memory is not there: only that is sent.
    pub is_error: bool,
    /// Whether it is not, of which an adapter has said so.
    pub doubt: Doubt,
}

/// A message that has not met its receive.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub letter: usize,
    pub told: Number,
    /// The message in whose memory the key lies.
    pub memory: usize,
    pub key: Option<u16>,
    /// Its sender has given it up.
    pub is_over: bool,
}

/// A key that the peer was told, or the receive of a lane: with which message, and the generation
/// of keys then.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub told: Number,
    pub keys: u16,
    /// The program has given it up.
    pub is_over: bool,
    /// It is to land: there is no key.
    pub lands: bool,
}

/// The connection to one peer.
pub struct Link {
    pub session: Session,
    pub paths: Paths,
    pub reach: Reach,
    pub probes: Probes,
    /// What the session was last seen in, since when, and when the heal under way began.
    pub seen: State,
    pub since: Ns,
    pub began: Option<Ns>,
    /// When the peer's card is read.
    pub reading: Reading,
    /// When a probe or its answer was last lost or late by chance.
    pub probe_lost: Option<Ns>,
    /// The adapter that the keys of today are of, and its opening.
    pub keyed_on: Option<(usize, u32)>,
    pub queue_pair: Option<usize>,
    pub log: Kept,
    /// What the log has copies of, and what it holds by buffer.
    pub copies: VecDeque<Copied>,
    pub staged: BTreeMap<u32, Message>,
    pub next_buffer: u32,
    /// The last number given.
    pub sent: Number,
    /// What has no number yet, and messages of the program that there were in all.
    pub fifo: VecDeque<Body>,
    pub given: u64,
    /// The last number taken, and messages of the program.
    pub received: Number,
    pub delivered: u64,
    /// Messages taken and not acknowledged.
    pub unanswered: u32,
    /// A message of which a part is taken.
    pub in_hand: Option<Message>,
    pub resume: Option<Resume>,
    pub wanted: Number,
    /// The next number to go again.
    pub again: Number,
    pub replayed: u64,
    /// A fence is done at this time.
    pub fence: Option<Ns>,
    /// What a planted fault reads too early.
    pub early: Number,
    /// Completions of a queue pair that is no more: of a planted fault.
    pub stale: Vec<Completion>,
    /// The question that went last.
    pub asked: Epoch,
    /// When lives began since the last message.
    pub begun: VecDeque<Ns>,
    pub is_lost: bool,
    /// When a message last had room, or a sign of life was last asked for.
    pub probed: Ns,
    /// What went last with an envelope of its own, and what came.
    pub head: Option<Pattern>,
    pub pattern: Option<Pattern>,
    pub transfers: BTreeMap<u32, Transfer>,
    pub moving: VecDeque<u32>,
    pub next_transfer: u32,
    pub held: Vec<Held>,
    /// What the peer has named anew of messages that have not met their receives, by their names:
    /// the message that it was, and its key; none: it is over.
    pub renewed: BTreeMap<u32, (usize, Option<u16>)>,
    pub offers: BTreeMap<usize, Offer>,
    /// Messages that the program gives up, although bytes may be on their way.
    pub given_up: Vec<usize>,
    /// Keys that the peer knows are to be void before the next life begins.
    pub voids_keys: bool,
    /// What is known of the peer's keys; generation of the own ones, and the last number before.
    pub keys: Keys,
    pub own_keys: u16,
    pub keyed: Number,
    pub lane: Lane,
    pub out: Outbound,
    pub inbound: Option<Inbound>,
    pub lull: Lull,
}

impl Link {
    pub fn new(session: Session, sent: Number, received: Number) -> Self {
        Self {
            session,
            paths: Paths::default(),
            reach: Reach::default(),
            probes: Probes::default(),
            seen: State::Idle,
            since: Ns(0),
            began: None,
            reading: Reading::default(),
            probe_lost: None,
            keyed_on: None,
            queue_pair: None,
            log: Kept::behind(sent),
            copies: VecDeque::new(),
            staged: BTreeMap::new(),
            next_buffer: 0,
            sent,
            fifo: VecDeque::new(),
            given: 0,
            received,
            delivered: 0,
            unanswered: 0,
            in_hand: None,
            resume: None,
            wanted: received,
            again: received,
            replayed: 0,
            fence: None,
            early: received,
            stale: Vec::new(),
            asked: Epoch::NONE,
            begun: VecDeque::new(),
            is_lost: false,
            probed: Ns(0),
            head: None,
            pattern: None,
            transfers: BTreeMap::new(),
            moving: VecDeque::new(),
            next_transfer: 1 << 31,
            held: Vec::new(),
            renewed: BTreeMap::new(),
            offers: BTreeMap::new(),
            given_up: Vec::new(),
            voids_keys: false,
            keys: Keys::default(),
            own_keys: 0,
            keyed: sent,
            lane: Lane::default(),
            out: Outbound::behind(sent),
            inbound: None,
            lull: Lull::default(),
        }
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.log.bytes() == 0 && self.transfers.is_empty() && self.fifo.is_empty()
    }

    /// What is under way, as a replay must know it.
    pub fn under(&self) -> Vec<Under> {
        let transfers = self.transfers.iter().map(|(id, one)| Under {
            transfer: *id,
            kind: one.kind,
            done: one.done.into(),
            fin: one.fin,
            lane: one.lane,
            told: one.told,
            keys: one.keys,
        });
        let nothing = Under {
            transfer: 0,
            kind: Moving::Held,
            done: 0,
            fin: None,
            lane: 0,
            told: Number(0),
            keys: self.own_keys,
        };
        let held = self.held.iter().map(|one| Under {
            transfer: one.letter as u32,
            told: one.told,
            ..nothing
        });
        let offers = self.offers.iter();
        let offers = offers.filter(|(_, one)| !one.lands || one.is_over);
        let offers = offers.map(|(letter, one)| Under {
            transfer: *letter as u32,
            kind: Moving::Offered,
            told: one.told,
            keys: one.keys,
            ..nothing
        });
        let nobody = Number(u32::MAX);
        let landings = self.lane.landing.iter().map(|letter| Under {
            transfer: *letter as u32,
            kind: Moving::Landing,
            told: nobody,
            ..nothing
        });
        transfers
            .chain(held)
            .chain(offers)
            .chain(landings)
            .collect()
    }

    /// The peer is lost: nothing of what was for it is kept.
    pub fn forget(&mut self) {
        self.is_lost = true;
        self.fifo.clear();
        self.transfers.clear();
        self.moving.clear();
        self.held.clear();
        self.renewed.clear();
        self.offers.clear();
        self.given_up.clear();
        self.lane = Lane::default();
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
    /// MPI_Finalize.
    Finalize,
}

pub struct Rank {
    pub links: Vec<Link>,
    /// Datagrams that have come.
    pub inbox: VecDeque<Flight>,
    /// Its adapters as they are, and as it knows them; what they have told: adapter, opening, what.
    pub devices: Vec<Device>,
    pub adapters: Adapters,
    pub events: VecDeque<(usize, u32, Happening)>,
    /// Adapters that are to be closed.
    pub closing: Vec<bool>,
    /// Serial of its card, which is to be written anew.
    pub serial: u32,
    pub is_changed: bool,
    /// What a planted fault has to do.
    pub steps: VecDeque<AdapterStep>,
    /// Its process is stopped until then, its echo with it.
    pub stopped_until: Ns,
    /// Its program has finalised: it waits for acknowledgements; and all are there; and it has
    /// left.
    pub is_closing: bool,
    pub is_quiet: bool,
    pub is_over: bool,
    pub completions: VecDeque<(usize, Completion)>,
    pub program: VecDeque<Task>,
    /// It computes or is stopped.
    pub away_until: Ns,
    pub is_dead: bool,
    /// When it goes on.
    pub turn_at: Option<Ns>,
    /// How long it sleeps while somebody may write to a block of its.
    pub nap_ns: u64,
}
