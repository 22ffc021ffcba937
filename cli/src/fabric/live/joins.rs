//! Hosts' memberships in multicast groups: what `ib_sa` in the Linux kernel keeps for the programs of a machine. However many programs of a host join a group, subnet
//! administration hears of the first, and of the end of the last one. Who ends without a word has left.
//!
//! Owns who is in which group, and the questions that are under way. Must not know who manages: the questions are packets like any other. When a port comes up anew or has
//! another manager, its memberships are told again.

use ferriband_attach::ask::{Answer, Membership};
use ferriband_fabric::Time;
use ferriband_fabric::interface::{AgentId, Delivery, Far, Refused, Wanted};
use ferriband_fabric::live::Fabric;
use ferriband_fabric::manage::Place;
use ferriband_wire::attributes::{
    JoinState, McMemberRecord, McMemberRecordMask as Mask, PortState,
};
use ferriband_wire::mad::{
    DEFAULT_PKEY, GSI_QKEY, GSI_QPN, MAD_LEN, MadStatus, ManagementClass, Method,
};
use ferriband_wire::sa::{SaMad, attribute};
use ferriband_wire::{Gid, Header, Lid, QKey, TransactionId};
use std::collections::BTreeMap;

/// An answer is waited for so long, and so often again.
const PATIENCE: Time = Time::from_ns(1_000_000_000);
const RETRIES: u32 = 3;
/// Memberships of all hosts, those that are asked for included.
const MOST: usize = 65_536;
/// Version of the class SubnAdm.
const VERSION: u8 = 2;

/// A group, as a host is in it.
type Key = (Place, [u8; 16]);

/// A membership that administration knows of.
#[derive(Debug)]
struct Joined {
    record: McMemberRecord,
    clients: Vec<u64>,
}

/// The memberships.
#[derive(Debug, Default)]
pub struct Joins {
    joined: BTreeMap<Key, Joined>,
    /// By the lower half of the transaction: who waits, if anybody does.
    asked: BTreeMap<u32, (Key, Option<u64>)>,
    agents: BTreeMap<Place, AgentId>,
    /// Of ports with memberships: the manager when they were told, None while the port is not active.
    managers: BTreeMap<Place, Option<Lid>>,
    next: u32,
}

fn refuse(why: &str, errno: i32) -> Answer {
    Answer::Refused {
        why: why.to_owned(),
        errno,
    }
}

/// The manager of a port that carries data.
fn manager_of(fabric: &Fabric, at: Place) -> Option<Lid> {
    let info = &fabric.plane().node(at.node).ports[usize::from(at.port)].info;
    (info.state == PortState::ACTIVE && info.master_sm_lid != Lid(0)).then_some(info.master_sm_lid)
}

impl Joins {
    /// A program wants to be in a group. None: the answer comes by [`Self::take`].
    pub fn join(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        client: u64,
        (at, mgid): Key,
        qkey: u32,
    ) -> Option<Answer> {
        if let Some(joined) = self.joined.get_mut(&(at, mgid)) {
            if joined.record.qkey.0 != qkey {
                return Some(refuse("the group has another Q_Key", libc::EINVAL));
            }
            joined.clients.push(client);
            return Some(joined.answer());
        }
        if self.joined.len() + self.asked.len() >= MOST {
            return Some(refuse("there are too many memberships", libc::ENOMEM));
        }
        let record = McMemberRecord {
            mgid: Gid(mgid),
            qkey: QKey(qkey),
            ..McMemberRecord::default()
        };
        match self.ask(fabric, now, (at, mgid), Method::SET, &record) {
            Some(number) => {
                self.asked.insert(number, ((at, mgid), Some(client)));
                None
            }
            None => Some(refuse("the port has no manager", libc::ENETDOWN)),
        }
    }

    /// A program is gone.
    pub fn leave(&mut self, fabric: &mut Fabric, now: Time, client: u64) {
        for (_, waits) in self.asked.values_mut() {
            if *waits == Some(client) {
                *waits = None;
            }
        }
        let mut empty = Vec::new();
        for (key, joined) in &mut self.joined {
            let before = joined.clients.len();
            joined.clients.retain(|own| *own != client);
            if joined.clients.is_empty() && before > 0 {
                empty.push((*key, joined.record));
            }
        }
        for (key, record) in empty {
            self.joined.remove(&key);
            // what cannot be said now the manager finds out when the port is gone
            let _ = self.ask(fabric, now, key, Method::DELETE, &record);
        }
    }

