//! Runs a server and a client program under Ferriband's libraries, with a time limit, and keeps
//! what they print.
//!
//! Owns: the life of foreign programs. Each runs in a process group of its own, and whatever is
//! left of it is killed, whether the pair ended well, badly, or not at all. Must not know: what
//! the programs are.

use super::ready::{Lookout, is_listening};
use crate::args::{HostWire, Wire};
use crate::failure::Failure;
use crate::launch;
use crate::mpi::scratch::Scratch;
use crate::netns::{self, Host, TwoHosts};
use std::ffi::OsString;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const LISTEN_PATIENCE: Duration = Duration::from_secs(15);
/// How long the other program may go on after one has ended.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long a program that was asked to end may take.
const ASKING_PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Where the two sides run.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// Both on this host, with the devices that it has.
    Here,
    /// The same, by packets.
    HereByPackets,
    /// The server on the first host, the client on the second, each with its Ethernet device.
    Hosts(&'a TwoHosts),
    /// Both on the first of them; by packets, if told so.
    OneHost(&'a TwoHosts, Wire),
}

impl<'a> Place<'a> {
    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Place::Here => "each on this host",
            Place::HereByPackets => "each on this host: InfiniBand packets between processes",
            Place::Hosts(_) => {
                "each between two hosts: network namespaces joined by a veth pair, RoCEv2 over UDP"
            }
            Place::OneHost(_, Wire::Direct) => {
                "each on one host, a network namespace, with its Ethernet device: shared memory"
            }
            Place::OneHost(_, Wire::Roce) => {
                "each on one host, a network namespace, with its Ethernet device: RoCEv2 over UDP"
            }
        }
    }

    /// How the client finds the server.
    pub fn server_address(self) -> Ipv4Addr {
        match self {
            Place::Here | Place::HereByPackets => Ipv4Addr::LOCALHOST,
            Place::Hosts(hosts) | Place::OneHost(hosts, _) => hosts.first.address,
        }
    }

    /// The server's IPv6 address; the link-local one with its scope as the client needs it.
    pub fn server_ipv6(self, link_local: bool) -> String {
        match (self, link_local) {
            (Place::Here | Place::HereByPackets, _) => Ipv6Addr::LOCALHOST.to_string(),
            (Place::Hosts(hosts) | Place::OneHost(hosts, _), false) => {
                hosts.first.ipv6().to_string()
            }
            (Place::Hosts(hosts) | Place::OneHost(hosts, _), true) => {
                format!("{}%{}", hosts.first.link_local(), netns::INTERFACE)
            }
        }
    }

    /// The address of either side's own host.
    pub fn own_address(self, client: bool) -> Ipv4Addr {
        match self {
            Place::Here | Place::HereByPackets => Ipv4Addr::LOCALHOST,
            Place::Hosts(hosts) if client => hosts.second.address,
            Place::Hosts(hosts) | Place::OneHost(hosts, _) => hosts.first.address,
        }
    }

    /// The same of IPv6.
    pub fn own_ipv6(self, client: bool) -> String {
        match self {
            Place::Here | Place::HereByPackets => Ipv6Addr::LOCALHOST.to_string(),
            Place::Hosts(hosts) if client => hosts.second.ipv6().to_string(),
            Place::Hosts(hosts) | Place::OneHost(hosts, _) => hosts.first.ipv6().to_string(),
        }
    }

    fn server(self) -> Option<&'a Host> {
        match self {
            Place::Here | Place::HereByPackets => None,
            Place::Hosts(hosts) | Place::OneHost(hosts, _) => Some(&hosts.first),
        }
    }

    fn client(self) -> Option<&'a Host> {
        match self {
            Place::Here | Place::HereByPackets => None,
            Place::Hosts(hosts) => Some(&hosts.second),
            Place::OneHost(hosts, _) => Some(&hosts.first),
        }
    }

    fn environment(self) -> Result<Vec<(&'static str, OsString)>, Failure> {
        let mut environment = launch::settings()?;
        if !matches!(self, Place::Here | Place::HereByPackets) {
            environment.push((launch::DEVICES_VARIABLE, netns::DEVICE.into()));
        }
        let wire = match self {
            Place::OneHost(_, wire) => Some(wire.into()),
            Place::HereByPackets => Some(HostWire::Packets),
            Place::Here | Place::Hosts(_) => None,
        };
        if let Some(wire) = wire {
            environment.push((launch::WIRE_VARIABLE, launch::wire_name(wire).into()));
        }
        Ok(environment)
    }
}

/// A program and its arguments; words with a `=` before the program are settings of its environment.
pub type Words = Vec<String>;

