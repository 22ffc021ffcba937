//! The state of MPI in this process.

use crate::collective::choose::Kept;
use crate::collective::comm_state::CommStates;
use crate::collective::exec::Execution;
use crate::collective::rounds::Calls;
use crate::collective::shared::Given;
use crate::constants::{MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL};
use crate::errors::Outcome;
use crate::ground::sleepers::Sleepers;
use crate::handle::{Kind, NOBODY, Slab};
use crate::host::{self, Awaited, Host, Inlet, LargePages, Outlet, Pair, Source};
use crate::net::{self, Net};
use crate::objects::Objects;
use crate::objects::comms::{SELF, WORLD};
use crate::p2p::buffered::Buffers;
use crate::p2p::deliver::Held;
use crate::request::{Request, Work};
use crate::settings::Job;
use crate::transport::contract::Queued;
use crate::transport::polling::Polling;
use crate::transport::shm::ways::Ways;
use crate::transport::sizes::Sizes;
use std::collections::{HashMap, VecDeque};

/// Everything that this process knows.
pub struct Runtime {
    /// Rank in the world.
    pub rank: u32,
    /// The other ranks of the host; none if this process is alone.
    pub host: Option<Host>,
    /// Ranks that are reached by verbs; none if no rank is.
    pub net: Option<Box<Net>>,
    /// Communicators, datatypes and what else the program has handles of.
    pub objects: Objects,
    /// Requests.
    pub requests: Slab<Request>,
    /// Messages that wait for their receive.
    pub held: Slab<Held>,
    /// Those of them that MPI_Mprobe has taken out: the communicator.
    pub probed: HashMap<u32, u32>,
    /// The buffers of buffered messages.
    pub buffers: Buffers,
    /// What concerns one other rank, by rank in the world.
    pub peers: Vec<Peer>,
    /// Channels to this process, in the order of their opening.
    pub inlets: Vec<Inbound>,
    /// Which of them are looked at in each round.
    pub polling: Polling,
    /// Peers with messages that wait for room.
    pub stalled: Vec<u32>,
    /// Ranks of this host that have been offered long messages, and how many of them are not over.
    pub offered: Vec<(u32, u32)>,
    /// Long buffers, which the kernel may put into large pages.
    pub pages: LargePages,
    /// Which way long messages of this host come.
    pub ways: Ways,
    /// Messages of a context that is not known yet.
    pub orphans: VecDeque<(u64, Held)>,
    /// The request of everything that was over at once.
    pub nothing: u32,
    /// Its handle.
    pub over: i32,
    /// Receives that are over and that nobody knows, for the next ones.
    pub spares: Vec<u32>,
    /// The request that a call waits for, or [`NOBODY`]: a round may end once it is over.
    pub awaited: u32,
    /// Deaths that the launcher has told of.
    pub losses: u32,
    /// Threads that wait.
    pub sleepers: Sleepers,
    /// It was over since the round began.
    pub satisfied: bool,
    /// Requests that are over, of all that there were.
    pub ended: u32,
    /// Collectives under way.
    pub executions: Vec<Box<Execution>>,
    /// Functions of the program that they have come to.
    pub calls: Calls,
    /// Schedules that were used last.
    pub schedules: Kept,
    /// What collectives keep for each communicator.
    pub comm_states: CommStates,
    /// Memory for collectives that this process has given to communicators.
    pub given: Given,
    /// Flags of such memory that calls wait for: of several threads each one.
    pub flags: Vec<Awaited>,
    /// What was set.
    pub settings: Settings,
    /// Calls that only ask, one after the other, that have found nothing new.
    pub asked_in_vain: u32,
}

/// What was set, by the room that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lengths of messages.
    pub sizes: Sizes,
    /// Long messages of one host.
    pub shm: host::limits::Limits,
    /// Messages by verbs.
    pub verbs: net::limits::Limits,
    /// The job.
    pub job: Job,
}

/// One other rank.
#[derive(Default)]
pub struct Peer {
    /// Number of the last message to it.
    pub sent: u32,
    /// Number of the last message from it.
    pub received: u32,
    /// Whether it is reached by verbs, and not by memory that both share.
    pub by_verbs: bool,
    /// The channel to it.
    pub outlet: Option<Outlet>,
    /// The places by which messages are exchanged with it.
    pub places: Option<Pair>,
    /// It has died, and the others go on.
    pub lost: bool,
    /// The channel from it, as index.
    pub inlet: Option<u32>,
    /// Messages that nothing can take now, in order.
    pub fifo: VecDeque<Queued>,
    /// Synchronous messages on their way: number and request.
    pub synchronous: Vec<(u32, u32)>,
    /// Messages that are being taken back: number and request.
    pub recalled: Vec<(u32, u32)>,
}

/// A channel to this process.
pub struct Inbound {
    /// Rank in the world.
    pub from: u32,
    /// Its end here.
    pub inlet: Inlet,
}

impl Runtime {
    /// For a process that is rank of the world's `host`, or alone.
    pub fn new(host: Option<Host>, settings: Settings) -> Outcome<Self> {
        let (rank, size) = host
            .as_ref()
            .map_or((0, 1), |host| (host.me(), host.ranks()));
        let mut runtime = Self {
            rank,
            host,
            net: None,
            objects: Objects::new(rank, size)?,
            requests: Slab::new(Kind::Request),
            held: Slab::new(Kind::Message),
            probed: HashMap::new(),
            buffers: Buffers::default(),
            peers: (0..size).map(|_| Peer::default()).collect(),
            inlets: Vec::new(),
            polling: Polling::new(),
            stalled: Vec::new(),
            offered: Vec::new(),
            orphans: VecDeque::new(),
            nothing: 0,
            over: 0,
            spares: Vec::new(),
            awaited: NOBODY,
            losses: 0,
            sleepers: Sleepers::default(),
            satisfied: false,
            ended: 0,
            executions: Vec::new(),
            calls: Calls::new(),
            schedules: Kept::default(),
            comm_states: CommStates::new(SELF + 1),
            given: Given::default(),
            flags: Vec::new(),
            pages: LargePages::new(settings.shm.large_pages),
            ways: Ways::default(),
            settings,
            asked_in_vain: 0,
        };
        let mut nothing = Request::send(Work::Nothing, WORLD, 0, rank, Source::EMPTY);
        nothing.done = true;
        runtime.nothing = runtime.add_request(nothing)?;
        runtime.over = runtime.requests.handle(runtime.nothing);
        Ok(runtime)
    }

    /// Keeps the launcher's knowledge of whether an error of the world ends this rank.
    pub fn note_fatal(&self) {
        if let Some(host) = &self.host {
            let handler = self.objects.comms[WORLD].errhandler;
            host.set_fatal([MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT].contains(&handler));
        }
    }
}
