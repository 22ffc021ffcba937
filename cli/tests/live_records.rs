//! Subnet administration as unmodified programs ask for it: each kind of record that saquery knows, from OpenSM and from our manager on one and the same fabric; and OpenSM's own
//! test of an administration, all of its flows.
//!
//! OpenSM is the master first, by its priority, and writes tables for quality of service; when it is killed our manager takes over. Ports keep what they were told, so both must say the same.

mod fabrics;

use fabrics::{Fabric, eventually, is_there};
use std::collections::BTreeMap;

type Record = BTreeMap<String, String>;

/// Records as saquery prints them. Lines of one name (a long table has several) are put together.
fn records(said: &str) -> Vec<Record> {
    let mut all = Vec::new();
    for line in said.lines() {
        let words = line.trim();
        if words.ends_with("dump:")
            && !line.starts_with("\t\t")
            && !words.starts_with("PortInfo dump")
        {
            all.push(Record::new());
        } else if let Some(record) = all.last_mut() {
            let (name, value) = match words.split_once(':') {
                Some((name, value)) if !name.contains("..") => (name, value),
                _ => words.split_once('.').unwrap_or((words, "")),
            };
            let value = value.trim_matches(['.', ' ']).to_owned();
            let known: &mut String = record.entry(name.trim().to_owned()).or_default();
            known.push_str(&value);
            known.push('\n');
        }
    }
    all
}

/// What differs between two managers that are both right: who is the master, how long its key protects, which port a question came by.
const ITS_OWN: [&str; 6] = [
    "SMLid",
    "MkeyLeasePeriod",
    "ClientReregister",
    "LocalPort",
    "CapMask",
    "IsSM",
];

/// Of a port that OpenSM does not program it keeps no tables, and says zeros.
fn is_known(record: &Record) -> bool {
    let zeros = |name: &str| {
        let value = record.get(name);
        value.is_none_or(|value| value.chars().all(|c| !c.is_ascii_digit() || c == '0'))
    };
    match record.get("LinkState") {
        Some(state) => state.trim() == "Active",
        None if record.contains_key("VL") => !zeros("VL") || !zeros("Weight"),
        None => true,
    }
}

