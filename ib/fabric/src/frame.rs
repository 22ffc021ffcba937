//! A packet as the machines of a fabric see it.

use crate::credit::BLOCK_BYTES;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum FrameKind {
    /// A packet of a data VL: takes credits.
    #[default]
    Data,
    /// A packet of VL15: comes first, takes no credits, is dropped where there is no room.
    Management,
}

/// A packet without its bytes: what links and switches look at, and a handle that means something to their driver alone
/// (a live one keeps the bytes behind it, a simulation the packet's birth). 24 bytes, copied from hop to hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Frame {
    /// The driver's.
    pub handle: u64,
    /// Destination LID. On the wire it has 16 bits; a simulation beyond one subnet's LIDs may use more.
    pub dlid: u32,
    /// Source LID, in the same way.
    pub slid: u32,
    /// LRH to VCRC, in bytes.
    pub length_bytes: u16,
    /// Service level, 0 ..= 15: stays the same on the whole way.
    pub sl: u8,
    /// Virtual lane on the link that the frame is on, 0 ..= 15.
    pub vl: u8,
    /// What it is.
    pub kind: FrameKind,
    /// Forward explicit congestion notification: it passed a congested port.
    pub fecn: bool,
    /// Backward explicit congestion notification: its receiver says that packets the other way were marked.
    pub becn: bool,
}

const _: () = assert!(size_of::<Frame>() == 24);

impl Frame {
    /// Blocks of 64 bytes that it takes of a receiver's buffer.
    #[inline]
    pub const fn blocks(&self) -> u16 {
        self.length_bytes.div_ceil(BLOCK_BYTES)
    }
}
