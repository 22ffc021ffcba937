//! A fabric as people write it: named switches, hosts and links in TOML, and shapes as parts of it.
//!
//! ```
//! let text = r#"
//! [defaults]                      # of all links, where they do not say otherwise
//! link = "4xEDR"
//! latency_ns = 30
//!
//! [[generate]]                    # "west-L0", "west-H0_0", ...
//! shape = "fat-tree:4x4x2"
//! prefix = "west-"
//!
//! [[switches]]
//! name = "bridge"
//! ports = 8
//!
//! [[hosts]]
//! name = "storage"
//! guid = "0x0002c90300aabb00"
//! at = "bridge"                   # its first port in the next free port of the switch; "bridge:3" names one
//!
//! [[links]]
//! ends = ["bridge:7", "west-S0"]
//! link = "4xHDR"
//! count = 2                       # so many cables, each in the next free ports after the first
//! "#;
//! let fabric = ferriband_topology::toml::parse(text).unwrap();
//! assert_eq!(fabric.nodes().len(), 4 + 2 + 16 + 2);
//! ```
//!
//! What is not known is refused with its line, so that a slip of the pen does not become another fabric.

use crate::generate::{self, GenerateError};
use crate::link::{Link, Speed, Width};
use crate::{
    Builder, MOST_PORTS, NewNode, NodeId, NodeKind, Plate, PortId, Topology, TopologyError,
};
use ferriband_wire::Guid;
use serde::Deserialize;
use serde_spanned::Spanned;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

/// A text that describes no fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{why}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct TomlError {
    /// Which line, from 1; None: the whole.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub why: String,
}

/// Longest that a link may take: a second; more is a slip of units.
const MOST_LATENCY_NS: u32 = 1_000_000_000;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    defaults: Quality,
    generate: Vec<Spanned<Shape>>,
    switches: Vec<Spanned<SwitchEntry>>,
    hosts: Vec<Spanned<HostEntry>>,
    links: Vec<Spanned<LinkEntry>>,
}

/// How good a link is; what is not said is as in the defaults.
#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct Quality {
    link: Option<String>,
    latency_ns: Option<u32>,
    bit_error_rate: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    shape: String,
    #[serde(default)]
    prefix: String,
    link: Option<String>,
    latency_ns: Option<u32>,
    bit_error_rate: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    ports: u32,
    guid: Option<GuidText>,
    #[serde(default)]
    enhanced_port0: bool,
    description: Option<String>,
    system_image_guid: Option<GuidText>,
    #[serde(default)]
    vendor: u32,
    #[serde(default)]
    device: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    #[serde(default = "one")]
    ports: u32,
    guid: Option<GuidText>,
    port_guid: Option<GuidText>,
    at: Option<OneOrMore>,
    #[serde(default)]
    router: bool,
    description: Option<String>,
    system_image_guid: Option<GuidText>,
    #[serde(default)]
    vendor: u32,
    #[serde(default)]
    device: u16,
    link: Option<String>,
    latency_ns: Option<u32>,
    bit_error_rate: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    ends: [String; 2],
    #[serde(default = "one")]
    count: u32,
    link: Option<String>,
    latency_ns: Option<u32>,
    bit_error_rate: Option<f64>,
}

