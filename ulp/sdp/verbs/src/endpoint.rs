//! A side before it is connected: what it brings, and how it gets to RTS.
//!
//! Owns: attributes of queue pairs. Must not know: what Hello and HelloAck look like, and when the
//! connection manager has news.

use crate::hello::{FlowKind, Told, second_of};
use crate::lengths::Lengths;
use crate::queues::{Buffer, Queues, Second};
use crate::stream::Stream;
use ferriband_ibv::{Access, CmId, CompChannel, Context, Cq, Gid, Lid, LinkLayer, Mtu, OutOfRange};
use ferriband_ibv::{AdapterKind, Beside, Pd};
use ferriband_ibv::{Qp, QpCaps, QpInit, QpType, Qpn, Route, Rtr, Rts, VerbsError};
use ferriband_sdp_proto::connection::{CONTROL_WORKS, Config, ConfigError, Connection, DATA_WORKS};
use ferriband_sdp_proto::connection::{Flow, HEAD_BYTES, MESSAGE_BYTES, OFFER_RECEIVES};
use ferriband_sdp_proto::connection::{Over, Peer};
use ferriband_sdp_proto::settings::ZeroCopy;
use ferriband_sdp_wire::{FlowControl, RKey, Ring};
use std::io;
use std::sync::Arc;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The verbs API refuses.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// There is no memory.
    #[error("buffers: {0}")]
    Memory(#[from] io::Error),
    /// A place outside the buffers: a fault of this crate, or a peer that was believed.
    #[error(transparent)]
    Place(#[from] OutOfRange),
    /// Numbers that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The connection is over.
    #[error(transparent)]
    Over(#[from] Over),
    /// An offer is fetched, or made, where the machine allows none.
    #[error("no offer may be made or fetched")]
    NoOffer,
    /// An RDMA READ without a place for its bytes.
    #[error("nothing says where fetched bytes go")]
    NoBuffer,
    /// A work of the second queue pair where there is none.
    #[error("the connection has no second queue pair")]
    NoSecond,
    /// The peer's end lies on another kind of link.
    #[error("the ports have no kind of address in common")]
    NoRoute,
    /// The connection manager has no device for the address, or has lost it.
    #[error("the address belongs to no adapter")]
    NoAdapter,
}

/// A port of an open adapter, with a domain for connections.
#[derive(Debug)]
pub struct Adapter {
    context: Arc<Context>,
    pd: Arc<Pd>,
    port: u8,
    lid: Lid,
    gid: Gid,
    mtu: Mtu,
    by_gid: bool,
}

impl Adapter {
    /// A port, counted from 1, and the first entry of its GID table.
    ///
    /// # Errors
    /// As the verbs API.
    pub fn new(context: &Arc<Context>, port: u8) -> Result<Arc<Adapter>, Error> {
        let info = context.port(port)?;
        Ok(Arc::new(Adapter {
            pd: Pd::alloc(context)?,
            context: Arc::clone(context),
            port,
            lid: info.lid,
            gid: context.gid(port, 0)?,
            mtu: info.active_mtu,
            by_gid: info.link_layer == LinkLayer::Ethernet,
        }))
    }

    /// Whether its port lies on Ethernet.
    pub fn is_ethernet(&self) -> bool {
        self.by_gid
    }

    /// Whether it is this port of this open device.
    pub(crate) fn is(&self, context: &Arc<Context>, port: u8) -> bool {
        Arc::ptr_eq(&self.context, context) && self.port == port
    }

    /// What kind of adapter it is.
    ///
    /// # Errors
    /// As the verbs API.
    pub fn kind(&self) -> Result<AdapterKind, Error> {
        Ok(AdapterKind::from(&self.context.limits()?))
    }

    /// From which length on writes go without copies here, for [`Stream::set_zero_copy`].
    ///
    /// # Errors
    /// As the verbs API.
    pub fn zero_copy(
        &self,
        setting: ZeroCopy,
        measured: &Lengths,
        flow: FlowKind,
    ) -> Result<Option<u64>, Error> {
        Ok(match setting {
            ZeroCopy::Never => None,
            ZeroCopy::From(least) => Some(least),
            ZeroCopy::Auto => {
                let kind = self.kind()?;
                let known = measured.of(kind, flow);
                let known = known.or_else(|| Lengths::shipped().of(kind, flow));
                known.flatten()
            }
        })
    }

    fn route(&self, peer: &End) -> Result<Route, Error> {
        if self.by_gid != peer.by_gid {
            return Err(Error::NoRoute);
        }
        Ok(Route {
            dlid: peer.lid,
            global: self.by_gid.then_some((peer.gid, 0)),
            hop_limit: 64,
            port: self.port,
            ..Route::default()
        })
    }
}

/// What a side tells its peer before they are connected. Flow control, receives and their length
/// travel in Hello and HelloAck; the rest is the connection manager's, where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Its queue pair.
    pub qp: Qpn,
    /// The PSN that it begins with.
    pub psn: u32,
    /// Address of its port on InfiniBand.
    pub lid: Lid,
    /// Address of its port on Ethernet.
    pub gid: Gid,
    /// Whether its port lies on Ethernet.
    pub by_gid: bool,
    /// Path MTU of its port.
    pub mtu: Mtu,
    /// Receives that it has posted: `bufs` of the BSDH.
    pub receives: u16,
    /// Bytes of each, header included.
    pub receive_bytes: u32,
    /// Its flow control, with its ring.
    pub flow_control: FlowControl,
}

/// A side with its queue pair and its buffers, whose receives are posted.
pub struct Endpoint {
    adapter: Arc<Adapter>,
    config: Config,
    queues: Queues,
    psn: u32,
}

/// How often a lost packet is sent again, and how long its answer may take (4.096 us times 2 to
/// this power: 67 ms).
pub(crate) const RETRIES: u8 = 7;
pub(crate) const TIMEOUT: u8 = 14;
/// A work that finds no receive is tried again without end: the flow control *nic* lives on it.
pub(crate) const FOR_EVER: u8 = 7;
/// The shortest time that the API knows until that is done, 0.01 ms: a receive is posted as soon as
/// the program has read.
const RNR_TIMER: u8 = 1;
/// What the peer may do to memory of this side.
const REMOTE: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ);

