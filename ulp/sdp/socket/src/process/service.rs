//! What the service thread knows and does; whoever has the lock does it.
//!
//! Owns: the families of this process's ports, the negotiations, the connections that have a link,
//! closes that have to wait. Must not know: how the thread sleeps.

use super::again::Again;
use super::back::rough;
use super::carried::{Carried, Kept, Slot, ended};
use super::carrying::Carrying;
use super::far::{self, Others, STREAM};
use super::fit::{has_rings, is_urgent, keep_alive, let_be, smooth};
use super::state::{self, State};
use super::thread::start;
use super::{Process, cookie, counters, report, set, socket};
use crate::arena::Taken;
use crate::calls;
use crate::link::Link;
use crate::meet::client::ClientService;
use crate::meet::directory::Left;
use crate::meet::family::Family;
use crate::meet::holder::HolderService;
use crate::meet::report::{Cause, Stranger, Why, count};
use crate::meet::{Met, News, No, ends_number};
use crate::own::{Event, Own};
use crate::ready;
use crate::segment::Role;
use crate::table::Pin;
use ferriband_host::wake;
use ferriband_sdp_local::{Reader, Service as Look, Writer};
use ferriband_sdp_proto::change::Phase;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What an event of a bell is told by; a connection's by its record.
pub(super) const BELL: u64 = u64::MAX;

/// The service of a process.
#[derive(Default)]
pub(super) struct Service {
    /// The thread was started.
    pub is_started: bool,
    /// Sockets of connections, and the bells.
    pub epoll: Option<Own>,
    /// This process's own first, then those of which connections were inherited.
    pub bells: Vec<Arc<Event>>,
    pub families: Vec<Port>,
    pub holder: Option<HolderService>,
    pub client: Option<ClientService>,
    /// When full rings are looked at again.
    pub full: Option<Duration>,
    /// Until when it is taken for known whether the program has an io_uring, and whether it has.
    pub(super) rings: Option<(Duration, bool)>,
    /// Connections that are asked for again without a call of the program's.
    pub(super) again: Again,
    /// Sockets that may be taken over, by their cookies.
    pub(super) known: BTreeMap<u64, Known>,
    /// Connections with a link, by their records' indices.
    pub(super) carried: Carrying,
    /// Slots of connections that this process has closed and other processes hold.
    pub(super) away: Vec<(Taken, Slot)>,
    /// At so many of these all are looked at.
    pub(super) most_away: usize,
    /// Who has spoken for what is not his.
    strangers: Vec<Stranger>,
    /// Connections to other hosts.
    pub(super) others: Others,
    /// Names in a directory that this process has left.
    pub(super) left_names: Vec<Left>,
}

/// A port of this process.
pub(super) struct Port {
    pub family: Family,
    /// Its name in the directory by which other network namespaces ask.
    pub abroad: Option<Family>,
    /// The records of its listeners.
    pub listeners: Vec<u32>,
    /// Open sockets that were accepted there and that peers may ask for.
    pub accepted: usize,
}

impl Port {
    /// What has a name for it.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        std::iter::once(&self.family).chain(&self.abroad)
    }

    /// Whether this is the port's number.
    pub fn is_at(&self, port: u16) -> bool {
        self.family.place().0 == port
    }
}

#[derive(Clone, Copy)]
pub(super) struct Known {
    pub taken: Taken,
    pub number: i32,
    /// Where it was accepted.
    pub port: Option<u16>,
    /// The number of its ends, by which other network namespaces ask.
    pub ends: Option<u32>,
    /// How often its peer was asked again without a call of the program's.
    pub times: u32,
}

impl Service {
    pub fn new() -> Self {
        Self::default()
    }

    /// In a child: what was the parent's goes.
    pub fn forked(&mut self) {
        self.is_started = false;
        self.epoll = None;
        self.holder = None;
        self.client = None;
        self.again.forked();
        self.known.clear();
        self.strangers.clear();
        self.full = None;
        ready::full::forked();
        let carried = std::mem::take(&mut self.carried);
        let kept = carried.into_all().filter_map(|carried| carried.kept);
        kept.for_each(Kept::forked);
        self.away.clear();
        self.others.forked();
        for port in &mut self.families {
            port.family.forked();
            if let Some(abroad) = &mut port.abroad {
                abroad.forked();
            }
            // what was inherited may be asked for, though the child closes the listener
            port.accepted = 1;
        }
    }

