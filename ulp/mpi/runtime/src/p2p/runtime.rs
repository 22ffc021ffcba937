//! The state of MPI in this process.

use crate::attr::{Attributes, Keyvals};
use crate::collective::choose::Kept;
use crate::collective::exec::Execution;
use crate::collective::shared::{Given, Sharing};
use crate::comm::{COLLECTIVE, Comm, context, side_context};
use crate::constants::{
    MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_OTHER, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
};
use crate::crew::Crew;
use crate::errors::{MpiError, Outcome};
use crate::group::{Group, Known};
use crate::handle::{Kind, Slab};
use crate::host::{Awaited, Host, Inlet, LargePages, Outlet, Pair, Source};
use crate::nearby::Ways;
use crate::net::Net;
use crate::operation::{self, Calls, Operations};
use crate::p2p::buffered::Buffers;
use crate::pace::Pace;
use crate::process::process;
use crate::request::{Request, Work};
use crate::settings::{Fast, Rendezvous};
use crate::types::{Renamed, Type};
use ferriband_mpi_data::F90;
use ferriband_mpi_proto::envelope;
use std::collections::{HashMap, VecDeque};

/// Everything that this process knows.
pub struct Runtime {
    /// Rank in the world.
    pub rank: u32,
    /// The other ranks of the host; none if this process is alone.
    pub host: Option<Host>,
    /// Ranks that are reached by verbs; none if no rank is.
    pub net: Option<Box<Net>>,
    /// Communicators; the world is at 0, the process itself at 1.
    pub comms: Slab<Comm>,
    /// Requests.
    pub requests: Slab<Request>,
    /// Messages that wait for their receive.
    pub held: Slab<Held>,
    /// Those of them that MPI_Mprobe has taken out: the communicator.
    pub probed: HashMap<u32, u32>,
    /// The buffers of buffered messages.
    pub buffers: Buffers,
    /// Derived datatypes.
    pub types: Slab<Type>,
    /// Groups that the program has.
    pub groups: Slab<Known>,
    /// Sessions of the program.
    pub sessions: Slab<crate::edge::Session>,
    /// Keys of attributes.
    pub keyvals: Keyvals,
    /// Names that the program gave to predefined ones.
    pub renamed: Renamed,
    /// Handles of the datatypes of Fortran's kinds.
    pub f90: HashMap<F90, i32>,
    /// Operations of the program.
    pub ops: Operations,
    /// Attributes that the program has set on predefined datatypes.
    pub named_attributes: HashMap<i32, Attributes>,
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
    pub crew: Crew,
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
    /// Memory for collectives that this process has given to communicators.
    pub given: Given,
    /// Flags of such memory that calls wait for: of several threads each one.
    pub flags: Vec<Awaited>,
    /// What was set.
    pub settings: Settings,
    /// Communicators by their contexts.
    pub contexts: HashMap<u64, u32>,
    /// Communicators that the program has freed and something still concerns.
    doomed: Vec<u32>,
    /// The context that was asked for last, and its communicator.
    pub last: (u64, u32),
    next_context: u32,
    /// Calls that only ask, one after the other, that have found nothing new.
    pub asked_in_vain: u32,
}

/// What holds for the process's life.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Longest message that is sent unasked, in bytes.
    pub eager: usize,
    /// The same by memory that ranks share, as far as a block takes it.
    pub eager_near: usize,
    /// Bytes of the shortest message that goes by a place of the pair, which another line, the record's, is worth.
    pub swap: usize,
    /// The same as `eager` by packets of our adapter.
    pub eager_packets: usize,
    /// Rounds without news before the core is given away.
    pub spins: u32,
    /// Whether long messages are read from the sender's memory; cleared when the kernel refuses.
    pub reads_peers: bool,
    /// Bytes of the shortest message on one host that both sides copy; none: no message is, or the kernel refuses.
    pub both_copy: Option<u64>,
    /// Bytes of the shortest message on one host whose buffers the kernel is asked to put into large pages; none: no message's are.
    pub large_pages: Option<u64>,
    /// Who moves long messages by verbs.
    pub rendezvous: Rendezvous,
    /// Short messages that go to a rank by packets at once before others wait to go together; 0: all do.
    pub bundle: u32,
    /// Bytes of a READ or WRITE of a long message.
    pub piece: usize,
    /// The fast path by verbs.
    pub fast: Fast,
    /// Whether messages by verbs are kept until they are acknowledged.
    pub acks: bool,
    /// Whether MPI_Finalize tells what has gone which way.
    pub stats: bool,
    /// MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE.
    pub threads: i32,
    /// Which of the job's programs this is.
    pub program: u32,
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
    /// How fast long messages are copied into it.
    pub pace: Pace,
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

