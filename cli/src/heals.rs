//! Heals of MPI's connections, as ranks have written them down: for `why` and `status`.
//!
//! Owns: reading the file of heals, which lines are about the same heal, whether one that was under
//! way still is, and how a heal reads. Must not know: how a heal goes on in a rank, which is
//! MPI's. Source of the parts: Koop, Shamis, Rabinovitz, Panda, section IV-B.

use crate::failure::Failure;
use crate::text::{counted, utc};
use ferriband_admin::{Event, Incident};
use ferriband_heal::Cause;
use ferriband_mpi_proto::heals::{self, Note, Outcome, Parts, Way};
use ferriband_notes as notes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines of one heal say when it began a little differently; another of the same connection begins
/// a second later at the earliest, because only a heal that lasts so long has several lines.
const ALIKE_MS: u64 = 900;
/// Width of the left column.
const LABEL: usize = 12;

/// A heal, as far as can be known.
#[derive(Clone, Debug)]
pub struct Heal {
    /// What its rank has written down last.
    pub note: Note,
    /// The rank's process is there.
    pub is_alive: bool,
    /// Why the connection failed, as the other end says that told this one, if it is here.
    pub there: Option<Cause>,
    /// What the live fabric said of the path, if it is on one.
    pub fabric: Option<String>,
}

/// A path, for programs.
#[derive(Serialize)]
struct ShownWay<'a> {
    adapter: &'a str,
    port: u8,
    source: &'a str,
    destination: &'a str,
}

/// A heal, for programs.
#[derive(Serialize)]
struct Shown<'a> {
    event: &'static str,
    /// `healed`, `under_way`, `lost`, `migrated`: there was no need of one; or `ended`: its process
    /// has ended first.
    state: &'static str,
    at_ms: u64,
    #[serde(flatten)]
    rank: ShownRank<'a>,
    cause: &'static str,
    /// Of a cause `peer`: the other end's.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause_there: Option<&'static str>,
    /// What the live fabric said of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    fabric: Option<&'a str>,
    from: ShownWay<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<ShownWay<'a>>,
    #[serde(flatten)]
    parts: BTreeMap<String, f64>,
    bytes: u64,
    tries: u32,
    heals_of_rank: u64,
    left_out: u64,
    /// The verb that the adapter refused last, and why.
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
}

#[derive(Serialize)]
struct ShownRank<'a> {
    pid: u32,
    program: &'a str,
    rank: u32,
    peer: u32,
}

/// What was written down, the oldest first, and how many lines could not be read.
pub fn read(directory: &Path) -> Result<(Vec<Heal>, usize), Failure> {
    let lines = notes::read(directory, heals::FILE)
        .map_err(|error| Failure::io("read heals in", &directory.display().to_string(), &error))?;
    let count = lines.len();
    let read: Vec<Note> = lines.iter().filter_map(|line| Note::parse(line)).collect();
    let broken = count - read.len();
    let is_alive = |note: &Note| notes::started(note.whose.pid) == Some(note.whose.started);
    let notes = joined(read);
    let heals = notes.iter().map(|note| Heal {
        is_alive: is_alive(note),
        there: cause_there(note, &notes),
        fabric: None,
        note: note.clone(),
    });
    Ok((heals.collect(), broken))
}

/// Has each heal know what its adapter has written down of the path at that time, which it asked
/// the fabric when it gave the path up; and takes those incidents out.
pub fn join(heals: &mut [Heal], incidents: &mut Vec<Incident>) {
    incidents.retain(|incident| {
        let Event::PathLost(lost) = &incident.event else {
            return true;
        };
        let path = (format!("LID {}", lost.from), format!("LID {}", lost.to));
        let is_of = |heal: &&mut Heal| {
            let note = &heal.note;
            let is_path = (&note.from.source, &note.from.destination) == (&path.0, &path.1);
            let is_then = note.at_ms.abs_diff(incident.at_ms) < ALIKE_MS;
            note.whose.pid == incident.pid && is_path && is_then
        };
        let all = heals.iter_mut().filter(is_of);
        let nearest = all.min_by_key(|heal| heal.note.at_ms.abs_diff(incident.at_ms));
        let is_joined = nearest.is_some();
        if let Some(heal) = nearest {
            heal.fabric.get_or_insert_with(|| lost.says.clone());
        }
        !is_joined
    });
}

