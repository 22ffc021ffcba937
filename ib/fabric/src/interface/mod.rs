//! A port's management interfaces, the SMI (queue pair 0) and the GSI (queue pair 1), as those see them who manage: what the Linux kernel does in ib_mad.
//!
//! Owns who wants which packets ([`Wanted`]), requests that wait for an answer and are sent again, and long messages, which travel as many packets
//! ([`rmpp`]). Packets go out by [`Interface::poll_transmit`] and come in by [`Interface::receive`]. Must not know how they travel, nor who answers in the node itself.
//!
//! A request's transaction gets the number of its agent as its upper half, so that an answer finds its way back without a look at what it says.

mod rmpp;
#[cfg(test)]
mod tests;

use crate::Time;
use ferriband_wire::mad::{MAD_LEN, MadHeader, ManagementClass, Method};
use ferriband_wire::{Header, Lid, QKey, Qpn, Sl};
use rmpp::{Coming, Going, Step};
use std::collections::{BTreeMap, VecDeque};

/// Agents of a port.
const MOST_AGENTS: usize = 1024;
/// Requests of a port that wait for answers.
const MOST_WAITING: usize = 65_536;
/// Long messages on their way to a port, and bytes of each.
const MOST_COMING: usize = 256;
/// Bytes of the longest message.
pub const MOST_BYTES: usize = 32 << 20;

/// Where the other end of a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Far {
    /// Its LID.
    pub lid: Lid,
    /// Its queue pair.
    pub qpn: Qpn,
    /// That queue pair's key.
    pub qkey: QKey,
    /// Service level.
    pub sl: Sl,
    /// Index of the partition key.
    pub pkey_index: u16,
}

/// Who has registered: never 0, never given twice by one interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AgentId(pub u32);

/// Which packets somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Management class.
    pub class: ManagementClass,
    /// Version of the class.
    pub version: u8,
    /// OUI, in classes that have one (0x30 to 0x4f).
    pub oui: u32,
    /// A bit for each method of requests.
    pub methods: u128,
    /// Long messages are put together and taken apart.
    pub rmpp: bool,
    /// It keeps account of its requests itself: answers come whenever they come, and transactions stay as they are.
    pub plain: bool,
}

/// Why somebody cannot register, or send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Another has registered for one of these methods.
    #[error("another program gets these management packets")]
    Taken,
    /// Too many.
    #[error("there is no room for more")]
    Full,
    /// No such agent.
    #[error("there is no such agent")]
    Unknown,
    /// No packet: too short, of another class, too long.
    #[error("that is no management packet of the agent's class")]
    Invalid,
}

/// A packet or a long message for an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// For whom.
    pub agent: AgentId,
    /// Where it comes from; of a request that nobody answered, where it went.
    pub far: Far,
    /// Nobody answered: what follows is the head of the request.
    pub timed_out: bool,
    /// The packet, or the message with one head.
    pub bytes: Vec<u8>,
}

/// A packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where to.
    pub to: Far,
    /// It.
    pub mad: [u8; MAD_LEN],
}

/// A request that waits for its answer.
#[derive(Clone, Debug)]
struct Waiting {
    agent: AgentId,
    to: Far,
    /// As it was sent.
    bytes: Vec<u8>,
    timeout: Time,
    due: Time,
    retries: u32,
}

/// A port's management interfaces.
#[derive(Debug, Default)]
pub struct Interface {
    agents: BTreeMap<AgentId, Wanted>,
    next_agent: u32,
    /// By transaction and class.
    waiting: BTreeMap<(u64, u8), Waiting>,
    going: BTreeMap<(u64, u8), Going>,
    /// By who sends, transaction and class.
    coming: BTreeMap<(u16, u64, u8), Coming>,
    transmit: VecDeque<Transmit>,
    deliver: VecDeque<Delivery>,
    /// Packets that nobody wanted.
    pub unwanted: u64,
}

impl Interface {
    /// Nobody has registered.
    pub fn new() -> Self {
        Interface::default()
    }

    /// Somebody wants packets.
    ///
    /// # Errors
    /// `Taken`, `Full`.
    pub fn register(&mut self, wanted: Wanted) -> Result<AgentId, Refused> {
        let clashes = |other: &Wanted| {
            (other.class, other.version, other.oui) == (wanted.class, wanted.version, wanted.oui)
                && other.methods & wanted.methods != 0
        };
        if self.agents.values().any(clashes) {
            return Err(Refused::Taken);
        }
        if self.agents.len() >= MOST_AGENTS {
            return Err(Refused::Full);
        }
        let mut id = AgentId(self.next_agent.wrapping_add(1).max(1));
        while self.agents.contains_key(&id) {
            id = AgentId(id.0.wrapping_add(1).max(1));
        }
        self.next_agent = id.0;
        self.agents.insert(id, wanted);
        Ok(id)
    }

