//! Connections with two paths (IBA 17.2.8): on live fabrics and between network namespaces, by
//! programs that know nothing of Ferriband.

mod fabrics;

use fabrics::*;
use ferriband_testkit::{Cc, has_header, place};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A connection of two processes that wait for something to happen to the first of their paths.
struct Connection {
    sides: [Side; 2],
    meeting: PathBuf,
}

struct Side {
    process: Child,
    says: BufReader<std::process::ChildStdout>,
}

fn program(name: &str) -> Option<String> {
    if !has_header("infiniband/verbs.h", "libibverbs-dev") {
        return None;
    }
    let program = Cc::new(place!(), "two_paths", name)
        .options(["-O1"])
        .on_libraries()
        .links(["-libverbs"])
        .compile();
    Some(program.to_str().expect("our names are text").to_owned())
}

impl Connection {
    /// Both sides, each started by `start` with what the program is to be told, until both are
    /// armed.
    fn armed(
        name: &str,
        ways: [[&str; 2]; 2],
        device: &str,
        mut start: impl FnMut(usize, &[&str]) -> Command,
    ) -> Connection {
        let meeting = std::env::temp_dir().join(format!("ferriband-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&meeting);
        let place = meeting.to_str().expect("our names are text");
        let sides = ["serve", "ask"].into_iter().zip(ways).enumerate();
        let mut sides = sides.map(|(which, (role, ways))| {
            let words = [role, place, device, ways[0], ways[1]];
            let mut process = start(which, &words)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .expect("it runs");
            let says = BufReader::new(process.stdout.take().expect("a pipe"));
            Side { process, says }
        });
        let mut connection = Connection {
            sides: [(); 2].map(|()| sides.next().expect("two")),
            meeting: meeting.clone(),
        };
        drop(sides);
        for side in &mut connection.sides {
            let mut line = String::new();
            side.says.read_line(&mut line).expect("text");
            assert_eq!(line, "armed\n");
        }
        connection
    }

    /// Both sides came to their end by the second path; what they say of it.
    fn migrated(mut self) -> [String; 2] {
        let mut said = [String::new(), String::new()];
        for (side, said) in self.sides.iter_mut().zip(&mut said) {
            side.says.read_to_string(said).expect("text");
            let status = side.process.wait().expect("our child");
            assert!(status.success(), "{status}: {said}");
            assert!(said.contains("migrated 1 times, 0 refused"), "{said}");
        }
        said
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for side in &mut self.sides {
            let _ = side.process.kill();
            let _ = side.process.wait();
        }
        let _ = std::fs::remove_file(&self.meeting);
    }
}

/// Two switches with two cables, and a host at each.
const TWO_CABLES: &str = "\
Switch 4 \"S1\"
[1] \"H1\"[1]
[3] \"S2\"[3]
[4] \"S2\"[4]

Switch 4 \"S2\"
[1] \"H2\"[1]
[3] \"S1\"[3]
[4] \"S1\"[4]

Hca 1 \"H1\"
[1] \"S1\"[1]

Hca 1 \"H2\"
[1] \"S2\"[1]
";

fn topology(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.net"));
    std::fs::write(&path, text).expect("writable");
    path.to_str().expect("our names are text").to_owned()
}

/// The switch's port by which packets go to a LID, as an unmodified program reads its table.
fn port_to(fabric: &Fabric, switch_lid: u64, lid: u64) -> u8 {
    let words = [
        "ibroute",
        &switch_lid.to_string(),
        &lid.to_string(),
        &lid.to_string(),
    ];
    let said = fabric.run("H1", &words);
    let row = said.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_prefix("0x")?;
        (u64::from_str_radix(number, 16).ok()? == lid).then(|| words.next().map(str::to_owned))?
    });
    row.and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("no row for {lid}: {said}"))
}

/// Starts a side on a host of a fabric.
fn on_host<'a>(fabric: &'a Fabric, program: &'a str) -> impl FnMut(usize, &[&str]) -> Command + 'a {
    move |which, words| {
        let host = format!("{}/H{}", fabric.name, which + 1);
        let mut command = ferriband(&["run", "--host", &host, "--", program]);
        command.args(words);
        command
    }
}

