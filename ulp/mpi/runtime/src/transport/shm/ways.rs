//! Which way a long message between ranks of a host comes: read from its sender's memory, or in
//! pieces through the block.
//!
//! Two copies, by both cores at once, may be faster than one by the kernel, which looks at each
//! page. Whether they are depends on the machine and on what else runs, so both ways are timed, and
//! the one that has been the faster of late is taken.
//!
//! Owns: what each way has cost. Must not know: how either is done.

use std::time::{Duration, Instant};

/// How a long message comes to its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It is read from the sender's memory.
    Read = 0,
    /// It comes in pieces through the block.
    Pieces = 1,
}

/// Kinds of length: from 64, 128 KiB on, and so on; all from 4 MiB on are one.
const KINDS: usize = 7;
const SHORTEST: u64 = 64 << 10;
/// First messages of a kind, which are read; twice as many come in pieces then, unless these are soon seen to be much slower.
const FIRST: u32 = 4;
/// Of so many some come the other way, to see; ...
const TRIED: u32 = 256;
/// ... of so many if that was much slower of late.
const SELDOM: u32 = 2048;
/// So many one after the other: the first one after a change says nothing, as it met what came the other way.
const TRIAL: u32 = 4;

/// What both ways have cost of late, for messages of one kind.
#[derive(Clone, Copy, Default, Debug)]
struct Costs {
    count: u32,
    /// Nanoseconds for 64 KiB, by way; 0: not known.
    costs: [u64; 2],
    /// How the last one came that was timed.
    last: Option<Way>,
}

impl Costs {
    fn pick(&mut self) -> Way {
        let nth = self.count;
        self.count = self.count.wrapping_add(1);
        let [read, pieces] = self.costs;
        let is_much = |more: u64, less: u64| more > less * 3 / 2;
        if nth < FIRST {
            return Way::Read;
        }
        if nth < 3 * FIRST && !is_much(pieces, read) {
            return Way::Pieces;
        }
        // both cores' work has to be worth it
        let (faster, other, is_seldom) = if pieces != 0 && pieces < read * 7 / 8 {
            (Way::Pieces, Way::Read, is_much(read, pieces))
        } else {
            (Way::Read, Way::Pieces, is_much(pieces, read))
        };
        let each = if is_seldom { SELDOM } else { TRIED };
        // and early, as the first messages meet memory that nobody has touched
        let is_trial = nth % each.min(1 << nth.ilog2()) < TRIAL;
        if is_trial { other } else { faster }
    }

    fn note(&mut self, way: Way, bytes: u64, took: Duration) {
        if self.last.replace(way) != Some(way) {
            return;
        }
        let seen = took.as_nanos().min(u64::MAX.into()) as u64;
        let seen = (seen.saturating_mul(SHORTEST) / bytes.max(1)).max(1);
        let known = &mut self.costs[way as usize];
        *known = match *known {
            0 => seen,
            // The first ones meet memory that nobody has touched.
            known if seen < known => (known + 3 * seen) / 4,
            // A core that was lost in the middle says little of the way.
            known => (3 * known + seen.min(2 * known)) / 4,
        };
    }
}

/// Which way long messages come, by length.
#[derive(Default, Debug)]
pub struct Ways {
    costs: [Costs; KINDS],
    /// Messages that were asked for in pieces and have not come, and when that began.
    asked: u32,
    since: Option<Instant>,
    /// When a long message was there last, whichever way it came: the next one's pieces were taken out after that.
    last: Option<Instant>,
}

impl Ways {
    fn kind(bytes: u64) -> usize {
        let kind = bytes.max(SHORTEST).ilog2() - SHORTEST.ilog2();
        (kind as usize).min(KINDS - 1)
    }

    /// Which way a message of so many bytes had better come.
    pub fn pick(&mut self, bytes: u64) -> Way {
        self.costs[Self::kind(bytes)].pick()
    }

