//! Memory asked for before it is needed. On a large fabric each event meets a port, a switch and a host that no cache holds any more: a dozen lines of memory, each known by
//! what another says. Events are known long before they happen; so what each will look at is asked for in stages, a few events apart, each stage with what
//! the one before has brought. Where windows are full, [`super::sweep`] asks for all of a group as it lies instead, and what is left of this are forwarding tables. Hints alone: no result depends on them.

use super::part::Part;
use super::port::Received;
use super::{Machine, NONE, Port};
use crate::agenda::Agenda;
use crate::event::{ARRIVE, Flight, KIND_SHIFT, WAKE, place_of, port_of};
use crate::frame::Frame;
use crate::host::Adapter;
use crate::switch::Switch;
use crate::windows::is_chunked;
use ferriband_prefetch::{LargePages, element, lines};

/// Events from one stage to the next: about as long as memory takes.
const APART: usize = 4;
/// Stages.
const STAGES: usize = 5;
/// Lines of an adapter.
const ADAPTER_LINES: usize = size_of::<Adapter>() / 64;
/// Lines of a port.
const PORT_LINES: usize = size_of::<Port>() / 64;
/// Of so many events it is known what a stage has found: no fewer than from a stage to the next.
pub(super) const KEPT: usize = 8;
/// How many events ahead the first stage looks.
pub(super) const AHEAD: usize = APART * STAGES;
/// A fabric of so many bytes of ports, or fewer, lies in a core's own cache, where hints only cost.
const CACHED_BYTES: usize = 1 << 20;

/// How many events ahead a fabric of so many ports looks: 0 if it is too small for it.
pub(super) const fn events(ports: usize) -> usize {
    match ports * size_of::<Port>() > CACHED_BYTES {
        true => AHEAD,
        false => 0,
    }
}

/// What events are about.
struct View<'a> {
    ports: &'a [Port],
    received: &'a [Received],
    queue: &'a Agenda,
    flights: &'a [Flight],
    switches: &'a [Switch],
    adapters: &'a [Adapter],
}

/// An event at a port: a packet comes, or it is asked for one.
#[derive(Clone, Copy)]
struct Event(u64);

impl Event {
    fn port(self) -> usize {
        port_of(self.0)
    }

    fn flight(self) -> Option<u32> {
        (self.0 >> KIND_SHIFT == ARRIVE).then(|| place_of(self.0))?
    }
}

impl<'a> View<'a> {
    /// The port and the packet.
    fn first(&self, event: Event) {
        let flight = event.flight();
        if let Some(port) = self.ports.get(event.port()) {
            lines(port, PORT_LINES);
        }
        if let Some(flight) = flight {
            element(self.received, event.port());
            match self.queue {
                Agenda::Windows(windows) if is_chunked(flight) => {
                    if let Some(flight) = windows.flight(flight) {
                        lines(flight, 1);
                    }
                }
                _ => element(self.flights, flight as usize),
            }
        }
    }

    /// Where a packet goes, what waits at an output (switches are few: their own lines mostly are at hand); a host, and what it sends.
    fn second(&self, event: Event) {
        let Some(port) = self.ports.get(event.port()) else {
            return;
        };
        match port.machine() {
            Machine::Switch(index) => {
                let Some(switch) = self.switches.get(index as usize) else {
                    return;
                };
                match self.frame(event) {
                    Some(frame) => switch.expect_frame(frame),
                    None => switch.expect_output(port.number),
                }
            }
            Machine::Adapter(index) => {
                if let Some(adapter) = self.adapters.get(index as usize) {
                    lines(adapter, ADAPTER_LINES);
                }
            }
        }
    }

    /// The output of a packet; the input that an output will serve. That port of the switch.
    fn third(&self, event: Event) -> Option<u8> {
        let (port, switch) = self.at_switch(event)?;
        let other = match self.frame(event) {
            Some(frame) => {
                let out = switch.way_of(frame)?;
                switch.expect_pass(out);
                out
            }
            None => {
                let input = switch.likely_input(port.number)?;
                switch.expect_queue(input, port.number);
                input
            }
        };
        let at = event.port() - usize::from(port.number) + usize::from(other);
        if let Some(port) = self.ports.get(at) {
            lines(port, PORT_LINES);
        }
        Some(other)
    }

