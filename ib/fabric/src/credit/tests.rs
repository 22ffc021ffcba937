//! Laws of flow control, over links that lose packets, wires that take their time, and ends that lie.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const SDR: LinkRate = LinkRate::new(8_000_000, 4);

/// What is on the wire.
#[derive(Clone, Copy, Debug)]
enum Item {
    Packet(u16),
    Flow(Flow),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An end sends a packet of so many blocks, if it may.
    Send(usize, u16),
    /// The oldest thing on the wire towards an end arrives.
    Arrive(usize),
    /// The oldest thing on the wire towards an end is lost.
    Lose(usize),
    /// A packet leaves an end's buffer.
    Free(usize),
    /// An end's flow-control packet goes.
    Tell(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = 0..2usize;
    prop::collection::vec(
        prop_oneof![
            4 => (end.clone(), 1..67u16).prop_map(|(end, blocks)| Step::Send(end, blocks)),
            4 => end.clone().prop_map(Step::Arrive),
            1 => end.clone().prop_map(Step::Lose),
            3 => end.clone().prop_map(Step::Free),
            3 => end.prop_map(Step::Tell),
        ],
        0..400,
    )
}

/// Two ends, what is on the wire towards each, and what each keeps.
struct Link {
    ends: [LinkEnd; 2],
    wires: [VecDeque<Item>; 2],
    kept: [VecDeque<u16>; 2],
    buffer: u16,
}

impl Link {
    /// `turns` rounds the counters before the beginning, so that they wrap.
    fn new(buffer: u16, begin: u16) -> Link {
        let mut end = LinkEnd::new(Time::ZERO, 1, buffer, &SDR);
        let lane = &mut end.lanes[0];
        (lane.sender.tbs, lane.sender.cl) = (begin, begin);
        lane.receiver.abr = begin;
        Link {
            ends: [end.clone(), end],
            wires: Default::default(),
            kept: Default::default(),
            buffer,
        }
    }

    fn tell(&mut self, end: usize) {
        self.ends[end].due = 1;
        let flow = self.ends[end].next(Time::ZERO).unwrap();
        self.wires[1 - end].push_back(Item::Flow(flow));
    }

    fn arrive(&mut self, end: usize) {
        match self.wires[end].pop_front() {
            Some(Item::Packet(blocks)) => {
                let kept = self.ends[end].receiver(0).unwrap().received(blocks);
                assert!(kept, "an honest sender overran the buffer");
                self.kept[end].push_back(blocks);
            }
            Some(Item::Flow(flow)) => assert!(self.ends[end].heard(Time::ZERO, flow)),
            None => {}
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send(end, blocks) => {
                let sender = self.ends[end].sender(0).unwrap();
                if sender.may_send(blocks) {
                    sender.sent(blocks);
                    self.wires[1 - end].push_back(Item::Packet(blocks));
                }
            }
            Step::Arrive(end) => self.arrive(end),
            Step::Lose(end) => drop(self.wires[end].pop_front()),
            Step::Free(end) => {
                if let Some(blocks) = self.kept[end].pop_front() {
                    self.ends[end].freed(0, blocks);
                }
            }
            Step::Tell(end) => self.tell(end),
        }
        for end in 0..2 {
            let flying: u16 = self.wires[end]
                .iter()
                .map(|item| match item {
                    Item::Packet(blocks) => *blocks,
                    Item::Flow(_) => 0,
                })
                .sum();
            let kept: u16 = self.kept[end].iter().sum();
            assert!(flying + kept <= self.buffer, "{flying} + {kept} blocks");
            assert_eq!(
                kept + self.ends[end].receiver(0).unwrap().free_blocks(),
                self.buffer
            );
        }
    }

