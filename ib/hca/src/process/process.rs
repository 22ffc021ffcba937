//! What a process is to the others of its host: its place in the registry, and its segment.
//!
//! Owns the segment. Must not know what lies in the segment beyond its head.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use ferriband_memory::Segment;
use ferriband_memory::host::{Host, JoinOptions};
use ferriband_memory::wait::EventFd;
use ferriband_transport::direct::layout::{MAGIC, PROC_IDENTITY, PROC_LEN, PROC_MAGIC, qp_offset};
use ferriband_wire::{Guid, Lid};

use crate::base::error::Error;
use crate::process::marks::Marks;

/// This process, while a context is open.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) own: Arc<Segment>,
    pub(crate) registry: Host,
    pub(crate) guid: Guid,
    pub(crate) lid: Lid,
    pub(crate) marks: Marks,
    /// Wakes the progress thread.
    pub(crate) waker: Arc<EventFd>,
    /// Wakes whoever looks for packets and records: a program's thread that sleeps in the library,
    /// or the progress thread.
    pub(crate) bell: Arc<EventFd>,
}

impl Process {
    /// Joins the host, by the registry that `label` names.
    ///
    /// # Errors
    /// What the host's registry or memory say.
    pub(crate) fn join(label: String) -> Result<Self, Error> {
        let registry = Host::join(JoinOptions {
            label,
            ..Default::default()
        })?;
        let own = Arc::new(Segment::create("ferriband-process", PROC_LEN)?);
        own.commit(0, qp_offset(0))?;
        let me = registry.me();
        own.store(PROC_MAGIC, MAGIC, Release);
        own.store(
            PROC_IDENTITY,
            u64::from(me.slot) | u64::from(me.generation) << 32,
            Release,
        );
        Ok(Process {
            slot: me.slot,
            generation: me.generation,
            own,
            guid: registry.guid(),
            lid: registry.lid(),
            registry,
            marks: Marks::new(),
            waker: Arc::new(EventFd::new(false)?),
            bell: Arc::new(EventFd::new(false)?),
        })
    }
}
