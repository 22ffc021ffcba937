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
use crate::lock;
use crate::process::message::MSG_MAP_GONE;
use crate::process::peer::{MAX_MAPS, Peer, PeerLink};
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

/// The peers of a process, whose queue pairs are `Q`.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Peers<Q> {
    /// The first peers, each looked at in every round; a dead one keeps its place while the device
    /// is open.
    pub(crate) watched: [OnceLock<PeerLink<Q>>; WATCHED_PEERS],
    /// There have been more: only those that set their pending bit are looked at.
    pub(crate) many: AtomicBool,
    /// Changes with the list of peers.
    pub(crate) version: AtomicU64,
    pub(crate) list: RwLock<Arc<Vec<PeerLink<Q>>>>,
    /// The process's channel to itself.
    pub(crate) own: PeerLink<Q>,
    pub(crate) maps: Mutex<BTreeMap<u32, MapSource>>,
    /// Which peers have mapped what.
    pub(crate) map_holders: Mutex<Vec<(u32, PeerLink<Q>)>>,
}

impl<Q> Peers<Q> {
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

    /// Remembers how peers can map a region; 0 if no identifier is left.
    pub(crate) fn keep_mapping(&self, source: MapSource) -> u32 {
        let mut maps = lock(&self.maps);
        let id = (1..MAX_MAPS as u32)
            .find(|id| !maps.contains_key(id))
            .unwrap_or(0);
        if id != 0 {
            maps.insert(id, source);
        }
        id
    }

    /// The region behind an identifier is deregistered: peers that have mapped it are told to unmap
    /// it.
    pub(crate) fn forget_mapping(&self, id: u32) {
        if id == 0 {
            return;
        }
        let mut maps = lock(&self.maps);
        let mut holders = lock(&self.map_holders);
        if !holders.iter().any(|(held, _)| *held == id) {
            maps.remove(&id);
            return;
        }
        // the identifier is not given out again: a peer may still hold the mapping under it
        maps.insert(id, MapSource::Gone);
        let mut message = [0; 8];
        message[0] = MSG_MAP_GONE;
        message[4..].copy_from_slice(&id.to_le_bytes());
        for (_, link) in holders.extract_if(.., |(held, _)| *held == id) {
            if let Some(control) = lock(&link.0.control).as_ref() {
                // a peer that takes no more messages keeps the mapping until one of us ends
                let _ = control.send(&message, &[]);
            }
        }
    }

    pub(crate) fn all(&self) -> Arc<Vec<PeerLink<Q>>> {
        self.list
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Gives a new peer a place among those looked at in every round, if one is left.
    pub(crate) fn watch(&self, link: &PeerLink<Q>) {
        if !self
            .watched
            .iter()
            .any(|slot| slot.set(link.clone()).is_ok())
        {
            self.many.store(true, Ordering::Release);
        }
    }

    /// To be called with the list of peers locked, after it changed.
    pub(crate) fn changed(&self) {
        self.version.store(next_version(), Ordering::Release);
    }
}

/// Versions of peer lists are unique over all engines of the process: 0 is none.
fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
