//! Who answers for the connections of a process, as the loop knows it.
//!
//! Owns nothing. Must not know how connections are made.

use std::any::Any;
use std::fmt::Debug;

use ferriband_memory::host::ProcessRef;
use ferriband_wire::mad::MAD_LEN;

use crate::progress::Engine;

/// The manager of connections. Asked for each message of its own, timer and death; never for a
/// packet of a queue pair.
pub(crate) trait Manager: Any + Debug + Send + Sync {
    /// It, for those who know what it is.
    fn any(&self) -> &dyn Any;

    /// True once the program has used it.
    fn is_used(&self) -> bool;

    /// The process in this slot has sent a message.
    fn message(&self, engine: &Engine, slot: u32, mad: &[u8; MAD_LEN]);

    /// Its timer is due ([`Agenda::cm_deadline`](crate::process::agenda::Agenda)).
    fn due(&self, engine: &Engine);

    /// A process of this host is gone.
    fn gone(&self, engine: &Engine, process: ProcessRef);

    /// Does what the dead have left undone.
    fn inherit(&self, engine: &Engine);

    /// An administrator's tool has changed what is to be seen of messages.
    fn look_around(&self, engine: &Engine);

    /// The process leaves: whoever is connected is told. `takes` says that nobody else takes what
    /// comes meanwhile.
    fn leave(&self, engine: &Engine, takes: bool);
}
