//! Collectives: what the program passed becomes a schedule and the places of its blocks. The entries are in `collective_calls.rs`.

use super::inter;
use super::op::Reduction;
use super::values::{aliased, are_distinct, bytes, extent, is_in_place, rank_of, sink, source};
use crate::collective::exec::{Buffers, Combine, Prepared};
use crate::collective::shared;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::status::Array;
use crate::host::{Sink, Source};
use crate::job::state::Guard;
use ferriband_mpi_coll::{Blocks, Collective};
use std::ffi::{c_int, c_void};

/// This process's rank, and the size, of a communicator.
fn shape(guard: &Guard, comm: u32) -> (u32, usize) {
    let comm = &guard.comms[comm];
    (comm.rank, comm.group.size() as usize)
}

/// The schedule of something that moves bytes.
fn moving(
    guard: &mut Guard,
    comm: u32,
    collective: &Collective<'_>,
    bytes: u64,
    send: Vec<Source>,
    recv: Vec<Sink>,
) -> Outcome<Prepared> {
    let shared = shared::offered(guard, comm)?;
    let schedule = guard.schedule(comm, collective, bytes, 1, shared, false)?;
    let buffers = Buffers::new(1, send, recv);
    Ok(Prepared {
        schedule,
        buffers,
        combine: None,
        after: None,
    })
}

pub(super) fn barrier(guard: &mut Guard, comm: u32) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        return inter::barrier(guard, comm);
    }
    moving(guard, comm, &Collective::Barrier, 0, Vec::new(), Vec::new())
}

/// # Safety
/// As the standard says of the buffer, here and below.
pub(super) unsafe fn bcast(
    guard: &mut Guard,
    comm: u32,
    buffer: *mut c_void,
    count: i64,
    datatype: i32,
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::bcast(guard, comm, (buffer, count, datatype), root) };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    // SAFETY: the program's buffer.
    let place = unsafe { sink(guard, buffer, count, datatype) }?;
    let count = place.len() as u64;
    moving(
        guard,
        comm,
        &Collective::Bcast { count, root },
        count,
        Vec::new(),
        vec![place],
    )
}

/// The blocks of all ranks in a buffer that has `count` elements for each.
///
/// # Safety
/// As the standard says of the buffer.
pub(super) unsafe fn even(
    guard: &mut Guard,
    buffer: *mut c_void,
    count: i64,
    kind: i32,
    size: usize,
) -> Outcome<(u64, Vec<Sink>)> {
    let each = bytes(guard, count, kind)?;
    // SAFETY: the caller's promise.
    let whole = unsafe { sink(guard, buffer, count.saturating_mul(size as i64), kind) }?;
    Ok((
        each as u64,
        (0..size)
            .map(|rank| whole.part(rank * each, each))
            .collect(),
    ))
}

/// Which datatype each block has.
#[derive(Clone, Copy)]
pub(super) enum Types {
    /// All this one; displacements are in its elements.
    One(i32),
    /// Each its own; displacements are in bytes.
    Each(Array),
}

/// A buffer with a block for each rank, of lengths and at displacements of the program's.
#[derive(Clone, Copy)]
pub(super) struct Uneven {
    pub(super) buffer: *mut c_void,
    pub(super) counts: Array,
    pub(super) displacements: Array,
    pub(super) types: Types,
}

impl Uneven {
    /// The lengths in bytes, and the blocks.
    ///
    /// # Safety
    /// As the standard says of the buffer; the arrays have `size` elements.
    pub(super) unsafe fn blocks(
        &self,
        guard: &mut Guard,
        size: usize,
    ) -> Outcome<(Vec<u64>, Vec<Sink>)> {
        self.counts.check(size)?;
        self.displacements.check(size)?;
        if let Types::Each(kinds) = self.types {
            kinds.check(size)?;
        }
        let mut lengths = Vec::with_capacity(size);
        let mut blocks = Vec::with_capacity(size);
        for rank in 0..size {
            // SAFETY: the caller's promise, thrice.
            let (count, displacement) =
                unsafe { (self.counts.count(rank), self.displacements.count(rank)) };
            let (kind, scale) = match self.types {
                Types::One(kind) => (kind, extent(guard, kind)?),
                // SAFETY: as above.
                Types::Each(kinds) => (unsafe { kinds.handle(rank) }, 1),
            };
            let offset = displacement
                .checked_mul(scale)
                .and_then(|offset| isize::try_from(offset).ok())
                .ok_or_else(|| {
                    MpiError::with(MPI_ERR_ARG, format!("displacement {displacement}"))
                })?;
            // SAFETY: where the program says that a block of its buffer lies.
            let block =
                unsafe { sink(guard, self.buffer.wrapping_byte_offset(offset), count, kind) }?;
            lengths.push(block.len() as u64);
            blocks.push(block);
        }
        Ok((lengths, blocks))
    }
}

