//! Whose memory a request means, and whom its end is told: what the machine asks of its user.
//!
//! Owns: the trait, and the reasons for a refusal. Must not know: how memory is found; tags do it
//! as in papers/002 ([`crate::tags`]), Portals does it by its lists.

use crate::message::Kind;
use crate::status::Status;

/// A request as its target sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked<'a> {
    /// Put, get or exchange.
    pub kind: Kind,
    /// Which memory.
    pub tag: u32,
    /// What the memory needs beside the tag.
    pub address: &'a [u8],
    /// Bytes asked for.
    pub length: u64,
    /// Whether the initiator asks for an acknowledgement.
    pub acknowledged: bool,
}

/// What the target's memory grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted<H> {
    /// Names what is held until [`Memory::ended`].
    pub hold: H,
    /// Bytes that are moved; at most as many as were asked for.
    pub length: u64,
    /// Where in the memory they lie; the initiator is told.
    pub offset: u64,
    /// What else the initiator is told.
    pub tag: u32,
}

/// How a request ended, at its initiator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What became of it.
    pub status: Status,
    /// Bytes that were moved.
    pub length: u64,
    /// Where they lie in the target's memory.
    pub offset: u64,
    /// What else the target says.
    pub tag: u32,
}

impl Answer {
    pub(crate) const fn undeliverable() -> Answer {
        Answer {
            status: Status::Undeliverable,
            length: 0,
            offset: 0,
            tag: 0,
        }
    }
}

/// Memory of a process, and those who wait for requests to end.
///
/// A request is admitted once, then its bytes are moved, then it has ended; all three once. Between
/// the first and the last its memory is held: it may not go away. Requests of one peer are admitted
/// in the order in which the peer began them.
pub trait Memory {
    /// Names memory that is held for a request.
    type Hold: Copy;

    /// A peer asks.
    ///
    /// # Errors
    /// The reason of a refusal, which the peer is told where it asked for an acknowledgement.
    fn admit(&mut self, asked: &Asked<'_>) -> Result<Granted<Self::Hold>, Status>;

    /// Takes the first bytes of a short put, as many as were granted.
    fn place(&mut self, hold: Self::Hold, data: &[u8]);

    /// Gives the bytes of a short get, as many as were granted.
    fn fetch(&mut self, hold: Self::Hold, to: &mut [u8]);

    /// Takes all bytes of an exchange and gives as many back as were granted.
    fn exchange(&mut self, hold: Self::Hold, data: &[u8], to: &mut [u8]);

    /// The bytes of a request are where they belong (Ok), or the request came to nothing.
    fn ended(&mut self, hold: Self::Hold, status: Status);

    /// Gives the payload of a short request that this side has begun with `token`.
    fn gather(&mut self, token: u64, to: &mut [u8]);

    /// Takes the data of a short get or an exchange that this side has begun.
    fn scatter(&mut self, token: u64, data: &[u8]);

    /// A request of this side's has ended. Not told of puts that go short without an
    /// acknowledgement.
    fn done(&mut self, token: u64, answer: Answer);

    /// The peer has put so many bytes by a lease that counts, which was given with `token`. They
    /// are in memory.
    fn counted(&mut self, _token: u64, _length: u64) {}

    /// A lease that was given with `token` is over: the peer does not reach the memory by it any
    /// more. Told once for each that [`crate::Connection::lease`] has taken up.
    fn returned(&mut self, _token: u64) {}
}
