//! How long calls took, as Tables IV and V of MacArthur et al. show it: quantiles, because a few calls take a thousand times as long as most.

use super::timeline::{Call, Timeline};
use crate::failure::Failure;
use crate::text::{self, Table};
use ferriband_mpi_proto::heals::Parts;
use serde::Serialize;
use std::collections::BTreeMap;

/// The quantiles between least and most, in thousandths of a percent.
const SHARES: [(u64, &str); 8] = [
    (25_000, "25"),
    (50_000, "50"),
    (75_000, "75"),
    (90_000, "90"),
    (99_000, "99"),
    (99_900, "99.9"),
    (99_990, "99.99"),
    (99_999, "99.999"),
];

/// One function, or what lies between two.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// Nanoseconds of all together.
    pub total_ns: u64,
    /// Least.
    pub minimum_ns: u64,
    /// The quantiles of [`SHARES`], each the duration that this share of calls does not exceed.
    pub quantiles_ns: [u64; 8],
    /// Most.
    pub maximum_ns: u64,
    /// Third standardized moment; 0 where all are alike.
    pub skewness: f64,
}

/// All functions, the ones with the most time first.
#[derive(Clone, Debug)]
pub struct Quantiles {
    /// The lines.
    pub lines: Vec<Line>,
}

/// What `--json` prints.
#[derive(Serialize)]
pub struct Report<'a> {
    processes: usize,
    calls: usize,
    messages: usize,
    /// Messages by their kinds.
    messages_by_kind: BTreeMap<&'a str, usize>,
    message_bytes: u64,
    calls_without_end: usize,
    messages_with_one_end: u64,
    lost_events: u64,
    heals: Vec<ShownHeal<'a>>,
    shares_percent: [&'static str; 8],
    functions: &'a [Line],
}

impl Quantiles {
    /// Counts the calls that were seen to end.
    pub fn of(timeline: &Timeline) -> Self {
        let mut durations: Vec<Vec<u64>> = vec![Vec::new(); timeline.names.len()];
        for call in timeline.calls.iter().filter(|call| call.is_whole) {
            durations[call.name].push(call.duration_ns);
        }
        let named = timeline.names.iter().zip(durations);
        let mut lines: Vec<Line> = named
            .filter_map(|(name, durations)| Line::of(name.clone(), durations))
            .collect();
        lines.extend(completions(timeline));
        lines.sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
        Self { lines }
    }

    /// For people.
    pub fn print(&self, timeline: &Timeline) -> Result<(), Failure> {
        let shares = SHARES.map(|(_, name)| name);
        let [a, b, c, d, e, f, g, h] = shares;
        let header = [
            "nanoseconds",
            "calls",
            "total ms",
            "minimum",
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            "maximum",
            "skewness",
        ];
        let mut table =
            Table::new(header).right_align(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
        for line in &self.lines {
            let [a, b, c, d, e, f, g, h] = line.quantiles_ns.map(|ns| ns.to_string());
            table.row([
                line.name.clone(),
                line.count.to_string(),
                format!("{:.3}", line.total_ns as f64 / 1e6),
                line.minimum_ns.to_string(),
                a,
                b,
                c,
                d,
                e,
                f,
                g,
                h,
                line.maximum_ns.to_string(),
                format!("{:.2}", line.skewness),
            ]);
        }
        table.print()?;
        if !timeline.heals.is_empty() {
            text::print_line("")?;
            heal_table(timeline).print()?;
            text::print_line("")?;
        }
        let report = self.report(timeline);
        let kinds = report.messages_by_kind.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{kind}: {count}"))
            .collect();
        let kinds = match kinds.is_empty() {
            true => String::new(),
            false => format!(" ({})", kinds.join(", ")),
        };
        text::print_line(&format!(
            "{} processes, {} calls, {} messages of {} bytes in all{kinds}.",
            report.processes, report.calls, report.messages, report.message_bytes
        ))?;
        for (count, what) in [
            (
                report.calls_without_end as u64,
                "calls were not seen to end",
            ),
            (
                report.messages_with_one_end,
                "messages were seen at one end only",
            ),
            (
                report.lost_events,
                "events were written over by later ones (--events makes room)",
            ),
        ] {
            if count > 0 {
                text::print_line(&format!("{count} {what}."))?;
            }
        }
        Ok(())
    }

    /// For programs.
    pub fn report<'a>(&'a self, timeline: &'a Timeline) -> Report<'a> {
        let messages = &timeline.messages;
        let mut messages_by_kind = BTreeMap::new();
        for message in messages {
            if let Some(kind) = timeline.names.get(message.kind) {
                *messages_by_kind.entry(kind.as_str()).or_default() += 1;
            }
        }
        Report {
            processes: timeline.rows.len(),
            calls: timeline.calls.len(),
            messages: messages.len(),
            messages_by_kind,
            message_bytes: messages
                .iter()
                .map(|one| one.bytes)
                .fold(0, u64::saturating_add),
            calls_without_end: timeline.calls.iter().filter(|call| !call.is_whole).count(),
            messages_with_one_end: timeline.rows.iter().map(|row| row.loose).sum(),
            lost_events: timeline
                .rows
                .iter()
                .map(|row| row.lost)
                .fold(0, u64::saturating_add),
            heals: shown_heals(timeline),
            shares_percent: SHARES.map(|(_, name)| name),
            functions: &self.lines,
        }
    }
}

/// The heals of all processes, for people.
fn heal_table(timeline: &Timeline) -> Table {
    let [detect, fence, reconnect, replay] = Parts::NAMES;
    let header = [
        "heals, in ms",
        "to rank",
        "at",
        detect,
        fence,
        reconnect,
        replay,
        "all",
        "bytes again",
        "tries",
        "why",
    ];
    let mut table = Table::new(header).right_align(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    for heal in &timeline.heals {
        let [detect, fence, reconnect, replay] = heal.parts_ns.map(ms);
        table.row([
            timeline.rows[heal.row].label.clone(),
            heal.peer.to_string(),
            ms(heal.begin_ns),
            detect,
            fence,
            reconnect,
            replay,
            ms(heal.duration_ns()),
            heal.bytes.to_string(),
            heal.tries.to_string(),
            timeline.names.get(heal.cause).cloned().unwrap_or_default(),
        ]);
    }
    table
}

/// A heal, as `--json` prints it.
#[derive(Serialize)]
struct ShownHeal<'a> {
    process: &'a str,
    peer: u32,
    cause: &'a str,
    at_ns: u64,
    /// By the names of the parts.
    parts_ns: BTreeMap<&'static str, u64>,
    bytes: u64,
    tries: u32,
}

fn shown_heals(timeline: &Timeline) -> Vec<ShownHeal<'_>> {
    let shown = timeline.heals.iter().map(|heal| ShownHeal {
        process: &timeline.rows[heal.row].label,
        peer: heal.peer,
        cause: timeline.names.get(heal.cause).map_or("", |name| name),
        at_ns: heal.begin_ns,
        parts_ns: Parts::NAMES.into_iter().zip(heal.parts_ns).collect(),
        bytes: heal.bytes,
        tries: heal.tries,
    });
    shown.collect()
}

