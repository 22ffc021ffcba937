//! How the connection manager's messages travel: from process to process on one host, by queue pair 1 of the RoCE wire between hosts.
//!
//! Owns the turn of the machine: messages out, messages of this process to itself, events, the timer. Must not know what a message says.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use ferriband_cm::{Input, LocalEnd, Machine, Ports, Route};
use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_transport::types::AddressVector;
use ferriband_wire::cm::RejectReason;
use ferriband_wire::{CommId, Gid, Lid, PKey, ServiceId};

use super::route::{self, Place};
use super::{Cm, HOP_LIMIT, State};
use crate::device::gid_of;
use crate::engine::Engine;
use crate::lock;

/// Bytes of a management datagram.
pub(crate) const MAD: usize = 256;
/// What is taken from the post box at once.
const POSTS_AT_ONCE: usize = 64;
/// First byte of the head of what is handed over: a message of the connection manager.
pub(crate) const HEAD_MAD: u8 = b'M';

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
}

/// Where a request for a service at an address goes: to a process of this host, whose services are known, or to the other port.
pub(super) fn route_to(
    engine: &Engine,
    place: &Place,
    dgid: Gid,
    service: ServiceId,
    address: IpAddr,
) -> Route {
    let here =
        !place.device.is_ethernet() || !crate::roce::forced() && route::place_of(address).is_some();
    if here {
        let listener = engine.registry.service_find(service.0, &gid_of(address));
        return Route::Host {
            // nobody: this process's own machine refuses
            slot: listener.map_or(engine.slot, |entry| entry.process.slot),
        };
    }
    Route::Gsi {
        device: place.device.info.index as u16,
        sgid_index: place.sgid_index,
        av: AddressVector {
            dgid,
            sgid_index: place.sgid_index,
            hop_limit: HOP_LIMIT,
            is_global: true,
            port_num: 1,
            ..AddressVector::default()
        },
    }
}

impl Cm {
    /// Lets go of everything that the machine has to say.
    pub(super) fn pump(&self, engine: &Engine, state: &mut State) {
        let mut mad = [0; MAD];
        loop {
            while let Some(route) = state.machine.poll_transmit(&mut mad) {
                match route {
                    Route::Host { slot } if slot == engine.slot => state.local.push_back(mad),
                    Route::Host { slot } => hand(engine, slot, &mad),
                    Route::Gsi {
                        device,
                        sgid_index: _,
                        av,
                    } => send(engine, device, &av, &mad),
                }
            }
            while let Some(event) = state.machine.poll_event() {
                state.translate(event);
            }
            let Some(own) = state.local.pop_front() else {
                break;
            };
            let input = Input::Mad {
                from: Route::Host { slot: engine.slot },
                to: None,
                mad: &own,
            };
            let _ = state.machine.handle(Engine::now(), input, &HostPorts);
        }
        let deadline = state.machine.poll_timeout().map_or(u64::MAX, |at| at.0);
        let before = engine.cm_deadline.swap(deadline, Ordering::AcqRel);
        if deadline < before {
            engine.kick(false);
        }
    }

    /// A message came.
    pub(crate) fn message(&self, engine: &Engine, from: Route, to: Option<Gid>, mad: &[u8; MAD]) {
        let mut state = lock(&self.state);
        // what has no effect is a stranger's or a duplicate
        let _ = state
            .machine
            .handle(Engine::now(), Input::Mad { from, to, mad }, &HostPorts);
        self.pump(engine, &mut state);
    }

    /// The timer.
    pub(crate) fn tick(&self, engine: &Engine) {
        let mut state = lock(&self.state);
        state.machine.handle_timeout(Engine::now());
        self.pump(engine, &mut state);
    }

    /// A process of this host is gone.
    pub(crate) fn process_gone(&self, engine: &Engine, slot: u32) {
        let mut state = lock(&self.state);
        let _ = state
            .machine
            .handle(Engine::now(), Input::ProcessGone(slot), &HostPorts);
        self.pump(engine, &mut state);
    }

