//! How two hosts come to have a tunnel for a TCP connection.
//!
//! Owns: the adapter's connection manager, who is asked and who asks, proofs that go on, the slots
//! of this process's own. Must not know: when a connection is worth it, and what is carried.
//!
//! The connecting side asks the process that listens at the TCP port, from its own TCP port: the
//! request names the TCP connection. The other side looks for the socket with these addresses.
//! Then both prove that they hold it ([`super::Proof`]), and only then have a slot.

use super::{Lost, Peers, Pipe, Proof};
use crate::meet::bells::Bells;
use crate::meet::message::Reason;
use crate::meet::pair::Lender;
use crate::meet::{Met, News, No, Ticket};
use crate::own::Event;
use crate::segment::Role;
use ferriband_ibv::{Choice, Cm, Verbs};
use ferriband_sdp_verbs::Stream;
use ferriband_sdp_verbs::{
    Event as Told, Failed, FlowKind, Key, Listener, Manager, Received, Request,
};
use ferriband_sdp_wire::Refusal;
use rustix::event::PollFlags;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// The pair that this process is with itself, on behalf of other hosts.
pub const FAR: u64 = u64::MAX;

/// Buffers of a stream, and bytes of each: 64 KiB, as a ring.
const BUFFERS: u16 = 8;
const BUFFER_BYTES: u32 = 8192;

/// Connections that are asked for, or are proving, at one time.
const MOST: usize = 1024;

/// How long a host is given for each of its answers. Nothing waits for them: connections are TCP's
/// meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which socket is meant by its own address and its peer's: its cookie, and the timestamp of its
/// SYN.
pub type Find<'a> = &'a dyn Fn(SocketAddr, SocketAddr) -> Result<(u64, u32), Refusal>;

/// Tunnels of a process.
pub struct Hosts {
    manager: Manager,
    peers: &'static Peers,
    flow: FlowKind,
    bell: Arc<Event>,
    listeners: Vec<(u16, Listener)>,
    asked: BTreeMap<Key, Asked>,
    proving: Vec<Proving>,
    lender: Lender,
    /// Of slots that were given out, and whose connection is not looked after so far.
    agreed: Vec<(Ticket, Key, Stream)>,
}

struct Asked {
    cookie: u64,
    stamp: u32,
    until: Duration,
}

struct Proving {
    key: Key,
    stream: Stream,
    proof: Proof,
    cookie: u64,
    role: Role,
    until: Duration,
}

impl Hosts {
    /// Loads the adapter's libraries. None if they, or an adapter, are missing: nobody is asked.
    pub fn new(peers: &'static Peers, flow: FlowKind, bell: Arc<Event>) -> Option<Self> {
        let verbs = Verbs::load(&Choice::from_env().ok()?).ok()?;
        let manager = Manager::new(Cm::load(verbs).ok()?).ok()?;
        Some(Hosts {
            manager,
            peers,
            flow,
            bell,
            listeners: Vec::new(),
            asked: BTreeMap::new(),
            proving: Vec::new(),
            lender: Lender::default(),
            agreed: Vec::new(),
        })
    }

    /// A TCP socket listens here: other hosts may ask.
    pub fn listen(&mut self, at: SocketAddr) {
        let port = at.port();
        if self.listeners.iter().any(|(known, _)| *known == port) {
            return;
        }
        let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let both = at.is_ipv6() && at.ip().is_unspecified();
        for at in [Some(at), both.then_some(four)].into_iter().flatten() {
            let at = SocketAddr::new(at.ip().to_canonical(), port);
            // where nobody can be asked, connections stay TCP
            if let Ok(listener) = self.manager.listen(at, 64) {
                self.listeners.push((port, listener));
            }
        }
    }

    /// No socket listens there any more.
    pub fn close(&mut self, is_open: impl Fn(u16) -> bool) {
        self.listeners.retain(|(port, _)| is_open(*port));
    }

