//! `ferriband sim fabric`, as a user types it.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::{Command, Output};

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferriband"))
        .args(["sim", "fabric"])
        .args(words)
        .output()
        .expect("it can be run")
}

fn said(words: &[&str]) -> (Option<i32>, Value) {
    let out = sim(&[&["--json"], words].concat());
    let why = || String::from_utf8_lossy(&out.stderr).into_owned();
    let said = serde_json::from_slice(&out.stdout);
    (
        out.status.code(),
        said.unwrap_or_else(|_| panic!("{words:?}: {}", why())),
    )
}

#[test]
fn the_tutorials_congestion_gives_what_is_worked_out_by_hand() {
    let (status, steps) = said(&["--example", "congestion"]);
    assert_eq!(status, Some(0));
    let steps = steps.as_array().unwrap();
    assert_eq!(steps.len(), 10);
    assert_eq!(steps[9]["slow_lane"], true);
    for step in steps {
        let within = if step["congestion_control"] == true {
            0.1
        } else {
            0.04
        };
        for (got, want) in step["shares"]
            .as_array()
            .unwrap()
            .iter()
            .zip(step["by_hand"].as_array().unwrap())
        {
            let (got, want) = (got.as_f64().unwrap(), want.as_f64().unwrap());
            assert!((got - want).abs() <= within * want, "{step}");
        }
    }
    // the sixth, the third and the half of the victim are all among them
    let victim = |at: usize| steps[at]["by_hand"][3].as_f64().unwrap();
    assert_eq!(
        (victim(4), victim(6), victim(8)),
        (1.0 / 3.0, 1.0 / 6.0, 0.5)
    );
}

#[test]
fn the_tutorials_nine_switches_forbid_a_turn() {
    let (status, said) = said(&["--example", "tutorial"]);
    assert_eq!(status, Some(0));
    assert_eq!(said["ranks"][1].as_array().unwrap().len(), 4);
    assert!(
        said["up"]
            .as_array()
            .unwrap()
            .contains(&serde_json::json!(["c", "b"]))
    );
    let turn = serde_json::json!(["c", "g", "d"]);
    assert!(said["forbidden_turns"].as_array().unwrap().contains(&turn));
}

#[test]
fn the_same_words_are_the_same_run_and_load_that_fits_is_delivered() {
    let words = [
        "fat-tree:4x4x4",
        "--load",
        "0.4",
        "--engine",
        "ftree",
        "--duration",
        "2ms",
        "--samples",
        "10",
    ];
    let one = sim(&[&words[..], &["--json"]].concat());
    let other = sim(&[&words[..], &["--json"]].concat());
    assert_eq!(one.stdout, other.stdout);
    let other = sim(&[&words[..], &["--json", "--seed", "2"]].concat());
    assert_ne!(one.stdout, other.stdout);
    let said: Value = serde_json::from_slice(&one.stdout).unwrap();
    let delivered = said["throughput"]["delivered"].as_f64().unwrap();
    assert!((delivered - 0.4).abs() < 0.02, "{delivered}");
    assert_eq!(said["over_time"].as_array().unwrap().len(), 10);
    assert_eq!(
        said["link_directions"].as_array().unwrap().len(),
        2 * (16 + 16)
    );
    assert_eq!(said["packets_discarded"], 0);
    assert!(said["packet_latency"]["p99_ns"].as_f64() >= said["packet_latency"]["p50_ns"].as_f64());
}

#[test]
fn a_large_fabric_is_the_same_on_any_number_of_threads() {
    let words = [
        "fat-tree:36x18x18",
        "--link",
        "4xEDR",
        "--duration",
        "60us",
        "--warm-up",
        "10us",
        "--samples",
        "1",
        "--threads",
    ];
    let json = |threads| sim(&[&words[..], &[threads, "--json", "--all-links"]].concat());
    let one = json("1");
    assert_eq!(one.status.code(), Some(0));
    let said: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert!(said["packet_hops"].as_u64() > Some(100_000), "{said}");
    for threads in ["2", "3"] {
        assert!(
            json(threads).stdout == one.stdout,
            "{threads} threads give another result"
        );
        let text = sim(&[&words[..], &[threads]].concat()).stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(&format!(" on {threads} threads: ")), "{text}");
    }
    assert_eq!(json("0").status.code(), Some(2));
}

