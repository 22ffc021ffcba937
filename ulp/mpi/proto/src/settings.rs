//! What a user may set of MPI: the rows of its table of settings.
//!
//! Owns: names, kinds, defaults and meanings ([`SETTINGS`]). Must not know: where values come from,
//! which is `ulp/settings`'s. A new setting is a row here and a field of the runtime's `Chosen`.

use crate::fast::{Design, Plan, Shape};
use crate::segment::LAUNCHERS;
use ferriband_heal::card::ADAPTERS;
use ferriband_settings::Kind;
pub use ferriband_settings::{From, LONGEST_FILE, Setting, Table, Values, Wrong};

/// The variable that names another settings file than the user's own; empty: none is read.
pub const FILE_VARIABLE: &str = "FERRIBAND_MPI_SETTINGS";

/// What a user may set of MPI.
pub static SETTINGS: Table = Table {
    prefix: "FERRIBAND_MPI_",
    file_variable: FILE_VARIABLE,
    file: "ferriband/mpi.conf",
    shown_by: "ferriband mpi-info",
    reserved: LAUNCHERS,
    rows: ROWS,
};

const ROWS: &[Setting] = &[
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
        help: "Longest message that is sent eagerly; a longer one goes by rendezvous.",
    },
    Setting {
        name: "eager_near",
        about: "protocols",
        kind: Kind::Bytes(0..=LONGEST_MAPPED),
        default: "65536",
        help: "The same by memory that ranks share, as far as a block takes it: 64K where a job has two ranks, 16K where it has up to four, else what eager takes. Unless it is set, it is what eager is set to.",
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
        help: "Messages by verbs are kept until the peer's runtime has acknowledged them, not only its adapter; without it a connection that has carried a message is not made anew (heal).",
    },
    Setting {
        name: "heal",
        about: "heals",
        kind: Kind::Flag,
        default: "1",
        help: "A connection by verbs that fails is made anew, and what the peer had not taken is sent again; 0: the first failure loses the peer, and no message is kept (acks has no effect).",
    },
    Setting {
        name: "heal_for",
        about: "heals",
        kind: Kind::Number(0..=1 << 30),
        default: "300",
        help: "Seconds without a word of a peer, while its connection is made anew, after which it is lost; 0: none are. A peer that the launcher says is there is waited for all the same, and so is one to or from which no message has gone.",
    },
    Setting {
        name: "rails",
        about: "heals",
        kind: Kind::Number(1..=ADAPTERS as u64),
        default: "4",
        help: "Adapters of one kind that are opened at most, where device names none: connections move from one that fails to another. 1: the first alone.",
    },
    // A rank looks at its connections each 50 ms.
    Setting {
        name: "detect",
        about: "heals",
        kind: Kind::Number(50..=3_600_000),
        default: "100",
        help: "Milliseconds without an answer from a peer after which it is probed by each path: a path that is silent while another one carries is left.",
    },
    Setting {
        name: "heal_log",
        about: "heals",
        kind: Kind::Bytes(64 << 10..=1 << 40),
        default: "16M",
        help: "Bytes of messages that this process keeps until their peers have acknowledged them, for all peers together; a message that finds no room waits. Each peer is sent one message in any case, and at most 256K of copies are kept for it.",
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
        kind: Kind::Number(16..=MOST_TRACE_EVENTS),
        default: "262144",
        help: "Events of 32 bytes that a rank's trace has room for; later ones are written over the oldest.",
    },
];

/// The most events that a trace has room for.
pub const MOST_TRACE_EVENTS: u64 = 1 << 26;
/// The longest message that fits into a record of the default block.
const LONGEST_EAGER: u64 = Shape::DEFAULT.longest() as u64;

/// The longest message that may be sent eagerly by memory that ranks share: no block takes more.
const LONGEST_MAPPED: u64 = 64 << 10;

/// The longest message that is sent eagerly by packets.
pub const LONGEST_BY_PACKETS: u64 = 64 << 10;

/// How blocks of the fast path are filled by verbs, with their size, or the one that they begin
/// with; and whether they grow.
pub fn plan(values: &Values) -> (Plan, bool) {
    let named = |design: &Design| design.name() == values.text("design");
    let design = Design::ALL.into_iter().find(named);
    let design = design.unwrap_or(Design::VariableBottom);
    if values.text("block") == "auto" {
        return (Plan::growth(design).0, true);
    }
    let usual = Plan::usual(design);
    if !values.is_set("block") {
        return (usual, false);
    }
    let size = (values.number("block") as u32).max(Plan::least(design));
    (Plan::of(design, size).unwrap_or(usual), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_holds_together() {
        assert_eq!(SETTINGS.check(), Ok(()));
    }

    #[test]
    fn what_a_launcher_sets_is_no_stranger() {
        let variables = [
            ("FERRIBAND_MPI_EAGR", "1"),
            ("FERRIBAND_MPI_HOST_FD", "3"),
            ("FERRIBAND_MPI_SETTINGS", "/x"),
        ];
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let values = SETTINGS.read(None, owned).expect("a warning only");
        assert_eq!(
            values.strangers,
            ["FERRIBAND_MPI_EAGR is no setting; is FERRIBAND_MPI_EAGER meant?"]
        );
    }

    #[test]
    fn nonsense_is_named_with_what_would_be_good() {
        let said = |name: &str, value: &str| {
            let variable = (name.to_owned(), value.to_owned());
            SETTINGS.read(None, [variable]).expect_err("nonsense").0
        };
        assert_eq!(
            said("FERRIBAND_MPI_SAME_HOST", "shm"),
            "FERRIBAND_MPI_SAME_HOST=shm: it can be mapped or verbs"
        );
        assert_eq!(
            said("FERRIBAND_MPI_EAGER", "8129"),
            "FERRIBAND_MPI_EAGER=8129: it can be bytes from 0 to 8128"
        );
        assert_eq!(
            said("FERRIBAND_MPI_RAILS", "5"),
            "FERRIBAND_MPI_RAILS=5: it can be a number from 1 to 4"
        );
        for (name, value) in [
            ("RNDV", ""),
            ("RNDV_PIECE", "1"),
            ("BLOCK", "5000"),
            ("OPEN_AFTER", "1K"),
            ("STATS", "2"),
            ("RAILS", "0"),
            ("DETECT", "49"),
            ("HEAL_LOG", "1K"),
        ] {
            said(&SETTINGS.variable(name), value);
        }
    }
}
