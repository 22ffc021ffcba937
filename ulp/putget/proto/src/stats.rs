//! What a connection has done.
//!
//! Owns: counters of requests by path. Must not know: what follows from them.

use crate::message::Kind;

/// Requests of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Requests {
    /// Puts in a message.
    pub short_puts: u64,
    /// Puts by RDMA.
    pub long_puts: u64,
    /// Gets whose bytes came in a message.
    pub short_gets: u64,
    /// Gets by RDMA.
    pub long_gets: u64,
    /// Exchanges.
    pub exchanges: u64,
}

impl Requests {
    fn count(&mut self, kind: Kind, long: bool) {
        let counter = match (kind, long) {
            (Kind::Put, false) => &mut self.short_puts,
            (Kind::Put, true) => &mut self.long_puts,
            (Kind::Get, false) => &mut self.short_gets,
            (Kind::Get, true) => &mut self.long_gets,
            (Kind::Exchange, _) => &mut self.exchanges,
            (Kind::Response | Kind::Credits, _) => return,
        };
        *counter += 1;
    }
}

/// Counters of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Requests of this side.
    pub begun: Requests,
    /// Requests of the peer.
    pub served: Requests,
    /// Of those, how many were refused.
    pub refused: u64,
    /// Messages of this side that only gave credits back.
    pub credits: u64,
}

impl Stats {
    pub(crate) fn started(&mut self, kind: Kind, long: bool) {
        self.begun.count(kind, long);
    }

    pub(crate) fn served(&mut self, kind: Kind, long: bool) {
        self.served.count(kind, long);
    }
}
