//! Runs schedules: what each collective but the blocking barrier is.
//!
//! A schedule says what depends on what, an [`Execution`] does it: it begins what may begin, and looks after what has begun. It is driven by
//! progress ([`Mpi::advance`]) and never waits itself, so blocking and non-blocking collectives are
//! the same, and several may be under way.
//! All messages of one bear its number as tag, in the communicator's second context; messages between two ranks match in order.

use super::rounds::Calls;
use super::shape::Shape;
use super::state::Mpi;
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_RANK, MPI_SUCCESS};
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::ground::layout::Layout;
use crate::ground::memory::{Buffer, Sink, Source};
use crate::handle::NOBODY;
use crate::p2p::Started;
use crate::p2p::give_up::SETTLING;
use crate::p2p::request::{Request, Work};
use crate::p2p::runtime::Runtime;
use ferriband_mpi_coll::{Group, Peer, Schedule, Step};
use ferriband_mpi_proto::matching;
use std::sync::Arc;
use std::time::Instant;

/// What combines two ranges of elements: the left one, and the right one that becomes the result.
pub enum Combine {
    /// An operation of MPI's.
    Own(Box<dyn Fn(Source, Sink) -> Outcome + Send>),
    /// A function of the program.
    Program(Program),
}

/// A function of the program on elements of a datatype. It runs outside of the runtime, as a [`Call`].
pub struct Program {
    /// Combines.
    pub function: Arc<dyn Fn(Source, Sink) + Send + Sync>,
    /// The datatype's handle, which the function is given.
    pub datatype: i32,
}

/// A function of the program that an execution has come to.
pub struct Call {
    comm: u32,
    tag: i32,
    node: u32,
    function: Arc<dyn Fn(Source, Sink) + Send + Sync>,
    left: Source,
    right: Sink,
}

impl Call {
    /// Makes it.
    pub fn run(&self) {
        (self.function)(self.left, self.right);
    }
}

/// Where the program's blocks lie.
pub struct Buffers {
    /// Bytes of a unit of the schedule.
    pub unit: usize,
    /// Blocks that are read.
    pub send: Vec<Source>,
    /// Blocks that are written.
    pub recv: Vec<Sink>,
    /// How those lie that have gaps: the call ends before the collective.
    _layouts: Vec<Arc<Layout>>,
}

impl Buffers {
    /// Blocks of units of `unit` bytes.
    pub fn new(unit: usize, send: Vec<Source>, recv: Vec<Sink>) -> Self {
        let layouts = send.iter().filter_map(Source::keep);
        Self {
            unit,
            _layouts: layouts.chain(recv.iter().filter_map(Sink::keep)).collect(),
            send,
            recv,
        }
    }
}

/// A collective that can begin.
pub struct Prepared {
    /// What is to be done; nothing where `shape` says how it is done in shared memory.
    pub schedule: Arc<Schedule>,
    /// How it is done without a schedule, if it is.
    pub shape: Option<Shape>,
    /// With what.
    pub buffers: Buffers,
    /// How elements are combined, if they are.
    pub combine: Option<Combine>,
    /// What is done once all of it is over, and with the error class before anybody learns of it.
    pub after: Option<After>,
}

impl Prepared {
    /// The handle of a datatype that functions of the program are given.
    pub fn datatype(&self) -> Option<i32> {
        match &self.combine {
            Some(Combine::Program(program)) => Some(program.datatype),
            _ => None,
        }
    }
}

/// The last act of a collective: it may keep the memory that the schedule works in.
pub type After = Box<dyn FnOnce(&mut Mpi, i32) -> Outcome + Send>;

/// A collective under way.
pub struct Execution {
    /// Index of the communicator.
    pub comm: u32,
    pub(super) prepared: Prepared,
    context: u64,
    tag: i32,
    /// The request that is over with it.
    request: u32,
    pub(super) temp: Buffer,
    /// For each step how many must be complete first.
    waiting: Vec<u32>,
    begun: Vec<bool>,
    ready: Vec<u32>,
    running: Vec<Running>,
    left: usize,
    error: i32,
    /// Since when it cannot go on, and waits for the messages that an adapter still moves from or
    /// to the program's memory.
    given_up: Option<Instant>,
}

/// A message under way.
struct Running {
    node: u32,
    request: u32,
    /// Its bytes, if the program's do not lie in one piece.
    bounce: Option<Buffer>,
}

