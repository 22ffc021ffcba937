//! `ferriband demo`: Debian's own RDMA programs, unmodified, each as a server and a client on the
//! software adapter, with what each proves and how far it is from this machine's floor.
//!
//! Owns: the order of things and the table. The floors are measured in the same run. With `--wire roce` the two sides are on two
//! hosts, made of network namespaces, and the floors are those of plain UDP between them. With `--repeat` nothing is measured: it is
//! counted how many runs ended well ([`counted`]).

mod cm;
mod counted;
mod heal;
pub mod parse;
pub mod programs;
mod ready;
mod roce;
pub mod runner;
mod sockets;
mod stacks;

use crate::args::{DemoArgs, DemoCommand, HostWire, JsonFlag, Stack, Wire};
use crate::bench::sdp::{self, Shown};
use crate::failure::Failure;
use crate::floor::{self, udp};
use crate::launch;
use crate::netns::{self, Forbidden};
use crate::progress::Progress;
use crate::text::{Table, bandwidth, duration, print_json, print_line};
use cm::Meeting;
use programs::{Effort, Figure, Job, Sides};
use runner::{Output, Place, Words};
use serde::Serialize;
use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

/// Exit status when nothing could be run: what automake takes for a skipped test.
pub const SKIPPED: u8 = 77;

