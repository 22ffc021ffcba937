//! Connections of identifiers: asked for, accepted, refused, ended; and what their queue pairs need for it.

use ferriband_cm::{
    CmError, Enhanced, Machine, RepParams, ReqParams, SidrParams, SidrReplyParams, UserId,
};
use ferriband_transport::types::{QpAttr, QpAttrMask, QpState};
use ferriband_wire::cm::{
    Failover, Info, IpCmHeader, IpPair, PortSpace, PrivateData, RejectReason, SidrStatus,
};
use ferriband_wire::{CommId, PKey, QKey, Qpn};

use super::id::{ConnWish, Id, Stage};
use super::{CM_RETRIES, Cm, RESPONSE_TIMEOUT, carry, path_mtu, refused};
use crate::base::error::Error;
use crate::base::limits;
use crate::lock;
use crate::progress::Engine;

/// The consumer's bytes as a SIDR_REQ, or a REQ of another port space than SDP's, carries them:
/// behind the header of the IP addressing annex, unless the addresses are native.
fn private_data<const N: usize>(id: &Id, bytes: &[u8]) -> Result<PrivateData<N>, Error> {
    let too_long = Error::Invalid("the private data are too long");
    if id.native {
        return PrivateData::new(bytes).map_err(|_| too_long);
    }
    addresses(id)?.before::<N>(bytes).map_err(|_| too_long)
}

/// The consumer's bytes as a REQ carries them: of SDP the Hello, in which the addresses are filled
/// in.
fn request_data(id: &Id, bytes: &[u8]) -> Result<PrivateData<92>, Error> {
    if id.space != PortSpace::Sdp {
        return private_data(id, bytes);
    }
    let no_hello = Error::Invalid("the private data are no Hello of SDP");
    addresses(id)?.in_hello(bytes).ok_or(no_hello)
}

/// Who asks and whom.
fn addresses(id: &Id) -> Result<IpCmHeader, Error> {
    let (Some(src), Some(dst)) = (id.src, id.dst) else {
        return Err(Error::Invalid("the route is not resolved"));
    };
    let families = Error::Invalid("the addresses are of different families");
    Ok(IpCmHeader {
        source_port: src.port(),
        addresses: IpPair::new(src.ip(), dst.ip()).ok_or(families)?,
    })
}

/// Refuses what is before the identifier: REJ, or for a datagram service SIDR_REP.
fn refuse(
    machine: &mut Machine,
    id: &Id,
    comm: CommId,
    reason: RejectReason,
    private_data: &[u8],
) -> Result<(), CmError> {
    let now = ferriband_memory::wait::now();
    if !id.is_datagram() {
        return machine.reject(now, comm, reason, &[], private_data);
    }
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
}

impl Cm {
    /// Asks for a connection, or for the queue pair behind a service.
    ///
    /// # Errors
    /// `Invalid` without a resolved route, with private data that are too long, and once it has been asked for, whatever came of that.
    pub fn connect(&self, engine: &Engine, id: u32, wish: &ConnWish<'_>) -> Result<(), Error> {
        engine.check_alive()?;
        let mut state = lock(&self.state);
        let state = &mut *state;
        let found = state
            .ids
            .get_mut(&id)
            .ok_or(Error::NotFound("no such identifier"))?;
        let machine = &mut state.machine;
        let asked = {
            let (Some(dst), Some(place), Stage::RouteResolved) =
                (found.dst, found.place.as_ref(), found.stage)
            else {
                return Err(Error::Invalid(
                    "the route is not resolved, or a connection was asked for already",
                ));
            };
            let service_id = found.service(dst.port());
            let (to, gone) = ((found.dgid, found.way), &state.gone);
            let remote = carry::route_to(engine, gone, place, to, service_id, &dst);
            let comm = if found.is_datagram() {
                let data = private_data::<216>(found, wish.private_data)?;
                machine.sidr_request(
                    ferriband_memory::wait::now(),
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
                let data = request_data(found, wish.private_data)?;
                machine.connect(
                    ferriband_memory::wait::now(),
                    &ReqParams {
                        user: UserId(id.into()),
                        route: remote,
                        service_id,
                        qp_type: found.qp_type,
                        local_qpn: Qpn(wish.qp_num),
                        starting_psn: Some(found.psn),
                        primary: (place.end(), place.path(found.dgid, found.tos, found.way)),
                        alternate: None,
                        path_mtu: path_mtu(place, found.way),
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
            (comm.map_err(refused)?, remote)
        };
        let (comm, remote) = asked;
        found.comm = Some(comm);
        found.stage = Stage::Connecting;
        found.ended = false;
        if remote == carry::NOBODY {
            state.unheard.ask(ferriband_memory::wait::now(), id);
        }
        self.pump(engine, state);
        Ok(())
    }

    /// Accepts the request that made the identifier, whose events are for `user` from now on.
    ///
    /// # Errors
    /// `Invalid`, `NotFound`. For private data that are too long the request is refused: nobody is left waiting.
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
                    ferriband_memory::wait::now(),
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
                    ferriband_memory::wait::now(),
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
            if let Err(CmError::Value(_)) = done {
                let _ = refuse(machine, found, comm, RejectReason::Consumer, &[]);
            }
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
            machine.ready(comm, &[]).map_err(refused)?;
            found.open_record(engine, machine);
            Ok(())
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
            let reason = RejectReason::from_code(reason);
            refuse(machine, found, comm, reason, private_data).map_err(refused)
        })
    }

    /// Ends the connection, or answers its end. What was asked for and came to nothing, or has not come to anything yet, is over with that: in
    /// the kernel, too, there is nothing to do then and that is no error. False if no event follows.
    ///
    /// # Errors
    /// `Invalid` if no connection was ever asked for; `NotFound`.
    pub fn disconnect(&self, engine: &Engine, id: u32) -> Result<bool, Error> {
        self.with(engine, id, |machine, found| {
            let has_been = match found.stage {
                Stage::Connecting | Stage::Over => true,
                Stage::Listening => found.place.is_some(),
                _ => false,
            };
            if !has_been {
                return Err(Error::Invalid("not connected"));
            }
            let done = found.comm.is_some_and(|comm| {
                machine
                    .disconnect(ferriband_memory::wait::now(), comm, &[])
                    .is_ok()
            });
            if done {
                found.stage = Stage::Over;
            }
            Ok(done || found.ended)
        })
    }

    /// The queue pair has migrated (IBV_EVENT_PATH_MIG): the machine has no alternate path of its own that it could follow to.
    ///
    /// # Errors
    /// `Invalid` unless the connection is established; `NotFound`.
    pub fn migrated(&self, engine: &Engine, id: u32) -> Result<(), Error> {
        self.with(engine, id, |machine, found| {
            found
                .comm
                .and_then(|comm| machine.summary(comm))
                .filter(|connection| connection.state.is_established())
                .map(|_| ())
                .ok_or(Error::Invalid("not connected"))
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
}
