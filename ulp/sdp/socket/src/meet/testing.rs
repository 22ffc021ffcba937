//! Both sides in one process, and hands that do as they like. Owns: the connections and services of
//! a test.

use super::channel::{Channel, Received};
use super::client::ClientService;
use super::family::Family;
use super::holder::HolderService;
use super::message::{Message, Packet, Reason, Request};
use super::{Met, News, No};
use crate::diag;
use crate::own::Event;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// When a test begins.
pub const NOW: Duration = Duration::from_secs(1000);

/// A program that accepts, and one that connects.
pub struct World {
    pub listener: TcpListener,
    pub family: Option<Family>,
    pub holder: HolderService,
    pub client: ClientService,
    pub accepted: Vec<TcpStream>,
}

pub fn event() -> Arc<Event> {
    Arc::new(Event::new().expect("an eventfd"))
}

pub fn cookie(stream: &TcpStream) -> u64 {
    diag::cookie(stream.as_fd()).expect("a socket")
}

impl World {
    /// Without a family.
    pub fn new() -> Self {
        World {
            listener: TcpListener::bind("127.0.0.1:0").expect("a port"),
            family: None,
            holder: HolderService::new(event()).expect("this kernel tells"),
            client: ClientService::new(event()).expect("this kernel tells"),
            accepted: Vec::new(),
        }
    }

    pub fn with_family() -> Self {
        let mut world = Self::new();
        world.found();
        world
    }

    /// The family begins.
    pub fn found(&mut self) {
        self.family = Some(Family::bind(self.port()).expect("a name"));
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("bound").port()
    }

    /// A connection that the program has accepted; its cookie.
    pub fn connect(&mut self) -> (TcpStream, u64) {
        let here = TcpStream::connect(("127.0.0.1", self.port())).expect("connected");
        let there = self.listener.accept().expect("accepted").0;
        let cookie = cookie(&there);
        if let Some(family) = &self.family {
            family.table().insert(cookie, self.holder.name());
        }
        self.accepted.push(there);
        (here, cookie)
    }

    /// All services do what they can, three times: question and answer and what comes of it.
    pub fn serve(&mut self, now: Duration) -> Vec<News> {
        let mut news = Vec::new();
        for _ in 0..3 {
            self.client.serve(now, &mut news);
            if let Some(family) = &mut self.family {
                family.serve(now);
            }
            self.holder_serves(now, &mut news);
            self.client.serve(now, &mut news);
        }
        news
    }

    pub fn holder_serves(&mut self, now: Duration, news: &mut Vec<News>) {
        let accepted = &self.accepted;
        let sockets = |asked: u64| {
            let found = accepted.iter().find(|stream| cookie(stream) == asked);
            let stream = found.ok_or(No::Never(Reason::NotHeld))?;
            Ok(ends(stream))
        };
        self.holder.serve(now, &sockets, news);
    }

    /// What comes of asking for a connection.
    pub fn ask(&mut self, stream: &TcpStream) -> Vec<News> {
        self.client.ask(stream.as_fd(), NOW).expect("asked");
        self.serve(NOW)
    }
}

/// The accepted side's part, and the connected side's.
pub fn met(news: Vec<News>) -> [Met; 2] {
    let met: Vec<_> = news
        .into_iter()
        .map(|news| match news {
            News::Met(met) => met,
            other => panic!("{other:?}"),
        })
        .collect();
    met.try_into().expect("one of each side")
}

/// The one answer that is none.
pub fn stays(news: &[News]) -> No {
    match news {
        [News::Stays { why, .. }] => *why,
        [News::Gone { .. }, News::Stays { why, .. }] => *why,
        [News::Stays { why, .. }, News::Gone { .. }] => *why,
        other => panic!("{other:?}"),
    }
}

pub fn ends(stream: &TcpStream) -> [SocketAddr; 2] {
    let own = stream.local_addr().expect("one");
    [own, stream.peer_addr().expect("one")]
}

/// What an honest client says of a connection.
pub fn request(connected: &TcpStream, accepted: u64) -> Request {
    let [connected_end, accepted_end] = ends(connected);
    Request {
        connected: cookie(connected),
        accepted,
        connected_end,
        accepted_end,
    }
}

pub fn say(channel: &mut Channel, message: Message, fds: &[BorrowedFd<'_>]) {
    let packet = Packet { number: 5, message };
    channel.send(&packet, fds).expect("sent");
}

pub fn said(channel: &Channel) -> Option<Message> {
    match channel.receive() {
        Received::Packet(packet, _) => Some(packet.message),
        Received::Nothing => None,
        other => panic!("{other:?}"),
    }
}

pub fn is_closed(channel: &Channel) -> bool {
    matches!(channel.receive(), Received::Ended)
}

/// Bytes that mean nothing.
pub fn garbage(channel: &Channel, seed: u64) {
    let mut state = seed | 1;
    let mut bytes = vec![0; 1 + seed as usize * 37 % 300];
    for byte in &mut bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
    rustix::io::write(channel, &bytes).expect("sent");
}
