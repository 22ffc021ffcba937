//! Link-level flow control (papers/000 II-D, IBA 7.9): for each data VL of each direction of a link, a counter pair at the sender and one at the
//! receiver, in blocks of 64 bytes, modulo 4096.
//!
//! Owns: when a packet may go, what a flow-control packet says, when one is due, when the other end has fallen silent. Must not know queues. What
//! arrives from the link is hostile: any 12-bit value may come in a flow-control packet.

use crate::time::{LinkRate, Time};

/// Bytes of a block.
pub const BLOCK_BYTES: u16 = 64;
/// Most blocks that may be allowed at a time: half of the counters' circle, so that "before" and "after" can be told apart.
pub const WINDOW: u16 = 2048;
/// Bytes of a flow-control packet on the wire (papers/000 Fig. 5).
pub const FLOW_BYTES: u32 = 8;
/// A flow-control packet goes for each VL at least this often, in symbol times.
pub const REFRESH_SYMBOLS: u64 = 65_536;
/// After so many symbol times without a flow-control packet the link is retrained (allowed: 196,000 to 412,000).
pub const WATCHDOG_SYMBOLS: u64 = 400_000;
/// The counters' circle, less one.
const MASK: u16 = 0xfff;
/// Data VLs that a link may have.
pub const MOST_DATA_VLS: u8 = 15;

/// What a flow-control packet says of one VL (papers/000 Fig. 5); both counters have 12 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The VL.
    pub vl: u8,
    /// Flow control total blocks sent: the sender's TBS.
    pub fctbs: u16,
    /// Flow control credit limit: how far the other end may let its own TBS go.
    pub fccl: u16,
}

/// The sending end of a VL: TBS and CL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sender {
    tbs: u16,
    cl: u16,
}

impl Sender {
    /// A packet of so many blocks may go: `0 <= CL - (TBS + N) <= 2048`, modulo 4096.
    #[inline]
    pub const fn may_send(&self, blocks: u16) -> bool {
        blocks <= WINDOW && self.cl.wrapping_sub(self.tbs).wrapping_sub(blocks) & MASK <= WINDOW
    }

    /// Blocks that may go; 0 if the limit that was told lies outside the window.
    #[inline]
    pub const fn credits(&self) -> u16 {
        let left = self.cl.wrapping_sub(self.tbs) & MASK;
        if left <= WINDOW { left } else { 0 }
    }

    /// A packet of so many blocks goes. Only after [`Self::may_send`] said so.
    #[inline]
    pub const fn sent(&mut self, blocks: u16) {
        debug_assert!(self.may_send(blocks));
        self.tbs = self.tbs.wrapping_add(blocks) & MASK;
    }

    /// The other end's limit came.
    #[inline]
    pub const fn limit(&mut self, fccl: u16) {
        self.cl = fccl & MASK;
    }

    /// Total blocks sent, modulo 4096: what the next flow-control packet tells.
    #[inline]
    pub const fn total_sent(&self) -> u16 {
        self.tbs
    }
}

/// The receiving end of a VL: ABR and FB, and how large the buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receiver {
    abr: u16,
    free: u16,
    buffer: u16,
}

impl Receiver {
    /// An empty buffer of so many blocks. More than 2,048 are never offered at a time.
    pub const fn new(buffer_blocks: u16) -> Receiver {
        Receiver {
            abr: 0,
            free: buffer_blocks,
            buffer: buffer_blocks,
        }
    }

    /// A packet of so many blocks has come and is kept. False if there is no room: the sender ignored its limit, the packet is to be dropped
    /// (ExcessiveBufferOverrunErrors), nothing is counted.
    #[inline]
    #[must_use]
    pub const fn received(&mut self, blocks: u16) -> bool {
        if blocks > self.free {
            return false;
        }
        self.abr = self.abr.wrapping_add(blocks) & MASK;
        self.free -= blocks;
        true
    }

    /// So many blocks have left the buffer.
    #[inline]
    pub const fn freed(&mut self, blocks: u16) {
        debug_assert!(blocks <= self.buffer - self.free);
        let taken = self.buffer - self.free;
        self.free += if blocks < taken { blocks } else { taken };
    }

    /// The other end told how much it has sent. Flow-control packets stay in order with packets, so what is not here by now is lost, and its
    /// blocks count as received.
    #[inline]
    pub const fn total_sent(&mut self, fctbs: u16) {
        self.abr = fctbs & MASK;
    }

