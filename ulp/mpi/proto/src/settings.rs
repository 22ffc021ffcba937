//! What a user may set: one table for the library that obeys and for the tools that show it.
//!
//! Owns: names, kinds, defaults and meanings ([`TABLE`]), the form of the settings file, which source wins, and what is said of a value that means
//! nothing. Must not know: the environment and the file system, which are handed in. A new setting is a row here and a field of the runtime's `Chosen`.

use crate::fast::{Design, Plan, Shape};
use std::fmt;
use std::ops::RangeInclusive;

/// Each setting is the variable with this before its name in capitals.
pub const PREFIX: &str = "FERRIBAND_MPI_";
/// Names another settings file than the user's own; empty: none is read.
pub const FILE_VARIABLE: &str = "FERRIBAND_MPI_SETTINGS";
/// The settings file, below the user's directory of configurations (XDG_CONFIG_HOME, else ~/.config).
pub const FILE: &str = "ferriband/mpi.conf";
/// A longer file is not read.
pub const LONGEST_FILE: u64 = 65536;

/// Where the settings file is, by what the environment says: the file that was named, XDG_CONFIG_HOME, HOME. None: none is read.
pub fn file(named: Option<&str>, config: Option<&str>, home: Option<&str>) -> Option<String> {
    match (named, config, home) {
        (Some(""), ..) => None,
        (Some(named), ..) => Some(named.to_owned()),
        (None, Some(config), _) if config.starts_with('/') => Some(format!("{config}/{FILE}")),
        (None, _, Some(home)) if home.starts_with('/') => Some(format!("{home}/.config/{FILE}")),
        (None, ..) => None,
    }
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name, in small letters, as in the file.
    pub name: &'static str,
    /// What it is about: settings of one subject stand together.
    pub about: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// The value where nothing is set.
    pub default: &'static str,
    /// What it does, in a sentence or two.
    pub help: &'static str,
}

/// Which values a setting takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// 0 or 1.
    Flag,
    /// A number.
    Number(RangeInclusive<u64>),
    /// A number of bytes: K, M and G after it count in powers of 1024.
    Bytes(RangeInclusive<u64>),
    /// Bytes, and a power of two.
    Power(RangeInclusive<u64>),
    /// A power of two of bytes, or this word.
    PowerOr(RangeInclusive<u64>, &'static str),
    /// Any text; what it means is for its owner to say.
    Text,
}

impl Kind {
    /// The number that `text` is of a kind that has one.
    pub fn number(&self, text: &str) -> Option<u64> {
        let (range, counts_bytes) = match self {
            Self::Number(range) => (range, false),
            Self::Bytes(range) | Self::Power(range) | Self::PowerOr(range, _) => (range, true),
            Self::Flag => (&(0..=1), false),
            Self::OneOf(_) | Self::Text => return None,
        };
        let shift = match text.bytes().last() {
            Some(b'K' | b'k') if counts_bytes => 10,
            Some(b'M' | b'm') if counts_bytes => 20,
            Some(b'G' | b'g') if counts_bytes => 30,
            _ => 0,
        };
        let digits = if shift == 0 {
            text
        } else {
            &text[..text.len() - 1]
        };
        let number = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
        let fits = !matches!(self, Self::Power(_) | Self::PowerOr(..)) || number.is_power_of_two();
        (fits && range.contains(&number)).then_some(number)
    }

    /// Whether `text` is a value.
    pub fn takes(&self, text: &str) -> bool {
        match self {
            Self::OneOf(words) => words.contains(&text),
            Self::Text => true,
            Self::PowerOr(_, word) if *word == text => true,
            _ => self.number(text).is_some(),
        }
    }
}