/// What one run gave.
#[derive(Serialize)]
struct Outcome {
    program: String,
    proves: String,
    ok: bool,
    figure: Option<Figure>,
    floor: Option<Figure>,
    floor_name: &'static str,
    /// Figure over floor for latencies, floor over figure for rates: 1 is the floor, more is slower.
    times_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct Report<F> {
    floors: F,
    outcomes: Vec<Outcome>,
    /// TCP programs by SDP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sockets: Vec<Shown>,
    failed: usize,
}

/// `ferriband demo`.
pub fn command(args: &DemoArgs) -> Result<ExitCode, Failure> {
    if let Some(DemoCommand::Heal(args)) = &args.what {
        return heal::command(args);
    }
    let effort = if args.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let rounds = if args.quick { 3 } else { 5 };
    let wire = match args.wire {
        HostWire::Direct => Some(Wire::Direct),
        HostWire::Roce => Some(Wire::Roce),
        HostWire::Packets => None,
    };
    if wire != Some(Wire::Roce) && !args.one_host {
        let place = match wire {
            Some(_) => Place::Here,
            None => Place::HereByPackets,
        };
        let mut jobs = programs::all(effort);
        jobs.extend(stacks::all(&args.with, &programs::AGAINST));
        let jobs = chosen(jobs, args)?;
        if args.repeat > 1 {
            return counted::run_all(args, &jobs, place);
        }
        let progress = Progress::new(floor::steps(rounds) + jobs.len() as u64);
        let floors = floor::measure(rounds, &progress)?;
        let table = floor::table(&floors);
        return run_all(args, &jobs, place, &progress, floors, &table);
    }
    let mut jobs = roce::all(effort);
    jobs.extend(stacks::all(&args.with, &roce::AGAINST));
    let jobs = chosen(jobs, args)?;
    let hosts = match netns::two_hosts() {
        Ok(hosts) => hosts,
        Err(why) => return skip(&args.json, &why),
    };
    let place = match args.one_host {
        // an Ethernet device's packets are RoCEv2 whatever they are called
        true => Place::OneHost(&hosts, wire.unwrap_or(Wire::Roce)),
        false => Place::Hosts(&hosts),
    };
    if args.repeat > 1 {
        return counted::run_all(args, &jobs, place);
    }
    let progress = Progress::new(udp::steps(rounds) + jobs.len() as u64);
    let floors = udp::measure(&hosts, rounds, &progress)?;
    let table = udp::table(&floors);
    run_all(args, &jobs, place, &progress, floors, &table)
}

/// Nothing was shown, and nobody shall think so. Who runs tests must decide whether that is a failure: the status says it.
pub fn skip(json: &JsonFlag, Forbidden(why): &Forbidden) -> Result<ExitCode, Failure> {
    if json.json {
        print_json(&serde_json::json!({ "skipped": why }))?;
    } else {
        print_line(&format!(
            "SKIPPED: no two hosts can be made here: {why}\n  nothing of the RoCEv2 wire was run; it needs user and network \
             namespaces and veth"
        ))?;
    }
    Ok(ExitCode::from(SKIPPED))
}

/// The jobs that are wanted, all of whose programs are installed.
fn chosen<F>(jobs: Vec<Job<F>>, args: &DemoArgs) -> Result<Vec<Job<F>>, Failure> {
    let wanted = |job: &Job<F>| {
        args.only
            .as_ref()
            .is_none_or(|text| job.title().contains(text.as_str()))
    };
    let jobs: Vec<Job<F>> = jobs.into_iter().filter(wanted).collect();
    check_installed(&jobs)?;
    if args.with.contains(&Stack::Tcp) && stacks::socket_preload().is_none() {
        return Err(
            Failure::new("not installed: librspreload.so, which --with tcp preloads")
                .remedy("install it by package name: apt-get install librdmacm1"),
        );
    }
    if args.with.contains(&Stack::Sdp) && !sdp::has_demo() {
        return Err(
            Failure::new("not installed: redis or nginx with wrk, which --with sdp runs")
                .remedy("install them by package name: apt-get install redis-tools nginx wrk"),
        );
    }
    launch::settings()?;
    launch::file_limit()?;
    Ok(jobs)
}

fn run_all<F: Serialize>(
    args: &DemoArgs,
    jobs: &[Job<F>],
    place: Place<'_>,
    progress: &Progress,
    floors: F,
    floor_table: &Table,
) -> Result<ExitCode, Failure> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        progress.step(&job.title());
        let outcome = run(job, &floors, place, Duration::from_secs(args.timeout))?;
        if let Some(problem) = &outcome.problem {
            progress.note(&format!("FAILED {}\n{problem}", job.title()));
        }
        outcomes.push(outcome);
    }
    progress.finish();
    let sockets = match (args.with.contains(&Stack::Sdp), args.only.is_some()) {
        (true, false) => sdp::for_demo(if args.quick { 1 } else { 3 })?,
        _ => Vec::new(),
    };
    let failed = outcomes.iter().filter(|outcome| !outcome.ok).count()
        + sockets
            .iter()
            .filter(|shown| shown.problem.is_some())
            .count();
    let report = Report {
        floors,
        outcomes,
        sockets,
        failed,
    };
    if args.json.json {
        print_json(&report)?;
    } else {
        show(&report, place, floor_table)?;
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn show<F>(report: &Report<F>, place: Place<'_>, floor_table: &Table) -> Result<(), Failure> {
    print_line(&floor_table.render())?;
    print_line("")?;
    table(&report.outcomes).print()?;
    if !report.sockets.is_empty() {
        print_line("")?;
        sockets_table(&report.sockets).print()?;
    }
    for shown in &report.sockets {
        if let Some(problem) = &shown.problem {
            print_line(&format!("{}: {problem}", shown.name))?;
        }
    }
    let total = report.outcomes.len() + report.sockets.len();
    let verdict = match report.failed {
        0 => format!("all {total} runs of unmodified programs ended well"),
        failed => format!("{failed} of {total} runs FAILED; their output is above"),
    };
    print_line(&format!("\n{verdict}"))?;
    if !matches!(place, Place::Here) {
        print_line(place.in_words())?;
    }
    print_line(
        "x floor: how many times slower than this machine's floor, measured in the same run",
    )?;
    if cfg!(debug_assertions) {
        print_line(
            "this is a development build with its checks on: the figures are not those of `make demo`",
        )?;
    }
    Ok(())
}

fn check_installed<F>(jobs: &[Job<F>]) -> Result<(), Failure> {
    if jobs.is_empty() {
        return Err(Failure::new(
            "no program of the demonstration has that in its name or options",
        )
        .status(2));
    }
    let of_server = |job: &Job<F>| match &job.sides {
        Sides::Manager(meeting) => meeting.server_program,
        _ => job.program,
    };
    let mut missing: Vec<_> = jobs
        .iter()
        .flat_map(|job| [job.program, of_server(job)])
        .filter(|name| launch::resolve(OsStr::new(name)).is_none())
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("not installed: {}", missing.join(", ")))
        .remedy("install them by package name: apt-get install ibverbs-utils rdmacm-utils perftest ucx-utils libfabric-bin iperf3    (make demo does that)"))
}

