//! What files of ours are: `stat` and its family, `access` and its family, and attributes that they do not have.

use crate::ask::{self, Last, Node, node, ours, ours_here};
use crate::{answer, real, working};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// A device number that no file system has.
const FILE_SYSTEM: u64 = 0xf_fffe;
/// The size that the kernel gives for each of its files there.
const FILE_BYTES: i64 = 4096;

/// A number for a path: the same for the same place however it is written, which is what programs compare when they come back by `..`.
pub fn inode(path: &CStr) -> u64 {
    let path = ask::plain(path);
    let hash = path
        .to_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    hash | 1
}

fn mode(node: &Node) -> u32 {
    match node {
        Node::Directory(_) => libc::S_IFDIR | 0o755,
        Node::File(_) => libc::S_IFREG | 0o444,
        Node::Link(_) | Node::Elsewhere(_) => libc::S_IFLNK | 0o777,
        Node::Device(_) => libc::S_IFCHR | 0o666,
    }
}

fn size(node: &Node) -> i64 {
    match node {
        Node::File(_) => FILE_BYTES,
        Node::Link(target) => target.count_bytes() as i64,
        _ => 0,
    }
}

/// Fills a `struct stat`, which on 64-bit systems is `struct stat64` too.
///
/// # Safety
/// `to` is writable.
unsafe fn fill(path: &CStr, node: &Node, to: *mut libc::stat) {
    // SAFETY: zeros are a valid `stat`.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    status.st_dev = FILE_SYSTEM;
    status.st_ino = inode(path);
    status.st_mode = mode(node);
    status.st_nlink = 1;
    status.st_size = size(node);
    status.st_blksize = FILE_BYTES as _;
    if let Node::Device(number) = node {
        status.st_rdev = *number;
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(status) };
}

/// What `stat` says of a path of ours; `Err` names a path of the file system that it leads to.
fn look(path: &CStr, last: Last) -> Result<Result<Node, CString>, c_int> {
    Ok(match node(path, last, false)? {
        Node::Elsewhere(path) => Err(path),
        node => Ok(node),
    })
}

/// # Safety
/// `to` is writable.
unsafe fn status(path: &CStr, last: Last, to: *mut libc::stat) -> c_int {
    answer(-1, || match look(path, last)? {
        Ok(node) => {
            // SAFETY: the caller's promise.
            unsafe { fill(path, &node, to) };
            Ok(0)
        }
        // a path that leads on through a link of ours; what is there may be a link itself
        Err(path) => Ok(match last {
            Last::Followed => {
                real::call!(-1, fn stat(path.as_ptr() => *const c_char, to => *mut libc::stat) -> c_int)
            }
            Last::Itself => {
                real::call!(-1, fn lstat(path.as_ptr() => *const c_char, to => *mut libc::stat) -> c_int)
            }
        }),
    })
}

macro_rules! by_path {
    ($($(#[$doc:meta])* $name:ident: $last:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut libc::stat) -> c_int {
            // SAFETY: the caller's promise.
            match unsafe { ours_here(path) } {
                None => real::call!(-1, fn $name(path => *const c_char, to => *mut libc::stat) -> c_int),
                // SAFETY: the caller's promise.
                Some(path) => unsafe { status(&path, $last, to) },
            }
        }
    )*};
}

by_path! {
    /// `stat`.
    stat: Last::Followed;
    /// `stat64`.
    stat64: Last::Followed;
    /// `lstat`.
    lstat: Last::Itself;
    /// `lstat64`.
    lstat64: Last::Itself;
}

macro_rules! by_path_versioned {
    ($($(#[$doc:meta])* $name:ident: $last:expr;)*) => {$(
        $(#[$doc])*
        /// Programs linked before glibc 2.33 call it.
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int {
            // SAFETY: the caller's promise.
            match unsafe { ours_here(path) } {
                None => real::call!(-1, fn $name(version => c_int, path => *const c_char, to => *mut libc::stat) -> c_int),
                // SAFETY: the caller's promise; the structure is the same in every version of 64-bit systems.
                Some(path) => unsafe { status(&path, $last, to) },
            }
        }
    )*};
}

by_path_versioned! {
    /// `stat` as it was.
    __xstat: Last::Followed;
    /// `stat64` as it was.
    __xstat64: Last::Followed;
    /// `lstat` as it was.
    __lxstat: Last::Itself;
    /// `lstat64` as it was.
    __lxstat64: Last::Itself;
}

/// The path of ours that `fstatat` and `statx` mean: relative ones and an empty one are looked up by the descriptor.
///
/// # Safety
/// `path` is NULL or a string.
unsafe fn at(directory: c_int, path: *const c_char, flags: c_int) -> Option<CString> {
    // SAFETY: the caller's promise.
    let empty = path.is_null() || unsafe { *path } == 0;
    if !empty {
        // SAFETY: the caller's promise.
        return unsafe { ours(directory, path) };
    }
    if flags & libc::AT_EMPTY_PATH == 0 {
        return None;
    }
    match directory {
        libc::AT_FDCWD => working::directory(),
        directory => ask::directory_path(directory),
    }
}

fn last(flags: c_int) -> Last {
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
        Last::Itself
    } else {
        Last::Followed
    }
}

macro_rules! by_directory {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(directory: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int {
            // SAFETY: the caller's promise.
            match unsafe { at(directory, path, flags) } {
                None => real::call!(
                    -1,
                    fn $name(directory => c_int, path => *const c_char, to => *mut libc::stat, flags => c_int) -> c_int
                ),
                // SAFETY: the caller's promise.
                Some(path) => unsafe { status(&path, last(flags), to) },
            }
        }
    )*};
}

