//! The process's sockets and sets of descriptors by number, and what fork does to them.
//!
//! A number is a real descriptor's, so nothing else of the process has it. A forked child has the numbers, and none of the connections: a call
//! on a socket answers EIO, as on any object of the parent's adapter, and closing it closes the number. Of a set the child has, as with epoll,
//! the descriptors of the system; parent and child share what is registered of them. The parent's sockets are not in the child's set.

use super::Socket;
use super::service::{self, Service};
use super::set::{Inherited, Set};
use crate::boundary::Errno;
use ferriband_fork::{PerProcess, Table};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

enum Entry {
    Ours(Arc<Socket>),
    Parents,
    Set(Arc<Set>),
    ParentsSet(Inherited),
}

/// By descriptor. A forked child finds it, to know the numbers of its parent's sockets.
static TABLE: Table<Vec<Option<Entry>>> = Table::new(Vec::new());

/// The socket of this number. EBADF for others, EIO for the parent's.
pub fn find(fd: RawFd) -> Result<Arc<Socket>, Errno> {
    let index = usize::try_from(fd).map_err(|_| libc::EBADF)?;
    match TABLE.lock().get(index) {
        Some(Some(Entry::Ours(socket))) => Ok(socket.clone()),
        Some(Some(Entry::Parents)) => Err(libc::EIO),
        _ => Err(libc::EBADF),
    }
}

/// Enters a socket under one of its numbers.
pub fn insert(fd: RawFd, socket: &Arc<Socket>) {
    enter(fd, Entry::Ours(socket.clone()));
}

/// Enters a set.
pub fn insert_set(fd: RawFd, set: &Arc<Set>) {
    enter(fd, Entry::Set(set.clone()));
}

fn enter(fd: RawFd, entry: Entry) {
    watch_exit();
    let index = usize::try_from(fd).expect("an open descriptor");
    let mut table = TABLE.lock();
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    let before = table[index].replace(entry);
    // what goes with a socket may take other locks
    drop(table);
    drop(before);
}

/// The set of this number. EBADF if the number is not open, EINVAL if it is something else.
pub fn find_set(fd: RawFd) -> Result<Arc<Set>, Errno> {
    /// One thread of a forked child at a time makes the parent's set its own.
    static ADOPTION: PerProcess<Mutex<()>> = PerProcess::new(Mutex::default);
    let index = usize::try_from(fd).map_err(|_| libc::EBADF)?;
    let known = || match TABLE.lock().get(index) {
        Some(Some(Entry::Set(set))) => Some(Ok(set.clone())),
        Some(Some(Entry::ParentsSet(inherited))) => Some(Err(*inherited)),
        _ => None,
    };
    match known() {
        Some(Ok(set)) => return Ok(set),
        Some(Err(_)) => {}
        // SAFETY: numbers only.
        None if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 => return Err(libc::EBADF),
        None => return Err(libc::EINVAL),
    }
    let adoption = ADOPTION.get().lock();
    let _adoption = adoption.unwrap_or_else(PoisonError::into_inner);
    match known() {
        Some(Ok(set)) => Ok(set),
        Some(Err(inherited)) => {
            let set = inherited.adopt(fd)?;
            enter(fd, Entry::Set(set.clone()));
            Ok(set)
        }
        None => Err(libc::EBADF),
    }
}

/// The number is a socket's, of this process.
pub fn is_socket(fd: RawFd) -> bool {
    usize::try_from(fd)
        .is_ok_and(|index| matches!(TABLE.lock().get(index), Some(Some(Entry::Ours(_)))))
}

/// The number is a set's.
pub fn is_set(fd: RawFd) -> bool {
    usize::try_from(fd).is_ok_and(|index| {
        matches!(
            TABLE.lock().get(index),
            Some(Some(Entry::Set(_) | Entry::ParentsSet(_)))
        )
    })
}

/// A descriptor is waited for by poll(2) or epoll: if it is a set's, the set makes it readable for what it alone knows, too.
pub fn expose_set(fd: RawFd) {
    if is_set(fd)
        && let Ok(set) = find_set(fd)
    {
        set.expose();
    }
}

/// Takes a socket or a set out. In a forked child the parent's descriptors are closed.
pub fn remove(fd: RawFd) {
    let Ok(index) = usize::try_from(fd) else {
        return;
    };
    let entry = TABLE.lock().get_mut(index).and_then(Option::take);
    match entry {
        Some(Entry::ParentsSet(inherited)) => inherited.close(),
        Some(Entry::Parents) => {}
        _ => return,
    }
    // SAFETY: the number is this process's copy of a descriptor whose owner is the parent's object.
    unsafe { libc::close(fd) };
}

/// All sockets of this process, each once.
pub fn all() -> Vec<Arc<Socket>> {
    let table = TABLE.lock();
    let ours = (table.iter().zip(0..)).filter_map(|(entry, fd)| match entry {
        Some(Entry::Ours(socket)) if socket.fd == fd => Some(socket.clone()),
        _ => None,
    });
    ours.collect()
}

/// The thread that serves the sockets, started when it is first needed.
pub fn service() -> Result<Arc<Service>, Errno> {
    let mut kept = kept_service()
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = &*kept {
        return Ok(service.clone());
    }
    watch_exit();
    let service = Service::start()?;
    *kept = Some(service.clone());
    Ok(service)
}

/// A forked child has no such thread before it starts its own.
fn kept_service() -> &'static Mutex<Option<Arc<Service>>> {
    static SERVICE: PerProcess<Mutex<Option<Arc<Service>>>> = PerProcess::new(Mutex::default);
    SERVICE.get()
}

extern "C" fn before_fork() {
    TABLE.hold();
}

extern "C" fn after_fork_in_parent() {
    TABLE.release(|_| {});
}

extern "C" fn after_fork_in_child() {
    TABLE.release(|table| {
        for entry in table.iter_mut().flatten() {
            // The object is the parent's, and some thread of the parent's may have been in the middle of it.
            match std::mem::replace(entry, Entry::Parents) {
                Entry::Ours(socket) => std::mem::forget(socket),
                Entry::Set(set) => {
                    *entry = Entry::ParentsSet(set.inherited());
                    std::mem::forget(set);
                }
                Entry::ParentsSet(inherited) => *entry = Entry::ParentsSet(inherited),
                Entry::Parents => {}
            }
        }
    });
    service::abandon();
}

ferriband_fork::at_fork!(
    Some(before_fork),
    Some(after_fork_in_parent),
    Some(after_fork_in_child)
);

fn watch_exit() {
    static WATCHES: AtomicBool = AtomicBool::new(false);
    if !WATCHES.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stays: this library is never unmapped.
        unsafe { libc::atexit(at_exit) };
    }
}

/// What the system does when a process with sockets ends: the other sides hear of it.
extern "C" fn at_exit() {
    /// Nobody waits long for a process to end.
    const LINGER: Duration = Duration::from_secs(1);
    let end = Instant::now() + LINGER;
    // Nothing of a panic may leave an exit handler, and nobody is left to be told.
    let _ = std::panic::catch_unwind(|| all().iter().for_each(|socket| socket.abort(end)));
}
