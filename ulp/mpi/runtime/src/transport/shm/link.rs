//! The channels between this rank and another one of its host.
//!
//! Owns: both of them, the pair's places, and the numbers of the messages that go by them
//! ([`Link`]); all of them, and which are looked at when ([`Shm`]). Must not know: what a message
//! says.

use super::long::Long;
use super::open::Newcomers;
use super::{Pair, ReceivingEnd, SendingEnd};
use crate::transport::limits::SharedLimits;
use crate::transport::polling::Polling;

/// All ranks of this host that can be spoken to.
pub struct Shm {
    /// By rank in the world.
    pub links: Vec<Link>,
    /// Ranks that have opened a channel to this one, in that order.
    pub order: Vec<u32>,
    /// Which of them are looked at in each round.
    pub polling: Polling,
    /// Who else has opened one.
    pub newcomers: Newcomers,
    /// Long messages.
    pub long: Long,
}

/// The channels between this rank and another one of its host.
#[derive(Default)]
pub struct Link {
    /// The channel to it.
    pub sending: Option<SendingEnd>,
    /// Number of the last message to it.
    pub sent: u32,
    /// Number of the last message from it.
    pub received: u32,
    /// Messages to it wait for room: none may overtake them.
    pub is_held: bool,
    /// Bytes of the shortest and the longest message that goes by a place if there is one.
    pub exchange: (usize, usize),
    /// The channel from it.
    pub receiving: Option<ReceivingEnd>,
    /// The places by which messages are exchanged with it.
    pub places: Option<Pair>,
}

impl Shm {
    /// Of `ranks` in the world; none has been spoken to. The shortest and the longest message that
    /// goes by a place of the pair, if there is one, have `exchange` bytes.
    pub fn new(ranks: u32, exchange: (usize, usize), limits: SharedLimits) -> Self {
        let link = |_| Link {
            exchange,
            ..Link::default()
        };
        Self {
            links: (0..ranks).map(link).collect(),
            order: Vec::new(),
            polling: Polling::new(),
            newcomers: Newcomers::default(),
            long: Long::new(limits),
        }
    }

    /// What is there for a rank of the world.
    #[inline]
    pub fn link(&mut self, rank: u32) -> &mut Link {
        &mut self.links[rank as usize]
    }

    /// The one of the channels to this rank that is looked at in this round besides those in use.
    #[inline]
    pub fn next_in_turn(&mut self) -> Option<u32> {
        let turn = self.polling.next(self.order.len())?;
        self.order.get(turn as usize).copied()
    }

    /// Whether something lies in a channel to this rank, or its sender has to be told of room.
    pub fn has_work(&self) -> bool {
        let mut links = self.order.iter().map(|rank| &self.links[*rank as usize]);
        links.any(Link::has_work)
    }
}

impl Link {
    /// Whether there is something to look at, as [`ReceivingEnd::poll`] says.
    #[inline(always)]
    pub fn poll(&mut self) -> bool {
        self.receiving.as_mut().is_some_and(ReceivingEnd::poll)
    }

    /// Whether there is something to look at.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.receiving.as_ref().is_some_and(ReceivingEnd::is_ready)
    }

    /// Whether there is something to look at, or the sender has to be told of room.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.receiving
            .as_ref()
            .is_some_and(|receiving| receiving.is_ready() || receiving.owes_relief())
    }

    /// Tells a sender that waits for room what it has not been told. True if it was told something.
    pub fn relieve(&mut self) -> bool {
        let ack = self.received;
        self.receiving
            .as_mut()
            .is_some_and(|receiving| receiving.relieve(ack))
    }

    /// Credit for an envelope that goes to the sender.
    #[inline(always)]
    pub fn report(&mut self) -> u32 {
        self.receiving.as_mut().map_or(0, ReceivingEnd::report)
    }

    /// Messages to this rank wait for room, or no longer.
    pub fn hold(&mut self, waits: bool) {
        self.is_held = waits;
        if let Some(sending) = &mut self.sending
            && !waits
        {
            sending.starve(false);
        }
    }

    /// Messages wait for credit of this rank. True if it is to be rung, so that it gives some: none
    /// has just come.
    pub fn starve(&mut self) -> bool {
        let sending = self.sending.as_mut();
        sending.is_some_and(|sending| sending.starve(true))
    }

    /// Whether credit has come that nobody has seen.
    pub fn has_news(&self) -> bool {
        let sending = self.sending.as_ref();
        sending.is_some_and(SendingEnd::has_news)
    }

    /// The last message from this rank: nothing more is sent to it.
    pub fn lose(&mut self) {
        self.sending = None;
        self.is_held = false;
    }
}
