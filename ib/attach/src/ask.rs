//! Questions to a fabric's process and its answers, as JSON: rare, and easy to look at.

use crate::{AttachError, Link};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// First byte of a message that is JSON.
pub const JSON: u8 = b'J';

/// A question, or a wish.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// What is the adapter of a host? Answered by [`Answer::Adapter`].
    Adapter {
        /// The host, by the name of its node.
        host: String,
    },
    /// Which host has an IP address? Answered by [`Answer::Adapter`].
    HostAt {
        /// The address.
        address: std::net::Ipv4Addr,
    },
    /// From now on this connection carries management packets ([`crate::mad`]) of a port. Answered by [`Answer::Opened`].
    OpenMads {
        /// The host.
        host: String,
        /// Its port.
        port: u8,
    },
    /// Somebody wants management packets by a connection that was opened. Answered by [`Answer::Registered`].
    Register {
        /// What [`Answer::Opened`] said.
        token: u64,
        /// What is wanted.
        agent: Registration,
    },
    /// Wants them no more. Answered by [`Answer::Done`].
    Unregister {
        /// What [`Answer::Opened`] said.
        token: u64,
        /// What [`Answer::Registered`] said.
        agent: u32,
    },
    /// From now on this connection carries data packets ([`crate::packet`]) of a host's port. Answered by [`Answer::Opened`].
    OpenPackets {
        /// The host.
        host: String,
        /// Its port.
        port: u8,
    },
    /// As long as this connection lives a program of a host is in a multicast group, which is made if it is not there. Answered by [`Answer::Joined`].
    JoinGroup {
        /// The host.
        host: String,
        /// Its port.
        port: u8,
        /// The group's GID.
        mgid: [u8; 16],
        /// The Q_Key of its members.
        qkey: u32,
    },
    /// From now on this connection tells what passes a cable ([`crate::tap`]), which is named by one of its ends. Answered by [`Answer::Opened`].
    Tap {
        /// The node.
        node: String,
        /// The port.
        port: u8,
    },
    /// What is the fabric? Answered by [`Answer::Status`].
    Status,
    /// The end of the fabric. Answered by [`Answer::Done`].
    Down,
    /// A cable, by one of its ends, or all that a node has: cut, or joined again. Answered by [`Answer::Done`].
    Link {
        /// The node.
        node: String,
        /// The port.
        port: u8,
        /// Joined again.
        up: bool,
    },
    /// A cable, by one of its ends, spoils so many of a million packets. Answered by [`Answer::Done`].
    Spoil {
        /// The node.
        node: String,
        /// The port.
        port: u8,
        /// Of a million; 0: none.
        of_a_million: u32,
    },
    /// A node is switched off, or on again. Answered by [`Answer::Done`].
    Power {
        /// The node.
        node: String,
        /// On.
        on: bool,
    },
    /// What becomes of packets from one LID to another? Answered by [`Answer::Path`].
    Path {
        /// The LID that they come from.
        from: u16,
        /// The LID that they are for.
        to: u16,
    },
    /// Look at the whole fabric anew (its own manager does). Answered by [`Answer::Done`].
    Sweep,
}

/// Which management packets somebody wants: as `ib_umad` of the Linux kernel has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Registration {
    /// Management class.
    pub class: u8,
    /// Its version.
    pub version: u8,
    /// For classes of vendors with an OUI: that.
    pub oui: u32,
    /// A bit for each method of requests that it wants to be asked; none: only answers to its own.
    pub methods: [u64; 2],
    /// Long messages are put together, and taken apart, for it.
    pub rmpp: bool,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// It cannot be done.
    Refused {
        /// Why, as a sentence.
        why: String,
        /// The same as an errno.
        errno: i32,
    },
    /// An adapter.
    Adapter(Adapter),
    /// A connection that packets go through.
    Opened {
        /// Names it in other questions.
        token: u64,
    },
    /// Management packets will come.
    Registered {
        /// Names whom they are for.
        agent: u32,
    },
    /// A host is in a group.
    Joined(Membership),
    /// What the fabric is.
    Status(Box<Status>),
    /// The way of packets.
    Path(PathWord),
    /// The partition keys of a port, by index: told to who has opened its packets, then and whenever they change.
    PartitionKeys {
        /// 0: none at that place.
        keys: Vec<u16>,
    },
    /// Whether a port's link carries data: told as partition keys are.
    PortState {
        /// Its state is Active.
        active: bool,
    },
}

