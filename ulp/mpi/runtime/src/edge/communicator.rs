//! Communicators.

use super::raise::on_comm;
use super::values::{put, put_string, text};
use crate::collective;
use crate::comm::Comm;
use crate::constants::*;
use crate::errors::MpiError;
use crate::host::{Sink, Source};
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_rank(comm: i32, rank: *mut c_int) -> c_int {
    on_comm("MPI_Comm_rank", comm, |guard, index| {
        // SAFETY: the program's pointer.
        unsafe { put(rank, guard.comms[index].rank.cast_signed()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_size(comm: i32, size: *mut c_int) -> c_int {
    on_comm("MPI_Comm_size", comm, |guard, index| {
        // SAFETY: the program's pointer.
        unsafe { put(size, guard.comms[index].group.size().cast_signed()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_test_inter(comm: i32, flag: *mut c_int) -> c_int {
    on_comm("MPI_Comm_test_inter", comm, |_, _| {
        // SAFETY: the program's pointer.
        unsafe { put(flag, 0) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_compare(
    comm1: i32,
    comm2: i32,
    result: *mut c_int,
) -> c_int {
    on_comm("MPI_Comm_compare", comm1, |guard, first| {
        let second = guard
            .comm_index(comm2)
            .ok_or_else(|| MpiError::new(MPI_ERR_COMM))?;
        let (one, other) = (&guard.comms[first].group, &guard.comms[second].group);
        let list = |group: &crate::comm::Group| -> Vec<u32> {
            (0..group.size())
                .filter_map(|rank| group.world(rank))
                .collect()
        };
        let (one, other) = (list(one), list(other));
        let sorted = |mut ranks: Vec<u32>| {
            ranks.sort_unstable();
            ranks
        };
        let relation = if first == second {
            MPI_IDENT
        } else if one == other {
            MPI_CONGRUENT
        } else if sorted(one) == sorted(other) {
            MPI_SIMILAR
        } else {
            MPI_UNEQUAL
        };
        // SAFETY: the program's pointer.
        unsafe { put(result, relation) }
    })
}

/// The leader, rank 0, takes a context that nobody else can have, and tells the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_dup(comm: i32, newcomm: *mut i32) -> c_int {
    on_comm("MPI_Comm_dup", comm, |guard, index| {
        if newcomm.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let mut context = if guard.comms[index].rank == 0 {
            guard.new_context()
        } else {
            0
        };
        let place = (&raw mut context).cast::<u8>();
        // SAFETY: a local variable, which is there until the broadcast is over.
        let (source, sink) = unsafe { (Source::new(place, 8), Sink::new(place, 8)) };
        collective::bcast(guard, index, 0, source, sink)?;
        let old = &guard.comms[index];
        let mut comm = Comm::new(context, old.group.clone(), old.rank);
        comm.errhandler = old.errhandler;
        let fresh = guard.add_comm(comm)?;
        // SAFETY: the program's pointer.
        unsafe { put(newcomm, guard.comm_handle(fresh)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_free(comm: *mut i32) -> c_int {
    // A null pointer names no communicator.
    let handle = if comm.is_null() {
        0
    } else {
        // SAFETY: the program's pointer.
        unsafe { comm.read() }
    };
    on_comm("MPI_Comm_free", handle, |guard, index| {
        if guard.comms[index].predefined {
            return Err(MpiError::with(
                MPI_ERR_COMM,
                "a predefined communicator is not freed",
            ));
        }
        guard.drop_comm(index);
        // SAFETY: the program's pointer.
        unsafe { put(comm, MPI_COMM_NULL) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_get_name(
    comm: i32,
    name: *mut c_char,
    length: *mut c_int,
) -> c_int {
    on_comm("MPI_Comm_get_name", comm, |guard, index| {
        // SAFETY: the standard promises room for MPI_MAX_OBJECT_NAME characters.
        unsafe { put_string(&guard.comms[index].name, name, MPI_MAX_OBJECT_NAME, length) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_set_name(comm: i32, name: *const c_char) -> c_int {
    on_comm("MPI_Comm_set_name", comm, |guard, index| {
        // SAFETY: the program's string.
        guard.comms[index].name = unsafe { text(name) }?.into_owned();
        Ok(())
    })
}
