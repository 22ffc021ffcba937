//! The accepting side: a process's own socket, where others ask for connections that it holds.
//!
//! Owns: the name, the channels of others, the slots that they have. Must not know: the process's
//! sockets, which whoever calls it looks up.

mod claims;

use super::bells::{self, Bells, Receiver};
use super::channel::{self, Channel, Received};
use super::credentials::Credentials;
use super::message::{Message, Name, Packet, Reason, Request};
use super::pair::{self, Broken, Lender};
use super::{Met, News, No, PATIENCE, Ticket};
use crate::own::{Event, Own};
use crate::segment::Role;
use claims::{Abroad, Foreign};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// Channels of others at one time.
const MOST_GUESTS: usize = 4096;
/// Channels of one user who is not this process's.
const MOST_OF_ANOTHER_USER: usize = 512;
/// Channels that are accepted in one call, and messages of one channel that are answered.
const MOST_IN_A_CALL: usize = 64;

/// An accepted socket's own address and its peer's, by its cookie; or why it is not taken over.
pub type Sockets<'a> = dyn Fn(u64) -> Result<[SocketAddr; 2], No> + 'a;

/// The service of a process that accepts connections. A forked child makes one of its own.
#[derive(Debug)]
pub struct HolderService {
    name: Name,
    listener: Own,
    credentials: Credentials,
    /// Tells this process.
    bell: Arc<Event>,
    guests: Vec<Guest>,
    next_pair: u64,
    /// Accepted sockets that have a slot.
    carried: BTreeMap<u64, Ticket>,
    /// Where processes of other network namespaces ask.
    abroad: Option<Abroad>,
}

#[derive(Debug)]
struct Guest {
    pair: u64,
    channel: Channel,
    uid: u32,
    /// It is of this process's user.
    is_own_user: bool,
    /// Where one of another user tells this process.
    receiver: Option<Receiver>,
    lender: Lender,
    /// Tells the peer's process.
    bells: Option<Arc<Bells>>,
    /// The peer has this process's eventfd.
    is_told: bool,
    /// Boxes of this process that the peer has been told of.
    boxes_told: u32,
    /// It is closed at this time if nothing has been agreed by then.
    until: Option<Duration>,
    /// It has come from another network namespace.
    foreign: Option<Foreign>,
}

impl HolderService {
    /// Listens at a new name; `bell` is the eventfd that tells this process.
    ///
    /// # Errors
    /// As socket(2), listen(2), getrandom(2); `sock_diag` cannot be asked.
    pub fn new(bell: Arc<Event>) -> Result<Self, Errno> {
        let mut name = Name([0; 16]);
        let length = getrandom(&mut name.0, GetRandomFlags::empty())?;
        if length != name.0.len() {
            return Err(Errno::IO);
        }
        Ok(Self {
            name,
            listener: channel::listen(&channel::own_address(name)?)?,
            credentials: Credentials::new()?,
            bell,
            guests: Vec::new(),
            next_pair: 0,
            carried: BTreeMap::new(),
            abroad: None,
        })
    }

    /// What a family is told of the sockets that this process accepts.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Whether this process is still the user's that it was: others ask the kernel who that is.
    pub fn is_current(&self) -> bool {
        self.credentials.are_current()
    }

    /// Answers whoever has asked. `now` is CLOCK_MONOTONIC's.
    pub fn serve(&mut self, now: Duration, sockets: &Sockets<'_>, news: &mut Vec<News>) {
        self.accept(now);
        let mut guests = std::mem::take(&mut self.guests);
        guests.retain_mut(|guest| {
            let is_late = guest.until.is_some_and(|until| until <= now);
            let is_over = is_late || self.hear(guest, now, sockets, news).is_err();
            if is_over && guest.until.is_none() {
                news.push(News::Gone { pair: guest.pair });
            }
            !is_over
        });
        self.guests = guests;
    }

    fn accept(&mut self, now: Duration) {
        for _ in 0..MOST_IN_A_CALL {
            let Ok(channel) = channel::accept(self.listener.as_fd()) else {
                break;
            };
            self.welcome(channel, now, None);
        }
        for _ in 0..MOST_IN_A_CALL {
            let door = self.abroad.as_ref().map(Abroad::listener);
            let Some(Ok(channel)) = door.map(channel::accept) else {
                break;
            };
            self.welcome(channel, now, Some(Foreign::default()));
        }
    }

