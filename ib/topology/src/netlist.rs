//! The text that ibsim reads and ibnetdiscover prints: a block for each node, a line for each plugged port.
//!
//! ```text
//! switchguid=0x200003(200003)
//! Switch  12 "S-0000000000200003"   # "G3" base port 0 lid 6 lmc 0
//! [1]     "H-000000000010000c"[1](10000d)   # "H3_0" lid 12 4xSDR
//! ```
//!
//! LIDs in it are what somebody else's subnet manager gave; they are passed over, and so are the headings by which `ibnetdiscover -g` groups
//! the parts of a chassis, and complaints of the diagnostics' libraries that stand in the same file. What ibsim does while it reads (`module`, `include`, `do`,
//! aliases with `@`) is refused: it would be lost silently. Source of the syntax: ibsim's net-examples and ibnetdiscover(8).

use crate::link::{Link, Speed, Width};
use crate::toml::read_rate;
use crate::{Builder, NewNode, NodeId, NodeKind, Plate, PortId, Topology, TopologyError};
use ferriband_wire::Guid;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A text that describes no fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{why}", if *line > 0 { format!("line {line}: ") } else { String::new() })]
pub struct NetlistError {
    /// Which line, from 1; 0: the whole.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// A node's block.
struct Block<'a> {
    line: usize,
    kind: NodeKind,
    id: &'a str,
    called: Option<&'a str>,
    ports: u32,
    guid: Option<Guid>,
    port_guid: Option<Guid>,
    enhanced_port0: bool,
    plate: Plate,
    plugs: Vec<Plug<'a>>,
}

/// A line of a block.
struct Plug<'a> {
    line: usize,
    port: u32,
    guid: Option<Guid>,
    remote: &'a str,
    remote_port: u32,
    width: Option<Width>,
    speed: Option<Speed>,
    /// Whether width and speed are what ibnetdiscover saw, not what somebody wished.
    seen: bool,
}

/// What lines before a block say of it.
#[derive(Default)]
struct Heading {
    guid: Option<Guid>,
    port_guid: Option<Guid>,
    plate: Plate,
    width: Option<Width>,
    speed: Option<Speed>,
}

/// Reads it. A cable may be told of at one end or at both; where both say how good it is, they must agree.
///
/// # Errors
/// The first line that cannot be read, or what is wrong with the whole.
pub fn parse(text: &str) -> Result<Topology, NetlistError> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut heading, mut open) = (Heading::default(), false);
    for (number, whole) in (1..).zip(text.lines()) {
        let wrong = |why: String| NetlistError { line: number, why };
        let line = whole.trim();
        if line.is_empty() {
            open = false;
            continue;
        }
        match line.as_bytes()[0] {
            b'#' => {}
            b'[' if open => {
                let block = blocks.last_mut().ok_or_else(|| wrong("no node".into()))?;
                let plug = plug(line, number, block.kind, &heading).map_err(wrong)?;
                block.plugs.push(plug);
            }
            b'[' => return Err(wrong("a port before any node".into())),
            b'@' => return Err(wrong("aliases of ports are not understood".into())),
            _ => match word(line) {
                "Switch" | "Hca" | "Ca" | "Rt" => {
                    let given = Heading {
                        width: heading.width,
                        speed: heading.speed,
                        ..Heading::default()
                    };
                    let given = std::mem::replace(&mut heading, given);
                    blocks.push(block(line, number, &given).map_err(wrong)?);
                    open = true;
                }
                _ if of_no_node(line) => {}
                _ => set(line, &mut heading).map_err(wrong)?,
            },
        }
    }
    build(&blocks)
}

/// The letters that a line begins with.
fn word(line: &str) -> &str {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric());
    &line[..end.unwrap_or(line.len())]
}

/// What stands in files of ibnetdiscover and says nothing of a node: `-g` groups chassis by headings, and libibmad and libibnetdisc complain in
/// between where both outputs went to one file.
fn of_no_node(line: &str) -> bool {
    let complaint = line.starts_with("ibwarn: [")
        || (line.starts_with("src/") || line.starts_with("./")) && line.contains(".c:");
    complaint
        || line == "Non-Chassis Nodes"
        || line.starts_with("Chassis ")
        || line.starts_with("Hostname: ")
}

