//! What unmodified diagnostics and our own tools say of the same fabrics: the same.
//!
//! Of each topology that the project carries, and of a fat tree with more than a thousand records, these agree: the netlist, `ibnetdiscover`, `iblinkinfo`, `saquery` (nodes, ports, links,
//! forwarding tables), `ibroute` of every switch (`dump_lfts`), `ferriband fabric status` and the tables that `ferriband fabric route` computes offline.

mod fabrics;
mod libraries;

use fabrics::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A node's name and a port.
type End = (String, u8);
/// Of each switch, by name, the port for each LID.
type Tables = BTreeMap<String, BTreeMap<u64, u8>>;

/// The text between the quotation marks of a line, from the `from`-th pair on.
fn quoted(line: &str, from: usize) -> Option<&str> {
    line.split('"').nth(2 * from + 1)
}

/// The number in brackets behind some text.
fn bracketed(text: &str) -> Option<u8> {
    text.split('[').nth(1)?.split(']').next()?.parse().ok()
}

/// Nodes (true: a switch) and cables of a netlist, each cable as both of its directions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    nodes: BTreeMap<String, bool>,
    links: BTreeSet<(End, End)>,
}

impl Seen {
    fn link(&mut self, one: End, other: End) {
        self.links.insert((one.clone(), other.clone()));
        self.links.insert((other, one));
    }
}

/// ibsim's form: `Switch 8 "T0"`, then `[1] "T1"[2]`.
fn netlist(text: &str) -> Seen {
    let mut seen = Seen::default();
    let mut node = None;
    for line in text.lines().filter_map(|line| line.split('#').next()) {
        if line.starts_with('[') {
            let own: &String = node.as_ref().expect("a node");
            let peer = quoted(line, 0).expect("a peer").to_owned();
            let far = line.rsplit('"').next().and_then(bracketed);
            let near = bracketed(line).expect("a port");
            seen.link((own.clone(), near), (peer, far.expect("a port")));
        } else if let Some(name) = quoted(line, 0) {
            seen.nodes.insert(name.into(), line.starts_with("Switch"));
            node = Some(name.to_owned());
        }
    }
    seen
}

/// What ibnetdiscover prints, with the LIDs of nodes.
fn discovered(text: &str) -> (Seen, BTreeMap<String, u64>) {
    let (mut seen, mut lids) = (Seen::default(), BTreeMap::new());
    let mut node = String::new();
    let lid_in = |comment: &str| -> Option<u64> {
        let rest = comment.split("lid ").nth(1)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((said, comment)) = line.split_once('#') else {
            continue;
        };
        if line.starts_with("Switch") || line.starts_with("Ca") {
            node = quoted(comment, 0).expect("a name").to_owned();
            let is_switch = line.starts_with("Switch");
            seen.nodes.insert(node.clone(), is_switch);
            if is_switch {
                lids.insert(node.clone(), lid_in(comment).expect("a LID"));
            }
        } else if line.starts_with('[') {
            let near = bracketed(said).expect("a port");
            let far = said.rsplit('"').next().and_then(bracketed);
            let peer = quoted(comment, 0).expect("a name").to_owned();
            if !seen.nodes[&node] {
                lids.insert(node.clone(), lid_in(comment).expect("a LID"));
            }
            seen.link((node.clone(), near), (peer, far.expect("a port")));
        }
    }
    (seen, lids)
}

/// `Unicast lids [0x0-0x9] of switch ... (NAME):`, then `0x0001 003 : (...)`; our own tool names the switch by its LID.
fn forwarding(text: &str, known: &BTreeMap<String, u64>) -> Tables {
    let mut tables = Tables::new();
    let mut switch = None;
    for line in text.lines() {
        if line.starts_with("Unicast lids") {
            let found = known.iter().find(|(name, lid)| {
                line.contains(&format!("({name})")) || line.contains(&format!("switch Lid {lid} "))
            });
            let (name, _) = found.unwrap_or_else(|| panic!("whose? {line}"));
            switch = Some(name.clone());
        } else if let Some(rest) = line.strip_prefix("0x")
            && let Some(switch) = &switch
        {
            let mut words = rest.split_whitespace();
            let lid = words
                .next()
                .and_then(|lid| u64::from_str_radix(lid, 16).ok());
            let port = words.next().and_then(|port| port.parse().ok());
            if let (Some(lid), Some(port)) = (lid, port) {
                tables.entry(switch.clone()).or_default().insert(lid, port);
            }
        }
    }
    tables
}

