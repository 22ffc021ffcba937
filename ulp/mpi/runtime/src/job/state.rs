//! The one runtime of the process, and the lock that threads take.
//!
//! Owns: the runtime's place, and who may be in it. Must not know: what a runtime is made of,
//! beyond what a waiter asks ([`Rounds`]).

use super::rounds::Rounds;
use crate::errors::Outcome;
use crate::ground::layout::Layout;
use crate::ground::lock::{is_wanted, lock, step_back, unlock};
use crate::trace;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

static PHASE: AtomicU8 = AtomicU8::new(0);

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

/// Where the runtime of a process is entered: a static of who knows what the runtime is.
pub struct Entry<R> {
    runtime: AtomicPtr<R>,
    /// The runtime, also when nobody may enter.
    kept: AtomicPtr<R>,
    /// The runtime, where to enter it takes nothing else: one thread calls at a time, and no call
    /// is written down.
    alone: AtomicPtr<R>,
    /// Whether calls may come from several threads at once.
    shared: AtomicBool,
}

/// The runtime, for one call or one round of it.
pub struct Guard<R: Rounds> {
    runtime: *mut R,
    shared: bool,
    /// The call is a collective that blocks.
    pub blocks: bool,
    /// How the elements lie that this call has named: requests that outlive it keep theirs themselves.
    layouts: Option<Box<Layouts>>,
}

/// The runtime, for a call of the only thread that calls.
pub struct Alone<R>(*mut R);

/// Layouts of a call. Most calls have none, and then pay for one test of a pointer.
#[derive(Default)]
struct Layouts(Vec<Arc<Layout>>);

impl<R: Rounds> Entry<R> {
    /// Without a runtime.
    pub const fn closed() -> Self {
        Self {
            runtime: AtomicPtr::new(std::ptr::null_mut()),
            kept: AtomicPtr::new(std::ptr::null_mut()),
            alone: AtomicPtr::new(std::ptr::null_mut()),
            shared: AtomicBool::new(false),
        }
    }

    /// Enters the runtime; none before MPI_Init and after MPI_Finalize.
    #[inline(always)]
    pub fn enter(&self) -> Option<Guard<R>> {
        let runtime = self.runtime.load(Ordering::Acquire);
        if runtime.is_null() {
            return None;
        }
        let shared = self.shared.load(Ordering::Relaxed);
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

    /// Enters the runtime where that takes no more than to find it; none where [`Entry::enter`] has
    /// to be asked.
    #[inline(always)]
    pub fn alone(&self) -> Option<Alone<R>> {
        let runtime = self.alone.load(Ordering::Acquire);
        (!runtime.is_null()).then_some(Alone(runtime))
    }

    /// Keeps the runtime.
    pub fn install(&self, runtime: R) {
        let runtime = Box::into_raw(Box::new(runtime));
        self.kept.store(runtime, Ordering::Release);
        self.runtime.store(runtime, Ordering::Release);
        self.settle();
    }

    /// In a forked child: it finds no runtime. Whether its parent has had one.
    pub fn forget(&self) -> bool {
        if self.kept.load(Ordering::Acquire).is_null() {
            return false;
        }
        for place in [&self.runtime, &self.kept, &self.alone] {
            place.store(std::ptr::null_mut(), Ordering::Release);
        }
        true
    }

    /// Whether there is a runtime: one that nobody used is used again.
    pub fn awake(&self) -> bool {
        let kept = self.kept.load(Ordering::Acquire);
        self.runtime.store(kept, Ordering::Release);
        self.settle();
        !kept.is_null()
    }

    /// From now on threads may call at once, if that is asked for.
    pub fn share(&self, shared: bool) {
        if shared {
            self.shared.store(true, Ordering::Relaxed);
            self.settle();
        }
    }

    /// The runtime is not to be entered any more. It is kept: a late thread may still be in it, and
    /// a later session may need it.
    pub fn retire(&self) {
        self.runtime.store(std::ptr::null_mut(), Ordering::Release);
        self.settle();
    }

    /// Whether calls have to do more than to find the runtime may have changed.
    fn settle(&self) {
        let has_more = self.shared.load(Ordering::Relaxed) || trace::is_on();
        let alone = if has_more {
            std::ptr::null_mut()
        } else {
            self.runtime.load(Ordering::Acquire)
        };
        self.alone.store(alone, Ordering::Release);
    }
}

/// The world begins or ends.
pub fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Release);
}

impl<R: Rounds> Guard<R> {
    /// One round of progress, and then the program's functions that it has come to. True if
    /// something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let did = self.round()?;
        if self.has_calls() {
            self.call_all();
            return Ok(true);
        }
        Ok(did)
    }

    /// One round with a look at every channel, and those functions.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let did = self.round_all()?;
        if self.has_calls() {
            self.call_all();
            return Ok(true);
        }
        Ok(did)
    }

    #[cold]
    fn call_all(&mut self) {
        while let Some(call) = self.next_call() {
            self.outside(|| R::make(&call));
            self.made(&call);
        }
    }

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
            if self.sleepers().has_news() {
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
        if self.sleepers().has_news() {
            self.tell();
        }
        unlock();
    }
}

impl<R: Rounds> Drop for Guard<R> {
    #[inline]
    fn drop(&mut self) {
        if self.shared {
            self.leave();
        }
    }
}

impl<R: Rounds> Deref for Guard<R> {
    type Target = R;
    #[inline]
    fn deref(&self) -> &R {
        // SAFETY: the runtime is never freed, and whoever has a guard is alone with it: by the lock, or because the program promised at MPI_Init
        // that one thread calls at a time. Callbacks of the program run without a guard.
        unsafe { &*self.runtime }
    }
}

impl<R: Rounds> DerefMut for Guard<R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut R {
        // SAFETY: as above.
        unsafe { &mut *self.runtime }
    }
}

impl<R> Deref for Alone<R> {
    type Target = R;
    #[inline(always)]
    fn deref(&self) -> &R {
        // SAFETY: as for a guard: the runtime is never freed, and the program promised that one thread calls at a time.
        unsafe { &*self.0 }
    }
}

impl<R> DerefMut for Alone<R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut R {
        // SAFETY: as above.
        unsafe { &mut *self.0 }
    }
}
