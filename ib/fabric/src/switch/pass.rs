//! The short way through a switch: a packet that finds its output idle goes on at once, without a queue. And what a driver that knows of a packet beforehand may ask memory for.

use super::{Departure, Release, Switch, after};
use crate::frame::{Frame, FrameKind};
use crate::time::Time;
use ferriband_prefetch::{LargePages, Stretch, element};

impl Switch {
    /// Its ports had better lie on large pages.
    pub(crate) fn ask_for_pages(&self, pages: &mut LargePages) {
        pages.ask(&self.outputs);
        pages.ask(&self.lanes);
    }

    /// What frames that come and go look at of its ports, and of its queues.
    pub(crate) fn stretches(&self) -> [Stretch; 5] {
        let first = &self.lanes[..self.outputs.len()];
        let [cells, tails] = self.queues.stretches();
        let rows = self.linear.stretch();
        [
            Stretch::of(&self.outputs),
            Stretch::of(first),
            cells,
            tails,
            rows,
        ]
    }

    /// Soon a frame will come by a port.
    #[inline]
    pub(crate) fn expect_frame(&self, frame: &Frame) {
        self.linear.expect(frame.dlid);
    }

    /// Where a frame to one port goes.
    #[inline]
    pub(crate) fn way_of(&self, frame: &Frame) -> Option<u8> {
        self.linear.get(frame.dlid)
    }

    /// Soon a frame will want to pass by an output.
    #[inline]
    pub(crate) fn expect_pass(&self, out: u8) {
        element(&self.outputs, out.into());
    }

    /// Soon a frame will come that is likely to wait for an output, and to be put into a queue. False if it is likely to pass.
    #[inline]
    pub(crate) fn expect_wait(&self, input: u8, out: u8, at: Time) -> bool {
        let busy = |output: &super::Output| output.lanes != 0 || output.free_at > at;
        let waits = self.outputs.get(usize::from(out)).is_some_and(busy);
        if waits {
            element(&self.lanes, self.lane_index(out, 0));
            self.queues.expect(self.queue_index(input, 0, out, 0));
            self.queues.expect_append();
        }
        waits
    }

    /// Soon an output will be asked.
    #[inline]
    pub(crate) fn expect_output(&self, out: u8) {
        element(&self.outputs, out.into());
        element(&self.lanes, self.lane_index(out, 0));
    }

    /// The input that an output is likely to serve next, by its first lane.
    #[inline]
    pub(crate) fn likely_input(&self, out: u8) -> Option<u8> {
        let lane = self.lanes.get(self.lane_index(out, 0))?;
        after(&lane.asks, self.last(out, 0))
    }

    /// Soon somebody looks what an input has for an output.
    #[inline]
    pub(crate) fn expect_queue(&self, input: u8, out: u8) {
        self.queues.expect(self.queue_index(input, 0, out, 0));
    }

    /// Soon the first of it is taken.
    #[inline]
    pub(crate) fn expect_head(&self, input: u8, out: u8) {
        self.queues.expect_head(self.queue_index(input, 0, out, 0));
    }

    /// The output and its lane that a data packet may take at once, its header having come at `header_at`: nothing waits for that output, and nobody has to
    /// choose. The same comes out of [`Self::arrives`] and [`Self::next`], at several times the cost: most packets of a fabric that is not full meet nobody.
    #[inline]
    pub fn may_pass(
        &self,
        now: Time,
        header_at: Time,
        input: u8,
        frame: &Frame,
    ) -> Option<(u8, u8)> {
        if !self.passes || frame.kind != FrameKind::Data {
            return None;
        }
        let out = self.linear.get(frame.dlid)?;
        let output = self.outputs.get(usize::from(out))?;
        let idle = output.lanes == 0 && output.free_at <= now && output.up;
        if !idle || out == 0 || out == input || !self.arbiters.is_empty() {
            return None;
        }
        let lane = self.lane_for(input, out, frame)?;
        let marks = self.model.marking;
        if marks.is_some_and(|rule| u32::from(frame.blocks()) > rule.threshold_blocks) {
            return None;
        }
        (header_at + self.lead(input, out, frame) <= now).then_some((out, lane))
    }

