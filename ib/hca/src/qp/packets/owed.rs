//! Acknowledgements that a queue pair has kept back for a reply go now.
//!
//! Owns: who may ask for it, and when it is refused. Must not know: how packets go ([`super`]).

use std::sync::Arc;

use super::{Qp, Turn};
use crate::lock;
use crate::objects::catch::Catch;
use crate::qp::adapter::Adapter;

impl Qp {
    /// An acknowledgement that was kept back goes now, if it is still there: no request came to take it along.
    pub(crate) fn send_owed(self: &Arc<Self>, adapter: &Adapter) {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        if let Some(side) = guard.as_deref_mut()
            && side.wait.keeps_acknowledgement()
        {
            side.wait.no_reply_came();
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }

    /// As [`Self::send_owed`], at the end of the process, unless the thread that ends it was
    /// interrupted in the middle of this queue pair.
    pub(crate) fn send_last(self: &Arc<Self>, adapter: &Adapter) {
        let _handling = crate::wire::packets::handling();
        if let Some(mut guard) = self.packets.try_lock()
            && let Some(side) = guard.as_deref_mut()
            && side.wait.keeps_acknowledgement()
        {
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }
}