    /// Asks administration; gives the question's number.
    fn ask(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        (at, mgid): Key,
        method: Method,
        known: &McMemberRecord,
    ) -> Option<u32> {
        let manager = manager_of(fabric, at)?;
        let agent = self.agent(fabric, at).ok()?;
        let node = fabric.plane().node(at.node);
        let info = &node.ports[usize::from(at.port)].info;
        let record = McMemberRecord {
            mgid: Gid(mgid),
            port_gid: Gid::from_prefix_guid(info.gid_prefix, node.guid_of_port(at.port)),
            pkey: DEFAULT_PKEY,
            join_state: JoinState::FULL_MEMBER,
            qkey: known.qkey,
            ..McMemberRecord::default()
        };
        let mut mask = Mask::MGID | Mask::PORT_GID | Mask::JOIN_STATE;
        if method == Method::SET {
            mask |= Mask::PKEY | Mask::QKEY | Mask::SL | Mask::FLOW_LABEL | Mask::TRAFFIC_CLASS;
        }
        self.next = self.next.wrapping_add(1);
        let mut question = SaMad {
            component_mask: mask.bits(),
            transaction_id: TransactionId(self.next.into()),
            ..SaMad::new(method, attribute::MC_MEMBER)
        };
        question.set_data(&record).ok()?;
        let mut mad = [0; MAD_LEN];
        question.emit(&mut mad).ok()?;
        let to = Far {
            lid: manager,
            qpn: GSI_QPN,
            qkey: GSI_QKEY,
            sl: info.master_sm_sl,
            pkey_index: 0,
        };
        self.managers.insert(at, Some(manager));
        fabric
            .send(now, at, agent, to, &mad, PATIENCE, RETRIES)
            .ok()?;
        Some(self.next)
    }

    fn agent(&mut self, fabric: &mut Fabric, at: Place) -> Result<AgentId, Refused> {
        if let Some(agent) = self.agents.get(&at) {
            return Ok(*agent);
        }
        let wanted = Wanted {
            class: ManagementClass::SUBN_ADM,
            version: VERSION,
            oui: 0,
            methods: 0,
            rmpp: false,
            plain: false,
        };
        let agent = fabric.register(at, wanted)?;
        self.agents.insert(at, agent);
        Ok(agent)
    }

    /// True for what is delivered to it.
    pub fn is_for(&self, at: Place, agent: AgentId) -> bool {
        self.agents.get(&at) == Some(&agent)
    }

    /// An answer has come, or none; gives who is to hear what.
    pub fn take(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        delivery: &Delivery,
    ) -> Option<(u64, Answer)> {
        let number = delivery.bytes.get(12..16)?;
        let number = u32::from_be_bytes(number.try_into().ok()?);
        let (key, client) = self.asked.remove(&number)?;
        let late = refuse("nobody answers for the subnet", libc::ETIMEDOUT);
        let tell = |answer| client.map(|client| (client, answer));
        if delivery.timed_out {
            return tell(late);
        }
        let Ok(answer) = SaMad::parse_mad(&delivery.bytes) else {
            return tell(late);
        };
        let record: Option<McMemberRecord> = answer.data_as().ok();
        let Some(record) = record.filter(|_| answer.status == MadStatus::OK) else {
            // a membership that was told again and is refused is none any more
            self.joined.remove(&key);
            let why = format!("the manager refuses: {}", answer.status);
            return tell(refuse(&why, libc::EINVAL));
        };
        let joined = self.joined.entry(key).or_insert_with(|| Joined {
            record,
            clients: Vec::new(),
        });
        joined.record = record;
        joined.clients.extend(client);
        if joined.clients.is_empty() {
            // who asked has gone meanwhile
            self.joined.remove(&key);
            let _ = self.ask(fabric, now, key, Method::DELETE, &record);
            return None;
        }
        client.map(|client| (client, joined_answer(&record)))
    }

    /// Ports that have come up anew, or have another manager, say again in which groups they are.
    pub fn look_after(&mut self, fabric: &mut Fabric, now: Time) {
        let places: Vec<Place> = self.managers.keys().copied().collect();
        for at in places {
            let there = manager_of(fabric, at);
            let before = self.managers.insert(at, there);
            if before == Some(there) || there.is_none() {
                continue;
            }
            let own = self.joined.iter().filter(|((place, _), _)| *place == at);
            let own: Vec<_> = own.map(|(key, joined)| (*key, joined.record)).collect();
            for (key, record) in own {
                if let Some(number) = self.ask(fabric, now, key, Method::SET, &record) {
                    self.asked.insert(number, (key, None));
                }
            }
        }
    }
}

impl Joined {
    fn answer(&self) -> Answer {
        joined_answer(&self.record)
    }
}

fn joined_answer(record: &McMemberRecord) -> Answer {
    Answer::Joined(Membership {
        mlid: record.mlid.0,
        sl: record.sl.0,
        mtu: record.mtu.value,
        rate: record.rate.value,
        qkey: record.qkey.0,
    })
}