impl fmt::Display for Kind {
    /// The values that it takes, as the end of "it can be ..".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(words) => f.write_str(&words.join(" or ")),
            Self::Flag => f.write_str("0 or 1"),
            Self::Number(range) => {
                write!(f, "a number from {} to {}", range.start(), range.end())
            }
            Self::Bytes(range) => write!(f, "bytes from {} to {}", range.start(), range.end()),
            Self::Power(range) => {
                write!(
                    f,
                    "a power of two from {} to {}",
                    range.start(),
                    range.end()
                )
            }
            Self::PowerOr(range, word) => {
                let (least, most) = (range.start(), range.end());
                write!(f, "{word} or a power of two from {least} to {most}")
            }
            Self::Text => f.write_str("any text"),
        }
    }
}

/// All settings.
pub const TABLE: &[Setting] = &[
    Setting {
        name: "same_host",
        about: "ways",
        kind: Kind::OneOf(&["mapped", "verbs"]),
        default: "mapped",
        help: "How ranks of one host reach one another: by memory that they share, or by the device as ranks of other hosts are reached.",
    },
    Setting {
        name: "device",
        about: "ways",
        kind: Kind::Text,
        default: "",
        help: "The device by which ranks are reached; empty: the first active one, and where there are several hosts the first active Ethernet one.",
    },
    Setting {
        name: "reads_peers",
        about: "ways",
        kind: Kind::Flag,
        default: "1",
        help: "Long messages on one host are read from the sender's memory; 0: they come in pieces, as where the kernel lets no rank read another's memory.",
    },
    Setting {
        name: "both_copy",
        about: "ways",
        kind: Kind::Bytes(0..=1 << 40),
        default: "64K",
        help: "Long messages on one host of at least so many bytes are copied from both ends: the receiver reads, and the sender writes if it waits anyway; where both wait they come in pieces through shared memory instead, if that has been faster of late; 0: none is. Not where ranks share cores.",
    },
    Setting {
        name: "large_pages",
        about: "ways",
        kind: Kind::Bytes(0..=1 << 40),
        default: "2M",
        help: "Buffers of long messages on one host, of at least so many bytes, that are used again and again (16 times) are put into pages of 2 MiB by the kernel, as far as such pages lie within the buffer: copying is then faster by a quarter; 0: none is.",
    },
    Setting {
        name: "eager",
        about: "protocols",
        kind: Kind::Bytes(0..=LONGEST_EAGER),
        default: "8128",
        help: "Longest message that is sent unasked; a longer one is asked for (rendezvous).",
    },
    Setting {
        name: "eager_near",
        about: "protocols",
        kind: Kind::Bytes(0..=LONGEST_MAPPED),
        default: "65536",
        help: "The same by memory that ranks share, as far as a block takes it and while copying is fast (6 GB/s): 64K where a job has two ranks, 16K where it has up to four, else what eager takes. Unless it is set, it is what eager is set to.",
    },
    Setting {
        name: "swap",
        about: "protocols",
        kind: Kind::Bytes(0..=1 << 40),
        default: "256",
        help: "Messages on one host of at least so many bytes, up to 64K and what eager_near says, that go to and fro between two ranks lie in memory that the one has just read when the other writes there: each of its lines crosses from core to core once; 0: none does. In jobs of up to 16 ranks.",
    },
    Setting {
        name: "eager_packets",
        about: "protocols",
        kind: Kind::Bytes(0..=LONGEST_BY_PACKETS),
        default: "65536",
        help: "The same by our adapter's packets (where bundle is not 0): there a handshake costs more than two copies; of more than 16K only the first since a look at MPI goes so where rndv is auto or send. Unless it is set, it is what eager is set to.",
    },
    Setting {
        name: "rndv",
        about: "protocols",
        kind: Kind::OneOf(&["auto", "get", "put", "send"]),
        default: "auto",
        help: "Long messages by verbs: read by their receiver (RGet), written by their sender (RPut), or sent into receives that their receiver posts for them on a queue pair of its own; auto: sent where they go by our adapter's packets, whose runs are longest so, else read.",
    },
    Setting {
        name: "rndv_piece",
        about: "protocols",
        kind: Kind::Bytes(4096..=1 << 30),
        default: "1M",
        help: "Bytes of one READ or WRITE of a long message.",
    },
    Setting {
        name: "bundle",
        about: "protocols",
        kind: Kind::Number(0..=1 << 30),
        default: "4",
        help: "By our adapter's packets: short messages that go to a rank at once before the others wait for the next look at the device, and go together; 0: each goes by itself.",
    },
    Setting {
        name: "acks",
        about: "protocols",
        kind: Kind::Flag,
        default: "1",
        help: "Messages by verbs are kept until the peer's runtime has acknowledged them, not only its adapter.",
    },
    Setting {
        name: "design",
        about: "fast path",
        kind: Kind::OneOf(&[
            "variable-bottom",
            "variable-top",
            "fixed-bottom",
            "fixed-top",
        ]),
        default: "variable-bottom",
        help: "How blocks are filled, by verbs: records of any length or slots of 8 KiB, from the end (variable-bottom is Veloblock) or from the beginning, with a mirror at the sender.",
    },
    Setting {
        name: "block",
        about: "fast path",
        kind: Kind::PowerOr(4096..=1 << 20, "auto"),
        default: "32K",
        help: "Bytes of the block that a peer writes its short messages to, by verbs; slots take 16K at least, and 256K unless it is set. auto: small at first, larger where messages find no room.",
    },
    Setting {
        name: "fast_channels",
        about: "fast path",
        kind: Kind::Number(0..=512),
        default: "64",
        help: "Blocks of this process that peers may have; 0: none is asked for, and none given.",
    },
    Setting {
        name: "open_after",
        about: "fast path",
        kind: Kind::Number(1..=1 << 30),
        default: "16",
        help: "Messages to a peer before a block is asked for.",
    },
    Setting {
        name: "close_below",
        about: "fast path",
        kind: Kind::Number(0..=1 << 30),
        default: "1000",
        help: "When a peer is refused a block, that of the slowest sender is taken back if it has sent fewer messages a second.",
    },
    Setting {
        name: "regcache",
        about: "devices",
        kind: Kind::OneOf(&["auto", "odp", "uffd", "none"]),
        default: "auto",
        help: "How memory of long messages is registered: on demand where the device offers it (odp; ranks of other hosts can reach the last 64 ranges after their messages, too), else kept as long as userfaultfd says that it is the same (uffd), else for each message (none).",
    },
    // 4.3 s, and 7 repetitions. What packets were lost is known long before, by those that follow them or by our adapter's questions.
    Setting {
        name: "timeout",
        about: "devices",
        kind: Kind::Number(0..=31),
        default: "20",
        help: "How long a request waits for its peer's adapter before it is repeated, seven times in all: 4.096 us times 2 to this power; 0: for ever. With 20 a rank may be stopped for half a minute.",
    },
    Setting {
        name: "coll",
        about: "collectives",
        kind: Kind::Text,
        default: "",
        help: "Algorithms that are used wherever they can be, as in allreduce=ring,barrier=pairwise; the same at all ranks.",
    },
    Setting {
        name: "coll_table",
        about: "collectives",
        kind: Kind::Text,
        default: "",
        help: "A file with the table that chooses algorithms by ranks and bytes; empty: the built-in one. The same at all ranks.",
    },
    Setting {
        name: "initial_errhandler",
        about: "launch",
        kind: Kind::OneOf(&[
            "mpi_errors_are_fatal",
            "mpi_errors_abort",
            "mpi_errors_return",
        ]),
        default: "mpi_errors_are_fatal",
        help: "The error handler that MPI_COMM_WORLD and MPI_COMM_SELF begin with, and of errors before MPI_Init and after MPI_Finalize; mpirun -initial-errhandler sets it, as the standard has it.",
    },
    Setting {
        name: "engine",
        about: "launch",
        kind: Kind::OneOf(&["auto", "pmi1", "pmi2", "pmix", "none"]),
        default: "auto",
        help: "Which launcher to look for where ours has not started the ranks: PMI_FD or PMI_PORT says PMI-1 or 2, PMIX_NAMESPACE PMIx; none: each process is alone.",
    },
    Setting {
        name: "pmix_library",
        about: "launch",
        kind: Kind::Text,
        default: "",
        help: "The file of libpmix.so.2; empty: the one that the launcher itself has loaded, else the loader's.",
    },
    Setting {
        name: "stats",
        about: "reports",
        kind: Kind::Flag,
        default: "0",
        help: "A line of counters on standard error from each rank at MPI_Finalize: records in shared memory; by verbs remote peers, blocks, the fast path's share.",
    },
    Setting {
        name: "trace",
        about: "reports",
        kind: Kind::Text,
        default: "",
        help: "A directory that each rank writes its calls and messages to; `ferriband trace` sets it, and reads them.",
    },
    Setting {
        name: "trace_events",
        about: "reports",
        kind: Kind::Number(16..=crate::trace::MOST_EVENTS),
        default: "262144",
        help: "Events of 32 bytes that a rank's trace has room for; later ones are written over the oldest.",
    },
];