/// A GUID in hexadecimal digits, or a whole number.
#[derive(Deserialize)]
#[serde(untagged)]
enum GuidText {
    Digits(String),
    Number(u64),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

fn one() -> u32 {
    1
}

/// Reads it.
///
/// # Errors
/// The first thing that is wrong, with its line where it has one.
pub fn parse(text: &str) -> Result<Topology, TomlError> {
    let line = |span: Range<usize>| {
        let before = text.bytes().take(span.start);
        Some(before.filter(|b| *b == b'\n').count() + 1)
    };
    let file: File = toml_edit::de::from_str(text).map_err(|error| TomlError {
        line: error.span().and_then(line),
        why: error.message().trim_end().to_owned(),
    })?;
    let defaults = file.defaults.over(Link::default());
    let defaults = defaults.map_err(|why| TomlError {
        line: None,
        why: format!("[defaults] {why}"),
    })?;
    let mut making = Making {
        new: Builder::new(),
        taken: BTreeSet::new(),
        defaults,
    };
    let at = |span: Range<usize>| {
        let line = line(span);
        move |why: String| TomlError { line, why }
    };
    for entry in &file.generate {
        making.shape(entry.get_ref()).map_err(at(entry.span()))?;
    }
    for entry in &file.switches {
        making.switch(entry.get_ref()).map_err(at(entry.span()))?;
    }
    for entry in &file.hosts {
        making.host(entry.get_ref()).map_err(at(entry.span()))?;
    }
    // Named ports first: who asks for the next free one does not take another's.
    for entry in &file.hosts {
        making.reserve_host(entry.get_ref());
    }
    for entry in &file.links {
        making.reserve_link(entry.get_ref());
    }
    for entry in &file.hosts {
        making.plug_in(entry.get_ref()).map_err(at(entry.span()))?;
    }
    for entry in &file.links {
        making.link(entry.get_ref()).map_err(at(entry.span()))?;
    }
    making.new.finish().map_err(|error| TomlError {
        line: None,
        why: error.to_string(),
    })
}

impl Quality {
    fn over(&self, link: Link) -> Result<Link, String> {
        quality(
            link,
            self.link.as_deref(),
            self.latency_ns,
            self.bit_error_rate,
        )
    }
}

fn quality(
    mut link: Link,
    rate: Option<&str>,
    latency_ns: Option<u32>,
    errors: Option<f64>,
) -> Result<Link, String> {
    if let Some(rate) = rate {
        (link.width, link.speed) = read_rate(rate)?;
    }
    if let Some(ns) = latency_ns {
        if ns > MOST_LATENCY_NS {
            return Err(format!("latency_ns = {ns} is more than a second"));
        }
        link.latency_ns = ns;
    }
    if let Some(errors) = errors {
        if !(0.0..1.0).contains(&errors) {
            return Err(format!(
                "bit_error_rate = {errors} is no share: 0 or more, and less than 1"
            ));
        }
        link.bit_error_rate = errors;
    }
    Ok(link)
}

/// `4xEDR`: lanes and signalling.
///
/// # Errors
/// It is neither, with what there is.
pub fn read_rate(text: &str) -> Result<(Width, Speed), String> {
    let at = text.find('x').map(|at| text.split_at(at + 1));
    let (width, speed) =
        at.ok_or_else(|| format!("\"{text}\" is no link: write its width and speed, as 4xEDR"))?;
    let width = width
        .parse()
        .map_err(|error: crate::link::UnknownName| error.to_string())?;
    let speed = speed
        .parse()
        .map_err(|error: crate::link::UnknownName| error.to_string())?;
    Ok((width, speed))
}

impl GuidText {
    fn read(&self) -> Result<Guid, String> {
        match self {
            GuidText::Number(guid) => Ok(Guid(*guid)),
            GuidText::Digits(text) => {
                let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
                let value = u64::from_str_radix(&digits, 16);
                value
                    .map(Guid)
                    .map_err(|_| format!("\"{text}\" is no GUID: 1 to 16 hexadecimal digits"))
            }
        }
    }
}

fn guid(text: Option<&GuidText>) -> Result<Option<Guid>, String> {
    text.map(GuidText::read).transpose()
}

fn plate(
    description: Option<&String>,
    system_image: Option<&GuidText>,
    vendor: u32,
    device: u16,
) -> Result<Plate, String> {
    if vendor >> 24 != 0 {
        return Err(format!("vendor = {vendor:#x} has more than 24 bits"));
    }
    Ok(Plate {
        description: description.cloned(),
        system_image: guid(system_image)?,
        vendor,
        device,
    })
}

/// A fabric that is being put together.
struct Making {
    new: Builder,
    /// Ports that somebody named or was given.
    taken: BTreeSet<PortId>,
    defaults: Link,
}

fn text(error: TopologyError) -> String {
    error.to_string()
}

impl Making {
    /// The nodes and cables of a shape, its GUIDs counted on with all others'.
    fn shape(&mut self, entry: &Shape) -> Result<(), String> {
        let made = generate::generate(&entry.shape)
            .map_err(|error: GenerateError| format!("shape = {error}"))?;
        let link = quality(
            self.defaults,
            entry.link.as_deref(),
            entry.latency_ns,
            entry.bit_error_rate,
        )?;
        let mut ids = Vec::with_capacity(made.nodes().len());
        for node in made.nodes() {
            let new = NewNode {
                name: &format!("{}{}", entry.prefix, node.name),
                ports: node.ports.into(),
                enhanced_port0: node.enhanced_port0,
                ..NewNode::default()
            };
            ids.push(self.new.node(node.kind, new).map_err(text)?);
        }
        for cable in made.cables() {
            let [a, b] = cable.ends.map(|end| PortId {
                node: ids[end.node.0 as usize],
                ..end
            });
            self.taken.extend([a, b]);
            self.new.cable(a, b, link);
        }
        Ok(())
    }