/// The records of a kind as saquery prints them: names of components and their values.
fn records(text: &str, kind: &str) -> Vec<BTreeMap<String, String>> {
    let heading = format!("{kind} dump:");
    let dumps = text.split(heading.as_str()).skip(1);
    let field = |line: &str| {
        let (name, value) = line.trim().split_once('.')?;
        Some((name.to_owned(), value.trim_start_matches('.').to_owned()))
    };
    dumps
        .map(|dump| dump.lines().filter_map(field).collect())
        .collect()
}

fn number<T: std::str::FromStr>(record: &BTreeMap<String, String>, name: &str) -> T {
    let text = record.get(name).and_then(|text| text.split(' ').next());
    let found = text.and_then(|text| text.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in {record:?}"))
}

/// Each host reaches each LID by the tables.
fn all_reach_all(seen: &Seen, lids: &BTreeMap<String, u64>, tables: &Tables) {
    let onward: BTreeMap<&End, &End> = seen.links.iter().map(|(from, to)| (from, to)).collect();
    let hosts = seen.nodes.iter().filter(|(_, is_switch)| !**is_switch);
    for (host, _) in hosts {
        for (name, lid) in lids {
            let mut at = host.clone();
            let mut by = 1;
            for _ in 0..64 {
                if at == *name {
                    break;
                }
                at = onward[&(at, by)].0.clone();
                if at != *name {
                    by = *tables[&at]
                        .get(lid)
                        .unwrap_or_else(|| panic!("{at} to {lid}"));
                }
            }
            assert_eq!(at, *name, "from {host} to LID {lid}");
        }
    }
}

/// Of so many nodes a path of each pair is asked for: on the largest of those that are kept here these are 2,304 records in one answer.
const MOST_FOR_PATHS: usize = 100;

/// Administration knows exactly one path of each pair of LIDs, itself included, each as fast and wide as every link of these fabrics.
fn all_paths_are_told(fabric: &Fabric, asks: &str, lids: &BTreeMap<String, u64>, file: &str) {
    let said = fabric.run(asks, &["saquery", "-t", "60000", "PR"]);
    let told = records(&said, "PathRecord");
    let pairs: BTreeSet<(u64, u64)> = told
        .iter()
        .map(|path| (number(path, "slid"), number(path, "dlid")))
        .collect();
    let each = || lids.values().copied();
    let all: BTreeSet<(u64, u64)> = each()
        .flat_map(|from| each().map(move |to| (from, to)))
        .collect();
    assert_eq!(pairs, all, "{file}: saquery PR");
    assert_eq!(told.len(), all.len(), "{file}: each pair once");
    let ends: BTreeSet<[&str; 4]> = told
        .iter()
        .map(|path| ["mtu", "rate", "sl", "pkey"].map(|name| path[name].as_str()))
        .collect();
    assert_eq!(ends.len(), 1, "{file}: {ends:?}");
}

fn all_agree(file: &str) {
    let text = std::fs::read_to_string(file).expect("a netlist");
    let paper = netlist(&text);
    let fabric = Fabric::up(file, &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let asks = &hosts[1].name;
    let (seen, lids) = discovered(&fabric.run(asks, &["ibnetdiscover"]));
    assert_eq!(seen, paper, "{file}: ibnetdiscover and the netlist");
    for host in &hosts {
        assert_eq!(lids[&host.name], host.lid, "{file}: {}", host.name);
    }
    // nodes and their LIDs, by administration
    let nodes = records(&fabric.run(asks, &["saquery", "NR"]), "NodeRecord");
    let told: BTreeMap<String, u64> = nodes
        .iter()
        .map(|node| (node["NodeDescription"].clone(), number(node, "lid")))
        .collect();
    assert_eq!(told, lids, "{file}: saquery NR and ibnetdiscover");
    // links that carry data, seen from switches
    let mut linked = BTreeSet::new();
    for line in fabric.run(asks, &["iblinkinfo", "-l"]).lines() {
        if !line.contains("==>") || !line.contains("Active/") {
            continue;
        }
        let (near, far) = line.split_once("==(").expect("two ends");
        let far = far.split_once("==>").expect("two ends").1;
        let end = |text: &str| -> End {
            // padded to the left
            let name = quoted(text, 0).expect("a name").trim().to_owned();
            let port = text
                .split(['"', '['])
                .flat_map(str::split_whitespace)
                .filter_map(|word| word.trim_matches([']', '[']).parse::<u8>().ok())
                .next_back();
            (name, port.unwrap_or_else(|| panic!("no port: {text}")))
        };
        linked.insert((end(near), end(far)));
    }
    let of_switches = |links: &BTreeSet<(End, End)>| -> BTreeSet<(End, End)> {
        let is_switch = |name: &String| {
            let known = paper.nodes.get(name).copied();
            known.unwrap_or_else(|| panic!("{file}: iblinkinfo names \"{name}\""))
        };
        let own = links.iter().filter(|(from, _)| is_switch(&from.0));
        own.cloned().collect()
    };
    assert_eq!(
        of_switches(&linked),
        of_switches(&paper.links),
        "{file}: iblinkinfo"
    );
    // links by administration: LIDs and ports
    let names: BTreeMap<u64, &String> = lids.iter().map(|(name, lid)| (*lid, name)).collect();
    let told = records(&fabric.run(asks, &["saquery", "LR"]), "LinkRecord");
    let told: BTreeSet<(End, End)> = told
        .iter()
        .map(|link| {
            let end = |lid, port| (names[&number::<u64>(link, lid)].clone(), number(link, port));
            (end("FromLID", "FromPort"), end("ToLID", "ToPort"))
        })
        .collect();
    assert_eq!(told, paper.links, "{file}: saquery LR");
    let ports = fabric.run(asks, &["saquery", "PIR"]);
    let all: usize = paper.nodes.len() + paper.links.len();
    assert!(
        ports.matches("PortInfoRecord dump").count() >= all - hosts.len(),
        "{file}: ports of switches and hosts"
    );
    if lids.len() <= MOST_FOR_PATHS {
        all_paths_are_told(&fabric, asks, &lids, file);
    }
    // forwarding tables: as switches have them, as administration and as our own tool offline
    let tables = forwarding(&fabric.run(asks, &["dump_lfts"]), &lids);
    all_reach_all(&seen, &lids, &tables);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&fabric.name);
    let written = dir.with_extension("tables").display().to_string();
    let _ = output(&["fabric", "route", file, "--tables", &written]);
    let offline = std::fs::read_to_string(&written).expect("it is written");
    let _ = std::fs::remove_file(&written);
    let offline = forwarding(&offline, &lids);
    for (switch, ports) in &tables {
        for (lid, port) in ports {
            assert_eq!(
                offline[switch].get(lid),
                Some(port),
                "{file}: {switch} to LID {lid}"
            );
        }
    }
    let said = fabric.run(asks, &["saquery", "LFTR"]);
    for dump in said.split("LFT Record dump:").skip(1) {
        let field = |name: &str| -> u64 {
            let line = dump.lines().find(|line| line.trim().starts_with(name));
            let value = line.and_then(|line| line.rsplit('.').next());
            let value = value.and_then(|value| value.trim().parse().ok());
            value.unwrap_or_else(|| panic!("no {name}: {dump}"))
        };
        let switch = names[&field("LID")];
        for line in dump
            .lines()
            .skip_while(|line| !line.contains("Port Number"))
            .skip(1)
        {
            let mut words = line.split_whitespace().map(str::parse::<u64>);
            if let (Some(Ok(lid)), Some(Ok(port))) = (words.next(), words.next())
                && port != 255
            {
                assert_eq!(
                    tables[switch].get(&lid),
                    Some(&(port as u8)),
                    "{file}: {switch}, {lid}"
                );
            }
        }
    }
}

fn is_all_there() -> bool {
    is_there("dump_lfts", "infiniband-diags") && is_there("saquery", "infiniband-diags")
}

#[test]
fn tools_agree_on_every_topology_that_is_kept_here() {
    if !is_all_there() {
        return;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ib/subnet/tests/oracle");
    let files = std::fs::read_dir(dir).expect("it is kept here");
    let nets = files.filter_map(|file| {
        let path = file.ok()?.path();
        (path.extension()? == "net").then(|| path.display().to_string())
    });
    let nets: Vec<String> = nets.collect();
    assert!(nets.len() >= 5, "{nets:?}");
    for file in &nets {
        all_agree(file);
    }
}

#[test]
fn tools_agree_on_a_fat_tree_of_a_thousand_nodes() {
    if !is_all_there() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("thousand.net");
    let file = file.display().to_string();
    // 1,084 nodes: ibroute leaves out the last LID where that is a multiple of 64
    good(&["fabric", "make", "fat-tree:60x17x4", "-o", &file]);
    all_agree(&file);
    let _ = std::fs::remove_file(&file);
}

/// A chassis whose two chips have one description, as its maker's switches do, a machine with two adapters, and one with one.
const DISCOVERED: &str = r#"
vendid=0x2c9
devid=0xb924
sysimgguid=0x8f104003f1e28
switchguid=0x8f104003f1e29(8f104003f1e29)
Switch	24 "S-0008f104003f1e29"		# "Infiniscale-III" base port 0 lid 2 lmc 0
[7]	"S-0008f10400411a08"[13]		# "Infiniscale-III" lid 14 4xDDR

vendid=0x2c9
devid=0xc738
sysimgguid=0x8f104003f1e28
switchguid=0x8f10400411a08(8f10400411a08)
Switch	24 "S-0008f10400411a08"		# "Infiniscale-III" base port 0 lid 14 lmc 0
[24]	"H-0002c902002227b8"[1](2c902002227b9) 		# "alpha HCA-1" lid 3 4xDDR
[23]	"H-0002c90200222700"[1](2c90200222701) 		# "beta mlx5_0" lid 4 4xDDR
[22]	"H-0002c90200222710"[1](2c90200222711) 		# "beta mlx5_1" lid 5 4xFDR10
[13]	"S-0008f104003f1e29"[7]		# "Infiniscale-III" lid 2 4xDDR

vendid=0x2c9
devid=0x1017
sysimgguid=0x2c902002227bb
caguid=0x2c902002227b8
Ca	1 "H-0002c902002227b8"		# "alpha HCA-1"
[1](2c902002227b9) 	"S-0008f10400411a08"[24]		# lid 3 lmc 0 "Infiniscale-III" lid 14 4xDDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90200222700
caguid=0x2c90200222700
Ca	1 "H-0002c90200222700"		# "beta mlx5_0"
[1](2c90200222701) 	"S-0008f10400411a08"[23]		# lid 4 lmc 0 "Infiniscale-III" lid 14 4xDDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90200222700
caguid=0x2c90200222710
Ca	1 "H-0002c90200222710"		# "beta mlx5_1"
[1](2c90200222711) 	"S-0008f10400411a08"[22]		# lid 5 lmc 0 "Infiniscale-III" lid 14 4xFDR10
"#;

/// Nodes' blocks of what ibnetdiscover prints, without LIDs, in an order of their own.
fn blocks(text: &str) -> BTreeSet<String> {
    let blocks = text.split("\n\n").filter(|block| block.contains("guid="));
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let plain = |at: &usize| {
            words[*at] != "lid" && (*at == 0 || words[*at - 1] != "lid") && words[*at] != "#"
        };
        let kept = (0..words.len()).filter(plain).map(|at| words[at]);
        kept.collect::<Vec<_>>().join(" ")
    };
    let block = |block: &str| {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let lines: BTreeSet<_> = lines.map(line).filter(|line| !line.is_empty()).collect();
        lines.into_iter().collect::<Vec<_>>().join("\n")
    };
    blocks.map(block).collect()
}

#[test]
fn a_discovered_fabric_comes_to_life_as_it_was_discovered() {
    if !is_there("ibnetdiscover", "infiniband-diags") {
        return;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join(format!("discovered-{}.net", std::process::id()));
    std::fs::write(&file, DISCOVERED).expect("writable");
    let fabric = Fabric::up(file.to_str().expect("text"), &[]);
    let _ = std::fs::remove_file(&file);
    fabric.wait_for_links();
    // a host by the name that its machine has, and by its adapter's GUID
    let found = fabric.run("alpha", &["ibnetdiscover"]);
    assert_eq!(blocks(&found), blocks(DISCOVERED), "{found}");
    // devices of this maker are asked for more than PortInfo, and what they do not answer is complained of
    let host = format!("{}/alpha", fabric.name);
    for words in [
        &["ibnetdiscover"][..],
        &["ibportstate", "-G", "0x2c902002227b9", "1", "query"],
    ] {
        let asked = output(&[&["run", "--host", &host, "--"], words].concat());
        assert!(
            asked.status.success() && asked.stderr.is_empty(),
            "{words:?}: {}{}",
            text(&asked.stdout),
            text(&asked.stderr)
        );
    }
    let seen = fabric.run(
        "H-0002c902002227b8",
        &["smpquery", "nodeinfo", "-G", "0x2c902002227b9"],
    );
    assert!(
        seen.contains("DevId:...........................0x1017")
            && seen.contains("VendorId:........................0x0002c9"),
        "{seen}"
    );
    let ibstat = fabric.run("alpha", &["ibstat"]);
    assert!(
        ibstat.contains("System image GUID: 0x0002c902002227bb"),
        "{ibstat}"
    );
    let words = fabric.run(
        "alpha",
        &[
            "sh",
            "-c",
            "hostname; cat /sys/class/infiniband/ferri0/node_desc /sys/class/infiniband/ferri0/sys_image_guid; getent hosts alpha; getent ahostsv4 alpha",
        ],
    );
    let address = fabric.host("alpha HCA-1").address;
    let lines: Vec<_> = words.lines().collect();
    assert_eq!(
        lines[..3],
        ["alpha", "alpha HCA-1", "0002:c902:0022:27bb"],
        "{words}"
    );
    assert!(
        lines.len() > 4 && lines[3..].iter().all(|line| line.starts_with(&address)),
        "{words}"
    );
    // two adapters of one machine
    let host = format!("{}/beta", fabric.name);
    let refused = output(&["run", "--host", &host, "--", "true"]);
    let why = text(&refused.stderr);
    assert!(
        !refused.status.success()
            && why.contains("\"beta\" could be \"beta mlx5_0\" or \"beta mlx5_1\""),
        "{why}"
    );
    let own = fabric.run("beta mlx5_1", &["hostname"]);
    assert_eq!(own, "beta mlx5_1\n");
    // a switch whose name is not one of its own
    fabric.say(&["link", "0x8f10400411a08", "24", "down"]);
    assert_eq!(fabric.status()["broken"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_documented_toml_is_a_fabric() {
    let text = include_str!("../../docs/topologies.md");
    let (_, toml) = text.split_once("```toml\n").expect("an example");
    let (toml, _) = toml.split_once("```").expect("its end");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [file, again] = ["documented", "again"].map(|name| {
        let file = dir.join(format!("{name}-{}.toml", std::process::id()));
        file.to_str().expect("text").to_owned()
    });
    std::fs::write(&file, toml).expect("writable");
    let made = good(&["fabric", "make", &file]);
    // four leaves, two spines and the bridge; sixteen hosts and the storage
    assert!(made.starts_with("# switches 7 hcas 17 cables 27"), "{made}");
    good(&["fabric", "make", &file, "-o", &again]);
    // switches first, then the others
    let sorted = |text: &str| {
        text.split("\n\n")
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        sorted(good(&["fabric", "make", &again]).trim()),
        sorted(made.trim())
    );
    let _ = (std::fs::remove_file(file), std::fs::remove_file(again));
}
