//! The sending half of a queue pair on the direct wire: queue, executors, recovery, completion.
//!
//! Owns the send queue and decides for each request who executes it: this process (WRITE, READ, atomics on mapped
//! memory, local operations) or the target through its ring. Requests take effect in posting order whoever executes
//! them, so an own execution waits until the ring has answered everything before it. It must not know how memory is
//! reached, how time passes or who calls.

use std::cell::Cell;

use arrayvec::ArrayVec;

use super::layout::{KeyEntry, QpEntry};
use super::receiver::{MAX_SGE, kind_of};
use super::ring::{Answered, Kind, Record, RecordFlags, Response};
use super::{AtomicOp, BindRequest, Fault, Host, Link, RemoteSpan, Sink, Words, layout, mark};
use crate::types::{
    Access, Completion, Instant, QpType, SendFlags, SendOpcode, Sge, WcFlags, WcStatus,
    ack_timeout_ns, rnr_timer_ns,
};

/// Longest payload that travels inside the ring.
pub const INLINE_THRESHOLD: u64 = 8 << 10;
/// From this length on a transfer belongs to whoever makes progress, in chunks; posting only queues it.
pub const ASYNC_THRESHOLD: u64 = 512 << 10;
/// Bytes moved in one step of a long transfer.
pub const CHUNK: u64 = 256 << 10;
/// Longest message: 2^31 bytes.
pub const MAX_MESSAGE: u64 = 1 << 31;
/// Floor of the live ack timeout: far above scheduling latency, so that a busy peer is not taken for a dead one.
pub const TIMEOUT_FLOOR_NS: u64 = 20_000_000;
/// Longest datagram: the largest MTU.
const MAX_DATAGRAM: u64 = 4096;
/// Pause between two tries towards a queue pair that does not answer.
const RETRY_INTERVAL_NS: u64 = 1_000_000;
const SEQ_MASK: u32 = 0xff_ffff;
const NO_OWNER: u64 = u64::MAX;
/// Place of a completion that there is none of.
const UNSIGNALED: u64 = u64::MAX;

/// A request as posted.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a, L> {
    /// Identifier that comes back in the completion.
    pub wr_id: u64,
    /// Operation.
    pub opcode: SendOpcode,
    /// Flags.
    pub flags: SendFlags,
    /// Local elements; with INLINE their bytes are in `inline`.
    pub sges: &'a [Sge],
    /// Bytes copied when posting; only with INLINE.
    pub inline: &'a [u8],
    /// Immediate data (network order) or key to invalidate.
    pub imm: u32,
    /// Remote address.
    pub remote_addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// Compare or add operand.
    pub compare_add: u64,
    /// Swap operand.
    pub swap: u64,
    /// Target queue pair of a datagram.
    pub remote_qpn: u32,
    /// Queue key of a datagram; SRQ number of an extended connection.
    pub remote_key: u32,
    /// Channel of a datagram or an extended connection; None when nobody owns the target.
    pub link: Option<&'a L>,
    /// GRH of a datagram, complete.
    pub grh: Option<&'a [u8; 40]>,
    /// Source LID << 16 bits and SL, path bits of a datagram.
    pub route: (u16, u16),
    /// Window to bind.
    pub bind: Option<BindRequest>,
    /// Members of a multicast group, each with its queue pair: the datagram goes to all of them.
    pub fanout: &'a [(L, u32)],
}

/// Why a request was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostError {
    /// The queue is full.
    Full,
    /// More elements than the queue was created for.
    TooManySges,
    /// Inline data beyond the queue's limit.
    InlineTooLong,
    /// The message is longer than the service allows.
    TooLong,
    /// The state does not allow sending.
    State,
    /// The service does not offer the operation.
    Opcode,
}

/// What the caller has to arrange after [`Sender::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// Nothing to do until the next post or response.
    Idle,
    /// More can be done at once: call again.
    Again,
    /// Waits for room in the ring or for the channel: call again when either may have changed.
    Blocked,
    /// Waits for a time.
    Until(Instant),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// Not begun, or begun and to be continued by this process; bytes done.
    Queued(u64),
    /// All its records are in the ring; answers are outstanding.
    InRing,
    /// Finished with this status.
    Done(WcStatus),
}

#[derive(Debug)]
struct Wqe<L> {
    wr_id: u64,
    remote_addr: u64,
    compare_add: u64,
    swap: u64,
    length: u32,
    imm: u32,
    rkey: u32,
    remote_qpn: u32,
    remote_key: u32,
    opcode: SendOpcode,
    flags: SendFlags,
    route: (u16, u16),
    sge_count: u8,
    has_grh: bool,
    progress: Progress,
    pushed: Cell<u32>,
    answered: u32,
    /// This process has placed the data itself; the target has only to be told.
    placed: Cell<bool>,
    link: Option<L>,
    bind: Option<Box<BindRequest>>,
    fanout: Option<Box<[(L, u32)]>>,
}

impl<L> Wqe<L> {
    fn empty() -> Self {
        Wqe {
            wr_id: 0,
            remote_addr: 0,
            compare_add: 0,
            swap: 0,
            length: 0,
            imm: 0,
            rkey: 0,
            remote_qpn: 0,
            remote_key: 0,
            opcode: SendOpcode::Send,
            flags: SendFlags::empty(),
            route: (0, 0),
            sge_count: 0,
            has_grh: false,
            progress: Progress::Queued(0),
            pushed: Cell::new(0),
            answered: 0,
            placed: Cell::new(false),
            link: None,
            bind: None,
            fanout: None,
        }
    }

    fn is_inline(&self) -> bool {
        self.flags.contains(SendFlags::INLINE)
    }

    fn is_atomic(&self) -> bool {
        matches!(self.opcode, SendOpcode::CmpSwap | SendOpcode::FetchAdd)
    }
}

/// State of the queue as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendState {
    /// Before RTS: nothing may be posted.
    Stopped,
    /// RTS.
    Running,
    /// SQD: what was begun ends, nothing new begins.
    Draining,
    /// ERR or SQE: everything flushes.
    Flushing,
}

