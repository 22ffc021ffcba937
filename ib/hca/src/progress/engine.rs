//! What the loop itself keeps: its thread, and what it looks after beside queue pairs.
//!
//! Owns the thread's handle, who answers for connections and what ports were seen to be. Must not
//! know objects or wires.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use ferriband_memory::host::Host;

use super::Engine;
use super::admin::Ports;
use super::interfaces::Interfaces;
use super::manager::Manager;

/// The loop of a process.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(super) manager: Box<dyn Manager>,
    pub(super) ports_seen: Mutex<Ports>,
    pub(super) interfaces: Interfaces,
    pub(super) stop: AtomicBool,
    pub(super) thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Loop {
    pub(super) fn new(registry: &Host, manager: Box<dyn Manager>) -> Self {
        Loop {
            manager,
            ports_seen: Mutex::new(Ports::now(registry)),
            interfaces: Interfaces::default(),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        }
    }
}

impl Engine {
    /// Who answers for the process's connections.
    pub(crate) fn manager(&self) -> &dyn Manager {
        &*self.progress.manager
    }
}
