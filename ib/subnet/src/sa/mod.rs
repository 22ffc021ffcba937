//! Subnet administration: questions about the subnet, answered from what the last sweep found and programmed (IBA 15.2).
//!
//! Owns which records there are ([`records`]), paths between ports ([`paths`]), and what a question means. An answer is one message, however long: whoever carries it takes it apart.
//! Must not know how it travels. Questions are strangers': components that are not known here are an error, and the longest answer has a bound.
//!
//! Multicast groups ([`groups`]) are what those who join make of them; what follows for the switches' tables is asked for by [`Administration::take_trees`].
//!
//! Services ([`services`]) and subscriptions ([`subscriptions`]) are kept as they are told; who has subscribed gets reports, by [`Administration::poll_report`]: of ports that come and
//! go and of groups, which administration sees itself, and of the traps that are given to [`Administration::tell`].
//!
//! Tables that no sweep asks for ([`tables`]: GUIDs, partition keys, lanes, arbiters, multicast forwarding) are read when somebody asks: [`Administration::needs`] says what, and
//! [`Administration::learned`] takes it.
//!
//! Not offered, and answered so: TraceRecord, ServiceAssociationRecord, GUIDs that administration would give away.

mod groups;
mod multipath;
mod paths;
mod records;
mod services;
mod subscriptions;
mod tables;
#[cfg(test)]
mod tests;

use crate::election::SM_KEY;
use crate::manager::{Instant, Reading, Subnet, TableRead};
use crate::routing::multicast::Ports;
use ferriband_wire::attributes::{
    Agent, ClassPortInfo, Notice, NoticeType, SmInfo, producer, trap,
};
use ferriband_wire::mad::{
    GSI_QKEY, GSI_QPN, MAD_LEN, MadHeader, MadStatus, ManagementClass, Method,
};
use ferriband_wire::sa::{SA_DATA_LEN, SaMad, attribute, status};
use ferriband_wire::{Gid, Header, Lid, Qpn, Rmpp, RmppFlags, SmKey, TimeCode};

use groups::Groups;
use services::Services;
pub use subscriptions::Report;
use subscriptions::Subscriptions;

/// Bytes before the records of a message.
const HEAD_BYTES: usize = MAD_LEN - SA_DATA_LEN;
/// Bytes of the records of one answer.
const MOST_BYTES: usize = 24 << 20;
/// Of ClassPortInfo: the administration answers within 4.096 us * 2^18, a second.
const RESPONSE_TIME: TimeCode = TimeCode(18);

/// Of ClassPortInfo: multicast groups, MultiPathRecord, ports by some of their capabilities (IBA 15.2.5, its table of CapabilityMask).
const CAPABILITIES: u16 = 1 << 9 | 1 << 10 | 1 << 13;

/// Where it is reached: where it was.
fn general_agent() -> Agent {
    Agent {
        qpn: GSI_QPN,
        qkey: GSI_QKEY,
        ..Agent::default()
    }
}

/// Why a question gets no records.
type Refused = MadStatus;

/// Who asks: the port and the queue pair that his packet came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    /// His port's LID.
    pub lid: Lid,
    /// His queue pair.
    pub qpn: Qpn,
}

/// True if who asks shows the key of the subnet's managers.
fn is_trusted(asked: &SaMad) -> bool {
    asked.sm_key == SM_KEY
}