by_directory! {
    /// `fstatat`.
    fstatat;
    /// `fstatat64`.
    fstatat64;
}

macro_rules! by_directory_versioned {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            directory: c_int,
            path: *const c_char,
            to: *mut libc::stat,
            flags: c_int,
        ) -> c_int {
            // SAFETY: the caller's promise.
            match unsafe { at(directory, path, flags) } {
                None => real::call!(
                    -1,
                    fn $name(version => c_int, directory => c_int, path => *const c_char, to => *mut libc::stat, flags => c_int) -> c_int
                ),
                // SAFETY: the caller's promise.
                Some(path) => unsafe { status(&path, last(flags), to) },
            }
        }
    )*};
}

by_directory_versioned! {
    /// `fstatat` as programs linked before glibc 2.33 call it.
    __fxstatat;
    /// `fstatat64` as programs linked before glibc 2.33 call it.
    __fxstatat64;
}

macro_rules! by_descriptor {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, to: *mut libc::stat) -> c_int {
            match ask::directory_path(descriptor) {
                None => real::call!(-1, fn $name(descriptor => c_int, to => *mut libc::stat) -> c_int),
                // SAFETY: the caller's promise.
                Some(path) => unsafe { status(&path, Last::Followed, to) },
            }
        }
    )*};
}

by_descriptor! {
    /// `fstat`: a directory of ours is no memory file to the program.
    fstat;
    /// `fstat64`.
    fstat64;
}

/// `statx`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    let real_statx = |directory: c_int, path: *const c_char| {
        real::call!(
            -1,
            fn statx(directory => c_int, path => *const c_char, flags => c_int, mask => c_uint, to => *mut libc::statx) -> c_int
        )
    };
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { at(directory, path, flags) }) else {
        return real_statx(directory, path);
    };
    answer(-1, || {
        let node = match look(&path, last(flags))? {
            Ok(node) => node,
            Err(path) => return Ok(real_statx(libc::AT_FDCWD, path.as_ptr())),
        };
        // SAFETY: zeros are a valid `statx`.
        let mut status: libc::statx = unsafe { std::mem::zeroed() };
        status.stx_mask = libc::STATX_BASIC_STATS;
        status.stx_blksize = FILE_BYTES as u32;
        status.stx_nlink = 1;
        status.stx_mode = mode(&node) as u16;
        status.stx_ino = inode(&path);
        status.stx_size = size(&node) as u64;
        (status.stx_dev_major, status.stx_dev_minor) =
            (libc::major(FILE_SYSTEM), libc::minor(FILE_SYSTEM));
        if let Node::Device(number) = node {
            (status.stx_rdev_major, status.stx_rdev_minor) =
                (libc::major(number), libc::minor(number));
        }
        // SAFETY: the caller's promise.
        unsafe { to.write(status) };
        Ok(0)
    })
}

/// Whether a path of ours may be used so.
fn allowed(path: &CStr, wanted: c_int) -> c_int {
    answer(-1, || {
        let node = match look(path, Last::Followed)? {
            Ok(node) => node,
            Err(path) => {
                return Ok(
                    real::call!(-1, fn access(path.as_ptr() => *const c_char, wanted => c_int) -> c_int),
                );
            }
        };
        let granted = match node {
            Node::Directory(_) => libc::R_OK | libc::X_OK,
            Node::Device(_) => libc::R_OK | libc::W_OK,
            _ => libc::R_OK,
        };
        if wanted & !granted == 0 {
            Ok(0)
        } else {
            Err(libc::EACCES)
        }
    })
}

macro_rules! access {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, wanted: c_int) -> c_int {
            // SAFETY: the caller's promise.
            match unsafe { ours_here(path) } {
                None => real::call!(-1, fn $name(path => *const c_char, wanted => c_int) -> c_int),
                Some(path) => allowed(&path, wanted),
            }
        }
    )*};
}

access! {
    /// `access`.
    access;
    /// `eaccess`.
    eaccess;
    /// `euidaccess`.
    euidaccess;
}

/// `faccessat`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(
    directory: c_int,
    path: *const c_char,
    wanted: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ours(directory, path) } {
        None => real::call!(
            -1,
            fn faccessat(directory => c_int, path => *const c_char, wanted => c_int, flags => c_int) -> c_int
        ),
        Some(path) => allowed(&path, wanted),
    }
}

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        /// Files of ours have none.
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, $($argument: $type),*) -> isize {
            // SAFETY: the caller's promise.
            if unsafe { ours_here(path) }.is_some() {
                crate::set_errno(libc::ENOTSUP);
                return -1;
            }
            real::call!(-1, fn $name(path => *const c_char, $($argument => $type),*) -> isize)
        }
    )*};
}

attributes! {
    /// `getxattr`.
    getxattr(name: *const c_char, value: *mut c_void, size: usize);
    /// `lgetxattr`.
    lgetxattr(name: *const c_char, value: *mut c_void, size: usize);
    /// `listxattr`.
    listxattr(list: *mut c_char, size: usize);
    /// `llistxattr`.
    llistxattr(list: *mut c_char, size: usize);
}
