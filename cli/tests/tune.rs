//! `ferriband tune` as its users meet it: what is measured, by zero copy where it is said, and
//! where it is kept.

use ferriband_testkit::library_dir;
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

#[test]
fn puts_and_gets_are_measured_both_ways_and_what_follows_is_kept() {
    let config = scratch("putget");
    let few = [
        "putget",
        "--rounds",
        "1",
        "--shortest",
        "64",
        "--longest",
        "4060",
    ];
    let output = run(&[&few[..], &["--json"]].concat(), &config);
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let figures = report["figures"].as_array().expect("a list");
    let lengths = [
        64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4060,
    ];
    let seen: Vec<(&str, u64)> = figures
        .iter()
        .filter_map(|figure| Some((figure["operation"].as_str()?, figure["bytes"].as_u64()?)))
        .collect();
    let of = |operation| lengths.map(|bytes| (operation, bytes));
    assert_eq!(seen, [of("put"), of("get")].concat());
    for figure in figures {
        for name in ["short_ns", "long_ns"] {
            assert!(figure[name].as_f64().is_some_and(|ns| ns > 0.0), "{figure}");
        }
    }
    let device = report["device"]
        .as_str()
        .expect("a name")
        .replace(' ', "\t");
    let row = format!(
        "{device}\t{}\t{}\n",
        report["put_bytes"], report["get_bytes"]
    );
    let kept = fs::read_to_string(config.join("ferriband/putget-crossover.tsv")).expect("kept");
    assert!(kept.contains(&row), "{row} {kept}");
    let none = run(&["putget", "--shortest", "8", "--longest", "4"], &config);
    assert_eq!(none.status.code(), Some(2));
    fs::remove_dir_all(&config).expect("removed");
}

/// Of two processes by packets, with faults. Messages of more than a packet are slowed down, so
/// that the curves cross on any machine.
fn crossovers(faults: &[&str]) -> (u64, u64) {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "240", env!("CARGO_BIN_EXE_ferriband"), "run"]);
    for fault in faults {
        command.args(["--fault", fault]);
    }
    let tune =
        "tune putget --wire packets --rounds 1 --shortest 1024 --longest 12288 --write - --json";
    let output = command
        .args(["--", env!("CARGO_BIN_EXE_ferriband")])
        .args(tune.split(' '))
        .env("FERRIBAND_LIB_DIR", library_dir())
        .output()
        .expect("timeout runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let bytes = |name: &str| report[name].as_u64().expect("a length");
    (bytes("put_bytes"), bytes("get_bytes"))
}

#[test]
fn a_read_that_is_made_slower_moves_the_crossover_of_puts_and_not_that_of_gets() {
    let long_messages = "delay opcode=rc-send-last direction=tx delay-us=10000";
    let reads = "delay opcode=rc-rdma-read-request direction=tx delay-us=40000";
    let (put, get) = crossovers(&[long_messages]);
    assert!(put < 6144 && get < 6144, "{put} {get}");
    let (put, get) = crossovers(&[long_messages, reads]);
    assert_eq!(put, 12_288, "RDMA is the slower way of each put");
    // a get is moved by a WRITE
    assert!(get < 6144, "{get}");
}
