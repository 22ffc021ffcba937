//! How a sender's own socket is looked at: for runs, or for datagrams that come one by one.
//!
//! Owns: when the one, when the other, and that nothing is taken for one datagram that came as a
//! run. A look for single datagrams asks the kernel for their bytes alone, and costs less for it;
//! but it does not say how a run is to be cut, so there must be none, and it does not say the
//! traffic class, so every few datagrams a look asks for that, too. Must not know: what packets
//! mean.

/// Single datagrams that make it worth to look for nothing else, and how many fewer they are with
/// each run.
const WORTH: u32 = 256;
const RUN: u32 = 4;
/// Looks in vain, after the kernel was told to put nothing together, until what it was about to put
/// there is there.
const CALM: u32 = 4;
/// One of so many single datagrams is received with its traffic class.
const TOLD_EVERY: u32 = 16;
/// What a datagram right behind another counts, against one that comes alone; and the sum at which
/// runs are expected.
const BEHIND: u32 = 2;
const RUNS: u32 = 16;

/// The way that a socket is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::wire) enum Way {
    /// For runs: so much speaks for single datagrams.
    Runs(u32),
    /// Not at all: the kernel puts nothing together any more, and it is awaited that nothing of
    /// before comes. So many looks found nothing.
    Calming(u32),
    /// For single datagrams.
    Alone {
        /// Datagrams since one came with its traffic class.
        untold: u32,
        /// The last look found one.
        found: bool,
        /// How much speaks for runs.
        behind: u32,
    },
}

/// What is to be done at a socket next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::wire) enum Look {
    /// Receive runs.
    Runs,
    /// See whether it is empty.
    Empty,
    /// Receive a datagram's bytes.
    Plain,
    /// Receive a datagram with its traffic class.
    Told,
}

/// What a look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::wire) enum Found {
    /// Nothing.
    Nothing,
    /// One datagram, or two that did not come together.
    One,
    /// More, or a run.
    More,
}

/// What the kernel is to be told now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::wire) enum Tell {
    /// Nothing.
    Nothing,
    /// To put datagrams together, or not.
    Gather(bool),
}

impl Default for Way {
    fn default() -> Self {
        Way::Runs(0)
    }
}

impl Way {
    /// How to look.
    #[inline]
    pub fn look(&self) -> Look {
        match self {
            Way::Runs(_) => Look::Runs,
            Way::Calming(_) => Look::Empty,
            Way::Alone { untold, .. } if *untold >= TOLD_EVERY => Look::Told,
            Way::Alone { .. } => Look::Plain,
        }
    }

    /// The look found this. `special` says that more is to be known of what came than its bytes: it
    /// met congestion, or it is a datagram queue pair's, whose programs see the network header.
    #[inline]
    pub fn after(&mut self, look: Look, what: Found, special: bool) -> Tell {
        match self {
            _ if special => self.runs(),
            Way::Runs(single) => {
                *single = match what {
                    Found::Nothing => *single,
                    Found::One => single.saturating_add(1).min(WORTH),
                    Found::More => single.saturating_sub(RUN),
                };
                if what != Found::Nothing || *single < WORTH {
                    return Tell::Nothing;
                }
                *self = Way::Calming(0);
                Tell::Gather(false)
            }
            Way::Calming(looks) => {
                if what != Found::Nothing {
                    return self.runs();
                }
                *looks += 1;
                if *looks == CALM {
                    *self = Way::Alone {
                        untold: TOLD_EVERY,
                        found: false,
                        behind: 0,
                    };
                }
                Tell::Nothing
            }
            Way::Alone {
                untold,
                found,
                behind,
            } => {
                if what == Found::Nothing {
                    *found = false;
                    return Tell::Nothing;
                }
                *untold = if look == Look::Told { 0 } else { *untold + 1 };
                *behind = match std::mem::replace(found, true) {
                    true => *behind + BEHIND,
                    false => behind.saturating_sub(1),
                };
                if *behind < RUNS {
                    return Tell::Nothing;
                }
                self.runs()
            }
        }
    }

    /// Somebody is about to receive whatever lies there, runs or not.
    pub fn before_drain(&mut self) -> Tell {
        match self {
            Way::Calming(_) => self.runs(),
            Way::Runs(_) | Way::Alone { .. } => Tell::Nothing,
        }
    }

