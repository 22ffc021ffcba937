//! What a queue pair can tell about itself: why packets were dropped, what it counted, why it sent again.
//!
//! Owns plain values. Fixed in size, so a peer cannot make them grow; nothing here decides anything.

use crate::types::{Instant, QpState};
use ferriband_wire::Psn;

/// Why a packet had no effect at all. What was answered, if only with a NAK, is not dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, thiserror::Error)]
#[repr(usize)]
pub enum Drop {
    /// The state takes no such packet.
    #[error("the queue pair's state takes no such packet")]
    State,
    /// The opcode belongs to another service, or to a half that this queue pair does not have.
    #[error("opcode of another service")]
    Service,
    /// The partition keys do not match.
    #[error("P_Key mismatch")]
    PKey,
    /// The queue keys do not match (UD).
    #[error("Q_Key mismatch")]
    QKey,
    /// Beyond a gap that was already reported, or an answer to nothing that is outstanding.
    #[error("PSN not expected")]
    Psn,
    /// No message is in progress that this packet could continue (UC after a loss), or an operation that the
    /// service lacks or the receiver refuses where nobody can be told.
    #[error("not expected at this place of a message")]
    NotExpected,
    /// The payload fits neither the opcode, the MTU nor the receive (UC, UD).
    #[error("length does not fit")]
    Length,
    /// No receive is posted, where nobody can be told to come again (UC, UD).
    #[error("no receive posted")]
    NoReceive,
    /// Completions of earlier receives wait to be polled: the driver polled too late.
    #[error("completions were not polled")]
    Unpolled,
}

impl Drop {
    /// How many reasons there are.
    pub const COUNT: usize = 9;
    /// All of them, in the order of [`QpCounters::drops`].
    pub const ALL: [Drop; Drop::COUNT] = [
        Drop::State,
        Drop::Service,
        Drop::PKey,
        Drop::QKey,
        Drop::Psn,
        Drop::NotExpected,
        Drop::Length,
        Drop::NoReceive,
        Drop::Unpolled,
    ];
}

/// What a queue pair has done since it was made; neither Reset nor Error clears it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpCounters {
    /// Packets handed in.
    pub packets_received: u64,
    /// Of them dropped, by reason: index is `Drop as usize`.
    pub drops: [u64; Drop::COUNT],
    /// Request packets handed out, those sent again included.
    pub requests_sent: u64,
    /// Of them sent before.
    pub requests_repeated: u64,
    /// Acknowledgements and responses handed out.
    pub answers_sent: u64,
    /// Requests whose PSN lay in the past: answered again, not executed again.
    pub duplicates: u64,
    /// Requests that came before their turn and were kept behind a gap.
    pub held: u64,
    /// Gaps that this side reported (NAK, PSN sequence error).
    pub gaps_reported: u64,
    /// Lists of further gaps that this side sent, and heard.
    pub gap_lists_sent: u64,
    /// See [`Self::gap_lists_sent`].
    pub gap_lists_heard: u64,
    /// RNR NAKs of this side: it had no receive.
    pub rnr_naks_sent: u64,
    /// Other NAKs of this side: each ended the queue pair.
    pub naks_sent: u64,
    /// Sequence errors that the peer reported, or that its answers implied.
    pub gaps_heard: u64,
    /// RNR NAKs of the peer.
    pub rnr_naks_heard: u64,
    /// Other NAKs of the peer.
    pub naks_heard: u64,
    /// Ack time-outs.
    pub timeouts: u64,
    /// Packets sent once more to ask whether anything arrived.
    pub questions: u64,
}

