//! A place for programs of others that are run to be measured: signals that end this command are held back while they run, their temporary files lie in
//! a directory of this process, and what they leave behind goes when they have ended.
//!
//! Launchers put their helpers into sessions of their own, so to kill a process group does not reach all of them: what has lost its parent becomes a child of this
//! process, which ends it.

use super::ranks::{adopt_orphans, kill_orphans};
use super::signals::{ENDING, Signals};
use crate::failure::Failure;
use crate::launch;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::fd::RawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the names of such directories begin with; a process id follows.
const PREFIX: &str = "ferriband-mpi-";
/// Where shared memory has names, and how those of other MPIs begin.
const SHARED: &str = "/dev/shm";
const NAMES: [&str; 6] = [
    "vader_segment.",
    "sm_segment.",
    "mpich_",
    "Intel_MPI",
    "ucx_",
    "osc_rdma.",
];

/// Such a place.
pub struct Scratch {
    dir: PathBuf,
    signals: Signals,
    stopped: Cell<Option<i32>>,
}

impl Scratch {
    /// Makes the directory; those of processes that were killed go.
    pub fn make() -> Result<Self, Failure> {
        let parent = std::env::temp_dir();
        remove_old(&parent);
        let dir = parent.join(format!("{PREFIX}{}", std::process::id()));
        make(&dir)?;
        let signals = Signals::of(&ENDING)?;
        adopt_orphans();
        Ok(Self {
            dir,
            signals,
            stopped: Cell::new(None),
        })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Readable when a signal has come.
    pub fn fd(&self) -> RawFd {
        self.signals.fd()
    }

    /// The signals that programs are to hold back: those that this process held back before.
    pub fn mask(&self) -> libc::sigset_t {
        self.signals.mask()
    }

    /// An error if a signal has come.
    pub fn stopped(&self) -> Result<(), Failure> {
        if let Some(signal) = self.signals.read().first() {
            self.stopped.set(Some(signal.number));
        }
        match self.stopped.get() {
            None => Ok(()),
            Some(signal) => {
                let status = u8::try_from(128 + signal).unwrap_or(1);
                Err(Failure::new(format!("ended by signal {signal}")).status(status))
            }
        }
    }

    /// Compiles a program of MPI by our own wrapper; where it lies.
    pub fn compile(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        self.compile_with(name, text, &[])
    }

    /// Compiles a program of MPI by our own wrapper, with more words for the compiler behind the
    /// source; where it lies.
    pub fn compile_with(
        &self,
        name: &str,
        text: &str,
        words: &[OsString],
    ) -> Result<PathBuf, Failure> {
        let program = self.dir.join(name);
        let source = program.with_extension("c");
        fs::write(&source, text)
            .map_err(|error| Failure::io("write", &source.display().to_string(), &error))?;
        let wrapper = launch::lib_dir()?.join("bin/mpicc");
        let output = Command::new(&wrapper)
            .args(["-O2", "-o"])
            .args([&program, &source])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::io("run", &wrapper.display().to_string(), &error))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::new(format!("{}: {text}", wrapper.display()))
                .remedy("install a C compiler (Debian's package gcc and libc6-dev)"));
        }
        Ok(program)
    }

    /// For one program.
    pub fn stay(&self) -> Result<Stay, Failure> {
        let dir = self.dir.join("run");
        make(&dir)?;
        Ok(Stay {
            dir,
            before: shared_names(),
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        kill_orphans();
        // What cannot be removed is no worse than what there was.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// One program's stay: when it is over nothing is left.
pub struct Stay {
    dir: PathBuf,
    before: HashSet<OsString>,
}

impl Stay {
    /// Its directory for temporary files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        kill_orphans();
        let _ = fs::remove_dir_all(&self.dir);
        for name in shared_names().difference(&self.before) {
            let path = Path::new(SHARED).join(name);
            // Another job's may have come meanwhile.
            if !is_mapped(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Makes a directory of this user's, whatever files are made like.
fn make(dir: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(dir)
        .and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o700)))
        .map_err(|error| {
            Failure::io("make", &dir.display().to_string(), &error)
                .remedy("set TMPDIR to a directory that can be written")
        })
}

/// Shared memory of this user that is named as other MPIs name theirs.
fn shared_names() -> HashSet<OsString> {
    let Ok(entries) = fs::read_dir(SHARED) else {
        return HashSet::new();
    };
    // SAFETY: the call has no conditions.
    let user = unsafe { libc::geteuid() };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let known = |start: &str| name.to_string_lossy().starts_with(start);
            NAMES.iter().any(|start| known(start))
                && entry.metadata().is_ok_and(|data| data.uid() == user)
        })
        .map(|entry| entry.file_name())
        .collect()
}

/// Whether a process that we may look at has it mapped.
fn is_mapped(path: &Path) -> bool {
    let path = path.display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| fs::read_to_string(entry.path().join("maps")).ok())
        .any(|maps| maps.contains(&path))
}

/// Removes directories of this user whose process is gone.
fn remove_old(parent: &Path) {
    // SAFETY: the call has no conditions.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_string_lossy();
        let Some(pid) = of
            .strip_prefix(PREFIX)
            .and_then(|pid| pid.parse::<i32>().ok())
        else {
            continue;
        };
        let is_own = entry
            .metadata()
            .is_ok_and(|data| data.is_dir() && data.uid() == user);
        if is_own && !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
