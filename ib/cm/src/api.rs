//! What a consumer asks for. Every call checks first and changes nothing if it refuses.

use crate::connection::{Connection, PathEnd};
use crate::event::CmEvent;
use crate::machine::{Listener, Machine};
use crate::messages;
use crate::params::{
    AprParams, LapParams, ListenParams, RepParams, ReqParams, SidrParams, SidrReplyParams,
};
use crate::table::{Kind, State};
use crate::types::{CmError, Route, UserId};
use ferriband_transport::types::Instant;
use ferriband_wire::cm::{
    ApStatus, Apr, CmMad, Failover, Info, Lap, Message, PrivateData, RejectReason, Rtu, SidrRep,
    SidrReq, SidrStatus,
};
use ferriband_wire::{CommId, TimeCode, TransactionId};

/// States in which a REQ or REP, one's own or the other side's, can be refused.
const REFUSABLE: [State; 8] = [
    State::ReqSent,
    State::MraReqRcvd,
    State::ReqRcvd,
    State::MraReqSent,
    State::RepSent,
    State::MraRepRcvd,
    State::RepRcvd,
    State::MraRepSent,
];

const ESTABLISHED: [State; 5] = [
    State::Established,
    State::LapSent,
    State::LapRcvd,
    State::MraLapSent,
    State::MraLapRcvd,
];

impl Machine {
    /// Listens for requests to a service.
    ///
    /// # Errors
    /// `InUse` if one of the listeners would take the same requests: services overlap, and GID and address are equal. Of
    /// several that a request fits, one with a GID or an address goes before one without.
    pub fn listen(&mut self, params: &ListenParams) -> Result<(), CmError> {
        let overlaps = |other: &Listener| {
            let common = params.mask & other.params.mask;
            (params.service_id.0 & common) == (other.params.service_id.0 & common)
                && (params.gid, params.ip) == (other.params.gid, other.params.ip)
        };
        if self.listeners.contains_key(&params.user) || self.listeners.values().any(overlaps) {
            return Err(CmError::InUse);
        }
        let limit = self.limits.backlog;
        let listener = Listener {
            params: *params,
            backlog: if params.backlog == 0 {
                limit
            } else {
                params.backlog.min(limit)
            },
            waiting: 0,
        };
        self.listeners.insert(params.user, listener);
        Ok(())
    }