    /// Asks for the connection of a socket with these ends, which are among the peers, and which
    /// had this timestamp.
    ///
    /// # Errors
    /// It stays TCP.
    pub fn ask(
        &mut self,
        [own, peer]: [SocketAddr; 2],
        cookie: u64,
        stamp: u32,
        now: Duration,
    ) -> Result<(), No> {
        let [own, peer] =
            [own, peer].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
        if self.asked.len() + self.proving.len() >= MOST {
            return Err(No::Later);
        }
        let config = self.flow.config(BUFFERS, BUFFER_BYTES);
        let key = self.manager.ask(Some(own), peer, config);
        let key = key.map_err(|_| No::Never(Reason::NoAdapter))?;
        let until = now + PATIENCE;
        self.asked.insert(
            key,
            Asked {
                cookie,
                stamp,
                until,
            },
        );
        Ok(())
    }

    /// Goes on with what is asked. Gives connections whose peer has left.
    pub fn serve(&mut self, now: Duration, find: Find<'_>, news: &mut Vec<News>) -> Vec<Key> {
        let mut ended = Vec::new();
        while let Ok(Some(event)) = self.manager.next_event() {
            match event {
                Told::Asked(request) => self.answer(request, find, now),
                Told::Stands(key, stream) => self.begin(key, *stream, now),
                Told::Failed(key, why) => self.refused(key, why_not(&why), news),
                Told::Established(_) => {}
                Told::Ended(key) => {
                    self.end(key, news);
                    ended.push(key);
                }
            }
        }
        self.prove(now, news);
        let late = self.asked.iter().filter(|(_, asked)| asked.until <= now);
        let late: Vec<Key> = late.map(|(key, _)| *key).collect();
        for key in late {
            self.manager.give_up(key);
            self.refused(key, No::Never(Reason::NoHostAnswers), news);
        }
        ended
    }

    fn answer(&mut self, request: Request, find: Find<'_>, now: Duration) {
        if !self.peers.include(request.to.ip(), request.from.ip()) {
            return request.refuse(Refusal::NotAllowed);
        }
        if self.proving.len() >= MOST {
            return request.refuse(Refusal::NoResources);
        }
        let (cookie, syn) = match find(request.to, request.from) {
            Ok(found) => found,
            Err(why) => return request.refuse(why),
        };
        let config = request.flow().config(BUFFERS, BUFFER_BYTES);
        if let Ok((key, stream)) = self.manager.accept(request, config) {
            self.proving.push(Proving {
                key,
                stream,
                proof: Proof::accepted(syn),
                cookie,
                role: Role::Accepted,
                until: now + PATIENCE,
            });
        }
    }

    fn begin(&mut self, key: Key, stream: Stream, now: Duration) {
        if let Some(asked) = self.asked.remove(&key) {
            self.proving.push(Proving {
                key,
                stream,
                proof: Proof::connected(asked.stamp),
                cookie: asked.cookie,
                role: Role::Connected,
                until: now + PATIENCE,
            });
        }
    }

    fn refused(&mut self, key: Key, why: No, news: &mut Vec<News>) {
        if let Some(Asked { cookie, .. }) = self.asked.remove(&key) {
            let by = None;
            news.push(News::Stays { cookie, why, by });
        }
    }

    fn end(&mut self, key: Key, news: &mut Vec<News>) {
        self.refused(key, No::Never(Reason::NoHostAnswers), news);
        for proving in self.proving.extract_if(.., |proving| proving.key == key) {
            news.push(stays(proving.cookie, Reason::NotProven));
        }
    }

    fn prove(&mut self, now: Duration, news: &mut Vec<News>) {
        let mut proving = std::mem::take(&mut self.proving);
        proving.retain_mut(|one| {
            one.until > now || {
                news.push(stays(one.cookie, Reason::NotProven));
                false
            }
        });
        for mut one in proving {
            let proven = loop {
                match (one.proof.pump(&mut one.stream), one.stream.want()) {
                    (Ok(false), Ok(true)) => {}
                    (proven, Ok(_)) => break proven,
                    (_, Err(Lost)) => break Err(Lost),
                }
            };
            match proven {
                Ok(false) => self.proving.push(one),
                Ok(true) => self.agree(one, news),
                Err(Lost) => news.push(stays(one.cookie, Reason::NotProven)),
            }
        }
    }