/// Where packets end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathEnd {
    /// At the port that they are for.
    Arrives,
    /// No port has one of the LIDs.
    #[default]
    NoSuchLid,
    /// At a switch whose table has no way, or a port that they are not for.
    NoWay,
    /// At a port without a cable.
    NoCable,
    /// At a link that carries no data: cut, or not brought up.
    LinkDown,
    /// At a node that is switched off.
    SwitchedOff,
    /// Nowhere.
    Circle,
}

/// What becomes of packets from one LID to another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathWord {
    /// Where they end.
    pub end: PathEnd,
    /// How it has ended, as a sentence.
    pub says: String,
    /// The cables that they take, by both ends, until there.
    pub links: Vec<String>,
    /// Cables among those that spoil packets.
    pub losses: Vec<String>,
}

/// What administration says of a group that was joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Membership {
    /// Its LID.
    pub mlid: u16,
    /// Service level.
    pub sl: u8,
    /// Longest packets, the IBA's code.
    pub mtu: u8,
    /// Rate, the IBA's code.
    pub rate: u8,
    /// Q_Key.
    pub qkey: u32,
}

/// A host's adapter, or a switch's port 0.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Adapter {
    /// The host.
    pub host: String,
    /// Its NodeDescription.
    pub description: String,
    /// 1 for a channel adapter, 2 for a switch, 3 for a router.
    pub node_type: u8,
    /// Node GUID.
    pub node_guid: u64,
    /// GUID of the machine that it is a part of.
    pub system_guid: u64,
    /// External ports.
    pub port_count: u8,
    /// The port that programs of the host use where they name none: the first with a cable, else 1;
    /// of a switch 0.
    pub port_used: u8,
    /// What its address is made of ([`crate::address`]): no other host of a fabric of this network namespace has it.
    pub number: u32,
    /// Its links take time.
    pub paced: bool,
    /// Its ports: of a switch port 0 alone.
    pub ports: Vec<AdapterPort>,
}

impl Adapter {
    /// The port that programs of the host use.
    pub fn used(&self) -> Option<&AdapterPort> {
        self.ports.iter().find(|port| port.port == self.port_used)
    }
}

/// A port, as its host sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AdapterPort {
    /// Number.
    pub port: u8,
    /// Port GUID.
    pub guid: u64,
    /// Subnet prefix.
    pub prefix: u64,
    /// Base LID; 0: none yet.
    pub lid: u16,
    /// LIDs: 2^lmc.
    pub lmc: u8,
    /// LID of the manager.
    pub sm_lid: u16,
    /// Service level to the manager.
    pub sm_sl: u8,
    /// State of the link, the IBA's code.
    pub state: u8,
    /// State of the physical link, the IBA's code.
    pub phys_state: u8,
    /// Mbit/s.
    pub rate_mbps: u32,
    /// Width that is active, the IBA's code.
    pub width: u8,
    /// Speed that is active, the IBA's code.
    pub speed: u8,
    /// Extended speed that is active, the IBA's code.
    pub speed_ext: u8,
    /// MTU that is active, the IBA's code.
    pub mtu: u8,
    /// Capabilities.
    pub capabilities: u32,
    /// Partition keys.
    pub pkeys: Vec<u16>,
}

