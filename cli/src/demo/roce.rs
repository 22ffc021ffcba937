//! The same programs between two hosts: what each proves on the RoCEv2 wire, and the floor of plain UDP that it is compared with.

use super::programs::{Effort, Figure, Job, Report, Sides, with_mode, words};
use super::stacks::Against;
use super::{cm, sockets};
use crate::floor::udp::UdpFloors;

/// Entry of the GID table that holds the IPv4 address of a host made by [`crate::netns`].
const IPV4: &str = "1";

type Pick = fn(&UdpFloors) -> Option<Figure>;

const NO_FLOOR: Pick = |_| None;

fn ns(value: Option<f64>) -> Option<Figure> {
    value.map(Figure::Nanoseconds)
}

/// A round trip is two ways.
fn twice(value: Option<f64>) -> Option<Figure> {
    ns(value.map(|one_way| 2.0 * one_way))
}

fn stream(floors: &UdpFloors) -> Option<Figure> {
    floors.stream.map(Figure::BytesPerSecond)
}

const STREAM: (Pick, &str) = (stream, "UDP GSO+GRO");

/// What the stacks are compared with between two hosts.
pub(super) const AGAINST: Against<UdpFloors> = Against {
    latency: (|f| ns(f.small_ns), "UDP 24 B"),
    stream: STREAM,
    between: true,
};

/// Everything that runs between two hosts, in the order of the table.
pub fn all(effort: Effort) -> Vec<Job<UdpFloors>> {
    let mut jobs = vec![Job {
        program: "ibv_devinfo",
        options: words(&["-v"]),
        proves: "the interface is an adapter and its port is active".to_owned(),
        report: Report::DeviceInfo,
        sides: Sides::One,
        floor: NO_FLOOR,
        floor_name: "",
    }];
    for event in [false, true] {
        ping_pongs(&mut jobs, effort, event);
    }
    for (gid, what) in [("0", "link-local IPv6"), ("2", "IPv6")] {
        jobs.push(ping_pong(effort, "ibv_rc_pingpong", gid, what, false));
        jobs.push(ping_pong(effort, "ibv_ud_pingpong", gid, what, false));
    }
    for event in [false, true] {
        latencies(&mut jobs, effort, event);
    }
    for event in [false, true] {
        streams(&mut jobs, effort, event);
    }
    jobs.extend(cm::all());
    jobs.extend(cm::between());
    jobs.extend(sockets::all(
        (|f: &UdpFloors| ns(f.small_ns), "UDP 24 B"),
        STREAM,
    ));
    jobs
}

fn ping_pong(
    effort: Effort,
    program: &'static str,
    gid: &str,
    what: &str,
    event: bool,
) -> Job<UdpFloors> {
    let count = if event {
        effort.event_latency
    } else {
        effort.pingpong
    }
    .to_string();
    let datagrams = program == "ibv_ud_pingpong";
    let size = if datagrams { "1024" } else { "4096" };
    let mut options = words(&["-g", gid, "-s", size, "-c", "-n", &count]);
    if !datagrams {
        options.extend(words(&["-m", "1024"]));
    }
    let service = match program {
        "ibv_srq_pingpong" => "16 RC QPs on one SRQ",
        "ibv_uc_pingpong" => "UC SEND",
        "ibv_ud_pingpong" => "UD SEND",
        _ => "RC SEND",
    };
    let (options, proves) = with_mode(
        event,
        options,
        &format!("{service} over {what}, every byte checked"),
    );
    let many = program == "ibv_srq_pingpong";
    let (floor, floor_name): (Pick, _) = match (datagrams, event) {
        // their round trips overlap: the time per iteration is no latency
        _ if many => (NO_FLOOR, ""),
        (true, false) => (|f| twice(f.datagram_ns), "2 x UDP 1 KiB"),
        (true, true) => (|f| twice(f.datagram_asleep_ns), "2 x UDP 1 KiB asleep"),
        (false, false) => (|f| twice(f.page_ns), "2 x UDP 4 KiB"),
        (false, true) => (|f| twice(f.page_asleep_ns), "2 x UDP 4 KiB asleep"),
    };
    Job {
        program,
        options,
        proves,
        report: Report::PingPong,
        sides: Sides::Two,
        floor,
        floor_name,
    }
}

