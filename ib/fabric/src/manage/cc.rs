//! The congestion control agent of a node (class 0x21; IBA annex A10.4): what managers tell it, and the log of what happened.
//!
//! Owns the settings, the key that protects them, and the log. What marks and slows down are the machines of [`crate::congestion`]; who asks them when is the links' business.

use super::node::Node;
use crate::Time;
use crate::congestion::{CctEntry, Marking, Scope, Throttle};
use ferriband_topology::NodeKind;
use ferriband_wire::attributes::{
    CA_CONGESTION_SETTING, CA_EVENTS, CC_DATA_OFFSET, CC_KEY_OFFSET, CC_LOG_OFFSET, CCT_BLOCK,
    CONGESTION_CONTROL_TABLE, CONGESTION_INFO, CONGESTION_KEY_INFO, CONGESTION_LOG,
    CaCongestionSetting, CaEvent, CaLog, CctBlock, ClassPortInfo, CongestionInfo,
    CongestionKeyInfo, PORTS_PER_BLOCK, PortCongestion, SWITCH_CONGESTION_SETTING, SWITCH_EVENTS,
    SWITCH_PORT_CONGESTION_SETTING, SwitchCongestionSetting, SwitchEvent, SwitchLog, TIMESTAMP,
};
use ferriband_wire::mad::{AttributeId, MAD_LEN, MadHeader, MadStatus, ManagementClass, Method};
use ferriband_wire::{Header, Lid, Qpn, Sl, TimeCode};
use std::collections::VecDeque;
use std::sync::Arc;
use zerocopy::byteorder::big_endian::{U16, U32};

/// Blocks of 64 entries of the congestion control table.
const TABLE_BLOCKS: u8 = 8;
/// Version of the class.
const CLASS_VERSION: u8 = 2;
/// Thresholds: 4 bits, of which 15 is the least congestion.
const THRESHOLDS: u32 = 16;
/// A unit of the class's times.
const UNIT_NS: u64 = 1_024;
const BLOCK_BYTES: u16 = 64;

/// Bits of a switch's control map.
mod map {
    pub const VICTIM_MASK: u32 = 1;
    pub const THRESHOLD: u32 = 1 << 2;
    pub const MARKING_RATE: u32 = 1 << 4;
}

/// What a port of an adapter was told.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Adapter {
    setting: CaCongestionSetting,
    /// All blocks, one behind the other.
    table: Vec<U16>,
    limit: u16,
    /// By service level, made of the others.
    throttles: [Option<Arc<Throttle>>; 16],
}

/// What happened last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Log {
    count: u16,
    ports: [u8; 32],
    levels: u16,
    switch: VecDeque<SwitchEvent>,
    adapter: VecDeque<CaEvent>,
}

/// A node's part in congestion control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Congestion {
    key: CongestionKeyInfo,
    lease_ends: Option<Time>,
    switch: SwitchCongestionSetting,
    ports: Vec<PortCongestion>,
    adapters: Vec<Adapter>,
    log: Log,
}

fn units(now: Time) -> U32 {
    // it wraps after 73 minutes
    U32::new((now.0 / 1_000 / UNIT_NS) as u32)
}

impl Congestion {
    /// Nobody has told it anything: nothing is marked, and nothing slows down.
    pub(super) fn new(kind: NodeKind, ports: usize) -> Congestion {
        let adapter = Adapter {
            setting: CaCongestionSetting::default(),
            table: vec![U16::ZERO; usize::from(TABLE_BLOCKS) * CCT_BLOCK],
            limit: 0,
            throttles: Default::default(),
        };
        let is_switch = kind == NodeKind::Switch;
        Congestion {
            key: CongestionKeyInfo::default(),
            lease_ends: None,
            switch: SwitchCongestionSetting::default(),
            ports: vec![PortCongestion::default(); if is_switch { ports } else { 0 }],
            adapters: vec![adapter; if is_switch { 0 } else { ports }],
            log: Log::default(),
        }
    }

