//! What a message does. A message is bytes from anybody: it is parsed, its identifier is looked up, and the table says what
//! follows. A message that names a connection must come from that connection's peer, with its transaction.

use crate::connection::{Connection, PathEnd};
use crate::event::CmEvent;
use crate::machine::Machine;
use crate::messages::{self, ids_of};
use crate::params::{Enhanced, LapRequest, Path, Reply, SidrAnswer};
use crate::qp::ack_timeout;
use crate::table::{Kind, Reaction, State, reaction};
use crate::types::{Discard, Input, Ports, Route};
use ferriband_transport::types::{Instant, QpType};
use ferriband_wire::cm::{
    ApStatus, Apr, CmMad, Drep, Dreq, Failover, Info, Lap, Message, Mra, MraOf, PrivateData, Rej,
    RejectReason, Rep, Rtu, SidrRep,
};
use ferriband_wire::{CommId, Gid, Guid, Qpn, TimeCode};

/// After which a REQ is sent again for which nobody listened.
const ASK_AGAIN_NS: u64 = 2_000_000;

/// A message under way through the machine.
pub(crate) struct Arrival<'a> {
    pub now: Instant,
    pub from: Route,
    pub to: Option<Gid>,
    pub mad: CmMad,
    pub ports: &'a dyn Ports,
}

impl Machine {
    /// Takes what comes from outside. The result says why a message had no effect, for counters.
    ///
    /// # Errors
    /// `Discard`: nothing was changed, though an answer may have been queued.
    pub fn handle(
        &mut self,
        now: Instant,
        input: Input<'_>,
        ports: &dyn Ports,
    ) -> Result<(), Discard> {
        match input {
            Input::Mad { from, to, mad } => {
                let mad = CmMad::parse(mad).map_err(|_| Discard::Malformed)?;
                let arrival = Arrival {
                    now,
                    from,
                    to,
                    mad,
                    ports,
                };
                self.dispatch(&arrival)
            }
            Input::ProcessGone(slot) => {
                self.process_gone(now, slot);
                Ok(())
            }
            Input::DeviceGone(device) => {
                self.device_gone(device);
                Ok(())
            }
        }
    }

    /// Finds whose the message is, and does what the table says.
    fn dispatch(&mut self, arrival: &Arrival<'_>) -> Result<(), Discard> {
        let kind = Kind::of(&arrival.mad.message);
        let comm = match &arrival.mad.message {
            Message::Req(req) => return self.dispatch_req(arrival, req),
            Message::SidrReq(request) => return self.dispatch_sidr_req(arrival, request),
            Message::Rej(rej) => self.find_rejected(arrival, rej),
            message => self.find(ids_of(message)),
        };
        let Some(comm) = comm else {
            return self.react(arrival, None, State::Idle, kind);
        };
        let state = self.state(comm);
        self.check_origin(arrival, comm)?;
        self.react(arrival, Some(comm), state, kind)
    }

    /// The identifier that a message is for: the other side's must be its own, once that is known.
    fn find(&self, (remote, local): (CommId, CommId)) -> Option<CommId> {
        let connection = self.connections.get(&local.0)?;
        let known = match connection.state {
            State::SidrReqSent | State::SidrReqRcvd => true,
            _ => connection.remote.is_none_or(|known| known == remote),
        };
        known.then_some(local)
    }

    /// A REJ because of silence may not know our identifier, one of a REQ comes from somebody who may not have had one.
    fn find_rejected(&self, arrival: &Arrival<'_>, rej: &Rej) -> Option<CommId> {
        if rej.reason == RejectReason::Timeout
            && let Some(guid) = rej.ari.as_bytes().first_chunk()
        {
            let guid = Guid(u64::from_be_bytes(*guid));
            let found = self.find_id(arrival.from.peer(), guid, rej.local_comm_id);
            if found.is_some() {
                return found;
            }
        }
        self.find((rej.local_comm_id, rej.remote_comm_id))
    }