#[test]
fn a_connection_goes_on_by_another_lid_when_the_cable_of_its_own_spoils_everything() {
    let Some(program) = program("two-paths-lmc") else {
        return;
    };
    if !is_there("ibroute", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up(&topology("two-cables", TWO_CABLES), &["--lmc", "1"]);
    fabric.wait_for_links();
    let [h1, h2] = ["H1", "H2"].map(|name| fabric.host(name).lid);
    assert!(h1 % 2 == 0 && h2 % 2 == 0, "LMC 1: {h1} {h2}");
    let info = fabric.run("H1", &["ibv_devinfo", "-v"]);
    let lmc = info.lines().find(|line| line.contains("port_lmc"));
    assert!(lmc.is_some_and(|line| line.contains("0x01")), "{info}");
    // which of its two LIDs packets reach by cable 3, at either end; the other is reached by cable
    // 4
    let switches = ["S1", "S2"].map(|name| {
        let said = fabric.run(
            "H1",
            &[
                "smpquery",
                "-D",
                "portinfo",
                if name == "S1" { "0,1" } else { "0,1,3" },
                "0",
            ],
        );
        let lid = said.lines().find_map(|line| line.strip_prefix("Lid:"));
        let lid = lid.and_then(|text| text.trim_matches('.').parse::<u64>().ok());
        lid.unwrap_or_else(|| panic!("{said}"))
    });
    let by_three = [(switches[1], h1), (switches[0], h2)].map(|(switch, lid)| {
        let ports = [0, 1].map(|bits| port_to(&fabric, switch, lid + bits));
        assert!(ports == [3, 4] || ports == [4, 3], "{ports:?}");
        usize::from(ports[1] == 3)
    });
    let way = |bits: usize| format!("1,{bits},-1");
    let ways = by_three.map(|bits| [way(bits), way(1 - bits)]);
    let ways = [0, 1].map(|side| [0, 1].map(|path| ways[side][path].as_str()));
    let connection = Connection::armed("lmc", ways, "ferri0", on_host(&fabric, &program));
    fabric.say(&["errors", "S1", "3", "1"]);
    connection.migrated();
}

#[test]
fn a_connection_goes_on_by_another_lid_when_somebody_wants_it() {
    let Some(program) = program("two-paths-hand") else {
        return;
    };
    let fabric = Fabric::up(&topology("two-cables-hand", TWO_CABLES), &["--lmc", "1"]);
    fabric.wait_for_links();
    let ways = ["1,0,-1", "1,1,-1"];
    let connection = Connection::armed("hand", [ways; 2], "ferri0", on_host(&fabric, &program));
    let by_hand = |words: &[&str]| {
        let host = format!("{}/H1", fabric.name);
        let mut all = vec!["run", "--host", &host, "--", FERRIBAND];
        all.extend(words);
        output(&all)
    };
    let second = fabric.host("H2").lid + 1;
    let shown = text(&by_hand(&["status", "--qps"]).stdout);
    assert!(
        shown.contains(&format!("ARMED, else LID {second}")),
        "{shown}"
    );
    let nobody = by_hand(&["qp", "migrate", "--qpn", "5"]);
    assert!(!nobody.status.success());
    assert!(
        text(&nobody.stderr).contains("there is no such connection"),
        "{nobody:?}"
    );
    let done = by_hand(&["qp", "migrate", "--all", "--json"]);
    let done: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(
        (&done["migrated"], &done["not_armed"]),
        (&1.into(), &0.into())
    );
    // it is on its way, and not armed anew
    let again = by_hand(&["qp", "migrate", "--device", "ferri0"]);
    assert!(!again.status.success(), "{again:?}");
    connection.migrated();
}

#[test]
fn what_became_of_a_path_is_said() {
    let fabric = Fabric::up(
        &topology("two-cables-why", TWO_CABLES),
        &["--manager", "none"],
    );
    let why = |from: u64, to: u64| {
        let words = [from, to].map(|lid| lid.to_string());
        let said = output(&[
            "fabric",
            "why",
            &words[0],
            &words[1],
            "--name",
            &fabric.name,
            "--json",
        ]);
        let path: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(said.status.success(), path["end"] == "arrives", "{path}");
        path
    };
    assert_eq!(why(1, 2)["end"], "no_such_lid", "nobody has given LIDs");
    drop(fabric);
    let fabric = Fabric::up(&topology("two-cables-why", TWO_CABLES), &[]);
    let why = |from: u64, to: u64, json: &str| {
        let words = [from, to].map(|lid| lid.to_string());
        let mut all = vec![
            "fabric",
            "why",
            &words[0],
            &words[1],
            "--name",
            &fabric.name,
        ];
        all.extend(Some(json).filter(|json| !json.is_empty()));
        text(&output(&all).stdout)
    };
    fabric.wait_for_links();
    let [h1, h2] = ["H1", "H2"].map(|name| fabric.host(name).lid);
    let said = why(h1, h2, "");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert_eq!(lines[0], "H1 port 1 to S1 port 1");
    assert_eq!(lines[3], "it leads to H2");
    let third = lines[1].split(' ').nth(2).expect("a port").to_owned();
    fabric.say(&["errors", "S1", &third, "0.5"]);
    let said = why(h1, h2, "");
    assert!(said.contains("spoils 50 % of packets"), "{said}");
    fabric.say(&["errors", "S1", &third, "0"]);
    fabric.say(&["link", "H2", "1", "down"]);
    // whether the manager has taken the routes back or not
    let said = why(h1, h2, "--json");
    let path: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(
        path["end"] == "link_down" || path["end"] == "no_way",
        "{said}"
    );
    fabric.say(&["power", "S1", "off"]);
    let said = why(h1, h2, "");
    assert!(said.contains("S1 is switched off"), "{said}");
}

/// Two hosts of two ports, which lead to two switches with a cable.
const TWO_PORTS: &str = "\
Switch 4 \"S1\"
[1] \"H1\"[1]
[2] \"H2\"[1]
[4] \"S2\"[4]

Switch 4 \"S2\"
[1] \"H1\"[2]
[2] \"H2\"[2]
[4] \"S1\"[4]

Hca 2 \"H1\"
[1] \"S1\"[1]
[2] \"S2\"[1]

Hca 2 \"H2\"
[1] \"S1\"[2]
[2] \"S2\"[2]
";

#[test]
fn a_connection_goes_on_by_another_port_when_its_own_goes_down() {
    let Some(program) = program("two-paths-ports") else {
        return;
    };
    let fabric = Fabric::up(&topology("two-ports", TWO_PORTS), &[]);
    let faults: [[&[&str]; 2]; 2] = [
        [&["link", "H1", "1", "down"], &["link", "H1", "1", "up"]],
        [&["power", "S1", "off"], &["power", "S1", "on"]],
    ];
    for [fault, repair] in faults {
        fabric.wait_for_links();
        let ways = ["1,0,-1", "2,0,-1"];
        let connection =
            Connection::armed("ports", [ways; 2], "ferri0", on_host(&fabric, &program));
        fabric.say(fault);
        let said = connection.migrated();
        assert!(said[0].contains("port 1 down 1 times"), "{said:?}");
        assert!(
            said.iter().all(|said| said.contains("by port 2 to LID 2")),
            "{said:?}"
        );
        fabric.say(repair);
    }
}

#[test]
fn each_port_of_a_host_is_shown_and_used() {
    if !is_there("ibv_devinfo", "ibverbs-utils") {
        return;
    }
    let fabric = Fabric::up(&topology("two-ports-shown", TWO_PORTS), &[]);
    fabric.wait_for_links();
    let info = fabric.run("H1", &["ibv_devinfo"]);
    let count = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("phys_port_cnt:"));
    assert_eq!(count.map(str::trim), Some("2"), "{info}");
    assert_eq!(info.matches("PORT_ACTIVE").count(), 2, "{info}");
    let lids = info
        .lines()
        .filter_map(|line| line.trim().strip_prefix("port_lid:"));
    let lids: std::collections::BTreeSet<_> = lids.map(str::trim).collect();
    assert_eq!(lids.len(), 2, "each has its own: {info}");
    let address = fabric.host("H1").address;
    for port in ["1", "2"] {
        for program in ["ibv_rc_pingpong", "ibv_ud_pingpong"] {
            for gid in [&[][..], &["-g", "0"]] {
                let words = [&[program, "-i", port, "-n", "20"], gid].concat();
                pair(&fabric, ["H1", "H2"], &address, &words);
            }
        }
    }
    fabric.say(&["link", "H2", "2", "down"]);
    let state = |port: &str| fabric.run("H2", &["ibv_devinfo", "-i", port]);
    eventually("its port is down", || state("2").contains("PORT_DOWN"));
    assert!(state("1").contains("PORT_ACTIVE"));
}