/// Attributes of a connection as the send queue needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendAttr {
    /// The peer's queue pair.
    pub dest_qpn: u32,
    /// First sequence number.
    pub seq: u32,
    /// Ack timeout code.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries, 7 infinite.
    pub rnr_retry: u8,
}

/// The sending half of a queue pair.
#[derive(Debug)]
pub struct Sender<L> {
    qpn: u32,
    index: u32,
    qp_type: QpType,
    pd: u32,
    signal_all: bool,
    state: SendState,
    attr: SendAttr,
    dest_index: Cell<Option<u32>>,
    link: Option<L>,
    wqes: Box<[Wqe<L>]>,
    sges: Box<[Sge]>,
    inline: Box<[u8]>,
    grhs: Box<[[u8; 40]]>,
    max_sge: usize,
    max_inline: usize,
    /// Place of each request's completion in its queue.
    places: Box<[u64]>,
    /// Oldest request that keeps its place.
    retired: u64,
    /// Oldest request that has not completed, next to begin, end: free running.
    head: u64,
    next: u64,
    tail: u64,
    /// Requests below this position have begun, even if they begin again: SQD lets them end.
    begun: u64,
    seq: Cell<u32>,
    in_ring: Cell<u32>,
    ring_slot: Cell<u32>,
    /// The target said that it cannot read this process's memory: long messages travel through the ring.
    no_pull: bool,
    incarnation: u32,
    /// Nothing is begun before this time; answers of records that are still in the ring are ignored.
    recovery: Option<Instant>,
    rnr_left: u8,
    lost_since: Option<Instant>,
}

/// Elements of a request as process addresses; no heap, and no zeroing of what is not used.
type Ranges = ArrayVec<Sge, MAX_SGE>;

/// The bytes of a request on this side.
#[derive(Clone, Copy)]
enum Local<'a> {
    /// Copied when posting.
    Inline(&'a [u8]),
    /// Process addresses.
    Ranges(&'a [Sge]),
}

impl Local<'_> {
    fn as_ranges(&self) -> &[Sge] {
        match self {
            Local::Inline(_) => &[],
            Local::Ranges(ranges) => ranges,
        }
    }
}

enum Step {
    Done(WcStatus),
    InRing,
    /// Bytes done; wait for answers, or call again.
    Partial(u64),
    /// Bytes done; no room, or no channel yet.
    Blocked(u64),
    Lost,
}

/// What came of an execution from here.
enum Executed {
    /// As far as it goes.
    Step(Step),
    /// It has to be done by the target, from the beginning.
    ByTarget,
}

enum Accessed {
    Moved,
    Refused(WcStatus),
    Lost,
    ByTarget,
}