/// The administration of a subnet.
#[derive(Clone, Debug)]
pub struct Administration {
    subnet: Subnet,
    /// The manager's LID, and what it says of itself.
    manager: (Lid, SmInfo),
    /// The same of the managers that stand by.
    others: Vec<(Lid, SmInfo)>,
    groups: Groups,
    services: Services,
    subscriptions: Subscriptions,
    /// What was read for the questions at hand.
    tables: Option<TableRead>,
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
        let mut groups = Groups::default();
        groups.levels(&subnet);
        Administration {
            subnet,
            manager: (lid, manager),
            others: Vec::new(),
            groups,
            services: Services::default(),
            subscriptions: Subscriptions::default(),
            tables: None,
        }
    }

    /// The subnet's other managers, and what they say of themselves.
    pub fn others_are(&mut self, others: impl Iterator<Item = (Lid, SmInfo)>) {
        self.others = others.collect();
    }

    /// What is to be read before a question can be answered; None: nothing, or it is no question. Without it [`Self::answer`] says that it is busy.
    pub fn needs(&self, question: &[u8; MAD_LEN]) -> Option<Reading> {
        let asked = SaMad::parse_mad(question).ok()?;
        let wrong = asked.sm_key != SmKey(0) && asked.sm_key != self.key();
        let asked = self.marked(&asked);
        if wrong {
            return None;
        }
        tables::needs(self, &asked)
    }

    /// What was read. None: what was is forgotten, for it is as old as that.
    pub fn learned(&mut self, tables: Option<TableRead>) {
        self.tables = tables;
    }

    /// Another sweep has found the subnet like this. Groups and subscriptions live on, without ports that are gone; who has subscribed hears of ports that have come or gone.
    pub fn renew(&mut self, subnet: Subnet, lid: Lid, manager: SmInfo) {
        let before = std::mem::replace(&mut self.subnet, subnet);
        self.manager = (lid, manager);
        self.groups.renew(&self.subnet);
        let (before, now) = (records::gids(&before), records::gids(&self.subnet));
        for gid in now.difference(&before) {
            self.happened(trap::IN_SERVICE, Gid(*gid));
        }
        for gid in before.difference(&now) {
            self.happened(trap::OUT_OF_SERVICE, Gid(*gid));
        }
        self.tell_of_groups();
        self.subscriptions.retain(|gid| now.contains(&gid.0));
    }

    /// A trap has come, from the port that it names: who has subscribed hears of it.
    pub fn tell(&mut self, notice: &Notice) {
        let issuer = records::gid_at(&self.subnet, notice.issuer_lid);
        self.subscriptions.tell(&Notice {
            issuer_gid: issuer.unwrap_or_default(),
            ..*notice
        });
    }

    /// Something of which administration itself knows: a notice about a GID, from the manager's port (IBA 14.2.5.1).
    fn happened(&mut self, trap: u16, about: Gid) {
        let kind = NoticeType::SUBNET_MANAGEMENT;
        let mut notice = Notice::new(kind, producer::CLASS_MANAGER, trap, self.manager.0);
        notice.set_gid(about);
        self.tell(&notice);
    }

    fn tell_of_groups(&mut self) {
        for (trap, mgid) in self.groups.take_news() {
            self.happened(trap, mgid);
        }
    }

    /// The next report for somebody who has subscribed. Its transaction is the carrier's to choose.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.subscriptions.poll_report()
    }

    /// Of groups that have changed since this was last asked: LID, and the row of each switch, in the order of the graph's.
    pub fn take_trees(&mut self) -> Vec<(u16, Vec<Ports>)> {
        self.groups.take_changed(&self.subnet)
    }

    /// The subnet that it knows.
    pub fn subnet(&self) -> &Subnet {
        &self.subnet
    }

    /// Answers a question, a whole MAD. The answer is a MAD, or a long message with an RMPP header that says so. None for what is no question, or shows a wrong key.
    pub fn answer(
        &mut self,
        now: Instant,
        from: Asker,
        question: &[u8; MAD_LEN],
    ) -> Option<Vec<u8>> {
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
        // who shows a wrong key is told nothing at all (IBA 15.4.1)
        if asked.sm_key != SmKey(0) && asked.sm_key != self.key() {
            return None;
        }
        let marked = self.marked(&asked);
        let found = self.do_what_is_asked(now, from, &marked);
        self.tell_of_groups();
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
            Ok(found) if ![Method::GET_TABLE, Method::GET_MULTI].contains(&asked.method) => {
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

    fn key(&self) -> SmKey {
        match self.manager.1.sm_key {
            SmKey(0) => SM_KEY,
            own => own,
        }
    }

    /// Rooms below know one key, the conventional one; here it is found out whether it was shown.
    fn marked(&self, asked: &SaMad) -> SaMad {
        let trusted = asked.sm_key == self.key();
        SaMad {
            sm_key: if trusted { SM_KEY } else { SmKey(0) },
            ..*asked
        }
    }

    fn do_what_is_asked(
        &mut self,
        now: Instant,
        from: Asker,
        asked: &SaMad,
    ) -> Result<Answered, Refused> {
        let subnet = &self.subnet;
        match (asked.method, asked.attribute) {
            (Method::GET | Method::GET_TABLE, _) => self.find(now, asked),
            (Method::GET_MULTI, attribute::MULTI_PATH) => multipath::find(subnet, asked),
            (Method::SET, attribute::MC_MEMBER) => self.groups.join(subnet, asked),
            (Method::DELETE, attribute::MC_MEMBER) => self.groups.leave(asked),
            (Method::SET, attribute::SERVICE) => {
                // by the port's GUID: programs leave out a prefix that they do not know yet
                let ports = records::gids(subnet);
                let is_there = |gid: Gid| ports.iter().any(|own| own[8..] == gid.0[8..]);
                self.services.register(now, asked, is_there)
            }
            (Method::DELETE, attribute::SERVICE) => self.services.withdraw(now, asked),
            (Method::SET, attribute::INFORM_INFO) => {
                let gid = records::gid_at(subnet, from.lid).ok_or(status::REQUEST_INVALID)?;
                self.subscriptions.set(from, gid, asked)
            }
            _ => Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        }
    }

    fn find(&self, now: Instant, asked: &SaMad) -> Result<Answered, Refused> {
        match asked.attribute {
            attribute::CLASS_PORT_INFO => {
                let info = ClassPortInfo {
                    base_version: 1,
                    class_version: 2,
                    capability_mask: CAPABILITIES,
                    response_time: RESPONSE_TIME,
                    redirect: general_agent(),
                    ..ClassPortInfo::default()
                };
                let mut found = Answered::of(ClassPortInfo::LEN);
                records::push(&mut found, &info, &[])?;
                Ok(found)
            }
            attribute::PATH => paths::find(&self.subnet, asked),
            attribute::MC_MEMBER => self.groups.find(asked),
            attribute::SERVICE => self.services.find(now, asked),
            attribute::INFORM_INFO_RECORD => self.subscriptions.find(asked),
            attribute::GUID_INFO
            | attribute::PKEY_TABLE
            | attribute::SL_TO_VL
            | attribute::VL_ARBITRATION
            | attribute::MULTICAST_FORWARDING => tables::find(self, asked),
            _ => records::find(self, asked),
        }
    }
}

fn emit(answer: &SaMad) -> Option<Vec<u8>> {
    let mut bytes = vec![0; MAD_LEN];
    answer.emit(&mut bytes).ok()?;
    Some(bytes)
}
