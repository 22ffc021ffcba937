//! Quantities of the protocol as newtypes, and the service ID of a port. They are this crate's own:
//! upper protocols link the C ABI and know nothing of the adapter's crates.

use std::fmt;

/// Number of a message on a connection, modulo 2^32. Each side counts all that it sends, Hello and
/// HelloAck included. It has no `Ord`: of two numbers one is `after` the other only within half the
/// circle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct MessageSeq(pub u32);

impl MessageSeq {
    /// The successor.
    pub const fn next(self) -> Self {
        MessageSeq(self.0.wrapping_add(1))
    }

    /// Signed distance from `from` to `self`, in -2^31 .. 2^31.
    pub const fn distance(self, from: MessageSeq) -> i32 {
        self.0.wrapping_sub(from.0).cast_signed()
    }

    /// True when `self` lies in the half circle after `other`.
    pub const fn after(self, other: MessageSeq) -> bool {
        self.distance(other) > 0
    }
}

impl fmt::Debug for MessageSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageSeq({:#010x})", self.0)
    }
}

impl fmt::Display for MessageSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// Remote key of a memory region, as in SrcAvail, SinkAvail and the negotiation of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct RKey(pub u32);

impl fmt::Debug for RKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RKey({:#010x})", self.0)
    }
}

/// Service identifier: what a listener of the communication manager listens on (IBA annex A3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// The port space of SDP, 0x0001, in its place above the port.
    const SDP: u64 = 1 << u16::BITS;

    /// The service behind a port.
    pub const fn from_port(port: u16) -> Self {
        ServiceId(Self::SDP | port as u64)
    }

    /// The port; None for service IDs that are not SDP's.
    pub const fn port(self) -> Option<u16> {
        if self.0 >> u16::BITS == 1 {
            // The low sixteen bits.
            Some(self.0 as u16)
        } else {
            None
        }
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceId({:#018x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_numbers_wrap_at_32_bits() {
        let last = MessageSeq(u32::MAX);
        assert_eq!(last.next(), MessageSeq(0));
        assert!(MessageSeq(2).after(MessageSeq(0xffff_fffe)));
        assert!(!MessageSeq(0xffff_fffe).after(MessageSeq(2)));
        assert_eq!(MessageSeq(2).distance(MessageSeq(0xffff_fffe)), 4);
        assert_eq!(MessageSeq(0xffff_fffe).distance(MessageSeq(2)), -4);
        assert_eq!(MessageSeq(1 << 31).distance(MessageSeq(0)), i32::MIN);
        assert!(!last.after(last));
    }

    #[test]
    fn ports_become_service_ids_and_come_back() {
        assert_eq!(ServiceId::from_port(0x1c06), ServiceId(0x0001_1c06));
        for port in 0..=u16::MAX {
            assert_eq!(ServiceId::from_port(port).port(), Some(port));
        }
        // rdma_cm's port spaces TCP and UDP, a bit far above, and no port space at all.
        for other in [0x0106_1c06, 0x0111_0001, 1 << 40 | 1 << 16, 0x1c06] {
            assert_eq!(ServiceId(other).port(), None);
        }
    }
}
