//! The connection manager of a process: identifiers as rdma_cm has them, over the machine of `ferriband-cm`.
//!
//! Owns the identifiers, their addresses, devices and events. Messages travel by queue pair 1 of the RoCE wire or, on one host, from
//! process to process ([`carry`]); which device an address belongs to is [`route`]'s matter. Must not know the C API: `abi/verbs` exports
//! it to librdmacm.

mod carry;
mod events;
mod route;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ferriband_cm::{
    CmError, CmLimits, Enhanced, ListenParams, Machine, RepParams, ReqParams, SidrParams,
    SidrReplyParams, UserId,
};
use ferriband_memory::host::{
    SERVICE_LISTENS, SERVICE_ONE_FAMILY, SERVICE_SHARED, Service, ServiceClaim,
};
use ferriband_transport::types::{AddressVector, QpAttr, QpAttrMask, QpState, QpType};
use ferriband_wire::cm::{Failover, Info, IpCmHeader, IpPair, PortSpace, RejectReason, SidrStatus};
use ferriband_wire::{CommId, Gid, Lid, PKey, Psn, QKey, Qpn, ServiceId, TimeCode};

use crate::channel::EventQueue;
use crate::device::Device;
use crate::engine::Engine;
use crate::error::Error;
use crate::{limits, lock};
pub(crate) use carry::{MAD, owner_of_mad};
pub use events::{ConnParam, News, NewsKind, UdParam};
use route::Place;

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
            engine: Engine::get()?,
            events: EventQueue::new()?,
        }))
    }

    /// Takes the oldest event, waiting for one unless the descriptor is non-blocking.
    ///
    /// # Errors
    /// `WouldBlock`, `Interrupted`, `Gone`.
    pub fn next_event(&self) -> Result<News, Error> {
        self.engine.check_alive()?;
        self.engine.hand_over();
        let news = self.events.next()?;
        self.engine.cm().told(&news);
        Ok(news)
    }
}

/// What is asked of a connection (`rdma_conn_param`).
#[derive(Clone, Copy, Debug)]
pub struct ConnWish<'a> {
    /// The local queue pair.
    pub qp_num: u32,
    /// Q_Key of a datagram service; 0 the usual one.
    pub qkey: u32,
    /// READs and atomics that the queue pair takes.
    pub responder_resources: u8,
    /// READs and atomics that it will have outstanding.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries.
    pub retry_count: u8,
    /// RNR retries.
    pub rnr_retry_count: u8,
    /// The queue pair has a shared receive queue.
    pub srq: bool,
    /// A vendor's options.
    pub enhanced: Enhanced,
    /// The consumer's bytes.
    pub private_data: &'a [u8],
}

/// What is known of an identifier.
#[derive(Clone, Debug)]
pub struct IdInfo {
    /// Its device.
    pub device: Option<Arc<Device>>,
    /// The GID here and there.
    pub sgid: Gid,
    /// As `sgid`.
    pub dgid: Gid,
    /// LID of the host, 0 on Ethernet.
    pub lid: Lid,
    /// Address here.
    pub src: Option<SocketAddr>,
    /// Address there.
    pub dst: Option<SocketAddr>,
    /// A path is known.
    pub routed: bool,
    /// Traffic class of its path.
    pub traffic_class: u8,
    /// Packet life of its path.
    pub packet_life: u8,
}

/// An option of an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdOption {
    /// Traffic class of its path.
    Tos(u8),
    /// Others may bind the same address.
    ReuseAddress(bool),
    /// A wildcard address stands for its family only.
    OneFamily(bool),
    /// Acknowledgement time-out of its queue pair.
    AckTimeout(u8),
}

/// An identifier.
#[derive(Debug)]
struct Id {
    channel: Arc<CmChannel>,
    user: u64,
    space: PortSpace,
    qp_type: QpType,
    src: Option<SocketAddr>,
    dst: Option<SocketAddr>,
    place: Option<Place>,
    dgid: Gid,
    routed: bool,
    claim: Option<ServiceClaim>,
    listening: bool,
    comm: Option<CommId>,
    /// It was made by a request.
    passive: bool,
    flags: u32,
    tos: u8,
    ack_timeout: Option<u8>,
    /// The PSN that its queue pair expects first: named before the message that tells the other side of it.
    psn: Psn,
    /// The consumer knows that the connection is over.
    ended: bool,
    qkey: u32,
    /// Events that the consumer was given.
    reported: Arc<AtomicU32>,
}

