//! The programs of ibverbs-utils and perftest, what each proves, and the floor that each is
//! honestly compared with.

use crate::floor::{Floor, Floors, bytes_per_second};
use std::iter;

use super::cm::{self, Meeting};
use super::sockets;
use super::stacks::Against;

/// How a program's result is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// ibv_devinfo: ports and their state.
    DeviceInfo,
    /// ibv_*_pingpong: microseconds per round trip.
    PingPong,
    /// A program that prints no figure.
    Silent,
    /// ib_*_lat: a line of microseconds.
    Latency,
    /// ib_*_bw: a line of MiB/s and millions of messages per second.
    Bandwidth,
    /// The same, read as a message rate: messages too small for a bandwidth to mean anything.
    Rate,
    /// rstream, riostream, udpong: a line whose last number is the microseconds of a transfer.
    Transfer,
    /// The same, read as a bandwidth: the number before it, in Gbit/s.
    Stream,
    /// A program that lists what it found: this must be among it.
    Shows(&'static str),
    /// ucx_perftest -f: the typical latency of its line, in microseconds.
    UcxLatency,
    /// ucx_perftest -f: the bandwidth of its line, in MiB/s.
    UcxBandwidth,
    /// fi_pingpong: microseconds one way.
    FabricPingPong,
    /// iperf3 -f m: Mbit/s that the receiver counted.
    Iperf,
}

/// The unit of a [`Figure`].
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "unit", content = "value")]
pub enum Figure {
    /// Nanoseconds, less is better.
    Nanoseconds(f64),
    /// Bytes per second, more is better.
    BytesPerSecond(f64),
    /// Messages per second, more is better.
    MessagesPerSecond(f64),
}

/// Who runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sides {
    /// One alone.
    One,
    /// A server and a client with the same words, a TCP port for their talk, and for the client the server's address.
    Two,
    /// A server and a client that find each other by the connection manager.
    Manager(Meeting),
}

/// One run of one program.
#[derive(Clone)]
pub struct Job<F: 'static = Floors> {
    /// The program.
    pub program: &'static str,
    /// Its options, without port and host.
    pub options: Vec<String>,
    /// What a good end proves.
    pub proves: String,
    /// How to read it.
    pub report: Report,
    /// Who runs it.
    pub sides: Sides,
    /// The floor of the same quantity, and its name.
    pub floor: fn(&F) -> Option<Figure>,
    /// What the floor is.
    pub floor_name: &'static str,
}

