//! From what is known of a failure to what may have been its cause, the likeliest first.
//!
//! Owns: the judgement, as a pure function, so that every case can be tested. Must not know: where the facts come from, how
//! they are shown.

use ferriband_admin::{
    ConnectionFailure, Event, PathLost, PeerState, QpReport, RequestFailure, Trouble,
};
use serde::Serialize;

/// Headers and trailer of the largest packet around its payload: IPv6 40, UDP 8, BTH 12, XRCETH 4, RETH 16, immediate 4, ICRC 4.
const OVERHEAD_BYTES: u32 = 88;
/// Patience below which a busy host, and not a dead one, may be the matter.
const SHORT_NS: u64 = 200_000_000;
/// Every interface carries this much; what carries more may lead to a switch that does not.
const COMMON_MTU: u32 = 1500;

/// How sure a cause is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Seen.
    Certain,
    /// What was seen points there.
    Likely,
    /// Nothing speaks against it.
    Possible,
}

/// What may have been the matter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Cause {
    /// How sure it is.
    pub certainty: Certainty,
    /// What happened.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Causes in the making.
#[derive(Default)]
struct Causes(Vec<Cause>);

impl Causes {
    fn add(&mut self, certainty: Certainty, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Cause {
            certainty,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    fn none_yet(&self) -> bool {
        self.0
            .iter()
            .all(|cause| cause.certainty == Certainty::Possible)
    }

    /// The surest first; those alike stay in order.
    fn ranked(mut self) -> Vec<Cause> {
        self.0.sort_by_key(|cause| cause.certainty);
        self.0
    }
}

use Certainty::{Certain, Likely, Possible};

/// What may have caused an incident.
pub fn of(event: &Event) -> Vec<Cause> {
    match event {
        Event::RequestFailed(failure) if failure.status == 13 => not_ready(failure),
        Event::RequestFailed(failure) => of_silence(&failure.qp),
        Event::ConnectionFailed(failure) => of_connection(failure),
        Event::PathLost(lost) => of_path(lost),
    }
}

/// What a live fabric said.
fn of_path(lost: &PathLost) -> Vec<Cause> {
    let mut causes = Causes::default();
    causes.add(
        Certain,
        format!("the fabric {} says of packets from LID {} to LID {}: {}", lost.fabric, lost.from, lost.to, lost.says),
        format!("ferriband fabric status --name {0} shows what is down; what becomes of such packets now: ferriband fabric why {1} {2} --name {0}", lost.fabric, lost.from, lost.to),
    );
    causes.ranked()
}

/// How long a requester waits for an acknowledgement in all, in nanoseconds; None: for ever.
pub fn patience_ns(qp: &QpReport) -> Option<u64> {
    match qp.timeout & 31 {
        0 => None,
        code => Some((4096u64 << code) * (u64::from(qp.retry_cnt) + 1)),
    }
}

/// Status 12: the peer did not answer.
pub fn of_silence(qp: &QpReport) -> Vec<Cause> {
    let mut causes = Causes::default();
    if qp.peer_disconnected {
        causes.add(
            Certain,
            format!(
                "the other side has disconnected (its DREQ came): its queue pair {:#08x} answers no more",
                qp.peer_qpn
            ),
            "agree on the end of what is under way before rdma_disconnect, and post nothing more after RDMA_CM_EVENT_DISCONNECTED; if the program there did not mean to, look why it ended",
        );
    }
    of_peer_process(&mut causes, qp);
    of_interface(&mut causes, qp);
    if let Some(path) = &qp.path {
        for trouble in &path.troubles {
            of_trouble(&mut causes, qp, trouble);
        }
    }
    if causes.none_yet() && qp.wire == "roce" {
        of_nothing_heard(&mut causes, qp);
    }
    if causes.none_yet() && qp.wire != "roce" {
        causes.add(
            Possible,
            "the peer's process did not answer in time",
            "look whether it ended, and why (its exit status, a core file, the kernel's log)",
        );
    }
    if let Some(patience) = patience_ns(qp).filter(|patience| *patience < SHORT_NS) {
        causes.add(
            Possible,
            format!(
                "the patience was short: timeout {} and retry_cnt {} give up after {}, while a process may wait longer for a core",
                qp.timeout,
                qp.retry_cnt,
                crate::text::duration(patience as f64)
            ),
            "set timeout to 14 or more and retry_cnt to 7 with ibv_modify_qp (perftest: --qp-timeout)",
        );
    }
    causes.ranked()
}

/// A peer of this host: its process can be looked at.
fn of_peer_process(causes: &mut Causes, qp: &QpReport) {
    let Some(peer) = &qp.peer_process else { return };
    let name = match (peer.program.as_str(), peer.pid) {
        ("", 0) => "the peer's process".to_owned(),
        ("", pid) => format!("the peer's process (pid {pid})"),
        (program, pid) => format!("the peer's process ({program}, pid {pid})"),
    };
    match peer.state {
        // as is to be expected after that
        PeerState::NoQueuePair | PeerState::NotReceiving if qp.peer_disconnected => {}
        PeerState::Gone => causes.add(
            Certain,
            format!("{name} has ended"),
            "look why: its output and exit status, a core file, the kernel's log (out of memory?)",
        ),
        PeerState::NoQueuePair => causes.add(
            Certain,
            format!("{name} lives, but has no queue pair {:#08x} that takes requests: it was destroyed or reset, or is not in RTR yet", qp.peer_qpn),
            "agree on the end of a connection before destroying its queue pair; and send only when both sides are in RTR",
        ),
        PeerState::NotReceiving => causes.add(
            Certain,
            format!(
                "{name} lives, but its queue pair {:#08x} takes no requests: it is in the error state (ERR), since the program there disconnected or a request of it failed",
                qp.peer_qpn
            ),
            "agree on the end of what is under way before rdma_disconnect; else look for the error that the other side got first",
        ),
        PeerState::Receiving | PeerState::Unknown if peer.stopped => causes.add(
            Certain,
            format!("{name} is stopped (SIGSTOP or a debugger)"),
            "let it go on (kill -CONT), or raise timeout while debugging",
        ),
        PeerState::Receiving => causes.add(
            Possible,
            format!("{name} lives, and its queue pair takes requests: it answered too late, or expected other packets (PSN, peer)"),
            "compare dest_qp_num, rq_psn and sq_psn of both sides; look whether it gets a core",
        ),
        PeerState::Unknown => {}
    }
}

/// This side's interface.
fn of_interface(causes: &mut Causes, qp: &QpReport) {
    let Some(path) = &qp.path else { return };
    let name = &path.interface;
    let native = name.is_empty();
    if path.interface_mtu == 0 && !native {
        return causes.add(
            Certain,
            format!("the interface {name} is gone"),
            "programs have to open the device anew when it is back",
        );
    }
    if path.stopped {
        causes.add(
            Certain,
            format!(
                "the link of {} is down by a fault that was asked for",
                qp.device
            ),
            format!("ferriband fault link up {}", qp.device),
        );
    } else if path.fault_rules > 0 {
        causes.add(
            Likely,
            "packets of this host fail by rules that were asked for (ferriband fault)",
            "ferriband fault list; ferriband fault clear all",
        );
    }
    if native {
        return;
    }
    if !path.up {
        causes.add(
            Certain,
            format!("the interface {name} is switched off"),
            format!("ip link set {name} up"),
        );
    } else if !path.carrier {
        causes.add(
            Certain,
            format!("the interface {name} has no carrier: no cable, no bridge, or its other end is switched off"),
            format!("look at the other end (ip -d link show {name}; ethtool {name})"),
        );
    }
    if !path.has_source {
        causes.add(
            Certain,
            format!(
                "the address {} was taken from {name}: answers go nowhere",
                path.source
            ),
            "connect anew, with a GID that is still there",
        );
    }
    if qp.path_mtu + OVERHEAD_BYTES > path.interface_mtu {
        causes.add(
            Certain,
            format!(
                "packets with a path MTU of {} do not fit {name}, whose MTU is {} now",
                qp.path_mtu, path.interface_mtu
            ),
            format!(
                "ip link set {name} mtu {} or more, or connect anew",
                qp.path_mtu + OVERHEAD_BYTES
            ),
        );
    }
}

/// What the network and the kernel said.
fn of_trouble(causes: &mut Causes, qp: &QpReport, trouble: &Trouble) {
    let Some(path) = &qp.path else { return };
    let (there, from) = (&path.destination, &trouble.from);
    let ever_heard = heard(qp);
    match trouble.kind.as_str() {
        "port_unreachable" if from == there && ever_heard => causes.add(
            Likely,
            format!("{there} says that nobody has UDP port 4791 there any more: the peer's program has ended"),
            "look why it ended: its output and exit status, a core file, the kernel's log of that host",
        ),
        "port_unreachable" if from == there => causes.add(
            Likely,
            format!("{there} says that nobody has UDP port 4791 there: no program with a RoCE adapter runs"),
            "start the peer's program there first; if it runs, ask: ferriband doctor (there)",
        ),
        "host_unreachable" if *from == path.source => causes.add(
            Likely,
            format!("nobody on the link of {} answers for {there} (ARP or neighbour discovery)", path.interface),
            format!("is that host up, and its address right? ping -I {} {there}", path.source),
        ),
        "host_unreachable" | "net_unreachable" | "port_unreachable" => causes.add(
            Likely,
            format!("{from} says that {there} cannot be reached"),
            format!("look at the routes there and back: ip route get {there}; ping -I {} {there}", path.source),
        ),
        "prohibited" if from.is_empty() => causes.add(
            Likely,
            "this host's kernel refused to send (EPERM): a firewall",
            "allow UDP to port 4791 in the rules of this host (nft list ruleset)",
        ),
        "prohibited" => causes.add(
            Likely,
            format!("{from} says that packets to {there} are forbidden: a firewall"),
            "allow UDP to port 4791 there",
        ),
        "too_big" => causes.add(
            Likely,
            match (from.is_empty(), trouble.mtu) {
                (true, _) => format!("packets were longer than {} takes", path.interface),
                (false, 0) => format!("{from} could not pass on packets of this length"),
                (false, mtu) => format!("{from} passes on packets up to {mtu} bytes only"),
            },
            "connect with a smaller path MTU (perftest: -m), or raise the MTU along the way",
        ),
        "no_room" => causes.add(
            Possible,
            format!("{} packets found no room in this host's queues", trouble.count),
            "raise txqueuelen and net.core.wmem_max, or limit the rate",
        ),
        "no_route" => causes.add(
            Likely,
            format!(
                "this host had no way to {there}: {}",
                std::io::Error::from_raw_os_error(trouble.code[0])
            ),
            format!("ip route get {there} from {}", path.source),
        ),
        _ => {}
    }
}

/// A packet of the peer ever came.
fn heard(qp: &QpReport) -> bool {
    qp.progress
        .as_ref()
        .is_some_and(|progress| progress.heard_ago_ms.is_some())
}

/// Nobody said anything: what the silence itself tells.
fn of_nothing_heard(causes: &mut Causes, qp: &QpReport) {
    let there = qp
        .path
        .as_ref()
        .map_or("the peer's host", |path| path.destination.as_str());
    let progress = qp.progress.clone().unwrap_or_default();
    let timeout_ms = patience_ns(qp).unwrap_or(0) / 1_000_000;
    let number = qp.peer_qpn;
    match progress.heard_ago_ms {
        None => {
            causes.add(
                Likely,
                format!("no packet ever came from {there}: its queue pair {number:#08x} is not in RTR, or the numbers that were exchanged (QPN, GID) are wrong"),
                "compare what both sides print as their QPN and GID; both must be in RTR before the first request",
            );
            causes.add(
                Possible,
                format!("UDP port 4791 of {there} is closed on the way, or another user or the kernel's rdma_rxe has it there"),
                "ask there: ferriband doctor; and look what comes in: ferriband dump, or tcpdump udp port 4791",
            );
        }
        Some(ago) if ago <= timeout_ms => {
            causes.add(
                Likely,
                format!("the peer sends, but what this side asked for is not acknowledged: packets from PSN {:#08x} on get lost", progress.una),
                "look for drops: ferriband counters on both sides, ip -s link, nstat UdpRcvbufErrors; raise retry_cnt",
            );
        }
        Some(ago) => {
            causes.add(
                Likely,
                format!(
                    "{there} answered until {} ago, then no more: its queue pair {number:#08x} failed or was destroyed, its process was stopped, or that host or the way there went down",
                    crate::text::duration(ago as f64 * 1e6)
                ),
                "look for the first error on the other side; is the host still there? (ping)",
            );
        }
    }
    let big = qp.path.as_ref().is_some_and(|path| {
        path.interface_mtu > COMMON_MTU && qp.path_mtu + OVERHEAD_BYTES > COMMON_MTU
    });
    if big {
        causes.add(
            Possible,
            format!(
                "something on the way drops packets of {} bytes without a word, while small ones pass",
                qp.path_mtu + OVERHEAD_BYTES
            ),
            format!("try: ping -M do -s {} {there}; else connect with path MTU 1024", qp.path_mtu + 60),
        );
    }
}

/// Status 13: the peer had no receive.
fn not_ready(failure: &RequestFailure) -> Vec<Cause> {
    let qp = &failure.qp;
    let mut causes = Causes::default();
    causes.add(
        Certain,
        format!(
            "the peer's queue pair {:#08x} had no receive posted, {} times in a row",
            qp.peer_qpn,
            u32::from(qp.rnr_retry) + 1
        ),
        "post receives before the other side may send, as many as it may send at once, and post anew at once when one completes (or use an SRQ)",
    );
    if qp.rnr_retry < 7 {
        causes.add(
            Likely,
            format!("this side gave up early: rnr_retry {}", qp.rnr_retry),
            "set rnr_retry to 7 (for ever) with ibv_modify_qp or in rdma_conn_param.rnr_retry_count; the peer says by min_rnr_timer how long to wait",
        );
    }
    if let Some(peer) = qp.peer_process.as_ref().filter(|peer| peer.stopped) {
        causes.add(
            Likely,
            format!(
                "the peer's process ({}, pid {}) is stopped",
                peer.program, peer.pid
            ),
            "let it go on (kill -CONT)",
        );
    }
    causes.ranked()
}

/// A connection that did not come about.
fn of_connection(failure: &ConnectionFailure) -> Vec<Cause> {
    let mut causes = Causes::default();
    let there = match failure.destination.as_str() {
        "" => "the other side",
        address => address,
    };
    if failure.up == Some(false) {
        causes.add(
            Certain,
            format!("the interface {} is switched off", failure.interface),
            format!("ip link set {} up", failure.interface),
        );
    }
    match (failure.outcome.as_str(), failure.datagram, failure.reason) {
        ("rejected", false, 8) | ("rejected", true, 1) => causes.add(
            Certain,
            format!("a host answers at {there}, but no program of it listens at that port"),
            "start the server first, with the same port and port space (RDMA_PS_TCP, UDP, IB, SDP), by the same user",
        ),
        ("rejected", false, 28) => causes.add(
            Certain,
            format!("the program at {there} said no (rdma_reject)"),
            "look at what it prints; the private data of the event may say why",
        ),
        ("rejected", true, _) => causes.add(
            Certain,
            format!("the service at {there} said no: {}", failure.reason_text),
            "look at what the program there prints",
        ),
        ("rejected", false, 4) => causes.add(
            Likely,
            format!("{there} gave up waiting for this side's next message"),
            "this program was slow, or messages were lost: look at its load, and at ferriband counters",
        ),
        ("rejected", false, 10) => causes.add(
            Likely,
            format!("{there} took the connection for an old one that it still knew (stale)"),
            "try again: what was left of it is gone now",
        ),
        ("rejected", false, 12 | 13) => causes.add(
            Certain,
            format!("the host at {there} does not know the address that was asked for"),
            "compare the addresses: ferriband status (there); rp_filter or an address translator may have changed them",
        ),
        ("rejected", ..) => causes.add(
            Certain,
            format!("{there} refused: {} (reason {})", failure.reason_text, failure.reason),
            "IBA 12.6.7.2 lists the reasons; the other side's program or adapter has to change",
        ),
        (_, _, _) if !failure.active => causes.add(
            Likely,
            format!("{there} asked, but did not answer what this side replied: it ended, or packets back to it are lost"),
            "look at the program there; can this host reach it? (ping)",
        ),
        (_, _, _) => {
            causes.add(
                Likely,
                format!("nobody answered at {there}: no RDMA program runs on that host, or the address is not its RDMA device's"),
                "start the server first; ask there: ferriband status",
            );
            causes.add(
                Possible,
                "UDP port 4791 is closed on the way, or another user or the kernel's rdma_rxe has it there",
                "ask there: ferriband doctor; look at firewalls for UDP 4791",
            );
        }
    }
    causes.ranked()
}

#[cfg(test)]
mod tests;
