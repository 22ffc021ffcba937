//! Messages that begin something: a REQ or SIDR_REQ is a duplicate, or a sign that its sender has forgotten an earlier
//! connection, or a new request for a listener, or for nobody. And the refusals that the machine makes by itself.

use crate::connection::{Connection, PathEnd};
use crate::event::CmEvent;
use crate::machine::Machine;
use crate::messages;
use crate::params::{Enhanced, Path, Request, SidrRequest};
use crate::receive::Arrival;
use crate::table::{Kind, State};
use crate::types::{Discard, UserId};
use ferriband_transport::types::{Instant, QpType};
use ferriband_wire::cm::{
    ApStatus, Apr, CmMad, Info, IpCmHeader, Lap, PrivateData, RejOf, RejectReason, Rep, Req,
    SidrReq, SidrStatus,
};
use ferriband_wire::{CommId, Gid, Header, Service, ServiceId, TimeCode};

impl Machine {
    /// A REQ: a duplicate, a sign that the other side has started anew, or a new request.
    pub(crate) fn dispatch_req(&mut self, arrival: &Arrival<'_>, req: &Req) -> Result<(), Discard> {
        let peer = arrival.from.peer();
        if let Some(comm) = self.find_id(peer, req.local_ca_guid, req.local_comm_id) {
            let connection = self.connections.get(&comm.0).ok_or(Discard::Unknown)?;
            let duplicate = connection.transaction == arrival.mad.transaction_id;
            let state = connection.state;
            if duplicate || state == State::TimeWait {
                return self.react(arrival, Some(comm), state, Kind::Req);
            }
            // The same identifier for something else: its owner has forgotten the first.
            return self.refuse_stale(arrival, req, comm);
        }
        let Some(qp_type) = accepting_type(req) else {
            return self.refuse(arrival, req, RejectReason::InvalidTransportType);
        };
        if let Some(old) = self.find_qpn(peer, req.local_ca_guid, req.local_qpn) {
            return self.refuse_stale(arrival, req, old);
        }
        let ip = ip_destination(req.service_id, req.private_data.as_bytes());
        let to = Some(req.primary.remote_gid);
        let listener = self.find_listener(arrival, req.service_id, to, ip);
        let Some(listener) = listener else {
            return self.refuse(arrival, req, RejectReason::InvalidServiceId);
        };
        self.admit(arrival, req, listener, qp_type)
    }

    /// The listener for a service: of those that fit, the one that is bound most closely. Without a
    /// GID, which a message between processes of one host does not have, any fits; at a port that
    /// the consumer does not have none does.
    fn find_listener(
        &self,
        arrival: &Arrival<'_>,
        service_id: ServiceId,
        to: Option<Gid>,
        ip: Option<std::net::IpAddr>,
    ) -> Option<UserId> {
        if !arrival.ports.serves(&arrival.from) {
            return None;
        }
        self.listeners
            .values()
            .map(|listener| &listener.params)
            .filter(|params| {
                service_id.0 & params.mask == params.service_id.0 & params.mask
                    && (params.gid.is_none() || to.is_none() || params.gid == to)
                    && params.ip.is_none_or(|own| covers(own, ip))
            })
            .max_by_key(|params| {
                (
                    params.ip.is_some_and(|own| !own.is_unspecified()),
                    params.ip.is_some(),
                    params.gid.is_some(),
                    params.mask.count_ones(),
                )
            })
            .map(|params| params.user)
    }

