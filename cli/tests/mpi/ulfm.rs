//! Programs that go on after ranks have died (ULFM): `ulp/mpi/abi/tests/c/ulfm.c`.

use super::Program;

const VERBS: &[&str] = &["--with-ft", "ulfm", "--same-host", "verbs"];
const MEMORY: &[&str] = &["--with-ft", "ulfm"];

/// A job of the program, of whose ranks some are killed, ends well. What it has printed.
#[track_caller]
fn ends_well(program: &Program, ranks: u32, way: &[&str], how: &[&str]) -> String {
    let output = program.run(ranks, way, how);
    let complained = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = output.status.code();
    // The status of the first that died is the job's.
    assert!(
        matches!(status, Some(0 | 137)),
        "{ranks} ranks, {way:?} {how:?}: {status:?}\n{printed}{complained}"
    );
    program.leaves_nobody();
    printed
}

#[test]
fn each_call_says_what_a_death_means_for_it() {
    let program = Program::new("ulfm");
    for (ranks, way) in [
        (3, MEMORY),
        (4, MEMORY),
        (8, MEMORY),
        (4, VERBS),
        (4, &["-disable-auto-cleanup"]),
    ] {
        let said = ends_well(&program, ranks, way, &["rules"]);
        assert_eq!(said, format!("ulfm: {ranks} ranks: ok\n"), "{way:?}");
    }
}

#[test]
fn ranks_that_die_at_any_moment_are_agreed_about_and_left_behind() {
    let program = Program::new("ulfm");
    let mut deaths = 0;
    for seed in 0..12_u32 {
        let ranks = if seed % 2 == 0 { 4 } else { 8 };
        let by_verbs = seed % 4 > 1;
        let way = if by_verbs { VERBS } else { MEMORY };
        let seed = seed.to_string();
        let how: &[&str] = if by_verbs {
            &[&seed, "verbs"]
        } else {
            &[&seed]
        };
        let said = ends_well(&program, ranks, way, how);
        assert!(said.ends_with(" left: ok\n"), "seed {seed}: {said}");
        deaths += u32::from(!said.contains(&format!("{ranks} ranks, {ranks} left")));
    }
    assert!(deaths > 6, "in {deaths} jobs somebody died before the end");
}

#[test]
fn communicators_that_have_agreed_and_are_freed_leave_no_memory_behind() {
    let program = Program::new("ulfm");
    for (ranks, way) in [(2, MEMORY), (3, VERBS)] {
        let said = ends_well(&program, ranks, way, &["frees"]);
        assert_eq!(said, format!("ulfm: {ranks} ranks: ok\n"), "{way:?}");
    }
}

#[test]
fn without_the_users_word_a_death_ends_the_job_of_ranks_for_whom_errors_are_fatal() {
    let program = Program::new("fails");
    let output = program.run(4, MEMORY, &["kill"]);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        complained.contains("rank 3 was killed by signal 9; the other ranks go on"),
        "{complained}"
    );
    // They find out by themselves, and their error handlers end them.
    assert!(complained.contains("MPI_ERR_PROC_ABORTED"), "{complained}");
    assert!(!output.status.success());
    program.leaves_nobody();
}
