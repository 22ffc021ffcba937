//! The connecting side: asks a port's families who holds the peer's socket, then the holder.
//!
//! Owns: what is asked at this time, the channels to holders, the slots that they have lent. Must
//! not know: when a connection is worth it. All families of a port are asked at once, so that none
//! can hold up another; the processes that they name are asked one after another. Where one process
//! has accepted at the port before, it is asked first, and no family if it agrees.

mod claims;

use super::bells::{self, Receiver};
use super::channel::{self, Channel, Received};
use super::credentials::Credentials;
use super::family::PLACES;
use super::message::{Message, Name, Packet, Reason, Request};
use super::pair::{Borrower, Broken};
use super::place::means_a_host;
use super::{Met, News, No, PATIENCE, Ticket};
use crate::diag::{self, Holder};
use crate::own::Event;
use crate::segment::Role;
use claims::{Abroad, Foreign};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Connections that are asked for at one time.
const MOST_ASKED: usize = 1024;
/// Ports that are remembered.
const MOST_QUIET: usize = 64;
/// How long a port at which nobody takes part is not asked again.
const QUIET: Duration = Duration::from_secs(1);
/// How long one that is named is waited for while others are named, too.
const TURN: Duration = Duration::from_millis(250);
/// Messages of one channel in one call.
const MOST_MESSAGES: usize = 64;

/// The service of a process that makes connections. A forked child makes one of its own.
#[derive(Debug)]
pub struct ClientService {
    credentials: Credentials,
    /// Tells this process.
    bell: Arc<Event>,
    partners: Vec<Partner>,
    asked: Vec<Asked>,
    quiet: Vec<(Port, Duration)>,
    /// By what processes of other network namespaces are asked.
    abroad: Option<Abroad>,
    next_number: u32,
    next_pair: u64,
}

/// A port, and whether it is in another network namespace.
type Port = (u16, bool);

/// A process that holds accepted sockets.
#[derive(Debug)]
struct Partner {
    pair: u64,
    name: Name,
    uid: u32,
    channel: Channel,
    borrower: Borrower,
    /// It is of this process's user.
    is_own_user: bool,
    /// Where one of another user tells this process.
    receiver: Option<Receiver>,
    /// It has what tells this process.
    is_told: bool,
    /// Boxes of this process that it has been told of.
    boxes_told: u32,
    /// Where it has accepted a connection of this process.
    port: Option<u16>,
    is_over: bool,
    /// It is in another network namespace.
    foreign: Option<Foreign>,
}

/// A connection that is asked for.
#[derive(Debug)]
struct Asked {
    number: u32,
    request: Request,
    /// What the kernel says of the peer's socket; None: it is in another network namespace.
    there: Option<Holder>,
    until: Duration,
    families: Vec<Channel>,
    /// The families are asked only if a process that is known does not hold the socket.
    is_guess: bool,
    names: VecDeque<Name>,
    /// Whose answer is waited for, and until when.
    at: Option<(u64, Duration)>,
    /// What was claimed there was found right, and is requested.
    is_claimed: bool,
    /// Why it stays TCP if nobody agrees.
    reason: Reason,
    /// Another user than the peer's who has given a wrong answer, or none.
    by: Option<u32>,
    outcome: Option<Outcome>,
}

/// How asking for a connection has ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// The news have it.
    Agreed,
    Stays(No),
}

impl ClientService {
    /// `bell` is the eventfd that tells this process.
    ///
    /// # Errors
    /// `sock_diag` cannot be asked.
    pub fn new(bell: Arc<Event>) -> Result<Self, Errno> {
        Ok(Self {
            credentials: Credentials::new()?,
            bell,
            partners: Vec::new(),
            asked: Vec::new(),
            quiet: Vec::new(),
            abroad: None,
            next_number: 0,
            next_pair: 0,
        })
    }

