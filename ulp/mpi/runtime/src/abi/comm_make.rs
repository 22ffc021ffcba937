//! Communicators: how a program makes them.

use super::attribute::{Object, copy_all};
use super::raise::{decide, on_comm, outside, raise};
use super::values::{put, rank_of, send_tag, text};
use crate::coll::create;
use crate::coll::state::{Guard, enter};
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::attr::Owner;
use crate::objects::comms::SELF;
use crate::objects::info::Info;
use crate::objects::process::{Scope, process};
use crate::trace;
use std::ffi::{c_char, c_int};

/// A place for a handle, which no call makes for nothing.
fn check_place(place: *mut i32) -> Outcome {
    if place.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    Ok(())
}

/// Gives the program a communicator, or MPI_COMM_NULL.
unsafe fn give(guard: &Guard, made: Option<u32>, place: *mut i32) -> Outcome {
    let handle = made.map_or(MPI_COMM_NULL, |index| {
        guard.point.objects.comms.handle(index)
    });
    // SAFETY: the program's pointer.
    unsafe { put(place, handle) }
}

/// Makes a communicator from another one.
unsafe fn make(
    function: &str,
    comm: i32,
    place: *mut i32,
    body: impl FnOnce(&mut Guard, u32) -> Outcome<Option<u32>>,
) -> c_int {
    on_comm(function, comm, |guard, index| {
        check_place(place)?;
        let made = body(guard, index);
        // SAFETY: the program's pointer. Where nothing was made it says so, too.
        unsafe { give(guard, *made.as_ref().unwrap_or(&None), place) }?;
        made.map(drop)
    })
}

