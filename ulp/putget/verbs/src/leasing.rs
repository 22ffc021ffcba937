//! Leases of a process's connections, and operations by them.
//!
//! Owns: which connections' completions of messages have to be looked at, and how long a peer may
//! keep a lease that was revoked. Must not know: what a lease means.

use crate::link::Link;
use crate::node::{Node, State};
use crate::trace::{Name, began};
use crate::users::{Left, Peer, Users};
use ferriband_host::wake;
use ferriband_putget_proto::{Direct, Lease, NotDirect, Started};
use std::time::Duration;

/// How long a peer may keep a lease that was revoked; then it is disconnected.
const RETURN: Duration = Duration::from_secs(5);

impl<U: Users> Node<U> {
    fn joined(&self, peer: Peer) -> Option<u16> {
        match self.peers.get(peer.0 as usize)?.state {
            State::Joined(place, true) => Some(place),
            _ => None,
        }
    }

    /// Begins an operation by a lease, if the peer has given one that allows it.
    ///
    /// # Errors
    /// [`NotDirect::ByMessage`] also where there is no connection.
    pub fn direct(&mut self, peer: Peer, direct: &Direct<'_>) -> Result<Started, NotDirect> {
        let place = self.joined(peer).ok_or(NotDirect::ByMessage)?;
        let Some(link) = &mut self.places[usize::from(place)].link else {
            return Err(NotDirect::ByMessage);
        };
        let adapter = &mut self.adapters[link.adapter];
        let began_ns = began(self.tracer.as_ref());
        let mut started = link.direct(direct, adapter, &mut self.users);
        if started == Err(NotDirect::Full) && link.settle(adapter, &mut self.users).unwrap_or(false)
        {
            started = link.direct(direct, adapter, &mut self.users);
        }
        self.wide |= started == Err(NotDirect::Full);
        if self.armed && link.machine.waits_for_direct() {
            // nobody looks: its end has to be told, unless it has ended already
            let armed = link.queues.sent_cq.arm(false);
            let settled = link.settle(adapter, &mut self.users);
            link.queues.failed |= armed.is_err() || settled.is_err();
        }
        if link.queues.failed {
            self.over.push((link.queues.id_of(), Left::Lost));
        }
        self.note_direct(place);
        self.called(Name::BeginDirect, began_ns.filter(|_| started.is_ok()));
        started
    }

    /// Whether a peer has given leases.
    pub fn has_leases(&self, peer: Peer) -> bool {
        let place = self.joined(peer).map(usize::from);
        let link = place.and_then(|place| self.places[place].link.as_ref());
        link.is_some_and(|link| link.machine.has_leases())
    }

    /// Keeps in mind that a connection has operations by leases under way.
    fn note_direct(&mut self, place: u16) {
        let link = self.places[usize::from(place)].link.as_ref();
        let is_busy = link.is_some_and(|link| link.queues.has_direct());
        if is_busy && !self.busy.contains(&place) {
            self.busy.push(place);
        }
    }

    /// Gives a peer a lease. False if there is no connection, or no room for one more: then nothing
    /// will be heard of it.
    pub fn lease(&mut self, peer: Peer, lease: &Lease<'_>) -> bool {
        let given = self.with_link(peer, |link, adapter, users| {
            link.lease(lease, adapter, users)
        });
        given.unwrap_or(false)
    }

    /// Takes the lease of this token back. [`Users::returned`] follows, at the latest when the peer
    /// is disconnected because it keeps it.
    pub fn revoke(&mut self, peer: Peer, token: u64) {
        self.with_link(peer, |link, adapter, users| {
            link.revoke(token, adapter, users);
            if link.machine.waits_for_leases() {
                link.revoking.get_or_insert_with(wake::now);
            }
        });
        self.timed = true;
    }

    fn with_link<R>(
        &mut self,
        peer: Peer,
        call: impl FnOnce(&mut Link<U::Hold>, &mut crate::adapter::Adapter, &mut U) -> R,
    ) -> Option<R> {
        let place = match self.peers.get(peer.0 as usize)?.state {
            State::Joined(place, _) => place,
            _ => return None,
        };
        let link = self.places[usize::from(place)].link.as_mut()?;
        let adapter = &mut self.adapters[link.adapter];
        let returned = call(link, adapter, &mut self.users);
        self.wide |= link.machine.waits_for_all();
        if link.queues.failed {
            self.over.push((link.queues.id_of(), Left::Lost));
        }
        Some(returned)
    }

    /// Hands ends of operations by leases over. Whether there was one.
    pub(crate) fn drain_direct(&mut self) -> bool {
        let mut found = false;
        let mut at = 0;
        while let Some(place) = self.busy.get(at).copied() {
            let Some(link) = &mut self.places[usize::from(place)].link else {
                self.busy.swap_remove(at);
                continue;
            };
            let adapter = &mut self.adapters[link.adapter];
            let settled = link.settle(adapter, &mut self.users);
            found |= *settled.as_ref().unwrap_or(&true);
            if settled.is_err() || link.queues.failed {
                link.queues.failed = true;
                self.over.push((link.queues.id_of(), Left::Lost));
            }
            match link.queues.has_direct() && !link.queues.failed {
                true => at += 1,
                false => drop(self.busy.swap_remove(at)),
            }
        }
        found
    }

    /// Arms for ends of operations by leases that somebody waits for.
    pub(crate) fn arm_direct(&mut self) {
        for place in &self.busy {
            if let Some(link) = &mut self.places[usize::from(*place)].link
                && link.machine.waits_for_direct()
                && link.queues.sent_cq.arm(false).is_err()
            {
                link.queues.failed = true;
                self.over.push((link.queues.id_of(), Left::Lost));
            }
        }
    }

    /// Disconnects peers that keep leases for too long. How long until this is to be called again.
    pub(crate) fn tick_leases(&mut self, now: Duration) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for place in &mut self.places {
            let Some(link) = &mut place.link else {
                continue;
            };
            let Some(since) = link.revoking else {
                continue;
            };
            if !link.machine.waits_for_leases() {
                link.revoking = None;
                continue;
            }
            let left = (since + RETURN).saturating_sub(now);
            if left.is_zero() {
                link.revoking = None;
                self.over.push((link.queues.id_of(), Left::Lost));
            }
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        next
    }
}