#[test]
fn a_hot_spots_flows_go_to_the_slow_lane_and_others_are_faster_for_it() {
    let words = [
        "fat-tree:4x4x2",
        "--engine",
        "updn",
        "--traffic",
        "hot-spot:0.3",
        "--load",
        "0.3",
        "--duration",
        "20ms",
        "--warm-up",
        "2ms",
    ];
    let (status, plain) = said(&words);
    assert_eq!(status, Some(0));
    assert_eq!(
        (&plain["lanes"], &plain["slow_lane_ns"]),
        (&1.into(), &Value::Null)
    );
    let (status, slow) = said(&[&words[..], &["--slow-lane=50us"]].concat());
    assert_eq!(status, Some(0));
    assert_eq!(
        (&slow["lanes"], &slow["slow_lane_ns"]),
        (&2.into(), &50_000.0.into())
    );
    let there = slow["slow_hosts"].as_array().unwrap();
    assert_eq!(there.len(), 1, "{there:?}");
    let half = |of: &Value| of["packet_latency"]["p50_ns"].as_f64().unwrap();
    assert!(
        half(&slow) * 2.0 < half(&plain),
        "{} {}",
        half(&slow),
        half(&plain)
    );
    let delivered = |of: &Value| of["throughput"]["delivered"].as_f64().unwrap();
    assert!(
        delivered(&slow) > delivered(&plain),
        "{} {}",
        delivered(&slow),
        delivered(&plain)
    );

    // lanes for deadlock freedom are doubled, more than there are is refused, and so is nonsense
    let (status, said) = said(&[
        "torus:5x5:1",
        "--engine",
        "lash",
        "--slow-lane",
        "--load",
        "0.2",
    ]);
    assert_eq!((status, said["lanes"].as_u64().unwrap() % 2), (Some(0), 0));
    let words = ["torus:10x10:1", "--engine", "lash"];
    let refused = sim(&[&words[..], &["--slow-lane"]].concat());
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(
        why.contains("a slow lane for each would make more than 15"),
        "{why}"
    );
    assert_eq!(
        sim(&["ring:4:1", "--slow-lane=soon"]).status.code(),
        Some(2)
    );
}

#[test]
fn an_incast_has_one_root_and_a_hot_spot_is_cooled_by_congestion_control() {
    let words = [
        "fat-tree:4x4x2",
        "--engine",
        "updn",
        "--traffic",
        "incast",
        "--load",
        "1",
    ];
    let (_, incast) = said(&words);
    let last = incast["over_time"].as_array().unwrap().last().unwrap();
    let tree = last["trees"][0].as_array().unwrap();
    // the root is the port of the first leaf to the first host, and packets wait on the way there
    assert_eq!(
        (&tree[0]["node"], &tree[0]["port"]),
        (&"L0".into(), &1.into())
    );
    assert!(tree.len() > 4 && tree[1]["depth"] == 1, "{last}");
    let delivered = incast["throughput"]["gbps"].as_f64().unwrap();
    assert!(
        (7.9..8.0).contains(&delivered),
        "one 4x SDR link: {delivered}"
    );

    let words = [
        "fat-tree:4x4x2",
        "--engine",
        "updn",
        "--traffic",
        "hot-spot:0.3",
        "--load",
        "0.5",
        "--duration",
        "4ms",
        "--warm-up",
        "2ms",
    ];
    let (_, without) = said(&words);
    let (_, with) = said(&[&words[..], &["--congestion-control"]].concat());
    let delivered = |said: &Value| said["throughput"]["delivered"].as_f64().unwrap();
    assert!(with["packets_marked"].as_u64() > Some(100));
    assert!(
        delivered(&with) > 1.2 * delivered(&without),
        "{} {}",
        delivered(&with),
        delivered(&without)
    );
}

#[test]
fn every_pattern_runs_and_lanes_are_those_of_the_engine() {
    for (traffic, engine) in [
        ("permutation", "lash"),
        ("all-to-all", "dfsssp"),
        ("shift:3", "torus-2qos"),
        ("incast:5", "minhop"),
        ("hot-spot", "dor"),
    ] {
        let words = [
            "torus:4x4:1",
            "--engine",
            engine,
            "--traffic",
            traffic,
            "--load",
            "0.2",
            "--message",
            "5K",
        ];
        let (status, said) = said(&words);
        assert_eq!(status, Some(0), "{traffic}");
        let (offered, delivered) = (
            &said["throughput"]["offered"],
            &said["throughput"]["delivered"],
        );
        let (offered, delivered) = (offered.as_f64().unwrap(), delivered.as_f64().unwrap());
        assert!(
            delivered > 0.4 * offered,
            "{traffic}: {delivered} of {offered}"
        );
        assert_eq!(said["packets_discarded"], 0, "{traffic}");
        let lanes = said["lanes"].as_u64().unwrap();
        let several = matches!(engine, "lash" | "dfsssp" | "torus-2qos");
        assert_eq!(lanes > 1, several, "{engine}: {lanes}");
    }
}

