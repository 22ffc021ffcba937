//! ServiceRecords: what services have said of themselves (IBA 15.2.5.14). They outlive sweeps, and end with their leases.
//!
//! Owns the records by what identifies them: service, port and partition. A record's key is shown only to who is trusted.

use super::records::push;
use super::{Answered, Refused, is_trusted};
use crate::manager::Instant;
use ferriband_wire::attributes::{ServiceRecord, ServiceRecordMask as Mask};
use ferriband_wire::mad::DEFAULT_PKEY;
use ferriband_wire::sa::{SaMad, status};
use ferriband_wire::{Gid, Header};
use std::collections::BTreeMap;

/// Records that are kept.
const MOST_SERVICES: usize = 65_536;
/// A lease that does not end.
const FOR_EVER: u32 = u32::MAX;
/// The service's own data: where its components begin in the record, bytes of each, bit of the first, how many.
const DATA: [(usize, usize, u32, u32); 4] = [
    (112, 1, 7, 16),
    (128, 2, 23, 8),
    (144, 4, 31, 4),
    (160, 8, 35, 2),
];
/// Components that are compared as they are: bit, where they begin, bytes.
const PLAIN: [(u32, usize, usize); 6] = [
    (0, 0, 8),
    (1, 8, 16),
    (2, 24, 2),
    (4, 28, 4),
    (5, 32, 16),
    (6, 48, 64),
];

/// Service, port, partition.
type Key = (u64, [u8; 16], u16);

#[derive(Clone, PartialEq, Debug)]
struct Service {
    record: ServiceRecord,
    /// None: for ever.
    ends: Option<Instant>,
}

/// The records.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Services {
    all: BTreeMap<Key, Service>,
}

fn key(record: &ServiceRecord) -> Key {
    (record.service_id.0, record.gid.0, record.pkey.0)
}

fn one(record: &ServiceRecord, trusted: bool) -> Result<Answered, Refused> {
    let mut found = Answered::of(ServiceRecord::LEN);
    let shown = match trusted {
        true => *record,
        false => ServiceRecord {
            key: [0; 16],
            ..*record
        },
    };
    push(&mut found, &shown, &[])?;
    Ok(found)
}

impl Services {
    /// Those whose lease is over go.
    pub fn expire(&mut self, now: Instant) {
        self.all
            .retain(|_, service| service.ends.is_none_or(|ends| ends > now));
    }

    /// A service says what it is; what it has said before under the same name of service, port and partition is no more.
    pub fn register(
        &mut self,
        now: Instant,
        asked: &SaMad,
        is_there: impl Fn(Gid) -> bool,
    ) -> Result<Answered, Refused> {
        let (mask, mut record) = question(asked)?;
        if !mask.contains(Mask::SERVICE_ID | Mask::GID) {
            return Err(status::INSUFFICIENT_COMPONENTS);
        }
        if !record.gid.is_multicast() && !is_there(record.gid) {
            return Err(status::INVALID_GID);
        }
        if !mask.contains(Mask::LEASE) {
            record.lease_s = FOR_EVER;
        }
        if !mask.contains(Mask::PKEY) || record.pkey.0 == 0 {
            record.pkey = DEFAULT_PKEY;
        }
        if record.pkey.0 & 0x7fff != DEFAULT_PKEY.0 & 0x7fff {
            return Err(status::REQUEST_INVALID);
        }
        self.expire(now);
        if self.all.len() >= MOST_SERVICES && !self.all.contains_key(&key(&record)) {
            return Err(status::NO_RESOURCES);
        }
        let lease_ns = u64::from(record.lease_s) * 1_000_000_000;
        let ends = match record.lease_s {
            FOR_EVER => None,
            _ => Some(Instant(now.0.saturating_add(lease_ns))),
        };
        self.all.insert(key(&record), Service { record, ends });
        one(&record, is_trusted(asked))
    }

    /// A service is no more.
    pub fn withdraw(&mut self, now: Instant, asked: &SaMad) -> Result<Answered, Refused> {
        let (_, mut record) = question(asked)?;
        if record.pkey.0 == 0 {
            record.pkey = DEFAULT_PKEY;
        }
        self.expire(now);
        let gone = self.all.remove(&key(&record));
        let gone = gone.ok_or(status::NO_RECORDS)?;
        one(&gone.record, is_trusted(asked))
    }

    /// The records that a question means.
    pub fn find(&self, now: Instant, asked: &SaMad) -> Result<Answered, Refused> {
        let (_, question) = question(asked)?;
        let mut given = Vec::new();
        let mask = asked.component_mask;
        let plain = PLAIN.iter().copied();
        let data = DATA.iter().flat_map(|(at, each, first, count)| {
            let places = 0..*count;
            places.map(move |place| (first + place, at + place as usize * each, *each))
        });
        let wanted = plain.chain(data).filter(|(bit, ..)| mask >> bit & 1 != 0);
        given.extend(wanted.map(|(_, at, length)| at..at + length));
        let mut pattern = [0; ServiceRecord::LEN];
        question
            .emit(&mut pattern)
            .map_err(|_| status::REQUEST_INVALID)?;
        let trusted = is_trusted(asked);
        let mut found = Answered::of(ServiceRecord::LEN);
        for service in self.all.values() {
            if service.ends.is_some_and(|ends| ends <= now) {
                continue;
            }
            let mut own = [0; ServiceRecord::LEN];
            service
                .record
                .emit(&mut own)
                .map_err(|_| status::NO_RESOURCES)?;
            if given
                .iter()
                .all(|range| own[range.clone()] == pattern[range.clone()])
            {
                found.bytes.extend(one(&service.record, trusted)?.bytes);
            }
        }
        Ok(found)
    }
}

fn question(asked: &SaMad) -> Result<(Mask, ServiceRecord), Refused> {
    let mask = Mask::from_bits(asked.component_mask).ok_or(status::REQUEST_INVALID)?;
    let record = asked.data_as().map_err(|_| status::REQUEST_INVALID)?;
    Ok((mask, record))
}
