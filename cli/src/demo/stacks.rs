//! What runs on verbs without knowing it: the communication libraries UCX and libfabric, each with the programs that come with it, and
//! TCP programs by the preload of rdma-core's sockets.
//!
//! Owns their words, as [`super::cm`] does. They are run when they are asked for (`--with`), because they are packages of their own.

use super::cm::{Meeting, usage_has};
use super::programs::{Figure, Job, Report, Sides, words};
use crate::args::Stack;
use crate::netns;
use std::path::Path;

/// What a latency and a stream are compared with where the programs run.
pub struct Against<F: 'static> {
    /// One way of a small message, and its name.
    pub latency: (fn(&F) -> Option<Figure>, &'static str),
    /// A stream of 64 KiB messages, and its name.
    pub stream: (fn(&F) -> Option<Figure>, &'static str),
    /// The sides are two hosts, each with one Ethernet device.
    pub between: bool,
}

/// A test of ucx_perftest: its client's words, what it proves, and how it is read.
type Test = (&'static str, &'static str, Report);

const RELIABLE: [Test; 8] = [
    ("tag_lat", "tag matching, RC", Report::UcxLatency),
    (
        "tag_bw -s 65536",
        "64 KiB in a stream, RC",
        Report::UcxBandwidth,
    ),
    ("stream_lat", "byte streams, RC", Report::UcxLatency),
    ("ucp_am_lat", "active messages, RC", Report::UcxLatency),
    ("ucp_put_lat", "puts, RC", Report::UcxLatency),
    ("ucp_get", "gets, RC", Report::UcxLatency),
    ("ucp_fadd", "fetch-and-add, RC", Report::UcxLatency),
    ("ucp_cswap", "compare-and-swap, RC", Report::UcxLatency),
];

const DATAGRAMS: [Test; 2] = [
    ("tag_lat", "tag matching, UD", Report::UcxLatency),
    ("ucp_put_lat", "puts, UD", Report::UcxLatency),
];

/// Tests of UCX's transports themselves, without its protocols above them: transport, words, what it proves.
const TRANSPORTS: [(&str, &str, &str); 6] = [
    ("rc_verbs", "am_lat", "active messages"),
    ("rc_verbs", "put_lat", "puts"),
    ("rc_verbs", "get -s 512 -D bcopy", "gets"),
    ("rc_verbs", "fadd", "fetch-and-add"),
    ("ud_verbs", "am_lat", "active messages"),
    (
        "ud_verbs",
        "am_bw -s 512 -D zcopy",
        "active messages in place",
    ),
];

/// Everything of the stacks that are asked for.
pub fn all<F>(with: &[Stack], against: &Against<F>) -> Vec<Job<F>> {
    let mut jobs = Vec::new();
    if with.contains(&Stack::Ucx) {
        ucx(&mut jobs, against);
    }
    if with.contains(&Stack::Libfabric) {
        libfabric(&mut jobs, against);
    }
    if with.contains(&Stack::Tcp) {
        tcp(&mut jobs, against);
    }
    jobs
}

/// rdma-core's preload, which makes TCP sockets into its own: where the loader is told to look
/// first, then Debian's and Ubuntu's place for it, and other distributions'.
pub fn socket_preload() -> Option<String> {
    let told = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let told = told.split(':').filter(|dir| dir.starts_with('/'));
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    told.map(str::to_owned)
        .chain([&multiarch, "/usr/lib64", "/usr/lib"].map(|dir| format!("{dir}/rsocket")))
        .map(|dir| format!("{dir}/librspreload.so"))
        .find(|path| Path::new(path).is_file())
}

fn tcp<F>(jobs: &mut Vec<Job<F>>, against: &Against<F>) {
    let settings = kept(format!(
        "LD_PRELOAD={}",
        socket_preload().unwrap_or_default()
    ));
    for (options, proves) in [
        ("-t 1", "a stream from the client"),
        ("-t 1 -R", "a stream from the server"),
        ("-t 1 -P 3", "three streams"),
    ] {
        let (floor, floor_name) = against.stream;
        jobs.push(Job {
            program: "iperf3",
            options: words(&options.split_whitespace().collect::<Vec<_>>()),
            proves: format!("TCP programs by librspreload: {proves}"),
            report: Report::Iperf,
            sides: Sides::Manager(Meeting {
                settings,
                server: "-s -1 -B ADDRESS -p PORT",
                client: kept(format!("-c ADDRESS -p PORT -f m {options}")),
                server_program: "iperf3",
                stays: false,
            }),
            floor,
            floor_name,
        });
    }
}

fn alone<F>(program: &'static str, options: &[&str], proves: &str, shows: &'static str) -> Job<F> {
    Job {
        program,
        options: words(options),
        proves: proves.to_owned(),
        report: Report::Shows(shows),
        sides: Sides::One,
        floor: |_| None,
        floor_name: "",
    }
}

/// A name that lives as long as the program, as the words of a meeting do: there are a dozen of them.
fn kept(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn ucx<F>(jobs: &mut Vec<Job<F>>, against: &Against<F>) {
    jobs.push(alone(
        "ucx_info",
        &["-d"],
        "UCX finds the adapter and takes it for its own",
        "Transport: rc_verbs",
    ));
    // one device of several: a host's Ethernet device would be taken beside ferri0
    let device = if against.between {
        ""
    } else {
        " UCX_NET_DEVICES=ferri0:1"
    };
    let server = perftest_server();
    for (transport, tests) in [("rc_v", &RELIABLE[..]), ("ud_v", &DATAGRAMS[..])] {
        for (test, proves, report) in tests {
            let (floor, floor_name) = match (*report, *test) {
                (Report::UcxBandwidth, _) => against.stream,
                (_, "tag_lat" | "stream_lat" | "ucp_am_lat" | "ucp_put_lat") => against.latency,
                _ => (no_floor as fn(&F) -> Option<Figure>, ""),
            };
            let shown = format!("-t {test} (UCX_TLS={transport},self)");
            jobs.push(Job {
                program: "ucx_perftest",
                options: words(&shown.split_whitespace().collect::<Vec<_>>()),
                proves: format!("UCX: {proves}"),
                report: *report,
                sides: Sides::Manager(Meeting {
                    settings: kept(format!("UCX_TLS={transport},self{device}")),
                    server,
                    client: kept(format!("{server} -f -n 5000 -w 500 -t {test} ADDRESS")),
                    server_program: "ucx_perftest",
                    stays: false,
                }),
                floor,
                floor_name,
            });
        }
    }
    ucx_transports(jobs, against, server);
}

/// The words of ucx_perftest's server. Where it was built with MPI it would take itself for a rank, because no terminal is its input.
fn perftest_server() -> &'static str {
    match usage_has("ucx_perftest", "MPI mode") {
        true => "-P 0 -p PORT",
        false => "-p PORT",
    }
}

fn ucx_transports<F>(jobs: &mut Vec<Job<F>>, against: &Against<F>, server: &'static str) {
    let device = if against.between {
        netns::DEVICE
    } else {
        "ferri0"
    };
    for (transport, test, proves) in TRANSPORTS {
        let shown = format!("-x {transport} -t {test}");
        let (floor, floor_name) = match test {
            "am_lat" | "put_lat" => against.latency,
            _ => (no_floor as fn(&F) -> Option<Figure>, ""),
        };
        jobs.push(Job {
            program: "ucx_perftest",
            options: words(&shown.split_whitespace().collect::<Vec<_>>()),
            proves: format!("UCX's transport alone: {proves}"),
            report: Report::UcxLatency,
            sides: Sides::Manager(Meeting {
                settings: "",
                // since UCX 1.18 or before, the server must be told of its device too
                server: kept(format!("{server} -d {device}:1 -x {transport}")),
                client: kept(format!(
                    "{server} -f -n 5000 -w 500 -d {device}:1 {shown} ADDRESS"
                )),
                server_program: "ucx_perftest",
                stays: false,
            }),
            floor,
            floor_name,
        });
    }
}

fn no_floor<F>(_: &F) -> Option<Figure> {
    None
}

fn libfabric<F>(jobs: &mut Vec<Job<F>>, against: &Against<F>) {
    jobs.push(alone(
        "fi_info",
        &["-p", "verbs"],
        "libfabric finds the adapter",
        "FI_EP_MSG",
    ));
    if !against.between {
        // its verbs provider leaves loopback addresses out, and nothing says that this host has another
        return;
    }
    for (provider, kind, proves) in [
        ("verbs", "msg", "libfabric: connected endpoints"),
        (
            "verbs;ofi_rxm",
            "rdm",
            "libfabric: reliable datagrams over connections",
        ),
        ("verbs", "dgram", "libfabric: datagrams"),
    ] {
        let common = format!("-p {provider} -e {kind} -S 64 -I 2000");
        let (floor, floor_name) = against.latency;
        jobs.push(Job {
            program: "fi_pingpong",
            options: words(&common.split_whitespace().collect::<Vec<_>>()),
            proves: proves.to_owned(),
            report: Report::FabricPingPong,
            sides: Sides::Manager(Meeting {
                settings: "",
                server: kept(format!("{common} -B PORT")),
                client: kept(format!("{common} -P PORT ADDRESS")),
                server_program: "fi_pingpong",
                stays: false,
            }),
            floor,
            floor_name,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(with: &[Stack], between: bool) -> Vec<String> {
        let against = Against::<()> {
            latency: (no_floor, ""),
            stream: (no_floor, ""),
            between,
        };
        all(with, &against).iter().map(Job::title).collect()
    }

    #[test]
    fn only_what_is_asked_for_runs() {
        assert!(titles(&[], true).is_empty());
        let ucx = titles(&[Stack::Ucx], false);
        assert!(ucx.iter().all(|title| title.starts_with("ucx_")));
        for transport in ["rc_v,", "ud_v,", "rc_verbs", "ud_verbs"] {
            assert!(ucx.iter().any(|title| title.contains(transport)));
        }
        let both = titles(&[Stack::Ucx, Stack::Libfabric], true);
        assert_eq!(both.len(), ucx.len() + 4);
        let tcp = titles(&[Stack::Tcp], false);
        assert!(tcp.iter().all(|title| title.starts_with("iperf3 -t 1")));
    }
}
