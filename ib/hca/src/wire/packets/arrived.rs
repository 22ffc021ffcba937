//! A run of packets as it came, whichever wire it came by.
//!
//! Owns nothing. Must not know queue pairs. Every byte comes from a stranger.

use ferriband_memory::net::RxMeta;
use ferriband_wire::Qpn;

use crate::wire::native::meta::NativeMeta;

/// The general services' queue pair.
pub(crate) const GSI: Qpn = Qpn(1);
/// What a packet ends with.
pub(crate) const ICRC_BYTES: usize = 4;
/// The queue pair number of packets for a group.
pub(in crate::wire) const MULTICAST_QPN: u32 = 0xff_ffff;

/// A run of packets as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrived {
    /// By UDP.
    Roce(RxMeta),
    /// By the InfiniBand port.
    Native(NativeMeta),
}

impl Arrived {
    /// Bytes of each packet but the last; never 0.
    pub fn segment(&self) -> usize {
        let segment = match self {
            Arrived::Roce(meta) => meta.segment,
            Arrived::Native(meta) => meta.segment,
        };
        usize::from(segment.max(1))
    }

    /// One of them, alone.
    pub fn one(&self, bytes: usize) -> Self {
        let segment = bytes as u16;
        match *self {
            Arrived::Roce(meta) => Arrived::Roce(RxMeta { segment, ..meta }),
            Arrived::Native(meta) => Arrived::Native(NativeMeta { segment, ..meta }),
        }
    }
}

/// The destination queue pair in a packet's base transport header.
pub(crate) fn destination(datagram: &[u8]) -> Option<u32> {
    let bytes = datagram.get(5..8)?;
    Some(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
}