    fn welcome(&mut self, channel: Channel, now: Duration, foreign: Option<Foreign>) {
        let Ok(uid) = channel.uid() else { return };
        let is_own_user = self.credentials.is_own(uid);
        // another user takes nobody's place
        let of_user = self.guests.iter().filter(|guest| guest.uid == uid);
        let is_full = !is_own_user && of_user.count() >= MOST_OF_ANOTHER_USER;
        if is_full || self.guests.len() == MOST_GUESTS {
            return;
        }
        self.guests.push(Guest {
            pair: self.next_pair,
            channel,
            uid,
            is_own_user,
            receiver: None,
            lender: Lender::default(),
            bells: None,
            is_told: false,
            boxes_told: 0,
            until: Some(now + PATIENCE),
            foreign,
        });
        self.next_pair += 1;
    }

    fn hear(
        &mut self,
        guest: &mut Guest,
        now: Duration,
        sockets: &Sockets<'_>,
        news: &mut Vec<News>,
    ) -> Result<(), Broken> {
        for _ in 0..MOST_IN_A_CALL {
            let (packet, fds) = match guest.channel.receive() {
                Received::Packet(packet, fds) => (packet, fds),
                Received::Nothing => break,
                Received::Malformed | Received::Ended => return Err(Broken),
            };
            match packet.message {
                Message::Claim(request) => {
                    self.claim(guest, packet.number, &request, fds, sockets, news)?;
                }
                Message::Request(request) => {
                    match guest.bells {
                        None => guest.bells = Some(pair::bells(fds, guest.is_own_user)?),
                        Some(_) if fds.is_empty() => {}
                        Some(_) => return Err(Broken),
                    }
                    match self.judge(guest, &request, sockets) {
                        Ok(()) => self.agree(guest, packet.number, &request, news)?,
                        Err(no) => {
                            note(guest.uid, no, news);
                            refuse(guest, packet.number, no)?;
                        }
                    }
                }
                Message::Status { from } if fds.is_empty() && guest.may_know() => {
                    // whoever does not read what was said is told no more
                    if guest.channel.has_unsent() {
                        return Err(Broken);
                    }
                    if guest.until.is_some() {
                        guest.until = Some(now + PATIENCE);
                    }
                    let (pair, number) = (guest.pair, packet.number);
                    news.push(News::Status { pair, number, from });
                    // one question at a time
                    break;
                }
                Message::Over { segment, slot } if fds.is_empty() => {
                    let slot = slot.into();
                    if guest.lender.back_there(segment, slot)? {
                        let pair = guest.pair;
                        news.push(News::Left(Ticket {
                            pair,
                            segment,
                            slot,
                        }));
                    }
                }
                Message::Bell { number } => match &guest.bells {
                    Some(bells) => bells.told(number, fds)?,
                    None => return Err(Broken),
                },
                _ => return Err(Broken),
            }
        }
        if guest.receiver.as_ref().is_some_and(Receiver::hear) {
            news.push(News::Rung);
        }
        if guest.is_told && guest.is_own_user {
            bells::tell(&mut guest.channel, &mut guest.boxes_told);
        }
        guest.channel.flush().map_err(|_| Broken)
    }

    /// Whether the asking process holds the other end of a connection of this process.
    fn judge(&self, guest: &mut Guest, request: &Request, sockets: &Sockets<'_>) -> Result<(), No> {
        let ends = sockets(request.accepted)?;
        let [own, peer] = ends.map(plain);
        let asked = [request.accepted_end, request.connected_end].map(plain);
        if asked != [own, peer] {
            return Err(No::Never(Reason::NotTheSocket));
        }
        if let Some(foreign) = &mut guest.foreign {
            if !foreign.take_proven(request) {
                return Err(No::Never(Reason::NotTheSocket));
            }
        } else {
            let found = self.credentials.look(peer, own)?;
            self.credentials
                .compare(&found, guest.uid, request.connected)
                .map_err(No::Never)?;
        }
        match self.carried.contains_key(&request.accepted) {
            true => Err(No::Never(Reason::Already)),
            false => Ok(()),
        }
    }

