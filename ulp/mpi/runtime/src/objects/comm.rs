//! Communicators: what one is. How they are made is in [`crate::coll::create`].

use crate::constants::MPI_ERRORS_ARE_FATAL;
use crate::ground::context::COLLECTIVE;
use crate::objects::attr::Attributes;
use crate::objects::group::Group;
use crate::objects::info::Info;
use crate::objects::topology::Topology;
use ferriband_mpi_proto::matching::Matching;
use std::sync::Arc;

/// A communicator.
#[derive(Debug)]
pub struct Comm {
    /// What its messages carry; bit 0 is clear.
    pub context: u64,
    /// Its ranks; of an inter-communicator those of this process's side.
    pub group: Group,
    /// The other side of an inter-communicator.
    pub remote: Option<Box<Remote>>,
    /// Whom messages within it may name: the group, or nobody once it is revoked.
    pub reach: Group,
    /// This process's rank in it.
    pub rank: u32,
    /// Handle of its error handler.
    pub errhandler: i32,
    /// Messages between two ranks.
    pub point: Matching,
    /// Messages of collectives.
    pub collective: Matching,
    /// True for what cannot be freed.
    pub predefined: bool,
    /// What MPI_Comm_get_name says.
    pub name: String,
    /// What the program keeps here.
    pub attributes: Attributes,
    /// Hints that were given.
    pub info: Info,
    /// Who is next to whom, if it was made with that.
    pub topology: Option<Arc<Topology>>,
    /// Handle of the session that it comes from: whose buffer its messages take if it has none.
    pub session: Option<i32>,
    /// One of its ranks has died, or it is revoked.
    pub broken: bool,
    /// It is revoked.
    pub revoked: bool,
    /// So many of the failures in it, in the order in which this process has learned of them, are
    /// acknowledged.
    pub acked: u32,
    /// The program has freed it: it goes when nothing concerns it any more.
    pub freed: bool,
}

/// The other side of an inter-communicator.
#[derive(Debug)]
pub struct Remote {
    /// Its ranks.
    pub group: Group,
    /// Whom messages may name there: them, or nobody once it is revoked.
    pub reach: Group,
    /// This side's ranks, then the other's: how collective messages count ranks. Nobody once it is
    /// revoked.
    pub all: Group,
}

impl Remote {
    /// The other side of `own`.
    pub fn new(own: &Group, group: Group) -> Self {
        Self {
            all: Group::of(own.ranks().chain(group.ranks()).collect()),
            reach: group.clone(),
            group,
        }
    }
}

impl Comm {
    /// A communicator without messages.
    pub fn new(context: u64, group: Group, rank: u32) -> Self {
        Self {
            context,
            reach: group.clone(),
            group,
            remote: None,
            rank,
            errhandler: MPI_ERRORS_ARE_FATAL,
            point: Matching::default(),
            collective: Matching::default(),
            predefined: false,
            name: String::new(),
            attributes: Attributes::default(),
            info: Info::default(),
            topology: None,
            session: None,
            broken: false,
            revoked: false,
            acked: 0,
            freed: false,
        }
    }

    /// The ranks that messages of a context name: of an inter-communicator the other side's between two ranks, both sides' in collectives.
    #[inline(always)]
    fn named(&self, context: u64) -> &Group {
        match &self.remote {
            None => &self.reach,
            Some(remote) if context & COLLECTIVE == 0 => &remote.reach,
            Some(remote) => &remote.all,
        }
    }

    /// The world's rank of a rank that a message of this context names.
    #[inline(always)]
    pub fn world_of(&self, context: u64, rank: u32) -> Option<u32> {
        self.named(context).world(rank)
    }

    /// The rank by which messages of this context name the world's rank `world`.
    #[inline]
    pub fn rank_of(&self, context: u64, world: u32) -> Option<u32> {
        self.named(context).rank_of(world)
    }

    /// How many ranks a send or receive may name.
    #[inline]
    pub fn peers(&self) -> u32 {
        self.named(0).size()
    }

    /// Receives and messages of one of the two contexts.
    #[inline]
    pub fn matching(&mut self, context: u64) -> &mut Matching {
        if context & COLLECTIVE == 0 {
            &mut self.point
        } else {
            &mut self.collective
        }
    }
}

/// The job number of contexts that are not a leader's: by them communicators are made.
const BOOTSTRAP: u64 = 0xff << 32;

/// The context in which processes make a communicator that belong to the one with `context`, but are not all of it.
pub fn side_context(context: u64) -> u64 {
    context & !COLLECTIVE | BOOTSTRAP
}

/// The context in which processes meet that know nothing of one another but a group and a name.
pub fn meeting_context(group: &Group, name: &str) -> u64 {
    // FNV-1a: all processes must come to the same, and no attacker is among them.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let ranks = group.ranks().flat_map(u32::to_le_bytes);
    let hash = ranks.chain(name.bytes()).fold(0xcbf2_9ce4_8422_2325, step);
    // The uppermost bit of the number tells these from side contexts.
    hash & !(0x1_ffff_ffff) & !BOOTSTRAP | BOOTSTRAP | 1 << 31 | (hash >> 8) & 0x7fff_fffe
}

/// A context: the leader's rank in the world (24 bits), the job (8), the leader's own number (31), and bit 0.
pub fn context(leader: u32, number: u32) -> u64 {
    u64::from(leader) << 40 | u64::from(number & 0x7fff_ffff) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inter_communicator_names_the_other_side_and_in_collectives_both() {
        let own = Group::of(vec![3, 1]);
        let mut comm = Comm::new(context(1, 1), own.clone(), 0);
        comm.remote = Some(Box::new(Remote::new(&own, Group::of(vec![5, 0, 2]))));
        assert_eq!(comm.peers(), 3);
        assert_eq!(
            (comm.world_of(0, 1), comm.rank_of(0, 2)),
            (Some(0), Some(2))
        );
        assert_eq!(comm.rank_of(0, 3), None);
        assert_eq!(comm.world_of(COLLECTIVE, 1), Some(1));
        assert_eq!(comm.world_of(COLLECTIVE, 2), Some(5));
        assert_eq!(comm.rank_of(COLLECTIVE, 3), Some(0));
    }

    #[test]
    fn contexts_of_different_leaders_differ() {
        assert_ne!(context(0, 1), context(1, 1));
        assert_eq!(context(3, 5) & COLLECTIVE, 0);
    }

    #[test]
    fn contexts_of_meetings_differ_from_all_others() {
        let group = Group::of(vec![0, 1]);
        let one = meeting_context(&group, "a");
        assert_eq!(one & COLLECTIVE, 0);
        assert_eq!(one, meeting_context(&Group::World { size: 2 }, "a"));
        assert_ne!(one, meeting_context(&group, "b"));
        assert_ne!(one, meeting_context(&Group::of(vec![1, 0]), "a"));
        assert_ne!(side_context(context(0, 2)), context(0, 2));
        assert_ne!(side_context(context(0, 2)), side_context(context(1, 2)));
    }
}
