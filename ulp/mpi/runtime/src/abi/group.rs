//! Groups.

use super::raise::on_self;
use super::values::{longs, put};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::group::{Group, expand};
use std::ffi::c_int;

/// Makes a group.
///
/// # Safety
/// `place` is null or may be written.
pub(super) unsafe fn give(
    guard: &mut Guard,
    group: Group,
    session: Option<i32>,
    place: *mut i32,
) -> Outcome {
    if place.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let handle = guard.point.objects.groups.add(group, session)?;
    // SAFETY: the caller's promise.
    unsafe { put(place, handle) }
}

/// `count` numbers of the program.
///
/// # Safety
/// `list` has that many, or is null.
unsafe fn numbers(list: *const c_int, count: c_int) -> Outcome<Vec<c_int>> {
    let count = usize::try_from(count)
        .map_err(|_| MpiError::with(MPI_ERR_ARG, format!("{count} ranks")))?;
    // SAFETY: the caller's promise.
    unsafe { longs(list, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_size(group: i32, size: *mut c_int) -> c_int {
    on_self("MPI_Group_size", |guard| {
        let group = guard.point.objects.groups.group(group)?;
        // SAFETY: the program's pointer.
        unsafe { put(size, group.size().cast_signed()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_rank(group: i32, rank: *mut c_int) -> c_int {
    on_self("MPI_Group_rank", |guard| {
        let own = guard
            .point
            .objects
            .groups
            .group(group)?
            .rank_of(guard.point.rank);
        // SAFETY: the program's pointer.
        unsafe { put(rank, own.map_or(MPI_UNDEFINED, u32::cast_signed)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_free(group: *mut i32) -> c_int {
    on_self("MPI_Group_free", |guard| {
        if group.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's pointer.
        let handle = unsafe { group.read() };
        guard.point.objects.groups.group(handle)?;
        guard.point.objects.groups.drop(handle);
        // SAFETY: as above.
        unsafe { put(group, MPI_GROUP_NULL) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_compare(
    one: i32,
    other: i32,
    result: *mut c_int,
) -> c_int {
    on_self("MPI_Group_compare", |guard| {
        let relation = guard
            .point
            .objects
            .groups
            .group(one)?
            .compare(&guard.point.objects.groups.group(other)?);
        // SAFETY: the program's pointer.
        unsafe { put(result, relation) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_translate_ranks(
    one: i32,
    count: c_int,
    ranks: *const c_int,
    other: i32,
    to: *mut c_int,
) -> c_int {
    on_self("MPI_Group_translate_ranks", |guard| {
        let (one, other) = (
            guard.point.objects.groups.group(one)?,
            guard.point.objects.groups.group(other)?,
        );
        // SAFETY: the program's arrays.
        let ranks = unsafe { numbers(ranks, count) }?;
        if to.is_null() && !ranks.is_empty() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        for (at, rank) in ranks.into_iter().enumerate() {
            let there = one.translate(rank, &other)?;
            // SAFETY: as above.
            unsafe { to.add(at).write(there) };
        }
        Ok(())
    })
}

/// Makes a group from a list of ranks.
unsafe fn choose(
    function: &str,
    group: i32,
    count: c_int,
    ranks: *const c_int,
    place: *mut i32,
    choice: impl FnOnce(&Group, Vec<c_int>) -> Outcome<Group>,
) -> c_int {
    on_self(function, |guard| {
        let (group, session) = (
            guard.point.objects.groups.group(group)?,
            guard.point.objects.groups.session_of(group),
        );
        // Before what the ranks say: they may be wrong, too.
        if place.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's array and pointer.
        unsafe {
            let ranks = numbers(ranks, count)?;
            give(guard, choice(&group, ranks)?, session, place)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_incl(
    group: i32,
    count: c_int,
    ranks: *const c_int,
    newgroup: *mut i32,
) -> c_int {
    let choice =
        |group: &Group, ranks: Vec<c_int>| group.including(ranks.into_iter().map(i64::from));
    // SAFETY: the program's array and pointer, here and below.
    unsafe { choose("MPI_Group_incl", group, count, ranks, newgroup, choice) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_excl(
    group: i32,
    count: c_int,
    ranks: *const c_int,
    newgroup: *mut i32,
) -> c_int {
    let choice =
        |group: &Group, ranks: Vec<c_int>| group.excluding(ranks.into_iter().map(i64::from));
    // SAFETY: as above.
    unsafe { choose("MPI_Group_excl", group, count, ranks, newgroup, choice) }
}

/// Makes a group from triples.
unsafe fn choose_ranges(
    function: &str,
    group: i32,
    count: c_int,
    ranges: *mut c_int,
    place: *mut i32,
    choice: impl FnOnce(&Group, Vec<i64>) -> Outcome<Group>,
) -> c_int {
    let numbers = count.checked_mul(3).unwrap_or(-1);
    let choice = |group: &Group, numbers: Vec<c_int>| {
        let triples: Vec<[i32; 3]> = numbers
            .chunks_exact(3)
            .map(|triple| [triple[0], triple[1], triple[2]])
            .collect();
        choice(group, expand(&triples, group.size())?)
    };
    // SAFETY: the caller's promise: an array of triples.
    unsafe { choose(function, group, numbers, ranges, place, choice) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_range_incl(
    group: i32,
    count: c_int,
    ranges: *mut c_int,
    newgroup: *mut i32,
) -> c_int {
    let choice = |group: &Group, ranks: Vec<i64>| group.including(ranks.into_iter());
    // SAFETY: the program's array and pointer, here and below.
    unsafe {
        choose_ranges(
            "MPI_Group_range_incl",
            group,
            count,
            ranges,
            newgroup,
            choice,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_range_excl(
    group: i32,
    count: c_int,
    ranges: *mut c_int,
    newgroup: *mut i32,
) -> c_int {
    let choice = |group: &Group, ranks: Vec<i64>| group.excluding(ranks.into_iter());
    // SAFETY: as above.
    unsafe {
        choose_ranges(
            "MPI_Group_range_excl",
            group,
            count,
            ranges,
            newgroup,
            choice,
        )
    }
}

/// Makes a group from two.
unsafe fn combine(
    function: &str,
    (one, other): (i32, i32),
    place: *mut i32,
    combine: impl FnOnce(&Group, &Group) -> Group,
) -> c_int {
    on_self(function, |guard| {
        let group = combine(
            &guard.point.objects.groups.group(one)?,
            &guard.point.objects.groups.group(other)?,
        );
        let session = guard
            .point
            .objects
            .groups
            .session_of(one)
            .or_else(|| guard.point.objects.groups.session_of(other));
        // SAFETY: the program's pointer.
        unsafe { give(guard, group, session, place) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_union(
    one: i32,
    other: i32,
    newgroup: *mut i32,
) -> c_int {
    // SAFETY: the program's pointer, here and below.
    unsafe { combine("MPI_Group_union", (one, other), newgroup, Group::union) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_intersection(
    one: i32,
    other: i32,
    newgroup: *mut i32,
) -> c_int {
    let name = "MPI_Group_intersection";
    // SAFETY: as above.
    unsafe { combine(name, (one, other), newgroup, Group::intersection) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_difference(
    one: i32,
    other: i32,
    newgroup: *mut i32,
) -> c_int {
    let name = "MPI_Group_difference";
    // SAFETY: as above.
    unsafe { combine(name, (one, other), newgroup, Group::difference) }
}