/// The longest message that fits into a record of the default block.
const LONGEST_EAGER: u64 = Shape::DEFAULT.longest() as u64;

/// The longest message that may be sent unasked by memory that ranks share: no block takes more.
const LONGEST_MAPPED: u64 = 64 << 10;

/// The longest message that is sent unasked by packets.
pub const LONGEST_BY_PACKETS: u64 = 64 << 10;

/// Where a value comes from. A later one wins over an earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// Nobody set it.
    Default,
    /// The settings file.
    File,
    /// The environment.
    Environment,
    /// A tool's arguments.
    CommandLine,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        })
    }
}

/// A value that means nothing, in words for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of each setting, and where it is from.
#[derive(Clone, Debug)]
pub struct Values {
    values: Vec<(String, From)>,
    /// What is set and no setting, in words.
    pub strangers: Vec<String>,
}

/// The variable of a setting.
pub fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase())
}

impl Default for Values {
    fn default() -> Self {
        let value = |setting: &Setting| (setting.default.to_owned(), From::Default);
        Self {
            values: TABLE.iter().map(value).collect(),
            strangers: Vec::new(),
        }
    }
}

impl Values {
    /// The defaults, then what the file says, then the environment. `file` is its name and text; `environment` all variables.
    ///
    /// # Errors
    /// The first value that means nothing, with those that do.
    pub fn read(
        file: Option<(&str, &str)>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Wrong> {
        let mut values = Self::default();
        if let Some((name, text)) = file {
            values.read_file(name, text)?;
        }
        for (variable, value) in environment {
            let Some(name) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            if variable == FILE_VARIABLE || crate::segment::LAUNCHERS.contains(&variable.as_str()) {
                continue;
            }
            let known = place(&name.to_ascii_lowercase())
                .filter(|_| !name.bytes().any(|byte| byte.is_ascii_lowercase()));
            match known {
                Some(at) => values.set_at(at, &value, From::Environment, &variable)?,
                None => values.strangers.push(stranger(&variable, PREFIX, name)),
            }
        }
        Ok(values)
    }

    /// Sets one by name, as a tool's argument does.
    ///
    /// # Errors
    /// There is no such setting, or the value means nothing.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let at = place(name).ok_or_else(|| Wrong(stranger(name, "", name)))?;
        self.set_at(at, value, From::CommandLine, name)
    }

