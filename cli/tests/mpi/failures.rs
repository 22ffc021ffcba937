//! What fails on a host: memory, /dev/shm, ranks; and how soon all are gone.

use super::{FERRIBAND, Program, has_network_namespaces, library_dir, two_hosts};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Who moves long messages, and by which pieces, where a test has all of them.
const WAYS: [&[&str]; 3] = [
    &["--set", "rndv=get", "--set", "rndv_piece=65536"],
    &["--set", "rndv=put", "--set", "rndv_piece=65536"],
    &["--set", "rndv=send"],
];

/// A job has printed this, and nothing went wrong with it.
#[track_caller]
fn says(output: &Output, said: &str, what: &str) {
    let complained = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, said, "{what} {complained}");
    assert!(output.status.success(), "{what} {complained}");
}

#[test]
fn without_memory_a_receive_says_so_and_work_goes_on() {
    let faults = Program::new("faults");
    for way in [&[][..], &["--same-host", "verbs"]] {
        let output = faults.run(2, way, &["exhausted"]);
        says(&output, "faults: 2 ranks: ok\n", &format!("{way:?}"));
        faults.leaves_nobody();
    }
}

#[test]
fn children_of_ranks_leave_their_parents_job_alone() {
    let program = Program::new("forks");
    let verbs = &["--same-host", "verbs"][..];
    for (ranks, options) in [(1, &[][..]), (3, &[]), (2, verbs)] {
        let said = program.succeeds(ranks, options);
        assert_eq!(said, format!("forks: {ranks} ranks: ok\n"));
    }
    program.leaves_nobody();
}

#[test]
fn children_of_ranks_whose_threads_are_inside_the_library_do_not_hang() {
    let program = Program::new("busyforks");
    for (ranks, options) in [(3, &[][..]), (2, &["--same-host", "verbs"][..])] {
        let said = program.succeeds(ranks, options);
        assert_eq!(said, format!("busyforks: {ranks} ranks: ok\n"));
    }
    program.leaves_nobody();
}

#[test]
fn memory_that_cannot_be_reached_fails_its_message_at_both_sides_and_nothing_else() {
    let program = Program::new("unreached");
    let verbs = ["--same-host", "verbs", "--set"];
    for (way, sender) in [
        (&[][..], &[][..]),
        (&verbs[..2], &["sender"]),
        (&[&verbs[..], &["rndv=put"]].concat(), &["sender"]),
        (&[&verbs[..], &["rndv=send"]].concat(), &["sender"]),
        (&[&verbs[..], &["regcache=none"]].concat(), &["sender"]),
        (
            &[&verbs[..], &["regcache=none", "--set", "rndv=put"]].concat(),
            &["sender"],
        ),
        (&[&verbs[..], &["regcache=uffd"]].concat(), &["sender"]),
    ] {
        let output = program.run(2, way, sender);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            said,
            "unreached: ok\n",
            "{way:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{way:?}");
    }
}

#[test]
fn without_memory_a_receive_from_another_host_says_so_and_work_goes_on() {
    if !has_network_namespaces() {
        return;
    }
    let output = two_hosts(&[Program::new("faults")], &[("EXHAUSTED", "1")]);
    says(&output, "faults: 2 ranks: ok\nfaults: 4 ranks: ok\n", "");
}

#[test]
fn memory_that_cannot_be_reached_is_found_between_hosts_too() {
    if !has_network_namespaces() {
        return;
    }
    let output = two_hosts(&[Program::new("unreached")], &[("SENDER", "1")]);
    says(&output, "unreached: ok\nunreached: ok\n", "");
}

#[test]
fn memory_that_is_lost_meanwhile_ends_its_message_at_both_sides_and_nothing_else() {
    let program = Program::new("torn");
    for way in WAYS {
        for whose in ["0", "1", "2"] {
            let options = [&["--same-host", "verbs"][..], way].concat();
            let output = program.run(2, &options, &[whose]);
            says(&output, "torn: 2 ranks: ok\n", &format!("{way:?} {whose}"));
        }
    }
}