impl Line {
    fn of(name: String, mut durations: Vec<u64>) -> Option<Self> {
        durations.sort_unstable();
        let (minimum_ns, maximum_ns) = (*durations.first()?, *durations.last()?);
        let count = durations.len() as u64;
        let quantile = |share: u64| {
            // The smallest duration that so many do not exceed.
            let at = (u128::from(count) * u128::from(share))
                .div_ceil(100_000)
                .max(1);
            durations[(at - 1) as usize]
        };
        let mean = durations.iter().map(|ns| *ns as f64).sum::<f64>() / count as f64;
        let moment = |power: i32| {
            durations
                .iter()
                .map(|ns| (*ns as f64 - mean).powi(power))
                .sum::<f64>()
                / count as f64
        };
        let deviation = moment(2).sqrt();
        let skewness = if deviation > 0.0 {
            moment(3) / deviation.powi(3)
        } else {
            0.0
        };
        Some(Self {
            name,
            count,
            total_ns: durations.iter().copied().fold(0, u64::saturating_add),
            minimum_ns,
            quantiles_ns: SHARES.map(|(share, _)| quantile(share)),
            maximum_ns,
            skewness,
        })
    }
}

/// From the end of an MPI_Isend to the end of its MPI_Wait, as in the tables' column *Completion*: where the one follows the other in a thread, so that
/// they must belong together.
fn completions(timeline: &Timeline) -> Option<Line> {
    let place = |name: &str| {
        timeline
            .names
            .binary_search_by(|other| other.as_str().cmp(name))
            .ok()
    };
    let (send, wait) = (place("MPI_Isend")?, place("MPI_Wait")?);
    let mut before: std::collections::HashMap<(usize, u8), &Call> =
        std::collections::HashMap::new();
    let mut durations = Vec::new();
    for call in timeline.calls.iter().filter(|call| call.is_whole) {
        let last = before.insert((call.row, call.thread), call);
        if let Some(last) = last.filter(|last| last.name == send && call.name == wait) {
            let end_ns = |call: &Call| call.begin_ns + call.duration_ns;
            durations.push(end_ns(call).saturating_sub(end_ns(last)));
        }
    }
    Line::of("(MPI_Isend's end to MPI_Wait's)".to_owned(), durations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_durations_that_were_there() {
        let line = Line::of("f".to_owned(), (1..=1000).collect()).expect("a line");
        assert_eq!(
            (line.minimum_ns, line.maximum_ns, line.count),
            (1, 1000, 1000)
        );
        assert_eq!(
            line.quantiles_ns,
            [250, 500, 750, 900, 990, 999, 1000, 1000]
        );
        assert!(line.skewness.abs() < 1e-9 && line.total_ns == 500_500);
        let one = Line::of("f".to_owned(), vec![7]).expect("a line");
        assert_eq!((one.quantiles_ns, one.skewness), ([7; 8], 0.0));
        let skewed = Line::of("f".to_owned(), vec![1, 1, 1, 1, 100]).expect("a line");
        assert!((skewed.skewness - 1.5).abs() < 1e-6, "{}", skewed.skewness);
        assert!(Line::of("f".to_owned(), Vec::new()).is_none());
    }

    #[test]
    fn a_completion_goes_from_the_send_to_the_wait_that_follows_it() {
        let call = |name, begin_ns, duration_ns| Call {
            row: 0,
            thread: 0,
            name,
            begin_ns,
            duration_ns,
            is_whole: true,
            depth: 0,
        };
        let timeline = Timeline {
            names: ["MPI_Irecv", "MPI_Isend", "MPI_Wait"]
                .map(str::to_owned)
                .to_vec(),
            calls: vec![
                call(1, 0, 10),
                call(2, 15, 20),
                call(1, 40, 1),
                call(0, 50, 1),
                call(2, 60, 1),
            ],
            ..Timeline::default()
        };
        let line = completions(&timeline).expect("one pair");
        assert_eq!((line.count, line.minimum_ns), (1, 25));
    }
}
