//! `ferriband repro` as its users meet it: what there is, verdicts from a file of data, an
//! experiment from end to end, and verdicts that turn when coalescing is switched off.

mod libraries;

use libraries::library_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Two experiments at a time would measure each other.
static MEASURES: Mutex<()> = Mutex::new(());

fn run(arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["-k", "5", "240", env!("CARGO_BIN_EXE_ferriband"), "repro"])
        .args(arguments)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .output()
        .expect("timeout runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a run with --json printed.
fn report(arguments: &[&str]) -> serde_json::Value {
    let output = run(&[arguments, &["--json"]].concat());
    let printed = serde_json::from_slice(&output.stdout);
    printed.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// A path below the directory for files of tests.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("repro-{}-{name}", std::process::id()))
}

#[test]
fn figures_are_listed_and_others_refused() {
    let listed = run(&[]);
    assert!(listed.status.success());
    for figure in ["6a", "6b", "8", "9", "10"] {
        assert!(
            text(&listed.stdout).contains(&format!("004    {figure} ")),
            "{figure}"
        );
    }
    for wrong in [["999", "6a"], ["004", "7"]] {
        let refused = run(&wrong);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("there is no"));
    }
    assert_eq!(run(&["004"]).status.code(), Some(2));
}

#[test]
fn verdicts_and_exit_status_follow_from_a_file_of_data() {
    let path = scratch("from.csv");
    let figure = |nic: &str| {
        let rows = ["credit,64,1.00", "ring,64,1.05", nic];
        let rows = rows.map(|row| format!("{row},1,2,8\n")).concat();
        fs::write(&path, format!("series,x,mean,lowest,highest,runs\n{rows}")).expect("writable");
        run(&["004", "6a", "--from", path.to_str().expect("UTF-8")])
    };
    let holds = figure("nic,64,1.09");
    assert!(holds.status.success(), "{}", text(&holds.stderr));
    assert!(text(&holds.stdout).contains("\nholds: "));
    let fails = figure("nic,64,1.11");
    assert_eq!(fails.status.code(), Some(1));
    assert!(text(&fails.stdout).contains("\nDOES NOT HOLD: "));
    let broken = figure("nic,64");
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stderr).contains("line 4 is no point"));
    fs::remove_file(&path).expect("it was written");
}

#[test]
fn an_experiment_runs_and_its_data_can_be_judged_again() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for figure in ["6a", "8", "9", "10"] {
        let path = scratch(figure);
        let name = path.to_str().expect("UTF-8");
        let measured = report(&["004", figure, "--quick", "--csv", name]);
        let again = report(&["004", figure, "--from", name]);
        assert_eq!(measured["verdicts"], again["verdicts"], "{figure}");
        assert_eq!(measured["data"], again["data"], "{figure}");
        let points = measured["data"].as_array().expect("points");
        assert!(points.len() >= 6, "{figure}: {points:?}");
        for point in points {
            assert!(
                point["mean"].as_f64().is_some_and(|mean| mean > 0.0),
                "{point}"
            );
        }
        fs::remove_file(&path).expect("it was written");
    }
}
