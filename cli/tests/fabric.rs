//! `ferriband fabric`, as a user types it.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn fabric(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferriband"))
        .arg("fabric")
        .args(words)
        .output()
        .expect("it can be run")
}

fn judged(words: &[&str]) -> (Option<i32>, serde_json::Value) {
    let out = fabric(&[&["route", "--json"], words].concat());
    let said = serde_json::from_slice(&out.stdout);
    let why = || String::from_utf8_lossy(&out.stderr).into_owned();
    (
        out.status.code(),
        said.unwrap_or_else(|_| panic!("{words:?}: {}", why())),
    )
}

#[test]
fn shortest_paths_in_a_ring_can_deadlock_and_updown_ones_cannot() {
    let (status, said) = judged(&["ring:5:2"]);
    assert_eq!(status, Some(1));
    assert_eq!(
        said["deadlock"]
            .as_str()
            .map(|text| text.matches("port").count()),
        Some(5)
    );
    // people are told names
    let out = fabric(&["route", "ring:5:2"]);
    let text = String::from_utf8_lossy(&out.stdout);
    let found = text.lines().find(|line| line.contains("DEADLOCK"));
    assert!(
        found.is_some_and(|line| line.contains("hosts: G") && !line.contains("0x")),
        "{text}"
    );
    let (status, said) = judged(&["ring:5:2", "--engine", "updn"]);
    assert_eq!((status, &said["good"]), (Some(0), &true.into()));
    assert_eq!(
        (&said["host_routes_lost"], &said["hosts"]),
        (&0.into(), &10.into())
    );
    assert_eq!(said["deadlock"], serde_json::Value::Null);
}

#[test]
fn groups_have_a_lane_of_their_own_where_one_is_left_and_else_it_is_said() {
    let (_, said) = judged(&["torus:4x4:1", "--engine", "lash"]);
    let lanes = said["lanes"].as_u64().unwrap();
    assert_eq!(said["group_level"].as_u64(), Some(lanes));
    assert_eq!(said["deadlock_with_groups"], serde_json::Value::Null);
    let most = lanes.to_string();
    let (status, said) = judged(&["torus:4x4:1", "--engine", "lash", "--lanes", &most]);
    assert_eq!((status, &said["lanes"]), (Some(0), &lanes.into()));
    assert_eq!(said["group_level"], 0);
    assert!(said["deadlock_with_groups"].is_string(), "{said}");
    let (_, said) = judged(&["torus:4x4:1", "--engine", "updn"]);
    assert_eq!(
        (&said["lanes"], &said["group_level"]),
        (&1.into(), &0.into())
    );
    assert_eq!(said["deadlock_with_groups"], serde_json::Value::Null);
}

#[test]
fn a_fabric_in_two_parts_is_not_good() {
    let dir = std::env::temp_dir().join(format!("ferriband-parts-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("t.net").display().to_string();
    let part = |switch: &str, host: &str| {
        format!("Switch 4 \"{switch}\"\n[1] \"{host}\"[1]\n\nHca 1 \"{host}\"\n\n")
    };
    std::fs::write(&file, part("A", "a") + &part("B", "b")).unwrap();
    let (status, said) = judged(&[&file]);
    assert_eq!((status, &said["good"]), (Some(1), &false.into()));
    let out = fabric(&["route", &file]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("1 channel adapters are not joined"), "{text}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_written_is_read_again_with_the_same_result() {
    let dir = std::env::temp_dir().join(format!("ferriband-fabric-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("t.net").display().to_string();
    let tables = dir.join("tables").display().to_string();
    let made = fabric(&["make", "torus:3x3:1", "-o", &file]);
    assert_eq!(made.status.code(), Some(0));
    let (_, mut one) = judged(&["torus:3x3:1", "--engine", "dor"]);
    let (_, mut other) = judged(&[&file, "--engine", "dor", "--tables", &tables]);
    for said in [&mut one, &mut other] {
        said["fabric"] = 0.into();
        said["bring_up_ns"] = 0.into();
    }
    let written = std::fs::read_to_string(&tables).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(one, other);
    // nine switches, each with a line for each of 18 LIDs
    assert_eq!(written.matches("Unicast lids [0-18]").count(), 9);
    assert_eq!(written.lines().count(), 9 * 19);
}

#[test]
fn a_fabric_in_toml_is_routed_as_its_netlist_is() {
    let dir = std::env::temp_dir().join(format!("ferriband-toml-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let file = |name: &str| dir.join(name).display().to_string();
    for name in ["t.toml", "t.net"] {
        let made = fabric(&["make", "dragonfly:2x2x1", "-o", &file(name)]);
        assert_eq!(made.status.code(), Some(0));
    }
    let (_, mut one) = judged(&[&file("t.toml"), "--engine", "lash"]);
    let (_, mut other) = judged(&[&file("t.net"), "--engine", "lash"]);
    std::fs::write(
        file("bad.toml"),
        "[[switches]]\nname = \"s\"\nports = 8\nspeed = 1\n",
    )
    .unwrap();
    let bad = fabric(&["route", &file("bad.toml")]);
    std::fs::remove_dir_all(&dir).unwrap();
    for said in [&mut one, &mut other] {
        said["fabric"] = 0.into();
        said["bring_up_ns"] = 0.into();
        // who comes first in a file is the manager's host
        said["manager"] = 0.into();
    }
    assert_eq!(one, other);
    let said = String::from_utf8_lossy(&bad.stderr);
    assert_eq!(bad.status.code(), Some(1));
    assert!(said.contains("line 4") && said.contains("speed"), "{said}");
}

#[test]
fn mistakes_are_named() {
    for (words, status, text) in [
        (&["route", "nothing"][..], 1, "neither a file nor a shape"),
        (
            &["route", "ring:5:2", "--engine", "x"],
            2,
            "engines: minhop",
        ),
        (&["route", "ring:5:2", "--manager", "x"], 2, "no node \"x\""),
        (&["route", "ring:5:2", "--root", "x"], 2, "neither a switch"),
        (&["route", "torus:5:2:9"], 1, "torus:5:2:9"),
    ] {
        let out = fabric(words);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    }
}
