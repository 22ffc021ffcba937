//! The targets between two hosts: unmodified perftest over RoCEv2, beside plain UDP over the same veth pair.
//!
//! Owns the list. Must not know how the hosts are made.

use super::probes::{LATENCY_MESSAGES, Run, strings};
use super::{Demand, Target, Unit, latency};
use crate::demo::programs::Report;
use crate::demo::runner::Place;
use crate::failure::Failure;
use crate::floor::udp::{self, UdpFloors};
use crate::netns::TwoHosts;
use crate::progress::Progress;

/// Entry of the GID table that holds the IPv4 address.
const IPV4: [&str; 2] = ["-x", "1"];
/// Messages of 1 MiB: a second of them.
const LARGE_MESSAGES: u32 = 2_000;

/// Steps of [`floors`].
pub const STEPS: u64 = udp::STEPS;

/// What plain UDP does, measured once.
pub fn floors(hosts: &TwoHosts, progress: &Progress) -> Result<UdpFloors, Failure> {
    udp::measure(hosts, 1, progress)
}

pub const TARGETS: [Target<TwoHosts, UdpFloors>; 4] = [
    latency(
        "SEND 8 B over RoCEv2, RC, one way (ib_send_lat)",
        |hosts| send_latency(hosts, "RC"),
        "UDP 24 B, polled",
        |f| f.small_ns,
        2.0,
    ),
    latency(
        "SEND 8 B over RoCEv2, UD, one way (ib_send_lat -c UD)",
        |hosts| send_latency(hosts, "UD"),
        "UDP 24 B, polled",
        |f| f.small_ns,
        2.0,
    ),
    write_bandwidth(
        "WRITE 1 MiB bandwidth over RoCEv2 (ib_write_bw)",
        "UDP 1040 B, GSO and GRO",
        |f| f.stream,
        0.5,
    ),
    write_bandwidth(
        "WRITE 1 MiB bandwidth over RoCEv2, beside sendmmsg",
        "UDP 1040 B, sendmmsg",
        |f| f.stream_without_gso,
        1.0,
    ),
];

const fn write_bandwidth(
    name: &'static str,
    floor_name: &'static str,
    floor: fn(&UdpFloors) -> Option<f64>,
    share: f64,
) -> Target<TwoHosts, UdpFloors> {
    Target {
        name,
        probe: large_writes,
        unit: Unit::BytesPerSecond,
        floor_name,
        floor,
        demand: Demand::AtLeast(share),
        once: false,
    }
}

fn run(
    hosts: &TwoHosts,
    program: &'static str,
    size_bytes: usize,
    messages: u32,
    options: &[&str],
    report: Report,
) -> Result<f64, Failure> {
    let mut run = Run::new(program, size_bytes, messages).bound()?;
    run.options.extend(strings(&IPV4));
    run.options.extend(strings(options));
    run.figure_at(Place::Hosts(hosts), report)
}

fn send_latency(hosts: &TwoHosts, service: &str) -> Result<f64, Failure> {
    let options = ["-c", service];
    run(
        hosts,
        "ib_send_lat",
        8,
        LATENCY_MESSAGES,
        &options,
        Report::Latency,
    )
}

fn large_writes(hosts: &TwoHosts) -> Result<f64, Failure> {
    run(
        hosts,
        "ib_write_bw",
        1 << 20,
        LARGE_MESSAGES,
        &[],
        Report::Bandwidth,
    )
}