    /// When a switch's port marks, if its buffers have `capacity` blocks for a lane; and whether it does so although it lacks credits (Victim_Mask).
    pub fn marking(&self, port: u8, capacity: u16) -> Option<(Marking, bool)> {
        let own = &self.switch;
        let map = own.control_map.get();
        let special = self.ports.get(usize::from(port));
        // a port's own settings go before the switch's; those of the other kind are about credits
        let special = special.filter(|own| own.threshold >> 6 == 0b10);
        let (threshold, blocks, rate) = match special {
            Some(own) => (own.threshold & 0xf, own.packet_blocks, own.parameter.get()),
            None if map & map::THRESHOLD == 0 => return None,
            None => {
                let rated = map & map::MARKING_RATE != 0;
                let rate = if rated { own.marking_rate.get() } else { 0 };
                (own.threshold >> 4, own.packet_blocks, rate)
            }
        };
        let steps = THRESHOLDS - u32::from(threshold);
        let victim =
            map & map::VICTIM_MASK != 0 && SwitchCongestionSetting::has(&own.victim_mask, port);
        (threshold > 0).then_some((
            Marking {
                threshold_blocks: u32::from(capacity) * steps / THRESHOLDS,
                marking_rate: rate,
                smallest_bytes: u16::from(blocks) * BLOCK_BYTES,
            },
            victim,
        ))
    }

    /// How the flows of a service level that leave by an adapter's port react.
    pub fn throttle(&self, port: u8, sl: Sl) -> Option<&Arc<Throttle>> {
        let adapter = self.adapters.get(usize::from(port))?;
        adapter.throttles[usize::from(sl.0 & 15)].as_ref()
    }

    /// A switch's port has marked a packet.
    pub fn marked(&mut self, now: Time, port: u8, slid: Lid, dlid: Lid, sl: Sl) {
        let log = &mut self.log;
        log.count = log.count.saturating_add(1);
        SwitchCongestionSetting::add(&mut log.ports, port);
        if log.switch.len() >= SWITCH_EVENTS {
            log.switch.pop_back();
        }
        log.switch.push_front(SwitchEvent {
            slid: U16::new(slid.0),
            dlid: U16::new(dlid.0),
            sl: U32::new(u32::from(sl.0) << 28),
            time: units(now),
        });
    }

    /// The index of an adapter's flow has risen to this, by a packet for one of its queue pairs: what comes to the trigger is noted.
    pub fn slowed(&mut self, now: Time, port: u8, index: u16, own: Qpn, lid: Lid, sl: Sl) {
        let Some(adapter) = self.adapters.get(usize::from(port)) else {
            return;
        };
        let trigger = adapter.setting.entries[usize::from(sl.0 & 15)].trigger;
        if trigger == 0 || index < u16::from(trigger) {
            return;
        }
        let log = &mut self.log;
        log.count = log.count.saturating_add(1);
        log.levels |= 1 << (sl.0 & 15);
        if log.adapter.len() >= CA_EVENTS {
            log.adapter.pop_back();
        }
        log.adapter.push_front(CaEvent {
            local_qp: U32::new(own.0 << 8),
            // which queue pair of the other end it talks to stands in no packet that comes from there
            remote_qp: U32::new(u32::from(sl.0 & 15) << 4),
            lid: U16::new(lid.0),
            reserved: U16::ZERO,
            time: units(now),
        });
    }

    /// Whether a request shows the key; a wrong one is counted and begins the lease (IBA A10.4.1.1, as for M_Keys).
    fn admits(&mut self, now: Time, set: bool, shown: u64) -> bool {
        if self.lease_ends.is_some_and(|ends| ends <= now) {
            self.lease_ends = None;
            self.key.protect = U16::ZERO;
        }
        let own = self.key.key.get();
        if own == 0 || own == shown {
            self.lease_ends = None;
            return true;
        }
        if !set {
            return true;
        }
        self.key.violations = U16::new(self.key.violations.get().saturating_add(1));
        if self.key.lease_s.get() > 0 && self.lease_ends.is_none() {
            let lease = u64::from(self.key.lease_s.get()) * 1_000_000_000;
            self.lease_ends = Some(now + Time::from_ns(lease));
        }
        false
    }
}

