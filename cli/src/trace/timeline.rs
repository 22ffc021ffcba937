//! What all processes have written, put together: calls with their ends, and messages with both of
//! theirs.

use ferriband_mpi_proto::heals::Parts;
use ferriband_trace::{Event, Trace, What};
use std::collections::{BTreeMap, HashMap};

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the process among those of the timeline.
    pub row: usize,
    /// Number of the thread there.
    pub thread: u8,
    /// Index of the function's name.
    pub name: usize,
    /// When it began, in nanoseconds since the timeline's beginning.
    pub begin_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Whether its end was seen; else it lasts until the process's last event.
    pub is_whole: bool,
    /// Calls that it is within.
    pub depth: u8,
}

/// A message whose both ends were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Index of the sender,
    pub from: usize,
    /// its thread,
    pub from_thread: u8,
    /// and when it was sent.
    pub sent_ns: u64,
    /// Index of the receiver,
    pub to: usize,
    /// its thread,
    pub to_thread: u8,
    /// and when it came.
    pub came_ns: u64,
    /// Bytes.
    pub bytes: u64,
    /// Its tag.
    pub tag: i32,
    /// Index of the name of its kind.
    pub kind: usize,
}

/// A connection that failed and was made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heal {
    /// Index of the process.
    pub row: usize,
    /// The process at the other end: its number in the job.
    pub peer: u32,
    /// Index of the cause's name.
    pub cause: usize,
    /// When the first of both sides noticed, in nanoseconds since the timeline's beginning.
    pub begin_ns: u64,
    /// Nanoseconds of the parts, in the order of [`Parts::NAMES`].
    pub parts_ns: [u64; 4],
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Connections that were begun.
    pub tries: u32,
}

impl Heal {
    /// All of it.
    pub fn duration_ns(&self) -> u64 {
        self.parts_ns.iter().copied().fold(0, u64::saturating_add)
    }
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What people know it by.
    pub label: String,
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Events that were written over.
    pub lost: u64,
    /// Messages of it whose other end was not seen.
    pub loose: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The processes.
    pub rows: Vec<Row>,
    /// Names of functions and of kinds of messages, in alphabetical order.
    pub names: Vec<String>,
    /// Calls, in the order of their beginning.
    pub calls: Vec<Call>,
    /// Messages, in the order of their sending.
    pub messages: Vec<Message>,
    /// Heals, in the order of their beginning.
    pub heals: Vec<Heal>,
}

/// One end of a message.
struct End {
    row: usize,
    thread: u8,
    at_ns: u64,
    bytes: u64,
    tag: i32,
    kind: usize,
}

/// By what the ends of a message find each other: job, sender, receiver, tag, number.
type Key = (u64, u32, u32, i32, u32);

impl Timeline {
    /// Puts together what processes have written.
    pub fn of(traces: &[Trace]) -> Self {
        let clock = Clock::of(traces);
        let mut timeline = Self {
            names: names(traces),
            ..Self::default()
        };
        let mut sent: BTreeMap<Key, End> = BTreeMap::new();
        let mut came: Vec<(Key, End)> = Vec::new();
        for (row, trace) in traces.iter().enumerate() {
            let header = &trace.header;
            timeline.rows.push(Row {
                label: header.label.clone(),
                pid: header.pid,
                host: header.host.clone(),
                lost: trace.lost,
                loose: 0,
            });
            timeline.add_calls(row, trace, &clock);
            timeline.add_heals(row, trace, &clock);
            for event in &trace.events {
                let end = End {
                    row,
                    thread: event.thread,
                    at_ns: clock.since(trace, event.at_ns),
                    bytes: event.bytes,
                    tag: event.tag,
                    kind: timeline.place(trace, event.name),
                };
                match event.what {
                    What::Sent => {
                        let (from, to) = (header.rank, event.peer);
                        sent.insert((header.job, from, to, event.tag, event.seq), end);
                    }
                    What::Came => {
                        let (from, to) = (event.peer, header.rank);
                        came.push(((header.job, from, to, event.tag, event.seq), end));
                    }
                    What::Call | What::Return | What::Heal | What::Part => (),
                }
            }
        }
        for (key, end) in came {
            match sent.remove(&key) {
                Some(begin) => timeline.messages.push(Message {
                    from: begin.row,
                    from_thread: begin.thread,
                    sent_ns: begin.at_ns,
                    to: end.row,
                    to_thread: end.thread,
                    came_ns: end.at_ns.max(begin.at_ns),
                    bytes: begin.bytes,
                    tag: begin.tag,
                    kind: begin.kind,
                }),
                None => timeline.rows[end.row].loose += 1,
            }
        }
        for begin in sent.into_values() {
            timeline.rows[begin.row].loose += 1;
        }
        timeline
            .calls
            .sort_by_key(|call| (call.begin_ns, call.depth));
        timeline.messages.sort_by_key(|message| message.sent_ns);
        timeline.heals.sort_by_key(|heal| heal.begin_ns);
        timeline
    }

