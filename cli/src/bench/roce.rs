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
use std::env;

/// Entry of the GID table that holds the IPv4 address.
const IPV4: [&str; 2] = ["-x", "1"];
/// Messages of 1 MiB: a second of them.
const LARGE_MESSAGES: u32 = 2_000;

/// Loses every hundredth packet that reaches the server.
const LOSSY: &str = "drop direction=rx probability=0.01";
/// Loses none, but costs as much: packets are looked at one by one.
const LOSSLESS: &str = "drop direction=rx probability=0";

/// What the figures are compared with.
pub struct WireFloors {
    udp: UdpFloors,
    /// Bytes per second of 1 MiB WRITEs under a rule that never hits; none if they failed.
    lossless: Option<f64>,
}

/// Steps of [`floors`].
pub const STEPS: u64 = udp::STEPS_AT_LENGTH + 1;

/// What plain UDP does, and WRITEs without loss, measured once.
pub fn floors(hosts: &TwoHosts, progress: &Progress) -> Result<WireFloors, Failure> {
    let udp = udp::measure_at_length(hosts, progress)?;
    progress.step("WRITE 1 MiB without loss");
    Ok(WireFloors {
        udp,
        lossless: writes_under(hosts, LOSSLESS).ok(),
    })
}

pub const TARGETS: [Target<TwoHosts, WireFloors>; 5] = [
    latency(
        "SEND 8 B over RoCEv2, RC, one way (ib_send_lat)",
        |hosts| send_latency(hosts, "RC"),
        "UDP 24 B, polled",
        |f| f.udp.small_ns,
        2.0,
    ),
    latency(
        "SEND 8 B over RoCEv2, UD, one way (ib_send_lat -c UD)",
        |hosts| send_latency(hosts, "UD"),
        "UDP 24 B, polled",
        |f| f.udp.small_ns,
        2.0,
    ),
    write_bandwidth(
        "WRITE 1 MiB bandwidth over RoCEv2 (ib_write_bw)",
        "UDP 1040 B, GSO and GRO",
        |f| f.udp.stream,
        0.5,
    ),
    write_bandwidth(
        "WRITE 1 MiB bandwidth over RoCEv2, beside sendmmsg",
        "UDP 1040 B, sendmmsg",
        |f| f.udp.stream_without_gso,
        1.0,
    ),
    Target {
        probe: |hosts| writes_under(hosts, LOSSY),
        ..write_bandwidth(
            "WRITE 1 MiB bandwidth over RoCEv2, 1 % loss",
            "the same without loss",
            |f| f.lossless,
            0.5,
        )
    },
];

const fn write_bandwidth(
    name: &'static str,
    floor_name: &'static str,
    floor: fn(&WireFloors) -> Option<f64>,
    share: f64,
) -> Target<TwoHosts, WireFloors> {
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
    let exe = env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
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