/// The PSN that a queue pair begins with. That of the second one is not told: it follows from its
/// number.
fn psn_of(qp: Qpn) -> u32 {
    qp.0.wrapping_mul(0x9e_3779) & 0xff_ffff
}

/// The way to a peer.
struct Way {
    route: Route,
    mtu: Mtu,
}

impl Way {
    /// Takes a queue pair from INIT to RTS: `psn` is its own, the others are its peer's.
    fn ready(&self, qp: &Qp, psn: u32, peer: Qpn, peer_psn: u32) -> Result<(), Error> {
        qp.ready_to_receive(&Rtr {
            peer,
            route: self.route,
            rq_psn: peer_psn,
            mtu: self.mtu,
            max_dest_rd_atomic: 1,
            min_rnr_timer: RNR_TIMER,
        })?;
        Ok(qp.ready_to_send(&Rts {
            sq_psn: psn,
            max_rd_atomic: 1,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: FOR_EVER,
        })?)
    }
}

impl Endpoint {
    /// The domain that memory for [`Stream::offer`] and [`Stream::fetch`] is registered in.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.adapter.pd
    }

    /// Makes a queue pair and buffers, and posts the receives that [`Endpoint::end`] tells of.
    ///
    /// # Errors
    /// As the verbs API; numbers that cannot be.
    pub fn new(adapter: &Arc<Adapter>, config: Config) -> Result<Endpoint, Error> {
        Endpoint::made(adapter, config, |qp| qp.init(adapter.port, 0, REMOTE))
    }

    /// As [`Endpoint::new`], with a queue pair for a connection of the manager's.
    pub(crate) fn managed(
        adapter: &Arc<Adapter>,
        config: Config,
        id: &CmId,
    ) -> Result<Endpoint, Error> {
        Endpoint::made(adapter, config, |qp| id.init_qp(qp))
    }

    fn made(
        adapter: &Arc<Adapter>,
        config: Config,
        init_qp: impl FnOnce(&Qp) -> Result<(), VerbsError>,
    ) -> Result<Endpoint, Error> {
        config.check()?;
        let (context, pd) = (&adapter.context, &adapter.pd);
        let channel = CompChannel::create(context)?;
        channel.set_nonblocking()?;
        let works = DATA_WORKS + CONTROL_WORKS;
        let receives = u32::from(config.receives());
        let has_second = matches!(config.flow, Flow::Nic { offers: true, .. });
        let of_second = match has_second {
            true => (CONTROL_WORKS, u32::from(OFFER_RECEIVES)),
            false => (0, 0),
        };
        let send_cq = Cq::create(context, works + of_second.0, Some(&channel), 0)?;
        let receive_cq = Cq::create(context, receives + of_second.1, Some(&channel), 0)?;
        let make = |send_wr, recv_wr| {
            let caps = QpCaps {
                send_wr,
                recv_wr,
                send_sge: 1,
                recv_sge: 1,
                inline: HEAD_BYTES as u32,
            };
            let init = QpInit {
                caps,
                signal_all: true,
                ..QpInit::new(QpType::Rc, &send_cq, &receive_cq)
            };
            Qp::create(pd, &init)
        };
        let qp = make(works, receives)?;
        init_qp(&qp)?;
        let second = match has_second {
            false => None,
            true => {
                let qp = make(of_second.0, of_second.1)?;
                qp.init(adapter.port, 0, REMOTE)?;
                let bytes = of_second.1 * MESSAGE_BYTES;
                let receive = Buffer::new(pd, bytes, Access::LOCAL_WRITE)?;
                Some(Second { qp, receive })
            }
        };
        let local = Access::LOCAL_WRITE;
        let ring = match config.ring_bytes() {
            0 => None,
            bytes => Some(Buffer::new(pd, bytes, local | Access::REMOTE_WRITE)?),
        };
        let mut queues = Queues {
            psn_seed: qp.number().0,
            pd: Arc::clone(pd),
            qp,
            second,
            send_cq,
            receive_cq,
            channel,
            send: Buffer::new(pd, config.send_bytes(), Access::empty())?,
            receive: Buffer::new(pd, receives * config.receive_bytes(), local)?,
            ring,
            receive_bytes: config.receive_bytes(),
            peer_ring: None,
            fetch_to: None,
            early: config.receives(),
        };
        queues.post_early()?;
        Ok(Endpoint {
            adapter: Arc::clone(adapter),
            config,
            psn: psn_of(Qpn(queues.psn_seed)),
            queues,
        })
    }

    /// What the peer has to know.
    pub fn end(&self) -> End {
        let ring = self.queues.ring.as_ref().map(|buffer| Ring {
            virtual_address: buffer.mr.address(),
            rkey: RKey(buffer.mr.rkey().0),
            size_bytes: self.config.ring_bytes(),
        });
        let flow_control = match (self.config.flow, ring) {
            (Flow::Ring { .. }, Some(ring)) => FlowControl::Ring(ring),
            (Flow::Nic { window_bytes, .. }, Some(ring)) => FlowControl::Nic {
                ring,
                window_bytes,
                second_qp: self
                    .queues
                    .second
                    .as_ref()
                    .map_or(0, |second| second.qp.number().0),
            },
            _ => FlowControl::Credit,
        };
        End {
            qp: self.queues.qp.number(),
            psn: self.psn,
            lid: self.adapter.lid,
            gid: self.adapter.gid,
            by_gid: self.adapter.by_gid,
            mtu: self.adapter.mtu,
            receives: self.config.receives(),
            receive_bytes: self.config.receive_bytes(),
            flow_control,
        }
    }

    /// Takes the queue pair to RTS towards the peer, which does the same at its side. Bytes may be
    /// sent at once: what comes before the peer is ready is sent again.
    ///
    /// # Errors
    /// As the verbs API; a peer whose numbers cannot be.
    pub fn connect(mut self, peer: &End) -> Result<Stream, Error> {
        let second = second_of(&peer.flow_control);
        let known = Peer::new(peer.receives, peer.receive_bytes, Some(peer.flow_control));
        let machine = self.machine(known, peer.flow_control.ring())?;
        let mtus = [self.adapter.mtu, peer.mtu];
        let mtu = mtus.into_iter().min_by_key(|mtu| mtu.bytes());
        let way = Way {
            route: self.adapter.route(peer)?,
            mtu: mtu.unwrap_or(Mtu::Mtu256),
        };
        way.ready(&self.queues.qp, self.psn, peer.qp, peer.psn)?;
        self.join_second(second, |qp, beside| {
            way.ready(qp, beside.sq_psn, beside.peer, beside.rq_psn)
        })?;
        Stream::new(machine, self.queues, None)
    }

    /// Takes the second queue pair to RTS, or gives it up where the peer has none.
    fn join_second(
        &mut self,
        peer: Option<Qpn>,
        ready: impl FnOnce(&Qp, &Beside) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.queues.second = self.queues.second.take().filter(|_| peer.is_some());
        let (Some(second), Some(peer)) = (&self.queues.second, peer) else {
            return Ok(());
        };
        let beside = Beside {
            peer,
            rq_psn: psn_of(peer),
            sq_psn: psn_of(second.qp.number()),
        };
        ready(&second.qp, &beside)
    }

    /// Takes the queue pair to RTS, with what the manager knows of the peer's queue pair. The
    /// connection is the peer's as well once the manager has said so.
    pub(crate) fn join(mut self, id: &Arc<CmId>, told: &Told) -> Result<Stream, Error> {
        let machine = self.machine(told.peer, told.ring())?;
        id.ready_qp(&self.queues.qp)?;
        self.queues.qp.set_min_rnr_timer(RNR_TIMER)?;
        self.join_second(told.second(), |qp, beside| {
            id.ready_beside(qp, beside)?;
            Ok(qp.set_min_rnr_timer(RNR_TIMER)?)
        })?;
        Stream::new(machine, self.queues, Some(Arc::clone(id)))
    }

    pub(crate) fn qp(&self) -> &Arc<Qp> {
        &self.queues.qp
    }

    fn machine(&mut self, peer: Peer, ring: Option<&Ring>) -> Result<Connection, Error> {
        let machine = Connection::new(self.config, peer)?;
        self.queues.peer_ring =
            ring.map(|ring| (ring.virtual_address, ferriband_ibv::RKey(ring.rkey.0)));
        Ok(machine)
    }
}
