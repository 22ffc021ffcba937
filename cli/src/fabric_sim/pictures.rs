//! The pictures: throughput over time, latencies, how busy each link was, and where packets waited. SVG written by hand.

use super::Results;
use super::page::escape;
use super::report::{capacity, delivered, ns};
use super::watch::{Output, trees};
use crate::text::duration;
use ferriband_fabric::Latencies;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const PLOT: f64 = 260.0;
/// Rows of a map; more are put together.
const MOST_ROWS: usize = 160;
/// Cells that say what they are when pointed at.
const MOST_TITLES: usize = 4_000;
/// Outputs of the map of congestion.
const MOST_OUTPUTS: usize = 60;

/// Each picture with its name.
pub fn all(results: &Results) -> [(&'static str, String); 4] {
    [
        ("throughput", throughput(results)),
        ("latency", latency(results)),
        ("links", links(results)),
        ("congestion", congestion(results)),
    ]
}

/// What a picture shows.
pub fn caption(name: &str) -> &'static str {
    match name {
        "throughput" => {
            "What arrived at hosts over virtual time, as a share of all their links, and what waited in the switches."
        }
        "latency" => {
            "How long packets and whole messages took, from their birth to the last bit's arrival: the share that took no longer."
        }
        "links" => {
            "How busy each output of each switch was, and below it the link of the host at that port: a row for each switch (or for several, then the busiest of them), a column for each port."
        }
        _ => {
            "Congestion trees over time: a root is where packets wait although the next one takes what it is sent; below it stand the outputs that lack credits because of it. The darker, the more waits."
        }
    }
}

struct Svg(String);

impl Svg {
    fn new(height: f64) -> Svg {
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" font-family=\"sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        ))
    }

    // writing to a string does not fail
    fn text(&mut self, x: f64, y: f64, anchor: &str, size: u32, text: &str) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"#333\">{}</text>",
            escape(text)
        );
    }

    fn line(&mut self, a: (f64, f64), b: (f64, f64), colour: &str) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
            a.0, a.1, b.0, b.1
        );
    }

    fn path(&mut self, points: &[(f64, f64)], colour: &str) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    }

    fn cell(&mut self, at: (f64, f64), size: (f64, f64), colour: &str, title: Option<&str>) {
        let _ = write!(
            self.0,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{colour}\"",
            at.0, at.1, size.0, size.1
        );
        let _ = match title {
            None => writeln!(self.0, "/>"),
            Some(title) => writeln!(self.0, "><title>{}</title></rect>", escape(title)),
        };
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }
}

/// Dark blue to yellow: read alike by people who do not see all colours, and in grey.
fn colour(share: f64) -> String {
    const STOPS: [(f64, f64, f64); 5] = [
        (68.0, 1.0, 84.0),
        (59.0, 82.0, 139.0),
        (33.0, 145.0, 140.0),
        (94.0, 201.0, 98.0),
        (253.0, 231.0, 37.0),
    ];
    let at = share.clamp(0.0, 1.0) * 4.0;
    let low = (at as usize).min(3);
    let part = at - low as f64;
    let mix = |a: f64, b: f64| (a + (b - a) * part).round() as u8;
    let (a, b) = (STOPS[low], STOPS[low + 1]);
    format!(
        "#{:02x}{:02x}{:02x}",
        mix(a.0, b.0),
        mix(a.1, b.1),
        mix(a.2, b.2)
    )
}

/// White to dark red.
fn heat(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let mix = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
    format!(
        "#{:02x}{:02x}{:02x}",
        mix(255.0, 140.0),
        mix(240.0, 10.0),
        mix(225.0, 20.0)
    )
}

/// A frame with lines across, and the axis of time below.
fn frame(svg: &mut Svg, results: &Results, top: f64, height: f64, labels: &[(f64, String)]) {
    for (share, label) in labels {
        let y = top + height * (1.0 - share);
        svg.line((LEFT, y), (WIDTH - RIGHT, y), "#e2e2e2");
        svg.text(LEFT - 8.0, y + 4.0, "end", 11, label);
    }
    for step in 0..=5 {
        let share = f64::from(step) / 5.0;
        let x = LEFT + (WIDTH - LEFT - RIGHT) * share;
        svg.text(
            x,
            top + height + 16.0,
            "middle",
            11,
            &duration(time_at(results, share)),
        );
    }
}

