//! `rpoll` and `rselect`: sockets of ours and descriptors of the system in one call.

use super::stream::{Edges, lock};
use super::wait::{self, Listener, Waiting};
use super::{Inner, Socket, settings, table};
use crate::boundary::{Errno, entry};
use libc::{c_int, fd_set, nfds_t, pollfd, timeval};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Socket {
    /// What poll(2) would say, looking now, and how often something came.
    pub fn readiness(&self, wanted: i16) -> (i16, Edges) {
        match &self.inner {
            Inner::Stream(stream) => {
                let mut state = lock(stream);
                state.process();
                (state.readiness(wanted), state.edges)
            }
            Inner::Datagram(datagrams) => datagrams.readiness(wanted),
        }
    }

    /// Asks for events at the next completion, and tells `each` descriptor behind which they come. The state is locked meanwhile, so that none of
    /// them is closed.
    pub fn arm(&self, each: &mut dyn FnMut(RawFd) -> Result<(), Errno>) -> Result<(), Errno> {
        match &self.inner {
            Inner::Stream(stream) => {
                let Some(link) = &mut lock(stream).link else {
                    return Ok(());
                };
                link.arm()?;
                each(link.fd())
            }
            Inner::Datagram(datagrams) => datagrams.arm(each),
        }
    }

    /// Tells `each` descriptor that [`Socket::arm`] tells, which is not closed meanwhile.
    pub fn descriptors(&self, each: &mut dyn FnMut(RawFd)) {
        match &self.inner {
            Inner::Stream(stream) => {
                if let Some(link) = &lock(stream).link {
                    each(link.fd());
                }
            }
            Inner::Datagram(datagrams) => datagrams.descriptors(each),
        }
    }

    /// Takes the events that came.
    pub fn take_events(&self, own: &dyn Listener) {
        match &self.inner {
            Inner::Stream(_) => self.take_event(own),
            Inner::Datagram(datagrams) => datagrams.take_events(&self.waiters, own),
        }
    }
}

/// A descriptor to be read from.
pub fn readable(fd: c_int) -> pollfd {
    pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// One call's descriptors.
struct Call<'a> {
    fds: &'a mut [pollfd],
    /// Ours, by place in `fds`.
    sockets: Vec<(usize, Arc<Socket>)>,
    /// The system's, with -1 in the place of ours, which poll(2) skips.
    others: Vec<pollfd>,
}

impl Call<'_> {
    /// Looks at all of them now: how many are ready.
    fn look(&mut self) -> Result<usize, Errno> {
        if self.sockets.len() != self.fds.len() {
            wait::poll(&mut self.others, Some(Duration::ZERO))?;
        }
        for (fd, other) in self.fds.iter_mut().zip(&self.others) {
            fd.revents = if other.fd < 0 { 0 } else { other.revents };
        }
        for (index, socket) in &self.sockets {
            let fd = &mut self.fds[*index];
            (fd.revents, _) = socket.readiness(fd.events);
        }
        Ok(self.fds.iter().filter(|fd| fd.revents != 0).count())
    }

    fn sleep_until_some(&mut self, until: Option<Instant>) -> Result<usize, Errno> {
        let waker = wait::waker()?;
        let sockets = self.sockets.clone();
        let _waiting: Vec<Waiting<'_>> = sockets
            .iter()
            .map(|(_, socket)| socket.waiters.enter(&waker))
            .collect();
        let mut all = Vec::with_capacity(self.fds.len() + 1);
        loop {
            all.clear();
            all.extend_from_slice(&self.others);
            for (_, socket) in &sockets {
                socket.arm(&mut |fd| {
                    all.push(readable(fd));
                    Ok(())
                })?;
            }
            let ready = self.look()?;
            if ready != 0 {
                return Ok(ready);
            }
            if until.is_some_and(|at| at <= Instant::now()) {
                return Ok(0);
            }
            wait::sleep(&mut all, &waker, until)?;
            // Cheaper than finding out whose event it was: one that has none is not asked twice.
            if all[self.others.len()..].iter().any(|fd| fd.revents != 0) {
                sockets
                    .iter()
                    .for_each(|(_, socket)| socket.take_events(&*waker));
            }
        }
    }
}

