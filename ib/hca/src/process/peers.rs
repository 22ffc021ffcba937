//! The peers of a process, and what they may map of it.
//!
//! Owns the list of channels, and how a region is handed out. Must not know regions of verbs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use ferriband_memory::Segment;
use ferriband_memory::mapping::SharedMapping;
use ferriband_transport::direct::layout::PAIR_LEN;

use crate::base::error::Error;
use crate::process::peer::{Peer, PeerLink};
use crate::process::process::Process;

/// Peers that are looked at in every round, itself among them.
const WATCHED_PEERS: usize = 8;

/// How peers can map a region.
#[derive(Debug)]
pub(crate) enum MapSource {
    /// One of our own segments.
    Segment(Arc<Segment>),
    /// A file of the program, and the length of the region.
    File(SharedMapping, u64),
    /// The region was deregistered.
    Gone,
}

/// The peers of a process.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Peers {
    /// The first peers, each looked at in every round; a dead one keeps its place while the device is open.
    pub(crate) watched: [OnceLock<PeerLink>; WATCHED_PEERS],
    /// There have been more: only those that set their pending bit are looked at.
    pub(crate) many: AtomicBool,
    /// Changes with the list of peers.
    pub(crate) version: AtomicU64,
    pub(crate) list: RwLock<Arc<Vec<PeerLink>>>,
    /// The process's channel to itself.
    pub(crate) own: PeerLink,
    pub(crate) maps: Mutex<BTreeMap<u32, MapSource>>,
    /// Which peers have mapped what.
    pub(crate) map_holders: Mutex<Vec<(u32, PeerLink)>>,
}

impl Peers {
    /// With the process's channel to itself, established from the start.
    ///
    /// # Errors
    /// What memory says.
    pub(crate) fn new(process: &Process) -> Result<Self, Error> {
        let pair = Arc::new(Segment::private(PAIR_LEN)?);
        let (slot, pid) = (process.slot, std::process::id());
        let peer = Peer::new(slot, slot, process.generation, pid);
        peer.establish(process.own.clone(), pair, process.bell.clone(), None);
        let own = PeerLink(Arc::new(peer));
        Ok(Peers {
            watched: [const { OnceLock::new() }; WATCHED_PEERS],
            many: AtomicBool::new(false),
            version: AtomicU64::new(next_version()),
            list: RwLock::new(Arc::new(vec![own.clone()])),
            own,
            maps: Mutex::default(),
            map_holders: Mutex::default(),
        })
    }
}

/// Versions of peer lists are unique over all engines of the process: 0 is none.
pub(crate) fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
