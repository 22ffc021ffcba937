//! How communicators are made: who belongs, and which context they all use.
//!
//! A context is the rank in the world of its leader and a number that the leader alone gives away, so nobody has to agree about it: the leader's
//! word is enough. Processes that make a communicator and are only a part of an old one talk in that one's side context; those that have none in
//! common meet in a context that is made from the group and a name.

use crate::coll::exec::{Buffers, Prepared};
use crate::coll::state::Guard;
use crate::coll::state::Mpi;
use crate::coll::{self, Call, run};
use crate::constants::{MPI_ERR_GROUP, MPI_ERR_INTERN, MPI_ERR_RANK, MPI_SUCCESS, MPI_UNDEFINED};
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::ground::memory::Buffer;
use crate::objects::attr::Attributes;
use crate::objects::comm::{Comm, Remote, meeting_context, side_context};
use crate::objects::comms::WORLD;
use crate::objects::group::Group;
use crate::objects::info::Info;
use crate::objects::process::process;
use crate::p2p::circles::revoked;
use crate::p2p::runtime::Runtime;
use ferriband_mpi_coll::{Blocks, Collective, InterCollective, Place, build_inter};
use std::sync::Arc;

/// The context of a communicator that has none yet.
pub(super) const NAMELESS: u64 = !COLLECTIVE;

/// Words as bytes that can be sent.
fn packed(words: &[u64]) -> Buffer {
    let mut buffer = Buffer::new(words.len() * 8);
    for (to, word) in buffer.bytes_mut().chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    buffer
}

/// The words that have come.
fn unpacked(buffer: &Buffer) -> Vec<u64> {
    let words = buffer.bytes().chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect()
}

/// A rank of the world from a list that another process has sent.
fn world_ranks(guard: &Runtime, words: &[u64]) -> Outcome<Vec<u32>> {
    let world = guard.point.objects.comms[WORLD].group.size();
    let rank = |word: &u64| u32::try_from(*word).ok().filter(|rank| *rank < world);
    words
        .iter()
        .map(|word| rank(word).ok_or_else(|| MpiError::new(MPI_ERR_INTERN)))
        .collect()
}

/// As many words from each rank of this process's side.
pub fn gather(guard: &mut Guard, comm: u32, mine: &[u64]) -> Outcome<Vec<Vec<u64>>> {
    let lengths = vec![mine.len() as u64; guard.point.objects.comms[comm].group.size() as usize];
    gather_each(guard, comm, mine, &lengths)
}

/// So many words from each rank as it has.
pub fn gather_lists(guard: &mut Guard, comm: u32, mine: &[u64]) -> Outcome<Vec<Vec<u64>>> {
    let lengths = gather(guard, comm, &[mine.len() as u64])?;
    let lengths: Vec<u64> = lengths.into_iter().flatten().collect();
    gather_each(guard, comm, mine, &lengths)
}

fn gather_each(
    guard: &mut Guard,
    comm: u32,
    mine: &[u64],
    lengths: &[u64],
) -> Outcome<Vec<Vec<u64>>> {
    let own = packed(mine);
    let mut blocks: Vec<Buffer> = lengths
        .iter()
        .map(|words| Buffer::new(*words as usize * 8))
        .collect();
    let bytes: Vec<u64> = lengths.iter().map(|words| words * 8).collect();
    let what = Collective::Allgather {
        blocks: Blocks::Each(&bytes),
        in_place: false,
    };
    let schedule = guard.schedule(comm, &what, 0, 1, false)?;
    let room = blocks.iter_mut().map(Buffer::sink).collect();
    let buffers = Buffers::new(1, vec![own.source()], room);
    let prepared = Prepared {
        schedule,
        shape: None,
        buffers,
        combine: None,
        after: None,
    };
    match run(guard, comm, prepared) {
        Ok(()) => Ok(blocks.iter().map(unpacked).collect()),
        Err(error) => {
            // Something may still come.
            std::mem::forget((own, blocks));
            Err(error)
        }
    }
}

