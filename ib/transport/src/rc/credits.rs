//! The requester's side of end-to-end flow control: which messages the peer has receives for (IBA
//! 9.7.7.2).
//!
//! Owns the message numbers and the one packet that asks beyond the credits. Must not know requests
//! nor windows.

use ferriband_wire::{CreditCode, Msn, Psn};

/// Credits of one connection. Message numbers have 24 bits and wrap as PSNs do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credits {
    /// Message number given last.
    ssn: u32,
    /// The last message that the peer's credits allow.
    lsn: u32,
    /// The peer counts no credits.
    unlimited: bool,
    /// The one packet that was sent beyond the credits.
    probe: Option<Psn>,
}

impl Credits {
    /// None are known yet.
    pub fn new() -> Self {
        Credits {
            ssn: 0,
            lsn: 0,
            unlimited: false,
            probe: None,
        }
    }

    /// IBA 9.7.7.2: the limit is the MSN plus the credits. It never moves back: an old
    /// acknowledgement that comes late says less, not more.
    pub fn take(&mut self, credits: CreditCode, msn: Msn) {
        match credits.credits() {
            None => self.unlimited = true,
            Some(count) => {
                self.unlimited = false;
                let limit = Psn::new(msn.0).add(count);
                if limit.after(Psn::new(self.lsn)) {
                    self.lsn = limit.get();
                }
            }
        }
    }

    /// The number of the message that begins next.
    pub fn next_ssn(&self) -> u32 {
        Psn::new(self.ssn).next().get()
    }

    /// So many messages begin.
    pub fn begin(&mut self, messages: u32) {
        self.ssn = self.ssn.wrapping_add(messages) & (Psn::MODULUS - 1);
    }

    /// The peer counts no credits: every message finds a receive.
    pub fn are_unlimited(&self) -> bool {
        self.unlimited
    }

    /// The peer has a receive for message `ssn`.
    #[inline]
    pub fn cover(&self, ssn: u32) -> bool {
        self.unlimited || !Psn::new(ssn).after(Psn::new(self.lsn))
    }

    /// A packet beyond the credits is outstanding.
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// This packet goes beyond the credits.
    pub fn probe(&mut self, psn: Psn) {
        self.probe = Some(psn);
    }

    /// Everything before `una` is acknowledged.
    pub fn acknowledged(&mut self, una: Psn) {
        if self.probe.is_some_and(|probe| una.after(probe)) {
            self.probe = None;
        }
    }

    /// What was sent beyond the credits is sent again, or flushed.
    pub fn forget_probe(&mut self) {
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> CreditCode {
        CreditCode::from_credits(2)
    }

    #[test]
    fn the_limit_is_the_msn_plus_the_credits_and_never_moves_back() {
        let mut credits = Credits::new();
        credits.take(two(), Msn(5));
        assert!(credits.cover(7) && !credits.cover(8));
        credits.take(two(), Msn(3));
        assert!(credits.cover(7), "an old acknowledgement says less");
        credits.take(CreditCode::NONE, Msn(3));
        assert!(credits.cover(Psn::MODULUS / 4) && credits.are_unlimited());
    }

    #[test]
    fn message_numbers_wrap() {
        let mut credits = Credits::new();
        credits.begin(Psn::MODULUS - 1);
        assert_eq!(credits.next_ssn(), 0);
        credits.begin(2);
        assert_eq!(credits.next_ssn(), 2);
    }

    #[test]
    fn a_probe_is_outstanding_until_it_is_acknowledged() {
        let mut credits = Credits::new();
        credits.probe(Psn::new(4));
        credits.acknowledged(Psn::new(4));
        assert!(credits.is_probing());
        credits.acknowledged(Psn::new(5));
        assert!(!credits.is_probing());
    }
}
