//! Partitioned messages: a buffer whose parts are sent as the program says that they are ready.
//!
//! MPI_Psend_init takes a context of its own, and tells MPI_Precv_init by a message in the collectives' context whose tag is the program's with its
//! highest bit, which no collective has: so the two meet in the order of their calls. Behind it lies a communicator that nobody sees, of these two
//! processes; its messages are some partitions each, with their number as tag, and rounds keep their order by themselves.

use crate::constants::{
    MPI_ERR_ARG, MPI_ERR_INTERN, MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_TRUNCATE,
};
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::ground::memory::{Buffer, Sink};
use crate::ground::status::{FROM_NOBODY, status};
use crate::handle::NOBODY;
use crate::objects::comm::Comm;
use crate::objects::group::Group;
use crate::p2p::persistent::{Bound, Persistent};
use crate::p2p::request::{Extra, Request, Work};
use crate::p2p::runtime::Runtime;
use crate::p2p::{Started, Target};
use ferriband_mpi_proto::matching;

/// Bytes of a message that small partitions share.
const SHARED: usize = 1 << 16;
/// Bytes of the first message: context, bytes of a message, bytes of all.
const GREETING: usize = 24;

/// One side of a partitioned message.
pub struct Partitioned {
    /// Whether this is the sender.
    pub sends: bool,
    /// Parts that the program names.
    pub partitions: usize,
    /// Bytes of one.
    each: usize,
    /// The buffer, which a sender only reads.
    data: Sink,
    /// The other side: rank in the communicator; none for MPI_PROC_NULL.
    peer: Option<u32>,
    tag: i32,
    /// The communicator of the two; a receiver learns it from the sender.
    hidden: Option<u32>,
    /// Bytes of a message.
    message: usize,
    /// What the sender says first, while it is awaited: its request.
    greeting: Option<(u32, Buffer)>,
    /// For each message of this round: partitions that are not ready, or, of a receiver, 0 once it has come.
    waiting: Vec<usize>,
    /// Partitions that are ready in this round.
    ready: Vec<bool>,
    /// Messages that are not over in this round.
    left: usize,
}

impl Partitioned {
    /// A side whose `data` has `partitions` parts.
    pub fn new(sends: bool, partitions: usize, data: Sink, peer: Option<u32>, tag: i32) -> Self {
        let each = data.len() / partitions.max(1);
        let shared = (SHARED / each.max(1)).clamp(1, partitions.max(1));
        Self {
            sends,
            partitions,
            each,
            data,
            peer,
            tag,
            hidden: None,
            message: if each == 0 { 0 } else { shared * each },
            greeting: None,
            waiting: Vec::new(),
            ready: Vec::new(),
            left: 0,
        }
    }

    fn messages(&self) -> usize {
        match self.message {
            0 => 1,
            bytes => self.data.len().div_ceil(bytes),
        }
    }

    /// The message with this number.
    fn range(&self, message: usize) -> Sink {
        let at = message * self.message;
        self.data.part(at, self.message.min(self.data.len() - at))
    }

    /// The messages that a partition lies in.
    fn messages_of(&self, partition: usize) -> std::ops::Range<usize> {
        if self.message == 0 || self.each == 0 {
            return 0..1;
        }
        let at = partition * self.each;
        at / self.message..(at + self.each).div_ceil(self.message)
    }

    /// What keeps the buffer's layout.
    pub fn layout(&self) -> Option<std::sync::Arc<crate::ground::layout::Layout>> {
        self.data.keep()
    }
}

impl Runtime {
    fn partitioned(&mut self, request: u32) -> Option<&mut Partitioned> {
        match self
            .point
            .requests
            .slab
            .get_mut(request)?
            .extra
            .as_deref_mut()
        {
            Some(Extra::Persistent(Persistent {
                bound: Bound::Partitioned(side),
                ..
            })) => Some(side),
            _ => None,
        }
    }

