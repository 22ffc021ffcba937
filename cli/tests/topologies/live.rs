//! One fabric: on paper, by the engine, by our tools, and as unmodified diagnostics see it.

use super::*;
use crate::fabrics::*;
use ferriband_subnet::graph::{Graph, Owner};
use ferriband_subnet::routing::{Engine, NO_PORT, Options, Routing};
use ferriband_topology::{PortId, Topology};
use ferriband_wire::Guid;
use std::path::Path;

/// Of so many nodes a path of each pair is asked for: on the largest of those that are kept here these are 2,304 records in one answer.
const MOST_FOR_PATHS: usize = 100;
/// Of so many nodes every table is asked for switch by switch. With 4,176 that is a text of 200 MB; of those administration is asked for all tables, and switches for a few.
const MOST_FOR_DUMPS: usize = 2_000;
/// Pairs of hosts, and switches, that are asked about one at a time.
const SOME: usize = 4;

/// A live fabric, what is to be true of it, and what was seen.
struct Live<'a> {
    file: &'a str,
    engine: &'a str,
    fabric: Fabric,
    /// The host that asks.
    asks: String,
    hosts: Vec<Host>,
    /// The netlist as these tests read it.
    paper: Seen,
    /// The netlist as the project reads it, and what the engine makes of it.
    topology: Topology,
    graph: Graph,
    routing: Routing,
    /// Of all nodes, as ibnetdiscover sees them.
    lids: BTreeMap<String, u64>,
    /// What switches have.
    tables: Tables,
}

/// Brings the netlist of a file to life and asks everybody.
pub fn all_agree(file: &str, engine: &str) {
    let mut live = Live::new(file, engine);
    live.nodes_and_links_agree();
    live.ports_agree();
    live.read_tables();
    all_reach_all(&live.paper, &live.lids, &live.tables);
    live.tables_are_those_of_our_tool();
    live.single_answers_agree();
    if live.lids.len() <= MOST_FOR_PATHS {
        live.all_paths_are_told();
    }
    live.opensm_made_the_same();
}

impl<'a> Live<'a> {
    fn new(file: &'a str, engine: &'a str) -> Self {
        let text = std::fs::read_to_string(file).expect("a netlist");
        let topology = ferriband_topology::netlist::parse(&text).expect("a netlist");
        let graph = Graph::from_topology(&topology, 0).expect("a subnet");
        let find = Engine::find(engine).expect("an engine");
        let routing = (find.route)(&graph, &Options::default()).expect("its shape");
        let fabric = Fabric::up(file, &["--engine", engine]);
        fabric.wait_for_links();
        let hosts = fabric.hosts();
        Live {
            file,
            engine,
            asks: hosts[1].name.clone(),
            fabric,
            hosts,
            paper: netlist(&text),
            topology,
            graph,
            routing,
            lids: BTreeMap::new(),
            tables: Tables::new(),
        }
    }

    fn run(&self, words: &[&str]) -> String {
        self.fabric.run(&self.asks, words)
    }

    /// For messages.
    fn what(&self) -> String {
        format!("{} by {}", self.file, self.engine)
    }

    fn top(&self) -> u64 {
        *self.lids.values().max().expect("a LID")
    }

    fn switches(&self) -> impl Iterator<Item = &String> {
        let nodes = self.paper.nodes.iter();
        nodes
            .filter(|(_, is_switch)| **is_switch)
            .map(|node| node.0)
    }

    fn guid(&self, name: &str) -> Guid {
        let node = self.topology.find(name).expect("a node");
        self.topology.node(node).guid
    }

    /// Where a switch stands in the engine's results.
    fn index(&self, switch: &str) -> u32 {
        let guid = self.guid(switch);
        let mut switches = self.graph.switches().iter();
        let found = switches.position(|switch| switch.guid == guid);
        found.expect("a switch") as u32
    }

