//! Fabrics of well-known shapes, by a few numbers: `torus:4x4:2` is a torus of 4 by 4 switches with 2 hosts at each.
//!
//! Names, port numbers and GUIDs are those of the netlists with which OpenSM was measured, so that results can be compared. Switches have 36 ports
//! unless a shape needs more.

use crate::{Builder, Link, NewNode, NodeId, NodeKind, Topology, TopologyError};

/// Most nodes that a shape may have here.
const MOST: u64 = 1 << 20;
/// Ports of a usual switch.
const RADIX: u32 = 36;

/// Why there is no such fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GenerateError {
    /// No such shape.
    #[error("\"{0}\" is no shape; there are {FORMS}")]
    Unknown(String),
    /// Numbers that make no fabric.
    #[error("\"{shape}\": {why}")]
    Numbers {
        /// What was asked for.
        shape: String,
        /// What is wrong.
        why: String,
    },
    /// A part is none.
    #[error(transparent)]
    Part(#[from] TopologyError),
}

/// What there is.
pub const FORMS: &str = "fat-tree:LEAVESxHOSTSxSPINES, fat-tree:PORTS (three levels), ring:SWITCHES:HOSTS, torus:XxY[xZ..]:HOSTS, \
     mesh:XxY[xZ..]:HOSTS, hypercube:DIMENSIONS:HOSTS, dragonfly:SWITCHESxHOSTSxGLOBALS, tutorial and congestion";

/// Makes the fabric of a shape, as in [`FORMS`]; HOSTS are those at each switch.
///
/// # Errors
/// There is no such shape, or not of this size.
pub fn generate(shape: &str) -> Result<Topology, GenerateError> {
    let mut words = shape.split(':');
    let kind = words.next().unwrap_or_default();
    let mut numbers = Vec::new();
    for word in words {
        let read: Result<Vec<u32>, _> = word.split('x').map(str::parse).collect();
        numbers.push(read.map_err(|_| numbers_of(shape, format!("\"{word}\" is no number")))?);
    }
    let numbers: Vec<&[u32]> = numbers.iter().map(|numbers| &**numbers).collect();
    if numbers.iter().any(|numbers| numbers.contains(&0)) {
        return Err(numbers_of(shape, "each number must be 1 or more".into()));
    }
    let made = match (kind, &*numbers) {
        ("fat-tree", &[&[leaves, hosts, spines]]) => {
            limit(shape, &[leaves, hosts.saturating_add(1)], spines)?;
            fat_tree(leaves, hosts, spines)
        }
        ("fat-tree", &[&[ports]]) => {
            let even = (2..=254).contains(&ports) && ports % 2 == 0;
            even.then_some(()).ok_or_else(|| {
                let why = "a switch in three levels has an even number of ports, 2 to 254";
                numbers_of(shape, why.into())
            })?;
            limit(shape, &[ports, ports, ports], 0)?;
            three_levels(ports)
        }
        ("ring", &[&[switches], &[hosts]]) => {
            limit(shape, &[switches, hosts.saturating_add(1)], 0)?;
            grid("G", &[switches], hosts, true)
        }
        ("torus" | "mesh", &[sizes, &[hosts]]) if !sizes.is_empty() => {
            limit(shape, sizes, 0)?;
            limit(
                shape,
                &[sizes.iter().product::<u32>(), hosts.saturating_add(1)],
                0,
            )?;
            let (letter, wraps) = if kind == "torus" {
                ("T", true)
            } else {
                ("M", false)
            };
            grid(letter, sizes, hosts, wraps)
        }
        ("hypercube", &[&[dimensions], &[hosts]]) => {
            let size = 1_u32.checked_shl(dimensions).unwrap_or(u32::MAX);
            limit(shape, &[size, hosts.saturating_add(1)], 0)?;
            hypercube(dimensions, hosts)
        }
        ("dragonfly", &[&[switches, hosts, globals]]) => {
            limit(shape, &[switches, globals], 0)?;
            limit(
                shape,
                &[switches * globals + 1, switches, hosts.saturating_add(1)],
                0,
            )?;
            dragonfly(switches, hosts, globals)
        }
        ("tutorial", []) => tutorial(),
        ("congestion", []) => congestion(),
        _ => return Err(GenerateError::Unknown(shape.to_owned())),
    };
    Ok(made?)
}

