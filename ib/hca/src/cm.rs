//! The connection manager of a process: identifiers as rdma_cm has them, over the machine of `ferriband-cm`.
//!
//! Owns the identifiers, their addresses, devices and events. Messages travel by queue pair 1 of the RoCE wire or, on one host, from
//! process to process ([`carry`]); which device an address belongs to is [`route`]'s matter. Must not know the C API: `abi/verbs` exports
//! it to librdmacm.

mod address;
pub(crate) mod arrive;
mod carry;
mod connect;
pub(crate) mod engine;
mod events;
mod groups;
mod id;
mod news;
mod outbox;
pub(crate) mod owner;
pub(crate) mod post;
mod record;
mod route;
#[cfg(test)]
mod tests;
mod unheard;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use ferriband_cm::{CmError, CmLimits, Machine, UserId};
use ferriband_memory::host::{ProcessRef, SERVICE_ONE_FAMILY, SERVICE_SHARED};
use ferriband_transport::types::QpType;
use ferriband_wire::cm::PortSpace;
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{Gid, Lid, Mtu, Sl, TimeCode};

use crate::base::channel::EventQueue;
use crate::base::error::Error;
use crate::device::fabric::Way;
use crate::lock;
use crate::progress::Engine;
use groups::Group;
pub use id::{CmAddress, ConnWish, IdInfo, IdOption};
use id::{Id, Stage};
pub use news::{ConnParam, News, NewsKind, UdParam};
use outbox::Outbox;
use route::Place;
use unheard::Unheard;

/// Bytes of private data at the most, in any message.
pub const MAX_PRIVATE_DATA: usize = 256;
/// What rdma_cm in Linux says in its requests: an answer within 4.3 s, fifteen repetitions.
const RESPONSE_TIMEOUT: TimeCode = TimeCode(20);
const CM_RETRIES: u8 = 15;
/// A packet is on its way for 268 ms at the most (rdma_cm's figure for Ethernet).
const PACKET_LIFE: TimeCode = TimeCode(16);
/// Ports that are given out when none is asked for.
const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;
/// Q_Key of datagrams unless the consumer names one (RDMA_UDP_QKEY).
const UDP_QKEY: u32 = 0x0123_4567;
/// A request over the network that is refused because nobody listens is sent again for so long: a listener that the peer's program was
/// about to bind has been bound by then (perftest -R asks for it first), also where the peer is slower than we are.
const LISTENER_PATIENCE_NS: u64 = 50_000_000;
/// Rate of a path unless it is known: 100 Gbit/s (`ibv_rate`).
const RATE: u8 = 16;
/// Hop limit of a path over Ethernet.
const HOP_LIMIT: u8 = 64;

/// Events of identifiers, in order, behind a descriptor.
#[derive(Debug)]
pub struct CmChannel {
    /// The events.
    pub events: EventQueue<News>,
    engine: Arc<Engine>,
}

impl CmChannel {
    /// A channel.
    ///
    /// # Errors
    /// What keeps the process from joining its host, or no descriptor.
    pub fn open() -> Result<Arc<Self>, Error> {
        Ok(Arc::new(CmChannel {
            engine: engine::engine()?,
            events: EventQueue::new()?,
        }))
    }

    /// The descriptor of events, for one who is about to wait for a count of it.
    ///
    /// # Errors
    /// `Gone`.
    pub fn fd(&self) -> Result<RawFd, Error> {
        self.engine.check_alive()?;
        self.engine.hand_over();
        Ok(self.events.fd())
    }

    /// The event for a count that the caller has read from the descriptor; None if it was taken
    /// back meanwhile.
    ///
    /// # Errors
    /// `Gone`.
    pub fn counted_event(&self) -> Result<Option<News>, Error> {
        self.engine.check_alive()?;
        let news = self.events.counted(report);
        Ok(news.inspect(|news| Cm::of(&self.engine).told(news)))
    }

    /// Takes the oldest event, waiting for one unless the descriptor is non-blocking.
    ///
    /// # Errors
    /// `WouldBlock`, `Interrupted`, `Gone`.
    pub fn next_event(&self) -> Result<News, Error> {
        self.fd()?;
        let news = self.events.next(report)?;
        Cm::of(&self.engine).told(&news);
        Ok(news)
    }
}

/// Counts an event as reported: whoever destroys or moves its identifier waits for as many
/// acknowledgements as were counted.
fn report(news: &News) {
    news.reported.fetch_add(1, Ordering::AcqRel);
}

