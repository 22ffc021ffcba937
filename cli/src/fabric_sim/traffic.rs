//! Who sends what to whom: patterns, and the messages of an MPI run.

use super::world::{Host, World};
use crate::args::{FabricSimArgs, Traffic};
use crate::fabric::FILE_BYTES;
use crate::failure::Failure;
use ferriband_fabric::host::{FlowSpec, PACKET_OVERHEAD, Pace, Post, Target};
use ferriband_fabric::{Random, Time};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Streams of random numbers of the seed; the net has the small ones.
const PERMUTATION: u64 = 1 << 40;

/// What will be sent.
pub struct Offered {
    /// The share of all hosts' links that is offered, on average; None for a trace.
    pub load: Option<f64>,
    /// Messages of a trace.
    pub messages: Option<u64>,
    /// The last of them.
    pub last: Time,
    /// Messages of a trace between ranks at one host: not sent.
    pub local: u64,
}

/// How many hosts the subnet has.
fn at_least_two(world: &World) -> Result<usize, Failure> {
    match world.hosts.len() {
        count @ 0..2 => Err(Failure::new(format!(
            "traffic needs two hosts, and the subnet has {count}: of the description, what the first switch is cabled to"
        ))
        .remedy("cable the hosts to a switch; two that are cabled to each other are no subnet here")),
        count => Ok(count),
    }
}

/// Gives the hosts their flows.
pub fn begin(world: &mut World, args: &FabricSimArgs) -> Result<Offered, Failure> {
    if let Traffic::Trace(path) = &args.traffic {
        return replay(world, path, args);
    }
    let count = at_least_two(world)?;
    let all: Arc<[u32]> = world.hosts.iter().map(|host| host.lid).collect();
    let mut flows: Vec<(usize, Target, f64)> = Vec::new();
    let uniform = |from: usize, share: f64| (from, Target::Any(all.clone()), share);
    match &args.traffic {
        Traffic::Uniform => flows.extend((0..count).map(|from| uniform(from, 1.0))),
        Traffic::Permutation => {
            for (from, to) in cycle(count, args.seed).into_iter().enumerate() {
                flows.push((from, Target::One(all[to]), 1.0));
            }
        }
        Traffic::HotSpot(share) => {
            // a flow is a queue pair, which congestion control slows down as a whole: so the rest goes to the others alone
            let others: Arc<[u32]> = all[1..].into();
            for from in 0..count {
                if from > 0 {
                    flows.push((from, Target::One(all[0]), *share));
                }
                let rest = if from > 0 { 1.0 - share } else { 1.0 };
                let rest = (from, Target::Any(others.clone()), rest);
                flows.extend((rest.2 > 0.0).then_some(rest));
            }
        }
        Traffic::Incast(senders) => {
            let senders = senders.map_or(count - 1, |n| (n as usize).min(count - 1));
            // spread over the fabric
            let from = |nth: usize| 1 + nth * (count - 1) / senders;
            flows.extend((0..senders).map(|nth| (from(nth), Target::One(all[0]), 1.0)));
        }
        Traffic::AllToAll => {
            let turns = |from: usize| Target::Turns(all.clone(), from as u32 + 1);
            flows.extend((0..count).map(|from| (from, turns(from), 1.0)));
        }
        Traffic::Shift(by) => {
            let by = by.map_or(count / 2, |by| by as usize % count);
            if by == 0 {
                return Err(Failure::new(format!(
                    "a shift by a multiple of {count} sends each host's messages to itself"
                ))
                .status(2));
            }
            flows.extend((0..count).map(|at| (at, Target::One(all[(at + by) % count]), 1.0)));
        }
        Traffic::Trace(_) => {}
    }
    let offered = flows.iter().map(|flow| flow.2).sum::<f64>() * args.load / count as f64;
    for (from, target, share) in flows {
        let host = &world.hosts[from];
        let spec = spec(host, target, share, args);
        world.net.add_flow(host.node, spec);
    }
    Ok(Offered {
        load: Some(offered),
        messages: None,
        last: Time::ZERO,
        local: 0,
    })
}

fn spec(host: &Host, target: Target, share: f64, args: &FabricSimArgs) -> FlowSpec {
    let length_bytes = args.mtu + PACKET_OVERHEAD;
    let message = args.message.unwrap_or(args.mtu.into());
    let load = args.load * share;
    let gap = FlowSpec::message_gap(&host.rate, length_bytes, message, load);
    FlowSpec {
        target,
        sl: 0,
        length_bytes,
        message_bytes: Some(message),
        pace: if load >= 1.0 {
            Pace::Saturated
        } else {
            Pace::About(gap)
        },
        start: Time::ZERO,
        packets: None,
    }
}

/// A permutation that is one cycle, so nobody sends to itself (S. Sattolo, 1986).
fn cycle(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed, PERMUTATION);
    let mut to: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        to.swap(last, random.below(last as u32) as usize);
    }
    to
}

/// The trace event format, as far as messages are in it.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    ph: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    args: Arguments,
}

