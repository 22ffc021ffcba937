//! The process-wide engine: what all contexts of a process share, and the progress that everybody makes.
//!
//! Owns the process segment, the key table, the queue pairs by index, the peers, and the hand-over between polling
//! programs and the progress thread. While a program polls, it drives everything itself, without a system call; when
//! it stops, the progress thread notices within a tick, sets the sleeping word that makes peers ring, and waits.

pub(crate) mod admin;
mod ask;
mod connect;
mod engine;
mod faults;
mod host;
mod interfaces;
mod lives;
pub(crate) mod manager;
mod meet;
mod paths;
mod rest;
mod round;
mod thread;
mod yielding;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use ferriband_fork::PerProcess;
use ferriband_transport::types::Instant;

use crate::base::error::Error;
use crate::base::fork;
use crate::lock;
use crate::process::process::Process;
use crate::qp::adapter::Adapter;
use crate::wire::to::To;
use engine::Loop;
use manager::Manager;
use meet::Meetings;
pub use rest::Waiting;

/// The engine. One per process and fork epoch, while a context is open.
pub struct Engine {
    adapter: Arc<Adapter>,
    pub(crate) progress: Loop,
    meetings: Meetings,
}

impl Deref for Engine {
    type Target = Adapter;

    #[inline]
    fn deref(&self) -> &Adapter {
        &self.adapter
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine(slot {})", self.process.slot)
    }
}

/// The current engine. A forked child has none, whatever its parent's threads were doing, and starts afresh.
static CURRENT: PerProcess<Mutex<Weak<Engine>>> = PerProcess::new(Mutex::default);

impl Engine {
    /// The process's engine; started if there is none, with what `manager` makes.
    ///
    /// # Errors
    /// What the host's registry, memory or the thread's start say.
    pub(crate) fn get(manager: fn() -> Box<dyn Manager>) -> Result<Arc<Self>, Error> {
        let mut current = lock(CURRENT.get());
        if let Some(engine) = current.upgrade() {
            return Ok(engine);
        }
        let engine = Self::start(manager())?;
        // a child has its parent's handlers of exit
        static AT_EXIT: AtomicBool = AtomicBool::new(false);
        if !AT_EXIT.load(Ordering::Relaxed) {
            fork::at_exit(take_leave);
            AT_EXIT.store(true, Ordering::Relaxed);
        }
        *current = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn start(manager: Box<dyn Manager>) -> Result<Arc<Self>, Error> {
        let process = Process::join(crate::device::fabric::label())?;
        admin::bring_faults(&process.registry);
        let engine = Arc::new(Engine {
            progress: Loop::new(&process.registry, manager),
            adapter: Arc::new(Adapter::new(process)?),
            meetings: Meetings::default(),
        });
        for device in crate::device::all() {
            device.opened(engine.process.lid);
        }
        engine.peers.watch(&engine.peers.own);
        thread::spawn(&engine)?;
        Ok(engine)
    }

    /// Where packets go.
    #[inline]
    pub(crate) fn to(&self) -> To<'_, Adapter> {
        To {
            adapter: self,
            services: self,
        }
    }

    /// Now, on the clock of the timers.
    pub(crate) fn now() -> Instant {
        ferriband_memory::wait::now()
    }

    /// Acknowledgements that wait for a program's replies go.
    fn settle_debts(self: &Arc<Self>) {
        let Ok(qps) = self.table.qps.try_read().map(|qps| qps.clone()) else {
            return;
        };
        let carried = self.table.carried.try_lock();
        let targets: Vec<_> = carried.map_or(Vec::new(), |all| all.values().cloned().collect());
        for qp in qps.iter().flatten().chain(&targets) {
            qp.send_last(self);
        }
    }

    /// Leaves the host: called when the last context closes.
    pub(crate) fn shut_down(&self) {
        self.progress.stop.store(true, Ordering::Release);
        self.process.waker.signal(1);
        let thread = lock(&self.progress.thread).take();
        if let Some(thread) = thread
            && self.life.is_own()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// The process ends without having closed its devices: whoever is connected is told, as by a kernel that cleans up.
extern "C" fn take_leave() {
    let leave = || {
        // another thread may be in the middle of something that never ends
        let current = CURRENT.get().try_lock().ok();
        let engine = current.map(|mut current| std::mem::take(&mut *current));
        if let Some(engine) = engine.and_then(|engine| engine.upgrade()) {
            // what was taken is acknowledged, too: nobody would after this
            engine.settle_debts();
            if engine.manager().is_used() {
                engine.leave_to_thread();
                engine.manager().leave(&engine, false);
            }
            // the process may be the last to hold it, and its end is not this handler's matter
            std::mem::forget(engine);
        }
    };
    // an ending process has nobody to tell of an error in this
    let _ = std::panic::catch_unwind(leave);
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.life.is_own() {
            // the thread has let go of it
            self.manager().leave(self, true);
            self.shut_down();
            // a queue pair lets go of the adapter before it lets go of the device, and so of this
            let adapter = Arc::get_mut(&mut self.adapter);
            let roce = adapter.and_then(|adapter| adapter.wires.roce.take());
            if let Some(roce) = roce {
                roce.leave(&self.process.registry);
            }
        }
    }
}