impl Id {
    fn service(&self, port: u16) -> ServiceId {
        ServiceId::from_port(self.space, port)
    }

    /// A queue pair of datagrams: the service is asked for, not a connection.
    fn is_datagram(&self) -> bool {
        self.qp_type == QpType::Ud
    }
}

/// A membership of a multicast group.
#[derive(Debug)]
struct Group {
    id: u32,
    reported: Arc<AtomicU32>,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    ids: BTreeMap<u32, Id>,
    groups: BTreeMap<u32, Group>,
    next: u32,
    /// Messages of this process to itself.
    local: VecDeque<[u8; carry::MAD]>,
}

/// The connection manager. One per process.
#[derive(Debug)]
pub struct Cm {
    state: Mutex<State>,
}

/// A PSN that nobody can predict.
fn random_psn() -> Psn {
    let mut bytes = [0; 4];
    // without randomness it is predictable, no more
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    Psn::new(u32::from_ne_bytes(bytes) & 0xff_ffff)
}

fn refused(error: CmError) -> Error {
    match error {
        CmError::NoSuchId => Error::NotFound("no such identifier"),
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
        Cm {
            state: Mutex::new(State {
                machine: Machine::new(slot, CmLimits::default(), key),
                ids: BTreeMap::new(),
                groups: BTreeMap::new(),
                next: 1,
                local: VecDeque::new(),
            }),
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
        let mut state = lock(&self.state);
        let number = state.next;
        state.next = state.next.checked_add(1).unwrap_or(1);
        state.ids.insert(
            number,
            Id {
                channel: channel.clone(),
                user,
                space,
                qp_type,
                src: None,
                dst: None,
                place: None,
                dgid: Gid::default(),
                routed: false,
                claim: None,
                listening: false,
                comm: None,
                passive: false,
                flags: 0,
                tos: 0,
                ack_timeout: None,
                psn: random_psn(),
                ended: false,
                qkey: UDP_QKEY,
                reported: Arc::default(),
            },
        );
        Ok(number)
    }

    /// Destroys an identifier; its peer is told. Gives the number of its events that were handed out.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn destroy_id(&self, engine: &Engine, id: u32) -> Result<u32, Error> {
        engine.check_epoch()?;
        let mut state = lock(&self.state);
        let mut found = state
            .ids
            .remove(&id)
            .ok_or(Error::NotFound("no such identifier"))?;
        let now = Engine::now();
        // requests that nobody has seen yet go with their listener
        let orphans: Vec<u32> = found
            .channel
            .events
            .collect(|news| news.listener == Some(id), |news| news.id);
        for orphan in orphans {
            if let Some(gone) = state.ids.remove(&orphan)
                && let Some(comm) = gone.comm
            {
                state.machine.destroy(now, comm);
            }
        }
        found
            .channel
            .events
            .retract(|news| news.id == id || news.listener == Some(id));
        if found.listening {
            let _ = state.machine.unlisten(now, UserId(id.into()));
        }
        if let Some(comm) = found.comm {
            state.machine.destroy(now, comm);
        }
        state.groups.retain(|_, group| group.id != id);
        self.pump(engine, &mut state);
        drop(state);
        if let Some(claim) = found.claim.take() {
            engine.registry.service_release(claim);
            engine.services_changed();
        }
        Ok(found.reported.load(Ordering::Acquire))
    }

    /// Binds to an address; port 0 chooses one.
    ///
    /// # Errors
    /// `InUse`, `Address` if it is not one of this host's, `Invalid` if the identifier is bound.
    pub fn bind(&self, engine: &Engine, id: u32, address: SocketAddr) -> Result<(), Error> {
        self.with(engine, id, |_, id| bind(engine, id, address))
    }

    /// Finds device and address for a destination; ADDR_RESOLVED or ADDR_ERROR follows.
    ///
    /// # Errors
    /// As [`Cm::bind`] for `from`.
    pub fn resolve_addr(
        &self,
        engine: &Engine,
        id: u32,
        from: Option<SocketAddr>,
        to: SocketAddr,
    ) -> Result<(), Error> {
        self.with(engine, id, |_, found| {
            if found.comm.is_some() || found.listening {
                return Err(Error::Invalid("the identifier is in use"));
            }
            if let Some(from) = from
                && found.src.is_none()
            {
                bind(engine, found, from)?;
            }
            let resolved = route::resolve(found.src.map(|src| src.ip()), to);
            let status = match resolved {
                Ok((source, place)) => {
                    found.dgid = place.towards(to.ip());
                    found.place = Some(place);
                    found.dst = Some(to);
                    match found.src {
                        Some(src) if !src.ip().is_unspecified() => {}
                        Some(src) => found.src = Some(SocketAddr::new(source, src.port())),
                        None => bind(engine, found, SocketAddr::new(source, 0))?,
                    }
                    0
                }
                Err(errno) => -errno,
            };
            let kind = match status {
                0 => NewsKind::AddrResolved,
                _ => NewsKind::AddrError,
            };
            found.tell(id, kind, status);
            Ok(())
        })
    }

    /// Finds the path; ROUTE_RESOLVED follows.
    ///
    /// # Errors
    /// `Invalid` before an address is resolved.
    pub fn resolve_route(&self, engine: &Engine, id: u32) -> Result<(), Error> {
        self.with(engine, id, |_, found| {
            if found.dst.is_none() || found.place.is_none() {
                return Err(Error::Invalid("the address is not resolved"));
            }
            found.routed = true;
            found.tell(id, NewsKind::RouteResolved, 0);
            Ok(())
        })
    }

    /// Listens.
    ///
    /// # Errors
    /// `InUse`; `Invalid` if the identifier is not bound.
    pub fn listen(&self, engine: &Engine, id: u32, backlog: u32) -> Result<(), Error> {
        // before the table is locked: joining the port takes its time
        let ethernet = crate::device::all()
            .iter()
            .any(|device| device.is_ethernet());
        if ethernet {
            // without the port the service is there for this host only
            let _ = engine.roce();
        }
        self.with(engine, id, |machine, found| {
            let src = match found.src {
                Some(src) => src,
                None => {
                    let any = SocketAddr::from(([0, 0, 0, 0], 0));
                    bind(engine, found, any)?;
                    found.src.unwrap_or(any)
                }
            };
            if found.listening {
                return Err(Error::Invalid("it listens already"));
            }
            let any = src.ip().is_unspecified();
            machine
                .listen(&ListenParams {
                    user: UserId(id.into()),
                    service_id: found.service(src.port()),
                    mask: u64::MAX,
                    gid: None,
                    ip: (!any).then_some(src.ip()),
                    backlog,
                })
                .map_err(refused)?;
            if let Some(claim) = found.claim {
                match engine.registry.service_listen(claim) {
                    Ok(listening) => found.claim = Some(listening),
                    Err(error) => {
                        let _ = machine.unlisten(Engine::now(), UserId(id.into()));
                        return Err(error.into());
                    }
                }
            }
            found.listening = true;
            Ok(())
        })?;
        engine.services_changed();
        Ok(())
    }

    /// Asks for a connection, or for the queue pair behind a service.
    ///
    /// # Errors
    /// `Invalid` without a resolved route or with private data that are too long.
    pub fn connect(&self, engine: &Engine, id: u32, wish: &ConnWish<'_>) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            let (Some(src), Some(dst), Some(place), true) =
                (found.src, found.dst, found.place.as_ref(), found.routed)
            else {
                return Err(Error::Invalid("the route is not resolved"));
            };
            if found.comm.is_some() {
                return Err(Error::Connected);
            }
            let too_long = Error::Invalid("the private data are too long");
            let header = IpCmHeader {
                source_port: src.port(),
                addresses: IpPair::new(src.ip(), dst.ip())
                    .ok_or(Error::Invalid("the addresses are of different families"))?,
            };
            let service_id = found.service(dst.port());
            let remote = carry::route_to(engine, place, found.dgid, service_id, dst.ip());
            let comm = if found.is_datagram() {
                let data = header
                    .before::<216>(wish.private_data)
                    .map_err(|_| too_long)?;
                machine.sidr_request(
                    Engine::now(),
                    &SidrParams {
                        user: UserId(id.into()),
                        route: remote,
                        service_id,
                        pkey: PKey(limits::DEFAULT_PKEY),
                        response_timeout: RESPONSE_TIMEOUT,
                        max_cm_retries: CM_RETRIES,
                        private_data: data.as_bytes(),
                    },
                )
            } else {
                let data = header
                    .before::<92>(wish.private_data)
                    .map_err(|_| too_long)?;
                machine.connect(
                    Engine::now(),
                    &ReqParams {
                        user: UserId(id.into()),
                        route: remote,
                        service_id,
                        qp_type: found.qp_type,
                        local_qpn: Qpn(wish.qp_num),
                        starting_psn: Some(found.psn),
                        primary: (place.end(), place.path(found.dgid, found.tos)),
                        alternate: None,
                        path_mtu: place.device.port().mtu,
                        pkey: PKey(limits::DEFAULT_PKEY),
                        responder_resources: wish.responder_resources,
                        initiator_depth: wish.initiator_depth,
                        retry_count: wish.retry_count & 7,
                        rnr_retry_count: wish.rnr_retry_count & 7,
                        flow_control: wish.flow_control,
                        srq: wish.srq,
                        remote_response_timeout: RESPONSE_TIMEOUT,
                        local_response_timeout: RESPONSE_TIMEOUT,
                        max_cm_retries: CM_RETRIES,
                        enhanced: wish.enhanced,
                        private_data: data.as_bytes(),
                    },
                )
            };
            found.comm = Some(comm.map_err(refused)?);
            Ok(())
        })
    }

    /// Accepts the request that made the identifier, whose events are for `user` from now on.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`.
    pub fn accept(
        &self,
        engine: &Engine,
        id: u32,
        user: u64,
        wish: &ConnWish<'_>,
    ) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            let comm = found
                .comm
                .filter(|_| found.passive)
                .ok_or(Error::Invalid("no request made the identifier"))?;
            found.user = user;
            let done = if found.is_datagram() {
                if wish.qkey != 0 {
                    found.qkey = wish.qkey;
                }
                machine.sidr_reply(
                    Engine::now(),
                    comm,
                    &SidrReplyParams {
                        status: SidrStatus::Valid,
                        qpn: Qpn(wish.qp_num),
                        qkey: QKey(found.qkey),
                        info: Info::NONE,
                        enhanced: wish.enhanced,
                        private_data: wish.private_data,
                    },
                )
            } else {
                machine.accept(
                    Engine::now(),
                    comm,
                    &RepParams {
                        local_qpn: Qpn(wish.qp_num),
                        starting_psn: Some(found.psn),
                        responder_resources: wish.responder_resources,
                        initiator_depth: wish.initiator_depth,
                        failover: Failover::Accepted,
                        flow_control: wish.flow_control,
                        rnr_retry_count: wish.rnr_retry_count & 7,
                        srq: wish.srq,
                        enhanced: wish.enhanced,
                        private_data: wish.private_data,
                    },
                )
            };
            done.map_err(refused)
        })
    }

    /// The queue pair is ready after a response: the connection is established.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`.
    pub fn ready(&self, engine: &Engine, id: u32) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            let comm = found.comm.ok_or(Error::Invalid("not connected"))?;
            machine.ready(comm, &[]).map_err(refused)
        })
    }

    /// Refuses a request or a response.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`.
    pub fn reject(
        &self,
        engine: &Engine,
        id: u32,
        reason: u16,
        private_data: &[u8],
    ) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            let comm = found.comm.ok_or(Error::Invalid("nothing to refuse"))?;
            let now = Engine::now();
            let done = if found.is_datagram() {
                machine.sidr_reply(
                    now,
                    comm,
                    &SidrReplyParams {
                        status: SidrStatus::Rejected,
                        qpn: Qpn(0),
                        qkey: QKey(0),
                        info: Info::NONE,
                        enhanced: Enhanced::default(),
                        private_data,
                    },
                )
            } else {
                let reason = RejectReason::from_code(reason);
                machine.reject(now, comm, reason, &[], private_data)
            };
            done.map_err(refused)
        })
    }

    /// Ends the connection, or answers its end.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`.
    pub fn disconnect(&self, engine: &Engine, id: u32) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            let comm = found.comm.ok_or(Error::Invalid("not connected"))?;
            machine
                .disconnect(Engine::now(), comm, &[])
                .map_err(refused)
        })
    }

    /// Data has come before the other side's last word (IBV_EVENT_COMM_EST).
    ///
    /// # Errors
    /// `Connected` if the connection is established; `Invalid`, `NotFound`.
    pub fn established(&self, engine: &Engine, id: u32) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            let comm = found.comm.ok_or(Error::Invalid("not connected"))?;
            machine.established_hint(comm).map_err(refused)
        })
    }

    /// Attributes and mask of a transition of the identifier's queue pair.
    ///
    /// # Errors
    /// `Invalid` while too little is known.
    pub fn qp_attr(
        &self,
        engine: &Engine,
        id: u32,
        to: QpState,
    ) -> Result<(QpAttr, QpAttrMask), Error> {
        self.with(engine, id, |machine, found| {
            if found.place.is_none() {
                return Err(Error::Invalid("the identifier has no device yet"));
            }
            let early = Error::Invalid("the connection is not far enough for this state");
            if found.is_datagram() {
                return ferriband_cm::datagram(to, 1, 0, QKey(found.qkey)).ok_or(early);
            }
            let known = found.comm.and_then(|comm| machine.qp_attr(comm, to));
            let (mut attr, mask) = match (known, to) {
                (Some(known), _) => known,
                (None, QpState::Init) => ferriband_cm::connected_init(1, 0),
                (None, _) => return Err(early),
            };
            if mask.contains(QpAttrMask::RQ_PSN) {
                attr.rq_psn = found.psn;
            }
            if let Some(timeout) = found.ack_timeout
                && mask.contains(QpAttrMask::TIMEOUT)
            {
                attr.timeout = timeout;
            }
            Ok((attr, mask))
        })
    }

    /// What is known of an identifier.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn query(&self, engine: &Engine, id: u32) -> Result<IdInfo, Error> {
        self.with(engine, id, |_, found| {
            let place = found.place.as_ref();
            Ok(IdInfo {
                device: place.map(|place| place.device.clone()),
                sgid: place.map_or(Gid::default(), Place::gid),
                dgid: found.dgid,
                lid: place.map_or(Lid(0), |place| place.device.port().lid),
                src: found.src,
                dst: found.dst,
                routed: found.routed,
                traffic_class: found.tos,
                packet_life: PACKET_LIFE.0,
            })
        })
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_option(&self, engine: &Engine, id: u32, option: IdOption) -> Result<(), Error> {
        self.with(engine, id, |_, found| {
            let flag = |flags: u32, bit: u32, on: bool| if on { flags | bit } else { flags & !bit };
            match option {
                IdOption::Tos(tos) => found.tos = tos,
                IdOption::ReuseAddress(on) => found.flags = flag(found.flags, SERVICE_SHARED, on),
                IdOption::OneFamily(on) => found.flags = flag(found.flags, SERVICE_ONE_FAMILY, on),
                IdOption::AckTimeout(code) => found.ack_timeout = Some(code),
            }
            Ok(())
        })
    }

    /// Joins a multicast group; MULTICAST_JOIN follows with the group's address vector.
    ///
    /// # Errors
    /// `Unsupported` on Ethernet for now; `Invalid` without a device or for an address that is no group's.
    pub fn join(
        &self,
        engine: &Engine,
        id: u32,
        address: SocketAddr,
        user: u64,
    ) -> Result<u32, Error> {
        engine.check_alive()?;
        let mut state = lock(&self.state);
        let State {
            ids, groups, next, ..
        } = &mut *state;
        let found = ids.get(&id).ok_or(Error::NotFound("no such identifier"))?;
        let place = found
            .place
            .as_ref()
            .ok_or(Error::Invalid("the identifier has no device yet"))?;
        if place.device.is_ethernet() {
            return Err(Error::Unsupported("multicast on Ethernet devices"));
        }
        let (mgid, mlid) =
            route::group(address.ip()).ok_or(Error::Invalid("no multicast address"))?;
        let number = *next;
        *next = next.checked_add(1).unwrap_or(1);
        let group = Group {
            id,
            reported: Arc::default(),
        };
        found.channel.events.push(News {
            kind: NewsKind::MulticastJoin,
            user,
            id,
            listener: None,
            group: Some(number),
            status: 0,
            enhanced: Enhanced::default(),
            conn: ConnParam::default(),
            ud: Some(UdParam {
                qp_num: 0xff_ffff,
                qkey: found.qkey,
                av: AddressVector {
                    dgid: mgid,
                    dlid: mlid,
                    sgid_index: place.sgid_index,
                    hop_limit: 1,
                    is_global: true,
                    port_num: 1,
                    ..AddressVector::default()
                },
            }),
            reported: group.reported.clone(),
        });
        groups.insert(number, group);
        Ok(number)
    }

    /// Leaves a group. Gives the number of its events that were handed out.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn leave(&self, engine: &Engine, group: u32) -> Result<u32, Error> {
        engine.check_epoch()?;
        let mut state = lock(&self.state);
        let gone = state
            .groups
            .remove(&group)
            .ok_or(Error::NotFound("no such membership"))?;
        if let Some(id) = state.ids.get(&gone.id) {
            id.channel.events.retract(|news| news.group == Some(group));
        }
        Ok(gone.reported.load(Ordering::Acquire))
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
            let waiting = old.events.collect(of_id, News::clone);
            old.events.retract(of_id);
            for news in waiting {
                channel.events.push(news);
            }
            Ok(found.reported.load(Ordering::Acquire))
        })
    }
}

