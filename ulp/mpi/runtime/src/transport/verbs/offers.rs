//! How long messages can be had: what of the program's memory peers may reach, which ones, and by
//! which way. Must not know: how bytes move ([`super::long`], [`super::lane`]).

use super::memory::{Purpose, Reach, Reachable, Refusal};
use crate::host::{Sink, Source};
use crate::net::limits::Rendezvous;
use crate::runtime::Runtime;
use crate::transport::contract::{Offered, Place};
use ferriband_ibv::Access;

impl Runtime {
    /// How `peer` can have `source`, until its request is over.
    pub fn offer(&mut self, peer: u32, request: u32, source: Source) -> Offered {
        let purpose = self.purpose(peer);
        let otherwise = if source.address().is_some() {
            Offered::Whole
        } else {
            Offered::Parts
        };
        let puts = match self.settings.verbs.rendezvous {
            Rendezvous::Auto => self.goes_by_packets(peer),
            Rendezvous::Get => false,
            Rendezvous::Put | Rendezvous::Send => true,
        };
        let Some(net) = self.net.as_mut().filter(|_| !puts) else {
            return otherwise;
        };
        // One that cannot be read is found so again when its receiver asks for it, and then both
        // are told.
        let range = reach_source(&mut net.moves.reach, source, purpose).unwrap_or(None);
        range.map_or(otherwise, |range| {
            let place = Place {
                address: range.address(),
                rkey: range.rkey(),
            };
            net.moves.offers.insert(request, range);
            Offered::Readable(place)
        })
    }

    /// A request's memory need not be reached any more.
    #[inline]
    pub fn withdraw(&mut self, request: u32) {
        self.withdraw_nearby(request);
        if let Some(net) = &mut self.net {
            net.moves.offers.remove(&request);
        }
    }

    /// Whether `peer` is reached by packets that our own adapter makes.
    #[inline]
    pub(super) fn goes_by_packets(&self, peer: u32) -> bool {
        self.net
            .as_ref()
            .is_some_and(|net| net.device.makes_packets)
            && self.purpose(peer) == Purpose::Stranger
    }

    /// Who may get a key for memory that `peer` shall reach.
    pub(super) fn purpose(&self, peer: u32) -> Purpose {
        let is_neighbor = self
            .host
            .as_ref()
            .is_some_and(|host| host.host_of(peer) == host.host_of(host.me()));
        if is_neighbor {
            Purpose::Neighbor
        } else {
            Purpose::Stranger
        }
    }
}

/// Lets requests read `source`; none if it is no one range.
pub fn reach_source(
    reach: &mut Reach,
    source: Source,
    purpose: Purpose,
) -> Result<Option<Reachable>, Refusal> {
    source
        .address()
        .map(|address| reach.range(address, source.len(), Access::REMOTE_READ, purpose))
        .transpose()
}

/// Lets requests write to `sink`; none if it is no one range.
pub fn reach_sink(
    reach: &mut Reach,
    sink: Sink,
    purpose: Purpose,
) -> Result<Option<Reachable>, Refusal> {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    sink.pointer()
        .map(|start| reach.range(start.addr() as u64, sink.len(), access, purpose))
        .transpose()
}