#[test]
fn connections_whose_queue_pairs_fail_are_made_anew() {
    let program = Program::new("heals");
    let verbs = ["--same-host", "verbs"];
    for settings in [
        &[][..],
        // Channels from the first message on; such as have a mirror; none.
        &["--set", "open_after=1"],
        &["--set", "open_after=1", "--set", "design=variable-top"],
        &["--set", "fast_channels=0"],
    ] {
        for ranks in [2, 4] {
            let output = program.run(ranks, &[&verbs[..], settings].concat(), &[]);
            let complained = String::from_utf8_lossy(&output.stderr);
            // A connection that fails again and again with no message between backs off, up to a
            // second, and says so: on a busy machine those that carry nothing get there.
            let is_of_heal = |line: &str| line.contains(" made anew after ");
            assert!(complained.lines().all(is_of_heal), "{complained}");
            says(
                &output,
                &format!("heals: {ranks} ranks: ok\n"),
                &format!("{settings:?}"),
            );
        }
    }
    program.leaves_nobody();
}

#[test]
fn who_only_looks_notices_that_its_connection_has_failed() {
    let program = Program::new("notices");
    let verbs = ["--same-host", "verbs"];
    for ranks in [2, 3] {
        let said = program.succeeds(ranks, &verbs);
        assert_eq!(said, format!("notices: {ranks} ranks: ok\n"));
    }
    // Without heals nobody listens.
    let settings = ["--set", "heal=0", "--env", "WATCHES=0"];
    let said = program.succeeds(2, &[&verbs[..], &settings].concat());
    assert_eq!(said, "notices: 2 ranks: ok\n");
    if has_network_namespaces() {
        let output = two_hosts(&[program], &[]);
        says(&output, "notices: 2 ranks: ok\nnotices: 4 ranks: ok\n", "");
    }
}

/// Ranks for whom `mpirun` is another's launcher: no memory shows them whether ranks of other hosts
/// are there.
const AS_OF_ANOTHER: &str = "unset FERRIBAND_MPI_HOST_FD FERRIBAND_MPI_BELLS FERRIBAND_MPI_PMI";