fn comparable(record: &Record) -> String {
    let own = |(name, _): &(&String, &String)| !ITS_OWN.contains(&name.as_str());
    let lines = record.iter().filter(own);
    lines
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Each kind of record by its short name, with how many there are at least in a fat tree of four switches of 36 ports and four hosts, of those with something in them.
const KINDS: [(&str, usize); 10] = [
    ("NR", 8),
    ("PIR", 20),
    ("SL2VL", 100),
    ("PKTR", 8),
    ("VLAR", 16),
    ("LR", 16),
    ("PR", 64),
    ("LFTR", 4),
    ("GIR", 8),
    ("SWIR", 4),
];

#[test]
fn each_kind_of_record_is_answered_as_opensm_answers_it() {
    if !is_there("opensm", "opensm") || !is_there("saquery", "infiniband-diags") {
        return;
    }
    // OpenSM's usual key, by which the one that asks is trusted
    let fabric = Fabric::up("fat-tree:2x2x2", &["--keys", "none", "--priority", "0"]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let asks = &hosts[1].name;
    let ask = |kind: &str| {
        // while one manager hands over to the other nobody answers, and saquery asks once
        let host = format!("{}/{asks}", fabric.name);
        let words = [
            "run", "--host", &host, "--", "saquery", "-t", "2000", "--smkey", "1", kind,
        ];
        let mut said = String::new();
        eventually("administration answers", || {
            let output = fabrics::output(&words);
            said = fabrics::text(&output.stdout);
            output.status.success()
        });
        (records(&said), said)
    };
    let opensm = fabric.opensm(&hosts[2].name, &["-Q", "-p", "10"]);
    eventually("OpenSM is the master", || {
        let manager = fabric.status()["manager_says"].to_string();
        manager.contains("stands by")
    });
    // both managers are in it
    let managers = |master: &str| {
        let (found, _) = ask("SMIR");
        let states = found.iter().filter_map(|record| record.get("SMState"));
        let states: Vec<&str> = states.map(|state| state.trim()).collect();
        states.len() == 2
            && found
                .iter()
                .any(|record| record["Priority"].trim() == master)
    };
    eventually("OpenSM knows both managers", || managers("10"));
    // it has told ports all that it has to tell
    for (kind, least) in KINDS {
        eventually("OpenSM knows all records", || {
            ask(kind).0.iter().filter(|record| is_known(record)).count() >= least
        });
    }
    let theirs: Vec<_> = KINDS.iter().map(|(kind, _)| ask(kind).0).collect();
    drop(opensm);
    eventually("our manager has taken over", || {
        let says = fabric.status()["manager_says"].to_string();
        says.contains("the subnet is up")
    });
    for ((kind, least), theirs) in KINDS.iter().zip(&theirs) {
        let (ours, said) = ask(kind);
        let ours: Vec<String> = ours.iter().map(comparable).collect();
        let known: Vec<_> = theirs.iter().filter(|record| is_known(record)).collect();
        assert!(
            known.len() >= *least,
            "{kind}: {} of {}",
            known.len(),
            theirs.len()
        );
        for record in known {
            let wanted = comparable(record);
            // a switch's MulticastFDBTop is shown to those alone whose administration says that it knows it
            let found = ours.iter().any(|own| match *kind {
                "SWIR" => wanted.replace("MulticastFDBTop=0x0\n", "") == *own,
                _ => wanted == *own,
            });
            assert!(found, "{kind}: OpenSM says\n{record:#?}\nours\n{said}");
        }
        let every = ["PIR"].contains(kind) || ours.len() == theirs.len();
        assert!(every, "{kind}: {} and {}", ours.len(), theirs.len());
    }
    // those who are not trusted learn no partition keys
    let host = format!("{}/{asks}", fabric.name);
    let refused = fabrics::output(&["run", "--host", &host, "--", "saquery", "PKTR"]);
    let said = fabrics::text(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("REQ_INVALID"),
        "{said}"
    );
    // one node, one port, one input
    for (words, count) in [
        (["SL2VL", "2/1/3"], 1),
        (["SL2VL", "2/1"], 37),
        (["VLAR", "2/1"], 4),
        (["PKTR", "1"], 1),
        (["GIR", "1/0"], 1),
        (["LFTR", "2/0"], 1),
    ] {
        let mut all = vec!["saquery", "-t", "20000", "--smkey", "1"];
        all.extend(words);
        let said = fabric.run(asks, &all);
        assert_eq!(records(&said).len(), count, "{words:?}: {said}");
    }
}

#[test]
fn all_flows_of_opensms_own_test_pass_against_our_administration() {
    if !is_there("osmtest", "opensm") {
        return;
    }
    // it shows OpenSM's usual key, and cannot be told another
    let fabric = Fabric::up("torus:3x3:2", &["--keys", "none"]);
    fabric.wait_for_links();
    let host = fabric.hosts()[1].name.clone();
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(&fabric.name);
    std::fs::create_dir_all(&dir).expect("writable");
    let file = |name: &str| dir.join(name).to_str().expect("text").to_owned();
    let (inventory, log) = (file("inventory"), file("log"));
    // an inventory; everything compared with it; reports; groups; lanes and arbiters; all of that,
    // services, and a wrong key. The last two ask six times for what is not answered.
    for (flow, patience_ms) in [
        ("c", 5000),
        ("v", 5000),
        ("e", 5000),
        ("m", 5000),
        ("q", 5000),
        ("a", 2000),
    ] {
        let _ = std::fs::remove_file(&log);
        // it writes more files where it is
        let line = format!(
            "cd {} && exec osmtest -f {flow} -t {patience_ms} -i {inventory} -l {log}",
            dir.display()
        );
        let said = fabric.run(&host, &["sh", "-c", &line]);
        let passed = said.contains("PASS") && !said.contains("FAIL");
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(4_000)..];
        assert!(passed, "flow {flow}: {said}\n{tail}");
    }
    let services = fabric.run(&host, &["saquery", "-S"]);
    assert!(
        !services.contains("ServiceRecord"),
        "all are withdrawn: {services}"
    );
    let _ = std::fs::remove_dir_all(&dir);
}
