//! Counting events and what waits for their thresholds.
//!
//! Owns: a counter's two numbers, and its triggered operations in the order of thresholds. Must not
//! know: what an operation does. Data comes from events that are counted and from the program.

use crate::trigger::Triggered;
use std::collections::BTreeMap;

/// The value of a counting event (ptl_ct_event_t). Arithmetic is modulo 2^64, as it is for a
/// program that adds to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CtEvent {
    /// Successful events, or their bytes.
    pub success: u64,
    /// Failed events, each one.
    pub failure: u64,
}

impl CtEvent {
    /// What thresholds and tests are compared with.
    pub const fn sum(self) -> u64 {
        self.success.wrapping_add(self.failure)
    }

    /// Whether a test or threshold is reached.
    pub const fn reaches(self, test: u64) -> bool {
        self.sum() >= test
    }

    fn add(&mut self, by: CtEvent) {
        self.success = self.success.wrapping_add(by.success);
        self.failure = self.failure.wrapping_add(by.failure);
    }
}

/// A counter with the triggered operations that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    value: CtEvent,
    /// By threshold, then in the order in which they were issued.
    waiting: BTreeMap<(u64, u64), Triggered>,
}

impl Counter {
    pub fn value(&self) -> CtEvent {
        self.value
    }

    /// Adds, and hands over what has reached its threshold, in order.
    pub fn add(&mut self, by: CtEvent, fired: &mut impl Extend<Triggered>) {
        self.value.add(by);
        self.fire(fired);
    }

    /// Sets, and hands over what has reached its threshold, in order.
    pub fn set(&mut self, to: CtEvent, fired: &mut impl Extend<Triggered>) {
        self.value = to;
        self.fire(fired);
    }

    /// An operation waits, unless its threshold is reached already: then it is handed over.
    /// `number` is that of its issue.
    pub fn wait(
        &mut self,
        threshold: u64,
        number: u64,
        triggered: Triggered,
        fired: &mut impl Extend<Triggered>,
    ) {
        self.waiting.insert((threshold, number), triggered);
        self.fire(fired);
    }

    /// Takes all that waits.
    pub fn cancel(&mut self) -> impl Iterator<Item = Triggered> {
        std::mem::take(&mut self.waiting).into_values()
    }

    fn fire(&mut self, fired: &mut impl Extend<Triggered>) {
        while let Some(first) = self
            .waiting
            .first_entry()
            .filter(|first| self.value.reaches(first.key().0))
        {
            fired.extend([first.remove()]);
        }
    }
}
