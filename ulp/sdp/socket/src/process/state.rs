//! What this process knows of a stream beside its record: how it came to be, and whether it may be
//! taken over. Owns: the bits of [`Traffic::state`], and when a connection is worth it. Must not
//! know: who looks.

use super::set;
use crate::table::{Pin, Traffic};
use std::sync::atomic::{AtomicU32, Ordering};

/// It was connected by this side.
pub(super) const CONNECTED: u32 = 1;
/// It was accepted by this side.
pub(super) const ACCEPTED: u32 = 1 << 1;
/// It listens, and its port has a family.
pub(super) const LISTENS: u32 = 1 << 2;
/// The service was asked for it, or knows it otherwise: a close goes by the service.
pub(super) const SERVED: u32 = 1 << 3;
/// An answer is awaited, or has come.
pub(super) const ASKED: u32 = 1 << 4;
/// It stays TCP, or goes back to it, as far as its traffic is concerned.
const NEVER: u32 = 1 << 5;
/// The program wants TCP_NODELAY off.
pub(super) const DELAYS: u32 = 1 << 6;
/// The program wants TCP_CORK.
pub(super) const CORKED: u32 = 1 << 7;
/// The peer was asked to go back to TCP, and has not in the time that it had.
pub(super) const LATE: u32 = 1 << 9;
/// It listens, and was given to this process as it is.
pub(super) const INHERITED: u32 = 1 << 10;
/// It was counted among those that are worth it.
pub(super) const COUNTED: u32 = 1 << 8;
/// TCP asks after its silent peer, which the program has not wanted.
pub(super) const KEPT_ALIVE: u32 = 1 << 11;
/// How often a connection is as good as put off whose thread has no core of its own: it is worth it
/// after 16 times as much as otherwise. To take it over costs as much as some ten exchanges by TCP,
/// which is missing where cores are.
const CROWDED: u32 = 4;
/// The bits above these say which process has looked at it.
const EPOCH: u32 = 12;

/// Which process in a row of forks this is, of which a stream's state says that it knows it.
static PROCESS: AtomicU32 = AtomicU32::new(1 << EPOCH);

/// In a child: streams are to be looked at anew.
pub(super) fn forked() {
    PROCESS.fetch_add(1 << EPOCH, Ordering::Relaxed);
}

/// Whether the connection stays TCP, or goes back to it: whatever process has said so.
#[inline]
pub(super) fn stays(pin: &Pin<'_>) -> bool {
    pin.record().stays.load(Ordering::SeqCst) != 0
}

/// The connection stays TCP, or goes back to it, in all processes that have it.
pub(super) fn stay(pin: &Pin<'_>) {
    pin.record().stays.store(1, Ordering::SeqCst);
    pin.traffic().add(NEVER);
}

/// Processes that do not take part may hold the socket from here on.
pub(super) fn give_away(pin: &Pin<'_>) {
    pin.record().strangers.store(1, Ordering::SeqCst);
}

/// A stream's state.
pub(super) trait State {
    fn is(&self, bits: u32) -> bool;
    fn add(&self, bits: u32);
    fn take(&self, bits: u32);
    /// As [`State::take`]: whether this call has taken one.
    fn takes(&self, bits: u32) -> bool;
    /// Whether it is counted for the first time among those that are worth it.
    fn counts(&self) -> bool;
    /// Whether its traffic matters no more.
    fn is_settled(&self) -> bool;
    /// A stream begins.
    fn begin(&self, bits: u32);
    /// Whether this process has looked at the stream.
    fn is_mine(&self) -> bool;
    /// This process looks at a stream that it has inherited: it keeps what belongs to the socket.
    fn make_mine(&self);
    /// The first call on it is to look at it.
    fn make_foreign(&self);
    /// Whether peers may ask for it soon: this process is to say that it has the socket.
    fn is_sought(&self) -> bool;
    /// After a receive: whether the connection is worth it from now on.
    fn received(&self, bytes: u64) -> bool;
    /// After a send: whether the connection is worth it from now on.
    fn sent(&self, bytes: u64) -> bool;
    /// It may be asked for again, later than this time.
    fn put_off(&self);
    /// Whether it is not worth it yet where threads have no cores of their own; it is put off then.
    fn is_put_off_where_crowded(&self) -> bool;
}