    /// Who this process is, and what the kernel tells it of peers.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Asks for a connection whose connected socket this is. The answer is among the news.
    ///
    /// # Errors
    /// It is certain at once that the connection is not taken over. A later call may have another
    /// answer after [`No::Later`].
    pub fn ask(&mut self, socket: BorrowedFd<'_>, now: Duration) -> Result<(), No> {
        if self.asked.len() == MOST_ASKED {
            return Err(No::Later);
        }
        let [connected_end, accepted_end] =
            ends(socket).map_err(|_| No::Never(Reason::NotEstablished))?;
        let there = match self.credentials.look(accepted_end, connected_end) {
            Err(No::Never(Reason::Elsewhere)) if self.abroad.is_some() => {
                if ![accepted_end, connected_end].into_iter().all(means_a_host) {
                    return Err(No::Never(Reason::Elsewhere));
                }
                None
            }
            there => Some(there?),
        };
        let port = (accepted_end.port(), there.is_none());
        self.quiet.retain(|(_, until)| now < *until);
        if self.quiet.iter().any(|(quiet, _)| *quiet == port) {
            return Err(No::Never(nobody(port)));
        }
        let request = Request {
            connected: diag::cookie(socket).map_err(|_| No::Never(Reason::NoDiag))?,
            accepted: there.map_or(0, |there| there.cookie),
            connected_end,
            accepted_end,
        };
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let guess = self.guess(port);
        let mut asked = Asked {
            number,
            request,
            there,
            until: now + PATIENCE,
            families: Vec::new(),
            is_guess: guess.is_some(),
            names: guess.into_iter().collect(),
            at: None,
            is_claimed: false,
            reason: Reason::NotHeld,
            by: None,
            outcome: None,
        };
        if guess.is_none() {
            asked.families = self.families_of(&asked, now)?;
        }
        self.step(&mut asked, now);
        if let Some(Outcome::Stays(no)) = asked.outcome {
            return Err(no);
        }
        self.asked.push(asked);
        Ok(())
    }

    /// The process that has accepted at this port before, if it is one.
    fn guess(&self, (port, is_abroad): Port) -> Option<Name> {
        let is_there = |partner: &&Partner| {
            let is_at = partner.port == Some(port) && partner.foreign.is_some() == is_abroad;
            is_at && !partner.is_over
        };
        let mut known = self.partners.iter().filter(is_there);
        match (known.next(), known.next()) {
            (Some(only), None) => Some(only.name),
            _ => None,
        }
    }

    /// The families of a connection's port, each asked.
    fn families_of(&mut self, asked: &Asked, now: Duration) -> Result<Vec<Channel>, No> {
        let (families, is_busy) = self.ask_families(asked);
        if !families.is_empty() {
            return Ok(families);
        }
        if is_busy {
            return Err(No::Later);
        }
        if self.quiet.len() == MOST_QUIET {
            self.quiet.remove(0);
        }
        let port = (asked.request.accepted_end.port(), asked.there.is_none());
        self.quiet.push((port, now + QUIET));
        Err(No::Never(nobody(port)))
    }

    fn ask_families(&self, asked: &Asked) -> (Vec<Channel>, bool) {
        let request = &asked.request;
        let port = request.accepted_end.port();
        match asked.there {
            None => self.families_abroad(asked),
            Some(_) => families(asked.number, request.accepted, |place| {
                Channel::connect(&channel::family_address(port, place)?)
            }),
        }
    }

    /// Goes on with what is asked. `now` is CLOCK_MONOTONIC's.
    pub fn serve(&mut self, now: Duration, news: &mut Vec<News>) {
        let mut asked = std::mem::take(&mut self.asked);
        let mut held = Vec::new();
        for partner in &mut self.partners {
            partner.hear(&mut asked, news, &mut held);
        }
        for held in held {
            self.held(&mut asked, held);
        }
        for one in &mut asked {
            one.hear_families();
            self.step(one, now);
        }
        asked.retain(|one| {
            if let Some(Outcome::Stays(why)) = one.outcome {
                let cookie = one.request.connected;
                let by = one.by;
                news.push(News::Stays { cookie, why, by });
            }
            one.outcome.is_none()
        });
        self.asked = asked;
        self.partners.retain(|partner| {
            if partner.is_over && !partner.borrower.is_empty() {
                news.push(News::Gone { pair: partner.pair });
            }
            !partner.is_over
        });
    }

    fn step(&mut self, asked: &mut Asked, now: Duration) {
        if let Some((pair, until)) = asked.at {
            let is_there = |partner: &Partner| partner.pair == pair && !partner.is_over;
            if !self.partners.iter().any(is_there) {
                asked.turn_over(Reason::Broken);
            } else if until <= now && asked.has_others() {
                asked.turn_over(Reason::NoAnswer);
            }
        }
        while asked.outcome.is_none() && asked.at.is_none() {
            let Some(name) = asked.names.pop_front() else {
                break;
            };
            match self.request(asked, name) {
                Ok(pair) => asked.at = Some((pair, now + TURN)),
                Err(reason) => asked.reason = reason,
            }
        }
        if asked.outcome.is_none() && asked.at.is_none() && asked.is_guess {
            asked.is_guess = false;
            asked.families = self.ask_families(asked).0;
        }
        let is_out = asked.at.is_none() && asked.families.is_empty();
        if asked.outcome.is_some() {
            return;
        }
        if is_out {
            asked.outcome = Some(Outcome::Stays(No::Never(asked.reason)));
        } else if asked.until <= now {
            for at in 0..asked.families.len() {
                asked.blame(asked.families[at].uid());
            }
            asked.outcome = Some(Outcome::Stays(No::Never(Reason::NoAnswer)));
        }
    }

