//! Commands and programs under a limit on the size of files (`ulimit -f`), which holds for shared
//! memory, too: they work where the limit may be lifted, and say what is wrong where it may not.
//! None is ended by SIGXFSZ, none hangs.
//!
//! What a shell writes here goes through pipes: a file could not take it.

use ferriband_testkit::{is_there, library_dir};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Runs a script, in which F is the program and UNPRIVILEGED a command that takes away the right to
/// raise limits.
fn by_shell(script: &str) -> Output {
    Command::new("timeout")
        .args(["-k", "5", "90", "sh", "-c", script])
        .env("F", env!("CARGO_BIN_EXE_ferriband"))
        .env("UNPRIVILEGED", unprivileged())
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs")
}

/// Nothing for those whose hard limits are hard.
fn unprivileged() -> &'static str {
    static WORDS: OnceLock<&'static str> = OnceLock::new();
    WORDS.get_or_init(|| {
        let raises = Command::new("sh")
            .args(["-c", "ulimit -f 0; ulimit -f unlimited"])
            .stderr(Stdio::null())
            .status();
        match raises {
            Ok(status) if status.success() => "setpriv --bounding-set=-sys_resource --",
            _ => "",
        }
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complained(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn where_the_limit_may_not_be_lifted_it_is_named() {
    let mut lines = vec![
        "run -- cat /sys/class/infiniband/ferri0/node_guid",
        "run -- ls /sys/class/infiniband",
        "run -- grep -r x /sys/class/infiniband/ferri0",
        "perf --iters 10 --sizes 8 --no-floors --ops send --services rc",
        "devices",
        "status",
        "counters",
        "doctor",
    ];
    if is_there("ibv_devinfo", "ibverbs-utils") {
        lines.extend([
            "run -- ibv_devinfo",
            "run -- ibv_rc_pingpong",
            "demo --quick --only ibv_devinfo",
        ]);
    }
    for limit in [0, 1000] {
        for line in &lines {
            let output = by_shell(&format!("ulimit -f {limit}; exec $UNPRIVILEGED $F {line}"));
            let words = said(&output) + &complained(&output);
            assert!(words.contains("ulimit -f"), "{limit}: {line}: {words}");
            // 124: it hangs; from 128 on: a signal has ended it
            let status = output.status.code();
            assert!(
                status.is_some_and(|status| status < 124),
                "{limit}: {line}: {status:?}"
            );
        }
    }
}

#[test]
fn where_it_may_be_lifted_it_does_no_harm_and_stays() {
    for limit in [0, 1000] {
        for line in [
            "cat /sys/class/infiniband/ferri0/node_guid",
            "ls /sys/class/infiniband",
            "cat /sys/class/infiniband/ferri0/ports/1/state",
        ] {
            let alone = by_shell(&format!("$F run -- {line}"));
            let limited = by_shell(&format!("ulimit -S -f {limit}; $F run -- {line}"));
            assert_eq!(said(&alone), said(&limited), "{limit}: {line}");
            assert_eq!(
                (limited.status.code(), complained(&limited).as_str()),
                (Some(0), ""),
                "{limit}: {line}"
            );
        }
        let output = by_shell(&format!(
            "ulimit -S -f {limit}; $F perf --iters 10 --sizes 8 --no-floors --ops send --services rc; $F run -- sh -c 'ulimit -S -f'"
        ));
        let words = said(&output);
        assert!(
            words.contains("RC SEND") && words.ends_with(&format!("\n{limit}\n")),
            "{words}{}",
            complained(&output)
        );
    }
}

#[test]
fn what_cannot_be_said_does_not_keep_a_program_from_running() {
    for output in [
        by_shell("ulimit -f 0; $UNPRIVILEGED $F run -- sh -c 'exit 7' 2>/dev/full; echo $?"),
        by_shell("ulimit -f 0; $F run -- no-such-program 2>/dev/full; echo $?"),
    ] {
        let status = said(&output);
        assert!(
            status == "7\n" || status == "127\n",
            "{status}{}",
            complained(&output)
        );
    }
}

/// What the library writes of its own account, reports for `ferriband status` and incidents in a
/// file, is left out or goes to memory.
#[test]
fn a_program_outlives_what_cannot_be_written_about_it() {
    if !is_there("ibv_rc_pingpong", "ibverbs-utils") {
        return;
    }
    let port = 20_000 + std::process::id() % 10_000;
    let script = format!(
        r#"ulimit -S -f 0
        pair="--device ferri_lo --wire roce"
        $F run $pair -- ibv_rc_pingpong -g 0 -p {port} -n 1000000 >&2 &
        for attempt in 1 2 3 4 5 6 7 8 9 10; do
            sleep 0.3
            $F status | grep pingpong && break
        done
        $F run $pair --fault 'drop probability=1' -- ibv_rc_pingpong -g 0 -p {port} -n 1000000 127.0.0.1 2>&1
        echo status $?
        kill $!
        wait"#
    );
    let output = by_shell(&script);
    let words = said(&output);
    assert!(
        words.contains("pingpong") && words.contains("(12)") && words.ends_with("status 1\n"),
        "{words}{}",
        complained(&output)
    );
}