    fn nodes_and_links_agree(&mut self) {
        let what = self.what();
        let (seen, lids) = discovered(&self.run(&["ibnetdiscover"]));
        assert_eq!(seen, self.paper, "{what}: ibnetdiscover and the netlist");
        for host in &self.hosts {
            assert_eq!(lids[&host.name], host.lid, "{what}: {}", host.name);
        }
        let status = self.fabric.status();
        let cables = self.paper.links.len() as u64 / 2;
        assert_eq!(
            status["links"]["total"].as_u64(),
            Some(cables),
            "{what}: status"
        );
        // LIDs are those that the engine went by
        for (name, lid) in &lids {
            let owner = match self.graph.owner(*lid as u32) {
                Owner::Switch(switch) => self.graph.switches()[switch as usize].guid,
                Owner::End(end) => self.graph.ends()[end as usize].node,
                Owner::Nobody => panic!("{what}: nobody has LID {lid} on paper"),
            };
            assert_eq!(owner, self.guid(name), "{what}: {name}");
        }
        // nodes and their LIDs, by administration
        let nodes = records(&self.run(&["saquery", "NR"]), "NodeRecord");
        assert_eq!(nodes.len(), lids.len(), "{what}: saquery NR");
        let told: BTreeMap<String, u64> = nodes
            .iter()
            .map(|node| (node["NodeDescription"].clone(), number(node, "lid")))
            .collect();
        assert_eq!(told, lids, "{what}: saquery NR and ibnetdiscover");
        self.lids = lids;
        // links that carry data, seen from switches
        let mut linked = BTreeSet::new();
        for line in self.run(&["iblinkinfo", "-l"]).lines() {
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
                let known = self.paper.nodes.get(name).copied();
                known.unwrap_or_else(|| panic!("{what}: iblinkinfo names \"{name}\""))
            };
            let own = links.iter().filter(|(from, _)| is_switch(&from.0));
            own.cloned().collect()
        };
        assert_eq!(
            of_switches(&linked),
            of_switches(&self.paper.links),
            "{what}: iblinkinfo"
        );
        // links by administration: LIDs and ports
        let names: BTreeMap<u64, &String> =
            self.lids.iter().map(|(name, lid)| (*lid, name)).collect();
        let links = records(&self.run(&["saquery", "LR"]), "LinkRecord");
        assert_eq!(links.len(), self.paper.links.len(), "{what}: saquery LR");
        let told: BTreeSet<(End, End)> = links
            .iter()
            .map(|link| {
                let end =
                    |lid, port| (names[&number::<u64>(link, lid)].clone(), number(link, port));
                (end("FromLID", "FromPort"), end("ToLID", "ToPort"))
            })
            .collect();
        assert_eq!(told, self.paper.links, "{what}: saquery LR");
    }

    /// Administration knows each port once: those of switches, 0 and unplugged ones included, and of hosts.
    fn ports_agree(&self) {
        let what = self.what();
        let said = self.run(&["saquery", "-t", "60000", "PIR"]);
        let (mut told, mut lid, mut active) = (Vec::new(), None, 0);
        for line in said.lines().map(str::trim) {
            let value = || line.rsplit('.').next().and_then(|value| value.parse().ok());
            if line.starts_with("EndPortLid.") {
                lid = value();
            } else if line.starts_with("PortNum.")
                && let (Some(lid), Some(port)) = (lid.take(), value())
            {
                told.push((lid, port));
            } else if line.starts_with("LinkState:") {
                active += usize::from(line.ends_with(".Active"));
            }
        }
        let all: BTreeSet<(u64, u64)> = self
            .lids
            .iter()
            .flat_map(|(name, lid)| {
                let node = self.topology.find(name).expect("a node");
                let ports = u64::from(self.topology.node(node).ports);
                let first = u64::from(!self.paper.nodes[name]);
                (first..=ports).map(move |port| (*lid, port))
            })
            .collect();
        assert_eq!(told.len(), all.len(), "{what}: saquery PIR");
        assert_eq!(BTreeSet::from_iter(told), all, "{what}: saquery PIR");
        let plugged = self.paper.links.len() + self.switches().count();
        assert_eq!(active, plugged, "{what}: ports that carry data");
        let switches = records(&self.run(&["saquery", "SWIR"]), "SwitchInfoRecord");
        assert_eq!(switches.len(), self.switches().count(), "{what}: SWIR");
        let tops = switches.iter().map(|switch| &*switch["LinearFDBTop"]);
        let tops: BTreeSet<&str> = tops.collect();
        assert_eq!(
            tops,
            BTreeSet::from([&*format!("{:#X}", self.top()).replace("0X", "0x")])
        );
    }

    /// Forwarding tables as switches have them and as administration says.
    fn read_tables(&mut self) {
        let what = self.what();
        let names: BTreeMap<u64, &String> =
            self.lids.iter().map(|(name, lid)| (*lid, name)).collect();
        let mut told = Tables::new();
        let said = self.run(&["saquery", "-t", "60000", "LFTR"]);
        for dump in said.split("LFT Record dump:").skip(1) {
            let field = |name: &str| -> u64 {
                let line = dump.lines().find(|line| line.trim().starts_with(name));
                let value = line.and_then(|line| line.rsplit('.').next());
                let value = value.and_then(|value| value.trim().parse().ok());
                value.unwrap_or_else(|| panic!("no {name}: {dump}"))
            };
            let table = told.entry(names[&field("LID")].clone()).or_default();
            let lines = dump
                .lines()
                .skip_while(|line| !line.contains("Port Number"));
            for line in lines.skip(1) {
                let mut words = line.split_whitespace().map(str::parse::<u64>);
                if let (Some(Ok(lid)), Some(Ok(port))) = (words.next(), words.next())
                    && port != 255
                {
                    assert_eq!(
                        table.insert(lid, port as u8),
                        None,
                        "{what}: LID {lid} twice"
                    );
                }
            }
        }
        if self.lids.len() <= MOST_FOR_DUMPS {
            let mut read = forwarding(&self.run(&["dump_lfts"]), &self.lids);
            self.add_last(&mut read, &told);
            for (switch, table) in &told {
                assert_eq!(
                    &read[switch], table,
                    "{what}: {switch}, dump_lfts and saquery LFTR"
                );
            }
            assert_eq!(read.len(), told.len(), "{what}");
        }
        self.tables = told;
    }

    /// ibroute and dump_fts leave out the last LID where that is a multiple of 64; what administration says of that one is taken instead.
    fn add_last(&self, read: &mut Tables, told: &Tables) {
        let top = self.top();
        if !top.is_multiple_of(64) {
            return;
        }
        for (switch, table) in read {
            if let Some(port) = told[switch].get(&top) {
                assert_eq!(table.insert(top, *port), None, "{switch}: it was left out");
            }
        }
    }

    /// The engine's, and those that our tool says it programmed, unless that is too much text.
    fn tables_are_those_of_our_tool(&self) {
        let what = self.what();
        for (switch, table) in &self.tables {
            let index = self.index(switch);
            let port = |lid: u64| self.routing.tables.port(index, lid as u32);
            let made = (1..=self.top()).map(|lid| (lid, port(lid)));
            let made: BTreeMap<u64, u8> = made.filter(|(_, port)| *port != NO_PORT).collect();
            assert_eq!(*table, made, "{what}: {switch}");
        }
        if self.lids.len() > MOST_FOR_DUMPS {
            return;
        }
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&self.fabric.name);
        let written = dir.with_extension("tables").display().to_string();
        let (file, engine) = (self.file, self.engine);
        // it ends with 1 where packets may block each other
        let _ = output(&[
            "fabric", "route", file, "--engine", engine, "--tables", &written,
        ]);
        let offline = std::fs::read_to_string(&written).expect("it is written");
        let _ = std::fs::remove_file(&written);
        let offline = forwarding(&offline, &self.lids);
        assert_eq!(offline.len(), self.tables.len(), "{what}");
        for (switch, table) in &self.tables {
            assert_eq!(&offline[switch], table, "{what}: {switch}, fabric route");
        }
    }

    /// Where each end of a link leads.
    fn onward(&self) -> BTreeMap<&End, &End> {
        let links = self.paper.links.iter();
        links.map(|(from, to)| (from, to)).collect()
    }

    /// What is asked one at a time: the way of a pair as ibtracert finds it and its service level, a switch's table as ibroute reads it, and its lanes.
    fn single_answers_agree(&self) {
        let what = self.what();
        let onward = self.onward();
        let count = self.hosts.len();
        for pair in 0..SOME {
            let from = &self.hosts[(pair * 7_919) % count];
            let to = &self.hosts[(pair * 3_571 + count / 2) % count];
            if from.name == to.name {
                continue;
            }
            let (own, other) = (from.lid.to_string(), to.lid.to_string());
            let said = self.run(&["ibtracert", &own, &other]);
            // "[3] -> switch port {0x200001}[4] lid 7-7 "T1_0""
            let hop = |line: &str| {
                let (out, far) = line.split_once("->")?;
                let name = quoted(far, 0)?.to_owned();
                Some((bracketed(out)?, (name, bracketed(far)?)))
            };
            let hops: Vec<(u8, End)> = said.lines().filter_map(hop).collect();
            let (mut way, mut at, mut by) = (Vec::new(), from.name.clone(), 1);
            while at != to.name {
                let far = onward[&(at, by)];
                way.push((by, far.clone()));
                at = far.0.clone();
                by = self.tables.get(&at).map_or(0, |table| table[&to.lid]);
            }
            assert_eq!(hops, way, "{what}: ibtracert {own} {other}: {said}");
            let said = self.run(&["saquery", "-p", "--src-to-dst", &format!("{own}:{other}")]);
            let paths = records(&said, "PathRecord");
            assert_eq!(paths.len(), 1, "{what}: {said}");
            let level = self.level(from.lid, to.lid);
            assert_eq!(
                paths[0]["sl"],
                format!("{level:#x}"),
                "{what}: {own} to {other}"
            );
        }
        let switches: Vec<&String> = self.switches().collect();
        for turn in 0..SOME {
            let switch = switches[turn * 37 % switches.len()];
            let lid = self.lids[switch].to_string();
            let mut read = forwarding(&self.run(&["ibroute", &lid]), &self.lids);
            self.add_last(&mut read, &self.tables);
            assert_eq!(read.len(), 1, "{what}: ibroute {lid}");
            assert_eq!(read[switch], self.tables[switch], "{what}: ibroute {lid}");
        }
        for switch in [switches[0], switches[switches.len() - 1]] {
            self.lanes_agree(switch);
        }
    }

    /// A switch's lanes as the engine has them, as the switch says and as administration does.
    fn lanes_agree(&self, switch: &str) {
        let what = format!("{}: {switch}", self.what());
        let lid = self.lids[switch].to_string();
        let (index, node) = (
            self.index(switch),
            self.topology.find(switch).expect("a node"),
        );
        let is_plugged = |port: u8| self.topology.cable_at(PortId { node, port }).is_some();
        let numbers = |text: &str| -> Vec<u8> {
            let words = text.split('|').filter_map(|word| word.trim().parse().ok());
            words.collect()
        };
        let levels = self.levels();
        let mut told = BTreeMap::new();
        let said = self.run(&["saquery", "SL2VL", &lid]);
        let dumps = said.split("SL2VLTableRecord dump:").skip(1);
        for (dump, record) in dumps.zip(records(&said, "SL2VLTableRecord")) {
            let ports: (u8, u8) = (number(&record, "InPort"), number(&record, "OutPort"));
            let lanes = dump
                .lines()
                .find_map(|line| line.trim().strip_prefix("VL:"));
            let lanes = numbers(lanes.expect("lanes"));
            assert_eq!(told.insert(ports, lanes), None, "{what}");
        }
        let ports = 1..=self.topology.node(node).ports;
        for output in ports.clone().filter(|port| is_plugged(*port)) {
            // "ports: in  3, out  1: | 2| 3| ..."
            let said = self.run(&["smpquery", "sl2vl", &lid, &output.to_string()]);
            let read: BTreeMap<u8, Vec<u8>> = said
                .lines()
                .filter_map(|line| {
                    let input = line.strip_prefix("ports: in")?.split(',').next()?;
                    Some((input.trim().parse().ok()?, numbers(line.split_once('|')?.1)))
                })
                .collect();
            for input in ports.clone().filter(|port| is_plugged(*port)) {
                let lane = |level| self.routing.lanes.at(index, input, output, level);
                let wanted: Vec<u8> = (0..16).map(lane).collect();
                // of a single lane nobody writes tables, and each level has any
                if self.routing.lanes_needed > 1 {
                    let used = |lanes: &[u8]| -> Vec<u8> {
                        levels
                            .iter()
                            .map(|level| lanes[usize::from(*level)])
                            .collect()
                    };
                    assert_eq!(
                        used(&read[&input]),
                        used(&wanted),
                        "{what}, {input} to {output}"
                    );
                }
                assert_eq!(
                    read[&input],
                    told[&(input, output)],
                    "{what}, {input} to {output}"
                );
            }
        }
    }

    /// The service levels that the engine gives to some pair.
    fn levels(&self) -> BTreeSet<u8> {
        let switches = 0..self.graph.switches().len() as u32;
        let pairs = switches.flat_map(|from| (1..=self.graph.top()).map(move |lid| (from, lid)));
        pairs
            .map(|(from, lid)| self.routing.level(&self.graph, from, lid))
            .collect()
    }

    fn level(&self, from: u64, to: u64) -> u8 {
        let at = self.graph.switch_of(from as u32).expect("a switch");
        self.routing.level(&self.graph, at, to as u32)
    }

    /// All paths that administration knows, by LIDs.
    fn paths(&self) -> BTreeMap<(u64, u64), BTreeMap<String, String>> {
        let told = records(&self.run(&["saquery", "-t", "60000", "PR"]), "PathRecord");
        let count = told.len();
        let pair = |path: &BTreeMap<_, _>| (number(path, "slid"), number(path, "dlid"));
        let paths: BTreeMap<_, _> = told.into_iter().map(|path| (pair(&path), path)).collect();
        assert_eq!(paths.len(), count, "{}: each pair once", self.what());
        paths
    }

    /// Exactly one of each pair of LIDs, itself included, each as fast and wide as every link of these fabrics, by the service level that the engine gives it.
    fn all_paths_are_told(&self) {
        let what = self.what();
        let paths = self.paths();
        let onward = self.onward();
        // roots of a tree have no way up and then down to each other
        let arrives = |from: &String, to: &String| {
            let (mut at, mut by) = (from, 1);
            for links in 0..64 {
                if let Some(table) = self
                    .tables
                    .get(at)
                    .filter(|_| links > 0 || self.paper.nodes[from])
                {
                    match table.get(&self.lids[to]) {
                        Some(port) => by = *port,
                        None => return false,
                    }
                }
                if at == to {
                    return true;
                }
                at = &onward[&(at.clone(), by)].0;
            }
            false
        };
        let all: BTreeSet<(u64, u64)> = self
            .lids
            .iter()
            .flat_map(|(from, own)| {
                let others = self.lids.iter().filter(move |(to, _)| arrives(from, to));
                others.map(move |(_, other)| (*own, *other))
            })
            .collect();
        let apart = self.lids.len().pow(2) - all.len();
        let tree = self.engine == "ftree";
        assert_eq!(apart > 0, tree, "{what}: {apart} pairs without a route");
        assert_eq!(
            paths.keys().copied().collect::<BTreeSet<_>>(),
            all,
            "{what}: saquery PR"
        );
        let ends: BTreeSet<[&str; 3]> = paths
            .values()
            .map(|path| ["mtu", "rate", "pkey"].map(|name| path[name].as_str()))
            .collect();
        assert_eq!(ends.len(), 1, "{what}: {ends:?}");
        for ((from, to), path) in &paths {
            let level = self.level(*from, *to);
            assert_eq!(path["sl"], format!("{level:#x}"), "{what}: {from} to {to}");
        }
    }

    /// What OpenSM's dumps said of the same fabric (ib/subnet/tests/oracle/README.md), where they are kept and the engine is deterministic: tables, and of torus-2qos service levels and lanes.
    fn opensm_made_the_same(&self) {
        let Ok(text) = std::fs::read_to_string(Path::new(self.file).with_extension("txt")) else {
            return;
        };
        let mut is_ours = false;
        let mut compared = 0;
        let what = self.what();
        let guid_of = |word: &str| Guid(u64::from_str_radix(word, 16).expect("a GUID"));
        let switch_of = |word: &str| {
            let guid = guid_of(word);
            self.switches()
                .find(|name| self.guid(name) == guid)
                .expect("a switch")
        };
        let paths = self.paths();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').expect("words");
            let mut words = rest.split(' ');
            match kind {
                "engine" => is_ours = rest.eq_ignore_ascii_case(self.engine),
                "table" if is_ours => {
                    let switch = switch_of(words.next().expect("a GUID"));
                    let ports = (1..).zip(words).filter(|(_, port)| *port != "-");
                    let port = |(lid, port): (u64, &str)| (lid, port.parse().expect("a port"));
                    let theirs: BTreeMap<u64, u8> = ports.map(port).collect();
                    assert_eq!(self.tables[switch], theirs, "{what}: {switch}, OpenSM");
                    compared += 1;
                }
                // OpenSM draws lots for others'
                "levels" if is_ours && self.engine == "torus-2qos" => {
                    let from = words
                        .next()
                        .and_then(|lid| lid.parse().ok())
                        .expect("a LID");
                    for (to, level) in words.map(|word| word.split_once(':').expect("a pair")) {
                        let to = to.parse().expect("a LID");
                        let level: u8 = level.parse().expect("a level");
                        let told = &paths[&(from, to)]["sl"];
                        assert_eq!(
                            *told,
                            format!("{level:#x}"),
                            "{what}: {from} to {to}, OpenSM"
                        );
                        compared += 1;
                    }
                }
                "lanes" if is_ours => {
                    let lid = self.lids[switch_of(words.next().expect("a GUID"))].to_string();
                    let [input, output] = [(); 2].map(|()| words.next().expect("a port"));
                    let theirs: Vec<String> = words.map(|lane| format!("{lane:>2}")).collect();
                    let said = self.run(&["smpquery", "sl2vl", &lid, output]);
                    let wanted = format!("in {input:>2}, out {output:>2}: |{}|", theirs.join("|"));
                    assert!(said.contains(&wanted), "{what}: {wanted}, OpenSM: {said}");
                    compared += 1;
                }
                _ => {}
            }
        }
        let is_recorded =
            !text.contains("engine ") || self.engine != "dnup" && self.engine != "updn";
        assert!(
            compared >= self.switches().count() || !is_recorded,
            "{what}: {compared}"
        );
    }
}