    /// The heals of one process, with their parts. A part whose heal was written over is nothing.
    fn add_heals(&mut self, row: usize, trace: &Trace, clock: &Clock) {
        let mut found: BTreeMap<u32, Heal> = BTreeMap::new();
        let whole = |event: &&Event| event.what == What::Heal;
        for event in trace.events.iter().filter(whole) {
            let heal = Heal {
                row,
                peer: event.peer,
                cause: self.place(trace, event.name),
                begin_ns: clock.since(trace, event.at_ns),
                parts_ns: [0; 4],
                bytes: event.bytes,
                tries: event.tag.cast_unsigned(),
            };
            found.insert(event.seq, heal);
        }
        let part = |event: &&Event| event.what == What::Part;
        for event in trace.events.iter().filter(part) {
            let name = trace.names.get(usize::from(event.name));
            let at = name.and_then(|name| Parts::NAMES.iter().position(|part| part == name));
            if let (Some(at), Some(heal)) = (at, found.get_mut(&event.seq)) {
                heal.parts_ns[at] = event.bytes;
            }
        }
        self.heals.extend(found.into_values());
    }

    /// The index of a name of a process's. What has none counts as the first.
    fn place(&self, trace: &Trace, name: u16) -> usize {
        let name = trace.names.get(usize::from(name));
        let found = name.and_then(|name| self.names.binary_search(name).ok());
        found.unwrap_or(0)
    }

    /// The calls of one process: each thread's are one within another.
    fn add_calls(&mut self, row: usize, trace: &Trace, clock: &Clock) {
        let mut open: HashMap<u8, Vec<Call>> = HashMap::new();
        let last_ns = trace.events.last().map_or(0, |event| event.at_ns);
        let until = |call: &mut Call, end_ns: u64| {
            call.duration_ns = clock.since(trace, end_ns).saturating_sub(call.begin_ns);
        };
        for event in &trace.events {
            let Some(name) = trace.names.get(usize::from(event.name)) else {
                continue;
            };
            let within = open.entry(event.thread).or_default();
            match event.what {
                What::Call => {
                    within.push(Call {
                        row,
                        thread: event.thread,
                        name: self.place(trace, event.name),
                        begin_ns: clock.since(trace, event.at_ns),
                        duration_ns: 0,
                        is_whole: true,
                        depth: within.len().min(255) as u8,
                    });
                }
                What::Return => {
                    let is_its = |call: &Call| self.names.get(call.name) == Some(name);
                    // A return without its call belongs to one that was written over.
                    if within.last().is_some_and(is_its)
                        && let Some(mut call) = within.pop()
                    {
                        until(&mut call, event.at_ns);
                        self.calls.push(call);
                    }
                }
                What::Sent | What::Came | What::Heal | What::Part => (),
            }
        }
        // In the order of threads, so that the same files give the same timeline.
        let mut left: Vec<_> = open.into_iter().collect();
        left.sort_by_key(|(thread, _)| *thread);
        for mut call in left.into_iter().flat_map(|(_, calls)| calls) {
            until(&mut call, last_ns);
            call.is_whole = false;
            self.calls.push(call);
        }
    }
}