/// The root's words to all ranks of this process's side.
pub fn spread(guard: &mut Guard, comm: u32, root: u32, words: Vec<u64>) -> Outcome<Vec<u64>> {
    let mut length = packed(&[words.len() as u64]);
    let sink = length.sink();
    coll::bcast(guard, comm, root, sink.source(), sink)?;
    let mut list = if guard.point.objects.comms[comm].rank == root {
        packed(&words)
    } else {
        Buffer::new(unpacked(&length)[0] as usize * 8)
    };
    let sink = list.sink();
    coll::bcast(guard, comm, root, sink.source(), sink)?;
    Ok(unpacked(&list))
}

/// Sends and receives a list of words; both ends do the same.
fn exchange(guard: &mut Guard, mut call: Call, peer: u32, mine: &[u64]) -> Outcome<Vec<u64>> {
    let (own_length, own) = (packed(&[mine.len() as u64]), packed(mine));
    let mut length = Buffer::new(8);
    call.receive(guard, peer, length.sink())?;
    call.send(guard, peer, own_length.source())?;
    call.wait(guard)?;
    let mut list = Buffer::new(unpacked(&length)[0] as usize * 8);
    call.receive(guard, peer, list.sink())?;
    call.send(guard, peer, own.source())?;
    call.wait(guard)?;
    Ok(unpacked(&list))
}

/// The words of the other side's rank 0, for what all of this side's ranks know of rank 0's.
fn swap(guard: &mut Guard, comm: u32, mine: &[u64]) -> Outcome<Vec<u64>> {
    // All ranks count this as one collective, so that the two sides' numbers stay the same.
    let call = Call::begin(guard, comm);
    let theirs = if call.rank == 0 {
        let other = call.size;
        exchange(guard, call, other, mine)?
    } else {
        Vec::new()
    };
    spread(guard, comm, 0, theirs)
}

/// Of the two sides the one that decides where only one can: both know which.
fn is_low(comm: &Comm) -> bool {
    match &comm.remote {
        Some(remote) => comm.group.world(0) < remote.group.world(0),
        None => true,
    }
}

/// A communicator with what it has from its parent.
pub(super) fn child(guard: &Runtime, parent: u32, context: u64, group: Group, rank: u32) -> Comm {
    let mut comm = Comm::new(context, group, rank);
    comm.errhandler = guard.point.objects.comms[parent].errhandler;
    comm.session = guard.point.objects.comms[parent].session;
    comm.broken = guard.point.impaired
        && comm
            .group
            .ranks()
            .any(|rank| guard.point.peers[rank as usize].lost);
    // It is there as long as the parent has it.
    let _ = process().retain(comm.errhandler, None);
    comm
}

/// Keeps a communicator of this process and others, if it belongs to it.
fn add(guard: &mut Mpi, parent: u32, context: u64, group: Group) -> Outcome<Option<u32>> {
    let Some(rank) = group.rank_of(guard.point.rank) else {
        return Ok(None);
    };
    let comm = child(guard, parent, context, group, rank);
    guard.add_comm(comm).map(Some)
}

/// The same with another side.
fn add_inter(
    guard: &mut Mpi,
    parent: u32,
    context: u64,
    own: Group,
    theirs: Group,
) -> Outcome<u32> {
    let rank = own
        .rank_of(guard.point.rank)
        .ok_or_else(|| MpiError::new(MPI_ERR_INTERN))?;
    let remote = Remote::new(&own, theirs);
    let mut comm = child(guard, parent, context, own, rank);
    comm.remote = Some(Box::new(remote));
    guard.add_comm(comm)
}

