//! The working directory: `chdir` into a directory of ours, and what is relative to it.
//!
//! And what a program that is executed is told besides ([`environment`]).
//!
//! The kernel has no such directory, so the process is in [`PLACE`] as far as the kernel knows, and the path is kept here; a program that is executed
//! gets it in the environment ([`VARIABLE`]). It counts only while the kernel's directory is [`PLACE`]: so what a child of vfork does, which shares
//! this memory and has a directory of its own, and who changes directory without the C library, mislead nobody. Calls that this library does not
//! stand before meet [`PLACE`], where nothing can be made.

use crate::ask::{self, Node, directory_path, ours_here, settled};
use crate::{answer, real};
use ferriband_fork::Table;
use ferriband_sanitizer::Inside;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where the kernel has processes whose directory is one of ours.
const PLACE: &CStr = c"/sys/class";
/// Tells an executed program of its directory.
const VARIABLE: &CStr = c"FERRIBAND_SYSFS_DIRECTORY";

/// Nobody has looked into the environment yet.
const UNKNOWN: u8 = 0;
/// No directory of ours.
const NONE: u8 = 1;
/// One, in [`PATH`].
const SOME: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static PATH: Table<Option<CString>> = Table::new(None);

extern "C" fn before_fork() {
    PATH.hold();
}

extern "C" fn after_fork() {
    PATH.release(|_| {});
}

ferriband_fork::at_fork!(Some(before_fork), Some(after_fork), Some(after_fork));

fn set(to: Option<CString>) {
    let state = if to.is_some() { SOME } else { NONE };
    *PATH.lock() = to;
    STATE.store(state, Ordering::Release);
}

/// What the program that executed this one said. It is taken out of the environment, which is older than the next `chdir`: [`environment`] tells
/// those whom this program executes.
fn inherit() {
    // SAFETY: a C string; who changes the environment while others read it is as wrong as with any getenv.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    let given = (!value.is_null())
        // SAFETY: ends with a zero.
        .then(|| unsafe { CStr::from_ptr(value) }.to_owned())
        .filter(|value| ask::is_ours(value.to_bytes()));
    if given.is_some() {
        // SAFETY: the value has a byte at least, in this process's own memory.
        unsafe { value.write(0) };
    }
    set(given);
}

fn in_place() -> bool {
    let mut buffer = [0_u8; PLACE.count_bytes() + 1];
    // SAFETY: a buffer of the length that is said; a longer directory is ERANGE.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) };
    length == buffer.len() as i64 && buffer == PLACE.to_bytes_with_nul()
}

/// The working directory if it is one of ours; None is the usual answer, and quick. Leaves errno alone.
#[inline]
pub fn directory() -> Option<CString> {
    if STATE.load(Ordering::Acquire) == NONE {
        return None;
    }
    look()
}

#[cold]
fn look() -> Option<CString> {
    let _inside = Inside::enter();
    let before = crate::errno();
    if STATE.load(Ordering::Acquire) == UNKNOWN {
        inherit();
    }
    let known = PATH.lock().clone();
    let found = known.filter(|_| in_place());
    crate::set_errno(before);
    found
}

/// A relative path below the working directory, if that is one of ours.
pub fn below(path: &CStr) -> Option<CString> {
    // an empty path is ENOENT wherever it is looked for
    if path.is_empty() {
        return None;
    }
    let joined = Path::new(OsStr::from_bytes(directory()?.to_bytes()))
        .join(OsStr::from_bytes(path.to_bytes()));
    CString::new(joined.into_os_string().into_encoded_bytes()).ok()
}

fn real_chdir(path: &CStr) -> c_int {
    real::call!(-1, fn chdir(path.as_ptr() => *const c_char) -> c_int)
}

/// The kernel's directory has been changed by the program itself: to [`PLACE`] means that place, and no directory of ours.
fn moved(done: c_int) -> c_int {
    if done == 0 && STATE.load(Ordering::Acquire) != NONE {
        let before = crate::errno();
        if in_place() {
            set(None);
        }
        crate::set_errno(before);
    }
    done
}