#[derive(Deserialize, Default)]
struct Arguments {
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    sort_index: Option<u64>,
}

/// A message between ranks.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Message {
    at_us: f64,
    from: u64,
    to: u64,
    bytes: u64,
}

/// The messages of a trace, by time.
fn messages(text: &str) -> Result<Vec<Message>, String> {
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut ranks = BTreeMap::new();
    let mut sent: BTreeMap<u64, Message> = BTreeMap::new();
    let mut found = Vec::new();
    for event in &file.events {
        if event.ph == "M" && event.name == "process_sort_index" {
            ranks.extend(event.args.sort_index.map(|rank| (event.pid, rank)));
        }
    }
    let rank = |row: u64| ranks.get(&row).copied().unwrap_or(row);
    for event in &file.events {
        match (&*event.ph, event.id) {
            ("s", Some(id)) => {
                if !(event.ts.is_finite() && event.ts >= 0.0) {
                    return Err(format!("message {id} is sent at {} us", event.ts));
                }
                let message = Message {
                    at_us: event.ts,
                    from: rank(event.pid),
                    to: 0,
                    bytes: event.args.bytes.unwrap_or(0),
                };
                sent.insert(id, message);
            }
            ("f", Some(id)) => {
                if let Some(message) = sent.remove(&id) {
                    found.push(Message {
                        to: rank(event.pid),
                        ..message
                    });
                }
            }
            _ => {}
        }
    }
    found.sort_by(|a, b| a.at_us.total_cmp(&b.at_us));
    Ok(found)
}

/// Each message at its time (the first at 0), as if nobody waited for anybody: rank r is at host r, or at r modulo the number of hosts.
fn replay(world: &mut World, path: &Path, args: &FabricSimArgs) -> Result<Offered, Failure> {
    let name = path.display().to_string();
    let about = std::fs::metadata(path).map_err(|error| Failure::io("read", &name, &error))?;
    if about.len() > FILE_BYTES {
        return Err(Failure::new(format!(
            "{name} has {} bytes, more than the {FILE_BYTES} that are read: trace fewer ranks or a shorter run",
            about.len()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", &name, &error))?;
    let messages = messages(&text).map_err(|error| {
        Failure::new(format!("{name} is no trace of `ferriband trace`: {error}"))
    })?;
    let Some(first) = messages.first().map(|message| message.at_us) else {
        return Err(Failure::new(format!(
            "{name} has no message with both its ends"
        )));
    };
    let hosts = at_least_two(world)? as u64;
    let mut posts: Vec<Vec<Post>> = vec![Vec::new(); world.hosts.len()];
    let (mut sent, mut local, mut last) = (0, 0, Time::ZERO);
    for message in messages {
        let (from, to) = (message.from % hosts, message.to % hosts);
        if from == to {
            local += 1;
            continue;
        }
        // births have 40 bits of nanoseconds
        let at = Time(((message.at_us - first) * 1e6 * args.time_scale).min(1e15) as u64);
        posts[from as usize].push(Post {
            at,
            lid: world.hosts[to as usize].lid,
            bytes: u32::try_from(message.bytes).unwrap_or(u32::MAX / 2),
        });
        (sent, last) = (sent + 1, at.max(last));
    }
    for (host, posts) in world.hosts.iter().zip(posts) {
        if !posts.is_empty() {
            let mut spec = spec(host, Target::Listed(posts.into()), 1.0, args);
            spec.pace = Pace::Saturated;
            world.net.add_flow(host.node, spec);
        }
    }
    Ok(Offered {
        load: None,
        messages: Some(sent),
        last,
        local,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_everybody_once_and_nobody_at_home() {
        for count in [2, 3, 100] {
            let to = cycle(count, 7);
            let mut sorted = to.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            assert!(to.iter().enumerate().all(|(from, to)| from != *to));
        }
        assert_ne!(cycle(100, 1), cycle(100, 2));
    }

    #[test]
    fn messages_of_a_trace_have_both_ends() {
        let text = r#"{"displayTimeUnit":"ns","traceEvents":[
            {"ph":"M","name":"process_sort_index","pid":0,"tid":0,"args":{"sort_index":3}},
            {"ph":"X","cat":"call","name":"MPI_Send","pid":0,"tid":1,"ts":1.0,"dur":2.0},
            {"ph":"s","cat":"message","name":"message","id":0,"pid":0,"tid":1,"ts":7.500,"args":{"bytes":9,"tag":1}},
            {"ph":"f","bp":"e","cat":"message","name":"message","id":0,"pid":1,"tid":1,"ts":8.0,"args":{"bytes":9,"tag":1}},
            {"ph":"s","cat":"message","name":"message","id":1,"pid":1,"tid":1,"ts":7.250,"args":{"bytes":1,"tag":1}}
        ]}"#;
        let found = messages(text).expect("a trace");
        let wanted = Message {
            at_us: 7.5,
            from: 3,
            to: 1,
            bytes: 9,
        };
        assert_eq!(found, [wanted]);
        assert!(messages("{}").is_err() && messages("[").is_err());
    }
}
