//! A queue pair that fails by itself, as one does whose adapter cannot go on with it.
//!
//! Owns: the transition, and that no queue pair is met that is being destroyed. Must not know who
//! wants it.

use std::sync::Arc;

use ferriband_transport::direct::TargetEvent;
use ferriband_transport::types::{QpAttr, QpAttrMask, QpState};

use crate::lock;
use crate::objects::event::AsyncKind;
use crate::qp::Qp;

impl Qp {
    /// The queue pair goes to the error state and everything is flushed. With `tells` the program
    /// hears of it (IBA 11.6.3.2, local work queue catastrophic error); the peer finds out when it
    /// hears nothing. False if the queue pair does nothing that could fail.
    #[cold]
    pub(crate) fn break_down(self: &Arc<Self>, tells: bool) -> bool {
        let mut attr = lock(&self.attr);
        if matches!(self.state_now(), QpState::Reset | QpState::Err) {
            return false;
        }
        // first: whoever takes a flushed request may ask why
        match &self.target {
            _ if !tells => {}
            Some(target) => target.fail(&self.adapter.process, TargetEvent::ReceiveError),
            None => self.raise(AsyncKind::QpFatal),
        }
        let failed = QpAttr {
            state: QpState::Err,
            ..QpAttr::default()
        };
        // a forked child's has failed already, as far as the child is concerned
        self.change(&mut attr, &failed, QpAttrMask::STATE).is_ok()
    }

    /// After that: what it had finished, and nobody has taken, is gone with the adapter. What comes
    /// later was flushed.
    #[cold]
    pub(crate) fn forget_finished(&self) {
        let extended = self.srq.as_ref().and_then(|srq| srq.xrc.as_ref());
        let extended = extended.map(|(_, cq)| cq);
        let all = self.send_cq.iter().chain(&self.recv_cq).chain(extended);
        all.for_each(|cq| cq.forget_finished(self.qpn));
    }
}