    fn agree(&mut self, proven: Proving, news: &mut Vec<News>) {
        let peer = self.bell.as_fd().try_clone_to_owned();
        let peer = peer.and_then(Event::from_fd).ok();
        let (Some(peer), Ok(loan)) = (peer, self.lender.lend()) else {
            return news.push(stays(proven.cookie, Reason::NoMemory));
        };
        let ticket = Ticket {
            pair: FAR,
            segment: loan.number,
            slot: loan.slot,
        };
        self.agreed.push((ticket, proven.key, proven.stream));
        news.push(News::Met(Met {
            cookie: proven.cookie,
            ticket,
            role: proven.role,
            segment: loan.segment,
            peer: Arc::new(Bells::new(peer)),
            is_narrow: true,
        }));
    }

    /// What carries the connection of a slot that was just agreed on.
    pub fn take(&mut self, ticket: Ticket) -> Option<(Key, Stream)> {
        let at = self.agreed.iter().position(|(of, ..)| *of == ticket)?;
        let (_, key, stream) = self.agreed.swap_remove(at);
        Some((key, stream))
    }

    /// Nobody looks at the slot any more.
    pub fn give_back(&mut self, ticket: Ticket) {
        drop(self.take(ticket));
        self.lender.back_here(ticket.segment, ticket.slot);
        let there = self.lender.back_there(ticket.segment, ticket.slot);
        debug_assert_eq!(there, Ok(false), "a slot of this process");
    }

    /// What [`Hosts::serve`] has to be called for.
    pub fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let proving = self.proving.iter().map(|one| one.stream.channel().fd());
        let all = std::iter::once(self.manager.fd()).chain(proving);
        all.map(|descriptor| (descriptor, PollFlags::IN))
    }

    /// When it has to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let asked = self.asked.values().map(|asked| asked.until);
        asked.chain(self.proving.iter().map(|one| one.until)).min()
    }
}

/// What a peer's answer means: it may have too much to do, have the socket later, or listen later,
/// and is asked again then.
fn why_not(why: &Failed) -> No {
    No::Never(match why {
        Failed::Refused(Refusal::NoResources) => return No::Later,
        Failed::Refused(Refusal::NotYet | Refusal::NoSuchSocket) => Reason::NotHeld,
        Failed::Refused(Refusal::NotAllowed) => Reason::NotListedThere,
        Failed::Refused(_) | Failed::Acknowledged(_) => Reason::NoSuchProtocol,
        Failed::Manager(_) => Reason::NoHostAnswers,
        _ => Reason::NoAdapter,
    })
}

fn stays(cookie: u64, reason: Reason) -> News {
    News::Stays {
        cookie,
        why: No::Never(reason),
        by: None,
    }
}

impl Pipe for Stream {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        Stream::send(self, bytes, false).map_err(|_| Lost)
    }

    fn receive(&mut self, to: &mut [u8]) -> Result<usize, Lost> {
        match Stream::receive(self, to) {
            Ok(Received::Bytes(bytes)) => Ok(bytes),
            Ok(Received::Nothing) => Ok(0),
            Ok(Received::End) | Err(_) => Err(Lost),
        }
    }

    fn want(&mut self) -> Result<bool, Lost> {
        while let Ok(Some(_)) = self.channel().next_event() {}
        self.arm(false).map_err(|_| Lost)?;
        let news = self.progress().map_err(|_| Lost)?;
        match self.machine().over() {
            Some(_) if self.machine().readable().is_none() => Err(Lost),
            _ => Ok(news > 0),
        }
    }
}