/// What one program did.
pub struct Output {
    /// Its words, for messages.
    pub command: String,
    /// Standard output and error, one after the other.
    pub text: String,
    /// How it ended; `None` when it was killed by us.
    pub status: Option<ExitStatus>,
}

impl Output {
    /// True when the program ended by itself with status 0.
    pub fn is_fine(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// In words.
    pub fn ending(&self) -> String {
        match self.status {
            None => "did not end in time and was killed".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(0), _) => "ended well".to_owned(),
                (Some(code), _) => format!("ended with status {code}"),
                (None, Some(signal)) => format!("died of signal {signal}"),
                (None, None) => "ended strangely".to_owned(),
            },
        }
    }
}

/// A running program whose output is being read.
struct Running {
    child: Child,
    command: String,
    readers: Vec<JoinHandle<String>>,
    status: Option<ExitStatus>,
}

impl Running {
    fn start(
        words: &Words,
        environment: &[(&'static str, OsString)],
        host: Option<&Host>,
    ) -> Result<Self, Failure> {
        Self::start_with(words, environment, |command| {
            if let Some(host) = host {
                start_on(command, host);
            }
        })
    }

    fn start_with(
        words: &Words,
        environment: &[(&'static str, OsString)],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, Failure> {
        let settings = words.iter().map_while(|word| word.split_once('='));
        let (program, arguments) = words[settings.clone().count()..]
            .split_first()
            .expect("a command has a program");
        let mut command = Command::new(program);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        for (name, value) in settings {
            // what a program brings along to be preloaded comes before ours
            let ours = environment
                .iter()
                .find(|(other, _)| *other == launch::PRELOAD);
            match ours.filter(|_| name == launch::PRELOAD) {
                Some((_, ours)) => {
                    let mut both = OsString::from(value);
                    both.push(":");
                    both.push(ours);
                    command.env(name, both)
                }
                None => command.env(name, value),
            };
        }
        prepare(&mut command);
        let mut child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                Failure::io("run", program, &error)
                    .remedy("install the package that it comes with, or: make demo")
            })?;
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            readers.push(collect(pipe));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(collect(pipe));
        }
        let command = words
            .iter()
            .map(|word| launch::quote(word))
            .collect::<Vec<_>>()
            .join(" ");
        Ok(Running {
            child,
            command,
            readers,
            status: None,
        })
    }

    fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Waits for the end without looking again and again, which would cost those that are measured; none if the kernel cannot say when.
    fn wait(&mut self, limit: Duration, stop: RawFd) -> Option<Duration> {
        let begun = Instant::now();
        // SAFETY: the call takes no memory; the child is not reaped yet, so the number is its own.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.child.id(), 0) };
        if fd < 0 {
            wait_until(limit, || self.has_ended());
            return None;
        }
        // SAFETY: a descriptor that the kernel has just made for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let mut polls = [fd.as_raw_fd(), stop].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let milliseconds = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: two local entries.
        unsafe { libc::poll(polls.as_mut_ptr(), 2, milliseconds) };
        let taken = begun.elapsed();
        if polls[1].revents == 0 {
            // A signal may have ended the wait.
            wait_until(limit.saturating_sub(taken), || self.has_ended());
        }
        Some(taken)
    }

    /// Asks the group to end, so that it can put its files away, and waits a while.
    fn ask(&mut self) {
        // SAFETY: the group is the child's own, which is not reaped yet.
        unsafe { libc::killpg(self.child.id() as libc::pid_t, libc::SIGTERM) };
        wait_until(ASKING_PATIENCE, || self.has_ended());
    }

    /// Kills what is left of the group and returns what was printed.
    fn finish(mut self) -> Output {
        self.kill();
        let readers = std::mem::take(&mut self.readers);
        let text = readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_default())
            .collect();
        Output {
            command: std::mem::take(&mut self.command),
            text,
            status: self.status,
        }
    }

