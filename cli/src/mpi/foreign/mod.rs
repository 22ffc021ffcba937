//! Programs of another MPI. Most of their libraries cannot ask our launcher who the others are, so
//! each of N processes would be a job of one rank without a word. MPICH's ask by PMI-1, which
//! `mpirun` serves, and are let run.
//!
//! Owns: how libraries of MPIs are called, what is found in an executable before it runs ([`check`]) and in a process that runs ([`Watch`]), and what is said. A program that is no
//! ELF file, or that loads its MPI later as Python does, is seen when it runs, if at all.

mod elf;
mod search;

use super::apps::Apps;
use super::ranks::Rank;
use crate::args::AppArgs;
use crate::failure::Failure;
use crate::launch;
use search::Search;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Descendants of a rank that are looked at.
const MOST_PROCESSES: usize = 16;
/// From its start on a rank is looked at after this, and after twice as long each time.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(60);
/// A job that goes on is told of what was seen after this.
const EARLY: Duration = Duration::from_secs(2);

/// MPIs whose processes find one another by PMI-1.
const MPICH: &str = "MPICH, or an MPI with its ABI: Intel MPI, MVAPICH";

/// A library of an MPI, by its name; which one it is of, as far as the name says it. What begins with `libmpi` and is none is not meant.
fn is_mpi(file: &str) -> Option<&'static str> {
    let (stem, version) = file.strip_prefix("lib")?.split_once(".so")?;
    let major = version.trim_start_matches('.').split('.').next();
    let open_mpi = "Open MPI";
    let begins = |names: &[&str]| names.iter().any(|name| stem.starts_with(name));
    match stem {
        "mpi" => Some(match major {
            Some("40" | "20" | "1" | "0") => open_mpi,
            Some("12") => MPICH,
            _ => "another MPI",
        }),
        "mpi_abi" => Some("another MPI of the standard ABI"),
        "mpich" | "mpichcxx" | "mpichfort" | "mpichf90" | "mpl" | "fmpich" | "mpifort"
        | "mpicxx" | "mpi_mt" | "mpi_ilp64" => (stem != "mpl").then_some(MPICH),
        _ if begins(&[
            "mpi_mpifh",
            "mpi_usempi",
            "mpi_cxx",
            "mpi_f77",
            "mpi_f90",
            "mpi_java",
        ]) =>
        {
            Some(open_mpi)
        }
        _ if begins(&["mpi_ibm"]) => Some("IBM Spectrum MPI"),
        _ if begins(&[
            "mpi_cray",
            "mpi_gnu",
            "mpi_intel",
            "mpi_nvidia",
            "mpi_amd",
            "mpi_aocc",
        ]) =>
        {
            Some("Cray MPICH")
        }
        _ => None,
    }
}

/// A library of another MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    library: String,
    of: &'static str,
}

/// Refuses programs that are linked to another MPI, which could not find one another.
pub fn check(apps: &Apps) -> Result<(), Failure> {
    let lib = launch::lib_dir()?;
    for app in apps.iter() {
        let Some(path) = file_of(app) else { continue };
        let value = |name: &str| {
            app.env
                .iter()
                .filter_map(|pair| pair.split_once('='))
                .rfind(|(set, _)| *set == name)
                .map(|(_, value)| OsString::from(value))
        };
        let own = value("LD_LIBRARY_PATH").or_else(|| std::env::var_os("LD_LIBRARY_PATH"));
        let search = Search::new(&lib, own.as_deref());
        let found = linked(&path, &lib, &search);
        if let Some(found) = found.filter(|found| found.of != MPICH) {
            return Err(refusal(&path, &found, &lib));
        }
    }
    Ok(())
}

/// The file that would be executed.
fn file_of(app: &AppArgs) -> Option<PathBuf> {
    let program = app.command.first()?;
    match &app.wdir {
        Some(dir) if program.to_string_lossy().contains('/') => Some(dir.join(program)),
        _ => launch::resolve(program),
    }
}

/// The library of another MPI that the loader would load with an executable, itself or for one of its libraries; none if ours is among them.
fn linked(program: &Path, lib: &Path, search: &Search) -> Option<Found> {
    let mut foreign = None;
    for (name, file) in search.closure(program) {
        let Some(of) = is_mpi(&name) else { continue };
        let directory = file.as_deref().and_then(Path::parent);
        let is_ours = directory.and_then(|dir| dir.canonicalize().ok()).as_deref() == Some(lib);
        if is_ours {
            return None;
        }
        foreign = foreign.or(Some(Found { library: name, of }));
    }
    foreign
}

fn refusal(program: &Path, found: &Found, lib: &Path) -> Failure {
    Failure::new(format!(
        "{} is linked to {} ({}): here each of its processes would be a job of its own, of one rank",
        program.display(),
        found.library,
        found.of
    ))
    .remedy(format!("{}; --allow-foreign starts it nevertheless", what_to_do(lib)))
}

fn what_to_do(lib: &Path) -> String {
    format!(
        "compile it with {}, or with the mpicc_abi of another MPI (the standard ABI of MPI 5.0); or run it with that MPI's own mpirun",
        lib.join("bin/mpicc").display()
    )
}

/// Looks at processes that have begun neither with our MPI nor with PMI.
pub struct Watch {
    lib: Option<PathBuf>,
    begun: Instant,
    next: Duration,
    found: Option<(Found, Instant)>,
    is_told: bool,
}