impl Mpi {
    /// Begins a collective that the call waits for, or one that goes on beside the program; its request.
    pub fn start_collective(
        &mut self,
        comm: u32,
        prepared: Prepared,
        is_aside: bool,
    ) -> Outcome<u32> {
        self.check_whole(comm)?;
        let tag = match is_aside {
            true => self.coll.comms[comm].next_aside(),
            false => self.coll.comms[comm].next_collective(),
        };
        let request = self
            .point
            .requests
            .add(Request::special(Work::Collective, comm))?;
        let begun = self.run_collective(comm, request, tag, prepared);
        begun.inspect_err(|_| self.let_go(request))?;
        Ok(request)
    }

    /// Begins what `request` is, with messages of this tag.
    pub fn run_collective(
        &mut self,
        comm: u32,
        request: u32,
        tag: i32,
        prepared: Prepared,
    ) -> Outcome {
        let context = self.point.objects.comms[comm].context | COLLECTIVE;
        let nodes = prepared.schedule.nodes();
        let bytes = usize::try_from(prepared.schedule.temp_units())
            .ok()
            .and_then(|units| units.checked_mul(prepared.buffers.unit))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or_else(|| MpiError::new(MPI_ERR_NO_MEM))?;
        let temp = Buffer::try_new(bytes).ok_or_else(no_memory)?;
        let waiting: Vec<u32> = nodes.iter().map(|node| node.predecessors).collect();
        let free = (0..).zip(&waiting).filter(|(_, count)| **count == 0);
        let mut execution = Execution {
            comm,
            context,
            tag,
            request,
            temp,
            ready: free.map(|(node, _)| node).collect(),
            begun: vec![false; nodes.len()],
            running: Vec::new(),
            left: nodes.len(),
            error: MPI_SUCCESS,
            given_up: None,
            waiting,
            prepared,
        };
        match execution.advance(&mut self.p2p, &mut self.coll.calls) {
            Ok(Life::Over) => self.end(execution)?,
            Ok(_) => self.coll.executions.push(execution),
            Err(error) => return Err(self.give_up(execution, error)),
        }
        Ok(())
    }

    /// Does what can be done for the collectives under way. True if something was.
    pub fn advance(&mut self) -> Outcome<bool> {
        if self.has_losses() {
            self.give_up_broken();
        }
        let (mut did, mut at) = (false, 0);
        while let Some(execution) = self.coll.executions.get_mut(at) {
            if let Some(since) = execution.given_up {
                execution.end_late(&mut self.p2p, since);
                if execution.has_settled(&mut self.p2p) {
                    let execution = self.coll.executions.swap_remove(at);
                    self.remove_execution(execution);
                    did = true;
                    continue;
                }
            }
            match execution.advance(&mut self.p2p, &mut self.coll.calls) {
                Ok(Life::Over) => {
                    let execution = self.coll.executions.swap_remove(at);
                    self.end(execution)?;
                    did = true;
                    continue;
                }
                Ok(Life::Moved) => did = true,
                Ok(Life::Waits) => (),
                Err(error) => {
                    let execution = self.coll.executions.swap_remove(at);
                    return Err(self.give_up(execution, error));
                }
            }
            at += 1;
        }
        Ok(did)
    }

    /// A function of the program has returned.
    pub fn called(&mut self, call: &Call) {
        let mut executions = self.coll.executions.iter_mut();
        if let Some(execution) = executions.find(|one| (one.comm, one.tag) == (call.comm, call.tag))
        {
            execution.complete(call.node);
        }
    }

    /// Whether a collective, under way or persistent, may hand this datatype to a function of the program.
    pub fn hands_out(&self, datatype: i32) -> bool {
        self.coll
            .executions
            .iter()
            .any(|execution| execution.prepared.datatype() == Some(datatype))
            || self.coll.bounds.hands_out(datatype)
    }

    /// A collective that handed out a datatype is over: it goes if the program has freed it.
    pub fn drop_freed(&mut self, datatype: i32) {
        if !self.hands_out(datatype) {
            self.point.objects.types.drop_freed(datatype);
        }
    }

    /// A collective that cannot go on: it is over once no adapter moves anything from or to the program's memory for it.
    #[cold]
    pub fn give_up(&mut self, mut execution: Execution, error: MpiError) -> MpiError {
        execution.error = error.class;
        execution.given_up = Some(Instant::now());
        for request in execution.running.iter().map(|one| one.request) {
            match self.point.requests[request].work {
                _ if self.point.requests[request].done => (),
                Work::Receive => self.fail(request),
                Work::Rendezvous | Work::Eager => self.take_back_send(request),
                _ => (),
            }
        }
        // Functions of the program are not called for it any more.
        let own = (execution.comm, execution.tag);
        self.coll.calls.retain(|call| (call.comm, call.tag) != own);
        if execution.has_settled(&mut self.p2p) {
            self.remove_execution(execution);
        } else {
            self.coll.executions.push(execution);
        }
        error
    }

