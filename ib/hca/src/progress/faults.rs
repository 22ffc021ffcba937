//! What fails because somebody wants it to: devices and queue pairs; and links that come back.
//!
//! Owns: which queue pairs are met, and the answer to who asked. Must not know how a queue pair
//! fails.

use std::sync::Arc;

use ferriband_memory::host::{Control, MSG_QP_ERROR};

use crate::lock;
use crate::objects::event::AsyncKind;
use crate::objects::open::OpenDevice;
use crate::progress::Engine;
use crate::qp::Qp;

/// In place of a queue pair's number.
const ALL: u32 = u32::MAX;
/// Bytes of the answer: the message's first byte, then from byte 4 on how many have failed.
const ANSWER_BYTES: usize = 16;

/// Which queue pairs a tool means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// A number, or [`ALL`].
    qpn: u32,
    /// Those of one interface.
    ifindex: Option<u32>,
}

impl Choice {
    /// Of a message: its first byte, then from byte 4 on the number of the queue pair, or [`ALL`],
    /// and that of the interface plus 1, or 0 for any.
    pub(super) fn read(message: &[u8]) -> Option<Choice> {
        let &[_, _, _, _, q0, q1, q2, q3, i0, i1, i2, i3] = message else {
            return None;
        };
        Some(Choice {
            qpn: u32::from_le_bytes([q0, q1, q2, q3]),
            ifindex: u32::from_le_bytes([i0, i1, i2, i3]).checked_sub(1),
        })
    }

    pub(super) fn is_meant(&self, number: u32, by: u32) -> bool {
        (self.qpn == ALL || number == self.qpn) && self.ifindex.is_none_or(|ifindex| by == ifindex)
    }
}

impl Engine {
    /// The queue pairs of this process; no XRC targets, which are nobody's.
    pub(super) fn queue_pairs(&self) -> Vec<Arc<Qp>> {
        let qps = self
            .table
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        qps.iter().flatten().cloned().collect()
    }

    /// The device has failed, as far as this context is concerned: everything is flushed, nothing
    /// new can be made. `hard`: completions that were not taken are gone, but for those of flushed
    /// requests.
    #[cold]
    pub(super) fn end_device(&self, context: &Arc<OpenDevice>, hard: bool) {
        context.fail();
        for qp in self.queue_pairs() {
            if Arc::ptr_eq(&qp.ctx, context) {
                qp.break_down(false);
                if hard {
                    qp.forget_finished();
                }
            }
        }
        context.raise(AsyncKind::DeviceFatal, 0);
    }

    /// An interface's link is back: its queue pairs ask at once for what was lost meanwhile.
    #[cold]
    pub(super) fn ask_by(&self, ifindex: u32) {
        for qp in self.queue_pairs() {
            if qp.ctx.device.info.ifindex == ifindex {
                qp.ask_now(self);
            }
        }
    }

    /// A tool wants queue pairs of this process to fail: those of a [`Choice`].
    #[cold]
    pub(super) fn fail_queue_pairs(&self, control: &Control, message: &[u8]) {
        let Some(choice) = Choice::read(message) else {
            return;
        };
        let is_meant = |number: u32, by: u32| choice.is_meant(number, by);
        let own = self.queue_pairs().into_iter();
        let own = own.filter(|qp| is_meant(qp.qpn, qp.ctx.device.info.ifindex));
        let mut failed = own.filter(|qp| qp.break_down(true)).count();
        let targets: Vec<_> = lock(&self.targets.known).values().cloned().collect();
        for target in targets {
            // one handle takes the target with it, in all processes; who made it counts it
            let handles = target.handles().into_iter();
            let mut handles = handles.filter(|handle| is_meant(target.qpn(), handle.ifindex()));
            let fails = handles.any(|handle| handle.break_down());
            failed += usize::from(fails && target.was_made_here(&self.process));
        }
        let mut answer = [0; ANSWER_BYTES];
        answer[0] = MSG_QP_ERROR;
        answer[4..8].copy_from_slice(&(failed as u32).to_le_bytes());
        // who does not wait for the answer does without
        let _ = control.send(&answer, &[]);
    }
}