impl<F> Job<F> {
    /// Program and options as a line.
    pub fn title(&self) -> String {
        iter::once(self.program)
            .chain(self.options.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

pub(super) fn ns(floor: Floor) -> Option<Figure> {
    floor.map(Figure::Nanoseconds)
}

fn rate_64k(floor: Floor) -> Option<Figure> {
    floor.map(|ns| Figure::BytesPerSecond(bytes_per_second(64 << 10, ns)))
}

const NO_FLOOR: fn(&Floors) -> Option<Figure> = |_| None;

/// What the stacks are compared with on one host.
pub(super) const AGAINST: Against<Floors> = Against {
    latency: (|f| ns(f.mapped_ring_ns), "ring 8 B"),
    stream: (|f| rate_64k(f.cma_write_64k_ns), "writev 64 KiB"),
    between: false,
};

/// Iterations of the demonstration.
#[derive(Clone, Copy)]
pub struct Effort {
    pub(super) pingpong: u32,
    pub(super) latency: u32,
    pub(super) event_latency: u32,
    pub(super) bandwidth: u32,
}

impl Effort {
    /// What `make demo` runs.
    pub const FULL: Effort = Effort {
        pingpong: 20_000,
        latency: 50_000,
        event_latency: 10_000,
        bandwidth: 20_000,
    };
    /// What `make test` runs.
    pub const QUICK: Effort = Effort {
        pingpong: 1_000,
        latency: 2_000,
        event_latency: 1_000,
        bandwidth: 1_000,
    };
    /// Receives that an unreliable bandwidth run may post ahead: no more messages than that, so
    /// that none arrives where no receive waits.
    const UNRELIABLE_MESSAGES: u32 = 4_000;
}

/// Everything that the demonstration runs, in the order of the table.
pub fn all(effort: Effort) -> Vec<Job> {
    let mut jobs = vec![Job {
        program: "ibv_devinfo",
        options: vec![],
        proves: "the adapter is found and its port is active".to_owned(),
        report: Report::DeviceInfo,
        sides: Sides::One,
        floor: NO_FLOOR,
        floor_name: "",
    }];
    ping_pongs(&mut jobs, effort);
    for event in [false, true] {
        sends(&mut jobs, effort, event);
    }
    writes(&mut jobs, effort);
    for event in [false, true] {
        reads_and_atomics(&mut jobs, effort, event);
    }
    jobs.extend(cm::all());
    jobs.extend(cm::native());
    jobs.extend(sockets::all(
        (|f: &Floors| ns(f.mapped_ring_ns), "ring 8 B"),
        (|f: &Floors| rate_64k(f.memcpy_64k_ns), "memcpy"),
    ));
    jobs
}

/// Adds the completion mode to options and sentence.
pub(super) fn with_mode(
    event: bool,
    mut options: Vec<String>,
    proves: &str,
) -> (Vec<String>, String) {
    if event {
        options.push("-e".to_owned());
    }
    let mode = if event {
        "sleeping for events"
    } else {
        "polling"
    };
    (options, format!("{proves}, {mode}"))
}

pub(super) fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn ping_pongs(jobs: &mut Vec<Job>, effort: Effort) {
    let count = effort.pingpong.to_string();
    for event in [false, true] {
        let chosen = [
            ("ibv_rc_pingpong", "RC SEND, every byte checked"),
            ("ibv_uc_pingpong", "UC SEND, every byte checked"),
            ("ibv_ud_pingpong", "UD SEND, every byte checked"),
            (
                "ibv_srq_pingpong",
                "16 RC QPs on one SRQ, every byte checked",
            ),
        ];
        for (program, what) in chosen {
            // The path MTU of a datagram is its size; the others ask for theirs.
            let mut options = words(&["-s", "4096", "-c", "-n", &count]);
            if program != "ibv_ud_pingpong" {
                options.extend(words(&["-m", "4096"]));
            }
            let (options, proves) = with_mode(event, options, what);
            let many = program == "ibv_srq_pingpong";
            jobs.push(Job {
                program,
                options,
                proves,
                report: Report::PingPong,
                sides: Sides::Two,
                // A round trip is two ways. Sixteen queue pairs overlap their round trips: their time
                // per iteration is no latency, and is shown without a ratio.
                floor: match (many, event) {
                    (true, _) => NO_FLOOR,
                    (false, false) => |f| ns(f.mapped_ring_4096_ns.map(|one_way| 2.0 * one_way)),
                    (false, true) => |f| ns(f.wake_ns.map(|one_way| 2.0 * one_way)),
                },
                floor_name: match (many, event) {
                    (true, _) => "",
                    (false, false) => "2 x ring 4 KiB",
                    (false, true) => "2 x wake-up",
                },
            });
        }
        let (options, proves) = with_mode(
            event,
            words(&["-n", "50"]),
            "XRC: one SRQ of a shared domain",
        );
        jobs.push(Job {
            program: "ibv_xsrq_pingpong",
            options,
            proves,
            report: Report::Silent,
            sides: Sides::Two,
            floor: NO_FLOOR,
            floor_name: "",
        });
    }
}

fn sends(jobs: &mut Vec<Job>, effort: Effort, event: bool) {
    let count = if event {
        effort.event_latency
    } else {
        effort.latency
    }
    .to_string();
    for service in ["RC", "UC", "UD"] {
        let (options, proves) = with_mode(
            event,
            words(&["-c", service, "-n", &count]),
            &format!("{service} SEND of 2 B"),
        );
        jobs.push(Job {
            program: "ib_send_lat",
            options,
            proves,
            report: Report::Latency,
            sides: Sides::Two,
            floor: if event {
                |f| ns(f.wake_ns)
            } else {
                |f| ns(f.mapped_ring_ns)
            },
            floor_name: if event { "wake-up" } else { "ring 8 B" },
        });
    }
    for service in ["RC", "UC", "UD"] {
        let datagram = service == "UD";
        let most = if service == "RC" {
            effort.bandwidth
        } else {
            effort.bandwidth.min(Effort::UNRELIABLE_MESSAGES)
        };
        let count = most.to_string();
        let mut options = words(&["-c", service, "-n", &count]);
        if datagram {
            options.extend(words(&["-s", "4096"]));
        }
        let what = format!(
            "{service} SEND of {} in a stream",
            if datagram { "4 KiB" } else { "64 KiB" }
        );
        let (options, proves) = with_mode(event, options, &what);
        jobs.push(Job {
            program: "ib_send_bw",
            options,
            proves,
            report: Report::Bandwidth,
            sides: Sides::Two,
            // A datagram is matched by the target and so copied by it: no copy is faster than memcpy.
            floor: if datagram {
                |f| rate_64k(f.memcpy_64k_ns)
            } else {
                |f| rate_64k(f.cma_write_64k_ns)
            },
            floor_name: if datagram { "memcpy" } else { "writev 64 KiB" },
        });
    }
}

fn writes(jobs: &mut Vec<Job>, effort: Effort) {
    // perftest offers no events for WRITE: its target polls memory.
    for service in ["RC", "UC"] {
        jobs.push(Job {
            program: "ib_write_lat",
            options: words(&["-c", service, "-n", &effort.latency.to_string()]),
            proves: format!("{service} RDMA WRITE of 2 B, target polls its memory"),
            report: Report::Latency,
            sides: Sides::Two,
            floor: |f| ns(f.cma_write_ns),
            floor_name: "writev 8 B",
        });
    }
    for service in ["RC", "UC"] {
        jobs.push(Job {
            program: "ib_write_bw",
            options: words(&["-c", service, "-n", &effort.bandwidth.to_string()]),
            proves: format!("{service} RDMA WRITE of 64 KiB in a stream"),
            report: Report::Bandwidth,
            sides: Sides::Two,
            floor: |f| rate_64k(f.cma_write_64k_ns),
            floor_name: "writev 64 KiB",
        });
    }
}

fn reads_and_atomics(jobs: &mut Vec<Job>, effort: Effort, event: bool) {
    let latency = if event {
        effort.event_latency
    } else {
        effort.latency
    }
    .to_string();
    let bandwidth = effort.bandwidth.to_string();
    let mut push = |program,
                    options: &[&str],
                    what,
                    report,
                    floor: fn(&Floors) -> Option<Figure>,
                    floor_name| {
        let (options, proves) = with_mode(event, words(options), what);
        jobs.push(Job {
            program,
            options,
            proves,
            report,
            sides: Sides::Two,
            floor,
            floor_name,
        });
    };
    push(
        "ib_read_lat",
        &["-n", &latency],
        "RDMA READ of 2 B",
        Report::Latency,
        |f| ns(f.cma_read_ns),
        "readv 8 B",
    );
    push(
        "ib_read_bw",
        &["-n", &bandwidth],
        "RDMA READ of 64 KiB in a stream",
        Report::Bandwidth,
        |f| rate_64k(f.cma_read_64k_ns),
        "readv 64 KiB",
    );
    for (kind, what, stream) in [
        (
            "FETCH_AND_ADD",
            "fetch-and-add",
            "fetch-and-add in a stream",
        ),
        (
            "CMP_AND_SWAP",
            "compare-and-swap",
            "compare-and-swap in a stream",
        ),
    ] {
        // An atomic is executed by the target: a message there and one back.
        push(
            "ib_atomic_lat",
            &["-A", kind, "-n", &latency],
            what,
            Report::Latency,
            |f| ns(f.mapped_ring_ns.map(|one_way| 2.0 * one_way)),
            "2 x ring 8 B",
        );
        push(
            "ib_atomic_bw",
            &["-A", kind, "-n", &bandwidth],
            stream,
            Report::Rate,
            |f| {
                f.ring_stream_ns
                    .map(|ns| Figure::MessagesPerSecond(1e9 / ns))
            },
            "ring stream 8 B",
        );
    }
}
