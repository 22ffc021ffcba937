//! Peers whose hosts are gone without a word.
//!
//! Owns: when a connection is asked whether its peer's adapter still answers. Must not know: what
//! is waited for.
//!
//! While something waits for a peer and nothing was heard of it for a time, an RDMA WRITE of no
//! bytes goes by N: it needs no software of the peer, so one that is stopped is waited for, and it
//! fails where the host is gone. A connection that waits for nothing is not asked, and nobody is
//! woken for it.

use crate::link::Link;
use crate::node::Node;
use crate::users::{Left, Users};
use std::time::Duration;

/// How long a peer that is waited for may say nothing before its adapter is asked, at least; at
/// most it is twice as long.
const SILENCE: Duration = Duration::from_secs(1);

/// What is known of the connections that wait.
#[derive(Default)]
pub(crate) struct Keeping {
    /// A connection may wait for its peer.
    waits: bool,
    /// When they were looked at; none before the first look.
    looked: Option<Duration>,
}

impl<U: Users> Node<U> {
    /// A request was begun that waits for its peer. The thread has to know if it was not looking.
    pub(crate) fn keep(&mut self) {
        if !self.keeping.waits {
            self.keeping = Keeping {
                waits: true,
                looked: None,
            };
            self.timed = true;
        }
    }

    /// Asks where it is due. How long until this is to be called again.
    pub(crate) fn tick_keeping(&mut self, now: Duration) -> Option<Duration> {
        if !self.keeping.waits {
            return None;
        }
        let looked = *self.keeping.looked.get_or_insert(now);
        let left = (looked + SILENCE).saturating_sub(now);
        if !left.is_zero() {
            return Some(left);
        }
        let (mut waits, mut failed) = (false, false);
        for link in self
            .places
            .iter_mut()
            .filter_map(|place| place.link.as_mut())
        {
            waits |= link.waits();
            if link.ask_silent() {
                failed = true;
                self.over.push((link.queues.id_of(), Left::Lost));
            }
        }
        let looked = Some(now);
        self.keeping = Keeping { waits, looked };
        match failed {
            true => Some(Duration::ZERO),
            false => waits.then_some(SILENCE),
        }
    }
}

impl<H: Copy> Link<H> {
    /// Whether something waits for the peer.
    fn waits(&self) -> bool {
        let machine = &self.machine;
        !machine.is_quiet() || machine.waits_for_all() || machine.waits_for_leases()
    }

    /// Asks the peer's adapter, if the peer is waited for and has said nothing since the last call.
    /// Whether the connection has failed by that.
    fn ask_silent(&mut self) -> bool {
        let is_silent = self.heard == self.heard_before;
        self.heard_before = self.heard;
        if self.waits() && is_silent && !self.queues.failed {
            self.queues.ask();
            return self.queues.failed;
        }
        false
    }
}
