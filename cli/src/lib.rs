//! The commands of two programs. `ferriband` runs unmodified RDMA programs on the software adapter,
//! and shows what the adapter and this machine can do. `ferriband-dev` measures the adapter for
//! those who work on it, and is not installed by default.
//!
//! Owns: the command lines. What measures and lists reaches the adapter only as any program does,
//! through the C verbs API of a library opened at run time, so that it also works on a system's own
//! libibverbs. What looks into running processes (`why`, `dump`, `fault`) finds them in their
//! registry.

#![deny(clippy::print_stderr)] // it panics where nothing can be written: complain! does not

#[macro_use]
mod text;
mod trace;

mod args;
mod bench;
mod caller;
mod demo;
mod doctor;
mod domain;
mod dump;
mod fabric;
mod fabric_sim;
mod failure;
mod fault;
mod floor;
mod heals;
mod launch;
mod members;
mod mpi;
mod netns;
mod pages;
mod perf;
mod progress;
mod putget;
mod qp;
mod repro;
mod sdp;
mod settings;
mod sim;
mod status;
mod stop;
mod tune;
mod updown;
mod verbs;
mod why;

use args::{Cli, Command, DevCli, DevCommand};
use clap::Parser;
use failure::Failure;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The program `ferriband`, with the words of this process; its exit status.
pub fn ferriband() -> ExitCode {
    caller::settle();
    let cli = Cli::parse_from(words(std::env::args_os()));
    status_of("ferriband", dispatch(cli.command))
}

/// The program `ferriband-dev`, with the words of this process; its exit status.
pub fn ferriband_dev() -> ExitCode {
    caller::settle();
    status_of("ferriband-dev", dispatch_dev(DevCli::parse().command))
}

fn status_of(program: &str, outcome: Result<ExitCode, Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        complain!("{program}: {failure}");
        ExitCode::from(failure.exit_status)
    })
}

/// The command line; where this program is called by the name of an MPI launcher, with what that
/// name means, and what users of others write.
fn words(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = args.collect();
    let is_launcher = words
        .first()
        .and_then(|name| Path::new(name).file_name())
        .is_some_and(|name| name == "mpirun" || name == "mpiexec");
    if is_launcher {
        words.insert(1, "mpirun".into());
    }
    if words
        .get(1)
        .is_some_and(|word| word == "mpirun" || word == "mpiexec")
    {
        let rest = words.split_off(2);
        words[1] = "mpirun".into();
        words.extend(mpi::words::own(rest));
    }
    words
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run {
            adapter,
            fault,
            command,
        } => launch::run(&adapter, &fault, &command),
        Command::Mpirun(args) => mpi::command(&args),
        Command::MpiInfo(args) => mpi::info::command(&args),
        Command::MpiTune(args) => mpi::tune::command(&args),
        Command::Trace(args) => trace::command(&args),
        Command::Env { adapter, json } => launch::print_settings(&adapter, json.json),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { out } => pages::manual(&out),
        Command::Devices { system, json } => verbs::devices::command(system, json.json),
        Command::Perf(args) => perf::command(&args),
        Command::PerfPeer { adapter, system } => perf::peer_command(&adapter, system),
        Command::Demo(args) => demo::command(&args),
        Command::Doctor(flag) => doctor::command(flag.json),
        Command::Dump(args) => dump::command(&args),
        Command::Fault { command } => fault::command(&command),
        Command::Qp { command } => qp::command(&command),
        Command::SocketPair(args) => bench::sdp::pair::command(&args),
        Command::Repro(args) => repro::command(&args),
        Command::ReproPeer => repro::peer_command(),
        Command::Tune { command } => tune::command(&command),
        Command::TunePeer => tune::peer_command(),
        Command::PutgetPeer => putget::peer_command(),
        Command::Putget { command } => putget::status::command(&command),
        Command::Sdp { command } => sdp::command(&command),
        Command::Fabric { command } => fabric::command(&command),
        Command::Sim(args) => sim::command(&args),
        Command::Why(args) => why::command(&args),
        Command::Up(args) => updown::up(&args),
        Command::Down(args) => updown::down(&args),
        Command::Status(args) => status::status(&args),
        Command::Counters(args) => status::counters(&args),
    }
}

fn dispatch_dev(command: DevCommand) -> Result<ExitCode, Failure> {
    match command {
        DevCommand::Bench(args) => bench::command(&args),
        DevCommand::Floor { rounds, json } => floor::command(rounds.into(), json.json),
        DevCommand::QpMemory {
            count,
            system,
            json,
        } => verbs::many::command(count, system, json.json),
    }
}