/// The words of both sides. perftest takes -F so that it does not refuse a machine whose clock
/// frequencies it cannot read.
fn words<F>(job: &Job<F>, port: u16, place: Place<'_>) -> (Words, Words) {
    let mut server: Words = vec![job.program.to_owned()];
    server.extend(job.options.iter().cloned());
    server.extend(["-p".to_owned(), port.to_string()]);
    if job.program.starts_with("ib_") {
        server.push("-F".to_owned());
    }
    let mut client = server.clone();
    client.push(place.server_address().to_string());
    (server, client)
}

/// The words of a side that finds the other by the connection manager.
fn filled(
    meeting: &Meeting,
    program: &str,
    template: &str,
    place: Place<'_>,
    port: u16,
    client: bool,
) -> Words {
    let fill = |word: &str| match word {
        "ADDRESS" => place.server_address().to_string(),
        "IPV6" => place.server_ipv6(false),
        "LINK" => place.server_ipv6(true),
        "OWN" => place.own_address(client).to_string(),
        "OWN6" => place.own_ipv6(client),
        "PORT" => port.to_string(),
        word => word.to_owned(),
    };
    let settings = meeting.settings.split_whitespace();
    settings
        .chain(std::iter::once(program))
        .map(str::to_owned)
        .chain(template.split_whitespace().map(fill))
        .collect()
}

fn run<F>(job: &Job<F>, floors: &F, place: Place<'_>, limit: Duration) -> Result<Outcome, Failure> {
    let (outputs, client_text) = match &job.sides {
        Sides::Two => {
            let port = runner::free_port(0)?;
            let (server, client) = words(job, port, place);
            let (server, client) = runner::run_pair_at(place, &server, &client, port, limit)?;
            let text = client.text.clone();
            (vec![server, client], text)
        }
        Sides::Manager(meeting) => {
            let port = runner::free_port(0)?;
            let server = filled(
                meeting,
                meeting.server_program,
                meeting.server,
                place,
                port,
                false,
            );
            let client = filled(meeting, job.program, meeting.client, place, port, true);
            let (server, client) =
                runner::run_meeting_at(place, &server, &client, port, meeting.stays, limit)?;
            let text = client.text.clone();
            (vec![server, client], text)
        }
        Sides::One => {
            let mut words: Words = vec![job.program.to_owned()];
            words.extend(job.options.iter().cloned());
            let output = runner::run_single_at(place, &words, limit)?;
            let text = output.text.clone();
            (vec![output], text)
        }
    };
    let parsed = parse::figure(job.report, &client_text);
    let stays = matches!(&job.sides, Sides::Manager(meeting) if meeting.stays);
    // a server that serves on was ended by us
    let fine = outputs[usize::from(stays)..].iter().all(Output::is_fine);
    let problem = match &parsed {
        _ if !fine => Some(describe(&outputs)),
        Err(why) => Some(format!("{why}\n{}", describe(&outputs))),
        Ok(_) => None,
    };
    let figure = parsed.ok().flatten();
    let floor = (job.floor)(floors);
    Ok(Outcome {
        program: job.title(),
        proves: job.proves.clone(),
        ok: problem.is_none(),
        figure,
        floor,
        floor_name: job.floor_name,
        times_floor: figure
            .zip(floor)
            .and_then(|(figure, floor)| times_floor(figure, floor)),
        problem,
    })
}

