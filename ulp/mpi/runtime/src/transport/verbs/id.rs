//! Identifiers of requests, by which their completions say what they are about.
//!
//! Owns: where kind, life and number lie in one. A request to a peer has the life of the connection
//! in it, so that a completion of an old life is known by one comparison with [`Wire::id`].
//!
//! [`Wire::id`]: super::link::Wire::id

/// Where the kind begins; below it the life, 24 bits of it.
const KIND: u32 = 56;
/// Where the life begins; below it a rank or an index.
const LIFE: u32 = 32;
const LIVES: u64 = 1 << (KIND - LIFE);

/// What a request's identifier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// Receive buffer.
    Receive(u32),
    /// Buffer of a datagram at this port.
    Datagram(u8, u32),
    /// A datagram of this process, by this port.
    Sent(u8),
    /// A request to this rank.
    Peer(u32),
    /// A SEND to this rank by the lane.
    Laned(u32),
    /// What comes from this rank by the lane.
    Landed(u32),
}

impl Id {
    #[inline]
    pub(super) const fn code(self) -> u64 {
        match self {
            Self::Receive(index) => 1 << KIND | index as u64,
            Self::Datagram(port, index) => 2 << KIND | (port as u64) << LIFE | index as u64,
            Self::Sent(port) => 3 << KIND | (port as u64) << LIFE,
            Self::Peer(rank) => 4 << KIND | rank as u64,
            Self::Laned(rank) => 5 << KIND | rank as u64,
            Self::Landed(rank) => 6 << KIND | rank as u64,
        }
    }

    /// In this life of the connection.
    pub(super) const fn in_life(self, life: u32) -> u64 {
        self.code() | (life as u64 % LIVES) << LIFE
    }

    /// In the life of the request `other`.
    #[inline]
    pub(super) const fn in_life_of(self, other: u64) -> u64 {
        self.code() | other & (LIVES - 1) << LIFE
    }

    #[inline]
    pub(super) fn of(code: u64) -> Option<Self> {
        let (index, port) = (code as u32, (code >> LIFE) as u8);
        Some(match code >> KIND {
            1 => Self::Receive(index),
            2 => Self::Datagram(port, index),
            3 => Self::Sent(port),
            4 => Self::Peer(index),
            5 => Self::Laned(index),
            6 => Self::Landed(index),
            _ => return None,
        })
    }
}

/// Whether two requests to one rank are of one life of its connection.
#[inline]
pub(super) const fn are_of_one_life(one: u64, other: u64) -> bool {
    (one ^ other) << (64 - KIND) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_another_life_is_known() {
        for rank in [0, 5, u32::MAX] {
            for kind in [Id::Peer(rank), Id::Laned(rank), Id::Landed(rank)] {
                let id = kind.in_life(7);
                assert_eq!(Id::of(id), Some(kind));
                assert_eq!(kind.in_life_of(Id::Peer(rank).in_life(7)), id);
                assert!(are_of_one_life(id, Id::Peer(rank).in_life(7)));
                for other in [0, 6, 8, 0xff_ffff, u32::MAX] {
                    assert!(!are_of_one_life(id, Id::Peer(rank).in_life(other)));
                    assert_ne!(id, kind.in_life(other));
                }
                assert!(!are_of_one_life(id, 0), "of no life");
            }
        }
        assert_eq!(Id::of(Id::Receive(3).code()), Some(Id::Receive(3)));
        for id in [Id::Datagram(1, 4), Id::Datagram(2, 4), Id::Sent(1)] {
            assert_eq!(Id::of(id.code()), Some(id));
        }
        assert_eq!([Id::of(0), Id::of(u64::MAX)], [None; 2]);
    }
}
