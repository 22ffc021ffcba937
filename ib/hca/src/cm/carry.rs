//! How the connection manager's messages travel: from process to process on one host, by queue pair 1 of the RoCE wire between hosts.
//!
//! Owns the turn of the machine: messages out, messages of this process to itself, events, the timer. Must not know what a message says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use ferriband_cm::table::State as Phase;
use ferriband_cm::{Input, LocalEnd, Ports, Route};
use ferriband_memory::host::{HAND_OVER_HEAD, ProcessRef};
use ferriband_transport::types::AddressVector;
use ferriband_wire::cm::{CmMad, Message, RejectReason};
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{CommId, Gid, Lid, PKey, ServiceId};

use super::arrive::ask_again;
use super::post::{hand_to, send, send_mad_in_packet, wants_mads_in_packets};
use super::route::{self, Place, far};
use super::unheard::{Packet, Time, Unheard, Waiting};
use super::{Cm, Gone, HOP_LIMIT, State};
use crate::device;
use crate::device::fabric::Way;
use crate::lock;
use crate::process::message::HEAD_MAD;
use crate::progress::Engine;

/// How long a process that ends tries to say so.
const GOODBYE_NS: u64 = 50_000_000;
/// How often it does, by packets.
const GOODBYE_AGAIN_NS: u64 = 5_000_000;
const GOODBYE_PAUSE: Duration = Duration::from_micros(50);
/// Where a request goes while nobody listens for it: nowhere.
pub(super) const NOBODY: Route = Route::Host { slot: u32::MAX };

/// The ports of this host, for the machine.
struct HostPorts;

impl Ports for HostPorts {
    fn local_end(
        &self,
        _from: &Route,
        gid: &Gid,
        lid: Lid,
        _pkey: PKey,
    ) -> Result<LocalEnd, RejectReason> {
        route::place_of_gid(gid, lid)
            .map(|place| place.end())
            .ok_or(RejectReason::PrimaryRemoteGid)
    }

    fn serves(&self, from: &Route) -> bool {
        match from {
            Route::Gsi { device, .. } => device::is_listed((*device).into()),
            Route::Host { .. } => true,
        }
    }
}

/// Where a request for a service at an address goes: to a process of this host, whose services are known, or to the other port.
pub(super) fn route_to(
    engine: &Engine,
    gone: &Gone,
    place: &Place,
    (dgid, way): (Gid, Option<Way>),
    service: ServiceId,
    address: &SocketAddr,
) -> Route {
    if place.is_far(dgid) {
        return far(place, dgid, way.unwrap_or_default());
    }
    let ethernet = place.device.is_ethernet();
    let here = || {
        !ethernet
            || !crate::device::wanted::forced(true)
                && (route::place_for(address).is_some()
                    || route::place_of_gid(&dgid, Lid(0)).is_some())
    };
    if here() {
        let listener =
            engine
                .process
                .registry
                .service_find_of(service.0, &route::gid_at(address), |owner| !gone.has(owner));
        return listener.map_or(NOBODY, |entry| Route::Host {
            slot: entry.process.slot,
        });
    }
    Route::Gsi {
        device: place.device.info.index as u16,
        sgid_index: place.sgid_index,
        av: AddressVector {
            dgid,
            sgid_index: place.sgid_index,
            hop_limit: HOP_LIMIT,
            is_global: true,
            port_num: place.device.usual_port(),
            ..AddressVector::default()
        },
    }
}

impl Cm {
    /// Lets go of everything that the machine has to say.
    pub(super) fn pump(&self, engine: &Engine, state: &mut State) {
        let mut mad = [0; MAD_LEN];
        loop {
            while let Some(route) = state.machine.poll_transmit(&mut mad) {
                match route {
                    NOBODY => {}
                    Route::Host { slot } if slot == engine.process.slot => {
                        state.local.push_back(mad)
                    }
                    Route::Host { slot } => {
                        let shown = wants_mads_in_packets(engine) && state.is_native(slot, &mad);
                        if !(shown && send_mad_in_packet(engine, slot, &mad)) {
                            // what is lost is asked for again
                            let _ = hand_to(engine, slot, &mad_head(), &mad);
                        }
                        if engine.process.registry.member_in(slot).is_none() {
                            // it ended since the route was chosen, and nobody is left whose end could be told
                            state.lose_process(slot);
                        }
                    }
                    Route::Gsi {
                        device,
                        sgid_index: _,
                        av,
                    } => send(engine, device, &av, &mad),
                }
            }
            while let Some(event) = state.machine.poll_event() {
                state.translate(engine, event);
            }
            let Some(own) = state.local.pop_front() else {
                break;
            };
            let input = Input::Mad {
                from: Route::Host {
                    slot: engine.process.slot,
                },
                to: None,
                mad: &own,
            };
            let _ = state
                .machine
                .handle(ferriband_memory::wait::now(), input, &HostPorts);
        }
        self.set_deadline(engine, state);
    }

