//! Whose a queue pair number is, among the processes of this host.
//!
//! Owns nothing: the host's registry knows. Must not know queue pairs.

use ferriband_memory::host::{ProcessRef, Registry};
use ferriband_wire::Qpn;

/// The process that takes the packets for a number: its owner, of an XRC target the process that
/// made it.
pub(crate) fn owner_of_packets(registry: &Registry, qpn: u32) -> Option<ProcessRef> {
    let target = || registry.xrc_tgt_find(Qpn(qpn));
    registry
        .owner_of_qpn(Qpn(qpn))
        .or_else(|| target().map(|target| target.creator()))
}
