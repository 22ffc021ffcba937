//! The command line of `ferriband fault`, as far as it is about more than packets.

use super::parse_qpn;
use clap::Args;
use std::time::Duration;

/// Which queue pairs fail.
#[derive(Args, Clone)]
#[group(required = true, multiple = false)]
pub struct QpErrorArgs {
    /// The queue pair of this number.
    #[arg(long, value_parser = parse_qpn)]
    pub qpn: Option<u32>,
    /// All of this device.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// All of this user in this network namespace.
    #[arg(long)]
    pub all: bool,
}

/// Longest time: a day.
const MOST_SPAN: Duration = Duration::from_secs(24 * 3600);

/// A time such as 500ms, 2s or 1m.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time has a unit: 500ms, 2s, 1m".into()),
    };
    let number: f64 = number.parse().map_err(|_| "no number".to_owned())?;
    match Duration::try_from_secs_f64(number * unit_s) {
        Ok(span) if !span.is_zero() && span <= MOST_SPAN => Ok(span),
        _ => Err("more than nothing, and a day at the most".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_bound() {
        assert_eq!(parse_span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_span("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_span("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_span("24h"), Ok(MOST_SPAN));
        for wrong in [
            "2", "", "s", "-1s", "0s", "25h", "1d", "nans", "infs", "2 s",
        ] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }
}
