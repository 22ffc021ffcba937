//! The targets between two hosts: unmodified perftest over RoCEv2, beside plain UDP over the same veth pair.
//!
//! Owns the list. Must not know how the hosts are made.

use super::probes::{LATENCY_MESSAGES, Run, strings};
use super::{Against, Demand, Target, Unit, latency};
use crate::demo::programs::Report;
use crate::demo::runner::Place;
use crate::failure::Failure;
use crate::floor::Floor;
use crate::floor::udp::{self, AtLength};
use crate::launch;
use crate::netns::TwoHosts;

/// Entry of the GID table that holds the IPv4 address.
const IPV4: [&str; 2] = ["-x", "1"];
/// Messages of 1 MiB: most of a second of them.
const LARGE_MESSAGES: u32 = 2_000;

/// Loses every hundredth packet that reaches the server.
const LOSSY: &str = "drop direction=rx probability=0.01";
/// Loses none, but costs as much: packets are looked at one by one.
const LOSSLESS: &str = "drop direction=rx probability=0";

/// What small messages are compared with.
const SMALL: Against<TwoHosts, ()> =
    Against::Beside(|hosts| udp::measure_at_length(hosts, AtLength::Small));

pub const TARGETS: [Target<TwoHosts, ()>; 5] = [
    latency(
        "SEND 8 B over RoCEv2, RC, one way (ib_send_lat)",
        |hosts| send_latency(hosts, "RC"),
        "UDP 24 B, polled",
        SMALL,
        2.0,
    ),
    latency(
        "SEND 8 B over RoCEv2, UD, one way (ib_send_lat -c UD)",
        |hosts| send_latency(hosts, "UD"),
        "UDP 24 B, polled",
        SMALL,
        2.0,
    ),
    write_bandwidth(
        "WRITE 1 MiB bandwidth over RoCEv2 (ib_write_bw)",
        "UDP 1040 B, GSO and GRO",
        |hosts| udp::measure_at_length(hosts, AtLength::Stream),
        0.5,
    ),
    write_bandwidth(
        "WRITE 1 MiB bandwidth over RoCEv2, beside sendmmsg",
        "UDP 1040 B, sendmmsg",
        |hosts| udp::measure_at_length(hosts, AtLength::StreamWithoutGso),
        1.0,
    ),
    Target {
        probe: |hosts| writes_under(hosts, LOSSY),
        ..write_bandwidth(
            "WRITE 1 MiB bandwidth over RoCEv2, 1 % loss",
            "the same without loss",
            |hosts| writes_under(hosts, LOSSLESS).map(Some),
            0.5,
        )
    },
];

const fn write_bandwidth(
    name: &'static str,
    floor_name: &'static str,
    floor: fn(&TwoHosts) -> Result<Floor, Failure>,
    share: f64,
) -> Target<TwoHosts, ()> {
    Target {
        name,
        probe: large_writes,
        unit: Unit::BytesPerSecond,
        floor_name,
        floor: Against::Beside(floor),
        demand: Demand::AtLeast(share),
        once: false,
    }
}

fn send_latency(hosts: &TwoHosts, service: &str) -> Result<f64, Failure> {
    let mut run = Run::new("ib_send_lat", 8, LATENCY_MESSAGES).bound()?;
    run.options.extend(strings(&IPV4));
    run.options.extend(strings(&["-c", service]));
    run.figure_at(Place::Hosts(hosts), Report::Latency)
}

fn large_writes(hosts: &TwoHosts) -> Result<f64, Failure> {
    stream(
        Run::new("ib_write_bw", 1 << 20, LARGE_MESSAGES).bound()?,
        hosts,
    )
}

/// With a fault rule on the server's side.
fn writes_under(hosts: &TwoHosts, rule: &str) -> Result<f64, Failure> {
    let exe = launch::ferriband()?;
    let exe = exe.display().to_string();
    let run = Run::new("ib_write_bw", 1 << 20, LARGE_MESSAGES / 4).bound()?;
    stream(
        run.server_under(&strings(&[&exe, "run", "--fault", rule, "--"])),
        hosts,
    )
}

fn stream(mut run: Run, hosts: &TwoHosts) -> Result<f64, Failure> {
    run.options.extend(strings(&IPV4));
    run.figure_at(Place::Hosts(hosts), Report::Bandwidth)
}
