//! A machine between a consumer who does anything and a network that brings anything: raw bytes, and messages of another machine, bent,
//! repeated and out of order. It must not panic, and nothing of it may grow beyond its bounds.
#![no_main]

use std::collections::VecDeque;

use ferriband_cm::{
    CmLimits, Enhanced, Input, ListenParams, LocalEnd, Machine, Path, Ports, RepParams, ReqParams,
    Route, SidrParams, UserId,
};
use ferriband_transport::types::{AddressVector, Instant, QpState, QpType};
use ferriband_wire::cm::{Failover, RejectReason};
use ferriband_wire::{CommId, Gid, Guid, Lid, Mtu, PKey, Qpn, ServiceId, TimeCode};
use libfuzzer_sys::fuzz_target;

const SERVICE: ServiceId = ServiceId(0x0106_1234);
const LIMITS: CmLimits = CmLimits {
    ids: 48,
    all_ids: 96,
    remembered: 16,
    backlog: 8,
    transmits: 64,
    events: 64,
    service_timeout: TimeCode(24),
    max_service_timeout: TimeCode(26),
    min_response_timeout: TimeCode(14),
    max_response_timeout: TimeCode(22),
    max_time_wait: TimeCode(22),
    orphan_retries: 3,
};
/// Messages that are under way at the most.
const FLIGHT: usize = 32;
const NO_DATA: &[u8] = &[];

fn gid(number: u8) -> Gid {
    let mut raw = [0; 16];
    (raw[0], raw[1], raw[15]) = (0xfe, 0x80, number);
    Gid(raw)
}

struct Port(u8);

impl Ports for Port {
    fn local_end(&self, _: &Route, to: &Gid, _: Lid, _: PKey) -> Result<LocalEnd, RejectReason> {
        if *to == gid(self.0) {
            Ok(end(self.0))
        } else {
            Err(RejectReason::PrimaryRemoteGid)
        }
    }
}

fn end(number: u8) -> LocalEnd {
    LocalEnd {
        device: 0,
        guid: Guid(number.into()),
        port_num: 1,
        sgid_index: 0,
        pkey_index: 0,
        ethernet: true,
        max_mtu: Mtu::M1024,
        ack_delay: TimeCode(15),
    }
}

/// The way to a party, on the network or on this host.
fn route(to: u8, host: bool) -> Route {
    if host {
        return Route::Host { slot: to.into() };
    }
    Route::Gsi {
        device: 0,
        sgid_index: 0,
        av: AddressVector {
            dgid: gid(to),
            is_global: true,
            port_num: 1,
            ..AddressVector::default()
        },
    }
}

/// One of the two parties, and what is under way to it.
struct Party {
    machine: Machine,
    number: u8,
    ids: Vec<CommId>,
    mail: VecDeque<(bool, [u8; 256])>,
    qpn: u32,
}

impl Party {
    fn new(number: u8) -> Self {
        let mut machine = Machine::new(number.into(), LIMITS, [number.into(), 7]);
        let listener = ListenParams {
            user: UserId(0),
            service_id: SERVICE,
            mask: u64::MAX,
            gid: None,
            ip: None,
            backlog: 0,
        };
        assert!(machine.listen(&listener).is_ok());
        Party {
            machine,
            number,
            ids: Vec::new(),
            mail: VecDeque::new(),
            qpn: 100,
        }
    }

    fn connect(&mut self, now: Instant, other: u8, byte: u8) {
        self.qpn += u32::from(byte & 1);
        let here = gid(self.number);
        let path = Path {
            local_gid: here,
            remote_gid: gid(other),
            packet_life: TimeCode(byte & 31),
            ..Path::default()
        };
        let made = if byte & 0x80 != 0 {
            self.machine.sidr_request(
                now,
                &SidrParams {
                    user: UserId(1),
                    route: route(other, byte & 2 != 0),
                    service_id: SERVICE,
                    pkey: PKey(0xffff),
                    response_timeout: TimeCode(14),
                    max_cm_retries: byte & 15,
                    private_data: NO_DATA,
                },
            )
        } else {
            self.machine.connect(
                now,
                &ReqParams {
                    user: UserId(1),
                    route: route(other, byte & 2 != 0),
                    service_id: SERVICE,
                    qp_type: QpType::Rc,
                    local_qpn: Qpn(self.qpn),
                    starting_psn: None,
                    primary: (end(self.number), path),
                    alternate: (byte & 4 != 0).then(|| (end(self.number), path)),
                    path_mtu: Mtu::M1024,
                    pkey: PKey(0xffff),
                    responder_resources: 1,
                    initiator_depth: 1,
                    retry_count: 7,
                    rnr_retry_count: 7,
                    flow_control: false,
                    srq: false,
                    remote_response_timeout: TimeCode(14),
                    local_response_timeout: TimeCode(14),
                    max_cm_retries: byte & 15,
                    enhanced: Enhanced::default(),
                    private_data: NO_DATA,
                },
            )
        };
        self.ids.extend(made.ok());
    }