fn ping_pongs(jobs: &mut Vec<Job<UdpFloors>>, effort: Effort, event: bool) {
    for program in [
        "ibv_rc_pingpong",
        "ibv_uc_pingpong",
        "ibv_ud_pingpong",
        "ibv_srq_pingpong",
    ] {
        jobs.push(ping_pong(effort, program, IPV4, "IPv4", event));
    }
    let (options, proves) = with_mode(
        event,
        words(&["-g", IPV4, "-n", "50"]),
        "XRC: one SRQ of a shared domain, over IPv4",
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

/// A job of perftest.
fn perf(
    program: &'static str,
    options: &[&str],
    what: &str,
    event: bool,
    report: Report,
    (floor, floor_name): (Pick, &'static str),
) -> Job<UdpFloors> {
    let mut all = words(&["-x", IPV4]);
    all.extend(words(options));
    let (options, proves) = with_mode(event, all, what);
    Job {
        program,
        options,
        proves,
        report,
        sides: Sides::Two,
        floor,
        floor_name,
    }
}

fn latencies(jobs: &mut Vec<Job<UdpFloors>>, effort: Effort, event: bool) {
    let count = if event {
        effort.event_latency
    } else {
        effort.latency
    }
    .to_string();
    let one_way: (Pick, &str) = if event {
        (|f| ns(f.small_asleep_ns), "UDP 24 B asleep")
    } else {
        (|f| ns(f.small_ns), "UDP 24 B")
    };
    let round_trip: (Pick, &str) = if event {
        (|f| twice(f.small_asleep_ns), "2 x UDP 24 B asleep")
    } else {
        (|f| twice(f.small_ns), "2 x UDP 24 B")
    };
    let latency = Report::Latency;
    for service in ["RC", "UC", "UD"] {
        let what = format!("{service} SEND of 8 B");
        let options = ["-c", service, "-s", "8", "-n", &count];
        jobs.push(perf(
            "ib_send_lat",
            &options,
            &what,
            event,
            latency,
            one_way,
        ));
    }
    if !event {
        // whoever polls memory without a call of the library yields its core only at the end
        // of its time slice: on a crowded machine each message costs one
        let few = (effort.latency / 25).to_string();
        for service in ["RC", "UC"] {
            let what = format!("{service} RDMA WRITE of 8 B, target polls its memory");
            let options = ["-c", service, "-s", "8", "-n", &few];
            jobs.push(perf(
                "ib_write_lat",
                &options,
                &what,
                event,
                latency,
                one_way,
            ));
        }
    }
    let options = ["-s", "8", "-n", &count];
    jobs.push(perf(
        "ib_read_lat",
        &options,
        "RDMA READ of 8 B",
        event,
        latency,
        round_trip,
    ));
    for (kind, what) in [
        ("FETCH_AND_ADD", "fetch-and-add"),
        ("CMP_AND_SWAP", "compare-and-swap"),
    ] {
        let options = ["-A", kind, "-n", &count];
        jobs.push(perf(
            "ib_atomic_lat",
            &options,
            what,
            event,
            latency,
            round_trip,
        ));
    }
}

fn streams(jobs: &mut Vec<Job<UdpFloors>>, effort: Effort, event: bool) {
    // a packet of 1 KiB costs ten times what a copy of it does
    let count = (effort.bandwidth / 4).to_string();
    let large = (effort.bandwidth / 20).to_string();
    let bandwidth = Report::Bandwidth;
    let send = |service, size, count: &str, what: &str| {
        let options = ["-c", service, "-s", size, "-n", count];
        perf("ib_send_bw", &options, what, event, bandwidth, STREAM)
    };
    jobs.push(send("RC", "65536", &count, "RC SEND of 64 KiB in a stream"));
    if !event {
        for service in ["RC", "UC"] {
            let what = format!("{service} RDMA WRITE of 64 KiB in a stream");
            let options = ["-c", service, "-n", &count];
            jobs.push(perf(
                "ib_write_bw",
                &options,
                &what,
                event,
                bandwidth,
                STREAM,
            ));
        }
        let options = ["-s", "1048576", "-n", &large];
        jobs.push(perf(
            "ib_write_bw",
            &options,
            "RC RDMA WRITE of 1 MiB in a stream",
            event,
            bandwidth,
            STREAM,
        ));
    }
    let options = ["-n", &count];
    jobs.push(perf(
        "ib_read_bw",
        &options,
        "RDMA READ of 64 KiB in a stream",
        event,
        bandwidth,
        STREAM,
    ));
    let messages: (Pick, &str) = (
        |f| f.messages.map(Figure::MessagesPerSecond),
        "UDP 24 B GSO+GRO",
    );
    for (kind, what) in [
        ("FETCH_AND_ADD", "fetch-and-add in a stream"),
        ("CMP_AND_SWAP", "compare-and-swap in a stream"),
    ] {
        let options = ["-A", kind, "-n", &count];
        jobs.push(perf(
            "ib_atomic_bw",
            &options,
            what,
            event,
            Report::Rate,
            messages,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_and_both_modes_run_between_hosts() {
        // perftest by the connection manager (-R) comes on top
        let titles: Vec<String> = all(Effort::QUICK)
            .iter()
            .map(Job::title)
            .filter(|title| !title.contains(" -R"))
            .collect();
        let count = |name: &str, flag: &str| {
            titles
                .iter()
                .filter(|title| title.starts_with(name) && title.contains(flag))
                .count()
        };
        for service in ["rc", "uc", "ud", "srq", "xsrq"] {
            let name = format!("ibv_{service}_pingpong");
            assert_eq!((count(&name, "-g 1"), count(&name, "-e")), (2, 1));
        }
        for name in ["ib_send_lat", "ib_send_bw", "ib_read_lat", "ib_read_bw"] {
            assert!(count(name, "-x 1") > count(name, "-e") && count(name, "-e") > 0);
        }
        assert_eq!(
            (count("ib_atomic_lat", ""), count("ib_atomic_bw", "")),
            (4, 4)
        );
    }
}