    /// Whether the program has an io_uring, by which it reaches its sockets unseen. Looked for
    /// again when it was looked for a hundred times as long ago as that took; one is remembered for
    /// ever.
    pub(super) fn has_rings(&mut self, now: Duration) -> bool {
        match self.rings {
            Some((_, true)) => true,
            Some((until, false)) if now < until => false,
            _ => {
                let begun = wake::now();
                let has = has_rings();
                let took = wake::now().saturating_sub(begun);
                self.rings = Some((now + took * 100, has));
                has
            }
        }
    }

    /// Ports at which this process can be asked.
    #[cfg(test)]
    pub fn ports(&self) -> Vec<u16> {
        let ports = self.families.iter();
        ports.map(|port| port.family.place().0).collect()
    }

    /// Whether a connection gets its link.
    #[cfg(test)]
    pub fn carries(&mut self, process: &'static Process, met: &Met) -> bool {
        let (ticket, role, cookie) = (met.ticket, met.role, met.cookie);
        let slot = Slot {
            ticket,
            role,
            cookie,
        };
        self.carry(process, met, slot).is_some()
    }

    /// Connections that it looks after.
    #[cfg(test)]
    pub fn carried_count(&self) -> usize {
        self.carried.len()
    }

    pub(super) fn own_bell(&self) -> Result<Arc<Event>, Errno> {
        self.bells.first().cloned().ok_or(Errno::NODEV)
    }

    /// A stream listens; gives its port.
    pub fn listen(
        &mut self,
        process: &'static Process,
        pin: &Pin<'_>,
        number: i32,
    ) -> Result<u16, Errno> {
        start(process, self)?;
        let (port, index) = (port_of(number)?, pin.taken().index);
        match self.port(port) {
            Some(known) => known.listeners.push(index),
            None => {
                let family = Family::bind(port)?;
                let abroad = set::meets().map(|at| Family::bind_in(at, port));
                if set::meets_nowhere() || matches!(abroad, Some(Err(_))) {
                    report::note(pin, Why::Cause(Cause::NoDirectory), None);
                }
                self.families.push(Port {
                    family,
                    abroad: abroad.and_then(Result::ok),
                    listeners: vec![index],
                    accepted: 0,
                });
            }
        }
        self.hold(process)?;
        self.listen_to_hosts(number);
        process.ring();
        Ok(port)
    }