#[derive(Debug)]
struct State {
    machine: Machine,
    ids: BTreeMap<u32, Id>,
    groups: BTreeMap<u32, Group>,
    next: u32,
    /// Messages of this process to itself.
    local: VecDeque<[u8; MAD_LEN]>,
    /// Requests for services on which nobody listens yet.
    unheard: Unheard,
    /// Processes of this host whose last message came as a packet, by slot.
    by_packets: BTreeSet<u32>,
    gone: Gone,
}

/// Processes of this host that have ended, by slot: the last one's generation. The registry may list what they had for a moment longer.
#[derive(Debug, Default)]
struct Gone(BTreeMap<u32, u32>);

impl Gone {
    /// Notes an end. False if it was known.
    fn note(&mut self, process: ProcessRef) -> bool {
        self.0.insert(process.slot, process.generation) != Some(process.generation)
    }

    fn has(&self, process: ProcessRef) -> bool {
        self.0.get(&process.slot) == Some(&process.generation)
    }
}

/// The connection manager. One per process.
#[derive(Debug)]
pub struct Cm {
    state: Mutex<State>,
    /// Taken after `state`, if both.
    outbox: Mutex<Outbox>,
}

/// The longest packets from a place along a way.
fn path_mtu(place: &Place, way: Option<Way>) -> Mtu {
    let own = place.device.port().mtu;
    match way {
        Some(way) if way.mtu.bytes() < own.bytes() => way.mtu,
        _ => own,
    }
}

fn refused(error: CmError) -> Error {
    match error {
        CmError::NoSuchId => Error::Invalid("the connection is over"),
        CmError::InUse => Error::InUse("somebody listens there"),
        CmError::TooMany => Error::NoMemory("too many connections"),
        CmError::Connected => Error::Connected,
        CmError::State(_) => Error::Invalid("not possible in the state of the connection"),
        CmError::Value(_) => {
            Error::Invalid("a parameter or the private data do not fit their field")
        }
        CmError::Service => Error::Invalid("no connection of this service can be asked for"),
    }
}

impl Cm {
    pub(crate) fn new(slot: u32, key: [u64; 2]) -> Self {
        let limits = CmLimits {
            listener_patience_ns: LISTENER_PATIENCE_NS,
            ..CmLimits::default()
        };
        Cm {
            state: Mutex::new(State {
                machine: Machine::new(slot, limits, key),
                ids: BTreeMap::new(),
                groups: BTreeMap::new(),
                next: 1,
                local: VecDeque::new(),
                unheard: Unheard::default(),
                by_packets: BTreeSet::new(),
                gone: Gone::default(),
            }),
            outbox: Mutex::default(),
        }
    }

    /// Does something to an identifier, then lets go of what came of it.
    fn with<T>(
        &self,
        engine: &Engine,
        id: u32,
        act: impl FnOnce(&mut Machine, &mut Id) -> Result<T, Error>,
    ) -> Result<T, Error> {
        engine.check_alive()?;
        let mut state = lock(&self.state);
        let State { machine, ids, .. } = &mut *state;
        let found = ids
            .get_mut(&id)
            .ok_or(Error::NotFound("no such identifier"))?;
        let done = act(machine, found);
        self.pump(engine, &mut state);
        done
    }

    /// Makes an identifier.
    ///
    /// # Errors
    /// `Invalid` for a port space or queue pair type that there is none of.
    pub fn create_id(
        &self,
        channel: &Arc<CmChannel>,
        user: u64,
        space: u16,
        qp_type: QpType,
    ) -> Result<u32, Error> {
        let space = PortSpace::from_code(space).ok_or(Error::Invalid("no such port space"))?;
        if space == PortSpace::Sdp && qp_type != QpType::Rc {
            return Err(Error::Invalid("SDP has reliable connections"));
        }
        let mut state = lock(&self.state);
        let number = state.next;
        state.next = state.next.checked_add(1).unwrap_or(1);
        state
            .ids
            .insert(number, Id::new(channel, user, space, qp_type));
        Ok(number)
    }

