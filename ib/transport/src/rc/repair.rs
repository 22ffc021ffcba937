//! Loss repair: what a requester knows of losses, and what is to be sent again because of it.
//!
//! Three questions, each with states of its own, for they are independent: is anybody there
//! ([`Doubt`]), was this gap answered before ([`Echo`]), and how is a gap mended ([`Mend`]). Events
//! come in as methods, at most one answer each comes out ([`OnSilence`], [`OnGap`]), and
//! [`Repair::next`] names the next packet to send again.
//!
//! Owns what is known of losses. Must not know the send queue, packets, window sizes, nor timers:
//! the requester tells what is outstanding ([`Flight`]) and does what is decided here.

use super::gaps::Repairs;
use crate::types::Instant;
use ferriband_wire::{GapReport, Psn};

/// Packets in a row that a peer lacks, each told after the one before was sent again, until all is
/// sent again.
const NEIGHBOURS: u32 = 3;
/// Silences that pass, at the most, without a question about messages whose acknowledgement was not
/// asked for, while the peer is heard otherwise.
const PUT_OFF: u32 = 8;

/// What is outstanding at an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Oldest PSN that is not acknowledged.
    pub una: Psn,
    /// PSNs from there on that were sent in this pass: going back makes it 0.
    pub sent: u32,
    pub now: Instant,
    /// Within this time after a packet was sent again, its acknowledgement may still be under way.
    pub lately_ns: u64,
}

impl Flight {
    /// How far `psn` lies beyond the oldest unacknowledged one, 0 .. 2^24.
    fn ahead(&self, psn: Psn) -> u32 {
        psn.sub(self.una.get()).get()
    }

    /// `psn` was sent in this pass and is not acknowledged.
    pub fn contains(&self, psn: Psn) -> bool {
        self.ahead(psn) < self.sent
    }
}

/// A packet to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Again {
    /// The oldest one, which fills a gap.
    Oldest,
    /// This one, which fills a gap beyond the first.
    Packet(Psn),
    /// The oldest one, as a question whether anybody is there.
    Question,
}

/// What to do when nothing was heard for some round trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnSilence {
    /// What is outstanding is lost.
    GoBack,
    /// It is no silence until then.
    PutOff(Instant),
    /// A question is to be sent; [`Repair::next`] has it.
    Ask,
}

/// What to do about a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnGap {
    /// It is known, and its repair under way.
    Ignore,
    /// Everything from the oldest packet on goes again (IBA 9.7.5.1.1).
    GoBack,
    /// The oldest packet alone goes again; [`Repair::next`] has it.
    Fill,
}

/// Why a gap is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gap {
    /// The peer's NAK: PSN sequence error. A request was lost.
    SequenceError,
    /// An implied NAK: what came after a READ or atomic is answered and it is not (IBA 9.7.5.1.3).
    Response,
}

/// Is anybody there?
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Doubt {
    #[default]
    None,
    /// The question is to be sent. An earlier one about the packets before `asked` was not
    /// answered.
    Ask { asked: Option<Psn> },
    /// The question went; what had been sent then ended at `end`.
    Asked { end: Psn },
    /// It was answered, and not everything before `end` is acknowledged: the rest is lost, unless
    /// the peer is just
    /// behind and more acknowledgements are on their way.
    Suspect { end: Psn },
}

/// What was done about silence since the last progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Silence {
    /// Questions: each waits twice as long as the one before, up to a bound.
    questions: u32,
    /// How often a question was put off, as nothing was asked for yet and the peer was heard.
    put_off: u32,
}

/// The gap that was answered by going back last, until there is progress: another report of it is
/// the same gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Echo {
    /// The oldest PSN then.
    at: Psn,
    /// A request was lost, so an acknowledgement of what was not sent again yet tells that the peer
    /// has kept it.
    learns: bool,
}

/// How a gap in the requests is mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mend {
    /// The peer drops what it gets beyond a gap, as far as is known: everything goes again.
    #[default]
    GoBack,
    /// It keeps that (it acknowledged more than was sent again): only what it lacks goes again.
    Fill(Fill),
}

/// Gaps that are filled one packet at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fill {
    /// The oldest packet is to be sent again, alone.
    due: bool,
    /// What was the oldest packet when that was decided last, and when.
    last: Option<(Psn, Instant)>,
    /// How many times in a row the peer then lacked the next packet too.
    run: u32,
    /// The farthest packet that the peer has told to have, though not all before it.
    heard: Option<Psn>,
    /// [`Echo::learns`] for going back from here: a response that was lost since tells nothing of
    /// what the peer keeps.
    learns: bool,
}

