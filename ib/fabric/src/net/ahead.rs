//! Memory asked for before it is needed. On a large fabric each event meets a port, a switch and a host that no cache holds any more: a dozen lines of memory, each known by
//! what another says. The calendar knows of events long before they happen; so what each will look at is asked for in stages, a few events apart, each stage with what
//! the one before has brought. Hints alone: no result depends on them.

use super::{ARRIVE, FLIGHTS, Flight, KIND_SHIFT, Machine, Net, Port, WAKE};
use crate::frame::Frame;
use crate::host::{Adapter, SENDING_LINES};
use crate::switch::Switch;
use ferriband_prefetch::{LargePages, element, lines};

/// Events from one stage to the next: about as long as memory takes.
const APART: usize = 4;
/// Stages.
const STAGES: usize = 5;
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
    flights: &'a [Flight],
    switches: &'a [Switch],
    adapters: &'a [Adapter],
    by_lid: &'a [u32],
    delivered: &'a [super::FlowCount],
}

/// An event at a port: a packet comes, or it is asked for one.
#[derive(Clone, Copy)]
struct Event(u64);

impl Event {
    fn port(self) -> usize {
        self.0 as u32 as usize
    }

    fn flight(self) -> Option<usize> {
        (self.0 >> KIND_SHIFT == ARRIVE).then_some((self.0 >> 32) as usize & FLIGHTS)
    }
}

impl<'a> View<'a> {
    #[inline]
    fn look(&self, stage: usize, event: Event) {
        match stage {
            0 => self.first(event),
            1 => self.second(event),
            2 => self.third(event),
            3 => self.fourth(event),
            _ => self.fifth(event),
        }
    }

    /// The port and the packet. Who sends looks at the third line too.
    fn first(&self, event: Event) {
        let flight = event.flight();
        if let Some(port) = self.ports.get(event.port()) {
            lines(port, if flight.is_some() { 2 } else { 3 });
        }
        if let Some(flight) = flight {
            element(self.flights, flight);
        }
    }

    /// Where a packet goes, what waits at an output (switches are few: their own lines mostly are at hand); a host, and what it sends.
    fn second(&self, event: Event) {
        let Some(port) = self.ports.get(event.port()) else {
            return;
        };
        match port.machine {
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
                    lines(adapter, SENDING_LINES);
                }
            }
        }
    }

    /// The output of a packet; the input that an output will serve.
    fn third(&self, event: Event) {
        let Some((port, switch)) = self.at_switch(event) else {
            return;
        };
        let (other, most) = match self.frame(event) {
            Some(frame) => {
                let out = switch.way_of(frame);
                if let Some(out) = out {
                    switch.expect_pass(out);
                }
                (out, 3)
            }
            None => {
                let input = switch.likely_input(port.number);
                if let Some(input) = input {
                    switch.expect_queue(input, port.number);
                }
                (input, 2)
            }
        };
        if let Some(other) = other {
            let at = port.base as usize + usize::from(other);
            if let Some(port) = self.ports.get(at) {
                lines(port, most);
            }
        }
    }

    /// The host at the other end of the output's link; what waits at the input.
    fn fourth(&self, event: Event) {
        let Some((port, switch)) = self.at_switch(event) else {
            return;
        };
        if let Some(flight) = self.flight(event) {
            let Some(out) = switch.way_of(&flight.frame) else {
                return;
            };
            if !switch.expect_wait(port.number, out, flight.header_at)
                && let Some(at) = self.host_after(port, out)
            {
                if let Some(port) = self.ports.get(at) {
                    lines(port, 2);
                }
                element(self.by_lid, flight.frame.slid as usize);
            }
            return;
        }
        if let Some(input) = switch.likely_input(port.number) {
            switch.expect_head(input, port.number);
        }
    }

    /// The host behind the output, and the count of what has come from the packet's sender.
    fn fifth(&self, event: Event) {
        if let Some((port, switch)) = self.at_switch(event)
            && let Some(frame) = self.frame(event)
            && let Some(out) = switch.way_of(frame)
            && let Some(at) = self.host_after(port, out)
            && let Some(port) = self.ports.get(at)
            && let Machine::Adapter(index) = port.machine
            && let Some(adapter) = self.adapters.get(index as usize)
        {
            lines(adapter, 1);
            if let Some(source) = self.by_lid.get(frame.slid as usize) {
                element(self.delivered, *source as usize);
            }
        }
    }

    fn flight(&self, event: Event) -> Option<&'a Flight> {
        self.flights.get(event.flight()?)
    }

    fn frame(&self, event: Event) -> Option<&'a Frame> {
        Some(&self.flight(event)?.frame)
    }

    fn at_switch(&self, event: Event) -> Option<(&'a Port, &'a Switch)> {
        let port = self.ports.get(event.port())?;
        match port.machine {
            Machine::Switch(index) => Some((port, self.switches.get(index as usize)?)),
            Machine::Adapter(_) => None,
        }
    }

    /// The host's port at the other end of the link of a switch's output, if there is a host.
    fn host_after(&self, port: &Port, out: u8) -> Option<usize> {
        let out = self.ports.get(port.base as usize + usize::from(out))?;
        out.to_adapter.then_some(out.peer as usize)
    }
}

impl Net {
    /// Asks for large pages, before it runs for the first time: on pages of 4 KiB each look at another port, switch or host of a large fabric is a look at another page, and the processor,
    /// which knows some 3,000 of them, waits for page tables even where it only hints.
    #[cold]
    pub(super) fn ask_for_pages(&mut self) {
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
        let view = View {
            ports: &self.ports,
            flights: self.flights.slots(),
            switches: &self.switches,
            adapters: &self.adapters,
            by_lid: &self.by_lid,
            delivered: &self.delivered,
        };
        for stage in 0..STAGES {
            if let Some(what) = self.queue.coming((STAGES - stage) * APART)
                && what >> KIND_SHIFT <= WAKE
            {
                view.look(stage, Event(what));
            }
        }
    }
}
