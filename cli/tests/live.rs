//! A live fabric, and Debian's unmodified programs on its hosts: infiniband-diags and OpenSM find the fabric through `libibumad.so.3`.
//!
//! Where a package is missing its test says so and passes without having tested.

mod fabrics;

use fabrics::*;
use ferriband_testkit::library_dir;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn debians_diagnostics_see_the_fabric_that_was_asked_for() {
    if !is_there("ibnetdiscover", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("torus:3x3:2", &[]);
    fabric.wait_for_links();
    let host = "H0_1_1";
    let found = fabric.run(host, &["ibnetdiscover"]);
    let nodes = |kind: &str| found.lines().filter(|line| line.starts_with(kind)).count();
    assert_eq!((nodes("Switch"), nodes("Ca")), (9, 18), "{found}");
    // what it found is the fabric itself: our own reader makes the same shape of it
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.net", fabric.name));
    std::fs::write(&file, &found).expect("writable");
    let route = ["fabric", "route", file.to_str().expect("text"), "--json"];
    // a torus by minhop can block: only what was found is of interest
    let said: serde_json::Value = serde_json::from_slice(&output(&route).stdout).expect("JSON");
    let _ = std::fs::remove_file(&file);
    assert_eq!(
        (said["switches"].as_u64(), said["cables"].as_u64()),
        (Some(9), Some(36)),
        "{said}"
    );

    let ibstat = fabric.run(host, &["ibstat"]);
    assert!(
        ibstat.contains("CA 'ferri0'") && ibstat.contains("State: Active"),
        "{ibstat}"
    );
    let sminfo = fabric.run(host, &["sminfo"]);
    assert!(
        sminfo.contains("sm lid 1 ") && sminfo.contains("SMINFO_MASTER"),
        "{sminfo}"
    );
    let links = fabric.run(host, &["iblinkinfo"]);
    assert!(
        links.contains("Active/  LinkUp") && !links.contains("Initialize"),
        "{links}"
    );
    let lid_of = |name: &str| fabric.host(name).lid.to_string();
    let (from, to) = (lid_of("H0_0_0"), lid_of("H2_2_1"));
    let node = fabric.run(host, &["smpquery", "nodedesc", &to]);
    assert!(node.contains("H2_2_1"), "{node}");
    let trace = fabric.run(host, &["ibtracert", &from, &to]);
    assert!(
        trace.starts_with("From ca") && trace.contains("\"H2_2_1\"\nTo ca"),
        "{trace}"
    );
    let guid = found
        .lines()
        .find(|line| line.starts_with("Switch") && line.contains("\"T0_0\""))
        .and_then(|line| {
            line.split("lid ")
                .nth(1)?
                .split(' ')
                .next()
                .map(str::to_owned)
        });
    let switch = guid.expect("T0_0 is listed with its LID");
    let routes = fabric.run(host, &["ibroute", &switch]);
    assert!(routes.contains("'H2_2_1'"), "{routes}");
    let counters = fabric.run(host, &["perfquery", "-a", &switch]);
    assert!(
        counters.contains("LinkDownedCounter:...............0"),
        "{counters}"
    );
    let packets = counters
        .lines()
        .find_map(|line| line.strip_prefix("PortXmitPkts:"));
    let packets: u64 = packets
        .expect("a counter")
        .trim_start_matches('.')
        .parse()
        .expect("a number");
    assert!(packets > 0, "{counters}");
    // our manager's administration: many records by RMPP, paths, and what asks it by itself
    let nodes = fabric.run(host, &["saquery", "NR"]);
    assert_eq!(nodes.matches("NodeRecord dump").count(), 27, "{nodes}");
    let paths = fabric.run(host, &["saquery", "PR"]);
    assert_eq!(paths.matches("PathRecord dump").count(), 27 * 27);
    let path = fabric.run(
        host,
        &["saquery", "-p", "--src-to-dst", &format!("{from}:{to}")],
    );
    assert!(
        path.contains(&format!("dlid....................{to}")),
        "{path}"
    );
    let errors = fabric.run(host, &["ibqueryerrors"]);
    assert!(
        errors.contains("27 nodes checked, 0 bad nodes found"),
        "{errors}"
    );
}

#[test]
fn what_is_cut_is_found_and_routed_around() {
    if !is_there("ibtracert", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let lid = |number: usize| hosts[number].lid.to_string();
    let name = |number: usize| hosts[number].name.clone();
    let trace = |fabric: &Fabric| fabric.run(&name(2), &["ibtracert", &lid(0), &lid(1)]);
    let switches = |trace: &str| trace.matches("-> switch").count();
    let before = trace(&fabric);
    assert_eq!(switches(&before), 2, "{before}");
    // the port by which the first switch leads to the second
    let hop = before.lines().nth(2).expect("the second switch");
    let port = hop
        .trim_start_matches('[')
        .split(']')
        .next()
        .expect("a port");
    let switch = before
        .lines()
        .nth(1)
        .and_then(|line| line.split('"').nth(1))
        .expect("a name");
    let sweeps = fabric.status()["sweeps"].as_u64().expect("a number");
    fabric.say(&["link", switch, port, "down"]);
    eventually("the manager has seen it", || {
        fabric.status()["sweeps"].as_u64() > Some(sweeps)
    });
    assert_eq!(fabric.status()["broken"].as_array().map(Vec::len), Some(1));
    let after = trace(&fabric);
    assert_eq!(switches(&after), 3, "{after}");
    fabric.say(&["link", switch, port, "up"]);
    fabric.wait_for_links();
    eventually("the short way is back", || switches(&trace(&fabric)) == 2);
    let refused = output(&[
        "fabric",
        "link",
        "--name",
        &fabric.name,
        "nobody",
        "1",
        "down",
    ]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("there is no \"nobody\""),
        "{refused:?}"
    );
}

#[test]
fn routes_change_under_traffic_without_a_circle_in_between() {
    if !is_there("ibv_rc_pingpong", "ibverbs-utils") {
        return;
    }
    let fabric = Fabric::up("ring:5:1", &["--engine", "updn"]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (near, far) = (&hosts[0], &hosts[2]);
    let cutting = std::sync::atomic::AtomicBool::new(true);
    let mut held = 0;
    std::thread::scope(|scope| {
        // messages from one side of the ring to the other, one job after the other
        let traffic = scope.spawn(|| {
            let mut jobs = 0;
            while jobs < 2 || cutting.load(std::sync::atomic::Ordering::Relaxed) {
                pair(
                    &fabric,
                    [&near.name, &far.name],
                    &near.address,
                    &["ibv_rc_pingpong", "-n", "5000"],
                );
                jobs += 1;
            }
        });
        for switch in ["G0", "G2", "G3"] {
            for how in ["down", "up"] {
                let sweeps = fabric.status()["sweeps"].as_u64();
                fabric.say(&["link", switch, "1", how]);
                eventually("the manager has told new routes", || {
                    fabric.status()["sweeps"].as_u64() > sweeps
                });
                let says = fabric.status()["manager_says"].clone();
                let says = says.as_str().unwrap_or_default();
                held += u32::from(says.contains("were held back"));
            }
        }
        cutting.store(false, std::sync::atomic::Ordering::Relaxed);
        traffic.join().expect("no message is lost for good");
    });
    assert!(held > 0, "no change needed an order");
}

#[test]
fn opensm_manages_the_fabric_and_answers_for_it() {
    if !is_there("opensm", "opensm") || !is_there("saquery", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("torus:3x3:2", &["--manager", "none"]);
    let mut opensm = fabric.opensm("H0_0_0", &[]);
    fabric.wait_for_links();
    eventually("OpenSM is master", || {
        fabric.run("H0_1_1", &["sminfo"]).contains("SMINFO_MASTER")
    });
    // many records: by RMPP both ways
    eventually("OpenSM's administration answers", || {
        let host = format!("{}/H1_1_0", fabric.name);
        let ports = output(&["run", "--host", &host, "--", "saquery", "PIR"]);
        text(&ports.stdout).matches("PortInfoRecord dump").count() >= 36 * 2
    });
    let nodes = fabric.run("H1_1_0", &["saquery", "NR"]);
    assert_eq!(nodes.matches("NodeRecord dump").count(), 27, "{nodes}");
    let path = fabric.run("H1_1_0", &["saquery", "-p", "--src-to-dst", "1:5"]);
    assert!(path.contains("dlid....................5"), "{path}");
    // it ends in good order: its receiving thread is cancelled where it waits
    let pid = opensm.process.id().to_string();
    let told = Command::new("kill").arg(pid).status();
    assert!(told.expect("kill runs").success());
    let mut ended = None;
    eventually("OpenSM ends", || {
        ended = opensm.process.try_wait().expect("our child");
        ended.is_some()
    });
}

#[test]
fn unmodified_verbs_programs_talk_across_switches() {
    if !is_there("ibv_rc_pingpong", "ibverbs-utils") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let near = hosts[0].name.clone();
    let far = hosts[hosts.len() - 1].name.clone();
    let address = hosts[0].address.clone();
    let packets = |fabric: &Fabric| {
        fabric.status()["packets"]["delivered"]
            .as_u64()
            .expect("a number")
    };
    for words in [
        &["ibv_rc_pingpong", "-n", "50"][..],
        &["ibv_uc_pingpong", "-n", "50"],
        &["ibv_ud_pingpong", "-n", "50"],
        &["ibv_rc_pingpong", "-g", "0", "-n", "50"],
    ] {
        let before = packets(&fabric);
        let [server, client] = pair(&fabric, [&near, &far], &address, words);
        assert!(
            client.contains(" 50 iters") || client.contains("50 iters"),
            "{client}"
        );
        assert!(server.contains("50 iters"), "{server}");
        assert!(packets(&fabric) >= before + 100, "they went by the fabric");
    }
    // perftest opens files of its own there, which may be another user's
    let opens = ["/tmp/xrc_domain_client", "/tmp/xrc_domain_server"]
        .iter()
        .all(|path| !Path::new(path).exists() || std::fs::File::open(path).is_ok());
    if opens && is_there("ib_send_bw", "perftest") {
        // the target of XRC only answers
        let words = ["ib_send_bw", "-c", "XRC", "-F", "-s", "4096", "-n", "100"];
        let [_, client] = pair(&fabric, [&near, &far], &address, &words);
        let row = client.lines().any(|line| line.trim().starts_with("4096"));
        assert!(row, "{client}");
    }
    let info = fabric.run(&far, &["ibv_devinfo"]);
    let lid = hosts[hosts.len() - 1].lid.to_string();
    let said = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("port_lid:"));
    assert_eq!(said.map(str::trim), Some(lid.as_str()), "{info}");
    // two servers on one port number, each on its host
    let server = |host: usize| {
        let host = format!("{}/{}", fabric.name, hosts[host].name);
        ferriband(&["run", "--host", &host, "--", "ibv_rc_pingpong", "-n", "20"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ferriband runs")
    };
    for (number, mut server) in [(1, server(1)), (2, server(2))] {
        let address = &hosts[number].address;
        let host = format!("{}/{far}", fabric.name);
        let ask = [
            "run",
            "--host",
            &host,
            "--",
            "ibv_rc_pingpong",
            "-n",
            "20",
            address,
        ];
        eventually("the client finds its server", || {
            output(&ask).status.success()
        });
        assert!(server.wait().expect("our child").success());
    }
}

#[test]
fn the_subnet_is_handed_over_to_opensm_and_comes_back() {
    if !is_there("opensm", "opensm") || !is_there("sminfo", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let (keys, _) = fabric.key("sm_key");
    let host = |number: usize| fabric.hosts()[number].name.clone();
    let (asks, other) = (host(1), host(5));
    let master = || fabric.run(&asks, &["sminfo"]);
    assert!(master().contains("priority 1 state 3"), "{}", master());
    let opensm = fabric.opensm(&other, &["-p", "10", "-F", &keys]);
    eventually("OpenSM is the master", || {
        master().contains("priority 10 state 3")
    });
    eventually("ours stands by", || {
        let says = fabric.status()["manager_says"].clone();
        says.as_str().is_some_and(|says| says.contains("stands by"))
    });
    // traffic goes on, and a link that is cut is OpenSM's business now
    let (near, far) = (host(0), host(4));
    let address = &fabric.hosts()[0].address;
    if is_there("ibv_rc_pingpong", "ibverbs-utils") {
        pair(
            &fabric,
            [&near, &far],
            address,
            &["ibv_rc_pingpong", "-n", "20"],
        );
    }
    let sweeps = fabric.status()["sweeps"].as_u64();
    fabric.say(&["link", &far, "1", "down"]);
    fabric.say(&["link", &far, "1", "up"]);
    fabric.wait_for_links();
    assert_eq!(
        fabric.status()["sweeps"].as_u64(),
        sweeps,
        "ours sweeps no more"
    );
    drop(opensm);
    eventually("ours has taken over", || {
        let said = output(&[
            "run",
            "--host",
            &format!("{}/{asks}", fabric.name),
            "--",
            "sminfo",
        ]);
        text(&said.stdout).contains("priority 1 state 3")
    });
    eventually("and sweeps", || fabric.status()["sweeps"].as_u64() > sweeps);
    if is_there("ibv_rc_pingpong", "ibverbs-utils") {
        pair(
            &fabric,
            [&near, &far],
            address,
            &["ibv_rc_pingpong", "-n", "20"],
        );
    }
}

#[test]
fn a_cable_that_spoils_packets_is_found_by_its_counters() {
    if !is_there("ibqueryerrors", "infiniband-diags")
        || !is_there("ibv_rc_pingpong", "ibverbs-utils")
    {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    fabric.say(&["errors", &hosts[1].name, "1", "0.05"]);
    let broken = fabric.status()["broken"][0].as_str().map(str::to_owned);
    assert!(
        broken
            .as_ref()
            .is_some_and(|said| said.starts_with("spoils 5 % of packets")),
        "{broken:?}"
    );
    // a connection sends again what is lost
    let words = ["ibv_rc_pingpong", "-n", "500"];
    pair_over_losses(
        &fabric,
        [&hosts[0].name, &hosts[1].name],
        &hosts[0].address,
        &words,
    );
    let lid = hosts[1].lid.to_string();
    let counted = |fabric: &Fabric| {
        let from = format!("{}/{}", fabric.name, hosts[2].name);
        let mut said = String::new();
        // each question or its answer may be spoilt, too, as often as perfquery repeats it
        eventually("the counters are told", || {
            let told = output(&["run", "--host", &from, "--", "perfquery", &lid, "1"]);
            said = text(&told.stdout);
            told.status.success()
        });
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("SymbolErrorCounter:"));
        let number = line
            .expect("a counter")
            .trim_start_matches('.')
            .parse::<u64>();
        number.expect("a number")
    };
    assert!(
        counted(&fabric) > 5,
        "of a thousand packets fifty are spoilt, on either side"
    );
    let found = text(
        &output(&[
            "run",
            "--host",
            &format!("{}/{}", fabric.name, hosts[2].name),
            "--",
            "ibqueryerrors",
        ])
        .stdout,
    );
    assert!(
        found.contains("SymbolErrorCounter ==") && found.contains("PortRcvErrors =="),
        "{found}"
    );
    fabric.say(&["errors", &hosts[1].name, "1", "0"]);
    let before = counted(&fabric);
    pair(
        &fabric,
        [&hosts[0].name, &hosts[1].name],
        &hosts[0].address,
        &words,
    );
    assert_eq!(counted(&fabric), before);
    let wrong = output(&[
        "fabric",
        "errors",
        "--name",
        &fabric.name,
        &hosts[1].name,
        "1",
        "1.5",
    ]);
    assert_eq!(wrong.status.code(), Some(2));
    let nowhere = output(&[
        "fabric",
        "errors",
        "--name",
        &fabric.name,
        &hosts[1].name,
        "7",
        "0.1",
    ]);
    assert!(
        text(&nowhere.stderr).contains("no cable is in port 7"),
        "{nowhere:?}"
    );
}

#[test]
fn what_is_wrong_is_said() {
    library_dir();
    let nobody = output(&["run", "--host", "no-such-fabric/H", "--", "true"]);
    assert!(!nobody.status.success());
    assert!(
        text(&nobody.stderr).contains("ferriband fabric up"),
        "{nobody:?}"
    );
    let shape = output(&["fabric", "up", "no:such:shape", "--name", "never"]);
    assert!(!shape.status.success());
    let fabric = Fabric::up("ring:3:1", &[]);
    let twice = output(&["fabric", "up", "ring:3:1", "--name", &fabric.name]);
    assert!(text(&twice.stderr).contains("is up already"), "{twice:?}");
    let host = format!("{}/nobody", fabric.name);
    let stranger = output(&["run", "--host", &host, "--", "true"]);
    assert_eq!(stranger.status.code(), Some(2));
    assert!(
        text(&stranger.stderr).contains("there is no \"nobody\""),
        "{stranger:?}"
    );
    good(&["fabric", "down", "--name", &fabric.name]);
    assert!(
        !output(&["fabric", "status", "--name", &fabric.name])
            .status
            .success()
    );
}

#[test]
fn hosts_that_are_cabled_by_their_second_port_use_that() {
    if !is_there("ibv_rc_pingpong", "ibverbs-utils") || !is_there("rping", "rdmacm-utils") {
        return;
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("second-port.net");
    let text = "Switch 8 \"S\"\n[7] \"A\"[2]\n[2] \"B\"[2]\n[3] \"C\"[1]\n[4] \"C\"[2]\n\n\
                Hca 2 \"A\"\n\nHca 3 \"B\"\n\nHca 2 \"C\"\n";
    std::fs::write(&path, text).expect("a file of our own");
    let fabric = Fabric::up(path.to_str().expect("UTF-8"), &[]);
    fabric.wait_for_links();
    for [server, client] in [["A", "B"], ["C", "A"]] {
        let address = fabric.host(server).address;
        let words = ["ibv_rc_pingpong", "-i", "2", "-n", "50"];
        let [_, said] = pair(&fabric, [server, client], &address, &words);
        assert!(said.contains("50 iters"), "{said}");
        let info = fabric.run(server, &["ibv_devinfo"]);
        let lid = format!("port_lid:\t\t{}", fabric.host(server).lid);
        assert!(
            info.contains(&lid) && info.contains("PORT_ACTIVE"),
            "{info}"
        );
    }
    // the connection manager finds it by its address too
    let full = format!("{}/B", fabric.name);
    let mut server = ferriband(&["run", "--host", &full, "--", "rping", "-s", "-C", "3"])
        .stdout(Stdio::null())
        .spawn()
        .expect("ferriband runs");
    let to = fabric.host("B").address;
    let full = format!("{}/A", fabric.name);
    let ask = [
        "run", "--host", &full, "--", "rping", "-c", "-C", "3", "-a", &to,
    ];
    eventually("the client is served", || output(&ask).status.success());
    assert!(server.wait().expect("our child").success());
}

/// Asks for pairs of adapters as programs of rdma-core 56 and later do: the names and ports of each, and what is not there.
const PAIRS: &str = r#"
import ctypes
class Pair(ctypes.Structure):
    _fields_ = [("smi", ctypes.c_char * 20), ("smi_port", ctypes.c_uint32),
                ("gsi", ctypes.c_char * 20), ("gsi_port", ctypes.c_uint32)]
umad = ctypes.CDLL("libibumad.so.3")
pairs = (Pair * 4)()
count = umad.umad_get_smi_gsi_pairs(pairs, ctypes.c_size_t(4))
print(count, pairs[0].smi, pairs[0].gsi, umad.umad_get_smi_gsi_pairs(pairs, ctypes.c_size_t(0)))
one = Pair()
for name, port in ((None, 0), (b"ferri0", 1), (b"ferri0", 9), (b"ferri9", 0)):
    got = umad.umad_get_smi_gsi_pair_by_ca_name(name, ctypes.c_uint8(port), ctypes.byref(one), 1)
    print(got, one.smi_port, one.gsi_port)
print(umad.umad_get_smi_gsi_pair_by_ca_name(None, ctypes.c_uint8(0), None, 1))
port = umad.umad_open_smi_port(b"ferri0", 1)
print(port >= 0, umad.umad_close_port(port))
"#;

#[test]
fn an_adapter_is_a_pair_with_itself() {
    if !is_there("python3", "python3") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let said = fabric.run(&fabric.hosts()[0].name, &["python3", "-c", PAIRS]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "1 b'ferri0' b'ferri0' 0",
            "0 1 1",
            "0 1 1",
            "-19 1 1",
            "-19 1 1",
            "-1",
            "True 0"
        ],
        "{said}"
    );
}
