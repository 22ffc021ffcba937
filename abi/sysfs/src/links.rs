//! `readlink` and `realpath`.

use crate::ask::{self, Last, Node, node, ours, ours_here, settled};
use crate::{answer, real};
use std::ffi::{CStr, c_char, c_int};

/// # Safety
/// `buffer` is writable for `size` bytes.
unsafe fn read(path: &CStr, buffer: *mut c_char, size: usize) -> isize {
    answer(-1, || match node(path, Last::Itself, false)? {
        Node::Link(target) => {
            let length = target.count_bytes().min(size);
            // SAFETY: the caller's promise; a longer target is cut, as the C function does.
            unsafe { target.as_ptr().copy_to_nonoverlapping(buffer, length) };
            Ok(length as isize)
        }
        Node::Elsewhere(path) => Ok(real::call!(
            -1,
            fn readlink(path.as_ptr() => *const c_char, buffer => *mut c_char, size => usize) -> isize
        )),
        _ => Err(libc::EINVAL),
    })
}

/// `readlink`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, buffer: *mut c_char, size: usize) -> isize {
    // SAFETY: the caller's promise.
    match unsafe { ours_here(path) } {
        None => {
            real::call!(-1, fn readlink(path => *const c_char, buffer => *mut c_char, size => usize) -> isize)
        }
        // SAFETY: the caller's promise.
        Some(path) => unsafe { read(&path, buffer, size) },
    }
}

/// `readlink` with a checked buffer.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
    room: usize,
) -> isize {
    // SAFETY: the caller's promise.
    match unsafe { ours_here(path) } {
        Some(path) if size <= room => {
            // SAFETY: the caller's promise.
            unsafe { read(&path, buffer, size) }
        }
        // the C library's own ends the program where the buffer is too small
        _ => real::call!(
            -1,
            fn __readlink_chk(path => *const c_char, buffer => *mut c_char, size => usize, room => usize) -> isize
        ),
    }
}

/// `readlinkat`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> isize {
    // SAFETY: the caller's promise.
    match unsafe { ours(directory, path) } {
        None => real::call!(
            -1,
            fn readlinkat(directory => c_int, path => *const c_char, buffer => *mut c_char, size => usize) -> isize
        ),
        // SAFETY: the caller's promise.
        Some(path) => unsafe { read(&path, buffer, size) },
    }
}

/// # Safety
/// `resolved` is NULL or has room for `PATH_MAX` bytes.
unsafe fn resolve(path: &CStr, resolved: *mut c_char) -> *mut c_char {
    let nothing = std::ptr::null_mut();
    answer(nothing, || {
        let (path, node) = settled(path)?;
        if let Node::Elsewhere(path) = node {
            // SAFETY: the caller's promise.
            return Ok(unsafe { ask::real_path(&path, resolved) });
        }
        let length = path.as_bytes_with_nul().len();
        if length > libc::PATH_MAX as usize {
            return Err(libc::ENAMETOOLONG);
        }
        let to = if resolved.is_null() {
            // SAFETY: the program frees it with the C library's free.
            unsafe { libc::malloc(length) }.cast()
        } else {
            resolved
        };
        if to.is_null() {
            return Err(libc::ENOMEM);
        }
        // SAFETY: the caller's promise, or an allocation of that length.
        unsafe { path.as_ptr().copy_to_nonoverlapping(to, length) };
        Ok(to)
    })
}

/// `realpath`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    match unsafe { ours_here(path) } {
        None => real::call!(
            std::ptr::null_mut(),
            fn realpath(path => *const c_char, resolved => *mut c_char) -> *mut c_char
        ),
        // SAFETY: the caller's promise.
        Some(path) => unsafe { resolve(&path, resolved) },
    }
}

/// `realpath` with a checked buffer.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    resolved: *mut c_char,
    room: usize,
) -> *mut c_char {
    // SAFETY: the caller's promise.
    match unsafe { ours_here(path) } {
        Some(path) if room >= libc::PATH_MAX as usize => {
            // SAFETY: the caller's promise.
            unsafe { resolve(&path, resolved) }
        }
        _ => real::call!(
            std::ptr::null_mut(),
            fn __realpath_chk(path => *const c_char, resolved => *mut c_char, room => usize) -> *mut c_char
        ),
    }
}

/// `canonicalize_file_name`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise; NULL asks for an allocation.
    unsafe { realpath(path, std::ptr::null_mut()) }
}