    /// A request for a listener: checked, entered, told.
    fn admit(
        &mut self,
        arrival: &Arrival<'_>,
        req: &Req,
        listener: UserId,
        qp_type: QpType,
    ) -> Result<(), Discard> {
        let path = &req.primary;
        let local = match arrival.ports.local_end(
            &arrival.from,
            &path.remote_gid,
            path.remote_lid,
            req.pkey,
        ) {
            Ok(local) => local,
            Err(reason) => return self.refuse(arrival, req, reason),
        };
        let Some(path_mtu) = req.path_mtu().filter(|mtu| *mtu <= local.max_mtu) else {
            let info = messages::mtu_info(local.max_mtu);
            self.refuse_req(arrival, req, RejectReason::InvalidPathMtu, info);
            return Err(Discard::Unexpected(State::Listen, Kind::Req));
        };
        self.enter_backlog(listener)?;
        let comm = match self.new_id() {
            Ok(comm) => comm,
            Err(_) => {
                self.leave_backlog(listener);
                return Err(Discard::Full);
            }
        };
        // An alternate path that does not end here is as good as none.
        let alternate = req.alternate_path().and_then(|path| {
            let end =
                arrival
                    .ports
                    .local_end(&arrival.from, &path.remote_gid, path.remote_lid, req.pkey);
            end.ok().map(|local| (local, Path::turned(path)))
        });
        let primary = (local, Path::turned(path));
        let end = |(local, path): (crate::types::LocalEnd, Path)| {
            PathEnd::new(local, path, local.ack_delay)
        };
        let transaction = arrival.mad.transaction_id;
        let mut connection = Connection::new(listener, State::ReqRcvd, arrival.from, transaction);
        connection.remote = Some(req.local_comm_id);
        connection.remote_guid = req.local_ca_guid;
        connection.qp_type = qp_type;
        connection.remote_qpn = req.local_qpn;
        connection.sq_psn = req.starting_psn;
        connection.responder_resources = req.initiator_depth;
        connection.initiator_depth = req.responder_resources;
        connection.retry_count = req.retry_count;
        connection.rnr_retry_count = req.rnr_retry_count;
        connection.path_mtu = path_mtu;
        connection.pkey = req.pkey;
        connection.primary = Some(end(primary));
        connection.alternate = alternate.map(end);
        connection.response_ns = self.bounded_response(req.local_response_timeout);
        connection.asks_again_ns =
            2 * primary.1.packet_life.ns() + req.remote_response_timeout.ns();
        connection.retries = req.max_cm_retries;
        connection.backlog_of = Some(listener);
        self.insert(comm, connection);
        self.index_id(comm);
        self.index_qpn(comm);
        let request = Request {
            listener,
            from: arrival.from,
            service_id: req.service_id,
            qp_type,
            remote_guid: req.local_ca_guid,
            remote_qpn: req.local_qpn,
            primary,
            alternate,
            path_mtu,
            pkey: req.pkey,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            flow_control: req.end_to_end_flow_control,
            srq: req.srq,
            enhanced: Enhanced {
                vendor_id: req.vendor_id,
                options: arrival.mad.attribute_modifier,
            },
            private_data: req.private_data,
        };
        self.tell_request(comm, CmEvent::Request(Box::new(request)));
        Ok(())
    }

    /// Counts a request in its listener's backlog. If that is full the request is dropped, and comes again.
    fn enter_backlog(&mut self, user: UserId) -> Result<(), Discard> {
        let room = self.events_have_room();
        let listener = self.listeners.get_mut(&user).ok_or(Discard::Unknown)?;
        if !room || listener.waiting >= listener.backlog {
            return Err(Discard::Full);
        }
        listener.waiting += 1;
        Ok(())
    }

    fn leave_backlog(&mut self, user: UserId) {
        if let Some(listener) = self.listeners.get_mut(&user) {
            listener.waiting -= 1;
        }
    }

    /// The other side's time between two REPs, within bounds.
    fn bounded_response(&self, timeout: TimeCode) -> u64 {
        timeout.ns().clamp(
            self.limits.min_response_timeout.ns(),
            self.limits.max_response_timeout.ns(),
        )
    }

    fn refuse(
        &mut self,
        arrival: &Arrival<'_>,
        req: &Req,
        reason: RejectReason,
    ) -> Result<(), Discard> {
        self.refuse_req(arrival, req, reason, Info::NONE);
        Err(Discard::Unexpected(State::Listen, Kind::Req))
    }

    pub(crate) fn refuse_req(
        &mut self,
        arrival: &Arrival<'_>,
        req: &Req,
        reason: RejectReason,
        ari: Info,
    ) {
        let ids = (CommId(0), req.local_comm_id);
        let transaction = arrival.mad.transaction_id;
        let mad = messages::rej_message(transaction, RejOf::Req, ids, reason, ari);
        self.send(arrival.from, &mad);
    }

    pub(crate) fn refuse_rep(&mut self, arrival: &Arrival<'_>, rep: &Rep, reason: RejectReason) {
        let ids = (rep.remote_comm_id, rep.local_comm_id);
        let transaction = arrival.mad.transaction_id;
        let mad = messages::rej_message(transaction, RejOf::Rep, ids, reason, Info::NONE);
        self.send(arrival.from, &mad);
    }

    pub(crate) fn refuse_lap(&mut self, arrival: &Arrival<'_>, lap: &Lap, status: ApStatus) {
        let message = Apr {
            local_comm_id: lap.remote_comm_id,
            remote_comm_id: lap.local_comm_id,
            status,
            info: Info::NONE,
            private_data: PrivateData::default(),
        };
        let mad = CmMad::new(arrival.mad.transaction_id, message);
        self.send(arrival.from, &mad);
    }

    /// The other side's queue pair, or identifier, is that of a connection here, so the other side has forgotten that one:
    /// it ends, and the REQ is refused until it has (IBA 12.9.8).
    fn refuse_stale(
        &mut self,
        arrival: &Arrival<'_>,
        req: &Req,
        old: CommId,
    ) -> Result<(), Discard> {
        self.refuse_req(arrival, req, RejectReason::StaleConnection, Info::NONE);
        self.supersede(arrival.now, old);
        Err(Discard::Unexpected(State::Listen, Kind::Req))
    }

