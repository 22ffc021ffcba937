//! Credits and pace of a live fabric's links, by Debian's perftest and infiniband-diags.

mod fabrics;

use fabrics::*;
use std::process::{Child, Stdio};

/// What a link of 4x SDR carries, in bytes a second.
const SDR_BYTES: f64 = 1e9;
/// So much of it: slow enough that what waits at a link keeps it busy while a program that sends has no core.
const PACE: f64 = 0.005;

/// "BW average" of the last line of perftest's table, in bytes a second: its MB are 2^20 bytes.
fn bandwidth(said: &str) -> f64 {
    let lines = said.lines().rev();
    let numbers = |line: &str| -> Vec<f64> {
        let words = line.split_whitespace();
        words.map_while(|word| word.parse().ok()).collect()
    };
    let row = lines.map(numbers).find(|row| row.len() >= 5);
    row.unwrap_or_else(|| panic!("no result: {said}"))[3] * f64::from(1 << 20)
}

fn start(fabric: &Fabric, host: &str, words: &[&str]) -> Child {
    ferriband(&["run", "--host", &format!("{}/{host}", fabric.name), "--"])
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ferriband runs")
}

/// All has come to rest, and no credit is missing.
fn credits_are_back(fabric: &Fabric) {
    eventually("what was on links has come to its end", || {
        let credits = &fabric.status()["credits"];
        assert_eq!(credits["wrong_lanes"], 0, "{credits}");
        assert!(credits["lanes"].as_u64() > Some(0), "{credits}");
        credits["taken_blocks"] == 0 && credits["waiting_packets"] == 0
    });
}

/// A counter of a port as Debian's perfquery prints it.
fn counter(fabric: &Fabric, asker: &str, lid: u64, port: u8, name: &str) -> u64 {
    let (lid, port) = (lid.to_string(), port.to_string());
    let said = fabric.run(asker, &["perfquery", &lid, &port]);
    let line = said.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.rsplit('.').next());
    let number = number.and_then(|text| text.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {name}: {said}"))
}

#[test]
fn a_paced_link_carries_its_share_and_those_who_wait_for_credits_count_it() {
    if !is_there("ib_write_bw", "perftest") || !is_there("perfquery", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &["--rate-scale", "0.005"]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (near, beside, far) = (&hosts[0], &hosts[1], &hosts[5]);
    // on a slow link an acknowledgement takes its time: a second, not 67 ms
    let words = ["ib_write_bw", "-s", "65536", "-n", "200", "-F", "-u", "18"];
    let places = [far.name.as_str(), near.name.as_str()];
    // never faster; as fast, unless the machine has other work, at least once
    let once = || {
        let begun = std::time::Instant::now();
        let [_, said] = pair(&fabric, places, &far.address, &words);
        assert!(begun.elapsed().as_secs_f64() > 200.0 * 65536.0 / (PACE * SDR_BYTES));
        let share = bandwidth(&said) / (PACE * SDR_BYTES);
        assert!(share < 1.0, "{share} of the rate: {said}");
        share
    };
    let shares: Vec<f64> = (0..4)
        .map(|_| once())
        .scan(true, |goes_on, share| {
            std::mem::replace(goes_on, share < 0.9).then_some(share)
        })
        .collect();
    assert!(
        shares.iter().any(|share| *share >= 0.9),
        "{shares:?} of the rate"
    );
    credits_are_back(&fabric);
    // the two hosts of a switch share its link to the next one: who has no turn waits at his own port
    let waits = |fabric: &Fabric| {
        [near, beside].map(|host| counter(fabric, &near.name, host.lid, 1, "PortXmitWait"))
    };
    let before = waits(&fabric);
    let ports = [(near, 18_601), (beside, 18_602)];
    let with_port = |port: u16| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain(["-p".to_owned(), port.to_string()]).collect()
    };
    let started = |host: &str, words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        start(&fabric, host, &words)
    };
    let servers = ports.map(|(_, port)| started(&far.name, &with_port(port)));
    for (_, port) in ports {
        wait_for_listener(&far.address, port);
    }
    let clients = ports.map(|(host, port)| {
        let words = [with_port(port), vec![far.address.clone()]].concat();
        started(&host.name, &words)
    });
    let mut shares = Vec::new();
    for client in clients {
        let said = client.wait_with_output().expect("our child");
        assert!(said.status.success(), "{said:?}");
        shares.push(bandwidth(&text(&said.stdout)) / (PACE * SDR_BYTES));
    }
    for server in servers {
        let said = server.wait_with_output().expect("our child");
        assert!(said.status.success(), "{said:?}");
    }
    assert!(
        shares.iter().all(|share| (0.2..0.9).contains(share)),
        "{shares:?}"
    );
    let after = waits(&fabric);
    assert!(
        (0..2).all(|host| after[host] > before[host]),
        "{before:?} {after:?}"
    );
    credits_are_back(&fabric);
}

#[test]
fn a_program_that_stands_still_does_not_hold_up_its_neighbours() {
    if !is_there("ib_send_bw", "perftest") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (near, neighbour, far) = (&hosts[0], &hosts[4], &hosts[5]);
    let words = ["ib_send_bw", "-c", "UD", "-D", "30", "-F"];
    let mut server = start(&fabric, &far.name, &words);
    let attached = |host: &str| -> Option<u64> {
        let status = fabric.status();
        let all = status["attached"].as_array().expect("a list").iter();
        let mut own = all.filter(|one| one["host"] == *host && one["how"] == "packets");
        own.next().and_then(|one| one["pid"].as_u64())
    };
    wait_for_listener(&far.address, 18_515);
    let mut client = start(&fabric, &near.name, &[&words[..], &[&far.address]].concat());
    let packets = || fabric.status()["packets"].clone();
    eventually("datagrams come", || {
        packets()["delivered"].as_u64() > Some(1000)
    });
    let pid = attached(&far.name).expect("it is there").to_string();
    let signal = |which: &str| {
        let done = std::process::Command::new("kill")
            .args([which, &pid])
            .status();
        assert!(done.expect("kill runs").success());
    };
    signal("-STOP");
    let lost = packets()["dropped"].as_u64();
    eventually("its adapter lets go of what it does not take", || {
        packets()["dropped"].as_u64() > lost
    });
    // by the same links as those datagrams, to the switch of who stands still
    let words = [
        "ib_write_bw",
        "-s",
        "4096",
        "-n",
        "200",
        "-F",
        "-p",
        "18777",
    ];
    let places = [neighbour.name.as_str(), near.name.as_str()];
    pair(&fabric, places, &neighbour.address, &words);
    signal("-CONT");
    for child in [&mut client, &mut server] {
        let _ = child.kill();
        let _ = child.wait();
    }
    credits_are_back(&fabric);
}
