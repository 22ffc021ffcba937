//! What a queue pair on packets says of its connection: progress, retries, counters, the way of its packets.

use std::sync::atomic::Ordering;

use ferriband_admin::{Counter, PathReport, Progress, QpReport, Try};
use ferriband_memory::host::PORT_STOPS;
use ferriband_transport::types::{Completion, Instant, QpAttr, WcStatus};
use ferriband_transport::{Cause, Drop as Lost, QpCounters};

use crate::base::incident;
use crate::device::fabric;
use crate::lock;
use crate::qp::Qp;
use crate::qp::packets::{Oddities, PacketSide};
use crate::qp::report::named;
use crate::wire::packets::path::TxPath;

impl Qp {
    /// The report of a queue pair that is on packets; None if it is not.
    pub(in crate::qp) fn packet_report(&self) -> Option<QpReport> {
        if !self.is_on_packets() {
            return None;
        }
        let mut guard = lock(&self.packets);
        let side = guard.as_deref_mut()?;
        self.add_to_port(side);
        Some(self.report_of(side))
    }

    /// Brings its port's counters up to date.
    pub(crate) fn publish_counts(&self) {
        if self.on_packets.load(Ordering::Acquire)
            && let Some(side) = lock(&self.packets).as_deref_mut()
        {
            self.add_to_port(side);
        }
    }

    fn report_of(&self, side: &PacketSide) -> QpReport {
        let attr = side.machine.query();
        let counters = side.machine.counters();
        let mut report = self.basic_report(&attr);
        self.add_peer(&mut report, &attr);
        report.path = side.path.as_ref().map(|path| self.path_report(path));
        report.counters = counters_by_name(&counters);
        if report.peer_qpn != 0 {
            report.progress = Some(progress(side, &attr));
        }
        report
    }

    /// A request ended with status 12 or 13; the program has not been told yet.
    #[cold]
    pub(super) fn packets_failed(&self, side: &PacketSide, completion: &Completion) {
        let counter = match completion.status {
            WcStatus::RnrRetryExcErr => Counter::RnrRetryExceeded,
            _ => Counter::RetryExceeded,
        };
        if let Some(roce) = self.adapter.opened_roce() {
            let ifindex = self.ctx.device.info.ifindex;
            roce.ports.counts.of(ifindex).add(counter, 1);
        }
        incident::request_failed(completion, self.report_of(side));
        if completion.status == WcStatus::RetryExcErr {
            self.look_into_path(&side.machine.query());
        }
    }

    /// The program gives the connection up; if what it sent is not answered, the fabric is asked
    /// why.
    #[cold]
    pub(in crate::qp) fn look_into_silence(&self) {
        let guard = lock(&self.packets);
        let Some(side) = guard.as_deref() else {
            return;
        };
        let attr = side.machine.query();
        let progress = progress(side, &attr);
        let newest = progress.tries.last().map(|one| one.psn);
        if progress.una != progress.next && newest == Some(progress.una) {
            self.look_into_path(&attr);
        }
    }

    fn look_into_path(&self, attr: &QpAttr) {
        fabric::look_into(
            &self.ctx.device.info.name,
            self.qpn,
            attr.port_num,
            &attr.av,
        );
    }

    /// Adds what this queue pair has counted since the last time to its port's counters. Not for each packet: when a timer goes off, when
    /// somebody asks, and at its end.
    pub(super) fn add_to_port(&self, side: &mut PacketSide) {
        let Some(roce) = self.adapter.opened_roce() else {
            return;
        };
        let port = roce.ports.counts.of(self.ctx.device.info.ifindex);
        let now = counts(&side.machine.counters(), &side.oddities);
        for ((counter, now), (_, then)) in now.0.iter().zip(side.published.0) {
            if *now != then {
                port.add(*counter, now.wrapping_sub(then));
            }
        }
        side.published = now;
    }

    fn path_report(&self, path: &TxPath) -> PathReport {
        let mut report = path.report();
        let info = &self.ctx.device.info;
        report.interface.clone_from(&info.interface);
        let registry = &self.adapter.process.registry;
        report.stopped = registry.port_word(info.ifindex) & PORT_STOPS != 0;
        report.fault_rules = registry.fault_rules().len();
        if !self.ctx.device.is_ethernet() {
            (report.up, report.carrier, report.has_source) = (true, true, true);
            return report;
        }
        let found = ferriband_memory::net::netdevs().unwrap_or_default();
        if let Some(interface) = found.iter().find(|one| one.ifindex == info.ifindex) {
            report.up = interface.up;
            report.carrier = interface.carrier;
            report.interface_mtu = interface.mtu;
            report.has_source = interface
                .addresses
                .iter()
                .any(|address| address.ip.to_string() == report.source);
        }
        report
    }
}

