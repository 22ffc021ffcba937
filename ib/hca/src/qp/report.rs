//! What a queue pair says of itself to whoever runs the program: for incidents, and for those who ask while it runs.

use std::collections::BTreeMap;

use ferriband_admin::{PeerReport, PeerState, QpReport};
use ferriband_memory::host::ProcessRef;
use ferriband_transport::direct::Link;
use ferriband_transport::direct::layout::{QpEntry, find_qp};
use ferriband_transport::types::{AddressVector, Completion, MigState, QpAttr, QpState, QpType};
use ferriband_wire::Qpn;

use crate::base::incident;
use crate::lock;
use crate::qp::Qp;
use crate::qp::adapter::Adapter;

/// Names of services as users of RDMA know them.
fn service_name(qp_type: QpType) -> &'static str {
    match qp_type {
        QpType::Rc => "RC",
        QpType::Uc => "UC",
        QpType::Ud => "UD",
        QpType::XrcSend => "XRC_SEND",
        QpType::XrcRecv => "XRC_RECV",
    }
}

fn state_name(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Init => "INIT",
        QpState::Rtr => "RTR",
        QpState::Rts => "RTS",
        QpState::Sqd => "SQD",
        QpState::Sqe => "SQE",
        QpState::Err => "ERR",
    }
}

fn path_state_name(state: MigState) -> &'static str {
    match state {
        MigState::Migrated => "MIGRATED",
        MigState::Rearm => "REARM",
        MigState::Armed => "ARMED",
    }
}

/// Where a path leads.
fn end_of(av: &AddressVector) -> String {
    match av.is_global {
        true => av.dgid.to_string(),
        false => format!("LID {}", av.dlid.0),
    }
}

impl Qp {
    /// Everything that is known. Takes the queue pair's locks one after the other.
    pub(crate) fn report(&self) -> QpReport {
        if let Some(report) = self.packet_report() {
            return report;
        }
        let attr = *lock(&self.attr);
        let mut report = self.basic_report(&attr);
        self.add_peer(&mut report, &attr);
        report
    }

    /// What its attributes say.
    pub(super) fn basic_report(&self, attr: &QpAttr) -> QpReport {
        let connected = matches!(self.qp_type, QpType::Rc | QpType::Uc);
        let settled = matches!(
            self.state_now(),
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err
        );
        let wire = match (self.is_on_packets(), settled) {
            (true, _) if self.ctx.device.is_ethernet() => "roce",
            (true, _) => "packets",
            (false, true) => "direct",
            (false, false) => "",
        };
        let mut report = QpReport {
            qpn: self.qpn,
            service: service_name(self.qp_type).into(),
            state: state_name(self.state_now()).into(),
            wire: wire.into(),
            device: self.ctx.device.info.name.clone(),
            ..QpReport::default()
        };
        if settled && (connected || self.qp_type == QpType::XrcSend) {
            report.peer_qpn = attr.dest_qpn.0;
            report.peer = end_of(&attr.av);
            report.path_state = path_state_name(attr.path_mig_state).into();
            if attr.alt_port_num != 0 {
                report.alternate = end_of(&attr.alt_av);
            }
            report.timeout = attr.timeout;
            report.retry_cnt = attr.retry_cnt;
            report.rnr_retry = attr.rnr_retry;
            report.path_mtu = attr.path_mtu.bytes();
            report.peer_disconnected = self.adapter.ends.has(self.qpn);
        }
        report
    }

    /// What is known of the peer's process, if that is of this host. An extended target is no process's: whoever owns the shared receive
    /// queue that a request names answers it.
    pub(super) fn add_peer(&self, report: &mut QpReport, attr: &QpAttr) {
        let of_a_process = self.qp_type != QpType::XrcSend;
        if of_a_process && report.peer_qpn != 0 && self.ctx.device.is_local(&attr.av) {
            let slot = lock(&self.recv).peer_slot;
            let mut peer = self.adapter.peer_report(attr.dest_qpn, slot);
            let says_nothing =
                matches!(peer.state, PeerState::NotReceiving | PeerState::NoQueuePair);
            if self.is_on_packets() && says_nothing {
                // the entry is of the direct wire
                peer.state = PeerState::Unknown;
            }
            report.peer_process = Some(peer);
        }
    }

    /// A request of the direct wire ended with status 12 or 13. The send half is locked.
    #[cold]
    pub(super) fn direct_failed(&self, completion: &Completion) {
        // whoever changes attributes now may wait for the send half
        let attr = self.attr.try_lock().map(|attr| *attr).unwrap_or_default();
        let mut report = self.basic_report(&attr);
        self.add_peer(&mut report, &attr);
        incident::request_failed(completion, report);
    }
}

impl Adapter {
    /// What is known of the process that has, or had, a queue pair of this host. `slot` is where it was.
    fn peer_report(&self, qpn: Qpn, slot: u32) -> PeerReport {
        let known = |process: Option<ProcessRef>| {
            let watched = self
                .peers
                .watched
                .iter()
                .filter_map(|place| place.get().cloned());
            let mut links = watched.chain(self.peers.all().iter().cloned().collect::<Vec<_>>());
            links.find(|link| match process {
                Some(process) => {
                    (link.slot(), link.0.generation) == (process.slot, process.generation)
                }
                None => link.slot() == slot,
            })
        };
        let owner = self.process.registry.owner_of_qpn(qpn);
        let member = owner.and_then(|owner| self.process.registry.member(owner));
        let lives = member.is_some_and(|member| {
            let other_view =
                member.identity.pid_namespace != self.process.registry.identity().pid_namespace;
            other_view
                || ferriband_memory::remote::start_time(member.identity.pid as i32)
                    .is_ok_and(|start| start == member.identity.start_time)
        });
        let link = known(owner);
        let (Some(member), true, false) = (member, lives, link.as_ref().is_some_and(Link::dead))
        else {
            let pid = member
                .map(|member| member.identity.pid)
                .or_else(|| link.map(|link| link.0.pid));
            return PeerReport {
                pid: pid.unwrap_or(0),
                state: PeerState::Gone,
                ..PeerReport::default()
            };
        };
        let pid = member.identity.pid;
        let table = link.as_ref().and_then(|link| link.0.channel.get());
        let state = table.map_or(PeerState::Unknown, |channel| {
            let segment = &**channel.table;
            let index = find_qp(segment, qpn.0).map(|index| index as usize);
            match index.and_then(|index| QpEntry::read(segment, index)) {
                None if index.is_some_and(|index| QpEntry::has_failed(segment, index, qpn.0)) => {
                    PeerState::NotReceiving
                }
                None => PeerState::NoQueuePair,
                Some(entry) if entry.qpn != qpn.0 => PeerState::NoQueuePair,
                Some(entry) if entry.receives => PeerState::Receiving,
                Some(_) => PeerState::NotReceiving,
            }
        });
        PeerReport {
            pid,
            program: incident::program_of(pid).unwrap_or_default(),
            state,
            stopped: is_stopped(pid),
        }
    }
}

/// True if a process was stopped by a signal or a debugger (the state in /proc/PID/stat).
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // the program's name, in parentheses, may hold anything
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Counters without those that are 0.
pub(super) fn named<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