/// Begins to duplicate a communicator: the new one, which may be used once the request is over, and the request.
pub fn begin_dup(
    runtime: &mut Mpi,
    parent: u32,
    attributes: Attributes,
    info: Info,
    is_aside: bool,
) -> Outcome<(u32, u32)> {
    let old = &runtime.point.objects.comms[parent];
    let (leads, low) = (old.rank == 0 && is_low(old), is_low(old));
    let (group, rank) = (old.group.clone(), old.rank);
    let others = old.remote.as_ref().map(|remote| remote.group.clone());
    let mut memory = Buffer::new(8);
    if leads {
        memory = packed(&[runtime.point.objects.comms.new_context()]);
    }
    let schedule = match &others {
        None => runtime.schedule(
            parent,
            &Collective::Bcast { count: 8, root: 0 },
            8,
            1,
            false,
        )?,
        Some(others) => {
            let what = InterCollective::Share {
                count: 8,
                has_it: low,
            };
            let built = build_inter(&what, Place::new(rank, group.size()), others.size());
            Arc::new(built.map_err(|error| MpiError::with(MPI_ERR_INTERN, error.to_string()))?)
        }
    };
    let mut fresh = child(runtime, parent, NAMELESS, group, rank);
    fresh.remote = others.map(|others| Box::new(Remote::new(&fresh.group, others)));
    (fresh.attributes, fresh.info) = (attributes, info);
    fresh.topology = runtime.point.objects.comms[parent].topology.clone();
    let index = runtime.add_nameless(fresh)?;
    let buffers = Buffers::new(1, Vec::new(), vec![memory.sink()]);
    let prepared = Prepared {
        schedule,
        shape: None,
        buffers,
        combine: None,
        after: Some(Box::new(move |runtime, error| {
            if error == MPI_SUCCESS {
                runtime.point.name_comm(index, unpacked(&memory)[0])?;
            }
            Ok(())
        })),
    };
    let request = runtime.start_collective(parent, prepared, is_aside)?;
    Ok((index, request))
}

/// The same until it is over.
pub fn dup(guard: &mut Guard, parent: u32, attributes: Attributes, info: Info) -> Outcome<u32> {
    let (index, request) = begin_dup(guard, parent, attributes, info, false)?;
    crate::job::wait::wait_request(guard, request).inspect_err(|_| guard.let_go(request))?;
    match guard.point.requests.slab.remove(request) {
        Some(over) if over.status.error != MPI_SUCCESS => Err(MpiError::new(over.status.error)),
        _ => Ok(index),
    }
}

/// Those of a side that have a color, in the order of their keys, and the context of the first of them.
struct Side {
    ranks: Vec<u32>,
    context: u64,
}

fn side_of(guard: &Runtime, table: &[u64], group: &Group, color: u64) -> Outcome<Side> {
    let rows = table.chunks_exact(3).zip(0_u32..);
    let mut members: Vec<(i32, u32, u64)> = rows
        .filter(|(row, _)| row[0] == color)
        .map(|(row, rank)| ((row[1] as u32).cast_signed(), rank, row[2]))
        .collect();
    members.sort_unstable();
    let worlds: Vec<u64> = members
        .iter()
        .filter_map(|(_, rank, _)| group.world(*rank))
        .map(u64::from)
        .collect();
    Ok(Side {
        ranks: world_ranks(guard, &worlds)?,
        context: members.first().map_or(0, |first| first.2),
    })
}

/// MPI_Comm_split. None for MPI_UNDEFINED, and where nobody of the other side has the color.
pub fn split(guard: &mut Guard, comm: u32, color: i32, key: i32) -> Outcome<Option<u32>> {
    let word = |number: i32| u64::from(number.cast_unsigned());
    let context = guard.point.objects.comms.new_context();
    let table = gather(guard, comm, &[word(color), word(key), context])?.concat();
    let entry = &guard.point.objects.comms[comm];
    let (group, low) = (entry.group.clone(), is_low(entry));
    let Some(other) = entry.remote.as_ref().map(|remote| remote.group.clone()) else {
        if color == MPI_UNDEFINED {
            return Ok(None);
        }
        let side = side_of(guard, &table, &group, word(color))?;
        return add(guard, comm, side.context, Group::of(side.ranks));
    };
    let theirs = swap(guard, comm, &table)?;
    if color == MPI_UNDEFINED {
        return Ok(None);
    }
    let own = side_of(guard, &table, &group, word(color))?;
    let theirs = side_of(guard, &theirs, &other, word(color))?;
    if theirs.ranks.is_empty() {
        return Ok(None);
    }
    let context = if low { own.context } else { theirs.context };
    let (own, theirs) = (Group::of(own.ranks), Group::of(theirs.ranks));
    add_inter(guard, comm, context, own, theirs).map(Some)
}

