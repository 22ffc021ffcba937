//! Blocks of queue pair numbers: which process owns a number, and which wires it may take.
//!
//! Owns: claiming blocks so that a dead process's numbers rest long, and a living one's lie side by side. Must not know: what a
//! queue pair is.
//!
//! A number's kind is fixed when its queue pair is created, and stands in its block's claim: so two processes that are about to
//! connect come to the same choice of wire without talking.

use super::layout::{Claim, QPN_BLOCKS, State, header};
use super::registry::{Held, ProcessRef, QPN_BLOCK, Registry};
use super::{Host, HostError};
use ferriband_wire::Qpn;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks between the first ones of two processes that come one after another: room for each to grow into.
const SPREAD: u64 = 16;

/// Which wires the queue pairs of a block may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BlockKind {
    /// Those of the InfiniBand device.
    Native,
    /// Those of the Ethernet devices: directly on one host, packets else.
    Auto,
    /// Packets only.
    Packets,
}

impl BlockKind {
    const fn state(self) -> State {
        match self {
            BlockKind::Native => State::Live,
            BlockKind::Auto => State::LiveAuto,
            BlockKind::Packets => State::LivePackets,
        }
    }

    fn of(claim: Claim) -> Option<BlockKind> {
        match claim.state()? {
            State::Live => Some(BlockKind::Native),
            State::LiveAuto => Some(BlockKind::Auto),
            State::LivePackets => Some(BlockKind::Packets),
            _ => None,
        }
    }
}

impl Host {
    /// Claims a block of queue pair numbers: block b is the [`QPN_BLOCK`] numbers from b * [`QPN_BLOCK`]. Never those of
    /// QP0 and QP1, of multicast, or of XRC targets. The next ones of a kind lie behind the first if they can.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn claim_qpn_block(&self, kind: BlockKind) -> Result<u32, HostError> {
        let last = &self.last_blocks[kind as usize];
        let block = self.claim(|| {
            // Stored with 1 added, it is the number of the next one.
            let next = last.load(Relaxed);
            self.registry
                .claim_qpn_block(self.me, kind, (next != 0).then_some(next))
        })?;
        last.store(block + 1, Relaxed);
        Ok(block)
    }

    /// Gives a block back; false if it is not ours.
    pub fn release_qpn_block(&self, block: u32) -> bool {
        self.check_fork().is_ok() && self.registry.release_qpn_block(self.me, block)
    }
}

impl Registry {
    pub(super) fn claim_qpn_block(
        &self,
        owner: ProcessRef,
        kind: BlockKind,
        wanted: Option<u32>,
    ) -> Result<u32, HostError> {
        let count = QPN_BLOCKS.count;
        let near = wanted
            .map(|block| block as usize)
            .filter(|&block| block < count);
        // Round robin, so that a dead process's numbers rest as long as they can before they are somebody else's.
        let start = self.load(header::QPN_CURSOR) as usize % count;
        let order = near.into_iter().chain(start..count).chain(0..start);
        let held = self.claim(&QPN_BLOCKS, owner, order)?;
        if near != Some(held.index) {
            self.store(header::QPN_CURSOR, held.index as u64 + SPREAD);
        }
        self.publish(&QPN_BLOCKS, held, kind.state())?;
        Ok(held.index as u32)
    }

    fn release_qpn_block(&self, owner: ProcessRef, block: u32) -> bool {
        let index = block as usize;
        if index >= QPN_BLOCKS.count {
            return false;
        }
        let claim = self.claim_word(&QPN_BLOCKS, index);
        BlockKind::of(claim).is_some()
            && claim.owner() == owner
            && self.free(&QPN_BLOCKS, Held { index, claim })
    }

    /// The process that owns a queue pair number; None if nobody does. XRC targets belong to their domain:
    /// see [`Registry::xrc_tgt_find`].
    #[inline]
    pub fn owner_of_qpn(&self, qpn: Qpn) -> Option<ProcessRef> {
        self.block_of(qpn).map(|(owner, _)| owner)
    }

    /// Which wires the queue pair with this number may take; None if nobody owns it.
    pub fn kind_of_qpn(&self, qpn: Qpn) -> Option<BlockKind> {
        self.block_of(qpn).map(|(_, kind)| kind)
    }

    #[inline]
    fn block_of(&self, qpn: Qpn) -> Option<(ProcessRef, BlockKind)> {
        let index = (qpn.0 / QPN_BLOCK) as usize;
        if index >= QPN_BLOCKS.count {
            return None;
        }
        let claim = self.claim_word(&QPN_BLOCKS, index);
        Some((claim.owner(), BlockKind::of(claim)?))
    }

    /// The blocks in use, in order: number, owner, kind.
    pub fn qpn_blocks(&self) -> Vec<(u32, ProcessRef, BlockKind)> {
        (0..self.used(&QPN_BLOCKS))
            .filter_map(|index| {
                let claim = self.claim_word(&QPN_BLOCKS, index);
                Some((index as u32, claim.owner(), BlockKind::of(claim)?))
            })
            .collect()
    }
}