    /// Runs are looked for from now on, as before.
    #[cold]
    fn runs(&mut self) -> Tell {
        let told = !matches!(self, Way::Runs(_));
        *self = Way::Runs(0);
        if told {
            Tell::Gather(true)
        } else {
            Tell::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until the way is another kind of way, and says how many looks that took and what the
    /// kernel was told; None if it never is.
    fn until(way: &mut Way, mut found: impl FnMut(u32) -> Found) -> Option<(u32, Vec<Tell>)> {
        let kind = std::mem::discriminant(way);
        let mut told = Vec::new();
        for look in 0..10_000 {
            let tell = way.after(way.look(), found(look), false);
            told.extend(Some(tell).filter(|tell| *tell != Tell::Nothing));
            if std::mem::discriminant(way) != kind {
                return Some((look + 1, told));
            }
        }
        None
    }

    /// One message each second look.
    fn ping_pong(look: u32) -> Found {
        [Found::One, Found::Nothing][look as usize % 2]
    }

    fn alone() -> Way {
        let mut way = Way::default();
        until(&mut way, ping_pong).unwrap();
        until(&mut way, |_| Found::Nothing).unwrap();
        assert_eq!(way.look(), Look::Told);
        way
    }

    #[test]
    fn single_datagrams_are_looked_for_once_the_kernel_puts_none_together() {
        let mut way = Way::default();
        // the kernel is told between two messages, and not while one may lie there
        let (looks, told) = until(&mut way, ping_pong).unwrap();
        assert_eq!((looks, told), (2 * WORTH, vec![Tell::Gather(false)]));
        assert_eq!(way.look(), Look::Empty);
        let (looks, told) = until(&mut way, |_| Found::Nothing).unwrap();
        assert_eq!((looks, told), (CALM, vec![]));
        // the first comes with its traffic class, and one of a few after it
        let mut plain = 0;
        for turn in 0..1000 {
            plain += u32::from(way.look() == Look::Plain);
            assert_eq!(
                way.after(way.look(), Found::One, false),
                Tell::Nothing,
                "{turn}"
            );
            assert_eq!(way.after(way.look(), Found::Nothing, false), Tell::Nothing);
        }
        assert!(
            plain > 1000 - 1000 / TOLD_EVERY - 2 && plain < 1000,
            "{plain}"
        );
    }

    #[test]
    fn what_came_before_the_kernel_was_told_is_received_as_a_run() {
        let mut way = Way::default();
        until(&mut way, ping_pong).unwrap();
        way.after(way.look(), Found::Nothing, false);
        let tell = way.after(Look::Empty, Found::More, false);
        assert_eq!((way, tell), (Way::Runs(0), Tell::Gather(true)));
        // and so it is when somebody takes all that lies there
        until(&mut way, ping_pong).unwrap();
        assert_eq!(way.before_drain(), Tell::Gather(true));
        assert_eq!(way, Way::Runs(0));
        assert_eq!(way.before_drain(), Tell::Nothing);
        let mut way = alone();
        assert_eq!((way.before_drain(), way), (Tell::Nothing, alone()));
    }

    #[test]
    fn runs_and_datagrams_right_behind_others_end_it() {
        // one message of eight has an acknowledgement behind it: that is no stream
        let seldom = |look: u32| match look % 16 {
            0 => Found::More,
            even if even % 2 == 0 => Found::One,
            _ => Found::Nothing,
        };
        assert!(until(&mut Way::default(), seldom).is_some());
        let apart = |look: u32| match look % 16 {
            1 | 5 => Found::One,
            2 | 6 => Found::Nothing,
            even if even % 2 == 0 => Found::One,
            _ => Found::Nothing,
        };
        assert_eq!(until(&mut alone(), apart), None);
        // messages of two packets, and a stream
        let pairs = |look: u32| [Found::One, Found::One, Found::Nothing][look as usize % 3];
        let (looks, told) = until(&mut alone(), pairs).unwrap();
        assert!(looks < 60, "{looks}");
        assert_eq!(told, [Tell::Gather(true)]);
        assert!(until(&mut alone(), |_| Found::One).unwrap().0 < 12);
        let runs = |look: u32| [Found::More, Found::Nothing][look as usize % 2];
        assert_eq!(until(&mut Way::default(), runs), None);
    }

    #[test]
    fn congestion_and_datagram_queue_pairs_end_it() {
        let mut way = alone();
        assert_eq!(way.after(Look::Told, Found::One, true), Tell::Gather(true));
        assert_eq!(way, Way::default());
        assert_eq!(way.after(Look::Runs, Found::One, true), Tell::Nothing);
    }
}
