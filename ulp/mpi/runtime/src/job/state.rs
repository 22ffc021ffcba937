//! The one runtime of the process, and the lock that threads take.

use crate::abi::fortran;
use crate::ground::lock::{self, is_wanted, lock, step_back, unlock};
use crate::host::Layout;
use crate::runtime::Runtime;
use crate::{process, trace, wireup};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
/// The same, also when nobody may enter.
static KEPT: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
static PHASE: AtomicU8 = AtomicU8::new(0);
/// The runtime, where to enter it takes nothing else: one thread calls at a time, and no call is written down.
static ALONE: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
/// Whether calls may come from several threads at once.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Between MPI_Init and MPI_Finalize, before, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// MPI_Init has not been called.
    Before,
    /// MPI may be used.
    Alive,
    /// MPI_Finalize has been called.
    After,
    /// This is a child of a process that uses MPI, and no rank.
    Child,
}

/// Where in its life the process is.
pub fn phase() -> Phase {
    match PHASE.load(Ordering::Acquire) {
        0 => Phase::Before,
        1 => Phase::Alive,
        2 => Phase::After,
        _ => Phase::Child,
    }
}

/// The runtime, for one call or one round of it.
pub struct Guard {
    runtime: *mut Runtime,
    shared: bool,
    /// The call is a collective that blocks.
    pub blocks: bool,
    /// How the elements lie that this call has named: requests that outlive it keep theirs themselves.
    layouts: Option<Box<Layouts>>,
}

/// Layouts of a call. Most calls have none, and then pay for one test of a pointer.
#[derive(Default)]
struct Layouts(Vec<Arc<Layout>>);

/// Enters the runtime; none before MPI_Init and after MPI_Finalize.
#[inline]
pub fn enter() -> Option<Guard> {
    let runtime = RUNTIME.load(Ordering::Acquire);
    if runtime.is_null() {
        return None;
    }
    let shared = SHARED.load(Ordering::Relaxed);
    if shared {
        lock();
    }
    Some(Guard {
        runtime,
        shared,
        blocks: false,
        layouts: None,
    })
}

/// Keeps the runtime.
pub fn install(runtime: Runtime) {
    let runtime = Box::into_raw(Box::new(runtime));
    KEPT.store(runtime, Ordering::Release);
    RUNTIME.store(runtime, Ordering::Release);
    settle();
}

/// A child of this process that only forks finds no runtime: its parent's messages and its place among the ranks are the parent's alone. Nor does it meet
/// a lock that another thread of its parent held. From the moment on when the library is loaded.
#[used]
// SAFETY: the loader calls what lies in this section, with arguments that a C function may ignore.
#[unsafe(link_section = ".init_array")]
static WATCH_FORKS: extern "C" fn() = watch_forks;

extern "C" fn watch_forks() {
    // SAFETY: a static function that stores to words. Without memory for it children are not told.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

extern "C" fn in_child() {
    lock::forget();
    fortran::forget();
    process::forget();
    wireup::forget();
    if KEPT.load(Ordering::Acquire).is_null() {
        return;
    }
    RUNTIME.store(std::ptr::null_mut(), Ordering::Release);
    KEPT.store(std::ptr::null_mut(), Ordering::Release);
    ALONE.store(std::ptr::null_mut(), Ordering::Release);
    set_phase(Phase::Child);
    trace::end();
}

/// Whether calls have to do more than to find the runtime may have changed.
fn settle() {
    let has_more = SHARED.load(Ordering::Relaxed) || trace::is_on();
    let alone = if has_more {
        std::ptr::null_mut()
    } else {
        RUNTIME.load(Ordering::Acquire)
    };
    ALONE.store(alone, Ordering::Release);
}

/// Enters the runtime where that takes no more than to find it; none where [`enter`] has to be asked.
#[inline(always)]
pub fn alone() -> Option<Alone> {
    let runtime = ALONE.load(Ordering::Acquire);
    (!runtime.is_null()).then_some(Alone(runtime))
}

/// The runtime, for a call of the only thread that calls.
pub struct Alone(*mut Runtime);

/// Whether there is a runtime: one that nobody used is used again.
pub fn awake() -> bool {
    let kept = KEPT.load(Ordering::Acquire);
    RUNTIME.store(kept, Ordering::Release);
    settle();
    !kept.is_null()
}

/// From now on threads may call at once, if that is asked for.
pub fn share(shared: bool) {
    if shared {
        SHARED.store(true, Ordering::Relaxed);
        settle();
    }
}

/// The world begins or ends.
pub fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Release);
}

/// The runtime is not to be entered any more. It is kept: a late thread may still be in it, and a later session may need it.
pub fn retire() {
    RUNTIME.store(std::ptr::null_mut(), Ordering::Release);
    settle();
}

impl Guard {
    /// Keeps a layout until the call is over.
    pub fn keep(&mut self, layout: Arc<Layout>) {
        self.layouts.get_or_insert_default().0.push(layout);
    }

    /// Runs what is not the runtime's, which may call MPI again.
    pub fn outside<T>(&mut self, body: impl FnOnce() -> T) -> T {
        if self.shared {
            self.leave();
        }
        let value = body();
        if self.shared {
            lock();
        }
        value
    }

    /// Lets other threads in that want it, and tells those that wait what has happened.
    #[inline]
    pub fn lend(&mut self) {
        if self.shared {
            if self.point.requests.waits.sleepers.has_news() {
                self.tell();
            }
            if is_wanted() {
                step_back();
            }
        }
    }

    /// Whether other threads may be in or wait.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    #[inline]
    fn leave(&mut self) {
        if self.point.requests.waits.sleepers.has_news() {
            self.tell();
        }
        unlock();
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.shared {
            self.leave();
        }
    }
}

impl Deref for Guard {
    type Target = Runtime;
    #[inline]
    fn deref(&self) -> &Runtime {
        // SAFETY: the runtime is never freed, and whoever has a guard is alone with it: by the lock, or because the program promised at MPI_Init
        // that one thread calls at a time. Callbacks of the program run without a guard.
        unsafe { &*self.runtime }
    }
}

impl DerefMut for Guard {
    #[inline]
    fn deref_mut(&mut self) -> &mut Runtime {
        // SAFETY: as above.
        unsafe { &mut *self.runtime }
    }
}

impl Deref for Alone {
    type Target = Runtime;
    #[inline(always)]
    fn deref(&self) -> &Runtime {
        // SAFETY: as for a guard: the runtime is never freed, and the program promised that one thread calls at a time.
        unsafe { &*self.0 }
    }
}

impl DerefMut for Alone {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Runtime {
        // SAFETY: as above.
        unsafe { &mut *self.0 }
    }
}