    /// Sockets that were accepted at a port, by their cookies, with a number of each.
    pub(super) fn accepted_at(&self, port: u16) -> impl Iterator<Item = (u64, i32)> + '_ {
        let known = self.known.iter();
        let known = known.filter(move |(_, known)| known.port == Some(port));
        known.map(|(cookie, known)| (*cookie, known.number))
    }

    pub(super) fn port(&mut self, port: u16) -> Option<&mut Port> {
        let mut ports = self.families.iter_mut();
        ports.find(|known| known.family.place().0 == port)
    }

    /// The process has a name of its own from now on.
    pub(super) fn hold(&mut self, process: &Process) -> Result<(), Errno> {
        // the kernel remembers whose a name was when it was taken
        if !self.holder.as_ref().is_some_and(HolderService::is_current) {
            let mut holder = HolderService::new(self.own_bell()?)?;
            if let Some(directory) = set::meets() {
                // without it nobody asks from there
                let _ = holder.meet(directory);
            }
            self.holder = Some(holder);
            process.ring();
        }
        Ok(())
    }

    /// A stream was accepted: whoever asks its port's family is sent to this process.
    pub fn accept(&mut self, process: &'static Process, pin: &Pin<'_>, number: i32) {
        let known = start(process, self).and_then(|()| self.hold(process));
        let at = pin.traffic().port.load(Ordering::Relaxed) as u16;
        let (Ok(()), true) = (known, at != 0) else {
            return;
        };
        let Some(name) = self.holder.as_ref().map(HolderService::name) else {
            return;
        };
        let cookie = cookie(number);
        let Some(port) = self.port(at) else {
            return;
        };
        port.family.table().insert(cookie, name);
        port.accepted += 1;
        let ends = port.abroad.as_ref().and_then(|abroad| {
            let [own, peer] = ends_of(number)?;
            let ends = ends_number(own, peer);
            // the later of two is that of a socket that is open
            let time = wake::now().as_secs() + 1;
            abroad.table().insert(time << 32 | u64::from(ends), name);
            Some(ends)
        });
        if let (Some(ends), Some(holder)) = (ends, &mut self.holder) {
            holder.holds(ends, cookie);
        }
        let known = Known {
            taken: pin.taken(),
            number,
            port: Some(at),
            ends,
            times: 0,
        };
        if let Some(old) = self.known.insert(cookie, known) {
            self.forget(process, cookie, old);
        }
        pin.traffic().add(state::SERVED);
    }

    /// The thread's work. `now` is CLOCK_MONOTONIC's.
    pub fn serve(&mut self, process: &'static Process, now: Duration) {
        let mut rung = self.hear_kernel(process);
        for name in std::mem::take(&mut self.left_names) {
            // where a forked process listens on, it stays
            name.remove();
        }
        for port in &mut self.families {
            port.family.serve(now);
            if let Some(abroad) = &mut port.abroad {
                abroad.serve(now);
            }
        }
        let mut news = Vec::new();
        if let Some(mut holder) = self.holder.take() {
            self.has_rings(now);
            holder.serve(now, &|cookie| self.ends(process, cookie), &mut news);
            self.holder = Some(holder);
        }
        for index in process.take_asked() {
            self.ask(process, index, 0, now);
        }
        self.ask_again(process, now);
        if let Some(client) = &mut self.client {
            client.serve(now, &mut news);
        }
        if process.alone.swap(false, Ordering::SeqCst) {
            self.calls_have_ended();
        }
        self.serve_hosts(process, now, &mut news);
        for news in news {
            rung |= matches!(news, News::Rung);
            self.learn(process, news);
        }
        if rung {
            self.hear_peers(process);
        }
        if ready::full::is_watched() && self.full.is_none_or(|at| at <= now) {
            self.full = ready::full::look(|| self.tire(process, now)).map(|left| now + left);
        }
    }

    /// Looks at the rings that somebody waits to send to: how long the first of them is given that
    /// is full.
    fn tire(&self, process: &'static Process, now: Duration) -> Option<Duration> {
        let full = |carried: &Carried| {
            carried.with(process, |link, socket| {
                calls::tire_for_waiters(link.on(socket), now)
            })?
        };
        self.carried.iter().filter_map(|(_, one)| full(one)).min()
    }

    /// Takes what the kernel has to tell. Gives whether a bell was rung.
    fn hear_kernel(&mut self, process: &'static Process) -> bool {
        let mut rung = false;
        let mut events = Vec::<epoll::Event>::with_capacity(64);
        loop {
            events.clear();
            let Some(epoll) = &self.epoll else {
                return rung;
            };
            let none = Timespec::default();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            let heard = epoll::wait(epoll, buffer, Some(&none));
            if !matches!(heard, Ok(1..)) {
                return rung;
            }
            for event in &events {
                match event.data.u64() {
                    BELL => rung = true,
                    stream if stream & STREAM != 0 => self.pump(process, stream as u32),
                    index => self.look(process, index as u32, true),
                }
            }
        }
    }

    /// Looks after whoever peers have told of news.
    fn hear_peers(&mut self, process: &'static Process) {
        for index in self.carried.take_told(process) {
            self.look(process, index, false);
        }
        self.hear_programs(process);
    }

    /// There is news of a connection.
    pub(super) fn look(&mut self, process: &'static Process, index: u32, of_kernel: bool) {
        let is_done = of_kernel && self.look_far(process, index);
        let Some(carried) = self.carried.get_mut(index) else {
            return;
        };
        carried.with(process, |link, socket| {
            let call = link.on(socket);
            match of_kernel {
                true if is_done => {}
                true => Look(&call).look(ended(socket)),
                false => Look(&call).rung(),
            }
        });
        if carried.kept.is_none()
            && let Some(pin) = process.table.pin_taken(carried.taken)
        {
            ready::told(&pin, of_kernel);
        }
        let is_done = |link: &Link<'static>, socket: BorrowedFd<'_>| {
            let call = link.on(socket);
            Writer(&call).phase() == Phase::Done && Reader(&call).is_left()
        };
        if carried.kept.is_none() {
            // the kernel carries it for good: each packet would wake the thread
            if !carried.is_quiet && carried.with(process, is_done) == Some(true) {
                carried.is_quiet = true;
                let (taken, number) = (carried.taken, carried.number);
                self.delete(socket(number));
                if let Some(pin) = process.table.pin_taken(taken) {
                    let_be(&pin, number);
                }
            }
            return;
        }
        if carried.kept.as_ref().is_some_and(Kept::may_close) {
            self.let_go(index);
        }
    }

    fn learn(&mut self, process: &'static Process, news: News) {
        match news {
            News::Met(met) => {
                let slot = Slot {
                    ticket: met.ticket,
                    role: met.role,
                    cookie: met.cookie,
                };
                if self.carry(process, &met, slot).is_none() {
                    self.give_back(Some(slot));
                }
            }
            News::Stays { cookie, why, by } => {
                if let (No::Never(reason), Some(uid)) = (why, by) {
                    count(&mut self.strangers, uid, reason);
                }
                let known = self.known.get(&cookie).copied();
                let pin = known.and_then(|known| process.table.pin_taken(known.taken));
                if let (Some(pin), Some(known)) = (pin, known) {
                    let why_not = match why {
                        No::Later => Why::Cause(Cause::Later),
                        No::Never(reason) => Why::Reason(reason),
                    };
                    report::note(&pin, why_not, by);
                    self.stays(&pin, why, known.times, wake::now());
                }
            }
            News::Stranger { uid, reason } => count(&mut self.strangers, uid, reason),
            News::Status { pair, number, from } => {
                let flow_of = |index| self.others.flow_of(index);
                let answer = report::answer(process, &self.strangers, &flow_of, from);
                if let Some(holder) = &mut self.holder {
                    holder.tell(pair, number, &answer);
                }
            }
            // what such a slot holds is read on, and given back with this side's close
            News::Left(_) | News::Gone { .. } | News::Rung => {}
        }
    }

    /// A connection gets its link. None if it has gone, or cannot have one.
    fn carry(&mut self, process: &'static Process, met: &Met, slot: Slot) -> Option<()> {
        let known = *self.known.get(&met.cookie)?;
        let (taken, number) = (known.taken, known.number);
        let pin = process.table.pin_taken(taken)?;
        if !process.is_still(number, taken.index) || cookie(number) != met.cookie {
            return None;
        }
        let record = process.table.arena().record(taken.index);
        let link = met.link(record, self.own_bell().ok()?).ok()?;
        smooth(&pin, number);
        if far::is_far(slot.ticket) {
            keep_alive(&pin, number);
        }
        let put = || !pin.others_hold() && ready::fits(&pin) && pin.put_link(link).is_ok();
        if !process.table.without_fork(put) {
            rough(&pin, number);
            return None;
        }
        report::clear(&pin);
        if pin.traffic().counts() {
            counters::eligible();
        }
        counters::upgraded();
        self.watch(&pin, number, Some(slot));
        if state::stays(&pin) || is_urgent(number) {
            process.bring_back_now(&pin, number);
        } else if ready::linked(&pin, number)
            && let Some(link) = pin.link()
        {
            // a reader that waits in the kernel offers with its next call
            Reader(&link.on(socket(number))).offer();
        } else {
            report::note(&pin, Why::Cause(Cause::Waiters), None);
        }
        if far::is_far(slot.ticket) {
            self.tunnel(process, &pin, slot.ticket);
        }
        Some(())
    }

    /// This process looks after a connection that has a link.
    pub(super) fn inherit(&mut self, process: &'static Process, pin: &Pin<'_>, number: i32) {
        if start(process, self).is_ok() {
            self.watch(pin, number, None);
        }
    }

    fn watch(&mut self, pin: &Pin<'_>, number: i32, slot: Option<Slot>) {
        let taken = pin.taken();
        let Some(link) = pin.link() else {
            return;
        };
        pin.traffic().add(state::SERVED | state::ASKED);
        self.carried.insert(
            taken.index,
            Carried {
                taken,
                number,
                told: link.where_told(),
                slot,
                kept: None,
                is_quiet: false,
            },
            slot.is_none(),
        );
        self.add(socket(number), taken.index);
    }

    /// From now on the kernel tells of this socket.
    pub(super) fn add(&self, socket: BorrowedFd<'_>, index: u32) {
        if let Some(epoll) = &self.epoll {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let _ = epoll::add(epoll, socket, EventData::new_u64(index.into()), flags);
        }
    }

    pub(super) fn delete(&self, socket: BorrowedFd<'_>) {
        if let Some(epoll) = &self.epoll {
            let _ = epoll::delete(epoll, socket);
        }
    }

    pub(super) fn give_back(&mut self, slot: Option<Slot>) {
        let Some(slot) = slot else {
            return;
        };
        if far::is_far(slot.ticket) {
            self.others.give_back(slot.ticket);
            if let Ok(bell) = self.own_bell() {
                bell.signal();
            }
            return;
        }
        match slot.role {
            Role::Accepted => {
                if let Some(holder) = &mut self.holder {
                    holder.give_back(slot.cookie);
                }
            }
            Role::Connected => {
                if let Some(client) = &mut self.client {
                    client.give_back(slot.ticket);
                }
            }
        }
    }
}

/// A socket's own address, and its peer's.
pub(super) fn ends_of(number: i32) -> Option<[SocketAddr; 2]> {
    let own = rustix::net::getsockname(socket(number)).ok()?;
    let peer = rustix::net::getpeername(socket(number)).ok()??;
    Some([own.try_into().ok()?, peer.try_into().ok()?])
}

fn port_of(number: i32) -> Result<u16, Errno> {
    let address = rustix::net::getsockname(socket(number))?;
    Ok(SocketAddr::try_from(address)?.port())
}
