//! What is run: Debian's programs, each as a server and a client, and how their figures are read.

use super::lab::{Family, Ready};

/// How a program's result is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// It ends well, and says this.
    Says(&'static str),
    /// It ends well.
    Silent,
    /// ibv_*_pingpong: microseconds per round trip.
    PingPong,
    /// ib_*_lat: a line of microseconds.
    Latency,
    /// ib_*_bw: a line of MiB/s and millions of messages per second.
    Bandwidth,
    /// The same, read as a message rate.
    Rate,
    /// rstream, riostream: a line with the bytes and the microseconds of a transfer, from which the rate follows.
    Stream,
    /// The same, read as the time of a transfer.
    Transfer,
}

/// A figure with its unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// One way, or a round trip, as the program reports it.
    Microseconds(f64),
    /// 10^6 bytes per second.
    MegabytesPerSecond(f64),
    /// 10^3 messages per second.
    KilomessagesPerSecond(f64),
}

impl Figure {
    /// Value and unit, for JSON.
    pub fn parts(self) -> (f64, &'static str) {
        match self {
            Figure::Microseconds(value) => (value, "us"),
            Figure::MegabytesPerSecond(value) => (value, "MB/s"),
            Figure::KilomessagesPerSecond(value) => (value, "k/s"),
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (value, unit) = self.parts();
        let digits = usize::from(value < 10.0);
        write!(f, "{value:.digits$} {unit}")
    }
}

/// A pair of programs, as templates that [`super::lab::Lab::fill`] completes.
pub struct Program {
    /// The server's command.
    pub server: String,
    /// The client's command.
    pub client: String,
    /// The row's title: what a person would type, without devices, ports and addresses.
    pub title: String,
    /// What a good end proves.
    pub proves: String,
    /// Which addresses are used.
    pub family: Family,
    /// When the server may be called.
    pub ready: Ready,
    /// How to read the result.
    pub report: Report,
    /// True for a program that ends as soon as its own work is done: when the last that its side said is lost, an acknowledgement or an
    /// answer of the connection manager, nobody is there to repeat it, and the peer waits (the kernel's rxe takes seven retries as for
    /// ever, and asks for the end of a connection for more than a minute).
    pub leaves_early: bool,
    /// True for a program that counts the messages of several queue pairs together, and so ends
    /// while some of them still wait for what was lost. With loss it runs [`LONGER`], and the loss
    /// ends before the program does: see [`super::ENOUGH_LOST`].
    pub outlasts_loss: bool,
    /// Why it is left out of the columns with loss, if it is.
    pub no_loss: Option<NoLoss>,
}

/// What is written for what in the commands of a program that is to outlast the loss: a second or
/// two instead of the 67 ms that the kernel's client waits before it says again what was not
/// acknowledged.
pub const LONGER: [&str; 2] = ["-n 500 ", "-n 10000 "];

/// Why a program is not made for loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoLoss {
    /// UC or UD: nobody repeats its packets.
    Unreliable,
    /// `ib_send_lat -e` of perftest 4.5 has one completion channel for two queues. Its wait for a send's completion takes whatever event comes,
    /// and polls the send queue once. When an acknowledgement is lost, the peer's answer comes first: its event is taken, the queue
    /// is still empty, and the completion that comes later is never polled. It fills the queue, which has room for one. The next completion
    /// finds no room and makes no event, for which the program waits for ever, with every packet acknowledged. Soft-RoCE with itself
    /// stops the same way (`--all --loss --reference`). perftest 23.07 parted the channels (its commit 2209cf8). Without loss it needs
    /// the acknowledgement before the reply, which ib/hca sees to.
    OneChannel,
}

impl NoLoss {
    /// In words.
    pub fn why(self) -> &'static str {
        match self {
            NoLoss::Unreliable => "nothing repeats what it loses",
            NoLoss::OneChannel => "perftest 4.5 stops when an acknowledgement is lost",
        }
    }
}

/// Everything that is run, in the order of the table.
pub fn all() -> Vec<Program> {
    let mut all = Vec::new();
    ping_pongs(&mut all);
    connections(&mut all);
    put_and_get(&mut all);
    for managed in [false, true] {
        perftest(&mut all, managed);
    }
    all
}

