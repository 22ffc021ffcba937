//! The processes of the ranks.

use super::apps::Apps;
use super::output::{Stream, To};
use super::pmi;
use super::share::Share;
use super::signals::Signal;
use crate::args::{Inherited, MpirunArgs};
use crate::caller;
use crate::failure::Failure;
use crate::launch;
use ferriband_launch::client;
use ferriband_mpi_proto::segment::{
    BELLS, CROWDED, HOST_FD, LOCAL_RANK, OTHER_LAUNCHERS, PMI, PROGRAM,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// A rank's process.
pub struct Rank {
    /// Its process id, and that of its group.
    pub pid: libc::pid_t,
    /// How it has ended, if it has.
    pub end: Option<End>,
    /// When it was started,
    pub started: Instant,
    /// and when its end was seen.
    pub ended: Option<Instant>,
    /// Cores that it may use.
    pub cores: Vec<usize>,
    number: u32,
    out: Stream<ChildStdout>,
    err: Stream<ChildStderr>,
    /// It is of this process's group, because it reads the terminal.
    is_in_group: bool,
}

/// What ranks are started with, beside what the user has said.
pub struct Started<'a> {
    /// What makes the libraries be found, and where the rank is on a host of a live fabric, puts it there.
    pub environment: &'a [(&'static str, OsString)],
    /// The library's settings that the job was started with.
    pub chosen: &'a [(String, String)],
    /// The programs.
    pub apps: &'a Apps,
    /// Cores that ranks may use.
    pub cores: &'a [usize],
    /// Those that this one is bound to, if it is.
    pub bound: Option<Vec<usize>>,
    /// The network namespace that the rank enters.
    pub netns: Option<&'a OwnedFd>,
    /// The rank's signal mask.
    pub mask: libc::sigset_t,
    /// Whether the rank is of this process's group.
    pub is_in_group: bool,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Status(i32),
    /// By a signal.
    Signal(i32),
}

impl End {
    /// As a shell would say it.
    pub fn status(self) -> u8 {
        match self {
            Self::Status(status) => status as u8,
            Self::Signal(signal) => 128_u8.wrapping_add(signal as u8),
        }
    }
}

