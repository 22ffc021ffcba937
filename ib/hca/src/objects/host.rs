//! What objects ask of whoever drives the adapter.
//!
//! Owns nothing. Must not know queue pairs, wires, nor who makes progress.

use std::any::Any;
use std::sync::Arc;

use ferriband_wire::Gid;

use crate::objects::catch::Catch;
use crate::objects::regions::Memory;
use crate::process::process::Process;

/// Who drives the adapter of a process. An open device keeps it alive. What calls on queues need at
/// each call lies in [`Words`](crate::process::status::Status) instead.
pub(crate) trait Host: Any + Send + Sync {
    /// It, for those who know what it is.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// The adapter, for those who know what that is.
    fn adapter(&self) -> Arc<dyn Any + Send + Sync>;

    fn process(&self) -> &Process;

    /// Registered memory.
    fn memory(&self) -> Memory<'_>;

    /// One round by a polling program.
    fn poll(&self, catch: &mut Catch<'_>);

    /// The program is about to wait.
    fn hand_over(&self);

    /// Handles what has come, after a wait; `rung` says that the bell ended it.
    fn take_came(&self, rung: bool);

    /// From now on the progress thread handles packets for all who wait for events.
    fn wait_by_thread(&self);

    /// The counters of ports are to be up to date.
    fn publish_counters(&self);

    /// Something will be sent to this group: channels to its members begin.
    fn meet_group(&self, group: &Gid);

    /// The shared receive queue of this number, of an XRC domain, is no more.
    fn forget_srq(&self, number: u32);

    /// The open XRC domain at this address closes.
    fn leave_domain(&self, domain: usize);
}
