//! Channels to other processes: who owns a number, and the channel to that process.
//!
//! Owns nothing. Must not know how a channel is established: the progress thread does that.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferriband_memory::host::ProcessRef;
use ferriband_transport::direct::Link;
use ferriband_wire::{Gid, Qpn};

use crate::base::error::Error;
use crate::process::peer::Peer;
use crate::qp::PeerLink;
use crate::qp::adapter::Adapter;

/// Descriptors that a channel takes at its beginning: the connection, and those that come or go by
/// it.
const CHANNEL_DESCRIPTORS: usize = 4;

impl Adapter {
    /// The channel to the process that owns a queue pair number; begun if there is none yet.
    pub(crate) fn link_to(&self, qpn: u32) -> Option<PeerLink> {
        self.process
            .registry
            .owner_of_qpn(Qpn(qpn))
            .map(|owner| self.link_to_process(owner))
    }

    /// Err if this process has too few descriptors left for a channel to the owner of a queue pair
    /// number. The channel is made by the progress thread, which could tell nobody of it, and
    /// requests would wait for descriptors.
    pub(crate) fn check_descriptors(&self, qpn: Qpn) -> Result<(), Error> {
        let Some(owner) = self.process.registry.owner_of_qpn(qpn) else {
            return Ok(());
        };
        let has_channel = |link: &PeerLink| {
            link.slot() == owner.slot && link.0.generation == owner.generation && link.ready()
        };
        let is_own = owner.slot == self.process.slot && owner.generation == self.process.generation;
        if is_own || self.peers.all().iter().any(has_channel) {
            return Ok(());
        }
        let Some(any) = self.process.own.fd() else {
            return Ok(());
        };
        let mut room = arrayvec::ArrayVec::<OwnedFd, CHANNEL_DESCRIPTORS>::new();
        while !room.is_full() {
            let copy = rustix::io::fcntl_dupfd_cloexec(any, 0);
            room.push(copy.map_err(|error| {
                Error::system("room for a channel's descriptors", error.raw_os_error())
            })?);
        }
        Ok(())
    }

    /// The channel to a process; begun if there is none yet.
    pub(crate) fn link_to_process(&self, process: ProcessRef) -> PeerLink {
        if process.slot == self.process.slot && process.generation == self.process.generation {
            return self.peers.own.clone();
        }
        let link = self.peer(process);
        if !link.ready() {
            self.process.waker.signal(1);
        }
        link
    }

    /// The peer object of a process; made if there is none.
    pub(crate) fn peer(&self, process: ProcessRef) -> PeerLink {
        let mut peers = self
            .peers
            .list
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = peers
            .iter()
            .find(|link| link.slot() == process.slot && link.0.generation == process.generation);
        if let Some(link) = known {
            return link.clone();
        }
        let link = crate::process::peer::PeerLink(Arc::new(Peer::new(
            self.process.slot,
            process.slot,
            process.generation,
            self.process
                .registry
                .member(process)
                .map_or(0, |member| member.identity.pid),
        )));
        let mut list = Vec::clone(&peers);
        // in order of their slots: pending bits are looked up
        let at = list.partition_point(|other| other.slot() < process.slot);
        list.insert(at, link.clone());
        *peers = Arc::new(list);
        self.peers.changed();
        drop(peers);
        self.peers.watch(&link);
        link
    }

    /// Every queue pair with work looks again.
    pub(crate) fn wake_senders(&self) {
        let qps = self
            .table
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        for qp in qps.into_iter().flatten() {
            self.schedule(&qp);
        }
    }

    /// Begins the channels to the members of a group: what is sent there goes at once, also from a
    /// queue pair that ends right after.
    pub(crate) fn meet_group(&self, mgid: &Gid) {
        let mut members = Vec::new();
        self.process.registry.multicast_members(mgid, &mut members);
        for member in members {
            self.link_to_process(member.process);
        }
    }
}
