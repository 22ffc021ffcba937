//! Who is asked for a connection that is worth it, and what a peer that asks is told of it.
//!
//! Owns: the order in which peers are asked, and what of the program's own doing keeps a connection
//! TCP. Must not know: how a peer is asked.

use super::fit::fit;
use super::service::{Known, Service, ends_of};
use super::state::{self, State};
use super::{Process, cookie, far, report, set, socket};
use crate::meet::No;
use crate::meet::client::ClientService;
use crate::meet::message::Reason;
use crate::meet::report::{Cause, Why};
use crate::ready;
use crate::table::Pin;
use std::net::SocketAddr;
use std::time::Duration;

impl Service {
    /// Asks for a connection that is worth it, and for which its peer was asked again so many
    /// times.
    pub(super) fn ask(&mut self, process: &'static Process, index: u32, times: u32, now: Duration) {
        let Some(pin) = process.table.pin_index(index) else {
            return;
        };
        let Some(number) = process.number_of(&pin) else {
            return;
        };
        let is_current = |client: &ClientService| client.credentials().are_current();
        if !self.client.as_ref().is_some_and(is_current) {
            let client = self.own_bell().and_then(ClientService::new);
            self.client = client.ok();
            if let (Some(client), Some(directory)) = (&mut self.client, set::meets()) {
                // without it peers there stay TCP
                let _ = client.meet(directory);
            }
        }
        // its streams can be asked after
        let _ = self.hold(process);
        report::clear(&pin);
        match self.ask_peer(&pin, number, now) {
            Ok(()) => {
                let known = Known {
                    taken: pin.taken(),
                    number,
                    port: None,
                    ends: None,
                    times,
                };
                self.known.insert(cookie(number), known);
            }
            Err(no) => {
                // what the program itself does with the socket can be seen
                if let No::Never(reason) = no
                    && reason != Reason::Unfit
                {
                    report::note(&pin, Why::Reason(reason), None);
                }
                if state::stays(&pin) {
                    self.leave_out(process, &pin);
                }
                self.stays(&pin, no, times, now);
            }
        }
    }

    /// Asks whoever holds the other end: by queue pairs if the user wants it so on one host, else
    /// in this network namespace, by the directory, and by queue pairs, as far as they are set.
    fn ask_peer(&mut self, pin: &Pin<'_>, number: i32, now: Duration) -> Result<(), No> {
        let because = |cause| report::note(pin, Why::Cause(cause), None);
        if self.client.is_none() {
            return Err(No::Never(Reason::NoDiag));
        }
        if self.has_rings(now) {
            because(Cause::IoUring);
            return Err(No::Never(Reason::Unfit));
        }
        if pin.others_hold() {
            because(Cause::Several);
            return Err(No::Later);
        }
        if !ready::fits(pin) {
            because(Cause::Waiters);
            return Err(No::Later);
        }
        fit(pin, number)?;
        if far::is_asked_for_here(number) {
            self.may_reach_here(number)?;
            return self.ask_host(pin, number, now);
        }
        let client = self.client.as_mut().ok_or(No::Never(Reason::NoDiag))?;
        match client.ask(socket(number), now) {
            Err(No::Never(Reason::Elsewhere)) if set::meets_nowhere() => {
                because(Cause::NoDirectory);
                Err(No::Never(Reason::Unfit))
            }
            Err(No::Never(Reason::Elsewhere | Reason::NobodyMeets)) if set::hosts().is_some() => {
                self.ask_host(pin, number, now)
            }
            other => other,
        }
    }

    /// Whether the peer's end is on this host with one whom queue pairs reach.
    fn may_reach_here(&self, number: i32) -> Result<(), No> {
        let client = self.client.as_ref().ok_or(No::Never(Reason::NoDiag))?;
        let ends = ends_of(number).ok_or(No::Never(Reason::NotEstablished));
        let [own, peer] = ends?;
        let holder = client.credentials().look(peer, own)?;
        match client.credentials().is_own(holder.uid) {
            true => Ok(()),
            false => Err(No::Never(Reason::OtherUser)),
        }
    }

    /// What the accepting side needs to know of one of this process's sockets.
    pub(super) fn ends(
        &self,
        process: &'static Process,
        cookie: u64,
    ) -> Result<[SocketAddr; 2], No> {
        let known = self.known.get(&cookie);
        let known = known.ok_or(No::Never(Reason::NotHeld))?;
        let pin = process.table.pin_taken(known.taken);
        let pin = pin.filter(|_| process.is_still(known.number, known.taken.index));
        let pin = pin.ok_or(No::Never(Reason::NotHeld))?;
        let because = |cause| report::note(&pin, Why::Cause(cause), None);
        if pin.others_hold() {
            because(Cause::Several);
            return Err(No::Later);
        }
        if !ready::fits(&pin) {
            because(Cause::Waiters);
            return Err(No::Later);
        }
        if self.rings.is_some_and(|(_, has)| has) {
            because(Cause::IoUring);
            return Err(No::Never(Reason::Unfit));
        }
        fit(&pin, known.number)?;
        ends_of(known.number).ok_or(No::Never(Reason::NotEstablished))
    }

    /// The connection is not taken over, or not yet: its peer was asked again so many times.
    pub(super) fn stays(&mut self, pin: &Pin<'_>, why: No, times: u32, now: Duration) {
        let is_soon = matches!(why, No::Later | No::Never(Reason::NotHeld));
        if is_soon && set::wants_each() && self.again.add(pin.taken(), times, now) {
            return;
        }
        match why {
            // somebody may take part there later, or be about to say that it holds the socket
            No::Later
            | No::Never(
                Reason::Nobody | Reason::NobodyMeets | Reason::NotHeld | Reason::NoHostAnswers,
            ) => pin.traffic().put_off(),
            No::Never(_) => {}
        }
    }
}
