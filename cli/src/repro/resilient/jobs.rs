//! The jobs that are measured: two ranks or more by verbs, on this host or dealt to two.
//!
//! Owns: how the programs are compiled and started, and what they print. `ferriband-dev bench
//! --heal` measures by them, too. Must not know: what is made of the figures.

use crate::bench::mpi::counts;
use crate::demo::runner::{Output, Words, run_plain};
use crate::failure::Failure;
use crate::launch;
use crate::mpi::scratch::Scratch;
use crate::netns::TwoHosts;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

const MESSAGES: &str = concat!(
    include_str!("../../bench/mpi/turns.h"),
    include_str!("messages.c")
);
const KERNELS: &str = concat!(
    include_str!("../../bench/mpi/turns.h"),
    include_str!("kernels.c")
);
/// A job that takes longer is ended.
const LIMIT: Duration = Duration::from_secs(240);

/// What a job printed, by name and number.
pub type Figures = BTreeMap<String, f64>;

/// The programs, and where they run.
pub struct Jobs<'a> {
    scratch: Scratch,
    hosts: Option<&'a TwoHosts>,
    messages: PathBuf,
}

/// Kernels of applications.
pub struct Kernels {
    program: PathBuf,
    /// HPC Challenge's are among them.
    pub has_hpcc: bool,
}

/// One job.
#[derive(Clone)]
pub struct Job<'a> {
    /// Its ranks; of two hosts each has every second one.
    pub ranks: u32,
    /// Settings of the library, as `mpirun --set` takes them.
    pub settings: &'a [&'a str],
    /// What the program is told.
    pub words: Vec<String>,
}

impl<'a> Jobs<'a> {
    /// Compiles the program of messages. Without `hosts` all ranks are on this one, and reach each
    /// other by the device all the same.
    pub fn new(hosts: Option<&'a TwoHosts>) -> Result<Self, Failure> {
        let scratch = Scratch::make()?;
        let messages = scratch.compile("messages", MESSAGES)?;
        Ok(Self {
            scratch,
            hosts,
            messages,
        })
    }

    /// A path for a file of this process.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.dir().join(name)
    }

    /// An empty file, in which processes meet.
    pub fn meeting(&self) -> Result<String, Failure> {
        let path = self.path("meeting");
        fs::write(&path, []).map_err(|error| Failure::io("write", &shown(&path), &error))?;
        Ok(shown(&path))
    }

    /// Compiles the kernels: ours, and with `wants_hpcc` those of HPC Challenge if `make test-apps`
    /// has built it.
    pub fn kernels(&self, wants_hpcc: bool) -> Result<Kernels, Failure> {
        let built = hpcc().filter(|_| wants_hpcc);
        let words = built.as_deref().map(hpcc_words).unwrap_or_default();
        let program = self.scratch.compile_with("kernels", KERNELS, &words)?;
        Ok(Kernels {
            program,
            has_hpcc: built.is_some(),
        })
    }

    /// Runs the program of messages; what it printed.
    pub fn run(&self, job: &Job<'_>) -> Result<Figures, Failure> {
        let output = self.output(&self.messages, job, None)?;
        fine(&output)
    }

    /// Runs the program of messages where a rank is killed, so that the job does not end well; what
    /// it printed.
    pub fn run_to_a_death(&self, job: &Job<'_>) -> Result<Figures, Failure> {
        let output = self.output(&self.messages, job, None)?;
        let found = counts(&output.text);
        match found.is_empty() {
            true => fine(&output),
            false => Ok(found),
        }
    }

    /// Runs two jobs of the program of messages at the same time, which take turns; what they
    /// printed.
    pub fn run_both(&self, jobs: [&Job<'_>; 2]) -> Result<Figures, Failure> {
        let line = |job| {
            let words = self.words(&self.messages, job, None)?;
            let words: Vec<String> = words.iter().map(|word| launch::quote(word)).collect();
            Ok::<String, Failure>(words.join(" "))
        };
        let (first, second) = (line(jobs[0])?, line(jobs[1])?);
        let script = format!(
            "{first} & one=$!; {second} & other=$!; wait $one; status=$?; wait $other && exit $status"
        );
        let words = vec!["sh".to_owned(), "-c".to_owned(), script];
        let (output, _) = run_plain(&words, LIMIT, &self.scratch)?;
        self.scratch.stopped()?;
        fine(&output)
    }

    /// Runs the kernels, whose ranks begin in a directory of their own.
    pub fn run_kernels(&self, kernels: &Kernels, job: &Job<'_>) -> Result<Figures, Failure> {
        let directory = self.path("kernels.d");
        let fail = |error| Failure::io("write to", &shown(&directory), &error);
        fs::create_dir_all(&directory).map_err(fail)?;
        fs::write(directory.join("hpccinf.txt"), input(job.ranks)).map_err(fail)?;
        let output = self.output(&kernels.program, job, Some(&directory))?;
        fine(&output)
    }

    fn output(
        &self,
        program: &Path,
        job: &Job<'_>,
        directory: Option<&Path>,
    ) -> Result<Output, Failure> {
        let words = self.words(program, job, directory)?;
        let (output, _) = run_plain(&words, LIMIT, &self.scratch)?;
        self.scratch.stopped()?;
        Ok(output)
    }

    fn words(
        &self,
        program: &Path,
        job: &Job<'_>,
        directory: Option<&Path>,
    ) -> Result<Words, Failure> {
        // heals of a measurement are nobody's business later
        let state = format!("XDG_STATE_HOME={}", shown(self.scratch.dir()));
        let mut words = vec![
            "env".to_owned(),
            state,
            shown(&launch::ferriband()?),
            "mpirun".to_owned(),
        ];
        if let Some(hosts) = self.hosts {
            let names = [&hosts.first, &hosts.second].map(|host| {
                let number = host.namespace().as_raw_fd();
                format!("/proc/{}/fd/{number}", process::id())
            });
            words.extend(["--netns".to_owned(), names.join(",")]);
        }
        words.extend(["--same-host", "verbs", "--timeout"].map(str::to_owned));
        words.push(LIMIT.as_secs().to_string());
        for setting in job.settings {
            words.extend(["--set".to_owned(), (*setting).to_owned()]);
        }
        if let Some(directory) = directory {
            words.extend(["--wdir".to_owned(), shown(directory)]);
        }
        words.extend(["-n".to_owned(), job.ranks.to_string(), shown(program)]);
        words.extend(job.words.iter().cloned());
        Ok(words)
    }
}