    /// Destroys an identifier; its peer is told. Gives the number of its events that were handed out.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn destroy_id(&self, engine: &Engine, id: u32) -> Result<u32, Error> {
        engine.life.check_epoch()?;
        let mut state = lock(&self.state);
        let mut found = state
            .ids
            .remove(&id)
            .ok_or(Error::NotFound("no such identifier"))?;
        let now = ferriband_memory::wait::now();
        // requests that nobody has seen yet go with their listener
        let unseen = found
            .channel
            .events
            .drain(|news| news.id == id || news.listener == Some(id));
        for orphan in unseen.iter().filter(|news| news.listener == Some(id)) {
            if let Some(gone) = state.ids.remove(&orphan.id)
                && let Some(comm) = gone.comm
            {
                state.machine.destroy(now, comm);
            }
        }
        if found.is_listening() {
            let _ = state.machine.unlisten(now, UserId(id.into()));
        }
        if let Some(comm) = found.comm {
            state.machine.destroy(now, comm);
        }
        state.groups.retain(|_, group| group.id != id);
        self.pump(engine, &mut state);
        drop(state);
        found.close_record(engine);
        if let Some(claim) = found.claim.take() {
            engine.process.registry.service_release(claim);
            // a port that was only bound is nobody's to find
            if found.is_listening() {
                engine.services_changed();
            }
        }
        Ok(found.reported.load(Ordering::Acquire))
    }

    /// What is known of an identifier.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn query(&self, engine: &Engine, id: u32) -> Result<IdInfo, Error> {
        self.with(engine, id, |_, found| {
            let place = found.place.as_ref();
            let lid = place.map_or(Lid(0), |place| place.device.port().lid);
            let way = found.way;
            Ok(IdInfo {
                device: place.map(|place| place.device.clone()),
                sgid: place.map_or(Gid::default(), Place::gid),
                dgid: found.dgid,
                lid,
                dlid: way.map_or(lid, |way| way.lid),
                sl: way.map_or(Sl(0), |way| way.sl),
                mtu: place.map(|place| path_mtu(place, way)),
                rate: way.map_or(RATE, |way| way.rate),
                src: found.src,
                dst: found.dst,
                native: found.native.then(|| found.service(0).0),
                routed: found.is_routed(),
                traffic_class: found.tos,
                packet_life: way.map_or(PACKET_LIFE, |way| way.packet_life).0,
            })
        })
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for one that comes too late, or that the identifier's service has not.
    pub fn set_option(&self, engine: &Engine, id: u32, option: IdOption) -> Result<(), Error> {
        self.with(engine, id, |_, found| {
            let flag = |flags: u32, bit: u32, on: bool| if on { flags | bit } else { flags & !bit };
            let stage = found.stage;
            let may = match option {
                IdOption::Tos(_) => true,
                IdOption::ReuseAddress(on) => {
                    stage == Stage::Idle || on && stage != Stage::Listening
                }
                IdOption::OneFamily(_) => matches!(stage, Stage::Idle | Stage::Bound),
                IdOption::AckTimeout(_) => matches!(found.qp_type, QpType::Rc | QpType::XrcSend),
            };
            if !may {
                return Err(Error::Invalid(
                    "the identifier takes no such option (any more)",
                ));
            }
            match option {
                IdOption::Tos(tos) => found.tos = tos,
                IdOption::ReuseAddress(on) => found.flags = flag(found.flags, SERVICE_SHARED, on),
                IdOption::OneFamily(on) => found.flags = flag(found.flags, SERVICE_ONE_FAMILY, on),
                IdOption::AckTimeout(code) => found.ack_timeout = Some(code),
            }
            Ok(())
        })
    }

    /// Puts an event of the consumer's own, or of his look-up of a name, into the identifier's channel.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn write_event(
        &self,
        engine: &Engine,
        id: u32,
        kind: NewsKind,
        status: i32,
        arg: u64,
    ) -> Result<(), Error> {
        self.with(engine, id, |_, found| {
            found.tell_with(id, kind, status, arg);
            Ok(())
        })
    }

    /// Moves an identifier and its waiting events to another channel. Gives the number of its events that were handed out.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn migrate(
        &self,
        engine: &Engine,
        id: u32,
        channel: &Arc<CmChannel>,
    ) -> Result<u32, Error> {
        self.with(engine, id, |_, found| {
            let old = std::mem::replace(&mut found.channel, channel.clone());
            let of_id =
                |news: &News| news.id == id && news.listener.is_none() || news.listener == Some(id);
            for news in old.events.drain(of_id) {
                channel.events.push(news);
            }
            Ok(found.reported.load(Ordering::Acquire))
        })
    }
}
