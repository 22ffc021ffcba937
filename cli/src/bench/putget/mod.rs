//! `ferriband-dev bench --putget`: put and get beside what they are made of, on this host or
//! between two; Portals 4 beside the verbs below it, beside our MPI and beside its reference.
//!
//! Owns: the targets. A program in C (`portals.c`) does what is measured by Portals; puts and gets
//! of papers/002's second driver are those of `tune putget`. Must not know: how figures are judged.

mod crossing;

use super::mpi::{compile_own, figures};
use super::probes::{LATENCY_MESSAGES, Run, own_program, strings};
use super::{Against, Demand, Target, Unit, latency, measure};
use crate::args::{BenchArgs, Wire};
use crate::demo::programs::Report;
use crate::demo::runner::Place;
use crate::demo::skip;
use crate::failure::Failure;
use crate::floor::Floor;
use crate::launch;
use crate::netns::{self, TwoHosts};
use crate::tune::putget::Operation;
use ferriband_portals_process::ADDRESS_BYTES;
use ferriband_putget_proto::HEADER_BYTES;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{self, ExitCode};

const SOURCE: &str = include_str!("portals.c");
/// What a short put of 4 bytes by Portals is on the wire.
const SHORT_PUT: usize = HEADER_BYTES + ADDRESS_BYTES + 4;
const LONG: usize = 1 << 20;
/// Long messages of a stream.
const LONG_MESSAGES: u32 = 2_000;
/// Ranks of the ring.
const RING: &str = "16";
const MPI: &str = "Ferriband's MPI";

/// Where the programs run, and what they are.
struct Bench {
    hosts: Option<TwoHosts>,
    /// The program in C.
    program: PathBuf,
    /// A build of Portals' reference, whose library lies in src/.libs: by verbs.
    reference: Option<PathBuf>,
}

impl Bench {
    fn place(&self) -> Place<'_> {
        match &self.hosts {
            Some(hosts) => Place::Hosts(hosts),
            None => Place::Here,
        }
    }

    /// What the program prints of `what`, on our library.
    fn ours(&self, ranks: &str, what: &str) -> Result<f64, Failure> {
        self.figure(ranks, what, None)
    }

    fn figure(&self, ranks: &str, what: &str, reference: Option<&PathBuf>) -> Result<f64, Failure> {
        let mut words = vec!["mpirun".to_owned()];
        if let Some(hosts) = &self.hosts {
            let names = [&hosts.first, &hosts.second].map(|host| {
                let number = host.namespace().as_raw_fd();
                format!("/proc/{}/fd/{number}", process::id())
            });
            words.extend(["--netns".to_owned(), names.join(",")]);
        }
        words.extend(strings(&["-n", ranks]));
        if let Some(tree) = reference {
            let here = launch::lib_dir()?;
            let at = |place: &str| tree.join(place).display().to_string();
            words.extend([
                "env".to_owned(),
                format!(
                    "LD_LIBRARY_PATH={}:{}:{}",
                    at("src/.libs"),
                    at("src/runtime/.libs"),
                    here.display()
                ),
                "PTL_IFACE_NAME=lo".to_owned(),
            ]);
        }
        words.extend([self.program.display().to_string(), what.to_owned()]);
        let text = own_program(&crate::launch::ferriband()?, &words)?;
        let figure = figures(&text).get(what).copied();
        figure.ok_or_else(|| Failure::new(format!("the program printed no {what}")))
    }

    /// What the program prints of `what` on the library of the reference.
    fn of_reference(&self, what: &str) -> Result<Floor, Failure> {
        let reference = self.reference.as_ref();
        let tree = reference.ok_or_else(|| Failure::new("no reference is named"))?;
        self.figure("2", what, Some(tree)).map(Some)
    }

    /// What a program of perftest reports.
    fn perftest(
        &self,
        program: &'static str,
        bytes: usize,
        messages: u32,
        more: &[&str],
    ) -> Result<Floor, Failure> {
        let mut run = Run::new(program, bytes, messages);
        if self.hosts.is_some() {
            // the entry of the GID table that holds the IPv4 address
            run.options.extend(strings(&["-x", "1"]));
        }
        run.options.extend(strings(more));
        let report = match program.ends_with("_bw") {
            true => Report::Bandwidth,
            false => Report::Latency,
        };
        run.figure_at(self.place(), report).map(Some)
    }

    fn send_of_short_put(&self) -> Result<Floor, Failure> {
        self.perftest("ib_send_lat", SHORT_PUT, LATENCY_MESSAGES / 5, &[])
    }
}

type Row = Target<Bench, ()>;

const fn round_trip(name: &'static str, probe: fn(&Bench) -> Result<f64, Failure>) -> Row {
    latency(
        name,
        probe,
        "ib_send_lat of the message",
        Against::Beside(Bench::send_of_short_put),
        1.5,
    )
}