/// Two network namespaces, each with two addresses; nothing that is sent to the first ones'
/// neighbours arrives any more.
#[test]
fn a_connection_goes_on_by_another_address_when_nothing_reaches_its_own() {
    let Some(program) = program("two-paths-roce") else {
        return;
    };
    let Some(net) = Namespaces::new() else {
        return;
    };
    for (which, own) in ["10.97.1.1", "10.97.1.2"].into_iter().enumerate() {
        net.ip(which, &["addr", "add", &format!("{own}/24"), "dev", "v"]);
        let second = own.replace("10.97.1", "10.97.2");
        net.ip(which, &["addr", "add", &format!("{second}/24"), "dev", "v"]);
    }
    // there is no link-local address: the table begins with these, in this order
    let ways = ["1,0,0", "1,0,1"];
    let connection = Connection::armed("roce", [ways, ways], "ferri_v", |which, words| {
        let mut command = net.inside(which, FERRIBAND);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("FERRIBAND_LIB_DIR", ferriband_testkit::library_dir())
            .env("PATH", path)
            .args([
                "run", "--wire", "roce", "--device", "ferri_v", "--", &program,
            ])
            .args(words);
        command
    });
    for (which, there) in ["10.97.1.2", "10.97.1.1"].into_iter().enumerate() {
        let nobody = [
            "neigh",
            "replace",
            there,
            "lladdr",
            "02:00:00:00:00:99",
            "dev",
            "v",
        ];
        net.ip(which, &nobody);
    }
    connection.migrated();
}

