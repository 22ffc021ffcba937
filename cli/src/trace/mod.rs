//! `ferriband trace`: runs a job whose processes write down their calls and messages, and makes of
//! it a timeline, a picture, and a table of durations.
//!
//! Owns: the directory that the processes write to, which goes with this process, and the merging.
//! What a process writes, and in which form, is the libraries' (`ferriband-trace`). The job may be
//! killed in the middle: what its processes have written until then is shown.

mod chrome;
mod page;
mod quantiles;
mod timeline;

use crate::args::TraceArgs;
use crate::caller;
use crate::failure::Failure;
use crate::launch;
use crate::text;
use ferriband_mpi_proto::settings::SETTINGS as MPI;
use ferriband_putget_verbs::settings::SETTINGS as PUTGET;
use ferriband_trace::{EVENT, EVENTS, MOST_EVENTS, Trace};
use quantiles::Quantiles;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use timeline::Timeline;

/// Runs the job, or takes the files of one that has run; then shows what they say. The status is the job's.
pub fn command(args: &TraceArgs) -> Result<ExitCode, Failure> {
    if let Some(dir) = &args.merge {
        show(args, &read_all(dir)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A long job is not run for a file that cannot be written.
    for path in [Some(&args.output), args.html.as_ref()]
        .into_iter()
        .flatten()
    {
        try_to_write(path)?;
    }
    let dir = Scratch::make(args.keep.as_deref())?;
    let status = run(args, &dir.path)?;
    let traces = read_all(&dir.path)?;
    // Before anything is printed: who reads it may go away, and this process with it.
    drop(dir);
    if traces.is_empty() {
        let failure = match status.success() {
            true => Failure::new(
                "no process has written a trace: none has called MPI_Init, PtlNIInit or ferriband_putget_open of Ferriband's libraries",
            )
            .remedy("compile MPI programs with Ferriband's mpicc, or run them with `ferriband mpirun`; link others with libportals or libferriband_putget"),
            false => Failure::new(format!("no process has written a trace: the job ended with {status}"))
                .remedy("what it said stands above"),
        };
        return Err(failure.status(code(status).max(1)));
    }
    show(args, &traces)?;
    Ok(ExitCode::from(code(status)))
}

fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128_u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}

/// A directory of this process's own.
struct Scratch {
    path: PathBuf,
    is_kept: bool,
}

impl Scratch {
    fn make(kept: Option<&Path>) -> Result<Self, Failure> {
        if let Some(dir) = kept {
            fs::create_dir_all(dir)
                .map_err(|error| Failure::io("make", &dir.display().to_string(), &error))?;
            let path = dir
                .canonicalize()
                .map_err(|error| Failure::io("find", &dir.display().to_string(), &error))?;
            return Ok(Self {
                path,
                is_kept: true,
            });
        }
        let template = std::env::temp_dir().join("ferriband-trace-XXXXXX");
        let mut template = CString::new(template.into_os_string().into_vec())
            .map_err(|_| Failure::new("the directory for scratch files has a zero in its name"))?
            .into_bytes_with_nul();
        // SAFETY: a string of our own that ends in zero, in which the call puts the name.
        if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
            return Err(Failure::os("make", "a directory for the processes' traces")
                .remedy("set TMPDIR to a directory that can be written, or name one with --keep"));
        }
        template.pop();
        let path = PathBuf::from(OsString::from_vec(template));
        let made = Self {
            path,
            is_kept: false,
        };
        own_alone(&made.path)?;
        Ok(made)
    }
}

/// Whatever files are made like, this user may use the directory, and nobody else.
fn own_alone(dir: &Path) -> Result<(), Failure> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
        .map_err(|error| Failure::io("use", &dir.display().to_string(), &error))
}

/// An error if the file cannot be written; else it is as it was.
fn try_to_write(path: &Path) -> Result<(), Failure> {
    let is_new = match fs::metadata(path) {
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        Ok(found) if found.is_file() => false,
        // A pipe or a terminal: to open one may wait for who reads it.
        Ok(_) => return Ok(()),
    };
    let tried = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .and_then(|_| {
            if is_new {
                fs::remove_file(path)
            } else {
                Ok(())
            }
        });
    tried.map_err(|error| {
        Failure::io("write", &path.display().to_string(), &error)
            .remedy("name another file with -o (--html)")
    })
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // Whoever empties the directory meanwhile has done our work.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Runs the job. An interrupt from the terminal goes to it as well, and what it leaves is still shown.
fn run(args: &TraceArgs, dir: &Path) -> Result<ExitStatus, Failure> {
    let (program, arguments) = args
        .command
        .split_first()
        .expect("clap demands at least one word");
    let is_ours = program == "mpirun" || program == "mpiexec";
    let mut command = if is_ours {
        let own = std::env::current_exe()
            .map_err(|error| Failure::io("find", "this program's own file", &error))?;
        let mut command = Command::new(own);
        command.arg("mpirun");
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).envs(launch::library_settings()?);
    for table in [&MPI, &PUTGET] {
        command
            .env(table.variable("trace"), dir)
            .env(table.variable("trace_events"), args.events.to_string());
    }
    // SAFETY: ignoring a signal takes no memory. The child gets what the caller has left.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    caller::give_back_signals(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| launch::explain(program, &error))?;
    child
        .wait()
        .map_err(|error| Failure::io("wait for", &program.to_string_lossy(), &error))
}

/// All traces in a directory, by job and number.
fn read_all(dir: &Path) -> Result<Vec<Trace>, Failure> {
    let broken = |error| Failure::io("read", &dir.display().to_string(), &error);
    let mut traces = Vec::new();
    for entry in fs::read_dir(dir).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        if path.extension().is_none_or(|name| name != "trace") {
            continue;
        }
        let mut bytes = Vec::new();
        let longest = EVENTS + MOST_EVENTS * EVENT;
        File::open(&path)
            .and_then(|file| file.take(longest).read_to_end(&mut bytes))
            .map_err(|error| Failure::io("read", &path.display().to_string(), &error))?;
        match Trace::parse(&bytes) {
            Some(trace) => traces.push(trace),
            None => complain!(
                "ferriband trace: {} is no trace of a process",
                path.display()
            ),
        }
    }
    traces.sort_by_key(|trace| (trace.header.job, trace.header.rank, trace.header.pid));
    Ok(traces)
}

/// Writes what is asked for, and tells the durations.
fn show(args: &TraceArgs, traces: &[Trace]) -> Result<(), Failure> {
    let timeline = Timeline::of(traces);
    let quantiles = Quantiles::of(&timeline);
    write(&args.output, |out| chrome::write(&timeline, out))?;
    if let Some(path) = &args.html {
        write(path, |out| page::write(&timeline, &quantiles, out))?;
    }
    if args.json.json {
        return text::print_json(&quantiles.report(&timeline));
    }
    quantiles.print(&timeline)?;
    let page = args
        .html
        .as_ref()
        .map_or_else(String::new, |path| format!(" and {}", path.display()));
    text::print_line(&format!(
        "Timeline in {}{page} (ui.perfetto.dev and chrome://tracing read the first).",
        args.output.display()
    ))
}

fn write(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        body(&mut out)?;
        out.flush()
    });
    written.map_err(|error| {
        let name = String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
        Failure::io("write", &name, &error)
    })
}