#[test]
fn a_ring_with_shortest_paths_locks_up_and_with_lanes_it_does_not() {
    let words = [
        "ring:5:1",
        "--traffic",
        "shift:2",
        "--load",
        "1",
        "--buffer",
        "4480",
        "--duration",
        "3ms",
        "--switch",
        "fifo",
        "--pick",
        "random",
    ];
    let (status, locked) = said(&words);
    assert_eq!((status, &locked["locked_up"]), (Some(1), &true.into()));
    let (status, free) = said(&[&words[..], &["--engine", "lash"]].concat());
    assert_eq!((status, &free["locked_up"]), (Some(0), &false.into()));
}

#[test]
fn a_trace_is_replayed_to_its_end_and_pictures_are_written() {
    let dir = std::env::temp_dir().join(format!("ferriband-sim-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let trace = dir.join("trace.json");
    let mut events = Vec::new();
    // ranks 0 to 3, each to the next, 100 messages of 10,000 bytes; rank 8 is at the same host as rank 0
    for number in 0..100_u64 {
        let (from, to) = (number % 4, (number + 1) % 4);
        events.push(serde_json::json!({"ph": "s", "id": number, "pid": from, "ts": number, "args": {"bytes": 10_000}}));
        events.push(serde_json::json!({"ph": "f", "id": number, "pid": to, "ts": number + 5}));
    }
    events
        .push(serde_json::json!({"ph": "s", "id": 1000, "pid": 0, "ts": 3, "args": {"bytes": 1}}));
    events.push(serde_json::json!({"ph": "f", "id": 1000, "pid": 8, "ts": 4}));
    let text = serde_json::json!({ "traceEvents": events }).to_string();
    std::fs::write(&trace, text).unwrap();
    let page = dir.join("page.html");
    let pictures = dir.join("pictures");
    let traffic = format!("trace:{}", trace.display());
    let (status, said) = said(&[
        "fat-tree:2x4x1",
        "--traffic",
        &traffic,
        "--html",
        &page.display().to_string(),
        "--svg",
        &pictures.display().to_string(),
    ]);
    let page = std::fs::read_to_string(page).unwrap();
    let names = ["throughput", "latency", "links", "congestion"];
    let svg =
        names.map(|name| std::fs::read_to_string(pictures.join(format!("{name}.svg"))).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(status, Some(0));
    assert_eq!(
        (&said["messages_offered"], &said["messages_local"]),
        (&100.into(), &1.into())
    );
    assert_eq!(said["message_latency"]["count"], 100);
    assert_eq!(said["packet_latency"]["count"], 500, "five packets each");
    for picture in &svg {
        assert!(page.contains(picture.as_str()));
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>"));
    }
    // both directions of a link between a host and its switch, and those between switches
    for title in [
        "<title>H0_0 to L0 port ",
        "<title>L0 port 1: ",
        "<title>S0 port 2: ",
    ] {
        assert!(svg[2].contains(title), "{title}");
    }
    // nothing is fetched from anywhere
    assert_eq!(
        page.matches("http").count(),
        page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
    );
}

#[test]
fn what_cannot_be_run_is_said_clearly() {
    for (words, status, text) in [
        (&[][..], 2, "FABRIC"),
        (&["fat-tree:2x2x1", "--traffic", "x"], 2, "no traffic"),
        (&["fat-tree:2x2x1", "--load", "2"], 2, "no load"),
        (&["fat-tree:2x2x1", "--traffic", "shift:4"], 2, "to itself"),
        (&["fat-tree:1x1x1"], 1, "two hosts"),
        (
            &["fat-tree:2x2x1", "--traffic", "trace:/nonexistent"],
            1,
            "/nonexistent",
        ),
        (
            &["fat-tree:254x200x2", "--engine", "updn"],
            1,
            "--wide-lids",
        ),
        (&["fat-tree:2x2x1", "--duration", "5"], 2, "no time"),
    ] {
        let out = sim(words);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    }
}
