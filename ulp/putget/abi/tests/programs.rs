//! Programs in C that are written to `ferriband_putget.h`, on Ferriband's own adapter.

#[path = "../../../../cli/tests/libraries/mod.rs"]
mod libraries;

use libraries::library_dir;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Compiles a program of `tests/c`.
fn compiled(name: &str) -> PathBuf {
    let at = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(format!("{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("putget-{name}"));
    let libraries = library_dir();
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(at)
        .arg("-I")
        .arg(libraries.join("include"))
        .arg("-L")
        .arg(libraries)
        .arg("-lferriband_putget")
        .status()
        .expect("cc runs");
    assert!(status.success(), "{name}.c does not compile");
    program
}

fn run(program: &Path, args: &[&str]) -> Child {
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(args)
        .env("LD_LIBRARY_PATH", library_dir())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

#[test]
fn the_papers_latency_program_runs_at_each_crossover() {
    let program = compiled("pingpong");
    for (length, crossover) in [
        (4, 2012),
        (28, 28),
        (32, 28),
        (2012, 2012),
        (65536, 2012),
        (0, 0),
    ] {
        let (length, crossover) = (format!("{length}"), format!("{crossover}"));
        let rest = [&*length, "200", &*crossover];
        let mut slave = run(&program, &[&["listen"][..], &rest].concat());
        let mut line = String::new();
        let mut said = BufReader::new(slave.stdout.take().expect("a pipe"));
        said.read_line(&mut line).expect("an address");
        let master = run(&program, &[&[line.trim()][..], &rest].concat());
        let master = master.wait_with_output().expect("it ends");
        assert!(master.status.success(), "{length} bytes: {}", master.status);
        let time: f64 = String::from_utf8_lossy(&master.stdout)
            .trim()
            .parse()
            .expect("a time");
        assert!(time > 0.0);
        assert!(slave.wait().expect("it ends").success());
    }
}