    fn switch(&mut self, entry: &SwitchEntry) -> Result<(), String> {
        let new = NewNode {
            name: &entry.name,
            ports: entry.ports,
            guid: guid(entry.guid.as_ref())?,
            port_guid: None,
            enhanced_port0: entry.enhanced_port0,
            plate: plate(
                entry.description.as_ref(),
                entry.system_image_guid.as_ref(),
                entry.vendor,
                entry.device,
            )?,
        };
        plain_name(&entry.name)?;
        self.new.node(NodeKind::Switch, new).map_err(text)?;
        Ok(())
    }

    fn host(&mut self, entry: &HostEntry) -> Result<(), String> {
        let new = NewNode {
            name: &entry.name,
            ports: entry.ports,
            guid: guid(entry.guid.as_ref())?,
            port_guid: guid(entry.port_guid.as_ref())?,
            enhanced_port0: false,
            plate: plate(
                entry.description.as_ref(),
                entry.system_image_guid.as_ref(),
                entry.vendor,
                entry.device,
            )?,
        };
        plain_name(&entry.name)?;
        let kind = match entry.router {
            true => NodeKind::Router,
            false => NodeKind::Ca,
        };
        self.new.node(kind, new).map_err(text)?;
        Ok(())
    }

    /// A host's cables, its ports in their order.
    fn plug_in(&mut self, entry: &HostEntry) -> Result<(), String> {
        let all = entry.at.as_ref().map_or(&[][..], OneOrMore::all);
        let link = quality(
            self.defaults,
            entry.link.as_deref(),
            entry.latency_ns,
            entry.bit_error_rate,
        )?;
        let host = self.new.find(&entry.name).map_err(text)?;
        for (port, place) in (1..).zip(all) {
            let here = self.new.port(host, port).map_err(text)?;
            let there = self.end(place)?;
            self.new.cable(here, there, link);
        }
        Ok(())
    }

    fn link(&mut self, entry: &LinkEntry) -> Result<(), String> {
        let link = quality(
            self.defaults,
            entry.link.as_deref(),
            entry.latency_ns,
            entry.bit_error_rate,
        )?;
        if !(1..=u32::from(MOST_PORTS)).contains(&entry.count) {
            return Err(format!(
                "count = {} is no number of cables: 1 to {MOST_PORTS}",
                entry.count
            ));
        }
        let [a, b] = &entry.ends;
        for nth in 0..entry.count {
            let here = self.nth_end(a, nth)?;
            let there = self.nth_end(b, nth)?;
            if entry.count > 1 && here.node == there.node {
                return Err(format!("\"{a}\" and \"{b}\" are the same node"));
            }
            self.new.cable(here, there, link);
        }
        Ok(())
    }

    /// The end of a cable: `name` (the next free port), or `name:port`.
    fn end(&mut self, place: &str) -> Result<PortId, String> {
        match split(place)? {
            (name, Some(port)) => {
                let node = self.new.find(name).map_err(text)?;
                let at = self.new.port(node, port).map_err(text)?;
                self.taken.insert(at);
                Ok(at)
            }
            (name, None) => {
                let node = self.new.find(name).map_err(text)?;
                self.next_free(node, name)
            }
        }
    }

    /// The end of the n-th cable of several: a port that was named is the first's.
    fn nth_end(&mut self, place: &str, nth: u32) -> Result<PortId, String> {
        match split(place)? {
            (name, Some(port)) => {
                let node = self.new.find(name).map_err(text)?;
                let at = self.new.port(node, port.saturating_add(nth));
                at.map_err(text)
            }
            _ => self.end(place),
        }
    }

    fn next_free(&mut self, node: NodeId, name: &str) -> Result<PortId, String> {
        for port in 1..=u32::from(MOST_PORTS) {
            let Ok(at) = self.new.port(node, port) else {
                break;
            };
            if self.taken.insert(at) {
                return Ok(at);
            }
        }
        Err(format!("all ports of \"{name}\" are taken"))
    }

