//! Messages to ranks of this host: by the channel's block, or by a place of the pair
//! ([`crate::host::Pair`]), of which a record of the channel says so in their turn.
//!
//! Owns: what is stored, and when a channel is opened. Must not know: which request a message is
//! of.

use crate::constants::{MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER};
use crate::errors::{MpiError, Outcome};
use crate::host::{Inlet, Pair, Source};
use crate::loss::dead;
use crate::p2p::Target;
use crate::runtime::Runtime;
use crate::trace;
use crate::transport::contract::Head;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind, PLACED, PLACED_BYTES};
use ferriband_mpi_proto::fast::Push;
use ferriband_mpi_proto::segment::PLACE;

impl Runtime {
    /// Stores a short message of an untraced process to a rank of this host, where that takes
    /// nothing but the stores. False if it takes more: then nothing has happened.
    #[inline(always)]
    pub fn store(&mut self, to: &Target, source: Source) -> bool {
        let Some(entry) = self.shm.links.get_mut(to.peer as usize) else {
            return false;
        };
        let Some(outlet) = &mut entry.outlet else {
            return false;
        };
        if entry.is_held {
            return false;
        }
        if source.len() >= self.settings.sizes.swap
            && entry.places.as_ref().is_some_and(Pair::is_open)
            && source.len() <= PLACE as usize
        {
            return self.store_placed(to, source);
        }
        let Some(place) = outlet.place(&source) else {
            return false;
        };
        let seq = entry.sent.wrapping_add(1);
        entry.sent = seq;
        let credit = entry.inlet.as_mut().map_or(0, Inlet::report);
        let envelope = Envelope {
            kind: Kind::Eager,
            flags: 0,
            seq,
            ack: entry.received,
            credit,
            tag: to.tag,
            context: to.context,
        };
        if outlet.lay(&place, &envelope, &source)
            && let Some(host) = &self.host
        {
            host.ring(to.peer);
        }
        true
    }

    /// Whether a message of `length` bytes to `peer`, longer than what is sent eagerly everywhere,
    /// fits into a place that is this rank's.
    #[inline]
    pub fn fits_place(&self, peer: u32, length: usize) -> bool {
        (self.settings.sizes.swap..=self.settings.sizes.eager_near.min(PLACE as usize))
            .contains(&length)
            && self.shm.links[peer as usize]
                .places
                .as_ref()
                .is_some_and(Pair::is_open)
    }

    /// Sends a message by a place. False if there is no room for the record, or no memory behind
    /// the place: then nothing has happened.
    #[inline(never)]
    pub fn store_placed(&mut self, to: &Target, source: Source) -> bool {
        let (Some(host), Some(entry)) = (&self.host, self.shm.links.get_mut(to.peer as usize))
        else {
            return false;
        };
        let (Some(outlet), Some(places)) = (&mut entry.outlet, &mut entry.places) else {
            return false;
        };
        let Some(placed) = places.write(host, &source) else {
            return false;
        };
        let seq = entry.sent.wrapping_add(1);
        let credit = entry.inlet.as_mut().map_or(0, Inlet::report);
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

    /// Stores a message in the channel to `peer`, if there is room.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        peer: u32,
        what: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<bool> {
        if self.shm.links[peer as usize].outlet.is_none() {
            if self.point.peers[peer as usize].lost {
                return match what.kind {
                    Kind::Eager | Kind::Rts => Err(dead(peer)),
                    // Answers that nobody waits for.
                    _ => Ok(true),
                };
            }
            if self.point.peers[peer as usize].by_verbs {
                return self.post(peer, what, body, source);
            }
            self.open(peer)?;
        }
        let entry = &mut self.shm.links[peer as usize];
        let Some(outlet) = &mut entry.outlet else {
            return Ok(false);
        };
        let seq = entry.sent.wrapping_add(1);
        let credit = entry.inlet.as_mut().map_or(0, Inlet::report);
        let head = Envelope {
            kind: what.kind,
            flags: what.flags,
            seq,
            ack: entry.received,
            credit,
            tag: what.tag,
            context: what.context,
        }
        .emit();
        let length = source.len() as u32;
        let push = if body.is_empty() {
            outlet.push(&head, seq, length, source)
        } else {
            let mut whole = [0; ENVELOPE + 48];
            whole[..ENVELOPE].copy_from_slice(&head);
            whole[ENVELOPE..ENVELOPE + body.len()].copy_from_slice(body);
            outlet.push(&whole[..ENVELOPE + body.len()], seq, length, source)
        };
        match push {
            Push::Stored => {
                entry.sent = seq;
                if trace::is_on() {
                    let Head {
                        kind, tag, context, ..
                    } = *what;
                    trace::sent(peer, kind, seq, tag, context, body, source.len());
                }
                if let Some(host) = &self.host {
                    host.ring(peer);
                }
                Ok(true)
            }
            Push::NoCredit => Ok(false),
            Push::Busy => self.push_further(peer, what, body, source),
            Push::TooLong => Err(MpiError::with(
                MPI_ERR_INTERN,
                "a message is longer than a channel takes",
            )),
        }
    }

    /// The same where the block has no memory yet.
    #[cold]
    fn push_further(
        &mut self,
        peer: u32,
        what: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<bool> {
        if let (Some(host), Some(outlet)) = (&self.host, &mut self.shm.links[peer as usize].outlet)
        {
            host.extend(peer, outlet).map_err(|error| {
                MpiError::with(
                    MPI_ERR_NO_MEM,
                    format!("no memory for the channel to rank {peer}: {error}"),
                )
            })?;
        }
        self.push(peer, what, body, source)
    }

    #[cold]
    fn open(&mut self, peer: u32) -> Outcome {
        let Some(host) = &self.host else {
            return Err(MpiError::with(
                MPI_ERR_OTHER,
                format!("rank {peer} cannot be reached"),
            ));
        };
        let outlet = host.open(peer).map_err(|error| {
            MpiError::with(
                MPI_ERR_NO_MEM,
                format!("no memory for a channel to rank {peer}: {error}"),
            )
        })?;
        let places = self.shm.links[peer as usize]
            .places
            .take()
            .or_else(|| host.pair(peer));
        let entry = &mut self.shm.links[peer as usize];
        entry.outlet = Some(outlet);
        entry.places = places;
        Ok(())
    }
}
