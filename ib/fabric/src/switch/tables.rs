//! What a manager sets in a switch: forwarding, SL2VL and arbitration tables, and which ports have a link.

use super::forwarding::{self, Forwarding};
use super::{FIRST_MULTICAST, LAST_MULTICAST, PortSet, Switch};
use crate::arbiter::{Arbiter, Tables};

impl Switch {
    /// The linear forwarding table: by LID, the port, or `NO_PORT`.
    pub fn set_linear(&mut self, table: Vec<u8>) {
        self.linear = Forwarding::new(table);
    }

    /// Has what is equal in the linear tables of all switches of a fabric lie in memory once.
    pub(crate) fn share_tables<'a>(switches: impl Iterator<Item = &'a mut Switch>) {
        forwarding::share(switches.map(|switch| &mut switch.linear));
    }

    /// The row of a multicast LID. False if that is none.
    pub fn set_multicast(&mut self, lid: u32, ports: PortSet) -> bool {
        if !(FIRST_MULTICAST..=LAST_MULTICAST).contains(&lid) {
            return false;
        }
        let row = (lid - FIRST_MULTICAST) as usize;
        if self.multicast.len() <= row {
            self.multicast.resize(row + 1, [0; 4]);
        }
        self.multicast[row] = ports;
        true
    }

    /// SL to VL for what goes from one port to another. False if there are no such ports.
    pub fn set_sl2vl(&mut self, input: u8, output: u8, map: [u8; 16]) -> bool {
        if input > self.ports || output > self.ports {
            return false;
        }
        let slots = usize::from(self.ports) + 1;
        if self.sl2vl.is_empty() {
            let plain: [u8; 16] = std::array::from_fn(|sl| self.plain_vl(sl as u8));
            self.sl2vl = vec![plain; slots * slots];
        }
        self.sl2vl[usize::from(input) * slots + usize::from(output)] = map;
        true
    }

    /// A port's VL arbitration tables. With one data VL there is nothing to arbitrate.
    pub fn set_arbitration(&mut self, port: u8, tables: &Tables) {
        if self.model.data_vls > 1 && port <= self.ports {
            self.arbiters.resize(self.outputs.len(), None);
            self.arbiters[usize::from(port)] = Some(Box::new(Arbiter::new(tables)));
        }
    }

    /// A port marks packets although it lacks credits: one to an adapter.
    pub fn set_victim_mask(&mut self, port: u8, on: bool) {
        if let Some(output) = self.outputs.get_mut(usize::from(port)) {
            output.victim_mask = on;
        }
    }

    /// A port's link is up, or has nobody at its other end: packets for it are dropped then.
    pub fn set_link(&mut self, port: u8, up: bool) {
        if let Some(output) = self.outputs.get_mut(usize::from(port)) {
            output.up = up;
        }
    }
}
