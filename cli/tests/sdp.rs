//! `ferriband sdp` as its users meet it: a program's status, signals and environment are its own,
//! and those that cannot take part run as if nothing had been said.

use ferriband_testkit::library_dir;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const LIBRARY: &str = "libferriband_sdp.so";

fn ferriband(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferriband"));
    command
        .arg("sdp")
        .args(arguments)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("FERRIBAND_SDP_SETTINGS", "")
        .env_remove("LD_PRELOAD")
        .env_remove("LD_LIBRARY_PATH");
    command
}

fn run(arguments: &[&str]) -> Output {
    ferriband(arguments).output().expect("ferriband runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path below the directory for files of tests.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sdp-{}-{name}", std::process::id()))
}

/// Says nothing on standard error and prints what is expected.
fn prints(output: &Output, expected: &str) {
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), expected);
    assert!(output.status.success(), "{}", output.status);
}

#[test]
fn a_directory_to_meet_in_is_given_to_the_program_and_what_is_wrong_with_it_is_said() {
    let directory = scratch("meet");
    fs::create_dir(&directory).expect("a new directory");
    let path = directory.to_str().expect("text");
    let shows = ["--", "sh", "-c", "echo $FERRIBAND_SDP_MEET"];
    let output = run(&[&["run", "--meet", path][..], &shows].concat());
    let real = fs::canonicalize(&directory).expect("it is there");
    prints(&output, &format!("{}\n", real.display()));
    let file = directory.join("file");
    fs::write(&file, "").expect("written");
    let missing = directory.join("missing");
    for wrong in [&file, &missing] {
        let path = wrong.to_str().expect("text");
        let by_flag = run(&[&["run", "--meet", path][..], &shows].concat());
        let by_setting = ferriband(&[&["run"][..], &shows].concat())
            .env("FERRIBAND_SDP_MEET", path)
            .output()
            .expect("ferriband runs");
        for output in [by_flag, by_setting] {
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(path) && said.contains("volume"), "{said}");
            assert_eq!(text(&output.stdout), "");
        }
    }
    fs::remove_dir_all(&directory).expect("it was there");
}

#[test]
fn status_signal_and_pid_are_the_programs_own() {
    let status = run(&["run", "--", "sh", "-c", "exit 7"]).status;
    assert_eq!(status.code(), Some(7));
    let status = run(&["run", "sh", "-c", "kill -TERM $$"]).status;
    assert_eq!(status.signal(), Some(15));
    let child = ferriband(&["run", "--", "sh", "-c", "echo $$"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    let pid = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stdout).trim(), pid.to_string());
}

#[test]
fn the_library_comes_before_what_the_caller_preloads_and_once() {
    let ours = library_dir().join(LIBRARY);
    let c_library = "libm.so.6";
    let script =
        "echo $LD_PRELOAD; grep -c libferriband_sdp /proc/self/maps >/dev/null && echo loaded";
    let output = ferriband(&["run", "sh", "-c", script])
        .env("LD_PRELOAD", format!("{c_library}:{}", ours.display()))
        .output();
    prints(
        &output.expect("ferriband runs"),
        &format!("{}:{c_library}\nloaded\n", ours.display()),
    );
}

#[test]
fn what_cannot_be_run_is_explained() {
    let plain = scratch("plain");
    fs::write(&plain, "#!/bin/sh\n").expect("writable");
    let plain = plain.to_str().expect("our names are text");
    let cases = [
        ("no-such-program", 127, "no such program"),
        (plain, 126, "chmod +x"),
        ("/", 126, "directory"),
    ];
    for (program, status, words) in cases {
        let output = run(&["run", "--", program]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.starts_with("ferriband: cannot run "), "{said}");
        assert!(said.contains(words) && !said.contains("RDMA"), "{said}");
    }
    fs::remove_file(plain).expect("it was there");
}

