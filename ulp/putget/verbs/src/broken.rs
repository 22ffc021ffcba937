//! What becomes of a process whose adapter, or whose connection manager, fails a call.
//!
//! Owns: which connections end with what they share, and when nothing can be served any more. Must
//! not know: which call has failed.
//!
//! All connections of an adapter share its channel and its completion queues. If one of these
//! fails, they are over, and the next connection gets new queues: a failure that passes costs
//! connections, and no more. What fails again although nobody is connected, or several times in a
//! row, ends the service: requests are undeliverable from then on, and whoever waits is told.

use crate::Error;
use crate::node::{Node, State};
use crate::users::{Left, Peer, Users};

/// How often in a row events of the connection manager may not be had.
const MOST_DEAF: u8 = 3;

impl<U: Users> Node<U> {
    /// What all connections of an adapter share has failed: they end with the next look.
    ///
    /// # Errors
    /// The reason, if there is nothing left that could end.
    pub(crate) fn broken(&mut self, adapter: usize, why: Error) -> Result<(), Error> {
        if self.adapters[adapter].groups.is_empty() {
            return Err(why);
        }
        self.adapters[adapter].groups.clear();
        let links = self
            .places
            .iter_mut()
            .filter_map(|place| place.link.as_mut());
        for link in links.filter(|link| link.adapter == adapter) {
            link.queues.failed = true;
            self.over.push((link.queues.id_of(), Left::Lost));
        }
        for peer in 0..self.peers.len() {
            let is_on_it =
                |state: &State| matches!(state, State::Asking(_, Some(_), on) if *on == adapter);
            if is_on_it(&self.peers[peer].state) {
                self.give_up(Peer(peer as u32), Left::Unreachable);
            }
        }
        Ok(())
    }

    /// Events of the connection manager could not be had.
    ///
    /// # Errors
    /// The reason, if that was once too often.
    pub(crate) fn is_deaf(&mut self, why: Error) -> Result<(), Error> {
        self.deaf += 1;
        match self.deaf < MOST_DEAF {
            true => Ok(()),
            false => Err(why),
        }
    }

    /// Nothing is served any more: what is under way is undeliverable, and so is what comes.
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.leave_all();
        U::advance(self);
    }
}
