//! What mpirun does with its standard input: nothing is read before a rank reads it, and nothing is lost.

use super::launch::{complained, ferriband, said};
use super::{FERRIBAND, library_dir};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a shell makes of a script, in which `$M` is our mpirun, with a text as its standard input: a file, or a pipe.
fn shell(script: &str, input: &str, by_pipe: bool) -> Output {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!(
        "mpi_input.{}.{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&path, input).expect("written");
    let mut command = Command::new("timeout");
    command
        .args(["100", "sh", "-c", script])
        .env("M", format!("{FERRIBAND} mpirun"))
        .env("FERRIBAND_LIB_DIR", library_dir());
    let output = if by_pipe {
        let mut cat = Command::new("cat")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat runs");
        let output = command
            .stdin(cat.stdout.take().expect("a pipe"))
            .output()
            .expect("sh runs");
        // The command holds the pipe, and cat waits for who reads it.
        drop(command);
        cat.wait().expect("cat ends");
        output
    } else {
        let file = File::open(&path).expect("it is there");
        command.stdin(file).output().expect("sh runs")
    };
    std::fs::remove_file(path).expect("it is there");
    output
}

#[test]
fn a_loop_keeps_the_lines_that_no_rank_reads() {
    for by_pipe in [false, true] {
        for who in ["", "--stdin 1", "--stdin none", "-n 1 true :"] {
            let script =
                format!("while read -r x; do $M {who} -n 2 true || exit 1; printf %s $x; done");
            let output = shell(&script, "a\nb\nc\nd\n", by_pipe);
            assert_eq!(
                said(&output),
                "abcd",
                "{who}, by a pipe: {by_pipe}: {}",
                complained(&output)
            );
        }
    }
    // All ranks have a file, each by itself.
    let output = shell(
        "while read -r x; do $M --stdin all -n 2 true || exit 1; printf %s $x; done",
        "a\nb\nc\n",
        false,
    );
    assert_eq!(said(&output), "abc", "{}", complained(&output));
}

#[test]
fn what_a_rank_leaves_is_there_for_whoever_comes_next() {
    // head reads as many bytes as it is told, of a file and of a pipe
    for by_pipe in [false, true] {
        let output = shell("$M -n 2 head -c 4; cat", "1234\n5678\n", by_pipe);
        assert_eq!(said(&output), "1234\n5678\n", "{}", complained(&output));
    }
    let output = shell(
        "$M --stdin all -l -n 2 head -c 5 | sort; cat",
        "1234\n5678\n",
        false,
    );
    assert_eq!(
        said(&output),
        "[0] 1234\n[1] 1234\n5678\n",
        "{}",
        complained(&output)
    );
}

#[test]
fn not_a_byte_is_lost_on_the_way_to_a_rank() {
    let words: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    for (who, readers) in [("0", 1), ("1", 1), ("all", 3), ("none", 0)] {
        for by_pipe in [false, true] {
            let script = format!("$M --stdin {who} -n 3 sh -c 'wc -c'");
            let output = shell(&script, &words, by_pipe);
            let text = said(&output);
            let whole = text
                .lines()
                .filter(|line| line.trim() == words.len().to_string());
            assert_eq!(
                whole.count(),
                readers,
                "{who}: {text}{}",
                complained(&output)
            );
            let none = text.lines().filter(|line| line.trim() == "0").count();
            assert_eq!(none, 3 - readers, "{who}: the others see its end");
        }
    }
    let output = shell("$M -n 2 cat", &words, true);
    assert!(said(&output) == words, "what comes out is what went in");
    let slow = shell(
        "(for i in 1 2 3; do echo $i; sleep 0.1; done) | $M -n 2 cat; yes | $M -n 2 true; echo $?",
        "",
        false,
    );
    assert_eq!(said(&slow), "1\n2\n3\n0\n", "{}", complained(&slow));
}

/// A shell in a session of its own, on a terminal of its own; what it writes there. `typed` was typed before it began.
fn on_terminal(script: &str, typed: &str) -> String {
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: local descriptors; the terminal has its usual settings.
    let opened = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            none,
            none.cast(),
            none.cast(),
        )
    };
    assert_eq!(opened, 0, "a terminal");
    // SAFETY: new descriptors.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut master = File::from(master);
    master.write_all(typed.as_bytes()).expect("typed");
    let copy = || Stdio::from(slave.as_fd().try_clone_to_owned().expect("a copy"));
    let own = slave.as_raw_fd();
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "60", "bash", "-c", script])
        .env("M", format!("{FERRIBAND} mpirun"))
        .env("FERRIBAND_LIB_DIR", library_dir())
        .stdin(copy())
        .stdout(copy())
        .stderr(copy());
    let lead = move || {
        // SAFETY: two system calls, between fork and exec.
        unsafe {
            libc::setsid();
            libc::ioctl(own, libc::TIOCSCTTY, 0);
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(lead) };
    let mut child = command.spawn().expect("timeout runs");
    drop((command, slave));
    let (mut seen, mut some) = (Vec::new(), [0; 4096]);
    // The other end's close is an error here.
    while let Ok(count) = master.read(&mut some) {
        if count == 0 {
            break;
        }
        seen.extend_from_slice(&some[..count]);
    }
    let deadline = Instant::now() + Duration::from_secs(90);
    while child.try_wait().expect("a child").is_none() {
        assert!(
            Instant::now() < deadline,
            "it does not end: {:?}",
            String::from_utf8_lossy(&seen)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    String::from_utf8_lossy(&seen).replace('\r', "")
}

#[test]
fn what_is_typed_goes_to_the_rank_that_reads_or_stays() {
    let seen = on_terminal("$M -n 2 true; read x; echo got $x", "first\n");
    assert!(seen.ends_with("got first\n"), "{seen}");
    let seen = on_terminal(
        // the other rank reads nothing, and is not to end the job before the first has read
        "$M -n 2 sh -c 'read x && echo rank got $x; true'; read x; echo then $x",
        "first\nsecond\n",
    );
    assert!(
        seen.contains("rank got first\n") && seen.ends_with("then second\n"),
        "{seen}"
    );
    let seen = on_terminal(
        "$M --stdin all -l -n 2 sh -c 'read x && echo got $x'",
        "one\n",
    );
    assert!(
        seen.contains("[0] got one") && seen.contains("[1] got one"),
        "{seen}"
    );
}

#[test]
fn a_job_in_the_background_of_a_terminal_is_not_stopped() {
    for who in ["", "--stdin all", "--stdin none"] {
        let script = format!("set -m; $M {who} -n 2 sleep 0.3 & wait $!; echo ended $?");
        let seen = on_terminal(&script, "typed\n");
        assert!(seen.contains("ended 0\n"), "{who}: {seen}");
    }
    // One that reads there is, as any program is.
    let seen = on_terminal("set -m; $M -n 2 cat & sleep 1; jobs; kill -9 %1", "typed\n");
    assert!(seen.contains("Stopped"), "{seen}");
}

#[test]
fn a_key_of_the_terminal_comes_to_a_rank_once() {
    let rank = "trap 'echo int' INT; echo ready; sleep 1 & wait $!; wait $!; echo over";
    let script = format!(
        "trap : INT; $M -n 2 bash -c '{}' | cat",
        rank.replace('\'', "'\\''")
    );
    let seen = on_terminal(&format!("(sleep 0.5; kill -INT 0) & {script}"), "");
    // kill -INT 0 is the whole group's, and each rank writes at the most once what it has caught.
    assert!(seen.matches("int\n").count() <= 4, "{seen}");
    let closed = ferriband(&["mpirun", "-n", "2", "true"])
        .output()
        .expect("it runs");
    assert!(closed.status.success());
}