    /// Only the peer of a connection speaks for it: its address and the transaction of the exchange must agree.
    fn check_origin(&self, arrival: &Arrival<'_>, comm: CommId) -> Result<(), Discard> {
        let connection = self.connections.get(&comm.0).ok_or(Discard::Unknown)?;
        let transaction = arrival.mad.transaction_id;
        let of_connection = transaction == connection.transaction;
        let of_later = transaction == connection.later_transaction;
        let expected = match &arrival.mad.message {
            // These begin an exchange.
            Message::Lap(_) | Message::Dreq(_) => true,
            Message::Drep(_) | Message::Apr(_) => of_later,
            Message::Mra(mra) if mra.acknowledged == MraOf::Lap => of_later,
            Message::Rej(_) => of_connection || of_later,
            _ => of_connection,
        };
        let queue_pair = match &arrival.mad.message {
            Message::Dreq(dreq) => dreq.remote_qpn == connection.local_qpn,
            _ => true,
        };
        if connection.is_peer(arrival.from.peer()) && expected && queue_pair {
            Ok(())
        } else {
            Err(Discard::Foreign)
        }
    }

    /// The cell of the table. `comm` is None in the row Idle only.
    pub(crate) fn react(
        &mut self,
        arrival: &Arrival<'_>,
        comm: Option<CommId>,
        state: State,
        kind: Kind,
    ) -> Result<(), Discard> {
        let unexpected = Err(match comm {
            Some(_) => Discard::Unexpected(state, kind),
            None => Discard::Unknown,
        });
        let action = reaction(state, kind);
        let message = &arrival.mad.message;
        match (action, message, comm) {
            (Reaction::RefuseId, Message::Rep(rep), _) => {
                self.refuse_rep(arrival, rep, RejectReason::InvalidCommId);
                unexpected
            }
            (Reaction::RefuseLap, Message::Lap(lap), _) => {
                self.refuse_lap(arrival, lap, ApStatus::InvalidCommId);
                unexpected
            }
            (Reaction::AnswerDrep, Message::Dreq(dreq), comm) => {
                self.answer_drep(arrival, comm, dreq);
                unexpected
            }
            (Reaction::Resend, _, Some(comm)) => {
                self.resend(comm, kind);
                unexpected
            }
            (Reaction::RefuseStale, Message::Req(req), Some(comm)) => {
                if !self.resend(comm, kind) {
                    self.refuse_req(arrival, req, RejectReason::StaleConnection, Info::NONE);
                }
                unexpected
            }
            (Reaction::Delay, _, Some(comm)) => {
                self.delay_duplicate(arrival, comm);
                unexpected
            }
            (Reaction::TakeMra, Message::Mra(mra), Some(comm)) => self.take_mra(arrival, comm, mra),
            (Reaction::TakeRej, Message::Rej(rej), Some(comm)) => {
                self.take_rej(arrival, comm, rej);
                Ok(())
            }
            (Reaction::TakeRep, Message::Rep(rep), Some(comm)) => self.take_rep(arrival, comm, rep),
            (Reaction::TakeRtu, Message::Rtu(rtu), Some(comm)) => {
                self.take_rtu(comm, rtu);
                Ok(())
            }
            (Reaction::TakeDreq, Message::Dreq(dreq), Some(comm)) => {
                self.take_dreq(arrival, comm, dreq);
                Ok(())
            }
            (Reaction::CrossDreq, Message::Dreq(dreq), Some(comm)) => {
                self.cross_dreq(arrival, comm, dreq);
                Ok(())
            }
            (Reaction::TakeDrep, Message::Drep(drep), Some(comm)) => {
                self.take_drep(arrival, comm, drep);
                Ok(())
            }
            (Reaction::TakeLap, Message::Lap(lap), Some(comm)) => self.take_lap(arrival, comm, lap),
            (Reaction::TakeApr, Message::Apr(apr), Some(comm)) => {
                self.take_apr(comm, apr);
                Ok(())
            }
            (Reaction::TakeSidrRep, Message::SidrRep(rep), Some(comm)) => {
                self.take_sidr_rep(arrival, comm, rep);
                Ok(())
            }
            // Ignore; and what the rows of requests do, in `dispatch_req` and `dispatch_sidr_req`.
            _ => unexpected,
        }
    }

    /// A duplicate of what the consumer has before it: the other side is told to wait longer.
    fn delay_duplicate(&mut self, arrival: &Arrival<'_>, comm: CommId) {
        let timeout = self.limits.service_timeout;
        let Some(connection) = self.connections.get(&comm.0) else {
            return;
        };
        if Kind::of(&arrival.mad.message) == Kind::Lap
            && arrival.mad.transaction_id != connection.later_transaction
        {
            return;
        }
        if let Ok(Some(mad)) = messages::mra(comm, connection, timeout, &[]) {
            self.send_delay(comm, mad);
        }
    }

