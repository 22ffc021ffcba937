//! What the service thread knows and does; whoever has the lock does it.
//!
//! Owns: the families of this process's ports, the negotiations, the connections that have a link,
//! closes that have to wait. Must not know: how the thread sleeps.

use super::carried::{Carried, Kept, Slot, ended};
use super::far::{self, Others, STREAM};
use super::fit::{fit, has_rings, smooth};
use super::state::{self, State};
use super::thread::start;
use super::{Process, cookie, counters, socket};
use crate::arena::Taken;
use crate::calls;
use crate::meet::client::ClientService;
use crate::meet::family::Family;
use crate::meet::holder::HolderService;
use crate::meet::message::Reason;
use crate::meet::{Met, News, No};
use crate::own::{Event, Own};
use crate::ready;
use crate::segment::Role;
use crate::table::{Last, Left, Pin};
use ferriband_host::wake;
use ferriband_sdp_local::{CONNECTION_OVER, PEER_ENDED, Reader, Service as Look};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
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
    /// Until when it is taken for known whether the program has an io_uring, and whether it has.
    rings: Option<(Duration, bool)>,
    /// Sockets that may be taken over, by their cookies.
    known: BTreeMap<u64, Known>,
    /// Connections with a link, by their records' indices.
    pub carried: BTreeMap<u32, Carried>,
    /// Connections to other hosts.
    pub others: Others,
}

/// A port of this process.
pub(super) struct Port {
    pub family: Family,
    /// The records of its listeners.
    listeners: Vec<u32>,
    /// Open sockets that were accepted there and that peers may ask for.
    accepted: usize,
}

impl Port {
    /// Whether this is the port's number.
    pub fn is_at(&self, port: u16) -> bool {
        self.family.place().0 == port
    }
}

