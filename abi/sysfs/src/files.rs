//! `open` and `fopen`.

use crate::ask::{self, DIRECTORY_NAME, Last, Node, node, ours, ours_here};
use crate::{answer, real};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// Seals of a memory file that nobody changes any more.
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// A descriptor from which `content` is read.
fn memory_file(name: &CStr, content: &[u8], flags: c_int) -> Result<c_int, c_int> {
    let cloexec = if flags & libc::O_CLOEXEC != 0 {
        libc::MFD_CLOEXEC
    } else {
        0
    };
    // SAFETY: a string.
    let file = unsafe { libc::memfd_create(name.as_ptr(), cloexec | libc::MFD_ALLOW_SEALING) };
    if file < 0 {
        return Err(crate::errno());
    }
    // SAFETY: a new descriptor.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    ferriband_limit::fill(file.as_fd(), content)
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    // SAFETY: the descriptor is ours.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } != 0 {
        return Err(crate::errno());
    }
    Ok(file.into_raw_fd())
}

/// Opens what is at a path of ours.
pub fn open_ours(path: &CStr, flags: c_int, mode: c_uint) -> Result<c_int, c_int> {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let last = if flags & libc::O_NOFOLLOW != 0 {
        Last::Itself
    } else {
        Last::Followed
    };
    match node(path, last, true) {
        // nothing can be made there
        Err(libc::ENOENT) if flags & libc::O_CREAT != 0 => Err(libc::EACCES),
        Err(errno) => Err(errno),
        Ok(_) if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL => {
            Err(libc::EEXIST)
        }
        Ok(Node::Elsewhere(path)) => {
            let open = || {
                real::call!(
                    -1,
                    fn open(path.as_ptr() => *const c_char, flags => c_int, mode => c_uint) -> c_int
                )
            };
            Ok(ferriband_cancel::undisturbed(open))
        }
        Ok(Node::Link(_)) => Err(libc::ELOOP),
        Ok(Node::Directory(_)) if writes => Err(libc::EISDIR),
        Ok(Node::Directory(_)) => {
            let descriptor = memory_file(DIRECTORY_NAME, path.to_bytes(), flags)?;
            ask::has_directories();
            Ok(descriptor)
        }
        Ok(_) if flags & libc::O_DIRECTORY == libc::O_DIRECTORY => Err(libc::ENOTDIR),
        Ok(Node::File(_)) if writes => Err(libc::EACCES),
        Ok(Node::File(text)) => memory_file(c"ferriband-sysfs", &text, flags),
        // the kernel has no such device: the verbs library is its only way in
        Ok(Node::Device(_)) => Err(libc::ENXIO),
    }
}

macro_rules! opens {
    ($($(#[$doc:meta])* $name:ident($($directory:ident)?; $($mode:ident)?);)*) => {$(
        $(#[$doc])*
        ///
        /// The C functions take the mode as an optional argument. It is passed like any other on the systems that we build for, and what is
        /// passed on when the program gave none is not looked at.
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($directory: c_int,)? path: *const c_char, flags: c_int $(, $mode: c_uint)?) -> c_int {
            #[allow(unused_mut, unused_assignments)]
            let mut directory = libc::AT_FDCWD;
            $(directory = $directory;)?
            #[allow(unused_mut, unused_assignments)]
            let mut given = 0;
            $(given = $mode;)?
            // SAFETY: the caller's promise.
            match unsafe { ours(directory, path) } {
                None => real::call!(
                    -1,
                    fn $name($($directory => c_int,)? path => *const c_char, flags => c_int $(, $mode => c_uint)?) -> c_int
                ),
                Some(path) => answer(-1, || open_ours(&path, flags, given)),
            }
        }
    )*};
}

opens! {
    /// `open`.
    open(; mode);
    /// `open64`.
    open64(; mode);
    /// `openat`.
    openat(directory; mode);
    /// `openat64`.
    openat64(directory; mode);
    /// `open`, checked to make no file.
    __open_2(;);
    /// `open64`, checked to make no file.
    __open64_2(;);
    /// `openat`, checked to make no file.
    __openat_2(directory;);
    /// `openat64`, checked to make no file.
    __openat64_2(directory;);
}

/// What `fopen`'s mode says of the descriptor.
fn flags_of(mode: &[u8]) -> c_int {
    let writes = mode
        .iter()
        .any(|letter| matches!(letter, b'w' | b'a' | b'+'));
    let cloexec = mode.contains(&b'e');
    let access = if writes { libc::O_RDWR } else { libc::O_RDONLY };
    access | if cloexec { libc::O_CLOEXEC } else { 0 }
}

macro_rules! fopens {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, mode: *const c_char) -> *mut c_void {
            let nothing = std::ptr::null_mut();
            // SAFETY: the caller's promise.
            let Some(path) = (unsafe { ours_here(path) }) else {
                return real::call!(nothing, fn $name(path => *const c_char, mode => *const c_char) -> *mut c_void);
            };
            answer(nothing, || {
                if mode.is_null() {
                    return Err(libc::EINVAL);
                }
                // SAFETY: the caller's promise.
                let letters = unsafe { CStr::from_ptr(mode) };
                let descriptor = open_ours(&path, flags_of(letters.to_bytes()), 0)?;
                // a link that leads on was opened by the C library, whose errno stands
                if descriptor < 0 {
                    return Err(crate::errno());
                }
                // SAFETY: the descriptor is ours to give, the mode a string.
                let stream = unsafe { libc::fdopen(descriptor, mode) };
                if stream.is_null() {
                    let errno = crate::errno();
                    // SAFETY: nobody else has it.
                    unsafe { libc::close(descriptor) };
                    return Err(errno);
                }
                Ok(stream.cast())
            })
        }
    )*};
}

fopens! {
    /// `fopen`.
    fopen;
    /// `fopen64`.
    fopen64;
}
