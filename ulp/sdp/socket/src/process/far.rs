//! Connections by queue pairs, to other hosts and on this one, as the service looks after them.
//!
//! Owns: the tunnel of each, and when it goes on. Must not know: what a tunnel says, and how two
//! hosts agree on one.

use super::back::Receivers;
use super::carried::{Carried, ended};
use super::service::{Service, ends_of};
use super::{Process, cookie, set, socket};
use crate::calls;
use crate::link::{Call, Told};
use crate::meet::message::Reason;
use crate::meet::{News, No, Ticket};
use crate::table::Pin;
use crate::tunnel::hosts::{FAR, Hosts};
use crate::tunnel::{Tunnel, save_syns, saved_stamp};
use ferriband_host::wake;
use ferriband_sdp_local::{Reader, Service as Look, Writer};
use ferriband_sdp_verbs::{FlowKind, Key, Stream};
use ferriband_sdp_wire::Refusal;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An event of a tunnel's stream is told by this and the index of its record.
pub(super) const STREAM: u64 = 1 << 32;

/// When TCP is looked at again that its reader has not read up to the change.
const AGAIN: Duration = Duration::from_millis(5);

/// What the service has of other hosts.
#[derive(Default)]
pub(super) struct Others {
    hosts: Option<Hosts>,
    /// No adapter is to be had: nobody is asked.
    without: bool,
    /// Where the program listens since the thread has last looked.
    listens: Vec<SocketAddr>,
    /// Connections that are asked for once the adapter is open.
    waiting: Vec<Waiting>,
    tunnels: BTreeMap<u32, Far>,
    /// Tunnels that nobody looks after any more. The service thread destroys them: the adapter's
    /// library is its alone ([`super::forks`]).
    left: Vec<Far>,
}

/// A connection that waits for the adapter.
struct Waiting {
    ends: [SocketAddr; 2],
    cookie: u64,
    stamp: u32,
}

struct Far {
    ticket: Ticket,
    key: Key,
    tunnel: Tunnel<Stream>,
    /// Where this side's program tells of it.
    told: Told,
    again: Option<Duration>,
}

impl Others {
    /// In a child: queue pairs are the parent's, and nothing of them is touched here.
    pub fn forked(&mut self) {
        std::mem::forget(std::mem::take(self));
    }

    /// When the service has to look at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let hosts = self.hosts.as_ref().and_then(Hosts::deadline);
        let again = self.tunnels.values().filter_map(|far| far.again);
        again.chain(hosts).min()
    }

    /// What agrees with other hosts.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref()
    }

    /// The flow control of the queue pairs that carry a connection, by its record's index.
    pub fn flow_of(&self, index: u32) -> Option<FlowKind> {
        self.tunnels.get(&index).map(|far| far.tunnel.pipe().flow())
    }

    /// Whether somebody is to be reached by an adapter, which is not open so far.
    fn needs_adapter(&self) -> bool {
        let is_wanted = !self.listens.is_empty() || !self.waiting.is_empty();
        is_wanted && self.hosts.is_none() && !self.without
    }

    /// Nobody looks at the slot any more. The service thread is to be woken.
    pub fn give_back(&mut self, ticket: Ticket) {
        let mut tunnels = self.tunnels.iter();
        let found = tunnels.find(|(_, far)| far.ticket == ticket);
        let index = found.map(|(index, _)| *index);
        let left = index.and_then(|index| self.tunnels.remove(&index));
        self.left.extend(left);
        if let Some(hosts) = &mut self.hosts {
            hosts.give_back(ticket);
        }
    }
}

impl Service {
    /// A stream listens, as other hosts are to know.
    pub(super) fn listen_to_hosts(&mut self, number: i32) {
        let at = rustix::net::getsockname(socket(number)).map(SocketAddr::try_from);
        if let (Some(_), Ok(Ok(at))) = (set::hosts(), at) {
            save_syns(socket(number));
            self.others.listens.push(at);
        }
    }

    /// Asks for a connection by queue pairs.
    pub(super) fn ask_host(&mut self, pin: &Pin<'_>, number: i32, now: Duration) -> Result<(), No> {
        let ends = ends_of(number).ok_or(No::Never(Reason::NotEstablished))?;
        let peers = set::hosts().map(|(peers, _)| peers);
        if !peers.is_some_and(|peers| peers.include(ends[0].ip(), ends[1].ip())) {
            return Err(No::Never(Reason::NotListed));
        }
        let stamp = pin.traffic().stamp.load(Ordering::Relaxed);
        if stamp == 0 {
            return Err(No::Never(Reason::NoStamp));
        }
        let cookie = cookie(number);
        match &mut self.others.hosts {
            Some(hosts) => return hosts.ask(ends, cookie, stamp, now),
            None if self.others.without => return Err(No::Never(Reason::NoAdapter)),
            None => {}
        }
        let waiting = Waiting {
            ends,
            cookie,
            stamp,
        };
        self.others.waiting.push(waiting);
        Ok(())
    }

