//! The pictures in one HTML file that needs nothing else.

use super::Results;
use super::pictures;
use super::report::Report;
use crate::text::duration;
use std::fmt::Write;

const STYLE: &str = "body{font-family:sans-serif;max-width:1220px;margin:2em auto;color:#222}\
    h1{font-size:1.4em}figure{margin:1.5em 0}figcaption{color:#555;font-size:.9em}\
    table{border-collapse:collapse}td{padding:.15em 1em .15em 0}";

/// Writes it.
pub fn write(report: &Report, results: &Results) -> String {
    let mut out = String::new();
    // writing to a string does not fail
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}: {1}</h1>\n<table>\n",
        escape(&report.fabric),
        escape(&report.traffic)
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "<tr><td>{name}</td><td>{}</td></tr>", escape(&value));
    };
    row(
        "fabric",
        format!(
            "{} switches with {} ports in use, {} hosts, {} links, {} with {} data lanes",
            report.switches,
            report.switch_ports,
            report.hosts,
            report.links,
            report.engine,
            report.lanes
        ),
    );
    row(
        "switches",
        format!(
            "{}, {} KiB for each lane of a port, {}",
            report.switch,
            report.buffer_bytes / 1024,
            report.remedies()
        ),
    );
    let offered = report.throughput.offered;
    row(
        "delivered",
        format!(
            "{:.4}{} of all hosts' links, {:.1} Gb/s, in {}",
            report.throughput.delivered,
            offered.map_or(String::new(), |share| format!(" of {share:.3} offered")),
            report.throughput.gbps,
            duration(report.duration_ns)
        ),
    );
    for (name, of) in [
        ("packets' latency", &report.packet_latency),
        ("messages' latency", &report.message_latency),
    ] {
        row(
            name,
            format!(
                "50 % within {}, 99 % within {}, all {} within {}",
                duration(of.p50_ns),
                duration(of.p99_ns),
                of.count,
                duration(of.most_ns)
            ),
        );
    }
    row("seed", report.seed.to_string());
    out.push_str("</table>\n");
    if report.locked_up {
        out.push_str("<p><b>Locked up</b>: packets wait for each other's buffers, and nothing moves any more.</p>\n");
    }
    for (name, picture) in pictures::all(results) {
        let _ = writeln!(
            out,
            "<figure id=\"{name}\">{picture}<figcaption>{}</figcaption></figure>",
            pictures::caption(name)
        );
    }
    out.push_str("</body></html>\n");
    out
}

/// A text within HTML or SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