    /// Everything arrives, each end tells, that arrives too.
    fn settle(&mut self) {
        for _ in 0..2 {
            for end in 0..2 {
                while !self.wires[end].is_empty() {
                    self.arrive(end);
                }
            }
            // Twice: what is told first brings the other's ABR up to date, which the second limit is made of.
            self.tell(0);
            self.tell(1);
        }
        for end in 0..2 {
            while !self.wires[end].is_empty() {
                self.arrive(end);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_buffer_is_never_overrun_and_what_is_lost_comes_back(
        buffer in 1..6_000u16, begin in 0..4096u16, steps in steps(),
    ) {
        let mut link = Link::new(buffer, begin);
        link.settle();
        for step in steps {
            link.step(step);
        }
        link.settle();
        for end in 0..2 {
            let free = link.ends[1 - end].receiver(0).unwrap().free_blocks();
            prop_assert_eq!(link.ends[end].sender(0).unwrap().credits(), free.min(WINDOW));
        }
    }

    #[test]
    fn the_condition_is_that_of_the_paper(tbs in 0..4096u16, cl in 0..4096u16, blocks in 0..2_049u16) {
        let sender = Sender { tbs, cl };
        let left = (i32::from(cl) - (i32::from(tbs) + i32::from(blocks))).rem_euclid(4096);
        prop_assert_eq!(sender.may_send(blocks), left <= 2048);
        // As a sender of whole numbers would put it, as long as the limit lies in its window.
        if sender.credits() > 0 {
            prop_assert_eq!(sender.may_send(blocks), blocks <= sender.credits() || blocks - sender.credits() >= 2048);
        }
    }

    /// Whatever comes from the other end: nothing panics, our buffer is not overrun, and we never send more than a window at a time.
    #[test]
    fn lies_do_no_harm(
        buffer in 0..6_000u16,
        said in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>()), 0..200),
    ) {
        let mut end = LinkEnd::new(Time::ZERO, 3, buffer, &SDR);
        for (vl, fctbs, fccl, blocks) in said {
            prop_assert_eq!(end.heard(Time::ZERO, Flow { vl, fctbs, fccl }), vl < 3);
            let Some(receiver) = end.receiver(vl) else { continue };
            let before = receiver.free_blocks();
            let kept = receiver.received(blocks);
            prop_assert_eq!(kept, blocks <= before);
            prop_assert!(receiver.free_blocks() <= buffer);
            let mut sent = 0;
            let sender = end.sender(vl).unwrap();
            while sent <= 2 * WINDOW && sender.credits() > 0 {
                sender.sent(1);
                sent += 1;
            }
            prop_assert!(sent <= WINDOW);
            prop_assert!(!sender.may_send(u16::MAX));
        }
        while let Some(flow) = end.next(Time::ZERO) {
            prop_assert!(flow.fctbs < 4096 && flow.fccl < 4096 && flow.vl < 3);
        }
    }
}

#[test]
fn the_example_of_the_paper_goes_its_six_steps() {
    // A and B, 100 blocks of buffer each; A sends a packet of 33 blocks.
    let mut link = Link::new(100, 4_090);
    link.settle();
    link.step(Step::Send(0, 33));
    link.step(Step::Arrive(1));
    let b = *link.ends[1].receiver(0).unwrap();
    assert_eq!((b.free, b.abr), (67, (4_090 + 33) % 4096));
    link.tell(1);
    link.step(Step::Arrive(0));
    let a = *link.ends[0].sender(0).unwrap();
    assert_eq!(a.credits(), 67);
    assert!(a.may_send(67) && !a.may_send(68));
}

#[test]
fn a_larger_buffer_than_the_window_is_offered_in_parts() {
    let receiver = Receiver::new(4_000);
    let mut sender = Sender::default();
    sender.limit(receiver.credit_limit());
    assert_eq!(sender.credits(), WINDOW);
}

#[test]
fn flow_control_packets_go_when_blocks_are_freed_and_at_least_every_65536_symbols() {
    let mut end = LinkEnd::new(Time::ZERO, 2, 128, &SDR);
    assert_eq!(end.wakes_at(), Time::ZERO);
    let first: Vec<_> = std::iter::from_fn(|| end.next(Time::ZERO)).collect();
    assert_eq!(first.len(), 2);
    assert_eq!((first[1].vl, first[1].fccl), (1, 128));
    // 4 ns a symbol.
    let refresh = Time::from_ns(4 * 65_536);
    assert_eq!(end.wakes_at(), refresh);
    assert!(end.receiver(1).unwrap().received(20));
    assert!(end.next(Time(5)).is_none());
    end.freed(1, 15);
    end.freed(1, 5);
    assert_eq!(end.wakes_at(), Time::ZERO);
    let one = end.next(Time(7)).unwrap();
    assert_eq!((one.vl, one.fccl), (1, 148));
    assert!(end.next(Time(8)).is_none());
    assert_eq!(end.next(refresh).unwrap().vl, 0);
    assert!(end.next(refresh).is_none());
    assert_eq!(end.wakes_at(), refresh + Time(7));
}

#[test]
fn an_end_that_falls_silent_is_noticed() {
    let mut end = LinkEnd::new(Time::ZERO, 2, 128, &SDR);
    let watchdog = Time::from_ns(4 * 400_000);
    let word = |vl| Flow {
        vl,
        fctbs: 0,
        fccl: 1,
    };
    assert!(!end.silent(Time(watchdog.0 - 1)));
    assert!(end.silent(watchdog));
    end.heard(Time(10), word(0));
    assert!(end.silent(watchdog), "the other VL is silent still");
    end.heard(Time(10), word(1));
    assert!(!end.silent(watchdog));
    assert!(end.silent(watchdog + Time(10)));
}