/// What the fabric is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// What it was made from.
    pub source: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it was made.
    pub up_s: u64,
    /// Switches.
    pub switches: NodeCount,
    /// Hosts.
    pub hosts: NodeCount,
    /// Cables.
    pub links: LinkCount,
    /// Who manages it: "ours", or "none".
    pub manager: String,
    /// What the manager said last.
    pub manager_says: String,
    /// The manager's last sweep found no routes, or nobody to tell them: links are as they were before.
    #[serde(default)]
    pub failed: bool,
    /// What is wrong with how it is routed now: hosts that are not joined, packets that can wait for each other in a circle. None: not looked at yet.
    #[serde(default)]
    pub warnings: Option<Vec<String>>,
    /// Sweeps that came to an end.
    pub sweeps: u64,
    /// Management packets.
    pub mads: MadCount,
    /// Data packets.
    pub packets: PacketCount,
    /// How fast links are: "unpaced", or a share of their rates.
    pub pace: String,
    /// Its ports are protected by a management key, and this file has it (empty: no file has); None: they are not, or another manages and has his own.
    pub keys: Option<String>,
    /// How the credits of links stand.
    pub credits: CreditsLine,
    /// Those who are attached.
    pub attached: Vec<Attached>,
    /// What is cut or switched off, as people say it.
    pub broken: Vec<String>,
    /// Names of the hosts with their LIDs and addresses.
    pub host_list: Vec<HostLine>,
}

/// Nodes of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeCount {
    /// All of them.
    pub total: u32,
    /// Those that are switched on.
    pub on: u32,
}

/// Cables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinkCount {
    /// All of them.
    pub total: u32,
    /// Those that carry packets.
    pub up: u32,
    /// Those that carry data.
    pub active: u32,
}

/// Management packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MadCount {
    /// Those that went through the fabric.
    pub carried: u64,
    /// Those that nobody wanted.
    pub unwanted: u64,
}

/// Data packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PacketCount {
    /// Those that came to their end.
    pub delivered: u64,
    /// Those that were let go of.
    pub dropped: u64,
}

/// The credits of all links, each lane of each direction for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CreditsLine {
    /// Lanes that have carried packets since their link came up.
    pub lanes: u64,
    /// Blocks of 64 bytes of their buffers that are taken.
    pub taken_blocks: u64,
    /// Packets that wait for a wire or for credits.
    pub waiting_packets: u64,
    /// Lanes whose sender has not as many credits as there is room for at the other end: none, or the fabric has a defect.
    pub wrong_lanes: u64,
}

/// Somebody who is attached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// The host.
    pub host: String,
    /// "mads" or "packets".
    pub how: String,
    /// Its process.
    pub pid: u32,
}

/// A host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostLine {
    /// Its name.
    pub name: String,
    /// LID of its first port.
    pub lid: u16,
    /// State of the first port's link.
    pub state: String,
    /// Its IP address.
    pub address: String,
}

/// A message of JSON.
pub fn emit<T: Serialize>(value: &T) -> Vec<u8> {
    let mut message = vec![JSON];
    // maps have text for keys and numbers are whole: it cannot fail
    let _ = serde_json::to_writer(&mut message, value);
    message
}

/// Reads a message of JSON.
///
/// # Errors
/// `Malformed`.
pub fn parse<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T, AttachError> {
    match message.split_first() {
        Some((&JSON, text)) => {
            serde_json::from_slice(text).map_err(|_| AttachError::Malformed("JSON"))
        }
        _ => Err(AttachError::Malformed("no JSON")),
    }
}

impl Link {
    /// Asks, and waits for the answer. A refusal is an error.
    ///
    /// # Errors
    /// `Refused`, `Gone`, `Late`, `Malformed`, `System`.
    pub fn ask(&self, ask: &Ask) -> Result<Answer, AttachError> {
        match self.ask_plainly(ask)? {
            Answer::Refused { why, .. } => Err(AttachError::Refused(why)),
            answer => Ok(answer),
        }
    }

    /// Asks, and waits for the answer, whatever it is.
    ///
    /// # Errors
    /// As [`Link::ask`] but `Refused`.
    pub fn ask_plainly(&self, ask: &Ask) -> Result<Answer, AttachError> {
        self.send(&emit(ask), PATIENCE)?;
        let answer = self.receive(Some(PATIENCE))?.ok_or(AttachError::Late)?;
        parse(&answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn questions_come_back_as_they_were() {
        let ask = Ask::Link {
            node: "S-1".into(),
            port: 3,
            up: false,
        };
        assert_eq!(parse::<Ask>(&emit(&ask)), Ok(ask));
        let status = Answer::Status(Box::default());
        assert_eq!(parse::<Answer>(&emit(&status)), Ok(status));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse::<Ask>(&bytes);
            let _ = parse::<Answer>(&bytes);
        }
    }
}
