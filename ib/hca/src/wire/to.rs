//! Where packets that came go.
//!
//! Owns nothing. Must not know who makes progress, nor who answers for queue pair 1.

use ferriband_memory::net::RxMeta;

use crate::qp::adapter::Adapter;
use crate::wire::native::meta::NativeMeta;

/// Who answers for queue pair 1, the general services'. Asked for its packets alone.
pub(crate) trait Services {
    /// A whole packet came by RoCEv2; `transport` is what of it begins with the BTH, `handed` says
    /// that another process handed it over. False if it is not taken.
    fn came(&self, meta: &RxMeta, datagram: &[u8], transport: &[u8], handed: bool) -> bool;

    /// A whole packet came by the InfiniBand port, from BTH to ICRC; `transport` is without the
    /// ICRC. False if it is not taken.
    fn came_by_port(&self, meta: &NativeMeta, packet: &[u8], transport: &[u8]) -> bool;

    /// True if a packet, of whatever queue pair, is to be handed over to another process.
    fn is_anothers(&self, meta: &RxMeta, datagram: &[u8]) -> bool;
}

/// What takes packets.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    pub(crate) adapter: &'a Adapter,
    pub(crate) services: &'a dyn Services,
}
