//! MultiPathRecord (IBA 15.2.5.20): paths from each of some ports to each of others, told as PathRecords.
//!
//! Each pair is a question about a path. There is one partition and one way between two LIDs, so paths that are to be independent of each other cannot be promised: a question that
//! wants that gets what there is.

use super::records::gids;
use super::{Answered, Refused, paths};
use crate::manager::Subnet;
use ferriband_wire::attributes::{PathRecord, PathRecordMask as Mask};
use ferriband_wire::sa::{SA_DATA_LEN, SaMad, attribute, status};
use ferriband_wire::{Gid, Header};

/// Bytes before the GIDs.
const HEAD_BYTES: usize = 24;
/// Bits of the question's mask and of a path's: what both say alike.
const ALIKE: [(u32, Mask); 15] = [
    (0, Mask::RAW_TRAFFIC),
    (2, Mask::FLOW_LABEL),
    (3, Mask::HOP_LIMIT),
    (4, Mask::TRAFFIC_CLASS),
    (5, Mask::REVERSIBLE),
    (7, Mask::PKEY),
    (8, Mask::QOS_CLASS),
    (9, Mask::SL),
    (10, Mask::MTU_SELECTOR),
    (11, Mask::MTU),
    (12, Mask::RATE_SELECTOR),
    (13, Mask::RATE),
    (14, Mask::PACKET_LIFETIME_SELECTOR),
    (15, Mask::PACKET_LIFETIME),
    (16, Mask::SERVICE_ID),
];
/// How many paths are wanted.
const PATHS_WANTED: u64 = 1 << 6;
/// That they are to be independent; the lower half of the service's number.
const INDEPENDENT: u64 = 1 << 17;
const SERVICE_ID_LOW: u64 = 1 << 21;
/// Both counts of GIDs must be given.
const COUNTS: u64 = 1 << 19 | 1 << 20;

pub(super) fn find(subnet: &Subnet, asked: &SaMad) -> Result<Answered, Refused> {
    let given = asked.component_mask;
    let alike = ALIKE.iter().fold(0, |mask, (bit, _)| mask | 1_u64 << bit);
    let known = alike | PATHS_WANTED | INDEPENDENT | SERVICE_ID_LOW | COUNTS;
    if given & !known != 0 {
        return Err(status::REQUEST_INVALID);
    }
    if given & COUNTS != COUNTS {
        return Err(status::INSUFFICIENT_COMPONENTS);
    }
    let data = &asked.data;
    let (sources, ends) = (usize::from(data[15]), usize::from(data[16]));
    // as many as a packet has room for
    if sources == 0 || ends == 0 || HEAD_BYTES + 16 * (sources + ends) > SA_DATA_LEN {
        return Err(status::REQUEST_INVALID);
    }
    let gid = |number: usize| {
        let mut gid = [0; 16];
        gid.copy_from_slice(&data[HEAD_BYTES + 16 * number..][..16]);
        Gid(gid)
    };
    let there = gids(subnet);
    if (0..sources + ends).any(|number| !there.contains(&gid(number).0)) {
        return Err(status::INVALID_GID);
    }
    let mut mask = Mask::SGID | Mask::DGID;
    for (bit, own) in ALIKE {
        mask.set(own, given >> bit & 1 != 0);
    }
    let wanted = match given & PATHS_WANTED {
        0 => usize::MAX,
        _ => usize::from(data[5] & 0x7f).max(1),
    };
    // both records say flow, class, key and qualities alike, the path further behind
    let mut path = [0; PathRecord::LEN];
    path[..1].copy_from_slice(&data[11..12]);
    path[1..8].copy_from_slice(&data[17..24]);
    path[44..55].copy_from_slice(&data[..11]);
    let mut found = Answered::of(PathRecord::LEN);
    for source in 0..sources {
        for end in sources..sources + ends {
            path[8..24].copy_from_slice(&gid(end).0);
            path[24..40].copy_from_slice(&gid(source).0);
            let mut question = SaMad {
                attribute: attribute::PATH,
                component_mask: mask.bits(),
                ..*asked
            };
            question.data[..path.len()].copy_from_slice(&path);
            let some = paths::find(subnet, &question)?;
            for record in some.bytes.chunks_exact(some.each) {
                if found.count() < wanted {
                    found.push(record)?;
                }
            }
        }
    }
    Ok(found)
}