/// Nanoseconds at a share of the time that was looked at.
fn time_at(results: &Results, share: f64) -> f64 {
    let first = results
        .samples
        .first()
        .map_or(0.0, |sample| ns(sample.from));
    let last = results.samples.last().map_or(0.0, |sample| ns(sample.to));
    first + (last - first) * share
}

fn x_of(results: &Results, at: f64) -> f64 {
    let (first, last) = (time_at(results, 0.0), time_at(results, 1.0));
    LEFT + (WIDTH - LEFT - RIGHT) * (at - first) / (last - first).max(1e-9)
}

fn throughput(results: &Results) -> String {
    let mut svg = Svg::new(2.0 * PLOT + 130.0);
    let capacity = capacity(results);
    let points: Vec<(f64, f64)> = results
        .samples
        .iter()
        .map(|sample| (x_of(results, ns(sample.to)), delivered(sample, capacity)))
        .collect();
    let offered = results.offered.load;
    let most = points
        .iter()
        .map(|point| point.1)
        .fold(offered.unwrap_or(0.0), f64::max)
        .max(1e-9);
    let labels: Vec<(f64, String)> = (0..=4)
        .map(|n| {
            (
                f64::from(n) / 4.0,
                format!("{:.3}", most * f64::from(n) / 4.0),
            )
        })
        .collect();
    let top = 40.0;
    svg.text(
        LEFT,
        top - 14.0,
        "start",
        14,
        "share of all hosts' links that is delivered (dashed: offered)",
    );
    frame(&mut svg, results, top, PLOT, &labels);
    let place = |share: f64| top + PLOT * (1.0 - share / most);
    if let Some(offered) = offered {
        let y = place(offered);
        let _ = writeln!(
            svg.0,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#999\" stroke-dasharray=\"5 4\"/>",
            WIDTH - RIGHT
        );
    }
    let drawn: Vec<(f64, f64)> = points
        .iter()
        .map(|(x, share)| (*x, place(*share)))
        .collect();
    svg.path(&drawn, "#0072b2");
    let top = top + PLOT + 60.0;
    let most = results
        .samples
        .iter()
        .map(|sample| sample.waiting_bytes)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let labels: Vec<(f64, String)> = (0..=4)
        .map(|n| {
            (
                f64::from(n) / 4.0,
                format!("{:.0} KiB", most * f64::from(n) / 4.0 / 1024.0),
            )
        })
        .collect();
    svg.text(LEFT, top - 14.0, "start", 14, "what waits in all switches");
    frame(&mut svg, results, top, PLOT, &labels);
    let waits: Vec<(f64, f64)> = results
        .samples
        .iter()
        .map(|sample| {
            let share = sample.waiting_bytes as f64 / most;
            (x_of(results, ns(sample.to)), top + PLOT * (1.0 - share))
        })
        .collect();
    svg.path(&waits, "#d55e00");
    svg.end()
}

fn latency(results: &Results) -> String {
    let net = &results.world.net;
    let of_packets = (net.latencies(), "#0072b2");
    let both = [of_packets, (net.messages(), "#d55e00")];
    // where each message is a packet there is one curve
    let (curves, title) = match net.latencies() == net.messages() {
        true => (&both[..1], "share that took no longer"),
        false => (
            &both[..],
            "share that took no longer (blue: packets, orange: messages)",
        ),
    };
    let (low, high) = (
        ns(net.latencies().quantile(0.0)),
        curves
            .iter()
            .map(|one| ns(one.0.most()))
            .fold(1.0, f64::max),
    );
    let low = 10f64.powf(low.max(1.0).log10().floor());
    let high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
    let mut svg = Svg::new(PLOT + 90.0);
    let top = 40.0;
    svg.text(LEFT, top - 14.0, "start", 14, title);
    // the upper end matters: 0, 90 %, 99 %, ... are as far apart as each other
    let nines = |share: f64| (-(1.0 - share).max(1e-5).log10() / 5.0).min(1.0);
    for share in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999] {
        let y = top + PLOT * (1.0 - nines(share));
        svg.line((LEFT, y), (WIDTH - RIGHT, y), "#e2e2e2");
        svg.text(
            LEFT - 8.0,
            y + 4.0,
            "end",
            11,
            &format!("{} %", share * 100.0),
        );
    }
    let x = |value: f64| {
        LEFT + (WIDTH - LEFT - RIGHT) * (value.max(low) / low).log10() / (high / low).log10()
    };
    let mut tick = low;
    while tick <= high * 1.01 {
        svg.line((x(tick), top), (x(tick), top + PLOT), "#eee");
        svg.text(x(tick), top + PLOT + 16.0, "middle", 11, &duration(tick));
        tick *= 10.0;
    }
    for (of, colour) in curves {
        svg.path(
            &curve(of, &x, &|share| top + PLOT * (1.0 - nines(share))),
            colour,
        );
    }
    svg.end()
}

