//! The private negotiation of flow control: 24 bytes of Hello and HelloAck that other
//! implementations leave zero and ignore. Owns their layout, and what makes them valid.
//!
//! The two flow controls beside credits write into a ring of the receiver by RDMA WRITE with
//! immediate data (papers/004 sections 4 and 5). A standard peer would take such a message for an
//! error, so they are used only when both sides name them here. A side that offers nothing, or
//! whose bytes make no sense, speaks the standard protocol: reading never fails, it gives None.
//!
//! Buffers and their size (N and S there) have no place here: they are `bufs` of the BSDH
//! and the receive size of Hello and HelloAck, in every flow control.

use crate::types::RKey;
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The negotiation as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FlowControlWire {
    magic: [u8; 3],
    /// Version:4 FlowControl:4.
    kind: u8,
    window: U32,
    ring_size: U32,
    ring_rkey: U32,
    ring_address: U64,
}

const MAGIC: [u8; 3] = *b"FSd";
const VERSION: u8 = 1;
const VERSION_SHIFT: u32 = 4;
const CREDIT: u8 = 0;
const RING: u8 = 1;
const NIC: u8 = 2;

/// A ring: memory of the side that names it, into which the peer writes the stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ring {
    /// Address of its first byte in the owner's memory.
    pub virtual_address: u64,
    /// Its remote key.
    pub rkey: RKey,
    /// Its bytes: at least 1, and not beyond the end of the address space.
    pub size_bytes: u32,
}

/// The flow control that a side asks for (Hello) or that both use (HelloAck), with the side's own
/// ring. The answer is never more than what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowControl {
    /// Messages into posted buffers, counted by credits.
    Credit,
    /// RDMA WRITE with immediate data into the ring; the writer keeps account of the space.
    Ring(Ring),
    /// As `Ring`, and the adapter holds messages back until a receive is posted for them.
    Nic {
        /// The ring.
        ring: Ring,
        /// The virtual window (W): a receive is posted for each `window_bytes` of free space, and
        /// no message into this ring is longer. At least 1, at most the ring's size.
        window_bytes: u32,
        /// Number of the side's second queue pair, for zero copy; 0: it has none. It stands beside
        /// the 24 bytes.
        second_qp: u32,
    },
}

/// The largest number of a queue pair.
pub(crate) const LARGEST_QP: u32 = 0xff_ffff;

impl FlowControl {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<FlowControlWire>();

    /// The ring, if the flow control has one.
    pub const fn ring(&self) -> Option<&Ring> {
        match self {
            FlowControl::Credit => None,
            FlowControl::Ring(ring) | FlowControl::Nic { ring, .. } => Some(ring),
        }
    }

    /// Number of the side's second queue pair; 0: none.
    pub(crate) const fn second_qp(flow_control: Option<&Self>) -> u32 {
        match flow_control {
            Some(FlowControl::Nic { second_qp, .. }) => *second_qp,
            _ => 0,
        }
    }

    /// The first field that no receiver takes, with its value.
    pub(crate) fn refused(&self) -> Option<(&'static str, u64)> {
        let ring = self.ring()?;
        if ring.size_bytes == 0 {
            return Some(("ring size", 0));
        }
        let last = u64::from(ring.size_bytes) - 1;
        if ring.virtual_address.checked_add(last).is_none() {
            return Some(("ring address", ring.virtual_address));
        }
        match self {
            FlowControl::Nic {
                ring, window_bytes, ..
            } if *window_bytes == 0 || *window_bytes > ring.size_bytes => {
                Some(("virtual window", u64::from(*window_bytes)))
            }
            FlowControl::Nic { second_qp, .. } if *second_qp > LARGEST_QP => {
                Some(("second queue pair", u64::from(*second_qp)))
            }
            _ => None,
        }
    }