/// MPI_Comm_create: several groups that have no rank in common may be made at once.
pub fn create(guard: &mut Guard, comm: u32, group: &Group) -> Outcome<Option<u32>> {
    let entry = &guard.point.objects.comms[comm];
    check_part(&entry.group, group)?;
    let leader = group.world(0).and_then(|world| entry.group.rank_of(world));
    let rank = group.rank_of(guard.point.rank);
    let color = match (entry.remote.is_some(), rank, leader) {
        (_, None, _) | (_, _, None) => MPI_UNDEFINED,
        (true, _, _) => 0,
        (false, _, Some(leader)) => leader.cast_signed(),
    };
    split(guard, comm, color, rank.map_or(0, u32::cast_signed))
}

fn check_part(whole: &Group, part: &Group) -> Outcome {
    match part.ranks().find(|world| whole.rank_of(*world).is_none()) {
        Some(world) => Err(MpiError::with(
            MPI_ERR_GROUP,
            format!("process {world} is not one of the communicator"),
        )),
        None => Ok(()),
    }
}

impl Mpi {
    /// The hidden communicator in which a part of another one's processes talk.
    fn side(&mut self, comm: u32) -> Outcome<u32> {
        let entry = &self.point.objects.comms[comm];
        let group = match &entry.remote {
            Some(remote) => remote.group.clone(),
            None => entry.group.clone(),
        };
        self.hidden(side_context(entry.context), group)
    }

    fn hidden(&mut self, context: u64, group: Group) -> Outcome<u32> {
        match self.point.objects.comms.of_context(context) {
            Some(index) => Ok(index),
            None => self.add_comm(Comm::new(context, group, 0)),
        }
    }
}

/// A context for a group, from its first rank to all others.
fn context_for(guard: &mut Guard, hidden: u32, group: &Group, tag: i32) -> Outcome<u64> {
    let me = guard.point.rank;
    let mut call = Call::between_two(guard, hidden, tag);
    let rank = |guard: &Guard, world| {
        let rank = guard.point.objects.comms[hidden].group.rank_of(world);
        rank.ok_or_else(|| MpiError::new(MPI_ERR_GROUP))
    };
    let leader = group.world(0).ok_or_else(|| MpiError::new(MPI_ERR_GROUP))?;
    if leader != me {
        let mut word = Buffer::new(8);
        let from = rank(guard, leader)?;
        call.receive(guard, from, word.sink())?;
        call.wait(guard)?;
        return Ok(unpacked(&word)[0]);
    }
    let context = guard.point.objects.comms.new_context();
    let word = packed(&[context]);
    for world in group.ranks().filter(|world| *world != me) {
        let to = rank(guard, world)?;
        call.send(guard, to, word.source())?;
    }
    call.wait(guard)?;
    Ok(context)
}

/// MPI_Comm_create_group: only the group's processes call it.
pub fn create_group(guard: &mut Guard, comm: u32, group: &Group, tag: i32) -> Outcome<Option<u32>> {
    if guard.point.objects.comms[comm].revoked {
        return Err(revoked());
    }
    check_part(&guard.point.objects.comms[comm].group, group)?;
    if group.rank_of(guard.point.rank).is_none() {
        return Ok(None);
    }
    let side = guard.side(comm)?;
    let context = context_for(guard, side, group, tag)?;
    add(guard, comm, context, group.clone())
}

/// A context for the processes of `group`, who all name it alike.
fn meet(guard: &mut Guard, group: &Group, name: &str) -> Outcome<u64> {
    let everybody = guard.point.objects.comms[WORLD].group.clone();
    let hidden = guard.hidden(meeting_context(group, name), everybody)?;
    let context = context_for(guard, hidden, group, 0)?;
    // Messages of the next meeting under this name may already be there: then it stays for that.
    if !guard.is_in_use(hidden) {
        guard.drop_comm(hidden);
    }
    Ok(context)
}

