//! `ferriband tune` as its users meet it: what is measured, by zero copy where it is said, and
//! where it is kept.

mod libraries;

use libraries::library_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str], config: &Path) -> Output {
    Command::new("timeout")
        .args(["-k", "5", "240", env!("CARGO_BIN_EXE_ferriband"), "tune"])
        .args(arguments)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("XDG_CONFIG_HOME", config)
        .output()
        .expect("timeout runs")
}

/// A directory for files of a test.
fn scratch(name: &str) -> PathBuf {
    let directory = format!("tune-{}-{name}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    fs::create_dir_all(&directory).expect("writable");
    directory
}

/// One round from 64 KiB on.
fn measures(longest: &str) -> [&str; 7] {
    let shortest = "65536";
    [
        "sdp",
        "--rounds",
        "1",
        "--shortest",
        shortest,
        "--longest",
        longest,
    ]
}

#[test]
fn both_ways_are_measured_with_each_flow_control_and_what_follows_is_kept() {
    let config = scratch("kept");
    let few = measures("131072");
    let output = run(&[&few[..], &["--json"]].concat(), &config);
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let figures = report["figures"].as_array().expect("a list");
    let seen: Vec<(&str, u64)> = figures
        .iter()
        .filter_map(|figure| Some((figure["flow"].as_str()?, figure["bytes"].as_u64()?)))
        .collect();
    let lengths = |flow| [(flow, 65_536), (flow, 131_072)];
    assert_eq!(seen, ["credit", "ring", "nic"].map(lengths).concat());
    for figure in figures {
        let number = |name: &str| figure[name].as_f64().expect("a number");
        assert!(
            number("copies_ns") > 0.0 && number("zero_copy_ns") > 0.0,
            "{figure}"
        );
        // each message that was to go without copies went so
        let bytes = number("offers") * number("bytes");
        assert!(bytes > 0.0 && bytes == number("offered_bytes"), "{figure}");
    }
    let kept = fs::read_to_string(config.join("ferriband/sdp-zero-copy.tsv")).expect("kept");
    let adapter = report["adapter"].as_str().expect("a name");
    for least in report["least"].as_array().expect("a list") {
        let length = least["bytes"]
            .as_u64()
            .map_or("never".into(), |bytes| bytes.to_string());
        let flow = least["flow"].as_str().expect("a name");
        let row = format!("{adapter}\t{flow}\t{length}\n");
        assert!(kept.contains(&row), "{row} {kept}");
    }
    fs::remove_dir_all(&config).expect("removed");
}

#[test]
fn a_file_that_means_nothing_is_left_as_it_is() {
    let config = scratch("wrong");
    let file = config.join("lengths");
    fs::write(&file, "rubbish\n").expect("writable");
    let file = file.to_str().expect("UTF-8");
    let one = measures("65536");
    let output = run(&[&one[..], &["--write", file]].concat(), &config);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 1"));
    assert_eq!(fs::read_to_string(file).expect("there"), "rubbish\n");
    let none = run(&["sdp", "--shortest", "8192", "--longest", "4096"], &config);
    assert_eq!(none.status.code(), Some(2));
    fs::remove_dir_all(&config).expect("removed");
}
