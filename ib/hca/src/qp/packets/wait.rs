//! When a packet waits, and for what.
//!
//! The rule: a packet goes, unless the rate names a later time, or company is expected that it can
//! travel with. Then it
//! goes with that, and alone once a look finds that nobody comes. Two kinds of packets have
//! company. An acknowledgement
//! travels with the program's reply, for a datagram of its own costs as much as the reply. And the
//! end of a long SEND
//! travels with the next one: a run that the kernel cuts apart carries 62 packets of 1 KiB, so a
//! message of 64 KiB is one
//! run and two packets more, and those cost a system call and a way through the kernel, at both
//! ends, as the 62 do. (The
//! first packet of a WRITE has a header more than the others, so it begins a run in any case.)
//!
//! Company is expected where it came at once before ([`Habit`]), of a program that comes back. One
//! that waits for an
//! answer between two messages, or only looks at memory, is not kept waiting. Owns what is kept
//! back and what is known of
//! the program's habits. Must not know packets, sockets, nor who finds out that nobody comes
//! ([`crate::progress`]'s `tails`
//! for ends, `roce/rx.rs` for acknowledgements).

use ferriband_transport::AnswerDue;

use super::Turn;
use crate::device::pace::{Pace, SharedPace};

/// A post so soon after an acknowledgement would have carried it.
const REPLY_NS: u64 = 20_000;
/// What came at once so often in a row is expected to come again.
const TRUSTED: u8 = 2;
/// Messages in a row between which the program has not looked for completions: then it may not come
/// back for long.
const UNLOOKED: u8 = 16;
/// From one message to the next, at the most, for each KiB of it: less than it takes to get there
/// and back.
const KIB_NS: u64 = 600;
/// That time where the peer has not acknowledged what was sent before: then it cannot have
/// answered, however slow this
/// machine is.
const SLOW_KIB_NS: u64 = 4 * KIB_NS;

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

/// What a queue pair knows of its long messages.
#[derive(Debug)]
struct Stream {
    messages: Habit,
    /// When the last one was posted, and what the program's polls were then.
    at: u64,
    polls: u32,
    /// Messages since it last looked for completions.
    unlooked: u8,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            messages: Habit::default(),
            at: 0,
            polls: 0,
            unlooked: UNLOOKED,
        }
    }
}

impl Stream {
    /// A message of `bytes` bytes was posted at `now` and has an end that could wait; `polls`
    /// counts how often the
    /// program has looked for completions; `flies`: something that was sent before is not
    /// acknowledged. True if another
    /// message is expected.
    fn expects(&mut self, bytes: u32, now: u64, polls: u32, flies: bool) -> bool {
        let longest = if flies { SLOW_KIB_NS } else { KIB_NS };
        match now.saturating_sub(self.at) < u64::from(bytes) * longest / 1024 {
            true => self.messages.came(),
            false => self.messages.did_not_come(),
        }
        // it may post several between two looks
        self.unlooked = match polls != self.polls {
            true => 0,
            false => self.unlooked.saturating_add(1),
        };
        (self.at, self.polls) = (now, polls);
        self.messages.is_trusted() && self.unlooked < UNLOOKED
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
    stream: Stream,
    /// An acknowledgement waits for a request to travel with.
    keeps_acknowledgement: bool,
    /// The end of a long message waits for the next message.
    keeps_end: bool,
    /// Whether an end that is found in this turn waits, once that is known.
    end_waits: Option<bool>,
}

impl Wait {
    /// An acknowledgement is kept back.
    pub fn keeps_acknowledgement(&self) -> bool {
        self.keeps_acknowledgement
    }

    /// The end of a message is kept back.
    pub fn keeps_end(&self) -> bool {
        self.keeps_end
    }

    /// Something is kept back for company.
    pub fn keeps_any(&self) -> bool {
        self.keeps_acknowledgement || self.keeps_end
    }

    /// When packets may go on that the rate held back.
    pub fn until(&self) -> Option<u64> {
        self.until
    }

    /// When the last long message was posted.
    pub fn posted_at(&self) -> u64 {
        self.stream.at
    }

    /// The peer is known to take what comes together together.
    pub fn may_go_together(&mut self) {
        self.together = true;
    }

    /// No request came to take the acknowledgement along.
    pub fn no_reply_came(&mut self) {
        self.replies.did_not_come();
    }

    /// No other message came to take the end along.
    pub fn no_message_came(&mut self) {
        self.stream.messages.did_not_come();
    }

