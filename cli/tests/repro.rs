//! `ferriband repro` as its users meet it: what there is, verdicts from a file of data, an
//! experiment from end to end, and verdicts that turn when coalescing is switched off; and
//! `ferriband-dev bench --heal`, which measures by the programs of `repro 003`.

use ferriband_testkit::library_dir;
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
    for figure in ["table2", "table3", "table4", "fig7", "latency"] {
        assert!(
            text(&listed.stdout).contains(&format!("002    {figure} ")),
            "{figure}"
        );
    }
    for figure in ["fig4", "fig5", "table1", "recovery"] {
        assert!(
            text(&listed.stdout).contains(&format!("003    {figure} ")),
            "{figure}"
        );
    }
    for wrong in [["999", "6a"], ["004", "7"], ["003", "fig6"]] {
        let refused = run(&wrong);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("there is no"));
    }
    // a file of data is one figure's
    let all = run(&["004", "--csv", "all.csv"]);
    assert_eq!(all.status.code(), Some(2));
    assert!(text(&all.stderr).contains("say which"));
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

#[test]
fn the_papers_figures_stand_beside_ours_and_its_hardwares_claims_are_called_so() {
    let path = scratch("table3.csv");
    let rows = [
        "UP,4,10",
        "SMP,4,10",
        "first driver UP,4,10",
        "first driver SMP,4,10",
    ];
    let more = ["UP,4060,20", "SMP,4060,20", "SMP,256,12", "SMP,4096,15"];
    let rows = [rows, more].concat().into_iter();
    let rows: String = rows.map(|row| format!("{row},1,2,8\n")).collect();
    fs::write(&path, format!("series,x,mean,lowest,highest,runs\n{rows}")).expect("writable");
    let shown = run(&["002", "table3", "--from", path.to_str().expect("UTF-8")]);
    fs::remove_file(&path).expect("it was written");
    assert!(shown.status.success(), "{}", text(&shown.stdout));
    let shown = text(&shown.stdout);
    let row = |words: &[&str]| {
        let mut lines = shown.lines();
        lines.any(|line| line.split_whitespace().eq(words.iter().copied()))
    };
    assert!(row(&["UP", "4060", "156", "20.0"]), "{shown}");
    assert!(row(&["SMP", "4096", "error", "15.0"]), "{shown}");
    assert_eq!(shown.matches("\nholds: ").count(), 2, "{shown}");
    let alone = "\nof the paper's hardware alone, not judged: ";
    assert_eq!(shown.matches(alone).count(), 2, "{shown}");
}

/// Notifications and bytes of messages are exact, whatever the machine does.
#[test]
fn the_drivers_run_and_cost_the_notifications_that_the_paper_counts() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    let report = report(&["002", "latency", "--quick"]);
    let mean = |series: &str| {
        let mut points = report["data"].as_array().expect("points").iter();
        let point = points.find(|point| point["series"] == series);
        let point = point.unwrap_or_else(|| panic!("no {series}: {report}"));
        point["mean"].as_f64().expect("a number")
    };
    for side in ["master", "slave"] {
        assert_eq!(mean(&format!("notifications short {side}")), 1.0);
        assert_eq!(mean(&format!("notifications long {side}")), 2.0);
    }
    assert_eq!(mean("message bytes"), 36.0 + 4.0);
    assert!(mean("notifications of the first driver") <= 2.0);
    assert!(mean("MB/s") > 0.0 && mean("processors") > 0.0);
}

#[test]
fn the_drivers_run_between_two_hosts() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for figure in ["table2", "table3", "table4"] {
        let path = scratch(figure);
        let name = path.to_str().expect("UTF-8");
        let output = run(&["002", figure, "--quick", "--csv", name, "--json"]);
        if output.status.code() == Some(77) {
            eprintln!("skipped: {}", text(&output.stderr));
            return;
        }
        let errors = text(&output.stderr);
        let measured: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{figure}: {error}: {errors}"));
        let again = report(&["002", figure, "--from", name]);
        fs::remove_file(&path).expect("it was written");
        assert_eq!(measured["verdicts"], again["verdicts"], "{figure}");
        assert!(!measured["printed"].as_array().expect("a list").is_empty());
        // each figure that the paper prints has one beside it, where it is measured here
        let points = measured["data"].as_array().expect("points");
        for printed in measured["printed"].as_array().expect("a list") {
            let is_it = |point: &&serde_json::Value| {
                ["series", "x"]
                    .iter()
                    .all(|key| point[*key] == printed[*key])
            };
            let point = points.iter().find(is_it);
            let point = point.unwrap_or_else(|| panic!("{figure}: nothing beside {printed}"));
            assert!(point["mean"].as_f64().is_some(), "{point}");
        }
    }
}

