//! Congestion control (papers/000 II-F, IBA annex A10): where packets are marked, and how a sender that is told slows down.
//!
//! Owns: the marking of an output's VL, the congestion control table and each flow's index into it. Must not know queues nor routes.

use crate::time::Time;

/// What a manager sets at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marking {
    /// An output's VL is congested while more than so many blocks of 64 bytes wait for it.
    pub threshold_blocks: u32,
    /// Packets that go unmarked between two that are marked.
    pub marking_rate: u16,
    /// Packets smaller than this are not marked, in bytes.
    pub smallest_bytes: u16,
}

/// Marks the packets of one VL of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marker {
    unmarked: u16,
}

impl Marker {
    /// A packet goes: is it to be marked? `waiting_blocks` waited for this VL with the packet itself; `root` says that it did not wait for credits
    /// (a port that lacks them hands on the congestion of another: its flows may be victims), or that the port marks nevertheless (Victim_Mask: a
    /// port to an adapter, which has nobody behind it).
    pub fn mark(
        &mut self,
        rule: &Marking,
        waiting_blocks: u32,
        length_bytes: u16,
        root: bool,
    ) -> bool {
        if waiting_blocks <= rule.threshold_blocks || !root || length_bytes < rule.smallest_bytes {
            return false;
        }
        if self.unmarked < rule.marking_rate {
            self.unmarked += 1;
            return false;
        }
        self.unmarked = 0;
        true
    }
}

/// An entry of the congestion control table: the injection delay of a packet is its own time on the wire, times the multiplier, shifted right; so
/// a flow runs at 1 / (1 + multiplier / 2^shift) of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CctEntry {
    /// 0 ..= 3.
    pub shift: u8,
    /// 14 bits.
    pub multiplier: u16,
}

impl CctEntry {
    /// The delay after a packet that takes so long.
    #[inline]
    pub const fn delay(&self, packet: Time) -> Time {
        Time((packet.0 * self.multiplier as u64) >> self.shift)
    }
}

/// What a congestion index belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Each queue pair has its own.
    QueuePair,
    /// All queue pairs of a service level have one.
    ServiceLevel,
}

/// What a manager sets at an adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Throttle {
    /// The congestion control table; an index never goes past its end.
    pub table: Vec<CctEntry>,
    /// What a BECN adds to the index.
    pub increase: u16,
    /// An index falls by one in this time.
    pub timer: Time,
    /// Where an index begins, and the least that it falls to.
    pub minimum: u16,
    /// Per what.
    pub scope: Scope,
}

impl Throttle {
    /// A table whose delays rise evenly: entry i slows to 1 / (1 + i * step / 8).
    pub fn even(entries: u16, step: u16) -> Vec<CctEntry> {
        let entry = |i: u16| CctEntry {
            shift: 3,
            multiplier: i.saturating_mul(step).min(0x3fff),
        };
        (0..entries).map(entry).collect()
    }
}

/// The index of a queue pair or a service level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Index {
    ccti: u16,
    /// The timer's runs that were taken off already.
    runs: u64,
    /// No packet goes before.
    not_before: Time,
}

impl Index {
    /// At the minimum.
    pub fn new(rule: &Throttle) -> Index {
        Index {
            ccti: rule.minimum,
            ..Index::default()
        }
    }

    /// The index now. The timer runs on by itself, so what it took off is found when somebody asks.
    pub fn now(&mut self, rule: &Throttle, now: Time) -> u16 {
        let runs = now.0 / rule.timer.0.max(1);
        let fallen = runs.saturating_sub(self.runs).min(u16::MAX.into()) as u16;
        self.runs = runs;
        self.ccti = self.ccti.saturating_sub(fallen).max(rule.minimum);
        self.ccti
    }

    /// A BECN came.
    pub fn becn(&mut self, rule: &Throttle, now: Time) {
        let last = rule
            .table
            .len()
            .saturating_sub(1)
            .min(usize::from(u16::MAX)) as u16;
        let raised = self.now(rule, now).saturating_add(rule.increase);
        self.ccti = raised.min(last);
    }

    /// A packet goes from `start` to `end`: the next one waits.
    pub fn sent(&mut self, rule: &Throttle, start: Time, end: Time) {
        let index = usize::from(self.now(rule, start));
        let entry = rule.table.get(index).copied().unwrap_or_default();
        self.not_before = end + entry.delay(end.since(start));
    }

    /// When the next packet may go.
    pub const fn not_before(&self) -> Time {
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Throttle {
        Throttle {
            table: Throttle::even(128, 2),
            increase: 5,
            timer: Time::from_us(10),
            minimum: 1,
            scope: Scope::QueuePair,
        }
    }

    #[test]
    fn each_marking_rate_th_packet_is_marked_where_congestion_begins() {
        let rule = Marking {
            threshold_blocks: 100,
            marking_rate: 3,
            smallest_bytes: 64,
        };
        let mut marker = Marker::default();
        let marks = |marker: &mut Marker, waiting, length, root| {
            (0..12)
                .filter(|_| marker.mark(&rule, waiting, length, root))
                .count()
        };
        assert_eq!(marks(&mut marker, 101, 2048, true), 3);
        assert_eq!(marks(&mut marker, 100, 2048, true), 0);
        assert_eq!(marks(&mut marker, 101, 2048, false), 0, "a victim's port");
        assert_eq!(marks(&mut marker, 101, 63, true), 0);
    }

    #[test]
    fn an_index_rises_with_becns_and_falls_with_time() {
        let rule = rule();
        let mut index = Index::new(&rule);
        assert_eq!(index.now(&rule, Time::ZERO), 1);
        index.becn(&rule, Time::from_us(1));
        index.becn(&rule, Time::from_us(2));
        assert_eq!(index.now(&rule, Time::from_us(3)), 11);
        assert_eq!(index.now(&rule, Time::from_us(40)), 7);
        assert_eq!(index.now(&rule, Time::from_us(1_000)), 1);
        for _ in 0..1_000 {
            index.becn(&rule, Time::from_us(1_000));
        }
        assert_eq!(index.now(&rule, Time::from_us(1_000)), 127);
    }

    #[test]
    fn the_rate_is_that_of_the_table() {
        let rule = rule();
        let mut index = Index::new(&rule);
        for _ in 0..8 {
            index.becn(&rule, Time::ZERO);
        }
        // 41 * 2 / 8: the packet's time 10.25 times over.
        index.sent(&rule, Time::from_ns(100), Time::from_ns(200));
        assert_eq!(index.not_before(), Time::from_ns(200 + 1_025));
        let empty = Throttle {
            table: Vec::new(),
            ..rule
        };
        let mut index = Index::new(&empty);
        index.becn(&empty, Time::ZERO);
        index.sent(&empty, Time::ZERO, Time(7));
        assert_eq!(index.not_before(), Time(7));
    }
}
