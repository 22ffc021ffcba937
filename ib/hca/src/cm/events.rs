//! What the machine says, as the events that consumers know.
//!
//! Owns the translation, and the making of identifiers for requests. Must not know how events are waited for.

use std::net::{Ipv6Addr, SocketAddr};

use ferriband_admin::ConnectionFailure;
use ferriband_cm::table::Kind;
use ferriband_cm::{CmEvent, Enhanced, Event, Request, Route, SidrRequest, UserId, ip_request};
use ferriband_transport::types::{AddressVector, QpType};
use ferriband_wire::cm::{ApStatus, Info, IpCmHeader, SidrStatus};
use ferriband_wire::{CommId, Gid, Lid, ServiceId, Sl};

use super::id::Stage;
use super::news::{ConnParam, News, NewsKind, UdParam};
use super::route::{self, Place};
use super::{Cm, Id, PACKET_LIFE, RATE, State};
use crate::base::incident;
use crate::device::fabric::Way;
use crate::lock;
use crate::progress::Engine;

impl Cm {
    /// The consumer was given an event.
    pub(super) fn told(&self, news: &News) {
        if news.kind == NewsKind::ConnectRequest {
            let mut state = lock(&self.state);
            if let Some(comm) = state.ids.get(&news.id).and_then(|id| id.comm) {
                state.machine.taken(comm);
            }
        }
    }
}

impl State {
    /// Passes on what the machine says.
    pub(super) fn translate(&mut self, engine: &Engine, event: Event) {
        let number = event.user.0 as u32;
        match event.kind {
            CmEvent::Request(request) => self.request(number, event.comm, &request),
            CmEvent::SidrRequest(request) => self.sidr_request(number, event.comm, &request),
            CmEvent::AlternateRequest(_) => {
                let _ = self.machine.answer_alternate(
                    event.comm,
                    &ferriband_cm::AprParams {
                        status: ApStatus::NotSupported,
                        info: Info::NONE,
                        private_data: &[],
                    },
                );
            }
            CmEvent::AlternateAnswer { .. } => {}
            kind => self.about(engine, number, kind),
        }
    }

    /// An event of an identifier that exists.
    fn about(&mut self, engine: &Engine, number: u32, kind: CmEvent) {
        let over = matches!(
            kind,
            CmEvent::Rejected { .. } | CmEvent::Unreachable(_) | CmEvent::DeviceGone
        );
        if over && self.withdraw(number) {
            return;
        }
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        if let (CmEvent::DisconnectRequest(_), Some(comm)) = (&kind, id.comm)
            && let Some(connection) = self.machine.summary(comm)
        {
            engine.ends.note(connection.local_qpn.0);
        }
        if matches!(
            kind,
            CmEvent::DisconnectRequest(_) | CmEvent::Disconnected(_) | CmEvent::DeviceGone
        ) {
            id.stage = Stage::Over;
        }
        match kind {
            CmEvent::Established(_) => id.open_record(engine, &self.machine),
            CmEvent::Rejected { .. }
            | CmEvent::DisconnectRequest(_)
            | CmEvent::Disconnected(_)
            | CmEvent::TimewaitExit
            | CmEvent::DeviceGone => id.close_record(engine),
            _ => {}
        }
        let mut ud = id.no_peer();
        let mut enhanced = Enhanced::default();
        let (kind, status, conn) = match kind {
            CmEvent::Reply(reply) => {
                enhanced = reply.enhanced;
                let conn = ConnParam {
                    qp_num: reply.remote_qpn.0,
                    responder_resources: reply.responder_resources,
                    initiator_depth: reply.initiator_depth,
                    flow_control: reply.flow_control,
                    rnr_retry_count: reply.rnr_retry_count,
                    srq: reply.srq,
                    ..ConnParam::with(reply.private_data.as_bytes())
                };
                (NewsKind::ConnectResponse, 0, conn)
            }
            // As from the kernel: the bytes of RTU, DREQ and DREP are no consumer's, and rdma_get_cm_event(3) has none in these events.
            CmEvent::Established(_) => (NewsKind::Established, 0, ConnParam::default()),
            CmEvent::Rejected {
                reason,
                private_data,
                ..
            } => {
                id.failed(ConnectionFailure {
                    outcome: "rejected".into(),
                    reason: reason.number(),
                    reason_text: reason.to_string(),
                    ..ConnectionFailure::default()
                });
                id.comm = None;
                let conn = ConnParam::with(private_data.as_bytes());
                (NewsKind::Rejected, reason.number().into(), conn)
            }
            CmEvent::Unreachable(kind) => {
                if matches!(kind, Kind::Req | Kind::Rep | Kind::SidrReq) {
                    id.failed(ConnectionFailure {
                        outcome: "unreachable".into(),
                        unanswered: match kind {
                            Kind::Req => "REQ",
                            Kind::Rep => "REP",
                            _ => "SIDR_REQ",
                        }
                        .into(),
                        ..ConnectionFailure::default()
                    });
                    id.comm = None;
                }
                (
                    NewsKind::Unreachable,
                    -libc::ETIMEDOUT,
                    ConnParam::default(),
                )
            }
            CmEvent::DisconnectRequest(_) | CmEvent::Disconnected(_) => {
                (NewsKind::Disconnected, 0, ConnParam::default())
            }
            CmEvent::TimewaitExit => {
                id.comm = None;
                (NewsKind::TimewaitExit, 0, ConnParam::default())
            }
            CmEvent::DeviceGone => (NewsKind::DeviceRemoval, 0, ConnParam::default()),
            CmEvent::SidrReply(answer) => {
                id.comm = None;
                let conn = ConnParam::with(answer.private_data.as_bytes());
                if answer.status == SidrStatus::Valid {
                    id.qkey = answer.qkey.0;
                    ud = Some(UdParam {
                        qp_num: answer.qpn.0,
                        qkey: answer.qkey.0,
                        av: answer.av.unwrap_or_else(|| way(id)),
                    });
                    (NewsKind::Established, 0, conn)
                } else {
                    id.failed(ConnectionFailure {
                        outcome: "rejected".into(),
                        reason: answer.status.number().into(),
                        reason_text: answer.status.to_string(),
                        ..ConnectionFailure::default()
                    });
                    (NewsKind::Unreachable, answer.status.number().into(), conn)
                }
            }
            _ => return,
        };
        // asked for and granted, or from both sides at once: the consumer hears of the end once
        if kind == NewsKind::Disconnected && std::mem::replace(&mut id.ended, true) {
            return;
        }
        // As in the kernel a request that was not accepted yet ends in silence: its end shows when the consumer uses it. An event that nobody
        // is shown would make the channel look ready for whoever polls it.
        if id.passive && id.user == 0 && kind != NewsKind::Established {
            return;
        }
        id.channel.events.push(News {
            kind,
            user: id.user,
            id: number,
            listener: None,
            group: None,
            status,
            enhanced,
            conn,
            ud,
            arg: 0,
            reported: id.reported.clone(),
        });
    }