impl Rank {
    /// Starts rank `number`, whose end of its socket to PMI is `socket`. Returns also the pipe to
    /// its standard input, if that is one.
    pub fn start(
        number: u32,
        args: &MpirunArgs,
        share: &Share,
        started: &Started<'_>,
        socket: &UnixStream,
        input: Stdio,
    ) -> Result<(Self, Option<ChildStdin>), Failure> {
        let (cores, mask) = (started.cores, started.mask);
        let (_, app) = started.apps.of_rank(number);
        let (program, arguments) = app
            .command
            .split_first()
            .expect("each program has at least one word");
        let mut command = inheriting(program, &app.inherit);
        command
            .args(arguments)
            .envs(
                started
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .envs(started.chosen.iter().map(|(name, value)| (name, value)))
            .envs(place(number, share, started))
            .envs(app.env.iter().filter_map(|pair| pair.split_once('=')))
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in OTHER_LAUNCHERS {
            command.env_remove(name);
        }
        command.envs(place_by_pmi(number, started.apps, socket));
        if let Some(dir) = &app.wdir {
            enterable(dir)?;
            command.current_dir(dir);
        }
        let allowed = started.bound.clone().unwrap_or_else(|| cores.to_vec());
        if args.report_bindings {
            let names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            complain!(
                "ferriband mpirun: rank {number} may use core {}",
                names.join(",")
            );
        }
        let parent = std::process::id().cast_signed();
        let mut kept = share.bells();
        kept.extend(share.fd());
        kept.push(socket.as_raw_fd());
        let netns = started.netns.map(AsRawFd::as_raw_fd);
        let bound = started.bound.as_deref().map(set_of);
        let (control, is_in_group) = (share.control(), started.is_in_group);
        let become_it = move || {
            control.set_started(number);
            if !is_in_group {
                // SAFETY: the call takes no memory.
                unsafe { libc::setpgid(0, 0) };
            }
            become_rank(parent, netns, &kept, bound.as_ref(), &mask)
        };
        // SAFETY: what is called between fork and exec takes no lock and no memory.
        unsafe { command.pre_exec(become_it) };
        let mut child = command
            .spawn()
            .map_err(|error| launch::explain(&seen_from(app.wdir.as_deref(), program), &error))?;
        let input = child.stdin.take();
        let rank = Self {
            pid: child.id().cast_signed(),
            end: None,
            started: Instant::now(),
            ended: None,
            cores: allowed,
            number,
            out: Stream::new(child.stdout.take(), To::Out),
            err: Stream::new(child.stderr.take(), To::Err),
            is_in_group,
        };
        Ok((rank, input))
    }

    /// Whether all that it wrote has been read.
    pub fn is_silent(&self) -> bool {
        self.out.fd().is_none() && self.err.fd().is_none()
    }

    /// Whether the first that it writes has come.
    pub fn is_first(&self, is_ready: &impl Fn(RawFd) -> bool) -> bool {
        self.out.is_first(is_ready) || self.err.is_first(is_ready)
    }

    /// Whether an unfinished line waits.
    pub fn has_rest(&self) -> bool {
        self.out.has_rest() || self.err.has_rest()
    }

    /// What to wait for.
    pub fn poll(&self, list: &mut Vec<libc::pollfd>) {
        for fd in self.out.fd().into_iter().chain(self.err.fd()) {
            list.push(libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
        }
    }

    /// Passes on what it wrote; unfinished lines, too, if nothing has come for a while.
    pub fn relay(
        &mut self,
        is_ready: &impl Fn(RawFd) -> bool,
        is_quiet: bool,
        tag: bool,
    ) -> io::Result<()> {
        let prefix = if tag {
            format!("[{}] ", self.number)
        } else {
            String::new()
        };
        if self.out.fd().is_some_and(is_ready) {
            self.out.relay(&prefix)?;
        }
        if self.err.fd().is_some_and(is_ready) {
            self.err.relay(&prefix)?;
        }
        if is_quiet {
            self.out.flush(&prefix)?;
            self.err.flush(&prefix)?;
        }
        Ok(())
    }

    /// Sends a signal to it, and to its children where its group is its own, unless it has ended.
    pub fn signal(&self, signal: i32) {
        if self.end.is_none() {
            let whom = if self.is_in_group {
                self.pid
            } else {
                -self.pid
            };
            // SAFETY: the call takes no memory. The process has not been waited for, so the number is still its own, or its group's.
            unsafe { libc::kill(whom, signal) };
        }
    }

    /// Passes on a signal of this process's: one of the terminal has come to a rank of this process's group by itself.
    pub fn pass_on(&self, signal: Signal) {
        if !(signal.is_of_terminal && self.is_in_group) {
            self.signal(signal.number);
        }
    }
}

/// What starts a program with the variables that it is to inherit. It is looked for where this process's PATH leads to, whatever the rank's is.
fn inheriting(program: &OsStr, which: &Inherited) -> Command {
    let mut command = Command::new(program);
    if *which == Inherited::All {
        return command;
    }
    if let Some(path) = launch::resolve(program) {
        command = Command::new(path);
        command.arg0(program);
    }
    let is_kept = |name: &OsStr| match which {
        Inherited::All => true,
        Inherited::Only(names) => names.iter().any(|kept| name == kept.as_str()),
        Inherited::Except(names) => names.iter().all(|left| name != left.as_str()),
    };
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_kept(name)));
    command
}

/// What tells a rank its place in the job's segment.
fn place(number: u32, share: &Share, started: &Started<'_>) -> [(&'static str, String); 5] {
    let bells: Vec<String> = share.bells().iter().map(ToString::to_string).collect();
    let is_crowded = started.apps.ranks() as usize > started.cores.len();
    let (program, _) = started.apps.of_rank(number);
    [
        (HOST_FD, share.words()),
        (BELLS, bells.join(",")),
        (LOCAL_RANK, number.to_string()),
        (CROWDED, u8::from(is_crowded).to_string()),
        (PROGRAM, program.to_string()),
    ]
}