/// A message that waits for room.
pub struct Queued {
    /// What it is.
    pub kind: envelope::Kind,
    /// Flags of its envelope.
    pub flags: u8,
    /// Tag of its envelope.
    pub tag: i32,
    /// Context of its envelope.
    pub context: u64,
    /// The body's part that is not the program's.
    pub body: Body,
    /// The program's part.
    pub source: Source,
    /// The request that it belongs to.
    pub request: Option<u32>,
}

/// The part of a message's body that is not the program's: 48 bytes at most.
#[derive(Clone, Copy)]
pub struct Body {
    bytes: [u8; 48],
    length: u8,
}

impl Body {
    /// None.
    pub const EMPTY: Self = Self {
        bytes: [0; 48],
        length: 0,
    };

    /// Copies `bytes`, 48 at most.
    pub fn new(bytes: &[u8]) -> Self {
        let mut body = Self::EMPTY;
        body.bytes[..bytes.len()].copy_from_slice(bytes);
        body.length = bytes.len() as u8;
        body
    }

    /// What was copied.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A message that has come and waits for its receive.
pub struct Held {
    /// Rank of the sender in the world.
    pub from: u32,
    /// Its tag.
    pub tag: i32,
    /// Its bytes, or where they are.
    pub content: Content,
    /// Its number among those of its sender.
    pub seq: u32,
    /// The number to name in the answer if the sender waits for the match.
    pub synchronous: Option<u32>,
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Where it begins there.
    pub address: u64,
    /// Key for requests; 0 on one host, where none is needed.
    pub rkey: u32,
}

/// How a long message can be had from its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It can be read there.
    Readable(Place),
    /// It has to be asked for. It lies in one run of bytes, so it can be sent as one.
    Whole,
    /// It has to be asked for.
    Parts,
}

impl Offered {
    /// Where it can be read.
    pub fn place(self) -> Option<Place> {
        match self {
            Self::Readable(place) => Some(place),
            Self::Whole | Self::Parts => None,
        }
    }
}

/// Where the bytes of a message are.
pub enum Content {
    /// Here.
    Bytes(Box<[u8]>),
    /// With the sender.
    Remote {
        /// Its request.
        request: u64,
        /// Bytes.
        length: u64,
        /// How they can be had.
        offered: Offered,
    },
    /// In a send of this process to itself.
    Own {
        /// That request.
        request: u32,
    },
}

/// Which channels are looked at: the few that had a message lately in each round, one of the others in turn.
pub struct Polling {
    hot: [u32; HOT],
    used: [bool; HOT],
    count: usize,
    turn: u32,
    rounds: u32,
    straight: u32,
}

/// Of so many receives that could go straight one makes a round, however much lies ready for the others.
const STRAIGHT: u32 = 64;
/// Channels that are looked at in each round.
const HOT: usize = 8;
/// After so many rounds without a message a channel is looked at in turn only.
const COOL: u32 = 1024;

impl Polling {
    /// None is.
    pub(crate) fn new() -> Self {
        Self {
            hot: [0; HOT],
            used: [false; HOT],
            count: 0,
            turn: 0,
            rounds: 0,
            straight: 0,
        }
    }

    /// A receive could do without a round: false where it is one's time.
    #[inline]
    pub fn may_wait(&mut self) -> bool {
        self.straight = self.straight.wrapping_add(1);
        !self.straight.is_multiple_of(STRAIGHT)
    }

    /// The channel that [`Polling::next`] has just named has its turn once more.
    pub fn again(&mut self, inlets: usize) {
        self.turn = match self.turn {
            0 => u32::try_from(inlets).unwrap_or(1).saturating_sub(1),
            turn => turn - 1,
        };
    }

    /// The channels of each round.
    #[inline]
    pub fn hot(&self, place: usize) -> Option<u32> {
        (place < self.count).then(|| self.hot[place])
    }

    /// A message has come by the channel at `place`.
    #[inline]
    pub fn hit(&mut self, place: usize) {
        self.used[place] = true;
    }

    /// A message has come by `inlet`, which somebody has looked at by himself.
    #[inline]
    pub fn touch(&mut self, inlet: u32) {
        if self.count != 0 && self.hot[0] == inlet {
            self.used[0] = true;
            return;
        }
        match self.hot[..self.count].iter().position(|hot| *hot == inlet) {
            Some(place) => self.used[place] = true,
            None => self.warm(inlet),
        }
    }

    /// A message has come by `inlet`, which was looked at in turn.
    pub fn warm(&mut self, inlet: u32) {
        if self.hot[..self.count].contains(&inlet) {
            return;
        }
        let place = if self.count < HOT {
            self.count += 1;
            self.count - 1
        } else {
            self.used.iter().position(|used| !used).unwrap_or(0)
        };
        self.hot[place] = inlet;
        self.used[place] = true;
    }

