//! Progress: looks at the channels, hands what has come to its receive, sends what had to wait.
//!
//! Owns: the order of a round. Must not know: what a message says.

use crate::errors::Outcome;
use crate::host::Awaited;
use crate::runtime::Runtime;

impl Runtime {
    /// One round. True if something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let mut did = false;
        let mut place = 0;
        while let Some(inlet) = self.polling.hot(place) {
            if self.inlets[inlet as usize].inlet.poll() {
                self.polling.hit(place);
                self.drain(inlet)?;
                did = true;
            }
            place += 1;
        }
        if let Some(inlet) = self.polling.next(self.inlets.len()) {
            did |= self.look(inlet)?;
        }
        if let Some(host) = &mut self.host
            && let Some(rank) = host.newcomers()
        {
            self.accept(rank)?;
            did = true;
        }
        if self.net.is_some() {
            did |= self.poll_net()?;
        }
        // What an error has left.
        self.settle_due()?;
        if !self.point.stalled.is_empty() {
            did |= self.unstall()?;
        }
        if !self.offered.is_empty() {
            did |= self.copy_nearby();
        }
        if !self.executions.is_empty() {
            did |= self.advance()?;
        }
        if !self.flags.is_empty() && self.flags.iter().any(Awaited::is_reached) {
            // Another thread may wait for it.
            self.point.requests.sleepers.note();
        }
        Ok(did)
    }

    /// One round with a look at every channel: before the core is given away.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let mut did = self.progress()? | self.look_for_losses();
        for inlet in 0..self.inlets.len() as u32 {
            did |= self.look(inlet)?;
        }
        Ok(did)
    }

    /// Whether a round would do something: the last look before falling asleep.
    pub fn has_work(&self) -> bool {
        self.inlets
            .iter()
            .any(|inbound| inbound.inlet.is_ready() || inbound.inlet.owes_relief())
            || self
                .host
                .as_ref()
                .is_some_and(crate::host::Host::has_newcomer)
            || self.net.as_ref().is_some_and(|net| net.has_records())
            || self.has_errand()
            || !self.point.due.is_empty()
            || self
                .flags
                .iter()
                .any(|flag| flag.is_reached() || !flag.is_announced())
            || self.point.stalled.iter().any(|peer| {
                self.point.peers[*peer as usize]
                    .outlet
                    .as_ref()
                    .is_some_and(crate::host::Outlet::has_news)
            })
    }

    /// Sends what waits for room, as far as there is any. True if something has gone.
    #[cold]
    pub fn unstall(&mut self) -> Outcome<bool> {
        let mut did = false;
        for index in (0..self.point.stalled.len()).rev() {
            let Some(peer) = self.point.stalled.get(index).copied() else {
                continue;
            };
            let waiting = self.point.peers[peer as usize].fifo.len();
            did |= self.pump(peer)? || self.point.peers[peer as usize].fifo.len() != waiting;
        }
        Ok(did)
    }
}