fn ping_pongs(all: &mut Vec<Program>) {
    let cases = [
        (
            "rc",
            "-s 4096 -n 500 -e",
            "RC SEND of 4 KiB, every byte checked",
            Family::V4,
        ),
        (
            "uc",
            "-s 4096 -n 500 -e",
            "UC SEND of 4 KiB, every byte checked",
            Family::V4,
        ),
        (
            "ud",
            "-s 1024 -n 500 -e",
            "UD SEND of 1 KiB, every byte checked",
            Family::V4,
        ),
        (
            "srq",
            "-s 4096 -n 500 -e",
            "16 RC queue pairs on one SRQ, every byte checked",
            Family::V4,
        ),
        (
            "rc",
            "-s 4096 -n 500 {e}",
            "RC SEND of 4 KiB, our side polling",
            Family::V4,
        ),
        (
            "rc",
            "-s 4096 -n 500 -e",
            "RC SEND of 4 KiB over IPv6",
            Family::V6,
        ),
        (
            "ud",
            "-s 1024 -n 500 -e",
            "UD SEND of 1 KiB over IPv6",
            Family::V6,
        ),
    ];
    for (service, options, proves, family) in cases {
        let common =
            format!("ibv_{service}_pingpong -d {{dev}} -g {{gid}} -p {{port}} -c {options}");
        all.push(Program {
            client: format!("{common} {{tcp}}"),
            server: common,
            title: title(&format!("ibv_{service}_pingpong -g -c {options}"), family),
            proves: proves.to_owned(),
            family,
            ready: Ready::Tcp,
            report: Report::PingPong,
            no_loss: (!matches!(service, "rc" | "srq")).then_some(NoLoss::Unreliable),
            leaves_early: service != "srq",
            outlasts_loss: service == "srq",
        });
    }
}

/// What a person would type, and what is unusual about it.
fn title(command: &str, family: Family) -> String {
    let mut title = command.replace("{e}", "-e");
    if command.contains("{e}") {
        title += " (we poll)";
    }
    if family == Family::V6 {
        title += " (IPv6)";
    }
    title
}

/// udaddy takes no other.
const UDADDY_PORT: u16 = 7174;

/// The programs of rdmacm-utils.
fn connections(all: &mut Vec<Program>) {
    let mut push = |server: &str, client: &str, title: &str, proves: &str, report, no_loss| {
        let family = if title.contains("IPv6") {
            Family::V6
        } else {
            Family::V4
        };
        all.push(Program {
            server: server.to_owned(),
            client: client.to_owned(),
            title: title.to_owned(),
            proves: proves.to_owned(),
            family,
            ready: match title.split_once(' ') {
                Some(("mckey", _)) => Ready::Group,
                Some(("udaddy", _)) => Ready::CmAt(UDADDY_PORT),
                _ => Ready::Cm,
            },
            report,
            no_loss,
            leaves_early: true,
            outlasts_loss: false,
        });
    };
    let rping = "-a {server} -p {port} -C 50 -S 20000 -V";
    for (title, proves) in [
        (
            "rping -C 50 -S 20000 -V",
            "connected by the connection manager: SEND, READ and WRITE, validated",
        ),
        ("rping -C 50 -S 20000 -V (IPv6)", "the same over IPv6"),
    ] {
        push(
            &format!("rping -s {rping}"),
            &format!("rping -c {rping}"),
            title,
            proves,
            Report::Silent,
            None,
        );
    }
    let complete = Report::Says("return status 0");
    push(
        "ucmatose -b {own} -p {port} -c 5 -C 20 -S 5000",
        "ucmatose -s {server} -p {port} -c 5 -C 20 -S 5000",
        "ucmatose -c 5 -C 20 -S 5000",
        "five connections, data both ways, disconnected in order",
        complete,
        None,
    );
    push(
        "udaddy -b {own} -c 5 -C 10 -S 1000",
        "udaddy -s {server} -c 5 -C 10 -S 1000",
        "udaddy -c 5 -C 10 -S 1000",
        "datagram peers resolved by SIDR, data both ways",
        complete,
        Some(NoLoss::Unreliable),
    );
    push(
        "rdma_server -p {port}",
        "rdma_client -s {server} -p {port}",
        "rdma_server, rdma_client",
        "endpoints of rdma_create_ep, one message each way",
        Report::Says("end 0"),
        None,
    );
    // "-T v" has every byte checked
    let stream = "-T b -T v -S 65536 -C 10 -I 2";
    for (title, options, proves, report) in [
        (
            "rstream -T b -S 64 -C 1 -I 300",
            "-T b -S 64 -C 1 -I 300",
            "rsocket to and fro, 64 B, asleep",
            Report::Transfer,
        ),
        (
            "rstream -T b -T v -S 65536 -C 10 -I 2",
            stream,
            "a stream over rsocket each way, asleep, every byte checked",
            Report::Stream,
        ),
        (
            "rstream -T b -T v -S 65536 -C 10 -I 2 (IPv6)",
            stream,
            "the same over IPv6",
            Report::Stream,
        ),
        (
            "riostream -T b -T v -S 65536 -C 10 -I 2",
            stream,
            "the peer's memory, mapped by riomap and written by riowrite, checked",
            Report::Stream,
        ),
    ] {
        let program = title.split(' ').next().unwrap_or(title);
        push(
            &format!("{program} -b {{own}} -p {{port}} {options}"),
            &format!("{program} -s {{server}} -p {{port}} {options}"),
            title,
            proves,
            report,
            None,
        );
    }
    push(
        "mckey -m {group} -b {own} -C 10 -S 500",
        "mckey -m {group} -b {own} -C 10 -S 500 -s",
        "mckey -C 10 -S 500",
        "a multicast group, joined by IGMP, datagrams to it",
        complete,
        Some(NoLoss::Unreliable),
    );
}

