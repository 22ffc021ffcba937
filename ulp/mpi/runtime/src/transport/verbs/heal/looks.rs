//! What looks at connections have found, and when the next is due.
//!
//! Owns: since when a peer has let something wait, as far as looks have shown. Must not know: what
//! a look finds, which is [`super::probing`]'s.

use ferriband_heal::{Ns, Probes, State};

/// A look follows the one before after so long.
const LOOK_NS: u64 = 50_000_000;

/// What looks at a connection have found.
#[derive(Default)]
pub struct Watched {
    /// Its probes.
    pub(in super::super) probes: Probes,
    /// What had been done when it was last looked at.
    pub(super) done: Done,
    /// Since when no more has been done.
    pub(super) since: Ns,
    /// The state of its session then, and since when it is in it.
    pub(super) state: Option<(State, Ns)>,
    /// When the peer was first asked for the life that there is not yet.
    pub(super) asked: Option<Ns>,
}

impl Watched {
    /// Of a connection whose peer is probed where it has not answered for so long.
    pub fn after(detect: Ns) -> Self {
        Self {
            probes: Probes::after(detect),
            ..Self::default()
        }
    }
}

/// How far a connection has come.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) completed: (u32, u32),
    pub(super) acknowledged: u32,
    pub(super) landed: u32,
    pub(super) moving: u32,
}

/// When connections are looked at.
#[derive(Default)]
pub struct Looks {
    /// No look before.
    not_before: Ns,
    /// When the last one has found the next to be due; none: nothing waited.
    due: Option<Ns>,
    /// Nothing was posted since, as far as is known.
    is_fresh: bool,
}

impl Looks {
    /// A look at `now` has found the next to be due then, if anything waits.
    pub(super) fn of(now: Ns, due: Option<Ns>) -> Self {
        Self {
            not_before: now.after(LOOK_NS),
            due,
            is_fresh: true,
        }
    }

    /// Before a sleep: nanoseconds until the next look, if one is needed.
    pub(in super::super) fn due_ns(&mut self, now: Ns) -> Option<u64> {
        // What was posted since the last look is seen by the next.
        let more = (!std::mem::take(&mut self.is_fresh)).then_some(self.not_before);
        let next = more.into_iter().chain(self.due).min();
        next.map(|at| at.since(now))
    }

    /// Whether a look is due.
    pub(super) fn is_due(&self, now: Ns) -> bool {
        now >= self.not_before || self.due.is_some_and(|at| now >= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_apart_and_none_is_due_where_nothing_waits() {
        let mut looks = Looks::default();
        assert!(looks.is_due(Ns(0)));
        let ms = |ms: u64| Ns(ms * 1_000_000);
        looks = Looks::of(ms(1000), None);
        assert_eq!(looks.due_ns(ms(1001)), None, "nothing waits");
        assert!(!looks.is_due(ms(1049)) && looks.is_due(ms(1050)));
        let soon = looks.due_ns(ms(1020));
        assert_eq!(soon, Some(30_000_000), "something may have been posted");
        looks = Looks::of(ms(2000), Some(ms(2020)));
        assert_eq!(looks.due_ns(ms(2010)), Some(10_000_000));
        assert!(looks.is_due(ms(2020)), "a round of probes is faster");
        looks = Looks::of(ms(3000), Some(ms(11_000)));
        assert_eq!(looks.due_ns(ms(3000)), Some(8_000_000_000));
        assert!(looks.is_due(ms(3050)), "others may wait meanwhile");
    }
}
