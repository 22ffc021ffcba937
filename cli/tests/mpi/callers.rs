//! What callers leave: signals that are ignored or blocked, no home, limits, closed descriptors, masks of files.

use super::launch::{complained, said};
use super::{FERRIBAND, Program, library_dir};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What timeout(1) gives where a command has hung.
const HUNG: i32 = 124;

/// A command of ours, ended after a minute and a half, and started by env(1) with these options: it may ignore and block signals.
fn timed_by(options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", "90", "env"])
        .args(options)
        .arg(FERRIBAND)
        .args(arguments)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .stdin(Stdio::null());
    command
}

fn timed(arguments: &[&str]) -> Command {
    timed_by(&[], arguments)
}

/// The command runs while its caller ignores these signals.
fn ignoring(signals: &str, arguments: &[&str]) -> Output {
    let option = format!("--ignore-signal={signals}");
    let mut command = timed_by(&[&option], arguments);
    command.output().expect("timeout runs")
}

/// By a shell, which sets limits and closes descriptors as callers do; `$F` is ferriband.
fn by_shell(script: &str) -> Output {
    Command::new("timeout")
        .args(["-k", "5", "90", "sh", "-c", script])
        .env("F", FERRIBAND)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs")
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("mpi_callers.{}.{name}", std::process::id()))
}

#[test]
fn no_command_that_waits_for_children_needs_their_signal() {
    let hello = Program::new("hello");
    let hello = hello.0.to_str().expect("a path in ASCII");
    let json = place("trace.json");
    let json = json.to_str().expect("a path in ASCII");
    for line in [
        &["mpirun", "-n", "2", hello][..],
        &["trace", "-o", json, "--", "mpirun", "-n", "2", hello],
        &["perf", "--sizes", "64", "--ops", "write"],
        &["run", "--", "true"],
        &[
            "mpi-tune",
            "--ranks",
            "2",
            "--longest",
            "8",
            "--rounds",
            "1",
            "--only",
            "barrier",
        ],
        &["doctor"],
        &["sim", "--seed", "1"],
        &["dump", "--seconds", "1", "--", "true"],
        &["mpi-info"],
    ] {
        let usual = timed(line).output().expect("timeout runs").status.code();
        let output = ignoring("CHLD,PIPE,HUP", line);
        assert_ne!(output.status.code(), Some(HUNG), "{line:?} hangs");
        assert_eq!(
            output.status.code(),
            usual,
            "{line:?}: {}",
            complained(&output)
        );
    }
    let _ = std::fs::remove_file(json);
    // Statuses of ranks are seen, too.
    let rank = ["mpirun", "-n", "2", "sh", "-c", "exit 7"];
    assert_eq!(ignoring("CHLD", &rank).status.code(), Some(7));
    let traced = [&["trace", "--"], &rank[..]].concat();
    assert_eq!(ignoring("CHLD", &traced).status.code(), Some(7));
}

#[test]
fn programs_get_signals_as_the_caller_has_left_them() {
    let shown = ["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"];
    for start in [
        &["mpirun", "-n", "1"][..],
        &["run", "--"],
        &["mpirun", "-n", "1", FERRIBAND, "run", "--"],
    ] {
        let line = [start, &shown].concat();
        let ignored = ignoring("CHLD,PIPE,INT,TERM", &line);
        let bits = |output: &Output| {
            let text = said(output);
            let line = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
            u64::from_str_radix(line.expect("a line").trim(), 16).expect("bits")
        };
        let of = |signal: libc::c_int| 1_u64 << (signal - 1);
        let all = of(libc::SIGCHLD) | of(libc::SIGPIPE) | of(libc::SIGINT) | of(libc::SIGTERM);
        assert_eq!(bits(&ignored) & all, all, "{start:?}: {}", said(&ignored));
        let plain = timed(&line).output().expect("timeout runs");
        assert_eq!(bits(&plain) & all, 0, "{start:?}: {}", said(&plain));
    }
    for start in [&["mpirun", "-n", "1"][..], &["run", "--"]] {
        let line = [start, &["grep", "SigBlk", "/proc/self/status"]].concat();
        let output = timed_by(&["--block-signal=USR1,CHLD"], &line).output();
        let text = said(&output.expect("timeout runs"));
        assert!(text.ends_with("0000000000010200\n"), "{start:?}: {text}");
    }
    // What is blocked is no hindrance.
    let all = timed_by(
        &["--block-signal"],
        &["mpirun", "-n", "2", "sh", "-c", "exit 7"],
    )
    .status();
    assert_eq!(all.expect("timeout runs").code(), Some(7));
}

