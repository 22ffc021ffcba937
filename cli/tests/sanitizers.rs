//! Programs that are built with the compilers' sanitizers, and under valgrind, by `ferriband run`: they run unchanged, nothing is reported of the libraries, and
//! what is wrong with the program itself still is.
//!
//! Compilers, runtimes and headers that are not installed are left out, with a line that says so.

use ferriband_testkit::library_dir;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Far longer than any of these takes.
const LIMIT: &str = "120";

fn compiled(compiler: &str, sanitizer: &str, name: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}-{sanitizer}-{}", compiler.replace(' ', "")));
    let mut words = compiler.split(' ');
    let output = Command::new(words.next().expect("a name"))
        .args(words)
        .args(["-std=gnu11", "-Wall", "-Wextra", "-O1", "-g", "-pthread"])
        .args((sanitizer != "none").then(|| format!("-fsanitize={sanitizer}")))
        .arg("-o")
        .arg(&program)
        .arg(format!(
            "{}/tests/sanitizers/{name}.c",
            env!("CARGO_MANIFEST_DIR")
        ))
        .arg("-L")
        .arg(library_dir())
        .args(["-lrdmacm", "-libverbs"])
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let is_missing = said.contains("cannot find") || said.contains("No such file");
            assert!(is_missing, "{compiler} -fsanitize={sanitizer}: {said}");
            eprintln!(
                "SKIP: {compiler} -fsanitize={sanitizer}: something is not installed: {said}"
            );
            None
        }
        Err(error) => {
            eprintln!("SKIP: {compiler}: {error}");
            None
        }
    }
}

/// Runs a command by `ferriband run`.
fn run(command: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new("timeout")
        .arg(LIMIT)
        .args([env!("CARGO_BIN_EXE_ferriband"), "run", "--"])
        .args(command)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("FERRIBAND_DEVICES", "ferri0")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("timeout of coreutils")
}

fn said(output: &Output) -> String {
    let all = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn finds_nothing(what: &str, output: &Output) {
    let said = said(output);
    assert!(
        output.status.success() && said.trim() == "done",
        "{what}: {}: {said}",
        output.status
    );
}

const COMPILERS: [&str; 3] = ["gcc", "clang", "clang -shared-libsan"];

fn shown(path: &Path) -> &str {
    path.to_str().expect("our names are text")
}

#[test]
fn a_tidy_program_is_tidy_to_each_sanitizer() {
    for compiler in COMPILERS {
        // clang's shared runtimes lie where the loader does not look; that of threads does not start by itself
        let sanitizers: &[&str] = match compiler {
            "clang -shared-libsan" => &[],
            _ => &["address", "thread", "undefined", "leak"],
        };
        for sanitizer in sanitizers {
            let Some(program) = compiled(compiler, sanitizer, "tidy") else {
                continue;
            };
            let output = run(&[shown(&program)], &[]);
            finds_nothing(&format!("{compiler} {sanitizer}"), &output);
        }
    }
}

#[test]
fn what_the_user_and_scripts_say_to_address_sanitizer_stays() {
    let Some(program) = compiled("gcc", "address", "tidy") else {
        return;
    };
    let options = [("ASAN_OPTIONS", "detect_leaks=1:print_stats=0")];
    finds_nothing("options", &run(&[shown(&program)], &options));
    let script = format!("{}; {0}", shown(&program));
    let output = run(&["sh", "-c", &script], &options);
    assert_eq!(said(&output), "done\ndone\n");
    // a script that has options of its own for a program
    for shell in ["sh", "bash"] {
        let script = format!("ASAN_OPTIONS=detect_leaks=1 {}", shown(&program));
        finds_nothing(shell, &run(&[shell, "-c", &script], &[]));
    }
}

#[test]
fn data_that_queues_hand_over_are_no_race_and_the_programs_own_races_are() {
    for compiler in ["gcc", "clang"] {
        let Some(program) = compiled(compiler, "thread", "races") else {
            continue;
        };
        for what in ["messages", "events", "shared"] {
            let output = run(&[shown(&program), what], &[]);
            finds_nothing(&format!("{compiler} {what}"), &output);
        }
        for what in ["race", "race-on-one"] {
            let output = run(&[shown(&program), what], &[]);
            let said = said(&output);
            let reports = said.matches("WARNING: ThreadSanitizer").count();
            assert!(reports > 0, "{compiler} {what}: {said}");
            assert!(
                said.contains("Location is global 'note'"),
                "{compiler} {what}: {said}"
            );
            assert!(!said.contains("libibverbs.so"), "{compiler} {what}: {said}");
        }
    }
}

#[test]
fn valgrind_finds_nothing() {
    let has_it = Command::new("valgrind").arg("--version").output().is_ok();
    if !has_it {
        eprintln!("SKIP: valgrind is not installed");
        return;
    }
    let Some(program) = compiled("gcc", "none", "tidy") else {
        return;
    };
    let strict = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"];
    let kinds = [
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
    ];
    let command = [&strict[..], &kinds, &[shown(&program)]].concat();
    finds_nothing("valgrind", &run(&command, &[]));
}
