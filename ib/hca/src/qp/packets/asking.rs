//! The link of a queue pair was down and is back.
//!
//! Owns: that it asks at once for what is not acknowledged. Must not know how links come and go,
//! nor how packets go ([`super`]).

use std::sync::Arc;

use super::{Qp, Turn};
use crate::lock;
use crate::objects::catch::Catch;
use crate::qp::adapter::Adapter;

impl Qp {
    /// What is not acknowledged is asked for now, whenever its turn would come.
    #[cold]
    pub(crate) fn ask_now(self: &Arc<Self>, adapter: &Adapter) {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        if let Some(side) = guard.as_deref_mut() {
            side.machine.ask_now();
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }
}