    fn set_at(&mut self, at: usize, value: &str, from: From, named: &str) -> Result<(), Wrong> {
        let kind = &TABLE[at].kind;
        if !kind.takes(value) {
            return Err(Wrong(format!("{named}={value}: it can be {kind}")));
        }
        self.values[at] = (value.to_owned(), from);
        Ok(())
    }

    /// Lines `name = value`; what comes after # is for people.
    fn read_file(&mut self, file: &str, text: &str) -> Result<(), Wrong> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let here = |text: &str| Wrong(format!("{file}, line {number}: {text}"));
            let (name, value) = line
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
                .ok_or_else(|| here("a line is NAME = VALUE"))?;
            match place(name) {
                Some(at) => self
                    .set_at(at, value, From::File, name)
                    .map_err(|wrong| here(&wrong.0))?,
                None => {
                    let text = here(&stranger(name, "", name));
                    self.strangers.push(text.0);
                }
            }
        }
        Ok(())
    }

    /// Each setting with its value and where that is from.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &str, From)> {
        TABLE
            .iter()
            .zip(&self.values)
            .map(|(setting, (value, from))| (setting, value.as_str(), *from))
    }

    /// The value of a setting, as it was written.
    ///
    /// # Panics
    /// There is no row of that name: a bug of who asks.
    pub fn text(&self, name: &str) -> &str {
        &self.values[row(name)].0
    }

    /// Whether somebody has set it.
    ///
    /// # Panics
    /// As [`Self::text`].
    pub fn is_set(&self, name: &str) -> bool {
        self.values[row(name)].1 != From::Default
    }

    /// The value of a setting that is a number, of bytes or of anything else.
    ///
    /// # Panics
    /// There is no such row, or it has no number: a bug of who asks.
    pub fn number(&self, name: &str) -> u64 {
        let number = TABLE[row(name)].kind.number(self.text(name));
        number.unwrap_or_else(|| panic!("the setting {name} is no number"))
    }

    /// How blocks of the fast path are filled by verbs, with their size, or the one that they begin with; and whether they grow.
    pub fn plan(&self) -> (Plan, bool) {
        let named = |design: &Design| design.name() == self.text("design");
        let design = Design::ALL.into_iter().find(named);
        let design = design.unwrap_or(Design::VariableBottom);
        if self.text("block") == "auto" {
            return (Plan::growth(design).0, true);
        }
        let usual = Plan::usual(design);
        if !self.is_set("block") {
            return (usual, false);
        }
        let size = (self.number("block") as u32).max(Plan::least(design));
        (Plan::of(design, size).unwrap_or(usual), false)
    }

    /// Whether a flag is up.
    ///
    /// # Panics
    /// As [`Self::number`].
    pub fn flag(&self, name: &str) -> bool {
        self.number(name) == 1
    }
}