/// What a job printed that ended well.
fn fine(output: &Output) -> Result<Figures, Failure> {
    if output.is_fine() {
        return Ok(counts(&output.text));
    }
    let text = output.text.trim().lines().last().unwrap_or_default();
    Err(Failure::new(format!("a job {}: {text}", output.ending())))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The newest build of HPC Challenge by `make test-apps`.
fn hpcc() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    let entries = fs::read_dir(cache.join("ferriband")).ok()?.flatten();
    let builds = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("hpcc-"));
    let ready = builds.filter_map(|entry| {
        let made = fs::metadata(entry.path().join("ready")).ok()?.modified();
        let inside = fs::read_dir(entry.path()).ok()?.flatten();
        let mut sources = inside.filter(|inner| inner.path().join("hpl").is_dir());
        Some((made.ok()?, sources.next()?.path()))
    });
    ready.max().map(|(_, path)| path)
}

/// What a program of its kernels is compiled with.
fn hpcc_words(build: &Path) -> Vec<OsString> {
    let include = |place: &str| {
        let mut word = OsString::from("-I");
        word.push(build.join(place));
        word
    };
    vec![
        "-DHPCC".into(),
        "-w".into(),
        include("include"),
        include("hpl/include"),
        include("hpl/include/ferriband"),
        build.join("hpl/lib/ferriband/libhpl.a").into(),
        "-lblas".into(),
        "-lm".into(),
    ]
}

/// The input of HPC Challenge: matrices of 600 x 600, blocks of 40, on a grid of so many ranks.
fn input(ranks: u32) -> String {
    let rows = (1..=ranks)
        .take_while(|rows| rows * rows <= ranks)
        .filter(|rows| ranks.is_multiple_of(*rows))
        .last()
        .unwrap_or(1);
    let columns = ranks / rows;
    format!(
        "HPLinpack benchmark input file\n-\nHPL.out\n8\n1 problem size\n600\n1 block size\n40\n0\n1 grid\n{rows}\n{columns}\n16.0\n\
         1 panel factorization\n1\n1\n4\n1\n2\n1\n1\n1 broadcast\n0\n1\n1\n2\n64\n0\n0\n1\n8\n-\n\
         0 further sizes of the transposition\n0\n0 further block sizes\n0\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_of_a_kernel_has_as_many_places_as_there_are_ranks() {
        for (ranks, rows, columns) in [(2, 1, 2), (4, 2, 2), (7, 1, 7), (8, 2, 4), (16, 4, 4)] {
            let grid = format!("1 grid\n{rows}\n{columns}\n");
            assert!(input(ranks).contains(&grid), "{ranks}");
        }
    }
}