    /// Ports that are named, however late, are nobody's next free ones. What is wrong with them is said when it is their turn.
    fn reserve_host(&mut self, entry: &HostEntry) {
        let all = entry.at.as_ref().map_or(&[][..], OneOrMore::all);
        if let Ok(host) = self.new.find(&entry.name) {
            let own = (1..)
                .zip(all)
                .map_while(|(port, _)| self.new.port(host, port).ok());
            let own: Vec<_> = own.collect();
            self.taken.extend(own);
        }
        all.iter().for_each(|place| self.reserve(place, 1));
    }

    fn reserve_link(&mut self, entry: &LinkEntry) {
        for place in &entry.ends {
            self.reserve(place, entry.count);
        }
    }

    fn reserve(&mut self, place: &str, count: u32) {
        let Ok((name, Some(port))) = split(place) else {
            return;
        };
        let Ok(node) = self.new.find(name) else {
            return;
        };
        for nth in 0..count.min(MOST_PORTS.into()) {
            if let Ok(at) = self.new.port(node, port.saturating_add(nth)) {
                self.taken.insert(at);
            }
        }
    }
}

/// A name with a colon could not be told from a port.
fn plain_name(name: &str) -> Result<(), String> {
    match name.contains(':') {
        true => Err(format!(
            "\"{name}\" is no name here: what comes behind a colon is a port"
        )),
        false => Ok(()),
    }
}

fn split(place: &str) -> Result<(&str, Option<u32>), String> {
    let Some((name, port)) = place.rsplit_once(':') else {
        return Ok((place, None));
    };
    let port = port
        .parse()
        .map_err(|_| format!("\"{place}\": \"{port}\" is no number of a port"))?;
    Ok((name, Some(port)))
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            OneOrMore::One(place) => std::slice::from_ref(place),
            OneOrMore::More(places) => places,
        }
    }
}

/// Writes it, everything said: names, ports, GUIDs, rates, latencies, errors. [`parse`] reads the same fabric, its nodes sorted into switches and others.
pub fn write(topology: &Topology) -> String {
    let mut out = String::new();
    // writing to a string does not fail
    let order = topology.ids_of(NodeKind::Switch).chain(
        topology
            .ids()
            .filter(|id| topology.node(*id).kind != NodeKind::Switch),
    );
    for id in order {
        let node = topology.node(id);
        let kind = match node.kind {
            NodeKind::Switch => "switches",
            _ => "hosts",
        };
        let _ = writeln!(out, "[[{kind}]]\nname = {}", quoted(&node.name));
        let _ = writeln!(
            out,
            "ports = {}\nguid = \"{:#018x}\"",
            node.ports, node.guid.0
        );
        if node.enhanced_port0 {
            let _ = writeln!(out, "enhanced_port0 = true");
        }
        if node.kind == NodeKind::Router {
            let _ = writeln!(out, "router = true");
        }
        if node.kind != NodeKind::Switch {
            let _ = writeln!(out, "port_guid = \"{:#018x}\"", node.port_guid.0);
        }
        let plate = &node.plate;
        if let Some(description) = &plate.description {
            let _ = writeln!(out, "description = {}", quoted(description));
        }
        if let Some(system) = plate.system_image {
            let _ = writeln!(out, "system_image_guid = \"{:#018x}\"", system.0);
        }
        if plate.vendor != 0 {
            let _ = writeln!(out, "vendor = {:#x}", plate.vendor);
        }
        if plate.device != 0 {
            let _ = writeln!(out, "device = {:#x}", plate.device);
        }
        out.push('\n');
    }
    for cable in topology.cables() {
        let [a, b] = cable.ends.map(|end| {
            let name = &topology.node(end.node).name;
            quoted(&format!("{name}:{}", end.port))
        });
        let link = cable.link;
        let _ = write!(
            out,
            "[[links]]\nends = [{a}, {b}]\nlink = \"{}{}\"\nlatency_ns = {}\n",
            link.width, link.speed, link.latency_ns
        );
        if link.bit_error_rate > 0.0 {
            let _ = writeln!(out, "bit_error_rate = {:?}", link.bit_error_rate);
        }
        out.push('\n');
    }
    out
}

