//! Looking at a live fabric: what passes its links, and questions that take unusual ways, by Debian's unmodified programs.

mod fabrics;
mod libraries;

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
    }
}

#[test]
fn ports_are_protected_by_a_key_that_managers_share() {
    if !is_there("ibportstate", "infiniband-diags") || !is_there("opensm", "opensm") {
        return;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("keys-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("writable");
    let file = dir.join("keys");
    let keys = file.to_str().expect("text");
    let fabric = Fabric::up("ring:3:2", &["--keys", keys]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let said = std::fs::read_to_string(&file).expect("it is written");
    let key = said
        .lines()
        .find_map(|line| line.strip_prefix("m_key "))
        .expect("a key");
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
    assert!(!looked.contains(key), "the key is hidden");
    assert!(!stranger(&["0,1", "3", "disable"]).status.success());
    let links = fabric.status()["links"].clone();
    assert_eq!(links[2], links[0], "nothing has changed");
    // with the key it is
    let done = stranger(&["-y", key, "0,1", "3", "disable"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    eventually("the port is down", || {
        let links = fabric.status()["links"].clone();
        links[2] != links[0]
    });
    let done = stranger(&["-y", key, "0,1", "3", "enable"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    fabric.wait_for_links();
    // another manager has the same file, and takes over
    let host = format!("{}/{}", fabric.name, hosts[5].name);
    let mut opensm = ferriband(&[
        "run", "--host", &host, "--", "opensm", "-p", "10", "-F", keys,
    ])
    .arg("-f")
    .arg(dir.join("log"))
    .env("OSM_TMP_DIR", &dir)
    .env("OSM_CACHE_DIR", &dir)
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .expect("ferriband runs");
    eventually("OpenSM is the master", || {
        let said = fabric.run(&hosts[1].name, &["sminfo"]);
        said.contains("priority 10 state 3")
    });
    fabric.say(&["link", &hosts[2].name, "1", "down"]);
    fabric.say(&["link", &hosts[2].name, "1", "up"]);
    fabric.wait_for_links();
    let _ = opensm.kill();
    let _ = opensm.wait();
    let _ = std::fs::remove_dir_all(&dir);
}