    /// Something that a consumer does to one of its identifiers. Errors are answers, too.
    fn act(&mut self, now: Instant, what: u8, which: u8) {
        let Some(&comm) = self.ids.get(usize::from(which) % self.ids.len().max(1)) else {
            return;
        };
        let machine = &mut self.machine;
        let rep = RepParams {
            local_qpn: Qpn(which.into()),
            starting_psn: None,
            responder_resources: 1,
            initiator_depth: 1,
            failover: Failover::Accepted,
            flow_control: false,
            rnr_retry_count: 7,
            srq: false,
            enhanced: Enhanced::default(),
            private_data: NO_DATA,
        };
        let _ = match what % 12 {
            0 => machine.accept(now, comm, &rep),
            1 => machine.ready(comm, NO_DATA),
            2 => machine.reject(now, comm, RejectReason::Consumer, NO_DATA, NO_DATA),
            3 => machine.disconnect(now, comm, NO_DATA),
            4 => machine.delay(comm, TimeCode(which & 31), NO_DATA),
            5 => machine.established_hint(comm),
            6 => machine.adopt(comm, UserId(u64::from(which) + 2)),
            7 => machine.migrated(comm),
            8 => {
                machine.taken(comm);
                Ok(())
            }
            9 => {
                machine.redirect(comm, route(which & 3, which & 4 != 0));
                Ok(())
            }
            10 => {
                machine.destroy(now, comm);
                Ok(())
            }
            _ => {
                for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                    let _ = machine.qp_attr(comm, state);
                }
                Ok(())
            }
        };
    }

    /// Takes out what the machine has to say.
    fn drain(&mut self, out: &mut Vec<(bool, [u8; 256])>) {
        let mut mad = [0; 256];
        let mut count = 0;
        while let Some(route) = self.machine.poll_transmit(&mut mad) {
            out.push((matches!(route, Route::Host { .. }), mad));
            count += 1;
        }
        assert!(count <= LIMITS.transmits);
        let mut told = 0;
        while let Some(event) = self.machine.poll_event() {
            if self.ids.len() < 4 * LIMITS.all_ids {
                self.ids.push(event.comm);
            }
            told += 1;
        }
        // requests stop at the bound; an identifier has few other events between two looks
        assert!(told <= LIMITS.events + 4 * LIMITS.all_ids);
        assert!(self.machine.len() <= LIMITS.all_ids + 1);
    }

    fn hear(&mut self, now: Instant, from: u8, host: bool, mad: &[u8; 256]) {
        let input = Input::Mad {
            from: route(from, host),
            to: Some(gid(self.number)),
            mad,
        };
        let _ = self.machine.handle(now, input, &Port(self.number));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut parties = [Party::new(0), Party::new(1)];
    let mut now = Instant(0);
    let mut rest = bytes;
    while let [what, which, value, after @ ..] = rest {
        rest = after;
        let side = usize::from(which & 1);
        let [first, second] = &mut parties;
        let (here, there) = if side == 0 {
            (first, second)
        } else {
            (second, first)
        };
        match what % 8 {
            0 => here.connect(now, there.number, *value),
            1 | 2 => here.act(now, *value, which >> 1),
            // a message arrives: as it is, bent, or once more
            3 | 4 => {
                if let Some((host, mut mad)) = here.mail.pop_front() {
                    if *value & 0xc0 == 0xc0 {
                        let at = usize::from(*which >> 1) * 2 % 256;
                        mad[at] ^= *value;
                    }
                    here.hear(now, there.number, host, &mad);
                    if *value & 1 != 0 && here.mail.len() < FLIGHT {
                        here.mail.push_back((host, mad));
                    }
                }
            }
            5 => {
                let mut mad = [0; 256];
                let len = rest.len().min(256);
                mad[..len].copy_from_slice(&rest[..len]);
                rest = &rest[len.min(usize::from(*value))..];
                here.hear(now, value & 3, which & 2 != 0, &mad);
            }
            6 => {
                now = now.plus_ns(1 << (u32::from(*value) % 36));
                here.machine.handle_timeout(now);
            }
            _ => {
                let input = if *value & 1 == 0 {
                    Input::ProcessGone((*which >> 1).into())
                } else {
                    Input::DeviceGone(0)
                };
                let _ = here.machine.handle(now, input, &Port(here.number));
            }
        }
        let mut out = Vec::new();
        here.drain(&mut out);
        let room = FLIGHT.saturating_sub(there.mail.len());
        there.mail.extend(out.into_iter().take(room));
    }
    // whatever happened, with all identifiers given up and time passing nothing is left
    for party in &mut parties {
        let all: Vec<CommId> = party.machine.summaries().map(|one| one.comm).collect();
        for comm in all {
            party.machine.destroy(now, comm);
        }
        let mut mad = [0; 256];
        while party.machine.poll_transmit(&mut mad).is_some() {}
        while let Some(at) = party.machine.poll_timeout() {
            party.machine.handle_timeout(at);
            while party.machine.poll_transmit(&mut mad).is_some() {}
        }
        assert!(party.machine.is_empty());
    }
});
