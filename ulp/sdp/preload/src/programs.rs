//! Calls that execute programs, which get descriptors and do not know how they are carried.

use crate::{only_by_kernel_for, quietly, real, set_errno};
use ferriband_sdp_socket::inet_sdp;
use ferriband_sdp_socket::process::{Cause, Process, fork_by};
use ferriband_sdp_socket::process::{read_settings, report as report_to};
use std::arch::global_asm;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

type Strings = *const *const c_char;

/// What the executed program inherits is TCP.
fn before_exec() {
    if let Some(process) = Process::there() {
        quietly((), || process.before_exec());
    }
    report();
}

/// As [`before_exec`], of a program in this process's place.
fn before_another() {
    before_end(false);
    before_exec();
}

/// What another host has not got goes by TCP, and what peers by SDP have not got is sent. `ends`:
/// the program sends no more.
fn before_end(ends: bool) {
    quietly((), || inet_sdp::before_end(ends));
    if let Some(process) = Process::there() {
        quietly((), || process.before_end(ends));
    }
}

fn at_end() {
    before_end(true);
    if let Some(process) = Process::there() {
        quietly((), || process.at_end());
    }
}

/// execve(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    before_another();
    real::call!(-1, fn execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

/// execveat(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: Strings,
    envp: Strings,
    flags: c_int,
) -> c_int {
    before_another();
    real::call!(-1, fn execveat(
        directory => c_int, path => *const c_char, argv => Strings, envp => Strings,
        flags => c_int
    ) -> c_int)
}

/// fexecve(3).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, argv: Strings, envp: Strings) -> c_int {
    before_another();
    real::call!(-1, fn fexecve(file => c_int, argv => Strings, envp => Strings) -> c_int)
}

/// execv(3).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    before_another();
    real::call!(-1, fn execv(path => *const c_char, argv => Strings) -> c_int)
}

/// execvp(3).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    before_another();
    real::call!(-1, fn execvp(file => *const c_char, argv => Strings) -> c_int)
}

/// execvpe(3).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    before_another();
    real::call!(-1, fn execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int)
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
            before_exec();
            real::call!(libc::ENOSYS, fn $name(
                child => *mut libc::pid_t, path => *const c_char, actions => *const c_void,
                attributes => *const c_void, argv => Strings, envp => Strings
            ) -> c_int)
        }
    )*};
}

spawns! {
    /// posix_spawn(3).
    posix_spawn;
    /// posix_spawnp(3).
    posix_spawnp;
}

/// popen(3): the C library executes by itself.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    before_exec();
    real::call!(std::ptr::null_mut(), fn popen(command => *const c_char, mode => *const c_char) -> *mut c_void)
}

/// system(3): as popen(3).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    before_exec();
    real::call!(-1, fn system(command => *const c_char) -> c_int)
}

/// Says how many connections were carried, where somebody wants to know.
fn report() {
    if Process::there().is_none() {
        return;
    }
    let path = COUNTERS.load(Ordering::Relaxed);
    if !path.is_null() {
        // SAFETY: not NULL, so the string of `at_start`, which stays.
        let path = unsafe { CStr::from_ptr(path) };
        quietly((), || report_to(path));
    }
}

/// Where somebody wants to know it, as was set when the program began.
static COUNTERS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn at_start() {
    let path = quietly(String::new(), read_settings);
    if let Ok(path) = CString::new(path)
        && !path.is_empty()
    {
        COUNTERS.store(path.into_raw(), Ordering::Relaxed);
    }
    quietly((), Process::begin);
}

/// The C library calls it when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_exit() {
    at_end();
    report();
}

/// The C library calls it when the program ends by exit(3).
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// _exit(2).
#[unsafe(no_mangle)]
pub extern "C" fn _exit(code: c_int) -> ! {
    at_end();
    report();
    real::call!((), fn _exit(code => c_int) -> ());
    std::process::abort()
}

/// _Exit(3), which is _exit(2).
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}

