//! What happens by itself: a message is sent again, or nobody answers, or a connection's last packets are gone.

use crate::event::CmEvent;
use crate::machine::Machine;
use crate::messages;
use crate::table::{Kind, State};
use crate::types::Route;
use ferriband_transport::types::Instant;
use ferriband_wire::CommId;
use ferriband_wire::cm::{Info, PrivateData, RejOf, RejectReason};

impl Machine {
    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(comm) = self.due(now) {
            if self.state(comm) == State::TimeWait {
                self.tell(comm, CmEvent::TimewaitExit);
                self.remove(comm);
            } else if !self.send_again(now, comm) {
                self.give_up(now, comm);
            }
        }
    }

    /// Sends the message that waits for its answer again; false if that was tried often enough, or none waits.
    fn send_again(&mut self, now: Instant, comm: CommId) -> bool {
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return false;
        };
        // The time that an MRA asked for is over; a duplicate makes the other side say so again.
        connection.state = match connection.state {
            State::MraReqRcvd => State::ReqSent,
            State::MraRepRcvd => State::RepSent,
            State::MraLapRcvd => State::LapSent,
            state => state,
        };
        let Some(pending) = &mut connection.pending else {
            return false;
        };
        let Some(pause_ns) = pending.repeat() else {
            return false;
        };
        let mad = pending.mad;
        self.set_deadline(comm, Some(now.plus_ns(pause_ns)));
        self.send_from(comm, &mad);
        true
    }

    /// Sends each DREQ again that waits for its answer along a route that `wanted` names, whenever
    /// it is due.
    pub fn end_again(&mut self, wanted: impl Fn(&Route) -> bool) {
        let waits = self.connections.iter().filter_map(|(comm, connection)| {
            let waits = connection.state == State::DreqSent && wanted(&connection.route);
            let pending = connection.pending.as_ref().filter(|_| waits)?;
            Some((CommId(*comm), pending.mad))
        });
        let waits: Vec<_> = waits.collect();
        for (comm, mad) in &waits {
            self.send_from(*comm, mad);
        }
    }

    /// True if a DREQ waits for its answer along a route that `wanted` names.
    pub fn is_ending(&self, wanted: impl Fn(&Route) -> bool) -> bool {
        let mut all = self.connections.values();
        all.any(|connection| connection.state == State::DreqSent && wanted(&connection.route))
    }

    /// Nobody has answered.
    fn give_up(&mut self, now: Instant, comm: CommId) {
        match self.state(comm) {
            State::ReqSent => {
                self.send_rej_timeout(comm);
                self.tell(comm, CmEvent::Unreachable(Kind::Req));
                self.remove(comm);
            }
            State::RepSent => {
                self.send_rej_timeout(comm);
                self.tell(comm, CmEvent::Unreachable(Kind::Rep));
                // The other side may be connected, and its packets on their way.
                let for_ns = self.memory_ns(comm).max(self.time_wait_ns(comm));
                self.remember(now, comm, for_ns);
            }
            State::LapSent => {
                if let Some(connection) = self.connections.get_mut(&comm.0) {
                    connection.state = State::Established;
                    connection.pending = None;
                    connection.offered = None;
                }
                self.tell(comm, CmEvent::Unreachable(Kind::Lap));
            }
            State::DreqSent => {
                self.tell(comm, CmEvent::Disconnected(PrivateData::default()));
                let for_ns = self.time_wait_ns(comm);
                self.enter_time_wait(now, comm, for_ns);
            }
            State::SidrReqSent => {
                self.tell(comm, CmEvent::Unreachable(Kind::SidrReq));
                self.remove(comm);
            }
            // Nothing waits for an answer in the other states.
            _ => {}
        }
    }

    fn send_rej_timeout(&mut self, comm: CommId) {
        let mad = self
            .connections
            .get(&comm.0)
            .and_then(|connection| messages::rej_timeout(comm, connection));
        if let Some(mad) = mad {
            self.send_from(comm, &mad);
        }
    }

    /// The process at the other end is dead: no message will come, and no packet. The consumer hears what a process that
    /// ends in order would have said.
    pub(crate) fn lose(&mut self, now: Instant, comm: CommId) {
        let rejected = |reason| CmEvent::Rejected {
            rejected: RejOf::Other,
            reason,
            ari: Info::NONE,
            private_data: PrivateData::default(),
        };
        let event = match self.state(comm) {
            State::ReqSent | State::MraReqRcvd | State::RepRcvd | State::MraRepSent => {
                rejected(RejectReason::Consumer)
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::SidrReqRcvd => rejected(RejectReason::Timeout),
            State::SidrReqSent => CmEvent::Unreachable(Kind::SidrReq),
            State::DreqSent | State::DreqRcvd => CmEvent::Disconnected(PrivateData::default()),
            state if state.is_established() => CmEvent::Disconnected(PrivateData::default()),
            _ => return,
        };
        let connected = matches!(event, CmEvent::Disconnected(_));
        if !self.withdraw(comm) {
            self.tell(comm, event);
        }
        if connected {
            self.enter_time_wait(now, comm, 0);
        } else {
            self.remove(comm);
        }
    }
}