    /// A request ends of which the consumer has not heard yet: it never does. So who asks and withdraws, again and again, fills neither
    /// the channel nor the table. False if the consumer knows of it.
    fn withdraw(&mut self, number: u32) -> bool {
        let Some(id) = self.ids.get(&number).filter(|id| id.passive) else {
            return false;
        };
        let unread = |news: &News| news.kind == NewsKind::ConnectRequest && news.id == number;
        let withdrawn = id.channel.events.retract(unread) > 0;
        if withdrawn {
            self.ids.remove(&number);
        }
        withdrawn
    }

    /// The IP addresses of a request and the consumer's bytes, unless its listener is one of native
    /// addresses.
    fn header<'a>(
        &self,
        listener: u32,
        service: ServiceId,
        data: &'a [u8],
    ) -> Option<(IpCmHeader, &'a [u8])> {
        let native = self.ids.get(&listener).is_some_and(|at| at.native);
        ip_request(service, data).filter(|_| !native)
    }

    fn request(&mut self, listener: u32, comm: CommId, request: &Request) {
        let ip = self.header(
            listener,
            request.service_id,
            request.private_data.as_bytes(),
        );
        if request.service_id.is_sdp() && ip.is_none() {
            // As from the kernel no consumer hears of a request of SDP without a Hello.
            self.machine.destroy(ferriband_memory::wait::now(), comm);
            return;
        }
        let place = route::place_of_gid(&request.primary.1.local_gid, request.primary.1.local_lid);
        let bytes = ip.map_or(&request.private_data.as_bytes()[..], |(_, rest)| rest);
        let conn = ConnParam {
            qp_num: request.remote_qpn.0,
            responder_resources: request.responder_resources,
            initiator_depth: request.initiator_depth,
            flow_control: request.flow_control,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            srq: request.srq,
            ..ConnParam::with(bytes)
        };
        let dgid = request.primary.1.remote_gid;
        let ends = ip.map(|(header, _)| ends(&header, request.service_id));
        self.adopt(
            listener,
            comm,
            request.qp_type,
            ends,
            place,
            dgid,
            (conn, None),
            request.enhanced,
        );
    }

    fn sidr_request(&mut self, listener: u32, comm: CommId, request: &SidrRequest) {
        let ip = self.header(
            listener,
            request.service_id,
            request.private_data.as_bytes(),
        );
        let bytes = ip.map_or(&request.private_data.as_bytes()[..], |(_, rest)| rest);
        let place = match (request.to, ip) {
            (Some(gid), _) => route::place_of_gid(&gid, Lid(0)),
            (None, Some((header, _))) => {
                route::place_for(&SocketAddr::new(header.addresses.destination(), 0))
            }
            (None, None) => self.ids.get(&listener).and_then(|at| at.place.clone()),
        };
        let dgid = match (ip, &place) {
            (Some((header, _)), Some(place)) => place.towards(header.addresses.source()),
            _ => Gid::default(),
        };
        let ends = ip.map(|(header, _)| ends(&header, request.service_id));
        let ud = UdParam {
            qp_num: 0,
            qkey: 0,
            av: AddressVector::default(),
        };
        self.adopt(
            listener,
            comm,
            QpType::Ud,
            ends,
            place,
            dgid,
            (ConnParam::with(bytes), Some(ud)),
            Enhanced::default(),
        );
    }

    /// The way to who sent a request through a fabric: the one that it came.
    fn way_back(&self, comm: CommId, place: &Place) -> Option<Way> {
        let Route::Gsi { av, .. } = self.machine.summary(comm)?.route else {
            return None;
        };
        Some(Way {
            lid: av.dlid,
            sl: av.sl,
            mtu: place.device.port().mtu,
            rate: RATE,
            packet_life: PACKET_LIFE,
        })
    }

    /// Makes an identifier for a request and tells its listener.
    #[allow(clippy::too_many_arguments)]
    fn adopt(
        &mut self,
        listener: u32,
        comm: CommId,
        qp_type: QpType,
        ends: Option<(SocketAddr, SocketAddr)>,
        place: Option<Place>,
        dgid: Gid,
        (conn, ud): (ConnParam, Option<UdParam>),
        enhanced: Enhanced,
    ) {
        let Some(at) = self.ids.get(&listener) else {
            return;
        };
        if at.qp_type != qp_type {
            // nobody listens for this service: a datagram's request at a listener for connections, or the other way round
            self.machine.destroy(ferriband_memory::wait::now(), comm);
            return;
        }
        let number = self.next;
        self.next = self.next.checked_add(1).unwrap_or(1);
        let native = |gid: Gid, port: u16| SocketAddr::new(Ipv6Addr::from(gid.0).into(), port);
        let port = at.src.map_or(0, |src| src.port());
        let (src, dst) = match (ends, &place) {
            (Some((there, here)), _) => (Some(here), Some(there)),
            (None, Some(place)) if at.native => {
                (Some(native(place.gid(), port)), Some(native(dgid, 0)))
            }
            _ => (None, None),
        };
        let way = place
            .as_ref()
            .filter(|place| place.is_far(dgid))
            .and_then(|place| self.way_back(comm, place));
        let made = Id {
            src,
            dst,
            native: at.native,
            place,
            dgid,
            way,
            stage: Stage::Connecting,
            comm: Some(comm),
            passive: true,
            tos: at.tos,
            ack_timeout: at.ack_timeout,
            qkey: at.qkey,
            ..Id::new(&at.channel, 0, at.space, qp_type)
        };
        if self.machine.adopt(comm, UserId(number.into())).is_err() {
            return;
        }
        made.channel.events.push(News {
            kind: NewsKind::ConnectRequest,
            user: at.user,
            id: number,
            listener: Some(listener),
            group: None,
            status: 0,
            enhanced,
            conn,
            ud,
            arg: 0,
            reported: at.reported.clone(),
        });
        self.ids.insert(number, made);
    }
}