/// Calls a function in which the C library forks, and runs all libraries' handlers of that. What
/// executes programs without (posix_spawn(3), popen(3), system(3)) has none of them run.
fn forks(call: impl FnOnce() -> c_int) -> c_int {
    let mut errno = 0;
    let answer = quietly(-1, || {
        fork_by(|| {
            let answer = call();
            // SAFETY: the address is the calling thread's own.
            errno = unsafe { *libc::__errno_location() };
            answer
        })
    });
    set_errno(errno);
    answer
}

/// fork(2).
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> libc::pid_t {
    forks(|| real::call!(-1, fn fork() -> libc::pid_t))
}

/// vfork(2), as fork(2): a child that shares this memory would undo what it inherits here.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> libc::pid_t {
    forks(|| real::call!(-1, fn fork() -> libc::pid_t))
}

/// daemon(3), in which the C library forks by itself.
#[unsafe(no_mangle)]
pub extern "C" fn daemon(keeps_directory: c_int, keeps_standard: c_int) -> c_int {
    forks(|| {
        real::call!(-1, fn daemon(
            keeps_directory => c_int, keeps_standard => c_int
        ) -> c_int)
    })
}

/// MCL_ONFAULT.
const ON_FAULT: c_int = 4;

/// mlockall(2). What this library has reserved is 900 MiB of which little is ever touched: pages
/// that are not there are locked when they come. Where nothing was reserved nothing will be, and
/// the program's sockets stay TCP.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(flags: c_int) -> c_int {
    let reserved = quietly(false, Process::locks_memory);
    let flags = if reserved { flags | ON_FAULT } else { flags };
    real::call!(-1, fn mlockall(flags => c_int) -> c_int)
}

/// The C library's function of this name.
macro_rules! behind {
    ($name:literal) => {{
        // SAFETY: a name that ends in NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) };
        // without one there is no sensible answer
        if found.is_null() {
            std::process::abort()
        } else {
            found
        }
    }};
}

// Functions with any number of arguments: all stay where they are, and the C library's function
// has them after a look at the first.
macro_rules! passes {
    ($($name:literal, $before:literal;)*) => {$(
        global_asm!(
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
            concat!("call ", $before),
            "mov r11, rax",
            "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
            "jmp r11",
            concat!(".size ", $name, ", . - ", $name),
        );
    )*};
}

passes! {
    "execl", "ferriband_sdp_before_execl";
    "execlp", "ferriband_sdp_before_execlp";
    "execle", "ferriband_sdp_before_execle";
    "dprintf", "ferriband_sdp_before_dprintf";
    "__dprintf_chk", "ferriband_sdp_before_dprintf_chk";
}

macro_rules! before_list {
    ($($before:ident, $name:literal;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $before() -> *mut c_void {
            before_exec();
            behind!($name)
        }
    )*};
}

before_list! {
    ferriband_sdp_before_execl, c"execl";
    ferriband_sdp_before_execlp, c"execlp";
    ferriband_sdp_before_execle, c"execle";
}

macro_rules! before_print {
    ($($before:ident, $name:literal;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $before(number: c_int) -> *mut c_void {
            only_by_kernel_for(number, Cause::ByLibrary);
            behind!($name)
        }
    )*};
}

// the C library writes by itself
before_print! {
    ferriband_sdp_before_dprintf, c"dprintf";
    ferriband_sdp_before_dprintf_chk, c"__dprintf_chk";
}

/// vdprintf(3): the C library writes by itself.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vdprintf(
    number: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    only_by_kernel_for(number, Cause::ByLibrary);
    real::call!(-1, fn vdprintf(
        number => c_int, format => *const c_char, arguments => *mut c_void
    ) -> c_int)
}

/// vdprintf(3), with checks.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdprintf_chk(
    number: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    only_by_kernel_for(number, Cause::ByLibrary);
    real::call!(-1, fn __vdprintf_chk(
        number => c_int, flag => c_int, format => *const c_char, arguments => *mut c_void
    ) -> c_int)
}
