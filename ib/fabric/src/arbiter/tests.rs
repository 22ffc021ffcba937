//! The shares that tables ask for come out; a slow arbiter that was written from the words alone agrees packet for packet.

use super::*;
use proptest::prelude::*;

fn entries(pairs: &[(u8, u8)]) -> Vec<Entry> {
    let entry = |&(vl, weight): &(u8, u8)| Entry { vl, weight };
    pairs.iter().map(entry).collect()
}

fn tables(high: &[(u8, u8)], low: &[(u8, u8)], limit: u8) -> Tables {
    Tables {
        high: entries(high),
        low: entries(low),
        limit,
    }
}

/// Shares of each VL when those of `ready` have packets of so many blocks all the time.
fn shares(tables: &Tables, ready: u16, blocks: u16) -> [f64; 16] {
    let mut arbiter = Arbiter::new(tables);
    let mut sent = [0.0; 16];
    const PACKETS: u32 = 60_000;
    for _ in 0..PACKETS {
        let vl = arbiter.next(ready, |_| blocks).unwrap();
        sent[usize::from(vl)] += 1.0 / f64::from(PACKETS);
    }
    sent
}

fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 0.002, "{got} instead of {want}");
}

#[test]
fn weights_are_shares() {
    // 16, 32 and 64 blocks a turn, packets of 16: 1 : 2 : 4.
    let by_weight = tables(&[], &[(0, 16), (1, 32), (2, 64)], 0);
    let sent = shares(&by_weight, 0b111, 16);
    close(sent[0], 1.0 / 7.0);
    close(sent[1], 2.0 / 7.0);
    close(sent[2], 4.0 / 7.0);
    // Who is not there leaves his share to the others.
    let sent = shares(&by_weight, 0b101, 16);
    close(sent[0], 1.0 / 5.0);
    close(sent[2], 4.0 / 5.0);
}

#[test]
fn packets_go_whole() {
    // A turn of 16 blocks sends a packet of 33: an entry's turn is what its weight begins.
    let sent = shares(&tables(&[], &[(0, 16), (1, 66)], 0), 0b11, 33);
    close(sent[0], 1.0 / 3.0);
    close(sent[1], 2.0 / 3.0);
    let sent = shares(&tables(&[], &[(0, 16), (1, 34)], 0), 0b11, 33);
    close(sent[1], 2.0 / 3.0);
}

#[test]
fn the_limit_counts_4096_bytes() {
    // 3 * 4,096 bytes are 12 packets of 16 blocks; then one of the low table.
    let sent = shares(&tables(&[(0, 255)], &[(1, 1)], 3), 0b11, 16);
    close(sent[1], 1.0 / 13.0);
    // Limit 0: one packet.
    let sent = shares(&tables(&[(0, 255)], &[(1, 1)], 0), 0b11, 16);
    close(sent[1], 0.5);
    // Limit 255: the low table waits for ever, and has all if nobody is before it.
    let all = tables(&[(0, 255)], &[(1, 1)], NO_LIMIT);
    assert_eq!(shares(&all, 0b11, 16)[1], 0.0);
    close(shares(&all, 0b10, 16)[1], 1.0);
}

#[test]
fn the_high_table_keeps_its_pointer_while_the_low_one_is_served() {
    // Turns of two packets, a limit of one: 0, low, 0, low, 2, low, 2, low.
    let mut arbiter = Arbiter::new(&tables(&[(0, 32), (2, 32)], &[(1, 1)], 0));
    let order: Vec<_> = (0..8)
        .map(|_| arbiter.next(0b111, |_| 16).unwrap())
        .collect();
    assert_eq!(order, [0, 1, 0, 1, 2, 1, 2, 1]);
}

#[test]
fn who_is_in_no_table_or_has_no_weight_never_sends() {
    let odd = tables(&[(0, 0), (15, 9), (200, 9)], &[(1, 4), (2, 0)], 1);
    let mut arbiter = Arbiter::new(&odd);
    assert_eq!(arbiter.next(0b1101, |_| 1), None);
    assert_eq!(arbiter.next(0b1111, |_| 1), Some(1));
    let mut none = Arbiter::new(&tables(&[], &[], NO_LIMIT));
    assert_eq!(none.next(0x7fff, |_| 1), None);
    assert_eq!(none.next(0xffff, |_| 1), Some(VL15));
}

#[test]
fn management_comes_first() {
    let mut arbiter = Arbiter::new(&tables(&[(0, 255)], &[(1, 255)], NO_LIMIT));
    assert_eq!(arbiter.next(0x8003, |_| 33), Some(VL15));
    assert_eq!(arbiter.next(0x0003, |_| 33), Some(0));
}

