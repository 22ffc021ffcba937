//! Info objects. They may be used before MPI_Init and after MPI_Finalize.

use super::raise::at_any_time;
use super::values::{put, put_string, text};
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::info::Info;
use crate::objects::process::{environment, process};
use std::ffi::{c_char, c_int};

/// Asks an info object, MPI_INFO_ENV included.
fn ask<T>(handle: i32, question: impl FnOnce(&Info) -> Outcome<T>) -> Outcome<T> {
    if handle == MPI_INFO_ENV {
        return question(&environment());
    }
    question(process().info(handle)?.1)
}

/// Changes an info object.
fn change(handle: i32, change: impl FnOnce(&mut Info) -> Outcome) -> Outcome {
    let mut process = process();
    let index = process.info(handle)?.0;
    change(&mut process.infos[index])
}

/// Makes an info object.
///
/// # Safety
/// `place` is null or may be written.
pub(super) unsafe fn give(info: Info, place: *mut i32) -> Outcome {
    if place.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let handle = process().add_info(info)?;
    // SAFETY: the caller's promise.
    unsafe { put(place, handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_create(info: *mut i32) -> c_int {
    // SAFETY: the program's pointer.
    at_any_time("MPI_Info_create", || unsafe { give(Info::default(), info) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_create_env(
    _argc: c_int,
    _argv: *mut *mut c_char,
    info: *mut i32,
) -> c_int {
    // SAFETY: the program's pointer.
    at_any_time("MPI_Info_create_env", || unsafe {
        give(environment(), info)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_dup(info: i32, newinfo: *mut i32) -> c_int {
    at_any_time("MPI_Info_dup", || {
        let copy = ask(info, |info| Ok(info.clone()))?;
        // SAFETY: the program's pointer.
        unsafe { give(copy, newinfo) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_free(info: *mut i32) -> c_int {
    at_any_time("MPI_Info_free", || {
        if info.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let mut process = process();
        // SAFETY: the program's pointer.
        let index = process.info(unsafe { info.read() })?.0;
        process.infos.remove(index);
        // SAFETY: as above.
        unsafe { put(info, MPI_INFO_NULL) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_set(
    info: i32,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    at_any_time("MPI_Info_set", || {
        // SAFETY: the program's strings.
        let (key, value) = unsafe { (text(key)?, text(value)?) };
        change(info, |info| info.set(&key, &value))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_delete(info: i32, key: *const c_char) -> c_int {
    at_any_time("MPI_Info_delete", || {
        // SAFETY: the program's string.
        let key = unsafe { text(key) }?;
        change(info, |info| info.delete(&key))
    })
}

/// The value of a key.
///
/// # Safety
/// `key` is null or a string.
unsafe fn value(info: i32, key: *const c_char) -> Outcome<Option<String>> {
    // SAFETY: the caller's promise.
    let key = unsafe { text(key) }?;
    ask(info, |info| Ok(info.get(&key)?.map(str::to_owned)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_get(
    info: i32,
    key: *const c_char,
    room: c_int,
    place: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    at_any_time("MPI_Info_get", || {
        if room < 0 {
            return Err(MpiError::with(MPI_ERR_ARG, format!("{room} characters")));
        }
        // SAFETY: the program's strings and pointers; there is room for the end mark behind `room` characters.
        unsafe {
            let found = value(info, key)?;
            put(flag, c_int::from(found.is_some()))?;
            match found {
                Some(found) => {
                    put_string(&found, place, room.saturating_add(1), std::ptr::null_mut())
                }
                None => Ok(()),
            }
        }
    })
}

/// The length counts the end mark, and 0 asks for nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_get_string(
    info: i32,
    key: *const c_char,
    length: *mut c_int,
    place: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    at_any_time("MPI_Info_get_string", || {
        if length.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's strings and pointers.
        unsafe {
            let found = value(info, key)?;
            put(flag, c_int::from(found.is_some()))?;
            let Some(found) = found else {
                return Ok(());
            };
            let room = length.read();
            if room > 0 {
                put_string(&found, place, room, std::ptr::null_mut())?;
            }
            put(length, found.len() as c_int + 1)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_get_valuelen(
    info: i32,
    key: *const c_char,
    length: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    at_any_time("MPI_Info_get_valuelen", || {
        // SAFETY: the program's string and pointers.
        unsafe {
            let found = value(info, key)?;
            put(flag, c_int::from(found.is_some()))?;
            match found {
                Some(found) => put(length, found.len() as c_int),
                None => Ok(()),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_get_nkeys(info: i32, count: *mut c_int) -> c_int {
    at_any_time("MPI_Info_get_nkeys", || {
        let keys = ask(info, |info| Ok(info.len()))?;
        // SAFETY: the program's pointer.
        unsafe { put(count, keys as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_info_get_nthkey(
    info: i32,
    at: c_int,
    key: *mut c_char,
) -> c_int {
    at_any_time("MPI_Info_get_nthkey", || {
        let found = ask(info, |info| {
            let key = usize::try_from(at).ok().and_then(|at| info.key(at));
            key.map(str::to_owned)
                .ok_or_else(|| MpiError::with(MPI_ERR_ARG, format!("key {at} of {}", info.len())))
        })?;
        // SAFETY: the standard promises room for MPI_MAX_INFO_KEY characters.
        unsafe { put_string(&found, key, MPI_MAX_INFO_KEY, std::ptr::null_mut()) }
    })
}