fn poll(fds: &mut [pollfd], until: Option<Instant>) -> Result<usize, Errno> {
    let mut sockets = Vec::new();
    let mut others = fds.to_vec();
    for (index, fd) in fds.iter().enumerate() {
        match table::find(fd.fd) {
            Ok(socket) => {
                sockets.push((index, socket));
                others[index].fd = -1;
            }
            // In a forked child; it is nobody's descriptor to be polled.
            Err(libc::EIO) => return Err(libc::EIO),
            Err(_) => table::expose_set(fd.fd),
        }
    }
    if sockets.is_empty() {
        let timeout = until.map(|at| at.saturating_duration_since(Instant::now()));
        return wait::poll(fds, timeout);
    }
    let mut call = Call {
        fds,
        sockets,
        others,
    };
    let begin = Instant::now();
    loop {
        let ready = call.look()?;
        if ready != 0 || until.is_some_and(|at| at <= begin) {
            return Ok(ready);
        }
        if begin.elapsed() >= settings::polling() {
            break;
        }
    }
    call.sleep_until_some(until)
}

/// `rpoll`.
///
/// # Safety
/// As for poll(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    entry(|| {
        let count = usize::try_from(nfds).map_err(|_| libc::EINVAL)?;
        let fds = match count {
            0 => &mut [],
            _ if fds.is_null() => return Err(libc::EFAULT),
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts_mut(fds, count) },
        };
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        poll(fds, timeout.map(|timeout| Instant::now() + timeout)).map(|ready| ready as c_int)
    })
}

/// The three sets of a call of `select`.
struct Sets([*mut fd_set; 3]);

/// What select(2) takes for reading, writing and exceptions.
const READY: [i16; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR,
    libc::POLLPRI,
];
const WANTED: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

impl Sets {
    /// # Safety
    /// The sets are NULL or sets.
    unsafe fn wanted(&self, fd: c_int) -> i16 {
        let mut wanted = 0;
        for (set, events) in self.0.iter().zip(WANTED) {
            // SAFETY: the caller's promise; the number is below FD_SETSIZE.
            if !set.is_null() && unsafe { libc::FD_ISSET(fd, *set) } {
                wanted |= events;
            }
        }
        wanted
    }

    /// Leaves what is ready: how many bits.
    ///
    /// # Safety
    /// As above.
    unsafe fn keep(&self, fds: &[pollfd]) -> c_int {
        let mut count = 0;
        for ((set, events), ready) in self.0.iter().zip(WANTED).zip(READY) {
            if set.is_null() {
                continue;
            }
            // SAFETY: the caller's promise.
            unsafe { libc::FD_ZERO(*set) };
            for fd in fds {
                if fd.events & events != 0 && fd.revents & ready != 0 {
                    // SAFETY: as above.
                    unsafe { libc::FD_SET(fd.fd, *set) };
                    count += 1;
                }
            }
        }
        count
    }
}

/// `rselect`. EINVAL for more descriptors than a set holds, EBADF for one that is not open.
///
/// # Safety
/// As for select(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    entry(|| {
        if !(0..=libc::FD_SETSIZE as c_int).contains(&nfds) {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let until = match unsafe { timeout.as_ref() } {
            None => None,
            Some(time) => {
                let seconds = u64::try_from(time.tv_sec).map_err(|_| libc::EINVAL)?;
                let micros = u64::try_from(time.tv_usec).map_err(|_| libc::EINVAL)?;
                let whole = Duration::from_secs(seconds) + Duration::from_micros(micros);
                Instant::now().checked_add(whole)
            }
        };
        let sets = Sets([readfds, writefds, exceptfds]);
        let mut fds = Vec::new();
        for fd in 0..nfds {
            // SAFETY: the caller's promise.
            let events = unsafe { sets.wanted(fd) };
            if events != 0 {
                fds.push(pollfd {
                    fd,
                    events,
                    revents: 0,
                });
            }
        }
        poll(&mut fds, until)?;
        if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { sets.keep(&fds) })
    })
}
