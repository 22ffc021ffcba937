//! Counting events and what waits for their thresholds.
//!
//! Owns: a counter's two numbers, its triggered operations in the order of thresholds, and what it
//! said when a test of a waiting call was reached. Must not know: what an operation does, who
//! sleeps. Data comes from events that are counted and from the program.

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
    /// What thresholds are compared with.
    pub const fn sum(self) -> u64 {
        self.success.wrapping_add(self.failure)
    }

    /// Whether a threshold is reached.
    pub const fn reaches(self, threshold: u64) -> bool {
        self.sum() >= threshold
    }

    /// Whether a call that waits for a test returns: at any failure, too, as in the reference
    /// (test/sfw, test_basic_ct-030).
    pub const fn passes(self, test: u64) -> bool {
        self.success >= test || self.failure > 0
    }

    /// Whether it may be added: one of the numbers at most is not zero.
    pub const fn is_increment(self) -> bool {
        self.success == 0 || self.failure == 0
    }

    fn add(&mut self, by: CtEvent) {
        self.success = self.success.wrapping_add(by.success);
        self.failure = self.failure.wrapping_add(by.failure);
    }
}

/// A test of a call that waits, PtlCTWait or PtlCTPoll. What the counter says at the first change
/// that reaches it is kept until the call looks, however many changes follow.
#[derive(Debug)]
struct Watch {
    number: u64,
    test: u64,
    reached: Option<CtEvent>,
}

/// A counter with the triggered operations and the calls that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    value: CtEvent,
    /// By threshold, then in the order in which they were issued.
    waiting: BTreeMap<(u64, u64), Triggered>,
    watches: Vec<Watch>,
}

impl Counter {
    pub fn value(&self) -> CtEvent {
        self.value
    }

    /// Watches a test that is not reached yet. `number` tells it from others of this counter.
    pub fn watch(&mut self, number: u64, test: u64) {
        self.watches.push(Watch {
            number,
            test,
            reached: None,
        });
    }

    /// What the counter said when a watched test was reached.
    pub fn watched(&self, number: u64) -> Option<CtEvent> {
        let watch = self.watches.iter().find(|watch| watch.number == number);
        watch.and_then(|watch| watch.reached)
    }

    /// Nobody waits for a test any more.
    pub fn unwatch(&mut self, number: u64) {
        self.watches.retain(|watch| watch.number != number);
    }

    /// Adds, and hands over what has reached its threshold, in order.
    pub fn add(&mut self, by: CtEvent, fired: &mut impl Extend<Triggered>) {
        self.value.add(by);
        self.changed(fired);
    }

    /// Sets, and hands over what has reached its threshold, in order.
    pub fn set(&mut self, to: CtEvent, fired: &mut impl Extend<Triggered>) {
        self.value = to;
        self.changed(fired);
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

    fn changed(&mut self, fired: &mut impl Extend<Triggered>) {
        let value = self.value;
        for watch in &mut self.watches {
            if watch.reached.is_none() && value.passes(watch.test) {
                watch.reached = Some(value);
            }
        }
        self.fire(fired);
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
