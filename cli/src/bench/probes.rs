//! The measurements of the adapter: unmodified perftest programs wherever they can show the thing,
//! and this program's own `perf` and `qp-memory` where they cannot.

use crate::demo::parse::figure;
use crate::demo::programs::{Figure, Report};
use crate::demo::runner::{Output, Place, Words, free_port, run_pair_at, run_single};
use crate::failure::Failure;
use crate::floor::Affinity;
use crate::launch;
use crate::verbs::many::Memory;
use serde::de::DeserializeOwned;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
pub(super) const LATENCY_MESSAGES: u32 = 100_000;
/// More than a latency program of perftest maps for its buffers.
const MAPPED_BYTES: u64 = 1 << 20;
const MILLION: u32 = 1_000_000;

/// Files in shared memory, one for each side, gone when dropped.
struct SharedFiles([PathBuf; 2]);

impl SharedFiles {
    fn new() -> Result<Self, Failure> {
        let name =
            |side| PathBuf::from(format!("/dev/shm/ferriband-bench-{}-{side}", process::id()));
        let files = SharedFiles([name("server"), name("client")]);
        for path in &files.0 {
            let make = || fs::File::create(path)?.set_len(MAPPED_BYTES);
            make().map_err(|error| Failure::io("create", &path.display().to_string(), &error))?;
        }
        Ok(files)
    }

    fn options(&self) -> [Words; 2] {
        [0, 1].map(|side| vec![format!("--mmap={}", self.0[side].display())])
    }
}

impl Drop for SharedFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // Gone already is as good.
            let _ = fs::remove_file(path);
        }
    }
}

pub(super) fn strings(list: &[&str]) -> Words {
    list.iter().map(|word| (*word).to_owned()).collect()
}

/// A run of perftest: words before the program, its name and options, and options of each side.
pub(super) struct Run {
    prefix: [Words; 2],
    program: &'static str,
    pub(super) options: Words,
    own: [Words; 2],
}

impl Run {
    pub(super) fn new(program: &'static str, size_bytes: usize, messages: u32) -> Self {
        let options = strings(&[
            "-F",
            "-s",
            &size_bytes.to_string(),
            "-n",
            &messages.to_string(),
        ]);
        Run {
            prefix: Default::default(),
            program,
            options,
            own: Default::default(),
        }
    }

    /// Binds each side to a core of its own, as both sides of a floor are.
    pub(super) fn bound(mut self) -> Result<Self, Failure> {
        let affinity = Affinity::save()?;
        let cores = affinity.processors();
        if let (Some(first), Some(last)) = (cores.first(), cores.last()) {
            self.prefix = [last, first].map(|core| strings(&["taskset", "-c", &core.to_string()]));
        }
        Ok(self)
    }

    /// Puts words before the server's.
    pub(super) fn server_under(mut self, words: &[String]) -> Self {
        self.prefix[0].splice(0..0, words.iter().cloned());
        self
    }

    /// Runs both sides and returns the client's output.
    fn run(&self, place: Place<'_>) -> Result<Output, Failure> {
        self.check_installed()?;
        let port = free_port(0)?;
        let words = |side: usize| {
            let mut words = self.prefix[side].clone();
            words.push(self.program.to_owned());
            words.extend(self.options.iter().chain(&self.own[side]).cloned());
            words.extend(["-p".to_owned(), port.to_string()]);
            words
        };
        let mut client = words(1);
        client.push(place.server_address().to_string());
        let (server, client) = run_pair_at(place, &words(0), &client, port, LIMIT)?;
        for output in [&server, &client] {
            fine(output)?;
        }
        Ok(client)
    }

    fn check_installed(&self) -> Result<(), Failure> {
        let first = self.prefix.iter().filter_map(|words| words.first());
        let missing = first
            .map(String::as_str)
            .chain([self.program])
            .find(|name| launch::resolve(OsStr::new(name)).is_none());
        match missing {
            None => Ok(()),
            Some(name) => Err(Failure::new(format!("not installed: {name}")).remedy(
                "install it by package name: apt-get install perftest strace util-linux    (make bench does that)",
            )),
        }
    }

    fn figure(&self, report: Report) -> Result<f64, Failure> {
        self.figure_at(Place::Here, report)
    }

    /// What the client reports.
    pub(super) fn figure_at(&self, place: Place<'_>, report: Report) -> Result<f64, Failure> {
        let client = self.run(place)?;
        match figure(report, &client.text) {
            Ok(Some(Figure::Nanoseconds(value) | Figure::BytesPerSecond(value))) => Ok(value),
            Ok(_) => Err(Failure::new(format!(
                "{} gave no figure of that kind",
                client.command
            ))),
            Err(why) => Err(Failure::new(format!("{}: {why}", client.command))),
        }
    }
}

fn fine(output: &Output) -> Result<(), Failure> {
    if output.is_fine() {
        return Ok(());
    }
    let lines: Vec<_> = output.text.lines().collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n    ");
    Err(
        Failure::new(format!("{} {}", output.command, output.ending()))
            .remedy(format!("it printed:\n    {tail}")),
    )
}

/// `ib_write_lat` of 8 bytes between two files in /dev/shm.
pub fn write_mapped() -> Result<f64, Failure> {
    let files = SharedFiles::new()?;
    let mut run = Run::new("ib_write_lat", 8, LATENCY_MESSAGES);
    run.own = files.options();
    run.figure(Report::Latency)
}

/// `ib_send_lat` of 8 bytes.
pub fn send_private() -> Result<f64, Failure> {
    Run::new("ib_send_lat", 8, LATENCY_MESSAGES).figure(Report::Latency)
}

