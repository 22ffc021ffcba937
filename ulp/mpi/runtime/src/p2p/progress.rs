//! Progress: looks at the channels, hands what has come to its receive, sends what had to wait.
//!
//! Owns: the order of a round. Must not know: what a message says.

use crate::errors::Outcome;
use crate::host::Ran;
use crate::runtime::Runtime;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;

impl Runtime {
    /// One round. True if something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let mut did = false;
        let mut place = 0;
        while let Some(from) = self.shm.polling.hot(place) {
            if self.shm.link(from).poll() {
                self.shm.polling.hit(place);
                self.drain(from)?;
                did = true;
            }
            place += 1;
        }
        if let Some(from) = self.shm.next_in_turn() {
            did |= self.look(from)?;
        }
        if let Some(host) = &mut self.host
            && let Some(rank) = host.newcomers()
        {
            self.shm.accept(host, rank)?;
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
        Ok(did)
    }

    /// One round with a look at every channel: before the core is given away.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let mut did = self.progress()? | self.look_for_losses();
        for place in 0..self.shm.order.len() {
            did |= self.look(self.shm.order[place])?;
        }
        Ok(did)
    }

    /// A channel that is not looked at in each round. True if something came.
    fn look(&mut self, from: u32) -> Outcome<bool> {
        let link = self.shm.link(from);
        if link.is_ready() {
            self.shm.polling.warm(from);
            self.drain(from)?;
            return Ok(true);
        }
        if link.relieve()
            && let Some(host) = &self.host
        {
            host.ring(from);
        }
        Ok(false)
    }

    /// Takes what lies in the channel from rank `from`, in order; no more once what the caller
    /// waits for is over: to look for the next record is to fetch a line that the sender has just
    /// written, which the caller need not wait for.
    #[inline]
    fn drain(&mut self, from: u32) -> Outcome {
        self.point.requests.waits.satisfied = false;
        let mut left = BATCH;
        loop {
            let (Some(host), Some(link)) = (&self.host, self.shm.links.get_mut(from as usize))
            else {
                return Ok(());
            };
            let ran = link.run(host, from, &mut left, &mut self.point);
            let settled = self.settle_due();
            if ran? != Ran::Stopped || self.point.requests.waits.satisfied {
                return settled;
            }
            settled?;
        }
    }

    /// Whether a round would do something: the last look before falling asleep.
    pub fn has_work(&self) -> bool {
        self.shm.has_work()
            || self
                .host
                .as_ref()
                .is_some_and(crate::host::Host::has_newcomer)
            || self.net.as_ref().is_some_and(|net| net.has_records())
            || self.has_copy_request()
            || !self.point.due.is_empty()
            || self.point.stalled.iter().any(|peer| {
                self.shm.links[*peer as usize]
                    .sending
                    .as_ref()
                    .is_some_and(crate::host::SendingEnd::has_news)
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