    /// The process leaves: whoever is connected is told.
    pub(crate) fn say_goodbye(&self, engine: &Engine) {
        let mut state = lock(&self.state);
        let all: Vec<CommId> = state.machine.summaries().map(|one| one.comm).collect();
        for comm in all {
            state.machine.destroy(Engine::now(), comm);
        }
        self.pump(engine, &mut state);
    }
}

/// The process whose a message is by its identifiers or its service: None if it is nobody's or this one's own.
pub(crate) fn owner_of_mad(engine: &Engine, to: &Gid, mad: &[u8; MAD]) -> Option<u32> {
    use ferriband_wire::cm::{CmMad, Message};
    let parsed = CmMad::parse(mad).ok()?;
    let slot = match parsed.message {
        Message::Req(req) => {
            engine
                .registry
                .service_find(req.service_id.0, to)?
                .process
                .slot
        }
        Message::SidrReq(req) => {
            engine
                .registry
                .service_find(req.service_id.0, to)?
                .process
                .slot
        }
        message => Machine::slot_of(recipient(&message)),
    };
    (slot != engine.slot).then_some(slot)
}

/// Whose identifier an answer is for.
fn recipient(message: &ferriband_wire::cm::Message) -> CommId {
    use ferriband_wire::cm::Message;
    match message {
        Message::Req(_) | Message::SidrReq(_) => CommId::default(),
        Message::Mra(m) => m.remote_comm_id,
        Message::Rej(m) => m.remote_comm_id,
        Message::Rep(m) => m.remote_comm_id,
        Message::Rtu(m) => m.remote_comm_id,
        Message::Dreq(m) => m.remote_comm_id,
        Message::Drep(m) => m.remote_comm_id,
        Message::Lap(m) => m.remote_comm_id,
        Message::Apr(m) => m.remote_comm_id,
        Message::SidrRep(m) => m.request_id,
    }
}

/// To another process of this host. What is lost is sent again.
pub(crate) fn hand(engine: &Engine, slot: u32, mad: &[u8; MAD]) {
    let mut head = [0; HAND_OVER_HEAD];
    head[0] = HEAD_MAD;
    engine.hand_to(slot, &head, mad);
}

impl Engine {
    /// Puts something into another process's post box. False if it is lost.
    pub(crate) fn hand_to(&self, slot: u32, head: &[u8; HAND_OVER_HEAD], body: &[u8]) -> bool {
        let member = self
            .registry
            .members()
            .into_iter()
            .find(|member| member.process.slot == slot);
        match (member, self.post_box()) {
            (Some(member), Ok(post)) => post.send(member.process, head, body).is_ok(),
            _ => false,
        }
    }

    /// Takes what others have put into the post box, by the progress thread.
    pub(crate) fn empty_post_box(&self, room: &mut [u8]) {
        let Some(post) = self.open_post_box() else {
            return;
        };
        for _ in 0..POSTS_AT_ONCE {
            let Ok(Some(came)) = post.receive(room) else {
                return;
            };
            let (head, body) = room[..came.length].split_at(HAND_OVER_HEAD);
            if head[0] != HEAD_MAD {
                if let Some(roce) = self.roce.get() {
                    roce.handed(self, head, body);
                }
                continue;
            }
            if let (Some(slot), Ok(mad)) = (came.from, <&[u8; MAD]>::try_from(body)) {
                self.cm().message(self, Route::Host { slot }, None, mad);
            }
        }
    }
}

/// To queue pair 1 of another port.
fn send(engine: &Engine, device: u16, av: &AddressVector, mad: &[u8; MAD]) {
    let device = crate::device::all().get(usize::from(device));
    if let (Some(device), Ok(roce)) = (device, engine.roce()) {
        roce.send_mad(device, av, mad);
    }
}