/// What the other end's line says of a failure that this end was told of.
fn cause_there(note: &Note, notes: &[Note]) -> Option<Cause> {
    let is_other_end = |other: &&Note| {
        other.whose.rank == note.whose.peer
            && other.whose.peer == note.whose.rank
            && other.whose.program == note.whose.program
            && other.at_ms.abs_diff(note.at_ms) < ALIKE_MS
            && other.cause != Cause::Peer
    };
    let is_told = note.cause == Cause::Peer;
    let others = notes.iter().filter(|_| is_told).filter(is_other_end);
    let there = others.min_by_key(|other| other.at_ms.abs_diff(note.at_ms))?;
    Some(there.cause)
}

/// Of the lines of one heal the last one.
fn joined(notes: Vec<Note>) -> Vec<Note> {
    let mut joined: Vec<Note> = Vec::new();
    for note in notes {
        let is_alike = |other: &&mut Note| {
            other.whose == note.whose && other.at_ms.abs_diff(note.at_ms) < ALIKE_MS
        };
        let before = joined
            .iter_mut()
            .rev()
            .find(is_alike)
            .filter(|other| other.outcome == Outcome::UnderWay);
        match before {
            Some(before) => {
                let left_out = before.left_out + note.left_out;
                *before = Note { left_out, ..note };
            }
            None => joined.push(note),
        }
    }
    joined
}

impl Serialize for Heal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Heal {
    /// Whether it is being made anew now.
    pub fn is_under_way(&self) -> bool {
        self.note.outcome == Outcome::UnderWay && self.is_alive
    }

    /// For how long it took, or takes, in milliseconds.
    pub fn whole_ms(&self) -> f64 {
        if !self.is_under_way() {
            return milliseconds(self.note.parts.whole());
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        (now.as_millis() as u64).saturating_sub(self.note.at_ms) as f64
    }

    fn state(&self) -> &'static str {
        match self.note.outcome {
            Outcome::UnderWay if !self.is_alive => "ended",
            outcome => outcome.name(),
        }
    }

