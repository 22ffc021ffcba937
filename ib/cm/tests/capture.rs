//! The machine in the place of either kernel of a captured connection (rping between two Linux kernels with Soft-RoCE, see
//! ib/wire/tests/golden): what it sends is what that kernel sent, field by field, and it takes what the other kernel sent.

mod common;

use common::{events, transmits};
use ferriband_cm::table::State;
use ferriband_cm::{
    CmEvent, CmLimits, Discard, Enhanced, Input, ListenParams, LocalEnd, Machine, Path, Ports,
    RepParams, ReqParams, Route, UserId, ip_request,
};
use ferriband_transport::types::{Access, AddressVector, Instant, QpAttrMask, QpState, QpType};
use ferriband_wire::cm::{
    CmMad, Drep, Dreq, Failover, IpPair, Message, PortSpace, RejectReason, Rep, Req, Rtu,
};
use ferriband_wire::mad::GSI_QPN;
use ferriband_wire::pcap::PcapReader;
use ferriband_wire::{
    CommId, Gid, Guid, Lid, Mtu, PKey, Psn, Qpn, RoceIp, RocePacket, ServiceId, TimeCode,
    TransactionId,
};
use std::net::{IpAddr, Ipv4Addr};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

fn gid(ip: Ipv4Addr) -> Gid {
    Gid(ip.to_ipv6_mapped().octets())
}

/// The adapter of one of the kernels.
struct Adapter(Ipv4Addr);

impl Adapter {
    fn end(&self) -> LocalEnd {
        let [.., last] = self.0.octets();
        LocalEnd {
            device: 4,
            guid: Guid(0x5054_00ff_fe77_0000 | u64::from(last)),
            port_num: 1,
            sgid_index: 1,
            pkey_index: 0,
            ethernet: true,
            max_mtu: Mtu::M1024,
            ack_delay: TimeCode(15),
        }
    }
}

impl Ports for Adapter {
    fn local_end(&self, _: &Route, asked: &Gid, _: Lid, _: PKey) -> Result<LocalEnd, RejectReason> {
        if *asked == gid(self.0) {
            Ok(self.end())
        } else {
            Err(RejectReason::PrimaryRemoteGid)
        }
    }
}

fn route_to(ip: Ipv4Addr) -> Route {
    Route::Gsi {
        device: 4,
        sgid_index: 1,
        av: AddressVector {
            dgid: gid(ip),
            hop_limit: 64,
            is_global: true,
            port_num: 1,
            ..AddressVector::default()
        },
    }
}

/// The five messages and their transaction.
fn captured() -> (TransactionId, Req, Rep, Rtu, Dreq, Drep) {
    let capture =
        PcapReader::new(include_bytes!("../../wire/tests/golden/rxe/cm.pcap")).expect("a capture");
    let mads: Vec<CmMad> = capture
        .filter_map(|record| {
            let frame = record.expect("whole").bytes;
            let (_, roce) = RocePacket::parse_ethernet(frame).expect("parses");
            assert!(matches!(roce.headers.ip, RoceIp::V4(_)));
            (roce.packet.bth().dest_qpn == GSI_QPN)
                .then(|| CmMad::parse(roce.packet.payload).expect("a message"))
        })
        .collect();
    let messages: Vec<Message> = mads.iter().map(|mad| mad.message).collect();
    let [
        Message::Req(req),
        Message::Rep(rep),
        Message::Rtu(rtu),
        Message::Dreq(dreq),
        Message::Drep(drep),
    ] = messages[..]
    else {
        panic!("not REQ, REP, RTU, DREQ, DREP: {messages:?}")
    };
    (mads[0].transaction_id, req, rep, rtu, dreq, drep)
}

/// The PSN of the first packet with data that either side sent.
fn first_psns() -> (Psn, Psn) {
    let capture =
        PcapReader::new(include_bytes!("../../wire/tests/golden/rxe/cm.pcap")).expect("a capture");
    let mut first = [None, None];
    for record in capture {
        let frame = record.expect("whole").bytes.to_vec();
        let (_, roce) = RocePacket::parse_ethernet(&frame).expect("parses");
        let RoceIp::V4(ip) = roce.headers.ip else {
            panic!("captured over IPv4")
        };
        let bth = roce.packet.bth();
        let request = roce.packet.ext().aeth.is_none();
        if bth.dest_qpn != GSI_QPN && request {
            first[usize::from(ip.source == SERVER)].get_or_insert(bth.psn);
        }
    }
    (first[0].expect("data"), first[1].expect("data"))
}

fn hand(
    machine: &mut Machine,
    here: &Adapter,
    from: Ipv4Addr,
    transaction: TransactionId,
    message: impl Into<Message>,
) {
    try_hand(machine, here, from, transaction, message).expect("taken");
}

fn try_hand(
    machine: &mut Machine,
    here: &Adapter,
    from: Ipv4Addr,
    transaction: TransactionId,
    message: impl Into<Message>,
) -> Result<(), Discard> {
    let mut mad = [0; 256];
    CmMad::new(transaction, message)
        .emit(&mut mad)
        .expect("fits");
    let input = Input::Mad {
        from: route_to(from),
        to: Some(gid(here.0)),
        mad: &mad,
    };
    machine.handle(Instant(0), input, here)
}