    /// A turn begins; `due`: an acknowledgement is, and nothing more. It waits for the program's
    /// reply only while the
    /// program polls, comes back, and has replied at once before. An end that waited goes, but for
    /// one that the program
    /// has yet to come back to.
    pub fn begin(&mut self, why: Turn, due: bool, now: u64) {
        self.until = None;
        self.end_waits = match why {
            Turn::Posted => None,
            Turn::Polled => Some(self.keeps_end),
            Turn::Due => Some(false),
        };
        self.keeps_end = false;
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

    /// An end that is next may wait: it is to be looked for.
    pub fn may_keep_end(&self) -> bool {
        self.end_waits != Some(false) && self.pace.is_off()
    }

    /// The end of a message of `bytes` bytes is next: whether it waits is decided once in a turn.
    /// `looks`: how often the
    /// program has looked for completions. `flies`: as what was sent before this turn is not
    /// acknowledged.
    pub fn end_is_next(&mut self, bytes: u32, now: u64, looks: u32, flies: bool) {
        let stream = &mut self.stream;
        let waits = self
            .end_waits
            .get_or_insert_with(|| stream.expects(bytes, now, looks, flies));
        self.keeps_end = *waits;
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
        match (is_first, is_over || self.keeps_end) {
            // responses of a READ are data, too, and wait for no other message
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
            assert_eq!(wait.keeps_any(), keeps);
        }
    }

    #[test]
    fn an_acknowledgement_goes_where_nobody_comes_back_or_none_is_due() {
        let mut wait = wait();
        let now = reply(&mut wait, 2);
        wait.begin(Turn::Polled, false, now);
        assert!(!wait.keeps_any());
        wait.begin(Turn::Due, true, now);
        assert!(!wait.keeps_any());
        wait.begin(Turn::Polled, true, now);
        wait.begin(Turn::Posted, true, now);
        assert!(!wait.keeps_any(), "it goes with the post");
    }

    #[test]
    fn a_reply_that_does_not_come_ends_the_habit_and_a_late_one_is_none() {
        let mut wait = wait();
        let now = reply(&mut wait, 2);
        wait.no_reply_came();
        wait.begin(Turn::Polled, true, now);
        assert!(!wait.keeps_any());
        for _ in 0..4 {
            wait.begin(Turn::Posted, true, now + REPLY_NS);
        }
        wait.begin(Turn::Polled, true, now + REPLY_NS);
        assert!(!wait.keeps_any());
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
        wait.keeps_end = true;
        assert_eq!(next(&mut wait, AnswerDue::Ack), Go::Nothing);
        wait.keeps_acknowledgement = false;
        assert_eq!(next(&mut wait, AnswerDue::Ack), Go::Answer);
        assert_eq!(next(&mut wait, AnswerDue::None), Go::Acknowledgement);
        assert_eq!(next(&mut wait, AnswerDue::More), Go::Answer, "of a READ");
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

    /// A stream of two messages, and a third that begins: true if its end waits.
    fn third(wait: &mut Wait, why: Turn) -> bool {
        for i in 1..=3u32 {
            wait.begin(Turn::Posted, false, u64::from(i) * 1000);
            wait.end_is_next(64 << 10, u64::from(i) * 1000, i, false);
        }
        assert!(wait.keeps_end());
        wait.begin(why, false, 4000);
        if wait.may_keep_end() {
            wait.end_is_next(64 << 10, 4000, 4, false);
        }
        wait.keeps_end()
    }

    #[test]
    fn the_end_of_a_stream_waits_until_its_time_has_come() {
        assert!(third(&mut wait(), Turn::Posted), "another message");
        assert!(third(&mut wait(), Turn::Polled), "as it was");
        assert!(!third(&mut wait(), Turn::Due));
        let mut wait = wait();
        wait.begin(Turn::Polled, false, 1000);
        assert!(!wait.may_keep_end(), "it was not kept before");
        wait.pace.set(1, 0);
        wait.begin(Turn::Posted, false, 1000);
        assert!(!wait.may_keep_end(), "a rate cuts runs as it will");
    }

    #[test]
    fn whether_an_end_waits_is_decided_once_in_a_turn() {
        let mut wait = wait();
        for i in 1..=9 {
            wait.end_is_next(64 << 10, i * 1000, i as u32, false);
        }
        assert!(!wait.keeps_end(), "that was one message");
        assert_eq!(wait.posted_at(), 1000);
    }

    #[test]
    fn a_message_that_does_not_come_ends_the_stream() {
        let mut wait = wait();
        assert!(third(&mut wait, Turn::Posted));
        wait.no_message_came();
        wait.begin(Turn::Posted, false, 5000);
        wait.end_is_next(64 << 10, 5000, 5, true);
        assert!(!wait.keeps_end());
    }

    #[test]
    fn a_stream_of_a_program_that_looks_is_expected_to_go_on_and_nothing_else() {
        let step = 64 * KIB_NS;
        let run = |gap: u64, flies: bool, polls: fn(u32) -> u32| {
            let mut stream = Stream::default();
            let expected = (1..=20u32)
                .map(|i| stream.expects(64 << 10, 1_000_000 + u64::from(i) * gap, polls(i), flies));
            expected.filter(|expected| *expected).count()
        };
        assert_eq!(
            run(step / 2, false, |i| i),
            18,
            "one look between two messages"
        );
        assert_eq!(run(step / 2, false, |i| i / 4), 17, "one for four of them");
        assert_eq!(run(step, false, |i| i), 0, "time for an answer");
        assert_eq!(run(step, true, |i| i), 18, "none has come: a slow machine");
        assert_eq!(
            run(4 * step, true, |i| i),
            0,
            "the peer does not look, or is far"
        );
        assert_eq!(run(step / 2, true, |_| 0), 0, "it looks at memory alone");
    }
}