impl Adapter {
    /// The flows' rules, made anew of what was told.
    fn make(&mut self) {
        let entry = |own: &U16| CctEntry {
            shift: (own.get() >> 14) as u8,
            multiplier: own.get() & 0x3fff,
        };
        let used = &self.table[..=usize::from(self.limit).min(self.table.len() - 1)];
        let table: Vec<CctEntry> = used.iter().map(entry).collect();
        let scope = match self.setting.port_control.get() & 1 {
            0 => Scope::QueuePair,
            _ => Scope::ServiceLevel,
        };
        for (sl, (throttle, own)) in self
            .throttles
            .iter_mut()
            .zip(&self.setting.entries)
            .enumerate()
        {
            let reacts = self.setting.control_map.get() >> sl & 1 != 0 && self.limit > 0;
            *throttle = reacts.then(|| {
                Arc::new(Throttle {
                    table: table.clone(),
                    increase: own.increase.into(),
                    timer: Time::from_ns(u64::from(own.timer.get().max(1)) * UNIT_NS),
                    minimum: own.minimum.into(),
                    scope,
                })
            });
        }
    }
}

fn put<A: Header>(bytes: &mut [u8], value: &A) -> Result<(), MadStatus> {
    bytes.fill(0);
    let done = value.emit(bytes).map(|_| ());
    done.map_err(|_| MadStatus::INVALID_FIELD)
}

fn read<A: Header>(bytes: &[u8]) -> Result<A, MadStatus> {
    let read = A::parse(bytes).map(|(value, _)| value);
    read.map_err(|_| MadStatus::INVALID_FIELD)
}

impl Node {
    /// What the agent answers to a MAD of class CongCtrl that came by `port`. None if it says nothing: to answers, and to Sets without the key.
    pub fn answer_congestion(
        &mut self,
        now: Time,
        port: u8,
        mad: &[u8; MAD_LEN],
    ) -> Option<[u8; MAD_LEN]> {
        let (header, _) = MadHeader::parse(mad).ok()?;
        let set = match header.method {
            Method::GET => false,
            Method::SET => true,
            _ => return None,
        };
        if header.class != ManagementClass::CONG_CTRL {
            return None;
        }
        let shown = mad[CC_KEY_OFFSET..CC_LOG_OFFSET].try_into().ok()?;
        let shown = u64::from_be_bytes(shown);
        if !self.congestion.admits(now, set, shown) {
            return None;
        }
        let mut answer = *mad;
        let done = match header.check_version() {
            Err(_) => Err(MadStatus::BAD_VERSION),
            Ok(()) if header.attribute == CONGESTION_LOG => match set {
                true => Err(MadStatus::UNSUPPORTED_METHOD),
                false => self.tell_log(now, &mut answer[CC_LOG_OFFSET..]),
            },
            Ok(()) => {
                let data = &mut answer[CC_DATA_OFFSET..];
                let told = match set {
                    true => self.set_congestion(port, &header, data),
                    false => Ok(()),
                };
                // a Set is answered with what is there now
                told.and_then(|()| self.get_congestion(now, port, &header, shown, data))
            }
        };
        let header = MadHeader {
            method: Method::GET_RESP,
            status: done.err().unwrap_or(MadStatus::OK),
            ..header
        };
        answer[CC_KEY_OFFSET..CC_LOG_OFFSET].fill(0);
        header.emit(&mut answer).ok()?;
        Some(answer)
    }

