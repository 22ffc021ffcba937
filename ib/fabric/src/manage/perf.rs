//! The performance management agent of a node: counters of ports, read and reset (IBA 16.1).

use super::node::Node;
use ferriband_topology::NodeKind;
use ferriband_wire::attributes::{
    ALL_PORTS, ClassPortInfo, CounterSelect, PERF_DATA_OFFSET, PortCounters, PortCountersExtended,
    PortDataSl, PortRcvErrorDetails, PortXmitDiscardDetails, perf,
};
use ferriband_wire::mad::{AttributeId, MAD_LEN, MadHeader, MadStatus, ManagementClass, Method};
use ferriband_wire::{Header, TimeCode};

/// What a port has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes of packets sent and received, from LRH to ICRC.
    pub xmit_bytes: u64,
    /// See `xmit_bytes`.
    pub rcv_bytes: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Packets received.
    pub rcv_packets: u64,
    /// Of those, packets to groups.
    pub multicast_xmit: u64,
    /// See `multicast_xmit`.
    pub multicast_rcv: u64,
    /// Packets that could not be sent on: their port was down.
    pub xmit_discards: u64,
    /// Packets that a switch knew no way for.
    pub rcv_switch_relay_errors: u64,
    /// Packets that came with an error.
    pub rcv_errors: u64,
    /// Symbols with an error.
    pub symbol_errors: u64,
    /// The link went down.
    pub link_downed: u64,
    /// Errors came faster than LocalPhyErrors allows.
    pub integrity_errors: u64,
    /// The link was recovered without going down.
    pub link_recoveries: u64,
    /// Ticks without credits.
    pub xmit_wait: u64,
    /// Of the bytes sent and received those of each service level.
    pub xmit_bytes_by_sl: [u64; 16],
    /// See `xmit_bytes_by_sl`.
    pub rcv_bytes_by_sl: [u64; 16],
    /// Why packets were not sent on.
    pub discards: Discards,
    /// What was wrong with packets that came.
    pub wrongs: Wrongs,
}

/// Why packets were not sent on; a lane that no table serves is none of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Discards {
    /// The port was not active.
    pub inactive: u64,
    /// They had lived too long in the switch.
    pub lifetime: u64,
}

/// What was wrong with packets that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wrongs {
    /// They were spoilt on the cable.
    pub physical: u64,
    /// They were for a LID that the adapter has not.
    pub malformed: u64,
    /// The switch had no port for their LID.
    pub no_port: u64,
    /// They went round and round.
    pub looping: u64,
}

impl Counters {
    /// A packet came that is for a LID which the adapter has not.
    pub(crate) fn came_wrong(&mut self) {
        self.rcv_errors += 1;
        self.wrongs.malformed += 1;
    }
}

impl Node {
    /// What the agent answers to a MAD of class Perf that came by `port`. None if it says nothing.
    pub fn answer_perf(&mut self, port: u8, mad: &[u8; MAD_LEN]) -> Option<[u8; MAD_LEN]> {
        let (header, _) = MadHeader::parse(mad).ok()?;
        let set = match header.method {
            Method::GET => false,
            Method::SET => true,
            _ => return None,
        };
        if header.class != ManagementClass::PERF {
            return None;
        }
        let mut answer = *mad;
        let data = &mut answer[PERF_DATA_OFFSET..];
        let done = match header.check_version() {
            Err(_) => Err(MadStatus::BAD_VERSION),
            Ok(()) => self.counters_asked(port, header.attribute, set, data),
        };
        let header = MadHeader {
            method: Method::GET_RESP,
            status: done.err().unwrap_or(MadStatus::OK),
            ..header
        };
        header.emit(&mut answer).ok()?;
        Some(answer)
    }