    /// When the timer is due: for the machine, for what waits for room, for who waits for a listener.
    fn set_deadline(&self, engine: &Engine, state: &State) {
        let machine = state.machine.poll_timeout().map_or(u64::MAX, |at| at.0);
        // held over the store: who puts something in brings the deadline forward under the same lock
        let outbox = lock(&self.outbox);
        let deadline = machine.min(outbox.due()).min(state.unheard.due());
        let before = engine.agenda.cm_deadline.swap(deadline, Ordering::AcqRel);
        drop(outbox);
        if deadline < before {
            engine.kick(false);
        }
    }

    /// A message came.
    pub(crate) fn message(
        &self,
        engine: &Engine,
        from: Route,
        to: Option<Gid>,
        mad: &[u8; MAD_LEN],
    ) {
        let mut state = lock(&self.state);
        // what has no effect is a stranger's or a duplicate
        let _ = state.machine.handle(
            ferriband_memory::wait::now(),
            Input::Mad { from, to, mad },
            &HostPorts,
        );
        self.pump(engine, &mut state);
    }

    /// A message of another process came as a packet of the InfiniBand port.
    pub(crate) fn message_in_packet(&self, engine: &Engine, slot: u32, mad: &[u8; MAD_LEN]) {
        lock(&self.state).by_packets.insert(slot);
        self.message(engine, Route::Host { slot }, None, mad);
    }

    /// The timer.
    pub(crate) fn tick(&self, engine: &Engine) {
        let mut state = lock(&self.state);
        let now = ferriband_memory::wait::now();
        state.machine.handle_timeout(now);
        lock(&self.outbox).again(engine, now.0);
        let mut packets = VecDeque::new();
        if state.unheard.due() <= now.0 {
            packets = state.look_for_listeners(engine, now.0);
        }
        self.pump(engine, &mut state);
        drop(state);
        for (until, packet) in packets {
            let last = Unheard::time(until, now.0) == Time::Over;
            if !ask_again(engine, &packet.head, &packet.datagram, last) {
                let mut state = lock(&self.state);
                state.unheard.wait_on(until, packet, now.0);
                self.set_deadline(engine, &state);
            }
        }
    }

    /// A packet asks for a service that nobody listens on: it is looked at again soon. False if too many wait.
    pub(crate) fn keep_packet(
        &self,
        engine: &Engine,
        head: &[u8; HAND_OVER_HEAD],
        datagram: &[u8],
    ) -> bool {
        let mut state = lock(&self.state);
        let packet = Packet {
            head: *head,
            datagram: datagram.to_vec(),
        };
        let kept = state
            .unheard
            .keep(ferriband_memory::wait::now().0, packet)
            .is_ok();
        self.set_deadline(engine, &state);
        kept
    }

    /// A process of this host is gone.
    pub(crate) fn process_gone(&self, engine: &Engine, process: ProcessRef) {
        let mut state = lock(&self.state);
        let first = state.gone.note(process);
        // Told again of what was asked of the dead while the registry still listed it; unless the slot is another's by now.
        let successor = engine.process.registry.member_in(process.slot);
        if first || successor.is_none_or(|member| member.process == process) {
            state.lose_process(process.slot);
        }
        self.pump(engine, &mut state);
    }

    /// The process leaves: whoever is connected is told. Not if another thread is at it and does
    /// not come to an end. `receive` sees to it that what comes is taken.
    pub(crate) fn say_goodbye(&self, engine: &Engine, receive: impl FnMut()) {
        let patience = ferriband_memory::wait::now().0 + GOODBYE_NS;
        // a thread that ends the process out of a signal may be the one that holds them
        let Some(mut state) = try_for(&self.state, patience) else {
            return;
        };
        if try_for(&self.outbox, patience).is_none() {
            return;
        }
        for id in state.ids.values_mut() {
            id.close_record(engine);
        }
        let all: Vec<CommId> = state.machine.summaries().map(|one| one.comm).collect();
        for comm in all {
            state.machine.destroy(ferriband_memory::wait::now(), comm);
        }
        self.pump(engine, &mut state);
        // post boxes that are full now will be emptied, but there is nobody then to try again
        while lock(&self.outbox).due() != u64::MAX && ferriband_memory::wait::now().0 < patience {
            std::thread::yield_now();
            lock(&self.outbox).again(engine, ferriband_memory::wait::now().0);
        }
        drop(state);
        self.wait_for_answers(engine, patience, receive);
    }