    /// A packet passes that [`Self::may_pass`] let pass; there are credits for it.
    #[inline]
    pub fn pass(
        &mut self,
        now: Time,
        input: u8,
        (port, lane): (u8, u8),
        mut frame: Frame,
        wire_free: Time,
    ) -> Departure {
        let vl = self.lane_in(&frame);
        self.set_last(port, lane, input);
        let length = u32::from(frame.length_bytes);
        let start = now.max(wire_free);
        let end = start + self.byte_of(port).wire_time(length);
        let output = &mut self.outputs[usize::from(port)];
        output.free_at = end;
        output.xmit_packets += 1;
        output.xmit_bytes += u64::from(length);
        frame.vl = lane;
        Departure {
            frame,
            port,
            start,
            end,
            release: Some(Release {
                port: input,
                vl,
                blocks: frame.blocks(),
                at: end,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::{Frame, FrameKind};
    use crate::random::Random;
    use crate::switch::{Arrival, Next, Switch, SwitchModel, Wires};
    use crate::time::{LinkRate, Time};

    /// Wires that have been free for a time, or will be, and lack no credits.
    struct Free(Time);

    impl Wires for Free {
        fn free_at(&self, _: u8) -> Time {
            self.0
        }

        fn may_send(&self, _: u8, _: u8, _: u16) -> bool {
            true
        }
    }

    #[test]
    fn the_short_way_ends_where_the_long_one_does() {
        let rates: Vec<_> = (1..=4)
            .map(|lanes| LinkRate::new(25_000_000 * u64::from(lanes), lanes))
            .collect();
        let mut switch = Switch::new(SwitchModel::default(), &rates, 1);
        switch.set_linear((0..=6).collect());
        let (mut random, mut now, mut passed, mut kept) = (Random::new(5, 5), Time::ZERO, 0, 0);
        for _ in 0..20_000 {
            now += Time(u64::from(random.below(400_000)));
            let input = random.below(4) as u8 + 1;
            let frame = Frame {
                handle: 0,
                dlid: random.below(8),
                slid: 1,
                length_bytes: 64 + random.below(4_000) as u16,
                sl: 0,
                vl: 0,
                kind: FrameKind::Data,
                fecn: false,
                becn: false,
            };
            let wires = Free(now.since(Time(500)) + Time(u64::from(random.below(1_000))));
            let way = switch.may_pass(now, now, input, &frame);
            let mut long = switch.clone();
            let arrival = long.arrives(now, now, input, frame);
            let Some(way) = way else {
                kept += 1;
                switch = long;
                // nothing stays for long
                while switch.pop_poke().is_some() {}
                for port in 1..=4 {
                    let _ = switch.next(now, port, &wires);
                }
                while switch.pop_poke().is_some() {}
                continue;
            };
            assert_eq!(arrival, Arrival::Kept);
            assert_eq!(long.pop_poke(), Some((way.0, now)));
            let went = switch.pass(now, input, way, frame, wires.0);
            assert_eq!(long.next(now, way.0, &wires), Next::Sent(went));
            assert!(long.pop_poke().is_none());
            for port in 0..=4 {
                assert_eq!(switch.counters(port), long.counters(port));
                assert_eq!(switch.has_work(port), long.has_work(port));
                assert_eq!(
                    switch.outputs[usize::from(port)].free_at,
                    long.outputs[usize::from(port)].free_at
                );
            }
            let last =
                |switch: &Switch| (1..=4).map(|port| switch.last(port, 0)).collect::<Vec<_>>();
            assert_eq!(last(&switch), last(&long));
            passed += 1;
        }
        assert!(passed > 2_000 && kept > 2_000, "{passed} {kept}");
    }
}
