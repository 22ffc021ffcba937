//! What a rank says to people of its heals: a line of the file [`FILE`] for each, by which
//! `ferriband why` and `ferriband status` know them, and at its end how many there were, for
//! `mpirun --report`.
//!
//! Owns: both forms. Must not know: who writes them and who reads them. A line is read by another
//! process, perhaps of another version, so it is as hostile as any file.

use ferriband_heal::Cause;

/// The file's name, in the directory of notes.
pub const FILE: &str = "heals";

/// The form of a line: its first field.
const VERSION: &str = "2";
/// Fields of a line.
const FIELDS: usize = 26;

/// Whose connection it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// The process,
    pub pid: u32,
    /// and when it began, in clock ticks since the machine did: the two together name it.
    pub started: u64,
    /// Its program.
    pub program: String,
    /// Its rank.
    pub rank: u32,
    /// The rank at the other end.
    pub peer: u32,
}

/// What has come of a heal so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The connection is up again.
    #[default]
    Healed,
    /// It is not yet.
    UnderWay,
    /// The peer is lost.
    Lost,
    /// There was none: the adapters of both ends have gone over to another path by themselves.
    Migrated,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Healed, Self::UnderWay, Self::Lost, Self::Migrated];

    /// Its name in the file and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healed => "healed",
            Self::UnderWay => "under_way",
            Self::Lost => "lost",
            Self::Migrated => "migrated",
        }
    }
}

/// A path, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The adapter.
    pub adapter: String,
    /// Its port.
    pub port: u8,
    /// The port's address.
    pub source: String,
    /// The address of the peer's port.
    pub destination: String,
}

/// How long the parts of a heal took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// From the peer's notice of the failure to this side's.
    pub detect: u64,
    /// From there to the end of the last fence: the queue pairs of the former life are destroyed.
    pub fence: u64,
    /// From there to the connection.
    pub reconnect: u64,
    /// From there until all that the peer had not taken is sent again.
    pub replay: u64,
}

impl Parts {
    /// The parts' names, in their order.
    pub const NAMES: [&str; 4] = ["detect", "fence", "reconnect", "replay"];

    /// The parts in the order of [`Parts::NAMES`].
    pub const fn all(&self) -> [u64; 4] {
        [self.detect, self.fence, self.reconnect, self.replay]
    }

    /// From this side's notice to the end: without the time in which the peer alone knew.
    pub const fn whole(&self) -> u64 {
        self.fence
            .saturating_add(self.reconnect)
            .saturating_add(self.replay)
    }
}

/// A heal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whose connection it is.
    pub whose: Whose,
    /// When this side noticed the failure: milliseconds since 1970.
    pub at_ms: u64,
    /// What has come of it.
    pub outcome: Outcome,
    /// Why the former life ended.
    pub cause: Cause,
    /// The path of the former life,
    pub from: Way,
    /// and that of the new one.
    pub to: Way,
    /// How long it took, or takes.
    pub parts: Parts,
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Lives that were begun.
    pub tries: u32,
    /// Heals of this rank so far, those that are not written down among them.
    pub count: u64,
    /// Heals of this rank since its last line that were not written down, because there were too
    /// many.
    pub left_out: u64,
    /// The verb that the adapter refused last, and why; empty if it has refused none.
    pub verb: String,
}

impl Default for Note {
    fn default() -> Self {
        Self {
            whose: Whose::default(),
            at_ms: 0,
            outcome: Outcome::Healed,
            cause: Cause::First,
            from: Way::default(),
            to: Way::default(),
            parts: Parts::default(),
            bytes: 0,
            tries: 0,
            count: 0,
            left_out: 0,
            verb: String::new(),
        }
    }
}

