//! Two hosts for the comparison by packets: one rank on each, by Ferriband's RoCEv2 and by the others' TCP over the same veth pair.
//!
//! Owns: namespaces, and what stands in for ssh between the hosts of other launchers. The bench starts itself again in a user namespace of its own, so that nothing
//! needs privilege. Must not know: which MPIs there are.

use crate::args::JsonFlag;
use crate::demo::skip;
use crate::failure::Failure;
use crate::floor::{Floor, message, udp};
use crate::launch;
use crate::netns::{self, Forbidden, INTERFACE, TwoHosts};
use std::env;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode, Stdio};

/// How others are started on two hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// MPICH's and Intel's.
    Hydra,
    /// Open MPI's before version 5.
    Orte,
    /// Open MPI's from version 5 on.
    Prrte,
}

/// The two hosts, and the programs by which other launchers reach them.
pub struct Hosts {
    hosts: TwoHosts,
    /// Directory of the programs.
    place: PathBuf,
}

/// Programs that enter namespaces.
const NEEDED: [&str; 3] = ["unshare", "nsenter", "hostname"];
/// A user namespace of our own, in which this user is root.
const OWN: [&str; 2] = ["--user", "--map-root-user"];

/// Runs a command as on the host whose address comes before it: in its network, under a name of its own.
const ENTER: &str = r#"#!/bin/sh
case $1 in
@CASES@
*) echo "no such host: $1" >&2; exit 255 ;;
esac
shift
exec nsenter --net="$net" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$name" "$@"
"#;

/// What ssh is to a launcher: perhaps options, then a host, then a command for a shell there.
const AGENT: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    -*) shift ;;
    *) host=$1; shift; break ;;
    esac
done
exec @ENTER@ "$host" sh -c "$*"
"#;

/// Becomes this program once more, with the same arguments, where it may make hosts. Returns only when that cannot be.
pub fn run_inside(json: &JsonFlag) -> Result<ExitCode, Failure> {
    let absent = NEEDED
        .iter()
        .find(|program| launch::resolve(program.as_ref()).is_none());
    if let Some(program) = absent {
        return skip(json, &Forbidden(format!("there is no {program} here")));
    }
    let probe = Command::new("unshare")
        .args(OWN)
        .arg("true")
        .stdin(Stdio::null())
        .output();
    let probe = probe.map_err(|error| Failure::io("run", "unshare", &error))?;
    if !probe.status.success() {
        let why = String::from_utf8_lossy(&probe.stderr).trim().to_owned();
        return skip(json, &Forbidden(why));
    }
    let exe = env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    let error = Command::new("unshare")
        .args(OWN)
        .arg(exe)
        .args(env::args_os().skip(1))
        .arg("--inside")
        .exec();
    Err(Failure::io("run", "unshare", &error))
}

impl Hosts {
    /// Makes them. This process is on the first from then on.
    pub fn make() -> Result<Self, Failure> {
        let hosts = netns::two_hosts()
            .map_err(|Forbidden(why)| Failure::new(format!("no two hosts can be made: {why}")))?;
        let place = env::temp_dir().join(format!("ferriband-bench-{}", process::id()));
        let hosts = Self { hosts, place };
        hosts.write()?;
        Ok(hosts)
    }

    /// What the kernel alone takes between them for a small message, in nanoseconds.
    pub fn floor(&self, way: message::Way) -> Result<Floor, Failure> {
        message::measure(&self.hosts, way)
    }

    /// What the kernel alone carries from one to the other, in bytes a second, packets as long as the adapter's; with their ICRCs made and checked if that is asked for.
    pub fn stream_floor(&self, icrc: bool) -> Result<Floor, Failure> {
        match icrc {
            false => udp::measure_at_length(&self.hosts, udp::AtLength::Stream),
            true => udp::stream_with_icrc(&self.hosts),
        }
    }

    fn write(&self) -> Result<(), Failure> {
        let place = &self.place;
        let made = fs::DirBuilder::new().mode(0o700).create(place);
        made.map_err(|error| Failure::io("make", &place.display().to_string(), &error))?;
        let cases: Vec<String> = (0..2)
            .map(|index| {
                let (address, net) = (self.addresses()[index].clone(), self.names()[index].clone());
                format!("{address}) net={net} name=host{index} ;;")
            })
            .collect();
        self.program("enter", &ENTER.replace("@CASES@", &cases.join("\n")))?;
        let enter = launch::quote(&self.path("enter"));
        self.program("agent", &AGENT.replace("@ENTER@", &enter))
    }

    fn program(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.place.join(name);
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(|error| Failure::io("write", &path.display().to_string(), &error))
    }

    fn path(&self, name: &str) -> String {
        self.place.join(name).display().to_string()
    }

    fn addresses(&self) -> [String; 2] {
        [&self.hosts.first, &self.hosts.second].map(|host| host.address.to_string())
    }

    /// Files that stand for their namespaces as long as this process lives.
    fn names(&self) -> [String; 2] {
        [&self.hosts.first, &self.hosts.second].map(|host| {
            format!(
                "/proc/{}/fd/{}",
                process::id(),
                host.namespace().as_raw_fd()
            )
        })
    }

    /// Our launcher's options.
    pub fn own_options(&self) -> Vec<String> {
        vec!["--netns".to_owned(), self.names().join(",")]
    }

    /// Settings and command of another launcher, up to the number of ranks.
    pub fn launched(&self, kind: Launcher, launcher: &Path) -> Vec<String> {
        let agent = self.path("agent");
        let addresses = self.addresses();
        let mut words = Vec::new();
        match kind {
            Launcher::Hydra => (),
            Launcher::Orte => words.extend([
                format!("OMPI_MCA_plm_rsh_agent={agent}"),
                format!("OMPI_MCA_oob_tcp_if_include={INTERFACE}"),
            ]),
            Launcher::Prrte => words.extend([
                format!("PRTE_MCA_plm_ssh_agent={agent}"),
                format!("PRTE_MCA_prte_if_include={INTERFACE}"),
            ]),
        }
        words.extend([
            self.path("enter"),
            addresses[0].clone(),
            launcher.display().to_string(),
        ]);
        let [first, second] = addresses;
        let options = match kind {
            Launcher::Hydra => vec![
                "-launcher".to_owned(),
                "ssh".to_owned(),
                "-launcher-exec".to_owned(),
                agent,
                "-localhost".to_owned(),
                first.clone(),
                "-hosts".to_owned(),
                format!("{first},{second}"),
                "-iface".to_owned(),
                INTERFACE.to_owned(),
                "-ppn".to_owned(),
                "1".to_owned(),
            ],
            Launcher::Orte | Launcher::Prrte => vec![
                "--host".to_owned(),
                format!("{first}:1,{second}:1"),
                "--map-by".to_owned(),
                "node".to_owned(),
                "--bind-to".to_owned(),
                "none".to_owned(),
            ],
        };
        words.extend(options);
        words
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place);
    }
}