fn place(name: &str) -> Option<usize> {
    TABLE.iter().position(|setting| setting.name == name)
}

fn row(name: &str) -> usize {
    place(name).unwrap_or_else(|| panic!("there is no setting {name}"))
}

/// What is said of a name that is no setting; the likeliest that was meant.
fn stranger(named: &str, prefix: &str, name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let near = TABLE
        .iter()
        .map(|setting| (distance(setting.name, &name), setting.name))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    match near {
        Some((_, near)) if prefix.is_empty() => {
            format!("{named} is no setting; is {near} meant?")
        }
        Some((_, near)) => format!("{named} is no setting; is {} meant?", variable(near)),
        None => format!("{named} is no setting; `ferriband mpi-info` lists them"),
    }
}

/// Letters to insert, take away or change (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Values, Wrong> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Values::read(None, variables.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn each_row_holds_together() {
        for (at, setting) in TABLE.iter().enumerate() {
            assert!(setting.kind.takes(setting.default), "{}", setting.name);
            assert_eq!(place(setting.name), Some(at), "{} twice", setting.name);
            assert!(setting.help.ends_with('.'), "{}", setting.name);
            assert!(
                setting
                    .name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{}",
                setting.name
            );
            let own = variable(setting.name);
            assert!(!crate::segment::LAUNCHERS.contains(&own.as_str()), "{own}");
        }
        let subjects: Vec<&str> = TABLE.iter().map(|setting| setting.about).collect();
        for (at, about) in subjects.iter().enumerate() {
            let first = subjects
                .iter()
                .position(|other| other == about)
                .unwrap_or(at);
            let together = subjects[first..=at].iter().all(|other| other == about);
            assert!(together, "settings about {about} stand apart");
        }
    }

    #[test]
    fn the_environment_wins_over_the_file_and_that_over_the_default() {
        let file = "# mine\neager = 4K\nrndv=put  # for now\n device = \"ferri_eth0\"\n\n";
        let variable = ("FERRIBAND_MPI_EAGER".to_owned(), "100".to_owned());
        let values = Values::read(Some(("mpi.conf", file)), [variable]).expect("good");
        let from = |name| {
            let found = values.iter().find(|(setting, ..)| setting.name == name);
            found.expect("a row").2
        };
        assert_eq!(
            (values.number("eager"), from("eager")),
            (100, From::Environment)
        );
        assert_eq!((values.text("rndv"), from("rndv")), ("put", From::File));
        assert_eq!(values.text("device"), "ferri_eth0");
        assert_eq!(
            (values.number("block"), from("block")),
            (32768, From::Default)
        );
        assert!(values.is_set("rndv") && !values.is_set("block"));
        let mut values = values;
        values.set("eager", "0").expect("good");
        assert_eq!(values.number("eager"), 0);
        assert!(values.strangers.is_empty());
    }

    #[test]
    fn nonsense_is_named_with_what_would_be_good() {
        let said = |name: &str, value: &str| with(&[(name, value)]).expect_err("nonsense").0;
        assert_eq!(
            said("FERRIBAND_MPI_SAME_HOST", "shm"),
            "FERRIBAND_MPI_SAME_HOST=shm: it can be mapped or verbs"
        );
        assert_eq!(
            said("FERRIBAND_MPI_EAGER", "8129"),
            "FERRIBAND_MPI_EAGER=8129: it can be bytes from 0 to 8128"
        );
        for (name, value) in [
            ("EAGER", "-1"),
            ("EAGER", "K"),
            ("EAGER", ""),
            ("RNDV", ""),
            ("RNDV_PIECE", "1"),
            ("RNDV_PIECE", "99999999999999999999G"),
            ("RNDV_PIECE", "18014398509481985K"),
            ("BLOCK", "5000"),
            ("OPEN_AFTER", "1K"),
            ("STATS", "2"),
        ] {
            said(&format!("{PREFIX}{name}"), value);
        }
        let bad = Values::read(Some(("mpi.conf", "eager = 1\neager: 2\n")), []);
        assert_eq!(
            bad.expect_err("bad").0,
            "mpi.conf, line 2: a line is NAME = VALUE"
        );
    }

    #[test]
    fn the_file_is_where_the_environment_says() {
        let home = Some("/home/me");
        assert_eq!(
            file(None, None, home).as_deref(),
            Some("/home/me/.config/ferriband/mpi.conf")
        );
        assert_eq!(
            file(None, Some("/etc/x"), home).as_deref(),
            Some("/etc/x/ferriband/mpi.conf")
        );
        assert_eq!(file(Some("a"), Some("/etc/x"), home).as_deref(), Some("a"));
        assert_eq!(file(Some(""), None, home), None);
        assert_eq!(file(None, Some("relative"), None), None);
    }

    #[test]
    fn an_unknown_name_is_told_of() {
        let values = with(&[
            ("FERRIBAND_MPI_EAGR", "1"),
            ("FERRIBAND_MPI_SOMETHING_ELSE", "1"),
            ("FERRIBAND_MPI_HOST_FD", "3"),
            ("FERRIBAND_MPI_SETTINGS", "/x"),
            ("FERRIBAND_WIRE", "roce"),
        ]);
        assert_eq!(
            values.expect("a warning only").strangers,
            [
                "FERRIBAND_MPI_EAGR is no setting; is FERRIBAND_MPI_EAGER meant?",
                "FERRIBAND_MPI_SOMETHING_ELSE is no setting; `ferriband mpi-info` lists them"
            ]
        );
        assert!(Values::default().set("eagre", "1").is_err());
    }
}
