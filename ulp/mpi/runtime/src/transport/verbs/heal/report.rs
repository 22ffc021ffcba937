//! What is said, counted and written down of heals: a line on standard error of one that lasts, the
//! counters, the file of heals for `ferriband why` and `ferriband status`, the trace.

use super::super::Net;
use super::super::link::Link;
use crate::trace;
use crate::transport::counters::ToldHeal;
use ferriband_heal::{Cause, Path, PathId, Report, State};
use ferriband_limit::without_signals;
use ferriband_mpi_proto::heals::{self, Note, Outcome, Parts, Way, Whose};
use ferriband_notes as notes;
use std::net::Ipv6Addr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A peer that has not answered the first question for so long is mentioned.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Of a heal that took so long its end is said, as it was said that it lasts.
const LONG_NS: u64 = 1_000_000_000;

impl Net {
    /// A heal is over, or lasts: the latter is said, each time that the session says so.
    #[cold]
    pub(super) fn tell_report(&mut self, peer: u32, report: &Report) {
        if report.cause == Cause::First {
            self.tell_first(peer, report);
            return;
        }
        let parts = Parts {
            detect: report.detect_ns,
            fence: report.fence_ns,
            reconnect: report.reconnect_ns,
            replay: report.replay_ns,
        };
        let outcome = match (report.lasts, report.is_lost) {
            (true, _) => Outcome::UnderWay,
            (_, true) => Outcome::Lost,
            _ => Outcome::Healed,
        };
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let whole_ms = parts.whole() / 1_000_000;
        let at_ms = (since_1970.as_millis() as u64).saturating_sub(whole_ms);
        match outcome {
            Outcome::UnderWay => self.say_that_it_lasts(peer, report, &parts),
            Outcome::Healed => {
                self.count(peer, report, parts, at_ms);
                if parts.whole() >= LONG_NS {
                    complain!(
                        "ferriband MPI: rank {}: the connection to rank {peer} by {} is made anew \
                         after {:.1} s; {} bytes were sent again",
                        self.connect.me,
                        self.name_to(peer),
                        parts.whole() as f64 / 1e9,
                        report.bytes
                    );
                }
            }
            // Whoever has lost the peer has said why.
            Outcome::Lost | Outcome::Migrated => (),
        }
        self.write_down(Note {
            whose: self.whose(peer),
            at_ms,
            outcome,
            cause: report.cause,
            from: self.way(peer, report.from),
            to: match outcome {
                Outcome::Healed => self.way(peer, report.to),
                _ => Way::default(),
            },
            parts,
            bytes: report.bytes,
            tries: report.tries,
            count: self.stats.heals.number,
            left_out: 0,
            verb: self.refused_to(peer),
        });
    }

    /// The verb that the adapter of the connection to `peer` has refused last, and why.
    fn refused_to(&self, peer: u32) -> String {
        let link = self.links[peer as usize].as_deref();
        let refused = link.and_then(|link| link.wire.refused);
        refused.map_or_else(String::new, |refused| refused.error().to_string())
    }

    /// A first connection is no heal.
    fn tell_first(&self, peer: u32, report: &Report) {
        let lasts_ns = report.fence_ns + report.reconnect_ns;
        if report.lasts && lasts_ns >= PATIENCE_NS {
            let (me, name) = (self.connect.me, self.name_to(peer));
            let seconds = lasts_ns / 1_000_000_000;
            complain!(
                "ferriband MPI: rank {me}: rank {peer} has not answered by {name} for {seconds} s; \
                 it may be computing, or {name} may lead nowhere"
            );
        }
    }

    fn say_that_it_lasts(&self, peer: u32, report: &Report, parts: &Parts) {
        let verb = self.refused_to(peer);
        let verb = if verb.is_empty() {
            verb
        } else {
            format!("; {verb}")
        };
        complain!(
            "ferriband MPI: rank {}: the connection to rank {peer} by {} has failed ({}) and is not \
             made anew after {} s (tries: {}; heal_for: {}{verb}); look at ferriband why --live",
            self.connect.me,
            self.name_to(peer),
            heals::words(report.cause),
            parts.whole() / 1_000_000_000,
            report.tries,
            self.heal_for()
        );
    }

