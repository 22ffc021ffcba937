//! The process's sockets by descriptor, and what fork does to them.
//!
//! A socket's number is a real descriptor's, so nothing else of the process has it. A forked child has the numbers, and none
//! of the connections: a call on one answers EIO, as on any object of the parent's adapter, and closing it closes the number.

use super::Socket;
use super::service::{self, Service};
use crate::boundary::Errno;
use ferriband_fork::{PerProcess, Table};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

enum Entry {
    Ours(Arc<Socket>),
    Parents,
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
    watch_exit();
    let index = usize::try_from(fd).expect("an open descriptor");
    let mut table = TABLE.lock();
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    let before = table[index].replace(Entry::Ours(socket.clone()));
    // what goes with a socket may take other locks
    drop(table);
    drop(before);
}

/// Takes a socket out. In a forked child the parent's number is closed.
pub fn remove(fd: RawFd) {
    let Ok(index) = usize::try_from(fd) else {
        return;
    };
    let entry = TABLE.lock().get_mut(index).and_then(Option::take);
    if matches!(entry, Some(Entry::Parents)) {
        // SAFETY: the number is this process's copy of a descriptor whose owner is the parent's object.
        unsafe { libc::close(fd) };
    }
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
            if let Entry::Ours(socket) = std::mem::replace(entry, Entry::Parents) {
                std::mem::forget(socket);
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
