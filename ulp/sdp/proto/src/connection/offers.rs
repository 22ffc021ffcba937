//! Zero copy, as the program and the transport see it: what a connection does with offers.
//!
//! Owns: the place of offers and answers among the other messages, and the queue pair that they go
//! by. Must not know: how far an offer is (`zero_copy.rs`).
//!
//! In *credit* and *ring* they go by the queue pair of the stream. In *nic* they go by the second
//! one, between whose messages and the bytes of the first there is no order. So SrcAvail says
//! there, in four bytes behind its header, at which position of the bytes that the source writes
//! the offer stands (modulo 2^32).

use super::pairs::Flight;
use super::work::{Head, Pair, ReadWork, SendWork, Violation, Work};
use super::zero_copy::{Offer, OfferState};
use super::{Connection, End, Flow};
use ferriband_sdp_wire::{Advert, Body, Message};

/// Bytes of the position behind SrcAvail.
const POSITION_BYTES: u32 = 4;

impl Connection {
    /// Whether the program's buffer may be offered: nothing else is, and the peer takes offers. In
    /// *nic* both sides have a second queue pair, by which its answers do not wait behind bytes
    /// that this side does not read.
    pub fn may_offer(&self) -> bool {
        let taken = !self.requests.is_buffered();
        let open = taken && self.over.is_none() && self.send.end == End::Open;
        let held_back = matches!(self.config.flow, Flow::Nic { .. }) && self.offers.is_none();
        open && self.offer.is_none() && !held_back
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
        self.stats.offers_read += u64::from(read > 0);
        Some(read)
    }

    /// Bytes that the peer offers as the next of its stream, while none of them are fetched.
    pub fn fetchable(&self) -> Option<u32> {
        let position = self.source.position();
        let all_read = self.receive.unread() == 0 && self.receive.arrived() == position;
        let next = self.over.is_none() && all_read;
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
        self.stats.bytes_fetched += u64::from(bytes);
        self.stats.fetches += u64::from(bytes > 0);
        Some(bytes)
    }

    /// What is left of the peer's offer is to come by messages.
    pub fn refuse_offer(&mut self) {
        self.source.refuse();
    }

    /// RDMA READ, and what answers the peer's offer.
    pub(super) fn poll_answer(&mut self) -> Option<Work> {
        if self.may_send_of_offers(0)
            && let Some(from) = self.source.next_read()
        {
            let pair = self.pair_of_offers();
            let id = self.under_way(pair, Flight::Read);
            return Some(Work::Read(ReadWork { pair, id, from }));
        }
        let answers = self.source.completed.is_some() || self.source.refused;
        if !answers || !self.may_send_of_offers(1) {
            return None;
        }
        if let Some(length_bytes) = self.source.completed.take() {
            return Some(self.send_of_offers(Body::RdmaRdCompl { length_bytes }));
        }
        self.source.refused = false;
        Some(self.send_of_offers(Body::SendSm))
    }

    /// What belongs to the stream that this side sends, behind all bytes of the send buffer.
    pub(super) fn poll_offer(&mut self) -> Option<Work> {
        let state = self.offer.as_ref()?.state;
        // a peer whose program does not read can be told that the offer is taken back
        let least = if state == OfferState::Wanted { 3 } else { 1 };
        if self.send.buffer.waiting() > 0 || !self.may_send_of_offers(least) {
            return None;
        }
        let position = self.send.buffer.position().to_be_bytes();
        let data = match self.pair_of_offers() {
            Pair::Stream => &[][..],
            Pair::Offers => &position,
        };
        let offer = self.offer.as_mut()?;
        let (next, body) = match state {
            OfferState::Wanted => {
                let advert = offer.advert;
                (OfferState::Sent, Body::SrcAvail { advert, data })
            }
            OfferState::CancelWanted => (OfferState::CancelSent, Body::SrcAvailCancel),
            _ => return None,
        };
        offer.state = next;
        Some(self.send_of_offers(body))
    }

    fn pair_of_offers(&self) -> Pair {
        match self.offers {
            Some(_) => Pair::Offers,
            None => Pair::Stream,
        }
    }

    /// Whether a message of zero copy, or a READ, may leave. By the queue pair of the stream it
    /// leaves the peer `least - 1` receives.
    fn may_send_of_offers(&self, least: u32) -> bool {
        match &self.offers {
            Some(offers) => offers.has_room(),
            None => self.may_control(least),
        }
    }

    fn send_of_offers(&mut self, body: Body<'_>) -> Work {
        let Some(offers) = &mut self.offers else {
            return self.control(body);
        };
        let header = offers.sequence.header(offers.posted());
        self.stats.messages_sent += 1;
        Work::Send(SendWork {
            pair: Pair::Offers,
            id: offers.flights.push(Flight::Control),
            head: Head::new(&Message { header, body }, 0),
            data: None,
        })
    }

    /// A message of the second queue pair.
    pub(super) fn receive_of_offers(
        &mut self,
        prefix: &[u8],
        length_bytes: u32,
    ) -> Result<(), Violation> {
        let offers = self.offers.as_mut().ok_or(Violation::Completion)?;
        offers.take()?;
        let (message, data_bytes) = Message::parse_prefix(prefix, length_bytes)?;
        offers.sequence.receive(&message.header)?;
        self.stats.messages_received += 1;
        let unexpected = Violation::Unexpected(message.body.mid());
        let arrived = self.receive.arrived();
        let position = match message.body {
            Body::SrcAvail { data, .. } => {
                let low: [u8; 4] = data.try_into().map_err(|_| Violation::Overrun {
                    room: POSITION_BYTES,
                    got: data_bytes,
                })?;
                self.position_of(u32::from_be_bytes(low))?
            }
            _ => arrived,
        };
        match self.receive_zero_copy(&message.body, 0, position)? {
            true => Ok(()),
            false => Err(unexpected),
        }
    }

    /// The position in the stream that comes; what leads there is under way at most.
    fn position_of(&self, low: u32) -> Result<u64, Violation> {
        let arrived = self.receive.arrived();
        let ahead = low.wrapping_sub(arrived as u32);
        let most = self.config.ring_bytes();
        if ahead > most {
            return Err(Violation::Position {
                got: low,
                from: arrived as u32,
                to: (arrived as u32).wrapping_add(most),
            });
        }
        Ok(arrived + u64::from(ahead))
    }

    /// A message of zero copy; true if it was one. `bytes` of the stream came in it; an offer
    /// follows the bytes up to `position`.
    pub(super) fn receive_zero_copy(
        &mut self,
        body: &Body<'_>,
        bytes: u32,
        position: u64,
    ) -> Result<bool, Violation> {
        let unexpected = Violation::Unexpected(body.mid());
        match body {
            Body::SrcAvail { advert, .. } if !self.peer_ended => {
                let left = advert.length_bytes.checked_sub(bytes).ok_or(unexpected)?;
                let advert = Advert {
                    length_bytes: left,
                    virtual_address: advert.virtual_address.wrapping_add(bytes.into()),
                    ..*advert
                };
                self.source.open(advert, position)?;
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
