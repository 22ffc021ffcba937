//! Subscriptions: who wants to hear of what happens in the subnet (InformInfo), and the reports that go to them (IBA 13.4.8.3, 13.4.11, 15.2.5.12).
//!
//! Owns who has subscribed and which reports are to be sent. What a report's answer is, or that there is none, is the carrier's business.

use super::{Answered, Asker, Refused, is_trusted};
use ferriband_wire::attributes::{InformInfo, Notice, producer, trap};
use ferriband_wire::mad::{AttributeId, MAD_LEN, Method};
use ferriband_wire::sa::{SaMad, status};
use ferriband_wire::{Gid, Header, Lid, Qpn};
use std::collections::VecDeque;

/// Subscriptions that are kept.
const MOST_SUBSCRIPTIONS: usize = 16_384;
/// Reports that wait to be sent: of more the oldest are lost.
const MOST_REPORTS: usize = 65_536;
/// Bytes of an InformInfoRecord: the subscriber's GID, its number, six bytes, the InformInfo, four bytes.
const RECORD_BYTES: usize = 64;
/// Components of an InformInfoRecord: bit, where it begins, bytes.
const COMPONENTS: [(u32, usize, usize); 12] = [
    (0, 0, 16),
    (1, 16, 2),
    (3, 24, 16),
    (4, 40, 2),
    (5, 42, 2),
    (7, 46, 1),
    (8, 47, 1),
    (9, 48, 2),
    (10, 50, 2),
    (11, 52, 3),
    (13, 55, 1),
    (15, 57, 3),
];
/// Where the queue pair's number is in it.
const QPN: std::ops::Range<usize> = 52..55;
/// All LIDs, as the beginning of a range.
const ALL_LIDS: Lid = Lid(0xffff);
/// Whatever kind.
const ANY_KIND: u16 = 0xffff;

#[derive(Clone, PartialEq, Debug)]
struct Subscription {
    lid: Lid,
    qpn: Qpn,
    gid: Gid,
    /// Among those of its port.
    number: u16,
    wants: InformInfo,
}

/// A report on its way: whom it goes to, and a whole MAD.
pub type Report = (Asker, [u8; MAD_LEN]);

/// Who has subscribed.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Subscriptions {
    all: Vec<Subscription>,
    reports: VecDeque<Report>,
}

impl Subscription {
    fn wants(&self, notice: &Notice) -> bool {
        let wants = &self.wants;
        let last = match wants.lid_end {
            Lid(0) => wants.lid_begin,
            last => last,
        };
        let about = match notice.trap {
            trap::IN_SERVICE..=trap::GROUP_GONE => notice.gid(),
            _ => notice.issuer_gid,
        };
        let from = if wants.gid != Gid([0; 16]) {
            wants.gid == about
        } else {
            wants.lid_begin == ALL_LIDS
                || (wants.lid_begin.0..=last.0).contains(&notice.issuer_lid.0)
        };
        from && (wants.generic != 0) == notice.generic
            && [trap::ANY, notice.trap].contains(&wants.trap)
            && (wants.kind == ANY_KIND || wants.kind == u16::from(notice.kind.0))
            && [producer::ANY, notice.producer].contains(&wants.producer)
    }

    fn record(&self) -> Result<[u8; RECORD_BYTES], Refused> {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..16].copy_from_slice(&self.gid.0);
        bytes[16..18].copy_from_slice(&self.number.to_be_bytes());
        let told = self.wants.emit(&mut bytes[24..]);
        told.map_err(|_| status::NO_RESOURCES)?;
        let [_, qpn @ ..] = self.qpn.0.to_be_bytes();
        bytes[QPN].copy_from_slice(&qpn);
        Ok(bytes)
    }
}

impl Subscriptions {
    /// Somebody wants to hear of something, or no more. `gid` is that of his port.
    pub fn set(&mut self, from: Asker, gid: Gid, asked: &SaMad) -> Result<Answered, Refused> {
        let wants: InformInfo = asked.data_as().map_err(|_| status::REQUEST_INVALID)?;
        if wants.generic > 1 || wants.subscribe > 1 {
            return Err(status::REQUEST_INVALID);
        }
        // its queue pair is that of the packet; in what ends it the record says it again (IBA o13-2.1.1)
        let plain = |wants: &InformInfo| InformInfo {
            subscribe: 1,
            qpn: Qpn(0),
            ..*wants
        };
        let known = self.all.iter().position(|own| {
            (own.lid, own.qpn) == (from.lid, from.qpn) && own.wants == plain(&wants)
        });
        match (wants.subscribe, known) {
            // said twice is said once
            (1, Some(_)) => {}
            (1, None) if self.all.len() >= MOST_SUBSCRIPTIONS => {
                return Err(status::NO_RESOURCES);
            }
            (1, None) => {
                let own = |number: &u16| {
                    let mut all = self.all.iter();
                    all.all(|own| own.gid != gid || own.number != *number)
                };
                let number = (0..=u16::MAX).find(own).ok_or(status::NO_RESOURCES)?;
                self.all.push(Subscription {
                    lid: from.lid,
                    qpn: from.qpn,
                    gid,
                    number,
                    wants: plain(&wants),
                });
            }
            (_, Some(known)) => {
                self.all.remove(known);
            }
            (_, None) => return Err(status::REQUEST_INVALID),
        }
        let mut found = Answered::of(InformInfo::LEN);
        super::records::push(&mut found, &wants, &[])?;
        Ok(found)
    }

    /// The records that a question means.
    pub fn find(&self, asked: &SaMad) -> Result<Answered, Refused> {
        let known = COMPONENTS
            .iter()
            .fold(0_u64, |mask, (bit, ..)| mask | 1 << bit);
        if asked.component_mask & !known != 0 {
            return Err(status::REQUEST_INVALID);
        }
        let mut found = Answered::of(RECORD_BYTES);
        for own in &self.all {
            let mut record = own.record()?;
            let mut given = COMPONENTS.iter();
            let meant = given.all(|(bit, at, length)| {
                let range = *at..at + length;
                asked.component_mask >> bit & 1 == 0 || record[range.clone()] == asked.data[range]
            });
            if !is_trusted(asked) {
                // IBA C15-0.2-1.16
                record[QPN].fill(0);
            }
            if meant {
                found.push(&record)?;
            }
        }
        Ok(found)
    }

    /// Something has happened: those who want to hear of it will.
    pub fn tell(&mut self, notice: &Notice) {
        for own in self.all.iter().filter(|own| own.wants(notice)) {
            let mut report = SaMad::new(Method::REPORT, AttributeId::NOTICE);
            let mut mad = [0; MAD_LEN];
            if report.set_data(notice).is_err() {
                return;
            }
            // it is no record of a table
            report.attribute_offset = 0;
            if report.emit(&mut mad).is_err() {
                return;
            }
            if self.reports.len() >= MOST_REPORTS {
                self.reports.pop_front();
            }
            let to = Asker {
                lid: own.lid,
                qpn: own.qpn,
            };
            self.reports.push_back((to, mad));
        }
    }

    /// Ports that are gone want nothing more.
    pub fn retain(&mut self, is_there: impl Fn(Gid) -> bool) {
        self.all.retain(|own| is_there(own.gid));
    }

    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }
}