    fn kill(&mut self) {
        let ended = self.has_ended();
        // SAFETY: the group is the child's own. Its number is not reused while the child is
        // unreaped or members are left; a group that is gone is an error that says so.
        unsafe { libc::killpg(self.child.id() as libc::pid_t, libc::SIGKILL) };
        if !ended {
            // Reaps; the status stays None because the end was ours.
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.readers.is_empty() {
            self.kill();
        }
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A TCP port that nobody uses now, below the range that the kernel gives to clients.
pub fn free_port(after: u16) -> Result<u16, Failure> {
    let candidates = (after.saturating_add(1).max(18_600)..32_000).chain(18_600..32_000);
    candidates
        .into_iter()
        .find(|&port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok())
        .ok_or_else(|| Failure::new("no TCP port between 18600 and 32000 is free"))
}

/// Lets a program begin in a host's namespace, and end with this process: nothing shall hold the namespace after it.
fn start_on(command: &mut Command, host: &Host) {
    let namespace = host.namespace().as_raw_fd();
    let begin = move || {
        // SAFETY: changes only when the new process is to die.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: the host outlives the start of the program, so its descriptor is open.
        netns::enter(unsafe { BorrowedFd::borrow_raw(namespace) })
    };
    // SAFETY: makes two system calls and does nothing else between fork and exec.
    unsafe { command.pre_exec(begin) };
}

/// Runs one program to its end.
pub fn run_single(words: &Words, limit: Duration) -> Result<Output, Failure> {
    run_single_at(Place::Here, words, limit)
}

/// Runs one program to its end in the environment that there is, not under our libraries. What it did, and how long that took.
///
/// It ends, too, when a signal comes that `scratch` holds back; its temporary files go to a directory of its own, and neither they nor processes that it has left
/// outlive it.
pub fn run_plain(
    words: &Words,
    limit: Duration,
    scratch: &Scratch,
) -> Result<(Output, Duration), Failure> {
    let stay = scratch.stay()?;
    let begun = Instant::now();
    let environment = [("TMPDIR", stay.dir().into())];
    let mut program = Running::start_with(words, &environment, |command| {
        start_alone(command, scratch.mask());
    })?;
    let taken = program.wait(limit, scratch.fd());
    let taken = taken.unwrap_or_else(|| begun.elapsed());
    if !program.has_ended() {
        program.ask();
    }
    Ok((program.finish(), taken))
}

/// Lets a program begin with the signals that this process had, and be told to end when this process ends.
pub fn start_alone(command: &mut Command, mask: libc::sigset_t) {
    let begin = move || {
        // SAFETY: a local copy of the set; and changes only when the new process is told to end.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        }
        Ok(())
    };
    // SAFETY: makes two system calls and does nothing else between fork and exec.
    unsafe { command.pre_exec(begin) };
}

/// Runs one program to its end where a server would be.
pub fn run_single_at(place: Place<'_>, words: &Words, limit: Duration) -> Result<Output, Failure> {
    let mut program = Running::start(words, &place.environment()?, place.server())?;
    wait_until(limit, || program.has_ended());
    Ok(program.finish())
}

/// Runs a server and, as soon as it listens on `port`, a client, where they are to be. Both outputs, server first.
pub fn run_pair_at(
    place: Place<'_>,
    server: &Words,
    client: &Words,
    port: u16,
    limit: Duration,
) -> Result<(Output, Output), Failure> {
    let environment = place.environment()?;
    let mut first = Running::start(server, &environment, place.server())?;
    let server_pid = first.child.id();
    wait_until(LISTEN_PATIENCE.min(limit), || {
        is_listening(server_pid, port) || first.has_ended()
    });
    let mut second = Running::start(client, &environment, place.client())?;
    wait_until(limit, || first.has_ended() || second.has_ended());
    wait_until(END_PATIENCE.min(limit), || {
        first.has_ended() & second.has_ended()
    });
    Ok((first.finish(), second.finish()))
}

/// Runs a server and a client that find each other by the connection manager: the client begins when the server can be called, by
/// the signs of [`Lookout`]. A server that `stays` is ended with the client.
pub fn run_meeting_at(
    place: Place<'_>,
    server: &Words,
    client: &Words,
    port: u16,
    stays: bool,
    limit: Duration,
) -> Result<(Output, Output), Failure> {
    let environment = place.environment()?;
    let lookout = Lookout::new(port, server);
    let mut first = Running::start(server, &environment, place.server())?;
    let server_pid = first.child.id();
    wait_until(LISTEN_PATIENCE.min(limit), || {
        lookout.can_be_called(server_pid) || first.has_ended()
    });
    drop(lookout);
    let mut second = Running::start(client, &environment, place.client())?;
    wait_until(limit, || second.has_ended());
    if !stays {
        wait_until(END_PATIENCE.min(limit), || first.has_ended());
    }
    Ok((first.finish(), second.finish()))
}

fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stragglers_are_killed_and_their_output_kept() {
        let words = ["sh", "-c", "echo before; sleep 1000 & sleep 1000"]
            .map(str::to_owned)
            .to_vec();
        let mut program = Running::start(&words, &[], None).expect("sh runs");
        let begun = Instant::now();
        wait_until(Duration::from_millis(300), || program.has_ended());
        let output = program.finish();
        assert!(output.status.is_none() && !output.is_fine());
        assert_eq!(output.text, "before\n");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
