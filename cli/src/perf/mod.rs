//! `ferriband perf`: latency, bandwidth and message rate of every operation, between this process
//! and a second one that it starts.
//!
//! Owns: which cases are measured, and how results are shown. Must not know: what the library is.

mod case;
pub mod channel;
mod plot;

use crate::args::{Operation, PerfArgs, Service};
use crate::failure::Failure;
use crate::floor;
use crate::progress::Progress;
use crate::text::{Table, bandwidth, duration, print_json, print_line, size};
use crate::verbs::{Context, Library, Source, devices::mtu_bytes};
use case::{Case, Measured};
use channel::Channel;
use serde::Serialize;
use std::process::ExitCode;

pub use channel::peer_command;

const OPERATIONS: [Operation; 7] = [
    Operation::Send,
    Operation::SendImm,
    Operation::Write,
    Operation::WriteImm,
    Operation::Read,
    Operation::CmpSwap,
    Operation::FetchAdd,
];
const SERVICES: [Service; 3] = [Service::Rc, Service::Uc, Service::Ud];
/// Bytes of a latency measurement, at most, before its iterations are cut.
const LATENCY_BYTES: usize = 128 << 20;
const BANDWIDTH_BYTES: usize = 384 << 20;
const FLOOR_ROUNDS: usize = 3;

/// Everything that `--json` prints.
#[derive(Serialize)]
struct Report {
    adapter: String,
    library: String,
    event: bool,
    inline_bytes: u32,
    device_memory: bool,
    floors: floor::Floors,
    results: Vec<Measured>,
}

/// `ferriband perf`.
pub fn command(args: &PerfArgs) -> Result<ExitCode, Failure> {
    // The floors fork: measured before the library is loaded and may start threads.
    let floors_wanted = !args.no_floors && (args.plot.is_some() || args.json.json);
    let floors = if floors_wanted {
        let progress = Progress::new(floor::steps(FLOOR_ROUNDS));
        let floors = floor::measure(FLOOR_ROUNDS, &progress)?;
        progress.finish();
        floors
    } else {
        floor::Floors::default()
    };
    let source = Source::from_flag(args.system);
    let library = Library::open(source)?;
    let context = library.context(args.device.as_deref())?;
    let cases = cases(args, &context)?;
    let results = measure(&context, source, &cases)?;
    let report = Report {
        adapter: context.name.clone(),
        library: library.path.display().to_string(),
        event: args.event,
        inline_bytes: args.inline,
        device_memory: args.dm,
        floors,
        results,
    };
    if let Some(path) = &args.plot {
        plot::write(path, &report.adapter, &report.results, &report.floors)?;
    }
    if args.json.json {
        print_json(&report)?;
    } else {
        table(&report.results).print()?;
        print_line(
            "latency: SEND and WRITE one way (half a round trip), READ and atomics the whole trip",
        )?;
        print_line("every figure's last message was compared byte by byte with what was sent")?;
        for result in &report.results {
            let (took, planned) = (result.latency.messages, result.case.latency_iterations);
            if took < planned {
                let (name, bytes) = (result.case.name(), size(result.case.size_bytes));
                print_line(&format!(
                    "{name} of {bytes} B: latency of {took} messages, not {planned}: other processes had the cores"
                ))?;
            }
        }
        if let Some(path) = &args.plot {
            print_line(&format!("plot: {}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every combination that the services offer, in the order of the table.
fn cases(args: &PerfArgs, context: &Context) -> Result<Vec<Case>, Failure> {
    let mtu = mtu_bytes(context.port(1)?.active_mtu) as usize;
    let chosen =
        |list: &[Operation]| list.contains(&Operation::Write) || list.contains(&Operation::Read);
    if args.dm && !args.ops.is_empty() && !chosen(&args.ops) {
        return Err(Failure::new("--dm measures write and read only").status(2));
    }
    let mut cases = Vec::new();
    for service in SERVICES
        .into_iter()
        .filter(|service| args.services.is_empty() || args.services.contains(service))
    {
        for operation in OPERATIONS
            .into_iter()
            .filter(|op| args.ops.is_empty() || args.ops.contains(op))
        {
            let device_memory_fits = matches!(operation, Operation::Write | Operation::Read);
            if !offered(service, operation) || (args.dm && !device_memory_fits) {
                continue;
            }
            let atomic = matches!(operation, Operation::CmpSwap | Operation::FetchAdd);
            let sizes: Vec<usize> = match atomic {
                true => vec![8],
                false => args
                    .sizes
                    .iter()
                    .copied()
                    .filter(|&size| service != Service::Ud || size <= mtu)
                    .collect(),
            };
            cases.extend(sizes.into_iter().map(|size_bytes| Case {
                service,
                operation,
                size_bytes,
                latency_iterations: iterations(args, LATENCY_BYTES, 20, 10_000, size_bytes),
                bandwidth_iterations: iterations(args, BANDWIDTH_BYTES, 64, 100_000, size_bytes),
                inline_bytes: args.inline,
                event: args.event,
                device_memory: args.dm,
            }));
        }
    }
    if cases.is_empty() {
        return Err(Failure::new(
            "no case is left: no chosen service offers a chosen operation at a chosen size",
        )
        .remedy("RC offers all operations, UC send and write, UD send up to the MTU")
        .status(2));
    }
    Ok(cases)
}

fn iterations(args: &PerfArgs, bytes: usize, least: usize, most: usize, size_bytes: usize) -> u32 {
    args.iters
        .unwrap_or((bytes / size_bytes).clamp(least, most) as u32)
}

/// The table of IBA 9.4.1: which service has which operation.
fn offered(service: Service, operation: Operation) -> bool {
    match service {
        Service::Rc => true,
        Service::Uc => !matches!(
            operation,
            Operation::Read | Operation::CmpSwap | Operation::FetchAdd
        ),
        Service::Ud => matches!(operation, Operation::Send | Operation::SendImm),
    }
}

fn measure(context: &Context, source: Source, cases: &[Case]) -> Result<Vec<Measured>, Failure> {
    let progress = Progress::new(cases.len() as u64);
    let mut channel = Channel::start(source, &context.name)?;
    let mut results = Vec::with_capacity(cases.len());
    for case in cases {
        progress.step(&format!("{} of {} B", case.name(), case.size_bytes));
        channel.say(&Some(case))?;
        let result = case::run_client(context, case, &mut channel);
        results.push(result.map_err(|failure| channel.blame(failure, case))?);
    }
    channel.say(&None::<Case>)?;
    channel.finish()?;
    progress.finish();
    Ok(results)
}

fn table(results: &[Measured]) -> Table {
    let mut table = Table::new([
        "operation",
        "bytes",
        "p50",
        "p99",
        "p99.9",
        "bandwidth",
        "messages/s",
    ])
    .right_align(&[1, 2, 3, 4, 5, 6]);
    for result in results {
        table.row([
            result.case.name(),
            size(result.case.size_bytes),
            duration(result.latency.p50_ns),
            duration(result.latency.p99_ns),
            duration(result.latency.p999_ns),
            bandwidth(result.bytes_per_second),
            format!("{:.3} M", result.messages_per_second / 1e6),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_offer_what_the_architecture_says() {
        let count = |service| {
            OPERATIONS
                .iter()
                .filter(|&&operation| offered(service, operation))
                .count()
        };
        assert_eq!(
            [count(Service::Rc), count(Service::Uc), count(Service::Ud)],
            [7, 4, 2]
        );
    }
}
