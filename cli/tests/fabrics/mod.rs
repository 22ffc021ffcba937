//! Live fabrics for tests, and programs on their hosts.
//!
//! Where a package is missing its test says so and passes without having tested.
#![allow(dead_code, unused_imports, reason = "each test binary uses some of it")]

pub use ferriband_testkit::is_there;
use ferriband_testkit::{finish, library_dir};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const FERRIBAND: &str = env!("CARGO_BIN_EXE_ferriband");
/// How long anything may take, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn ferriband(words: &[&str]) -> Command {
    let mut command = Command::new(FERRIBAND);
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(words)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("PATH", format!("{path}:/usr/sbin"))
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("FERRIBAND_HOST")
        .stdin(Stdio::null());
    command
}

/// The output of a command that must end in time and with this success.
pub fn output(words: &[&str]) -> Output {
    let mut command = ferriband(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(&mut command, PATIENCE)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a command that must succeed.
pub fn good(words: &[&str]) -> String {
    let output = output(words);
    assert!(
        output.status.success(),
        "{words:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Where fabrics of tests keep their keys.
const STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// A fabric of a test's own, which goes with it. One test at a time has fabrics, for the machine's sake.
pub struct Fabric {
    pub name: String,
    pub process: Child,
    _alone: Option<std::sync::MutexGuard<'static, ()>>,
}

/// A host, as the status of its fabric has it.
#[derive(Clone, Debug)]
pub struct Host {
    pub name: String,
    pub address: String,
    pub lid: u64,
}

impl Fabric {
    pub fn up(shape: &str, more: &[&str]) -> Fabric {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        // a test that failed has let go of it too
        let alone = ALONE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut fabric = Fabric::start(shape, more);
        fabric._alone = Some(alone);
        fabric
    }

    /// One more, at the same time as this one.
    pub fn and_another(&self, shape: &str, more: &[&str]) -> Fabric {
        Fabric::start(shape, more)
    }

    fn start(shape: &str, more: &[&str]) -> Fabric {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("test-{}-{count}", std::process::id());
        let process = ferriband(&["fabric", "up", shape, "--name", &name])
            .args(more)
            .env("XDG_STATE_HOME", STATE)
            .stderr(Stdio::null())
            .spawn()
            .expect("ferriband runs");
        let fabric = Fabric {
            name,
            process,
            _alone: None,
        };
        eventually("the fabric is there", || {
            ferriband(&["fabric", "status", "--name", &fabric.name])
                .output()
                .is_ok_and(|output| output.status.success())
        });
        fabric
    }

    pub fn say(&self, words: &[&str]) -> String {
        let (first, rest) = words.split_first().expect("a word");
        let mut all = vec!["fabric", first, "--name", &self.name];
        all.extend(rest);
        good(&all)
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.say(&["status", "--json"])).expect("JSON")
    }

    /// The hosts in the order of the fabric's description.
    pub fn hosts(&self) -> Vec<Host> {
        let status = self.status();
        let hosts = status["host_list"].as_array().expect("a list").iter();
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        hosts
            .map(|host| Host {
                name: text(&host["name"]),
                address: text(&host["address"]),
                lid: host["lid"].as_u64().expect("a number"),
            })
            .collect()
    }

    /// The host of a name.
    pub fn host(&self, name: &str) -> Host {
        let mut hosts = self.hosts().into_iter();
        let found = hosts.find(|host| host.name == name);
        found.expect("a host of that name")
    }

    pub fn wait_for_links(&self) {
        eventually("all links carry data", || {
            let links = &self.status()["links"];
            links["active"] == links["total"]
        });
    }

    /// The file with the fabric's keys, and one of them as it stands there.
    pub fn key(&self, which: &str) -> (String, String) {
        let file = self.status()["keys"].as_str().expect("a file").to_owned();
        let said = std::fs::read_to_string(&file).expect("it is there");
        let mut lines = said.lines().map(str::split_whitespace);
        let key = lines.find_map(|mut words| {
            let found = words.next() == Some(which);
            found.then(|| words.next().expect("a key").to_owned())
        });
        (file, key.expect("it has that key"))
    }

    /// Starts OpenSM on a host.
    pub fn opensm(&self, host: &str, more: &[&str]) -> OpenSm {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{host}", self.name));
        std::fs::create_dir_all(&dir).expect("writable");
        let host = format!("{}/{host}", self.name);
        let process = ferriband(&["run", "--host", &host, "--", "opensm"])
            .args(more)
            .arg("-f")
            .arg(dir.join("log"))
            .env("OSM_TMP_DIR", &dir)
            .env("OSM_CACHE_DIR", &dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ferriband runs");
        OpenSm { process, dir }
    }

    /// Runs a program on a host; what it says.
    pub fn run(&self, host: &str, words: &[&str]) -> String {
        let host = format!("{}/{host}", self.name);
        let mut all = vec!["run", "--host", &host, "--"];
        all.extend(words);
        good(&all)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let keys = format!("{STATE}/ferriband/fabrics/{}.keys", self.name);
        let _ = std::fs::remove_file(keys);
    }
}

/// A program that ends with the test.
pub struct Ending(pub Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An OpenSM on a host of a fabric; it goes with the test.
pub struct OpenSm {
    pub process: Child,
    dir: PathBuf,
}

impl OpenSm {
    /// What it has written to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Until somebody listens for TCP connections at a port of an address of this network namespace, as a host's programs do.
pub fn wait_for_listener(address: &str, port: u16) {
    wait_for_socket("/proc/net/tcp", address, port, "0A");
}

/// Until a UDP socket is bound to a port of such an address.
pub fn wait_for_datagrams(address: &str, port: u16) {
    wait_for_socket("/proc/net/udp", address, port, "07");
}

fn wait_for_socket(table: &str, address: &str, port: u16, state: &str) {
    let address: std::net::Ipv4Addr = address.parse().expect("a host's address");
    let wanted = format!("{:08X}:{port:04X}", u32::from_le_bytes(address.octets()));
    eventually("a server listens", || {
        let table = std::fs::read_to_string(table).expect("the kernel's table");
        table.lines().any(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            words.next() == Some(&wanted) && words.nth(1) == Some(state)
        })
    });
}

/// A server on one host and its client on another; both must succeed. What they say.
pub fn pair(fabric: &Fabric, hosts: [&str; 2], address: &str, words: &[&str]) -> [String; 2] {
    serve_and_ask(fabric, hosts, address, words).unwrap_or_else(|why| panic!("{words:?}: {why}"))
}

/// The same while packets are spoilt. Who has all that he wants ends; if the acknowledgement of the other's last message was spoilt, there is
/// nobody who could repeat it, and the other sends in vain: that is the protocol's (of eighty pairs at 5 % seven ended so), and they try again.
pub fn pair_over_losses(fabric: &Fabric, hosts: [&str; 2], address: &str, words: &[&str]) {
    let mut why = String::new();
    for _ in 0..5 {
        match serve_and_ask(fabric, hosts, address, words) {
            Ok(_) => return,
            Err(failed) => why = failed,
        }
        assert!(why.contains("for wr_id 2"), "not its last send: {why}");
    }
    panic!("{words:?}, five times: {why}");
}

/// What they say; that of a server that fails where its client succeeds.
fn serve_and_ask(
    fabric: &Fabric,
    hosts: [&str; 2],
    address: &str,
    words: &[&str],
) -> Result<[String; 2], String> {
    let on = |host: &str| format!("{}/{host}", fabric.name);
    let (there, here) = (on(hosts[0]), on(hosts[1]));
    let mut serve = vec!["run", "--host", &there, "--"];
    serve.extend(words);
    let mut server = ferriband(&serve)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    let mut ask = vec!["run", "--host", &here, "--"];
    ask.extend(words);
    ask.push(address);
    // until the server listens its client is refused
    let until = Instant::now() + PATIENCE;
    let mut longest = String::new();
    let said = loop {
        let output = output(&ask);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        if output.status.success() {
            break said;
        }
        // a server that had all that it wants is gone: nobody asks it again
        if let Ok(Some(_)) = server.try_wait() {
            return Err(said);
        }
        // who got furthest says most of what went wrong
        if said.len() > longest.len() {
            longest.clone_from(&said);
        }
        if Instant::now() > until {
            // it may have met a client that went wrong, and would wait for ever
            let _ = server.kill();
            let server = server.wait_with_output().map(|output| text(&output.stdout));
            panic!(
                "{words:?} not within {PATIENCE:?}; a client: {longest}\nthe last one: {said}\nthe server: {server:?}"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let output = server.wait_with_output().expect("our child");
    match output.status.success() {
        true => Ok([text(&output.stdout), said]),
        false => Err(format!("{output:?}")),
    }
}