#[test]
fn a_missing_library_names_the_place_and_the_remedy() {
    let place = scratch("empty");
    fs::create_dir_all(&place).expect("writable");
    fs::write(place.join("libibverbs.so.1"), "").expect("writable");
    let output = ferriband(&["run", "true"])
        .env("FERRIBAND_LIB_DIR", &place)
        .output()
        .expect("ferriband runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let place_name = place.file_name().expect("a name").to_string_lossy();
    assert!(
        said.contains(LIBRARY) && said.contains(&*place_name),
        "{said}"
    );
    assert!(said.contains("cargo xtask libs"), "{said}");
    fs::remove_dir_all(&place).expect("it was there");
}

#[test]
fn a_setting_that_means_nothing_is_refused_and_a_stranger_named() {
    let with = |variable: &str, value: &str| {
        ferriband(&["run", "true"])
            .env(variable, value)
            .output()
            .expect("ferriband runs")
    };
    let output = with("FERRIBAND_SDP_AFTER_EXCHANGES", "often");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("0 to 1048576"), "{said}");
    assert!(said.contains("ferriband sdp env"), "{said}");
    let output = with("FERRIBAND_SDP_AFTER_BITES", "0");
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(
        said.contains("is FERRIBAND_SDP_AFTER_BYTES meant?"),
        "{said}"
    );
}

#[test]
fn a_shell_takes_the_environment_over_and_people_see_the_settings() {
    let script = format!(
        "eval \"$('{}' sdp env)\" && printf %s \"$LD_PRELOAD\"",
        env!("CARGO_BIN_EXE_ferriband")
    );
    let ours = library_dir().join(LIBRARY).display().to_string();
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env_remove("LD_PRELOAD")
        .output();
    prints(&output.expect("sh runs"), &ours);

    let file = scratch("sdp.conf");
    fs::write(&file, "after_bytes = 1M\n").expect("writable");
    let output = ferriband(&["env", "--json"])
        .env("FERRIBAND_SDP_SETTINGS", &file)
        .env("FERRIBAND_SDP_AFTER_EXCHANGES", "0")
        .output()
        .expect("ferriband runs");
    fs::remove_file(&file).expect("it was there");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["environment"]["LD_PRELOAD"], ours);
    let settings = json["settings"].as_array().expect("a list");
    let of = |name: &str| {
        let row = settings.iter().find(|row| row["name"] == name);
        let row = row.expect("a row");
        [&row["variable"], &row["value"], &row["source"]].map(|value| value.as_str().expect("text"))
    };
    assert_eq!(
        of("after_exchanges"),
        ["FERRIBAND_SDP_AFTER_EXCHANGES", "0", "environment"]
    );
    assert_eq!(
        of("after_bytes"),
        ["FERRIBAND_SDP_AFTER_BYTES", "1M", "file"]
    );
    assert_eq!(of("counters"), ["FERRIBAND_SDP_COUNTERS", "", "default"]);
}

#[test]
fn a_static_program_says_nothing_and_works() {
    let program = scratch("static");
    let source = scratch("static.c");
    fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { return puts(\"static\") < 0; }\n",
    )
    .expect("writable");
    let status = Command::new("cc")
        .args(["-static", "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler, which linking Rust needs anyway");
    assert!(status.success());
    let output = run(&["run", program.to_str().expect("our names are text")]);
    for file in [&program, &source] {
        fs::remove_file(file).expect("it was there");
    }
    prints(&output, "static\n");
}

/// A program that becomes another user when it is executed: made of cat where we are root, and
/// else one of the system's.
#[test]
fn a_program_that_gains_privilege_says_nothing_and_works() {
    let program = scratch("setuid");
    fs::copy("/bin/cat", &program).expect("there is a cat");
    let nobody = 65534;
    let made = chown(&program, Some(nobody), None)
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)));
    let mut words = vec![
        program.to_str().expect("our names are text"),
        "/proc/self/status",
    ];
    if made.is_err() {
        words = vec!["su", "--version"];
    }
    let output = run(&[&["run", "--"], &words[..]].concat());
    fs::remove_file(&program).expect("it was there");
    assert_eq!(text(&output.stderr), "");
    let said = text(&output.stdout);
    assert!(output.status.success() && !said.is_empty());
    if made.is_ok() {
        let uids = said.lines().find(|line| line.starts_with("Uid:"));
        let uids = uids.expect("a process has a user");
        assert!(uids.contains(&nobody.to_string()), "{uids}");
    }
}