fn numbers_of(shape: &str, why: String) -> GenerateError {
    GenerateError::Numbers {
        shape: shape.to_owned(),
        why,
    }
}

fn limit(shape: &str, factors: &[u32], more: u32) -> Result<(), GenerateError> {
    let product = factors.iter().try_fold(1_u64, |product, &factor| {
        product
            .checked_mul(factor.into())
            .filter(|product| *product <= MOST)
    });
    match product {
        Some(product) if product + u64::from(more) <= MOST => Ok(()),
        _ => Err(numbers_of(shape, format!("more than {MOST} nodes"))),
    }
}

/// A fabric that is being put together.
struct Making(Builder);

impl Making {
    fn new() -> Self {
        Self(Builder::new())
    }

    fn switch(&mut self, name: String, ports: u32) -> Result<NodeId, TopologyError> {
        let node = NewNode {
            name: &name,
            ports: ports.max(RADIX),
            ..NewNode::default()
        };
        self.0.node(NodeKind::Switch, node)
    }

    /// A host with one port, in a port of a switch.
    fn host(&mut self, name: String, at: NodeId, port: u32) -> Result<(), TopologyError> {
        let node = NewNode {
            name: &name,
            ports: 1,
            ..NewNode::default()
        };
        let host = self.0.node(NodeKind::Ca, node)?;
        self.join(host, 1, at, port)
    }

    fn join(&mut self, a: NodeId, port: u32, b: NodeId, there: u32) -> Result<(), TopologyError> {
        let ends = (self.0.port(a, port)?, self.0.port(b, there)?);
        self.0.cable(ends.0, ends.1, Link::default());
        Ok(())
    }
}

fn fat_tree(leaves: u32, hosts: u32, spines: u32) -> Result<Topology, TopologyError> {
    let mut new = Making::new();
    let names = (0..leaves).map(|leaf| format!("L{leaf}"));
    let leaf_ids: Vec<_> = names
        .map(|name| new.switch(name, hosts + spines))
        .collect::<Result<_, _>>()?;
    let names = (0..spines).map(|spine| format!("S{spine}"));
    let spine_ids: Vec<_> = names
        .map(|name| new.switch(name, leaves))
        .collect::<Result<_, _>>()?;
    for (leaf, &id) in (0..).zip(&leaf_ids) {
        for host in 0..hosts {
            new.host(format!("H{leaf}_{host}"), id, host + 1)?;
        }
        for (spine, &spine_id) in (0..).zip(&spine_ids) {
            new.join(id, hosts + spine + 1, spine_id, leaf + 1)?;
        }
    }
    new.0.finish()
}

/// As many pods as switches have ports; half of each switch's ports go up.
fn three_levels(ports: u32) -> Result<Topology, TopologyError> {
    let half = ports / 2;
    let mut new = Making::new();
    let (mut edges, mut middles, mut cores) = (Vec::new(), Vec::new(), Vec::new());
    for pod in 0..ports {
        for index in 0..half {
            edges.push(new.switch(format!("E{pod}_{index}"), ports)?);
        }
        for index in 0..half {
            middles.push(new.switch(format!("A{pod}_{index}"), ports)?);
        }
    }
    for core in 0..half * half {
        cores.push(new.switch(format!("C{core}"), ports)?);
    }
    let at = |pod: u32, index: u32| (pod * half + index) as usize;
    for pod in 0..ports {
        for edge in 0..half {
            for host in 0..half {
                new.host(
                    format!("H{pod}_{edge}_{host}"),
                    edges[at(pod, edge)],
                    host + 1,
                )?;
            }
            for middle in 0..half {
                new.join(
                    edges[at(pod, edge)],
                    half + middle + 1,
                    middles[at(pod, middle)],
                    edge + 1,
                )?;
            }
        }
        for middle in 0..half {
            for core in 0..half {
                let there = cores[(middle * half + core) as usize];
                new.join(middles[at(pod, middle)], half + core + 1, there, pod + 1)?;
            }
        }
    }
    new.0.finish()
}

