//! What a heal was like: its cause, its paths, and how long each part of it took.

use crate::cause::Cause;
use crate::number::{Epoch, Ns, PathId};

/// A heal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Why the last life ended; [`Cause::First`] if there was none.
    pub cause: Cause,
    /// Its path.
    pub from: PathId,
    /// The path of the new one.
    pub to: PathId,
    /// The new life.
    pub epoch: Epoch,
    /// From the peer's notice of the failure to this side's, as the peer says; else 0.
    pub detect_ns: u64,
    /// From this side's notice to the end of its last fence.
    pub fence_ns: u64,
    /// From there to the connection.
    pub reconnect_ns: u64,
    /// From there to the end of the replay.
    pub replay_ns: u64,
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Lives that were begun.
    pub tries: u32,
    /// It is not over yet: told at 1, 10 and 60 s.
    pub lasts: bool,
    /// The peer is lost: told of a heal that was said to last.
    pub is_lost: bool,
}

const MARKS: [u64; 3] = [1_000_000_000, 10_000_000_000, 60_000_000_000];

/// The heal under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    began: Option<Ns>,
    fenced: Ns,
    connected: Ns,
    so_far: Report,
    marks: usize,
    ready: Option<Report>,
}

impl Record {
    /// A heal begins, unless one is under way.
    pub(super) fn begin(&mut self, cause: Cause, from: PathId, now: Ns) {
        if self.began.is_none() {
            self.began = Some(now);
            (self.fenced, self.connected, self.marks) = (now, now, 0);
            self.so_far = Report {
                cause,
                from,
                ..Report::default()
            };
        }
    }

    /// The peer had noticed so long before.
    pub(super) fn noticed_there(&mut self, since_us: u32) {
        self.so_far.detect_ns = u64::from(since_us) * 1000;
    }

    /// A fence is done: of a life, or of a queue pair that was never connected.
    pub(super) fn fenced(&mut self, now: Ns, is_move: bool) {
        (self.fenced, self.connected) = (now, now);
        self.so_far.tries += u32::from(!is_move);
    }

    /// The peer has answered, or is answered.
    pub(super) fn answered(&mut self, now: Ns) {
        self.connected = now;
    }

    pub(super) fn connected(&mut self, now: Ns) {
        self.connected = now;
    }

    /// It is over.
    pub(super) fn up(&mut self, to: PathId, epoch: Epoch, bytes: u64, now: Ns) {
        let Some(began) = self.began.take() else {
            return;
        };
        self.ready = Some(Report {
            to,
            epoch,
            bytes,
            fence_ns: self.fenced.since(began),
            reconnect_ns: self.connected.since(self.fenced),
            replay_ns: now.since(self.connected),
            lasts: false,
            ..self.so_far
        });
    }

    /// There will be no more of it: the peer is lost.
    pub(super) fn abandon(&mut self, now: Ns) {
        let Some(began) = self.began.take() else {
            return;
        };
        if self.marks > 0 {
            self.ready = Some(Report {
                fence_ns: self.fenced.since(began),
                reconnect_ns: now.since(self.fenced),
                is_lost: true,
                ..self.so_far
            });
        }
    }

    pub(super) fn since_us(&self, now: Ns) -> u32 {
        let since = self.began.map_or(0, |began| now.since(began) / 1000);
        u32::try_from(since).unwrap_or(u32::MAX)
    }

    pub(super) fn poll(&mut self) -> Option<Report> {
        self.ready.take()
    }

    pub(super) fn poll_timeout(&self) -> Option<Ns> {
        Some(self.began?.after(*MARKS.get(self.marks)?))
    }

    pub(super) fn handle_timeout(&mut self, now: Ns) {
        while self.poll_timeout().is_some_and(|at| now >= at) {
            self.marks += 1;
            let fence_ns = self.fenced.since(self.began.unwrap_or(now));
            let reconnect_ns = now.since(self.fenced);
            self.ready = Some(Report {
                fence_ns,
                reconnect_ns,
                lasts: true,
                ..self.so_far
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_peer_that_is_lost_is_told_of_where_its_heal_has_lasted() {
        for (lasts, told) in [(SECOND - 1, false), (SECOND, true)] {
            let mut record = Record::default();
            record.begin(Cause::QpError, PathId(0), Ns(0));
            record.fenced(Ns(1000), false);
            record.handle_timeout(Ns(lasts));
            assert_eq!(record.poll().is_some_and(|report| report.lasts), told);
            record.abandon(Ns(2 * SECOND));
            let report = record.poll();
            assert_eq!(report.is_some(), told);
            if let Some(report) = report {
                assert!(report.is_lost && !report.lasts && report.tries == 1);
                assert_eq!(report.fence_ns + report.reconnect_ns, 2 * SECOND);
            }
        }
    }
}
