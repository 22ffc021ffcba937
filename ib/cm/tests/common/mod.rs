//! What the tests share: a port, parameters, and a small generator.
#![allow(dead_code)] // each test uses its part

use ferriband_cm::{
    Enhanced, Event, Input, ListenParams, LocalEnd, Machine, Path, Ports, RepParams, ReqParams,
    Route, SidrParams, UserId,
};
use ferriband_transport::types::{AddressVector, Instant, QpType};
use ferriband_wire::cm::{CmMad, Failover, RejectReason};
use ferriband_wire::{Gid, Guid, Lid, Mtu, PKey, Qpn, ServiceId, Sl, TimeCode};

pub const SECOND: u64 = 1_000_000_000;
pub const SERVICE: ServiceId = ServiceId(0x1_0000_0000_1234);
pub const LISTENER: UserId = UserId(1);
pub const PKEY: PKey = PKey(0xffff);

/// A party: one adapter with two ports' worth of GIDs.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub number: u8,
}

impl Host {
    pub fn gid(self, port: u8) -> Gid {
        let mut raw = [0; 16];
        (raw[0], raw[1], raw[14], raw[15]) = (0xfe, 0x80, port, self.number);
        Gid(raw)
    }

    pub fn guid(self) -> Guid {
        Guid(0x0200_00ff_fe00_0000 | u64::from(self.number))
    }

    pub fn local_end(self, port: u8) -> LocalEnd {
        LocalEnd {
            device: 0,
            guid: self.guid(),
            port_num: port,
            sgid_index: port - 1,
            pkey_index: 0,
            ethernet: false,
            max_mtu: Mtu::M4096,
            ack_delay: TimeCode(15),
        }
    }

    /// The way from this host to another, as queue pair 1 gets it.
    pub fn route_to(self, other: Host, port: u8) -> Route {
        Route::Gsi {
            device: 0,
            sgid_index: port - 1,
            av: AddressVector {
                dgid: other.gid(port),
                dlid: other.lid(port),
                hop_limit: 64,
                is_global: true,
                port_num: port,
                ..AddressVector::default()
            },
        }
    }

    pub fn lid(self, port: u8) -> Lid {
        Lid(u16::from(self.number) << 4 | u16::from(port))
    }

    pub fn path_to(self, other: Host, port: u8) -> Path {
        Path {
            local_gid: self.gid(port),
            remote_gid: other.gid(port),
            local_lid: self.lid(port),
            remote_lid: other.lid(port),
            flow_label: 0x12345,
            traffic_class: 0,
            hop_limit: 64,
            sl: Sl(3),
            packet_rate: 2,
            packet_life: TimeCode(14),
        }
    }
}

impl Ports for Host {
    fn local_end(&self, _: &Route, gid: &Gid, _: Lid, _: PKey) -> Result<LocalEnd, RejectReason> {
        (1..=2)
            .find(|port| self.gid(*port) == *gid)
            .map(|port| Host::local_end(*self, port))
            .ok_or(RejectReason::PrimaryRemoteGid)
    }
}

pub fn listen(backlog: u32) -> ListenParams {
    ListenParams {
        user: LISTENER,
        service_id: SERVICE,
        mask: !0,
        gid: None,
        ip: None,
        backlog,
    }
}

pub fn req(from: Host, to: Host, user: u64, qpn: u32, private_data: &[u8]) -> ReqParams<'_> {
    ReqParams {
        user: UserId(user),
        route: from.route_to(to, 1),
        service_id: SERVICE,
        qp_type: QpType::Rc,
        local_qpn: Qpn(qpn),
        starting_psn: None,
        primary: (from.local_end(1), from.path_to(to, 1)),
        alternate: None,
        path_mtu: Mtu::M1024,
        pkey: PKEY,
        responder_resources: 4,
        initiator_depth: 5,
        retry_count: 7,
        rnr_retry_count: 6,
        flow_control: false,
        srq: false,
        // 67 ms, so that a simulated minute holds many repetitions.
        remote_response_timeout: TimeCode(14),
        local_response_timeout: TimeCode(14),
        max_cm_retries: 15,
        enhanced: Enhanced::default(),
        private_data,
    }
}

pub fn rep(qpn: u32, private_data: &[u8]) -> RepParams<'_> {
    RepParams {
        local_qpn: Qpn(qpn),
        starting_psn: None,
        responder_resources: 3,
        initiator_depth: 2,
        failover: Failover::Accepted,
        flow_control: false,
        rnr_retry_count: 5,
        srq: false,
        enhanced: Enhanced::default(),
        private_data,
    }
}

pub fn sidr(from: Host, to: Host, user: u64, private_data: &[u8]) -> SidrParams<'_> {
    SidrParams {
        user: UserId(user),
        route: from.route_to(to, 1),
        service_id: SERVICE,
        pkey: PKEY,
        response_timeout: TimeCode(14),
        max_cm_retries: 15,
        private_data,
    }
}

/// Takes out every message, parsed.
pub fn transmits(machine: &mut Machine) -> Vec<(Route, CmMad, [u8; 256])> {
    let mut out = Vec::new();
    let mut mad = [0; 256];
    while let Some(route) = machine.poll_transmit(&mut mad) {
        out.push((route, CmMad::parse(&mad).expect("its own message"), mad));
    }
    out
}

/// Takes out every event.
pub fn events(machine: &mut Machine) -> Vec<Event> {
    std::iter::from_fn(|| machine.poll_event()).collect()
}

/// Hands a message over as it comes from `from`.
pub fn deliver(
    machine: &mut Machine,
    now: Instant,
    here: Host,
    from: Host,
    mad: &[u8; 256],
) -> Result<(), ferriband_cm::Discard> {
    let input = Input::Mad {
        from: here.route_to(from, 1),
        to: Some(here.gid(1)),
        mad,
    };
    machine.handle(now, input, &here)
}

/// The generator of the tests (splitmix64): a seed replays a run.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