const fn rate(
    name: &'static str,
    probe: fn(&Bench) -> Result<f64, Failure>,
    (unit, floor_name): (Unit, &'static str),
    floor: fn(&Bench) -> Result<Floor, Failure>,
    share: f64,
) -> Row {
    Target {
        name,
        probe,
        unit,
        floor_name,
        floor: Against::Beside(floor),
        demand: Demand::AtLeast(share),
        once: false,
    }
}

/// At most so many times the better of both ways.
const fn choice(name: &'static str, probe: fn(&Bench) -> Result<f64, Failure>) -> Row {
    Target {
        name,
        probe,
        unit: Unit::Times,
        floor_name: "",
        floor: Against::Round(|()| None),
        demand: Demand::Limit(1.05),
        once: true,
    }
}

const TARGETS: [Row; 13] = [
    choice(
        "puts of 1 B to 64 KiB, the worst beside the better way",
        |bench| crossing::worst(bench.hosts.as_ref(), Operation::Put),
    ),
    choice(
        "gets of 1 B to 64 KiB, the worst beside the better way",
        |bench| crossing::worst(bench.hosts.as_ref(), Operation::Get),
    ),
    choice("step of puts at the crossover", |bench| {
        crossing::step(bench.hosts.as_ref(), Operation::Put)
    }),
    choice("step of gets at the crossover", |bench| {
        crossing::step(bench.hosts.as_ref(), Operation::Get)
    }),
    round_trip("put 4 B, one way: LE, counter", |bench| {
        bench.ours("2", "latency/le/counter")
    }),
    round_trip("put 4 B, one way: ME, counter", |bench| {
        bench.ours("2", "latency/me/counter")
    }),
    round_trip("put 4 B, one way: LE, event", |bench| {
        bench.ours("2", "latency/le/event")
    }),
    round_trip("put 4 B, one way: ME, event", |bench| {
        bench.ours("2", "latency/me/event")
    }),
    rate(
        "stream of puts of 1 MiB",
        |bench| bench.ours("2", "stream/put"),
        (Unit::BytesPerSecond, "ib_read_bw"),
        |bench| bench.perftest("ib_read_bw", LONG, LONG_MESSAGES, &[]),
        0.95,
    ),
    rate(
        "stream of gets of 1 MiB",
        |bench| bench.ours("2", "stream/get"),
        (Unit::BytesPerSecond, "ib_write_bw"),
        |bench| bench.perftest("ib_write_bw", LONG, LONG_MESSAGES, &[]),
        0.95,
    ),
    latency(
        "put 8 B with ack, the target computes, direct",
        |bench| bench.ours("2", "ack/direct"),
        "ib_write_lat",
        Against::Beside(|bench| bench.perftest("ib_write_lat", 8, LATENCY_MESSAGES / 5, &[])),
        1.5,
    ),
    latency(
        "put 8 B with ack, the target computes, matched",
        |bench| bench.ours("2", "ack/matched"),
        "ib_send_lat -e",
        Against::Beside(|bench| {
            bench.perftest("ib_send_lat", SHORT_PUT + 4, LATENCY_MESSAGES / 20, &["-e"])
        }),
        2.0,
    ),
    latency(
        "token that 16 processes pass on, a step",
        |bench| bench.ours(RING, "ring/portals"),
        MPI,
        Against::Beside(|bench| bench.ours(RING, "ring/mpi").map(Some)),
        2.0,
    ),
];

/// Beside the reference on the adapter.
const BESIDE_REFERENCE: [Row; 3] = [
    latency(
        "put 4 B, one way: LE, counter, beside the reference on this adapter",
        |bench| bench.ours("2", "latency/le/counter"),
        "the reference, by verbs",
        Against::Beside(|bench| bench.of_reference("latency/le/counter")),
        0.2,
    ),
    latency(
        "put 4 B, one way: ME, event, beside the reference on this adapter",
        |bench| bench.ours("2", "latency/me/event"),
        "the reference, by verbs",
        Against::Beside(|bench| bench.of_reference("latency/me/event")),
        0.2,
    ),
    rate(
        "short puts, one after the other, beside the reference on this adapter",
        |bench| bench.ours("2", "rate/put"),
        (Unit::PerSecond, "the reference, by verbs"),
        |bench| bench.of_reference("rate/put"),
        5.0,
    ),
];

/// Does what the arguments say.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let hosts = match args.wire {
        Wire::Direct => None,
        Wire::Roce => match netns::two_hosts() {
            Ok(hosts) => Some(hosts),
            Err(why) => return skip(&args.json, &why),
        },
    };
    let program = compile_own(SOURCE, "portals", &["-lportals"])?;
    let bench = Bench {
        hosts,
        program,
        reference: args.reference.clone(),
    };
    // a ring of processes on two hosts is no measure of either
    let is_here = bench.hosts.is_none();
    let mut rows: Vec<Row> = TARGETS
        .into_iter()
        .filter(|target| is_here || target.floor_name != MPI)
        .collect();
    if is_here && bench.reference.is_some() {
        rows.extend(BESIDE_REFERENCE);
    }
    measure(args, &rows, &bench, 0, |_, _| Ok(()))
}
