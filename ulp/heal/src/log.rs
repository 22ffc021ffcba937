//! What is sent and not acknowledged by the peer's runtime, as a heal must see it.

use crate::number::Number;

/// What is sent and not acknowledged. A ring of bytes can be its own log: numbers then count bytes.
pub trait Log {
    /// What would be sent again.
    type Unit<'a>
    where
        Self: 'a;

    /// The last number that the peer has acknowledged.
    fn acknowledged(&self) -> Number;

    /// Whether a message of so many bytes can be kept.
    fn has_room(&self, bytes: usize) -> bool;

    /// Bytes of what is kept.
    fn bytes(&self) -> u64;

    /// The peer has taken all up to `to`; `sent` is the last number that it can have. True if that
    /// is news. What is ahead of `sent` is nothing.
    fn acknowledge(&mut self, to: Number, sent: Number) -> bool;

    /// The first unit that ends at `from` or behind it, and its last number.
    fn unit(&self, from: Number) -> Option<(Number, Self::Unit<'_>)>;
}