    /// Listens no more. Requests that nobody has adopted are refused.
    ///
    /// # Errors
    /// `NoSuchId`.
    pub fn unlisten(&mut self, now: Instant, user: UserId) -> Result<(), CmError> {
        if self.listeners.remove(&user).is_none() {
            return Err(CmError::NoSuchId);
        }
        let orphans: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.user == Some(user) && !connection.active)
            .map(|(comm, _)| *comm)
            .collect();
        for comm in orphans {
            self.destroy(now, CommId(comm));
        }
        Ok(())
    }

    /// Names the consumer of a request, to whom its events go from now on.
    ///
    /// # Errors
    /// `NoSuchId`.
    pub fn adopt(&mut self, comm: CommId, user: UserId) -> Result<(), CmError> {
        let connection = self
            .connections
            .get_mut(&comm.0)
            .filter(|connection| connection.user.is_some())
            .ok_or(CmError::NoSuchId)?;
        connection.user = Some(user);
        Ok(())
    }

    /// The consumer has seen the request: it leaves the backlog. So it does when it is answered.
    pub fn taken(&mut self, comm: CommId) {
        self.release_backlog(comm);
    }

    /// Asks for a connection.
    ///
    /// # Errors
    /// `Service`, `Value` (a field or the private data), `TooMany`.
    pub fn connect(&mut self, now: Instant, params: &ReqParams<'_>) -> Result<CommId, CmError> {
        let comm = self.new_id()?;
        let transaction = self.new_transaction(comm);
        let mut connection =
            Connection::new(params.user, State::ReqSent, params.route, transaction);
        let (local, path) = params.primary;
        connection.active = true;
        connection.qp_type = params.qp_type;
        connection.local_qpn = params.local_qpn;
        connection.rq_psn = self.new_psn(params.starting_psn);
        connection.responder_resources = params.responder_resources;
        connection.initiator_depth = params.initiator_depth;
        connection.retry_count = params.retry_count;
        connection.path_mtu = params.path_mtu;
        connection.pkey = params.pkey;
        connection.primary = Some(PathEnd::new(local, path, local.ack_delay));
        connection.alternate = params
            .alternate
            .map(|(local, path)| PathEnd::new(local, path, local.ack_delay));
        // The way there and back, and the other side's own time (IBA 12.9.8).
        connection.response_ns = 2 * path.packet_life.ns() + params.remote_response_timeout.ns();
        connection.retries = params.max_cm_retries;
        let mad = messages::req(comm, &connection, params)?;
        self.insert(comm, connection);
        self.send_pending(now, comm, mad);
        Ok(comm)
    }

    /// Sends a request that has not been answered another way from now on, and at once: its service was found elsewhere. In another
    /// state nothing happens.
    pub fn redirect(&mut self, comm: CommId, route: Route) {
        let waits = [State::ReqSent, State::SidrReqSent];
        if self.in_state(comm, &waits).is_err() {
            return;
        }
        self.reroute(comm, route);
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        // nothing was said to whoever it went to before
        connection.peers = [Some(route.peer()), None];
        if let Some(mad) = connection.pending.as_ref().map(|pending| pending.mad) {
            self.send_from(comm, &mad);
        }
    }

    /// Accepts a request: REP.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value`.
    pub fn accept(
        &mut self,
        now: Instant,
        comm: CommId,
        params: &RepParams<'_>,
    ) -> Result<(), CmError> {
        self.in_state(comm, &[State::ReqRcvd, State::MraReqSent])?;
        let psn = self.new_psn(params.starting_psn);
        let connection = self.connections.get(&comm.0).ok_or(CmError::NoSuchId)?;
        let local = connection.primary.ok_or(CmError::NoSuchId)?.local;
        let mad = messages::rep(comm, connection, &local, params, psn)?;
        self.release_backlog(comm);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::RepSent;
            connection.local_qpn = params.local_qpn;
            connection.rq_psn = psn;
            connection.responder_resources = params.responder_resources;
            connection.initiator_depth = params.initiator_depth;
            if params.failover != Failover::Accepted {
                connection.alternate = None;
            }
            // The REP is the answer to a duplicate from now on, not an MRA.
            connection.forget(Kind::Req);
        }
        self.send_pending(now, comm, mad);
        Ok(())
    }

    /// The queue pair is ready after a REP: RTU. The connection is established.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value` (224 bytes of private data).
    pub fn ready(&mut self, comm: CommId, private_data: &[u8]) -> Result<(), CmError> {
        let connection = self.in_state(comm, &[State::RepRcvd, State::MraRepSent])?;
        let message = Rtu {
            local_comm_id: comm,
            remote_comm_id: connection.remote.unwrap_or_default(),
            private_data: PrivateData::new(private_data)?,
        };
        let mad = CmMad::new(connection.transaction, message);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::Established;
            connection.keep(Kind::Rep, mad);
        }
        self.send_from(comm, &mad);
        Ok(())
    }

    /// Data has come before the RTU (`IBV_EVENT_COMM_EST`): the passive side is connected.
    ///
    /// # Errors
    /// `Connected` if it was already, `NoSuchId`, `State`.
    pub fn established_hint(&mut self, comm: CommId) -> Result<(), CmError> {
        match self.in_state(comm, &[State::RepSent, State::MraRepRcvd]) {
            Ok(_) => {
                self.establish(comm, PrivateData::default());
                Ok(())
            }
            Err(CmError::State(state)) if state.is_established() => Err(CmError::Connected),
            Err(error) => Err(error),
        }
    }

    /// The passive side is connected.
    pub(crate) fn establish(&mut self, comm: CommId, private_data: PrivateData<224>) {
        self.set_deadline(comm, None);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::Established;
            connection.pending = None;
        }
        self.tell(comm, CmEvent::Established(private_data));
    }

    /// Refuses a request or a reply, or withdraws one's own: REJ. The identifier is gone for the consumer.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value` (72 bytes of additional information, 148 of private data).
    pub fn reject(
        &mut self,
        now: Instant,
        comm: CommId,
        reason: RejectReason,
        ari: &[u8],
        private_data: &[u8],
    ) -> Result<(), CmError> {
        let connection = self.in_state(comm, &REFUSABLE)?;
        let mad = messages::rej(comm, connection, reason, Info::new(ari)?, private_data)?;
        self.end_with_rej(now, comm, mad);
        Ok(())
    }

    /// Sends a REJ and keeps it for duplicates of what it refuses.
    pub(crate) fn end_with_rej(&mut self, now: Instant, comm: CommId, mad: CmMad) {
        self.send_from(comm, &mad);
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        let for_ns = match connection.state {
            // The other side has not answered: there is nothing of it to be answered.
            State::ReqSent | State::MraReqRcvd => {
                self.remove(comm);
                return;
            }
            State::RepRcvd | State::MraRepSent => {
                connection.keep(Kind::Rep, mad);
                self.time_wait_ns(comm)
            }
            _ => {
                connection.keep(Kind::Req, mad);
                self.memory_ns(comm)
            }
        };
        self.remember(now, comm, for_ns);
    }

    /// The answer will take a while: MRA.
    ///
    /// # Errors
    /// `NoSuchId`, `State` (nothing is before the consumer), `Value` (the code, 222 bytes of private data).
    pub fn delay(
        &mut self,
        comm: CommId,
        service_timeout: TimeCode,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        let connection = self.connections.get(&comm.0).ok_or(CmError::NoSuchId)?;
        let state = connection.state;
        let mad = messages::mra(comm, connection, service_timeout, private_data)?
            .ok_or(CmError::State(state))?;
        self.send_delay(comm, mad);
        Ok(())
    }

    /// Sends an MRA for what the consumer has before it and keeps it for duplicates.
    pub(crate) fn send_delay(&mut self, comm: CommId, mad: CmMad) {
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        let (state, answered) = match connection.state {
            State::ReqRcvd | State::MraReqSent => (State::MraReqSent, Kind::Req),
            State::RepRcvd | State::MraRepSent => (State::MraRepSent, Kind::Rep),
            _ => (State::MraLapSent, Kind::Lap),
        };
        connection.state = state;
        connection.keep(answered, mad);
        if let Message::Mra(mra) = &mad.message {
            connection.delayed_ns = connection.delayed_ns.max(mra.service_timeout.ns());
        }
        self.send_from(comm, &mad);
    }

    /// Ends the connection, or agrees that it ends: DREQ, or DREP.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value` (220 bytes of private data; of a DREP 224).
    pub fn disconnect(
        &mut self,
        now: Instant,
        comm: CommId,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        let connection = self.connections.get(&comm.0).ok_or(CmError::NoSuchId)?;
        if connection.state == State::DreqRcvd {
            let ids = (comm, connection.remote.unwrap_or_default());
            let mad = messages::drep(connection.later_transaction, ids, private_data)?;
            self.end_with_drep(now, comm, mad);
            return Ok(());
        }
        let connection = self.in_state(comm, &ESTABLISHED)?;
        // The same transaction as the REQ on the side that asked, as Linux has it; each side has its own.
        let transaction = if connection.active {
            connection.transaction
        } else {
            TransactionId(self.random.next())
        };
        let connection = self.in_state(comm, &ESTABLISHED)?;
        let mad = messages::dreq(comm, connection, transaction, private_data)?;
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::DreqSent;
            connection.later_transaction = transaction;
        }
        self.send_pending(now, comm, mad);
        Ok(())
    }

    /// Sends a DREP and keeps it for duplicates of the DREQ.
    pub(crate) fn end_with_drep(&mut self, now: Instant, comm: CommId, mad: CmMad) {
        self.send_from(comm, &mad);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.keep(Kind::Dreq, mad);
        }
        let for_ns = self.time_wait_ns(comm);
        self.enter_time_wait(now, comm, for_ns);
    }

    /// Offers an alternate path: LAP.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value`.
    pub fn load_alternate(
        &mut self,
        now: Instant,
        comm: CommId,
        params: &LapParams<'_>,
    ) -> Result<(), CmError> {
        self.in_state(comm, &[State::Established])?;
        let transaction = TransactionId(self.random.next());
        let connection = self.in_state(comm, &[State::Established])?;
        let (local, path) = params.alternate;
        let message = Lap {
            local_comm_id: comm,
            remote_comm_id: connection.remote.unwrap_or_default(),
            remote_qpn: connection.remote_qpn,
            remote_response_timeout: params.remote_response_timeout,
            alternate: messages::message_path(&local, &path),
            private_data: PrivateData::new(params.private_data)?,
        };
        let mad = messages::checked(CmMad::new(transaction, message))?;
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::LapSent;
            connection.later_transaction = transaction;
            connection.offered = Some(PathEnd::new(local, path, local.ack_delay));
        }
        self.send_pending(now, comm, mad);
        Ok(())
    }

    /// Answers an offer of an alternate path: APR. If it is loaded, `qp_attr` for RTS has it.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value`.
    pub fn answer_alternate(
        &mut self,
        comm: CommId,
        params: &AprParams<'_>,
    ) -> Result<(), CmError> {
        let connection = self.in_state(comm, &[State::LapRcvd, State::MraLapSent])?;
        let message = Apr {
            local_comm_id: comm,
            remote_comm_id: connection.remote.unwrap_or_default(),
            status: params.status,
            info: params.info,
            private_data: PrivateData::new(params.private_data)?,
        };
        let mad = messages::checked(CmMad::new(connection.later_transaction, message))?;
        self.send_from(comm, &mad);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::Established;
            connection.keep(Kind::Lap, mad);
            connection.load_offered(params.status == ApStatus::Loaded);
        }
        Ok(())
    }

    /// The queue pair has migrated to its alternate path: messages go there too, and the path that it left is the
    /// alternate one.
    ///
    /// # Errors
    /// `NoSuchId`, `State` (also if there is no alternate path).
    pub fn migrated(&mut self, comm: CommId) -> Result<(), CmError> {
        let connection = self.in_state(comm, &[State::Established])?;
        let Some(alternate) = connection.alternate else {
            return Err(CmError::State(connection.state));
        };
        let route = match connection.route {
            Route::Gsi { .. } => Route::Gsi {
                device: alternate.local.device,
                sgid_index: alternate.local.sgid_index,
                av: alternate.av,
            },
            host => host,
        };
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            std::mem::swap(&mut connection.primary, &mut connection.alternate);
            connection.path_changed = true;
        }
        self.reroute(comm, route);
        Ok(())
    }

    /// Asks which queue pair serves a service: SIDR_REQ.
    ///
    /// # Errors
    /// `Value`, `TooMany`.
    pub fn sidr_request(
        &mut self,
        now: Instant,
        params: &SidrParams<'_>,
    ) -> Result<CommId, CmError> {
        let comm = self.new_id()?;
        let transaction = self.new_transaction(comm);
        let message = SidrReq {
            request_id: comm,
            pkey: params.pkey,
            service_id: params.service_id,
            private_data: PrivateData::new(params.private_data)?,
        };
        let mad = messages::checked(CmMad::new(transaction, message))?;
        let mut connection =
            Connection::new(params.user, State::SidrReqSent, params.route, transaction);
        connection.active = true;
        connection.response_ns = params.response_timeout.ns();
        connection.retries = params.max_cm_retries;
        connection.service_id = params.service_id;
        self.insert(comm, connection);
        self.send_pending(now, comm, mad);
        Ok(comm)
    }

    /// Answers such a question: SIDR_REP. The identifier is gone for the consumer.
    ///
    /// # Errors
    /// `NoSuchId`, `State`, `Value`.
    pub fn sidr_reply(
        &mut self,
        now: Instant,
        comm: CommId,
        params: &SidrReplyParams<'_>,
    ) -> Result<(), CmError> {
        let connection = self.in_state(comm, &[State::SidrReqRcvd])?;
        let message = SidrRep {
            request_id: connection.remote.unwrap_or_default(),
            status: params.status,
            info: params.info,
            vendor_id: params.enhanced.vendor_id,
            qpn: params.qpn,
            service_id: connection.service_id,
            qkey: params.qkey,
            private_data: PrivateData::new(params.private_data)?,
        };
        let mad = messages::checked(CmMad {
            attribute_modifier: params.enhanced.options,
            ..CmMad::new(connection.transaction, message)
        })?;
        self.send_from(comm, &mad);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.keep(Kind::SidrReq, mad);
        }
        let for_ns = self.memory_ns(comm);
        self.remember(now, comm, for_ns);
        Ok(())
    }

    /// Nobody holds the identifier any more. What is before the consumer is refused, what is connected is ended; the
    /// machine sees to the rest by itself, and no event of the identifier comes out after this. One that is gone already
    /// is no error.
    pub fn destroy(&mut self, now: Instant, comm: CommId) {
        self.forget_events(comm);
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        connection.user = None;
        match connection.state {
            State::ReqSent | State::MraReqRcvd => {
                let mad = messages::rej_timeout(comm, connection);
                if let Some(mad) = mad {
                    self.send_from(comm, &mad);
                }
                self.remove(comm);
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent => {
                // Neither private data nor additional information that could be too long.
                let _ = self.reject(now, comm, RejectReason::Consumer, &[], &[]);
            }
            State::Established
            | State::LapSent
            | State::LapRcvd
            | State::MraLapSent
            | State::MraLapRcvd => {
                let retries = self.limits.orphan_retries;
                connection.retries = connection.retries.min(retries);
                let _ = self.disconnect(now, comm, &[]);
            }
            State::DreqSent => {
                let retries = self.limits.orphan_retries;
                if let Some(pending) = &mut connection.pending {
                    pending.retries_left = pending.retries_left.min(retries);
                }
            }
            State::DreqRcvd => {
                let _ = self.disconnect(now, comm, &[]);
            }
            State::SidrReqSent => self.remove(comm),
            State::SidrReqRcvd => {
                let no = SidrReplyParams {
                    status: SidrStatus::Rejected,
                    qpn: ferriband_wire::Qpn(0),
                    qkey: ferriband_wire::QKey(0),
                    info: Info::NONE,
                    enhanced: crate::params::Enhanced::default(),
                    private_data: &[],
                };
                let _ = self.sidr_reply(now, comm, &no);
            }
            State::Idle | State::Listen | State::TimeWait => {}
        }
    }
}
