//! How long messages can be had: what of the program's memory peers may reach, which ones, and by
//! which way. Must not know: how bytes move ([`super::long`], [`super::lane`]).

use super::errors::{class_of, unregistered};
use super::keys::Kept;
use super::memory::{Purpose, Reach, Reachable, Refusal};
use super::{Net, Reached};
use crate::constants::MPI_ERR_BUFFER;
use crate::ground::memory::{Sink, Source};
use crate::handle::Token;
use crate::transport::contract::{Offered, Place};
use crate::transport::limits::Rendezvous;
use ferriband_ibv::{Access, ErrorKind, VerbsError};

impl Net {
    /// How `peer` can have `source`, until [`Net::withdraw`].
    pub fn offer(&mut self, peer: u32, token: Token, source: Source) -> Offered {
        let otherwise = if source.address().is_some() {
            Offered::Whole
        } else {
            Offered::Parts
        };
        let puts = match self.limits.rendezvous {
            Rendezvous::Auto => self.goes_by_packets(peer),
            Rendezvous::Get => false,
            Rendezvous::Put | Rendezvous::Send => true,
        };
        if puts {
            return otherwise;
        }
        let purpose = self.purpose(peer);
        // One that cannot be read is found so again when its receiver asks for it, and then both
        // are told.
        let range = reach_source(self.reach_of(peer), source, purpose).unwrap_or(None);
        range.map_or(otherwise, |range| {
            let place = Place {
                address: range.address(),
                rkey: range.rkey(),
            };
            self.keep_offer(peer, token, range, Kept::Source);
            Offered::Readable(place)
        })
    }

    /// Memory that `token` names need not be reached any more.
    #[inline]
    pub fn withdraw(&mut self, token: Token) {
        self.moves.offers.remove(&token);
    }

    /// A range of `length` bytes at `start` as requests to and from `peer` may name it, or the
    /// class with which its message ends. Where the adapter has failed, the next one learns of the
    /// range when the queue pair of the next life is made ([`Net::move_keys`]): until then no
    /// request may name it.
    pub(super) fn made_known(
        &mut self,
        peer: u32,
        range: Result<Option<Reachable>, Refusal>,
        (start, length): (u64, u64),
    ) -> Result<Option<Reachable>, i32> {
        match range {
            Ok(range) => Ok(range),
            Err(Refusal::Unreachable) => Err(MPI_ERR_BUFFER),
            Err(Refusal::Device(error))
                if error.kind() == ErrorKind::DeviceGone && self.heals(peer) =>
            {
                self.leave_adapter(peer);
                Ok(Some(Reachable::unknown(start, length)))
            }
            Err(Refusal::Device(error)) => {
                self.say_of_memory(peer, length, &error);
                Err(class_of(error.errno()))
            }
        }
    }

    /// Says why a long message ends, once for each reason.
    #[cold]
    fn say_of_memory(&mut self, peer: u32, length: u64, error: &VerbsError) {
        if self.life.said_of_memory.replace(error.errno()) == Some(error.errno()) {
            return;
        }
        let why = unregistered(self.name_to(peer), length, error);
        let me = self.connect.me;
        complain!("ferriband MPI: rank {me}: a message to or from rank {peer} ends: {why}");
    }

    /// Whether `peer` is reached by packets that our own adapter makes.
    #[inline]
    pub(super) fn goes_by_packets(&self, peer: u32) -> bool {
        self.rails.common.makes_packets && self.purpose(peer) == Purpose::Stranger
    }

    /// Who may get a key for memory that `peer` shall reach.
    pub(super) fn purpose(&self, peer: u32) -> Purpose {
        match self.connect.reached[peer as usize] == Reached::Far {
            true => Purpose::Stranger,
            false => Purpose::Neighbor,
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