    /// Makes a partitioned request, and lets the two sides meet. Its index.
    pub fn add_partitioned(&mut self, comm: u32, side: Partitioned) -> Outcome<u32> {
        let (sends, peer, tag) = (side.sends, side.peer, side.tag | i32::MIN);
        let (message, all) = (side.message as u64, side.data.len() as u64);
        let request = self.add_persistent(comm, Bound::Partitioned(side))?;
        let Some(peer) = peer else {
            return Ok(request);
        };
        let mut greeting = Buffer::new(GREETING);
        if sends {
            let context = self.point.objects.comms.new_context();
            for (place, word) in [context, message, all].into_iter().enumerate() {
                greeting.bytes_mut()[place * 8..][..8].copy_from_slice(&word.to_le_bytes());
            }
            let to = self
                .point
                .target(comm, true, peer, tag)
                .ok_or_else(|| MpiError::new(MPI_ERR_RANK))?;
            let hidden = self.meet(context, self.point.rank, to.peer)?;
            if let Some(side) = self.partitioned(request) {
                side.hidden = Some(hidden);
            }
            if let Started::Pending(child) = self.start_send(to, greeting.source(), false)? {
                let mut whole = Request::special(Work::Several(1), comm);
                whole.freed = true;
                whole.memory = Some(greeting);
                let whole = self.point.requests.add(whole)?;
                self.adopt(whole, child);
            }
        } else {
            let context = self.point.objects.comms[comm].context | COLLECTIVE;
            let (from, sink) = (matching::Source::Rank(peer), greeting.sink());
            let tag = matching::Tag::Is(tag);
            let child = self.start_receive(comm, context, from, tag, sink)?;
            if let Some(side) = self.partitioned(request) {
                side.greeting = Some((child, greeting));
            }
            self.adopt(request, child);
        }
        Ok(request)
    }

    /// The communicator of the two sides.
    fn meet(&mut self, context: u64, sender: u32, receiver: u32) -> Outcome<u32> {
        if let Some(known) = self.point.objects.comms.of_context(context) {
            // Both sides are this process.
            return Ok(known);
        }
        let (group, rank) = if sender == receiver {
            (vec![sender], 0)
        } else {
            (
                vec![sender, receiver],
                u32::from(self.point.rank == receiver),
            )
        };
        self.keep_comm(Comm::new(context, Group::of(group), rank))
    }

    /// A part of a partitioned request is over. False if `parent` is none.
    pub fn partition_over(&mut self, parent: u32, part: &Request) -> bool {
        let comm = self.point.requests[parent].comm;
        let Some(side) = self.partitioned(parent) else {
            return false;
        };
        if let Some((_, greeting)) = side.greeting.take() {
            let word = |at: usize| {
                let bytes = greeting.bytes()[at * 8..][..8].try_into();
                u64::from_le_bytes(bytes.unwrap_or_default())
            };
            let is_whole = part.status.byte_count() == GREETING as u64
                && word(2) == side.data.len() as u64
                && (word(1) == 0) == side.data.is_empty();
            let (context, message) = (word(0), word(1) as usize);
            side.message = message;
            let met = if is_whole {
                self.meet(context, part.peer, self.point.rank)
            } else {
                Err(MpiError::new(MPI_ERR_TRUNCATE))
            };
            let is_active = self.point.requests[parent].work == Work::Persistent { active: true };
            let begun = met.and_then(|hidden| {
                if let Some(side) = self.partitioned(parent) {
                    side.hidden = Some(hidden);
                }
                if is_active {
                    self.receive_all(parent)
                } else {
                    Ok(())
                }
            });
            if let Err(error) = begun {
                self.point.requests[parent].status.error = error.class;
                if is_active {
                    self.finish(parent);
                }
            }
            return true;
        }
        side.left -= 1;
        if !side.sends
            && let Some(waiting) = side
                .waiting
                .get_mut(part.status.tag.cast_unsigned() as usize)
        {
            *waiting = 0;
        }
        let is_over = side.left == 0;
        let told = status(
            side.peer.unwrap_or(0),
            side.tag,
            part.status.error,
            side.data.len() as u64,
        );
        let (sends, whole) = (side.sends, &mut self.point.requests[parent]);
        debug_assert_eq!(whole.comm, comm);
        if !sends {
            let error = whole.status.error;
            whole.status = told;
            if error != crate::constants::MPI_SUCCESS {
                whole.status.error = error;
            }
        } else if part.status.error != crate::constants::MPI_SUCCESS {
            whole.status.error = part.status.error;
        }
        if is_over {
            self.finish(parent);
        }
        true
    }