    // Answers

    fn take_mra(&mut self, arrival: &Arrival<'_>, comm: CommId, mra: &Mra) -> Result<(), Discard> {
        let longest = self.limits.max_service_timeout.ns();
        let connection = self.connections.get_mut(&comm.0).ok_or(Discard::Unknown)?;
        let (expected, state) = match connection.state {
            State::ReqSent => (MraOf::Req, State::MraReqRcvd),
            State::RepSent => (MraOf::Rep, State::MraRepRcvd),
            _ => (MraOf::Lap, State::MraLapRcvd),
        };
        if mra.acknowledged != expected {
            return Err(Discard::Unexpected(connection.state, Kind::Mra));
        }
        connection.state = state;
        if let Some(pending) = &mut connection.pending {
            // it was heard
            pending.early = 0;
        }
        // The service's time, and that of the path (IBA 12.9.8).
        let wait = mra.service_timeout.ns().min(longest) + connection.path_ns();
        self.set_deadline(comm, Some(arrival.now.plus_ns(wait)));
        Ok(())
    }

    /// Nobody listens yet: true if the REQ is sent again soon, as if the REJ had not come.
    fn hopes(&mut self, now: Instant, comm: CommId) -> bool {
        let patience_ns = self.limits.listener_patience_ns;
        // processes of one host are told of listeners
        let Some(pending) = self
            .connections
            .get_mut(&comm.0)
            .filter(|connection| matches!(connection.route, Route::Gsi { .. }))
            .and_then(|connection| connection.pending.as_mut())
        else {
            return false;
        };
        let until = *pending.hopes_until.get_or_insert(now.plus_ns(patience_ns));
        let next = now.plus_ns(ASK_AGAIN_NS);
        if next > until {
            return false;
        }
        // an answer came: none of the repetitions for lost messages is used up
        pending.retries_left = pending.retries_left.saturating_add(1);
        self.set_deadline(comm, Some(next));
        true
    }

    fn take_rej(&mut self, arrival: &Arrival<'_>, comm: CommId, rej: &Rej) {
        let now = arrival.now;
        let event = CmEvent::Rejected {
            rejected: rej.rejected,
            reason: rej.reason,
            ari: rej.ari,
            private_data: rej.private_data,
        };
        match self.state(comm) {
            State::ReqSent
                if rej.reason == RejectReason::InvalidServiceId && self.hopes(now, comm) => {}
            State::ReqSent | State::MraReqRcvd => {
                self.tell(comm, event);
                self.remove(comm);
            }
            State::ReqRcvd | State::MraReqSent | State::RepSent | State::MraRepRcvd => {
                if !self.withdraw(comm) {
                    self.tell(comm, event);
                }
                // A duplicate of the REQ that is still under way is no new request.
                let for_ns = self.memory_ns(comm);
                self.remember(now, comm, for_ns);
            }
            State::RepRcvd | State::MraRepSent => {
                self.tell(comm, event);
                let for_ns = self.time_wait_ns(comm);
                self.remember(now, comm, for_ns);
            }
            State::DreqSent => {
                self.tell(comm, CmEvent::Disconnected(PrivateData::default()));
                let for_ns = self.time_wait_ns(comm);
                self.enter_time_wait(now, comm, for_ns);
            }
            _ => {
                self.tell(comm, event);
                let for_ns = self.time_wait_ns(comm);
                self.enter_time_wait(now, comm, for_ns);
            }
        }
    }