/// One buffer does not begin where the other one, of a block for each rank, does, nor where this rank's block does.
fn send_aside(own: &Source, blocks: &[Sink], rank: u32) -> Outcome {
    for block in [blocks.first(), blocks.get(rank as usize)]
        .into_iter()
        .flatten()
    {
        are_distinct(own, block)?;
    }
    Ok(())
}

/// Neither do two buffers of blocks, by their first ones and those of this rank.
fn all_aside(send: &[Sink], recv: &[Sink], rank: u32) -> Outcome {
    for at in [0, rank as usize] {
        if let (Some(send), Some(recv)) = (send.get(at), recv.get(at)) {
            are_distinct(&send.source(), recv)?;
        }
    }
    Ok(())
}

/// Blocks to be read.
pub(super) fn sources(blocks: &[Sink]) -> Vec<Source> {
    blocks.iter().map(Sink::source).collect()
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn gather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::gather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| inter::equal(guard, (recvbuf, recvcount, recvtype), size),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(sendbuf);
    // SAFETY: the program's buffers; the receiving one means something at the root only.
    let (recv, send) = unsafe {
        (
            (rank == root)
                .then(|| even(guard, recvbuf, recvcount, recvtype, size))
                .transpose()?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(send)) = (&recv, &send) {
        send_aside(send, blocks, rank)?;
    }
    let each = match (&recv, &send) {
        (Some((each, _)), _) => *each,
        (None, own) => own.map_or(0, |own| own.len() as u64),
    };
    let collective = Collective::Gather {
        blocks: Blocks::Equal(each),
        root,
        in_place,
    };
    let recv = recv.map_or(Vec::new(), |(_, blocks)| blocks);
    moving(
        guard,
        comm,
        &collective,
        each,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn gatherv(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: Uneven,
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::gather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| recv.blocks(guard, size),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(sendbuf);
    // SAFETY: the program's buffers and arrays; the receiving ones mean something at the root only.
    let (blocks, send) = unsafe {
        (
            (rank == root)
                .then(|| recv.blocks(guard, size))
                .transpose()?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(send)) = (&blocks, &send) {
        send_aside(send, blocks, rank)?;
    }
    // Who is not the root knows its own length, and that is all it needs.
    let own = send.map_or(0, |own| own.len() as u64);
    let (lengths, recv) = blocks.unwrap_or_else(|| (vec![own; size], Vec::new()));
    let collective = Collective::Gather {
        blocks: Blocks::Each(&lengths),
        root,
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        0,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn scatter(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::scatter(
                guard,
                comm,
                |guard, size| inter::equal(guard, (sendbuf.cast_mut(), sendcount, sendtype), size),
                (recvbuf, recvcount, recvtype),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(recvbuf);
    // SAFETY: the program's buffers; the sending one means something at the root only, where it is read.
    let (send, recv) = unsafe {
        (
            (rank == root)
                .then(|| even(guard, sendbuf.cast_mut(), sendcount, sendtype, size))
                .transpose()?,
            (!in_place)
                .then(|| sink(guard, recvbuf, recvcount, recvtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(recv)) = (&send, &recv) {
        send_aside(&recv.source(), blocks, rank)?;
    }
    let each = match (&send, &recv) {
        (Some((each, _)), _) => *each,
        (None, own) => own.map_or(0, |own| own.len() as u64),
    };
    let collective = Collective::Scatter {
        blocks: Blocks::Equal(each),
        root,
        in_place,
    };
    let send = send.map_or(Vec::new(), |(_, blocks)| sources(&blocks));
    // The root's own block may have more room than it has bytes.
    let recv = recv.map(|own| own.part(0, own.len().min(each as usize)));
    moving(
        guard,
        comm,
        &collective,
        each,
        send,
        recv.into_iter().collect(),
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn scatterv(
    guard: &mut Guard,
    comm: u32,
    send: Uneven,
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::scatter(
                guard,
                comm,
                |guard, size| send.blocks(guard, size),
                (recvbuf, recvcount, recvtype),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(recvbuf);
    // SAFETY: the program's buffers and arrays; the sending ones mean something at the root only, where they are read.
    let (blocks, recv) = unsafe {
        (
            (rank == root)
                .then(|| send.blocks(guard, size))
                .transpose()?,
            (!in_place)
                .then(|| sink(guard, recvbuf, recvcount, recvtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(recv)) = (&blocks, &recv) {
        send_aside(&recv.source(), blocks, rank)?;
    }
    let own = recv.map_or(0, |own| own.len() as u64);
    let (lengths, send) = blocks.unwrap_or_else(|| (vec![own; size], Vec::new()));
    let collective = Collective::Scatter {
        blocks: Blocks::Each(&lengths),
        root,
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        0,
        sources(&send),
        recv.into_iter().collect(),
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn allgather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::allgather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| inter::equal(guard, (recvbuf, recvcount, recvtype), size),
            )
        };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's buffers.
    let ((each, recv), send) = unsafe {
        (
            even(guard, recvbuf, recvcount, recvtype, size)?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let Some(send) = &send {
        send_aside(send, &recv, rank)?;
    }
    let collective = Collective::Allgather {
        blocks: Blocks::Equal(each),
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        each,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn allgatherv(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: Uneven,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::allgather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| recv.blocks(guard, size),
            )
        };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's buffers and arrays.
    let ((lengths, recv), send) = unsafe {
        (
            recv.blocks(guard, size)?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let Some(send) = &send {
        send_aside(send, &recv, rank)?;
    }
    let mean = lengths
        .iter()
        .fold(0_u64, |sum, length| sum.saturating_add(*length))
        / size as u64;
    let collective = Collective::Allgather {
        blocks: Blocks::Each(&lengths),
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        mean,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn alltoall(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::alltoall(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                (recvbuf, recvcount, recvtype),
            )
        };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's buffers.
    let ((each, recv), send) = unsafe {
        (
            even(guard, recvbuf, recvcount, recvtype, size)?,
            (!in_place)
                .then(|| even(guard, sendbuf.cast_mut(), sendcount, sendtype, size))
                .transpose()?,
        )
    };
    if let Some((_, send)) = &send {
        all_aside(send, &recv, rank)?;
    }
    let blocks = Blocks::Equal(each);
    let collective = Collective::Alltoall {
        send: blocks,
        recv: blocks,
        in_place,
    };
    let send = send.map_or(Vec::new(), |(_, blocks)| sources(&blocks));
    moving(guard, comm, &collective, each, send, recv)
}

/// MPI_Alltoallv and w.
///
/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn alltoallv(
    guard: &mut Guard,
    comm: u32,
    send: Uneven,
    recv: Uneven,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::alltoallv(guard, comm, send, recv) };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(send.buffer);
    // SAFETY: the program's buffers and arrays.
    let ((lengths, recv), send) = unsafe {
        (
            recv.blocks(guard, size)?,
            (!in_place).then(|| send.blocks(guard, size)).transpose()?,
        )
    };
    if let Some((_, send)) = &send {
        all_aside(send, &recv, rank)?;
    }
    let (out, send) = send.unwrap_or_default();
    let collective = Collective::Alltoall {
        send: if in_place {
            Blocks::Equal(0)
        } else {
            Blocks::Each(&out)
        },
        recv: Blocks::Each(&lengths),
        in_place,
    };
    // Lengths differ from rank to rank, and all must choose alike.
    moving(guard, comm, &collective, 0, sources(&send), recv)
}

/// The program's functions get vectors of so many bytes at the most as they are. The standard has them go from element to element, but there are some that
/// look at all of a vector (hypre merges lists), which works where a vector is combined in one. Longer ones are combined part by part if operands may
/// change places.
const WHOLE: u64 = 8192;

/// Two buffers of elements that are to be combined.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    pub(super) sendbuf: *const c_void,
    pub(super) recvbuf: *mut c_void,
    pub(super) datatype: i32,
    pub(super) op: i32,
}

impl Elements {
    /// The schedule of something that combines: `sent` elements, of which `received` are a result here (none: no result comes here), and what the
    /// schedule is, from *commutative* and *in place*.
    ///
    /// # Safety
    /// As the standard says of the buffers.
    unsafe fn prepare<'a>(
        self,
        guard: &mut Guard,
        comm: u32,
        (sent, received): (i64, Option<i64>),
        collective: impl FnOnce(bool, bool) -> Collective<'a>,
    ) -> Outcome<Prepared> {
        let how = Reduction::new(guard, self.op, self.datatype)?;
        let in_place = received.is_some() && is_in_place(self.sendbuf);
        let (mut send, mut recv) = (Vec::new(), Vec::new());
        // SAFETY: the program's buffers; in place all that is sent lies where it is received.
        unsafe {
            if !in_place {
                send.push(how.source(guard, self.sendbuf, sent)?);
            }
            if let Some(received) = received {
                let room = if in_place { sent } else { received };
                recv.push(how.sink(guard, self.recvbuf, room)?);
            }
        }
        // Both are of one datatype, so elements with gaps are no exception.
        if let ([send], [_]) = (&send[..], &recv[..])
            && !send.is_empty()
            && self.sendbuf.addr() == self.recvbuf.addr()
        {
            return Err(aliased());
        }
        let bytes = (how.unit as u64).saturating_mul(sent.max(0).cast_unsigned());
        let collective = collective(how.commutes, in_place);
        // The program's functions run outside of the runtime, where nobody waits for flags.
        let (shared, whole) = match how.combine {
            Combine::Own(_) => (shared::offered(guard, comm)?, false),
            Combine::Program(_) => (0, !how.commutes || bytes <= WHOLE),
        };
        let schedule = guard.schedule(comm, &collective, bytes, how.unit, shared, whole)?;
        Ok(Prepared {
            schedule,
            buffers: Buffers::new(how.unit, send, recv),
            combine: Some(how.combine),
            after: None,
        })
    }
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn reduce(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::reduce(guard, comm, elements, count, root) };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, _) = shape(guard, comm);
    let units = count.max(0).cast_unsigned();
    let received = (rank == root).then_some(count);
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(guard, comm, (count, received), |commutative, in_place| {
            Collective::Reduce {
                count: units,
                root,
                commutative,
                in_place,
            }
        })
    }
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn allreduce(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::allreduce(guard, comm, elements, count) };
    }
    let units = count.max(0).cast_unsigned();
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(
            guard,
            comm,
            (count, Some(count)),
            |commutative, in_place| Collective::Allreduce {
                count: units,
                commutative,
                in_place,
            },
        )
    }
}

/// MPI_Scan and MPI_Exscan.
///
/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn scan(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
    exclusive: bool,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        return Err(MpiError::with(MPI_ERR_COMM, "it is an inter-communicator"));
    }
    let units = count.max(0).cast_unsigned();
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(
            guard,
            comm,
            (count, Some(count)),
            |commutative, in_place| Collective::Scan {
                count: units,
                exclusive,
                commutative,
                in_place,
            },
        )
    }
}

/// # Safety
/// As for [`bcast`]; the array has an element for each rank.
pub(super) unsafe fn reduce_scatter(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    counts: Array,
) -> Outcome<Prepared> {
    let (rank, size) = shape(guard, comm);
    counts.check(size)?;
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::reduce_scatter(guard, comm, elements, inter::each(counts)) };
    }
    let wrong = |count: i64| MpiError::with(MPI_ERR_COUNT, format!("{count} elements"));
    let (mut lengths, mut total) = (Vec::with_capacity(size), 0_i64);
    for at in 0..size {
        // SAFETY: the caller's promise.
        let count = unsafe { counts.count(at) };
        lengths.push(u64::try_from(count).map_err(|_| wrong(count))?);
        total = total.checked_add(count).ok_or_else(|| wrong(count))?;
    }
    let own = lengths[rank as usize].cast_signed();
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(guard, comm, (total, Some(own)), |commutative, in_place| {
            Collective::ReduceScatter {
                blocks: Blocks::Each(&lengths),
                commutative,
                in_place,
            }
        })
    }
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn reduce_scatter_block(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::reduce_scatter(guard, comm, elements, |_| count) };
    }
    let (_, size) = shape(guard, comm);
    let wrong = || MpiError::with(MPI_ERR_COUNT, format!("{count} elements"));
    let units = u64::try_from(count).map_err(|_| wrong())?;
    let total = count.checked_mul(size as i64).ok_or_else(wrong)?;
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(
            guard,
            comm,
            (total, Some(count)),
            |commutative, in_place| Collective::ReduceScatter {
                blocks: Blocks::Equal(units),
                commutative,
                in_place,
            },
        )
    }
}
