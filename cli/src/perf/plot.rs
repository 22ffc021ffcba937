//! The plot: latency and bandwidth over message size, both on logarithmic axes, with this
//! machine's floors beside them. Written as SVG; PNG is the same SVG, rendered.

use super::case::Measured;
use crate::args::{Operation, Service};
use crate::failure::Failure;
use crate::floor::{Floors, bytes_per_second};
use crate::text::{bandwidth, duration, size};
use resvg::{tiny_skia, usvg};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 620.0;
const PANEL_WIDTH: f64 = 480.0;
const PANEL_HEIGHT: f64 = 400.0;
const PANEL_TOP: f64 = 70.0;
const LEGEND_TOP: f64 = 525.0;
/// PNG pixels per unit of the SVG.
const SCALE: f32 = 2.0;

/// A quantity on a logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    /// The ratio of two neighbouring ticks.
    step: f64,
}

impl Axis {
    /// An axis around the values whose ends are powers of `step`.
    fn around(values: impl Iterator<Item = f64>, step: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high == 0.0 {
            (low, high) = (1.0, step);
        }
        let power = |value: f64, round: fn(f64) -> f64| step.powf(round(value.log(step)));
        let (low, high) = (
            power(low, |x| (x + 1e-9).floor()),
            power(high, |x| (x - 1e-9).ceil()),
        );
        Axis {
            low,
            high: high.max(low * step),
            step,
        }
    }

    /// 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln()
    }

    /// Ticks, at most about a dozen.
    fn ticks(&self) -> Vec<f64> {
        let count = (self.high / self.low).log(self.step).round() as i32;
        let stride = (count / 12 + 1) as usize;
        (0..=count)
            .step_by(stride)
            .map(|n| self.low * self.step.powi(n))
            .collect()
    }
}

/// One of the two diagrams.
struct Panel<'a> {
    title: &'a str,
    left: f64,
    x: &'a Axis,
    y: Axis,
    label: fn(f64) -> String,
}

impl Panel<'_> {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let right = self.x.place(x) * PANEL_WIDTH;
        let up = self.y.place(y).clamp(0.0, 1.0) * PANEL_HEIGHT;
        (self.left + right, PANEL_TOP + PANEL_HEIGHT - up)
    }

    fn frame(&self, svg: &mut String) {
        let (left, bottom) = (self.left, PANEL_TOP + PANEL_HEIGHT);
        text(
            svg,
            left + PANEL_WIDTH / 2.0,
            PANEL_TOP - 14.0,
            "middle",
            15,
            "#222",
            self.title,
        );
        for tick in self.x.ticks() {
            let (x, _) = self.at(tick, self.y.low);
            line(svg, (x, PANEL_TOP), (x, bottom), "stroke=\"#e4e4e4\"");
            text(
                svg,
                x,
                bottom + 18.0,
                "middle",
                11,
                "#444",
                &size(tick.round() as usize),
            );
        }
        for tick in self.y.ticks() {
            let (_, y) = self.at(self.x.low, tick);
            line(
                svg,
                (left, y),
                (left + PANEL_WIDTH, y),
                "stroke=\"#e4e4e4\"",
            );
            text(
                svg,
                left - 7.0,
                y + 4.0,
                "end",
                11,
                "#444",
                &(self.label)(tick),
            );
        }
        let frame = format!(
            "<rect x=\"{left}\" y=\"{PANEL_TOP}\" width=\"{PANEL_WIDTH}\" height=\"{PANEL_HEIGHT}\" fill=\"none\" \
             stroke=\"#888\"/>\n"
        );
        svg.push_str(&frame);
        text(
            svg,
            left + PANEL_WIDTH / 2.0,
            bottom + 36.0,
            "middle",
            12,
            "#444",
            "message size in bytes",
        );
    }

    fn floor(&self, svg: &mut String, value: Option<f64>, name: &str) {
        let Some(value) = value else { return };
        let (left, y) = self.at(self.x.low, value);
        line(
            svg,
            (left, y),
            (left + PANEL_WIDTH, y),
            "stroke=\"#999\" stroke-dasharray=\"2 4\" stroke-width=\"1.5\"",
        );
        text(
            svg,
            left + PANEL_WIDTH - 4.0,
            y - 4.0,
            "end",
            10,
            "#777",
            &format!("floor: {name}"),
        );
    }

    fn series(
        &self,
        svg: &mut String,
        points: &[(f64, f64)],
        service: Service,
        operation: Operation,
    ) {
        let style = style(service, operation);
        let placed: Vec<_> = points.iter().map(|&(x, y)| self.at(x, y)).collect();
        if placed.len() > 1 {
            let path = placed
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect::<Vec<_>>()
                .join(" ");
            let _ = writeln!(svg, "<polyline points=\"{path}\" fill=\"none\" {style}/>");
        }
        for (x, y) in placed {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"{}\"/>",
                colour(operation)
            );
        }
    }
}