    /// Whether ranks were lost since the collectives that need them were looked for.
    #[inline]
    pub(super) fn has_losses(&self) -> bool {
        self.coll.losses != self.point.lost && !self.coll.executions.is_empty()
    }

    /// Gives up the collectives of communicators that have lost a rank.
    #[cold]
    fn give_up_broken(&mut self) {
        self.coll.losses = self.point.lost;
        let comms = &self.p2p.point.objects.comms;
        let (over, left) = std::mem::take(&mut self.coll.executions)
            .into_iter()
            .partition::<Vec<_>, _>(|one| comms[one.comm].broken && one.given_up.is_none());
        self.coll.executions = left;
        for execution in over {
            let error = self.point.not_whole(execution.comm);
            self.give_up(execution, error);
        }
    }

    /// Its request is over. Peers that do not know yet may read its own memory, so that stays.
    #[cold]
    fn remove_execution(&mut self, execution: Execution) {
        if execution.request != NOBODY {
            self.point.requests[execution.request].status.error = execution.error;
            self.forget_freed(execution.request);
            self.finish(execution.request);
        }
        std::mem::forget(execution);
    }

    /// A persistent collective could not begin: the request has nothing to do any more with what of it is under way.
    #[cold]
    pub fn detach_execution(&mut self, request: u32) {
        let mut all = self.coll.executions.iter_mut();
        if let Some(execution) = all.find(|one| one.request == request) {
            execution.request = NOBODY;
        }
    }

    /// A collective whose request nobody waits for any more does not go on.
    #[cold]
    pub fn give_up_request(&mut self, request: u32, class: i32) {
        let mut all = self.coll.executions.iter();
        let found = all.position(|one| one.request == request && one.given_up.is_none());
        if let Some(at) = found {
            let execution = self.coll.executions.swap_remove(at);
            self.give_up(execution, MpiError::new(class));
        }
    }

    /// The requests of messages of this collective that are under way.
    #[cold]
    pub fn parts(&self, request: u32) -> Vec<u32> {
        let own = self
            .coll
            .executions
            .iter()
            .filter(|one| one.request == request);
        let running = own.flat_map(|one| &one.running);
        running.map(|one| one.request).collect()
    }

    fn end(&mut self, mut execution: Execution) -> Outcome {
        let (request, datatype) = (execution.request, execution.prepared.datatype());
        let after = execution.prepared.after.take();
        let outcome = after.map_or(Ok(()), |after| after(self, execution.error));
        self.point.requests[request].status.error = execution.error;
        self.give_back(request, execution.prepared);
        self.finish(request);
        if let Some(datatype) = datatype {
            self.drop_freed(datatype);
        }
        outcome
    }
}

/// What became of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Waits,
    Moved,
    Over,
}

impl Execution {
    /// Whether none of its messages is under way any more.
    #[cold]
    fn has_settled(&mut self, runtime: &mut Runtime) -> bool {
        self.running.retain_mut(|one| {
            runtime.forget_unread(one.request);
            let is_over = runtime.point.requests[one.request].done;
            let is_off = is_over || runtime.is_thrown_away(one.request);
            if is_off {
                if is_over {
                    runtime.point.requests.slab.remove(one.request);
                } else {
                    runtime.point.requests[one.request].freed = true;
                }
                // As the other memory of its own: a peer that does not know yet may read it.
                std::mem::forget(one.bounce.take());
            }
            !is_off
        });
        self.running.is_empty()
    }

    /// Those of its messages that their peers have not ended for long are given up: these may
    /// compute.
    #[cold]
    fn end_late(&mut self, runtime: &mut Runtime, since: Instant) {
        if since.elapsed() > SETTLING {
            for one in &self.running {
                runtime.give_up_bytes(one.request);
            }
        }
    }

    /// Begins and completes what can be.
    fn advance(&mut self, runtime: &mut Runtime, calls: &mut Calls) -> Outcome<Life> {
        if self.given_up.is_some() {
            return Ok(Life::Waits);
        }
        let mut moved = false;
        loop {
            let did = self.collect(runtime)? | self.begin(runtime, calls)?;
            moved |= did;
            if self.left == 0 {
                return Ok(Life::Over);
            }
            if !did {
                return Ok(if moved { Life::Moved } else { Life::Waits });
            }
        }
    }

