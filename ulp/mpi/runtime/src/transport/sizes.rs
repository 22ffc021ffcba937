//! Up to which length a message goes in which way.
//!
//! Owns: the lengths that both transports share. Must not know: how either moves a message.

/// Lengths of messages, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Longest message that is sent eagerly.
    pub eager: usize,
    /// Longest one by memory that ranks share, as far as a block takes it.
    pub eager_near: usize,
    /// Shortest message that goes by a place of the pair, which another line, the record's, is
    /// worth.
    pub swap: usize,
}
