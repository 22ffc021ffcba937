//! `ferriband fault link flap`, `fault plan` and `fault fatal --hard` upon a running adapter.

use super::*;

/// As [`on_packets`], in this module.
macro_rules! on_packets {
    ($name:ident, $body:block) => {
        #[test]
        fn $name() {
            let name = concat!("plans::", stringify!($name));
            inside(name, ETHERNET, Some("roce"), || $body);
        }
    };
}

/// A file of a plan.
fn plan(name: &str, text: &str) -> Scratch {
    let file = Scratch::file(name);
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The next event's kind.
fn heard(pair: &mut Pair) -> u64 {
    next_event(pair).expect("an event")
}

#[test]
fn a_link_flaps_and_messages_go_on() {
    inside(
        "plans::a_link_flaps_and_messages_go_on",
        ETHERNET,
        Some("roce"),
        || {
            flaps(ETHERNET);
        },
    );
}

#[test]
fn so_does_that_of_the_infiniband_device() {
    let name = "plans::so_does_that_of_the_infiniband_device";
    inside(name, NATIVE, Some("packets"), || flaps(NATIVE));
}

fn flaps(device: &str) {
    // without a time-out nothing but the link's return has lost messages sent again
    let endless = Setup {
        timeout: 0,
        ..SETUP
    };
    let mut pair = Pair::alike(Party::here(), Party::here(), endless);
    let flap = |words: &[&str]| {
        let command = [&["fault", "link", "flap", device], words].concat();
        json(&[&command[..], &["--json"]].concat())
    };
    let said = flap(&["--down", "20ms", "--up", "1ms", "--times", "4"]);
    assert_eq!(
        (&said["device"], &said["times"]),
        (&device.into(), &4.into())
    );
    assert!(said["down_ms"]["least"].as_f64().unwrap() >= 20.0, "{said}");
    assert_eq!(said["processes"], 1, "{said}");
    let (down, up) = (AsyncKind::PortErr as u64, AsyncKind::PortActive as u64);
    for _ in 0..4 {
        assert_eq!((heard(&mut pair), heard(&mut pair)), (down, up));
    }
    pair.exchange();
    // while it is down nothing comes through, and what was sent then arrives
    let mut tool = ferriband(&["fault", "link", "flap", device, "--down", "400ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(heard(&mut pair), down);
    let lost = Ask::new(SendOpcode::RdmaWrite, 5000, &pair.bi).id(1);
    pair.a.post(&pair.ai, &lost);
    assert_eq!(heard(&mut pair), up);
    pair.a.expect(&pair.ai, 1, WcStatus::Success);
    assert!(tool.wait().unwrap().success());
    let mut said = String::new();
    tool.stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("down and up again 1 time, for"), "{said}");
    assert!(said.contains("in 1 processes"), "{said}");
    for wrong in [&["--down", "0s"][..], &["--times", "0"], &["--up", "2"]] {
        let command = [&["fault", "link", "flap", device], wrong].concat();
        assert_eq!(output(&command).status.code(), Some(2), "{wrong:?}");
    }
    assert!(
        !output(&["fault", "link", "flap", "ferri_none"])
            .status
            .success()
    );
}

#[test]
fn an_interrupted_flap_leaves_the_link_up() {
    let name = "plans::an_interrupted_flap_leaves_the_link_up";
    inside(name, ETHERNET, Some("roce"), || {
        let mut pair = here();
        let mut tool = ferriband(&["fault", "link", "flap", ETHERNET, "--down", "1h"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(heard(&mut pair), AsyncKind::PortErr as u64);
        // SAFETY: a process of ours that was not waited for.
        unsafe { libc::kill(tool.id() as i32, libc::SIGINT) };
        assert_eq!(tool.wait().unwrap().code(), Some(130));
        assert_eq!(heard(&mut pair), AsyncKind::PortActive as u64);
        assert_eq!(
            json(&["fault", "list", "--json"])["links_down"],
            serde_json::json!([])
        );
        pair.exchange();
    });
}

on_packets!(a_plan_is_carried_out_in_its_order_and_cleared, {
    let mut pair = here();
    let file = plan(
        "order.plan",
        &format!(
            "seed 3\nat 0 add delay --probability 0.5 --delay-us 100\nat 20ms port-error {ETHERNET}\n\
             at 30ms fatal --gone ferri_none\n"
        ),
    );
    let path = file.text();
    // a device that is not there is an error before anything is done
    let wrong = output(&["fault", "plan", path]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        said.contains(&format!("{path}:4: ")) && said.contains("ferri_none"),
        "{said}"
    );
    assert_eq!(done(&["fault", "list"]), "no fault rules\n");

    let file = plan(
        "order.plan",
        &format!(
            "seed 3\nat 0 add delay --probability 0.5 --delay-us 100\nat 20ms port-error {ETHERNET}\n\
             at 40ms link down {ETHERNET}\nat 50ms clear 63\nat 60ms link up {ETHERNET}\n\
             every 100ms one of port-error {ETHERNET} | link flap {ETHERNET} --down 1ms\nfor 350ms\n"
        ),
    );
    let path = file.text();
    let shown = json(&["fault", "plan", "--dry-run", "--json", path]);
    let told = output(&["fault", "plan", "--json", path]);
    // what cannot be cleared is a failure, and the plan goes on
    assert_eq!(told.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(
        (&told["failures"], &told["seed"]),
        (&1.into(), &3.into()),
        "{told}"
    );
    let words = |list: &serde_json::Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|step| step["command"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(words(&shown["steps"]), words(&told["events"]), "{told}");
    assert!(words(&told["events"]).len() >= 5 + 3, "{told}");
    let failed = told["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| !event["error"].is_null());
    let failed: Vec<_> = failed.map(|event| event["command"].clone()).collect();
    assert_eq!(failed, ["clear 63"]);
    let times = told["events"].as_array().unwrap().iter();
    let times: Vec<f64> = times.map(|event| event["at_s"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[4] >= 0.06, "{times:?}");
    // the rule is gone, the link is up
    assert_eq!(done(&["fault", "list"]), "no fault rules\n");
    pair.exchange();
});

on_packets!(an_interrupted_plan_takes_back_what_it_has_set, {
    let mut pair = here();
    let file = plan(
        "long.plan",
        &format!("at 0 add drop --opcode ack\nat 1ms fatal --for 1h {ETHERNET}\nfor 1h\n"),
    );
    let mut tool = ferriband(&["fault", "plan", file.text()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(heard(&mut pair), AsyncKind::DeviceFatal as u64);
    // the tool has told, and waits
    let mut said = BufReader::new(tool.stdout.take().unwrap());
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        said.read_line(line).unwrap();
    }
    assert!(
        lines[0].contains(" s  add drop --opcode ack: rule 0: drop"),
        "{lines:?}"
    );
    assert!(lines[1].contains("failed for 3600.0 s"), "{lines:?}");
    assert_eq!(opened(), libc::EIO);
    // SAFETY: a process of ours that was not waited for.
    unsafe { libc::kill(tool.id() as i32, libc::SIGTERM) };
    assert_eq!(tool.wait().unwrap().code(), Some(130));
    assert_eq!(opened(), 0);
    assert_eq!(done(&["fault", "list"]), "no fault rules\n");
    here().exchange();
});

#[test]
fn where_nothing_runs_a_plan_says_so() {
    let name = "plans::where_nothing_runs_a_plan_says_so";
    inside(name, ETHERNET, Some("roce"), || {
        let file = plan("nobody.plan", "at 1s clear all\n");
        let path = file.text();
        let refused = output(&["fault", "plan", path]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing runs"));
        assert_eq!(
            done(&["fault", "plan", "--dry-run", path]),
            "    1.000 s  clear all\n"
        );
        assert!(!output(&["fault", "plan", "/nowhere/plan"]).status.success());
    });
}

#[test]
fn a_hard_failure_takes_completions_along_that_nobody_has_taken() {
    let name = "plans::a_hard_failure_takes_completions_along_that_nobody_has_taken";
    inside(name, ETHERNET, Some("roce"), || fails_hard(ETHERNET));
}

#[test]
fn so_it_does_by_shared_memory() {
    let name = "plans::so_it_does_by_shared_memory";
    inside(name, NATIVE, None, || fails_hard(NATIVE));
}

fn fails_hard(device: &str) {
    for hard in [false, true] {
        let mut pair = here();
        for id in [5, 6] {
            pair.b.recv(&pair.bi, id, 0, 8);
        }
        let message = Ask::new(SendOpcode::Send, 8, &pair.bi).id(1);
        pair.a.post(&pair.ai, &message);
        pair.a.expect(&pair.ai, 1, WcStatus::Success);
        let words: &[&str] = if hard { &["--hard"] } else { &[] };
        done(&[&["fault", "fatal", device], words].concat());
        assert_eq!(heard(&mut pair), AsyncKind::DeviceFatal as u64);
        if !hard {
            pair.b.expect(&pair.bi, 5, WcStatus::Success);
        }
        pair.b.expect(&pair.bi, 6, WcStatus::WrFlushErr);
        pair.b.expect_quiet(&pair.bi, 30);
    }
}