/// Our put and get, and Portals 4, over either side's libraries of verbs.
fn put_and_get(all: &mut Vec<Program>) {
    let mut push = |title: &str, proves: &str, server: String, client: String| {
        all.push(Program {
            // within a side nothing is lost
            leaves_early: client != "true",
            server,
            client,
            title: title.to_owned(),
            proves: proves.to_owned(),
            family: Family::V4,
            ready: Ready::Cm,
            report: Report::Silent,
            no_loss: None,
            outlasts_loss: false,
        });
    };
    // the kernel's adapter repeats a READ that it has lost after two seconds
    for (length, rounds, how) in [(28, 100, "in messages"), (65536, 20, "by RDMA READ")] {
        let what = format!("{length} {rounds} 2012 {{own}}");
        push(
            &format!("put and get, {length} B"),
            &format!("libferriband_putget: puts {how}, notifications, every byte checked"),
            format!("{{verbs}} {{programs}}/pingpong listen {what}:{{port}}"),
            format!("{{verbs}} {{programs}}/pingpong {{server}}:{{port}} {what}:0"),
        );
    }
    push(
        "Portals 4 within a side",
        "libportals: puts, gets, atomics and triggers between two processes of the server's side",
        "{verbs} {programs}/pair".to_owned(),
        "true".to_owned(),
    );
}

/// An ack time-out of 268 ms instead of 67: the guest may lose its processor for a while.
const PATIENT: &str = "-u 16 ";

