//! Looking at a live fabric: what passes its links, and questions that take unusual ways, by Debian's unmodified programs.

mod fabrics;

use fabrics::*;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn what_passes_a_link_is_captured_and_dissected() {
    if !is_there("ibv_rc_pingpong", "ibverbs-utils") || !is_there("tshark", "tshark") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let [here, there, other] = [0, 5, 2].map(|number| hosts[number].name.as_str());
    let [lid, far] = [0, 5].map(|number| hosts[number].lid.to_string());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pcapng", fabric.name));
    let file = file.to_str().expect("text");
    let dump = |port_of: &str, more: &[&str]| {
        let words = ["fabric", "dump", port_of, "1", "--name", &fabric.name];
        ferriband(&words)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("ferriband runs")
    };
    let wanted = dump(here, &["-w", file, "--duration", "30"]);
    let elsewhere = dump(other, &["--duration", "30"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let words = ["ibv_rc_pingpong", "-n", "5", "-s", "512"];
    pair(&fabric, [here, there], &hosts[0].address, &words);
    if is_there("smpquery", "infiniband-diags") {
        fabric.run(here, &["smpquery", "-D", "nodeinfo", "0,1"]);
    }
    let end = |mut child: std::process::Child| {
        let told = Command::new("kill").arg(child.id().to_string()).status();
        assert!(told.expect("kill runs").success());
        let _ = child.wait();
        let said = child.stdout.take().map(std::io::read_to_string);
        said.and_then(Result::ok).unwrap_or_default()
    };
    end(wanted);
    let lines = end(elsewhere);
    assert!(!lines.contains("RC SEND"), "not their link: {lines}");
    let shown = Command::new("tshark")
        .args(["-r", file, "-T", "fields"])
        .args(["-e", "infiniband.lrh.slid", "-e", "infiniband.lrh.dlid"])
        .args(["-e", "infiniband.lrh.vl", "-e", "infiniband.bth.opcode"])
        .output()
        .expect("tshark runs");
    let shown = text(&shown.stdout);
    let _ = std::fs::remove_file(file);
    let count = |slid: &str, dlid: &str, vl: u8, opcode: u8| {
        let is_meant = |line: &&str| {
            let mut fields = line.split('\t').map(|field| {
                let hex = field
                    .strip_prefix("0x")
                    .map(|hex| u64::from_str_radix(hex, 16));
                hex.unwrap_or_else(|| field.parse())
            });
            let mut next = || fields.next().and_then(Result::ok);
            let found = [next(), next(), next(), next()];
            let wanted = [
                slid.parse().ok(),
                dlid.parse().ok(),
                Some(vl.into()),
                Some(opcode.into()),
            ];
            found == wanted
        };
        shown.lines().filter(is_meant).count()
    };
    // five messages each way, each in one packet: RC SEND Only; on a busy machine one or the other is sent again
    assert!(count(&lid, &far, 0, 4) >= 5, "{shown}");
    assert!(count(&far, &lid, 0, 4) >= 5, "{shown}");
    if is_there("smpquery", "infiniband-diags") {
        assert!(count("65535", "65535", 15, 0x64) >= 2, "{shown}");
    }
}

#[test]
fn questions_go_by_lid_and_then_by_ports_and_counters_need_no_port() {
    if !is_there("smpquery", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("torus:3x3:2", &[]);
    fabric.wait_for_links();
    let asks = "H1_2_0";
    let lid = fabric.host("H0_1_1").lid.to_string();
    // a switch by its LID, and from there each of its ports: whoever is there is who iblinkinfo says
    let links = fabric.run(asks, &["iblinkinfo", "-l"]);
    let mut ways = 0;
    for line in links.lines().filter(|line| line.contains("LinkUp")) {
        // GUID " switch" LID port[ ] ==( ... )==> GUID LID port[ ] "peer"
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, "T0_1\"", switch, port, ..] = words[..] else {
            continue;
        };
        let peer = line.rsplit('"').nth(1).expect("a name");
        let port = port.trim_end_matches('[');
        let way = format!("0,{port}");
        let said = fabric.run(asks, &["smpquery", "-c", "nodedesc", switch, &way]);
        assert!(said.contains(peer), "{line}: {said}");
        ways += 1;
    }
    assert_eq!(ways, 6, "{links}");
    for words in [&["perfquery", "-x", &lid][..], &["perfquery", &lid]] {
        let said = fabric.run(asks, words);
        assert!(said.contains(&format!("Lid {lid} port")), "{said}");
        assert!(said.contains("PortXmitWait:"), "{words:?}: {said}");
    }
}

/// A counter of what perfquery prints.
fn counter(said: &str, name: &str) -> u64 {
    let find = |line: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        rest.trim_start_matches('.').parse().ok()
    };
    said.lines()
        .find_map(find)
        .unwrap_or_else(|| panic!("{name}: {said}"))
}

#[test]
fn optional_counters_are_parts_of_the_others() {
    if !is_there("perfquery", "infiniband-diags") || !is_there("ibv_rc_pingpong", "ibverbs-utils") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let query = |option: &str| {
        let lid = hosts[0].lid.to_string();
        fabric.run(&hosts[1].name, &["perfquery", option, &lid, "1"])
    };
    let places = [hosts[0].name.as_str(), hosts[2].name.as_str()];
    let talk = || pair(&fabric, places, &hosts[0].address, &["ibv_rc_pingpong"]);
    talk();
    // what asks and answers is counted as well, so the other counters are read between two looks at these
    for (option, whole, part) in [
        ("-X", "PortXmitData", "XmtDataSL"),
        ("-S", "PortRcvData", "RcvDataSL"),
    ] {
        let before = counter(&query("-x"), whole);
        let parts = query(option);
        let sum: u64 = (0..16)
            .map(|sl| counter(&parts, &format!("{part}{sl}")))
            .sum();
        let after = counter(&query("-x"), whole);
        assert!(
            before > 1000 && before <= sum && sum <= after,
            "{before} {sum} {after}"
        );
        query(&format!("{option}R"));
        let parts = query(option);
        assert!(counter(&parts, &format!("{part}0")) < 1000, "{parts}");
    }
    // each tenth would be too many: of some thousand messages one meets eight in a row now and then, which ends its connection
    fabric.say(&["errors", &hosts[0].name, "1", "0.01"]);
    pair_over_losses(&fabric, places, &hosts[0].address, &["ibv_rc_pingpong"]);
    fabric.say(&["errors", &hosts[0].name, "1", "0"]);
    let errors = counter(&query("-v"), "PortRcvErrors");
    let details = query("-E");
    assert!(errors > 0);
    assert_eq!(counter(&details, "PortLocalPhysicalErrors"), errors);
    assert_eq!(counter(&details, "PortMalformedPktErrors"), 0);
    // what does not go by a port that is down: the switch's
    let discards = query("-D");
    assert_eq!(counter(&discards, "PortInactiveDiscards"), 0);
}

/// IBA 14.2.5.6: the fastest speed that is enabled at both ends, once the link is trained anew.
#[test]
fn a_manager_slows_a_link_down() {
    if !is_there("ibportstate", "infiniband-diags") {
        return;
    }
    let shape = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fast.net");
    let fast = good(&["fabric", "make", "ring:3:1"]).replace("4xSDR", "4xEDR");
    std::fs::write(&shape, fast).expect("writable");
    let shape = shape.to_str().expect("our names are text");
    let fabric = Fabric::up(shape, &["--keys", "none"]);
    fabric.wait_for_links();
    let host = &fabric.hosts()[0];
    let rate = |fabric: &Fabric| {
        let file = "/sys/class/infiniband/ferri0/ports/1/rate";
        fabric.run(&host.name, &["cat", file]).trim().to_owned()
    };
    assert_eq!(rate(&fabric), "100 Gb/sec (4X EDR)");
    let lid = host.lid.to_string();
    let change = |words: &[&str]| {
        let all = [&["ibportstate", &lid, "1"], words].concat();
        // what is reset is asked from elsewhere, as its own answer would not come back
        fabric.run(&fabric.hosts()[1].name, &all)
    };
    change(&["espeed", "30"]);
    change(&["speed", "2"]);
    change(&["width", "1"]);
    assert_eq!(rate(&fabric), "100 Gb/sec (4X EDR)");
    fabric.say(&["link", &host.name, "1", "down"]);
    fabric.say(&["link", &host.name, "1", "up"]);
    fabric.wait_for_links();
    assert_eq!(rate(&fabric), "5 Gb/sec (1X DDR)");
    if is_there("ibstatus", "infiniband-diags") {
        let said = fabric.run(&host.name, &["ibstatus"]);
        for wanted in [
            format!("base lid:\t {:#x}", host.lid),
            "state:\t\t 4: ACTIVE".to_owned(),
            "rate:\t\t 5 Gb/sec (1X DDR)".to_owned(),
        ] {
            assert!(said.contains(&wanted), "{wanted}: {said}");
        }
    }
}

#[test]
fn ports_are_protected_by_a_key_that_managers_share() {
    use std::os::unix::fs::PermissionsExt;
    if !is_there("ibportstate", "infiniband-diags") || !is_there("opensm", "opensm") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (file, key) = fabric.key("m_key");
    let mode = std::fs::metadata(&file).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "{file}");
    // to look is free, to change is not, and who tries is told nothing
    let stranger = |more: &[&str]| {
        let host = format!("{}/{}", fabric.name, hosts[1].name);
        let words = [
            "run",
            "--host",
            &host,
            "--",
            "ibportstate",
            "-D",
            "-t",
            "100",
        ];
        output(&[&words[..], more].concat())
    };
    let looked = text(&stranger(&["0,1", "3"]).stdout);
    assert!(
        looked.contains("LinkState:.......................Active"),
        "{looked}"
    );
    assert!(!looked.contains(&key), "the key is hidden");
    for wrong in [&[][..], &["-y", "0x1234"]] {
        let tried = stranger(&[wrong, &["0,1", "3", "disable"]].concat());
        assert!(!tried.status.success(), "{wrong:?}");
    }
    let links = fabric.status()["links"].clone();
    assert_eq!(links["active"], links["total"], "nothing has changed");
    // with the key it is
    let done = stranger(&["-y", &key, "0,1", "3", "disable"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    eventually("the port is down", || {
        let links = fabric.status()["links"].clone();
        links["active"] != links["total"]
    });
    let done = stranger(&["-y", &key, "0,1", "3", "enable"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    fabric.wait_for_links();
    // another manager has the same file, and takes over
    let opensm = fabric.opensm(&hosts[5].name, &["-p", "10", "-F", &file]);
    eventually("OpenSM is the master", || {
        let said = fabric.run(&hosts[1].name, &["sminfo"]);
        said.contains("priority 10 state 3")
    });
    fabric.say(&["link", &hosts[2].name, "1", "down"]);
    fabric.say(&["link", &hosts[2].name, "1", "up"]);
    fabric.wait_for_links();
    drop(opensm);
    // the file goes with a fabric that ends in good order
    fabric.say(&["down"]);
    assert!(!Path::new(&file).exists(), "{file}");
}

/// An OpenSM that has not the keys takes itself for a master, and may do what it likes: nothing changes.
#[test]
fn a_manager_without_the_keys_changes_nothing() {
    if !is_there("opensm", "opensm") || !is_there("sminfo", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let asks = &hosts[1].name;
    let tables = || fabric.run(asks, &["dump_lfts"]);
    let state = |fabric: &Fabric| {
        let said = fabric.run(asks, &["smpquery", "-D", "portinfo", "0,1", "3"]);
        let lids: Vec<u64> = fabric.hosts().iter().map(|host| host.lid).collect();
        (said, lids, tables())
    };
    let before = state(&fabric);
    let opensm = fabric.opensm(&hosts[5].name, &["-p", "15", "-t", "50"]);
    eventually("it has tried and was not heard", || {
        opensm.log().contains("Set") && opensm.log().contains("ERR")
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    let said = fabric.run(asks, &["sminfo"]);
    assert!(said.contains("priority 1 state 3"), "{said}");
    assert_eq!(state(&fabric), before);
    drop(opensm);
    drop(fabric);
    // without protection the stranger is the better manager
    let open = Fabric::up("ring:3:2", &["--keys", "none"]);
    open.wait_for_links();
    let _opensm = open.opensm(&hosts[5].name, &["-p", "15"]);
    eventually("OpenSM is the master", || {
        open.run(asks, &["sminfo"]).contains("priority 15 state 3")
    });
}