    /// A packet is lost with a process that ends while it holds it, and after this process's end
    /// nobody says again that a connection has ended: it does so until that is answered, or time is
    /// up.
    fn wait_for_answers(&self, engine: &Engine, until: u64, mut receive: impl FnMut()) {
        let by_packets = |route: &Route| matches!(route, Route::Gsi { .. });
        let mut again_at = ferriband_memory::wait::now().0 + GOODBYE_AGAIN_NS;
        loop {
            let Some(mut state) = try_for(&self.state, until) else {
                return;
            };
            let now = ferriband_memory::wait::now().0;
            if now > until || !state.machine.is_ending(by_packets) {
                return;
            }
            if now > again_at {
                again_at = now + GOODBYE_AGAIN_NS;
                state.machine.end_again(by_packets);
                self.pump(engine, &mut state);
            }
            drop(state);
            receive();
            std::thread::sleep(GOODBYE_PAUSE);
        }
    }
}

impl State {
    /// Connections with the process in a slot are no more.
    fn lose_process(&mut self, slot: u32) {
        let input = Input::ProcessGone(slot);
        let _ = self
            .machine
            .handle(ferriband_memory::wait::now(), input, &HostPorts);
    }

    /// True if a message to another process of this host is about a connection of the InfiniBand device; about what is not known any
    /// more it is as the last one that came from there.
    fn is_native(&self, slot: u32, mad: &[u8; MAD_LEN]) -> bool {
        let comm = CmMad::parse(mad)
            .ok()
            .and_then(|parsed| author(&parsed.message));
        let id = comm.and_then(|comm| self.ids.values().find(|id| id.comm == Some(comm)));
        match id.and_then(|id| id.place.as_ref()) {
            Some(place) => !place.device.is_ethernet(),
            None => self.by_packets.contains(&slot),
        }
    }

    /// Own requests that nobody listened to: those whose service somebody has now go there, others wait on, or hear that nobody has.
    /// Gives the packets that wait, for which nothing must be held.
    fn look_for_listeners(&mut self, engine: &Engine, now: u64) -> Waiting<Packet> {
        let epoch = engine.process.registry.service_epoch();
        let (asked, packets) = self.unheard.take(now, epoch);
        for (until, number) in asked {
            let Some(id) = self.ids.get(&number) else {
                continue;
            };
            let (Some(comm), Some(place), Some(dst)) = (id.comm, id.place.as_ref(), id.dst) else {
                continue;
            };
            let waits = matches!(
                self.machine.state(comm),
                Phase::ReqSent | Phase::SidrReqSent
            );
            if !waits {
                continue;
            }
            let service = id.service(dst.port());
            let (to, gone) = ((id.dgid, id.way), &self.gone);
            let route = match route_to(engine, gone, place, to, service, &dst) {
                NOBODY if Unheard::time(until, now) == Time::Left => {
                    self.unheard.ask_on(until, number, now);
                    continue;
                }
                // this process's own machine says that nobody listens
                NOBODY => Route::Host {
                    slot: engine.process.slot,
                },
                somebody => somebody,
            };
            self.machine.redirect(comm, route);
        }
        packets
    }
}

/// A lock, if it is to be had by then.
fn try_for<T>(mutex: &Mutex<T>, until: u64) -> Option<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if ferriband_memory::wait::now().0 > until => {
                return None;
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// The identifier that its author gave a message; an answer to a service's resolution has none.
fn author(message: &Message) -> Option<CommId> {
    Some(match message {
        Message::Req(m) => m.local_comm_id,
        Message::SidrReq(m) => m.request_id,
        Message::Mra(m) => m.local_comm_id,
        Message::Rej(m) => m.local_comm_id,
        Message::Rep(m) => m.local_comm_id,
        Message::Rtu(m) => m.local_comm_id,
        Message::Dreq(m) => m.local_comm_id,
        Message::Drep(m) => m.local_comm_id,
        Message::Lap(m) => m.local_comm_id,
        Message::Apr(m) => m.local_comm_id,
        Message::SidrRep(_) => return None,
    })
}

/// The head of a management datagram that is handed over.
fn mad_head() -> [u8; HAND_OVER_HEAD] {
    let mut head = [0; HAND_OVER_HEAD];
    head[0] = HEAD_MAD;
    head
}