fn sent(machine: &mut Machine) -> (Route, CmMad) {
    let mut sent = transmits(machine);
    assert_eq!(sent.len(), 1);
    let (route, mad, _) = sent.remove(0);
    (route, mad)
}

fn told(machine: &mut Machine) -> (CommId, CmEvent) {
    let mut told = events(machine);
    assert_eq!(told.len(), 1, "{told:?}");
    let event = told.remove(0);
    (event.comm, event.kind)
}

#[test]
fn all_of_ipv6_is_no_ipv4() {
    let (transaction, req, ..) = captured();
    let server = Adapter(SERVER);
    let mut machine = Machine::new(0x6a1, CmLimits::default(), [1, 2]);
    let listener = |user, ip: Option<IpAddr>| ListenParams {
        user: UserId(user),
        service_id: ServiceId::from_port(PortSpace::Tcp, 7174),
        mask: !0,
        gid: None,
        ip,
        backlog: 3,
    };
    let all = |v4: bool| match v4 {
        true => Some(Ipv4Addr::UNSPECIFIED.into()),
        false => Some(std::net::Ipv6Addr::UNSPECIFIED.into()),
    };
    machine.listen(&listener(1, all(false))).expect("free");
    try_hand(&mut machine, &server, CLIENT, transaction, req).expect_err("not its family");
    let (_, refused) = sent(&mut machine);
    let Message::Rej(rej) = refused.message else {
        panic!("{refused:?}")
    };
    assert_eq!(rej.reason, RejectReason::InvalidServiceId);

    // Both stand beside each other, and beside one for all addresses, which is chosen last.
    machine.listen(&listener(2, None)).expect("free");
    machine.listen(&listener(3, all(true))).expect("free");
    let again = TransactionId(transaction.0 + 1);
    hand(&mut machine, &server, CLIENT, again, req);
    let (_, CmEvent::Request(request)) = told(&mut machine) else {
        panic!("no request")
    };
    assert_eq!(request.listener, UserId(3));
}

#[test]
fn in_the_servers_place() {
    let (transaction, req, rep, rtu, dreq, drep) = captured();
    let server = Adapter(SERVER);
    let mut machine = Machine::new(0x6a1, CmLimits::default(), [1, 2]);
    let service_id = ServiceId::from_port(PortSpace::Tcp, 7174);
    let listener = |user, ip| ListenParams {
        user: UserId(user),
        service_id,
        mask: !0,
        gid: None,
        ip,
        backlog: 3,
    };
    // Another address's listener does not get it, one that is bound to the address goes before one that is not.
    let elsewhere = Some(IpAddr::V4(CLIENT));
    machine.listen(&listener(1, elsewhere)).expect("free");
    machine.listen(&listener(2, None)).expect("free");
    machine
        .listen(&listener(3, Some(IpAddr::V4(SERVER))))
        .expect("free");

    hand(&mut machine, &server, CLIENT, transaction, req);
    let (comm, event) = told(&mut machine);
    assert_eq!(Machine::slot_of(comm), 0x6a1);
    let CmEvent::Request(request) = event else {
        panic!("{event:?}")
    };
    assert_eq!(request.listener, UserId(3));
    assert_eq!(
        (request.remote_qpn, request.remote_guid),
        (Qpn(0x22), req.local_ca_guid)
    );
    let (header, rest) =
        ip_request(request.service_id, request.private_data.as_bytes()).expect("an IP service");
    let addresses = IpPair::new(CLIENT.into(), SERVER.into()).expect("one family");
    assert_eq!((header.source_port, header.addresses), (0x84a4, addresses));
    assert_eq!(rest, [0; 56]);

    let params = RepParams {
        local_qpn: rep.local_qpn,
        starting_psn: Some(rep.starting_psn),
        responder_resources: request.responder_resources,
        initiator_depth: request.initiator_depth,
        failover: Failover::Accepted,
        flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        enhanced: Enhanced::default(),
        private_data: &[],
    };
    machine.accept(Instant(0), comm, &params).expect("asked");
    let (route, mad) = sent(&mut machine);
    assert_eq!(route, route_to(CLIENT));
    let mine = Rep {
        local_comm_id: comm,
        ..rep
    };
    assert_eq!(mad, CmMad::new(transaction, mine));

    let (client_psn, server_psn) = first_psns();
    let (init, _) = machine.qp_attr(comm, QpState::Init).expect("known");
    assert_eq!(
        init.access,
        Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
    );
    let (rtr, mask) = machine.qp_attr(comm, QpState::Rtr).expect("known");
    assert_eq!(
        mask,
        QpAttrMask::STATE
            | QpAttrMask::AV
            | QpAttrMask::PATH_MTU
            | QpAttrMask::DEST_QPN
            | QpAttrMask::RQ_PSN
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER
    );
    assert_eq!(
        (rtr.path_mtu, rtr.dest_qpn, rtr.rq_psn),
        (Mtu::M1024, Qpn(0x22), client_psn)
    );
    let av = AddressVector {
        dgid: gid(CLIENT),
        flow_label: 0x02be2,
        sgid_index: 1,
        hop_limit: 64,
        is_global: true,
        port_num: 1,
        ..AddressVector::default()
    };
    assert_eq!((rtr.av, rtr.max_dest_rd_atomic), (av, 1));
    let (rts, mask) = machine.qp_attr(comm, QpState::Rts).expect("known");
    assert_eq!(
        mask,
        QpAttrMask::STATE
            | QpAttrMask::SQ_PSN
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
            | QpAttrMask::MAX_QP_RD_ATOMIC
    );
    assert_eq!((rts.sq_psn, rts.timeout), (server_psn, 19));
    assert_eq!((rts.retry_cnt, rts.rnr_retry, rts.max_rd_atomic), (7, 7, 1));

    let named = Rtu {
        remote_comm_id: comm,
        ..rtu
    };
    hand(&mut machine, &server, CLIENT, transaction, named);
    assert!(matches!(told(&mut machine), (_, CmEvent::Established(_))));
    let named = Dreq {
        remote_comm_id: comm,
        ..dreq
    };
    hand(&mut machine, &server, CLIENT, transaction, named);
    assert!(matches!(
        told(&mut machine),
        (_, CmEvent::DisconnectRequest(_))
    ));
    machine.disconnect(Instant(0), comm, &[]).expect("asked");
    let mine = Drep {
        local_comm_id: comm,
        ..drep
    };
    assert_eq!(
        sent(&mut machine),
        (route_to(CLIENT), CmMad::new(transaction, mine))
    );
    // Time-wait is the acknowledgement time-out of the path, 4.096 us * 2^19.
    assert_eq!(machine.poll_timeout(), Some(Instant(4096 << 19)));
    machine.handle_timeout(Instant(4096 << 19));
    assert!(matches!(told(&mut machine), (_, CmEvent::TimewaitExit)));
    assert!(machine.is_empty());
}

