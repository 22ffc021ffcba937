//! Persistent requests: what MPI_Start begins, again and again.

use crate::constants::{MPI_ERR_INTERN, MPI_ERR_REQUEST};
use crate::errors::{MpiError, Outcome};
use crate::ground::layout::Layout;
use crate::ground::memory::{Sink, Source};
use crate::ground::status::EMPTY;
use crate::handle::NOBODY;
use crate::p2p::partitioned::Partitioned;
use crate::p2p::request::{Extra, Request, Work};
use crate::p2p::runtime::Runtime;
use crate::p2p::{Started, Target};
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
    /// A collective, by the number that collectives have for it.
    Collective(u32),
    /// A partitioned message.
    Partitioned(Partitioned),
}

/// What is left to do by who has begun a persistent request.
pub enum Begun {
    /// Nothing.
    All,
    /// To send a copy.
    Copy {
        /// To whom.
        to: Target,
        /// Of what.
        source: Source,
    },
    /// To begin the collective with this number.
    Collective(u32),
}

impl Runtime {
    /// Makes a persistent request; its index.
    pub fn add_persistent(&mut self, comm: u32, bound: Bound) -> Outcome<u32> {
        let mut request = Request::special(Work::Persistent { active: false }, comm);
        let layout = match &bound {
            Bound::Send { source, .. } => source.keep(),
            Bound::Receive { sink, .. } => sink.keep(),
            Bound::Partitioned(side) => side.layout(),
            Bound::Nobody(_) | Bound::Collective(_) => None,
        };
        request.extra = Some(Box::new(Extra::Persistent(Persistent {
            bound,
            child: NOBODY,
            _layout: layout,
        })));
        self.point.requests.add(request)
    }

    /// The number of the collective that a persistent request begins.
    pub fn collective_of(&self, request: u32) -> Option<u32> {
        match self.point.requests[request].extra.as_deref() {
            Some(Extra::Persistent(Persistent {
                bound: Bound::Collective(number),
                ..
            })) => Some(*number),
            _ => None,
        }
    }

    /// A persistent request is about to begin.
    pub fn activate(&mut self, request: u32) -> Outcome {
        let entry = &mut self.point.requests[request];
        let Work::Persistent { active } = &mut entry.work else {
            return Err(MpiError::with(MPI_ERR_REQUEST, "it is not persistent"));
        };
        if *active {
            return Err(MpiError::with(MPI_ERR_REQUEST, "it is active"));
        }
        *active = true;
        entry.done = false;
        entry.status = EMPTY;
        Ok(())
    }

    /// A persistent request could not begin.
    #[cold]
    pub fn deactivate(&mut self, request: u32) {
        self.point.requests[request].work = Work::Persistent { active: false };
    }

    /// Begins what an active persistent request does, as far as that is a message.
    pub fn begin_persistent(&mut self, request: u32) -> Outcome<Begun> {
        let comm = self.point.requests[request].comm;
        let extra = self.point.requests[request].extra.as_deref();
        let Some(Extra::Persistent(whole)) = extra else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        match &whole.bound {
            Bound::Nobody(status) => {
                let status = *status;
                self.point.requests[request].status = status;
                self.finish(request);
            }
            Bound::Send { to, source, mode } => {
                let (to, source) = (*to, *source);
                if *mode == Mode::Buffered {
                    return Ok(Begun::Copy { to, source });
                }
                match self.start_send(to, source, *mode == Mode::Synchronous)? {
                    Started::Done => self.finish(request),
                    Started::Pending(child) => self.adopt(request, child),
                }
            }
            Bound::Receive { from, tag, sink } => {
                let (from, tag, sink) = (*from, *tag, *sink);
                let context = self.point.objects.comms[comm].context;
                let child = self.start_receive(comm, context, from, tag, sink)?;
                self.adopt(request, child);
            }
            Bound::Collective(number) => return Ok(Begun::Collective(*number)),
            Bound::Partitioned(_) => self.start_partitioned(request)?,
        }
        Ok(Begun::All)
    }
}