    fn counters_asked(
        &mut self,
        came_by: u8,
        attribute: AttributeId,
        set: bool,
        data: &mut [u8],
    ) -> Result<(), MadStatus> {
        let invalid = |_| MadStatus::INVALID_FIELD;
        match attribute {
            AttributeId::CLASS_PORT_INFO if !set => {
                let mut mask = perf::EXTENDED_WIDTH | perf::XMIT_WAIT;
                if self.kind == NodeKind::Switch {
                    mask |= perf::ALL_PORT_SELECT;
                }
                let info = ClassPortInfo {
                    base_version: 1,
                    class_version: 1,
                    capability_mask: mask,
                    capability_mask2: perf::ADDITIONAL,
                    response_time: TimeCode(18),
                    ..ClassPortInfo::default()
                };
                data.fill(0);
                info.emit(data)
                    .map(|_| ())
                    .map_err(|_| MadStatus::INVALID_FIELD)
            }
            perf::PORT_COUNTERS => {
                let (wanted, _) =
                    PortCounters::parse(data).map_err(|_| MadStatus::INVALID_FIELD)?;
                let ports = self.ports_meant(came_by, wanted.port_select)?;
                if set {
                    for port in ports.clone() {
                        set_narrow(&mut self.ports[port].counters, &wanted);
                    }
                }
                let sum = self.sum(ports);
                let shown = narrow(&sum, wanted.port_select);
                data.fill(0);
                shown.emit(data).map(|_| ()).map_err(invalid)
            }
            perf::PORT_COUNTERS_EXTENDED => {
                let (wanted, _) =
                    PortCountersExtended::parse(data).map_err(|_| MadStatus::INVALID_FIELD)?;
                let ports = self.ports_meant(came_by, wanted.port_select)?;
                if set {
                    for port in ports.clone() {
                        set_wide(&mut self.ports[port].counters, &wanted);
                    }
                }
                let mut sum = self.sum(ports);
                let shown = PortCountersExtended {
                    port_select: wanted.port_select,
                    counters: wide(&sum),
                    additional: additional(&mut sum).map(|own| own.map_or(0, |own| *own)),
                    ..PortCountersExtended::default()
                };
                data.fill(0);
                shown.emit(data).map(|_| ()).map_err(invalid)
            }
            perf::PORT_XMIT_DATA_SL | perf::PORT_RCV_DATA_SL => {
                let of = |own: &mut Counters| match attribute {
                    perf::PORT_XMIT_DATA_SL => own.xmit_bytes_by_sl,
                    _ => own.rcv_bytes_by_sl,
                };
                let place = |own: &mut Counters, sl: usize, words: u64| {
                    let levels = match attribute {
                        perf::PORT_XMIT_DATA_SL => &mut own.xmit_bytes_by_sl,
                        _ => &mut own.rcv_bytes_by_sl,
                    };
                    levels[sl] = words * 4;
                };
                let (wanted, _) = PortDataSl::parse(data).map_err(|_| MadStatus::INVALID_FIELD)?;
                let mut sum = self.chosen(
                    (came_by, wanted.port_select),
                    set.then_some(wanted.counter_select),
                    |own, number| place(own, number, wanted.counters[number].into()),
                )?;
                let shown = PortDataSl {
                    counter_select: 0,
                    counters: of(&mut sum).map(|bytes| at_most(bytes / 4, u32::MAX)),
                    ..wanted
                };
                data.fill(0);
                shown.emit(data).map(|_| ()).map_err(invalid)
            }
            perf::PORT_XMIT_DISCARD_DETAILS => {
                let (wanted, _) =
                    PortXmitDiscardDetails::parse(data).map_err(|_| MadStatus::INVALID_FIELD)?;
                let mut sum = self.chosen(
                    (came_by, wanted.port_select),
                    set.then_some(wanted.counter_select),
                    |own, number| put_detail(discard_details(own), number, &wanted.counters),
                )?;
                let shown = PortXmitDiscardDetails {
                    counter_select: 0,
                    counters: discard_details(&mut sum).map(detail),
                    ..wanted
                };
                data.fill(0);
                shown.emit(data).map(|_| ()).map_err(invalid)
            }
            perf::PORT_RCV_ERROR_DETAILS => {
                let (wanted, _) =
                    PortRcvErrorDetails::parse(data).map_err(|_| MadStatus::INVALID_FIELD)?;
                let mut sum = self.chosen(
                    (came_by, wanted.port_select),
                    set.then_some(wanted.counter_select),
                    |own, number| put_detail(error_details(own), number, &wanted.counters),
                )?;
                let shown = PortRcvErrorDetails {
                    counter_select: 0,
                    counters: error_details(&mut sum).map(detail),
                    ..wanted
                };
                data.fill(0);
                shown.emit(data).map(|_| ()).map_err(invalid)
            }
            _ => Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        }
    }

    /// The counters of the ports that are meant, once those that a Set chooses, a bit for each, were given what it says.
    fn chosen(
        &mut self,
        (came_by, port_select): (u8, u8),
        chosen: Option<u16>,
        put: impl Fn(&mut Counters, usize),
    ) -> Result<Counters, MadStatus> {
        let ports = self.ports_meant(came_by, port_select)?;
        if let Some(mask) = chosen {
            for port in ports.clone() {
                for number in (0..16).filter(|number| mask >> number & 1 != 0) {
                    put(&mut self.ports[port].counters, number);
                }
            }
        }
        Ok(self.sum(ports))
    }