#[test]
fn a_lane_of_both_tables_has_low_latency_and_its_share() {
    // VL 0 is in both: after the high table's packet the low one serves 0 and 1 in turn.
    let both = tables(&[(0, 16)], &[(0, 16), (1, 16)], 0);
    let sent = shares(&both, 0b11, 16);
    close(sent[1], 0.25);
}

/// The arbiter as its rules are told, on plain lists: every table is a list of turns that is rotated, and nothing is remembered but the list.
struct Slow {
    high: Vec<(u8, i64)>,
    low: Vec<(u8, i64)>,
    full: [Vec<i64>; 2],
    used: [usize; 2],
    limit: u8,
    since_low: Vec<u16>,
}

impl Slow {
    fn new(tables: &Tables) -> Slow {
        let turns = |entries: &[Entry]| -> Vec<(u8, i64)> {
            let kept = entries
                .iter()
                .take(64)
                .filter(|entry| entry.vl < 15 && entry.weight != 0);
            kept.map(|entry| (entry.vl, entry.weight.into())).collect()
        };
        let weights = |turns: &[(u8, i64)]| turns.iter().map(|turn| turn.1).collect();
        let (high, low) = (turns(&tables.high), turns(&tables.low));
        Slow {
            full: [weights(&high), weights(&low)],
            used: [0, 0],
            high,
            low,
            limit: tables.limit,
            since_low: Vec::new(),
        }
    }

    /// Serves one of a table's turns: rotates until one may send.
    fn serve(&mut self, which: usize, ready: u16, blocks: u16) -> Option<u8> {
        let turns = if which == 0 {
            &mut self.high
        } else {
            &mut self.low
        };
        for _ in 0..=turns.len() {
            let &(vl, left) = turns.first()?;
            if left > 0 && ready >> vl & 1 == 1 {
                turns[0].1 = left - i64::from(blocks);
                return Some(vl);
            }
            // Its turn is over; the next time it has its whole weight again.
            turns[0].1 = self.full[which][self.used[which]];
            self.used[which] = (self.used[which] + 1) % turns.len();
            turns.rotate_left(1);
        }
        None
    }

    fn has(turns: &[(u8, i64)], ready: u16) -> bool {
        turns.iter().any(|(vl, _)| ready >> vl & 1 == 1)
    }

    fn next(&mut self, ready: u16, blocks: u16) -> Option<u8> {
        if ready >> 15 == 1 {
            return Some(15);
        }
        let bytes: u64 = self.since_low.iter().map(|n| u64::from(*n) * 64).sum();
        let over = match self.limit {
            255 => false,
            0 => !self.since_low.is_empty(),
            limit => bytes >= u64::from(limit) * 4096,
        };
        let (high, low) = (Self::has(&self.high, ready), Self::has(&self.low, ready));
        if over && !low {
            self.since_low.clear();
        }
        if high && (!over || !low) {
            self.since_low.push(blocks);
            return self.serve(0, ready, blocks);
        }
        self.since_low.clear();
        if low {
            self.serve(1, ready, blocks)
        } else {
            None
        }
    }
}

fn some_tables() -> impl Strategy<Value = Tables> {
    let table =
        || prop::collection::vec((0..17u8, prop_oneof![Just(0u8), 1..9u8, any::<u8>()]), 0..9);
    let limit = prop_oneof![Just(0u8), Just(1), Just(2), Just(NO_LIMIT), any::<u8>()];
    (table(), table(), limit).prop_map(|(high, low, limit)| tables(&high, &low, limit))
}

proptest! {
    #[test]
    fn a_slow_arbiter_agrees(
        tables in some_tables(),
        asked in prop::collection::vec((any::<u16>(), any::<u16>(), 1..67u16), 1..200),
    ) {
        let (mut quick, mut slow) = (Arbiter::new(&tables), Slow::new(&tables));
        for (ready, fewer, blocks) in asked {
            let ready = ready & (fewer | 0x7fff);
            prop_assert_eq!(quick.next(ready, |_| blocks), slow.next(ready, blocks));
        }
    }

    /// A VL with weight in the low table is served in the end, unless the high table is unlimited.
    #[test]
    fn nobody_starves_below_a_limit(tables in some_tables().prop_filter("limited", |t| t.limit != NO_LIMIT)) {
        let mut arbiter = Arbiter::new(&tables);
        let mut sent = 0u16;
        for _ in 0..200_000 {
            let Some(vl) = arbiter.next(0x7fff, |_| 66) else { break };
            sent |= 1 << vl;
        }
        for entry in tables.low.iter().filter(|entry| entry.vl < 15 && entry.weight > 0) {
            prop_assert!(sent & 1 << entry.vl != 0, "VL {} of {:?}", entry.vl, tables);
        }
    }
}