    fn agree(
        &mut self,
        guest: &mut Guest,
        number: u32,
        request: &Request,
        news: &mut Vec<News>,
    ) -> Result<(), Broken> {
        let loan = match guest.lender.lend() {
            Ok(loan) => loan,
            Err(reason) => return refuse(guest, number, No::Never(reason)),
        };
        let peer = guest.bells.clone().ok_or(Broken)?;
        let (segment, slot) = (loan.number, loan.slot);
        let mut fds = Vec::new();
        if loan.is_new {
            fds.push(loan.segment.as_fd());
        }
        let mut sender = None;
        if !guest.is_told && !guest.is_own_user {
            let (receiver, other) = Receiver::new().map_err(|_| Broken)?;
            guest.receiver = Some(receiver);
            sender = Some(other);
        }
        if !guest.is_told {
            fds.push(sender.as_ref().map_or(self.bell.as_fd(), AsFd::as_fd));
        }
        let at = slot as u32;
        let message = Message::Agreed { segment, slot: at };
        // one that reads so little does not take part
        let sent = guest.channel.send(&Packet { number, message }, &fds);
        sent.map_err(|_| Broken)?;
        guest.is_told = true;
        guest.until = None;
        let ticket = Ticket {
            pair: guest.pair,
            segment,
            slot,
        };
        self.carried.insert(request.accepted, ticket);
        news.push(News::Met(Met {
            cookie: request.accepted,
            ticket,
            role: Role::Accepted,
            segment: loan.segment,
            peer,
            is_narrow: guest.foreign.is_some(),
        }));
        Ok(())
    }

    /// Answers a question after this process's streams.
    pub fn tell(&mut self, pair: u64, number: u32, answer: &[Message]) {
        let mut guests = self.guests.iter_mut();
        let Some(guest) = guests.find(|guest| guest.pair == pair) else {
            return;
        };
        for message in answer {
            let message = *message;
            // who does not read so much is closed with the next call
            if guest
                .channel
                .send(&Packet { number, message }, &[])
                .is_err()
            {
                return;
            }
        }
    }

    /// This side looks at the slot of its socket `cookie` no more.
    pub fn give_back(&mut self, cookie: u64) {
        let Some(ticket) = self.carried.remove(&cookie) else {
            return;
        };
        let mut guests = self.guests.iter_mut();
        // a pair that has ended has no slots
        if let Some(guest) = guests.find(|guest| guest.pair == ticket.pair) {
            guest.lender.back_here(ticket.segment, ticket.slot);
        }
    }

    /// What [`HolderService::serve`] has to be called for.
    pub fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let channels = self.guests.iter().map(|guest| guest.channel.interest());
        let receivers = self
            .guests
            .iter()
            .filter_map(|guest| guest.receiver.as_ref());
        let receivers = receivers.map(|receiver| (receiver.as_fd(), PollFlags::IN));
        let door = self.abroad.as_ref().map(Abroad::listener);
        let listeners = std::iter::once(self.listener.as_fd()).chain(door);
        let listeners = listeners.map(|listener| (listener, PollFlags::IN));
        listeners.chain(channels).chain(receivers)
    }

    /// When [`HolderService::serve`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        self.guests.iter().filter_map(|guest| guest.until).min()
    }
}

impl Guest {
    /// Whether it may know what this process's streams are: its own user, and root, of this network
    /// namespace.
    fn may_know(&self) -> bool {
        self.foreign.is_none() && (self.is_own_user || self.uid == 0)
    }
}

/// Whoever speaks for what is not his is remembered.
fn note(uid: u32, no: No, news: &mut Vec<News>) {
    let deeds = [Reason::NotTheUser, Reason::NotTheSocket, Reason::OtherOwner];
    if let No::Never(reason) = no
        && deeds.contains(&reason)
    {
        news.push(News::Stranger { uid, reason });
    }
}

fn refuse(guest: &mut Guest, number: u32, no: No) -> Result<(), Broken> {
    let message = match no {
        No::Later => Message::Later,
        No::Never(reason) => Message::Refused(reason),
    };
    let sent = guest.channel.send(&Packet { number, message }, &[]);
    sent.map_err(|_| Broken)
}

/// An IPv4 address that a socket of IPv6 has is IPv4, and an interface is none of the address.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
