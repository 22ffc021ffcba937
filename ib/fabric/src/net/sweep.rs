//! Memory of the next group of nodes, asked for as it lies while the group before it is worked off. In a window that is not much emptier than full, nearly all of a group's ports and hosts are
//! looked at, and lines that are asked for in the order in which they lie come three times as fast as in the order of events ([`super::ahead`]), by addresses that need no finding out. Hints
//! alone: no result depends on them.

use super::part::Part;
use super::port::Port;
use super::{Machine, NONE};
use crate::agenda::Agenda;
use crate::windows::ROOM_BITS;
use ferriband_prefetch::Stretch;
use std::ops::Range;

/// A window with an event for so many lines of its groups is worth it.
const LINES_AN_EVENT: usize = 30;
/// Lines that are asked for with one event at the most.
const MOST_AT_ONCE: usize = 64;

/// Where a group's nodes lie, among those of their kind.
#[derive(Clone, Debug, Default)]
struct Span {
    ports: Range<usize>,
    switches: Range<usize>,
    adapters: Range<usize>,
}

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// By group; none if there are no windows.
    spans: Vec<Span>,
    /// By the colour of a window: lines of its groups.
    lines: [usize; 2],
    /// The window at hand is full enough.
    on: bool,
    /// How many groups had been begun when it was begun.
    begun: u64,
    stretches: Vec<Stretch>,
    /// The one at hand.
    at: usize,
    /// Lines with each event.
    each: usize,
}

impl Part {
    /// Learns where groups lie.
    pub(super) fn prepare_sweeps(&mut self) {
        let Agenda::Windows(windows) = &self.queue else {
            return;
        };
        let (groups, coloured) = windows.groups();
        let most = groups.iter().max().map_or(0, |most| usize::from(*most));
        let mut sweep = Sweep {
            spans: vec![Span::default(); most + 1],
            ..Sweep::default()
        };
        for (at, port) in self.ports.iter().enumerate() {
            if port.peer == NONE || at >= self.border as usize {
                continue;
            }
            let span = &mut sweep.spans[usize::from(groups[at >> ROOM_BITS])];
            widen(&mut span.ports, at);
            match port.machine() {
                Machine::Switch(index) => widen(&mut span.switches, index as usize),
                Machine::Adapter(index) => widen(&mut span.adapters, index as usize),
            }
        }
        for (group, span) in sweep.spans.iter().enumerate() {
            let lines = self.stretches(span).map(|stretch| stretch.left());
            sweep.lines[group & usize::from(coloured)] += lines.sum::<usize>();
        }
        self.sweep = sweep;
    }

    /// What of a group is looked at.
    fn stretches(&self, span: &Span) -> impl Iterator<Item = Stretch> {
        let ports: &[Port] = &self.ports[span.ports.clone()];
        let adapters = Stretch::of(&self.adapters[span.adapters.clone()]);
        let switches = self.switches[span.switches.clone()].iter();
        let received = Stretch::of(&self.received[span.ports.clone()]);
        [Stretch::of(ports), received, adapters]
            .into_iter()
            .chain(switches.flat_map(|switch| switch.stretches()))
    }

    /// A window begins: whether memory is asked for so in it.
    pub(super) fn choose_sweep(&mut self) {
        if self.sweep.spans.is_empty() {
            return;
        }
        let Agenda::Windows(windows) = &self.queue else {
            return;
        };
        let (events, colour) = windows.planned();
        self.sweep.on = events * LINES_AN_EVENT > self.sweep.lines[colour];
        if self.sweep.on {
            // nobody comes before the first
            self.begin_sweep();
            while self.sweep_on(MOST_AT_ONCE) {}
        }
    }

    /// With each event of a window. False if it is too empty.
    #[inline]
    pub(super) fn sweep(&mut self) -> bool {
        if !self.sweep.on {
            return false;
        }
        if let Agenda::Windows(windows) = &self.queue
            && windows.begun() != self.sweep.begun
        {
            self.begin_sweep();
        }
        self.sweep_on(self.sweep.each);
        true
    }

    #[inline]
    fn sweep_on(&mut self, mut lines: usize) -> bool {
        let sweep = &mut self.sweep;
        while let Some(stretch) = sweep.stretches.get_mut(sweep.at) {
            lines = stretch.ask(lines);
            if lines == 0 {
                return true;
            }
            sweep.at += 1;
        }
        false
    }

    /// A group is begun: the next is asked for.
    #[inline(never)]
    fn begin_sweep(&mut self) {
        let Agenda::Windows(windows) = &self.queue else {
            return;
        };
        self.sweep.begun = windows.begun();
        let mut stretches = std::mem::take(&mut self.sweep.stretches);
        stretches.clear();
        if let Some(group) = windows.next_group() {
            stretches.extend(self.stretches(&self.sweep.spans[group]));
            stretches.extend(windows.stretches_of_next());
        }
        let lines: usize = stretches.iter().map(Stretch::left).sum();
        let each = lines.div_ceil(windows.left_of_group().max(1));
        (self.sweep.at, self.sweep.each) = (0, each.min(MOST_AT_ONCE));
        self.sweep.stretches = stretches;
    }
}

fn widen(range: &mut Range<usize>, at: usize) {
    *range = match range.start == range.end {
        true => at..at + 1,
        false => range.start.min(at)..range.end.max(at + 1),
    };
}
