//! Connections that go over to their alternate paths (IBA 17.2.8), because an administrator wants
//! it.
//!
//! Owns: which are meant, and the answer. Must not know how a path is changed.

use ferriband_memory::host::{Control, MSG_QP_MIGRATE};

use super::faults::Choice;
use crate::progress::Engine;

/// Bytes of the answer: the message's first byte, then from byte 4 on how many have migrated, and
/// how many have not, since they are not armed.
const ANSWER_BYTES: usize = 16;

impl Engine {
    /// A tool wants connections of this process to migrate: those of a [`Choice`].
    #[cold]
    pub(super) fn migrate_paths(&self, control: &Control, message: &[u8]) {
        let Some(choice) = Choice::read(message) else {
            return;
        };
        let (mut migrated, mut unarmed) = (0u32, 0u32);
        for qp in self.queue_pairs() {
            let meant = choice.is_meant(qp.qpn, qp.ctx.device.info.ifindex);
            match meant && qp.is_connected() {
                false => {}
                true if qp.fail_over(None) => migrated += 1,
                true => unarmed += 1,
            }
        }
        let mut answer = [0; ANSWER_BYTES];
        answer[0] = MSG_QP_MIGRATE;
        answer[4..8].copy_from_slice(&migrated.to_le_bytes());
        answer[8..12].copy_from_slice(&unarmed.to_le_bytes());
        // who does not wait for the answer does without
        let _ = control.send(&answer, &[]);
    }
}
