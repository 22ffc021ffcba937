//! syscall(2): calls that have an entry here are that entry's.

use crate::{
    files, inet_sdp, messages, moving, numbers, options, programs, real, set_errno, sockets,
    splicing, waiting,
};
use ferriband_sdp_socket::process::Process;
use std::ffi::{c_int, c_long, c_uint, c_ulong};

/// syscall(2). All its arguments are words, of which so many are looked at as the call has.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    call: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    if call == libc::SYS_io_uring_setup {
        // what goes by such a ring is not seen here; programs have another way
        set_errno(libc::ENOSYS);
        return -1;
    }
    if call == libc::SYS_socket {
        return sockets::socket(a as c_int, b as c_int, c as c_int).into();
    }
    if Process::there().is_some()
        // SAFETY: the caller's promise.
        && let Some(answer) = unsafe { served(call, [a, b, c, d, e, f]) }
    {
        return answer;
    }
    real::call!(-1, fn syscall(
        call => c_long, a => usize, b => usize, c => usize, d => usize, e => usize, f => usize
    ) -> c_long)
}

/// None: it has no entry here.
///
/// # Safety
/// As of the call.
unsafe fn served(call: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Option<c_long> {
    let number = a as c_int;
    let pointer = |word: usize| std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(word);
    // SAFETY: the caller's promise, for each.
    Some(unsafe {
        match call {
            libc::SYS_read => moving::read(number, pointer(b), c) as c_long,
            libc::SYS_write => moving::write(number, pointer(b), c) as c_long,
            libc::SYS_readv => moving::readv(number, pointer(b).cast(), c as c_int) as c_long,
            libc::SYS_writev => moving::writev(number, pointer(b).cast(), c as c_int) as c_long,
            libc::SYS_sendto => moving::sendto(
                number,
                pointer(b),
                c,
                d as c_int,
                pointer(e).cast(),
                f as c_uint,
            ) as c_long,
            libc::SYS_recvfrom => moving::recvfrom(
                number,
                pointer(b),
                c,
                d as c_int,
                pointer(e).cast(),
                pointer(f).cast(),
            ) as c_long,
            libc::SYS_sendmsg => messages::sendmsg(number, pointer(b).cast(), c as c_int) as c_long,
            libc::SYS_recvmsg => messages::recvmsg(number, pointer(b).cast(), c as c_int) as c_long,
            libc::SYS_close => numbers::close(number).into(),
            libc::SYS_dup => numbers::dup(number).into(),
            libc::SYS_dup2 => numbers::dup2(number, b as c_int).into(),
            libc::SYS_dup3 => numbers::dup3(number, b as c_int, c as c_int).into(),
            libc::SYS_close_range => {
                numbers::close_range(a as c_uint, b as c_uint, c as c_int).into()
            }
            libc::SYS_fcntl => numbers::fcntl(number, b as c_int, c).into(),
            libc::SYS_ioctl => options::ioctl(number, b as c_ulong, pointer(c)).into(),
            libc::SYS_accept => {
                sockets::accept(number, pointer(b).cast(), pointer(c).cast()).into()
            }
            libc::SYS_accept4 => {
                sockets::accept4(number, pointer(b).cast(), pointer(c).cast(), d as c_int).into()
            }
            libc::SYS_connect => sockets::connect(number, pointer(b).cast(), c as c_uint).into(),
            libc::SYS_bind => inet_sdp::bind(number, pointer(b).cast(), c as c_uint).into(),
            libc::SYS_getsockname => {
                inet_sdp::getsockname(number, pointer(b).cast(), pointer(c).cast()).into()
            }
            libc::SYS_getpeername => {
                inet_sdp::getpeername(number, pointer(b).cast(), pointer(c).cast()).into()
            }
            libc::SYS_listen => sockets::listen(number, b as c_int).into(),
            libc::SYS_shutdown => sockets::shutdown(number, b as c_int).into(),
            libc::SYS_setsockopt => {
                options::setsockopt(number, b as c_int, c as c_int, pointer(d), e as c_uint).into()
            }
            libc::SYS_getsockopt => options::getsockopt(
                number,
                b as c_int,
                c as c_int,
                pointer(d),
                pointer(e).cast(),
            )
            .into(),
            libc::SYS_epoll_ctl => {
                waiting::epoll_ctl(number, b as c_int, c as c_int, pointer(d).cast()).into()
            }
            libc::SYS_poll => {
                waiting::poll(pointer(a).cast(), b as libc::nfds_t, c as c_int).into()
            }
            libc::SYS_epoll_create1 => waiting::epoll_create1(number).into(),
            libc::SYS_epoll_wait => {
                waiting::epoll_wait(number, pointer(b).cast(), c as c_int, d as c_int).into()
            }
            libc::SYS_epoll_pwait => waiting::epoll_pwait(
                number,
                pointer(b).cast(),
                c as c_int,
                d as c_int,
                pointer(e).cast(),
            )
            .into(),
            libc::SYS_epoll_pwait2 => waiting::epoll_pwait2(
                number,
                pointer(b).cast(),
                c as c_int,
                pointer(d).cast(),
                pointer(e).cast(),
            )
            .into(),
            libc::SYS_select => waiting::select(
                number,
                pointer(b).cast(),
                pointer(c).cast(),
                pointer(d).cast(),
                pointer(e).cast(),
            )
            .into(),
            libc::SYS_ppoll => waiting::ppoll(
                pointer(a).cast(),
                b as libc::nfds_t,
                pointer(c).cast(),
                pointer(d).cast(),
            )
            .into(),
            libc::SYS_execve => programs::execve(
                pointer(a).cast(),
                pointer(b).cast::<*const _>(),
                pointer(c).cast::<*const _>(),
            )
            .into(),
            libc::SYS_execveat => programs::execveat(
                number,
                pointer(b).cast(),
                pointer(c).cast::<*const _>(),
                pointer(d).cast::<*const _>(),
                e as c_int,
            )
            .into(),
            libc::SYS_sendmmsg => {
                messages::sendmmsg(number, pointer(b).cast(), c as c_uint, d as c_int).into()
            }
            libc::SYS_recvmmsg => messages::recvmmsg(
                number,
                pointer(b).cast(),
                c as c_uint,
                d as c_int,
                pointer(e).cast(),
            )
            .into(),
            libc::SYS_epoll_create => waiting::epoll_create(number).into(),
            libc::SYS_pselect6 => {
                // the last argument is the address of the mask's address and of its length
                let signals = pointer(f).cast::<*const libc::sigset_t>().as_ref();
                waiting::pselect(
                    number,
                    pointer(b).cast(),
                    pointer(c).cast(),
                    pointer(d).cast(),
                    pointer(e).cast(),
                    signals.copied().unwrap_or(std::ptr::null()),
                )
                .into()
            }
            libc::SYS_preadv2 => {
                let (count, at) = (c as c_int, d as libc::off_t);
                files::preadv2(number, pointer(b).cast(), count, at, f as c_int) as c_long
            }
            libc::SYS_pwritev2 => {
                let (count, at) = (c as c_int, d as libc::off_t);
                files::pwritev2(number, pointer(b).cast(), count, at, f as c_int) as c_long
            }
            libc::SYS_sendfile => {
                files::sendfile(number, b as c_int, pointer(c).cast(), d) as c_long
            }
            libc::SYS_splice => splicing::splice(
                number,
                pointer(b).cast(),
                c as c_int,
                pointer(d).cast(),
                e,
                f as c_uint,
            ) as c_long,
            _ => return None,
        }
    })
}
