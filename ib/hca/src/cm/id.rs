//! An identifier, and what its consumer may ask and know of it.
//!
//! Owns nothing beyond the types. Must not know: how messages travel.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ferriband_cm::Enhanced;
use ferriband_memory::host::{ConnectionClaim, ServiceClaim};
use ferriband_transport::types::{AddressVector, QpType};
use ferriband_wire::cm::PortSpace;
use ferriband_wire::{CommId, Gid, Lid, Mtu, Psn, ServiceId, Sl};

use super::news::{ConnParam, News, NewsKind, UdParam};
use super::route::Place;
use super::{CmChannel, UDP_QKEY};
use crate::device::Device;
use crate::device::fabric::Way;

/// An address as rdma_cm has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmAddress {
    /// IP address and port; of AF_IB the GID as if it were an IPv6 address, and the low 16 bits of the service.
    pub at: SocketAddr,
    /// It is of AF_IB: its service ID and which bits of that count.
    pub service: Option<(u64, u64)>,
}

impl From<SocketAddr> for CmAddress {
    fn from(at: SocketAddr) -> Self {
        CmAddress { at, service: None }
    }
}

impl CmAddress {
    /// An address of AF_IB.
    pub fn native(gid: Gid, service: u64, mask: u64) -> Self {
        CmAddress {
            at: SocketAddr::new(Ipv6Addr::from(gid.0).into(), service as u16),
            service: Some((service, mask)),
        }
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
    /// LID there, 0 on Ethernet.
    pub dlid: Lid,
    /// Service level of its path.
    pub sl: Sl,
    /// The longest packets of its path.
    pub mtu: Option<Mtu>,
    /// Rate of its path, the IBA's code.
    pub rate: u8,
    /// Address here.
    pub src: Option<SocketAddr>,
    /// Address there.
    pub dst: Option<SocketAddr>,
    /// The addresses are of AF_IB: the service ID without the port.
    pub native: Option<u64>,
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

/// How far an identifier has come: the states of Linux's rdma_cm, which say what may be asked of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Nothing was asked of it.
    Idle,
    /// It has an address here. So it has after an address that could not be resolved.
    Bound,
    /// Requests come to it.
    Listening,
    /// The address there and the device are known.
    AddressResolved,
    /// The path is looked for.
    SeeksRoute,
    /// The path is known.
    RouteResolved,
    /// A connection or a service was asked for, by it or of it, whatever came of that.
    Connecting,
    /// The connection was ended, or the device is gone.
    Over,
}

/// An identifier.
#[derive(Debug)]
pub(super) struct Id {
    pub stage: Stage,
    pub channel: Arc<CmChannel>,
    pub user: u64,
    pub space: PortSpace,
    pub qp_type: QpType,
    pub src: Option<SocketAddr>,
    pub dst: Option<SocketAddr>,
    /// Its addresses are of AF_IB: requests have no IP header.
    pub native: bool,
    pub place: Option<Place>,
    pub dgid: Gid,
    /// Through a fabric: how one gets to the other end.
    pub way: Option<Way>,
    pub claim: Option<ServiceClaim>,
    pub comm: Option<CommId>,
    /// It was made by a request.
    pub passive: bool,
    pub flags: u32,
    pub tos: u8,
    pub ack_timeout: Option<u8>,
    /// The PSN that its queue pair expects first: named before the message that tells the other side of it.
    pub psn: Psn,
    /// The consumer knows that the connection is over.
    pub ended: bool,
    pub qkey: u32,
    /// The connection as the host's registry has it, while it leads to another host.
    pub record: Option<ConnectionClaim>,
    /// Events that the consumer was given.
    pub reported: Arc<AtomicU32>,
}

impl Id {
    /// An identifier about which nothing is known yet.
    pub fn new(channel: &Arc<CmChannel>, user: u64, space: PortSpace, qp_type: QpType) -> Self {
        Id {
            stage: Stage::Idle,
            channel: channel.clone(),
            user,
            space,
            qp_type,
            src: None,
            dst: None,
            native: false,
            place: None,
            dgid: Gid::default(),
            way: None,
            claim: None,
            comm: None,
            passive: false,
            flags: 0,
            tos: 0,
            ack_timeout: None,
            psn: random_psn(),
            ended: false,
            qkey: UDP_QKEY,
            record: None,
            reported: Arc::default(),
        }
    }

    pub fn service(&self, port: u16) -> ServiceId {
        ServiceId::from_port(self.space, port)
    }

    /// A queue pair of datagrams: the service is asked for, not a connection.
    pub fn is_datagram(&self) -> bool {
        self.qp_type == QpType::Ud
    }

    /// Requests come to it.
    pub fn is_listening(&self) -> bool {
        self.stage == Stage::Listening
    }

    /// Its path is known.
    pub fn is_routed(&self) -> bool {
        matches!(
            self.stage,
            Stage::RouteResolved | Stage::Connecting | Stage::Over
        )
    }

    /// The parameters of an event that says nothing about the other side; None of connections.
    pub fn no_peer(&self) -> Option<UdParam> {
        self.is_datagram().then(|| UdParam {
            qp_num: 0,
            qkey: 0,
            av: AddressVector::default(),
        })
    }

    /// An event that says nothing about the other side.
    pub fn tell(&self, number: u32, kind: NewsKind, status: i32) {
        self.tell_with(number, kind, status, 0);
    }

    /// An event that says nothing about the other side; `arg` is for one of the consumer's own.
    pub fn tell_with(&self, number: u32, kind: NewsKind, status: i32, arg: u64) {
        let is_own = kind == NewsKind::User;
        self.channel.events.push(News {
            kind,
            user: self.user,
            id: number,
            listener: None,
            group: None,
            status,
            enhanced: Enhanced::default(),
            conn: ConnParam::default(),
            ud: self.no_peer().filter(|_| !is_own),
            arg,
            reported: self.reported.clone(),
        });
    }
}

/// A PSN that nobody can predict.
fn random_psn() -> Psn {
    let mut bytes = [0; 4];
    // without randomness it is predictable, no more
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    Psn::new(u32::from_ne_bytes(bytes) & 0xff_ffff)
}