    fn shown(&self) -> Shown<'_> {
        let note = &self.note;
        let named = Parts::NAMES.iter().zip(note.parts.all());
        let mut parts: BTreeMap<String, f64> = named
            .map(|(name, ns)| (format!("{name}_ms"), milliseconds(ns)))
            .collect();
        parts.insert("whole_ms".to_owned(), self.whole_ms());
        Shown {
            event: "heal",
            state: self.state(),
            at_ms: note.at_ms,
            rank: ShownRank {
                pid: note.whose.pid,
                program: &note.whose.program,
                rank: note.whose.rank,
                peer: note.whose.peer,
            },
            cause: heals::name(note.cause),
            cause_there: self.there.map(heals::name),
            fabric: self.fabric.as_deref(),
            from: ShownWay::of(&note.from),
            to: shown_way(&note.to),
            parts,
            bytes: note.bytes,
            tries: note.tries,
            heals_of_rank: note.count,
            left_out: note.left_out,
            verb: &note.verb,
        }
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let note = &self.note;
        let whose = &note.whose;
        let whole = format!("{:.3} ms", self.whole_ms());
        let what = match self.state() {
            "healed" => format!("failed and was made anew in {whole}"),
            "migrated" => "went on by its second path, without a heal".to_owned(),
            "lost" => format!("failed, and the rank was lost after {whole}"),
            "ended" => format!("failed, and the process ended {whole} later at the earliest"),
            _ => format!("has failed and is being made anew since {whole}"),
        };
        let line = |label: &str, text: String| format!("  {label:<LABEL$}{}", clean(&text));
        let mut lines = vec![format!(
            "{}  {} (pid {}): the connection of rank {} to rank {} {what}",
            utc(note.at_ms),
            clean(&whose.program),
            whose.pid,
            whose.rank,
            whose.peer
        )];
        let mut cause = format!("{} ({})", heals::words(note.cause), heals::name(note.cause));
        if let Some(there) = self.there {
            cause += &format!(": {} there ({})", heals::words(there), heals::name(there));
        }
        lines.push(line("cause", cause));
        if !note.verb.is_empty() {
            lines.push(line("refused", note.verb.clone()));
        }
        lines.push(line("path", way_words(&note.from)));
        if let Some(fabric) = &self.fabric {
            lines.push(line("fabric", fabric.clone()));
        }
        if !note.to.adapter.is_empty() {
            let is_same = note.to == note.from;
            let to = if is_same {
                "the same".to_owned()
            } else {
                way_words(&note.to)
            };
            lines.push(line("new path", to));
        }
        if note.outcome != Outcome::Migrated {
            let named = Parts::NAMES.iter().zip(note.parts.all());
            let parts: Vec<String> = named
                .map(|(name, ns)| format!("{name} {:.3} ms", milliseconds(ns)))
                .collect();
            lines.push(line("parts", parts.join(", ")));
            let tries = counted(u64::from(note.tries), "try", "tries");
            lines.push(line(
                "replay",
                format!("{} bytes were sent again; {tries}", note.bytes),
            ));
        }
        let mut count = format!(
            "{} of this rank until then",
            counted(note.count, "heal", "heals")
        );
        if note.left_out > 0 {
            count += &format!("; {} before were not written down", note.left_out);
        }
        lines.push(line("heals", count));
        if self.is_under_way() {
            let look = format!(
                "whether rank {} runs (it may compute, or be stopped); ferriband why --live; ferriband fault list",
                whose.peer
            );
            lines.push(line("look at", look));
        }
        lines
    }
}

impl<'a> ShownWay<'a> {
    fn of(way: &'a Way) -> Self {
        Self {
            adapter: &way.adapter,
            port: way.port,
            source: &way.source,
            destination: &way.destination,
        }
    }
}

/// None of a path that is not known.
fn shown_way(way: &Way) -> Option<ShownWay<'_>> {
    (!way.adapter.is_empty()).then(|| ShownWay::of(way))
}

fn way_words(way: &Way) -> String {
    format!(
        "{} port {}: {} -> {}",
        way.adapter, way.port, way.source, way.destination
    )
}

fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_admin::PathLost;
    use ferriband_mpi_proto::heals::Whose;

    fn note(at_ms: u64, outcome: Outcome) -> Note {
        let way = |destination: &str| Way {
            adapter: "ferri0".to_owned(),
            port: 1,
            source: "LID 3".to_owned(),
            destination: destination.to_owned(),
        };
        Note {
            whose: Whose {
                pid: 17,
                started: 5,
                program: "solver\u{1b}[2J".to_owned(),
                rank: 2,
                peer: 9,
            },
            at_ms,
            outcome,
            cause: Cause::QpError,
            from: way("LID 4"),
            to: way("LID 4"),
            parts: Parts {
                detect: 10_000,
                fence: 200_000,
                reconnect: 3_000_000,
                replay: 40_000,
            },
            bytes: 4096,
            tries: 1,
            count: 7,
            left_out: 2,
            verb: "ibv_post_send: Cannot allocate memory".to_owned(),
        }
    }

    #[test]
    fn lines_of_one_heal_are_one() {
        let found = joined(vec![
            note(10_000, Outcome::UnderWay),
            note(10_001, Outcome::UnderWay),
            note(10_000, Outcome::Healed),
            note(10_100, Outcome::Healed),
            note(12_000, Outcome::UnderWay),
        ]);
        let seen: Vec<_> = found
            .iter()
            .map(|note| (note.at_ms, note.outcome))
            .collect();
        assert_eq!(
            seen,
            [
                (10_000, Outcome::Healed),
                (10_100, Outcome::Healed),
                (12_000, Outcome::UnderWay)
            ]
        );
        assert_eq!(found[0].left_out, 6);
    }

    #[test]
    fn a_heal_reads_so() {
        let heal = Heal {
            note: note(0, Outcome::Healed),
            is_alive: false,
            there: None,
            fabric: None,
        };
        assert_eq!(
            heal.lines().join("\n"),
            "1970-01-01 00:00:00.000 UTC  solver[2J (pid 17): the connection of rank 2 to rank 9 failed and was made anew in 3.240 ms\n  \
               cause       a queue pair was in error (qp_error)\n  \
               refused     ibv_post_send: Cannot allocate memory\n  \
               path        ferri0 port 1: LID 3 -> LID 4\n  \
               new path    the same\n  \
               parts       detect 0.010 ms, fence 0.200 ms, reconnect 3.000 ms, replay 0.040 ms\n  \
               replay      4096 bytes were sent again; 1 try\n  \
               heals       7 heals of this rank until then; 2 before were not written down"
        );
        let json = serde_json::to_value(&heal).expect("JSON");
        assert_eq!(
            (&json["event"], &json["state"]),
            (&"heal".into(), &"healed".into())
        );
        assert_eq!((&json["rank"], &json["peer"]), (&2.into(), &9.into()));
        assert_eq!(json["fence_ms"], 0.2);
        assert_eq!(json["to"]["destination"], "LID 4");
    }

    #[test]
    fn who_was_told_of_a_failure_shows_what_it_was_at_the_other_end() {
        let own = note(5000, Outcome::Healed);
        let mut told = own.clone();
        (told.whose.rank, told.whose.peer) = (own.whose.peer, own.whose.rank);
        told.cause = Cause::Peer;
        let both = [own.clone(), told.clone()];
        assert_eq!(cause_there(&told, &both), Some(Cause::QpError));
        assert_eq!(cause_there(&own, &both), None);
        told.at_ms += ALIKE_MS;
        assert_eq!(cause_there(&told, &both), None);
    }

    #[test]
    fn what_the_fabric_said_belongs_to_the_heal_of_that_path_and_time() {
        let incident = |at_ms: u64, pid: u32, to: u16| Incident {
            at_ms,
            pid,
            program: "solver".to_owned(),
            left_out: 0,
            event: Event::PathLost(PathLost {
                from: 3,
                to,
                says: "S1 is switched off".to_owned(),
                ..PathLost::default()
            }),
        };
        let heal = |at_ms: u64| Heal {
            note: note(at_ms, Outcome::Healed),
            is_alive: true,
            there: None,
            fabric: None,
        };
        let mut heals = [heal(5000), heal(5300), heal(9000)];
        let of_others = [
            incident(5250, 18, 4),
            incident(5250, 17, 5),
            incident(7000, 17, 4),
        ];
        let mut incidents = of_others.to_vec();
        incidents.insert(1, incident(5250, 17, 4));
        join(&mut heals, &mut incidents);
        assert_eq!(incidents, of_others);
        let said = heals.each_ref().map(|heal| heal.fabric.is_some());
        assert_eq!(said, [false, true, false]);
        let lines = heals[1].lines();
        assert!(lines.contains(&"  fabric      S1 is switched off".to_owned()));
        let json = serde_json::to_value(&heals[1]).expect("JSON");
        assert_eq!(json["fabric"], "S1 is switched off");
    }

    #[test]
    fn one_under_way_ends_with_its_process() {
        let mut heal = Heal {
            note: note(0, Outcome::UnderWay),
            is_alive: true,
            there: None,
            fabric: None,
        };
        assert!(heal.is_under_way() && heal.lines()[0].contains("is being made anew"));
        heal.is_alive = false;
        assert!(!heal.is_under_way() && heal.lines()[0].contains("the process ended"));
        assert_eq!(heal.state(), "ended");
    }
}