fn names(traces: &[Trace]) -> Vec<String> {
    let mut names: Vec<String> = traces
        .iter()
        .flat_map(|trace| trace.names.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Brings the processes' clocks together: on one host they have the same one, on several the clock
/// on the wall has to do.
struct Clock {
    is_one: bool,
    begin_ns: u64,
}

impl Clock {
    fn of(traces: &[Trace]) -> Self {
        let is_one = traces
            .windows(2)
            .all(|two| two[0].header.boot == two[1].header.boot);
        let mut clock = Self {
            is_one,
            begin_ns: 0,
        };
        let firsts = traces.iter().filter_map(|trace| {
            let first = trace.events.first()?;
            Some(clock.since(trace, first.at_ns))
        });
        clock.begin_ns = firsts.min().unwrap_or(0);
        clock
    }

    fn since(&self, trace: &Trace, at_ns: u64) -> u64 {
        let header = &trace.header;
        let at_ns = if self.is_one {
            at_ns
        } else {
            at_ns
                .wrapping_sub(header.monotonic_ns)
                .wrapping_add(header.realtime_ns)
        };
        at_ns.saturating_sub(self.begin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_trace::Header;

    fn trace(rank: u32, events: &[(u64, What, u16, u32, u32)]) -> Trace {
        let event = |&(at_ns, what, name, peer, seq): &(u64, What, u16, u32, u32)| Event {
            at_ns,
            what,
            thread: 0,
            name,
            tag: 5,
            peer,
            seq,
            bytes: 8,
        };
        Trace {
            header: Header {
                rank,
                ranks: 2,
                capacity: 100,
                ..Header::default()
            },
            names: vec!["MPI_Send".to_owned(), "MPI_Allreduce".to_owned()],
            events: events.iter().map(event).collect(),
            lost: 0,
        }
    }

    #[test]
    fn ends_find_each_other() {
        let one = trace(
            0,
            &[
                (100, What::Call, 0, 0, 0),
                (110, What::Sent, 0, 1, 1),
                (150, What::Return, 0, 0, 0),
                (160, What::Sent, 1, 1, 2),
            ],
        );
        let two = trace(
            1,
            &[
                (90, What::Return, 0, 0, 0),
                (130, What::Call, 1, 0, 0),
                (140, What::Call, 0, 0, 0),
                (170, What::Came, 0, 0, 1),
            ],
        );
        let timeline = Timeline::of(&[one, two]);
        assert_eq!(timeline.names, ["MPI_Allreduce", "MPI_Send"]);
        let calls: Vec<_> = timeline
            .calls
            .iter()
            .map(|call| {
                (
                    call.row,
                    call.name,
                    call.begin_ns,
                    call.duration_ns,
                    call.is_whole,
                    call.depth,
                )
            })
            .collect();
        // Time begins at 90; the calls of the second rank were never seen to end.
        assert_eq!(
            calls,
            [
                (0, 1, 10, 50, true, 0),
                (1, 0, 40, 40, false, 0),
                (1, 1, 50, 30, false, 1)
            ]
        );
        assert_eq!(timeline.messages.len(), 1);
        let message = &timeline.messages[0];
        assert_eq!((message.from, message.to), (0, 1));
        assert_eq!((message.sent_ns, message.came_ns), (20, 80));
        assert_eq!((timeline.rows[0].loose, timeline.rows[1].loose), (1, 0));
    }

    #[test]
    fn a_heal_has_its_parts() {
        let event = |what, at_ns, name, seq, bytes| Event {
            at_ns,
            what,
            thread: 0,
            name,
            tag: 2,
            peer: 1,
            seq,
            bytes,
        };
        let names = [
            "a queue pair was in error",
            "detect",
            "fence",
            "reconnect",
            "replay",
        ];
        let mut trace = trace(0, &[(50, What::Call, 0, 0, 0)]);
        trace.names = names.map(str::to_owned).to_vec();
        trace.events.extend([
            event(What::Heal, 100, 0, 7, 4096),
            event(What::Part, 100, 1, 7, 0),
            event(What::Part, 100, 2, 7, 30),
            event(What::Part, 130, 3, 7, 500),
            event(What::Part, 630, 4, 7, 20),
            // Its heal was written over.
            event(What::Part, 90, 4, 6, 9),
        ]);
        let timeline = Timeline::of(&[trace]);
        let [heal] = &timeline.heals[..] else {
            panic!("{:?}", timeline.heals);
        };
        assert_eq!((heal.row, heal.peer, heal.begin_ns), (0, 1, 50));
        assert_eq!((heal.bytes, heal.tries), (4096, 2));
        assert_eq!(heal.parts_ns, [0, 30, 500, 20]);
        assert_eq!(heal.duration_ns(), 550);
        assert_eq!(timeline.names[heal.cause], "a queue pair was in error");
        assert_eq!(timeline.messages.len(), 0);
    }
}