/// perftest; `managed` with queue pairs that the connection manager connects.
fn perftest(all: &mut Vec<Program>, managed: bool) {
    let flag = if managed { " -R" } else { "" };
    let mut push = |program: &str, options: &str, proves: &str, report, family, no_loss| {
        let common =
            format!("{program} -d {{dev}} -x {{gid}} -p {{port}} -F{flag} {PATIENT}{options}");
        all.push(Program {
            client: format!("{common} {{tcp}}"),
            server: common,
            title: title(&format!("{program}{flag} {options}"), family),
            proves: proves.to_owned(),
            family,
            // with -R the programs exchange what they need by the connection manager, too
            ready: if managed { Ready::Cm } else { Ready::Tcp },
            report,
            no_loss,
            leaves_early: managed,
            outlasts_loss: false,
        });
    };
    let (latency, bandwidth, rate) = (Report::Latency, Report::Bandwidth, Report::Rate);
    let v4 = Family::V4;
    // With -R the time-out is the connection manager's, which is seconds in Linux: what is lost twice costs one.
    let (stream, stream_asleep) = match managed {
        true => ("-n 50", "-n 50 -e"),
        false => ("-n 200", "-n 200 -e"),
    };
    for (program, options, proves, report) in [
        (
            "ib_send_lat",
            "-s 64 -n 500 -e",
            "RC SEND of 64 B, asleep",
            latency,
        ),
        (
            "ib_send_bw",
            stream_asleep,
            "RC SEND of 64 KiB in a stream",
            bandwidth,
        ),
        (
            "ib_write_lat",
            "-s 64 -n 100",
            "RDMA WRITE of 64 B, polling",
            latency,
        ),
        (
            "ib_write_bw",
            stream,
            "RDMA WRITE of 64 KiB in a stream",
            bandwidth,
        ),
        (
            "ib_read_lat",
            "-s 64 -n 500 -e",
            "RDMA READ of 64 B, asleep",
            latency,
        ),
        (
            "ib_read_bw",
            stream_asleep,
            "RDMA READ of 64 KiB in a stream",
            bandwidth,
        ),
        (
            "ib_atomic_lat",
            "-A FETCH_AND_ADD -n 500 -e",
            "fetch-and-add, asleep",
            latency,
        ),
        (
            "ib_atomic_bw",
            "-A CMP_AND_SWAP -n 500 -e",
            "compare-and-swap in a stream",
            rate,
        ),
    ] {
        push(
            program,
            options,
            proves,
            report,
            v4,
            (program == "ib_send_lat").then_some(NoLoss::OneChannel),
        );
    }
    if managed {
        return;
    }
    push(
        "ib_send_lat",
        "-s 64 -n 100",
        "RC SEND of 64 B, both sides polling",
        latency,
        v4,
        None,
    );
    push(
        "ib_send_lat",
        "-s 64 -n 500 {e}",
        "RC SEND of 64 B, our side polling",
        latency,
        v4,
        Some(NoLoss::OneChannel),
    );
    push(
        "ib_send_lat",
        "-c UD -s 64 -n 500 -e",
        "UD SEND of 64 B, asleep",
        latency,
        v4,
        Some(NoLoss::Unreliable),
    );
    push(
        "ib_send_lat",
        "-c UC -s 64 -n 500 -e",
        "UC SEND of 64 B, asleep",
        latency,
        v4,
        Some(NoLoss::Unreliable),
    );
    push(
        "ib_write_bw",
        "-n 200",
        "RDMA WRITE of 64 KiB over IPv6",
        bandwidth,
        Family::V6,
        None,
    );
}

/// perftest's "MB" is 2^20 bytes.
const MEBIBYTE: f64 = 1.048_576;

/// The figure in what a client printed. `Ok(None)` for a program that prints none, or could not measure: perftest writes "inf" or
/// zeros when it did not find the rate of the processor's clock, as happens in a guest whose host is busy. `Err` says what is missing.
pub fn figure(report: Report, output: &str) -> Result<Option<Figure>, String> {
    let figure = printed(report, output)?;
    Ok(figure.filter(|figure| {
        let (value, _) = figure.parts();
        value.is_finite() && value > 0.0
    }))
}

fn printed(report: Report, output: &str) -> Result<Option<Figure>, String> {
    match report {
        Report::Silent => Ok(None),
        Report::Says(words) if output.contains(words) => Ok(None),
        Report::Says(words) => Err(format!("it did not say \"{words}\"")),
        Report::PingPong => {
            let line = output.lines().find(|line| line.ends_with("usec/iter"));
            let number =
                line.and_then(|line| line.split_ascii_whitespace().rev().nth(1)?.parse().ok());
            let number = number.ok_or("it printed no time per iteration")?;
            Ok(Some(Figure::Microseconds(number)))
        }
        // bytes, iterations, min, max, typical, average, deviation, 99 %, 99.9 %
        Report::Latency => row(output, 9).map(|row| Some(Figure::Microseconds(row[4]))),
        // bytes, iterations, peak, average, millions of messages per second
        Report::Bandwidth => {
            row(output, 5).map(|row| Some(Figure::MegabytesPerSecond(row[3] * MEBIBYTE)))
        }
        // bytes per microsecond
        Report::Stream => {
            stream(output).map(|[bytes, time]| Some(Figure::MegabytesPerSecond(bytes / time)))
        }
        Report::Transfer => stream(output).map(|[_, time]| Some(Figure::Microseconds(time))),
        Report::Rate => row(output, 5).map(|row| Some(Figure::KilomessagesPerSecond(row[4] * 1e3))),
    }
}