#[test]
fn what_the_caller_ignores_does_not_end_a_job() {
    // As nohup does, and a shell's background.
    let script = "trap '' HUP INT; $F mpirun -n 2 sh -c 'sleep 0.6; echo over' & sleep 0.3; kill -HUP $!; kill -INT $!; wait $!; echo $?";
    let output = by_shell(script);
    assert_eq!(said(&output), "over\nover\n0\n", "{}", complained(&output));
    let script = "$F mpirun -n 2 sleep 30 & sleep 0.3; kill -HUP $!; wait $!; echo $?";
    assert_eq!(said(&by_shell(script)), "129\n");
}

#[test]
fn a_home_of_whatever_kind_is_no_hindrance() {
    let ring = Program::new("ring");
    let ring = ring.0.to_str().expect("a path in ASCII");
    let dir = place("home");
    std::fs::create_dir_all(dir.join("locked")).expect("a directory");
    let file = dir.join("file");
    std::fs::write(&file, "").expect("written");
    let of = |path: &Path| path.to_str().expect("a path in ASCII").to_owned();
    for (name, value) in [
        ("HOME", ""),
        ("HOME", "relative"),
        ("HOME", "/there/is/none"),
        ("HOME", "/dev/null"),
        ("HOME", &of(&file)),
        ("XDG_CONFIG_HOME", "/dev/null"),
        ("XDG_CONFIG_HOME", &of(&file)),
        ("XDG_STATE_HOME", &of(&file)),
        ("XDG_RUNTIME_DIR", "/there/is/none"),
        ("XDG_CACHE_HOME", "/dev/full"),
        ("TMPDIR", "/there/is/none"),
    ] {
        for line in [
            &["mpirun", "-n", "2", ring][..],
            &["mpi-info"],
            &["devices"],
            &["run", "--", "true"],
        ] {
            let mut command = timed(line);
            command
                .env_remove("FERRIBAND_MPI_SETTINGS")
                .env(name, value);
            let output = command.output().expect("timeout runs");
            let complaint = complained(&output);
            assert!(
                output.status.success(),
                "{name}={value} {line:?}: {complaint}"
            );
            assert_eq!(complaint, "", "{name}={value} {line:?}");
        }
    }
    let bare = timed(&["mpirun", "-n", "2", ring])
        .env_clear()
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("PATH", "/usr/bin:/bin")
        .output();
    assert!(bare.expect("timeout runs").status.success());
    std::fs::remove_dir_all(dir).expect("it was there");
}

#[test]
fn a_settings_file_that_cannot_be_taken_is_named() {
    let hello = Program::new("hello");
    let home = place("settings");
    let file = home.join(".config/ferriband/mpi.conf");
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    let long = format!("eager = 4K\n{}", "# filled up\n".repeat(8000));
    for (text, why) in [
        (Some(long.as_bytes()), "it is longer than 65536 bytes"),
        (Some(&b"eager = \xff\n"[..]), "UTF-8"),
        (Some(b"eager\n"), "mpi.conf"),
        (None, "Is a directory"),
    ] {
        match text {
            Some(text) => std::fs::write(&file, text).expect("written"),
            None => {
                std::fs::remove_file(&file).expect("it was there");
                std::fs::create_dir(&file).expect("made");
            }
        }
        let mut command = hello.command(2, &[], &[]);
        command
            .env("HOME", &home)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("FERRIBAND_MPI_SETTINGS");
        let output = command.output().expect("it runs");
        let complaint = complained(&output);
        assert_eq!(
            (output.status.code(), said(&output).as_str()),
            (Some(2), ""),
            "{complaint}"
        );
        assert!(
            complaint.contains(why) && complaint.contains("mpi.conf"),
            "{complaint}"
        );
        // Without the launcher the library says it.
        let alone = Command::new(&hello.0)
            .env("LD_LIBRARY_PATH", library_dir())
            .env("HOME", &home)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("FERRIBAND_MPI_SETTINGS")
            .output()
            .expect("it runs");
        assert!(
            !alone.status.success() && complained(&alone).contains(why),
            "{}",
            complained(&alone)
        );
    }
    std::fs::remove_dir_all(home).expect("it was there");
}