/// MPI_Comm_create_from_group. What has no parent gets its error handler from the caller.
pub fn from_group(guard: &mut Guard, group: &Group, name: &str) -> Outcome<u32> {
    if group.rank_of(guard.point.rank).is_none() {
        return Err(not_a_member());
    }
    let context = meet(guard, group, name)?;
    add(guard, WORLD, context, group.clone())?.ok_or_else(not_a_member)
}

#[cold]
fn not_a_member() -> MpiError {
    MpiError::with(MPI_ERR_GROUP, "this process is not one of the group")
}

/// MPI_Intercomm_create. The leaders talk in the side context of `peer` with `tag`; for others `peer` is none.
pub fn inter(
    guard: &mut Guard,
    local: u32,
    leader: u32,
    peer: Option<(u32, u32, i32)>,
) -> Outcome<u32> {
    let group = guard.point.objects.comms[local].group.clone();
    let mut list = Vec::new();
    if let Some((peer, other, tag)) =
        peer.filter(|_| guard.point.objects.comms[local].rank == leader)
    {
        let own = guard.point.objects.comms.new_context();
        let side = guard.side(peer)?;
        let call = Call::between_two(guard, side, tag);
        let mine: Vec<u64> = std::iter::once(own)
            .chain(group.ranks().map(u64::from))
            .collect();
        list = exchange(guard, call, other, &mine)?;
        if let Some(context) = list.first_mut() {
            *context = own.min(*context);
        }
    }
    let list = spread(guard, local, leader, list)?;
    let (context, ranks) = list
        .split_first()
        .ok_or_else(|| MpiError::new(MPI_ERR_RANK))?;
    let theirs = Group::of(world_ranks(guard, ranks)?);
    check_apart(&group, &theirs)?;
    add_inter(guard, local, *context, group, theirs)
}

fn check_apart(own: &Group, theirs: &Group) -> Outcome {
    if own.intersection(theirs).size() > 0 {
        return Err(MpiError::with(
            MPI_ERR_GROUP,
            "the two groups have processes in common",
        ));
    }
    Ok(())
}

/// MPI_Intercomm_create_from_groups.
pub fn inter_from_groups(
    guard: &mut Guard,
    own: &Group,
    theirs: &Group,
    name: &str,
) -> Outcome<u32> {
    if own.rank_of(guard.point.rank).is_none() {
        return Err(not_a_member());
    }
    check_apart(own, theirs)?;
    let all = if own.world(0) < theirs.world(0) {
        own.union(theirs)
    } else {
        theirs.union(own)
    };
    let context = meet(guard, &all, name)?;
    add_inter(guard, WORLD, context, own.clone(), theirs.clone())
}

/// MPI_Intercomm_merge: the side that is not `high` comes first.
pub fn merge(guard: &mut Guard, comm: u32, high: bool) -> Outcome<u32> {
    let mine = if guard.point.objects.comms[comm].rank == 0 {
        vec![u64::from(high), guard.point.objects.comms.new_context()]
    } else {
        Vec::new()
    };
    let mine = spread(guard, comm, 0, mine)?;
    let theirs = swap(guard, comm, &mine)?;
    let (&[own_high, own], &[their_high, other]) = (&mine[..], &theirs[..]) else {
        return Err(MpiError::new(MPI_ERR_INTERN));
    };
    let entry = &guard.point.objects.comms[comm];
    let Some(remote) = &entry.remote else {
        return Err(MpiError::new(MPI_ERR_INTERN));
    };
    let own_first = if own_high == their_high {
        is_low(entry)
    } else {
        own_high == 0
    };
    let group = if own_first {
        entry.group.union(&remote.group)
    } else {
        remote.group.union(&entry.group)
    };
    add(guard, comm, own.min(other), group)?.ok_or_else(not_a_member)
}
