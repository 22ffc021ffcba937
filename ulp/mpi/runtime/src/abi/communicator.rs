//! Communicators: what is asked of one, its name and hints, and its end. How they are made is in `comm_make.rs`.

use super::attribute::{Object, remove_all};
use super::buffered::take_back;
use super::group::give as give_group;
use super::info::give as give_info;
use super::raise::on_comm;
use super::values::{put, put_string, text};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::job::wait::wait_for;
use crate::objects::attr::Owner;
use crate::objects::comm::Comm;
use crate::objects::process::process;
use crate::p2p::buffered;
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_rank(comm: i32, rank: *mut c_int) -> c_int {
    on_comm("MPI_Comm_rank", comm, |guard, index| {
        // SAFETY: the program's pointer.
        unsafe { put(rank, guard.point.objects.comms[index].rank.cast_signed()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_size(comm: i32, size: *mut c_int) -> c_int {
    on_comm("MPI_Comm_size", comm, |guard, index| {
        // SAFETY: the program's pointer.
        unsafe {
            put(
                size,
                guard.point.objects.comms[index].group.size().cast_signed(),
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_test_inter(comm: i32, flag: *mut c_int) -> c_int {
    on_comm("MPI_Comm_test_inter", comm, |guard, index| {
        let is_inter = guard.point.objects.comms[index].remote.is_some();
        // SAFETY: the program's pointer.
        unsafe { put(flag, c_int::from(is_inter)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_remote_size(comm: i32, size: *mut c_int) -> c_int {
    on_comm("MPI_Comm_remote_size", comm, |guard, index| {
        let count = remote(&guard.point.objects.comms[index])?.size();
        // SAFETY: the program's pointer.
        unsafe { put(size, count.cast_signed()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_group(comm: i32, group: *mut i32) -> c_int {
    on_comm("MPI_Comm_group", comm, |guard, index| {
        let (own, session) = (
            guard.point.objects.comms[index].group.clone(),
            guard.point.objects.comms[index].session,
        );
        // SAFETY: the program's pointer.
        unsafe { give_group(guard, own, session, group) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_remote_group(comm: i32, group: *mut i32) -> c_int {
    on_comm("MPI_Comm_remote_group", comm, |guard, index| {
        let theirs = remote(&guard.point.objects.comms[index])?.clone();
        let session = guard.point.objects.comms[index].session;
        // SAFETY: the program's pointer.
        unsafe { give_group(guard, theirs, session, group) }
    })
}

/// The other side's group, of an inter-communicator alone.
fn remote(comm: &Comm) -> Outcome<&crate::objects::group::Group> {
    match &comm.remote {
        Some(remote) => Ok(&remote.group),
        None => Err(MpiError::with(MPI_ERR_COMM, "it has one side only")),
    }
}

/// How two communicators compare, both sides of each.
fn compare(one: &Comm, other: &Comm) -> i32 {
    let near = one.group.compare(&other.group);
    let far = match (&one.remote, &other.remote) {
        (None, None) => near,
        (Some(one), Some(other)) => one.group.compare(&other.group),
        _ => MPI_UNEQUAL,
    };
    match (near, far) {
        (MPI_UNEQUAL, _) | (_, MPI_UNEQUAL) => MPI_UNEQUAL,
        (MPI_SIMILAR, _) | (_, MPI_SIMILAR) => MPI_SIMILAR,
        _ => MPI_CONGRUENT,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_compare(
    comm1: i32,
    comm2: i32,
    result: *mut c_int,
) -> c_int {
    on_comm("MPI_Comm_compare", comm1, |guard, first| {
        let second = guard
            .point
            .objects
            .comms
            .index_of(comm2)
            .ok_or_else(|| MpiError::new(MPI_ERR_COMM))?;
        let relation = if first == second {
            MPI_IDENT
        } else {
            compare(
                &guard.point.objects.comms[first],
                &guard.point.objects.comms[second],
            )
        };
        // SAFETY: the program's pointer.
        unsafe { put(result, relation) }
    })
}

/// Ends a communicator: its attributes go, and it with the last operation that it is needed for.
unsafe fn end(
    function: &str,
    comm: *mut i32,
    before: impl FnOnce(&mut Guard, u32) -> Outcome,
) -> c_int {
    // A null pointer names no communicator.
    let handle = if comm.is_null() {
        0
    } else {
        // SAFETY: the program's pointer.
        unsafe { comm.read() }
    };
    on_comm(function, handle, |guard, index| {
        if guard.point.objects.comms[index].predefined {
            return Err(MpiError::with(
                MPI_ERR_COMM,
                "a predefined communicator is not freed",
            ));
        }
        before(guard, index)?;
        // Its buffer is the program's again.
        take_back(guard, buffered::Owner::Comm(index))?;
        let object = Object {
            owner: Owner::Comm,
            handle,
        };
        remove_all(guard, object)?;
        guard.drop_comm(index);
        // SAFETY: the program's pointer.
        unsafe { put(comm, MPI_COMM_NULL) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_free(comm: *mut i32) -> c_int {
    // SAFETY: the program's pointer.
    unsafe { end("MPI_Comm_free", comm, |_, _| Ok(())) }
}

/// Waits for what has begun, as the standard says; then the communicator is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_disconnect(comm: *mut i32) -> c_int {
    let settle = |guard: &mut Guard, index: u32| {
        wait_for(guard, |guard| {
            let mut requests = guard.point.requests.slab.iter();
            !requests.any(|(_, request)| request.comm == index && !request.done)
        })
    };
    // SAFETY: the program's pointer.
    unsafe { end("MPI_Comm_disconnect", comm, settle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_get_name(
    comm: i32,
    name: *mut c_char,
    length: *mut c_int,
) -> c_int {
    if comm == MPI_COMM_NULL {
        return super::raise::on_self("MPI_Comm_get_name", |_| {
            // SAFETY: as below.
            unsafe { put_string("MPI_COMM_NULL", name, MPI_MAX_OBJECT_NAME, length) }
        });
    }
    on_comm("MPI_Comm_get_name", comm, |guard, index| {
        // SAFETY: the standard promises room for MPI_MAX_OBJECT_NAME characters.
        unsafe {
            put_string(
                &guard.point.objects.comms[index].name,
                name,
                MPI_MAX_OBJECT_NAME,
                length,
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_set_name(comm: i32, name: *const c_char) -> c_int {
    on_comm("MPI_Comm_set_name", comm, |guard, index| {
        // SAFETY: the program's string.
        guard.point.objects.comms[index].name = unsafe { text(name) }?.into_owned();
        Ok(())
    })
}

/// Hints are kept and told again; none of them changes anything yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_set_info(comm: i32, info: i32) -> c_int {
    on_comm("MPI_Comm_set_info", comm, |guard, index| {
        let hints = process().hints(info)?;
        for (key, value) in hints.pairs() {
            guard.point.objects.comms[index].info.set(key, value)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_get_info(comm: i32, info: *mut i32) -> c_int {
    on_comm("MPI_Comm_get_info", comm, |guard, index| {
        let hints = guard.point.objects.comms[index].info.clone();
        // SAFETY: the program's pointer.
        unsafe { give_info(hints, info) }
    })
}

/// Nobody has spawned this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_get_parent(parent: *mut i32) -> c_int {
    // SAFETY: the program's pointer.
    super::raise::on_self("MPI_Comm_get_parent", |_| unsafe {
        put(parent, MPI_COMM_NULL)
    })
}