impl QpCounters {
    /// The sum of two parts of a queue pair.
    pub(crate) fn plus(mut self, other: &QpCounters) -> Self {
        let pairs = [
            (&mut self.packets_received, other.packets_received),
            (&mut self.requests_sent, other.requests_sent),
            (&mut self.requests_repeated, other.requests_repeated),
            (&mut self.answers_sent, other.answers_sent),
            (&mut self.duplicates, other.duplicates),
            (&mut self.held, other.held),
            (&mut self.gaps_reported, other.gaps_reported),
            (&mut self.gap_lists_sent, other.gap_lists_sent),
            (&mut self.gap_lists_heard, other.gap_lists_heard),
            (&mut self.rnr_naks_sent, other.rnr_naks_sent),
            (&mut self.naks_sent, other.naks_sent),
            (&mut self.gaps_heard, other.gaps_heard),
            (&mut self.rnr_naks_heard, other.rnr_naks_heard),
            (&mut self.naks_heard, other.naks_heard),
            (&mut self.timeouts, other.timeouts),
            (&mut self.questions, other.questions),
        ];
        for (sum, part) in pairs {
            *sum += part;
        }
        for (sum, part) in self.drops.iter_mut().zip(other.drops) {
            *sum += part;
        }
        self
    }
}

/// Why a requester sent again, or stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Cause {
    /// No acknowledgement came within the ack time-out.
    Timeout,
    /// Nothing was heard for some round trips, and the answer to a question showed that packets were lost.
    Silence,
    /// The peer reported a gap.
    Gap,
    /// A later request was answered before a READ or atomic: its response was lost.
    ResponseLost,
    /// The peer had no receive; the code of its RNR timer.
    ReceiverNotReady(u8),
    /// The peer refused with this NAK code.
    Refused(u8),
}

/// One entry of a [`Diagnosis`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incident {
    /// When.
    pub at: Instant,
    /// What happened.
    pub cause: Cause,
    /// The oldest unacknowledged PSN at that time: what was sent again.
    pub psn: Psn,
}

/// Incidents that are kept.
pub const INCIDENTS: usize = 8;

/// What a queue pair knows about its connection, to explain a failure. Survives Error until Reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Diagnosis {
    /// Present state.
    pub state: QpState,
    /// Oldest PSN without acknowledgement; everything before it arrived.
    pub una: Psn,
    /// The PSN after the newest ever sent.
    pub next: Psn,
    /// The PSN expected from the peer.
    pub expected: Psn,
    /// Retries left before the queue pair gives up.
    pub retries_left: u8,
    /// RNR retries left; 7 never runs out.
    pub rnr_left: u8,
    /// Request packets that may be outstanding, and READ responses; 0 before RTS.
    pub window: [u32; 2],
    /// Smoothed round trip in nanoseconds; 0: not measured.
    pub round_trip_ns: u64,
    /// When the peer's latest packet was accepted. None: never.
    pub last_heard: Option<Instant>,
    /// The newest incidents, oldest first; None behind the last.
    pub incidents: [Option<Incident>; INCIDENTS],
}

/// The ring behind [`Diagnosis::incidents`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Journal {
    ring: [Option<Incident>; INCIDENTS],
    next: usize,
}

impl Journal {
    #[cold]
    pub fn note(&mut self, at: Instant, cause: Cause, psn: Psn) {
        self.ring[self.next % INCIDENTS] = Some(Incident { at, cause, psn });
        self.next += 1;
    }

    /// Oldest first.
    pub fn incidents(&self) -> [Option<Incident>; INCIDENTS] {
        let mut ordered = self.ring;
        if self.next > INCIDENTS {
            ordered.rotate_left(self.next % INCIDENTS);
        }
        ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_keeps_the_newest_oldest_first() {
        let mut journal = Journal::default();
        let note = |journal: &mut Journal, n: u32| {
            journal.note(Instant(n.into()), Cause::Timeout, Psn::new(n));
        };
        for n in 0..3 {
            note(&mut journal, n);
        }
        let psns = |journal: &Journal| -> Vec<u32> {
            let kept = journal.incidents();
            kept.iter().flatten().map(|i| i.psn.get()).collect()
        };
        assert_eq!(psns(&journal), [0, 1, 2]);
        assert_eq!(journal.incidents()[3], None);
        for n in 3..11 {
            note(&mut journal, n);
        }
        assert_eq!(psns(&journal), (3..11).collect::<Vec<_>>());
    }

    #[test]
    fn every_reason_has_its_own_counter() {
        for (index, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
