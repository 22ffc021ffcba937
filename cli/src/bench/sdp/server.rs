//! A program that serves TCP on this host, plain or with the library of SDP.
//!
//! Owns: its life, and the port that it is given. Must not know: what it serves.

use super::{Settings, Way};
use crate::failure::Failure;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that ends with its value.
pub struct Server {
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // so that one with workers ends them
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            if matches!(self.process.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port of 127.0.0.1 that nobody has.
pub fn free_port() -> Result<u16, Failure> {
    let failed = |error: io::Error| Failure::io("listen at", "127.0.0.1", &error);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    Ok(listener.local_addr().map_err(failed)?.port())
}

impl Server {
    /// Starts it, and waits until it listens at this port.
    pub fn start(
        mut command: Command,
        port: u16,
        way: &Way,
        settings: Settings,
    ) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .envs(way.environment(settings)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command
            .spawn()
            .map_err(|error| Failure::io("start", &name, &error))?;
        let mut server = Self { process };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let has_ended = !matches!(server.process.try_wait(), Ok(None));
            if has_ended || begin.elapsed() > PATIENCE {
                return Err(Failure::new(format!("{name} does not listen")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }
}