    /// MPI_Start of a partitioned request.
    pub fn start_partitioned(&mut self, request: u32) -> Outcome {
        let Some(side) = self.partitioned(request) else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        if side.sends {
            let (each, message) = (side.each, side.message);
            let shared = if message == 0 {
                side.partitions
            } else {
                message / each
            };
            side.left = side.messages();
            side.ready = vec![false; side.partitions];
            side.waiting = (0..side.left)
                .map(|number| shared.min(side.partitions - number * shared))
                .collect();
            if side.partitions == 0 {
                // Nothing is awaited, and the receiver waits for an empty message.
                return self.send_partitions(request, 0);
            }
            return Ok(());
        }
        if side.peer.is_none() {
            self.point.requests[request].status = FROM_NOBODY;
            self.finish(request);
            return Ok(());
        }
        match (side.hidden, &side.greeting) {
            (Some(_), _) => self.receive_all(request),
            (None, Some(_)) => {
                // Nothing has come: what the sender says first is still to come.
                side.waiting = vec![1];
                Ok(())
            }
            (None, None) => Err(MpiError::with(
                MPI_ERR_TRUNCATE,
                "the sender's partitions have other lengths in all",
            )),
        }
    }

    /// Begins to receive each message of a round.
    fn receive_all(&mut self, request: u32) -> Outcome {
        let Some(side) = self.partitioned(request) else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        let count = side.messages();
        side.left = count;
        side.waiting = vec![1; count];
        let Some(hidden) = side.hidden else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        for number in 0..count {
            let Some(side) = self.partitioned(request) else {
                break;
            };
            let sink = side.range(number);
            let context = self.point.objects.comms[hidden].context;
            let from = matching::Source::Rank(0);
            let tag = matching::Tag::Is(number as i32);
            let child = self.start_receive(hidden, context, from, tag, sink)?;
            self.adopt(request, child);
        }
        Ok(())
    }

    /// A partition is ready: the message goes that has waited for it alone.
    pub fn partition_ready(&mut self, request: u32, partition: usize) -> Outcome {
        let is_active = self.point.requests[request].work == Work::Persistent { active: true };
        let Some(side) = self
            .partitioned(request)
            .filter(|side| side.sends && is_active)
        else {
            let text = "it is no active partitioned send";
            return Err(MpiError::with(MPI_ERR_REQUEST, text));
        };
        match side.ready.get_mut(partition) {
            Some(ready) if !*ready => *ready = true,
            _ => {
                let text = format!("partition {partition} is not there, or was ready before");
                return Err(MpiError::with(MPI_ERR_ARG, text));
            }
        }
        let number = side.messages_of(partition).start;
        side.waiting[number] -= 1;
        if side.waiting[number] != 0 {
            return Ok(());
        }
        self.send_partitions(request, number)
    }

    /// Sends the message with this number, whose partitions are ready.
    fn send_partitions(&mut self, request: u32, number: usize) -> Outcome {
        let Some(side) = self.partitioned(request) else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        let source = side.range(number).source();
        let (Some(hidden), Some(_)) = (side.hidden, side.peer) else {
            side.left -= 1;
            if side.left == 0 {
                self.finish(request);
            }
            return Ok(());
        };
        let other = self.point.objects.comms[hidden].group.size() - 1;
        let to: Target = self
            .point
            .target(hidden, false, other, number as i32)
            .ok_or_else(|| MpiError::new(MPI_ERR_INTERN))?;
        match self.start_send(to, source, false)? {
            Started::Pending(child) => self.adopt(request, child),
            Started::Done => {
                if let Some(side) = self.partitioned(request) {
                    side.left -= 1;
                    if side.left == 0 {
                        self.finish(request);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a partition has come; all have of a request that is not active.
    pub fn partition_arrived(&mut self, request: u32, partition: usize) -> Outcome<bool> {
        let entry = &self.point.requests[request];
        let is_over = entry.done || entry.work == Work::Persistent { active: false };
        let Some(side) = self.partitioned(request).filter(|side| !side.sends) else {
            let text = "it is no partitioned receive";
            return Err(MpiError::with(MPI_ERR_REQUEST, text));
        };
        if partition >= side.partitions {
            let text = format!("partition {partition} of {}", side.partitions);
            return Err(MpiError::with(MPI_ERR_ARG, text));
        }
        let messages = side.messages_of(partition);
        let has_come = |number: usize| side.waiting.get(number) == Some(&0);
        Ok(is_over || (side.hidden.is_some() && messages.into_iter().all(has_come)))
    }

    /// A partitioned request is gone: what the sender says first has nobody to go to, and nobody else uses the communicator of the two.
    pub fn drop_partitioned(&mut self, side: Partitioned) {
        if let Some((child, greeting)) = side.greeting {
            let entry = &mut self.point.requests[child];
            entry.parent = NOBODY;
            entry.freed = true;
            entry.memory = Some(greeting);
        }
        if let Some(hidden) = side.hidden
            && self.point.objects.comms[hidden].group.size() > 1
        {
            self.let_comm_go(hidden);
        }
    }
}