    /// The ports that PortSelect means. An adapter has no port 0: programs that name none mean the one that they ask by its LID.
    fn ports_meant(&self, came_by: u8, select: u8) -> Result<std::ops::Range<usize>, MadStatus> {
        let switch = self.kind == NodeKind::Switch;
        match usize::from(select) {
            _ if select == ALL_PORTS && switch => Ok(1..self.ports.len()),
            0 if !switch => {
                let port = usize::from(came_by);
                Ok(port..port + 1)
            }
            port if port < self.ports.len() => Ok(port..port + 1),
            _ => Err(MadStatus::INVALID_FIELD),
        }
    }

    fn sum(&self, ports: std::ops::Range<usize>) -> Counters {
        let mut sum = Counters::default();
        for port in &self.ports[ports] {
            let own = &port.counters;
            sum.xmit_bytes += own.xmit_bytes;
            sum.rcv_bytes += own.rcv_bytes;
            sum.xmit_packets += own.xmit_packets;
            sum.rcv_packets += own.rcv_packets;
            sum.multicast_xmit += own.multicast_xmit;
            sum.multicast_rcv += own.multicast_rcv;
            sum.xmit_discards += own.xmit_discards;
            sum.rcv_switch_relay_errors += own.rcv_switch_relay_errors;
            sum.rcv_errors += own.rcv_errors;
            sum.symbol_errors += own.symbol_errors;
            sum.link_downed += own.link_downed;
            sum.integrity_errors += own.integrity_errors;
            sum.link_recoveries += own.link_recoveries;
            sum.xmit_wait += own.xmit_wait;
            for sl in 0..16 {
                sum.xmit_bytes_by_sl[sl] += own.xmit_bytes_by_sl[sl];
                sum.rcv_bytes_by_sl[sl] += own.rcv_bytes_by_sl[sl];
            }
            sum.discards.inactive += own.discards.inactive;
            sum.discards.lifetime += own.discards.lifetime;
            sum.wrongs.physical += own.wrongs.physical;
            sum.wrongs.malformed += own.wrongs.malformed;
            sum.wrongs.no_port += own.wrongs.no_port;
            sum.wrongs.looping += own.wrongs.looping;
        }
        sum
    }
}

/// A counter stops at its largest value.
fn at_most<T: TryFrom<u64>>(value: u64, most: T) -> T {
    T::try_from(value).unwrap_or(most)
}

fn narrow(own: &Counters, port_select: u8) -> PortCounters {
    PortCounters {
        port_select,
        symbol_errors: at_most(own.symbol_errors, u16::MAX),
        link_downed: at_most(own.link_downed, u8::MAX),
        link_error_recovery: at_most(own.link_recoveries, u8::MAX),
        rcv_errors: at_most(own.rcv_errors, u16::MAX),
        // it has four bits
        local_link_integrity_errors: own.integrity_errors.min(15) as u8,
        rcv_switch_relay_errors: at_most(own.rcv_switch_relay_errors, u16::MAX),
        xmit_discards: at_most(own.xmit_discards, u16::MAX),
        xmit_data: at_most(own.xmit_bytes / 4, u32::MAX),
        rcv_data: at_most(own.rcv_bytes / 4, u32::MAX),
        xmit_packets: at_most(own.xmit_packets, u32::MAX),
        rcv_packets: at_most(own.rcv_packets, u32::MAX),
        xmit_wait: at_most(own.xmit_wait, u32::MAX),
        ..PortCounters::default()
    }
}

