//! Long messages between ranks of a host ([`crate::transport::shm::long`] says who copies which
//! part).
//!
//! Owns: which ranks may want help with which messages. Must not know: what is said about a
//! message.

use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_PROC_ABORTED};
use crate::handle::NOBODY;
use crate::host::{self, Offer, Sink};
use crate::request::Work;
use crate::runtime::Runtime;
use crate::transport::contract::{Fetch, Fetched};
use crate::transport::shm::long::{LARGE_PIECE, is_joint};
use crate::transport::shm::ways::Way;
use std::io;
use std::time::Instant;

impl Runtime {
    /// A rank of this host is about to be told of the message of `request`: it may want help with
    /// it.
    pub fn offer_nearby(&mut self, request: u32) {
        let entry = &mut self.point.requests[request];
        if !is_joint(self.settings.shm.both_copy, entry.source.len()) {
            return;
        }
        entry.offered = true;
        let peer = entry.peer;
        match self.offered.iter_mut().find(|(rank, _)| *rank == peer) {
            Some((_, count)) => *count += 1,
            None => self.offered.push((peer, 1)),
        }
    }

    /// The message of `request` is over, or was never begun.
    pub fn withdraw_nearby(&mut self, request: u32) {
        let entry = &mut self.point.requests[request];
        if !std::mem::take(&mut entry.offered) {
            return;
        }
        let peer = entry.peer;
        if let Some(at) = self.offered.iter().position(|(rank, _)| *rank == peer) {
            self.offered[at].1 -= 1;
            if self.offered[at].1 == 0 {
                self.offered.swap_remove(at);
            }
        }
    }

    /// Tells the other ranks of this host whether the program waits in MPI, while they may want
    /// long messages of it: they come at once then if they are asked for in pieces.
    #[cold]
    pub fn say_it_waits(&self, waits: bool) {
        if let Some(host) = &self.host {
            host.set_waits(waits);
        }
    }

    /// How a message of `peer` comes, some bytes, that has met its receive: it is read, or comes in
    /// pieces.
    pub fn fetch_near(&mut self, peer: u32, what: &Fetch) -> Fetched {
        let place = what.offered.place();
        let Some(place) = place.filter(|_| self.settings.shm.reads_peers) else {
            return Fetched::Parts;
        };
        let sink = &what.sink;
        self.pages.note(sink.address(), sink.len());
        let way = self.pick_way(peer, sink);
        if way == Some(Way::Pieces) {
            self.ways.asked();
            return Fetched::Parts;
        }
        let timed = way.is_some();
        let read = self.read_nearby((peer, what.send, place.address), sink, timed);
        let Err(error) = read else {
            return Fetched::Here;
        };
        match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => {
                self.settings.shm.reads_peers = false;
                if timed {
                    self.ways.asked();
                }
                Fetched::Parts
            }
            Some(libc::ESRCH) => Fetched::Failed(MPI_ERR_PROC_ABORTED),
            _ => Fetched::Failed(MPI_ERR_BUFFER),
        }
    }

    /// Which way a message of `peer` had better come while this program waits; none if there is no
    /// choice: it is read.
    fn pick_way(&mut self, peer: u32, sink: &Sink) -> Option<Way> {
        let host = self.host.as_ref()?;
        let may = !sink.has_gaps()
            && self.point.requests.waits.awaited != NOBODY
            && is_joint(self.settings.shm.both_copy, sink.len())
            && host.longest() >= LARGE_PIECE
            && host.waits(peer);
        may.then(|| self.ways.pick(sink.len() as u64))
    }

    /// Reads the message that `peer` calls `request`, at `address` there; `timed` if it might have
    /// come in pieces.
    fn read_nearby(
        &mut self,
        (peer, request, address): (u32, u64, u64),
        sink: &Sink,
        timed: bool,
    ) -> io::Result<()> {
        let Some(host) = &self.host else {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        };
        let since = timed.then(Instant::now);
        if !sink.has_gaps() && is_joint(self.settings.shm.both_copy, sink.len()) {
            let offer = Offer {
                from: peer,
                request,
                address,
            };
            host.fetch_jointly(offer, sink)?;
        } else {
            host::read_peer(host.pid(peer), address, sink)?;
        }
        if let Some(since) = since {
            self.ways.read(sink.len() as u64, since);
        }
        Ok(())
    }

    /// Writes a chunk for a receiver that copies a message of this rank just now. True if there was
    /// one.
    #[cold]
    pub fn copy_nearby(&mut self) -> bool {
        let mut did = false;
        for at in 0..self.offered.len() {
            let (peer, _) = self.offered[at];
            let copy_request = self.host.as_ref().and_then(|host| host.copy_request(peer));
            let Some((copy_request, host)) = copy_request.zip(self.host.as_ref()) else {
                continue;
            };
            // What names no message of this rank is nobody's to copy: the receiver then reads by
            // itself.
            let Some(request) = self.point.requests.named(copy_request.request, peer) else {
                continue;
            };
            let entry = &self.point.requests[request];
            if entry.work != Work::Rendezvous || !entry.offered {
                continue;
            }
            match host.copy_as_requested(peer, &copy_request, &entry.source) {
                Ok(ran) => did |= ran,
                Err(error) => {
                    if let Some(libc::EPERM | libc::ENOSYS | libc::EACCES) = error.raw_os_error() {
                        self.settings.shm.both_copy = None;
                        self.offered.clear();
                        break;
                    }
                }
            }
        }
        did
    }

    /// Whether a receiver would have this rank copy something.
    pub fn has_copy_request(&self) -> bool {
        self.host.as_ref().is_some_and(|host| {
            let mut offered = self.offered.iter();
            offered.any(|(peer, _)| host.copy_request(*peer).is_some())
        })
    }
}
