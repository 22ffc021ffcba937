//! What a connection has done.
//!
//! Owns: counters of requests by path. Must not know: what follows from them.

use crate::message::Kind;

/// Makes a structure of counters that can be summed up and named.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $counter:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$doc])* pub $counter: u64,)*
        }

        impl $name {
            /// Adds the counters of another.
            pub fn add(&mut self, other: &$name) {
                $(self.$counter = self.$counter.saturating_add(other.$counter);)*
            }

            /// All of them, by their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($counter), self.$counter),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Requests of one direction.
    Requests {
        /// Puts in a message.
        short_puts,
        /// Puts by RDMA.
        long_puts,
        /// Gets whose bytes came in a message.
        short_gets,
        /// Gets by RDMA.
        long_gets,
        /// Exchanges.
        exchanges,
        /// Bytes that requests in messages asked for.
        short_bytes,
        /// Bytes that requests by RDMA asked for.
        long_bytes,
    }
}

impl Requests {
    fn count(&mut self, kind: Kind, long: bool, length: u64) {
        let counter = match (kind, long) {
            (Kind::Put, false) => &mut self.short_puts,
            (Kind::Put, true) => &mut self.long_puts,
            (Kind::Get, false) => &mut self.short_gets,
            (Kind::Get, true) => &mut self.long_gets,
            (Kind::Exchange, _) => &mut self.exchanges,
            _ => return,
        };
        *counter += 1;
        // a peer may ask for any number
        let bytes = match long {
            true => &mut self.long_bytes,
            false => &mut self.short_bytes,
        };
        *bytes = bytes.saturating_add(length);
    }
}

counters! {
    /// Counters of a connection beside those of requests.
    Paths {
        /// Requests of the peer that were refused.
        refused,
        /// Requests of this side that were refused.
        refusals,
        /// How often a request or an operation of this side was not begun for want of room.
        waited,
        /// Answers that waited for credits.
        late_answers,
        /// Messages of this side that only gave credits back.
        credits,
        /// Messages of this side, and their bytes, headers included.
        messages,
        /// See `messages`.
        message_bytes,
        /// Those of them that were solicited: each is an interrupt of the paper's at the peer.
        solicited,
        /// RDMA of this side that has ended: each is an interrupt here.
        rdma,
        /// Operations of this side by leases: puts.
        direct_puts,
        /// Gets.
        direct_gets,
        /// Atomic operations.
        direct_atomics,
        /// Bytes of operations of this side by leases.
        direct_bytes,
        /// Leases that this side has given.
        leases_given,
        /// Puts of the peer by leases that count.
        counted,
    }
}

/// Counters of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Requests of this side.
    pub begun: Requests,
    /// Requests of the peer.
    pub served: Requests,
    /// All else.
    pub paths: Paths,
}

impl Stats {
    /// Adds the counters of another connection.
    pub fn add(&mut self, other: &Stats) {
        self.begun.add(&other.begun);
        self.served.add(&other.served);
        self.paths.add(&other.paths);
    }

    pub(crate) fn started(&mut self, kind: Kind, long: bool, length: u64) {
        self.begun.count(kind, long, length);
    }

    pub(crate) fn sent(&mut self, bytes: usize, solicited: bool) {
        self.paths.messages += 1;
        self.paths.message_bytes += bytes as u64;
        self.paths.solicited += u64::from(solicited);
    }

    pub(crate) fn served(&mut self, kind: Kind, long: bool, length: u64) {
        self.served.count(kind, long, length);
    }
}
