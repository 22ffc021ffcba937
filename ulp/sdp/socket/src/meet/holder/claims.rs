//! Claims of connections whose other end is in another network namespace.
//!
//! Owns: the name in the directory, accepted sockets by the number of their ends, and what is
//! checked before a claim is answered. Must not know: what follows, which is as with any peer.

use super::{Guest, HolderService, Sockets, plain, refuse};
use crate::diag::Diag;
use crate::meet::directory::{self, Directory, Door, Left};
use crate::meet::message::{Message, Packet, Reason, Request};
use crate::meet::pair::Broken;
use crate::meet::place::{Namespace, Place};
use crate::meet::{News, No, ends_number};
use crate::own::Own;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Claims of one channel that were found right and not requested so far.
const MOST_PROVEN: usize = 64;

/// What a holder has of a directory.
#[derive(Debug)]
pub(super) struct Abroad {
    door: Door,
    place: Place,
    /// Accepted sockets by [`ends_number`].
    held: BTreeMap<u32, u64>,
}

impl Abroad {
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.door.as_fd()
    }
}

/// A guest who has come by the directory.
#[derive(Default, Debug)]
pub(super) struct Foreign {
    namespace: Option<Result<Namespace, Reason>>,
    /// It has this process's network namespace.
    is_told: bool,
    /// Accepted and connected sockets.
    proven: VecDeque<[u64; 2]>,
}

impl Foreign {
    /// Whether it has proven that it holds these; it does so once.
    pub fn take_proven(&mut self, request: &Request) -> bool {
        let sockets = [request.accepted, request.connected];
        let at = self.proven.iter().position(|proven| *proven == sockets);
        at.and_then(|at| self.proven.remove(at)).is_some()
    }
}

impl HolderService {
    /// Others in other network namespaces can ask by this directory.
    ///
    /// # Errors
    /// As bind(2), listen(2); no /proc.
    pub fn meet(&mut self, at: &'static Directory) -> Result<(), Errno> {
        at.sweep();
        self.abroad = Some(Abroad {
            door: at.listen(&directory::process_name(self.name))?,
            place: Place::new()?,
            held: BTreeMap::new(),
        });
        Ok(())
    }

    /// Nobody asks by the directory from now on. Whoever has asked is served.
    pub fn close_door(&mut self) -> Option<Left> {
        self.abroad.take()?.door.close()
    }

    /// This process has accepted a socket with this number of its ends.
    pub fn holds(&mut self, number: u32, cookie: u64) {
        if let Some(abroad) = &mut self.abroad {
            abroad.held.insert(number, cookie);
        }
    }

    /// The socket is known no more.
    pub fn holds_no_more(&mut self, number: u32, cookie: u64) {
        if let Some(abroad) = &mut self.abroad
            && abroad.held.get(&number) == Some(&cookie)
        {
            abroad.held.remove(&number);
        }
    }

    pub(super) fn claim(
        &self,
        guest: &mut Guest,
        number: u32,
        request: &Request,
        fds: Vec<OwnedFd>,
        sockets: &Sockets<'_>,
        news: &mut Vec<News>,
    ) -> Result<(), Broken> {
        let abroad = self.abroad.as_ref().ok_or(Broken)?;
        let foreign = guest.foreign.as_mut().ok_or(Broken)?;
        let (ticket, namespace) = abroad.place.open(fds, &mut foreign.namespace)?;
        let uid = guest.uid;
        match self.judge_claim(uid, request, namespace, ticket, sockets) {
            Ok(cookie) => {
                if foreign.proven.len() == MOST_PROVEN {
                    foreign.proven.pop_front();
                }
                foreign.proven.push_back([cookie, request.connected]);
                let [own, peer] = [request.accepted_end, request.connected_end];
                let ticket = Diag::ticket(own, peer).map_err(|_| Broken)?;
                let both = [ticket.as_fd(), abroad.place.namespace()];
                let fds = &both[..2 - usize::from(foreign.is_told)];
                foreign.is_told = true;
                let message = Message::Held { cookie };
                let sent = guest.channel.send(&Packet { number, message }, fds);
                sent.map_err(|_| Broken)
            }
            Err(no) => {
                super::note(uid, no, news);
                refuse(guest, number, no)
            }
        }
    }

    /// Whether the kernel says that a connection of this process is the claiming user's at its
    /// other end. Gives this end's cookie.
    fn judge_claim(
        &self,
        uid: u32,
        request: &Request,
        namespace: Result<Namespace, Reason>,
        ticket: Own,
        sockets: &Sockets<'_>,
    ) -> Result<u64, No> {
        let number = ends_number(request.accepted_end, request.connected_end);
        let held = self
            .abroad
            .as_ref()
            .and_then(|abroad| abroad.held.get(&number));
        let cookie = *held.ok_or(No::Never(Reason::NotHeld))?;
        let [own, peer] = sockets(cookie)?.map(plain);
        if [request.accepted_end, request.connected_end].map(plain) != [own, peer] {
            return Err(No::Never(Reason::NotHeld));
        }
        let diag = namespace.and_then(|namespace| namespace.diag(ticket));
        let diag = diag.map_err(No::Never)?;
        let found = self.credentials.look_by(&diag, peer, own)?;
        let compared = self.credentials.compare(&found, uid, request.connected);
        compared.map_err(No::Never)?;
        match self.carried.contains_key(&cookie) {
            true => Err(No::Never(Reason::Already)),
            false => Ok(cookie),
        }
    }
}
