//! `ferriband demo heal`: a job of MPI whose queue pairs are broken while it runs, and what is seen
//! of it.
//!
//! Owns: the program and the order of things. The queue pairs fail as `ferriband fault qp-error`
//! has them fail, of this job alone; the picture is that of `ferriband trace`, the words are those
//! of `ferriband why`.

use super::runner::start_alone;
use crate::args::{DemoHealArgs, JsonFlag, TraceArgs};
use crate::domain;
use crate::failure::Failure;
use crate::heals;
use crate::launch;
use crate::members;
use crate::mpi::scratch::Scratch;
use crate::text::{counted, print_line};
use crate::trace;
use ferriband_mpi_proto::settings::SETTINGS;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// The program.
const SOURCE: &str = include_str!("heal.c");
/// What it says when its ranks exchange messages.
const BEGUN: &str = "begun";
/// Seconds after which the job is ended.
const LIMIT: &str = "60";
/// Events that a rank's trace has room for.
const EVENTS: u64 = 1 << 18;

/// `ferriband demo heal`.
pub fn command(args: &DemoHealArgs) -> Result<ExitCode, Failure> {
    let scratch = Scratch::make()?;
    let program = scratch.compile("heal-demo", SOURCE)?;
    let traces = scratch.dir().join("traces");
    fs::create_dir(&traces)
        .map_err(|error| Failure::io("make", &traces.display().to_string(), &error))?;
    print_line(&format!(
        "$ ferriband trace -o {} --html {} -- mpirun -n 2 --same-host verbs heal-demo",
        args.output.display(),
        args.html.display()
    ))?;
    let mut job = start(&program, &traces, &scratch)?;
    let ranks = follow(&mut job, &program)?;
    let status = job
        .wait()
        .map_err(|error| Failure::io("wait for", "mpirun", &error))?;
    scratch.stopped()?;
    if !status.success() {
        return Err(Failure::new(format!("the job ended with {status}"))
            .remedy("what it said stands above; ferriband mpi-info shows whether heal is 1"));
    }
    print_line("")?;
    trace::command(&TraceArgs {
        output: args.output.clone(),
        html: Some(args.html.clone()),
        events: EVENTS,
        keep: None,
        merge: Some(traces),
        json: JsonFlag { json: false },
        command: Vec::new(),
    })?;
    // The rank whose queue pairs were broken: the other one was told.
    if let (Some(pid), Some(directory)) = (ranks.first(), ferriband_notes::state_directory()) {
        print_line(&format!("\n$ ferriband why --pid {pid}"))?;
        let (found, _) = heals::read(&directory)?;
        let newest = found.iter().rev().find(|heal| heal.note.whose.pid == *pid);
        for line in newest.iter().flat_map(|heal| heal.lines()) {
            print_line(&line)?;
        }
    }
    print_line(&format!(
        "\nOpen {} in a browser: the bars below the calls are the heal.",
        args.html.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the job, whose ranks write their traces to `traces`.
fn start(program: &Path, traces: &Path, scratch: &Scratch) -> Result<Child, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    let mut command = Command::new(own);
    command
        .args([
            "mpirun",
            "-n",
            "2",
            "--same-host",
            "verbs",
            "--timeout",
            LIMIT,
        ])
        .arg(program)
        .envs(launch::library_settings()?)
        .env(SETTINGS.variable("trace"), traces)
        .env(SETTINGS.variable("trace_events"), EVENTS.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    start_alone(&mut command, scratch.mask());
    command
        .spawn()
        .map_err(|error| Failure::io("start", "mpirun", &error))
}

/// Passes on what the job says, and breaks queue pairs once its ranks exchange messages; the ranks.
fn follow(job: &mut Child, program: &Path) -> Result<Vec<u32>, Failure> {
    let output = job.stdout.take().expect("it was asked for");
    let mut ranks = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| Failure::io("read from", "mpirun", &error))?;
        if line == BEGUN {
            ranks = break_one(program)?;
        } else {
            print_line(&line)?;
        }
    }
    Ok(ranks)
}

/// The connected queue pairs of one rank fail; both ranks.
fn break_one(program: &Path) -> Result<Vec<u32>, Failure> {
    let host = members::join()?;
    let exe = program
        .canonicalize()
        .unwrap_or_else(|_| PathBuf::from(program));
    let is_rank = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|of| of == exe);
    let mut members = members::ask(&host)?;
    members.retain(|asked| is_rank(asked.pid));
    let first = members.first().and_then(|asked| asked.answer.as_ref());
    let connected = first.iter().flat_map(|member| &member.qps);
    for qp in connected.filter(|qp| qp.service == "RC") {
        print_line(&format!(
            "$ ferriband fault qp-error --qpn {:#x}        # while it runs",
            qp.qpn
        ))?;
        let (failed, _) = domain::ask_to_fail(&host, (Some(qp.qpn), None), domain::ANSWER_WAIT);
        print_line(&format!(
            "{} failed",
            counted(failed, "queue pair", "queue pairs")
        ))?;
    }
    Ok(members.iter().map(|asked| asked.pid).collect())
}