    /// A connection has been made anew.
    fn count(&mut self, peer: u32, report: &Report, parts: Parts, at_ms: u64) {
        trace::healed(&trace::Healed {
            number: self.stats.heals.number as u32,
            peer,
            cause: heals::words(report.cause),
            parts,
            bytes: report.bytes,
            tries: report.tries,
        });
        self.stats.heals.count(ToldHeal {
            peer: u64::from(peer),
            cause: report.cause as u64,
            at_ms,
            detect_ns: report.detect_ns,
            fence_ns: report.fence_ns,
            reconnect_ns: report.reconnect_ns,
            replay_ns: report.replay_ns,
            bytes: report.bytes,
            tries: u64::from(report.tries),
        });
    }

    /// The connection to `peer` goes on by another path, without a heal.
    #[cold]
    pub(super) fn tell_migration(&mut self, peer: u32, cause: Cause, (from, to): (&Path, &Path)) {
        self.stats.heals.migrations += 1;
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.write_down(Note {
            whose: self.whose(peer),
            at_ms: since_1970.as_millis() as u64,
            outcome: Outcome::Migrated,
            cause,
            from: self.way_of(from),
            to: self.way_of(to),
            count: self.stats.heals.number,
            ..Note::default()
        });
    }

    /// Whose connection the one to `peer` is.
    fn whose(&self, peer: u32) -> Whose {
        let pid = std::process::id();
        Whose {
            pid,
            started: notes::started(pid).unwrap_or(0),
            program: notes::program_of(pid).unwrap_or_default(),
            rank: self.connect.me,
            peer,
        }
    }

    /// A line of the file, unless this process has written too many lately. What cannot be written
    /// is not: the program never suffers from it.
    fn write_down(&mut self, note: Note) {
        let is_short = matches!(note.outcome, Outcome::Healed | Outcome::Migrated);
        let is_long = !is_short || note.parts.whole() >= LONG_NS;
        let budget = &mut self.stats.heals.budgets[usize::from(is_long)];
        let Some(left_out) = budget.take(Instant::now()) else {
            return;
        };
        // The environment of a program with other rights than its user's is not to be trusted.
        let directory = notes::state_directory().filter(|_| notes::is_own_user());
        if let Some(directory) = directory {
            let line = Note { left_out, ..note }.emit();
            let _ = without_signals(|| notes::append(&directory, heals::FILE, line.as_bytes()));
        }
    }

    /// A path in words.
    fn way(&self, peer: u32, id: PathId) -> Way {
        let link = self.links[peer as usize].as_deref();
        let path = link.and_then(|link| link.wire.paths.known(id).copied());
        self.way_of(&path.unwrap_or_default())
    }

    fn way_of(&self, path: &Path) -> Way {
        let rail = self.rail(path.adapter).unwrap_or(&self.rail);
        let face = rail.port(path.port.max(1)).map(|port| port.face);
        let address = |lid: u16, gid: [u8; 16]| match self.rails.common.is_ethernet {
            true => Ipv6Addr::from(gid).to_canonical().to_string(),
            false => format!("LID {lid}"),
        };
        Way {
            adapter: rail.device.name.clone(),
            port: path.port,
            source: face.map_or_else(String::new, |face| {
                address(face.lid.wrapping_add(u16::from(path.slid_bits)), face.gid.0)
            }),
            destination: address(path.dlid, path.dgid),
        }
    }
}

impl Link {
    /// Whether a message has gone by it, or come.
    pub(in super::super) fn has_carried(&self) -> bool {
        self.sent != 0 || self.received != 0
    }

    /// Whether the connection was there, and is being made anew.
    pub(in super::super) fn is_healing(&self) -> bool {
        let state = self.wire.session.state();
        self.has_carried() && !matches!(state, State::Up | State::Idle | State::Lost)
    }
}