/// Ports 1 and 2 of a switch lead forwards and backwards in the first dimension, 3 and 4 in the second, ...; hosts come after them.
fn grid(letter: &str, sizes: &[u32], hosts: u32, wraps: bool) -> Result<Topology, TopologyError> {
    let count: u32 = sizes.iter().product();
    // the last dimension runs fastest
    let place = |index: u32| -> Vec<u32> {
        let mut left = index;
        let mut place: Vec<u32> = sizes
            .iter()
            .rev()
            .map(|size| {
                let at = left % size;
                left /= size;
                at
            })
            .collect();
        place.reverse();
        place
    };
    let index = |place: &[u32]| {
        place
            .iter()
            .zip(sizes)
            .fold(0, |index, (at, size)| index * size + at)
    };
    let named = |place: &[u32]| {
        let words: Vec<String> = place.iter().map(u32::to_string).collect();
        words.join("_")
    };
    let mut new = Making::new();
    let lines = 2 * sizes.len() as u32;
    let mut ids = Vec::new();
    for switch in 0..count {
        ids.push(new.switch(format!("{letter}{}", named(&place(switch))), lines + hosts)?);
    }
    for switch in 0..count {
        let here = place(switch);
        for host in 0..hosts {
            new.host(
                format!("H{}_{host}", named(&here)),
                ids[switch as usize],
                lines + host + 1,
            )?;
        }
        for (dimension, &size) in sizes.iter().enumerate() {
            let mut there = here.clone();
            there[dimension] = (here[dimension] + 1) % size;
            // two in a ring are joined once, one alone not at all
            if there[dimension] == 0 && (!wraps || size < 3) {
                continue;
            }
            let port = 2 * dimension as u32 + 1;
            new.join(
                ids[switch as usize],
                port,
                ids[index(&there) as usize],
                port + 1,
            )?;
        }
    }
    new.0.finish()
}

/// Port 1 leads along the first dimension, and so on; hosts come after them.
fn hypercube(dimensions: u32, hosts: u32) -> Result<Topology, TopologyError> {
    let mut new = Making::new();
    let mut ids = Vec::new();
    for switch in 0..1_u32 << dimensions {
        ids.push(new.switch(format!("B{switch}"), dimensions + hosts)?);
    }
    for (switch, &id) in (0_u32..).zip(&ids) {
        for host in 0..hosts {
            new.host(format!("H{switch}_{host}"), id, dimensions + host + 1)?;
        }
        for dimension in 0..dimensions {
            let there = switch ^ (1 << dimension);
            if there > switch {
                new.join(id, dimension + 1, ids[there as usize], dimension + 1)?;
            }
        }
    }
    new.0.finish()
}

/// Groups in which each switch is joined with each, and each group with each by one cable: as many groups as that gives.
fn dragonfly(switches: u32, hosts: u32, globals: u32) -> Result<Topology, TopologyError> {
    let groups = switches * globals + 1;
    let mut new = Making::new();
    let mut ids = Vec::new();
    for group in 0..groups {
        for switch in 0..switches {
            ids.push(new.switch(format!("D{group}_{switch}"), switches - 1 + globals + hosts)?);
        }
    }
    let at = |group: u32, switch: u32| ids[(group * switches + switch) as usize];
    for group in 0..groups {
        for switch in 0..switches {
            for host in 0..hosts {
                let port = switches + globals + host;
                new.host(format!("H{group}_{switch}_{host}"), at(group, switch), port)?;
            }
            for other in switch + 1..switches {
                new.join(at(group, switch), other, at(group, other), switch + 1)?;
            }
        }
    }
    let mut next = vec![switches; ids.len()];
    for group in 0..groups {
        for other in group + 1..groups {
            let ends = [
                (group * switches + (other - group - 1) / globals) as usize,
                (other * switches + (groups - (other - group) - 1) / globals) as usize,
            ];
            let [port, there] = ends.map(|end| {
                next[end] += 1;
                next[end] - 1
            });
            new.join(ids[ends[0]], port, ids[ends[1]], there)?;
        }
    }
    new.0.finish()
}

/// The nine switches of papers/000 Fig. 7 with a host at each. The drawing is lost: these are the links that the text speaks of, and some more that keep its ranks, so that
/// `a` is the middle, `b` to `e` are next to it, and `f` to `i` below two of those each.
fn tutorial() -> Result<Topology, TopologyError> {
    let links = [
        "ab", "ac", "ad", "ae", "bc", "bf", "cf", "cg", "dg", "dh", "eh", "ei", "bi",
    ];
    let mut new = Making::new();
    let mut ids = Vec::new();
    for name in 'a'..='i' {
        ids.push((new.switch(name.to_string(), 8)?, 1));
    }
    for link in links {
        let ends = [0, 1].map(|end| usize::from(link.as_bytes()[end] - b'a'));
        let ports = ends.map(|end| {
            ids[end].1 += 1;
            ids[end].1 - 1
        });
        new.join(ids[ends[0]].0, ports[0], ids[ends[1]].0, ports[1])?;
    }
    for (name, (id, port)) in ('a'..='i').zip(ids) {
        new.host(format!("host-{name}"), id, port)?;
    }
    new.0.finish()
}