/// `name=value` before a block.
fn set(line: &str, heading: &mut Heading) -> Result<(), String> {
    let name = word(line);
    let rest = line[name.len()..].trim_start();
    if matches!(name, "module" | "include" | "do" | "pdebug") {
        return Err(format!(
            "\"{name}\" is an order to ibsim, not a part of a fabric"
        ));
    }
    let Some(value) = rest.strip_prefix('=') else {
        return Err(format!(
            "\"{line}\" is neither a node, a port nor a setting"
        ));
    };
    // a chassis' parts: sysimgguid=0x2c90000000001 # Chassis 1 slot 3; a vendor's adapters: caguid=0x1397000000001 (scp)
    let value = value.split('#').next().unwrap_or_default().trim();
    let value = value.strip_suffix("(scp)").unwrap_or(value).trim_end();
    match name {
        // ibsim counts on from a base that it calls ...guids; ibnetdiscover names one node
        "switchguid" | "caguid" | "rtguid" | "switchguids" | "hcaguids" | "caguids" => {
            let (guid, port) = match value.split_once('(') {
                Some((guid, port)) => (guid, port.strip_suffix(')')),
                None => (value, None),
            };
            heading.guid = Some(hex(guid)?);
            heading.port_guid = port.map(hex).transpose()?;
        }
        "width" => heading.width = Some(width_mask(value)?),
        "speed" => heading.speed = Some(speed_mask(value)?),
        "extspeed" => heading.speed = extended_mask(value)?.or(heading.speed),
        // 0: what ibsim takes for not said
        "sysimgguid" => heading.plate.system_image = Some(hex(value)?).filter(|guid| guid.0 != 0),
        "vendid" => heading.plate.vendor = bits(value, 24)? as u32,
        "devid" => heading.plate.device = bits(value, 16)? as u16,
        _ => return Err(format!("nothing is known of \"{name}\"")),
    }
    Ok(())
}

fn hex(text: &str) -> Result<Guid, String> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let value = u64::from_str_radix(digits, 16);
    value
        .map(Guid)
        .map_err(|_| format!("\"{text}\" is no GUID"))
}

/// A number in hexadecimal digits that has so many bits.
fn bits(text: &str, most: u32) -> Result<u64, String> {
    let value = hex(text)?.0;
    match value >> most {
        0 => Ok(value),
        _ => Err(format!("\"{text}\" is no number of {most} bits")),
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no number"))
}

fn width_mask(text: &str) -> Result<Width, String> {
    let mask = number(text)?;
    let best = Width::ALL.into_iter().rev();
    let mut best = best.filter(|width| mask & u32::from(width.bit()) != 0 && mask < 32);
    best.next()
        .ok_or_else(|| format!("{mask} is no mask of widths (1: 1x, 2: 4x, 4: 8x, 8: 12x, 16: 2x)"))
}

fn speed_mask(text: &str) -> Result<Speed, String> {
    match number(text)? {
        0 | 4..=7 => Ok(Speed::Qdr),
        2 | 3 => Ok(Speed::Ddr),
        1 => Ok(Speed::Sdr),
        mask => Err(format!(
            "{mask} is no mask of speeds (1: SDR, 2: DDR, 4: QDR)"
        )),
    }
}

fn extended_mask(text: &str) -> Result<Option<Speed>, String> {
    match number(text)? {
        0 => Ok(None),
        1 => Ok(Some(Speed::Fdr)),
        2 | 3 => Ok(Some(Speed::Edr)),
        4..=7 => Ok(Some(Speed::Hdr)),
        8..=15 => Ok(Some(Speed::Ndr)),
        mask => Err(format!(
            "{mask} is no mask of extended speeds (1: FDR, 2: EDR, 4: HDR, 8: NDR; what is faster is not known here)"
        )),
    }
}

/// What stands between the next two quotation marks, and what comes after.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"')
}

