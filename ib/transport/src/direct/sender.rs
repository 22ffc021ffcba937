//! The sending half of a queue pair on the direct wire: queue, executors, recovery, completion.
//!
//! Owns the send queue and decides for each request who executes it: this process (WRITE, READ, atomics on mapped
//! memory, local operations) or the target through its ring. Requests take effect in posting order whoever executes
//! them, so an own execution waits until the ring has answered everything before it. It must not know how memory is
//! reached, how time passes or who calls.

mod answers;
mod hand_over;
mod own;

use std::cell::Cell;

use arrayvec::ArrayVec;

use super::layout::{KeyEntry, QpEntry};
use super::receiver::{MAX_SGE, kind_of};
use super::ring::{Answered, Kind, Record, RecordFlags, Response};
use super::{
    AtomicOp, BindRequest, Fault, Host, Link, RemoteSpan, Sink, TAKEN_AT_ONCE, Words, layout, mark,
};
use crate::types::{
    Access, Completion, Instant, QpType, SendFlags, SendOpcode, Sge, WcFlags, WcStatus,
    ack_timeout_ns, rnr_timer_ns,
};

/// Longest payload that travels inside the ring.
pub const INLINE_THRESHOLD: u64 = 8 << 10;
/// From this length on a transfer belongs to whoever makes progress, in chunks; posting only queues it.
pub const ASYNC_THRESHOLD: u64 = 512 << 10;
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
    /// Requests that fit.
    capacity: u64,
    /// As many places as the next power of two: a position's place is found with a mask.
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
        let wrs = (max_wr as usize).next_power_of_two();
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
            capacity: u64::from(max_wr),
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

    /// True if one more request can be posted. A request keeps its place until the program has taken its completion, or that
    /// of a later one if it has none (IBA 10.8.2: an unsignaled request is known to be done by a later signaled one).
    fn has_room(&mut self, taken: u64) -> bool {
        if self.tail - self.retired >= self.capacity {
            self.retire(taken);
        }
        self.tail - self.retired < self.capacity
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
            if place >= taken && place != TAKEN_AT_ONCE {
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

    #[inline]
    fn slot(&self, pos: u64) -> usize {
        pos as usize & (self.wqes.len() - 1)
    }

    /// Queues a request. In `Flushing` it completes at once, flushed.
    pub fn post(
        &mut self,
        request: &SendRequest<'_, L>,
        sink: &mut impl Sink,
    ) -> Result<(), PostError> {
        self.queue(request, sink.taken())?;
        self.settle(sink);
        Ok(())
    }

    /// Takes back the last `count` requests that were queued, if [`Sender::settle`] has not been called since.
    #[cold]
    pub fn unqueue(&mut self, count: u64) {
        debug_assert!(count <= self.tail - self.next);
        for _ in 0..count {
            self.tail -= 1;
            let slot = self.slot(self.tail);
            self.wqes[slot] = Wqe::empty();
        }
    }

    /// Ends what [`Sender::queue`] began: in `Flushing` what is queued completes, flushed.
    #[inline]
    pub fn settle(&mut self, sink: &mut impl Sink) {
        if self.state == SendState::Flushing {
            self.flush(sink);
        }
    }

    /// Queues a request, to be followed by others or by [`Sender::settle`]. `taken`: completions that the program has taken.
    pub fn queue(&mut self, request: &SendRequest<'_, L>, taken: u64) -> Result<(), PostError> {
        if self.state == SendState::Stopped {
            return Err(PostError::State);
        }
        if !self.has_room(taken) {
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
        // field by field: a whole request built aside would be copied
        let wqe = &mut self.wqes[slot];
        wqe.wr_id = request.wr_id;
        wqe.remote_addr = request.remote_addr;
        wqe.compare_add = request.compare_add;
        wqe.swap = request.swap;
        wqe.length = length as u32;
        wqe.imm = request.imm;
        wqe.rkey = request.rkey;
        wqe.remote_qpn = request.remote_qpn;
        wqe.remote_key = request.remote_key;
        wqe.opcode = request.opcode;
        wqe.flags = request.flags;
        wqe.route = request.route;
        wqe.sge_count = sge_count;
        wqe.has_grh = request.grh.is_some();
        wqe.progress = Progress::Queued(0);
        wqe.pushed.set(0);
        wqe.answered = 0;
        wqe.placed.set(false);
        if request.link.is_some() || request.bind.is_some() || !request.fanout.is_empty() {
            wqe.link = request.link.cloned();
            wqe.bind = request.bind.map(Box::new);
            wqe.fanout = (!request.fanout.is_empty()).then(|| request.fanout.into());
        }
        self.tail += 1;
        Ok(())
    }

    /// The message's length, if the queue and the service take it.
    fn check_length(&self, request: &SendRequest<'_, L>) -> Result<u64, PostError> {
        let length = if request.flags.contains(SendFlags::INLINE) {
            // inline data go out; what an answer brings needs memory of the program
            if matches!(
                request.opcode,
                SendOpcode::RdmaRead | SendOpcode::CmpSwap | SendOpcode::FetchAdd
            ) {
                return Err(PostError::Opcode);
            }
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