/// Into what is at a path of ours.
fn change(path: &CStr) -> c_int {
    answer(-1, || match settled(path)? {
        (_, Node::Elsewhere(path)) => Ok(moved(real_chdir(&path))),
        (path, Node::Directory(_)) => {
            let done = real_chdir(PLACE);
            if done == 0 {
                set(Some(path));
            }
            Ok(done)
        }
        _ => Err(libc::ENOTDIR),
    })
}

/// `chdir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ours_here(path) } {
        None => moved(real::call!(-1, fn chdir(path => *const c_char) -> c_int)),
        Some(path) => change(&path),
    }
}

/// `fchdir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchdir(descriptor: c_int) -> c_int {
    match directory_path(descriptor) {
        None => moved(real::call!(-1, fn fchdir(descriptor => c_int) -> c_int)),
        Some(path) => change(&path),
    }
}

/// Tells a directory as `getcwd` does: NULL asks for an allocation, of `size` bytes if that is not 0.
///
/// # Safety
/// `buffer` is NULL or writable for `size` bytes.
unsafe fn tell(directory: &CStr, buffer: *mut c_char, size: usize) -> *mut c_char {
    answer(std::ptr::null_mut(), || {
        let bytes = directory.to_bytes_with_nul();
        let (size, to) = match (buffer.is_null(), size) {
            (false, 0) => return Err(libc::EINVAL),
            (false, size) => (size, buffer),
            (true, size) => {
                let size = if size == 0 { bytes.len() } else { size };
                // SAFETY: the program frees it with the C library's free.
                (size, unsafe { libc::malloc(size) }.cast())
            }
        };
        if to.is_null() {
            return Err(libc::ENOMEM);
        }
        if size < bytes.len() {
            if buffer.is_null() {
                // SAFETY: allocated above.
                unsafe { libc::free(to.cast()) };
            }
            return Err(libc::ERANGE);
        }
        // SAFETY: room for that many bytes.
        unsafe { directory.as_ptr().copy_to_nonoverlapping(to, bytes.len()) };
        Ok(to)
    })
}

/// `getcwd`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(buffer: *mut c_char, size: usize) -> *mut c_char {
    match directory() {
        None => {
            real::call!(std::ptr::null_mut(), fn getcwd(buffer => *mut c_char, size => usize) -> *mut c_char)
        }
        // SAFETY: the caller's promise.
        Some(directory) => unsafe { tell(&directory, buffer, size) },
    }
}

/// `getcwd` with a checked buffer.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __getcwd_chk(
    buffer: *mut c_char,
    size: usize,
    room: usize,
) -> *mut c_char {
    match directory() {
        // SAFETY: the caller's promise.
        Some(directory) if size <= room => unsafe { tell(&directory, buffer, size) },
        // the C library's own ends the program where the buffer is too small
        _ => real::call!(
            std::ptr::null_mut(),
            fn __getcwd_chk(buffer => *mut c_char, size => usize, room => usize) -> *mut c_char
        ),
    }
}

/// `get_current_dir_name`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_current_dir_name() -> *mut c_char {
    let nothing = std::ptr::null_mut();
    match directory() {
        None => real::call!(nothing, fn get_current_dir_name() -> *mut c_char),
        // SAFETY: NULL asks for an allocation.
        Some(directory) => unsafe { tell(&directory, nothing, 0) },
    }
}

type Strings = *const *const c_char;

fn is_variable(entry: &CStr) -> bool {
    entry
        .to_bytes()
        .strip_prefix(VARIABLE.to_bytes())
        .is_some_and(|rest| rest.first() == Some(&b'='))
}

/// Options of AddressSanitizer, which refuses to start behind a preloaded library unless it is told that this is well. `ferriband run` tells it; a script that
/// gives a program options of its own does not know.
const ASAN: &[u8] = b"ASAN_OPTIONS=";
const ASAN_LINK_ORDER: &[u8] = b"verify_asan_link_order=";