fn curve(of: &Latencies, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> Vec<(f64, f64)> {
    if of.count() == 0 {
        return Vec::new();
    }
    let shares = (0..=250).map(|n| 1.0 - 10f64.powf(-f64::from(n) / 50.0));
    let seen = shares.filter(|share| (1.0 - share) * of.count() as f64 >= 1.0 || *share < 0.5);
    seen.map(|share| (x(ns(of.quantile(share))), y(share)))
        .collect()
}

fn links(results: &Results) -> String {
    let world = &results.world;
    let mut rows: BTreeMap<u32, BTreeMap<u8, f64>> = BTreeMap::new();
    let hosts: BTreeMap<u32, (u32, u8)> = world
        .hosts
        .iter()
        .map(|host| (host.node, host.at))
        .collect();
    // what hosts send, by the switch and port that it comes in at
    let mut inputs: BTreeMap<(u32, u8), (f64, u32)> = BTreeMap::new();
    for link in &results.links {
        if let Some(at) = hosts.get(&link.node) {
            inputs.insert(*at, (link.utilisation, link.node));
            continue;
        }
        rows.entry(link.node)
            .or_default()
            .insert(link.port, link.utilisation);
    }
    let ports = rows
        .values()
        .filter_map(|ports| ports.keys().last())
        .max()
        .copied()
        .unwrap_or(1);
    let together = rows.len().div_ceil(MOST_ROWS).max(1);
    let shown = rows.len().div_ceil(together);
    let height = (900.0 / shown.max(1) as f64).clamp(4.0, 16.0);
    let width = ((WIDTH - LEFT - RIGHT - 90.0) / f64::from(ports)).min(40.0);
    let mut svg = Svg::new(height * shown as f64 + 80.0);
    let top = 50.0;
    svg.text(
        LEFT,
        18.0,
        "start",
        14,
        "share of the time that a switch's output (below: a host's link to it) carried packets",
    );
    for step in 0..=20 {
        let share = f64::from(step) / 20.0;
        svg.cell(
            (WIDTH - 320.0 + 12.0 * f64::from(step), 8.0),
            (12.0, 10.0),
            &colour(share),
            None,
        );
    }
    svg.text(WIDTH - 324.0, 18.0, "end", 11, "0");
    svg.text(WIDTH - 60.0, 18.0, "start", 11, "1");
    for port in (1..=ports).filter(|port| *port == 1 || port % 5 == 0) {
        let x = LEFT + width * (f64::from(port) - 0.5);
        svg.text(x, top - 6.0, "middle", 10, &port.to_string());
    }
    let titles = rows.len() * usize::from(ports) <= MOST_TITLES;
    let all: Vec<(u32, BTreeMap<u8, f64>)> = rows.into_iter().collect();
    for (row, group) in all.chunks(together).enumerate() {
        let y = top + height * row as f64;
        let name = &world.names[group[0].0 as usize];
        if height >= 9.0 || row % 4 == 0 {
            svg.text(LEFT - 6.0, y + height.min(11.0), "end", 10, name);
        }
        for port in 1..=ports {
            let used = group
                .iter()
                .filter_map(|(_, ports)| ports.get(&port).copied());
            let Some(most) = used.reduce(f64::max) else {
                continue;
            };
            let title = titles.then(|| format!("{name} port {port}: {:.1} %", most * 100.0));
            let x = LEFT + width * (f64::from(port) - 1.0);
            let (wide, high) = (width.max(1.5) - 0.5, height - 0.5);
            let sent = group
                .iter()
                .filter_map(|(node, _)| inputs.get(&(*node, port)));
            let sent = sent.max_by(|one, other| one.0.total_cmp(&other.0));
            let own = if sent.is_some() { high * 0.6 } else { high };
            svg.cell((x, y), (wide, own), &colour(most), title.as_deref());
            if let Some((used, host)) = sent {
                let host = &world.names[*host as usize];
                let title =
                    titles.then(|| format!("{host} to {name} port {port}: {:.1} %", used * 100.0));
                svg.cell(
                    (x, y + own),
                    (wide, high - own),
                    &colour(*used),
                    title.as_deref(),
                );
            }
        }
    }
    svg.end()
}

fn congestion(results: &Results) -> String {
    // rows: the outputs that waited most, each tree's root before those that wait for it
    let mut weights: BTreeMap<Output, u64> = BTreeMap::new();
    for branch in results.samples.iter().flat_map(|sample| &sample.branches) {
        *weights.entry(branch.output).or_default() +=
            branch.waiting_bytes + (branch.starved * 1024.0) as u64;
    }
    let mut kept: Vec<(Output, u64)> = weights.into_iter().collect();
    kept.sort_by_key(|(output, weight)| (std::cmp::Reverse(*weight), *output));
    let left_out = kept.len().saturating_sub(MOST_OUTPUTS);
    kept.truncate(MOST_OUTPUTS);
    let kept: BTreeMap<Output, u64> = kept.into_iter().collect();
    // in the order of the trees of the look with most of them, then the rest
    let fullest = results
        .samples
        .iter()
        .max_by_key(|sample| sample.branches.len());
    let mut rows: Vec<(Output, u32)> = fullest
        .map(|sample| trees(&sample.branches))
        .unwrap_or_default()
        .into_iter()
        .flat_map(|tree| tree.outputs)
        .map(|(branch, depth)| (branch.output, depth))
        .filter(|(output, _)| kept.contains_key(output))
        .collect();
    let placed: std::collections::BTreeSet<Output> = rows.iter().map(|row| row.0).collect();
    rows.extend(
        kept.keys()
            .filter(|output| !placed.contains(*output))
            .map(|output| (*output, 0)),
    );
    let height = 15.0;
    let top = 50.0;
    let mut svg = Svg::new(height * rows.len() as f64 + 100.0);
    svg.text(
        20.0,
        20.0,
        "start",
        14,
        "where packets waited over time (black edge: a root of congestion)",
    );
    if rows.is_empty() {
        svg.text(
            20.0,
            top,
            "start",
            12,
            "no output was congested when it was looked at",
        );
        return svg.end();
    }
    let left = 250.0;
    let width = (WIDTH - left - RIGHT) / results.samples.len().max(1) as f64;
    let all = results.samples.iter().flat_map(|sample| &sample.branches);
    let most = all
        .map(|branch| branch.waiting_bytes)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    for (row, (output, depth)) in rows.iter().enumerate() {
        let y = top + height * row as f64;
        let indent = 12.0 * f64::from((*depth).min(8));
        let name = format!(
            "{} port {}",
            results.world.names[output.0 as usize], output.1
        );
        svg.text(20.0 + indent, y + 11.0, "start", 11, &name);
        for (at, sample) in results.samples.iter().enumerate() {
            let found = sample
                .branches
                .binary_search_by_key(output, |branch| branch.output);
            let Ok(found) = found else { continue };
            let branch = &sample.branches[found];
            let title = format!(
                "{name}, {}: {} KiB, lacked credits {:.0} %",
                duration(ns(sample.to)),
                branch.waiting_bytes / 1024,
                branch.starved * 100.0
            );
            let share = (branch.waiting_bytes as f64 / most).max(branch.starved * 0.3);
            let x = left + width * at as f64;
            svg.cell(
                (x, y + 1.0),
                (width, height - 2.0),
                &heat(share),
                Some(&title),
            );
            if branch.toward.is_none() {
                let _ = writeln!(
                    svg.0,
                    "<path d=\"M{x:.1} {:.1}h{width:.2}\" stroke=\"#000\" stroke-width=\"2\"/>",
                    y + height - 2.0
                );
            }
        }
    }
    let below = top + height * rows.len() as f64;
    svg.text(
        left,
        below + 16.0,
        "start",
        11,
        &duration(time_at(results, 0.0)),
    );
    svg.text(
        WIDTH - RIGHT,
        below + 16.0,
        "end",
        11,
        &duration(time_at(results, 1.0)),
    );
    if left_out > 0 {
        svg.text(
            20.0,
            below + 34.0,
            "start",
            11,
            &format!("and {left_out} outputs that waited less"),
        );
    }
    svg.end()
}