/// Bytes and microseconds of a transfer, from the last line that rstream prints: eight fields, the second "64k" or the like, the last the
/// time. (The rate before it has two decimals of Gbit/s, too few under loss.)
fn stream(output: &str) -> Result<[f64; 2], String> {
    let numbers = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, size, _, _, _, time, _, each] = fields[..] else {
            return None;
        };
        time.strip_suffix('s')?.parse::<f64>().ok()?;
        let (digits, unit) = match (size.strip_suffix('k'), size.strip_suffix('m')) {
            (Some(digits), _) => (digits, 1024.0),
            (_, Some(digits)) => (digits, MEBIBYTE * 1e6),
            _ => (size, 1.0),
        };
        Some([digits.parse::<f64>().ok()? * unit, each.parse().ok()?])
    };
    let found = output.lines().rev().find_map(numbers);
    found.ok_or_else(|| "it printed no line of results".to_owned())
}

/// The last line that consists of `columns` numbers: perftest's result.
fn row(output: &str, columns: usize) -> Result<Vec<f64>, String> {
    let numbers = |line: &str| {
        line.split_ascii_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<f64>, _>>()
            .ok()
    };
    output
        .lines()
        .rev()
        .filter_map(numbers)
        .find(|row| row.len() == columns)
        .ok_or_else(|| "it printed no line of results".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_lines_of_numbers() {
        // rows as perftest 4.5 prints them
        let latency =
            " #bytes #iterations t_min\n 64 500 45.0 99.0 51.25 52.0 3.0 80.0 99.0\n----\n";
        assert_eq!(
            figure(Report::Latency, latency),
            Ok(Some(Figure::Microseconds(51.25)))
        );
        let bandwidth = " 65536 200 50.00 42.91 0.000687\n";
        let Ok(Some(Figure::MegabytesPerSecond(value))) = figure(Report::Bandwidth, bandwidth)
        else {
            panic!("there is a bandwidth");
        };
        assert!((value - 45.0).abs() < 0.01);
        assert!(figure(Report::Latency, bandwidth).is_err());
        let pingpong = "4096000 bytes in 0.10 seconds = 320.00 Mbit/sec\n500 iters in 0.10 seconds = 204.80 usec/iter\n";
        assert_eq!(
            figure(Report::PingPong, pingpong),
            Ok(Some(Figure::Microseconds(204.8)))
        );
        assert_eq!(
            figure(Report::Bandwidth, " 65536 200 0.00 0.00 0.000000\n"),
            Ok(None)
        );
        let stream = "name bytes xfers iters total time Gb/sec usec/xfer\ncustom    64k     20      5       12m         0.10s      1.00     524.29\n";
        assert_eq!(
            figure(Report::Stream, stream),
            Ok(Some(Figure::MegabytesPerSecond(65_536.0 / 524.29)))
        );
        assert_eq!(
            figure(Report::Transfer, stream),
            Ok(Some(Figure::Microseconds(524.29)))
        );
        assert!(
            figure(
                Report::Transfer,
                "name bytes xfers iters total time Gb/sec usec/xfer"
            )
            .is_err()
        );
        assert!(figure(Report::Says("status 0"), "return status -1").is_err());
    }

    #[test]
    fn every_template_is_completed_by_what_the_lab_knows() {
        for program in all() {
            for command in [&program.server, &program.client] {
                let mut rest = command.clone();
                for known in [
                    "{dev}",
                    "{gid}",
                    "{own}",
                    "{server}",
                    "{tcp}",
                    "{port}",
                    "{group}",
                    "{e}",
                    "{verbs}",
                    "{programs}",
                ] {
                    rest = rest.replace(known, "");
                }
                assert!(!rest.contains('{'), "{command}");
            }
        }
    }

    #[test]
    fn what_outlasts_the_loss_is_run_longer() {
        let outlasts: Vec<Program> = all().into_iter().filter(|it| it.outlasts_loss).collect();
        assert!(!outlasts.is_empty());
        for program in outlasts {
            for command in [&program.server, &program.client] {
                assert!(command.contains(LONGER[0]), "{command}");
            }
            // it would hide that the end was not without loss
            assert!(!program.leaves_early, "{}", program.title);
        }
    }

    #[test]
    fn what_is_not_made_for_loss_is_not_run_with_it() {
        for program in all() {
            let unreliable = ["ibv_uc", "ibv_ud", "udaddy", "mckey", "-c UD", "-c UC"];
            let sleeps = program.title.starts_with("ib_send_lat") && program.title.contains(" -e");
            let expected = if unreliable.iter().any(|part| program.server.contains(part)) {
                Some(NoLoss::Unreliable)
            } else {
                sleeps.then_some(NoLoss::OneChannel)
            };
            assert_eq!(program.no_loss, expected, "{}", program.title);
        }
    }
}