    fn take_rep(&mut self, arrival: &Arrival<'_>, comm: CommId, rep: &Rep) -> Result<(), Discard> {
        let connection = self.connections.get(&comm.0).ok_or(Discard::Unknown)?;
        let peer = connection.route.peer();
        // The target of an extended connection says its number elsewhere.
        let remote_qpn = if connection.qp_type == QpType::XrcSend {
            Qpn(rep.local_eecn)
        } else {
            rep.local_qpn
        };
        if let Some(old) = self.find_qpn(peer, rep.local_ca_guid, remote_qpn) {
            self.refuse_rep(arrival, rep, RejectReason::StaleConnection);
            self.supersede(arrival.now, old);
            return Err(Discard::Unexpected(State::ReqSent, Kind::Rep));
        }
        if self
            .find_id(peer, rep.local_ca_guid, rep.local_comm_id)
            .is_some()
        {
            // An identifier that the other side uses for another connection already.
            return Err(Discard::Foreign);
        }
        self.set_deadline(comm, None);
        let connection = self.connections.get_mut(&comm.0).ok_or(Discard::Unknown)?;
        connection.state = State::RepRcvd;
        connection.pending = None;
        connection.remote = Some(rep.local_comm_id);
        connection.remote_guid = rep.local_ca_guid;
        connection.remote_qpn = remote_qpn;
        connection.sq_psn = rep.starting_psn;
        // What the other side takes and has outstanding, within what was asked for and offered.
        connection.initiator_depth = connection.initiator_depth.min(rep.responder_resources);
        connection.responder_resources = connection.responder_resources.min(rep.initiator_depth);
        connection.rnr_retry_count = rep.rnr_retry_count;
        if rep.failover != Failover::Accepted {
            connection.alternate = None;
        }
        // Now the delay of the adapter that acknowledges is known.
        for end in [&mut connection.primary, &mut connection.alternate]
            .into_iter()
            .flatten()
        {
            let packet_life = TimeCode(end.timeout.0.saturating_sub(1));
            end.timeout = ack_timeout(rep.target_ack_delay, packet_life);
        }
        let reply = Reply {
            remote_guid: rep.local_ca_guid,
            remote_qpn,
            responder_resources: connection.responder_resources,
            initiator_depth: connection.initiator_depth,
            target_ack_delay: rep.target_ack_delay,
            failover: rep.failover,
            flow_control: rep.end_to_end_flow_control,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
            enhanced: Enhanced {
                vendor_id: rep.vendor_id,
                options: arrival.mad.attribute_modifier,
            },
            private_data: rep.private_data,
        };
        self.index_id(comm);
        self.index_qpn(comm);
        self.tell(comm, CmEvent::Reply(Box::new(reply)));
        Ok(())
    }

    fn take_rtu(&mut self, comm: CommId, rtu: &Rtu) {
        self.establish(comm, rtu.private_data);
    }

    fn take_dreq(&mut self, arrival: &Arrival<'_>, comm: CommId, dreq: &Dreq) {
        self.set_deadline(comm, None);
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        connection.state = State::DreqRcvd;
        connection.pending = None;
        connection.later_transaction = arrival.mad.transaction_id;
        if connection.user.is_some() {
            self.tell(comm, CmEvent::DisconnectRequest(dreq.private_data));
        } else {
            // Nobody is there to be asked: no private data that could be too long.
            let _ = self.disconnect(arrival.now, comm, &[]);
        }
    }

    /// Both sides have sent a DREQ: neither waits for the other's consumer.
    fn cross_dreq(&mut self, arrival: &Arrival<'_>, comm: CommId, dreq: &Dreq) {
        self.tell(comm, CmEvent::Disconnected(PrivateData::default()));
        let ids = (comm, dreq.local_comm_id);
        if let Ok(mad) = messages::drep(arrival.mad.transaction_id, ids, &[]) {
            self.end_with_drep(arrival.now, comm, mad);
        }
    }

    fn take_drep(&mut self, arrival: &Arrival<'_>, comm: CommId, drep: &Drep) {
        self.tell(comm, CmEvent::Disconnected(drep.private_data));
        let for_ns = self.time_wait_ns(comm);
        self.enter_time_wait(arrival.now, comm, for_ns);
    }

    /// A DREQ for what is over, or never was: the DREP that it got, or one without private data.
    fn answer_drep(&mut self, arrival: &Arrival<'_>, comm: Option<CommId>, dreq: &Dreq) {
        let transaction = arrival.mad.transaction_id;
        let kept = comm
            .and_then(|comm| self.connections.get(&comm.0))
            .and_then(|connection| connection.answer_to(Kind::Dreq))
            .filter(|mad| mad.transaction_id == transaction);
        let ids = (dreq.remote_comm_id, dreq.local_comm_id);
        if let Some(mad) = kept.or_else(|| messages::drep(transaction, ids, &[]).ok()) {
            self.send(arrival.from, &mad);
        }
    }

    // Alternate paths

