//! What a process of an upper protocol writes down of its calls and messages while it is traced.
//!
//! Owns: the form of the file ([`Header`], [`Event`], [`Trace`]), and the writer ([`Tape`]). Must
//! not know: which protocol writes, and how a timeline is drawn (`ferriband trace`).

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod form;
mod tape;

pub use form::{EVENT, EVENTS, Event, Header, MOST_EVENTS, Trace, What};
pub use tape::{Tape, Unwritable, Whose, now_ns};
