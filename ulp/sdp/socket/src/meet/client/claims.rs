//! Connections whose accepted end is in another network namespace.
//!
//! Owns: what this side gives of its own end, and what it checks of the other before it requests
//! the connection. Must not know: what follows, which is as with any peer.

use super::{Asked, ClientService, Held, Partner};
use crate::diag::Diag;
use crate::meet::channel::Channel;
use crate::meet::directory::{self, Directory};
use crate::meet::message::{Message, Name, Packet, Reason};
use crate::meet::pair::Broken;
use crate::meet::place::{Namespace, Place};
use crate::meet::{No, ends_number};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// What a client has of a directory.
#[derive(Debug)]
pub(super) struct Abroad {
    pub directory: &'static Directory,
    place: Place,
}

/// What is known of a partner who was found by the directory.
#[derive(Default, Debug)]
pub(super) struct Foreign {
    namespace: Option<Result<Namespace, Reason>>,
    /// It has this process's network namespace.
    is_told: bool,
}

impl ClientService {
    /// Peers in other network namespaces are asked by this directory.
    ///
    /// # Errors
    /// No /proc.
    pub fn meet(&mut self, directory: &'static Directory) -> Result<(), Errno> {
        directory.sweep();
        let place = Place::new()?;
        self.abroad = Some(Abroad { directory, place });
        Ok(())
    }

    /// Claims a connection at the process with this name; gives the pair's number.
    pub(super) fn claim(&mut self, asked: &mut Asked, name: Name) -> Result<u64, Reason> {
        let abroad = self.abroad.as_ref().ok_or(Reason::Elsewhere)?;
        let known = |partner: &Partner| {
            partner.name == name && partner.foreign.is_some() && !partner.is_over
        };
        let at = match self.partners.iter().position(known) {
            Some(at) => at,
            None => {
                let channel = abroad.directory.connect(&directory::process_name(name));
                let channel = channel.map_err(|_| Reason::NotHeld)?;
                let uid = channel.uid().map_err(|_| Reason::UnknownUser)?;
                self.credentials.are_known(uid)?;
                let is_own_user = self.credentials.is_own(uid);
                let mut partner = Partner::new(self.next_pair, name, uid, is_own_user, channel);
                partner.foreign = Some(Foreign::default());
                self.partners.push(partner);
                self.next_pair += 1;
                self.partners.len() - 1
            }
        };
        let partner = &mut self.partners[at];
        let request = asked.request;
        let ticket = Diag::ticket(request.connected_end, request.accepted_end);
        let ticket = ticket.map_err(|_| Reason::NoDiag)?;
        let foreign = partner.foreign.as_mut().ok_or(Reason::Broken)?;
        let both = [ticket.as_fd(), abroad.place.namespace()];
        let fds = &both[..2 - usize::from(foreign.is_told)];
        foreign.is_told = true;
        let (number, message) = (asked.number, Message::Claim(request));
        if partner
            .channel
            .send(&Packet { number, message }, fds)
            .is_err()
        {
            partner.is_over = true;
            return Err(Reason::NoAnswer);
        }
        asked.is_claimed = false;
        Ok(partner.pair)
    }

    /// Families of the port in the directory, each asked; and whether one could not be.
    pub(super) fn families_abroad(&self, asked: &Asked) -> (Vec<Channel>, bool) {
        let Some(abroad) = &self.abroad else {
            return (Vec::new(), false);
        };
        let request = &asked.request;
        let cookie = ends_number(request.accepted_end, request.connected_end);
        let port = request.accepted_end.port();
        super::families(asked.number, cookie.into(), |place| {
            abroad
                .directory
                .connect(&directory::family_name(port, place))
        })
    }

    /// A partner says that it holds the accepted socket of a connection: if the kernel says so,
    /// too, it is requested.
    pub(super) fn held(&mut self, asked: &mut [Asked], held: Held) {
        let Self {
            abroad,
            credentials,
            partners,
            bell,
            ..
        } = self;
        let partner = partners.iter_mut().find(|known| known.pair == held.pair);
        let Some((partner, abroad)) = partner.zip(abroad.as_ref()) else {
            return;
        };
        let Ok(diag) = partner.open(abroad, held.fds) else {
            partner.is_over = true;
            return;
        };
        // an answer that came too late has nobody who asks
        let mut asked = asked.iter_mut().filter(|one| one.number == held.number);
        let waits = |one: &&mut Asked| one.at.is_some_and(|(pair, _)| pair == held.pair);
        let Some(asked) = asked.find(waits).filter(|one| !one.is_claimed) else {
            return;
        };
        let (there, here) = (asked.request.accepted_end, asked.request.connected_end);
        let verified = diag.and_then(|diag| match credentials.look_by(&diag, there, here) {
            Ok(found) => credentials.compare(&found, partner.uid, held.cookie),
            Err(No::Never(reason)) => Err(reason),
            Err(No::Later) => Err(Reason::NotHeld),
        });
        let requested = verified.and_then(|()| {
            asked.request.accepted = held.cookie;
            partner.request(asked, bell)
        });
        match requested {
            Ok(_) => asked.is_claimed = true,
            Err(reason) => {
                asked.blame(Ok(partner.uid));
                asked.turn_over(reason);
            }
        }
    }
}

impl Partner {
    /// What it has given to prove that it holds a socket.
    fn open(&mut self, abroad: &Abroad, fds: Vec<OwnedFd>) -> Result<Result<Diag, Reason>, Broken> {
        let foreign = self.foreign.as_mut().ok_or(Broken)?;
        let (ticket, namespace) = abroad.place.open(fds, &mut foreign.namespace)?;
        Ok(namespace.and_then(|namespace| namespace.diag(ticket)))
    }
}