#[test]
fn in_the_clients_place() {
    let (transaction, req, rep, rtu, dreq, drep) = captured();
    let client = Adapter(CLIENT);
    let mut machine = Machine::new(0x96f, CmLimits::default(), [3, 4]);
    let path = Path {
        local_gid: gid(CLIENT),
        remote_gid: gid(SERVER),
        local_lid: Lid(0),
        remote_lid: Lid(0),
        flow_label: 0x02be2,
        hop_limit: 64,
        // rdma_cm's for every RoCE path.
        packet_life: TimeCode(18),
        ..Path::default()
    };
    let params = ReqParams {
        user: UserId(9),
        route: route_to(SERVER),
        service_id: req.service_id,
        qp_type: QpType::Rc,
        local_qpn: req.local_qpn,
        starting_psn: Some(req.starting_psn),
        primary: (client.end(), path),
        alternate: None,
        path_mtu: Mtu::M1024,
        pkey: PKey(0xffff),
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        flow_control: false,
        srq: false,
        remote_response_timeout: TimeCode(20),
        local_response_timeout: TimeCode(20),
        max_cm_retries: 15,
        enhanced: Enhanced::default(),
        private_data: req.private_data.as_bytes(),
    };
    let comm = machine.connect(Instant(0), &params).expect("room");
    let (route, mad) = sent(&mut machine);
    assert_eq!(route, route_to(SERVER));
    let mine = Req {
        local_comm_id: comm,
        ..req
    };
    assert_eq!(mad.message, Message::Req(mine));
    assert_ne!(mad.transaction_id, transaction);
    let transaction = mad.transaction_id;

    let named = Rep {
        remote_comm_id: comm,
        ..rep
    };
    hand(&mut machine, &client, SERVER, transaction, named);
    assert!(matches!(told(&mut machine), (_, CmEvent::Reply(_))));
    let (client_psn, server_psn) = first_psns();
    let (rtr, _) = machine.qp_attr(comm, QpState::Rtr).expect("known");
    assert_eq!((rtr.rq_psn, rtr.dest_qpn), (server_psn, rep.local_qpn));
    let (rts, _) = machine.qp_attr(comm, QpState::Rts).expect("known");
    assert_eq!(
        (rts.sq_psn, rts.timeout, rts.rnr_retry),
        (client_psn, 19, 7)
    );

    machine.ready(comm, &[]).expect("accepted");
    let mine = Rtu {
        local_comm_id: comm,
        ..rtu
    };
    assert_eq!(sent(&mut machine).1, CmMad::new(transaction, mine));
    machine
        .disconnect(Instant(0), comm, &[])
        .expect("connected");
    let mine = Dreq {
        local_comm_id: comm,
        ..dreq
    };
    assert_eq!(sent(&mut machine).1, CmMad::new(transaction, mine));
    let named = Drep {
        remote_comm_id: comm,
        ..drep
    };
    hand(&mut machine, &client, SERVER, transaction, named);
    assert!(matches!(told(&mut machine), (_, CmEvent::Disconnected(_))));
    assert_eq!(machine.state(comm), State::TimeWait);
}
