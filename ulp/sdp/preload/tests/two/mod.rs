//! A server and a client in two network namespaces, or in one. Owns: how they are made and run, and
//! what the two have said.
#![allow(dead_code, reason = "each test binary uses its own part")]

use ferriband_testkit::{Cc, library, place};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("hosts-{}-{next}-{name}", std::process::id());
    place!().out(&name)
}

pub fn source(name: &str) -> PathBuf {
    place!().source(name)
}

pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        Cc::of(source("hosts.c"), scratch("program"))
            .options(["-O2", "-pthread"])
            .links(["-ldl"])
            .compile()
    })
}

/// A shell in a user's and a network's namespaces of its own.
pub fn alone() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", "240"]).args([
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "--",
        "sh",
    ]);
    command
}

pub fn may_have_hosts() -> bool {
    let wants =
        "ip link add eth0 type veth peer name eth1 && unshare --net true && nsenter --version";
    let mut command = alone();
    command
        .args(["-c", wants])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let may = command.status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("SKIP: namespaces, veth or iproute2 are not to be had here");
    }
    may
}

/// What a run says, and how many processes have had connections that were taken over.
pub struct Run {
    /// The client, and how a program has ended that has not ended well.
    pub said: String,
    /// Processes of which connections were taken over.
    pub upgraded: usize,
}

impl Run {
    /// The server was killed, and the client was told of it as by TCP.
    pub fn tells_of_death(&self) {
        let told = ["Connection reset by peer\n", "Broken pipe\n"];
        let is_told = told.iter().any(|told| self.said.contains(told));
        assert!(
            is_told && self.said.contains("the server: 137"),
            "{}",
            self.said
        );
    }
}

/// Two programs that are to run.
pub struct Runs<'a> {
    pub script: &'a str,
    /// The server's.
    pub address: &'a str,
    pub mode: &'a str,
    pub rounds: u32,
    /// The server's settings, and the client's.
    pub sides: [&'a str; 2],
    /// They begin when their connection is taken over.
    pub is_taken_over: bool,
    /// What is done in the middle, by a shell.
    pub half: &'a str,
}

/// Runs both programs with these settings, which begin when their connection is taken over if it
/// will be.
pub fn run(mode: &str, rounds: u32, settings: &str, is_taken_over: bool) -> Run {
    let runs = Runs {
        script: "two_hosts.sh",
        address: "192.0.2.2",
        mode,
        rounds,
        sides: [settings, settings],
        is_taken_over,
        half: "",
    };
    runs.run()
}

/// Runs both programs in one network namespace, of which this is an address. The server's settings,
/// and the client's.
pub fn run_here(
    address: &str,
    mode: &str,
    rounds: u32,
    sides: [&str; 2],
    is_taken_over: bool,
) -> Run {
    let runs = Runs {
        script: "one_host.sh",
        address,
        mode,
        rounds,
        sides,
        is_taken_over,
        half: "",
    };
    runs.run()
}

impl Runs<'_> {
    pub fn run(&self) -> Run {
        let Runs {
            script,
            address,
            mode,
            rounds,
            sides,
            is_taken_over,
            half,
        } = *self;
        let counters = scratch("counters");
        let _ = fs::remove_file(&counters);
        let library = library("libferriband_sdp.so");
        let common = format!(
            "LD_PRELOAD={} FERRIBAND_SDP_SETTINGS= FERRIBAND_SDP_COUNTERS={} TAKEN_OVER={}",
            library.display(),
            counters.display(),
            u8::from(is_taken_over),
        );
        let program = program().display();
        let [first, second] = sides;
        let server = format!("exec env {common} {first} {program} server 17080 {mode} {rounds}");
        let client =
            format!("exec env {common} {second} {program} client {address} 17080 {mode} {rounds}");
        let output: Output = alone()
            .arg(source(script))
            .env("SERVER", server)
            .env("CLIENT", client)
            .env("HALF", half)
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{mode}: {}: {said}{errors}",
            output.status
        );
        let counted = fs::read_to_string(&counters).unwrap_or_default();
        let _ = fs::remove_file(&counters);
        // shown with what fails
        eprintln!("{mode} {sides:?}: {said}{errors}");
        let lines = counted
            .lines()
            .filter(|line| line.contains("\"upgraded\":"));
        let upgraded = lines.filter(|line| !line.contains("\"upgraded\":0"));
        Run {
            said,
            upgraded: upgraded.count(),
        }
    }
}

/// The part of the client's bytes that went by TCP, in percent; all came back, and both programs
/// ended well.
pub fn by_tcp(said: &str) -> u32 {
    let part = said.split_once("all came back, ").and_then(|(_, rest)| {
        let (percent, rest) = rest.split_once("% by tcp\n")?;
        rest.is_empty().then(|| percent.parse().ok())?
    });
    part.unwrap_or_else(|| panic!("{said}"))
}

/// Two users without privilege, who have no files here.
pub const USERS: [u32; 2] = [61_001, 61_002];

/// Whether this is a root who may make network namespaces.
pub fn may_be_others() -> bool {
    let command =
        "test $(id -u) = 0 && unshare --net true && setpriv --reuid 61001 --clear-groups true";
    let status = Command::new("sh").args(["-c", command]).status();
    status.is_ok_and(|status| status.success())
}