impl Fill {
    /// What a requester begins with that has just learned that its peer keeps packets.
    const BEGIN: Fill = Fill {
        due: false,
        last: None,
        run: 0,
        heard: None,
        learns: true,
    };
}

/// Loss repair of one requester.
#[derive(Debug, Default)]
pub(super) struct Repair {
    doubt: Doubt,
    silence: Silence,
    echo: Option<Echo>,
    mend: Mend,
    /// What the peer lacks beside the oldest packet; used while `mend` is `Fill`.
    waiting: Repairs,
}

impl Repair {
    /// Something is to be sent again: [`Self::next`] has it.
    #[inline]
    pub fn is_pending(&self) -> bool {
        let due = matches!(self.mend, Mend::Fill(Fill { due: true, .. }));
        due || matches!(self.doubt, Doubt::Ask { .. }) || !self.waiting.is_empty()
    }

    /// Questions since the last progress or going back.
    #[inline]
    pub fn questions(&self) -> u32 {
        self.silence.questions
    }

    /// The peer is known to keep what it gets beyond a gap.
    pub fn fills(&self) -> bool {
        matches!(self.mend, Mend::Fill(_))
    }

    /// The farthest packet that the peer has told to have, though not all before it.
    #[inline]
    pub fn heard(&self) -> Option<Psn> {
        match &self.mend {
            Mend::Fill(fill) => fill.heard,
            Mend::GoBack => None,
        }
    }

    /// More packets wait to fill gaps beyond the first.
    pub fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next packet to send again; it counts as sent. First what fills gaps, the oldest one
    /// before the others.
    #[cold]
    pub fn next(&mut self, now: Instant) -> Option<Again> {
        if let Mend::Fill(fill) = &mut self.mend
            && std::mem::take(&mut fill.due)
        {
            return Some(Again::Oldest);
        }
        if let Some(psn) = self.waiting.next(now) {
            return Some(Again::Packet(psn));
        }
        let Doubt::Ask { asked } = self.doubt else {
            return None;
        };
        // Until [`Self::asked`] says that it went.
        self.doubt = asked.map_or(Doubt::None, |end| Doubt::Asked { end });
        Some(Again::Question)
    }

    /// The question went; what had been sent by now ended at `end`.
    pub fn asked(&mut self, end: Psn) {
        self.doubt = Doubt::Asked { end };
        self.silence.questions += 1;
    }

    /// Nothing was heard for some round trips. `goes_on`: it may pass without a question, and until
    /// when.
    #[cold]
    pub fn silence(&mut self, goes_on: Option<Instant>) -> OnSilence {
        let asked = match self.doubt {
            Doubt::Suspect { .. } => {
                self.doubt = Doubt::None;
                return OnSilence::GoBack;
            }
            Doubt::None => None,
            Doubt::Ask { asked } => asked,
            Doubt::Asked { end } => Some(end),
        };
        if let Some(until) = goes_on
            && self.silence.put_off < PUT_OFF
        {
            self.silence.put_off += 1;
            return OnSilence::PutOff(until);
        }
        self.doubt = Doubt::Ask { asked };
        OnSilence::Ask
    }

    /// The link is back: a question is to be sent, and the next ones follow as after the first
    /// silence. What is suspected to be lost is sent again soon anyway.
    #[cold]
    pub fn ask_now(&mut self) {
        if matches!(self.doubt, Doubt::Suspect { .. }) {
            return;
        }
        let asked = self.doubted();
        self.doubt = Doubt::Ask { asked };
        self.silence = Silence::default();
    }

    /// Where what was sent before the last question ended, while its answer is not complete. To be
    /// taken before an acknowledgement is, and handed to [`Self::answered`] after it.
    #[inline]
    pub fn doubted(&self) -> Option<Psn> {
        match self.doubt {
            Doubt::Ask { asked } => asked,
            Doubt::Asked { end } | Doubt::Suspect { end } => Some(end),
            Doubt::None => None,
        }
    }

    /// An acknowledgement was taken while everything before `end` was in doubt. If the peer had all
    /// of that it is said
    /// at once or soon; what is missing after a moment without more is lost. True: that moment
    /// begins.
    #[cold]
    pub fn answered(&mut self, end: Psn, flight: &Flight) -> bool {
        if matches!(
            self.doubt,
            Doubt::Asked { .. } | Doubt::Ask { asked: Some(_) }
        ) {
            // It acknowledged nothing new.
            return false;
        }
        let suspect = end.after(flight.una) && flight.sent > 0;
        self.doubt = match suspect {
            true => Doubt::Suspect { end },
            false => Doubt::None,
        };
        suspect
    }

