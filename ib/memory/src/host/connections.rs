//! Connections that must not end in silence: what a killed process would still have had to say to its peers.
//!
//! Owns: an entry for each connection while its process lives; after its death it is an orphan, which one of the others inherits
//! to take leave for the dead. Must not know: what the words mean.

use super::layout::{CONNECTIONS, State};
use super::registry::{Held, ProcessRef, Registry};
use super::{Host, HostError};

/// 64-bit words of a connection that are the adapter's.
pub const CONNECTION_WORDS: usize = 7;

/// A connection of ours.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionClaim(Held);

/// A connection of a process that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// Whose it was.
    pub process: ProcessRef,
    /// What it had written down.
    pub words: [u64; CONNECTION_WORDS],
}

impl Host {
    /// Writes a connection down.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn connection_open(
        &self,
        words: &[u64; CONNECTION_WORDS],
    ) -> Result<ConnectionClaim, HostError> {
        self.claim(|| match self.registry.connection_open(self.me, words) {
            Err(HostError::Full { .. }) => {
                // Orphans that nobody wanted so far give way to the living.
                while self.registry.take_orphan().is_some() {}
                self.registry.connection_open(self.me, words)
            }
            done => done,
        })
    }

    /// Forgets a connection that has ended in good order; false if that had happened.
    pub fn connection_close(&self, claim: ConnectionClaim) -> bool {
        self.check_fork().is_ok() && self.registry.free(&CONNECTIONS, claim.0)
    }

    /// Takes over one connection of processes that are gone. Each is given to one process once. None if there is none left: ask
    /// after [`Host::reap_process`] found somebody dead.
    pub fn connection_inherit(&self) -> Option<Inherited> {
        self.check_member().ok()?;
        self.registry.take_orphan()
    }
}

impl Registry {
    fn connection_open(
        &self,
        owner: ProcessRef,
        words: &[u64; CONNECTION_WORDS],
    ) -> Result<ConnectionClaim, HostError> {
        let held = self.claim(&CONNECTIONS, owner, 0..CONNECTIONS.count)?;
        self.fill(&CONNECTIONS, held, words);
        Ok(ConnectionClaim(self.publish(
            &CONNECTIONS,
            held,
            State::Live,
        )?))
    }

    /// What a reaper does with a connection: one that was half written down goes, others wait for
    /// an heir.
    pub(super) fn orphan_connection(&self, held: Held) -> bool {
        if held.claim.is(State::Live) {
            let orphan = held.claim.with(State::Shared);
            self.cas(CONNECTIONS.at(held.index, 0), held.claim.0, orphan.0)
                .is_ok()
        } else {
            self.free(&CONNECTIONS, held)
        }
    }

    pub(super) fn take_orphan(&self) -> Option<Inherited> {
        (0..self.used(&CONNECTIONS)).find_map(|index| {
            if !self.claim_word(&CONNECTIONS, index).is(State::Shared) {
                return None;
            }
            let (claim, words) = self.read(&CONNECTIONS, index)?;
            let inherited = Inherited {
                process: claim.owner(),
                words,
            };
            (claim.is(State::Shared) && self.free(&CONNECTIONS, Held { index, claim }))
                .then_some(inherited)
        })
    }
}