fn set_narrow(own: &mut Counters, wanted: &PortCounters) {
    let chosen = |bit| wanted.counter_select.contains(bit);
    let mut put = |chosen: bool, counter: fn(&mut Counters) -> &mut u64, value: u64| {
        if chosen {
            *counter(own) = value;
        }
    };
    use CounterSelect as Bit;
    put(
        chosen(Bit::SYMBOL_ERRORS),
        |c| &mut c.symbol_errors,
        wanted.symbol_errors.into(),
    );
    put(
        chosen(Bit::LINK_DOWNED),
        |c| &mut c.link_downed,
        wanted.link_downed.into(),
    );
    put(
        chosen(Bit::RCV_ERRORS),
        |c| &mut c.rcv_errors,
        wanted.rcv_errors.into(),
    );
    put(
        chosen(Bit::LINK_ERROR_RECOVERY),
        |c| &mut c.link_recoveries,
        wanted.link_error_recovery.into(),
    );
    put(
        chosen(Bit::LOCAL_LINK_INTEGRITY_ERRORS),
        |c| &mut c.integrity_errors,
        wanted.local_link_integrity_errors.into(),
    );
    put(
        chosen(Bit::RCV_SWITCH_RELAY_ERRORS),
        |c| &mut c.rcv_switch_relay_errors,
        wanted.rcv_switch_relay_errors.into(),
    );
    put(
        chosen(Bit::XMIT_DISCARDS),
        |c| &mut c.xmit_discards,
        wanted.xmit_discards.into(),
    );
    put(
        chosen(Bit::XMIT_DATA),
        |c| &mut c.xmit_bytes,
        u64::from(wanted.xmit_data) * 4,
    );
    put(
        chosen(Bit::RCV_DATA),
        |c| &mut c.rcv_bytes,
        u64::from(wanted.rcv_data) * 4,
    );
    put(
        chosen(Bit::XMIT_PACKETS),
        |c| &mut c.xmit_packets,
        wanted.xmit_packets.into(),
    );
    put(
        chosen(Bit::RCV_PACKETS),
        |c| &mut c.rcv_packets,
        wanted.rcv_packets.into(),
    );
    put(
        wanted.counter_select2 & 1 != 0,
        |c| &mut c.xmit_wait,
        wanted.xmit_wait.into(),
    );
}

fn wide(own: &Counters) -> [u64; 8] {
    [
        own.xmit_bytes / 4,
        own.rcv_bytes / 4,
        own.xmit_packets,
        own.rcv_packets,
        own.xmit_packets.saturating_sub(own.multicast_xmit),
        own.rcv_packets.saturating_sub(own.multicast_rcv),
        own.multicast_xmit,
        own.multicast_rcv,
    ]
}

/// The additional counters in the order of PortCountersExtended; None for those of what never happens here.
fn additional(own: &mut Counters) -> [Option<&mut u64>; 14] {
    [
        Some(&mut own.symbol_errors),
        Some(&mut own.link_recoveries),
        Some(&mut own.link_downed),
        Some(&mut own.rcv_errors),
        None,
        Some(&mut own.rcv_switch_relay_errors),
        Some(&mut own.xmit_discards),
        None,
        None,
        Some(&mut own.integrity_errors),
        None,
        None,
        Some(&mut own.xmit_wait),
        None,
    ]
}

/// The counters of PortXmitDiscardDetails in their order; None for those of what never happens here.
fn discard_details(own: &mut Counters) -> [Option<&mut u64>; 4] {
    let Discards { inactive, lifetime } = &mut own.discards;
    [Some(inactive), None, Some(lifetime), None]
}

/// The counters of PortRcvErrorDetails in their order; None for those of what never happens here.
fn error_details(own: &mut Counters) -> [Option<&mut u64>; 6] {
    let Wrongs {
        physical,
        malformed,
        no_port,
        looping,
    } = &mut own.wrongs;
    [
        Some(physical),
        Some(malformed),
        None,
        Some(no_port),
        None,
        Some(looping),
    ]
}

fn detail(own: Option<&mut u64>) -> u16 {
    own.map_or(0, |own| at_most(*own, u16::MAX))
}

fn put_detail<const N: usize>(places: [Option<&mut u64>; N], number: usize, values: &[u16; N]) {
    let Some(value) = values.get(number) else {
        return;
    };
    if let Some(place) = places.into_iter().nth(number).flatten() {
        *place = u64::from(*value);
    }
}

fn set_wide(own: &mut Counters, wanted: &PortCountersExtended) {
    let places: [Option<&mut u64>; 8] = [
        Some(&mut own.xmit_bytes),
        Some(&mut own.rcv_bytes),
        Some(&mut own.xmit_packets),
        Some(&mut own.rcv_packets),
        // what is left when the others are taken away
        None,
        None,
        Some(&mut own.multicast_xmit),
        Some(&mut own.multicast_rcv),
    ];
    for (number, place) in places.into_iter().enumerate() {
        let unit = if number < 2 { 4 } else { 1 };
        if wanted.counter_select >> number & 1 != 0
            && let Some(place) = place
        {
            *place = wanted.counters[number].saturating_mul(unit);
        }
    }
    for (number, place) in additional(own).into_iter().enumerate() {
        if wanted.counter_select2 >> number & 1 != 0
            && let Some(place) = place
        {
            *place = wanted.additional[number];
        }
    }
}