fn block<'a>(line: &'a str, number_: usize, heading: &Heading) -> Result<Block<'a>, String> {
    let kind = match word(line) {
        "Switch" => NodeKind::Switch,
        "Rt" => NodeKind::Router,
        _ => NodeKind::Ca,
    };
    let before = line[word(line).len()..]
        .split('"')
        .next()
        .unwrap_or_default();
    let ports = number(before.trim())?;
    let (id, rest) = quoted(line).ok_or("the node has no name in quotation marks")?;
    let comment = rest.split_once('#').map_or("", |(_, comment)| comment);
    Ok(Block {
        line: number_,
        kind,
        id,
        called: quoted(comment).map(|(name, _)| name),
        ports,
        guid: heading.guid,
        port_guid: heading.port_guid,
        enhanced_port0: comment.contains("enhanced port 0"),
        plate: heading.plate.clone(),
        plugs: Vec::new(),
    })
}

fn plug<'a>(
    line: &'a str,
    number_: usize,
    kind: NodeKind,
    heading: &Heading,
) -> Result<Plug<'a>, String> {
    let (port, rest) = bracketed(line, '[', ']').ok_or("a port is written [1]")?;
    let rest = past_outer_name(rest);
    let (guid, rest) = match bracketed(rest, '(', ')') {
        Some((guid, rest)) => (Some(hex(guid)?), rest),
        None => (None, rest),
    };
    let (remote, rest) = quoted(rest).ok_or("the port's peer has no name in quotation marks")?;
    if remote.starts_with('@') {
        return Err("aliases of ports are not understood".into());
    }
    let (remote_port, rest) = match bracketed(rest, '[', ']') {
        Some((port, rest)) => (number(port)?, rest),
        None => (1, rest),
    };
    let rest = past_outer_name(rest);
    let mut plug = Plug {
        line: number_,
        port: number(port)?,
        guid: guid.filter(|_| kind != NodeKind::Switch),
        remote,
        remote_port,
        width: heading.width,
        speed: heading.speed,
        seen: false,
    };
    let (options, comment) = rest.split_once('#').unwrap_or((rest, ""));
    for option in options.split_whitespace() {
        match option.split_once('=') {
            Some(("w", mask)) => plug.width = Some(width_mask(mask)?),
            Some(("s", mask)) => plug.speed = Some(speed_mask(mask)?),
            Some(("e", mask)) => plug.speed = extended_mask(mask)?.or(plug.speed),
            // the peer port's GUID, as ibnetdiscover prints it
            None if option.starts_with('(') && option.ends_with(')') => {
                hex(&option[1..option.len() - 1])?;
            }
            _ => return Err(format!("\"{option}\" is no option of a port")),
        }
    }
    // "name" lid 7 4xQDR
    if let Some((width, speed)) = comment
        .split_whitespace()
        .rev()
        .find_map(|word| rate(word.trim_end_matches(',')))
    {
        (plug.width, plug.speed) = (Some(width), Some(speed));
        plug.seen = true;
    } else if let Some(word) = unknown_rate(comment) {
        // else the link would silently be of another speed
        read_rate(word)?;
    }
    Ok(plug)
}

/// `[ext 12]`: what is written beside a chassis' port, after its number within the chip.
fn past_outer_name(rest: &str) -> &str {
    match bracketed(rest, '[', ']') {
        Some((name, after)) if name.starts_with("ext ") => after,
        _ => rest,
    }
}

/// `[1]` at the beginning: what is inside, and what comes after.
fn bracketed(text: &str, from: char, to: char) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix(from)?.split_once(to)
}

/// The word behind the peer's name that looks like a link, lanes and letters, where none is one; `4x???` says itself that it is not known.
fn unknown_rate(comment: &str) -> Option<&str> {
    let after = comment.rsplit('"').next()?;
    after.split_whitespace().find(|word| {
        word.split_once('x').is_some_and(|(lanes, letters)| {
            let digits = !lanes.is_empty() && lanes.bytes().all(|byte| byte.is_ascii_digit());
            digits && letters.starts_with(|c: char| c.is_ascii_uppercase())
        })
    })
}

/// `4xQDR`.
fn rate(text: &str) -> Option<(Width, Speed)> {
    let at = text.find('x')? + 1;
    let (width, speed) = text.split_at(at);
    Some((width.parse().ok()?, speed.parse().ok()?))
}