impl Id {
    /// Its connection came to nothing: whoever asks later why finds it written down.
    #[cold]
    fn failed(&self, failure: ConnectionFailure) {
        let end = |address: Option<SocketAddr>| address.map_or(String::new(), |a| a.to_string());
        let device = self.place.as_ref().map(|place| &place.device);
        let ethernet = device.filter(|device| device.is_ethernet());
        incident::connection_failed(ConnectionFailure {
            active: !self.passive,
            datagram: self.is_datagram(),
            device: device.map_or(String::new(), |device| device.info.name.clone()),
            interface: ethernet.map_or(String::new(), |device| device.info.interface.clone()),
            source: end(self.src),
            destination: end(self.dst),
            up: ethernet.map(|device| device.port().active),
            ..failure
        });
    }
}

/// The requester's address and ours.
fn ends(
    header: &ferriband_wire::cm::IpCmHeader,
    service: ferriband_wire::ServiceId,
) -> (SocketAddr, SocketAddr) {
    let port = service.port().map_or(0, |(_, port)| port);
    (
        SocketAddr::new(header.addresses.source(), header.source_port),
        SocketAddr::new(header.addresses.destination(), port),
    )
}

/// The way to the other side of an identifier.
fn way(id: &Id) -> AddressVector {
    let Some(place) = &id.place else {
        return AddressVector::default();
    };
    let ethernet = place.device.is_ethernet();
    AddressVector {
        dgid: id.dgid,
        dlid: id
            .way
            .map_or_else(|| place.device.port().lid, |way| way.lid),
        sl: id.way.map_or(Sl(0), |way| way.sl),
        sgid_index: place.sgid_index,
        hop_limit: if ethernet { super::HOP_LIMIT } else { 0 },
        traffic_class: id.tos,
        is_global: ethernet,
        port_num: place.device.usual_port(),
        ..AddressVector::default()
    }
}