#[test]
fn limits_and_masks_of_the_caller_are_kept_and_do_no_harm() {
    let collectives = Program::new("collectives");
    let path = collectives.0.to_str().expect("a path in ASCII");
    for (limit, ranks) in [
        ("ulimit -f 0", 3),
        ("ulimit -S -f 0", 2),
        ("ulimit -f 100", 8),
        ("ulimit -n 64", 3),
        ("ulimit -c 0; ulimit -l 0; ulimit -s 256", 3),
        ("umask 0777", 3),
        ("exec <&-", 2),
        ("exec 2>&-", 2),
        ("cd / && mkdir -p $D/gone && cd $D/gone && rmdir $D/gone", 2),
    ] {
        let dir = env!("CARGO_TARGET_TMPDIR");
        // Through a pipe: what this process reads may be a file otherwise.
        let script = format!("D={dir}; {limit}; exec $F mpirun -n {ranks} {path}");
        let output = by_shell(&script);
        let complaint = complained(&output);
        assert_eq!(
            said(&output),
            format!("collectives: {ranks} ranks: ok\n"),
            "{limit}: {complaint}"
        );
        assert_eq!(
            (output.status.code(), complaint.as_str()),
            (Some(0), ""),
            "{limit}"
        );
    }
    let output = by_shell(
        "ulimit -f 7; umask 027; $F mpirun -n 1 sh -c 'ulimit -f; umask'; $F run sh -c 'ulimit -f; umask'",
    );
    assert_eq!(said(&output), "7\n0027\n7\n0027\n");
    // What is closed is closed for the program that takes our place.
    let output = by_shell("$F run sh -c 'echo x' >&- || echo failed >&2");
    assert!(
        complained(&output).contains("failed"),
        "{}",
        complained(&output)
    );
}

#[test]
fn output_that_cannot_be_written_is_told_and_ends_the_job() {
    let output =
        by_shell("$F mpirun -n 2 sh -c 'while :; do echo y; done' >/dev/full; echo $? >&2");
    let complaint = complained(&output);
    assert!(
        complaint.contains("cannot write what the ranks write: No space left"),
        "{complaint}"
    );
    assert!(complaint.ends_with("1\n"), "{complaint}");
    let output = by_shell(
        "$F mpirun -n 2 sh -c 'while :; do echo y; done' | head -1; $F mpirun -n 2 sh -c 'echo x >&2' 2>/dev/full; echo $?",
    );
    assert_eq!(said(&output), "y\n0\n", "{}", complained(&output));
    let output = by_shell("$F mpirun -n 2 sh -c 'echo x; sleep 0.2' >&-");
    assert_ne!(output.status.code(), Some(HUNG));
}

#[test]
fn a_trace_is_not_lost_to_a_file_that_cannot_be_written() {
    let hello = Program::new("hello");
    let path = hello.0.to_str().expect("a path in ASCII");
    let output = timed(&[
        "trace",
        "-o",
        "/there/is/none.json",
        "--",
        "mpirun",
        "-n",
        "2",
        path,
    ])
    .output()
    .expect("timeout runs");
    assert_eq!(
        (output.status.code(), said(&output).as_str()),
        (Some(1), ""),
        "nothing has run"
    );
    assert!(
        complained(&output).contains("cannot write /there/is/none.json"),
        "{}",
        complained(&output)
    );
    let json = place("masked.json");
    let script = format!(
        "umask 0777; exec $F trace -o {} -- mpirun -n 2 {path}",
        json.display()
    );
    let output = by_shell(&script);
    assert!(output.status.success(), "{}", complained(&output));
    std::fs::remove_file(json).expect("it was written");
    let output = by_shell(&format!(
        "TMPDIR=/there/is/none exec $F trace -o /dev/null -- mpirun -n 2 {path}"
    ));
    assert!(
        complained(&output).contains("set TMPDIR"),
        "{}",
        complained(&output)
    );
    let output = by_shell(&format!(
        "ulimit -f 0; exec $F trace -o /dev/null -- mpirun -n 2 {path}"
    ));
    let complaint = complained(&output);
    assert!(
        complaint.contains("File too large") && output.status.code() != Some(153),
        "{complaint}"
    );
}