/// A program that is started by such a launcher.
fn as_of_another(program: &Program) -> Program {
    let script = program.0.with_extension("sh");
    let text = format!("#!/bin/sh\n{AS_OF_ANOTHER}\nexec {}\n", program.0.display());
    std::fs::write(&script, text).expect("it is written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("it is ours");
    Program(script)
}

#[test]
fn a_peer_that_computes_is_not_lost_for_silence_and_one_that_is_stopped_is() {
    if !has_network_namespaces() {
        return;
    }
    let program = Program::new("computes");
    let script = as_of_another(&program);
    let patience = ("FERRIBAND_MPI_HEAL_FOR", "2");
    let output = two_hosts(std::slice::from_ref(&script), &[patience]);
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert_eq!(said, "computes: 2 ranks: ok\ncomputes: 4 ranks: ok\n");
    let output = two_hosts(&[script], &[patience, ("HOW", "stops")]);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{complained}");
    assert!(
        complained.contains("it has not answered for 2 s"),
        "{complained}"
    );
    program.leaves_nobody();
}

#[test]
fn connections_between_hosts_are_made_anew() {
    if !has_network_namespaces() {
        return;
    }
    let output = two_hosts(&[Program::new("heals")], &[]);
    says(&output, "heals: 2 ranks: ok\nheals: 4 ranks: ok\n", "");
    let output = two_hosts(&[Program::new("healslong")], &[("ROUNDS", "15")]);
    says(
        &output,
        "healslong: 2 ranks: ok\nhealslong: 4 ranks: ok\n",
        "",
    );
}

/// Something of a job fails again and again, as an administrator lets it (FAULT, with pauses of
/// PAUSE seconds), once the job has left the file of which the name is in OUTSIDE.
const LETS_FAIL: &str = r#"
ferriband=$0; program=$1; shift
"$ferriband" mpirun -n 2 --timeout 300 --same-host verbs "$@" "$program" & job=$!
while kill -0 $job 2>/dev/null; do
    [ ! -e "$OUTSIDE" ] || "$ferriband" fault $FAULT >/dev/null 2>&1
    sleep "$PAUSE"
done
wait $job
"#;

/// Long messages between two ranks of one host, by these ways, while that fails.
fn long_messages_go_on_while(ways: &[&[&str]], [fault, pause, rounds]: [&str; 3]) {
    if !has_network_namespaces() {
        return;
    }
    let program = Program::new("healslong");
    for (number, way) in ways.iter().enumerate() {
        // Not by another extension: that is a number of its own, perhaps another program's.
        let file = format!("{}.outside{number}", program.0.display());
        let output = Command::new("unshare")
            .args(["--user", "--map-current-user", "--keep-caps", "--net"])
            .args(["sh", "-c", LETS_FAIL, FERRIBAND])
            .arg(&program.0)
            .args(*way)
            .env("FERRIBAND_LIB_DIR", library_dir())
            .envs([("FAULT", fault), ("PAUSE", pause), ("ROUNDS", rounds)])
            .env("OUTSIDE", &file)
            .stdin(Stdio::null())
            .output()
            .expect("unshare runs");
        says(&output, "healslong: 2 ranks: ok\n", &format!("{way:?}"));
    }
}

#[test]
fn long_messages_go_on_when_an_administrator_lets_queue_pairs_fail() {
    long_messages_go_on_while(&WAYS, ["qp-error --all", "0.02", "10"]);
}

#[test]
fn long_messages_go_on_when_the_only_device_of_both_ranks_fails_and_is_opened_anew() {
    long_messages_go_on_while(&WAYS, ["fatal ferri0 --for 30ms", "0.4", "6"]);
}

/// The only device is away for three seconds, because another job has an adapter open by which an
/// administrator can let it fail, and a job begins meanwhile.
const BEGINS_WITHOUT_A_DEVICE: &str = r#"
ferriband=$0; other=$1; program=$2
ip link set lo up
"$ferriband" mpirun -n 2 --timeout 60 --same-host verbs "$other" >/dev/null 2>&1 & job=$!
while kill -0 $job 2>/dev/null && [ ! -e "$OUTSIDE" ]; do sleep 0.02; done
"$ferriband" fault fatal ferri0 --for 3s >/dev/null & fault=$!
sleep 0.2
"$ferriband" mpirun -n 2 --timeout 60 --same-host verbs "$program"; status=$?
wait $fault || status=1
kill $job; wait $job
exit $status
"#;

#[test]
fn a_job_begins_while_its_only_device_is_away_for_seconds() {
    if !has_network_namespaces() {
        return;
    }
    let (other, program) = (Program::new("healslong"), Program::new("hello"));
    let output = Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "--net"])
        .args(["sh", "-c", BEGINS_WITHOUT_A_DEVICE, FERRIBAND])
        .args([&other.0, &program.0])
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("OUTSIDE", format!("{}.outside", program.0.display()))
        .env("ROUNDS", "500")
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert_eq!(said.matches("hello from").count(), 2, "{complained}");
}

/// The devices of two hosts fail at once and come back with other numbers, again and again, with
/// pauses of PAUSE seconds, once the job has left the file of which the name is in OUTSIDE.
const LETS_BOTH_FAIL: &str = r#"
ferriband=$0; hosts=$1; program=$2; shift 2
"$ferriband" mpirun -n "$RANKS" --timeout 300 --netns "$hosts" "$@" "$program" & job=$!
while kill -0 $job 2>/dev/null; do
    if [ -e "$OUTSIDE" ]; then
        nsenter --net="${hosts%,*}" "$ferriband" fault fatal ferri_va --for 30ms >/dev/null 2>&1 & one=$!
        nsenter --net="${hosts#*,}" "$ferriband" fault fatal ferri_vb --for 30ms >/dev/null 2>&1 || true
        wait $one || true
    fi
    sleep "$PAUSE"
done
wait $job
"#;

#[test]
fn messages_go_on_when_the_only_devices_of_two_hosts_fail_at_once() {
    if !has_network_namespaces() {
        return;
    }
    let program = Program::new("bothends");
    let script = as_of_another(&program);
    // Cards lie in the segment that all ranks see; or each rank tells its own by TCP.
    for (ranks, started) in [("2", &program), ("4", &script)] {
        let file = format!("{}.outside{ranks}", program.0.display());
        let output = while_both_fail(started, &[], [ranks, "0.4", &file]);
        says(&output, &format!("bothends: {ranks} ranks: ok\n"), ranks);
    }
    program.leaves_nobody();
}