    /// None for bytes that are no negotiation: another magic, version or flow control, and rings
    /// and windows that cannot be. `second_qp` stands beside them.
    pub(crate) fn from_wire(wire: &FlowControlWire, second_qp: u32) -> Option<Self> {
        if wire.magic != MAGIC || wire.kind >> VERSION_SHIFT != VERSION {
            return None;
        }
        let ring = Ring {
            virtual_address: wire.ring_address.get(),
            rkey: RKey(wire.ring_rkey.get()),
            size_bytes: wire.ring_size.get(),
        };
        let flow_control = match wire.kind & ((1 << VERSION_SHIFT) - 1) {
            CREDIT => FlowControl::Credit,
            RING => FlowControl::Ring(ring),
            NIC => FlowControl::Nic {
                ring,
                window_bytes: wire.window.get(),
                second_qp,
            },
            _ => return None,
        };
        flow_control.refused().is_none().then_some(flow_control)
    }

    /// Fields that the flow control does not have are zero, and all are for None.
    pub(crate) fn to_wire(flow_control: Option<&Self>) -> FlowControlWire {
        let (kind, ring, window) = match flow_control {
            None => return FlowControlWire::new_zeroed(),
            Some(FlowControl::Credit) => (CREDIT, None, 0),
            Some(FlowControl::Ring(ring)) => (RING, Some(ring), 0),
            Some(FlowControl::Nic {
                ring, window_bytes, ..
            }) => (NIC, Some(ring), *window_bytes),
        };
        FlowControlWire {
            magic: MAGIC,
            kind: VERSION << VERSION_SHIFT | kind,
            window: U32::new(window),
            ring_size: U32::new(ring.map_or(0, |ring| ring.size_bytes)),
            ring_rkey: U32::new(ring.map_or(0, |ring| ring.rkey.0)),
            ring_address: U64::new(ring.map_or(0, |ring| ring.virtual_address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING_AT_THE_END: Ring = Ring {
        virtual_address: u64::MAX - 0xffff,
        rkey: RKey(7),
        size_bytes: 0x1_0000,
    };

    fn back(flow_control: FlowControl) -> Option<FlowControl> {
        let second_qp = FlowControl::second_qp(Some(&flow_control));
        FlowControl::from_wire(&FlowControl::to_wire(Some(&flow_control)), second_qp)
    }

    fn nic(window_bytes: u32) -> FlowControl {
        FlowControl::Nic {
            ring: RING_AT_THE_END,
            window_bytes,
            second_qp: 0x12_3456,
        }
    }

    #[test]
    fn what_is_valid_comes_back() {
        let ring = FlowControl::Ring(RING_AT_THE_END);
        for valid in [FlowControl::Credit, ring, nic(1), nic(0x1_0000)] {
            assert_eq!(valid.refused(), None);
            assert_eq!(back(valid), Some(valid));
        }
    }

    #[test]
    fn rings_and_windows_that_cannot_be_are_none() {
        let empty = Ring {
            size_bytes: 0,
            ..RING_AT_THE_END
        };
        let beyond = Ring {
            size_bytes: 0x1_0001,
            ..RING_AT_THE_END
        };
        let no_qp = FlowControl::Nic {
            ring: RING_AT_THE_END,
            window_bytes: 1,
            second_qp: 0x100_0000,
        };
        let invalid = [
            (no_qp, "second queue pair"),
            (FlowControl::Ring(empty), "ring size"),
            (FlowControl::Ring(beyond), "ring address"),
            (nic(0), "virtual window"),
            (nic(0x1_0001), "virtual window"),
        ];
        for (invalid, field) in invalid {
            assert_eq!(invalid.refused().map(|(field, _)| field), Some(field));
            assert_eq!(back(invalid), None);
        }
    }

    #[test]
    fn other_magics_versions_and_kinds_are_none() {
        let valid = FlowControl::to_wire(Some(&nic(0x1000)));
        assert!(FlowControl::from_wire(&valid, 0).is_some());
        for bit in 0..32 {
            let mut bytes = [0; FlowControl::LEN];
            bytes.copy_from_slice(valid.as_bytes());
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let parsed = FlowControlWire::read_from_bytes(&bytes)
                .ok()
                .and_then(|wire| FlowControl::from_wire(&wire, 0));
            // Only one bit leads from NIC to another flow control: to credits.
            let expected = (bit == 30).then_some(FlowControl::Credit);
            assert_eq!(parsed, expected, "bit {bit}");
        }
        assert_eq!(FlowControl::from_wire(&FlowControl::to_wire(None), 0), None);
    }
}
