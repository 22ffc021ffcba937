//! `mpirun` as a PMI-1 server: programs that are no MPI programs of ours, and ranks of ours that
//! see both ways.

use super::launch::{complained, ferriband, said};
use super::{Program, library_dir};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The client of `pmi_client.c`, gone at the end.
struct Client(PathBuf);

impl Client {
    fn new(name: &str) -> Self {
        let name = format!("mpi_pmi.{}.{name}", std::process::id());
        let made = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mpi/pmi_client.c");
        let output = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&made.0)
            .arg(source)
            .output()
            .expect("cc runs");
        assert!(output.status.success(), "{}", complained(&output));
        made
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in ASCII")
    }

    /// A job of it, which must end within a minute.
    fn job(&self, options: &[&str], arguments: &[&str]) -> Output {
        let begun = Instant::now();
        let words = [
            &["mpirun", "--timeout", "60"],
            options,
            &[self.path()],
            arguments,
        ];
        let output = ferriband(&words.concat()).output().expect("it runs");
        assert!(begun.elapsed() < Duration::from_secs(60), "{arguments:?}");
        output
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = said(output).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_find_one_another_by_pmi() {
    let client = Client::new("cards");
    for ranks in [1, 2, 5, 16] {
        let output = client.job(&["-n", &ranks.to_string()], &["cards"]);
        let complaint = complained(&output);
        assert!(
            output.status.success() && complaint.is_empty(),
            "{complaint}"
        );
        let mut expected: Vec<String> = (0..ranks)
            .map(|rank| format!("rank {rank} of {ranks}, program 0: ok"))
            .collect();
        expected.sort_unstable();
        assert_eq!(sorted(&output), expected);
    }
}

#[test]
fn programs_of_one_job_have_numbers_and_may_come_after_one_another() {
    let client = Client::new("programs");
    let one = client.path();
    let output = client.job(&["-n", "1", one, "cards", ":", "-n", "2"], &["cards"]);
    assert!(output.status.success(), "{}", complained(&output));
    let expected = [
        "rank 0 of 3, program 0: ok",
        "rank 1 of 3, program 1: ok",
        "rank 2 of 3, program 1: ok",
    ];
    assert_eq!(sorted(&output), expected);
    // The second program of a script, and the second job of a process.
    let script = format!("{one} cards && exec {one} twice");
    let output = ferriband(&["mpirun", "-n", "2", "sh", "-c", &script])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", complained(&output));
    assert_eq!(said(&output).lines().count(), 6, "{}", said(&output));
}

#[test]
fn a_job_ends_when_a_rank_of_it_fails() {
    let client = Client::new("ends");
    for (how, status, words) in [
        ("abort", 7, "rank 2 has aborted the job by PMI: no mesh"),
        ("kill", 134, "rank 2 was killed by signal 6"),
        (
            "exit",
            5,
            "rank 2 ended with status 5 without PMI's finalize",
        ),
        (
            "drop",
            1,
            "rank 2 ended with status 0 without PMI's finalize",
        ),
        (
            "leave",
            1,
            "in a barrier of PMI for rank 2, which has ended",
        ),
        (
            "noise",
            1,
            "in a barrier of PMI for rank 2, which has ended",
        ),
    ] {
        let output = client.job(&["-n", "4"], &[how, "2"]);
        let complaint = complained(&output);
        assert_eq!(output.status.code(), Some(status), "{how}: {complaint}");
        assert!(complaint.contains(words), "{how}: {complaint}");
        assert_eq!(complaint.contains("what is no PMI"), how == "noise");
    }
}

/// OpenSHMEM's shmem_global_exit(0), after which the ranks are gone, however they ended.
#[test]
fn an_abort_with_status_0_ends_a_job_well() {
    let output = Client::new("over").job(&["-n", "4"], &["over", "2"]);
    assert_eq!(complained(&output), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_only_rank_may_end_without_finalize() {
    let client = Client::new("only");
    for (how, status) in [("drop", 0), ("exit", 5)] {
        let output = client.job(&["-n", "1"], &[how, "0"]);
        assert_eq!(output.status.code(), Some(status), "{how}");
        assert_eq!(complained(&output).is_empty(), status == 0, "{how}");
    }
}

#[test]
fn a_job_ends_when_a_rank_cannot_be_started() {
    let client = Client::new("unstarted");
    let one = client.path();
    let words = [
        "mpirun",
        "-n",
        "2",
        one,
        "kill",
        "9",
        ":",
        "-n",
        "1",
        "./there-is-none",
    ];
    let output = ferriband(&words).output().expect("it runs");
    let complaint = complained(&output);
    assert!(complaint.contains("there-is-none"), "{complaint}");
    assert!(!complaint.contains("panicked"), "{complaint}");
    assert_eq!(output.status.code(), Some(127), "{complaint}");
}

#[test]
fn a_child_that_has_the_socket_may_be_the_rank() {
    let client = Client::new("late");
    let output = client.job(&["-n", "3"], &["late", "1"]);
    assert!(output.status.success(), "{}", complained(&output));
    assert_eq!(said(&output), "a child was the rank\n");
}

#[test]
fn a_rank_that_takes_no_answers_makes_nobody_wait() {
    let client = Client::new("flood");
    let output = client.job(&["-n", "3"], &["flood"]);
    assert!(output.status.success(), "{}", complained(&output));
    assert_eq!(sorted(&output).len(), 3);
}

#[test]
fn a_rank_has_its_own_socket_and_no_other() {
    let script = "n=0; for fd in /proc/self/fd/*; do case $(readlink $fd) in socket:*) n=$((n+1));; esac; done; echo $n $(readlink /proc/self/fd/$PMI_FD | cut -c1-8) $PMI_RANK $PMI_SIZE [$PMI_PORT$PMI_ID$PMIX_NAMESPACE]";
    let job = ["mpirun", "-n", "3", "sh", "-c", script];
    let expected: Vec<String> = (0..3)
        .map(|rank| format!("1 socket:[ {rank} 3 []"))
        .collect();
    let output = ferriband(&job)
        .envs([
            ("PMI_PORT", "localhost:1"),
            ("PMI_ID", "4"),
            ("PMI_RANK", "7"),
        ])
        .env("PMIX_NAMESPACE", "x")
        .output()
        .expect("it runs");
    assert_eq!(sorted(&output), expected, "{}", complained(&output));
    // Within a rank, ranks have nothing of the outer job's.
    let inner = format!("exec {} mpirun -n 3 sh -c '{script}'", super::FERRIBAND);
    let output = ferriband(&["mpirun", "-n", "1", "sh", "-c", &inner])
        .output()
        .expect("it runs");
    assert_eq!(sorted(&output), expected, "{}", complained(&output));
}

#[test]
fn ranks_of_ours_take_the_segment_and_by_pmi_alone_they_find_it_too() {
    let program = Program::new("launched");
    let own = program.run(3, &[], &[]);
    assert_eq!(
        said(&own),
        "launched: 3 ranks: ok\n",
        "{}",
        complained(&own)
    );
    let path = program.0.to_str().expect("a path in ASCII");
    for (words, ranks) in [("FERRIBAND_MPI_HOST_FD", 3), ("FERRIBAND_MPI_HOST_FD", 16)] {
        let output = ferriband(&["mpirun", "-n", &ranks.to_string(), "env", "-u", words, path])
            .output()
            .expect("it runs");
        let complaint = complained(&output);
        assert!(output.status.success(), "{complaint}");
        assert_eq!(said(&output), format!("launched: {ranks} ranks: ok\n"));
    }
}

#[test]
fn another_launcher_within_a_rank_is_told_from_this_one() {
    let program = Program::new("hello");
    let path = program.0.to_str().expect("a path in ASCII");
    // As a child of a rank of Hydra within a rank has them, whose descriptors were closed.
    let script = format!("PMI_FD=63 PMI_RANK=0 PMI_SIZE=1 exec {path}");
    let output = ferriband(&["mpirun", "-n", "1", "sh", "-c", &script])
        .env("LD_LIBRARY_PATH", library_dir())
        .output()
        .expect("it runs");
    assert!(output.status.success());
    assert!(complained(&output).contains("a rank of another launcher"));
}