    /// Goes on with other hosts.
    pub(super) fn serve_hosts(
        &mut self,
        process: &'static Process,
        now: Duration,
        news: &mut Vec<News>,
    ) {
        self.others.left.clear();
        if self.others.needs_adapter() {
            return;
        }
        let listens = std::mem::take(&mut self.others.listens);
        let waiting = std::mem::take(&mut self.others.waiting);
        let Some(mut hosts) = self.others.hosts.take() else {
            let why = No::Never(Reason::NoAdapter);
            news.extend(waiting.into_iter().map(|one| one.stays(why)));
            return;
        };
        listens.into_iter().for_each(|at| hosts.listen(at));
        for one in waiting {
            if let Err(why) = hosts.ask(one.ends, one.cookie, one.stamp, now) {
                news.push(one.stays(why));
            }
        }
        let find = |own, peer| self.find(process, own, peer);
        let left = hosts.serve(now, &find, news);
        let is_open = |port| self.families.iter().any(|known| known.is_at(port));
        hosts.close(is_open);
        self.others.hosts = Some(hosts);
        let tunnels = self.others.tunnels.iter();
        let left = tunnels.filter(|(_, far)| left.contains(&far.key));
        let left: Vec<u32> = left.map(|(index, _)| *index).collect();
        for index in left {
            self.with_tunnel(process, index, |far, call| far.tunnel.lose(call));
        }
        let due = self.others.tunnels.iter();
        let due = due.filter(|(_, far)| far.again.is_some_and(|again| again <= now));
        let due: Vec<u32> = due.map(|(index, _)| *index).collect();
        for index in due {
            self.look(process, index, true);
        }
    }