impl Note {
    /// Its line, without the end: fields between tabs. A control character in a text becomes a
    /// space.
    pub fn emit(&self) -> String {
        let text = |text: &str| text.replace(char::is_control, " ");
        let way = |way: &Way| {
            let Way {
                adapter,
                source,
                destination,
                ..
            } = way;
            let (adapter, source, destination) = (text(adapter), text(source), text(destination));
            [adapter, way.port.to_string(), source, destination]
        };
        let whose = &self.whose;
        let mut fields = vec![
            VERSION.to_owned(),
            self.at_ms.to_string(),
            whose.pid.to_string(),
            whose.started.to_string(),
            text(&whose.program),
            whose.rank.to_string(),
            whose.peer.to_string(),
            self.outcome.name().to_owned(),
            name(self.cause).to_owned(),
        ];
        fields.extend(way(&self.from));
        fields.extend(way(&self.to));
        fields.extend(self.parts.all().map(|ns| ns.to_string()));
        let rest = [self.bytes, u64::from(self.tries), self.count, self.left_out];
        fields.extend(rest.map(|number| number.to_string()));
        fields.push(text(&self.verb));
        fields.join("\t")
    }

    /// The heal of a line; none if it is no such line.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let fields: Vec<&str> = line.split('\t').collect();
        if fields.len() != FIELDS || fields[0] != VERSION {
            return None;
        }
        let number = |at: usize| fields[at].parse::<u64>().ok();
        let short = |at: usize| fields[at].parse::<u32>().ok();
        let way = |at: usize| {
            Some(Way {
                adapter: fields[at].to_owned(),
                port: fields[at + 1].parse().ok()?,
                source: fields[at + 2].to_owned(),
                destination: fields[at + 3].to_owned(),
            })
        };
        let outcomes = Outcome::ALL.into_iter();
        Some(Self {
            at_ms: number(1)?,
            whose: Whose {
                pid: short(2)?,
                started: number(3)?,
                program: fields[4].to_owned(),
                rank: short(5)?,
                peer: short(6)?,
            },
            outcome: outcomes.into_iter().find(|one| one.name() == fields[7])?,
            cause: Cause::ALL.into_iter().find(|one| name(*one) == fields[8])?,
            from: way(9)?,
            to: way(13)?,
            parts: Parts {
                detect: number(17)?,
                fence: number(18)?,
                reconnect: number(19)?,
                replay: number(20)?,
            },
            bytes: number(21)?,
            tries: short(22)?,
            count: number(23)?,
            left_out: number(24)?,
            verb: fields[25].to_owned(),
        })
    }
}

/// A cause's name, for programs.
pub const fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::First => "first",
        Cause::RetryExceeded => "retry_exceeded",
        Cause::RnrExceeded => "rnr_exceeded",
        Cause::QpError => "qp_error",
        Cause::DeviceFatal => "device_fatal",
        Cause::PortDown => "port_down",
        Cause::AddressChanged => "address_changed",
        Cause::PkeyChanged => "pkey_changed",
        Cause::CqError => "cq_error",
        Cause::SrqError => "srq_error",
        Cause::Silence => "silence",
        Cause::Peer => "peer",
        Cause::Message => "message",
        Cause::Verb => "verb",
        Cause::Withdrawn => "withdrawn",
        Cause::Return => "return",
        Cause::Launcher => "launcher",
    }
}

/// A cause in words, for people.
pub const fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::First => "the first connection",
        Cause::RetryExceeded => "the peer's adapter did not answer",
        Cause::RnrExceeded => "the peer took no message",
        Cause::QpError => "a queue pair was in error",
        Cause::DeviceFatal => "the adapter failed",
        Cause::PortDown => "the port went down",
        Cause::AddressChanged => "the port got another address",
        Cause::PkeyChanged => "the partition keys became others",
        Cause::CqError => "the completion queue failed",
        Cause::SrqError => "the receive queue failed",
        Cause::Silence => "nothing came by the path",
        Cause::Peer => "the other end said so",
        Cause::Message => "a message could not be carried",
        Cause::Verb => "a verb failed",
        Cause::Withdrawn => "a request was withdrawn",
        Cause::Return => "a better path came back",
        Cause::Launcher => "the launcher said so",
    }
}

/// How many causes there are.
pub const CAUSES: usize = Cause::ALL.len();

/// What a rank has moved, and its heals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankReport {
    /// Records to ranks of its host, by memory that they share.
    pub host_records: u64,
    /// Messages to other ranks by verbs.
    pub messages: u64,
    /// Those by the fast path.
    pub fast: u64,
    /// Long messages that were read from, or written or sent to, a peer.
    pub long: u64,
    /// Heals that are over.
    pub heals: u64,
    /// The longest, in nanoseconds,
    pub longest_ns: u64,
    /// and all together.
    pub total_ns: u64,
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Heals by the numbers of their causes.
    pub causes: [u32; CAUSES],
}