fn object(comm: i32) -> Object {
    Object {
        owner: Owner::Comm,
        handle: comm,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_dup(comm: i32, newcomm: *mut i32) -> c_int {
    let body = |guard: &mut Guard, index| {
        let attributes = copy_all(guard, object(comm))?;
        create::dup(guard, index, attributes, Info::default()).map(Some)
    };
    // SAFETY: the program's pointer, here and below.
    unsafe { make("MPI_Comm_dup", comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_dup_with_info(
    comm: i32,
    info: i32,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        let hints = process().hints(info)?;
        let attributes = copy_all(guard, object(comm))?;
        create::dup(guard, index, attributes, hints).map(Some)
    };
    // SAFETY: as above.
    unsafe { make("MPI_Comm_dup_with_info", comm, newcomm, body) }
}

/// Begins to duplicate a communicator.
unsafe fn begin_dup(
    function: &str,
    comm: i32,
    info: i32,
    newcomm: *mut i32,
    request: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        check_place(request)?;
        let hints = process().hints(info)?;
        let attributes = copy_all(guard, object(comm))?;
        let (made, begun) = create::begin_dup(guard, index, attributes, hints, true)?;
        // SAFETY: the program's pointer.
        unsafe { put(request, guard.point.requests.slab.handle(begun)) }?;
        Ok(Some(made))
    };
    // SAFETY: as above.
    unsafe { make(function, comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_idup(
    comm: i32,
    newcomm: *mut i32,
    request: *mut i32,
) -> c_int {
    // SAFETY: the program's pointers.
    unsafe { begin_dup("MPI_Comm_idup", comm, MPI_INFO_NULL, newcomm, request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_idup_with_info(
    comm: i32,
    info: i32,
    newcomm: *mut i32,
    request: *mut i32,
) -> c_int {
    // SAFETY: the program's pointers.
    unsafe { begin_dup("MPI_Comm_idup_with_info", comm, info, newcomm, request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_create(
    comm: i32,
    group: i32,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        let group = guard.point.objects.groups.group(group)?;
        create::create(guard, index, &group)
    };
    // SAFETY: the program's pointer.
    unsafe { make("MPI_Comm_create", comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_create_group(
    comm: i32,
    group: i32,
    tag: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        if guard.point.objects.comms[index].remote.is_some() {
            return Err(two_sides());
        }
        let group = guard.point.objects.groups.group(group)?;
        create::create_group(guard, index, &group, send_tag(tag)?)
    };
    // SAFETY: the program's pointer.
    unsafe { make("MPI_Comm_create_group", comm, newcomm, body) }
}

#[cold]
fn two_sides() -> MpiError {
    MpiError::with(MPI_ERR_COMM, "it is an inter-communicator")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_split(
    comm: i32,
    color: c_int,
    key: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        if color < 0 && color != MPI_UNDEFINED {
            return Err(MpiError::with(MPI_ERR_ARG, format!("color {color}")));
        }
        create::split(guard, index, color, key)
    };
    // SAFETY: the program's pointer.
    unsafe { make("MPI_Comm_split", comm, newcomm, body) }
}

/// What the ranks of a host share, as MPI 4.1 names it in MPI_Comm_split_type.
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// The ranks of a host share its memory, and none of them is bound to a part of it: what is smaller than the host is not known. Unguided, ranks of
/// several hosts go by hosts; those of one stay together, and that is no part.
fn color_of(guard: &Guard, comm: u32, kind: c_int, hints: &Info) -> Outcome<i32> {
    let whole = guard.transports.host.as_ref().map_or(0, |host| {
        host.host_of(guard.point.rank).cast_signed() & i32::MAX
    });
    let resource = hints.get("mpi_hw_resource_type")?;
    match kind {
        MPI_COMM_TYPE_SHARED => Ok(whole),
        MPI_COMM_TYPE_HW_UNGUIDED if spans_hosts(guard, comm) => Ok(whole),
        MPI_COMM_TYPE_HW_UNGUIDED | MPI_UNDEFINED => Ok(MPI_UNDEFINED),
        MPI_COMM_TYPE_HW_GUIDED => Ok(match resource {
            Some(SHARED_MEMORY) => whole,
            _ => MPI_UNDEFINED,
        }),
        MPI_COMM_TYPE_RESOURCE_GUIDED => Ok(match (resource, hints.get("mpi_pset_name")?) {
            (Some(SHARED_MEMORY), _) => whole,
            (None, Some("mpi://WORLD")) => 0,
            (None, Some("mpi://SELF")) => guard.point.rank.cast_signed(),
            _ => MPI_UNDEFINED,
        }),
        _ => Err(MpiError::with(MPI_ERR_ARG, format!("split type {kind}"))),
    }
}

/// Whether the ranks of a communicator are on several hosts.
fn spans_hosts(guard: &Guard, comm: u32) -> bool {
    let Some(host) = &guard.transports.host else {
        return false;
    };
    let mut hosts = guard.point.objects.comms[comm]
        .group
        .ranks()
        .map(|rank| host.host_of(rank));
    let first = hosts.next();
    hosts.any(|other| Some(other) != first)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_split_type(
    comm: i32,
    split_type: c_int,
    key: c_int,
    info: i32,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        let hints = process().hints(info)?;
        let color = color_of(guard, index, split_type, &hints)?;
        let made = create::split(guard, index, color, key)?;
        if made.is_some()
            && split_type == MPI_COMM_TYPE_HW_UNGUIDED
            && !matches!(info, MPI_INFO_NULL | MPI_INFO_ENV)
        {
            // What its ranks share is told in the program's own object.
            let mut process = process();
            let info = process.info(info)?.0;
            process.infos[info].set("mpi_hw_resource_type", SHARED_MEMORY)?;
        }
        Ok(made)
    };
    // SAFETY: the program's pointer.
    unsafe { make("MPI_Comm_split_type", comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_intercomm_create(
    local: i32,
    local_leader: c_int,
    peer: i32,
    remote_leader: c_int,
    tag: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index: u32| {
        if guard.point.objects.comms[index].remote.is_some() {
            return Err(two_sides());
        }
        let leader = rank_of(guard, index, local_leader, MPI_ERR_RANK)?;
        // The others' peer communicator means nothing.
        let peer = if guard.point.objects.comms[index].rank == leader {
            let peer = guard
                .point
                .objects
                .comms
                .index_of(peer)
                .ok_or_else(|| MpiError::new(MPI_ERR_COMM))?;
            let remote = rank_of(guard, peer, remote_leader, MPI_ERR_RANK)?;
            Some((peer, remote, send_tag(tag)?))
        } else {
            None
        };
        create::inter(guard, index, leader, peer).map(Some)
    };
    // SAFETY: the program's pointer.
    unsafe { make("MPI_Intercomm_create", local, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_intercomm_merge(
    comm: i32,
    high: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index: u32| {
        if guard.point.objects.comms[index].remote.is_none() {
            return Err(MpiError::with(MPI_ERR_COMM, "it has one side only"));
        }
        create::merge(guard, index, high != 0).map(Some)
    };
    // SAFETY: the program's pointer.
    unsafe { make("MPI_Intercomm_merge", comm, newcomm, body) }
}

/// Makes a communicator without a parent: its error handler is given, and is this call's, too.
unsafe fn make_from_groups(
    function: &str,
    (group, errhandler): (i32, i32),
    name: *const c_char,
    info: i32,
    place: *mut i32,
    body: impl FnOnce(&mut Guard, &str) -> Outcome<Option<u32>>,
) -> c_int {
    let _span = trace::span(function);
    let Some(mut guard) = enter() else {
        return outside(function);
    };
    let kept = process().retain(errhandler, Some(Scope::Comm));
    if let Err(error) = kept {
        return raise(guard, SELF, function, &error);
    }
    let make = || {
        check_place(place)?;
        // SAFETY: the program's string.
        let name = unsafe { text(name) }?;
        if name.len() >= MPI_MAX_STRINGTAG_LEN as usize {
            return Err(MpiError::with(MPI_ERR_ARG, "the string tag is too long"));
        }
        let hints = process().hints(info)?;
        let session = guard.point.objects.groups.session_of(group);
        let made = body(&mut guard, &name)?;
        if let Some(index) = made {
            process().retain(errhandler, None)?;
            let comm = &mut guard.point.objects.comms[index];
            let inherited = std::mem::replace(&mut comm.errhandler, errhandler);
            (comm.info, comm.session) = (hints, session);
            process().release(inherited);
        }
        // SAFETY: the program's pointer.
        unsafe { give(&guard, made, place) }
    };
    let code = match make() {
        Ok(()) => {
            drop(guard);
            MPI_SUCCESS
        }
        Err(error) => decide(Some(guard), errhandler, "", MPI_COMM_NULL, function, &error),
    };
    process().release(errhandler);
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_create_from_group(
    group: i32,
    name: *const c_char,
    info: i32,
    errhandler: i32,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, name: &str| {
        let group = guard.point.objects.groups.group(group)?;
        if group.size() == 0 {
            return Ok(None);
        }
        create::from_group(guard, &group, name).map(Some)
    };
    let function = "MPI_Comm_create_from_group";
    // SAFETY: the program's string and pointer.
    unsafe { make_from_groups(function, (group, errhandler), name, info, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_intercomm_create_from_groups(
    local_group: i32,
    _local_leader: c_int,
    remote_group: i32,
    _remote_leader: c_int,
    name: *const c_char,
    info: i32,
    errhandler: i32,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, name: &str| {
        let (own, theirs) = (
            guard.point.objects.groups.group(local_group)?,
            guard.point.objects.groups.group(remote_group)?,
        );
        if own.size() == 0 {
            return Ok(None);
        }
        create::inter_from_groups(guard, &own, &theirs, name).map(Some)
    };
    let function = "MPI_Intercomm_create_from_groups";
    // SAFETY: the program's string and pointer.
    unsafe {
        make_from_groups(
            function,
            (local_group, errhandler),
            name,
            info,
            newcomm,
            body,
        )
    }
}