/// How many times slower than the floor; `None` when the two are of different kinds.
pub fn times_floor(figure: Figure, floor: Figure) -> Option<f64> {
    match (figure, floor) {
        (Figure::Nanoseconds(figure), Figure::Nanoseconds(floor)) => Some(figure / floor),
        (Figure::BytesPerSecond(figure), Figure::BytesPerSecond(floor))
        | (Figure::MessagesPerSecond(figure), Figure::MessagesPerSecond(floor)) => {
            Some(floor / figure)
        }
        _ => None,
    }
}

fn describe(outputs: &[Output]) -> String {
    let mut text = String::new();
    for output in outputs {
        text.push_str(&format!(
            "  $ ferriband run -- {}    [{}]\n",
            output.command,
            output.ending()
        ));
        for line in output.text.lines() {
            text.push_str(&format!("  | {line}\n"));
        }
    }
    text
}

/// A figure with its unit.
pub fn show_figure(figure: Figure) -> String {
    match figure {
        Figure::Nanoseconds(ns) => duration(ns),
        Figure::BytesPerSecond(rate) => bandwidth(rate),
        Figure::MessagesPerSecond(rate) => format!("{:.2} M/s", rate / 1e6),
    }
}

fn table(outcomes: &[Outcome]) -> Table {
    let header = ["program", "proves", "", "figure", "floor", "x floor"];
    let mut table = Table::new(header).right_align(&[3, 5]);
    for outcome in outcomes {
        let floor = outcome
            .floor
            .map(|floor| format!("{} ({})", show_figure(floor), outcome.floor_name));
        table.row([
            outcome.program.clone(),
            outcome.proves.clone(),
            if outcome.ok { "ok" } else { "FAILED" }.to_owned(),
            outcome.figure.map(show_figure).unwrap_or_default(),
            floor.unwrap_or_default(),
            outcome
                .times_floor
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
        ]);
    }
    table
}

fn sockets_table(sockets: &[Shown]) -> Table {
    let header = ["TCP program, by SDP", "", "TCP", "SDP", "times TCP"];
    let mut table = Table::new(header).right_align(&[2, 3, 4]);
    let rate = |rate: Option<f64>| rate.map(|rate| format!("{rate:.0}/s")).unwrap_or_default();
    for shown in sockets {
        let ratio = shown.ratio.map(|ratio| format!("{ratio:.2}"));
        table.row([
            shown.name.clone(),
            if shown.problem.is_none() {
                "ok"
            } else {
                "FAILED"
            }
            .to_owned(),
            rate(shown.tcp),
            rate(shown.sdp),
            ratio.unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_is_more_for_times_and_rates_alike() {
        assert_eq!(
            times_floor(Figure::Nanoseconds(300.0), Figure::Nanoseconds(100.0)),
            Some(3.0)
        );
        assert_eq!(
            times_floor(Figure::BytesPerSecond(5e9), Figure::BytesPerSecond(1e10)),
            Some(2.0)
        );
        assert_eq!(
            times_floor(Figure::Nanoseconds(1.0), Figure::BytesPerSecond(1.0)),
            None
        );
    }

    #[test]
    fn every_program_of_the_issue_runs_in_every_mode_that_it_offers() {
        // perftest by the connection manager (-R) comes on top
        let titles: Vec<String> = programs::all(Effort::QUICK)
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
            assert_eq!(count(&format!("ibv_{service}_pingpong"), ""), 2);
            assert_eq!(count(&format!("ibv_{service}_pingpong"), "-e"), 1);
        }
        for name in ["ib_send_lat", "ib_send_bw"] {
            assert_eq!(
                (count(name, ""), count(name, "-e"), count(name, "-c UD")),
                (6, 3, 2)
            );
        }
        for name in ["ib_write_lat", "ib_write_bw"] {
            assert_eq!((count(name, "-c RC"), count(name, "-c UC")), (1, 1));
        }
        for name in ["ib_read_lat", "ib_read_bw"] {
            assert_eq!((count(name, ""), count(name, "-e")), (2, 1));
        }
        for name in ["ib_atomic_lat", "ib_atomic_bw"] {
            assert_eq!((count(name, ""), count(name, "-e")), (4, 2));
        }
    }
}
