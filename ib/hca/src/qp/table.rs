//! The queue pairs of a process, by index and by number.
//!
//! Owns which numbers are taken. Must not know what a queue pair does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_memory::host::{BlockKind, ProcessRef};
use ferriband_transport::direct::layout::{
    BLOCK_QPS, MAX_BLOCKS, PROC_BLOCKS, QP_BYTES, qp_offset,
};

use crate::base::error::Error;
use crate::lock;
use crate::qp::Qp;
use crate::qp::adapter::{Adapter, Numbers};

impl Adapter {
    /// Takes a queue pair number of a kind, and its local index. The number says which wires the
    /// queue pair may take, so that both ends choose alike.
    pub(crate) fn claim_qpn(&self, kind: BlockKind) -> Result<(u32, u32), Error> {
        let mut numbers = lock(&self.table.numbers);
        let of = kind as usize;
        let index = match numbers.fresh[of].next() {
            Some(index) => index,
            None => match numbers.free[of].pop() {
                Some(index) => index,
                None => {
                    self.claim_block(&mut numbers, kind)?;
                    numbers.fresh[of]
                        .next()
                        .ok_or(Error::NoMemory("a block of queue pair numbers is empty"))?
                }
            },
        };
        let (block, _) = numbers.blocks[(index / BLOCK_QPS) as usize];
        Ok((block * BLOCK_QPS + index % BLOCK_QPS, index))
    }

    fn claim_block(&self, numbers: &mut Numbers, kind: BlockKind) -> Result<(), Error> {
        let ordinal = numbers.blocks.len();
        if ordinal >= MAX_BLOCKS {
            return Err(Error::NoMemory("the process has max_qp queue pairs"));
        }
        let block = self.process.registry.claim_qpn_block(kind)?;
        let entries = qp_offset(ordinal * BLOCK_QPS as usize);
        if let Err(error) = self
            .process
            .own
            .commit(entries, BLOCK_QPS as usize * QP_BYTES)
        {
            self.process.registry.release_qpn_block(block);
            return Err(error.into());
        }
        numbers.blocks.push((block, kind));
        self.process.own.store(
            PROC_BLOCKS + ordinal * 8,
            u64::from(block) + 1,
            Ordering::Release,
        );
        let first = ordinal as u32 * BLOCK_QPS;
        // A process that is killed and started again gets the same block: with the same numbers in
        // the same order it would look, to peers on other hosts that have not heard of its end,
        // like the one before (a stale connection, IBA 12.9.8).
        let begin = match kind {
            BlockKind::Native => first,
            BlockKind::Auto | BlockKind::Packets => first + random_below(BLOCK_QPS),
        };
        numbers.fresh[kind as usize] = begin..first + BLOCK_QPS;
        numbers.free[kind as usize].extend((first..begin).rev());
        if kind != BlockKind::Native
            && let Some(roce) = self.wires.roce.get()
        {
            roce.steer(&self.process.registry);
        }
        Ok(())
    }

    /// Gives an index back. `incarnation` is what the next queue pair of the index continues, so
    /// that it takes no answer to its predecessor's records for its own.
    pub(crate) fn release_qpn(&self, index: u32, incarnation: u32) {
        let mut numbers = lock(&self.table.numbers);
        let (_, kind) = numbers.blocks[(index / BLOCK_QPS) as usize];
        numbers.free[kind as usize].insert(0, index);
        numbers.incarnations.insert(index, incarnation);
    }

    /// The incarnation of the last queue pair that had the index.
    pub(crate) fn last_incarnation(&self, index: u32) -> u32 {
        lock(&self.table.numbers)
            .incarnations
            .get(&index)
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn insert_qp(&self, qp: &Arc<Qp>) {
        let mut qps = self
            .table
            .qps
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let index = qp.index as usize;
        if qps.len() <= index {
            qps.resize(index + 1, None);
        }
        qps[index] = Some(qp.clone());
        self.table.version.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_qp(&self, qp: &Qp) {
        let mut qps = self
            .table
            .qps
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(slot) = qps.get_mut(qp.index as usize) {
            *slot = None;
        }
        self.table.version.fetch_add(1, Ordering::AcqRel);
        drop(qps);
        lock(&self.agenda.timers).retain(|(_, index), _| *index != qp.index);
        let mut work = lock(&self.agenda.work);
        work.retain(|other| other.index != qp.index);
        self.agenda.work_count.store(work.len(), Ordering::Release);
    }

    /// A queue pair by local index.
    #[inline]
    pub(crate) fn qp(&self, index: u32) -> Option<Arc<Qp>> {
        let qps = self
            .table
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        qps.get(index as usize)?.clone()
    }

    /// A queue pair of this process by number.
    #[inline]
    pub(crate) fn qp_by_number(&self, qpn: u32) -> Option<Arc<Qp>> {
        let index = ferriband_transport::direct::layout::find_qp(&**self.process.own, qpn)?;
        self.qp(index).filter(|qp| qp.qpn == qpn)
    }

    /// From now on packets for this handle's target are executed by its machine. They are steered
    /// here, for this process made the target; the machine stays until the target ends or this
    /// process leaves the domain.
    pub(crate) fn carry(&self, qp: &Arc<Qp>) {
        let before = lock(&self.table.carried).insert(qp.qpn, qp.clone());
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, qp)) {
            before.end_packets();
        }
        self.table.version.fetch_add(1, Ordering::AcqRel);
        if let Some(roce) = self.wires.roce.get() {
            roce.steer(&self.process.registry);
        }
    }

    /// The handle goes back to its beginning.
    pub(crate) fn stop_carrying(&self, qp: &Arc<Qp>) {
        if qp.target.is_some() {
            self.drop_carried(|other| Arc::ptr_eq(other, qp));
        }
    }

    /// The open XRC domain at this address closes.
    pub(crate) fn stop_carrying_domain(&self, domain: usize) {
        self.drop_carried(|qp| {
            let of = qp.xrcd.as_ref();
            of.is_some_and(|xrcd| xrcd.address() == domain)
        });
    }

    pub(crate) fn drop_carried(&self, which: impl Fn(&Arc<Qp>) -> bool) {
        let mut dropped = Vec::new();
        lock(&self.table.carried).retain(|_, qp| {
            let goes = which(qp);
            if goes {
                dropped.push(qp.clone());
            }
            !goes
        });
        if !dropped.is_empty() {
            self.table.version.fetch_add(1, Ordering::AcqRel);
        }
        for qp in dropped {
            qp.end_packets();
        }
    }

    /// The queue pair of this process that takes the packets for a number.
    pub(crate) fn qp_of_packets(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qp_by_number(qpn)
            .or_else(|| lock(&self.table.carried).get(&qpn).cloned())
    }

    /// The process that takes the packets for a number.
    pub(crate) fn owner_of_packets(&self, qpn: u32) -> Option<ProcessRef> {
        crate::process::numbers::owner_of_packets(&self.process.registry, qpn)
    }
}

/// A number that differs from process to process.
fn random_below(bound: u32) -> u32 {
    let mut bytes = [0; 4];
    // without randomness it is 0, as good as any
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes) % bound
}
