//! The timeline in the trace event format that Chrome and Perfetto read: a process for each one, a
//! complete event for each call, a flow for each message, a line for the heals of a connection.

use super::timeline::{Heal, Timeline};
use ferriband_mpi_proto::heals::Parts;
use std::io::{self, Write};

/// Numbers of lines from here on are of heals: of threads there are fewer.
const HEALS: u64 = 1000;

/// Writes it. Times are in microseconds, with three decimals.
pub fn write(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut is_first = true;
    let mut begin = |out: &mut dyn Write| -> io::Result<()> {
        let before: &[u8] = if is_first { b"\n" } else { b",\n" };
        is_first = false;
        out.write_all(before)
    };
    for (row, one) in timeline.rows.iter().enumerate() {
        begin(out)?;
        let name = text(&format!(
            "{} (process {} on {})",
            one.label, one.pid, one.host
        ));
        write!(
            out,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{row},\"tid\":0,\"args\":{{\"name\":{name}}}}}"
        )?;
        begin(out)?;
        write!(
            out,
            "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{row},\"tid\":0,\"args\":{{\"sort_index\":{}}}}}",
            row
        )?;
    }
    for call in &timeline.calls {
        begin(out)?;
        let name = text(&timeline.names[call.name]);
        write!(
            out,
            "{{\"ph\":\"X\",\"cat\":\"call\",\"name\":{name},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}",
            call.row,
            call.thread,
            Us(call.begin_ns),
            Us(call.duration_ns)
        )?;
        out.write_all(if call.is_whole {
            b"}"
        } else {
            b",\"args\":{\"end\":\"not seen\"}}"
        })?;
    }
    for (number, message) in timeline.messages.iter().enumerate() {
        let kind = text(
            timeline
                .names
                .get(message.kind)
                .map_or("message", |kind| kind),
        );
        let args = format!(
            "\"args\":{{\"bytes\":{},\"tag\":{}}}",
            message.bytes, message.tag
        );
        begin(out)?;
        write!(
            out,
            "{{\"ph\":\"s\",\"cat\":{kind},\"name\":{kind},\"id\":{number},\"pid\":{},\"tid\":{},\"ts\":{},{args}}}",
            message.from,
            message.from_thread,
            Us(message.sent_ns)
        )?;
        begin(out)?;
        write!(
            out,
            "{{\"ph\":\"f\",\"bp\":\"e\",\"cat\":{kind},\"name\":{kind},\"id\":{number},\"pid\":{},\"tid\":{},\"ts\":{},{args}}}",
            message.to,
            message.to_thread,
            Us(message.came_ns)
        )?;
    }
    for (number, heal) in timeline.heals.iter().enumerate() {
        write_heal(timeline, number, heal, &mut |out| begin(out), out)?;
    }
    out.write_all(b"\n]}\n")
}

/// A heal and its parts, on a line of their own for each peer: what else the process does goes on.
fn write_heal(
    timeline: &Timeline,
    number: usize,
    heal: &Heal,
    begin: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    out: &mut impl Write,
) -> io::Result<()> {
    let line = HEALS + u64::from(heal.peer);
    let place = format!("\"pid\":{},\"tid\":{line}", heal.row);
    begin(out)?;
    write!(
        out,
        "{{\"ph\":\"M\",\"name\":\"thread_name\",{place},\"args\":{{\"name\":\"heals of the connection to {}\"}}}}",
        heal.peer
    )?;
    begin(out)?;
    let cause = timeline.names.get(heal.cause).map_or("", |name| name);
    let cause = serde_json::to_string(cause).unwrap_or_default();
    write!(
        out,
        "{{\"ph\":\"X\",\"cat\":\"heal\",\"name\":\"heal\",{place},\"ts\":{},\"dur\":{},\"args\":{{\"number\":{number},\"peer\":{},\"cause\":{cause},\"bytes\":{},\"tries\":{}}}}}",
        Us(heal.begin_ns),
        Us(heal.duration_ns()),
        heal.peer,
        heal.bytes,
        heal.tries
    )?;
    let mut at_ns = heal.begin_ns;
    for (name, ns) in Parts::NAMES.iter().zip(heal.parts_ns) {
        begin(out)?;
        write!(
            out,
            "{{\"ph\":\"X\",\"cat\":\"heal\",\"name\":\"{name}\",{place},\"ts\":{},\"dur\":{}}}",
            Us(at_ns),
            Us(ns)
        )?;
        at_ns += ns;
    }
    Ok(())
}

/// Nanoseconds as microseconds.
struct Us(u64);

impl std::fmt::Display for Us {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
