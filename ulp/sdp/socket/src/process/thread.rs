//! The service thread: how it begins, sleeps, and what a fork does to it.
//!
//! Owns: the thread. Must not know: what it serves.

use super::service::{BELL, Port, Service};
use super::{Process, counters, forks, state};
use crate::meet::family::Family;
use crate::meet::holder::HolderService;
use crate::own::{Event, Own};
use crate::raw;
use crate::ready;
use crate::signals::block_signals;
use ferriband_host::wake;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const STACK_BYTES: usize = 256 << 10;

/// Starts the thread, if it is not there. It has no signals.
pub(super) fn start(process: &'static Process, service: &mut Service) -> Result<(), Errno> {
    if service.is_started {
        return Ok(());
    }
    let error = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
    let bell = Arc::new(Event::new().map_err(error)?);
    let epoll = Own::make(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
    service.bells.insert(0, bell.clone());
    for bell in &service.bells {
        // never read: each ring is an edge
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, bell.as_ref(), EventData::new_u64(BELL), flags)?;
    }
    service.epoll = Some(epoll);
    // the caller has blocked all signals, and the thread begins so
    let thread = std::thread::Builder::new()
        .name("ferriband-sdp".into())
        .stack_size(STACK_BYTES);
    thread.spawn(move || run(process)).map_err(error)?;
    service.is_started = true;
    let bell = Box::into_raw(Box::new(bell));
    process.bell.store(bell, Ordering::Release);
    Ok(())
}

fn run(process: &'static Process) {
    block_signals();
    // Who shares its directories with another thread may not enter a mount namespace (setns(2)). A
    // kernel that forbids this call forbids that one, too.
    // SAFETY: this thread opens by full names alone.
    let _ =
        unsafe { raw::system_call(libc::SYS_unshare, [libc::CLONE_FS as isize, 0, 0, 0, 0, 0]) };
    let mut polled = Vec::new();
    loop {
        let deadline = collect(&process.served(), &mut polled);
        sleep(&polled, deadline);
        let no_fork = forks::keep_away();
        process.served().serve(process, wake::now());
        if no_fork.is_some() && process.opens_adapter() {
            process.served().serve(process, wake::now());
        }
    }
}

/// What the thread sleeps on, and until when.
fn collect(service: &Service, polled: &mut Vec<(RawFd, PollFlags)>) -> Option<Duration> {
    polled.clear();
    let mut add = |(descriptor, events): (BorrowedFd<'_>, PollFlags)| {
        polled.push((descriptor.as_raw_fd(), events));
    };
    if let Some(epoll) = &service.epoll {
        add((epoll.as_fd(), PollFlags::IN));
    }
    for port in &service.families {
        for family in port.families() {
            family.interest().for_each(&mut add);
        }
    }
    if let Some(holder) = &service.holder {
        holder.interest().for_each(&mut add);
    }
    if let Some(client) = &service.client {
        client.interest().for_each(&mut add);
    }
    if let Some(hosts) = service.others.hosts() {
        hosts.interest().for_each(&mut add);
    }
    let families = service.families.iter();
    let families = families.flat_map(Port::families);
    let families = families.filter_map(Family::deadline);
    let holder = service.holder.as_ref().and_then(HolderService::deadline);
    let client = service.client.as_ref().and_then(|client| client.deadline());
    let full = service.full.filter(|_| ready::full::is_watched());
    let others = service.others.deadline();
    let again = service.again.deadline();
    let own = full.into_iter().chain(others).chain(again);
    families.chain(holder).chain(client).chain(own).min()
}

fn sleep(polled: &[(RawFd, PollFlags)], deadline: Option<Duration>) {
    let mut asked: Vec<_> = polled
        .iter()
        .map(|(number, events)| {
            // SAFETY: the library's own; one that moves meanwhile rings the bell.
            let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
            PollFd::from_borrowed_fd(descriptor, *events)
        })
        .collect();
    let left = deadline.map(|end| end.saturating_sub(wake::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    // whatever has ended it, all is looked at
    let _ = rustix::event::poll(&mut asked, left.as_ref());
}

static WATCHED: AtomicBool = AtomicBool::new(false);

/// A fork meets the service between two things that it does.
pub(super) fn watch_forks() -> Result<(), Errno> {
    if WATCHED.load(Ordering::Acquire) || WATCHED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    // SAFETY: functions that stay, and that do what is allowed around a fork.
    let answer = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    match answer {
        0 => Ok(()),
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

extern "C" fn before() {
    if let Some(process) = Process::there() {
        if !forks::is_prepared() {
            process.before_fork();
        }
        process.service.hold();
    }
}

extern "C" fn in_parent() {
    if let Some(process) = Process::there() {
        // SAFETY: `before` has taken it in this thread.
        unsafe { process.service.release(|service| service.carried.forked()) };
    }
}

extern "C" fn in_child() {
    if !forks::is_prepared() {
        forks::forked_unprepared();
    }
    if let Some(process) = Process::there() {
        state::forked();
        counters::forked();
        process.bell.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: `before` has taken it in the thread of which this is the copy.
        unsafe { process.service.release(Service::forked) };
    }
}
