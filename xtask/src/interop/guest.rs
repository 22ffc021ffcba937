//! A guest: a Linux kernel that runs as a process, with a Debian system in it and a console that takes commands.
//!
//! Owns: its start, the commands and what becomes of them. Must not know: what the commands are for. The other end of the console is
//! `xtask/interop/guest-init`, which says what the lines mean.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// A boot takes one to two seconds on an idle machine.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);
/// Given up only when the guest's kernel hangs.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// What a guest is given.
pub struct Parts<'a> {
    /// The kernel, see `xtask/interop/build-kernel`.
    pub kernel: &'a Path,
    /// The first process.
    pub init: &'a Path,
    /// A directory of the guest's own that both sides see.
    pub directory: PathBuf,
    /// The tap that is its Ethernet card.
    pub tap: String,
    /// Its addresses, with prefix lengths.
    pub addresses: [String; 2],
}

/// A command in a guest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Task(u32);

/// A running guest. Ends with its last handle; whatever it runs ends with it.
pub struct Guest {
    child: Child,
    console: ChildStdin,
    said: Receiver<String>,
    ended: HashMap<Task, i32>,
    tasks: u32,
    directory: PathBuf,
}

impl Guest {
    /// Starts a guest, which boots meanwhile.
    pub fn start(parts: &Parts<'_>) -> Result<Guest, String> {
        let shown = parts.kernel.display();
        std::fs::create_dir_all(&parts.directory)
            .map_err(|error| format!("{}: {error}", parts.directory.display()))?;
        let processors =
            std::fs::read("/proc/cpuinfo").map_err(|e| format!("/proc/cpuinfo: {e}"))?;
        std::fs::write(parts.directory.join("cpuinfo"), processors)
            .map_err(|error| format!("{}: {error}", parts.directory.display()))?;
        let mut child = Command::new(parts.kernel)
            .args([
                "mem=512M",
                "root=/dev/root",
                "rootfstype=hostfs",
                "rootflags=/",
                "ro",
                "quiet",
            ])
            .args(["con=null", "con0=fd:0,fd:1"])
            .arg(format!("uml_dir={}", parts.directory.display()))
            .arg(format!("init={}", parts.init.display()))
            .arg(format!("vec0:transport=tap,ifname={},depth=128", parts.tap))
            .arg(format!("interop_dir={}", parts.directory.display()))
            .arg(format!("interop_v4={}", parts.addresses[0]))
            .arg(format!("interop_v6={}", parts.addresses[1]))
            .env("TMPDIR", &parts.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{shown}: {error}"))?;
        let console = child.stdin.take().expect("its input is a pipe");
        let lines = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (tell, said) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Guest {
            child,
            console,
            said,
            ended: HashMap::new(),
            tasks: 0,
            directory: parts.directory.clone(),
        })
    }

    /// Waits until it takes commands.
    pub fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + BOOT_PATIENCE;
        let mut heard = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line == "ready" => return Ok(()),
                Ok(line) => heard.push(line),
                Err(_) => {
                    let end = self.child.try_wait().ok().flatten();
                    let state = end.map_or("is not ready".to_owned(), |status| {
                        format!("ended: {status}")
                    });
                    return Err(format!(
                        "the guest's kernel {state}; it said:\n  {}",
                        heard.join("\n  ")
                    ));
                }
            }
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.console, "{line}")
            .and_then(|()| self.console.flush())
            .map_err(|error| format!("the guest does not listen any more: {error}"))
    }

    /// Starts a shell command, one line.
    pub fn run(&mut self, command: &str) -> Result<Task, String> {
        let task = Task(self.tasks);
        self.tasks += 1;
        self.tell(&format!("start {} {command}", task.0))?;
        Ok(task)
    }

    /// The status of a command that has ended.
    pub fn status(&mut self, task: Task) -> Option<i32> {
        while let Ok(line) = self.said.try_recv() {
            let mut words = line.split_ascii_whitespace();
            if words.next() != Some("done") {
                continue;
            }
            let mut number = || words.next().and_then(|word| word.parse().ok());
            if let (Some(id), Some(status)) = (number(), number()) {
                self.ended.entry(Task(id as u32)).or_insert(status);
            }
        }
        self.ended.get(&task).copied()
    }

    /// Kills what is left of a command. Returns the status with which it had ended before.
    pub fn stop(&mut self, task: Task) -> Result<Option<i32>, String> {
        if let Some(status) = self.status(task) {
            return Ok(Some(status));
        }
        self.tell(&format!("kill {}", task.0))?;
        let deadline = Instant::now() + ANSWER_PATIENCE;
        while self.status(task).is_none() {
            if Instant::now() > deadline {
                return Err("the guest does not answer".to_owned());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(None)
    }

    /// What a command has printed until now.
    pub fn output(&self, task: Task) -> String {
        let bytes =
            std::fs::read(self.directory.join(format!("{}.out", task.0))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a command to its end, which must be a good one, and returns what it printed.
    pub fn ask(&mut self, command: &str) -> Result<String, String> {
        let task = self.run(command)?;
        let deadline = Instant::now() + ANSWER_PATIENCE;
        loop {
            match self.status(task) {
                Some(0) => return Ok(self.output(task)),
                Some(status) => {
                    return Err(format!(
                        "in the guest, {command} ended with {status}: {}",
                        self.output(task)
                    ));
                }
                None if Instant::now() > deadline => {
                    return Err(format!(
                        "in the guest, {command} does not end: {}",
                        self.output(task)
                    ));
                }
                None => thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
