//! The picture: one HTML file that needs nothing else.

use super::quantiles::Quantiles;
use super::timeline::Timeline;
use ferriband_mpi_proto::heals::Parts;
use std::io::{self, Write};

/// The page, with a place for the data.
const PAGE: &str = include_str!("page.html");
/// That place.
const PLACE: &str = "/*DATA*/";
/// Calls, and messages, that a browser can be asked to draw; the JSON has them all.
const MOST: usize = 200_000;

/// Writes it.
pub fn write(timeline: &Timeline, quantiles: &Quantiles, out: &mut impl Write) -> io::Result<()> {
    let (before, after) = PAGE.split_once(PLACE).expect("the page has the place");
    out.write_all(before.as_bytes())?;
    let rows: Vec<_> = timeline
        .rows
        .iter()
        .map(|row| serde_json::json!({"label": row.label, "pid": row.pid, "host": row.host}))
        .collect();
    write!(out, "{{\"rows\":{}", safe(&rows)?)?;
    write!(out, ",\"names\":{}", safe(&timeline.names)?)?;
    let left_out = (
        timeline.calls.len().saturating_sub(MOST),
        timeline.messages.len().saturating_sub(MOST),
    );
    write!(out, ",\"leftOut\":[{},{}]", left_out.0, left_out.1)?;
    out.write_all(b",\"calls\":[")?;
    for (at, call) in timeline.calls.iter().take(MOST).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(
            out,
            "{comma}[{},{},{},{},{},{}]",
            call.row,
            call.name,
            call.begin_ns,
            call.duration_ns,
            call.depth,
            u8::from(call.is_whole)
        )?;
    }
    out.write_all(b"],\"messages\":[")?;
    for (at, message) in timeline.messages.iter().take(MOST).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(
            out,
            "{comma}[{},{},{},{},{},{},{}]",
            message.from,
            message.sent_ns,
            message.to,
            message.came_ns,
            message.bytes,
            message.tag,
            message.kind
        )?;
    }
    out.write_all(b"],\"heals\":[")?;
    for (at, heal) in timeline.heals.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let [detect, fence, reconnect, replay] = heal.parts_ns;
        write!(
            out,
            "{comma}[{},{},{},{},[{detect},{fence},{reconnect},{replay}],{},{}]",
            heal.row, heal.peer, heal.cause, heal.begin_ns, heal.bytes, heal.tries
        )?;
    }
    write!(
        out,
        "],\"parts\":{},\"report\":{}}}",
        safe(&Parts::NAMES)?,
        safe(&quantiles.report(timeline))?
    )?;
    out.write_all(after.as_bytes())
}

/// JSON within a script: no text in it can end the script.
fn safe(value: &impl serde::Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_the_script() {
        let timeline = Timeline {
            names: vec!["</script><b>".to_owned()],
            ..Timeline::default()
        };
        let mut page = Vec::new();
        write(&timeline, &Quantiles::of(&timeline), &mut page).expect("memory");
        let page = String::from_utf8(page).expect("text");
        assert_eq!(page.matches("</script>").count(), 1, "the page's own");
        assert!(page.contains("\\u003c/script>") && !page.contains(PLACE));
    }
}