    /// The credit limit to tell: `(ABR + min(FB, 2048)) mod 4096`. (papers/000 says the maximum. It cannot be: with more than 2,048 free blocks
    /// the sender's condition would never hold.)
    #[inline]
    pub const fn credit_limit(&self) -> u16 {
        let offer = if self.free < WINDOW {
            self.free
        } else {
            WINDOW
        };
        self.abr.wrapping_add(offer) & MASK
    }

    /// Blocks that are free.
    pub const fn free_blocks(&self) -> u16 {
        self.free
    }

    /// Blocks of the whole buffer.
    pub const fn buffer_blocks(&self) -> u16 {
        self.buffer
    }
}

/// One end of a link: both counter pairs of each data VL, and the flow-control packets that go and come.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    lanes: Vec<Lane>,
    /// VLs that have something to tell.
    due: u16,
    refresh: Time,
    watchdog: Time,
}

#[derive(Clone, Debug)]
struct Lane {
    sender: Sender,
    receiver: Receiver,
    told: Time,
    heard: Time,
}

impl LinkEnd {
    /// A link that comes up now: `data_vls` lanes (1 ..= 15, what is outside is brought inside), each with a buffer. Every lane has its first flow-control packet to send.
    pub fn new(now: Time, data_vls: u8, buffer_blocks: u16, rate: &LinkRate) -> LinkEnd {
        let data_vls = data_vls.clamp(1, MOST_DATA_VLS);
        let lane = Lane {
            sender: Sender::default(),
            receiver: Receiver::new(buffer_blocks),
            told: now,
            heard: now,
        };
        LinkEnd {
            lanes: vec![lane; data_vls.into()],
            due: ((1u32 << data_vls) - 1) as u16,
            refresh: rate.symbols(REFRESH_SYMBOLS),
            watchdog: rate.symbols(WATCHDOG_SYMBOLS),
        }
    }

    /// The sending end of a VL; None if the link has no such data VL.
    pub fn sender(&mut self, vl: u8) -> Option<&mut Sender> {
        Some(&mut self.lanes.get_mut(usize::from(vl))?.sender)
    }

    /// The receiving end of a VL; None if the link has no such data VL.
    pub fn receiver(&mut self, vl: u8) -> Option<&mut Receiver> {
        Some(&mut self.lanes.get_mut(usize::from(vl))?.receiver)
    }

    /// Blocks of a VL have left the buffer: the other end is to know.
    pub fn freed(&mut self, vl: u8, blocks: u16) {
        if let Some(lane) = self.lanes.get_mut(usize::from(vl)) {
            lane.receiver.freed(blocks);
            self.due |= 1 << vl;
        }
    }

    /// A flow-control packet came. False if its VL is none of this link's: it is ignored.
    pub fn heard(&mut self, now: Time, flow: Flow) -> bool {
        let Some(lane) = self.lanes.get_mut(usize::from(flow.vl)) else {
            return false;
        };
        lane.heard = now;
        lane.sender.limit(flow.fccl);
        lane.receiver.total_sent(flow.fctbs);
        true
    }

    /// The flow-control packet that is to go now, if any: buffer space was freed, or the last one of its VL is 65,536 symbol times old.
    /// What was freed while one waited for the wire goes into the same.
    pub fn next(&mut self, now: Time) -> Option<Flow> {
        for (vl, lane) in self.lanes.iter().enumerate() {
            if now.since(lane.told) >= self.refresh {
                self.due |= 1 << vl;
            }
        }
        if self.due == 0 {
            return None;
        }
        let vl = self.due.trailing_zeros() as u8;
        self.due &= self.due - 1;
        let lane = &mut self.lanes[usize::from(vl)];
        lane.told = now;
        Some(Flow {
            vl,
            fctbs: lane.sender.total_sent(),
            fccl: lane.receiver.credit_limit(),
        })
    }

    /// When [`Self::next`] will have something to say if nothing else happens, or [`Self::silent`] will.
    pub fn wakes_at(&self) -> Time {
        if self.due != 0 {
            return Time::ZERO;
        }
        let times = self
            .lanes
            .iter()
            .map(|lane| (lane.told + self.refresh).min(lane.heard + self.watchdog));
        times.min().unwrap_or(Time::NEVER)
    }

    /// A VL has heard nothing for 400,000 symbol times: a flow-control update error, the link is to be retrained (a new [`LinkEnd`]).
    pub fn silent(&self, now: Time) -> bool {
        let silent = |lane: &Lane| now.since(lane.heard) >= self.watchdog;
        self.lanes.iter().any(silent)
    }
}

#[cfg(test)]
mod tests;
