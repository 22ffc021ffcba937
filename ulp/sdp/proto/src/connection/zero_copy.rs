//! Zero copy by RDMA READ: the source offers a buffer of its program (SrcAvail), the sink reads it
//! into a buffer of its own and says so (RdmaRdCompl), or asks for the rest by messages (SendSm).
//!
//! Owns: the two ends of one offer for each direction. Must not know: whose memory the buffers are,
//! and when an offer is worth it.

use super::work::Violation;
use ferriband_sdp_wire::{Advert, Mid};

/// The offer of this side, in the stream that it sends. One at a time: combined mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    pub advert: Advert,
    /// Bytes that the peer has read.
    read: u32,
    pub state: OfferState,
}

/// How far an offer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OfferState {
    /// SrcAvail is to be sent.
    Wanted,
    /// SrcAvail was sent.
    Sent,
    /// SrcAvailCancel is to be sent; then it was, and the peer answers.
    CancelWanted,
    CancelSent,
    /// The peer reads no more.
    Over,
}

impl Offer {
    pub fn new(advert: Advert) -> Self {
        Offer {
            advert,
            read: 0,
            state: OfferState::Wanted,
        }
    }

    pub fn cancel(&mut self) {
        self.state = match self.state {
            OfferState::Wanted => OfferState::Over,
            OfferState::Sent => OfferState::CancelWanted,
            other => other,
        };
    }

    /// Bytes that the peer has read, once it reads no more.
    pub fn over(&self) -> Option<u32> {
        (self.state == OfferState::Over).then_some(self.read)
    }

    fn is_open(&self) -> bool {
        !matches!(self.state, OfferState::Wanted | OfferState::Over)
    }

    /// RdmaRdCompl.
    pub fn was_read(&mut self, bytes: u32) -> Result<(), Violation> {
        let room = self.advert.length_bytes - self.read;
        if !self.is_open() {
            return Err(Violation::Unexpected(Mid::RdmaRdCompl));
        }
        if bytes == 0 || bytes > room {
            return Err(Violation::Overrun { room, got: bytes });
        }
        self.read += bytes;
        if bytes == room {
            self.state = OfferState::Over;
        }
        Ok(())
    }

    /// SendSm.
    pub fn was_refused(&mut self) -> Result<(), Violation> {
        if !self.is_open() {
            return Err(Violation::Unexpected(Mid::SendSm));
        }
        self.state = OfferState::Over;
        Ok(())
    }
}

/// The peer's offer, in the stream that this side receives, and the answers to it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Source {
    /// What is left of it.
    advert: Option<Advert>,
    /// It follows the bytes of the stream up to here, of those that come by messages and RDMA
    /// WRITEs.
    position: u64,
    /// Bytes that an RDMA READ brings.
    reading: Option<Reading>,
    /// The peer takes it back, or the program wants the rest by messages.
    ends: bool,
    /// Bytes that the program has not been told of.
    fetched: Option<u32>,
    /// Answers to be sent: bytes read, and SendSm behind it.
    pub completed: Option<u32>,
    pub refused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    Wanted(u32),
    UnderWay(u32),
}

impl Source {
    /// SrcAvail, without the bytes that came in it.
    pub fn open(&mut self, advert: Advert, position: u64) -> Result<(), Violation> {
        if self.advert.is_some() || self.refused {
            return Err(Violation::Unexpected(Mid::SrcAvail));
        }
        self.advert = (advert.length_bytes > 0).then_some(advert);
        self.position = position;
        self.ends = false;
        if self.advert.is_none() {
            // all of it came in the message
            self.completed = Some(0);
        }
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.advert.is_some() || self.refused
    }

    /// Where in the stream the offer stands that is open, or was last.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that the program may read.
    pub fn readable(&self) -> Option<u32> {
        let free = self.reading.is_none() && self.fetched.is_none() && !self.ends;
        let advert = self.advert.filter(|_| free)?;
        Some(advert.length_bytes)
    }

    pub fn fetch(&mut self, bytes: u32) {
        self.reading = Some(Reading::Wanted(bytes));
    }

    /// The RDMA READ that is to be posted, which is under way from here on.
    pub fn next_read(&mut self) -> Option<Advert> {
        let (Some(Reading::Wanted(bytes)), Some(advert)) = (self.reading, self.advert) else {
            return None;
        };
        self.reading = Some(Reading::UnderWay(bytes));
        Some(Advert {
            length_bytes: bytes,
            ..advert
        })
    }

    /// The READ has completed.
    pub fn complete(&mut self) {
        let Some(Reading::UnderWay(bytes)) = self.reading.take() else {
            return;
        };
        self.fetched = Some(bytes);
        self.completed = Some(self.completed.unwrap_or(0) + bytes);
        if let Some(advert) = &mut self.advert {
            advert.virtual_address += u64::from(bytes);
            advert.length_bytes -= bytes;
            if advert.length_bytes == 0 {
                self.advert = None;
            }
        }
        self.end();
    }

    /// The program wants the rest by messages, or the peer takes it back. Without an offer this
    /// does nothing: it is over, and the answer is under way.
    pub fn refuse(&mut self) {
        self.ends = self.advert.is_some();
        self.end();
    }

    fn end(&mut self) {
        if self.ends && !matches!(self.reading, Some(Reading::UnderWay(_))) {
            if self.reading.take().is_some() {
                // the READ was not posted
                self.fetched = Some(0);
            }
            self.refused = self.advert.take().is_some();
            self.ends = false;
        }
    }

    /// Bytes that the last fetch has brought, once.
    pub fn take_fetched(&mut self) -> Option<u32> {
        self.fetched.take()
    }
}
