//! Subnet administration: questions about the subnet, answered from what the last sweep found and programmed (IBA 15.2).
//!
//! Owns which records there are ([`records`]), paths between ports ([`paths`]), and what a question means. An answer is one message, however long: whoever carries it takes it apart.
//! Must not know how it travels. Questions are strangers': components that are not known here are an error, and the longest answer has a bound.
//!
//! Multicast groups ([`groups`]) are what those who join make of them; what follows for the switches' tables is asked for by [`Administration::take_trees`].
//!
//! Not offered, and answered so: services, subscriptions, MultiPathRecord, TraceRecord.

mod groups;
mod paths;
mod records;
#[cfg(test)]
mod tests;

use crate::manager::Subnet;
use crate::routing::multicast::Ports;
use ferriband_wire::attributes::{ClassPortInfo, SmInfo};
use ferriband_wire::mad::{MAD_LEN, MadHeader, MadStatus, ManagementClass, Method};
use ferriband_wire::sa::{SA_DATA_LEN, SaMad, attribute, status};
use ferriband_wire::{Header, Lid, Rmpp, RmppFlags, TimeCode};

use groups::Groups;

/// Bytes before the records of a message.
const HEAD_BYTES: usize = MAD_LEN - SA_DATA_LEN;
/// Bytes of the records of one answer.
const MOST_BYTES: usize = 24 << 20;
/// Of ClassPortInfo: the administration answers within 4.096 us * 2^18, a second.
const RESPONSE_TIME: TimeCode = TimeCode(18);

/// Why a question gets no records.
type Refused = MadStatus;

/// The administration of a subnet.
#[derive(Clone, Debug)]
pub struct Administration {
    subnet: Subnet,
    /// The manager's LID, and what it says of itself.
    manager: (Lid, SmInfo),
    groups: Groups,
}

/// Records of one kind, each as long as the first, padded to 8 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Answered {
    /// Bytes from one record to the next.
    each: usize,
    bytes: Vec<u8>,
}

impl Answered {
    /// None yet, of so many bytes each.
    fn of(bytes: usize) -> Answered {
        Answered {
            each: bytes.next_multiple_of(8),
            bytes: Vec::new(),
        }
    }

    /// One more.
    fn push(&mut self, record: &[u8]) -> Result<(), Refused> {
        if self.bytes.len() + self.each > MOST_BYTES {
            return Err(status::NO_RESOURCES);
        }
        let end = self.bytes.len() + self.each;
        self.bytes.extend_from_slice(record);
        self.bytes.resize(end, 0);
        Ok(())
    }

    fn count(&self) -> usize {
        self.bytes.len().checked_div(self.each).unwrap_or(0)
    }
}

impl Administration {
    /// Of a subnet that is up, with the manager's LID and what it says of itself.
    pub fn new(subnet: Subnet, lid: Lid, manager: SmInfo) -> Administration {
        Administration {
            subnet,
            manager: (lid, manager),
            groups: Groups::default(),
        }
    }

    /// Another sweep has found the subnet like this. Groups live on, without ports that are gone.
    pub fn renew(&mut self, subnet: Subnet, lid: Lid, manager: SmInfo) {
        (self.subnet, self.manager) = (subnet, (lid, manager));
        self.groups.renew(&self.subnet);
    }

    /// Of groups that have changed since this was last asked: LID, and the row of each switch, in the order of the graph's.
    pub fn take_trees(&mut self) -> Vec<(u16, Vec<Ports>)> {
        self.groups.take_changed(&self.subnet)
    }

    /// The subnet that it knows.
    pub fn subnet(&self) -> &Subnet {
        &self.subnet
    }

    /// Answers a question, a whole MAD. The answer is a MAD, or a long message with an RMPP header that says so. None for what is no question.
    pub fn answer(&mut self, question: &[u8; MAD_LEN]) -> Option<Vec<u8>> {
        let (header, _) = MadHeader::parse(question).ok()?;
        let response = header.method.response()?;
        if header.class != ManagementClass::SUBN_ADM {
            return None;
        }
        let Ok(asked) = SaMad::parse_mad(question) else {
            // another version of the class
            let mut answer = question.to_vec();
            let header = MadHeader {
                method: response,
                status: MadStatus::BAD_VERSION,
                ..header
            };
            header.emit(&mut answer).ok()?;
            return Some(answer);
        };
        let found = match asked.method {
            Method::GET | Method::GET_TABLE => self.find(&asked),
            Method::SET if asked.attribute == attribute::MC_MEMBER => {
                self.groups.join(&self.subnet, &asked)
            }
            Method::DELETE if asked.attribute == attribute::MC_MEMBER => self.groups.leave(&asked),
            _ => Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        };
        let found = match (asked.method, found) {
            (Method::GET, Ok(found)) if found.count() == 0 => Err(status::NO_RECORDS),
            (Method::GET, Ok(found)) if found.count() > 1 => Err(status::TOO_MANY_RECORDS),
            (_, found) => found,
        };
        let mut answer = SaMad {
            method: response,
            rmpp: Rmpp::default(),
            ..asked
        };
        match found {
            Err(status) => {
                answer.status = status;
                emit(&answer)
            }
            Ok(found) if asked.method != Method::GET_TABLE => {
                answer.status = MadStatus::OK;
                answer.attribute_offset = (found.each / 8) as u16;
                answer.data = [0; SA_DATA_LEN];
                let length = found.bytes.len().min(SA_DATA_LEN);
                answer.data[..length].copy_from_slice(&found.bytes[..length]);
                emit(&answer)
            }
            Ok(found) => {
                answer.status = MadStatus::OK;
                answer.attribute_offset = (found.each / 8) as u16;
                answer.rmpp = Rmpp::data(1, RmppFlags::FIRST | RmppFlags::LAST, 0);
                let mut message = emit(&answer)?;
                message.truncate(HEAD_BYTES);
                message.extend_from_slice(&found.bytes);
                Some(message)
            }
        }
    }

    fn find(&self, asked: &SaMad) -> Result<Answered, Refused> {
        match asked.attribute {
            attribute::CLASS_PORT_INFO => {
                let info = ClassPortInfo {
                    base_version: 1,
                    class_version: 2,
                    response_time: RESPONSE_TIME,
                    ..ClassPortInfo::default()
                };
                let mut found = Answered::of(ClassPortInfo::LEN);
                records::push(&mut found, &info, &[])?;
                Ok(found)
            }
            attribute::PATH => paths::find(&self.subnet, asked),
            attribute::MC_MEMBER => self.groups.find(asked),
            _ => records::find(self, asked),
        }
    }
}

fn emit(answer: &SaMad) -> Option<Vec<u8>> {
    let mut bytes = vec![0; MAD_LEN];
    answer.emit(&mut bytes).ok()?;
    Some(bytes)
}