/// A name holds neither quotation marks nor control characters, but it may hold a backslash.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_all_kinds_are_joined() {
        let made = parse(
            r#"
            [defaults]
            link = "4xEDR"
            latency_ns = 30

            [[generate]]
            shape = "ring:3:1"
            prefix = "r-"

            [[switches]]
            name = "s"
            ports = 6

            [[hosts]]
            name = "h"
            ports = 2
            at = ["s", "s:1"]
            latency_ns = 7

            [[links]]
            ends = ["s:5", "r-G0"]
            link = "12xNDR"
            bit_error_rate = 1e-12
            count = 2
            "#,
        )
        .unwrap();
        let port = |name: &str, port| PortId {
            node: made.find(name).unwrap(),
            port,
        };
        // port 1 is named by the host's second port, so its first takes port 2
        assert_eq!(made.peer(port("h", 1)), Some(port("s", 2)));
        assert_eq!(made.peer(port("h", 2)), Some(port("s", 1)));
        // the ring's switches have ports 1 and 2 for the ring and 3 for a host
        assert_eq!(made.peer(port("s", 5)), Some(port("r-G0", 4)));
        assert_eq!(made.peer(port("s", 6)), Some(port("r-G0", 5)));
        let link = |name, number| made.cables()[made.cable_at(port(name, number)).unwrap()].link;
        assert_eq!(
            (link("h", 1).latency_ns, link("h", 1).speed),
            (7, Speed::Edr)
        );
        assert_eq!(link("r-G0", 1).latency_ns, 30);
        let wide = link("s", 6);
        assert_eq!((wide.width, wide.speed), (Width::X12, Speed::Ndr));
        assert_eq!(wide.bit_error_rate, 1e-12);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for shape in ["tutorial", "congestion", "torus:3x3:2"] {
            let made = generate::generate(shape).unwrap();
            let again = parse(&write(&made)).unwrap();
            assert_eq!(again.cables().len(), made.cables().len());
            let place = |fabric: &Topology, end: PortId| {
                let node = fabric.node(end.node);
                (node.clone(), end.port)
            };
            for (a, b) in made.cables().iter().zip(again.cables()) {
                assert_eq!(a.link, b.link);
                for (a, b) in a.ends.iter().zip(&b.ends) {
                    assert_eq!(place(&made, *a), place(&again, *b), "{shape}");
                }
            }
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let switch = "[[switches]]\nname = \"a\"\nports = 4\n";
        for (more, line, word) in [
            ("speling = 1\n", Some(4), "speling"),
            ("guid = \"0xzz\"\n", Some(1), "no GUID"),
            ("[[switches]]\nname = \"a\"\nports = 4\n", Some(4), "\"a\""),
            ("[[switches]]\nname = \"b\"\nports = 400\n", Some(4), "400"),
            (
                "[[switches]]\nname = \"b:1\"\nports = 4\n",
                Some(4),
                "colon",
            ),
            ("[[switches]]\nname = \"b\"\n", Some(4), "ports"),
            ("[[links]]\nends = [\"a:1\", \"a:1\"]\n", None, "itself"),
            ("[[links]]\nends = [\"a:1\"]\n", Some(5), ""),
            (
                "[[links]]\nends = [\"a:1\", \"b\"]\n",
                Some(4),
                "no node \"b\"",
            ),
            ("[[links]]\nends = [\"a:x\", \"a\"]\n", Some(4), "no number"),
            ("[[links]]\nends = [\"a:5\", \"a\"]\n", Some(4), "no port 5"),
            (
                "[[links]]\nends = [\"a:1\", \"a:2\"]\nlink = \"4xFOO\"\n",
                Some(4),
                "FOO",
            ),
            (
                "[[links]]\nends = [\"a:1\", \"a:2\"]\nbit_error_rate = 1.5\n",
                Some(4),
                "1.5",
            ),
            (
                "[[links]]\nends = [\"a:1\", \"a:2\"]\n[[links]]\nends = [\"a:2\", \"a:3\"]\n",
                None,
                "two cables",
            ),
            (
                "[[hosts]]\nname = \"h\"\nat = [\"a\", \"a\"]\n",
                Some(4),
                "no port 2",
            ),
            (
                "[[hosts]]\nname = \"h\"\nguid = 7\n[[hosts]]\nname = \"i\"\nguid = 7\n",
                None,
                "names one node",
            ),
            ("[[generate]]\nshape = \"cube:3\"\n", Some(4), "no shape"),
            ("[[generate]]\nshape = \"tutorial\"\n", Some(1), "two nodes"),
            ("[[hosts]]\nname = \"h\"\ncount = 2\n", Some(6), "count"),
            ("x = ", Some(4), ""),
        ] {
            let error = parse(&format!("{switch}{more}")).unwrap_err();
            assert!(error.why.contains(word), "{more}: {error}");
            assert_eq!(error.line, line, "{more}: {error}");
        }
    }
}