impl<L: Link> Sender<L> {
    /// A queue of `max_wr` requests of `max_sge` elements and `max_inline` inline bytes. `index` is the queue pair's place
    /// in its process, given back with responses.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        qpn: u32,
        index: u32,
        qp_type: QpType,
        pd: u32,
        signal_all: bool,
        max_wr: u32,
        max_sge: u32,
        max_inline: u32,
    ) -> Self {
        let wrs = max_wr as usize;
        let grhs = if qp_type == QpType::Ud { wrs } else { 0 };
        Sender {
            qpn,
            index,
            qp_type,
            pd,
            signal_all,
            state: SendState::Stopped,
            attr: SendAttr::default(),
            dest_index: Cell::new(None),
            link: None,
            wqes: (0..wrs).map(|_| Wqe::empty()).collect(),
            sges: vec![Sge::default(); wrs * max_sge as usize].into(),
            inline: vec![0; wrs * max_inline as usize].into(),
            grhs: vec![[0; 40]; grhs].into(),
            max_sge: max_sge as usize,
            max_inline: max_inline as usize,
            places: vec![UNSIGNALED; wrs].into(),
            retired: 0,
            head: 0,
            next: 0,
            tail: 0,
            begun: 0,
            seq: Cell::new(0),
            in_ring: Cell::new(0),
            ring_slot: Cell::new(u32::MAX),
            no_pull: false,
            incarnation: 0,
            recovery: None,
            rnr_left: 0,
            lost_since: None,
        }
    }

    /// Continues the count of an earlier queue pair of the same index, so that answers to records that it left in a
    /// ring are never taken for answers to this one's. Without it they are, if the index is used again.
    pub fn after_incarnation(mut self, earlier: u32) -> Self {
        self.incarnation = earlier.wrapping_add(1) & 0x7fff_ffff;
        self
    }

    /// The count that a later queue pair of the same index has to continue.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The owner word of this queue pair's records: index and incarnation.
    fn owner(&self) -> u64 {
        u64::from(self.index) | u64::from(self.incarnation) << 32
    }

    /// Queue pair index in an owner word; None for records that nobody waits for.
    pub fn index_of_owner(owner: u64) -> Option<u32> {
        (owner != NO_OWNER).then_some(owner as u32)
    }

    /// True while requests are queued.
    pub fn has_work(&self) -> bool {
        self.head != self.tail
    }

    /// True when [`Sender::advance`] would find nothing to begin and no timer to wait for.
    pub fn idle(&self) -> bool {
        self.next == self.tail && self.recovery.is_none()
    }

    /// Requests queued or outstanding.
    pub fn outstanding(&self) -> u64 {
        self.tail - self.head
    }

    /// Requests that can be posted. A request keeps its place until the program has taken its completion, or that of a later one
    /// if it has none (IBA 10.8.2: an unsignaled request is known to be done by a later signaled one).
    pub fn room(&mut self, taken: u64) -> u64 {
        let size = self.wqes.len() as u64;
        if self.tail - self.retired >= size {
            self.retire(taken);
        }
        size - (self.tail - self.retired)
    }

    fn retire(&mut self, taken: u64) {
        if taken == u64::MAX {
            self.retired = self.head;
            return;
        }
        let mut pos = self.retired;
        while pos < self.head {
            let place = self.places[self.slot(pos)];
            pos += 1;
            if place == UNSIGNALED {
                continue;
            }
            if place >= taken {
                break;
            }
            self.retired = pos;
        }
    }

    /// State of the queue.
    pub fn state(&self) -> SendState {
        self.state
    }

    /// True when nothing that was begun is outstanding (SQD).
    pub fn drained(&self) -> bool {
        self.in_ring.get() == 0 && self.next == self.head && self.begun <= self.head
    }

    /// True when records in the ring wait for answers.
    pub fn awaits_answers(&self) -> bool {
        self.in_ring.get() > 0
    }

    /// Sets the connection.
    pub fn connect(&mut self, attr: SendAttr, link: Option<L>) {
        self.attr = attr;
        self.seq.set(attr.seq & SEQ_MASK);
        self.link = link;
        self.no_pull = false;
        self.dest_index.set(None);
        self.rnr_left = attr.rnr_retry;
    }

    /// The channel, if connected.
    pub fn link(&self) -> Option<&L> {
        self.link.as_ref()
    }

    /// Sets the first sequence number and the retry limits (RTR to RTS).
    pub fn start(&mut self, attr: SendAttr) {
        self.attr = attr;
        self.seq.set(attr.seq & SEQ_MASK);
        self.rnr_left = attr.rnr_retry;
    }

    /// The connection as set, with the sequence number of the next record.
    pub fn attr(&self) -> SendAttr {
        SendAttr {
            seq: self.seq.get(),
            ..self.attr
        }
    }

    /// Changes the state. Entering `Flushing` completes everything that is queued; `Stopped` forgets it.
    pub fn set_state(&mut self, state: SendState, sink: &mut impl Sink) {
        self.state = state;
        match state {
            SendState::Stopped => {
                self.forget();
                self.link = None;
            }
            SendState::Flushing => self.flush(sink),
            SendState::Running | SendState::Draining => {}
        }
    }

    /// Answers of records pushed so far will be ignored; nothing is queued any more.
    fn forget(&mut self) {
        self.ignore_answers();
        while self.head != self.tail {
            let slot = self.slot(self.head);
            self.wqes[slot] = Wqe::empty();
            self.head += 1;
        }
        self.next = self.tail;
        self.retired = self.tail;
    }

    fn ignore_answers(&mut self) {
        self.incarnation = self.incarnation.wrapping_add(1) & 0x7fff_ffff;
        self.in_ring.set(0);
        self.recovery = None;
        self.lost_since = None;
    }

    fn slot(&self, pos: u64) -> usize {
        (pos % self.wqes.len().max(1) as u64) as usize
    }

    /// Queues a request. In `Flushing` it completes at once, flushed.
    pub fn post(
        &mut self,
        request: &SendRequest<'_, L>,
        sink: &mut impl Sink,
    ) -> Result<(), PostError> {
        if self.state == SendState::Stopped {
            return Err(PostError::State);
        }
        if self.room(sink.taken()) == 0 {
            return Err(PostError::Full);
        }
        if !offers(self.qp_type, request.opcode) {
            return Err(PostError::Opcode);
        }
        let length = self.check_length(request)?;
        let slot = self.slot(self.tail);
        let sge_count = if request.flags.contains(SendFlags::INLINE) {
            self.inline[slot * self.max_inline..][..request.inline.len()]
                .copy_from_slice(request.inline);
            0
        } else {
            self.sges[slot * self.max_sge..][..request.sges.len()].copy_from_slice(request.sges);
            request.sges.len() as u8
        };
        if let (Some(grh), Some(room)) = (request.grh, self.grhs.get_mut(slot)) {
            *room = *grh;
        }
        self.wqes[slot] = Wqe {
            wr_id: request.wr_id,
            remote_addr: request.remote_addr,
            compare_add: request.compare_add,
            swap: request.swap,
            length: length as u32,
            imm: request.imm,
            rkey: request.rkey,
            remote_qpn: request.remote_qpn,
            remote_key: request.remote_key,
            opcode: request.opcode,
            flags: request.flags,
            route: request.route,
            sge_count,
            has_grh: request.grh.is_some(),
            progress: Progress::Queued(0),
            pushed: Cell::new(0),
            answered: 0,
            placed: Cell::new(false),
            link: request.link.cloned(),
            bind: request.bind.map(Box::new),
            fanout: (!request.fanout.is_empty()).then(|| request.fanout.into()),
        };
        self.tail += 1;
        if self.state == SendState::Flushing {
            self.flush(sink);
        }
        Ok(())
    }

    /// The message's length, if the queue and the service take it.
    fn check_length(&self, request: &SendRequest<'_, L>) -> Result<u64, PostError> {
        let length = if request.flags.contains(SendFlags::INLINE) {
            if request.inline.len() > self.max_inline {
                return Err(PostError::InlineTooLong);
            }
            request.inline.len() as u64
        } else {
            if request.sges.len() > self.max_sge.min(MAX_SGE) {
                return Err(PostError::TooManySges);
            }
            request.sges.iter().map(|sge| u64::from(sge.length)).sum()
        };
        let limit = if self.qp_type == QpType::Ud {
            MAX_DATAGRAM
        } else {
            MAX_MESSAGE
        };
        if length > limit {
            Err(PostError::TooLong)
        } else {
            Ok(length)
        }
    }

    /// Does what can be done now. `now` is asked only when a timer is involved. With `long` false, long transfers are
    /// left for a caller that may take its time.
    pub fn advance<H: Host<Link = L, Seg = L::Seg>>(
        &mut self,
        host: &H,
        now: impl Fn() -> Instant,
        long: bool,
        sink: &mut impl Sink,
    ) -> Advance {
        loop {
            if let Some(until) = self.recovery {
                if self.in_ring.get() > 0 {
                    return Advance::Idle;
                }
                if now() < until {
                    return Advance::Until(until);
                }
                self.recovery = None;
            }
            if self.next == self.tail
                || matches!(self.state, SendState::Stopped | SendState::Flushing)
            {
                return Advance::Idle;
            }
            let slot = self.slot(self.next);
            if self.state == SendState::Draining && self.begun <= self.next {
                return Advance::Idle;
            }
            let step = self.launch(host, slot, long);
            if !matches!(step, Step::Partial(0) | Step::Blocked(0)) {
                self.begun = self.begun.max(self.next + 1);
            }
            match step {
                // a failure takes effect in its turn, and nothing behind it begins: look again after the answers
                Step::Done(status) if status != WcStatus::Success && self.awaits_answers() => {
                    return Advance::Idle;
                }
                Step::Done(status) => {
                    self.wqes[slot].progress = Progress::Done(status);
                    self.next += 1;
                    if status == WcStatus::Success {
                        self.progressed();
                    }
                    self.complete(sink);
                }
                Step::InRing => {
                    self.wqes[slot].progress = Progress::InRing;
                    self.next += 1;
                }
                Step::Partial(done) => {
                    self.wqes[slot].progress = Progress::Queued(done);
                    return if self.in_ring.get() > 0 {
                        Advance::Idle
                    } else {
                        Advance::Again
                    };
                }
                Step::Blocked(done) => {
                    self.wqes[slot].progress = Progress::Queued(done);
                    return Advance::Blocked;
                }
                Step::Lost => self.lost(now(), sink),
            }
        }
    }

    /// One request, as far as it goes now.
    #[inline]
    fn launch<H: Host<Link = L, Seg = L::Seg>>(&self, host: &H, slot: usize, long: bool) -> Step {
        let wqe = &self.wqes[slot];
        let Progress::Queued(done) = wqe.progress else {
            return Step::Blocked(0);
        };
        let waits = self.in_ring.get() > 0;
        // a fence waits for reads and atomics, whose answers may still be in the ring (IBA 10.8.3.3)
        let fenced = wqe.flags.contains(SendFlags::FENCE) && wqe.pushed.get() == 0;
        if waits && fenced {
            return Step::Partial(done);
        }
        if matches!(wqe.opcode, SendOpcode::LocalInv | SendOpcode::BindMw) {
            return if waits {
                Step::Partial(0)
            } else {
                Step::Done(self.local_operation(host, wqe))
            };
        }
        if let Some(members) = &wqe.fanout {
            return self.fan_out(host, slot, members);
        }
        let link = wqe.link.as_ref().or(self.link.as_ref());
        let Some(link) = link.filter(|link| !link.dead()) else {
            return self.nobody_there(host, slot, done);
        };
        if !link.ready() {
            return Step::Blocked(done);
        }
        let length = u64::from(wqe.length);
        // what the target has begun, it ends
        let own = wqe.pushed.get() == 0
            && match wqe.opcode {
                SendOpcode::RdmaWrite | SendOpcode::RdmaRead => link.reachable(),
                SendOpcode::RdmaWriteImm => {
                    link.reachable() && length > INLINE_THRESHOLD && !wqe.placed.get()
                }
                _ => wqe.is_atomic() && !self.only_by_target(host, link, wqe),
            };
        if !own {
            return self.push(host, link, slot, done);
        }
        // posting order: what the target still has to do comes first
        if waits {
            return Step::Partial(done);
        }
        match self.execute(host, link, slot, done, long) {
            Executed::Step(Step::Done(WcStatus::Success))
                if wqe.opcode == SendOpcode::RdmaWriteImm =>
            {
                wqe.placed.set(true);
                self.push(host, link, slot, length)
            }
            Executed::Step(step) => step,
            Executed::ByTarget => self.push(host, link, slot, 0),
        }
    }

    /// True for an atomic on memory that is private to another process: it may follow what is in the ring at once. The
    /// target checks the key; this look at it decides nothing but who executes.
    fn only_by_target<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        wqe: &Wqe<L>,
    ) -> bool {
        link.slot() != host.slot()
            && KeyEntry::read(link.table(), wqe.rkey).is_some_and(|key| key.map_id == 0)
    }

    /// A request towards nobody.
    #[cold]
    fn nobody_there<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        slot: usize,
        done: u64,
    ) -> Step {
        if matches!(self.qp_type, QpType::Ud | QpType::Uc) {
            // sent into the void, but sent: its own elements have to be right
            let mut buffer = Ranges::new();
            let local = self.local(host, slot, Access::empty(), &mut buffer);
            return Step::Done(local.err().unwrap_or_default());
        }
        if self.awaits_answers() {
            // what was begun before ends first: by its answers, or by `peer_died`
            Step::Partial(done)
        } else {
            Step::Lost
        }
    }

    fn local_operation<H: Host<Link = L, Seg = L::Seg>>(&self, host: &H, wqe: &Wqe<L>) -> WcStatus {
        match (wqe.opcode, &wqe.bind) {
            (SendOpcode::LocalInv, _) if host.invalidate(self.pd, self.qpn, wqe.imm) => {
                WcStatus::Success
            }
            (SendOpcode::BindMw, Some(bind)) if host.bind(self.pd, self.qpn, bind) => {
                WcStatus::Success
            }
            _ => WcStatus::MwBindErr,
        }
    }

    /// The request's own bytes: inline data, or local elements as process addresses.
    #[inline]
    fn local<'a, H: Host<Link = L, Seg = L::Seg>>(
        &'a self,
        host: &H,
        slot: usize,
        need: Access,
        into: &'a mut Ranges,
    ) -> Result<Local<'a>, WcStatus> {
        let wqe = &self.wqes[slot];
        if wqe.is_inline() {
            let bytes = &self.inline[slot * self.max_inline..][..wqe.length as usize];
            return Ok(Local::Inline(bytes));
        }
        self.ranges(host, slot, need, into).map(Local::Ranges)
    }

    /// Local elements as process addresses.
    #[inline]
    fn ranges<'a, H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        slot: usize,
        need: Access,
        into: &'a mut Ranges,
    ) -> Result<&'a [Sge], WcStatus> {
        let wqe = &self.wqes[slot];
        let from = &self.sges[slot * self.max_sge..][..wqe.sge_count as usize];
        for sge in from {
            let mut to = *sge;
            if sge.length > 0 {
                to.addr = host.local(self.pd, sge, need).ok_or(WcStatus::LocProtErr)?;
            }
            into.push(to);
        }
        Ok(into)
    }

    /// Executes WRITE, READ or an atomic from here.
    #[inline]
    fn execute<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        done: u64,
        long: bool,
    ) -> Executed {
        let wqe = &self.wqes[slot];
        let writes = matches!(wqe.opcode, SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm);
        let need = if writes {
            Access::empty()
        } else {
            Access::LOCAL_WRITE
        };
        let mut buffer = Ranges::new();
        let local = match self.local(host, slot, need, &mut buffer) {
            Ok(local) => local,
            Err(status) => return Executed::Step(Step::Done(status)),
        };
        let length = u64::from(wqe.length);
        if length >= ASYNC_THRESHOLD && !long {
            return Executed::Step(Step::Partial(done));
        }
        if wqe.is_atomic() && length != 8 {
            return Executed::Step(Step::Done(WcStatus::LocLenErr));
        }
        let piece = if length >= ASYNC_THRESHOLD {
            CHUNK.min(length - done)
        } else {
            length
        };
        let mark = host.claim_mark();
        mark::publish(host.own(), mark, link.slot(), wqe.rkey, self.attr.dest_qpn);
        let outcome = self.access(host, link, wqe, local, done, piece);
        mark::clear(host.own(), mark);
        host.release_mark(mark);
        Executed::Step(match outcome {
            Accessed::Moved if done + piece < length => Step::Partial(done + piece),
            Accessed::Moved => Step::Done(WcStatus::Success),
            // an unreliable connection hears nothing of what happens at the target
            Accessed::Refused(_) | Accessed::Lost if self.qp_type == QpType::Uc => {
                Step::Done(WcStatus::Success)
            }
            Accessed::Refused(status) => {
                self.report_violation(link, wqe, status);
                Step::Done(status)
            }
            Accessed::Lost => Step::Lost,
            Accessed::ByTarget => return Executed::ByTarget,
        })
    }

    /// Tells the target what its own responder would have found (the same end on every wire: IBA 9.9.3). Without
    /// room in the ring the target is not told; its queue pair then ends with the next request that it refuses.
    #[cold]
    fn report_violation(&self, link: &L, wqe: &Wqe<L>, status: WcStatus) {
        let imm = match status {
            WcStatus::RemAccessErr => 0,
            WcStatus::RemInvReqErr => 1,
            _ => return,
        };
        let mut tx = link.tx();
        let Some(place) = tx.reserve(0) else { return };
        let record = Record {
            kind: Kind::Violation,
            flags: RecordFlags::LAST,
            dst_qpn: self.attr.dest_qpn,
            src_qpn: self.qpn,
            seq: self.seq.get() | (wqe.remote_key & 0xff_0000) << 8,
            length: 0,
            imm,
            key: 0,
            addr: 0,
            arg: 0,
            data: 0,
            extra: wqe.remote_key as u16,
        };
        tx.publish(link.pair(), place, &record, NO_OWNER);
        drop(tx);
        link.ring_doorbell();
    }

    /// The peer queue pair's entry in its table, if it takes requests from this one.
    #[inline]
    fn target<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        wqe: &Wqe<L>,
    ) -> Option<QpEntry> {
        if self.qp_type == QpType::XrcSend {
            // the target's state is its domain's; its memory is that of the shared receive queue's protection domain
            let qp = host.extended_target(self.attr.dest_qpn)?;
            let connected = qp.dest_qpn == self.qpn && qp.dest_slot == host.slot();
            return (qp.receives && connected).then_some(QpEntry {
                pd: wqe.remote_qpn,
                ..qp
            });
        }
        let index = match self.dest_index.get() {
            Some(index) => index,
            None => {
                let index = layout::find_qp(link.table(), self.attr.dest_qpn)?;
                self.dest_index.set(Some(index));
                index
            }
        };
        let qp = QpEntry::read(link.table(), index as usize)?;
        let connected = qp.dest_qpn == self.qpn && qp.dest_slot == host.slot();
        (qp.receives && connected && qp.qpn == self.attr.dest_qpn).then_some(qp)
    }

    /// The access itself, between the marks: first the peer's word on queue pair and key, then the bytes.
    #[inline]
    fn access<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        wqe: &Wqe<L>,
        local: Local<'_>,
        done: u64,
        piece: u64,
    ) -> Accessed {
        let Some(qp) = self.target(host, link, wqe) else {
            return Accessed::Lost;
        };
        let need = match wqe.opcode {
            SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm => Access::REMOTE_WRITE,
            SendOpcode::RdmaRead => Access::REMOTE_READ,
            _ => Access::REMOTE_ATOMIC,
        };
        // an operation that the queue pair does not offer is an invalid request, whatever the key says
        if !qp.access.contains(need) {
            return Accessed::Refused(WcStatus::RemInvReqErr);
        }
        if wqe.length == 0 {
            return Accessed::Moved;
        }
        if wqe.is_atomic() && !wqe.remote_addr.is_multiple_of(8) {
            return Accessed::Refused(WcStatus::RemInvReqErr);
        }
        let refused = Accessed::Refused(WcStatus::RemAccessErr);
        let Some(key) = KeyEntry::read(link.table(), wqe.rkey) else {
            return refused;
        };
        let Some(offset) = key.offset_of(wqe.remote_addr, u64::from(wqe.length)) else {
            return refused;
        };
        let scoped = key.only_qp == 0 || key.only_qp == qp.qpn + 1;
        if !key.access.contains(need) || key.pd != qp.pd || !scoped {
            return refused;
        }
        let span = RemoteSpan {
            addr: key.addr.wrapping_add(offset),
            map_id: key.map_id,
            map_offset: key.map_offset.wrapping_add(offset),
        }
        .advanced(done);
        let moved = match need {
            Access::REMOTE_WRITE => match local {
                Local::Inline(bytes) => host.remote_put(link, span, bytes),
                Local::Ranges(ranges) => host.remote_write(link, span, ranges, done, piece),
            },
            Access::REMOTE_READ => host.remote_read(link, span, local.as_ranges(), done, piece),
            _ => {
                let op = match wqe.opcode {
                    SendOpcode::CmpSwap => AtomicOp::CompareSwap(wqe.compare_add, wqe.swap),
                    _ => AtomicOp::FetchAdd(wqe.compare_add),
                };
                let Some(value) = host.remote_atomic(link, span, op) else {
                    return Accessed::ByTarget;
                };
                host.put(&value.to_ne_bytes(), local.as_ranges(), 0);
                Ok(())
            }
        };
        match moved {
            Ok(()) => Accessed::Moved,
            Err(Fault::Gone) => Accessed::Lost,
            Err(Fault::Forbidden) => Accessed::ByTarget,
            Err(Fault::LocalUnmapped) => Accessed::Refused(WcStatus::LocProtErr),
            Err(Fault::RemoteUnmapped) => Accessed::Refused(WcStatus::RemOpErr),
        }
    }

    /// Hands the request to the target. Long ones go in pieces, or as a list of ranges that the target reads.
    fn push<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        mut done: u64,
    ) -> Step {
        let wqe = &self.wqes[slot];
        let Some(kind) = kind_of(wqe.opcode) else {
            return Step::Done(WcStatus::LocQpOpErr);
        };
        let length = u64::from(wqe.length);
        if wqe.is_atomic() && length != 8 {
            return Step::Done(WcStatus::LocLenErr);
        }
        // one executor at a time: an extended connection may reach several processes
        if self.in_ring.get() > 0 && self.ring_slot.get() != link.slot() {
            return Step::Partial(done);
        }
        let mut buffer = Ranges::new();
        let need = if kind == Kind::Read || wqe.is_atomic() {
            Access::LOCAL_WRITE
        } else {
            Access::empty()
        };
        let local = match self.local(host, slot, need, &mut buffer) {
            Ok(local) => local,
            Err(status) => return Step::Done(status),
        };
        if self.qp_type == QpType::Ud {
            return self.push_datagram(host, link, slot, local, wqe.remote_qpn);
        }
        self.ring_slot.set(link.slot());
        // once some of it went through the ring, the rest does
        let pull = kind == Kind::Send
            && length > INLINE_THRESHOLD
            && !wqe.is_inline()
            && !self.no_pull
            && wqe.pushed.get() == 0
            && link.reachable();
        loop {
            let piece = if pull {
                length
            } else {
                (length - done).min(INLINE_THRESHOLD)
            };
            if !self.push_piece(
                host,
                link,
                slot,
                local,
                Piece {
                    kind,
                    done,
                    length: piece,
                    pull,
                },
            ) {
                return Step::Blocked(done);
            }
            done += piece;
            if done == length {
                return Step::InRing;
            }
        }
    }

    /// One record. False: no room.
    #[inline]
    fn push_piece<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        local: Local<'_>,
        piece: Piece,
    ) -> bool {
        let wqe = &self.wqes[slot];
        let Piece {
            kind,
            done,
            length,
            pull,
        } = piece;
        let atomic = wqe.is_atomic();
        let carries = matches!(kind, Kind::Send | Kind::WriteImm | Kind::Write);
        let in_record = carries && !pull && length <= 8;
        let room = match kind {
            _ if atomic || in_record => 0,
            _ if pull => local.as_ranges().len() * 16,
            _ => length as usize,
        };
        let mut tx = link.tx();
        let Some(place) = tx.reserve(room) else {
            return false;
        };
        let mut data = place.data;
        if pull {
            for (index, range) in local.as_ranges().iter().enumerate() {
                link.pair().store(place.data_at + index * 16, range.addr);
                link.pair()
                    .store(place.data_at + index * 16 + 8, u64::from(range.length));
            }
        } else if in_record {
            let mut bytes = [0; 8];
            match local {
                Local::Inline(inline) => bytes[..length as usize]
                    .copy_from_slice(&inline[done as usize..][..length as usize]),
                Local::Ranges(ranges) => host.fetch(ranges, done, &mut bytes[..length as usize]),
            }
            data = u64::from_le_bytes(bytes);
        } else if carries {
            fill(host, link.pair(), place.data_at, local, done, length);
        } else if atomic {
            data = wqe.swap;
        }
        let mut flags = RecordFlags::empty();
        flags.set(RecordFlags::IN_RECORD, in_record);
        flags.set(RecordFlags::PULL, pull);
        flags.set(RecordFlags::LAST, done + length == u64::from(wqe.length));
        flags.set(
            RecordFlags::IMM,
            matches!(wqe.opcode, SendOpcode::SendImm | SendOpcode::RdmaWriteImm),
        );
        flags.set(RecordFlags::INVALIDATE, wqe.opcode == SendOpcode::SendInv);
        flags.set(
            RecordFlags::SOLICITED,
            wqe.flags.contains(SendFlags::SOLICITED),
        );
        let seq = self.seq.get();
        let record = Record {
            kind,
            flags,
            dst_qpn: self.attr.dest_qpn,
            src_qpn: self.qpn,
            seq: seq | (wqe.remote_key & 0xff_0000) << 8,
            length: length as u32,
            imm: wqe.imm,
            key: wqe.rkey,
            addr: if pull {
                local.as_ranges().len() as u64
            } else {
                wqe.remote_addr.wrapping_add(if atomic { 0 } else { done })
            },
            arg: if atomic {
                wqe.compare_add
            } else {
                // a message without a payload of its own, its data placed already, begins here too
                u64::from(wqe.length) << 32 | if length == 0 { 0 } else { done }
            },
            data,
            extra: wqe.remote_key as u16,
        };
        tx.publish(link.pair(), place, &record, self.owner());
        drop(tx);
        self.seq.set((seq + 1) & SEQ_MASK);
        self.in_ring.set(self.in_ring.get() + 1);
        wqe.pushed.set(wqe.pushed.get() + 1);
        link.ring_doorbell();
        true
    }

    /// A datagram for every member of a multicast group. `pushed` counts the members served, so a full ring is taken up
    /// where it was left.
    fn fan_out<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        slot: usize,
        members: &[(L, u32)],
    ) -> Step {
        let wqe = &self.wqes[slot];
        let mut buffer = Ranges::new();
        let local = match self.local(host, slot, Access::empty(), &mut buffer) {
            Ok(local) => local,
            Err(status) => return Step::Done(status),
        };
        while let Some((link, qpn)) = members.get(wqe.pushed.get() as usize) {
            if !link.dead() {
                if !link.ready() {
                    return Step::Blocked(0);
                }
                if let Step::Blocked(done) = self.push_datagram(host, link, slot, local, *qpn) {
                    return Step::Blocked(done);
                }
            }
            wqe.pushed.set(wqe.pushed.get() + 1);
        }
        Step::Done(WcStatus::Success)
    }

    fn push_datagram<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        local: Local<'_>,
        dst_qpn: u32,
    ) -> Step {
        let wqe = &self.wqes[slot];
        let length = wqe.length as usize;
        let grh = if wqe.has_grh { 40 } else { 0 };
        let mut tx = link.tx();
        let Some(place) = tx.reserve(grh + length) else {
            return Step::Blocked(0);
        };
        if wqe.has_grh {
            link.pair().copy_in(place.data_at, &self.grhs[slot]);
        }
        if length > 0 {
            fill(
                host,
                link.pair(),
                place.data_at + grh,
                local,
                0,
                length as u64,
            );
        }
        let mut flags = RecordFlags::LAST;
        flags.set(RecordFlags::GRH, wqe.has_grh);
        flags.set(RecordFlags::IMM, wqe.opcode == SendOpcode::SendImm);
        flags.set(
            RecordFlags::SOLICITED,
            wqe.flags.contains(SendFlags::SOLICITED),
        );
        let record = Record {
            kind: Kind::Datagram,
            flags,
            dst_qpn,
            src_qpn: self.qpn,
            seq: 0,
            length: (grh + length) as u32,
            imm: wqe.imm,
            key: wqe.remote_key,
            addr: u64::from(wqe.route.0),
            arg: 0,
            data: place.data,
            extra: wqe.route.1,
        };
        tx.publish(link.pair(), place, &record, NO_OWNER);
        drop(tx);
        link.ring_doorbell();
        Step::Done(WcStatus::Success)
    }

    /// The target's answer to the oldest unanswered record of this queue pair; `pair` holds the payload of a READ.
    pub fn answered<H: Host<Link = L, Seg = L::Seg>>(
        &mut self,
        host: &H,
        pair: &L::Seg,
        answer: Answered,
        now: impl Fn() -> Instant,
        sink: &mut impl Sink,
    ) {
        if answer.owner != self.owner() || self.in_ring.get() == 0 {
            return;
        }
        self.in_ring.set(self.in_ring.get() - 1);
        if self.recovery.is_some() || self.state == SendState::Flushing {
            return;
        }
        let slot = self.slot(self.head);
        let response = match answer.response {
            // an unreliable connection hears nothing; what could not be read is lost, the next goes through the ring
            response if self.qp_type == QpType::Uc => {
                self.no_pull |= response == Response::CannotPull;
                Response::Ok(0)
            }
            response => response,
        };
        let status = match response {
            Response::Ok(value) => match self.executed(host, pair, slot, value, answer.data_at) {
                Some(status) => status,
                None => return,
            },
            Response::Rnr(code) => {
                // it lives
                self.lost_since = None;
                let until = now().plus_ns(rnr_timer_ns(code));
                match self.rnr_left {
                    0 => WcStatus::RnrRetryExcErr,
                    left => {
                        if left < 7 {
                            self.rnr_left = left - 1;
                        }
                        return self.go_back(answer.seq, until);
                    }
                }
            }
            Response::Sequence | Response::NotReady => {
                let now = now();
                self.go_back(answer.seq, now);
                return self.lost(now, sink);
            }
            Response::CannotPull => {
                self.no_pull = true;
                return self.go_back(answer.seq, now());
            }
            Response::InvalidRequest => WcStatus::RemInvReqErr,
            Response::RemoteAccess => WcStatus::RemAccessErr,
            Response::RemoteOperation => WcStatus::RemOpErr,
        };
        self.wqes[slot].progress = Progress::Done(status);
        if self.next == self.head {
            self.next += 1;
        }
        if status == WcStatus::Success {
            self.progressed();
        }
        self.complete(sink);
    }

    /// A record of the oldest request was executed. Its status once that was the last.
    fn executed<H: Host<Link = L, Seg = L::Seg>>(
        &mut self,
        host: &H,
        pair: &L::Seg,
        slot: usize,
        value: u64,
        data_at: usize,
    ) -> Option<WcStatus> {
        let wqe = &self.wqes[slot];
        if wqe.opcode == SendOpcode::RdmaRead || wqe.is_atomic() {
            let mut buffer = Ranges::new();
            let ranges = match self.ranges(host, slot, Access::LOCAL_WRITE, &mut buffer) {
                Ok(ranges) => ranges,
                Err(status) => return Some(status),
            };
            if wqe.is_atomic() {
                host.put(&value.to_ne_bytes(), ranges, 0);
            } else if wqe.length > 0 {
                let skip = u64::from(wqe.answered) * INLINE_THRESHOLD;
                let len = (u64::from(wqe.length) - skip).min(INLINE_THRESHOLD);
                host.scatter(pair, data_at, ranges, skip, len);
            }
        }
        let wqe = &mut self.wqes[slot];
        wqe.answered += 1;
        (wqe.progress == Progress::InRing && wqe.answered == wqe.pushed.get())
            .then_some(WcStatus::Success)
    }

    /// Begins again with the oldest request, whose first unaccepted record had `seq`, not before `until`. Answers that are still
    /// to come belong to records that the target refuses.
    fn go_back(&mut self, seq: u32, until: Instant) {
        let head = self.slot(self.head);
        let rewind = self.wqes[head].answered;
        self.seq.set(seq.wrapping_sub(rewind) & SEQ_MASK);
        let mut pos = self.head;
        while pos <= self.next && pos != self.tail {
            let slot = self.slot(pos);
            let wqe = &mut self.wqes[slot];
            // data that this process has placed itself stays placed
            let placed = wqe.placed.get();
            wqe.progress = Progress::Queued(if placed { u64::from(wqe.length) } else { 0 });
            wqe.pushed.set(0);
            wqe.answered = 0;
            pos += 1;
        }
        self.next = self.head;
        self.recovery = Some(until);
    }

    fn progressed(&mut self) {
        self.rnr_left = self.attr.rnr_retry;
        self.lost_since = None;
    }

    /// The target does not answer: tries again every millisecond until timeout times (retries + 1) has passed (I10).
    fn lost(&mut self, now: Instant, sink: &mut impl Sink) {
        let since = *self.lost_since.get_or_insert(now);
        if let Some(timeout) = ack_timeout_ns(self.attr.timeout) {
            let tries = u64::from(self.attr.retry_cnt) + 1;
            let limit = timeout.saturating_mul(tries).max(TIMEOUT_FLOOR_NS);
            if now.0.saturating_sub(since.0) >= limit {
                let slot = self.slot(self.head);
                self.wqes[slot].progress = Progress::Done(WcStatus::RetryExcErr);
                self.next = self.next.max(self.head + 1);
                self.recovery = None;
                return self.complete(sink);
            }
        }
        self.recovery = Some(now.plus_ns(RETRY_INTERVAL_NS));
    }

    /// The peer's process died: what is in the ring will never be answered.
    pub fn peer_died(&mut self, now: Instant, sink: &mut impl Sink) {
        if self.in_ring.get() == 0 || self.state == SendState::Flushing {
            return;
        }
        // an extended connection may have its records in another, living process's ring
        let oldest = &self.wqes[self.slot(self.head)];
        if oldest
            .link
            .as_ref()
            .or(self.link.as_ref())
            .is_some_and(|link| !link.dead())
        {
            return;
        }
        self.incarnation = self.incarnation.wrapping_add(1) & 0x7fff_ffff;
        self.in_ring.set(0);
        self.recovery = None;
        if self.qp_type == QpType::Uc {
            while self.head < self.next {
                let slot = self.slot(self.head);
                if self.wqes[slot].progress == Progress::InRing {
                    self.wqes[slot].progress = Progress::Done(WcStatus::Success);
                }
                self.complete(sink);
            }
            return;
        }
        let seq = self.seq.get();
        self.go_back(seq, now);
        self.lost(now, sink);
    }

    /// Completes what is done, in order. A failure flushes the rest (I11).
    fn complete(&mut self, sink: &mut impl Sink) {
        while self.head < self.next {
            let slot = self.slot(self.head);
            let Progress::Done(status) = self.wqes[slot].progress else {
                return;
            };
            self.pop(status, sink);
            if status != WcStatus::Success {
                self.state = SendState::Flushing;
                return self.flush(sink);
            }
        }
    }

    /// Removes the oldest request with this status; an error completes even when unsignaled.
    #[inline]
    fn pop(&mut self, status: WcStatus, sink: &mut impl Sink) {
        let slot = self.slot(self.head);
        let wqe = &mut self.wqes[slot];
        wqe.link = None;
        wqe.bind = None;
        wqe.fanout = None;
        self.head += 1;
        if self.signal_all || wqe.flags.contains(SendFlags::SIGNALED) || status != WcStatus::Success
        {
            let byte_len = match wqe.opcode {
                SendOpcode::RdmaRead => wqe.length,
                SendOpcode::CmpSwap | SendOpcode::FetchAdd => 8,
                _ => wqe.length,
            };
            sink.sent(Completion {
                wr_id: wqe.wr_id,
                status,
                opcode: wqe.opcode.completion(),
                byte_len,
                qp_num: self.qpn,
                flags: WcFlags::empty(),
                ..Completion::default()
            });
            self.places[slot] = sink.place();
        } else {
            self.places[slot] = UNSIGNALED;
        }
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        self.ignore_answers();
        while self.head != self.tail {
            self.pop(WcStatus::WrFlushErr, sink);
        }
        self.next = self.tail;
    }
}

/// A request's bytes into the payload area.
#[inline]
fn fill<H: Host>(host: &H, pair: &H::Seg, at: usize, local: Local<'_>, skip: u64, len: u64) {
    match local {
        Local::Inline(bytes) => pair.copy_in(at, &bytes[skip as usize..][..len as usize]),
        Local::Ranges(ranges) => host.gather(pair, at, ranges, skip, len),
    }
}

/// A piece of a message as one record carries it.
#[derive(Clone, Copy)]
struct Piece {
    kind: Kind,
    done: u64,
    length: u64,
    pull: bool,
}

/// Which operations a service offers (IBA table 46).
fn offers(qp_type: QpType, opcode: SendOpcode) -> bool {
    use SendOpcode::{BindMw, LocalInv, RdmaWrite, RdmaWriteImm, Send, SendImm};
    match qp_type {
        QpType::Rc | QpType::XrcSend => true,
        QpType::Uc => matches!(
            opcode,
            Send | SendImm | RdmaWrite | RdmaWriteImm | BindMw | LocalInv
        ),
        QpType::Ud => matches!(opcode, Send | SendImm),
        QpType::XrcRecv => false,
    }
}