    /// The accepted socket with these ends: its cookie, and the timestamp of its SYN.
    fn find(
        &self,
        process: &'static Process,
        own: SocketAddr,
        peer: SocketAddr,
    ) -> Result<(u64, u32), Refusal> {
        let plain = |end: SocketAddr| (end.ip().to_canonical(), end.port());
        for (cookie, number) in self.accepted_at(own.port()) {
            match self.ends(process, cookie) {
                Ok(ends) if ends.map(plain) == [own, peer].map(plain) => {
                    let syn = saved_stamp(socket(number)).ok_or(Refusal::NotAllowed)?;
                    return Ok((cookie, syn));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Err(Refusal::NoSuchSocket)
    }

    /// A connection has a slot of this process's own: its tunnel begins.
    pub(super) fn tunnel(&mut self, process: &'static Process, pin: &Pin<'_>, ticket: Ticket) {
        let index = pin.taken().index;
        let hosts = self.others.hosts.as_mut();
        let taken = hosts.and_then(|hosts| hosts.take(ticket));
        let (Some((key, stream)), Some(link)) = (taken, pin.link()) else {
            return;
        };
        if let Some(epoll) = &self.epoll {
            let events = EventFlags::IN | EventFlags::ET;
            let data = EventData::new_u64(STREAM | u64::from(index));
            let _ = epoll::add(epoll, stream.channel().fd(), data, events);
        }
        let far = Far {
            ticket,
            key,
            tunnel: Tunnel::new(stream),
            told: link.where_peer_told(),
            again: None,
        };
        self.others.tunnels.insert(index, far);
        self.pump(process, index);
    }

    /// There is news of a tunnel's stream, or of its slot.
    pub(super) fn pump(&mut self, process: &'static Process, index: u32) {
        self.with_tunnel(process, index, |far, call| far.tunnel.pump(call));
    }

    fn with_tunnel(
        &mut self,
        process: &'static Process,
        index: u32,
        does: impl FnOnce(&mut Far, Call<'_, '_>),
    ) {
        let carried = self.carried.get(index);
        let (Some(far), Some(carried)) = (self.others.tunnels.get_mut(&index), carried) else {
            return;
        };
        carried.with(process, |link, socket| {
            let call = link.on(socket);
            does(far, call);
            // with all that follows from what TCP tells, its end too
            if far.tunnel.looks() {
                far.again = Some(Duration::ZERO);
            }
        });
    }

    /// The kernel has told of the socket of a connection to another host. False if it is none.
    pub(super) fn look_far(&mut self, process: &'static Process, index: u32) -> bool {
        let carried = self.carried.get(index);
        let (Some(far), Some(carried)) = (self.others.tunnels.get_mut(&index), carried) else {
            return false;
        };
        carried.with(process, |link, socket| {
            let call = link.on(socket);
            // first: what comes behind it is told of by the kernel again
            let told = ended(socket);
            far.look(call, told);
            let told = if far.tunnel.ends_with_tcp() { told } else { 0 };
            Look(&call).look(told);
        });
        true
    }

    /// Looks after the tunnels of whoever has told of news.
    pub(super) fn hear_programs(&mut self, process: &'static Process) {
        let tunnels = self.others.tunnels.iter();
        let told = tunnels.filter(|(_, far)| far.take_told());
        let told: Vec<u32> = told.map(|(index, _)| *index).collect();
        for index in told {
            self.pump(process, index);
        }
    }

    /// Numbers of the connections to other hosts.
    fn far_numbers(&self) -> Vec<i32> {
        let carried = |index: &u32| self.carried.get(*index).map(Carried::number);
        let numbers = self.others.tunnels.keys().filter_map(carried);
        numbers.filter(|number| *number >= 0).collect()
    }

    /// The last number of a connection's socket is about to be closed: what says there that the
    /// peer has gone back is no byte that was left unread.
    pub(super) fn look_at_last(&mut self, index: u32, call: Call<'_, '_>) {
        if let Some(far) = self.others.tunnels.get_mut(&index) {
            far.look(call, 0);
        }
    }

    /// Nobody looks after the connection of this record any more. Its slot stays. The service
    /// thread is to be woken.
    pub(super) fn drop_tunnel(&mut self, index: u32) {
        let left = self.others.tunnels.remove(&index);
        self.others.left.extend(left);
    }
}

impl Waiting {
    fn stays(&self, why: No) -> News {
        News::Stays {
            cookie: self.cookie,
            why,
            by: None,
        }
    }
}

impl Far {
    fn take_told(&self) -> bool {
        let (word, bit) = (self.told.word(), 1 << self.told.slot());
        word.load(Ordering::SeqCst) & bit != 0 && word.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }

    fn look(&mut self, call: Call<'_, '_>, ended: u64) {
        let again = self.tunnel.look(call, ended);
        self.again = again.then(|| wake::now() + AGAIN);
    }
}

impl Process {
    /// Opens the adapter, if somebody is to be reached by it. False if there is nothing to be done.
    /// The service thread's; it may take long, and calls of the program go on meanwhile.
    pub(super) fn opens_adapter(&'static self) -> bool {
        let service = self.served();
        let bell = service.bells.first().cloned();
        let (true, Some(bell)) = (service.others.needs_adapter(), bell) else {
            return false;
        };
        drop(service);
        let hosts = set::hosts().and_then(|(peers, flow)| Hosts::new(peers, *flow, bell));
        let mut service = self.served();
        service.others.without = hosts.is_none();
        service.others.hosts = hosts;
        true
    }

    /// Before this process ends, or is another program: what other hosts have not got goes by TCP.
    /// One that `ends` closes its sockets with it.
    pub fn before_end(&'static self, ends: bool) {
        if set::hosts().is_none() {
            return;
        }
        let numbers = self.served().far_numbers();
        for number in numbers {
            if let Some(pin) = self.pin(number)
                && let Some(link) = pin.link()
            {
                let call = link.on(socket(number));
                let writer = Writer(&call);
                let until = wake::now() + super::back::BRIEFLY;
                while !writer.go_back() && !writer.is_interrupted() && wake::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if ends && !pin.others_hold() && !Reader(&call).leaves_unread() {
                    calls::end_first(call);
                }
            }
        }
    }

    /// Before a fork: connections to other hosts are TCP's, for queue pairs do not survive one.
    pub(super) fn before_fork(&'static self) {
        if set::hosts().is_none() {
            return;
        }
        let numbers = self.served().far_numbers();
        let until = wake::now() + super::back::BRIEFLY;
        for number in numbers {
            self.only_by_kernel_until(number, until, Receivers::Seen);
        }
    }
}

/// A connection to another host that cannot be left to others as it is ends, as by a reset of the
/// peer's.
pub(super) fn reset(number: i32) {
    // what is to be told is the socket's error
    let _ = rustix::net::connect_unspec(socket(number));
}

/// Whether a connection stays on this host, and the user wants it by queue pairs.
pub(super) fn is_asked_for_here(number: i32) -> bool {
    set::hosts().is_some_and(|(peers, _)| {
        ends_of(number).is_some_and(|[own, peer]| peers.are_here(own.ip(), peer.ip()))
    })
}

/// Whether a slot is that of a connection to another host.
pub(super) fn is_far(ticket: Ticket) -> bool {
    ticket.pair == FAR
}