fn refuses_us(entry: &CStr) -> bool {
    let says = |options: &[u8]| {
        let mut windows = options.windows(ASAN_LINK_ORDER.len());
        windows.any(|part| part == ASAN_LINK_ORDER)
    };
    let options = entry.to_bytes().strip_prefix(ASAN);
    options.is_some_and(|options| !says(options))
}

/// What an executed program is told, kept for the thread's next one: a child of vfork has its parent's memory, and executes before anybody could free it.
#[derive(Default)]
struct Told {
    entry: CString,
    asan: CString,
    strings: Vec<*const c_char>,
}

thread_local! {
    static TOLD: RefCell<Told> = RefCell::default();
}

/// The environment with the working directory in it, or without it where there is none of ours. Stays valid until this thread's next call.
///
/// # Safety
/// `given` is NULL or an array of strings that ends with NULL.
unsafe fn environment(given: Strings) -> Strings {
    let _inside = Inside::enter();
    let directory = directory();
    let mut count = 0;
    // SAFETY: the caller's promise: not beyond the NULL.
    while !given.is_null() && !unsafe { *given.add(count) }.is_null() {
        count += 1;
    }
    let given_strings = match count {
        0 => &[],
        // SAFETY: so many strings lie there.
        count => unsafe { std::slice::from_raw_parts(given, count) },
    };
    // SAFETY: strings of the array.
    let is_other = |entry: &&*const c_char| !is_variable(unsafe { CStr::from_ptr(**entry) });
    // SAFETY: as above.
    let asan = |entry: &&*const c_char| refuses_us(unsafe { CStr::from_ptr(**entry) });
    let asan = given_strings.iter().position(|entry| asan(&entry));
    // mostly: and a child of a program with several threads allocates nothing here
    if asan.is_none() && directory.is_none() && given_strings.iter().all(|entry| is_other(&entry)) {
        return given;
    }
    let mut strings: Vec<_> = given_strings.iter().filter(is_other).copied().collect();
    let before = crate::errno();
    let told = TOLD.try_with(|told| {
        let mut told = told.try_borrow_mut().ok()?;
        if let Some(directory) = directory {
            let entry = [VARIABLE.to_bytes(), b"=", directory.to_bytes()].concat();
            told.entry = CString::new(entry).ok()?;
            strings.push(told.entry.as_ptr());
        }
        if let Some(asan) = asan {
            let given = given_strings[asan];
            // SAFETY: a string of the array.
            let options = unsafe { CStr::from_ptr(given) }.to_bytes();
            told.asan = CString::new([options, b":", ASAN_LINK_ORDER, b"0"].concat()).ok()?;
            let place = strings.iter_mut().find(|entry| **entry == given)?;
            *place = told.asan.as_ptr();
        }
        strings.push(std::ptr::null());
        told.strings = strings;
        Some(told.strings.as_ptr())
    });
    crate::set_errno(before);
    told.ok().flatten().unwrap_or(given)
}

unsafe extern "C" {
    static environ: Strings;
}

/// `execve`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the caller's promise.
    let envp = unsafe { environment(envp) };
    real::call!(-1, fn execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

/// `execv`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the caller's promise, and the C library's own array.
    unsafe { execve(path, argv, environ) }
}

/// `execvpe`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the caller's promise.
    let envp = unsafe { environment(envp) };
    real::call!(-1, fn execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

/// `execvp`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the caller's promise, and the C library's own array.
    unsafe { execvpe(file, argv, environ) }
}

macro_rules! spawns {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            child: *mut libc::pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            argv: Strings,
            envp: Strings,
        ) -> c_int {
            // SAFETY: the caller's promise.
            let envp = unsafe { environment(envp) };
            real::call!(
                libc::ENOSYS,
                fn $name(
                    child => *mut libc::pid_t,
                    path => *const c_char,
                    actions => *const c_void,
                    attributes => *const c_void,
                    argv => Strings,
                    envp => Strings
                ) -> c_int
            )
        }
    )*};
}

spawns! {
    /// `posix_spawn`.
    posix_spawn;
    /// `posix_spawnp`.
    posix_spawnp;
}