    /// Asks the process with this name; gives the pair's number.
    fn request(&mut self, asked: &mut Asked, name: Name) -> Result<u64, Reason> {
        let Some(there) = asked.there else {
            return self.claim(asked, name);
        };
        let known = |partner: &Partner| {
            partner.name == name && partner.foreign.is_none() && !partner.is_over
        };
        let at = match self.partners.iter().position(known) {
            Some(at) => at,
            None => {
                let channel = channel::own_address(name).and_then(|at| Channel::connect(&at));
                let channel = channel.map_err(|_| Reason::NotHeld)?;
                let uid = channel.uid().map_err(|_| Reason::UnknownUser)?;
                asked.blame(Ok(uid));
                self.credentials
                    .compare(&there, uid, asked.request.accepted)?;
                let is_own_user = self.credentials.is_own(uid);
                let partner = Partner::new(self.next_pair, name, uid, is_own_user, channel);
                self.partners.push(partner);
                self.next_pair += 1;
                self.partners.len() - 1
            }
        };
        let partner = &mut self.partners[at];
        self.credentials
            .compare(&there, partner.uid, asked.request.accepted)?;
        partner.request(asked, &self.bell)
    }

    /// This side looks at a slot no more.
    pub fn give_back(&mut self, ticket: Ticket) {
        let mut partners = self.partners.iter_mut();
        // a pair that has ended has no slots
        if let Some(partner) = partners.find(|partner| partner.pair == ticket.pair) {
            partner.borrower.back(ticket.segment, ticket.slot);
            partner.over(ticket.segment, ticket.slot as u32);
        }
    }

    /// What [`ClientService::serve`] has to be called for.
    pub fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let families = self.asked.iter().flat_map(|asked| &asked.families);
        let partners = self.partners.iter().map(|partner| &partner.channel);
        let receivers = self
            .partners
            .iter()
            .filter_map(|partner| partner.receiver.as_ref());
        let receivers = receivers.map(|receiver| (receiver.as_fd(), PollFlags::IN));
        families
            .chain(partners)
            .map(Channel::interest)
            .chain(receivers)
    }

    /// When [`ClientService::serve`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let first = |asked: &Asked| match asked.at {
            Some((_, turn)) if asked.has_others() => turn.min(asked.until),
            _ => asked.until,
        };
        self.asked.iter().map(first).min()
    }
}

impl Partner {
    fn new(pair: u64, name: Name, uid: u32, is_own_user: bool, channel: Channel) -> Self {
        Self {
            pair,
            name,
            uid,
            channel,
            borrower: Borrower::new(is_own_user),
            is_own_user,
            receiver: None,
            is_told: false,
            boxes_told: 0,
            port: None,
            is_over: false,
            foreign: None,
        }
    }

    /// Requests a connection; gives the pair's number.
    fn request(&mut self, asked: &Asked, bell: &Event) -> Result<u64, Reason> {
        let packet = Packet {
            number: asked.number,
            message: Message::Request(asked.request),
        };
        let mut sender = None;
        if !self.is_told && !self.is_own_user {
            let (receiver, other) = Receiver::new().map_err(|_| Reason::NoMemory)?;
            self.receiver = Some(receiver);
            sender = Some(other);
        }
        let bell = [sender.as_ref().map_or(bell.as_fd(), AsFd::as_fd)];
        let fds = if self.is_told { &[][..] } else { &bell[..] };
        if self.channel.send(&packet, fds).is_err() {
            self.is_over = true;
            return Err(Reason::NoAnswer);
        }
        self.is_told = true;
        Ok(self.pair)
    }

    fn over(&mut self, segment: u32, slot: u32) {
        let packet = Packet {
            number: 0,
            message: Message::Over { segment, slot },
        };
        self.is_over |= self.channel.send(&packet, &[]).is_err();
    }

