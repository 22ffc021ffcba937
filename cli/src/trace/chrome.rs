//! The timeline in the trace event format that Chrome and Perfetto read: a process for each one, a
//! complete event for each call, a flow for each message.

use super::timeline::Timeline;
use std::io::{self, Write};

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
    out.write_all(b"\n]}\n")
}

/// Nanoseconds as microseconds.
struct Us(u64);

impl std::fmt::Display for Us {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
