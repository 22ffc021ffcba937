//! Receives as credits: no message is sent that finds none.
//!
//! Owns: how many messages may be sent, and how many receives the peer does not yet know to be
//! posted again. Must not know: what messages are.

/// Fewest receives of a side. With fewer, messages that give credits back would answer each other
/// without end.
pub const LEAST_RECEIVES: u16 = 8;

/// The credits of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credits {
    /// Receives of the peer's that nothing was sent to.
    have: u16,
    /// All receives of the peer.
    most: u16,
    /// Receives of this side that were posted again and that the peer was not told of.
    to_return: u16,
    /// All receives of this side.
    own: u16,
    /// Messages that were sent so far.
    spent: u64,
}

/// The peer gives back more than it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Surplus;

impl Credits {
    pub const fn new(own: u16, peer: u16) -> Credits {
        Credits {
            have: peer,
            most: peer,
            to_return: 0,
            own,
            spent: 0,
        }
    }

    /// Whether a message may be sent. The last credit is kept for one that gives credits back.
    pub const fn may_send(&self) -> bool {
        self.have > 1
    }

    /// Whether a message that only gives credits back is due.
    pub const fn must_return(&self) -> bool {
        self.to_return >= self.own / 2 && self.have > 0
    }

    /// Whether the peer has to look at what is sent now, lest messages that it is not told of take
    /// all of its receives.
    pub const fn presses(&self) -> bool {
        self.have <= self.most / 2
    }

    /// A message is sent. Returns what it says of receives that were posted again.
    pub const fn spend(&mut self) -> u16 {
        self.spend_without_word();
        let returned = self.to_return;
        self.to_return = 0;
        returned
    }

    /// A receive of the peer's is taken by what says nothing of this side's receives.
    pub const fn spend_without_word(&mut self) {
        self.have -= 1;
        self.spent += 1;
    }

    /// Messages that were sent so far.
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// How many of them, the first ones, the peer is known to have carried out: each gives one
    /// credit back.
    pub const fn carried_out(&self) -> u64 {
        self.spent - (self.most - self.have) as u64
    }

    /// A message came, and its receive is posted again.
    ///
    /// # Errors
    /// The peer has sent more than it had credits for.
    pub fn received(&mut self) -> Result<(), Surplus> {
        self.to_return += 1;
        if self.to_return > self.own {
            return Err(Surplus);
        }
        Ok(())
    }

    /// The peer gives credits back.
    ///
    /// # Errors
    /// They are more than were spent.
    pub fn take_back(&mut self, returned: u16) -> Result<(), Surplus> {
        let have = self.have.checked_add(returned).ok_or(Surplus)?;
        if have > self.most {
            return Err(Surplus);
        }
        self.have = have;
        Ok(())
    }

    /// How many messages of this side the peer has taken, of those that it did not know to be
    /// taken.
    #[cfg(test)]
    pub const fn out(&self) -> u16 {
        self.most - self.have
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_credit_gives_credits_back() {
        let mut credits = Credits::new(8, 8);
        for _ in 0..7 {
            assert!(credits.may_send());
            assert_eq!(credits.spend(), 0);
        }
        assert!(!credits.may_send() && !credits.must_return());
        for _ in 0..4 {
            credits.received().unwrap();
        }
        assert!(!credits.may_send() && credits.must_return());
        assert_eq!(credits.spend(), 4);
        assert_eq!(credits.out(), 8);
        assert_eq!(credits.take_back(9), Err(Surplus));
        credits.take_back(8).unwrap();
        assert!(credits.may_send());
    }

    #[test]
    fn a_peer_that_sends_without_credit_is_found() {
        let mut credits = Credits::new(8, 8);
        for _ in 0..8 {
            credits.received().unwrap();
        }
        assert_eq!(credits.received(), Err(Surplus));
    }
}
