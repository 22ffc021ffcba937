//! Who has devices open.
//!
//! Owns the list. Must not know what they are used for.

use std::sync::{Arc, Mutex, Weak};

use crate::lock;
use crate::objects::event::AsyncKind;
use crate::objects::open::OpenDevice;

/// The port of a device that has one.
pub(crate) const PORT: usize = 1;

/// Open devices of a process.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pub(crate) contexts: Mutex<Vec<Weak<OpenDevice>>>,
}

impl Owners {
    /// A device was opened.
    pub(crate) fn keep(&self, context: &Arc<OpenDevice>) {
        let mut contexts = lock(&self.contexts);
        contexts.retain(|other| other.strong_count() > 0);
        contexts.push(Arc::downgrade(context));
    }

    pub(crate) fn of(&self, ifindex: u32) -> Vec<Arc<OpenDevice>> {
        let contexts = lock(&self.contexts);
        contexts
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|context| context.device.info.ifindex == ifindex)
            .collect()
    }

    /// Tells programs something of a port of an interface's devices.
    #[cold]
    pub(crate) fn tell(&self, ifindex: u32, kind: AsyncKind, port: usize) {
        for context in self.of(ifindex) {
            context.raise(kind, port);
        }
    }
}
