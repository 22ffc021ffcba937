//! What a queue pair has put off goes now: acknowledgements that no reply took along, and the end of a message that waits for the next one.
//!
//! Owns: who may ask for it, and when it is refused. Must not know: how packets go ([`super`]), when nobody expects another message
//! ([`crate::progress`]'s `tails`).

use std::sync::Arc;

use super::{Qp, Turn};
use crate::lock;
use crate::objects::cq::Catch;
use crate::qp::adapter::Adapter;

impl Qp {
    /// An acknowledgement that was kept back goes now, if it is still there: no request came to take it along.
    pub(crate) fn send_owed(self: &Arc<Self>, adapter: &Adapter) {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        if let Some(side) = guard.as_deref_mut()
            && side.wait.keeps_any()
        {
            side.wait.no_reply_came();
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }

    /// The end of a message that waits for the next one goes now. True if there was one.
    pub(crate) fn send_tail(self: &Arc<Self>, adapter: &Adapter) -> bool {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut().filter(|side| side.wait.keeps_end()) else {
            return false;
        };
        side.wait.no_message_came();
        self.turn(adapter, side, Turn::Due, &mut Catch::nobody())
    }

    /// The same if it has waited since before `since`, and nobody is at work on this queue pair.
    pub(crate) fn send_late_tail(self: &Arc<Self>, adapter: &Adapter, since: u64) {
        let _handling = crate::wire::packets::handling();
        if let Some(mut guard) = self.packets.try_lock()
            && let Some(side) = guard.as_deref_mut()
            && side.wait.keeps_end()
            && side.wait.posted_at() < since
        {
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }

    /// Both at the end of the process, unless the thread that ends it was interrupted in the middle of this queue pair.
    pub(crate) fn send_last(self: &Arc<Self>, adapter: &Adapter) {
        let _handling = crate::wire::packets::handling();
        if let Some(mut guard) = self.packets.try_lock()
            && let Some(side) = guard.as_deref_mut()
            && side.wait.keeps_any()
        {
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }
}