    /// Completes the messages that are over.
    fn collect(&mut self, runtime: &mut Runtime) -> Outcome<bool> {
        let (mut did, mut at) = (false, 0);
        while at < self.running.len() {
            if !runtime.point.requests[self.running[at].request].done {
                at += 1;
                continue;
            }
            let Running {
                node,
                request,
                bounce,
            } = self.running.swap_remove(at);
            if let Some(over) = runtime.point.requests.slab.remove(request)
                && self.error == MPI_SUCCESS
            {
                self.error = over.status.error;
            }
            if let Some(bounce) = bounce {
                self.unpack(node, &bounce)?;
            }
            self.complete(node);
            did = true;
        }
        Ok(did)
    }

    /// Begins the steps that may begin.
    fn begin(&mut self, runtime: &mut Runtime, calls: &mut Calls) -> Outcome<bool> {
        let (mut did, mut at) = (false, 0);
        while let Some(node) = self.ready.get(at).copied() {
            let before = self.prepared.schedule.nodes()[node as usize].posted_after;
            if before.is_some_and(|before| !self.begun[before as usize]) {
                at += 1;
                continue;
            }
            self.ready.swap_remove(at);
            self.begun[node as usize] = true;
            self.start(runtime, calls, node)?;
            did = true;
            at = 0;
        }
        Ok(did)
    }

    fn start(&mut self, runtime: &mut Runtime, calls: &mut Calls, node: u32) -> Outcome {
        let schedule = Arc::clone(&self.prepared.schedule);
        match &schedule.nodes()[node as usize].step {
            Step::Send { peer, pieces } => {
                let (source, bounce) = self.pack(schedule.pieces(pieces))?;
                let to = runtime
                    .point
                    .target(self.comm, true, self.rank_of(runtime, *peer), self.tag)
                    .ok_or_else(|| MpiError::new(MPI_ERR_RANK))?;
                match runtime.start_send(to, source, false)? {
                    Started::Done => self.complete(node),
                    // What was packed is not unpacked: it only has to live.
                    Started::Pending(request) => self.running.push(Running {
                        node,
                        request,
                        bounce,
                    }),
                }
            }
            Step::Recv { peer, pieces } => {
                let (sink, bounce) = self.room(schedule.pieces(pieces))?;
                let (from, tag) = (
                    matching::Source::Rank(self.rank_of(runtime, *peer)),
                    matching::Tag::Is(self.tag),
                );
                let request = runtime.start_receive(self.comm, self.context, from, tag, sink)?;
                self.running.push(Running {
                    node,
                    request,
                    bounce,
                });
            }
            Step::Copy { from, into } => {
                self.source(*from)?.copy_to(&self.sink(*into)?);
                self.complete(node);
            }
            Step::Reduce { from, into } => {
                let (left, right) = (self.source(*from)?, self.sink(*into)?);
                match self.prepared.combine.as_ref().ok_or_else(broken)? {
                    Combine::Own(combine) => {
                        combine(left, right)?;
                        self.complete(node);
                    }
                    Combine::Program(program) => calls.push_back(Call {
                        comm: self.comm,
                        tag: self.tag,
                        node,
                        function: Arc::clone(&program.function),
                        left,
                        right,
                    }),
                }
            }
        }
        Ok(())
    }

    /// How collective messages count a rank: the other side's come behind this one's.
    fn rank_of(&self, runtime: &Runtime, peer: Peer) -> u32 {
        match peer.group {
            Group::Own => peer.rank,
            Group::Other => runtime.point.objects.comms[self.comm].group.size() + peer.rank,
        }
    }

    fn complete(&mut self, node: u32) {
        self.left -= 1;
        let schedule = &self.prepared.schedule;
        for next in schedule.successors(&schedule.nodes()[node as usize]) {
            let waiting = &mut self.waiting[*next as usize];
            *waiting -= 1;
            if *waiting == 0 {
                self.ready.push(*next);
            }
        }
    }
}

/// There is no memory for what a collective needs on the way.
#[cold]
pub(super) fn no_memory() -> MpiError {
    MpiError::with(MPI_ERR_NO_MEM, "for a collective")
}

/// A schedule asks for what is not there.
#[cold]
pub(super) fn broken() -> MpiError {
    MpiError::with(MPI_ERR_INTERN, "a schedule does not fit its buffers")
}
