//! What a rank starts: other programs, forks, programs of MPI. They are jobs of their own, and do not disturb the rank's.

use super::launch::{complained, ferriband, said};
use super::{Program, library_dir};
use std::process::Command;

/// How many processes have said that they are a job of their own, and why.
fn lines(complaint: &str, why: &str) -> usize {
    complaint
        .lines()
        .filter(|line| line.starts_with("ferriband MPI: process "))
        .filter(|line| line.contains("it is a job of its own") && line.contains(why))
        .count()
}

#[test]
fn a_process_that_a_rank_starts_is_a_job_of_its_own() {
    let program = Program::new("children");
    for (how, why) in [
        ("exec", "whose descriptors it does not have"),
        ("closed", "whose descriptors it does not have"),
        ("fork", "is a fork of rank"),
    ] {
        for ranks in [1, 3] {
            let output = program.run(ranks, &[], &[how]);
            let complaint = complained(&output);
            assert!(output.status.success(), "{how}: {complaint}");
            assert_eq!(said(&output), format!("children: {ranks} ranks: ok\n"));
            assert_eq!(lines(&complaint, why), ranks as usize, "{how}: {complaint}");
            assert_eq!(complaint.lines().count(), ranks as usize, "{complaint}");
        }
    }
}

#[test]
fn a_rank_may_be_started_by_a_script_and_only_the_first_program_is_it() {
    let hello = Program::new("hello");
    let children = Program::new("children");
    let (hello, alone) = (hello.0.display(), children.0.display());
    let scripts = [
        format!("{hello}; exit $?"),
        format!("sh -c '{hello}; true'"),
        format!("{hello} && {alone} alone"),
    ];
    for (script, others) in scripts.iter().zip([0, 0, 2]) {
        let output = ferriband(&["mpirun", "-n", "2", "sh", "-c", script])
            .output()
            .expect("it runs");
        let complaint = complained(&output);
        assert!(output.status.success(), "{script}: {complaint}");
        let text = said(&output);
        let mut greetings: Vec<&str> = text.lines().collect();
        greetings.sort_unstable();
        assert_eq!(greetings, ["hello from 0 of 2", "hello from 1 of 2"]);
        let found = lines(&complaint, "was started by rank");
        assert_eq!(
            (found, complaint.lines().count()),
            (others, others),
            "{script}: {complaint}"
        );
    }
}

#[test]
fn a_job_within_a_rank_is_another_job() {
    let hello = Program::new("hello");
    let inner = format!("{} mpirun -n 2 {}", super::FERRIBAND, hello.0.display());
    let output = ferriband(&["mpirun", "-n", "2", "sh", "-c", &inner])
        .output()
        .expect("it runs");
    let text = said(&output);
    let count = |line: &str| text.lines().filter(|found| *found == line).count();
    assert_eq!(
        count("hello from 0 of 2"),
        2,
        "{text}{}",
        complained(&output)
    );
    assert_eq!(count("hello from 1 of 2"), 2);
    assert_eq!(complained(&output), "");
}

#[test]
fn variables_of_another_launcher_without_its_descriptor_make_no_rank() {
    let program = Program::new("children");
    // As a child of a rank of Hydra has them, whose descriptors were closed or are others.
    for fd in ["9", "0"] {
        let output = Command::new(&program.0)
            .arg("alone")
            .env("LD_LIBRARY_PATH", library_dir())
            .envs([("PMI_FD", fd), ("PMI_RANK", "1"), ("PMI_SIZE", "2")])
            .stdin(std::process::Stdio::null())
            .output()
            .expect("the program runs");
        let complaint = complained(&output);
        assert!(output.status.success(), "{complaint}");
        assert_eq!(
            lines(&complaint, "a rank of another launcher"),
            1,
            "{complaint}"
        );
    }
}