fn ago_ms(now: u64, then: Instant) -> f64 {
    // three decimals are enough, and shorter to read
    (now.saturating_sub(then.0) / 1000) as f64 / 1000.0
}

fn progress(side: &PacketSide, attr: &QpAttr) -> Progress {
    let now = ferriband_memory::wait::now().0;
    let diagnosis = side.machine.diagnosis();
    let una = diagnosis.una;
    Progress {
        acknowledged: (una != attr.sq_psn).then(|| una.sub(1).get()),
        una: una.get(),
        next: diagnosis.next.get(),
        retries_left: diagnosis.retries_left,
        rnr_left: diagnosis.rnr_left,
        round_trip_ns: diagnosis.round_trip_ns,
        heard_ago_ms: diagnosis
            .last_heard
            .map(|then| now.saturating_sub(then.0) / 1_000_000),
        tries: diagnosis
            .incidents
            .iter()
            .flatten()
            .map(|incident| {
                let (cause, code) = match incident.cause {
                    Cause::Timeout => ("timeout", 0),
                    Cause::Silence => ("silence", 0),
                    Cause::Gap => ("gap", 0),
                    Cause::ResponseLost => ("response_lost", 0),
                    Cause::ReceiverNotReady(code) => ("receiver_not_ready", code),
                    Cause::Refused(code) => ("refused", code),
                };
                Try {
                    ago_ms: ago_ms(now, incident.at),
                    cause: cause.into(),
                    code,
                    psn: incident.psn.get(),
                }
            })
            .collect(),
    }
}

/// What a queue pair counts for its port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts([(Counter, u64); 17]);

impl Default for Counts {
    fn default() -> Self {
        counts(&QpCounters::default(), &Oddities::default())
    }
}

fn counts(machine: &QpCounters, odd: &Oddities) -> Counts {
    use Counter::*;
    let dropped = |reason: Lost| machine.drops[reason as usize];
    let (pkey, qkey) = (dropped(Lost::PKey), dropped(Lost::QKey));
    let all: u64 = machine.drops.iter().sum();
    Counts([
        (DuplicateRequest, machine.duplicates),
        (OutOfSequence, machine.gaps_reported),
        (RcvdSeqErr, machine.gaps_heard),
        (SendRnrErr, machine.rnr_naks_sent),
        (RcvdRnrErr, machine.rnr_naks_heard),
        (AckTimeout, machine.timeouts),
        (Resent, machine.requests_repeated),
        (SentNak, machine.naks_sent),
        (RcvdNak, machine.naks_heard),
        (PKeyViolation, pkey),
        (QKeyViolation, qkey),
        (RcvConstraintErrors, pkey + qkey + odd.strangers),
        (WrongSource, odd.strangers),
        (Dropped, all - pkey - qkey),
        (EcnMarked, odd.marked),
        (CnpSent, odd.notices_out),
        (CnpHandled, odd.notices_in),
    ])
}

/// Names as the Linux kernel's Soft-RoCE has them where it counts the same.
fn counters_by_name(counters: &QpCounters) -> std::collections::BTreeMap<String, u64> {
    let dropped = |reason: Lost| counters.drops[reason as usize];
    named([
        ("rcvd_pkts", counters.packets_received),
        ("sent_requests", counters.requests_sent),
        ("sent_again", counters.requests_repeated),
        ("sent_answers", counters.answers_sent),
        ("duplicate_request", counters.duplicates),
        ("out_of_seq_request", counters.gaps_reported),
        ("kept_early", counters.held),
        ("rcvd_seq_err", counters.gaps_heard),
        ("gap_lists_sent", counters.gap_lists_sent),
        ("gap_lists_heard", counters.gap_lists_heard),
        ("send_rnr_err", counters.rnr_naks_sent),
        ("rcvd_rnr_err", counters.rnr_naks_heard),
        ("sent_nak_err", counters.naks_sent),
        ("rcvd_nak_err", counters.naks_heard),
        ("ack_timeout", counters.timeouts),
        ("ack_questions", counters.questions),
        ("drop_state", dropped(Lost::State)),
        ("drop_service", dropped(Lost::Service)),
        ("drop_pkey", dropped(Lost::PKey)),
        ("drop_qkey", dropped(Lost::QKey)),
        ("drop_psn", dropped(Lost::Psn)),
        ("drop_not_expected", dropped(Lost::NotExpected)),
        ("drop_length", dropped(Lost::Length)),
        ("drop_no_receive", dropped(Lost::NoReceive)),
        ("drop_unpolled", dropped(Lost::Unpolled)),
    ])
}
