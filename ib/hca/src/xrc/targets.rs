//! Targets and shared receive queues of XRC domains, by number.
//!
//! Owns what this process knows of targets, and its queues. Must not know who executes requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use super::TargetProxy;
use crate::objects::srq::Srq;

/// What a process has of XRC domains.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) known: Mutex<BTreeMap<u32, Arc<TargetProxy>>>,
    pub(crate) srqs: RwLock<BTreeMap<u32, Arc<Srq>>>,
}