/// `ib_send_lat` of 8 bytes whose sides sleep until the other's message comes.
pub fn send_by_events() -> Result<f64, Failure> {
    let mut run = Run::new("ib_send_lat", 8, LATENCY_MESSAGES / 5);
    run.options.push("-e".to_owned());
    run.figure(Report::Latency)
}

/// `ib_write_lat` of 8 bytes.
pub fn write_private() -> Result<f64, Failure> {
    Run::new("ib_write_lat", 8, LATENCY_MESSAGES).figure(Report::Latency)
}

/// `ib_write_bw`, bound as its floor is.
pub fn write_bandwidth(size_bytes: usize, messages: u32) -> Result<f64, Failure> {
    Run::new("ib_write_bw", size_bytes, messages)
        .bound()?
        .figure(Report::Bandwidth)
}

/// `ib_send_lat` of 8 bytes with both sides bound to the first core.
pub fn send_one_core() -> Result<f64, Failure> {
    let core = Affinity::save()?
        .processors()
        .first()
        .copied()
        .unwrap_or(0)
        .to_string();
    let mut run = Run::new("ib_send_lat", 8, LATENCY_MESSAGES / 4);
    run.prefix = [0, 1].map(|_| strings(&["taskset", "-c", &core]));
    run.figure(Report::Latency)
}

/// System calls that a million mapped WRITEs add to the client: the difference of two runs, so that
/// what perftest does to start and to end does not count.
pub fn system_calls() -> Result<f64, Failure> {
    let few = count_calls(1_000)?;
    let many = count_calls(MILLION + 1_000)?;
    Ok((many - few).max(0.0))
}

fn count_calls(messages: u32) -> Result<f64, Failure> {
    let files = SharedFiles::new()?;
    let counts = PathBuf::from(format!("{}.calls", files.0[0].display()));
    let mut run = Run::new("ib_write_lat", 8, messages);
    run.own = files.options();
    run.prefix[1] = strings(&["strace", "-f", "-o", &counts.display().to_string()]);
    let result = run.run(Place::Here);
    let text = fs::read_to_string(&counts);
    // Gone already is as good.
    let _ = fs::remove_file(&counts);
    result.map_err(|failure| {
        failure.remedy("this target needs strace, and a container that allows ptrace")
    })?;
    let text = text.map_err(|error| Failure::io("read", "the counts of strace", &error))?;
    calls_of_program(&text).ok_or_else(|| Failure::new("strace wrote nothing"))
}

/// The calls of the program's own thread, the first in strace's log: the adapter's thread looks every millisecond whether the
/// program still polls, which is no call of posting or polling. Nor is sched_yield counted: a program that has waited in vain for
/// 20 us (the other side was not running) gives its core away, and strace makes the other side wait.
fn calls_of_program(log: &str) -> Option<f64> {
    let thread = log.split_ascii_whitespace().next()?;
    let begun = log.lines().filter(|line| {
        let mut words = line.split_ascii_whitespace();
        // a call that was interrupted by another thread's has two lines
        words.next() == Some(thread)
            && words
                .next()
                .is_some_and(|word| !word.starts_with("<...") && !word.starts_with("sched_yield"))
    });
    Some(begun.count() as f64)
}

/// A program of ours with arguments, and the JSON that it prints.
fn own<T: DeserializeOwned>(program: &Path, arguments: &[&str]) -> Result<T, Failure> {
    let text = own_program(program, &strings(arguments))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!(
            "{} {} printed something else than expected: {error}",
            program.display(),
            arguments.join(" ")
        ))
    })
}

/// A program of ours with arguments, and what it prints.
pub(super) fn own_program(program: &Path, arguments: &[String]) -> Result<String, Failure> {
    let mut words = vec![program.display().to_string()];
    words.extend(arguments.iter().cloned());
    let output = run_single(&words, LIMIT)?;
    fine(&output)?;
    Ok(output.text)
}

/// `ferriband perf --dm`: WRITE of 8 bytes into memory of ibv_alloc_dm.
pub fn write_device_memory() -> Result<f64, Failure> {
    let iterations = LATENCY_MESSAGES.to_string();
    let report: serde_json::Value = own(
        &launch::ferriband()?,
        &[
            "perf",
            "--dm",
            "--ops",
            "write",
            "--services",
            "rc",
            "--sizes",
            "8",
            "--inline",
            "8",
            "--iters",
            &iterations,
            "--no-floors",
            "--json",
        ],
    )?;
    report["results"][0]["latency"]["p50_ns"]
        .as_f64()
        .ok_or_else(|| Failure::new("perf printed no latency"))
}

/// Bytes of each of 10,000 connected, idle RC queue pairs.
pub fn queue_pair_memory() -> Result<f64, Failure> {
    let myself = env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    own::<Memory>(&myself, &["qp-memory", "--count", "10000", "--json"])
        .map(|memory| memory.bytes_per_queue_pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_first_thread_are_counted_once_each_and_its_waiting_not() {
        let log = "7 execve(\"x\") = 0\n8 epoll_pwait(3) = 0\n7 read(3 <unfinished ...>\n\
                   8 read(4) = 0\n7 <... read resumed>) = 1\n7 sched_yield() = 0\n7 write(1) = 1\n";
        assert_eq!(calls_of_program(log), Some(3.0));
        assert_eq!(calls_of_program(""), None);
    }

    #[test]
    fn shared_files_leave_nothing() {
        let files = SharedFiles::new().expect("/dev/shm is writable");
        let paths = files.0.clone();
        assert!(paths.iter().all(|path| path.exists()));
        drop(files);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
