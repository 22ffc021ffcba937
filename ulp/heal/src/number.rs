//! Numbers that wrap: of messages, of lives, of places in tables; and what one side tells the
//! other.

/// A time, in nanoseconds of any clock that does not go back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ns(pub u64);

impl Ns {
    /// The time `ns` later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds since `then`, 0 if that is still to come.
    pub const fn since(self, then: Self) -> u64 {
        self.0.saturating_sub(then.0)
    }
}

/// Number of a message. It wraps at 2^32, so it has no order, only a distance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Number(pub u32);

impl Number {
    /// The number behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The number before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// How far this number is behind `other`, modulo 2^32.
    pub const fn since(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }

    /// Whether this number comes before `other`: they are less than 2^31 apart.
    pub const fn is_before(self, other: Self) -> bool {
        self.0 != other.0 && other.0.wrapping_sub(self.0) < 1 << 31
    }
}

/// Number of a life of a connection. It wraps at 2^32; 0 stands for no life, and comes before all
/// others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Epoch(pub u32);

impl Epoch {
    /// No life.
    pub const NONE: Self = Self(0);

    /// The number behind this one; never 0.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(if self.0 == u32::MAX { 1 } else { self.0 + 1 })
    }

    /// Whether it stands for no life.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this life comes behind `other`.
    pub const fn is_after(self, other: Self) -> bool {
        self.0 != 0 && (other.0 == 0 || self.0.wrapping_sub(other.0).cast_signed() > 0)
    }
}

/// Place of an adapter in its process's card, below 4. It stays when the adapter is opened again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AdapterId(pub u8);

/// Place of a path among those to a peer, below 32, until the paths are read anew.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathId(pub u8);

/// What one side tells the other at a heal. This crate makes one only in
/// [`crate::Session::fenced`] and from a datagram of the peer, so that no word is told before the
/// fence (law H1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word {
    pub(crate) expected: Number,
    pub(crate) sent: Number,
    pub(crate) landed: u32,
    pub(crate) keys: u16,
}

impl Word {
    /// Number of the next message that is wanted.
    pub const fn expected(&self) -> Number {
        self.expected
    }

    /// The last number that was given to a message before the keys became those of generation
    /// [`Self::keys`]: what keys were told up to there are void once that is new.
    pub const fn sent(&self) -> Number {
        self.sent
    }

    /// Number of the last landing of the lane, 0 if there was none.
    pub const fn landed(&self) -> u32 {
        self.landed
    }

    /// Generation of the keys of who tells it.
    pub const fn keys(&self) -> u16 {
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap() {
        assert!(Number(u32::MAX).is_before(Number(0)));
        assert!(!Number(0).is_before(Number(u32::MAX)));
        assert!(!Number(7).is_before(Number(7)));
        assert_eq!(Number(3).since(Number(u32::MAX)), 4);
    }

    #[test]
    fn no_life_comes_before_all_others_and_is_never_next() {
        assert_eq!(Epoch(u32::MAX).next(), Epoch(1));
        assert!(Epoch(1).is_after(Epoch(u32::MAX)) && !Epoch(u32::MAX).is_after(Epoch(1)));
        for epoch in [1, 1 << 31, u32::MAX].map(Epoch) {
            assert!(epoch.is_after(Epoch::NONE) && !Epoch::NONE.is_after(epoch));
        }
        assert!(!Epoch(5).is_after(Epoch(5)));
    }
}