/// What tells a rank its place by PMI-1, and our library that this PMI is this launcher's.
fn place_by_pmi(number: u32, apps: &Apps, socket: &UnixStream) -> [(&'static str, String); 4] {
    [
        (client::FD, socket.as_raw_fd().to_string()),
        (client::RANK, number.to_string()),
        (client::SIZE, apps.ranks().to_string()),
        (PMI, pmi::words(socket)),
    ]
}

fn set_of(cores: &[usize]) -> libc::cpu_set_t {
    // SAFETY: a set is plain memory.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores {
        // SAFETY: the numbers are those of another set of the same kind.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    set
}

/// Whether ranks can begin in this directory: execvp's error would be about their program.
fn enterable(dir: &Path) -> Result<(), Failure> {
    // A directory's own "." is found by those alone who may enter it.
    std::fs::metadata(dir.join(".")).map(drop).map_err(|error| {
        Failure::io("enter", &dir.to_string_lossy(), &error)
            .remedy("name a directory that is there with --wdir")
            .status(2)
    })
}

/// Where a program is that is started in `dir`.
fn seen_from(dir: Option<&Path>, program: &OsStr) -> OsString {
    match dir {
        Some(dir) if program.as_bytes().contains(&b'/') => dir.join(program).into(),
        _ => program.to_owned(),
    }
}

/// Between fork and exec: dead with its parent, with the descriptors of the job and the signals of the caller.
fn become_rank(
    parent: libc::pid_t,
    netns: Option<RawFd>,
    kept: &[RawFd],
    bound: Option<&libc::cpu_set_t>,
    mask: &libc::sigset_t,
) -> io::Result<()> {
    // SAFETY: plain system calls about this process; the sets are the caller's.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        if let Some(netns) = netns
            && libc::setns(netns, libc::CLONE_NEWNET) != 0
        {
            return Err(io::Error::last_os_error());
        }
        for fd in kept {
            libc::fcntl(*fd, libc::F_SETFD, 0);
        }
        if let Some(set) = bound {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const *set);
        }
    }
    caller::restore_signals()
}

/// The network namespaces with these names, or these paths.
pub fn hosts(names: &[String]) -> Result<Vec<OwnedFd>, Failure> {
    names
        .iter()
        .map(|name| {
            let path = if name.contains('/') {
                PathBuf::from(name)
            } else {
                Path::new("/run/netns").join(name)
            };
            File::open(&path).map(OwnedFd::from).map_err(|error| {
                Failure::io(
                    "open",
                    &format!("network namespace {}", path.display()),
                    &error,
                )
                .remedy("name one of `ip netns list`, or a path such as /proc/PID/ns/net")
            })
        })
        .collect()
}

/// The cores that this process may use.
pub fn cores() -> Result<Vec<usize>, Failure> {
    // SAFETY: a set is plain memory.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set of that size.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return Err(Failure::os("count", "the cores of this machine"));
    }
    Ok((0..libc::CPU_SETSIZE as usize)
        // SAFETY: within the set.
        .filter(|core| unsafe { libc::CPU_ISSET(*core, &set) })
        .collect())
}

/// Children of ranks that outlive them become children of this process, which ends them.
pub fn adopt_orphans() {
    // SAFETY: the call takes no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Kills whatever child is left, and those that come to this process by that.
pub fn kill_orphans() {
    for _ in 0..100 {
        let Ok(children) =
            std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()))
        else {
            return;
        };
        let pids: Vec<libc::pid_t> = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        if pids.is_empty() {
            return;
        }
        for pid in pids {
            // SAFETY: children of this process, which nobody else waits for.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// A child that has ended, and how.
pub fn next_end() -> Option<(libc::pid_t, End)> {
    let mut status = 0;
    // SAFETY: a local word.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let end = if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Status(libc::WEXITSTATUS(status))
    };
    Some((pid, end))
}
