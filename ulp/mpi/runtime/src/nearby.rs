//! Long messages between ranks of a host, whose memory both sides can reach: who copies which part.
//!
//! The receiver reads. From `both_copy` bytes on it lets the sender write chunks from the end on, which happens in the sender's rounds of progress; a sender that does something
//! else is not waited for.

use crate::host::{self, Offer, Sink};
use crate::request::Work;
use crate::runtime::Runtime;
use std::io;

impl Runtime {
    /// A rank of this host is about to be told of the message of `request`: it may want help with it.
    pub fn offer_nearby(&mut self, request: u32) {
        let entry = &mut self.requests[request];
        if !is_joint(self.settings.both_copy, entry.source.len()) {
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
        let entry = &mut self.requests[request];
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

    /// Reads the message that `peer` calls `request`, at `address` there.
    pub fn read_nearby(
        &self,
        peer: u32,
        request: u64,
        address: u64,
        sink: &Sink,
    ) -> io::Result<()> {
        let Some(host) = &self.host else {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        };
        if !sink.has_gaps() && is_joint(self.settings.both_copy, sink.len()) {
            let offer = Offer {
                from: peer,
                request,
                address,
            };
            return host.fetch_jointly(offer, sink);
        }
        host::read_peer(host.pid(peer), address, sink)
    }

    /// Writes a chunk for a receiver that copies a message of this rank just now. True if there was one.
    #[cold]
    pub fn copy_nearby(&mut self) -> bool {
        let mut did = false;
        for at in 0..self.offered.len() {
            let (peer, _) = self.offered[at];
            let errand = self.host.as_ref().and_then(|host| host.errand(peer));
            let Some((errand, host)) = errand.zip(self.host.as_ref()) else {
                continue;
            };
            // What names no message of this rank is nobody's errand: the receiver then reads by itself.
            let Some(request) = self.named(errand.request, peer) else {
                continue;
            };
            let entry = &self.requests[request];
            if entry.work != Work::Rendezvous || !entry.offered {
                continue;
            }
            match host.run_errand(peer, &errand, &entry.source) {
                Ok(ran) => did |= ran,
                Err(error) => {
                    if let Some(libc::EPERM | libc::ENOSYS | libc::EACCES) = error.raw_os_error() {
                        self.settings.both_copy = None;
                        self.offered.clear();
                        break;
                    }
                }
            }
        }
        did
    }

    /// Whether a receiver would have this rank copy something.
    pub fn has_errand(&self) -> bool {
        self.host.as_ref().is_some_and(|host| {
            let mut offered = self.offered.iter();
            offered.any(|(peer, _)| host.errand(*peer).is_some())
        })
    }
}

fn is_joint(least: Option<u64>, length: usize) -> bool {
    least.is_some_and(|least| length as u64 >= least)
}