    fn get_congestion(
        &self,
        now: Time,
        port: u8,
        header: &MadHeader,
        shown: u64,
        data: &mut [u8],
    ) -> Result<(), MadStatus> {
        let own = &self.congestion;
        let block = header.attribute_modifier as usize;
        let adapter = own.adapters.get(usize::from(port));
        let adapter = adapter.ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE);
        let switch = self.switch.as_ref().ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE);
        match header.attribute {
            AttributeId::CLASS_PORT_INFO => put(
                data,
                &ClassPortInfo {
                    base_version: 1,
                    class_version: CLASS_VERSION,
                    response_time: TimeCode(18),
                    ..ClassPortInfo::default()
                },
            ),
            CONGESTION_INFO => put(
                data,
                &CongestionInfo {
                    info: U16::ZERO,
                    table_blocks: if switch.is_ok() { 0 } else { TABLE_BLOCKS },
                },
            ),
            CONGESTION_KEY_INFO => {
                let hidden = own.key.protect.get() >> 15 != 0 && own.key.key.get() != shown;
                let mut key = own.key;
                if hidden {
                    key.key = 0.into();
                }
                put(data, &key)
            }
            SWITCH_CONGESTION_SETTING => switch.and_then(|_| put(data, &own.switch)),
            SWITCH_PORT_CONGESTION_SETTING => {
                switch?;
                let first = block * PORTS_PER_BLOCK;
                let some = own.ports.get(first..).filter(|some| !some.is_empty());
                let some = some.ok_or(MadStatus::INVALID_FIELD)?;
                data.fill(0);
                let mut rest = data;
                for port in some.iter().take(PORTS_PER_BLOCK) {
                    rest = port.emit(rest).map_err(|_| MadStatus::INVALID_FIELD)?;
                }
                Ok(())
            }
            CA_CONGESTION_SETTING => put(data, &adapter?.setting),
            CONGESTION_CONTROL_TABLE => {
                let adapter = adapter?;
                let at = block * CCT_BLOCK;
                let entries = adapter.table.get(at..at + CCT_BLOCK);
                let entries = entries.ok_or(MadStatus::INVALID_FIELD)?;
                put(
                    data,
                    &CctBlock {
                        limit: U16::new(adapter.limit),
                        reserved: U16::ZERO,
                        entries: std::array::from_fn(|i| entries[i]),
                    },
                )
            }
            TIMESTAMP => {
                data.fill(0);
                data[..4].copy_from_slice(&units(now).get().to_be_bytes());
                Ok(())
            }
            _ => Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        }
    }

    fn set_congestion(
        &mut self,
        port: u8,
        header: &MadHeader,
        data: &[u8],
    ) -> Result<(), MadStatus> {
        let own = &mut self.congestion;
        let block = header.attribute_modifier as usize;
        let adapter = own.adapters.get_mut(usize::from(port));
        let adapter = adapter.ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE);
        let switch = self.switch.as_ref().ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE);
        match header.attribute {
            CONGESTION_KEY_INFO => own.key = read(data)?,
            SWITCH_CONGESTION_SETTING => {
                switch?;
                own.switch = read(data)?;
            }
            SWITCH_PORT_CONGESTION_SETTING => {
                switch?;
                let first = block * PORTS_PER_BLOCK;
                let some = own.ports.get_mut(first..).filter(|some| !some.is_empty());
                let some = some.ok_or(MadStatus::INVALID_FIELD)?;
                let mut rest = data;
                for port in some.iter_mut().take(PORTS_PER_BLOCK) {
                    let (value, more) =
                        PortCongestion::parse(rest).map_err(|_| MadStatus::INVALID_FIELD)?;
                    (*port, rest) = (value, more);
                }
            }
            CA_CONGESTION_SETTING => {
                let adapter = adapter?;
                adapter.setting = read(data)?;
                adapter.make();
            }
            CONGESTION_CONTROL_TABLE => {
                let adapter = adapter?;
                let wanted: CctBlock = read(data)?;
                let at = block * CCT_BLOCK;
                if usize::from(wanted.limit.get()) >= adapter.table.len() {
                    return Err(MadStatus::INVALID_FIELD);
                }
                let entries = adapter.table.get_mut(at..at + CCT_BLOCK);
                let entries = entries.ok_or(MadStatus::INVALID_FIELD)?;
                entries.copy_from_slice(&wanted.entries);
                adapter.limit = wanted.limit.get();
                adapter.make();
            }
            AttributeId::CLASS_PORT_INFO | CONGESTION_INFO | TIMESTAMP => {
                return Err(MadStatus::UNSUPPORTED_METHOD);
            }
            _ => return Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        }
        Ok(())
    }

    /// The log, which begins again once it was read.
    fn tell_log(&mut self, now: Time, data: &mut [u8]) -> Result<(), MadStatus> {
        let log = std::mem::take(&mut self.congestion.log);
        let flags = u8::from(log.count > 0);
        let (count, time) = (U16::new(log.count), units(now));
        match self.kind {
            NodeKind::Switch => {
                let mut told = SwitchLog {
                    kind: 1,
                    flags,
                    count,
                    time,
                    ports: log.ports,
                    ..SwitchLog::default()
                };
                for (place, event) in told.events.iter_mut().zip(&log.switch) {
                    *place = *event;
                }
                put(data, &told)
            }
            _ => {
                let mut told = CaLog {
                    kind: 2,
                    flags,
                    count,
                    levels: U16::new(log.levels),
                    time,
                    ..CaLog::default()
                };
                for (place, event) in told.events.iter_mut().zip(&log.adapter) {
                    *place = *event;
                }
                put(data, &told)
            }
        }
    }
}
