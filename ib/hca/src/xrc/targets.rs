//! Targets and shared receive queues of XRC domains, by number.
//!
//! Owns what this process knows of targets, and its queues. Must not know who executes requests.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, RwLock};

use ferriband_transport::direct::Receiver;
use ferriband_transport::types::QpType;
use ferriband_wire::Qpn;

use super::TargetProxy;
use crate::base::limits;
use crate::lock;
use crate::objects::srq::Srq;
use crate::process::process::Process;

/// What a process has of XRC domains.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) known: Mutex<BTreeMap<u32, Arc<TargetProxy>>>,
    pub(crate) srqs: RwLock<BTreeMap<u32, Arc<Srq>>>,
}

impl Targets {
    /// What this process knows of a target, if the registry has it.
    pub(crate) fn get(&self, process: &Process, qpn: u32) -> Option<Arc<TargetProxy>> {
        let mut targets = lock(&self.known);
        if let Some(proxy) = targets.get(&qpn)
            && process.registry.xrc_tgt_is_current(&proxy.target)
        {
            return Some(proxy.clone());
        }
        let target = process.registry.xrc_tgt_find(Qpn(qpn))?;
        let proxy = Arc::new(TargetProxy {
            target,
            recv: Mutex::new(Receiver::new(qpn, QpType::XrcRecv, 0, 0, limits::MAX_SGE)),
            handles: Mutex::default(),
            packets_pd: AtomicU32::new(0),
        });
        targets.insert(qpn, proxy.clone());
        Some(proxy)
    }

    /// A shared receive queue of an XRC domain was made.
    pub(crate) fn add_srq(&self, srq: &Arc<Srq>) {
        self.srqs
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(srq.number, srq.clone());
    }

    /// It is no more: its number is free.
    pub(crate) fn remove_srq(&self, process: &Process, number: u32) {
        process.registry.xrc_srq_free(number);
        self.srqs
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .remove(&number);
    }

    /// A shared receive queue of an XRC domain by number.
    pub(crate) fn srq_by_number(&self, number: u32) -> Option<Arc<Srq>> {
        self.srqs
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&number)
            .cloned()
    }
}