    /// Something was acknowledged that was not before. What is suspected stays so until
    /// [`Self::answered`] looks again.
    #[inline]
    pub fn progress(&mut self) {
        if matches!(self.doubt, Doubt::Ask { .. } | Doubt::Asked { .. }) {
            self.doubt = Doubt::None;
        }
        self.silence = Silence::default();
        self.echo = None;
        if let Mend::Fill(fill) = &mut self.mend {
            fill.due = false;
        }
    }

    /// Everything before `una` was acknowledged, and this requester went back to there for a lost
    /// request: it may learn
    /// from what is acknowledged now.
    #[inline]
    pub fn may_learn(&self, una: Psn) -> bool {
        self.echo
            == Some(Echo {
                at: una,
                learns: true,
            })
    }

    /// More was acknowledged than was sent since going back: the peer has kept it.
    #[cold]
    pub fn learn(&mut self) {
        if self.mend == Mend::GoBack {
            self.mend = Mend::Fill(Fill::BEGIN);
        }
    }

    /// There is a gap before what the peer has, or its answers have one. Once per gap: echoes of
    /// the report, and answers that were under way already, must not use up retries.
    #[cold]
    pub fn gap(&mut self, gap: Gap, flight: &Flight) -> OnGap {
        let at = flight.una;
        let is_lately = self.is_lately(at, flight);
        match (gap, &mut self.mend) {
            (Gap::SequenceError, Mend::Fill(_)) if is_lately => OnGap::Ignore,
            (Gap::SequenceError, Mend::Fill(fill)) => {
                match fill.last {
                    Some((psn, _)) if psn == at => {}
                    Some((psn, _)) if psn.next() == at => fill.run += 1,
                    _ => fill.run = 0,
                }
                if fill.run < NEIGHBOURS {
                    (fill.last, fill.due) = (Some((at, flight.now)), true);
                    return OnGap::Fill;
                }
                // A whole run was lost, or the peer keeps nothing after all.
                let learns = fill.learns;
                self.mend = Mend::GoBack;
                self.echo = Some(Echo { at, learns });
                OnGap::GoBack
            }
            _ if self.echo.is_some_and(|echo| echo.at == at) => OnGap::Ignore,
            (_, mend) => {
                let learns = gap == Gap::SequenceError;
                if let Mend::Fill(fill) = mend {
                    fill.learns = learns;
                }
                self.echo = Some(Echo { at, learns });
                OnGap::GoBack
            }
        }
    }

    /// The oldest packet was sent again last, to fill a gap.
    #[inline]
    pub fn has_filled(&self, una: Psn) -> bool {
        matches!(&self.mend, Mend::Fill(Fill { last: Some((last, _)), .. }) if *last == una)
    }

    /// A gap was filled, and what came after it acknowledged. If all but the last packet is: a peer
    /// that does not know
    /// this requester yet keeps no end of a message, and nothing comes after it that would tell.
    #[cold]
    pub fn filled(&mut self, flight: &Flight) {
        if flight.sent == 1
            && let Mend::Fill(fill) = &mut self.mend
        {
            (fill.last, fill.due) = (Some((flight.una, flight.now)), true);
        }
    }

    /// The peer, which keeps what it gets, lists packets beyond `expected` that it lacks: they are
    /// sent again while that
    /// one still is. `expected` is outstanding.
    #[cold]
    pub fn listed(&mut self, expected: Psn, report: &GapReport, flight: &Flight) {
        let farthest = expected.add(report.reach.into());
        if flight.contains(farthest)
            && let Mend::Fill(fill) = &mut self.mend
            && fill.heard.is_none_or(|heard| farthest.after(heard))
        {
            fill.heard = Some(farthest);
        }
        let missing = report.holes().flat_map(|hole| hole.psns(expected));
        for psn in missing.take(GapReport::MOST_HOLES * 4) {
            let lacks = flight.contains(psn) && !self.is_lately(psn, flight);
            if lacks && !self.waiting.push(psn) {
                break;
            }
        }
    }

    /// It was sent again to fill a gap, and that may still be under way.
    fn is_lately(&self, psn: Psn, flight: &Flight) -> bool {
        let last = match &self.mend {
            Mend::Fill(fill) => fill.last.filter(|(last, _)| *last == psn),
            Mend::GoBack => None,
        };
        let at = last.map(|(_, at)| at).max(self.waiting.sent_at(psn));
        at.is_some_and(|at| flight.now.0 < at.0 + flight.lately_ns)
    }

    /// Everything from the oldest packet on is sent again, or flushed: nothing needs to be sent
    /// again by itself.
    pub fn went_back(&mut self) {
        self.doubt = Doubt::None;
        self.silence.questions = 0;
        if let Mend::Fill(fill) = &mut self.mend {
            (fill.due, fill.heard) = (false, None);
        }
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests;
