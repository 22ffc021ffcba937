//! `ferriband`: runs unmodified RDMA programs on the software adapter, shows what the adapter and
//! this machine can do, and measures both.
//!
//! Owns: the command line. What measures and lists reaches the adapter only as any program does,
//! through the C verbs API of a library opened at run time, so that it also works on a system's own
//! libibverbs. What looks into running processes (`why`, `dump`, `fault`) finds them in their registry.

mod args;
mod bench;
mod demo;
mod doctor;
mod domain;
mod dump;
mod failure;
mod fault;
mod floor;
mod launch;
mod members;
mod netns;
mod pages;
mod perf;
mod progress;
mod sim;
mod status;
mod text;
mod updown;
mod verbs;
mod why;

use args::{Cli, Command};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("ferriband: {failure}");
            ExitCode::from(failure.exit_status)
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run {
            adapter,
            fault,
            command,
        } => launch::run(&adapter, &fault, &command),
        Command::Env { adapter, json } => launch::print_settings(&adapter, json.json),
        Command::Floor { rounds, json } => floor::command(rounds.into(), json.json),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { out } => pages::manual(&out),
        Command::Devices { system, json } => verbs::devices::command(system, json.json),
        Command::Perf(args) => perf::command(&args),
        Command::PerfPeer { adapter, system } => perf::peer_command(&adapter, system),
        Command::Demo(args) => demo::command(&args),
        Command::Doctor(flag) => doctor::command(flag.json),
        Command::Dump(args) => dump::command(&args),
        Command::Fault { command } => fault::command(&command),
        Command::Bench(args) => bench::command(&args),
        Command::QpMemory {
            count,
            system,
            json,
        } => verbs::many::command(count, system, json.json),
        Command::Sim(args) => sim::command(&args),
        Command::Why(args) => why::command(&args),
        Command::Up(args) => updown::up(&args),
        Command::Down(args) => updown::down(&args),
        Command::Status(args) => status::status(&args),
        Command::Counters(args) => status::counters(&args),
    }
}