/// Distinct for people who do not see red and green apart (after Okabe and Ito).
fn colour(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "#0072b2",
        Operation::SendImm => "#56b4e9",
        Operation::Write => "#d55e00",
        Operation::WriteImm => "#e69f00",
        Operation::Read => "#009e73",
        Operation::CmpSwap => "#000000",
        Operation::FetchAdd => "#cc79a7",
    }
}

fn style(service: Service, operation: Operation) -> String {
    let dashes = match service {
        Service::Rc => "",
        Service::Uc => " stroke-dasharray=\"7 4\"",
        Service::Ud => " stroke-dasharray=\"2 3\"",
    };
    format!(
        "stroke=\"{}\" stroke-width=\"1.8\"{dashes}",
        colour(operation)
    )
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), style: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, points: u32, fill: &str, content: &str) {
    let escaped = content
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{points}\" fill=\"{fill}\">{escaped}</text>"
    );
}

/// Results of one service and operation, in the order of their sizes.
type Series<'a> = ((Service, Operation), Vec<&'a Measured>);

fn group(results: &[Measured]) -> Vec<Series<'_>> {
    let mut groups: Vec<Series> = Vec::new();
    for result in results {
        let key = (result.case.service, result.case.operation);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(result),
            None => groups.push((key, vec![result])),
        }
    }
    groups
}

/// The whole plot as SVG text.
fn draw(adapter: &str, results: &[Measured], floors: &Floors) -> String {
    let sizes = || results.iter().map(|result| result.case.size_bytes as f64);
    let x = Axis::around(sizes(), 2.0);
    let copy = |ns: Option<f64>| ns.map(|ns| bytes_per_second(1 << 20, ns));
    let latency_floors = [
        (floors.mapped_ring_ns, "mapped ring with completion, 8 B"),
        (floors.cma_write_ns, "process_vm_writev, 8 B"),
    ];
    let bandwidth_floors = [
        (copy(floors.cma_write_1m_ns), "process_vm_writev, 1 MiB"),
        (copy(floors.memcpy_1m_ns), "memcpy, 1 MiB"),
    ];
    let latencies = results.iter().map(|result| result.latency.p50_ns);
    let rates = results.iter().map(|result| result.bytes_per_second);
    let panels = [
        Panel {
            title: "latency, median",
            left: 90.0,
            x: &x,
            y: Axis::around(
                latencies.chain(latency_floors.iter().filter_map(|f| f.0)),
                10.0,
            ),
            label: duration_tick,
        },
        Panel {
            title: "bandwidth",
            left: 690.0,
            x: &x,
            y: Axis::around(
                rates.chain(bandwidth_floors.iter().filter_map(|f| f.0)),
                10.0,
            ),
            label: bandwidth_tick,
        },
    ];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} \
         {HEIGHT}\" font-family=\"Ubuntu, DejaVu Sans, sans-serif\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n"
    );
    text(
        &mut svg,
        WIDTH / 2.0,
        28.0,
        "middle",
        18,
        "#000",
        &format!("ferriband perf: adapter {adapter}"),
    );
    let groups = group(results);
    for (index, panel) in panels.iter().enumerate() {
        panel.frame(&mut svg);
        for (value, name) in if index == 0 {
            latency_floors
        } else {
            bandwidth_floors
        } {
            panel.floor(&mut svg, value, name);
        }
        for ((service, operation), members) in &groups {
            let value = |m: &&Measured| {
                if index == 0 {
                    m.latency.p50_ns
                } else {
                    m.bytes_per_second
                }
            };
            let points: Vec<_> = members
                .iter()
                .map(|m| (m.case.size_bytes as f64, value(m)))
                .collect();
            panel.series(&mut svg, &points, *service, *operation);
        }
    }
    legend(&mut svg, &groups);
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, groups: &[Series]) {
    for (index, ((service, operation), members)) in groups.iter().enumerate() {
        let (column, row) = ((index % 6) as f64, (index / 6) as f64);
        let (x, y) = (90.0 + column * 180.0, LEGEND_TOP + 22.0 * row + 12.0);
        line(svg, (x, y), (x + 30.0, y), &style(*service, *operation));
        text(
            svg,
            x + 37.0,
            y + 4.0,
            "start",
            12,
            "#222",
            &members[0].case.name(),
        );
    }
}