#[derive(Clone, Copy)]
struct Known {
    taken: Taken,
    number: i32,
    /// Where it was accepted.
    port: Option<u16>,
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
        self.known.clear();
        self.carried.clear();
        self.others.forked();
        for port in &mut self.families {
            port.family.forked();
            // what was inherited may be asked for, though the child closes the listener
            port.accepted = 1;
        }
    }

    /// Whether the program has an io_uring, by which it reaches its sockets unseen. Looked for
    /// again when it was looked for a hundred times as long ago as that took; one is remembered for
    /// ever.
    fn has_rings(&mut self, now: Duration) -> bool {
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

    /// Connections that it looks after.
    #[cfg(test)]
    pub fn carried_count(&self) -> usize {
        self.carried.len()
    }

    fn own_bell(&self) -> Result<Arc<Event>, Errno> {
        self.bells.first().cloned().ok_or(Errno::NODEV)
    }

    /// A stream listens.
    pub fn listen(
        &mut self,
        process: &'static Process,
        pin: &Pin<'_>,
        number: i32,
    ) -> Result<(), Errno> {
        start(process, self)?;
        let (port, index) = (port_of(number)?, pin.taken().index);
        match self.port(port) {
            Some(known) => known.listeners.push(index),
            None => self.families.push(Port {
                family: Family::bind(port)?,
                listeners: vec![index],
                accepted: 0,
            }),
        }
        self.hold(process)?;
        self.listen_to_hosts(number);
        process.ring();
        Ok(())
    }

    /// Sockets that were accepted at a port, by their cookies, with a number of each.
    pub(super) fn accepted_at(&self, port: u16) -> impl Iterator<Item = (u64, i32)> + '_ {
        let known = self.known.iter();
        let known = known.filter(move |(_, known)| known.port == Some(port));
        known.map(|(cookie, known)| (*cookie, known.number))
    }

    fn port(&mut self, port: u16) -> Option<&mut Port> {
        let mut ports = self.families.iter_mut();
        ports.find(|known| known.family.place().0 == port)
    }

    /// The process has a name of its own from now on.
    fn hold(&mut self, process: &Process) -> Result<(), Errno> {
        // the kernel remembers whose a name was when it was taken
        if !self.holder.as_ref().is_some_and(HolderService::is_current) {
            self.holder = Some(HolderService::new(self.own_bell()?)?);
            process.ring();
        }
        Ok(())
    }

    /// A stream was accepted: whoever asks its port's family is sent to this process.
    pub fn accept(&mut self, process: &'static Process, pin: &Pin<'_>, number: i32) {
        let known = start(process, self).and_then(|()| self.hold(process));
        let (Ok(()), Ok(at)) = (known, port_of(number)) else {
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
        let known = Known {
            taken: pin.taken(),
            number,
            port: Some(at),
        };
        if let Some(old) = self.known.insert(cookie, known) {
            self.forget(old);
        }
        pin.traffic().add(state::SERVED);
    }

    /// The thread's work. `now` is CLOCK_MONOTONIC's.
    pub fn serve(&mut self, process: &'static Process, now: Duration) {
        let mut rung = self.hear_kernel(process);
        for port in &mut self.families {
            port.family.serve(now);
        }
        let mut news = Vec::new();
        if let Some(mut holder) = self.holder.take() {
            self.has_rings(now);
            holder.serve(now, &|cookie| self.ends(process, cookie), &mut news);
            self.holder = Some(holder);
        }
        for index in process.take_asked() {
            self.ask(process, index, now);
        }
        if let Some(client) = &mut self.client {
            client.serve(now, &mut news);
        }
        self.serve_hosts(process, now, &mut news);
        for news in news {
            rung |= matches!(news, News::Rung);
            self.learn(process, news);
        }
        if rung {
            self.hear_peers(process);
        }
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
        let told = self.carried.iter();
        let told = told.filter(|(_, carried)| carried.is_told());
        let told = told.filter_map(|(index, carried)| {
            carried
                .with(process, |link, _| link.take_told())?
                .then_some(*index)
        });
        let told: Vec<_> = told.collect();
        for index in told {
            self.look(process, index, false);
        }
        self.hear_programs(process);
    }

    /// There is news of a connection.
    pub(super) fn look(&mut self, process: &'static Process, index: u32, of_kernel: bool) {
        let is_done = of_kernel && self.look_far(process, index);
        let Some(carried) = self.carried.get_mut(&index) else {
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
        let is_over = carried.kept.as_ref().is_some_and(Kept::may_close);
        if is_over && let Some(carried) = self.carried.remove(&index) {
            self.give_back(carried.slot);
        }
    }

    /// Asks for a connection that is worth it.
    fn ask(&mut self, process: &'static Process, index: u32, now: Duration) {
        let Some(pin) = process.table.pin_index(index) else {
            return;
        };
        let Some(number) = process.number_of(&pin) else {
            return;
        };
        if !self.client.as_ref().is_some_and(ClientService::is_current) {
            let client = self.own_bell().and_then(ClientService::new);
            self.client = client.ok();
        }
        let has_rings = self.has_rings(now);
        let asked = match &mut self.client {
            None => Err(No::Never(Reason::NoDiag)),
            Some(_) if has_rings => Err(No::Never(Reason::Unfit)),
            Some(_) if pin.others_hold() || !ready::fits(&pin) => Err(No::Later),
            Some(client) => fit(&pin, number).and_then(|()| client.ask(socket(number), now)),
        };
        let asked = match asked {
            Err(No::Never(Reason::Elsewhere)) => self.ask_host(&pin, number, now),
            other => other,
        };
        match asked {
            Ok(()) => {
                let known = Known {
                    taken: pin.taken(),
                    number,
                    port: None,
                };
                self.known.insert(cookie(number), known);
            }
            Err(no) => stays(&pin, no),
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
        if pin.others_hold() || !ready::fits(&pin) {
            return Err(No::Later);
        }
        if self.rings.is_some_and(|(_, has)| has) {
            return Err(No::Never(Reason::Unfit));
        }
        fit(&pin, known.number)?;
        let gone = |_| No::Never(Reason::NotEstablished);
        let own = rustix::net::getsockname(socket(known.number)).map_err(gone)?;
        let peer = rustix::net::getpeername(socket(known.number)).map_err(gone)?;
        let peer = peer.ok_or(No::Never(Reason::NotEstablished))?;
        let ends = [SocketAddr::try_from(own), SocketAddr::try_from(peer)];
        let [Ok(own), Ok(peer)] = ends else {
            return Err(No::Never(Reason::NotEstablished));
        };
        Ok([own, peer])
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
            News::Stays { cookie, why, .. } => {
                let pin = self.known.get(&cookie);
                if let Some(pin) = pin.and_then(|known| process.table.pin_taken(known.taken)) {
                    stays(&pin, why);
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
        let put = || !pin.others_hold() && ready::fits(&pin) && pin.put_link(link).is_ok();
        if !process.table.without_fork(put) {
            return None;
        }
        if pin.traffic().counts() {
            counters::eligible();
        }
        counters::upgraded();
        self.watch(&pin, number, Some(slot));
        if pin.traffic().is(state::NEVER) {
            process.bring_back_now(&pin, number);
        } else if ready::linked(&pin, number)
            && let Some(link) = pin.link()
        {
            // a reader that waits in the kernel offers with its next call
            Reader(&link.on(socket(number))).offer();
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
            },
        );
        self.add(socket(number), taken.index);
    }

    /// From now on the kernel tells of this socket.
    fn add(&self, socket: BorrowedFd<'_>, index: u32) {
        if let Some(epoll) = &self.epoll {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let _ = epoll::add(epoll, socket, EventData::new_u64(index.into()), flags);
        }
    }

    fn delete(&self, socket: BorrowedFd<'_>) {
        if let Some(epoll) = &self.epoll {
            let _ = epoll::delete(epoll, socket);
        }
    }

    fn give_back(&mut self, slot: Option<Slot>) {
        let Some(slot) = slot else {
            return;
        };
        if far::is_far(slot.ticket) {
            return self.others.give_back(slot.ticket);
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

    /// A number was left, whose descriptor is still open.
    pub fn left(&mut self, process: &'static Process, number: i32, left: Left<'static>) {
        ready::closed(number, &left);
        match left {
            Left::Plain | Left::Own => {}
            Left::Others(taken) => self.renumber(process, number, taken),
            Left::Calls(taken) => self.left_to_calls(process, number, taken),
            Left::Last(last) => self.left_by_all(process, number, last),
        }
    }

    /// The connection has another number from now on.
    fn renumber(&mut self, process: &Process, number: i32, taken: Taken) {
        let all = process.table.numbers().known(0..=i32::MAX);
        let stream = crate::numbers::Kind::Stream(taken.index);
        let mut others = all.filter(|(other, kind)| *kind == stream && *other != number);
        let Some((other, _)) = others.next() else {
            return;
        };
        if let Some(known) = self.known.get_mut(&cookie(number)) {
            known.number = other;
        }
        if let Some(carried) = self.carried.get_mut(&taken.index)
            && carried.number == number
        {
            carried.number = other;
            self.delete(socket(number));
            self.add(socket(other), taken.index);
        }
    }

    /// The last number goes while other threads are in calls: they end.
    fn left_to_calls(&mut self, process: &Process, number: i32, taken: Taken) {
        if let Some(known) = self.known.remove(&cookie(number)) {
            self.forget(known);
        }
        if self.carried.remove(&taken.index).is_some() {
            self.delete(socket(number));
            self.drop_tunnel(taken.index);
        }
        let pin = process.table.pin_taken(taken);
        if let Some(link) = pin.as_ref().and_then(Pin::link) {
            Look(&link.on(socket(number))).look(PEER_ENDED | CONNECTION_OVER);
        }
    }

    /// A socket is known no more.
    fn forget(&mut self, known: Known) {
        if let Some(port) = known.port.and_then(|at| self.port(at)) {
            port.accepted = port.accepted.saturating_sub(1);
            self.close_ports();
        }
    }

    /// Nobody asks at a port of which nothing is left.
    fn close_ports(&mut self) {
        self.families
            .retain(|port| !port.listeners.is_empty() || port.accepted > 0);
    }

    fn left_by_all(&mut self, process: &'static Process, number: i32, last: Last<'static>) {
        let (taken, cookie) = (last.taken(), cookie(number));
        for port in &mut self.families {
            port.listeners.retain(|listener| *listener != taken.index);
        }
        match self.known.remove(&cookie) {
            Some(known) => self.forget(known),
            None => self.close_ports(),
        }
        let carried = self.carried.remove(&taken.index);
        let Some(link) = last.link() else {
            return;
        };
        self.delete(socket(number));
        if last.others_hold() {
            return;
        }
        let slot = carried.and_then(|carried| carried.slot);
        let kept = match calls::may_close(link.on(socket(number))) {
            true => None,
            false => rustix::io::fcntl_dupfd_cloexec(socket(number), 3)
                .and_then(Own::hide)
                .ok()
                .filter(|_| start(process, self).is_ok()),
        };
        let Some(socket) = kept else {
            drop(last);
            self.give_back(slot);
            return;
        };
        let told = link.where_told();
        self.add(socket.as_fd(), taken.index);
        let kept = Kept { socket, last };
        if kept.may_close() {
            self.give_back(slot);
            return;
        }
        self.carried.insert(
            taken.index,
            Carried {
                taken,
                number: -1,
                told,
                slot,
                kept: Some(kept),
            },
        );
    }
}

/// The connection is not taken over.
fn stays(pin: &Pin<'_>, why: No) {
    match why {
        // somebody may take part there later, or be about to say that it holds the socket
        No::Later | No::Never(Reason::Nobody | Reason::NotHeld) => pin.traffic().put_off(),
        No::Never(_) => {}
    }
}

fn port_of(number: i32) -> Result<u16, Errno> {
    let address = rustix::net::getsockname(socket(number))?;
    Ok(SocketAddr::try_from(address)?.port())
}
