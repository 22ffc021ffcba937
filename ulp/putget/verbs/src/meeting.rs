//! Whose request stands when two processes ask each other at once.
//!
//! Owns: the rule. Must not know: identifiers of the connection manager.

use std::cmp::Ordering;
use std::net::SocketAddr;

/// What is known of a peer that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Nothing is under way.
    Nobody,
    /// This side has asked, too, and has no answer yet.
    Asking,
    /// A connection stands, or is about to. True if the peer had given this request up before: it
    /// was under way for longer than the one that stands.
    Joined(bool),
}

/// What becomes of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is accepted.
    Accept,
    /// It is accepted, and this side's own request is given up.
    AcceptInstead,
    /// It is accepted: the peer has lost the connection that stood here.
    Replace,
    /// This side's own request stands: the peer waits for it.
    OwnStands,
    /// Nobody waits for an answer.
    Old,
}

/// Judges the request of `peer`, both by the addresses that they listen at. The request of the
/// smaller address stands. A process never asks itself.
pub(crate) fn judge(own: SocketAddr, peer: SocketAddr, known: Known) -> Verdict {
    match (known, own.cmp(&peer)) {
        (Known::Nobody, _) => Verdict::Accept,
        (Known::Joined(false), _) => Verdict::Replace,
        (Known::Joined(true), _) => Verdict::Old,
        (Known::Asking, Ordering::Less | Ordering::Equal) => Verdict::OwnStands,
        (Known::Asking, Ordering::Greater) => Verdict::AcceptInstead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_ask_at_once_one_stands() {
        let (one, other) = ("10.0.0.1:5".parse().unwrap(), "10.0.0.1:6".parse().unwrap());
        assert_eq!(judge(one, other, Known::Asking), Verdict::OwnStands);
        assert_eq!(judge(other, one, Known::Asking), Verdict::AcceptInstead);
        assert_eq!(judge(one, other, Known::Nobody), Verdict::Accept);
        assert_eq!(judge(other, one, Known::Joined(false)), Verdict::Replace);
        assert_eq!(judge(one, other, Known::Joined(true)), Verdict::Old);
    }
}