impl Watch {
    /// For a job that begins; it looks at nothing if other MPIs are allowed.
    pub fn new(allows_foreign: bool) -> Self {
        Self {
            lib: launch::lib_dir().ok().filter(|_| !allows_foreign),
            begun: Instant::now(),
            next: FIRST_LOOK,
            found: None,
            is_told: false,
        }
    }

    /// Milliseconds until it is time to look.
    pub fn timeout(&self) -> Option<i32> {
        let is_over = self.lib.is_none() || self.is_told || self.next > LAST_LOOK;
        (!is_over).then(|| {
            let left = self.next.saturating_sub(self.begun.elapsed());
            i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX)
        })
    }

    /// Looks, if it is time to, or if `now`.
    pub fn look(&mut self, ranks: &[Rank], now: bool, is_unborn: impl Fn(u32) -> bool) {
        let Some(lib) = &self.lib else { return };
        let is_time = self.begun.elapsed() >= self.next;
        if !(is_time || now) || self.is_told {
            return;
        }
        if is_time {
            self.next *= 2;
        }
        let unborn = (0..).zip(ranks).filter(|(rank, _)| is_unborn(*rank));
        let mut living = unborn.filter(|(_, rank)| rank.end.is_none());
        if self.found.is_none() {
            let found = living.find_map(|(_, rank)| loaded(rank.pid, lib));
            self.found = found.map(|found| (found, Instant::now()));
        }
        let is_old = |(_, at): &(Found, Instant)| at.elapsed() >= EARLY;
        if is_time && self.found.as_ref().is_some_and(is_old) {
            self.tell(ranks.len(), is_unborn);
        }
    }

    /// Says what was seen, once, if no rank has begun.
    pub fn tell(&mut self, ranks: usize, is_unborn: impl Fn(u32) -> bool) {
        let (Some((found, _)), Some(lib), false) = (&self.found, &self.lib, self.is_told) else {
            return;
        };
        if (0..ranks as u32).all(is_unborn) {
            self.is_told = true;
            complain!(
                "ferriband mpirun: a rank has loaded {} ({}), and no rank has called MPI_Init of Ferriband's library or asked for the others by PMI-1: each process is a job of its own, of one rank\n  {}",
                found.library,
                found.of,
                what_to_do(lib)
            );
        }
    }
}

/// The library of another MPI that a process or one of its descendants has loaded, if it has not loaded ours.
fn loaded(pid: i32, lib: &Path) -> Option<Found> {
    let mut pids = vec![pid];
    let mut at = 0;
    while at < pids.len().min(MOST_PROCESSES) {
        let one = pids[at];
        at += 1;
        let maps = fs::read_to_string(format!("/proc/{one}/maps")).unwrap_or_default();
        if let Some(found) = mapped(&maps, lib) {
            return Some(found);
        }
        let children = fs::read_to_string(format!("/proc/{one}/task/{one}/children"));
        let children = children.unwrap_or_default();
        pids.extend(
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    None
}

fn mapped(maps: &str, lib: &Path) -> Option<Found> {
    let mut foreign = None;
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|at| Path::new(&line[at..])) else {
            continue;
        };
        let Some(of) = path.file_name().and_then(OsStr::to_str).and_then(is_mpi) else {
            continue;
        };
        if path.parent() == Some(lib) {
            return None;
        }
        foreign = foreign.or_else(|| {
            let library = path.display().to_string();
            Some(Found { library, of })
        });
    }
    foreign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpis_are_known_by_their_names() {
        for (name, of) in [
            ("libmpi.so.40", "Open MPI"),
            ("libmpi.so.40.30.6", "Open MPI"),
            ("libmpi_mpifh.so.40", "Open MPI"),
            ("libmpich.so.12", "MPICH"),
            ("libmpi.so.12", "MPICH"),
            ("libmpifort.so.12.0.0", "MPICH"),
            ("libmpi_ibm.so.3", "IBM"),
            ("libmpi_gnu_123.so.12", "Cray"),
            ("libmpi_abi.so.0", "standard ABI"),
            ("libmpi.so", "another"),
        ] {
            let found = is_mpi(name);
            assert!(found.is_some_and(|found| found.contains(of)), "{name}");
        }
        for name in [
            "libmpiP.so.3",
            "libmpi++.so.1",
            "libmpc.so.3",
            "libmpl.so.1",
            "libmpg123.so.0",
            "libmpi",
            "libc.so.6",
            "mpi.so",
        ] {
            assert_eq!(is_mpi(name), None, "{name}");
        }
    }

    #[test]
    fn ours_beside_another_is_no_foreign_program() {
        let theirs = "7f00-7f01 r-xp 00000000 00:1f 12 /usr/lib/libmpi.so.40.30.6\n";
        let ours = "7e00-7e01 r-xp 00000000 00:1f 13 /ours/libmpi_abi.so.1\n";
        let lib = Path::new("/ours");
        let found = mapped(theirs, lib).expect("it is one");
        assert_eq!(found.library, "/usr/lib/libmpi.so.40.30.6");
        assert_eq!(mapped(&format!("{theirs}{ours}"), lib), None);
        assert_eq!(
            mapped("7f00-7f01 rw-p 00000000 00:00 0 [heap]\n", lib),
            None
        );
    }
}
