//! Blocks of the program that collectives read and write.
//!
//! Owns: what a call's buffers, counts, displacements and datatypes are as ranges of memory. Must
//! not know: which collective they are for.

use super::op::Reduction;
use super::values::{aliased, are_distinct, bytes, extent, is_in_place, sink};
use crate::coll::exec::{Buffers, Combine, Prepared};
use crate::coll::shape::shape as shape_of;
use crate::coll::shared;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::ground::memory::{Sink, Source};
use ferriband_mpi_coll::Collective;
use std::ffi::c_void;
use std::sync::Arc;

/// This process's rank, and the size, of a communicator.
pub(super) fn shape(guard: &Guard, comm: u32) -> (u32, usize) {
    let comm = &guard.point.objects.comms[comm];
    (comm.rank, comm.group.size() as usize)
}

/// The schedule of something that moves bytes.
pub(super) fn moving(
    guard: &mut Guard,
    comm: u32,
    collective: &Collective<'_>,
    bytes: u64,
    send: Vec<Source>,
    recv: Vec<Sink>,
) -> Outcome<Prepared> {
    shared::agree(guard, comm)?;
    let shape = shape_of(guard, comm, collective, bytes, 1);
    let schedule = match shape {
        Some(_) => Arc::default(),
        None => guard.schedule(comm, collective, bytes, 1, false)?,
    };
    let buffers = Buffers::new(1, send, recv);
    Ok(Prepared {
        schedule,
        shape,
        buffers,
        combine: None,
        after: None,
    })
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

/// One buffer does not begin where the other one, of a block for each rank, does, nor where this
/// rank's block does.
pub(super) fn send_aside(own: &Source, blocks: &[Sink], rank: u32) -> Outcome {
    for block in [blocks.first(), blocks.get(rank as usize)]
        .into_iter()
        .flatten()
    {
        are_distinct(own, block)?;
    }
    Ok(())
}

/// Neither do two buffers of blocks, by their first ones and those of this rank.
pub(super) fn all_aside(send: &[Sink], recv: &[Sink], rank: u32) -> Outcome {
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

/// The program's functions get vectors of so many bytes at the most as they are. The standard has
/// them go from element to element, but there are some that
/// look at all of a vector (hypre merges lists), which works where a vector is combined in one.
/// Longer ones are combined part by part if operands may
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
    /// The schedule of something that combines: `sent` elements, of which `received` are a result
    /// here (none: no result comes here), and what the
    /// schedule is, from *commutative* and *in place*.
    ///
    /// # Safety
    /// As the standard says of the buffers.
    pub(super) unsafe fn prepare<'a>(
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
        shared::agree(guard, comm)?;
        let is_own = matches!(how.combine, Combine::Own(_));
        let whole = !is_own && (!how.commutes || bytes <= WHOLE);
        // The program's functions run outside of the runtime, where nobody waits for flags.
        let shape = match is_own {
            true => shape_of(guard, comm, &collective, bytes, how.unit),
            false => None,
        };
        let schedule = match shape {
            Some(_) => Arc::default(),
            None => guard.schedule(comm, &collective, bytes, how.unit, whole)?,
        };
        Ok(Prepared {
            schedule,
            shape,
            buffers: Buffers::new(how.unit, send, recv),
            combine: Some(how.combine),
            after: None,
        })
    }
}