    /// A message was read in a time.
    pub fn read(&mut self, bytes: u64, since: Instant) {
        let now = Instant::now();
        self.costs[Self::kind(bytes)].note(Way::Read, bytes, now - since);
        self.last = Some(now);
    }

    /// A message is asked for in pieces.
    pub fn asked(&mut self) {
        if self.asked == 0 {
            self.since = Some(Instant::now());
        }
        self.asked += 1;
    }

    /// The last piece of a message of so many bytes is there.
    pub fn came(&mut self, bytes: u64) {
        if self.asked == 0 {
            // nobody had a choice
            return;
        }
        self.asked -= 1;
        let now = Instant::now();
        if let Some(since) = self.since.max(self.last) {
            self.costs[Self::kind(bytes)].note(Way::Pieces, bytes, now - since);
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` messages of 1 MiB come in pieces, where each way takes so many microseconds.
    fn in_pieces(costs: &mut Costs, count: u32, micros: [u64; 2]) -> u32 {
        (0..count).fold(0, |taken, _| {
            let way = costs.pick();
            costs.note(way, 1 << 20, Duration::from_micros(micros[way as usize]));
            taken + u32::from(way == Way::Pieces)
        })
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_looked_at_now_and_then() {
        let mut costs = Costs::default();
        // What nobody has touched is slow, whichever way it comes.
        for _ in 0..FIRST {
            let way = costs.pick();
            costs.note(way, 1 << 20, Duration::from_millis(1));
        }
        let pieces = in_pieces(&mut costs, 1000, [40, 20]);
        assert!(pieces > 960, "{pieces}");
        // The sender has lost its core to others: they are fewer before it is seen.
        let pieces = in_pieces(&mut costs, 3000, [50, 150]);
        assert!((1..100).contains(&pieces), "{pieces}");
        // And has it again.
        in_pieces(&mut costs, 2 * SELDOM, [40, 20]);
        let pieces = in_pieces(&mut costs, 1000, [40, 20]);
        assert!(pieces > 980, "{pieces}");
    }

    #[test]
    fn a_core_that_was_lost_for_once_decides_nothing() {
        let mut costs = Costs::default();
        in_pieces(&mut costs, 140, [40, 20]);
        costs.note(Way::Pieces, 1 << 20, Duration::from_millis(30));
        assert!(in_pieces(&mut costs, 100, [40, 20]) > 98);
    }

    #[test]
    fn pieces_are_timed_from_when_the_message_before_was_there() {
        let pause = Duration::from_millis(20);
        let mut ways = Ways::default();
        let cost = |ways: &Ways| ways.costs[0].costs[Way::Pieces as usize];
        ways.asked();
        ways.asked();
        std::thread::sleep(pause);
        ways.came(SHORTEST);
        assert_eq!(cost(&ways), 0, "the first one after a change");
        ways.came(SHORTEST);
        assert!((1..20_000_000).contains(&cost(&ways)), "{}", cost(&ways));
        // What is read meanwhile takes time of its own.
        let mut ways = Ways::default();
        ways.costs[0].last = Some(Way::Pieces);
        ways.asked();
        let begun = Instant::now();
        std::thread::sleep(pause);
        ways.read(2 * SHORTEST, begun);
        ways.came(SHORTEST);
        assert!((1..20_000_000).contains(&cost(&ways)), "{}", cost(&ways));
        // One that nobody chose to have in pieces says nothing.
        let before = ways.costs[0].costs;
        ways.came(SHORTEST);
        assert_eq!(ways.costs[0].costs, before);
        // And a message alone takes from its asking.
        ways.asked();
        std::thread::sleep(pause);
        let known = cost(&ways);
        ways.came(SHORTEST);
        assert!(cost(&ways) > known);
    }

    #[test]
    fn lengths_have_kinds() {
        let kinds = [
            1,
            SHORTEST,
            2 * SHORTEST - 1,
            2 * SHORTEST,
            4 << 20,
            1 << 40,
        ];
        assert_eq!(kinds.map(Ways::kind), [0, 0, 0, 1, 6, 6]);
    }
}