    /// Somebody wants nothing any more; what it waited for is forgotten.
    pub fn unregister(&mut self, agent: AgentId) {
        self.agents.remove(&agent);
        self.waiting.retain(|_, waiting| waiting.agent != agent);
        self.going.retain(|_, going| going.agent != agent);
        self.deliver.retain(|delivery| delivery.agent != agent);
    }

    /// True if somebody answers requests for SMInfo, which is a subnet manager's part.
    pub fn has_manager(&self) -> bool {
        let get = 1 << Method::GET.0;
        let manages =
            |wanted: &Wanted| wanted.class.is_subnet_management() && wanted.methods & get != 0;
        self.agents.values().any(manages)
    }

    /// Sends a packet, or a long message if its RMPP header says that it is one. With a `timeout` the answer is waited for that long, and the request is sent again
    /// `retries` times.
    ///
    /// # Errors
    /// `Unknown`, `Invalid`, `Full`.
    pub fn send(
        &mut self,
        now: Time,
        agent: AgentId,
        to: Far,
        bytes: &[u8],
        timeout: Time,
        retries: u32,
    ) -> Result<(), Refused> {
        let wanted = *self.agents.get(&agent).ok_or(Refused::Unknown)?;
        let (header, _) = MadHeader::parse(bytes).map_err(|_| Refused::Invalid)?;
        let same = header.class == wanted.class
            || header.class.is_subnet_management() && wanted.class.is_subnet_management();
        if !same || bytes.len() > MOST_BYTES {
            return Err(Refused::Invalid);
        }
        let long = wanted.rmpp && rmpp::is_active(bytes);
        if !long && bytes.len() > MAD_LEN {
            return Err(Refused::Invalid);
        }
        if self.waiting.len() + self.going.len() >= MOST_WAITING {
            return Err(Refused::Full);
        }
        let mut bytes = bytes.to_vec();
        let is_request = !header.method.is_response();
        if is_request && !wanted.plain {
            bytes[8..12].copy_from_slice(&agent.0.to_be_bytes());
        }
        let key = (transaction(&bytes), header.class.0);
        let waits = is_request && timeout != Time(0);
        if waits {
            let waiting = Waiting {
                agent,
                to,
                bytes: bytes.clone(),
                timeout,
                due: now + timeout,
                retries,
            };
            self.waiting.insert(key, waiting);
        }
        if long {
            let going = Going::new(now, agent, to, bytes).ok_or(Refused::Invalid)?;
            self.going.insert(key, going);
            self.go_on(key);
        } else {
            self.transmit.push_back(Transmit {
                to,
                mad: whole(&bytes),
            });
        }
        Ok(())
    }

    /// A packet has come from `from`.
    pub fn receive(&mut self, now: Time, from: Far, mad: &[u8; MAD_LEN]) {
        let Ok((header, _)) = MadHeader::parse(mad) else {
            self.unwanted += 1;
            return;
        };
        let key = (header.transaction_id.0, header.class.0);
        if rmpp::has_header(header.class) && rmpp::is_active(mad) {
            let is_data = rmpp::is_data(mad);
            if !is_data {
                // of a message that goes out
                if let Some(going) = self
                    .going
                    .get_mut(&key)
                    .filter(|going| going.to.lid == from.lid)
                {
                    going.answered(now, mad);
                    self.go_on(key);
                }
                return;
            }
            if let Some(agent) = self.whose(&header, mad)
                && self.agents[&agent].rmpp
            {
                return self.receive_long(now, agent, from, mad, &header);
            }
        }
        match self.whose(&header, mad) {
            Some(agent) => self.hand_over(agent, from, key, header.method, mad.to_vec()),
            None => self.unwanted += 1,
        }
    }

