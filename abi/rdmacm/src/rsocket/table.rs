//! The process's sockets by descriptor, and what fork does to them.
//!
//! A socket's number is a real descriptor's, so nothing else of the process has it. A forked child has the numbers, and none
//! of the connections: a call on one answers EIO, as on any object of the parent's adapter, and closing it closes the number.

use super::Socket;
use super::service::Service;
use crate::boundary::Errno;
use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::{Arc, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

enum Entry {
    Ours(Arc<Socket>),
    Parents,
}

struct Table {
    /// By descriptor.
    entries: Vec<Option<Entry>>,
    service: Option<Arc<Service>>,
}

static TABLE: RwLock<Table> = RwLock::new(Table {
    entries: Vec::new(),
    service: None,
});

fn read() -> RwLockReadGuard<'static, Table> {
    // Each update is one assignment.
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// The socket of this number. EBADF for others, EIO for the parent's.
pub fn find(fd: RawFd) -> Result<Arc<Socket>, Errno> {
    let index = usize::try_from(fd).map_err(|_| libc::EBADF)?;
    match read().entries.get(index) {
        Some(Some(Entry::Ours(socket))) => Ok(socket.clone()),
        Some(Some(Entry::Parents)) => Err(libc::EIO),
        _ => Err(libc::EBADF),
    }
}

/// Enters a socket under one of its numbers.
pub fn insert(fd: RawFd, socket: &Arc<Socket>) {
    watch_forks();
    let index = usize::try_from(fd).expect("an open descriptor");
    let mut table = write();
    if table.entries.len() <= index {
        table.entries.resize_with(index + 1, || None);
    }
    table.entries[index] = Some(Entry::Ours(socket.clone()));
}

/// Takes a socket out. In a forked child the parent's number is closed.
pub fn remove(fd: RawFd) {
    let Ok(index) = usize::try_from(fd) else {
        return;
    };
    let entry = write().entries.get_mut(index).and_then(Option::take);
    if matches!(entry, Some(Entry::Parents)) {
        // SAFETY: the number is this process's copy of a descriptor whose owner is the parent's object.
        unsafe { libc::close(fd) };
    }
}

/// All sockets of this process, each once.
pub fn all() -> Vec<Arc<Socket>> {
    let table = read();
    let ours = (table.entries.iter().zip(0..)).filter_map(|(entry, fd)| match entry {
        Some(Entry::Ours(socket)) if socket.fd == fd => Some(socket.clone()),
        _ => None,
    });
    ours.collect()
}

/// The thread that serves the sockets, started when it is first needed.
pub fn service() -> Result<Arc<Service>, Errno> {
    if let Some(service) = &read().service {
        return Ok(service.clone());
    }
    watch_forks();
    let mut table = write();
    if let Some(service) = &table.service {
        return Ok(service.clone());
    }
    let service = Service::start()?;
    table.service = Some(service.clone());
    Ok(service)
}

/// The table is held over a fork, so that the child finds it whole and unlocked.
struct Held(UnsafeCell<Option<RwLockWriteGuard<'static, Table>>>);

// SAFETY: it is touched by the handlers of fork only, of which one thread at a time holds the table's lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before_fork() {
    let guard = write();
    // SAFETY: this thread holds the lock that guards the cell.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: as above; the lock goes when the guard has left the cell.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn after_fork_in_child() {
    // SAFETY: as above; the child has one thread.
    let Some(mut table) = (unsafe { (*HELD.0.get()).take() }) else {
        return;
    };
    for entry in table.entries.iter_mut().flatten() {
        // The object is the parent's, and some thread of the parent's may have been in the middle of it.
        if let Entry::Ours(socket) = std::mem::replace(entry, Entry::Parents) {
            std::mem::forget(socket);
        }
    }
    if let Some(service) = table.service.take() {
        service.abandon();
        std::mem::forget(service);
    }
}

fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers stay: this library is never unmapped. Failure leaves a forked child with its parent's
        // sockets, which the adapter refuses with EIO, too.
        unsafe {
            libc::pthread_atfork(
                Some(before_fork),
                Some(after_fork_in_parent),
                Some(after_fork_in_child),
            )
        };
        // SAFETY: the handler stays, as above.
        unsafe { libc::atexit(at_exit) };
    });
}

/// What the system does when a process with sockets ends: the other sides hear of it.
extern "C" fn at_exit() {
    /// Nobody waits long for a process to end.
    const LINGER: Duration = Duration::from_secs(1);
    let end = Instant::now() + LINGER;
    // Nothing of a panic may leave an exit handler, and nobody is left to be told.
    let _ = std::panic::catch_unwind(|| all().iter().for_each(|socket| socket.abort(end)));
}
