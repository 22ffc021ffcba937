//! Messages that go by a place of the pair ([`crate::host::Pair`]), and not by the channel's block: a record of the channel says so in their turn.

use crate::host::{Pair, Source};
use crate::p2p::Target;
use crate::runtime::{Peer, Runtime};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind, PLACED, PLACED_BYTES, Placed};
use ferriband_mpi_proto::fast::Push;
use ferriband_mpi_proto::segment::PLACE;

impl Runtime {
    /// Whether a message of `length` bytes to `peer`, longer than what is sent unasked everywhere, fits into a place that is this rank's.
    #[inline]
    pub fn fits_place(&self, peer: u32, length: usize) -> bool {
        (self.settings.swap..=self.settings.eager_near.min(PLACE as usize)).contains(&length)
            && self.peers[peer as usize]
                .places
                .as_ref()
                .is_some_and(Pair::is_open)
    }

    /// Sends a message by a place. False if there is no room for the record, or no memory behind the place: then nothing has happened.
    #[inline(never)]
    pub fn store_placed(&mut self, to: &Target, source: Source) -> bool {
        let (Some(host), Some(entry)) = (&self.host, self.peers.get_mut(to.peer as usize)) else {
            return false;
        };
        let (Some(outlet), Some(places)) = (&mut entry.outlet, &mut entry.places) else {
            return false;
        };
        let Some(placed) = places.write(host, &source) else {
            return false;
        };
        let seq = entry.sent.wrapping_add(1);
        let credit = match entry.inlet {
            Some(inlet) => self.inlets[inlet as usize].inlet.report(),
            None => 0,
        };
        let envelope = Envelope {
            kind: Kind::Eager,
            flags: PLACED,
            seq,
            ack: entry.received,
            credit,
            tag: to.tag,
            context: to.context,
        };
        let sleeps = match outlet.place_of(PLACED_BYTES) {
            Some(place) => outlet.lay_bytes(&place, &envelope, &placed.emit()),
            // The block goes on at its end: that is a push's.
            None => {
                let mut record = [0; ENVELOPE + PLACED_BYTES];
                record[..ENVELOPE].copy_from_slice(&envelope.emit());
                record[ENVELOPE..].copy_from_slice(&placed.emit());
                if outlet.push(&record, seq, 0, Source::EMPTY) != Push::Stored {
                    return false;
                }
                outlet.sees_sleep()
            }
        };
        entry.sent = seq;
        places.given();
        if sleeps {
            host.ring(to.peer);
        }
        true
    }

    /// Where a message lies of which a record says that it lies in a place; none if that cannot be.
    #[cold]
    pub fn placed(&mut self, from: u32, record: &Source) -> Option<(Source, Placed)> {
        let host = self.host.as_ref()?;
        let peer = self.peers.get_mut(from as usize)?;
        if peer.places.is_none() {
            peer.places = host.pair(from);
        }
        peer.placed(record)
    }
}

impl Peer {
    /// The same, where the pair's places are known.
    #[inline(always)]
    pub fn placed(&self, record: &Source) -> Option<(Source, Placed)> {
        if record.len() != PLACED_BYTES {
            return None;
        }
        let mut word = [0; PLACED_BYTES];
        record.copy_into(&mut word);
        let placed = Placed::parse(word);
        Some((self.places.as_ref()?.read(placed)?, placed))
    }

    /// Such a message has been taken.
    #[inline]
    pub fn has_taken(&mut self, placed: Placed) {
        if let Some(places) = &mut self.places {
            places.taken(placed);
        }
    }
}
