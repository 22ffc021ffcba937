//! Answers to whoever runs the programs of this host: `ferriband` asks a process what its queue pairs do.
//!
//! Owns the answer's way: JSON in a memfd, whatever its length. Only processes of this domain, which are of one user, get here.

use std::os::fd::AsFd;

use ferriband_admin::{ANSWER, Member, REPORTED_QPS};
use ferriband_memory::host::Control;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::base::incident;
use crate::progress::Engine;

impl Engine {
    /// Tells the other end of a connection what this process has.
    #[cold]
    pub(super) fn answer(&self, control: &Control) {
        // Whoever asked may be gone again, and a process may be out of descriptors: then there is no answer.
        let Ok(text) = serde_json::to_vec(&self.member_report()) else {
            return;
        };
        let Ok(fd) = memfd_create("ferriband-report", MemfdFlags::CLOEXEC) else {
            return;
        };
        if ferriband_limit::fill(fd.as_fd(), &text).is_ok() {
            let _ = control.send(&[ANSWER], &[fd.as_fd()]);
        }
    }

    /// Brings the counters of ports up to date with what queue pairs have counted apart.
    pub(crate) fn publish_counters(&self) {
        let qps = self
            .table
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        for qp in qps.into_iter().flatten() {
            qp.publish_counts();
        }
    }

    fn member_report(&self) -> Member {
        let qps = self
            .table
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let pid = std::process::id();
        let mut report = Member {
            pid,
            program: incident::program_of(pid).unwrap_or_default(),
            ..Member::default()
        };
        for qp in qps.into_iter().flatten() {
            if report.qps.len() < REPORTED_QPS {
                report.qps.push(qp.report());
            } else {
                report.more_qps += 1;
            }
        }
        report
    }
}
