//! Partitions of a live fabric: OpenSM writes them, unmodified programs name them by index, and its log is the witness of who did not belong.

mod fabrics;

use fabrics::{
    Ending, Fabric, Host, OpenSm, PATIENCE, eventually, ferriband, is_there, output, pair, text,
    wait_for_listener,
};
use ferriband_testkit::{Cc, has_header, place};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

/// A ring of four, with OpenSM at the first host. The others: a full member of 5 and a limited one of 6; a full one of both; a limited one of 6. Their indices are the order.
fn partitions() -> Option<(Fabric, OpenSm, Vec<Host>)> {
    let needed = [
        ("opensm", "opensm"),
        ("smpquery", "infiniband-diags"),
        ("ib_send_lat", "perftest"),
    ];
    if !needed
        .iter()
        .all(|(program, package)| is_there(program, package))
    {
        return None;
    }
    let fabric = Fabric::up("ring:4:1", &["--manager", "none"]);
    let hosts = fabric.hosts();
    let guids: Vec<String> = hosts
        .iter()
        .map(|host| fabric.run(&host.name, &["ibstat", "-p"]).trim().to_owned())
        .collect();
    let [_, a, b, c] = &guids[..] else {
        panic!("{guids:?}")
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.conf", fabric.name));
    let said = format!(
        "Default=0x7fff, ipoib : ALL=full, ALL_SWITCHES=full, SELF=full ;\n\
         five=0x0005 : {a}=full, {b}=full ;\nsix=0x0006 : {a}=limited, {b}=full, {c}=limited ;\n"
    );
    std::fs::write(&file, said).expect("writable");
    let opensm = fabric.opensm(&hosts[0].name, &["-P", &file.display().to_string()]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    eventually("all have their partitions", || {
        let wanted: [&[u16]; 3] = [&[5 | FULL, 6], &[5 | FULL, 6 | FULL], &[6]];
        let hosts = hosts[1..].iter();
        hosts
            .zip(wanted)
            .all(|(host, wanted)| keys(&fabric, &host.name) == wanted)
    });
    let _ = std::fs::remove_file(&file);
    Some((fabric, opensm, hosts))
}

const FULL: u16 = 0x8000;

/// A host's partitions but for the first, the default one, as its programs see them.
fn keys(fabric: &Fabric, host: &str) -> Vec<u16> {
    let table = "for entry in 1 2 3; do cat $1/ports/1/pkeys/$entry; done";
    let said = fabric.run(
        host,
        &["sh", "-c", table, "sh", "/sys/class/infiniband/ferri0"],
    );
    let words = said.split_whitespace();
    let keys = words.map(|word| u16::from_str_radix(word.trim_start_matches("0x"), 16));
    keys.map(|key| key.expect("a key"))
        .filter(|key| *key != 0)
        .collect()
}

/// ib_send_lat between queue pairs of these indices in the tables, where it cannot succeed; what the client said.
fn refused(fabric: &Fabric, to: (&Host, &str), from: (&Host, &str)) -> String {
    let words = |index| ["ib_send_lat", "-F", "-n", "5", "--pkey_index", index];
    let on = |host: &Host| format!("{}/{}", fabric.name, host.name);
    let server = on(to.0);
    let mut server = ferriband(&["run", "--host", &server, "--"])
        .args(words(to.1))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ferriband runs");
    wait_for_listener(&to.0.address, 18515);
    let client = on(from.0);
    let ask = [
        &["run", "--host", &client, "--"][..],
        &words(from.1),
        &[&to.0.address],
    ];
    let output = output(&ask.concat());
    let _ = server.kill();
    let _ = server.wait();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success(), "{said}");
    said
}

/// What a port has counted.
fn violations(fabric: &Fabric, host: &Host, name: &str) -> u64 {
    let lid = host.lid.to_string();
    let said = fabric.run(&host.name, &["smpquery", "portinfo", &lid, "1"]);
    let line = said.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.rsplit('.').next()?.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {said}"))
}

/// Lines of OpenSM's log about a trap of a host's.
fn told(opensm: &OpenSm, number: u32, host: &Host) -> usize {
    let (number, from) = (format!("num:{number} "), format!("from LID:{} ", host.lid));
    let log = opensm.log();
    let lines = log.lines();
    lines
        .filter(|line| line.contains(&number) && line.contains(&from))
        .count()
}

#[test]
fn programs_talk_within_the_partition_that_their_index_names() {
    let Some((fabric, opensm, hosts)) = partitions() else {
        return;
    };
    let [_, a, b, c] = &hosts[..] else {
        panic!("{hosts:?}")
    };
    // members of 5; a full and a limited member of 6; at any index that partition has at either end
    for (to, from) in [
        ((b, "1"), (a, "1")),
        ((b, "2"), (c, "1")),
        ((a, "2"), (b, "2")),
    ] {
        for more in [&[][..], &["-c", "UC"], &["-c", "UD"]] {
            let words = |index| {
                let own = ["ib_send_lat", "-F", "-n", "50", "--pkey_index", index];
                [&own[..], more].concat()
            };
            serve_and_ask(&fabric, to, from, words);
        }
    }
    for host in [a, b, c] {
        assert_eq!(violations(&fabric, host, "PkeyViolations"), 0);
        assert_eq!(told(&opensm, 257, host), 0);
    }
    // what everybody does not name is everybody's
    pair(
        &fabric,
        [&c.name, &a.name],
        &c.address,
        &["ibv_rc_pingpong"],
    );
}

/// A server and its client, whose words are different; both must succeed.
fn serve_and_ask<'a>(
    fabric: &Fabric,
    to: (&Host, &'a str),
    from: (&Host, &'a str),
    words: impl Fn(&'a str) -> Vec<&'a str>,
) {
    let on = |host: &Host| format!("{}/{}", fabric.name, host.name);
    let server = ferriband(&["run", "--host", &on(to.0), "--"])
        .args(words(to.1))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    wait_for_listener(&to.0.address, 18515);
    let client = on(from.0);
    let mut ask = vec!["run", "--host", &client, "--"];
    ask.extend(words(from.1));
    ask.push(&to.0.address);
    let client = output(&ask);
    assert!(client.status.success(), "{ask:?}: {client:?}");
    let server = server.wait_with_output().expect("our child");
    assert!(server.status.success(), "{ask:?}: {server:?}");
}

#[test]
fn packets_of_other_partitions_are_counted_and_told_by_ports_and_by_queue_pairs() {
    let Some((fabric, opensm, hosts)) = partitions() else {
        return;
    };
    let [_, a, b, c] = &hosts[..] else {
        panic!("{hosts:?}")
    };
    let gives_up = "Failed status 12";
    // not in the partition; both its limited members; in both, but the queue pair is in the other one
    for (to, from) in [
        ((c, "1"), (a, "1")),
        ((c, "1"), (a, "2")),
        ((b, "2"), (a, "1")),
    ] {
        let before = violations(&fabric, to.0, "PkeyViolations");
        let told_before = told(&opensm, 257, to.0);
        let said = refused(&fabric, to, from);
        assert!(said.contains(gives_up), "{said}");
        assert!(violations(&fabric, to.0, "PkeyViolations") > before);
        // once a second at the most, and the port has told of others just now
        let until = Instant::now() + PATIENCE;
        while told(&opensm, 257, to.0) == told_before {
            assert!(Instant::now() < until, "OpenSM hears of trap 257");
            refused(&fabric, to, from);
        }
    }
}

#[test]
fn a_datagram_with_another_q_key_is_counted_and_told() {
    let needed = [
        ("opensm", "opensm"),
        ("smpquery", "infiniband-diags"),
        ("cc", "gcc"),
    ];
    if !needed
        .iter()
        .all(|(program, package)| is_there(program, package))
    {
        return;
    }
    if !has_header("infiniband/verbs.h", "libibverbs-dev") {
        return;
    }
    let program = Cc::new(
        place!(),
        "datagrams",
        &format!("datagrams-{}", std::process::id()),
    )
    .options(["-O1"])
    .links(["-libverbs"])
    .compile();
    let program = program.display().to_string();
    let fabric = Fabric::up("ring:3:1", &["--manager", "none"]);
    let opensm = fabric.opensm(&fabric.hosts()[0].name, &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let on = |host: &Host| format!("{}/{}", fabric.name, host.name);
    let mut hears = ferriband(&["run", "--host", &on(&hosts[2]), "--", &program])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    let mut lines = BufReader::new(hears.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("it is read");
    let place = line();
    let mut ask = vec![program.as_str()];
    ask.extend(place.split_whitespace());
    fabric.run(&hosts[1].name, &ask);
    assert_eq!(line(), "2", "the one with the right key");
    assert!(hears.wait().is_ok_and(|status| status.success()));
    eventually("the port counts it", || {
        violations(&fabric, &hosts[2], "QkeyViolations") == 1
    });
    eventually("OpenSM hears of trap 258", || {
        told(&opensm, 258, &hosts[2]) == 1
    });
    assert_eq!(violations(&fabric, &hosts[2], "PkeyViolations"), 0);
    let _ = std::fs::remove_file(&program);
}

#[test]
fn a_program_hears_that_its_partitions_have_changed() {
    if !is_there("ibv_asyncwatch", "ibverbs-utils") || !is_there("stdbuf", "coreutils") {
        return;
    }
    let needed = [("opensm", "opensm"), ("ibstat", "infiniband-diags")];
    if !needed
        .iter()
        .all(|(program, package)| is_there(program, package))
    {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &["--manager", "none"]);
    let hosts = fabric.hosts();
    let (first, there) = (&hosts[0], &hosts[2]);
    let host = format!("{}/{}", fabric.name, there.name);
    let watch = ferriband(&["run", "--host", &host, "--"])
        .args(["stdbuf", "-oL", "ibv_asyncwatch"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    // it would watch for ever
    let mut watch = Ending(watch);
    let said = BufReader::new(watch.0.stdout.take().expect("a pipe"));
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    eventually("it watches", || {
        fabric.status()["attached"]
            .as_array()
            .is_some_and(|all| all.iter().any(|who| who["host"] == there.name.as_str()))
    });
    let guid = fabric.run(&there.name, &["ibstat", "-p"]);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.watch", fabric.name));
    let five = format!(
        "Default=0x7fff, ipoib : ALL=full, ALL_SWITCHES=full, SELF=full ;\nfive=0x0005 : {}=full ;\n",
        guid.trim()
    );
    std::fs::write(&file, five).expect("writable");
    let _opensm = fabric.opensm(&first.name, &["-P", &file.display().to_string()]);
    eventually("it has the partition", || {
        keys(&fabric, &there.name) == [5 | FULL]
    });
    let mut heard = Vec::new();
    while !heard
        .last()
        .is_some_and(|line: &String| line.contains("IBV_EVENT_PKEY_CHANGE"))
    {
        let line = told.recv_timeout(PATIENCE);
        heard.push(line.unwrap_or_else(|_| panic!("no word of it: {heard:?}")));
    }
    drop(watch);
    let _ = reader.join();
    let _ = std::fs::remove_file(&file);
}