/// Two network namespaces with a cable, in a user namespace of their own.
struct Namespaces {
    holders: [Child; 2],
}

impl Namespaces {
    /// None, and a word of it, where they cannot be made.
    fn new() -> Option<Namespaces> {
        let hold = || {
            Command::new("unshare")
                .args(["-n", "sleep", "600"])
                .spawn()
                .expect("unshare runs")
        };
        if !is_root() {
            eprintln!("SKIPPED: only root makes network namespaces");
            return None;
        }
        let net = Namespaces {
            holders: [hold(), hold()],
        };
        let own = std::fs::read_link("/proc/self/ns/net").expect("there is one");
        for holder in &net.holders {
            let path = format!("/proc/{}/ns/net", holder.id());
            eventually("a network of its own", || {
                std::fs::read_link(&path).is_ok_and(|there| there != own)
            });
        }
        let [a, b] = [0, 1].map(|which| net.holders[which].id().to_string());
        let cable = Command::new("ip")
            .args(["link", "add", "v", "netns", &a, "type", "veth"])
            .args(["peer", "name", "v", "netns", &b])
            .status();
        if !cable.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: no pair of interfaces can be made");
            return None;
        }
        for which in [0, 1] {
            net.ip(which, &["link", "set", "lo", "up"]);
            net.ip(which, &["link", "set", "v", "addrgenmode", "none"]);
            net.ip(which, &["link", "set", "v", "up"]);
        }
        Some(net)
    }

    fn inside(&self, which: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let net = format!("--net=/proc/{}/ns/net", self.holders[which].id());
        command.arg(net).arg(program);
        command
    }

    fn ip(&self, which: usize, words: &[&str]) {
        let status = self.inside(which, "ip").args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "ip {words:?}");
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

fn is_root() -> bool {
    let said = Command::new("id").arg("-u").output();
    said.is_ok_and(|output| text(&output.stdout).trim() == "0")
}