impl State for Traffic {
    #[inline]
    fn is(&self, bits: u32) -> bool {
        self.state.load(Ordering::SeqCst) & bits != 0
    }

    fn add(&self, bits: u32) {
        self.state.fetch_or(bits, Ordering::SeqCst);
    }

    fn take(&self, bits: u32) {
        self.takes(bits);
    }

    fn takes(&self, bits: u32) -> bool {
        self.state.fetch_and(!bits, Ordering::SeqCst) & bits != 0
    }

    fn counts(&self) -> bool {
        self.state.fetch_or(COUNTED, Ordering::SeqCst) & COUNTED == 0
    }

    #[inline]
    fn is_settled(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & COUNTED != 0 && state & (ASKED | NEVER | ACCEPTED) != 0
    }

    fn begin(&self, bits: u32) {
        let process = PROCESS.load(Ordering::Relaxed);
        self.state.store(process | bits, Ordering::SeqCst);
    }

    #[inline]
    fn is_mine(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state >> EPOCH == PROCESS.load(Ordering::Relaxed) >> EPOCH
    }

    fn make_mine(&self) {
        let kept = CONNECTED | ACCEPTED | LISTENS | INHERITED | NEVER | DELAYS | CORKED | COUNTED;
        let process = PROCESS.load(Ordering::Relaxed);
        let _ = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| {
                Some(state & kept | process)
            });
    }

    fn make_foreign(&self) {
        self.state.fetch_and((1 << EPOCH) - 1, Ordering::SeqCst);
    }

    // The connecting side asks in its send of a whole number of exchanges. This side has received
    // what belongs to the last one but one by then, and says so before it answers.
    #[inline]
    fn is_sought(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let is_known = state & (ACCEPTED | SERVED) != ACCEPTED;
        if is_known || self.port.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let turns = set::exchanges().saturating_sub(1);
        let exchanges = self.exchanges.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        bytes > 0 && exchanges + 1 >= turns.saturating_mul(2) || bytes >= set::bytes() / 4
    }

    // The counts of two threads may be lost: nothing depends on them.
    #[inline]
    fn received(&self, bytes: u64) -> bool {
        let exchanges = self.exchanges.load(Ordering::Relaxed);
        self.exchanges.store(exchanges | 1, Ordering::Relaxed);
        let all = self.bytes.load(Ordering::Relaxed) + bytes;
        self.bytes.store(all, Ordering::Relaxed);
        let factor = 1_u32 << self.put_off.load(Ordering::Relaxed).min(16);
        // exchanges are complete in a send only
        all >= set::bytes().saturating_mul(factor.into()) && self.is(CONNECTED | ACCEPTED)
    }

    #[inline]
    fn sent(&self, bytes: u64) -> bool {
        let exchanges = self.exchanges.load(Ordering::Relaxed);
        // an exchange is a send that follows a receive, and so odd before
        let exchanges = exchanges + (exchanges & 1);
        self.exchanges.store(exchanges, Ordering::Relaxed);
        let all = self.bytes.load(Ordering::Relaxed) + bytes;
        self.bytes.store(all, Ordering::Relaxed);
        let factor = 1_u32 << self.put_off.load(Ordering::Relaxed).min(16);
        // one that was put off has its turns before it is asked for again, whatever is set
        let turns = set::exchanges().saturating_sub(1);
        let turns = turns.max(u32::from(factor > 1)).saturating_mul(factor);
        let worth = exchanges / 2 >= turns || all >= set::bytes().saturating_mul(factor.into());
        worth && self.is(CONNECTED | ACCEPTED)
    }

    fn put_off(&self) {
        let times = self.put_off.load(Ordering::Relaxed);
        self.put_off.store(times + 1, Ordering::Relaxed);
        self.take(ASKED);
    }

    fn is_put_off_where_crowded(&self) -> bool {
        let is_new = self.put_off.load(Ordering::Relaxed) == 0;
        let was_never_asked = self.is(CONNECTED) && !self.is(ASKED);
        let puts_off = is_new && was_never_asked && !set::wants_each();
        if puts_off {
            self.put_off.store(CROWDED, Ordering::Relaxed);
        }
        puts_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_exchange_is_worth_it() {
        let traffic = Traffic::default();
        traffic.begin(CONNECTED);
        assert!(!traffic.sent(10));
        assert!(!traffic.received(10));
        assert!(!traffic.sent(10), "the second");
        assert!(!traffic.received(10));
        assert!(!traffic.received(10));
        assert!(traffic.sent(10), "the third");
        assert!(traffic.counts());
        assert!(!traffic.counts() && !traffic.is_settled());
        traffic.add(ASKED);
        assert!(traffic.is_settled());
        traffic.put_off();
        assert!(!traffic.is_settled());
        assert!(!traffic.sent(10), "as long again");
        assert!(!traffic.received(10));
        assert!(!traffic.sent(10));
        assert!(!traffic.received(10));
        assert!(traffic.sent(10));
    }

    #[test]
    fn where_cores_are_missing_a_new_connection_is_put_off_once() {
        let traffic = Traffic::default();
        traffic.begin(CONNECTED);
        assert!(traffic.is_put_off_where_crowded());
        assert!(!traffic.is_put_off_where_crowded());
        assert!(!traffic.sent(set::bytes()), "16 times as many bytes");
        for _ in 0..32 {
            assert!(!traffic.sent(1));
            assert!(!traffic.received(1));
        }
        assert!(traffic.sent(1), "the 33rd exchange");
    }

    #[test]
    fn an_accepted_one_is_sought_before_its_second_answer() {
        let traffic = Traffic::default();
        traffic.port.store(80, Ordering::Relaxed);
        traffic.begin(ACCEPTED);
        let _ = traffic.received(10);
        assert!(!traffic.is_sought());
        let _ = traffic.sent(10);
        assert!(
            !traffic.is_sought(),
            "one exchange, as with Connection: close"
        );
        let _ = traffic.received(10);
        assert!(traffic.is_sought());
        traffic.add(SERVED);
        assert!(!traffic.is_sought(), "once");
        let traffic = Traffic::default();
        traffic.port.store(80, Ordering::Relaxed);
        traffic.begin(ACCEPTED);
        let _ = traffic.sent(4096);
        assert!(traffic.is_sought());
        assert!(traffic.is_sought());
        traffic.port.store(0, Ordering::Relaxed);
        assert!(!traffic.is_sought(), "nobody is asked at its port");
    }

    #[test]
    fn many_received_bytes_are_worth_it() {
        let traffic = Traffic::default();
        traffic.begin(CONNECTED);
        assert!(!traffic.received(16_383));
        assert!(traffic.received(1));
        traffic.put_off();
        assert!(!traffic.received(1), "as many again");
        assert!(traffic.received(16_383));
        traffic.begin(0);
        assert!(!traffic.received(1 << 20), "it is no connection");
    }

    #[test]
    fn many_bytes_are_worth_it() {
        let traffic = Traffic::default();
        traffic.begin(CONNECTED);
        assert!(!traffic.received(10_000));
        assert!(!traffic.sent(6_383));
        assert!(traffic.sent(1));
        let traffic = Traffic::default();
        traffic.begin(ACCEPTED);
        assert!(traffic.sent(1 << 20) && traffic.counts() && traffic.is_settled());
        traffic.begin(0);
        assert!(!traffic.sent(1 << 20), "it is no connection");
    }
}
