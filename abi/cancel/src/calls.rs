//! The C library's cancellation points, as system calls that are none.
//!
//! `cargo xtask libs` has the linker put these into the place of the C library's functions, whoever
//! in a library calls them, the Rust standard library above all (`--wrap`). It does so for every
//! cancellation point, so that one which is missing here cannot be linked. (Not in librdmacm, whose
//! calls cannot be cancelled but where they sleep.)

use libc::{c_char, c_int, c_long, c_uint, c_void, iovec, msghdr, off_t, pollfd, sockaddr};
use libc::{siginfo_t, sigset_t, socklen_t, timespec};
use std::ptr::null;

macro_rules! system_calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $number:ident($($value:expr),*);)*) => {
        $(#[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: what the C library's function is promised is what the system call of this
            // name needs.
            unsafe { libc::syscall(libc::$number, $($value),*) as $result }
        })*
    };
}

system_calls! {
    __wrap_close(fd: c_int) -> c_int = SYS_close(fd);
    __wrap_connect(fd: c_int, to: *const sockaddr, length: socklen_t) -> c_int = SYS_connect(fd, to, length);
    __wrap_getrandom(to: *mut c_void, size: usize, flags: c_uint) -> isize = SYS_getrandom(to, size, flags);
    __wrap_open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int
        = SYS_openat(libc::AT_FDCWD, path, flags, mode);
    __wrap_pause() -> c_int = SYS_ppoll(null::<pollfd>(), 0 as c_long, null::<timespec>(), null::<c_void>());
    __wrap_pread(fd: c_int, to: *mut c_void, size: usize, at: off_t) -> isize = SYS_pread64(fd, to, size, at);
    __wrap_preadv(fd: c_int, to: *const iovec, count: c_int, at: off_t) -> isize
        = SYS_preadv(fd, to, c_long::from(count), at, 0 as c_long);
    __wrap_pwrite(fd: c_int, from: *const c_void, size: usize, at: off_t) -> isize = SYS_pwrite64(fd, from, size, at);
    __wrap_pwritev(fd: c_int, from: *const iovec, count: c_int, at: off_t) -> isize
        = SYS_pwritev(fd, from, c_long::from(count), at, 0 as c_long);
    __wrap_read(fd: c_int, to: *mut c_void, size: usize) -> isize = SYS_read(fd, to, size);
    __wrap_recv(fd: c_int, to: *mut c_void, size: usize, flags: c_int) -> isize
        = SYS_recvfrom(fd, to, size, flags, null::<c_void>(), null::<c_void>());
    __wrap_recvfrom(fd: c_int, to: *mut c_void, size: usize, flags: c_int, of: *mut sockaddr, length: *mut socklen_t) -> isize
        = SYS_recvfrom(fd, to, size, flags, of, length);
    __wrap_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize = SYS_recvmsg(fd, message, flags);
    __wrap_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize = SYS_sendmsg(fd, message, flags);
    __wrap_sendto(fd: c_int, from: *const c_void, size: usize, flags: c_int, to: *const sockaddr, length: socklen_t) -> isize
        = SYS_sendto(fd, from, size, flags, to, length);
    __wrap_sigtimedwait(of: *const sigset_t, about: *mut siginfo_t, time: *const timespec) -> c_int
        = SYS_rt_sigtimedwait(of, about, time, (libc::SIGRTMAX() / 8) as c_long);
    __wrap_write(fd: c_int, from: *const c_void, size: usize) -> isize = SYS_write(fd, from, size);
    __wrap_writev(fd: c_int, from: *const iovec, count: c_int) -> isize = SYS_writev(fd, from, c_long::from(count));
}

/// Gives the error, where the others leave it in errno.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_clock_nanosleep(
    clock: c_int,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: glibc gives a valid pointer to the calling thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the caller's promise.
    match unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, time, left) } {
        0 => 0,
        // SAFETY: as above.
        _ => unsafe { std::ptr::replace(errno, before) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_poll(
    fds: *mut pollfd,
    count: libc::nfds_t,
    timeout_ms: c_int,
) -> c_int {
    let time = timespec {
        tv_sec: (timeout_ms / 1000).into(),
        tv_nsec: (timeout_ms % 1000 * 1_000_000).into(),
    };
    let timeout = match timeout_ms {
        ..0 => null(),
        _ => &raw const time,
    };
    let mask = null::<c_void>();
    // SAFETY: the caller's promise; the time lives during the call, and no mask has no length.
    unsafe { libc::syscall(libc::SYS_ppoll, fds, count, timeout, mask, 0 as c_long) as c_int }
}

unsafe extern "C" {
    fn pthread_timedjoin_np(
        thread: libc::pthread_t,
        value: *mut *mut c_void,
        until: *const timespec,
    ) -> c_int;
}

/// Joining is more than one system call.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_pthread_join(
    thread: libc::pthread_t,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise. Without a time it waits as long as it takes.
    crate::undisturbed(|| unsafe { pthread_timedjoin_np(thread, value, null()) })
}
