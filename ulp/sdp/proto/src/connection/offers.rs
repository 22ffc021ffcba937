//! Zero copy, as the program and the transport see it: what a connection does with offers.
//!
//! Owns: the place of offers and answers among the other messages. Must not know: how far an offer
//! is (`zero_copy.rs`).

use super::work::{ReadWork, Violation, Work};
use super::zero_copy::{Offer, OfferState};
use super::{Connection, End, Flight, Flow};
use ferriband_sdp_wire::{Advert, Body};

impl Connection {
    /// Whether the program's buffer may be offered: nothing else is, the peer takes offers, and its
    /// answers do not wait behind bytes that this side does not read (in *nic* they would).
    pub fn may_offer(&self) -> bool {
        let taken = !self.requests.is_buffered();
        let open = taken && self.over.is_none() && self.send.end == End::Open;
        open && self.offer.is_none() && !matches!(self.config.flow, Flow::Nic { .. })
    }

    /// Offers a buffer of the program: its bytes follow those that were given so far. Until
    /// [`Connection::take_offer`] says that the peer reads no more, the buffer stays as it is and
    /// the program gives nothing else.
    ///
    /// # Panics
    /// If [`Connection::may_offer`] is false or the buffer is empty: a fault of the caller.
    pub fn offer(&mut self, advert: Advert) {
        assert!(
            self.may_offer() && advert.length_bytes > 0,
            "no offer may be made"
        );
        self.push();
        self.offer = Some(Offer::new(advert));
    }

    /// The program waits no longer: the peer is asked to read no more.
    pub fn cancel_offer(&mut self) {
        if let Some(offer) = &mut self.offer {
            offer.cancel();
        }
    }

    /// How many of the offered bytes the peer has read, once it reads no more; the offer is over
    /// then. What it has not read is to be given anew.
    pub fn take_offer(&mut self) -> Option<u32> {
        let read = self.offer.as_ref().and_then(Offer::over)?;
        self.offer = None;
        self.stats.bytes_sent += u64::from(read);
        self.stats.bytes_offered += u64::from(read);
        Some(read)
    }

    /// Bytes that the peer offers as the next of its stream, while none of them are fetched.
    pub fn fetchable(&self) -> Option<u32> {
        let next = self.over.is_none() && self.receive.unread() == 0;
        self.source.readable().filter(|_| next)
    }

    /// Reads the first `bytes` of the peer's offer into the program's buffer, which the driver
    /// knows and which stays until [`Connection::take_fetched`].
    ///
    /// # Panics
    /// If fewer are fetchable: a fault of the caller.
    pub fn fetch(&mut self, bytes: u32) {
        let most = self.fetchable().unwrap_or(0);
        assert!(
            (1..=most).contains(&bytes),
            "{bytes} bytes of {most} fetched"
        );
        self.source.fetch(bytes);
    }

    /// How many bytes the last fetch has brought, once it is over; none if the peer has taken its
    /// offer back before.
    pub fn take_fetched(&mut self) -> Option<u32> {
        let bytes = self.source.take_fetched()?;
        self.stats.bytes_received += u64::from(bytes);
        Some(bytes)
    }

    /// What is left of the peer's offer is to come by messages.
    pub fn refuse_offer(&mut self) {
        self.source.refuse();
    }

    /// RDMA READ, and what answers the peer's offer.
    pub(super) fn poll_answer(&mut self) -> Option<Work> {
        if self.may_control(0)
            && let Some(from) = self.source.next_read()
        {
            let id = self.under_way(Flight::Read);
            return Some(Work::Read(ReadWork { id, from }));
        }
        let answers = self.source.completed.is_some() || self.source.refused;
        if !answers || !self.may_control(1) {
            return None;
        }
        if let Some(length_bytes) = self.source.completed.take() {
            return Some(self.control(Body::RdmaRdCompl { length_bytes }));
        }
        self.source.refused = false;
        Some(self.control(Body::SendSm))
    }

    /// What belongs to the stream that this side sends, behind all bytes of the send buffer.
    pub(super) fn poll_offer(&mut self) -> Option<Work> {
        let state = self.offer.as_ref()?.state;
        // a peer whose program does not read can be told that the offer is taken back
        let least = if state == OfferState::Wanted { 3 } else { 2 };
        if self.send.buffer.waiting() > 0 || !self.may_control(least) {
            return None;
        }
        let offer = self.offer.as_mut()?;
        let (next, body) = match state {
            OfferState::Wanted => {
                let advert = offer.advert;
                (OfferState::Sent, Body::SrcAvail { advert, data: &[] })
            }
            OfferState::CancelWanted => (OfferState::CancelSent, Body::SrcAvailCancel),
            _ => return None,
        };
        offer.state = next;
        Some(self.control(body))
    }

    /// A message of zero copy; true if it was one. `bytes` of the stream came in it.
    pub(super) fn receive_zero_copy(
        &mut self,
        body: &Body<'_>,
        bytes: u32,
    ) -> Result<bool, Violation> {
        let unexpected = Violation::Unexpected(body.mid());
        match body {
            Body::SrcAvail { advert, .. } if !self.peer_ended => {
                let left = advert.length_bytes.checked_sub(bytes).ok_or(unexpected)?;
                self.source.open(Advert {
                    length_bytes: left,
                    virtual_address: advert.virtual_address.wrapping_add(bytes.into()),
                    ..*advert
                })?;
            }
            Body::SrcAvailCancel => self.source.refuse(),
            Body::RdmaRdCompl { length_bytes } => {
                self.offer
                    .as_mut()
                    .ok_or(unexpected)?
                    .was_read(*length_bytes)?;
            }
            Body::SendSm => self.offer.as_mut().ok_or(unexpected)?.was_refused()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
