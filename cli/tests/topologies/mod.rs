//! What programs print of a fabric, read: netlists, `ibnetdiscover`, forwarding tables as `ibroute`, `dump_fts` and our own tool have them, records of `saquery`.

mod live;

pub use live::all_agree;

use std::collections::{BTreeMap, BTreeSet};

/// A node's name and a port.
pub type End = (String, u8);
/// Of each switch, by name, the port for each LID.
pub type Tables = BTreeMap<String, BTreeMap<u64, u8>>;

/// The text between the quotation marks of a line, from the `from`-th pair on.
pub fn quoted(line: &str, from: usize) -> Option<&str> {
    line.split('"').nth(2 * from + 1)
}

/// The number in brackets behind some text.
pub fn bracketed(text: &str) -> Option<u8> {
    text.split('[').nth(1)?.split(']').next()?.parse().ok()
}

/// Nodes (true: a switch) and cables of a netlist, each cable as both of its directions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub nodes: BTreeMap<String, bool>,
    pub links: BTreeSet<(End, End)>,
}

impl Seen {
    fn link(&mut self, one: End, other: End) {
        self.links.insert((one.clone(), other.clone()));
        self.links.insert((other, one));
    }
}

/// ibsim's form: `Switch 8 "T0"`, then `[1] "T1"[2]`.
pub fn netlist(text: &str) -> Seen {
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
pub fn discovered(text: &str) -> (Seen, BTreeMap<String, u64>) {
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
pub fn forwarding(text: &str, known: &BTreeMap<String, u64>) -> Tables {
    let mut tables = Tables::new();
    let names: BTreeMap<u64, &String> = known.iter().map(|(name, lid)| (*lid, name)).collect();
    let mut switch = None;
    for line in text.lines() {
        if line.starts_with("Unicast lids") {
            let lid = line.split("switch Lid ").nth(1);
            let lid = lid.and_then(|rest| rest.split(' ').next()?.parse().ok());
            let name = line
                .rsplit('(')
                .next()
                .and_then(|rest| rest.split(')').next());
            let name = match lid {
                Some(lid) => names.get(&lid).copied(),
                None => name
                    .and_then(|name| known.get_key_value(name))
                    .map(|known| known.0),
            };
            let name = name.unwrap_or_else(|| panic!("whose? {line}"));
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
pub fn records(text: &str, kind: &str) -> Vec<BTreeMap<String, String>> {
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

pub fn number<T: std::str::FromStr>(record: &BTreeMap<String, String>, name: &str) -> T {
    let text = record.get(name).and_then(|text| text.split(' ').next());
    let found = text.and_then(|text| text.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in {record:?}"))
}

/// Each host reaches each LID by the tables.
pub fn all_reach_all(seen: &Seen, lids: &BTreeMap<String, u64>, tables: &Tables) {
    let names: Vec<&String> = seen.nodes.keys().collect();
    let number = |name: &String| names.binary_search(&name).expect("a node");
    let mut onward = vec![vec![None; 256]; names.len()];
    for ((from, port), (to, _)) in &seen.links {
        onward[number(from)][usize::from(*port)] = Some(number(to));
    }
    let hosts = (0..names.len()).filter(|node| !seen.nodes[names[*node]]);
    // what hosts of one switch send goes the same way
    let starts: BTreeSet<usize> = hosts.map(|host| onward[host][1].expect("a link")).collect();
    for (name, lid) in lids {
        let home = number(name);
        let next = |(name, onward): (&&String, &Vec<Option<usize>>)| {
            let port = *tables.get(*name)?.get(lid)?;
            onward[usize::from(port)]
        };
        let next: Vec<Option<usize>> = names.iter().zip(&onward).map(next).collect();
        for &start in &starts {
            let mut at = start;
            for _ in 0..64 {
                if at == home {
                    break;
                }
                at = next[at].unwrap_or_else(|| panic!("{} to {lid}", names[at]));
            }
            assert_eq!(at, home, "from {} to LID {lid}", names[start]);
        }
    }
}
