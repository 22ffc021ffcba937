//! Connections by addresses and names between hosts of a live fabric: Debian's rdma_cm programs, and MPI.

mod fabrics;

use fabrics::*;
use ferriband_testkit::{Cc, has_header, library_dir, place};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn connections_are_made_by_address_across_switches() {
    if !is_there("rping", "rdmacm-utils") {
        return;
    }
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (near, far) = (&hosts[0], hosts.last().expect("a host"));
    let packets = || {
        fabric.status()["packets"]["delivered"]
            .as_u64()
            .expect("a number")
    };
    let places = [near.name.as_str(), far.name.as_str()];
    let before = packets();
    let server = |words: &[&str]| {
        let host = format!("{}/{}", fabric.name, near.name);
        ferriband(&["run", "--host", &host, "--"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ferriband runs")
    };
    let client = |words: &[&str]| {
        let host = format!("{}/{}", fabric.name, far.name);
        let mut all = vec!["run", "--host", &host, "--"];
        all.extend(words);
        output(&all)
    };
    // who is refused at first asks again, as somebody at a terminal would
    for (serve, ask) in [
        (
            &["rping", "-s", "-C", "5"][..],
            &["rping", "-c", "-v", "-C", "5", "-a", &near.address][..],
        ),
        (&["ucmatose"], &["ucmatose", "-s", &near.address]),
        (&["udaddy"], &["udaddy", "-s", &near.address]),
    ] {
        let serving = server(serve);
        eventually("the client is served", || client(ask).status.success());
        let served = serving.wait_with_output().expect("our child");
        assert!(served.status.success(), "{serve:?}: {served:?}");
    }
    assert!(packets() > before + 60, "they went by the fabric");
    if is_there("ib_write_bw", "perftest") {
        let [_, said] = pair(
            &fabric,
            places,
            &near.address,
            &["ib_write_bw", "-R", "-n", "50"],
        );
        let lid = format!("remote address: LID {:#04x}", near.lid);
        assert!(said.contains(&lid), "{said}");
    }
}

#[test]
fn who_asks_where_nobody_is_hears_it_at_once() {
    if !is_there("rping", "rdmacm-utils") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let from = format!("{}/{}", fabric.name, hosts[2].name);
    let ask = |address: &str| {
        let begun = Instant::now();
        let said = output(&["run", "--host", &from, "--", "rping", "-c", "-a", address]);
        assert!(!said.status.success());
        assert!(begun.elapsed() < Duration::from_secs(30), "{said:?}");
        text(&said.stderr) + &text(&said.stdout)
    };
    // invalid service identifier: no program is on that host, or one that listens elsewhere
    let said = ask(&hosts[0].address);
    assert!(said.contains("RDMA_CM_EVENT_REJECTED, error 8"), "{said}");
    let there = format!("{}/{}", fabric.name, hosts[0].name);
    let mut other = ferriband(&["run", "--host", &there, "--", "rping", "-s", "-p", "9999"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ferriband runs");
    eventually("it is attached", || {
        fabric.status()["attached"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    });
    let said = ask(&hosts[0].address);
    assert!(said.contains("RDMA_CM_EVENT_REJECTED, error 8"), "{said}");
    let _ = other.kill();
    let _ = other.wait();
    // an address of this fabric that no host has
    let nobody = hosts[0].address.replace(".0.1", ".0.77");
    let said = ask(&nobody);
    assert!(said.contains("RDMA_CM_EVENT_ADDR_ERROR"), "{said}");
    // with its cable cut a host has no way anywhere
    fabric.say(&["link", &hosts[2].name, "1", "down"]);
    let said = ask(&hosts[0].address);
    assert!(said.contains("RDMA_CM_EVENT_ROUTE_ERROR"), "{said}");
}

/// While a manager re-routes there is no way for a while; a program that asked with a patience of two seconds (rping's) is told of none only after that.
#[test]
fn who_asks_for_a_path_while_there_is_none_gets_it_as_soon_as_there_is_one() {
    if !is_there("rping", "rdmacm-utils") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let on = |host: &str| format!("{}/{host}", fabric.name);
    let mut server = ferriband(&["run", "--host", &on(&hosts[0].name), "--"])
        .args(["rping", "-s", "-P"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ferriband runs");
    let ask = ["rping", "-c", "-C", "3", "-a", &hosts[0].address];
    let from = on(&hosts[2].name);
    let asked = [&["run", "--host", &from, "--"][..], &ask].concat();
    eventually("the server listens", || output(&asked).status.success());
    for broken in [&hosts[0], &hosts[2]] {
        fabric.say(&["link", &broken.name, "1", "down"]);
        let client = ferriband(&asked)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ferriband runs");
        // until it has asked: without a way nothing of the fabric's says so
        std::thread::sleep(Duration::from_millis(700));
        fabric.say(&["link", &broken.name, "1", "up"]);
        let said = client.wait_with_output().expect("our child");
        assert!(said.status.success(), "{}: {said:?}", broken.name);
    }
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn a_host_has_its_own_name_and_knows_the_others() {
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (here, there) = (&hosts[1], &hosts[2]);
    assert_eq!(fabric.run(&here.name, &["uname", "-n"]).trim(), here.name);
    let found = fabric.run(&here.name, &["getent", "ahostsv4", &there.name]);
    assert!(found.starts_with(&there.address), "{found}");
    if is_there("ibv_rc_pingpong", "ibverbs-utils") {
        let places = [there.name.as_str(), here.name.as_str()];
        pair(
            &fabric,
            places,
            &there.name,
            &["ibv_rc_pingpong", "-n", "20"],
        );
    }
}

#[test]
fn localhost_is_the_host_and_where_it_does_not_listen_the_machine() {
    let fabric = Fabric::up("ring:3:2", &[]);
    let hosts = fabric.hosts();
    // a server on any address is the host's; one that asked for 127.0.0.1 is not
    let program = "
import socket
for own, asked in (('', '127.0.0.1'), ('127.0.0.1', '127.0.0.1')):
    server = socket.socket(); server.bind((own, 0)); server.listen()
    port = server.getsockname()[1]
    with socket.create_connection((asked, port), 20) as client:
        there, peer = server.accept(); client.sendall(b'x')
        print(there.recv(1) == b'x', server.getsockname()[0])
    server.close()
";
    let said = fabric.run(&hosts[1].name, &["python3", "-c", program]);
    let expected = format!("True {}\nTrue 127.0.0.1", hosts[1].address);
    assert_eq!(said.trim(), expected);
}

#[test]
fn mpi_runs_over_the_fabric() {
    let fabric = Fabric::up("torus:3x3:1", &[]);
    fabric.wait_for_links();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../ulp/mpi/abi/tests/c/collectives.c"
    );
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.mpi", fabric.name));
    let compiled = Command::new(library_dir().join("bin/mpicc"))
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .expect("mpicc runs");
    assert!(compiled.status.success(), "{compiled:?}");
    let hosts = fabric.hosts();
    let names = [0, 4, 8].map(|number: usize| format!("{}/{}", fabric.name, hosts[number].name));
    let program = program.to_str().expect("text");
    let packets = || {
        fabric.status()["packets"]["delivered"]
            .as_u64()
            .expect("a number")
    };
    let before = packets();
    let on = names.join(",");
    for ranks in ["3", "4"] {
        let job = [
            "mpirun",
            "-n",
            ranks,
            "--timeout",
            "100",
            "--fabric-hosts",
            &on,
            program,
        ];
        let said = good(&job);
        assert!(said.contains(&format!("{ranks} ranks: ok")), "{said}");
    }
    assert!(packets() > before + 100, "they went by the fabric");
    let nowhere = output(&[
        "mpirun",
        "-n",
        "2",
        "--fabric-hosts",
        "no-such-fabric/H",
        program,
    ]);
    let said = text(&nowhere.stderr);
    assert!(
        !nowhere.status.success() && said.contains("ferriband fabric up"),
        "{said}"
    );
    let _ = std::fs::remove_file(program);
}

/// A program that ends with its test, whatever becomes of that: one that polls would go on for ever.
struct Ended(Option<std::process::Child>);

impl Ended {
    fn wait(mut self) -> std::process::Output {
        let child = self.0.take().expect("it is waited for once");
        child.wait_with_output().expect("our child")
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn datagrams_to_a_group_reach_its_members_alone() {
    if !is_there("mckey", "rdmacm-utils") || !is_there("saquery", "infiniband-diags") {
        return;
    }
    // an engine beside which groups need a lane of their own
    let fabric = Fabric::up("torus:4x4:1", &["--engine", "lash"]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let on = |host: usize, words: &[&str]| {
        let name = format!("{}/{}", fabric.name, hosts[host].name);
        ferriband(&["run", "--host", &name, "--"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(|child| Ended(Some(child)))
            .expect("ferriband runs")
    };
    let groups = |words: &[&str], what: &str| {
        let mut all = vec!["saquery"];
        all.extend(words);
        fabric.run(&hosts[1].name, &all).matches(what).count()
    };
    // one is always there: that of IP over InfiniBand's broadcasts
    assert_eq!(groups(&["MCMR"], "MCMember Record dump"), 1);
    let (_, key) = fabric.key("sm_key");
    // two hosts hear, one of them with two programs, and one that has not joined does not
    let hears = ["mckey", "-m", "224.9.9.9", "-C", "20"];
    let members: Vec<_> = [4, 8, 8].map(|host| on(host, &hears)).into();
    eventually("the manager knows both hosts", || {
        groups(&["--smkey", &key, "MCMR"], "PortGid.................fe80::") == 2
    });
    assert_eq!(groups(&["-g"], "Mlid....................0xC001"), 1);
    let record = fabric.run(&hosts[1].name, &["saquery", "MCMR", "0xC001"]);
    let levels: Vec<u8> = record
        .lines()
        .filter_map(|line| line.trim().strip_prefix("SL......................0x"))
        .filter_map(|digits| u8::from_str_radix(digits, 16).ok())
        .collect();
    assert!(!levels.is_empty() && !levels.contains(&0), "{record}");
    // its rows in the switches' tables, as administration says and as the switches do
    let rows = |said: &str| {
        let rows = said
            .lines()
            .filter(|line| line.trim().starts_with("0x") || line.contains("0xC001"));
        rows.filter(|line| !line.trim_end().ends_with("0x0000"))
            .count()
    };
    let told = fabric.run(&hosts[1].name, &["saquery", "-t", "20000", "MFTR"]);
    assert!(rows(&told) > 0, "{told}");
    // memberships and trees live through a sweep, and through a cable that is cut
    let switch = "T1_1";
    let sweeps = fabric.status()["sweeps"].as_u64();
    fabric.say(&["link", switch, "1", "down"]);
    eventually("it was seen", || {
        fabric.status()["sweeps"].as_u64() > sweeps
    });
    eventually("all hear what is sent", || {
        let sent = on(0, &["mckey", "-m", "224.9.9.9", "-s", "-C", "20"]);
        let sent = sent.wait();
        assert!(sent.status.success(), "{sent:?}");
        !fabric.status()["attached"]
            .as_array()
            .is_some_and(|all| all.iter().any(|who| who["host"] != hosts[0].name.as_str()))
    });
    for member in members {
        let heard = member.wait();
        assert!(heard.status.success(), "{heard:?}");
        assert!(
            text(&heard.stdout).contains("receiving data transfers"),
            "{heard:?}"
        );
    }
    // who has ended is a member no more, whether it said so or not
    eventually("the group is gone", || {
        groups(&["MCMR"], "MCMember Record dump") == 1
    });
    let killed = on(2, &hears);
    eventually("it has joined", || {
        groups(&["MCMR"], "MCMember Record dump") == 2
    });
    drop(killed);
    eventually("the group is gone", || {
        groups(&["MCMR"], "MCMember Record dump") == 1
    });
}

/// What one host has said of itself another one finds: one record, more than a packet carries, and none.
#[test]
fn services_are_found_by_name_and_number() {
    if !is_there("cc", "gcc") {
        return;
    }
    if !has_header("rdma/rdma_cma.h", "librdmacm-dev") {
        return;
    }
    let program = Cc::new(
        place!(),
        "services",
        &format!("services-{}", std::process::id()),
    )
    .options(["-O1"])
    .on_libraries()
    .links(["-lrdmacm", "-libverbs", "-ldl"])
    .compile();
    let program = program.display().to_string();
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (has, asks) = (&hosts[0].name, &hosts[2].name);
    let find = |service: &str| fabric.run(asks, &[&program, "find", service]);
    let none = format!("{} {}\n", -libc::ENOENT, libc::ENOENT);
    assert_eq!(find("store"), none);
    for number in ["0x7001", "0x7002", "0x7003"] {
        fabric.run(has, &[&program, "register", "store", number]);
    }
    fabric.run(has, &[&program, "register", "another", "0x7004"]);
    let all = "0x7001 0x7002 0x7003 \n".repeat(2);
    assert_eq!(find("store"), all);
    assert_eq!(find("0x7004"), "0x7004 \n".repeat(2));
    assert_eq!(find("28673"), "0x7001 \n".repeat(2), "in decimal");
    assert_eq!(find("nobody's"), none);
    let _ = std::fs::remove_file(&program);
}
