//! When a packet waits, and for what.
//!
//! The rule: a packet goes, unless the rate names a later time, or it is an acknowledgement and the
//! program is expected to reply: then it travels with the reply, for a datagram of its own costs as
//! much. It goes alone once a look finds that no reply comes.
//!
//! A reply is expected where one came at once before ([`Habit`]), of a program that comes back.
//! Owns what is kept back and what is known of the program's habits. Must not know packets,
//! sockets, nor who finds out that no reply comes (`wire/packets/batch.rs`).

use ferriband_transport::AnswerDue;

use super::Turn;
use crate::device::pace::{Pace, SharedPace};

/// A post so soon after an acknowledgement would have carried it.
const REPLY_NS: u64 = 20_000;
/// What came at once so often in a row is expected to come again.
const TRUSTED: u8 = 2;
/// What may go next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Go {
    /// Nothing before [`Wait::until`], or before company comes.
    Nothing,
    /// An answer; after it, or if there is none, look again.
    Answer,
    /// An acknowledgement, and nothing else.
    Acknowledgement,
    /// A request. If there is none: an acknowledgement, unless that waits for company.
    Request { or_acknowledgement: bool },
}

/// Something that comes at once, or does not.
#[derive(Debug, Default)]
struct Habit {
    in_a_row: u8,
}

impl Habit {
    fn came(&mut self) {
        self.in_a_row = (self.in_a_row + 1).min(TRUSTED);
    }

    fn did_not_come(&mut self) {
        self.in_a_row = 0;
    }

    /// It is expected to come again.
    fn is_trusted(&self) -> bool {
        self.in_a_row >= TRUSTED
    }
}

/// What waits at a queue pair, and for what.
#[derive(Debug, Default)]
pub(super) struct Wait {
    /// The rate.
    pub pace: Pace,
    /// When packets may go on that the rate held back.
    until: Option<u64>,
    /// The peer takes what comes together together, so an acknowledgement may travel behind a
    /// request: see
    /// [`super::Qp::packets_in`].
    together: bool,
    /// Requests that followed an acknowledgement at once.
    replies: Habit,
    /// When the last acknowledgement went alone.
    acknowledged_at: u64,
    /// An acknowledgement waits for a request to travel with.
    keeps_acknowledgement: bool,
}

impl Wait {
    /// An acknowledgement is kept back.
    pub fn keeps_acknowledgement(&self) -> bool {
        self.keeps_acknowledgement
    }

    /// When packets may go on that the rate held back.
    pub fn until(&self) -> Option<u64> {
        self.until
    }

    /// The peer is known to take what comes together together.
    pub fn may_go_together(&mut self) {
        self.together = true;
    }

    /// No request came to take the acknowledgement along.
    pub fn no_reply_came(&mut self) {
        self.replies.did_not_come();
    }

    /// A turn begins; `due`: an acknowledgement is, and nothing more. It waits for the program's
    /// reply only while the program polls, comes back, and has replied at once before.
    pub fn begin(&mut self, why: Turn, due: bool, now: u64) {
        self.until = None;
        if why == Turn::Posted {
            if self.keeps_acknowledgement || now - self.acknowledged_at < REPLY_NS {
                self.replies.came();
            }
            self.keeps_acknowledgement = false;
            return;
        }
        self.keeps_acknowledgement = why == Turn::Polled && due && self.replies.is_trusted();
        if due && !self.keeps_acknowledgement {
            self.acknowledged_at = now;
        }
    }