fn build(blocks: &[Block<'_>]) -> Result<Topology, NetlistError> {
    let at = |line: usize| {
        move |error: TopologyError| NetlistError {
            line,
            why: error.to_string(),
        }
    };
    // switches are often called after their maker, all alike: then their identifiers name them
    let mut called = BTreeMap::new();
    for name in blocks.iter().filter_map(|block| block.called) {
        *called.entry(name).or_insert(0) += 1;
    }
    let ids: BTreeSet<&str> = blocks.iter().map(|block| block.id).collect();
    let mut new = Builder::new();
    let mut by_id = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for block in blocks {
        let fits = |name: &&str| {
            called.get(name) == Some(&1)
                && !name.is_empty()
                && (*name == block.id || !ids.contains(name))
        };
        let port_guid = match block.kind {
            NodeKind::Switch => block.port_guid,
            // that of its first port, counted back from any
            _ => block.plugs.iter().find_map(|plug| {
                let back = u64::from(plug.port).checked_sub(1)?;
                plug.guid?.0.checked_sub(back).map(Guid)
            }),
        };
        let name = block.called.filter(fits).unwrap_or(block.id);
        let described = block
            .called
            .filter(|called| !called.is_empty() && *called != name);
        let node = NewNode {
            name,
            ports: block.ports,
            guid: block.guid,
            port_guid,
            enhanced_port0: block.enhanced_port0,
            plate: Plate {
                description: described.map(str::to_owned),
                ..block.plate.clone()
            },
        };
        let id = new.node(block.kind, node).map_err(at(block.line))?;
        lines.insert(name, block.line);
        if by_id.insert(block.id, id).is_some() {
            return Err(at(block.line)(TopologyError::NameTwice(
                block.id.to_owned(),
            )));
        }
    }
    join(blocks, &mut new, &by_id)?;
    new.finish().map_err(|error| {
        let node = match &error {
            TopologyError::GuidTwice { second: name, .. }
            | TopologyError::BadGuid(name)
            | TopologyError::PortTwice { name, .. } => Some(name.as_str()),
            _ => None,
        };
        let line = node.and_then(|name| lines.get(name)).copied();
        at(line.unwrap_or_default())(error)
    })
}

/// What one end says of its cable.
struct End {
    line: usize,
    peer: PortId,
    width: Option<Width>,
    speed: Option<Speed>,
    seen: bool,
}

fn join(
    blocks: &[Block<'_>],
    new: &mut Builder,
    by_id: &BTreeMap<&str, NodeId>,
) -> Result<(), NetlistError> {
    let mut ends: BTreeMap<PortId, End> = BTreeMap::new();
    let mut order = Vec::new();
    for (block, node) in blocks.iter().zip((0..).map(NodeId)) {
        for plug in &block.plugs {
            let wrong = |error: TopologyError| NetlistError {
                line: plug.line,
                why: error.to_string(),
            };
            let here = new.port(node, plug.port).map_err(wrong)?;
            let remote = by_id.get(plug.remote).copied();
            let remote =
                remote.ok_or_else(|| wrong(TopologyError::NoSuchNode(plug.remote.into())))?;
            let peer = new.port(remote, plug.remote_port).map_err(wrong)?;
            let twice = || TopologyError::PortTwice {
                name: blocks[node.0 as usize].id.to_owned(),
                port: here.port,
            };
            let end = End {
                line: plug.line,
                peer,
                width: plug.width,
                speed: plug.speed,
                seen: plug.seen,
            };
            if ends.insert(here, end).is_some() {
                return Err(wrong(twice()));
            }
            order.push(here);
        }
    }
    for here in order {
        let end = &ends[&here];
        let back = ends.get(&end.peer);
        if back.is_some_and(|back| back.peer == here) && end.peer < here {
            // told of at the other end already
            continue;
        }
        let wrong = |what: String| NetlistError {
            line: end.line,
            why: what,
        };
        if end.peer == here {
            let loopback = TopologyError::Loopback {
                name: blocks[here.node.0 as usize].id.to_owned(),
                port: here.port,
            };
            return Err(wrong(loopback.to_string()));
        }
        if let Some(back) = back
            && back.peer != here
        {
            let other = &blocks[end.peer.node.0 as usize].id;
            return Err(wrong(format!(
                "port {} of \"{other}\" is joined with another port in line {}",
                end.peer.port, back.line
            )));
        }
        let (width, speed) = back.map_or((None, None), |back| (back.width, back.speed));
        let differ = end.width.zip(width).is_some_and(|(a, b)| a != b)
            || end.speed.zip(speed).is_some_and(|(a, b)| a != b);
        // two that were seen at different times: a link comes up with what both of its ends can (IBA 14.2.5.6)
        if differ && !(end.seen && back.is_some_and(|back| back.seen)) {
            return Err(wrong(
                "the two ends of the cable differ in width or speed".into(),
            ));
        }
        let link = Link {
            width: end.width.into_iter().chain(width).min().unwrap_or_default(),
            speed: end.speed.into_iter().chain(speed).min().unwrap_or_default(),
            ..Link::default()
        };
        new.cable(here, end.peer, link);
    }
    Ok(())
}

/// Writes it, as ibsim reads it: GUIDs, widths and speeds included, latencies and errors left out, for which there are no words.
pub fn write(topology: &Topology) -> String {
    let mut out = String::new();
    let count = |kind| topology.ids_of(kind).count();
    // writing to a string does not fail
    let _ = writeln!(
        out,
        "# switches {} hcas {} cables {}",
        count(NodeKind::Switch),
        count(NodeKind::Ca),
        topology.cables().len()
    );
    for id in topology.ids() {
        let node = topology.node(id);
        let (guid, kind) = match node.kind {
            NodeKind::Switch => ("switchguid", "Switch"),
            NodeKind::Ca => ("caguid", "Ca"),
            NodeKind::Router => ("rtguid", "Rt"),
        };
        out.push('\n');
        let plate = &node.plate;
        if plate.vendor != 0 {
            let _ = writeln!(out, "vendid={:#x}", plate.vendor);
        }
        if plate.device != 0 {
            let _ = writeln!(out, "devid={:#x}", plate.device);
        }
        if let Some(system) = plate.system_image {
            let _ = writeln!(out, "sysimgguid={:#x}", system.0);
        }
        let _ = write!(out, "{guid}={:#x}", node.guid.0);
        if node.kind == NodeKind::Switch && node.port_guid != node.guid {
            let _ = write!(out, "({:x})", node.port_guid.0);
        }
        let _ = write!(out, "\n{kind}\t{} \"{}\"", node.ports, node.name);
        if node.enhanced_port0 || plate.description.is_some() {
            let _ = write!(out, "\t# \"{}\"", node.description());
        }
        if node.enhanced_port0 {
            out.push_str(" enhanced port 0");
        }
        out.push('\n');
        for port in 1..=node.ports {
            let here = PortId { node: id, port };
            let (Some(cable), Some(peer)) = (topology.cable_at(here), topology.peer(here)) else {
                continue;
            };
            let link = topology.cables()[cable].link;
            let remote = topology.node(peer.node);
            let _ = write!(out, "[{port}]");
            if node.kind != NodeKind::Switch
                && node.guid_of_port(port).0 != node.guid.0.wrapping_add(port.into())
            {
                let _ = write!(out, "({:x})", node.guid_of_port(port).0);
            }
            let _ = writeln!(
                out,
                "\t\"{}\"[{}]\t# \"{}\" {}{}",
                remote.name,
                peer.port,
                remote.description(),
                link.width,
                link.speed
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERED: &str = r#"
vendid=0x2c9
devid=0xb924
sysimgguid=0x2c9000000001
switchguid=0x200003(200003)
Switch	12 "S-0000000000200003"		# "Maker's switch" enhanced port 0 lid 6 lmc 0
[1]	"S-0000000000200004"[2]		# "Maker's switch" lid 7 4xQDR
[3]	"H-000000000010000c"[2](10000e) 		# "h3 mlx5_0" lid 12 12xFDR10

switchguid=0x200004(200004)
Switch	12 "S-0000000000200004"		# "Maker's switch" base port 0 lid 7 lmc 0
[2]	"S-0000000000200003"[1]		# "Maker's switch" lid 6 4xQDR

caguid=0x10000c
Ca	2 "H-000000000010000c"		# "h3 mlx5_0"
[2](10000e) 	"S-0000000000200003"[3]		# lid 12 lmc 0 "Maker's switch" lid 6 12xFDR10
"#;

    #[test]
    fn what_ibnetdiscover_prints_is_read() {
        let read = parse(DISCOVERED).unwrap();
        let names: Vec<_> = read.nodes().iter().map(|node| &node.name[..]).collect();
        let twice = ["S-0000000000200003", "S-0000000000200004", "h3 mlx5_0"];
        assert_eq!(names, twice, "what two are called names neither");
        let host = read.find("h3 mlx5_0").unwrap();
        assert_eq!(read.node(host).port_guid, Guid(0x10_000d));
        assert!(read.nodes()[0].enhanced_port0 && !read.nodes()[1].enhanced_port0);
        let maker = Plate {
            description: Some("Maker's switch".into()),
            system_image: Some(Guid(0x2c90_0000_0001)),
            vendor: 0x2c9,
            device: 0xb924,
        };
        assert_eq!(read.nodes()[0].plate, maker);
        assert_eq!(read.nodes()[1].description(), "Maker's switch");
        assert_eq!(read.nodes()[1].plate.vendor, 0, "a setting is of one node");
        assert_eq!(read.nodes()[2].plate, Plate::default());
        assert_eq!(read.meant("h3"), Ok(host), "a host by its first word");
        assert_eq!(read.meant("0x200004"), Ok(NodeId(1)));
        assert_eq!(read.meant("S-0000000000200004"), Ok(NodeId(1)));
        assert_eq!(read.meant("Maker's"), Err(vec![NodeId(0), NodeId(1)]));
        assert_eq!(read.meant("nobody"), Err(vec![]));
        let at = PortId {
            node: host,
            port: 2,
        };
        let link = read.cables()[read.cable_at(at).unwrap()].link;
        assert_eq!((link.width, link.speed), (Width::X12, Speed::Fdr10));
        assert_eq!(read.cables().len(), 2);
    }

    /// As `ibnetdiscover -g` prints a chassis, with every ornament that its code has.
    const GROUPED: &str = r#"src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,1,31 Attr 0x11:0) bad status 110; Connection timed out
ibwarn: [4711] get_node: Node GUID mismatch; got 0x1, expected 0x2

Chassis 1 (guid 0x8f104003f1e28)
Hostname: spine-17

# Spine Nodes
vendid=0x8f1
devid=0x5a31
sysimgguid=0x8f104003f1e28		# Chassis 1 (a name) slot 2
switchguid=0x8f104003f1e29(8f104003f1e29)	# Spine 1 Chip 1 
Switch	24 "S-0008f104003f1e29"		# "spine" base port 0 lid 2 lmc 0
[7]	"S-0008f10400411a08"[13]		# "leaf" lid 14 4xSDR s=1 w=2 v=3

# Line Nodes
switchguid=0x8f10400411a08(8f10400411a08)	# Line 3 Chip 2 
Switch	24 "S-0008f10400411a08"		# "leaf" base port 0 lid 14 lmc 0
[24][ext 12]	"H-0002c902002227b8"[1](2c902002227b9) 		# "host HCA-1" lid 3 4xDDR
[23][ext 11]	"S-00000000000000aa"[5][ext 4]		# "other" lid 5 4xDDR
[13]	"S-0008f104003f1e29"[7]		# "spine" lid 2 1xSDR

Non-Chassis Nodes

switchguid=0xaa(aa)
Switch	24 "S-00000000000000aa"		# "other" base port 0 lid 5 lmc 0
[5][ext 4]	"S-0008f10400411a08"[23][ext 11]		# "leaf" lid 14 4xDDR

caguid=0x2c902002227b8 (scp)
Ca	2 "H-0002c902002227b8"		# "host HCA-1"
[1](2c902002227b9) 	"S-0008f10400411a08"[24][ext 12]		# lid 3 lmc 1 "leaf" lid 14 4xDDR
"#;

    #[test]
    fn chassis_are_read_past_their_ornaments() {
        let read = parse(GROUPED).unwrap();
        let names: Vec<_> = read.nodes().iter().map(|node| &node.name[..]).collect();
        assert_eq!(names, ["spine", "leaf", "other", "host HCA-1"]);
        assert_eq!(read.nodes()[0].guid, Guid(0x8_f104_003f_1e29));
        assert_eq!(read.nodes()[3].guid, Guid(0x2_c902_0022_27b8));
        let link = |name: &str, port: u8| {
            let node = read.find(name).unwrap();
            let at = PortId { node, port };
            let peer = read.peer(at).unwrap();
            let link = read.cables()[read.cable_at(at).unwrap()].link;
            let peer = (&read.node(peer.node).name[..], peer.port);
            (peer, format!("{}{}", link.width, link.speed))
        };
        assert_eq!(read.cables().len(), 3);
        assert_eq!(link("leaf", 24), (("host HCA-1", 1), "4xDDR".into()));
        assert_eq!(link("leaf", 23), (("other", 5), "4xDDR".into()));
        let slower = (("leaf", 13), "1xSDR".to_owned());
        assert_eq!(link("spine", 7), slower, "seen at both ends, by turns");
    }

    #[test]
    fn a_link_of_an_unknown_speed_is_not_taken_for_another() {
        let faster = DISCOVERED.replace("lid 7 4xQDR", "lid 7 4xXDR");
        let error = parse(&faster).unwrap_err();
        assert_eq!(error.line, 7);
        assert!(
            error.why.starts_with("\"XDR\" is no speed; there are SDR"),
            "{error}"
        );
        let unsaid = DISCOVERED.replace("4xQDR", "4x???");
        assert!(parse(&unsaid).is_ok(), "ibnetdiscover does not know either");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let read = parse(DISCOVERED).unwrap();
        let again = parse(&write(&read)).unwrap();
        assert_eq!(again, read);
    }

    #[test]
    fn a_cable_told_of_at_one_end_is_one() {
        let read = parse("Switch 8 \"a\"\n[3] \"b\" w=3 s=7\n\nHca 1 \"b\"\n").unwrap();
        assert_eq!(read.cables().len(), 1);
        let link = read.cables()[0].link;
        assert_eq!((link.width, link.speed), (Width::X4, Speed::Qdr));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, word) in [
            ("Switch 8 \"a\"\n[9] \"a\"[1]\n", 2, "no port 9"),
            ("Switch 8 \"a\"\n[1] \"c\"[1]\n", 2, "no node \"c\""),
            ("Switch 8 \"a\"\n[1] \"a\"[1]\n", 2, "with itself"),
            (
                "Switch 8 \"a\"\n[1] \"a\"[2]\n[1] \"a\"[3]\n",
                3,
                "two cables",
            ),
            ("[1] \"a\"\n", 1, "before any node"),
            ("Switch x \"a\"\n", 1, "no number"),
            ("Switch 300 \"a\"\n", 1, "1 to 254"),
            ("Switch 3 a\n", 1, "no number"),
            ("include more\n", 1, "order to ibsim"),
            ("colour=3\n", 1, "nothing is known"),
            ("hello\n", 1, "neither"),
            ("Switch 3 \"a\"\n\nSwitch 3 \"a\"\n", 3, "two nodes"),
            (
                "Switch 3 \"a\"\n[1] \"b\"[1]\n\nSwitch 3 \"b\"\n[1] \"a\"[2]\n",
                2,
                "another port in line 5",
            ),
            (
                "Switch 3 \"a\"\n[1] \"b\"[1] w=2\n\nSwitch 3 \"b\"\n[1] \"a\"[1] w=8\n",
                2,
                "differ",
            ),
            (
                "caguid=0x1\nCa 1 \"a\"\n\ncaguid=0x1\nCa 1 \"b\"\n",
                5,
                "0x0000000000000001",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.why.contains(word), "{text:?}: {error}");
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }
}