/// Words of a report in the segment.
pub const REPORT_WORDS: usize = 1 + 8 + CAUSES.div_ceil(2);

impl RankReport {
    /// As it lies in the segment; the first word says that it is there.
    pub fn emit(&self) -> [u64; REPORT_WORDS] {
        let mut words = [0; REPORT_WORDS];
        words[..9].copy_from_slice(&[
            1,
            self.host_records,
            self.messages,
            self.fast,
            self.long,
            self.heals,
            self.longest_ns,
            self.total_ns,
            self.bytes,
        ]);
        for (at, count) in self.causes.iter().enumerate() {
            words[9 + at / 2] |= u64::from(*count) << (at % 2 * 32);
        }
        words
    }

    /// None if the rank has left none.
    pub fn parse(words: &[u64; REPORT_WORDS]) -> Option<Self> {
        let mut causes = [0; CAUSES];
        for (at, count) in causes.iter_mut().enumerate() {
            *count = (words[9 + at / 2] >> (at % 2 * 32)) as u32;
        }
        let [
            is_there,
            host_records,
            messages,
            fast,
            long,
            heals,
            longest_ns,
            total_ns,
            bytes,
            ..,
        ] = *words;
        (is_there == 1).then_some(Self {
            host_records,
            messages,
            fast,
            long,
            heals,
            longest_ns,
            total_ns,
            bytes,
            causes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way() -> impl Strategy<Value = Way> {
        (
            "[a-z0-9_]{0,9}",
            any::<u8>(),
            "[0-9a-f:. ]{0,20}",
            "\\PC{0,9}",
        )
            .prop_map(|(adapter, port, source, destination)| Way {
                adapter,
                port,
                source,
                destination,
            })
    }

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(
            whose in (any::<u32>(), any::<u64>(), "\\PC{0,20}", any::<u32>(), any::<u32>()),
            verb in "\\PC{0,40}",
            (outcome, cause) in (0..3_usize, 0..CAUSES),
            (from, to) in (way(), way()),
            parts in any::<[u64; 4]>(),
            numbers in any::<[u64; 4]>(),
            tries: u32,
        ) {
            let (pid, started, program, rank, peer) = whose;
            let [detect, fence, reconnect, replay] = parts;
            let note = Note {
                whose: Whose { pid, started, program, rank, peer },
                at_ms: numbers[0],
                outcome: Outcome::ALL[outcome],
                cause: Cause::ALL[cause],
                from,
                to,
                parts: Parts { detect, fence, reconnect, replay },
                bytes: numbers[1],
                tries,
                count: numbers[2],
                left_out: numbers[3],
                verb,
            };
            prop_assert_eq!(Note::parse(note.emit().as_bytes()), Some(note));
        }

        #[test]
        fn any_line_is_read_or_not(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Note::parse(&line);
        }

        #[test]
        fn a_report_is_read_as_it_was_written(numbers: [u64; 8], causes: [u32; CAUSES]) {
            let [host_records, messages, fast, long, heals, longest_ns, total_ns, bytes] = numbers;
            let report = RankReport {
                host_records, messages, fast, long, heals, longest_ns, total_ns, bytes, causes,
            };
            prop_assert_eq!(RankReport::parse(&report.emit()), Some(report));
        }
    }

    #[test]
    fn a_text_ends_neither_its_field_nor_its_line() {
        let mut note = Note::default();
        note.whose.program = "a\tb\nc".to_owned();
        let line = note.emit();
        assert!(!line.contains('\n'));
        let read = Note::parse(line.as_bytes()).expect("a line");
        assert_eq!(read.whose.program, "a b c");
        assert_eq!(Note::parse(b"0\t1"), None);
    }

    #[test]
    fn a_rank_that_has_said_nothing_has_no_report() {
        assert_eq!(RankReport::parse(&[0; REPORT_WORDS]), None);
    }

    #[test]
    fn each_cause_has_a_name_of_its_own() {
        for (at, one) in Cause::ALL.iter().enumerate() {
            assert!(
                Cause::ALL[..at]
                    .iter()
                    .all(|other| name(*other) != name(*one))
            );
        }
    }
}
