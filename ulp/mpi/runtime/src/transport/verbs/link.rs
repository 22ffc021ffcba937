//! The connection to one peer, by what it is for: the connection itself, records, acknowledgements,
//! what the last messages said, long messages, and those that go together.

use super::channel::Outbound;
use super::heal::{Fence, GivenUp, KeysTold, Refused, Replay, Second, Watched, Way};
use super::lane::Lane;
use super::queue::Queue;
use crate::transport::contract::Message;
use ferriband_heal::kept::Budget;
use ferriband_heal::{AdapterId, Endpoint, Lids, Ns, Path, PathId, Paths, Reach, Reading, Session};
use ferriband_mpi_proto::brief::Pattern;
use ferriband_mpi_proto::envelope::Envelope;
use ferriband_mpi_proto::fast::{Gate, Lull};
use ferriband_mpi_proto::replay::{self, PendingAck};
use std::collections::VecDeque;
use std::sync::Arc;

/// Until it is known.
const SHORTEST_MTU: u32 = 256;

/// A connection, or what will be one.
pub struct Link {
    /// The connection itself.
    pub wire: Wire,
    /// Records, in both directions.
    pub fast: Fast,
    /// What is not acknowledged, in both directions.
    pub acks: Acks,
    /// What the last messages said.
    pub heads: Heads,
    /// Long messages.
    pub long: Long,
    /// Messages that go together.
    pub together: Together,
    /// Number of the last message to the peer.
    pub sent: u32,
    /// Number of the last message from it.
    pub received: u32,
    /// What this rank has to say to it about the connection: goes before its messages.
    pub words: VecDeque<Message>,
}

/// The connection itself: how it comes about, and what is posted to it.
pub struct Wire {
    /// Its lives.
    pub session: Session,
    /// The paths to the peer.
    pub paths: Paths,
    /// Where the peer is.
    pub reach: Reach,
    /// When the card of the peer is read.
    pub reading: Reading,
    /// How datagrams go by the paths.
    pub ways: Vec<Way>,
    /// The adapter of its queue pair, or of what the peer knows of keys.
    pub on: Option<AdapterId>,
    /// That adapter, and the opening of it that keys are of.
    pub keyed_on: Option<(AdapterId, u32)>,
    /// By which port its queue pair was made, and with which LID and GID.
    pub made_by: Option<(AdapterId, u8)>,
    /// See [`Wire::made_by`].
    pub made_at: (u16, [u8; 16]),
    /// The path of the life, and its number.
    pub path: Path,
    /// Its number when the life began.
    pub by: Option<PathId>,
    /// The path to which the adapters go over by themselves,
    pub second: Option<Second>,
    /// and what the peer was told of own LIDs for that.
    pub lids: Lids,
    /// What looks for silence have found.
    pub watched: Watched,
    /// The PSN that its sends begin with.
    pub psn: u32,
    /// Whether it is among those that are looked after.
    pub is_setting_up: bool,
    /// What its session has to say waits for room.
    pub waits_to_say: bool,
    /// Its queue pair, once there is need, and what was posted to it.
    pub queue: Queue,
    /// Identifier of requests to the peer, with the life of the connection; 0: there is none.
    pub id: u64,
    /// The device has said that its queue pair takes no receive any more.
    pub takes_none: bool,
    /// The fence behind its last life, while that is under way.
    pub fence: Option<Fence>,
    /// What is sent again, in a life that has just begun.
    pub replay: Option<Box<Replay>>,
    /// The other end of that, once it is connected.
    pub end: Endpoint,
    /// Bytes of a packet's payload.
    pub mtu: u32,
    /// What its device refuses.
    pub refused: Option<Refused>,
    /// Why there is no connection any more.
    pub lost: Option<String>,
    /// The peer has died: it is told nothing more.
    pub is_dead: bool,
}

/// Records to and from the peer.
#[derive(Default)]
pub struct Fast {
    /// The way of records to the peer.
    pub out: Outbound,
    /// Whether it may be used.
    pub gate: Gate,
    /// The block here that the peer writes to, as index.
    pub inbound: Option<u32>,
    /// Whether the peer may be writing.
    pub lull: Lull,
}

/// What is not acknowledged, by the peer and to it.
#[derive(Default)]
pub struct Acks {
    /// Messages that the peer has not acknowledged.
    pub log: replay::Replay,
    /// A message waits until it has.
    pub is_log_full: bool,
    /// What the peer is not told that it has come.
    pub pending: PendingAck,
    /// The last message in this life behind which an acknowledgement was asked for.
    pub asked: Option<u32>,
}

/// What the last messages by SEND said, so that the next need not say it.
#[derive(Default)]
pub struct Heads {
    /// What the last plain message said that went whole by SEND.
    pub said: Option<Pattern>,
    /// What the last said that came so.
    pub heard: Option<Pattern>,
}

/// Long messages to and from the peer.
#[derive(Default)]
pub struct Long {
    /// Those with parts that are not posted yet.
    pub moving: VecDeque<u32>,
    /// READs that are under way.
    pub reads: u32,
    /// Bytes that were written there since it was last told of them at once.
    pub unreported: u64,
    /// The queue pair of those that go by one SEND.
    pub lane: Lane,
    /// What this side has told of keys, and the peer.
    pub told: KeysTold,
    /// Those that are given up.
    pub given_up: GivenUp,
    /// READs that may be under way.
    pub most_reads: u32,
}

/// Messages that go together.
#[derive(Default)]
pub struct Together {
    /// Messages posted since this rank last looked at the device.
    pub burst: u32,
    /// Bytes of the peer's receive buffers where messages to it go together; else 0.
    pub bundle: u32,
}

impl Link {
    /// None yet.
    pub fn new(session: Session, log: &Arc<Budget>, detect: Ns) -> Self {
        Self {
            wire: Wire {
                session,
                paths: Paths::default(),
                reach: Reach::default(),
                reading: Reading::default(),
                ways: Vec::new(),
                on: None,
                keyed_on: None,
                made_by: None,
                made_at: Default::default(),
                path: Path::default(),
                by: None,
                second: None,
                lids: Lids::default(),
                watched: Watched::after(detect),
                psn: 0,
                is_setting_up: false,
                waits_to_say: false,
                queue: Queue::default(),
                id: 0,
                takes_none: false,
                fence: None,
                replay: None,
                end: Endpoint::default(),
                mtu: SHORTEST_MTU,
                refused: None,
                lost: None,
                is_dead: false,
            },
            fast: Fast::default(),
            acks: Acks {
                log: replay::Replay::within(log),
                ..Acks::default()
            },
            heads: Heads::default(),
            long: Long::default(),
            together: Together::default(),
            sent: 0,
            received: 0,
            words: VecDeque::new(),
        }
    }

    /// This envelope has gone by SEND, or what of it is not known.
    #[inline]
    pub fn has_said(&mut self, envelope: &Envelope) {
        self.heads.said = Pattern::of(envelope).or(self.heads.said);
        self.acks.pending.told();
    }

    /// Whether nothing is under way, and nothing is to be sent again.
    pub fn is_quiet(&self) -> bool {
        let has_all = self.sent == self.acks.log.acknowledged();
        (has_all || self.is_ready())
            && self.wire.queue.is_quiet()
            && self.long.lane.is_quiet()
            && self.long.moving.is_empty()
            && self.words.is_empty()
    }

    /// Whether the peer can be sent to.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.wire.session.is_up()
    }

    /// Whether the peer is gone, however that is known.
    pub fn is_gone(&self) -> bool {
        self.wire.lost.is_some() || self.wire.is_dead
    }
}