/// What is compared of a resilient MPI is measured in one run, and each figure says what it was
/// measured on.
#[test]
fn messages_kernels_and_buffers_are_measured_with_acknowledgements_and_without() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for (figure, wanted) in [
        (
            "fig4",
            vec![
                "us RPut",
                "us RGet-Rel",
                "MB/s both ways lane",
                "latency ratio lane",
            ],
        ),
        ("fig5", vec!["ms RPut", "ms RGet-Rel", "ratio lane"]),
        ("table1", vec!["sort reliable", "sort normal"]),
    ] {
        let Some(measured) = between_hosts(figure) else {
            return;
        };
        let points = measured["data"].as_array().expect("points");
        for series in wanted {
            let mut of_it = points.iter().filter(|point| point["series"] == series);
            assert!(of_it.next().is_some(), "{figure}: no {series}");
        }
        let mean = |series: &str, x: u64| {
            let is_it = |point: &&serde_json::Value| point["series"] == series && point["x"] == x;
            points
                .iter()
                .find(is_it)
                .and_then(|point| point["mean"].as_f64())
        };
        match figure {
            // what is kept until it is acknowledged takes memory, and without there is none
            "table1" => assert!(mean("sort reliable", 16) > mean("sort normal", 16)),
            "fig4" => assert!(mean("us RGet", 65_536) > Some(0.0)),
            _ => assert!(mean("ms lane", 1) > Some(0.0)),
        }
    }
}

#[test]
fn recoveries_of_queue_pairs_links_and_adapters_are_measured() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(measured) = between_hosts("recovery") else {
        return;
    };
    let points = measured["data"].as_array().expect("points");
    let mean = |series: &str, x: u64| {
        let is_it = |point: &&serde_json::Value| point["series"] == series && point["x"] == x;
        let point = points.iter().find(is_it);
        let point = point.unwrap_or_else(|| panic!("no {series} at {x}: {measured}"));
        point["mean"].as_f64().expect("a number")
    };
    assert_eq!(mean("failures of queue pair", 0), 15.0, "five in each run");
    let first = mean("us queue pair: first message", 50);
    for part in ["detect", "fence", "reconnect", "replay"] {
        let part = mean(&format!("us queue pair: {part}"), 50);
        assert!(part > 0.0 && part.is_finite());
    }
    assert!(mean("us queue pair: reconnect", 50) > 0.1 && first > 0.1);
    for end in ["here", "there"] {
        assert!(mean(&format!("us link {end}: datagram"), 99) > 0.0);
        assert!(mean(&format!("us link {end}: message"), 99) > 0.0);
    }
    assert!(mean("jobs that go on with adapter fatal", 0) <= 1.0);
}

#[test]
fn each_row_of_the_bench_of_heals_finds_a_figure_and_its_floor() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new("timeout")
        .args(["-k", "5", "300", env!("CARGO_BIN_EXE_ferriband-dev")])
        .args(["bench", "--heal", "--quick", "--rounds", "1", "--json"])
        .env("FERRIBAND_LIB_DIR", library_dir())
        .output()
        .expect("timeout runs");
    if output.status.code() == Some(77) {
        eprintln!("skipped: {}", text(&output.stderr));
        return;
    }
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 25);
    for row in rows {
        assert!(row["problem"].is_null(), "{row}");
        assert!(
            row["figure"].as_f64().is_some_and(|figure| figure >= 0.0),
            "{row}"
        );
        // TCP may not come back between two flaps
        let has_floor = row["floor_name"] != "" && row["floor_name"] != "TCP's";
        assert!(!has_floor || row["ratio"].as_f64().is_some(), "{row}");
    }
}

/// A figure of papers/003 by short runs, judged again; None where there can be no two hosts.
fn between_hosts(figure: &str) -> Option<serde_json::Value> {
    let path = scratch(figure);
    let name = path.to_str().expect("UTF-8");
    let output = run(&["003", figure, "--quick", "--csv", name, "--json"]);
    let errors = text(&output.stderr);
    if output.status.code() == Some(77) {
        eprintln!("skipped: {errors}");
        return None;
    }
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{figure}: {error}: {errors}"));
    let again = report(&["003", figure, "--from", name]);
    fs::remove_file(&path).expect("it was written");
    assert_eq!(measured["verdicts"], again["verdicts"], "{figure}");
    let note = measured["note"].as_str().expect("a sentence");
    assert!(note.starts_with("This is software on one host"), "{note}");
    Some(measured)
}