fn duration_tick(ns: f64) -> String {
    duration(ns).replace(".00", "").replace(".0", "")
}

fn bandwidth_tick(rate: f64) -> String {
    bandwidth(rate).replace(".00", "").replace(".0", "")
}

/// Writes the plot as the file's extension says.
pub fn write(
    path: &Path,
    adapter: &str,
    results: &[Measured],
    floors: &Floors,
) -> Result<(), Failure> {
    let svg = draw(adapter, results, floors);
    let is_png = path.extension().is_some_and(|extension| extension == "png");
    let bytes = if is_png {
        render(&svg)?
    } else {
        svg.into_bytes()
    };
    fs::write(path, bytes)
        .map_err(|error| Failure::io("write", &path.display().to_string(), &error))
}

/// The SVG as PNG, with a font of our own: a fresh machine may have none.
fn render(svg: &str) -> Result<Vec<u8>, Failure> {
    let fail = |why: String| {
        Failure::new(format!("cannot render the plot as PNG: {why}")).remedy("ask for .svg")
    };
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(
        epaint_default_fonts::UBUNTU_LIGHT,
    )));
    let family = fonts
        .faces()
        .next()
        .and_then(|face| face.families.first())
        .map(|(name, _)| name.clone());
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        font_family: family.unwrap_or_default(),
        ..Default::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| fail(error.to_string()))?;
    let (width, height) = (
        (WIDTH as f32 * SCALE) as u32,
        (HEIGHT as f32 * SCALE) as u32,
    );
    let mut pixels =
        tiny_skia::Pixmap::new(width, height).ok_or_else(|| fail("no memory".to_owned()))?;
    resvg::render(
        &tree,
        tiny_skia::Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels.encode_png().map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::case::{Case, Latency};
    use super::*;

    fn results() -> Vec<Measured> {
        let case = |operation, size_bytes| Case {
            service: Service::Rc,
            operation,
            size_bytes,
            latency_iterations: 1,
            bandwidth_iterations: 1,
            inline_bytes: 0,
            event: false,
            device_memory: false,
        };
        let mut results = Vec::new();
        for operation in [Operation::Send, Operation::Write] {
            for exponent in 1..24 {
                let size_bytes = 1usize << exponent;
                let ns = 300.0 + size_bytes as f64 / 12.0;
                results.push(Measured {
                    case: case(operation, size_bytes),
                    latency: Latency {
                        messages: 1,
                        one_way: true,
                        min_ns: ns,
                        p50_ns: ns,
                        p99_ns: ns,
                        p999_ns: ns,
                    },
                    bytes_per_second: bytes_per_second(size_bytes, ns),
                    messages_per_second: 1e9 / ns,
                });
            }
        }
        results
    }

    #[test]
    fn axes_end_at_powers_and_hold_every_value() {
        let axis = Axis::around([130.0, 4.2e6].into_iter(), 10.0);
        assert!((axis.low - 100.0).abs() < 1e-6 && (axis.high - 1e7).abs() < 1.0);
        assert_eq!(axis.ticks().len(), 6);
        assert!(axis.place(130.0) > 0.0 && axis.place(4.2e6) < 1.0);
    }

    #[test]
    fn a_plot_shows_every_series_and_renders() {
        let floors = Floors {
            cma_write_ns: Some(1000.0),
            ..Floors::default()
        };
        let svg = draw("ferri0", &results(), &floors);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("RC SEND") && svg.contains("floor: process_vm_writev"));
        let png = render(&svg).expect("renders");
        assert_eq!(&png[1..4], b"PNG");
        // Text and lines were painted: far from an empty page, which compresses to almost nothing.
        assert!(png.len() > 20_000, "{}", png.len());
        if let Some(directory) = std::env::var_os("FERRIBAND_KEEP_PLOT") {
            fs::write(Path::new(&directory).join("plot.png"), png).expect("the directory exists");
        }
    }
}
