//! `rpoll` and `rselect`: sockets of ours and descriptors of the system in one call.

use super::stream::{Edges, lock};
use super::wait::{self, Listener, Waiters, Waiting, Waker};
use super::{Inner, Socket, settings, table};
use crate::boundary::{Errno, waiting_entry};
use crate::system;
use ferriband_cancel::Sleep;
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

/// One call's descriptors, other than in the program's own list.
struct Descriptors {
    /// Ours, by place in the list.
    sockets: Vec<(usize, Arc<Socket>)>,
    /// The system's, with -1 in the place of ours, which poll(2) skips.
    others: Vec<pollfd>,
    /// The thread's place among the waiters of each socket, once it has slept.
    waiting: Vec<Waiting>,
    waker: Option<Arc<Waker>>,
}

impl Descriptors {
    fn of(fds: &[pollfd]) -> Result<Self, Errno> {
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
        Ok(Descriptors {
            sockets,
            others,
            waiting: Vec::new(),
            waker: None,
        })
    }

    /// Looks at all of them now: how many are ready.
    fn look(&mut self, fds: &mut [pollfd]) -> Result<usize, Errno> {
        if self.sockets.len() != fds.len() {
            system::poll_now(&mut self.others)?;
        }
        for (fd, other) in fds.iter_mut().zip(&self.others) {
            fd.revents = if other.fd < 0 { 0 } else { other.revents };
        }
        for (index, socket) in &self.sockets {
            let fd = &mut fds[*index];
            (fd.revents, _) = socket.readiness(fd.events);
        }
        Ok(fds.iter().filter(|fd| fd.revents != 0).count())
    }

    /// Looks again and again, as long as a call does before it sleeps; None if nothing is ready.
    fn spin(&mut self, fds: &mut [pollfd], until: Option<Instant>) -> Result<Option<usize>, Errno> {
        let begin = Instant::now();
        loop {
            let ready = self.look(fds)?;
            if ready != 0 || until.is_some_and(|at| at <= begin) {
                return Ok(Some(ready));
            }
            if self.sockets.is_empty() || begin.elapsed() >= settings::polling() {
                return Ok(None);
            }
        }
    }

    /// Looks after each socket was asked for its next event; None if the thread must sleep.
    fn wait(
        &mut self,
        sleep: &mut Sleep,
        fds: &mut [pollfd],
        until: Option<Instant>,
    ) -> Result<Option<usize>, Errno> {
        if self.waker.is_none() && !self.sockets.is_empty() {
            let waker = wait::waker()?;
            let sockets = self.sockets.iter();
            self.waiting = sockets
                .map(|(_, socket)| Waiters::enter(socket, &waker))
                .collect();
            self.waker = Some(waker);
        }
        let mut of_sockets = Vec::with_capacity(self.sockets.len());
        for (_, socket) in &self.sockets {
            socket.arm(&mut |fd| {
                of_sockets.push(fd);
                Ok(())
            })?;
        }
        let ready = self.look(fds)?;
        if ready != 0 || until.is_some_and(|at| at <= Instant::now()) {
            return Ok(Some(ready));
        }
        self.others.iter().for_each(|fd| sleep.on(fd.fd, fd.events));
        of_sockets.iter().for_each(|fd| sleep.on(*fd, libc::POLLIN));
        if let Some(waker) = &self.waker {
            sleep.on(waker.fd(), libc::POLLIN);
        }
        if let Some(until) = until {
            sleep.until(until);
        }
        Ok(None)
    }

    /// The sleep is over: takes the events that came.
    fn wake(&self, ready: &[pollfd]) {
        let Some((waker, (bell, of_sockets))) = self.waker.as_ref().zip(
            ready
                .get(self.others.len()..)
                .and_then(<[pollfd]>::split_last),
        ) else {
            return;
        };
        if bell.revents != 0 {
            waker.silence();
        }
        // Cheaper than finding out whose event it was: one that has none is not asked twice.
        if of_sockets.iter().any(|fd| fd.revents != 0) {
            self.sockets
                .iter()
                .for_each(|(_, socket)| socket.take_events(&**waker));
        }
    }
}

/// How many descriptors are ready; None if the thread must sleep.
fn poll(
    sleep: &mut Sleep,
    fds: &mut [pollfd],
    until: Option<Instant>,
) -> Result<Option<usize>, Errno> {
    let mut call = match sleep.take_kept::<Descriptors>() {
        Some(call) => {
            call.wake(&sleep.take_ready()?);
            call
        }
        None => {
            let mut call = Descriptors::of(fds)?;
            let ready = call.spin(fds, until)?;
            if ready.is_some() {
                return Ok(ready);
            }
            Box::new(call)
        }
    };
    let ready = call.wait(sleep, fds, until)?;
    if ready.is_none() {
        sleep.keep(call);
    }
    Ok(ready)
}

/// `rpoll`.
///
/// # Safety
/// As for poll(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    waiting_entry(|sleep| {
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let until = sleep.deadline(timeout);
        let count = usize::try_from(nfds).map_err(|_| libc::EINVAL)?;
        let fds = match count {
            0 => &mut [],
            _ if fds.is_null() => return Err(libc::EFAULT),
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts_mut(fds, count) },
        };
        Ok(poll(sleep, fds, until)?.map(|ready| ready as c_int))
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

    /// What is wanted of each descriptor below `nfds`.
    ///
    /// # Safety
    /// The sets are NULL or the program's, and live during the call.
    unsafe fn list(&self, nfds: c_int) -> Vec<pollfd> {
        let wanted = (0..nfds).map(|fd| pollfd {
            fd,
            // SAFETY: the caller's promise.
            events: unsafe { self.wanted(fd) },
            revents: 0,
        });
        wanted.filter(|fd| fd.events != 0).collect()
    }

    /// Leaves what is ready: how many bits.
    ///
    /// # Safety
    /// The sets are NULL or the program's, and live during the call.
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
pub unsafe extern "C-unwind" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    waiting_entry(|sleep| {
        if !(0..=libc::FD_SETSIZE as c_int).contains(&nfds) {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let timeout = match unsafe { timeout.as_ref() } {
            None => None,
            Some(time) => {
                let seconds = u64::try_from(time.tv_sec).map_err(|_| libc::EINVAL)?;
                let micros = u64::try_from(time.tv_usec).map_err(|_| libc::EINVAL)?;
                Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
            }
        };
        let until = sleep.deadline(timeout);
        let sets = Sets([readfds, writefds, exceptfds]);
        // SAFETY: the caller's promise.
        let mut fds = unsafe { sets.list(nfds) };
        if poll(sleep, &mut fds, until)?.is_none() {
            return Ok(None);
        }
        if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        // SAFETY: the caller's promise.
        Ok(Some(unsafe { sets.keep(&fds) }))
    })
}