    /// A segment of a long message.
    fn receive_long(
        &mut self,
        now: Time,
        agent: AgentId,
        from: Far,
        mad: &[u8; MAD_LEN],
        header: &MadHeader,
    ) {
        let key = (header.transaction_id.0, header.class.0);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            // the answer has begun to come
            waiting.due = now + rmpp::PATIENCE;
            waiting.retries = 0;
        }
        let long = (from.lid.0, header.transaction_id.0, header.class.0);
        if !self.coming.contains_key(&long) && self.coming.len() >= MOST_COMING {
            // those that are whole are kept for segments that come twice, as long as there is room
            self.coming
                .retain(|_, coming| coming.due > now && !coming.is_whole());
            if self.coming.len() >= MOST_COMING {
                self.unwanted += 1;
                return;
            }
        }
        let coming = self
            .coming
            .entry(long)
            .or_insert_with(|| Coming::new(now, header.class));
        let (answer, step) = coming.take(now, mad);
        if let Some(mad) = answer {
            self.transmit.push_back(Transmit { to: from, mad });
        }
        match step {
            Step::Waits => {}
            Step::Whole(bytes) => self.hand_over(agent, from, key, header.method, bytes),
            Step::Broken => {
                self.coming.remove(&long);
            }
        }
    }

    /// Gives a packet to an agent, unless it is an answer that it does not wait for.
    fn hand_over(
        &mut self,
        agent: AgentId,
        from: Far,
        key: (u64, u8),
        method: Method,
        bytes: Vec<u8>,
    ) {
        let is_answer = method.is_response();
        if is_answer && self.waiting.remove(&key).is_none() && !self.agents[&agent].plain {
            self.unwanted += 1;
            return;
        }
        self.deliver.push_back(Delivery {
            agent,
            far: from,
            timed_out: false,
            bytes,
        });
    }

    /// Who gets a packet.
    fn whose(&self, header: &MadHeader, mad: &[u8]) -> Option<AgentId> {
        if header.method.is_response() {
            let agent = AgentId((header.transaction_id.0 >> 32) as u32);
            return self.agents.contains_key(&agent).then_some(agent);
        }
        let oui = match header.class.0 {
            // RMPP header, a reserved byte, OUI
            0x30..=0x4f => u32::from_be_bytes([0, mad[37], mad[38], mad[39]]),
            _ => 0,
        };
        let method = 1_u128 << (header.method.0 & 0x7f);
        let wants = |wanted: &Wanted| {
            (wanted.class, wanted.version, wanted.oui) == (header.class, header.class_version, oui)
                && wanted.methods & method != 0
        };
        let mut agents = self.agents.iter();
        agents.find(|(_, wanted)| wants(wanted)).map(|(id, _)| *id)
    }

    /// Sends what a long message may send now.
    fn go_on(&mut self, key: (u64, u8)) {
        let Some(going) = self.going.get_mut(&key) else {
            return;
        };
        while let Some(mad) = going.poll() {
            self.transmit.push_back(Transmit { to: going.to, mad });
        }
        if going.is_done() {
            self.going.remove(&key);
        }
    }

    /// The next packet to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmit.pop_front()
    }

    /// The next packet for an agent.
    pub fn poll_deliver(&mut self) -> Option<Delivery> {
        self.deliver.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.waiting.values().map(|waiting| waiting.due);
        let going = self.going.values().map(|going| going.due);
        let coming = self.coming.values().map(|coming| coming.due);
        waiting.chain(going).chain(coming).min()
    }

    /// What was not answered in time goes again, or is given up.
    pub fn handle_timeout(&mut self, now: Time) {
        self.coming.retain(|_, coming| coming.due > now);
        let late = self.going.iter().filter(|(_, going)| going.due <= now);
        let late: Vec<_> = late.map(|(key, _)| *key).collect();
        for key in late {
            let alive = self
                .going
                .get_mut(&key)
                .is_some_and(|going| going.again(now));
            if alive {
                self.go_on(key);
            } else if let Some(going) = self.going.remove(&key) {
                // of the same one: who asks and who answers may be at one port
                let own = self.waiting.get(&key);
                if own.is_some_and(|waiting| waiting.agent == going.agent) {
                    self.waiting.remove(&key);
                }
                self.time_out(going.agent, going.to, &going.bytes);
            }
        }
        let late = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.due <= now);
        let late: Vec<_> = late.map(|(key, _)| *key).collect();
        for key in late {
            let Some(waiting) = self.waiting.get_mut(&key) else {
                continue;
            };
            if waiting.retries > 0 {
                waiting.retries -= 1;
                waiting.due = now + waiting.timeout;
                if !self.going.contains_key(&key) {
                    let again = Transmit {
                        to: waiting.to,
                        mad: whole(&waiting.bytes),
                    };
                    self.transmit.push_back(again);
                }
            } else if let Some(waiting) = self.waiting.remove(&key) {
                let own = self.going.get(&key);
                if own.is_some_and(|going| going.agent == waiting.agent) {
                    self.going.remove(&key);
                }
                self.time_out(waiting.agent, waiting.to, &waiting.bytes);
            }
        }
    }

    fn time_out(&mut self, agent: AgentId, far: Far, bytes: &[u8]) {
        self.deliver.push_back(Delivery {
            agent,
            far,
            timed_out: true,
            bytes: bytes[..MadHeader::LEN].to_vec(),
        });
    }
}

/// The transaction of a packet that has a header.
fn transaction(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8..16]);
    u64::from_be_bytes(word)
}

/// A packet's 256 bytes; programs may leave out zeros at the end.
fn whole(bytes: &[u8]) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    let length = bytes.len().min(MAD_LEN);
    mad[..length].copy_from_slice(&bytes[..length]);
    mad
}
