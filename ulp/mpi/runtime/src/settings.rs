//! What the environment sets: `FERRIBAND_MPI_<NAME>`, read once.

use crate::constants::MPI_ERR_OTHER;
use crate::errors::{MpiError, Outcome};
use ferriband_mpi_proto::fast::Shape;
use std::env;

/// What was set, or is so by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// `same_host=verbs`: ranks of one host go by the device, too, instead of by memory that they share.
    pub verbs_everywhere: bool,
    /// `device`: this one.
    pub device: Option<String>,
    /// `eager`: longest message that is sent unasked, in bytes.
    pub eager: usize,
    /// `rndv=put`: long messages are written by their sender instead of read by their receiver.
    pub puts: bool,
    /// `rndv_piece`: bytes of a READ or WRITE of a long message.
    pub piece: usize,
    /// The fast path by verbs.
    pub fast: Fast,
    /// `stats`: a summary at the end.
    pub stats: bool,
}

/// How the RDMA fast path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fast {
    /// `block`: bytes of a block.
    pub shape: Shape,
    /// `fast_channels`: blocks of this process that peers may have; 0: none is asked for, and none given.
    pub channels: u32,
    /// `open_after`: messages to a peer before a block is asked for.
    pub open_after: u32,
}

impl Chosen {
    /// What the environment says; a value that means nothing is an error that lists those that do.
    pub fn from_env() -> Outcome<Self> {
        Self::from(|name| env::var(format!("FERRIBAND_MPI_{name}")).ok())
    }

    fn from(value: impl Fn(&str) -> Option<String>) -> Outcome<Self> {
        let longest = Shape::DEFAULT.longest() as usize;
        Ok(Self {
            verbs_everywhere: one_of("SAME_HOST", &value, &["mapped", "verbs"])? == 1,
            device: value("DEVICE").filter(|name| !name.is_empty()),
            eager: number("EAGER", &value, longest, 0..=longest)?,
            puts: one_of("RNDV", &value, &["get", "put"])? == 1,
            piece: number("RNDV_PIECE", &value, 1 << 20, 4096..=1 << 30)?,
            fast: Fast {
                shape: block(&value)?,
                channels: number("FAST_CHANNELS", &value, 64, 0..=512)? as u32,
                open_after: number("OPEN_AFTER", &value, 16, 1..=1 << 30)? as u32,
            },
            stats: one_of("STATS", &value, &["0", "1"])? == 1,
        })
    }
}

/// Which of `choices` it is; the first if nothing is set.
fn one_of(name: &str, value: &impl Fn(&str) -> Option<String>, choices: &[&str]) -> Outcome<usize> {
    let Some(value) = value(name) else {
        return Ok(0);
    };
    choices
        .iter()
        .position(|choice| *choice == value)
        .ok_or_else(|| wrong(name, &value, &choices.join(" or ")))
}

/// A block's size: a power of two.
fn block(value: &impl Fn(&str) -> Option<String>) -> Outcome<Shape> {
    let default = Shape::DEFAULT;
    let size = number("BLOCK", value, default.size() as usize, 4096..=1 << 20)?;
    Shape::new(size as u32, default.granule()).ok_or_else(|| {
        let good = "a power of two from 4096 to 1048576";
        wrong("BLOCK", &size.to_string(), good)
    })
}

fn number(
    name: &str,
    value: &impl Fn(&str) -> Option<String>,
    default: usize,
    range: std::ops::RangeInclusive<usize>,
) -> Outcome<usize> {
    let Some(value) = value(name) else {
        return Ok(default);
    };
    value
        .parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let good = format!("a number from {} to {}", range.start(), range.end());
            wrong(name, &value, &good)
        })
}

#[cold]
fn wrong(name: &str, value: &str, good: &str) -> MpiError {
    MpiError::with(
        MPI_ERR_OTHER,
        format!("FERRIBAND_MPI_{name}={value}: it can be {good}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_and_nonsense_is_named() {
        let nothing = Chosen::from(|_| None).expect("defaults");
        assert!(!nothing.verbs_everywhere && !nothing.puts);
        assert_eq!((nothing.eager, nothing.piece), (8128, 1 << 20));
        let set = |name: &'static str, value: &'static str| {
            Chosen::from(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(set("SAME_HOST", "verbs").is_ok_and(|chosen| chosen.verbs_everywhere));
        assert!(set("EAGER", "0").is_ok_and(|chosen| chosen.eager == 0));
        let error = set("SAME_HOST", "shm").expect_err("no such way");
        assert_eq!(
            error.text,
            "FERRIBAND_MPI_SAME_HOST=shm: it can be mapped or verbs"
        );
        for (name, value) in [
            ("EAGER", "8129"),
            ("EAGER", "-1"),
            ("RNDV", ""),
            ("RNDV_PIECE", "1"),
            ("RNDV_PIECE", "x"),
        ] {
            assert!(set(name, value).is_err(), "{name}={value}");
        }
    }
}
