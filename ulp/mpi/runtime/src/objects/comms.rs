//! The communicators of this process.
//!
//! Owns: their handles and contexts, and which of them the program has freed. Must not know: how
//! one is made, what still concerns a freed one.

use crate::constants::{MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_OTHER};
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::handle::{Kind, Slab};
use crate::objects::comm::{Comm, context};
use crate::objects::group::Group;
use crate::objects::process::process;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// Index of MPI_COMM_WORLD.
pub const WORLD: u32 = 0;
/// Index of MPI_COMM_SELF.
pub const SELF: u32 = 1;

/// The communicators of a process; the world is at 0, the process itself at 1.
pub struct Comms {
    slab: Slab<Comm>,
    /// Their indices by their contexts.
    contexts: HashMap<u64, u32>,
    /// The context that was asked for last, and its communicator.
    last: (u64, u32),
    /// The sender that was asked for last.
    sender: Sender,
    /// Those that the program has freed and something still concerns.
    freed: Vec<u32>,
    next_context: u32,
    /// Rank of this process in the world.
    rank: u32,
}

impl Comms {
    /// Those that rank `rank` of a world of `size` begins with.
    pub fn new(rank: u32, size: u32) -> Outcome<Self> {
        let mut comms = Self {
            slab: Slab::new(Kind::Comm),
            contexts: HashMap::new(),
            last: (u64::MAX, 0),
            sender: Sender::NONE,
            freed: Vec::new(),
            next_context: 2,
            rank,
        };
        // Contexts of leader 0, number 0, and of each process itself, which never travels.
        let world = Comm::new(context(0, 0), Group::World { size }, rank);
        let own = Comm::new(context(rank, 1), Group::of(vec![rank]), 0);
        for (name, mut comm) in [("MPI_COMM_WORLD", world), ("MPI_COMM_SELF", own)] {
            name.clone_into(&mut comm.name);
            comm.predefined = true;
            let context = comm.context;
            let index = comms.insert(comm)?;
            comms.set_context(index, context);
        }
        Ok(comms)
    }

    /// The index of the communicator that `handle` names.
    #[inline]
    pub fn index_of(&self, handle: i32) -> Option<u32> {
        match handle {
            MPI_COMM_WORLD => Some(WORLD),
            MPI_COMM_SELF => Some(SELF),
            _ => self.slab.index_of(handle).filter(|index| *index > SELF),
        }
    }

    /// The handle of the communicator at `index`.
    pub fn handle(&self, index: u32) -> i32 {
        match index {
            WORLD => MPI_COMM_WORLD,
            SELF => MPI_COMM_SELF,
            _ => self.slab.handle(index),
        }
    }

    /// The communicator at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Comm> {
        self.slab.get(index)
    }

    /// The communicator at `index`, to change.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Comm> {
        self.slab.get_mut(index)
    }

    /// All communicators, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Comm> {
        self.slab.iter_mut()
    }

    /// Keeps a communicator; its index.
    pub fn insert(&mut self, comm: Comm) -> Outcome<u32> {
        self.slab
            .insert(comm)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many communicators"))
    }

    /// By which context messages name the communicator at `index`.
    pub fn set_context(&mut self, index: u32, context: u64) {
        self.slab[index].context = context;
        self.contexts.insert(context, index);
    }

    /// The handle of a communicator is stale from now on: the program has freed it. It goes with
    /// the last that concerns it.
    pub fn retire(&mut self, index: u32) {
        self.slab.retire(index);
        self.slab[index].freed = true;
    }

    /// A freed communicator that something may still concern.
    pub fn mark_freed(&mut self, index: u32) {
        self.freed.push(index);
    }

    /// Takes out the list of those.
    pub fn take_freed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.freed)
    }

    /// Takes a communicator out that nothing concerns any more.
    pub fn remove(&mut self, index: u32) {
        let Some(comm) = self.slab.remove(index) else {
            return;
        };
        self.contexts.remove(&comm.context);
        self.last = (u64::MAX, 0);
        self.sender = Sender::NONE;
        process().release(comm.errhandler);
    }

    /// Whom messages of a communicator name has changed.
    pub fn forget_sender(&mut self) {
        self.sender = Sender::NONE;
    }

    /// A context that no other communicator has, with this process as leader.
    pub fn new_context(&mut self) -> u64 {
        let number = self.next_context;
        self.next_context += 1;
        context(self.rank, number)
    }

    /// The communicator with this context, of either kind.
    #[inline]
    pub fn of_context(&mut self, context: u64) -> Option<u32> {
        let context = context & !COLLECTIVE;
        if self.last.0 == context {
            return Some(self.last.1);
        }
        let index = *self.contexts.get(&context)?;
        self.last = (context, index);
        Some(index)
    }

    /// The communicator that a message of this context from rank `world` of the world belongs to,
    /// and its sender's rank there. None if either is not known.
    #[inline(always)]
    pub fn of_sender(&mut self, context: u64, world: u32) -> Option<(&mut Comm, u32)> {
        if self.sender.context != context || self.sender.world != world {
            self.sender = self.find_sender(context, world)?;
        }
        Some((self.slab.get_mut(self.sender.comm)?, self.sender.rank))
    }

    #[inline(never)]
    fn find_sender(&mut self, context: u64, world: u32) -> Option<Sender> {
        let comm = self.of_context(context)?;
        let rank = self.get(comm)?.rank_of(context, world)?;
        Some(Sender {
            context,
            world,
            comm,
            rank,
        })
    }
}

/// Who has sent a message.
#[derive(Clone, Copy)]
struct Sender {
    /// The message's context.
    context: u64,
    /// Rank in the world.
    world: u32,
    /// The communicator's index.
    comm: u32,
    /// Rank in the communicator.
    rank: u32,
}

impl Sender {
    /// Nobody.
    const NONE: Self = Self {
        context: u64::MAX,
        world: u32::MAX,
        comm: 0,
        rank: 0,
    };
}

/// The communicator at an index that the caller knows to be there.
impl Index<u32> for Comms {
    type Output = Comm;
    #[inline]
    fn index(&self, index: u32) -> &Comm {
        &self.slab[index]
    }
}

impl IndexMut<u32> for Comms {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Comm {
        &mut self.slab[index]
    }
}
