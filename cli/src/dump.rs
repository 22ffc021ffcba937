//! `ferriband dump`: what this host's adapters send and receive, as a capture file, as lines or as JSON.
//!
//! Owns: the life of a capture: becoming a tool, hearing of rings, emptying them in the order of time, and leaving nothing behind. The
//! adapters make the rings and never wait for us. Must not know: what a record says (`ferriband-wire`), nor how it is printed.

mod filter;
mod output;
mod rings;

pub use output::time_of_day;

use crate::args::DumpArgs;
use crate::caller;
use crate::domain::{self, Devices};
use crate::failure::Failure;
use crate::launch;
use crate::members;
use crate::stop::Stop;
use filter::Filter;
use output::Output;
use rings::Rings;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use ferriband_memory::host::{Host, Tool};
use ferriband_wire::capture::Captured;

/// `ferriband dump`.
pub fn command(args: &DumpArgs) -> Result<ExitCode, Failure> {
    let devices = Devices::now();
    let filter = Filter::new(args, &devices)?;
    let mut output = Output::open(args)?;
    let stop = Stop::install();
    let host = members::join()?;
    let tool = Tool {
        captures: true,
        wants_packets: !args.leave_direct,
        ring_bytes: (args.buffer as usize) << 20,
        snap_bytes: args.snap,
    };
    host.become_tool(&tool)
        .map_err(|error| domain::explain("listen in", &error))?;
    let mut capture = Capture {
        rings: Rings::new(&host)?,
        filter,
        output: &mut output,
        left: args.count,
        seen: 0,
        taken: 0,
    };
    let said = greet(&host, args);
    let child = start(args)?;
    let deadline = args.duration.map(|seconds| Instant::now() + seconds);
    let ended = capture.run(&host, &stop, child, deadline)?;
    // from here on nobody writes, and what was written is there
    let _ = host.set_flags(0);
    host.settle_hooks();
    capture.finish(&host)?;
    let (seen, taken, lost) = (capture.seen, capture.taken, capture.rings.lost());
    output.finish()?;
    if !said.is_empty() || !args.json {
        let more = if seen > taken {
            format!(", {} more did not pass the filters", seen - taken)
        } else {
            String::new()
        };
        complain!("ferriband: {taken} packets{more}; {lost} lost because we were too slow");
    }
    if output.misfits() > 0 {
        complain!(
            "  {} packets of another link layer are not in the file: the pcap format has one for all. pcapng holds both.",
            output.misfits()
        );
    }
    if lost > 0 {
        complain!("  A larger --buffer or a small --snap keeps up with more.");
    }
    Ok(ended.map_or(ExitCode::SUCCESS, status))
}

/// The status that a shell would give of a program.
fn status(ended: ExitStatus) -> ExitCode {
    let code = ended
        .code()
        .unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

/// Says what is listened to. Nothing for JSON, whose reader is a program.
fn greet(host: &Host, args: &DumpArgs) -> String {
    let answers = domain::ask_to_look(host, domain::ANSWER_WAIT);
    let mut said = format!(
        "ferriband: listening in on {} running processes, and on those to come",
        answers.processes
    );
    if answers.silent > 0 {
        said += &format!(" ({} more do not answer)", answers.silent);
    }
    if answers.direct > 0 {
        said += &format!(
            "\n  {} queue pairs are up on the direct wire, which has no packets: they stay there and are not seen.",
            answers.direct
        );
    }
    if args.json {
        return String::new();
    }
    complain!("{said}");
    said
}

/// Starts the program that is to be captured, if there is one.
fn start(args: &DumpArgs) -> Result<Option<Child>, Failure> {
    let Some((program, arguments)) = args.program.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(launch::settings()?);
    caller::give_back_signals(&mut command);
    let started = command.spawn();
    started
        .map(Some)
        .map_err(|error| launch::explain(program, &error))
}

/// A capture that goes on.
struct Capture<'a> {
    rings: Rings,
    filter: Filter,
    output: &'a mut Output,
    left: Option<u64>,
    seen: u64,
    taken: u64,
}

impl Capture<'_> {
    /// Until a signal, the end of the program, of the time or of the count. Gives the program's status.
    fn run(
        &mut self,
        host: &Host,
        stop: &Stop,
        mut child: Option<Child>,
        deadline: Option<Instant>,
    ) -> Result<Option<ExitStatus>, Failure> {
        loop {
            let busy = self.rings.look(host);
            let more = self.tell(false)?;
            self.output.flush()?;
            if let Some(child) = &mut child
                && let Some(ended) = child
                    .try_wait()
                    .map_err(|error| Failure::io("wait for", "the program", &error))?
            {
                return Ok(Some(ended));
            }
            let over = deadline.is_some_and(|at| Instant::now() >= at);
            if !more || over || stop.asked() {
                // the program goes on without us
                return Ok(None);
            }
            self.rings.wait(if busy {
                Duration::from_millis(1)
            } else {
                Duration::from_millis(5)
            });
        }
    }

    /// Takes what is left.
    fn finish(&mut self, host: &Host) -> Result<(), Failure> {
        while self.rings.look(host) && self.tell(false)? {}
        self.tell(true)?;
        Ok(())
    }

    /// Prints what is old enough that nothing older can come, or everything. False when there are enough.
    fn tell(&mut self, all: bool) -> Result<bool, Failure> {
        for record in self.rings.take(all) {
            if self.left == Some(0) {
                return Ok(false);
            }
            let Some(captured) = Captured::parse(&record) else {
                continue;
            };
            self.seen += 1;
            if !self.filter.passes(&captured) {
                continue;
            }
            self.output.packet(&captured)?;
            self.taken += 1;
            self.left = self.left.map(|left| left - 1);
        }
        Ok(self.left != Some(0))
    }
}