/// Runs a program of so many ranks on two hosts whose devices fail, with such pauses, once that
/// file is there.
fn while_both_fail(program: &Program, way: &[&str], [ranks, pause, file]: [&str; 3]) -> Output {
    Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "--net", "sh"])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/mpi_two_hosts.sh"
        ))
        .args(["--", "sh", "-c", LETS_BOTH_FAIL, FERRIBAND, "@HOSTS@"])
        .arg(&program.0)
        .args(way)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .envs([("RANKS", ranks), ("PAUSE", pause)])
        .envs([("OUTSIDE", file), ("ROUNDS", "4")])
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs")
}

#[test]
fn long_messages_go_on_when_the_only_devices_of_two_hosts_fail_at_once() {
    if !has_network_namespaces() {
        return;
    }
    let program = Program::new("healslong");
    let script = as_of_another(&program);
    let ways = ["rndv=get", "rndv=put", "rndv=auto"];
    let runs = |way: &str| {
        for (launched, started) in [("ours", &program), ("another's", &script)] {
            let file = format!("{}.outside.{way}.{launched}", program.0.display());
            let options = ["--set", way, "--set", "rndv_piece=65536"];
            let output = while_both_fail(started, &options, ["2", "0.25", &file]);
            says(&output, "healslong: 2 ranks: ok\n", way);
        }
    };
    std::thread::scope(|scope| {
        for way in ways {
            scope.spawn(move || runs(way));
        }
    });
    program.leaves_nobody();
}

#[test]
fn long_messages_go_on_when_queue_pairs_fail() {
    let program = Program::new("healslong");
    for way in WAYS {
        for ranks in [2, 4] {
            let verbs = ["--same-host", "verbs"];
            let said = program.succeeds(ranks, &[&verbs[..], way].concat());
            assert_eq!(said, format!("healslong: {ranks} ranks: ok\n"), "{way:?}");
        }
    }
    program.leaves_nobody();
}

#[test]
fn a_call_that_fails_while_messages_move_loses_nobody() {
    let program = Program::new("givesup");
    for way in &WAYS[1..] {
        let options = [&["--same-host", "verbs", "--env", "LAST=1"][..], way].concat();
        let output = program.run(2, &options, &[]);
        says(&output, "givesup: 2 ranks: ok\n", &format!("{way:?}"));
    }
    program.leaves_nobody();
    if has_network_namespaces() {
        // One that is read needs the sender's process for that, which is stopped.
        let settings = [("FIRST", "1"), ("LAST", "2"), ("FERRIBAND_MPI_RNDV", "get")];
        let output = two_hosts(&[program], &settings);
        says(&output, "givesup: 2 ranks: ok\ngivesup: 4 ranks: ok\n", "");
    }
}

#[test]
fn a_full_dev_shm_is_no_matter() {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--user", "--map-root-user", "--mount"])
            .stdin(Stdio::null());
        unshare
    };
    let may = unshare()
        .args(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"])
        .output();
    if !may.is_ok_and(|may| may.status.success()) {
        eprintln!("left out: no mount namespaces here");
        return;
    }
    let ring = Program::new("ring");
    let output = unshare()
        .arg("sh")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/mpi_full_shm.sh"
        ))
        .arg(FERRIBAND)
        .arg(&ring.0)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .output()
        .expect("unshare runs");
    says(&output, "ring: 4 ranks: ok\nring: 4 ranks: ok\nfull\n", "");
}

/// Nanoseconds since the machine started.
fn now_ns() -> u64 {
    // SAFETY: a structure of numbers.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the right kind, which lives.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(outcome, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn when_a_rank_is_killed_all_are_gone_within_a_second() {
    let fails = Program::new("fails");
    for way in [&[][..], &["--same-host", "verbs"]] {
        // A busy machine may take longer, now and then.
        let soonest = (0..5).map(|_| {
            let output = fails.run(4, way, &["kill"]);
            fails.leaves_nobody();
            let gone = now_ns();
            let said = String::from_utf8_lossy(&output.stdout);
            let killed: u64 = said.trim().parse().expect("when it was killed");
            Duration::from_nanos(gone - killed)
        });
        let tries: Vec<Duration> = soonest.collect();
        assert!(
            tries.iter().min() < Some(&Duration::from_secs(1)),
            "{way:?}: {tries:?}"
        );
    }
}
