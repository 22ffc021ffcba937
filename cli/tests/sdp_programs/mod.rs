//! Programs of `tests/c` under `ferriband sdp run`, and what `ferriband sdp status` says of them.

use ferriband_testkit::{Cc, library_dir, place};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The program of a source of `tests/c`, linked as `options` say.
pub fn compile(source: &str, name: &str, options: &[&str]) -> PathBuf {
    Cc::new(place!(), source, name)
        .options(["-O2"])
        .links(options)
        .compile()
}

/// `ferriband sdp`.
pub fn ferriband() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferriband"));
    command
        .arg("sdp")
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("FERRIBAND_SDP_SETTINGS", "")
        .env_remove("LD_PRELOAD");
    command
}

/// A program that runs until this is dropped.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// `ferriband sdp run` of a program.
    pub fn preloaded(program: &Path, words: &[&str]) -> Self {
        let mut command = ferriband();
        command.args(["run", "--"]).arg(program).args(words);
        Self::start(command)
    }

    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let output = child.stdout.take().expect("a pipe");
        Self {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
        }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("readable");
        line.trim().to_owned()
    }

    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                // one that was stopped, or hangs
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What `ferriband sdp status --json` prints.
pub fn status() -> Value {
    let output = ferriband().args(["status", "--json"]).output();
    let output = output.expect("ferriband runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A list that a process has: its connections, for example. Empty: it does not answer.
pub fn listed<'a>(status: &'a Value, pid: u64, what: &str) -> &'a [Value] {
    let processes = status["processes"].as_array().expect("a list");
    let found = processes.iter().find(|process| process["pid"] == pid);
    found.map_or(&[][..], |process| process[what].as_array().expect("a list"))
}