/// Two switches and six hosts of papers/000 Figs. 12 and 13: x is port 1 of the first switch, y port 1 of the second, r its port 2, q its port 3.
fn congestion() -> Result<Topology, TopologyError> {
    let mut new = Making::new();
    let first = new.switch("switch-1".into(), 8)?;
    let second = new.switch("switch-2".into(), 8)?;
    new.join(first, 1, second, 1)?;
    for (name, switch, port) in [
        ("A", first, 2),
        ("P", first, 3),
        ("R", second, 2),
        ("Q", second, 3),
        ("B", second, 4),
        ("C", second, 5),
    ] {
        new.host(name.into(), switch, port)?;
    }
    new.0.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortId;

    fn count(shape: &str) -> (usize, usize, usize) {
        let made = generate(shape).unwrap();
        assert_eq!(made.components().len(), 1, "{shape} hangs together");
        let of = |kind| made.ids_of(kind).count();
        (of(NodeKind::Switch), of(NodeKind::Ca), made.cables().len())
    }

    #[test]
    fn shapes_have_the_switches_hosts_and_cables_that_they_should() {
        for (shape, expected) in [
            ("fat-tree:36x18x18", (54, 648, 1296)),
            ("fat-tree:24", (720, 3456, 10368)),
            ("ring:5:2", (5, 10, 15)),
            ("ring:2:1", (2, 2, 3)),
            ("torus:8x8:4", (64, 256, 384)),
            ("torus:6x6x6:4", (216, 864, 1512)),
            ("torus:4x2:1", (8, 8, 20)),
            ("mesh:4x4:2", (16, 32, 56)),
            ("hypercube:4:2", (16, 32, 64)),
            ("dragonfly:8x4x4", (264, 1056, 2508)),
            ("tutorial", (9, 9, 22)),
            ("congestion", (2, 6, 7)),
        ] {
            assert_eq!(count(shape), expected, "{shape}");
        }
    }

    #[test]
    fn ports_are_in_the_order_of_the_measured_netlists() {
        let peer = |shape: &str, name: &str, port: u8| {
            let made = generate(shape).unwrap();
            let node = made.find(name).unwrap();
            let peer = made.peer(PortId { node, port }).unwrap();
            (made.node(peer.node).name.clone(), peer.port)
        };
        for (shape, name, port, there, back) in [
            ("fat-tree:36x18x18", "L1", 20, "S1", 2),
            ("fat-tree:24", "E0_1", 13, "A0_0", 2),
            ("fat-tree:24", "A0_1", 24, "C23", 1),
            ("torus:6x6x6:4", "T1_2_3", 2, "T0_2_3", 1),
            ("torus:6x6x6:4", "T1_2_3", 5, "T1_2_4", 6),
            ("torus:6x6x6:4", "T1_2_3", 8, "H1_2_3_1", 1),
            ("dragonfly:8x4x4", "D0_1", 8, "D5_6", 8),
            ("dragonfly:8x4x4", "D2_3", 8, "D15_4", 10),
            ("dragonfly:8x4x4", "D32_7", 11, "D31_0", 11),
            ("dragonfly:8x4x4", "D2_3", 12, "H2_3_0", 1),
        ] {
            assert_eq!(
                peer(shape, name, port),
                (there.to_owned(), back),
                "{shape} {name}"
            );
        }
    }

    #[test]
    fn what_makes_no_fabric_is_refused() {
        for (shape, word) in [
            ("cube:4", "no shape"),
            ("ring:5", "no shape"),
            ("ring:5:x", "no number"),
            ("ring:0:1", "1 or more"),
            ("fat-tree:7", "even"),
            ("fat-tree:4294967295x4294967294x3", "more than"),
            ("torus:4096x4096:1", "more than"),
            ("hypercube:40:1", "more than"),
            ("dragonfly:4096x1x4096", "more than"),
            ("ring:3:300", "254"),
        ] {
            let error = generate(shape).unwrap_err().to_string();
            assert!(error.contains(word), "{shape}: {error}");
        }
    }
}
