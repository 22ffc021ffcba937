//! The order in which nodes are looked at: in the order of time, or window by window, a group of nodes after the other. No result depends on it (`orders.rs`).

use super::part::Part;
use super::port::Port;
use super::sweep::Sweep;
use super::{NONE, ahead, layout};
use crate::agenda::Agenda;
use crate::queue::Queue;
use crate::time::Time;
use crate::windows::{ROOM_BITS, Windows};

/// A fabric of fewer lies in a core's nearest cache, and has few events in a window.
const MANY_PORTS: usize = 2048;
/// Below it, windows have too few events to be worth it.
const SHORTEST_WINDOW: Time = Time::from_ns(20);

/// Whether a fabric runs window by window where it can (see docs/design/fabric.md), or in the order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WindowsUse {
    /// If it has some two thousand ports.
    #[default]
    Large,
    /// If it has two switches, with each for itself.
    Always,
    /// Never.
    Never,
}

impl WindowsUse {
    /// Of a group of nodes that run together.
    pub(super) const fn fewest_ports(self) -> u32 {
        match self {
            WindowsUse::Always => 1,
            WindowsUse::Large | WindowsUse::Never => layout::FEW_PORTS,
        }
    }

    const fn wanted(self, ports: usize) -> bool {
        match self {
            WindowsUse::Large => ports >= MANY_PORTS,
            WindowsUse::Always => true,
            WindowsUse::Never => false,
        }
    }
}

impl Part {
    /// Window by window, if the fabric is large and news takes some time from group to group; else in the order of time.
    pub(super) fn choose_order(&mut self, groups: Vec<u16>) {
        // Who looks in vain, once more or less, must change nothing: none draws at random, looks at the credits of another port, or chooses among inputs that are busy elsewhere.
        let plain = self.settings.switch.looks_change_nothing();
        if !self.ahead || !plain || !self.settings.windows.wanted(self.ports.len()) {
            return;
        }
        let group_of = |port: usize| groups[port >> ROOM_BITS];
        let news = |(at, port): (usize, &Port)| {
            let leaves = port.peer != NONE && group_of(at) != group_of(port.peer as usize);
            leaves.then_some(self.kinds[port.kind as usize].delay)
        };
        let soonest = self.ports.iter().enumerate().filter_map(news).min();
        if let Some(width) = soonest.filter(|width| *width > SHORTEST_WINDOW) {
            let coloured = self.coloured(&groups);
            let two = coloured.is_some();
            let groups = coloured.unwrap_or(groups);
            self.queue = Agenda::Windows(Windows::new(width, groups, two));
        }
    }

    /// The groups' numbers with a colour in the lowest bit, so that no link is between two groups of one colour; none if that cannot be.
    fn coloured(&self, groups: &[u16]) -> Option<Vec<u16>> {
        let most = groups.iter().max()?;
        if *most > u16::MAX / 2 {
            return None;
        }
        let mut joined = vec![Vec::new(); usize::from(*most) + 1];
        for (at, port) in self.ports.iter().enumerate() {
            let peer = groups.get(port.peer as usize >> ROOM_BITS);
            let own = groups[at >> ROOM_BITS];
            if let Some(&peer) = peer.filter(|peer| **peer != own) {
                joined[usize::from(own)].push(peer.into());
            }
        }
        let colours = layout::two_colours(&joined)?;
        let tag = |group: &u16| group << 1 | u16::from(colours[usize::from(*group)]);
        Some(groups.iter().map(tag).collect())
    }

    /// In the order of time from now on: somebody looks at all nodes at once.
    pub(super) fn keep_time(&mut self) {
        if let Agenda::Windows(windows) = &mut self.queue {
            let mut queue = Queue::new(1 << 12, if self.looks_ahead { ahead::AHEAD } else { 0 });
            for (time, what) in windows.drain(|flight| self.flights.put(flight)) {
                queue.push(time, what);
            }
            self.queue = Agenda::Calendar(queue);
            self.sweep = Sweep::default();
        }
    }

    /// Runs until a time, alone.
    pub(super) fn run_until(&mut self, end: Time) {
        self.end = end;
        match self.queue {
            Agenda::Calendar(_) => self.run_in_time(end),
            Agenda::Windows(_) => self.run_by_windows(end),
        }
        (self.now, self.known) = (end, end);
        self.count_arrived();
    }

    fn run_in_time(&mut self, end: Time) {
        while let Agenda::Calendar(queue) = &mut self.queue
            && queue.next_time().is_some_and(|time| time <= end)
        {
            self.look_ahead();
            let Agenda::Calendar(queue) = &mut self.queue else {
                return;
            };
            let Some((time, what)) = queue.pop() else {
                return;
            };
            debug_assert!(time >= self.now);
            (self.now, self.known) = (time, time);
            self.events += 1;
            self.happens(what, what as u32 as usize);
        }
    }

    fn run_by_windows(&mut self, end: Time) {
        while let Agenda::Windows(windows) = &mut self.queue
            && let Some(others) = windows.open(end)
        {
            self.run_window(others);
        }
    }

    /// What had come at all other groups when a window was opened is all that nodes of two groups know of each other within it.
    #[inline]
    pub(super) fn run_window(&mut self, others: Time) {
        self.choose_sweep();
        loop {
            // not once more for what was put into the window, which is at hand anyway
            if let Agenda::Windows(windows) = &mut self.queue
                && windows.moved()
            {
                self.look_ahead();
            }
            let Agenda::Windows(windows) = &mut self.queue else {
                return;
            };
            let Some((time, what)) = windows.pop() else {
                return;
            };
            (self.now, self.known) = (time, time.min(others));
            self.events += 1;
            self.happens(what, what as u32 as usize);
        }
    }
}