    /// The rule: what may go now, where this answer is due.
    #[inline]
    pub fn next(&mut self, due: AnswerDue, device: &SharedPace, now: u64) -> Go {
        self.until = self.pace.wait(device, now);
        let is_over = self.until.is_some();
        // requests first, if the peer lets them: an acknowledgement, which is shorter, ends a run
        // of packets of one size
        let is_first = match due {
            AnswerDue::More => true,
            AnswerDue::Ack => !self.together && !self.keeps_acknowledgement,
            AnswerDue::None => false,
        };
        match (is_first, is_over) {
            // responses of a READ are data, too
            (true, _) if is_over => Go::Nothing,
            (true, _) => Go::Answer,
            (false, true) if self.keeps_acknowledgement => Go::Nothing,
            (false, true) => Go::Acknowledgement,
            (false, false) => Go::Request {
                or_acknowledgement: !self.keeps_acknowledgement,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: u64 = REPLY_NS / 2;

    /// Nothing was ever sent, long after the clock began.
    fn wait() -> Wait {
        Wait::default()
    }

    /// So many acknowledgements, each followed at once by a post; returns when the last post was.
    fn reply(wait: &mut Wait, times: u64) -> u64 {
        let mut now = 1_000_000;
        for _ in 0..times {
            wait.begin(Turn::Polled, true, now);
            now += AT_ONCE;
            wait.begin(Turn::Posted, true, now);
            now += 1_000_000;
        }
        now
    }

    fn next(wait: &mut Wait, due: AnswerDue) -> Go {
        wait.next(due, &SharedPace::default(), 1_000_000_000)
    }

    const REQUEST: Go = Go::Request {
        or_acknowledgement: true,
    };

    #[test]
    fn an_acknowledgement_waits_for_the_reply_of_a_program_that_replies() {
        for (times, keeps) in [(0, false), (1, false), (2, true), (9, true)] {
            let mut wait = wait();
            let now = reply(&mut wait, times);
            wait.begin(Turn::Polled, true, now);
            assert_eq!(wait.keeps_acknowledgement(), keeps, "{times}");
        }
    }

    #[test]
    fn an_acknowledgement_goes_where_nobody_comes_back_or_none_is_due() {
        let mut wait = wait();
        let now = reply(&mut wait, 2);
        wait.begin(Turn::Polled, false, now);
        assert!(!wait.keeps_acknowledgement());
        wait.begin(Turn::Due, true, now);
        assert!(!wait.keeps_acknowledgement());
        wait.begin(Turn::Polled, true, now);
        wait.begin(Turn::Posted, true, now);
        assert!(!wait.keeps_acknowledgement(), "it goes with the post");
    }

    #[test]
    fn a_reply_that_does_not_come_ends_the_habit_and_a_late_one_is_none() {
        let mut wait = wait();
        let now = reply(&mut wait, 2);
        wait.no_reply_came();
        wait.begin(Turn::Polled, true, now);
        assert!(!wait.keeps_acknowledgement());
        for _ in 0..4 {
            wait.begin(Turn::Posted, true, now + REPLY_NS);
        }
        wait.begin(Turn::Polled, true, now + REPLY_NS);
        assert!(!wait.keeps_acknowledgement());
    }

    #[test]
    fn a_post_takes_along_what_was_kept_however_late_it_is() {
        let mut wait = wait();
        let now = reply(&mut wait, 2);
        wait.begin(Turn::Polled, true, now);
        wait.no_reply_came();
        for _ in 0..2 {
            wait.keeps_acknowledgement = true;
            wait.begin(Turn::Posted, true, now + 9 * REPLY_NS);
        }
        wait.begin(Turn::Polled, true, now + 9 * REPLY_NS);
        assert!(wait.keeps_acknowledgement());
    }

    #[test]
    fn an_answer_goes_first_unless_the_peer_takes_it_behind_a_request() {
        let mut wait = wait();
        assert_eq!(next(&mut wait, AnswerDue::None), REQUEST);
        assert_eq!(next(&mut wait, AnswerDue::Ack), Go::Answer);
        wait.may_go_together();
        assert_eq!(next(&mut wait, AnswerDue::Ack), REQUEST);
        assert_eq!(next(&mut wait, AnswerDue::More), Go::Answer);
        assert_eq!(wait.until(), None);
    }

    #[test]
    fn what_is_kept_back_does_not_go() {
        let mut wait = wait();
        wait.keeps_acknowledgement = true;
        let alone = Go::Request {
            or_acknowledgement: false,
        };
        assert_eq!(next(&mut wait, AnswerDue::Ack), alone);
        wait.keeps_acknowledgement = false;
        assert_eq!(next(&mut wait, AnswerDue::Ack), Go::Answer);
        assert_eq!(next(&mut wait, AnswerDue::None), REQUEST);
    }

    #[test]
    fn what_is_over_the_rate_waits_for_its_time() {
        let mut wait = wait();
        wait.pace.set(1, 0);
        wait.pace
            .charge(&SharedPace::default(), 1_000_000_000, 1000, 0);
        assert_eq!(next(&mut wait, AnswerDue::More), Go::Nothing);
        assert!(wait.until().is_some());
        assert_eq!(next(&mut wait, AnswerDue::None), Go::Acknowledgement);
        wait.may_go_together();
        assert_eq!(next(&mut wait, AnswerDue::Ack), Go::Acknowledgement);
        wait.begin(Turn::Posted, false, 1_000_000_000);
        assert_eq!(wait.until(), None, "the next turn looks anew");
    }
}
