//! Programs in C that are written to `ferriband_putget.h`, on Ferriband's own adapter.

#[path = "../../../ibv/tests/failing/mod.rs"]
mod failing;

use ferriband_testkit::{Cc, library_dir, place};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Compiles a program of `tests/c`.
fn compiled(name: &str) -> PathBuf {
    Cc::new(place!(), name, &format!("putget-{name}"))
        .options(["-O2"])
        .on_libraries()
        .links(["-lferriband_putget", "-lpthread"])
        .compile()
}

fn run(program: &Path, args: &[&str]) -> Child {
    Command::new("timeout")
        .arg("120")
        .arg(program)
        .args(args)
        .env("LD_LIBRARY_PATH", library_dir())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Runs a program at both ends: the first to start tells where it listens, the other is told. What
/// the second one prints.
fn both(program: &Path, rest: &[&str]) -> String {
    let mut first = run(program, &[&["listen"][..], rest].concat());
    let mut line = String::new();
    let mut said = BufReader::new(first.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("an address");
    let second = run(program, &[&[line.trim()][..], rest].concat());
    let second = second.wait_with_output().expect("it ends");
    assert!(second.status.success(), "{rest:?}: {}", second.status);
    assert!(first.wait().expect("it ends").success(), "{rest:?}");
    String::from_utf8(second.stdout).expect("text")
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
        let time = both(&program, &[&*length, "200", &*crossover]);
        let time: f64 = time.trim().parse().expect("a time");
        assert!(time > 0.0);
    }
}

#[test]
fn the_latency_program_of_the_first_driver_runs() {
    let program = compiled("matching");
    for length in ["4", "0", "65536"] {
        let time = both(&program, &[length, "200"]);
        let time: f64 = time.trim().parse().expect("a time");
        assert!(time > 0.0);
    }
}

#[test]
fn what_the_first_driver_refuses_and_how_its_errors_are_told() {
    both(&compiled("matching_errors"), &[]);
}

#[test]
fn many_messages_over_many_channels_at_once_bring_each_byte() {
    let program = compiled("matching_stress");
    both(&program, &["3", "4", "300"]);
    both(&program, &["1", "1", "2000"]);
}

#[test]
fn many_puts_and_gets_over_many_connections_at_once_bring_each_byte() {
    let program = compiled("putget_stress");
    both(&program, &["3", "100"]);
    both(&program, &["1", "1000"]);
}

#[test]
fn the_crossover_is_what_is_set_else_measured_else_shipped() {
    let program = compiled("crossover");
    let config = place!().out(&format!("putget-config-{}", std::process::id()));
    let file = config.join("ferriband/putget-crossover.tsv");
    std::fs::create_dir_all(config.join("ferriband")).expect("writable");
    let found = |set: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", library_dir());
        command.env("XDG_CONFIG_HOME", &config);
        let output = command.envs(set.iter().copied()).output();
        let output = output.expect("it starts");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(found(&[]), "7000 7000\n");
    std::fs::write(&file, "0x02fe77:17986\tinfiniband\t100\t300\n").expect("writable");
    assert_eq!(found(&[]), "100 300\n");
    let put = ("FERRIBAND_PUTGET_PUT_CROSSOVER", "16K");
    assert_eq!(found(&[put]), "16384 300\n");
    let nonsense = ("FERRIBAND_PUTGET_GET_CROSSOVER", "never");
    assert_eq!(found(&[nonsense]), "error 22\n");
    // a file that means nothing is no measurement
    std::fs::write(&file, "rubbish\n").expect("writable");
    assert_eq!(found(&[]), "7000 7000\n");
    std::fs::remove_dir_all(&config).expect("removed");
}

#[test]
fn a_forked_child_leaves_alone_what_its_parent_has_opened() {
    let output = run(&compiled("forks"), &[]).wait_with_output();
    let output = output.expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(output.stdout, b"ok\n");
}

#[test]
fn whichever_call_of_verbs_fails_each_request_ends_and_the_next_life_is_good() {
    let Some(failing) = failing::libraries(place!()) else {
        return;
    };
    let program = failing::program(place!(), "-lferriband_putget");
    failing::each_call_fails(&program, &failing, library_dir());
}
