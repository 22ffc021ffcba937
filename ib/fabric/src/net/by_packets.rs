//! Credits packet by packet: each flow-control packet is an event at its sender and another at its
//! receiver. Only tests run so: it is what they compare the product's way with (`links.rs`).

use super::part::Part;
use crate::credit::REFRESH_SYMBOLS;
use crate::event::{REFRESH, TELL, event};

impl Part {
    /// What is due to be freed by now is (credits by packets).
    pub(super) fn free(&mut self, port: usize) {
        while let Some(&freed) = self.ports[port].first_freed()
            && freed.at() <= self.now
        {
            self.ports[port].forget_freed(&mut self.rests);
            self.lane(port, freed.vl()).receiver.freed(freed.blocks());
            self.due[port] |= 1 << freed.vl();
        }
        self.tell(port);
    }

    /// Sends what is due, or waits for the wire.
    pub(super) fn tell(&mut self, port: usize) {
        if self.due[port] == 0 {
            return;
        }
        let free = self.ports[port].wire_free;
        if free > self.now {
            self.queue.push(free, event(TELL, port));
        } else {
            self.tell_all(port);
        }
    }

    /// Sends what is due if the wire is free, each VL's after the other.
    pub(super) fn tell_all(&mut self, port: usize) {
        if self.ports[port].wire_free > self.now {
            return;
        }
        let mut due = std::mem::take(&mut self.due[port]);
        while due != 0 {
            let vl = due.trailing_zeros() as u8;
            due &= due - 1;
            self.say(port, vl, self.now);
        }
    }

    /// A flow-control packet has come.
    pub(super) fn hear(&mut self, port: usize) {
        self.absorb(port, self.now);
        if self.ports[port].starves() {
            self.set_starving(port, false);
            self.attempt(port);
        }
    }

    /// 65,536 symbol times have gone by.
    pub(super) fn refresh(&mut self, port: usize) {
        self.due[port] = ((1u32 << self.data_vls) - 1) as u16;
        self.tell(port);
        let next = self.now + self.rates[port].symbols(REFRESH_SYMBOLS);
        self.queue.push(next, event(REFRESH, port));
    }
}