    /// Ends a round: which of `inlets` channels has its turn.
    #[inline]
    pub fn next(&mut self, inlets: usize) -> Option<u32> {
        self.rounds += 1;
        if self.rounds == COOL {
            self.cool();
        }
        if inlets <= self.count {
            return None;
        }
        self.turn = if self.turn as usize + 1 < inlets {
            self.turn + 1
        } else {
            0
        };
        Some(self.turn)
    }

    #[cold]
    fn cool(&mut self) {
        self.rounds = 0;
        let mut kept = 0;
        for place in 0..self.count {
            if self.used[place] {
                self.hot[kept] = self.hot[place];
                kept += 1;
            }
        }
        self.count = kept;
        self.used = [false; HOT];
    }
}

#[cold]
fn too_many_requests() -> MpiError {
    MpiError::with(MPI_ERR_OTHER, "too many requests")
}

/// No request has this index.
pub const NOBODY: u32 = u32::MAX;
/// Index of MPI_COMM_WORLD.
pub const WORLD: u32 = 0;
/// Index of MPI_COMM_SELF.
pub const SELF: u32 = 1;

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
            comms: Slab::new(Kind::Comm),
            requests: Slab::new(Kind::Request),
            held: Slab::new(Kind::Message),
            probed: HashMap::new(),
            buffers: Buffers::default(),
            types: Slab::new(Kind::Datatype),
            groups: Slab::new(Kind::Group),
            sessions: Slab::new(Kind::Session),
            keyvals: Keyvals::default(),
            renamed: Renamed::default(),
            f90: HashMap::new(),
            ops: operation::none(),
            named_attributes: HashMap::new(),
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
            crew: Crew::default(),
            satisfied: false,
            ended: 0,
            executions: Vec::new(),
            calls: Calls::new(),
            schedules: Kept::default(),
            given: Given::default(),
            flags: Vec::new(),
            pages: LargePages::new(settings.large_pages),
            ways: Ways::default(),
            settings,
            contexts: HashMap::new(),
            doomed: Vec::new(),
            last: (u64::MAX, 0),
            next_context: 2,
            asked_in_vain: 0,
        };
        for (name, group, own) in [
            ("MPI_COMM_WORLD", Group::World { size }, rank),
            ("MPI_COMM_SELF", Group::of(vec![rank]), 0),
        ] {
            // Contexts of leader 0, number 0, and of each process itself, which never travels.
            let number = u32::from(own != rank || name != "MPI_COMM_WORLD");
            let mut comm = Comm::new(
                context(if number == 0 { 0 } else { rank }, number),
                group,
                own,
            );
            name.clone_into(&mut comm.name);
            comm.predefined = true;
            runtime.add_comm(comm)?;
        }
        let mut nothing = Request::send(Work::Nothing, WORLD, 0, rank, Source::EMPTY);
        nothing.done = true;
        runtime.nothing = runtime.add_request(nothing)?;
        runtime.over = runtime.requests.handle(runtime.nothing);
        Ok(runtime)
    }

    /// Keeps the launcher's knowledge of whether an error of the world ends this rank.
    pub fn note_fatal(&self) {
        if let Some(host) = &self.host {
            let handler = self.comms[WORLD].errhandler;
            host.set_fatal([MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT].contains(&handler));
        }
    }

    /// The index of the communicator that `handle` names.
    #[inline]
    pub fn comm_index(&self, handle: i32) -> Option<u32> {
        match handle {
            MPI_COMM_WORLD => Some(WORLD),
            MPI_COMM_SELF => Some(SELF),
            _ => self.comms.index_of(handle).filter(|index| *index > SELF),
        }
    }

    /// The handle of the communicator at `index`.
    pub fn comm_handle(&self, index: u32) -> i32 {
        match index {
            WORLD => MPI_COMM_WORLD,
            SELF => MPI_COMM_SELF,
            _ => self.comms.handle(index),
        }
    }

    /// Keeps a communicator, and gives it the messages that came before it. Its index.
    pub fn add_comm(&mut self, comm: Comm) -> Outcome<u32> {
        let context = comm.context;
        let index = self.add_nameless(comm)?;
        self.name_comm(index, context)?;
        Ok(index)
    }

    /// Keeps a communicator whose context is not known yet. Its index.
    pub fn add_nameless(&mut self, comm: Comm) -> Outcome<u32> {
        self.bury();
        self.comms
            .insert(comm)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many communicators"))
    }

    /// The context of a communicator is known: gives it the messages that came before it.
    pub fn name_comm(&mut self, index: u32, context: u64) -> Outcome {
        self.comms[index].context = context;
        self.contexts.insert(context, index);
        for _ in 0..self.orphans.len() {
            let Some((theirs, held)) = self.orphans.pop_front() else {
                break;
            };
            if theirs & !COLLECTIVE == context {
                self.hold(index, theirs, held)?;
            } else {
                self.orphans.push_back((theirs, held));
            }
        }
        Ok(())
    }

    /// Lets a communicator go: its handle is stale, and it itself goes with the last that concerns it.
    pub fn drop_comm(&mut self, index: u32) {
        self.comms.retire(index);
        self.comms[index].freed = true;
        let side = self.comm_of(side_context(self.comms[index].context));
        self.doomed.push(index);
        if let Some(side) = side.filter(|side| *side != index) {
            self.drop_comm(side);
        }
        self.bury();
    }

    /// Whether something that has begun still needs a communicator.
    pub fn is_in_use(&self, index: u32) -> bool {
        let comm = &self.comms[index];
        !comm.point.is_idle()
            || !comm.collective.is_idle()
            || self.executions.iter().any(|one| one.comm == index)
            || self.probed.values().any(|comm| *comm == index)
            || self
                .requests
                .iter()
                .any(|(at, request)| request.comm == index && at != self.nothing)
    }

    /// Takes out the communicators that were freed and that nothing concerns any more.
    fn bury(&mut self) {
        for index in std::mem::take(&mut self.doomed) {
            if self.is_in_use(index) {
                self.doomed.push(index);
                continue;
            }
            if let Some(comm) = self.comms.remove(index) {
                if let Sharing::Part(area) = &comm.sharing {
                    area.leave();
                }
                self.contexts.remove(&comm.context);
                self.last = (u64::MAX, 0);
                process().release(comm.errhandler);
            }
        }
    }

    /// A context that no other communicator has, with this process as leader.
    pub fn new_context(&mut self) -> u64 {
        let number = self.next_context;
        self.next_context += 1;
        context(self.rank, number)
    }

    /// The communicator with this context, of either kind.
    #[inline]
    pub fn comm_of(&mut self, context: u64) -> Option<u32> {
        let context = context & !COLLECTIVE;
        if self.last.0 == context {
            return Some(self.last.1);
        }
        let index = *self.contexts.get(&context)?;
        self.last = (context, index);
        Some(index)
    }

    /// Keeps a request; its index.
    #[inline(always)]
    pub fn add_request(&mut self, request: Request) -> Outcome<u32> {
        self.requests
            .insert(request)
            .map_err(|_| too_many_requests())
    }

    /// A request is over.
    #[inline]
    pub fn finish(&mut self, request: u32) {
        self.satisfied |= request == self.awaited;
        self.crew.over(request);
        let entry = &mut self.requests[request];
        entry.done = true;
        self.ended = self.ended.wrapping_add(1);
        entry.ended = self.ended;
        if entry.freed || entry.parent != NOBODY {
            self.conclude(request);
        }
    }

    /// A message waits for its receive.
    pub fn hold(&mut self, comm: u32, context: u64, held: Held) -> Outcome {
        let (from, tag) = (held.from, held.tag);
        let Some(source) = self.comms[comm].rank_of(context, from) else {
            return Err(self.broken(from));
        };
        let index = self
            .held
            .insert(held)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many unexpected messages"))?;
        self.comms[comm].matching(context).hold(source, tag, index);
        self.crew.note();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{COOL, HOT, Polling, STRAIGHT};

    #[test]
    fn a_round_looks_at_what_is_in_use_and_at_one_of_the_others() {
        const CHANNELS: usize = 65;
        let mut polling = Polling::new();
        polling.warm(3);
        let mut looks = [0; CHANNELS];
        for _ in 0..CHANNELS * 10 {
            assert_eq!(
                (polling.hot(0), polling.hot(1)),
                (Some(3), None),
                "idle ones cost nothing here"
            );
            polling.hit(0);
            let turn = polling.next(CHANNELS).expect("one of the others");
            looks[turn as usize] += 1;
        }
        assert!(looks.iter().all(|count| *count == 10), "{looks:?}");
    }

    #[test]
    fn receives_that_go_straight_make_a_round_now_and_then() {
        let mut polling = Polling::new();
        let rounds = (0..10 * STRAIGHT).filter(|_| !polling.may_wait()).count();
        assert_eq!(rounds, 10);
    }

    #[test]
    fn a_channel_whose_turn_is_given_back_is_the_next_one() {
        let mut polling = Polling::new();
        for inlets in [1, 2, 3, HOT + 5] {
            for _ in 0..2 * COOL {
                let named = polling.next(inlets);
                polling.again(inlets);
                assert_eq!(polling.next(inlets), named, "{inlets} channels");
            }
        }
    }
}