    /// The host at the other end of the output's link; what waits at the input. The host's port, by what the stage before has found.
    fn fourth(&self, event: Event, other: u8) -> Option<usize> {
        let (port, switch) = self.at_switch(event)?;
        let Some(flight) = self.flight(event) else {
            switch.expect_head(other, port.number);
            return None;
        };
        if switch.expect_wait(port.number, other, flight.header_at) {
            return None;
        }
        let at = self.host_after(event.port() - usize::from(port.number), other)?;
        lines(self.ports.get(at)?, PORT_LINES);
        Some(at)
    }

    /// The host behind the output, and the count of what has come from the packet's sender.
    fn fifth(&self, host: usize) {
        if let Some(port) = self.ports.get(host)
            && let Machine::Adapter(index) = port.machine()
            && let Some(adapter) = self.adapters.get(index as usize)
        {
            lines(adapter, 1);
        }
    }

    fn flight(&self, event: Event) -> Option<&'a Flight> {
        let place = event.flight()?;
        match self.queue {
            Agenda::Windows(windows) if is_chunked(place) => windows.flight(place),
            _ => self.flights.get(place as usize),
        }
    }

    fn frame(&self, event: Event) -> Option<&'a Frame> {
        Some(&self.flight(event)?.frame)
    }

    fn at_switch(&self, event: Event) -> Option<(&'a Port, &'a Switch)> {
        let port = self.ports.get(event.port())?;
        match port.machine() {
            Machine::Switch(index) => Some((port, self.switches.get(index as usize)?)),
            Machine::Adapter(_) => None,
        }
    }

    /// The host's port at the other end of the link of a switch's output, if there is a host.
    fn host_after(&self, base: usize, out: u8) -> Option<usize> {
        let out = self.ports.get(base + usize::from(out))?;
        out.to_adapter().then_some(out.peer as usize)
    }
}

impl Part {
    /// Asks for large pages, before it runs for the first time: on pages of 4 KiB each look at another port, switch or host of a large fabric is a look at another page, and the processor,
    /// which knows some 3,000 of them, waits for page tables even where it only hints.
    #[cold]
    pub(super) fn prepare(&mut self) {
        if !self.looks_ahead {
            return;
        }
        self.prepare_sweeps();
        let mut pages = LargePages::default();
        pages.ask(&self.ports);
        pages.ask(&self.adapters);
        pages.ask(&self.delivered);
        pages.ask(&self.by_lid);
        self.switches
            .iter()
            .for_each(|switch| switch.ask_for_pages(&mut pages));
    }

    /// Asks for what the events to come look at: each stage for one event, as far ahead as it has to be.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if !self.looks_ahead {
            return;
        }
        let swept = self.sweep();
        let view = View {
            ports: &self.ports,
            received: &self.received,
            queue: &self.queue,
            flights: self.flights.slots(),
            switches: &self.switches,
            adapters: &self.adapters,
        };
        let coming = |stages: usize| {
            let what = self.queue.coming(stages * APART)?;
            (what >> KIND_SHIFT <= WAKE).then_some(Event(what))
        };
        if swept {
            if let Some(event) = coming(1) {
                view.first(event);
            }
            if let Some(event) = coming(1)
                && let Some((_, switch)) = view.at_switch(event)
                && let Some(frame) = view.frame(event)
            {
                switch.expect_frame(frame);
            }
            return;
        }
        // what a stage finds out is kept for the next
        if let Some(event) = coming(STAGES) {
            view.first(event);
        }
        if let Some(event) = coming(STAGES - 1) {
            view.second(event);
        }
        let now = self.look % KEPT;
        let before = |stages: usize| (self.look + KEPT - stages * APART) % KEPT;
        let other = coming(STAGES - 2).and_then(|event| view.third(event));
        self.others[now] = other;
        let host = match self.others[before(1)] {
            Some(other) => coming(STAGES - 3).and_then(|event| view.fourth(event, other)),
            None => None,
        };
        self.hosts[now] = host.map_or(NONE, |at| at as u32);
        let host = self.hosts[before(1)];
        if host != NONE {
            view.fifth(host as usize);
        }
        self.look = (now + 1) % KEPT;
    }
}
