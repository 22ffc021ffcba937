//! What management MADs carry: attributes of subnet management, and records of subnet administration, as values. Layouts
//! only; what a manager does with them is not known here.

mod class_port;
mod congestion;
mod counters;
mod group;
mod node;
mod notice;
mod path;
mod port;
mod service;
mod switch;
mod tables;

pub use class_port::*;
pub use congestion::*;
pub use counters::*;
pub use group::*;
pub use node::*;
pub use notice::*;
pub use path::*;
pub use port::*;
pub use service::*;
pub use switch::*;
pub use tables::*;

use crate::error::EmitError;
use crate::header::{bits, fits, place};
use crate::types::Sl;

/// How a question means a value of MTU, rate or packet lifetime (IBA 15.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Selector {
    /// Greater than the value.
    #[default]
    GreaterThan = 0,
    /// Less than the value.
    LessThan = 1,
    /// The value exactly: what answers say.
    Exactly = 2,
    /// The best there is: largest MTU and rate, smallest lifetime.
    Best = 3,
}

/// A selector, 2 bits, and a value, 6 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Selected {
    /// How the value is meant.
    pub selector: Selector,
    /// The value as the IBA's code, 6 bits.
    pub value: u8,
}

impl Selected {
    /// Exactly `value`.
    pub const fn exactly(value: u8) -> Self {
        Selected {
            selector: Selector::Exactly,
            value,
        }
    }

    const fn from_wire(byte: u8) -> Self {
        Selected {
            selector: match bits(byte, 6, 2) {
                0 => Selector::GreaterThan,
                1 => Selector::LessThan,
                2 => Selector::Exactly,
                _ => Selector::Best,
            },
            value: bits(byte, 0, 6),
        }
    }

    fn to_wire(self, field: &'static str) -> Result<u8, EmitError> {
        Ok((self.selector as u8) << 6 | place(field, self.value, 0, 6)?)
    }
}

/// A field of `width` bits of a word, fewer than 32, whose lowest bit is bit `shift`.
const fn word_bits(word: u32, shift: u32, width: u32) -> u32 {
    word >> shift & ((1 << width) - 1)
}

/// The inverse of `word_bits`.
const fn place_word(
    field: &'static str,
    value: u32,
    shift: u32,
    width: u32,
) -> Result<u32, EmitError> {
    match fits(field, value, width) {
        Ok(value) => Ok(value << shift),
        Err(error) => Err(error),
    }
}

/// TClass:8 SL:4 FlowLabel:20, as ClassPortInfo has it twice.
fn tc_sl_fl(traffic_class: u8, sl: Sl, flow_label: u32) -> Result<u32, EmitError> {
    Ok(u32::from(traffic_class) << 24
        | place_word("SL", sl.0.into(), 20, 4)?
        | place_word("FlowLabel", flow_label, 0, 20)?)
}
