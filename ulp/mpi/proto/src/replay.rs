//! Which acknowledgements go alone; and the log of what is not acknowledged, which is
//! `ferriband-heal`'s.

pub use ferriband_heal::kept::{Held, Kept as Replay, Unit as Kept};

/// An acknowledgement goes alone after so many messages: where these are short, what returns the credit of a block comes first and carries it,
const MESSAGES: u32 = 256;
/// or after so many bytes.
const BYTES: u32 = 64 << 10;
/// The peer has asked for one.
const ASKED: u32 = u32::MAX;

/// What a receiver has taken from one peer since it last told it so.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingAck {
    messages: u32,
    bytes: u32,
}

impl PendingAck {
    /// A message of `length` bytes has been taken. True if an acknowledgement must go alone.
    #[inline]
    pub fn take(&mut self, length: u32) -> bool {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(length);
        self.is_due()
    }

    /// Whether an acknowledgement must go alone, unless something else goes first.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.messages >= MESSAGES || self.bytes >= BYTES
    }

    /// The peer is told.
    #[inline]
    pub fn told(&mut self) {
        *self = Self::default();
    }

    /// The peer has asked for an acknowledgement, and may sleep until it comes.
    pub fn ask(&mut self) {
        self.bytes = ASKED;
    }

    /// Whether it has, and is not told.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.bytes == ASKED
    }

    /// The peer is told, in a way that does not wake it.
    #[inline]
    pub fn told_silently(&mut self) {
        if !self.is_asked() {
            self.told();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_goes_alone_after_many_messages_or_bytes() {
        let mut pending = PendingAck::default();
        assert!((1..MESSAGES).all(|_| !pending.take(8)));
        assert!(pending.take(8));
        pending.told();
        assert!(!pending.take(BYTES / 2) && pending.take(BYTES / 2));
    }

    #[test]
    fn who_has_asked_is_not_told_without_being_woken() {
        let mut pending = PendingAck::default();
        pending.take(8);
        pending.ask();
        assert!(pending.is_asked() && pending.is_due() && pending.take(8));
        pending.told_silently();
        assert!(pending.is_asked() && pending.is_due());
        pending.told();
        assert!(!pending.is_asked() && !pending.is_due());
        pending.take(BYTES);
        pending.told_silently();
        assert!(!pending.is_due());
    }
}
