//! A process gets a child, and a child its number.

use super::{TABLE, Table};
use crate::arena::Holder;
use crate::holder::{self, Family, NAMELESS, Reserved};
use crate::numbers::Kind;
use crate::{own, ready};
use rustix::io::Errno;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a thread that forks gives its child.
#[derive(Clone, Copy)]
struct Gift {
    reserved: Option<Reserved>,
    /// The changes that were begun, if they were ended.
    changes: Option<u32>,
}

thread_local! {
    static GIFT: Cell<Option<Gift>> = const { Cell::new(None) };
}

static WATCHED: AtomicBool = AtomicBool::new(false);

impl Table {
    pub(super) fn watch_forks(&self) -> Result<(), Errno> {
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

    /// The child's number, and what it will hold. None if this process holds nothing: such a child
    /// takes a number at its first need.
    fn prepare_child(&self, parent: u32) -> Option<Reserved> {
        self.arena.held(parent).next()?;
        let Ok(reserved) = self.family.reserve() else {
            // what it inherits must not be given back before it says that it has it
            self.arena.inherit(parent, NAMELESS);
            return None;
        };
        self.arena.clear_row(reserved.holder, self.family);
        self.arena.inherit(parent, reserved.holder);
        Some(reserved)
    }

    /// There is no number for this process: it goes on with what it has inherited, if anything.
    fn go_on_nameless(&self, error: Errno) -> Result<u32, Errno> {
        let mut known = self.numbers.known(0..=i32::MAX);
        if !known.any(|(_, kind)| matches!(kind, Kind::Stream(_))) {
            return Err(error);
        }
        self.reconcile(Holder {
            number: NAMELESS,
            forks: 0,
        });
        self.family.install_nameless();
        Ok(NAMELESS)
    }

    fn changes(&self) -> [u32; 2] {
        // those that ended first: what is begun meanwhile is seen
        let ended = self.changes[1].load(Ordering::SeqCst);
        [self.changes[0].load(Ordering::SeqCst), ended]
    }

    /// Keeps other threads from forking by the C library while `what` is done, which must be short
    /// and must not fork itself.
    pub fn without_fork<T>(&self, what: impl FnOnce() -> T) -> T {
        let mine = self.keep_from_forking();
        let done = what();
        if mine {
            self.forking.store(0, Ordering::Release);
        }
        done
    }

    /// False if this thread has done so already.
    fn keep_from_forking(&self) -> bool {
        let me = thread();
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        let free = || self.forking.compare_exchange(0, me, won, lost);
        while let Err(other) = free() {
            if other == me {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    fn before_fork(&self) {
        let parent = self.family.holder();
        if parent == 0 {
            return;
        }
        // a child would inherit what keeps the lock of another thread's child
        if !self.keep_from_forking() {
            // a signal handler forks in the middle: its child takes a number at its first need
            return;
        }
        let [begun, ended] = self.changes();
        let gift = Gift {
            reserved: self.prepare_child(parent),
            changes: (begun == ended).then_some(begun),
        };
        self.family.count_fork();
        GIFT.set(Some(gift));
    }
}

fn table() -> Option<&'static Table> {
    let table = TABLE.load(Ordering::Acquire);
    // SAFETY: what was once put there stays for ever.
    (!table.is_null()).then(|| unsafe { &*table })
}

extern "C" fn before() {
    if let Some(table) = table() {
        table.before_fork();
        // behind the lock against forks, inside which a link is put
        ready::before_fork();
        own::before_fork();
    }
}

extern "C" fn in_parent() {
    own::after_fork();
    ready::after_fork();
    let (Some(table), Some(gift)) = (table(), GIFT.take()) else {
        return;
    };
    if let Some(reserved) = gift.reserved {
        Family::give_up(reserved);
    }
    table.forking.store(0, Ordering::Release);
}

extern "C" fn in_child() {
    ready::after_fork();
    let Some(table) = table() else {
        return;
    };
    table.forking.store(0, Ordering::Release);
    let Some(gift) = GIFT.take() else {
        return;
    };
    let [begun, _] = table.changes();
    table.changes[1].store(begun, Ordering::SeqCst);
    let Some(reserved) = gift.reserved else {
        if gift.changes != Some(begun) {
            // what could not be made its own is held by the parent
            let _ = register(table.family);
        }
        return;
    };
    let holder = table.family.install(reserved);
    if gift.changes != Some(begun) {
        let forks = table.family.forks();
        table.reconcile(Holder {
            number: holder,
            forks,
        });
    }
}

/// A number for the calling thread, as [`ferriband_sdp_local::Kernel::me`] asks for it: the
/// process's in the upper half.
#[inline]
pub fn thread() -> u64 {
    holder::thread(register)
}

/// Takes a number for this process, and makes its own what it has inherited.
///
/// # Errors
/// As [`Family::reserve`].
#[cold]
pub(crate) fn register(family: &Family) -> Result<u32, Errno> {
    let table = Table::get()?;
    let reserved = match family.reserve() {
        Ok(reserved) => reserved,
        Err(error) => return table.go_on_nameless(error),
    };
    table.arena.clear_row(reserved.holder, family);
    table.reconcile(Holder {
        number: reserved.holder,
        forks: family.forks(),
    });
    Ok(family.install(reserved))
}
