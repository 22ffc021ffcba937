//! What a queue pair and its process say of themselves.
//!
//! Owns: plain values. What is not known is left out, and a reader takes what is missing for unknown, so that both ends may be
//! of different versions.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process that has the adapter open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Its number in its own pid namespace.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
    /// Its queue pairs, in the order of their places.
    pub qps: Vec<QpReport>,
    /// Queue pairs that were left out for want of room.
    pub more_qps: u64,
}

/// A queue pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QpReport {
    /// Its number.
    pub qpn: u32,
    /// `RC`, `UC`, `UD`, `XRC_SEND`, `XRC_RECV`.
    pub service: String,
    /// `RESET`, `INIT`, `RTR`, `RTS`, `SQD`, `SQE`, `ERR`.
    pub state: String,
    /// `direct`, `roce`, or empty while it is not known.
    pub wire: String,
    /// Its device.
    pub device: String,
    /// The peer's queue pair; 0 for datagrams.
    #[serde(skip_serializing_if = "is_default")]
    pub peer_qpn: u32,
    /// The peer's GID, or its LID where there is none.
    #[serde(skip_serializing_if = "is_default")]
    pub peer: String,
    /// Ack timeout code: 4.096 us * 2^n, 0 infinite.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: u8,
    /// Transport retries allowed.
    #[serde(skip_serializing_if = "is_default")]
    pub retry_cnt: u8,
    /// RNR retries allowed; 7 is infinite.
    #[serde(skip_serializing_if = "is_default")]
    pub rnr_retry: u8,
    /// Path MTU in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub path_mtu: u32,
    /// What automatic path migration has made of the path: `MIGRATED`, `REARM`, `ARMED`; empty for
    /// what has no path of its own.
    #[serde(skip_serializing_if = "is_default")]
    pub path_state: String,
    /// Where the alternate path leads, in the form of `peer`; empty while none is loaded.
    #[serde(skip_serializing_if = "is_default")]
    pub alternate: String,
    /// The other side has ended the connection by the connection manager (DREQ), or somebody did so for a process that had died.
    #[serde(skip_serializing_if = "is_default")]
    pub peer_disconnected: bool,
    /// The way of its packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReport>,
    /// The process of this host that has, or had, the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_process: Option<PeerReport>,
    /// How far its requests have come (packets only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What it has counted, without what is 0. Names are those of the Linux kernel's hw_counters where there is one.
    #[serde(skip_serializing_if = "is_default")]
    pub counters: BTreeMap<String, u64>,
}

/// The way of a connection's packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathReport {
    /// Name of the interface; empty for the InfiniBand port, which has none.
    pub interface: String,
    /// Source address, or LID.
    pub source: String,
    /// Destination address.
    pub destination: String,
    /// UDP source port.
    pub source_port: u16,
    /// The interface is switched on.
    pub up: bool,
    /// The interface has a carrier.
    pub carrier: bool,
    /// The interface still has the source address.
    pub has_source: bool,
    /// `ferriband fault` has taken the link down.
    #[serde(skip_serializing_if = "is_default")]
    pub stopped: bool,
    /// Rules of `ferriband fault` that were in force.
    #[serde(skip_serializing_if = "is_default")]
    pub fault_rules: usize,
    /// The interface's MTU in bytes now; 0 if it is gone.
    pub interface_mtu: u32,
    /// What the network and the kernel said of packets to the destination, the newest last.
    #[serde(skip_serializing_if = "is_default")]
    pub troubles: Vec<Trouble>,
}

/// Something that the network or the kernel said of packets that were sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trouble {
    /// `port_unreachable`, `host_unreachable`, `net_unreachable`, `prohibited`, `too_big`, `icmp`, `no_route`, `no_room`, `refused`.
    pub kind: String,
    /// Who said so, if it was not this host's kernel. May be forged: it is a hint.
    #[serde(skip_serializing_if = "is_default")]
    pub from: String,
    /// ICMP type and code, or the errno.
    pub code: [i32; 2],
    /// With `too_big`: the largest IP packet that would have passed, if it was said.
    #[serde(skip_serializing_if = "is_default")]
    pub mtu: u32,
    /// How often.
    pub count: u64,
    /// Milliseconds since the newest.
    pub ago_ms: u64,
}

/// What is known of the process that a peer queue pair belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerState {
    /// Nothing.
    #[default]
    Unknown,
    /// The process is gone.
    Gone,
    /// The process lives, but has no queue pair of that number that could take requests: it was destroyed, reset, or never in RTR.
    NoQueuePair,
    /// The queue pair is there, but takes no requests: it is in the error state.
    NotReceiving,
    /// The queue pair takes requests.
    Receiving,
}

/// The process of this host that has, or had, a peer queue pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerReport {
    /// Its number; 0 if it is not known any more.
    pub pid: u32,
    /// Name of its program; empty if it is not known any more.
    #[serde(skip_serializing_if = "is_default")]
    pub program: String,
    /// What is known.
    pub state: PeerState,
    /// It is stopped (SIGSTOP, a debugger).
    #[serde(skip_serializing_if = "is_default")]
    pub stopped: bool,
}

/// How far a requester has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The newest PSN that the peer acknowledged; None if it never acknowledged any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<u32>,
    /// The oldest PSN that it did not.
    pub una: u32,
    /// The PSN after the newest that was sent.
    pub next: u32,
    /// Retries left.
    pub retries_left: u8,
    /// RNR retries left.
    pub rnr_left: u8,
    /// Smoothed round trip in nanoseconds; 0: never measured.
    pub round_trip_ns: u64,
    /// Milliseconds since the peer's latest packet; None: none ever came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard_ago_ms: Option<u64>,
    /// What was sent again, oldest first: the eight newest.
    #[serde(skip_serializing_if = "is_default")]
    pub tries: Vec<Try>,
}

impl Progress {
    /// Packets that wait for an acknowledgement.
    pub fn outstanding(&self) -> u32 {
        self.next.wrapping_sub(self.una) & 0xff_ffff
    }
}

/// Something was sent again, or refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Try {
    /// Milliseconds ago, with three decimals.
    pub ago_ms: f64,
    /// `timeout`, `silence`, `gap`, `response_lost`, `receiver_not_ready`, `refused`.
    pub cause: String,
    /// RNR timer code or NAK code.
    #[serde(skip_serializing_if = "is_default")]
    pub code: u8,
    /// From which PSN on it was sent again.
    pub psn: u32,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outstanding_wraps_with_the_sequence_numbers() {
        let progress = Progress {
            una: 0xff_fffe,
            next: 3,
            ..Progress::default()
        };
        assert_eq!(progress.outstanding(), 5);
    }

    #[test]
    fn what_is_missing_is_unknown_and_what_is_new_is_passed_over() {
        let read: QpReport =
            serde_json::from_str(r#"{"qpn": 17, "colour": "red", "progress": {"una": 5}}"#)
                .unwrap();
        assert_eq!(read.qpn, 17);
        assert_eq!(read.progress.unwrap().heard_ago_ms, None);
    }
}
