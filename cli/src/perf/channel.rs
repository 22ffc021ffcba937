//! The side channel of a measurement: a socket pair to a second copy of this program, with one
//! JSON value per line.

use super::case::{self, Case};
use crate::failure::Failure;
use crate::verbs::{Library, Source};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// How long the other process may be silent: longer than a completion may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines to and from the other process.
pub struct Channel {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    child: Option<Child>,
}

impl Channel {
    fn new(stream: UnixStream, child: Option<Child>) -> Result<Self, Failure> {
        let fail = |error| Failure::io("set up", "the side channel", &error);
        stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        let writer = stream.try_clone().map_err(fail)?;
        Ok(Channel {
            reader: BufReader::new(stream),
            writer,
            child,
        })
    }

    /// Starts the second process of `perf` on the same library and adapter.
    pub fn start(source: Source, adapter: &str) -> Result<Self, Failure> {
        let system = (source == Source::System).then_some("--system");
        Channel::spawn(["perf-peer", adapter].into_iter().chain(system), &[])
    }

    /// Starts another copy of this program with these words and variables; its standard input is
    /// the socket.
    pub fn spawn<'a>(
        words: impl IntoIterator<Item = &'a str>,
        variables: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let (here, there) = UnixStream::pair()
            .map_err(|error| Failure::io("create", "a pair of sockets", &error))?;
        let exe = crate::launch::ferriband()?;
        let child = Command::new(exe)
            .args(words)
            .envs(variables.iter().copied())
            .stdin(Stdio::from(OwnedFd::from(there)))
            .spawn()
            .map_err(|error| Failure::io("start", "another process", &error))?;
        Channel::new(here, Some(child))
    }

    /// The socket that is this process's standard input.
    pub fn inherited() -> Result<Self, Failure> {
        let socket = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Failure::io("use", "standard input as a side channel", &error))?;
        Channel::new(UnixStream::from(socket), None)
    }

    /// Sends a value.
    pub fn say(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(value).map_err(|error| {
            Failure::new(format!(
                "cannot write a message of the side channel: {error}"
            ))
        })?;
        line.push(b'\n');
        self.writer
            .write_all(&line)
            .map_err(|error| Failure::io("write to", "the other process", &error))
    }

    /// Receives a value.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        let count = self
            .reader
            .read_line(&mut line)
            .map_err(|error| Failure::io("hear from", "the other process", &error))?;
        if count == 0 {
            return Err(Failure::new("the other process ended early"));
        }
        serde_json::from_str(&line).map_err(|error| {
            Failure::new(format!(
                "the other process said something else than expected: {error}"
            ))
        })
    }

    /// Both sides have come here.
    pub fn barrier(&mut self) -> Result<(), Failure> {
        self.say(&())?;
        self.hear()
    }

    /// Adds what was measured to a failure, and ends the other process, which may wait for us.
    pub fn blame(&mut self, failure: Failure, case: &Case) -> Failure {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself and said why on standard error; then these do nothing.
            let _ = child.kill();
            let _ = child.wait();
        }
        Failure::new(format!(
            "{} of {} bytes: {failure}",
            case.name(),
            case.size_bytes
        ))
        .remedy("measure it alone with --ops, --services and --sizes; see also: ferriband doctor")
    }

    /// Waits for the other process to end well.
    pub fn finish(mut self) -> Result<(), Failure> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let status = child
            .wait()
            .map_err(|error| Failure::io("wait for", "the second process", &error))?;
        if !status.success() {
            return Err(Failure::new(format!(
                "the second process ended with {status}"
            )));
        }
        Ok(())
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The second process: `ferriband perf-peer`, its standard input one end of the socket pair.
pub fn peer_command(adapter: &str, system: bool) -> Result<ExitCode, Failure> {
    let mut channel = Channel::inherited()?;
    let library = Library::open(Source::from_flag(system))?;
    let context = library.context(Some(adapter))?;
    while let Some(case) = channel.hear::<Option<Case>>()? {
        case::run_server(&context, &case, &mut channel)?;
    }
    Ok(ExitCode::SUCCESS)
}
