//! Receives that wait for one rank of this host, of a process in which one thread calls: the
//! message goes from the channel to the program, and no receive is posted for it.
//!
//! On a Zen 3 this spares a third of the time of 8 B one way (docs/bench-mpi.md). It is allowed
//! where the next message of that rank is this receive's if it matches at all: nothing waits on
//! either side of the matching but receives from other ranks, and nothing else is under way that
//! would have to go on meanwhile. Whatever is not so, or takes more than to look at channels, is
//! left to the way that all receives can go.

use crate::constants::MPI_SUCCESS;
use crate::errors::Outcome;
use crate::ground::memory::{Sink, Source};
use crate::ground::status::{Status, status};
use crate::handle::Token;
use crate::p2p::runtime::Runtime;
use crate::transport::contract::{Deliver, Done, Verdict};
use ferriband_mpi_proto::envelope::{Envelope, Kind};
use ferriband_mpi_proto::matching::Tag;

/// Looks at the channel before the usual way is taken.
const LOOKS: u32 = 512;

/// A receive that a call waits for, and that takes the next message or none.
struct Waiting {
    context: u64,
    source: u32,
    tag: Tag,
    sink: Sink,
    /// What it has come to.
    status: Option<Status>,
}

impl Deliver for Waiting {
    #[inline(always)]
    fn eager(&mut self, _: u32, envelope: &Envelope, body: Source) -> Outcome<Verdict> {
        let is_it = envelope.kind == Kind::Eager
            && envelope.flags == 0
            && envelope.context == self.context
            && self.tag.takes(envelope.tag)
            && body.len() <= self.sink.len();
        if !is_it {
            return Ok(Verdict::Keep);
        }
        body.copy_to(&self.sink);
        let length = body.len() as u64;
        self.status = Some(status(self.source, envelope.tag, MPI_SUCCESS, length));
        Ok(Verdict::Stop)
    }

    fn done(&mut self, _: u32, _: Token, _: Done) -> Verdict {
        // It has no long message, and what has one is not told to it.
        Verdict::Next
    }
}

impl Runtime {
    /// Waits a while for a message of `source` and puts it into one run of bytes. None if it has
    /// not come by then, or if to take it is more than to copy it: then nothing has happened.
    #[inline(always)]
    pub fn receive_straight(
        &mut self,
        comm: u32,
        source: u32,
        tag: Tag,
        sink: Sink,
    ) -> Option<Status> {
        let entry = self.point.objects.comms.get_mut(comm)?;
        let context = entry.context;
        let from = entry.world_of(context, source)?;
        if !entry.point.is_still(source) {
            return None;
        }
        if self.point.impaired || !self.point.stalled.is_empty() {
            return None;
        }
        let mut waiting = Waiting {
            context,
            source,
            tag,
            sink,
            status: None,
        };
        let looks = self.job.spins.min(LOOKS);
        self.transports.watch(from, looks, &mut waiting)?;
        waiting.status
    }
}
