//! Persistent requests: what MPI_Start begins, again and again.

use crate::collective::exec::Prepared;
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_REQUEST};
use crate::edge::Guard;
use crate::errors::{MpiError, Outcome};
use crate::ground::status::EMPTY;
use crate::handle::NOBODY;
use crate::host::{Layout, Sink, Source};
use crate::p2p::buffered;
use crate::p2p::partitioned::Partitioned;
use crate::p2p::{Started, Target};
use crate::request::{Extra, Request, Work};
use crate::runtime::Runtime;
use ferriband_mpi_proto::matching;
use std::sync::Arc;

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Over when the buffer is the program's again; ready mode, too.
    Standard,
    /// Over when it has met its receive.
    Synchronous,
    /// Over at once: a copy is sent.
    Buffered,
}

/// What a persistent request does between MPI_Start and its end.
pub struct Persistent {
    /// What it begins.
    pub bound: Bound,
    /// The message under way, or [`NOBODY`].
    pub child: u32,
    /// How the elements lie that are sent or received, if there are gaps: each round names them anew.
    _layout: Option<Arc<Layout>>,
}

/// What a persistent request begins.
pub enum Bound {
    /// Nothing: to or from MPI_PROC_NULL, with the status of that.
    Nobody(crate::ground::status::Status),
    /// A send.
    Send {
        /// To whom.
        to: Target,
        /// What.
        source: Source,
        /// How.
        mode: Mode,
    },
    /// A receive.
    Receive {
        /// From whom.
        from: matching::Source,
        /// With which tag.
        tag: matching::Tag,
        /// Into what.
        sink: Sink,
    },
    /// A collective; none while it runs.
    Collective {
        /// The tag of all its rounds.
        tag: i32,
        /// What it does.
        prepared: Option<Prepared>,
    },
    /// A partitioned message.
    Partitioned(Partitioned),
}

impl Request {
    /// What a persistent collective does, while it does not run.
    pub fn prepared(&self) -> Option<&Prepared> {
        match self.extra.as_deref() {
            Some(Extra::Persistent(Persistent {
                bound: Bound::Collective { prepared, .. },
                ..
            })) => prepared.as_ref(),
            _ => None,
        }
    }
}

impl Runtime {
    /// Makes a persistent request; its index.
    pub fn add_persistent(&mut self, comm: u32, bound: Bound) -> Outcome<u32> {
        let mut request = Request::special(Work::Persistent { active: false }, comm);
        let layout = match &bound {
            Bound::Send { source, .. } => source.keep(),
            Bound::Receive { sink, .. } => sink.keep(),
            Bound::Partitioned(side) => side.layout(),
            Bound::Nobody(_) | Bound::Collective { .. } => None,
        };
        request.extra = Some(Box::new(Extra::Persistent(Persistent {
            bound,
            child: NOBODY,
            _layout: layout,
        })));
        self.point.requests.add(request)
    }

    /// A round of a persistent collective is over: what it does waits for the next.
    pub fn give_back(&mut self, request: u32, done: Prepared) {
        if let Some(Extra::Persistent(Persistent {
            bound: Bound::Collective { prepared, .. },
            ..
        })) = self.point.requests[request].extra.as_deref_mut()
        {
            *prepared = Some(done);
        }
    }
}

/// Begins what a persistent request does.
pub fn start(guard: &mut Guard, request: u32) -> Outcome {
    let entry = &mut guard.point.requests[request];
    let Work::Persistent { active } = &mut entry.work else {
        return Err(MpiError::with(MPI_ERR_REQUEST, "it is not persistent"));
    };
    if *active {
        return Err(MpiError::with(MPI_ERR_REQUEST, "it is active"));
    }
    *active = true;
    entry.done = false;
    entry.status = EMPTY;
    let begun = begin(guard, request);
    if begun.is_err() {
        guard.point.requests[request].work = Work::Persistent { active: false };
    }
    begun
}

fn begin(guard: &mut Guard, request: u32) -> Outcome {
    let comm = guard.point.requests[request].comm;
    let is_broken = guard.point.objects.comms[comm].broken;
    let Some(Extra::Persistent(whole)) = guard.point.requests[request].extra.as_deref_mut() else {
        return Err(MpiError::new(MPI_ERR_INTERN));
    };
    match &mut whole.bound {
        Bound::Nobody(status) => {
            let status = *status;
            guard.point.requests[request].status = status;
            guard.finish(request);
        }
        Bound::Send { to, source, mode } => {
            let (to, source) = (*to, *source);
            let started = match *mode {
                Mode::Buffered => {
                    buffered::send(guard, to, source)?;
                    Started::Done
                }
                mode => guard.start_send(to, source, mode == Mode::Synchronous)?,
            };
            match started {
                Started::Done => guard.finish(request),
                Started::Pending(child) => guard.adopt(request, child),
            }
        }
        Bound::Receive { from, tag, sink } => {
            let (from, tag, sink) = (*from, *tag, *sink);
            let context = guard.point.objects.comms[comm].context;
            let child = guard.start_receive(comm, context, from, tag, sink)?;
            guard.adopt(request, child);
        }
        Bound::Collective { tag, prepared } => {
            let tag = *tag;
            if is_broken {
                return guard.check_whole(comm);
            }
            let prepared = prepared
                .take()
                .ok_or_else(|| MpiError::with(MPI_ERR_REQUEST, "it has failed"))?;
            let begun = guard.run_collective(comm, request, tag, prepared);
            begun.inspect_err(|_| guard.detach_execution(request))?;
        }
        Bound::Partitioned(_) => guard.start_partitioned(request)?,
    }
    Ok(())
}
