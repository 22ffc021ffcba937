//! The launcher as its users meet it: statuses, environment, scripts, and what is said when
//! something is missing. The library directory holds an empty file: no program here opens it.

use ferriband_testkit::Scratch;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own for each test, with what is taken for our library; its name has blanks.
struct Directory(Scratch);

impl Directory {
    fn new(name: &str) -> Self {
        let scratch = Scratch::directory(&format!("test of {name}"));
        fs::write(scratch.path().join("libibverbs.so.1"), "").expect("writable");
        Directory(scratch)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
        path
    }

    fn ferriband(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferriband"));
        command
            .args(arguments)
            .env("FERRIBAND_LIB_DIR", self.path())
            .env_remove("LD_LIBRARY_PATH");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.ferriband(arguments).output().expect("ferriband runs")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("our names are text")
}

#[test]
fn status_and_signal_are_the_programs_own() {
    let scratch = Directory::new("status");
    assert_eq!(
        scratch
            .run(&["run", "--", "sh", "-c", "exit 7"])
            .status
            .code(),
        Some(7)
    );
    let killed = scratch.run(&["run", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
}

#[test]
fn the_program_takes_the_place_of_the_launcher() {
    let scratch = Directory::new("pid");
    let child = scratch
        .ferriband(&["run", "--", "sh", "-c", "echo $$"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    let pid = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stdout).trim(), pid.to_string());
}

#[test]
fn our_libraries_come_first_and_the_users_path_stays() {
    let scratch = Directory::new("path");
    let output = scratch
        .ferriband(&["run", "--", "sh", "-c", "echo $LD_LIBRARY_PATH"])
        .env("LD_LIBRARY_PATH", "/users/own")
        .output()
        .expect("ferriband runs");
    assert_eq!(
        text(&output.stdout).trim(),
        format!("{}:/users/own", scratch.path().display())
    );
}

#[test]
fn a_shell_takes_the_settings_over() {
    let scratch = Directory::new("env");
    let script = format!(
        "eval \"$('{}' env)\" && printf %s \"$LD_LIBRARY_PATH\"",
        env!("CARGO_BIN_EXE_ferriband")
    );
    let output = Command::new("sh")
        .arg("-c")
        .arg(script)
        .env("FERRIBAND_LIB_DIR", scratch.path())
        .env_remove("LD_LIBRARY_PATH")
        .output();
    assert_eq!(
        text(&output.expect("sh runs").stdout),
        shown(scratch.path())
    );
    let json: serde_json::Value =
        serde_json::from_slice(&scratch.run(&["env", "--json"]).stdout).expect("JSON");
    assert_eq!(json["LD_LIBRARY_PATH"], shown(scratch.path()));
}

#[test]
fn scripts_run_with_and_without_a_first_line() {
    let scratch = Directory::new("scripts");
    let with = scratch.file("with", "#!/bin/sh\necho \"with $1\"\n", 0o755);
    let without = scratch.file("without", "echo \"without $1\"\n", 0o755);
    assert_eq!(
        text(&scratch.run(&["run", shown(&with), "it"]).stdout),
        "with it\n"
    );
    assert_eq!(
        text(&scratch.run(&["run", shown(&without), "it"]).stdout),
        "without it\n"
    );
}

#[test]
fn what_cannot_be_run_is_explained() {
    let scratch = Directory::new("errors");
    let plain = scratch.file("plain", "#!/bin/sh\n", 0o644);
    let stranded = scratch.file("stranded", "#!/no/such/interpreter\n", 0o755);
    let cases = [
        ("no-such-program", 127, "no such program"),
        (shown(&plain), 126, "chmod +x"),
        (shown(&stranded), 126, "interpreter"),
        ("/", 126, "directory"),
    ];
    for (program, status, words) in cases {
        let output = scratch.run(&["run", "--", program]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(
            said.contains(words) && said.starts_with("ferriband: "),
            "{said}"
        );
    }
}

#[test]
fn a_missing_library_names_the_place_and_the_remedy() {
    let scratch = Directory::new("missing");
    fs::remove_file(scratch.path().join("libibverbs.so.1")).expect("it was there");
    for arguments in [
        &["run", "true"][..],
        &["env"],
        &["sdp", "run", "true"],
        &["sdp", "env"],
        &["devices"],
        &["demo", "--only", "devinfo"],
    ] {
        let output = scratch.run(arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            said.contains("libibverbs.so.1") || said.contains("not installed"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn wrong_usage_ends_with_status_2() {
    let scratch = Directory::new("usage");
    for arguments in [
        &["run"][..],
        &["perf", "--sizes", "8..2"],
        &["perf", "--plot", "x.gif"],
        &["nonsense"],
        &["sim", "--seed", "x"],
        &["sdp"],
        &["sdp", "run"],
    ] {
        assert_eq!(
            scratch.run(arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
}

#[test]
fn manual_pages_and_completions_name_the_subcommands() {
    let scratch = Directory::new("pages");
    let out = scratch.path().join("man");
    assert!(scratch.run(&["man", "--out", shown(&out)]).status.success());
    for page in ["ferriband.1", "ferriband-run.1", "ferriband-sdp-run.1"] {
        assert!(
            fs::read_to_string(out.join(page))
                .expect("the page is there")
                .contains(".TH"),
            "{page}"
        );
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&scratch.run(&["completions", shell]).stdout);
        assert!(
            script.contains("doctor") && !script.contains("perf-peer"),
            "{shell}"
        );
    }
}

#[test]
fn what_measures_is_a_program_of_its_own() {
    let ours = env!("CARGO_BIN_EXE_ferriband");
    let dev = env!("CARGO_BIN_EXE_ferriband-dev");
    let ends = |program: &str, words: &[&str]| {
        let output = Command::new(program)
            .args(words)
            .output()
            .expect("it is built");
        (output.status.code(), text(&output.stdout))
    };
    for measures in ["bench", "floor"] {
        assert_eq!(
            ends(ours, &[measures, "--json"]).0,
            Some(2),
            "ferriband {measures}"
        );
        let (code, help) = ends(dev, &[measures, "--help"]);
        assert!(
            code == Some(0) && help.contains(&format!("ferriband-dev {measures}")),
            "{help}"
        );
    }
    // it finds the other program and the libraries beside itself
    let (code, floors) = ends(dev, &["floor", "--rounds", "1", "--json"]);
    assert!(code == Some(0) && floors.contains("_ns"), "{floors}");
    let (code, rows) = ends(
        dev,
        &["bench", "--only", "no such row", "--rounds", "1", "--json"],
    );
    assert_ne!(code, Some(0), "{rows}");
}