/// Binds an identifier: claims the port, finds the device.
fn bind(engine: &Engine, id: &mut Id, address: SocketAddr) -> Result<(), Error> {
    if id.src.is_some() {
        return Err(Error::Invalid("the identifier is bound"));
    }
    let place = if address.ip().is_unspecified() {
        None
    } else {
        Some(
            route::place_of(address.ip())
                .ok_or(Error::Address("the address is none of this host's"))?,
        )
    };
    let claim = |port: u16| {
        engine.registry.service_claim(&Service {
            id: ServiceId::from_port(id.space, port).0,
            gid: route::service_gid(address.ip()),
            flags: id.flags & !SERVICE_LISTENS,
            word: 0,
        })
    };
    let (port, held) = if address.port() != 0 {
        (address.port(), claim(address.port())?)
    } else {
        // others look for one at the same time: each begins elsewhere
        let span = u32::from(EPHEMERAL.end - EPHEMERAL.start);
        let first = (Engine::now().0 >> 8) as u32 ^ std::process::id().wrapping_mul(2_654_435_761);
        (0..span)
            .map(|step| EPHEMERAL.start + (first.wrapping_add(step) % span) as u16)
            .find_map(|port| claim(port).ok().map(|held| (port, held)))
            .ok_or(Error::InUse("no port is free"))?
    };
    id.claim = Some(held);
    id.src = Some(SocketAddr::new(address.ip(), port));
    id.place = place;
    Ok(())
}

impl Id {
    /// An event without parameters.
    fn tell(&self, number: u32, kind: NewsKind, status: i32) {
        self.channel.events.push(News {
            kind,
            user: self.user,
            id: number,
            listener: None,
            group: None,
            status,
            enhanced: Enhanced::default(),
            conn: ConnParam::default(),
            ud: None,
            reported: self.reported.clone(),
        });
    }
}