    fn take_lap(&mut self, arrival: &Arrival<'_>, comm: CommId, lap: &Lap) -> Result<(), Discard> {
        let connection = self.connections.get(&comm.0).ok_or(Discard::Unknown)?;
        let transaction = arrival.mad.transaction_id;
        if connection
            .answer_to(Kind::Lap)
            .is_some_and(|mad| mad.transaction_id == transaction)
        {
            self.resend(comm, Kind::Lap);
            return Err(Discard::Unexpected(State::Established, Kind::Lap));
        }
        let path = Path::turned(&lap.alternate);
        let local = arrival.ports.local_end(
            &arrival.from,
            &path.local_gid,
            path.local_lid,
            connection.pkey,
        );
        let same = connection.primary.is_some_and(|primary| {
            (primary.path.local_gid, primary.path.remote_gid) == (path.local_gid, path.remote_gid)
                && (primary.path.local_lid, primary.path.remote_lid)
                    == (path.local_lid, path.remote_lid)
        });
        let refused = match &local {
            _ if lap.remote_qpn != connection.local_qpn => Some(ApStatus::InvalidQpn),
            _ if same => Some(ApStatus::DuplicateOfPrimary),
            Ok(_) => None,
            Err(RejectReason::PrimaryRemoteLid) => Some(ApStatus::InvalidLid),
            Err(_) => Some(ApStatus::InvalidGid),
        };
        let local = match (refused, local) {
            (None, Ok(local)) => local,
            (status, _) => {
                self.refuse_lap(arrival, lap, status.unwrap_or(ApStatus::InvalidGid));
                return Err(Discard::Unexpected(State::Established, Kind::Lap));
            }
        };
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::LapRcvd;
            connection.later_transaction = transaction;
            connection.forget(Kind::Lap);
            connection.offered = Some(PathEnd::new(local, path, local.ack_delay));
        }
        let request = LapRequest {
            alternate: (local, path),
            private_data: lap.private_data,
        };
        self.tell(comm, CmEvent::AlternateRequest(Box::new(request)));
        Ok(())
    }

    fn take_apr(&mut self, comm: CommId, apr: &Apr) {
        self.set_deadline(comm, None);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.state = State::Established;
            connection.pending = None;
            connection.load_offered(apr.status == ApStatus::Loaded);
        }
        let event = CmEvent::AlternateAnswer {
            status: apr.status,
            info: apr.info,
            private_data: apr.private_data,
        };
        self.tell(comm, event);
    }

    fn take_sidr_rep(&mut self, arrival: &Arrival<'_>, comm: CommId, rep: &SidrRep) {
        let av = match arrival.from {
            Route::Gsi { .. } => match self.connections.get(&comm.0).map(|c| c.route) {
                Some(Route::Gsi { av, .. }) => Some(av),
                _ => None,
            },
            Route::Host { .. } => None,
        };
        let answer = SidrAnswer {
            status: rep.status,
            qpn: rep.qpn,
            qkey: rep.qkey,
            av,
            info: rep.info,
            enhanced: Enhanced {
                vendor_id: rep.vendor_id,
                options: arrival.mad.attribute_modifier,
            },
            private_data: rep.private_data,
        };
        self.tell(comm, CmEvent::SidrReply(Box::new(answer)));
        self.remove(comm);
    }

    /// All that was shared with a process ends with it.
    fn process_gone(&mut self, now: Instant, slot: u32) {
        let peer = Route::Host { slot }.peer();
        let ids: Vec<CommId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.is_peer(peer))
            .map(|(comm, _)| CommId(*comm))
            .collect();
        for comm in ids {
            self.lose(now, comm);
        }
    }

    fn device_gone(&mut self, device: u16) {
        let on_device = |connection: &Connection| {
            connection
                .primary
                .is_some_and(|end| end.local.device == device)
                || matches!(connection.route, Route::Gsi { device: d, .. } if d == device)
        };
        let ids: Vec<CommId> = self
            .connections
            .iter()
            .filter(|(_, connection)| on_device(connection))
            .map(|(comm, _)| CommId(*comm))
            .collect();
        for comm in ids {
            if !self.withdraw(comm) && self.state(comm) != State::TimeWait {
                self.tell(comm, CmEvent::DeviceGone);
            }
            self.remove(comm);
        }
    }
}
