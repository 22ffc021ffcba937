//! Progress: what has come goes to its receive, what messages ask for is done, and what had to wait
//! is sent.
//!
//! Owns: what a round does beside the looks at transports, and before this process sleeps. Must not
//! know: which transports there are, what a message says.

use crate::constants::MPI_THREAD_MULTIPLE;
use crate::errors::Outcome;
use crate::p2p::point::Point;
use crate::p2p::runtime::Runtime;
use crate::transport::Transports;
use crate::transport::contract::{Lost, Message};
use crate::transport::round::Owner;
use std::os::fd::RawFd;

impl Owner for Runtime {
    type Told = Point;

    #[inline(always)]
    fn transports(&mut self) -> &mut Transports {
        &mut self.transports
    }

    #[inline(always)]
    fn lend(&mut self) -> (&mut Transports, &mut Point) {
        self.point.requests.waits.satisfied = false;
        (&mut self.transports, &mut self.point)
    }

    fn told(&mut self) -> &mut Point {
        &mut self.point
    }

    #[inline(always)]
    fn has_enough(&self) -> bool {
        self.point.requests.waits.satisfied
    }

    #[inline(always)]
    fn settle(&mut self) -> Outcome {
        self.settle_due()
    }

    #[cold]
    fn handle_keys(&mut self, peer: u32) {
        self.name_keys_anew(peer);
    }

    #[cold]
    fn handle_loss(&mut self, lost: Lost) -> Outcome {
        if let Some(peer) = lost.peer
            && !self.point.peers[peer as usize].lost
        {
            self.lose(peer);
        }
        match lost.error {
            Some(error) if self.is_error_fatal() => Err(error),
            Some(error) => {
                // Those who have to do with that rank learn of it by their requests; the others go
                // on.
                complain!("ferriband MPI: rank {}: {}", self.point.rank, error.text);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn queue(&mut self, peer: u32, message: Message) -> Outcome {
        self.queue(peer, message)
    }

    #[cold]
    fn unstall(&mut self) -> Outcome<bool> {
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

    fn press(&mut self, peer: u32) -> Outcome {
        match self.point.peers[peer as usize].fifo.is_empty() {
            true => Ok(()),
            false => self.pump(peer).map(drop),
        }
    }
}

impl Runtime {
    /// One round. True if something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let mut did = Transports::progress(self)?;
        // What an error has left.
        self.settle_due()?;
        if !self.point.stalled.is_empty() {
            did |= self.unstall()?;
        }
        Ok(did | self.transports.help())
    }

    /// One round with a look at every channel: before the core is given away.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let did = self.progress()? | self.look_for_losses();
        Ok(did | Transports::progress_others(self)?)
    }

    /// Whether a round would do something: the last look before falling asleep.
    pub fn has_work(&self) -> bool {
        !self.point.due.is_empty() || self.transports.has_work(&self.point.stalled)
    }

    /// Before this process sleeps: what wakes it besides its bell, and how long it may sleep, in
    /// milliseconds. A round must follow before the sleep.
    pub fn arm(&mut self) -> Outcome<(Vec<RawFd>, i32)> {
        let is_shared = self.job.threads == MPI_THREAD_MULTIPLE;
        let armed = self.transports.arm(is_shared, &self.point.stalled)?;
        Transports::hear(self, true)?;
        Ok(armed)
    }
}