    fn hear(&mut self, asked: &mut [Asked], news: &mut Vec<News>, held: &mut Vec<Held>) {
        for _ in 0..MOST_MESSAGES {
            let (packet, fds) = match self.channel.receive() {
                Received::Packet(packet, fds) => (packet, fds),
                Received::Nothing => break,
                Received::Malformed | Received::Ended => {
                    self.is_over = true;
                    return;
                }
            };
            // an answer that came too late has nobody who asks
            let mut asked = asked.iter_mut().filter(|one| one.number == packet.number);
            let asked = asked.find(|one| one.at.is_some_and(|(pair, _)| pair == self.pair));
            match (packet.message, asked) {
                (Message::Agreed { segment, slot }, asked) => {
                    let mut asked = asked;
                    if self.foreign.is_some()
                        && let Some(asked) = asked.as_mut().filter(|asked| !asked.is_claimed)
                    {
                        // without what the kernel could tell the truth by
                        asked.blame(Ok(self.uid));
                        self.is_over = true;
                        return;
                    }
                    let Ok((memory, peer)) = self.borrower.borrow(segment, slot.into(), fds) else {
                        self.is_over = true;
                        return;
                    };
                    let ticket = Ticket {
                        pair: self.pair,
                        segment,
                        slot: slot.into(),
                    };
                    let Some(asked) = asked else {
                        self.borrower.back(segment, slot.into());
                        self.over(segment, slot);
                        continue;
                    };
                    asked.at = None;
                    self.port = Some(asked.request.accepted_end.port());
                    asked.outcome = Some(Outcome::Agreed);
                    news.push(News::Met(Met {
                        cookie: asked.request.connected,
                        ticket,
                        role: Role::Connected,
                        segment: memory,
                        peer,
                        is_narrow: self.foreign.is_some(),
                    }));
                }
                (Message::Held { cookie }, _) if self.foreign.is_some() => held.push(Held {
                    pair: self.pair,
                    number: packet.number,
                    cookie,
                    fds,
                }),
                (Message::Refused(reason), Some(asked)) if fds.is_empty() => {
                    asked.turn_over(reason);
                }
                (Message::Later, Some(asked)) if fds.is_empty() => {
                    asked.at = None;
                    asked.outcome = Some(Outcome::Stays(No::Later));
                }
                (Message::Refused(_) | Message::Later, None) if fds.is_empty() => {}
                (Message::Bell { number }, _) => {
                    let bells = self.borrower.bells().ok_or(Broken);
                    if bells.and_then(|bells| bells.told(number, fds)).is_err() {
                        self.is_over = true;
                        return;
                    }
                }
                _ => {
                    self.is_over = true;
                    return;
                }
            }
        }
        if self.receiver.as_ref().is_some_and(Receiver::hear) {
            news.push(News::Rung);
        }
        if !self.borrower.is_empty() && self.is_own_user {
            bells::tell(&mut self.channel, &mut self.boxes_told);
        }
        self.is_over |= self.channel.flush().is_err();
    }
}

impl Asked {
    fn turn_over(&mut self, reason: Reason) {
        self.at = None;
        self.reason = reason;
    }

    /// Somebody else can be asked.
    fn has_others(&self) -> bool {
        self.is_guess || !self.names.is_empty()
    }

    /// Remembers a user who is in the way, if he is another one than the peer's.
    fn blame(&mut self, uid: Result<u32, Errno>) {
        let is_peer = |uid: &u32| self.there.is_some_and(|there| there.uid == *uid);
        self.by = uid.ok().filter(|uid| !is_peer(uid)).or(self.by);
    }

    /// Takes what the families say. None is asked twice.
    fn hear_families(&mut self) {
        let mut families = std::mem::take(&mut self.families);
        families.retain(|family| {
            let message = match family.receive() {
                Received::Nothing => return true,
                Received::Ended => return false,
                Received::Packet(packet, fds) if fds.is_empty() && packet.number == self.number => {
                    Some(packet.message)
                }
                _ => None,
            };
            match message {
                Some(Message::At(name)) => self.names.push_back(name),
                Some(Message::Nowhere) => {}
                _ => {
                    self.reason = Reason::Nonsense;
                    self.blame(family.uid());
                }
            }
            false
        });
        self.families = families;
    }
}

/// A partner says that it holds an accepted socket.
struct Held {
    pair: u64,
    /// Of the question.
    number: u32,
    cookie: u64,
    fds: Vec<OwnedFd>,
}

/// Why nobody is asked at a port.
fn nobody((_, is_abroad): Port) -> Reason {
    match is_abroad {
        true => Reason::NobodyMeets,
        false => Reason::Nobody,
    }
}

/// The families at a port's places, each asked; and whether one could not be.
fn families(
    number: u32,
    cookie: u64,
    connect: impl Fn(u8) -> Result<Channel, Errno>,
) -> (Vec<Channel>, bool) {
    let message = Message::Ask { cookie };
    let ask = |place| {
        let mut family = connect(place)?;
        family.send(&Packet { number, message }, &[])?;
        Ok::<_, Errno>(family)
    };
    let (mut asked, mut is_busy) = (Vec::new(), false);
    for place in 0..PLACES {
        match ask(place) {
            Ok(family) => asked.push(family),
            Err(Errno::CONNREFUSED) => {}
            Err(_) => is_busy = true,
        }
    }
    (asked, is_busy)
}

/// A socket's own address and its peer's.
fn ends(socket: BorrowedFd<'_>) -> Result<[SocketAddr; 2], Errno> {
    let own = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    let peer = rustix::net::getpeername(socket)?;
    let peer = peer.ok_or(Errno::NOTCONN)?;
    Ok([own, SocketAddr::try_from(peer)?])
}

#[cfg(test)]
mod tests;