    /// Ends a connection whose other side is not there any more.
    pub(crate) fn supersede(&mut self, now: Instant, old: CommId) {
        match self.state(old) {
            state if state.is_established() => {
                // No private data that could be too long, and the state is right.
                let _ = self.disconnect(now, old, &[]);
            }
            State::ReqRcvd | State::MraReqSent | State::RepSent | State::MraRepRcvd => {
                let rejected = CmEvent::Rejected {
                    rejected: RejOf::Other,
                    reason: RejectReason::StaleConnection,
                    ari: Info::NONE,
                    private_data: PrivateData::default(),
                };
                if !self.withdraw(old) {
                    self.tell(old, rejected);
                }
                let for_ns = self.memory_ns(old);
                self.remember(now, old, for_ns);
            }
            // It has no other side yet, or is at its end anyway.
            _ => {}
        }
    }

    pub(crate) fn dispatch_sidr_req(
        &mut self,
        arrival: &Arrival<'_>,
        request: &SidrReq,
    ) -> Result<(), Discard> {
        let peer = arrival.from.peer();
        let transaction = arrival.mad.transaction_id;
        if let Some(comm) = self.find_request(peer, request.request_id) {
            let connection = self.connections.get(&comm.0).ok_or(Discard::Unknown)?;
            let state = connection.state;
            if connection.transaction == transaction {
                return self.react(arrival, Some(comm), state, Kind::SidrReq);
            }
            if state != State::TimeWait {
                return Err(Discard::Foreign);
            }
            // The number is used again: the first question is answered.
            self.remove(comm);
        }
        let ip = ip_destination(request.service_id, request.private_data.as_bytes());
        let listener = self.find_listener(arrival, request.service_id, arrival.to, ip);
        let Some(listener) = listener else {
            let mad = messages::sidr_no(transaction, request, SidrStatus::NotSupported);
            self.send(arrival.from, &mad);
            return Err(Discard::Unexpected(State::Idle, Kind::SidrReq));
        };
        self.enter_backlog(listener)?;
        let Ok(comm) = self.new_id() else {
            self.leave_backlog(listener);
            return Err(Discard::Full);
        };
        let mut connection =
            Connection::new(listener, State::SidrReqRcvd, arrival.from, transaction);
        connection.remote = Some(request.request_id);
        connection.service_id = request.service_id;
        connection.pkey = request.pkey;
        connection.backlog_of = Some(listener);
        // The message does not say when it comes again: as rdma_cm's.
        connection.asks_again_ns = SIDR_AGAIN.ns();
        connection.retries = SIDR_RETRIES;
        self.insert(comm, connection);
        self.index_request(comm);
        let event = SidrRequest {
            listener,
            from: arrival.from,
            to: arrival.to,
            service_id: request.service_id,
            pkey: request.pkey,
            private_data: request.private_data,
        };
        self.tell_request(comm, CmEvent::SidrRequest(Box::new(event)));
        Ok(())
    }
}

/// After which time, and how often, a SIDR_REQ is taken to come again.
const SIDR_AGAIN: TimeCode = TimeCode(20);
const SIDR_RETRIES: u8 = 15;

/// The service of the queue pair that would accept; None for services that are not offered.
fn accepting_type(req: &Req) -> Option<QpType> {
    match req.service()? {
        Service::Rc => Some(QpType::Rc),
        Service::Uc => Some(QpType::Uc),
        Service::Xrc => Some(QpType::XrcRecv),
        _ => None,
    }
}

/// Whether a listener's address is what a request is for.
fn covers(own: std::net::IpAddr, wanted: Option<std::net::IpAddr>) -> bool {
    wanted.is_some_and(|wanted| {
        own == wanted || own.is_unspecified() && own.is_ipv4() == wanted.is_ipv4()
    })
}

/// The address that a request is for, if it is for an IP address.
fn ip_destination(service_id: ServiceId, private_data: &[u8]) -> Option<std::net::IpAddr> {
    ip_request(service_id, private_data).map(|(header, _)| header.addresses.destination())
}

/// What a request's private data say of IP addresses: who asks whom, and the consumer's bytes,
/// which with the IP addressing annex come after a header, and with SDP are a Hello that has the
/// addresses in it. None if the service has no addresses, or they are not there.
pub fn ip_request(service_id: ServiceId, private_data: &[u8]) -> Option<(IpCmHeader, &[u8])> {
    if service_id.is_sdp() {
        let header = IpCmHeader::from_hello(private_data).ok()?;
        return Some((header, private_data));
    }
    if !service_id.is_ip() {
        return None;
    }
    IpCmHeader::parse(private_data).ok()
}
