//! What the loop itself keeps: its thread, and what it looks after beside queue pairs.
//!
//! Owns the thread's handle, the connection manager and what ports were seen to be. Must not know
//! objects or wires.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};

use ferriband_memory::host::Host;

use super::Engine;
use super::admin::Ports;
use super::interfaces::Interfaces;
use crate::cm::Cm;

/// The loop of a process.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(super) cm: OnceLock<Cm>,
    pub(super) ports_seen: Mutex<Ports>,
    pub(super) interfaces: Interfaces,
    pub(super) stop: AtomicBool,
    pub(super) thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Loop {
    pub(super) fn new(registry: &Host) -> Self {
        Loop {
            cm: OnceLock::new(),
            ports_seen: Mutex::new(Ports::now(registry)),
            interfaces: Interfaces::default(),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        }
    }
}

impl Engine {
    /// The connection manager.
    pub fn cm(&self) -> &Cm {
        // messages of other processes may come from now on; without the box they are lost, and
        // asked for again
        let _ = self.post_box();
        self.progress.cm.get_or_init(|| {
            self.open_for_mads();
            let word = || {
                let mut bytes = [0; 8];
                // without randomness the identifiers are predictable, no more
                let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
                u64::from_ne_bytes(bytes)
            };
            Cm::new(self.process.slot, [word(), word()])
        })
    }

    /// The connection manager, if the program has used it.
    #[inline]
    pub(crate) fn used_cm(&self) -> Option<&Cm> {
        self.progress.cm.get()
    }
}
