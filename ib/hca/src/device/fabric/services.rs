//! Services that have said of themselves at subnet administration (ServiceRecords).
//!
//! Owns the question. Must not know who asks.

use std::time::Duration;

use ferriband_wire::attributes::{ServiceRecord, ServiceRecordMask};
use ferriband_wire::mad::{MadStatus, Method};
use ferriband_wire::sa::{SA_DATA_LEN, SaMad, attribute, status};
use ferriband_wire::{Gid, Guid, Header, PKey, ServiceId};

use crate::device::fabric::way::{ask, managed_port};

/// How long the answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes before the data of an answer.
const HEAD: usize = ferriband_wire::mad::MAD_LEN - SA_DATA_LEN;

/// What a service is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceQuestion {
    /// Its number.
    Id(u64),
    /// Its name, with zeros behind it.
    Name([u8; 64]),
}

/// Where a service is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceAt {
    /// Its number.
    pub id: u64,
    /// Its port.
    pub gid: Gid,
    /// Its partition.
    pub pkey: u16,
}

/// Asks for all services that are known by this. The error is an errno: ENOENT if there are none, ENETDOWN while the own port has no link or no manager (on this machine itself there
/// is none), ETIMEDOUT.
///
/// The GID of the own port comes first.
pub fn find_services(question: &ServiceQuestion) -> Result<(Gid, Vec<ServiceAt>), i32> {
    let own = managed_port()?;
    let mut record = ServiceRecord {
        service_id: ServiceId(0),
        gid: Gid::default(),
        pkey: PKey(0),
        lease_s: 0,
        key: [0; 16],
        name: [0; 64],
        data: [0; 64],
    };
    let mask = match *question {
        ServiceQuestion::Id(id) => {
            record.service_id = ServiceId(id);
            ServiceRecordMask::SERVICE_ID
        }
        ServiceQuestion::Name(name) => {
            record.name = name;
            ServiceRecordMask::NAME
        }
    };
    let mut question = SaMad {
        component_mask: mask.bits(),
        ..SaMad::new(Method::GET_TABLE, attribute::SERVICE)
    };
    question.set_data(&record).map_err(|_| libc::EINVAL)?;
    let found = take(&ask(&own, &question, PATIENCE, true)?)?;
    Ok((Gid::from_prefix_guid(own.prefix, Guid(own.guid)), found))
}

/// The records of an answer.
fn take(answer: &[u8]) -> Result<Vec<ServiceAt>, i32> {
    let (head, _) = SaMad::parse(&padded(answer)).map_err(|_| libc::EPROTO)?;
    match head.status {
        MadStatus::OK => {}
        status::NO_RECORDS => return Err(libc::ENOENT),
        _ => return Err(libc::EIO),
    }
    let step = usize::from(head.attribute_offset) * 8;
    let data = answer.get(HEAD..).ok_or(libc::EPROTO)?;
    let found: Vec<ServiceAt> = match step {
        0 => Vec::new(),
        _ => data
            .chunks_exact(step)
            .filter_map(|record| ServiceRecord::parse(record).ok())
            .map(|(record, _)| ServiceAt {
                id: record.service_id.0,
                gid: record.gid,
                pkey: record.pkey.0,
            })
            // the rest of a packet may be zeros
            .filter(|at| at.gid != Gid::default())
            .collect(),
    };
    if found.is_empty() {
        return Err(libc::ENOENT);
    }
    Ok(found)
}

/// The first packet's worth: an answer without records is shorter.
fn padded(answer: &[u8]) -> Vec<u8> {
    let mut first = answer.to_vec();
    first.resize(ferriband_wire::mad::MAD_LEN, 0);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart_by_its_own_step() {
        let record = |id: u64| ServiceRecord {
            service_id: ServiceId(id),
            gid: Gid([7; 16]),
            pkey: PKey(0xffff),
            lease_s: 1,
            key: [0; 16],
            name: [0; 64],
            data: [0; 64],
        };
        let mut head = SaMad::new(Method::GET_TABLE_RESP, attribute::SERVICE);
        head.set_data(&record(1)).expect("it fits");
        let mut bytes = vec![0; ferriband_wire::mad::MAD_LEN];
        head.emit(&mut bytes).expect("it fits");
        bytes.truncate(HEAD);
        assert_eq!(take(&bytes), Err(libc::ENOENT));
        for id in 1..4 {
            let mut one = [0; ServiceRecord::LEN];
            record(id).emit(&mut one).expect("it fits");
            bytes.extend(one);
        }
        let ids = take(&bytes).map(|all| all.iter().map(|at| at.id).collect::<Vec<_>>());
        assert_eq!(ids, Ok(vec![1, 2, 3]));
        assert_eq!(take(&bytes[..20]), Err(libc::EPROTO));
    }
}
